/* What all targets share: libFuzzer's entry (with -DPCC_LIBFUZZER), or a main that replays the files given as arguments. A replayed file whose name contains
 * ".valid." must be accepted, one with ".sided." accepted with something beside it only, one with ".hostile." refused. */
#pragma once
#include "ir/base.h"

typedef enum {
    REFUSED,
    PARTLY, /* accepted in some way, not as it is: neither valid nor hostile */
    SIDED,  /* with something beside it */
    ACCEPTED
} Verdict;

/* The target itself, in NAME.c. Aborts where something that must hold does not. */
Verdict try_bytes(const unsigned char *bytes, size_t n);

void require(bool holds, const char *what);
