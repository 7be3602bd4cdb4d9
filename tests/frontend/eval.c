#include "compile.h"

#define HELD                                                                                                                                                                   \
    "net q(batch = 16, n = 4) {\n input x : f32[batch, n];\n input t : f32[batch, 2];\n param w : f32[n, 2] = normal(0.1);\n h = matmul(x, w);\n y = relu(h);\n loss %s;\n}\n" \
    "train { data = npy(x = \"x.npy\", t = \"t.npy\"); optimizer = sgd(lr = 0.1); last = pad; }\n"

/* The net of an eval block; it and the net itself must be accepted. */
static void evaluate(Compiled *c, const char *loss, const char *block, Overrides flags) {
    char text[2048], net[1024];
    snprintf(net, sizeof net, HELD, loss);
    snprintf(text, sizeof text, "%s%s", net, block);
    if (flags.nranks == 0) flags.nranks = 2;
    compile_with(c, text, strlen(text), &flags);
    expect_accepted(c);
    cr_assert(c->graph.settings.has_eval);
    Source source;
    c->accepted = frontend_read(&source, "dir/net.dsl", text, strlen(text), &flags, &c->arena, &c->diags) &&
                  frontend_eval(&source, &flags, &c->graph, &c->arena, &c->diags);
    expect_accepted(c);
}

Test(eval, its_numbers_and_data_are_its_own) {
    Compiled c;
    evaluate(&c, "mse(y, t)", "eval { every = 7; batch = 10; data = npy(x = \"hx.npy\", t = \"ht.npy\"); }", (Overrides){0});
    const Graph *g = &c.graph;
    cr_assert_eq(g->inputs.at[0].type.shape.dim[0], 10);
    cr_assert_str_eq(g->inputs.at[0].file.path, "dir/hx.npy");
    cr_assert_eq(g->settings.eval, EVAL_STEPS);
    cr_assert_eq(g->settings.eval_steps, 7);
    cr_assert_eq(g->settings.last, LAST_PAD);
    compiled_finish(&c);
}

Test(eval, is_every_epoch_or_every_so_many_steps_in_the_words_of_a_checkpoint) {
    static const struct {
        const char *every;
        EvalWhen when;
        int64_t steps;
    } cases[] = {{"epoch", EVAL_EPOCH, 0},       {"end", EVAL_END, 0},      {"never", EVAL_NEVER, 0},
                 {"100 steps", EVAL_STEPS, 100}, {"1 step", EVAL_STEPS, 1}, {"2 * 50 steps", EVAL_STEPS, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char block[256];
        snprintf(block, sizeof block, "eval { every = %s; data = normal(seed = 1); steps = 2; }", cases[i].every);
        evaluate(&c, "mse(y, t)", block, (Overrides){0});
        cr_assert_eq(c.graph.settings.eval, cases[i].when);
        if (cases[i].when == EVAL_STEPS) cr_assert_eq(c.graph.settings.eval_steps, cases[i].steps);
        compiled_finish(&c);
    }
}

Test(eval, numbers_of_the_block_go_before_those_of_the_command_line) {
    static const char *const names[] = {"batch", "n"};
    static const int64_t values[] = {32, 6};
    Compiled c;
    evaluate(&c, "mse(y, t)", "eval { batch (batch = 3); data = normal(seed = 1); steps = 2; }",
             (Overrides){.nranks = 1, .ndefines = 2, .define_name = names, .define_value = values});
    cr_assert_eq(c.graph.inputs.at[0].type.shape.dim[0], 3);
    cr_assert_eq(c.graph.inputs.at[0].type.shape.dim[1], 6);
    cr_assert_eq(c.graph.settings.steps, 2);
    compiled_finish(&c);
}

Test(eval, any_number_of_the_head_may_be_another) {
    static const struct {
        const char *numbers;
        double scale;
    } cases[] = {{"scale = 0;", 0}, {"scale = 0.5; batch = 3;", 0.5}, {"batch (scale = -2);", -2}, {"scale = 3 / 2.0;", 1.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[1024];
        snprintf(text, sizeof text,
                 "net q(batch = 16, scale = 1) { input x : f32[batch, 4]; param w : f32[4] = [1, 2, 3, 4]; loss mean(x * w * scale); }\n"
                 "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }\neval { %s data = normal(seed = 1); steps = 1; }",
                 cases[i].numbers);
        Overrides flags = {.nranks = 1};
        compile_with(&c, text, strlen(text), &flags);
        expect_accepted(&c);
        Source source;
        c.accepted = frontend_read(&source, "net.dsl", text, strlen(text), &flags, &c.arena, &c.diags) &&
                     frontend_eval(&source, &flags, &c.graph, &c.arena, &c.diags);
        expect_accepted(&c);
        bool found = false;
        for (int n = 0; n < c.graph.nodes.n; n++) {
            const Node *node = &c.graph.nodes.at[n];
            found = found || (node->op == OP_constant && !node->data && node->attr[0].f == cases[i].scale);
        }
        cr_expect(found, "%s", cases[i].numbers);
        compiled_finish(&c);
    }
}

Test(eval, states_are_the_nets_in_their_order) {
    Compiled c, e;
    char text[1024];
    snprintf(text, sizeof text, HELD, "mse(y, t)");
    compile(&c, text, 2);
    evaluate(&e, "mse(y, t)", "eval { batch = 5; data = normal(seed = 1); steps = 1; }", (Overrides){0});
    cr_assert_eq(c.graph.states.n, e.graph.states.n);
    for (int s = 0; s < c.graph.states.n; s++) {
        cr_assert_str_eq(c.graph.states.at[s].name, e.graph.states.at[s].name);
        cr_assert(type_equal(&c.graph.states.at[s].type, &e.graph.states.at[s].type));
    }
    compiled_finish(&c);
    compiled_finish(&e);
}
