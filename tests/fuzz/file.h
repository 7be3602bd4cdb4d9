/* What the targets of file formats share: libFuzzer's entry, or a main that replays the files given as arguments; the bytes as a file; what an error must be.
 * A replayed file whose name contains ".valid." must be accepted, one with ".hostile." refused. */
#pragma once
#include "ir/ir.h"

enum { FUZZ_PATH = 64 };

/* The target itself, in NAME.c: whether the bytes were accepted. Aborts where something that must hold does not. */
bool try_bytes(const unsigned char *bytes, size_t n);

void require(bool holds, const char *what);
/* The bytes in a new file, compressed or not; remove it. */
void file_put(char path[FUZZ_PATH], const unsigned char *bytes, size_t n, bool compressed);
/* An error is of the environment (exit code 3), and one printable line that names the file; its cause is the file, not that there is too little memory for
 * what a header claims. */
void require_error(const Error *error, const char *path);
