/* field: integers modulo the Mersenne prime p = 2^61 - 1, and the values of leaves. */
#include "proof/field.h"

#include <math.h>

#include "ir/lookup.h"

/* ---------------------------------------------------------------- arithmetic */

Fe fe_dot_portable(const Fe *a, const Fe *b, int64_t n) {
    Fe sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum = fe_add(sum, fe_mul_portable(a[i], b[i]));
    return sum;
}

#if FIELD_WIDE
/* Products are below 2^122, so 32 of them are added before the sum is reduced. There are two sums, as each addition waits for the one
 * before. */
Fe fe_dot(const Fe *a, const Fe *b, int64_t n) {
    enum { BLOCK = 32 };
    Wide sum = 0;
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        Wide even = 0, odd = 0;
        for (int k = 0; k < BLOCK; k += 2) {
            even += (Wide)a[i + k] * b[i + k];
            odd += (Wide)a[i + k + 1] * b[i + k + 1];
        }
        sum += (even & FIELD_P) + (even >> 61) + (odd & FIELD_P) + (odd >> 61);
    }
    Wide rest = 0;
    for (; i < n; i++)
        rest += (Wide)a[i] * b[i];
    sum += (rest & FIELD_P) + (rest >> 61); /* each is below 2^67: as many as fit in memory do not overflow */
    sum = (sum & FIELD_P) + (sum >> 61);
    return fe_reduce((uint64_t)(sum & FIELD_P) + (uint64_t)(sum >> 61));
}
#else
Fe fe_dot(const Fe *a, const Fe *b, int64_t n) {
    return fe_dot_portable(a, b, n);
}
#endif

/* a^(p - 2): p - 2 is 2^61 - 3, all ones in binary except bit 1. */
Fe fe_inverse(Fe a) {
    Fe power = 1;
    for (int bit = 60; bit >= 0; bit--) {
        power = fe_mul(power, power);
        if (bit != 1) power = fe_mul(power, a);
    }
    return power;
}

/* Montgomery's trick: one inversion of the product of a block gives each element's inverse. Zeros are left out of the product. */
void fe_inverse_all(Fe *at, int64_t n) {
    enum { BLOCK = 256 };
    Fe before[BLOCK]; /* product of the elements before this one */
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        Fe *block = at + begin, product = 1;
        int count = n - begin < BLOCK ? (int)(n - begin) : BLOCK;
        for (int i = 0; i < count; i++) {
            before[i] = product;
            if (block[i] != 0) product = fe_mul(product, block[i]);
        }
        Fe inverse = fe_inverse(product); /* of the product up to i */
        for (int i = count - 1; i >= 0; i--) {
            if (block[i] == 0) continue;
            Fe own = fe_mul(inverse, before[i]);
            inverse = fe_mul(inverse, block[i]);
            block[i] = own;
        }
    }
}

Fe fe_integer(int64_t number) {
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    Fe a = fe_reduce(size);
    return number < 0 ? fe_sub(0, a) : a;
}

int64_t fe_signed(Fe a) {
    return a > FIELD_P / 2 ? (int64_t)a - (int64_t)FIELD_P : (int64_t)a;
}

bool fe_double(double number, Fe *fe) {
    if (!isfinite(number)) return false;
    int exponent;
    int64_t mantissa = (int64_t)ldexp(frexp(number, &exponent), 53); /* exact: a double has 53 bits */
    int shift = ((exponent - 53) % 61 + 61) % 61;                    /* 2^61 = 1 */
    *fe = fe_mul(fe_integer(mantissa), UINT64_C(1) << shift);
    return true;
}

uint64_t fe_key(uint64_t seed, const char *name) {
    uint64_t key = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * 0x100000001b3u; /* FNV-1a */
    return key ^ key >> 29;
}

/* ---------------------------------------------------------------- leaves */

enum { SMALL_INTEGERS = 16 };

/* Row-major offset in the global tensor of the first element of each row of the box; false after the last row. */
static bool next_row(const FieldTensor *t, int64_t *index) {
    for (int d = t->global.ndim - 2; d >= 0; d--) {
        if (++index[d] < t->box.end[d]) return true;
        index[d] = t->box.begin[d];
    }
    return false;
}

static int64_t row_offset(const FieldTensor *t, const int64_t *index) {
    int64_t offset = 0;
    for (int d = 0; d < t->global.ndim; d++)
        offset = offset * t->global.dim[d] + index[d];
    return offset;
}

/* Draws integers: valid indices where they are an index, else small ones. */
static IndexRange integers_drawn(const Graph *graph, const Node *node, DType dtype) {
    if (dtype == BOOL) return (IndexRange){0, 2};
    const IndexRange index = node->op == OP_input  ? graph->inputs.at[node->state].index
                             : node->op == OP_read ? graph->states.at[node->state].index
                                                   : (IndexRange){0};
    return range_known(index) ? index : (IndexRange){-SMALL_INTEGERS / 2, SMALL_INTEGERS / 2};
}

static bool leaf_row(const Node *node, uint64_t key, DType dtype, IndexRange drawn, int64_t first, int64_t n, Fe *at) {
    if (node->op == OP_constant && node->data) {
        for (int64_t i = 0; i < n; i++)
            if (!fe_double(node->data[first + i], &at[i])) return false;
        return true;
    }
    if (node->op == OP_constant) {
        Fe splat;
        if (!fe_double(node->attr[0].f, &splat)) return false;
        for (int64_t i = 0; i < n; i++)
            at[i] = splat;
        return true;
    }
    for (int64_t i = 0; i < n; i++)
        at[i] = fe_hash(key, (Fe)(first + i));
    for (int64_t i = 0; !dtype_is_float(dtype) && i < n; i++)
        at[i] = fe_integer(drawn.begin + (int64_t)(at[i] % (uint64_t)(drawn.end - drawn.begin)));
    return true;
}

bool field_leaf(const Graph *graph, const Node *node, uint64_t seed, FieldTensor *tensor, char *why, size_t n) {
    uint64_t key = 0;
    if (node->op == OP_input) {
        key = fe_key(seed * 2, graph->inputs.at[node->state].name);
    } else if (node->op == OP_read && node->version == 0) {
        key = fe_key(seed * 2 + 1, graph->states.at[node->state].name);
    } else if (node->op != OP_constant) {
        snprintf(why, n, "%s is no leaf", node->name);
        return false;
    }
    if (field_elements(tensor) == 0) return true;
    const IndexRange drawn = integers_drawn(graph, node, tensor->dtype);
    int64_t index[MAX_NDIM] = {0}, row = 1, at = 0;
    for (int d = 0; d < tensor->global.ndim; d++)
        index[d] = tensor->box.begin[d];
    if (tensor->global.ndim > 0) row = tensor->box.end[tensor->global.ndim - 1] - tensor->box.begin[tensor->global.ndim - 1];
    do {
        if (!leaf_row(node, key, tensor->dtype, drawn, row_offset(tensor, index), row, tensor->at + at)) {
            snprintf(why, n, "the constant %s is not finite", node->name);
            return false;
        }
        at += row;
    } while (next_row(tensor, index));
    return true;
}
