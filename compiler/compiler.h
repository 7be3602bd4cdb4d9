/* compiler: pcc. From text to a proved plan; the pipeline is one table in pipeline.c.
 *
 *   main.c         the command line
 *   commands.h     the subcommands: redistribute.c (axes.c reads its meshes and layouts), check.c
 *   pipeline.c     the table of passes; verification, time and dumps after each
 *   rows.h         losses row by row, where a last batch is filled up, and what an eval reports
 *   simplify.c     composites expanded, common and dead nodes removed, exact identities
 *   grad.c         gradients of the loss, optimizer updates, writes of the new states
 *   search.c       strategies that solvers find for the whole net, compared; solutions.h: what they find; pairs.h: products of Megatron's pairs; sides.h: operators side by side; improve.h, changes.h: what is near the best; budget.h: measures that keep a plan within a rank's memory
 *   stages.c       which stage of a pipeline runs each operator; stage_count.c: how many stages
 *   expand.c       replaces operators whose rows are split by operators that can be split so
 *   build.h        one program on its way: front, sharded, spmd, placement
 *   assign.c       strategies -> layouts of every operand, result, state and input (sharded.h); updates.c: updates of large states in parts
 *   partial.c      -O2: sums completed where that moves the fewest bytes; place.c: other conversions placed where their tensor is smallest
 *   recompute.c    forward values that are computed again for gradients; recompute_choice.c: which of them, for memory
 *   materialize.c  the SPMD graph, with conversions where a value is needed in another layout: in canonical form, or planned (-O2); convert.c, tree.c
 *   schedule.c     the order of steps; starts early, waits late; buckets.c: which gradients are reduced together; prefetch.c: when states are gathered
 *   memory.c       where every value lies; pack.c: offsets in the arena
 *   eval.c         the program eval: another graph over the same states
 *   decode.c       the programs generate and prompt: a text, place by place, or many places of it at once
 *   held.h         which values are in memory when; fits.c: whether a rank's memory is enough
 *   found.c        --write-hints: the strategies of a plan as hints
 *   asserts.c      what the parallel block asserts and forbids
 *   emit.c         the plan and its text; prove.c: its proof; write.c: its files
 *   oracle.h       what a program would cost with other strategies; timeline.h: how long a step takes on the machine
 *   dump.c         the IR of a rank as MindSpore writes it; the SPMD form
 *   warn.c         warnings about nets that compile
 *   explain.c      --explain: why a value has its layout; name.c: layouts as people read them
 *   diff.c         --diff: what two plans do differently, fused steps too; diff_report.c: as a page
 *   facts.c        what a program of a plan does, counted once for all reports
 *   stats.c        --stats and the one-line summary
 *   report.h       --report: the page of a plan
 */
#pragma once
#include "compiler/build.h"
#include "frontend/frontend.h"
#include "ir/copy.h"
#include "ir/file.h"
#include "ir/plan.h"
#include "proof/proof.h"
#include "strategies/strategies.h"

/* ---------------------------------------------------------------- options */

/* What the command line says. */
struct Options {
    const char *input, *output; /* the .dsl file; the plan's file */
    int optimize;               /* 0, 1, 2: see docs/ir.md */
    bool dump;                  /* --dump-ir */
    const char *dump_directory;
    int ndump_ranks; /* -1: all */
    const int *dump_ranks;
    bool prove, stats, stats_json;
    unsigned silenced;          /* -Wno-NAME: 1 << Warning */
    bool warnings_are_errors;   /* -Werror */
    bool verbose;               /* -v */
    const char *const *explain; /* --explain: names of values, parameters, inputs */
    int nexplain;
    const char *const *what_if; /* --what-if: hints */
    int nwhat_if;
    const char *hints_file;            /* --write-hints: a file for what was found; NULL: none */
    const char *report;                /* --report: a file for the page; NULL: none */
    bool report_source;                /* it has the text of the source */
    const char *command;               /* the command line, for people */
    const char *timeline;              /* --timeline: a file for the predicted step; NULL: none */
    bool no_plan;                      /* the plan is not written */
    ProofOptions proof;                /* how much pass prove shows */
    Pool *pool;                        /* threads that share long work; NULL: none. The results are the same */
    RedistributePolicy redistribution; /* what `collectives` asks for at -O2 */
    const Machine *machine;            /* --machine; NULL: the default */
    const char *machine_file;          /* the file that it was read from; NULL: none */
    Overrides overrides;
};

/* The machine that is planned for. */
static inline const Machine *options_machine(const Options *options) {
    return options->machine != NULL ? options->machine : &machine_cpu;
}
/* Whether decisions are recorded, and what hints can name. */
static inline bool options_explain(const Options *options) {
    return options->nexplain > 0 || options->report != NULL;
}

/* ---------------------------------------------------------------- a compilation */

enum { MAX_PASSES = 48 };

/* What searches within several limits of memory found (micro.c). */
typedef struct Searches Searches;
/* What was chosen of it: strategies and measures, and the parts of batches. */
typedef struct MicroBatches {
    int parts;                          /* 1: they stay whole; 0: they are what the net says */
    const struct SearchTaken *decision; /* search.h: of a net with these parts; NULL: it is searched */
    Searches *searches;                 /* from which this was chosen */
    int again;                          /* how many other choices came before, which did not hold with all batches of a step */
    int64_t whole_bytes;                /* that a rank needs in the plan of whole batches */
    double whole_s;                     /* its step */
    bool too_large;                     /* nothing fits: the error is about these */
    int64_t bytes;                      /* that a rank needs, as it was found */
    int64_t saved_bytes;                /* on a rank, once it is compiled */
    double seconds;                     /* that a step is predicted to take more */
} MicroBatches;

/* A pipeline that `stages = auto` has tried, and what it costs. */
typedef struct StageTried {
    int stages, chunks;
    int64_t aim;        /* bytes that the search keeps within; 0: the limit */
    bool below;         /* lower limits were looked at */
    int parts, batches; /* into which each batch is divided, beside what the net says; batches of a step then */
    bool compiles;      /* else nothing more is known of it */
    const char *why;    /* of one that does not: the error, if there is one */
    double step_s;
    double idle;                        /* the part of a step in which no kernel runs, on average of the stages */
    int64_t bytes, over_bytes;          /* of a rank; beyond what it may need */
    int64_t workspace_bytes;            /* of these, which parts of a batch do not reduce */
    int broken;                         /* demands of the parallel block */
    bool searched;                      /* with strategies found for it alone */
    const struct SearchTaken *decision; /* strategies and measures; NULL: none */
} StageTried;
typedef struct StageCount {
    StageTried taken;
    bool divides;                /* it chooses the parts of batches, nothing else does */
    VEC(StageTried) best, tried; /* of each number of stages; all */
    int nleft;                   /* that were not tried: too much work */
    struct Counting *open;       /* one stage is compiled first; then others are tried. NULL: they were */
} StageCount;
typedef struct Counting Counting; /* stage_count.c */

/* From a net to a plan; everything lives in the arena. */
typedef struct Compilation {
    Arena *arena;
    const Options *options;
    Diags *diags;
    Error error; /* of what fails without diagnostics */
    uint64_t net_hash;
    VEC(Build *) programs; /* in the plan's order: train, and eval where there is one */
    Plan plan;             /* emit */
    Text text;             /* emit, prove: the plan's bytes; on the heap */
    Text side;             /* emit: its long literals, for the file beside it; on the heap */
    Proof proof;           /* prove */
    int npasses;           /* run so far, with the time each took */
    struct {
        const char *name;
        double seconds;
    } pass[MAX_PASSES];
    Source read;              /* parse: the text */
    MicroBatches *micro;      /* taken for memory; NULL: not asked */
    Searches *searches;       /* micro_choose; NULL: it was not asked */
    StageCount *stages;       /* `stages = auto`: what was taken; NULL: not asked */
    StageCount *stages_again; /* it is compiled again, with these; NULL: it is not */
    MicroBatches *again;      /* pass fits: it is compiled again, with these; NULL: it is not */
    double seconds;           /* of all passes */
    double verify_seconds;    /* of the verification after passes */
} Compilation;

static inline Build *program_train(const Compilation *c) {
    return c->programs.at[0];
}
Build *program_of_kind(const Compilation *c, ProgramKind kind); /* for the longest texts; NULL: there is none */
static inline Build *program_eval(const Compilation *c) {
    return program_of_kind(c, PROGRAM_EVAL);
}
static inline Build *program_generate(const Compilation *c) {
    return program_of_kind(c, PROGRAM_GENERATE);
}
static inline Build *program_prompt(const Compilation *c) {
    return program_of_kind(c, PROGRAM_PROMPT);
}

/* Where batches are taken in parts, makes b->front.whole, the net of whole batches, to compare with. */
bool parse_whole(Build *b, const Source *source, const Overrides *of);

/* ---------------------------------------------------------------- passes: false after diagnostics, or with b->error, c->error */

bool pass_rows(Build *b);
bool pass_simplify(Build *b);
bool pass_precision(Build *b);
bool pass_autodiff(Build *b);
bool pass_prune(Build *b);
bool pass_follow(Build *b);
bool pass_propagate(Build *b);
bool pass_search(Build *b);
bool pass_expand(Build *b);
bool pass_stages(Build *b);
bool pass_assign(Build *b);
bool pass_updates(Build *b);
bool pass_warn(Build *b);
bool pass_reshard(Build *b);
bool pass_partial(Build *b);
bool pass_place(Build *b);
bool pass_recompute(Build *b);
bool pass_collectives(Build *b);
bool pass_schedule(Build *b);
bool pass_fuse(Build *b);
bool pass_views(Build *b);
bool pass_memory(Build *b);
bool pass_emit(Compilation *c);
bool pass_fits(Compilation *c);
bool pass_asserts(Compilation *c);
bool pass_prove(Compilation *c);
bool pass_write(Compilation *c);

/* Runs the passes; text is the source. False: c->error.code, or EXIT_REJECTED with diagnostics in c->diags. */
bool compile(Compilation *c, Arena *arena, const Options *options, Diags *diags, const char *text, size_t n);
void compilation_finish(Compilation *c); /* frees the plan's text */
/* A program whose graph the frontend made. */
void build_init(Build *b, const char *name, Arena *arena, const Options *options, Diags *diags);
/* One that is only tried: nothing is dumped, and it has diagnostics of its own, without warnings. Returns its options, a copy of these. */
Options *build_init_tried(Build *b, const char *name, Arena *arena, const Options *options);
/* The passes of one program from `begin` (NULL: simplify) to the last before `end` (NULL: all), verified, without dumps. For tests, and for what tries a program. */
bool build_run(Build *b, bool (*begin)(Build *b), bool (*end)(Build *b));

/* ---------------------------------------------------------------- stages */

/* A point at which the program is shown: which of its parts, and how. */
typedef enum { SHOW_FRONT, SHOW_SHARDED, SHOW_SPMD } Shown;
typedef struct Stage {
    const char *name;        /* in file names */
    bool (*after)(Build *b); /* the pass */
    Shown shown;
    bool local; /* shapes of a rank's parts, not of whole tensors */
} Stage;

/* ---------------------------------------------------------------- search.c */

/* "527.9 ms predicted, at most 1.3 % above the best of this model, on the mesh 2 x 4" */
void search_print(Text *text, const SearchResult *result);

/* ---------------------------------------------------------------- outputs.c */

/* What a program reads beside its text: rows of data, initial values. */
void graph_reads(FileUses *uses, const Graph *graph, Arena *arena);
/* Whether no file that will be written (-o, the file of its literals, the dumps) was read for it or is named by the plan. After parse. */
bool outputs_check(Compilation *c, const Stage *stages, int nstages);

/* ---------------------------------------------------------------- emit.c */

/* Makes b->program, the steps of a program that has been through all passes, and b->facts. */
void build_emit(Build *b);

/* ---------------------------------------------------------------- fits.c */

/* Bytes of a rank that trains: an eval has the states and the arena of train, and inputs of its own. What generates runs alone, and counts for no limit. */
int64_t bytes_needed(const Compilation *c);
/* Of these, what evals, and programs for shorter texts, need beside train: their inputs, and by how much their arenas are larger. */
int64_t evals_bytes(const Compilation *c);
/* micro.c: whether parts of a batch are the compiler's to choose. */
bool parts_open(const Compilation *c);
/* What is faster than the present plan, which needs so much, or fits where that does not; NULL: nothing. */
MicroBatches *micro_choose(Compilation *c, int64_t needed, int64_t limit);
/* The next best choice, where the last one, made by the first two parts of a batch, needs so much with all parts. NULL: none is left. */
MicroBatches *micro_next(Compilation *c, int64_t needed);
/* Where nothing fits: what was found to need the least, if that is less than the present plan needs; NULL otherwise. */
MicroBatches *micro_least(Compilation *c, int64_t needed);
/* eval.c: whether a limit or an assertion asks how much memory a program needs. */
bool counts_memory(const Build *train);
/* Has trials of train compiled with its eval too. The eval, after pass rows, stays as it is. False: it does not compile. */
bool eval_count(Build *train, const Build *eval);
/* pipeline.c: what pass search takes, by this search (NULL: as the net says), for the net with batches in so many parts (0: as it says), judged by its first two batches, of plans faster than most_s seconds; aim: bytes to keep within, 0: the
 * limit. NULL: nothing may be taken so. */
const struct SearchTaken *parts_decide(const Compilation *c, const char *search, int parts, double most_s, int64_t aim);
/* stage_count.c: whether the net asks for the best number of stages, which is not known yet. */
bool stage_count_asked(const Compilation *c);
struct BuildCost; /* oracle.h */
/* One stage, which such a net is compiled with first. */
StageCount *stage_count_one(Compilation *c);
/* Then, given what that costs (NULL: it does not compile) and needs: the pipeline with the fastest predicted step, of those that fit into the memory and keep the demands. NULL: one stage is the best. */
StageCount *stage_count_more(Compilation *c, const struct BuildCost *cost, int64_t needed);
/* The same for a net that says nothing of stages and does not fit: NULL where it fits with no number of stages. */
StageCount *stage_count_fitting(Compilation *c);
void stage_count_say(Compilation *c); /* -v */
/* "4 of 16 batches in 2 chunks, the best of 9 tried: 1 12.3 ms; 2 of 4 batches 10 ms, ..." */
void stage_count_print(Text *text, Compilation *c);
/* pipeline.c: sets as->decision, what pass search takes for program train in such a pipeline; NULL: nothing, propagate decides. search: by which search, NULL: as the net says. False: it cannot be compiled so,
 * as->why. */
bool stages_decide(const Compilation *c, StageTried *as, const char *search);
/* What the program costs in such a pipeline, with its decision, and how much of a step its ranks compute nothing. False: it cannot be compiled so. */
bool stages_cost(const Compilation *c, const StageTried *as, struct BuildCost *cost, double *idle);
/* pipeline.c: bytes that each of nranks ranks would need to train, with quickly found strategies and all measures; 0: it cannot be compiled so. */
int64_t ranks_bytes(const Compilation *c, int nranks, int64_t limit);
/* Adds to a diagnostic: notes, what fills the memory of a rank; a hint, what would help where this many bytes are missing. */
void explain_need(const Compilation *c, int64_t missing);

/* ---------------------------------------------------------------- found.c */

/* The strategies of program train, and the layouts of inputs and states that are choices, as a file with a `hints found` block. False with c->error. */
bool hints_print(Text *text, Compilation *c);

/* ---------------------------------------------------------------- write.c */

/* The path of the file of the plan's long literals, which the plan names. In the arena. */
const char *plan_side_path(Arena *arena, const char *plan);

/* ---------------------------------------------------------------- eval.c */

/* Makes *e the program eval, of a graph that frontend_eval made: over the states of the net, by their names. False after a diagnostic: it has a state that the net lacks,
 * or of another type. */
bool eval_create(Build *e, const Build *train, Graph *graph, const LossRows *rows);

/* A program over the states of train, of a graph that has them. */
void follower_init(Build *b, const char *name, ProgramKind kind, const Build *train, const Graph *graph);
/* Gives the graph the states of train, by their names. False after a diagnostic that one differs; where: its word for the graph. */
bool take_states(const Build *train, Graph *graph, const char *where, const char *hint);

/* ---------------------------------------------------------------- shorter.c */

/* Adds to c->programs those that do what `of`, the last of them, does for shorter texts, where the data of its net say `length = [32, 64, 128]`. */
bool shorter_parse(Compilation *c, const Build *of, const Overrides *overrides);

/* ---------------------------------------------------------------- decode.c */

/* Turns the forward graph of a whole text into that of so many consecutive places: of one with a report `logits`, of more with the caches of these places and
 * nothing else. False after a diagnostic: a place depends on others in a way that is not known. */
bool graph_decode(Graph *graph, const Generation *generation, int64_t count, Diags *diags);
/* Makes *g the program generate, of a graph that frontend_generate made, and gives this one the states of train. False after a diagnostic. */
bool generate_create(Build *g, const Build *train, Graph *graph, const Generation *generation);
/* Makes *p the program prompt, over the states and caches of generate, of the graph as generate_create has left it. *none: there is nothing that it could do. */
bool prompt_create(Build *p, const Build *generate, const Graph *graph, const Generation *generation, bool *none);

/* ---------------------------------------------------------------- warn.c */

void warn_note_hints(Build *b); /* after rows */

/* ---------------------------------------------------------------- simplify.c, expand.c, grad.c, accumulate.c: on any graph */

enum { SIMPLIFY_EXPAND = 1, SIMPLIFY_IDENTITIES = 2, SIMPLIFY_SHARE = 4, SIMPLIFY_DEAD = 8, SIMPLIFY_ALL = 15 };
/* Rewrites the graph: expands composites, turns x * 1 and the like into x, merges equal nodes, removes unused ones. Ids change. */
void graph_simplify(Graph *graph, int what);
/* Replaces every node that template_of has a template for by the nodes that this makes; templates take operands of any graph. These nodes are split as their operands lie
 * where the replaced one has a strategy. False: no node has a template, and the graph stays as it is. */
typedef ExpandFn *TemplateFn(const Graph *graph, int node);
typedef struct Expanded {
    const int *node;   /* per node before: the one that stands for it */
    const int *origin; /* per node after: the one before that it, maybe with others, stands for */
} Expanded;
bool graph_expand(Graph *graph, TemplateFn *template_of, Expanded *expanded); /* expanded may be NULL */
/* Adds the gradient of the loss by every trainable state that it depends on, the optimizer's update of it and the writes. Sets nforward. */
void graph_differentiate(Graph *graph);
int update_gradient(const Graph *graph,
                    const Node *update); /* the gradient that an update takes, before it was compressed, unscaled, clipped: a value */
/* Whether a node changes a whole gradient, its operand 0, before anything takes it: it is compressed and widened again, or the loss's scale is taken out. */
bool gradient_changes(const Graph *graph, const Node *node);
/* Whether a node takes a whole gradient, of all batches of a step: it changes it, or clips it, or is a part of its norm, or of the update. */
bool gradient_is_whole(const Graph *graph, const Node *node);
int graph_as_type(Graph *graph, int value, DType dtype, Span span); /* the value in another element type: itself, or of a cast */
/* accumulate.c: which nodes depend on an input; in the graph's arena. */
bool *graph_varies(const Graph *graph);
/* Begins *copy, and adds copies of the forward nodes that vary, on inputs of their own, for one more batch of a step. What is shared stands for itself. The
 * copies' origins are the forward nodes. */
void graph_copy_forward(GraphCopy *copy, Graph *graph, const bool *varies, int micro);
/* Per node: it is computed of constants alone. In the graph's arena (stages.c). */
bool *graph_constant_nodes(const Graph *graph);
/* Gives gradient nodes whose origin is a copy the origin of that copy. */
void graph_origins_follow(Graph *graph);

/* ---------------------------------------------------------------- updates.c */

/* Gives updates, their slots, and what is done to their gradients the layouts of their states, or parts of them. Before: gradients have strategies. */
void updates_assign(Build *b, bool in_parts);

/* ---------------------------------------------------------------- dump.c, stats.c */

/* Writes the dumps of a stage under b->dump_directory. number: of the stage, counted from 0. */
bool dump_stage(Build *b, const Stage *stage, int number);
/* The file of one of them: of the k-th of the ranks that are dumped, behind those the SPMD form. NULL: no more. */
const char *dump_file(const Build *b, const Stage *stage, int number, int k);
/* What rank sees, in MindSpore's form (docs/ir.md). */
void dump_rank(Text *text, const Build *all, const Stage *stage, int rank);
void stats_print(Text *text, Compilation *c);
/* "net.plan: 8 ranks, 42 steps, 5 communications, 1.2 KiB/rank/step sent, proved in 0.8 ms" */
void stats_summary(Text *text, Compilation *c);
void stats_json(Text *text, Compilation *c); /* one JSON object */
