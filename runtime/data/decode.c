/* decode: PNG by libpng, JPEG by libjpeg-turbo. Both report failure by longjmp. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h */

#include "ir/graph.h"
#include "runtime/data/pixels.h"

/* What is being read, and where a failure goes. */
typedef struct Decoding {
    const unsigned char *bytes;
    size_t n, at;
    Pixels *pixels;
    jmp_buf failed;
    char why[JMSG_LENGTH_MAX];
} Decoding;

static bool takes_size(Decoding *decoding, uint64_t height, uint64_t width) {
    if (height == 0 || width == 0 || height > MAX_PICTURE_SIDE || width > MAX_PICTURE_SIDE || height * width > MAX_PIXELS)
        snprintf(decoding->why, sizeof decoding->why, "it says that it has %llu x %llu pixels", (unsigned long long)height,
                 (unsigned long long)width);
    else if (!pixels_size(decoding->pixels, (int64_t)height, (int64_t)width))
        snprintf(decoding->why, sizeof decoding->why, "out of memory for %llu x %llu pixels", (unsigned long long)height,
                 (unsigned long long)width);
    else
        return true;
    return false;
}

static unsigned char *row_of(const Decoding *decoding, int64_t row) {
    return decoding->pixels->at + row * decoding->pixels->width * PIXEL_CHANNELS;
}

/* ---------------------------------------------------------------- PNG */

static void png_fails(png_structp png, png_const_charp text) {
    Decoding *decoding = png_get_error_ptr(png);
    snprintf(decoding->why, sizeof decoding->why, "%s", text);
    longjmp(decoding->failed, 1);
}

static void png_warns(png_structp png, png_const_charp text) {
    (void)png, (void)text;
}

static void png_takes(png_structp png, png_bytep to, size_t n) {
    Decoding *decoding = png_get_io_ptr(png);
    if (n > decoding->n - decoding->at) png_error(png, "the file ends early");
    memcpy(to, decoding->bytes + decoding->at, n);
    decoding->at += n;
}

/* Elements as they are stored, without gamma correction; of 16 bits the upper 8. */
static bool decode_png(Decoding *decoding) {
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, decoding, png_fails, png_warns);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    volatile bool ok = false;
    if (!info)
        snprintf(decoding->why, sizeof decoding->why, "out of memory");
    else if (setjmp(decoding->failed) == 0) {
        png_set_read_fn(png, decoding, png_takes);
        png_set_user_limits(png, MAX_PICTURE_SIDE, MAX_PICTURE_SIDE);
        png_set_chunk_malloc_max(png, 1 << 23);
        png_read_info(png, info);
        png_set_expand(png);
        png_set_strip_16(png);
        png_set_strip_alpha(png);
        png_set_gray_to_rgb(png);
        const int passes = png_set_interlace_handling(png);
        png_read_update_info(png, info);
        ok = takes_size(decoding, png_get_image_height(png, info), png_get_image_width(png, info));
        if (ok && png_get_rowbytes(png, info) != (size_t)decoding->pixels->width * PIXEL_CHANNELS)
            png_error(png, "its pixels are no colours");
        for (int pass = 0; ok && pass < passes; pass++)
            for (int64_t row = 0; row < decoding->pixels->height; row++)
                png_read_row(png, row_of(decoding, row), NULL);
        if (ok) png_read_end(png, NULL);
    } else {
        ok = false;
    }
    png_destroy_read_struct(png ? &png : NULL, info ? &info : NULL, NULL);
    return ok;
}

/* ---------------------------------------------------------------- JPEG */

typedef struct JpegFailure {
    struct jpeg_error_mgr table; /* must be first: libjpeg knows only this */
    Decoding *decoding;
} JpegFailure;

static void jpeg_fails(j_common_ptr jpeg) {
    JpegFailure *failure = (JpegFailure *)(void *)jpeg->err;
    jpeg->err->format_message(jpeg, failure->decoding->why);
    longjmp(failure->decoding->failed, 1);
}

/* A warning (level below 0) means damaged data. */
static void jpeg_warns(j_common_ptr jpeg, int level) {
    if (level < 0) jpeg_fails(jpeg);
}

/* Converts a row of CMYK to RGB as Pillow does: black covers what the other inks leave of a colour. Adobe's files store inverted values (255 - ink). */
static void convert_inks(const unsigned char *inks, bool inverted, unsigned char *row, int64_t width) {
    for (int64_t x = 0; x < width; x++) {
        const int ink = inverted ? 255 : 0, paper = 255 - (inks[4 * x + 3] ^ ink);
        for (int c = 0; c < PIXEL_CHANNELS; c++) {
            const int product = (inks[4 * x + c] ^ ink) * paper + 128;
            row[PIXEL_CHANNELS * x + c] = (unsigned char)(paper - (((product >> 8) + product) >> 8));
        }
    }
}

static bool decode_jpeg(Decoding *decoding) {
    struct jpeg_decompress_struct jpeg;
    JpegFailure failure = {.decoding = decoding};
    volatile bool ok = false;
    jpeg.err = jpeg_std_error(&failure.table);
    failure.table.error_exit = jpeg_fails;
    failure.table.emit_message = jpeg_warns;
    jpeg.global_state = 0;
    jpeg.mem = NULL; /* for jpeg_destroy, if creating fails */
    if (setjmp(decoding->failed) == 0) {
        jpeg_create_decompress(&jpeg);
        jpeg_mem_src(&jpeg, decoding->bytes, decoding->n);
        jpeg_read_header(&jpeg, TRUE);
        const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
        jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
        ok = takes_size(decoding, jpeg.image_height, jpeg.image_width);
        if (ok) jpeg_start_decompress(&jpeg);
        JSAMPARRAY four = ok && inks ? jpeg.mem->alloc_sarray((j_common_ptr)&jpeg, JPOOL_IMAGE, 4 * jpeg.output_width, 1) : NULL;
        while (ok && jpeg.output_scanline < jpeg.output_height) {
            JSAMPROW row = row_of(decoding, jpeg.output_scanline);
            jpeg_read_scanlines(&jpeg, four ? four : &row, 1);
            if (four) convert_inks(four[0], jpeg.saw_Adobe_marker, row, jpeg.output_width);
        }
        if (ok) jpeg_finish_decompress(&jpeg);
    } else {
        ok = false;
    }
    jpeg_destroy_decompress(&jpeg);
    return ok;
}

/* ---------------------------------------------------------------- either */

bool pixels_decode(Pixels *pixels, const char *path, const unsigned char *bytes, size_t n, Error *error) {
    static const unsigned char png_mark[] = {0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a}, jpeg_mark[] = {0xff, 0xd8, 0xff};
    Decoding *decoding = calloc(1, sizeof *decoding); /* not on the stack: longjmp leaves it */
    if (!decoding) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", path);
    decoding->bytes = bytes;
    decoding->n = n;
    decoding->pixels = pixels;
    const bool png = n >= sizeof png_mark && memcmp(bytes, png_mark, sizeof png_mark) == 0,
               jpeg = !png && n >= sizeof jpeg_mark && memcmp(bytes, jpeg_mark, sizeof jpeg_mark) == 0;
    const bool ok = png ? decode_png(decoding) : jpeg && decode_jpeg(decoding);
    if (!png && !jpeg)
        error_set(error, EXIT_ENVIRONMENT, "%s: neither PNG nor JPEG: its first bytes are others", path);
    else if (!ok) {
        text_printable(decoding->why);
        error_set(error, EXIT_ENVIRONMENT, "%s: the %s picture cannot be read: %s", path, png ? "PNG" : "JPEG", decoding->why);
    }
    free(decoding);
    return ok;
}
