/* Runs of elements: copies and reductions between the boxes of ranks, and between boxes and packed messages. The innermost dimensions
 * that lie contiguous in every memory merge into one run; the loops around it are an odometer over precomputed steps. */
#include "ir/half.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include <assert.h>
#include <string.h>

/* ---------------------------------------------------------------- walks */

void walk_init(PieceRuns *walk, const Piece *piece, const Box *const *boxes, int nboxes, PieceView *views) {
    const Box *part = &piece->box;
    int ndim = part->ndim;
    /* Dimension d can join the run inside it when every box holds exactly the part's range of all dimensions after d. */
    int inner = ndim;
    int64_t unit = 1;
    bool merges = true;
    while (inner > 0 && merges) {
        inner--;
        unit *= part->end[inner] - part->begin[inner];
        for (int i = 0; i < nboxes && merges; i++)
            merges = !boxes[i] || (boxes[i]->begin[inner] == part->begin[inner] && boxes[i]->end[inner] == part->end[inner]);
    }
    *walk = (PieceRuns){.nouter = inner, .unit = unit ? unit : 1, .count = piece->count};
    walk->skip = piece->first % walk->unit;
    int64_t rest = piece->first / walk->unit;
    for (int d = inner - 1; d >= 0; d--) {
        walk->extent[d] = part->end[d] - part->begin[d];
        assert(walk->extent[d] > 0 || piece->count == 0);
        if (walk->extent[d] == 0) continue;
        walk->index[d] = rest % walk->extent[d];
        rest /= walk->extent[d];
    }
    for (int i = 0; i < nboxes; i++) {
        const Box *box = boxes[i] ? boxes[i] : part;
        int64_t stride = 1, start = boxes[i] ? 0 : -piece->first;
        for (int d = ndim - 1; d >= 0; d--) {
            assert(piece->count == 0 || (box->begin[d] <= part->begin[d] && part->end[d] <= box->end[d]));
            start += (part->begin[d] - box->begin[d]) * stride;
            if (d < inner) {
                start += walk->index[d] * stride;
                views[i].step[d] = stride;
            }
            stride *= box->end[d] - box->begin[d];
        }
        views[i].start = start;
    }
}

/* Advances index to the next run. Returns the loop that went one on, for the caller to follow in its offsets: the loops inside it went back
 * to 0. -1: all did. */
static inline int odometer_turn(int nouter, const int64_t *extent, int64_t *index) {
    int d = nouter - 1;
    while (d >= 0 && ++index[d] == extent[d])
        index[d--] = 0;
    return d;
}

static inline int64_t view_turn(int64_t at, const PieceView *view, const PieceRuns *walk, int turned) {
    for (int d = walk->nouter - 1; d > turned; d--)
        at -= (walk->extent[d] - 1) * view->step[d];
    return turned >= 0 ? at + view->step[turned] : at;
}

/* Runs of a few bytes are common where the last dimension is split; a call of memcpy costs more than they do. */
static inline void bytes_copy(char *to, const char *from, size_t bytes) {
    switch (bytes) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, bytes);
        break;
    }
}

void walk_copy(const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_view, const void *source,
               int element_bytes) {
    char *to = target;
    const char *from = source;
    int64_t index[MAX_NDIM];
    memcpy(index, walk->index, sizeof index);
    int64_t at = target_view->start, source_at = source_view->start, left = walk->count, skip = walk->skip;
    while (left > 0) {
        int64_t n = walk->unit - skip < left ? walk->unit - skip : left;
        bytes_copy(to + (at + skip) * element_bytes, from + (source_at + skip) * element_bytes, (size_t)(n * element_bytes));
        left -= n;
        skip = 0;
        if (left == 0) break;
        int turned = odometer_turn(walk->nouter, walk->extent, index);
        at = view_turn(at, target_view, walk, turned);
        source_at = view_turn(source_at, source_view, walk, turned);
    }
}

/* ---------------------------------------------------------------- reductions */

/* Up to MAX_TERMS sources are combined in one pass over memory, always from left to right: ((a + b) + c) + d. */
enum { MAX_TERMS = 8, BLOCK = 2048 };

typedef void CombineFn(void *target, const void *const *source, int nsources, int64_t n, bool add);

/* Without add: to = a OP b OP ..; with it: to = to OP a OP ... Each is a loop of its own so that the compiler vectorises it. */
#define LOOP(EXPRESSION)                                                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                                                                        \
    to[i] = EXPRESSION
#define COMBINE(NAME, T, OP)                                                                                                               \
    static void NAME(void *target, const void *const *source, int nsources, int64_t n, bool add) {                                         \
        T *restrict to = target;                                                                                                           \
        int s = 0;                                                                                                                         \
        if (!add) {                                                                                                                        \
            const T *restrict a = source[0];                                                                                               \
            if (nsources == 1) {                                                                                                           \
                memcpy(to, a, (size_t)n * sizeof *to);                                                                                     \
                return;                                                                                                                    \
            }                                                                                                                              \
            const T *restrict b = source[1];                                                                                               \
            if (nsources < 4) {                                                                                                            \
                LOOP(OP(a[i], b[i]));                                                                                                      \
                s = 2;                                                                                                                     \
            } else {                                                                                                                       \
                const T *restrict c = source[2], *restrict d = source[3];                                                                  \
                LOOP(OP(OP(OP(a[i], b[i]), c[i]), d[i]));                                                                                  \
                s = 4;                                                                                                                     \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (; s + 4 <= nsources; s += 4) {                                                                                                \
            const T *restrict a = source[s], *restrict b = source[s + 1], *restrict c = source[s + 2], *restrict d = source[s + 3];        \
            LOOP(OP(OP(OP(OP(to[i], a[i]), b[i]), c[i]), d[i]));                                                                           \
        }                                                                                                                                  \
        for (; s < nsources; s++) {                                                                                                        \
            const T *restrict a = source[s];                                                                                               \
            LOOP(OP(to[i], a[i]));                                                                                                         \
        }                                                                                                                                  \
    }
#define ADD(a, b) ((a) + (b))
#define ADD_WRAPPING(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define ADD_WRAPPING_64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define EITHER(a, b) ((uint8_t)((a) | (b)))
#define BOTH(a, b) ((uint8_t)((a) & (b)))
/* A NaN on either side stays one. */
#define MAXIMUM(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))
#define MINIMUM(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))
COMBINE(combine_f32_sum, float, ADD)
COMBINE(combine_f32_max, float, MAXIMUM)
COMBINE(combine_f32_min, float, MINIMUM)
COMBINE(combine_f64_sum, double, ADD)
COMBINE(combine_f64_max, double, MAXIMUM)
COMBINE(combine_f64_min, double, MINIMUM)
COMBINE(combine_i32_sum, int32_t, ADD_WRAPPING)
COMBINE(combine_i32_max, int32_t, MAXIMUM)
COMBINE(combine_i32_min, int32_t, MINIMUM)
COMBINE(combine_i64_sum, int64_t, ADD_WRAPPING_64)
COMBINE(combine_i64_max, int64_t, MAXIMUM)
COMBINE(combine_i64_min, int64_t, MINIMUM)
/* Halves: all terms of a pass are added up in f32 and the sum rounded once. */
#define COMBINE_HALF(NAME, OP, WIDE, HALF)                                                                                                 \
    static void NAME(void *target, const void *const *source, int nsources, int64_t n, bool add) {                                         \
        uint16_t *to = target;                                                                                                             \
        float sum[BLOCK];                                                                                                                  \
        assert(n <= BLOCK);                                                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                                                    \
            sum[i] = WIDE(add ? to[i] : ((const uint16_t *)source[0])[i]);                                                                 \
        for (int s = add ? 0 : 1; s < nsources; s++)                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                                              \
                const float term = WIDE(((const uint16_t *)source[s])[i]);                                                                 \
                sum[i] = OP(sum[i], term);                                                                                                 \
            }                                                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                                                    \
            to[i] = HALF(sum[i]);                                                                                                          \
    }
COMBINE_HALF(combine_f16_sum, ADD, f16_to_f32, f16_of_f32)
COMBINE_HALF(combine_f16_max, MAXIMUM, f16_to_f32, f16_of_f32)
COMBINE_HALF(combine_f16_min, MINIMUM, f16_to_f32, f16_of_f32)
COMBINE_HALF(combine_bf16_sum, ADD, bf16_to_f32, bf16_of_f32)
COMBINE_HALF(combine_bf16_max, MAXIMUM, bf16_to_f32, bf16_of_f32)
COMBINE_HALF(combine_bf16_min, MINIMUM, bf16_to_f32, bf16_of_f32)
COMBINE(combine_bool_or, uint8_t, EITHER)
COMBINE(combine_bool_and, uint8_t, BOTH)

static CombineFn *const combine_fn[NDTYPES][NREDUCTIONS] = {
    [F32] = {[REDUCE_SUM] = combine_f32_sum, [REDUCE_MAX] = combine_f32_max, [REDUCE_MIN] = combine_f32_min},
    [F64] = {[REDUCE_SUM] = combine_f64_sum, [REDUCE_MAX] = combine_f64_max, [REDUCE_MIN] = combine_f64_min},
    [I32] = {[REDUCE_SUM] = combine_i32_sum, [REDUCE_MAX] = combine_i32_max, [REDUCE_MIN] = combine_i32_min},
    [I64] = {[REDUCE_SUM] = combine_i64_sum, [REDUCE_MAX] = combine_i64_max, [REDUCE_MIN] = combine_i64_min},
    [F16] = {[REDUCE_SUM] = combine_f16_sum, [REDUCE_MAX] = combine_f16_max, [REDUCE_MIN] = combine_f16_min},
    [BF16] = {[REDUCE_SUM] = combine_bf16_sum, [REDUCE_MAX] = combine_bf16_max, [REDUCE_MIN] = combine_bf16_min},
    [BOOL] = {[REDUCE_SUM] = combine_bool_or, [REDUCE_MAX] = combine_bool_or, [REDUCE_MIN] = combine_bool_and},
};

/* One pass over the piece with at most MAX_TERMS sources. */
static void reduce_pass(const PieceRuns *walk, const PieceView *target_view, char *target, const PieceView *views,
                        const void *const *source, int nsources, int element_bytes, CombineFn *combine, bool add) {
    int64_t index[MAX_NDIM], at = target_view->start, source_at[MAX_TERMS], left = walk->count, skip = walk->skip;
    memcpy(index, walk->index, sizeof index);
    for (int s = 0; s < nsources; s++)
        source_at[s] = views[s].start;
    while (left > 0) {
        int64_t n = walk->unit - skip < left ? walk->unit - skip : left;
        for (int64_t i = 0; i < n; i += BLOCK) { /* the block stays in the first-level cache while its terms are added */
            const void *from[MAX_TERMS];
            for (int s = 0; s < nsources; s++)
                from[s] = (const char *)source[s] + (source_at[s] + skip + i) * element_bytes;
            combine(target + (at + skip + i) * element_bytes, from, nsources, n - i < BLOCK ? n - i : BLOCK, add);
        }
        left -= n;
        skip = 0;
        if (left == 0) break;
        int turned = odometer_turn(walk->nouter, walk->extent, index);
        at = view_turn(at, target_view, walk, turned);
        for (int s = 0; s < nsources; s++)
            source_at[s] = view_turn(source_at[s], &views[s], walk, turned);
    }
}

void walk_reduce(const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_views,
                 const void *const *source, int nsources, DType dtype, Reduction reduction, bool add) {
    CombineFn *combine = combine_fn[dtype][reduction];
    for (int s = 0; s < nsources; s += MAX_TERMS) {
        int n = nsources - s < MAX_TERMS ? nsources - s : MAX_TERMS;
        reduce_pass(walk, target_view, target, source_views + s, source + s, n, dtype_bytes[dtype], combine, add || s > 0);
    }
}

/* ---------------------------------------------------------------- pull.h */

void piece_pack(const Piece *piece, const Box *source_box, const void *source, int element_bytes, void *packed) {
    PieceRuns walk;
    PieceView view[2];
    walk_init(&walk, piece, (const Box *[]){source_box, NULL}, 2, view);
    walk_copy(&walk, &view[1], packed, &view[0], source, element_bytes);
}

void piece_unpack(const Piece *piece, const Box *target_box, void *target, int element_bytes, const void *packed) {
    PieceRuns walk;
    PieceView view[2];
    walk_init(&walk, piece, (const Box *[]){target_box, NULL}, 2, view);
    walk_copy(&walk, &view[0], target, &view[1], packed, element_bytes);
}

void piece_reduce(const Piece *piece, const Box *target_box, void *target, DType dtype, Reduction reduction, const void *packed) {
    PieceRuns walk;
    PieceView view[2];
    walk_init(&walk, piece, (const Box *[]){target_box, NULL}, 2, view);
    walk_reduce(&walk, &view[0], target, &view[1], &packed, 1, dtype, reduction, true);
}
