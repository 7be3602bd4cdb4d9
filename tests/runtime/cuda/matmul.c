/* Products against the CPU's plain kernels: every transposition, sizes and addresses that cuBLASLt likes and such that it does not. And
 * products with what follows them, one by one and as one launch of cuBLASLt's: biases, activations, what a gradient needs of them, and
 * biases' gradients. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/cuda/fixture.h"
#include "runtime/element.h"
#include "tests/ops/check.h"

enum { MOST_CALLS = 3, MOST_TENSORS = 9, MOST_ELEMENTS = 24 * 24, M = 10, K = 12 };

typedef struct Run {
    Image image;
    uint64_t random;
    DType dtype;
    int offset; /* elements by which tensors lie beyond 64 bytes */
    Operand tensor[MOST_TENSORS];
    int ntensors, ncalls;
    KernelCall call[MOST_CALLS];
    Attr attr[MOST_CALLS][MAX_ATTRS];
    Rule rule[MOST_CALLS];
} Run;

static int add_typed(Run *run, DType dtype, const Shape *shape) {
    run->image.used = (run->image.used + 63) / 64 * 64 + run->offset * dtype_bytes[dtype];
    char *data = run->image.host + run->image.used;
    run->image.used += shape_elements(shape) * dtype_bytes[dtype];
    cr_assert_leq(run->image.used, run->image.bytes);
    run->tensor[run->ntensors] = operand_at(data, dtype, shape);
    operand_fill(&run->tensor[run->ntensors], &run->random, false);
    return run->ntensors++;
}

static int add_tensor(Run *run, const Shape *shape) {
    return add_typed(run, run->dtype, shape);
}

static int add_matrix(Run *run, int64_t rows, int64_t columns) {
    return add_tensor(run, &(Shape){.ndim = 2, .dim = {rows, columns}});
}

/* A call with attribute 0; returns its result. */
static int add_call(Run *run, OpCode op, Attr attr, int nin, const int *in) {
    const int c = run->ncalls++;
    TensorType types[MAX_IN];
    KernelCall *call = &run->call[c];
    run->attr[c][0] = attr;
    *call = (KernelCall){.op = op, .attr = run->attr[c], .nin = nin, .nout = 1, .rule = &run->rule[c]};
    for (int i = 0; i < nin; i++) {
        call->in[i] = run->tensor[in[i]];
        types[i] = (TensorType){call->in[i].dtype, false, call->in[i].local};
    }
    cr_assert(rule_infer(op, types, nin, run->attr[c], &run->rule[c], NULL));
    const int out = add_typed(run, run->rule[c].result[0].dtype, &run->rule[c].result[0].shape);
    call->out[0] = run->tensor[out];
    return out;
}

static void init(Run *run, DType dtype, int64_t n, int offset) {
    *run = (Run){.random = 77 + (uint64_t)n, .dtype = dtype, .offset = offset};
    image_init(&run->image, 64 << 10);
    add_matrix(run, M, K);
    add_matrix(run, K, n);
}

/* What the CPU's plain kernels give for each call, of the same operands as f32; the image's results are no numbers afterwards. */
static void run_plainly(Run *run, float (*expected)[MOST_ELEMENTS]) {
    Error error = {0};
    float *wide[MOST_TENSORS];
    for (int t = 0; t < run->ntensors; t++) {
        const int64_t n = shape_elements(&run->tensor[t].local);
        wide[t] = malloc((size_t)n * sizeof *wide[t]);
        for (int64_t i = 0; i < n; i++)
            wide[t][i] = (float)element_at(run->tensor[t].data, run->tensor[t].dtype, i);
    }
    for (int c = 0; c < run->ncalls; c++) {
        const Operand *out = &run->call[c].out[0];
        const size_t bytes = (size_t)shape_elements(&out->local) * sizeof(float);
        KernelCall plain = run->call[c];
        for (int t = 0; t < run->ntensors; t++) {
            for (int i = 0; i < plain.nin; i++)
                if (run->call[c].in[i].data == run->tensor[t].data) plain.in[i].data = wide[t], plain.in[i].dtype = F32;
            if (out->data == run->tensor[t].data) plain.out[0].data = wide[t], plain.out[0].dtype = F32;
        }
        cr_assert(cpu_reference_kernels[plain.op](&plain, &error), "%s", error.text);
        cr_assert_leq(bytes, sizeof *expected);
        memcpy(expected[c], plain.out[0].data, bytes);
        memset(out->data, 0xff, (size_t)operand_bytes(out));
    }
    for (int t = 0; t < run->ntensors; t++)
        free(wide[t]);
}

/* Operands are below 3: a product adds K numbers below 9, or M behind a gradient's, to a bias. between: the largest number that may be rounded on the way. */
static void check_against(Run *run, float (*const expected)[MOST_ELEMENTS], unsigned stays, double between, const char *how) {
    image_download(&run->image);
    for (int c = 0; c < run->ncalls; c++) {
        const Operand *out = &run->call[c].out[0];
        for (int64_t i = 0; stays >> c & 1u && i < shape_elements(&out->local); i++) {
            const double right = (double)expected[c][i],
                         found = element_at(run->image.seen + ((const char *)out->data - run->image.host), out->dtype, i);
            const bool rounded = dtype_is_half(out->dtype) || (dtype_is_half(run->dtype) && between > 0); /* f32 of a cast: on the way */
            const double once = rounded ? ldexp(fabs(right) + between, run->dtype == F16 ? -11 : -8) : 0;
            cr_assert(fabs(found - right) <= check_tolerance(F32, K + 1, 9 * (K + 1), right) + once,
                      "%s, call %d (%s %s), element %lld: %.9g, plainly %.9g", how, c, op_table[run->call[c].op].name,
                      dtype_name[out->dtype], (long long)i, found, right);
        }
    }
}

/* The launches of a fused step. */
static int count_launches(const Device *device, void *fused) {
    const DeviceQueue *queue = device->backend->queue;
    Error error = {0};
    void *graph = NULL;
    int nodes = 0;
    cr_assert(queue->capture(device->context, &error) && device->backend->run(device->context, fused, &error), "%s", error.text);
    cr_assert(queue->captured(device->context, &graph, &nodes, &error) && graph, "%s", error.text);
    queue->discard(device->context, graph);
    return nodes;
}

/* How many calls, of a step whose result c is inner where bit c is set, the device makes one of; other results are the CPU's, and all of
 * them where the calls run one by one. */
static int compare(Run *run, unsigned hidden) {
    const Device *device = fixture_device();
    KernelCall calls[MOST_CALLS];
    unsigned inner[MOST_CALLS];
    Error error = {0};
    float expected[MOST_CALLS][MOST_ELEMENTS];
    int taken = 0;
    run_plainly(run, expected);
    for (int c = 0; c < run->ncalls; c++) {
        calls[c] = image_call(&run->image, &run->call[c]);
        inner[c] = hidden >> c & 1;
    }
    image_upload(&run->image);
    for (int c = 0; c < run->ncalls; c++)
        cr_assert(device->backend->kernels[calls[c].op](&calls[c], &error), "%s", error.text);
    check_against(run, expected, ~0u, 9 * (K + 1), "one by one");
    image_upload(&run->image);
    void *fused = device->backend->fuse(device->context, calls, run->ncalls, inner, &error);
    cr_assert_str_empty(error.text);
    for (int use = 0; fused && use < 2; use++) /* what is kept for the second time is right too */
        cr_assert(device->backend->run(device->context, fused, &error), "%s", error.text);
    if (fused) {
        taken = run->ncalls + 1 - count_launches(device, fused);
        check_against(run, expected, ~hidden, taken < run->ncalls ? 9 * (K + 1) : 0, "fused");
        device->backend->unfuse(device->context, fused);
    }
    image_finish(&run->image);
    return taken;
}

/* Over the stand-in all that is hoped for becomes one call; a real library may have fewer epilogues, or none that is exact. */
static void expect_taken(int taken, int hoped) {
    if (over_standin())
        cr_assert_eq(taken, hoped, "%d calls are one, %d are hoped for", taken, hoped);
    else if (taken != hoped)
        printf("note: %d calls are one, %d were hoped for\n", taken, hoped);
}

/* Heads of places: [batch, places, heads, width] to [batch, heads, places, width]. */
static int add_heads(Run *run, int64_t batch, int64_t places, int64_t width) {
    static const Attr perm = {.given = true, .n = 4, .ints = {0, 2, 1, 3}};
    const int x = add_tensor(run, &(Shape){.ndim = 4, .dim = {batch, places, 3, width}});
    return add_call(run, OP_transpose, perm, 1, (const int[]){x});
}

static int heads(int64_t batch, int offset) {
    Run run = {.random = 5, .offset = offset};
    image_init(&run.image, 64 << 10);
    const int a = add_heads(&run, batch, 5, 4), b = add_heads(&run, batch, 4, 6);
    add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){a, b});
    return compare(&run, 3);
}

Test(matmul, operands_are_read_by_strides_where_few_launches_do_it) {
    expect_taken(heads(1, 0), 3);
    expect_taken(heads(1, 1), 3);
    expect_taken(heads(2, 0), 2); /* a launch for each of the batch */
    expect_taken(heads(3, 0), 1);
    expect_taken(heads(6, 0), 1); /* two copies and a product */
}

static int transposed(int64_t batch, int64_t nheads) {
    static const Attr perm = {.given = true, .n = 4, .ints = {0, 2, 1, 3}};
    Run run = {.random = 6};
    image_init(&run.image, 64 << 10);
    const int a = add_tensor(&run, &(Shape){.ndim = 4, .dim = {batch, nheads, 5, 4}});
    const int b = add_tensor(&run, &(Shape){.ndim = 4, .dim = {batch, nheads, 4, 6}});
    const int m = add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){a, b});
    add_call(&run, OP_transpose, perm, 1, (const int[]){m});
    return compare(&run, 1);
}

Test(matmul, a_result_is_written_where_its_transpose_lies) {
    expect_taken(transposed(1, 2), 1); /* results that lie in each other's rows: a launch for each */
    expect_taken(transposed(3, 1), 2);
    expect_taken(transposed(2, 3), 0); /* a product and a copy */
}

/* product + bias, then this: kept, where something else reads what it is taken of. */
static int biased(DType dtype, OpCode op, bool approximate, bool kept, int64_t n, int offset) {
    Run run;
    init(&run, dtype, n, offset);
    int bias = add_tensor(&run, &(Shape){.ndim = 1, .dim = {n}});
    int product = add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){0, 1});
    int sum = add_call(&run, OP_add, (Attr){0}, 2, (const int[]){product, bias});
    add_call(&run, op, (Attr){.given = true, .i = approximate}, 1, &sum);
    return compare(&run, kept ? 1 : 3);
}

static const DType types[] = {F32, F16, BF16};
enum { NTYPES = sizeof types / sizeof *types };

Test(matmul, biases_and_activations_are_part_of_the_product) {
    for (int t = 0; t < NTYPES; t++)
        for (int offset = 0; offset < 2; offset++)
            for (int64_t n = 21; n <= 24; n += 3) {
                expect_taken(biased(types[t], OP_relu, false, false, n, offset), 3);
                expect_taken(biased(types[t], OP_gelu, true, false, n, offset), 3);
                expect_taken(biased(types[t], OP_gelu, false, false, n, offset), 2);
            }
}

Test(matmul, an_epilogue_that_is_not_exact_is_left_alone) {
    setenv("STANDIN_TANH", "quick", 1);
    if (!over_standin()) return; /* where the library's is what it is */
    for (int t = 0; t < NTYPES; t++) {
        cr_assert_eq(biased(types[t], OP_gelu, true, false, 24, 0), 2, "the bias only");
        cr_assert_eq(biased(types[t], OP_gelu, true, true, 24, 0), 2);
        cr_assert_eq(biased(types[t], OP_relu, false, false, 24, 0), 3, "relu takes no tanh");
    }
}

Test(matmul, of_algorithms_those_that_are_exact_are_taken) {
    setenv("STANDIN_TANH", "quick:1", 1);
    if (!over_standin()) return;
    for (int t = 0; t < NTYPES; t++)
        cr_assert_eq(biased(types[t], OP_gelu, true, false, 24, 0), 3, "by the second");
}

Test(matmul, what_a_gradient_needs_is_kept_where_epilogues_take_it) {
    for (int t = 0; t < NTYPES; t++) {
        expect_taken(biased(types[t], OP_gelu, true, true, 24, 0), 3);
        expect_taken(biased(types[t], OP_gelu, true, true, 21, 0), 2);
        expect_taken(biased(types[t], OP_gelu, true, true, 24, 1), 2);
    }
}

Test(matmul, gradients_of_activations_are_part_of_the_product) {
    for (int odd = 0; odd < 3 * NTYPES; odd++) {
        const int64_t n = odd % 3 == 1 ? 21 : 24;
        Run run;
        init(&run, types[odd / 3], n, odd % 3 == 2);
        int x = add_matrix(&run, M, n), product = add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){0, 1});
        add_call(&run, OP_gelu_grad, (Attr){.given = true, .i = 1}, 2, (const int[]){x, product});
        expect_taken(compare(&run, 1), odd % 3 ? 0 : 2);
    }
}

Test(matmul, gradients_of_biases_are_part_of_the_product) {
    for (int t = 0; t < NTYPES; t++)
        for (int offset = 0; offset < 2; offset++) {
            Run run;
            init(&run, types[t], 24, offset);
            add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){0, 1});
            add_call(&run, OP_sum, (Attr){.given = true, .n = 1, .ints = {0}}, 1, (const int[]){1});
            expect_taken(compare(&run, 0), 2);
        }
}

static const Attr to_f32 = {.given = true, .text = "f32"}, rows = {.given = true, .n = 1, .ints = {0}};

Test(matmul, casts_to_f32_are_part_of_the_product) {
    for (int t = 1; t < NTYPES; t++)
        for (int kept = 0; kept < 2; kept++) {
            Run run;
            init(&run, types[t], 21, kept);
            const int product = add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){0, 1});
            const int wide = add_call(&run, OP_cast, to_f32, 1, &product);
            const int other = add_typed(&run, F32, &run.tensor[wide].local);
            add_call(&run, OP_add, (Attr){0}, 2, (const int[]){other, wide});
            expect_taken(compare(&run, kept ? 2 : 3), kept || types[t] == F16 ? 2 : 3); /* else a product, and a launch of the other two */
        }
}

Test(matmul, what_a_product_is_added_to_is_part_of_it) {
    for (int t = 0; t < NTYPES; t++)
        for (int bias = 0; bias < 2; bias++) {
            Run run;
            init(&run, types[t], 24, 0);
            const int other = add_matrix(&run, M, 24), p = add_tensor(&run, &(Shape){.ndim = 1, .dim = {24}});
            int sum = add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){0, 1});
            if (bias) sum = add_call(&run, OP_add, (Attr){0}, 2, (const int[]){sum, p});
            add_call(&run, OP_add, (Attr){0}, 2, (const int[]){sum, other});
            expect_taken(compare(&run, bias ? 3 : 1), bias ? 3 : 2);
        }
}

/* A residual that dies in the step may lie where the result does. */
Test(matmul, a_product_is_added_to_what_lies_where_its_result_does) {
    const Device *device = fixture_device();
    Error error = {0};
    Run run;
    init(&run, F32, 24, 0);
    const int other = add_matrix(&run, M, 24);
    const int product = add_call(&run, OP_matmul, (Attr){0}, 2, (const int[]){0, 1});
    add_call(&run, OP_add, (Attr){0}, 2, (const int[]){product, other});
    float before[M * 24], alone[MOST_ELEMENTS];
    memcpy(before, run.tensor[other].data, sizeof before);
    KernelCall plain = run.call[0];
    cr_assert(cpu_reference_kernels[OP_matmul](&plain, &error), "%s", error.text);
    memcpy(alone, plain.out[0].data, sizeof before);
    run.call[1].out[0].data = run.tensor[other].data;
    KernelCall calls[2] = {image_call(&run.image, &run.call[0]), image_call(&run.image, &run.call[1])};
    image_upload(&run.image);
    void *fused = device->backend->fuse(device->context, calls, 2, (const unsigned[]){1, 0}, &error);
    cr_assert(fused, "%s", error.text);
    cr_assert(device->backend->run(device->context, fused, &error), "%s", error.text);
    image_download(&run.image);
    const float *found = (const float *)(run.image.seen + ((char *)run.tensor[other].data - run.image.host));
    for (int i = 0; i < M * 24; i++)
        cr_assert_float_eq(found[i], before[i] + alone[i], 1e-3, "element %d: %g", i, (double)found[i]);
    device->backend->unfuse(device->context, fused);
    image_finish(&run.image);
}

/* Of 16 bits: the weight's gradient is f32, and the bias's is cast to it. */
Test(matmul, gradients_of_biases_are_cast_by_the_product) {
    for (int t = 1; t < NTYPES; t++)
        for (int kept = 0; kept < 2; kept++) {
            Run run;
            init(&run, types[t], 24, 0);
            const int c = run.ncalls;
            add_call(&run, OP_einsum, (Attr){.given = true, .text = "mk,kn->mn"}, 2, (const int[]){0, 1});
            run.call[c].out[0] = run.tensor[add_typed(&run, F32, &run.call[c].out[0].local)];
            const int sum = add_call(&run, OP_sum, rows, 1, (const int[]){1});
            add_call(&run, OP_cast, to_f32, 1, &sum);
            expect_taken(compare(&run, kept ? 0 : 2), kept || types[t] == F16 ? 0 : 3);
        }
}

/* The other way round: what is summed is the product's left operand as cuBLASLt has it. */
Test(matmul, gradients_of_biases_are_part_of_products_the_other_way_round) {
    static const char *const specs[] = {"km,kn->nm", "kn,km->nm"};
    for (int t = 0; t < NTYPES; t++)
        for (int spec = 0; spec < 2; spec++)
            for (int offset = 0; offset < 2; offset++) {
                Run run;
                init(&run, types[t], 24, offset);
                const int x = add_matrix(&run, K, 16), dy = add_matrix(&run, K, 24);
                add_call(&run, OP_einsum, (Attr){.given = true, .text = specs[spec]}, 2,
                         spec ? (const int[]){dy, x} : (const int[]){x, dy});
                add_call(&run, OP_sum, rows, 1, &dy);
                expect_taken(compare(&run, 0), 2);
            }
}
