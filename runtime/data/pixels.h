/* pixels: pictures in memory: decoded from PNG and JPEG, resized, cropped. */
#pragma once
#include "ir/base.h"

enum { PIXEL_CHANNELS = 3, MAX_PIXELS = 1 << 26 };
/* Red, green and blue of each pixel, row after row, a byte each. */
typedef struct Pixels {
    int64_t height, width;
    unsigned char *at;
    size_t room; /* bytes of at, which grows */
} Pixels;
bool pixels_size(Pixels *pixels, int64_t height, int64_t width); /* leaves its elements undefined; false: no memory */
void pixels_finish(Pixels *pixels);
/* Decodes a file's bytes: grey is repeated for all channels, transparency is dropped. False, and why in *error (EXIT_ENVIRONMENT, with the path). */
bool pixels_decode(Pixels *pixels, const char *path, const unsigned char *bytes, size_t n, Error *error);
/* Resizes, bilinear; a smaller picture averages over all pixels that a new one covers: digit for digit as Pillow's Image.resize(.., BILINEAR). */
bool pixels_resize(const Pixels *from, int64_t height, int64_t width, Pixels *to);
/* Crops a part, which may reach beyond the picture and is black there; flip: left and right are swapped. */
bool pixels_cut(const Pixels *from, int64_t top, int64_t left, int64_t height, int64_t width, bool flip, Pixels *to);
