/* exec: runs a program's steps. Every driven rank has a cursor; one that waits for a communication lets the next one go on. Under comm/job there
 * is one cursor and waits block; under comm/local all ranks move in lock step, and if none can move any more, the deadlock is
 * reported. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "runtime/exec.h"
#include "runtime/profile.h"
#include "runtime/schedule.h"

/* Captured steps: executor_capture. */
struct Capture {
    bool may;            /* the next step may be recorded, unless it is the first */
    void *graph;         /* a recorded step */
    CommCounters *moves; /* per driven rank: what its communications move: a replay does not count it */
    char note[1024];     /* executor_capture_note */
};

void where(const Executor *executor, const Cursor *cursor, int step, char *text, size_t n) {
    const Graph *graph = &executor->plan->graph;
    const StepLabel at = step_label(graph, cursor->role, &cursor->role->steps.at[step]);
    int used = snprintf(text, n, "rank %d, step %d (%s of %s)", cursor->rank, step, at.what, at.of);
    const char *file = graph_file(graph, at.span);
    if (at.span.line > 0 && file && used > 0 && (size_t)used < n) snprintf(text + used, n - (size_t)used, ", %s:%d", file, at.span.line);
}

void executor_name_place(const void *whole, int rank, const CommPlace *place, Text *text) {
    const Plan *plan = whole;
    const int number = place->program, at = place->at;
    const Program *program = number >= 0 && number < plan->programs.n ? &plan->programs.at[number] : NULL;
    const Role *role = NULL;
    for (int r = 0; program && r < program->roles.n; r++)
        if (rank >= program->roles.at[r].first_rank && rank <= program->roles.at[r].last_rank) role = &program->roles.at[r];
    if (!role || at < 0 || at >= role->steps.n) {
        text_printf(text, "in a program");
        return;
    }
    const Graph *graph = program->graph ? program->graph : &plan->graph;
    const StepLabel label = step_label(graph, role, &role->steps.at[at]);
    const char *file = graph_file(graph, label.span);
    text_printf(text, "%s of %s", label.what, label.of);
    if (label.span.line > 0 && file) text_printf(text, " (%s:%d)", file, label.span.line);
}

static int number_in_plan(const Executor *executor) {
    const Plan *plan = executor->comm->plan;
    for (int p = 0; plan && p < plan->programs.n; p++)
        if (&plan->programs.at[p] == executor->program) return p;
    return -1;
}

bool executor_know_data(Executor *executor, Error *error) {
    return data_know(executor->data, error);
}

void executor_note_data(const Executor *executor) {
    Text text = {0};
    if (executor->comm->process != 0) return;
    data_note(executor->data, &text);
    for (char *line = text.at, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        fprintf(stderr, "prun: note: %s: %.*s\n", executor->program->name, (int)(end - line), line);
    }
    text_finish(&text);
}

Executor *executor_create(const Plan *plan, const char *program, const Device *device, Comm *comm, const char *plan_directory, int nthreads,
                          Error *error) {
    return executor_create_over(plan, program, NULL, device, comm, plan_directory, nthreads, error);
}

Executor *executor_create_over(const Plan *plan, const char *program, Executor *states_of, const Device *device, Comm *comm,
                               const char *plan_directory, int nthreads, Error *error) {
    Executor *executor = calloc(1, sizeof *executor);
    if (!executor) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    arena_init(&executor->arena);
    executor->plan = plan;
    executor->lender = states_of;
    if (plan_find(plan, program) >= 0) executor->program = &plan->programs.at[plan_find(plan, program)];
    if (executor->program && executor->program->shorter) { /* states_of is the executor for the longest texts */
        executor->of = states_of;
        executor->group = lengths_count(states_of) + 1;
    }
    executor->backend = device->backend;
    executor->context = device->context;
    executor->comm = comm;
    executor->number = number_in_plan(executor);
    executor->plan_directory = plan_directory;
    executor->nthreads = nthreads < 1 ? 1 : nthreads;
    executor->cursors = arena_alloc(&executor->arena, (size_t)comm->ndriven * sizeof *executor->cursors);
    executor->capture = arena_alloc(&executor->arena, sizeof *executor->capture);
    inputs_begin(executor);
    results_begin(executor);
    /* A failure on one rank must not leave the others waiting in a collective. */
    bool ok = comm_agree(comm, load_local(executor, error), error);
    ok = ok && (executor->of || comm_same(comm, data_common(executor->data, &executor->arena), EXIT_ENVIRONMENT, error));
    ok = ok && comm_agree(comm, load_requests(executor, error), error);
    const DeviceQueue *queue = executor->backend->queue;
    ok = ok && (!queue || queue->settle(executor->context, comm, error));
    for (int i = 0; ok && i < comm->ndriven; i++) {
        Cursor *cursor = &executor->cursors[i];
        int loss = executor->program->loss;
        cursor->nlosses = loss < 0 ? 0 : (int)box_elements(&cursor->box[loss]);
        cursor->losses = arena_alloc(&executor->arena, (size_t)cursor->nlosses * sizeof *cursor->losses);
    }
    if (ok && (executor->of || lengths_open(executor, device, error))) return executor;
    executor_destroy(executor);
    return NULL;
}

void executor_destroy(Executor *executor) {
    if (!executor) return;
    lengths_close(executor);
    if (executor->capture->graph) executor->backend->queue->discard(executor->context, executor->capture->graph);
    load_finish(executor);
    if (!executor->of) data_close(executor->data);
    arena_finish(&executor->arena);
    free(executor);
}

/* ---------------------------------------------------------------- one step of training */

static bool fail(const Executor *executor, const Cursor *cursor, const Action *action, Error *error) {
    char place[256];
    where(executor, cursor, action->step, place, sizeof place);
    error->rank = cursor->rank;
    return error_prefix(error, "%s: ", place);
}

/* Prefixes an error that names no operator with the ranks of this process. */
static bool fail_whole(const Executor *executor, Error *error) {
    const Comm *comm = executor->comm;
    if (error->rank >= 0) return false; /* the communicator knows which */
    if (comm->ndriven > 1) return error_prefix(error, "ranks %d to %d, ", comm->first_driven, comm->first_driven + comm->ndriven - 1);
    error->rank = comm->first_driven;
    return error_prefix(error, "rank %d, ", error->rank);
}

static bool is_update(OpCode op) {
    return op_table[op].op_class == OP_CLASS_UPDATE && op != OP_write;
}

/* Does an update without changing its states: each result is the operand in the same position, w and v of `w, v, g, rate`. */
static bool keep_states(const Executor *executor, const KernelCall *call, Error *error) {
    for (int o = 0; o < call->nout; o++) {
        const int64_t bytes = shape_elements(&call->out[o].local) * dtype_bytes[call->out[o].dtype];
        if (call->out[o].data != call->in[o].data &&
            !executor->backend->copy(executor->context, call->out[o].data, call->in[o].data, bytes, error))
            return false;
    }
    return true;
}

static bool run_calls(const Executor *executor, const Cursor *cursor, const Action *action, Error *error) {
    for (int i = 0; i < action->ncalls; i++) {
        const PreparedCall *call = &cursor->calls.at[action->first_call + i];
        if (cursor->withholds && is_update(call->call.op)) {
            if (!keep_states(executor, &call->call, error)) return false;
            continue;
        }
        if (!call->fn(&call->call, error)) return false;
    }
    return true;
}

/* Runs calls that the device fuses one by one: results that only they read, and copies of views, are written too. */
static bool run_apart(const Executor *executor, const Cursor *cursor, const Action *action, Error *error) {
    for (int i = 0; i < action->nviews; i++) {
        const Action view = {.kind = ACTION_CALLS, .first_call = action->view_call[i], .ncalls = action->ncalls};
        if (!run_calls(executor, cursor, &view, error)) return false;
    }
    for (int i = 0; i < action->nsteps; i++) {
        const int s = action->steps[i];
        const Action alone = {.kind = ACTION_CALLS, .step = s, .first_call = cursor->first_call[s], .ncalls = action->ncalls};
        if (!run_calls(executor, cursor, &alone, error)) return false;
    }
    return true;
}

static bool run_fused(const Executor *executor, const Cursor *cursor, const Action *action, Error *error) {
    if (!action->fused || executor->inspects || cursor->withholds) return run_apart(executor, cursor, action, error);
    for (int i = 0; i < action->ncalls; i++)
        if (!action->run(executor->context, action->fused[i], error)) return false;
    return true;
}

static CommStatus status_of(bool ok) {
    return ok ? COMM_COMPLETE : COMM_FAILED;
}

/* Returns COMM_PENDING only where other ranks of this process must go on first. */
static CommStatus run_action(Executor *executor, const Cursor *cursor, const Action *action, Error *error) {
    const Backend *backend = executor->backend;
    Comm *comm = executor->comm;
    switch (action->kind) {
    case ACTION_CALLS:
        return status_of(run_calls(executor, cursor, action, error));
    case ACTION_FUSED:
        return status_of(run_fused(executor, cursor, action, error));
    case ACTION_COPY:
        return status_of(backend->copy(executor->context, action->to, action->from, action->bytes, error));
    case ACTION_START:
        return status_of(comm->table->start(comm, action->request, cursor->driven, action->source, action->target, error));
    case ACTION_WAIT:
        return comm->table->wait(comm, action->request, cursor->driven, error);
    }
    return COMM_FAILED;
}

/* Checks whether the loss, which is there now, is finite on this rank, before anything is updated. */
static bool look_at_loss(Executor *executor, Cursor *cursor, Error *error) {
    const int loss = executor->program->loss;
    const DType dtype = executor->plan->graph.values.at[cursor->role->instances.at[loss].value].type.dtype;
    const void *at = executor->backend->host ? cursor->at[loss] : cursor->losses; /* doubles: room for elements of any type */
    if (cursor->nlosses == 0) return true;
    if (!executor->backend->host &&
        !executor->backend->download(executor->context, cursor->losses, cursor->at[loss], cursor->nlosses * dtype_bytes[dtype], error))
        return false;
    for (int k = 0; k < cursor->nlosses; k++)
        if (!isfinite(element_at(at, dtype, k))) cursor->withholds = true;
    if (cursor->withholds && executor->bad_update == 0) executor->bad_update = executor->updates + 1;
    return true;
}

/* Runs until the rank is done or has to wait; *moved: it did something. False on failure. */
static bool cursor_run(Executor *executor, Cursor *cursor, bool *moved, Error *error) {
    struct Profile *profile = executor->profile;
    const DeviceQueue *queue = executor->backend->queue;
    CommPlace *place = executor->comm->place;
    for (; cursor->next < cursor->actions.n; cursor->next++, *moved = true) {
        const Action *action = &cursor->actions.at[cursor->next];
        if (queue) queue->range_begin(executor->context, action->name);
        place->at = action->step;
        CommStatus status = status_of(!profile || profile_begin(profile, cursor, action, error));
        if (status == COMM_COMPLETE) status = run_action(executor, cursor, action, error);
        if (status != COMM_FAILED && profile && !profile_end(profile, error)) status = COMM_FAILED;
        if (status == COMM_COMPLETE && cursor->next == cursor->guard) status = status_of(look_at_loss(executor, cursor, error));
        if (status == COMM_COMPLETE && executor->inspects) status = status_of(inspect_action(executor, cursor, action, error));
        if (queue) queue->range_end(executor->context);
        if (status == COMM_FAILED) return fail(executor, cursor, action, error);
        if (status == COMM_PENDING) return true;
    }
    return true;
}

void executor_profile(Executor *executor, struct Profile *profile) {
    executor->profile = profile;
}

static bool report_deadlock(const Executor *executor, Error *error) {
    Text text = {0};
    for (int i = 0; i < executor->comm->ndriven; i++) {
        const Cursor *cursor = &executor->cursors[i];
        char place[256];
        if (cursor->next >= cursor->actions.n) continue;
        where(executor, cursor, cursor->actions.at[cursor->next].step, place, sizeof place);
        text_printf(&text, "%s%s", text.n ? "; " : "", place);
    }
    error_set(error, EXIT_INTERNAL, "deadlock: every rank waits: %.900s", text.at);
    text_finish(&text);
    return false;
}

int64_t executor_steps(const Executor *executor) {
    return data_steps(executor->data);
}

int64_t executor_batch(const Executor *executor) {
    return data_batch(executor->data) * settings_batches(&executor->plan->graph.settings);
}

double executor_scheduled(const Executor *executor, int64_t update) {
    const Settings *settings = &executor->plan->graph.settings;
    return schedule_rate(&settings->schedule, update, data_steps(executor->data), settings->epochs);
}

static double rate_of(const Executor *executor, int64_t update) {
    return executor->plan->graph.settings.lr * executor_scheduled(executor, update);
}

double executor_rate(const Executor *executor) {
    const int64_t done = executor->updates + executor->schedule_ahead;
    return rate_of(executor, done > 0 ? done : 1);
}

double executor_next_rate(const Executor *executor) {
    return rate_of(executor, executor->updates + executor->schedule_ahead + 1);
}

int64_t executor_updates(const Executor *executor, int64_t *ahead) {
    *ahead = executor->schedule_ahead;
    return executor->updates;
}

void executor_set_updates(Executor *executor, int64_t updates, int64_t ahead) {
    executor->updates = updates;
    executor->schedule_ahead = ahead;
}

double executor_held_bytes(const Executor *executor, const char **path) {
    return data_held_bytes(executor->data, path);
}

void executor_order(const Executor *executor, DataOrder *order) {
    data_order(executor->data, order);
}

DataSource *executor_data(const Executor *executor) {
    return executor->data;
}

const Graph *executor_graph(const Executor *executor) {
    return &executor->plan->graph;
}

int64_t executor_data_bytes(const Executor *executor) {
    return data_bytes_read(executor->data);
}

bool executor_begin(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    executor = lengths_choose(executor, epoch, step, error);
    if (!executor) return false;
    executor->begun = inputs_fill(executor, epoch, step, error);
    if (!executor->begun && executor->backend->queue) fail_whole(executor, error);
    return comm_agree(executor->comm, executor->begun, error);
}

/* Runs all actions of all cursors. */
static bool run_actions(Executor *executor, Error *error) {
    int n = executor->comm->ndriven, ndone = 0;
    executor->comm->place->program = executor->number;
    for (int i = 0; i < n; i++)
        executor->cursors[i].next = 0;
    while (ndone < n) {
        bool moved = false;
        ndone = 0;
        for (int i = 0; i < n; i++) {
            if (!cursor_run(executor, &executor->cursors[i], &moved, error)) return false;
            ndone += executor->cursors[i].next == executor->cursors[i].actions.n;
        }
        if (ndone < n && !moved) return report_deadlock(executor, error);
    }
    return true;
}

/* ---------------------------------------------------------------- losses that are not finite */

/* The last action that begins with this step or an earlier one. */
static int action_of(const Cursor *cursor, int step) {
    int last = -1;
    for (int i = 0; i < cursor->actions.n; i++)
        if (cursor->actions.at[i].step <= step) last = i;
    return last;
}

static bool has_update(const Cursor *cursor, const Action *action) {
    if (action->kind != ACTION_CALLS && action->kind != ACTION_FUSED) return false;
    for (int i = 0; i < (action->kind == ACTION_FUSED ? action->nsteps : 1); i++) {
        const Step *step = &cursor->role->steps.at[action->kind == ACTION_FUSED ? action->steps[i] : action->step];
        if (step->kind == STEP_KERNEL && is_update(step->op)) return true;
    }
    return false;
}

/* Has the loss checked before the first update. Where ranks add the loss up, the plan waits for that communication at the end of the step: here the wait is moved before
 * the updates. Nothing else uses its source and target from its start to its wait, so an earlier wait is as good, and all ranks do the same. */
static void guard_cursor(const Executor *executor, Cursor *cursor) {
    const Role *role = cursor->role;
    int made = -1, first = 0;
    for (int s = 0; s < role->steps.n; s++)
        for (int o = 0; role->steps.at[s].kind != STEP_START && o < role->steps.at[s].nout; o++)
            if (role->steps.at[s].out[o] == executor->program->loss) made = s;
    cursor->guard = made < 0 ? -1 : action_of(cursor, made);
    while (first < cursor->actions.n && !has_update(cursor, &cursor->actions.at[first]))
        first++;
    if (cursor->guard < first || cursor->actions.at[cursor->guard].kind != ACTION_WAIT) return;
    const Action wait = cursor->actions.at[cursor->guard];
    int begun = 0;
    while (cursor->actions.at[begun].kind != ACTION_START || cursor->actions.at[begun].request != wait.request)
        begun++;
    if (begun > first) return;
    memmove(&cursor->actions.at[first + 1], &cursor->actions.at[first], (size_t)(cursor->guard - first) * sizeof wait);
    cursor->actions.at[first] = wait;
    cursor->guard = first;
}

void executor_guard(Executor *executor, bool waits) {
    for (int k = 0; k < lengths_count(executor); k++)
        executor_guard(lengths_at(executor, k), waits);
    executor->guards = executor->backend->host || waits;
    for (int i = 0; executor->guards && i < executor->comm->ndriven; i++)
        guard_cursor(executor, &executor->cursors[i]);
}

int64_t executor_bad_update(const Executor *executor) {
    return executor->bad_update;
}

bool executor_repeat(Executor *executor, int64_t epoch, int64_t step, int64_t update, Error *error) {
    const int64_t updates = executor->updates;
    executor->updates = update - 1;
    bool ok = inputs_fill(executor, epoch, step, error);
    executor->updates = updates;
    for (int i = 0; i < executor->comm->ndriven; i++)
        executor->cursors[i].withholds = true;
    executor->inspects = true;
    ok = ok && run_actions(executor, error) && executor->backend->sync(executor->context, error);
    executor->inspects = false;
    return ok;
}

/* ---------------------------------------------------------------- steps as one */

void executor_capture(Executor *executor, const char *against) {
    for (int k = 0; k < lengths_count(executor); k++)
        executor_capture(lengths_at(executor, k), against);
    executor->capture->may = !against && executor->backend->queue;
    if (against && executor->backend->queue)
        snprintf(executor->capture->note, sizeof executor->capture->note, "steps run operator by operator: %s", against);
}

bool executor_recapture(Executor *executor) {
    struct Capture *capture = executor->capture;
    if (!capture->graph) return false;
    executor->backend->queue->discard(executor->context, capture->graph);
    capture->graph = NULL;
    return capture->may = true;
}

const char *executor_capture_note(const Executor *executor) {
    return executor->capture->note;
}

/* Takes back what was counted while the step was recorded and nothing moved: each replay counts it. */
static void counters_apart(Executor *executor, const CommCounters *before) {
    for (int i = 0; i < executor->comm->ndriven; i++) {
        CommCounters *now = &executor->comm->counters[i];
        executor->capture->moves[i] = (CommCounters){now->sent_bytes - before[i].sent_bytes, now->received_bytes - before[i].received_bytes,
                                                     now->messages - before[i].messages};
        *now = before[i];
    }
}

static bool replay(Executor *executor, Error *error) {
    for (int i = 0; i < executor->comm->ndriven; i++) {
        CommCounters *now = &executor->comm->counters[i];
        now->sent_bytes += executor->capture->moves[i].sent_bytes;
        now->received_bytes += executor->capture->moves[i].received_bytes;
        now->messages += executor->capture->moves[i].messages;
    }
    return executor->backend->queue->replay(executor->context, executor->capture->graph, error);
}

/* A call was refused while the step was recorded: error says which. Without communications the step can begin again; else some have been started that
 * nobody will wait for. */
static bool capture_refused(Executor *executor, const CommCounters *before, Error *error) {
    const DeviceQueue *queue = executor->backend->queue;
    const Error refused = *error;
    Error ending;
    void *graph = NULL;
    int nodes;
    if (refused.reported) return false;
    if (queue->captured(executor->context, &graph, &nodes, &ending) && graph) queue->discard(executor->context, graph);
    if (executor->nrequests > 0)
        return error_set(error, refused.code, "%.900s; while the step was recorded: --no-graph runs steps operator by operator",
                         refused.text);
    memcpy(executor->comm->counters, before, (size_t)executor->comm->ndriven * sizeof *before);
    snprintf(executor->capture->note, sizeof executor->capture->note, "steps run operator by operator: %.900s", refused.text);
    return true;
}

/* Records the step if possible: if it is not, that is no failure, and is never tried again. */
static bool capture(Executor *executor, Error *error) {
    const DeviceQueue *queue = executor->backend->queue;
    Error why;
    int nodes = 0;
    executor->capture->may = false;
    if (executor->nrequests > 0 && !executor->comm->captures) {
        snprintf(executor->capture->note, sizeof executor->capture->note, "steps run operator by operator: ranks talk by %.900s",
                 executor->comm->transport);
        return true;
    }
    size_t n = (size_t)executor->comm->ndriven;
    executor->capture->moves = arena_alloc(&executor->arena, n * sizeof *executor->capture->moves);
    CommCounters *before = arena_alloc(&executor->arena, n * sizeof *before);
    memcpy(before, executor->comm->counters, n * sizeof *before);
    if (!queue->capture(executor->context, error)) return fail_whole(executor, error);
    if (!run_actions(executor, error)) return capture_refused(executor, before, error);
    counters_apart(executor, before);
    if (!queue->captured(executor->context, &executor->capture->graph, &nodes, &why)) return error_set(error, why.code, "%s", why.text);
    /* A communication is captured and replayed by all of its ranks, or by none: NCCL's rule. */
    if (executor->nrequests > 0 && !comm_agree_all(executor->comm, executor->capture->graph != NULL, &why) && executor->capture->graph) {
        queue->discard(executor->context, executor->capture->graph);
        executor->capture->graph = NULL;
    }
    if (executor->capture->graph)
        snprintf(executor->capture->note, sizeof executor->capture->note, "steps are replayed as one graph of %d nodes", nodes);
    else
        snprintf(executor->capture->note, sizeof executor->capture->note, "steps run operator by operator: %.900s", why.text);
    return true;
}

/* Fetches the losses of the step that was done from the backend's memory. */
static bool fetch_losses(Executor *executor, Error *error) {
    for (int i = 0; i < executor->comm->ndriven; i++) {
        Cursor *cursor = &executor->cursors[i];
        if (cursor->nlosses == 0) continue;
        const int loss = executor->program->loss;
        const DType dtype = executor->plan->graph.values.at[cursor->role->instances.at[loss].value].type.dtype;
        /* Elements are no larger than doubles: they are converted in place, the last one first. */
        if (!executor->backend->download(executor->context, cursor->losses, cursor->at[loss], cursor->nlosses * dtype_bytes[dtype], error))
            return false;
        for (int k = cursor->nlosses - 1; k >= 0; k--) {
            double item; /* room for an element of any type */
            memcpy(&item, (const char *)cursor->losses + (size_t)k * (size_t)dtype_bytes[dtype], (size_t)dtype_bytes[dtype]);
            cursor->losses[k] = element_at(&item, dtype, 0);
            if (!isfinite(cursor->losses[k]) && executor->bad_update == 0) executor->bad_update = executor->updates;
        }
    }
    return true;
}

/* Whether a step may be left running on the device. When a step ends, communications that the process takes part in must be done, and times are read. */
static bool may_stay_behind(const Executor *executor) {
    return executor->backend->queue && !executor->profile && executor->ran && (executor->capture->graph || executor->nrequests == 0);
}

static bool step_run(Executor *executor, int64_t epoch, int64_t step, bool ahead, Error *error) {
    const DeviceQueue *queue = executor->backend->queue;
    if (!executor->begun && !inputs_fill(executor, epoch, step, error)) return queue ? fail_whole(executor, error) : false;
    executor->begun = false;
    if (executor->profile && !profile_step(executor->profile, executor->capture->graph != NULL, error)) return false;
    if (executor->capture->may && executor->ran) {
        if (!capture(executor, error)) return false;
        /* A step that was recorded and is not replayed has no times. */
        if (executor->profile && !executor->capture->graph && !profile_step(executor->profile, false, error)) return false;
    }
    if (executor->capture->graph && !replay(executor, error)) return fail_whole(executor, error);
    if (!executor->capture->graph && !run_actions(executor, error)) return false;
    ahead = ahead && may_stay_behind(executor);
    executor->ran = true;
    executor->updates++;
    if ((ahead || executor->behind) && !queue->pace(executor->context, error)) return fail_whole(executor, error);
    if (queue && !inputs_ahead(executor, epoch, step, error)) return fail_whole(executor, error);
    executor->behind = ahead;
    if (ahead) return true;
    if (!executor->backend->sync(executor->context, error)) return fail_whole(executor, error);
    if (executor->profile && !profile_done(executor->profile, error)) return false;
    return fetch_losses(executor, error) || fail_whole(executor, error);
}

/* behind: an error of the device may come from the previous step. */
static bool fail_step(const Executor *executor, int64_t epoch, int64_t step, bool behind, Error *error) {
    const char *perhaps = behind ? " or the one before" : "";
    if (executor->program->kind == PROGRAM_TRAIN)
        return error_prefix(error, "in step %lld%s of epoch %lld: ", (long long)step, perhaps, (long long)epoch);
    return error_prefix(error, "in step %lld%s of %s: ", (long long)step, perhaps, executor->program->name);
}

bool executor_settle(Executor *executor, Error *error) {
    Executor *now = lengths_now(executor);
    if (!now->behind) return true;
    now->behind = false;
    return (now->backend->sync(now->context, error) && fetch_losses(now, error)) || fail_whole(now, error);
}

/* Does a step by the executor for the texts of its batch. */
static bool step_chosen(Executor *executor, int64_t epoch, int64_t step, bool ahead, Error *error) {
    Executor *now = lengths_choose(executor, epoch, step, error);
    if (!now) return false;
    const bool behind = now->behind, ok = step_run(now, epoch, step, ahead, error);
    lengths_done(executor);
    return ok || fail_step(executor, epoch, step, behind, error);
}

bool executor_step(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    return step_chosen(executor, epoch, step, false, error);
}

bool executor_step_ahead(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    return step_chosen(executor, epoch, step, true, error);
}
