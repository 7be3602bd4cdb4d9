#include "compiler/oracle.h"

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/timeline.h"

void build_time(Build *b) {
    b->timeline = arena_alloc(b->arena, sizeof *b->timeline);
    timeline_make(b->timeline, b->facts, b->sharded.strategy, b->options->machine, b->arena);
}

void build_cost(Build *b, BuildCost *cost) {
    if (b->facts == NULL) build_emit(b);
    const Facts *facts = b->facts;
    *cost = (BuildCost){.sent_bytes = facts->all.sent,
                        .received_bytes = facts->all.received,
                        .arena_bytes = b->placement.arena_bytes,
                        .inner_bytes = facts->inner,
                        .state_bytes = facts->states,
                        .input_bytes = facts->inputs,
                        .constant_bytes = facts->constants,
                        .flops = facts->rank_flops};
    if (b->timeline == NULL) build_time(b);
    cost->step_s = b->timeline->step_s;
    cost->communication_s = b->timeline->communication_s;
    cost->exposed_s = b->timeline->exposed_s;
    cost->kernel_s = b->timeline->kernel_s;
    cost->broken = build_broken(b, cost);
}

/* A program like b, as it was before expand, but for what is tried. */
static void fork_build(Build *t, const Build *b, const Trial *trial, Arena *arena, const Options *options, Diags *diags) {
    build_init(t, b->name, arena, options, diags);
    t->follows = b->follows;
    t->tried = true;
    t->front.propagation = b->front.propagation;
    graph_fork(&t->front.graph, &b->front.chosen, arena);
    for (int n = 0; n < t->front.graph.nodes.n; n++) {
        Node *node = &t->front.graph.nodes.at[n];
        if (trial->strategy != NULL && n < t->front.graph.nforward && trial->strategy[n] != NULL) node->strategy = trial->strategy[n];
        if (trial->recompute != NULL) node->recompute = trial->recompute[n];
    }
}

bool build_try(const Build *b, const Strategy *const *strategy, const Measures *measures, BuildCost *cost, Error *error) {
    return build_try_with(b, &(Trial){.strategy = strategy, .measures = measures}, cost, error);
}

bool build_try_with(const Build *b, const Trial *trial, BuildCost *cost, Error *error) {
    Arena arena;
    Diags diags;
    Build t;
    Options options = *b->options;
    options.dump = false;
    arena_init(&arena);
    diags_init(&diags, &arena);
    diags.silenced = ~0u;
    fork_build(&t, b, trial, &arena, &options, &diags);
    const bool done =
        measures_apply(&t, trial->measures, &t.error) && graph_verify(&t.front.graph, "try", &t.error) && build_run(&t, pass_expand, NULL);
    if (done) {
        build_cost(&t, cost);
        if (trial->look != NULL) trial->look(&t, cost, trial->context);
    } else if (t.error.code != 0) {
        *error = t.error;
    } else {
        error_set(error, EXIT_REJECTED, "%s", diags.items.n > 0 ? diags.items.at[0].text : "no reason");
    }
    arena_finish(&arena);
    return done;
}
