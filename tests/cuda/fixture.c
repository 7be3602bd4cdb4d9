/* fixture: a device for tests of kernels. */
#include "tests/cuda/fixture.h"
#include "runtime/element.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const Device *fixture_device(void) {
    static Device device; /* a test is a process of its own */
    Error error = {0};
    if (device.context) return &device;
    const DeviceModule *module = device_module(&error);
    cr_assert(module, "%s", error.text);
    cr_assert(device_open(&device, module->backend, &(DeviceOptions){.nlocal = 1, .nthreads = 1, .wait = true}, &error), "%s", error.text);
    return &device;
}

int64_t random_below(uint64_t *state, int64_t n) {
    return (int64_t)(random_next(state) % (uint64_t)n);
}

bool random_chance(uint64_t *state, int percent) {
    return random_below(state, 100) < percent;
}

Shape random_shape(uint64_t *state, int max_ndim, int64_t max) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64, 129};
    Shape shape = {.ndim = (int)random_below(state, max_ndim + 1)};
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) {
        shape.dim[d] = sizes[random_below(state, (int64_t)(sizeof sizes / sizeof *sizes))];
        if (n * shape.dim[d] > max) shape.dim[d] = 1 + random_below(state, 2);
        if (n * shape.dim[d] > max) shape.dim[d] = 1;
        n *= shape.dim[d];
    }
    return shape;
}

/* ---------------------------------------------------------------- memory */

void image_init(Image *image, int64_t bytes) {
    const Device *device = fixture_device();
    Error error;
    uint64_t random = 1;
    *image = (Image){.bytes = bytes, .seen = malloc((size_t)bytes)};
    image->device = device->backend->alloc(device->context, bytes, &error);
    cr_assert(posix_memalign((void **)&image->host, 256, (size_t)bytes) == 0 && image->seen && image->device);
    for (int64_t i = 0; i < bytes; i++)
        image->host[i] = (char)random_next(&random);
}

void image_finish(Image *image) {
    const Device *device = fixture_device();
    device->backend->free(device->context, image->device);
    free(image->host);
    free(image->seen);
}

void image_upload(Image *image) {
    const Device *device = fixture_device();
    Error error;
    cr_assert(device->backend->upload(device->context, image->device, image->host, image->bytes, &error), "%s", error.text);
}

void image_download(Image *image) {
    const Device *device = fixture_device();
    Error error;
    cr_assert(device->backend->download(device->context, image->seen, image->device, image->bytes, &error), "%s", error.text);
}

void *image_take(Image *image, uint64_t *random, int64_t n, DType dtype) {
    int64_t at = (image->used + 15) / 16 * 16 + (random_chance(random, 30) ? random_below(random, 16) * dtype_bytes[dtype] : 0);
    image->used = at + n * dtype_bytes[dtype];
    cr_assert(image->used <= image->bytes, "%lld bytes are too few", (long long)image->bytes);
    return image->host + at;
}

KernelCall image_call(const Image *image, const KernelCall *call) {
    KernelCall moved = *call;
    moved.context = fixture_device()->context;
    for (int i = 0; i < call->nin; i++)
        moved.in[i].data = image->device + ((char *)call->in[i].data - image->host);
    for (int o = 0; o < call->nout; o++)
        moved.out[o].data = image->device + ((char *)call->out[o].data - image->host);
    return moved;
}

/* ---------------------------------------------------------------- operands */

Operand operand_at(void *data, DType dtype, const Shape *shape) {
    Operand operand = {.data = data, .dtype = dtype, .local = *shape, .global = *shape, .box.ndim = shape->ndim};
    memcpy(operand.box.end, shape->dim, sizeof operand.box.end);
    return operand;
}

void operand_fill(const Operand *operand, uint64_t *random, bool special) {
    static const double edges[] = {0,   -0.0,  1,  -1,  INFINITY, -INFINITY, NAN, 1e30, -1e30, 3e9, -3e9, 2147483647.0, -2147483648.0,
                                   0.5, 1e-30, 88, -88, 1e19,     -1e19};
    static const int64_t integers[] = {
        0, 1, -1, 2, INT32_MAX, INT32_MIN, (int64_t)INT32_MAX + 1, INT64_MAX, INT64_MIN, INT64_MAX - 1, 3037000500, -3037000500, 46341};
    for (int64_t i = 0, n = shape_elements(&operand->local); i < n; i++) {
        const double plain = (double)random_below(random, 6001) / 1000 - 3;
        const int64_t integer =
            special ? integers[random_below(random, (int64_t)(sizeof integers / sizeof *integers))] : random_below(random, 41) - 20;
        switch (operand->dtype) {
        case F32:
        case F64:
            element_put(operand->data, operand->dtype, i,
                        special ? edges[random_below(random, (int64_t)(sizeof edges / sizeof *edges))] : plain);
            break;
        case I32:
            ((int32_t *)operand->data)[i] = (int32_t)(uint32_t)(uint64_t)integer;
            break;
        case I64:
            ((int64_t *)operand->data)[i] = integer;
            break;
        case BOOL:
            ((uint8_t *)operand->data)[i] = random_chance(random, 50);
            break;
        case NDTYPES:
            break;
        }
    }
}
