/* inputs: fills what a step reads. On a device with a queue the next step's batch is copied to the device while this one runs, into a second
 * buffer. */
#include <stdlib.h>

#include "runtime/element.h"
#include "runtime/exec.h"

struct Batches {
    bool filled;                     /* inputs hold a batch already */
    int64_t ahead_epoch, ahead_step; /* the step whose batch Cursor.ahead holds, 0: none */
};

void inputs_begin(Executor *executor) {
    executor->batches = arena_alloc(&executor->arena, sizeof *executor->batches);
}

void executor_set_places(Executor *executor, const int64_t *token, int64_t place) {
    executor->token = token;
    executor->place = place;
}

static double number_at(const Executor *executor, InputKind kind, int64_t i) {
    const int64_t update = executor->updates + 1;
    return kind == INPUT_TOKEN    ? (double)executor->token[i]
           : kind == INPUT_PLACE  ? (double)(executor->place + i)
           : kind == INPUT_UPDATE ? (double)update
                                  : executor_scheduled(executor, update + executor->schedule_ahead);
}

/* Inputs that no data source fills: a number of the optimizer, the places of a text and their tokens. */
static bool fill_numbers(Executor *executor, Cursor *cursor, int id, Error *error) {
    enum { PIECE = 64 };
    const Input *input = &executor->plan->graph.inputs.at[id];
    const int64_t n = shape_elements(&input->type.shape), bytes = dtype_bytes[input->type.dtype];
    for (int64_t begin = 0; begin < n; begin += PIECE) {
        double elements[PIECE]; /* room for any type */
        const int64_t count = n - begin < PIECE ? n - begin : PIECE;
        for (int64_t i = 0; i < count; i++)
            element_put(elements, input->type.dtype, i, number_at(executor, input->kind, begin + i));
        char *to = (char *)cursor->input[id] + begin * bytes;
        if (!executor->backend->upload(executor->context, to, elements, count * bytes, error)) return false;
    }
    return true;
}

static int64_t input_elements(const Input *input, int rank) {
    Box box;
    layout_box(input->layout, &input->type.shape, rank, &box);
    return box_elements(&box);
}

/* A rank's box of an input, in memory of the process. */
static bool fill(const Executor *executor, const Cursor *cursor, int id, int64_t epoch, int64_t step, void *to, Error *error) {
    return data_fill(executor->data, cursor->take[id], epoch, step, to, error);
}

bool inputs_load(Executor *executor, Cursor *cursor, Error *error) {
    const DeviceQueue *queue = executor->backend->queue;
    const Graph *graph = &executor->plan->graph;
    if (!queue) return true;
    cursor->ahead = arena_alloc(&executor->arena, (size_t)graph->inputs.n * sizeof *cursor->ahead);
    cursor->host = arena_alloc(&executor->arena, (size_t)graph->inputs.n * sizeof *cursor->host);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (!input_is_taken(input->kind) || cursor->made[i]) continue;
        int64_t bytes = input_elements(input, cursor->rank) * dtype_bytes[input->type.dtype];
        cursor->host[i] = queue->alloc_host(executor->context, bytes, error);
        if (!cursor->host[i]) return false;
        if (data_changes(executor->data) && !(cursor->ahead[i] = executor->backend->alloc(executor->context, bytes, error))) return false;
    }
    return true;
}

void inputs_unload(Executor *executor, Cursor *cursor) {
    const DeviceQueue *queue = executor->backend->queue;
    for (int i = 0; queue && cursor->host && i < executor->plan->graph.inputs.n; i++) {
        if (cursor->host[i]) queue->free_host(executor->context, cursor->host[i]);
        if (cursor->ahead[i]) executor->backend->free(executor->context, cursor->ahead[i]);
    }
}

/* Puts one input's batch into its place: from the second buffer, or from the source. */
static bool fill_batch(Executor *executor, const Cursor *cursor, int id, int64_t epoch, int64_t step, bool is_ahead, Error *error) {
    const Backend *backend = executor->backend;
    const Input *input = &executor->plan->graph.inputs.at[id];
    if (backend->host) return fill(executor, cursor, id, epoch, step, cursor->input[id], error);
    int64_t bytes = input_elements(input, cursor->rank) * dtype_bytes[input->type.dtype];
    if (is_ahead) return backend->copy(executor->context, cursor->input[id], cursor->ahead[id], bytes, error);
    return fill(executor, cursor, id, epoch, step, cursor->host[id], error) &&
           backend->upload(executor->context, cursor->input[id], cursor->host[id], bytes, error);
}

/* Has the device generate an input's random numbers. */
static bool make_numbers(Executor *executor, const Cursor *cursor, int id, int64_t epoch, int64_t step, Error *error) {
    const Input *input = &executor->plan->graph.inputs.at[id];
    Operand to = {
        .data = cursor->input[id], .dtype = input->type.dtype, .global = input->type.shape, .local = {.ndim = input->type.shape.ndim}};
    Numbers numbers;
    layout_box(input->layout, &input->type.shape, cursor->rank, &to.box);
    for (int d = 0; d < to.box.ndim; d++)
        to.local.dim[d] = to.box.end[d] - to.box.begin[d];
    data_numbers(executor->data, id, epoch, step, &numbers); /* those of the longest texts: shorter ones have the same at the same places */
    return executor->backend->queue->uniform(executor->context, &to, &numbers, error);
}

static bool fill_all(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    struct Batches *batches = executor->batches;
    const bool same = batches->filled && !data_changes(executor->data);
    const bool is_ahead = batches->ahead_epoch == epoch && batches->ahead_step == step;
    const Graph *graph = &executor->plan->graph;
    if (is_ahead && !executor->backend->queue->staged(executor->context, error)) return false;
    /* Not the batch that was expected: memory from which that one is still being copied is about to be overwritten. */
    if (!is_ahead && batches->ahead_epoch > 0 && !executor->backend->sync(executor->context, error)) return false;
    for (int c = 0; c < executor->comm->ndriven; c++)
        for (int i = 0; i < graph->inputs.n; i++) {
            Cursor *cursor = &executor->cursors[c];
            if (!input_is_taken(graph->inputs.at[i].kind)) {
                if (!fill_numbers(executor, cursor, i, error)) return false;
            } else if (cursor->made[i]) {
                if (!make_numbers(executor, cursor, i, epoch, step, error)) return false;
            } else if (!same && cursor->take[i] >= 0 && !fill_batch(executor, cursor, i, epoch, step, is_ahead, error))
                return false;
        }
    batches->filled = true;
    return !is_ahead || executor->backend->queue->taken(executor->context, error);
}

bool inputs_fill(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    CommPlace *place = executor->comm->place;
    const int32_t doing = place->doing;
    if (doing == DOING_STEP) place->doing = DOING_DATA;
    const bool ok = fill_all(executor, epoch, step, error);
    place->doing = doing;
    return ok;
}

bool inputs_ahead(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    struct Batches *batches = executor->batches;
    const Graph *graph = &executor->plan->graph;
    if (!data_changes(executor->data)) return true;
    if (++step > data_steps(executor->data)) epoch++, step = 1;
    batches->ahead_epoch = batches->ahead_step = 0;
    if (epoch > graph->settings.epochs || lengths_known(executor->of ? executor->of : executor, epoch, step) != executor) return true;
    for (int c = 0; c < executor->comm->ndriven; c++)
        for (int i = 0; i < graph->inputs.n; i++) {
            const Input *input = &graph->inputs.at[i];
            const Cursor *cursor = &executor->cursors[c];
            Error later; /* ignored: the step that needs the batch reports it */
            if (!input_is_taken(input->kind) || cursor->take[i] < 0) continue;
            if (!fill(executor, cursor, i, epoch, step, cursor->host[i], &later)) return true;
            int64_t bytes = input_elements(input, cursor->rank) * dtype_bytes[input->type.dtype];
            if (!executor->backend->queue->stage(executor->context, cursor->ahead[i], cursor->host[i], bytes, error)) return false;
        }
    batches->ahead_epoch = epoch;
    batches->ahead_step = step;
    return true;
}
