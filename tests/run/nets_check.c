/* One net. The oracle is a plan of the same net for one rank, in lock step (runtime/verify.c); what it shares with the plan under test,
 * initial values, is compared with what the state's definition gives. */
#include "compiler/budget.h"
#include "runtime/element.h"
#include "runtime/state.h"
#include "runtime/verify.h"
#include "tests/run/nets.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ops/device.h"

const char *const net_outcome_name[NOUTCOMES] = {"holds",
                                                 "is rejected",
                                                 "crashes",
                                                 "hangs",
                                                 "is not compiled",
                                                 "is not proved",
                                                 "is refused by the runtime",
                                                 "begins with other values",
                                                 "differs from one rank",
                                                 "has copies that differ",
                                                 "sends more than planned"};

bool net_counts(const NetReport *report) {
    return report->outcome == NET_HOLDS && report->communicates && report->finite && (report->effect || mode_hides(report->mode));
}

/* ---------------------------------------------------------------- compiling */

/* A plan in its arena. */
typedef struct Compiled {
    Arena arena;
    Diags diags;
    char *text; /* of the plan */
    size_t n;
    const char *path;
    int64_t memory_bytes; /* that a rank needs */
} Compiled;

static bool fail(NetReport *report, NetOutcome outcome, const char *text) {
    report->outcome = outcome;
    snprintf(report->text, sizeof report->text, "%s", text);
    return false;
}

static const char *first_error(const Diags *diags) {
    for (int i = 0; i < diags->items.n; i++)
        if (diags->items.at[i].kind == DIAG_ERROR) return diags->items.at[i].text;
    return "";
}

static void note_measures(const Build *train, NetReport *report) {
    const Measures *measures = train->front.measures;
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        report->limited |= measures->taken[k].saved_bytes > 0;
        report->chosen_again |= measures->taken[k].marks != NULL;
    }
}

static bool compile_net(Compiled *compiled, const FuzzNet *net, int nranks, int level, const char *path, NetReport *report);

/* A machine like the net's with less memory than the net needs on it. */
static bool small_machine(Machine *machine, const FuzzNet *net, int nranks, int level, const char *path, NetReport *report) {
    FuzzNet all = *net;
    Compiled compiled;
    all.memory_percent = 0;
    const bool ok = compile_net(&compiled, &all, nranks, level, path, report);
    arena_finish(&compiled.arena);
    *machine = net->machine != NULL ? *machine_named(net->machine) : machine_cpu;
    machine->memory_bytes = compiled.memory_bytes * net->memory_percent / 100 + 1;
    return ok;
}

/* The net for nranks ranks; 1: the reference. */
static bool compile_net(Compiled *compiled, const FuzzNet *net, int nranks, int level, const char *path, NetReport *report) {
    Text source = {0};
    Compilation c;
    Machine small;
    arena_init(&compiled->arena);
    diags_init(&compiled->diags, &compiled->arena);
    fuzz_print(&source, net);
    Options options = {.input = "fuzz.dsl",
                       .output = path,
                       .optimize = level,
                       .prove = true,
                       .proof = {.full = true},
                       .no_plan = nranks > 1,
                       .redistribution = net->redistribution,
                       .machine = net->machine ? machine_named(net->machine) : NULL,
                       .overrides = {.nranks = nranks, .replicas = net->replicas}};
    if (nranks == 1 && !mode_hides(net->mode)) options.overrides.mode = "stand_alone";
    if (nranks > 1 && net->memory_percent > 0) {
        options.machine = &small;
        options.silenced = 1u << WARN_MEMORY;                           /* nothing may be small enough */
        if (!small_machine(&small, net, nranks, level, path, report)) { /* the report says why */
            text_finish(&source);
            return false;
        }
    }
    const bool ok = compile(&c, &compiled->arena, &options, &compiled->diags, source.at, source.n);
    compiled->path = path;
    if (ok) {
        BuildCost cost;
        build_cost(program_train(&c), &cost);
        compiled->memory_bytes = memory_bytes(&cost);
        note_measures(program_train(&c), report);
        compiled->text = arena_copy(&compiled->arena, c.text.at, c.text.n);
        compiled->n = c.text.n;
    } else if (compiled->diags.nerrors > 0) {
        fail(report, NET_REJECTED, first_error(&compiled->diags));
    } else {
        const char *pass = c.npasses > 0 ? c.pass[c.npasses - 1].name : "none";
        fail(report, strcmp(pass, "prove") == 0 ? NET_NOT_PROVED : NET_NOT_COMPILED,
             arena_printf(&compiled->arena, "pass %s: %s", pass, c.error.text));
    }
    compilation_finish(&c);
    text_finish(&source);
    return ok;
}

/* The part of a plan's text between two of its lines. */
static const char *section(const Compiled *compiled, const char *from, const char *to, size_t *n) {
    const char *begin = strstr(compiled->text, from), *end = begin ? strstr(begin, to) : NULL;
    *n = begin && end ? (size_t)(end - begin) : 0;
    return begin;
}

static bool same_section(const Compiled *a, const Compiled *b, const char *from, const char *to) {
    size_t na, nb;
    const char *at_a = section(a, from, to, &na), *at_b = section(b, from, to, &nb);
    return na == nb && na > 0 && memcmp(at_a, at_b, na) == 0;
}

/* Whether the plan would be another without the user's strategies. */
static bool hints_matter(const FuzzNet *net, const Compiled *with, int level, const char *path) {
    Compiled without;
    Arena arena;
    NetReport ignored = {0};
    FuzzNet bare = *net;
    bool any = net->dataset == DATASET_EXPLICIT;
    arena_init(&arena);
    bare.items.at = arena_alloc(&arena, (size_t)net->items.n * sizeof *bare.items.at);
    for (int i = 0; i < net->items.n; i++) {
        bare.items.at[i] = net->items.at[i];
        bare.items.at[i].hint = NULL;
        any = any || net->items.at[i].hint;
    }
    if (net->dataset == DATASET_EXPLICIT) bare.dataset = DATASET_AUTO;
    bool matter = false;
    if (any) {
        matter = !compile_net(&without, &bare, fuzz_ranks(net), level, path, &ignored) ||
                 !same_section(with, &without, "\nlayout 0", "\nstate 0") || !same_section(with, &without, "\nprogram ", "\ncertificate");
        arena_finish(&without.arena);
    }
    arena_finish(&arena);
    return matter;
}

/* ---------------------------------------------------------------- what occurs in a plan */

static void count_instance(const Graph *graph, const Instance *instance, NetReport *report) {
    const Shape *shape = &graph->values.at[instance->value].type.shape;
    for (int d = 0; d < shape->ndim; d++)
        report->uneven |= shape->dim[d] % layout_split(instance->layout, d) != 0;
}

static void count_plan(const Plan *plan, NetReport *report) {
    bool communicates = false;
    for (int i = 0; i < plan->graph.nodes.n; i++)
        report->in_graph[plan->graph.nodes.at[i].op] = true, report->recomputes |= plan->graph.nodes.at[i].copy_of > 0;
    for (int r = 0; r < plan->programs.at[0].roles.n; r++) {
        const Role *role = &plan->programs.at[0].roles.at[r];
        for (int i = 0; i < role->instances.n; i++)
            count_instance(&plan->graph, &role->instances.at[i], report);
        for (int s = 0; s < role->steps.n; s++) {
            const Step *step = &role->steps.at[s];
            bool parts = false;
            for (int k = 0; k < step->nin; k++)
                parts |= !layout_is_whole(role->instances.at[step->in[k]].layout);
            for (int t = 0; step->kind == STEP_START && step->bucket > 0 && t < s; t++)
                report->bucket |= role->steps.at[t].kind == STEP_START && role->steps.at[t].bucket == step->bucket;
            if (step->kind == STEP_START || step->kind == STEP_LOCAL) {
                report->comms[step->comm]++;
                report->in_graph[OP_convert] = report->on_parts[OP_convert] = true;
            }
            communicates |= step->kind == STEP_START;
            if (step->kind == STEP_WRITE) report->on_parts[OP_write] |= parts;
            if (step->kind == STEP_KERNEL) report->on_parts[step->op] |= parts || !layout_is_whole(role->instances.at[step->out[0]].layout);
        }
    }
    report->communicates &= communicates;
}

static void count_net(const FuzzNet *net, NetReport *report) {
    report->mode = net->mode;
    report->nranks = net->nranks;
    report->optimizer = net->optimizer;
    report->schedule = net->schedule.kind;
    report->warmup = net->schedule.warmup > 0;
    report->decay = net->weight_decay > 0;
    report->clip = net->clip > 0;
    report->accumulate = net->accumulate > 1;
    report->ema = net->ema > 0;
    report->scaled = net->scaled >= 0;
    report->data = net->data;
    report->redistribution = net->redistribution;
    report->machine = net->machine != NULL;
    report->stages = net->stages > 1;
    report->searched = net->mode == MODE_AUTO && (net->search == NULL || strcmp(net->search, "sharding_propagation") != 0);
    report->explicit_dataset = net->dataset == DATASET_EXPLICIT;
    report->dtype = net->items.at[0].type[0].dtype;
    int uses[1024] = {0};
    for (int i = 0; i < net->items.n; i++) {
        const FuzzItem *item = &net->items.at[i];
        if (item->kind == FUZZ_OP) report->in_graph[item->op] = true;
        report->stage_hints |= item->stage > 0;
        report->regathers |= item->regather;
        if (item->hint) report->at |= item->hint->at > 0;
        if (item->hint) report->named |= item->hint->named, report->output |= item->hint->nout > 0;
        for (int k = 0; k < item->nin; k++)
            if (item->in[k] < 1024) report->shared |= ++uses[item->in[k]] > 1 && net->items.at[item->in[k] / MAX_OUT].kind != FUZZ_NUMBER;
    }
}

/* ---------------------------------------------------------------- running */

/* The first all-reduce of each role does not take place: ranks go on with what happens to lie in its target. */
static void drop_reduction(Plan *plan) {
    for (int r = 0; r < plan->programs.at[0].roles.n; r++) {
        Role *role = &plan->programs.at[0].roles.at[r];
        int request = -1, left = 0;
        for (int s = 0; s < role->steps.n; s++) {
            Step step = role->steps.at[s];
            bool is_comm = step.kind == STEP_START || step.kind == STEP_WAIT;
            if (request < 0 && step.kind == STEP_START && step.comm == COMM_ALL_REDUCE) request = step.request;
            if (!is_comm || step.request != request) role->steps.at[left++] = step;
        }
        role->steps.n = left;
    }
}

static void seed_fault(NetFault fault, Plan *plan) {
    if (fault == FAULT_NO_REDUCTION) drop_reduction(plan);
    for (int i = 0; fault == FAULT_CRASH && i < plan->graph.nodes.n; i++)
        if (plan->graph.nodes.at[i].op == OP_tanh) abort();
}

/* Exactly what the definition of each state gives, whatever the ranks. */
static bool check_initial(const Plan *plan, Executor *executor, Arena *arena, NetReport *report) {
    Error error = {0};
    for (int s = 0; s < plan->graph.states.n; s++) {
        const State *state = &plan->graph.states.at[s];
        const Shape *shape = &state->type.shape;
        int64_t n = shape_elements(shape);
        double *actual;
        void *expected = arena_alloc(arena, (size_t)(n * dtype_bytes[state->type.dtype]));
        Box box = {.ndim = shape->ndim};
        memcpy(box.end, shape->dim, sizeof *box.end * (size_t)shape->ndim);
        if (!state_initial(&plan->graph, state, &box, ".", expected, &error) || !executor_gather_state(executor, s, arena, &actual, &error))
            return fail(report, NET_REFUSED, error.text);
        for (int64_t i = 0; i < n; i++)
            if (actual[i] != element_at(expected, state->type.dtype, i))
                return fail(report, NET_BEGINS_ELSE,
                            arena_printf(arena, "%s: element %lld is %.17g, not %.17g", state->name, (long long)i, actual[i],
                                         element_at(expected, state->type.dtype, i)));
    }
    return true;
}

/* A rank's box of a state where the host can read it; NULL: the device gives it not. */
static const void *state_on_host(Executor *executor, Arena *arena, int rank, int state, DType dtype, Box *box) {
    void *context;
    const Backend *backend = executor_backend(executor, &context);
    void *local = executor_state(executor, rank, state, box);
    int64_t bytes = box_elements(box) * dtype_bytes[dtype];
    if (backend->host || bytes == 0) return local;
    void *copy = arena_alloc(arena, (size_t)bytes);
    Error error;
    return backend->download(context, copy, local, bytes, &error) ? copy : NULL;
}

/* Ranks that hold the same box of a state hold the same bits. */
static bool check_copies(const Plan *plan, Executor *executor, Arena *arena, NetReport *report) {
    int nranks = plan->graph.nranks;
    Box *boxes = arena_alloc(arena, (size_t)nranks * sizeof *boxes);
    const void **data = arena_alloc(arena, (size_t)nranks * sizeof *data);
    for (int s = 0; s < plan->graph.states.n; s++) {
        const State *state = &plan->graph.states.at[s];
        for (int r = 0; r < nranks; r++) {
            data[r] = state_on_host(executor, arena, r, s, state->type.dtype, &boxes[r]);
            if (!data[r] && box_elements(&boxes[r]) > 0) return fail(report, NET_REFUSED, "a state cannot be read off the device");
            size_t bytes = (size_t)(box_elements(&boxes[r]) * dtype_bytes[state->type.dtype]);
            for (int q = 0; q < r; q++) {
                bool same = boxes[q].nothing == boxes[r].nothing;
                for (int d = 0; d < state->type.shape.ndim; d++)
                    same = same && boxes[q].begin[d] == boxes[r].begin[d] && boxes[q].end[d] == boxes[r].end[d];
                if (!same) continue;
                if (bytes > 0 && memcmp(data[q], data[r], bytes) != 0)
                    return fail(report, NET_COPIES_DIFFER, arena_printf(arena, "%s on ranks %d and %d", state->name, q, r));
                break;
            }
        }
    }
    return true;
}

static bool check_steps(const FuzzNet *net, const Plan *plan, Executor *executor, Verifier *verifier, Arena *arena, NetReport *report) {
    Error error = {0};
    const double *losses;
    for (int step = 1; step <= net->steps; step++) {
        if (!verifier_before(verifier, &error) || !executor_step(executor, 1, step, &error)) return fail(report, NET_REFUSED, error.text);
        if (!verifier_after(verifier, 1, step, &error))
            return fail(report, error.code == EXIT_MISMATCH ? NET_DIFFERS : NET_REFUSED, error.text);
        if (!check_copies(plan, executor, arena, report)) return false;
        int n = executor_losses(executor, 0, &losses);
        for (int i = 0; i < n; i++)
            report->finite &= isfinite(losses[i]) != 0;
    }
    for (int r = 0; r < fuzz_ranks(net); r++) {
        int64_t sent = executor_sent_bytes(executor, r), most = plan->programs.at[0].sent_bytes * net->steps;
        if (sent > most)
            return fail(report, NET_SENDS_MORE,
                        arena_printf(arena, "rank %d sent %lld bytes in %d steps, planned are at most %lld", r, (long long)sent, net->steps,
                                     (long long)most));
    }
    return true;
}

/* Runs a plan beside the reference's, which lies in a file. */
static bool run_plan(const FuzzNet *net, const Compiled *compiled, const char *reference, NetFault fault, NetReport *report) {
    Arena arena;
    Plan plan;
    Error error = {0};
    Executor *executor = NULL;
    Device device = {0};
    Verifier *verifier = NULL;
    arena_init(&arena);
    Comm *comm = comm_local_create(fuzz_ranks(net), &error);
    bool ok = comm && plan_read(&plan, &arena, compiled->path, compiled->text, compiled->n, 0, &error);
    if (ok) {
        count_plan(&plan, report);
        seed_fault(fault, &plan);
        ok = test_device(&device, &comm, &error);
        executor = ok ? executor_create(&plan, "train", &device, comm, ".", 1, &error) : NULL;
        verifier = executor ? verifier_create(&plan, reference, executor, comm, 1, &error) : NULL;
        ok = verifier != NULL;
    }
    if (!ok) fail(report, NET_REFUSED, error.text);
    ok = ok && check_initial(&plan, executor, &arena, report) && check_steps(net, &plan, executor, verifier, &arena, report);
    verifier_destroy(verifier);
    executor_destroy(executor);
    if (comm) comm->table->destroy(comm);
    device_close(&device);
    arena_finish(&arena);
    return ok;
}

/* ---------------------------------------------------------------- one net */

static bool check_level(const FuzzNet *net, int level, const char *reference, NetFault fault, const char *path, NetReport *report) {
    Compiled compiled;
    report->level = level;
    bool ok = compile_net(&compiled, net, fuzz_ranks(net), level, path, report) && run_plan(net, &compiled, reference, fault, report);
    if (ok && level == 2 && !mode_hides(net->mode)) report->effect |= hints_matter(net, &compiled, level, path);
    arena_finish(&compiled.arena);
    return ok;
}

static bool check_levels(const FuzzNet *net, int levels, NetFault fault, const char *directory, NetReport *report) {
    Compiled one;
    Arena arena;
    arena_init(&arena);
    const char *reference = arena_printf(&arena, "%s/one.plan", directory), *path = arena_printf(&arena, "%s/many.plan", directory);
    bool ok = compile_net(&one, net, 1, 2, reference, report);
    for (int level = 2; ok && level >= 0; level--)
        if (levels & 1 << level) ok = check_level(net, level, reference, fault, path, report);
    arena_finish(&one.arena);
    arena_finish(&arena);
    return ok;
}

/* A wrong plan differs with any data; a value that happens to lie within rounding of a kink does not. */
static bool differs_always(const FuzzNet *net, int level, NetFault fault, const char *directory) {
    for (int k = 1; k <= 2; k++) {
        FuzzNet other = *net;
        NetReport report = {.communicates = true, .finite = true};
        other.data_seed += k;
        other.init_seed += k;
        if (!check_levels(&other, 1 << level, fault, directory, &report)) return true;
    }
    return false;
}

void net_check(const FuzzNet *net, int levels, NetFault fault, const char *directory, NetReport *report) {
    *report = (NetReport){.seed = net->seed, .communicates = true, .finite = true};
    count_net(net, report);
    check_levels(net, levels, fault, directory, report);
    if (report->outcome == NET_DIFFERS && !differs_always(net, report->level, fault, directory)) {
        report->outcome = NET_HOLDS;
        report->doubtful = true;
    }
}

void net_check_apart(const FuzzNet *net, int levels, NetFault fault, const char *directory, int seconds, NetReport *report) {
    int ends[2], status = 0;
    *report = (NetReport){.seed = net->seed, .outcome = NET_CRASHES};
    if (pipe(ends) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        NetReport own;
        alarm((unsigned)seconds);
        net_check(net, levels, fault, directory, &own);
        ssize_t n = write(ends[1], &own, sizeof own);
        _exit(n == (ssize_t)sizeof own ? 0 : 1);
    }
    close(ends[1]);
    NetReport own;
    size_t n = 0;
    for (ssize_t got; n < sizeof own && (got = read(ends[0], (char *)&own + n, sizeof own - n)) > 0;)
        n += (size_t)got;
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    if (n == sizeof own) {
        *report = own;
    } else if (WIFSIGNALED(status)) {
        report->outcome = WTERMSIG(status) == SIGALRM ? NET_HANGS : NET_CRASHES;
        snprintf(report->text, sizeof report->text, "signal %d", WTERMSIG(status));
    } else {
        snprintf(report->text, sizeof report->text, "its process ended with code %d", WEXITSTATUS(status));
    }
}
