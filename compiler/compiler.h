/* compiler: pcc. From text to a proved plan; the pipeline is one table in pipeline.c.
 *
 *   main.c         the command line
 *   commands.h     the subcommands: redistribute.c (axes.c reads its meshes and layouts), check.c
 *   pipeline.c     the table of passes; verification, time and dumps after each
 *   simplify.c     composites expanded, common and dead nodes removed, exact identities
 *   grad.c         gradients of the loss, optimizer updates, writes of the new states
 *   expand.c       operators along rows that are split, in operators that can be split so
 *   assign.c       strategies -> layouts of every operand, result, state and input
 *   reshard.c      conversions where a value is needed in another layout, in canonical form
 *   localize.c     boxes: what one rank holds and computes
 *   partial.c      -O2: sums completed where that moves the fewest bytes; place.c: other conversions placed where their tensor is smallest
 *   collectives.c  -O2: the conversions of a value replanned together; flow.h, flow.c, tree.c: what these passes work on
 *   schedule.c     the order of steps; starts early, waits late; buckets.c: which gradients are reduced together
 *   memory.c       where every value lies
 *   eval.c         the program eval: another graph over the same states, through the same passes
 *   emit.c         the plan and its text; prove.c: its proof; write.c: its files
 *   dump.c         the IR of a rank as MindSpore writes it; the SPMD form
 *   warn.c         what deserves a word in a net that compiles
 *   explain.c      --explain: why a value has its layout; name.c: layouts as people read them
 *   diff.c         --diff: what two plans do differently
 *   stats.c        --stats and the one-line summary; json.c: a writer of JSON
 */
#pragma once
#include "frontend/frontend.h"
#include "ir/file.h"
#include "ir/plan.h"
#include "proof/proof.h"
#include "strategies/strategies.h"

/* ---------------------------------------------------------------- options */

/* What the command line says. */
typedef struct Options {
    const char *input, *output; /* the .dsl file; the plan's file */
    int optimize;               /* 0, 1, 2: see docs/ir.md */
    bool dump;                  /* --dump-ir */
    const char *dump_directory;
    int ndump_ranks; /* -1: all */
    const int *dump_ranks;
    bool prove, stats, stats_json;
    unsigned silenced; /* -Wno-NAME: 1 << Warning */
    bool warnings_are_errors; /* -Werror */
    bool verbose;             /* -v */
    const char *const *explain; /* --explain: names of values, parameters, inputs */
    int nexplain;
    bool no_plan; /* the plan is not written */
    ProofOptions proof;                /* how much pass prove shows */
    bool whole_updates;                /* --whole-updates: never update a large state in parts that are then gathered */
    RedistributePolicy redistribution; /* what `collectives` asks for at -O2 */
    const Machine *machine;            /* --machine; NULL: the default */
    const char *machine_file;          /* the file that it was read from; NULL: none */
    Overrides overrides;
} Options;

/* ---------------------------------------------------------------- the program of all ranks */

/* One entry of the order of execution: a node of the SPMD graph, or the wait of a communication whose start is an earlier entry. */
typedef struct Item {
    int node;
    bool wait;
    int bucket; /* of gradients that are reduced together, from 1; 0: none */
} Item;

/* Where a value of the SPMD graph lies; the fields are Instance's. */
typedef struct Location {
    Place place;
    int64_t at;
    int version;
} Location;

enum { MAX_PASSES = 24 };

/* A strategy that the user wrote, and the operator that has it. */
typedef struct NotedHint {
    const Hint *hint;
    const char *name;
} NotedHint;

/* One compilation: everything lives in the arena. Passes read what earlier ones wrote, in the order of the table in pipeline.c. */
typedef struct Compilation {
    Arena *arena;
    const Options *options;
    Diags *diags;
    Error error;        /* of a pass that returns false without diagnostics */
    const char *source; /* the text of options->input, owned by the caller */
    size_t source_bytes;

    Graph graph;                   /* parse .. assign: the unsharded graph */
    uint64_t net_hash;             /* parse */
    Graph lowered;                 /* simplify: the graph before it, whose loss the plan must compute */
    VEC(NotedHint) hints;          /* parse: passes may drop nodes */
    Paths paths;                   /* parse, for --explain: what hints can name */
    VEC(const char *) parsed;      /* parse, for --explain: names of the net's values */
    Propagation propagation;       /* propagate; out_layout is of graph, decision of chosen */
    Graph chosen;                  /* expand: the graph before it, of the operators that strategies were chosen for */
    const int *chosen_node;        /* expand: per node of graph the one of chosen that it, maybe with others, stands for; NULL: they are the same */
    const Layout **home;           /* assign: per value, the layout that it is brought into once it is computed; never partial */
    const Layout *(*need)[MAX_IN]; /* assign: per node and operand, the layout that the node's strategy asks for */
    const Layout **report_need;    /* assign: the layout in which the k-th of what is reported is (graph_report) */

    Graph spmd;                  /* reshard: the same values (ids kept) with layouts, and convert nodes with values of their own */
    VEC(int) whole_node;         /* reshard: per node of spmd the graph's node, -1: a convert */
    VEC(int) whole_value;        /* reshard: per value of spmd the graph's value */
    bool localized;              /* localize: from here a rank's view shows local shapes */
    int64_t *box_bytes;          /* localize, collectives: per value of spmd, bytes of the largest box of any rank */
    struct ConversionMemo *memo; /* reshard.c: conversions already planned */
    struct Flow *flow;           /* partial .. collectives: needs and results without the converts between (flow.h) */

    VEC(Item) order;     /* schedule */
    Location *location;  /* memory: per value of spmd */
    int64_t arena_bytes; /* memory: of a rank */

    struct Compilation *eval; /* parse: the program eval, NULL: there is none; eval: up to where train is */
    bool *followed;           /* of the program eval, between prune and propagate: per node of chosen, its strategy is that of program train; else NULL */

    Plan plan;   /* emit */
    Text text;   /* emit, prove: the plan's bytes; on the heap */
    Text side;   /* emit: its long literals, for the file beside it; on the heap */
    Proof proof; /* prove */

    int npasses; /* passes run so far, with the time each took */
    struct {
        const char *name;
        double seconds;
    } pass[MAX_PASSES];
    double seconds;        /* of all of them */
    double verify_seconds; /* of the verification after them */
} Compilation;

/* The node of c->chosen that a node of c->graph, maybe with others, stands for. After expand. */
static inline int chosen_of(const Compilation *c, int node) {
    return c->chosen_node != NULL ? c->chosen_node[node] : node;
}

/* ---------------------------------------------------------------- passes: false after diagnostics or with c->error */

bool pass_parse(Compilation *c);
bool pass_simplify(Compilation *c);
bool pass_autodiff(Compilation *c);
bool pass_prune(Compilation *c);
bool pass_propagate(Compilation *c);
bool pass_expand(Compilation *c);
bool pass_assign(Compilation *c);
bool pass_reshard(Compilation *c);
bool pass_localize(Compilation *c);
bool pass_partial(Compilation *c);
bool pass_place(Compilation *c);
bool pass_collectives(Compilation *c);
bool pass_schedule(Compilation *c);
bool pass_memory(Compilation *c);
bool pass_eval(Compilation *c);
bool pass_emit(Compilation *c);
bool pass_prove(Compilation *c);
bool pass_write(Compilation *c);

/* Runs the table; text is the source. False: c->error.code, or EXIT_REJECTED with diagnostics in c->diags. */
bool compile(Compilation *c, Arena *arena, const Options *options, Diags *diags, const char *text, size_t n);
void compilation_finish(Compilation *c); /* frees the plan's text */

/* ---------------------------------------------------------------- outputs.c */

/* What a program reads beside its text: rows of data, initial values. */
void graph_reads(FileUses *uses, const Graph *graph, Arena *arena);
/* Whether all that will be written is nothing that was read for it or that the plan names: -o, the file of its literals, the dumps. After parse. */
bool outputs_check(Compilation *c, const char *const *stages, int nstages);

/* ---------------------------------------------------------------- write.c */

/* The file of the plan's long literals, of which prun knows the name. In the arena. */
const char *plan_side_path(Arena *arena, const char *plan);

/* ---------------------------------------------------------------- eval.c */

/* Gives a graph that frontend_eval made the states of the net, by their names. False after a diagnostic: it has one that the net has not, or of another type. */
bool eval_states(Compilation *c, Graph *graph);
/* The compilation of such a graph, beside c. */
Compilation *eval_create(const Compilation *c, Graph *graph);
/* Between prune and propagate: the states of train, and its strategies. */
bool eval_prepare(Compilation *e, const Compilation *c);
bool eval_failed(Compilation *c); /* false; c->error says what failed in c->eval */

/* ---------------------------------------------------------------- warn.c */

void warn_note_hints(Compilation *c); /* after parse */
void warn_all(Compilation *c);        /* after assign: no-gradient, no-effect, uneven, replicated */

/* ---------------------------------------------------------------- simplify.c, grad.c, accumulate.c: on any graph */

enum { SIMPLIFY_EXPAND = 1, SIMPLIFY_IDENTITIES = 2, SIMPLIFY_SHARE = 4, SIMPLIFY_DEAD = 8, SIMPLIFY_ALL = 15 };
/* Rewrites the graph: composites into their expansion, x * 1 into x and the like, equal nodes into one, unused nodes away. Ids change. */
void graph_simplify(Graph *graph, int what);
/* Empties a graph's nodes and values, with room for as many: rebuilt graphs are large, and growing them would leave copies behind. */
void graph_reserve(Graph *graph, int nnodes, int nvalues);
void graph_release(const Graph *graph); /* its nodes and values are used no more */
/* Adds the gradient of the loss by every trainable state that it depends on, the optimizer's update of it and the writes. Sets nforward. */
void graph_differentiate(Graph *graph);
int update_gradient(const Graph *graph, const Node *update); /* the gradient that an update takes, before it was clipped: a value */
/* accumulate.c: which nodes depend on an input; in the graph's arena. */
bool *graph_varies(const Graph *graph);
/* Adds copies of the forward nodes that vary, on inputs of their own, for one more batch of a step. copy[v]: of each forward value, itself where it is
 * shared. Their origins are the forward nodes. */
void graph_copy_forward(Graph *graph, const bool *varies, int micro, int *copy);
/* Gradient nodes whose origin is a copy get that one's origin. */
void graph_origins_follow(Graph *graph);

/* ---------------------------------------------------------------- reshard.c: rewriting the SPMD graph */

/* An SPMD graph being rebuilt: nodes are copied in order, converts are added before their first user. */
typedef struct Rebuild {
    Compilation *c;
    Graph old;                  /* what is copied from: c->graph or the former c->spmd */
    const int *whole_node;      /* per old node: the graph's; NULL: old is c->graph */
    int *node;                  /* per old node: its new id, -1 not yet copied */
    struct ConvertIndex *index; /* converts made: (source, kind, layout) -> value */
} Rebuild;
/* Starts c->spmd anew from `old` (c->graph, or a copy of the former c->spmd), whose values up to nvalues keep their ids. */
void rebuild_begin(Rebuild *r, Compilation *c, const Graph *old, int nvalues);
void rebuild_node(Rebuild *r, int node, const int *in);                       /* copies an old node, with these operands */
int rebuild_convert(Rebuild *r, int source, CommKind kind, const Layout *to); /* the value; equal converts are one */
/* The conversion of a value of this type, memoised. Asserts that there is one: targets here never owe sums. */
const Conversion *conversion_plan(Compilation *c, const Layout *from, const Layout *to, const TensorType *type, RedistributePolicy policy);
/* What a rank receives and sends in one step, and the least that it must receive; elements, memoised. */
typedef struct StepTraffic {
    Traffic received, sent, bound;
} StepTraffic;
StepTraffic convert_traffic(Compilation *c, CommKind kind, const Layout *from, const Layout *to, const TensorType *type);
/* The digits along which the ranks of a collective differ, major first: all that its source and target treat differently. Their number. */
int convert_digits(CommKind kind, const Layout *from, const Layout *to, Digit *digits, int *dim);

/* ---------------------------------------------------------------- dump.c, stats.c */

/* Writes the stage's dumps under options->dump_directory. number: of the stage, counted from 0. */
bool dump_stage(Compilation *c, const char *stage, int number);
/* The file of one of them: of the k-th of the ranks that are dumped, behind those the SPMD form. NULL: no more. */
const char *dump_file(const Compilation *c, const char *stage, int number, int k);
/* What rank sees, in MindSpore's form (docs/ir.md). */
void dump_rank(Text *text, const Compilation *c, const char *stage, int rank);
void stats_print(Text *text, Compilation *c);
/* "net.plan: 8 ranks, 42 steps, 5 communications, 1.2 KiB/rank/step sent, proved in 0.8 ms" */
void stats_summary(Text *text, Compilation *c);
/* Bytes that the busiest rank sends per step: Program.sent_bytes. */
int64_t stats_sent_bytes(Compilation *c);
