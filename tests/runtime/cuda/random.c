/* Random numbers that the device makes are the process's, to the bit: boxes of tensors, of every type of reals, from any place of the sequence on. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/data/data.h"
#include "runtime/data/sampler.h"
#include "runtime/element.h"
#include "tests/runtime/cuda/fixture.h"

/* Of some tensors one dimension has the rows of a batch, and some of those have another before it, of replicas. */
static Numbers numbers_of(const Shape *shape, uint64_t first, uint64_t *random) {
    Numbers numbers = {
        .key = random_key(7, "net/x"), .first = first, .ndim = shape->ndim, .row_dim = -1, .row_length = 1, .share = 1, .world = 1};
    const bool replicas = shape->ndim > 1 && random_below(random, 2) == 0;
    if (shape->ndim > 0) numbers.row_dim = (int)random_below(random, shape->ndim + 1) - 1;
    if (numbers.row_dim < replicas) numbers.row_dim = -1;
    int64_t stride = 1, rows = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        const bool merged = replicas && numbers.row_dim >= 0;
        numbers.stride[d] = merged && d == 0 ? 0 : stride;
        stride *= shape->dim[d] * (merged && d == numbers.row_dim ? shape->dim[0] : 1);
    }
    if (numbers.row_dim < 0) return numbers;
    rows = shape->dim[numbers.row_dim];
    if (rows % 2 == 0) numbers.row_length = 2, rows /= 2;
    if (replicas) numbers.replica_rows = rows, rows *= shape->dim[0];
    for (numbers.world = 4; rows % numbers.world != 0;)
        numbers.world--;
    numbers.share = rows / numbers.world;
    return numbers;
}

static void check(DType dtype, const Shape *shape, uint64_t first, uint64_t *random) {
    const Device *device = fixture_device();
    const Numbers numbers = numbers_of(shape, first, random);
    Image image;
    Error error = {0};
    Operand to = {.dtype = dtype, .global = *shape, .local = *shape, .box = {.ndim = shape->ndim}};
    int64_t index[MAX_NDIM];
    image_init(&image, 256 << 10);
    for (int d = 0; d < shape->ndim; d++) {
        to.box.begin[d] = index[d] = random_below(random, shape->dim[d]);
        to.box.end[d] = to.box.begin[d] + random_below(random, shape->dim[d] - to.box.begin[d] + 1);
        to.local.dim[d] = to.box.end[d] - to.box.begin[d];
    }
    const int64_t n = shape_elements(&to.local);
    char *host = image_take(&image, random, n, dtype);
    image_upload(&image);
    to.data = image.device + (host - image.host);
    cr_assert(device->backend->queue->uniform(device->context, &to, &numbers, &error), "%s", error.text);
    image_download(&image);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t number = numbers_at(&numbers, index);
        double pair[2];
        random_uniform_pair(numbers.key, number / 2, 0, 1, pair);
        element_put(host, dtype, i, pair[number % 2]);
        for (int d = shape->ndim - 1; d >= 0 && ++index[d] == to.box.end[d]; d--)
            index[d] = to.box.begin[d];
    }
    cr_assert(memcmp(image.seen, image.host, (size_t)image.bytes) == 0, "%s, %lld elements from %llu on", dtype_name[dtype], (long long)n,
              (unsigned long long)first);
    image_finish(&image);
}

Test(random, numbers_of_the_device_are_those_of_the_process) {
    const uint64_t firsts[] = {0, 1, 1000003, (1ull << 33) + 5};
    const DType dtypes[] = {F32, F64, F16, BF16};
    uint64_t random = 3;
    for (size_t t = 0; t < 4; t++)
        for (size_t f = 0; f < 4; f++)
            for (int repeat = 0; repeat < 8; repeat++) {
                const Shape shape = repeat == 0 ? (Shape){0} : random_shape(&random, 4, 3000);
                check(dtypes[t], &shape, firsts[f], &random);
            }
}
