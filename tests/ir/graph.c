#include "ir/graph.h"
#include "ir/rules.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/two_results.h"

static Arena arena;
static Graph graph;
static const Span nowhere;

static void start(void) {
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph.nranks = 8;
}
static void stop(void) {
    arena_finish(&arena);
}
TestSuite(graph, .init = start, .fini = stop);

static int input(const char *name, int64_t rows, int64_t columns) {
    Input in = {.name = name, .type = {.dtype = F32, .shape = {2, {rows, columns}}}};
    return graph_input(&graph, graph_add_input(&graph, in));
}

static Node *producer(int value) {
    return &graph.nodes.at[graph.values.at[value].node];
}

static void expect_layout(const Layout *layout, const char *want) {
    Text text = {0};
    layout_print(&text, layout, false);
    cr_assert_str_eq(text.at, want);
    text_finish(&text);
}

Test(graph, a_node_has_its_rule_and_makes_its_values) {
    int in[2] = {input("x", 8, 6), input("w", 6, 4)};
    RuleError error;
    int id = graph_add(&graph, OP_matmul, in, 2, NULL, "h", nowhere, &error);
    const Node *node = &graph.nodes.at[id];
    cr_assert_eq(id, 2);
    cr_assert_eq(node->origin, id);
    cr_assert_eq(node->rule->nfactors, 3);
    const Value *h = &graph.values.at[node->out[0]];
    cr_assert(h->node == id && h->index == 0 && h->layout == NULL);
    cr_assert_str_eq(h->name, "h");
    cr_assert_eq(h->type.shape.dim[1], 4);
    for (int f = 0; f < 3; f++)
        cr_assert_eq(node->origin_factor[f], f);
}

Test(graph, operands_that_do_not_fit_add_nothing) {
    int in[2] = {input("x", 8, 6), input("w", 5, 4)};
    RuleError error;
    int nodes = graph.nodes.n, values = graph.values.n;
    cr_assert_eq(graph_add(&graph, OP_matmul, in, 2, NULL, "h", nowhere, &error), -1);
    cr_assert(strstr(error.text, "contracted sizes differ"));
    cr_assert(graph.nodes.n == nodes && graph.values.n == values);
}

static const char *name_given(int x, const char *wanted) {
    int value = graph_emit(&graph, OP_neg, &x, 1, NULL, wanted, nowhere);
    return graph.values.at[value].name;
}

Test(graph, names_of_values_are_unique) {
    int x = input("x", 2, 2);
    cr_assert_str_eq(name_given(x, "x"), "x_2");
    cr_assert_str_eq(name_given(x, "x_3"), "x_3");
    cr_assert_str_eq(name_given(x, "x"), "x_4");
    cr_assert_str_eq(name_given(x, NULL), "neg");
    for (int i = 2; i < 500; i++) {
        char want[16];
        snprintf(want, sizeof want, "neg_%d", i);
        cr_assert_str_eq(name_given(x, NULL), want);
    }
}

Test(graph, the_second_result_is_named_after_the_first) {
    int in[3] = {input("w", 2, 2), input("v", 2, 2), input("g", 2, 2)};
    Attr attr[MAX_ATTRS] = {{.given = true}, {.given = true}};
    const Node *node = producer(graph_emit(&graph, OP_momentum, in, 3, attr, "w.new", nowhere));
    cr_assert_eq(node->nout, 2);
    cr_assert_str_eq(graph.values.at[node->out[1]].name, "w.new.1");
    cr_assert_eq(graph.values.at[node->out[1]].index, 1);
}

Test(graph, leaves_know_their_state_input_or_data) {
    State state = {.name = "w", .type = {.dtype = F64, .shape = {1, {6}}}, .trainable = true};
    cr_assert_eq(graph_add_state(&graph, state), 0);
    State slot = {.name = "w.momentum", .type = state.type, .parameter = 0};
    int slot_id = graph_add_state(&graph, slot);
    cr_assert_eq(graph.states.at[0].parameter, 0);
    cr_assert_eq(graph.states.at[slot_id].parameter, 0);
    int w = graph_read_state(&graph, 0, 1, NULL, nowhere);
    cr_assert(producer(w)->op == OP_read && producer(w)->state == 0 && producer(w)->version == 1);
    cr_assert_str_eq(graph.values.at[w].name, "w");
    int write = graph_write_state(&graph, 0, w, nowhere);
    cr_assert(graph.nodes.at[write].op == OP_write && graph.nodes.at[write].state == 0 && graph.nodes.at[write].in[0] == w);
    int c = graph_constant(&graph, state.type, NULL, 2.5, "c", nowhere);
    cr_assert(producer(c)->attr[0].given && producer(c)->attr[0].f == 2.5 && producer(c)->data == NULL);
    static const double data[6] = {1, 2, 3, 4, 5, 6};
    c = graph_constant(&graph, state.type, data, 0, "c", nowhere);
    cr_assert(!producer(c)->attr[0].given && producer(c)->data == data);
    cr_assert_eq(producer(input("x", 2, 3))->state, 0);
}

Test(graph, only_the_attributes_of_the_row_are_kept) {
    int x = input("x", 2, 3);
    Attr attr[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {1}}, {.given = true, .i = 1}, {.given = true, .i = 9}};
    const Node *node = producer(graph_emit(&graph, OP_sum, &x, 1, attr, "s", nowhere));
    cr_assert(node->attr[0].n == 1 && node->attr[1].i == 1 && !node->attr[2].given);
}

Test(graph, a_gradient_nodes_factors_are_its_origins) {
    int in[2] = {input("x", 8, 6), input("w", 6, 4)};
    int h = graph_emit(&graph, OP_matmul, in, 2, NULL, "h", nowhere), forward = graph.values.at[h].node;
    int dh = input("dh", 8, 4);
    Attr attr[MAX_ATTRS] = {{.given = true, .text = "pq,pr->qr"}};
    int dw = graph_emit_gradient(&graph, forward, OP_einsum, (int[]){in[0], dh}, (int[]){0, PART_OUT}, 2, 1, attr, "dw");
    const Node *node = producer(dw);
    cr_assert_eq(node->origin, forward);
    cr_assert(node->origin_factor[0] == 0 && node->origin_factor[1] == 1 && node->origin_factor[2] == 2); /* p = m, q = k, r = n */

    Strategy strategy = {.nfactors = 3, .start = {0, 1, 2, 2}, .digit = {{2, 4}, {4, 1}}}, own;
    strategy_from_origin(node, &strategy, &own);
    Layout layout;
    strategy_in_layout(node, &own, 0, 2, &layout);
    expect_layout(&layout, "[2@4 4@1]");
    strategy_out_layout(node, &own, 0, 2, &layout); /* partial over the split batch */
    expect_layout(&layout, "[4@1 -] +sum(2@4)");
}

Test(graph, parts_that_are_none_leave_factors_whole) {
    int x = input("x", 8, 6);
    int y = graph_emit(&graph, OP_neg, &x, 1, NULL, "y", nowhere);
    int other = input("other", 3, 5);
    int g = graph_emit_gradient(&graph, graph.values.at[y].node, OP_neg, &other, (int[]){PART_NONE}, 1, PART_NONE, NULL, "g");
    Strategy strategy = {.nfactors = 2, .start = {0, 1, 2}, .digit = {{2, 4}, {4, 1}}}, own;
    strategy_from_origin(producer(g), &strategy, &own);
    cr_assert(own.nfactors == 2 && strategy_count(&own, 0) == 0 && strategy_count(&own, 1) == 0);
}

Test(graph, a_strategys_layouts_are_the_digits_of_the_factors_on_the_dimensions) {
    int in[2] = {input("x", 16, 32), input("w", 32, 16)};
    const Node *node = producer(graph_emit(&graph, OP_matmul, in, 2, NULL, "h", nowhere));
    Strategy strategy = {.nfactors = 3, .start = {0, 1, 3, 3}, .digit = {{2, 4}, {2, 1}, {2, 2}}};
    Layout layout;
    strategy_in_layout(node, &strategy, 0, 2, &layout);
    expect_layout(&layout, "[2@4 2@1.2@2]");
    strategy_in_layout(node, &strategy, 1, 2, &layout);
    expect_layout(&layout, "[2@1.2@2 -]");
    strategy_out_layout(node, &strategy, 0, 2, &layout);
    expect_layout(&layout, "[2@4 -] +sum(2@2.2@1)"); /* owed digits by descending stride */
}

Test(graph, each_result_is_partial_over_the_factors_that_it_lacks) {
    const int id = add_product_and_sum(&graph, input("x", 8, 6), input("z", 8, 6), "y");
    const Node *node = &graph.nodes.at[id];
    Strategy strategy = {.nfactors = 2, .start = {0, 1, 2}, .digit = {{4, 2}, {2, 1}}};
    Layout layout;
    for (int f = 3; f <= MAX_FACTORS; f++)
        strategy.start[f] = 2;
    strategy_out_layout(node, &strategy, 0, 2, &layout);
    expect_layout(&layout, "[4@2 2@1]");
    strategy_out_layout(node, &strategy, 1, 1, &layout);
    expect_layout(&layout, "[2@1] +sum(4@2)");
    cr_assert(rule_sums(node->rule, 0) && !rule_sums(node->rule, 1));
    cr_assert(rule_out_has(node->rule, 0, 0) && !rule_out_has(node->rule, 1, 0));
}

Test(graph, broadcast_dimensions_are_whole) {
    int in[2] = {input("x", 8, 6), input("b", 8, 1)};
    const Node *node = producer(graph_emit(&graph, OP_add, in, 2, NULL, "y", nowhere));
    Strategy strategy = {.nfactors = 2, .start = {0, 1, 2}, .digit = {{2, 4}, {4, 1}}};
    Layout layout;
    strategy_in_layout(node, &strategy, 1, 2, &layout);
    expect_layout(&layout, "[2@4 -]");
}

Test(graph, equal_layouts_are_one_pointer_and_have_a_number) {
    Shape shape = {2, {1 << 12, 1 << 12}};
    const Layout *first[200];
    int n = 0;
    for (int round = 0; round < 2; round++) {
        n = 0;
        for (int i = 0; i < 12; i++)
            for (int j = 0; j < 12; j++) {
                Layout layout;
                layout_init(&layout, 2);
                layout_append(&layout, 0, (Digit){2, 1 << i});
                layout_append(&layout, 1, (Digit){3, 1 << (12 + j)});
                const Layout *kept = graph_layout(&graph, &layout, &shape);
                if (round == 0) first[n] = kept;
                cr_assert_eq(kept, first[n]);
                cr_assert_eq(graph_layout_number(&graph, kept), n);
                n++;
            }
    }
    cr_assert_eq(graph.layouts->n, n);
    Layout unknown;
    layout_init(&unknown, 3);
    cr_assert_eq(graph_layout_number(&graph, &unknown), -1);
}

Test(graph, layouts_are_interned_in_canonical_form) {
    Layout split, merged;
    layout_init(&split, 1);
    layout_append(&split, 0, (Digit){2, 4});
    layout_append(&split, 0, (Digit){4, 1});
    layout_init(&merged, 1);
    layout_append(&merged, 0, (Digit){8, 1});
    Shape shape = {1, {16}};
    cr_assert_eq(graph_layout(&graph, &split, &shape), graph_layout(&graph, &merged, &shape));
}

Test(graph, uses_count_operands_and_the_loss) {
    int x = input("x", 2, 2), y = graph_emit(&graph, OP_mul, (int[]){x, x}, 2, NULL, "y", nowhere);
    graph.loss = y;
    int *uses = graph_uses(&graph, &arena);
    cr_assert(uses[x] == 2 && uses[y] == 1);
}

Test(graph, nodes_alike_share_rule_and_attributes) {
    int x = input("x", 8, 6), y = input("y", 8, 6), z = input("z", 6, 8);
    Attr first[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {0}}}, second[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {1}}};
    const Node *a = producer(graph_emit(&graph, OP_sum, &x, 1, first, "a", nowhere));
    const Rule *rule = a->rule;
    const Attr *attr = a->attr;
    const Node *b = producer(graph_emit(&graph, OP_sum, &y, 1, first, "b", nowhere));
    cr_expect(b->rule == rule && b->attr == attr);
    cr_expect_neq(producer(graph_emit(&graph, OP_sum, &x, 1, second, "c", nowhere))->rule, rule);
    cr_expect_neq(producer(graph_emit(&graph, OP_sum, &z, 1, first, "d", nowhere))->rule, rule);
}
