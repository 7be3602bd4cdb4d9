#include "compiler/timeline.h"

#include <string.h>

typedef struct Simulation {
    Timeline *timeline;
    const Facts *facts;
    const Role *role;
    const Strategy *const *strategy;
    const Machine *machine;
    Arena *arena;
    double kernels_s, link_s; /* until when the stream of kernels, that of communications is taken */
    int next;                 /* of facts->communications */
    int *started;             /* per request: its event; -1 */
    int *communication;       /* per request: of the facts */
    double *alone_s;          /* per request, of a bucket its first: what cannot run while kernels do, until it has been waited for */
} Simulation;

static void add_event(Simulation *s, TimelineEvent event) {
    vec_push(s->arena, &s->timeline->events, event);
}

/* Work on the stream of kernels. */
static void run(Simulation *s, int step, int nsteps, const KernelWork *work) {
    const double seconds = kernel_seconds(s->machine, work);
    add_event(s, (TimelineEvent){.step = step,
                                 .nsteps = nsteps,
                                 .begin_s = s->kernels_s,
                                 .end_s = s->kernels_s + seconds,
                                 .flops = work->flops,
                                 .bytes = work->bytes});
    s->kernels_s += seconds;
    s->timeline->kernel_s += seconds;
}

/* ---------------------------------------------------------------- kernels and copies */

static bool same_place(const Instance *a, const Instance *b) {
    return a->place == b->place && a->at == b->at && a->place != PLACE_INNER;
}

/* Nothing runs: the result lies where its operand lies. */
static bool is_free(const Simulation *s, const Step *step) {
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

/* A kernel, or the members of a fused step from `first` on. Returns their number. */
static int run_kernels(Simulation *s, int first) {
    const int n = fused_length(s->role, first);
    KernelWork work = {0};
    bool any = false;
    for (int k = first; k < first + n; k++) {
        const Step *step = &s->role->steps.at[k];
        unsigned handed_in = 0, handed_out = 0;
        if (is_free(s, step)) continue;
        for (int i = 0; n > 1 && i < step->nin; i++)
            handed_in |= (unsigned)made_or_read(s, first, k, step->in[i]) << i;
        for (int o = 0; o < step->nout; o++)
            handed_out |= (unsigned)(s->role->instances.at[step->out[o]].place == PLACE_INNER) << o;
        kernel_count(&work, s->machine, s->facts->graph, &s->facts->graph->nodes.at[step->node], s->strategy[step->node], handed_in,
                     handed_out);
        any = true;
    }
    if (any) run(s, first, n, &work);
    return n;
}

/* A slice of what the rank holds, or a new state that was not computed where it belongs. */
static void run_copy(Simulation *s, int step, int instance) {
    const KernelWork work = {.bytes = 2 * (double)instance_bytes(s->facts->graph, &s->role->instances.at[instance])};
    run(s, step, 1, &work);
}

static bool is_in_storage(const Simulation *s, const Step *write) {
    const Instance *new = &s->role->instances.at[write->in[0]];
    return new->place == PLACE_STATE &&new->at == write->state;
}

/* ---------------------------------------------------------------- communications */

static MoveSeconds seconds_of(const Simulation *s, const Communication *made, int64_t busiest) {
    const Instance *from = &s->role->instances.at[made->from], *to = &s->role->instances.at[made->to];
    return step_seconds(s->machine, made->kind, from->layout, to->layout, &s->facts->graph->values.at[made->value].type.shape, busiest,
                        s->facts->graph->nranks);
}

static int64_t busiest_of(const Communication *made) {
    return made->sent.max > made->received.max ? made->sent.max : made->received.max;
}

/* Starts from `first` on that run as one: their messages go together. Returns their number. */
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
        s->started[at->request] = event;
        s->communication[at->request] = s->next - n;
        s->next++;
    }
    const double begin = s->kernels_s > s->link_s ? s->kernels_s : s->link_s, seconds = messages_s + moving_s;
    s->link_s = begin + s->machine->overlap * seconds;
    s->timeline->communication_s += seconds;
    s->alone_s[step->request] = seconds - s->machine->overlap * seconds;
    add_event(s, (TimelineEvent){.step = first, .nsteps = n, .communication = true, .begin_s = begin, .end_s = s->link_s, .bytes = bytes});
    return n;
}

/* Waits from `first` on for what runs as one. What of it cannot run beside kernels is done now. */
static int run_waits(Simulation *s, int first) {
    const int event = s->started[s->role->steps.at[first].request], request = s->role->steps.at[s->timeline->events.at[event].step].request;
    const double behind_s = s->timeline->events.at[event].end_s;
    const double end = (behind_s > s->kernels_s ? behind_s : s->kernels_s) + s->alone_s[request];
    int n = 1;
    while (first + n < s->role->steps.n && s->role->steps.at[first + n].kind == STEP_WAIT &&
           s->started[s->role->steps.at[first + n].request] == event)
        n++;
    s->timeline->exposed_s += end - s->kernels_s;
    s->timeline->exposed_by[s->communication[request]] += end - s->kernels_s;
    s->alone_s[request] = 0;
    add_event(s, (TimelineEvent){.step = first, .nsteps = n, .begin_s = s->kernels_s, .end_s = end});
    s->kernels_s = end;
    return n;
}

/* ---------------------------------------------------------------- a step */

void timeline_make(Timeline *timeline, const Facts *facts, const Strategy *const *strategy, const Machine *machine, Arena *arena) {
    const size_t nsteps = (size_t)facts->role->steps.n + 1;
    Simulation s = {.timeline = timeline,
                    .facts = facts,
                    .role = facts->role,
                    .strategy = strategy,
                    .machine = machine != NULL ? machine : &machine_cpu,
                    .arena = arena,
                    .started = arena_alloc(arena, sizeof *s.started * nsteps),
                    .communication = arena_alloc(arena, sizeof *s.communication * nsteps),
                    .alone_s = arena_alloc(arena, sizeof *s.alone_s * nsteps)};
    const size_t ncommunications = (size_t)facts->communications.n + 1;
    *timeline = (Timeline){.alone_s = arena_alloc(arena, sizeof *timeline->alone_s * ncommunications),
                           .exposed_by = arena_alloc(arena, sizeof *timeline->exposed_by * ncommunications)};
    vec_reserve(arena, &timeline->events, facts->role->steps.n);
    for (int i = 0; i < s.role->steps.n;) {
        const Step *step = &s.role->steps.at[i];
        int n = 1;
        switch (step->kind) {
        case STEP_KERNEL:
            n = run_kernels(&s, i);
            break;
        case STEP_LOCAL:
            s.next++;
            run_copy(&s, i, step->out[0]);
            break;
        case STEP_WRITE:
            if (!is_in_storage(&s, step)) run_copy(&s, i, step->in[0]);
            break;
        case STEP_START:
            n = run_starts(&s, i);
            break;
        case STEP_WAIT:
            n = run_waits(&s, i);
            break;
        }
        i += n;
    }
    timeline->step_s = s.kernels_s > s.link_s ? s.kernels_s : s.link_s;
}

/* ---------------------------------------------------------------- Chrome's JSON */

/* "matmul+add+relu", "all_reduce", "wait all_reduce", as prun names what it runs. */
static void print_name(Text *text, const Facts *facts, const TimelineEvent *event) {
    const Role *role = facts->role;
    const Step *step = &role->steps.at[event->step];
    switch (step->kind) {
    case STEP_KERNEL:
        for (int k = event->step; k < event->step + event->nsteps; k++)
            text_printf(text, "%s%s", k > event->step ? "+" : "", op_table[role->steps.at[k].op].name);
        return;
    case STEP_LOCAL:
    case STEP_WRITE:
        text_printf(text, "copy");
        return;
    case STEP_START:
    case STEP_WAIT:
        text_printf(text, "%s%s", step->kind == STEP_WAIT ? "wait " : "", comm_name[step->comm]);
        return;
    }
}

void timeline_print(Text *text, const Timeline *timeline, const Facts *facts) {
    const int process = facts->graph->nranks; /* beside the ranks of a measured trace */
    static const char *const threads[] = {"operators", "communications"};
    text_printf(text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    text_printf(text, "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"predicted\"}},\n", process);
    for (int t = 0; t < 2; t++)
        text_printf(text, "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"%s\"}},\n", process,
                    t, threads[t]);
    for (int i = 0; i < timeline->events.n; i++) {
        const TimelineEvent *event = &timeline->events.at[i];
        if (event->communication && event->end_s == event->begin_s) continue; /* all of it is in the wait */
        const Step *last = &facts->role->steps.at[event->step + event->nsteps - 1];
        text_printf(text, "{\"name\": \"");
        print_name(text, facts, event);
        text_printf(text, "\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"value\": \"", process,
                    event->communication, event->begin_s * 1e6, (event->end_s - event->begin_s) * 1e6);
        for (const char *at = step_label(facts->graph, facts->role, last).of; *at;
             at++) /* names are identifiers and paths; nothing else may break the file */
            if ((unsigned char)*at >= ' ' && *at != '"' && *at != '\\') text_append(text, at, 1);
        text_printf(text, "\", \"step\": 1, \"plan_step\": %d, \"flops\": %.15g, \"bytes\": %.15g}},\n", event->step, event->flops,
                    event->bytes);
    }
    text_printf(text, "{\"name\": \"end\", \"ph\": \"M\", \"pid\": %d, \"args\": {}}\n]}\n", process);
}
