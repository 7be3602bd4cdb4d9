/* runtime: prun. Executes plans; knows nothing of the compiler.
 *
 *   main.c     the command line
 *   run.c      one run: loading, checks before training, the loop, the reports; outputs.c: checks that no output overwrites an input
 *   print.c    losses and parameters as people read them
 *   load.c     a plan's role resolved into buffers, kernel calls and requests, once
 *   fit.c      whether the operands of its steps fit together
 *   fuse.c     fused steps, and calls that a device takes together
 *   best.c     which evaluation is the best, and early stopping; training.h: what only runs that train have
 *   evaluate.c the program eval: metrics over all rows, predictions
 *   generate.c the programs generate and prompt: text; prompts.c: prompts and tokens
 *   resources.c  where it runs: processes, memory, the device
 *   launch.c   --nproc: ranks as processes of this prun; fewer.c: plans for fewer of them
 *   plot.c     --plot: pictures of what metrics.c has written
 *   results.c  what a step leaves: losses, reports, states
 *   lengths.c  programs for shorter texts: chooses one for each step
 *   exec.c     one cursor per rank over the steps of its role; kernels, transfers, waits
 *   checkpoint.c, index.c, checksum.c, slices.c, tensors.c  states in files, and back; export.c: --export
 *   state.c    initial values, by global index; npy.c: files
 *   data/      inputs: generators, files, the order of rows
 *   pool.c     threads that share one loop
 *   limits.c   cores, memory and addresses that the system grants
 *   page.c     --report: what is measured, in the plan's page; lanes.c, lanes_gather.c: what ran when, on all ranks; curve.c: losses
 *   profile.c  --profile and --trace: where the time of steps goes; peak.c: what the device can do
 *   device.c   where tensors live: the CPU, or the backend of a module
 *   calibrate.c  --calibrate: latency and bandwidth by level, for pcc --machine
 *   verify.c   --verify: a one-rank plan of the same net beside the run; disturb.c: how much rounding matters
 *   chain.c    the elementwise operators of a fused step as one program
 *   nest.c     loops over several tensors at once, parts.c: where parts of tensors begin, product.c: contractions as matrix products; for kernels
 *   cpu/       the CPU backend: a kernel per operator
 *   cuda/      the CUDA backend, a module: prun_cuda.so
 *   comm/      communicators: local (all ranks in one process) and job (one rank per process, by MPI or TCP)
 *
 * This header: what run.c, resources.c, outputs.c, replicas.c, report.c and log.c share. */
#pragma once
#include "runtime/executor.h"
#include "runtime/index.h"
#include "runtime/options.h"

enum { MAX_TIMED = 1 << 20 }; /* steps whose times are kept: the first million are enough for a median */

typedef struct RunLog RunLog;     /* log.c */
typedef struct Training Training; /* training.h */

typedef struct Run {
    const RunOptions *options;
    Comm *comm;
    Arena arena;
    Plan plan;
    const char *path, *directory; /* of the plan's file: options->plan, or one for fewer ranks (fewer.h) */
    Position position;            /* where training stands */
    int64_t epoch_steps;          /* steps of position's epoch: tells which step ends it; 0: no training has a position */
    struct Room *room;            /* resources.c: the memory that tensors need; NULL before open_device */
    int nthreads;
    Device device;                 /* that the programs run on */
    Executor *executor;            /* of the program train; NULL: evaluates only */
    struct Evaluation *evaluation; /* NULL: there is nothing to evaluate */
    struct Generator *generator;   /* NULL: nothing is generated */
    RunLog *log;
    Training *training;
    int64_t replicas_compared; /* --check-replicas */
    double *losses;            /* gathered: nranks * executor_most_slices */
    double *step_seconds;
    int64_t nsteps;    /* done by this run */
    OnNan on_nan;      /* --on-nan, or what the plan says */
    int64_t seen_step; /* the last step whose loss was seen and is finite */
    bool unheard;      /* something could not be printed */
    bool agreed;       /* all ranks know of the failure: they end normally; else the job is aborted */
} Run;

bool evaluates_again(const Run *run); /* whether it evaluates at the step that it resumes from */
/* The state that a --print names, "w" or "w:full"; -1: none. */
int find_print(const Graph *graph, const char *print, bool *full);
Executor *state_holder(const Run *run); /* the executor whose states are the run's */
/* Sends a text of `bytes` bytes that rank 0 has read to all: in the arena. Collective. */
bool share_file(Run *run, const char **text, size_t *n, int64_t bytes, Error *error);

static inline bool evaluates_only(const Run *run) {
    return run->options->eval || run->options->predict;
}
static inline bool generates_only(const Run *run) {
    return run->options->ngenerate >= 0;
}

/* ---------------------------------------------------------------- resources.c */

/* The cores of the node divided among its processes, at least one thread each. A process that drives all ranks runs them in turn, each on
 * all cores. */
int threads_each(const Comm *comm);
/* Opens the device that this process's ranks run on, once there is known to be enough memory, and the communicator over its memory, which replaces
 * run->comm. Collective. */
bool open_device(Run *run, Error *error);
/* Before rows are read: whether there is memory for those that must be held in addition to the tensors. Their number is known once the files are open. */
bool check_held(const Run *run, Error *error);

/* ---------------------------------------------------------------- outputs.c */

/* Whether no output file that options name would overwrite an input file or another output; if not, EXIT_USAGE. */
bool check_outputs(Run *run, Error *error);
const char *plan_folder(const char *path, Arena *arena); /* the folder of the plan's file, in which files that it names are looked for */
bool check_export(const RunOptions *options, const Plan *plan, Arena *arena, Error *error); /* the same for --export */

/* ---------------------------------------------------------------- replicas.c */

/* Whether ranks that hold the same part of a state hold the same bits. EXIT_MISMATCH names state and ranks; when: "epoch 1 step 2". Collective. */
bool replicas_check(Run *run, const char *when, Error *error);

/* ---------------------------------------------------------------- report.c */

/* Prints to stdout at once. If that fails, training goes on, with a message, and Run.unheard is set. */
void say(Run *run, const Text *text);
bool report_ranks(Run *run, Error *error); /* -v: one line per rank. Collective */
void report_time(const Run *run, Text *text);
bool report_bytes(Run *run, Text *text, Error *error);      /* bytes that communicators counted, compared with the plan. Collective */
bool report_read(Run *run, Text *text, Error *error);       /* -v: bytes that processes read from files of rows. Collective */
bool report_parameters(Run *run, Text *text, Error *error); /* --print. Collective */
