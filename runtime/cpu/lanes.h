/* lanes: what loops over contiguous rows share. Of LANES parts, whatever vectors there are. */
#pragma once
#include <stdint.h>

enum { LANES = 16 };

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
        (top) = lane[0];                                                                                                                   \
        for (int l = 1; l < LANES; l++)                                                                                                    \
            (top) = lane[l] > (top) ? lane[l] : (top);                                                                                     \
    }
