/* PNG and JPEG: what is accepted has all its pixels, and can be cut and brought to another size. */
#include "runtime/data/pixels.h"
#include "tests/fuzz/file.h"

#include <string.h>

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    static const char path[] = "fuzz-file";
    Pixels pixels = {0}, part = {0}, small = {0};
    Error error = {0};
    const bool ok = pixels_decode(&pixels, path, bytes, n, &error);
    uint64_t sum = 0;
    if (!ok) require_error(&error, path);
    require(!ok || (pixels.height > 0 && pixels.width > 0 && pixels.height * pixels.width <= MAX_PIXELS),
            "a picture of another size than allowed");
    if (ok && pixels.height * pixels.width <= 1 << 16) {
        for (int64_t i = 0; i < pixels.height * pixels.width * PIXEL_CHANNELS; i++)
            sum += pixels.at[i]; /* all of them are there */
        require(sum <= (uint64_t)(255 * PIXEL_CHANNELS) << 16, "summed");
        require(pixels_cut(&pixels, -1, -2, 3, 4, true, &part) && pixels_resize(&pixels, 5, 7, &small), "it cannot be cut and resized");
        require(small.height == 5 && small.width == 7 && part.height == 3, "another size than asked for");
    }
    pixels_finish(&pixels);
    pixels_finish(&part);
    pixels_finish(&small);
    return ok ? ACCEPTED : REFUSED;
}
