/* onednnconvolve: conv2d and its gradients by oneDNN's convolutions of f32. These need channels in blocks of 16: a tile of images is reordered into blocks, convolved, and
 * its result reordered back, while all of it is in a thread's caches. The weights are reordered once, by all threads. Each group is a separate convolution.
 *
 * Threads divide the tiles. For the gradient of the weights they divide blocks of the input and output channels, and tiles too where there are few channels; each adds up its own block
 * tile by tile. Tiles and blocks depend only on shapes and the most threads of any process, so ranks that compute the same get the same bits. Taps that see only
 * padding, and elements that no tap sees, are left out.
 *
 * oneDNN 2.6's types come from its header: if prun is built without it, convolve.c computes everything. */
#include "runtime/cpu/cpu.h"

#ifndef PRUN_ONEDNN_CONVOLUTIONS

bool onednn_convolution(const KernelCall *call, const PlanesOf *of, const Convolution **convolution, Error *error) {
    (void)call, (void)of, (void)error;
    *convolution = NULL;
    return true;
}

bool onednn_convolve(const KernelCall *call, const PlanesOf *of, const Convolution *convolution, Error *error) {
    (void)call, (void)of, (void)convolution, (void)error;
    return false;
}

void onednn_free(Convolutions *convolutions) {
    (void)convolutions;
}

#else
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_CHANNELS = 16,    /* of a block of the result, and of x: fewer would be padded with zeros */
    MOST_FEW = 3,           /* but for at most so many oneDNN has special convolutions */
    TILE_BYTES = 512 << 10, /* about the bytes of x's and y's images in a tile: they should fit a thread's cache */
    SUMMED_BYTES = 4 << 20, /* the same where threads share a tile */
    LEAST_SUMMED = 1024,    /* fewest places of such a tile: a block's sums are added to those of earlier tiles */
    WORTH = 1 << 22,        /* fewest multiplications of a call: each takes milliseconds to prepare */
    LEAST_COLUMNS = 32,     /* fewest columns of a product on planes in place */
    FEW_PLACES = 8,         /* of a plane of results */
    PART = 1 << 16,         /* elements for which one more thread to reorder them pays */
    ALIGNED = 64
};

#define FUNCTIONS(X)                                                                                                                       \
    X(engine_create)                                                                                                                       \
    X(engine_destroy)                                                                                                                      \
    X(stream_create)                                                                                                                       \
    X(stream_destroy)                                                                                                                      \
    X(memory_desc_init_by_strides)                                                                                                         \
    X(memory_desc_init_by_tag)                                                                                                             \
    X(memory_desc_init_submemory)                                                                                                          \
    X(memory_desc_equal)                                                                                                                   \
    X(memory_desc_get_size)                                                                                                                \
    X(memory_create)                                                                                                                       \
    X(memory_destroy)                                                                                                                      \
    X(dilated_convolution_forward_desc_init)                                                                                               \
    X(dilated_convolution_backward_data_desc_init)                                                                                         \
    X(dilated_convolution_backward_weights_desc_init)                                                                                      \
    X(reorder_primitive_desc_create)                                                                                                       \
    X(primitive_attr_create)                                                                                                               \
    X(primitive_attr_destroy)                                                                                                              \
    X(primitive_attr_set_scratchpad_mode)                                                                                                  \
    X(primitive_desc_create)                                                                                                               \
    X(primitive_desc_destroy)                                                                                                              \
    X(primitive_desc_query)                                                                                                                \
    X(primitive_desc_query_md)                                                                                                             \
    X(primitive_create)                                                                                                                    \
    X(primitive_execute)                                                                                                                   \
    X(primitive_destroy)

typedef struct Functions {
#define FUNCTION(name) __typeof__(dnnl_##name) *name;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
} Functions;

/* The tensors of a convolution. */
enum { X, W, Y, NTENSORS };

/* How a tensor is reordered into oneDNN's layout, or back. */
typedef struct Move {
    dnnl_memory_desc_t plain, blocked;
    int64_t bytes;          /* in oneDNN's layout; 0: it is used in place */
    int nparts;             /* along the first dimension */
    dnnl_primitive_t *part; /* a reorder each */
} Move;

/* A convolution of some images, of one group and of blocks of its channels. */
typedef struct Tile {
    int64_t images;
    dnnl_primitive_t run;
    Move move[NTENSORS];
    dnnl_memory_desc_t room; /* scratchpad that it uses while it runs, */
    int64_t scratch;         /* and its bytes */
} Tile;

/* A tensor of the primitive in memory; offsets in elements. */
typedef struct View {
    int64_t extent[2];  /* of its planes, or its taps */
    int64_t strides[4]; /* between elements along each dimension, */
    int64_t first;      /* of the first that is not left out, */
    int64_t by_group;   /* between groups */
} View;

struct Convolution {
    OpCode op; /* with planes, the key */
    Planes planes;
    bool works;
    OpCode by;               /* whose primitive computes it: with few places the weights' gradient is a convolution itself */
    int64_t images, in, out; /* of the primitive: all images, one group's channels */
    int64_t stride[2], dilation[2], low[2], high[2];
    View view[NTENSORS];
    bool partial; /* elements of the result are left out: they are 0 */
    bool folded;  /* planes have one place: the images are treated as the places of one image */
    int64_t tile_images, tiles;
    int64_t in_blocks, out_blocks;      /* of a group's channels */
    int64_t together;                   /* for the weights' gradient: tiles that are computed at the same time */
    Tile tile, rest;                    /* rest: the last tile, if it has fewer images */
    int64_t shared_bytes, thread_bytes; /* memory shared by all threads, and of each thread */
};

struct Convolutions {
    Functions call;
    dnnl_engine_t engine;
    const Onednn *onednn;
    int n, nroom;
    Convolution **at;
    char *room; /* enough for the largest of them: allocating memory in each call would cost more than reordering */
    int64_t room_bytes;
};

/* ---------------------------------------------------------------- opening */

static Convolutions *convolutions_open(const Onednn *onednn) {
    Convolutions *all = calloc(1, sizeof *all);
    bool found = all != NULL;
#define FUNCTION(name) found = found && onednn_find(onednn, "dnnl_" #name, &all->call.name);
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    if (found && all->call.engine_create(&all->engine, dnnl_cpu, 0) == dnnl_success) {
        all->onednn = onednn;
        return all;
    }
    free(all);
    return NULL;
}

static void tile_free(const Functions *call, Tile *tile) {
    if (tile->run) call->primitive_destroy(tile->run);
    tile->run = NULL;
    for (int t = 0; t < NTENSORS; t++) {
        Move *move = &tile->move[t];
        for (int i = 0; i < move->nparts; i++)
            if (move->part[i]) call->primitive_destroy(move->part[i]);
        free(move->part);
        move->part = NULL, move->nparts = 0;
    }
}

static void convolution_free(const Functions *call, Convolution *c) {
    tile_free(call, &c->tile);
    tile_free(call, &c->rest);
}

void onednn_free(Convolutions *all) {
    if (!all) return;
    for (int i = 0; i < all->n; i++) {
        convolution_free(&all->call, all->at[i]);
        free(all->at[i]);
    }
    all->call.engine_destroy(all->engine);
    free(all->room);
    free(all->at);
    free(all);
}

/* ---------------------------------------------------------------- shapes */

/* Along a dimension: how many taps of the kernel and elements of x are left out at the beginning, and how many are kept. */
typedef struct Cropped {
    int64_t first_tap, taps, first, in, low, high;
} Cropped;

/* Leaves out taps that see nothing, and elements that no tap sees. stride: the primitive's; it skips fewer elements than that after the last one seen. False: no tap sees anything. */
static bool crop(const Planes *p, int d, int64_t stride, Cropped *crop) {
    const Window *w = &p->window[d];
    const int64_t out = p->out[d];
    int64_t tap = 0, last = w->size - 1, begin, end;
    for (seen_places(w, tap, p->in[d], out, &begin, &end); begin >= end && tap < last;)
        seen_places(w, ++tap, p->in[d], out, &begin, &end);
    if (begin >= end) return false;
    for (seen_places(w, last, p->in[d], out, &begin, &end); begin >= end;)
        seen_places(w, --last, p->in[d], out, &begin, &end);
    const int64_t low = w->low - tap * w->dilation, seen = (out - 1) * w->stride + (last - tap) * w->dilation + 1 - low;
    crop->first_tap = tap, crop->taps = last - tap + 1;
    crop->first = low < 0 ? -low : 0, crop->low = low > 0 ? low : 0;
    crop->in = (p->in[d] - seen < stride ? p->in[d] : seen) - crop->first;
    crop->high = seen - crop->first - crop->in;
    return crop->in > 0;
}

/* Whether the weights' gradient is computed as a convolution, where results are few: x's images and channels are swapped, dy is the kernel, stride and dilation are swapped. */
static bool is_by_convolution(OpCode op, const Planes *p) {
    return op == OP_conv2d_grad_w && p->in[0] * p->in[1] > 1 && p->out[0] * p->out[1] <= FEW_PLACES && p->images >= LEAST_CHANNELS &&
           p->in_channels >= LEAST_CHANNELS;
}

/* Swaps x's images and channels, and dy and the weights. */
static void swap(Convolution *c) {
    const int64_t images = c->images;
    const View w = c->view[W];
    c->images = c->in, c->in = images;
    c->view[W] = c->view[Y], c->view[Y] = w;
    for (int t = 0; t < NTENSORS; t++) {
        int64_t *strides = c->view[t].strides, first = strides[0];
        strides[0] = strides[1], strides[1] = first;
    }
}

/* Sets how the primitive sees the call's tensors. False: it would see nothing. */
static bool view(Convolution *c) {
    const Planes *p = &c->planes;
    const bool swapped = is_by_convolution(c->op, p);
    const int64_t x_plane = p->in[0] * p->in[1], y_plane = p->out[0] * p->out[1], taps = p->window[0].size * p->window[1].size;
    const int64_t x_image = p->groups * p->in_channels * x_plane, y_image = p->groups * p->out_channels * y_plane;
    Cropped at[2];
    for (int d = 0; d < 2; d++) {
        c->stride[d] = swapped ? p->window[d].dilation : p->window[d].stride;
        c->dilation[d] = swapped ? p->window[d].stride : p->window[d].dilation;
        if (!crop(p, d, c->stride[d], &at[d])) return false;
        c->low[d] = at[d].low, c->high[d] = at[d].high;
    }
    int64_t step[2] = {1, 1}; /* between elements that are seen */
    for (int d = 0; d < 2; d++)
        if (!swapped && at[d].taps == 1 && c->low[d] == 0 && c->high[d] <= 0) {
            step[d] = c->stride[d];
            at[d].in = p->out[d], c->stride[d] = 1, c->high[d] = 0;
        }
    c->by = swapped ? OP_conv2d : c->op;
    c->images = p->images, c->in = p->in_channels, c->out = p->out_channels;
    c->view[X] = (View){
        {at[0].in, at[1].in}, {x_image, x_plane, step[0] * p->in[1], step[1]}, at[0].first * p->in[1] + at[1].first, c->in * x_plane};
    c->view[W] = (View){{at[0].taps, at[1].taps},
                        {c->in * taps, taps, p->window[1].size, 1},
                        at[0].first_tap * p->window[1].size + at[1].first_tap,
                        c->out * c->in * taps};
    c->view[Y] = (View){{p->out[0], p->out[1]}, {y_image, y_plane, p->out[1], 1}, 0, c->out * y_plane};
    c->partial =
        (c->op == OP_conv2d_grad_x && at[0].in * at[1].in < x_plane) || (c->op == OP_conv2d_grad_w && at[0].taps * at[1].taps < taps);
    if (swapped) swap(c);
    c->folded = true;
    for (int t = 0; t < NTENSORS; t++)
        c->folded = c->folded && c->view[t].extent[0] * c->view[t].extent[1] == 1;
    return true;
}

/* The most blocks, at most `most`, of whole vectors into which channels divide evenly. */
static int64_t blocks_of(int64_t channels, int64_t most) {
    for (int64_t blocks = least(most, channels / LEAST_CHANNELS); blocks > 1; blocks--)
        if (channels % (blocks * LEAST_CHANNELS) == 0) return blocks;
    return 1;
}

/* For the weights' gradient: about as many blocks of x's channels as of y's, so that threads share the reordering of both. */
static void choose_blocks(Convolution *c, int nthreads) {
    int64_t in = 1;
    while ((in + 1) * (in + 1) <= nthreads)
        in++;
    while (nthreads % in > 0)
        in--;
    c->in_blocks = blocks_of(c->in, in);
    c->out_blocks = blocks_of(c->out, nthreads / c->in_blocks);
    c->in_blocks = blocks_of(c->in, nthreads / c->out_blocks);
}

static void choose_tiles(Convolution *c, int nthreads) {
    const int64_t places = c->view[Y].extent[0] * c->view[Y].extent[1];
    const int64_t each = (c->in * c->view[X].extent[0] * c->view[X].extent[1] + c->out * places) * (int64_t)sizeof(float);
    c->in_blocks = c->out_blocks = c->together = 1;
    int64_t most = parts_of(c->images, nthreads), images = TILE_BYTES / each;
    if (c->by == OP_conv2d_grad_w) {
        choose_blocks(c, nthreads);
        c->together = nthreads / (c->in_blocks * c->out_blocks);
        most = parts_of(c->images, c->together), images = SUMMED_BYTES / each;
        if (images < parts_of(LEAST_SUMMED, places)) images = parts_of(LEAST_SUMMED, places);
    }
    images = images < 1 ? 1 : least(images, most);
    c->tile_images = parts_of(most, parts_of(most, images)); /* evenly */
    c->tiles = parts_of(c->images, c->tile_images);
    c->together = least(c->together, c->tiles);
}

/* Whether oneDNN pays: channels fill vectors, and all threads have work. */
static bool is_worth(OpCode op, const Planes *p, int nthreads) {
    if (planes_are_columns(p) && p->out[0] * p->out[1] >= LEAST_COLUMNS) return false; /* convolve.c then copies nothing */
    const bool few = p->in_channels <= MOST_FEW && p->groups == 1 && op != OP_conv2d_grad_x;
    return p->out_channels >= LEAST_CHANNELS && (p->in_channels >= LEAST_CHANNELS || few) &&
           (op == OP_conv2d_grad_w || p->images * p->groups >= nthreads);
}

/* ---------------------------------------------------------------- primitives */

/* Describes to oneDNN the tensors of a tile of `images` images: as they lie in memory; any: in a layout of its choice. */
static void describe(const Functions *call, const Convolution *c, int64_t images, dnnl_memory_desc_t tensor[NTENSORS], bool any) {
    const int64_t in = c->in / c->in_blocks, out = c->out / c->out_blocks, channels[NTENSORS][2] = {{images, in}, {out, in}, {images, out}};
    for (int t = 0; t < NTENSORS; t++) {
        dnnl_dims_t dims = {channels[t][0], channels[t][1], c->view[t].extent[0], c->view[t].extent[1]}, strides;
        memcpy(strides, c->view[t].strides, sizeof c->view[t].strides);
        if (c->folded && t != W) dims[0] = 1, dims[3] = images, strides[3] = strides[0], strides[0] *= images, strides[2] = strides[0];
        if (any)
            call->memory_desc_init_by_tag(&tensor[t], 4, dims, dnnl_f32, dnnl_format_tag_any);
        else
            call->memory_desc_init_by_strides(&tensor[t], 4, dims, dnnl_f32, strides);
    }
}

/* Whether oneDNN has generated code for the convolution. Where it falls back on generic loops or on products, it is slower than convolve.c. */
static bool is_fast(const Functions *call, dnnl_primitive_desc_t description) {
    const char *name = "";
    return call->primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           (strncmp(name, "jit", 3) == 0 || strncmp(name, "brg", 3) == 0);
}

static dnnl_primitive_desc_t describe_run(const Convolutions *all, const Convolution *c, int64_t images) {
    const Functions *call = &all->call;
    const dnnl_dims_t strides = {c->folded ? 1 : c->stride[0], c->folded ? 1 : c->stride[1]},
                      dilation = {c->dilation[0] - 1, c->dilation[1] - 1};
    const dnnl_dims_t low = {c->low[0], c->low[1]}, high = {c->high[0], c->high[1]};
    dnnl_memory_desc_t d[NTENSORS];
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL, description = NULL;
    describe(call, c, images, d, true);
    bool ok = call->primitive_attr_create(&attr) == dnnl_success &&
              call->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success &&
              call->dilated_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_direct, &d[X], &d[W], NULL,
                                                          &d[Y], strides, dilation, low, high) == dnnl_success &&
              call->primitive_desc_create(&hint, &forward, attr, all->engine, NULL) == dnnl_success;
    if (ok && c->by == OP_conv2d_grad_x)
        ok = call->dilated_convolution_backward_data_desc_init(&backward, dnnl_convolution_direct, &d[X], &d[W], &d[Y], strides, dilation,
                                                               low, high) == dnnl_success;
    if (ok && c->by == OP_conv2d_grad_w)
        ok = call->dilated_convolution_backward_weights_desc_init(&backward, dnnl_convolution_direct, &d[X], &d[W], NULL, &d[Y], strides,
                                                                  dilation, low, high) == dnnl_success;
    if (ok && c->by != OP_conv2d) ok = call->primitive_desc_create(&description, &backward, attr, all->engine, hint) == dnnl_success;
    if (c->by == OP_conv2d) description = hint, hint = NULL;
    if (hint) call->primitive_desc_destroy(hint);
    if (attr) call->primitive_attr_destroy(attr);
    if (ok && is_fast(call, description)) return description;
    if (description) call->primitive_desc_destroy(description);
    return NULL;
}

static bool open_reorder(const Convolutions *all, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, dnnl_primitive_t *reorder) {
    dnnl_primitive_desc_t description = NULL;
    if (all->call.reorder_primitive_desc_create(&description, from, all->engine, to, all->engine, NULL) != dnnl_success) return false;
    const bool ok = all->call.primitive_create(reorder, description) == dnnl_success;
    all->call.primitive_desc_destroy(description);
    return ok;
}

/* Part i of nparts along the first dimension. */
static bool part_of(const Functions *call, const dnnl_memory_desc_t *whole, int i, int nparts, dnnl_memory_desc_t *part) {
    dnnl_dims_t dims, offsets = {0};
    memcpy(dims, whole->dims, sizeof dims);
    dims[0] = whole->dims[0] / nparts, offsets[0] = i * dims[0];
    return call->memory_desc_init_submemory(part, whole, dims, offsets) == dnnl_success;
}

/* back: out of oneDNN's layout. own: the tensor has memory of its own even if both layouts are equal. */
static bool open_move(const Convolutions *all, Move *move, int64_t nparts, bool back, bool own) {
    const Functions *call = &all->call;
    if (!own && call->memory_desc_equal(&move->plain, &move->blocked)) return true;
    move->bytes = (int64_t)call->memory_desc_get_size(&move->blocked);
    move->nparts = (int)blocks_of(move->plain.dims[0], nparts);
    move->part = calloc((size_t)move->nparts, sizeof(dnnl_primitive_t));
    for (int i = 0; i < move->nparts; i++) {
        dnnl_memory_desc_t plain, blocked;
        if (!move->part || !part_of(call, &move->plain, i, move->nparts, &plain) ||
            !part_of(call, &move->blocked, i, move->nparts, &blocked) ||
            !open_reorder(all, back ? &blocked : &plain, back ? &plain : &blocked, &move->part[i]))
            return false;
    }
    return true;
}

/* The tensor that the primitive computes. */
static int result_of(const Convolution *c) {
    return c->by == OP_conv2d ? Y : c->by == OP_conv2d_grad_x ? X : W;
}

static bool open_tile(const Convolutions *all, const Convolution *c, int64_t images, int nthreads, Tile *tile) {
    const Functions *call = &all->call;
    const dnnl_query_t query[] = {c->by == OP_conv2d_grad_x ? dnnl_query_diff_src_md : dnnl_query_src_md,
                                  c->by == OP_conv2d_grad_w ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
                                  c->by == OP_conv2d ? dnnl_query_dst_md : dnnl_query_diff_dst_md};
    dnnl_primitive_desc_t description = describe_run(all, c, images);
    if (!description) return false;
    dnnl_memory_desc_t plain[NTENSORS];
    describe(call, c, images, plain, false);
    bool ok = call->primitive_create(&tile->run, description) == dnnl_success;
    const dnnl_memory_desc_t *scratch = call->primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    tile->images = images;
    if (scratch) tile->room = *scratch, tile->scratch = (int64_t)call->memory_desc_get_size(scratch);
    for (int t = 0; ok && t < NTENSORS; t++) {
        const dnnl_memory_desc_t *blocked = call->primitive_desc_query_md(description, query[t], 0);
        const bool sums = c->by == OP_conv2d_grad_w, shared = t == W && !sums;
        const int64_t elements = c->out * c->in * c->view[W].extent[0] * c->view[W].extent[1];
        ok = blocked != NULL;
        if (!ok) break;
        tile->move[t].plain = plain[t], tile->move[t].blocked = *blocked;
        ok = open_move(all, &tile->move[t], shared ? least(nthreads, 1 + elements / PART) : 1, t == result_of(c), t == W && sums);
    }
    call->primitive_desc_destroy(description);
    return ok;
}

/* Whether both tiles can share the weights and the memory for reordered tensors. */
static bool fits(const Convolutions *all, const Tile *rest, const Tile *tile) {
    return all->call.memory_desc_equal(&tile->move[W].blocked, &rest->move[W].blocked) && rest->move[X].bytes <= tile->move[X].bytes &&
           rest->move[Y].bytes <= tile->move[Y].bytes;
}

static bool open_tiles(const Convolutions *all, Convolution *c, int nthreads) {
    const int64_t rest = c->images - (c->tiles - 1) * c->tile_images;
    all->onednn->set_threads(1); /* a primitive is made for a number of threads */
    return open_tile(all, c, c->tile_images, nthreads, &c->tile) &&
           (rest == c->tile_images || (open_tile(all, c, rest, nthreads, &c->rest) && fits(all, &c->rest, &c->tile)));
}

static int64_t aligned(int64_t bytes) {
    return parts_of(bytes, ALIGNED) * ALIGNED;
}

/* Computes the memory shared by all threads and that of each; the memory of all convolutions grows if needed. */
static bool make_room(Convolutions *all, Convolution *c, int nthreads, Error *error) {
    const int64_t x = aligned(c->tile.move[X].bytes), w = aligned(c->tile.move[W].bytes), y = aligned(c->tile.move[Y].bytes);
    const int64_t scratch = aligned(c->rest.scratch > c->tile.scratch ? c->rest.scratch : c->tile.scratch);
    if (c->by == OP_conv2d_grad_w) {
        c->shared_bytes = c->together * (c->in_blocks * c->out_blocks * w + c->in_blocks * x + c->out_blocks * y);
        c->thread_bytes = w + scratch;
    } else {
        c->shared_bytes = c->planes.groups * w;
        c->thread_bytes = x + y + scratch;
    }
    const int64_t bytes = c->shared_bytes + nthreads * c->thread_bytes;
    if (bytes <= all->room_bytes) return true;
    free(all->room);
    all->room = aligned_alloc(ALIGNED, (size_t)bytes);
    all->room_bytes = all->room ? bytes : 0;
    return all->room || error_set(error, EXIT_ENVIRONMENT, "cannot allocate %lld bytes for a convolution", (long long)bytes);
}

static Convolution *find(const Convolutions *all, OpCode op, const Planes *planes) {
    for (int i = 0; i < all->n; i++)
        if (all->at[i]->op == op && memcmp(&all->at[i]->planes, planes, sizeof *planes) == 0) return all->at[i];
    return NULL;
}

static Convolution *add(Convolutions *all, OpCode op, const Planes *planes) {
    if (all->n == all->nroom) {
        const int nroom = all->nroom > 0 ? 2 * all->nroom : 16;
        Convolution **at = realloc(all->at, (size_t)nroom * sizeof(Convolution *));
        if (!at) return NULL;
        all->at = at, all->nroom = nroom;
    }
    Convolution *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->op = op, c->planes = *planes;
    return all->at[all->n++] = c;
}

bool onednn_convolution(const KernelCall *call, const PlanesOf *of, const Convolution **convolution, Error *error) {
    CpuContext *context = call->context;
    const Planes *p = &of->planes;
    const int nthreads = call_most_threads(call);
    const double work = (double)(p->images * p->groups * p->out[0] * p->out[1]) * (double)(p->in_channels * p->out_channels) *
                        (double)(p->window[0].size * p->window[1].size);
    *convolution = NULL;
    if (of->x->dtype != F32 || !context || work < WORTH || !is_worth(call->op, p, nthreads)) return true;
    const Onednn *onednn;
    if (!onednn_for(context, &onednn, error)) return false;
    if (!onednn || (!context->convolutions && !(context->convolutions = convolutions_open(onednn)))) return true;
    Convolution *c = find(context->convolutions, call->op, p);
    if (!c) {
        c = add(context->convolutions, call->op, p);
        if (!c) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
        c->works = view(c);
        if (c->works) choose_tiles(c, nthreads);
        c->works = c->works && open_tiles(context->convolutions, c, nthreads);
        if (!c->works) convolution_free(&context->convolutions->call, c);
        if (c->works && !make_room(context->convolutions, c, pool_threads(context->pool), error)) return false;
    }
    if (c->works) *convolution = c;
    return true;
}

/* ---------------------------------------------------------------- running */

typedef struct Run {
    const Convolutions *all;
    const Convolution *c;
    char *at[NTENSORS]; /* the operands and the result */
    char *weights;      /* in oneDNN's layout: of all groups, or of the blocks of a gradient */
    char *rows[2];      /* x and y of a round's tiles, block by block */
    char *threads;      /* memory of each thread */
    int64_t group, first;
    atomic_int begun; /* ranges begun; each takes the next thread's memory */
    atomic_bool failed;
} Run;

static const Tile *tile_at(const Convolution *c, int64_t i) {
    return i == c->tiles - 1 && c->rest.run ? &c->rest : &c->tile;
}

/* Where tensor t of a tile, or its block of channels, begins in the operands and the result. */
static char *plain_at(const Run *r, int t, int64_t tile, int64_t group, int64_t in_block, int64_t out_block) {
    const Convolution *c = r->c;
    const int64_t image = tile * c->tile_images, in = in_block * (c->in / c->in_blocks), out = out_block * (c->out / c->out_blocks);
    const int64_t index[NTENSORS][2] = {{image, in}, {out, in}, {image, out}};
    return r->at[t] +
           (c->view[t].first + group * c->view[t].by_group + index[t][0] * c->view[t].strides[0] + index[t][1] * c->view[t].strides[1]) *
               (int64_t)sizeof(float);
}

/* Executes a primitive on the calling thread on n tensors, with their kinds, layouts and addresses. */
static bool execute(const Run *r, dnnl_primitive_t primitive, int n, const int *kind, const dnnl_memory_desc_t *const *form,
                    void *const *at) {
    const Functions *call = &r->all->call;
    dnnl_exec_arg_t arg[NTENSORS + 1] = {0};
    dnnl_stream_t stream = NULL;
    bool ok = call->stream_create(&stream, r->all->engine, dnnl_stream_default_flags) == dnnl_success;
    for (int i = 0; i < n; i++) {
        arg[i].arg = kind[i];
        ok = ok && call->memory_create(&arg[i].memory, form[i], r->all->engine, at[i]) == dnnl_success;
    }
    ok = ok && call->primitive_execute(primitive, stream, n, arg) == dnnl_success;
    for (int i = 0; i < n; i++)
        if (arg[i].memory) call->memory_destroy(arg[i].memory);
    if (stream) call->stream_destroy(stream);
    return ok;
}

static bool reorder(const Run *r, const Move *move, int part, char *plain, char *blocked, bool back) {
    const int kind[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
    if (back)
        return execute(r, move->part[part], 2, kind, (const dnnl_memory_desc_t *[]){&move->blocked, &move->plain},
                       (void *[]){blocked, plain});
    return execute(r, move->part[part], 2, kind, (const dnnl_memory_desc_t *[]){&move->plain, &move->blocked}, (void *[]){plain, blocked});
}

static bool convolve_tile(const Run *r, const Tile *tile, char *const at[NTENSORS], char *scratch) {
    const OpCode op = r->c->by;
    const int kind[] = {op == OP_conv2d_grad_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
                        op == OP_conv2d_grad_w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                        op == OP_conv2d ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD};
    const dnnl_memory_desc_t *form[] = {&tile->move[X].blocked, &tile->move[W].blocked, &tile->move[Y].blocked, &tile->room};
    return execute(r, tile->run, tile->scratch > 0 ? 4 : 3, kind, form, (void *[]){at[X], at[W], at[Y], scratch});
}

/* Reorders the weights. Ranges are of groups and parts of their weights. */
static void weights_part(void *context, int64_t begin, int64_t end) {
    Run *r = context;
    const Move *move = &r->c->tile.move[W];
    r->all->onednn->set_threads(1);
    for (int64_t i = begin; i < end; i++) {
        const int64_t group = i / move->nparts;
        if (!reorder(r, move, (int)(i % move->nparts), plain_at(r, W, 0, group, 0, 0), r->weights + group * aligned(move->bytes), false))
            r->failed = true;
    }
}

static char *room_of_thread(Run *r) {
    return r->threads + atomic_fetch_add(&r->begun, 1) * r->c->thread_bytes;
}

/* Zeros the gradient of x, of which what no tap sees is 0. */
static void clear_unseen(const Run *r, int64_t tile, int64_t group) {
    const Convolution *c = r->c;
    const int64_t bytes = c->view[X].by_group * (int64_t)sizeof(float);
    for (int64_t image = tile * c->tile_images; image < tile * c->tile_images + tile_at(c, tile)->images; image++)
        memset(r->at[X] + (image * c->planes.groups + group) * bytes, 0, (size_t)bytes);
}

/* Computes tiles of y or of the gradient of x. Ranges are of tiles and their groups. */
static void tiles_part(void *context, int64_t begin, int64_t end) {
    Run *r = context;
    const Convolution *c = r->c;
    const int result = result_of(c), operand = result == Y ? X : Y;
    const Tile *largest = &c->tile;
    const int64_t x = aligned(largest->move[X].bytes), y = aligned(largest->move[Y].bytes), w = aligned(largest->move[W].bytes);
    char *room = room_of_thread(r);
    r->all->onednn->set_threads(1); /* OpenMP's, on this thread: we divide the work ourselves */
    for (int64_t i = begin; i < end; i++) {
        const int64_t group = i % c->planes.groups, k = i / c->planes.groups;
        const Tile *tile = tile_at(c, k);
        const Move *into = &tile->move[operand], *back = &tile->move[result];
        char *plain[] = {plain_at(r, X, k, group, 0, 0), plain_at(r, W, k, group, 0, 0), plain_at(r, Y, k, group, 0, 0)};
        char *at[] = {tile->move[X].bytes > 0 ? room : plain[X], w > 0 ? r->weights + group * w : plain[W],
                      tile->move[Y].bytes > 0 ? room + x : plain[Y]};
        if (result == X && c->partial) clear_unseen(r, k, group);
        if ((into->bytes > 0 && !reorder(r, into, 0, plain[operand], at[operand], false)) || !convolve_tile(r, tile, at, room + x + y) ||
            (back->bytes > 0 && !reorder(r, back, 0, plain[result], at[result], true)))
            r->failed = true;
    }
}

/* Where a channel block of tensor t (x or y) of a round's tile n begins for the primitive. */
static char *rows_at(const Run *r, int t, int64_t n, int64_t block) {
    const Convolution *c = r->c;
    if (tile_at(c, r->first + n)->move[t].bytes == 0) return plain_at(r, t, r->first + n, r->group, block, block);
    return r->rows[t == Y] + (n * (t == Y ? c->out_blocks : c->in_blocks) + block) * aligned(c->tile.move[t].bytes);
}

/* Reorders x and y. Ranges are of a round's tiles, and of the blocks of x's and y's channels. */
static void rows_part(void *context, int64_t begin, int64_t end) {
    Run *r = context;
    const Convolution *c = r->c;
    const int64_t blocks = c->in_blocks + c->out_blocks;
    r->all->onednn->set_threads(1);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / blocks, at = i % blocks, block = at < c->in_blocks ? at : at - c->in_blocks;
        const int t = at < c->in_blocks ? X : Y;
        const Move *move = &tile_at(c, r->first + n)->move[t];
        char *plain = plain_at(r, t, r->first + n, r->group, block, block);
        if (move->bytes > 0 && !reorder(r, move, 0, plain, rows_at(r, t, n, block), false)) r->failed = true;
    }
}

static void add_floats(float *restrict sum, const float *restrict more, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        sum[i] += more[i];
}

/* Computes what each tile adds to the weights. Ranges are of a round's tiles, and of blocks of the weights. */
static void sums_part(void *context, int64_t begin, int64_t end) {
    Run *r = context;
    const Convolution *c = r->c;
    const int64_t weights = aligned(c->tile.move[W].bytes), blocks = c->in_blocks * c->out_blocks;
    char *room = room_of_thread(r);
    r->all->onednn->set_threads(1);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / blocks, in = i % blocks / c->out_blocks, out = i % c->out_blocks;
        char *sums = r->weights + i * weights, *at[] = {rows_at(r, X, n, in), r->first == 0 ? sums : room, rows_at(r, Y, n, out)};
        if (!convolve_tile(r, tile_at(c, r->first + n), at, room + weights)) r->failed = true;
        if (r->first > 0) add_floats((float *)sums, (const float *)room, weights / (int64_t)sizeof(float));
    }
}

/* Adds up the sums of the tiles computed together, and reorders them into the result. Ranges are of blocks of the weights. */
static void blocks_part(void *context, int64_t begin, int64_t end) {
    Run *r = context;
    const Convolution *c = r->c;
    const Move *move = &c->tile.move[W];
    const int64_t weights = aligned(c->tile.move[W].bytes), blocks = c->in_blocks * c->out_blocks;
    r->all->onednn->set_threads(1);
    for (int64_t i = begin; i < end; i++) {
        char *sums = r->weights + i * weights, *plain = plain_at(r, W, 0, r->group, i / c->out_blocks, i % c->out_blocks);
        for (int64_t n = 1; n < c->together; n++)
            add_floats((float *)sums, (const float *)(sums + n * blocks * weights), weights / (int64_t)sizeof(float));
        if (!reorder(r, move, 0, plain, sums, true)) r->failed = true;
    }
}

static void sum_weights(Run *r, Pool *pool) {
    const Convolution *c = r->c;
    const int64_t blocks = c->in_blocks * c->out_blocks;
    for (r->group = 0; r->group < c->planes.groups; r->group++) {
        for (r->first = 0; r->first < c->tiles; r->first += c->together) {
            const int64_t n = least(c->together, c->tiles - r->first);
            pool_run(pool, n * (c->in_blocks + c->out_blocks), 1, rows_part, r);
            r->begun = 0;
            pool_run(pool, n * blocks, 1, sums_part, r);
        }
        pool_run(pool, blocks, 1, blocks_part, r);
    }
}

bool onednn_convolve(const KernelCall *call, const PlanesOf *of, const Convolution *c, Error *error) {
    const CpuContext *context = call->context;
    const int64_t x = c->together * c->in_blocks * aligned(c->tile.move[X].bytes),
                  w = c->together * c->in_blocks * c->out_blocks * aligned(c->tile.move[W].bytes);
    char *room = context->convolutions->room;
    Run r = {.all = context->convolutions, .c = c, .at = {of->x->data, of->w->data, of->y->data}};
    if (c->by != c->op) r.at[W] = of->y->data, r.at[Y] = of->w->data;
    r.weights = room, r.rows[0] = room + w, r.rows[1] = room + w + x, r.threads = room + c->shared_bytes;
    if (c->partial && c->op == OP_conv2d_grad_w) memset(of->w->data, 0, (size_t)operand_bytes(of->w));
    if (c->by == OP_conv2d_grad_w) {
        sum_weights(&r, call_pool(call));
    } else {
        pool_run(call_pool(call), c->planes.groups * c->tile.move[W].nparts, 1, weights_part, &r);
        pool_run(call_pool(call), c->planes.groups * c->tiles, 1, tiles_part, &r);
    }
    return !r.failed || error_set(error, EXIT_ENVIRONMENT, "oneDNN could not compute a convolution");
}

#endif
