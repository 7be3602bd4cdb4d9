/* Norms: which of their factors split what, and what stands for them where rows are split. */
#include "tests/ir/expansion.h"

static const Attr eps[MAX_ATTRS] = {{.given = true, .f = 0.25}};

static bool infer(OpCode op, const Attr *attr, Rule *rule, RuleError *error, Shape a, Shape b, Shape c) {
    const TensorType in[3] = {{F32, false, a}, {F32, false, b}, {F32, false, c}};
    return rule_infer(op, in, op_nin(op), attr, rule, error);
}

Test(norm, factors_are_those_of_x_and_normalised_ones_have_reductions) {
    Rule rule;
    cr_assert(infer(OP_layer_norm, eps, &rule, NULL, (Shape){3, {4, 6, 3}}, (Shape){2, {6, 3}}, (Shape){2, {6, 3}}));
    cr_expect_eq(rule.nfactors, 3);
    for (int d = 0; d < 3; d++) {
        cr_expect_eq(rule.in[0][d], rule.out[0][d]);
        cr_expect_eq(rule.factor[rule.in[0][d]].reductions, d == 0 ? 0 : 2);
        for (int i = 1; i < 3 && d > 0; i++)
            cr_expect_eq(rule.in[i][d - 1], rule.in[0][d]);
    }
    cr_expect_eq(rule.nout, 3);
    for (int o = 1; o < 3; o++) {
        cr_expect(shape_equal(&rule.result[o].shape, &(Shape){3, {4, 1, 1}}), "a number a row");
        cr_expect_eq(rule.out[o][0], rule.in[0][0]);
        cr_expect_eq(rule.out[o][1], -1);
    }
    cr_assert(infer(OP_rms_norm, eps, &rule, NULL, (Shape){2, {4, 6}}, (Shape){1, {6}}, (Shape){0}));
    cr_expect_eq(rule.factor[rule.in[0][1]].reductions, 1);
    cr_expect_eq(rule.nout, 2);
}

Test(norm, numbers_of_rows_are_f32_where_rows_have_16_bits) {
    for (DType dtype = 0; dtype < NDTYPES; dtype++) {
        if (!dtype_is_float(dtype)) continue;
        Rule rule;
        RuleError error;
        const DType wide = dtype_is_half(dtype) ? F32 : dtype, other = wide == F64 ? F32 : F64;
        const Shape x = {2, {4, 6}}, w = {1, {6}}, row = {2, {4, 1}};
        TensorType in[] = {{dtype, false, x}, {dtype, false, x}, {dtype, false, w}, {wide, false, row}, {wide, false, row}};
        cr_assert(rule_infer(OP_layer_norm_grad, in, 5, eps, &rule, &error), "%s", error.text);
        cr_expect_eq(rule.result[1].dtype, dtype);
        in[4].dtype = other;
        cr_expect_not(rule_infer(OP_layer_norm_grad, in, 5, eps, &rule, &error));
        in[4] = (TensorType){wide, false, x};
        cr_expect_not(rule_infer(OP_layer_norm_grad, in, 5, eps, &rule, &error));
        cr_expect_str_eq(error.text, "%4 is not a number for each row of %0");
        const TensorType forward[] = {{dtype, false, x}, {dtype, false, w}, {dtype, false, w}};
        cr_assert(rule_infer(OP_layer_norm, forward, 3, eps, &rule, &error));
        cr_expect_eq(rule.result[0].dtype, dtype);
        cr_expect_eq(rule.result[1].dtype, wide);
        cr_expect_eq(rule.result[2].dtype, wide);
    }
}

/* Rows that are split make the gradients of weight and bias partial sums, and that of x none. */
Test(norm, gradients_of_weight_and_bias_lack_the_factors_of_rows) {
    for (int centered = 0; centered < 2; centered++) {
        Rule rule;
        const OpCode op = centered ? OP_layer_norm_grad : OP_rms_norm_grad;
        const Shape x = {3, {4, 6, 3}}, row = {3, {4, 6, 1}};
        const TensorType in[] = {{F32, false, x}, {F32, false, x}, {F32, false, {1, {3}}}, {F32, false, row}, {F32, false, row}};
        cr_assert(rule_infer(op, in, 4 + centered, eps, &rule, NULL));
        cr_expect_eq(rule.nout, 2 + centered);
        for (int o = 0; o < rule.nout; o++)
            for (int f = 0; f < 3; f++)
                cr_expect_eq(rule_out_has(&rule, o, f), o == 0 || f == 2, "result %d, factor %d", o, f);
        cr_expect_eq(op_table[op].linear, LINEAR_OPERAND_1);
    }
}

Test(norm, what_does_not_fit_is_said) {
    Rule rule;
    RuleError error;
    cr_assert_not(infer(OP_layer_norm, eps, &rule, &error, (Shape){2, {4, 6}}, (Shape){1, {4}}, (Shape){1, {4}}));
    cr_expect_str_eq(error.text, "%1 is [4]: not the last dimensions of %0, which is [4, 6]");
    cr_expect_str_eq(error.hint, "it has an element for each of those that are normalised together: [6]");
    cr_assert_not(infer(OP_rms_norm, eps, &rule, &error, (Shape){1, {6}}, (Shape){2, {1, 6}}, (Shape){0}));
    cr_assert_not(infer(OP_rms_norm, eps, &rule, &error, (Shape){1, {6}}, (Shape){0}, (Shape){0}));
    cr_assert_not(infer(OP_layer_norm, eps, &rule, &error, (Shape){2, {4, 6}}, (Shape){1, {6}}, (Shape){1, {5}}));
    cr_expect_str_eq(error.text, "%1 and %2 have different shapes");
    const Attr zero[MAX_ATTRS] = {{.given = true}};
    cr_assert_not(infer(OP_rms_norm, zero, &rule, &error, (Shape){1, {6}}, (Shape){1, {6}}, (Shape){0}));
    cr_expect_str_eq(error.text, "eps is 0, and must be above 0");
    cr_expect_eq(error.attr, 0);
    cr_assert_not(infer(OP_rms_norm, NULL, &rule, &error, (Shape){1, {6}}, (Shape){1, {6}}, (Shape){0}));
    cr_expect_str_eq(error.text, "eps is missing");
}

Test(norm, all_of_batch_norm_but_the_channels_has_reductions) {
    Rule rule;
    RuleError error;
    const Shape x = {4, {8, 6, 3, 5}}, c = {1, {6}};
    cr_assert(infer(OP_batch_norm, eps, &rule, NULL, x, c, c));
    cr_expect_eq(rule.nout, 3);
    for (int d = 0; d < 4; d++)
        cr_expect_eq(rule.factor[rule.in[0][d]].reductions, d == 1 ? 0 : 2);
    for (int k = 1; k < 3; k++) {
        cr_expect_eq(rule.in[k][0], rule.in[0][1]);
        cr_expect_eq(rule.out[k][0], rule.in[0][1]);
        cr_expect(shape_equal(&rule.result[k].shape, &c));
    }
    const TensorType in[] = {{F32, false, x}, {F32, false, x}, {F32, false, c}, {F32, false, c}, {F32, false, c}};
    cr_assert(rule_infer(OP_batch_norm_grad, in, 5, eps, &rule, NULL));
    for (int o = 0; o < 3; o++)
        for (int d = 0; d < 4; d++)
            cr_expect_eq(rule_out_has(&rule, o, rule.in[0][d]), o == 0 || d == 1, "result %d, dimension %d", o, d);
    cr_assert_not(infer(OP_batch_norm, eps, &rule, &error, x, (Shape){1, {8}}, c));
    cr_expect_str_eq(error.text, "%1 is [8]: not an element for each channel");
    cr_expect_str_eq(error.hint, "channels are dimension 1 of x: [6]");
    cr_assert_not(infer(OP_batch_norm, eps, &rule, &error, x, c, (Shape){2, {1, 6}}));
    cr_expect_eq(error.operand, 2);
    cr_assert_not(infer(OP_batch_norm, eps, &rule, &error, (Shape){1, {6}}, c, c));
    cr_expect_str_eq(error.text, "%0 is [6], and needs the dimensions [n, c, ..]");
    cr_assert_not(infer(OP_batch_norm, (const Attr[MAX_ATTRS]){{.given = true}}, &rule, &error, x, c, c));
    cr_expect_str_eq(error.text, "eps is 0, and must be above 0");
}

static Arena arena;
static Graph graph;

Test(norm, expansions_give_every_result) {
    for (int centered = 0; centered < 2; centered++) {
        arena_init(&arena);
        graph_init(&graph, &arena);
        graph.nranks = 1;
        const int x = expansion_input(&graph, "x", (Shape){2, {4, 6}}), w = expansion_input(&graph, "w", (Shape){1, {6}}),
                  b = expansion_input(&graph, "b", (Shape){1, {6}}), dy = expansion_input(&graph, "dy", (Shape){2, {4, 6}});
        Node node = {.op = centered ? OP_layer_norm : OP_rms_norm, .nin = 2 + centered, .in = {x, w, b}, .name = "y", .origin = -1};
        own_attrs(&graph, &node)[0] = eps[0];
        int out[MAX_OUT], first = graph.nodes.n;
        op_table[node.op].expand_split(&graph, &node, out);
        expansion_expect(
            &graph, first,
            centered
                ? "mean(x) sub(x y.mean) square(y.center) mean(y.square) constant() add(y.variance y.eps) rsqrt(y.raised) mul(y.center y.rsqrt) "
                  "mul(y.normalised w) add(y.scaled b)"
                : "square(x) mean(y.square) constant() add(y.variance y.eps) rsqrt(y.raised) mul(x y.rsqrt) mul(y.normalised w)");
        const int last = graph.values.at[out[0]].node;
        cr_expect_eq(last, graph.nodes.n - 1);
        for (int k = 1; k <= 1 + centered; k++)
            cr_expect(shape_equal(&graph.values.at[out[k]].type.shape, &(Shape){2, {4, 1}}), "number %d of a row", k);
        node = (Node){.op = centered ? OP_layer_norm_grad : OP_rms_norm_grad,
                      .nin = 4 + centered,
                      .in = {x, dy, w, out[1], out[2]},
                      .name = "g",
                      .origin = last};
        own_attrs(&graph, &node)[0] = eps[0];
        first = graph.nodes.n;
        op_table[node.op].expand_split(&graph, &node, out);
        expansion_expect(
            &graph, first,
            centered
                ? "sub(x y.mean) mul(g.center y.rsqrt) mul(dy w) mul(g.mul g.normalised) mean(g.along) mul(g.normalised g.share) "
                  "sub(g.mul g.taken) mean(g.mul) sub(g.sub g.mean) mul(g.centered y.rsqrt) mul(dy g.normalised) sum_to(g.turned) sum_to(dy)"
                : "mul(x y.rsqrt) mul(dy w) mul(g.mul g.normalised) mean(g.along) mul(g.normalised g.share) sub(g.mul g.taken) "
                  "mul(g.sub y.rsqrt) mul(dy g.normalised) sum_to(g.turned)");
        for (int k = 0; k <= 1 + centered; k++)
            cr_expect(shape_equal(&graph.values.at[out[k]].type.shape, k == 0 ? &(Shape){2, {4, 6}} : &(Shape){1, {6}}), "result %d", k);
        arena_finish(&arena);
    }
}

/* x less the mean is computed by each pass over x, and kept by none. */
Test(norm, batch_norm_expands_to_sums_of_a_channel) {
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph.nranks = 1;
    const Shape wide = {3, {4, 6, 2}}, narrow = {1, {6}};
    const int x = expansion_input(&graph, "x", wide), w = expansion_input(&graph, "w", narrow), b = expansion_input(&graph, "b", narrow),
              dy = expansion_input(&graph, "dy", wide);
    Node node = {.op = OP_batch_norm, .nin = 3, .in = {x, w, b}, .name = "y", .origin = -1};
    own_attrs(&graph, &node)[0] = eps[0];
    int out[MAX_OUT], sums[MAX_OUT], first = graph.nodes.n;
    split_batch_norm(&graph, &node, out);
    expansion_expect(
        &graph, first,
        "mean(x) sub(x y.center) square(y.apart) mean(y.square) constant() add(y.spread y.eps) rsqrt(y.raised) reshape(w) "
        "mul(y.rsqrt y.weight) reshape(b) sub(x y.center) reshape(y.center) reshape(y.spread) mul(y.centered y.scale) add(y.scaled y.bias)");
    const int last = graph.values.at[out[0]].node;
    node = (Node){.op = OP_batch_norm_grad, .nin = 5, .in = {x, dy, w, out[1], out[2]}, .name = "g", .origin = last};
    own_attrs(&graph, &node)[0] = eps[0];
    first = graph.nodes.n;
    split_batch_norm_grad(&graph, &node, sums);
    expansion_expect(
        &graph, first,
        "reshape(y.mean) reshape(y.variance) reshape(w) constant() constant() add(g.spread g.eps) rsqrt(g.raised) sub(x g.center) "
        "mul(g.apart g.rsqrt) mul(dy g.normal) sum(g.turned) sum(dy) mul(g.along g.rsqrt) div(g.steep g.count) div(g.all g.count) "
        "sub(x g.center) mul(g.centered g.share) sub(dy g.shift) sub(g.moved g.taken) mul(g.factor g.rsqrt) mul(g.rest g.scale) "
        "reshape(g.along) reshape(g.all)");
    for (int k = 0; k < 3; k++) {
        cr_expect(shape_equal(&graph.values.at[out[k]].type.shape, k == 0 ? &wide : &narrow), "result %d", k);
        cr_expect(shape_equal(&graph.values.at[sums[k]].type.shape, k == 0 ? &wide : &narrow), "gradient %d", k);
    }
    arena_finish(&arena);
}
