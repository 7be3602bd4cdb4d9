#include "compile.h"
#include "ir/file.h"

Test(pipeline, a_wrong_net_is_rejected_with_diagnostics) {
    Compiled x;
    compiled_init(&x, 8, 2);
    cr_expect(!compiled_run(&x, "net n() { loss relu(nothing); }"));
    cr_expect_eq(x.c.error.code, EXIT_REJECTED);
    cr_expect_gt(x.diags.nerrors, 0);
    cr_expect_neq(access(x.output, F_OK), 0);
    compiled_finish(&x);
}

Test(pipeline, every_pass_is_timed) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    cr_expect_gt(x.c.npasses, 10);
    cr_expect_str_eq(x.c.pass[x.c.npasses - 1].name, "write");
    for (int p = 0; p < x.c.npasses; p++)
        cr_expect_geq(x.c.pass[p].seconds, 0);
    compiled_finish(&x);
}

Test(pipeline, all_levels_and_policies_prove) {
    for (int i = 0; i < NNETS; i++)
        for (int o = 0; o <= 2; o++)
            for (int p = 0; p < 3; p++)
                for (int nranks = 4; nranks <= 12; nranks += 4) {
                    Compiled x;
                    compiled_init(&x, nranks, o);
                    x.options.redistribution = (RedistributePolicy)p;
                    cr_expect(compiled_run(&x, nets[i]), "net %d, -O%d, policy %d, %d ranks: %s", i, o, p, nranks, x.c.error.text);
                    compiled_finish(&x);
                }
}

static size_t bytes_of_layers(int layers) {
    char text[600];
    snprintf(text, sizeof text,
             "cell layer(x) { param w : f32[16, 16] = normal(0.1); param b : f32[16] = zeros; return x + relu(matmul(x, w) + b); }\n"
             "net n() { input x : f32[8, 16]; h = x; for i in 0..%d { h = layer(h); } loss mean(square(h)); }\n"
             "train { data = numpy_rand(seed = 1); optimizer = adamw(lr = 0.1); }",
             layers);
    Compiled x;
    compiled(&x, text, 4, 2);
    const size_t bytes = x.arena.used_bytes;
    compiled_finish(&x);
    return bytes;
}

/* Its time is measured by tests/bench/compile.py. */
Test(pipeline, memory_grows_as_the_net_does) {
    const size_t few = bytes_of_layers(128), many = bytes_of_layers(512);
    cr_expect_lt(many, 4 * few + few / 2, "%zu bytes for 128 layers, %zu for 512", few, many);
}

/* What a pass leaves is verified: here that a node's rule is the one of its operands, which only verification looks at. */
Test(pipeline, merged_nodes_verify) {
    Compiled x;
    compiled(&x,
             "net n() { input x : f32[8, 6]; param w : f32[12] = ones;\n"
             "y = reshape(reshape(x, shape = [6, 8]), shape = [4, 12]); loss sum(y * w); }\n" TRAIN,
             4, 2);
    int reshapes = 0;
    for (int n = 0; n < x.graph->nodes.n; n++)
        reshapes += x.graph->nodes.at[n].op == OP_reshape;
    cr_expect_eq(reshapes, 1);
    compiled_finish(&x);
}

Test(pipeline, the_dumped_stages_read_back) {
    Compiled x;
    char directory[] = "/tmp/pcc-dump-XXXXXX", path[128], command[128];
    cr_assert(mkdtemp(directory) != NULL);
    compiled_init(&x, 8, 2);
    x.options.dump = true;
    x.options.dump_directory = directory;
    x.options.ndump_ranks = 1;
    x.options.dump_ranks = (int[]){5};
    cr_assert(compiled_run(&x, quickstart), "%s", x.c.error.text);
    static const char *const stages[] = {"00_parse", "05_step_parallel_begin", "07_step_parallel_end", "09_execute"};
    for (int i = 0; i < 4; i++) {
        Graph graph;
        Error error;
        char *text;
        size_t n;
        snprintf(path, sizeof path, "%s/%s.spmd", directory, stages[i]);
        cr_assert(file_read(&x.arena, path, 1 << 24, &text, &n, &error), "%s", error.text);
        cr_expect(graph_read(&graph, &x.arena, path, text, n, &error), "%s", error.text);
    }
    snprintf(path, sizeof path, "%s/rank_5/09_execute_0009.ir", directory);
    cr_expect_eq(access(path, F_OK), 0);
    snprintf(command, sizeof command, "rm -r %s", directory);
    cr_expect_eq(system(command), 0);
    compiled_finish(&x);
}

/* A strategy that no rank count fits, of an operator and of a parameter in a cell that is called three times, and one of a hint. */
Test(pipeline, wrong_strategies_in_cells_are_said_once_with_the_calls) {
    Compiled x;
    compiled_init(&x, 4, 2);
    cr_assert_not(compiled_run(&x, "cell fc(x) {\n"
                                   "    param w : f32[4, 4] = normal(0.1) shard (3, 1);\n"
                                   "    y = matmul(x, w) shard ((3, 1), (1, 1));\n"
                                   "    z = relu(y);\n"
                                   "    return z;\n"
                                   "}\n"
                                   "net n {\n"
                                   "    input x : f32[8, 4];\n"
                                   "    h = x;\n"
                                   "    for i in 0..3 { h = fc(h); }\n"
                                   "    loss sum(h);\n"
                                   "}\n"
                                   "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }\n"
                                   "hints { **.z = (8, 1); }\n"));
    static const struct {
        DiagKind kind;
        int line;
        const char *text;
    } want[] = {{DIAG_ERROR, 3, "matmul: the strategy needs 3 ranks, which does not divide 4"},
                {DIAG_HINT, 0, "((4, 1), (1, 1)) would be one for 4 ranks"},
                {DIAG_NOTE, 10, "in cell fc, called here as h.0"},
                {DIAG_ERROR, 14, "relu: the strategy needs 8 ranks, there are 4"},
                {DIAG_HINT, 0, "((4, 1)) would be one for 4 ranks"},
                {DIAG_NOTE, 4, "it is for h.0, which is here"},
                {DIAG_NOTE, 10, "in cell fc, called here as h.0"},
                {DIAG_ERROR, 2, "h.0.w: the layout needs 3 ranks, which does not divide 4"},
                {DIAG_HINT, 0, "the product of the numbers must divide 4; the ranks left over hold copies"},
                {DIAG_NOTE, 10, "in cell fc, called here as h.0"}};
    int n = sizeof want / sizeof *want;
    cr_expect_eq(x.diags.items.n, n, "%d", x.diags.items.n);
    for (int i = 0; i < n; i++) {
        const Diag *diag = &x.diags.items.at[i];
        cr_assert_lt(i, x.diags.items.n);
        cr_expect_eq(diag->kind, want[i].kind, "%d: %s", i, diag->text);
        cr_expect_eq(diag->span.line, want[i].line, "%s: line %d", diag->text, diag->span.line);
        cr_expect(strstr(diag->text, want[i].text), "%s", diag->text);
    }
    compiled_finish(&x);
}
