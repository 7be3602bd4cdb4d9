/* Which layouts an operator takes and gives: partial sums above all. */
#include "proof/internal.h"
#include <criterion/criterion.h>
#include <string.h>

#include "tests/two_results.h"

/* One node of operands [8, 8] and, where `row` says so, a second one [8]. */
typedef struct Fixture {
    Arena arena;
    Graph graph;
    Letters letters;
    const Node *node;
} Fixture;

static void begin(Fixture *f, OpCode op, int nin, bool row,
                  const Attr *attr) { /* put has an index [8], a loss labels [8] and numbers [8, 1] */
    arena_init(&f->arena);
    graph_init(&f->graph, &f->arena);
    f->graph.nranks = 8;
    int in[MAX_IN];
    for (int i = 0; i < nin; i++) {
        TensorType type = {.dtype = F32, .shape = {2, {8, 8}}};
        if (row && i == 1) type.shape = (Shape){1, {8}};
        if ((op == OP_put || op == OP_cross_entropy_rows_grad) && i == 2) type.shape = (Shape){1, {8}};
        if (op == OP_cross_entropy_rows_grad && i > 2) type.shape = (Shape){2, {8, 1}};
        if (i > 0 && op_type(op, false, i) == 'i') type.dtype = I32;
        in[i] = graph_constant(&f->graph, type, NULL, 1, NULL, (Span){0});
    }
    RuleError error;
    int id = graph_add(&f->graph, op, in, nin, attr, NULL, (Span){0}, &error);
    cr_assert(id >= 0, "%s: %s", op_table[op].name, error.text);
    f->node = &f->graph.nodes.at[id];
    char why[512];
    cr_assert(node_letters(&f->graph, f->node, &f->letters, why, sizeof why), "%s: %s", op_table[op].name, why);
}

static bool fits(Fixture *f, const char *const *texts) {
    Layout layouts[MAX_IN + MAX_OUT];
    const Layout *in[MAX_IN], *out[MAX_OUT];
    char why[512];
    for (int i = 0; i < f->node->nin + f->node->nout; i++) {
        const char *at = texts[i];
        bool hidden;
        cr_assert(layout_read(&at, &layouts[i], &hidden), "%s", texts[i]);
        if (i < f->node->nin)
            in[i] = &layouts[i];
        else
            out[i - f->node->nin] = &layouts[i];
    }
    return kernel_check(&f->graph, f->node, &f->letters, in, out, why, sizeof why);
}

#define P "[- -] +sum(8@1)"
#define W "[- -]"

/* Whether the operator, given operands that owe a sum or not, gives a result that owes it. */
typedef struct Row {
    OpCode op;
    int nin;
    const char *layouts[3]; /* operands, then the result */
    bool legal;
} Row;

Test(proof_operators, partial_sums_enter_where_the_operator_is_linear_in_them) {
    static const Row rows[] = {
        {OP_relu, 1, {P, P}, false},
        {OP_relu, 1, {W, W}, true},
        {OP_relu, 1, {P, W}, false},
        {OP_tanh, 1, {P, P}, false},
        {OP_exp, 1, {P, P}, false},
        {OP_log, 1, {P, P}, false},
        {OP_sqrt, 1, {P, P}, false},
        {OP_neg, 1, {P, P}, true},
        {OP_neg, 1, {P, W}, false},
        {OP_add, 2, {P, P, P}, true},
        {OP_add, 2, {P, W, P}, false},
        {OP_sub, 2, {W, P, P}, false},
        {OP_mul, 2, {P, W, P}, true},
        {OP_mul, 2, {W, P, P}, true},
        {OP_mul, 2, {P, P, P}, false},
        {OP_div, 2, {P, W, P}, true},
        {OP_div, 2, {W, P, P}, false},
        {OP_div, 2, {P, P, P}, false},
        {OP_matmul, 2, {P, W, P}, true},
        {OP_matmul, 2, {P, P, P}, false},
        {OP_matmul, 2, {W, W, P}, false},
        {OP_relu_grad, 2, {W, P, P}, true},
        {OP_relu_grad, 2, {P, W, P}, false},
        {OP_tanh_grad, 2, {P, P, P}, false},
        {OP_sqrt_grad, 2, {P, W, P}, false},
        {OP_transpose, 1, {P, P}, true},
        {OP_transpose, 1, {P, W}, false},
        {OP_add, 2, {P, "[- -] +sum(4@1)", P}, false},
        {OP_sigmoid, 1, {P, P}, false},
        {OP_square, 1, {P, P}, false},
        {OP_softmax, 1, {P, P}, false},
        {OP_softmax_grad, 2, {W, P, P}, true},
        {OP_softmax_grad, 2, {P, W, P}, false},
        {OP_sigmoid_grad, 2, {W, P, P}, true},
        {OP_square_grad, 2, {P, W, P}, false},
        {OP_max_mask, 2, {P, W, P}, false},
        {OP_max_mask, 2, {W, P, P}, false},
        {OP_max_share, 2, {P, W, P}, false},
        {OP_abs, 1, {P, P}, false},
        {OP_abs_grad, 2, {W, P, P}, true},
        {OP_abs_grad, 2, {P, W, P}, false},
        {OP_maximum, 2, {P, P, P}, false},
        {OP_softplus, 1, {P, P}, false},
        {OP_sin, 1, {P, P}, false},
        {OP_cos, 1, {P, P}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Fixture f;
        begin(&f, rows[i].op, rows[i].nin, false, NULL);
        cr_expect_eq(fits(&f, rows[i].layouts), rows[i].legal, "%s: %s, %s, %s", op_table[rows[i].op].name, rows[i].layouts[0],
                     rows[i].layouts[1], rows[i].layouts[2] ? rows[i].layouts[2] : "");
        arena_finish(&f.arena);
    }
}

Test(proof_operators, updates_take_no_partial_gradient) {
    Fixture f;
    Attr attr[MAX_ATTRS] = {{.given = true, .f = 0.1}};
    begin(&f, OP_sgd, 2, false, attr);
    cr_expect(fits(&f, (const char *const[]){W, W, W}));
    cr_expect_not(fits(&f, (const char *const[]){W, P, P}));
    cr_expect_not(fits(&f, (const char *const[]){W, P, W}));
    arena_finish(&f.arena);
}

/* Elements of other ranks are missing where what they are taken from is split along the axis: the places of the index are another matter. */
Test(proof_operators, the_axis_of_a_gather_is_no_dimension_of_its_index) {
    Fixture f;
    Attr attr[MAX_ATTRS] = {{.given = true, .i = 1}};
    begin(&f, OP_gather, 2, false, attr);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){"[- -]", "[- 8@1]", "[- 8@1]"}));
    cr_expect(fits(&f, (const char *const[]){"[- 8@1]", "[- -]", "[- -] +sum(8@1)"}));
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[- 8@1]"}), "a rank's indices, and only its own elements");
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- -]", "[- -]"}), "the sum is forgotten");
    cr_expect_not(fits(&f, (const char *const[]){"[- -]", "[- 8@1]", "[- -]"}), "not all places");
    arena_finish(&f.arena);
}

/* A sum so far, or the largest of a row, is of elements that other ranks may have. */
Test(proof_operators, lines_of_sums_and_rows_of_the_largest_are_whole) {
    Fixture f;
    Attr sums[MAX_ATTRS] = {{.given = true, .i = 1}}, largest[MAX_ATTRS] = {{.given = true, .i = 8}};
    begin(&f, OP_cumsum, 1, false, sums);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){P, P}));
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]"}), "each rank adds up its own part");
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- -] +sum(8@1)"}), "the parts are not terms");
    arena_finish(&f.arena);
    begin(&f, OP_topk, 1, false, largest);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[- 8@1]"}), "each rank takes the largest of its part");
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- -] +sum(8@1)", "[- -] +sum(8@1)"}), "the parts are not terms");
    arena_finish(&f.arena);
}

/* The largest logit of a row and the sum of exponentials are of all classes; with these two the gradient of each class is computed alone. */
Test(proof_operators, the_classes_of_a_loss_are_whole_those_of_its_gradient_are_not) {
    Fixture f;
    begin(&f, OP_cross_entropy_rows, 2, true, NULL);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1]", "[8@1]", "[8@1 -]", "[8@1 -]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[-]", "[-] +sum(8@1)", "[- -] +sum(8@1)", "[- -] +sum(8@1)"}),
                  "parts of a row");
    cr_expect_not(fits(&f, (const char *const[]){P, "[-]", "[-] +sum(8@1)", P, P}), "the maximum of terms");
    arena_finish(&f.arena);
    begin(&f, OP_cross_entropy_rows_grad, 5, true, NULL);
    cr_expect(fits(&f, (const char *const[]){"[- 8@1]", "[-]", "[-]", "[- -]", "[- -]", "[- 8@1]"}));
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1]", "[8@1]", "[8@1 -]", "[8@1 -]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){W, "[-] +sum(8@1)", "[-]", W, W, P}));
    cr_expect_not(fits(&f, (const char *const[]){W, "[-]", "[-]", W, P, P}), "a term of the sum");
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[8@1]", "[-]", "[8@1 -]", "[8@1 -]", "[8@1 -]"}), "labels of other rows");
    arena_finish(&f.arena);
}

/* Each rank puts what falls into its part; rows and indices are whole along the axis. */
Test(proof_operators, rows_are_put_into_any_part_of_a_tensor) {
    Fixture f;
    Attr attr[MAX_ATTRS] = {{.given = true, .i = 0}};
    begin(&f, OP_put, 3, false, attr);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[- -]", "[-]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[-]", "[- 8@1]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[-]", "[8@1 -]"}), "rows of other ranks are missing");
    cr_expect_not(fits(&f, (const char *const[]){"[- -]", "[- -]", "[8@1]", "[- -]"}), "not all indices");
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- -]", "[-]", "[- 8@1]"}), "other columns");
    arena_finish(&f.arena);
}

Test(proof_operators, a_contracted_index_that_is_split_makes_a_partial_sum) {
    Fixture f;
    begin(&f, OP_matmul, 2, false, NULL);
    cr_expect(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@1 -]", "[2@4 -] +sum(4@1)"}));
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@1 -]", "[2@4 -]"}), "the sum is forgotten");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@1 -]", "[2@4 -] +max(4@1)"}), "another reduction");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 -]", "[- -]", "[2@4 -] +max(4@1)"}), "a maximum that nobody takes");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@2 -]", "[2@4 -] +sum(4@1)"}), "k is split otherwise in b");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@1 -]", "[- 2@4] +sum(4@1)"}), "m's digit at n");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@1 2@4]", "[2@4 2@4] +sum(4@1)"}), "one digit for two indices");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[- -]", "[2@4 -] +sum(4@1)"}), "k is whole in b");
    arena_finish(&f.arena);
}

/* y = x * z and the sum of each of its columns. */
Test(proof_operators, each_result_is_partial_over_the_indices_that_it_lacks) {
    Fixture f;
    begin(&f, OP_mul, 2, false, NULL);
    const int id = add_product_and_sum(&f.graph, f.node->in[0], f.node->in[1], "y");
    f.node = &f.graph.nodes.at[id];
    f.letters.out[1][0] = f.letters.out[0][1];
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -]", "[-] +sum(8@1)"}));
    cr_expect(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[- 8@1]", "[8@1]"}));
    cr_expect(fits(&f, (const char *const[]){"[4@2 2@1]", "[4@2 2@1]", "[4@2 2@1]", "[2@1] +sum(4@2)"}));
    cr_expect(fits(&f, (const char *const[]){"[4@2 -] +sum(2@1)", "[4@2 -]", "[4@2 -] +sum(2@1)", "[-] +sum(8@1)"}),
              "and owes what its operand does");
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -]", "[-]"}), "the sum is forgotten");
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -] +sum(8@1)", "[-] +sum(8@1)"}), "the product is no sum");
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[- 8@1]", "[-] +sum(8@1)"}), "a digit of the columns");
    cr_expect_not(fits(&f, (const char *const[]){"[4@2 2@1]", "[4@2 2@1]", "[4@2 2@1]", "[2@1] +sum(2@2)"}), "half of the digits");
    cr_expect_not(fits(&f, (const char *const[]){"[4@2 -] +sum(2@1)", "[4@2 -]", "[4@2 -] +sum(2@1)", "[-] +sum(4@2)"}),
                  "not what its operand owes");
    arena_finish(&f.arena);
}

Test(proof_operators, a_maximum_over_a_split_dimension_owes_a_maximum) {
    Fixture f;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {1}}};
    begin(&f, OP_max, 1, false, attr);
    cr_expect(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4] +max(4@1)"}));
    cr_expect(fits(&f, (const char *const[]){"[2@4 -]", "[2@4]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4] +sum(4@1)"}), "a sum instead");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4] +min(4@1)"}), "a minimum instead");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4]"}), "the maximum is forgotten");
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4] +max(2@1)"}), "half of the digits");
    cr_expect_not(fits(&f, (const char *const[]){"[- -] +sum(8@1)", "[-] +sum(8@1)"}), "the maximum of a sum that is owed");
    cr_expect_not(fits(&f, (const char *const[]){"[- -] +max(8@1)", "[-] +max(8@1)"}), "not taken, even here");
    arena_finish(&f.arena);
    begin(&f, OP_min, 1, false, attr);
    cr_expect(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4] +min(4@1)"}));
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4] +max(4@1)"}), "a maximum instead");
    arena_finish(&f.arena);
}

Test(proof_operators, a_part_of_a_slice_is_made_of_what_was_there) {
    Fixture f;
    Attr slice[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {0, 2}}, {.given = true, .n = 2, .ints = {8, -2}}};
    begin(&f, OP_slice, 1, false, slice); /* 4 of 8 */
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){"[4@2 -] +sum(2@1)", "[4@2 -] +sum(2@1)"}));
    cr_expect(fits(&f, (const char *const[]){"[- 2@1~sees(4,1,-2,2)]", "[- 2@1]"}));
    cr_expect(fits(&f, (const char *const[]){"[- 4@1~sees(4,1,-2,2)] +sum(2@4)", "[- 4@1] +sum(2@4)"}));
    cr_expect(fits(&f, (const char *const[]){"[- -]", "[- 2@1]"}), "all of it is there");
    cr_expect(fits(&f, (const char *const[]){"[- 2@1~sees(4,1,-1,3)]", "[- 2@1]"}), "and one before and behind");
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[- -]"}));
    cr_expect(fits(&f, (const char *const[]){"[- 2@1]", "[- 2@1]"}), "halves of x have halves of the slice");
    cr_expect_not(fits(&f, (const char *const[]){"[- 4@1]", "[- 4@1]"}), "its own part of x");
    cr_expect_not(fits(&f, (const char *const[]){"[- 2@1~sees(4,1,-3,2)]", "[- 2@1]"}), "less before");
    cr_expect_not(fits(&f, (const char *const[]){"[- 2@1~sees(4,1,-2,1)]", "[- 2@1]"}), "less behind");
    cr_expect_not(fits(&f, (const char *const[]){"[- 2@2~sees(4,1,-2,2)]", "[- 2@1]"}), "other ranks'");
    cr_expect_not(fits(&f, (const char *const[]){"[- 2@1~sees(4,1,-2,2)]", "[- -]"}));
    arena_finish(&f.arena);
}

Test(proof_operators, a_part_of_what_is_padded_is_made_of_what_is_within) {
    Fixture f;
    Attr around[MAX_ATTRS] = {
        {.given = true, .n = 2, .ints = {0, 6}}, {.given = true, .n = 2, .ints = {8, 14}}, {.given = true, .n = 2, .ints = {8, 16}}};
    begin(&f, OP_slice_grad, 1, false, around); /* parts of 4: zeros, 2 elements, 4, 2 */
    cr_expect(fits(&f, (const char *const[]){"[- 4@1~sees(16,1,6,-6)]", "[- 4@1]"}));
    cr_expect(fits(&f, (const char *const[]){"[- -]", "[- 4@1]"}));
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[- 4@1]", "[- 4@1]"}), "its own part of x");
    cr_expect_not(fits(&f, (const char *const[]){"[- 4@1~sees(16,1,5,-6)]", "[- 4@1]"}), "less before");
    cr_expect_not(fits(&f, (const char *const[]){"[- 4@1~sees(16,1,6,-7)]", "[- 4@1]"}), "less behind");
    arena_finish(&f.arena);
}

Test(proof_operators, a_part_of_what_is_joined_is_made_of_what_lies_there_of_each) {
    Fixture f;
    Attr axis[MAX_ATTRS] = {{.given = true, .i = -2}};
    begin(&f, OP_concat, 3, false, axis);
    cr_expect(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[- 8@1]", "[- 8@1]"}));
    cr_expect(fits(&f, (const char *const[]){P, P, P, P}));
    cr_expect_not(fits(&f, (const char *const[]){P, P, W, P}), "one that is whole would be added eight times");
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]", "[- 4@2]", "[- 8@1]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -]", "[8@1 -]"}), "its own part of each");
    cr_expect(fits(&f, (const char *const[]){"[8@1~sees(24,1,0,0) -]", "[8@1~sees(24,1,8,-8) -]", "[8@1~sees(24,1,16,-16) -]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){"[- -]", "[8@1~sees(24,1,8,-8) -]", "[- -]", "[8@1 -]"}), "all of two of them");
    cr_expect_not(fits(&f, (const char *const[]){"[- -]", "[8@1~sees(24,1,7,-8) -]", "[- -]", "[8@1 -]"}), "less before");
    cr_expect_not(fits(&f, (const char *const[]){"[- -]", "[8@1~sees(24,1,8,-9) -]", "[- -]", "[8@1 -]"}), "less behind");
    cr_expect_not(fits(&f, (const char *const[]){"[- -]", "[- -]", "[8@1~sees(24,1,8,-8) -]", "[8@1 -]"}),
                  "what lies there of another one");
    arena_finish(&f.arena);
    Attr parts[MAX_ATTRS] = {{.given = true, .i = 2}, {.given = true, .i = 1}};
    begin(&f, OP_split, 1, false, parts);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]", "[8@1 -]"}));
    cr_expect(fits(&f, (const char *const[]){P, P, P}));
    cr_expect_not(fits(&f, (const char *const[]){P, P, W}), "each part owes the sum");
    cr_expect_not(fits(&f, (const char *const[]){"[- 2@1]", "[- -]", "[- -]"}), "the axis");
    arena_finish(&f.arena);
    begin(&f, OP_softmax, 1, false, NULL);
    cr_expect(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[- 8@1]", "[- 8@1]"}), "a row is needed whole");
    arena_finish(&f.arena);
}

Test(proof_operators, a_repeated_dimension_is_whole) {
    Fixture f;
    begin(&f, OP_add, 2, true, NULL);
    cr_expect(fits(&f, (const char *const[]){"[2@4 4@1]", "[4@1]", "[2@4 4@1]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4]", "[2@4 4@1]"}), "a row aligns with the last dimension");
    arena_finish(&f.arena);
    Attr attr[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {1}}, {.given = true, .i = 1}};
    begin(&f, OP_sum, 1, false, attr);
    cr_expect(fits(&f, (const char *const[]){"[2@4 4@1]", "[2@4 -] +sum(4@1)"}));
    cr_expect_not(fits(&f, (const char *const[]){"[2@4 -]", "[2@4 4@1]"}), "the dimension of size 1 that keep_dims leaves");
    arena_finish(&f.arena);
}

Test(proof_operators, a_reshape_splits_the_leading_dimension_of_a_group) {
    Fixture f;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {4, 16}}};
    begin(&f, OP_reshape, 1, false, attr);
    cr_expect(fits(&f, (const char *const[]){"[4@2 -]", "[4@2 -]"}));
    cr_expect_not(fits(&f, (const char *const[]){"[8@1 -]", "[8@1 -]"}), "8 parts of 4 rows");
    cr_expect_not(fits(&f, (const char *const[]){"[- 2@4]", "[- 2@4]"}), "an inner dimension");
    cr_expect_not(fits(&f, (const char *const[]){"[4@2 -]", "[4@1 -]"}), "other digits");
    arena_finish(&f.arena);
}

/* A window of 3 at every place of 8 rows, which are split in 4. */
Test(proof_operators, ranks_have_what_their_windows_see) {
    static const Attr attr[MAX_ATTRS] = {
        {.given = true, .n = 1, .ints = {3}}, {.given = true, .n = 1, .ints = {1}}, {.given = true, .n = 1, .ints = {1}}};
    static const Row rows[] = {
        {OP_max_pool, 1, {"[4@1~sees(8,1,1,1) -]", "[4@1 -]"}, true},
        {OP_max_pool, 1, {"[4@1~sees(8,1,1,0) -]", "[4@1 -]"}, false}, /* one short behind */
        {OP_max_pool, 1, {"[4@1~sees(8,1,0,1) -]", "[4@1 -]"}, false}, /* one short before */
        {OP_max_pool, 1, {"[4@1~sees(8,1,5,4) -]", "[4@1 -]"}, true},
        {OP_max_pool, 1, {"[4@1~sees(5,1,1,1) -]", "[4@1 -]"}, false},
        {OP_max_pool, 1, {"[4@1 -]", "[4@1 -]"}, false},
        {OP_max_pool, 1, {"[- -]", "[4@1 -]"}, true},
        {OP_max_pool, 1, {"[4@2~sees(8,1,1,1) -]", "[4@1 -]"}, false}, /* the part of another rank */
        {OP_max_pool, 1, {"[2@4~sees(8,1,8,8) -]", "[4@1 -]"}, false}, /* the same, though each has all */
        {OP_max_pool, 1, {"[2@2~sees(8,1,1,1) -]", "[4@1 -]"}, true},  /* half of it, in which the part lies */
        {OP_max_pool, 1, {"[4@1~sees(8,1,1,1) -]", "[4@1~sees(8,1,1,1) -]"}, false},
        {OP_max_pool, 1, {"[4@1~sees(8,1,1,1) 2@4~sees(8,1,1,1)]", "[4@1 2@4]"}, true},
        {OP_max_pool_grad, 2, {"[4@1~around(8,1,1,1) -]", "[4@1~seen(8,1,1,1) -]", "[4@1 -]"}, true},
        {OP_max_pool_grad, 2, {"[4@1~sees(8,1,1,1) -]", "[4@1~seen(8,1,1,1) -]", "[4@1 -]"}, false},
        {OP_max_pool_grad, 2, {"[4@1~around(8,1,1,1) -]", "[4@1 -]", "[4@1 -]"}, false},
        {OP_max_pool_grad, 2, {"[4@1~around(8,1,1,1) -]", "[4@1~seen(8,1,1,0) -]", "[4@1 -]"}, false},
        {OP_relu, 1, {"[4@1~sees(8,1,1,1) -]", "[4@1 -]"}, false}, /* no window sees it */
        {OP_relu, 1, {"[4@1 -]", "[4@1~sees(8,1,1,1) -]"}, false}, /* nothing is made with halos */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Fixture f;
        begin(&f, rows[i].op, rows[i].nin, false, rows[i].op == OP_relu ? NULL : attr);
        cr_assert_eq(fits(&f, rows[i].layouts), rows[i].legal, "%s %s -> %s", op_table[rows[i].op].name, rows[i].layouts[0],
                     rows[i].layouts[rows[i].nin]);
        arena_finish(&f.arena);
    }
}
