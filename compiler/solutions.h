/* solutions: what solvers find for the whole net, on the meshes that pass search looks at. Each is added to Search.found. */
#pragma once
#include "compiler/budget.h"
#include "search/model.h"

/* What messages take in a model. */
typedef struct Pricing {
    const Machine *machine;
    Moves *moves; /* on it */
} Pricing;

/* Strategies and layouts for the whole net. */
typedef struct Found {
    const char *how; /* the name of a search */
    Mesh mesh;
    Chosen chosen;          /* in the build's arena; strategy NULL: as it was */
    const Pricing *pricing; /* of the model that it is a solution of; NULL: of none */
    double seconds, bound;
    int64_t peak_bytes; /* of the model, on a rank; 0: it is not known */
    Measures measures;  /* auto: with which it fits into the memory */
    BuildCost cost;     /* auto: with them; step_s 0: not compiled yet */
    Budget *budget;     /* auto: on the way there; NULL: not compiled yet, or it cannot be */
    BuildCost bare;     /* auto: before measures for memory */
    int nchanges;       /* auto: that were taken near it (improve.h) */
    bool fitted;        /* auto: they are there, */
    bool twin;          /* but another one costs the same, and has them */
} Found;

/* What was compiled of it. */
typedef struct Compiled {
    Budget *budget;
    const char *how;
    Mesh mesh;
    Chosen chosen;
    int nchanges; /* Found */
} Compiled;

typedef VEC(Mesh) Meshes;

typedef struct Share {
    const Pricing *pricing;
    Mesh mesh;
    ModelShared *shared;
} Share;

typedef struct Search {
    Build *b;
    Arena arena;
    const Reads *reads; /* of its graph */
    bool large;         /* few of its solutions are compiled: those that the model takes to be much slower are not looked for */
    VEC(Found) found;
    VEC(Compiled) all;
    VEC(const Pricing *) pricings;
    const Pricing *pricing;       /* of the model */
    const Pricing *as_is;         /* on the machine of the build */
    const Strategy *const *fixed; /* ModelInput */
    const Strategy *const *also;  /* ModelInput */
    double behind;                /* ModelInput */
    double most;                  /* ModelInput: of what is found with this `behind` */
    double beyond;      /* > 0: a solution that takes as long, in seconds, is not looked for; 0: of large nets one that takes `most` */
    bool shares_models; /* many are solved that differ in fixed and also alone: what they have in common is kept, */
    VEC(Share) shares;  /* of one behind and most */
    int nmeshes;        /* on which dynamic_programming solved it */
    int64_t work;       /* entries of tables looked at */
    int64_t made;       /* choices and edges of the models solved */
    int64_t apart;      /* of taken_work, what improve has done: other searches of the net do without */
    bool faster;        /* what saves time is tried without need, too (budget.h) */
    int64_t least;      /* > 0: solve looks for solutions with a peak from here on, up to that of the best, */
    double worth;       /* that take less than this */
    int64_t limit;      /* > 0: solve looks for one with a peak of at most so much */
} Search;

#define WORTH 1.1 /* what takes longer than the best known by more is no solution worth compiling */

/* The best on a mesh, with base as in model_init. False: there is none. */
bool solve_on(Search *s, const Mesh *mesh, const Strategy *const *base);
/* Of a net with these strategies, per forward node: the model's seconds of conversions to and from it, and of the part of its kernels that several ranks compute. Returns what all of it takes. */
double seconds_of_nodes(Search *s, const Strategy *const *strategy, double *seconds);
/* dynamic_programming: the best on each mesh of up to two axes, and of three where that is asked for. */
void solve_on_meshes(Search *s);
/* recursive_programming: the best choice along one axis after another, where those before it are fixed; with a peak of at most limit (0: any). */
void solve_by_axis(Search *s, int64_t limit);
/* The best of that and of the same with two axes at a time. */
void solve_by_axes(Search *s);
/* The same as solve_by_axis within some limits, from below this peak down to s->least: where one is too low, all lower ones are. */
void solve_by_axis_within(Search *s, int64_t most);
/* The best, axis by axis, of those in which the products that pairs_find finds have their rows split along the first axes, and what is between the two of a pair along the others, which
 * are within a node: Megatron's way (Shoeybi et al. 2019), with as many groups of rows as are best; each: with each number of them. None where there are no pairs. */
void solve_with_pairs(Search *s, bool each);
/* Up to two factors of an operator, each split along all axes of a mesh, and no other. */
typedef struct Split {
    int n, factor[2];
    Mesh along[2];
} Split;
/* The strategy that splits them. NULL: it cannot be. */
const Strategy *strategy_of_split(Graph *g, const Node *node, const Split *split);
/* Whether a factor can be split in so many parts, 2 or more. */
bool may_split(const Graph *g, const Node *node, int factor, int64_t parts);
/* The meshes of two axes, the smaller one outside, that the ranks make. */
void meshes_of_two(Search *s, Meshes *meshes);
/* For qsort: by seconds. */
int found_compare(const void *a, const void *b);

/* ---- taken.c */

/* Gives the net strategies, layouts and measures, and b->front.search; result NULL: it is left. */
void taken_apply(Build *b, const Chosen *chosen, const SearchResult *result, const Measures *measures);
/* Notes in b->front.decision what is taken, for another compilation of the net. */
void taken_note(const Search *s, const Found *found);
/* Takes over what another compilation of the net has decided, which may have had fewer batches of a step. False with b->error. */
bool taken_again(Build *b);
/* Nodes compiled; entries of tables looked at, models made and conversions planned count as so many as take about as long. */
int64_t taken_work(const Search *s);
/* Of it auto does so much, about a second's: when half of it is done no other model is solved, and what is near the best plan is looked for until all of it is. */
enum { AUTO_WORK = 170000 };
int taken_compiled(const Search *s); /* how many programs were compiled, so far */

/* ---- search.c */

/* The build with a solution's layouts, for what is tried with its strategies. */
const Build *with_layouts(Search *s, const Found *found);
bool chosen_equal(const Graph *g, const Chosen *a, const Chosen *b);
/* Below 0: the first keeps to more of what the user demands, or else comes closer to the memory. */
int compare_demands(const Search *s, const Found *a, const Found *b);
