/* errors: advice for failed CUDA calls. Does not use CUDA, so that it can be tested without. */
#pragma once

#include <stdbool.h>

/* Whether the status is the failure of a kernel, which any later call may report. */
bool cuda_failed_kernel(int status);
/* "; the driver is older than ..", or "" if there is no advice. status: cudaError_t's number; waited: every kernel is waited for, so that the failing one
 * is named already. */
const char *cuda_advice(int status, bool waited);
