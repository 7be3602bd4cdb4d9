/* pixels: see pixels.h. */
#include "runtime/data/pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool pixels_size(Pixels *pixels, int64_t height, int64_t width) {
    const size_t bytes = (size_t)height * (size_t)width * PIXEL_CHANNELS;
    if (bytes > pixels->room) {
        unsigned char *at = realloc(pixels->at, bytes);
        if (!at) return false;
        pixels->at = at;
        pixels->room = bytes;
    }
    pixels->height = height;
    pixels->width = width;
    return true;
}

void pixels_finish(Pixels *pixels) {
    free(pixels->at);
    *pixels = (Pixels){0};
}

bool pixels_cut(const Pixels *from, int64_t top, int64_t left, int64_t height, int64_t width, bool flip, Pixels *to) {
    if (!pixels_size(to, height, width)) return false;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            const int64_t row = top + y, column = left + (flip ? width - 1 - x : x);
            unsigned char *at = to->at + (y * width + x) * PIXEL_CHANNELS;
            if (row >= 0 && row < from->height && column >= 0 && column < from->width)
                memcpy(at, from->at + (row * from->width + column) * PIXEL_CHANNELS, PIXEL_CHANNELS);
            else
                memset(at, 0, PIXEL_CHANNELS);
        }
    return true;
}

/* ---------------------------------------------------------------- resizing */

enum { WEIGHT_BITS = 22 }; /* of the fixed-point weights */

/* For each new pixel along a line, the old pixels it is made of, and their weights, room for `most` each. */
typedef struct Weights {
    int64_t most;
    int64_t *begin, *n;
    int32_t *weight;
} Weights;

static void weights_finish(Weights *weights) {
    free(weights->begin);
    free(weights->n);
    free(weights->weight);
}

static bool weights_make(Weights *weights, int64_t from, int64_t to) {
    const double scale = (double)from / (double)to, wide = scale < 1 ? 1 : scale;
    weights->most = (int64_t)ceil(wide) * 2 + 1;
    weights->begin = malloc((size_t)to * sizeof *weights->begin);
    weights->n = malloc((size_t)to * sizeof *weights->n);
    weights->weight = malloc((size_t)(to * weights->most) * sizeof *weights->weight);
    double *share = malloc((size_t)weights->most * sizeof *share);
    const bool ok = weights->begin && weights->n && weights->weight && share;
    for (int64_t i = 0; ok && i < to; i++) {
        const double centre = ((double)i + 0.5) * scale;
        int64_t begin = (int64_t)(centre - wide + 0.5), end = (int64_t)(centre + wide + 0.5);
        double sum = 0;
        if (begin < 0) begin = 0;
        if (end > from) end = from;
        for (int64_t k = begin; k < end; k++) {
            const double far = fabs(((double)k - centre + 0.5) * (1 / wide));
            sum += share[k - begin] = far < 1 ? 1 - far : 0;
        }
        for (int64_t k = begin; k < end; k++)
            weights->weight[i * weights->most + k - begin] =
                (int32_t)(0.5 + (sum != 0 ? share[k - begin] / sum : share[k - begin]) * (1 << WEIGHT_BITS));
        weights->begin[i] = begin;
        weights->n[i] = end - begin;
    }
    free(share);
    return ok;
}

/* One new pixel from n old ones, which lie `step` bytes apart. */
static void blend(const unsigned char *from, int64_t step, const int32_t *weight, int64_t n, unsigned char *to) {
    int32_t sum[PIXEL_CHANNELS] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1)};
    for (int64_t k = 0; k < n; k++, from += step)
        for (int c = 0; c < PIXEL_CHANNELS; c++)
            sum[c] += from[c] * weight[k];
    for (int c = 0; c < PIXEL_CHANNELS; c++) {
        const int32_t value = sum[c] >> WEIGHT_BITS;
        to[c] = (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

/* Columns first, then rows, each rounded to bytes. */
bool pixels_resize(const Pixels *from, int64_t height, int64_t width, Pixels *to) {
    Pixels wide = {0};
    Weights across = {0}, down = {0};
    bool ok = weights_make(&across, from->width, width) && weights_make(&down, from->height, height) &&
              pixels_size(&wide, from->height, width) && pixels_size(to, height, width);
    for (int64_t y = 0; ok && y < from->height; y++)
        for (int64_t x = 0; x < width; x++)
            blend(from->at + (y * from->width + across.begin[x]) * PIXEL_CHANNELS, PIXEL_CHANNELS, across.weight + x * across.most,
                  across.n[x], wide.at + (y * width + x) * PIXEL_CHANNELS);
    for (int64_t y = 0; ok && y < height; y++)
        for (int64_t x = 0; x < width; x++)
            blend(wide.at + (down.begin[y] * width + x) * PIXEL_CHANNELS, width * PIXEL_CHANNELS, down.weight + y * down.most, down.n[y],
                  to->at + (y * width + x) * PIXEL_CHANNELS);
    weights_finish(&across);
    weights_finish(&down);
    pixels_finish(&wide);
    return ok;
}
