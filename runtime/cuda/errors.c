/* errors: see errors.h. The numbers are cudaError_t's, which never change. */
#include "runtime/cuda/errors.h"

bool cuda_failed_kernel(int status) {
    enum { ILLEGAL_ADDRESS = 700, LAUNCH_TIMEOUT = 702, MISALIGNED_ADDRESS = 716, LAUNCH_FAILURE = 719 };
    return status == ILLEGAL_ADDRESS || status == LAUNCH_TIMEOUT || status == MISALIGNED_ADDRESS || status == LAUNCH_FAILURE;
}

const char *cuda_advice(int status, bool waited) {
    switch (status) {
    case 2: /* cudaErrorMemoryAllocation */
        return "; use more devices, more ranks or a smaller batch, or end what else runs on the device";
    case 3:   /* cudaErrorInitializationError */
    case 999: /* cudaErrorUnknown */
        return "; does nvidia-smi work? in a container, was it started with its GPUs?";
    case 35: /* cudaErrorInsufficientDriver */
        return "; the driver is older than this CUDA: update it, or run with --device cpu";
    case 34: /* cudaErrorStubLibrary */
        return "; libcuda.so is the toolkit's stub: the driver's must come first in LD_LIBRARY_PATH";
    case 46: /* cudaErrorDevicesUnavailable */
        return "; another process has the device for itself (compute mode), or it is being reset";
    case 100: /* cudaErrorNoDevice */
        return "; is CUDA_VISIBLE_DEVICES empty?";
    case 101: /* cudaErrorInvalidDevice */
        return "; CUDA_VISIBLE_DEVICES names a device that is not there";
    case 209: /* cudaErrorNoKernelImageForDevice */
    case 222: /* cudaErrorUnsupportedPtxVersion */
        return "; the kernels are built for compute capability 8.0, 9.0 and newer ones by a driver as new as the toolkit";
    case 214: /* cudaErrorECCUncorrectable */
        return "; the device's memory is failing: see nvidia-smi -q -d ECC";
    case 304: /* cudaErrorOperatingSystem */
        return "; the system refuses it: limits of locked memory (ulimit -l), or /dev/shm too small?";
    default:
        if (!cuda_failed_kernel(status)) return "";
        return waited ? "; run with compute-sanitizer to learn where; please report it"
                      : "; run with --sync to learn which operator, and with compute-sanitizer to learn where; please report it";
    }
}
