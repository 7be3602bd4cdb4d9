#include "ir/rules.h"
#include "tests/ir/random.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

static TensorType type(DType dtype, int ndim, const int64_t *dim) {
    TensorType t = {.dtype = dtype, .shape.ndim = ndim};
    memcpy(t.shape.dim, dim, sizeof *dim * (size_t)ndim);
    return t;
}
#define T(dtype, ...) type(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static void expect_map(const int8_t *map, int n, const char *want) {
    char text[64] = "";
    for (int d = 0; d < n; d++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", d ? " " : "", map[d]);
    cr_assert_str_eq(text, want);
}

static void expect_shape(const TensorType *t, const char *want) {
    char text[SHAPE_TEXT_BYTES];
    cr_assert_str_eq(shape_text(&t->shape, text), want);
}

Test(rule, every_row_is_complete) {
    for (int op = 0; op < NOPS; op++) {
        const Op *row = &op_table[op];
        cr_assert(row->name && row->title && row->ins && row->dtypes, "row %d", op);
        cr_assert((row->letters == NULL) != (row->rule == NULL), "%s", row->name);
        cr_assert_leq(op_nin((OpCode)op), MAX_IN);
        cr_assert_leq(op_nout((OpCode)op), MAX_OUT);
        cr_assert_eq(op_find(row->name), op);
        if (row->op_class == OP_CLASS_USER) cr_assert(row->samples && row->help, "%s", row->name);
    }
}

Test(rule, operators_attributes_and_operands_are_found_by_name) {
    cr_assert_eq(op_find("matmul"), OP_matmul);
    cr_assert_eq(op_find("matmull"), -1);
    cr_assert_eq(op_attr(OP_matmul, "transpose_b"), 1);
    cr_assert_eq(op_attr(OP_matmul, "axes"), -1);
    cr_assert_eq(op_nin(OP_momentum), 4);
    cr_assert_eq(op_in(OP_momentum, "g"), 2);
    cr_assert_eq(op_in(OP_momentum, "x"), -1);
    cr_assert_eq(op_nout(OP_momentum), 2);
    cr_assert_eq(op_nin(OP_input), 0);
    char name[8];
    op_in_name(OP_momentum, 2, name, sizeof name);
    cr_assert_str_eq(name, "g");
    op_in_name(OP_mse, 1, name, sizeof name);
    cr_assert_str_eq(name, "target");
}

Test(rule, elementwise_factors_are_the_results_dimensions) {
    TensorType in[] = {T(F32, 8, 1), T(F32, 6)};
    Rule rule;
    RuleError error;
    cr_assert(rule_infer(OP_mul, in, 2, NULL, &rule, &error));
    expect_shape(&rule.result[0], "[8, 6]");
    cr_assert_eq(rule.nfactors, 2);
    expect_map(rule.in[0], 2, "0 -1");
    expect_map(rule.in[1], 1, "1");
    expect_map(rule.out[0], 2, "0 1");
}

Test(rule, a_size_1_result_dimension_is_a_factor_of_size_1) {
    TensorType in[] = {T(F32, 8, 1), T(F32, 1)};
    Rule rule;
    cr_assert(rule_infer(OP_add, in, 2, NULL, &rule, NULL));
    cr_assert_eq(rule.factor[1].size, 1);
    expect_map(rule.in[0], 2, "0 1");
    expect_map(rule.in[1], 1, "1");
}

Test(rule, sizes_that_do_not_broadcast_are_an_error_that_names_both) {
    TensorType in[] = {T(F32, 8, 6), T(F32, 8)};
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    cr_assert_eq(error.operand, 1);
    cr_assert_str_eq(error.text, "sizes do not broadcast: %0 is [8, 6], %1 is [8]");
    cr_assert_str_eq(error.hint, "sizes align at the right: reshape [8] to [8, 1]");
    in[1] = T(F32, 8, 5);
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    cr_assert_str_eq(error.hint, "");
}

Test(rule, updates_and_gradients_do_not_broadcast) {
    TensorType in[] = {T(F32, 8, 6), T(F32, 6)};
    Attr lr[MAX_ATTRS] = {{.given = true, .f = 0.1}};
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_sgd, in, 2, lr, &rule, &error));
    cr_assert_str_eq(error.text, "shapes differ: %0 is [8, 6], %1 is [6]");
    cr_assert_not(rule_infer(OP_relu_grad, in, 2, NULL, &rule, &error));
}

Test(rule, a_first_operand_with_too_few_dimensions_is_compared_with_one_that_has_all) {
    TensorType in[] = {T(F32, 6), T(F32, 2), T(F32, 8, 6)};
    Attr attr[MAX_ATTRS] = {{.given = true}, {.given = true}};
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_momentum, in, 3, attr, &rule, &error));
    cr_assert_str_eq(error.text, "shapes differ: %2 is [8, 6], %0 is [6]");
}

/* Any value an attribute could have in a plan, small ones mostly. */
static Attr random_attr(uint64_t *seed, AttrKind kind) {
    static const char *const texts[] = {"", "ab,bc->ac", "ab->b", "abc,abd->", "a->b", "->", "aa,b->ab", "...a,ab->...b"};
    Attr attr = {.given = random_below(seed, 8) > 0, .text = ""};
    if (!attr.given) return attr;
    attr.i = random_below(seed, 5) - 1;
    attr.f = kind == ATTR_FLOAT ? random_below(seed, 9) - 4 : 0;
    attr.n = kind == ATTR_INTS ? random_below(seed, 5) : 0;
    for (int i = 0; i < attr.n; i++)
        attr.ints[i] = random_below(seed, 50) ? random_below(seed, 6) - 1 : (int64_t)random_next(seed);
    if (kind == ATTR_TEXT) attr.text = texts[random_below(seed, 8)];
    return attr;
}

Test(rule, operands_of_any_shape_give_a_rule_or_a_message_about_them) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 200000; trial++) {
        OpCode op = (OpCode)(trial % NOPS);
        int most = op_nin(op), nin = most > 1 && random_below(&seed, 16) == 0 ? most - 1 : most;
        TensorType in[MAX_IN + 1] = {0};
        Attr attr[MAX_ATTRS] = {0};
        Rule rule;
        RuleError error = {.operand = -1};
        for (int i = 0; i < nin; i++) {
            for (in[i].dtype = (DType)random_below(&seed, NDTYPES); !(op_dtypes(op, i) & 1u << in[i].dtype);)
                in[i].dtype = (DType)((in[i].dtype + 1) % NDTYPES);
            /* Half of them like the first. */
            if (i > 0 && random_below(&seed, 2)) {
                in[i].shape = in[0].shape;
                continue;
            }
            in[i].shape.ndim = random_below(&seed, random_below(&seed, 8) ? 4 : MAX_NDIM + 1);
            for (int d = 0; d < in[i].shape.ndim; d++)
                in[i].shape.dim[d] = random_below(&seed, 50) ? 1 + random_below(&seed, 3) : (int64_t)1 << random_below(&seed, 49);
        }
        for (int a = 0; a < MAX_ATTRS; a++)
            attr[a] = random_attr(&seed, op_table[op].attrs[a].kind);
        if (rule_infer(op, in, nin, attr, &rule, &error)) continue;
        cr_assert(error.text[0], "%s: no message", op_table[op].name);
        cr_assert(error.operand >= -1 && error.operand < nin, "%s: %s", op_table[op].name, error.text);
        for (const char *at = error.text; (at = strchr(at, '%')); at++)
            cr_assert(isdigit((unsigned char)at[1]) && at[1] < '0' + nin, "%s: %s", op_table[op].name, error.text);
    }
}

Test(rule, operand_types_agree_and_are_those_of_the_row) {
    TensorType in[] = {T(F32, 8), T(I32, 8)};
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    cr_assert_str_eq(error.text, "operand types differ: %0 is f32, %1 is i32");
    cr_assert_str_eq(error.hint, "cast(%1, to = f32) makes them one");
    cr_assert_not(rule_infer(OP_add, (const TensorType[]){in[1], in[0]}, 2, NULL, &rule, &error));
    cr_assert_str_eq(error.hint, "cast(%0, to = f32) makes them one", "integers become reals");
    in[0] = in[1];
    cr_assert(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    cr_assert_eq(rule.result[0].dtype, I32);
    cr_assert_not(rule_infer(OP_div, in, 2, NULL, &rule, &error));
    cr_assert_str_eq(error.text, "%0 is i32, div takes f32, f64, f16 or bf16");
    cr_assert_str_eq(error.hint, "cast(%0, to = f32)");
}

Test(rule, operands_and_required_attributes_are_counted) {
    TensorType in[] = {T(F32, 8)};
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_add, in, 1, NULL, &rule, &error));
    cr_assert_str_eq(error.text, "takes 2 operands (a, b), given 1");
    cr_assert_not(rule_infer(OP_reshape, in, 1, NULL, &rule, &error));
    cr_assert_str_eq(error.text, "shape is missing");
    cr_assert_eq(error.attr, 0);
}

Test(rule, several_results_have_the_types_of_the_first_operand) {
    TensorType in[] = {T(F64, 8, 6), T(F64, 8, 6), T(F64, 8, 6)};
    Attr attr[MAX_ATTRS] = {{.given = true}, {.given = true}};
    Rule rule;
    cr_assert(rule_infer(OP_momentum, in, 3, attr, &rule, NULL));
    expect_shape(&rule.result[1], "[8, 6]");
    cr_assert_eq(rule.result[1].dtype, F64);
    expect_map(rule.out[1], 2, "0 1");
}

Test(rule, an_optional_operand_may_be_left_out) {
    TensorType in[] = {T(F32, 8, 6), T(F32, 8, 6), {.dtype = F32}, {.dtype = F32}};
    Attr attr[MAX_ATTRS] = {{.given = true}};
    Rule rule;
    RuleError error;
    cr_assert(rule_infer(OP_sgd, in, 2, attr, &rule, NULL));
    cr_assert(rule_infer(OP_sgd, in, 3, attr, &rule, NULL));
    cr_assert_eq(rule.nfactors, 2);
    expect_shape(&rule.result[0], "[8, 6]");
    cr_assert_not(rule_infer(OP_sgd, in, 1, attr, &rule, &error));
    cr_assert_not(rule_infer(OP_sgd, in, 4, attr, &rule, &error));
    in[2] = in[0];
    cr_assert_not(rule_infer(OP_sgd, in, 3, attr, &rule, &error), "a rate is one number");
}

Test(rule, a_sum_of_squares_contracts_everything) {
    TensorType in[] = {T(F32, 8, 6)};
    Rule rule;
    cr_assert(rule_infer(OP_sum_squares, in, 1, NULL, &rule, NULL));
    expect_shape(&rule.result[0], "[]");
    cr_assert(rule_sums(&rule, 0) && rule_sums(&rule, 1));
}

Test(rule, the_hidden_dimension_is_factor_0_of_everything) {
    TensorType in[] = {T(F32, 4, 8, 6), T(F32, 4, 6, 5)};
    in[0].hidden = in[1].hidden = true;
    Rule rule;
    cr_assert(rule_infer(OP_matmul, in, 2, NULL, &rule, NULL));
    cr_assert_eq(rule.nfactors, 4);
    cr_assert_eq(rule.factor[0].size, 4);
    cr_assert(rule.result[0].hidden);
    expect_shape(&rule.result[0], "[4, 8, 5]");
    expect_map(rule.in[0], 3, "0 1 2");
    expect_map(rule.in[1], 3, "0 2 3");
    expect_map(rule.out[0], 3, "0 1 3");
    cr_assert(rule_infer(OP_sum, in, 1, NULL, &rule, NULL));
    expect_shape(&rule.result[0], "[4]");
    cr_assert_not(rule_sums(&rule, 0));
    cr_assert(rule_sums(&rule, 1));
}

Test(rule, all_operands_are_hidden_or_none) {
    TensorType in[] = {T(F32, 4, 8), T(F32, 4, 8)};
    in[1].hidden = true;
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    in[0] = in[1];
    in[1].hidden = false;
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    in[1] = T(F32, 3, 8);
    in[1].hidden = true;
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    cr_assert_str_eq(error.text, "%1 does not have the replicas of %0");
}

Test(rule, results_over_2_to_the_48_elements_are_an_error) {
    TensorType in[] = {T(F32, (int64_t)1 << 31, 1), T(F32, 1, (int64_t)1 << 31)};
    Rule rule;
    RuleError error;
    cr_assert_not(rule_infer(OP_add, in, 2, NULL, &rule, &error));
    cr_assert(strstr(error.text, "more than 2^48 elements"));
    cr_assert_not(rule_infer(OP_matmul, in, 2, NULL, &rule, &error));
}

Test(rule, flops_are_the_points_of_the_factors_times_the_rows) {
    TensorType in[] = {T(F32, 8, 6), T(F32, 6, 4)};
    Rule rule;
    cr_assert(rule_infer(OP_matmul, in, 2, NULL, &rule, NULL));
    cr_assert_eq(rule_flops(OP_matmul, &rule), 2 * 8 * 6 * 4);
    cr_assert(rule_in_has(&rule, 0, 2, 1));
    cr_assert_not(rule_in_has(&rule, 0, 2, 2));
}

/* Of a table of 100 rows six are looked up, or added to, or updated: nothing is computed of the others. */
Test(rule, rows_that_are_not_looked_up_take_no_flops) {
    const Attr rows[MAX_ATTRS] = {{.given = true, .i = 100}}, along[MAX_ATTRS] = {{.given = true, .i = 100}, {.given = true, .i = 0}};
    TensorType table = T(F32, 100, 4), index = T(I32, 2, 3), dy = T(F32, 2, 3, 4), line = T(F32, 6, 4), places = T(I32, 6);
    TensorType lookup[] = {table, index}, gradient[] = {dy, index}, taken[] = {table, places}, given[] = {line, places},
               update[] = {table, dy, index};
    Rule rule;
    cr_assert(rule_infer(OP_embedding, lookup, 2, NULL, &rule, NULL));
    cr_expect_eq(rule_flops(OP_embedding, &rule), 24);
    cr_assert(rule_infer(OP_embedding_grad, gradient, 2, rows, &rule, NULL));
    cr_expect_eq(rule_flops(OP_embedding_grad, &rule), 24);
    cr_assert(rule_infer(OP_gather, taken, 2, (Attr[MAX_ATTRS]){{.given = true, .i = 0}}, &rule, NULL));
    cr_expect_eq(rule_flops(OP_gather, &rule), 24);
    cr_assert(rule_infer(OP_gather_grad, given, 2, along, &rule, NULL));
    cr_expect_eq(rule_flops(OP_gather_grad, &rule), 24);
    cr_assert(rule_infer(OP_embedding_sgd, update, 3, (Attr[MAX_ATTRS]){{.given = true, .f = 0.1}}, &rule, NULL));
    cr_expect_eq(rule_flops(OP_embedding_sgd, &rule), 3 * 24);
}

Test(rule, a_leaf_splits_along_every_dimension) {
    TensorType t = T(F32, 4, 8);
    Rule rule;
    rule_of_leaf(&t, &rule);
    expect_map(rule.out[0], 2, "0 1");
    cr_assert_eq(rule.factor[1].size, 8);
    cr_assert_not(rule_infer(OP_input, NULL, 0, NULL, &rule, NULL));
}

Test(rule, rules_are_equal_when_they_say_the_same) {
    TensorType in[] = {T(F32, 8, 6), T(F32, 6, 6)};
    Attr attr[MAX_ATTRS] = {{0}, {.given = true, .i = 1}};
    Rule a, b;
    cr_assert(rule_infer(OP_matmul, in, 2, NULL, &a, NULL));
    cr_assert(rule_infer(OP_matmul, in, 2, NULL, &b, NULL));
    cr_assert(rule_equal(&a, &b, in, 2, 1));
    cr_assert(rule_infer(OP_matmul, in, 2, attr, &b, NULL));
    cr_assert_not(rule_equal(&a, &b, in, 2, 1));
}

Test(rule, element_types_of_operands_are_those_of_their_letters) {
    cr_expect_eq(op_dtypes(OP_relu, 0), DTYPES_FLOAT);
    cr_expect_eq(op_dtypes(OP_pick, 0), DTYPES_FLOAT);
    cr_expect_eq(op_dtypes(OP_pick, 1), DTYPES_INDEX);
    cr_expect_eq(op_dtypes(OP_where, 0), 1u << BOOL);
    cr_expect_eq(op_dtypes(OP_where, 1), DTYPES_ANY);
}
