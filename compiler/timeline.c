#include "compiler/timeline.h"

#include <string.h>

#include "compiler/caches.h"

/* A communication of several roles: it begins when all have started it. */
typedef struct Shared {
    int nroles, nstarted;
    double ready_s; /* when the last one so far has started it */
} Shared;

typedef struct Simulation {
    struct Simulation *all; /* one for each role */
    int nroles;
    Shared *shared; /* per request of the program */
    int at;         /* the next step */
    int rank;       /* of kernels that one rank alone runs, those of this rank count */
    Timeline *timeline;
    const Facts *facts;
    const Role *role;
    const Strategy *const *strategy;
    const Machine *machine;
    Machine cached; /* the machine, where what is sent is in the nearest cache */
    Arena *arena;
    Caches caches;
    double kernels_s, link_s; /* until when the stream of kernels, and that of communications, is busy */
    int next;                 /* of facts->communications */
    int *started;             /* per request: its event, + 1; 0: none */
    int *communication;       /* per request: its index in the facts */
    double *alone_s;          /* per request, of a bucket its first: seconds that cannot run beside kernels; 0 once waited for */
} Simulation;

static void add_event(Simulation *s, TimelineEvent event) {
    vec_push(s->arena, &s->timeline->events, event);
}

/* Adds work to the stream of kernels. */
static void run(Simulation *s, int step, int nsteps, double seconds, double flops, double bytes) {
    add_event(
        s, (TimelineEvent){
               .step = step, .nsteps = nsteps, .begin_s = s->kernels_s, .end_s = s->kernels_s + seconds, .flops = flops, .bytes = bytes});
    s->kernels_s += seconds;
    s->timeline->kernel_s += seconds;
}

/* ---------------------------------------------------------------- kernels and copies */

static bool same_place(const Instance *a, const Instance *b) {
    return a->place == b->place && a->at == b->at && a->place != PLACE_INNER;
}

/* The one rank that has a kernel's result; -1: several have. */
static int alone_on(const Graph *graph, const Role *role, const Step *step) {
    const Pin *pin = &role->instances.at[step->out[0]].layout->pin;
    return graph->nranks > 1 && pin->digit.size == graph->nranks ? pin->value : -1;
}

/* The rank that runs the most kernels that no other rank runs. */
static int busiest_rank(const Graph *graph, const Role *role, Arena *arena) {
    const int n = role->last_rank - role->first_rank + 1;
    int *kernels = arena_alloc(arena, sizeof *kernels * (size_t)(n + 1)), most = 0;
    for (int s = 0; s < role->steps.n; s++) {
        const int rank = role->steps.at[s].kind == STEP_KERNEL ? alone_on(graph, role, &role->steps.at[s]) - role->first_rank : -1;
        if (rank >= 0 && rank < n && ++kernels[rank] > kernels[most]) most = rank;
    }
    return role->first_rank + most;
}

/* Whether nothing runs: the result lies where its operand lies, or on another rank. */
static bool is_free(const Simulation *s, const Step *step) {
    const int alone = alone_on(s->facts->graph, s->role, step);
    if (alone >= 0 && alone != s->rank) return true;
    if (s->role->instances.at[step->out[0]].place == PLACE_VIEW) return true;
    return op_table[step->op].view && same_place(&s->role->instances.at[step->in[0]], &s->role->instances.at[step->out[0]]);
}

static bool made_or_read(const Simulation *s, int first, int end, int instance) {
    for (int k = first; k < end; k++) {
        const Step *step = &s->role->steps.at[k];
        for (int i = 0; i < step->nin; i++)
            if (step->in[i] == instance) return true;
        for (int o = 0; o < step->nout; o++)
            if (step->out[o] == instance) return true;
    }
    return false;
}

/* Bit i: an earlier member of the fused step from `first` on has made or read operand i of this member. */
static unsigned handed_in(const Simulation *s, int first, int member) {
    const Step *step = &s->role->steps.at[member];
    unsigned handed = 0;
    for (int i = 0; member > first && i < step->nin; i++)
        handed |= (unsigned)made_or_read(s, first, member, step->in[i]) << i;
    return handed;
}

/* Bit o: only members read result o. */
static unsigned handed_out(const Simulation *s, int member) {
    const Step *step = &s->role->steps.at[member];
    unsigned handed = 0;
    for (int o = 0; o < step->nout; o++)
        handed |= (unsigned)(s->role->instances.at[step->out[o]].place == PLACE_INNER) << o;
    return handed;
}

/* Runs a kernel, or the members of a fused step, from `first` on. Returns their number. */
static int run_kernels(Simulation *s, int first) {
    const int n = fused_length(s->role, first);
    KernelWork work = {0};
    int touched[CACHES_MOST], ntouched = 0, at = 0;
    int8_t cache[CACHES_MOST];
    unsigned handed[MAX_FUSED];
    bool any = false;
    for (int k = first; k < first + n; k++) {
        const Step *step = &s->role->steps.at[k];
        if (is_free(s, step)) continue;
        handed[k - first] = handed_in(s, first, k);
        for (int i = 0; i < step->nin; i++)
            if (!(handed[k - first] >> i & 1)) touched[ntouched++] = step->in[i];
        for (int o = 0; o < step->nout; o++)
            touched[ntouched++] = step->out[o];
        any = true;
    }
    if (!any) return n;
    caches_touch(&s->caches, touched, ntouched, cache);
    for (int k = first; k < first + n; k++) {
        const Step *step = &s->role->steps.at[k];
        KernelCaches caches = {0};
        if (is_free(s, step)) continue;
        for (int i = 0; i < step->nin && i < MAX_IN; i++)
            if (!(handed[k - first] >> i & 1)) caches.in[i] = cache[at++];
        for (int o = 0; o < step->nout && o < MAX_OUT; o++)
            caches.out[o] = cache[at++];
        kernel_count(&work, s->machine, s->facts->graph, &s->facts->graph->nodes.at[step->node], s->strategy[step->node], handed[k - first],
                     handed_out(s, k), &caches);
    }
    run(s, first, n, kernel_seconds(s->machine, &work), work.flops, work.bytes);
    return n;
}

/* Copies a slice of what the rank holds, or a new state that was not computed in its place. */
static void run_copy(Simulation *s, int step, int from, int to) {
    const double bytes = (double)instance_bytes(s->facts->graph, &s->role->instances.at[to]);
    int8_t cache[2];
    caches_touch(&s->caches, (int[]){from, to}, 2, cache);
    run(s, step, 1, copy_seconds(s->machine, bytes, cache[0], cache[1]), 0, 2 * bytes);
}

static bool is_in_storage(const Simulation *s, const Step *write) {
    const Instance *new = &s->role->instances.at[write->in[0]];
    return new->place == PLACE_STATE &&new->at == write->state;
}

/* ---------------------------------------------------------------- communications */

/* The seconds of a communication. Notes that the caches hold what is sent. */
static MoveSeconds seconds_of(Simulation *s, const Communication *made, int64_t busiest) {
    const Instance *from = &s->role->instances.at[made->from], *to = &s->role->instances.at[made->to];
    const Machine *machine = caches_touch_one(&s->caches, made->from) == 0 && s->machine->ncaches > 0 ? &s->cached : s->machine;
    return step_seconds(machine, made->kind, from->layout, to->layout, &s->facts->graph->values.at[made->value].type.shape, busiest,
                        s->facts->graph->nranks);
}

static int64_t busiest_of(const Communication *made) {
    return made->sent.max > made->received.max ? made->sent.max : made->received.max;
}

/* Runs a communication that all its roles have started: it takes the links of all. */
static void move_shared(Simulation *s, int request) {
    Shared *shared = &s->shared[request];
    double begin = shared->ready_s;
    for (int r = 0; r < s->nroles; r++)
        if (s->all[r].started[request] > 0 && s->all[r].link_s > begin) begin = s->all[r].link_s;
    for (int r = 0; r < s->nroles; r++) {
        Simulation *role = &s->all[r];
        if (role->started[request] == 0) continue;
        TimelineEvent *event = &role->timeline->events.at[role->started[request] - 1];
        event->end_s += begin - event->begin_s;
        event->begin_s = begin;
        role->link_s = event->end_s;
        if (role->facts->communications.at[role->communication[request]].received.max == 0)
            role->alone_s[request] = 0; /* only roles that receive spend it */
    }
}

/* Runs the starts from `first` on that are one bucket, or the one: their messages go together. Returns their number. */
static int run_starts(Simulation *s, int first) {
    const Step *step = &s->role->steps.at[first];
    double messages_s = 0, moving_s = 0, bytes = 0;
    const int event = s->timeline->events.n;
    int n = 0;
    for (; first + n < s->role->steps.n; n++) {
        const Step *at = &s->role->steps.at[first + n];
        if (n > 0 && (at->kind != STEP_START || at->bucket == 0 || at->bucket != step->bucket)) break;
        const Communication *made = &s->facts->communications.at[s->next];
        const MoveSeconds its = seconds_of(s, made, busiest_of(made));
        messages_s = its.messages_s > messages_s ? its.messages_s : messages_s;
        moving_s += its.bytes_s;
        bytes += (double)busiest_of(made);
        s->timeline->alone_s[s->next] = move_seconds(its);
        s->started[at->request] = event + 1;
        s->communication[at->request] = s->next - n;
        s->next++;
    }
    const double seconds = messages_s + moving_s;
    double begin = s->kernels_s > s->link_s ? s->kernels_s : s->link_s;
    Shared *shared = &s->shared[step->request];
    shared->nstarted++;
    if (shared->nroles > 1) { /* begin and end are known when the others have started it too */
        begin = s->kernels_s;
        shared->ready_s = begin > shared->ready_s ? begin : shared->ready_s;
    } else {
        s->link_s = begin + s->machine->overlap * seconds;
    }
    s->timeline->communication_s += seconds;
    s->alone_s[step->request] = seconds - s->machine->overlap * seconds;
    add_event(s, (TimelineEvent){.step = first,
                                 .nsteps = n,
                                 .communication = true,
                                 .begin_s = begin,
                                 .end_s = begin + s->machine->overlap * seconds,
                                 .bytes = bytes});
    if (shared->nroles > 1 && shared->nstarted == shared->nroles) move_shared(s, step->request);
    return n;
}

/* Runs the waits from `first` on for one event. The part of it that cannot run beside kernels runs now. Returns their number. */
static int run_waits(Simulation *s, int first) {
    const int event = s->started[s->role->steps.at[first].request] - 1,
              request = s->role->steps.at[s->timeline->events.at[event].step].request;
    const double behind_s = s->timeline->events.at[event].end_s;
    const double end = (behind_s > s->kernels_s ? behind_s : s->kernels_s) + s->alone_s[request];
    int n = 1;
    while (first + n < s->role->steps.n && s->role->steps.at[first + n].kind == STEP_WAIT &&
           s->started[s->role->steps.at[first + n].request] - 1 == event)
        n++;
    for (int k = first; k < first + n; k++)
        caches_touch_one(&s->caches, s->role->steps.at[k].out[0]);
    s->timeline->exposed_s += end - s->kernels_s;
    s->timeline->exposed_by[s->communication[request]] += end - s->kernels_s;
    s->alone_s[request] = 0;
    add_event(s, (TimelineEvent){.step = first, .nsteps = n, .begin_s = s->kernels_s, .end_s = end});
    s->kernels_s = end;
    return n;
}

/* ---------------------------------------------------------------- a step */

/* Whether not all roles have started what a step waits for. */
static bool waits_for_others(const Simulation *s, const Step *wait) {
    const TimelineEvent *event = &s->timeline->events.at[s->started[wait->request] - 1];
    const Shared *shared = &s->shared[s->role->steps.at[event->step].request];
    return shared->nstarted < shared->nroles;
}

/* Runs the next step. Returns how many run as one with it. */
static int run_step(Simulation *s) {
    const Step *step = &s->role->steps.at[s->at];
    switch (step->kind) {
    case STEP_KERNEL:
        return run_kernels(s, s->at);
    case STEP_LOCAL:
        s->next++;
        run_copy(s, s->at, step->in[0], step->out[0]);
        return 1;
    case STEP_WRITE:
        if (!is_in_storage(s, step)) run_copy(s, s->at, step->in[0], step->in[0]);
        return 1;
    case STEP_START:
        return run_starts(s, s->at);
    case STEP_WAIT:
        return run_waits(s, s->at);
    }
    return 1;
}

/* The seconds in which the net's own random numbers, such as dropout's, are drawn before the first kernel. On a machine whose kernels were
 * measured each number takes as long as was seen, given as the FLOPs of exp that take as long. */
static double drawing_seconds(const Simulation *s) {
    static const double EFFORT = 100;
    const Graph *graph = s->facts->graph;
    double numbers = 0;
    for (int i = 0; i < s->role->instances.n; i++) {
        const Instance *instance = &s->role->instances.at[i];
        if (instance->place != PLACE_INPUT || graph->inputs.at[instance->at].kind != INPUT_RANDOM) continue;
        numbers += (double)instance_bytes(graph, instance) / dtype_bytes[graph->inputs.at[instance->at].type.dtype];
    }
    return s->machine->product.bytes_per_s > 0 ? EFFORT * numbers / s->machine->flops[PEAK_VECTOR] : 0;
}

static void simulation_init(Simulation *s, Timeline *timeline, const Facts *facts, int nrequests, Arena *arena) {
    const size_t n = (size_t)nrequests + 1;
    s->timeline = timeline;
    s->facts = facts;
    s->role = facts->role;
    s->arena = arena;
    s->started = arena_alloc(arena, sizeof *s->started * n);
    s->communication = arena_alloc(arena, sizeof *s->communication * n);
    s->alone_s = arena_alloc(arena, sizeof *s->alone_s * n);
    s->cached = *s->machine;
    if (s->cached.rank_cached_bytes_per_s > 0) s->cached.rank.bytes_per_s = s->cached.rank_cached_bytes_per_s;
    caches_init(&s->caches, facts, s->machine, arena);
    caches_warm(&s->caches);
    s->rank = busiest_rank(facts->graph, facts->role, arena);
    const size_t ncommunications = (size_t)facts->communications.n + 1;
    *timeline = (Timeline){.alone_s = arena_alloc(arena, sizeof *timeline->alone_s * ncommunications),
                           .exposed_by = arena_alloc(arena, sizeof *timeline->exposed_by * ncommunications)};
    s->kernels_s = timeline->kernel_s = drawing_seconds(s);
    vec_reserve(arena, &timeline->events, facts->role->steps.n);
    for (int i = 0; i < s->role->steps.n; i++)
        if (s->role->steps.at[i].kind == STEP_START) s->shared[s->role->steps.at[i].request].nroles++;
}

/* Runs a step of the role whose kernels are the least far, of those that do not wait for another role, so that communications begin in
 * the order of time. False: there is none. */
static bool run_earliest(Simulation *all, int nroles) {
    Simulation *first = NULL;
    for (int r = 0; r < nroles; r++) {
        Simulation *s = &all[r];
        const Step *step = s->at < s->role->steps.n ? &s->role->steps.at[s->at] : NULL;
        if (step == NULL || (step->kind == STEP_WAIT && waits_for_others(s, step))) continue;
        if (first == NULL || s->kernels_s < first->kernels_s) first = s;
    }
    if (first != NULL) first->at += run_step(first);
    return first != NULL;
}

void timeline_make(Timeline *timelines, const Facts *facts, int nroles, const Strategy *const *strategy, const Machine *machine,
                   Arena *arena) {
    const int nrequests = program_requests(facts->program);
    Shared *shared = arena_alloc(arena, sizeof *shared * ((size_t)nrequests + 1));
    Simulation *all = arena_alloc(arena, sizeof *all * (size_t)nroles);
    double step_s = 0;
    for (int r = 0; r < nroles; r++) {
        all[r] = (Simulation){
            .all = all, .nroles = nroles, .shared = shared, .strategy = strategy, .machine = machine != NULL ? machine : &machine_cpu};
        simulation_init(&all[r], &timelines[r], &facts[r], nrequests, arena);
    }
    while (run_earliest(all, nroles)) {
    }
    for (int r = 0; r < nroles; r++) {
        step_s = all[r].kernels_s > step_s ? all[r].kernels_s : step_s;
        step_s = all[r].link_s > step_s ? all[r].link_s : step_s;
    }
    for (int r = 0; r < nroles; r++)
        timelines[r].step_s = step_s;
}

double timelines_idle(const Timeline *timelines, int nroles) {
    double kernels_s = 0;
    for (int r = 0; r < nroles; r++)
        kernels_s += timelines[r].kernel_s;
    return timelines[0].step_s > 0 ? 1 - kernels_s / (nroles * timelines[0].step_s) : 0;
}

/* ---------------------------------------------------------------- Chrome's JSON */

/* "matmul+add+relu", "all_reduce", "wait all_reduce", as prun names what it runs. */
static void print_name(Text *text, const Facts *facts, const TimelineEvent *event) {
    const StepKind kind = facts->role->steps.at[event->step].kind;
    const int n = kind == STEP_KERNEL ? event->nsteps : 1; /* a bucket is named after its first */
    char name[STEP_NAME_BYTES] = "";
    for (int k = event->step; k < event->step + n; k++)
        step_name_add(name, facts->graph, facts->role, k);
    text_printf(text, "%s%s", kind == STEP_WAIT ? "wait " : "", name);
}

/* Prints the events of a role as those of a process. */
static void print_role(Text *text, const Timeline *timeline, const Facts *facts, int process, const char *name) {
    static const char *const threads[] = {"operators", "communications"};
    text_printf(text, "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"%s\"}},\n", process, name);
    for (int t = 0; t < 2; t++)
        text_printf(text, "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"%s\"}},\n", process,
                    t, threads[t]);
    for (int i = 0; i < timeline->events.n; i++) {
        const TimelineEvent *event = &timeline->events.at[i];
        if (event->communication && event->end_s == event->begin_s) continue; /* all of it is in the wait */
        text_printf(text, "{\"name\": \"");
        print_name(text, facts, event);
        text_printf(text, "\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"value\": \"", process,
                    event->communication, event->begin_s * 1e6, (event->end_s - event->begin_s) * 1e6);
        for (const char *at = step_makes(facts->graph, facts->role, event->step); *at;
             at++) /* names are identifiers and paths; nothing else may break the file */
            if ((unsigned char)*at >= ' ' && *at != '"' && *at != '\\') text_append(text, at, 1);
        text_printf(text, "\", \"step\": 1, \"plan_step\": %d, \"flops\": %.15g, \"bytes\": %.15g}},\n", event->step, event->flops,
                    event->bytes);
    }
}

void timeline_print(Text *text, const Timeline *timelines, const Facts *facts, int nroles) {
    const int process = facts->graph->nranks; /* beside the ranks of a measured trace */
    text_printf(text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    for (int r = 0; r < nroles; r++) {
        char name[64] = "predicted";
        if (nroles > 1) snprintf(name, sizeof name, "predicted, ranks %d to %d", facts[r].role->first_rank, facts[r].role->last_rank);
        print_role(text, &timelines[r], &facts[r], process + r, name);
    }
    text_printf(text, "{\"name\": \"end\", \"ph\": \"M\", \"pid\": %d, \"args\": {}}\n]}\n", process);
}
