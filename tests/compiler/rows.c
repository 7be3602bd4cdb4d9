#include "compiler/rows.h"
#include "tests/frontend/compile.h"

#define HELD                                                                                                                                                                   \
    "net q(batch = 16, n = 4) {\n input x : f32[batch, n];\n input t : f32[batch, 2];\n param w : f32[n, 2] = normal(0.1);\n h = matmul(x, w);\n y = relu(h);\n loss %s;\n}\n" \
    "train { data = npy(x = \"x.npy\", t = \"t.npy\"); optimizer = sgd(lr = 0.1); last = pad; }\n"

/* The net as its eval block wants it, with what it reports. */
static void evaluate_text(Compiled *c, const char *text, const Overrides *flags) {
    LossRows rows;
    Overrides own = *flags;
    own.rows = &rows;
    Source source;
    c->accepted = frontend_read(&source, "dir/net.dsl", text, strlen(text), &own, &c->arena, &c->diags) &&
                  frontend_eval(&source, &own, &c->graph, &c->arena, &c->diags) && loss_rows_apply(&c->graph, &rows, &c->diags);
}

static void evaluate(Compiled *c, const char *loss, const char *block, int nranks) {
    char text[2048], net[1024];
    snprintf(net, sizeof net, HELD, loss);
    snprintf(text, sizeof text, "%s%s", net, block);
    const Overrides flags = {.nranks = nranks};
    compile_with(c, text, strlen(text), &flags);
    expect_accepted(c);
    evaluate_text(c, text, &flags);
    expect_accepted(c);
}

static const Report *report_named(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->reports.n; i++)
        if (strcmp(graph->reports.at[i].name, name) == 0) return &graph->reports.at[i];
    return NULL;
}

Test(rows, an_eval_sums_over_rows_and_reports_them) {
    Compiled c;
    evaluate(&c, "mse(y, t)", "eval { every = 7; batch = 10; data = npy(x = \"hx.npy\", t = \"ht.npy\"); }", 2);
    const Graph *g = &c.graph;
    cr_assert_eq(g->inputs.at[2].kind, INPUT_ROW_WEIGHT);
    cr_assert_eq(g->reports.n, 2);
    cr_assert(report_named(g, "rows")->whole);
    const Report *prediction = report_named(g, "prediction");
    cr_assert_not(prediction->whole);
    cr_assert_str_eq(g->values.at[prediction->value].name, "y");
    cr_assert_eq(graph_producer(g, g->loss)->op, OP_sum, "a sum over rows, whatever the loss of training is");
    compiled_finish(&c);
}

/* The loss of training, after pass `rows`. */
static void train(Compiled *c, const char *loss, const char *last) {
    char text[1024], net[1024];
    LossRows rows;
    snprintf(net, sizeof net, HELD, loss);
    snprintf(text, sizeof text, "%.*s last = %s; }", (int)(strstr(net, " last = ") - net), net, last);
    const Overrides flags = {.nranks = 2, .rows = &rows};
    compile_with(c, text, strlen(text), &flags);
    expect_accepted(c);
    cr_assert_eq(rows.use, strcmp(last, "drop") == 0 ? LOSS_AS_WRITTEN : LOSS_WEIGHED);
    c->accepted = loss_rows_apply(&c->graph, &rows, &c->diags);
}

Test(rows, training_weighs_them_where_the_last_batch_is_filled_up) {
    static const struct {
        const char *loss, *last;
        int ninputs;
        OpCode op;
        Last then;
    } cases[] = {{"mse(y, t)", "drop", 2, OP_mse, LAST_DROP},        {"mse(y, t)", "pad", 3, OP_mean, LAST_PAD},
                 {"mean(y)", "short", 3, OP_mean, LAST_SHORT},       {"sum(y)", "short", 3, OP_sum, LAST_PAD},
                 {"sum(y) / batch", "short", 3, OP_div, LAST_SHORT}, {"sum(y) / 16", "pad", 3, OP_div, LAST_PAD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        train(&c, cases[i].loss, cases[i].last);
        expect_accepted(&c);
        cr_expect_eq(c.graph.inputs.n, cases[i].ninputs, "%s, %s", cases[i].loss, cases[i].last);
        cr_expect_eq(graph_producer(&c.graph, c.graph.loss)->op, cases[i].op, "%s, %s", cases[i].loss, cases[i].last);
        cr_expect_eq(c.graph.settings.last, cases[i].then, "%s, %s", cases[i].loss, cases[i].last);
        compiled_finish(&c);
    }
}

Test(rows, training_refuses_what_cannot_be_weighed) {
    static const char *const losses[] = {"sqrt(mse(y, t))", "mse(y, t) * mean(y)", "sum(w)"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        Compiled c;
        train(&c, losses[i], "pad");
        expect_error(&c, 7, c.diags.items.at[0].span.column, "cannot be left out of this loss");
        compiled_finish(&c);
    }
}

Test(rows, only_predictions_can_do_without_an_input) {
    static const struct {
        const char *block;
        bool accepted;
    } cases[] = {{"every = never; data = npy(x = \"hx.npy\");", true},
                 {"every = epoch; data = npy(x = \"hx.npy\");", false},
                 {"every = never; data = npy(t = \"ht.npy\");", false},
                 {"every = never; predict = r; data = npy(x = \"hx.npy\");", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[1024];
        snprintf(
            text, sizeof text,
            "net q(batch = 16) { input x : f32[batch, 2]; input t : f32[batch, 2]; param w : f32[2] = ones; y = x * w; r = y - t; loss mse(y, t) + 0 * mean(r); }\n"
            "train { data = npy(x = \"x.npy\", t = \"t.npy\"); optimizer = sgd(lr = 0.1); }\neval { %s }",
            cases[i].block);
        Overrides flags = {.nranks = 2};
        compile_with(&c, text, strlen(text), &flags);
        expect_accepted(&c);
        evaluate_text(&c, text, &flags);
        cr_expect_eq(c.accepted, cases[i].accepted, "%s", cases[i].block);
        if (!c.accepted) cr_expect(strstr(c.diags.items.at[0].text, "npy does not give input "), "%s", c.diags.items.at[0].text);
        compiled_finish(&c);
    }
}

Test(rows, losses_whose_rows_can_be_told_apart_are_accepted) {
    static const char *const losses[] = {"mse(y, t)",  "mse(y, t, reduction = sum)",   "mean(y)",
                                         "sum(y * t)", "mse(y, t) + 0.1 * sum(w * w)", "mean(h) - mean(y) / 3",
                                         "-mean(y)",   "mse(y, t) * mean(w)"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        Compiled c;
        char text[1024];
        snprintf(text, sizeof text, HELD "eval { batch = 3; data = normal(seed = 1); steps = 1; }", losses[i]);
        char *pad = strstr(text, " last = pad;"); /* training's own loss is not weighed here */
        memmove(pad, pad + strlen(" last = pad;"), strlen(pad + strlen(" last = pad;")) + 1);
        compile(&c, text, 2);
        expect_accepted(&c);
        Overrides flags = {.nranks = 2};
        evaluate_text(&c, text, &flags);
        cr_assert(c.accepted, "%s", losses[i]);
        expect_accepted(&c);
        compiled_finish(&c);
    }
}

Test(rows, others_are_refused) {
    static const char *const losses[] = {"sqrt(mse(y, t))", "mean(sum(y, axes = [0]))", "mse(y, t) * mean(y)", "sum(w)",
                                         "mean(transpose(y))"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        Compiled c;
        char text[1024];
        snprintf(text, sizeof text, HELD "eval { batch = 3; data = normal(seed = 1); steps = 1; }", losses[i]);
        char *pad = strstr(text, " last = pad;");
        memmove(pad, pad + strlen(" last = pad;"), strlen(pad + strlen(" last = pad;")) + 1);
        compile(&c, text, 2);
        expect_accepted(&c);
        Overrides flags = {.nranks = 2};
        evaluate_text(&c, text, &flags);
        expect_error(&c, 7, c.diags.items.at[0].span.column, "rows cannot be told apart");
        compiled_finish(&c);
    }
}

Test(rows, replicas_weigh_their_own_rows) {
    Compiled c;
    evaluate(&c, "mse(y, t)", "eval { batch = 5; data = normal(seed = 1); steps = 1; predict = h; }\nparallel { mode = data_parallel; }",
             4);
    const Graph *g = &c.graph;
    const TensorType *loss = &g->values.at[g->loss].type, *weight = &g->inputs.at[2].type;
    cr_assert(loss->hidden && loss->shape.ndim == 1 && loss->shape.dim[0] == 4);
    cr_assert(weight->hidden && weight->shape.ndim == 2 && weight->shape.dim[1] == 5);
    cr_assert_str_eq(g->values.at[report_named(g, "prediction")->value].name, "h");
    compiled_finish(&c);
}
