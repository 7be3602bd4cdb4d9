#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "strategies/strategies.h"
#include "tests/strategies/nets.h"
#include "tests/two_results.h"

static const int64_t sizes[4] = {16, 32, 16, 16};

#define expect_strategy(net, value, text) cr_expect_str_eq(net_strategy(net, value), text)

static void quickstart(Quickstart *q, const char *first, const char *second, Dataset dataset) {
    quickstart_init(q, 8, sizes, first, second, dataset);
    Propagation propagation;
    cr_assert(propagate(&q->net.graph, &propagation, &q->net.diags), "%s", net_diagnostics(&q->net));
}

Test(propagate, hint_on_first_matmul_reaches_relu_and_second_matmul) {
    Quickstart q;
    quickstart(&q, "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
    expect_strategy(&q.net, q.h, "((2, 4), (4, 1))");
    expect_strategy(&q.net, q.a, "((2, 4))");
    expect_strategy(&q.net, q.y, "((2, 4), (4, 1))");
    cr_expect_eq(net_node(&q.net, q.h)->from, STRATEGY_USER);
    cr_expect_eq(net_node(&q.net, q.a)->from, STRATEGY_PROPAGATED);
    cr_expect_eq(net_node(&q.net, q.y)->from, STRATEGY_PROPAGATED);
    cr_expect_eq(q.net.diags.items.n, 0);
    net_finish(&q.net);
}

/* x is gathered from all rows to those of half of the ranks: fewer bytes than h to be divided anew and the gradient of a whole w to be added up. */
Test(propagate, hint_on_second_matmul_counts_the_dataset_layout) {
    Quickstart q;
    quickstart(&q, NULL, "((2, 4), (4, 1))", DATASET_DATA_PARALLEL);
    expect_strategy(&q.net, q.a, "((2, 4))");
    expect_strategy(&q.net, q.h, "((2, 1), (1, 4))");
    net_finish(&q.net);
}

/* Where x may lie anyhow no gradient of w need be added up. */
Test(propagate, hint_on_second_matmul_with_a_free_dataset) {
    Quickstart q;
    quickstart(&q, NULL, "((2, 4), (4, 1))", DATASET_AUTO);
    expect_strategy(&q.net, q.a, "((2, 4))");
    expect_strategy(&q.net, q.h, "((1, 1), (1, 8))");
    net_finish(&q.net);
}

Test(propagate, the_same_with_other_sizes) {
    static const int64_t others[][4] = {{256, 1024, 512, 128}, {16, 32, 32, 16}, {32, 64, 64, 32}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        Quickstart q;
        Propagation propagation;
        quickstart_init(&q, 8, others[i], "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
        cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags));
        expect_strategy(&q.net, q.a, "((2, 4))");
        expect_strategy(&q.net, q.y, "((2, 4), (4, 1))");
        net_finish(&q.net);
    }
}

/* a is had in rows, and may be had in any parts of them: behind a small weight, whose gradient is small too, those of the batch move less in a step. */
Test(propagate, the_batch_is_split_where_gradients_are_small) {
    Quickstart q;
    Propagation propagation;
    quickstart_init(&q, 8, (int64_t[]){32, 64, 8, 4}, "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
    cr_assert(propagate_explained(&q.net.graph, &propagation, &q.net.diags));
    expect_strategy(&q.net, q.a, "((8, 1))");
    expect_strategy(&q.net, q.y, "((8, 1), (1, 1))");
    net_finish(&q.net);
}

Test(propagate, no_hint_splits_the_batch_and_says_so) {
    Quickstart q;
    Propagation propagation;
    quickstart_init(&q, 8, sizes, NULL, NULL, DATASET_DATA_PARALLEL);
    q.net.diags.verbose = true;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags));
    expect_strategy(&q.net, q.h, "((8, 1), (1, 1))");
    expect_strategy(&q.net, q.a, "((8, 1))");
    expect_strategy(&q.net, q.loss, "((8, 1))");
    cr_expect_eq(net_node(&q.net, q.h)->from, STRATEGY_BATCH);
    cr_assert_eq(q.net.diags.items.n, 1);
    cr_expect_eq(q.net.diags.items.at[0].kind, DIAG_NOTE);
    net_finish(&q.net);
}

Test(propagate, semi_auto_splits_the_batch_of_operators_without_a_hint) {
    Quickstart q;
    quickstart_init(&q, 8, sizes, "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
    q.net.graph.settings.mode = MODE_SEMI_AUTO;
    Propagation propagation;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags));
    expect_strategy(&q.net, q.h, "((2, 4), (4, 1))");
    expect_strategy(&q.net, q.a, "((8, 1))");
    expect_strategy(&q.net, q.y, "((8, 1), (1, 1))");
    cr_expect_eq(q.net.diags.items.n, 0);
    net_finish(&q.net);
}

Test(propagate, one_rank_leaves_all_whole_whatever_the_hints_say) {
    Quickstart q;
    quickstart_init(&q, 1, sizes, "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
    Propagation propagation;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags));
    expect_strategy(&q.net, q.h, "((1, 1), (1, 1))");
    cr_expect_eq(net_node(&q.net, q.h)->from, STRATEGY_WHOLE);
    cr_expect_eq(q.net.diags.items.n, 0);
    net_finish(&q.net);
}

/* 12 ranks and 8 rows, one long row: no rank computes what another does. */
Test(propagate, where_the_batch_is_short_other_factors_are_split_too) {
    static const struct {
        int nranks;
        int64_t sizes[4];
    } cases[] = {{12, {8, 24, 768, 24}}, {12, {8, 768, 24, 768}}, {8, {1, 4096, 1024, 4096}}, {8, {6, 32, 16, 16}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Quickstart q;
        quickstart_init(&q, cases[i].nranks, cases[i].sizes, NULL, NULL, DATASET_AUTO);
        Propagation propagation;
        cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags));
        for (int n = 0; n < q.net.graph.nodes.n; n++) {
            const Node *node = &q.net.graph.nodes.at[n];
            int64_t used = 1;
            for (int f = 0; node->strategy && f < node->strategy->nfactors; f++)
                used *= strategy_split(node->strategy, f);
            if (node->strategy) cr_expect_eq(used, cases[i].nranks, "node %d uses %lld ranks", n, (long long)used);
        }
        net_finish(&q.net);
    }
}

Test(propagate, operators_out_of_reach_split_their_batch) {
    Net net;
    net_init(&net, 4);
    int x = net_input(&net, "x", 2, (int64_t[]){8, 8}), z = net_input(&net, "z", 2, (int64_t[]){8, 8});
    int a = net_op(&net, OP_relu, x, -1, "a"), b = net_op(&net, OP_tanh, z, -1, "b"), c = net_op(&net, OP_exp, b, -1, "c");
    net_node(&net, a)->hint = net_hint(&net, "((1, 4))");
    Propagation propagation;
    cr_assert(propagate(&net.graph, &propagation, &net.diags));
    expect_strategy(&net, a, "((1, 4))");
    expect_strategy(&net, b, "((4, 1))");
    expect_strategy(&net, c, "((4, 1))");
    cr_expect_eq(net_node(&net, b)->from, STRATEGY_BATCH);
    net_finish(&net);
}

Test(propagate, the_smaller_conversion_wins) {
    /* x is smaller than h: moving x from the dataset's layout costs less than moving h to the one that relu needs. */
    Quickstart q;
    Propagation propagation;
    quickstart_init(&q, 8, (int64_t[]){16, 16, 64, 16}, NULL, "((2, 4), (4, 1))", DATASET_DATA_PARALLEL);
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags));
    expect_strategy(&q.net, q.h, "((2, 1), (1, 4))");
    net_finish(&q.net);
}

Test(propagate, a_hint_goes_through_transpose_and_broadcast) {
    Net net;
    net_init(&net, 8);
    int x = net_input(&net, "x", 2, (int64_t[]){8, 16}), bias = net_parameter(&net, "bias", 1, (int64_t[]){16});
    int sum = net_op(&net, OP_add, x, bias, "sum"), turned = net_op(&net, OP_transpose, sum, -1, "turned"),
        y = net_op(&net, OP_relu, turned, -1, "y");
    net_node(&net, y)->hint = net_hint(&net, "((8, 1))");
    Propagation propagation;
    cr_assert(propagate(&net.graph, &propagation, &net.diags));
    expect_strategy(&net, turned, "((1, 8))");
    expect_strategy(&net, sum, "((1, 8), (8))");
    net_finish(&net);
}

Test(propagate, hints_that_do_not_fit_are_a_warning_at_both_places) {
    Net net;
    net_init(&net, 16);
    int x = net_input(&net, "x", 2, (int64_t[]){64, 64});
    int a = net_op(&net, OP_relu, x, -1, "a"), b = net_op(&net, OP_tanh, a, -1, "b"), c = net_op(&net, OP_exp, b, -1, "c");
    net_node(&net, a)->hint = net_hint(&net, "((4, 4))");
    net_node(&net, c)->hint = net_hint(&net, "((8, 2))");
    net.diags.silenced = 1u << WARN_COSTLY;
    Propagation propagation;
    cr_assert(propagate(&net.graph, &propagation, &net.diags));
    expect_strategy(&net, a, "((4, 4))");
    expect_strategy(&net, c, "((8, 2))");
    cr_expect_eq(net.diags.nwarnings, 1);
    const char *text = net_diagnostics(&net);
    /* From 16 x 16 to 8 x 32 of 64 x 64: half of every needed box is missing on half of the ranks at least. */
    Layout from, to;
    strategy_out_layout(net_node(&net, a), net_node(&net, a)->strategy, 0, 2, &from);
    strategy_in_layout(net_node(&net, c), net_node(&net, c)->strategy, 0, 2, &to);
    char bytes[32];
    snprintf(bytes, sizeof bytes, " %lld bytes", (long long)(4 * traffic_exchange(&from, &to, &net.graph.values.at[a].type.shape, 16)));
    cr_expect(strstr(text, bytes) != NULL, "%s", text);
    cr_expect(strstr(text, "note: the hint of a\n") != NULL, "%s", text);
    net_finish(&net);
}

Test(propagate, hints_that_fit_are_no_warning) {
    Quickstart q;
    quickstart(&q, "((2, 1), (1, 4))", "((2, 4), (4, 1))", DATASET_AUTO);
    expect_strategy(&q.net, q.a, "((2, 4))");
    cr_expect_eq(q.net.diags.items.n, 0, "%s", net_diagnostics(&q.net));
    net_finish(&q.net);
}

Test(propagate, an_output_strategy_converts_the_result) {
    Quickstart q;
    quickstart_init(&q, 8, sizes, "((2, 4), (4, 1)) -> (8, 1)", NULL, DATASET_AUTO);
    Propagation propagation;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags), "%s", net_diagnostics(&q.net));
    int node = q.net.graph.values.at[q.h].node;
    cr_assert_not_null(propagation.out_layout[node]);
    Text text = {0};
    layout_print(&text, propagation.out_layout[node], false);
    cr_expect_str_eq(text.at, "[8@1 -]");
    text_finish(&text);
    expect_strategy(&q.net, q.a, "((8, 1))");
    net_finish(&q.net);
}

Test(propagate, an_explicit_dataset_strategy_leaves_the_first_digit_over) {
    Quickstart q;
    quickstart_init(&q, 8, sizes, "((2, 4), (4, 1))", NULL, DATASET_EXPLICIT);
    q.net.graph.settings.dataset_hint = net_hint(&q.net, "((2, 1), (4, 1))");
    Propagation propagation;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags), "%s", net_diagnostics(&q.net));
    Text text = {0};
    layout_print(&text, q.net.graph.inputs.at[0].layout, false);
    layout_print(&text, q.net.graph.inputs.at[1].layout, false);
    cr_expect_str_eq(text.at, "[2@1 -][4@1 -]");
    text_finish(&text);
    net_finish(&q.net);
}

Test(propagate, a_storage_hint_of_a_parameter_counts) {
    Quickstart q;
    quickstart_init(&q, 8, (int64_t[]){16, 512, 256, 16}, NULL, "((2, 4), (4, 1))", DATASET_AUTO);
    q.net.graph.states.at[0].hint = net_hint(&q.net, "((8, 1))");
    Propagation propagation;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags), "%s", net_diagnostics(&q.net));
    /* Everything else would move w, which is larger than the sum that h is then; a free w gives ((1, 1), (1, 8)), as above. */
    expect_strategy(&q.net, q.h, "((1, 8), (8, 1))");
    Text text = {0};
    layout_print(&text, q.net.graph.states.at[0].layout, false);
    cr_expect_str_eq(text.at, "[8@1 -]");
    text_finish(&text);
    net_finish(&q.net);
}

Test(propagate, data_parallel_splits_the_hidden_dimension) {
    Net net;
    net_init(&net, 4);
    net.graph.settings.mode = MODE_DATA_PARALLEL;
    net.graph.replicas = 4;
    TensorType type = {.dtype = F32, .hidden = true, .shape = {.ndim = 3, .dim = {4, 2, 3}}};
    int x = graph_input(&net.graph, graph_add_input(&net.graph, (Input){.name = "x", .type = type}));
    int w = net_parameter(&net, "w", 2, (int64_t[]){3, 5});
    Attr attr[MAX_ATTRS] = {{.given = true, .i = 4}};
    int each = net_op_attr(&net, OP_replicate, w, attr, "w.each"), y = net_op(&net, OP_matmul, x, each, "y");
    Propagation propagation;
    cr_assert(propagate(&net.graph, &propagation, &net.diags));
    Layout layout;
    Text text = {0};
    strategy_out_layout(net_node(&net, y), net_node(&net, y)->strategy, 0, 3, &layout);
    layout_print(&text, &layout, true);
    strategy_out_layout(net_node(&net, each), net_node(&net, each)->strategy, 0, 3, &layout);
    layout_print(&text, &layout, true);
    strategy_in_layout(net_node(&net, each), net_node(&net, each)->strategy, 0, 2, &layout);
    layout_print(&text, &layout, false);
    layout_print(&text, net.graph.inputs.at[0].layout, true);
    cr_expect_str_eq(text.at, "[4@1 | - -][4@1 | - -][- -][4@1 | - -]");
    text_finish(&text);
    net_finish(&net);
}

Test(propagate, a_thousand_layers_agree_with_each_other) {
    static const int ranks[] = {8, 4096};
    for (int r = 0; r < 2; r++) {
        Net net;
        net_init(&net, ranks[r]);
        int at = net_input(&net, "x", 2, (int64_t[]){512, 512}), first = -1, second = -1, last = -1;
        for (int i = 0; i < 1000; i++) {
            char name[32];
            snprintf(name, sizeof name, "w%d", i);
            int w = net_parameter(&net, arena_copy(&net.arena, name, strlen(name)), 2, (int64_t[]){512, 512});
            last = net_op(&net, OP_matmul, at, w, "h");
            if (i == 0) first = last;
            if (i == 1) second = last;
            at = net_op(&net, OP_relu, last, -1, "a");
        }
        net_node(&net, first)->hint = net_hint(&net, ranks[r] == 8 ? "((2, 4), (4, 1))" : "((64, 64), (64, 1))");
        Propagation propagation;
        double begin = now_seconds();
        cr_assert(propagate(&net.graph, &propagation, &net.diags));
        fprintf(stderr, "1000 layers, %d ranks: propagate in %.1f ms\n", ranks[r], 1e3 * (now_seconds() - begin));
        expect_strategy(&net, last, net_strategy(&net, second));
        net_finish(&net);
    }
}

static const char *tuple_of(Net *net, const Node *node, const Strategy *strategy) {
    Text text = {0};
    strategy_print(&text, node, &net->graph, strategy);
    const char *copy = arena_copy(&net->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

Test(propagate, decisions_are_recorded_with_the_way_from_the_hint) {
    Quickstart q;
    Propagation propagation;
    quickstart_init(&q, 8, sizes, "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
    cr_assert(propagate_explained(&q.net.graph, &propagation, &q.net.diags));
    cr_assert_not_null(propagation.decision);
    const Graph *graph = &q.net.graph;
    int h = graph->values.at[q.h].node, a = graph->values.at[q.a].node, y = graph->values.at[q.y].node;
    const Decision *decision = propagation.decision;
    cr_expect(decision[h].hint == h && decision[h].from == -1 && decision[h].by == BY_NOTHING);
    cr_expect(decision[a].hint == h && decision[a].from == h);
    cr_expect(decision[y].hint == h && decision[y].from == a && decision[y].by == BY_BYTES);
    cr_expect_eq(decision[y].ncandidates, 10);
    cr_expect_eq(decision[y].nalternatives, MAX_ALTERNATIVES);
    const Node *node = &graph->nodes.at[y];
    cr_expect_str_eq(tuple_of(&q.net, node, decision[y].alternative[0].strategy), "((2, 4), (4, 1))");
    /* y: 3 terms of each half's 8 x 16 numbers are received, d_y is gathered again, w2's gradient is added up by pairs, twice its 256 numbers */
    cr_expect_eq(decision[y].alternative[0].bytes, (2 * 3 * 8 * 16 + 2 * 3 * 8 * 16 + 2 * 256) * 4);
    cr_expect_eq(decision[y].alternative[0].messages, 2);
    net_finish(&q.net);
}

/* Of every decision the alternatives are in the order of the keys, the first is the one taken, and what is said to have decided is the
 * first key in which the first two differ. */
Test(propagate, recorded_alternatives_are_in_order_and_decide_nothing) {
    static const char *const hints[] = {"((2, 4), (4, 1))", "((8, 1), (1, 1))", "((1, 8), (8, 1))", "((2, 2), (2, 2))", "((1, 1), (1, 1))"};
    static const int64_t others[][4] = {{16, 32, 16, 16}, {32, 64, 8, 4}, {24, 20, 12, 8}, {256, 1024, 512, 128}, {9, 11, 13, 10}};
    int by[BY_TUPLE + 1] = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (size_t k = 0; k < sizeof hints / sizeof *hints; k++)
            for (int second = 0; second < 2; second++) {
                Quickstart plain, q;
                Propagation propagation;
                quickstart_init(&plain, 8, others[i], second ? NULL : hints[k], second ? hints[k] : NULL, DATASET_AUTO);
                quickstart_init(&q, 8, others[i], second ? NULL : hints[k], second ? hints[k] : NULL, DATASET_AUTO);
                cr_assert(propagate(&plain.net.graph, &propagation, &plain.net.diags), "%s", net_diagnostics(&plain.net));
                cr_expect_null(propagation.decision);
                cr_assert(propagate_explained(&q.net.graph, &propagation, &q.net.diags));
                for (int n = 0; n < q.net.graph.nodes.n; n++) {
                    const Node *node = &q.net.graph.nodes.at[n], *same = &plain.net.graph.nodes.at[n];
                    const Decision *decision = &propagation.decision[n];
                    if (!node->strategy) continue;
                    cr_expect_str_eq(tuple_of(&q.net, node, node->strategy), tuple_of(&plain.net, same, same->strategy));
                    by[decision->by]++;
                    if (decision->by == BY_NOTHING) continue;
                    cr_expect_str_eq(tuple_of(&q.net, node, node->strategy), tuple_of(&q.net, node, decision->alternative[0].strategy));
                    for (int a = 0; a + 1 < decision->nalternatives; a++) {
                        const Alternative *x = &decision->alternative[a], *y = x + 1;
                        const int64_t x_cost = x->bytes + 1024 * x->messages, y_cost = y->bytes + 1024 * y->messages; /* 128 a rank */
                        DecidedBy key = x_cost != y_cost          ? BY_BYTES
                                        : x->flops != y->flops    ? BY_FLOPS
                                        : decision->by >= BY_SIDE ? decision->by
                                                                  : BY_TUPLE;
                        cr_expect_leq(x_cost, y_cost);
                        cr_expect(key != BY_FLOPS || x->flops < y->flops);
                        if (a == 0) cr_expect_eq(decision->by, key);
                    }
                    for (int at = n, steps = 0; at != decision->hint; at = propagation.decision[at].from, steps++)
                        cr_assert(at >= 0 && steps < q.net.graph.nodes.n, "the way does not lead to the hint");
                }
                net_finish(&plain.net);
                net_finish(&q.net);
            }
    for (int key = BY_BYTES; key <= BY_SIDE; key++)
        cr_expect_gt(by[key], 0, "no decision by key %d", key);
}

/* A split of the rows leaves the product whole and makes the sums of its columns partial: completing them is what it costs. */
Test(propagate, a_sum_that_one_result_owes_is_counted) {
    static const int64_t shape[] = {16, 8};
    Net net;
    Propagation propagation;
    net_init(&net, 4);
    int x = net_input(&net, "x", 2, shape), z = net_input(&net, "z", 2, shape);
    const int id = add_product_and_sum(&net.graph, x, z, "y");
    int a = net_op(&net, OP_relu, net.graph.nodes.at[id].out[0], -1, "a");
    net_op(&net, OP_square, net.graph.nodes.at[id].out[1], -1, "b");
    net_node(&net, a)->hint = net_hint(&net, "((4, 1))");
    cr_assert(propagate_explained(&net.graph, &propagation, &net.diags), "%s", net_diagnostics(&net));
    const Decision *decision = &propagation.decision[id];
    const Node *node = &net.graph.nodes.at[id];
    cr_expect_str_eq(tuple_of(&net, node, node->strategy), "((4, 1), (4, 1))");
    cr_expect_eq(decision->nalternatives, 3);
    for (int i = 0; i < decision->nalternatives; i++) {
        const Alternative *way = &decision->alternative[i];
        const int64_t ranks = strategy_split(way->strategy, 0);
        if (i == 0) cr_expect_eq(way->bytes, (ranks - 1) * 8 * 4);
        cr_expect_eq(i == 0, ranks == 4);
    }
    net_finish(&net);
}

Test(propagate, a_strategy_that_is_there_stays_and_is_followed) {
    Quickstart q, hinted;
    quickstart(&hinted, "((2, 4), (4, 1))", NULL, DATASET_DATA_PARALLEL);
    quickstart_init(&q, 8, sizes, NULL, NULL, DATASET_DATA_PARALLEL);
    Node *h = (Node *)net_node(&q.net, q.h);
    h->strategy = net_node(&hinted.net, hinted.h)->strategy;
    h->from = STRATEGY_PROPAGATED;
    Propagation propagation;
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags), "%s", net_diagnostics(&q.net));
    expect_strategy(&q.net, q.h, "((2, 4), (4, 1))");
    expect_strategy(&q.net, q.a, "((2, 4))");
    expect_strategy(&q.net, q.y, "((2, 4), (4, 1))");
    cr_expect_eq(net_node(&q.net, q.h)->from, STRATEGY_PROPAGATED);
    cr_expect_eq(q.net.diags.items.n, 0);
    net_finish(&hinted.net);
    net_finish(&q.net);
}

/* A split row costs reductions, a number a row; rows that lie split already are worth them. */
Test(propagate, rows_are_split_where_that_saves_a_conversion) {
    static const char *const hints[] = {"((1, 1))", "((1, 4))"}, *const expected[] = {"((4, 1))", "((1, 4))"};
    for (int i = 0; i < 2; i++) {
        Net net;
        net_init(&net, 4);
        int x = net_input(&net, "x", 2, (int64_t[]){8, 64});
        int a = net_op(&net, OP_relu, x, -1, "a"), y = net_op(&net, OP_softmax, a, -1, "y");
        net_node(&net, a)->hint = net_hint(&net, hints[i]);
        Propagation propagation;
        cr_assert(propagate_explained(&net.graph, &propagation, &net.diags));
        expect_strategy(&net, y, expected[i]);
        const Decision *decision = &propagation.decision[net.graph.values.at[y].node];
        /* two AllReduces of the rows that the ranks share: 2 (r - 1) elements of every one are received */
        const int64_t ranks = strategy_split(decision->alternative[0].strategy, 1);
        cr_expect_eq(decision->alternative[0].bytes, 2 * 2 * (ranks - 1) * 8 * 4);
        cr_expect_eq(decision->alternative[0].messages, i == 0 ? 0 : 2);
        cr_expect_eq(decision->by, BY_BYTES);
        net_finish(&net);
    }
}

/* What is joined or cut along an axis that is split costs what each rank lacks of its part. Of 16 and 16 elements on 4 ranks those that have nothing of them lack nothing, the
 * others 4 and 8. Each third of 48 is an exchange of its own, in which the busiest receives 4. */
Test(propagate, what_is_joined_or_cut_along_a_split_axis_is_exchanged) {
    static const Attr parts[MAX_ATTRS] = {{.given = true, .i = 3}};
    for (int cuts = 0; cuts < 2; cuts++) {
        Net net;
        net_init(&net, 4);
        int in[2];
        for (int i = 0; i < 2; i++) {
            in[i] = net_op(&net, OP_relu, net_input(&net, i ? "z" : "x", 1, (int64_t[]){cuts ? 48 : 16}), -1, i ? "b" : "a");
            net_node(&net, in[i])->hint = net_hint(&net, "((4))");
        }
        const int y = cuts ? net_op_attr(&net, OP_split, in[0], parts, "y") : net_op(&net, OP_concat, in[0], in[1], "y");
        Propagation propagation;
        cr_assert(propagate_explained(&net.graph, &propagation, &net.diags));
        expect_strategy(&net, y, cuts ? "((4))" : "((4), (4))");
        const Alternative *taken = propagation.decision[net.graph.values.at[y].node].alternative;
        cr_expect_eq(taken->bytes, cuts ? 3 * 4 * 4 * 4 : 2 * (4 + 8) * 4, "%lld", (long long)taken->bytes);
        cr_expect_eq(taken->messages, cuts ? 3 : 2);
        net_finish(&net);
    }
}

/* How the second product of the quick start takes its operands, with the axes of the mesh in one order or the other. */
static const char *second_on_mesh(bool swapped, Arena *arena) {
    Quickstart q;
    Propagation propagation;
    quickstart_init(&q, 8, (int64_t[]){16384, 1024, 4096, 1024}, "((dp, -), (-, tp))", NULL, DATASET_AUTO);
    vec_push(&q.net.arena, &q.net.graph.settings.mesh, (Axis){.name = "dp", .size = 2, .digit = {2, swapped ? 1 : 4}});
    vec_push(&q.net.arena, &q.net.graph.settings.mesh, (Axis){.name = "tp", .size = 4, .digit = {4, swapped ? 2 : 1}});
    cr_assert(propagate(&q.net.graph, &propagation, &q.net.diags), "%s", net_diagnostics(&q.net));
    const Node *node = net_node(&q.net, q.y);
    Text text = {0};
    for (int i = 0; i < 2; i++) {
        Layout layout;
        strategy_in_layout(node, node->strategy, i, 2, &layout);
        layout_print(&text, &layout, false);
    }
    const char *copy = arena_copy(arena, text.at, text.n);
    text_finish(&text);
    net_finish(&q.net);
    return copy;
}

Test(propagate, a_mesh_may_have_its_axes_in_any_order) {
    Arena arena;
    arena_init(&arena);
    cr_expect_str_eq(second_on_mesh(false, &arena), "[2@4 4@1][4@1 -]");
    cr_expect_str_eq(second_on_mesh(true, &arena), "[2@1 4@2][4@2 -]");
    arena_finish(&arena);
}
