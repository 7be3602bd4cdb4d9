/* Pulls against walk_copy and walk_reduce: random boxes and messages, one at a time and as a table. */
#include "runtime/cuda/pull.h"
#include "runtime/element.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

/* A box that contains the part, in a tensor of this shape. */
static Box box_around(const Shape *shape, const Box *part, uint64_t *random) {
    Box box = {.ndim = shape->ndim};
    for (int d = 0; d < shape->ndim; d++) {
        bool exact = random_below(random, 3) == 0;
        box.begin[d] = exact ? part->begin[d] : random_below(random, part->begin[d] + 1);
        box.end[d] = exact ? part->end[d] : part->end[d] + random_below(random, shape->dim[d] - part->end[d] + 1);
    }
    return box;
}

static int64_t box_count(const Box *box) {
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->end[d] - box->begin[d];
    return n;
}

/* One pull: its memory on the host and on the device. Memory 0 is the target's. */
typedef struct Trial {
    PieceRuns walk;
    PieceView view[1 + PULL_TERMS];
    void *host[1 + PULL_TERMS];
    char *on[1 + PULL_TERMS];
    int64_t bytes[1 + PULL_TERMS];
    int nsources;
    DType dtype;
    Reduction reduction;
    bool add;
} Trial;

static void trial_make(Trial *t, uint64_t *random) {
    const int64_t sizes[] = {1, 2, 3, 4, 8, 16, 20, 5};
    Shape shape = {.ndim = 1 + (int)random_below(random, 4)};
    Piece piece = {.box.ndim = shape.ndim};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dim[d] = sizes[random_below(random, 8)];
        bool all = random_below(random, 3) != 0;
        piece.box.begin[d] = all ? 0 : random_below(random, shape.dim[d]);
        piece.box.end[d] = all ? shape.dim[d] : piece.box.begin[d] + 1 + random_below(random, shape.dim[d] - piece.box.begin[d]);
    }
    int64_t elements = box_count(&piece.box);
    bool whole = random_below(random, 2);
    piece.first = whole ? 0 : random_below(random, elements);
    piece.count = whole ? elements : random_below(random, elements - piece.first + 1);
    *t = (Trial){.nsources = random_below(random, 3) ? 1 + (int)random_below(random, PULL_TERMS) : 1,
                 .dtype = (DType)random_below(random, NDTYPES),
                 .reduction = (Reduction)random_below(random, NREDUCTIONS),
                 .add = random_below(random, 2)};
    Box boxes[1 + PULL_TERMS];
    const Box *given[1 + PULL_TERMS];
    for (int m = 0; m <= t->nsources; m++) {
        boxes[m] = box_around(&shape, &piece.box, random);
        given[m] = m > 0 && random_below(random, 3) == 0 ? NULL : &boxes[m];
        t->bytes[m] = (given[m] ? box_count(&boxes[m]) : piece.count) * dtype_bytes[t->dtype];
        t->host[m] = malloc((size_t)t->bytes[m] + 8);
        for (int64_t k = 0; k < t->bytes[m] / dtype_bytes[t->dtype]; k++)
            element_put(t->host[m], t->dtype, k,
                        t->dtype == BOOL ? (double)random_below(random, 2)
                                         : (double)random_below(random, 2000) - 1000 + (dtype_is_float(t->dtype) ? 0.37 : 0));
        if (t->dtype == F32 && t->bytes[m] > 0 && random_below(random, 4) == 0)
            element_put(t->host[m], F32, random_below(random, t->bytes[m] / 4), NAN);
    }
    walk_init(&t->walk, &piece, given, 1 + t->nsources, t->view);
}

/* Small uploads are queued behind each other; pulls of these tests run on a stream of their own. */
static void wait_for(const Device *device) {
    Error error;
    cr_assert(device->backend->sync(device->context, &error), "%s", error.text);
}

static void trial_place(Trial *t, const Device *device, KernelPull *pull, uint64_t *random) {
    Error error;
    int64_t skip = random_below(random, 2)
                       ? 0
                       : random_below(random, 4) * dtype_bytes[t->dtype]; /* the same of all memories, or wide accesses are never tried */
    for (int m = 0; m <= t->nsources; m++) {
        t->on[m] = device->backend->alloc(device->context, t->bytes[m] + skip, &error);
        cr_assert(t->on[m] && device->backend->upload(device->context, t->on[m] + skip, t->host[m], t->bytes[m], &error));
    }
    const void *sources[PULL_TERMS];
    for (int s = 0; s < t->nsources; s++)
        sources[s] = t->on[1 + s] + skip;
    pull_init(pull, &t->walk, &t->view[0], t->on[0] + skip, &t->view[1], sources, t->nsources, t->dtype, t->reduction, t->add);
}

static void trial_check(Trial *t, const Device *device, const KernelPull *pull, int number) {
    Error error;
    char *result = malloc((size_t)t->bytes[0] + 8);
    cr_assert(device->backend->download(device->context, result, pull->target, t->bytes[0], &error), "%s", error.text);
    const void *sources[PULL_TERMS];
    for (int s = 0; s < t->nsources; s++)
        sources[s] = t->host[1 + s];
    walk_reduce(&t->walk, &t->view[0], t->host[0], &t->view[1], sources, t->nsources, t->dtype, t->reduction, t->add);
    for (int64_t k = 0; k < t->bytes[0] / dtype_bytes[t->dtype]; k++) {
        double a = element_at(result, t->dtype, k), b = element_at(t->host[0], t->dtype, k);
        cr_assert(a == b || (isnan(a) && isnan(b)), "pull %d: %s %d, %d sources%s, width %d, element %lld: %.17g, plainly %.17g", number,
                  dtype_name[t->dtype], t->reduction, t->nsources, t->add ? ", added" : "", pull->width, (long long)k, a, b);
    }
    free(result);
    for (int m = 0; m <= t->nsources; m++) {
        device->backend->free(device->context, t->on[m]);
        free(t->host[m]);
    }
}

Test(pull, one_equals_the_walk) {
    uint64_t random = 21;
    int wide = 0;
    const Device *device = fixture_device();
    for (int number = 0; number < 600; number++) {
        Trial trial;
        KernelPull pull;
        trial_make(&trial, &random);
        trial_place(&trial, device, &pull, &random);
        cr_assert_eq(pulls_prepare(&pull, 1), pull.nblocks);
        wide += pull.width > 1;
        wait_for(device);
        cr_assert_eq(kernels_pull(&pull, NULL), cudaSuccess);
        cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
        trial_check(&trial, device, &pull, number);
    }
    cr_assert(wide > 100 && wide < 500, "%d", wide);
}

Test(pull, a_table_equals_its_walks) {
    enum { N = 40 };
    uint64_t random = 22;
    static Trial all[N];
    static KernelPull pulls[N];
    const Device *device = fixture_device();
    Error error;
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < N; i++) {
            trial_make(&all[i], &random);
            trial_place(&all[i], device, &pulls[i], &random);
        }
        int64_t nblocks = pulls_prepare(pulls, N);
        KernelPull *table = device->backend->alloc(device->context, sizeof pulls, &error);
        cr_assert(table && device->backend->upload(device->context, table, pulls, sizeof pulls, &error));
        wait_for(device);
        cr_assert_eq(kernels_pulls(table, N, nblocks, NULL), cudaSuccess);
        cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
        for (int i = 0; i < N; i++)
            trial_check(&all[i], device, &pulls[i], i);
        device->backend->free(device->context, table);
    }
}

/* More accesses than a pull's blocks take in one go, and positions in the middle of it all. */
Test(pull, of_many_elements) {
    enum { ROWS = 3000, COLUMNS = 1000, PART = 700 };
    const Device *device = fixture_device();
    Error error;
    float *x = malloc(sizeof(float) * ROWS * COLUMNS), *y = malloc(sizeof(float) * ROWS * PART);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)i;
    Piece piece = {.box = {.ndim = 2, .begin = {0, 100}, .end = {ROWS, 100 + PART}}, .count = ROWS * PART};
    Box whole = {.ndim = 2, .end = {ROWS, COLUMNS}};
    PieceRuns walk;
    PieceView view[2];
    KernelPull pull;
    walk_init(&walk, &piece, (const Box *[]){NULL, &whole}, 2, view);
    void *to = device->backend->alloc(device->context, (int64_t)sizeof(float) * ROWS * PART, &error),
         *from = device->backend->alloc(device->context, (int64_t)sizeof(float) * ROWS * COLUMNS, &error);
    cr_assert(to && from && device->backend->upload(device->context, from, x, (int64_t)sizeof(float) * ROWS * COLUMNS, &error));
    pull_init(&pull, &walk, &view[0], to, &view[1], (const void *[]){from}, 1, F32, REDUCE_SUM, false);
    pulls_prepare(&pull, 1);
    cr_assert_eq(pull.width, 4);
    cr_assert_eq(kernels_pull(&pull, NULL), cudaSuccess);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_assert(device->backend->download(device->context, y, to, (int64_t)sizeof(float) * ROWS * PART, &error));
    for (int i = 0; i < ROWS * PART; i++)
        cr_assert_eq(y[i], (float)(i / PART * COLUMNS + 100 + i % PART), "%d", i);
    free(x);
    free(y);
}
