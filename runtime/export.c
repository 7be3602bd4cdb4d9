/* export: see export.h. */
#include "runtime/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/file.h"
#include "runtime/checkpoint.h"
#include "runtime/fewer.h"
#include "runtime/figures.h"
#include "runtime/run.h"

enum { BLOCK_BYTES = 4 << 20 };

/* Copies a tensor, some rows at a time. */
static bool copy_tensor(const TensorFile *from, int tensor, const TensorFile *to, int number, Error *error) {
    const StoredTensor *stored = &to->tensors.at[number];
    const int64_t rows = stored->shape.ndim ? stored->shape.dim[0] : 1,
                  row_bytes = shape_elements(&stored->shape) / rows * dtype_bytes[stored->dtype];
    const int64_t most = row_bytes < BLOCK_BYTES ? BLOCK_BYTES / row_bytes : 1;
    Box box = {.ndim = stored->shape.ndim};
    memcpy(box.end, stored->shape.dim, sizeof box.end);
    char *block = malloc((size_t)((rows < most ? rows : most) * row_bytes));
    bool ok = block || error_set(error, EXIT_ENVIRONMENT, "out of memory for a block of %lld bytes", (long long)(most * row_bytes));
    for (int64_t row = 0; ok && row < rows; row += most) {
        if (box.ndim > 0) {
            box.begin[0] = row;
            box.end[0] = row + most < rows ? row + most : rows;
        }
        ok = tensors_read(from, tensor, &box, stored->dtype, block, error) && tensors_write(to, number, &box, block, NULL, error);
    }
    free(block);
    return ok;
}

/* Finds the file's tensors of the plan's parameters and compares them with their checksums. */
static bool find_tensors(const TensorFile *from, const Checksums *sums, const Graph *graph, bool averages, int *tensors, Error *error) {
    for (int i = 0, n = 0; i < graph->states.n; i++) {
        int64_t damaged;
        if (!index_keeps(&graph->states.at[i], false)) continue;
        const int average = averages ? state_average(graph, i) : -1;
        if (!index_find(from, &graph->states.at[average >= 0 ? average : i], &tensors[n], error) ||
            !checkpoint_compare(sums, from, tensors[n], 0, 1, &damaged, error))
            return false;
        if (damaged >= 0) return checkpoint_say(sums, from, damaged, error);
        n++;
    }
    return true;
}

static bool write_file(const TensorFile *from, const int *tensors, TensorFile *to, const char *path, Error *error) {
    char name[TEMPORARY_NAME];
    Text header = {0};
    const int fd = file_temporary(path, name, sizeof name);
    if (fd < 0) return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", path, strerror(errno));
    close(fd);
    to->path = name;
    to->fd = -1;
    tensors_layout(to, &header);
    bool ok = tensors_create(to, &header, error);
    for (int t = 0; ok && t < to->tensors.n; t++)
        ok = copy_tensor(from, tensors[t], to, t, error);
    ok = ok && tensors_commit(to, error);
    ok = ok && (rename(name, path) == 0 || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be renamed: %s", name, strerror(errno)));
    if (!ok) remove(name);
    tensors_close(to);
    text_finish(&header);
    return ok;
}

/* Whether the file is a checkpoint, which holds more than is exported. */
static bool is_checkpoint(const char *path, Arena *arena) {
    TensorFile file = {.fd = -1};
    Error error;
    const bool is = access(path, F_OK) == 0 && tensors_open(&file, arena, path, &error) && tensors_metadata(&file, "pcc.epoch");
    tensors_close(&file);
    return is;
}

/* Exports the parameters of one checkpoint. *damaged: it is not what was written; an older one may be. */
static bool export_one(const RunOptions *options, const Plan *plan, const char *path, Arena *arena, bool *damaged, Error *error) {
    TensorFile from = {.fd = -1}, to = {.fd = -1};
    Checksums sums;
    index_describe(&to, arena, &plan->graph, plan->net_hash, false, NULL, NULL);
    int *tensors = arena_alloc(arena, ((size_t)to.tensors.n + 1) * sizeof *tensors);
    bool ok = checkpoint_open(&from, &sums, arena, path, error);
    if (ok && !tensors_metadata(&from, "pcc.epoch"))
        ok = error_set(error, EXIT_USAGE, "--export: %s is no checkpoint but a file of parameters already", path);
    else
        ok = ok && find_tensors(&from, &sums, &plan->graph, options->averages, tensors, error);
    *damaged = !ok && error->code == EXIT_ENVIRONMENT;
    if (ok) figures_keep(&to, arena, &from);
    ok = ok && write_file(&from, tensors, &to, options->export, error);
    checkpoint_close(&from);
    if (ok) printf("%s: %d tensor%s of %s\n", options->export, to.tensors.n, to.tensors.n == 1 ? "" : "s", path);
    return ok;
}

/* Exports the newest that is not damaged; where all are, the error is the newest's. */
static bool export_newest(const RunOptions *options, const Plan *plan, Arena *arena, Error *error) {
    const char *directory = options->checkpoint ? options->checkpoint : arena_printf(arena, "%s.checkpoints", options->plan);
    const char *const *paths;
    const int n = checkpoint_list(directory, arena, &paths);
    if (n == 0) return error_set(error, EXIT_ENVIRONMENT, "%s: there is no checkpoint to export", directory);
    for (int i = 0; i < n; i++) {
        Error own = {0};
        bool damaged;
        if (export_one(options, plan, paths[i], arena, &damaged, &own)) return true;
        if (i == 0 || !damaged) *error = own;
        if (!damaged) return false;
        if (i + 1 < n) fprintf(stderr, "prun: note: %s: taking %s\n", own.text, paths[i + 1]);
    }
    return false;
}

static bool export(const RunOptions *options, Arena *arena, Error *error) {
    Plan plan;
    bool damaged;
    if (!checkpoint_can_save(options->export, error) || !plan_of_file(&plan, arena, options->plan, error) ||
        !check_export(options, &plan, arena, error))
        return false;
    if (is_checkpoint(options->export, arena))
        return error_set(error, EXIT_USAGE, "--export %s would overwrite a checkpoint by its parameters alone: name another file",
                         options->export);
    if (options->averages && !plan.graph.settings.ema)
        return error_set(error, EXIT_USAGE, "--averages: this plan keeps no averages of its parameters (train { ema = 0.999; })");
    if (!options->resume || strcmp(options->resume, "latest") == 0) return export_newest(options, &plan, arena, error);
    return export_one(options, &plan, options->resume, arena, &damaged, error);
}

int export_run(const RunOptions *options) {
    Arena arena;
    Error error = {0};
    arena_init(&arena);
    const bool ok = export(options, &arena, &error);
    if (!ok) fprintf(stderr, "prun: %s\n", error.text);
    arena_finish(&arena);
    return ok ? EXIT_DONE : error.code;
}
