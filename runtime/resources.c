/* resources: what a run uses: its processes and their cores, memory, and the device. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/wire.h"
#include "runtime/evaluate.h"
#include "runtime/generate.h"
#include "runtime/launch.h"
#include "ir/limits.h"
#include "runtime/run.h"

/* Memory that this process's tensors need. */
struct Room {
    double bytes;        /* of main memory; with a device: what lies there besides */
    double device_bytes; /* of the device's memory, with a device */
    bool odd_rows;       /* ExecutorMemory.odd_rows of any of its ranks */
    int64_t available;   /* memory that was there before them, -1: unknown */
};

/* ---------------------------------------------------------------- processes, cores, memory */

/* Processes that a launcher started together; 0: no launcher. */
int launched_processes(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"}, *const ranks[] = {"PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (getenv(sizes[i])) return atoi(getenv(sizes[i]));
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i])) return 2; /* MPI will tell how many */
    return 0;
}

int slurm_processes(bool *alone) {
    return meeting_slurm(alone);
}

const char *launch_lacks(void) {
    const bool address = getenv("MASTER_ADDR") != NULL, port = getenv("MASTER_PORT") != NULL;
    if (!getenv("RANK") || !getenv("WORLD_SIZE") || (address && port)) return NULL;
    return address ? "MASTER_PORT" : port ? "MASTER_ADDR" : "MASTER_ADDR and MASTER_PORT";
}

/* Whether a launcher has started as many ranks as the plan is for. If not, the first one of a node reports it before the others end. */
static bool meets_plan(const RunOptions *options, const Meeting *meeting, Error *error) {
    char started[80];
    snprintf(started, sizeof started, "%.60s says", meeting->counts);
    if (options->launch.nproc > 0 || launch_fits(options, meeting->nranks, started, error)) return true;
    if (meeting->rank == 0 || meeting->local_rank <= 0) return false;
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return error_reported(error, EXIT_REJECTED);
}

static const double fewer_wait_s = 30; /* with --min-ranks: as long as torchrun waits for nodes beyond its minimum */

Comm *comm_of_launch(const RunOptions *options, int *argc, char ***argv, Error *error) {
    Meeting meeting;
    if (launched_processes() > 1) return comm_job_create(argc, argv, NULL, options->common, error);
    if (options->nranks > 0) return comm_local_create(options->nranks, error);
    if (!meeting_find(&meeting, error)) return error->text[0] ? NULL : comm_local_create(1, error);
    if (!meets_plan(options, &meeting, error)) return NULL;
    if (options->nfewer > 0) meeting.timeout_s = fewer_wait_s;
    if (options->launch.start_timeout_s >= 0) meeting.timeout_s = options->launch.start_timeout_s;
    meeting.job = options->launch.job ? options->launch.job : "";
    meeting.launcher = options->launch.self;
    meeting.per_node = options->launch.nproc;
    if (options->launch.nproc > 0) meeting.listening = options->launch.listening;
    meeting.fewer = options->fewer_ranks;
    meeting.nfewer = options->fewer_ranks ? options->nfewer : 0;
    return comm_job_create(argc, argv, &meeting, options->common, error);
}

/* Processes of the job on this node: one when it drives all ranks. */
static int processes_here(const Comm *comm) {
    return comm->nprocesses == 1 || comm->nlocal < 1 ? 1 : comm->nlocal;
}

int threads_each(const Comm *comm) {
    int allowed = limits_bound_cores(), share = limits_cores("") / processes_here(comm);
    if (allowed < share && comm->process == 0)
        fprintf(stderr,
                "prun: note: this rank is bound to %d of %d cores and leaves the others idle; mpirun --bind-to none lets it use them\n",
                allowed, share);
    int threads = share < allowed ? share : allowed;
    return threads < 1 ? 1 : threads;
}

/* What a process needs besides its ranks' tensors: the numbers of its data source, and the largest file of initial values while it is read.
 */
static double process_bytes(const Graph *graph) {
    double largest = 0;
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        double bytes = (double)shape_elements(&state->type.shape) * (double)(sizeof(double) + (size_t)dtype_bytes[state->type.dtype]);
        if (state->init.kind == INIT_FILE && bytes > largest) largest = bytes;
    }
    return data_bytes(graph) + largest;
}

/* Whether the node has enough memory. Whether a device has enough shows when it is allocated. */
static bool check_memory(Run *run, bool on_host, Error *error) {
    const Comm *comm = run->comm;
    double arena = 0, states = 0, inputs = 0, data = process_bytes(&run->plan.graph), mib = 1 << 20;
    bool odd_rows = false;
    for (int i = 0; i < comm->ndriven; i++) {
        ExecutorMemory one = {0}, eval;
        if (!evaluates_only(run) && !generates_only(run)) executor_memory(&run->plan, "train", comm->first_driven + i, &one);
        if (generates_only(run))
            generator_memory(&run->plan, comm->first_driven + i, &eval);
        else
            evaluation_memory(&run->plan, comm->first_driven + i, evaluates_only(run), &eval);
        arena += (double)one.arena_bytes + (double)eval.arena_bytes;
        states += (double)one.state_bytes + (double)eval.state_bytes;
        inputs += (double)one.input_bytes + (double)eval.input_bytes;
        odd_rows = odd_rows || one.odd_rows || eval.odd_rows;
    }
    int64_t available = limits_memory(""), addresses = limits_addresses(), nlocal = processes_here(comm);
    /* The memory that several processes share is mapped already. */
    if (comm->nprocesses == 1 && addresses >= 0 && (available < 0 || addresses < available)) available = addresses;
    run->room = arena_alloc(&run->arena, sizeof *run->room);
    run->room->device_bytes = on_host ? 0 : arena + states + inputs;
    run->room->odd_rows = odd_rows;
    if (!on_host) arena = states = 0; /* inputs go through page-locked memory */
    double each = arena + states + inputs + data;
    run->room->bytes = each;
    run->room->available = available;
    if (available < 0 || each * (double)nlocal <= (double)available) return true;
    return error_set(
        error, EXIT_ENVIRONMENT,
        "not enough memory on %s: %lld process%s with %.1f MiB each (arena %.1f, states %.1f, inputs %.1f, reading them %.1f), %.1f MiB "
        "are free: use more nodes, more ranks or a smaller batch",
        comm->node, (long long)nlocal, nlocal == 1 ? "" : "es", each / mib, arena / mib, states / mib, inputs / mib, data / mib,
        (double)available / mib);
}

bool check_held(const Run *run, Error *error) {
    const Comm *comm = run->comm;
    const char *path = NULL, *eval_path = NULL;
    double train = run->executor ? executor_held_bytes(run->executor, &path) : 0, mib = 1 << 20;
    double eval = run->evaluation ? executor_held_bytes(evaluation_executor(run->evaluation), &eval_path) : 0;
    if (eval_path && (!path || eval > train)) path = eval_path;
    int64_t nlocal = processes_here(comm);
    double each = run->room->bytes + train + eval;
    if (run->room->available < 0 || each * (double)nlocal <= (double)run->room->available) return true;
    return error_set(
        error, EXIT_ENVIRONMENT,
        "not enough memory on %s: %lld process%s with %.1f MiB each, of them %.1f for the rows of an epoch%s%s, %.1f MiB were free: %s",
        comm->node, (long long)nlocal, nlocal == 1 ? "" : "es", each / mib, (train + eval) / mib, path ? ", most of them of " : "",
        path ? path : "", (double)run->room->available / mib,
        path ? "gzip and CSV are held, .npy or raw files are read where a row stands" : "use more nodes, or order = file");
}

/* ---------------------------------------------------------------- the device */

/* The device that the user has chosen, NULL: none. */
static const char *chosen_device(const RunOptions *options) {
    const char *variable = getenv("PRUN_DEVICE");
    return options->device ? options->device : variable && *variable ? variable : NULL;
}

/* Checks PRUN_DEVICE; main.c has checked --device. */
static bool check_device_choice(const RunOptions *options, const char *chosen, Error *error) {
    if (!chosen || strcmp(chosen, "cuda") == 0) return true;
    if (strcmp(chosen, "cpu") != 0) return error_set(error, EXIT_USAGE, "PRUN_DEVICE is cpu or cuda, not '%s'", chosen);
    return !options->comm || error_set(error, EXIT_USAGE, "--comm is for GPUs, and PRUN_DEVICE=cpu: leave it out");
}

/* Chooses the module's backend where all processes can use it; the CPU's where the user has said so, or where one process cannot and nobody
 * asked for GPUs. */
static bool choose_backend(Run *run, const Backend **backend, Error *error) {
    const RunOptions *options = run->options;
    Comm *comm = run->comm;
    const char *chosen = chosen_device(options);
    char why[512] = "";
    *backend = &backend_cpu;
    if (!comm_agree(comm, check_device_choice(options, chosen, error), error)) return false;
    if (chosen && strcmp(chosen, "cpu") == 0) return true;
    Error failure = {0};
    const DeviceModule *module = device_module(&failure);
    bool can = module && module->count(why, sizeof why) > 0;
    if (!module) snprintf(why, sizeof why, "%.500s", failure.text);
    const char *asks = options->device ? "--device cuda" : chosen ? "PRUN_DEVICE=cuda" : options->comm ? "--comm is for GPUs" : NULL;
    if (asks && !can) error_set(error, EXIT_ENVIRONMENT, "%s: %s", asks, why);
    if (asks && !comm_agree(comm, can, error)) return false;
    Error agreed;
    error_set(&agreed, EXIT_ENVIRONMENT, "%s", why);
    if (comm_agree(comm, can, &agreed)) {
        *backend = module->backend;
        return true;
    }
    /* A prun built for the CPU alone, or on a machine without a driver, runs as it should, and mentions it only to users who may expect a device. */
    bool wants = options->tf32 || options->wait || options->no_graph || options->verbose;
    if (!agreed.reported && (wants || device_is_expected())) fprintf(stderr, "prun: note: runs on the CPU: %s\n", agreed.text);
    return true;
}

bool open_device(Run *run, Error *error) {
    const RunOptions *options = run->options;
    Comm *comm = run->comm;
    const Backend *backend;
    if (!choose_backend(run, &backend, error)) return false;
    uint64_t most_threads = (uint64_t)run->nthreads;
    if (!comm_agree(comm, check_memory(run, backend->host, error), error) || !comm_most(comm, &most_threads, error)) return false;
    DeviceOptions device = {.rank = comm->first_driven,
                            .local_rank = comm->local_rank,
                            .nlocal = processes_here(comm),
                            .nthreads = run->nthreads,
                            .most_threads = (int)most_threads,
                            .deterministic = options->deterministic,
                            .tf32 = options->tf32,
                            .wait = options->wait,
                            .odd_rows = run->room->odd_rows,
                            .plan_bytes = run->room->device_bytes};
    if (!comm_agree(comm, device_open(&run->device, backend, &device, error), error)) return false;
    if (backend->host) return true;
    Comm *moved = backend->queue->comm(run->device.context, comm, options->comm ? options->comm : "auto", error);
    if (moved) run->comm = moved;
    return moved != NULL;
}
