/* cudnn: convolutions by cuDNN, where it is installed. The first convolution opens the library. The part of its convolution API that is used is declared here, as cuDNN 8 and 9
 * export it, so that its headers are not needed. */
#pragma once
#include "runtime/comm/comm.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

enum {
    CUDNN_SUCCESS = 0,
    CUDNN_FLOAT = 0,
    CUDNN_HALF = 2,
    CUDNN_BFLOAT16 = 9,
    CUDNN_NCHW = 0,
    CUDNN_CORRELATION = 1,
    CUDNN_IS_DETERMINISTIC = 1
};
enum { CUDNN_MATH_DEFAULT = 0, CUDNN_MATH_TENSOR = 1, CUDNN_MATH_FMA = 3 };

/* cudnnConvolutionFwdAlgoPerf_t; those of the gradients have the same members. */
typedef struct CudnnPerf {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
} CudnnPerf;

/* Finds algorithms for two operands and the result, given as descriptors in the order of cuDNN's function. */
typedef int CudnnFind(void *handle, const void *first, const void *second, const void *convolution, const void *result, int asked,
                      int *found, CudnnPerf *perf);
typedef int CudnnSize(void *handle, const void *first, const void *second, const void *convolution, const void *result, int algorithm,
                      size_t *bytes);
typedef int CudnnRun(void *handle, const void *alpha, const void *first, const void *first_data, const void *second,
                     const void *second_data, const void *convolution, int algorithm, void *workspace, size_t bytes, const void *beta,
                     const void *result, void *result_data);

/* Computes a convolution by cuDNN: *done; not *done: our own kernel must, as was chosen on all ranks. false: *error. */
bool cudnn_convolve(CudaContext *cuda, const KernelWindows *run, bool *done, Error *error);
/* Makes the call's shape known to cudnn_settle. */
void cudnn_prepare(const KernelCall *call);
/* Tries the algorithms for all known shapes, takes for each the choice of the first process that has it, if all can use it, and allocates the workspace. Collective. */
bool cudnn_settle(CudaContext *cuda, Comm *comm, Error *error);
void cudnn_close(CudaContext *cuda);
/* A line of --devices. */
void cudnn_list(Text *text);
/* For prun -v: how many of the prepared convolutions cuDNN computes; nothing if there are none. */
void cudnn_say(const CudaContext *cuda, Text *text);
/* window.c: the arguments of a call for the window kernels. */
void windows_of(const KernelCall *call, WindowsKind kind, KernelWindows *run);
