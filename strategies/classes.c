/* Finds the busiest ranks of an exchange of partial sums, for dimensions of any size, without enumerating its pieces, of which there may be billions.
 *
 * A piece is the intersection of a part of the source (the box of some source digits) and the box that a rank needs. Some needer holds a term of it when source and target agree in
 * the digits that both use. Then the needers that hold one own the piece, else all needers do. A piece of n cells is divided among its owners in ascending order (ir/box.c). So
 * what a rank receives and sends are sums, over sets of pieces, of shares that depend only on n and on the rank's position. Each such set is a product over the dimensions: all
 * combinations of certain parts of dimension 0 with certain parts of dimension 1, and so on. Few different lengths occur per dimension; they are counted for every class of ranks
 * (Table), and most classes have the same ones (Pattern). Ranks with the same patterns in all tables differ only in their positions, and none of them moves more than a rank would
 * at the first positions. So that maximum is counted once for each combination of patterns, and a rank is looked at only where it exceeds what was found so far. */
#include <string.h>

#include "strategies/pair.h"

/* Digits in descending order of strides. */
typedef struct DigitList {
    int n;
    Digit at[MAX_DIGITS];
} DigitList;

static int64_t combinations(const DigitList *digits) {
    int64_t product = 1;
    for (int i = 0; i < digits->n; i++)
        product *= digits->at[i].size;
    return product;
}

/* The position of rank among the ranks that differ from it only in the given digits. */
static int64_t position_of(const DigitList *digits, int rank) {
    int64_t position = 0;
    for (int i = 0; i < digits->n; i++)
        position = position * digits->at[i].size + digit_of(digits->at[i], rank);
    return position;
}

/* How many combinations of values of the moving digits give a position below limit; the other digits keep rank's values. */
static int64_t positions_below(const DigitList *digits, const bool *moves, int rank, int64_t limit) {
    int64_t count = 0, each = combinations(digits), free = 1;
    for (int i = 0; i < digits->n; i++)
        if (moves[i]) free *= digits->at[i].size;
    if (limit >= each) return free;
    for (int i = 0; i < digits->n; i++) {
        each /= digits->at[i].size;
        int64_t value = limit / each;
        limit %= each;
        if (moves[i]) {
            free /= digits->at[i].size;
            count += value * free;
        } else {
            int own = digit_of(digits->at[i], rank);
            if (own != value) return own < value ? count + free : count;
        }
    }
    return count;
}

/* The lengths, ascending, that a set of pieces has in one dimension, and how often each occurs. */
typedef struct LengthCount {
    int64_t length, count;
} LengthCount;
typedef struct Pattern {
    int n;
    const LengthCount *at;
} Pattern;

typedef enum {
    OF_NEEDED,        /* per part of the target: all parts of the source that a rank's box meets */
    OF_NEEDED_SHARED, /* those that agree with the rank in the digits that both sides use */
    OF_HELD,          /* per part of the source: the boxes that it meets, of ranks to which a rank may send */
    OF_HELD_SHARED,   /* those of ranks that agree with it in the digits that both sides use */
    OF_BOTH,          /* per part of both: what a rank both needs and holds */
    NTABLES
} TableKind;

/* A pattern for each class of ranks. The class is given by the values of some atoms, of the target's part and the source's. */
typedef struct Table {
    int weight[MAX_ATOMS]; /* what a value of an atom adds to the number of the class */
    int *pattern;          /* per class */
} Table;

typedef struct Classes {
    const Pair *pair;
    Arena arena;
    Table table[MAX_NDIM][NTABLES];
    VEC(Pattern) patterns;
    Map map;                      /* of patterns */
    DigitList others;             /* not in the target: a piece's needers differ in these */
    bool others_move[MAX_DIGITS]; /* source or summed: a sender's receivers differ in these */
    DigitList free;               /* in neither: owners that hold a term differ in these */
    bool free_move[MAX_DIGITS];   /* summed */
} Classes;

/* ---- tables */

static int pattern_once(Classes *c, const LengthCount *at, int n) {
    const size_t bytes = (size_t)n * sizeof *at;
    const uint64_t hash = hash_bytes(at, bytes);
    map_each(&c->map, hash, k) if (c->patterns.at[k].n == n && memcmp(c->patterns.at[k].at, at, bytes) == 0) return k;
    vec_push(&c->arena, &c->patterns, ((Pattern){n, at}));
    map_add(&c->arena, &c->map, hash, c->patterns.n - 1);
    return c->patterns.n - 1;
}

/* Adds a length to the *n in the sorted list; there is room for one more. */
static void length_add(LengthCount *at, int *n, int64_t length) {
    int k = *n;
    while (k > 0 && at[k - 1].length > length)
        k--;
    if (k > 0 && at[k - 1].length == length) {
        at[k - 1].count++;
        return;
    }
    memmove(at + k + 1, at + k, (size_t)(*n - k) * sizeof *at);
    at[k] = (LengthCount){length, 1};
    ++*n;
}

/* Whether an atom of a side (0: the source) is part of a class. */
static bool names_class(const Pair *pair, TableKind kind, int side, int atom) {
    switch (kind) {
    case OF_NEEDED:
        return side == 1;
    case OF_NEEDED_SHARED:
        return side == 1 || pair->in_to[atom];
    case OF_HELD:
        return side == 0 || (!pair->in_from[atom] && !pair->is_reduced[atom]);
    case OF_HELD_SHARED:
        return side == 0 || !pair->is_reduced[atom];
    case OF_BOTH:
    case NTABLES:
        break;
    }
    return true;
}

/* For each part of a dimension, the sum of its atoms' values times their weights. */
static int *part_numbers(Arena *arena, const Pair *pair, const AtomList *list, const int *weight, int nparts) {
    int *number = arena_alloc(arena, (size_t)nparts * sizeof *number);
    for (int i = 0, count = 1; i < list->n; i++) {
        const int size = pair->atom[list->at[i]].size;
        for (int p = count - 1; p >= 0; p--) /* the last first: parts make room for their pieces */
            for (int v = size - 1; v >= 0; v--)
                number[p * size + v] = number[p] + v * weight[list->at[i]];
        count *= size;
    }
    return number;
}

/* Where a part of the source and one of the target meet. */
typedef struct Meeting {
    int part[2];
    bool agree; /* in all atoms that both sides have in this dimension */
    int64_t length;
} Meeting;

/* Both sides' parts are ascending, so they are merged. Parts without a cell meet none. */
static Meeting *meetings_of(Classes *c, Arena *arena, int dim, int nparts[2], int *n) {
    const Pair *pair = c->pair;
    int weight[MAX_ATOMS] = {0}, *common[2], next = 1;
    const Range *part[2];
    for (int i = 0; i < pair->list[0][dim].n; i++)
        for (int k = 0; k < pair->list[1][dim].n; k++)
            if (pair->list[0][dim].at[i] == pair->list[1][dim].at[k]) {
                weight[pair->list[0][dim].at[i]] = next;
                next *= pair->atom[pair->list[0][dim].at[i]].size;
            }
    for (int side = 0; side < 2; side++) {
        part[side] = ranges_of(arena, side == 0 ? pair->from : pair->to, dim, pair->shape->dim[dim], &nparts[side]);
        common[side] = part_numbers(arena, pair, &pair->list[side][dim], weight, nparts[side]);
    }
    Meeting *meetings = arena_alloc(arena, (size_t)(nparts[0] + nparts[1]) * sizeof *meetings);
    *n = 0;
    for (int p = 0, q = 0; p < nparts[0] && q < nparts[1];) {
        const Range a = part[0][p], b = part[1][q];
        const int64_t length = ranges_common(a, b);
        if (length > 0) meetings[(*n)++] = (Meeting){{p, q}, common[0][p] == common[1][q], length};
        p += a.end <= b.end;
        q += b.end <= a.end;
    }
    return meetings;
}

static void table_fill(Classes *c, Arena *scratch, int dim, TableKind kind, const int nparts[2], const Meeting *meetings, int n) {
    const Pair *pair = c->pair;
    Table *table = &c->table[dim][kind];
    int weight[MAX_ATOMS] = {0}, *number[2], nclasses = 1;
    for (int side = 1; side >= 0; side--) { /* an atom that both sides have counts for the target */
        const AtomList *list = &pair->list[side][dim];
        memset(weight, 0, sizeof weight);
        for (int i = 0; i < list->n; i++) {
            const int atom = list->at[i];
            if (!names_class(pair, kind, side, atom) || table->weight[atom] > 0) continue;
            table->weight[atom] = weight[atom] = nclasses;
            nclasses *= pair->atom[atom].size;
        }
        number[side] = part_numbers(scratch, pair, list, weight, nparts[side]);
    }
    const bool shared = kind == OF_NEEDED_SHARED || kind == OF_HELD_SHARED || kind == OF_BOTH;
    int *first = arena_alloc(scratch, ((size_t)nclasses + 1) * sizeof *first),
        *count = arena_alloc(scratch, (size_t)nclasses * sizeof *count);
    LengthCount *at = arena_alloc(&c->arena, ((size_t)n + 1) * sizeof *at);
    for (int i = 0; i < n; i++)
        first[number[0][meetings[i].part[0]] + number[1][meetings[i].part[1]] + 1]++;
    for (int k = 0; k < nclasses; k++)
        first[k + 1] += first[k];
    for (int i = 0; i < n; i++) {
        const int class = number[0][meetings[i].part[0]] + number[1][meetings[i].part[1]];
        if (!shared || meetings[i].agree) length_add(at + first[class], &count[class], meetings[i].length);
    }
    table->pattern = arena_alloc(&c->arena, (size_t)nclasses * sizeof *table->pattern);
    for (int k = 0; k < nclasses; k++)
        table->pattern[k] = pattern_once(c, at + first[k], count[k]);
}

static void list_add(DigitList *list, Digit digit) {
    list->at[list->n++] = digit;
}

static void classes_init(Classes *c, const Pair *pair) {
    *c = (Classes){.pair = pair};
    arena_init(&c->arena);
    Digit chain[MAX_DIGITS];
    int n = digits_chain(pair->atom, pair->natoms, NULL, 0, pair->nranks, chain);
    for (int i = 0; i < n; i++) {
        bool source = false, target = false, summed = false;
        for (int k = 0; k < pair->natoms; k++) {
            if (!digit_within(chain[i], pair->atom[k])) continue;
            source = pair->in_from[k];
            target = pair->in_to[k];
            summed = pair->is_reduced[k];
        }
        if (!target) {
            c->others_move[c->others.n] = source || summed;
            list_add(&c->others, chain[i]);
        }
        if (!target && !source) {
            c->free_move[c->free.n] = summed;
            list_add(&c->free, chain[i]);
        }
    }
    for (int d = 0; d < pair->shape->ndim; d++) {
        Arena scratch;
        arena_init(&scratch);
        int nparts[2], nmeetings;
        const Meeting *meetings = meetings_of(c, &scratch, d, nparts, &nmeetings);
        for (int kind = 0; kind < NTABLES; kind++)
            table_fill(c, &scratch, d, (TableKind)kind, nparts, meetings, nmeetings);
        arena_finish(&scratch);
    }
}

/* ---- what a rank receives and sends */

/* How a piece's cells are divided among `owners` ranks; digits, or one rank's position, say whose shares count. */
typedef struct Sharing {
    int64_t owners;
    const DigitList *digits;
    const bool *moves; /* NULL: the share of rank itself */
    int rank;
} Sharing;

static int64_t shares(const Sharing *sharing, int64_t cells) {
    int64_t each = cells / sharing->owners, longer = cells % sharing->owners;
    if (!sharing->moves) return each + (position_of(sharing->digits, sharing->rank) < longer);
    int64_t all = positions_below(sharing->digits, sharing->moves, sharing->rank, sharing->owners);
    return each * all + positions_below(sharing->digits, sharing->moves, sharing->rank, longer);
}

/* The numbers of a rank's patterns, by dimension. */
typedef struct Patterns {
    int of[MAX_NDIM][NTABLES];
} Patterns;

/* The sum of the shares in all pieces of a set, whose sizes are products of lengths of the dimensions from `dim` on. */
static int64_t shares_of(const Classes *c, const Patterns *patterns, TableKind kind, int dim, int64_t cells, const Sharing *sharing) {
    if (dim == c->pair->shape->ndim) return shares(sharing, cells);
    const Pattern *pattern = &c->patterns.at[patterns->of[dim][kind]];
    int64_t sum = 0;
    for (int i = 0; i < pattern->n; i++)
        sum += pattern->at[i].count * shares_of(c, patterns, kind, dim + 1, cells * pattern->at[i].length, sharing);
    return sum;
}

/* The cells of all pieces of a set. */
static int64_t cells_of(const Classes *c, const Patterns *patterns, TableKind kind) {
    int64_t cells = 1;
    for (int d = 0; d < c->pair->shape->ndim; d++) {
        const Pattern *pattern = &c->patterns.at[patterns->of[d][kind]];
        int64_t length = 0;
        for (int i = 0; i < pattern->n; i++)
            length += pattern->at[i].count * pattern->at[i].length;
        cells *= length;
    }
    return cells;
}

typedef struct InOut {
    int64_t in, out;
} InOut;

/* What a rank with these patterns receives and sends at the positions of `rank`. Rank 0's positions give the most: the first rank has the
 * largest shares, and a share of its own is sent to needers as often as it is not sent to itself. */
static InOut in_out(const Classes *c, const Patterns *patterns, int rank) {
    const Pair *pair = c->pair;
    const Sharing own = {pair->owners, &c->free, NULL, rank}, by_needers = {pair->needers, &c->others, NULL, rank},
                  to_holders = {pair->owners, &c->free, c->free_move, rank}, to_needers = {pair->needers, &c->others, c->others_move, rank};
    const int64_t own_share = shares(&own, cells_of(c, patterns, OF_BOTH));
    const int64_t foreign =
        shares_of(c, patterns, OF_NEEDED, 0, 1, &by_needers) - shares_of(c, patterns, OF_NEEDED_SHARED, 0, 1, &by_needers);
    const int64_t terms_out = shares_of(c, patterns, OF_HELD_SHARED, 0, 1, &to_holders) - own_share +
                              shares_of(c, patterns, OF_HELD, 0, 1, &to_needers) -
                              shares_of(c, patterns, OF_HELD_SHARED, 0, 1, &to_needers);
    return (InOut){cells_of(c, patterns, OF_NEEDED) + (pair->terms - 2) * own_share + (pair->terms - 1) * foreign,
                   terms_out + (pair->needers - 1) * (own_share + foreign)};
}

/* Ranks with the same patterns, and the most that any of them may receive and send. */
typedef struct Alike {
    Patterns patterns;
    InOut most;
} Alike;

typedef struct Groups {
    VEC(Alike *) alike;
    Map map;
} Groups;

static const Alike *alike_of(Classes *c, Groups *groups, const Patterns *patterns) {
    const size_t bytes = (size_t)c->pair->shape->ndim * sizeof *patterns->of;
    uint64_t hash = 0;
    for (int d = 0; d < c->pair->shape->ndim; d++)
        for (int kind = 0; kind < NTABLES; kind++)
            hash = hash_mix(hash, (uint64_t)patterns->of[d][kind]);
    map_each(&groups->map, hash, k) if (memcmp(groups->alike.at[k]->patterns.of, patterns->of, bytes) == 0) return groups->alike.at[k];
    Alike *made = arena_alloc(&c->arena, sizeof *made);
    memcpy(made->patterns.of, patterns->of, bytes);
    made->most = in_out(c, patterns, 0);
    vec_push(&c->arena, &groups->alike, made);
    map_add(&c->arena, &groups->map, hash, groups->alike.n - 1);
    return made;
}

/* Digits that neither side has stay 0, as the first positions move the most. */
void classes_max(const Pair *pair, int64_t *received, int64_t *sent) {
    const int ndim = pair->shape->ndim;
    Classes c;
    Groups groups = {0};
    Patterns patterns = {0};
    int class[MAX_NDIM][NTABLES] = {0}, value[MAX_ATOMS] = {0}, rank = 0;
    classes_init(&c, pair);
    *received = *sent = 0;
    for (int atom = pair->natoms; atom >= 0;) {
        for (int d = 0; d < ndim; d++)
            for (int kind = 0; kind < NTABLES; kind++)
                patterns.of[d][kind] = c.table[d][kind].pattern[class[d][kind]];
        const Alike *alike = alike_of(&c, &groups, &patterns);
        if (alike->most.in > *received || alike->most.out > *sent) {
            const InOut its = rank == 0 ? alike->most : in_out(&c, &patterns, rank);
            *received = max64(*received, its.in);
            *sent = max64(*sent, its.out);
        }
        for (atom = pair->natoms - 1; atom >= 0; atom--) { /* the next values of the atoms */
            const int size = pair->atom[atom].size, step = value[atom] + 1 < size ? 1 : 1 - size;
            value[atom] += step;
            rank += step * pair->atom[atom].stride;
            for (int d = 0; d < ndim; d++)
                for (int kind = 0; kind < NTABLES; kind++)
                    class[d][kind] += step * c.table[d][kind].weight[atom];
            if (step == 1) break;
        }
    }
    arena_finish(&c.arena);
}
