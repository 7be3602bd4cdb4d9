/* IDX files, plain and through gzip, as rows of an input. */
#include "tests/fuzz/rows.h"

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    return try_rows(FILE_IDX, bytes, n) ? ACCEPTED : REFUSED;
}
