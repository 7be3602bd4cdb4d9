/* reference: plain elementwise kernels and updates, and what all plain kernels share. */
#include "runtime/cpu/reference.h"
#include "runtime/element.h"

#include <math.h>
#include <string.h>

double element_get(const Operand *operand, int64_t index) {
    return element_at(operand->data, operand->dtype, index);
}

void element_set(const Operand *operand, int64_t index, double value) {
    switch (operand->dtype) {
    case F32:
        ((float *)operand->data)[index] = (float)value;
        return;
    case F64:
        ((double *)operand->data)[index] = value;
        return;
    case I32:
        ((int32_t *)operand->data)[index] = (int32_t)integer_of(value, I32);
        return;
    case I64:
        ((int64_t *)operand->data)[index] = integer_of(value, I64);
        return;
    case BOOL:
        ((uint8_t *)operand->data)[index] = value != 0;
        return;
    case F16:
    case BF16:
        element_put(operand->data, operand->dtype, index, value);
        return;
    case NDTYPES:
        return;
    }
}

uint64_t integer_get(const Operand *operand, int64_t index) {
    switch (operand->dtype) {
    case I32:
        return (uint64_t)((const int32_t *)operand->data)[index];
    case I64:
        return (uint64_t)((const int64_t *)operand->data)[index];
    case BOOL:
        return ((const uint8_t *)operand->data)[index];
    case F32:
    case F64:
    case F16:
    case BF16:
    case NDTYPES:
        break;
    }
    return 0;
}

void integer_set(const Operand *operand, int64_t index, uint64_t value) {
    switch (operand->dtype) {
    case I32:
        ((uint32_t *)operand->data)[index] = (uint32_t)value;
        return;
    case I64:
        ((uint64_t *)operand->data)[index] = value;
        return;
    case BOOL:
        ((uint8_t *)operand->data)[index] = value != 0;
        return;
    case F32:
    case F64:
    case F16:
    case BF16:
    case NDTYPES:
        return;
    }
}

void element_copy(const Operand *to, int64_t index, const Operand *from, int64_t from_index) {
    const int bytes = dtype_bytes[to->dtype];
    memcpy((char *)to->data + index * bytes, (const char *)from->data + from_index * bytes, (size_t)bytes);
}

bool element_less(const Operand *operand, int64_t a, int64_t b) {
    if (!dtype_is_float(operand->dtype)) return (int64_t)integer_get(operand, a) < (int64_t)integer_get(operand, b);
    return element_get(operand, a) < element_get(operand, b);
}

void index_of(const Shape *shape, int64_t position, int64_t *index) {
    for (int d = shape->ndim - 1; d >= 0; d--) {
        index[d] = position % shape->dim[d];
        position /= shape->dim[d];
    }
}

int64_t position_broadcast(const Operand *operand, const Shape *result, const int64_t *index) {
    int64_t position = 0;
    int missing = result->ndim - operand->local.ndim;
    for (int d = 0; d < operand->local.ndim; d++)
        position = position * operand->local.dim[d] + (operand->global.dim[d] == 1 ? 0 : index[missing + d]);
    return position;
}

int64_t position_of_factors(const Operand *operand, const int8_t *map, const int64_t *at) {
    int64_t position = 0;
    for (int d = 0; d < operand->local.ndim; d++)
        position = position * operand->local.dim[d] + (map[d] < 0 ? 0 : at[map[d]]);
    return position;
}

void factor_sizes(const KernelCall *call, int64_t *sizes) {
    for (int f = 0; f < MAX_FACTORS; f++)
        sizes[f] = 1;
    for (int i = 0; i < call->nin; i++)
        for (int d = 0; d < call->in[i].local.ndim; d++)
            if (call->rule->in[i][d] >= 0) sizes[call->rule->in[i][d]] = call->in[i].local.dim[d];
    for (int o = 0; o < call->nout; o++)
        for (int d = 0; d < call->out[o].local.ndim; d++)
            if (call->rule->out[o][d] >= 0) sizes[call->rule->out[o][d]] = call->out[o].local.dim[d];
}

/* ---------------------------------------------------------------- elementwise */

typedef double ElementFn(const double *x, const Attr *attr);

/* The rows of elementwise.def, with libm's functions of doubles. */
#define VALUE(name, X, Y, formula)                                                                                                         \
    static double name##_of(const double *operand, const Attr *attr) {                                                                     \
        const double X = operand[0], Y = operand[1];                                                                                       \
        return (void)attr, (void)X, (void)Y, formula;                                                                                      \
    }
#define UNARY_OP(name, title, types, formula, ...) VALUE(name, x, y, formula)
#define UNARY_OP_X(name, title, types, formula, gradient, ...) VALUE(name, x, y, formula) VALUE(name##_grad, x, dy, gradient)
#define UNARY_OP_Y(name, title, types, formula, gradient, ...) VALUE(name, x, y, formula) VALUE(name##_grad, y, dy, gradient)
#define BINARY_OP(name, title, types, formula, ...) VALUE(name, x, y, formula)
#define UNARY_FORMULA(name, types, formula) VALUE(plain_##name, x, y, formula)
#define BINARY_FORMULA(name, types, formula) VALUE(plain_##name, x, y, formula)
#include "ir/plainformula.def"
#include "ir/elementwise.def"
#include "ir/endformula.def"

static double gelu_of(const double *x, const Attr *attr) {
    return attr[0].i ? plain_gelu_tanh_of(x, attr) : plain_gelu_of(x, attr);
}
static double gelu_grad_of(const double *x, const Attr *attr) {
    return attr[0].i ? plain_gelu_tanh_grad_of(x, attr) : plain_gelu_grad_of(x, attr);
}
#define max_share_of plain_max_share_of
#define max_mask_of plain_max_mask_of
static double clamp_of(const double *x, const Attr *attr) {
    if (attr[0].given && x[0] < attr[0].f) return attr[0].f;
    return attr[1].given && x[0] > attr[1].f ? attr[1].f : x[0];
}
static double clamp_grad_of(const double *x, const Attr *attr) {
    bool inside = !isnan(x[0]) && !(attr[0].given && x[0] < attr[0].f) && !(attr[1].given && x[0] > attr[1].f);
    return inside ? x[1] : 0;
}
static double less_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] < x[1];
}
static double less_equal_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] <= x[1];
}
static double greater_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] > x[1];
}
static double greater_equal_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] >= x[1];
}
static double equal_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] == x[1];
}
static double not_equal_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] != x[1];
}
static double where_of(const double *x, const Attr *attr) {
    return (void)attr, x[0] != 0 ? x[1] : x[2];
}
/* element_set rounds towards 0. */
static double cast_of(const double *x, const Attr *attr) {
    return (void)attr, x[0];
}
static double compress_of(const double *x, const Attr *attr) {
    return (void)attr, x[0];
}
/* Updates: a missing rate is 1. */
static double sgd_of(const double *x, const Attr *attr) {
    return x[0] - attr[0].f * x[2] * (x[1] + attr[1].f * x[0]);
}
static double momentum_v_of(const double *x, const Attr *attr) {
    return attr[1].f * x[1] + x[2] + attr[2].f * x[0];
}
static double momentum_w_of(const double *x, const Attr *attr) {
    const double v = momentum_v_of(x, attr), step = attr[3].i ? x[2] + attr[2].f * x[0] + attr[1].f * v : v;
    return x[0] - attr[0].f * x[3] * step;
}
static double lion_w_of(const double *x, const Attr *attr) {
    const double way = attr[1].f * x[1] + (1 - attr[1].f) * x[2], sign = (way > 0) - (way < 0);
    return x[0] - attr[0].f * x[3] * ((isnan(way) ? way : sign) + attr[3].f * x[0]);
}
static double lion_m_of(const double *x, const Attr *attr) {
    return attr[2].f * x[1] + (1 - attr[2].f) * x[2];
}
static double adamw_m_of(const double *x, const Attr *attr) {
    return attr[1].f * x[1] + (1 - attr[1].f) * x[3];
}
static double adamw_v_of(const double *x, const Attr *attr) {
    return attr[2].f * x[2] + (1 - attr[2].f) * x[3] * x[3];
}
/* lr m^ / (sqrt(v^) + eps), m^ = m' / (1 - beta1^t), v^ = v' / (1 - beta2^t) */
static double adam_step(const double *x, const Attr *attr, double m, double v) {
    double m_hat = m / (1 - pow(attr[1].f, x[4])), v_hat = v / (1 - pow(attr[2].f, x[4]));
    return attr[0].f * x[5] * m_hat / (sqrt(v_hat) + attr[3].f);
}
static double adamw_w_of(const double *x, const Attr *attr) {
    return x[0] - attr[0].f * x[5] * attr[4].f * x[0] - adam_step(x, attr, adamw_m_of(x, attr), adamw_v_of(x, attr));
}
static double adam_m_of(const double *x, const Attr *attr) {
    return attr[1].f * x[1] + (1 - attr[1].f) * (x[3] + attr[4].f * x[0]);
}
static double adam_v_of(const double *x, const Attr *attr) {
    return attr[2].f * x[2] + (1 - attr[2].f) * pow(x[3] + attr[4].f * x[0], 2);
}
static double adam_w_of(const double *x, const Attr *attr) {
    return x[0] - adam_step(x, attr, adam_m_of(x, attr), adam_v_of(x, attr));
}
static double lamb_step_of(const double *x, const Attr *attr) {
    const double m = attr[0].f * x[1] + (1 - attr[0].f) * x[3], v = attr[1].f * x[2] + (1 - attr[1].f) * x[3] * x[3];
    return m / (1 - pow(attr[0].f, x[4])) / (sqrt(v / (1 - pow(attr[1].f, x[4]))) + attr[2].f) + attr[3].f * x[0];
}
static double lamb_m_of(const double *x, const Attr *attr) {
    return attr[0].f * x[1] + (1 - attr[0].f) * x[3];
}
static double lamb_v_of(const double *x, const Attr *attr) {
    return attr[1].f * x[2] + (1 - attr[1].f) * x[3] * x[3];
}
static double lamb_of(const double *x, const Attr *attr) {
    return x[0] - attr[0].f * x[4] * (x[2] > 0 && x[3] > 0 ? sqrt(x[2] / x[3]) : 1) * x[1];
}
static double clip_of(const double *x, const Attr *attr) {
    return x[0] * fmin(1, attr[0].f / (sqrt(x[1]) + 1e-6));
}

/* ---------------------------------------------------------------- the same of integers and bools */

typedef uint64_t IntegerFn(const uint64_t *x, const KernelCall *call);

/* They wrap: computed as unsigned. */
#define ADD(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define SUB(a, b) ((int64_t)((uint64_t)(a) - (uint64_t)(b)))
#define MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define NEG(a) SUB(0, a)
#define ABS(a) ((a) < 0 ? NEG(a) : (a))
#define INTEGER_REAL(name, formula)
#define INTEGER_NUMBER(name, formula)                                                                                                      \
    static uint64_t integer_##name(const uint64_t *operand, const KernelCall *call) {                                                      \
        const int64_t x = (int64_t)operand[0], y = call->nin > 1 ? (int64_t)operand[1] : 0;                                                \
        return (void)y, (uint64_t)(formula);                                                                                               \
    }
#define UNARY_OP(name, title, types, formula, ...) INTEGER_##types(name, formula)
#define UNARY_OP_X(name, title, types, formula, ...) INTEGER_##types(name, formula)
#define UNARY_OP_Y(name, title, types, formula, ...) INTEGER_##types(name, formula)
#define BINARY_OP(name, title, types, formula, ...) INTEGER_##types(name, formula)
#include "ir/elementwise.def"
static uint64_t integer_less(const uint64_t *x, const KernelCall *call) {
    return (void)call, (int64_t)x[0] < (int64_t)x[1];
}
static uint64_t integer_less_equal(const uint64_t *x, const KernelCall *call) {
    return (void)call, (int64_t)x[0] <= (int64_t)x[1];
}
static uint64_t integer_greater(const uint64_t *x, const KernelCall *call) {
    return (void)call, (int64_t)x[0] > (int64_t)x[1];
}
static uint64_t integer_greater_equal(const uint64_t *x, const KernelCall *call) {
    return (void)call, (int64_t)x[0] >= (int64_t)x[1];
}
static uint64_t integer_equal(const uint64_t *x, const KernelCall *call) {
    return (void)call, x[0] == x[1];
}
static uint64_t integer_not_equal(const uint64_t *x, const KernelCall *call) {
    return (void)call, x[0] != x[1];
}
static uint64_t integer_where(const uint64_t *x, const KernelCall *call) {
    return (void)call, x[0] ? x[1] : x[2];
}
static uint64_t integer_cast(const uint64_t *x, const KernelCall *call) {
    return (void)call, x[0];
}

static uint64_t integer_clamp(const uint64_t *x, const KernelCall *call) {
    const Attr *low = &call->attr[0], *high = &call->attr[1];
    const int64_t number = (int64_t)x[0], least = integer_of(low->f, call->out[0].dtype), most = integer_of(high->f, call->out[0].dtype);
    return (uint64_t)(low->given && number < least ? least : high->given && number > most ? most : number);
}

static IntegerFn *const integer_fn[NOPS] = {
#define ENTRY_REAL(name)
#define ENTRY_NUMBER(name) [OP_##name] = integer_##name,
#define UNARY_OP(name, title, types, ...) ENTRY_##types(name)
#define UNARY_OP_X(name, title, types, ...) ENTRY_##types(name)
#define UNARY_OP_Y(name, title, types, ...) ENTRY_##types(name)
#define BINARY_OP(name, title, types, ...) ENTRY_##types(name)
#include "ir/elementwise.def"
    [OP_less] = integer_less,
    [OP_equal] = integer_equal,
    [OP_less_equal] = integer_less_equal,
    [OP_greater] = integer_greater,
    [OP_greater_equal] = integer_greater_equal,
    [OP_where] = integer_where,
    [OP_not_equal] = integer_not_equal,
    [OP_cast] = integer_cast,
    [OP_clamp] = integer_clamp,
};

static bool of_integers(const KernelCall *call) {
    bool integers = integer_fn[call->op] && !dtype_is_float(call->out[0].dtype);
    for (int k = 0; k < call->nin; k++)
        integers = integers && !dtype_is_float(call->in[k].dtype);
    return integers;
}

static bool each_integer(const KernelCall *call) {
    const Operand *out = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&out->local); i < n; i++) {
        int64_t index[MAX_NDIM];
        uint64_t x[MAX_IN];
        index_of(&out->local, i, index);
        for (int k = 0; k < call->nin; k++)
            x[k] = integer_get(&call->in[k], position_broadcast(&call->in[k], &out->local, index));
        integer_set(out, i, integer_fn[call->op](x, call));
    }
    return true;
}

/* ---------------------------------------------------------------- all elements */

/* out[i] = fn[i](operands); all are computed before any is stored, so results may overlap operands. A missing operand is 1. */
static bool each_element(const KernelCall *call, ElementFn *const *fn) {
    const Operand *out = &call->out[0];
    int64_t n = shape_elements(&out->local);
    if (of_integers(call)) return each_integer(call);
    const bool bounded =
        call->op == OP_clamp_grad; /* bounds are rounded to the operands' type: a gradient depends on which side of a bound x lies */
    Attr bounds[MAX_ATTRS];
    for (int k = 0; k < 2 && bounded; k++) {
        bounds[k] = call->attr[k];
        if (out->dtype == F32) bounds[k].f = (float)bounds[k].f;
    }
    const Attr *attr = bounded ? bounds : call->attr;
    for (int64_t i = 0; i < n; i++) {
        int64_t index[MAX_NDIM];
        double x[MAX_IN];
        index_of(&out->local, i, index);
        for (int k = 0; k < call->nin; k++)
            x[k] = element_get(&call->in[k], position_broadcast(&call->in[k], &out->local, index));
        for (int k = call->nin; k < MAX_IN; k++)
            x[k] = 1;
        double result[MAX_OUT];
        for (int o = 0; o < call->nout; o++)
            result[o] = fn[o](x, attr);
        for (int o = 0; o < call->nout; o++)
            element_set(&call->out[o], i, result[o]);
    }
    return true;
}

#define ELEMENTWISE(name)                                                                                                                  \
    bool reference_##name(const KernelCall *call, Error *error) {                                                                          \
        (void)error;                                                                                                                       \
        return each_element(call, (ElementFn *const[]){name##_of});                                                                        \
    }
#include "ir/elementwise.def"

bool reference_sgd(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){sgd_of});
}

bool reference_momentum(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){momentum_w_of, momentum_v_of});
}

bool reference_lion(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){lion_w_of, lion_m_of});
}

bool reference_lamb_step(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){lamb_step_of, lamb_m_of, lamb_v_of});
}

bool reference_lamb(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){lamb_of});
}

bool reference_adafactor(const KernelCall *call, Error *error) {
    const double n = (double)shape_elements(&call->in[0].global), lr = call->attr[0].f * (call->nin > 5 ? element_get(&call->in[5], 0) : 1);
    const double of_w = sqrt(element_get(&call->in[2], 0) / n), of_u = sqrt(element_get(&call->in[3], 0) / n);
    const double alpha = fmax(call->attr[1].f, of_w) * fmin(lr, 1 / sqrt(element_get(&call->in[4], 0)));
    (void)error;
    for (int64_t i = 0; i < shape_elements(&call->out[0].local); i++) {
        const double w = element_get(&call->in[0], i) * (1 - lr * call->attr[3].f);
        element_set(&call->out[0], i, w - alpha / fmax(1, of_u / call->attr[2].f) * element_get(&call->in[1], i));
    }
    return true;
}

bool reference_adam(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){adam_w_of, adam_m_of, adam_v_of});
}

bool reference_adamw(const KernelCall *call, Error *error) {
    (void)error;
    return each_element(call, (ElementFn *const[]){adamw_w_of, adamw_m_of, adamw_v_of});
}

bool reference_sum_squares(const KernelCall *call, Error *error) {
    const Operand *x = &call->in[0];
    double sum = 0;
    (void)error;
    for (int64_t i = 0, n = shape_elements(&x->local); i < n; i++)
        sum += element_get(x, i) * element_get(x, i);
    element_set(&call->out[0], 0, sum);
    return true;
}
