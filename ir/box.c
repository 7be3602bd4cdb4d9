/* Boxes, and what moves between two layouts. No function here walks a list of all ranks: each computes with the digits of rank
 * numbers, and enumerates only the digits in which the ranks concerned can differ. */
#include "ir/layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *const comm_name[NCOMMS] = {
    [COMM_ALL_REDUCE] = "all_reduce", [COMM_ALL_GATHER] = "all_gather", [COMM_REDUCE_SCATTER] = "reduce_scatter",
    [COMM_ALL_TO_ALL] = "all_to_all", [COMM_EXCHANGE] = "exchange",     [COMM_STRIDED_SLICE] = "strided_slice",
};
const char *const comm_title[NCOMMS] = {
    [COMM_ALL_REDUCE] = "AllReduce", [COMM_ALL_GATHER] = "AllGather", [COMM_REDUCE_SCATTER] = "ReduceScatter",
    [COMM_ALL_TO_ALL] = "AllToAll",  [COMM_EXCHANGE] = "Exchange",    [COMM_STRIDED_SLICE] = "StridedSlice",
};

int64_t box_elements(const Box *box) {
    int64_t elements = !box->nothing;
    for (int i = 0; i < box->ndim; i++) {
        if (box->end[i] <= box->begin[i]) return 0;
        elements *= box->end[i] - box->begin[i];
    }
    return elements;
}

bool box_intersect(const Box *a, const Box *b, Box *result) {
    assert(a->ndim == b->ndim);
    bool some = !a->nothing && !b->nothing;
    result->ndim = a->ndim;
    result->nothing = !some;
    for (int i = 0; i < a->ndim; i++) {
        result->begin[i] = a->begin[i] > b->begin[i] ? a->begin[i] : b->begin[i];
        result->end[i] = a->end[i] < b->end[i] ? a->end[i] : b->end[i];
        if (result->end[i] <= result->begin[i]) some = false;
    }
    return some;
}

BoxRuns box_runs(const Shape *shape, const Box *box) {
    BoxRuns runs = {.shape = shape, .box = box, .inner = box->ndim, .length = 1, .count = box_elements(box) > 0};
    while (runs.count > 0 && runs.inner > 0) {
        runs.inner--;
        int64_t size = box->end[runs.inner] - box->begin[runs.inner];
        runs.length *= size;
        if (size != shape->dim[runs.inner]) break;
    }
    for (int d = 0; runs.count > 0 && d < runs.inner; d++)
        runs.count *= box->end[d] - box->begin[d];
    return runs;
}

bool box_next_run(BoxRuns *runs, int64_t *first) {
    const Box *box = runs->box;
    int64_t left = runs->next, place = 1;
    if (runs->next == runs->count) return false;
    runs->next++;
    *first = 0;
    for (int d = box->ndim - 1; d >= 0; d--) {
        int64_t size = box->end[d] - box->begin[d];
        *first += place * (box->begin[d] + (d < runs->inner ? left % size : 0));
        if (d < runs->inner) left /= size;
        place *= runs->shape->dim[d];
    }
    return true;
}

/* Part number `part` of [*begin, *end) in `parts` balanced parts, the first ones one longer. */
static void divide(int64_t *begin, int64_t *end, int64_t parts, int64_t part) {
    int64_t size = *end - *begin, each = size / parts, rest = size % parts;
    *begin += part * each + (part < rest ? part : rest);
    *end = *begin + each + (part < rest);
}

/* Rounded down, also below 0; b > 0. */
static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

void halo_range(const Halo *halo, int64_t size, int64_t *begin, int64_t *end) {
    const bool some = *begin < *end;
    int64_t first = *begin, last = *end - 1;
    if (halo->kind != HALO_SEES) { /* windows */
        first = floor_div(first - halo->high + halo->stride - 1, halo->stride);
        last = floor_div(last + halo->low, halo->stride);
        if (first < 0) first = 0;
    }
    if (some && first <= last && halo->kind != HALO_SEEN) {
        first = first * halo->stride - halo->low;
        last = last * halo->stride + halo->high;
    }
    if (first < 0) first = 0;
    if (last > size - 1) last = size - 1;
    *begin = some && first <= last ? first : 0;
    *end = some && first <= last ? last + 1 : 0;
}

/* The range that the digits of `number` choose, of a dimension or, with a halo, of what the halo's digits divide. */
static void digits_range(const Layout *layout, int dim, int64_t size, int number, int64_t *begin, int64_t *end) {
    *begin = 0;
    *end = size;
    for (int i = 0; i < layout_count(layout, dim); i++) {
        Digit d = layout_list(layout, dim)[i];
        divide(begin, end, d.size, digit_of(d, number));
    }
}

/* The range of a dimension held by the ranks whose digits of that dimension are those of `number`. */
static void dim_range(const Layout *layout, int dim, int64_t size, int number, int64_t *begin, int64_t *end) {
    const Halo *halo = layout_halo(layout, dim);
    digits_range(layout, dim, halo ? halo->of : size, number, begin, end);
    if (halo) halo_range(halo, size, begin, end);
}

/* Leaves entries of box beyond the shape's dimensions unset, to be fast: pieces ask for many boxes. */
static void position_box(const Layout *layout, const Shape *shape, int position, Box *box) {
    assert(layout->ndim == shape->ndim);
    box->ndim = shape->ndim;
    box->nothing = !layout_has_rank(layout, position);
    if (box->nothing) {
        *box = (Box){.ndim = shape->ndim, .nothing = true};
        return;
    }
    for (int i = 0; i < shape->ndim; i++)
        dim_range(layout, i, shape->dim[i], position, &box->begin[i], &box->end[i]);
}

/* The intersection of a position's box with a box that is not empty; stops at the first dimension in which it is empty. */
static bool position_meets(const Layout *layout, const Shape *shape, int position, const Box *box, Box *both) {
    both->ndim = shape->ndim;
    both->nothing = box->nothing || !layout_has_rank(layout, position);
    for (int d = 0; d < shape->ndim && !both->nothing; d++) {
        int64_t begin, end;
        dim_range(layout, d, shape->dim[d], position, &begin, &end);
        both->begin[d] = begin > box->begin[d] ? begin : box->begin[d];
        both->end[d] = end < box->end[d] ? end : box->end[d];
        both->nothing = both->end[d] <= both->begin[d];
    }
    return !both->nothing;
}

void layout_box(const Layout *layout, const Shape *shape, int rank, Box *box) {
    *box = (Box){0};
    position_box(layout, shape, order_position(layout->order, rank), box);
}

void layout_local_shape(const Layout *layout, const Shape *shape, int rank, Shape *local) {
    Box box;
    layout_box(layout, shape, rank, &box);
    *local = (Shape){.ndim = shape->ndim};
    for (int i = 0; i < shape->ndim; i++)
        local->dim[i] = box.end[i] - box.begin[i];
}

/* The number whose given digits, major first, spell index, and whose other digits are 0. */
static int number_of(const Digit *digits, int n, int64_t index) {
    int64_t number = 0;
    for (int i = n - 1; i >= 0; i--) {
        number += index % digits[i].size * digits[i].stride;
        index /= digits[i].size;
    }
    return (int)number;
}

/* The number for the next index after that of `number`, whose digits have these values; 0 after the last. */
static int number_behind(const Digit *digits, int n, int *value, int number) {
    for (int i = n - 1; i >= 0; i--) {
        if (++value[i] < digits[i].size) return number + digits[i].stride;
        number -= (digits[i].size - 1) * digits[i].stride;
        value[i] = 0;
    }
    return number;
}

/* The longest range of a dimension: that of the first part. With a halo, ranges at the ends of the dimension may be shorter. */
static int64_t longest_range(const Layout *layout, int dim, int64_t size) {
    const int64_t parts = layout_halo(layout, dim) ? layout_split(layout, dim) : 1;
    int64_t longest = 0;
    for (int64_t part = 0; part < parts; part++) {
        int64_t begin, end;
        dim_range(layout, dim, size, number_of(layout_list(layout, dim), layout_count(layout, dim), part), &begin, &end);
        if (end - begin > longest) longest = end - begin;
    }
    return longest;
}

int64_t layout_max_elements(const Layout *layout, const Shape *shape) {
    assert(layout->ndim == shape->ndim);
    int64_t elements = 1;
    for (int d = 0; d < shape->ndim; d++)
        elements *= longest_range(layout, d, shape->dim[d]);
    return elements;
}

bool halo_is_idle(const Layout *layout, int dim, int64_t size) {
    const Halo *halo = layout_halo(layout, dim);
    const int64_t parts = layout_split(layout, dim);
    for (int64_t part = 0; part < parts; part++) {
        const int number = number_of(layout_list(layout, dim), layout_count(layout, dim), part);
        int64_t begin, end, own_begin, own_end;
        digits_range(layout, dim, halo->of, number, &begin, &end);
        halo_range(halo, size, &begin, &end);
        digits_range(layout, dim, size, number, &own_begin, &own_end);
        if (end - begin != own_end - own_begin || (begin < end && begin != own_begin)) return false;
    }
    return true;
}

/* The inverse of number_of: the index that the given digits of number spell. */
static int index_of(const Digit *digits, int n, int number) {
    int64_t index = 0;
    for (int i = 0; i < n; i++)
        index = index * digits[i].size + digit_of(digits[i], number);
    return (int)index;
}

/* number with all digits but the given ones set to 0. */
static int only(const Digit *digits, int n, int number) {
    int64_t kept = 0;
    for (int i = 0; i < n; i++)
        kept += (int64_t)digit_of(digits[i], number) * digits[i].stride;
    return (int)kept;
}

static int combinations(const Digit *digits, int n) {
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product *= digits[i].size;
    return (int)product;
}

int group_members(const Digit *digits, int n, int rank, int *members, int *position) {
    int count = combinations(digits, n), leader = group_leader(digits, n, rank);
    for (int i = 0; i < count; i++)
        members[i] = leader + number_of(digits, n, i);
    *position = index_of(digits, n, rank);
    return count;
}

int group_leader(const Digit *digits, int n, int rank) {
    return rank - only(digits, n, rank);
}

/* ---------------------------------------------------------------- redistribution
 *
 * Below, a rank is its position: a receiver its position in to's device order, a sender of terms its position in from's; only pieces name
 * ranks by their numbers. Where both layouts have one order the two are the same. */

/* A set of positions in to's order, ascending: those that agree with base in all digits but the free ones; or, where no such digits exist
 * (layouts of different meshes or orders), a list. */
typedef struct Ranks {
    int count, base;
    int nfree;
    Digit free[MAX_DIGITS]; /* descending strides */
    const int *list;        /* or NULL */
} Ranks;

static int ranks_at(const Ranks *ranks, int i) {
    return ranks->list ? ranks->list[i] : ranks->base + number_of(ranks->free, ranks->nfree, i);
}

/* The position of rank among ranks, -1 when it is not there. */
static int ranks_find(const Ranks *ranks, int rank) {
    if (!ranks->list) {
        int i = index_of(ranks->free, ranks->nfree, rank);
        return i < ranks->count && ranks_at(ranks, i) == rank ? i : -1;
    }
    int low = 0, high = ranks->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (ranks->list[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ranks->count && ranks->list[low] == rank ? low : -1;
}

/* One redistribution, prepared. The digits of the source are those that divide dimensions in `from`, and its pin's; those of the target are all that
 * decide what a rank needs: its pin's, the ones that divide dimensions in `to`, and the partial ones that stay. */
typedef struct Redistribution {
    const Layout *from, *to;
    const Shape *shape;
    int nranks;
    Digit source[MAX_DIGITS + 1], target[MAX_DIGITS + 1];
    int nsource, ntarget;
    const Digit *kept; /* the partial digits of `to` */
    int nkept;
    const Order *from_order, *to_order;
    bool mixed;               /* the two orders differ */
    Digit summed[MAX_DIGITS]; /* descending strides */
    int nsummed, nterms;
    Digit other[MAX_DIGITS]; /* completes target to a mixed radix of nranks: ranks that need the same differ only in these */
    int nother;
    Digit rest[MAX_DIGITS]; /* the same for source: ranks that hold the same part differ only there */
    int nrest;
    Digit chain[MAX_DIGITS]; /* source and target, completed together; nchain < 0: they do not fit together */
    int nchain;
    Arena arena; /* of list */
    int *list;   /* room for all ranks that need the same; only where nchain < 0 or the orders differ */
} Redistribution;

static bool within_any(Digit d, const Digit *digits, int n) {
    for (int i = 0; i < n; i++)
        if (digit_within(d, digits[i])) return true;
    return false;
}

/* The digits that complete others to a mixed radix of nranks; their number. */
static int digits_left(const Digit *digits, int n, int nranks, Digit *left) {
    Digit radix[MAX_DIGITS];
    int nradix = digits_chain(digits, n, NULL, 0, nranks, radix), nleft = 0;
    assert(nradix >= 0);
    for (int i = 0; i < nradix; i++)
        if (!within_any(radix[i], digits, n)) left[nleft++] = radix[i];
    return nleft;
}

/* Collects the digit of a layout's pin, then the layout's first n digits. */
static int digits_of(const Layout *layout, int n, Digit *digits) {
    const int pinned = layout_is_pinned(layout);
    digits[0] = layout->pin.digit;
    memcpy(digits + pinned, layout->digit, (size_t)n * sizeof *digits);
    return n + pinned;
}

static void move_init(Redistribution *m, const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    assert(from->ndim == shape->ndim && to->ndim == shape->ndim && !layout_has_halo(from));
    *m = (Redistribution){.from = from, .to = to, .shape = shape, .nranks = nranks};
    Reduction kind;
    m->nsource = digits_of(from, from->start[from->ndim], m->source);
    m->ntarget = digits_of(to, to->start[to->ndim + NREDUCTIONS], m->target);
    m->kept = to->digit + to->start[to->ndim];
    m->nkept = to->start[to->ndim + NREDUCTIONS] - to->start[to->ndim];
    m->mixed = !layout_orders_agree(from, to, &m->from_order);
    m->to_order = m->mixed ? to->order : m->from_order;
    m->nsummed = layout_summed(from, to, m->summed, &kind);
    assert(m->nsummed >= 0);
    m->nterms = combinations(m->summed, m->nsummed);
    if (m->nterms == 1) return;

    m->nother = digits_left(m->target, m->ntarget, nranks, m->other);
    m->nrest = digits_left(m->source, m->nsource, nranks, m->rest);
    m->nchain = m->mixed ? -1 : digits_chain(m->source, m->nsource, m->target, m->ntarget, nranks, m->chain);
    arena_init(&m->arena);
    if (m->nchain < 0) m->list = arena_alloc(&m->arena, (size_t)combinations(m->other, m->nother) * sizeof(int));
}

/* The position in from's order of the rank at a position of to's order, and the reverse. */
static int source_position(const Redistribution *m, int target) {
    return m->mixed ? order_position(m->from_order, order_rank(m->to_order, target)) : target;
}
static int target_position(const Redistribution *m, int source) {
    return m->mixed ? order_position(m->to_order, order_rank(m->from_order, source)) : source;
}

/* The ranks that need what rank needs. */
static void needers(const Redistribution *m, int rank, Ranks *ranks) {
    *ranks = (Ranks){.count = combinations(m->other, m->nother), .base = group_leader(m->other, m->nother, rank), .nfree = m->nother};
    memcpy(ranks->free, m->other, sizeof m->other);
}

/* The owners of a piece: among the ranks that need what rank needs, those whose source digits are those of part, and which so hold a
 * term of it; all of them, when there is none. */
static void owners(const Redistribution *m, int rank, int part, Ranks *ranks) {
    if (m->nchain < 0) {
        needers(m, rank, ranks);
        int count = 0, holders = combinations(m->rest, m->nrest);
        if (!m->mixed && holders < ranks->count) { /* walks the few that hold the part, and takes those that need what rank needs */
            for (int i = 0, wanted = only(m->target, m->ntarget, rank); i < holders; i++) {
                int other = part + number_of(m->rest, m->nrest, i);
                if (only(m->target, m->ntarget, other) == wanted) m->list[count++] = other;
            }
            if (count > 0) *ranks = (Ranks){.count = count, .list = m->list};
            return;
        }
        for (int i = 0; i < ranks->count; i++) {
            int other = ranks_at(ranks, i), held = source_position(m, other);
            bool its_term = only(m->kept, m->nkept, held) == only(m->kept, m->nkept, rank); /* always, where the orders are one */
            if (its_term && only(m->source, m->nsource, held) == part) m->list[count++] = other;
        }
        if (count > 0) *ranks = (Ranks){.count = count, .list = m->list};
        return;
    }
    *ranks = (Ranks){0};
    for (int i = 0; i < m->nchain; i++) {
        Digit d = m->chain[i];
        bool in_target = within_any(d, m->target, m->ntarget), in_source = within_any(d, m->source, m->nsource);
        if (in_target && in_source && digit_of(d, rank) != digit_of(d, part)) {
            needers(m, rank, ranks);
            return;
        }
        if (in_target || in_source)
            ranks->base += digit_of(d, in_target ? rank : part) * d.stride;
        else
            ranks->free[ranks->nfree++] = d;
    }
    ranks->count = combinations(ranks->free, ranks->nfree);
}

/* The share of owner i of n in a piece; false when it is empty. */
static bool share(Piece *piece, int n, int i) {
    int64_t begin = 0, end = box_elements(&piece->box);
    divide(&begin, &end, n, i);
    piece->first = begin;
    piece->count = end - begin;
    return piece->count > 0;
}

/* A walk over the parts of the source that a box meets, in row-major order: boxes that are pieces of the box. */
typedef struct Parts {
    int ndim;
    int first[MAX_NDIM], last[MAX_NDIM], at[MAX_NDIM]; /* part numbers of each dimension; last is inclusive */
    Box within, box;                                   /* box: the present piece */
    int number[MAX_NDIM];                              /* a rank number with the digits of the present part */
    int part;                                          /* their sum */
} Parts;

/* Moves dimension dim to its first non-empty part from `at` on; false when there is none up to last. */
static bool parts_settle(Parts *p, const Redistribution *m, int dim, int at) {
    for (; at <= p->last[dim]; at++) {
        int64_t begin, end;
        int number = number_of(layout_list(m->from, dim), layout_count(m->from, dim), at);
        dim_range(m->from, dim, m->shape->dim[dim], number, &begin, &end);
        if (begin < p->within.begin[dim]) begin = p->within.begin[dim];
        if (end > p->within.end[dim]) end = p->within.end[dim];
        if (begin >= end) continue;
        p->at[dim] = at;
        p->box.begin[dim] = begin;
        p->box.end[dim] = end;
        p->part += number - p->number[dim];
        p->number[dim] = number;
        return true;
    }
    return false;
}

/* The first part of a dimension whose range ends after cell. */
static int part_after(const Redistribution *m, int dim, int64_t cell) {
    const Digit *digits = layout_list(m->from, dim);
    int n = layout_count(m->from, dim), low = 0, high = combinations(digits, n);
    while (low < high) {
        int middle = low + (high - low) / 2;
        int64_t begin, end;
        dim_range(m->from, dim, m->shape->dim[dim], number_of(digits, n, middle), &begin, &end);
        if (end > cell)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* False when box is empty. */
static bool parts_begin(Parts *p, const Redistribution *m, const Box *box) {
    if (box_elements(box) == 0) return false;
    *p = (Parts){.ndim = box->ndim, .within = *box, .box = {.ndim = box->ndim}};
    if (layout_is_pinned(m->from)) p->part = m->from->pin.value * m->from->pin.digit.stride;
    for (int i = 0; i < box->ndim; i++) {
        p->first[i] = part_after(m, i, box->begin[i]);
        p->last[i] = part_after(m, i, box->end[i] - 1);
        bool some = parts_settle(p, m, i, p->first[i]);
        assert(some);
        (void)some;
    }
    return true;
}

static bool parts_next(Parts *p, const Redistribution *m) {
    for (int i = p->ndim - 1; i >= 0; i--) {
        if (parts_settle(p, m, i, p->at[i] + 1)) return true;
        parts_settle(p, m, i, p->first[i]);
    }
    return false;
}

/* The rank that holds term `term` of a part, among those that rank keeps, and that agrees with rank in every other digit. */
static int holder(const Redistribution *m, int rank, int part, int term) {
    int at = source_position(m, rank);
    at += part - only(m->source, m->nsource, at);
    at += number_of(m->summed, m->nsummed, term) - only(m->summed, m->nsummed, at);
    at += only(m->kept, m->nkept, rank) - only(m->kept, m->nkept, at);
    return order_rank(m->from_order, at);
}

/* Round 0 of a rank: receives the terms of one piece, or of its share when terms are added up. */
static bool receive_terms(const Redistribution *m, const Parts *parts, int rank, PieceFn *fn, void *context) {
    Piece piece = {.to = order_rank(m->to_order, rank), .box = parts->box, .count = box_elements(&parts->box)};
    if (m->nterms > 1) {
        Ranks own;
        owners(m, rank, parts->part, &own);
        int i = ranks_find(&own, rank);
        if (i < 0 || !share(&piece, own.count, i)) return true;
    }
    for (piece.term = 0; piece.term < m->nterms; piece.term++) {
        piece.from = holder(m, rank, parts->part, piece.term);
        if (!fn(context, &piece)) return false;
    }
    return true;
}

/* Round 1 of a rank: receives the other owners' shares of one piece. */
static bool receive_shares(const Redistribution *m, const Parts *parts, int rank, PieceFn *fn, void *context) {
    Piece piece = {.to = order_rank(m->to_order, rank), .round = 1, .box = parts->box};
    Ranks own;
    owners(m, rank, parts->part, &own);
    for (int i = 0; i < own.count && share(&piece, own.count, i); i++) {
        piece.from = order_rank(m->to_order, ranks_at(&own, i));
        if (piece.from != piece.to && !fn(context, &piece)) return false;
    }
    return true;
}

bool pieces_received(const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank, PieceFn *fn, void *context) {
    Redistribution m;
    move_init(&m, from, to, shape, nranks);
    Box wanted;
    rank = order_position(m.to_order, rank);
    position_box(to, shape, rank, &wanted);
    Parts parts;
    bool more = true;
    for (int round = 0; more && round < (m.nterms > 1 ? 2 : 1); round++)
        for (bool some = parts_begin(&parts, &m, &wanted); more && some; some = parts_next(&parts, &m))
            more = (round ? receive_shares : receive_terms)(&m, &parts, rank, fn, context);
    arena_finish(&m.arena);
    return more;
}

/* The digits in which a receiver may differ from the rank that sends it a term: those of the source and the summed ones; and, where the
 * orders differ, those that stay partial. */
static int differing(const Redistribution *m, Digit *differ) {
    Digit chain[MAX_DIGITS], all[2 * MAX_DIGITS];
    int nall = 0, ndiffer = 0;
    for (int i = 0; i < m->nsummed; i++)
        all[nall++] = m->summed[i];
    for (int i = 0; m->mixed && i < m->nkept; i++)
        all[nall++] = m->kept[i];
    int n = digits_chain(m->source, m->nsource, all, nall, m->nranks, chain);
    assert(n >= 0);
    for (int i = 0; i < n; i++)
        if (within_any(chain[i], m->source, m->nsource) || within_any(chain[i], all, nall)) differ[ndiffer++] = chain[i];
    return ndiffer;
}

/* Round 0 of a sender: it sends what it holds to ranks that differ from it only in certain digits. */
static bool send_terms(const Redistribution *m, int rank, PieceFn *fn, void *context) {
    Box held;
    position_box(m->from, m->shape, rank, &held);
    if (box_elements(&held) == 0) return true;
    Digit differ[MAX_DIGITS];
    int ndiffer = differing(m, differ);
    Piece piece = {.from = order_rank(m->from_order, rank), .term = index_of(m->summed, m->nsummed, rank)};
    int part = only(m->source, m->nsource, rank), kept_term = only(m->kept, m->nkept, rank), leader = group_leader(differ, ndiffer, rank);
    int value[MAX_DIGITS] = {0}, number = 0;
    for (int i = combinations(differ, ndiffer); i > 0; i--, number = number_behind(differ, ndiffer, value, number)) {
        const int receiver = leader + number, at = target_position(m, receiver);
        if (receiver == rank || only(m->kept, m->nkept, at) != kept_term) continue;
        if (!position_meets(m->to, m->shape, at, &held, &piece.box)) continue;
        piece.to = order_rank(m->to_order, at);
        if (m->nterms > 1) {
            Ranks own;
            owners(m, at, part, &own);
            const int place = ranks_find(&own, at);
            if (place < 0 || !share(&piece, own.count, place)) continue;
        } else {
            piece.count = box_elements(&piece.box);
        }
        if (!fn(context, &piece)) return false;
    }
    return true;
}

/* Round 1 of a sender: its share of a piece is sent to all others that need it. */
static bool send_shares(const Redistribution *m, const Parts *parts, int rank, PieceFn *fn, void *context) {
    Piece piece = {.from = order_rank(m->to_order, rank), .round = 1, .box = parts->box};
    Ranks own, all;
    owners(m, rank, parts->part, &own);
    int at = ranks_find(&own, rank);
    if (at < 0 || !share(&piece, own.count, at)) return true;
    needers(m, rank, &all);
    for (int i = 0; i < all.count; i++) {
        piece.to = order_rank(m->to_order, ranks_at(&all, i));
        if (piece.to != piece.from && !fn(context, &piece)) return false;
    }
    return true;
}

bool pieces_sent(const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank, PieceFn *fn, void *context) {
    Redistribution m;
    move_init(&m, from, to, shape, nranks);
    Box wanted;
    Parts parts;
    bool more = send_terms(&m, order_position(m.from_order, rank), fn, context);
    rank = order_position(m.to_order, rank);
    position_box(to, shape, rank, &wanted);
    if (m.nterms > 1)
        for (bool some = parts_begin(&parts, &m, &wanted); more && some; some = parts_next(&parts, &m))
            more = send_shares(&m, &parts, rank, fn, context);
    arena_finish(&m.arena);
    return more;
}

/* ---------------------------------------------------------------- how much that is */

typedef struct PieceCount {
    int64_t *received, *sent; /* per rank */
} PieceCount;

static bool count_piece(void *context, const Piece *piece) {
    PieceCount *count = context;
    if (piece->from == piece->to) return true;
    count->received[piece->to] += piece->count;
    count->sent[piece->from] += piece->count;
    return true;
}

static void add_rank(Traffic *traffic, int64_t elements) {
    traffic->total += elements;
    if (elements > traffic->max) traffic->max = elements;
}

void pieces_count(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *received, Traffic *sent) {
    PieceCount count = {0};
    count.received = calloc((size_t)nranks * 2, sizeof *count.received);
    if (!count.received) abort();
    count.sent = count.received + nranks;
    for (int rank = 0; rank < nranks; rank++)
        pieces_received(from, to, shape, nranks, rank, count_piece, &count);
    *received = *sent = (Traffic){0};
    for (int rank = 0; rank < nranks; rank++) {
        add_rank(received, count.received[rank]);
        add_rank(sent, count.sent[rank]);
    }
    free(count.received);
}

void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to) {
    const Order *order;
    bool agree = layout_orders_agree(from, to, &order);
    if ((kind != COMM_ALL_REDUCE && kind != COMM_REDUCE_SCATTER) || !agree) return; /* with two orders there are no such groups */
    const int lists = from->ndim + NREDUCTIONS;
    const Layout a = *from, b = *to;
    Digit chain[MAX_DIGITS], source[MAX_DIGITS + 1];
    const int nsource = digits_of(&a, a.start[lists], source);
    int n = digits_chain(source, nsource, b.digit, b.start[lists], nranks, chain);
    for (int i = 0; i < n; i++) {
        if (within_any(chain[i], a.digit, a.start[lists]) || within_any(chain[i], b.digit, b.start[lists])) continue;
        if (layout_is_pinned(&a) && digit_within(chain[i], a.pin.digit)) continue; /* ranks with other values of it hold nothing */
        bool room = layout_append(from, from->ndim + REDUCE_SUM, chain[i]) && layout_append(to, to->ndim + REDUCE_SUM, chain[i]);
        assert(room); /* digits of one chain: at most 31 */
        (void)room;
    }
    from->order = to->order = order; /* also for the layout that had no digits before */
}

bool layout_holds_first(const Layout *layout, int nranks, int rank) {
    Digit chain[MAX_DIGITS], digits[MAX_DIGITS + 1];
    const int ndigits = digits_of(layout, layout->start[layout->ndim], digits), n = digits_chain(digits, ndigits, NULL, 0, nranks, chain);
    for (int i = 0; i < n; i++)
        if (!within_any(chain[i], digits, ndigits) && digit_of(chain[i], rank) != 0) return false;
    return layout_has_rank(layout, rank);
}
