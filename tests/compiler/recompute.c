#include "compile.h"
#include "compiler/oracle.h"

/* Blocks of two operators whose results are needed for gradients, on 4 ranks. %s: behind the call; settings of train. */
static const char blocks[] = "cell block(x) { param up : f32[32, 128] = normal(0.1); param down : f32[128, 32] = normal(0.1);\n"
                             "  h = matmul(x, up) shard; g = tanh(h); y = x + matmul(g, down); return y; }\n"
                             "net n(batch = 2048, layers = 6) { input x : f32[batch, 32]; layer = x;\n"
                             "  for i in 0..layers { layer = block(layer)%s; }\n"
                             "  loss mean(layer * layer); }\n"
                             "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; %s }\n%s";

static void with(Compiled *x, const char *call, const char *train, const char *more, int optimize) {
    char text[2048];
    snprintf(text, sizeof text, blocks, call, train, more);
    compiled(x, text, 4, optimize);
}

static int ncopies(const Graph *g) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        n += g->nodes.at[i].copy_of > 0;
    return n;
}

Test(recompute, what_a_call_computes_is_computed_again_but_not_its_result) {
    for (int optimize = 0; optimize <= 2; optimize++) {
        Compiled x;
        with(&x, " recompute", "", "", optimize);
        cr_expect_eq(ncopies(x.graph), 12);
        for (int i = x.graph->nforward; i < x.graph->nodes.n; i++) {
            const Node *node = &x.graph->nodes.at[i];
            if (node->copy_of == 0) continue;
            const Node *original = &x.graph->nodes.at[node->copy_of];
            cr_expect_lt(node->copy_of, x.graph->nforward);
            cr_expect(original->op == OP_matmul || original->op == OP_tanh);
            cr_expect_eq(node->origin, node->copy_of);
            cr_expect_eq(x.b->sharded.strategy[i], x.b->sharded.strategy[node->copy_of]);
            cr_expect_eq(x.b->sharded.made[node->out[0]], x.b->sharded.made[original->out[0]]);
        }
        compiled_finish(&x);
    }
}

/* No gradient reads a value of the forward pass that is marked, and no copy comes before a gradient that does not need it. */
Test(recompute, copies_stand_where_they_are_needed_first) {
    Compiled x;
    with(&x, " recompute", "", "", 2);
    const Graph *g = x.graph;
    int last = g->nforward;
    for (int i = g->nforward; i < g->nodes.n; i++) {
        for (int k = 0; k < g->nodes.at[i].nin; k++) {
            const int maker = g->values.at[g->nodes.at[i].in[k]].node;
            cr_expect_not(maker < g->nforward && g->nodes.at[maker].recompute, "%s", g->nodes.at[i].name);
        }
        if (g->nodes.at[i].copy_of == 0) continue;
        bool soon = false; /* read by the next node, or by copies between */
        for (int n = i + 1; n < g->nodes.n && !soon; n++) {
            for (int k = 0; k < g->nodes.at[n].nin; k++)
                soon |= g->values.at[g->nodes.at[n].in[k]].node == i;
            if (g->nodes.at[n].copy_of == 0) break;
        }
        cr_expect(soon, "%s", g->nodes.at[i].name);
        cr_expect_gt(i, last);
        last = i;
    }
    compiled_finish(&x);
}

Test(recompute, hints_and_the_command_line_say_the_same) {
    Compiled call, hints, flag;
    static const char *const shards[] = {"layer.*=recompute"};
    with(&call, " recompute", "", "", 2);
    with(&hints, "", "", "hints { layer.* = recompute; }\n", 2);
    compiled_init(&flag, 4, 2);
    flag.options.overrides.nshards = 1;
    flag.options.overrides.shard = shards;
    char text[2048];
    snprintf(text, sizeof text, blocks, "", "", "");
    cr_assert(compiled_run(&flag, text));
    cr_expect_eq(ncopies(hints.graph), ncopies(call.graph));
    cr_expect_eq(ncopies(flag.graph), ncopies(call.graph));
    compiled_finish(&call);
    compiled_finish(&hints);
    compiled_finish(&flag);
}

Test(recompute, one_operator_may_be_named) {
    Compiled x;
    with(&x, "", "", "hints { layer.*.g = recompute; }\n", 2);
    cr_expect_eq(ncopies(x.graph), 6);
    for (int i = 0; i < x.graph->nodes.n; i++)
        if (x.graph->nodes.at[i].copy_of > 0) cr_expect_eq(x.graph->nodes.at[i].op, OP_tanh);
    compiled_finish(&x);
}

/* What the oracle says of the program without is what that takes. */
Test(recompute, the_arena_is_smaller) {
    Compiled kept, again;
    BuildCost cost, without;
    Error error;
    with(&kept, "", "", "", 2);
    with(&again, " recompute", "", "", 2);
    cr_expect_lt(again.b->placement.arena_bytes, kept.b->placement.arena_bytes * 2 / 3);
    bool *none = arena_alloc(&again.arena, (size_t)again.b->front.chosen.nodes.n);
    cr_assert(build_try_with(again.b, &(Trial){.recompute = none}, &without, &error), "%s", error.text);
    build_cost(kept.b, &cost);
    cr_expect_eq(without.arena_bytes, cost.arena_bytes);
    cr_expect_eq(without.step_s, cost.step_s);
    compiled_finish(&kept);
    compiled_finish(&again);
}

static int64_t needed(const Compiled *x) {
    BuildCost cost;
    build_cost(x->b, &cost);
    return memory_bytes(&cost);
}

static bool limited(Compiled *x, int64_t bytes, const char *train, const char *more) {
    static char text[2048], memory[32];
    snprintf(text, sizeof text, blocks, "", train, more);
    snprintf(memory, sizeof memory, "%lld", (long long)bytes);
    compiled_init(x, 4, 2);
    x->options.overrides.memory = memory;
    return compiled_run(x, text);
}

/* Of the kinds that hold bytes as many values as are needed, of the first layers; nothing where the plan fits; not where the user does not want it. */
Test(recompute, a_limit_of_memory_chooses_values) {
    Compiled kept, again, x;
    with(&kept, "", "", "", 2);
    with(&again, " recompute", "", "", 2);
    const int64_t most = needed(&kept), least = needed(&again), middle = (most + least) / 2;
    cr_assert(limited(&x, most, "", ""));
    cr_expect_eq(ncopies(x.graph), 0);
    cr_expect_null(x.b->front.measures);
    compiled_finish(&x);

    cr_assert(limited(&x, middle, "micro_batches = 1;", ""), "%s", x.c.error.text);
    cr_expect_leq(needed(&x), middle);
    cr_expect_gt(ncopies(x.graph), 0);
    cr_expect_leq(ncopies(x.graph), ncopies(again.graph) * 2 / 3);
    int first = x.graph->nforward, last = 0; /* of the operators of one kind that are computed again, and that are not */
    for (int i = 0; i < x.graph->nforward; i++) {
        if (x.graph->nodes.at[i].op != OP_tanh) continue;
        if (x.graph->nodes.at[i].recompute && last < i) last = i;
        if (!x.graph->nodes.at[i].recompute && i < first) first = i;
    }
    cr_expect_lt(last, first);
    cr_assert(x.b->front.measures);
    cr_expect_not_null(x.b->front.measures->taken[0].marks);
    cr_expect_gt(x.b->front.measures->taken[0].saved_bytes, 0);
    compiled_finish(&x);

    cr_expect_not(limited(&x, middle, "micro_batches = 1;", "parallel { recompute = none; shard_states = optimizer; regather = none; }\n"));
    cr_expect_eq(x.diags.nerrors, 1);
    compiled_finish(&x);
    compiled_finish(&kept);
    compiled_finish(&again);
}

/* Layers that hand on to each other all that they keep, in a loop or each with names of its own; without a limit, and with one. */
static void chain(Compiled *x, bool loop, int layers, const char *memory) {
    Text text = {0};
    if (loop) text_printf(&text, "cell layer(x) { param w : f32[32, 32] = normal(0.1); return relu(matmul(x, w)); }\n");
    text_printf(&text, "net n(batch = 4096) { input x : f32[batch, 32]; h0 = neg(x);\n");
    for (int i = 1; i <= layers && !loop; i++)
        text_printf(&text, "param w%d : f32[32, 32] = normal(0.1); h%d = relu(matmul(h%d, w%d));\n", i, i, i - 1, i);
    if (loop) text_printf(&text, "h = h0; for i in 0..%d { h = layer(h); }\n", layers);
    text_printf(&text, "loss mean(square(h%s)); }\n", loop ? "" : arena_printf(&x->arena, "%d", layers));
    text_printf(&text,
                "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; micro_batches = 1; }\n"
                "parallel { shard_states = optimizer; regather = none; %s }\n",
                memory);
    x->options.overrides.search = "sharding_propagation";
    cr_assert(compiled_run(x, arena_copy(&x->arena, text.at, text.n)), "%s", compiled_said(x));
    text_finish(&text);
}

/* Of n values about one in the square root of n is kept: all together need about twice as many as that at once, and each is computed again at most once. */
Test(recompute, a_chain_is_computed_again_in_segments) {
    enum { LAYERS = 100, AT_ONCE = 2 * 10 + 8 }; /* beside the kept ones and a segment: gradients, what is read soon */
    for (int loop = 0; loop < 2; loop++) {
        Compiled kept, x;
        compiled_init(&kept, 2, 2);
        chain(&kept, loop, LAYERS, "");
        const int64_t most = needed(&kept), value = 4096 / 2 * 32 * 4, least = most - (LAYERS - AT_ONCE) * value;
        for (int part = 1; part <= 4; part++) {
            char memory[64];
            const int64_t limit = most - (most - least) * part / 4;
            compiled_init(&x, 2, 2);
            snprintf(memory, sizeof memory, "memory = %lld;", (long long)limit);
            chain(&x, loop, LAYERS, memory);
            cr_expect_leq(needed(&x), limit);
            int relus = 0, matmuls = 0;
            for (int i = 0; i < x.graph->nodes.n; i++) {
                relus += x.graph->nodes.at[i].copy_of > 0 && x.graph->nodes.at[i].op == OP_relu;
                matmuls += x.graph->nodes.at[i].copy_of > 0 && x.graph->nodes.at[i].op == OP_matmul;
            }
            cr_expect_eq(relus, matmuls);
            cr_expect_leq(relus, LAYERS);
            cr_expect_leq(relus, (most - limit) / value + 12, "%d values for %lld", relus, (long long)((most - limit) / value));
            cr_expect_eq(x.b->front.measures->n, 1);
            compiled_finish(&x);
        }
        compiled_finish(&kept);
    }
}

/* What is chosen for memory is computed again in all batches of a step. */
Test(recompute, a_limit_of_memory_holds_for_all_batches_of_a_step) {
    Compiled kept, x;
    with(&kept, "", "accumulate = 2;", "parallel { shard_states = optimizer; regather = none; }\n", 2);
    const int64_t middle = needed(&kept) * 3 / 4;
    cr_assert(limited(&x, middle, "accumulate = 2; micro_batches = 1;", "parallel { shard_states = optimizer; regather = none; }\n"), "%s",
              x.diags.nerrors > 0 ? x.diags.items.at[0].text : x.c.error.text);
    cr_expect_leq(needed(&x), middle);
    bool later = false;
    for (int i = 0; i < x.graph->nodes.n; i++)
        later = later || (x.graph->nodes.at[i].copy_of > 0 && x.graph->nodes.at[x.graph->nodes.at[i].copy_of].micro == 1);
    cr_expect(later);
    compiled_finish(&x);
    compiled_finish(&kept);
}

/* Each batch computes its own again; what all share is kept. */
Test(recompute, batches_of_a_step) {
    Compiled x;
    compiled(
        &x,
        "net n() { input x : f32[4, 6]; param w : f32[6, 6] = ones; v = exp(w) recompute; h = tanh(matmul(x, v)) recompute; loss mean(h * h); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); accumulate = 3; }\n",
        2, 2);
    int copies[3] = {0};
    for (int i = 0; i < x.graph->nodes.n; i++) {
        const Node *node = &x.graph->nodes.at[i];
        if (node->copy_of == 0) continue;
        cr_expect_eq(node->op, OP_tanh);
        copies[x.graph->nodes.at[node->copy_of].micro]++;
    }
    for (int k = 0; k < 3; k++)
        cr_expect_eq(copies[k], 1);
    compiled_finish(&x);
}

/* A value that is one of a marked and of a kept statement is kept. */
Test(recompute, equal_statements_are_kept_where_one_is) {
    Compiled x;
    compiled(
        &x,
        "net n() { input x : f32[4, 6]; param w : f32[6, 6] = ones; h = matmul(x, w); a = tanh(h) recompute; b = tanh(h); loss mean(a * b); }\n" TRAIN,
        2, 2);
    cr_expect_eq(ncopies(x.graph), 0);
    compiled_finish(&x);
}

Test(recompute, an_eval_has_no_copies) {
    Compiled x;
    compiled(
        &x,
        "net n(batch = 8) { input x : f32[batch, 6]; param w : f32[6, 6] = ones; h = tanh(matmul(x, w)) recompute; loss mean(h * h); }\n" TRAIN
        "eval { data = normal(seed = 2); steps = 2; }\n",
        2, 2);
    cr_expect_eq(ncopies(x.graph), 1);
    cr_expect_eq(ncopies(&program_eval(&x.c)->sharded.graph), 0);
    compiled_finish(&x);
}
