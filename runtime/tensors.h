/* tensors: files of named tensors, in safetensors' format (huggingface/safetensors, README: eight bytes with the length of a JSON header, the header, the elements).
 * Several processes may write one file, each its own boxes at their places. Larger models come as several such files and a JSON index that says which file has which tensor (Hugging Face's
 * model.safetensors.index.json): they are read as one file. */
#pragma once
#include "ir/layout.h"

/* One tensor of a file: whole, row-major, little-endian. */
typedef struct StoredTensor {
    const char *name;
    DType dtype;
    Shape shape;
    int64_t begin;               /* byte offset of its elements in the file */
    const struct TensorFile *in; /* in an index: the file that has it, as its tensor `number`; NULL: this file */
    int number;
} StoredTensor;

typedef struct Metadata {
    const char *key, *value;
} Metadata;

typedef struct TensorFile {
    const char *path;
    int fd;                   /* -1: closed */
    int64_t bytes;            /* of the file */
    uint64_t header_checksum; /* XXH64 of the header as tensors_open read it */
    VEC(StoredTensor) tensors;
    VEC(const char *) unread; /* names of tensors of a type that prun does not know */
    VEC(Metadata) metadata;
    VEC(struct TensorFile *) volumes; /* of an index: its files, open */
    struct SliceSet *slices; /* slices.h: where the elements are if each rank has written a part of a checkpoint; NULL: in this file */
} TensorFile;

/* Reads the header and checks all of it against the file's size. Everything but the file lives in the arena. EXIT_ENVIRONMENT if something is wrong with the
 * file; tensors of a type that prun does not know go to unread. */
bool tensors_open(TensorFile *file, Arena *arena, const char *path, Error *error);
/* Makes the header for tensors (name, dtype, shape are given; begin is filled in) and metadata; sets file->bytes. Nothing is written yet. */
void tensors_layout(TensorFile *file, Text *header);
/* tensors_create: one process writes the header and gives the file its size. tensors_join: another opens it to write its boxes. */
bool tensors_create(TensorFile *file, const Text *header, Error *error);
bool tensors_join(TensorFile *file, Error *error);
/* Flushes what this process wrote to the disk and closes. */
bool tensors_commit(TensorFile *file, Error *error);
void tensors_close(TensorFile *file);
int tensors_find(const TensorFile *file, const char *name);            /* -1: none */
const char *tensors_metadata(const TensorFile *file, const char *key); /* NULL: none */
/* Reads a box of a tensor as elements of dtype: the tensor's type, or a real type in place of another real type. */
bool tensors_read(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error);
/* Reads a box of a matrix that is transposed in the file: box and elements are those of the matrix, [m, n], the tensor is [n, m]. Reads only what it needs. */
bool tensors_read_transposed(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error);
/* *checksum, if not NULL: XXH64 of the box's bytes in the file, run after run. tensors_checksum computes the same from the file. */
bool tensors_write(const TensorFile *file, int tensor, const Box *box, const void *from, uint64_t *checksum, Error *error);
bool tensors_checksum(const TensorFile *file, int tensor, const Box *box, uint64_t *checksum, Error *error);
