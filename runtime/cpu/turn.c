/* turn: transposes planes, one for each channel, to rows of channels, one for each place, and back. */
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/square.h"

enum { LINE = 16 }; /* places whose rows are written together */

#define TURN(bits)                                                                                                                         \
    TURN_SQUARE(bits)                                                                                                                      \
    static inline uint##bits##_t *row_##bits(const Turn *t, uint##bits##_t *rows, int64_t p) {                                             \
        return rows + ((t->place ? t->place[p] : p) * t->images + t->n) * t->channels;                                                     \
    }                                                                                                                                      \
    static inline                                                                                                                          \
        __attribute__((always_inline)) void turn_all_##bits(const Turn *t, uint##bits##_t *planes, uint##bits##_t *rows, bool back) {      \
        for (int64_t line = 0; line < t->places; line += LINE) {                                                                           \
            const int64_t end = least(line + LINE, t->places), whole = line + (end - line) / SQUARE * SQUARE;                              \
            const int64_t channels = t->channels / SQUARE * SQUARE;                                                                        \
            uint##bits##_t *row[LINE];                                                                                                     \
            for (int64_t p = line; p < end; p++)                                                                                           \
                row[p - line] = row_##bits(t, rows, p);                                                                                    \
            for (int64_t c = 0; c < channels; c += SQUARE)                                                                                 \
                for (int64_t p = line; p < whole; p += SQUARE) {                                                                           \
                    uint##bits##_t *plane[SQUARE], *lane[SQUARE];                                                                          \
                    for (int l = 0; l < SQUARE; l++) {                                                                                     \
                        plane[l] = planes + (c + l) * t->places + p;                                                                       \
                        lane[l] = row[p - line + l] + c;                                                                                   \
                    }                                                                                                                      \
                    turn_square_##bits((const uint##bits##_t *const *)(back ? lane : plane), back ? plane : lane);                         \
                }                                                                                                                          \
            for (int64_t p = line; p < end; p++)                                                                                           \
                for (int64_t c = p < whole ? channels : 0; c < t->channels; c++)                                                           \
                    if (back)                                                                                                              \
                        planes[c * t->places + p] = row[p - line][c];                                                                      \
                    else                                                                                                                   \
                        row[p - line][c] = planes[c * t->places + p];                                                                      \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void turn_##bits(const Turn *t, void *planes, void *rows, bool back) {                                                          \
        if (back)                                                                                                                          \
            turn_all_##bits(t, planes, rows, true);                                                                                        \
        else                                                                                                                               \
            turn_all_##bits(t, planes, rows, false);                                                                                       \
    }
TURN(32)
TURN(64)

void turn(DType dtype, const Turn *t, void *planes, void *rows, bool back) {
    const size_t row = (size_t)(t->channels * dtype_bytes[dtype]);
    char *at = (char *)rows + (size_t)t->n * row;
    if (t->places == 1)
        memcpy(back ? planes : at, back ? at : planes, row);
    else if (dtype == F32)
        turn_32(t, planes, rows, back);
    else
        turn_64(t, planes, rows, back);
}
