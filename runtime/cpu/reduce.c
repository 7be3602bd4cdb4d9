/* reduce: sums. Floats are summed in double, whatever the element type, so that the error of a long sum is that of its last rounding. Integers
 * wrap, so their sums do not depend on how they are divided. A partial sum covers only this rank's box; means divide by the global count,
 * so that partial means add up to the mean. */
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/vector.h"

enum { BLOCK = 256, LINE = 16 };

/* kept: loops over the dimensions that the result has, tensor 0 the result, tensor 1 the operand; gone: over the summed ones, tensor 0 the operand. */
typedef struct ReduceRun {
    Nest kept, gone;
    void *out;
    const void *in;
    double divisor;
    SumLoops loops;
    int64_t width; /* columns, or spans, that are added up together: at most BLOCK elements */
} ReduceRun;

/* Columns for each of nthreads threads, at most `most`, in whole cache lines. */
static int64_t columns_each(int64_t columns, int nthreads, int64_t most) {
    const int64_t even = ((columns + nthreads - 1) / nthreads + LINE - 1) / LINE * LINE;
    return even < most ? even : most;
}

/* Ranges are of kept iterations (rows, spans: of the kept loops without the innermost, times the blocks of the innermost). */
#define REDUCE(suffix, T, Acc, RESULT)                                                                                                     \
    static void reduce_items_##suffix(void *context, int64_t begin, int64_t end) {                                                         \
        const ReduceRun *run = context;                                                                                                    \
        const Nest *gone = &run->gone;                                                                                                     \
        int last = gone->ndim - 1;                                                                                                         \
        int64_t outer = nest_count(gone, 0, last);                                                                                         \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            int64_t at[MAX_NEST], offset[MAX_NEST];                                                                                        \
            nest_offsets(&run->kept, run->kept.ndim, item, at);                                                                            \
            Acc acc = 0, sum;                                                                                                              \
            for (int64_t i = 0; i < outer; i++) {                                                                                          \
                nest_offsets(gone, last, i, offset);                                                                                       \
                run->loops.run(&sum, (const T *)run->in + at[1] + offset[0], gone->stride[0][last], gone->size[last]);                     \
                acc += sum;                                                                                                                \
            }                                                                                                                              \
            ((T *)run->out)[at[0]] = RESULT;                                                                                               \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void reduce_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                          \
        const ReduceRun *run = context;                                                                                                    \
        const Nest *kept = &run->kept, *gone = &run->gone;                                                                                 \
        int last = kept->ndim - 1, inner = gone->ndim - 1;                                                                                 \
        int64_t columns = kept->size[last], blocks = (columns + run->width - 1) / run->width, outer = nest_count(gone, 0, inner);          \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            int64_t at[MAX_NEST], offset[MAX_NEST], first = item % blocks * run->width;                                                    \
            int64_t n = columns - first < run->width ? columns - first : run->width;                                                       \
            nest_offsets(kept, last, item / blocks, at);                                                                                   \
            const T *in = (const T *)run->in + at[1] + first * kept->stride[1][last];                                                      \
            T *out = (T *)run->out + at[0] + first * kept->stride[0][last];                                                                \
            Acc sums[BLOCK] = {0};                                                                                                         \
            for (int64_t i = 0; i < outer; i++) {                                                                                          \
                nest_offsets(gone, inner, i, offset);                                                                                      \
                run->loops.rows(sums, in + offset[0], kept->stride[1][last], gone->stride[0][inner], gone->size[inner], n);                \
            }                                                                                                                              \
            for (int64_t i = 0; i < n; i++) {                                                                                              \
                Acc acc = sums[i];                                                                                                         \
                out[i * kept->stride[0][last]] = RESULT;                                                                                   \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* Columns of neighbouring spans, then those of each. */                                                                               \
    static void reduce_spans_##suffix(void *context, int64_t begin, int64_t end) {                                                         \
        const ReduceRun *run = context;                                                                                                    \
        const Nest *kept = &run->kept, *gone = &run->gone;                                                                                 \
        const int last = kept->ndim - 1, inner = gone->ndim - 2;                                                                           \
        const int64_t all = kept->size[last], blocks = (all + run->width - 1) / run->width, span = gone->size[inner + 1];                  \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            int64_t at[MAX_NEST], offset[MAX_NEST];                                                                                        \
            const int64_t first = item % blocks * run->width, spans = all - first < run->width ? all - first : run->width;                 \
            nest_offsets(kept, last, item / blocks, at);                                                                                   \
            const T *in = (const T *)run->in + at[1] + first * span;                                                                       \
            Acc sums[BLOCK] = {0};                                                                                                         \
            for (int64_t i = 0, outer = nest_count(gone, 0, inner); i < outer; i++) {                                                      \
                nest_offsets(gone, inner, i, offset);                                                                                      \
                run->loops.rows(sums, in + offset[0], 1, gone->stride[0][inner], gone->size[inner], spans * span);                         \
            }                                                                                                                              \
            for (int64_t s = 0; s < spans; s++) {                                                                                          \
                Acc acc = 0;                                                                                                               \
                for (int64_t i = 0; i < span; i++)                                                                                         \
                    acc += sums[s * span + i];                                                                                             \
                ((T *)run->out)[at[0] + (first + s) * kept->stride[0][last]] = RESULT;                                                     \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
REDUCE(f32, float, double, (float)(acc / run->divisor))
REDUCE(f64, double, double, acc / run->divisor)
REDUCE(i32, int32_t, uint32_t, (int32_t)acc) /* only means are divided, and those are of reals */
REDUCE(i64, int64_t, uint64_t, (int64_t)acc)

/* Whether the sums are over many short runs each, and the runs of neighbouring results are adjacent, so that they form one long row. */
static bool is_spans(const Nest *kept, const Nest *gone) {
    const int inner = gone->ndim - 1, last = kept->ndim - 1;
    return gone->ndim > 1 && gone->stride[0][inner] == 1 && gone->size[inner] <= BLOCK && kept->ndim > 0 &&
           kept->stride[1][last] == gone->size[inner];
}

/* Sums in[0] over the dimensions that out[0] does not have, and divides by divisor. nest: from nest_reduce, not merged. */
static bool reduce(const KernelCall *call, Nest *nest, double divisor) {
    static PoolFn *const items[NDTYPES] = {reduce_items_f32, reduce_items_f64, reduce_items_i32, reduce_items_i64};
    static PoolFn *const rows[NDTYPES] = {reduce_rows_f32, reduce_rows_f64, reduce_rows_i32, reduce_rows_i64};
    static PoolFn *const spans[NDTYPES] = {reduce_spans_f32, reduce_spans_f64, reduce_spans_i32, reduce_spans_i64};
    const Operand *in = &call->in[0], *out = &call->out[0];
    int64_t nout = shape_elements(&out->local), nin = shape_elements(&in->local);
    if (nout == 0) return true;
    if (nin == 0) {
        memset(out->data, 0, (size_t)(nout * dtype_bytes[out->dtype]));
        return true;
    }
    ReduceRun run = {.out = out->data, .in = in->data, .divisor = divisor, .loops = sum_loops(in->dtype)};
    bool row = nest_divide(nest, &run.kept, &run.gone); /* blocks of columns are added up together */
    int last = run.kept.ndim - 1;
    int64_t each = nin / nout;
    if (row || is_spans(&run.kept, &run.gone)) {
        const int64_t columns = run.kept.size[last], span = row ? 1 : run.gone.size[run.gone.ndim - 1];
        run.width = columns_each(columns * span, pool_threads(call_pool(call)), BLOCK) / span;
        if (run.width < 1) run.width = 1;
        pool_run(call_pool(call), nest_count(&run.kept, 0, last) * parts_of(columns, run.width), 1 + GRAIN / (each * run.width),
                 (row ? rows : spans)[out->dtype], &run);
    } else {
        pool_run(call_pool(call), nout, 1 + GRAIN / each, items[out->dtype], &run);
    }
    return true;
}

bool kernel_sum(const KernelCall *call, Error *error) {
    (void)error;
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    return reduce(call, &nest, 1);
}

bool kernel_mean(const KernelCall *call, Error *error) {
    (void)error;
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    return reduce(call, &nest, reduced);
}

bool kernel_sum_to(const KernelCall *call, Error *error) {
    return kernel_sum(call, error);
}

bool kernel_replica_sum(const KernelCall *call, Error *error) {
    (void)error;
    Nest nest;
    const bool one = call->in[0].local.dim[0] == 1 && call->out[0].data == call->in[0].data;
    if (one && !call->attr[0].i) return true; /* nothing to do */
    nest_replica_sum(&nest, call);
    return reduce(call, &nest, call->attr[0].i ? (double)call->in[0].global.dim[0] : 1);
}

/* ---------------------------------------------------------------- sums of operands computed in pieces */

bool piece_sum_prepare(const KernelCall *call, PieceSum *sum) {
    const Operand *in = &call->in[0], *out = &call->out[0];
    Nest nest, kept, gone;
    double reduced;
    if (shape_elements(&in->local) == 0 || in->dtype == BOOL) return false;
    nest_reduce(&nest, call, &reduced);
    const bool columns = nest_divide(&nest, &kept, &gone);
    if (kept.ndim != 1 || gone.ndim > (columns ? 1 : 2)) return false;
    const int inner = gone.ndim - 1;
    const bool again = columns || inner > 0;
    *sum = (PieceSum){.dtype = in->dtype,
                      .n = columns ? 1 : gone.size[inner],
                      .rows = kept.size[0],
                      .times = again ? gone.size[0] : 1,
                      .divisor = call->op == OP_mean ? reduced : 1,
                      .out = out->data,
                      .loops = sum_loops(in->dtype)};
    return sum->n * sum->rows * sum->times == shape_elements(&in->local) && (sum->n == 1 || gone.stride[0][inner] == 1) &&
           (sum->rows == 1 || kept.stride[1][0] == sum->n) && (!again || gone.stride[0][0] == sum->n * sum->rows);
}

/* The same additions in the same order as reduce's. */
#define PIECE_SUM(suffix, T, Acc, RESULT)                                                                                                  \
    static Acc piece_run_##suffix(const SumLoops *loops, SummandFn *piece, void *context, int64_t first, int64_t n) {                      \
        if (n > SUM_PIECE)                                                                                                                 \
            return piece_run_##suffix(loops, piece, context, first, n / 2) +                                                               \
                   piece_run_##suffix(loops, piece, context, first + n / 2, n - n / 2);                                                    \
        Acc sum;                                                                                                                           \
        loops->run(&sum, piece(context, first, n), 1, n);                                                                                  \
        return sum;                                                                                                                        \
    }                                                                                                                                      \
    static void piece_rows_##suffix(const PieceSum *sum, int64_t begin, int64_t end, SummandFn *piece, void *context) {                    \
        const int64_t together = sum->n < SUM_PIECE ? SUM_PIECE / sum->n : 1;                                                              \
        for (int64_t row = begin; row < end; row += together) {                                                                            \
            const int64_t rows = end - row < together ? end - row : together;                                                              \
            const T *x = sum->n > SUM_PIECE ? NULL : piece(context, row * sum->n, rows * sum->n);                                          \
            for (int64_t r = 0; r < rows; r++) {                                                                                           \
                Acc acc = 0, all;                                                                                                          \
                if (x)                                                                                                                     \
                    sum->loops.run(&all, x + r * sum->n, 1, sum->n);                                                                       \
                else                                                                                                                       \
                    all = piece_run_##suffix(&sum->loops, piece, context, row * sum->n, sum->n);                                           \
                acc += all;                                                                                                                \
                ((T *)sum->out)[row + r] = RESULT;                                                                                         \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void piece_spans_##suffix(const PieceSum *sum, int64_t begin, int64_t end, SummandFn *piece, void *context) {                   \
        const int64_t n = sum->n, together = n <= BLOCK ? SUM_PIECE / n : 1;                                                               \
        for (int64_t row = begin; row < end; row += together) {                                                                            \
            const int64_t rows = least(together, end - row);                                                                               \
            /* Times that follow each other are made together. */                                                                          \
            const int64_t width = rows * n, again = n <= BLOCK && rows == sum->rows ? SUM_PIECE / width : 1;                               \
            Acc sums[SUM_PIECE] = {0}; /* of longer spans the first is the sum */                                                          \
            for (int64_t t = 0; t < sum->times; t += again) {                                                                              \
                const int64_t first = (t * sum->rows + row) * n, count = least(again, sum->times - t);                                     \
                if (n <= BLOCK)                                                                                                            \
                    sum->loops.rows(sums, piece(context, first, width *count), 1, width, count, width);                                    \
                else                                                                                                                       \
                    sums[0] += piece_run_##suffix(&sum->loops, piece, context, first, n);                                                  \
            }                                                                                                                              \
            for (int64_t r = 0; r < rows; r++) {                                                                                           \
                Acc acc = n <= BLOCK ? 0 : sums[0];                                                                                        \
                for (int64_t i = 0; n <= BLOCK && i < n; i++)                                                                              \
                    acc += sums[r * n + i];                                                                                                \
                ((T *)sum->out)[row + r] = RESULT;                                                                                         \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
PIECE_SUM(f32, float, double, (float)(acc / sum->divisor))
PIECE_SUM(f64, double, double, acc / sum->divisor)
PIECE_SUM(i32, int32_t, uint32_t, (int32_t)acc)
PIECE_SUM(i64, int64_t, uint64_t, (int64_t)acc)

void piece_sum_part(const PieceSum *sum, int64_t begin, int64_t end, SummandFn *piece, void *context) {
    typedef void Part(const PieceSum *sum, int64_t begin, int64_t end, SummandFn *piece, void *context);
    static Part *const rows[NDTYPES] = {piece_rows_f32, piece_rows_f64, piece_rows_i32, piece_rows_i64};
    static Part *const spans[NDTYPES] = {piece_spans_f32, piece_spans_f64, piece_spans_i32, piece_spans_i64};
    (sum->times > 1 ? spans : rows)[sum->dtype](sum, begin, end, piece, context);
}

/* A composite: compiled plans hold what it expands to. This kernel serves those that run graphs before expansion. */
#define MSE(suffix, T)                                                                                                                     \
    static double squares_##suffix(const T *x, const T *target, int64_t n) {                                                               \
        double sum = 0;                                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            double difference = (double)x[i] - (double)target[i];                                                                          \
            sum += difference * difference;                                                                                                \
        }                                                                                                                                  \
        return sum;                                                                                                                        \
    }
MSE(f32, float)
MSE(f64, double)

bool kernel_mse(const KernelCall *call, Error *error) {
    const Operand *x = &call->in[0], *target = &call->in[1];
    int64_t n = shape_elements(&x->local), count = shape_elements(&x->global);
    bool is_sum = call->attr[0].text && strcmp(call->attr[0].text, "sum") == 0;
    double divisor = is_sum ? 1 : (double)count;
    switch (x->dtype) {
    case F32:
        *(float *)call->out[0].data = (float)(squares_f32(x->data, target->data, n) / divisor);
        return true;
    case F64:
        *(double *)call->out[0].data = squares_f64(x->data, target->data, n) / divisor;
        return true;
    case I32:
    case I64:
    case BOOL:
    case F16:
    case BF16:
    case NDTYPES:
        break;
    }
    return error_set(error, EXIT_INTERNAL, "mse: no kernel for %s", dtype_name[x->dtype]);
}
