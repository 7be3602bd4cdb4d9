#include "compiler/oracle.h"

#include "compiler/compiler.h"
#include "compiler/convert.h"
#include "compiler/stats.h"

static void count_communication(Build *b, BuildCost *cost) {
    const Graph *g = &b->spmd.graph;
    const Moves moves = stats_moves(b);
    for (int i = 0; i < moves.n; i++) {
        const Move *move = &moves.at[i];
        const Value *from = &g->values.at[move->from];
        const int64_t busiest = move->sent.max > move->received.max ? move->sent.max : move->received.max;
        cost->sent_bytes += move->sent.max;
        cost->received_bytes += move->received.max;
        cost->communication_s +=
            step_seconds(b->options->machine, move->kind, from->layout, g->values.at[move->to].layout, &from->type.shape, busiest, g->nranks);
    }
}

void build_cost(Build *b, BuildCost *cost) {
    const Memory memory = stats_memory(b);
    double total;
    *cost = (BuildCost){.arena_bytes = b->placement.arena_bytes, .state_bytes = memory.states, .input_bytes = memory.inputs, .constant_bytes = memory.constants};
    stats_flops(b, &total, &cost->flops);
    count_communication(b, cost);
}

/* A program like b, as it was before expand, whose chosen operators have these strategies. */
static void fork_build(Build *t, const Build *b, const Strategy *const *strategy, Arena *arena, const Options *options, Diags *diags) {
    build_init(t, b->name, arena, options, diags);
    t->follows = b->follows;
    t->front.propagation = b->front.propagation;
    graph_fork(&t->front.graph, &b->front.chosen, arena);
    for (int n = 0; strategy != NULL && n < t->front.graph.nforward; n++)
        if (strategy[n] != NULL) t->front.graph.nodes.at[n].strategy = strategy[n];
}

bool build_try(const Build *b, const Strategy *const *strategy, BuildCost *cost, Error *error) {
    Arena arena;
    Diags diags;
    Build t;
    Options options = *b->options;
    options.dump = false;
    arena_init(&arena);
    diags_init(&diags, &arena);
    diags.silenced = ~0u;
    fork_build(&t, b, strategy, &arena, &options, &diags);
    const bool done = graph_verify(&t.front.graph, "try", &t.error) && build_run(&t, pass_expand, NULL);
    if (done)
        build_cost(&t, cost);
    else if (t.error.text[0] != '\0')
        *error = t.error;
    else
        error_set(error, EXIT_REJECTED, "%s", diags.items.n > 0 ? diags.items.at[0].text : "no reason");
    arena_finish(&arena);
    return done;
}
