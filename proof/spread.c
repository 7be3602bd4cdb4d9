/* A tensor on all ranks, in elements of the field: how a communication moves it, and whether it agrees with the whole tensor. */
#include "proof/field.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t volume(const Box *box) {
    int64_t n = !box->nothing;
    for (int d = 0; d < box->ndim; d++)
        n *= box->end[d] > box->begin[d] ? box->end[d] - box->begin[d] : 0;
    return n;
}

bool spread_room(Spread *spread, const Layout *layout, const Shape *shape, int nranks) {
    spread->each = own_max_elements(layout, shape);
    int64_t all;
    if (!mul_checked(spread->each, nranks, &all) || all > INT64_MAX / (int64_t)sizeof(Fe)) return false;
    if (all > spread->cap) {
        free(spread->at);
        spread->at = malloc((size_t)all * sizeof *spread->at);
        spread->cap = spread->at ? all : 0;
        if (!spread->at) return false;
    }
    if (all) memset(spread->at, 0xff, (size_t)all * sizeof *spread->at); /* FE_POISON */
    return true;
}

void spread_finish(Spread *spread) {
    free(spread->at);
    *spread = (Spread){0};
}

/* ---------------------------------------------------------------- runs of a part of a box */

/* Walks elements [first, first + count) of part, row-major, in runs along its last dimension; gives each run's offset in two boxes that
 * contain the part. */
typedef struct Runs {
    const Box *part, *a, *b;
    int64_t index[MAX_NDIM], left;
    int64_t at_a, at_b, run;
} Runs;

static int64_t offset_in(const Box *box, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < box->ndim; d++)
        at = at * (box->end[d] - box->begin[d]) + index[d] - box->begin[d];
    return at;
}

static void runs_begin(Runs *runs, const Box *part, const Box *a, const Box *b, int64_t first, int64_t count) {
    *runs = (Runs){.part = part, .a = a, .b = b, .left = count};
    for (int d = part->ndim - 1; d >= 0; d--) {
        int64_t extent = part->end[d] - part->begin[d];
        runs->index[d] = part->begin[d] + (extent ? first % extent : 0);
        first = extent ? first / extent : 0;
    }
}

static bool runs_next(Runs *runs) {
    if (runs->left == 0) return false;
    int last = runs->part->ndim - 1;
    runs->run = last < 0 ? 1 : runs->part->end[last] - runs->index[last];
    if (runs->run > runs->left) runs->run = runs->left;
    runs->at_a = offset_in(runs->a, runs->index);
    runs->at_b = offset_in(runs->b, runs->index);
    runs->left -= runs->run;
    if (last >= 0) {
        runs->index[last] += runs->run;
        for (int d = last; d > 0 && runs->index[d] == runs->part->end[d]; d--) {
            runs->index[d] = runs->part->begin[d];
            runs->index[d - 1]++;
        }
    }
    return true;
}

static Box whole_box(const Shape *shape) {
    Box box = {.ndim = shape->ndim};
    for (int d = 0; d < shape->ndim; d++)
        box.end[d] = shape->dim[d];
    return box;
}

void box_cut(const Shape *shape, const Fe *whole, const Box *box, Fe *part) {
    Box all = whole_box(shape);
    Runs runs;
    for (runs_begin(&runs, box, &all, box, 0, volume(box)); runs_next(&runs);)
        memcpy(part + runs.at_b, whole + runs.at_a, (size_t)runs.run * sizeof *part);
}

/* ---------------------------------------------------------------- communications */

static Fe combine(Reduction reduction, Fe a, Fe b) {
    switch (reduction) {
    case REDUCE_SUM:
        return fe_add(a, b);
    case REDUCE_MAX:
        return fe_signed(a) >= fe_signed(b) ? a : b;
    case REDUCE_MIN:
        return fe_signed(a) <= fe_signed(b) ? a : b;
    case NREDUCTIONS:
        break;
    }
    return FE_POISON;
}

typedef struct Mover {
    CommKind kind;
    const Layout *from, *to;
    const Shape *shape;
    int nranks, round;
    bool again; /* there are pieces of a later round */
    Reduction reduction;
    const Spread *source;
    Spread *target;
    const char *fault;
    int fault_rank;
} Mover;

static bool mover_fails(Mover *m, int rank, const char *fault) {
    m->fault = fault;
    m->fault_rank = rank;
    return false;
}

static bool within(const Box *inner, const Box *outer) {
    for (int d = 0; d < inner->ndim; d++)
        if (inner->begin[d] < outer->begin[d] || inner->end[d] > outer->end[d] || inner->begin[d] > inner->end[d]) return false;
    return !outer->nothing;
}

static bool take_piece(void *context, const Piece *piece) {
    Mover *m = context;
    m->again = m->again || piece->round > m->round;
    if (piece->round != m->round || piece->count == 0) return true;
    if (piece->from < 0 || piece->from >= m->nranks) return mover_fails(m, piece->to, "receives from a rank that does not exist");
    if (m->kind == COMM_STRIDED_SLICE && piece->from != piece->to)
        return mover_fails(m, piece->to, "needs another rank's part for a local slice");
    Box held, wanted;
    own_box(m->round ? m->to : m->from, m->shape, piece->from, &held);
    own_box(m->to, m->shape, piece->to, &wanted);
    if (!within(&piece->box, &held) || !within(&piece->box, &wanted) || piece->first < 0 || piece->count < 0 ||
        piece->first + piece->count > volume(&piece->box))
        return mover_fails(m, piece->to, "receives what its sender does not hold, or what it has no room for");
    const Fe *source = spread_rank(m->round ? m->target : m->source, piece->from);
    Fe *target = spread_rank(m->target, piece->to);
    Runs runs;
    for (runs_begin(&runs, &piece->box, &held, &wanted, piece->first, piece->count); runs_next(&runs);) {
        const Fe *a = source + runs.at_a;
        Fe *b = target + runs.at_b;
        for (int64_t i = 0; i < runs.run; i++) {
            if (a[i] == FE_POISON) return mover_fails(m, piece->to, "receives what its sender never had");
            if (piece->term == 0 || m->round)
                b[i] = a[i];
            else if (b[i] == FE_POISON)
                return mover_fails(m, piece->to, "adds to a sum whose first term is missing");
            else
                b[i] = combine(m->reduction, b[i], a[i]);
        }
    }
    return true;
}

bool spread_move_on(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, int first, int last,
                    const Spread *source, Spread *target, char *why, size_t n) {
    Layout run_from = *from, run_to = *to;
    Digit summed[MAX_DIGITS];
    Mover m = {.kind = kind, .from = from, .to = to, .shape = shape, .nranks = nranks, .source = source, .target = target};
    if (layout_summed(from, to, summed, &m.reduction) < 0) {
        snprintf(why, n, "the target is partial over digits that the source is not");
        return false;
    }
    comm_layouts(kind, nranks, &run_from, &run_to);
    bool ok = true;
    m.again = true;
    for (m.round = 0; ok && m.again; m.round++) {
        m.again = false;
        for (int rank = first; ok && rank <= last; rank++)
            ok = pieces_received(&run_from, &run_to, shape, nranks, rank, take_piece, &m);
    }
    for (int rank = first; ok && rank <= last; rank++) {
        Box box;
        own_box(to, shape, rank, &box);
        int64_t elements = volume(&box);
        for (int64_t i = 0; ok && i < elements; i++)
            if (spread_rank(target, rank)[i] == FE_POISON) ok = mover_fails(&m, rank, "does not receive all that it needs");
    }
    if (!ok) snprintf(why, n, "rank %d %s", m.fault_rank, m.fault);
    return ok;
}

bool spread_move(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, const Spread *source, Spread *target,
                 char *why, size_t n) {
    return spread_move_on(kind, from, to, shape, nranks, 0, nranks - 1, source, target, why, n);
}

/* ---------------------------------------------------------------- the whole tensor */

/* The digits over which a layout is partial, and with which reduction; false: with several. */
static bool partial_digits(const Layout *layout, const Digit **digits, int *n, Reduction *reduction) {
    *n = 0;
    for (int r = 0; r < NREDUCTIONS; r++) {
        if (!layout_count(layout, layout->ndim + r)) continue;
        if (*n) return false;
        *digits = layout_list(layout, layout->ndim + r);
        *n = layout_count(layout, layout->ndim + r);
        *reduction = (Reduction)r;
    }
    return true;
}

static int term_of(const Digit *digits, int n, int rank) { /* 0 .. terms - 1 */
    int term = 0;
    for (int i = 0; i < n; i++)
        term = term * digits[i].size + rank / digits[i].stride % digits[i].size;
    return term;
}

static int rank_of(const Digit *digits, int n, int base, int term) { /* base: a rank with these digits 0 */
    for (int i = n - 1; i >= 0; i--) {
        base += term % digits[i].size * digits[i].stride;
        term /= digits[i].size;
    }
    return base;
}

static int terms_of(const Digit *digits, int n) {
    int terms = 1;
    for (int i = 0; i < n; i++)
        terms *= digits[i].size;
    return terms;
}

/* Reports that the element at `offset` of the rank's box is wrong, with its index in the whole tensor. */
static void element_differs(const Box *box, int64_t offset, int rank, int terms, Fe got, Fe want, char *why, size_t n) {
    int64_t index[MAX_NDIM];
    for (int d = box->ndim - 1; d >= 0; d--) {
        int64_t extent = box->end[d] - box->begin[d];
        index[d] = box->begin[d] + offset % extent;
        offset /= extent;
    }
    Text at = {0};
    text_printf(&at, "[");
    for (int d = 0; d < box->ndim; d++)
        text_printf(&at, "%s%" PRId64, d ? ", " : "", index[d]);
    text_printf(&at, "]");
    if (got == FE_POISON)
        snprintf(why, n, "rank %d: element %s is not there", rank, at.at);
    else
        snprintf(why, n, "rank %d: element %s is %" PRId64 "%s, the graph's is %" PRId64 " (mod 2^61 - 1)", rank, at.at, fe_signed(got),
                 terms > 1 ? ", its terms added up" : "", fe_signed(want));
    text_finish(&at);
}

bool spread_agrees_on(const Layout *layout, const Shape *shape, int first, int last, const Spread *spread, const Fe *whole, char *why,
                      size_t n) {
    const Digit *digits = NULL;
    int ndigits;
    Reduction reduction = REDUCE_SUM;
    if (!partial_digits(layout, &digits, &ndigits, &reduction)) {
        snprintf(why, n, "partial in two ways at once");
        return false;
    }
    const int terms = terms_of(digits, ndigits);
    const Box all = whole_box(shape);
    for (int rank = first; rank <= last; rank++) {
        if (terms > 1 && term_of(digits, ndigits, rank)) continue; /* each group is checked once */
        Box box;
        own_box(layout, shape, rank, &box);
        Runs runs;
        for (runs_begin(&runs, &box, &all, &box, 0, volume(&box)); runs_next(&runs);) {
            const Fe *want = whole + runs.at_a, *got = spread_rank(spread, rank) + runs.at_b;
            if (terms == 1 && !memcmp(want, got, (size_t)runs.run * sizeof *want)) continue;
            for (int64_t i = 0; i < runs.run; i++) {
                Fe sum = got[i];
                for (int t = 1; t < terms && sum != FE_POISON; t++) {
                    Fe term = spread_rank(spread, rank_of(digits, ndigits, rank, t))[runs.at_b + i];
                    sum = term == FE_POISON ? term : combine(reduction, sum, term);
                }
                if (sum == want[i]) continue;
                element_differs(&box, runs.at_b + i, rank, terms, sum, want[i], why, n);
                return false;
            }
        }
    }
    return true;
}

bool spread_agrees(const Layout *layout, const Shape *shape, int nranks, const Spread *spread, const Fe *whole, char *why, size_t n) {
    return spread_agrees_on(layout, shape, 0, nranks - 1, spread, whole, why, n);
}

static Fe draw(uint64_t key, DType dtype, int64_t index) {
    Fe fe = fe_hash(key, (Fe)index);
    return dtype_is_float(dtype) ? fe : fe % 2; /* 0 and 1 are valid indices for every consumer, as sizes shrink to 2 */
}

void spread_draw(const Layout *layout, const Shape *shape, DType dtype, int nranks, uint64_t key, Spread *spread, Fe *whole) {
    const Digit *digits = NULL;
    int ndigits;
    Reduction reduction = REDUCE_SUM;
    if (!partial_digits(layout, &digits, &ndigits, &reduction)) ndigits = 0;
    const int terms = terms_of(digits, ndigits);
    const Box all = whole_box(shape);
    const int64_t elements = volume(&all);
    for (int64_t i = 0; i < elements; i++) {
        whole[i] = draw(fe_hash(key, 0), dtype, i);
        for (int t = 1; t < terms; t++)
            whole[i] = combine(reduction, whole[i], draw(fe_hash(key, (Fe)t), dtype, i));
    }
    for (int rank = 0; rank < nranks; rank++) {
        const uint64_t own = fe_hash(key, (Fe)term_of(digits, ndigits, rank));
        Box box;
        own_box(layout, shape, rank, &box);
        Runs runs;
        for (runs_begin(&runs, &box, &all, &box, 0, volume(&box)); runs_next(&runs);)
            for (int64_t i = 0; i < runs.run; i++)
                spread_rank(spread, rank)[runs.at_b + i] = draw(own, dtype, runs.at_a + i);
    }
}
