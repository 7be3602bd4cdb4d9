/* How one layout becomes another: PLAN.md 2.
 *
 * A single exchange attains the lower bound of the total, so nothing is ever planned that receives more, except in the canonical form,
 * which exists to be read beside MindSpore's (facts/mindspore.md 3). Where an exchange happens to be what a library's collective does, and
 * the boxes are even, the step is named after that collective. A chain of gathers receives what one exchange receives but needs fewer
 * messages. */
#include <string.h>

#include "strategies/pair.h"

static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static bool digit_equal(Digit a, Digit b) {
    return a.size == b.size && a.stride == b.stride;
}

/* ---- plans under construction */

static void conversion_step(Conversion *conversion, CommKind kind, const Layout *to) {
    conversion->step[conversion->nsteps++] = (ConversionStep){.kind = kind, .to = *to};
}

static int step_rounds(CommKind kind, const Layout *from, const Layout *to, int nranks) {
    switch (kind) {
    case COMM_ALL_REDUCE:
        return 2;
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_TO_ALL:
        return 1;
    case COMM_EXCHANGE: {
        int64_t splits = 1, kept = 1, owed = 1;
        for (int list = 0; list < to->ndim; list++)
            splits *= layout_split(to, list);
        for (int list = to->ndim; list < to->ndim + NREDUCTIONS; list++) {
            kept *= layout_split(to, list);
            owed *= layout_split(from, list);
        }
        return owed > kept && splits * kept < nranks ? 2 : 1; /* owners add up, the other needers gather */
    }
    case COMM_STRIDED_SLICE:
    case NCOMMS:
        break;
    }
    return 0;
}

/* Adds up what the steps move, their rounds and the peak. */
static void conversion_measure(Conversion *conversion, const Layout *from, const Shape *shape, int nranks) {
    conversion->received = conversion->sent = (Traffic){0};
    conversion->rounds = 0;
    conversion->peak_elements = layout_max_elements(from, shape);
    for (int i = 0; i < conversion->nsteps; i++) {
        const ConversionStep *step = &conversion->step[i];
        Traffic received, sent;
        traffic_step(step->kind, from, &step->to, shape, nranks, &received, &sent);
        conversion->received.total += received.total;
        conversion->received.max += received.max;
        conversion->sent.total += sent.total;
        conversion->sent.max += sent.max;
        conversion->rounds += step_rounds(step->kind, from, &step->to, nranks);
        int64_t staging = max64(received.max, sent.max);
        int64_t peak = layout_max_elements(from, shape) + layout_max_elements(&step->to, shape) + staging;
        conversion->peak_elements = max64(conversion->peak_elements, peak);
        from = &step->to;
    }
}

/* ---- patterns */

/* layout without its partial digits that `to` does not owe. */
static void complete_towards(const Layout *layout, const Layout *to, Layout *result) {
    layout_complete(layout, result);
    for (int list = to->ndim; list < to->ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(to, list); i++)
            layout_append(result, list, layout_list(to, list)[i]);
}

/* The same with the digits of dimension d replaced. */
static bool with_list(const Layout *layout, int d, const Digit *digits, int n, Layout *result) {
    layout_init(result, layout->ndim);
    for (int list = 0; list < layout->ndim + NREDUCTIONS; list++) {
        const Digit *at = list == d ? digits : layout_list(layout, list);
        int count = list == d ? n : layout_count(layout, list);
        for (int i = 0; i < count; i++)
            if (!layout_append(result, list, at[i])) return false;
    }
    return true;
}

/* The digits that dimension d of both layouts begins with; they divide it alike in both. Returns their number. */
static int common_digits(const Layout *from, const Layout *to, int d, int64_t size, Digit *common) {
    Layout a = *from, b = *to;
    bool even = size % layout_split(from, d) == 0 && size % layout_split(to, d) == 0;
    if (even && !layout_refine(&a, &b)) a = *from, b = *to;
    int n = 0;
    while (n < layout_count(&a, d) && n < layout_count(&b, d) && digit_equal(layout_list(&a, d)[n], layout_list(&b, d)[n])) {
        common[n] = layout_list(&a, d)[n];
        n++;
    }
    return n;
}

static bool dim_even(const Layout *from, const Layout *to, const Shape *shape, int d) {
    return shape->dim[d] % layout_split(from, d) == 0 && shape->dim[d] % layout_split(to, d) == 0;
}

/* What remains of both sides of each dimension after the digits that they begin with. */
typedef struct Rest {
    int ndiffer, dim[MAX_NDIM]; /* dimensions that differ */
    int nfrom[MAX_NDIM], nto[MAX_NDIM];
    Digit from[MAX_NDIM][MAX_DIGITS], to[MAX_NDIM][MAX_DIGITS];
    Digit common[MAX_NDIM][MAX_DIGITS];
    int ncommon[MAX_NDIM];
} Rest;

static void rest_init(Rest *rest, const Layout *from, const Layout *to, const Shape *shape) {
    rest->ndiffer = 0;
    for (int d = 0; d < shape->ndim; d++) {
        rest->ncommon[d] = common_digits(from, to, d, shape->dim[d], rest->common[d]);
        Layout a = *from, b = *to;
        if (dim_even(from, to, shape, d) && !layout_refine(&a, &b)) a = *from, b = *to;
        rest->nfrom[d] = rest->nto[d] = 0;
        for (int i = rest->ncommon[d]; i < layout_count(&a, d); i++)
            rest->from[d][rest->nfrom[d]++] = layout_list(&a, d)[i];
        for (int i = rest->ncommon[d]; i < layout_count(&b, d); i++)
            rest->to[d][rest->nto[d]++] = layout_list(&b, d)[i];
        if (rest->nfrom[d] + rest->nto[d] > 0) rest->dim[rest->ndiffer++] = d;
    }
}

/* The library collective that is exactly this conversion, with even boxes: true and its kind. */
static bool collective_of(const Layout *from, const Layout *to, const Shape *shape, CommKind *kind) {
    Rest rest;
    rest_init(&rest, from, to, shape);
    Digit summed[MAX_DIGITS];
    Reduction reduction;
    int nsummed = layout_summed(from, to, summed, &reduction);
    if (nsummed > 0) {
        if (rest.ndiffer == 0) return *kind = COMM_ALL_REDUCE, true;
        int d = rest.dim[0];
        if (rest.ndiffer != 1 || rest.nfrom[d] != 0 || !dim_even(from, to, shape, d)) return false;
        /* The same digits in the same order, however they are cut. */
        Layout a, b;
        layout_init(&a, 1), layout_init(&b, 1);
        for (int i = 0; i < nsummed; i++)
            layout_append(&a, 0, summed[i]);
        for (int i = 0; i < rest.nto[d]; i++)
            layout_append(&b, 0, rest.to[d][i]);
        Shape any = {.ndim = 1, .dim = {layout_split(&a, 0) * layout_split(&b, 0)}};
        layout_canonical(&a, &any), layout_canonical(&b, &any);
        return layout_equal(&a, &b) ? (*kind = COMM_REDUCE_SCATTER, true) : false;
    }
    for (int i = 0; i < rest.ndiffer; i++)
        if (!dim_even(from, to, shape, rest.dim[i])) return false;
    if (rest.ndiffer == 1) {
        int d = rest.dim[0];
        return rest.nto[d] == 0 ? (*kind = COMM_ALL_GATHER, true) : false;
    }
    if (rest.ndiffer != 2) return false;
    int i = rest.nfrom[rest.dim[0]] > 0 ? rest.dim[0] : rest.dim[1], j = i == rest.dim[0] ? rest.dim[1] : rest.dim[0];
    if (rest.nto[i] != 0 || rest.nfrom[j] != 0 || rest.nfrom[i] != rest.nto[j]) return false;
    for (int k = 0; k < rest.nfrom[i]; k++)
        if (!digit_equal(rest.from[i][k], rest.to[j][k])) return false;
    *kind = COMM_ALL_TO_ALL;
    return true;
}

/* ---- policies */

/* AllReduce, AllGather of each dimension from the first digit that differs, StridedSlice. */
static void plan_canonical(const Layout *from, const Layout *to, const Shape *shape, int nranks, Conversion *conversion) {
    Layout at = *from, next;
    complete_towards(from, to, &next);
    Digit summed[MAX_DIGITS];
    Reduction kind;
    if (layout_summed(from, to, summed, &kind) > 0) {
        conversion_step(conversion, COMM_ALL_REDUCE, &next);
        at = next;
    }
    for (int d = 0; d < shape->ndim; d++) {
        Digit common[MAX_DIGITS];
        int n = common_digits(&at, to, d, shape->dim[d], common);
        if (!with_list(&at, d, common, n, &next)) continue;
        layout_canonical(&next, shape);
        if (layout_same(&next, &at, shape, nranks)) continue;
        conversion_step(conversion, COMM_ALL_GATHER, &next);
        at = next;
    }
    if (!layout_same(&at, to, shape, nranks)) conversion_step(conversion, COMM_STRIDED_SLICE, to);
}

/* One step that receives no more than the bound. */
static void plan_direct(const Layout *from, const Layout *to, const Shape *shape, int nranks, const Traffic *bound,
                        Conversion *conversion) {
    CommKind kind = COMM_EXCHANGE;
    if (bound->total == 0) {
        kind = COMM_STRIDED_SLICE;
    } else if (collective_of(from, to, shape, &kind)) {
        Traffic received, sent;
        traffic_step(kind, from, to, shape, nranks, &received, &sent);
        if (received.total > bound->total) kind = COMM_EXCHANGE;
    } else {
        kind = COMM_EXCHANGE;
    }
    conversion_step(conversion, kind, to);
}

/* The machine as long as nothing has measured it: seconds a message, bytes a second. */
static const double ALPHA_S = 2e-6, BYTES_PER_S = 8e9;

static bool count_message(void *context, const Piece *piece) {
    if (piece->from != piece->to) ++*(int64_t *)context;
    return true;
}

static double log2_ceil(int64_t n) {
    double steps = 0;
    for (int64_t reach = 1; reach < n; reach *= 2)
        steps++;
    return steps;
}

/* Ranks of a group that a collective joins: how much larger the target's boxes are, or how many terms there are. */
static double step_latency(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    int64_t group = 1, messages = 0;
    switch (kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
        for (int list = shape->ndim; list < shape->ndim + NREDUCTIONS; list++)
            group *= layout_split(from, list) / layout_split(to, list);
        return ALPHA_S * log2_ceil(group) * (kind == COMM_ALL_REDUCE ? 2 : 1);
    case COMM_ALL_GATHER:
        for (int d = 0; d < shape->ndim; d++)
            group = max64(group, layout_split(from, d) / layout_split(to, d));
        return ALPHA_S * log2_ceil(group);
    case COMM_ALL_TO_ALL:
        for (int d = 0; d < shape->ndim; d++)
            group = max64(group, layout_split(from, d) / layout_split(to, d));
        return ALPHA_S * (double)(group - 1);
    case COMM_EXCHANGE: /* rank 0 for all: its part is as large as any */
        pieces_received(from, to, shape, nranks, 0, count_message, &messages);
        return ALPHA_S * (double)messages;
    case COMM_STRIDED_SLICE:
    case NCOMMS:
        break;
    }
    return 0;
}

static double conversion_cost(const Conversion *conversion, const Layout *from, const Shape *shape, int bytes, int nranks) {
    double seconds = (double)max64(conversion->received.max, conversion->sent.max) * bytes / BYTES_PER_S;
    for (int i = 0; i < conversion->nsteps; i++) {
        seconds += step_latency(conversion->step[i].kind, from, &conversion->step[i].to, shape, nranks);
        from = &conversion->step[i].to;
    }
    return seconds;
}

/* Gathers dimension by dimension, the one that grows least last: each receives what it then passes on no further, so that all together
 * receive what one exchange does. False where the target is more than that. */
static bool plan_gathers(const Layout *from, const Layout *to, const Shape *shape, Conversion *conversion) {
    Rest rest;
    rest_init(&rest, from, to, shape);
    Digit summed[MAX_DIGITS];
    Reduction kind;
    if (rest.ndiffer < 2 || layout_summed(from, to, summed, &kind) != 0) return false;
    for (int i = 0; i < rest.ndiffer; i++)
        if (rest.nto[rest.dim[i]] > 0 || !dim_even(from, to, shape, rest.dim[i])) return false;
    Layout at = *from, next;
    for (int i = rest.ndiffer - 1; i >= 0; i--) {
        int d = rest.dim[i];
        if (!with_list(&at, d, rest.common[d], rest.ncommon[d], &next)) return false;
        layout_canonical(&next, shape);
        conversion_step(conversion, COMM_ALL_GATHER, i == 0 ? to : &next);
        at = next;
    }
    return true;
}

bool redistribute(const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, int nranks, RedistributePolicy policy,
                  Conversion *conversion, const char **why) {
    memset(conversion, 0, sizeof *conversion);
    Pair pair;
    if (!pair_init(&pair, from, to, shape, nranks, why)) return false;
    if (layout_same(from, to, shape, nranks)) {
        conversion_measure(conversion, from, shape, nranks);
        return true;
    }
    traffic_bound(from, to, shape, nranks, &conversion->bound);
    switch (policy) {
    case REDISTRIBUTE_CANONICAL:
        plan_canonical(from, to, shape, nranks, conversion);
        conversion_measure(conversion, from, shape, nranks);
        break;
    case REDISTRIBUTE_BOUND:
        plan_direct(from, to, shape, nranks, &conversion->bound, conversion);
        conversion_measure(conversion, from, shape, nranks);
        break;
    case REDISTRIBUTE_AUTO: {
        plan_direct(from, to, shape, nranks, &conversion->bound, conversion);
        conversion_measure(conversion, from, shape, nranks);
        Conversion gathers = {.bound = conversion->bound};
        if (conversion->step[0].kind != COMM_EXCHANGE || !plan_gathers(from, to, shape, &gathers)) break;
        conversion_measure(&gathers, from, shape, nranks);
        if (gathers.received.total <= conversion->received.total &&
            conversion_cost(&gathers, from, shape, dtype_bytes, nranks) < conversion_cost(conversion, from, shape, dtype_bytes, nranks))
            *conversion = gathers;
        break;
    }
    }
    return true;
}
