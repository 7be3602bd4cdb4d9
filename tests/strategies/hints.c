#include <criterion/criterion.h>
#include <string.h>

#include "strategies/strategies.h"
#include "tests/strategies/nets.h"

/* y = matmul(x: [16, 32], w: [32, 6]) on 8 ranks, with the mesh dp = 2, tp = 4. */
static Node *matmul_net(Net *net) {
    net_init(net, 8);
    int x = net_input(net, "x", 2, (int64_t[]){16, 32}), w = net_parameter(net, "w", 2, (int64_t[]){32, 6});
    int y = net_op(net, OP_matmul, x, w, "y");
    vec_push(&net->arena, &net->graph.settings.mesh, (Axis){.name = "dp", .size = 2, .digit = {2, 4}});
    vec_push(&net->arena, &net->graph.settings.mesh, (Axis){.name = "tp", .size = 4, .digit = {4, 1}});
    return net_node(net, y);
}

static void expect_error(const char *hint, const char *message, const char *place, const char *help, bool strict) {
    Net net;
    Node *node = matmul_net(&net);
    Strategy strategy;
    bool good = strategy_from_hint(&net.graph, node, net_hint(&net, hint), strict, &strategy, &net.diags);
    const char *text = net_diagnostics(&net);
    cr_expect(!good, "%s is accepted", hint);
    cr_expect(strstr(text, message) != NULL, "%s: no '%s' in\n%s", hint, message, text);
    cr_expect(strstr(text, place) != NULL, "%s: not at %s:\n%s", hint, place, text);
    cr_expect(strstr(text, help) != NULL, "%s: no '%s' in\n%s", hint, help, text);
    net_finish(&net);
}

Test(hints, number_of_tuples) {
    expect_error("((2, 4))", "matmul takes 2 operands (a, b), the strategy has 1 tuple", "net.dsl:1:1:", "would be one", false);
    expect_error("((2, 4), (4, 1), (1, 1))", "the strategy has 3 tuples", "net.dsl:1:1:", "would be one", false);
}

Test(hints, number_of_dimensions) {
    expect_error("((2, 4, 1), (4, 1))", "x is f32[16, 32], with 2 dimensions; its tuple has 3", "net.dsl:1:2:", "(1, 1) leaves it whole",
                 false);
}

Test(hints, values) {
    expect_error("((0, 4), (4, 1))", "dimension 0 of x is split 0 ways; the least is 1", "net.dsl:1:3:", "legal here: 1, 2, 4, 8", false);
    expect_error("((-2, 4), (4, 1))", "split -2 ways", "net.dsl:1:3:", "legal here: 1, 2, 4, 8", false);
    expect_error("((1, 1), (1, 8))", "dimension 1 of w has 6 elements, it cannot be split 8 ways", "net.dsl:1:14:", "legal here: 1, 2, 4",
                 false);
}

Test(hints, product_over_the_ranks) {
    expect_error("((4, 4), (4, 1))", "the strategy needs 16 ranks, there are 8",
                 "net.dsl:1:1:", "((2, 4), (4, 1)) would be one for 8 ranks", false);
    expect_error("((3, 1), (1, 1))", "needs 3 ranks, which does not divide 8", "net.dsl:1:1:", "would be one for 8 ranks", false);
    expect_error("((16, 32), (32, 6))", "needs 3072 ranks", "net.dsl:1:1:", "would be one for 8 ranks", false);
}

Test(hints, one_index_split_differently) {
    expect_error("((2, 4), (2, 1))", "matmul: x is split 4 along k, w 2", "net.dsl:1:11:", "net.dsl:1:6: note: x is split here", false);
    expect_error("((2, 4), (2, 1))", "matmul: x is split 4 along k, w 2",
                 "net.dsl:1:11:", "hint: both must be split alike\n    hint: ((2, 4), (4, 1)) would be one for 8 ranks", false);
    /* What is offered fits the ranks: 4 and 8 alike would need 16. */
    expect_error("((4, 2), (8, 1))", "matmul: x is split 2 along k, w 8", "net.dsl:1:11:", "((4, 2), (2, 1)) would be one for 8 ranks",
                 false);
}

Test(hints, strict_divide) {
    expect_error("((1, 1), (1, 4))", "dimension 1 of w has 6 elements, which 4 does not divide", "net.dsl:1:14:", "legal here: 1, 2", true);
    Net net;
    Node *node = matmul_net(&net);
    Strategy strategy;
    cr_expect(strategy_from_hint(&net.graph, node, net_hint(&net, "((1, 1), (1, 4))"), false, &strategy, &net.diags));
    cr_expect(
        strstr(
            net_diagnostics(&net),
            "warning: matmul: 4 does not divide 6: the largest part is 2, the smallest 1 (the busiest rank has 33 % over the average) [-Wuneven]") !=
            NULL,
        "%s", net_diagnostics(&net));
    net_finish(&net);
}

Test(hints, axes) {
    expect_error("((dp, tpx), (tp, -))", "the mesh has no axis tpx", "net.dsl:1:7:", "did you mean tp?", false);
    expect_error("((dp, model), (tp, -))", "the mesh has no axis model", "net.dsl:1:7:", "its axes are dp, tp", false);
    expect_error("((dp, dp), (-, -))", "axis dp is used twice in one tensor", "net.dsl:1:7:", "- leaves a dimension whole", false);
    expect_error("((dp, tp), (tp, dp))", "axis dp splits two different indices of matmul", "net.dsl:1:17:", "net.dsl:1:3: note", false);
    expect_error("((dp, tp), (-, -))", "matmul: x is split 4 along k, w 1", "net.dsl:1:13:", "x is split here", false);
    expect_error("((dp, tp), (dp, -))", "x is split 4 along k, w 2", "net.dsl:1:13:", "x is split here", false);
    expect_error("((-, -), (-, dp.tp))", "dimension 1 of w has 6 elements, it cannot be split 8 ways",
                 "net.dsl:1:14:", "multiply to one of 1, 2, 4", false);
}

Test(hints, axes_give_their_digits_whatever_the_order) {
    Net net;
    Node *node = matmul_net(&net);
    Strategy strategy;
    cr_assert(strategy_from_hint(&net.graph, node, net_hint(&net, "((tp, dp), (dp, -))"), true, &strategy, &net.diags), "%s",
              net_diagnostics(&net));
    Layout layout;
    Text text = {0};
    strategy_in_layout(node, &strategy, 0, 2, &layout);
    layout_print(&text, &layout, false);
    cr_expect_str_eq(text.at, "[4@1 2@4]");
    text_finish(&text);
    net_finish(&net);
}

Test(hints, leaves_take_no_strategy) {
    Net net;
    matmul_net(&net);
    Strategy strategy;
    cr_expect(!strategy_from_hint(&net.graph, &net.graph.nodes.at[0], net_hint(&net, "((1, 1))"), false, &strategy, &net.diags));
    cr_expect(strstr(net_diagnostics(&net), "only operators, inputs and parameters take a strategy") != NULL);
    net_finish(&net);
}

Test(hints, a_dimension_of_one_element_stays_whole) {
    Net net;
    net_init(&net, 8);
    int x = net_input(&net, "x", 2, (int64_t[]){8, 6}), b = net_parameter(&net, "b", 2, (int64_t[]){8, 1});
    Node *node = net_node(&net, net_op(&net, OP_add, x, b, "y"));
    Strategy strategy;
    cr_expect(strategy_from_hint(&net.graph, node, net_hint(&net, "((4, 2), (4, 1))"), false, &strategy, &net.diags), "%s",
              net_diagnostics(&net));
    cr_expect(!strategy_from_hint(&net.graph, node, net_hint(&net, "((4, 2), (4, 2))"), false, &strategy, &net.diags));
    cr_expect(strstr(net_diagnostics(&net), "dimension 1 of b has 1 element, it cannot be split 2 ways") != NULL, "%s",
              net_diagnostics(&net));
    net_finish(&net);
}

Test(hints, what_is_cut_is_split_into_its_elements_at_most) {
    Net net;
    net_init(&net, 8);
    const Attr cut[MAX_ATTRS] = {
        {.given = true, .n = 2, .ints = {0, 2}}, {.given = true, .n = 2, .ints = {8, 5}}, {.given = true, .n = 2, .ints = {8, 9}}};
    const int x = net_input(&net, "x", 2, (int64_t[]){8, 6}), y = net_op_attr(&net, OP_slice, x, cut, "y");
    Node *slice = net_node(&net, y), *pad = net_node(&net, net_op_attr(&net, OP_slice_grad, y, cut, "p"));
    Strategy strategy;
    cr_expect(strategy_from_hint(&net.graph, slice, net_hint(&net, "((4, 2))"), false, &strategy, &net.diags));
    cr_expect_not(strategy_from_hint(&net.graph, slice, net_hint(&net, "((1, 4))"), false, &strategy, &net.diags));
    cr_expect_not(strategy_from_hint(&net.graph, pad, net_hint(&net, "((1, 8))"), false, &strategy, &net.diags));
    const char *text = net_diagnostics(&net);
    cr_expect(strstr(text, "slice: what is cut out of dimension 1 of x has 3 elements, it cannot be split 4 ways") != NULL, "%s", text);
    cr_expect(strstr(text, "p: dimension 1 of y has 3 elements, it cannot be split 8 ways") != NULL, "%s", text);
    net_finish(&net);
}

static void expect_layout(const char *hint, bool first, const char *expected) {
    Net net;
    matmul_net(&net);
    const Hint *read = net_hint(&net, hint);
    TensorType type = {.dtype = F32, .shape = {.ndim = 2, .dim = {16, 8}}};
    Layout layout;
    bool good = layout_from_hint(&net.graph, &read->in[0], read->named, &type, "w", first, false, &layout, &net.diags);
    const char *said = net_diagnostics(&net);
    Text text = {0};
    if (good) layout_print(&text, &layout, false);
    cr_expect(good ? strcmp(text.at, expected) == 0 : strstr(said, expected) != NULL, "%s: %s%s", hint, good ? text.at : "", said);
    text_finish(&text);
    net_finish(&net);
}

Test(hints, tensors) {
    expect_layout("((2, 4))", false, "[2@4 4@1]");
    expect_layout("((2, 1))", false, "[2@4 -]");
    expect_layout("((2, 1))", true, "[2@1 -]");
    expect_layout("((2, 2))", true, "[2@2 2@1]");
    expect_layout("((tp, dp))", false, "[4@1 2@4]");
    expect_layout("((-, dp.tp))", false, "[- 2@4.4@1]");
    expect_layout("((2))", false, "w: it is f32[16, 8], with 2 dimensions; its tuple has 1");
    expect_layout("((1, 16))", false, "w: dimension 1 has 8 elements, it cannot be split 16 ways");
    expect_layout("((4, 4))", false, "w: the layout needs 16 ranks, there are 8");
    expect_layout("((3, 1))", false, "w: the layout needs 3 ranks, which does not divide 8");
    expect_layout("((dp, dp))", false, "axis dp is used twice");
    expect_layout("((pp, -))", false, "the mesh has no axis pp");
}

Test(hints, an_output_strategy_is_checked_like_a_tensor) {
    Net net;
    Node *node = matmul_net(&net);
    node->hint = net_hint(&net, "((2, 4), (4, 1)) -> (16, 1)");
    Propagation propagation;
    cr_expect(!propagate(&net.graph, &propagation, &net.diags));
    const char *text = net_diagnostics(&net);
    cr_expect(strstr(text, "net.dsl:1:21: error: matmul: output strategy: the layout needs 16 ranks, there are 8") != NULL, "%s", text);
    net_finish(&net);
}

Test(hints, the_dataset_strategy_has_a_tuple_for_each_input) {
    Net net;
    matmul_net(&net);
    net.graph.settings.dataset = DATASET_EXPLICIT;
    net.graph.settings.dataset_hint = net_hint(&net, "((2, 1), (2, 1))");
    Propagation propagation;
    cr_expect(!propagate(&net.graph, &propagation, &net.diags));
    cr_expect(strstr(net_diagnostics(&net), "the dataset strategy has 2 tuples, the net has 1 input") != NULL, "%s", net_diagnostics(&net));
    net_finish(&net);
}
