/* Files of rows on any bytes. */
#pragma once
#include "runtime/data/data.h"
#include "tests/fuzz/file.h"

/* Opens, holds and reads the file as several inputs would, and as prun's data source does, shuffled. Compressed it must say the same. Returns whether one of the
 * inputs could read all of the rows that were tried. */
bool try_rows(FileFormat format, const unsigned char *bytes, size_t n);
