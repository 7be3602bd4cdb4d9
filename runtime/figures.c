/* figures: see figures.h. */
#include "runtime/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/rows.h"

static const char mean_key[] = "pcc.mean.", deviation_key[] = "pcc.deviation.", classes_key[] = "pcc.classes.";

static const char *numbers_text(const double *numbers, int64_t n, Arena *arena) {
    Text text = {0};
    for (int64_t i = 0; i < n; i++)
        text_printf(&text, "%s%.17g", i ? " " : "", numbers[i]);
    const char *copy = arena_copy(arena, text.at ? text.at : "", text.n);
    text_finish(&text);
    return copy;
}

void figures_keep(TensorFile *to, Arena *arena, const TensorFile *from) {
    static const char *const keys[] = {mean_key, deviation_key, classes_key};
    for (int i = 0; i < from->metadata.n; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strncmp(from->metadata.at[i].key, keys[k], strlen(keys[k])) == 0) vec_push(arena, &to->metadata, from->metadata.at[i]);
}

void figures_describe(TensorFile *file, Arena *arena, const Executor *executor) {
    const Graph *graph = executor_graph(executor);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Figures *figures = data_figures(executor_data(executor), i);
        const char *name = graph->inputs.at[i].name;
        if (figures && figures->classes)
            vec_push(arena, &file->metadata, (Metadata){arena_printf(arena, "%s%s", classes_key, name), figures->classes});
        if (!figures || figures->n == 0) continue;
        vec_push(arena, &file->metadata,
                 (Metadata){arena_printf(arena, "%s%s", mean_key, name), numbers_text(figures->mean, figures->n, arena)});
        vec_push(arena, &file->metadata,
                 (Metadata){arena_printf(arena, "%s%s", deviation_key, name), numbers_text(figures->deviation, figures->n, arena)});
    }
}

/* Reads all numbers of a text, into the arena; returns how many; -1: the text is something else. */
static int64_t read_numbers(const char *text, double least, Arena *arena, double **numbers) {
    int64_t n = 0, room = 1;
    for (const char *at = text; *at; at++)
        room += *at == ' ';
    *numbers = arena_alloc(arena, (size_t)room * sizeof **numbers);
    for (char *end; *text; text = end + (*end == ' ')) {
        const double number = strtod(text, &end);
        if (end == text || (*end != ' ' && *end != '\0') || !isfinite(number) || number < least) return -1;
        (*numbers)[n++] = number;
    }
    return n;
}

static bool load_input(const TensorFile *file, DataSource *data, const Input *input, int number, Arena *arena, Error *error) {
    const char *mean = tensors_metadata(file, arena_printf(arena, "%s%s", mean_key, input->name)),
               *deviation = tensors_metadata(file, arena_printf(arena, "%s%s", deviation_key, input->name));
    Figures figures = {0};
    const char *classes = tensors_metadata(file, arena_printf(arena, "%s%s", classes_key, input->name));
    if (classes && (input->file.find_classes || input->file.format == FILE_PICTURES)) {
        figures.classes = arena_copy(arena, classes, strlen(classes));
        return data_set_figures(data, number, &figures, error);
    }
    if (!mean && !deviation) return true;
    figures.n = mean ? read_numbers(mean, -HUGE_VAL, arena, &figures.mean) : -1;
    if (figures.n < 0 || !deviation || read_numbers(deviation, 1e-300, arena, &figures.deviation) != figures.n)
        return error_set(error, EXIT_ENVIRONMENT, "%s: damaged: means and deviations of input %s are no numbers, or not as many",
                         file->path, input->name);
    return data_set_figures(data, number, &figures, error) || error_prefix(error, "%s: ", file->path);
}

bool figures_load(const TensorFile *file, Executor *executor, Error *error) {
    const Graph *graph = executor_graph(executor);
    Arena arena;
    bool ok = true;
    arena_init(&arena);
    for (int i = 0; ok && i < graph->inputs.n; i++)
        if (data_figures(executor_data(executor), i))
            ok = load_input(file, executor_data(executor), &graph->inputs.at[i], i, &arena, error);
    arena_finish(&arena);
    return ok;
}

bool figures_known(const Executor *executor, const char *from, Error *error) {
    const Graph *graph = executor_graph(executor);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Figures *figures = data_figures(executor_data(executor), i);
        if (!figures || figures_found(figures) || graph->inputs.at[i].file.format == FILE_PICTURES) continue; /* folders have names */
        return error_set(error, from ? EXIT_ENVIRONMENT : EXIT_USAGE, "input %s is read with %s of the rows of training, and %s%s",
                         graph->inputs.at[i].name, graph->inputs.at[i].file.find_classes ? "classes" : "means",
                         from ? from : "there are none: --load takes what a training has saved",
                         from ? " has none: it was not saved by a training with such data" : "");
    }
    return true;
}
