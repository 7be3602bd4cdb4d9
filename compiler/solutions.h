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
    const Pricing *pricing; /* of the model that it solves; NULL: of none */
    double seconds, bound;
    int64_t peak_bytes; /* of the model, on a rank; 0: it is not known */
    Measures measures;  /* auto: with which it fits into the memory */
    BuildCost cost;     /* auto: with these measures; step_s 0: not compiled yet */
    Budget *budget;     /* auto: where measures are found; NULL: not compiled yet, or it cannot be */
    BuildCost bare;     /* auto: before measures for memory */
    int nchanges;       /* auto: changes that were taken near it (improve.h) */
    bool fitted;        /* auto: measures for memory were looked for, */
    bool twin;          /* but only for another solution, which costs the same */
} Found;

/* A solution that was compiled. */
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
    const Reads *reads; /* of the build's graph */
    bool large;         /* few solutions are compiled; those that the model takes to be much slower are not looked for */
    VEC(Found) found;
    VEC(Compiled) all;
    VEC(const Pricing *) pricings;
    const Pricing *pricing;       /* of the model */
    const Pricing *as_is;         /* on the machine of the build */
    const Strategy *const *fixed; /* ModelInput */
    const Strategy *const *also;  /* ModelInput */
    double behind;                /* ModelInput */
    double most;                  /* ModelInput: of what is found with this `behind` */
    double beyond;                /* > 0: solutions that take so many seconds are not looked for; 0: of large nets those that take `most` */
    bool shares_models;           /* many models are solved that differ only in fixed and also: what they have in common is kept, */
    VEC(Share) shares;            /* for one behind and most */
    int nmeshes;                  /* on how many dynamic_programming solved the net */
    int64_t work;                 /* entries of tables looked at */
    int64_t made;                 /* choices and edges of the models solved */
    int64_t apart;                /* of taken_work, the part of improve, which other searches of the net do without */
    bool faster;                  /* measures that save time are tried even where none is needed (budget.h) */
    int64_t least;                /* > 0: solve looks for solutions whose peaks are from this up to that of the best, */
    double worth;                 /* and that take less than this */
    int64_t limit;                /* > 0: solve looks for a solution whose peak is at most this */
} Search;

#define WORTH 1.1 /* a solution slower than the best known by a larger factor is not worth compiling */

/* Adds the best on a mesh, with ModelInput.base. False: there is none. */
bool solve_on(Search *s, const Mesh *mesh, const Strategy *const *base);
/* Of the net with these strategies. seconds, per forward node: what the model counts for conversions to and from it, and for the part
 * of its kernels that several ranks compute alike. Returns the model's seconds of the whole net. */
double seconds_of_nodes(Search *s, const Strategy *const *strategy, double *seconds);
/* dynamic_programming: adds the best on each mesh of up to two axes, and of three where that is asked for. */
void solve_on_meshes(Search *s);
/* recursive_programming: adds the best along one axis after another, with those before it fixed; with a peak of at most limit (0: any). */
void solve_by_axis(Search *s, int64_t limit);
/* Adds the best of that and of the same with two axes at a time. */
void solve_by_axes(Search *s);
/* solve_by_axis within some limits, from below the peak `most` down to s->least, until one is too low: all lower ones are too. */
void solve_by_axis_within(Search *s, int64_t most);
/* Adds the best, axis by axis, in which the products of pairs_find have their rows split along the first axes, and the letter between the
 * two of a pair along the others, which are within a node: Megatron's way (Shoeybi et al. 2019). It has as many groups of rows as are
 * best; each: adds one for each number of groups. Adds none where there are no pairs. */
void solve_with_pairs(Search *s, bool each);
/* Up to two factors of an operator, each split along all axes of a mesh, and no other. */
typedef struct Split {
    int n, factor[2];
    Mesh along[2];
} Split;
/* The strategy that splits them. NULL: they cannot be split so. */
const Strategy *strategy_of_split(Graph *g, const Node *node, const Split *split);
/* Whether a factor can be split in so many parts, 2 or more. */
bool may_split(const Graph *g, const Node *node, int factor, int64_t parts);
/* Adds all meshes of two axes that the ranks make, the smaller axis first. */
void meshes_of_two(Search *s, Meshes *meshes);
/* For qsort: by seconds. */
int found_compare(const void *a, const void *b);

/* ---- taken.c */

/* Gives the net strategies, layouts and measures, and sets b->front.search; result NULL: it stays as it is. */
void taken_apply(Build *b, const Chosen *chosen, const SearchResult *result, const Measures *measures);
/* Notes in b->front.decision what is taken, for another compilation of the net. */
void taken_note(const Search *s, const Found *found);
/* Takes over what another compilation of the net has decided, which may have had fewer batches of a step. False with b->error. */
bool taken_again(Build *b);
/* The work so far, in nodes compiled: entries of tables, models and conversions count as so many nodes as take about as long. */
int64_t taken_work(const Search *s);
/* The work that auto may do, about a second's. After half of it no other model is solved; the search near the best plan goes on until
 * all of it is done. */
enum { AUTO_WORK = 170000 };
int taken_compiled(const Search *s); /* how many programs were compiled, so far */

/* ---- search.c */

/* A copy of the build with a solution's layouts, to try its strategies in. */
const Build *with_layouts(Search *s, const Found *found);
bool chosen_equal(const Graph *g, const Chosen *a, const Chosen *b);
/* Below 0: a meets more of the user's demands, or as many and exceeds the memory by less. */
int compare_demands(const Search *s, const Found *a, const Found *b);
