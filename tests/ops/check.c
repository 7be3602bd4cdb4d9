#include "tests/ops/check.h"
#include "runtime/element.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double check_tolerance(DType dtype, double length, double size, double b) {
    /* Halves: what f32 may be off by, and then another rounding of a number near a tie. */
    if (dtype_is_half(dtype)) return check_tolerance(F32, length, size, b) + ldexp(fabs(b), dtype == F16 ? -10 : -7) + ldexp(1, -24);
    double unit = dtype == F32 ? ldexp(1, -24) : ldexp(1, -53);
    return dtype_is_float(dtype) ? (8 + sqrt(length)) * unit * (size + fabs(b)) + length * ldexp(1, -53) : 0;
}

/* ---------------------------------------------------------------- runs */

typedef struct DeviceCall {
    KernelCall call; /* with addresses of the device */
    void *allocated[MAX_IN + MAX_OUT];
    int n;
} DeviceCall;

static void *place(const Device *device, DeviceCall *on, const Operand *o, int misaligned, bool filled) {
    Error error;
    int64_t bytes = operand_bytes(o), skip = (int64_t)misaligned * dtype_bytes[o->dtype];
    char *data = device->backend->alloc(device->context, bytes + skip, &error);
    cr_assert(data, "%s", error.text);
    on->allocated[on->n++] = data;
    if (filled) cr_assert(device->backend->upload(device->context, data + skip, o->data, bytes, &error), "%s", error.text);
    return data + skip;
}

static void fetch(const Device *device, void *to, const Operand *o, const void *from) {
    Error error;
    cr_assert(device->backend->download(device->context, to, from, operand_bytes(o), &error), "%s", error.text);
}

bool check_run(const Device *device, const KernelCall *call, int misaligned, bool in_place, Error *error) {
    DeviceCall on = {.call = *call};
    bool ok = true;
    on.call.context = device->context;
    for (int i = 0; i < call->nin; i++)
        on.call.in[i].data = place(device, &on, &call->in[i], misaligned, true);
    for (int o = 0; o < call->nout; o++)
        on.call.out[o].data = in_place ? on.call.in[o].data : place(device, &on, &call->out[o], misaligned, false);
    for (int run = 0; run < (in_place ? 1 : 2) && ok; run++) {
        ok = device->backend->kernels[call->op](&on.call, error) && device->backend->sync(device->context, error);
        for (int o = 0; o < call->nout && ok; o++) {
            int64_t bytes = operand_bytes(&call->out[o]);
            void *again = malloc((size_t)bytes + 1);
            fetch(device, again, &call->out[o], on.call.out[o].data);
            cr_assert(run == 0 || memcmp(again, call->out[o].data, (size_t)bytes) == 0, "%s: a second run gives other bits",
                      op_table[call->op].name);
            memcpy(call->out[o].data, again, (size_t)bytes);
            free(again);
        }
    }
    for (int i = 0; i < call->nin && ok && !in_place; i++) {
        void *now = malloc((size_t)operand_bytes(&call->in[i]) + 1);
        fetch(device, now, &call->in[i], on.call.in[i].data);
        cr_assert(memcmp(now, call->in[i].data, (size_t)operand_bytes(&call->in[i])) == 0, "%s changed operand %d", op_table[call->op].name,
                  i);
        free(now);
    }
    for (int i = 0; i < on.n; i++)
        device->backend->free(device->context, on.allocated[i]);
    return ok;
}

/* Of element b of a result. Tensor cores multiply weights of attention in two halves of the operands' type, which for bf16 have 16 digits together, also where the result is f32. */
static double tolerance_of(const KernelCall *call, int o, double length, double size, double b) {
    const double plain = check_tolerance(call->out[o].dtype, length, size, b);
    const char *device = getenv("PRUN_TEST_DEVICE");
    const bool tensor_cores = device != NULL && strcmp(device, "cuda") == 0;
    return tensor_cores && call->op == OP_attention_sums && call->in[0].dtype == BF16 ? plain + ldexp(size + fabs(b), -16) : plain;
}

void check_results(KernelFn *const *kernels, const KernelCall *call, double length, double size, const char *how) {
    KernelCall plain = *call;
    Error error;
    for (int o = 0; o < call->nout; o++)
        plain.out[o].data = malloc((size_t)operand_bytes(&call->out[o]) + 1);
    cr_assert(kernels[call->op](&plain, &error), "%s: %s", op_table[call->op].name, error.text);
    for (int o = 0; o < call->nout; o++) {
        const Operand *out = &call->out[o];
        for (int64_t k = 0, n = shape_elements(&out->local); k < n; k++) {
            double a = element_at(out->data, out->dtype, k), b = element_at(plain.out[o].data, out->dtype, k);
            const int64_t bytes = operand_bytes(out) / n;
            const bool same = dtype_is_float(out->dtype) ? a == b
                                                         : memcmp((const char *)out->data + k * bytes,
                                                                  (const char *)plain.out[o].data + k * bytes, (size_t)bytes) == 0;
            cr_assert(same || dtype_is_float(out->dtype), "%s %s%s, result %d, element %lld of %lld: %.17g, plainly %.17g",
                      op_table[call->op].name, dtype_name[out->dtype], how, o, (long long)k, (long long)n, a, b);
            cr_assert(same || fabs(a - b) <= tolerance_of(call, o, length, size, b) || (isnan(a) && isnan(b)),
                      "%s %s%s, result %d, element %lld of %lld: %.17g, plainly %.17g", op_table[call->op].name,
                      dtype_name[call->nin > 0 ? call->in[0].dtype : out->dtype], how, o, (long long)k, (long long)n, a, b);
        }
        free(plain.out[o].data);
    }
}

/* ---------------------------------------------------------------- random calls */

void check_fill(const Operand *operand, const Check *check, bool index, uint64_t *random) {
    if (check->ends && !index && !dtype_is_float(operand->dtype)) {
        operand_fill(operand, random, true);
        return;
    }
    bool coarse = check->op == OP_equal || check->op == OP_not_equal || check->op == OP_less_equal || check->op == OP_first ||
                  check->op == OP_max_mask;
    for (int64_t k = 0, n = shape_elements(&operand->local); k < n; k++) {
        double value = (double)(int64_t)(random_next(random) % 2000) / 1000 - (check->positive ? -0.01 : 1);
        if (index)
            value = (double)(int64_t)(random_next(random) % (uint64_t)(check->most ? check->most + 4 : 54)) - 2;
        else if (coarse)
            value = floor(value * 1.5);
        else if (!dtype_is_float(operand->dtype))
            value = floor(value * 50);
        element_put(operand->data, operand->dtype, k, value);
    }
}

static double length_of(const KernelCall *call, const Check *check) {
    int64_t in = call->nin > 0 ? shape_elements(&call->in[0].local) : 0, out = shape_elements(&call->out[0].local);
    return check->length > 0 ? check->length : in > out && out > 0 ? (double)in / (double)out : 1;
}

void check_open(KernelCall *call, const Check *check, Rule *rule, bool whole, uint64_t *random) {
    TensorType types[MAX_IN];
    for (int i = 0; i < check->nin; i++)
        types[i] = (TensorType){call_dtype(check->op, i, check->dtype), check->hidden && i == 0, check->in[i]};
    *call = (KernelCall){.op = check->op, .attr = check->attr, .nin = check->nin, .nthreads = 1};
    call_open(call, types, rule, whole, random);
    for (int i = 0; i < call->nin; i++)
        check_fill(&call->in[i], check, op_type(check->op, false, i) == 'i', random);
}

void check_call(const Device *device, const Check *check, bool whole, uint64_t *random) {
    KernelCall call;
    Rule rule;
    Error error;
    check_open(&call, check, &rule, whole, random);
    double length = length_of(&call, check), size = check->size > 0 ? check->size : 1;
    KernelFn *const *kernels = check->fast && device->backend != &backend_cpu ? backend_cpu.kernels : cpu_reference_kernels;
    int misaligned = (int)(random_next(random) % 5);
    cr_assert(check_run(device, &call, misaligned < 4 ? misaligned : 0, false, &error), "%s: %s", op_table[check->op].name, error.text);
    check_results(kernels, &call, length, size, whole ? "" : ", parts of tensors");
    const bool flat = op_table[check->op].flat;
    bool same = (flat || op_table[check->op].in_place) && call.nin >= call.nout;
    for (int o = 0; o < call.nout && same; o++) {
        const Operand *in = &call.in[o], *out = &call.out[o];
        same = in->dtype == out->dtype &&
               (flat ? shape_elements(&in->local) == shape_elements(&out->local) : shape_equal(&in->local, &out->local));
    }
    if (same) {
        cr_assert(check_run(device, &call, 0, true, &error), "%s: %s", op_table[check->op].name, error.text);
        check_results(kernels, &call, length, size, ", in place");
    }
    call_close(&call);
}

void check_all(const Device *device, const Check *check) {
    uint64_t random = 7;
    for (int dtype = 0; dtype < NDTYPES; dtype++) {
        if (!(op_table[check->op].dtypes & 1u << dtype)) continue;
        for (int repeat = 0; repeat < 3; repeat++) {
            Check typed = *check;
            typed.dtype = (DType)dtype;
            typed.ends = repeat == 1;
            check_call(device, &typed, repeat == 0, &random);
        }
    }
}
