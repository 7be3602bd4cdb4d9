/* map: a file's bytes as memory. */
#pragma once
#include "ir/base.h"

typedef struct Map Map;
/* Maps the first `bytes` of an open file, which may be closed afterwards; NULL: they cannot be mapped. */
Map *map_open(int fd, int64_t bytes);
void map_close(Map *map); /* takes NULL */
const unsigned char *map_bytes(const Map *map);
/* Whether all bytes read so far came from the file. Bytes that it no longer has, or that the system fails to read, read as zeros. */
bool map_is_sound(const Map *map);
