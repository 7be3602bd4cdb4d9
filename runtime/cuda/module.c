/* module: the symbol that prun looks up, and the list of devices. */
#include "runtime/cuda/cuda.h"
#include "runtime/abi.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/errors.h"

static int count_all(char *why, size_t n) {
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return count;
    cudaGetLastError();
    int driver = 0;
    bool missing = status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    if (missing)
        snprintf(why, n, "there is no CUDA driver; in a container, was it started with its GPUs?");
    else if (status == cudaSuccess || status == cudaErrorNoDevice)
        snprintf(why, n, "there is no CUDA device%s", cuda_advice(cudaErrorNoDevice, false));
    else
        snprintf(why, n, "%s%s", cudaGetErrorString(status), cuda_advice((int)status, false));
    return 0;
}

int cuda_count(char *why, size_t n) {
    int count = count_all(why, n), usable = 0;
    struct cudaDeviceProp properties;
    for (int d = 0; d < count; d++) {
        cudaError_t status = cudaGetDeviceProperties(&properties, d);
        if (status != cudaSuccess)
            snprintf(why, n, "device %d: %s%s", d, cudaGetErrorString(cudaGetLastError()), cuda_advice((int)status, false));
        else if (properties.major < MIN_MAJOR)
            snprintf(why, n, "device %d (%.200s) has compute capability %d.%d, and the kernels are built for %d.0 and newer", d,
                     properties.name, properties.major, properties.minor, MIN_MAJOR);
        else
            usable++;
    }
    return usable;
}

/* ---------------------------------------------------------------- --devices */

static void list_versions(Text *text) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    text_printf(text, "CUDA %d.%d, driver for CUDA %d.%d\n", runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
}

static bool list_device(Text *text, int device, Error *error) {
    struct cudaDeviceProp properties;
    size_t available = 0, total = 0;
    if (!cuda_ok(NULL, cudaGetDeviceProperties(&properties, device), "asking for a device's properties", error)) return false;
    bool busy = cudaSetDevice(device) != cudaSuccess || cudaMemGetInfo(&available, &total) != cudaSuccess;
    text_printf(text, "device %d: %s, compute capability %d.%d, %d multiprocessors, ", device, properties.name, properties.major,
                properties.minor, properties.multiProcessorCount);
    if (busy)
        text_printf(text, "cannot be used (%s)\n", cudaGetErrorString(cudaGetLastError()));
    else
        text_printf(text, "%.1f of %.1f GiB free%s\n", (double)available / (1 << 30), (double)total / (1 << 30),
                    properties.major < MIN_MAJOR ? ", too old for the kernels" : "");
    return true;
}

/* Lists which devices can access each other's memory, one row for each device. */
static void list_peers(Text *text, int n) {
    if (n < 2) {
        text_printf(text, "peer access: one device\n");
        return;
    }
    int pairs = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            int can = 0;
            if (a != b && cudaDeviceCanAccessPeer(&can, a, b) == cudaSuccess) pairs += can;
        }
    text_printf(text, "peer access: %s\n",
                pairs == n * (n - 1) ? "between all devices"
                : pairs == 0         ? "between none"
                                     : "between some devices");
}

/* Lists whether handles of memory can be made for other processes; whether these can map it, ranks find out when they start. */
static void list_ipc(Text *text) {
    void *data = NULL;
    cudaIpcMemHandle_t handle;
    cudaError_t status = cudaMalloc(&data, 1 << 21);
    if (status == cudaSuccess) status = cudaIpcGetMemHandle(&handle, data);
    if (data) cudaFree(data);
    text_printf(text, "IPC: %s\n", status == cudaSuccess ? "works" : cudaGetErrorString(status));
    cudaGetLastError();
}

bool cuda_list(Text *text, Error *error) {
    char why[512];
    int n = count_all(why, sizeof why);
    list_versions(text);
    if (n == 0) return error_set(error, EXIT_ENVIRONMENT, "%s", why);
    for (int d = 0; d < n; d++)
        if (!list_device(text, d, error)) return false;
    list_peers(text, n);
    list_ipc(text);
    comm_list(text);
    cudnn_list(text);
    return true;
}

const DeviceModule prun_device_module = {DEVICE_MODULE, device_abi, &cuda_backend, cuda_count, cuda_list};
