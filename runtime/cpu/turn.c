/* turn: planes, one after the other, and rows of channels, a row a place: the same numbers, turned. Squares of a few elements are turned in registers. */
#include <string.h>

#include "runtime/cpu/cpu.h"

enum { LINE = 16 }; /* places whose rows are written together */

#define LANES 4
#define TURN(suffix, T)                                                                                                                    \
    typedef T Lanes_##suffix __attribute__((vector_size(LANES * sizeof(T))));                                                              \
    static inline T *row_##suffix(const Turn *t, T *rows, int64_t p) {                                                                     \
        return rows + ((t->place ? t->place[p] : p) * t->images + t->n) * t->channels;                                                     \
    }                                                                                                                                      \
    static inline void turn_block_##suffix(T *const *from, T *const *to) {                                                                 \
        Lanes_##suffix a[LANES], b[LANES];                                                                                                 \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            memcpy(&a[l], from[l], sizeof a[l]);                                                                                           \
        b[0] = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);                                                                            \
        b[1] = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);                                                                            \
        b[2] = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);                                                                            \
        b[3] = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);                                                                            \
        a[0] = __builtin_shufflevector(b[0], b[2], 0, 1, 4, 5);                                                                            \
        a[1] = __builtin_shufflevector(b[0], b[2], 2, 3, 6, 7);                                                                            \
        a[2] = __builtin_shufflevector(b[1], b[3], 0, 1, 4, 5);                                                                            \
        a[3] = __builtin_shufflevector(b[1], b[3], 2, 3, 6, 7);                                                                            \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            memcpy(to[l], &a[l], sizeof a[l]);                                                                                             \
    }                                                                                                                                      \
    static void turn_##suffix(const Turn *t, T *planes, T *rows, bool back) {                                                              \
        for (int64_t line = 0; line < t->places; line += LINE) {                                                                           \
            const int64_t end = least(line + LINE, t->places), whole = line + (end - line) / LANES * LANES;                                \
            const int64_t channels = t->channels / LANES * LANES;                                                                          \
            T *row[LINE];                                                                                                                  \
            for (int64_t p = line; p < end; p++)                                                                                           \
                row[p - line] = row_##suffix(t, rows, p);                                                                                  \
            for (int64_t c = 0; c < channels; c += LANES)                                                                                  \
                for (int64_t p = line; p < whole; p += LANES) {                                                                            \
                    T *plane[LANES], *lane[LANES];                                                                                         \
                    for (int l = 0; l < LANES; l++) {                                                                                      \
                        plane[l] = planes + (c + l) * t->places + p;                                                                       \
                        lane[l] = row[p - line + l] + c;                                                                                   \
                    }                                                                                                                      \
                    turn_block_##suffix(back ? lane : plane, back ? plane : lane);                                                         \
                }                                                                                                                          \
            for (int64_t p = line; p < end; p++)                                                                                           \
                for (int64_t c = p < whole ? channels : 0; c < t->channels; c++)                                                           \
                    if (back)                                                                                                              \
                        planes[c * t->places + p] = row[p - line][c];                                                                      \
                    else                                                                                                                   \
                        row[p - line][c] = planes[c * t->places + p];                                                                      \
        }                                                                                                                                  \
    }
FOR_FLOATS(TURN)

void turn(DType dtype, const Turn *t, void *planes, void *rows, bool back) {
    const size_t row = (size_t)(t->channels * dtype_bytes[dtype]);
    char *at = (char *)rows + (size_t)t->n * row;
    if (t->places == 1)
        memcpy(back ? planes : at, back ? at : planes, row);
    else if (dtype == F32)
        turn_f32(t, planes, rows, back);
    else
        turn_f64(t, planes, rows, back);
}
