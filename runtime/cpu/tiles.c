/* tiles: matrix products of f32 in tiles that stay in registers (tileloops.c). The right matrix is packed into panels, shared by all threads, which take rows of tiles of
 * the result; what follows the product meets its rows while they are in the cache. The depth is cut at multiples of DEPTH whatever the shapes, so that digits depend
 * neither on the number of threads nor on which rows and columns a rank holds. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

enum {
    DEPTH = 384,         /* steps added up in registers: of each a panel's stay in the first cache */
    BLOCK_ROWS = 144,    /* of the left matrix, which stay in the second; a multiple of any tile's */
    SHARED_DEPTH = 1152, /* of the panels that threads share: a multiple of DEPTH */
    SHARED_COLUMNS = 1024,
    OWN_PANELS = 1 << 16, /* elements of the right matrix that a thread packs for itself */
    FEW_COLUMNS = 64,     /* so few do not repay that the left matrix is packed */
    FAR_ROWS = 1024,      /* elements between rows of which few stay in a cache, as they meet in its sets */
    TILES_EACH = 4,       /* rows of tiles that a thread should have, or columns are divided, too */
};

/* One product, or a part of it, by strides in elements. */
typedef struct Multiply {
    int64_t m, n, k;
    const float *a, *b;
    int64_t a_row, a_depth, b_depth, b_column;
    float *out;
    int64_t out_row;
    bool add; /* to what the result has */
} Multiply;

typedef struct Tiles {
    const TileLoops *loops;
    const ProductShape *shape;
    const float *a, *b;
    float *out;
    ProductPartFn *after; /* NULL: none */
    void *context;        /* after's */
    Multiply part;        /* that threads share now */
    bool last;            /* of those that add up to the result */
    float *panels;        /* of its right matrix */
    int64_t groups;       /* of its columns */
} Tiles;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---------------------------------------------------------------- within a thread */

/* Panels [begin, end) of those of all steps, DEPTH of them at a time. */
static void pack_panels(const TileLoops *loops, const Multiply *x, int64_t begin, int64_t end, float *panels) {
    const int64_t across = parts_of(x->n, loops->columns);
    for (int64_t i = begin, count; i < end; i += count) {
        const int64_t p = i / across * DEPTH, k = least(x->k - p, DEPTH), column = i % across * loops->columns;
        count = least(end - i, across - i % across);
        loops->pack_columns(k, least(x->n - column, count * loops->columns), x->b + p * x->b_depth + column * x->b_column, x->b_depth,
                            x->b_column, panels + (p * across * loops->columns) + column * k);
    }
}

/* Rows [row, row + m) and columns [column, column + n) of the result, from these steps on. m: at most BLOCK_ROWS; column: where a panel begins. */
static void multiply_steps(const TileLoops *loops, const Multiply *x, int64_t row, int64_t m, int64_t column, int64_t n, int64_t p,
                           const float *panels) {
    alignas(64) float packed[BLOCK_ROWS * DEPTH];
    const int64_t k = least(x->k - p, DEPTH);
    const float *a = x->a + row * x->a_row + p * x->a_depth;
    int64_t a_row = x->a_row, a_depth = x->a_depth, tile_step = a_row * loops->rows;
    if (n > FEW_COLUMNS && a_row == 1 && a_depth != 1) {
        loops->pack_rows(k, m, a, a_depth, a_row, packed);
        a = packed;
        a_depth = loops->rows;
        tile_step = k * loops->rows;
    } else if (n > FEW_COLUMNS && a_row >= FAR_ROWS) {
        for (int64_t i = 0; i < m; i++)
            memcpy(packed + i * k, a + i * a_row, (size_t)k * sizeof *packed);
        a = packed;
        a_row = k;
        tile_step = k * loops->rows;
    }
    const int64_t panel = k * loops->columns,
                  piece = parts_of(panel, parts_of(m, loops->rows)); /* of the next panel, fetched during a tile */
    for (int64_t j = column; j < column + n; j += loops->columns)
        for (int64_t i = 0; i < m; i += loops->rows) {
            if (j + loops->columns < column + n) loops->fetch(panels + j * k + panel + i / loops->rows * piece, piece);
            loops->tile[least(m - i, loops->rows) - 1](k, a + i / loops->rows * tile_step, a_row, a_depth, panels + j * k,
                                                       x->out + (row + i) * x->out_row + j, x->out_row,
                                                       (int)least(x->n - j, loops->columns), x->add || p > 0);
        }
}

static void multiply_block(const TileLoops *loops, const Multiply *x, int64_t row, int64_t m, int64_t column, int64_t n,
                           const float *panels) {
    const int64_t padded = parts_of(x->n, loops->columns) * loops->columns;
    for (int64_t p = 0; p < x->k; p += DEPTH)
        multiply_steps(loops, x, row, m, column, n, p, panels + p * padded);
}

static void hand_over(const Tiles *tiles, const Multiply *x, int64_t row, int64_t m, int64_t column, int64_t n) {
    if (tiles->after) tiles->after(tiles->context, x->out - tiles->out + row * x->out_row + column, m, n, x->out_row);
}

/* ---------------------------------------------------------------- products of a batch */

/* Product `item` of the batch, of what adds up to it number `term`. */
static Multiply multiply_of(const Tiles *tiles, int64_t item, int64_t term) {
    const ProductShape *shape = tiles->shape;
    const Gemm *g = &shape->gemm;
    const int left = g->swapped ? B : A, right = g->swapped ? A : B;
    const float *base[2] = {tiles->a, tiles->b};
    int64_t at[MAX_NEST], in[MAX_NEST];
    nest_offsets(&shape->batch, shape->batch.ndim, item, at);
    nest_offsets(&shape->depth, shape->depth.ndim, term, in);
    return (Multiply){
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .a = base[left] + at[left] + in[left],
        .b = base[right] + at[right] + in[right],
        .a_row = g->a.transposed ? 1 : g->a.leading,
        .a_depth = g->a.transposed ? g->a.leading : 1,
        .b_depth = g->b.transposed ? 1 : g->b.leading,
        .b_column = g->b.transposed ? g->b.leading : 1,
        .out = tiles->out + at[OUT],
        .out_row = g->out_leading,
        .add = term > 0,
    };
}

static int64_t nterms(const ProductShape *shape) {
    return nest_count(&shape->depth, 0, shape->depth.ndim);
}

/* Whole products, each by one thread. */
static void own_products(void *context, int64_t begin, int64_t end) {
    const Tiles *tiles = context;
    alignas(64) float panels[OWN_PANELS];
    for (int64_t item = begin; item < end; item++)
        for (int64_t term = 0; term < nterms(tiles->shape); term++) {
            const Multiply x = multiply_of(tiles, item, term);
            pack_panels(tiles->loops, &x, 0, parts_of(x.n, tiles->loops->columns) * parts_of(x.k, DEPTH), panels);
            for (int64_t row = 0, m; row < x.m; row += m) {
                m = least(x.m - row, BLOCK_ROWS);
                multiply_block(tiles->loops, &x, row, m, 0, x.n, panels);
                if (term + 1 == nterms(tiles->shape)) hand_over(tiles, &x, row, m, 0, x.n);
            }
        }
}

/* ---------------------------------------------------------------- one product by all threads */

static void shared_panels(void *context, int64_t begin, int64_t end) {
    const Tiles *tiles = context;
    pack_panels(tiles->loops, &tiles->part, begin, end, tiles->panels);
}

/* Items: rows of tiles of a group of columns, group after group. */
static void shared_rows(void *context, int64_t begin, int64_t end) {
    const Tiles *tiles = context;
    const Multiply *x = &tiles->part;
    const int64_t height = tiles->loops->rows, rows = parts_of(x->m, height), width = tiles->loops->columns;
    const int64_t each = parts_of(parts_of(x->n, width), tiles->groups) * width;
    for (int64_t i = begin, count; i < end; i += count) {
        const int64_t row = i % rows * height, column = i / rows * each, n = least(x->n - column, each);
        count = least(least(end - i, rows - i % rows), BLOCK_ROWS / height);
        const int64_t m = least(x->m - row, count * height);
        if (n <= 0) continue;
        multiply_block(tiles->loops, x, row, m, column, n, tiles->panels);
        if (tiles->last) hand_over(tiles, x, row, m, column, n);
    }
}

/* A part of the columns and of the depth of a product. */
static void share_part(Tiles *tiles, Pool *pool, const Multiply *whole, int64_t column, int64_t p) {
    Multiply *x = &tiles->part;
    *x = *whole;
    x->n = least(whole->n - column, SHARED_COLUMNS);
    x->k = least(whole->k - p, SHARED_DEPTH);
    x->a += p * x->a_depth;
    x->b += p * x->b_depth + column * x->b_column;
    x->out += column;
    x->add |= p > 0;
    const int64_t rows = parts_of(x->m, tiles->loops->rows), panels = parts_of(x->n, tiles->loops->columns),
                  enough = TILES_EACH * pool_threads(pool);
    tiles->groups = rows >= enough ? 1 : least(parts_of(enough, rows), panels);
    pool_run(pool, panels * parts_of(x->k, DEPTH), 1 + GRAIN / (least(x->k, DEPTH) * tiles->loops->columns), shared_panels, tiles);
    pool_run(pool, rows * tiles->groups, 1, shared_rows, tiles);
}

static void share_product(Tiles *tiles, Pool *pool, int64_t item) {
    const Gemm *g = &tiles->shape->gemm;
    for (int64_t column = 0; column < g->n; column += SHARED_COLUMNS)
        for (int64_t term = 0; term < nterms(tiles->shape); term++)
            for (int64_t p = 0; p < g->k; p += SHARED_DEPTH) {
                const Multiply whole = multiply_of(tiles, item, term);
                tiles->last = term + 1 == nterms(tiles->shape) && p + SHARED_DEPTH >= g->k;
                share_part(tiles, pool, &whole, column, p);
            }
}

/* ---------------------------------------------------------------- */

bool tiles_prepare(const KernelCall *call, Error *error) {
    CpuContext *cpu = call->context;
    void *panels = NULL;
    if (cpu->panels) return true;
    if (posix_memalign(&panels, 64, sizeof(float) * SHARED_DEPTH * SHARED_COLUMNS))
        return error_set(error, EXIT_ENVIRONMENT, "out of memory for matrix products");
    cpu->panels = panels;
    return true;
}

bool tiles_run(const KernelCall *call, const ProductShape *shape, ProductPartFn *after, void *context, Error *error) {
    CpuContext *cpu = call->context;
    Tiles tiles = {.loops = tile_loops(),
                   .shape = shape,
                   .a = call->in[0].data,
                   .b = call->in[1].data,
                   .out = call->out[0].data,
                   .after = after,
                   .context = context};
    const Gemm *g = &shape->gemm;
    const int64_t items = nest_count(&shape->batch, 0, shape->batch.ndim),
                  padded = parts_of(g->n, tiles.loops->columns) * tiles.loops->columns;
    const double work = (double)g->m * (double)g->n * (double)g->k * (double)nterms(shape);
    Pool *pool = work * (double)items < 2 * THREAD_WORK ? NULL : cpu->pool;
    if (g->k * padded <= OWN_PANELS && items >= pool_threads(pool)) {
        pool_run(pool, items, 1 + (int64_t)(THREAD_WORK / work), own_products, &tiles);
        return true;
    }
    if (!tiles_prepare(call, error)) return false;
    tiles.panels = cpu->panels;
    for (int64_t item = 0; item < items; item++)
        share_product(&tiles, pool, item);
    return true;
}
