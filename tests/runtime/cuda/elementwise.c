/* Elementwise kernels of the device against the CPU's: every operator and element type, random shapes, broadcast, misaligned, in place,
 * empty. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/element.h"
#include "tests/runtime/cuda/fixture.h"

/* What a result may differ by from the plain kernel's, which computes in doubles: so many units in the last place (of the result's type),
 * of the result and of operand `of` (-1: of the result alone), whose size is that of what is added up or cancels. CUDA's own bounds
 * (programming guide, mathematical functions): expf 1, logf 1, tanhf 2, erfcf 4; exp 1, log 1, tanh 2, erfc 5; quotients and roots are
 * rounded correctly; sinf 2, cosf 2, log1pf 1, powf 4; sin 2, cos 2, log1p 1, pow 2. */
typedef struct Tolerance {
    OpCode op;
    int nin;
    double ulps;
    int of;
} Tolerance;
static const Tolerance tolerances[] = {
    {OP_add, 2, 0, -1},         {OP_sub, 2, 0, -1},        {OP_mul, 2, 0, -1},           {OP_div, 2, 0, -1},       {OP_neg, 1, 0, -1},
    {OP_relu, 1, 0, -1},        {OP_sqrt, 1, 0, -1},       {OP_square, 1, 0, -1},        {OP_relu_grad, 2, 0, -1}, {OP_max_mask, 2, 0, -1},
    {OP_square_grad, 2, 1, -1}, {OP_exp, 1, 2, -1},        {OP_log, 1, 2, -1},           {OP_tanh, 1, 3, -1},      {OP_rsqrt, 1, 2, -1},
    {OP_sigmoid, 1, 4, -1},     {OP_silu, 1, 4, -1},       {OP_gelu, 1, 6, 0},           {OP_tanh_grad, 2, 2, 1},  {OP_sqrt_grad, 2, 1, -1},
    {OP_sigmoid_grad, 2, 2, 1}, {OP_rsqrt_grad, 2, 3, -1}, {OP_silu_grad, 2, 8, 1},      {OP_gelu_grad, 2, 8, 1},  {OP_clip, 2, 1, -1},
    {OP_abs, 1, 0, -1},         {OP_abs_grad, 2, 0, -1},   {OP_maximum, 2, 0, -1},       {OP_minimum, 2, 0, -1},   {OP_max_share, 2, 0, -1},
    {OP_sin, 1, 3, -1},         {OP_cos, 1, 3, -1},        {OP_softplus, 1, 4, -1},      {OP_pow, 2, 8, -1},       {OP_expm1, 1, 8, -1},
    {OP_expm1_grad, 2, 3, -1},  {OP_hardswish, 1, 3, 0},   {OP_hardswish_grad, 2, 3, 1}, {OP_floor, 1, 0, -1},     {OP_sign, 1, 0, -1},
};
/* Bounds of clamp are drawn for it: check_clamp. */
static const OpCode clamps[] = {OP_clamp, OP_clamp_grad};
/* Operators that give the same as the CPU's, to the bit. */
static const Tolerance exact[] = {
    {OP_less, 2, 0, -1},  {OP_less_equal, 2, 0, -1}, {OP_greater, 2, 0, -1}, {OP_greater_equal, 2, 0, -1},
    {OP_equal, 2, 0, -1}, {OP_not_equal, 2, 0, -1},  {OP_where, 3, 0, -1},
};

static bool near(const KernelCall *call, const Tolerance *tolerance, int64_t i, double a, double b) {
    const DType dtype = call->out[0].dtype;
    const double epsilon = dtype == F64 ? DBL_EPSILON : FLT_EPSILON, least = dtype == F64 ? DBL_MIN : FLT_MIN;
    (void)i;
    if (a == b || (isnan(a) && isnan(b))) return true;
    if (tolerance->ulps > 0 && dtype_is_half(dtype)) /* numbers of f32 on both sides of a tie; f16 ends at 65504 */
        return fabs(a - b) <= ldexp(fabs(b), dtype == F16 ? -10 : -7) + ldexp(1, -24) || (isinf(b) && fabs(a) == 65504);
    return fabs(a - b) <= tolerance->ulps * (epsilon * fabs(b) + least);
}

/* The larger of what operand `of` holds: a bound for each of its elements. */
static double largest(const Operand *operand) {
    double most = 0;
    for (int64_t i = 0, n = shape_elements(&operand->local); i < n; i++)
        if (isfinite(element_at(operand->data, operand->dtype, i))) most = fmax(most, fabs(element_at(operand->data, operand->dtype, i)));
    return most;
}

/* One call on the device and on the CPU, from the same memory; no byte but the result's changes. */
static void check_call(Image *image, KernelCall *call, const Tolerance *tolerance, bool plain) {
    const Device *device = fixture_device();
    const Operand *out = &call->out[0];
    const int64_t n = shape_elements(&out->local), first = (char *)out->data - image->host, bytes = n * dtype_bytes[out->dtype];
    const double scale = tolerance->of >= 0 && plain ? largest(&call->in[tolerance->of]) : 0;
    Error error = {0};
    image_upload(image);
    KernelCall on_device = image_call(image, call);
    cr_assert(device->backend->kernels[call->op](&on_device, &error), "%s", error.text);
    image_download(image);
    call->context = NULL;
    cr_assert((plain ? cpu_reference_kernels : backend_cpu.kernels)[call->op](call, &error), "%s", error.text);
    for (int64_t i = 0; i < n; i++) {
        double a = element_at(image->seen + first, out->dtype, i), b = element_at(out->data, out->dtype, i);
        double more = tolerance->ulps * scale * (out->dtype == F64 ? DBL_EPSILON : FLT_EPSILON);
        cr_assert(near(call, tolerance, i, a, b) || fabs(a - b) <= more, "%s %s element %lld of %lld: %.17g, on the CPU %.17g",
                  op_table[call->op].name, dtype_name[call->in[call->nin - 1].dtype], (long long)i, (long long)n, a, b);
        if (!dtype_is_float(out->dtype))
            cr_assert(memcmp(image->seen + first + i * dtype_bytes[out->dtype], (char *)out->data + i * dtype_bytes[out->dtype],
                             (size_t)dtype_bytes[out->dtype]) == 0);
    }
    memcpy(image->seen + first, out->data, (size_t)bytes);
    cr_assert(memcmp(image->seen, image->host, (size_t)image->bytes) == 0, "%s writes beside its result", op_table[call->op].name);
}

/* Operand i of a result of this shape: as it is, or less where it is broadcast. */
static Shape broadcast(const Shape *shape, uint64_t *random, bool full) {
    Shape part = *shape;
    if (full || random_chance(random, 40)) return part;
    int missing = random_chance(random, 50) ? (int)random_below(random, shape->ndim + 1) : 0;
    part.ndim = shape->ndim - missing;
    for (int d = 0; d < part.ndim; d++)
        part.dim[d] = random_chance(random, 40) ? 1 : shape->dim[missing + d];
    return part;
}

static void check(const Tolerance *tolerance, DType dtype, int repeat) {
    uint64_t random = (uint64_t)(tolerance->op * 1000 + repeat * 10 + (int)dtype);
    const OpCode op = tolerance->op;
    const bool special = repeat % 4 == 3, compares = op_type(op, true, 0) == 'b', gelu = op == OP_gelu || op == OP_gelu_grad;
    Attr attr[MAX_ATTRS] = {{0}};
    Image image;
    Shape shape = repeat == 0   ? (Shape){.ndim = 9, .dim = {2, 1, 3, 2, 1, 2, 5, 2, 3}}
                  : repeat == 1 ? (Shape){.ndim = 2, .dim = {37, 301}}
                                : random_shape(&random, 5, 3000);
    if (repeat == 2 && shape.ndim > 0) shape.dim[random_below(&random, shape.ndim)] = 0;
    KernelCall call = {.op = op, .attr = attr, .nin = tolerance->nin, .nout = 1};
    image_init(&image, 512 << 10);
    if (gelu && repeat % 2) attr[0] = (Attr){.given = true, .i = 1};
    if (op == OP_clip) attr[0] = (Attr){.given = true, .f = 0.75};
    int full = op == OP_clip ? 0 : (int)random_below(&random, call.nin);
    for (int i = 0; i < call.nin; i++) {
        Shape part = op == OP_clip && i == 1 ? (Shape){0} : broadcast(&shape, &random, i == full);
        DType type = op_type(op, false, i) == 'b' ? BOOL : dtype;
        call.in[i] = operand_at(image_take(&image, &random, shape_elements(&part), type), type, &part);
        operand_fill(&call.in[i], &random, special);
        /* Roots and logarithms of what they are for; gradients of rsqrt and sqrt of what those give. */
        bool positive = op == OP_log || op == OP_sqrt || op == OP_rsqrt || (i == 0 && op == OP_pow) ||
                        (i == 0 && (op == OP_sqrt_grad || op == OP_rsqrt_grad)) || (i == 1 && op == OP_clip);
        for (int64_t k = 0, n = shape_elements(&part); positive && !special && k < n; k++)
            element_put(call.in[i].data, type, k, fabs(element_at(call.in[i].data, type, k)) + 0.01);
    }
    DType result = compares ? BOOL : dtype;
    bool in_place = op_table[op].in_place && repeat % 3 == 1 && shape_equal(&call.in[0].local, &shape);
    call.out[0] = operand_at(in_place ? call.in[0].data : image_take(&image, &random, shape_elements(&shape), result), result, &shape);
    check_call(&image, &call, tolerance, dtype_is_float(dtype) && !special && !compares && op != OP_where);
    image_finish(&image);
}

static void check_all(const Tolerance *list, size_t n, int repeats) {
    for (size_t k = 0; k < n; k++)
        for (int dtype = 0; dtype < NDTYPES; dtype++)
            for (int repeat = 0; op_table[list[k].op].dtypes & 1u << dtype && repeat < repeats; repeat++)
                check(&list[k], (DType)dtype, repeat);
}

Test(elementwise, operators_are_the_plain_ones_within_their_tolerance) {
    check_all(tolerances, sizeof tolerances / sizeof *tolerances, 12);
}

Test(elementwise, comparisons_and_where_equal_the_cpus) {
    check_all(exact, sizeof exact / sizeof *exact, 12);
}

Test(elementwise, clamp_equals_the_cpus) {
    for (size_t k = 0; k < sizeof clamps / sizeof *clamps; k++)
        for (int dtype = 0; dtype < NDTYPES; dtype++)
            for (int repeat = 0; op_table[clamps[k]].dtypes & 1u << dtype && repeat < 8; repeat++) {
                const Tolerance tolerance = {clamps[k], 0, 0, -1};
                const double unit = dtype_is_float((DType)dtype) ? 0.1 : 1; /* no float is 0.1 */
                uint64_t random = (uint64_t)(dtype * 10 + repeat);
                Shape shape = random_shape(&random, 4, 2000);
                Attr attr[MAX_ATTRS] = {{.given = repeat % 4 != 1, .f = -3 * unit},
                                        {.given = repeat % 4 != 2, .f = repeat % 4 == 3 ? -3 * unit : 1e12 * unit}};
                KernelCall call = {.op = clamps[k], .attr = attr, .nin = op_nin(clamps[k]), .nout = 1};
                Image image;
                image_init(&image, 1 << 20);
                for (int i = 0; i < call.nin; i++) {
                    call.in[i] = operand_at(image_take(&image, &random, shape_elements(&shape), (DType)dtype), (DType)dtype, &shape);
                    operand_fill(&call.in[i], &random, repeat % 2);
                }
                call.out[0] = operand_at(image_take(&image, &random, shape_elements(&shape), (DType)dtype), (DType)dtype, &shape);
                check_call(&image, &call, &tolerance, false);
                image_finish(&image);
            }
}

Test(elementwise, cast_equals_the_cpus_between_all_types) {
    const Tolerance tolerance = {OP_cast, 1, 0, -1};
    for (int from = 0; from < NDTYPES; from++)
        for (int to = 0; to < NDTYPES; to++)
            for (int repeat = 0; repeat < 6; repeat++) {
                uint64_t random = (uint64_t)(from * 100 + to * 10 + repeat);
                Shape shape = random_shape(&random, 4, 2000);
                KernelCall call = {.op = OP_cast, .nin = 1, .nout = 1};
                Image image;
                image_init(&image, 1 << 20);
                call.in[0] = operand_at(image_take(&image, &random, shape_elements(&shape), (DType)from), (DType)from, &shape);
                operand_fill(&call.in[0], &random, repeat % 2);
                call.out[0] = operand_at(image_take(&image, &random, shape_elements(&shape), (DType)to), (DType)to, &shape);
                check_call(&image, &call, &tolerance, false);
                image_finish(&image);
            }
}

/* A row of the table that is elementwise and is not in the lists above would go untested. */
Test(elementwise, every_elementwise_operator_is_tested) {
    for (int op = 0; op < NOPS; op++) {
        bool moves =
                 op == OP_write || op == OP_stop_gradient || op == OP_convert || op == OP_cast || op == OP_compress || op == OP_sum_squares,
             found = false;
        if (!op_table[op].letters || op_table[op].expand || moves || (op_table[op].op_class == OP_CLASS_UPDATE)) continue;
        for (size_t k = 0; k < sizeof tolerances / sizeof *tolerances; k++)
            found = found || tolerances[k].op == (OpCode)op;
        for (size_t k = 0; k < sizeof exact / sizeof *exact; k++)
            found = found || exact[k].op == (OpCode)op;
        for (size_t k = 0; k < sizeof clamps / sizeof *clamps; k++)
            found = found || clamps[k] == (OpCode)op;
        cr_assert(found, "%s", op_table[op].name);
    }
}

/* More elements than 32 bits count; only where there is a real device's memory. */
Test(elementwise, positions_may_be_beyond_32_bits) {
    const Device *device = fixture_device();
    const Backend *backend = device->backend;
    const Shape shape = {.ndim = 2, .dim = {((int64_t)1 << 25) + 1, 64}}, row = {.ndim = 1, .dim = {64}};
    const int64_t n = shape_elements(&shape),
                  places[] = {0, 63, 64, (int64_t)INT32_MAX - 1, INT32_MAX, (int64_t)INT32_MAX + 1, n - 65, n - 1};
    int64_t taken, available, total;
    Error error = {0};
    Attr one[MAX_ATTRS] = {{.given = true, .f = 1}};
    uint8_t pattern[64], found;
    cr_assert(backend->queue->memory(device->context, &taken, &available, &total, &error), "%s", error.text);
    if (available < 5ll << 30) cr_skip_test("%lld bytes are free on the device", (long long)available);
    char *x = backend->alloc(device->context, n, &error), *y = backend->alloc(device->context, n, &error),
         *b = backend->alloc(device->context, 64, &error);
    cr_assert(x && y && b, "%s", error.text);
    for (int i = 0; i < 64; i++)
        pattern[i] = i % 3 == 0;
    KernelCall fill = {.op = OP_constant, .attr = one, .nout = 1, .out = {operand_at(x, BOOL, &shape)}, .context = device->context};
    KernelCall differ = {.op = OP_not_equal,
                         .nin = 2,
                         .nout = 1,
                         .context = device->context,
                         .in = {operand_at(x, BOOL, &shape), operand_at(b, BOOL, &row)},
                         .out = {operand_at(y, BOOL, &shape)}};
    cr_assert(backend->upload(device->context, b, pattern, 64, &error) && backend->kernels[OP_constant](&fill, &error), "%s", error.text);
    cr_assert(backend->kernels[OP_not_equal](&differ, &error), "%s", error.text);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        cr_assert(backend->download(device->context, &found, y + places[i], 1, &error), "%s", error.text);
        cr_assert_eq(found, !pattern[places[i] % 64], "element %lld", (long long)places[i]);
    }
    backend->free(device->context, x);
    backend->free(device->context, y);
    backend->free(device->context, b);
}
