/* npy: the header of numpy's file format for one array, version 1 to 3 (numpy/lib/format.py): magic, version, the length of a header that is a Python
 * dict, the header; then the elements. */
#pragma once
#include "ir/layout.h"

typedef struct NpyHeader {
    Shape shape;
    DType dtype;       /* a type that holds all its elements; i32 for u1, i1 and i2 */
    const char *descr; /* "<f4" or "|u1", in the arena, with what follows it */
    size_t begin;      /* offset of its elements in the file */
} NpyHeader;

/* Reads the header from a file's first n bytes, or all of them. False with *error: not such a file, unsupported elements, or Fortran order. */
bool npy_header(NpyHeader *header, Arena *arena, const char *path, const char *bytes, size_t n, Error *error);
/* Reads the header from the file. */
bool npy_file_header(NpyHeader *header, Arena *arena, const char *path, Error *error);

/* Where the value of a key, "'descr'", begins in a .npy file's header, or NULL. */
const char *npy_value(const char *header, const char *key);
bool npy_shape(const char *header, Shape *shape); /* false: it is missing, or no shape that fits */
