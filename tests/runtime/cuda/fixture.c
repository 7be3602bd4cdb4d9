/* fixture: a device for tests of kernels. */
#include "tests/runtime/cuda/fixture.h"

#include <criterion/criterion.h>
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

bool over_standin(void) {
    const char *module = getenv("PRUN_CUDA_MODULE");
    return module && strstr(module, "standin");
}
