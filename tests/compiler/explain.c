#include "compile.h"
#include "compiler/explain.h"
#include "compiler/name.h"

static const char *const names[] = {"any"};

/* What --explain says of a value, in the arena; NULL: *error. */
static const char *explained(Compiled *x, const char *net, int nranks, int optimize, const char *name, Error *error) {
    Text text = {0};
    compiled_init(x, nranks, optimize);
    x->options.explain = names;
    x->options.nexplain = 1;
    x->options.no_plan = true;
    cr_assert(compiled_run(x, net), "%s", x->c.error.text);
    const char *copy = NULL;
    if (explain(&text, &x->c, name, error)) copy = arena_copy(&x->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static void expect(const char *net, int nranks, const char *name, const char *const *lines) {
    Compiled x;
    Error error = {0};
    const char *text = explained(&x, net, nranks, 2, name, &error);
    cr_assert_not_null(text, "%s: %s", name, error.text);
    for (const char *at = text; *lines; lines++) { /* in this order */
        const char *found = strstr(at, *lines);
        cr_expect(found != NULL, "%s: no '%s' in\n%s", name, *lines, text);
        if (found) at = found;
    }
    compiled_finish(&x);
}
#define EXPECT(net, nranks, name, ...) expect(net, nranks, name, (const char *const[]){__VA_ARGS__, NULL})

Test(explain, a_hint_is_the_reason_for_its_operator) {
    EXPECT(quickstart, 8, "h", "h: f32[16, 16], made by matmul at test.dsl:6:9",
           "layout       (2, 1) [2@4 -] +sum(4@1): every rank has a term", "strategy     matmul h  ((2, 4), (4, 1))",
           "because      of its hint at test.dsl:6:22", "conversion   reduce_scatter", "for relu a",
           "3.0 KiB received by all ranks, 384 B by the busiest; the least is 3.0 KiB");
}

Test(explain, the_way_from_the_hint_is_told_with_what_decided_each_step) {
    EXPECT(quickstart, 8, "y",
           "because      of the hint on matmul h at test.dsl:6:22, in 2 steps:", "0. matmul h  ((2, 4), (4, 1))  the user's",
           "1. relu a  ((2, 4))  ", "2. matmul y  ((2, 4), (4, 1))  fewest bytes, a message counted as 128 a rank",
           "considered   10 candidates; the best 4:", "->   8.0 KiB     0 B         2         1024        ((2, 4), (4, 1))",
           "7.0 KiB     1.0 KiB     4         1024        ((2, 2), (2, 2))", "decided by   fewest bytes, a message counted as 128 a rank");
}

/* Milliseconds more that a line of others says. */
static double more_ms(const char *line) {
    double ms = 0;
    cr_assert_eq(sscanf(line, "%*[ >-]%lf", &ms), 1, "%s", line);
    return ms;
}

Test(explain, others_are_compiled_and_the_fastest_stands_first) {
    Compiled x;
    Error error = {0};
    const char *text = explained(&x, quickstart, 8, 2, "y", &error), *line = strstr(text, "  others       18 of 18 strategies compiled");
    cr_assert_not_null(line, "%s", text);
    double before = -1e9;
    int n = 0;
    for (line = strchr(strchr(line, '\n') + 1, '\n') + 1; *line == ' '; line = strchr(line, '\n') + 1, n++) {
        cr_expect_geq(more_ms(line), before, "%s", text);
        before = more_ms(line);
    }
    cr_expect_eq(n, 9, "%s", text);
    cr_expect_not_null(strstr(text, "->   +0          as much          as much           ((2, 4), (4, 1))"), "%s", text);
    const char *slower = strstr(text, "as much           ((1, 8), (8, 1))");
    cr_assert_not_null(slower, "%s", text);
    while (slower[-1] != '\n')
        slower--;
    Build *b = program_train(&x.c);
    const Graph *g = &b->front.chosen;
    const Strategy **strategy = arena_alloc(&x.arena, sizeof *strategy * (size_t)g->nforward);
    for (int n = 0; n < g->nforward; n++)
        if (g->nodes.at[n].name != NULL && strcmp(g->nodes.at[n].name, "y") == 0) {
            Strategy *other = arena_alloc(&x.arena, sizeof *other);
            strategy_from_splits((const int32_t[]){1, 8, 1}, 3, 8, other);
            strategy[n] = other;
        }
    BuildCost now, then;
    build_cost(b, &now);
    cr_assert(build_try(b, strategy, NULL, &then, &error), "%s", error.text);
    cr_expect_float_eq(1e3 * (then.step_s - now.step_s), more_ms(slower), 1e-5, "%s", text);
    compiled_finish(&x);
}

/* They are compiled with the measures that the plan has: here its parameters are stored in parts. */
Test(explain, others_of_a_plan_that_saves_memory) {
    EXPECT("net n(batch = 512) { input x : f32[batch, 256]; param u : f32[256, 256] = normal(0.1); param v : f32[256, 256] = normal(0.1);\n"
           "h = relu(matmul(x, u)); y = matmul(h, v); loss sum(y * y); }\n"
           "train { data = uniform(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\n"
           "parallel { memory = 1900 KiB; search = sharding_propagation; }\n",
           4, "y", "others       10 of 10 strategies compiled", "->   +0          as much          as much");
}

Test(explain, what_is_predicted_of_a_kernel_and_a_conversion) {
    EXPECT(quickstart, 8, "h", "predicted    ", " ms of a step of ", "conversion   reduce_scatter", "predicted to keep a step of ",
           " ms waiting for ");
    EXPECT(quickstart, 8, "loss.square", "predicted    ", "together with what is fused with it");
}

/* The two results are needed until the end: nothing else lies in the arena with them. */
Test(explain, what_is_held_when_the_arena_is_fullest) {
    EXPECT(
        "net n(batch = 64) { input x : f32[batch, 64]; param u : f32[64, 64] = normal(0.1); h = exp(matmul(x, u)); loss sum(h * h); }\n" TRAIN,
        1, "h", "held         when the arena is fullest: step ");
}

Test(explain, the_step_that_a_kernel_is_fused_into) {
    EXPECT(quickstart, 8, "loss.square", "fused        in one step with sub loss.diff, mean loss; only they read it: it has no memory");
    EXPECT(quickstart, 8, "loss.diff", "fused        in one step with mul loss.square, mean loss\n");
}

Test(explain, a_parameter_with_its_memory_gradient_and_update) {
    /* w is a quarter of 32 * 16 * 4 bytes; its gradient is a sum over 2 ranks, 512 bytes each way on 8 ranks */
    EXPECT(quickstart, 8, "w", "w: parameter f32[32, 16] at test.dsl:4:", "stored as    (4, 1) [4@1 -]",
           "because      matmul h, which takes it first, takes it so",
           "memory       on a rank: parameter 512 B (of 2.0 KiB), slot w.momentum 512 B", "+sum(2@4)", "conversion   all_reduce",
           "4.0 KiB received by all ranks, 512 B by the busiest; the least is 4.0 KiB", "update       in (4, 1) [4@1 -]");
    EXPECT(quickstart, 8, "w.momentum", "w.momentum: state", "because      it lies as the update of w uses it");
}

Test(explain, a_maximum_that_is_owed_is_no_sum) {
    const char *net = "net n() { param x : f32[8, 96] = normal(1);\n h = tanh(x) shard ((1, 4)); y = softmax(h); loss sum(y * y); }\n" TRAIN
                      "parallel { mode = auto; }\n";
    EXPECT(net, 4, "y.max", "+max(4@1): every rank has the maximum of its part", "all_reduce", "finds the maximum of all ranks, for all");
    EXPECT(net, 4, "y.sum", "+sum(4@1): every rank has a term of the sum", "adds up the partial sums, for all");
}

Test(explain, split_rows_are_told_by_their_operator) {
    const char *net = "net n() { param x : f32[8, 96] = normal(1);\n h = tanh(x) shard ((1, 4)); y = softmax(h); loss sum(y * y); }\n" TRAIN
                      "parallel { mode = auto; }\n";
    EXPECT(net, 4, "y", "y: f32[8, 96], made by div", "part of      softmax y, whose rows are split: max, sub, exp, sum, div stand for it;",
           "strategy     softmax y  ((1, 4))", "because      of the hint on tanh h", "softmax y  ((1, 4))  fewest bytes, a message",
           "->   768 B       0 B         4         2304        ((1, 4))");
    EXPECT(net, 4, "y.max", "+max(4@1)", "part of      softmax y", "conversion   all_reduce",
           "192 B received by all ranks, 48 B by the busiest; the least is 192 B");
    EXPECT(net, 4, "h.grad", "part of      softmax_grad", "mul, sum, sub, mul stand for it");
}

Test(explain, a_gradient_by_its_own_name_or_that_of_its_parameter) {
    EXPECT(quickstart, 8, "w.grad", "made by einsum", "because      a gradient reuses the strategy of its operator, matmul h",
           "because      of its hint");
}

Test(explain, an_input_and_the_conversion_of_its_batch) {
    EXPECT(quickstart, 8, "x", "delivered as (8, 1) [8@1 -]", "because      dataset = data_parallel", "conversion   all_to_all",
           "for matmul h");
}

Test(explain, operators_that_no_hint_reaches) {
    const char *net = "net n() { input x : f32[16, 8]; param w : f32[8, 8] = ones; y = matmul(x, w); loss sum(y); }\n" TRAIN;
    char text[512];
    snprintf(text, sizeof text, "%sparallel { mode = auto; }\n", net);
    EXPECT(text, 4, "y", "because      no hint leads to it: it splits its batch");
    snprintf(text, sizeof text, "%sparallel { mode = semi_auto; }\n", net);
    EXPECT(text, 4, "y", "because      it has no hint: mode semi_auto splits its batch");
    snprintf(text, sizeof text, "%sparallel { mode = data_parallel; }\n", net);
    EXPECT(text, 4, "y", "because      mode data_parallel divides the replicas among the ranks");
}

Test(explain, what_is_computed_otherwise_than_its_strategy_says) {
    EXPECT("net n() { input x : f32[8, 8]; input label : f32[8, 8]; param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
           "p = matmul(x, a) shard ((1, 4), (4, 1)); q = matmul(label, b) shard ((1, 4), (4, 1)); h = p + q; loss mse(h, label); }\n" TRAIN
           "parallel { mode = auto; }\n",
           4, "h", "layout       [- -] +sum(4@1): every rank has a term",
           "instead of   (4, 1) [4@1 -], which its strategy gives: fewer bytes are received so (-O2)",
           "strategy     add h  ((4, 1), (4, 1))");
    Compiled x;
    Error error = {0};
    const char *text = explained(&x, quickstart, 8, 2, "h", &error);
    cr_expect(text != NULL && strstr(text, "instead of") == NULL, "%s", text);
    compiled_finish(&x);
}

/* Each stage has steps of its own: what is said is of the one that computes the value, and of the one that receives it. */
Test(explain, of_a_pipeline_the_stage_of_each_value_is_asked) {
    static const char staged[] =
        "net n(batch = 64) { input x : f32[batch, 64]; param w1 : f32[64, 64] = normal(0.1); param w2 : f32[64, 64] = normal(0.1);\n"
        "  h1 = tanh(matmul(x, w1)); h2 = tanh(matmul(h1, w2)); loss mean(h2 * h2); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.01); micro_batches = 2; }\n"
        "parallel { stages = 2; }\nhints { h1 = stage 0; h2.matmul = stage 1; }\n";
    EXPECT(staged, 4, "h1", "stage        0, ranks 0 to 1: its hint", "fused        in one step with matmul h1.matmul", "predicted    ",
           "conversion   exchange  ", "for matmul h2.matmul", "8.0 KiB received by all ranks, 4.0 KiB by the busiest; the least is 8.0 KiB",
           "predicted to keep ranks 2 to 3 waiting for ");
    EXPECT(staged, 4, "h2", "stage        1, ranks 2 to 3: ", "fused        in one step with matmul h2.matmul", "predicted    ",
           "others       3 of 3 strategies compiled, all else as it is; a step of ", "->   +0          as much");
}

Test(explain, an_unknown_name_is_answered_with_the_nearest) {
    static const struct {
        const char *name, *message;
    } cases[] = {{"lable", "did you mean label?"},
                 {"no_such_thing_at_all", "the net has no such value, parameter or input; pcc --list-paths"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled x;
        Error error = {0};
        cr_expect_null(explained(&x, quickstart, 8, 2, cases[i].name, &error));
        cr_expect_eq(error.code, EXIT_USAGE);
        cr_expect(strstr(error.text, cases[i].message) != NULL, "%s", error.text);
        compiled_finish(&x);
    }
}

Test(explain, every_name_of_every_net_at_every_level_is_explained) {
    for (int n = 0; n < NNETS; n++)
        for (int level = 0; level <= 2; level++)
            for (int v = 0, more = 1; more; v++) {
                Compiled x;
                Error error = {0};
                compiled(&x, nets[n], 4, level);
                more = v + 1 < x.graph->values.n;
                const char *name = arena_printf(&x.arena, "%s", x.graph->values.at[v].name);
                char copy[256];
                snprintf(copy, sizeof copy, "%s", name);
                compiled_finish(&x);
                cr_expect_not_null(explained(&x, nets[n], 4, level, copy, &error), "net %d: %s", n, error.text);
                compiled_finish(&x);
            }
}

Test(explain, what_is_recorded_does_not_change_what_is_decided) {
    for (int n = 0; n < NNETS; n++) {
        Compiled x, y;
        compiled(&x, nets[n], 4, 2);
        compiled_init(&y, 4, 2);
        y.options.explain = names;
        y.options.nexplain = 1;
        cr_assert(compiled_run(&y, nets[n]));
        cr_expect_str_eq(x.c.text.at, y.c.text.at);
        compiled_finish(&x);
        compiled_finish(&y);
    }
}

Test(name, layouts_are_written_in_axes_and_their_parts) {
    static const struct {
        const char *layout, *named;
    } cases[] = {
        {"[2@8 -]", "[dp -]"},         {"[16@1 -]", "[dp.tp.z -]"},   {"[4@2 2@1]", "[tp z]"}, {"[2@4 -]", "[tp:(1)2 -]"},
        {"[2@2 2@8]", "[tp:(2)2 dp]"}, {"[4@4 -]", "[dp.tp:(1)2 -]"}, {"[- -]", "[- -]"},      {"[- 2@1] +sum(8@2)", "[- z] +sum(dp.tp)"},
    };
    Arena arena;
    Graph graph;
    arena_init(&arena);
    graph_init(&graph, &arena);
    vec_push(&arena, &graph.settings.mesh, (Axis){"dp", 2, {2, 8}});
    vec_push(&arena, &graph.settings.mesh, (Axis){"tp", 4, {4, 2}});
    vec_push(&arena, &graph.settings.mesh, (Axis){"z", 2, {2, 1}});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = cases[i].layout;
        Layout layout;
        bool hidden;
        cr_assert(layout_read(&at, &layout, &hidden));
        cr_expect_str_eq(layout_named(&arena, &graph, &layout, false), cases[i].named);
    }
    graph.settings.mesh.n = 0;
    const char *at = "[2@8 4@2]";
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&at, &layout, &hidden));
    cr_expect_str_eq(layout_named(&arena, &graph, &layout, false), "(2, 4) [2@8 4@2]");
    arena_finish(&arena);
}

Test(explain, of_two_programs_each_is_told_under_its_name) {
    const char *net = "net n(batch = 16) { input x : f32[batch, 8]; param w : f32[8, 8] = normal(1); param v : f32[8, 8] = normal(1);\n"
                      "h = matmul(x, w) shard ((2, 1), (1, 2)); y = tanh(matmul(h, v)); loss sum(y * y); }\n"
                      "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n"
                      "eval { batch = 8; data = normal(seed = 2); steps = 2; metrics = loss; }\nparallel { mode = auto; }\n";
    EXPECT(net, 4, "h", "program train", "h: f32[16, 8]", "strategy     matmul h  ((2, 1), (1, 2))", "because      of its hint",
           "program eval", "h: f32[8, 8]", "strategy     matmul h  ((2, 1), (1, 2))", "because      it has this strategy in program train");
    EXPECT(net, 4, "w", "program train", "stored as", "memory       on a rank", "program eval", "stored as",
           "because      program train stores it so");
    EXPECT(net, 4, "v.grad", "program train", "v.grad");
    Compiled x;
    Error error = {0};
    cr_expect_null(strstr(explained(&x, net, 4, 2, "v.grad", &error), "program eval"), "eval has no gradients");
    compiled_finish(&x);
    cr_expect_null(explained(&x, net, 4, 2, "g", &error));
    cr_expect(strstr(error.text, "--explain g: the net has no such value"), "%s", error.text);
    compiled_finish(&x);
    /* A batch that the split of train does not divide has a way of its own, from what follows train. */
    const char *uneven = "net n(batch = 16) { input x : f32[batch, 8]; param w : f32[8, 8] = normal(1); param v : f32[8, 8] = normal(1);\n"
                         "h = matmul(w, v) shard ((2, 2), (2, 1)); y = tanh(matmul(x, h)); loss sum(y * y); }\n"
                         "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n"
                         "eval { batch = 7; data = normal(seed = 2); steps = 2; metrics = loss; }\nparallel { mode = auto; }\n";
    EXPECT(uneven, 4, "y", "program train", "program eval", "y: f32[7, 8]", "strategy");
}
