/* tensors: files of named tensors, in safetensors' format (huggingface/safetensors, README: eight bytes with the length of a JSON header, the header, the elements).
 * Several processes may write one file: each its own boxes, at their places. Larger models come as several such files and an index, JSON, that says which has which tensor (Hugging Face's
 * model.safetensors.index.json): it is read as one file. */
#pragma once
#include "ir/layout.h"

/* One tensor of a file: whole, row-major, little-endian. */
typedef struct StoredTensor {
    const char *name;
    DType dtype;
    Shape shape;
    int64_t begin;               /* of its elements in the file, bytes */
    const struct TensorFile *in; /* of an index: the file that has it, as its tensor `number`; NULL: this one */
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
    struct SliceSet *slices; /* slices.h: where the elements lie of a checkpoint that each rank has written a part of; NULL: in this file */
} TensorFile;

/* Reads the header and checks all of it against the file's size. Everything but the file lives in the arena. EXIT_ENVIRONMENT for what is wrong with the
 * file; what is of a type that prun does not know is unread. */
bool tensors_open(TensorFile *file, Arena *arena, const char *path, Error *error);
/* The header for these tensors (name, dtype, shape are given; begin is filled in) and metadata; file->bytes is set. Nothing is written yet. */
void tensors_layout(TensorFile *file, Text *header);
/* tensors_create: one process writes the header and gives the file its size. tensors_join: another opens it to write its boxes. */
bool tensors_create(TensorFile *file, const Text *header, Error *error);
bool tensors_join(TensorFile *file, Error *error);
/* Flushes what this process wrote to the disk and closes. */
bool tensors_commit(TensorFile *file, Error *error);
void tensors_close(TensorFile *file);
int tensors_find(const TensorFile *file, const char *name);            /* -1: none */
const char *tensors_metadata(const TensorFile *file, const char *key); /* NULL: none */
/* A box of a tensor, as elements of dtype, which is the tensor's, or a real type where that is another. */
bool tensors_read(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error);
/* A box of a matrix that the file has transposed: box and elements are those of the matrix, [m, n], the tensor is [n, m]. Reads what it needs. */
bool tensors_read_transposed(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error);
/* *checksum, where not NULL: XXH64 of the box's bytes in the file, run after run. tensors_checksum reads the same from the file. */
bool tensors_write(const TensorFile *file, int tensor, const Box *box, const void *from, uint64_t *checksum, Error *error);
bool tensors_checksum(const TensorFile *file, int tensor, const Box *box, uint64_t *checksum, Error *error);
