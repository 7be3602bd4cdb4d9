/* kernels: what kernels.cu offers to the host halves, in C. Each function queues launches on a stream and returns cudaGetLastError()'s word for it. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* elementwise.cuh, chain.cuh */

/* update.cuh */

/* reduce.cuh */

/* rows.cuh */

/* move.cuh */

/* index.cuh */

/* pull.cuh: what communicators move and add up */

#ifdef __cplusplus
}
#endif
