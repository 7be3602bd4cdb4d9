/* Rules that depend on attributes. A case: operator, operand shapes, attributes -> the rule in one line, or the error's text and hint. */
#include "ir/rules.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static TensorType type_parse(const char **at) {
    TensorType type = {.dtype = F32};
    while (**at && **at != ',') {
        type.shape.dim[type.shape.ndim++] = strtoll(*at, (char **)at, 10);
        *at += **at == 'x';
    }
    *at += strspn(*at, ", ");
    return type;
}

/* "8!2x6" would be size 8 over factor 2; written "[8:0 6:-1], .. -> [..]". Factors that a split must divide are listed behind. */
static void tensor_text(Text *text, const Shape *shape, const int8_t *map) {
    text_printf(text, "[");
    for (int d = 0; d < shape->ndim; d++)
        text_printf(text, map[d] < 0 ? "%s%d" : "%s%d:%d", d ? " " : "", (int)shape->dim[d], map[d]);
    text_printf(text, "]");
}

static bool infer(OpCode op, const char *shapes, const Attr *attr, Text *text) {
    TensorType in[MAX_IN] = {{0}};
    int nin = op_nin(op);
    for (int i = 0; i < nin; i++)
        in[i] = type_parse(&shapes);
    Rule rule;
    RuleError error;
    if (!rule_infer(op, in, nin, attr, &rule, &error)) {
        text_printf(text, "%s%s%s", error.text, error.hint[0] ? "; " : "", error.hint);
        return false;
    }
    for (int i = 0; i < nin; i++) {
        text_printf(text, i ? ", " : "");
        tensor_text(text, &in[i].shape, rule.in[i]);
    }
    text_printf(text, " -> ");
    tensor_text(text, &rule.result[0].shape, rule.out[0]);
    for (int f = 0; f < rule.nfactors; f++)
        if (rule.factor[f].divides) text_printf(text, " %d|%d", f, (int)rule.factor[f].size);
    return true;
}

static void expect(OpCode op, const char *shapes, const Attr *attr, const char *want) {
    Text text = {0};
    cr_assert(infer(op, shapes, attr, &text), "%s", text.at);
    cr_assert_str_eq(text.at, want);
    text_finish(&text);
}

static void expect_error(OpCode op, const char *shapes, const Attr *attr, const char *want) {
    Text text = {0};
    cr_assert_not(infer(op, shapes, attr, &text), "%s", text.at);
    cr_assert_str_eq(text.at, want);
    text_finish(&text);
}

#define YES                                                                                                                                \
    { .given = true, .i = 1 }
#define INTS(...)                                                                                                                          \
    {                                                                                                                                      \
        .given = true, .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { __VA_ARGS__ }                             \
    }
#define ATTRS(...) ((Attr[MAX_ATTRS]){__VA_ARGS__})

Test(shapes, matmul_contracts_the_last_two_dimensions) {
    expect(OP_matmul, "8x6, 6x4", NULL, "[8:0 6:1], [6:1 4:2] -> [8:0 4:2]");
    expect(OP_matmul, "6x8, 6x4", ATTRS(YES), "[6:1 8:0], [6:1 4:2] -> [8:0 4:2]");
    expect(OP_matmul, "8x6, 4x6", ATTRS({0}, YES), "[8:0 6:1], [4:2 6:1] -> [8:0 4:2]");
}

Test(shapes, matmul_batch_dimensions_come_first_and_broadcast) {
    expect(OP_matmul, "2x8x6, 6x4", NULL, "[2:0 8:1 6:2], [6:2 4:3] -> [2:0 8:1 4:3]");
    expect(OP_matmul, "3x1x8x6, 2x6x4", NULL, "[3:0 1 8:2 6:3], [2:1 6:3 4:4] -> [3:0 2:1 8:2 4:4]");
    expect(OP_matmul, "1x8x6, 1x6x4", NULL, "[1:0 8:1 6:2], [1:0 6:2 4:3] -> [1:0 8:1 4:3]");
    expect_error(OP_matmul, "3x8x6, 2x6x4", NULL, "batch sizes do not broadcast: %0 has 3, %1 has 2");
}

Test(shapes, matmul_errors_say_what_would_fit) {
    expect_error(OP_matmul, "16x32, 31x16", NULL, "contracted sizes differ: %0 has 32, %1 has 31");
    expect_error(OP_matmul, "16x32, 31x32", NULL, "contracted sizes differ: %0 has 32, %1 has 31; transpose_b = 1 would make it 32");
    expect_error(OP_matmul, "31x32, 31x16", NULL, "contracted sizes differ: %0 has 32, %1 has 31; transpose_a = 1 would make it 31");
    expect_error(OP_matmul, "32, 32x16", NULL, "%0 has 1 dimension, matmul needs at least 2");
}

Test(shapes, reductions_contract_their_axes) {
    expect(OP_sum, "4x6x3", NULL, "[4:0 6:1 3:2] -> []");
    expect(OP_sum, "4x6x3", ATTRS(INTS(0, -1)), "[4:0 6:1 3:2] -> [6:1]");
    expect(OP_mean, "4x6x3", ATTRS(INTS(1), YES), "[4:0 6:1 3:2] -> [4:0 1 3:2]");
    expect_error(OP_sum, "4x6", ATTRS(INTS(2)), "axis 2 is out of range: %0 has 2 dimensions; axes are -2 to 1");
    expect_error(OP_sum, "4x6", ATTRS(INTS(1, -1)), "axis -1 is given twice");
    expect_error(OP_sum, "4x6", ATTRS({.given = true}), "axes is empty; leave axes out to reduce over all dimensions");
}

Test(shapes, transpose_permutes) {
    expect(OP_transpose, "4x6x3", NULL, "[4:0 6:1 3:2] -> [3:2 6:1 4:0]");
    expect(OP_transpose, "4x6x3", ATTRS(INTS(1, -1, 0)), "[4:0 6:1 3:2] -> [6:1 3:2 4:0]");
    expect_error(OP_transpose, "4x6x3", ATTRS(INTS(1, 0)), "%0 has 3 dimensions, perm names 2");
    expect_error(OP_transpose, "4x6", ATTRS(INTS(1, -1)), "perm names dimension 1 twice");
    expect_error(OP_transpose, "4x6", ATTRS(INTS(0, 2)), "perm has 2, which is out of range: %0 has 2 dimensions; dimensions are -2 to 1");
}

Test(shapes, reshape_keeps_dimensions_that_pass_unchanged) {
    expect(OP_reshape, "4x6x3", ATTRS(INTS(4, 18)), "[4:0 6:1 3] -> [4:0 18:1] 1|6");
    expect(OP_reshape, "4x6", ATTRS(INTS(4, 1, 6)), "[4:0 6:1] -> [4:0 1 6:1]");
    expect(OP_reshape, "1x4x1", ATTRS(INTS(4)), "[1 4:0 1] -> [4:0]");
    expect(OP_reshape, "1x1", ATTRS({.given = true}), "[1 1] -> []");
}

Test(shapes, reshape_splits_a_group_by_the_common_divisor_of_its_leading_sizes) {
    expect(OP_reshape, "8x6", ATTRS(INTS(12, 4)), "[8:0 6] -> [12:0 4] 0|4");
    expect(OP_reshape, "8x3", ATTRS(INTS(3, 8)), "[8 3] -> [3 8]");
    expect(OP_reshape, "4x6", ATTRS(INTS(-1)), "[4:0 6] -> [24:0] 0|4");
    expect(OP_reshape, "1x4x6", ATTRS(INTS(1, -1)), "[1 4:0 6] -> [1 24:0] 0|4");
}

/* What `divides` promises: any split of the factor cuts both sides into the same elements, in row-major order. */
Test(shapes, splits_of_a_reshape_cut_both_sides_into_the_same_elements) {
    static const int64_t sides[][4] = {{8, 6, 12, 4}, {4, 6, 2, 12}, {12, 5, 6, 10}, {6, 6, 4, 9}, {30, 2, 12, 5}};
    for (size_t c = 0; c < sizeof sides / sizeof *sides; c++) {
        TensorType in = {.dtype = F32, .shape = {2, {sides[c][0], sides[c][1]}}};
        Attr attr[MAX_ATTRS] = {INTS(sides[c][2], sides[c][3])};
        Rule rule;
        cr_assert(rule_infer(OP_reshape, &in, 1, attr, &rule, NULL));
        cr_assert(rule.nfactors == 1 && rule.in[0][0] == 0 && rule.out[0][0] == 0);
        for (int s = 2; s <= rule.factor[0].size; s++) {
            if (rule.factor[0].size % s != 0) continue;
            for (int rank = 0; rank < s; rank++) {
                Layout layout;
                Box from, to;
                layout_init(&layout, 2);
                layout_append(&layout, 0, (Digit){s, 1});
                layout_box(&layout, &in.shape, rank, &from);
                layout_box(&layout, &rule.result[0].shape, rank, &to);
                cr_assert_eq(from.begin[0] * sides[c][1], to.begin[0] * sides[c][3]);
                cr_assert_eq(from.end[0] * sides[c][1], to.end[0] * sides[c][3]);
            }
        }
    }
}

Test(shapes, reshape_errors_count_the_elements) {
    expect_error(OP_reshape, "8x6", ATTRS(INTS(7, 7)), "%0 has 48 elements, shape [7, 7] has 49");
    expect_error(OP_reshape, "8x6", ATTRS(INTS(4, 7)),
                 "%0 has 48 elements, shape [4, 7] has 28; -1 in place of the last size would make it 12");
    expect_error(OP_reshape, "8x6", ATTRS(INTS(7, -1)), "%0 has 48 elements, no multiple of the 7 in shape [7, -1]");
    expect_error(OP_reshape, "8x6", ATTRS(INTS(-1, -1)), "shape has more than one -1");
    expect_error(OP_reshape, "8x6", ATTRS(INTS(0, 48)), "size 0 in shape is not positive");
    expect_error(OP_reshape, "8x6", ATTRS(INTS(1, 1, 1, 1, 1, 1, 1, 6, 8)), "shape has 9 dimensions, at most 8 are possible");
    expect_error(OP_reshape, "8x6", ATTRS(INTS((int64_t)1 << 40, (int64_t)1 << 40)),
                 "%0 has 48 elements, shape [1099511627776, 1099511627776] more than 2^48");
}

Test(shapes, mse_is_a_scalar_of_two_equal_shapes) {
    expect(OP_mse, "8x6, 8x6", NULL, "[8:0 6:1], [8:0 6:1] -> []");
    expect_error(OP_mse, "8x6, 6", NULL, "shapes differ: %0 is [8, 6], %1 is [6]");
    expect_error(OP_mse, "8, 8", ATTRS({.given = true, .text = "max"}), "reduction is mean or sum, not max");
}

#define SPEC(s) ATTRS({.given = true, .text = (s)})
Test(shapes, einsum_factors_are_letters_in_order_of_appearance) {
    expect(OP_einsum, "8x6, 6x4", SPEC("mk,kn->mn"), "[8:0 6:1], [6:1 4:2] -> [8:0 4:2]");
    expect(OP_einsum, "2x8x6, 2x8x4", SPEC("bmk,bmn->kn"), "[2:0 8:1 6:2], [2:0 8:1 4:3] -> [6:2 4:3]");
    expect(OP_einsum, "1x8, 8x4", SPEC("zk,kn->n"), "[1 8:0], [8:0 4:1] -> [4:1]");
    expect(OP_einsum, "1x8, 8x4", SPEC("zk,kn->zn"), "[1:0 8:1], [8:1 4:2] -> [1:0 4:2]");
}

Test(shapes, einsum_errors_quote_the_spec) {
    expect_error(OP_einsum, "8x6, 5x4", SPEC("mk,kn->mn"), "sizes of k differ: 6 and 5");
    expect_error(OP_einsum, "8x1, 5x4", SPEC("mk,kn->mn"), "sizes of k differ: 1 and 5");
    expect_error(OP_einsum, "8x6, 6x4", SPEC("mm,kn->mn"), "spec \"mm,kn->mn\" repeats m in one operand");
    expect_error(OP_einsum, "8x6, 6x4", SPEC("mk,kn->mz"), "spec \"mk,kn->mz\": no operand has z");
    expect_error(OP_einsum, "8x6, 6x4", SPEC("mk,kn"), "spec \"mk,kn\" is not of the form \"mk,kn->mn\" for 2 operands");
    expect_error(OP_einsum, "8x6, 6x4", SPEC("mk,kn->mn!"), "spec \"mk,kn->mn!\" is not of the form \"mk,kn->mn\" for 2 operands");
    expect_error(OP_einsum, "8x6, 6x4", SPEC("mkz,kn->mn"), "%0 has 2 dimensions, spec \"mkz,kn->mn\" gives it 3 letters");
}

Test(shapes, gradients_of_reductions_expand_with_and_without_kept_dimensions) {
    expect(OP_sum_grad, "6", ATTRS(INTS(0, -1), INTS(4, 6, 3)), "[6:1] -> [4:0 6:1 3:2]");
    expect(OP_mean_grad, "4x1x3", ATTRS(INTS(1), INTS(4, 6, 3)), "[4:0 1 3:2] -> [4:0 6:1 3:2]");
    expect(OP_sum_grad, "", ATTRS({0}, INTS(4, 6)), "[] -> [4:0 6:1]");
    expect_error(OP_sum_grad, "5", ATTRS(INTS(0), INTS(4, 6)), "%0 has size 5 in dimension 0, needs 6");
    expect_error(OP_sum_grad, "5x6x7", ATTRS(INTS(0), INTS(4, 6)), "%0 has 3 dimensions, needs 1 or 2");
}

Test(shapes, sum_to_contracts_what_broadcasting_would_repeat) {
    expect(OP_sum_to, "4x6x3", ATTRS(INTS(6, 1)), "[4:0 6:1 3:2] -> [6:1 1]");
    expect(OP_sum_to, "4x1x3", ATTRS(INTS(1, 3)), "[4:0 1:1 3:2] -> [1:1 3:2]");
    expect(OP_sum_to, "4x3", ATTRS({.given = true}), "[4:0 3:1] -> []");
    expect_error(OP_sum_to, "4x6", ATTRS(INTS(5)), "[5] does not broadcast to %0, which is [4, 6]");
}

Test(shapes, replicate_adds_the_hidden_dimension_and_replica_sum_contracts_it) {
    TensorType x = {.dtype = F32, .shape = {1, {6}}};
    Attr attr[MAX_ATTRS] = {{.given = true, .i = 4}};
    Rule rule;
    cr_assert(rule_infer(OP_replicate, &x, 1, attr, &rule, NULL));
    cr_assert(rule.result[0].hidden && rule.result[0].shape.ndim == 2 && rule.result[0].shape.dim[0] == 4);
    cr_assert(rule.out[0][0] == 0 && rule.out[0][1] == 1 && rule.in[0][0] == 1);
    cr_assert_not(rule_infer(OP_replica_sum, &x, 1, NULL, &rule, NULL));
    x = rule.result[0] = (TensorType){.dtype = F32, .hidden = true, .shape = {2, {4, 6}}};
    cr_assert_not(rule_infer(OP_replicate, &x, 1, attr, &rule, NULL));
    cr_assert(rule_infer(OP_replica_sum, &x, 1, NULL, &rule, NULL));
    cr_assert(!rule.result[0].hidden && rule.result[0].shape.ndim == 1 && rule.out[0][0] == 1);
    cr_assert(rule_sums(&rule, 0));
}

Test(shapes, expose_makes_the_hidden_dimension_a_plain_one_and_hides_it_again) {
    TensorType x = {.dtype = F32, .hidden = true, .shape = {2, {4, 6}}}, scalar = {.dtype = F32};
    Attr hide[MAX_ATTRS] = {{.given = true, .i = 1}};
    Rule rule;
    cr_assert(rule_infer(OP_expose, &x, 1, NULL, &rule, NULL));
    cr_assert(!rule.result[0].hidden && shape_equal(&rule.result[0].shape, &x.shape) && rule.out[0][0] == rule.in[0][0] &&
              rule.out[0][1] == rule.in[0][1]);
    cr_assert_not(rule_infer(OP_expose, &x, 1, hide, &rule, NULL));
    x.hidden = false;
    cr_assert(rule_infer(OP_expose, &x, 1, hide, &rule, NULL));
    cr_assert(rule.result[0].hidden && rule.out[0][0] == rule.in[0][0]);
    cr_assert_not(rule_infer(OP_expose, &x, 1, NULL, &rule, NULL));
    cr_assert_not(rule_infer(OP_expose, &scalar, 1, hide, &rule, NULL));
    x = (TensorType){.dtype = F32, .hidden = true, .shape = {9, {2, 1, 1, 1, 1, 1, 1, 1, 3}}};
    cr_assert_not(rule_infer(OP_expose, &x, 1, NULL, &rule, NULL), "nine plain dimensions");
}
