#include "compiler/oracle.h"

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/timeline.h"

void build_time(Build *b) {
    b->role_timelines = arena_alloc(b->arena, sizeof *b->role_timelines * (size_t)b->nroles);
    timeline_make(b->role_timelines, b->role_facts, b->nroles, b->sharded.strategy, b->options->machine, b->arena);
    b->timeline = &b->role_timelines[b->facts - b->role_facts];
}

/* What one batch of a step takes and communicates. */
typedef struct Batch {
    double seconds, kernel_s, communication_s, exposed_s;
    int64_t sent_bytes, received_bytes;
} Batch;

/* The first step of the second batch. */
static int second_batch(const Facts *facts) {
    for (int s = 0; s < facts->role->steps.n; s++) {
        const Step *step = &facts->role->steps.at[s];
        if (step->kind == STEP_KERNEL && facts->graph->nodes.at[step->node].micro > 0) return s;
    }
    return facts->role->steps.n;
}

/* What one more batch between the two of a program takes: what the first takes, and the adding up of its gradients, which kernels of the
 * second do. */
static Batch batch_between(const Build *b) {
    const Facts *facts = b->facts;
    const int second = second_batch(facts);
    double kernels_s[2] = {0};
    Batch batch = {0};
    for (int e = 0; e < b->timeline->events.n; e++) {
        const TimelineEvent *event = &b->timeline->events.at[e];
        const Step *step = &facts->role->steps.at[event->step];
        const bool first = event->step < second;
        if (first && event->communication) batch.communication_s += event->end_s - event->begin_s;
        if (first && !event->communication) batch.seconds = event->end_s;
        if (first && step->kind == STEP_WAIT) batch.exposed_s += event->end_s - event->begin_s;
        if (step->kind == STEP_KERNEL && op_table[step->op].op_class != OP_CLASS_UPDATE) kernels_s[!first] += event->end_s - event->begin_s;
    }
    for (int k = 0; k < facts->communications.n && facts->communications.at[k].step < second; k++) {
        batch.sent_bytes += facts->communications.at[k].sent.max;
        batch.received_bytes += facts->communications.at[k].received.max;
    }
    const double adding_s = kernels_s[1] > kernels_s[0] ? kernels_s[1] - kernels_s[0] : 0;
    batch.seconds += adding_s;
    batch.kernel_s = kernels_s[0] + adding_s;
    return batch;
}

/* Scales the cost of a pipeline from the batches seen to all: a step of m batches in p stages takes as long as m + p - 1 batches one after
 * another in one stage; kernels and communications are proportional to the batches. */
static void scale_pipeline(const Build *b, double seen, BuildCost *cost) {
    const double batches = (double)b->front.batches, fill = b->nroles - 1, times = batches / seen;
    cost->step_s *= (batches + fill) / (seen + fill);
    cost->exposed_s *= (batches + fill) / (seen + fill);
    cost->kernel_s *= times;
    cost->communication_s *= times;
    cost->sent_bytes = (int64_t)((double)cost->sent_bytes * times);
    cost->received_bytes = (int64_t)((double)cost->received_bytes * times);
}

/* The graph has two batches of a step: adds the others. */
static void add_batches(const Build *b, BuildCost *cost) {
    const double more = (double)b->front.batches - 2;
    const Batch batch = batch_between(b);
    cost->step_s += more * batch.seconds;
    cost->kernel_s += more * batch.kernel_s;
    cost->communication_s += more * batch.communication_s;
    cost->exposed_s += more * batch.exposed_s;
    cost->sent_bytes += (b->front.batches - 2) * batch.sent_bytes;
    cost->received_bytes += (b->front.batches - 2) * batch.received_bytes;
}

/* The graph has the first few batches of a step: makes the cost that of all batches. The arena is as full with more. */
static void see_all(const Build *b, BuildCost *cost) {
    const double seen = (double)b->front.graph.settings.accumulate, times = (double)b->front.batches / seen;
    if (b->nroles > 1)
        scale_pipeline(b, seen, cost);
    else
        add_batches(b, cost);
    cost->input_bytes = (int64_t)((double)cost->input_bytes * times);
    cost->flops *= times;
}

void build_cost(Build *b, BuildCost *cost) {
    if (b->facts == NULL) build_emit(b);
    const Facts *facts = b->facts;
    *cost = (BuildCost){.sent_bytes = b->program->sent_bytes,
                        .arena_bytes = facts->role->arena_bytes,
                        .inner_bytes = facts->inner,
                        .state_bytes = facts->states,
                        .input_bytes = facts->inputs,
                        .constant_bytes = facts->constants,
                        .workspace_bytes = facts->workspace,
                        .eval_bytes = eval_bytes(b)};
    for (int r = 0; r < b->nroles; r++) {
        const Facts *role = &b->role_facts[r];
        if (role->all.received > cost->received_bytes) cost->received_bytes = role->all.received;
        if (role->rank_flops > cost->flops) cost->flops = role->rank_flops;
    }
    if (b->timeline == NULL) build_time(b);
    cost->step_s = b->timeline->step_s;
    cost->communication_s = b->timeline->communication_s;
    cost->exposed_s = b->timeline->exposed_s;
    cost->kernel_s = b->timeline->kernel_s;
    if (b->front.batches > 0) see_all(b, cost);
    cost->broken = build_broken(b, cost);
}

/* A program like b as it was before expand, with what is tried. */
static void fork_build(Build *t, const Build *b, const Trial *trial, Arena *arena) {
    build_init_tried(t, b->name, arena, b->options);
    t->follows = b->follows;
    t->eval = b->eval;
    t->front.propagation = b->front.propagation;
    t->front.batches = b->front.batches;
    t->front.aim_bytes = b->front.aim_bytes;
    graph_fork(&t->front.graph, &b->front.chosen, arena);
    for (int n = 0; n < t->front.graph.nodes.n; n++) {
        Node *node = &t->front.graph.nodes.at[n];
        if (trial->strategy != NULL && n < t->front.graph.nforward && trial->strategy[n] != NULL) node->strategy = trial->strategy[n];
        if (trial->recompute != NULL) node->recompute = trial->recompute[n];
        if (trial->gathered_once) node->regather = NULL;
    }
    if (trial->gathered_once) t->front.graph.settings.regather = REGATHER_NONE;
}

Tried *build_keep(const Build *b, const Trial *trial, Error *error) {
    Arena arena;
    arena_init(&arena);
    Tried *tried = arena_alloc(&arena, sizeof *tried);
    tried->arena = arena;
    Build *t = tried->build = arena_alloc(&tried->arena, sizeof *t);
    fork_build(t, b, trial, &tried->arena);
    if (measures_apply(t, trial->measures, &t->error) && graph_verify(&t->front.graph, "try", &t->error) &&
        build_run(t, pass_expand, NULL)) {
        build_cost(t, &tried->cost);
        return tried;
    }
    if (t->error.code != 0)
        *error = t->error;
    else
        error_set(error, EXIT_REJECTED, "%s", t->diags->items.n > 0 ? t->diags->items.at[0].text : "no reason");
    tried_finish(tried);
    return NULL;
}

void tried_finish(Tried *tried) {
    if (tried == NULL) return;
    Arena arena = tried->arena;
    arena_finish(&arena);
}

bool build_try_with(const Build *b, const Trial *trial, BuildCost *cost, Error *error) {
    Tried *tried = build_keep(b, trial, error);
    if (tried != NULL) *cost = tried->cost;
    tried_finish(tried);
    return tried != NULL;
}

bool build_try(const Build *b, const Strategy *const *strategy, const Measures *measures, BuildCost *cost, Error *error) {
    return build_try_with(b, &(Trial){.strategy = strategy, .measures = measures}, cost, error);
}

double time_and_traffic(const BuildCost *cost) {
    const double cubed = cost->step_s * cost->step_s * cost->step_s;
    return cubed * cubed * ((double)cost->sent_bytes + 1);
}
