/* How one layout becomes another (docs/redistribution.md).
 *
 * A single exchange attains the lower bound of the total. On few ranks of one node nothing is planned that receives more, except in the canonical form, which exists to be compared
 * with MindSpore's. Where an exchange is exactly what a library's collective does, and the boxes are even, the step is named after that collective. A chain of gathers receives as
 * much as one exchange but needs fewer messages. On many ranks, or several nodes, sequences of collectives are planned too, and the fastest is taken. */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "strategies/pair.h"

/* Whether any list of a layout has the digit. */
static bool has_anywhere(const Layout *layout, Digit digit) {
    for (int i = 0; i < layout->start[layout->ndim + NREDUCTIONS]; i++)
        if (digit_equal(layout->digit[i], digit)) return true;
    return false;
}

/* The conversion to plan, for the functions that plan parts of it. */
typedef struct Task {
    const Layout *from, *to;
    const Shape *shape;
    int dtype_bytes, nranks;
    const Machine *machine;
    double most;  /* seconds: plans that take more are given up */
    Steps *steps; /* steps counted already; NULL: nothing is remembered */
} Task;

static StepLinks task_links(const Task *task, CommKind kind, const Layout *from, const Layout *to) {
    if (task->steps != NULL) return steps_links(task->steps, kind, from, to, task->shape);
    return step_links(task->machine, kind, from, to, task->shape, task->nranks);
}

static void task_traffic(const Task *task, CommKind kind, const Layout *from, const Layout *to, Traffic *received, Traffic *sent) {
    if (task->steps != NULL)
        steps_traffic(task->steps, kind, from, to, task->shape, received, sent);
    else
        traffic_step(kind, from, to, task->shape, task->nranks, received, sent);
}

/* ---- plans under construction: their steps, what is received in all, and the seconds */

static const Layout *plan_end(const Task *task, const Conversion *plan) {
    return plan->nsteps > 0 ? &plan->step[plan->nsteps - 1].to : task->from;
}

static void plan_begin(Conversion *plan) {
    memset(plan, 0, offsetof(Conversion, step));
}

enum { FEW_RANKS = 32, FEW_MESSAGES = 8 }; /* up to these all is counted, and within a node no more is received than the bound */

static void plan_copy(Conversion *to, const Conversion *from) {
    memcpy(to, from, offsetof(Conversion, step) + (size_t)from->nsteps * sizeof *from->step);
}

static double plan_seconds(const Conversion *plan) {
    return move_seconds(plan->seconds);
}

/* A lower bound of what the busiest rank of an exchange receives: what rank 0 needs and does not hold; with sums all that rank 0 needs, and
 * at least an even share of the bound. */
static int64_t least_received(const Task *task, const Layout *from, const Layout *to) {
    const Shape *shape = task->shape;
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Box held, needed, both;
    int64_t terms = 1, target_ranks = 1, kept = 1;
    const int nsummed = layout_summed(from, to, summed, &kind);
    layout_box(from, shape, 0, &held);
    layout_box(to, shape, 0, &needed);
    const int64_t least = box_elements(&needed) - (nsummed == 0 && box_intersect(&held, &needed, &both) ? box_elements(&both) : 0);
    if (nsummed == 0) return least;
    for (int i = 0; i < nsummed; i++)
        terms *= summed[i].size;
    for (int list = 0; list < shape->ndim + NREDUCTIONS; list++)
        *(list < shape->ndim ? &target_ranks : &kept) *= layout_split(to, list);
    return max64(least, shape_elements(shape) * kept / task->nranks * (terms - 2 + task->nranks / (target_ranks * kept)));
}

/* Adds a step and its time; known: its messages, or NULL. False: the plan takes more than `most` seconds; its exact time is then
 * unknown. */
static bool add_step(const Task *task, double most, Conversion *plan, CommKind kind, const Layout *to, const StepLinks *known) {
    const Layout *from = plan_end(task, plan);
    const StepLinks links = known != NULL ? *known : task_links(task, kind, from, to);
    const double second = (double)task->dtype_bytes / links.bytes_per_s; /* of an element */
    Traffic received, sent;
    plan->step[plan->nsteps++] = (ConversionStep){.kind = kind, .to = *to};
    plan->seconds.messages += links.messages;
    plan->seconds.messages_s += links.messages_s;
    if (plan_seconds(plan) > most) return false;
    if (kind == COMM_EXCHANGE && plan_seconds(plan) + second * (double)least_received(task, from, to) > most) return false;
    task_traffic(task, kind, from, to, &received, &sent);
    plan->received.total += received.total;
    plan->seconds.bytes_s += second * (double)max64(received.max, sent.max);
    return plan_seconds(plan) <= most;
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

/* Fills in all figures of a plan. */
static void conversion_measure(const Task *task, Conversion *conversion) {
    const Shape *shape = task->shape;
    const Layout *from = task->from;
    conversion->received = conversion->sent = (Traffic){0};
    conversion->seconds = (MoveSeconds){0};
    conversion->rounds = 0;
    conversion->peak_elements = layout_max_elements(from, shape);
    for (int i = 0; i < conversion->nsteps; i++) {
        const ConversionStep *step = &conversion->step[i];
        Traffic received, sent;
        traffic_step(step->kind, from, &step->to, shape, task->nranks, &received, &sent);
        conversion->received.total += received.total;
        conversion->received.max += received.max;
        conversion->sent.total += sent.total;
        conversion->sent.max += sent.max;
        conversion->rounds += step_rounds(step->kind, from, &step->to, task->nranks);
        int64_t staging = max64(received.max, sent.max);
        MoveSeconds seconds = step_seconds(task->machine, step->kind, from, &step->to, shape, staging * task->dtype_bytes, task->nranks);
        conversion->seconds.messages += seconds.messages;
        conversion->seconds.messages_s += seconds.messages_s;
        conversion->seconds.bytes_s += seconds.bytes_s;
        int64_t peak = layout_max_elements(from, shape) + layout_max_elements(&step->to, shape) + staging;
        conversion->peak_elements = max64(conversion->peak_elements, peak);
        from = &step->to;
    }
}

/* ---- patterns */

/* The layout, without the partial digits that `to` does not have. */
static void complete_towards(const Layout *layout, const Layout *to, Layout *result) {
    layout_complete(layout, result);
    for (int list = to->ndim; list < to->ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(to, list); i++)
            layout_append(result, list, layout_list(to, list)[i]);
}

/* The layout with the digits of dimension d replaced. */
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

/* The digits with which dimension d begins in both layouts; they divide it alike in both. Returns their number. */
static int common_digits(const Layout *from, const Layout *to, int d, int64_t size, Digit *common) {
    Layout a = *from, b = *to;
    bool even = size % layout_split(from, d) == 0 && size % layout_split(to, d) == 0;
    if (even && !layout_refine(&a, &b)) a = *from, b = *to;
    int n = 0;
    if (layout_halo(to, d)) return 0; /* a halo's digits divide something else */
    while (n < layout_count(&a, d) && n < layout_count(&b, d) && digit_equal(layout_list(&a, d)[n], layout_list(&b, d)[n])) {
        common[n] = layout_list(&a, d)[n];
        n++;
    }
    return n;
}

static bool dim_even(const Layout *from, const Layout *to, const Shape *shape, int d) {
    return shape->dim[d] % layout_split(from, d) == 0 && shape->dim[d] % layout_split(to, d) == 0;
}

/* What two layouts have in common: per dimension, the digits with which both begin, and the digits that remain on each side. */
typedef struct Rest {
    const Layout *from, *to;
    const Shape *shape;
    int ndiffer, dim[MAX_NDIM]; /* dimensions that differ */
    int ncommon[MAX_NDIM], nfrom[MAX_NDIM], nto[MAX_NDIM];
    const Digit *common[MAX_NDIM], *more_from[MAX_NDIM], *more_to[MAX_NDIM];
    Layout fine[2]; /* memory for those: both refined */
    int nsummed;
    Digit summed[MAX_DIGITS];
} Rest;

static void rest_init(Rest *rest, const Layout *from, const Layout *to, const Shape *shape) {
    Reduction kind;
    rest->from = from, rest->to = to, rest->shape = shape;
    rest->ndiffer = 0;
    rest->fine[0] = *from, rest->fine[1] = *to;
    const bool fits = layout_refine(&rest->fine[0], &rest->fine[1]);
    rest->nsummed = layout_summed(from, to, rest->summed, &kind);
    for (int d = 0; d < shape->ndim; d++) {
        const bool cut = fits && dim_even(from, to, shape, d);
        const Layout *a = cut ? &rest->fine[0] : from, *b = cut ? &rest->fine[1] : to;
        int n = 0;
        while (n < layout_count(a, d) && n < layout_count(b, d) && digit_equal(layout_list(a, d)[n], layout_list(b, d)[n]))
            n++;
        rest->ncommon[d] = n;
        rest->common[d] = layout_list(a, d);
        rest->more_from[d] = layout_list(a, d) + n, rest->nfrom[d] = layout_count(a, d) - n;
        rest->more_to[d] = layout_list(b, d) + n, rest->nto[d] = layout_count(b, d) - n;
        if (rest->nfrom[d] + rest->nto[d] > 0) rest->dim[rest->ndiffer++] = d;
    }
}

static bool rest_even(const Rest *rest, int d) {
    return dim_even(rest->from, rest->to, rest->shape, d);
}

/* Whether two lists of digits divide a dimension in the same way and order, however the digits are cut. */
static bool digits_same(const Digit *a, int na, const Digit *b, int nb) {
    Layout one, other;
    layout_init(&one, 1), layout_init(&other, 1);
    for (int i = 0; i < na; i++)
        layout_append(&one, 0, a[i]);
    for (int i = 0; i < nb; i++)
        layout_append(&other, 0, b[i]);
    const Shape any = {.ndim = 1, .dim = {layout_split(&one, 0) * layout_split(&other, 0)}};
    layout_canonical(&one, &any), layout_canonical(&other, &any);
    return layout_equal(&one, &other);
}

/* Whether a library's collective is exactly this conversion, with even boxes; *kind: which. */
static bool collective_of(const Rest *rest, CommKind *kind) {
    if (rest->nsummed > 0) {
        const int d = rest->dim[0];
        *kind = rest->ndiffer == 0 ? COMM_ALL_REDUCE : COMM_REDUCE_SCATTER;
        return rest->ndiffer == 0 || (rest->ndiffer == 1 && rest->nfrom[d] == 0 && rest_even(rest, d) &&
                                      digits_same(rest->summed, rest->nsummed, rest->more_to[d], rest->nto[d]));
    }
    for (int i = 0; i < rest->ndiffer; i++)
        if (!rest_even(rest, rest->dim[i])) return false;
    *kind = rest->ndiffer == 1 ? COMM_ALL_GATHER : COMM_ALL_TO_ALL;
    if (rest->ndiffer == 1) return rest->nto[rest->dim[0]] == 0;
    if (rest->ndiffer != 2) return false;
    int i = rest->nfrom[rest->dim[0]] > 0 ? rest->dim[0] : rest->dim[1], j = i == rest->dim[0] ? rest->dim[1] : rest->dim[0];
    if (rest->nto[i] != 0 || rest->nfrom[j] != 0 || rest->nfrom[i] != rest->nto[j]) return false;
    for (int k = 0; k < rest->nfrom[i]; k++)
        if (!digit_equal(rest->more_from[i][k], rest->more_to[j][k])) return false;
    return true;
}

/* ---- policies */

/* AllReduce, AllGather of each dimension from the first digit that differs, StridedSlice. */
static bool plan_canonical(const Task *task, double most, Conversion *plan) {
    Layout at = *plan_end(task, plan), next;
    Digit summed[MAX_DIGITS];
    Reduction kind;
    if (layout_summed(&at, task->to, summed, &kind) > 0) {
        complete_towards(&at, task->to, &next);
        if (!add_step(task, most, plan, COMM_ALL_REDUCE, &next, NULL)) return false;
        at = next;
    }
    for (int d = 0; d < task->shape->ndim; d++) {
        Digit common[MAX_DIGITS];
        int n = common_digits(&at, task->to, d, task->shape->dim[d], common);
        if (!with_list(&at, d, common, n, &next)) continue;
        layout_canonical(&next, task->shape);
        if (layout_same(&next, &at, task->shape, task->nranks)) continue;
        if (!add_step(task, most, plan, COMM_ALL_GATHER, &next, NULL)) return false;
        at = next;
    }
    return layout_same(&at, task->to, task->shape, task->nranks) || add_step(task, most, plan, COMM_STRIDED_SLICE, task->to, NULL);
}

/* The one step that receives no more than the bound. */
typedef struct Direct {
    CommKind kind;
    StepLinks links;
} Direct;
static Direct direct_of(const Task *task, const Rest *rest) {
    const Layout *from = rest->from, *to = rest->to;
    Direct direct;
    const bool collective = collective_of(rest, &direct.kind);
    if (collective && rest->nsummed > 0) {
        Traffic bound, received, sent;
        traffic_bound(from, to, task->shape, task->nranks, &bound);
        task_traffic(task, direct.kind, from, to, &received, &sent);
        if (received.total > bound.total) direct.kind = COMM_EXCHANGE;
    } else if (!collective) {
        direct.kind = COMM_EXCHANGE;
    }
    direct.links = task_links(task, direct.kind, from, to);
    if (!collective && rest->nsummed == 0 && direct.links.messages == 0 && traffic_exchange(from, to, task->shape, task->nranks) == 0)
        direct.kind = COMM_STRIDED_SLICE;
    return direct;
}

/* Gathers dimension by dimension. What a gather receives is not sent on, so all together receive what one exchange does, in fewer messages.
 * A gather moves more than all before it, so those between nodes come first. False where the target needs more than gathers, or as
 * add_step. */
static bool plan_gathers(const Task *task, const Rest *rest, double most, Conversion *plan) {
    if (rest->ndiffer < 2 || rest->nsummed != 0) return false;
    for (int i = 0; i < rest->ndiffer; i++)
        if (rest->nto[rest->dim[i]] > 0 || !rest_even(rest, rest->dim[i])) return false;
    Layout at = *rest->from, next;
    int left = rest->ndiffer;
    for (int far = 1; far >= 0; far--)
        for (int i = rest->ndiffer - 1; i >= 0; i--) {
            int d = rest->dim[i];
            if (machine_within_node(task->machine, rest->more_from[d], rest->nfrom[d], task->nranks) == (far == 1)) continue;
            if (!with_list(&at, d, rest->common[d], rest->ncommon[d], &next)) return false;
            layout_canonical(&next, task->shape);
            if (!add_step(task, most, plan, COMM_ALL_GATHER, --left == 0 ? task->to : &next, NULL)) return false;
            at = next;
        }
    return true;
}

/* Between two device orders, the digits of one side say nothing of the other's. So one exchange is planned, which is at the bound; in the
 * canonical form all dimensions are gathered, then sliced. */
static void plan_mixed(const Task *task, RedistributePolicy policy, Conversion *plan) {
    const Layout *to = task->to;
    Layout at = *task->from, next;
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Traffic left = plan->bound;
    if (policy == REDISTRIBUTE_CANONICAL) {
        if (layout_summed(&at, to, summed, &kind) > 0) {
            complete_towards(&at, to, &next);
            add_step(task, INFINITY, plan, COMM_ALL_REDUCE, &next, NULL);
            at = next;
        }
        for (int d = 0; d < task->shape->ndim; d++) {
            if (layout_count(&at, d) == 0 || !with_list(&at, d, NULL, 0, &next)) continue;
            layout_canonical(&next, task->shape);
            add_step(task, INFINITY, plan, COMM_ALL_GATHER, &next, NULL);
            at = next;
        }
        if (layout_same(&at, to, task->shape, task->nranks)) return;
        traffic_bound(&at, to, task->shape, task->nranks,
                      &left); /* terms that stay partial may still have to move to the ranks that keep them */
    }
    add_step(task, INFINITY, plan, left.total == 0 ? COMM_STRIDED_SLICE : COMM_EXCHANGE, to, NULL);
}

/* ---- fewer messages, more bytes */

#define ABOUT_AS_FAST 0.99 /* share of another plan's seconds: a plan that takes more is not worth more bytes */

/* The seconds from which a plan is too slow to replace the best so far. */
static double too_slow(const Task *task, const Conversion *best) {
    return best->nsteps > 0 ? plan_seconds(best) / ABOUT_AS_FAST : task->most;
}

/* Takes the faster of two plans; where they take about as long, the one that receives less. */
static void keep_faster(const Conversion *tried, Conversion *best) {
    const double seconds = plan_seconds(tried), least = plan_seconds(best);
    if (best->nsteps == 0 || seconds < ABOUT_AS_FAST * least ||
        (ABOUT_AS_FAST * seconds <= least && tried->received.total < best->received.total))
        plan_copy(best, tried);
}

/* Slices the dimensions that `to` divides further, where the ranks that differ in these digits hold the same: that moves nothing. */
static bool slice_first(const Rest *rest, Layout *sliced) {
    bool any = false;
    Layout a = *rest->from, b = *rest->to;
    if (!layout_refine(&a, &b)) return false;
    *sliced = *rest->from;
    for (int i = 0; i < rest->ndiffer; i++) {
        const int d = rest->dim[i];
        Layout next;
        Digit digits[MAX_DIGITS];
        int n = rest->ncommon[d];
        if (rest->nfrom[d] > 0 || !rest_even(rest, d)) continue;
        memcpy(digits, rest->common[d], (size_t)n * sizeof *digits);
        for (int k = 0; k < rest->nto[d] && !has_anywhere(&a, rest->more_to[d][k]); k++)
            digits[n++] = rest->more_to[d][k];
        if (n == rest->ncommon[d] || !with_list(sliced, d, digits, n, &next)) continue;
        *sliced = next;
        any = true;
    }
    layout_canonical(sliced, rest->shape);
    return any;
}

/* Plans what follows the steps of `begun`, where no sum is left. The plans that are counted fastest come first, so that slower plans are
 * given up early. */
static void plan_rest(const Task *task, const Conversion *begun, Conversion *best) {
    const Layout at = *plan_end(task, begun);
    Conversion tried;
    Rest rest;
    plan_copy(&tried, begun);
    if (layout_same(&at, task->to, task->shape, task->nranks)) {
        if (tried.nsteps > 0) tried.step[tried.nsteps - 1].to = *task->to;
        keep_faster(&tried, best);
        return;
    }
    rest_init(&rest, &at, task->to, task->shape);
    const Direct direct = direct_of(task, &rest);
    const CommKind kind = direct.kind;
    if (kind == COMM_EXCHANGE && plan_gathers(task, &rest, too_slow(task, best), &tried)) keep_faster(&tried, best);
    plan_copy(&tried, begun);
    if ((kind == COMM_EXCHANGE || kind == COMM_ALL_TO_ALL) && plan_canonical(task, too_slow(task, best), &tried)) keep_faster(&tried, best);
    plan_copy(&tried, begun);
    if (add_step(task, too_slow(task, best), &tried, kind, task->to, &direct.links)) keep_faster(&tried, best);
}

/* Sums only among the ranks that have the terms: all of it, or each rank a part of some dimension. Then plans the rest. */
static void plan_sums(const Task *task, const Rest *rest, const Conversion *begun, Conversion *best) {
    Layout complete, next;
    complete_towards(plan_end(task, begun), task->to, &complete);
    Conversion tried;
    plan_copy(&tried, begun);
    if (add_step(task, too_slow(task, best), &tried, COMM_ALL_REDUCE, &complete, NULL)) plan_rest(task, &tried, best);
    for (int d = 0; d < task->shape->ndim; d++) {
        Digit parts[MAX_DIGITS];
        int n = 0;
        for (int i = 0; i < layout_count(&complete, d); i++)
            parts[n++] = layout_list(&complete, d)[i];
        for (int i = 0; i < rest->nsummed && n < MAX_DIGITS; i++)
            parts[n++] = rest->summed[i];
        if (!with_list(&complete, d, parts, n, &next) || task->shape->dim[d] % layout_split(&next, d) != 0) continue;
        layout_canonical(&next, task->shape);
        plan_copy(&tried, begun);
        if (add_step(task, too_slow(task, best), &tried, COMM_REDUCE_SCATTER, &next, NULL)) plan_rest(task, &tried, best);
    }
}

/* Plans what follows the steps of `begun`. */
static void plan_behind(const Task *task, const Rest *rest, const Conversion *begun, Conversion *best) {
    if (rest->nsummed > 0)
        plan_sums(task, rest, begun, best);
    else
        plan_rest(task, begun, best);
}

/* Plans sequences of collectives that receive more than the bound, but in fewer messages; without sums, the single step too. */
static void plan_fewer_messages(const Task *task, const Rest *rest, Conversion *best) {
    Conversion begun;
    Layout sliced;
    plan_begin(&begun);
    plan_behind(task, rest, &begun, best);
    if (!slice_first(rest, &sliced)) return;
    add_step(task, INFINITY, &begun, COMM_STRIDED_SLICE, &sliced, NULL);
    plan_behind(task, rest, &begun, best);
}

static bool plan_natural(const Task *task, RedistributePolicy policy, Conversion *plan);

/* Adds the exchange in which each rank receives what it lacks of its part and its halos. On many ranks a sample of them gives its time, as
 * there is no other plan to compare with. */
static bool add_halos(const Task *task, const Pair *pair, Conversion *plan) {
    const bool few = task->nranks <= FEW_RANKS;
    Traffic received, sent = {0};
    Links links;
    if (few)
        halo_count(task->machine, pair, &received, &sent, &links);
    else
        halo_sample(task->machine, pair, FEW_RANKS, &received, &links);
    const bool apart = (few ? received.total : traffic_exchange(pair->from, pair->to, pair->shape, task->nranks)) > 0;
    const StepLinks known = links_step(task->machine, links);
    plan->step[plan->nsteps++] = (ConversionStep){.kind = apart ? COMM_EXCHANGE : COMM_STRIDED_SLICE, .to = *task->to};
    plan->received.total += received.total;
    plan->seconds.messages += known.messages;
    plan->seconds.messages_s += known.messages_s;
    plan->seconds.bytes_s += (double)task->dtype_bytes / known.bytes_per_s * (double)max64(received.max, sent.max);
    return plan_seconds(plan) <= task->most;
}

/* Plans a conversion into halos. Sums are completed first, each on the rank whose part without halos it is. */
static bool plan_halos(const Task *task, RedistributePolicy policy, Conversion *plan) {
    Layout parts;
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Pair pair;
    layout_without_halos(task->to, &parts);
    layout_canonical(&parts, task->shape);
    if (layout_summed(task->from, task->to, summed, &kind) > 0) {
        Task sums = *task;
        sums.to = &parts;
        if (!plan_natural(&sums, policy, plan)) return false;
    }
    const bool legal = pair_init(&pair, plan_end(task, plan), task->to, task->shape, task->nranks, NULL);
    assert(legal && halo_counts(&pair));
    return legal && add_halos(task, &pair, plan);
}

/* Plans a conversion within one device order. False: no plan takes at most task->most seconds. */
static bool plan_natural(const Task *task, RedistributePolicy policy, Conversion *plan) {
    Rest rest;
    Conversion tried;
    if (policy == REDISTRIBUTE_CANONICAL) return plan_canonical(task, task->most, plan);
    if (layout_has_halo(task->to)) return plan_halos(task, policy, plan);
    plan_begin(&tried);
    rest_init(&rest, task->from, task->to, task->shape);
    const Direct direct = direct_of(task, &rest);
    const bool many = task->nranks > FEW_RANKS || task->nranks > task->machine->ranks_per_node; /* messages between nodes are slow */
    if (policy == REDISTRIBUTE_AUTO && many && direct.links.messages > FEW_MESSAGES) {
        plan_fewer_messages(task, &rest, plan);
        if (rest.nsummed > 0 && add_step(task, too_slow(task, plan), &tried, direct.kind, task->to, &direct.links)) plan_copy(plan, &tried);
        return plan->nsteps > 0;
    }
    bool planned = add_step(task, task->most, plan, direct.kind, task->to, &direct.links);
    if (policy == REDISTRIBUTE_BOUND || direct.kind != COMM_EXCHANGE) return planned;
    if (!plan_gathers(task, &rest, planned ? plan_seconds(plan) : task->most, &tried)) return planned;
    if (!planned || (tried.received.total <= plan->received.total && plan_seconds(&tried) < plan_seconds(plan))) plan_copy(plan, &tried);
    return true;
}

/* Plans one exchange from a pin to another one, from a pin to all ranks or from all ranks to a pin. In the canonical form, and where the
 * target has halos, sums are completed first. */
static void plan_pinned(const Task *task, RedistributePolicy policy, Conversion *plan) {
    Layout at = *task->from, next;
    Digit summed[MAX_DIGITS];
    Reduction kind;
    int nsummed = layout_summed(&at, task->to, summed, &kind);
    if (policy == REDISTRIBUTE_CANONICAL && nsummed > 0) {
        complete_towards(&at, task->to, &next);
        add_step(task, INFINITY, plan, COMM_ALL_REDUCE, &next, NULL);
        at = next;
        nsummed = 0;
    }
    if (nsummed > 0 && layout_has_halo(task->to)) { /* sums are completed in the layout without halos, before ranges overlap */
        layout_without_halos(task->to, &next);
        layout_canonical(&next, task->shape);
        add_step(task, INFINITY, plan, COMM_EXCHANGE, &next, NULL);
        at = next;
        nsummed = 0;
    }
    const bool all = layout_is_pinned(&at) && !layout_is_pinned(task->to); /* all ranks take part, even those that hold nothing */
    const bool apart = nsummed > 0 || all || traffic_exchange(&at, task->to, task->shape, task->nranks) > 0;
    add_step(task, INFINITY, plan, apart ? COMM_EXCHANGE : COMM_STRIDED_SLICE, task->to, NULL);
}

/* As redistribute, for layouts with pins. */
static bool redistribute_pinned(const Task *task, RedistributePolicy policy, Conversion *conversion, const char **why) {
    Layout a, b;
    int nranks = task->nranks;
    if (pins_leave(task->from, task->to, &nranks, &a, &b)) {
        if (!redistribute(&a, &b, task->shape, task->dtype_bytes, nranks, policy, task->machine, conversion, why)) return false;
        for (int i = 0; i < conversion->nsteps; i++)
            conversion->step[i].to.pin = task->to->pin;
        return true;
    }
    traffic_bound(task->from, task->to, task->shape, nranks, &conversion->bound);
    plan_pinned(task, policy, conversion);
    conversion_measure(task, conversion);
    return true;
}

bool redistribute(const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, int nranks, RedistributePolicy policy,
                  const Machine *machine, Conversion *conversion, const char **why) {
    Task task = {from, to, shape, dtype_bytes, nranks, machine ? machine : &machine_cpu, INFINITY, NULL};
    const Order *order;
    Pair pair;
    memset(conversion, 0, sizeof *conversion);
    if (!pair_init(&pair, from, to, shape, nranks, why)) return false;
    if (pin_equal(&from->pin, &to->pin) && layout_same(from, to, shape, nranks)) {
        conversion_measure(&task, conversion);
        return true;
    }
    if (pinned(from, to)) return redistribute_pinned(&task, policy, conversion, why);
    traffic_bound(from, to, shape, nranks, &conversion->bound);
    if (!layout_orders_agree(from, to, &order)) {
        plan_mixed(&task, policy, conversion);
        conversion_measure(&task, conversion);
        return true;
    }
    /* Digits refer to positions in the order: plan as if positions were ranks. */
    Layout a = *from, b = *to;
    a.order = b.order = NULL;
    task.from = &a, task.to = &b;
    const Traffic bound = conversion->bound;
    plan_natural(&task, policy, conversion);
    conversion->bound = bound;
    conversion_measure(&task, conversion);
    for (int i = 0; i < conversion->nsteps; i++) {
        Layout *made = &conversion->step[i].to;
        made->order = made->start[made->ndim + NREDUCTIONS] > 0 ? order : NULL;
    }
    return true;
}

MoveSeconds redistribute_seconds(Steps *steps, const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, double most) {
    const Task task = {from, to, shape, dtype_bytes, steps->nranks, steps->machine, most, steps};
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Conversion plan;
    assert(from->order == NULL && to->order == NULL && !pinned(from, to));
    if (layout_summed(from, to, summed, &kind) < 0) return (MoveSeconds){.bytes_s = INFINITY};
    plan_begin(&plan);
    if (layout_same(from, to, shape, steps->nranks)) return (MoveSeconds){0};
    return plan_natural(&task, REDISTRIBUTE_AUTO, &plan) ? plan.seconds : (MoveSeconds){.bytes_s = most};
}
