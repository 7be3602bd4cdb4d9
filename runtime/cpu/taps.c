/* taps: conv2d and its gradients, a product for each tap of the kernel. Images of a tile are turned, so that all of their channels at one place lie together, place
 * after place: what a tap sees of a row of results is then a matrix as it lies, and taps that see nothing but padding cost nothing. Of strided windows places lie
 * in the order of their remainders, so that what neighbouring results see are neighbours too. Weights are brought together tap by tap.
 *
 * Threads share the tiles; of the weights' gradient they turn a tile's images together, and share blocks of channels. Tiles and blocks follow from shapes and the most
 * threads of any process, so that ranks that compute the same come to the same bits. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/window.h"

enum {
    LEAST_CHANNELS = 16,    /* of both sides, for products that pay */
    TILE_BYTES = 384 << 10, /* of a tile's turned images, about: of a thread's cache */
    SUMMED_BYTES = 4 << 20, /* the same where threads share a tile */
    LEAST_ROWS = 64         /* of a product, where there are so many */
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

/* ---------------------------------------------------------------- where places lie */

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

/* ---------------------------------------------------------------- turning */

#define TURN_WEIGHTS(suffix, T)                                                                                                            \
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
FOR_FLOATS(TURN_WEIGHTS)

/* Image n of the tile that begins with image `first`: of x, or of y; into rows, or back. */
static void turn_image(const Taps *c, bool of_x, int64_t first, int64_t images, int64_t n, char *rows, bool back) {
    const Turn t = {of_x ? c->in_all : c->out_all, of_x ? c->in_places : c->out_places, images, n, of_x ? c->place : NULL};
    char *planes = (of_x ? c->x : c->y) + (first + n) * t.channels * t.places * c->item;
    turn(c->dtype, &t, planes, rows, back);
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

/* ---------------------------------------------------------------- products */

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

/* ---------------------------------------------------------------- calls */

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
bool is_by_taps(OpCode op, const Planes *p) {
    return p->images > 0 && p->in[0] * p->in[1] > 0 && p->out[0] * p->out[1] > 0 && p->window[0].size * p->window[1].size > 1 &&
           p->in_channels >= LEAST_CHANNELS && p->out_channels >= LEAST_CHANNELS && (op != OP_conv2d_grad_w || seen_share(p) < MOST_SHARE);
}

static void choose_tiles(Taps *c, int nthreads) {
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
    choose_tiles(c, call_most_threads(call));
}

bool taps_prepare(const KernelCall *call, Error *error) {
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

static void sum_weights(Pool *pool, Taps *c) {
    const int64_t grain = 1 + GRAIN / (c->in_all * c->in_places + c->out_all * c->out_places);
    for (c->first = 0; c->first < c->planes.images; c->first += c->images) {
        pool_run(pool, least(c->images, c->planes.images - c->first), grain, turn_part, c);
        pool_run(pool, c->planes.groups * c->blocks * c->nseen, 1, sums_part, c);
    }
}

bool taps(const KernelCall *call, Error *error) {
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
        if (sums) sum_weights(pool, &c);
        if (sums) pool_run(pool, c.out_all, grain, weights_part, &c);
    }
    free(c.weights);
    free(c.place);
    free(c.seen);
    if (c.no_memory) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    return multiplier_done(&c.by, error);
}
