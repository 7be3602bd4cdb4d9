/* cases: see cases.h. Sizes are those at which kernels take another way: of one element, odd, beyond a vector, a tile, a block, a thread's share. */
#include "tests/ops/cases.h"
#include "tests/proof/trials.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define CASE(...) fn(context, &(Check){__VA_ARGS__})

/* ---------------------------------------------------------------- elementwise */

void cases_unary(CaseFn *fn, void *context) {
    const OpCode ops[] = {
#define UNARY_OP(name, ...) OP_##name,
#define UNARY_OP_X(name, ...) OP_##name,
#define UNARY_OP_Y(name, ...) OP_##name,
#include "ir/elementwise.def"
        OP_gelu};
    const Shape x[] = {SHAPE(7, 5), SHAPE(301, 211), SCALAR};
    const Attr tanh = INT(1), bounds[][2] = {{NUMBER(-0.25), NUMBER(0.5)}, {NUMBER(0.1), {0}}, {{0}, NUMBER(-0.1)}};
    for (size_t i = 0; i < COUNT(ops); i++)
        for (size_t s = 0; s < COUNT(x); s++)
            CASE(.op = ops[i], .nin = 1, .in = {x[s]}, .positive = op_table[ops[i]].domain == DOMAIN_POSITIVE);
    CASE(.op = OP_gelu, .nin = 1, .in = {SHAPE(301, 21)}, .attr = {tanh});
    CASE(.op = OP_gelu_grad, .nin = 2, .in = {SHAPE(301, 21), SHAPE(301, 21)}, .attr = {tanh});
    for (size_t b = 0; b < COUNT(bounds); b++)
        CASE(.op = OP_clamp_grad, .nin = 2, .in = {SHAPE(301, 21), SHAPE(301, 21)}, .attr = {bounds[b][0], bounds[b][1]});
    CASE(.op = OP_clamp, .nin = 1, .in = {SHAPE(301, 211)}, .attr = {NUMBER(-3), NUMBER(20)});
    CASE(.op = OP_clamp, .nin = 1, .in = {SCALAR}, .attr = {NUMBER(-3)});
    CASE(.op = OP_stop_gradient, .nin = 1, .in = {SHAPE(200, 100)});
    for (int to = 0; to < NDTYPES; to++)
        CASE(.op = OP_cast, .nin = 1, .in = {SHAPE(301, 70)}, .attr = {{.given = true, .text = dtype_name[to]}});
}

void cases_binary(CaseFn *fn, void *context) {
    const OpCode ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_maximum, OP_minimum, OP_max_share, OP_pow};
    const Shape pairs[][2] = {{SHAPE(8, 6), SHAPE(8, 6)},    {SHAPE(8, 6), SHAPE(6)},      {SHAPE(6), SHAPE(8, 6)},
                              {SHAPE(8, 6), SHAPE(8, 1)},    {SHAPE(8, 1), SHAPE(1, 6)},   {SHAPE(4, 1, 3), SHAPE(5, 1)},
                              {SCALAR, SHAPE(3, 2)},         {SHAPE(3, 2), SCALAR},        {SCALAR, SCALAR},
                              {SHAPE(300, 200), SHAPE(200)}, {SHAPE(70000), SHAPE(70000)}, {SHAPE(200, 300), SHAPE(200, 1)}};
    for (size_t i = 0; i < COUNT(ops); i++)
        for (size_t p = 0; p < COUNT(pairs); p++)
            CASE(.op = ops[i], .nin = 2, .in = {pairs[p][0], pairs[p][1]}, .positive = op_table[ops[i]].domain == DOMAIN_POSITIVE);
}

void cases_gradients(CaseFn *fn, void *context) {
    const OpCode ops[] = {
#define UNARY_OP_X(name, ...) OP_##name##_grad,
#define UNARY_OP_Y(name, ...) OP_##name##_grad,
#include "ir/elementwise.def"
        OP_gelu_grad, OP_max_mask, OP_max_share};
    const Shape x[] = {SHAPE(7, 5), SHAPE(60000)};
    for (size_t i = 0; i < COUNT(ops); i++)
        for (size_t s = 0; s < COUNT(x); s++)
            CASE(.op = ops[i], .nin = 2, .in = {x[s], x[s]}, .positive = ops[i] == OP_sqrt_grad);
}

void cases_selections(CaseFn *fn, void *context) {
    const OpCode ops[] = {OP_less, OP_less_equal, OP_greater, OP_greater_equal, OP_equal, OP_not_equal};
    const Shape x[][2] = {{SHAPE(8, 6), SHAPE(8, 6)},
                          {SHAPE(8, 6), SHAPE(6)},
                          {SHAPE(8, 1), SHAPE(1, 6)},
                          {SCALAR, SCALAR},
                          {SHAPE(300, 200), SHAPE(300, 200)}};
    for (size_t i = 0; i < COUNT(ops); i++)
        for (size_t s = 0; s < COUNT(x); s++)
            CASE(.op = ops[i], .nin = 2, .in = {x[s][0], x[s][1]});
    CASE(.op = OP_where, .nin = 3, .in = {SHAPE(8, 6), SHAPE(8, 6), SHAPE(8, 6)});
    CASE(.op = OP_where, .nin = 3, .in = {SHAPE(8, 1), SHAPE(6), SCALAR});
    CASE(.op = OP_where, .nin = 3, .in = {SHAPE(200), SHAPE(300, 200), SHAPE(300, 1)});
}

/* ---------------------------------------------------------------- reductions and rows */

void cases_reductions(CaseFn *fn, void *context) {
    const OpCode ops[] = {OP_sum, OP_mean, OP_max, OP_min};
    const Shape x[] = {SHAPE(8, 6), SHAPE(4, 6, 3), SHAPE(70, 33), SHAPE(300, 200), SHAPE(2, 3, 4, 5)};
    /* Groups of lanes, a block a row, several blocks a row, columns with and without parts. */
    const Shape lengths[] = {SHAPE(3, 1),     SHAPE(300, 2),  SHAPE(37, 64),   SHAPE(5, 1000),  SHAPE(3, 5001),
                             SHAPE(1, 40000), SHAPE(3000, 3), SHAPE(4100, 40), SHAPE(2, 700, 5)};
    for (size_t op = 0; op < COUNT(ops); op++)
        for (size_t s = 0; s < COUNT(x); s++)
            for (int axes = 0; axes < 1 << x[s].ndim; axes++) { /* every set of axes; none given: all */
                Check check = {.op = ops[op], .nin = 1, .in = {x[s]}, .attr = {[1] = INT(axes % 2)}};
                check.attr[0].given = axes != 0;
                for (int d = 0; d < x[s].ndim; d++)
                    if (axes & 1 << d) check.attr[0].ints[check.attr[0].n++] = d;
                fn(context, &check);
            }
    for (size_t s = 0; s < COUNT(lengths); s++)
        for (int axis = 0; axis < lengths[s].ndim; axis++) {
            for (size_t op = 0; op < COUNT(ops); op++)
                if (ops[op] != OP_mean) CASE(.op = ops[op], .nin = 1, .in = {lengths[s]}, .attr = {INTS(axis)});
            CASE(.op = OP_first, .nin = 1, .in = {lengths[s]}, .attr = {INT(axis)});
        }
    CASE(.op = OP_first, .nin = 1, .in = {SHAPE(9, 40)});
    CASE(.op = OP_sum_to, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(6)});
    CASE(.op = OP_sum_to, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(8, 1)});
    CASE(.op = OP_sum_to, .nin = 1, .in = {SHAPE(5, 8, 6)}, .attr = {INTS(1, 6)});
    CASE(.op = OP_sum_to, .nin = 1, .in = {SHAPE(600, 100)}, .attr = {INTS(100)});
    for (int mean = 0; mean < 2; mean++) {
        for (int replicas = 2; replicas < 6; replicas++)
            CASE(.op = OP_replica_sum, .nin = 1, .in = {SHAPE(replicas, 4, 6)}, .hidden = true, .attr = {INT(mean)});
        CASE(.op = OP_replica_sum, .nin = 1, .in = {SHAPE(1, 41, 60)}, .hidden = true, .attr = {INT(mean)});
        CASE(.op = OP_replica_sum, .nin = 1, .in = {SHAPE(1, 1, 3)}, .hidden = true, .attr = {INT(mean)});
    }
}

/* Gradients take off the sum of a row of numbers below 1, times e at most. */
static void row(CaseFn *fn, void *context, Shape x, int axis) {
    const OpCode ops[] = {OP_softmax, OP_log_softmax, OP_softmax_grad, OP_log_softmax_grad};
    const double n = (double)x.dim[axis < 0 ? x.ndim - 1 : axis];
    for (int op = 0; op < 4; op++)
        CASE(.op = ops[op], .nin = op < 2 ? 1 : 2, .in = {x, x}, .attr = {{.given = axis >= 0, .i = axis}}, .length = n,
             .size = op < 2 ? 1 : 3 * sqrt(n), .fast = n > 200);
}

void cases_rows(CaseFn *fn, void *context) {
    const Shape x[] = {SHAPE(8, 6), SHAPE(5, 70, 3), SHAPE(3, 4, 70), SHAPE(9), SHAPE(2, 1, 5), SHAPE(2, 40, 33), SHAPE(150, 40)};
    const int64_t n[] = {1, 31, 32, 64, 100, 128, 129, 512, 1000, 1024, 1025, 2048, 4096, 4097, 5000, 9001};
    for (size_t s = 0; s < COUNT(x); s++)
        for (int axis = -1; axis < x[s].ndim; axis++)
            row(fn, context, x[s], axis);
    for (size_t i = 0; i < COUNT(n); i++)
        row(fn, context, SHAPE(3, n[i]), -1);
}

/* Rows in a warp, rows in a block, held and not, in whole accesses and not; more rows than blocks of them; a weight of two dimensions. Gradients are sums over rows too,
 * in parts and not. */
void cases_norms(CaseFn *fn, void *context) {
    const Shape x[] = {SHAPE(8, 6),    SHAPE(5, 70, 3), SHAPE(9),       SHAPE(2, 1, 5), SHAPE(150, 40),  SHAPE(3000, 17),
                       SHAPE(3, 1024), SHAPE(70, 1025), SHAPE(2, 5000), SHAPE(3, 768),  SHAPE(600, 200), SHAPE(4, 101)};
    for (size_t s = 0; s < COUNT(x); s++)
        for (int lead = x[s].ndim > 2 ? 1 : x[s].ndim - 1; lead < x[s].ndim; lead++) {
            Shape weight = {.ndim = x[s].ndim - lead};
            memcpy(weight.dim, x[s].dim + lead, sizeof *weight.dim * (size_t)weight.ndim);
            const double n = (double)shape_elements(&weight), length = n + (double)shape_elements(&x[s]) / n;
            Shape numbers = x[s];
            for (int d = lead; d < x[s].ndim; d++)
                numbers.dim[d] = 1;
            for (int centered = 0; centered < 2; centered++) {
                CASE(.op = centered ? OP_layer_norm : OP_rms_norm, .nin = 2 + centered, .in = {x[s], weight, weight},
                     .attr = {NUMBER(1e-3)}, .length = n, .size = 8);
                CASE(.op = centered ? OP_layer_norm_grad : OP_rms_norm_grad, .nin = 4 + centered,
                     .in = {x[s], x[s], weight, numbers, numbers}, .attr = {NUMBER(1e-3)}, .length = length, .size = 40 + length);
            }
        }
}

/* Planes of a vector and more, and smaller ones, whose columns go side by side, up to more than a block of them; one sample; more channels than blocks of a device, and
 * than a launch has; channels of several blocks, whose planes are whole accesses or not. */
void cases_batch_norms(CaseFn *fn, void *context) {
    const Shape x[] = {SHAPE(8, 6),         SHAPE(5, 300), SHAPE(4, 3, 15),      SHAPE(4, 3, 16), SHAPE(3, 70, 3, 5),  SHAPE(2, 3, 7, 9),
                       SHAPE(1, 4, 33, 40), SHAPE(9, 1),   SHAPE(2, 2, 2, 3, 5), SHAPE(2, 4500),  SHAPE(5, 2, 80, 96), SHAPE(3, 2, 57, 61)};
    for (size_t s = 0; s < COUNT(x); s++) {
        const Shape c = SHAPE(x[s].dim[1]);
        const double n = (double)(shape_elements(&x[s]) / x[s].dim[1]);
        CASE(.op = OP_batch_norm, .nin = 3, .in = {x[s], c, c}, .attr = {NUMBER(1e-3)}, .length = n, .size = 8);
        CASE(.op = OP_batch_norm_grad, .nin = 5, .in = {x[s], x[s], c, c, c}, .attr = {NUMBER(1e-3)}, .positive = true, .length = n,
             .size = 40 + n);
    }
}

/* ---------------------------------------------------------------- attention */

/* Queries [.., m, d] of `group` heads, keys [.., n, d], values [.., n, e], with and without a mask of this shape; all four operators. What the gradient is given as the
 * largest scores and the sums is not what they are: powers of scores up to their width, over numbers from 0.01 on. */
static void attend(CaseFn *fn, void *context, Shape q, Shape k, int64_t e, Shape mask, bool causal) {
    Shape v = k, y = q, s = q;
    const bool masked = mask.ndim > 0;
    v.dim[v.ndim - 1] = y.dim[y.ndim - 1] = e;
    s.dim[s.ndim - 1] = 1;
    const Attr attr[2] = {INT(causal), NUMBER(0.25)};
    const double n = (double)k.dim[k.ndim - 2], m = (double)(shape_elements(&s) / shape_elements(&k) * k.dim[k.ndim - 1]) * n,
                 d = (double)q.dim[q.ndim - 1], length = n + m + d;
    CASE(.op = OP_dot_product_attention, .nin = 3 + masked, .in = {q, k, v, mask}, .attr = {attr[0], attr[1]}, .length = n, .size = n + d);
    CASE(.op = OP_dot_product_attention, .nin = 3 + masked, .in = {q, k, v, mask}, .attr = {attr[0]}, .length = n, .size = n + d);
    CASE(.op = OP_attention_most, .nin = 2 + masked, .in = {q, k, masked ? mask : v}, .attr = {attr[0], attr[1]}, .length = d, .size = d);
    CASE(.op = OP_attention_sums, .nin = 4 + masked, .in = {q, k, v, s, mask}, .attr = {attr[0], attr[1]}, .length = length,
         .size = 4 * exp(0.25 * d) * n);
    CASE(.op = OP_attention_grad, .nin = 7 + masked, .in = {q, y, k, v, y, s, s, mask}, .attr = {attr[0], attr[1]}, .length = length,
         .size = 1000 * exp(0.25 * d) * length, .positive = true);
}

void cases_attention(CaseFn *fn, void *context) {
    const Shape none = SCALAR, turned[] = {SHAPE(7, 2), SHAPE(2, 3, 150, 8), SHAPE(4, 300, 34)};
    /* Angles of as many radians as there are places are rounded. */
    for (size_t s = 0; s < COUNT(turned); s++)
        for (int inverse = 0; inverse < 2; inverse++) {
            CASE(.op = OP_rope, .nin = 1, .in = {turned[s]}, .attr = {{0}, INT(inverse)},
                 .size = (double)turned[s].dim[turned[s].ndim - 2]);
            CASE(.op = OP_rope, .nin = 1, .in = {turned[s]}, .attr = {NUMBER(500000), INT(inverse)},
                 .size = (double)turned[s].dim[turned[s].ndim - 2]);
        }
    for (int causal = 0; causal < 2; causal++) {
        attend(fn, context, SHAPE(4, 6, 3), SHAPE(4, 5, 3), 2, none, causal);
        attend(fn, context, SHAPE(1, 1), SHAPE(1, 1), 1, none, causal);
        attend(fn, context, SHAPE(2, 3, 9, 4), SHAPE(2, 3, 20, 4), 5, SHAPE(1, 3, 9, 20), causal);
        attend(fn, context, SHAPE(2, 3, 9, 4), SHAPE(2, 20, 4), 5, SHAPE(2, 1, 1, 20), causal);
        attend(fn, context, SHAPE(3, 2, 5, 4), SHAPE(3, 7, 4), 4, SHAPE(5, 1), causal);
        attend(fn, context, SHAPE(2, 300, 4), SHAPE(2, 260, 4), 3, none, causal); /* several blocks */
        attend(fn, context, SHAPE(140, 3), SHAPE(530, 3), 2, SHAPE(140, 530), causal);
        attend(fn, context, SHAPE(2, 70, 20), SHAPE(2, 66, 20), 100, none, causal); /* wide: in tiles, and too wide for them */
        attend(fn, context, SHAPE(6, 5), SHAPE(9, 5), 130, none, causal);
    }
}

/* ---------------------------------------------------------------- movements */

void cases_movements(CaseFn *fn, void *context) {
    const Shape planes[] = {SHAPE(8, 6), SHAPE(301, 203), SHAPE(64, 64),  SHAPE(128, 96),
                            SHAPE(1, 7), SHAPE(7, 1),     SHAPE(4, 1000), SHAPE(66, 68)};
    const Shape x[] = {SHAPE(2, 3, 4, 5), SHAPE(16, 2, 12, 8), SHAPE(9, 17, 2, 1), SHAPE(1, 40, 50, 33)};
    for (size_t s = 0; s < COUNT(planes); s++)
        CASE(.op = OP_transpose, .nin = 1, .in = {planes[s]});
    for (size_t s = 0; s < COUNT(x); s++)
        for (int code = 0; code < 256; code++) {
            const int64_t p[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
            if ((1 << p[0] | 1 << p[1] | 1 << p[2] | 1 << p[3]) == 15)
                CASE(.op = OP_transpose, .nin = 1, .in = {x[s]}, .attr = {INTS(p[0], p[1], p[2], p[3])});
        }
    CASE(.op = OP_reshape, .nin = 1, .in = {SHAPE(4, 6, 3)}, .attr = {INTS(8, 9)});
    CASE(.op = OP_reshape, .nin = 1, .in = {SHAPE(400, 31)}, .attr = {INTS(-1)});
    for (int replicas = 1; replicas <= 5; replicas += 4)
        CASE(.op = OP_replicate, .nin = 1, .in = {SHAPE(4, 6)}, .attr = {INT(replicas)});
    CASE(.op = OP_replicate, .nin = 1, .in = {SCALAR}, .attr = {INT(64)});
    CASE(.op = OP_expose, .nin = 1, .in = {SHAPE(4, 6)}, .attr = {INT(1)});
    CASE(.op = OP_expose, .nin = 1, .in = {SHAPE(5, 4, 6)}, .hidden = true);
}

void cases_expansions(CaseFn *fn, void *context) {
    const OpCode ops[] = {OP_sum_grad, OP_mean_grad};
    for (size_t op = 0; op < COUNT(ops); op++) {
        CASE(.op = ops[op], .nin = 1, .in = {SCALAR}, .attr = {{0}, INTS(8, 6)});
        CASE(.op = ops[op], .nin = 1, .in = {SHAPE(6)}, .attr = {INTS(0), INTS(8, 6)});
        CASE(.op = ops[op], .nin = 1, .in = {SHAPE(16)}, .attr = {INTS(0), INTS(9, 16)});
        CASE(.op = ops[op], .nin = 1, .in = {SHAPE(8, 1)}, .attr = {INTS(1), INTS(8, 6)});
        CASE(.op = ops[op], .nin = 1, .in = {SHAPE(300)}, .attr = {INTS(1), INTS(300, 200)});
        CASE(.op = ops[op], .nin = 1, .in = {SHAPE(4, 5)}, .attr = {INTS(1), INTS(4, 7, 5)});
    }
}

void cases_cuts(CaseFn *fn, void *context) {
    CASE(.op = OP_slice, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(0, 2), INTS(8, 5)});
    CASE(.op = OP_slice, .nin = 1, .in = {SHAPE(8, 6, 5)}, .attr = {INTS(-3, 0, 1), INTS(-1, 6, 2)});
    CASE(.op = OP_slice, .nin = 1, .in = {SHAPE(40, 32)}, .attr = {INTS(0, 16), INTS(40, 32)});
    CASE(.op = OP_slice, .nin = 1, .in = {SHAPE(400, 300)}, .attr = {INTS(0, 100), INTS(400, 299)});
    CASE(.op = OP_slice_grad, .nin = 1, .in = {SHAPE(8, 3)}, .attr = {INTS(0, 2), INTS(8, 5), INTS(8, 6)});
    CASE(.op = OP_slice_grad, .nin = 1, .in = {SHAPE(2, 6, 1)}, .attr = {INTS(-3, 0, 1), INTS(-1, 6, 2), INTS(8, 6, 5)});
    CASE(.op = OP_slice_grad, .nin = 1, .in = {SHAPE(400, 199)}, .attr = {INTS(0, 100), INTS(400, 299), INTS(400, 300)});
    for (int axis = -3; axis < 3; axis++) {
        Check concat = {.op = OP_concat, .nin = 4, .attr = {INT(axis)}}, even = {.op = OP_concat, .nin = 8, .attr = {INT(axis)}};
        for (int i = 0; i < 8; i++) {
            concat.in[i] = SHAPE(4, 30, 50);
            concat.in[i].dim[(axis + 3) % 3] = 1 + 7 * i;
            even.in[i] = SHAPE(4, 8, 16);
        }
        fn(context, &concat);
        fn(context, &even);
        CASE(.op = OP_split, .nin = 1, .in = {SHAPE(16, 24, 40)}, .attr = {INT(8), INT(axis)});
        CASE(.op = OP_split, .nin = 1, .in = {SHAPE(3, 9, 21)}, .attr = {INT(3), INT(axis)});
    }
}

/* Few rows looked up by many, by all or by none; many rows; wide rows; more of one row than a block notes at once. */
void cases_lookups(CaseFn *fn, void *context) {
    const int64_t tables[][4] = {/* rows, indices, width, indices are below */ {40, 8, 6, 40},
                                 {40, 2100, 33, 40},
                                 {3, 9000, 5, 3},
                                 {1, 5000, 40, 1},
                                 {5000, 30, 3, 5000},
                                 {2000, 4100, 9, 2000},
                                 {70, 600, 200, 70},
                                 {9, 100, 1000, 9},
                                 {40, 6000, 7, 1},
                                 {100, 1, 64, 100},
                                 {1, 20000, 3, 1}};
    CASE(.op = OP_pick, .nin = 2, .in = {SHAPE(8, 6), SHAPE(8)}, .most = 6);
    CASE(.op = OP_pick, .nin = 2, .in = {SHAPE(5), SCALAR}, .most = 5);
    CASE(.op = OP_pick, .nin = 2, .in = {SHAPE(200, 100, 9), SHAPE(200, 100)}, .most = 9);
    const Shape logits[] = {SHAPE(8, 6),    SHAPE(5),       SHAPE(4, 6, 3), SHAPE(70, 33), SHAPE(300, 64),
                            SHAPE(3, 1024), SHAPE(3, 1025), SHAPE(2, 5000), SHAPE(2, 5001)};
    const Attr smoothing[] = {{0}, NUMBER(0.25)};
    for (size_t s = 0; s < COUNT(logits); s++)
        for (size_t k = 0; k < COUNT(smoothing); k++) {
            Shape row = logits[s], number = logits[s];
            const double n = (double)row.dim[--row.ndim];
            number.dim[row.ndim] = 1;
            CASE(.op = OP_cross_entropy_rows, .nin = 2, .in = {logits[s], row}, .attr = {smoothing[k]}, .most = (int64_t)n, .length = n,
                 .size = 8);
            CASE(.op = OP_cross_entropy_rows_grad, .nin = 5, .in = {logits[s], row, row, number, number}, .attr = {smoothing[k]},
                 .most = (int64_t)n, .length = n, .size = 400, .positive = true);
        }
    for (int64_t n = 1; n < 40; n += 7) {
        CASE(.op = OP_pick_grad, .nin = 2, .in = {SHAPE(8), SHAPE(8)}, .attr = {INT(n)}, .most = n);
        CASE(.op = OP_pick_grad, .nin = 2, .in = {SHAPE(20, 10), SHAPE(20, 10)}, .attr = {INT(n + 1)}, .most = n + 1);
        for (int to = 0; to < NDTYPES; to++)
            CASE(.op = OP_one_hot, .nin = 1, .in = {SHAPE(9, 40)}, .attr = {INT(n + n % 2), {.given = true, .text = dtype_name[to]}},
                 .most = n);
    }
    CASE(.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 6), SHAPE(8)}, .most = 40);
    CASE(.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 33), SHAPE(70, 30)}, .most = 40);
    CASE(.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 64), SHAPE(70)}, .most = 40);
    CASE(.op = OP_embedding, .nin = 2, .in = {SHAPE(4, 3), SCALAR}, .most = 4);
    for (size_t t = 0; t < COUNT(tables); t++)
        CASE(.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(tables[t][1], tables[t][2]), SHAPE(tables[t][1])}, .attr = {INT(tables[t][0])},
             .most = tables[t][3], .length = (double)tables[t][1]);
    CASE(.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(7, 30, 13), SHAPE(7, 30)}, .attr = {INT(40)}, .most = 40, .length = 210);
}

/* Elements and rows, of few lines and of many; indices that are often the same. */
static void gathered(CaseFn *fn, void *context, Shape x, Shape index, int axis) {
    Shape rows = x;
    const int64_t size = x.dim[axis];
    rows.dim[axis] = index.dim[axis];
    CASE(.op = OP_gather, .nin = 2, .in = {x, index}, .attr = {INT(axis)}, .most = size);
    CASE(.op = OP_gather_grad, .nin = 2, .in = {rows, index}, .attr = {INT(size), INT(axis)}, .most = size,
         .length = (double)index.dim[axis]);
}

void cases_along(CaseFn *fn, void *context) {
    const Shape lines[] = {SHAPE(8, 6), SHAPE(5, 70, 3), SHAPE(9), SHAPE(2, 40, 33), SHAPE(3, 701), SHAPE(2, 90, 100), SHAPE(1, 1)};
    const int64_t rows[][3] = {/* rows, length, k */ {8, 6, 2},
                               {1, 1, 1},
                               {3, 2001, 50},
                               {300, 70, 70},
                               {7, 64, 1},
                               {2, 300, 299}};
    CASE(.op = OP_put, .nin = 3, .in = {SHAPE(8, 6), SHAPE(8, 1), SHAPE(1)}, .attr = {INT(1)}, .most = 6);
    CASE(.op = OP_put, .nin = 3, .in = {SHAPE(40, 33), SHAPE(9, 33), SHAPE(9)}, .attr = {INT(0)}, .most = 40);
    CASE(.op = OP_put, .nin = 3, .in = {SHAPE(300, 7, 64), SHAPE(300, 20, 64), SHAPE(20)}, .attr = {INT(1)}, .most = 7);
    gathered(fn, context, SHAPE(8, 6), SHAPE(8, 4), 1);
    gathered(fn, context, SHAPE(8, 6), SHAPE(3, 6), 0);
    gathered(fn, context, SHAPE(4, 30, 13), SHAPE(4, 50, 13), 1);
    gathered(fn, context, SHAPE(4, 30, 13), SHAPE(4, 50), 1);
    gathered(fn, context, SHAPE(40, 33), SHAPE(700), 0);
    gathered(fn, context, SHAPE(2, 3, 100, 8), SHAPE(2, 3, 700), 2);
    gathered(fn, context, SHAPE(9), SHAPE(20000), 0);
    gathered(fn, context, SHAPE(2, 5000, 4), SHAPE(2, 10, 4), 1);
    for (size_t s = 0; s < COUNT(lines); s++)
        for (int axis = 0; axis < lines[s].ndim; axis++)
            for (int way = 0; way < 4; way++)
                CASE(.op = OP_cumsum, .nin = 1, .in = {lines[s]}, .attr = {INT(axis), INT(way & 1), INT(way >> 1)},
                     .length = (double)lines[s].dim[axis], .size = (double)lines[s].dim[axis]);
    for (size_t r = 0; r < COUNT(rows); r++)
        CASE(.op = OP_topk, .nin = 1, .in = {SHAPE(rows[r][0], rows[r][1])}, .attr = {INT(rows[r][2])});
    CASE(.op = OP_topk, .nin = 1, .in = {SHAPE(2, 3, 5)}, .attr = {INT(5)});
}

/* ---------------------------------------------------------------- products */

/* A matrix product of these operands, each as it is or, the same product, transposed. */
static void product(CaseFn *fn, void *context, Shape a, Shape b) {
    for (int turned = 0; turned < 4; turned++) {
        Check check = {.op = OP_matmul, .nin = 2, .in = {a, b}, .attr = {INT(turned & 1), INT(turned >> 1)}};
        for (int i = 0; i < 2; i++) {
            int64_t *last = &check.in[i].dim[check.in[i].ndim - 1], kept = *last;
            if (turned & 1 << i) *last = last[-1], last[-1] = kept;
        }
        check.length = check.size = (double)a.dim[a.ndim - 1];
        fn(context, &check);
    }
}

void cases_products(CaseFn *fn, void *context) {
    const Shape pairs[][2] = {{SHAPE(2, 8, 6), SHAPE(6, 4)},
                              {SHAPE(2, 8, 6), SHAPE(2, 6, 4)},
                              {SHAPE(1, 6), SHAPE(6, 4)},
                              {SHAPE(8, 6), SHAPE(6, 1)},
                              {SHAPE(3, 1, 4, 6), SHAPE(2, 6, 5)},
                              {SHAPE(200, 100), SHAPE(100, 150)},
                              {SHAPE(16, 30, 40), SHAPE(16, 40, 50)},
                              {SHAPE(1, 1), SHAPE(1, 1)}};
    /* No two of the three sizes are alike. */
    const int64_t sizes[][3] = {{4, 8, 16}, {7, 5, 3}, {1, 9, 4}, {33, 64, 17}, {64, 200, 96}};
    /* Loops around a product: letters left over in the depth, the batch, the rows and the columns; none for BLAS; matrices of a batch within each other's rows. */
    const char *const specs[] = {"cad,cbd->ab",   "cad,cbd->ba",  "cad,cdb->ab",  "ecad,ecbd->eab", "acd,bdc->ab",
                                 "aecd,bdc->eab", "abc,bcd->abd", "bac,bcd->abd", "abc,bcd->bad",   "abc,dbc->dba"};
    const int64_t size[] = {9, 7, 6, 5, 3}; /* of a to e */
    for (size_t p = 0; p < COUNT(pairs); p++)
        product(fn, context, pairs[p][0], pairs[p][1]);
    for (size_t s = 0; s < COUNT(sizes); s++)
        product(fn, context, SHAPE(sizes[s][0], sizes[s][1]), SHAPE(sizes[s][1], sizes[s][2]));
    for (size_t s = 0; s < COUNT(specs); s++) {
        Check check = {.op = OP_einsum, .nin = 2, .length = 30, .size = 30, .attr = {{.given = true, .text = specs[s]}}};
        int operand = 0;
        for (const char *at = specs[s]; *at != '-'; at++)
            if (*at == ',')
                operand++;
            else
                check.in[operand].dim[check.in[operand].ndim++] = size[*at - 'a'];
        fn(context, &check);
    }
}

/* ---------------------------------------------------------------- planes */

/* A convolution and its gradients. */
static void convolution(CaseFn *fn, void *context, Shape x, Shape w, Attr stride, Attr padding, Attr dilation, int64_t groups) {
    const Attr attr[MAX_ATTRS] = {stride, padding, dilation, {.given = groups > 1, .i = groups}};
    const TensorType in[2] = {{.dtype = F64, .shape = x}, {.dtype = F64, .shape = w}};
    Rule rule;
    cr_assert(rule_infer(OP_conv2d, in, 2, attr, &rule, NULL));
    const Shape y = rule.result[0].shape;
    const double sums[] = {(double)(w.dim[1] * w.dim[2] * w.dim[3]), (double)(w.dim[0] / groups * w.dim[2] * w.dim[3]),
                           (double)(x.dim[0] * y.dim[2] * y.dim[3])};
    for (int k = 0; k < 3; k++) {
        Check check = {.op = k == 0 ? OP_conv2d : k == 1 ? OP_conv2d_grad_x : OP_conv2d_grad_w, .nin = 2};
        check.in[0] = k == 1 ? y : x;
        check.in[1] = k == 2 ? y : w;
        memcpy(check.attr, attr, sizeof attr);
        if (k > 0) {
            const Shape *shape = k == 1 ? &x : &w;
            check.attr[4] = (Attr){.given = true, .n = 4};
            memcpy(check.attr[4].ints, shape->dim, 4 * sizeof *shape->dim);
        }
        check.length = check.size = sums[k];
        fn(context, &check);
    }
}

/* A pool and its gradient. */
static void pool(CaseFn *fn, void *context, Shape x, Attr size, Attr stride, Attr padding) {
    for (int last = 0; last < 2; last++) {
        const Attr max[MAX_ATTRS] = {size, stride, padding, INTS(1 + last), INT(last)},
                   mean[MAX_ATTRS] = {size, stride, padding, INT(last)};
        for (int k = 0; k < 4; k++) {
            Check check = {.op = k == 0   ? OP_max_pool
                                 : k == 1 ? OP_max_pool_grad
                                 : k == 2 ? OP_avg_pool
                                          : OP_avg_pool_grad,
                           .nin = 1 + (k == 1)};
            const TensorType in = {.dtype = F64, .shape = x};
            Rule rule;
            memcpy(check.attr, k < 2 ? max : mean, sizeof max);
            if (!rule_infer(k < 2 ? OP_max_pool : OP_avg_pool, &in, 1, check.attr, &rule, NULL)) continue;
            check.in[0] = k == 3 ? rule.result[0].shape : x;
            if (k == 1) check.in[1] = rule.result[0].shape;
            if (k == 3) {
                Attr *shape = &check.attr[op_attr(OP_avg_pool_grad, "shape")];
                *shape = (Attr){.given = true, .n = x.ndim};
                memcpy(shape->ints, x.dim, sizeof *x.dim * (size_t)x.ndim);
            }
            check.length = check.size = 16;
            fn(context, &check);
        }
    }
}

/* One tap and many; several images to a tile, several tiles to an image; more channels than threads and fewer; windows that reach over the whole plane. */
void cases_planes(CaseFn *fn, void *context) {
    const Attr none = {0}, one = INTS(1);
    convolution(fn, context, SHAPE(2, 3, 9, 8), SHAPE(4, 3, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(2, 3, 17, 14), SHAPE(8, 3, 7, 7), (Attr)INTS(2), (Attr)INTS(3), none, 1);
    convolution(fn, context, SHAPE(5, 6, 4, 4), SHAPE(7, 6, 1, 1), none, none, none, 1);
    convolution(fn, context, SHAPE(3, 6, 5, 7), SHAPE(4, 6, 1, 1), (Attr)INTS(2), none, none, 1);
    convolution(fn, context, SHAPE(40, 16, 1, 1), SHAPE(9, 16, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(30, 64, 3, 2), SHAPE(33, 64, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(5, 17, 9, 8), SHAPE(19, 17, 3, 3), (Attr)INTS(2), one, none, 1);
    convolution(fn, context, SHAPE(6, 32, 7, 6), SHAPE(36, 16, 3, 2), (Attr)INTS(3, 2), (Attr)INTS(1, 2), (Attr)INTS(1, 2), 2);
    convolution(fn, context, SHAPE(9, 16, 6, 5), SHAPE(20, 16, 3, 3), none, none, none, 1);
    convolution(fn, context, SHAPE(150, 16, 2, 3), SHAPE(16, 16, 5, 5), none, (Attr)INTS(2), none, 1);
    convolution(fn, context, SHAPE(1, 2, 100, 70), SHAPE(3, 2, 5, 3), (Attr)INTS(1, 3), (Attr)INTS(0, 5), (Attr)INTS(3, 2), 1);
    convolution(fn, context, SHAPE(2, 8, 6, 6), SHAPE(12, 2, 3, 3), none, one, none, 4);
    convolution(fn, context, SHAPE(3, 9, 7, 5), SHAPE(9, 1, 3, 3), (Attr)INTS(2), (Attr)INTS(1), none, 9);
    convolution(fn, context, SHAPE(2, 5, 17, 20), SHAPE(5, 1, 3, 5), none, (Attr)INTS(1, 2), none, 5);
    convolution(fn, context, SHAPE(2, 3, 9, 21), SHAPE(6, 1, 3, 3), (Attr)INTS(1, 2), (Attr)INTS(3, 4), (Attr)INTS(2, 1), 3);
    convolution(fn, context, SHAPE(3, 4, 1, 2), SHAPE(4, 1, 3, 3), none, one, none, 4);
    /* As large as oneDNN's: few channels; images that are no whole number of tiles; groups; channels that fill no vector; blocks of one side's channels and of the other's; tiles that are added up at
     * the same time; taps that see nothing; elements that are not seen; few places, where dy is a kernel. */
    convolution(fn, context, SHAPE(8, 3, 40, 36), SHAPE(32, 3, 7, 7), (Attr)INTS(2), (Attr)INTS(3), none, 1);
    convolution(fn, context, SHAPE(5, 32, 24, 24), SHAPE(48, 32, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(6, 32, 20, 18), SHAPE(48, 16, 3, 2), (Attr)INTS(1, 2), (Attr)INTS(1, 2), (Attr)INTS(1, 2), 2);
    convolution(fn, context, SHAPE(3, 17, 20, 20), SHAPE(33, 17, 3, 3), none, (Attr)INTS(2), (Attr)INTS(2), 1);
    convolution(fn, context, SHAPE(7, 48, 16, 15), SHAPE(16, 48, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(61, 16, 16, 16), SHAPE(16, 16, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(9, 16, 64, 64), SHAPE(16, 16, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(150, 64, 1, 1), SHAPE(64, 64, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(9, 32, 32, 30), SHAPE(64, 32, 1, 1), (Attr)INTS(2), none, none, 1);
    convolution(fn, context, SHAPE(25, 32, 14, 15), SHAPE(64, 32, 3, 3), (Attr)INTS(4), none, none, 1);
    convolution(fn, context, SHAPE(37, 48, 2, 2), SHAPE(80, 48, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(33, 64, 5, 4), SHAPE(96, 32, 3, 3), (Attr)INTS(2), (Attr)INTS(1, 2), (Attr)INTS(1, 2), 2);
    convolution(fn, context, SHAPE(2, 2, 3, 3), SHAPE(1, 2, 9, 9), none, (Attr)INTS(3), none, 1);
    convolution(fn, context, SHAPE(1, 300, 12, 13), SHAPE(3, 300, 3, 3), none, one, none, 1);
    convolution(fn, context, SHAPE(3, 70, 9, 8), SHAPE(130, 70, 3, 3), none, one, none, 1); /* several tiles of channels and of places */
    convolution(fn, context, SHAPE(2, 80, 7, 6), SHAPE(140, 40, 3, 3), (Attr)INTS(2), one, none, 2);
    convolution(fn, context, SHAPE(1, 1, 1, 1), SHAPE(1, 1, 1, 1), none, none, none, 1);
    pool(fn, context, SHAPE(3, 4, 9, 8), (Attr)INTS(2), none, none);
    pool(fn, context, SHAPE(2, 5, 17, 14), (Attr)INTS(3), (Attr)INTS(2), (Attr)INTS(1));
    pool(fn, context, SHAPE(7, 6), (Attr)INTS(3, 2), (Attr)INTS(1, 2), (Attr)INTS(1, 0));
    pool(fn, context, SHAPE(1, 1, 1, 5, 5), (Attr)INTS(5), none, (Attr)INTS(2));
    pool(fn, context, SHAPE(300, 40, 30), (Attr)INTS(4), (Attr)INTS(3), none);
    pool(fn, context, SHAPE(2, 90, 70), (Attr)INTS(3), (Attr)INTS(2), one);                    /* a plane is several blocks' */
    pool(fn, context, SHAPE(40, 23, 9), (Attr)INTS(2, 5), (Attr)INTS(3, 1), (Attr)INTS(1, 2)); /* elements that no window sees */
    pool(fn, context, SHAPE(3, 4200), (Attr)INTS(2), (Attr)INTS(1), none);      /* more windows in a row than a block has room for */
    pool(fn, context, SHAPE(3, 4, 5), (Attr)INTS(2), (Attr)INTS(1 << 30), one); /* a stride that is counted in 64 bits */
}

/* ---------------------------------------------------------------- updates, and the table */

void cases_updates(CaseFn *fn, void *context) {
    const Shape x = SHAPE(300, 200);
    CASE(.op = OP_sgd, .nin = 2, .in = {x, x}, .attr = {NUMBER(0.1)});
    CASE(.op = OP_sgd, .nin = 3, .in = {x, x, SCALAR}, .attr = {NUMBER(0.1), NUMBER(0.25)});
    CASE(.op = OP_momentum, .nin = 3, .in = {x, x, x}, .attr = {NUMBER(0.1), NUMBER(0.9)});
    CASE(.op = OP_momentum, .nin = 4, .in = {x, x, x, SCALAR}, .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.25)});
    CASE(.op = OP_momentum, .nin = 3, .in = {x, x, x}, .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.25), {.given = true, .i = 1}});
    CASE(.op = OP_lion, .nin = 3, .in = {x, x, x}, .attr = {NUMBER(0.1), NUMBER(0.5), NUMBER(0.75)});
    CASE(.op = OP_lion, .nin = 4, .in = {x, x, x, SCALAR}, .attr = {NUMBER(0.1), NUMBER(0.5), NUMBER(0.75), NUMBER(0.25)});
    for (int nin = 5; nin <= 6; nin++)
        for (int decoupled = 0; decoupled < 2; decoupled++)
            CASE(.op = decoupled ? OP_adamw : OP_adam, .nin = nin, .in = {x, x, x, x, SCALAR, SCALAR},
                 .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3), NUMBER(0.25)}, .positive = true);
    CASE(.op = OP_lamb_step, .nin = 5, .in = {x, x, x, x, SCALAR}, .attr = {NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3), NUMBER(0.25)},
         .positive = true);
    for (int nin = 4; nin <= 5; nin++)
        CASE(.op = OP_adafactor, .nin = nin + 1, .in = {x, x, SCALAR, SCALAR, SCALAR, SCALAR},
             .attr = {NUMBER(0.1), NUMBER(1e-3), NUMBER(2), NUMBER(0.25)}, .positive = true);
    for (int nin = 4; nin <= 5; nin++)
        CASE(.op = OP_lamb, .nin = nin, .in = {x, x, SCALAR, SCALAR, SCALAR}, .attr = {NUMBER(0.1)}, .positive = true);
    /* rows, width, indices, of so many rows at most: often the same, all one, of more rows than a digit of the sort has */
    const int64_t tables[][4] = {{40, 6, 8, 40}, {40, 33, 500, 40}, {7, 300, 64, 1}, {6000, 8, 300, 6000}, {1, 5, 9, 1}, {3, 1, 1, 3}};
    for (size_t t = 0; t < COUNT(tables); t++)
        for (int rate = 0; rate < 2; rate++) {
            const Shape w = SHAPE(tables[t][0], tables[t][1]), g = SHAPE(tables[t][2], tables[t][1]), index = SHAPE(tables[t][2]);
            CASE(.op = OP_embedding_sgd, .nin = 3 + rate, .in = {w, g, index, SCALAR}, .attr = {NUMBER(0.1)}, .most = tables[t][3],
                 .length = (double)tables[t][2]);
            CASE(.op = OP_lazy_adam, .nin = 6 + rate, .in = {w, w, w, g, index, SCALAR, SCALAR},
                 .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3)}, .positive = true, .most = tables[t][3],
                 .length = (double)tables[t][2]);
        }
    CASE(.op = OP_sum_squares, .nin = 1, .in = {x}, .length = 60000, .size = 245);
    CASE(.op = OP_clip, .nin = 2, .in = {x, SCALAR}, .attr = {NUMBER(0.5)}, .positive = true);
}

/* The calls of tests/proof/trials.h as kernels see them: without a hidden dimension but at the boundary. Indices are of up to 7 rows. */
void cases_whole_table(CaseFn *fn, void *context) {
    const OpCode positive[] = {OP_sqrt_grad, OP_adam, OP_adamw,          OP_lamb_step,      OP_adafactor,
                               OP_lazy_adam, OP_clip, OP_attention_grad, OP_batch_norm_grad};
    for (int t = 0; t < ntrials; t++) {
        const Trial *trial = &trials[t];
        Check check = {.op = trial->op, .nin = trial->nin, .hidden = trial->hidden && op_table[trial->op].boundary, .most = 7};
        check.positive = op_table[trial->op].domain == DOMAIN_POSITIVE;
        if (op_table[trial->op].expand || trial->op == OP_input || trial->op == OP_read)
            continue; /* in no plan, or put in place by the executor */
        memcpy(check.in, trial->in, sizeof check.in);
        memcpy(check.attr, trial->attr, sizeof check.attr);
        for (int i = 0; i < check.nin && trial->hidden && !check.hidden; i++)
            memmove(check.in[i].dim, check.in[i].dim + 1, (size_t)--check.in[i].ndim * sizeof check.in[i].dim[0]);
        for (size_t i = 0; i < COUNT(positive); i++)
            check.positive = check.positive || positive[i] == trial->op;
        if (trial->op == OP_attention_grad) check.length = 40, check.size = 1e5; /* as in cases_attention */
        fn(context, &check);
    }
}

/* ---------------------------------------------------------------- what is timed */

void cases_timed(CaseFn *fn, void *context) {
    const OpCode unary_ops[] = {
#define UNARY_OP(name, ...) OP_##name,
#define UNARY_OP_X(name, ...) OP_##name,
#define UNARY_OP_Y(name, ...) OP_##name,
#include "ir/elementwise.def"
        OP_gelu};
    const OpCode binary_ops[] = {OP_add,   OP_sub,       OP_mul,       OP_div,          OP_maximum,   OP_less,
                                 OP_equal, OP_relu_grad, OP_tanh_grad, OP_sigmoid_grad, OP_gelu_grad, OP_silu_grad};
    const OpCode reduction_ops[] = {OP_sum, OP_mean, OP_max};
    const Shape x = SHAPE(1024, 1024), heads = SHAPE(8, 8, 128, 64), scores = SHAPE(8, 8, 128, 128);
    for (size_t i = 0; i < COUNT(unary_ops); i++)
        CASE(.op = unary_ops[i], .nin = 1, .in = {x}, .positive = op_table[unary_ops[i]].domain == DOMAIN_POSITIVE);
    for (size_t i = 0; i < COUNT(binary_ops); i++)
        CASE(.op = binary_ops[i], .nin = 2, .in = {x, x}, .positive = binary_ops[i] == OP_div);
    CASE(.op = OP_add, .nin = 2, .in = {x, SHAPE(1024)}); /* a bias */
    CASE(.op = OP_where, .nin = 3, .in = {x, x, x});
    for (size_t i = 0; i < COUNT(reduction_ops); i++)
        for (int axis = 0; axis < 2; axis++)
            CASE(.op = reduction_ops[i], .nin = 1, .in = {x}, .attr = {INTS(axis)}, .length = 1024);
    CASE(.op = OP_sum, .nin = 1, .in = {x}, .length = 1 << 20);
    CASE(.op = OP_sum_to, .nin = 1, .in = {x}, .attr = {INTS(1024)}, .length = 1024);
    row(fn, context, scores, -1);
    CASE(.op = OP_layer_norm, .nin = 3, .in = {SHAPE(4096, 256), SHAPE(256), SHAPE(256)}, .attr = {NUMBER(1e-5)}, .length = 256, .size = 8);
    CASE(.op = OP_layer_norm_grad, .nin = 5, .in = {SHAPE(4096, 256), SHAPE(4096, 256), SHAPE(256), SHAPE(4096, 1), SHAPE(4096, 1)},
         .attr = {NUMBER(1e-5)}, .length = 4096, .size = 4096);
    CASE(.op = OP_rms_norm_grad, .nin = 4, .in = {SHAPE(1024, 4096), SHAPE(1024, 4096), SHAPE(4096), SHAPE(1024, 1)},
         .attr = {NUMBER(1e-5)}, .length = 4096, .size = 4096);
    const Shape planes[] = {SHAPE(64, 64, 16, 16), SHAPE(64, 512, 1, 1)};
    for (size_t p = 0; p < COUNT(planes); p++) {
        const Shape c = SHAPE(planes[p].dim[1]);
        CASE(.op = OP_batch_norm, .nin = 3, .in = {planes[p], c, c}, .attr = {NUMBER(1e-5)}, .length = 16384, .size = 8);
        CASE(.op = OP_batch_norm_grad, .nin = 5, .in = {planes[p], planes[p], c, c, c}, .attr = {NUMBER(1e-5)}, .positive = true,
             .length = 16384, .size = 16384);
    }
    const Shape attended[] = {SHAPE(8, 128, 32), SHAPE(8, 512, 64), SHAPE(2, 4096, 64)}; /* as many keys as queries */
    for (size_t a = 0; a < COUNT(attended); a++)
        for (int causal = 0; causal < 2; causal++) {
            const Shape q = attended[a];
            Shape s = q;
            s.dim[2] = 1;
            CASE(.op = OP_dot_product_attention, .nin = 3, .in = {q, q, q}, .attr = {INT(causal)});
            CASE(.op = OP_attention_grad, .nin = 7, .in = {q, q, q, q, q, s, s}, .attr = {INT(causal)}, .positive = true);
        }
    CASE(.op = OP_rope, .nin = 1, .in = {heads});
    CASE(.op = OP_transpose, .nin = 1, .in = {x});
    CASE(.op = OP_transpose, .nin = 1, .in = {SHAPE(8, 128, 8, 64)}, .attr = {INTS(0, 2, 1, 3)}); /* heads of attention */
    CASE(.op = OP_sum_grad, .nin = 1, .in = {SHAPE(1024)}, .attr = {INTS(0), INTS(1024, 1024)});
    CASE(.op = OP_slice, .nin = 1, .in = {x}, .attr = {INTS(0, 256), INTS(1024, 768)});
    CASE(.op = OP_concat, .nin = 2, .in = {x, x}, .attr = {INT(1)});
    CASE(.op = OP_embedding, .nin = 2, .in = {SHAPE(4096, 512), SHAPE(8, 128)}, .most = 4096);
    CASE(.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(8, 128, 512), SHAPE(8, 128)}, .attr = {INT(4096)}, .most = 4096, .length = 1024);
    CASE(.op = OP_pick, .nin = 2, .in = {SHAPE(8192, 128), SHAPE(8192)}, .most = 128);
    const Shape logits[] = {SHAPE(8192, 10), SHAPE(8192, 128), SHAPE(512, 50257)};
    for (size_t s = 0; s < COUNT(logits); s++) {
        const Shape row = SHAPE(logits[s].dim[0]), number = SHAPE(logits[s].dim[0], 1);
        CASE(.op = OP_cross_entropy_rows, .nin = 2, .in = {logits[s], row}, .most = logits[s].dim[1], .length = (double)logits[s].dim[1],
             .size = 8);
        CASE(.op = OP_cross_entropy_rows_grad, .nin = 5, .in = {logits[s], row, row, number, number}, .most = logits[s].dim[1],
             .positive = true, .size = 400);
    }
    product(fn, context, SHAPE(512, 512), SHAPE(512, 512));
    CASE(.op = OP_matmul, .nin = 2, .in = {SHAPE(1024, 512), SHAPE(512, 2048)}, .length = 512, .size = 512);
    CASE(.op = OP_einsum, .nin = 2, .in = {heads, heads}, .attr = {{.given = true, .text = "bhqd,bhkd->bhqk"}}, .length = 64, .size = 64);
    CASE(.op = OP_einsum, .nin = 2, .in = {scores, heads}, .attr = {{.given = true, .text = "bhqk,bhkd->bhqd"}}, .length = 128,
         .size = 128);
    convolution(fn, context, SHAPE(8, 64, 56, 56), SHAPE(64, 64, 3, 3), (Attr){0}, (Attr)INTS(1), (Attr){0}, 1); /* of ResNets */
    convolution(fn, context, SHAPE(8, 3, 224, 224), SHAPE(64, 3, 7, 7), (Attr)INTS(2), (Attr)INTS(3), (Attr){0}, 1);
    convolution(fn, context, SHAPE(8, 512, 7, 7), SHAPE(512, 512, 3, 3), (Attr){0}, (Attr)INTS(1), (Attr){0}, 1);
    convolution(fn, context, SHAPE(64, 512, 1, 1), SHAPE(512, 512, 3, 3), (Attr){0}, (Attr)INTS(1), (Attr){0}, 1);
    convolution(fn, context, SHAPE(8, 144, 56, 56), SHAPE(144, 1, 3, 3), (Attr){0}, (Attr)INTS(1), (Attr){0}, 144); /* of MobileNets */
    convolution(fn, context, SHAPE(8, 144, 56, 56), SHAPE(144, 1, 3, 3), (Attr)INTS(2), (Attr)INTS(1), (Attr){0}, 144);
    convolution(fn, context, SHAPE(8, 256, 56, 56), SHAPE(64, 256, 1, 1), (Attr){0}, (Attr){0}, (Attr){0}, 1);
    pool(fn, context, SHAPE(8, 64, 112, 112), (Attr)INTS(3), (Attr)INTS(2), (Attr)INTS(1));
    CASE(.op = OP_sgd, .nin = 2, .in = {x, x}, .attr = {NUMBER(0.1)});
    CASE(.op = OP_momentum, .nin = 3, .in = {x, x, x}, .attr = {NUMBER(0.1), NUMBER(0.9)});
    CASE(.op = OP_adamw, .nin = 6, .in = {x, x, x, x, SCALAR, SCALAR},
         .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3), NUMBER(0.25)}, .positive = true);
    CASE(.op = OP_sum_squares, .nin = 1, .in = {x}, .length = 1 << 20, .size = 1024);
}
