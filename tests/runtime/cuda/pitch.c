/* Products of a matrix whose rows begin at no multiple of 16 bytes, in parts: each of the three matrices, by rows and by columns, in as many parts as one and more, the last one
 * shorter. And that they are computed so: the launches are counted. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/check.h"
#include "tests/runtime/cuda/fixture.h"

static const char *const specs[] = {"mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn"};
enum { NSPECS = sizeof specs / sizeof *specs, ROOM = 1024 };

/* m, k, n: the odd one is the columns of one matrix or two; in 16 bits 8 items are 16 bytes. */
static const int64_t sizes[][3] = {{40, 16, 37}, {37, 16, 24}, {16, 37, 24}, {40, 41, 24}, {3, 8, 81}};
enum { NSIZES = sizeof sizes / sizeof *sizes };

static Check check_of(const char *spec, const int64_t *size, DType dtype) {
    const int64_t m = size[0], k = size[1], n = size[2];
    Check check = {.op = OP_einsum, .dtype = dtype, .nin = 2, .in = {SHAPE(m, k), SHAPE(k, n)}, .length = (double)k, .size = (double)k};
    if (spec[0] == 'k') check.in[0] = SHAPE(k, m);
    if (spec[3] == 'n') check.in[1] = SHAPE(n, k);
    check.attr[0] = (Attr){.given = true, .text = spec};
    return check;
}

/* Whether rows of a matrix of so many columns are those. */
static bool is_odd(int64_t columns, DType dtype) {
    return columns * dtype_bytes[dtype] % 16 != 0;
}

static int count_launches(const Device *device, const KernelCall *call) {
    const DeviceQueue *queue = device->backend->queue;
    Error error = {0};
    void *graph = NULL;
    int nodes = 0;
    cr_assert(queue->capture(device->context, &error) && device->backend->kernels[call->op](call, &error), "%s", error.text);
    cr_assert(queue->captured(device->context, &graph, &nodes, &error) && graph, "%s", error.text);
    queue->discard(device->context, graph);
    return nodes;
}

/* How many launches compute it, once it has been right. */
static int launches(const Check *check) {
    const Device *device = fixture_device();
    uint64_t random = 9;
    KernelCall call, there;
    Rule rule;
    Image image;
    Error error = {0};
    check_open(&call, check, &rule, true, &random);
    cr_assert(check_run(device, &call, 0, false, &error), "%s", error.text);
    check_results(cpu_reference_kernels, &call, check->length, check->size, " in parts");
    there = call;
    image_init(&image, 64 << 10);
    for (int i = 0; i < call.nin; i++)
        there.in[i].data = image_take(&image, &random, 4096 / dtype_bytes[check->dtype], check->dtype);
    there.out[0].data = image_take(&image, &random, 8192 / dtype_bytes[check->dtype], check->dtype);
    there = image_call(&image, &there);
    const int n = count_launches(device, &there);
    image_finish(&image);
    call_close(&call);
    return n;
}

Test(pitch, products_are_computed_in_parts_where_one_matrix_has_odd_rows, .timeout = 120) {
    static const DType types[] = {F32, F16, BF16};
    char given[32];
    snprintf(given, sizeof given, "1,%d", ROOM);
    setenv("PCC_TEST_PITCH", given, 1);
    int parted = 0, whole = 0;
    for (int t = 0; t < 3; t++)
        for (int spec = 0; spec < NSPECS; spec++)
            for (int s = 0; s < NSIZES; s++) {
                const Check check = check_of(specs[spec], sizes[s], types[t]);
                const int odd = is_odd(check.in[0].dim[1], types[t]) + is_odd(check.in[1].dim[1], types[t]) + is_odd(sizes[s][2], types[t]);
                const int n = launches(&check);
                if (!over_standin()) continue; /* the library's own products may be several launches */
                if (odd != 1) cr_assert_eq(n, 1, "%s, size %d, %s: %d launches", specs[spec], s, dtype_name[types[t]], n);
                parted += n > 2;
                whole += n == 1;
            }
    if (!over_standin()) return;
    cr_assert_gt(parted, 15, "%d products in parts, %d as one", parted, whole);
    cr_assert_gt(whole, 10, "%d products in parts, %d as one", parted, whole);
}

Test(pitch, small_products_are_left_whole) {
    const Check check = check_of(specs[0], sizes[0], F32);
    const int n = launches(&check);
    cr_assert(n == 1 || !over_standin());
}
