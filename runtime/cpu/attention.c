/* attention: in blocks of scores, which are never all in memory (flash attention). A library computes products, attentionloops.c the rows of a block. Forward, threads
 * divide blocks of queries; for each, over blocks of keys, the sum so far is scaled down whenever a larger score comes. The gradient recomputes the scores from the
 * largest score and the sum. Threads divide heads of keys or, if there are fewer heads than threads, parts of their keys; each part has all of its gradients of
 * keys and values, and a term of those of queries. Blocks and parts depend only on sizes and the most threads of any process: ranks that compute
 * the same get the same bits. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cpu/cpu.h"

enum { MOST_QUERIES = 128, MOST_KEYS = 256 }; /* of a block */

/* A call, the size of its blocks, and what computes them. */
typedef struct Attention {
    AttentionCall of;
    OpCode op;
    int64_t bytes; /* of an element */
    const char *q, *k, *v;
    int64_t block_m, block_n;
    Multiplier by;
    AttentionLoops loops;
} Attention;

static double score_count(const Attention *a) {
    return (double)a->of.heads * (double)a->of.group * (double)a->of.m * (double)a->of.n;
}

/* Opens one library for all products of the call, by the sizes of a block's. */
static bool open_library(const KernelCall *call, Attention *a, Error *error) {
    const int64_t m = a->block_m, n = a->block_n;
    const ProductSize sizes[] = {{false, true, m, n, a->of.d},
                                 {false, false, m, a->of.e, n},
                                 {true, false, n, a->of.e, m},
                                 {true, false, n, a->of.d, m},
                                 {false, false, m, a->of.d, n}};
    const int count = a->op == OP_attention_grad ? 5 : a->op == OP_attention_most ? 1 : 2;
    return multiplier_open(call, sizes, count, score_count(a) * (double)(a->of.d + a->of.e), &a->by, error);
}

static bool attention_open(const KernelCall *call, Attention *a, Error *error) {
    const DType dtype = call->in[0].dtype;
    *a = (Attention){.of = attention_call(call),
                     .op = call->op,
                     .bytes = dtype_bytes[dtype],
                     .loops = vector_variant(vector_variants() - 1)->attention(dtype)};
    a->q = a->of.q, a->k = a->of.k, a->v = a->of.v;
    a->block_m = least(a->of.m, MOST_QUERIES);
    a->block_n = least(a->of.n, MOST_KEYS);
    return open_library(call, a, error);
}

static MatrixAt matrix_at(const void *at, bool transposed, int64_t leading) {
    return (MatrixAt){at, {transposed, leading}};
}

static double number_at(const Attention *a, const void *numbers, int64_t i) {
    return a->of.dtype == F32 ? (double)((const float *)numbers)[i] : ((const double *)numbers)[i];
}
static void number_put(const Attention *a, void *numbers, int64_t i, double number) {
    if (a->of.dtype == F32)
        ((float *)numbers)[i] = (float)number;
    else
        ((double *)numbers)[i] = number;
}

/* How many of the first n keys the query may see. */
static int64_t seen_by(const Attention *a, int64_t query, int64_t n) {
    if (!a->of.causal) return n;
    const int64_t seen = a->of.before + query + 1;
    return seen < 0 ? 0 : least(seen, n);
}

/* A block of scores: queries [query, query + rows) of a head of queries, keys [key, key + columns). */
typedef struct Block {
    int64_t head; /* of queries, row-major */
    int64_t query, rows, key, columns;
} Block;

/* Where the mask of a head begins. */
static const uint8_t *mask_of(const Attention *a, int64_t head) {
    const uint8_t *mask = a->of.mask;
    for (int d = a->of.mask_ndim - 1; d >= 0; d--) {
        mask += head % a->of.mask_size[d] * a->of.mask_stride[d];
        head /= a->of.mask_size[d];
    }
    return mask;
}

/* How many of the first n keys, in whole blocks, queries [query, query + rows) of a head need: the mask hides all later ones. */
static int64_t blocks_seen(const Attention *a, int64_t head, int64_t query, int64_t rows, int64_t n) {
    if (a->of.mask == NULL || a->of.mask_n == 0 || n == 0) return n;
    const uint8_t *mask = mask_of(a, head) + query * a->of.mask_m;
    int64_t seen = 0;
    for (int64_t i = 0; i < (a->of.mask_m == 0 ? 1 : rows); i++)
        for (int64_t j = n; j > seen; j--)
            if (mask[i * a->of.mask_m + (j - 1) * a->of.mask_n]) seen = j;
    return least((seen + a->block_n - 1) / a->block_n * a->block_n, n);
}

/* Computes a block's scores; rows are block_n apart. Scores that the mask hides are -infinity; causally hidden ones follow the row's seen ones. */
static void block_scores(const Attention *a, const Block *b, char *scores) {
    const char *q = a->q + (b->head * a->of.m + b->query) * a->of.d * a->bytes,
               *k = a->k + (b->head / a->of.group * a->of.n + b->key) * a->of.d * a->bytes;
    multiply(&a->by, matrix_at(q, false, a->of.d), matrix_at(k, true, a->of.d), b->rows, b->columns, a->of.d, a->of.scale, false, scores,
             a->block_n);
    if (a->of.mask == NULL) return;
    const uint8_t *mask = mask_of(a, b->head) + b->query * a->of.mask_m + b->key * a->of.mask_n;
    for (int64_t i = 0; i < b->rows; i++)
        a->loops.hide(scores + i * a->block_n * a->bytes, mask + i * a->of.mask_m, a->of.mask_n, b->columns);
}

/* How many keys of the block its row i sees. */
static int64_t row_seen(const Attention *a, const Block *b, int64_t i) {
    const int64_t seen = seen_by(a, b->query + i, b->key + b->columns) - b->key;
    return seen < 0 ? 0 : seen;
}

/* Zeros what a row of the block does not see. */
static void clear_unseen(const Attention *a, const Block *b, char *row, int64_t seen) {
    for (int64_t j = seen; j < b->columns; j++)
        number_put(a, row, j, 0);
}

/* ---------------------------------------------------------------- forward */

typedef struct Forward {
    Attention a;
    const void *given;                     /* of attention_sums: the largest scores */
    char *y, *most, *sum;                  /* NULL: there is no such result */
    char *room;                            /* for each worker: a Running and a block of scores */
    int64_t worker_bytes, workers, blocks; /* blocks of queries of a head */
} Forward;

/* For each row of a block of queries: the largest score so far, and the sum of exp(score - largest). */
typedef struct Running {
    double most[MOST_QUERIES], sum[MOST_QUERIES];
} Running;

/* What to subtract from scores: the largest, or 0 if there is none yet (-infinity), so that exp(-infinity) is 0. */
static double shift_of(double most) {
    return most == -INFINITY ? 0 : most;
}

/* Adds a row of a block: its scores become powers, and earlier sums are scaled down. y: the query's row of the result, NULL: nothing has been added to it yet. */
static void forward_row(const Forward *f, const Block *b, int64_t i, char *row, Running *running, char *y) {
    const Attention *a = &f->a;
    const int64_t seen = row_seen(a, b, i);
    if (f->given == NULL) {
        const double most = a->loops.most(row, seen, running->most[i]), old = running->most[i];
        running->most[i] = most;
        if (f->sum == NULL) return;
        if (y != NULL && most > old) {
            const double factor = exp(old - most);
            running->sum[i] *= factor;
            a->loops.scale(y, a->of.e, factor);
        }
    }
    running->sum[i] += a->loops.powers(row, seen, shift_of(running->most[i]), 1);
    clear_unseen(a, b, row, seen);
}

static void forward_begin(const Forward *f, int64_t first, int64_t rows, Running *running) {
    for (int64_t i = 0; i < rows; i++) {
        running->most[i] = f->given != NULL ? number_at(&f->a, f->given, first + i) : -INFINITY;
        running->sum[i] = 0;
    }
}

static void forward_end(const Forward *f, int64_t first, int64_t rows, const Running *running, char *y) {
    const Attention *a = &f->a;
    for (int64_t i = 0; i < rows; i++) {
        if (f->most != NULL) number_put(a, f->most, first + i, running->most[i]);
        if (f->sum == NULL) continue;
        number_put(a, f->sum, first + i, running->sum[i]);
        if (f->given == NULL) a->loops.scale(y + i * a->of.e * a->bytes, a->of.e, running->sum[i] == 0 ? 0 : 1 / running->sum[i]);
    }
}

static void forward_block(const Forward *f, int64_t item, char *scores, Running *running) {
    const Attention *a = &f->a;
    Block b = {.head = item / f->blocks, .query = item % f->blocks * a->block_m};
    b.rows = least(a->block_m, a->of.m - b.query);
    const int64_t first = b.head * a->of.m + b.query,
                  n = blocks_seen(a, b.head, b.query, b.rows, seen_by(a, b.query + b.rows - 1, a->of.n));
    char *y = f->y != NULL ? f->y + first * a->of.e * a->bytes : NULL;
    forward_begin(f, first, b.rows, running);
    for (b.key = 0; b.key < n; b.key += b.columns) {
        b.columns = least(a->block_n, n - b.key);
        block_scores(a, &b, scores);
        for (int64_t i = 0; i < b.rows; i++)
            forward_row(f, &b, i, scores + i * a->block_n * a->bytes, running, y != NULL && b.key > 0 ? y + i * a->of.e * a->bytes : NULL);
        const char *v = a->v + (b.head / a->of.group * a->of.n + b.key) * a->of.e * a->bytes;
        if (f->sum != NULL)
            multiply(&a->by, matrix_at(scores, false, a->block_n), matrix_at(v, false, a->of.e), b.rows, a->of.e, b.columns, 1, b.key > 0,
                     y, a->of.e);
    }
    for (int64_t i = 0; n == 0 && f->sum != NULL && i < b.rows * a->of.e; i++)
        number_put(a, y, i, 0);
    forward_end(f, first, b.rows, running, y);
}

/* Worker w has the blocks w, w + workers, ..: so causal blocks, which grow, are divided evenly. */
static void forward_part(void *context, int64_t begin, int64_t end) {
    const Forward *f = context;
    for (int64_t w = begin; w < end; w++) {
        Running *running = (Running *)(f->room + w * f->worker_bytes);
        for (int64_t item = w; item < f->a.of.heads * f->a.of.group * f->blocks; item += f->workers)
            forward_block(f, item, (char *)(running + 1), running);
    }
}

/* How many of the threads are worth waking for so many multiplications. */
static int64_t workers_for(const KernelCall *call, double work, int64_t items) {
    const int64_t worth = 1 + (int64_t)(work / (1 << 19));
    return least(least(pool_threads(call_pool(call)), worth), items > 0 ? items : 1);
}

static bool forward(const KernelCall *call, Error *error) {
    Forward f;
    Attention *a = &f.a;
    if (shape_elements(&call->out[0].local) == 0) return true;
    if (!attention_open(call, a, error)) return false;
    f.given = a->of.given, f.y = a->of.y, f.most = a->of.most, f.sum = a->of.sum;
    f.blocks = parts_of(a->of.m, a->block_m);
    f.worker_bytes = ((int64_t)sizeof(Running) + a->block_m * a->block_n * a->bytes + 63) / 64 * 64;
    f.workers = workers_for(call, score_count(a) * (double)(a->of.d + a->of.e), a->of.heads * a->of.group * f.blocks);
    f.room = aligned_alloc(64, (size_t)(f.workers * f.worker_bytes));
    if (!f.room) return error_set(error, EXIT_ENVIRONMENT, "out of memory for a block of scores of %s", op_table[call->op].name);
    pool_run(call_pool(call), f.workers, 1, forward_part, &f);
    free(f.room);
    return multiplier_done(&a->by, error);
}

bool kernel_dot_product_attention(const KernelCall *call, Error *error) {
    return forward(call, error);
}
bool kernel_attention_most(const KernelCall *call, Error *error) {
    return forward(call, error);
}
bool kernel_attention_sums(const KernelCall *call, Error *error) {
    return forward(call, error);
}

/* ---------------------------------------------------------------- gradient */

typedef struct Backward {
    Attention a;
    const char *dy, *y, *most, *sum;
    char *dq, *dk, *dv;
    int64_t parts, part_n; /* of the keys of a head; keys of each but the last */
    double *along;         /* for each query: dy y */
    char *terms;           /* of dq, by parts 1 and on: each as large as dq */
    char *room;            /* for each worker: two blocks */
    int64_t worker_bytes, workers;
} Backward;

/* powers: a block's scores, which become p. slopes: its dy v^T, which becomes the gradient of the scores, times scale. */
static void backward_rows(const Backward *g, const Block *b, char *powers, char *slopes) {
    const Attention *a = &g->a;
    const int64_t first = b->head * a->of.m + b->query;
    for (int64_t i = 0; i < b->rows; i++) {
        char *p = powers + i * a->block_n * a->bytes, *slope = slopes + i * a->block_n * a->bytes;
        const double sum = number_at(a, g->sum, first + i);
        const int64_t seen = sum == 0 ? 0 : row_seen(a, b, i);
        a->loops.powers(p, seen, shift_of(number_at(a, g->most, first + i)), 1 / sum);
        a->loops.slopes(p, slope, seen, g->along[first + i], a->of.scale);
        clear_unseen(a, b, p, seen);
        clear_unseen(a, b, slope, seen);
    }
}

/* dq: of the head of queries. fresh: the gradients of these keys have no term yet; first: nor has that of these queries. */
static void backward_block(const Backward *g, const Block *b, bool fresh, bool first, char *dq, char *powers) {
    const Attention *a = &g->a;
    const int64_t row = b->head * a->of.m + b->query, key = b->head / a->of.group * a->of.n + b->key;
    const char *q = a->q + row * a->of.d * a->bytes, *dy = g->dy + row * a->of.e * a->bytes;
    char *slopes = powers + a->block_m * a->block_n * a->bytes;
    block_scores(a, b, powers);
    multiply(&a->by, matrix_at(dy, false, a->of.e), matrix_at(a->v + key * a->of.e * a->bytes, true, a->of.e), b->rows, b->columns, a->of.e,
             1, false, slopes, a->block_n);
    backward_rows(g, b, powers, slopes);
    multiply(&a->by, matrix_at(powers, true, a->block_n), matrix_at(dy, false, a->of.e), b->columns, a->of.e, b->rows, 1, !fresh,
             g->dv + key * a->of.e * a->bytes, a->of.e);
    multiply(&a->by, matrix_at(slopes, true, a->block_n), matrix_at(q, false, a->of.d), b->columns, a->of.d, b->rows, 1, !fresh,
             g->dk + key * a->of.d * a->bytes, a->of.d);
    multiply(&a->by, matrix_at(slopes, false, a->block_n), matrix_at(a->k + key * a->of.d * a->bytes, false, a->of.d), b->rows, a->of.d,
             b->columns, 1, !first, dq + b->query * a->of.d * a->bytes, a->of.d);
}

static void clear(const Attention *a, char *at, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        number_put(a, at, i, 0);
}

/* Computes one part of the keys of a head of keys, with all queries that see them. */
static void backward_item(const Backward *g, int64_t item, char *room) {
    const Attention *a = &g->a;
    const int64_t head = item / g->parts, part = item % g->parts, begin = part * g->part_n, end = least(a->of.n, begin + g->part_n);
    char *dq = part == 0 ? g->dq : g->terms + (part - 1) * a->of.heads * a->of.group * a->of.m * a->of.d * a->bytes;
    if (a->of.causal || begin >= end) clear(a, dq + head * a->of.group * a->of.m * a->of.d * a->bytes, a->of.group * a->of.m * a->of.d);
    Block b;
    for (b.key = begin; b.key < end; b.key += b.columns) {
        bool fresh = true;
        b.columns = least(a->block_n, end - b.key);
        for (b.head = head * a->of.group; b.head < (head + 1) * a->of.group; b.head++)
            for (b.query = 0; b.query < a->of.m; b.query += b.rows) {
                b.rows = least(a->block_m, a->of.m - b.query);
                if (seen_by(a, b.query + b.rows - 1, a->of.n) <= b.key) continue;
                backward_block(g, &b, fresh, !a->of.causal && b.key == begin, dq + b.head * a->of.m * a->of.d * a->bytes, room);
                fresh = false;
            }
        if (!fresh) continue;
        clear(a, g->dk + (head * a->of.n + b.key) * a->of.d * a->bytes, b.columns * a->of.d);
        clear(a, g->dv + (head * a->of.n + b.key) * a->of.e * a->bytes, b.columns * a->of.e);
    }
}

static void backward_part(void *context, int64_t begin, int64_t end) {
    const Backward *g = context;
    for (int64_t w = begin; w < end; w++)
        for (int64_t item = w; item < g->a.of.heads * g->parts; item += g->workers)
            backward_item(g, item, g->room + w * g->worker_bytes);
}

/* Ranges are of queries. */
static void along_part(void *context, int64_t begin, int64_t end) {
    const Backward *g = context;
    const int64_t row = g->a.of.e * g->a.bytes;
    for (int64_t i = begin; i < end; i++)
        g->along[i] = g->a.loops.along(g->dy + i * row, g->y + i * row, g->a.of.e);
}
static void terms_part(void *context, int64_t begin, int64_t end) {
    const Backward *g = context;
    const int64_t row = g->a.of.d * g->a.bytes, all = g->a.of.heads * g->a.of.group * g->a.of.m * row;
    for (int64_t part = 1; part < g->parts; part++)
        g->a.loops.add(g->dq + begin * row, g->terms + (part - 1) * all + begin * row, (end - begin) * g->a.of.d);
}

/* Divides the keys into parts so that each of nthreads threads has one, if there is enough work. */
static void choose_parts(Backward *g, int nthreads) {
    const Attention *a = &g->a;
    const double work = score_count(a) * (double)(a->of.d + a->of.e);
    int64_t parts = a->of.heads > 0 ? parts_of(nthreads, a->of.heads) : 1;
    parts = least(least(parts, parts_of(a->of.n, a->block_n)), 1 + (int64_t)(work / (1 << 22)));
    g->part_n = parts_of(parts_of(a->of.n, a->block_n), parts) * a->block_n;
    g->parts = parts_of(a->of.n, g->part_n);
}

bool kernel_attention_grad(const KernelCall *call, Error *error) {
    Backward g;
    Attention *a = &g.a;
    if (!attention_open(call, a, error)) return false;
    g.dy = a->of.dy, g.y = a->of.y, g.most = a->of.most, g.sum = a->of.sum, g.dq = a->of.dq, g.dk = a->of.dk, g.dv = a->of.dv;
    const int64_t queries = a->of.queries;
    if (queries == 0 || a->of.n == 0) {
        for (int o = 0; o < 3; o++)
            clear(a, call->out[o].data, shape_elements(&call->out[o].local));
        return true;
    }
    choose_parts(&g, call_most_threads(call));
    g.workers = workers_for(call, 2 * score_count(a) * (double)(a->of.d + a->of.e), a->of.heads * g.parts);
    g.worker_bytes = (2 * a->block_m * a->block_n * a->bytes + 63) / 64 * 64;
    const int64_t terms = (g.parts - 1) * queries * a->of.d * a->bytes;
    g.room = aligned_alloc(64, (size_t)(g.workers * g.worker_bytes + (queries * (int64_t)sizeof(double) + terms + 63) / 64 * 64));
    if (!g.room) return error_set(error, EXIT_ENVIRONMENT, "out of memory for blocks of scores of %s", op_table[call->op].name);
    g.along = (double *)(g.room + g.workers * g.worker_bytes);
    g.terms = (char *)(g.along + queries);
    pool_run(call_pool(call), queries, 1 + GRAIN / a->of.e, along_part, &g);
    pool_run(call_pool(call), g.workers, 1, backward_part, &g);
    if (g.parts > 1) pool_run(call_pool(call), queries, 1 + GRAIN / a->of.d, terms_part, &g);
    free(g.room);
    return multiplier_done(&a->by, error);
}

bool attention_prepare(const KernelCall *call, Error *error) {
    Attention a;
    return attention_open(call, &a, error);
}
