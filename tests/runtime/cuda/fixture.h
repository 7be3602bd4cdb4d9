/* fixture: a device for tests of kernels, and memory that is the same in the process and on it. The device is that of the module which
 * PRUN_CUDA_MODULE names: the stand-in's here, the real one's where there is a GPU. */
#pragma once
#include "tests/ops/call.h"

/* Opened once; a test that finds none fails. */
const Device *fixture_device(void);
/* Whether that device is the stand-in: launches, algorithms and epilogues are known then. */
bool over_standin(void);

/* Bytes of the process and as many on the device. Operands are made of the former; those of calls on the device lie at the same distance
 * from its beginning. */
typedef struct Image {
    char *host, *device, *seen; /* seen: what image_download found */
    int64_t bytes, used;
} Image;
void image_init(Image *image, int64_t bytes); /* of random bytes */
void image_finish(Image *image);
void image_upload(Image *image);
void image_download(Image *image);
/* Room for n elements, the first at a multiple of its size, often at one of 16 bytes. */
void *image_take(Image *image, uint64_t *random, int64_t n, DType dtype);
KernelCall image_call(const Image *image, const KernelCall *call); /* on the device */
