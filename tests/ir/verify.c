/* Each test breaks one thing in a graph that verifies. */
#include "ir/rules.h"

#include <criterion/criterion.h>
#include <string.h>
#include "tests/attrs.h"

static Arena arena;
static Graph graph;
static const Span nowhere;
static int x, w, h, g, updated, write_node; /* values; node of the write */

static void start(void) {
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph.nranks = 8;
    Input in = {.name = "x", .type = {.dtype = F32, .shape = {2, {8, 6}}}};
    State state = {.name = "w", .type = {.dtype = F32, .shape = {2, {6, 4}}}, .trainable = true};
    x = graph_input(&graph, graph_add_input(&graph, in));
    w = graph_read_state(&graph, graph_add_state(&graph, state), 0, NULL, nowhere);
    h = graph_emit(&graph, OP_matmul, (int[]){x, w}, 2, NULL, "h", nowhere);
    graph.loss = graph_emit(&graph, OP_mean, &h, 1, NULL, "loss", nowhere);
    graph.nforward = graph.nodes.n;
    int dh = graph_constant(&graph, graph.values.at[h].type, NULL, 1, "h.grad", nowhere), dx[MAX_IN];
    op_table[OP_matmul].adjoint(&graph, graph.values.at[h].node, &dh, dx);
    g = dx[1];
    Attr lr[MAX_ATTRS] = {{.given = true, .f = 0.1}};
    updated = graph_emit(&graph, OP_sgd, (int[]){w, g}, 2, lr, "w.sgd", nowhere);
    write_node = graph_write_state(&graph, 0, updated, nowhere);
}
static void stop(void) {
    arena_finish(&arena);
}
TestSuite(verify, .init = start, .fini = stop);

static Node *producer(int value) {
    return &graph.nodes.at[graph.values.at[value].node];
}

static void expect_good(void) {
    Error error = {0};
    cr_assert(graph_verify(&graph, "test", &error), "%s", error.text);
}

static void expect_wrong(const char *why) {
    Error error = {0};
    cr_assert_not(graph_verify(&graph, "test", &error), "verified, although: %s", why);
    cr_assert(strstr(error.text, why), "%s", error.text);
    cr_assert(strstr(error.text, "after test"), "%s", error.text);
    cr_assert_eq(error.code, EXIT_INTERNAL);
}

static Layout layout_of(int ndim, int list, Digit digit) {
    Layout layout;
    layout_init(&layout, ndim);
    layout_append(&layout, list, digit);
    return layout;
}

Test(verify, a_graph_as_built_is_good) {
    expect_good();
}

Test(verify, operands_come_before_their_users) {
    producer(h)->in[0] = updated;
    expect_wrong("made later");
}

Test(verify, operands_exist) {
    producer(h)->in[1] = 1000;
    expect_wrong("operand 1 is value 1000");
}

Test(verify, results_are_their_nodes_own) {
    graph.values.at[h].node = graph.values.at[x].node;
    expect_wrong("result 0 (h) belongs to node 0");
}

Test(verify, results_exist) {
    producer(h)->out[0] = -1;
    expect_wrong("result 0 is value -1");
}

Test(verify, nodes_have_an_operator_a_name_and_a_rule) {
    Node *node = producer(h), saved = *node;
    node->op = NOPS;
    expect_wrong("no such operator");
    *node = saved;
    node->name = NULL;
    expect_wrong("no name or no rule");
    *node = saved;
    node->rule = NULL;
    expect_wrong("no name or no rule");
}

Test(verify, every_value_is_a_nodes) {
    Value stray = {.name = "stray"};
    vec_push(&arena, &graph.values, stray);
    expect_wrong("values, of which nodes make");
}

Test(verify, operators_have_their_number_of_operands) {
    producer(h)->nin = 1;
    expect_wrong("1 operands");
}

Test(verify, rules_are_those_of_the_attributes) {
    Rule square = {0};
    own_attrs(&graph, producer(h))[0] = (Attr){.given = true, .i = 1};
    expect_wrong("the rule rejects it: contracted sizes differ");
    own_attrs(&graph, producer(h))[0].i = 0;
    square = *producer(h)->rule;
    square.factor[1].size = 7;
    producer(h)->rule = &square;
    expect_wrong("its rule is not the one of its operands");
}

Test(verify, types_are_those_of_the_rules) {
    graph.values.at[h].type.shape.dim[0] = 9;
    expect_wrong("result h has another type");
}

Test(verify, leaves_have_sane_types) {
    graph.values.at[x].type.shape.dim[0] = 0;
    expect_wrong("no such type");
}

Test(verify, gradient_factors_are_of_their_origins) {
    producer(g)->origin_factor[0] = 5;
    expect_wrong("factor 5 of 3");
    producer(g)->origin = 99;
    expect_wrong("origin is node 99");
    producer(g)->origin = write_node;
    graph.nodes.at[write_node].rule = NULL;
    expect_wrong("has no rule");
}

Test(verify, strategies_are_for_the_rules_factors) {
    Strategy strategy = {.nfactors = 2};
    producer(h)->strategy = &strategy;
    expect_wrong("a strategy for 2 factors, the rule has 3");
    strategy.nfactors = 3;
    expect_good();
}

Test(verify, digits_of_a_strategy_can_stand_together) {
    Strategy strategy = {.nfactors = 3, .start = {0, 1, 2, 2}, .digit = {{2, 4}, {4, 1}}};
    producer(h)->strategy = &strategy;
    expect_good();
    strategy.digit[1] = (Digit){4, 2};
    expect_wrong("the strategy: ");
    strategy.digit[1] = (Digit){3, 1};
    expect_wrong("the strategy: ");
}

Test(verify, reshape_is_split_evenly) {
    Attr shape[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {12, 4}}};
    int y = graph_emit(&graph, OP_reshape, &x, 1, shape, "y", nowhere); /* [8, 6] -> [12, 4]: factor 4 */
    Strategy strategy = {.nfactors = 1, .start = {0, 1}, .digit = {{4, 1}}};
    producer(y)->strategy = &strategy;
    expect_good();
    strategy.digit[0] = (Digit){8, 1};
    expect_wrong("splits factor 0 unevenly");
}

Test(verify, kernels_of_rows_have_whole_rows) {
    int y = graph_emit(&graph, OP_softmax, &x, 1, NULL, "y", nowhere);
    Strategy strategy = {.nfactors = 2, .start = {0, 0, 1}, .digit = {{2, 1}}};
    Layout layout = layout_of(2, 1, (Digit){2, 1});
    producer(y)->strategy = &strategy;
    expect_good(); /* it can still be expanded */
    graph.values.at[y].layout = graph_layout(&graph, &layout, &graph.values.at[y].type.shape);
    expect_wrong("the strategy splits factor 1, which its kernel needs whole");
    strategy = (Strategy){.nfactors = 2, .start = {0, 1, 1}, .digit = {{2, 1}}};
    expect_good();
}

Test(verify, layouts_are_the_graphs_and_fit_their_tensors) {
    Layout layout = layout_of(2, 0, (Digit){8, 1}), other = layout;
    graph.values.at[h].layout = graph_layout(&graph, &layout, &graph.values.at[h].type.shape);
    expect_good();
    graph.states.at[0].layout = &other;
    expect_wrong("the layout of state w is not one of the graph's");
    graph.states.at[0].layout = NULL;
    graph.values.at[graph.loss].layout = graph.values.at[h].layout;
    expect_wrong("the layout of value loss has 2 dimensions, the tensor 0");
}

Test(verify, layouts_are_valid_for_the_number_of_ranks) {
    Layout layout = layout_of(2, 0, (Digit){3, 1});
    graph.values.at[h].layout = graph_layout(&graph, &layout, &graph.values.at[h].type.shape);
    expect_wrong("the layout of value h: a digit does not divide");
}

Test(verify, conversions_have_layouts_and_owe_nothing_new) {
    int c = graph_emit(&graph, OP_convert, &h, 1, NULL, "h.whole", nowhere);
    expect_wrong("a conversion without layouts");
    const Shape *shape = &graph.values.at[h].type.shape;
    Layout partial = layout_of(2, 2 + REDUCE_SUM, (Digit){8, 1}), less = layout_of(2, 2 + REDUCE_SUM, (Digit){2, 1}), whole;
    layout_init(&whole, 2);
    graph.values.at[h].layout = graph_layout(&graph, &partial, shape);
    graph.values.at[c].layout = graph_layout(&graph, &whole, shape);
    expect_good();
    graph.values.at[c].layout = graph_layout(&graph, &less, shape);
    expect_good();
    producer(c)->comm = NCOMMS;
    expect_wrong("no such communication");
    producer(c)->comm = COMM_EXCHANGE;
    graph.values.at[h].layout = graph_layout(&graph, &whole, shape);
    expect_wrong("the result is partial over digits that the operand is not");
    graph.values.at[h].layout = graph_layout(&graph, &less, shape);
    graph.values.at[c].layout = graph_layout(&graph, &partial, shape);
    expect_wrong("the result is partial over digits that the operand is not");
}

Test(verify, states_are_written_once_with_their_type) {
    graph_write_state(&graph, 0, updated, nowhere);
    expect_wrong("a second write of w");
    graph.states.at[0].type.dtype = F64;
    expect_wrong("another type than state w");
}

Test(verify, reads_are_of_the_version_of_their_place) {
    int later = graph_read_state(&graph, 0, 1, NULL, nowhere);
    expect_good();
    producer(later)->version = 0;
    expect_wrong("reads version 0 of w after its write");
    producer(later)->version = 1;
    producer(w)->version = 1;
    expect_wrong("reads version 1 of w before its write");
}

Test(verify, inputs_and_states_exist) {
    producer(x)->state = 3;
    expect_wrong("no input 3");
    producer(x)->state = 0;
    graph.inputs.at[0].type.dtype = F64;
    expect_wrong("another type than input x");
    graph.inputs.at[0].type.dtype = F32;
    graph.nodes.at[write_node].state = -1;
    expect_wrong("no state -1");
}

Test(verify, the_loss_is_a_scalar) {
    graph.loss = h;
    expect_wrong("the loss h is not a scalar");
    graph.loss = 1000;
    expect_wrong("the loss is value 1000");
    graph.loss = -1;
    expect_good();
}

Test(verify, a_hidden_loss_is_a_scalar_a_replica) {
    Attr replicas[MAX_ATTRS] = {{.given = true, .i = 8}};
    graph.loss = graph_emit(&graph, OP_replicate, &graph.loss, 1, replicas, "losses", nowhere);
    expect_good();
}

Test(verify, forward_nodes_are_some_of_the_nodes) {
    graph.nforward = graph.nodes.n + 1;
    expect_wrong("forward nodes of");
}
