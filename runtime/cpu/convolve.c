/* convolve: conv2d and its gradients as matrix products. What the windows of a tile of the result see is copied side by side, one column a place of the
 * result, one row a channel and tap; of a kernel of one tap the planes lie so already. A tile is a part of an image's places, or several whole images where
 * these are small. Threads share the tiles, or of gradients the channels too, so that no two add to one element; tiles follow from shapes and the most threads of
 * any process, so that ranks that compute the same come to the same bits. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/window.h"

enum {
    COLUMN_ELEMENTS = 1 << 18, /* of a tile's columns, about */
    LEAST_COLUMNS = 128,       /* of a tile, where there are so many */
    SHARED_COLUMNS = 16        /* the same where threads would have nothing to do */
};

typedef struct Convolve {
    Planes planes;
    DType dtype;
    char *x, *w, *y;
    Multiplier by;
    int64_t item;                     /* bytes of an element */
    int64_t places, taps;             /* of a plane of y; of the kernel */
    int64_t tile_images, tile_places; /* of a tile: one of them is 1, or all of an image's places */
    int64_t image_tiles, place_tiles;
    int64_t in_blocks, out_blocks; /* parts of the channels of a group */
    bool direct;                   /* x's planes are the columns */
    atomic_bool no_memory;
} Convolve;

/* Images [image, image + images), of their places [place, place + places). */
typedef struct Tile {
    int64_t image, images, place, places;
} Tile;

/* Part k of so many of [0, size). */
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

void seen_places(const Window *window, int64_t k, int64_t size, int64_t places, int64_t *begin, int64_t *end) {
    const int64_t first = window->low - k * window->dilation, behind = size + first;
    *begin = first <= 0 ? 0 : least(parts_of(first, window->stride), places);
    *end = behind <= 0 ? 0 : least(parts_of(behind, window->stride), places);
    if (*end < *begin) *end = *begin;
}

/* Copies what tap (ky, kx) of a tile's places sees of a plane into their columns, or adds the columns to the plane. */
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

/* What tap (ky, kx) of all places of an image sees: of rows [top, bottom) the places [left, right). */
typedef struct Seen {
    int64_t top, bottom, left, right;
    int64_t from;  /* in the plane: what the first of them sees */
    int64_t first; /* of the columns, and where they end */
    int64_t end;
    bool run; /* places lie as what they see does */
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

/* Copies that into the columns of an image, or adds these to it. In a run elements beside the plane's edges are none of it. */
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

/* One tap of a channel: a row of the tile's columns. Returns its end. */
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

/* The columns of channels [first, end) of a group, a row a channel and tap: filled from x, or added to it. */
static void tile_columns(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *columns, bool add) {
    for (int64_t channel = first; channel < end; channel++)
        for (int64_t tap = 0; tap < c->taps; tap++)
            columns = c->dtype == F32 ? tap_row_f32(c, tile, group, channel, tap, columns, add)
                                      : tap_row_f64(c, tile, group, channel, tap, columns, add);
}

/* Channels [first, end) of y in a tile of several images, a row a channel: copied from y, or to it. */
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

/* What the tile sees of channels [first, end); in room unless it lies in x. */
static Panel columns_at(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *room, bool turned) {
    if (c->direct && tile->images == 1) return (Panel){plane_of_x(c, tile->image, group, first) + tile->place * c->item, c->places, turned};
    tile_columns(c, tile, group, first, end, room, false);
    return (Panel){room, tile->images * tile->places, turned};
}

/* Channels [first, end) of y in the tile; in room unless they lie in y as they are. */
static Panel results_at(const Convolve *c, const Tile *tile, int64_t group, int64_t first, int64_t end, char *room, bool read) {
    if (tile->images == 1) return (Panel){plane_of_y(c, tile->image, group, first) + tile->place * c->item, c->places, false};
    if (read) tile_results(c, tile, group, first, end, room, false);
    return (Panel){room, tile->images * tile->places, false};
}

/* ---------------------------------------------------------------- the three kernels */

/* Room for a tile's columns and results; NULL is noted. */
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

/* ---------------------------------------------------------------- a product a tap */

/* conv2d and its gradients where channels are many: a product for each tap of the kernel. Images of a tile are turned, so that all of their channels at one place lie together, place
 * after place: what a tap sees of a row of results is then a matrix as it lies, and taps that see nothing but padding cost nothing. Of strided windows places lie
 * in the order of their remainders, so that what neighbouring results see are neighbours too. Weights are brought together tap by tap.
 *
 * Threads share the tiles; of the weights' gradient they turn a tile's images together, and share blocks of channels. Tiles and blocks follow from shapes and the most
 * threads of any process, so that ranks that compute the same come to the same bits. */
enum {
    LEAST_CHANNELS = 16,    /* of both sides, for products that pay */
    TILE_BYTES = 384 << 10, /* of a tile's turned images, about: of a thread's cache */
    SUMMED_BYTES = 4 << 20, /* the same where threads share a tile */
    LEAST_ROWS = 64,        /* of a product, where there are so many */
    LINE = 16
};
static const double MOST_SHARE = 0.9;

/* What a tap sees: of rows [top, bottom) of results the places [left, right). */
typedef struct Tap {
    int64_t tap, top, bottom, left, right;
    int64_t from, line; /* among the turned places: what the first of them sees, and from a row to the next */
} Tap;

typedef struct Taps {
    OpCode op;
    Planes planes;
    char *x, *w, *y;
    int64_t item;                  /* bytes of an element */
    int64_t in_places, out_places; /* of a plane */
    int64_t in_all, out_all;       /* channels of all groups */
    int64_t images, tiles;         /* of a tile; tiles */
    int64_t ntaps, nseen, blocks;  /* taps, those that see something, blocks of a group's output channels */
    Tap *seen;
    bool whole; /* the first of them reaches every place of the result */
    int64_t *place;
    char *weights, *rows_x, *rows_y; /* turned; the rows of a tile that threads share */
    int64_t first;                   /* image of that */
    DType dtype;
    Multiplier by;
    atomic_bool no_memory;
} Taps;

/* ---- where places lie */

/* How many of [0, size) leave less than `rest`. */
static int64_t below(int64_t size, int64_t stride, int64_t rest) {
    return size / stride * rest + least(size % stride, rest);
}

static int64_t leaving(int64_t size, int64_t stride, int64_t rest) {
    return below(size, stride, rest + 1) - below(size, stride, rest);
}

/* Among the turned places of x, that at (row, column): planes of those that leave the same, one after the other. */
static int64_t turned_place(const Planes *p, int64_t row, int64_t column) {
    const int64_t down = p->window[0].stride, across = p->window[1].stride, top = row % down, left = column % across;
    return below(p->in[0], down, top) * p->in[1] + leaving(p->in[0], down, top) * below(p->in[1], across, left) +
           row / down * leaving(p->in[1], across, left) + column / across;
}

/* False: the tap sees nothing. */
static bool tap_sees(const Planes *p, int64_t tap, Tap *t) {
    const int64_t ky = tap / p->window[1].size, kx = tap % p->window[1].size;
    *t = (Tap){.tap = tap};
    seen_places(&p->window[0], ky, p->in[0], p->out[0], &t->top, &t->bottom);
    seen_places(&p->window[1], kx, p->in[1], p->out[1], &t->left, &t->right);
    if (t->top >= t->bottom || t->left >= t->right) return false;
    const int64_t column = window_place(&p->window[1], t->left, kx);
    t->from = turned_place(p, window_place(&p->window[0], t->top, ky), column);
    t->line = leaving(p->in[1], p->window[1].stride, column % p->window[1].stride);
    return true;
}

/* Whether it adds to every place of what is computed, or sees every one of it. */
static bool tap_is_whole(const Taps *c, const Tap *t) {
    const Planes *p = &c->planes;
    const int64_t places = (t->bottom - t->top) * (t->right - t->left);
    return c->op == OP_conv2d ? places == c->out_places : places == c->in_places && p->window[0].stride == 1 && p->window[1].stride == 1;
}

/* ---- turning */

/* Image `n` of `images` in a tile: channels of planes, as they are in a tensor, and rows of channels, a row a place. place NULL: they are in order. */
typedef struct Turn {
    int64_t channels, places, images, n;
    const int64_t *place;
} Turn;

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
    }                                                                                                                                      \
    /* The weights of output channel o: tap by tap, of those that see something. back: to w, where the others are 0. */                    \
    static void turn_weights_##suffix(const Taps *c, int64_t o, bool back) {                                                               \
        const int64_t in = c->planes.in_channels;                                                                                          \
        T *row = (T *)c->w + o * in * c->ntaps;                                                                                            \
        if (back && c->nseen < c->ntaps) memset(row, 0, (size_t)(in * c->ntaps) * sizeof *row);                                            \
        for (int64_t k = 0; k < c->nseen; k++) {                                                                                           \
            T *turned = (T *)c->weights + (k * c->out_all + o) * in, *at = row + c->seen[k].tap;                                           \
            for (int64_t i = 0; back && i < in; i++)                                                                                       \
                at[i * c->ntaps] = turned[i];                                                                                              \
            for (int64_t i = 0; !back && i < in; i++)                                                                                      \
                turned[i] = at[i * c->ntaps];                                                                                              \
        }                                                                                                                                  \
    }
FOR_FLOATS(TURN)

/* Image n of the tile that begins with image `first`: of x, or of y; into rows, or back. */
static void turn_image(const Taps *c, bool of_x, int64_t first, int64_t images, int64_t n, char *rows, bool back) {
    const Turn t = {of_x ? c->in_all : c->out_all, of_x ? c->in_places : c->out_places, images, n, of_x ? c->place : NULL};
    char *planes = (of_x ? c->x : c->y) + (first + n) * t.channels * t.places * c->item;
    if (t.places == 1)
        memcpy(back ? planes : rows + n * t.channels * c->item, back ? rows + n * t.channels * c->item : planes,
               (size_t)(t.channels * c->item));
    else if (c->dtype == F32)
        turn_f32(&t, (float *)planes, (float *)rows, back);
    else
        turn_f64(&t, (double *)planes, (double *)rows, back);
}

/* Ranges are of output channels. */
static void weights_part(void *context, int64_t begin, int64_t end) {
    const Taps *c = context;
    for (int64_t o = begin; o < end; o++)
        if (c->dtype == F32)
            turn_weights_f32(c, o, c->op == OP_conv2d_grad_w);
        else
            turn_weights_f64(c, o, c->op == OP_conv2d_grad_w);
}

/* ---- products */

/* What seen tap k gives, of output channels [begin, end) of a group, on turned rows of so many images: to y, to x, or to the weights. */
static void multiply_tap(const Taps *c, int64_t k, int64_t group, int64_t begin, int64_t end, char *x, char *y, int64_t images, bool add) {
    const Planes *p = &c->planes;
    const Tap *t = &c->seen[k];
    const bool run = t->left == 0 && t->right == p->out[1] && t->line == p->out[1];
    const int64_t in = p->in_channels, out = group * p->out_channels + begin, runs = run ? 1 : t->bottom - t->top;
    const int64_t rows = images * (run ? (t->bottom - t->top) * p->out[1] : t->right - t->left);
    char *w = c->weights + (k * c->out_all + out) * in * c->item;
    for (int64_t r = 0; r < runs; r++) {
        char *at_x = x + ((t->from + r * t->line) * images * c->in_all + group * in) * c->item;
        char *at_y = y + (((t->top + r) * p->out[1] + t->left) * images * c->out_all + out) * c->item;
        const MatrixAt of_x = {at_x, {false, c->in_all}}, of_y = {at_y, {c->op == OP_conv2d_grad_w, c->out_all}},
                       of_w = {w, {c->op == OP_conv2d, in}};
        if (c->op == OP_conv2d)
            multiply(&c->by, of_x, of_w, rows, end - begin, in, 1, add, at_y, c->out_all);
        else if (c->op == OP_conv2d_grad_x)
            multiply(&c->by, of_y, of_w, rows, in, end - begin, 1, add, at_x, c->in_all);
        else
            multiply(&c->by, of_y, of_x, end - begin, in, rows, 1, add || r > 0, w, in);
    }
}

/* Of y or of the gradient of x. Ranges are of tiles. */
static void tiles_part(void *context, int64_t begin, int64_t end) {
    Taps *c = context;
    const bool forward = c->op == OP_conv2d;
    const int64_t x_bytes = c->images * c->in_places * c->in_all * c->item, y_bytes = c->images * c->out_places * c->out_all * c->item;
    char *room = malloc((size_t)(x_bytes + y_bytes)), *rows_y = room + x_bytes;
    if (!room) c->no_memory = true;
    for (int64_t i = begin; room && i < end; i++) {
        const int64_t first = i * c->images, images = least(c->images, c->planes.images - first);
        for (int64_t n = 0; n < images; n++)
            turn_image(c, forward, first, images, n, forward ? room : rows_y, false);
        if (!c->whole) memset(forward ? rows_y : room, 0, (size_t)(forward ? y_bytes : x_bytes));
        for (int64_t k = 0; k < c->nseen; k++)
            for (int64_t group = 0; group < c->planes.groups; group++)
                multiply_tap(c, k, group, 0, c->planes.out_channels, room, rows_y, images, k > 0 || !c->whole);
        for (int64_t n = 0; n < images; n++)
            turn_image(c, !forward, first, images, n, forward ? rows_y : room, true);
    }
    free(room);
}

/* Ranges are of a shared tile's images. */
static void turn_part(void *context, int64_t begin, int64_t end) {
    const Taps *c = context;
    const int64_t images = least(c->images, c->planes.images - c->first);
    for (int64_t n = begin; n < end; n++) {
        turn_image(c, true, c->first, images, n, c->rows_x, false);
        turn_image(c, false, c->first, images, n, c->rows_y, false);
    }
}

/* Ranges are of groups, their blocks of output channels, the taps that see something. */
static void sums_part(void *context, int64_t begin, int64_t end) {
    const Taps *c = context;
    const int64_t images = least(c->images, c->planes.images - c->first);
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = i / c->nseen % c->blocks, channels = c->planes.out_channels;
        multiply_tap(c, i % c->nseen, i / c->nseen / c->blocks, channels * block / c->blocks, channels * (block + 1) / c->blocks, c->rows_x,
                     c->rows_y, images, c->first > 0);
    }
}

/* The share of what taps would see of planes without edges that they see. */
static double seen_share(const Planes *p) {
    double share = 1;
    for (int d = 0; d < 2; d++) {
        int64_t begin, end, seen = 0;
        for (int64_t k = 0; k < p->window[d].size; k++) {
            seen_places(&p->window[d], k, p->in[d], p->out[d], &begin, &end);
            seen += end - begin;
        }
        share *= (double)seen / (double)(p->window[d].size * p->out[d]);
    }
    return share;
}

/* A tap's sums of the weights' gradient are narrow products. They pay where few results see all taps. */
static bool is_by_taps(OpCode op, const Planes *p) {
    return p->images > 0 && p->in[0] * p->in[1] > 0 && p->out[0] * p->out[1] > 0 && p->window[0].size * p->window[1].size > 1 &&
           p->in_channels >= LEAST_CHANNELS && p->out_channels >= LEAST_CHANNELS && (op != OP_conv2d_grad_w || seen_share(p) < MOST_SHARE);
}

static void choose_tap_tiles(Taps *c, int nthreads) {
    const int64_t each = (c->in_places * c->in_all + c->out_places * c->out_all) * c->item;
    const bool shared = c->op == OP_conv2d_grad_w;
    const int64_t rows = parts_of(LEAST_ROWS, c->planes.out[1]), most = shared ? c->planes.images : parts_of(c->planes.images, nthreads);
    c->images = (shared ? SUMMED_BYTES : TILE_BYTES) / each;
    if (c->images < rows) c->images = rows;
    c->images = least(c->images, most);
    c->tiles = parts_of(c->planes.images, c->images);
    c->blocks = least(nthreads, parts_of(c->planes.out_channels, LEAST_CHANNELS));
}

/* The largest product of a tap, by which the library is chosen. */
static bool open_multiplier(const KernelCall *call, Taps *c, Error *error) {
    const Planes *p = &c->planes;
    const int64_t rows = c->images * p->out[1], in = p->in_channels, out = p->out_channels;
    const ProductSize size = c->op == OP_conv2d          ? (ProductSize){false, true, rows, out, in}
                             : c->op == OP_conv2d_grad_x ? (ProductSize){false, false, rows, in, out}
                                                         : (ProductSize){true, false, parts_of(out, c->blocks), in, rows};
    const double work = (double)p->images * (double)(c->out_places * c->ntaps) * (double)(c->out_all * in);
    return multiplier_open(call, &size, 1, work, &c->by, error);
}

static void open_taps(const KernelCall *call, Taps *c) {
    PlanesOf of;
    planes_of(call, &of);
    const Planes *p = &of.planes;
    *c = (Taps){.op = call->op, .planes = *p, .dtype = of.x->dtype, .x = of.x->data, .w = of.w->data, .y = of.y->data};
    c->item = dtype_bytes[c->dtype];
    c->in_places = p->in[0] * p->in[1], c->out_places = p->out[0] * p->out[1];
    c->in_all = p->groups * p->in_channels, c->out_all = p->groups * p->out_channels;
    c->ntaps = p->window[0].size * p->window[1].size;
    choose_tap_tiles(c, call_most_threads(call));
}

static bool taps_prepare(const KernelCall *call, Error *error) {
    Taps c;
    open_taps(call, &c);
    return open_multiplier(call, &c, error);
}

/* The taps that see something; a whole one first. */
static void find_taps(Taps *c) {
    for (int64_t k = 0; k < c->ntaps; k++) {
        Tap *t = &c->seen[c->nseen];
        if (!tap_sees(&c->planes, k, t)) continue;
        if (!c->whole && tap_is_whole(c, t)) {
            const Tap whole = *t;
            *t = c->seen[0], c->seen[0] = whole;
            c->whole = true;
        }
        c->nseen++;
    }
    for (int64_t row = 0; row < c->planes.in[0]; row++)
        for (int64_t column = 0; column < c->planes.in[1]; column++)
            c->place[row * c->planes.in[1] + column] = turned_place(&c->planes, row, column);
}

static void sum_tap_weights(Pool *pool, Taps *c) {
    const int64_t grain = 1 + GRAIN / (c->in_all * c->in_places + c->out_all * c->out_places);
    for (c->first = 0; c->first < c->planes.images; c->first += c->images) {
        pool_run(pool, least(c->images, c->planes.images - c->first), grain, turn_part, c);
        pool_run(pool, c->planes.groups * c->blocks * c->nseen, 1, sums_part, c);
    }
}

static bool taps(const KernelCall *call, Error *error) {
    Taps c;
    open_taps(call, &c);
    if (!open_multiplier(call, &c, error)) return false;
    Pool *pool = call_pool(call);
    c.seen = malloc((size_t)c.ntaps * sizeof *c.seen);
    c.place = malloc((size_t)c.in_places * sizeof *c.place);
    if (c.seen && c.place) find_taps(&c);
    const int64_t weights = c.nseen * c.out_all * c.planes.in_channels, x = c.images * c.in_places * c.in_all,
                  y = c.images * c.out_places * c.out_all;
    const bool sums = call->op == OP_conv2d_grad_w;
    c.weights = malloc((size_t)((weights + (sums ? x + y : 0)) * c.item) + 1);
    c.no_memory = !c.seen || !c.place || !c.weights;
    if (!c.no_memory) {
        const int64_t grain = 1 + GRAIN / (c.planes.in_channels * c.ntaps);
        c.rows_x = c.weights + weights * c.item, c.rows_y = c.rows_x + x * c.item;
        if (!sums) pool_run(pool, c.out_all, grain, weights_part, &c);
        if (!sums) pool_run(pool, c.tiles, 1, tiles_part, &c);
        if (sums) sum_tap_weights(pool, &c);
        if (sums) pool_run(pool, c.out_all, grain, weights_part, &c);
    }
    free(c.weights);
    free(c.place);
    free(c.seen);
    if (c.no_memory) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    return multiplier_done(&c.by, error);
}

/* ---------------------------------------------------------------- calls */

/* Tiles of about COLUMN_ELEMENTS, of fewer where there is not one for each thread. */
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

/* False where there is nothing to multiply: the result is 0, or has no elements. */
static bool convolve_open(const KernelCall *call, Convolve *c) {
    PlanesOf of;
    planes_of(call, &of);
    const Planes *p = &of.planes;
    *c = (Convolve){.planes = *p, .dtype = of.x->dtype, .x = of.x->data, .w = of.w->data, .y = of.y->data};
    c->item = dtype_bytes[c->dtype];
    c->places = p->out[0] * p->out[1];
    c->taps = p->window[0].size * p->window[1].size;
    c->in_blocks = c->out_blocks = 1;
    c->direct = c->taps == 1;
    for (int d = 0; d < 2; d++)
        c->direct = c->direct && p->window[d].stride == 1 && p->window[d].low == 0 && p->in[d] == p->out[d];
    return p->images > 0 && p->in_channels > 0 && p->out_channels > 0 && c->places > 0 && p->in[0] * p->in[1] > 0;
}

static int64_t blocks_for(int64_t channels, int64_t items, int nthreads) {
    return least(channels, parts_of(nthreads, items));
}

static bool convolve(const KernelCall *call, PoolFn *part, Error *error) {
    Convolve c;
    const int nthreads = call_most_threads(call);
    if (!convolve_open(call, &c)) {
        memset(call->out[0].data, 0, (size_t)operand_bytes(&call->out[0]));
        return true;
    }
    if (is_depthwise(&c.planes)) return depthwise(call, error);
    if (is_by_taps(call->op, &c.planes)) return taps(call, error);
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
    if (!convolve_open(call, &c) || is_depthwise(&c.planes)) return true;
    return is_by_taps(call->op, &c.planes) ? taps_prepare(call, error) : multiplier_open(call, NULL, 0, 0, &c.by, error);
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
