/* device: what the devices are, errors, profiling calls. Every process sees the same devices. */
#include <cstdio>
#include <cstring>

#include "cuda_profiler_api.h"
#include "engine.hpp"
#include "nvtx3/nvToolsExt.h"

using namespace standin;

enum { MULTIPROCESSORS = 4, BLOCKS_EACH = 16, THREADS_EACH = 2048 };

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = engine().broken;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define X(name, value, text) case name: return #name;
#include "cuda_errors.def"
#undef X
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define X(name, value, text) case name: return text;
#include "cuda_errors.def"
#undef X
    }
    return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *driverVersion) {
    Entry entry("cudaDriverGetVersion", Entry::FREE);
    if (entry.error) return entry(entry.error);
    if (!driverVersion) return entry(cudaErrorInvalidValue);
    *driverVersion = engine().settings.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion) {
    Entry entry("cudaRuntimeGetVersion", Entry::FREE);
    if (entry.error) return entry(entry.error);
    if (!runtimeVersion) return entry(cudaErrorInvalidValue);
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

static bool is_device(int device) { return device >= 0 && device < engine().settings.devices; }

cudaError_t cudaGetDeviceCount(int *count) {
    if (count) *count = 0;
    ENTER(entry, "cudaGetDeviceCount");
    if (!count) return entry(cudaErrorInvalidValue);
    *count = engine().settings.devices;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    ENTER(entry, "cudaGetDevice");
    if (!device) return entry(cudaErrorInvalidValue);
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    ENTER(entry, "cudaSetDevice");
    if (!is_device(device)) return entry(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
    ENTER(entry, "cudaInitDevice");
    (void)deviceFlags, (void)flags;
    return entry(is_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    ENTER(entry, "cudaSetDeviceFlags");
    return entry(flags > 0xff ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    ENTER(entry, "cudaGetDeviceProperties");
    if (!prop) return entry(cudaErrorInvalidValue);
    if (!is_device(device)) return entry(cudaErrorInvalidDevice);
    const Settings &s = engine().settings;
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "stand-in device");
    prop->uuid.bytes[15] = (char)device;
    prop->totalGlobalMem = s.memory_bytes;
    prop->sharedMemPerBlock = prop->sharedMemPerBlockOptin = 49152;
    prop->sharedMemPerMultiprocessor = 102400;
    prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024, prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 2147483647, prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->major = s.major, prop->minor = s.minor;
    prop->multiProcessorCount = MULTIPROCESSORS;
    prop->canMapHostMemory = prop->concurrentKernels = prop->unifiedAddressing = prop->streamPrioritiesSupported = prop->hostRegisterSupported = 1;
    prop->pciBusID = device + 1;
    prop->asyncEngineCount = 2;
    prop->memoryBusWidth = 5120;
    prop->l2CacheSize = 1 << 20;
    prop->maxThreadsPerMultiProcessor = THREADS_EACH;
    prop->maxBlocksPerMultiProcessor = BLOCKS_EACH;
    prop->ipcEventSupported = s.ipc;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    ENTER(entry, "cudaDeviceGetAttribute");
    if (!value) return entry(cudaErrorInvalidValue);
    if (!is_device(device)) return entry(cudaErrorInvalidDevice);
    const Settings &s = engine().settings;
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return *value = 1024, cudaSuccess;
    case cudaDevAttrMaxBlockDimZ: return *value = 64, cudaSuccess;
    case cudaDevAttrMaxGridDimX: return *value = 2147483647, cudaSuccess;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return *value = 65535, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return *value = 49152, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return *value = 102400, cudaSuccess;
    case cudaDevAttrWarpSize:
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return *value = attr == cudaDevAttrWarpSize ? 32 : 2, cudaSuccess;
    case cudaDevAttrMaxRegistersPerBlock: return *value = 65536, cudaSuccess;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate: return *value = 1000000, cudaSuccess;
    case cudaDevAttrMultiProcessorCount: return *value = MULTIPROCESSORS, cudaSuccess;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported: return *value = 1, cudaSuccess;
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported: return *value = 0, cudaSuccess;
    case cudaDevAttrPciBusId: return *value = device + 1, cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth: return *value = 5120, cudaSuccess;
    case cudaDevAttrL2CacheSize: return *value = 1 << 20, cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return *value = THREADS_EACH, cudaSuccess;
    case cudaDevAttrAsyncEngineCount: return *value = 2, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: return *value = s.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: return *value = s.minor, cudaSuccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return *value = BLOCKS_EACH, cudaSuccess;
    case cudaDevAttrIpcEventSupport: return *value = s.ipc, cudaSuccess;
    }
    return entry(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device) {
    ENTER(entry, "cudaDeviceGetPCIBusId");
    if (!pciBusId || len < 13) return entry(cudaErrorInvalidValue);
    if (!is_device(device)) return entry(cudaErrorInvalidDevice);
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId) {
    ENTER(entry, "cudaDeviceGetByPCIBusId");
    unsigned bus = 0;
    if (!device || !pciBusId || sscanf(pciBusId, "0000:%X:00.0", &bus) != 1) return entry(cudaErrorInvalidValue);
    if (!is_device((int)bus - 1)) return entry(cudaErrorInvalidDevice);
    *device = (int)bus - 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    ENTER(entry, "cudaDeviceGetStreamPriorityRange");
    if (leastPriority) *leastPriority = 0;
    if (greatestPriority) *greatestPriority = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice) {
    ENTER(entry, "cudaDeviceCanAccessPeer");
    if (!canAccessPeer) return entry(cudaErrorInvalidValue);
    if (!is_device(device) || !is_device(peerDevice)) return entry(cudaErrorInvalidDevice);
    *canAccessPeer = engine().settings.peer && device != peerDevice;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
    ENTER(entry, "cudaDeviceEnablePeerAccess");
    if (flags) return entry(cudaErrorInvalidValue);
    if (!is_device(peerDevice) || peerDevice == current_device) return entry(cudaErrorInvalidDevice);
    if (!engine().settings.peer) return entry(cudaErrorPeerAccessUnsupported);
    return entry(engine().peers.insert(current_device * 1024 + peerDevice).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
    ENTER(entry, "cudaDeviceDisablePeerAccess");
    if (!is_device(peerDevice)) return entry(cudaErrorInvalidDevice);
    return entry(engine().peers.erase(current_device * 1024 + peerDevice) ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

static cudaError_t synchronize(void) {
    if (capture_active()) return capture_spoil(), cudaErrorStreamCaptureUnsupported;
    for (const OpRef &mark : device_marks(current_device))
        if (cudaError_t error = finish(mark)) return error;
    return check_guards() ? cudaSuccess : engine().broken;
}

cudaError_t cudaDeviceSynchronize(void) {
    ENTER(entry, "cudaDeviceSynchronize");
    return entry(synchronize());
}

/* Waits, and frees nothing: whoever holds a handle may still destroy it. */
cudaError_t cudaDeviceReset(void) {
    ENTER(entry, "cudaDeviceReset");
    return entry(synchronize());
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize) {
    ENTER(entry, "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    if (!numBlocks || !func || blockSize < 1 || blockSize > 1024 || dynamicSMemSize > 49152) return entry(cudaErrorInvalidValue);
    *numBlocks = THREADS_EACH / blockSize < BLOCKS_EACH ? THREADS_EACH / blockSize : BLOCKS_EACH;
    return cudaSuccess;
}

cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

int nvtxRangePushA(const char *message) {
    (void)message;
    std::lock_guard<std::mutex> held(engine().lock);
    return engine().range_depth++;
}

int nvtxRangePop(void) {
    std::lock_guard<std::mutex> held(engine().lock);
    return engine().range_depth > 0 ? --engine().range_depth : NVTX_NO_PUSH_POP_TRACKING;
}

nvtxRangeId_t nvtxRangeStartA(const char *message) { return message ? 1 : 0; }
void nvtxRangeEnd(nvtxRangeId_t id) { (void)id; }
void nvtxMarkA(const char *message) { (void)message; }
nvtxDomainHandle_t nvtxDomainCreateA(const char *name) { return (void)name, nullptr; }
void nvtxDomainDestroy(nvtxDomainHandle_t domain) { (void)domain; }
void nvtxNameOsThreadA(uint32_t threadId, const char *name) { (void)threadId, (void)name; }
