/* peak: what the device does at most, measured: large products by the library that computes ours, and copies. What profiles are shares of. */
#include "runtime/cuda/cuda.h"

enum { ROUNDS = 10, SIDE = 4096 };

/* Seconds of what `queue` puts on the compute stream, the best of some rounds. */
static bool best_of(CudaContext *cuda, bool (*queue)(CudaContext *cuda, char *memory, Error *error), char *memory, double *seconds, Error *error) {
    cudaEvent_t begin = NULL, end = NULL;
    *seconds = 1e30;
    bool ok = cuda_ok(cuda, cudaEventCreate(&begin), "making an event", error) && cuda_ok(cuda, cudaEventCreate(&end), "making an event", error);
    for (int i = 0; ok && i < ROUNDS; i++) {
        float ms = 0;
        ok = cuda_ok(cuda, cudaEventRecord(begin, cuda->compute), "recording an event", error) && queue(cuda, memory, error) &&
             cuda_ok(cuda, cudaEventRecord(end, cuda->compute), "recording an event", error) &&
             cuda_ok(cuda, cudaEventSynchronize(end), "measuring the device", error) &&
             cuda_ok(cuda, cudaEventElapsedTime(&ms, begin, end), "reading a time", error);
        if (ok && ms > 0 && ms * 1e-3 < *seconds) *seconds = ms * 1e-3;
    }
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    return ok;
}

static const int64_t matrix_bytes = (int64_t)SIDE * SIDE * 4;

static bool queue_product(CudaContext *cuda, char *memory, Error *error) {
    return matmul_square(cuda, SIDE, memory, memory + matrix_bytes, memory + 2 * matrix_bytes, error);
}

static bool queue_copy(CudaContext *cuda, char *memory, Error *error) {
    return cuda_ok(cuda, cudaMemcpyAsync(memory + 2 * matrix_bytes, memory, (size_t)(2 * matrix_bytes), cudaMemcpyDeviceToDevice, cuda->compute), "copying", error);
}

bool cuda_peak(void *context, double *flops, double *bytes, Error *error) {
    CudaContext *cuda = context;
    char *memory = NULL;
    double seconds;
    bool ok = cuda_ok(cuda, cudaMalloc((void **)&memory, (size_t)(4 * matrix_bytes)), "taking memory to measure the device", error) &&
              cuda_ok(cuda, cudaMemset(memory, 0, (size_t)(4 * matrix_bytes)), "clearing memory", error) &&
              best_of(cuda, queue_product, memory, &seconds, error);
    if (ok) *flops = 2.0 * SIDE * SIDE * SIDE / seconds;
    ok = ok && best_of(cuda, queue_copy, memory, &seconds, error);
    if (ok) *bytes = 4.0 * (double)matrix_bytes / seconds; /* half of it read, half written */
    if (memory) cudaFree(memory);
    return ok;
}
