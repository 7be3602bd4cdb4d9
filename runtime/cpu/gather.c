/* gather: operators along one axis: gather and scatter-add of elements or rows by indices, cumulative sums, the largest elements. An index that is out of range,
 * or whose element another rank has, reads and writes nothing. */
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/parts.h"

/* Integers wrap: they are added as unsigned, cumulative sums in 64 bits. */
#define FOR_NUMBERS(X) X(f32, float, double) X(f64, double, double) X(i32, uint32_t, uint64_t) X(i64, uint64_t, uint64_t)
#define BY_NUMBER(name)                                                                                                                    \
    { [F32] = name##_f32, [F64] = name##_f64, [I32] = name##_i32, [I64] = name##_i64 }

/* ---------------------------------------------------------------- gather and its gradient */

/* wide: [outer, length, each, width], of which this rank has the places [begin, begin + length); index: [outer, n, each]; narrow: [outer, n, each, width]. */
typedef struct GatherRun {
    const Operand *index;
    char *wide, *narrow;
    int64_t outer, begin, length, n, each, width;
    int bytes; /* of an element */
} GatherRun;

static GatherRun gather_run(const Operand *wide, const Operand *index, const Operand *narrow, const Attr *axis) {
    const Lines lines = lines_of(&wide->local, attr_axis(axis, -1, wide->local.ndim));
    GatherRun run = {.index = index,
                     .wide = wide->data,
                     .narrow = narrow->data,
                     .outer = lines.outer,
                     .begin = wide->box.begin[lines.axis],
                     .length = lines.length,
                     .n = narrow->local.dim[lines.axis],
                     .each = 1,
                     .width = 1,
                     .bytes = dtype_bytes[wide->dtype]};
    for (int d = lines.axis + 1; d < wide->local.ndim; d++)
        *(d < index->local.ndim ? &run.each : &run.width) *= wide->local.dim[d];
    return run;
}

/* Ranges are of the index's elements. */
static void gather_rows(void *context, int64_t begin, int64_t end) {
    const GatherRun *run = context;
    const int64_t bytes = run->width * run->bytes, slice = run->n * run->each;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = index_within(run->index, i, run->begin, run->length);
        const char *from = run->wide + ((i / slice * run->length + (at < 0 ? 0 : at)) * run->each + i % run->each) * bytes;
        char *to = run->narrow + i * bytes;
        if (at < 0)
            memset(to, 0, (size_t)bytes);
        else if (bytes == 4)
            memcpy(to, from, 4);
        else if (bytes == 8)
            memcpy(to, from, 8);
        else
            memcpy(to, from, (size_t)bytes);
    }
}

/* Ranges are of places of all lines: each thread reads the indices of its lines in order and adds up those of its places. */
#define GATHER_GRAD(suffix, T, A)                                                                                                          \
    static void gather_grad_places_##suffix(void *context, int64_t begin, int64_t end) {                                                   \
        const GatherRun *run = context;                                                                                                    \
        const int64_t row = run->each * run->width;                                                                                        \
        memset((T *)run->wide + begin * row, 0, (size_t)((end - begin) * row) * sizeof(T));                                                \
        while (begin < end) {                                                                                                              \
            const int64_t outer = begin / run->length, first = begin % run->length, n = least(end - begin, run->length - first);           \
            for (int64_t i = 0; i < run->n * run->each; i++) {                                                                             \
                const int64_t own = outer * run->n * run->each + i, at = index_within(run->index, own, run->begin + first, n);             \
                if (at < 0) continue;                                                                                                      \
                T *to = (T *)run->wide + ((begin + at) * run->each + i % run->each) * run->width;                                          \
                const T *from = (const T *)run->narrow + own * run->width;                                                                 \
                _Pragma("omp simd") for (int64_t k = 0; k < run->width; k++) to[k] += from[k];                                             \
            }                                                                                                                              \
            begin += n;                                                                                                                    \
        }                                                                                                                                  \
    }
FOR_NUMBERS(GATHER_GRAD)

bool kernel_gather(const KernelCall *call, Error *error) {
    (void)error;
    GatherRun run = gather_run(&call->in[0], &call->in[1], &call->out[0], &call->attr[0]);
    const int64_t rows = run.width > 0 ? shape_elements(&call->in[1].local) : 0;
    pool_run(call_pool(call), rows, 1 + GRAIN / (run.width + 1), gather_rows, &run);
    return true;
}

bool kernel_gather_grad(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const places[NDTYPES] = BY_NUMBER(gather_grad_places);
    const Operand *out = &call->out[0];
    GatherRun run = gather_run(out, &call->in[1], &call->in[0], &call->attr[1]);
    const int64_t row = run.each * run.width;
    pool_run(call_pool(call), row > 0 ? run.outer * run.length : 0, 1 + GRAIN / (row + 1), places[out->dtype], &run);
    return true;
}

/* ---------------------------------------------------------------- put */

/* x, out: [outer, length, inner], of which this rank has the places [begin, begin + length); rows: [outer, n, inner]. */
typedef struct PutRun {
    const Operand *index;
    const char *x, *rows;
    char *out;
    int64_t begin, length, n, bytes; /* of a row */
} PutRun;

/* Ranges are of lines. If the result is in x's storage, only the rows need copying. */
static void put_lines(void *context, int64_t begin, int64_t end) {
    const PutRun *run = context;
    const int64_t line = run->length * run->bytes;
    if (run->out != run->x) memcpy(run->out + begin * line, run->x + begin * line, (size_t)((end - begin) * line));
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < run->n; k++) {
            const int64_t at = index_within(run->index, k, run->begin, run->length);
            if (at >= 0) memcpy(run->out + i * line + at * run->bytes, run->rows + (i * run->n + k) * run->bytes, (size_t)run->bytes);
        }
}

bool kernel_put(const KernelCall *call, Error *error) {
    const Operand *x = &call->in[0];
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    PutRun run = {.index = &call->in[2],
                  .x = x->data,
                  .rows = call->in[1].data,
                  .out = call->out[0].data,
                  .begin = x->box.begin[lines.axis],
                  .length = lines.length,
                  .n = call->in[2].local.dim[0],
                  .bytes = lines.inner * dtype_bytes[x->dtype]};
    const int64_t touched = (run.out != run.x ? run.length : run.n) * lines.inner;
    (void)error;
    pool_run(call_pool(call), run.bytes > 0 ? lines.outer : 0, 1 + GRAIN / (touched + 1), put_lines, &run);
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool kernel_scatter_add(const KernelCall *call, Error *error) {
    return reference_scatter_add(call, error);
}

/* ---------------------------------------------------------------- cumsum */

enum { COLUMNS = 32 }; /* lines computed together, if the elements of a line are not contiguous */

typedef struct CumsumRun {
    Lines lines;
    const void *x;
    void *out;
    bool reverse, exclusive;
} CumsumRun;

/* Ranges are of blocks of up to COLUMNS lines. Each element is a sum in double, or in 64 bits, rounded once. */
#define CUMSUM(suffix, T, A)                                                                                                               \
    static void cumsum_lines_##suffix(void *context, int64_t begin, int64_t end) {                                                         \
        const CumsumRun *run = context;                                                                                                    \
        const Lines *l = &run->lines;                                                                                                      \
        const int64_t blocks = parts_of(l->inner, COLUMNS);                                                                                \
        for (int64_t block = begin; block < end; block++) {                                                                                \
            const int64_t first = block % blocks * COLUMNS, n = least(l->inner - first, COLUMNS);                                          \
            A sum[COLUMNS] = {0};                                                                                                          \
            for (int64_t i = 0; i < l->length; i++) {                                                                                      \
                const int64_t place = run->reverse ? l->length - 1 - i : i;                                                                \
                const int64_t at = (block / blocks * l->length + place) * l->inner + first;                                                \
                const T *x = (const T *)run->x + at;                                                                                       \
                T *y = (T *)run->out + at;                                                                                                 \
                for (int64_t k = 0; k < n; k++) {                                                                                          \
                    const A next = sum[k] + (A)x[k];                                                                                       \
                    y[k] = (T)(run->exclusive ? sum[k] : next);                                                                            \
                    sum[k] = next;                                                                                                         \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
FOR_NUMBERS(CUMSUM)

bool kernel_cumsum(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const blocks[NDTYPES] = BY_NUMBER(cumsum_lines);
    const Operand *x = &call->in[0];
    CumsumRun run = {.lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim)),
                     .x = x->data,
                     .out = call->out[0].data,
                     .reverse = call->attr[1].i != 0,
                     .exclusive = call->attr[2].i != 0};
    pool_run(call_pool(call), run.lines.outer * parts_of(run.lines.inner, COLUMNS),
             1 + GRAIN / (1 + run.lines.length * least(run.lines.inner, COLUMNS)), blocks[x->dtype], &run);
    return true;
}

/* ---------------------------------------------------------------- topk */

typedef struct TopkRun {
    const void *x;
    void *values;
    int32_t *indices;
    int64_t length, k;
} TopkRun;

/* The k best so far form a heap, in the results' memory, whose root is the last of them in order; removing them one by one sorts them. A nan is above all numbers. */
#define TOPK(suffix, T)                                                                                                                    \
    static inline bool before_##suffix(T a, int32_t at, T b, int32_t bt) {                                                                 \
        return a > b || ((a != a) & (b == b)) || (at < bt && (a == b || ((a != a) & (b != b))));                                           \
    }                                                                                                                                      \
    static void sink_##suffix(T *value, int32_t *index, int64_t n, T x, int32_t at) {                                                      \
        int64_t hole = 0;                                                                                                                  \
        for (int64_t child; (child = 2 * hole + 1) < n; hole = child) {                                                                    \
            if (child + 1 < n && before_##suffix(value[child], index[child], value[child + 1], index[child + 1])) child++;                 \
            if (!before_##suffix(x, at, value[child], index[child])) break;                                                                \
            value[hole] = value[child];                                                                                                    \
            index[hole] = index[child];                                                                                                    \
        }                                                                                                                                  \
        value[hole] = x;                                                                                                                   \
        index[hole] = at;                                                                                                                  \
    }                                                                                                                                      \
    static void rise_##suffix(T *value, int32_t *index, int64_t hole, T x, int32_t at) {                                                   \
        for (int64_t up; hole > 0; hole = up) {                                                                                            \
            up = (hole - 1) / 2;                                                                                                           \
            if (!before_##suffix(value[up], index[up], x, at)) break;                                                                      \
            value[hole] = value[up];                                                                                                       \
            index[hole] = index[up];                                                                                                       \
        }                                                                                                                                  \
        value[hole] = x;                                                                                                                   \
        index[hole] = at;                                                                                                                  \
    }                                                                                                                                      \
    /* Ranges are of rows. */                                                                                                              \
    static void topk_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const TopkRun *run = context;                                                                                                      \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            const T *x = (const T *)run->x + row * run->length;                                                                            \
            T *value = (T *)run->values + row * run->k;                                                                                    \
            int32_t *index = run->indices + row * run->k;                                                                                  \
            for (int64_t i = 0; i < run->k; i++)                                                                                           \
                rise_##suffix(value, index, i, x[i], (int32_t)i);                                                                          \
            for (int64_t i = run->k; i < run->length; i++)                                                                                 \
                if (before_##suffix(x[i], (int32_t)i, value[0], index[0])) sink_##suffix(value, index, run->k, x[i], (int32_t)i);          \
            for (int64_t n = run->k - 1; n > 0; n--) {                                                                                     \
                const T last = value[n], first = value[0];                                                                                 \
                const int32_t at = index[n], of = index[0];                                                                                \
                sink_##suffix(value, index, n, last, at);                                                                                  \
                value[n] = first;                                                                                                          \
                index[n] = of;                                                                                                             \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
FOR_FLOATS(TOPK)
TOPK(i32, int32_t)
TOPK(i64, int64_t)

bool kernel_topk(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = BY_NUMBER(topk_rows);
    const Operand *x = &call->in[0], *values = &call->out[0];
    const int last = x->local.ndim - 1;
    TopkRun run = {x->data, values->data, call->out[1].data, x->local.dim[last], values->local.dim[last]};
    pool_run(call_pool(call), shape_elements(&x->local) / run.length, 1 + GRAIN / (4 * run.length), rows[x->dtype], &run);
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool kernel_stack(const KernelCall *call, Error *error) {
    return reference_stack(call, error);
}
