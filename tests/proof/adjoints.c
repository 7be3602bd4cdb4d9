/* The adjoint of each operator against its derivative, at sizes made small. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/proof/trials.h"

static bool check(const Trial *trial, int *n, char why[512]) {
    TrialGraph t;
    trial_open(&t, trial, F32);
    bool ok = field_operator_gradients(&t.graph, 1, n, why, 512);
    trial_close(&t);
    return ok;
}

Test(proof_adjoints, every_operator_with_an_adjoint_is_its_derivatives) {
    bool tried[NOPS] = {false};
    for (int i = 0; i < ntrials; i++) {
        char why[512];
        int n = 0;
        if (!op_table[trials[i].op].adjoint) continue;
        TrialGraph graph;
        trial_open(&graph, &trials[i], F32);
        bool real = dtype_is_float(graph.graph.values.at[graph.node->out[0]].type.dtype);
        trial_close(&graph);
        if (!real) continue;
        cr_expect(check(&trials[i], &n, why), "trial %d, %s", i, why);
        cr_expect_eq(n, 1);
        tried[trials[i].op] = true;
    }
    for (int op = 0; op < NOPS; op++)
        cr_expect_eq(tried[op], op_table[op].adjoint != NULL, "%s", op_table[op].name);
}

/* Sizes at which whole tensors could not be evaluated. */
Test(proof_adjoints, large_operators_are_checked_at_small_sizes) {
    enum { K = 1 << 20 };
    const Trial large[] = {
        {.op = OP_matmul, .nin = 2, .in = {{3, {512, K, 48}}, {2, {48, 3 * 32768}}}},
        {.op = OP_reshape, .nin = 1, .in = {{3, {K, K, 16}}}, .attr = {{.given = true, .n = 2, .ints = {(int64_t)K * K, 16}}}},
        {.op = OP_reshape, .nin = 1, .in = {{2, {12 * (int64_t)K, 35}}}, .attr = {{.given = true, .n = 3, .ints = {K, 60, 7}}}},
        {.op = OP_slice,
         .nin = 1,
         .in = {{2, {K, K}}},
         .attr = {{.given = true, .n = 2, .ints = {0, 1000}}, {.given = true, .n = 2, .ints = {K, -1000}}}},
        {.op = OP_concat, .nin = 3, .in = {{2, {K, K}}, {2, {7, K}}, {2, {K, K}}}},
        {.op = OP_split, .nin = 1, .in = {{2, {K, 3 * K}}}, .attr = {{.given = true, .i = 3}, {.given = true, .i = 1}}},
        {.op = OP_softmax, .nin = 1, .in = {{2, {K, K}}}},
        {.op = OP_max, .nin = 1, .in = {{2, {K, K}}}, .attr = {{.given = true, .n = 1, .ints = {1}}}},
        {.op = OP_mean, .nin = 1, .in = {{3, {4096, K, 64}}}, .attr = {{.given = true, .n = 2, .ints = {0, 2}}}, .hidden = false},
        {.op = OP_replicate, .nin = 1, .in = {{2, {K, 65536}}}, .attr = {{.given = true, .i = 64}, {.given = true, .i = 1}}},
        {.op = OP_add, .nin = 2, .in = {{3, {64, K, 65536}}, {2, {64, 65536}}}, .hidden = true},
        {.op = OP_dot_product_attention,
         .nin = 3,
         .in = {{3, {64, K, 128}}, {3, {64, K, 128}}, {3, {64, K, 256}}},
         .attr = {{.given = true, .i = 1}}},
        {.op = OP_dot_product_attention,
         .nin = 3,
         .in = {{4, {64, 8, K, 128}}, {3, {64, 5000, 128}}, {3, {64, 5000, 128}}},
         .hidden = true},
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        char why[512];
        int n = 0;
        cr_expect(check(&large[i], &n, why), "%s: %s", op_table[large[i].op].name, why);
        cr_expect_eq(n, 1);
    }
}

/* Patterns that become the same at small sizes, and operands that are one value. */
Test(proof_adjoints, each_pattern_is_checked_once) {
    Arena arena;
    Graph graph;
    char why[512];
    int n, x[4];
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph.nranks = 1;
    for (int i = 0; i < 4; i++) {
        Input input = {.name = arena_printf(&arena, "x%d", i), .type = {F32, false, {2, {100, 100 + (i == 3)}}}};
        x[i] = graph_input(&graph, graph_add_input(&graph, input));
    }
    graph_emit(&graph, OP_mul, (int[]){x[0], x[1]}, 2, NULL, "a", (Span){0});
    graph_emit(&graph, OP_mul, (int[]){x[1], x[2]}, 2, NULL, "b", (Span){0});
    graph_emit(&graph, OP_mul, (int[]){x[3], x[3]}, 2, NULL, "c", (Span){0});
    cr_assert(field_operator_gradients(&graph, 1, &n, why, sizeof why), "%s", why);
    cr_assert_eq(n, 2); /* a product of two values, and a square */
    graph_emit(&graph, OP_mul, (int[]){x[0], x[0]}, 2, NULL, "d", (Span){0});
    cr_assert(field_operator_gradients(&graph, 1, &n, why, sizeof why), "%s", why);
    cr_assert_eq(n, 2);
    arena_finish(&arena);
}

/* matmul(w, w): rows, columns and what is summed are of one size, also when they are made small. */
Test(proof_adjoints, a_value_that_is_two_operands_ties_its_letters) {
    static const struct {
        OpCode op;
        Attr attr[2];
    } cases[] = {{OP_matmul, {{0}}}, {OP_matmul, {{.given = true, .i = 1}, {0}}}, {OP_mul, {{0}}}, {OP_concat, {{.given = true, .i = 1}}}};
    Arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Graph graph;
        char why[512];
        int n;
        Attr attr[MAX_ATTRS] = {cases[i].attr[0], cases[i].attr[1]};
        graph_init(&graph, &arena);
        graph.nranks = 1;
        int x = graph_input(&graph, graph_add_input(&graph, (Input){.name = "x", .type = {F32, false, {3, {5, 100, 100}}}}));
        graph_emit(&graph, cases[i].op, (int[]){x, x}, 2, attr, "y", (Span){0});
        cr_expect(field_operator_gradients(&graph, 1, &n, why, sizeof why), "%s: %s", op_table[cases[i].op].name, why);
        cr_expect_eq(n, 1);
    }
    arena_finish(&arena);
}

/* attention(x, x, x) and the like: queries and keys, and widths, are then of one size. */
Test(proof_adjoints, attention_of_one_value_is_made_small) {
    static const int operands[][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0}};
    Arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        for (int masked = 0; masked < 2; masked++) {
            Graph graph;
            char why[512];
            int n, in[4];
            graph_init(&graph, &arena);
            graph.nranks = 1;
            const Input input = {.name = "x", .type = {F32, false, {3, {5, 65536, 128}}}},
                        mask = {.name = "mask", .type = {BOOL, false, {2, {65536, 65536}}}};
            const int x[2] = {graph_input(&graph, graph_add_input(&graph, input)), graph_input(&graph, graph_add_input(&graph, input))};
            for (int k = 0; k < 3; k++)
                in[k] = x[operands[i][k]];
            in[3] = graph_input(&graph, graph_add_input(&graph, mask));
            graph_emit(&graph, OP_dot_product_attention, in, 3 + masked, NULL, "h", (Span){0});
            cr_expect(field_operator_gradients(&graph, 1, &n, why, sizeof why), "%zu, %d: %s", i, masked, why);
            cr_expect_eq(n, 1);
        }
    arena_finish(&arena);
}
