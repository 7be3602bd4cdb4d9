/* Hints that pcc has found: `hints found { .. }`. What --write-hints writes is tested in found.sh. */
#include "compile.h"

#define NET                                                                                                                                \
    "net n(batch = 16) { input x : f32[batch, 8]; input t : f32[batch, 8]; h = x;\n"                                                       \
    "  for i in 0..3 { param w : f32[8, 8] = normal(0.1); h = matmul(h, w); } y = relu(h); loss mse(y, t); }\n" TRAIN "%s\n"

static void run(Compiled *x, const char *hints) {
    char text[2048];
    snprintf(text, sizeof text, NET, hints);
    compiled_init(x, 4, 2);
    compiled_run(x, text);
}

static const Node *node_named(const Compiled *x, const char *name) {
    const Graph *g = &x->b->front.chosen;
    for (int n = 0; n < g->nforward; n++)
        if (strcmp(g->nodes.at[n].name, name) == 0) return &g->nodes.at[n];
    cr_assert_fail("no %s", name);
    return NULL;
}

/* The splits of m, k and n. */
static void expect_splits(const Compiled *x, const char *name, int m, int k, int n) {
    const Strategy *s = node_named(x, name)->strategy;
    cr_expect(strategy_split(s, 0) == m && strategy_split(s, 1) == k && strategy_split(s, 2) == n, "%s: %d %d %d", name,
              (int)strategy_split(s, 0), (int)strategy_split(s, 1), (int)strategy_split(s, 2));
}

Test(found, the_last_line_that_matches_counts_and_parts_of_composites_have_names) {
    Compiled x;
    run(&x,
        "hints found { mesh (a = 2, b = 2); mesh (c = 4); h.* = ((c, -), (-, -)); h.1 = ((a, b), (b, -)); loss.square = ((-, c), (-, c)); w.2 = (-, c); }");
    cr_assert(x.done && x.diags.items.n == 0, "%s", x.diags.items.n > 0 ? x.diags.items.at[0].text : "");
    expect_splits(&x, "h.0", 4, 1, 1);
    expect_splits(&x, "h.1", 2, 2, 1);
    expect_splits(&x, "h.2", 4, 1, 1);
    cr_expect_eq(node_named(&x, "h.1")->from, STRATEGY_PROPAGATED); /* no request */
    cr_expect_eq(strategy_split(node_named(&x, "loss.square")->strategy, 1), 4);
    cr_expect_eq(layout_split(x.graph->states.at[2].layout, 1), 4);
    compiled_finish(&x);
}

Test(found, what_users_ask_for_goes_before) {
    Compiled x;
    run(&x, "hints { h.1 = ((1, 4), (4, 1)); w.0 = (4, 1); }\nhints found { mesh (a = 4); h.* = ((a, -), (-, -)); w.* = (-, a); }");
    cr_assert(x.done, "%s", x.diags.items.at[0].text);
    expect_splits(&x, "h.0", 4, 1, 1);
    expect_splits(&x, "h.1", 1, 4, 1);
    cr_expect_eq(layout_split(x.graph->states.at[0].layout, 0), 4);
    cr_expect_eq(layout_split(x.graph->states.at[1].layout, 1), 4);
    compiled_finish(&x);
}

/* Rows that no operand has: those of the result, to which rows of y are added. */
static void run_scatter(Compiled *x, const char *hints) {
    char text[2048];
    snprintf(
        text, sizeof text,
        "net n(batch = 16) { input x : f32[batch, 8]; input to : i32[batch]; param w : f32[8, 8] = normal(0.1); const none : f32[12, 8] = zeros;\n"
        "  y = matmul(x, w);\n" /* the line of the hints is 4, as in NET */
        "  sums = scatter_add(none, to, y, axis = 0); loss mean(sums * sums); } train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }\n"
        "%s\n",
        hints);
    compiled_init(x, 4, 2);
    compiled_run(x, text);
}

Test(found, the_result_says_how_rows_are_split_that_no_operand_has) {
    Compiled x;
    run_scatter(&x, "hints found { mesh (a = 2, b = 2); sums.added = ((-, b), (-)) -> (a, b); }");
    cr_assert(x.done && x.diags.items.n == 0, "%s", x.diags.items.n > 0 ? x.diags.items.at[0].text : "");
    const Node *node = node_named(&x, "sums.added");
    const int rows = node->rule->out[0][0], columns = node->rule->out[0][1];
    cr_expect_eq(strategy_split(node->strategy, rows), 2);
    cr_expect_eq(strategy_digits(node->strategy, rows)[0].stride, 2);
    cr_expect_eq(strategy_split(node->strategy, columns), 2);
    cr_expect_eq(strategy_split(node->strategy, node->rule->in[0][0]), 1);
    compiled_finish(&x);
}

static void expect_error_by(void (*compile)(Compiled *, const char *), const char *hints, const char *said) {
    Compiled x;
    compile(&x, hints);
    cr_assert(!x.done && x.diags.nerrors == 1, "%s", hints);
    cr_expect_not_null(strstr(x.diags.items.at[0].text, said), "%s: %s", hints, x.diags.items.at[0].text);
    cr_expect_eq(x.diags.items.at[0].span.line, 4, "%s", hints);
    compiled_finish(&x);
}

static void expect_error(const char *hints, const char *said) {
    expect_error_by(run, hints, said);
}

/* A line that another one says once more is no name that nothing has. */
Test(found, of_equal_lines_the_last_one_counts) {
    Compiled x;
    run(&x,
        "hints found { mesh (a = 4); h.0 = ((a, -), (-, -)); h.0 = ((-, a), (a, -)); h.* = ((a, -), (-, -)); h.0 = ((-, a), (a, -)); }");
    cr_assert(x.done && x.diags.items.n == 0, "%s", x.diags.items.n > 0 ? x.diags.items.at[0].text : "");
    expect_splits(&x, "h.0", 1, 4, 1);
    expect_splits(&x, "h.1", 4, 1, 1);
    compiled_finish(&x);
    expect_error("hints found { mesh (a = 4); h.* = ((a, -), (-, -)); h.9 = ((a, -), (-, -)); h.9 = ((a, -), (-, -)); }", "the name h.9");
}

Test(found, a_result_that_does_not_follow_from_its_operands_is_an_error) {
    expect_error("hints found { mesh (a = 2, b = 2); h.0 = ((a, -), (-, b)) -> (b, a); }",
                 "result of h.0: its operands are split otherwise");
    expect_error("hints found { mesh (a = 2, b = 2); h.0 = ((a, -), (-, b)) -> (a, c); }", "the mesh has no axis 'c'");
    expect_error("hints found { mesh (a = 4); h.0 = ((a, -), (-, -)) -> (a); }", "its tuple has 1");
    expect_error_by(run_scatter, "hints found { mesh (a = 2, b = 2); sums.added = ((-, b), (-)) -> (a, -); }", "are split otherwise");
    expect_error_by(run_scatter, "hints found { mesh (a = 2, b = 2); sums.added = ((a, -), (a)) -> (a, -); }", "split one tensor");
    expect_error_by(run_scatter, "hints found { mesh (a = 2, b = 2); sums.added = ((a, -), (a)) -> (b.b, -); }", "is used twice");
    expect_error_by(run_scatter, "hints found { mesh (a = 2, b = 2); sums.added = ((-, -), (-)) -> (-, b); }", "are split otherwise");
}

Test(found, what_fits_nothing_is_an_error) {
    expect_error("hints found { mesh (a = 4); h.* = ((a, -), (-, -)); loss.sqare = ((a, -), (a, -)); }", "has the name loss.sqare");
    expect_error("hints found { mesh (a = 4); h.0 = ((a, -), (-, a)); }", "axis a splits two different indices");
    expect_error("hints found { mesh (a = 2, b = 2); mesh (c = 2); h.0 = ((a.c, -), (-, -)); }", "overlap");
    expect_error("hints found { mesh (a = 4); mesh (a = 4); h.0 = ((a, -), (-, -)); }", "has an axis 'a' already");
    expect_error("hints found { mesh (a = 3); h.0 = ((a, -), (-, -)); }", "does not divide the 4 ranks");
    expect_error("hints found { gone = recompute; }", "has the name gone");
    expect_error("hints found { shard_states = most; }", "unknown shard_states 'most'");
    expect_error("hints found { h.* = regather; }", "regather of a path is nothing that a search finds");
    expect_error("hints found { memory = 100; }", "memory is no setting that a search finds");
    expect_error("hints { shard_states = parameters; }", "has the path shard_states");
    expect_error("hints lost { h.0 = ((1, 1), (1, 1)); }", "found 'lost'");
    expect_error("hints found { mush (a = 4); }", "expected '=', found '('");
}

/* What a search took for memory or time, beside strategies. */
Test(found, settings_and_what_is_computed_again_are_those_of_the_net) {
    Compiled x;
    run(&x,
        "hints found { shard_states = optimizer; } hints found { shard_states = parameters; regather = parameters; regather_share = 0.25; h.* = recompute; }");
    cr_assert(x.done && x.diags.items.n == 0, "%s", x.diags.items.n > 0 ? x.diags.items.at[0].text : "");
    const Settings *settings = &x.b->front.graph.settings;
    cr_expect(settings->shard_states == SHARD_PARAMETERS && settings->regather == REGATHER_PARAMETERS);
    cr_expect_eq(settings->regather_share, 0.25);
    cr_expect(node_named(&x, "h.0")->recompute && node_named(&x, "h.2")->recompute && !node_named(&x, "y")->recompute);
    compiled_finish(&x);
}

Test(found, settings_that_users_say_go_before) {
    Compiled x;
    run(&x, "hints found { shard_states = parameters; regather = none; h.* = recompute; }\n"
            "parallel { shard_states = none; recompute = none; }");
    cr_assert(x.done && x.diags.items.n == 0, "%s", x.diags.items.n > 0 ? x.diags.items.at[0].text : "");
    cr_expect(x.b->front.graph.settings.shard_states == SHARD_NONE && !node_named(&x, "h.0")->recompute);
    compiled_finish(&x);
    compiled_init(&x, 4, 2);
    x.options.overrides.shard_states = "gradients";
    x.options.overrides.regather = "all";
    char text[2048];
    snprintf(text, sizeof text, NET, "hints found { shard_states = parameters; regather = none; }");
    cr_assert(compiled_run(&x, text));
    cr_expect(x.b->front.graph.settings.shard_states == SHARD_GRADIENTS && x.b->front.graph.settings.regather == REGATHER_ALL);
    compiled_finish(&x);
}

/* One batch in parts, and two batches of a step: marks are of all parts and batches. */
static void run_batches(Compiled *x, const char *train, const char *hints) {
    char text[2048];
    snprintf(text, sizeof text,
             "net n(batch = 16) { input x : f32[batch, 8]; param w : f32[8, 8] = normal(0.1); h = tanh(matmul(x, w));\n"
             "  loss mean(h * h); }\n" /* the line of the hints is 4, as in NET */
             "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; %s }\n%s\n",
             train, hints);
    compiled_init(x, 4, 2);
    compiled_run(x, text);
}

static int64_t parts_of(const char *train, const char *hints) {
    Compiled x;
    run_batches(&x, train, hints);
    cr_assert(x.done && x.diags.items.n == 0, "%s", x.diags.items.n > 0 ? x.diags.items.at[0].text : "");
    const int64_t parts = x.b->front.graph.settings.micro_batches;
    compiled_finish(&x);
    return parts;
}

Test(found, batches_are_taken_in_parts) {
    cr_expect_eq(parts_of("", "hints found { micro_batches = 4; }"), 4);
    cr_expect_eq(parts_of("micro_batches = 2;", "hints found { micro_batches = 4; }"), 2);
    cr_expect_eq(parts_of("micro_batches = 1;", "hints found { micro_batches = 4; }"), 1);
    Compiled x;
    run_batches(&x, "", "hints found { micro_batches = 5; }");
    cr_assert(!x.done);
    cr_expect_not_null(strstr(x.diags.items.at[0].text, "a batch of 16 is not 5 equal parts"), "%s", x.diags.items.at[0].text);
    cr_expect_eq(x.diags.items.at[0].span.line, 4);
    compiled_finish(&x);
    run_batches(&x, "accumulate = 2;", "hints found { micro_batches = 2; h = recompute; }");
    cr_assert(x.done);
    int marked = 0;
    for (int n = 0; n < x.b->front.graph.nodes.n; n++)
        marked += x.b->front.graph.nodes.at[n].recompute && graph_is_forward(&x.b->front.graph, n);
    cr_expect_eq(marked, 4, "%d", marked);
    compiled_finish(&x);
}

Test(found, an_input_is_not_computed_again) {
    Compiled x;
    run(&x, "hints found { x = recompute; }");
    cr_assert(!x.done);
    cr_expect_not_null(strstr(compiled_said(&x), "no operator, which could be computed again, has the name x"), "%s", compiled_said(&x));
    cr_expect_null(strstr(compiled_said(&x), "did you mean x?"), "%s", compiled_said(&x));
    compiled_finish(&x);
}

Test(found, one_rank_has_no_use_for_it) {
    Compiled x;
    char text[2048];
    snprintf(text, sizeof text, NET, "hints found { mesh (a = 4); h.* = ((a, -), (-, -)); gone = ((a, -), (-, -)); }");
    compiled(&x, text, 1, 2);
    compiled_finish(&x);
}
