/* move: operators that only move elements (and mean_grad, which divides them on the way). */
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/square.h"
#include "runtime/element.h"

/* ---------------------------------------------------------------- strided copies */

typedef struct MoveRun {
    const Nest *nest; /* tensor 0 the result, tensor 1 the operand */
    char *out;
    const char *in;
    int item_bytes;
} MoveRun;

enum { TILE = 16 };
#define COPY(bits)                                                                                                                         \
    static void copy_run_##bits(uint##bits##_t *out, int64_t out_stride, const uint##bits##_t *in, int64_t in_stride, int64_t n) {         \
        if (out_stride == 1 && in_stride == 1) {                                                                                           \
            memmove(out, in, (size_t)n * sizeof *out);                                                                                     \
        } else if (out_stride == 1 && in_stride == 0) {                                                                                    \
            const uint##bits##_t item = *in;                                                                                               \
            for (int64_t i = 0; i < n; i++)                                                                                                \
                out[i] = item;                                                                                                             \
        } else {                                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                                                \
                out[i * out_stride] = in[i * in_stride];                                                                                   \
        }                                                                                                                                  \
    }                                                                                                                                      \
    TURN_SQUARE(bits)                                                                                                                      \
    /* Rows and columns, at most TILE of each, of a plane that lies the other way round in the operand. */                                 \
    static inline __attribute__((always_inline)) void turn_tile_##bits(uint##bits##_t *out, int64_t out_stride, const uint##bits##_t *in,  \
                                                                       int64_t in_stride, int64_t rows, int64_t columns) {                 \
        const int64_t whole_rows = rows / SQUARE * SQUARE, whole_columns = columns / SQUARE * SQUARE;                                      \
        for (int64_t j = 0; j < whole_columns; j += SQUARE)                                                                                \
            for (int64_t i = 0; i < whole_rows; i += SQUARE) {                                                                             \
                const uint##bits##_t *from[SQUARE];                                                                                        \
                uint##bits##_t *to[SQUARE];                                                                                                \
                for (int l = 0; l < SQUARE; l++)                                                                                           \
                    from[l] = in + i + (j + l) * in_stride, to[l] = out + (i + l) * out_stride + j;                                        \
                turn_square_##bits(from, to);                                                                                              \
            }                                                                                                                              \
        for (int64_t i = 0; i < rows; i++)                                                                                                 \
            for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j++)                                                         \
                out[i * out_stride + j] = in[i + j * in_stride];                                                                           \
    }                                                                                                                                      \
    /* Rows [begin, end) of a plane of `columns`. A whole tile is turned in a place of its own: rows that are a power of two \
     * apart take each other's lines in the cache. */             \
    static void copy_plane_##bits(uint##bits##_t *out, int64_t out_stride, const uint##bits##_t *in, int64_t in_stride, int64_t begin,     \
                                  int64_t end, int64_t columns) {                                                                          \
        uint##bits##_t tile[TILE * TILE];                                                                                                  \
        for (int64_t r = begin; r < end; r += TILE)                                                                                        \
            for (int64_t c = 0; c < columns; c += TILE) {                                                                                  \
                uint##bits##_t *to = out + r * out_stride + c;                                                                             \
                const uint##bits##_t *from = in + r + c * in_stride;                                                                       \
                if (end - r < TILE || columns - c < TILE) {                                                                                \
                    turn_tile_##bits(to, out_stride, from, in_stride, least(TILE, end - r), least(TILE, columns - c));                     \
                    continue;                                                                                                              \
                }                                                                                                                          \
                turn_tile_##bits(tile, TILE, from, in_stride, TILE, TILE);                                                                 \
                for (int64_t i = 0; i < TILE; i++)                                                                                         \
                    memcpy(to + i * out_stride, tile + i * TILE, TILE * sizeof *to);                                                       \
            }                                                                                                                              \
    }
COPY(8)
COPY(16)
COPY(32)
COPY(64)

static void copy_run(const MoveRun *run, const int64_t *offset, int64_t out_stride, int64_t in_stride, int64_t n) {
    void *out = run->out + offset[0] * run->item_bytes;
    const void *in = run->in + offset[1] * run->item_bytes;
    if (run->item_bytes == 8)
        copy_run_64(out, out_stride, in, in_stride, n);
    else if (run->item_bytes == 1)
        copy_run_8(out, out_stride, in, in_stride, n);
    else if (run->item_bytes == 2)
        copy_run_16(out, out_stride, in, in_stride, n);
    else
        copy_run_32(out, out_stride, in, in_stride, n);
}

/* Whether the two innermost loops are a transposed plane. */
static bool is_plane(const Nest *nest) {
    int last = nest->ndim - 1;
    return last >= 1 && nest->stride[0][last] == 1 && nest->stride[1][last - 1] == 1 && nest->stride[1][last] > 1;
}

/* Ranges are of iterations of all loops except the innermost; with one loop only, of its items. */
static void move_part(void *context, int64_t begin, int64_t end) {
    const MoveRun *run = context;
    const Nest *nest = run->nest;
    int last = nest->ndim - 1;
    const int64_t *out = nest->stride[0], *in = nest->stride[1];
    int64_t offset[MAX_NEST];
    if (last == 0) {
        offset[0] = begin * out[0];
        offset[1] = begin * in[0];
        copy_run(run, offset, out[0], in[0], end - begin);
        return;
    }
    if (!is_plane(nest)) {
        int64_t row = begin % nest->size[last - 1]; /* of the loop around the innermost */
        nest_offsets(nest, last, begin, offset);
        for (int64_t i = begin; i < end; i++) {
            copy_run(run, offset, out[last], in[last], nest->size[last]);
            offset[0] += out[last - 1];
            offset[1] += in[last - 1];
            if (++row < nest->size[last - 1]) continue;
            row = 0;
            nest_offsets(nest, last, i + 1, offset);
        }
        return;
    }
    for (int64_t i = begin; i < end;) {
        int64_t rows = nest->size[last - 1], row = i % rows, n = rows - row < end - i ? rows - row : end - i;
        nest_offsets(nest, last - 1, i / rows, offset);
        void *to = run->out + offset[0] * run->item_bytes;
        const void *from = run->in + offset[1] * run->item_bytes;
        if (run->item_bytes == 8)
            copy_plane_64(to, out[last - 1], from, in[last], row, row + n, nest->size[last]);
        else if (run->item_bytes == 1)
            copy_plane_8(to, out[last - 1], from, in[last], row, row + n, nest->size[last]);
        else if (run->item_bytes == 2)
            copy_plane_16(to, out[last - 1], from, in[last], row, row + n, nest->size[last]);
        else
            copy_plane_32(to, out[last - 1], from, in[last], row, row + n, nest->size[last]);
        i += n;
    }
}

void nest_copy(Pool *pool, const Nest *nest, void *out, const void *in, int item_bytes) {
    if (nest_count(nest, 0, nest->ndim) == 0) return;
    MoveRun run = {nest, out, in, item_bytes};
    int last = nest->ndim - 1;
    if (last == 0)
        pool_run(pool, nest->size[0], GRAIN, move_part, &run);
    else
        pool_run(pool, nest_count(nest, 0, last), 1 + GRAIN / nest->size[last], move_part, &run);
}

static bool move(const KernelCall *call, const Nest *nest) {
    nest_copy(call_pool(call), nest, call->out[0].data, call->in[0].data, dtype_bytes[call->out[0].dtype]);
    return true;
}

/* ---------------------------------------------------------------- kernels */

bool kernel_transpose(const KernelCall *call, Error *error) {
    (void)error;
    Nest nest;
    nest_expand(&nest, call);
    return move(call, &nest);
}

bool kernel_reshape(const KernelCall *call, Error *error) {
    Nest nest;
    if (!nest_reshape(&nest, call, error)) return false;
    return call->out[0].data == call->in[0].data || move(call, &nest);
}

bool kernel_write(const KernelCall *call, Error *error) {
    return kernel_reshape(call, error);
}

bool kernel_stop_gradient(const KernelCall *call, Error *error) {
    return kernel_reshape(call, error);
}

bool kernel_sum_grad(const KernelCall *call, Error *error) {
    return kernel_transpose(call, error);
}

typedef struct DivideRun {
    void *x;
    double divisor;
} DivideRun;
#define DIVIDE(suffix, T)                                                                                                                  \
    static void divide_##suffix(void *context, int64_t begin, int64_t end) {                                                               \
        const DivideRun *run = context;                                                                                                    \
        T *x = run->x;                                                                                                                     \
        const T divisor = (T)run->divisor;                                                                                                 \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) x[i] /= divisor;                                                         \
    }
DIVIDE(f32, float)
DIVIDE(f64, double)

/* The gradient of each element of a mean: dy over the global number of elements that were averaged. */
bool kernel_mean_grad(const KernelCall *call, Error *error) {
    static PoolFn *const divide[NDTYPES] = {divide_f32, divide_f64, NULL};
    const Operand *dy = &call->in[0], *out = &call->out[0];
    if (!divide[out->dtype]) return error_set(error, EXIT_INTERNAL, "mean_grad: no kernel for %s", dtype_name[out->dtype]);
    if (!kernel_transpose(call, error)) return false;
    double each = (double)shape_elements(&out->global) / (double)shape_elements(&dy->global);
    pool_run(call_pool(call), shape_elements(&out->local), GRAIN, divide[out->dtype], &(DivideRun){out->data, each});
    return true;
}

bool kernel_expose(const KernelCall *call, Error *error) {
    return kernel_reshape(call, error);
}

bool kernel_replicate(const KernelCall *call, Error *error) {
    (void)error;
    Nest nest;
    nest_replicate(&nest, call);
    return move(call, &nest);
}

/* Fills the result with the node's value; arrays of literals are placed by the executor. */
bool kernel_constant(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *out = &call->out[0];
    int64_t n = shape_elements(&out->local);
    double value = call->attr[0].f;
    switch (out->dtype) {
    case F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)out->data)[i] = (float)value;
        break;
    case F64:
        for (int64_t i = 0; i < n; i++)
            ((double *)out->data)[i] = value;
        break;
    case I32:
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)out->data)[i] = (int32_t)value;
        break;
    case I64:
    case BOOL:
    case F16:
    case BF16:
        for (int64_t i = 0; i < n; i++)
            element_put(out->data, out->dtype, i, value);
        break;
    case NDTYPES:
        break;
    }
    return true;
}

/* The executor places inputs and states: a step that computes one is an error in the plan. */
bool kernel_input(const KernelCall *call, Error *error) {
    return error_set(error, EXIT_REJECTED, "%s is not computed: it is where the executor put it", op_table[call->op].name);
}
bool kernel_read(const KernelCall *call, Error *error) {
    return kernel_input(call, error);
}
