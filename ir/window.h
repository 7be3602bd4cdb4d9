/* window: how conv2d and the pools read the last two dimensions of a tensor, its planes: result o of a dimension sees its elements
 * o * stride + k * dilation - low, one for each tap k; places outside are padding. Plain C that is also valid C++. */
#pragma once
#include <stdint.h>

/* Along one dimension. */
typedef struct Window {
    int64_t size; /* taps */
    int64_t stride, dilation;
    int64_t low; /* elements of padding before the first one */
} Window;

/* The elements from the first tap to the last. */
static inline int64_t window_extent(const Window *window) {
    return window->dilation * (window->size - 1) + 1;
}

/* Planes as kernels traverse them: x [images, groups * in_channels, in], y [images, groups * out_channels, out], and of conv2d the weight
 * [groups * out_channels, in_channels, taps]. A pool has a plane an image, and no channels. */
typedef struct Planes {
    int64_t images, groups, in_channels, out_channels; /* channels of one group */
    int64_t in[2], out[2];                             /* rows, columns: of x's box, of y's */
    Window window[2];                                  /* low: relative to element 0 of x's box, for result 0 of y's */
    int64_t before[2], after[2];                       /* elements of the whole plane before x's box, and after it */
    int64_t back[2], behind[2]; /* rows, columns of the box of max_pool's gradient; how far it begins after that of x, which has halos */
} Planes;

/* Where tap k of result o lies; outside [0, the dimension's size) it is padding. */
static inline int64_t window_place(const Window *window, int64_t o, int64_t k) {
    return o * window->stride + k * window->dilation - window->low;
}
