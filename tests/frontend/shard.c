#include "compile.h"

/* The hint of h = matmul(x, w) shard STRATEGY, on 8 ranks with the mesh (dp = 2, tp = 4). */
static const Hint *hint_of(Compiled *c, const char *strategy) {
    char text[1024];
    snprintf(text, sizeof text, NET("    h = matmul(x, w) shard %s;") "parallel { mesh (dp = 2, tp = 4); mode = semi_auto; }", strategy);
    compile(c, text, 8);
    return c->accepted ? node_named(&c->graph, "h")->hint : NULL;
}

/* "2 4; 4 1" or, named, "dp.tp -; tp -"; "-> ..." after it. */
static void tuple_text(Text *text, const HintTuple *tuple, bool named) {
    for (int d = 0; d < tuple->ndim; d++) {
        const HintDim *dim = &tuple->dim[d];
        text_printf(text, d ? " " : "");
        if (!named)
            text_printf(text, "%lld", (long long)dim->split);
        else if (!dim->naxes)
            text_printf(text, "-");
        for (int a = 0; a < dim->naxes; a++)
            text_printf(text, "%s%s", a ? "." : "", dim->axis[a]);
    }
}

static void expect_hint(const char *strategy, const char *want) {
    Compiled c;
    Text text = {0};
    const Hint *hint = hint_of(&c, strategy);
    expect_accepted(&c);
    cr_assert_not_null(hint);
    for (int i = 0; i < hint->nin; i++) {
        text_printf(&text, i ? "; " : "");
        tuple_text(&text, &hint->in[i], hint->named);
    }
    if (hint->nout) {
        text_printf(&text, " -> ");
        tuple_text(&text, &hint->out, hint->named);
    }
    cr_assert_str_eq(text.at ? text.at : "", want, "%s", strategy);
    text_finish(&text);
    compiled_finish(&c);
}

static void expect_strategy_error(const char *strategy, int column, const char *error) {
    Compiled c;
    hint_of(&c, strategy);
    expect_error(&c, 5, column, error);
    compiled_finish(&c);
}

Test(shard, tuples_are_read_with_the_usual_brackets_one_more_pair_or_one_operand) {
    expect_hint("((2, 4), (4, 1))", "2 4; 4 1");
    expect_hint("(((2, 4), (4, 1)))", "2 4; 4 1");
    expect_hint("(((2, 4), (4, 1)),)", "2 4; 4 1");
    expect_hint("((2, 4,), (4, 1,),)", "2 4; 4 1");
    expect_hint("(2, 4)", "2 4");
    expect_hint("((2, 4))", "2 4");
    expect_hint("((2, 4),)", "2 4");
    expect_hint("(8)", "8");
    expect_hint("((8), (1))", "8; 1");
    expect_hint("((2, 4), ())", "2 4; ");
    expect_hint("((batch / 8, 4), (2 * 2, 1))", "2 4; 4 1");
}

Test(shard, output_strategies_follow_an_arrow) {
    expect_hint("((2, 4), (4, 1)) -> (8, 1)", "2 4; 4 1 -> 8 1");
    expect_hint("((2, 4), (4, 1)) -> ((8, 1))", "2 4; 4 1 -> 8 1");
}

Test(shard, empty_brackets_are_the_tuple_of_one_scalar) {
    Compiled c;
    compile(&c,
            "net n() { input x : f32[8, 4]; param s : f32[] = ones shard (); param t : f32[] = ones shard (()); loss sum(x * s * t); }\n"
            "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }\nparallel { mode = auto; }\n",
            8);
    expect_accepted(&c);
    for (int s = 0; s < 2; s++) {
        const Hint *hint = c.graph.states.at[s].hint;
        cr_assert_not_null(hint);
        cr_expect(hint->nin == 1 && hint->in[0].ndim == 0);
    }
    compiled_finish(&c);
    expect_hint("((2, 4), (4, 1)) -> ()", "2 4; 4 1 -> ");
}

Test(shard, axes_are_named_joined_by_dots_and_left_out_by_a_minus) {
    expect_hint("((dp, tp), (tp, -))", "dp tp; tp -");
    expect_hint("((dp.tp, -), (-, -))", "dp.tp -; - -");
    expect_hint("((dp, -), (-, tp)) -> (tp.dp, -)", "dp -; - tp -> tp.dp -");
    expect_hint("((-, -), (-, -))", "- -; - -");
}

Test(shard, spans_are_those_of_the_text) {
    Compiled c;
    const Hint *hint = hint_of(&c, "((2, 4), (4, 1)) -> (8, 1)");
    cr_assert_eq(hint->span.column, 22);
    cr_assert_eq(hint->in[1].span.column, 37);
    cr_assert_eq(hint->in[1].span.length, 6);
    cr_assert_eq(hint->in[1].dim[0].span.column, 38);
    cr_assert_eq(hint->out.span.column, 48);
    compiled_finish(&c);
}

Test(shard, mistakes_are_diagnosed_where_they_are) {
    expect_strategy_error("((0, 4), (4, 1))", 30, "a split is 1 to 2147483647, not 0");
    expect_strategy_error("((2, -4), (4, 1))", 33, "not -4");
    expect_strategy_error("((2.0, 4), (4, 1))", 30, "a split is an integer, not 2.0");
    expect_strategy_error("((pd, tp), (tp, -))", 30, "the mesh has no axis 'pd'");
    expect_strategy_error("((dp, 4), (tp, -))", 34, "not with both");
    expect_strategy_error("((2, -), (1, 1))", 33, "not with both");
    expect_strategy_error("((dp, tp), (tp, -)) -> (8, 1)", 52, "not with both");
    expect_strategy_error("[[2, 4], [4, 1]]", 28, "round brackets");
    expect_strategy_error("([2, 4], [4, 1])", 29, "round brackets");
    expect_strategy_error("8", 28, "one tuple an operand");
    expect_strategy_error("()", 28, "the strategy is empty");
    expect_strategy_error("((2, 4), 4)", 37, "this is no tuple");
    expect_strategy_error("((((2, 4), (4, 1))))", 31, "too many brackets");
    expect_strategy_error("((2, 4), (4, 1)) -> ((8, 1), (8, 1))", 48, "2 output strategies");
    expect_strategy_error("((1,1,1,1,1,1,1,1,1), (1, 1))", 29, "9 splits");
    expect_strategy_error("((1),(1),(1),(1),(1),(1),(1),(1),(1))", 28, "9 tuples");
}

Test(shard, a_strategy_belongs_to_the_outermost_operator) {
    Compiled c;
    compile(&c, NET("    h = relu(matmul(x, w)) + 1 shard ((8, 1), ());"), 8);
    expect_accepted(&c);
    cr_assert_not_null(node_named(&c.graph, "h")->hint);
    cr_assert_null(node_named(&c.graph, "h.relu")->hint);
    cr_assert_null(node_named(&c.graph, "h.matmul")->hint);
    compiled_finish(&c);
}

static void expect_inner(const char *statement, const char *name, const char *want) {
    Compiled c;
    char text[1024], said[256];
    snprintf(text, sizeof text, NET("    %s"), statement);
    compile(&c, text, 8);
    expect_accepted(&c);
    const Hint *hint = node_named(&c.graph, name)->hint;
    cr_assert_not_null(hint, "%s", statement);
    cr_assert_null(node_named(&c.graph, "h")->hint, "%s", statement);
    int n = 0;
    for (int i = 0; i < hint->nin; i++)
        n += snprintf(said + n, sizeof said - (size_t)n, "%lld,%lld ", (long long)hint->in[i].dim[0].split,
                      (long long)hint->in[i].dim[1].split);
    if (hint->nout) snprintf(said + n, sizeof said - (size_t)n, "-> %lld", (long long)hint->out.dim[0].split);
    cr_expect_str_eq(said, want, "%s", statement);
    compiled_finish(&c);
}

Test(shard, in_brackets_a_strategy_belongs_to_the_operator_before_it) {
    expect_inner("h = relu(matmul(x, w) shard ((2, 4), (4, 1)));", "h.matmul", "2,4 4,1 ");
    expect_inner("h = relu(x = matmul(x, w) shard ((2, 4), (4, 1)));", "h.matmul", "2,4 4,1 ");
    expect_inner("h = (x @ w shard ((2, 4), (4, 1)) -> (8, 1)) + 1;", "h.matmul", "2,4 4,1 -> 8");
    expect_inner("h = (x @ w).shard((2, 4), (4, 1)) + 1;", "h.matmul", "2,4 4,1 ");
    expect_inner("h = relu(matmul(x, w).shard(((2, 4), (4, 1)), ((8, 1),)));", "h.matmul", "2,4 4,1 -> 8");
    expect_inner("h = matmul(x, w).shard(in_strategy = ((2, 4), (4, 1)), out_strategy = (8, 1)).relu();", "h.matmul", "2,4 4,1 -> 8");
}

Test(shard, in_brackets_a_strategy_has_an_operator_and_is_its_only_one) {
    Compiled c;
    compile(&c, NET("    h = (x shard (8, 1)) + 1;"), 8);
    expect_error(&c, 5, 12, "there is no operator here to shard");
    compiled_finish(&c);
    compile(&c, NET("    h = (relu(x) shard (8, 1)) shard (4, 2);"), 8);
    expect_error(&c, 5, 32, "a second strategy for one operator");
    compiled_finish(&c);
    compile(&c, NET("    h = relu(f(x) shard { y = (8, 1); });"), 8);
    expect_error(&c, 5, 19, "hints in braces stand at the end of a statement");
    compiled_finish(&c);
}

Test(shard, a_mesh_names_the_digits_of_the_rank_last_axis_fastest_ranks_left_over_faster) {
    Compiled c;
    compile(&c, NET("") "parallel { mesh (dp = 2, tp = 4); }", 16);
    expect_accepted(&c);
    const Axis *axes = c.graph.settings.mesh.at;
    cr_assert_eq(c.graph.settings.mesh.n, 2);
    cr_assert_eq(axes[0].digit.size, 2);
    cr_assert_eq(axes[0].digit.stride, 8);
    cr_assert_eq(axes[1].digit.size, 4);
    cr_assert_eq(axes[1].digit.stride, 2);
    compiled_finish(&c);
}

Test(shard, a_mesh_divides_the_ranks_except_where_strategies_do_not_count) {
    Compiled c;
    compile(&c, NET("    h = relu(x) shard ((dp, tp));") "parallel { mesh (dp = 2, tp = 4); }", 6);
    expect_error(&c, 9, 12, "the mesh has 8 ranks, which does not divide the 6 ranks");
    compiled_finish(&c);
    compile(&c, NET("    h = relu(x) shard ((dp, tp));") "parallel { mode = stand_alone; mesh (dp = 2, tp = 4); }", 1);
    expect_accepted(&c);
    cr_assert_eq(c.diags.nwarnings, 1, "that shard has no effect");
    compiled_finish(&c);
}

Test(shard, on_one_rank_the_names_of_a_mesh_are_checked_and_nothing_is_split) {
    Compiled c;
    compile(&c, NET("    h = relu(x) shard ((dp, tp));") "parallel { mesh (dp = 2, tp = 4); }", 1);
    expect_accepted(&c);
    cr_assert_eq(c.graph.settings.mesh.n, 0);
    cr_assert_eq(c.diags.nwarnings, 0);
    compiled_finish(&c);
    compile(&c, NET("    h = relu(x) shard ((dp, pt));") "parallel { mesh (dp = 2, tp = 4); }", 1);
    expect_error(&c, 5, 29, "the mesh has no axis 'pt'");
    compiled_finish(&c);
}

Test(shard, parameters_and_inputs_have_one_tuple_and_no_output) {
    Compiled c;
    compile(&c, "net q {\n input x : f32[8, 4] shard ((4, 2));\n param v : f32[8, 4] = ones shard (4, 1);\n loss mean(x * v);\n}\n" TRAIN,
            8);
    expect_accepted(&c);
    cr_assert_eq(c.graph.inputs.at[0].hint->in[0].dim[1].split, 2);
    cr_assert_eq(c.graph.states.at[0].hint->in[0].dim[0].split, 4);
    compiled_finish(&c);
    compile(&c, NET("    param v : f32[8, 4] = ones shard ((4, 1), (4, 1));"), 8);
    expect_error(&c, 5, 32, "2 tuples for param v, which has one");
    compiled_finish(&c);
    compile(&c, NET("    param v : f32[8, 4] = ones shard (4, 1) -> (8, 1);"), 8);
    expect_error(&c, 5, 48, "only an operator has an output strategy");
    compiled_finish(&c);
}
