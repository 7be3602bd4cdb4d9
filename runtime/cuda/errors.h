/* errors: what to try when a call of CUDA's fails. No CUDA here: it is tested without. */
#pragma once

#include <stdbool.h>

/* Whether the status is a kernel's failure, which any later call may report. */
bool cuda_failed_kernel(int status);
/* "; the driver is older than ..", or "" where there is nothing to try. status: cudaError_t's number; waited: every kernel is waited for, so that the failing one
 * is named. */
const char *cuda_advice(int status, bool waited);
