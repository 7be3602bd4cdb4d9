/* convolve: conv2d and its gradients as matrix products (im2col). What the windows of a tile of the result see is copied into columns: one column for each place of
 * the result, one row for each channel and tap. For a kernel of one tap the planes are columns already. A tile is a part of an image's places, or several whole images if
 * they are small. Threads divide the tiles, for gradients the channels too, so that no two add to one element. Tiles depend only on shapes and the most threads of
 * any process, so ranks that compute the same get the same bits. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/window.h"

enum {
    COLUMN_ELEMENTS = 1 << 18, /* of a tile's columns, about */
    LEAST_COLUMNS = 128,       /* of a tile, if there are so many */
    SHARED_COLUMNS = 16        /* the same where threads would otherwise be idle */
};

typedef struct Convolve {
    Planes planes;
    DType dtype;
    char *x, *w, *y;
    Multiplier by;
    int64_t item;                     /* bytes of an element */
    int64_t places, taps;             /* of a plane of y; of the kernel */
    int64_t tile_images, tile_places; /* of a tile: it has one image, or all places of each image */
    int64_t image_tiles, place_tiles;
    int64_t in_blocks, out_blocks; /* parts of the channels of a group */
    bool direct;                   /* x's planes are the columns */
    atomic_bool no_memory;
} Convolve;

/* Places [place, place + places) of images [image, image + images). */
typedef struct Tile {
    int64_t image, images, place, places;
} Tile;

/* Where part k of `parts` parts of [0, size) begins. */
static int64_t part_begin(int64_t size, int64_t parts, int64_t k) {
    return size * k / parts;
}

static Tile tile_at(const Convolve *c, int64_t image_tile, int64_t place_tile) {
    const int64_t image = image_tile * c->tile_images, place = place_tile * c->tile_places;
    return (Tile){image, least(c->tile_images, c->planes.images - image), place, least(c->tile_places, c->places - place)};
}

/* Plane `channel` of a group in an image of x or y. */
static char *plane_of_x(const Convolve *c, int64_t image, int64_t group, int64_t channel) {
    const Planes *p = &c->planes;
    return c->x + ((image * p->groups + group) * p->in_channels + channel) * p->in[0] * p->in[1] * c->item;
}

static char *plane_of_y(const Convolve *c, int64_t image, int64_t group, int64_t channel) {
    const Planes *p = &c->planes;
    return c->y + ((image * p->groups + group) * p->out_channels + channel) * c->places * c->item;
}

/* ---------------------------------------------------------------- columns */

bool planes_are_columns(const Planes *planes) {
    bool are = true;
    for (int d = 0; d < 2; d++)
        are = are && planes->window[d].size == 1 && planes->window[d].stride == 1 && planes->window[d].low == 0 &&
              planes->in[d] == planes->out[d];
    return are;
}

void seen_places(const Window *window, int64_t k, int64_t size, int64_t places, int64_t *begin, int64_t *end) {
    const int64_t first = window->low - k * window->dilation, behind = size + first;
    *begin = first <= 0 ? 0 : least(parts_of(first, window->stride), places);
    *end = behind <= 0 ? 0 : least(parts_of(behind, window->stride), places);
    if (*end < *begin) *end = *begin;
}

/* Copies the elements of a plane that tap (ky, kx) sees at a tile's places into their columns, or adds the columns to the plane. */
#define TAP_COLUMNS(suffix, T)                                                                                                             \
    static void tap_columns_##suffix(const Convolve *c, const Tile *tile, int64_t ky, int64_t kx, T *plane, T *column, bool add) {         \
        const Planes *p = &c->planes;                                                                                                      \
        const Window *across = &p->window[1];                                                                                              \
        int64_t seen_begin, seen_end, place = tile->place;                                                                                 \
        seen_places(across, kx, p->in[1], p->out[1], &seen_begin, &seen_end);                                                              \
        while (place < tile->place + tile->places) {                                                                                       \
            const int64_t oy = place / p->out[1], ox = place % p->out[1];                                                                  \
            const int64_t end = least(p->out[1], ox + tile->place + tile->places - place), row = window_place(&p->window[0], oy, ky);      \
            const bool inside = row >= 0 && row < p->in[0];                                                                                \
            const int64_t from = !inside || seen_begin > end ? end : seen_begin > ox ? seen_begin : ox;                                    \
            const int64_t to = !inside || seen_end < from ? from : least(seen_end, end);                                                   \
            T *at = plane + row * p->in[1] + window_place(across, from, kx);                                                               \
            if (add) {                                                                                                                     \
                for (int64_t i = 0; i < to - from; i++)                                                                                    \
                    at[i * across->stride] += column[from - ox + i];                                                                       \
            } else {                                                                                                                       \
                for (int64_t i = ox; i < from; i++)                                                                                        \
                    column[i - ox] = 0;                                                                                                    \
                for (int64_t i = 0; i < to - from; i++)                                                                                    \
                    column[from - ox + i] = at[i * across->stride];                                                                        \
                for (int64_t i = to; i < end; i++)                                                                                         \
                    column[i - ox] = 0;                                                                                                    \
            }                                                                                                                              \
            column += end - ox;                                                                                                            \
            place += end - ox;                                                                                                             \
        }                                                                                                                                  \
    }
FOR_FLOATS(TAP_COLUMNS)

/* The places of an image at which a tap sees an element, not padding: places [left, right) of rows [top, bottom). */
typedef struct Seen {
    int64_t top, bottom, left, right;
    int64_t from;  /* the element of the plane that is seen at the first of them */
    int64_t first; /* the first of these columns, and where they end */
    int64_t end;
    bool run; /* places are as far apart as the elements that they see */
} Seen;

static Seen seen_by(const Convolve *c, int64_t tap) {
    const Planes *p = &c->planes;
    const Window *down = &p->window[0], *across = &p->window[1];
    const int64_t ky = tap / across->size, kx = tap % across->size;
    Seen s = {.run = down->stride == 1 && across->stride == 1 && p->in[1] == p->out[1]};
    seen_places(down, ky, p->in[0], p->out[0], &s.top, &s.bottom);
    seen_places(across, kx, p->in[1], p->out[1], &s.left, &s.right);
    if (s.top >= s.bottom || s.left >= s.right) return (Seen){0};
    s.from = window_place(down, s.top, ky) * p->in[1] + window_place(across, s.left, kx);
    s.first = s.top * p->out[1] + s.left;
    s.end = (s.bottom - 1) * p->out[1] + s.right;
    return s;
}

/* Copies what a tap sees into the columns of an image, or adds these to it. In a run, places that see beyond an edge get 0. */
#define IMAGE_COLUMNS(suffix, T)                                                                                                           \
    static void image_columns_##suffix(const Convolve *c, const Seen *s, T *plane, T *column, bool add) {                                  \
        const int64_t width = c->planes.out[1], stride = c->planes.window[1].stride, line = c->planes.window[0].stride * c->planes.in[1];  \
        T *at = plane + s->from;                                                                                                           \
        for (int64_t i = 0; !add && i < s->first; i++)                                                                                     \
            column[i] = 0;                                                                                                                 \
        for (int64_t i = s->first; s->run && !add && i < s->end; i++)                                                                      \
            column[i] = at[i - s->first];                                                                                                  \
        for (int64_t i = s->end; !add && i < c->places; i++)                                                                               \
            column[i] = 0;                                                                                                                 \
        for (int64_t row = s->top; (s->run || !add) && row + 1 < s->bottom; row++)                                                         \
            for (int64_t i = s->right; i < width + s->left; i++)                                                                           \
                column[row * width + i] = 0;                                                                                               \
        for (int64_t i = s->first; s->run && add && i < s->end; i++)                                                                       \
            at[i - s->first] += column[i];                                                                                                 \
        for (int64_t row = s->top; !s->run && row < s->bottom; row++, at += line)                                                          \
            for (int64_t i = s->left; i < s->right; i++)                                                                                   \
                if (add)                                                                                                                   \
                    at[(i - s->left) * stride] += column[row * width + i];                                                                 \
                else                                                                                                                       \
                    column[row * width + i] = at[(i - s->left) * stride];                                                                  \
    }
FOR_FLOATS(IMAGE_COLUMNS)

/* One row of the tile's columns, that of a channel's tap. Returns the row's end. */
#define TAP_ROW(suffix, T)                                                                                                                 \
    static char *tap_row_##suffix(const Convolve *c, const Tile *tile, int64_t group, int64_t channel, int64_t tap, char *columns,         \
                                  bool add) {                                                                                              \
        const int64_t size = c->planes.window[1].size;                                                                                     \
        const Seen seen = seen_by(c, tap);                                                                                                 \
        T *column = (T *)columns;                                                                                                          \
        for (int64_t image = tile->image; image < tile->image + tile->images; image++, column += tile->places) {                           \
            T *plane = (T *)plane_of_x(c, image, group, channel);                                                                          \
            if (tile->places == c->places)                                                                                                 \
                image_columns_##suffix(c, &seen, plane, column, add);                                                                      \
            else                                                                                                                           \
                tap_columns_##suffix(c, tile, tap / size, tap % size, plane, column, add);                                                 \
        }                                                                                                                                  \
        return (char *)column;                                                                                                             \
    }
FOR_FLOATS(TAP_ROW)

/* The columns of channels [first, end) of a group, one row for each channel and tap: filled from x, or added to it. */
static void tile_columns(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *columns, bool add) {
    for (int64_t channel = first; channel < end; channel++)
        for (int64_t tap = 0; tap < c->taps; tap++)
            columns = c->dtype == F32 ? tap_row_f32(c, tile, group, channel, tap, columns, add)
                                      : tap_row_f64(c, tile, group, channel, tap, columns, add);
}

/* Copies channels [first, end) of y in a tile of several images to rows, one for each channel, or back. */
static void tile_results(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *rows, bool out) {
    const size_t bytes = (size_t)(tile->places * c->item);
    for (int64_t channel = first; channel < end; channel++)
        for (int64_t image = tile->image; image < tile->image + tile->images; image++, rows += bytes) {
            char *plane = plane_of_y(c, image, group, channel) + tile->place * c->item;
            memcpy(out ? plane : rows, out ? rows : plane, bytes);
        }
}

/* ---------------------------------------------------------------- products */

/* A matrix in memory, `leading` elements from a row to the next. */
typedef struct Panel {
    char *at;
    int64_t leading;
    bool turned; /* transposed in the product */
} Panel;

/* out [m, n] = a [m, k] b [k, n], or += that. */
static void multiply_panels(const Convolve *c, Panel a, Panel b, Panel out, int64_t m, int64_t n, int64_t k, bool add) {
    const MatrixAt left = {a.at, {a.turned, a.leading}}, right = {b.at, {b.turned, b.leading}};
    multiply(&c->by, left, right, m, n, k, 1, add, out.at, out.leading);
}

/* The weights of channels [out.., in..] of a group. */
static Panel weights_at(const Convolve *c, int64_t group, int64_t out, int64_t in, bool turned) {
    const int64_t row = c->planes.in_channels * c->taps;
    return (Panel){c->w + ((group * c->planes.out_channels + out) * row + in * c->taps) * c->item, row, turned};
}

/* The tile's columns of channels [first, end): in x itself, or copied to room. */
static Panel columns_at(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *room, bool turned) {
    if (c->direct && tile->images == 1) return (Panel){plane_of_x(c, tile->image, group, first) + tile->place * c->item, c->places, turned};
    tile_columns(c, tile, group, first, end, room, false);
    return (Panel){room, tile->images * tile->places, turned};
}

/* Channels [first, end) of y in the tile: in y itself, or in room. */
static Panel results_at(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *room, bool read) {
    if (tile->images == 1) return (Panel){plane_of_y(c, tile->image, group, first) + tile->place * c->item, c->places, false};
    if (read) tile_results(c, tile, group, first, end, room, false);
    return (Panel){room, tile->images * tile->places, false};
}

/* ---------------------------------------------------------------- the three kernels */

/* Memory for a tile's columns and results; NULL sets no_memory. */
static char *room_for(Convolve *c, char **results) {
    const int64_t columns = c->tile_images * c->tile_places, rows = c->planes.in_channels * c->taps;
    char *room = malloc((size_t)((rows + c->planes.out_channels) * columns * c->item));
    *results = room ? room + rows * columns * c->item : NULL;
    if (!room) c->no_memory = true;
    return room;
}

/* Items are tiles of groups. */
static void forward_part(void *context, int64_t begin, int64_t end) {
    Convolve *c = context;
    const int64_t in = c->planes.in_channels, out = c->planes.out_channels;
    char *results, *room = room_for(c, &results);
    for (int64_t i = begin; room && i < end; i++) {
        const int64_t group = i % c->planes.groups, at = i / c->planes.groups;
        const Tile tile = tile_at(c, at / c->place_tiles, at % c->place_tiles);
        const Panel y = results_at(c, &tile, group, 0, out, results, false);
        multiply_panels(c, weights_at(c, group, 0, 0, false), columns_at(c, &tile, group, 0, in, room, false), y, out,
                        tile.images * tile.places, in * c->taps, false);
        if (y.at == results) tile_results(c, &tile, group, 0, out, results, true);
    }
    free(room);
}

/* Items are tiles of images, of groups, of input channels. */
static void gradient_x_part(void *context, int64_t begin, int64_t end) {
    Convolve *c = context;
    const int64_t out = c->planes.out_channels, groups = c->planes.groups;
    char *results, *room = room_for(c, &results);
    for (int64_t i = begin; room && i < end; i++) {
        const int64_t block = i % c->in_blocks, group = i / c->in_blocks % groups, image_tile = i / c->in_blocks / groups;
        const int64_t first = part_begin(c->planes.in_channels, c->in_blocks, block),
                      last = part_begin(c->planes.in_channels, c->in_blocks, block + 1);
        for (int64_t k = 0; k < c->place_tiles; k++) {
            const Tile tile = tile_at(c, image_tile, k);
            const bool lies = c->direct && tile.images == 1;
            for (int64_t image = 0; !lies && k == 0 && image < tile.images; image++)
                memset(plane_of_x(c, tile.image + image, group, first), 0,
                       (size_t)((last - first) * c->planes.in[0] * c->planes.in[1] * c->item));
            const Panel columns =
                lies ? columns_at(c, &tile, group, first, last, room, false) : (Panel){room, tile.images * tile.places, false};
            multiply_panels(c, weights_at(c, group, 0, first, true), results_at(c, &tile, group, 0, out, results, true), columns,
                            (last - first) * c->taps, tile.images * tile.places, out, false);
            if (!lies) tile_columns(c, &tile, group, first, last, room, true);
        }
    }
    free(room);
}

/* Items are groups, of input channels, of output channels. */
static void gradient_w_part(void *context, int64_t begin, int64_t end) {
    Convolve *c = context;
    char *results, *room = room_for(c, &results);
    for (int64_t i = begin; room && i < end; i++) {
        const int64_t in = i / c->out_blocks % c->in_blocks, out = i % c->out_blocks, group = i / c->out_blocks / c->in_blocks;
        const int64_t first = part_begin(c->planes.in_channels, c->in_blocks, in),
                      last = part_begin(c->planes.in_channels, c->in_blocks, in + 1);
        const int64_t top = part_begin(c->planes.out_channels, c->out_blocks, out),
                      bottom = part_begin(c->planes.out_channels, c->out_blocks, out + 1);
        for (int64_t k = 0; k < c->image_tiles * c->place_tiles; k++) {
            const Tile tile = tile_at(c, k / c->place_tiles, k % c->place_tiles);
            multiply_panels(c, results_at(c, &tile, group, top, bottom, results, true),
                            columns_at(c, &tile, group, first, last, room, true), weights_at(c, group, top, first, false), bottom - top,
                            (last - first) * c->taps, tile.images * tile.places, k > 0);
        }
    }
    free(room);
}

/* ---------------------------------------------------------------- calls */

/* Chooses tiles of about COLUMN_ELEMENTS, or smaller ones if there would not be one for each thread. */
static void choose_tiles(Convolve *c, int nthreads) {
    const int64_t rows = c->planes.in_channels * c->taps, all = c->planes.images * c->places;
    int64_t columns = COLUMN_ELEMENTS / rows > LEAST_COLUMNS ? COLUMN_ELEMENTS / rows : LEAST_COLUMNS;
    const int64_t shared = parts_of(all * c->planes.groups, nthreads);
    if (columns > shared) columns = shared > SHARED_COLUMNS ? shared : SHARED_COLUMNS;
    c->tile_images = columns > c->places ? least(columns / c->places, c->planes.images) : 1;
    c->tile_places = parts_of(c->places, columns < c->places ? parts_of(c->places, columns) : 1);
    c->image_tiles = parts_of(c->planes.images, c->tile_images);
    c->place_tiles = parts_of(c->places, c->tile_places);
}

/* False: there is nothing to multiply, and the result is 0 or has no elements. */
static bool convolve_open(const KernelCall *call, PlanesOf *of, Convolve *c) {
    planes_of(call, of);
    const Planes *p = &of->planes;
    *c = (Convolve){.planes = *p, .dtype = of->x->dtype, .x = of->x->data, .w = of->w->data, .y = of->y->data};
    c->item = dtype_bytes[c->dtype];
    c->places = p->out[0] * p->out[1];
    c->taps = p->window[0].size * p->window[1].size;
    c->in_blocks = c->out_blocks = 1;
    c->direct = planes_are_columns(p);
    return p->images > 0 && p->in_channels > 0 && p->out_channels > 0 && c->places > 0 && p->in[0] * p->in[1] > 0;
}

static int64_t blocks_for(int64_t channels, int64_t items, int nthreads) {
    return least(channels, parts_of(nthreads, items));
}

static bool convolve(const KernelCall *call, PoolFn *part, Error *error) {
    Convolve c;
    PlanesOf of;
    const Convolution *by_onednn;
    const int nthreads = call_most_threads(call);
    if (!convolve_open(call, &of, &c)) {
        memset(call->out[0].data, 0, (size_t)operand_bytes(&call->out[0]));
        return true;
    }
    if (is_depthwise(&c.planes)) return depthwise(call, error);
    if (!onednn_convolution(call, &of, &by_onednn, error)) return false;
    if (by_onednn) return onednn_convolve(call, &of, by_onednn, error);
    if (!multiplier_open(call, NULL, 0, 0, &c.by, error)) return false;
    choose_tiles(&c, nthreads);
    int64_t items = c.planes.groups;
    if (call->op == OP_conv2d) items *= c.image_tiles * c.place_tiles;
    if (call->op == OP_conv2d_grad_x) items *= c.image_tiles;
    if (call->op != OP_conv2d) items *= c.in_blocks = blocks_for(c.planes.in_channels, items, nthreads);
    if (call->op == OP_conv2d_grad_w) items *= c.out_blocks = blocks_for(c.planes.out_channels, items, nthreads);
    pool_run(call_pool(call), items, 1, part, &c);
    if (c.no_memory) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    return multiplier_done(&c.by, error);
}

bool convolve_prepare(const KernelCall *call, Error *error) {
    Convolve c;
    PlanesOf of;
    const Convolution *by_onednn;
    if (!convolve_open(call, &of, &c) || is_depthwise(&c.planes)) return true;
    return onednn_convolution(call, &of, &by_onednn, error) && (by_onednn || multiplier_open(call, NULL, 0, 0, &c.by, error));
}

bool kernel_conv2d(const KernelCall *call, Error *error) {
    return convolve(call, forward_part, error);
}

bool kernel_conv2d_grad_x(const KernelCall *call, Error *error) {
    return convolve(call, gradient_x_part, error);
}

bool kernel_conv2d_grad_w(const KernelCall *call, Error *error) {
    return convolve(call, gradient_w_part, error);
}
