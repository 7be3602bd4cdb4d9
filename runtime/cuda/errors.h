/* errors: what to try when a call of CUDA's fails. No CUDA here: it is tested without. */
#pragma once

/* "; the driver is older than ..", or "" where there is nothing to try. status: cudaError_t's number. */
const char *cuda_advice(int status);
