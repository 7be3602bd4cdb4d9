/* run: one run of prun, from the plan's file to the reports. A mistake that all ranks see is said once; what one rank alone cannot do ends
 * the job with its name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { MAX_PLAN_BYTES = 1 << 30, LINE_BYTES = 512, MAX_TIMED = 1 << 20 };

typedef struct Run {
    const RunOptions *options;
    Comm *comm;
    Arena arena;
    Plan plan;
    uint64_t text_hash;
    const char *directory; /* of the plan's file */
    int nthreads;
    Executor *executor;
    Verifier *verifier;
    double *losses; /* gathered: nranks times the most slices */
    double *step_seconds;
    int64_t nsteps;
    bool warned; /* of a loss that is no number */
    bool agreed; /* all ranks know of the failure: they end in order; else the job is aborted */
} Run;

/* ---------------------------------------------------------------- where we run */

/* Processes that a launcher started together; 0: no launcher. */
int launched_processes(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"}, *const ranks[] = {"PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (getenv(sizes[i])) return atoi(getenv(sizes[i]));
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i])) return 2; /* how many, MPI will tell */
    return 0;
}

/* CPUs that this process may use: a launcher may have bound it to some. */
static int allowed_cpus(void) {
    char line[4096];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Cpus_allowed_list:", 18) != 0) continue;
        for (char *at = line + 18; *at && *at != '\n'; at += *at == ',') { /* "0-3,8,10-11" */
            char *end;
            long first = strtol(at, &end, 10), last = first;
            if (end == at) break;
            if (*end == '-') last = strtol(end + 1, &end, 10);
            count += (int)(last - first + 1);
            at = end;
        }
    }
    if (file) fclose(file);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? count : online > 0 ? (int)online : 1;
}

/* Processes of the job on this node: one when it drives all ranks. */
static int processes_here(const Comm *comm) {
    return comm->nprocesses == 1 || comm->nlocal < 1 ? 1 : comm->nlocal;
}

/* The cores of the node divided among its processes, at least one thread each. A process that drives all ranks runs them in turn, each on
 * all cores. */
static int threads_each(const Comm *comm) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int allowed = allowed_cpus(), share = (int)(online > 0 ? online : 1) / processes_here(comm);
    if (allowed < share && comm->process == 0)
        fprintf(stderr, "prun: note: this rank is bound to %d of %d cores and leaves the others idle; mpirun --bind-to none lets it use them\n", allowed,
                share);
    int threads = share < allowed ? share : allowed;
    return threads < 1 ? 1 : threads;
}

/* Bytes of memory that can still be had, -1: unknown. The smaller of what the kernel and the control group say. */
static int64_t available_bytes(void) {
    char line[256];
    int64_t available = -1;
    long long number, used;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld kB", &number) == 1) available = number * 1024;
    if (file) fclose(file);
    FILE *limit = fopen("/sys/fs/cgroup/memory.max", "r"), *current = fopen("/sys/fs/cgroup/memory.current", "r");
    if (limit && current && fscanf(limit, "%lld", &number) == 1 && fscanf(current, "%lld", &used) == 1 &&
        (available < 0 || number - used < available))
        available = number - used;
    if (limit) fclose(limit);
    if (current) fclose(current);
    return available;
}

/* ---------------------------------------------------------------- before training */

static bool open_comm(Run *run, int *argc, char ***argv, Error *error) {
    int launched = launched_processes();
    if (run->options->nranks > 0 && launched > 1)
        return error_set(error, EXIT_USAGE, "--ranks runs all ranks in one process: leave out mpirun, or --ranks");
    if (run->options->nranks > 0)
        run->comm = comm_local_create(run->options->nranks, error);
    else if (launched > 1)
        run->comm = comm_mpi_create(argc, argv, error);
    else
        run->comm = comm_local_create(1, error);
    return run->comm != NULL;
}

/* What rank 0 has read, for all. */
static bool share_file(Run *run, const char **text, size_t *n, int64_t bytes, Error *error) {
    Comm *comm = run->comm;
    char *copy = arena_alloc(&run->arena, (size_t)bytes + 1);
    if (comm->process == 0) memcpy(copy, *text, (size_t)bytes);
    *text = copy;
    *n = (size_t)bytes;
    return comm->table->broadcast(comm, copy, bytes, error);
}

/* Rank 0 reads the files, all get their bytes. */
static bool read_plan(Run *run, Error *error) {
    Comm *comm = run->comm;
    const char *path = run->options->plan;
    PlanFiles files = {0};
    bool ok = comm->process != 0 || plan_files_read(&files, &run->arena, path, MAX_PLAN_BYTES, error);
    int64_t head[4] = {ok ? 0 : error->code, (int64_t)files.n, files.side != NULL, (int64_t)files.nside};
    if (!comm->table->broadcast(comm, head, sizeof head, error)) return run->agreed = false;
    if (head[0] != 0) return comm->process == 0 ? false : error_set(error, (int)head[0], "%s", "");
    if (!share_file(run, &files.text, &files.n, head[1], error)) return run->agreed = false;
    if (head[2] && !share_file(run, &files.side, &files.nside, head[3], error)) return run->agreed = false;
    for (size_t i = 0; i < files.n; i++)
        run->text_hash = (run->text_hash ^ (unsigned char)files.text[i]) * 0x100000001b3u; /* FNV-1a; it names the side file's checksum */
    const char *slash = strrchr(path, '/');
    run->directory = slash ? arena_copy(&run->arena, path, (size_t)(slash - path + (slash == path))) : ".";
    return comm_agree(comm, plan_read_files(&run->plan, &run->arena, path, &files, 0, error), error);
}

/* All ranks hold the same plan: what they read is one text and one net. */
static bool check_same(Run *run, Error *error) {
    Comm *comm = run->comm;
    const uint64_t own[2] = {run->text_hash, run->plan.net_hash};
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nprocesses * sizeof *words);
    for (int i = 0; comm->nprocesses > 1 && i < 2; i++) {
        if (!comm->table->all_gather_words(comm, own[i], words, error)) return run->agreed = false;
        for (int p = 0; p < comm->nprocesses; p++)
            if (words[p] != words[0])
                return error_set(error, EXIT_REJECTED, "rank %d has another plan than rank 0 (%s differs)", p, i ? "net hash" : "text");
    }
    return true;
}

static bool check_ranks(const Run *run, Error *error) {
    int needs = run->plan.graph.nranks, has = run->comm->nranks;
    const char *path = run->options->plan;
    char started[64] = "";
    if (needs == has) return true;
    if (run->options->nranks > 0)
        snprintf(started, sizeof started, ", --ranks says %d", has);
    else if (run->comm->nprocesses > 1)
        snprintf(started, sizeof started, ", %d were started", has);
    const char *s = needs == 1 ? "" : "s";
    return error_set(error, EXIT_REJECTED, "this plan is for %d rank%s%s: run `mpirun -n %d prun %s` or `prun --ranks %d %s`", needs, s,
                     started, needs, path, needs, path);
}

static int find_state(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->states.n; i++)
        if (strcmp(graph->states.at[i].name, name) == 0) return i;
    return -1;
}

static bool check_prints(Run *run, Error *error) {
    const Graph *graph = &run->plan.graph;
    for (int i = 0; i < run->options->nprints; i++) {
        const char *name = run->options->prints[i];
        if (find_state(graph, name) >= 0) continue;
        const char **names = arena_alloc(&run->arena, (size_t)graph->states.n * sizeof *names);
        for (int k = 0; k < graph->states.n; k++)
            names[k] = graph->states.at[k].name;
        const char *near = name_nearest(name, names, graph->states.n);
        if (near) return error_set(error, EXIT_USAGE, "--print %s: the net has no such parameter; did you mean %s?", name, near);
        return error_set(error, EXIT_USAGE, "--print %s: the net has no such parameter", name);
    }
    return true;
}

static bool check_steps(const Run *run, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    int64_t steps;
    if (settings->epochs >= 0 && settings->steps >= 0 && mul_checked(settings->epochs, settings->steps, &steps)) return true;
    return error_set(error, EXIT_REJECTED, "%lld epochs of %lld steps are too many", (long long)settings->epochs,
                     (long long)settings->steps);
}

/* Steps whose times are kept: the first million are enough for a median. */
static int64_t timed_steps(const Run *run) {
    int64_t steps;
    bool fits = mul_checked(run->plan.graph.settings.epochs, executor_steps(run->executor), &steps);
    return fits && steps < MAX_TIMED ? steps : MAX_TIMED;
}

/* What a process needs beside its ranks' tensors: the numbers of its data source, and the largest file of initial values while it is read. */
static double process_bytes(const Graph *graph) {
    double largest = 0;
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        double bytes = (double)shape_elements(&state->type.shape) * (double)(sizeof(double) + (size_t)dtype_bytes[state->type.dtype]);
        if (state->init.kind == INIT_FILE && bytes > largest) largest = bytes;
    }
    return data_bytes(graph) + largest;
}

static bool check_memory(const Run *run, Error *error) {
    const Comm *comm = run->comm;
    double arena = 0, states = 0, inputs = 0, data = process_bytes(&run->plan.graph), mib = 1 << 20;
    for (int i = 0; i < comm->ndriven; i++) {
        ExecutorMemory one;
        executor_memory(&run->plan, "train", comm->first_driven + i, &one);
        arena += (double)one.arena_bytes;
        states += (double)one.state_bytes;
        inputs += (double)one.input_bytes;
    }
    int64_t available = available_bytes(), nlocal = processes_here(comm);
    double each = arena + states + inputs + data;
    if (available < 0 || each * (double)nlocal <= (double)available) return true;
    return error_set(error, EXIT_ENVIRONMENT,
                     "not enough memory on %s: %lld process%s with %.1f MiB each (arena %.1f, states %.1f, inputs %.1f, reading them %.1f), %.1f MiB "
                     "are free: use more nodes, more ranks or a smaller batch",
                     comm->node, (long long)nlocal, nlocal == 1 ? "" : "es", each / mib, arena / mib, states / mib, inputs / mib, data / mib,
                     (double)available / mib);
}

static bool prepare(Run *run, int *argc, char ***argv, Error *error) {
    if (!open_comm(run, argc, argv, error) || !read_plan(run, error)) return false;
    bool ok = check_same(run, error) && check_ranks(run, error) && check_prints(run, error) && check_steps(run, error) &&
              check_memory(run, error);
    if (!comm_agree(run->comm, ok, error)) return false;
    run->nthreads = threads_each(run->comm);
    run->executor = executor_create(&run->plan, "train", &backend_cpu, run->comm, run->directory, run->nthreads, error);
    if (!run->executor) return false;
    if (run->options->verify) {
        run->verifier = verifier_create(&run->plan, run->options->verify, run->executor, run->comm, run->nthreads, error);
        if (!run->verifier) return false;
    }
    run->losses = arena_alloc(&run->arena, (size_t)run->comm->nranks * (size_t)executor_most_slices(run->executor) * sizeof *run->losses);
    run->step_seconds = arena_alloc(&run->arena, (size_t)timed_steps(run) * sizeof *run->step_seconds);
    return true;
}

/* ---------------------------------------------------------------- what is printed */

/* Whole lines, at once. */
static bool say(Run *run, const Text *text, Error *error) {
    if (text->n == 0 || (fwrite(text->at, 1, text->n, stdout) == text->n && fflush(stdout) == 0)) return true;
    run->agreed = false; /* only this rank prints, only it knows */
    return error_set(error, EXIT_ENVIRONMENT, "cannot write the output: is the disk full?");
}

/* -v: one line a rank, in order, from rank 0. */
static bool report_ranks(Run *run, Error *error) {
    Comm *comm = run->comm;
    char line[LINE_BYTES];
    char *lines = arena_alloc(&run->arena, (size_t)comm->nprocesses * LINE_BYTES);
    snprintf(line, sizeof line, "node %s, pid %ld, %d thread%s, %s", comm->node, (long)getpid(), run->nthreads,
             run->nthreads == 1 ? "" : "s", comm->transport);
    bool one_process = comm->nprocesses == 1;
    if (!one_process) {
        char with_rank[LINE_BYTES];
        snprintf(with_rank, sizeof with_rank, "local rank %d of %d, %.400s", comm->local_rank, comm->nlocal, line);
        if (!comm->table->gather_text(comm, with_rank, LINE_BYTES, lines, error)) return run->agreed = false;
    }
    if (comm->process != 0) return true;
    Text text = {0};
    for (int r = 0; r < comm->nranks; r++)
        if (one_process)
            text_printf(&text, "rank %d: local rank %d of %d, %s\n", r, r, comm->nranks, line);
        else
            text_printf(&text, "rank %d: %s\n", r, lines + (size_t)r * LINE_BYTES);
    text_printf(&text, "certificate: %s\n", run->plan.certificate ? run->plan.certificate : "none: nothing was proved of this plan");
    bool ok = say(run, &text, error);
    text_finish(&text);
    return ok;
}

/* Warns once of a loss that is no number; training goes on. */
static void warn_of(Run *run, double loss, int64_t epoch, int64_t step) {
    if (isfinite(loss) || run->warned) return;
    run->warned = true;
    fprintf(stderr, "prun: warning: the loss is %s since epoch %lld step %lld: is the learning rate too high?\n",
            isnan(loss) ? "nan" : "infinite", (long long)epoch, (long long)step);
}

static void print_loss(Text *text, const char *who, int number, int64_t epoch, int64_t step, double loss) {
    char digits[NUMBER_MAX];
    number_print(digits, loss);
    if (who) text_printf(text, "[%s %d] ", who, number);
    text_printf(text, "epoch: %lld step: %lld, loss is %s\n", (long long)epoch, (long long)step, digits);
}

/* data_parallel: the loss of each replica, once, in their order; else rank 0's, or all ranks'. Collective. */
static bool report_losses(Run *run, int64_t epoch, int64_t step, Error *error) {
    Comm *comm = run->comm;
    int most = executor_most_slices(run->executor), first, replicas = run->plan.graph.replicas;
    if (most == 0) return true;
    bool several = replicas > 0 || run->options->all_ranks;
    if (several && !executor_gather_losses(run->executor, run->losses, error)) return run->agreed = false;
    const double *own = run->losses;
    if (comm->process != 0) return true;
    if (!several && executor_losses(run->executor, 0, &own) == 0) return true;
    Text text = {0};
    for (int r = 0, printed = 0; r < (several ? comm->nranks : 1); r++) {
        int n = executor_slices(run->executor, r, &first);
        for (int k = 0; k < n; k++) {
            double loss = own[(int64_t)r * most + k];
            warn_of(run, loss, epoch, step);
            if (replicas == 0)
                print_loss(&text, several && comm->nranks > 1 ? "rank" : NULL, r, epoch, step, loss);
            else if (first + k == printed)
                print_loss(&text,
                           replicas == 1              ? NULL
                           : replicas == comm->nranks ? "rank"
                                                      : "replica",
                           printed, epoch, step, loss),
                    printed++;
        }
    }
    bool ok = say(run, &text, error);
    text_finish(&text);
    return ok;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of the steps but the first, which warms up. */
static void report_time(const Run *run, Text *text) {
    int64_t kept = run->nsteps < MAX_TIMED ? run->nsteps : MAX_TIMED, first = kept > 1 ? 1 : 0, n = kept - first;
    if (n == 0) return;
    qsort(run->step_seconds + first, (size_t)n, sizeof *run->step_seconds, compare_doubles);
    double median = (run->step_seconds[first + (n - 1) / 2] + run->step_seconds[first + n / 2]) / 2;
    text_printf(text, "time per step: %.3f ms (median of %lld)\n", median * 1e3, (long long)n);
}

/* What communicators counted, against the plan. Collective. */
static bool report_bytes(Run *run, Text *text, Error *error) {
    Comm *comm = run->comm;
    if (!comm->table->barrier(comm, error)) return run->agreed = false; /* counters are exact */
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nranks * sizeof *words), most = 0, least = UINT64_MAX;
    if (comm->nprocesses > 1) {
        if (!comm->table->all_gather_words(comm, (uint64_t)executor_sent_bytes(run->executor, 0), words, error)) return run->agreed = false;
    } else {
        for (int r = 0; r < comm->nranks; r++)
            words[r] = (uint64_t)executor_sent_bytes(run->executor, r);
    }
    if (run->nsteps == 0) return true;
    for (int r = 0; r < comm->nranks; r++) {
        if (words[r] > most) most = words[r];
        if (words[r] < least) least = words[r];
    }
    double each = (double)run->nsteps;
    text_printf(text, "sent per rank and step: %.15g bytes", (double)most / each);
    if (least != most) text_printf(text, " by the busiest, %.15g by the idlest", (double)least / each);
    text_printf(text, " (plan: at most %lld)\n", (long long)run->plan.programs.at[0].sent_bytes);
    return true;
}

static bool report_parameters(Run *run, Text *text, Error *error) {
    for (int i = 0; i < run->options->nprints; i++) {
        int state = find_state(&run->plan.graph, run->options->prints[i]);
        const TensorType *type = &run->plan.graph.states.at[state].type;
        double *whole;
        if (!executor_gather_state(run->executor, state, &run->arena, &whole, error)) return run->agreed = false;
        text_printf(text, "%s = ", run->options->prints[i]);
        tensor_print(text, &type->shape, type->dtype, whole);
        text_append(text, "\n", 1);
    }
    return true;
}

/* ---------------------------------------------------------------- training */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool train_step(Run *run, int64_t epoch, int64_t step, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    if (run->verifier && !verifier_before(run->verifier, error)) return run->agreed = false;
    double begin = seconds();
    if (!executor_step(run->executor, epoch, step, error)) return run->agreed = false;
    if (run->nsteps < MAX_TIMED) run->step_seconds[run->nsteps] = seconds() - begin;
    run->nsteps++;
    if (settings->log_every <= 0 || run->nsteps % settings->log_every == 0) {
        if (!report_losses(run, epoch, step, error)) return false;
    } else {
        const double *losses;
        if (run->comm->process == 0 && executor_losses(run->executor, 0, &losses) > 0) warn_of(run, losses[0], epoch, step);
    }
    return !run->verifier || verifier_after(run->verifier, epoch, step, error);
}

static bool train(Run *run, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    if (run->options->verbose && !report_ranks(run, error)) return false;
    for (int64_t epoch = 1; epoch <= settings->epochs; epoch++)
        for (int64_t step = 1; step <= executor_steps(run->executor); step++)
            if (!train_step(run, epoch, step, error)) return false;
    Text text = {0};
    report_time(run, &text);
    bool ok = report_bytes(run, &text, error);
    if (ok && run->verifier) verifier_report(run->verifier, &text);
    ok = ok && report_parameters(run, &text, error);
    if (ok && run->comm->process == 0) ok = say(run, &text, error);
    text_finish(&text);
    return ok;
}

int run(const RunOptions *options, int *argc, char ***argv) {
    Run run = {.options = options, .text_hash = 0xcbf29ce484222325u, .agreed = true};
    Error error = {0};
    arena_init(&run.arena);
    plan_init(&run.plan, &run.arena);
    bool ok = prepare(&run, argc, argv, &error) && train(&run, &error);
    int code = ok ? EXIT_DONE : error.code;
    if (!ok && error.text[0] != '\0') fprintf(stderr, "prun: %s\n", error.text); /* empty where another rank says it: comm_agree */
    /* The others may be waiting for this rank in a communication. */
    if (!ok && !run.agreed && run.comm && run.comm->nprocesses > 1) run.comm->table->abort(run.comm, code);
    verifier_destroy(run.verifier);
    executor_destroy(run.executor);
    if (run.comm) run.comm->table->destroy(run.comm);
    arena_finish(&run.arena);
    return code;
}
