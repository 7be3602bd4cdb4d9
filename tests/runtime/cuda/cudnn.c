/* Convolutions by cuDNN: which algorithm is taken, and when our own kernel is. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/check.h"
#include "tests/runtime/cuda/fixture.h"

enum { OWN = -1, FIRST = 1 }; /* the stand-in's algorithm 0 has no order of sums, and is wrong */

/* Whether algorithms have numbers; the real library's have none that a test knows. */
static bool over_standin(void) {
    const char *name = getenv("PRUN_CUDA_MODULE");
    return name && strstr(name, "standin");
}

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
