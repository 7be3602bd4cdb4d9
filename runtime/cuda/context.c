/* context: a device opened by one process. All computation is queued on one stream, in the order of the plan. Copies of batches ahead of
 * time and communications have their own streams, synchronized with it by events. */
#include "runtime/cuda/cuda.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/errors.h"

static bool open_streams(CudaContext *cuda, Error *error) {
    int least, greatest;
    /* Communications have priority, because other ranks wait for them. */
    return cuda_ok(cuda, cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities", error) &&
           cuda_ok(cuda, cudaStreamCreateWithPriority(&cuda->compute, cudaStreamNonBlocking, least), "making a stream", error) &&
           cuda_ok(cuda, cudaStreamCreateWithPriority(&cuda->copies, cudaStreamNonBlocking, least), "making a stream", error) &&
           cuda_ok(cuda, cudaStreamCreateWithPriority(&cuda->comm, cudaStreamNonBlocking, greatest), "making a stream", error) &&
           cuda_ok(cuda, cudaEventCreateWithFlags(&cuda->consumed, cudaEventDisableTiming), "making an event", error) &&
           cuda_ok(cuda, cudaEventCreateWithFlags(&cuda->copied, cudaEventDisableTiming), "making an event", error) &&
           cuda_ok(cuda, cudaEventCreateWithFlags(&cuda->joined, cudaEventDisableTiming), "making an event", error) &&
           cuda_ok(cuda, cudaEventCreateWithFlags(&cuda->ended[0], cudaEventDisableTiming), "making an event", error) &&
           cuda_ok(cuda, cudaEventCreateWithFlags(&cuda->ended[1], cudaEventDisableTiming), "making an event", error);
}

static bool open_memory(CudaContext *cuda, Error *error) {
    void *small = NULL;
    bool ok = cuda_take_workspace(cuda, &cuda->scratch, SCRATCH_BYTES, "taking memory for reductions", error) &&
              cuda_ok(cuda, cudaMemsetAsync(cuda->scratch, 0, SCRATCH_BYTES, cuda->compute), "clearing memory for reductions", error) &&
              cuda_ok(cuda, cudaMallocHost(&small, NSMALL * SMALL_BYTES), "taking page-locked memory", error);
    cuda->small = small;
    return ok;
}

bool cuda_take_workspace(CudaContext *cuda, void **memory, int64_t bytes, const char *what, Error *error) {
    cuda->taken_bytes += bytes;
    return cuda_ok(cuda, cudaMalloc(memory, (size_t)bytes), what, error);
}

int cuda_try_memory(CudaContext *cuda, void **memory, int64_t bytes, const char *what, Error *error) {
    *memory = NULL;
    const cudaError_t status = cudaMalloc(memory, (size_t)bytes);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* clears it: not a lasting failure */
        return 0;
    }
    return cuda_ok(cuda, status, what, error) ? 1 : -1;
}

bool cuda_open(void **context, const DeviceOptions *options, Error *error) {
    CudaContext *cuda = calloc(1, sizeof *cuda);
    struct cudaDeviceProp properties;
    int n = 0;
    *context = cuda;
    if (!cuda) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    cuda->options = *options;
    bool ok = cuda_ok(cuda, cudaGetDeviceCount(&n), "looking for devices", error);
    if (ok && n == 0) ok = error_set(error, EXIT_ENVIRONMENT, "there is no CUDA device");
    if (ok) cuda->device = options->local_rank % n;
    ok = ok && cuda_ok(cuda, cudaSetDevice(cuda->device), "choosing the device", error) &&
         cuda_ok(cuda, cudaGetDeviceProperties(&properties, cuda->device), "asking for the device's properties", error);
    if (ok) {
        snprintf(cuda->name, sizeof cuda->name, "%s", properties.name);
        ok = properties.major >= MIN_MAJOR;
        if (!ok)
            error_set(error, EXIT_ENVIRONMENT,
                      "device %d (%s) has compute capability %d.%d, and the kernels are built for %d.0 and newer: run with --device cpu",
                      cuda->device, cuda->name, properties.major, properties.minor, MIN_MAJOR);
    }
    return ok && open_streams(cuda, error) && open_memory(cuda, error) && matmul_open(cuda, error) && pitch_open(cuda, error);
}

void cuda_close(void *context) {
    CudaContext *cuda = context;
    if (!cuda) return;
    cudaDeviceSynchronize(); /* failures have been reported already */
    matmul_close(cuda->matmul);
    attention_close(cuda);
    pitch_close(cuda);
    cudnn_close(cuda);
    for (int i = 0; i < cuda->nevents; i++)
        cudaEventDestroy(cuda->marks[i]);
    if (cuda->scratch) cudaFree(cuda->scratch);
    if (cuda->small) cudaFreeHost(cuda->small);
    cudaEvent_t events[] = {cuda->consumed, cuda->copied, cuda->joined, cuda->ended[0], cuda->ended[1]};
    for (int i = 0; i < 5; i++)
        if (events[i]) cudaEventDestroy(events[i]);
    cudaStream_t streams[] = {cuda->compute, cuda->copies, cuda->comm};
    for (int i = 0; i < 3; i++)
        if (streams[i]) cudaStreamDestroy(streams[i]);
    free(cuda->marks);
    free(cuda);
}

/* ---------------------------------------------------------------- errors */

/* Out of memory: says what the plan needs, and what there is. */
static bool fail_memory(const CudaContext *cuda, const char *what, Error *error) {
    const double mib = 1 << 20;
    char needs[96] = "", others[64] = "";
    size_t available = 0, total = 0;
    int n = 1;
    cudaGetLastError(); /* running out of memory is no lasting failure */
    if (cudaMemGetInfo(&available, &total) != cudaSuccess || cudaGetDeviceCount(&n) != cudaSuccess) cudaGetLastError();
    if (cuda->options.plan_bytes > 0) snprintf(needs, sizeof needs, "the plan's tensors need %.1f MiB, ", cuda->options.plan_bytes / mib);
    if (cuda->options.nlocal > n)
        snprintf(others, sizeof others, ", which %d processes share,", (cuda->options.nlocal + n - 1 - cuda->device % n) / n);
    return error_set(error, EXIT_ENVIRONMENT, "device %d (%s)%s is out of memory, %s: %s%.1f of %.1f MiB are free%s", cuda->device,
                     cuda->name, others, what, needs, (double)available / mib, (double)total / mib,
                     cuda_advice(cudaErrorMemoryAllocation, false));
}

bool cuda_ok(const CudaContext *cuda, cudaError_t status, const char *what, Error *error) {
    if (status == cudaSuccess) return true;
    if (status == cudaErrorMemoryAllocation && cuda) return fail_memory(cuda, what, error);
    char place[64] = "";
    if (cuda) snprintf(place, sizeof place, "device %d: ", cuda->device);
    cudaGetLastError(); /* else the next launch would report it as its own */
    return error_set(error, EXIT_ENVIRONMENT, "%s%s: CUDA says %s (%s)%s", place, what, cudaGetErrorName(status),
                     cudaGetErrorString(status), cuda_advice((int)status, cuda && cuda->options.wait));
}

/* After waiting: whether what was queued has succeeded. The device does not tell which part has failed. */
static bool done_ok(const CudaContext *cuda, cudaError_t status, const char *what, Error *error) {
    if (cuda_ok(cuda, status, what, error)) return true;
    const char *hint = cuda->options.wait || cuda_failed_kernel((int)status) ? "" : "; run with --sync to learn which operator";
    Error failure = *error;
    return error_set(error, failure.code, "%.900s%s", failure.text, hint);
}

enum { ASK_EVERY = 64, SPINS = 4096 };

/* Waits for a stream, or for an event if given. */
static bool wait_for(CudaContext *cuda, cudaStream_t stream, cudaEvent_t event, const char *what, Error *error) {
    if (!cuda->watch) return done_ok(cuda, event ? cudaEventSynchronize(event) : cudaStreamSynchronize(stream), what, error);
    double start = 0;
    for (int64_t turn = 0;; turn++) {
        cudaError_t status = event ? cudaEventQuery(event) : cudaStreamQuery(stream);
        if (status != cudaErrorNotReady) return done_ok(cuda, status, what, error);
        cudaGetLastError(); /* no failure */
        double now = turn % ASK_EVERY == 0 ? now_seconds() : 0;
        if (turn == 0) start = now;
        if (turn % ASK_EVERY == 0 && !cuda->watch(cuda->watcher, now - start, error)) return false;
        if (turn > SPINS) sched_yield();
    }
}

bool cuda_wait(CudaContext *cuda, cudaStream_t stream, const char *what, Error *error) {
    return wait_for(cuda, stream, NULL, what, error);
}

void cuda_idle(CudaContext *cuda) {
    const cudaStream_t streams[] = {cuda->comm, cuda->compute, cuda->copies};
    Error error = {0};
    for (int i = 0; i < 3 && cuda->watch && !cuda->capturing; i++)
        if (!cuda_wait(cuda, streams[i], "waiting for what is queued", &error) && cudaStreamQuery(streams[i]) == cudaErrorNotReady)
            cuda->give_up(cuda->watcher, &error);
    cudaGetLastError();
}

bool cuda_launched(CudaContext *cuda, cudaError_t status, const char *kernel, Error *error) {
    char what[96];
    if (status == cudaSuccess && (!cuda->options.wait || cuda->capturing)) return true;
    snprintf(what, sizeof what, "kernel %s", kernel);
    return cuda_ok(cuda, status, what, error) && cuda_wait(cuda, cuda->compute, what, error);
}

/* ---------------------------------------------------------------- memory */

static void *cuda_alloc(void *context, int64_t bytes, Error *error) {
    CudaContext *cuda = context;
    void *data = NULL;
    cudaError_t status = cudaMalloc(&data, bytes > 0 ? (size_t)bytes : 1);
    if (status == cudaSuccess) {
        cuda->taken_bytes += bytes;
        return data;
    }
    char what[96];
    snprintf(what, sizeof what, "taking %.1f MiB for a tensor or arena", (double)bytes / (1 << 20));
    cuda_ok(cuda, status, what, error);
    return NULL;
}

static void cuda_free(void *context, void *data) {
    if (!data) return;
    if (context) cuda_idle(context);
    cudaFree(data);
}

static void *cuda_alloc_host(void *context, int64_t bytes, Error *error) {
    void *data = NULL;
    cudaError_t status = cudaMallocHost(&data, bytes > 0 ? (size_t)bytes : 1);
    if (status == cudaErrorMemoryAllocation) { /* not the device's */
        cudaGetLastError();
        error_set(error, EXIT_ENVIRONMENT,
                  "no page-locked memory of the host for a batch of %.1f MiB: is it used up, or limited (ulimit -l)?",
                  (double)bytes / (1 << 20));
        return NULL;
    }
    return cuda_ok(context, status, "taking page-locked memory for a batch", error) ? data : NULL;
}

static void cuda_free_host(void *context, void *data) {
    (void)context;
    cudaFreeHost(data);
}

static bool cuda_memory(void *context, int64_t *taken_bytes, int64_t *free_bytes, int64_t *total_bytes, Error *error) {
    const CudaContext *cuda = context;
    size_t available = 0, total = 0;
    *taken_bytes = cuda->taken_bytes;
    if (!cuda_ok(context, cudaMemGetInfo(&available, &total), "asking for free memory", error)) return false;
    *free_bytes = (int64_t)available;
    *total_bytes = (int64_t)total;
    return true;
}

/* ---------------------------------------------------------------- copies */

static bool cuda_sync(void *context, Error *error) {
    CudaContext *cuda = context;
    return cuda_wait(cuda, cuda->comm, "waiting for communications", error) &&
           cuda_wait(cuda, cuda->compute, "waiting for kernels", error) && cuda_wait(cuda, cuda->copies, "waiting for copies", error);
}

/* Uploads a few bytes through a page-locked slot; slots are used in turn, and after the last one the stream is waited for. */
static bool upload_small(CudaContext *cuda, void *to, const void *from, size_t bytes, Error *error) {
    if (cuda->next_small == NSMALL) {
        if (!cuda_wait(cuda, cuda->compute, "waiting for uploads", error)) return false;
        cuda->next_small = 0;
    }
    char *slot = cuda->small + cuda->next_small++ * SMALL_BYTES;
    memcpy(slot, from, bytes);
    return cuda_ok(cuda, cudaMemcpyAsync(to, slot, bytes, cudaMemcpyHostToDevice, cuda->compute), "copying to the device", error);
}

static bool cuda_upload(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    CudaContext *cuda = context;
    if (bytes <= 0) return true;
    if (bytes <= SMALL_BYTES) return upload_small(cuda, to, from, (size_t)bytes, error);
    /* CUDA waits for the stream before it copies pageable memory, without watching the other ranks. */
    if (cuda->watch && !cuda_wait(cuda, cuda->compute, "copying to the device", error)) return false;
    return cuda_ok(cuda, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, cuda->compute), "copying to the device", error) &&
           cuda_wait(cuda, cuda->compute, "copying to the device", error);
}

static bool cuda_download(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    CudaContext *cuda = context;
    if (bytes <= 0) return true;
    if (cuda->watch && !cuda_wait(cuda, cuda->compute, "copying from the device", error)) return false; /* see above */
    return cuda_ok(cuda, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, cuda->compute), "copying from the device",
                   error) &&
           cuda_wait(cuda, cuda->compute, "copying from the device", error);
}

static bool cuda_copy(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    CudaContext *cuda = context;
    if (bytes <= 0) return true;
    return cuda_ok(cuda, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, cuda->compute), "copying on the device", error);
}

static bool cuda_taken(void *context, Error *error) {
    CudaContext *cuda = context;
    return cuda_ok(cuda, cudaEventRecord(cuda->consumed, cuda->compute), "ordering copies", error) &&
           cuda_ok(cuda, cudaStreamWaitEvent(cuda->copies, cuda->consumed, 0), "ordering copies", error);
}

static bool cuda_stage(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    CudaContext *cuda = context;
    if (bytes <= 0) return true;
    return cuda_ok(cuda, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, cuda->copies), "copying a batch to the device",
                   error) &&
           cuda_ok(cuda, cudaEventRecord(cuda->copied, cuda->copies), "ordering copies", error);
}

static bool cuda_staged(void *context, Error *error) {
    CudaContext *cuda = context;
    return cuda_ok(cuda, cudaStreamWaitEvent(cuda->compute, cuda->copied, 0), "ordering copies", error);
}

static bool cuda_pace(void *context, Error *error) {
    CudaContext *cuda = context;
    if (!cuda_ok(cuda, cudaEventRecord(cuda->ended[cuda->turn], cuda->compute), "marking the end of a step", error)) return false;
    cuda->turn = !cuda->turn;
    return wait_for(cuda, cuda->compute, cuda->ended[cuda->turn], "waiting for kernels", error) &&
           wait_for(cuda, cuda->copies, cuda->copied, "waiting for copies", error);
}

static void cuda_describe(void *context, char *text, size_t n) {
    const CudaContext *cuda = context;
    snprintf(text, n, "device %d, %s", cuda->device, cuda->name);
}

static void cuda_libraries(void *context, Text *text) {
    cudnn_say(context, text);
}

const DeviceQueue cuda_queue = {
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .stage = cuda_stage,
    .staged = cuda_staged,
    .taken = cuda_taken,
    .uniform = cuda_uniform,
    .pace = cuda_pace,
    .fuse = cuda_take,
    .settle = cuda_settle,
    .run = cuda_run_fused,
    .unfuse = cuda_unfuse,
    .capture = cuda_capture,
    .captured = cuda_captured,
    .replay = cuda_replay,
    .discard = cuda_discard,
    .mark = cuda_mark,
    .between = cuda_between,
    .unmark = cuda_unmark,
    .range_begin = cuda_range_begin,
    .range_end = cuda_range_end,
    .comm = cuda_comm,
    .memory = cuda_memory,
    .describe = cuda_describe,
    .libraries = cuda_libraries,
};

const Backend cuda_backend = {
    .name = "cuda",
    .host = false,
    .queue = &cuda_queue,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .sync = cuda_sync,
    .kernels = cuda_kernels,
    .prepare = cuda_prepare,
    .fuse = cuda_fuse,
    .run = cuda_run_fused,
    .unfuse = cuda_unfuse,
};
