/* means: means and deviations of the training rows, and names of labels, which reading the inputs needs (data.h). */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/source.h"

bool figures_alloc(Figures *figures, int64_t n) {
    *figures = (Figures){n, malloc((size_t)n * sizeof(double) + 1), malloc((size_t)n * sizeof(double) + 1), NULL};
    return figures->mean && figures->deviation;
}

bool figures_copy(Figures *to, const Figures *from) {
    if (!figures_alloc(to, from->n)) return figures_finish(to), false;
    if (from->n > 0) memcpy(to->mean, from->mean, (size_t)from->n * sizeof *to->mean);
    if (from->n > 0) memcpy(to->deviation, from->deviation, (size_t)from->n * sizeof *to->deviation);
    if (!from->classes) return true;
    to->classes = malloc(strlen(from->classes) + 1);
    if (!to->classes) return figures_finish(to), false;
    strcpy(to->classes, from->classes);
    return true;
}

void figures_finish(Figures *figures) {
    free(figures->mean);
    free(figures->deviation);
    free(figures->classes);
    *figures = (Figures){0};
}

const Figures *data_figures(const DataSource *data, int input) {
    return data->known ? data->known[input] : NULL;
}

bool data_set_figures(DataSource *data, int input, const Figures *figures, Error *error) {
    Figures *own = &data->figures[input];
    const int64_t n = rows_width(data->file[input]);
    if (figures->n != n && !figures->classes)
        return error_set(error, EXIT_ENVIRONMENT, "input %s has %lld numbers a row, and their means are %lld",
                         data->graph->inputs.at[input].name, (long long)n, (long long)figures->n);
    figures_finish(own);
    return figures_copy(own, figures) || error_set(error, EXIT_ENVIRONMENT, "out of memory");
}

void data_share_figures(DataSource *data, const DataSource *of) {
    const Graph *graph = data->graph;
    for (int i = 0; data->known && of->known && i < graph->inputs.n; i++)
        for (int k = 0; data->known[i] && k < of->graph->inputs.n; k++) {
            if (!of->known[k] || strcmp(graph->inputs.at[i].name, of->graph->inputs.at[k].name) != 0) continue;
            data->known[i] = of->known[k];
            rows_set_figures(data->file[i], data->known[i]);
        }
}

bool data_know(DataSource *data, Error *error) {
    for (int i = 0; data->known && i < data->graph->inputs.n; i++)
        if (data->known[i] && !rows_know(data->file[i], error)) return false;
    return true;
}

static int compare_rows(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

bool data_find_figures(DataSource *data, Error *error) {
    bool ok = true;
    for (int i = 0; ok && data->known && i < data->graph->inputs.n; i++) {
        if (!data->known[i]) continue;
        const int64_t n = data->part ? data->sampler.rows : rows_count(data->file[i]);
        int64_t *row = malloc((size_t)n * sizeof *row + 1);
        for (int64_t k = 0; row && k < n; k++)
            row[k] = data->part ? data->part[k] : k;
        if (row && data->part) qsort(row, (size_t)n, sizeof *row, compare_rows);
        figures_finish(&data->figures[i]);
        ok = row ? rows_find_figures(data->file[i], row, n, &data->figures[i], error)
                 : error_set(error, EXIT_ENVIRONMENT, "out of memory for the numbers of the rows of training");
        free(row);
    }
    return ok;
}
