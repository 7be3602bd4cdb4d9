/* Updates, clipping and sums of squares on the device against the CPU's plain kernels, alone; runs over several tensors in one launch
 * against the same one by one. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "tests/runtime/cuda/fixture.h"

static const OpCode updates[] = {OP_sgd, OP_momentum, OP_adam, OP_adamw, OP_lion, OP_lamb_step, OP_lamb, OP_adafactor};
static const int64_t sizes[] = {0, 1, 3, 4, 5, 255, 1024, 4095, 4096, 4097, 9001};

static void set(Attr *attr, OpCode op, const char *name, double value) {
    int at = op_attr(op, name);
    if (at >= 0) attr[at] = (Attr){.given = true, .f = value};
}

/* An update of n elements: operands of one tensor behind each other, results in their places or apart. */
static KernelCall make_update(Image *image, uint64_t *random, OpCode op, Attr *attr, DType dtype, int64_t n, const Operand *rate,
                              const Operand *count, bool in_place) {
    const Shape shape = {.ndim = 1, .dim = {n}};
    KernelCall call = {.op = op, .attr = attr, .nin = op_nin(op) - (rate || op_in(op, "rate") < 0 ? 0 : 1), .nout = op_nout(op)};
    for (int i = 0; i < call.nin; i++) {
        if (i == op_in(op, "rate") || i == op_in(op, "update") || i == op_in(op, "of_w") || i == op_in(op, "of_u")) {
            call.in[i] = i == op_in(op, "rate") ? *rate : *count;
            continue;
        }
        call.in[i] = operand_at(image_take(image, random, n, dtype), dtype, &shape);
        operand_fill(&call.in[i], random, false);
        bool second = i == op_in(op, "v") && op != OP_momentum; /* of squares */
        for (int64_t k = 0; second && k < n; k++)
            element_put(call.in[i].data, dtype, k, fabs(element_at(call.in[i].data, dtype, k)));
    }
    for (int o = 0; o < call.nout; o++)
        call.out[o] = operand_at(in_place ? call.in[o].data : image_take(image, random, n, dtype), dtype, &shape);
    return call;
}

static Operand make_number(Image *image, uint64_t *random, DType dtype, double value) {
    Operand number = operand_at(image_take(image, random, 1, dtype), dtype, &(Shape){0});
    element_put(number.data, dtype, 0, value);
    return number;
}

static void fill_attributes(Attr *attr, OpCode op, bool decay) {
    memset(attr, 0, MAX_ATTRS * sizeof *attr);
    set(attr, op, "lr", 0.01);
    set(attr, op, "momentum", 0.9);
    set(attr, op, "beta1", op == OP_lion ? 0.5 : 0.9); /* the sign of m + g is exact */
    set(attr, op, "beta2", 0.999);
    set(attr, op, "eps", 1e-8);
    set(attr, op, "weight_decay", decay ? 0.1 : 0);
    set(attr, op, "norm", 0.75);
    set(attr, op, "eps2", 1e-3);
    set(attr, op, "d", 1.5);
    if (decay && op_attr(op, "nesterov") >= 0) attr[op_attr(op, "nesterov")] = (Attr){.given = true, .i = 1};
}

static void run_on_device(const Image *image, const KernelCall *call) {
    const Device *device = fixture_device();
    Error error = {0};
    KernelCall moved = image_call(image, call);
    cr_assert(device->backend->kernels[call->op](&moved, &error), "%s", error.text);
}

/* Numbers of up to 3 that are added up: a few roundings of those, in the element type. 1 - beta2^t is computed in double, and is 0.004 of 1 here: a device's pow,
 * which may be off by two units in the last place, shows in it 250 times as large. */
static void compare(const Image *image, const KernelCall *call) {
    for (int o = 0; o < call->nout; o++)
        for (int64_t i = 0, n = shape_elements(&call->out[o].local); i < n; i++) {
            double a = element_at(image->seen + ((char *)call->out[o].data - image->host), call->out[o].dtype, i),
                   b = element_at(call->out[o].data, call->out[o].dtype, i);
            double tolerance = (call->out[o].dtype == F32 ? 4 * FLT_EPSILON : 500 * DBL_EPSILON) * (3 + fabs(b));
            cr_assert(fabs(a - b) <= tolerance, "%s %s result %d element %lld of %lld: %.17g, plainly %.17g", op_table[call->op].name,
                      dtype_name[call->out[o].dtype], o, (long long)i, (long long)n, a, b);
            element_put(image->seen + ((char *)call->out[o].data - image->host), call->out[o].dtype, i, b);
        }
    cr_assert(memcmp(image->seen, image->host, (size_t)image->bytes) == 0, "%s writes beside its results", op_table[call->op].name);
}

/* number: of the operator here, so that further operators leave its elements what they are. */
static void check_update(int number, DType dtype, int64_t n, int variant) {
    const OpCode op = updates[number];
    uint64_t random = (uint64_t)(number * 100 + (int)dtype * 10 + variant);
    Attr attr[MAX_ATTRS];
    Image image;
    Error error;
    image_init(&image, 640 << 10);
    Operand rate = make_number(&image, &random, dtype, 0.5), count = make_number(&image, &random, dtype, 1 + variant * 3);
    fill_attributes(attr, op, variant & 1);
    KernelCall call = make_update(&image, &random, op, attr, dtype, n, variant & 2 ? &rate : NULL, &count, variant & 4);
    image_upload(&image);
    run_on_device(&image, &call);
    image_download(&image);
    call.context = NULL;
    cr_assert(cpu_reference_kernels[op](&call, &error));
    compare(&image, &call);
    image_finish(&image);
}

Test(update, updates_are_the_plain_ones_within_rounding) {
    for (int k = 0; k < (int)(sizeof updates / sizeof *updates); k++)
        for (int dtype = F32; dtype <= F64; dtype++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int variant = 0; variant < 8; variant++)
                    check_update(k, (DType)dtype, sizes[s], variant);
}

static KernelCall make_squares(Image *image, uint64_t *random, DType dtype, int64_t n) {
    KernelCall call = {.op = OP_sum_squares, .nin = 1, .nout = 1};
    call.in[0] = operand_at(image_take(image, random, n, dtype), dtype, &(Shape){.ndim = 1, .dim = {n}});
    operand_fill(&call.in[0], random, false);
    call.out[0] = operand_at(image_take(image, random, 1, dtype), dtype, &(Shape){0});
    return call;
}

/* The device adds in doubles: what differs is the last rounding, and of f64 the order. */
Test(update, sum_squares_is_the_plain_one_within_rounding) {
    for (int dtype = F32; dtype <= F64; dtype++)
        for (int64_t n = 0; n < 200000; n = n * 3 + 1) {
            uint64_t random = (uint64_t)n;
            Image image;
            Error error;
            image_init(&image, 2 << 20);
            KernelCall call = make_squares(&image, &random, (DType)dtype, n);
            image_upload(&image);
            run_on_device(&image, &call);
            image_download(&image);
            cr_assert(cpu_reference_kernels[OP_sum_squares](&call, &error));
            double a = element_at(image.seen + ((char *)call.out[0].data - image.host), (DType)dtype, 0),
                   b = element_at(call.out[0].data, (DType)dtype, 0);
            cr_assert(fabs(a - b) <= (dtype == F32 ? FLT_EPSILON : DBL_EPSILON * sqrt((double)n + 1)) * b,
                      "%s, %lld elements: %.17g, plainly %.17g", dtype_name[dtype], (long long)n, a, b);
            image_finish(&image);
        }
}

/* Replicas must agree to the bit wherever their arenas put a tensor. */
Test(update, sum_squares_does_not_depend_on_where_its_operand_lies) {
    enum { N = 70001 };
    double first = 0;
    Image image;
    uint64_t random = 3;
    image_init(&image, 2 << 20);
    KernelCall call = make_squares(&image, &random, F32, N + 3);
    for (int shift = 0; shift < 4; shift++) {
        float *x = call.in[0].data;
        KernelCall moved = call;
        moved.in[0] = operand_at(x + shift, F32, &(Shape){.ndim = 1, .dim = {N}});
        for (int i = 0; i < N; i++)
            x[shift + i] = (float)((i * 7919 % 1000) / 999.0);
        image_upload(&image);
        run_on_device(&image, &moved);
        image_download(&image);
        double sum = element_at(image.seen + ((char *)call.out[0].data - image.host), F32, 0);
        if (shift == 0) first = sum;
        cr_assert(sum == first, "shifted by %d: %.9g, not %.9g", shift, sum, first);
    }
    image_finish(&image);
}

/* ---------------------------------------------------------------- many tensors */

enum { MOST_TENSORS = 32 };

static void check_run(OpCode op, DType dtype, int n, uint64_t seed) {
    const Device *device = fixture_device();
    const DeviceQueue *queue = device->backend->queue;
    uint64_t random = seed;
    Attr attr[MAX_ATTRS];
    KernelCall calls[MOST_TENSORS];
    Image image;
    Error error = {0};
    void *fused = NULL;
    image_init(&image, 6 << 20);
    Operand rate = make_number(&image, &random, dtype, 0.5), count = make_number(&image, &random, dtype, 4);
    fill_attributes(attr, op, true);
    for (int i = 0; i < n; i++) {
        /* adafactor divides by the elements of its whole parameter: one launch is of parameters of one size */
        const int64_t size = op == OP_adafactor ? 1000 + n : sizes[random_below(&random, (int64_t)(sizeof sizes / sizeof *sizes))];
        if (op == OP_sum_squares) {
            calls[i] = make_squares(&image, &random, dtype, size);
        } else if (op == OP_clip) {
            const Shape shape = {.ndim = 1, .dim = {size + i % 2}}; /* of one size they would be a chain */
            calls[i] = (KernelCall){.op = op, .attr = attr, .nin = 2, .nout = 1};
            calls[i].in[0] = operand_at(image_take(&image, &random, shape.dim[0], dtype), dtype, &shape);
            operand_fill(&calls[i].in[0], &random, false);
            calls[i].in[1] = count;
            calls[i].out[0] = operand_at(calls[i].in[0].data, dtype, &shape);
        } else
            calls[i] = make_update(&image, &random, op, attr, dtype, size, &rate, &count, random_chance(&random, 70));
    }
    image_upload(&image);
    for (int i = 0; i < n; i++)
        run_on_device(&image, &calls[i]);
    image_download(&image);
    memcpy(image.host + image.used, image.seen + image.used, (size_t)(image.bytes - image.used));
    char *alone = malloc((size_t)image.bytes);
    memcpy(alone, image.seen, (size_t)image.bytes);
    image_upload(&image);
    for (int i = 0; i < n; i++)
        calls[i] = image_call(&image, &calls[i]);
    for (int at = 0; at < n;) { /* an empty one first makes no chain */
        int taken = queue->fuse(device->context, &calls[at], n - at, &fused, &error);
        cr_assert(taken == n - at || op == OP_clip, "%s: %d of %d", op_table[op].name, taken, n - at);
        cr_assert(taken > 0 ? queue->run(device->context, fused, &error) : device->backend->kernels[op](&calls[at], &error), "%s",
                  error.text);
        if (taken > 0) queue->unfuse(device->context, fused);
        at += taken > 0 ? taken : 1;
    }
    image_download(&image);
    cr_assert(memcmp(image.seen, alone, (size_t)image.bytes) == 0, "%s %s: %d in one launch differ from %d launches", op_table[op].name,
              dtype_name[dtype], n, n);
    free(alone);
    image_finish(&image);
}

Test(update, runs_over_tensors_give_what_their_calls_give) {
    const OpCode ops[] = {OP_sgd, OP_momentum, OP_adam, OP_adamw, OP_lion, OP_lamb_step, OP_lamb, OP_adafactor, OP_sum_squares, OP_clip};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int dtype = F32; dtype <= F64; dtype++)
            for (int repeat = 0; repeat < 8; repeat++)
                check_run(ops[k], (DType)dtype, repeat == 0 ? MOST_TENSORS : 2 + repeat, (uint64_t)(k * 100 + (size_t)repeat));
}

static int fused_calls(const Image *image, const KernelCall *first, const KernelCall *second) {
    const Device *device = fixture_device();
    const KernelCall calls[2] = {image_call(image, first), image_call(image, second)};
    Error error;
    void *fused = NULL;
    int taken = device->backend->queue->fuse(device->context, calls, 2, &fused, &error);
    if (taken > 0) device->backend->queue->unfuse(device->context, fused);
    return taken;
}

/* What a call reads of what another writes needs a launch of its own. */
Test(update, updates_that_share_memory_or_differ_are_not_joined) {
    uint64_t random = 1;
    Attr attr[MAX_ATTRS], other[MAX_ATTRS];
    Image image;
    image_init(&image, 1 << 16);
    fill_attributes(attr, OP_sgd, false);
    fill_attributes(other, OP_sgd, true);
    const KernelCall first = make_update(&image, &random, OP_sgd, attr, F32, 100, NULL, NULL, false);
    const KernelCall second = make_update(&image, &random, OP_sgd, attr, F32, 100, NULL, NULL, false);
    cr_assert_eq(fused_calls(&image, &first, &second), 2);
    KernelCall changed = second;
    changed.in[1].data = first.out[0].data;
    cr_assert_eq(fused_calls(&image, &first, &changed), 0, "reads what the first writes");
    changed = second;
    changed.out[0].data = (char *)first.in[1].data + 4;
    cr_assert_eq(fused_calls(&image, &first, &changed), 0, "writes what the first reads");
    changed = second;
    changed.out[0].data = first.out[0].data;
    cr_assert_eq(fused_calls(&image, &first, &changed), 0, "writes what the first writes");
    changed = second;
    changed.attr = other;
    cr_assert_eq(fused_calls(&image, &first, &changed), 0, "of other attributes");
    image_finish(&image);
}

/* ---------------------------------------------------------------- casts */

static KernelCall make_cast(Image *image, uint64_t *random, DType from, DType to, int64_t n, int offset) {
    const Shape shape = {.ndim = 1, .dim = {n}};
    KernelCall call = {.op = OP_cast, .nin = 1, .nout = 1};
    call.in[0] = operand_at((char *)image_take(image, random, n + 1, from) + offset * dtype_bytes[from], from, &shape);
    operand_fill(&call.in[0], random, false);
    call.out[0] = operand_at(image_take(image, random, n, to), to, &shape);
    return call;
}

static void check_casts(DType from, DType to, int offset) {
    enum { N = 20 };
    const Device *device = fixture_device();
    const DeviceQueue *queue = device->backend->queue;
    uint64_t random = 7;
    KernelCall calls[N], moved[N];
    Image image;
    Error error = {0};
    void *fused = NULL;
    image_init(&image, 2 << 20);
    for (int i = 0; i < N; i++)
        calls[i] = make_cast(&image, &random, from, to, sizes[(size_t)i % (sizeof sizes / sizeof *sizes)], offset);
    image_upload(&image);
    for (int i = 0; i < N; i++)
        moved[i] = image_call(&image, &calls[i]);
    cr_assert_eq(queue->fuse(device->context, moved, N, &fused, &error), N);
    cr_assert(queue->run(device->context, fused, &error), "%s", error.text);
    queue->unfuse(device->context, fused);
    image_download(&image);
    for (int i = 0; i < N; i++)
        cr_assert(cpu_reference_kernels[OP_cast](&calls[i], &error));
    cr_assert(memcmp(image.seen, image.host, (size_t)image.bytes) == 0, "%s to %s", dtype_name[from], dtype_name[to]);
    image_finish(&image);
}

Test(update, casts_of_many_tensors_are_one_launch) {
    for (int half = F16; half <= BF16; half++)
        for (int offset = 0; offset < 2; offset++) {
            check_casts(F32, (DType)half, offset);
            check_casts((DType)half, F32, offset);
        }
}

Test(update, casts_of_other_types_are_not_joined) {
    uint64_t random = 1;
    Image image;
    image_init(&image, 1 << 16);
    const KernelCall first = make_cast(&image, &random, F32, BF16, 100, 0), second = make_cast(&image, &random, F32, BF16, 7, 0);
    const KernelCall other = make_cast(&image, &random, F32, F16, 100, 0), whole = make_cast(&image, &random, I32, F32, 100, 0);
    cr_assert_eq(fused_calls(&image, &first, &second), 2);
    cr_assert_eq(fused_calls(&image, &first, &other), 0);
    cr_assert_eq(fused_calls(&image, &whole, &whole), 0);
    image_finish(&image);
}
