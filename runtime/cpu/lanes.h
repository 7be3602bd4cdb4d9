/* lanes: what loops over contiguous rows share. They work in LANES parts, independent of the width of vectors. */
#pragma once
#include <stdint.h>

enum { LANES = 16 };

/* Reduces all lanes to lane 0: repeatedly combines element l of the first half with element l + half. */
#define FOLD_LANES(...)                                                                                                                    \
    FOLD_HALF(8, __VA_ARGS__)                                                                                                              \
    FOLD_HALF(4, __VA_ARGS__)                                                                                                              \
    FOLD_HALF(2, __VA_ARGS__)                                                                                                              \
    FOLD_HALF(1, __VA_ARGS__)
#define FOLD_HALF(count, ...)                                                                                                              \
    for (int l = 0, half = count; l < count; l++)                                                                                          \
        __VA_ARGS__;

/* The largest of n elements and `least`. */
#define TOP_OF_ROW(T, x, n, least, top)                                                                                                    \
    {                                                                                                                                      \
        T lane[LANES];                                                                                                                     \
        int64_t first = 0;                                                                                                                 \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            lane[l] = (T)(least);                                                                                                          \
        for (; first + LANES <= (n); first += LANES) {                                                                                     \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) lane[l] = (x)[first + l] > lane[l] ? (x)[first + l] : lane[l];             \
        }                                                                                                                                  \
        for (; first < (n); first++)                                                                                                       \
            lane[0] = (x)[first] > lane[0] ? (x)[first] : lane[0];                                                                         \
        FOLD_LANES(lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l])                                                          \
        (top) = lane[0];                                                                                                                   \
    }
