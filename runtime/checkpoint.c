/* checkpoint: see checkpoint.h. */
#include "runtime/checkpoint.h"
#include "runtime/element.h"
#include "runtime/figures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ir/file.h"
#include "runtime/checksum.h"
#include "runtime/slices.h"
#include "runtime/tensors.h"

static const char prefix[] = "step-", suffix[] = ".safetensors", temporary[] = ".tmp";

/* ---------------------------------------------------------------- saving */

/* Whether boxes lie in the file as many small runs (columns of a matrix): writing these one by one takes minutes, writing the whole a
 * second. */
static bool is_scattered(const State *state, int nranks) {
    enum { SMALL_RUN_BYTES = 4096, FEW_RUNS = 64 };
    Box box; /* of rank 0: all ranks must come to the same answer */
    if (nranks == 1) return false;
    layout_box(state->layout, &state->type.shape, 0, &box);
    BoxRuns runs = box_runs(&state->type.shape, &box);
    return runs.count > FEW_RUNS && runs.length * dtype_bytes[state->type.dtype] < SMALL_RUN_BYTES;
}

/* The layout whose digits all divide the first dimension: every box is one run. */
static void by_rows(const Layout *from, Layout *to) {
    layout_init(to, from->ndim);
    for (int d = 0; d < from->ndim; d++)
        for (int i = 0; i < layout_count(from, d); i++)
            layout_append(to, 0, layout_list(from, d)[i]);
}

/* The layout in which the ranks write a state. */
static void written_layout(const State *state, int nranks, Layout *layout) {
    if (is_scattered(state, nranks))
        by_rows(state->layout, layout);
    else
        *layout = *state->layout;
}

/* A file that is being written, and where its checksums go. */
typedef struct Output {
    TensorFile file;
    Checksums sums;
    bool finite;   /* no element may be nan or infinite */
    bool averages; /* in place of their parameters */
} Output;

static bool check_finite(const Output *out, const State *state, const Box *box, const void *from, Error *error) {
    const DType dtype = state->type.dtype;
    const int64_t at = out->finite && dtype_is_float(dtype) ? elements_first_bad(from, dtype, box_elements(box)) : -1;
    return at < 0 || error_set(error, EXIT_MISMATCH, "%s holds %s: it is not written, and what was there stays (--on-nan go writes it)",
                               state->name, isnan(element_at(from, dtype, at)) ? "nan" : "an infinity");
}

static bool write_elements(const Output *out, int tensor, const Layout *layout, int rank, const Box *box, const void *from, Error *error) {
    uint64_t checksum;
    const bool summed = out->sums.tensor >= 0;
    return tensors_write(&out->file, tensor, box, from, summed ? &checksum : NULL, error) &&
           (!summed || checksums_write(&out->sums, &out->file, tensor, layout, rank, checksum, error));
}

/* The same for elements at `local` in the backend's memory. */
static bool write_copy(const Output *out, int tensor, Executor *executor, const State *state, const Layout *layout, int rank,
                       const Box *box, void *local, Error *error) {
    void *context;
    const Backend *backend = executor_backend(executor, &context);
    if (backend->host) return check_finite(out, state, box, local, error) && write_elements(out, tensor, layout, rank, box, local, error);
    int64_t bytes = box_elements(box) * dtype_bytes[state->type.dtype];
    void *copy = malloc((size_t)bytes + 1);
    bool ok = copy ? backend->download(context, copy, local, bytes, error)
                   : error_set(error, EXIT_ENVIRONMENT, "out of memory for a copy of a state");
    ok = ok && check_finite(out, state, box, copy, error) && write_elements(out, tensor, layout, rank, box, copy, error);
    free(copy);
    return ok;
}

/* Writes a rank's box of a state, which lies in this layout at `local` in the backend's memory, if the rank is the first that holds it. */
static bool write_box(const Output *out, int tensor, Executor *executor, const Comm *comm, const State *state, const Layout *layout,
                      int driven, void *local, Error *error) {
    const int rank = comm->first_driven + driven;
    Box box;
    if (!layout_holds_first(layout, comm->nranks, rank)) return true;
    layout_box(layout, &state->type.shape, rank, &box);
    return write_copy(out, tensor, executor, state, layout, rank, &box, local, error);
}

/* Writes a scattered state, which is rearranged among the ranks first. Collective, so a rank that could not write takes part too: *ok. */
static bool write_rearranged(const Output *out, int tensor, Executor *executor, Comm *comm, int number, const State *state, bool *ok,
                             Error *error) {
    void *context, **target = calloc((size_t)comm->ndriven, sizeof *target);
    const Backend *backend = executor_backend(executor, &context);
    Layout rows;
    Box box;
    Error failure = {0};
    bool fits = target || error_set(&failure, EXIT_ENVIRONMENT, "out of memory for rearranging a state");
    by_rows(state->layout, &rows);
    for (int d = 0; fits && d < comm->ndriven; d++) {
        layout_box(&rows, &state->type.shape, comm->first_driven + d, &box);
        target[d] = backend->alloc(context, box_elements(&box) * dtype_bytes[state->type.dtype] + 1, &failure);
        fits = target[d] != NULL;
    }
    Error agreed = failure;
    bool all_fit = comm_agree(comm, fits, &agreed), moved = all_fit && executor_rearrange_state(executor, number, &rows, target, &failure);
    for (int d = 0; moved && *ok && d < comm->ndriven; d++)
        *ok = write_box(out, tensor, executor, comm, state, &rows, d, target[d], error);
    for (int d = 0; target && d < comm->ndriven; d++)
        if (target[d]) backend->free(context, target[d]);
    free(target);
    if (*ok && (!fits || (all_fit && !moved))) *ok = (*error = failure, false);
    return moved;
}

static bool write_boxes(const Output *out, Executor *executor, Comm *comm, const Plan *plan, bool all_states, Error *error) {
    bool ok = true;
    for (int i = 0, t = 0; i < plan->graph.states.n; i++) {
        if (!index_keeps(&plan->graph.states.at[i], all_states)) continue;
        const int average = out->averages ? state_average(&plan->graph, i) : -1, from = average >= 0 ? average : i, tensor = t++;
        const State *state = &plan->graph.states.at[from];
        if (is_scattered(state, comm->nranks)) {
            if (!write_rearranged(out, tensor, executor, comm, from, state, &ok, error))
                return ok; /* the save has failed, on this rank or another */
            continue;
        }
        for (int d = 0; ok && d < comm->ndriven; d++) {
            Box box;
            ok = write_box(out, tensor, executor, comm, state, state->layout, d, executor_state(executor, d, from, &box), error);
        }
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

/* Describes what the file will hold. A file of parameters alone has no checksums: other programs may change it and keep its metadata. */
static void describe(Output *out, Arena *arena, const Executor *executor, const Comm *comm, const Plan *plan, bool all_states,
                     const Position *position) {
    DataOrder order;
    VEC(Layout) layouts = {0};
    executor_order(executor, &order);
    index_describe(&out->file, arena, &plan->graph, plan->net_hash, all_states, position, &order);
    figures_describe(&out->file, arena, executor);
    out->sums.tensor = -1;
    if (!all_states) return;
    for (int i = 0; i < plan->graph.states.n; i++) {
        Layout written;
        if (!index_keeps(&plan->graph.states.at[i], true)) continue;
        written_layout(&plan->graph.states.at[i], comm->nranks, &written);
        vec_push(arena, &layouts, written);
    }
    checksums_describe(&out->sums, &out->file, arena, layouts.at);
}

bool temporary_claim(Comm *comm, const char *path, char name[TEMPORARY_NAME], Error *error) {
    bool ok = true;
    memset(name, 0, TEMPORARY_NAME);
    if (comm->process == 0) {
        int fd = file_temporary(path, name, TEMPORARY_NAME);
        ok = fd >= 0 || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
    }
    ok = comm_agree(comm, ok, error) && comm->table->broadcast(comm, name, TEMPORARY_NAME, error);
    if (!ok && comm->process == 0 && name[0]) remove(name);
    return ok;
}

/* ---------------------------------------------------------------- saving slices */

/* A rank's file, under a temporary name. */
typedef struct RankFile {
    const char *path;
    char name[TEMPORARY_NAME];
} RankFile;

static bool make_folders(Arena *arena, const char *index, int rank, Error *error) {
    const char *path = slices_path(arena, index, -1), *own = arena_printf(arena, "%s/%d", path, rank);
    return (mkdir(path, 0777) == 0 || errno == EEXIST) && (mkdir(own, 0777) == 0 || errno == EEXIST)
               ? true
               : error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", own, strerror(errno));
}

/* Writes all that a rank holds, even if other ranks hold it too. */
static bool write_slices(RankFile *made, Executor *executor, const Comm *comm, const Plan *plan, int driven, bool finite, uint64_t set,
                         Arena *arena, Error *error) {
    Output out = {.finite = finite, .file = {.path = made->name, .fd = -1}};
    TensorFile *file = &out.file;
    VEC(Layout) whole = {0};
    VEC(int) states = {0};
    Text header = {0};
    Box box;
    slices_describe_rank(file, arena, set);
    for (int i = 0; i < plan->graph.states.n; i++) {
        const State *state = &plan->graph.states.at[i];
        if (!index_keeps(state, true)) continue;
        layout_box(state->layout, &state->type.shape, comm->first_driven + driven, &box);
        if (box_elements(&box) == 0) continue;
        StoredTensor tensor = {.name = state->name, .dtype = state->type.dtype, .shape = {.ndim = box.ndim}};
        Layout one;
        for (int d = 0; d < box.ndim; d++)
            tensor.shape.dim[d] = box.end[d] - box.begin[d];
        layout_init(&one, box.ndim);
        slices_describe_box(file, arena, state->name, &box);
        vec_push(arena, &file->tensors, tensor);
        vec_push(arena, &whole, one);
        vec_push(arena, &states, i);
    }
    checksums_describe(&out.sums, file, arena, whole.at);
    tensors_layout(file, &header);
    const int fd = file_temporary(made->path, made->name, sizeof made->name);
    bool ok = fd >= 0 || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", made->path, strerror(errno));
    if (fd >= 0) close(fd);
    ok = ok && tensors_create(file, &header, error) && checksums_write_header(&out.sums, file, &header, error);
    for (int t = 0; ok && t < states.n; t++) {
        const Shape *shape = &file->tensors.at[t].shape;
        void *local = executor_state(executor, driven, states.at[t], &box);
        layout_box(&whole.at[t], shape, 0, &box);
        ok = write_copy(&out, t, executor, &plan->graph.states.at[states.at[t]], &whole.at[t], 0, &box, local, error);
    }
    ok = ok && tensors_commit(file, error);
    tensors_close(file);
    text_finish(&header);
    return ok;
}

static bool put_in_place(const char *name, const char *path, Error *error) {
    return (rename(name, path) == 0 || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be renamed: %s", name, strerror(errno))) &&
           flush_directory(path, error);
}

static bool write_index(const char *name, const char *path, const Executor *executor, const Comm *comm, const Plan *plan, uint64_t set,
                        const Position *position, Arena *arena, Error *error) {
    TensorFile file = {.path = name, .fd = -1};
    Checksums sums;
    DataOrder order;
    Text header = {0};
    executor_order(executor, &order);
    index_describe(&file, arena, &plan->graph, plan->net_hash, true, position, &order);
    figures_describe(&file, arena, executor);
    slices_describe(&file, arena, comm->nranks, set);
    checksums_describe(&sums, &file, arena, NULL);
    tensors_layout(&file, &header);
    bool ok = tensors_create(&file, &header, error) && checksums_write_header(&sums, &file, &header, error) && tensors_commit(&file, error);
    tensors_close(&file);
    text_finish(&header);
    return ok && put_in_place(name, path, error);
}

/* Saves the ranks' files first; the index then makes them a checkpoint. */
static bool save_slices(Executor *executor, Comm *comm, const Plan *plan, const char *path, bool finite, const Position *position,
                        Error *error) {
    Arena arena;
    char name[TEMPORARY_NAME];
    if (!temporary_claim(comm, path, name, error)) return false;
    arena_init(&arena);
    const double now = now_seconds();
    uint64_t set = XXH64(name, strlen(name), 0) ^ XXH64(&now, sizeof now, (uint64_t)position->global_step);
    RankFile *files = arena_alloc(&arena, (size_t)comm->ndriven * sizeof *files);
    bool ok = comm->table->broadcast(comm, &set, sizeof set, error);
    for (int d = 0; ok && d < comm->ndriven; d++) {
        files[d].path = slices_path(&arena, path, comm->first_driven + d);
        ok = make_folders(&arena, path, comm->first_driven + d, error) &&
             write_slices(&files[d], executor, comm, plan, d, finite, set, &arena, error);
    }
    const bool written = ok = comm_agree(comm, ok, error);
    for (int d = 0; ok && d < comm->ndriven; d++)
        ok = put_in_place(files[d].name, files[d].path, error);
    if (written) ok = comm_agree(comm, ok, error);
    const bool placed = ok;
    if (ok && comm->process == 0) ok = write_index(name, path, executor, comm, plan, set, position, &arena, error);
    if (placed) ok = comm_agree(comm, ok, error);
    for (int d = 0; !ok && d < comm->ndriven; d++)
        if (files[d].name[0]) remove(files[d].name);
    if (!ok && comm->process == 0) remove(name);
    arena_finish(&arena);
    return ok;
}

/* ---------------------------------------------------------------- saving whole tensors */

bool checkpoint_save(Executor *executor, Comm *comm, const Plan *plan, const char *path, Saved saved, bool finite, const Position *position,
                     Error *error) {
    if (saved == SAVED_SLICES) return save_slices(executor, comm, plan, path, finite, position, error);
    const bool all_states = saved == SAVED_ALL;
    Arena arena;
    Text header = {0};
    char name[TEMPORARY_NAME];
    if (!temporary_claim(comm, path, name, error)) return false;
    arena_init(&arena);
    Output out = {.finite = finite, .averages = saved == SAVED_AVERAGES, .file = {.path = name, .fd = -1}};
    TensorFile *file = &out.file;
    describe(&out, &arena, executor, comm, plan, all_states, position);
    tensors_layout(file, &header);
    bool ok = comm->process != 0 ||
              (tensors_create(file, &header, error) && (!all_states || checksums_write_header(&out.sums, file, &header, error)));
    ok = comm_agree(comm, ok, error);
    ok = ok && comm_agree(comm, comm->process == 0 || tensors_join(file, error), error);
    ok = ok && comm_agree(comm, write_boxes(&out, executor, comm, plan, all_states, error) && tensors_commit(file, error), error);
    const bool written = ok;
    tensors_close(file);
    if (comm->process == 0) {
        ok = ok && put_in_place(file->path, path, error);
        if (!ok) remove(file->path);
    }
    if (written) ok = comm_agree(comm, ok, error); /* else all know already, and agreeing again would lose the failed one's error */
    text_finish(&header);
    arena_finish(&arena);
    return ok;
}

bool checkpoint_can_save(const char *path, Error *error) {
    struct stat status;
    const char *slash = strrchr(path, '/');
    Arena arena;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: it is %s", path,
                         S_ISDIR(status.st_mode) ? "a directory" : "no ordinary file");
    arena_init(&arena);
    const char *directory = slash ? arena_copy(&arena, path, (size_t)(slash - path + (slash == path))) : ".";
    bool ok = access(directory, W_OK) == 0 || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", path, strerror(errno));
    arena_finish(&arena);
    return ok;
}

/* ---------------------------------------------------------------- loading */

bool checkpoint_open(TensorFile *file, Checksums *sums, Arena *arena, const char *path, Error *error) {
    return tensors_open(file, arena, path, error) && checksums_open(sums, file, arena, error) && slices_open(file, arena, error);
}

void checkpoint_close(TensorFile *file) {
    slices_close(file);
    tensors_close(file);
}

static bool read_tensor(const TensorFile *file, int tensor, bool transposed, const Box *box, DType dtype, void *to, Error *error) {
    return transposed ? tensors_read_transposed(file, tensor, box, dtype, to, error) : tensors_read(file, tensor, box, dtype, to, error);
}

static bool read_elements(const TensorFile *file, const Match *match, const Box *box, DType dtype, void *to, Error *error) {
    if (match->npieces == 0) return read_tensor(file, match->tensor, match->transposed, box, dtype, to, error);
    Box piece = {.ndim = box->ndim - 1};
    memcpy(piece.begin, box->begin + 1, sizeof *piece.begin * (size_t)piece.ndim);
    memcpy(piece.end, box->end + 1, sizeof *piece.end * (size_t)piece.ndim);
    const int64_t bytes = box_elements(&piece) * dtype_bytes[dtype];
    bool ok = true;
    for (int64_t k = box->begin[0]; ok && k < box->end[0]; k++)
        ok = read_tensor(file, match->piece[k], match->transposed, &piece, dtype, (char *)to + (k - box->begin[0]) * bytes, error);
    return ok;
}

/* Reads a rank's box of a state to `local` in the backend's memory. */
static bool read_box(const TensorFile *file, const Match *match, Executor *executor, const State *state, const Box *box, void *local,
                     Error *error) {
    void *context;
    const Backend *backend = executor_backend(executor, &context);
    if (backend->host) return read_elements(file, match, box, state->type.dtype, local, error);
    int64_t bytes = box_elements(box) * dtype_bytes[state->type.dtype];
    void *copy = malloc((size_t)bytes + 1);
    bool ok = copy || error_set(error, EXIT_ENVIRONMENT, "out of memory for a copy of a state");
    ok = ok && read_elements(file, match, box, state->type.dtype, copy, error) && backend->upload(context, local, copy, bytes, error);
    free(copy);
    return ok;
}

/* Finds the file's tensor for each state of the graph. False and *error: one is missing, or has another shape. */
static bool find_states(const TensorFile *file, const Graph *graph, Match *matches, Error *error) {
    bool ok = true;
    for (int i = 0; ok && i < graph->states.n; i++) {
        matches[i] = (Match){.tensor = -1};
        ok = state_is_const(&graph->states.at[i]) || index_find(file, &graph->states.at[i], &matches[i].tensor, error);
    }
    return ok;
}

bool checkpoint_compare(const Checksums *sums, const TensorFile *file, int tensor, int part, int parts, int64_t *damaged, Error *error) {
    return file->slices ? slices_compare(file, tensor, part, parts, damaged, error)
                        : checksums_compare(sums, file, tensor, part, parts, damaged, error);
}

bool checkpoint_say(const Checksums *sums, const TensorFile *file, int64_t damaged, Error *error) {
    return file->slices ? slices_say(file, damaged, error) : checksums_say(sums, file, damaged, error);
}

/* Whether these n states are what was written. The boxes in which they were written are divided among the processes, so that each is read once; every rank reads
 * its own boxes besides, which may be of any other layout. Collective. *damaged: one state is not, and all processes have the same error. */
static bool compare_boxes(const TensorFile *file, const Checksums *sums, Comm *comm, const Match *matches, int n, bool *damaged,
                          Error *error) {
    int64_t own = -1, first = -1;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool ok = words || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    for (int i = 0; ok && own < 0 && i < n; i++)
        for (int k = 0; ok && own < 0 && k < match_ntensors(&matches[i]); k++)
            ok = checkpoint_compare(sums, file, match_tensor(&matches[i], k), comm->process, comm->nprocesses, &own, error);
    ok = comm_agree(comm, ok, error);
    ok = ok && comm->table->all_gather_words(comm, (uint64_t)(own + 1), words, error);
    for (int p = 0; ok && p < comm->nprocesses; p++)
        if (words[p] > 0 && (first < 0 || (int64_t)words[p] - 1 < first)) first = (int64_t)words[p] - 1;
    free(words);
    *damaged = ok && first >= 0;
    if (*damaged) ok = comm_agree(comm, checkpoint_say(sums, file, first, error), error);
    return ok;
}

static bool read_boxes(const TensorFile *file, Executor *executor, const Comm *comm, const Graph *graph, const Match *matches,
                       Error *error) {
    bool ok = true;
    for (int i = 0; ok && i < graph->states.n; i++)
        for (int d = 0; ok && matches[i].tensor >= 0 && d < comm->ndriven; d++) {
            Box box;
            void *local = executor_state(executor, d, i, &box);
            ok = read_box(file, &matches[i], executor, &graph->states.at[i], &box, local, error);
        }
    return ok;
}

/* Prints a note on tensors of a checkpoint for which the plan has no state, most likely those of another optimizer: training goes on. */
static void note_left_out(const TensorFile *file, const Checksums *sums, const Graph *graph) {
    enum { NAMED = 2 };
    Text names = {0};
    int nleft = 0, nscale = 0;
    for (int t = 0; t < file->tensors.n; t++) {
        bool known = t == sums->tensor;
        for (int i = 0; !known && i < graph->states.n; i++)
            known = strcmp(graph->states.at[i].name, file->tensors.at[t].name) == 0;
        const char *name = file->tensors.at[t].name;
        nscale += !known && (strcmp(name, "optimizer.loss_scale") == 0 || strcmp(name, "optimizer.good_updates") == 0);
        if (!known && nleft++ < NAMED) text_printf(&names, "%s%s", names.n ? ", " : "", name);
    }
    if (nleft > NAMED) text_printf(&names, " and %d more", nleft - NAMED);
    if (nleft > 0) {
        text_printable(names.at);
        fprintf(stderr, "prun: note: %s: the plan has no %s: left out (%s)\n", file->path, names.at,
                nleft == nscale ? "it was taken with precision = f16" : "was it taken with another optimizer?");
    }
    text_finish(&names);
}

/* rules: loads parameters alone, by these; NULL: all states, and position and order. *damaged: the elements are not those that were written. */
static bool load(Executor *executor, Comm *comm, const Plan *plan, const char *path, const LoadRules *rules, Position *position,
                 DataOrder *order, bool *damaged, Error *error) {
    Arena arena;
    TensorFile file;
    Checksums sums;
    arena_init(&arena);
    const Graph *graph = &plan->graph;
    Match *matches = arena_alloc(&arena, ((size_t)graph->states.n + 1) * sizeof *matches);
    *damaged = false;
    bool ok = checkpoint_open(&file, &sums, &arena, path, error);
    if (ok && slices_of_rank(&file))
        ok = error_set(
            error, EXIT_ENVIRONMENT,
            "%s: has the slices of one rank; the checkpoint is the file of that name two folders up, and prun --export makes one file of it",
            path);
    if (ok && rules) ok = match_parameters(&file, graph, rules, &arena, matches, error);
    if (ok && !rules) ok = index_read(&file, position, order, error) && find_states(&file, graph, matches, error);
    ok = comm_agree(comm, ok, error) && compare_boxes(&file, &sums, comm, matches, graph->states.n, damaged, error) &&
         comm_agree(comm, read_boxes(&file, executor, comm, graph, matches, error), error);
    ok = ok && comm_agree(comm, figures_load(&file, executor, error), error);
    if (ok && rules && comm->process == 0) match_report(&file, graph, matches);
    if (ok && !rules && comm->process == 0) note_left_out(&file, &sums, graph);
    checkpoint_close(&file);
    arena_finish(&arena);
    return ok;
}

bool checkpoint_load(Executor *executor, Comm *comm, const Plan *plan, const char *path, const LoadRules *rules, Error *error) {
    bool damaged;
    return load(executor, comm, plan, path, rules, NULL, NULL, &damaged, error);
}

/* ---------------------------------------------------------------- directories */

const char *checkpoint_path(Arena *arena, const char *directory, int64_t global_step) {
    return arena_printf(arena, "%s/%s%09" PRId64 "%s", directory, prefix, global_step, suffix);
}

/* The step in a checkpoint's file name, -1: it is none. *unfinished: a killed run has left the file. */
static int64_t step_of(const char *name, bool *unfinished) {
    char *end;
    *unfinished = false;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || name[sizeof prefix - 1] < '0' || name[sizeof prefix - 1] > '9') return -1;
    errno = 0;
    int64_t step = strtoll(name + sizeof prefix - 1, &end, 10);
    if (errno != 0 || strncmp(end, suffix, sizeof suffix - 1) != 0) return -1;
    end += sizeof suffix - 1;
    size_t n = strlen(end), ending = sizeof temporary - 1;
    *unfinished = *end == '.' && n >= ending && strcmp(end + n - ending, temporary) == 0;
    return *end == '\0' || *unfinished ? step : -1;
}

/* *steps: those of the complete checkpoints of a directory, newest first. Returns their number. */
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

int checkpoint_list(const char *directory, Arena *arena, const char *const **paths) {
    int64_t *steps;
    const int n = list_steps(directory, arena, &steps, false);
    const char **path = arena_alloc(arena, ((size_t)n + 1) * sizeof *path);
    for (int i = 0; i < n; i++)
        path[i] = checkpoint_path(arena, directory, steps[i]);
    *paths = path;
    return n;
}

const char *checkpoint_newest(const char *directory, Arena *arena) {
    const char *const *paths;
    return checkpoint_list(directory, arena, &paths) > 0 ? paths[0] : NULL;
}

/* Whether a file is as long as its header says, and its header is what was written and says where training stood. A file that cannot be opened counts as whole:
 * loading it says why. */
static bool is_whole(const char *path, Error *error) {
    Arena arena;
    TensorFile file;
    Position position;
    DataOrder order;
    Checksums sums;
    if (access(path, R_OK) != 0) return true;
    arena_init(&arena);
    bool ok = checkpoint_open(&file, &sums, &arena, path, error) && index_read(&file, &position, &order, error);
    checkpoint_close(&file);
    arena_finish(&arena);
    return ok;
}

/* Loads the newest of a directory that is not damaged, after notes on those that are; where all are, the error is the newest's. */
static bool load_latest(Executor *executor, Comm *comm, const Plan *plan, const char *directory, Arena *arena, const char **path,
                        Position *position, DataOrder *order, Error *error) {
    VEC(const char *) failures = {0}; /* of process 0, as are the steps */
    int64_t *steps = NULL;
    int n = comm->process == 0 ? list_steps(directory, arena, &steps, false) : 0;
    for (;;) {
        struct {
            int64_t step, last; /* step < 0: there is none; last: all are damaged, and this is the newest of them */
        } next = {-1, false};
        bool damaged;
        Error failure;
        while (failures.n < n && !is_whole(checkpoint_path(arena, directory, steps[failures.n]), &failure))
            vec_push(arena, &failures, arena_copy(arena, failure.text, strlen(failure.text)));
        if (n > 0) next.step = failures.n < n ? steps[failures.n] : steps[0];
        next.last = failures.n == n;
        if (!comm->table->broadcast(comm, &next, sizeof next, error)) return false;
        if (next.step < 0)
            return comm_agree(
                comm, comm->process != 0 || error_set(error, EXIT_ENVIRONMENT, "%s: there is no checkpoint to resume from", directory),
                error);
        *path = checkpoint_path(arena, directory, next.step);
        bool ok = load(executor, comm, plan, *path, NULL, position, order, &damaged, error);
        if (damaged && !next.last) {
            if (comm->process == 0) vec_push(arena, &failures, arena_copy(arena, error->text, strlen(error->text)));
            continue;
        }
        for (int i = 0; i < failures.n && !next.last; i++)
            fprintf(stderr, "prun: note: %s: going on from %s\n", failures.at[i], *path);
        return ok;
    }
}

bool checkpoint_resume(Executor *executor, Comm *comm, const Plan *plan, const char *directory, Arena *arena, const char **path,
                       Position *position, DataOrder *order, Error *error) {
    bool damaged;
    if (strcmp(*path, "latest") == 0) return load_latest(executor, comm, plan, directory, arena, path, position, order, error);
    return load(executor, comm, plan, *path, NULL, position, order, &damaged, error);
}

/* Whether a file lies in a directory, however their paths are written. */
static bool lies_in(const char *path, const char *directory) {
    struct stat own, that;
    Arena arena;
    const char *slash = strrchr(path, '/');
    arena_init(&arena);
    const char *parent = slash ? arena_copy(&arena, path, (size_t)(slash - path + (slash == path))) : ".";
    bool same = stat(parent, &own) == 0 && stat(directory, &that) == 0 && own.st_dev == that.st_dev && own.st_ino == that.st_ino;
    arena_finish(&arena);
    return same;
}

static bool claim_lock(const char *directory, Arena *arena, int *lock, Error *error) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *lock = open(arena_printf(arena, "%s/lock", directory), O_RDWR | O_CREAT, 0666);
    if (*lock < 0) return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be written: %s", directory, strerror(errno));
    if (fcntl(*lock, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN))
        return true; /* also where the file system has no locks: then there is none to respect */
    return error_set(error, EXIT_ENVIRONMENT, "%s: another run writes its checkpoints there: --checkpoint-dir names another place",
                     directory);
}

/* Removes ranks' files that no index refers to: those that a killed run has left, and those of removed checkpoints. */
static void remove_loose(const char *directory, Arena *arena) {
    const char *folder = arena_printf(arena, "%s/device", directory);
    DIR *ranks = opendir(folder);
    for (const struct dirent *rank; ranks && (rank = readdir(ranks)) != NULL;) {
        const char *path = arena_printf(arena, "%s/%s", folder, rank->d_name);
        DIR *files = rank->d_name[0] == '.' ? NULL : opendir(path);
        for (const struct dirent *file; files && (file = readdir(files)) != NULL;) {
            bool unfinished;
            const int64_t step = step_of(file->d_name, &unfinished);
            if (step >= 0 && (unfinished || access(checkpoint_path(arena, directory, step), F_OK) != 0))
                remove(arena_printf(arena, "%s/%s", path, file->d_name));
        }
        if (files) closedir(files);
    }
    if (ranks) closedir(ranks);
}

bool checkpoint_claim(const char *directory, const char *from, int64_t begin, bool *replace, int *lock, Error *error) {
    struct stat status;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", directory, strerror(errno));
    if (stat(directory, &status) != 0 || !S_ISDIR(status.st_mode))
        return error_set(error, EXIT_ENVIRONMENT, "%s: checkpoints go into a directory, and this is none: --checkpoint-dir names another",
                         directory);
    Arena arena;
    int64_t *steps;
    arena_init(&arena);
    bool ok = claim_lock(directory, &arena, lock, error);
    const int n = ok ? list_steps(directory, &arena, &steps, true) : 0; /* nobody writes the unfinished ones any more */
    if (ok) remove_loose(directory, &arena);
    const bool others = n > 0 && steps[0] > begin && !(from && lies_in(from, directory));
    if (others && !*replace)
        ok = error_set(error, EXIT_ENVIRONMENT,
                       "%s: has checkpoints of an earlier run, up to step %" PRId64
                       ": --resume latest goes on from them, --checkpoint-dir names another place, --overwrite replaces them",
                       directory, steps[0]);
    if (others && *replace)
        fprintf(stderr,
                "prun: note: %s: %d checkpoint%s of an earlier run, up to step %" PRId64 ": removed when this run has written its first\n",
                directory, n, n == 1 ? "" : "s", steps[0]);
    *replace = *replace && others;
    arena_finish(&arena);
    return ok;
}

void checkpoint_prune(const char *directory, bool replace, int64_t keep, int64_t best, int64_t now) {
    Arena arena;
    int64_t *steps, kept = best > 0 && (keep > 1 || best == now); /* the best may come last in the list */
    arena_init(&arena);
    int n = list_steps(directory, &arena, &steps, false);
    for (int i = 0; i < n; i++) {
        const bool gone = steps[i] > now || (replace && steps[i] != now);
        if (gone || (steps[i] != best && ++kept > keep && keep > 0)) remove(checkpoint_path(&arena, directory, steps[i]));
    }
    remove_loose(directory, &arena);
    arena_finish(&arena);
}
