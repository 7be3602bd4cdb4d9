/* map: a file's bytes as memory. */
#pragma once
#include "ir/base.h"

typedef struct Map Map;
/* The first `bytes` of an open file, which may be closed; NULL: they cannot be mapped. */
Map *map_open(int fd, int64_t bytes);
void map_close(Map *map); /* takes NULL */
const unsigned char *map_bytes(const Map *map);
/* Whether all that has been read so far was the file's. Bytes that it no longer has, or that the system fails to read, are zeros. */
bool map_is_sound(const Map *map);
