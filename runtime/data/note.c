/* note: what is reported of the inputs' files (data.h), and what must be the same on all processes. */
#include <string.h>

#include "runtime/data/source.h"

/* The class names of a folder of pictures, as the input of its labels has them; "": not known yet, a file that is loaded may say them; NULL: no input has them. */
static const char *picture_labels(const DataSource *data, const char *path) {
    for (int i = 0; i < data->graph->inputs.n; i++)
        if (data->known[i] && data->graph->inputs.at[i].file.format == FILE_PICTURES &&
            strcmp(data->graph->inputs.at[i].file.path, path) == 0)
            return data->known[i]->classes ? data->known[i]->classes : "";
    return NULL;
}

void data_note(const DataSource *data, Text *text) {
    const Graph *graph = data->graph;
    const Uneven uneven = graph->settings.uneven;
    if (data->graph->settings.data == DATA_FILES && uneven != UNEVEN_JOIN && data->sampler.world == 1 && graph->nranks > 1)
        text_printf(text, "uneven = %s changes nothing: no ranks share a batch, each reads all of it\n", uneven_name[uneven]);
    for (int i = 0; data->file && i < graph->inputs.n; i++) {
        bool said = !data->file[i];
        for (int k = 0; !said && k < i; k++)
            said = data->file[k] && strcmp(graph->inputs.at[k].file.path, graph->inputs.at[i].file.path) == 0 &&
                   (rows_dropped(data->file[k]) > 0 || file_has_pictures(graph->inputs.at[k].file.format));
        if (data->file[i]) rows_note(data->file[i], !said, picture_labels(data, graph->inputs.at[i].file.path), text);
    }
}

const Common *data_common(const DataSource *data, Arena *arena) {
    const Graph *graph = data->graph;
    Common *common = arena_alloc(arena, (size_t)(graph->inputs.n + 1) * sizeof *common);
    for (int i = 0, n = 0; data->file && i < graph->inputs.n; i++) {
        Text text = {0};
        if (!data->file[i]) continue;
        rows_describe(data->file[i], &text);
        const Figures *figures = data->known[i];
        if (figures && figures->n > 0)
            text_printf(&text, ", means %016llx",
                        (unsigned long long)hash_bytes((const char *)figures->mean, (size_t)figures->n * sizeof *figures->mean));
        if (figures && figures->classes)
            text_printf(&text, ", classes %016llx", (unsigned long long)hash_bytes(figures->classes, strlen(figures->classes)));
        common[n++] = (Common){arena_printf(arena, "the data of %s (%s)", graph->inputs.at[i].name, graph->inputs.at[i].file.path),
                               arena_copy(arena, text.at, text.n)};
        text_finish(&text);
    }
    return common;
}
