/* The operators of the simulation, each written down once more from its definition. Sums are sums, products are products; a function without exact values
 * (tanh, exp, ...) is any fixed function of its argument, which is all that a right plan can rely on. */
#include "tests/proof/simulate_numbers.h"

#include <math.h>
#include <string.h>

uint64_t simulate_mix(uint64_t number) {
    uint64_t z = number + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t simulate_number(double number) {
    int exponent;
    double mantissa = frexp(number, &exponent);
    uint32_t m = integer((int64_t)ldexp(mantissa, 53));
    exponent -= 53;
    return times(m, exponent < 0 ? inverse(power(2, (uint64_t)-exponent)) : power(2, (uint64_t)exponent));
}

static bool positive(uint32_t a) {
    return a > 0 && a < SIM_PRIME / 2;
}

/* ---------------------------------------------------------------- elementwise */

typedef enum { UNKNOWN, ELEMENT, PRODUCT, RESHAPE, CUT, ROWS, NORM, ATTEND, TURN, LOOKUP, CLASSES, TABLE, TABLE_UPDATE, ALONG, WINDOW } Way;
/* How each operator is computed here. */
static const Way way_of[NOPS] = {
#define ELEMENTWISE(name) [OP_##name] = ELEMENT,
#include "ir/elementwise.def"
    [OP_stop_gradient] = ELEMENT,
    [OP_sgd] = ELEMENT,
    [OP_momentum] = ELEMENT,
    [OP_adam] = ELEMENT,
    [OP_adamw] = ELEMENT,
    [OP_lion] = ELEMENT,
    [OP_lamb_step] = ELEMENT,
    [OP_lamb] = ELEMENT,
    [OP_adafactor] = ELEMENT,
    [OP_sum_squares] = PRODUCT,
    [OP_write] = ELEMENT,
    [OP_matmul] = PRODUCT,
    [OP_einsum] = PRODUCT,
    [OP_sum] = PRODUCT,
    [OP_mean] = PRODUCT,
    [OP_max] = PRODUCT,
    [OP_min] = PRODUCT,
    [OP_sum_grad] = PRODUCT,
    [OP_mean_grad] = PRODUCT,
    [OP_sum_to] = PRODUCT,
    [OP_transpose] = PRODUCT,
    [OP_replicate] = PRODUCT,
    [OP_replica_sum] = PRODUCT,
    [OP_reshape] = RESHAPE,
    [OP_expose] = RESHAPE,
    [OP_slice] = CUT,
    [OP_slice_grad] = CUT,
    [OP_concat] = CUT,
    [OP_split] = CUT,
    [OP_pick] = LOOKUP,
    [OP_pick_grad] = LOOKUP,
    [OP_cross_entropy_rows] = CLASSES,
    [OP_cross_entropy_rows_grad] = CLASSES,
    [OP_embedding] = TABLE,
    [OP_embedding_grad] = TABLE,
    [OP_embedding_sgd] = TABLE_UPDATE,
    [OP_lazy_adam] = TABLE_UPDATE,
    [OP_one_hot] = LOOKUP,
    [OP_first] = ALONG,
    [OP_gather] = ALONG,
    [OP_gather_grad] = ALONG,
    [OP_put] = ALONG,
    [OP_cumsum] = ALONG,
    [OP_topk] = ALONG,
    [OP_softmax] = ROWS,
    [OP_log_softmax] = ROWS,
    [OP_softmax_grad] = ROWS,
    [OP_log_softmax_grad] = ROWS,
    [OP_layer_norm] = NORM,
    [OP_rms_norm] = NORM,
    [OP_layer_norm_grad] = NORM,
    [OP_rms_norm_grad] = NORM,
    [OP_batch_norm] = NORM,
    [OP_batch_norm_grad] = NORM,
    [OP_conv2d] = WINDOW,
    [OP_conv2d_grad_x] = WINDOW,
    [OP_conv2d_grad_w] = WINDOW,
    [OP_max_pool] = WINDOW,
    [OP_max_pool_grad] = WINDOW,
    [OP_avg_pool] = WINDOW,
    [OP_avg_pool_grad] = WINDOW,
    [OP_rope] = TURN,
    [OP_dot_product_attention] = ATTEND,
    [OP_attention_most] = ATTEND,
    [OP_attention_sums] = ATTEND,
    [OP_attention_grad] = ATTEND,
};

bool simulate_knows(OpCode op) {
    return way_of[op] != UNKNOWN;
}

bool simulate_elementwise(OpCode op) {
    bool changes_size = op == OP_cast || op == OP_compress || op == OP_where || op == OP_less || op == OP_less_equal || op == OP_greater ||
                        op == OP_greater_equal || op == OP_equal || op == OP_not_equal;
    return way_of[op] == ELEMENT && !changes_size;
}

/* gelu has two forms. */
static uint64_t function_key(const Node *node) {
    return (uint64_t)node->op + (uint64_t)NOPS * (uint64_t)node->attr[0].i;
}

static bool either_poison(const uint32_t *x) {
    return x[0] == SIM_POISON || x[1] == SIM_POISON;
}

static int64_t ordered(uint32_t a) {
    return a < SIM_PRIME / 2 ? (int64_t)a : (int64_t)a - (int64_t)SIM_PRIME;
}

static void element(const Node *node, const uint32_t *x, uint32_t *y) {
    uint32_t slot, rate = 0;
    if (op_attr(node->op, "lr") == 0) rate = simulate_number(node->attr[0].f);
    if (op_attr(node->op, "lr") == 0 && node->nin > op_in(node->op, "rate")) rate = times(rate, x[op_in(node->op, "rate")]);
    switch (node->op) {
    case OP_add:
        y[0] = plus(x[0], x[1]);
        return;
    case OP_sub:
        y[0] = plus(x[0], negative(x[1]));
        return;
    case OP_mul:
        y[0] = times(x[0], x[1]);
        return;
    case OP_div:
        y[0] = times(x[0], inverse(x[1]));
        return;
    case OP_neg:
        y[0] = negative(x[0]);
        return;
    case OP_less:
        y[0] = either_poison(x) ? SIM_POISON : ordered(x[0]) < ordered(x[1]);
        return;
    case OP_less_equal:
        y[0] = either_poison(x) ? SIM_POISON : ordered(x[0]) <= ordered(x[1]);
        return;
    case OP_greater:
        y[0] = either_poison(x) ? SIM_POISON : ordered(x[0]) > ordered(x[1]);
        return;
    case OP_greater_equal:
        y[0] = either_poison(x) ? SIM_POISON : ordered(x[0]) >= ordered(x[1]);
        return;
    case OP_equal:
        y[0] = either_poison(x) ? SIM_POISON : x[0] == x[1];
        return;
    case OP_not_equal:
        y[0] = either_poison(x) ? SIM_POISON : x[0] != x[1];
        return;
    case OP_where:
        y[0] = x[0] == SIM_POISON ? SIM_POISON : x[0] ? x[1] : x[2];
        return;
    case OP_relu:
        y[0] = x[0] == SIM_POISON || positive(x[0]) ? x[0] : 0;
        return;
    case OP_square:
        y[0] = times(x[0], x[0]);
        return;
    case OP_relu_grad:
        y[0] = x[0] == SIM_POISON ? SIM_POISON : times(x[1], positive(x[0]));
        return;
    case OP_tanh_grad:
        y[0] = times(x[1], plus(1, negative(times(x[0], x[0]))));
        return;
    case OP_sqrt_grad:
        y[0] = times(x[1], inverse(times(2, x[0])));
        return;
    case OP_sigmoid_grad:
        y[0] = times(x[1], times(x[0], plus(1, negative(x[0]))));
        return;
    case OP_square_grad:
        y[0] = times(times(2, x[0]), x[1]);
        return;
    case OP_abs:
        y[0] = x[0] == SIM_POISON || ordered(x[0]) >= 0 ? x[0] : negative(x[0]);
        return;
    case OP_abs_grad:
        y[0] = x[0] == SIM_POISON ? SIM_POISON : x[0] == 0 ? 0 : ordered(x[0]) > 0 ? x[1] : negative(x[1]);
        return;
    case OP_maximum:
        y[0] = either_poison(x) ? SIM_POISON : ordered(x[0]) > ordered(x[1]) ? x[0] : x[1];
        return;
    case OP_minimum:
        y[0] = either_poison(x) ? SIM_POISON : ordered(x[0]) < ordered(x[1]) ? x[0] : x[1];
        return;
    case OP_max_share:
        y[0] = either_poison(x) ? SIM_POISON : x[0] == x[1] ? inverse(2) : ordered(x[0]) > ordered(x[1]);
        return;
    case OP_max_mask:
        y[0] = x[0] == SIM_POISON || x[1] == SIM_POISON ? SIM_POISON : x[0] == x[1];
        return;
    case OP_clip:
        y[0] = times(x[0], any_function(OP_clip, times(x[1], simulate_number(node->attr[0].f))));
        return;
    case OP_sgd:
        y[0] = plus(x[0], negative(times(rate, plus(x[1], times(simulate_number(node->attr[1].f), x[0])))));
        return;
    case OP_momentum:
        slot = plus(times(simulate_number(node->attr[1].f), x[1]), plus(x[2], times(simulate_number(node->attr[2].f), x[0])));
        y[1] = slot;
        if (node->attr[3].i)
            slot = plus(plus(x[2], times(simulate_number(node->attr[2].f), x[0])), times(simulate_number(node->attr[1].f), slot));
        y[0] = plus(x[0], negative(times(rate, slot)));
        return;
    case OP_lion: {
        uint32_t beta1 = simulate_number(node->attr[1].f), beta2 = simulate_number(node->attr[2].f);
        slot = any_function(OP_lion, plus(times(beta1, x[1]), times(plus(1, negative(beta1)), x[2]))); /* the sign */
        y[1] = plus(times(beta2, x[1]), times(plus(1, negative(beta2)), x[2]));
        y[0] = plus(x[0], negative(times(rate, plus(slot, times(simulate_number(node->attr[3].f), x[0])))));
        return;
    }
    case OP_lamb_step: {
        uint32_t beta1 = simulate_number(node->attr[0].f), beta2 = simulate_number(node->attr[1].f);
        y[1] = plus(times(beta1, x[1]), times(plus(1, negative(beta1)), x[3]));
        y[2] = plus(times(beta2, x[2]), times(plus(1, negative(beta2)), times(x[3], x[3])));
        slot = times(y[1], any_function(OP_adam, times(x[4], any_function(OP_adamw, y[2])))); /* over the root */
        y[0] = plus(slot, times(simulate_number(node->attr[3].f), x[0]));
        return;
    }
    case OP_adafactor:
        slot = any_function(OP_adafactor, plus(x[2], times(3, plus(x[3], times(5, plus(x[4], times(7, rate)))))));
        y[0] = plus(plus(x[0], negative(times(times(rate, simulate_number(node->attr[3].f)), x[0]))), negative(times(slot, x[1])));
        return;
    case OP_lamb: /* the ratio of the norms */
        y[0] = plus(x[0], negative(times(times(rate, any_function(OP_lamb, plus(x[2], times(3, x[3])))), x[1])));
        return;
    case OP_adam:
    case OP_adamw: {
        uint32_t decay = times(simulate_number(node->attr[4].f), x[0]), beta1 = simulate_number(node->attr[1].f),
                 beta2 = simulate_number(node->attr[2].f);
        uint32_t g = node->op == OP_adam ? plus(x[3], decay) : x[3];
        y[1] = plus(times(beta1, x[1]), times(plus(1, negative(beta1)), g));
        y[2] = plus(times(beta2, x[2]), times(plus(1, negative(beta2)), times(g, g)));
        slot = times(y[1], any_function(OP_adam, times(x[4], any_function(OP_adamw, y[2])))); /* over the root */
        if (node->op == OP_adamw) slot = plus(slot, decay);
        y[0] = plus(x[0], negative(times(rate, slot)));
        return;
    }
    case OP_write:
    case OP_stop_gradient:
    case OP_cast:
    case OP_compress:
        y[0] = x[0];
        return;
    default: /* a row of elementwise.def: a function of its operand, of a gradient times dy, or of two operands */
        y[0] = node->nin == 1                                     ? any_function(function_key(node), x[0])
               : op_table[node->op].op_class == OP_CLASS_INTERNAL ? times(x[1], any_function(function_key(node), x[0]))
               : either_poison(x)                                 ? SIM_POISON
                                                                  : any_function(any_function(function_key(node), x[0]), x[1]);
        return;
    }
}

static bool elementwise(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const Shape *shape = &out[0].local;
    int64_t stride[MAX_IN][MAX_NDIM] = {{0}}; /* 0: the dimension is repeated */
    for (int i = 0; i < node->nin; i++) {
        int missing = shape->ndim - in[i].local.ndim;
        int64_t step = 1;
        if (missing < 0) return fault(why, n, "an operand with more dimensions than the result");
        for (int d = in[i].local.ndim - 1; d >= 0; d--) {
            bool repeated = in[i].global.dim[d] == 1 && out[0].global.dim[missing + d] != 1;
            if (!repeated && in[i].local.dim[d] != shape->dim[missing + d]) return fault(why, n, "operands and results of different sizes");
            if (repeated && in[i].local.dim[d] != 1) return fault(why, n, "a repeated element that is not there");
            stride[i][missing + d] = repeated ? 0 : step;
            step *= in[i].local.dim[d];
        }
    }
    for (int o = 1; o < node->nout; o++)
        if (!shape_equal(&out[o].local, shape)) return fault(why, n, "results of different sizes");
    int64_t index[MAX_NDIM] = {0};
    for (int64_t e = 0, count = shape_elements(shape); e < count; e++) {
        uint32_t x[MAX_IN], y[MAX_OUT] = {0};
        for (int i = 0; i < node->nin; i++) {
            int64_t at = 0;
            for (int d = 0; d < shape->ndim; d++)
                at += index[d] * stride[i][d];
            x[i] = in[i].at[at];
        }
        element(node, x, y);
        for (int o = 0; o < node->nout; o++)
            out[o].at[e] = y[o];
        for (int d = shape->ndim - 1; d >= 0 && ++index[d] == shape->dim[d]; d--)
            index[d] = 0;
    }
    return true;
}

/* ---------------------------------------------------------------- sums of products */

enum { MAX_LETTERS = 24 };
/* Which letter each dimension of operands 0, 1 and of the result (2) runs over; -1: it is a single element. */
typedef struct Letters {
    int n;
    int8_t of[3][MAX_NDIM];
} Letters;

/* result[..] = factor * sum over all letters that it lacks of the product of the operands; or their maximum, 0 of nothing, or their minimum. */
static bool contraction(const Letters *letters, const SimTensor *in, int nin, SimTensor *out, uint32_t factor, Reduction reduction,
                        char *why, size_t n) {
    int64_t size[MAX_LETTERS], stride[3][MAX_LETTERS] = {{0}}, index[MAX_LETTERS] = {0}, points = 1, at[3] = {0};
    for (int l = 0; l < letters->n; l++)
        size[l] = -1;
    for (int k = 0; k < 3; k++) {
        if (k >= nin && k < 2) continue;
        const SimTensor *tensor = k == 2 ? out : &in[k];
        int64_t step = 1;
        for (int d = tensor->local.ndim - 1; d >= 0; step *= tensor->local.dim[d--]) {
            int l = letters->of[k][d];
            if (l < 0 ? tensor->local.dim[d] != 1 : size[l] >= 0 && size[l] != tensor->local.dim[d])
                return fault(why, n, "operands and results of different sizes");
            if (l < 0) continue;
            size[l] = tensor->local.dim[d];
            stride[k][l] += step;
        }
    }
    for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++)
        out->at[e] = reduction == REDUCE_MIN ? SIM_PRIME - 1 : 0;
    for (int l = 0; l < letters->n; l++)
        points *= size[l];
    for (int64_t p = 0; p < points; p++) {
        uint32_t product = in[0].at[at[0]];
        if (nin == 2) product = times(product, in[1].at[at[1]]);
        uint32_t *sum = &out->at[at[2]];
        if (reduction == REDUCE_SUM || *sum == SIM_POISON || product == SIM_POISON)
            *sum = plus(*sum, product); /* poison stays */
        else if (reduction == REDUCE_MAX ? product > *sum : product < *sum)
            *sum = product;
        for (int l = letters->n - 1; l >= 0; l--) {
            for (int k = 0; k < 3; k++)
                at[k] += stride[k][l];
            if (++index[l] < size[l]) break;
            for (int k = 0; k < 3; k++)
                at[k] -= size[l] * stride[k][l];
            index[l] = 0;
        }
    }
    for (int64_t e = 0, count = shape_elements(&out->local); e < count && factor != 1; e++)
        out->at[e] = times(out->at[e], factor);
    return true;
}

/* Rows and columns come last, the rest is a batch in which one side may lack dimensions or have size 1. */
static void matmul_letters(const Node *node, const SimTensor *in, Letters *letters) {
    int na = in[0].local.ndim, nb = in[1].local.ndim, batch = (na > nb ? na : nb) - 2;
    letters->n = batch + 3;
    int m = batch, k = batch + 1, c = batch + 2;
    for (int d = 0; d < batch; d++) {
        int64_t common = 1;
        for (int i = 0; i < 2; i++) {
            int own = d - (batch - (in[i].local.ndim - 2));
            if (own >= 0 && in[i].global.dim[own] > common) common = in[i].global.dim[own];
        }
        for (int i = 0; i < 2; i++) {
            int own = d - (batch - (in[i].local.ndim - 2));
            if (own >= 0 && in[i].global.dim[own] == common) letters->of[i][own] = (int8_t)d;
        }
        letters->of[2][d] = (int8_t)d;
    }
    bool ta = node->attr[0].i != 0, tb = node->attr[1].i != 0;
    letters->of[0][na - 2] = (int8_t)(ta ? k : m);
    letters->of[0][na - 1] = (int8_t)(ta ? m : k);
    letters->of[1][nb - 2] = (int8_t)(tb ? c : k);
    letters->of[1][nb - 1] = (int8_t)(tb ? k : c);
    letters->of[2][batch] = (int8_t)m;
    letters->of[2][batch + 1] = (int8_t)c;
}

static bool einsum_letters(const Node *node, Letters *letters) {
    int8_t number[26];
    memset(number, -1, sizeof number);
    int tensor = 0, d = 0;
    for (const char *at = node->attr[0].text; at && *at; at++) {
        if (*at == ',' || *at == '-') {
            tensor = *at == ',' ? 1 : 2;
            d = 0;
        } else if (*at >= 'a' && *at <= 'z' && d < MAX_NDIM) {
            int8_t *l = &number[*at - 'a'];
            if (*l < 0) *l = (int8_t)letters->n++;
            letters->of[tensor][d++] = *l;
        }
    }
    return letters->n <= MAX_LETTERS;
}

/* wide: the tensor with every dimension, narrow: the one that lacks the axes, or has them as single elements. */
static void axes_letters(const Attr *axes, int wide_ndim, int narrow_ndim, Letters *letters, int wide, int narrow) {
    for (int d = 0, own = 0; d < wide_ndim; d++) {
        bool reduced = !axes->given;
        for (int i = 0; i < axes->n; i++)
            reduced = reduced || axes->ints[i] == d || axes->ints[i] + wide_ndim == d;
        letters->of[wide][d] = (int8_t)letters->n++;
        if (!reduced)
            letters->of[narrow][own++] = letters->of[wide][d];
        else if (narrow_ndim == wide_ndim)
            own++;
    }
}

static uint32_t one_over(int64_t many, int64_t few) {
    return inverse(integer(many / few));
}

static bool sum_of_products(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    Letters letters = {0};
    memset(letters.of, -1, sizeof letters.of);
    uint32_t factor = 1;
    int ndim = in[0].local.ndim;
    switch (node->op) {
    case OP_matmul:
        matmul_letters(node, in, &letters);
        break;
    case OP_einsum:
        if (!einsum_letters(node, &letters)) return fault(why, n, "too many letters");
        break;
    case OP_sum:
    case OP_mean:
    case OP_max:
    case OP_min:
        axes_letters(&node->attr[0], ndim, out->local.ndim, &letters, 0, 2);
        if (node->op == OP_mean) factor = one_over(shape_elements(&in[0].global), shape_elements(&out->global));
        break;
    case OP_sum_grad:
    case OP_mean_grad:
        axes_letters(&node->attr[0], out->local.ndim, ndim, &letters, 2, 0);
        if (node->op == OP_mean_grad) factor = one_over(shape_elements(&out->global), shape_elements(&in[0].global));
        break;
    case OP_sum_squares:
        for (int d = 0; d < ndim; d++)
            letters.of[0][d] = letters.of[1][d] = (int8_t)letters.n++;
        return contraction(&letters, (const SimTensor[]){in[0], in[0]}, 2, out, 1, REDUCE_SUM, why, n);
    case OP_sum_to: /* dimensions that the result lacks, or has only one element of, are added up */
        for (int d = 0; d < ndim; d++) {
            int own = d - (ndim - out->local.ndim);
            letters.of[0][d] = (int8_t)letters.n++;
            if (own >= 0 && out->global.dim[own] == in[0].global.dim[d]) letters.of[2][own] = letters.of[0][d];
        }
        break;
    case OP_transpose:
        letters.n = ndim;
        for (int d = 0; d < ndim; d++) {
            int64_t from = node->attr[0].given ? node->attr[0].ints[d] : ndim - 1 - d;
            letters.of[0][d] = (int8_t)d;
            letters.of[2][d] = (int8_t)(from < 0 ? from + ndim : from);
        }
        break;
    case OP_replicate: /* the result's dimension 0 repeats the operand */
        letters.of[2][0] = (int8_t)letters.n++;
        for (int d = 0; d < ndim; d++)
            letters.of[0][d] = letters.of[2][d + 1] = (int8_t)letters.n++;
        break;
    default: /* replica_sum */
        for (int d = 0; d < ndim; d++)
            letters.of[0][d] = (int8_t)letters.n++;
        for (int d = 1; d < ndim; d++)
            letters.of[2][d - 1] = letters.of[0][d];
        if (node->attr[0].i) factor = one_over(in[0].global.dim[0], 1);
        break;
    }
    return contraction(&letters, in, node->op == OP_matmul || node->op == OP_einsum ? 2 : 1, out, factor, op_table[node->op].reduction, why,
                       n);
}

/* ---------------------------------------------------------------- cutting, joining, whole rows */

static int64_t element_of(const SimTensor *tensor, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < tensor->local.ndim; d++)
        at = at * tensor->local.dim[d] + index[d];
    return at;
}

/* Elements of part, shifted by `first`, are those of whole, counted in whole tensors. to_whole: those of the part that belong into whole are copied there. */
static bool cut(const SimTensor *part, const SimTensor *whole, const int64_t *first, bool to_whole, char *why, size_t n) {
    const SimTensor *to = to_whole ? whole : part, *from = to_whole ? part : whole;
    int64_t index[MAX_NDIM] = {0}, other[MAX_NDIM];
    for (int64_t e = 0, count = shape_elements(&to->local); e < count; e++) {
        bool there = true, held = true;
        for (int d = 0; d < to->local.ndim; d++) {
            const int64_t at = to->begin[d] + index[d] + (to_whole ? -first[d] : first[d]);
            other[d] = at - from->begin[d];
            there = there && at >= 0 && at < from->global.dim[d];
            held = held && other[d] >= 0 && other[d] < from->local.dim[d];
        }
        if (there && !held) return fault(why, n, "a part that is cut out is not held");
        if (there) to->at[e] = from->at[element_of(from, other)];
        for (int d = to->local.ndim - 1; d >= 0 && ++index[d] == to->local.dim[d]; d--)
            index[d] = 0;
    }
    return true;
}

static bool cutting(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    int64_t first[MAX_NDIM] = {0};
    const SimTensor *whole = node->op == OP_slice || node->op == OP_split ? &in[0] : &out[0];
    if (node->op == OP_slice || node->op == OP_slice_grad) {
        for (int d = 0; d < whole->local.ndim; d++)
            first[d] = node->attr[0].ints[d] + (node->attr[0].ints[d] < 0 ? whole->global.dim[d] : 0);
        for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++)
            out->at[e] = 0;
        return node->op == OP_slice ? cut(&out[0], whole, first, false, why, n) : cut(&in[0], whole, first, true, why, n);
    }
    const Attr *given = &node->attr[node->op == OP_split]; /* left out: 0 */
    int axis = (int)(given->given && given->i < 0 ? given->i + whole->local.ndim : given->given ? given->i : 0);
    for (int k = 0; k < (node->op == OP_split ? node->nout : node->nin); k++) {
        const SimTensor *part = node->op == OP_split ? &out[k] : &in[k];
        if (!cut(part, whole, first, node->op == OP_concat, why, n)) return false;
        first[axis] += part->global.dim[axis];
    }
    return true;
}

/* softmax, log_softmax: a function of the place in the row and of the whole row. Their gradients: y (dy - sum of y dy), dy - f(y) sum of dy. */
static bool rows(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    int ndim = in[0].local.ndim, axis = (int)(!node->attr[0].given  ? ndim - 1
                                              : node->attr[0].i < 0 ? node->attr[0].i + ndim
                                                                    : node->attr[0].i);
    for (int k = 0; k <= node->nin; k++)
        if (!shape_equal(k < node->nin ? &in[k].local : &out->local, &in[0].local) || !is_whole(&in[0], axis))
            return fault(why, n, "a row that is not whole");
    int64_t step = 1, size = in[0].local.dim[axis], count = shape_elements(&in[0].local);
    for (int d = axis + 1; d < ndim; d++)
        step *= in[0].local.dim[d];
    for (int64_t e = 0; e < count; e++) {
        int64_t place = e / step % size, begin = e - place * step;
        uint32_t sum = 0;
        uint64_t key = 0;
        for (int64_t k = 0; k < size; k++) {
            uint32_t x = in[0].at[begin + k * step];
            sum = plus(sum, node->op == OP_log_softmax_grad ? in[1].at[begin + k * step]
                            : node->op == OP_softmax_grad   ? times(x, in[1].at[begin + k * step])
                                                            : x);
            key = simulate_mix(key ^ x);
        }
        uint32_t y = in[0].at[e];
        if (node->nin == 1)
            out->at[e] = any_function(key + (uint64_t)place + (uint64_t)node->op, sum);
        else if (node->op == OP_softmax_grad)
            out->at[e] = times(y, plus(in[1].at[e], negative(sum)));
        else
            out->at[e] = plus(in[1].at[e], negative(times(any_function(OP_log_softmax, y), sum)));
    }
    return true;
}

/* ---------------------------------------------------------------- one slice of the hidden dimension at a time */

static void slice_of(SimTensor *tensor, int64_t slice) {
    int64_t each = 1;
    for (int d = 1; d < tensor->local.ndim; d++) {
        each *= tensor->local.dim[d];
        tensor->local.dim[d - 1] = tensor->local.dim[d];
        tensor->global.dim[d - 1] = tensor->global.dim[d];
        tensor->begin[d - 1] = tensor->begin[d];
    }
    tensor->local.ndim--;
    tensor->global.ndim--;
    tensor->hidden = false;
    tensor->at += slice * each;
}

static bool plain_kernel(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    int64_t count = shape_elements(&out->local);
    switch (way_of[node->op]) {
    case ELEMENT:
        return elementwise(node, in, out, why, n);
    case PRODUCT:
        return sum_of_products(node, in, out, why, n);
    case CUT:
        return cutting(node, in, out, why, n);
    case ROWS:
        return rows(node, in, out, why, n);
    case NORM:
        return simulate_norm(node, in, out, why, n);
    case WINDOW:
        return simulate_windows(node, in, out, why, n);
    case TURN:
        return simulate_rope(node, in, out, why, n);
    case ATTEND:
        return simulate_attention(node, in, out, why, n);
    case LOOKUP:
        return node->op == OP_one_hot ? simulate_one_hot(in, out, why, n) : simulate_lookup(node, in, out, why, n);
    case CLASSES:
        return node->op == OP_cross_entropy_rows ? simulate_loss(node, in, out, why, n) : simulate_loss_grad(node, in, out, why, n);
    case TABLE:
        return simulate_table_rows(node, in, out, why, n);
    case TABLE_UPDATE:
        return simulate_table_update(node, in, out, why, n);
    case ALONG:
        return simulate_along(node, in, out, why, n);
    case RESHAPE:
        if (shape_elements(&in[0].local) != count) return fault(why, n, "a reshape to another number of elements");
        memcpy(out->at, in[0].at, (size_t)count * sizeof *out->at);
        return true;
    case UNKNOWN:
        break;
    }
    snprintf(why, n, "the simulation does not know %s: tests/proof/simulate_kernels.c", op_table[node->op].name);
    return false;
}

bool simulate_kernel(const Graph *graph, const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    (void)graph;
    bool boundary = op_table[node->op].boundary;
    if (boundary || !in[0].hidden) return plain_kernel(node, in, out, why, n);
    int64_t slices = in[0].local.dim[0];
    for (int k = 0; k < node->nin + node->nout; k++) {
        const SimTensor *tensor = k < node->nin ? &in[k] : &out[k - node->nin];
        if (!tensor->hidden || tensor->local.dim[0] != slices) return fault(why, n, "other replicas in another operand");
    }
    for (int64_t s = 0; s < slices; s++) {
        SimTensor own_in[MAX_IN], own_out[MAX_OUT];
        for (int i = 0; i < node->nin; i++) {
            own_in[i] = in[i];
            slice_of(&own_in[i], s);
        }
        for (int o = 0; o < node->nout; o++) {
            own_out[o] = out[o];
            slice_of(&own_out[o], s);
        }
        if (!plain_kernel(node, own_in, own_out, why, n)) return false;
    }
    return true;
}
