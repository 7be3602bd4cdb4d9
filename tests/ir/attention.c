/* attention: which of its factors split what, and operands that do not fit. */
#include <criterion/criterion.h>

#include "ir/rules.h"

static bool infer(OpCode op, int nin, const Shape *shapes, const Attr *attr, Rule *rule, RuleError *error) {
    TensorType in[MAX_IN];
    for (int i = 0; i < nin; i++)
        in[i] = (TensorType){op_type(op, false, i) == 'b' ? BOOL : F32, false, shapes[i]};
    return rule_infer(op, in, nin, attr, rule, error);
}

static void refuse(int nin, const Shape *shapes, const char *text, const char *hint) {
    RuleError error = {0};
    Rule rule;
    cr_assert(!infer(OP_dot_product_attention, nin, shapes, NULL, &rule, &error), "%s", text);
    cr_expect_str_eq(error.text, text);
    cr_expect_str_eq(error.hint, hint);
}

/* Widths are none; the keys, which no result has, have a reduction, but in the gradient, whose results are sums. */
Test(attention, factors_are_leading_dimensions_queries_and_keys) {
    const Shape q = {4, {2, 3, 4, 5}}, k = {3, {2, 6, 5}}, v = {3, {2, 6, 7}}, y = {4, {2, 3, 4, 7}}, s = {4, {2, 3, 4, 1}},
                mask = {2, {1, 6}};
    Rule rule;
    cr_assert(infer(OP_dot_product_attention, 4, (Shape[]){q, k, v, mask}, NULL, &rule, NULL));
    cr_assert_eq(rule.nfactors, 4);
    const int8_t queries[] = {0, 1, 2, -1}, keys[] = {0, 3, -1}, masks[] = {-1, 3};
    cr_expect_arr_eq(rule.in[0], queries, 4);
    cr_expect_arr_eq(rule.in[1], keys, 3);
    cr_expect_arr_eq(rule.in[2], keys, 3);
    cr_expect_arr_eq(rule.in[3], masks, 2);
    cr_expect_eq(rule.nout, 3);
    for (int o = 0; o < 3; o++)
        cr_expect_arr_eq(rule.out[o], queries, 4);
    cr_expect_eq(rule.result[0].shape.dim[3], 7);
    cr_expect_eq(rule.result[2].shape.dim[3], 1);
    cr_expect_eq(rule.factor[3].reductions, 1);
    cr_assert(infer(OP_attention_grad, 7, (Shape[]){q, y, k, v, y, s, s}, NULL, &rule, NULL));
    cr_expect_eq(rule.factor[3].reductions, 0);
    cr_expect_arr_eq(rule.out[0], queries, 4);
    cr_expect_arr_eq(rule.out[1], keys, 3);
    cr_expect_eq(rule.result[2].shape.dim[2], 7);
}

/* 2 (d + e) a score, and twelve that are no products; half of it where it is causal. */
Test(attention, flops_are_those_of_the_products_over_the_widths) {
    const Shape shapes[] = {{2, {4, 5}}, {2, {6, 5}}, {2, {6, 7}}};
    const Attr causal[MAX_ATTRS] = {{.given = true, .i = 1}};
    Rule rule;
    cr_assert(infer(OP_dot_product_attention, 3, shapes, NULL, &rule, NULL));
    cr_expect_eq(rule_flops(OP_dot_product_attention, &rule), 4 * 6 * (2 * (5 + 7) + 12));
    cr_assert(infer(OP_dot_product_attention, 3, shapes, causal, &rule, NULL));
    cr_expect_eq(rule_flops(OP_dot_product_attention, &rule), 2 * 6 * (2 * (5 + 7) + 12));
}

Test(attention, operands_that_do_not_fit_are_said) {
    refuse(3, (Shape[]){{3, {2, 4, 5}}, {3, {2, 6, 4}}, {3, {2, 6, 7}}},
           "%0 is [2, 4, 5], %1 is [2, 6, 4]: the widths, their last sizes, differ", "");
    refuse(3, (Shape[]){{2, {4, 5}}, {3, {2, 6, 5}}, {3, {2, 6, 7}}},
           "%0 is [4, 5], %1 is [2, 6, 5]: needs as many dimensions, or one less", "");
    refuse(3, (Shape[]){{2, {4, 5}}, {1, {5}}, {1, {5}}}, "%1 has 1 dimension, needs at least 2: keys and their width", "");
    refuse(3, (Shape[]){{2, {4, 5}}, {2, {6, 5}}, {2, {5, 7}}}, "%1 is [6, 5], %2 is [5, 7]: all sizes but the last one are the same", "");
    refuse(3, (Shape[]){{4, {2, 8, 4, 5}}, {4, {2, 4, 6, 5}}, {4, {2, 4, 6, 5}}},
           "%0 is [2, 8, 4, 5], %1 is [2, 4, 6, 5]: their leading sizes differ",
           "heads that share keys and values are a dimension of their own: [.., 4, 2, 4, 5]");
    refuse(4, (Shape[]){{2, {4, 5}}, {2, {6, 5}}, {2, {6, 7}}, {2, {6, 4}}}, "%3 is [6, 4], and does not broadcast to the scores [4, 6]",
           "");
}
