/* pitch: large products of a matrix whose rows do not begin at multiples of 16 bytes, such as rows of 50257 words. cuBLASLt is several times slower for them. So they are
 * computed in parts, of rows or columns of the result: what a part reads or writes of that matrix is copied to or from a buffer whose rows begin at such multiples. Rows that
 * do not end at one are as slow, so their rest, below 16 bytes, is a separate product. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/kernels.h"
#include "runtime/cuda/matmul.h"

enum { MANY_ROWS = 64 /* the size of larger parts is a multiple of this */, MANY_TERMS = 4096 };

/* right, left, result: cuBLASLt's A, B, D. */
enum { RIGHT, LEFT, RESULT, NMATRICES };

/* One matrix of a product, stored as `rows` of `columns`, and how it is divided. */
typedef struct Pitched {
    int matrix;
    int64_t bytes, items, rows, columns; /* items of 16 bytes */
    bool by_rows;
    int64_t count, each, pitch; /* count rows or columns are divided, `each` in a part; pitch: elements between rows in the room */
} Pitched;

/* PCC_TEST_PITCH=FROM,BYTES: for tests, which have no large products. */
bool pitch_open(CudaContext *cuda, Error *error) {
    const char *given = getenv("PCC_TEST_PITCH");
    long long from = ODD_ROWS_FROM, bytes = cuda->options.odd_rows ? WORKSPACE_ODD_ROWS : 0;
    if (given) sscanf(given, "%lld,%lld", &from, &bytes);
    cuda->pitch = (CudaPitch){.from = from, .bytes = bytes};
    return bytes == 0 || cuda_take_workspace(cuda, &cuda->pitch.room, bytes, "taking memory for products with odd rows", error);
}

void pitch_close(CudaContext *cuda) {
    if (cuda->pitch.room) cudaFree(cuda->pitch.room);
}

static void describe(const MatmulKey *key, int matrix, Pitched *p) {
    const bool turned = matrix != RESULT && key->transposed[matrix];
    const int64_t split = matrix == RIGHT ? key->n : key->m, other = matrix == RESULT ? key->n : key->k;
    *p = (Pitched){.matrix = matrix, .bytes = dtype_bytes[matrix == RESULT ? key->out_dtype : key->dtype], .count = split};
    p->by_rows = matrix == RIGHT ? turned : !turned;
    p->rows = p->by_rows ? split : other;
    p->columns = p->by_rows ? other : split;
}

/* Whether the product has exactly one such matrix, *p, and parts of it fit the room. */
static bool pitched_of(const CudaContext *cuda, const Multiply *multiply, Pitched *p) {
    const MatmulKey *key = &multiply->key;
    int found = 0;
    if (key->batch != 1 || key->add || key->epilogue != CUBLASLT_EPILOGUE_DEFAULT || key->dtype == F64) return false;
    if ((double)key->m * (double)key->n * (double)key->k < (double)cuda->pitch.from) return false;
    for (int matrix = 0; matrix < NMATRICES; matrix++) {
        Pitched one;
        describe(key, matrix, &one);
        if (key->leading[matrix] * one.bytes % ROW_ALIGNMENT == 0) continue;
        *p = one;
        found++;
    }
    if (found != 1) return false;
    p->items = ROW_ALIGNMENT / p->bytes;
    /* The sum of the remaining terms is rounded to 16 bits before the others are added: with many terms that is negligible. */
    if (p->by_rows && p->matrix != RESULT && dtype_is_half((DType)key->out_dtype) && p->columns < MANY_TERMS) return false;
    if (p->by_rows) {
        p->columns = p->columns / p->items * p->items;
        p->pitch = p->columns;
        p->each = p->columns > 0 ? cuda->pitch.bytes / (p->pitch * p->bytes) : 0;
    } else {
        p->each = cuda->pitch.bytes / (p->rows * p->bytes) / p->items * p->items;
    }
    if (p->each > MANY_ROWS) p->each = p->each / MANY_ROWS * MANY_ROWS;
    if (!p->by_rows) p->pitch = p->each;
    return p->each >= p->items;
}

/* The size of the part from `begin` on; of columns a number that ends at a multiple of 16 bytes, if there are enough. */
static int64_t part_size(const Pitched *p, int64_t begin) {
    const int64_t left = p->count - begin, n = left < p->each ? left : p->each;
    return !p->by_rows && n > p->items ? n / p->items * p->items : n;
}

/* The product's dimension that runs along the matrix's rows. */
static int64_t *along(MatmulKey *key, const Pitched *p) {
    return p->matrix == RESULT ? &key->n : &key->k;
}

/* The product of the rest of the rows, for a matrix divided by rows: columns of the result, or terms that are summed before the others. False: there is none. */
static bool rest_of(const Multiply *whole, const Pitched *p, Multiply *rest) {
    const MatmulKey *key = &whole->key;
    const int64_t bytes = dtype_bytes[key->dtype];
    *rest = *whole;
    if (!p->by_rows || p->columns == *along(&rest->key, p)) return false;
    *along(&rest->key, p) -= p->columns;
    const int64_t right = (key->transposed[RIGHT] != 0) == (p->matrix != RESULT) ? 1 : key->leading[RIGHT];
    rest->right = (const char *)whole->right + p->columns * right * bytes;
    if (p->matrix == RESULT)
        rest->out = (char *)whole->out + p->columns * dtype_bytes[key->out_dtype];
    else
        rest->left = (const char *)whole->left + p->columns * (key->transposed[LEFT] ? key->leading[LEFT] : 1) * bytes;
    matmul_align(rest);
    return true;
}

/* The product of the part from `begin` on, whose matrix is in the room. */
static Multiply part_of(const CudaContext *cuda, const Multiply *whole, const Pitched *p, int64_t begin) {
    Multiply part = *whole;
    MatmulKey *key = &part.key;
    const int64_t out_bytes = dtype_bytes[key->out_dtype];
    key->leading[p->matrix] = p->pitch;
    if (p->by_rows) {
        key->add = p->matrix != RESULT && *along(key, p) > p->columns;
        *along(key, p) = p->columns;
    }
    *(p->matrix == RIGHT ? &key->n : &key->m) = part_size(p, begin);
    if (p->matrix == RIGHT) {
        part.right = cuda->pitch.room;
        part.out = (char *)whole->out + begin * out_bytes;
    } else if (p->matrix == LEFT) {
        part.left = cuda->pitch.room;
        part.out = (char *)whole->out + begin * key->leading[RESULT] * out_bytes;
    } else {
        part.out = cuda->pitch.room;
        part.left = (const char *)whole->left + begin * (key->transposed[LEFT] ? 1 : key->leading[LEFT]) * dtype_bytes[key->dtype];
    }
    matmul_align(&part);
    return part;
}

static bool part_copy(CudaContext *cuda, const Multiply *whole, const Pitched *p, int64_t begin, int64_t n, Error *error) {
    const int64_t leading = whole->key.leading[p->matrix];
    const void *matrix = p->matrix == RIGHT ? whole->right : p->matrix == LEFT ? whole->left : whole->out;
    char *at = (char *)matrix + begin * (p->by_rows ? leading : 1) * p->bytes;
    const bool back = p->matrix == RESULT;
    const KernelPitch copy = {.to = back ? at : cuda->pitch.room,
                              .from = back ? cuda->pitch.room : at,
                              .to_pitch = back ? leading : p->pitch,
                              .from_pitch = back ? p->pitch : leading,
                              .rows = p->by_rows ? n : p->rows,
                              .columns = p->by_rows ? p->columns : n,
                              .item_bytes = (int)p->bytes};
    return cuda_launched(cuda, kernels_pitch(&copy, cuda->compute), "pitch", error);
}

bool pitch_possible(CudaContext *cuda, const Multiply *multiply) {
    Pitched p;
    if (!cuda->pitch.room || !pitched_of(cuda, multiply, &p)) return false;
    cublasStatus_t status; /* choice.c settles all of them before the first step */
    Multiply rest;
    if (rest_of(multiply, &p, &rest) && !matmul_plan(cuda, &rest, &status)) return false;
    for (int64_t begin = 0; begin < p.count; begin += part_size(&p, begin)) {
        const Multiply part = part_of(cuda, multiply, &p, begin);
        if (!matmul_plan(cuda, &part, &status)) return false;
    }
    return true;
}

bool pitch_run(CudaContext *cuda, const Multiply *multiply, Error *error) {
    Pitched p;
    Multiply rest;
    if (!pitched_of(cuda, multiply, &p)) return error_set(error, EXIT_INTERNAL, "a product has no matrix to be copied");
    if (rest_of(multiply, &p, &rest) && !matmul_queue(cuda, &rest, error)) return false;
    for (int64_t begin = 0, n; begin < p.count; begin += n) {
        const Multiply part = part_of(cuda, multiply, &p, begin);
        n = part_size(&p, begin);
        if (p.matrix != RESULT && !part_copy(cuda, multiply, &p, begin, n, error)) return false;
        if (!matmul_queue(cuda, &part, error)) return false;
        if (p.matrix == RESULT && !part_copy(cuda, multiply, &p, begin, n, error)) return false;
    }
    return true;
}
