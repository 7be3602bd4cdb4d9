/* Memory on the stand-in: poison, guards, what may be copied where, and how much there is. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/standin/kernels.h"
#include "tests/standin/standin.h"

Test(memory, what_was_never_written_is_nan) {
    float *d, *pinned, back[4];
    cr_assert_eq(cudaMalloc((void **)&d, sizeof back), cudaSuccess);
    cr_assert_eq(cudaMemcpy(back, d, sizeof back, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert(isnan(back[3]));
    cr_assert_eq(cudaMallocHost((void **)&pinned, sizeof back), cudaSuccess);
    cr_assert(isnan(pinned[3]));
    cr_assert_eq((uintptr_t)d % 256, 0);
    cr_assert_neq((uintptr_t)d % 512, 0, "aligned to no more than 256 bytes");
    cr_assert_eq(cudaFreeHost(pinned), cudaSuccess);
    cr_assert_eq(cudaFree(d), cudaSuccess);
    cr_assert_eq(cudaFree(d), cudaErrorInvalidValue, "twice");
}

#ifndef __SANITIZE_ADDRESS__
Test(memory, a_write_past_the_end_is_found_when_the_device_is_idle) {
    float *d;
    cr_assert_eq(cudaMalloc((void **)&d, 10 * sizeof *d), cudaSuccess);
    launch_poke(d, 9, 1, NULL);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    launch_poke(d, 10, 1, NULL);
    cr_assert_eq(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

Test(memory, a_write_before_the_beginning_is_found_when_it_is_freed) {
    float *d;
    cr_assert_eq(cudaMalloc((void **)&d, 10 * sizeof *d), cudaSuccess);
    launch_poke(d, -1, 1, NULL);
    cr_assert_eq(cudaFree(d), cudaErrorIllegalAddress);
}

Test(memory, the_host_cannot_read_the_device, .signal = SIGSEGV) {
    volatile float *d;
    cr_assert_eq(cudaMalloc((void **)&d, sizeof *d), cudaSuccess);
    (void)d[0];
}

Test(memory, a_kernel_cannot_write_what_was_freed, .signal = SIGSEGV) {
    float *d;
    cr_assert_eq(cudaMalloc((void **)&d, sizeof *d), cudaSuccess);
    cr_assert_eq(cudaFree(d), cudaSuccess);
    launch_poke(d, 0, 1, NULL);
    cudaDeviceSynchronize();
}
#endif

Test(memory, copies_lie_in_one_allocation_and_fit_their_direction) {
    char *d, *e, host[64] = {0};
    cr_assert_eq(cudaMalloc((void **)&d, 32), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&e, 32), cudaSuccess);
    cr_assert_eq(cudaMemcpy(d + 16, host, 16, cudaMemcpyHostToDevice), cudaSuccess);
    cr_assert_eq(cudaMemcpy(d + 16, host, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    cr_assert_eq(cudaMemset(e + 30, 0, 3), cudaErrorInvalidValue);
    cr_assert_eq(cudaMemcpy(d, host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    cr_assert_eq(cudaMemcpy(host, d, 16, cudaMemcpyDefault), cudaSuccess);
    cr_assert_eq(cudaMemcpy2D(d, 8, host, 16, 4, 4, cudaMemcpyHostToDevice), cudaSuccess);
    cr_assert_eq(cudaMemcpy2D(d, 8, host, 16, 9, 4, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
}

Test(memory, the_budget_ends_in_out_of_memory) {
    setenv("STANDIN_MEMORY", "1M", 1);
    size_t left = 0, total = 0;
    void *p = NULL, *q = NULL;
    cr_assert_eq(cudaMalloc(&p, 600 << 10), cudaSuccess);
    cr_assert_eq(cudaMalloc(&q, 600 << 10), cudaErrorMemoryAllocation);
    cr_assert_null(q);
    cr_assert_eq(cudaMemGetInfo(&left, &total), cudaSuccess);
    cr_assert_eq(total, 1 << 20);
    cr_assert_eq(left, 424 << 10);
    cr_assert_eq(cudaFree(p), cudaSuccess);
    cr_assert_eq(cudaMalloc(&q, 600 << 10), cudaSuccess);
    cr_assert_eq(standin_counts().live, 1);
}

Test(memory, host_memory_is_registered_once) {
    char *host = malloc(4096);
    struct cudaPointerAttributes attributes;
    cr_assert_eq(cudaHostRegister(host, 4096, cudaHostRegisterDefault), cudaSuccess);
    cr_assert_eq(cudaHostRegister(host + 8, 8, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
    cr_assert_eq(cudaPointerGetAttributes(&attributes, host + 100), cudaSuccess);
    cr_assert_eq(attributes.type, cudaMemoryTypeHost);
    cr_assert_eq(cudaHostUnregister(host), cudaSuccess);
    cr_assert_eq(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
    free(host);
}

Test(memory, devices_and_drivers_are_as_the_environment_says) {
    setenv("STANDIN_DEVICES", "2", 1);
    setenv("STANDIN_CC", "8.0", 1);
    struct cudaDeviceProp p;
    int n = 0;
    cr_assert_eq(cudaGetDeviceCount(&n), cudaSuccess);
    cr_assert_eq(n, 2);
    cr_assert_eq(cudaSetDevice(2), cudaErrorInvalidDevice);
    cr_assert_eq(cudaGetDeviceProperties(&p, 1), cudaSuccess);
    cr_assert_eq(p.major, 8);
}

Test(memory, an_old_driver_and_no_device_are_said) {
    setenv("STANDIN_DRIVER", "12040", 1);
    int n = 7;
    cr_assert_eq(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    cr_assert_eq(n, 0);
    cr_assert_eq(cudaDriverGetVersion(&n), cudaSuccess);
    cr_assert_eq(n, 12040);
    cr_assert_str_eq(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice");
}
