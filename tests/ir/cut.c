/* Rules of operators that cut tensors, join them, or work along rows. A rule in one line: "[8:0 6] -> [8:0 2]", sizes with their factors; "!"
 * marks a factor that must be whole, "+2" one that expands into two reductions when it is split, "+0" into none. */
#include "ir/rules.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void tensor_text(Text *text, const Rule *rule, int operand, const Shape *shape, const int8_t *map) {
    text_printf(text, "[");
    for (int d = 0; d < shape->ndim; d++) {
        text_printf(text, "%s%d", d ? " " : "", (int)shape->dim[d]);
        if (map[d] >= 0) {
            text_printf(text, ":%d%s", map[d], rule->factor[map[d]].whole ? "!" : "");
            if (rule->factor[map[d]].expands) text_printf(text, "+%d", rule->factor[map[d]].reductions);
            const Halo *halo = operand < 0 ? NULL : rule_halo(rule, operand, shape->ndim, d);
            if (halo)
                text_printf(text, "~%s(%d,%d,%d,%d)", halo_name[halo->kind], (int)halo->of, (int)halo->stride, (int)halo->low,
                            (int)halo->high);
        }
    }
    text_printf(text, "]");
}

static void infer(Text *text, OpCode op, const char *shapes, const Attr *attr) {
    TensorType in[MAX_IN + 2] = {{0}};
    int nin = 0;
    while (*shapes) {
        TensorType *type = &in[nin++];
        while (*shapes && *shapes != ',') {
            type->shape.dim[type->shape.ndim++] = strtoll(shapes, (char **)&shapes, 10);
            shapes += *shapes == 'x';
        }
        shapes += strspn(shapes, ", ");
    }
    Rule rule;
    RuleError error;
    if (!rule_infer(op, in, nin, attr, &rule, &error)) {
        text_printf(text, "%s%s%s", error.text, error.hint[0] ? "; " : "", error.hint);
        return;
    }
    for (int i = 0; i < nin; i++) {
        text_printf(text, i ? ", " : "");
        tensor_text(text, &rule, i, &in[i].shape, rule.in[i]);
    }
    text_printf(text, " -> ");
    for (int o = 0; o < rule.nout; o++) {
        text_printf(text, o ? ", " : "");
        tensor_text(text, &rule, -1, &rule.result[o].shape, rule.out[o]);
    }
}

static void expect(OpCode op, const char *shapes, const Attr *attr, const char *want) {
    Text text = {0};
    infer(&text, op, shapes, attr);
    cr_expect_str_eq(text.at, want);
    text_finish(&text);
}

#define NUMBER(n)                                                                                                                          \
    { .given = true, .i = (n) }
#define INTS(...)                                                                                                                          \
    {                                                                                                                                      \
        .given = true, .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { __VA_ARGS__ }                             \
    }
#define ATTRS(...) ((Attr[MAX_ATTRS]){__VA_ARGS__})

/* Of what is cut or padded "~sees(OF,STRIDE,LOW,HIGH)": what parts are of, and which elements they need. */
Test(cut, a_dimension_that_is_cut_or_padded_has_a_factor_and_windows) {
    expect(OP_slice, "8x6x4", ATTRS(INTS(0, 1, 0), INTS(8, 3, 4)), "[8:0 6:1~sees(2,1,-1,1) 4:2] -> [8:0 2:1 4:2]");
    expect(OP_slice, "8x6", ATTRS(INTS(0, 0), INTS(8, 6)), "[8:0 6:1] -> [8:0 6:1]");
    expect(OP_slice_grad, "8x2x4", ATTRS(INTS(0, 1, 0), INTS(8, 3, 4), INTS(8, 6, 4)), "[8:0 2:1~sees(6,1,1,-1) 4:2] -> [8:0 6:1 4:2]");
    expect(OP_pad, "8x2", ATTRS(INTS(3, 0), INTS(0, 1)), "[8:0~sees(11,1,3,-3) 2:1~sees(3,1,0,0)] -> [11:0 3:1]");
}

Test(cut, a_factor_of_what_is_cut_or_padded_counts_what_is_in_the_slice) {
    const Attr *const slice = ATTRS(INTS(0, 2), INTS(8, 4)), *const grad = ATTRS(INTS(0, 2), INTS(8, 4), INTS(8, 6));
    const TensorType whole = {.dtype = F32, .shape = {2, {8, 6}}}, part = {.dtype = F32, .shape = {2, {8, 2}}};
    Rule rule;
    cr_assert(rule_infer(OP_slice, &whole, 1, slice, &rule, NULL));
    cr_expect_eq(rule.factor[1].size, 2);
    cr_assert(rule_infer(OP_slice_grad, &part, 1, grad, &rule, NULL));
    cr_expect_eq(rule.factor[1].size, 2);
}

Test(cut, negative_ends_of_a_slice_count_from_the_end) {
    expect(OP_slice, "8x6", ATTRS(INTS(-3, -6), INTS(-1, 6)), "[8:0~sees(2,1,-5,5) 6:1] -> [2:0 6:1]");
}

Test(cut, slices_that_do_not_fit_say_what_would) {
    expect(OP_slice, "8x6", ATTRS(INTS(0), INTS(8, 6)),
           "%0 has 2 dimensions, begin names 1; one number a dimension; 0 in begin and the size in end take all of it");
    expect(OP_slice, "8x6", ATTRS(INTS(0, 0), INTS(9, 6)),
           "end 9 of dimension 0 is out of range: %0 has size 8 there; numbers from 0 to 8, or from -8 to -1, counted from the end");
    expect(OP_slice, "8x6", ATTRS(INTS(-9, 0), INTS(8, 6)),
           "begin -9 of dimension 0 is out of range: %0 has size 8 there; numbers from 0 to 8, or from -8 to -1, counted from the end");
    expect(OP_slice, "8x6", ATTRS(INTS(0, 4), INTS(8, 4)),
           "nothing is left of dimension 1: begin is 4, end 4; end is excluded and must be greater than begin");
    expect(OP_slice, "8x6", ATTRS(INTS(2, 0), INTS(0, 6)),
           "nothing is left of dimension 0: begin is 2, end 0; end is excluded: 8 takes all up to the last");
    expect(OP_slice_grad, "8x3", ATTRS(INTS(0, 1), INTS(8, 3), INTS(8, 6)), "%0 is not the slice of that shape");
}

Test(cut, a_part_of_what_is_joined_needs_what_lies_there_of_each) {
    expect(OP_concat, "8x6, 8x2", ATTRS({0}),
           "shapes differ beyond axis 0: %0 is [8, 6], %1 is [8, 2]; they could be joined along axis = 1");
    expect(OP_concat, "8x6, 8x2", ATTRS(NUMBER(-1)), "[8:0 6:1~sees(8,1,0,0)], [8:0 2:1~sees(8,1,6,-6)] -> [8:0 8:1]");
    expect(OP_concat, "2, 3, 1", NULL, "[2:0~sees(6,1,0,0)], [3:0~sees(6,1,2,-2)], [1:0~sees(6,1,5,-5)] -> [6:0]");
    expect(OP_concat, "2x3, 2", NULL, "shapes differ beyond axis 0: %0 is [2, 3], %1 is [2]");
    expect(OP_concat, "2x3, 2x3", ATTRS(NUMBER(2)), "axis 2 is out of range: %0 has 2 dimensions; axes are -2 to 1");
    expect(OP_concat, "2", NULL, "takes 2 to 8 operands, given 1");
    expect(OP_concat, "1, 1, 1, 1, 1, 1, 1, 1", NULL,
           "[1:0~sees(8,1,0,0)], [1:0~sees(8,1,1,-1)], [1:0~sees(8,1,2,-2)], [1:0~sees(8,1,3,-3)], [1:0~sees(8,1,4,-4)], "
           "[1:0~sees(8,1,5,-5)], [1:0~sees(8,1,6,-6)], [1:0~sees(8,1,7,-7)] -> [8:0]");
    expect(OP_concat, "1, 1, 1, 1, 1, 1, 1, 1, 1", NULL, "takes 2 to 8 operands, given 9");
}

Test(cut, a_split_has_as_many_results_as_parts) {
    expect(OP_split, "8x6", ATTRS(NUMBER(3), NUMBER(1)), "[8:0 6:1+0] -> [8:0 2:1+0], [8:0 2:1+0], [8:0 2:1+0]");
    expect(OP_split, "8x6", ATTRS(NUMBER(1)), "[8:0+0 6:1] -> [8:0+0 6:1]");
    expect(OP_split, "8x6", ATTRS({0}), "parts is missing");
    expect(OP_split, "8x6", ATTRS(NUMBER(3)),
           "%0 has size 8 along axis 0, which is not 3 equal parts; slice(x, begin = [..], end = [..]) takes parts of any size");
    expect(OP_split, "18", ATTRS(NUMBER(9)),
           "9 parts: there may be 1 to 8; split the parts again, or reshape %0 so that the parts become a dimension");
    expect(OP_split, "8", ATTRS(NUMBER(0)), "0 parts: there may be 1 to 8");
}

Test(cut, a_softmax_reduces_twice_along_its_rows_and_its_gradient_once) {
    expect(OP_softmax, "8x6", NULL, "[8:0 6:1+2] -> [8:0 6:1+2]");
    expect(OP_log_softmax, "8x6", ATTRS(NUMBER(0)), "[8:0+2 6:1] -> [8:0+2 6:1]");
    expect(OP_softmax_grad, "8x6, 8x6", ATTRS(NUMBER(0)), "[8:0+1 6:1], [8:0+1 6:1] -> [8:0+1 6:1]");
    expect(OP_softmax_grad, "8x6, 8x5", NULL, "%0 and %1 have different shapes");
    expect(OP_softmax, "8x6", ATTRS(NUMBER(-3)), "axis -3 is out of range: %0 has 2 dimensions; axes are -2 to 1");
}

Test(cut, the_hidden_dimension_of_several_results_is_factor_0) {
    TensorType x = {F32, true, {3, {4, 8, 6}}};
    Rule rule;
    cr_assert(rule_infer(OP_split, &x, 1, ATTRS(NUMBER(2), NUMBER(1)), &rule, NULL));
    cr_assert_eq(rule.nout, 2);
    for (int o = 0; o < 2; o++) {
        cr_assert(rule.result[o].hidden);
        cr_assert(rule.result[o].shape.ndim == 3 && rule.result[o].shape.dim[0] == 4 && rule.result[o].shape.dim[2] == 3);
        cr_assert(rule.out[o][0] == 0 && rule.out[o][1] == 1 && rule.out[o][2] == 2);
    }
}
