/* The busiest ranks of an exchange of partial sums of any sizes, without looking at its pieces, of which there may be billions.
 *
 * A piece is where a part of the source (the box of some source digits) and the box that a rank needs meet. Some needer holds a term of it
 * when source and target agree in the digits that both use: then the needers that hold one own the piece, else all needers do; a piece of n
 * cells is divided among its owners in ascending order (ir/box.c). So what a rank receives and sends are sums, over sets of pieces, of shares
 * that depend on n and on the rank's position alone. Each such set is a product over the dimensions: all combinations of certain parts of
 * dimension 0 with certain ones of dimension 1, and so on. Per dimension few different lengths occur; they are counted once for every
 * class of ranks (Table), then multiplied out. */
#include <stdlib.h>
#include <string.h>

#include "strategies/pair.h"

/* Digits in descending order of strides. */
typedef struct DigitList {
    int n;
    Digit at[MAX_DIGITS];
} DigitList;

static int only(const DigitList *digits, int rank) {
    int kept = 0;
    for (int i = 0; i < digits->n; i++)
        kept += digit_of(digits->at[i], rank) * digits->at[i].stride;
    return kept;
}

static int64_t combinations(const DigitList *digits) {
    int64_t product = 1;
    for (int i = 0; i < digits->n; i++)
        product *= digits->at[i].size;
    return product;
}

/* The position of rank among those that differ from it in the given digits. */
static int64_t position_of(const DigitList *digits, int rank) {
    int64_t position = 0;
    for (int i = 0; i < digits->n; i++)
        position = position * digits->at[i].size + digit_of(digits->at[i], rank);
    return position;
}

/* How many combinations of the moving digits give a position below limit, the other digits being those of rank. */
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

/* Where a part of the source and one of the target meet in a dimension: both as rank numbers that have their digits alone. */
typedef struct Meeting {
    int source, target;
    int64_t length;
} Meeting;

/* How often each length occurs in a class of meetings. */
typedef struct LengthCount {
    int a, b; /* the class */
    int64_t length, count;
} LengthCount;

/* The classes of the meetings of one dimension, ascending. */
typedef struct Table {
    LengthCount *at;
    int n;
    DigitList a, b; /* which digits of a rank name its class */
} Table;

typedef enum {
    OF_NEEDED,        /* by the target's part: all parts of the source that a rank's box meets */
    OF_NEEDED_SHARED, /* those that agree with the rank in the digits that both sides use */
    OF_HELD,          /* by the source's part: the boxes, of the ranks to which a rank may send, that its part meets */
    OF_HELD_SHARED,   /* those of ranks that agree with it in the digits that both sides use */
    NTABLES
} TableKind;

typedef struct Classes {
    const Pair *pair;
    Table table[MAX_NDIM][NTABLES];
    DigitList others;             /* not in the target: needers of a piece differ in these */
    bool others_move[MAX_DIGITS]; /* source or summed: a sender's receivers differ in these */
    DigitList free;               /* in neither: owners that hold a term differ in these */
    bool free_move[MAX_DIGITS];   /* summed */
} Classes;

static int compare_entries(const void *x, const void *y) {
    const LengthCount *p = x, *q = y;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    if (p->b != q->b) return p->b < q->b ? -1 : 1;
    return (p->length > q->length) - (p->length < q->length);
}

static void *allocate(size_t n, size_t bytes) {
    void *memory = calloc(n ? n : 1, bytes);
    if (!memory) abort();
    return memory;
}

static void table_fill(Table *table, TableKind kind, const Meeting *meetings, int n) {
    table->at = allocate((size_t)n, sizeof *table->at);
    for (int i = 0; i < n; i++) {
        const Meeting *m = &meetings[i];
        bool by_target = kind == OF_NEEDED || kind == OF_NEEDED_SHARED;
        table->at[i] = (LengthCount){.a = only(&table->a, by_target ? m->target : m->source),
                                     .b = only(&table->b, by_target ? m->source : m->target),
                                     .length = m->length,
                                     .count = 1};
    }
    qsort(table->at, (size_t)n, sizeof *table->at, compare_entries);
    for (int i = 0; i < n; i++) {
        if (table->n > 0 && compare_entries(&table->at[table->n - 1], &table->at[i]) == 0)
            table->at[table->n - 1].count++;
        else
            table->at[table->n++] = table->at[i];
    }
}

/* The entries of rank's class: the first, and *n of them. */
static const LengthCount *table_find(const Table *table, int rank, int *n) {
    LengthCount key = {.a = only(&table->a, rank), .b = only(&table->b, rank), .length = -1};
    int low = 0, high = table->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (compare_entries(&table->at[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *n = 0;
    while (low + *n < table->n && table->at[low + *n].a == key.a && table->at[low + *n].b == key.b)
        ++*n;
    return table->at + low;
}

/* The number of part `index` of a dimension: a rank that has its digits, and zeros elsewhere. */
static int part_number(const Layout *layout, int dim, int64_t index) {
    const Digit *digits = layout_list(layout, dim);
    int number = 0;
    for (int i = layout_count(layout, dim) - 1; i >= 0; i--) {
        number += (int)(index % digits[i].size) * digits[i].stride;
        index /= digits[i].size;
    }
    return number;
}

/* The meetings of a dimension's parts, which on both sides follow each other. */
static Meeting *meetings_of(const Pair *pair, int dim, int *n) {
    int64_t nfrom = layout_split(pair->from, dim), nto = layout_split(pair->to, dim), i = 0, k = 0;
    Meeting *meetings = allocate((size_t)(nfrom + nto), sizeof *meetings);
    *n = 0;
    while (i < nfrom && k < nto) {
        Meeting m = {.source = part_number(pair->from, dim, i), .target = part_number(pair->to, dim, k)};
        Box source, target;
        layout_box(pair->from, pair->shape, m.source, &source);
        layout_box(pair->to, pair->shape, m.target, &target);
        int64_t begin = source.begin[dim] > target.begin[dim] ? source.begin[dim] : target.begin[dim];
        int64_t end = source.end[dim] < target.end[dim] ? source.end[dim] : target.end[dim];
        m.length = end - begin;
        if (m.length > 0) meetings[(*n)++] = m;
        bool source_ends = source.end[dim] <= target.end[dim], target_ends = target.end[dim] <= source.end[dim];
        i += source_ends;
        k += target_ends;
    }
    return meetings;
}

static void list_add(DigitList *list, Digit digit) {
    list->at[list->n++] = digit;
}

static bool has_atom(const AtomList *list, int atom) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == atom) return true;
    return false;
}

static void classes_init(Classes *classes, const Pair *pair) {
    memset(classes, 0, sizeof *classes);
    classes->pair = pair;
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
            classes->others_move[classes->others.n] = source || summed;
            list_add(&classes->others, chain[i]);
        }
        if (!target && !source) {
            classes->free_move[classes->free.n] = summed;
            list_add(&classes->free, chain[i]);
        }
    }
    for (int d = 0; d < pair->shape->ndim; d++) {
        Table *table = classes->table[d];
        for (int k = 0; k < pair->natoms; k++) {
            Digit digit = pair->atom[k];
            if (has_atom(&pair->list[1][d], k)) {
                list_add(&table[OF_NEEDED].a, digit);
                list_add(&table[OF_NEEDED_SHARED].a, digit);
                if (!pair->in_from[k] && !pair->is_reduced[k]) list_add(&table[OF_HELD].b, digit);
                if (!pair->is_reduced[k]) list_add(&table[OF_HELD_SHARED].b, digit);
            }
            if (has_atom(&pair->list[0][d], k)) {
                list_add(&table[OF_HELD].a, digit);
                list_add(&table[OF_HELD_SHARED].a, digit);
                if (pair->in_to[k]) list_add(&table[OF_NEEDED_SHARED].b, digit);
            }
        }
        int nmeetings;
        Meeting *meetings = meetings_of(pair, d, &nmeetings);
        for (int kind = 0; kind < NTABLES; kind++)
            table_fill(&table[kind], (TableKind)kind, meetings, nmeetings);
        free(meetings);
    }
}

static void classes_finish(Classes *classes) {
    for (int d = 0; d < classes->pair->shape->ndim; d++)
        for (int kind = 0; kind < NTABLES; kind++)
            free(classes->table[d][kind].at);
}

/* How a piece's cells are shared out: `owners` of them, of which those that count are described by digits, or by one position. */
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

/* The sum of the shares in all pieces of a class: products of the lengths of every dimension from `dim` on. */
static int64_t shares_of(const Classes *classes, TableKind kind, int dim, int64_t cells, const Sharing *sharing) {
    if (dim == classes->pair->shape->ndim) return shares(sharing, cells);
    int n;
    int64_t sum = 0;
    const LengthCount *entry = table_find(&classes->table[dim][kind], sharing->rank, &n);
    for (int i = 0; i < n; i++)
        sum += entry[i].count * shares_of(classes, kind, dim + 1, cells * entry[i].length, sharing);
    return sum;
}

void classes_max(const Pair *pair, int64_t *received, int64_t *sent) {
    Classes classes;
    classes_init(&classes, pair);
    *received = *sent = 0;
    for (int rank = 0; rank < pair->nranks; rank++) {
        Box held, needed, both;
        layout_box(pair->from, pair->shape, rank, &held);
        layout_box(pair->to, pair->shape, rank, &needed);
        int64_t own_cells = box_intersect(&held, &needed, &both) ? box_elements(&both) : 0;
        Sharing own = {pair->owners, &classes.free, NULL, rank}, by_needers = {pair->needers, &classes.others, NULL, rank},
                to_holders = {pair->owners, &classes.free, classes.free_move, rank},
                to_needers = {pair->needers, &classes.others, classes.others_move, rank};
        int64_t own_share = shares(&own, own_cells);
        int64_t foreign = shares_of(&classes, OF_NEEDED, 0, 1, &by_needers) - shares_of(&classes, OF_NEEDED_SHARED, 0, 1, &by_needers);
        int64_t in = box_elements(&needed) + (pair->terms - 2) * own_share + (pair->terms - 1) * foreign;
        int64_t terms_out = shares_of(&classes, OF_HELD_SHARED, 0, 1, &to_holders) - own_share +
                            shares_of(&classes, OF_HELD, 0, 1, &to_needers) - shares_of(&classes, OF_HELD_SHARED, 0, 1, &to_needers);
        int64_t out = terms_out + (pair->needers - 1) * (own_share + foreign);
        if (in > *received) *received = in;
        if (out > *sent) *sent = out;
    }
    classes_finish(&classes);
}
