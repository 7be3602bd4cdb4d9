/* results: what a step leaves, for other files to read: losses, reports, and states, which are also converted between layouts here. */
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "runtime/exec.h"

struct Gathers {
    CommRequest **gather;    /* per state, prepared when first needed */
    CommRequest **rearrange; /* likewise */
    int64_t *bytes;          /* per driven rank: sent for states and reports, outside of steps */
};

void results_begin(Executor *executor) {
    const size_t nstates = (size_t)executor->plan->graph.states.n;
    struct Gathers *gathers = executor->gathers = arena_alloc(&executor->arena, sizeof *gathers);
    gathers->gather = arena_alloc(&executor->arena, nstates * sizeof *gathers->gather);
    gathers->rearrange = arena_alloc(&executor->arena, nstates * sizeof *gathers->rearrange);
    gathers->bytes = arena_alloc(&executor->arena, (size_t)executor->comm->ndriven * sizeof *gathers->bytes);
}

/* ---------------------------------------------------------------- losses */

int executor_losses(const Executor *executor, int driven, const double **losses) {
    executor = lengths_now(executor);
    *losses = executor->cursors[driven].losses;
    return executor->behind ? 0 : executor->cursors[driven].nlosses;
}

/* The loss's instance; every role has it under the same number. */
static const Instance *loss_instance(const Executor *executor) {
    int loss = executor->program->loss;
    return loss < 0 ? NULL : &executor->program->roles.at[0].instances.at[loss];
}

int executor_slices(const Executor *executor, int rank, int *first) {
    const Instance *loss = loss_instance(executor);
    Box box;
    *first = 0;
    if (!loss) return 0;
    layout_box(loss->layout, &executor->plan->graph.values.at[loss->value].type.shape, rank, &box);
    if (box.ndim > 0) *first = (int)box.begin[0];
    return (int)box_elements(&box);
}

int executor_most_slices(const Executor *executor) {
    const Instance *loss = loss_instance(executor);
    return loss ? (int)layout_max_elements(loss->layout, &executor->plan->graph.values.at[loss->value].type.shape) : 0;
}

bool executor_gather_losses(Executor *executor, double *losses, Error *error) {
    Comm *comm = executor->comm;
    int most = executor_most_slices(executor);
    const double *own;
    for (int i = 0; i < comm->ndriven; i++) {
        int n = executor_losses(executor, i, &own);
        if (n > 0) memcpy(losses + (int64_t)(comm->first_driven + i) * most, own, (size_t)n * sizeof *own);
    }
    return executor_gather_slices(executor, losses, error);
}

bool executor_gather_slices(Executor *executor, double *numbers, Error *error) {
    Comm *comm = executor->comm;
    int most = executor_most_slices(executor);
    if (comm->nprocesses == 1) return true;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    if (!words) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    bool ok = true;
    for (int k = 0; ok && k < most; k++) {
        uint64_t bits;
        memcpy(&bits, &numbers[(int64_t)comm->first_driven * most + k], sizeof bits);
        ok = comm->table->all_gather_words(comm, bits, words, error);
        for (int p = 0; ok && p < comm->nprocesses; p++)
            memcpy(&numbers[(int64_t)p * most + k], &words[p], sizeof bits);
    }
    free(words);
    return ok;
}

/* ---------------------------------------------------------------- reports */

bool executor_report(Executor *executor, int driven, int report, ReportPart *part, Error *error) {
    executor = lengths_now(executor);
    const Cursor *cursor = &executor->cursors[driven];
    int id = report < 0 ? executor->program->loss : executor->program->reports.at[report];
    const Instance *instance = &cursor->role->instances.at[id];
    *part = (ReportPart){.type = &executor->plan->graph.values.at[instance->value].type, .box = cursor->box[id], .data = cursor->at[id]};
    part->first = layout_holds_first(instance->layout, executor->comm->nranks, cursor->rank);
    if (executor->backend->host) return true;
    int64_t bytes = box_elements(&part->box) * dtype_bytes[part->type->dtype];
    part->data = part->copy = malloc((size_t)bytes + 1);
    if (!part->copy) return error_set(error, EXIT_ENVIRONMENT, "out of memory for a copy of what is reported");
    if (executor->backend->download(executor->context, part->copy, cursor->at[id], bytes, error)) return true;
    executor_report_finish(executor, part);
    return false;
}

void executor_report_finish(Executor *executor, ReportPart *part) {
    (void)executor;
    free(part->copy);
    part->copy = NULL;
}

int64_t executor_rows(const Executor *executor) {
    return data_rows(executor->data);
}

int64_t executor_row(const Executor *executor, int64_t step, int64_t place, bool *filler) {
    return data_row(executor->data, step, place, filler);
}

void executor_exclude_bytes(Executor *executor, int driven, int64_t bytes) {
    executor->gathers->bytes[driven] += bytes;
}

/* ---------------------------------------------------------------- states */

void *executor_state(Executor *executor, int driven, int state, Box *box) {
    Cursor *cursor = &executor->cursors[driven];
    const State *of = &executor->plan->graph.states.at[state];
    layout_box(of->layout, &of->type.shape, cursor->rank, box);
    return cursor->state[state];
}

/* Copies between a box's elements (in `local`, row-major) and the whole tensor. */
static void copy_box(const TensorType *type, const Box *box, void *local, double *whole, bool to_whole) {
    int64_t index[MAX_NDIM];
    memcpy(index, box->begin, sizeof index);
    for (int64_t i = 0, n = box_elements(box); i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < box->ndim; d++)
            at = at * type->shape.dim[d] + index[d];
        if (to_whole)
            whole[at] = element_at(local, type->dtype, i);
        else
            element_put(local, type->dtype, i, whole[at]);
        for (int d = box->ndim - 1; d >= 0 && ++index[d] == box->end[d]; d--)
            index[d] = box->begin[d];
    }
}

/* *request: the conversion of a state from its own layout to another, prepared once. Its target may be memory that is allocated later. Collective. */
static bool state_request(Executor *executor, int state, const Layout *layout, CommRequest **request, Error *error) {
    Comm *comm = executor->comm;
    const State *of = &executor->plan->graph.states.at[state];
    if (*request) return true;
    Layout *to = arena_alloc(&executor->arena, sizeof *to);
    *to = *layout;
    Transfer transfer = {.kind = COMM_EXCHANGE,
                         .dtype = of->type.dtype,
                         .shape = of->type.shape,
                         .from = of->layout,
                         .to = to,
                         .name = of->name,
                         .anywhere = true};
    *request = comm->table->prepare(comm, &transfer, 1, error);
    return comm_agree(comm, *request, error);
}

/* Gathers a state by one request on every driven rank, from its box to `target`, the whole. Under comm/job there is one driven rank. */
static bool gather_transfer(Executor *executor, int state, void *target, Error *error) {
    Comm *comm = executor->comm;
    Layout whole;
    layout_init(&whole, executor->plan->graph.states.at[state].type.shape.ndim);
    if (!state_request(executor, state, &whole, &executor->gathers->gather[state], error)) return false;
    if (!comm->table->barrier(comm, error)) return false; /* what was sent so far is counted */
    int64_t before = comm->counters[0].sent_bytes;
    const void *source = executor->cursors[0].state[state];
    CommStatus status = COMM_PENDING;
    if (!comm->table->start(comm, executor->gathers->gather[state], 0, &source, &target, error)) return false;
    while (status == COMM_PENDING)
        status = comm->table->wait(comm, executor->gathers->gather[state], 0, error);
    if (status != COMM_COMPLETE || !comm->table->barrier(comm, error)) return false;
    executor->gathers->bytes[0] += comm->counters[0].sent_bytes - before;
    return true;
}

bool executor_rearrange_state(Executor *executor, int state, const Layout *layout, void *const *target, Error *error) {
    Comm *comm = executor->comm;
    if (!state_request(executor, state, layout, &executor->gathers->rearrange[state], error)) return false;
    if (!comm->table->barrier(comm, error)) return false; /* what was sent so far is counted */
    for (int i = 0; i < comm->ndriven; i++) {
        const void *source = executor->cursors[i].state[state];
        void *to = target[i];
        executor->gathers->bytes[i] -= comm->counters[i].sent_bytes;
        if (!comm->table->start(comm, executor->gathers->rearrange[state], i, &source, &to, error)) return false;
    }
    for (int i = 0; i < comm->ndriven; i++) {
        CommStatus status = COMM_PENDING;
        while (status == COMM_PENDING)
            status = comm->table->wait(comm, executor->gathers->rearrange[state], i, error);
        if (status != COMM_COMPLETE) return false;
    }
    if (!comm->table->barrier(comm, error)) return false;
    for (int i = 0; i < comm->ndriven; i++)
        executor->gathers->bytes[i] += comm->counters[i].sent_bytes;
    return true;
}

bool executor_gather_state(Executor *executor, int state, Arena *arena, double **whole, Error *error) {
    Comm *comm = executor->comm;
    const State *of = &executor->plan->graph.states.at[state];
    int64_t n = shape_elements(&of->type.shape);
    *whole = arena_alloc(arena, (size_t)n * sizeof **whole);
    Box box = {.ndim = of->type.shape.ndim};
    memcpy(box.end, of->type.shape.dim, sizeof box.end);
    if (comm->ndriven == comm->nranks || layout_is_whole(of->layout)) { /* everything is in this process */
        for (int i = 0; i < comm->ndriven; i++) {
            void *local = executor_state(executor, i, state, &box);
            int64_t bytes = box_elements(&box) * dtype_bytes[of->type.dtype];
            void *copy = executor->backend->host ? local : malloc(bytes > 0 ? (size_t)bytes : 1);
            if (!copy) return error_set(error, EXIT_ENVIRONMENT, "out of memory for %s", of->name);
            bool ok = executor->backend->host || executor->backend->download(executor->context, copy, local, bytes, error);
            if (ok) copy_box(&of->type, &box, copy, *whole, true);
            if (copy != local) free(copy);
            if (!ok) return false;
        }
        return true;
    }
    void *target = tensor_alloc(executor, n * dtype_bytes[of->type.dtype], error);
    if (!comm_agree(comm, target, error)) {
        tensor_free(executor, target);
        return false;
    }
    bool ok = gather_transfer(executor, state, target, error);
    void *copy = executor->backend->host ? target : malloc((size_t)n * (size_t)dtype_bytes[of->type.dtype] + 1);
    if (!copy) ok = error_set(error, EXIT_ENVIRONMENT, "out of memory for %s", of->name);
    if (ok && copy != target) ok = executor->backend->download(executor->context, copy, target, n * dtype_bytes[of->type.dtype], error);
    if (ok) copy_box(&of->type, &box, copy, *whole, true);
    if (copy != target) free(copy);
    tensor_free(executor, target);
    return ok;
}

bool executor_set_state(Executor *executor, int state, const double *whole, Error *error) {
    const State *of = &executor->plan->graph.states.at[state];
    for (int i = 0; i < executor->comm->ndriven; i++) {
        Box box;
        void *local = executor_state(executor, i, state, &box);
        int64_t bytes = box_elements(&box) * dtype_bytes[of->type.dtype];
        void *copy = executor->backend->host ? local : malloc(bytes > 0 ? (size_t)bytes : 1);
        if (!copy) return error_set(error, EXIT_ENVIRONMENT, "out of memory for %s", of->name);
        copy_box(&of->type, &box, copy, (double *)whole, false);
        bool ok = copy == local || executor->backend->upload(executor->context, local, copy, bytes, error);
        if (copy != local) free(copy);
        if (!ok) return false;
    }
    return true;
}

const Backend *executor_backend(const Executor *executor, void **context) {
    *context = executor->context;
    return executor->backend;
}

int64_t executor_sent_bytes(const Executor *executor, int driven) {
    return executor->comm->counters[driven].sent_bytes - executor->gathers->bytes[driven];
}
