/* element: single elements of tensors in ordinary memory. */
#pragma once
#include "ir/half.h"
#include "ir/layout.h"

/* Reads, writes element i of ordinary memory with elements of this type; value must be in its range. Exact except for i64 beyond 2^53. */
static inline double element_at(const void *data, DType dtype, int64_t i) {
    switch (dtype) {
    case F32:
        return ((const float *)data)[i];
    case F64:
        return ((const double *)data)[i];
    case I32:
        return ((const int32_t *)data)[i];
    case I64:
        return (double)((const int64_t *)data)[i];
    case BOOL:
        return ((const uint8_t *)data)[i];
    case F16:
        return f16_to_f32(((const uint16_t *)data)[i]);
    case BF16:
        return bf16_to_f32(((const uint16_t *)data)[i]);
    case NDTYPES:
        break;
    }
    return 0;
}
static inline void element_put(void *data, DType dtype, int64_t i, double value) {
    switch (dtype) {
    case F32:
        ((float *)data)[i] = (float)value;
        return;
    case F64:
        ((double *)data)[i] = value;
        return;
    case I32:
        ((int32_t *)data)[i] = (int32_t)value;
        return;
    case I64:
        ((int64_t *)data)[i] = (int64_t)value;
        return;
    case BOOL:
        ((uint8_t *)data)[i] = value != 0;
        return;
    case F16:
        ((uint16_t *)data)[i] = f16_of_f32((float)value);
        return;
    case BF16:
        ((uint16_t *)data)[i] = bf16_of_f32((float)value);
        return;
    case NDTYPES:
        return;
    }
}

/* Elements [first, first + n). */
static inline void elements_put(void *data, DType dtype, int64_t first, const double *values, int64_t n) {
    if (dtype == F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)data)[first + i] = (float)values[i];
    else
        for (int64_t i = 0; i < n; i++)
            element_put(data, dtype, first + i, values[i]);
}

/* ---------------------------------------------------------------- finite.c */

/* The first of n elements that is nan or infinite; -1: none, and always for integers. */
int64_t elements_first_bad(const void *data, DType dtype, int64_t n);
