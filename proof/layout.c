/* This folder's own implementation of boxes, sets of digits and conversions, and the comparison of ir/box.c with it. */
#include "proof/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- sets of digits */

bool set_add(DigitSet *set, Digit digit) {
    int64_t low = digit.stride, high = (int64_t)digit.stride * digit.size;
    int at = 0;
    while (at < set->n && set->low[at] < low)
        at++;
    /* What lies below must end before low and divide it; what lies above must start at a multiple of high. */
    if (at > 0 && (set->high[at - 1] > low || low % set->high[at - 1])) return false;
    if (at < set->n && (high > set->low[at] || set->low[at] % high)) return false;
    bool below = at > 0 && set->high[at - 1] == low, above = at < set->n && set->low[at] == high;
    if (below && above) {
        set->high[at - 1] = set->high[at];
        memmove(set->low + at, set->low + at + 1, (size_t)(set->n - at - 1) * sizeof *set->low);
        memmove(set->high + at, set->high + at + 1, (size_t)(set->n - at - 1) * sizeof *set->high);
        set->n--;
    } else if (below) {
        set->high[at - 1] = high;
    } else if (above) {
        set->low[at] = (int32_t)low;
    } else {
        if (set->n == MAX_DIGITS) return false;
        memmove(set->low + at + 1, set->low + at, (size_t)(set->n - at) * sizeof *set->low);
        memmove(set->high + at + 1, set->high + at, (size_t)(set->n - at) * sizeof *set->high);
        set->low[at] = (int32_t)low;
        set->high[at] = high;
        set->n++;
    }
    return true;
}

bool set_add_list(DigitSet *set, const Layout *layout, int list) {
    for (int i = 0; i < layout_count(layout, list); i++)
        if (!set_add(set, layout_list(layout, list)[i])) return false;
    return true;
}

bool set_add_set(DigitSet *set, const DigitSet *other) {
    for (int i = 0; i < other->n; i++)
        if (!set_add(set, (Digit){.size = (int32_t)(other->high[i] / other->low[i]), .stride = other->low[i]})) return false;
    return true;
}

bool set_equal(const DigitSet *a, const DigitSet *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->low[i] != b->low[i] || a->high[i] != b->high[i]) return false;
    return true;
}

bool set_subtract(const DigitSet *a, const DigitSet *b, DigitSet *rest) {
    rest->n = 0;
    int k = 0;
    for (int i = 0; i < a->n; i++) {
        int64_t low = a->low[i];
        for (; k < b->n && b->high[k] <= a->high[i]; k++) {
            if (b->low[k] < low || b->low[k] % low || a->high[i] % b->high[k]) return false;
            if (b->low[k] > low && !set_add(rest, (Digit){.size = (int32_t)(b->low[k] / low), .stride = (int32_t)low})) return false;
            low = b->high[k];
        }
        if (low < a->high[i] && !set_add(rest, (Digit){.size = (int32_t)(a->high[i] / low), .stride = (int32_t)low})) return false;
    }
    return k == b->n;
}

void set_print(Text *text, const DigitSet *set) {
    text_printf(text, "{");
    for (int i = set->n - 1; i >= 0; i--)
        text_printf(text, "%s%d@%d", i < set->n - 1 ? ", " : "", (int)(set->high[i] / set->low[i]), (int)set->low[i]);
    text_printf(text, "}");
}

/* ---------------------------------------------------------------- layouts and boxes */

bool own_layout_valid(const Layout *layout, int ndim, int nranks, const char **why) {
    DigitSet all = {0};
    if (layout->ndim != ndim) return *why = "the layout has another number of dimensions than its tensor", false;
    if (layout->order) return *why = "the layout has a device order, of which this proof knows nothing", false;
    for (int d = 0; d < ndim; d++) {
        const Halo *halo = layout_halo(layout, d);
        const int64_t most = (int64_t)1 << 48;
        if (!halo) continue;
        if (layout_count(layout, d) == 0) return *why = "a halo around a dimension that is whole", false;
        if (halo->of < 1 || halo->of > most || halo->stride < 1 || halo->stride > 1 << 30 || halo->low < -most || halo->low > most ||
            halo->high < -most || halo->high > most || halo->of > ((int64_t)1 << 60) / halo->stride)
            return *why = "a halo with impossible numbers", false;
    }
    if (layout_is_pinned(layout)) {
        const Digit d = layout->pin.digit;
        if (d.size < 2 || d.stride < 1 || (int64_t)d.size * d.stride > nranks || nranks % ((int64_t)d.size * d.stride) ||
            layout->pin.value < 0 || layout->pin.value >= d.size)
            return *why = "a pin to what the number of ranks does not have", false;
        set_add(&all, d);
    }
    for (int list = 0; list < ndim + NREDUCTIONS; list++) {
        for (int i = 0; i < layout_count(layout, list); i++) {
            Digit d = layout_list(layout, list)[i];
            if (d.size < 2 || d.stride < 1 || (int64_t)d.size * d.stride > nranks || nranks % ((int64_t)d.size * d.stride))
                return *why = "a digit that the number of ranks does not have", false;
            if (!set_add(&all, d)) return *why = "two digits of one layout overlap", false;
        }
    }
    return true;
}

/* The range of part `index` (mixed radix of the list's digits, major first) of a dimension. */
static void part_range(const Digit *digit, int n, const int *value, int64_t size, int64_t *begin, int64_t *end) {
    int64_t low = 0, high = size;
    for (int i = 0; i < n; i++) {
        int64_t length = high - low, parts = digit[i].size, each = length / parts, longer = length - each * parts, v = value[i];
        /* parts 0 .. longer - 1 have one more */
        int64_t b = v <= longer ? v * (each + 1) : longer * (each + 1) + (v - longer) * each;
        high = low + b + each + (v < longer ? 1 : 0);
        low += b;
    }
    *begin = low;
    *end = high;
}

/* Replaces a part [*begin, *end) of its letter by the part with its halo, in a dimension of this size: from the first place or window that
 * exists to the last. */
static void around(const Halo *halo, int64_t size, int64_t *begin, int64_t *end) {
    int64_t first = *begin, behind = *end;
    bool any = first < behind;
    if (any && halo->kind != HALO_SEES) { /* windows 0, 1, .. whose last place is not before the part and whose first is not after it */
        const int64_t short_of = *begin - halo->high, up_to = *end - 1 + halo->low;
        first = short_of <= 0 ? 0 : (short_of - 1) / halo->stride + 1;
        behind = up_to < 0 ? 0 : up_to / halo->stride + 1;
        any = first < behind;
    }
    if (any && halo->kind != HALO_SEEN) { /* their places */
        first = first * halo->stride - halo->low;
        behind = (behind - 1) * halo->stride + halo->high + 1;
    }
    *begin = !any || first < 0 ? 0 : first;
    *end = !any ? 0 : behind > size ? size : behind;
    if (*end <= *begin) *begin = *end = 0;
}

/* The range of the part that the digits' values give, with its halo. */
static void own_range(const Layout *layout, int d, const int *value, int64_t size, int64_t *begin, int64_t *end) {
    const Halo *halo = layout_halo(layout, d);
    part_range(layout_list(layout, d), layout_count(layout, d), value, halo ? halo->of : size, begin, end);
    if (halo) around(halo, size, begin, end);
}

void own_dim(const Layout *layout, int d, int64_t size, int rank, int64_t *begin, int64_t *end) {
    int value[MAX_DIGITS];
    for (int i = 0; i < layout_count(layout, d); i++)
        value[i] = rank / layout_list(layout, d)[i].stride % layout_list(layout, d)[i].size;
    own_range(layout, d, value, size, begin, end);
}

bool own_halos(const Layout *layout) {
    bool any = false;
    for (int d = 0; d < layout->ndim; d++)
        any = any || layout_halo(layout, d);
    return any;
}

int own_rank_of(const Layout *layout, int d, int64_t part) {
    int64_t rank = 0;
    for (int i = layout_count(layout, d) - 1; i >= 0; i--) {
        const Digit digit = layout_list(layout, d)[i];
        rank += part % digit.size * digit.stride;
        part /= digit.size;
    }
    return (int)rank;
}

bool own_has_rank(const Layout *layout, int rank) {
    const Pin *pin = &layout->pin;
    return pin->digit.size == 0 || rank / pin->digit.stride % pin->digit.size == pin->value;
}

void own_box(const Layout *layout, const Shape *shape, int rank, Box *box) {
    *box = (Box){.ndim = shape->ndim, .nothing = !own_has_rank(layout, rank)};
    for (int d = 0; d < shape->ndim && !box->nothing; d++)
        own_dim(layout, d, shape->dim[d], rank, &box->begin[d], &box->end[d]);
}

int64_t own_max_elements(const Layout *layout, const Shape *shape) {
    int64_t n = 1;
    for (int d = 0; d < shape->ndim; d++) {
        /* rank 0 has all digits 0, and first parts are the longest; but with halos, other parts may be longer */
        const int64_t parts = layout_halo(layout, d) ? layout_split(layout, d) : 1;
        int64_t most = 0;
        for (int64_t part = 0; part < parts; part++) {
            int64_t begin, end;
            own_dim(layout, d, shape->dim[d], own_rank_of(layout, d, part), &begin, &end);
            if (end - begin > most) most = end - begin;
        }
        n *= most;
    }
    return n;
}

bool own_list_same(const Layout *a, int list_a, const Layout *b, int list_b, int64_t size) {
    int na = layout_count(a, list_a), nb = layout_count(b, list_b);
    const Digit *da = layout_list(a, list_a), *db = layout_list(b, list_b);
    if (na == nb && !memcmp(da, db, (size_t)na * sizeof *da)) return true;
    int64_t parts = layout_split(a, list_a);
    if (parts != layout_split(b, list_b) || parts > 1 << 16) return false;
    /* Compare the parts over all values of a's digits, at the rank with these digits. */
    DigitSet sa = {0}, sb = {0};
    if (!set_add_list(&sa, a, list_a) || !set_add_list(&sb, b, list_b) || !set_equal(&sa, &sb)) return false;
    for (int64_t p = 0; p < parts; p++) {
        int va[MAX_DIGITS], vb[MAX_DIGITS];
        int64_t rank = 0, rest = p, begin[2], end[2];
        for (int i = na - 1; i >= 0; i--) {
            va[i] = (int)(rest % da[i].size);
            rest /= da[i].size;
            rank += (int64_t)va[i] * da[i].stride;
        }
        for (int i = 0; i < nb; i++)
            vb[i] = (int)(rank / db[i].stride % db[i].size);
        part_range(da, na, va, size, &begin[0], &end[0]);
        part_range(db, nb, vb, size, &begin[1], &end[1]);
        if (begin[0] != begin[1] || end[0] != end[1]) return false;
    }
    return true;
}

static uint64_t mix(uint64_t *seed) { /* SplitMix64 */
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void sample_ranks(int nranks, Sample *sample) {
    sample->n = 0;
    if (nranks <= 64) {
        for (int r = 0; r < nranks; r++)
            sample->rank[sample->n++] = r;
        return;
    }
    uint64_t seed = (uint64_t)nranks;
    for (int i = 0; i < 64; i++)
        sample->rank[sample->n++] = (int)(mix(&seed) % (uint64_t)nranks);
    sample->rank[sample->n++] = 0;
    sample->rank[sample->n++] = nranks - 1;
    for (int t = 1; t < nranks && sample->n < 158; t *= 2) { /* the first and last values of digits of every stride */
        sample->rank[sample->n++] = t;
        sample->rank[sample->n++] = nranks - 1 - t;
    }
}

static bool box_equal(const Box *a, const Box *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->begin[d] != b->begin[d] || a->end[d] != b->end[d]) return false;
    return a->ndim == b->ndim && a->nothing == b->nothing;
}

static bool box_within(const Box *inner, const Box *outer) {
    for (int d = 0; d < inner->ndim; d++)
        if (inner->begin[d] < outer->begin[d] || inner->end[d] > outer->end[d]) return false;
    return !outer->nothing;
}

static int64_t volume(const Box *box) {
    int64_t n = !box->nothing;
    for (int d = 0; d < box->ndim; d++)
        n *= box->end[d] > box->begin[d] ? box->end[d] - box->begin[d] : 0;
    return n;
}

bool box_check(const Layout *layout, const Shape *shape, const Sample *sample, char *why, size_t n) {
    for (int i = 0; i < sample->n; i++) {
        Box own, theirs;
        own_box(layout, shape, sample->rank[i], &own);
        layout_box(layout, shape, sample->rank[i], &theirs);
        if (!box_equal(&own, &theirs)) {
            snprintf(why, n, "rank %d's box differs from the one that prun would use", sample->rank[i]);
            return false;
        }
    }
    if (layout_max_elements(layout, shape) != own_max_elements(layout, shape)) {
        snprintf(why, n, "the largest box differs from the one that prun would allocate");
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- patterns of the kinds */

static bool prefix(const Layout *shorter, const Layout *longer, int list) {
    int n = layout_count(shorter, list);
    return n <= layout_count(longer, list) && !memcmp(layout_list(shorter, list), layout_list(longer, list), (size_t)n * sizeof(Digit));
}

/* Whether every rank's range of a dimension is empty: its windows see only padding. */
static bool all_empty(const Layout *layout, int d, int64_t size) {
    const int64_t parts = layout_split(layout, d);
    bool empty = layout_halo(layout, d) && parts <= 1 << 16;
    for (int64_t p = 0; empty && p < parts; p++) {
        int64_t begin, end;
        own_dim(layout, d, size, own_rank_of(layout, d, p), &begin, &end);
        empty = begin >= end;
    }
    return empty;
}

/* Whether every rank's box in `fine` lies in its box in `coarse`: each dimension's digits refine the other's. */
static bool refines(const Layout *coarse, const Layout *fine, const Shape *shape) {
    for (int d = 0; d < shape->ndim; d++)
        if (all_empty(fine, d, shape->dim[d])) return true;
    for (int d = 0; d < shape->ndim; d++) {
        if (prefix(coarse, fine, d) && !layout_halo(coarse, d) && !layout_halo(fine, d)) continue;
        /* Merged digits hide a prefix ([8@1] is [2@4.4@1]): compare the ranges over all values of the finer list. */
        DigitSet c = {0}, f = {0}, rest;
        int64_t parts = layout_split(fine, d);
        if (parts > 1 << 16 || !set_add_list(&c, coarse, d) || !set_add_list(&f, fine, d) || !set_subtract(&f, &c, &rest)) return false;
        for (int64_t p = 0; p < parts; p++) {
            const int rank = own_rank_of(fine, d, p);
            int64_t begin[2], end[2];
            own_dim(fine, d, shape->dim[d], rank, &begin[0], &end[0]);
            own_dim(coarse, d, shape->dim[d], rank, &begin[1], &end[1]);
            if (begin[0] < end[0] && (begin[0] < begin[1] || end[0] > end[1])) return false;
        }
    }
    return true;
}

/* The digits over which sums (or maxima, minima) are completed, and those that stay partial. */
static bool removed_digits(const Layout *from, const Layout *to, DigitSet *removed, DigitSet *kept, char *why, size_t n) {
    int ndim = from->ndim, kinds = 0;
    removed->n = kept->n = 0;
    for (int r = 0; r < NREDUCTIONS; r++) {
        DigitSet a = {0}, b = {0}, rest;
        if (!set_add_list(&a, from, ndim + r) || !set_add_list(&b, to, ndim + r) || !set_subtract(&a, &b, &rest)) {
            snprintf(why, n, "the target is partial (%s) over digits that the source is not", reduction_name[r]);
            return false;
        }
        kinds += rest.n > 0;
        if (!set_add_set(removed, &rest) || !set_add_set(kept, &b)) {
            snprintf(why, n, "digits are partial in two ways");
            return false;
        }
    }
    if (kinds > 1) {
        snprintf(why, n, "two kinds of partial values are completed at once");
        return false;
    }
    return true;
}

/* Whether every digit of `layout` is one of `other`. */
static bool uses_only(const Layout *layout, const Layout *other) {
    DigitSet a = {0}, b = {0}, rest;
    for (int list = 0; list < layout->ndim + NREDUCTIONS; list++)
        if (!set_add_list(&a, layout, list) || !set_add_list(&b, other, list)) return false;
    return set_subtract(&b, &a, &rest);
}

/* Whether every rank of pin a is one of pin b: a fixes all that b does. */
static bool pin_within(const Pin *a, const Pin *b) {
    const int64_t rank = (int64_t)a->value * a->digit.stride;
    if (b->digit.size == 0 || pin_equal(a, b)) return true;
    return a->digit.size > 0 && b->digit.stride % a->digit.stride == 0 &&
           (int64_t)a->digit.stride * a->digit.size >= (int64_t)b->digit.stride * b->digit.size &&
           rank / b->digit.stride % b->digit.size == b->value;
}

static bool pattern_check(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, const DigitSet *removed, char *why,
                          size_t n) {
    const bool together = pin_equal(&from->pin, &to->pin); /* the same ranks hold it before and after */
    bool down = refines(from, to, shape) && pin_within(&to->pin, &from->pin), up = together && refines(to, from, shape);
    bool ok = false;
    switch (kind) {
    case COMM_ALL_REDUCE:
        ok = removed->n && down && up && uses_only(to, from);
        break;
    case COMM_ALL_GATHER:
        ok = !removed->n && up;
        break;
    case COMM_REDUCE_SCATTER:
        ok = removed->n && down && together && uses_only(to, from);
        break;
    case COMM_STRIDED_SLICE:
        ok = !removed->n && down;
        break;
    case COMM_ALL_TO_ALL: {
        DigitSet a = {0}, b = {0};
        ok = !removed->n && together;
        for (int d = 0; d < shape->ndim; d++)
            ok = ok && set_add_list(&a, from, d) && set_add_list(&b, to, d);
        ok = ok && set_equal(&a, &b);
        break;
    }
    case COMM_EXCHANGE:
        ok = true;
        break;
    case NCOMMS:
        break;
    }
    if (!ok) snprintf(why, n, "the layouts are not those of %s", kind < NCOMMS ? comm_name[kind] : "a communication");
    return ok;
}

/* ---------------------------------------------------------------- pieces */

typedef struct Pieces {
    Piece *at;
    int n, cap;
    bool overflow;
} Pieces;

static bool collect(void *context, const Piece *piece) {
    Pieces *pieces = context;
    if (pieces->n == pieces->cap) {
        int cap = pieces->cap ? 2 * pieces->cap : 64;
        Piece *at = cap <= 1 << 24 ? realloc(pieces->at, (size_t)cap * sizeof *at) : NULL;
        if (!at) return pieces->overflow = true, false;
        pieces->at = at;
        pieces->cap = cap;
    }
    pieces->at[pieces->n++] = *piece;
    return true;
}

static int set_value(const DigitSet *set, int rank) { /* mixed radix, the largest stride first */
    int value = 0;
    for (int i = set->n - 1; i >= 0; i--)
        value = (int)(value * (set->high[i] / set->low[i]) + rank / set->low[i] % (set->high[i] / set->low[i]));
    return value;
}

static int without_digits(const Layout *layout, int rank) { /* the rank with all of the layout's digits 0, its pin's too */
    int rest = rank;
    if (layout_is_pinned(layout)) rest -= rank / layout->pin.digit.stride % layout->pin.digit.size * layout->pin.digit.stride;
    for (int i = 0; i < layout->start[layout->ndim + NREDUCTIONS]; i++)
        rest -= rank / layout->digit[i].stride % layout->digit[i].size * layout->digit[i].stride;
    return rest;
}

typedef struct ConversionView {
    const Layout *from, *to;
    const Shape *shape;
    int nranks;
    DigitSet removed, kept;
    int terms;
    bool
        apart; /* groups of ranks along the removed digits work separately: only ranks that agree in all digits that the source lacks share work */
    /* Per rank, each computed once: */
    Box *source;
    int *unrelated, *term; /* the rank's number with all of the source's digits 0; the term of what stays partial */
    int *met, turn;        /* per rank, the last turn in which the checked rank received from it */
    /* Only where there are sums to complete: */
    Box *target;
    int *holders; /* ranks grouped by source box, ascending: holders[group[g] .. group[g + 1]) */
    int *group, ngroups;
    int *near, nnear;        /* ranks that need part of what the checked rank needs, ascending */
    int *owners;             /* room for nranks */
    bool *is_near;           /* per rank */
    Pieces pieces;           /* room for those of a rank */
    Layout run_from, run_to; /* the layouts that prun passes to ir/box.c, made by ir; only box.c's answer is compared */
} ConversionView;

static bool refuse(char *why, size_t n, int rank, const char *text) {
    snprintf(why, n, "rank %d: %s", rank, text);
    return false;
}

/* Checks a piece of round 0: the sender agrees with the receiver in every digit that the source does not use, and in what stays partial; it
 * holds the box. */
static bool sender_check(const ConversionView *v, const Piece *p, char *why, size_t n) {
    if (p->from < 0 || p->from >= v->nranks) return refuse(why, n, p->to, "receives from a rank that does not exist");
    if (v->unrelated[p->from] != v->unrelated[p->to])
        return refuse(why, n, p->to, "receives from a rank that differs in an unrelated digit");
    if (v->term[p->from] != v->term[p->to]) return refuse(why, n, p->to, "receives another term of what stays partial");
    return box_within(&p->box, &v->source[p->from]) ? true : refuse(why, n, p->to, "is sent what its sender does not hold");
}

/* Checks what a rank receives where no sums are completed: one whole piece from each of several distinct holders, which together fill the
 * target. Distinct holders differ in a digit of the source, so their boxes, and the pieces, are disjoint. */
static bool plain_check(ConversionView *v, int rank, const Pieces *pieces, char *why, size_t n) {
    Box need;
    own_box(v->to, v->shape, rank, &need);
    int64_t covered = 0;
    for (int i = 0; i < pieces->n; i++) {
        const Piece *p = &pieces->at[i];
        if (p->to != rank || p->round != 0 || p->term != 0 || p->first != 0 || p->count != volume(&p->box) || p->count <= 0)
            return refuse(why, n, rank, "receives a piece that is not a whole box");
        if (!sender_check(v, p, why, n)) return false;
        if (!box_within(&p->box, &need)) return refuse(why, n, rank, "receives what it does not need");
        if (v->met[p->from] == v->turn) return refuse(why, n, rank, "receives twice from one holder");
        v->met[p->from] = v->turn;
        covered += p->count;
    }
    return covered == volume(&need) || refuse(why, n, rank, "does not receive all that it needs");
}

static int box_compare(const Box *a, const Box *b) {
    if (a->nothing != b->nothing) return a->nothing - b->nothing;
    for (int d = 0; d < a->ndim; d++) {
        if (a->begin[d] != b->begin[d]) return a->begin[d] < b->begin[d] ? -1 : 1;
        if (a->end[d] != b->end[d]) return a->end[d] < b->end[d] ? -1 : 1;
    }
    return 0;
}

typedef struct RankBox {
    const Box *box;
    int rank;
} RankBox;

static int compare_rank_boxes(const void *a, const void *b) {
    const RankBox *x = a, *y = b;
    int order = box_compare(x->box, y->box);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static bool group_holders(ConversionView *v) {
    RankBox *sorted = malloc((size_t)v->nranks * sizeof *sorted);
    for (int r = 0; sorted && r < v->nranks; r++)
        sorted[r] = (RankBox){&v->source[r], r};
    if (sorted) qsort(sorted, (size_t)v->nranks, sizeof *sorted, compare_rank_boxes);
    for (int r = 0; sorted && r < v->nranks; r++) {
        if (r == 0 || box_compare(sorted[r - 1].box, sorted[r].box) != 0) v->group[v->ngroups++] = r;
        v->holders[r] = sorted[r].rank;
    }
    v->group[v->ngroups] = v->nranks;
    free(sorted);
    return sorted != NULL;
}

static void find_near(ConversionView *v, int rank) {
    v->nnear = 0;
    for (int r = 0; r < v->nranks; r++) {
        const Box *a = &v->target[rank], *b = &v->target[r];
        bool meet = !a->nothing && !b->nothing && v->term[r] == v->term[rank] && (!v->apart || v->unrelated[r] == v->unrelated[rank]);
        for (int d = 0; d < a->ndim && meet; d++)
            meet = a->begin[d] < b->end[d] && b->begin[d] < a->end[d];
        v->is_near[r] = meet;
        if (meet) v->near[v->nnear++] = r;
    }
}

/* Writes the owners of a piece that the rank of find_near needs to owners (room for nranks), ascending. */
static int piece_owners(const ConversionView *v, const Box *piece, int *owners) {
    int n = 0; /* source boxes are disjoint: at most one group holds it */
    for (int g = 0; g < v->ngroups; g++) {
        if (!box_within(piece, &v->source[v->holders[v->group[g]]])) continue;
        for (int k = v->group[g]; k < v->group[g + 1]; k++)
            if (v->is_near[v->holders[k]] && box_within(piece, &v->target[v->holders[k]])) owners[n++] = v->holders[k];
    }
    if (n > 0) return n;
    for (int k = 0; k < v->nnear; k++)
        if (box_within(piece, &v->target[v->near[k]])) owners[n++] = v->near[k];
    return n;
}

/* Checks what a rank receives where sums are completed: in round 0 every term, ascending, of the shares that it owns; in round 1 the other
 * shares of the same boxes from their owners. The boxes are disjoint (they differ in a source digit) and fill the target; the shares of a
 * box are its even division. */
static bool partial_check(const ConversionView *v, int rank, const Pieces *pieces, char *why, size_t n) {
    Box need;
    int *owners = v->owners;
    own_box(v->to, v->shape, rank, &need);
    int64_t covered = 0;
    int i = 0, first_round1 = 0;
    while (first_round1 < pieces->n && pieces->at[first_round1].round == 0)
        first_round1++;
    for (i = 0; i < pieces->n; i++) {
        const Piece *p = &pieces->at[i];
        if (p->to != rank || p->count <= 0 || p->first < 0 || p->first + p->count > volume(&p->box))
            return refuse(why, n, rank, "receives an impossible share");
        if (p->round != (i >= first_round1)) return refuse(why, n, rank, "receives round 0 after round 1");
        if (!box_within(&p->box, &need)) return refuse(why, n, rank, "receives what it does not need");
    }
    for (i = 0; i < first_round1;) { /* its own shares */
        const Piece *share = &pieces->at[i];
        for (int term = 0; term < v->terms; term++, i++) {
            if (i >= first_round1) return refuse(why, n, rank, "a term of a sum is missing");
            const Piece *p = &pieces->at[i];
            if (!box_equal(&p->box, &share->box) || p->first != share->first || p->count != share->count)
                return refuse(why, n, rank, "a term of a sum is missing");
            if (p->term != term || set_value(&v->removed, p->from) != term)
                return refuse(why, n, rank, "terms of a sum are not added once each in order");
            if (!sender_check(v, p, why, n)) return false;
        }
        int k = piece_owners(v, &share->box, owners), at = 0;
        int64_t all = volume(&share->box);
        while (at < k && owners[at] != rank)
            at++;
        if (at == k) return refuse(why, n, rank, "adds up what another rank owns");
        int64_t begin = all / k * at + (at < all % k ? at : all % k), count = all / k + (at < all % k);
        if (share->first != begin || share->count != count) return refuse(why, n, rank, "owns another share than its own");
        covered += share->count;
        for (int j = 0; j < i - v->terms; j += v->terms)
            if (box_equal(&pieces->at[j].box, &share->box)) return refuse(why, n, rank, "owns a share twice");
    }
    for (; i < pieces->n;) { /* the shares of others, box by box, owners ascending */
        const Piece *first = &pieces->at[i];
        int before = i;
        int k = piece_owners(v, &first->box, owners);
        int64_t all = volume(&first->box);
        for (int at = 0; at < k; at++) {
            int64_t begin = all / k * at + (at < all % k ? at : all % k), count = all / k + (at < all % k);
            if (owners[at] == rank || count == 0) continue;
            if (i >= pieces->n) return refuse(why, n, rank, "a share of a sum is missing");
            const Piece *p = &pieces->at[i++];
            if (!box_equal(&p->box, &first->box) || p->from != owners[at] || p->first != begin || p->count != count)
                return refuse(why, n, rank, "gathers a share from a rank that does not own it");
            covered += p->count;
        }
        if (i == before) return refuse(why, n, rank, "gathers a share from a rank that does not own it");
    }
    return covered == volume(&need) ? true : refuse(why, n, rank, "does not receive all that it needs");
}

static bool piece_equal(const Piece *a, const Piece *b) {
    return a->from == b->from && a->to == b->to && a->round == b->round && a->term == b->term && a->first == b->first &&
           a->count == b->count && box_equal(&a->box, &b->box);
}

/* Checks that what ir/box.c tells the senders to send to `rank` is what it receives, in the same order per sender. */
static bool sends_check(const ConversionView *v, int rank, const Pieces *received, char *why, size_t n) {
    bool ok = true;
    int checked = 0;
    for (int i = 0; ok && i < received->n && checked < 8; i++) {
        int sender = received->at[i].from;
        bool seen = sender == rank;
        for (int j = 0; j < i && !seen; j++)
            seen = received->at[j].from == sender;
        if (seen) continue;
        checked++;
        Pieces sent = {0};
        pieces_sent(&v->run_from, &v->run_to, v->shape, v->nranks, sender, collect, &sent);
        int at = 0;
        for (int j = 0; ok && j < received->n; j++) {
            if (received->at[j].from != sender) continue;
            while (at < sent.n && sent.at[at].to != rank)
                at++;
            ok = at < sent.n && piece_equal(&sent.at[at], &received->at[j]);
            at++;
        }
        while (ok && at < sent.n)
            ok = sent.at[at++].to != rank;
        free(sent.at);
        if (!ok) snprintf(why, n, "rank %d does not send what rank %d waits for", sender, rank);
    }
    return ok;
}

/* Checks the groups of a library's collectives: members are in the order of the digits, and agree with the rank in all other digits. */
static bool group_check(const DigitSet *set, const Sample *sample, char *why, size_t n) {
    Digit digit[MAX_DIGITS];
    int64_t size = 1;
    for (int i = 0; i < set->n; i++) {
        digit[set->n - 1 - i] = (Digit){.size = (int32_t)(set->high[i] / set->low[i]), .stride = set->low[i]};
        size *= digit[set->n - 1 - i].size;
    }
    int *members = malloc((size_t)size * sizeof *members);
    if (!members) return refuse(why, n, 0, "out of memory in the proof");
    bool ok = true;
    for (int i = 0; ok && i < sample->n; i++) {
        int rank = sample->rank[i], position = -1, count = group_members(digit, set->n, rank, members, &position);
        ok = count == size && position >= 0 && position < count && members[position] == rank;
        for (int m = 0; ok && m < count; m++) {
            int base = rank;
            for (int d = 0; d < set->n; d++)
                base += (members[m] / digit[d].stride % digit[d].size - rank / digit[d].stride % digit[d].size) * digit[d].stride;
            ok = base == members[m] && set_value(set, members[m]) == m;
        }
        if (!ok) refuse(why, n, rank, "its group is not the ranks that differ from it in the communication's digits");
    }
    free(members);
    return ok;
}

/* The least size that both layouts divide evenly, if dimension d is a multiple of it; else 0. */
static int64_t even_length(const Layout *from, const Layout *to, const Shape *shape, int d) {
    int64_t a = 1, b = 1, least;
    if (layout_halo(to, d)) return 0;
    for (int i = 0; i < layout_count(from, d); i++)
        a *= layout_list(from, d)[i].size;
    for (int i = 0; i < layout_count(to, d); i++)
        b *= layout_list(to, d)[i].size;
    if (shape->dim[d] % a != 0 || shape->dim[d] % b != 0) return 0;
    return mul_checked(a / gcd64(a, b), b, &least) && shape->dim[d] % least == 0 ? least : 0;
}

void conversion_shape(const Layout *from, const Layout *to, const Shape *shape, int nranks, Shape *alike) {
    Shape found = *shape;
    bool sums = layout_is_partial(from), even = shape->ndim > 0;
    int64_t cells = 1; /* elements of a piece between boundaries, modulo nranks */
    for (int d = 0; d < shape->ndim; d++) {
        int64_t length = even_length(from, to, shape, d), times = length > 0 ? shape->dim[d] / length : 0;
        even = even && times > 0;
        cells = cells * (times % nranks) % nranks;
        if (times > 3) found.dim[d] = length * (2 + times % 2);
    }
    *alike = found;
    if (!sums) return;
    if (!even || cells != 0 || !mul_checked(found.dim[0], nranks, &found.dim[0])) found = *shape;
    *alike = found;
}

/* Fills in what is known of every rank. The caller calls view_free, also after a failure. */
static bool view_fill(ConversionView *v) {
    const size_t n = (size_t)v->nranks;
    const bool sums = v->removed.n > 0;
    v->source = malloc(n * sizeof *v->source);
    v->unrelated = malloc(3 * n * sizeof *v->unrelated);
    if (sums) {
        v->target = malloc(n * sizeof *v->target);
        v->owners = malloc((4 * n + 1) * sizeof *v->owners);
        v->is_near = malloc(n);
    }
    if (!v->source || !v->unrelated || (sums && (!v->target || !v->owners || !v->is_near))) return false;
    v->term = v->unrelated + n, v->met = v->unrelated + 2 * n;
    for (int r = 0; r < v->nranks; r++) {
        own_box(v->from, v->shape, r, &v->source[r]);
        v->unrelated[r] = without_digits(v->from, r);
        v->term[r] = set_value(&v->kept, r);
        v->met[r] = 0;
        if (sums) own_box(v->to, v->shape, r, &v->target[r]);
    }
    if (!sums) return true;
    v->near = v->owners + n, v->holders = v->owners + 2 * n, v->group = v->owners + 3 * n;
    return group_holders(v);
}

static void view_free(ConversionView *v) {
    free(v->source);
    free(v->unrelated);
    free(v->target);
    free(v->owners);
    free(v->is_near);
    free(v->pieces.at);
}

bool conversion_check(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, const Sample *sample, char *why,
                      size_t n) {
    ConversionView v = {.from = from, .to = to, .shape = shape, .nranks = nranks, .terms = 1, .run_from = *from, .run_to = *to};
    v.apart = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
    comm_layouts(kind, nranks, &v.run_from, &v.run_to);
    if (own_halos(from)) return refuse(why, n, 0, "what has halos overlaps, and is no source");
    if (!removed_digits(from, to, &v.removed, &v.kept, why, n) || !pattern_check(kind, from, to, shape, &v.removed, why, n)) return false;
    for (int i = 0; i < v.removed.n; i++)
        v.terms *= (int)(v.removed.high[i] / v.removed.low[i]);
    if (!group_check(&v.removed, sample, why, n)) return false;
    bool ok = view_fill(&v) || refuse(why, n, 0, "out of memory in the proof");
    for (int i = 0; ok && i < sample->n; i++) {
        int rank = sample->rank[i];
        Pieces *pieces = &v.pieces;
        pieces->n = 0;
        v.turn = i + 1;
        pieces_received(&v.run_from, &v.run_to, shape, nranks, rank, collect, pieces);
        ok = !pieces->overflow || refuse(why, n, rank, "out of memory in the proof");
        if (ok && v.removed.n) find_near(&v, rank);
        ok = ok && (v.removed.n ? partial_check(&v, rank, pieces, why, n) : plain_check(&v, rank, pieces, why, n));
        if (ok && kind == COMM_STRIDED_SLICE)
            for (int j = 0; ok && j < pieces->n; j++)
                if (pieces->at[j].from != rank) ok = refuse(why, n, rank, "a local slice needs another rank");
        /* A sender enumerates all receivers: beyond 64 ranks only where that stays small. */
        if (ok && (nranks <= 64 || (i < 8 && (int64_t)pieces->n * nranks < 1 << 17))) ok = sends_check(&v, rank, pieces, why, n);
    }
    view_free(&v);
    return ok;
}
