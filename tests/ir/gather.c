/* Rules of operators along one axis. A rule in one line: "[8:0 6:1], [8:0 4:2] -> [8:0 4:2]", sizes with their factors. */
#include "ir/rules.h"

#include "tests/ir/rule_text.h"

#include <criterion/criterion.h>

Test(gather, contracts_the_axis_and_keeps_the_index) {
    expect(OP_gather, TYPES(T(F32, 8, 6), T(I32, 8, 4)), NULL, "[8:0 6:1], [8:0 4:2] -> f32[8:0 4:2] of 6");
    expect(OP_gather, TYPES(T(I64, 8, 6), T(I32, 3, 6)), NUMBER(0), "[8:0 6:1], [3:2 6:1] -> i64[3:2 6:1] of 8");
    expect(OP_gather, TYPES(T(F64, 4, 6, 3), T(I64, 4, 5)), NUMBER(1), "[4:0 6:1 3:2], [4:0 5:3] -> f64[4:0 5:3 3:2] of 6");
    expect(OP_gather_grad, TYPES(T(F32, 4, 5, 3), T(I32, 4, 5)), NUMBERS(6, 1), "[4:0 5:1 3:2], [4:0 5:1] -> f32[4:0 6:3 3:2] of 6");
}

Test(gather, an_index_that_does_not_fit_is_said) {
    expect(OP_gather, TYPES(T(F32, 8, 6), T(I32, 7, 4)), NULL, "%1 is [7, 4], %0 [8, 6]: sizes differ beyond axis 1");
    expect(OP_gather, TYPES(T(F32, 8, 6), T(I32, 8)), NULL, "%1 is [8], %0 [8, 6]: sizes differ beyond axis 1");
    expect(OP_gather, TYPES(T(F32, 8, 6), T(I32, 8, 4)), NUMBER(2), "axis 2 is out of range: there are 2 dimensions");
    expect(OP_gather, TYPES(T(F32, 8, 6), T(F32, 8, 4)), NULL, "%1 is f32, index of gather must be i32 or i64");
    expect(OP_gather, TYPES(T(BOOL, 8, 6), T(I32, 8, 4)), NULL, "%0 is bool, gather takes f32, f64, i32, i64, f16 or bf16");
    expect(OP_gather_grad, TYPES(T(F32, 4, 5), T(I32, 4, 5)), NUMBERS(0, 1), "size is 0, must be at least 1");
}

Test(gather, rows_that_are_put_and_their_indices_are_whole) {
    expect(OP_put, TYPES(T(F32, 8, 6), T(F32, 8, 2), T(I32, 2)), NUMBER(1), "[8:0 6:1], [8:0 2], [2] -> f32[8:0 6:1] of 6");
    expect(OP_put, TYPES(T(F64, 4, 6, 3), T(F64, 4, 1, 3), T(I64, 1)), NUMBER(-2),
           "[4:0 6:1 3:2], [4:0 1 3:2], [1] -> f64[4:0 6:1 3:2] of 6");
    expect(OP_put, TYPES(T(F32, 8, 6), T(F32, 8, 2), T(I32, 3)), NUMBER(1),
           "%1 is [8, 2], %0 [8, 6] and %2 [3]: not a row for each index along axis 1");
    expect(OP_put, TYPES(T(F32, 8, 6), T(F32, 7, 2), T(I32, 2)), NUMBER(1),
           "%1 is [7, 2], %0 [8, 6] and %2 [2]: not a row for each index along axis 1");
}

Test(gather, what_is_added_has_an_index_each) {
    expect(OP_scatter_add, TYPES(T(F32, 8, 6), T(I32, 8, 4), T(F32, 8, 4)), NULL, "[8:0 6:1], [8:0 4], [8:0 4] -> f32[8:0 6:1] of 6");
    expect(OP_scatter_add, TYPES(T(F32, 8, 6), T(I32, 9), T(F32, 9, 6)), NUMBER(0), "[8:0 6:1], [9], [9 6:1] -> f32[8:0 6:1] of 8");
    expect(OP_scatter_add, TYPES(T(F32, 8, 6), T(I32, 8, 4), T(F32, 7, 4)), NULL, "%2 is [7, 4], %0 [8, 6]: sizes differ beyond axis 1");
    expect(OP_scatter_add, TYPES(T(F32, 8, 6), T(I32, 8, 3), T(F32, 8, 4)), NULL, "%1 is [8, 3], %2 [8, 4]: sizes differ beyond axis 1");
}

Test(gather, lines_and_rows_stay_whole) {
    expect(OP_cumsum, TYPES(T(F32, 4, 6, 3)), NUMBER(1), "[4:0 6 3:1] -> f32[4:0 6 3:1]");
    expect(OP_cumsum, TYPES(T(F32, 4)), NUMBER(1), "axis 1 is out of range: there is 1 dimension");
    expect(OP_topk, TYPES(T(F32, 4, 6)), NUMBER(2), "[4:0 6:1] -> f32[4:0 2:2]");
    expect(OP_topk, TYPES(T(F32, 4, 6)), NUMBER(7), "k is 7, not from 1 to 6, the last size of %0");
    expect(OP_topk, TYPES(T(F32, 4, 6)), NUMBER(0), "k is 0, not from 1 to 6, the last size of %0");
    expect(OP_stack, TYPES(T(BOOL, 4, 6), T(BOOL, 4, 6)), NUMBER(-1), "[4:0 6:1], [4:0 6:1] -> bool[4:0 6:1 2]");
    expect(OP_stack, TYPES(T(F32, 4), T(F32, 5)), NULL, "shapes differ: %0 is [4], %1 is [5]");
    Rule rule;
    const Attr two[MAX_ATTRS] = {{.given = true, .i = 2}};
    cr_assert(rule_infer(OP_topk, TYPES(T(F64, 4, 6)), two, &rule, NULL));
    cr_expect(rule.nout == 2 && rule.result[1].dtype == I32 && rule.factor[1].whole && rule.factor[2].whole);
}
