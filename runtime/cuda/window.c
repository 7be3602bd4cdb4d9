/* window: conv2d, the pools and their gradients: arguments for window.cuh, or for cuDNN. */
#include "runtime/window.h"

#include "runtime/cuda/cudnn.h"

void windows_of(const KernelCall *call, WindowsKind kind, KernelWindows *run) {
    PlanesOf of;
    planes_of(call, &of);
    const bool average = kind == WINDOWS_AVERAGE || kind == WINDOWS_AVERAGE_BACK;
    *run = (KernelWindows){.planes = of.planes,
                           .kind = kind,
                           .dtype = (int)call->out[0].dtype,
                           .with_padding = average && average_with_padding(call),
                           .divisor = average ? average_divisor(call) : 0,
                           .n = shape_elements(&call->out[0].local),
                           .out = call->out[0].data,
                           .a = call->in[0].data,
                           .b = call->nin > 1 ? call->in[1].data : NULL};
}

static bool windows(const KernelCall *call, WindowsKind kind, Error *error) {
    CudaContext *cuda = call->context;
    KernelWindows run;
    bool done = false;
    windows_of(call, kind, &run);
    if (kind <= WINDOWS_CONV_W && !cudnn_convolve(cuda, &run, &done, error)) return false;
    return done || cuda_launched(cuda, kernels_windows(&run, cuda->scratch, SCRATCH_BYTES, cuda->compute), op_table[call->op].name, error);
}

bool kernel_conv2d(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_CONV, error);
}

bool kernel_conv2d_grad_x(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_CONV_X, error);
}

bool kernel_conv2d_grad_w(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_CONV_W, error);
}

bool kernel_max_pool(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_MAX, error);
}

bool kernel_max_pool_grad(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_MAX_BACK, error);
}

bool kernel_avg_pool(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_AVERAGE, error);
}

bool kernel_avg_pool_grad(const KernelCall *call, Error *error) {
    return windows(call, WINDOWS_AVERAGE_BACK, error);
}
