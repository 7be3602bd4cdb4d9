/* source: provides the values of the inputs at each step.
 *
 * numpy_rand is numpy's legacy generator, RandomState(seed).random_sample(): two words a double, inputs in the order of their declaration,
 * the same batch at every step. per_rank: literals. files: rows of files in the order of sampler.c. normal, uniform: element i of global
 * row r is a function of (seed, input, r, i), and no row comes twice.
 *
 * A thread prepares a batch that changes from step to step while the step before it runs. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/lookup.h"
#include "runtime/data/drawn.h"
#include "runtime/data/source.h"
#include "runtime/element.h"

static bool from_files(const DataSource *data) {
    return data->graph->settings.data == DATA_FILES;
}

/* The input that provides an input's elements: with accumulate several inputs hold batches of one. */
static int source_of(const Graph *graph, int input) {
    return graph->inputs.at[input].micro > 0 ? graph->inputs.at[input].of : input;
}

/* How many batches a step has. */
static int64_t batches_of_step(const DataSource *data) {
    return settings_batches(&data->graph->settings);
}

/* The shape without the hidden dimension. */
static Shape own_shape(const TensorType *type) {
    Shape shape = {.ndim = type->shape.ndim - type->hidden};
    memcpy(shape.dim, type->shape.dim + type->hidden, (size_t)shape.ndim * sizeof shape.dim[0]);
    return shape;
}

/* Rows of a batch, all replicas together. */
static int64_t input_batch(const Input *input) {
    int hidden = input->type.hidden;
    return input->type.shape.ndim > hidden ? (hidden ? input->type.shape.dim[0] : 1) * input->type.shape.dim[hidden] : 1;
}

/* Into how many distinct shares the batch is split: the most of any input (PyTorch's world, where a tensor-parallel group reads the same rows). */
static int64_t input_world(const Graph *graph, int64_t batch) {
    int64_t world = 1;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        int hidden = input->type.hidden;
        int64_t shares = hidden ? input->type.shape.dim[0] : 1;
        if (input->layout && input->type.shape.ndim > hidden) shares *= layout_split(input->layout, hidden);
        if (input->kind == INPUT_DATA && shares > world && batch % shares == 0) world = shares;
    }
    return world;
}

/* ---------------------------------------------------------------- opening */

/* How many rows of an input are drawn. */
static int64_t drawn_rows(const Graph *graph, const Shape *shape) {
    int64_t batch = shape->ndim ? shape->dim[0] : 1, wanted = graph->settings.data_rows;
    return wanted > 0 && wanted < batch ? wanted : batch;
}

static void draw(DataSource *data) {
    const Graph *graph = data->graph;
    Mt19937 *mt = arena_alloc(&data->arena, sizeof *mt);
    mt19937_seed(mt, (uint32_t)graph->settings.data_seed);
    data->drawn = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->drawn);
    data->rows = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->rows);
    for (int i = 0; i < graph->inputs.n; i++) {
        if (graph->inputs.at[i].kind != INPUT_DATA || graph->inputs.at[i].micro > 0) continue;
        Shape shape = own_shape(&graph->inputs.at[i].type);
        int64_t batch = shape.ndim ? shape.dim[0] : 1;
        data->rows[i] = drawn_rows(graph, &shape);
        int64_t n = data->rows[i] * (batch ? shape_elements(&shape) / batch : 0);
        double *drawn = arena_alloc(&data->arena, (size_t)n * sizeof *drawn);
        for (int64_t k = 0; k < n; k++)
            drawn[k] = mt19937_double(mt);
        data->drawn[i] = drawn;
    }
}

double data_bytes(const Graph *graph) {
    double bytes = 0;
    for (int i = 0; graph->settings.data == DATA_NUMPY_RAND && i < graph->inputs.n; i++) {
        if (graph->inputs.at[i].kind != INPUT_DATA || graph->inputs.at[i].micro > 0) continue;
        Shape shape = own_shape(&graph->inputs.at[i].type);
        if (shape.ndim > 0) shape.dim[0] = drawn_rows(graph, &shape);
        bytes += (double)shape_elements(&shape) * sizeof(double);
    }
    return bytes;
}

static Stored stored_of(const char *name) {
    Stored stored = {name && strcmp(name, "bool") == 0 ? STORED_U8 : STORED_F32, false};
    for (int k = 0; name && k < NSTORED; k++)
        if (strcmp(file_element_name[k], name) == 0) stored.kind = (StoredKind)k;
    return stored;
}

/* If an input is itself an index: the size that it indexes, which values of a file must be below; 0: it is no index, or only values computed from it are. */
static int64_t index_checked(const Graph *graph, int input) {
    for (int n = 0; n < graph->nodes.n; n++)
        if (graph->nodes.at[n].op == OP_input && graph->nodes.at[n].state == input)
            return graph_index_range(graph, graph->nodes.at[n].out[0], false).end;
    return 0;
}

static bool open_file(DataSource *data, int i, const char *plan_directory, int threads, Error *error) {
    const Input *input = &data->graph->inputs.at[i];
    Shape own = own_shape(&input->type);
    if (input->file.format == FILE_NONE || own.ndim == 0)
        return error_set(error, EXIT_REJECTED, "input %s has no file of rows", input->name);
    RowFile file = {.format = input->file.format,
                    .input = input->name,
                    .row = {.ndim = own.ndim - 1},
                    .first_column = input->file.column,
                    .heading = input->file.heading && input->file.heading[0] ? input->file.heading : NULL,
                    .separator = input->file.separator,
                    .missing = input->file.missing,
                    .fill = input->file.fill,
                    .classes = input->file.classes && input->file.classes[0] ? input->file.classes : NULL,
                    .find_classes = input->file.find_classes,
                    .tokens = input->file.tokens,
                    .tokenizer = input->file.tokenizer,
                    .vocabulary = input->file.vocabulary,
                    .lowercase = input->file.lowercase,
                    .change = input->file.change,
                    .picture = input->file.picture,
                    .seed = data->graph->settings.seed,
                    .threads = threads,
                    .says = &data->says,
                    .offset = input->file.offset,
                    .first = input->file.first,
                    .rows = input->file.rows,
                    .dtype = input->type.dtype,
                    .range = index_checked(data->graph, i)};
    file.path = file_find(input->file.path, plan_directory, &data->arena);
    if (file.tokens != TOKENS_NONE && file.tokenizer == TOKENIZER_WORDPIECE)
        file.vocabulary = file_find(input->file.vocabulary, plan_directory, &data->arena);
    file.stored = stored_of(input->file.stored && input->file.stored[0] ? input->file.stored : dtype_name[input->type.dtype]);
    memcpy(file.row.dim, own.dim + 1, sizeof *own.dim * (size_t)file.row.ndim);
    data->texts[i] = i;
    error->code = 0;
    for (int k = 0; !data->file[i] && error->code == 0 && k < i; k++) {
        if (data->file[k]) data->file[i] = rows_open_part(&file, data->file[k], error);
        if (data->file[i]) data->texts[i] = k;
    }
    if (!data->file[i] && error->code == 0) data->file[i] = rows_open(&file, error);
    if (data->file[i] && rows_need_figures(data->file[i])) {
        data->known[i] = &data->figures[i];
        rows_set_figures(data->file[i], data->known[i]);
    }
    return data->file[i] != NULL;
}

/* Whether both are views of one file at different offsets: rows that only one has are left out. */
static bool is_window(const Input *a, const Input *b) {
    return a->file.format == FILE_RAW && b->file.format == FILE_RAW && a->file.offset >= 0 && b->file.offset >= 0 &&
           strcmp(a->file.path, b->file.path) == 0;
}

static bool open_files(DataSource *data, const bool *used, const char *plan_directory, int threads, Error *error) {
    const Graph *graph = data->graph;
    const Settings *settings = &graph->settings;
    int first = -1, drawn = -1;
    int64_t rows = INT64_MAX;
    data->file = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->file);
    data->texts = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->texts);
    data->figures = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->figures);
    data->known = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->known);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->kind != INPUT_DATA || input->micro > 0 || (used && !used[i])) continue;
        if (file_is_drawn(input->file.format)) drawn = i;
        if (drawn == i) continue;
        if (!open_file(data, i, plan_directory, threads, error)) return false;
        if (first < 0) first = i;
        if (input_batch(input) != data->batch)
            return error_set(error, EXIT_REJECTED, "input %s takes %lld rows a step, input %s %lld: rows of files belong together",
                             input->name, (long long)input_batch(input), graph->inputs.at[first].name, (long long)data->batch);
        if (rows_count(data->file[i]) < rows) rows = rows_count(data->file[i]);
        if (rows_count(data->file[i]) != rows_count(data->file[first]) && !is_window(input, &graph->inputs.at[first]))
            return error_set(error, EXIT_ENVIRONMENT, "input %s: %s has %lld rows, and %s of input %s has %lld%s", input->name,
                             input->file.path, (long long)rows_count(data->file[i]), graph->inputs.at[first].file.path,
                             graph->inputs.at[first].name, (long long)rows_count(data->file[first]),
                             (input->file.missing == MISSING_DROP) != (graph->inputs.at[first].file.missing == MISSING_DROP)
                                 ? ": one leaves rows out, `missing = drop` must be said of both"
                                 : "");
    }
    if (first < 0 && drawn >= 0)
        return error_set(error, EXIT_USAGE, "input %s is drawn for the rows of a file, and no file is read", graph->inputs.at[drawn].name);
    if (first < 0) return true;
    data->whole = rows;
    if (settings->split.nshares > 0) {
        const int64_t whole = rows;
        data->part = split_part(&settings->split, whole, &rows);
        if (rows == 0)
            return error_set(error, EXIT_ENVIRONMENT, "%s has %lld row%s, and part %d of the split (from 0) none of them",
                             graph->inputs.at[first].file.path, (long long)whole, whole == 1 ? "" : "s", settings->split.part);
        if (!data->part) return error_set(error, EXIT_ENVIRONMENT, "out of memory for the order of the rows");
    }
    sampler_init(&data->sampler, rows, data->batch, input_world(graph, data->batch), settings->shuffle, (uint64_t)settings->shuffle_seed,
                 settings->last == LAST_DROP);
    sampler_even(&data->sampler, settings->uneven);
    int64_t batches = sampler_batches(&data->sampler);
    if (settings->optimizer != OPTIMIZER_NONE && settings->epochs == 0) return true; /* there is no training, so no batch is read */
    if (data->sampler.places == 0)
        return error_set(error, EXIT_ENVIRONMENT, "%s has %lld row%s, and %lld shares of a batch: `uneven = drop;` leaves none of them",
                         graph->inputs.at[first].file.path, (long long)rows, rows == 1 ? "" : "s", (long long)data->sampler.world);
    if (batches == 0)
        return error_set(error, EXIT_ENVIRONMENT,
                         data->part ? "%s's part of the split has %lld row%s, and a batch takes %lld: `last = pad;` fills it up"
                                    : "%s has %lld row%s, and a batch takes %lld: `last = pad;` fills it up",
                         graph->inputs.at[first].file.path, (long long)rows, rows == 1 ? "" : "s", (long long)data->batch);
    if (settings->steps > batches / batches_of_step(data))
        return error_set(error, EXIT_ENVIRONMENT,
                         "%s has %lld batches of %lld rows, and an epoch has %lld steps%s: leave out steps, or make them fewer",
                         graph->inputs.at[first].file.path, (long long)batches, (long long)data->batch, (long long)settings->steps,
                         batches_of_step(data) > 1 ? " of several batches (accumulate)" : "");
    if (batches < batches_of_step(data))
        return error_set(error, EXIT_ENVIRONMENT, "%s has %lld batches of %lld rows, and a step takes %lld (accumulate)",
                         graph->inputs.at[first].file.path, (long long)batches, (long long)data->batch, (long long)batches_of_step(data));
    if (settings->steps == 0) data->steps = batches / batches_of_step(data);
    return true;
}

DataSource *data_open(const Graph *graph, const bool *used, const char *plan_directory, int threads, bool says, Error *error) {
    const Settings *settings = &graph->settings;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        bool has = settings->data != DATA_NONE && (settings->data != DATA_PER_RANK || input->per_rank);
        if (has || input->kind != INPUT_DATA) continue;
        error_set(error, EXIT_REJECTED, "input %s has no data: give the train block a data source", input->name);
        return NULL;
    }
    DataSource *data = calloc(1, sizeof *data);
    if (!data) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    data->graph = graph;
    data->threads = threads;
    data->says = says;
    data->steps = settings->steps;
    data->held_epoch = -1;
    data->batch = 1;
    for (int i = graph->inputs.n - 1; i >= 0; i--)
        if (graph->inputs.at[i].kind == INPUT_DATA) data->batch = input_batch(&graph->inputs.at[i]);
    arena_init(&data->arena);
    pthread_mutex_init(&data->lock, NULL);
    pthread_cond_init(&data->changed, NULL);
    if (settings->data == DATA_NUMPY_RAND) draw(data);
    if (from_files(data) && !open_files(data, used, plan_directory, threads, error)) {
        data_close(data);
        return NULL;
    }
    return data;
}

void data_close(DataSource *data) {
    if (!data) return;
    pthread_mutex_lock(&data->lock);
    data->stop = true;
    pthread_cond_broadcast(&data->changed);
    pthread_mutex_unlock(&data->lock);
    if (data->running) pthread_join(data->thread, NULL);
    pthread_cond_destroy(&data->changed);
    pthread_mutex_destroy(&data->lock);
    for (int i = 0; data->file && i < data->graph->inputs.n; i++) {
        rows_close(data->file[i]);
        figures_finish(&data->figures[i]);
    }
    for (int i = 0; i < data->takes.n; i++)
        free(data->takes.at[i].ready);
    sampler_finish(&data->sampler);
    free(data->part);
    pool_destroy(data->pool);
    arena_finish(&data->arena);
    free(data);
}

int data_take(DataSource *data, int group, int input, const Box *box) {
    vec_push(&data->arena, &data->takes, (Take){.group = group, .input = input, .box = *box});
    return data->takes.n - 1;
}

bool data_has(const DataSource *data, int input) {
    const Input *in = &data->graph->inputs.at[source_of(data->graph, input)];
    return !from_files(data) || in->kind != INPUT_DATA || file_is_drawn(in->file.format) || data->file[source_of(data->graph, input)];
}

void data_groups(DataSource *data, int64_t epoch, const unsigned char *group) {
    data->groups = group;
    data->groups_epoch = epoch;
}

int64_t data_batch(const DataSource *data) {
    return data->batch;
}

int64_t data_steps(const DataSource *data) {
    return data->steps;
}

int64_t data_rows(const DataSource *data) {
    int64_t all = data->steps * data->batch;
    return from_files(data) && data->sampler.places < all ? data->sampler.places : all;
}

int64_t data_row(const DataSource *data, int64_t step, int64_t place, bool *filler) {
    *filler = false;
    return from_files(data) ? sampler_row(&data->sampler, step - 1, place, filler) : (step - 1) * data->batch + place;
}

void data_order(const DataSource *data, DataOrder *order) {
    const Settings *settings = &data->graph->settings;
    *order = (DataOrder){.flow = FLOW_SAME, .steps = data->steps, .step_rows = data->batch * batches_of_step(data)};
    char *words = order->words;
    size_t room = sizeof order->words;
    if (settings->data == DATA_NORMAL || settings->data == DATA_UNIFORM) {
        order->flow = FLOW_ENDLESS;
        snprintf(words, room, "generated rows, %s with seed %lld", settings->data == DATA_NORMAL ? "normal" : "uniform",
                 (long long)settings->data_seed);
    } else if (from_files(data) && data->sampler.rows > 0) {
        order->flow = FLOW_EPOCHS;
        if (settings->shuffle)
            snprintf(words, room, "rows 1 to %lld shuffled with seed %lld", (long long)data->sampler.rows,
                     (long long)settings->shuffle_seed);
        else
            snprintf(words, room, "rows 1 to %lld in their order", (long long)data->sampler.rows);
        if (settings->split.nshares > 0)
            snprintf(words + strlen(words), room - strlen(words), " of part %d split with seed %lld", settings->split.part,
                     (long long)settings->split.seed);
    } else {
        snprintf(words, room, "the same batch in every step");
    }
}

bool data_changes(const DataSource *data) {
    bool random = false;
    for (int i = 0; i < data->takes.n; i++)
        random = random || data->graph->inputs.at[data->takes.at[i].input].kind == INPUT_RANDOM;
    return random || data_rows_change(data->graph->settings.data) || data->filter;
}

void data_filter(DataSource *data, DataFilter *filter, void *context) {
    data->filter = filter;
    data->filter_context = context;
}

/* ---------------------------------------------------------------- one take of one step */

/* The element of the whole input at a multi-index, of sources whose batch is always the same. */
static double same_element(const DataSource *data, int input, const int64_t *index) {
    const Input *in = &data->graph->inputs.at[input = source_of(data->graph, input)];
    const Shape *shape = &in->type.shape;
    bool is_drawn = data->drawn != NULL;
    int first = is_drawn ? in->type.hidden : 0; /* drawn: every replica has the same */
    int64_t at = 0;
    for (int d = first; d < shape->ndim; d++)
        at = at * shape->dim[d] + (is_drawn && d == first ? index[d] % data->rows[input] : index[d]);
    return is_drawn ? data->drawn[input][at] : in->per_rank[at];
}

static void fill_same(const DataSource *data, const Take *take, void *to) {
    int64_t index[MAX_NDIM];
    memcpy(index, take->box.begin, sizeof index);
    for (int64_t i = 0, n = box_elements(&take->box); i < n; i++) {
        element_put(to, data->graph->inputs.at[take->input].type.dtype, i, same_element(data, take->input, index));
        for (int d = take->box.ndim - 1; d >= 0 && ++index[d] == take->box.end[d]; d--)
            index[d] = take->box.begin[d];
    }
}

/* The row of the files at a place of a batch. */
static int64_t row_of_file(const DataSource *data, int64_t step, int64_t place) {
    bool filler;
    const int64_t row = sampler_row(&data->sampler, step, place, &filler);
    return data->part ? data->part[row] : row;
}

/* Writes elements [first, first + n) of the row at `place` of the batch to `to`. */
typedef bool RunFn(DataSource *data, int input, int64_t step, int64_t place, int64_t first, int64_t n, void *to, Error *error);

static bool run_of_file(DataSource *data, int input, int64_t step, int64_t place, int64_t first, int64_t n, void *to, Error *error) {
    return rows_read(data->file[source_of(data->graph, input)], row_of_file(data, step, place), data->sampler.epoch, first, n, to, error);
}

static bool run_of_weights(DataSource *data, int input, int64_t step, int64_t place, int64_t first, int64_t n, void *to, Error *error) {
    bool filler = false;
    double weight = 1;
    (void)first, (void)error;
    if (from_files(data)) sampler_row(&data->sampler, step, place, &filler);
    int64_t left = data->sampler.places - step * data->batch; /* rows left, from this batch on */
    if (from_files(data) && data->graph->settings.last == LAST_SHORT && left < data->batch) weight = (double)data->batch / (double)left;
    for (int64_t i = 0; i < n; i++)
        element_put(to, data->graph->inputs.at[input].type.dtype, i, filler ? 0 : weight);
    return true;
}

/* How many elements a row has. */
static uint64_t row_elements(const Input *in) {
    uint64_t elements = 1;
    for (int d = in->type.hidden + 1; d < in->type.shape.ndim; d++)
        elements *= (uint64_t)in->type.shape.dim[d];
    return elements;
}

/* Draws elements [first, first + n) of a row; rows are counted over all epochs. */
static void draw_row(DataSource *data, int input, int64_t seed, bool normal, uint64_t row, int64_t first, int64_t n, void *to) {
    const Input *in = &data->graph->inputs.at[input];
    const uint64_t key = random_key((uint64_t)seed, data->graph->inputs.at[source_of(data->graph, input)].name);
    const IndexRange range = in->type.dtype == BOOL ? (IndexRange){0, 2} : in->index;
    const Drawn drawn = {.key = key,
                         .first = row * row_elements(in) + (uint64_t)first,
                         .normal = normal && !range_known(range),
                         .by = 1,
                         .range = range,
                         .dtype = in->type.dtype,
                         .to = to};
    drawn_fill(&drawn, n, data->threads, &data->pool);
}

static bool run_of_random(DataSource *data, int input, int64_t step, int64_t place, int64_t first, int64_t n, void *to, Error *error) {
    const Settings *settings = &data->graph->settings;
    const int64_t row = step * input_batch(&data->graph->inputs.at[input]) + place;
    (void)error;
    draw_row(data, input, settings->data_seed, settings->data == DATA_NORMAL, (uint64_t)row, first, n, to);
    return true;
}

/* An input drawn beside files: its numbers depend on the row of the files and the epoch. */
static bool run_beside_files(DataSource *data, int input, int64_t step, int64_t place, int64_t first, int64_t n, void *to, Error *error) {
    const DataFile *file = &data->graph->inputs.at[source_of(data->graph, input)].file;
    const int64_t row = data->sampler.epoch * data->whole + row_of_file(data, step, place);
    (void)error;
    draw_row(data, input, file->seed, file->format == FILE_NORMAL, (uint64_t)row, first, n, to);
    return true;
}

/* Fills row by row, each in runs of neighbouring elements. A scalar is one row. */
static bool fill_rows(DataSource *data, const Take *take, int64_t step, RunFn *run, void *to, Error *error) {
    const TensorType *type = &data->graph->inputs.at[take->input].type;
    const Box *box = &take->box;
    int row_dim = type->hidden, inner = row_dim + 1;
    bool has_rows = box->ndim > row_dim;
    Shape row_shape = {.ndim = has_rows ? box->ndim - inner : 0};
    Box row_box = {.ndim = row_shape.ndim};
    for (int d = 0; d < row_shape.ndim; d++) {
        row_shape.dim[d] = type->shape.dim[inner + d];
        row_box.begin[d] = box->begin[inner + d];
        row_box.end[d] = box->end[inner + d];
    }
    char *at = to;
    int64_t replica = row_dim ? box->begin[0] : 0, replicas = row_dim ? box->end[0] : 1, rows = has_rows ? type->shape.dim[row_dim] : 1;
    for (; replica < replicas; replica++)
        for (int64_t row = has_rows ? box->begin[row_dim] : 0; row < (has_rows ? box->end[row_dim] : 1); row++) {
            BoxRuns runs = box_runs(&row_shape, &row_box);
            for (int64_t first; box_next_run(&runs, &first); at += runs.length * dtype_bytes[type->dtype])
                if (!run(data, take->input, step, replica * rows + row, first, runs.length, at, error)) return false;
        }
    return true;
}

/* The input whose file holds an input's rows. */
static int holder_of(const DataSource *data, int input) {
    return data->texts[source_of(data->graph, input)];
}

/* How many rows of a step's batch a take has. */
static int64_t take_rows(const DataSource *data, const Take *take) {
    int dim = data->graph->inputs.at[take->input].type.hidden;
    if (box_elements(&take->box) == 0) return 0;
    return (take->box.end[dim] - take->box.begin[dim]) * (dim ? take->box.end[0] - take->box.begin[0] : 1);
}

/* The place in the batch of row number k of a take. */
static int64_t take_place(const DataSource *data, const Take *take, int64_t k) {
    const TensorType *type = &data->graph->inputs.at[take->input].type;
    const int dim = type->hidden;
    const int64_t each = take->box.end[dim] - take->box.begin[dim];
    return (dim ? take->box.begin[0] + k / each : 0) * type->shape.dim[dim] + take->box.begin[dim] + k % each;
}

/* Fills rows of files: whole rows, or a part of each. */
static bool fill_files(DataSource *data, const Take *take, int64_t step, void *to, Error *error) {
    enum { AT_ONCE = 256 };
    const TensorType *type = &data->graph->inputs.at[take->input].type;
    Rows *rows = data->file[source_of(data->graph, take->input)];
    const int64_t n = take_rows(data, take);
    bool whole = n > 0;
    for (int d = type->hidden + 1; d < take->box.ndim; d++)
        whole = whole && take->box.begin[d] == 0 && take->box.end[d] == type->shape.dim[d];
    if (!whole && !fill_rows(data, take, step, run_of_file, to, error)) return false;
    const int64_t bytes = whole ? box_elements(&take->box) / n * dtype_bytes[type->dtype] : 0;
    for (int64_t k = 0, row[AT_ONCE]; whole && k < n; k += AT_ONCE) {
        const int64_t some = n - k < AT_ONCE ? n - k : AT_ONCE;
        for (int64_t i = 0; i < some; i++)
            row[i] = row_of_file(data, step, take_place(data, take, k + i));
        if (!rows_read_whole(rows, row, some, data->sampler.epoch, (char *)to + k * bytes, error)) return false;
    }
    return rows_check(rows, error);
}

/* Whether all rows of a file are held although an epoch reads only n, so that the next epoch, which reads others, reads no file. */
static bool holds_all(const DataSource *data, int input, int64_t n) {
    static const double FEW_BYTES = 1 << 26, MOST_OF_THEM = 0.75;
    const int64_t rows = data->sampler.rows;
    return data->sampler.shuffle && ((double)n >= MOST_OF_THEM * (double)rows || rows_bytes_of(data->file[input], rows) <= FEW_BYTES);
}

double data_held_bytes(const DataSource *data, const char **path) {
    double bytes = from_files(data) && data->sampler.shuffle ? (double)data->sampler.rows * sizeof *data->sampler.order : 0, most = 0;
    *path = NULL;
    for (int i = 0; data->file && i < data->graph->inputs.n; i++) {
        int64_t rows = 0;
        if (!data->file[i] || data->texts[i] != i || !rows_streamed(data->file[i])) continue;
        for (int t = 0; t < data->takes.n; t++) /* other groups take parts of the same rows */
            if (data->takes.at[t].group == 0 && holder_of(data, data->takes.at[t].input) == i)
                rows += data->steps * take_rows(data, &data->takes.at[t]);
        if (rows > data->sampler.rows || holds_all(data, i, rows))
            rows = data->sampler.rows; /* rows that are in several parts are held once */
        double own = rows_bytes_of(data->file[i], rows);
        bytes += own;
        if (own > most) {
            most = own;
            *path = data->graph->inputs.at[i].file.path;
        }
    }
    return bytes;
}

/* Marks a row; 1, or 0 if it was marked already. */
static int mark_row(int64_t row, unsigned char *wanted) {
    const unsigned char bit = (unsigned char)(1 << row % CHAR_BIT), before = wanted[row / CHAR_BIT];
    wanted[row / CHAR_BIT] = before | bit;
    return !(before & bit);
}

/* Marks in `wanted`, a bit a row of the files, the rows that an input's boxes read in an epoch; returns how many. */
static int64_t mark_rows(const DataSource *data, int input, unsigned char *wanted) {
    int64_t n = 0;
    for (int t = 0; t < data->takes.n; t++) {
        const Take *take = &data->takes.at[t];
        if (holder_of(data, take->input) != input) continue;
        const int64_t each = take_rows(data, take), micro = data->graph->inputs.at[take->input].micro;
        for (int64_t step = 0; step < data->steps; step++)
            for (int64_t k = 0; k < each; k++)
                n += mark_row(row_of_file(data, step * batches_of_step(data) + micro, take_place(data, take, k)), wanted);
    }
    return n;
}

/* Reads and holds the rows of an input's file that the epoch needs. */
static bool hold_rows(DataSource *data, int input, Error *error) {
    unsigned char *wanted = calloc((size_t)(data->whole / CHAR_BIT) + 1, 1);
    int64_t n = wanted ? mark_rows(data, input, wanted) : 0, kept = 0;
    if (n > 0 && holds_all(data, input, n)) {
        n = data->sampler.rows;
        for (int64_t r = 0; r < n; r++)
            mark_row(data->part ? data->part[r] : r, wanted);
    }
    int64_t *row = malloc((size_t)n * sizeof *row + 1);
    for (int64_t r = 0; row && kept < n; r++)
        if (wanted[r / CHAR_BIT] >> r % CHAR_BIT & 1) row[kept++] = r;
    const bool ok = wanted && row ? n == 0 || rows_hold(data->file[input], row, n, error)
                                  : error_set(error, EXIT_ENVIRONMENT, "out of memory for the numbers of a rank's rows");
    free(wanted);
    free(row);
    return ok;
}

/* Before the first batch of an epoch: makes its order, and holds the rows of it that this process will read. */
static bool begin_epoch(DataSource *data, int64_t epoch, Error *error) {
    if (!from_files(data) || data->held_epoch == epoch) return true;
    bool ok = sampler_begin(&data->sampler, epoch - 1, error);
    for (int i = 0; ok && i < data->graph->inputs.n; i++)
        if (data->file[i] && data->texts[i] == i && rows_streamed(data->file[i])) ok = hold_rows(data, i, error);
    data->held_epoch = ok ? epoch : -1;
    if (ok) data->says = false;
    return ok;
}

/* The number of a batch in its epoch, and over all epochs. */
static int64_t batch_in_epoch(const DataSource *data, const Input *input, int64_t step) {
    return (step - 1) * batches_of_step(data) + input->micro;
}
static int64_t batch_of_all(const DataSource *data, const Input *input, int64_t epoch, int64_t step) {
    return (epoch - 1) * data->steps * batches_of_step(data) + batch_in_epoch(data, input, step);
}

void data_numbers(const DataSource *data, int input, int64_t epoch, int64_t step, Numbers *numbers) {
    numbers_begin(data, input, batch_of_all(data, &data->graph->inputs.at[input], epoch, step), numbers);
}

static bool fill_take(DataSource *data, const Take *take, int64_t epoch, int64_t step, void *to, Error *error) {
    const Input *input = &data->graph->inputs.at[take->input];
    if (!begin_epoch(data, epoch, error)) return false;
    if (box_elements(&take->box) == 0) return true;
    const int64_t own = batch_in_epoch(data, input, step), number = batch_of_all(data, input, epoch, step);
    if (input->kind == INPUT_ROW_WEIGHT) return fill_rows(data, take, own, run_of_weights, to, error);
    if (input->kind == INPUT_RANDOM) {
        numbers_fill(data, take, number, to);
        return true;
    }
    switch (data->graph->settings.data) {
    case DATA_FILES:
        if (file_is_drawn(data->graph->inputs.at[source_of(data->graph, take->input)].file.format))
            return fill_rows(data, take, own, run_beside_files, to, error);
        return fill_files(data, take, own, to, error);
    case DATA_NORMAL:
    case DATA_UNIFORM:
        return fill_rows(data, take, number, run_of_random, to, error);
    case DATA_NUMPY_RAND:
    case DATA_PER_RANK:
        fill_same(data, take, to);
        return true;
    case DATA_NONE:
    case NDATA_KINDS:
        break;
    }
    return error_set(error, EXIT_INTERNAL, "input %s has no data", input->name);
}

/* ---------------------------------------------------------------- one batch ahead */

static Ahead settle(DataSource *data);

/* Raises *most to the most tokens in a row of a take in a step. */
static bool most_tokens(DataSource *data, const Take *take, int64_t step, int32_t *most, Error *error) {
    const Input *input = &data->graph->inputs.at[take->input];
    const int64_t own = step * batches_of_step(data) + input->micro;
    for (int64_t k = 0, n = take_rows(data, take); k < n; k++) {
        const int64_t row = row_of_file(data, own, take_place(data, take, k));
        const int64_t tokens = rows_tokens(data->file[source_of(data->graph, take->input)], row, error);
        if (tokens < 0) return false;
        if (tokens > *most) *most = (int32_t)tokens;
    }
    return true;
}

bool data_tokens(DataSource *data, int64_t epoch, const bool *texts, int32_t *most, Error *error) {
    settle(data); /* the thread reads the same files */
    memset(most, 0, (size_t)data->steps * sizeof *most);
    if (!begin_epoch(data, epoch, error)) return false;
    for (int t = 0; t < data->takes.n; t++)
        for (int64_t step = 0; texts[data->takes.at[t].input] && step < data->steps; step++)
            if (!most_tokens(data, &data->takes.at[t], step, &most[step], error)) return false;
    return true;
}

void data_where(DataSource *data, int input, int64_t epoch, int64_t step, const int64_t *index, Text *text) {
    const Graph *graph = data->graph;
    const Input *in = &graph->inputs.at[input];
    const Shape *shape = &in->type.shape;
    const int source = source_of(graph, input), dim = in->type.hidden;
    Error ignored;
    settle(data); /* the thread reads the same files */
    if (!from_files(data) || !data->file[source] || shape->ndim <= dim || !sampler_begin(&data->sampler, epoch - 1, &ignored)) return;
    const int64_t place = (dim ? index[0] * shape->dim[dim] : 0) + index[dim];
    int64_t element = 0;
    for (int d = dim + 1; d < shape->ndim; d++)
        element = element * shape->dim[d] + index[d];
    rows_where(data->file[source], row_of_file(data, (step - 1) * batches_of_step(data) + in->micro, place), element, text);
    data->held_epoch = -1;
}

static void *prepare_ahead(void *context) {
    DataSource *data = context;
    pthread_mutex_lock(&data->lock);
    for (;;) {
        while (!data->stop && data->ahead != AHEAD_ASKED)
            pthread_cond_wait(&data->changed, &data->lock);
        if (data->stop) break;
        data->ahead = AHEAD_BUSY;
        pthread_mutex_unlock(&data->lock);
        bool ok = true;
        for (int t = 0; ok && t < data->takes.n; t++)
            if (data->takes.at[t].group == data->ahead_group)
                ok = fill_take(data, &data->takes.at[t], data->ahead_epoch, data->ahead_step, data->takes.at[t].ready, &data->ahead_error);
        pthread_mutex_lock(&data->lock);
        data->ahead = ok ? AHEAD_READY : AHEAD_FAILED;
        pthread_cond_broadcast(&data->changed);
    }
    pthread_mutex_unlock(&data->lock);
    return NULL;
}

/* Waits until the thread is idle. Work that it has not begun is cancelled: waiting for it to be scheduled would take longer than the work. */
static Ahead settle(DataSource *data) {
    pthread_mutex_lock(&data->lock);
    if (data->ahead == AHEAD_ASKED) data->ahead = AHEAD_NONE;
    while (data->ahead == AHEAD_BUSY)
        pthread_cond_wait(&data->changed, &data->lock);
    Ahead ahead = data->ahead;
    pthread_mutex_unlock(&data->lock);
    return ahead;
}

int64_t data_bytes_read(DataSource *data) {
    settle(data);
    int64_t bytes = 0;
    for (int i = 0; data->file && i < data->graph->inputs.n; i++)
        if (data->file[i]) bytes += rows_bytes_read(data->file[i]);
    return bytes;
}

/* Starts preparing the batch of the next step. Without memory or a thread nothing is prepared: slower, not wrong. */
static void start_ahead(DataSource *data, int64_t epoch, int64_t step) {
    if (!data_rows_change(data->graph->settings.data) || data->steps == 0) return;
    if (step == data->steps && epoch == data->graph->settings.epochs) return;
    const bool known = data->groups && data->groups_epoch == epoch && step < data->steps;
    const int group = known ? data->groups[step] : 0;
    for (int t = 0; t < data->takes.n; t++) {
        Take *take = &data->takes.at[t];
        if (take->group != group) continue;
        size_t bytes = (size_t)(box_elements(&take->box) * dtype_bytes[data->graph->inputs.at[take->input].type.dtype]);
        if (!take->ready) take->ready = malloc(bytes + 1);
        if (!take->ready) return;
    }
    if (!data->running && pthread_create(&data->thread, NULL, prepare_ahead, data) != 0) return;
    data->running = true;
    pthread_mutex_lock(&data->lock);
    data->ahead_epoch = step < data->steps ? epoch : epoch + 1;
    data->ahead_step = step < data->steps ? step + 1 : 1;
    data->ahead_group = group;
    data->ahead = AHEAD_ASKED;
    pthread_cond_broadcast(&data->changed);
    pthread_mutex_unlock(&data->lock);
}

static int takes_of(const DataSource *data, int group) {
    int n = 0;
    for (int t = 0; t < data->takes.n; t++)
        n += data->takes.at[t].group == group;
    return n;
}

bool data_fill(DataSource *data, int number, int64_t epoch, int64_t step, void *to, Error *error) {
    if (number < 0 || number >= data->takes.n) return error_set(error, EXIT_INTERNAL, "there is no part %d of the inputs", number);
    const Take *take = &data->takes.at[number];
    const DType dtype = data->graph->inputs.at[take->input].type.dtype;
    const int64_t n = box_elements(&take->box);
    Ahead ahead = settle(data);
    const bool now = ahead != AHEAD_NONE && data->ahead_epoch == epoch && data->ahead_step == step;
    if (now && ahead == AHEAD_FAILED) return *error = data->ahead_error, false;
    if (now && data->ahead_group == take->group)
        memcpy(to, take->ready, (size_t)(n * dtype_bytes[dtype]));
    else if (!fill_take(data, take, epoch, step, to, error))
        return false;
    if (data->filter) data->filter(data->filter_context, take->input, dtype, to, n);
    if (++data->taken < takes_of(data, take->group)) return true;
    data->taken = 0;
    start_ahead(data, epoch, step);
    return true;
}
