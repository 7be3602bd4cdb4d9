/* Derivatives along directions: against differences, which are exact for polynomials of degree 2, and against what defines the others. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/parts.h"
#include "tests/proof/trials.h"

/* What a forward operator is taken apart into once gradients are there has none, but is met where those of a whole graph are compared. */
Test(proof_tangent, every_row_with_an_adjoint_has_a_rule) {
    for (int op = 0; op < NOPS; op++)
        cr_expect_eq(op_table[op].adjoint != NULL || op == OP_attention_most || op == OP_attention_sums, field_has_tangent((OpCode)op),
                     "%s", op_table[op].name);
}

typedef struct Setting {
    TrialGraph t;
    FieldTensor in[MAX_IN], din[MAX_IN], out[MAX_OUT], dout[MAX_OUT];
} Setting;

static Fe *room(const FieldTensor *t) {
    return malloc(sizeof(Fe) * (size_t)(shape_elements(&t->global) + 1));
}

/* Operands and directions are random; results and derivatives are computed. still: an operand that does not move, -1: all do. */
static void setting_open(Setting *s, const Trial *trial, int still) {
    int64_t begin[MAX_FACTORS] = {0}, end[MAX_FACTORS];
    char why[256];
    trial_open(&s->t, trial, F32);
    const Node *node = s->t.node;
    for (int f = 0; f < node->rule->nfactors; f++)
        end[f] = part_extent(node->rule, f);
    trial_boxes(&s->t, begin, end, s->in, s->out);
    for (int i = 0; i < node->nin; i++) {
        s->in[i].at = room(&s->in[i]);
        s->din[i] = s->in[i];
        s->din[i].at = room(&s->in[i]);
        cr_assert(field_leaf(&s->t.graph, &s->t.graph.nodes.at[i], 3, &s->in[i], why, sizeof why));
        cr_assert(field_leaf(&s->t.graph, &s->t.graph.nodes.at[i], 4, &s->din[i], why, sizeof why));
        if (i == still) {
            free(s->din[i].at);
            s->din[i].at = NULL;
        }
    }
    for (int k = 0; k < node->nout; k++) {
        s->out[k].at = room(&s->out[k]);
        s->dout[k] = s->out[k];
        s->dout[k].at = room(&s->out[k]);
    }
    cr_assert(field_kernel(&s->t.graph, node, s->in, s->out, why, sizeof why), "%s", why);
    cr_assert(field_tangent(&s->t.graph, node, s->in, s->din, s->out, s->dout, why, sizeof why), "%s", why);
}

static void setting_close(Setting *s) {
    for (int i = 0; i < s->t.node->nin; i++) {
        free(s->in[i].at);
        free(s->din[i].at);
    }
    for (int k = 0; k < s->t.node->nout; k++) {
        free(s->out[k].at);
        free(s->dout[k].at);
    }
    trial_close(&s->t);
}

/* Result k at operands + step * direction. */
static Fe *moved(const Setting *s, Fe step, int k) {
    FieldTensor in[MAX_IN], out[MAX_OUT];
    char why[256];
    const Node *node = s->t.node;
    for (int i = 0; i < node->nin; i++) {
        in[i] = s->in[i];
        in[i].at = room(&in[i]);
        for (int64_t e = 0, n = shape_elements(&in[i].global); e < n; e++)
            in[i].at[e] = fe_add(s->in[i].at[e], s->din[i].at && dtype_is_float(in[i].dtype) ? fe_mul(step, s->din[i].at[e]) : 0);
    }
    for (int o = 0; o < node->nout; o++) {
        out[o] = s->out[o];
        out[o].at = room(&out[o]);
    }
    cr_assert(field_kernel(&s->t.graph, node, in, out, why, sizeof why), "%s", why);
    for (int i = 0; i < node->nin; i++)
        free(in[i].at);
    for (int o = 0; o < node->nout; o++)
        if (o != k) free(out[o].at);
    return out[k].at;
}

/* f(x + v) - f(x - v) is twice the derivative along v. */
Test(proof_tangent, polynomials_have_the_derivative_that_differences_have) {
    int tried = 0;
    for (int i = 0; i < ntrials; i++) {
        OpCode op = trials[i].op;
        if (!op_table[op].adjoint || trials[i].hashed || op == OP_div || op == OP_max || op == OP_min || op == OP_maximum ||
            op == OP_minimum || op == OP_abs || op == OP_max_pool || op == OP_topk ||
            (op == OP_cast && strcmp(trials[i].attr[0].text, "f32") != 0))
            continue;
        int nstill = trials[i].nin > 1 ? trials[i].nin : 0;
        for (int still = -1; still < nstill; still++) {
            Setting s;
            setting_open(&s, &trials[i], still);
            for (int k = 0; k < s.t.node->nout; k++) {
                Fe *after = moved(&s, 1, k), *before = moved(&s, FIELD_P - 1, k);
                for (int64_t e = 0, n = shape_elements(&s.out[k].global); e < n; e++)
                    cr_assert_eq(fe_mul(2, s.dout[k].at[e]), fe_sub(after[e], before[e]), "%s", op_table[op].name);
                free(after);
                free(before);
            }
            setting_close(&s);
            tried++;
        }
    }
    cr_assert_gt(tried, 40);
}

static const Trial *trial_of(OpCode op) {
    for (int i = 0; i < ntrials; i++)
        if (trials[i].op == op) return &trials[i];
    return NULL;
}

/* b y = a, so b dy + db y = da; the trial broadcasts b, [6], over the rows of a, [8, 6]. */
Test(proof_tangent, a_quotient_times_its_divisor_moves_as_the_dividend) {
    for (int still = -1; still < 2; still++) {
        Setting s;
        setting_open(&s, trial_of(OP_div), still);
        for (int e = 0; e < 48; e++) {
            Fe da = s.din[0].at ? s.din[0].at[e] : 0, db = s.din[1].at ? s.din[1].at[e % 6] : 0;
            cr_assert_eq(fe_add(fe_mul(s.in[1].at[e % 6], s.dout[0].at[e]), fe_mul(db, s.out[0].at[e])), da);
        }
        setting_close(&s);
    }
}

/* What the derivative of each function is in terms of its argument x and its value y, times dx. */
Test(proof_tangent, functions_move_by_their_slope) {
    const OpCode ops[] = {OP_tanh, OP_exp, OP_log, OP_sqrt, OP_sigmoid, OP_relu};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        Setting s;
        setting_open(&s, trial_of(ops[i]), -1);
        for (int64_t e = 0, n = shape_elements(&s.out[0].global); e < n; e++) {
            Fe x = s.in[0].at[e], y = s.out[0].at[e], dx = s.din[0].at[e], dy = s.dout[0].at[e];
            if (ops[i] == OP_tanh) cr_assert_eq(dy, fe_sub(dx, fe_mul(fe_mul(y, y), dx)));
            if (ops[i] == OP_exp) cr_assert_eq(dy, fe_mul(y, dx));
            if (ops[i] == OP_log) cr_assert_eq(fe_mul(dy, x), dx);
            if (ops[i] == OP_sqrt) cr_assert_eq(fe_mul(fe_mul(2, y), dy), dx);
            if (ops[i] == OP_sigmoid) cr_assert_eq(dy, fe_sub(fe_mul(y, dx), fe_mul(fe_mul(y, y), dx)));
            if (ops[i] == OP_relu) cr_assert_neq(dy, 0);
        }
        setting_close(&s);
    }
}

/* dy_i = sum over j of y_i ((i = j) - y_j) dx_j, along dimension 1 of [4, 6, 3]. */
Test(proof_tangent, softmax_moves_by_its_jacobian) {
    Setting s;
    setting_open(&s, trial_of(OP_softmax), -1);
    for (int a = 0; a < 4; a++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 6; i++) {
                Fe sum = 0;
                for (int j = 0; j < 6; j++) {
                    Fe slope = fe_mul(s.out[0].at[(a * 6 + i) * 3 + c], fe_sub(i == j, s.out[0].at[(a * 6 + j) * 3 + c]));
                    sum = fe_add(sum, fe_mul(slope, s.din[0].at[(a * 6 + j) * 3 + c]));
                }
                cr_assert_eq(sum, s.dout[0].at[(a * 6 + i) * 3 + c]);
            }
    setting_close(&s);
}

/* Rows of [2, 4]: one maximum; three that tie. */
Test(proof_tangent, elements_that_tie_move_the_maximum_by_their_mean) {
    const Trial trial = {.op = OP_max, .nin = 1, .in = {{2, {2, 4}}}, .attr = {{.given = true, .n = 1, .ints = {1}}}};
    Setting s;
    char why[256];
    setting_open(&s, &trial, -1);
    const int64_t x[] = {1, -5, 7, 6, 3, 3, -9, 3};
    for (int e = 0; e < 8; e++)
        s.in[0].at[e] = fe_integer(x[e]);
    cr_assert(field_kernel(&s.t.graph, s.t.node, s.in, s.out, why, sizeof why));
    cr_assert(field_tangent(&s.t.graph, s.t.node, s.in, s.din, s.out, s.dout, why, sizeof why));
    const Fe *v = s.din[0].at;
    cr_assert_eq(fe_signed(s.out[0].at[0]), 7);
    cr_assert_eq(fe_signed(s.out[0].at[1]), 3);
    cr_assert_eq(s.dout[0].at[0], v[2]);
    cr_assert_eq(fe_mul(3, s.dout[0].at[1]), fe_add(fe_add(v[4], v[5]), v[7]));
    setting_close(&s);
}

/* The operand that the result is, and where both are equal their mean; [3] and [3]. */
Test(proof_tangent, the_larger_operand_moves_a_maximum) {
    const OpCode ops[] = {OP_maximum, OP_minimum};
    for (int larger = 0; larger < 2; larger++) {
        const Trial trial = {.op = ops[larger], .nin = 2, .in = {{1, {3}}, {1, {3}}}};
        Setting s;
        char why[256];
        setting_open(&s, &trial, -1);
        const int64_t a[] = {1, 5, 4}, b[] = {-2, 6, 4};
        for (int e = 0; e < 3; e++) {
            s.in[0].at[e] = fe_integer(a[e]);
            s.in[1].at[e] = fe_integer(b[e]);
        }
        cr_assert(field_kernel(&s.t.graph, s.t.node, s.in, s.out, why, sizeof why));
        cr_assert(field_tangent(&s.t.graph, s.t.node, s.in, s.din, s.out, s.dout, why, sizeof why));
        cr_assert_eq(s.dout[0].at[0], s.din[larger].at[0]);
        cr_assert_eq(s.dout[0].at[1], s.din[1 - larger].at[1]);
        cr_assert_eq(fe_mul(2, s.dout[0].at[2]), fe_add(s.din[0].at[2], s.din[1].at[2]));
        setting_close(&s);
    }
}

Test(proof_tangent, what_does_not_move_has_no_derivative) {
    Setting s;
    char why[256];
    setting_open(&s, trial_of(OP_square), -1);
    free(s.din[0].at);
    s.din[0].at = NULL;
    Fe *kept = s.dout[0].at;
    cr_assert(field_tangent(&s.t.graph, s.t.node, s.in, s.din, s.out, s.dout, why, sizeof why));
    cr_assert_null(s.dout[0].at);
    free(kept);
    setting_close(&s);
}
