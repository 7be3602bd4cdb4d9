/* What the targets of file formats share: the bytes as a file; what an error must be. */
#pragma once
#include "tests/fuzz/target.h"

enum { FUZZ_PATH = 64 };

/* The bytes in a new file, compressed or not; remove it. */
void file_put(char path[FUZZ_PATH], const unsigned char *bytes, size_t n, bool compressed);
/* An error is of the environment (exit code 3), and one printable line that names the file; its cause is the file, not that there is too little memory for
 * what a header claims. */
void require_error(const Error *error, const char *path);
