/* npy: the header of numpy's file format for one array, version 1 to 3 (numpy/lib/format.py): magic, version, the length of a header that is a Python
 * dict; behind it the elements. */
#pragma once
#include "ir/layout.h"

typedef struct NpyHeader {
    Shape shape;
    DType dtype;       /* that holds all its elements; of u1, i1 and i2 i32 */
    const char *descr; /* "<f4" or "|u1", in the arena, with what follows it */
    size_t begin;      /* where its elements are in the file */
} NpyHeader;

/* Of a file's first n bytes, or all of them. False and *error: none of these, of elements that are not read, or in Fortran order. */
bool npy_header(NpyHeader *header, Arena *arena, const char *path, const char *bytes, size_t n, Error *error);
/* Reads it from the file. */
bool npy_file_header(NpyHeader *header, Arena *arena, const char *path, Error *error);

/* Where the value of a key, "'descr'", begins in a .npy file's header, or NULL. */
const char *npy_value(const char *header, const char *key);
bool npy_shape(const char *header, Shape *shape); /* false: it is missing, or no shape that fits */
