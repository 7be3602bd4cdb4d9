/* file: where a file that a net names is; what an input's elements may be. */
#include <string.h>

#include "runtime/data/data.h"

static bool is_readable(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

const char *file_find(const char *file, const char *plan_directory, Arena *arena) {
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    if (!plan_directory || is_readable(file)) return file;
    const char *beside = arena_printf(arena, "%s/%s", plan_directory, file), *named = arena_printf(arena, "%s/%s", plan_directory, base);
    return file[0] != '/' && is_readable(beside) ? beside : is_readable(named) ? named : file;
}

int64_t input_range(const Graph *graph, int input) {
    (void)graph, (void)input;
    return 0;
}
