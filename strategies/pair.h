/* pair: two layouts of one tensor over common digits ("atoms"), and what follows from them by counting.
 *
 * Every digit of both layouts is cut where a digit of the other begins or ends, so that two atoms are equal or disjoint. A dimension's index is then a mixed radix number in two
 * ways: by the atoms of `from` and by those of `to`. Where all splits divide and the radices can be aligned, a rank holds part of what it needs exactly when the aligned atoms have
 * equal values (a "link"), and every such common part has the same size. Sums over all ranks are then products over classes of linked atoms. All else is enumerated over the values
 * of the atoms that occur, never over ranks that differ in none of them. */
#pragma once
#include "ir/map.h"
#include "strategies/strategies.h"

static inline int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

enum { MAX_ATOMS = 64 };
typedef struct AtomList {
    int n;
    int8_t at[MAX_ATOMS];
} AtomList;

typedef struct Pair {
    const Layout *from, *to; /* as given, or, where both have the same device order, without it: counts do not depend on it */
    Layout natural[2];       /* memory for that */
    bool mixed;              /* two device orders: a rank's digits in one layout say nothing of those in the other */
    const Shape *shape;
    int nranks;
    bool refined; /* the digits have one order and can be refined together, and no dimension has a halo; all below holds only then */
    int natoms;
    Digit atom[MAX_ATOMS];
    /* Atoms per dimension, major first; list ndim: partial digits that both layouts keep, as if they were one more dimension. */
    AtomList list[2][MAX_NDIM + 1];                                   /* [0] from, [1] to */
    AtomList reduced;                                                 /* partial digits that `to` no longer has */
    bool in_from[MAX_ATOMS], in_to[MAX_ATOMS], is_reduced[MAX_ATOMS]; /* in_*: in one of list[*] */
    bool even;                                                        /* every split divides its dimension */
    bool aligned;    /* even, and the radices of both sides of every dimension are the same as far as both go */
    int64_t terms;   /* product of the reduced digits' sizes */
    int64_t kept;    /* product of the partial digits that are kept */
    int64_t cells;   /* elements x kept */
    int64_t needers; /* ranks that need one cell */
    int64_t owners;  /* ranks that agree in all atoms of in_from and in_to */
    int64_t needed;  /* cells that rank 0 needs: the most of any rank, except with halos */
} Pair;

/* False when `to` is partial over digits that `from` is not; *why says so. */
bool pair_init(Pair *pair, const Layout *from, const Layout *to, const Shape *shape, int nranks, const char **why);
/* ---- pinned.c: layouts of which some ranks hold nothing */

static inline bool pinned(const Layout *from, const Layout *to) {
    return layout_is_pinned(from) || layout_is_pinned(to);
}
/* Where both layouts have the same pin, to the slowest digit of *nranks: sets a and b to the layouts without it, *nranks to the number of
 * pinned ranks. False: they have no such pin. */
bool pins_leave(const Layout *from, const Layout *to, int *nranks, Layout *a, Layout *b);

/* Sum over all ranks of the cells that a rank both needs and holds. */
int64_t pair_overlap_total(const Pair *pair);
/* The cells of the pieces that some needer holds a term of, each piece once. */
int64_t pair_overlap_pieces(const Pair *pair);
/* The most cells that a rank needs and does not hold, rank by rank: for pairs that cannot be refined. */
int64_t pair_missing_max(const Pair *pair);
/* Number of assignments of values to the atoms that satisfy the links chosen by `use` (all when NULL); aligned pairs only. */
int64_t pair_solutions(const Pair *pair, bool (*use)(const Pair *pair, int from_atom, int to_atom));
/* Cells of a common part where all links hold; aligned pairs only. */
int64_t pair_part(const Pair *pair);
/* Whether every atom that both sides use is at the same place in both. Then a piece that some needer holds is held by every needer with the
 * source's atoms. */
bool pair_in_place(const Pair *pair);

/* Enumerates the combinations of values of some atoms, each as the number of the rank that has them and zeros elsewhere:
 * for (AtomCounter c = atoms_first(pair, set); !c.done; atoms_next(&c)) ... c.rank */
typedef struct AtomCounter {
    int n, rank;
    bool done;
    Digit atom[MAX_ATOMS];
    int value[MAX_ATOMS];
} AtomCounter;
AtomCounter atoms_first(const Pair *pair, const bool *set);
void atoms_next(AtomCounter *counter);

/* ---- classes.c */

/* What the busiest rank of an exchange of partial sums receives, and what the busiest one sends, in elements. Refined pairs with terms > 1, any
 * sizes; time in proportion to the ranks and to the parts of each dimension, never to the pieces. */
void classes_max(const Pair *pair, int64_t *received, int64_t *sent);

/* ---- uneven.c */

typedef struct Range {
    int64_t begin, end;
} Range;
static inline int64_t ranges_common(Range a, Range b) {
    const int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return end > begin ? end - begin : 0;
}
/* The parts of a dimension of this size, without a halo, in the arena. Digit by digit they are balanced, the first ones one larger. */
Range *ranges_of(Arena *arena, const Layout *layout, int d, int64_t size, int *nparts);

/* What an exchange without sums moves, in cells. */
typedef struct UnevenCounts {
    int64_t overlap;        /* the sum over all ranks of what a rank both needs and holds */
    int64_t received, sent; /* of the busiest rank */
} UnevenCounts;
/* Refined pairs, any sizes. */
void uneven_count(const Pair *pair, UnevenCounts *counts);

/* ---- links.c, messages.c */

/* Messages of a rank to or from others of its node, and of other nodes. */
typedef struct Links {
    int64_t near, far;
} Links;
/* How many values of a digit are in the node of the first one, the other digits being 0; fewer than all where some group of ranks straddles
 * nodes. */
int64_t values_in_node(const Machine *machine, Digit digit, int nranks);
/* The messages that a rank waits for in an exchange, for the rank that waits for most. A round counts those received or, where sums are
 * taken, those sent, whichever are more. False where the digits have no common refinement. */
bool messages_count(const Machine *machine, const Pair *pair, Links *links);

/* The latencies of a rank's messages, one after another. */
double links_latency(const Machine *machine, Links links);
StepLinks links_step(const Machine *machine, Links links);

/* ---- steps.c */

struct Steps {
    Arena *arena;
    const Machine *machine;
    int nranks;
    Steps *of;  /* the Steps that counts for this one, */
    int joined; /* on whose machine one message takes as long as `joined` here */
    VEC(const Layout *) layouts;
    VEC(struct CountedStep *) counted;
    Map layout_map, counted_map;
};
/* As step_links and traffic_step, remembered. */
StepLinks steps_links(Steps *steps, CommKind kind, const Layout *from, const Layout *to, const Shape *shape);
void steps_traffic(Steps *steps, CommKind kind, const Layout *from, const Layout *to, const Shape *shape, Traffic *received, Traffic *sent);

/* ---- halo.c */

/* Whether halo_count counts an exchange: into halos, of one device order, without sums. */
static inline bool halo_counts(const Pair *pair) {
    return layout_has_halo(pair->to) && !pair->mixed && pair->terms == 1;
}
/* In elements; links: messages of the rank that waits longest. Time in proportion to the pieces. */
void halo_count(const Machine *machine, const Pair *pair, Traffic *received, Traffic *sent, Links *links);
/* Estimates halo_count from `ranks` ranks spread evenly over all. */
void halo_sample(const Machine *machine, const Pair *pair, int ranks, Traffic *received, Links *links);
