/* square: transposes squares of SQUARE by SQUARE elements in registers. */
#pragma once
#include <stdint.h>
#include <string.h>

enum { SQUARE = 4 };

/* Element c of row from[r] becomes element r of row to[c]. */
#define TURN_SQUARE(bits)                                                                                                                  \
    typedef uint##bits##_t Row_##bits __attribute__((vector_size(SQUARE * bits / 8)));                                                     \
    static inline void turn_square_##bits(const uint##bits##_t *const *from, uint##bits##_t *const *to) {                                  \
        for (int r = 0; r < SQUARE && bits == 64; r++)                                                                                     \
            for (int c = 0; c < SQUARE; c++)                                                                                               \
                to[c][r] = from[r][c];                                                                                                     \
        if (bits == 64) return;                                                                                                            \
        Row_##bits a[SQUARE], b[SQUARE];                                                                                                   \
        for (int l = 0; l < SQUARE; l++)                                                                                                   \
            memcpy(&a[l], from[l], sizeof a[l]);                                                                                           \
        b[0] = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);                                                                            \
        b[1] = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);                                                                            \
        b[2] = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);                                                                            \
        b[3] = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);                                                                            \
        a[0] = __builtin_shufflevector(b[0], b[2], 0, 1, 4, 5);                                                                            \
        a[1] = __builtin_shufflevector(b[0], b[2], 2, 3, 6, 7);                                                                            \
        a[2] = __builtin_shufflevector(b[1], b[3], 0, 1, 4, 5);                                                                            \
        a[3] = __builtin_shufflevector(b[1], b[3], 2, 3, 6, 7);                                                                            \
        for (int l = 0; l < SQUARE; l++)                                                                                                   \
            memcpy(to[l], &a[l], sizeof a[l]);                                                                                             \
    }
