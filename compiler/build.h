/* build: one program of a plan on its way from the net to steps. Each part is written by one stage and only read after it.
 *
 *   front      parse .. expand       the unsharded net, differentiated, with the strategies of its forward operators
 *   sharded    assign .. place       a strategy for every node, a layout for every operand, result, state and input (sharded.h)
 *   spmd       reshard, collectives  what every rank computes, with the conversions between layouts as nodes
 *   placement  schedule, memory      the order of steps, and where every value lies
 *
 * Everything lives in one arena. Layouts are interned in the graphs' one table: equal layouts are one pointer in all four parts. */
#pragma once
#include "frontend/frontend.h"
#include "ir/plan.h"
#include "search/model.h"
#include "strategies/strategies.h"

typedef struct Options Options; /* compiler.h */

/* A strategy that the user wrote, and the operator that has it. */
typedef struct NotedHint {
    const Hint *hint;
    const char *name;
} NotedHint;

/* Why an operator is in its stage: in all, as it is computed of constants alone; a hint; hints before and after it in the order of operators; the cuts. */
typedef enum { STAGE_OF_ALL, STAGE_ASKED, STAGE_BETWEEN, STAGE_CUT } StageCause;
typedef struct StageWhy {
    StageCause cause;
    int before, behind; /* STAGE_BETWEEN: nodes of front.chosen */
} StageWhy;

/* What pass search found. */
typedef struct SearchResult {
    const char *how; /* the search whose solution was taken */
    double seconds;  /* of a step: of the plan (oracle.h), or, */
    bool of_model;   /* where it was not compiled, in its model */
    double bound;    /* no choice on the meshes tried takes less in the model, though a plan of one may; 0: none is known */
    Mesh mesh;       /* on which that is; no axes: on none */
    int nmeshes;     /* on which dynamic_programming solved the model */
    int nchanges;    /* taken near the best of these */
    int ntried;      /* solutions that were compared */
    int64_t work;    /* entries of tables looked at */
    int nmoves;      /* conversions planned for the model */
    int ncompiled;   /* programs compiled to see what they cost */
} SearchResult;

/* Measures that save memory (budget.h), in the order in which they were applied, and what each changed. */
enum { MAX_MEASURES = 16 };
typedef struct Taken {
    int measure;
    double share;        /* of what it can change; 0: all */
    int64_t saved_bytes; /* of a rank */
    double seconds;      /* that a step is predicted to take more */
    const bool *marks;   /* recompute: per node of front.chosen, whether it is marked; else NULL */
    int64_t bytes;       /* the value of a setting that was chosen: cut_bytes, bucket_bytes, shard_bytes; else 0 */
    const char *said;    /* as the user would say that: "bucket = 1 MiB"; else NULL */
    const char *what;    /* recompute: the kinds of values, "layer.*.a, layer.*.b" */
} Taken;
typedef struct Measures {
    int n;
    bool of_another; /* what each saves and costs is of another plan (budget_again) */
    Taken taken[MAX_MEASURES];
} Measures;

typedef struct Front {
    LossRows rows; /* how rows count, for pass `rows` */
    Graph *whole;  /* where batches are taken in parts, the net of whole ones, for pass `rows`; else NULL */
    Graph lowered; /* as the net says it, after pass `rows`: the plan must compute its loss */
    Graph graph;   /* simplified, differentiated, expanded; strategies on its forward nodes */
    Graph chosen;  /* the graph before expand, of the operators that strategies were chosen for */
    /* Per node of graph, after pass recompute of sharded.graph: the node of chosen that it, maybe with others, stands for. NULL: they are the same. */
    const int *chosen_node;
    Propagation propagation; /* of chosen */
    SearchResult *search;    /* what pass search found; NULL: it did not look */
    /* Before pass search: what it takes over instead of searching (search.h); NULL: nothing. After it: what it has taken. */
    const struct SearchTaken *decision;
    int64_t aim_bytes;         /* pass search: what a rank may need; 0: the limit of memory */
    bool two_axes;             /* pass search: dynamic_programming looks at meshes of no more than two, as auto does, whoever asks for it */
    double most_s;             /* pass search: a step that takes longer is not wanted, so measures for it are not looked for; 0: no bound */
    int64_t batches;           /* of a step, where the graph has only the first few, to see what so many take (oracle.c); 0: it has all */
    Measures *measures;        /* that were taken for memory; NULL: none was needed */
    const Layout **out_layout; /* per node of graph: the layout that the user asked of its result, or NULL */
    StageWhy *stage_why;       /* per node of chosen; NULL: there are no stages, or the program follows another */
    double stage_s;            /* seconds of a batch in the slowest stage, by what the cuts weigh */
    bool *followed;            /* of a program that follows another: per node of chosen, it has the other's strategy; else NULL */
    VEC(NotedHint) hints;      /* as written: passes may drop nodes */
    Paths paths;               /* for --explain: what hints can name */
    VEC(const char *) written; /* for --explain: names of the net's values */
} Front;

/* The sharded graph. A node takes its operand in[i] in the layout need[node][i], in whichever layout that value was made: conversions are not nodes here. assign makes
 * it; the passes of -O2 change strategy, need and made; sharded_verify holds after each. */
typedef struct Sharded {
    /* The unsharded graph, with the strategies and layouts that assign gave: of states and inputs, and of results as strategies leave them. */
    Graph graph;
    const Strategy **strategy; /* per node, as it runs; NULL: whole */
    /* Per node and operand: the layout in which it is taken; partial over digits over which the value is partial, or none. */
    const Layout *(*need)[MAX_IN];
    const Layout **made;        /* per value: the layout in which its node leaves it, partial sums included */
    const Layout **home;        /* per value: the layout into which the canonical form converts it at once; never partial */
    bool recomputes;            /* there are copies of forward nodes (recompute.c) */
    const Layout **report_need; /* the layout in which the k-th of what is reported is (graph_report) */
    bool *regather;             /* per value: what is gathered of it is dropped after a pass of the step, and gathered again in the next */
    int *phase;                 /* per node: 0 the forward pass, 1 its backward pass, 2 the forward pass of the step's next batch, .. */
} Sharded;

typedef struct Spmd {
    Graph graph;          /* the values of the sharded graph (ids kept), each as it is made, and converts with values of their own */
    VEC(int) whole_node;  /* per node the sharded graph's, -1: a convert */
    VEC(int) whole_value; /* per value the sharded graph's */
    int64_t *box_bytes;   /* per value: bytes of the largest box of any rank, which is the room that it gets on every rank */
} Spmd;

/* One entry of the order of execution: a node of the SPMD graph, or the wait of a communication whose start is an earlier entry. */
typedef struct Item {
    int node;
    bool wait;
    int bucket; /* of gradients that are reduced together, from 1; 0: none */
    int fused;  /* fused step that it is a member of, from 1; 0: none */
} Item;

/* Where a value of the SPMD graph lies; the fields are Instance's, but for what a view is a view of. */
typedef struct Location {
    Place place;
    int64_t at;
    int version;
} Location;

typedef struct Placement {
    int first_rank, last_rank; /* that do these steps */
    VEC(Item) order;
    int *view;           /* views: per value of spmd the one that it is a view of, -1: none */
    Location *location;  /* per value of spmd; NULL before memory */
    int *instance;       /* emit: per value of spmd its instance in the plan, -1: none */
    int64_t arena_bytes; /* of a rank */
} Placement;

/* The first and the last item of the fused step that an item is a member of; of any other item itself. */
static inline void fused_items(const Placement *placement, int item, int *first, int *last) {
    const Item *order = placement->order.at;
    *first = *last = item;
    if (order[item].fused == 0) return;
    while (*first > 0 && order[*first - 1].fused == order[item].fused)
        --*first;
    while (*last + 1 < placement->order.n && order[*last + 1].fused == order[item].fused)
        ++*last;
}

typedef struct Build {
    const char *name; /* of the program: "train", "eval" */
    ProgramKind kind;
    bool shorter; /* the program of its kind for shorter texts (shorter.c) */
    Arena *arena;
    const Options *options;
    Diags *diags;
    Error error;                 /* of a pass that returns false without diagnostics */
    const struct Build *follows; /* whose strategies and layouts of states this program takes over; NULL: none */
    struct Build *eval;          /* of train, where memory counts (eval_count): its eval as it is before pass follow; NULL: there is none */
    bool tried;                  /* compiled only to see its cost: if it is taken, it is compiled again and then verified between passes */
    const char *dump_directory;
    Front front;
    Sharded sharded;
    Spmd spmd;
    Placement placement; /* of the role that a pass works on (roles.h); behind it the first one's */
    Placement *role;     /* one for each stage, else one: from pass schedule on */
    int nroles;
    struct ConversionMemo *memo; /* convert.c: conversions already planned */
    Program *program;            /* build_emit: its steps */
    struct Facts *facts;         /* build_emit: what these do (facts.h), of the role whose ranks need the most memory */
    struct Facts *role_facts;    /* of each role */
    struct Timeline *timeline;   /* build_time: how long they take (oracle.h), of the same role */
    struct Timeline *role_timelines;
    struct ExplainIndex *explained; /* explain_index; NULL: nothing was explained */
} Build;

/* The node of front.chosen that a node of the graph, maybe with others, stands for. After expand. */
static inline int chosen_of(const Build *b, int node) {
    return b->front.chosen_node != NULL ? b->front.chosen_node[node] : node;
}
