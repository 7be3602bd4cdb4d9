/* Rules of operators that look elements up by index. A rule in one line: "[8:0 6:1], [8:0] -> [8:0]", sizes with their factors. */
#include "ir/lookup.h"
#include "ir/rules.h"

#include "tests/ir/rule_text.h"

#include <criterion/criterion.h>
#include <string.h>

Test(lookup, pick_contracts_the_dimension_that_is_looked_up) {
    expect(OP_pick, TYPES(T(F32, 8, 6), T(I32, 8)), NULL, "[8:0 6:1], [8:0] -> f32[8:0] of 6");
    expect(OP_pick, TYPES(T(F64, 4, 6, 3), T(I32, 4, 6)), NULL, "[4:0 6:1 3:2], [4:0 6:1] -> f64[4:0 6:1] of 3");
    expect(OP_pick_grad, TYPES(T(F64, 4, 6), T(I32, 4, 6)), NUMBER(3), "[4:0 6:1], [4:0 6:1] -> f64[4:0 6:1 3:2] of 3");
    expect(OP_pick, TYPES(T(F32, 8, 6), T(I32, 6)), NULL, "%1 is [6], needs [8]: an index for each row of %0");
    expect(OP_pick, TYPES(T(F32, 8, 6), T(I32, 1)), NULL, "%1 is [1], needs [8]: an index for each row of %0");
    expect(OP_pick_grad, TYPES(T(F64, 4), T(I32, 4)), NUMBER(0), "classes is 0, must be at least 1");
}

Test(lookup, tables_contract_their_rows) {
    const Attr four[MAX_ATTRS] = {{.given = true}, {.given = true}, {.given = true}, {.given = true}};
    expect(OP_embedding, TYPES(T(F32, 8, 6), T(I64, 4, 3)), NULL, "[8:0 6:1], [4:2 3:3] -> f32[4:2 3:3 6:1] of 8");
    expect(OP_embedding_grad, TYPES(T(F32, 4, 3, 6), T(I32, 4, 3)), NUMBER(8), "[4:0 3:1 6:2], [4:0 3:1] -> f32[8:3 6:2] of 8");
    expect(OP_embedding_sgd, TYPES(T(F32, 8, 6), T(F32, 4, 3, 6), T(I64, 4, 3), (TensorType){.dtype = F32}), NUMBER(0),
           "[8:0 6:1], [4 3 6:1], [4 3], [] -> f32[8:0 6:1] of 8");
    expect(OP_lazy_adam, TYPES(T(F32, 8, 6), T(F32, 8, 6), T(F32, 8, 6), T(F32, 4, 6), T(I32, 4), (TensorType){.dtype = F32}), four,
           "[8:0 6:1], [8:0 6:1], [8:0 6:1], [4 6:1], [4], [] -> f32[8:0 6:1] of 8");
    expect(OP_embedding_sgd, TYPES(T(F32, 8, 6), T(F32, 4, 5), T(I32, 4)), NUMBER(0), "%2 is no index of the rows %1 of %0");
    expect(OP_embedding_sgd, TYPES(T(F32, 8, 6, 1), T(F32, 4, 5), T(I32, 4)), NUMBER(0), "%0 has 3 dimensions, a table of rows has 2");
    expect(OP_lazy_adam, TYPES(T(F32, 8, 6), T(F32, 8, 6), T(F32, 8, 5), T(F32, 4, 6), T(I32, 4), (TensorType){.dtype = F32}), four,
           "%2 is of another shape than %0");
    expect(OP_embedding, TYPES(T(F32, 8), T(I32, 4)), NULL, "%0 has 1 dimension, a table of rows has 2");
    expect(OP_embedding_grad, TYPES(T(F32, 4, 3, 6), T(I32, 3, 4)), NUMBER(8), "%1 is no index of the rows of %0");
    expect(OP_one_hot, TYPES(T(I32, 4)), NUMBER(8), "[4:0] -> f32[4:0 8:1] of 8");
    expect(OP_one_hot, TYPES(T(I32, 4)), ((Attr[MAX_ATTRS]){{.given = true, .i = 8}, {.given = true, .text = "i64"}}),
           "[4:0] -> i64[4:0 8:1] of 8");
    expect(OP_one_hot, TYPES(T(I32, 4)), NULL, "depth is missing");
}

Test(lookup, places_lack_the_axis) {
    expect(OP_first, TYPES(T(BOOL, 4, 6, 3)), NUMBER(-2), "[4:0 6:1 3:2] -> i32[4:0 3:2]");
    expect(OP_argmax, TYPES(T(F64, 4, 6)), NULL, "[4:0 6:1] -> i32[4:0]");
    expect(OP_argmax, TYPES(T(F64, 4, 6)), NUMBER(2), "axis 2 is out of range: %0 has 2 dimensions");
    expect(OP_first, TYPES(T(F32, 4)), NULL, "%0 is f32, x of first must be bool");
}

Test(lookup, element_types_are_those_of_the_row) {
    expect(OP_less, TYPES(T(I64, 4), T(I64, 4)), NULL, "[4:0], [4:0] -> bool[4:0]");
    expect(OP_less, TYPES(T(BOOL, 4), T(BOOL, 4)), NULL, "%0 is bool, less takes f32, f64, i32, i64, f16 or bf16");
    expect(OP_equal, TYPES(T(BOOL, 4), T(BOOL, 4)), NULL, "[4:0], [4:0] -> bool[4:0]");
    expect(OP_where, TYPES(T(BOOL, 4, 1), T(F32, 3), T(F32, 4, 3)), NULL, "[4:0 1], [3:1], [4:0 3:1] -> f32[4:0 3:1]");
    expect(OP_where, TYPES(T(F32, 4), T(F32, 4), T(F32, 4)), NULL, "%0 is f32, cond of where must be bool");
    expect(OP_where, TYPES(T(BOOL, 4), T(F32, 4), T(F64, 4)), NULL, "operand types differ: %1 is f32, %2 is f64");
    expect(OP_cast, TYPES(T(F32, 4)), WORD("bool"), "[4:0] -> bool[4:0]");
    expect(OP_cast, TYPES(T(F32, 4)), WORD("f8"), "to is f32, f64, i32, i64, bool, f16 or bf16, not f8");
    expect(OP_cast, TYPES(T(F32, 4)), NULL, "to is missing");
}

Test(lookup, cross_entropy_reduces_or_leaves_the_rows) {
    TensorType in[] = {T(F32, 8, 6), T(I32, 8)};
    expect(OP_cross_entropy, in, 2, NULL, "[8:0 6:1], [8:0] -> f32[] of 6");
    expect(OP_cross_entropy, in, 2, WORD("sum"), "[8:0 6:1], [8:0] -> f32[] of 6");
    expect(OP_cross_entropy, in, 2, WORD("none"), "[8:0 6:1], [8:0] -> f32[8:0] of 6");
    expect(OP_cross_entropy, in, 2, WORD("all"), "reduction is mean, sum or none, not all");
    in[1] = T(I32, 8, 6);
    expect(OP_cross_entropy, in, 2, NULL, "%1 is [8, 6], needs [8]: an index for each row of %0");
}

Test(lookup, an_index_is_an_integer_and_what_it_is_for_is_not) {
    expect(OP_pick, TYPES(T(F32, 8, 6), T(F32, 8)), NULL, "%1 is f32, index of pick must be i32 or i64");
    expect(OP_pick, TYPES(T(I32, 8, 6), T(I32, 8)), NULL, "%0 is i32, pick takes f32, f64, f16 or bf16");
    expect(OP_cross_entropy, TYPES(T(F32, 8, 6), T(F32, 8)), NULL, "%1 is f32, label of cross_entropy must be i32 or i64");
}

static void expect_range(const Graph *graph, int value, bool computed, int64_t begin, int64_t end) {
    const IndexRange range = graph_index_range(graph, value, computed);
    cr_expect(range.begin == begin && range.end == end, "%s is in [%lld, %lld), expected [%lld, %lld)", graph->values.at[value].name,
              (long long)range.begin, (long long)range.end, (long long)begin, (long long)end);
}

/* The least range of all uses, also of elements that were moved first. */
Test(lookup, what_an_input_is_an_index_of_is_found) {
    Arena arena;
    Graph graph;
    arena_init(&arena);
    graph_init(&graph, &arena);
    int label = graph_input(&graph, graph_add_input(&graph, (Input){.name = "label", .type = T(I32, 2, 4)}));
    int other = graph_input(&graph, graph_add_input(&graph, (Input){.name = "other", .type = T(I32, 8)}));
    int x = graph_constant(&graph, T(F32, 8, 6), NULL, 1, "x", (Span){0}),
        y = graph_constant(&graph, T(F32, 2, 4, 5), NULL, 1, "y", (Span){0});
    Attr shape[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {8}}};
    expect_range(&graph, label, true, 0, 0);
    int row = graph_emit(&graph, OP_reshape, &label, 1, shape, "row", (Span){0});
    graph_emit(&graph, OP_cross_entropy, (int[]){x, row}, 2, NULL, "loss", (Span){0});
    expect_range(&graph, label, false, 0, 6);
    graph_emit(&graph, OP_pick, (int[]){y, label}, 2, NULL, "picked", (Span){0});
    expect_range(&graph, label, false, 0, 5);
    expect_range(&graph, row, false, 0, 6);
    int sum = graph_emit(&graph, OP_add, (int[]){other, row}, 2, NULL, "sum", (Span){0});
    graph_emit(&graph, OP_pick, (int[]){x, sum}, 2, NULL, "picked", (Span){0});
    expect_range(&graph, other, true, 0, 0);
    arena_finish(&arena);
}

/* What is looked up is computed from x: an index into 6 elements. */
typedef struct Computed {
    Arena arena;
    Graph graph;
    int x, value;
} Computed;

static void computed_open(Computed *c, DType dtype) {
    arena_init(&c->arena);
    graph_init(&c->graph, &c->arena);
    c->x = c->value = graph_input(&c->graph, graph_add_input(&c->graph, (Input){.name = "x", .type = T(dtype, 8)}));
}

static void compute(Computed *c, OpCode op, bool number_first, double number) {
    int constant = graph_constant(&c->graph, (TensorType){.dtype = c->graph.values.at[c->value].type.dtype}, NULL, number, "c", (Span){0});
    c->value = graph_emit(&c->graph, op, number_first ? (int[]){constant, c->value} : (int[]){c->value, constant}, op == OP_neg ? 1 : 2,
                          NULL, "y", (Span){0});
}

static void look_up(Computed *c) {
    int table = graph_constant(&c->graph, T(F32, 8, 6), NULL, 1, "t", (Span){0});
    graph_emit(&c->graph, OP_pick, (int[]){table, c->value}, 2, NULL, "picked", (Span){0});
}

Test(lookup, an_index_is_followed_through_sums_differences_and_products_with_numbers) {
    static const struct {
        OpCode op;
        bool number_first;
        double number;
        int64_t begin, end;
    } rows[] = {{OP_add, false, 0, 0, 6}, {OP_add, true, 2, -2, 4},  {OP_add, false, -3, 3, 9},  {OP_sub, false, 1, 1, 7},
                {OP_sub, true, 5, 0, 6},  {OP_sub, true, 0, -5, 1},  {OP_mul, false, 1, 0, 6},   {OP_mul, true, 2, 0, 3},
                {OP_mul, false, 7, 0, 1}, {OP_mul, true, -1, -5, 1}, {OP_mul, false, -4, -1, 1}, {OP_mul, false, 0, 0, 0},
                {OP_neg, false, 0, -5, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Computed c;
        computed_open(&c, i % 2 ? I64 : I32);
        compute(&c, rows[i].op, rows[i].number_first, rows[i].number);
        look_up(&c);
        expect_range(&c.graph, c.x, true, rows[i].begin, rows[i].end);
        expect_range(&c.graph, c.x, false, 0, 0);
        arena_finish(&c.arena);
    }
}

/* 2 (-x + 4) - 1 is in [0, 6) where -x + 4 is 1, 2 or 3. */
Test(lookup, a_chain_of_them_is_followed_and_what_overflows_says_nothing) {
    Computed c;
    computed_open(&c, I64);
    compute(&c, OP_neg, false, 0);
    compute(&c, OP_add, false, 4);
    Attr to = {.given = true, .text = "i32"};
    c.value = graph_emit(&c.graph, OP_cast, &c.value, 1, (Attr[MAX_ATTRS]){to}, "y", (Span){0});
    compute(&c, OP_mul, true, 2);
    compute(&c, OP_sub, false, 1);
    look_up(&c);
    expect_range(&c.graph, c.x, true, 1, 4);
    arena_finish(&c.arena);
    computed_open(&c, I32);
    int condition = graph_constant(&c.graph, T(BOOL, 8), NULL, 1, "b", (Span){0}),
        none = graph_constant(&c.graph, T(I32, 8), NULL, 0, "n", (Span){0});
    compute(&c, OP_sub, false, 1);
    c.value = graph_emit(&c.graph, OP_where, (int[]){condition, none, c.value}, 3, NULL, "y", (Span){0});
    look_up(&c);
    expect_range(&c.graph, c.x, true, 1, 7);
    arena_finish(&c.arena);
    computed_open(&c, I64);
    compute(&c, OP_add, false, 4503599627370496.0);
    compute(&c, OP_add, false, 4503599627370496.0);
    look_up(&c);
    expect_range(&c.graph, c.x, true, 0, 0);
    arena_finish(&c.arena);
    computed_open(&c, I32);
    compute(&c, OP_sub, false, 2147483645);
    look_up(&c);
    expect_range(&c.graph, c.x, true, 2147483645, 2147483648);
    arena_finish(&c.arena);
}

/* Found once: uses that go take nothing from an input. Uses that no number suits are not all heard. */
Test(lookup, an_input_keeps_the_range_that_was_found) {
    Computed c;
    computed_open(&c, I32);
    look_up(&c);
    int first = c.graph.nodes.n;
    int wide = graph_constant(&c.graph, T(F32, 8, 3), NULL, 1, "w", (Span){0});
    graph_emit(&c.graph, OP_pick, (int[]){wide, c.x}, 2, NULL, "unused", (Span){0});
    graph_find_indices(&c.graph);
    c.graph.nodes.n = first;
    cr_assert(c.graph.inputs.at[0].index.begin == 0 && c.graph.inputs.at[0].index.end == 3);
    compute(&c, OP_sub, false, 9);
    look_up(&c);
    const IndexRange either = graph_index_range(&c.graph, c.x, true);
    cr_assert((either.begin == 0 && either.end == 6) || (either.begin == 9 && either.end == 15));
    arena_finish(&c.arena);
}
