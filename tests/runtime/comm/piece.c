/* Packing, unpacking and reducing pieces, against plain loops over indices. */
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Position of the element number `at` of the row-major order of part in a buffer that holds box. */
static int64_t position(const Box *part, const Box *box, int64_t at) {
    int64_t index[MAX_NDIM], result = 0;
    for (int d = part->ndim - 1; d >= 0; d--) {
        index[d] = part->begin[d] + at % (part->end[d] - part->begin[d]);
        at /= part->end[d] - part->begin[d];
    }
    for (int d = 0; d < box->ndim; d++)
        result = result * (box->end[d] - box->begin[d]) + index[d] - box->begin[d];
    return result;
}

/* All parts of a small box of three dimensions, and all ranges of elements in them. */
typedef void PartFn(const Piece *piece, const Box *box);
static void each_part(PartFn *fn) {
    Box box = {.ndim = 3, .begin = {2, 1, 0}, .end = {4, 4, 3}};
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 3; c++)
                for (int p = a + 1; p <= 2; p++)
                    for (int q = b + 1; q <= 3; q++)
                        for (int r = c + 1; r <= 3; r++) {
                            Piece piece = {.box = {.ndim = 3, .begin = {2 + a, 1 + b, c}, .end = {2 + p, 1 + q, r}}};
                            int64_t n = box_elements(&piece.box);
                            for (piece.first = 0; piece.first < n; piece.first++)
                                for (piece.count = 1; piece.first + piece.count <= n; piece.count++)
                                    fn(&piece, &box);
                        }
}

enum { NBOX = 18 };

static void check_pack(const Piece *piece, const Box *box) {
    double source[NBOX], packed[NBOX + 1], target[NBOX];
    for (int i = 0; i < NBOX; i++)
        source[i] = i, target[i] = -1;
    packed[piece->count] = 99;
    piece_pack(piece, box, source, 8, packed);
    for (int64_t i = 0; i < piece->count; i++)
        cr_assert_eq(packed[i], source[position(&piece->box, box, piece->first + i)]);
    cr_assert_eq(packed[piece->count], 99, "wrote past the message");
    piece_unpack(piece, box, target, 8, packed);
    int64_t filled = 0;
    for (int i = 0; i < NBOX; i++) {
        cr_assert(target[i] == -1 || target[i] == source[i]);
        filled += target[i] != -1;
    }
    cr_assert_eq(filled, piece->count);
}

Test(comm_piece, pack_and_unpack_any_range_of_any_part) {
    each_part(check_pack);
}

static void check_reduce(const Piece *piece, const Box *box) {
    float packed[NBOX], target[NBOX];
    int32_t packed_i32[NBOX], target_i32[NBOX];
    for (int i = 0; i < NBOX; i++)
        target[i] = (float)(target_i32[i] = 100 + i), packed[i] = (float)(packed_i32[i] = i % 2 ? 1000 + i : -i);
    piece_reduce(piece, box, target, F32, REDUCE_SUM, packed);
    piece_reduce(piece, box, target_i32, I32, REDUCE_MAX, packed_i32);
    for (int64_t i = 0; i < piece->count; i++) {
        int64_t at = position(&piece->box, box, piece->first + i);
        cr_assert_eq(target[at], (float)(100 + at) + packed[i]);
        cr_assert_eq(target_i32[at], packed_i32[i] > 100 + at ? packed_i32[i] : 100 + at);
        target[at] = (float)(100 + at);
        target_i32[at] = 100 + (int32_t)at;
    }
    for (int i = 0; i < NBOX; i++)
        cr_assert(target[i] == (float)(100 + i) && target_i32[i] == 100 + i, "touched another element");
}

Test(comm_piece, reduce_any_range_of_any_part) {
    each_part(check_reduce);
}

Test(comm_piece, long_runs_of_every_type_and_reduction) {
    enum { N = 5000 };
    static double a[N], b[N];
    static float a32[N], b32[N];
    static int32_t ai[N], bi[N];
    Piece piece = {.box = {.ndim = 1, .begin = {0}, .end = {N}}, .count = N};
    for (int reduction = 0; reduction < NREDUCTIONS; reduction++) {
        for (int i = 0; i < N; i++)
            a[i] = a32[i] = (float)(ai[i] = i * 37 % 1001 - 500), b[i] = b32[i] = (float)(bi[i] = i * 53 % 997 - 500);
        piece_reduce(&piece, &piece.box, a, F64, (Reduction)reduction, b);
        piece_reduce(&piece, &piece.box, a32, F32, (Reduction)reduction, b32);
        piece_reduce(&piece, &piece.box, ai, I32, (Reduction)reduction, bi);
        for (int i = 0; i < N; i++) {
            int x = i * 37 % 1001 - 500, y = i * 53 % 997 - 500;
            int expected = reduction == REDUCE_SUM ? x + y : reduction == REDUCE_MAX ? (x > y ? x : y) : (x < y ? x : y);
            cr_assert(a[i] == expected && a32[i] == (float)expected && ai[i] == expected);
        }
    }
}

Test(comm_piece, a_nan_stays_one_in_max_and_min) {
    Piece piece = {.box = {.ndim = 1, .begin = {0}, .end = {2}}, .count = 2};
    for (int reduction = REDUCE_MAX; reduction <= REDUCE_MIN; reduction++) {
        float a[2] = {NAN, 1}, b[2] = {1, NAN};
        piece_reduce(&piece, &piece.box, a, F32, (Reduction)reduction, b);
        cr_assert(isnan(a[0]) && isnan(a[1]));
    }
}

Test(comm_piece, integer_sums_wrap) {
    Piece piece = {.box = {.ndim = 0}, .count = 1};
    int32_t a = INT32_MAX, b = 1;
    piece_reduce(&piece, &piece.box, &a, I32, REDUCE_SUM, &b);
    cr_assert_eq(a, INT32_MIN);
}

/* Sums of fractions: another order of the terms is other bits. */
Test(comm_piece, terms_are_added_from_left_to_right) {
    enum { MOST = 20, CELLS = 64 };
    Piece piece = {.box = {.ndim = 1, .begin = {0}, .end = {CELLS}}, .count = CELLS};
    float data[MOST][CELLS], target[CELLS], expected[CELLS];
    const void *source[MOST];
    const Box *boxes[MOST + 1];
    PieceView views[MOST + 1];
    PieceRuns walk;
    for (int k = 0; k <= MOST; k++)
        boxes[k] = &piece.box;
    for (int k = 0; k < MOST; k++) {
        source[k] = data[k];
        for (int i = 0; i < CELLS; i++)
            data[k][i] = (float)((i * 7919 + k * 104729) % 10007) / 97.0f;
    }
    walk_init(&walk, &piece, boxes, MOST + 1, views);
    for (int n = 2; n <= MOST; n++)
        for (int add = 0; add < 2; add++) {
            for (int i = 0; i < CELLS; i++) {
                target[i] = expected[i] = add ? 0.7f : data[0][i];
                for (int k = !add; k < n; k++)
                    expected[i] += data[k][i];
            }
            walk_reduce(&walk, &views[MOST], target, views, source, n, F32, REDUCE_SUM, add);
            cr_assert_arr_eq(target, expected, sizeof expected, "%d terms%s", n, add ? ", added" : "");
        }
}
