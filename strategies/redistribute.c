/* How one layout becomes another (docs/redistribution.md).
 *
 * A single exchange attains the lower bound of the total, and on few ranks nothing is planned that receives more, except in the canonical form,
 * which exists to be read beside MindSpore's. Where an exchange happens to be what a library's collective does, and
 * the boxes are even, the step is named after that collective. A chain of gathers receives what one exchange receives but needs fewer
 * messages. On many ranks sequences of collectives are planned too, and the fastest is taken. */
#include <string.h>

#include "strategies/pair.h"

/* Whether any list of a layout has the digit. */
static bool has_anywhere(const Layout *layout, Digit digit) {
    for (int i = 0; i < layout->start[layout->ndim + NREDUCTIONS]; i++)
        if (digit_equal(layout->digit[i], digit)) return true;
    return false;
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
        int64_t splits = 1, kept = 1, partial = 1;
        for (int list = 0; list < to->ndim; list++)
            splits *= layout_split(to, list);
        for (int list = to->ndim; list < to->ndim + NREDUCTIONS; list++) {
            kept *= layout_split(to, list);
            partial *= layout_split(from, list);
        }
        return partial > kept && splits * kept < nranks ? 2 : 1; /* owners add up, the other needers gather */
    }
    case COMM_STRIDED_SLICE:
    case NCOMMS:
        break;
    }
    return 0;
}

/* What is planned, for all that plans parts of it. */
typedef struct Task {
    const Shape *shape;
    int dtype_bytes, nranks;
    const Machine *machine;
} Task;

/* Adds up what the steps move and take, their rounds and the peak. */
static void conversion_measure(const Task *task, Conversion *conversion, const Layout *from) {
    const Shape *shape = task->shape;
    const int nranks = task->nranks;
    conversion->received = conversion->sent = (Traffic){0};
    conversion->seconds = (MoveSeconds){0};
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
        MoveSeconds seconds = step_seconds(task->machine, step->kind, from, &step->to, shape, staging * task->dtype_bytes, nranks);
        conversion->seconds.messages += seconds.messages;
        conversion->seconds.messages_s += seconds.messages_s;
        conversion->seconds.bytes_s += seconds.bytes_s;
        int64_t peak = layout_max_elements(from, shape) + layout_max_elements(&step->to, shape) + staging;
        conversion->peak_elements = max64(conversion->peak_elements, peak);
        from = &step->to;
    }
}

/* ---- patterns */

/* layout without those of its partial digits that `to` does not have. */
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

/* Gathers dimension by dimension: each receives what it then passes on no further, so that all together receive what one exchange does, in
 * fewer messages. A gather moves more than all before it, so those between nodes come first. False where the target is more than that. */
static bool plan_gathers(const Task *task, const Layout *from, const Layout *to, Conversion *conversion) {
    const Shape *shape = task->shape;
    Rest rest;
    rest_init(&rest, from, to, shape);
    Digit summed[MAX_DIGITS];
    Reduction kind;
    if (rest.ndiffer < 2 || layout_summed(from, to, summed, &kind) != 0) return false;
    for (int i = 0; i < rest.ndiffer; i++)
        if (rest.nto[rest.dim[i]] > 0 || !dim_even(from, to, shape, rest.dim[i])) return false;
    Layout at = *from, next;
    int left = rest.ndiffer;
    for (int far = 1; far >= 0; far--)
        for (int i = rest.ndiffer - 1; i >= 0; i--) {
            int d = rest.dim[i];
            if (machine_within_node(task->machine, rest.from[d], rest.nfrom[d], task->nranks) == (far == 1)) continue;
            if (!with_list(&at, d, rest.common[d], rest.ncommon[d], &next)) return false;
            layout_canonical(&next, shape);
            conversion_step(conversion, COMM_ALL_GATHER, --left == 0 ? to : &next);
            at = next;
        }
    return true;
}

/* Between two device orders: no digit of one side says anything of the other's, so there is the exchange, which is at the bound; and in the
 * canonical form all dimensions gathered, then a slice. */
static void plan_mixed(const Layout *from, const Layout *to, const Shape *shape, int nranks, RedistributePolicy policy,
                       Conversion *conversion) {
    Layout at = *from, next;
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Traffic left = conversion->bound;
    if (policy == REDISTRIBUTE_CANONICAL) {
        if (layout_summed(from, to, summed, &kind) > 0) {
            complete_towards(from, to, &next);
            conversion_step(conversion, COMM_ALL_REDUCE, &next);
            at = next;
        }
        for (int d = 0; d < shape->ndim; d++) {
            if (layout_count(&at, d) == 0 || !with_list(&at, d, NULL, 0, &next)) continue;
            layout_canonical(&next, shape);
            conversion_step(conversion, COMM_ALL_GATHER, &next);
            at = next;
        }
        if (layout_same(&at, to, shape, nranks)) return;
        traffic_bound(&at, to, shape, nranks, &left); /* terms that stay partial may still have to go to the ranks that keep them */
    }
    conversion_step(conversion, left.total == 0 ? COMM_STRIDED_SLICE : COMM_EXCHANGE, to);
}

/* ---- fewer messages, more bytes */

/* On so many ranks, and where a rank waits for so few messages, nothing is planned that receives more than the bound. */
enum { FEW_RANKS = 32, FEW_MESSAGES = 8 };
#define ABOUT_AS_FAST 0.99 /* of the seconds of another plan: what takes more than that is not worth more bytes */

/* Takes the faster of two plans; where they take about as long, the one that receives less. */
static void keep_faster(const Task *task, const Layout *from, Conversion *tried, Conversion *best) {
    conversion_measure(task, tried, from);
    const double seconds = move_seconds(tried->seconds), least = move_seconds(best->seconds);
    if (seconds < ABOUT_AS_FAST * least || (ABOUT_AS_FAST * seconds <= least && tried->received.total < best->received.total))
        *best = *tried;
}

/* Takes of dimensions that `to` divides further what is needed in the end, where the ranks that differ in these digits hold the same: that moves nothing. */
static bool slice_first(const Layout *from, const Layout *to, const Shape *shape, Layout *sliced) {
    Rest rest;
    Layout a = *from, b = *to;
    if (!layout_refine(&a, &b)) return false;
    rest_init(&rest, from, to, shape);
    *sliced = *from;
    bool any = false;
    for (int i = 0; i < rest.ndiffer; i++) {
        const int d = rest.dim[i];
        Layout next;
        int n = rest.ncommon[d];
        if (rest.nfrom[d] > 0 || !dim_even(from, to, shape, d)) continue;
        for (int k = 0; k < rest.nto[d] && !has_anywhere(&a, rest.to[d][k]); k++)
            rest.common[d][n++] = rest.to[d][k];
        if (n == rest.ncommon[d] || !with_list(sliced, d, rest.common[d], n, &next)) continue;
        *sliced = next;
        any = true;
    }
    layout_canonical(sliced, shape);
    return any;
}

/* What comes behind the steps of `begun`, which lead from `from` to `at`, where nothing is left to be summed. */
static void plan_rest(const Task *task, const Layout *from, const Conversion *begun, const Layout *at, const Layout *to, Conversion *best) {
    Conversion tried = *begun;
    if (layout_same(at, to, task->shape, task->nranks)) {
        if (tried.nsteps > 0) tried.step[tried.nsteps - 1].to = *to;
        keep_faster(task, from, &tried, best);
        return;
    }
    Traffic bound;
    traffic_bound(at, to, task->shape, task->nranks, &bound);
    plan_direct(at, to, task->shape, task->nranks, &bound, &tried);
    keep_faster(task, from, &tried, best);
    tried = *begun;
    if (plan_gathers(task, at, to, &tried)) keep_faster(task, from, &tried, best);
    tried = *begun;
    plan_canonical(at, to, task->shape, task->nranks, &tried);
    keep_faster(task, from, &tried, best);
}

/* Sums among the ranks that have the terms alone, whole or each rank a part of some dimension; then the rest. */
static void plan_sums(const Task *task, const Layout *from, const Conversion *begun, const Layout *at, const Layout *to, Conversion *best) {
    Digit summed[MAX_DIGITS];
    Reduction reduction;
    Layout complete, next;
    CommKind kind;
    const int nsummed = layout_summed(at, to, summed, &reduction);
    complete_towards(at, to, &complete);
    Conversion tried = *begun;
    conversion_step(&tried, COMM_ALL_REDUCE, &complete);
    plan_rest(task, from, &tried, &complete, to, best);
    for (int d = 0; d < task->shape->ndim; d++) {
        Digit parts[MAX_DIGITS];
        int n = 0;
        for (int i = 0; i < layout_count(&complete, d); i++)
            parts[n++] = layout_list(&complete, d)[i];
        for (int i = 0; i < nsummed && n < MAX_DIGITS; i++)
            parts[n++] = summed[i];
        if (!with_list(&complete, d, parts, n, &next) || task->shape->dim[d] % layout_split(&next, d) != 0) continue;
        layout_canonical(&next, task->shape);
        if (!collective_of(at, &next, task->shape, &kind) || kind != COMM_REDUCE_SCATTER) continue;
        tried = *begun;
        conversion_step(&tried, COMM_REDUCE_SCATTER, &next);
        plan_rest(task, from, &tried, &next, to, best);
    }
}

/* Sequences of collectives that receive more than the bound, but in fewer messages. */
static void plan_fewer_messages(const Task *task, const Layout *from, const Layout *to, Conversion *best) {
    Digit summed[MAX_DIGITS];
    Reduction reduction;
    Layout at = *from;
    Conversion begun = {.bound = best->bound};
    for (bool more = true; more; more = begun.nsteps == 0 && slice_first(from, to, task->shape, &at)) {
        if (!layout_equal(&at, from)) conversion_step(&begun, COMM_STRIDED_SLICE, &at);
        if (layout_summed(&at, to, summed, &reduction) > 0)
            plan_sums(task, from, &begun, &at, to, best);
        else
            plan_rest(task, from, &begun, &at, to, best);
    }
}

static void plan_natural(const Task *task, const Layout *from, const Layout *to, RedistributePolicy policy, Conversion *conversion) {
    if (policy == REDISTRIBUTE_CANONICAL) {
        plan_canonical(from, to, task->shape, task->nranks, conversion);
        conversion_measure(task, conversion, from);
        return;
    }
    plan_direct(from, to, task->shape, task->nranks, &conversion->bound, conversion);
    conversion_measure(task, conversion, from);
    if (policy == REDISTRIBUTE_BOUND) return;
    Conversion gathers = {.bound = conversion->bound};
    if (conversion->step[0].kind == COMM_EXCHANGE && plan_gathers(task, from, to, &gathers)) {
        conversion_measure(task, &gathers, from);
        if (gathers.received.total <= conversion->received.total && move_seconds(gathers.seconds) < move_seconds(conversion->seconds))
            *conversion = gathers;
    }
    if (task->nranks > FEW_RANKS && conversion->seconds.messages > FEW_MESSAGES) plan_fewer_messages(task, from, to, conversion);
}

bool redistribute(const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, int nranks, RedistributePolicy policy,
                  const Machine *machine, Conversion *conversion, const char **why) {
    const Task task = {shape, dtype_bytes, nranks, machine ? machine : &machine_cpu};
    memset(conversion, 0, sizeof *conversion);
    Pair pair;
    if (!pair_init(&pair, from, to, shape, nranks, why)) return false;
    if (layout_same(from, to, shape, nranks)) {
        conversion_measure(&task, conversion, from);
        return true;
    }
    traffic_bound(from, to, shape, nranks, &conversion->bound);
    const Order *order;
    if (!layout_orders_agree(from, to, &order)) {
        plan_mixed(from, to, shape, nranks, policy, conversion);
        conversion_measure(&task, conversion, from);
        return true;
    }
    /* Digits are of positions: plan as if those were the ranks. */
    Layout a = *from, b = *to;
    a.order = b.order = NULL;
    plan_natural(&task, &a, &b, policy, conversion);
    for (int i = 0; i < conversion->nsteps; i++) {
        Layout *made = &conversion->step[i].to;
        made->order = made->start[made->ndim + NREDUCTIONS] > 0 ? order : NULL;
    }
    return true;
}
