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
    for (int n = 0; n < graph->nodes.n; n++)
        if (graph->nodes.at[n].op == OP_input && graph->nodes.at[n].state == input) return graph_index_range(graph, graph->nodes.at[n].out[0]);
    return 0;
}
