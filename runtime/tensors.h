/* tensors: files of named tensors, in safetensors' format (huggingface/safetensors, README: eight bytes with the length of a JSON header, the header, the elements).
 * Several processes may write one file: each its own boxes, at their places. */
#pragma once
#include "runtime/runtime.h"

/* One tensor of a file: whole, row-major, little-endian. */
typedef struct StoredTensor {
    const char *name;
    DType dtype;
    Shape shape;
    int64_t begin; /* of its elements in the file, bytes */
} StoredTensor;

typedef struct Metadata {
    const char *key, *value;
} Metadata;

typedef struct TensorFile {
    const char *path;
    int fd; /* -1: closed */
    int64_t bytes; /* of the file */
    VEC(StoredTensor) tensors;
    VEC(Metadata) metadata;
} TensorFile;

/* Reads the header and checks all of it against the file's size. Everything but the file lives in the arena. EXIT_ENVIRONMENT for what is wrong with the
 * file; tensors of a type that prun does not know are left out. */
bool tensors_open(TensorFile *file, Arena *arena, const char *path, Error *error);
/* The header for these tensors (name, dtype, shape are given; begin is filled in) and metadata; file->bytes is set. Nothing is written yet. */
void tensors_layout(TensorFile *file, Text *header);
/* tensors_create: one process writes the header and gives the file its size. tensors_join: another opens it to write its boxes. */
bool tensors_create(TensorFile *file, const Text *header, Error *error);
bool tensors_join(TensorFile *file, Error *error);
/* Flushes what this process wrote to the disk and closes. */
bool tensors_commit(TensorFile *file, Error *error);
void tensors_close(TensorFile *file);
int tensors_find(const TensorFile *file, const char *name); /* -1: none */
const char *tensors_metadata(const TensorFile *file, const char *key); /* NULL: none */
/* A box of a tensor, as elements of dtype, which is the tensor's, or a real type where that is another. */
bool tensors_read(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error);
bool tensors_write(const TensorFile *file, int tensor, const Box *box, const void *from, Error *error);
