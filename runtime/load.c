/* load: resolves a plan's role once: instances become addresses, steps become calls with their operands, communications become prepared
 * requests. After it the loop over steps only calls functions. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ir/workspace.h"
#include "runtime/element.h"
#include "runtime/exec.h"
#include "ir/pool.h"
#include "runtime/state.h"

/* ---------------------------------------------------------------- memory */

void *tensor_alloc(Executor *executor, int64_t bytes, Error *error) {
    Comm *comm = executor->comm;
    if (comm->table->alloc && comm->device != executor->backend->host) return comm->table->alloc(comm, bytes > 0 ? bytes : 1, error);
    return executor->backend->alloc(executor->context, bytes, error);
}

void tensor_free(Executor *executor, void *data) {
    Comm *comm = executor->comm;
    if (!data) return;
    if (comm->table->alloc && comm->device != executor->backend->host)
        comm->table->free(comm, data);
    else
        executor->backend->free(executor->context, data);
}

static int64_t layout_bytes(const Layout *layout, const TensorType *type, int rank) {
    Box box;
    layout_box(layout, &type->shape, rank, &box);
    return box_elements(&box) * dtype_bytes[type->dtype];
}

static const Program *find_program(const Plan *plan, const char *name) {
    for (int i = 0; i < plan->programs.n; i++)
        if (strcmp(plan->programs.at[i].name, name) == 0) return &plan->programs.at[i];
    return NULL;
}

static const Role *find_role(const Program *program, int rank) {
    for (int i = 0; i < program->roles.n; i++)
        if (rank >= program->roles.at[i].first_rank && rank <= program->roles.at[i].last_rank) return &program->roles.at[i];
    return NULL;
}

void executor_memory(const Plan *plan, const char *program_name, int rank, ExecutorMemory *memory) {
    const Graph *graph = &plan->graph;
    const Program *program = find_program(plan, program_name);
    const Role *role = program ? find_role(program, rank) : NULL;
    *memory = (ExecutorMemory){0};
    for (int i = 0; i < graph->states.n; i++)
        memory->state_bytes += layout_bytes(graph->states.at[i].layout, &graph->states.at[i].type, rank);
    for (int i = 0; i < graph->inputs.n; i++)
        memory->input_bytes += layout_bytes(graph->inputs.at[i].layout, &graph->inputs.at[i].type, rank);
    if (!role) return;
    const Graph *own = program->graph ? program->graph : graph;
    memory->arena_bytes = role->arena_bytes + inner_room(own, role, NULL);
    memory->odd_rows = role_has_odd_rows(own, role);
    for (int i = 0; i < role->instances.n; i++) {
        const Instance *instance = &role->instances.at[i];
        if (instance->place == PLACE_CONSTANT)
            memory->input_bytes += layout_bytes(instance->layout, &graph->values.at[instance->value].type, rank);
    }
    const int longest = (int)(program - plan->programs.at);
    for (int k = 0; k < plan_shorter(plan, longest);
         k++) { /* those for shorter texts have their own inputs, and use its arena where it is large enough */
        const Plan part = plan_part(plan, longest + 1 + k);
        ExecutorMemory shorter;
        executor_memory(&part, part.programs.at[0].name, rank, &shorter);
        memory->input_bytes += shorter.input_bytes;
        if (shorter.arena_bytes > memory->arena_bytes) memory->arena_bytes = shorter.arena_bytes;
        memory->odd_rows = memory->odd_rows || shorter.odd_rows;
    }
}

/* ---------------------------------------------------------------- states, inputs, constants */

/* One state of one rank, filled by several threads: each takes a range of dimension 0. */
typedef struct InitialRun {
    const Executor *executor;
    const State *state;
    Box box;
    char *to;
} InitialRun;

static void initial_part(void *context, int64_t begin, int64_t end) {
    const InitialRun *run = context;
    Box part = run->box;
    part.begin[0] = run->box.begin[0] + begin;
    part.end[0] = run->box.begin[0] + end;
    int64_t row_bytes = box_elements(&run->box) / (run->box.end[0] - run->box.begin[0]) * dtype_bytes[run->state->type.dtype];
    const Executor *executor = run->executor;
    Error error; /* random values cannot fail; what can is filled in one part, by fill_state */
    state_initial(&executor->plan->graph, run->state, &part, executor->plan_directory, run->to + begin * row_bytes, &error);
}

static bool fill_state(Executor *executor, Pool *pool, const State *state, const Box *box, void *to, Error *error) {
    bool is_random = state->init.kind == INIT_NORMAL || state->init.kind == INIT_UNIFORM || state->init.kind == INIT_ZEROS;
    int64_t n = box_elements(box);
    if (!is_random || box->ndim == 0 || n == 0)
        return state_initial(&executor->plan->graph, state, box, executor->plan_directory, to, error);
    int64_t rows = box->end[0] - box->begin[0];
    InitialRun run = {.executor = executor, .state = state, .box = *box, .to = to};
    pool_run(pool, rows, 1 + 4096 / (n / rows), initial_part, &run);
    return true;
}

/* The same box of the state on a rank of this process that has it already, or NULL: copying is quicker than drawing it again. */
static const void *same_box(Executor *executor, const Cursor *cursor, int state, const Box *box) {
    for (int i = 0; i < cursor->driven && executor->backend->host; i++) {
        Box other = {0};
        const void *data = executor_state(executor, i, state, &other);
        if (memcmp(&other, box, offsetof(Box, nothing)) == 0 && other.nothing == box->nothing) return data;
    }
    return NULL;
}

static bool load_states(Executor *executor, Cursor *cursor, Pool *pool, Error *error) {
    const Graph *graph = &executor->plan->graph;
    cursor->state = arena_alloc(&executor->arena, (size_t)graph->states.n * sizeof *cursor->state);
    for (int i = 0; executor->lender && i < graph->states.n; i++)
        cursor->state[i] = executor->lender->cursors[cursor->driven].state[i];
    for (int i = 0; !executor->lender && i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        Box box = {0};
        layout_box(state->layout, &state->type.shape, cursor->rank, &box);
        int64_t bytes = box_elements(&box) * dtype_bytes[state->type.dtype];
        cursor->state[i] = tensor_alloc(executor, bytes, error);
        if (!cursor->state[i]) return false;
        const void *same = same_box(executor, cursor, i, &box);
        if (same) {
            memcpy(cursor->state[i], same, (size_t)bytes);
            continue;
        }
        bool is_host = executor->backend->host;
        void *to = is_host ? cursor->state[i] : malloc(bytes > 0 ? (size_t)bytes : 1);
        if (!to) return error_set(error, EXIT_ENVIRONMENT, "out of memory for parameter %s", state->name);
        bool ok = fill_state(executor, pool, state, &box, to, error);
        if (ok && !is_host) ok = executor->backend->upload(executor->context, cursor->state[i], to, bytes, error);
        if (!is_host) free(to);
        if (!ok) return false;
    }
    return true;
}

/* For each input, whether a step of any role reads it, or a batch of it (accumulate), or it is itself reported. */
static const bool *inputs_used(Executor *executor) {
    const Graph *graph = &executor->plan->graph;
    const Program *program = executor->program;
    bool *used = arena_alloc(&executor->arena, (size_t)graph->inputs.n + 1);
    for (int r = 0; r < program->roles.n; r++) {
        const Role *role = &program->roles.at[r];
        for (int i = 0; i < program->reports.n; i++)
            if (role->instances.at[program->reports.at[i]].place == PLACE_INPUT) used[role->instances.at[program->reports.at[i]].at] = true;
        for (int s = 0; s < role->steps.n; s++)
            for (int i = 0; i < role->steps.at[s].nin; i++) {
                const Instance *instance = &role->instances.at[role->steps.at[s].in[i]];
                if (instance->place == PLACE_INPUT) used[instance->at] = true;
            }
    }
    for (int i = 0; i < graph->inputs.n; i++)
        if (used[i] && graph->inputs.at[i].micro > 0) used[graph->inputs.at[i].of] = true;
    return used;
}

static bool load_inputs(Executor *executor, Cursor *cursor, const bool *used, Error *error) {
    const Graph *graph = &executor->plan->graph;
    cursor->input = arena_alloc(&executor->arena, (size_t)graph->inputs.n * sizeof *cursor->input);
    cursor->take = arena_alloc(&executor->arena, (size_t)graph->inputs.n * sizeof *cursor->take);
    cursor->made = arena_alloc(&executor->arena, (size_t)graph->inputs.n * sizeof *cursor->made);
    for (int i = 0; i < graph->inputs.n; i++) {
        cursor->input[i] = tensor_alloc(executor, layout_bytes(graph->inputs.at[i].layout, &graph->inputs.at[i].type, cursor->rank), error);
        if (!cursor->input[i]) return false;
        Box box;
        layout_box(graph->inputs.at[i].layout, &graph->inputs.at[i].type.shape, cursor->rank, &box);
        const InputKind kind = graph->inputs.at[i].kind;
        const bool made = kind == INPUT_RANDOM && executor->backend->queue; /* in place, on the device: inputs.c */
        cursor->made[i] = used[i] && made;
        const bool taken = used[i] && input_is_taken(kind) && !made;
        if (taken && !data_has(executor->data, i))
            return error_set(error, EXIT_REJECTED, "input %s is read for shorter texts alone", graph->inputs.at[i].name);
        cursor->take[i] = taken ? data_take(executor->data, executor->group, i, &box) : -1;
    }
    return true;
}

/* Allocates the arena, or uses the lender's where it is large enough: the two programs never run at once. */
static bool load_arena(Executor *executor, Cursor *cursor, Error *error) {
    const Cursor *lent = executor->lender ? &executor->lender->cursors[cursor->driven] : NULL;
    cursor->arena_lent = lent && cursor->role->arena_bytes <= lent->role->arena_bytes;
    cursor->arena = cursor->arena_lent ? lent->arena : tensor_alloc(executor, cursor->role->arena_bytes, error);
    if (!cursor->arena) return false;
    const int64_t inner = inner_room(&executor->plan->graph, cursor->role, NULL);
    cursor->inner_lent = lent && inner <= inner_room(&executor->lender->plan->graph, lent->role, NULL);
    cursor->inner = cursor->inner_lent ? lent->inner : inner > 0 ? executor->backend->alloc(executor->context, inner, error) : NULL;
    return inner == 0 || cursor->inner;
}

void constant_fill(const Graph *graph, const Instance *instance, const Box *box, void *to) {
    const Node *node = &graph->nodes.at[instance->at];
    const TensorType *type = &graph->values.at[instance->value].type;
    int64_t n = box_elements(box), index[MAX_NDIM];
    memcpy(index, box->begin, sizeof index);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < box->ndim; d++)
            at = at * type->shape.dim[d] + index[d];
        element_put(to, type->dtype, i, node->data ? node->data[at] : node->attr[0].f);
        for (int d = box->ndim - 1; d >= 0 && ++index[d] == box->end[d]; d--)
            index[d] = box->begin[d];
    }
}

/* The box of a constant node's elements, in new memory. */
static void *load_constant(Executor *executor, const Instance *instance, const Box *box, Error *error) {
    const Graph *graph = &executor->plan->graph;
    const Node *node = &graph->nodes.at[instance->at];
    const TensorType *type = &graph->values.at[instance->value].type;
    int64_t bytes = box_elements(box) * dtype_bytes[type->dtype];
    void *data = executor->backend->alloc(executor->context, bytes, error);
    void *to = !data || executor->backend->host ? data : malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!to) {
        if (data) error_set(error, EXIT_ENVIRONMENT, "out of memory for constant %s", node->name);
        executor->backend->free(executor->context, data);
        return NULL;
    }
    constant_fill(graph, instance, box, to);
    if (to == data) return data;
    bool ok = executor->backend->upload(executor->context, data, to, bytes, error);
    free(to);
    if (ok) return data;
    executor->backend->free(executor->context, data);
    return NULL;
}

/* ---------------------------------------------------------------- instances */

static bool load_instances(Executor *executor, Cursor *cursor, Error *error) {
    const Role *role = cursor->role;
    const Graph *graph = &executor->plan->graph;
    int64_t *inner = arena_alloc(&executor->arena, (size_t)role->instances.n * sizeof *inner);
    inner_room(graph, role, inner);
    cursor->at = arena_alloc(&executor->arena, (size_t)role->instances.n * sizeof *cursor->at);
    cursor->box = arena_alloc(&executor->arena, (size_t)role->instances.n * sizeof *cursor->box);
    for (int i = 0; i < role->instances.n; i++) {
        const Instance *instance = &role->instances.at[i];
        const TensorType *type = &graph->values.at[instance->value].type;
        layout_box(instance->layout, &type->shape, cursor->rank, &cursor->box[i]);
        int64_t bytes = box_elements(&cursor->box[i]) * dtype_bytes[type->dtype];
        char why[256];
        if (!fit_instance(executor, cursor, i, why, sizeof why))
            return error_of_rank(error, cursor->rank, EXIT_REJECTED, "rank %d: %s", cursor->rank, why);
        switch (instance->place) {
        case PLACE_ARENA:
            if (instance->at < 0 || bytes > role->arena_bytes || instance->at > role->arena_bytes - bytes)
                return error_set(error, EXIT_REJECTED, "instance %d lies outside the arena", i);
            cursor->at[i] = (char *)cursor->arena + instance->at;
            break;
        case PLACE_INNER:
            cursor->at[i] = cursor->inner ? (char *)cursor->inner + inner[i] : NULL; /* NULL: no step makes it */
            break;
        case PLACE_VIEW:
            break; /* load_views */
        case PLACE_ELSEWHERE:
            break; /* nothing is read or written there */
        case PLACE_STATE:
            cursor->at[i] = cursor->state[instance->at];
            break;
        case PLACE_INPUT:
            cursor->at[i] = cursor->input[instance->at];
            break;
        case PLACE_CONSTANT:
            cursor->at[i] = load_constant(executor, instance, &cursor->box[i], error);
            if (!cursor->at[i]) return false;
            vec_push(&executor->arena, &cursor->owned, cursor->at[i]);
            break;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- kernel calls */

static void shape_of_box(const Box *box, Shape *shape) {
    shape->ndim = box->ndim;
    for (int d = 0; d < box->ndim; d++)
        shape->dim[d] = box->end[d] - box->begin[d];
}

static void operand_of(const Executor *executor, const Cursor *cursor, int instance, Operand *operand) {
    const TensorType *type = &executor->plan->graph.values.at[cursor->role->instances.at[instance].value].type;
    *operand = (Operand){.data = cursor->at[instance], .dtype = type->dtype, .global = type->shape, .box = cursor->box[instance]};
    shape_of_box(&operand->box, &operand->local);
}

/* Makes the operand slice number `slice` of the hidden dimension: removes the dimension, advances data. */
static void operand_slice(Operand *operand, int64_t slice) {
    Operand whole = *operand;
    int ndim = whole.local.ndim - 1;
    operand->local.ndim = operand->global.ndim = operand->box.ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        operand->local.dim[d] = whole.local.dim[d + 1];
        operand->global.dim[d] = whole.global.dim[d + 1];
        operand->box.begin[d] = whole.box.begin[d + 1];
        operand->box.end[d] = whole.box.end[d + 1];
    }
    operand->data = (char *)whole.data + slice * shape_elements(&operand->local) * dtype_bytes[whole.dtype];
}

/* The rule without the hidden dimension; its factor stays, unused. */
static const Rule *rule_slice(Arena *arena, const Rule *rule) {
    Rule *slice = arena_alloc(arena, sizeof *slice);
    *slice = *rule;
    for (int i = 0; i < MAX_IN; i++)
        memmove(slice->in[i], slice->in[i] + 1, MAX_NDIM - 1);
    for (int o = 0; o < MAX_OUT; o++)
        memmove(slice->out[o], slice->out[o] + 1, MAX_NDIM - 1);
    return slice;
}

static bool load_calls(Executor *executor, Cursor *cursor, const Step *step, Action *action, Error *error) {
    const Graph *graph = &executor->plan->graph;
    const Node *node = step->kind == STEP_KERNEL ? &graph->nodes.at[step->node] : NULL;
    OpCode op = step->kind == STEP_LOCAL ? OP_convert : step->op;
    KernelCall whole = {.op = op, .nin = step->nin, .nout = step->nout, .nthreads = executor->nthreads, .context = executor->context};
    for (int i = 0; i < step->nin; i++)
        operand_of(executor, cursor, step->in[i], &whole.in[i]);
    for (int o = 0; o < step->nout; o++)
        operand_of(executor, cursor, step->out[o], &whole.out[o]);
    const TensorType *first = &graph->values.at[cursor->role->instances.at[step->out[0]].value].type;
    bool hidden = step->kind == STEP_KERNEL && first->hidden && !op_table[op].boundary;
    if (node) {
        whole.attr = node->attr;
        whole.rule = hidden ? rule_slice(&executor->arena, node->rule) : node->rule;
    }
    if (!executor->backend->kernels[op])
        return error_set(error, EXIT_ENVIRONMENT, "the %s backend has no kernel for %s: run with --device cpu", executor->backend->name,
                         op_table[op].name);
    int64_t slices = hidden ? whole.out[0].local.dim[0] : 1;
    action->kind = ACTION_CALLS;
    action->first_call = cursor->first_call[action->step] = cursor->calls.n;
    action->ncalls = (int)slices;
    for (int64_t s = 0; s < slices; s++) {
        PreparedCall call = {executor->backend->kernels[op], whole};
        for (int i = 0; hidden && i < whole.nin; i++)
            operand_slice(&call.call.in[i], s);
        for (int o = 0; hidden && o < whole.nout; o++)
            operand_slice(&call.call.out[o], s);
        vec_push(&executor->arena, &cursor->calls, call);
    }
    const Backend *backend = executor->backend;
    return slices == 0 || !backend->prepare || backend->prepare(&cursor->calls.at[action->first_call].call, error);
}

/* ---------------------------------------------------------------- requests and actions */

/* How many steps from `at` on are one communication: consecutive starts, or waits, of one bucket; else 1. */
static int bucket_length(const Role *role, int at) {
    const Step *first = &role->steps.at[at];
    int n = 1;
    while (first->bucket > 0 && at + n < role->steps.n && role->steps.at[at + n].kind == first->kind &&
           role->steps.at[at + n].bucket == first->bucket)
        n++;
    return n;
}

/* Prepares one request for all transfers of a bucket: fewer messages, and ranks synchronize once. */
static bool prepare_request(Executor *executor, const Role *role, int at, Error *error) {
    const Graph *graph = &executor->plan->graph;
    const Step *first = &role->steps.at[at];
    int n = bucket_length(role, at);
    Transfer *transfers = arena_alloc(&executor->arena, (size_t)n * sizeof *transfers);
    for (int i = 0; i < n; i++) {
        const Step *step = &first[i];
        if (step->nin != 1 || step->nout != 1)
            return error_set(error, EXIT_REJECTED, "a communication with %d sources and %d targets", step->nin, step->nout);
        const Instance *from = &role->instances.at[step->in[0]], *to = &role->instances.at[step->out[0]];
        const Value *value = &graph->values.at[from->value];
        transfers[i] = (Transfer){.kind = step->comm,
                                  .dtype = value->type.dtype,
                                  .shape = value->type.shape,
                                  .from = from->layout,
                                  .to = to->layout,
                                  .name = value->name,
                                  .rounds = graph->nodes.at[value->node].op == OP_compress};
    }
    CommRequest *request = executor->comm->table->prepare(executor->comm, transfers, n, error);
    for (int i = 0; i < n; i++) {
        if (executor->prepared[first[i].request].step)
            return error_set(error, EXIT_REJECTED, "bucket %d starts request %d twice", first->bucket, first[i].request);
        executor->prepared[first[i].request] = (Prepared){role, &first[i], first, n};
        executor->requests[first[i].request] = request;
    }
    return request != NULL;
}

static bool prepare_requests(Executor *executor, Error *error) {
    const Program *program = executor->program;
    Error later; /* of failures after the first */
    bool ok = true;
    for (int r = 0; r < program->roles.n; r++)
        for (int s = 0; s < program->roles.at[r].steps.n; s++) {
            const Step *step = &program->roles.at[r].steps.at[s];
            if (step->kind == STEP_START && step->request >= executor->nrequests) executor->nrequests = step->request + 1;
        }
    executor->requests = arena_alloc(&executor->arena, (size_t)executor->nrequests * sizeof *executor->requests);
    executor->prepared = arena_alloc(&executor->arena, (size_t)executor->nrequests * sizeof *executor->prepared);
    for (int r = 0; r < program->roles.n; r++)
        for (int s = 0; s < program->roles.at[r].steps.n; s++) {
            const Step *step = &program->roles.at[r].steps.at[s];
            if (step->kind != STEP_START || executor->prepared[step->request].step) continue;
            /* Goes on after a failure: preparing is collective, and the others hear of the failure at the end. */
            if (!prepare_request(executor, &program->roles.at[r], s, ok ? error : &later)) ok = false;
        }
    return ok;
}

/* Makes one action of a communication and all of its bucket: *n steps. False where these are not the ones that were prepared together. */
static bool load_communication(Executor *executor, Cursor *cursor, int at, Action *action, int *n, Error *error) {
    const Step *step = &cursor->role->steps.at[at];
    const Prepared *prepared = &executor->prepared[step->request];
    *n = bucket_length(cursor->role, at);
    bool same =
        *n == prepared->n && (step->bucket == prepared->first->bucket || cursor->role != prepared->role); /* each role counts its buckets */
    for (int i = 0; same && i < *n; i++)
        same = step[i].request == prepared->first[i].request;
    if (!same)
        return error_set(error, EXIT_REJECTED, "%s of request %d, in bucket %d: not with the requests that bucket %d starts together",
                         step->kind == STEP_START ? "a start" : "a wait", step->request, step->bucket, prepared->first->bucket);
    action->kind = step->kind == STEP_START ? ACTION_START : ACTION_WAIT;
    action->request = executor->requests[step->request];
    action->source = arena_alloc(&executor->arena, (size_t)*n * sizeof *action->source);
    action->target = arena_alloc(&executor->arena, (size_t)*n * sizeof *action->target);
    for (int i = 0; i < *n; i++) {
        action->source[i] = cursor->at[step[i].in[0]];
        action->target[i] = cursor->at[step[i].out[0]];
    }
    return true;
}

static const char *action_name(Executor *executor, const Cursor *cursor, const Step *step) {
    const StepLabel name = step_label(&executor->plan->graph, cursor->role, step);
    return arena_printf(&executor->arena, "%s of %s", name.what, name.of);
}

/* What load_views needs of a role. */
typedef struct Views {
    int *maker;  /* view_makers */
    int64_t *to; /* results_room */
} Views;

/* Makes the calls for the views that a step reads, or the fused step that begins there: each such step has its own calls, so that its copies of views lie in the
 * room of its inner values, behind those. */
static bool load_views(Executor *executor, Cursor *cursor, const Views *all, int at, Action *action, Error *error) {
    const Role *role = cursor->role;
    const Graph *graph = &executor->plan->graph;
    int views[MAX_VIEWS];
    int64_t used = 0;
    *action = (Action){.nviews = step_views(role, all->maker, at, views)};
    if (action->nviews == 0) return true;
    int *calls = arena_alloc(&executor->arena, (size_t)(action->nviews + 1) * sizeof *calls);
    action->view_call = calls;
    for (int s = at; role->steps.at[at].fused > 0 && s < at + fused_length(role, at); s++)
        used = results_room(graph, role, &role->steps.at[s], used, all->to);
    for (int v = 0; v < action->nviews; v++) {
        const Step *step = &role->steps.at[views[v]];
        Action view = {.step = views[v]};
        used = results_room(graph, role, step, used, all->to);
        for (int o = 0; o < step->nout; o++)
            cursor->at[step->out[o]] = (char *)cursor->inner + all->to[step->out[o]];
        if (!load_calls(executor, cursor, step, &view, error)) return false;
        calls[v] = view.first_call;
    }
    return true;
}

static bool load_actions(Executor *executor, Cursor *cursor, Error *error) {
    const Role *role = cursor->role;
    const size_t instances = (size_t)role->instances.n + 1;
    const Views all = {arena_alloc(&executor->arena, instances * sizeof *all.maker),
                       arena_alloc(&executor->arena, instances * sizeof *all.to)};
    Action views = {0}; /* of the step; of a fused step: for its first action */
    view_makers(role, all.maker);
    vec_reserve(&executor->arena, &cursor->calls, role->steps.n); /* a call takes kilobytes: growing would waste as many again */
    cursor->first_call = arena_alloc(&executor->arena, (size_t)(role->steps.n + 1) * sizeof *cursor->first_call);
    cursor->guard = -1;
    int joined = 0; /* how many steps from here on are part of the last action */
    for (int s = 0; s<role->steps.n; s++, joined -= joined> 0) {
        const Step *step = &role->steps.at[s];
        Action action = {.step = s};
        bool skip = false;
        char place[256], why[256];
        const bool first = s == 0 || step->fused == 0 || step->fused != step[-1].fused;
        if (first && joined == 0 && !load_views(executor, cursor, &all, s, &views, error)) return false;
        const bool here = step->kind != STEP_KERNEL || !cursor->box[step->out[0]].nothing;
        const bool fits = (!here || fit_step(executor, cursor, step, why, sizeof why)) &&
                          (!here || !first || (step->fused == 0 && views.nviews == 0) || fit_fused(executor, cursor, s, why, sizeof why));
        if (!fits) {
            where(executor, cursor, s, place, sizeof place);
            return error_of_rank(error, cursor->rank, EXIT_REJECTED, "%s: %s", place, why);
        }
        if (joined > 0) continue;
        switch (step->kind) {
        case STEP_KERNEL:
            if (step_is_view(cursor, step) || cursor->box[step->out[0]].nothing) continue; /* other ranks compute it */
            if (!load_calls(executor, cursor, step, &action, error)) return false;
            break;
        case STEP_LOCAL:
            if (!load_calls(executor, cursor, step, &action, error)) return false;
            break;
        case STEP_START:
        case STEP_WAIT:
            if (!load_communication(executor, cursor, s, &action, &joined, error)) return false;
            break;
        case STEP_WRITE: {
            const TensorType *type = &executor->plan->graph.states.at[step->state].type;
            action.kind = ACTION_COPY;
            action.from = cursor->at[step->in[0]];
            action.to = cursor->state[step->state];
            action.bytes = box_elements(&cursor->box[step->in[0]]) * dtype_bytes[type->dtype];
            skip = action.from == action.to; /* updated in place */
            break;
        }
        }
        if (executor->backend->queue) action.name = action_name(executor, cursor, step);
        if (skip) continue;
        action.nviews = views.nviews;
        action.view_call = views.view_call;
        views.nviews = 0;
        vec_push(&executor->arena, &cursor->actions, action);
    }
    char place[256], why[256];
    int step;
    if (fit_requests(executor, cursor, &step, why, sizeof why)) return true;
    where(executor, cursor, step, place, sizeof place);
    return error_of_rank(error, cursor->rank, EXIT_REJECTED, "%s: %s", place, why);
}

bool load_local(Executor *executor, Error *error) {
    const Plan *plan = executor->plan;
    Comm *comm = executor->comm;
    if (comm->nranks != plan->graph.nranks)
        return error_set(error, EXIT_REJECTED, "the plan is for %d ranks, the communicator has %d", plan->graph.nranks, comm->nranks);
    if (!executor->program) return error_set(error, EXIT_REJECTED, "the plan has no such program");
    const bool *used = inputs_used(executor);
    if (executor->of) executor->data = executor->of->data;
    if (!executor->of) {
        const bool says = comm->process == 0 && !executor->lender; /* before the first step, or an evaluation alone */
        executor->data = data_open(&plan->graph, used, executor->plan_directory, executor->nthreads, says, error);
        if (!executor->data) return false;
        if (executor->lender) data_share_figures(executor->data, executor->lender->data);
        if (executor->program->kind == PROGRAM_TRAIN && !data_find_figures(executor->data, error)) return false;
    }
    int64_t elements = 0;
    for (int i = 0; i < plan->graph.states.n; i++)
        elements += shape_elements(&plan->graph.states.at[i].type.shape);
    Error no_threads; /* ignored: fewer threads are only slower */
    Pool *pool = executor->nthreads > 1 && elements > 1 << 17 ? pool_create(executor->nthreads, &no_threads) : NULL;
    bool ok = true;
    for (int i = 0; ok && i < comm->ndriven; i++) {
        Cursor *cursor = &executor->cursors[i];
        cursor->driven = i;
        cursor->rank = comm->first_driven + i;
        cursor->role = find_role(executor->program, cursor->rank);
        if (!cursor->role) ok = error_set(error, EXIT_REJECTED, "the plan has no role for rank %d", cursor->rank);
        char why[256];
        if (ok && !fit_loss(executor, cursor, why, sizeof why))
            ok = error_of_rank(error, cursor->rank, EXIT_REJECTED, "rank %d: %s", cursor->rank, why);
        if (ok && !fit_reports(executor, cursor, why, sizeof why))
            ok = error_of_rank(error, cursor->rank, EXIT_REJECTED, "rank %d: %s", cursor->rank, why);
        ok = ok && load_arena(executor, cursor, error);
        ok = ok && load_states(executor, cursor, pool, error) && load_inputs(executor, cursor, used, error) &&
             inputs_load(executor, cursor, error) && load_instances(executor, cursor, error);
    }
    pool_destroy(pool);
    return ok;
}

bool load_requests(Executor *executor, Error *error) {
    if (!prepare_requests(executor, error)) return false;
    for (int i = 0; i < executor->comm->ndriven; i++)
        if (!load_actions(executor, &executor->cursors[i], error) || !fuse_actions(executor, &executor->cursors[i], error)) return false;
    return true;
}

void load_finish(Executor *executor) {
    const Graph *graph = &executor->plan->graph;
    for (int i = 0; i < executor->comm->ndriven; i++) {
        Cursor *cursor = &executor->cursors[i];
        fuse_finish(executor, cursor);
        inputs_unload(executor, cursor);
        for (int k = 0; k < cursor->owned.n; k++)
            executor->backend->free(executor->context, cursor->owned.at[k]);
        for (int k = 0; cursor->state && !executor->lender && k < graph->states.n; k++)
            tensor_free(executor, cursor->state[k]);
        for (int k = 0; cursor->input && k < graph->inputs.n; k++)
            tensor_free(executor, cursor->input[k]);
        if (!cursor->arena_lent) tensor_free(executor, cursor->arena);
        if (!cursor->inner_lent && cursor->inner) executor->backend->free(executor->context, cursor->inner);
    }
}
