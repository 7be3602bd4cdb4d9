/* Convolutions by cuDNN: which algorithm is taken, and when our own kernel is. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "tests/ops/check.h"
#include "tests/runtime/cuda/fixture.h"

enum { OWN = -1, FIRST = 1 }; /* the stand-in's algorithm 0 has no order of sums, and is wrong */

/* Whether algorithms have numbers; the real library's have none that a test knows. */
static int last_convolution(void) {
    void *standin = dlopen(getenv("PRUN_NCCL"), RTLD_NOW | RTLD_NOLOAD);
    int (*last)(void) = NULL;
    if (standin) *(void **)&last = dlsym(standin, "standin_last_convolution");
    return last ? last() : OWN;
}

/* A convolution of 2 images, on a device of its own, against the plain kernel: what has computed it last. */
static int convolve(DType dtype, Attr padding) {
    const Check check = {.op = OP_conv2d, .dtype = dtype, .nin = 2, .in = {SHAPE(2, 4, 9, 7), SHAPE(16, 4, 3, 3)}, .attr = {{0}, padding}};
    const DeviceModule *module = device_module(&(Error){0});
    uint64_t random = 3;
    Device device;
    KernelCall call;
    Rule rule;
    Error error = {0};
    cr_assert(module);
    cr_assert(device_open(&device, module->backend, &(DeviceOptions){.nlocal = 1, .nthreads = 1}, &error), "%s", error.text);
    check_open(&call, &check, &rule, true, &random);
    cr_assert(check_run(&device, &call, 0, false, &error), "%s", error.text);
    check_results(cpu_reference_kernels, &call, 36, 1, "");
    call_close(&call);
    device_close(&device);
    return last_convolution();
}

Test(cudnn, the_first_algorithm_with_one_order_of_sums_is_taken) {
    const DType dtypes[] = {F32, F16, BF16};
    for (int i = 0; i < 3 && over_standin(); i++)
        cr_assert_eq(convolve(dtypes[i], (Attr)INTS(1, 1)), FIRST, "%s", dtype_name[dtypes[i]]);
}

Test(cudnn, f64_is_computed_by_our_own_kernel) {
    cr_assert_eq(convolve(F64, (Attr)INTS(1, 1)), OWN);
}

Test(cudnn, without_the_library_our_own_kernel_is_taken) {
    setenv("PRUN_CUDNN", "/nowhere/libcudnn.so", 1);
    cr_assert_eq(convolve(F32, (Attr)INTS(1, 1)), OWN);
}

Test(cudnn, where_it_refuses_our_own_kernel_is_taken) {
    setenv("STANDIN_FAIL", "cudnnGetConvolutionForwardAlgorithm_v7:0:3000", 1);
    if (over_standin()) cr_assert_eq(convolve(F32, (Attr)INTS(1, 1)), OWN);
}

/* convolve compares: were it taken, the result would be wrong. */
Test(cudnn, what_is_wrong_is_left_alone) {
    setenv("STANDIN_CUDNN", "wrong", 1);
    convolve(F32, (Attr)INTS(1, 1));
    convolve(BF16, (Attr)INTS(1, 0));
}

/* ---------------------------------------------------------------- before the first step */

static bool job_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    (void)error;
    for (int p = 0; p < comm->nprocesses; p++)
        words[p] = word;
    return true;
}

/* This is process 0, from which the others take it. */
static bool job_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    (void)comm, (void)data, (void)bytes, (void)error;
    return true;
}

static const CommTable job_table = {.name = "job", .all_gather_words = job_words, .broadcast = job_broadcast};

/* Process 1 succeeds in all, and has the first shape to compute without cuDNN. */
static bool other_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    static int calls;
    (void)comm, (void)error;
    words[0] = word;
    words[1] =
        calls++ < 13
            ? 0
            : 1; /* what is agreed on before: in settle, that nobody has settled a shape, that process 1 has no more of them, memory */
    return true;
}

static const CommTable other_table = {.name = "other", .all_gather_words = other_words, .broadcast = job_broadcast};

/* A convolution or its gradient, prepared, settled and run, in a job of so many processes; what prun -v says of it. */
static const char *settle_and_run(OpCode op, const CommTable *table, int nprocesses, bool deterministic) {
    const Shape x = SHAPE(2, 4, 9, 7), w = SHAPE(16, 4, 3, 3), y = SHAPE(2, 16, 9, 7);
    Check check = {.op = op, .dtype = F32, .nin = 2, .in = {op == OP_conv2d_grad_x ? y : x, op == OP_conv2d_grad_w ? y : w}};
    check.attr[1] = (Attr)INTS(1, 1);
    if (op == OP_conv2d_grad_x) check.attr[4] = (Attr)INTS(2, 4, 9, 7);
    if (op == OP_conv2d_grad_w) check.attr[4] = (Attr)INTS(16, 4, 3, 3);
    const DeviceModule *module = device_module(&(Error){0});
    Comm comm = {.table = table, .nranks = nprocesses, .nprocesses = nprocesses, .ndriven = 1};
    uint64_t random = 3;
    Device device;
    KernelCall call;
    Rule rule;
    Error error = {0};
    static char words[128];
    Text said = {0};
    cr_assert(device_open(&device, module->backend, &(DeviceOptions){.nlocal = 1, .nthreads = 1, .deterministic = deterministic}, &error),
              "%s", error.text);
    check_open(&call, &check, &rule, true, &random);
    KernelCall prepared = call;
    prepared.context = device.context;
    const int before = last_convolution();
    cr_assert(device.backend->prepare(&prepared, &error), "%s", error.text);
    cr_assert_eq(last_convolution(), before, "nothing is tried yet");
    cr_assert(device.backend->queue->settle(device.context, &comm, &error), "%s", error.text);
    cr_assert(check_run(&device, &call, 0, false, &error), "%s", error.text);
    check_results(cpu_reference_kernels, &call, 144, 1, "");
    device.backend->queue->libraries(device.context, &said);
    snprintf(words, sizeof words, "%s", said.n ? said.at : "");
    text_finish(&said);
    call_close(&call);
    device_close(&device);
    return words;
}

Test(cudnn, algorithms_are_timed_before_the_first_step) {
    if (!over_standin()) return;
    settle_and_run(OP_conv2d, &job_table, 1, false);
    cr_assert_geq(last_convolution(), FIRST);
}

static const OpCode convolutions[] = {OP_conv2d, OP_conv2d_grad_x, OP_conv2d_grad_w};

Test(cudnn, where_our_own_kernel_is_faster_it_is_taken) {
    setenv("STANDIN_CUDNN", "slow", 1);
    for (int i = 0; i < 3 && over_standin(); i++)
        cr_assert_str_eq(settle_and_run(convolutions[i], &job_table, 1, false), "0 of 1 convolutions by cuDNN 9.13.0");
}

Test(cudnn, nothing_is_chosen_by_time_where_steps_are_deterministic) {
    setenv("STANDIN_CUDNN", "slow", 1);
    for (int i = 0; i < 3 && over_standin(); i++)
        cr_assert_str_eq(settle_and_run(convolutions[i], &job_table, 2, true), "1 of 1 convolutions by cuDNN 9.13.0");
}

Test(cudnn, what_one_process_cannot_do_none_does) {
    if (over_standin()) cr_assert_str_eq(settle_and_run(OP_conv2d, &other_table, 2, true), "0 of 1 convolutions by cuDNN 9.13.0");
}

/* Parts of tensors have padding on the sides that they reach, so seldom the same on both. Which kernel computes them is not looked at. */
Test(cudnn, parts_of_tensors_are_right_whoever_computes_them) {
    const Check check = {.op = OP_conv2d, .dtype = F32, .nin = 2, .in = {SHAPE(2, 4, 9, 7), SHAPE(16, 4, 3, 3)}, .attr = {{0}, INTS(1, 1)}};
    const DeviceModule *module = device_module(&(Error){0});
    Device device;
    Error error = {0};
    if (!over_standin()) return;
    cr_assert(device_open(&device, module->backend, &(DeviceOptions){.nlocal = 1, .nthreads = 1}, &error), "%s", error.text);
    for (uint64_t random = 1; random < 6; random++) {
        uint64_t state = random;
        check_call(&device, &check, false, &state); /* parts of tensors: padding is on the sides that they reach */
    }
    device_close(&device);
}
