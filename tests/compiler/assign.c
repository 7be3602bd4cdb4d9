#include "compile.h"

static const Layout *state_layout(const Compiled *x, const char *name) {
    for (int s = 0; s < x->graph->states.n; s++)
        if (strcmp(x->graph->states.at[s].name, name) == 0) return x->graph->states.at[s].layout;
    cr_assert_fail("no state %s", name);
    return NULL;
}

Test(assign, a_state_lies_as_its_first_consumer_wants_and_its_slot_with_it) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    assert_layout(state_layout(&x, "w"), "[4@1 -]");
    cr_expect_eq(state_layout(&x, "w"), state_layout(&x, "w.momentum"));
    compiled_finish(&x);
}

Test(assign, a_producer_leaves_the_partial_sum_and_home_is_complete) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    int h = value_named(x.graph, "h");
    assert_layout(x.graph->values.at[h].layout, "[2@4 -] +sum(4@1)");
    assert_layout(x.b->sharded.home[h], "[2@4 -]");
    compiled_finish(&x);
}

/* Layouts are worked out once for nodes that are alike: not where their strategies, or what the user asks of a result, differ. */
Test(assign, products_that_differ_in_their_strategies_alone_have_layouts_of_their_own) {
    static const char net[] =
        "net n() { input x : f32[8, 8]; param t : f32[8, 8] = ones; param u : f32[8, 8] = ones; param v : f32[8, 8] = ones;\n"
        "  a = matmul(x, t) shard ((4, 1), (1, 1)); b = matmul(x, u) shard ((1, 1), (1, 4)); c = matmul(x, v) shard ((1, 1), (1, 4)) -> ((4, 1));\n"
        "  loss mean(a + b + c); }\n" TRAIN "parallel { mode = semi_auto; }\n";
    Compiled x;
    compiled(&x, net, 4, 2);
    const int a = value_named(x.graph, "a"), b = value_named(x.graph, "b"), c = value_named(x.graph, "c");
    assert_layout(x.graph->values.at[a].layout, "[4@1 -]");
    assert_layout(x.graph->values.at[b].layout, "[- 4@1]");
    assert_layout(x.graph->values.at[c].layout, "[- 4@1]");
    assert_layout(x.b->sharded.home[b], "[- 4@1]");
    assert_layout(x.b->sharded.home[c], "[4@1 -]");
    compiled_finish(&x);
}

Test(assign, inputs_are_delivered_as_dataset_says) {
    static const struct {
        const char *dataset, *layout;
    } cases[] = {{"data_parallel", "[8@1 -]"}, {"full_batch", "[- -]"}, {"auto", "[2@4 4@1]"}};
    for (int i = 0; i < 3; i++) {
        Compiled x;
        compiled_init(&x, 8, 2);
        x.options.overrides.dataset = cases[i].dataset;
        cr_assert(compiled_run(&x, quickstart));
        assert_layout(x.graph->inputs.at[0].layout, cases[i].layout);
        compiled_finish(&x);
    }
}

Test(assign, given_storage_layouts_hold) {
    Compiled x;
    compiled(&x, nets[2], 4, 2);
    assert_layout(state_layout(&x, "w"), "[- 4@1]");
    compiled_finish(&x);
}

Test(assign, the_loss_is_whole_but_each_replicas_own_in_data_parallel) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    cr_expect(layout_is_whole(x.b->sharded.report_need[0]));
    compiled_finish(&x);
    compiled(&x, nets[3], 4, 2);
    assert_layout(x.b->sharded.report_need[0], "[4@1]");
    assert_layout(x.graph->inputs.at[0].layout, "[4@1 - -]");
    compiled_finish(&x);
}

Test(assign, gradients_use_their_forward_operators_axes) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    assert_layout(x.graph->values.at[value_named(x.graph, "w.grad")].layout, "[4@1 -] +sum(2@4)");
    compiled_finish(&x);
}

/* w of rows x columns f32, its gradient a sum over the ranks that split the batch. */
static const char *summed(Compiled *x, int rows, int columns, const char *storage) {
    return arena_printf(
        &x->arena,
        "net q(batch = 64) { input x : f32[batch, %d]; param w : f32[%d, %d] = normal(0.1)%s; loss mean(relu(matmul(x, w))); }\n"
        "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); }",
        rows, rows, columns, storage);
}

static void expect_update(int nranks, int optimize, int rows, int columns, const char *storage, bool whole, const char *layout) {
    Compiled x;
    compiled_init(&x, nranks, optimize);
    if (whole) x.options.overrides.shard_states = "none";
    cr_assert(compiled_run(&x, summed(&x, rows, columns, storage)));
    Text slot = {0};
    layout_print(&slot, state_layout(&x, "w.momentum"), false);
    cr_expect_str_eq(slot.at, layout, "%d x %d on %d ranks: %s, not %s", rows, columns, nranks, slot.at, layout);
    text_finish(&slot);
    compiled_finish(&x);
}

Test(assign, a_large_state_is_updated_in_parts_and_gathered) {
    Compiled x;
    compiled_init(&x, 4, 2);
    cr_assert(compiled_run(&x, summed(&x, 256, 256, ""))); /* 256 KiB: just large */
    assert_layout(state_layout(&x, "w"), "[- -]");
    assert_layout(state_layout(&x, "w.momentum"), "[4@1 -]");
    cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_REDUCE_SCATTER), 1);
    cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_ALL_GATHER), 1);
    cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_ALL_REDUCE), 1, "the loss");
    compiled_finish(&x);
}

Test(assign, small_states_and_those_with_whole_updates_are_updated_everywhere) {
    expect_update(4, 2, 256, 255, "", false, "[- -]");
    expect_update(4, 2, 256, 256, "", true, "[- -]");
    expect_update(1, 2, 256, 256, "", false, "[- -]");
}

Test(assign, parts_of_an_update_are_even_where_some_dimension_allows_it) {
    expect_update(4, 2, 62, 4096, "", false, "[- 4@1]");
    expect_update(4, 2, 62, 4094, "", false, "[2@2 2@1]"); /* two of them together */
    expect_update(4, 2, 61, 4095, "", false, "[- 4@1]");   /* none: the longest */
}

/* Parts of 64, 64, 64 and 62 rows lie together in memory. Among nodes a collective of even parts needs fewer messages. */
Test(assign, nearly_even_parts_of_an_update_lie_together_within_a_node) {
    expect_update(4, 2, 254, 1024, "", false, "[4@1 -]");
    expect_update(4, 2, 254, 1022, "", false, "[4@1 -]");
    Machine pairs = machine_cpu;
    pairs.ranks_per_node = 2;
    Compiled x;
    compiled_init(&x, 4, 2);
    x.options.machine = &pairs;
    cr_assert(compiled_run(&x, summed(&x, 254, 1024, "")));
    assert_layout(state_layout(&x, "w.momentum"), "[- 4@1]");
    compiled_finish(&x);
}

Test(assign, a_state_stored_over_ranks_of_the_sum_is_updated_as_it_lies) {
    expect_update(4, 2, 256, 1024, " shard (1, 2)", false, "[- 2@2]");
}

Test(assign, parts_of_an_update_do_not_depend_on_the_level) {
    for (int level = 0; level <= 2; level++)
        expect_update(8, level, 512, 512, "", false, "[8@1 -]");
}

Test(assign, gradients_of_a_parameters_users_are_added_up_as_it_lies) {
    static const char *text = "net n(batch = 8) { input i : i32[batch]; param table : f32[64, 16] = normal(0.1) shard (8, 1);\n"
                              "rows = embedding(table, i) shard ((8, 1), (1)); small = square(table) shard ((1, 8));\n"
                              "loss mean(square(rows)) + sum(small); }\n"
                              "train { data = uniform(seed = 1); optimizer = sgd(lr = 0.1); }";
    for (int optimize = 0; optimize <= 2; optimize++) {
        Compiled x;
        compiled(&x, text, 8, optimize);
        assert_layout(x.graph->values.at[value_named(x.graph, "d_table")].layout, "[8@1 -]");
        compiled_finish(&x);
    }
}

/* One parameter split over 8 ranks, one over 2, one over none, one too small to be split: their squares, added up, owe one sum. */
Test(assign, the_squares_of_all_gradients_owe_the_same_sum) {
    static const char *text =
        "net n(batch = 8) { input x : f32[batch, 16]; param c : f32[] = ones; param b : f32[32] = zeros; param u : f32[16, 32] = normal(0.1) shard (1, 2);\n"
        "param v : f32[32, 16] = normal(0.1) shard (8, 1); h = matmul(x, u) shard ((1, 1), (1, 2)); y = matmul(relu(h + b), v) shard ((1, 8), (8, 1));\n"
        "loss mean(square(y * c)); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); clip = norm(1.0); }";
    Compiled x;
    compiled(&x, text, 8, 2);
    int reductions = 0;
    for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
        const Node *node = &x.b->spmd.graph.nodes.at[n];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE) continue;
        const Value *from = &x.b->spmd.graph.values.at[node->in[0]];
        reductions += strncmp(from->name, "norm2", 5) == 0 && layout_is_partial(from->layout);
    }
    cr_expect_eq(reductions, 1, "%d reductions", reductions);
    compiled_finish(&x);
}

/* As many digits as ranks have, on one dimension: no two of them are neighbours in the storage layout, so none are merged. */
Test(assign, a_dimension_is_split_over_every_axis_of_a_mesh_of_twelve) {
    Compiled x;
    compiled(&x,
             "net q(batch = 4096) { input x : f32[batch, 4096]; param w : f32[4096, 64] = normal(0.1) shard (a.c.e.g.i.k, -);\n"
             "y = matmul(x, w) shard ((b.d.f.h.j.l, -), (-, a.c.e.g.i.k)); loss mean(square(y)); }\n"
             "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); }\n"
             "parallel { mesh (a = 2, b = 2, c = 2, d = 2, e = 2, f = 2, g = 2, h = 2, i = 2, j = 2, k = 2, l = 2); }",
             4096, 2);
    assert_layout(state_layout(&x, "w"), "[2@2048.2@512.2@128.2@32.2@8.2@2 -]");
    assert_layout(state_layout(&x, "w.momentum"), "[2@2048.2@512.2@128.2@32.2@8.2@2.2@1024.2@256.2@64.2@16.2@4.2@1 -]");
    compiled_finish(&x);
}
