/* checkpoint: states in files, and back. */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/tensors.h"

static const char prefix[] = "step-", suffix[] = ".safetensors", temporary[] = ".tmp";

/* ---------------------------------------------------------------- which rank writes what */

static bool is_kept(const State *state, bool all_states) {
    return all_states || state->trainable;
}

/* Host memory with a state's box: its own, or a copy that the caller frees. */
static void *host_state(Executor *executor, const Backend *backend, void *context, int driven, int state, DType dtype, Box *box, bool download, Error *error) {
    void *local = executor_state(executor, driven, state, box);
    int64_t bytes = box_elements(box) * dtype_bytes[dtype];
    if (backend->host) return local;
    void *copy = malloc((size_t)bytes + 1);
    if (!copy) return error_set(error, EXIT_ENVIRONMENT, "out of memory for a copy of a state"), NULL;
    if (download && !backend->download(context, copy, local, bytes, error)) return free(copy), NULL;
    return copy;
}

/* ---------------------------------------------------------------- saving */

static const char *number(Arena *arena, int64_t value) {
    return arena_printf(arena, "%" PRId64, value);
}

static void describe(TensorFile *file, Arena *arena, const Plan *plan, bool all_states, const Position *position) {
    vec_push(arena, &file->metadata, (Metadata){"pcc.net", arena_printf(arena, "%016" PRIx64, plan->net_hash)});
    if (all_states) {
        vec_push(arena, &file->metadata, (Metadata){"pcc.epoch", number(arena, position->epoch)});
        vec_push(arena, &file->metadata, (Metadata){"pcc.step", number(arena, position->step)});
        vec_push(arena, &file->metadata, (Metadata){"pcc.global_step", number(arena, position->global_step)});
    }
    for (int i = 0; i < plan->graph.states.n; i++) {
        const State *state = &plan->graph.states.at[i];
        if (is_kept(state, all_states))
            vec_push(arena, &file->tensors, (StoredTensor){.name = state->name, .dtype = state->type.dtype, .shape = state->type.shape});
    }
}

static bool write_boxes(TensorFile *file, Executor *executor, const Comm *comm, const Plan *plan, bool all_states, Error *error) {
    void *context;
    const Backend *backend = executor_backend(executor, &context);
    bool ok = true;
    for (int d = 0; d < comm->ndriven; d++)
        for (int i = 0, t = 0; ok && i < plan->graph.states.n; i++) {
            const State *state = &plan->graph.states.at[i];
            if (!is_kept(state, all_states)) continue;
            int tensor = t++;
            if (!layout_holds_first(state->layout, comm->nranks, comm->first_driven + d)) continue;
            Box box;
            void *data = host_state(executor, backend, context, d, i, state->type.dtype, &box, true, error);
            ok = data && tensors_write(file, tensor, &box, data, error);
            if (data && !backend->host) free(data);
        }
    return ok;
}

static bool flush_directory(const char *path, Error *error) {
    char directory[4096];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path + (slash == path)) : 1, slash ? path : ".");
    int fd = open(directory, O_RDONLY);
    if (fd < 0) return error_set(error, EXIT_ENVIRONMENT, "%s: %s", directory, strerror(errno));
    bool ok = fsync(fd) == 0 || errno == EINVAL; /* some file systems have nothing to flush */
    close(fd);
    return ok || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be flushed to the disk: %s", directory, strerror(errno));
}

bool checkpoint_save(Executor *executor, Comm *comm, const Plan *plan, const char *path, bool all_states, const Position *position, Error *error) {
    Arena arena;
    Text header = {0};
    arena_init(&arena);
    TensorFile file = {.path = arena_printf(&arena, "%s%s", path, temporary), .fd = -1};
    describe(&file, &arena, plan, all_states, position);
    tensors_layout(&file, &header);
    bool ok = comm->process != 0 || tensors_create(&file, &header, error);
    ok = comm_agree(comm, ok, error);
    ok = ok && comm_agree(comm, (comm->process == 0 || tensors_join(&file, error)) && write_boxes(&file, executor, comm, plan, all_states, error) &&
                                    tensors_commit(&file, error), error);
    tensors_close(&file);
    if (comm->process == 0) {
        if (ok) ok = rename(file.path, path) == 0 || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be renamed: %s", file.path, strerror(errno));
        ok = ok && flush_directory(path, error);
        if (!ok) remove(file.path);
    }
    ok = comm_agree(comm, ok, error);
    text_finish(&header);
    arena_finish(&arena);
    return ok;
}

/* ---------------------------------------------------------------- loading */

static bool find_tensor(const TensorFile *file, const State *state, int *tensor, Error *error) {
    *tensor = tensors_find(file, state->name);
    if (*tensor < 0) {
        const char **names = malloc(((size_t)file->tensors.n + 1) * sizeof *names);
        for (int i = 0; names && i < file->tensors.n; i++)
            names[i] = file->tensors.at[i].name;
        const char *near = names ? name_nearest(state->name, names, file->tensors.n) : NULL;
        free(names);
        return error_set(error, EXIT_ENVIRONMENT, "%s: has no '%s'%s%s%s", file->path, state->name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (shape_equal(&file->tensors.at[*tensor].shape, &state->type.shape)) return true;
    Text text = {0};
    shape_print(&text, &file->tensors.at[*tensor].shape);
    text_printf(&text, ", and the net's is ");
    shape_print(&text, &state->type.shape);
    error_set(error, EXIT_ENVIRONMENT, "%s: the shape of '%s' is %s", file->path, state->name, text.at);
    text_finish(&text);
    return false;
}

static bool read_number(const TensorFile *file, const char *key, int64_t *value, Error *error) {
    const char *text = tensors_metadata(file, key);
    char *end = NULL;
    errno = 0;
    if (text) *value = strtoll(text, &end, 10);
    if (text && end != text && *end == '\0' && errno == 0 && *value >= 0) return true;
    return error_set(error, EXIT_ENVIRONMENT, "%s: no checkpoint: it does not say where training stood (%s); --load takes its parameters", file->path, key);
}

static bool read_boxes(const TensorFile *file, Executor *executor, const Comm *comm, const Plan *plan, bool all_states, Error *error) {
    void *context;
    const Backend *backend = executor_backend(executor, &context);
    bool ok = true;
    for (int i = 0; ok && i < plan->graph.states.n; i++) {
        const State *state = &plan->graph.states.at[i];
        int tensor;
        if (!is_kept(state, all_states)) continue;
        ok = find_tensor(file, state, &tensor, error);
        for (int d = 0; ok && d < comm->ndriven; d++) {
            Box box;
            void *local = executor_state(executor, d, i, &box);
            void *data = host_state(executor, backend, context, d, i, state->type.dtype, &box, false, error);
            ok = data && tensors_read(file, tensor, &box, state->type.dtype, data, error);
            if (ok && !backend->host) ok = backend->upload(context, local, data, box_elements(&box) * dtype_bytes[state->type.dtype], error);
            if (data && !backend->host) free(data);
        }
    }
    return ok;
}

bool checkpoint_load(Executor *executor, Comm *comm, const Plan *plan, const char *path, bool all_states, Position *position, Error *error) {
    Arena arena;
    TensorFile file;
    arena_init(&arena);
    bool ok = tensors_open(&file, &arena, path, error);
    if (ok && all_states)
        ok = read_number(&file, "pcc.epoch", &position->epoch, error) && read_number(&file, "pcc.step", &position->step, error) &&
             read_number(&file, "pcc.global_step", &position->global_step, error);
    ok = ok && read_boxes(&file, executor, comm, plan, all_states, error);
    tensors_close(&file);
    arena_finish(&arena);
    return comm_agree(comm, ok, error);
}

/* ---------------------------------------------------------------- directories */

const char *checkpoint_path(Arena *arena, const char *directory, int64_t global_step) {
    return arena_printf(arena, "%s/%s%09" PRId64 "%s", directory, prefix, global_step, suffix);
}

/* The step that a file name speaks of, -1: it is no checkpoint's. *unfinished: left behind by a run that was killed. */
static int64_t step_of(const char *name, bool *unfinished) {
    char *end;
    *unfinished = false;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || name[sizeof prefix - 1] < '0' || name[sizeof prefix - 1] > '9') return -1;
    errno = 0;
    int64_t step = strtoll(name + sizeof prefix - 1, &end, 10);
    if (errno != 0 || strncmp(end, suffix, sizeof suffix - 1) != 0) return -1;
    end += sizeof suffix - 1;
    *unfinished = strcmp(end, temporary) == 0;
    return *end == '\0' || *unfinished ? step : -1;
}

/* The steps of the complete checkpoints of a directory, newest first; their number. */
static int list_steps(const char *directory, Arena *arena, int64_t **steps, bool remove_unfinished) {
    VEC(int64_t) found = {0};
    DIR *entries = opendir(directory);
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
        bool unfinished;
        int64_t step = step_of(entry->d_name, &unfinished);
        if (step >= 0 && unfinished && remove_unfinished) remove(arena_printf(arena, "%s/%s", directory, entry->d_name));
        if (step < 0 || unfinished) continue;
        vec_push(arena, &found, step);
        for (int i = found.n - 1; i > 0 && found.at[i - 1] < step; i--) {
            found.at[i] = found.at[i - 1];
            found.at[i - 1] = step;
        }
    }
    if (entries) closedir(entries);
    *steps = found.at;
    return found.n;
}

bool checkpoint_latest(Comm *comm, const char *directory, Arena *arena, const char **path, Error *error) {
    int64_t *steps, newest = -1;
    if (comm->process == 0 && list_steps(directory, arena, &steps, false) > 0) newest = steps[0];
    if (!comm->table->broadcast(comm, &newest, sizeof newest, error)) return false;
    if (newest < 0)
        return comm_agree(comm, comm->process != 0 || error_set(error, EXIT_ENVIRONMENT, "%s: there is no checkpoint to resume from", directory), error);
    *path = checkpoint_path(arena, directory, newest);
    return true;
}

void checkpoint_prune(const char *directory, int64_t keep) {
    Arena arena;
    int64_t *steps;
    arena_init(&arena);
    int n = list_steps(directory, &arena, &steps, true);
    for (int i = 0; keep > 0 && i < n; i++)
        if (i >= keep) remove(checkpoint_path(&arena, directory, steps[i]));
    arena_finish(&arena);
}
