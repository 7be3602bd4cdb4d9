/* profile: see profile.h. An entry is one action of one step: its begin and end, and those of the communication that it starts.
 * When a step is done, its entries are resolved to seconds, added up by what the action does, and kept if a trace is asked for. */
#include "runtime/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/file.h"
#include "runtime/exec.h"
#include "runtime/lanes.h"

enum { MAX_TRACED = 20, TRACED_BYTES = 1 << 16 };

/* What an action does, once for each action of each driven rank. */
typedef struct Work {
    char name[STEP_NAME_BYTES]; /* "matmul", "matmul+add+relu", "all_reduce" */
    bool comm;
    double flops, bytes; /* bytes: read and written; of a communication: sent by this rank */
    int kind;            /* number among Profile.kinds */
    int wait;            /* of a start: the action that waits for it; else -1 */
} Work;

typedef struct Timing {
    int driven, action;
    int mark[2], comm_mark[2]; /* on a device: on the stream of kernels, of communications; -1: none */
    double at[2];              /* on the CPU: the clock */
} Timing;

/* All actions of one name. */
typedef struct Kind {
    char name[STEP_NAME_BYTES];
    bool comm;
    int64_t calls;
    double seconds, flops, bytes;
    double busy; /* of a communication: from its start to its end, whether or not a rank waited */
} Kind;

typedef struct Event {
    int driven, action;
    double begin, end; /* on the clock of the node */
    bool comm;
    int64_t step;
} Event;

struct Profile {
    Executor *executor;
    const Device *device;
    const DeviceQueue *queue;
    Arena arena;
    Work **work; /* by driven rank and action */
    VEC(Timing) entries;
    VEC(Kind) kinds;
    VEC(Event) events;
    bool traces;
    Lanes *lanes;             /* or NULL */
    int64_t nsteps, measured; /* steps seen; steps added up: all but the first, which warms up */
    double zero, step_begin, wall, span, between, peak_flops, peak_bytes;
    int64_t taken;   /* bytes of the device's memory that the run has allocated */
    double *started; /* by action of driven rank 0: when its communication started in the current step */
};

/* ---------------------------------------------------------------- what actions do */

static double flops_of(const KernelCall *call) {
    double size[MAX_FACTORS];
    if (!call->rule) return (double)op_table[call->op].flops * (double)shape_elements(&call->out[0].local);
    for (int f = 0; f < MAX_FACTORS; f++)
        size[f] = 1;
    for (int i = 0; i < call->nin + call->nout; i++) {
        const Operand *operand = i < call->nin ? &call->in[i] : &call->out[i - call->nin];
        const int8_t *letters = i < call->nin ? call->rule->in[i] : call->rule->out[i - call->nin];
        for (int d = 0; d < operand->local.ndim; d++) {
            const int f = letters[d];
            if (f < 0 || operand->global.dim[d] != call->rule->factor[f].size) continue; /* what windows see has another size */
            if ((double)operand->local.dim[d] > size[f]) size[f] = (double)operand->local.dim[d];
        }
    }
    return op_flops(call->op, call->rule, size);
}

static double bytes_of(const Operand *operand) {
    return (double)shape_elements(&operand->local) * (double)dtype_bytes[operand->dtype];
}

/* Bytes of operand k that are read. */
static double bytes_read(const KernelCall *call, int k) {
    const double whole = bytes_of(&call->in[k]), given = bytes_of(&call->out[0]);
    return k == 0 && op_looks_up(call->op) && given < whole ? given : whole;
}

/* Names an action as pcc --timeline does. */
static void describe_name(Work *work, const Executor *executor, const Cursor *cursor, const Action *action) {
    const int n = action->kind == ACTION_FUSED ? action->nsteps : 1;
    for (int i = 0; i < n; i++)
        step_name_add(work->name, &executor->plan->graph, cursor->role, action->kind == ACTION_FUSED ? action->steps[i] : action->step);
}

static void describe_calls(Work *work, const Cursor *cursor, const Action *action) {
    for (int i = 0; i < action->ncalls; i++) {
        const KernelCall *call = &cursor->calls.at[action->first_call + i].call;
        work->flops += flops_of(call);
        for (int k = 0; k < call->nin; k++)
            work->bytes += bytes_read(call, k);
        for (int k = 0; k < call->nout; k++)
            work->bytes += bytes_of(&call->out[k]);
    }
}

/* Steps run as one read and write what each does, except what one passes to the next; where the plan has fused them, it says what is stored. */
static void describe_fused(Work *work, const Cursor *cursor, const Action *action) {
    for (int i = 0; i < action->nsteps; i++) {
        const Step *step = &cursor->role->steps.at[action->steps[i]];
        for (int s = 0; s < action->ncalls; s++) {
            const KernelCall *call = &cursor->calls.at[cursor->first_call[action->steps[i]] + s].call;
            work->flops += flops_of(call);
            for (int k = 0; k < call->nin; k++) {
                bool handed = false;
                for (int before = 0; before < i; before++)
                    for (int o = 0; o < cursor->role->steps.at[action->steps[before]].nout; o++)
                        handed = handed || cursor->role->steps.at[action->steps[before]].out[o] == step->in[k];
                if (!handed) work->bytes += bytes_read(call, k);
            }
            for (int k = 0; k < call->nout; k++)
                if (step->fused ? cursor->role->instances.at[step->out[k]].place != PLACE_INNER : i + 1 == action->nsteps)
                    work->bytes += bytes_of(&call->out[k]);
        }
    }
}

typedef struct Sending {
    int rank;
    int64_t elements;
} Sending;

static bool count_sent(void *context, const Piece *piece) {
    Sending *sending = context;
    if (piece->to != sending->rank) sending->elements += piece->count;
    return true;
}

/* Counts the least that a rank must send, as nccl-tests count bus bandwidth: 2 (n - 1) / n of an all_reduce, (n - 1) / n of the others. */
static void describe_start(Work *work, const Executor *executor, const Cursor *cursor, const Action *action) {
    const Prepared *prepared = &executor->prepared[cursor->role->steps.at[action->step].request];
    work->comm = true;
    for (int i = 0; i < prepared->n; i++) {
        const Step *one = &prepared->first[i];
        const Instance *source = &prepared->role->instances.at[one->in[0]], *target = &prepared->role->instances.at[one->out[0]];
        const TensorType *type = &executor->plan->graph.values.at[source->value].type;
        Layout from = *source->layout, to = *target->layout;
        Sending sending = {cursor->rank, 0};
        comm_layouts(one->comm, executor->comm->nranks, &from, &to);
        pieces_sent(&from, &to, &type->shape, executor->comm->nranks, cursor->rank, count_sent, &sending);
        work->bytes += (double)sending.elements * (double)dtype_bytes[type->dtype];
    }
}

static int find_kind(Profile *profile, const Work *work) {
    for (int i = 0; i < profile->kinds.n; i++)
        if (profile->kinds.at[i].comm == work->comm && strcmp(profile->kinds.at[i].name, work->name) == 0) return i;
    Kind kind = {.comm = work->comm};
    memcpy(kind.name, work->name, sizeof kind.name);
    vec_push(&profile->arena, &profile->kinds, kind);
    return profile->kinds.n - 1;
}

static void describe(Profile *profile, int driven) {
    const Executor *executor = profile->executor;
    const Cursor *cursor = &executor->cursors[driven];
    Work *all = profile->work[driven] = arena_alloc(&profile->arena, (size_t)cursor->actions.n * sizeof *all);
    for (int a = 0; a < cursor->actions.n; a++) {
        const Action *action = &cursor->actions.at[a];
        Work *work = &all[a];
        work->wait = -1;
        describe_name(work, executor, cursor, action);
        switch (action->kind) {
        case ACTION_CALLS:
            describe_calls(work, cursor, action);
            break;
        case ACTION_FUSED:
            describe_fused(work, cursor, action);
            break;
        case ACTION_COPY:
            work->bytes = 2 * (double)action->bytes;
            break;
        case ACTION_START:
            describe_start(work, executor, cursor, action);
            for (int w = a + 1; w < cursor->actions.n && work->wait < 0; w++)
                if (cursor->actions.at[w].kind == ACTION_WAIT && cursor->actions.at[w].request == action->request) work->wait = w;
            break;
        case ACTION_WAIT:
            work->comm = true;
            break;
        }
        work->kind = find_kind(profile, work);
    }
}

Profile *profile_create(Executor *executor, const Device *device, bool trace, Lanes *lanes, Error *error) {
    Profile *profile = calloc(1, sizeof *profile);
    if (!profile) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    arena_init(&profile->arena);
    profile->executor = executor;
    profile->device = device;
    profile->queue = device->backend->queue;
    profile->traces = trace;
    profile->lanes = lanes;
    profile->work = arena_alloc(&profile->arena, (size_t)executor->comm->ndriven * sizeof *profile->work);
    for (int i = 0; i < executor->comm->ndriven; i++)
        describe(profile, i);
    profile->started = arena_alloc(&profile->arena, (size_t)(executor->cursors[0].actions.n + 1) * sizeof *profile->started);
    return profile;
}

/* The type that most products of the net multiply. */
static DType factors_of(const Profile *profile) {
    const DType precision = profile->executor->plan->graph.settings.precision;
    return dtype_is_half(precision) ? precision : F32;
}

bool profile_measure(Profile *profile, Error *error) {
    int64_t available, total;
    if (profile->queue && !profile->queue->memory(profile->device->context, &profile->taken, &available, &total, error)) return false;
    return peak_measure(profile->device, profile->executor->nthreads, factors_of(profile), &profile->peak_flops, &profile->peak_bytes,
                        error);
}

bool profile_peaks(const Profile *profile, double *flops, double *bytes) {
    if (!profile || profile->peak_flops == 0) return false;
    *flops = profile->peak_flops;
    *bytes = profile->peak_bytes;
    return true;
}

void profile_destroy(Profile *profile) {
    if (!profile) return;
    arena_finish(&profile->arena);
    free(profile);
}

/* ---------------------------------------------------------------- a step */

bool profile_step(Profile *profile, bool replay, Error *error) {
    (void)error;
    if (!replay) {
        profile->entries.n = 0;
        if (profile->queue) profile->queue->unmark(profile->device->context);
    }
    profile->step_begin = now_seconds();
    if (profile->nsteps == 0) profile->zero = profile->step_begin;
    return true;
}

static bool mark(Profile *profile, bool comm, int *mark, Error *error) {
    *mark = profile->queue->mark(profile->device->context, comm, error);
    return *mark >= 0;
}

bool profile_begin(Profile *profile, const Cursor *cursor, const Action *action, Error *error) {
    Timing entry = {.driven = cursor->driven, .action = (int)(action - cursor->actions.at), .mark = {-1, -1}, .comm_mark = {-1, -1}};
    bool ok = true;
    if (profile->queue) {
        if (action->kind == ACTION_START) ok = mark(profile, true, &entry.comm_mark[0], error);
        ok = ok && mark(profile, false, &entry.mark[0], error);
    }
    entry.at[0] = now_seconds();
    vec_push(&profile->arena, &profile->entries, entry);
    return ok;
}

bool profile_end(Profile *profile, Error *error) {
    Timing *entry = &profile->entries.at[profile->entries.n - 1];
    entry->at[1] = now_seconds();
    if (!profile->queue) return true;
    return mark(profile, false, &entry->mark[1], error) && (entry->comm_mark[0] < 0 || mark(profile, true, &entry->comm_mark[1], error));
}

/* at: seconds since the step's first entry began. */
static bool resolve(Profile *profile, const Timing *entry, bool comm, double at[2], Error *error) {
    const Timing *first = &profile->entries.at[0];
    if (!profile->queue) {
        for (int i = 0; i < 2; i++)
            at[i] = entry->at[i] - first->at[0];
        return true;
    }
    const int *marks = comm ? entry->comm_mark : entry->mark;
    for (int i = 0; i < 2; i++)
        if (!profile->queue->between(profile->device->context, first->mark[0], marks[i], &at[i], error)) return false;
    return true;
}

static void keep(Profile *profile, const Timing *entry, const double at[2], bool comm) {
    if (!profile->traces || profile->nsteps > MAX_TRACED) return;
    Event event = {entry->driven, entry->action, profile->step_begin + at[0], profile->step_begin + at[1], comm, profile->nsteps};
    vec_push(&profile->arena, &profile->events, event);
}

/* Adds an entry to its kind; only those of driven rank 0 are in the table. */
static bool add_entry(Profile *profile, const Timing *entry, double *last, bool counted, Error *error) {
    const Action *action = &profile->executor->cursors[entry->driven].actions.at[entry->action];
    const Work *work = &profile->work[entry->driven][entry->action];
    Kind *kind = &profile->kinds.at[work->kind];
    double at[2], comm[2];
    if (!resolve(profile, entry, false, at, error)) return false;
    bool apart = entry->comm_mark[0] >= 0;
    if (apart && !resolve(profile, entry, true, comm, error)) return false;
    if (profile->lanes) lanes_action(profile->lanes, entry->driven, entry->action, false, at);
    if (profile->lanes && apart) lanes_action(profile->lanes, entry->driven, entry->action, true, comm);
    keep(profile, entry, at, false);
    if (apart) keep(profile, entry, comm, true);
    if (entry->driven != 0) return true;
    if (action->kind == ACTION_START) profile->started[entry->action] = at[0];
    if (!counted) return true;
    kind->seconds += at[1] - at[0];
    if (at[0] > *last) profile->between += at[0] - *last;
    *last = at[1];
    if (action->kind == ACTION_WAIT) {
        for (int s = 0; s < entry->action; s++)
            if (profile->work[0][s].wait == entry->action && !apart) kind->busy += at[1] - profile->started[s];
        return true;
    }
    kind->calls++;
    kind->flops += work->flops;
    kind->bytes += work->bytes;
    return true;
}

bool profile_done(Profile *profile, Error *error) {
    double last = 0, wall = now_seconds() - profile->step_begin;
    bool counted = profile->nsteps++ > 0;
    if (profile->entries.n == 0) return true;
    for (int i = 0; i < profile->entries.n; i++)
        if (!add_entry(profile, &profile->entries.at[i], &last, counted, error)) return false;
    if (profile->lanes) lanes_done(profile->lanes, profile->entries.at[0].at[0], wall);
    if (!counted) return true;
    profile->measured++;
    profile->wall += wall;
    profile->span += last;
    return true;
}

/* ---------------------------------------------------------------- the table */

static int by_time(const void *a, const void *b) {
    double x = ((const Kind *)a)->seconds, y = ((const Kind *)b)->seconds;
    return (x < y) - (x > y);
}

/* The unit of FLOP rates: GFLOP/s for CPUs, else TFLOP/s. */
static double flop_unit(const Profile *profile) {
    return profile->peak_flops < 2e12 ? 1e-9 : 1e-12;
}

static void print_kind(const Profile *profile, const Kind *kind, Text *text) {
    double steps = (double)profile->measured, ms = kind->seconds / steps * 1e3;
    text_printf(text, "  %-32s %6.6g %10.3f %6.1f %%", kind->name, (double)kind->calls / steps, ms, 100 * kind->seconds / profile->wall);
    if (kind->comm) {
        double busy = kind->busy > kind->seconds ? kind->busy : kind->seconds;
        text_printf(text, "                       %9.2f  bus\n", kind->bytes / busy * 1e-9);
        return;
    }
    double flops = kind->flops / kind->seconds, bytes = kind->bytes / kind->seconds, share = flops / profile->peak_flops;
    if (bytes / profile->peak_bytes > share) share = bytes / profile->peak_bytes;
    text_printf(text, " %11.4f %6.0f %% %10.2f\n", flops * flop_unit(profile), 100 * share, bytes * 1e-9);
}

bool profile_report(Profile *profile, Text *text, Error *error) {
    char device[300] = "the CPU";
    double steps = (double)profile->measured;
    if (profile->measured == 0) {
        text_printf(text, "profile: no step was measured; the first warms up\n");
        return true;
    }
    if (profile->queue) profile->queue->describe(profile->device->context, device, sizeof device);
    text_printf(text, "profile of rank %d on %s: %lld steps after the first, %.3f ms each\n", profile->executor->cursors[0].rank, device,
                (long long)profile->measured, profile->wall / steps * 1e3);
    text_printf(text, "  %-32s %6s %10s %8s %11s %8s %10s\n", "operator", "calls", "ms a step", "share",
                flop_unit(profile) == 1e-9 ? "GFLOP/s" : "TFLOP/s", "of peak", "GB/s");
    /* Indices of kinds are no longer needed: nothing is timed after the report. */
    qsort(profile->kinds.at, (size_t)profile->kinds.n, sizeof *profile->kinds.at, by_time);
    for (int i = 0; i < profile->kinds.n; i++)
        if (profile->kinds.at[i].seconds > 0) print_kind(profile, &profile->kinds.at[i], text);
    double outside = profile->wall - profile->span;
    text_printf(text, "  %-32s %6s %10.3f %6.1f %%\n",
                profile->executor->comm->ndriven > 1 ? "between them, other ranks" : "between operators", "",
                profile->between / steps * 1e3, 100 * profile->between / profile->wall);
    text_printf(text, "  %-32s %6s %10.3f %6.1f %%\n", "before and after them", "", outside / steps * 1e3, 100 * outside / profile->wall);
    text_printf(text, "  peaks measured: %.1f %s (product of %s), %.1f GB/s (read and written); of peak: the larger share of the two\n",
                profile->peak_flops * flop_unit(profile), flop_unit(profile) == 1e-9 ? "GFLOP/s" : "TFLOP/s",
                dtype_name[factors_of(profile)], profile->peak_bytes * 1e-9);
    if (!profile->queue) return true;
    int64_t taken, available, total;
    if (!profile->queue->memory(profile->device->context, &taken, &available, &total, error)) return false;
    text_printf(text, "  device memory: %.1f MiB taken for tensors and workspace, %.1f of %.1f MiB in use by all\n",
                (double)profile->taken / (1 << 20), (double)(total - available) / (1 << 20), (double)total / (1 << 20));
    return true;
}

/* ---------------------------------------------------------------- the trace */

static void put_event(const Profile *profile, const Event *event, Text *text) {
    const Cursor *cursor = &profile->executor->cursors[event->driven];
    const Action *action = &cursor->actions.at[event->action];
    const Work *work = &profile->work[event->driven][event->action];
    const char *value = step_makes(&profile->executor->plan->graph, cursor->role, action->step);
    const char *what = action->kind == ACTION_WAIT ? "wait " : action->kind == ACTION_START && !event->comm ? "start " : "";
    text_printf(text, "{\"name\": \"%s%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"value\": \"",
                what, work->name, cursor->rank, event->comm ? 1 : 0, (event->begin - profile->zero) * 1e6,
                (event->end - event->begin) * 1e6);
    for (const char *at = value; *at; at++) /* names are identifiers and paths; nothing else may break the file */
        if ((unsigned char)*at >= ' ' && *at != '"' && *at != '\\') text_append(text, at, 1);
    text_printf(text, "\", \"step\": %lld, \"plan_step\": %d, \"flops\": %.15g, \"bytes\": %.15g}},\n", (long long)event->step,
                action->step, work->flops, work->bytes);
}

static void put_names(const Profile *profile, Text *text) {
    for (int i = 0; i < profile->executor->comm->ndriven; i++) {
        int rank = profile->executor->cursors[i].rank;
        text_printf(text, "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"rank %d\"}},\n", rank, rank);
        text_printf(text, "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": \"operators\"}},\n",
                    rank);
        text_printf(
            text, "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 1, \"args\": {\"name\": \"communications\"}},\n", rank);
    }
}

/* Appends text to the file `part`, which later becomes the one at path. */
static bool append(const char *part, const char *path, const char *mode, const char *text, Error *error) {
    FILE *file = fopen(part, mode);
    bool ok = file && fputs(text, file) >= 0;
    int failed = errno;
    if (file && fclose(file) != 0 && ok) ok = false, failed = errno;
    return ok || error_set(error, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(failed));
}

/* The length of the longest line; that of the most whole lines that fit into room; both with line ends. */
static size_t longest_line(const Text *text) {
    size_t longest = 0, n;
    for (size_t at = 0; at < text->n; at += n) {
        n = (size_t)((const char *)memchr(text->at + at, '\n', text->n - at) - (text->at + at)) + 1;
        longest = n > longest ? n : longest;
    }
    return longest;
}

static size_t whole_lines(const char *text, size_t n, size_t room) {
    if (n <= room) return n;
    while (text[room - 1] != '\n')
        room--;
    return room;
}

/* Sends lines of all processes to process 0, which writes them: some of each at a time, so that it needs little memory. *written: false where writing fails. Collective. */
static bool write_lines(Comm *comm, const Text *text, const char *part, const char *path, bool *written, Error *error) {
    uint64_t width = longest_line(text) + 1, left = text->n;
    if (!comm_most(comm, &width, error)) return false;
    if (width < TRACED_BYTES) width = TRACED_BYTES;
    char *own = malloc(width), *all = comm->process == 0 ? malloc(width * (size_t)comm->nprocesses) : NULL;
    bool ok = comm_agree(comm, (own && (all || comm->process != 0)) || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    for (size_t at = 0, n; ok; at += n) {
        left = text->n - at;
        n = whole_lines(text->at + at, left, width - 1);
        ok = comm_most(comm, &left, error);
        if (!ok || left == 0) break;
        memcpy(own, text->at + at, n);
        own[n] = '\0';
        ok = comm->table->gather_text(comm, own, (int)width, all, error);
        for (int p = 0; ok && *written && comm->process == 0 && p < comm->nprocesses; p++)
            *written = append(part, path, "a", all + (size_t)p * width, error);
    }
    free(own);
    free(all);
    return ok;
}

bool profile_write(Profile *profile, Comm *comm, const char *path, Error *error) {
    Text text = {0}, part = {0};
    double zero = profile->zero, ahead = 0; /* time 0 is where rank 0's first step began */
    if (!comm_clock(comm, &ahead, error) || !comm->table->broadcast(comm, &zero, sizeof zero, error)) return false;
    profile->zero = zero + ahead;
    put_names(profile, &text);
    for (int i = 0; i < profile->events.n; i++)
        put_event(profile, &profile->events.at[i], &text);
    /* The name appears when the file is complete. */
    text_printf(&part, file_kind(path) ? "%s" : "%s.tmp", path);
    const bool writes = comm->process == 0, renames = writes && strcmp(part.at, path) != 0;
    bool written = !writes || append(part.at, path, "w", "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", error);
    const bool together = write_lines(comm, &text, part.at, path, &written, error);
    if (writes && written && together)
        written =
            append(part.at, path, "a", "{\"name\": \"end\", \"ph\": \"M\", \"pid\": 0, \"args\": {}}\n]}\n", error) &&
            (!renames || rename(part.at, path) == 0 || error_set(error, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno)));
    if (renames && !(written && together)) unlink(part.at);
    text_finish(&part);
    text_finish(&text);
    return together && comm_agree(comm, written, error);
}
