#include "compile.h"

static const char quickstart[] = "net quickstart(batch = 16, in_dim = 32, hidden_dim = 16, out_dim = 16) {\n"
                                 "    input x     : f32[batch, in_dim];\n"
                                 "    input label : f32[batch, out_dim];\n"
                                 "    param w     : f32[in_dim, hidden_dim]  = normal(0.01);\n"
                                 "    param w2    : f32[hidden_dim, out_dim] = normal(0.01);\n"
                                 "\n"
                                 "    h = matmul(x, w) shard ((2, 4), (4, 1));\n"
                                 "    a = relu(h);\n"
                                 "    y = matmul(a, w2);\n"
                                 "\n"
                                 "    loss mse(y, label);\n"
                                 "}\n" TRAIN;

Test(lower, the_quick_start_is_eight_nodes_in_the_order_of_the_text) {
    static const OpCode want[] = {OP_input, OP_input, OP_read, OP_read, OP_matmul, OP_relu, OP_matmul, OP_mse};
    Compiled c;
    compile(&c, quickstart, 8);
    expect_accepted(&c);
    cr_assert_eq(c.graph.nodes.n, 8);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(c.graph.nodes.at[i].op, want[i]);
    cr_assert_str_eq(c.graph.name, "quickstart");
    cr_assert_str_eq(c.graph.file, "dir/net.dsl");
    cr_assert_eq(c.graph.nranks, 8);
    cr_assert_eq(c.graph.dims.n, 4);
    cr_assert_eq(c.graph.loss, c.graph.nodes.at[7].out[0]);
    cr_assert_str_eq(c.graph.values.at[c.graph.loss].name, "loss");
    cr_assert(c.graph.states.at[0].trainable);
    cr_assert_eq(node_named(&c.graph, "h")->span.line, 7);
    cr_assert_eq(node_named(&c.graph, "h")->span.column, 9);
    cr_assert_eq(node_named(&c.graph, "h")->hint->nin, 2);
    compiled_finish(&c);
}

Test(lower, definitions_override_numbers_of_the_head) {
    static const char *const names[] = {"batch", "out_dim", "batch"};
    static const int64_t values[] = {3, 5, 64};
    Compiled c;
    Overrides flags = {.nranks = 8, .ndefines = 3, .define_name = names, .define_value = values};
    compile_with(&c, quickstart, strlen(quickstart), &flags);
    expect_accepted(&c);
    expect_type(&c.graph, "y", "f32[64, 5]");
    cr_assert_eq(c.graph.dims.at[0].size, 64);
    compiled_finish(&c);
}

Test(lower, numbers_of_the_head_may_build_on_each_other) {
    static const char *const names[] = {"a"};
    static const int64_t values[] = {5};
    static const char text[] = "net q(a = 2, b = a * 3, c) {\n input x : f32[b];\n loss mean(x);\n}\n" TRAIN;
    Compiled c;
    Overrides flags = {.nranks = 1, .ndefines = 1, .define_name = names, .define_value = values};
    compile_with(&c, text, strlen(text), &flags);
    expect_error(&c, 1, 25, "c has no value");
    expect_type(&c.graph, "x", "f32[15]");
    compiled_finish(&c);
}

Test(lower, an_unknown_definition_is_an_error_with_the_nearest) {
    static const char *const names[] = {"bach"};
    static const int64_t values[] = {3};
    Compiled c;
    Overrides flags = {.nranks = 8, .ndefines = 1, .define_name = names, .define_value = values};
    compile_with(&c, quickstart, strlen(quickstart), &flags);
    expect_error(&c, 1, 1, "net quickstart has no number 'bach'");
    cr_assert_str_eq(c.diags.items.at[1].text, "did you mean batch?");
    compiled_finish(&c);
}

Test(lower, blocks_come_in_any_order) {
    Compiled c;
    compile(&c, "parallel { mode = auto; }\n" TRAIN "net q { input x : f32[4]; loss mean(x); }\n", 2);
    expect_accepted(&c);
    compiled_finish(&c);
}

Test(lower, data_parallel_hides_the_replicas_and_enters_parameters_and_constants_once) {
    Compiled c;
    Overrides flags = {.nranks = 2, .replicas = 4, .mode = "data_parallel", .gradients = "sum"};
    static const char text[] = NET("    const k : f32[8] = ones;\n    h = matmul(x, w) * k;\n    g = 2 * matmul(x, w) + k;");
    compile_with(&c, text, strlen(text), &flags);
    expect_accepted(&c);
    expect_type(&c.graph, "x", "f32[4 | 16, 32]");
    expect_type(&c.graph, "w", "f32[32, 8]");
    expect_type(&c.graph, "w.replicas", "f32[4 | 32, 8]");
    expect_type(&c.graph, "k.replicas", "f32[4 | 8]");
    expect_type(&c.graph, "h", "f32[4 | 16, 8]");
    expect_type(&c.graph, "loss", "f32[4 |]");
    cr_assert_eq(c.graph.inputs.at[0].type.hidden, true);
    cr_assert_eq(c.graph.states.at[0].type.hidden, false);
    int nreplicate = 0;
    for (int i = 0; i < c.graph.nodes.n; i++)
        nreplicate += c.graph.nodes.at[i].op == OP_replicate;
    cr_assert_eq(nreplicate, 3, "w, k and the number 2");
    const Node *node = node_named(&c.graph, "w.replicas");
    cr_assert_eq(node->attr[0].i, 4);
    cr_assert_eq(node->attr[1].i, 0, "gradients = sum");
    compiled_finish(&c);
}

Test(lower, strategies_have_no_effect_in_data_parallel_and_one_warning_says_so) {
    Compiled c;
    Overrides flags = {.nranks = 8, .mode = "data_parallel"};
    compile_with(&c, quickstart, strlen(quickstart), &flags);
    expect_accepted(&c);
    cr_assert_eq(c.diags.nwarnings, 1);
    cr_assert_null(node_named(&c.graph, "h")->hint);
    compiled_finish(&c);
}

Test(lower, the_loss_is_one_real_number) {
    static const struct {
        const char *loss;
        int line, column;
        const char *error;
    } cases[] = {{"", 1, 5, "net q has no loss"},
                 {"loss x;", 3, 6, "the loss must be a single number, and this is f32[4]"},
                 {"loss 3;", 3, 6, "depends on nothing"},
                 {"const n : i32 = 1; loss n;", 3, 25, "the loss must be f32 or f64"},
                 {"loss mean(x);\nloss sum(x);", 4, 1, "a second loss"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, "net q {\ninput x : f32[4];\n%s\n}\n" TRAIN, cases[i].loss);
        compile(&c, text, 2);
        expect_error(&c, cases[i].line, cases[i].column, cases[i].error);
        compiled_finish(&c);
    }
}

Test(lower, a_file_has_one_net_and_one_train_block) {
    Compiled c;
    compile(&c, "", 2);
    expect_error(&c, 1, 1, "there is no net");
    compiled_finish(&c);
    compile(&c, "net q { input x : f32[4]; loss mean(x); }", 2);
    expect_error(&c, 1, 5, "there is no train block");
    compiled_finish(&c);
    compile(&c, NET("") "net r { }", 2);
    expect_error(&c, 9, 1, "a second net block");
    compiled_finish(&c);
    compile(&c, NET("") "parallel { }\nparallel { }", 2);
    expect_error(&c, 10, 1, "a second parallel block");
    compiled_finish(&c);
}

Test(lower, declarations_are_complete) {
    static const struct {
        const char *statement;
        int column;
        const char *error;
    } cases[] = {{"param v = zeros;", 11, "v needs a type"},
                 {"param v : f32[4];", 11, "v has no initial value"},
                 {"const v : f32[4];", 11, "v has no value"},
                 {"input v : f32[4] = zeros;", 24, "an input has no initial value"},
                 {"const v : f32[4] = normal(1);", 24, "a constant is zeros, ones, causal(..), a literal or file(\"c.npy\")"},
                 {"const v : f32[4] = ones shard (4);", 29, "a constant is not sharded"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, NET("    %s"), cases[i].statement);
        compile(&c, text, 2);
        expect_error(&c, 5, cases[i].column, cases[i].error);
        compiled_finish(&c);
    }
}

Test(lower, memory_is_linear_in_the_text) {
    double per_byte[2];
    for (int k = 0; k < 2; k++) {
        int n = k ? 8000 : 2000;
        Text text = {0};
        text_printf(&text, "net q {\n input h0 : f32[4];\n");
        for (int i = 0; i < n; i++)
            text_printf(&text, " h%d = relu(h%d);\n", i + 1, i);
        text_printf(&text, " loss mean(h%d);\n}\n" TRAIN, n);
        Compiled c;
        compile(&c, text.at, 8);
        expect_accepted(&c);
        per_byte[k] = (double)c.arena.used_bytes / (double)text.n;
        compiled_finish(&c);
        text_finish(&text);
    }
    cr_assert_lt(per_byte[1], 1.7 * per_byte[0], "%g and %g bytes a byte", per_byte[0], per_byte[1]);
}
