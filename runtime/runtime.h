/* runtime: prun. Executes plans; knows nothing of the compiler.
 *
 *   main.c     the command line
 *   run.c      one run: loading, checks before training, the loop, the reports; outputs.c: that nothing is written over what is read
 *   print.c    losses and parameters as people read them
 *   load.c     a plan's role resolved into buffers, kernel calls and requests, once
 *   fit.c      whether the operands of its steps fit together
 *   evaluate.c the program eval: metrics over all rows, predictions
 *   place.c    where it runs: processes, memory, the device
 *   results.c  what a step leaves: losses, reports, states
 *   exec.c     one cursor a rank over the steps of its role; kernels, transfers, waits
 *   checkpoint.c, index.c, checksum.c, tensors.c  states in files, and back
 *   state.c    initial values, by global index; npy.c: files
 *   data/      inputs: generators, files, the order of rows
 *   pool.c     threads that share one loop
 *   limits.c   cores, memory and addresses that the system grants
 *   profile.c  --profile and --trace: where the time of steps goes; peak.c: what the device can do
 *   device.c   where tensors live: the CPU, or the backend of a module
 *   calibrate.c  --calibrate: latency and bandwidth by level, for pcc --machine
 *   verify.c   --verify: a one-rank plan of the same net beside the run
 *   nest.c     loops over several tensors at once, cut.c: where parts of tensors begin, product.c: contractions as matrix products; for kernels
 *   cpu/       the CPU backend: a kernel per operator
 *   cuda/      the CUDA backend, a module: prun_cuda.so
 *   comm/      communicators: local (all ranks in one process) and mpi
 */
#pragma once
#include "ir/plan.h"

/* ---------------------------------------------------------------- elements */

/* Element i of ordinary memory that holds elements of this type; value must be in its range. Exact but for i64 beyond 2^53. */
static inline double element_at(const void *data, DType dtype, int64_t i) {
    switch (dtype) {
    case F32:
        return ((const float *)data)[i];
    case F64:
        return ((const double *)data)[i];
    case I32:
        return ((const int32_t *)data)[i];
    case I64:
        return (double)((const int64_t *)data)[i];
    case BOOL:
        return ((const uint8_t *)data)[i];
    case NDTYPES:
        break;
    }
    return 0;
}
static inline void element_put(void *data, DType dtype, int64_t i, double value) {
    switch (dtype) {
    case F32:
        ((float *)data)[i] = (float)value;
        return;
    case F64:
        ((double *)data)[i] = value;
        return;
    case I32:
        ((int32_t *)data)[i] = (int32_t)value;
        return;
    case I64:
        ((int64_t *)data)[i] = (int64_t)value;
        return;
    case BOOL:
        ((uint8_t *)data)[i] = value != 0;
        return;
    case NDTYPES:
        return;
    }
}

/* ---------------------------------------------------------------- pool.c */

/* Threads that wait for loops to share. */
typedef struct Pool Pool;
/* fn on [begin, end): called with disjoint ranges that cover the whole, at the same time. */
typedef void PoolFn(void *context, int64_t begin, int64_t end);
/* nthreads counts the caller's. NULL and *error when threads cannot be started. */
Pool *pool_create(int nthreads, Error *error);
void pool_destroy(Pool *pool); /* takes NULL */
int pool_threads(const Pool *pool); /* 1 for NULL */
/* Runs fn over [0, n) in ranges of at least `grain` items (balanced, in order, one a thread). Small loops and a NULL pool run on the caller's
 * thread. Not reentrant: fn must not call it. */
void pool_run(Pool *pool, int64_t n, int64_t grain, PoolFn *fn, void *context);

/* ---------------------------------------------------------------- backends */

/* An operand or result as a kernel sees it: this rank's box of a global tensor, contiguous, row-major. Hidden dimensions are taken off by the
 * executor, which calls the kernel once per slice (boundary operators see them). */
typedef struct Operand {
    void *data;
    DType dtype;
    Shape local;     /* sizes of the box */
    Shape global;    /* sizes of the whole tensor */
    Box box;         /* where the box lies in it */
} Operand;

typedef struct KernelCall {
    OpCode op;
    const Attr *attr;
    int nin, nout;
    Operand in[MAX_IN], out[MAX_OUT];
    int nthreads;
    const Rule *rule; /* letters of operands and results, hidden dimension taken off: einsum, sum_to, ... */
    void *context;    /* the backend's, from open; NULL: no threads */
} KernelCall;
typedef bool KernelFn(const KernelCall *call, Error *error);

/* What a backend is opened with. */
typedef struct DeviceOptions {
    int rank, local_rank, nlocal; /* first rank that this process drives; number of this process on its node, and how many there are */
    int nthreads;
    int most_threads;   /* of any process of the job; below nthreads: nthreads. What is computed alike on several ranks is cut for so many */
    bool deterministic; /* the same bits in every run */
    bool tf32;          /* products of f32 may round their factors to 11 bits */
    bool wait;          /* every kernel is waited for, so that a failure names its operator */
    double plan_bytes;  /* what tensors of this process's ranks need in all, for messages; 0: unknown */
} DeviceOptions;

struct Comm;
/* What a backend has that runs behind the process: what is asked of it is queued, and done in order. alloc to copy and kernels are queued, or wait until
 * what was queued before is done; upload and download have read and written the process's memory when they return; sync waits for everything. */
typedef struct DeviceQueue {
    /* Page-locked memory of the process, and copies out of it beside what runs: stage queues one, staged lets what is queued after it wait for all of
     * them. taken: what was staged is read by what has been queued so far, and the next stage waits for that. */
    void *(*alloc_host)(void *context, int64_t bytes, Error *error);
    void (*free_host)(void *context, void *data);
    bool (*stage)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*staged)(void *context, Error *error);
    bool (*taken)(void *context, Error *error);
    /* Called after each step that is queued and not waited for: returns when what was queued before the call before has been done, and what was staged has
     * been read from the process's memory. The device is so never idle for want of the process, which is never more than a step ahead. */
    bool (*pace)(void *context, Error *error);
    /* Calls that follow each other: how many of the first, at least 2, become one launch; 0: none do; -1: *error. last_read[i]: the last of the n calls that
     * reads results of call i, n where something else does too: results that only the launch itself reads need not be written. */
    int (*fuse)(void *context, const KernelCall *calls, int n, const int *last_read, void **fused, Error *error);
    bool (*run)(void *context, void *fused, Error *error);
    void (*unfuse)(void *context, void *fused);
    /* A step as one thing: between capture and captured what is queued is recorded and not done; replay queues the record. captured gives NULL in *graph and
     * the reason in *error where that cannot be; nothing has been done then either. nodes: what was recorded. */
    bool (*capture)(void *context, Error *error);
    bool (*captured)(void *context, void **graph, int *nodes, Error *error);
    bool (*replay)(void *context, void *graph, Error *error);
    void (*discard)(void *context, void *graph);
    /* Points in time of what is queued, on the stream of communications or of kernels; their number from 0, -1: *error. between: seconds from one to another,
     * after sync. unmark: forgets them. Captured marks are set again by each replay. */
    int (*mark)(void *context, bool comm, Error *error);
    bool (*between)(void *context, int from, int to, double *seconds, Error *error);
    void (*unmark)(void *context);
    /* Names what is queued until the end for tools that look on. */
    void (*range_begin)(void *context, const char *name);
    void (*range_end)(void *context);
    /* Communicator over tensors of this backend, which uses base for everything else and owns it. choice: "auto", or how ranks must talk. NULL and *error:
     * base is as it was. */
    struct Comm *(*comm)(void *context, struct Comm *base, const char *choice, Error *error);
    /* Bytes of the device's memory: taken by alloc now, free, all. */
    bool (*memory)(void *context, int64_t *taken_bytes, int64_t *free_bytes, int64_t *total_bytes, Error *error);
    void (*describe)(void *context, char *text, size_t n); /* "device 0, NVIDIA H200" */
} DeviceQueue;

/* Where tensors live and kernels run. Buffers are bytes. */
typedef struct Backend {
    const char *name;
    bool host;                  /* its buffers are ordinary memory of the process, and what is asked is done on return */
    const DeviceQueue *queue;   /* NULL for host */
    bool (*open)(void **context, const DeviceOptions *options, Error *error);
    void (*close)(void *context);
    void *(*alloc)(void *context, int64_t bytes, Error *error);
    void (*free)(void *context, void *data);
    bool (*upload)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*download)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*copy)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*sync)(void *context, Error *error);
    KernelFn *const *kernels;   /* by OpCode; NULL where there is none */
    KernelFn *prepare;          /* before the first step: makes ready what the kernel of a call needs, whose data may be anything; NULL: nothing does */
} Backend;
extern const Backend backend_cpu;
/* The plain kernels, obviously right, that backend_cpu's fast ones are checked against. */
extern KernelFn *const cpu_reference_kernels[NOPS];

/* ---------------------------------------------------------------- device.c */

/* A backend that has been opened. */
typedef struct Device {
    const Backend *backend;
    void *context;
} Device;
bool device_open(Device *device, const Backend *backend, const DeviceOptions *options, Error *error);
void device_close(Device *device); /* also of one that could not be opened */

/* A shared object with a backend, prun_cuda.so: one symbol, prun_device_module. */
enum { DEVICE_MODULE = 5 };
typedef struct DeviceModule {
    int format;            /* first, always: DEVICE_MODULE; of another, nothing else is read */
    uint64_t (*abi)(void); /* abi.h: of its build */
    const Backend *backend;
    /* Devices that can be used; 0: why not, in *why. */
    int (*count)(char *why, size_t n);
    /* What each device is and what it can do, lines of text. */
    bool (*list)(Text *text, Error *error);
} DeviceModule;
/* The module, opened once and never closed: beside prun, in its library folder, or where PRUN_CUDA_MODULE says. NULL: why not, in *error. */
const DeviceModule *device_module(Error *error);
/* Whether a user may expect it to be used: it is named by PRUN_CUDA_MODULE, or there is one, and a driver. */
bool device_is_expected(void);

/* ---------------------------------------------------------------- communicators */

/* One tensor to be brought from one layout into another; kind is the plan's word for the pattern. */
typedef struct Transfer {
    CommKind kind;
    DType dtype;
    Shape shape;             /* global */
    const Layout *from, *to;
    const char *name;        /* of the value, for messages */
} Transfer;

typedef struct Comm Comm;
typedef struct CommRequest CommRequest;
typedef enum { COMM_FAILED = -1, COMM_PENDING = 0, COMM_COMPLETE = 1 } CommStatus;

typedef struct CommCounters {
    int64_t sent_bytes, received_bytes, messages; /* counted where data is moved */
} CommCounters;

/* A communicator drives one rank of the job (mpi) or all of them (local). Every collective call is made once for each driven rank. */
typedef struct CommTable {
    const char *name;
    /* Prepares a group of transfers that run together, once, before the first step: groups, peers, staging. Collective over all ranks, in
     * the same order. Owned by the communicator. NULL and *error on failure, which may be this rank's alone: before any of them starts it, all agree. */
    CommRequest *(*prepare)(Comm *comm, const Transfer *transfers, int n, Error *error);
    /* Driven rank `driven` enters: source[i], target[i] are its local buffers of transfer i (from's box, to's box). */
    bool (*start)(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error);
    /* COMM_PENDING only where other driven ranks must start first (local). */
    CommStatus (*wait)(Comm *comm, CommRequest *request, int driven, Error *error);
    bool (*barrier)(Comm *comm, Error *error);
    /* From rank 0 to all processes; sizes agree. */
    bool (*broadcast)(Comm *comm, void *data, int64_t bytes, Error *error);
    /* One 64-bit word and one line of text of every process to rank 0 (or to all for words): checks and reports. words: nprocesses of them. */
    bool (*all_gather_words)(Comm *comm, uint64_t word, uint64_t *words, Error *error);
    /* text of process p arrives in texts[p] on rank 0, each up to width bytes, NUL-terminated; texts may be NULL elsewhere. */
    bool (*gather_text)(Comm *comm, const char *text, int width, char *texts, Error *error);
    /* Says message on stderr and ends the whole job, naming this rank, with exit code. Where several ranks do, what one of them says is enough: the others
     * wait for a moment, in which the job usually ends. Does not return. */
    void (*abort)(Comm *comm, int code, const char *message);
    void (*destroy)(Comm *comm);
    /* Memory for tensors that peers may read in place (shared by the processes of a node where there are several), aligned to 64 bytes, not
     * zeroed; at least one byte. Not collective. Where these are not NULL the executor takes the arenas, states and inputs of its driven ranks
     * from here, before it prepares requests; any other memory works as source and target too, at the price of a copy. NULL and *error when there
     * is none left. Freed before the communicator is destroyed. */
    void *(*alloc)(Comm *comm, int64_t bytes, Error *error);
    void (*free)(Comm *comm, void *data);
} CommTable;

struct Comm {
    const CommTable *table;
    int nranks;              /* of the job */
    int nprocesses, process; /* MPI processes and this one's number; 1 and 0 for local */
    int ndriven;             /* ranks that this process drives */
    int first_driven;        /* they are first_driven .. first_driven + ndriven - 1 */
    int local_rank, nlocal;  /* on this node */
    int node_first;          /* lowest rank that shares this one's node (PRUN_COMM=nodes:N: as simulated) */
    char node[256];
    double timeout_s;        /* PRUN_TIMEOUT: how long a rank waits for others, 0: for ever; of several processes */
    CommCounters *counters;  /* per driven rank; exact after a barrier (peers that read in place count for the rank that they read from) */
    char transport[256];     /* how data moves, for -v: "one process", "shared memory", "messages", "shared memory and messages"; of devices also why so */
    bool device;             /* sources and targets are a device's memory: alloc is its backend's */
    bool captures;           /* start and wait only queue what a captured step may hold */
};
Comm *comm_local_create(int nranks, Error *error);
/* A thing that every process must have alike, and what this one has; said NULL: nothing. A list ends where what is NULL. */
typedef struct Told {
    const char *what, *said;
} Told;
/* MPI_Init_thread; NULL and *error when this process was not started by mpirun and so on, or where the processes were told different things (told may be NULL).
 * What fails behind MPI_Init_thread it says itself, and leaves *error without text.
 * prun --ranks N never calls it. */
Comm *comm_mpi_create(int *argc, char ***argv, const Told *told, Error *error);
/* Whether all processes of the communicator got here with ok. Collective. When one did not, false everywhere; only the first that
 * failed keeps its error text (with "rank N: " before it unless all failed), the others' become empty: one message a mistake. */
bool comm_agree(Comm *comm, bool ok, Error *error);
/* The same, but all processes have in *error what the first that failed had to say, its rank before it. */
bool comm_agree_all(Comm *comm, bool ok, Error *error);
/* *number becomes the largest of all processes'. Collective. */
bool comm_most(Comm *comm, uint64_t *number, Error *error);
/* Whether all processes have told[i].said alike; each has the same list of things, or NULL. Collective. Where they have not, process 0 has an error with this code that names
 * the first thing, what is said of it and by which ranks; the others' is empty. */
bool comm_same(Comm *comm, const Told *told, int code, Error *error);
/* Copies between a rank's buffer in a layout and a packed message: elements [first, first + count) of the row-major order of piece->box. */
void piece_pack(const Piece *piece, const Box *source_box, const void *source, int element_bytes, void *packed);
void piece_unpack(const Piece *piece, const Box *target_box, void *target, int element_bytes, const void *packed);
/* target += packed (or max, min) over the piece. */
void piece_reduce(const Piece *piece, const Box *target_box, void *target, DType dtype, Reduction reduction, const void *packed);

/* ---------------------------------------------------------------- state.c, data.c */

/* Fills the elements of `box` of a state's initial value, as the state's dtype: a function of (seed, name, global index), so the same on any
 * number of ranks. Files: .npy, little-endian f4, f8, i4, i8 or b1, C order, with the state's shape. plan_directory: where to look after the current one. */
bool state_initial(const Graph *graph, const State *state, const Box *box, const char *plan_directory, void *data, Error *error);
/* What the inputs hold at each step. The graph's settings say where it comes from; files are looked for as the plan names them, then in
 * plan_directory. NULL and *error: EXIT_ENVIRONMENT, one line that names the file. */
typedef struct DataSource DataSource;
/* used: of each input, whether anything reads it; files of the others are left alone. NULL: all are. */
DataSource *data_open(const Graph *graph, const bool *used, const char *plan_directory, Error *error);
void data_close(DataSource *data); /* takes NULL */
double data_bytes(const Graph *graph); /* of memory that a source takes, beside the inputs themselves; each process has one */
/* Announces a box of an input that will be asked for at every step; its number. All of them before the first data_fill. */
int data_take(DataSource *data, int input, const Box *box);
/* Of memory that the rows of an epoch take at most, once all boxes are announced: those of files without random access, which are held, and their order; *path: the
 * file with most of it, NULL: none. */
double data_held_bytes(const DataSource *data, const char **path);
/* The elements of a box announced, for one step (epochs and steps count from 1), row-major. When all have been filled, the next step's are prepared
 * by a thread of the source's. */
bool data_fill(DataSource *data, int take, int64_t epoch, int64_t step, void *to, Error *error);
bool data_changes(const DataSource *data); /* false: every step's batch is the same */
int64_t data_batch(const DataSource *data); /* rows of a batch, all replicas together */
int64_t data_steps(const DataSource *data); /* of an epoch */
int64_t data_rows(const DataSource *data); /* of an epoch, without filler */
/* What the files of the inputs are, in the arena: all processes must have the same. */
const Told *data_told(const DataSource *data, Arena *arena);
int64_t data_row(const DataSource *data, int64_t step, int64_t place, bool *filler); /* at a place of a batch; the order is that of the file */
int64_t data_bytes_read(DataSource *data); /* from files, headers left out */
/* ": rows.csv:17:9", or ": x.npy, row 15 (from 0), element 3": where an element of a step's input stands, by its place in the whole input; nothing where it is in no file. */
void data_where(DataSource *data, int input, int64_t epoch, int64_t step, const int64_t *index, Text *text);
/* How rows come: the same ones in each step; those of files, each once an epoch; generated, none twice. */
typedef enum { FLOW_SAME, FLOW_EPOCHS, FLOW_ENDLESS } DataFlow;
/* Which rows stand where. Sources with equal words have the same row at each place of an epoch, or of all epochs where rows are endless, however many rows a step
 * takes and however many ranks share them. */
typedef struct DataOrder {
    DataFlow flow;
    int64_t steps, step_rows; /* of an epoch; of a step, all replicas and accumulated batches together */
    char words[96];           /* "rows 1 to 60000 shuffled with seed 7" */
} DataOrder;
void data_order(const DataSource *data, DataOrder *order);
/* numpy's legacy generator: RandomState(seed).random_sample(). */
typedef struct Mt19937 {
    uint32_t word[624];
    int next;
} Mt19937;
void mt19937_seed(Mt19937 *mt, uint32_t seed);
double mt19937_double(Mt19937 *mt); /* 53 bits, [0, 1) */
/* Reads a .npy file's elements as doubles, shape in *shape. */
bool npy_read(const char *path, Arena *arena, Shape *shape, DType *dtype, double **data, Error *error);

/* ---------------------------------------------------------------- schedule.c */

/* What the schedule multiplies the optimizer's learning rate by at an update (from 1) of `total`: Hugging Face's get_*_schedule_with_warmup, whose step
 * is the number of updates before this one, s = update - 1. s < warmup: s / warmup; then, with p = (s - warmup) / (total - warmup), at most 1:
 * constant 1, linear end + (1 - end) (1 - p), cosine end + (1 - end) (1 + cos(pi p)) / 2. */
double schedule_rate(const Schedule *schedule, int64_t update, int64_t total);

/* ---------------------------------------------------------------- exec.c */

/* A program being executed: the ranks of one communicator that this process drives. */
typedef struct Executor Executor;
/* The device is borrowed; comm moves its memory. */
Executor *executor_create(const Plan *plan, const char *program, const Device *device, Comm *comm, const char *plan_directory, int nthreads, Error *error);
/* The same of another program of the plan, over the states of an executor that lasts longer: nothing is copied. It uses the other's arena too where that is
 * large enough, so what the other's last step left in it is gone after a step of this one. states_of NULL: executor_create. */
Executor *executor_create_over(const Plan *plan, const char *program, Executor *states_of, const Device *device, Comm *comm, const char *plan_directory,
                               int nthreads, Error *error);
void executor_destroy(Executor *executor);
/* What a driven rank holds of a value that the program reports. */
typedef struct ReportPart {
    const TensorType *type;
    Box box;
    const void *data; /* its elements, row-major */
    void *copy;       /* of a backend whose buffers are not ordinary memory; else NULL */
    bool first;       /* of the ranks that hold the same box this is the first */
} ReportPart;
/* report: a number of the graph's reports, -1: the loss. After a step, until the next one. */
bool executor_report(Executor *executor, int driven, int report, ReportPart *part, Error *error);
void executor_report_finish(Executor *executor, ReportPart *part);
int64_t executor_rows(const Executor *executor); /* of the data, an epoch of it, without filler */
/* The row of the data that stands at a place of a step's batch (steps count from 1, places of all replicas together from 0) where the order is that of the
 * file. */
int64_t executor_row(const Executor *executor, int64_t step, int64_t place, bool *filler);
void executor_exclude_bytes(Executor *executor, int driven, int64_t bytes); /* that the communicator has counted, and that are none of its steps' */
int64_t executor_steps(const Executor *executor);      /* of an epoch */
int64_t executor_batch(const Executor *executor);      /* rows of a step's batch, all replicas together */
double executor_held_bytes(const Executor *executor, const char **path); /* data_held_bytes of its data */
void executor_order(const Executor *executor, DataOrder *order); /* of its data */
double executor_rate(const Executor *executor);        /* learning rate of the step done last */
int64_t executor_data_bytes(const Executor *executor); /* read from files of rows by this process so far, headers left out */
/* Updates done so far, which the next one's corrections depend on; a run that is resumed, or checked, begins with others. The schedule of the learning rate counts
 * `ahead` more: where a run goes on with another batch size, so many steps of this size, less those that were done. */
int64_t executor_updates(const Executor *executor, int64_t *ahead);
void executor_set_updates(Executor *executor, int64_t updates, int64_t ahead);
/* Reads the batch of the step that comes next: what is wrong with files is then known to all ranks, and said once. Collective; may be left out. */
bool executor_begin(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Whether steps after the first may be captured and replayed as one: unless there is a reason against it ("--no-graph"). They are not without this. */
void executor_capture(Executor *executor, const char *against);
/* Why steps run one by one, or what was captured; "" on a device without a queue. */
const char *executor_capture_note(const Executor *executor);
/* One step of training on every driven rank. */
bool executor_step(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* The same, but on a device with a queue it may be under way still when the function returns, if communications allow that: then there are no losses
 * (executor_losses), and nothing else may be read before an executor_step has come after it. What fails may be said by the next step. */
bool executor_step_ahead(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Waits for a step that executor_step_ahead has left under way; its losses are there then. */
bool executor_settle(Executor *executor, Error *error);
/* From the next step on the loss is looked at before anything is updated, on a backend of the process's memory at no cost; where it is not finite on a driven rank, the rank's updates leave
 * all states that an optimizer has as they are, from that step on. waits: elsewhere too, where operators are waited for. */
void executor_guard(Executor *executor, bool waits);
/* The first update (counted as executor_updates does) whose loss, on a driven rank, was seen to be not finite; 0: none. */
int64_t executor_bad_update(const Executor *executor);
/* Where the first number came from that is not finite, in words. Steps `first` to `last`, counted over all epochs from 0, are looked at: the inputs of all of them, then the last
 * is done again, operator by operator, updates leaving states as they are (its number as an update: update). bad: this process's ranks had a loss that is not finite in it and kept
 * the states from before; what the others see does not count. Collective. EXIT_MISMATCH and the words in *error of one process, whose ranks it is about, or an empty text; another code where the
 * search itself has failed. */
void executor_find_bad(Executor *executor, int64_t first, int64_t last, int64_t update, bool bad, Error *error);
/* The loss of driven rank's slice(s) after a step, one number a hidden slice (global modes: 1); how many there are. */
int executor_losses(const Executor *executor, int driven, const double **losses);
/* A state's elements under the layout stored by a driven rank. */
void *executor_state(Executor *executor, int driven, int state, Box *box);
/* The whole tensor of a state on every driven rank's process (collective), as doubles, in the arena. */
bool executor_gather_state(Executor *executor, int state, Arena *arena, double **whole, Error *error);
/* Brings a state into another layout: target has the memory of each driven rank's box of it (of the backend). Collective; the same layout every time. */
bool executor_rearrange_state(Executor *executor, int state, const Layout *layout, void *const *target, Error *error);
/* Sets a state of every driven rank from a whole tensor: each takes its box. */
bool executor_set_state(Executor *executor, int state, const double *whole, Error *error);
/* From the next step on each element of the inputs, of constants that are added up and of every kernel's result is moved by at most so many roundings, always alike: how much
 * that changes says how much rounding matters. 0: they are as they are. */
void executor_disturb(Executor *executor, double roundings);
/* number moved by at most so many roundings of dtype, by how much depends on key; integers are not moved. */
double number_moved(double number, DType dtype, double roundings, uint64_t key);
/* The number of losses of any rank; *first: the hidden slice that the first of them belongs to (0 in global modes). */
int executor_slices(const Executor *executor, int rank, int *first);
int executor_most_slices(const Executor *executor); /* of any rank */
/* The losses of all ranks, on every process: those of rank r begin at losses[r * most slices]. Collective. */
bool executor_gather_losses(Executor *executor, double *losses, Error *error);
/* Where its tensors live, and what that backend's functions take. */
const Backend *executor_backend(const Executor *executor, void **context);
/* Bytes that a driven rank has sent in executor_step so far (not in gathering states), counted by the communicator. */
int64_t executor_sent_bytes(const Executor *executor, int driven);
/* Memory of a rank's role, in bytes: arena, states, inputs and constants. Needs no executor. */
typedef struct ExecutorMemory {
    int64_t arena_bytes, state_bytes, input_bytes;
} ExecutorMemory;
void executor_memory(const Plan *plan, const char *program, int rank, ExecutorMemory *memory);

/* From the next step on each action is timed. The profile is borrowed; NULL: no longer. */
struct Profile;
void executor_profile(Executor *executor, struct Profile *profile);

/* ---------------------------------------------------------------- finite.c */

/* The first of n elements that is nan or infinite, -1: none, and none of integers. */
int64_t elements_first_bad(const void *data, DType dtype, int64_t n);

/* ---------------------------------------------------------------- print.c */

/* A number as Python's repr of a float writes it: the shortest digits that read back, exponent form below 1e-4 and from 1e16. */
enum { NUMBER_MAX = 64 };
void number_print(char text[NUMBER_MAX], double number);
/* "[[2.0000], [3.0000]]"; over 1,000 elements only the first and last three of each dimension. full: all elements, with the shortest digits that read back as
 * their type. */
void tensor_print(Text *text, const Shape *shape, DType dtype, const double *data, bool full);

/* ---------------------------------------------------------------- verify.c */

/* The one-rank plan of the same net, run in lock step with the run that it checks. */
typedef struct Verifier Verifier;
/* Collective over comm; reads the plan file on the process of rank 0 and runs it there. Fails (EXIT_REJECTED) when the nets differ. */
Verifier *verifier_create(const Plan *plan, const char *path, Executor *executor, Comm *comm, int nthreads, Error *error);
void verifier_destroy(Verifier *verifier);
/* Before a step of the executor: its states become the reference's. After it: the reference takes the step too, and the losses and all states
 * are compared. Both collective. after fails with EXIT_MISMATCH naming value, step, index and both numbers. */
bool verifier_before(Verifier *verifier, Error *error);
bool verifier_after(Verifier *verifier, int64_t epoch, int64_t step, Error *error);
/* After an evaluation of the run: the reference evaluates too, over the run's states. Collective; fails as verifier_after does. */
struct EvalResult;
bool verifier_evaluation(Verifier *verifier, const struct EvalResult *mine, int64_t epoch, int64_t step, Error *error);
/* One line: what was compared, and the largest difference as a share of its tolerance. */
void verifier_report(const Verifier *verifier, Text *text);

/* ---------------------------------------------------------------- run.c */

/* How --load reads a file that has other names than the net; each may be repeated. Patterns are those of ir/pattern.h. */
typedef struct LoadRules {
    int nrenames, ntransposes, nfresh;
    const char **renames;    /* --rename: "NET=FILE", two patterns */
    const char **transposes; /* --transpose: parameters that the file has transposed */
    const char **fresh;      /* --fresh: parameters that it does not give */
} LoadRules;

typedef struct RunOptions {
    const char *plan;              /* path */
    int nranks;                    /* --ranks; 0: as the launcher says */
    const char *verify;            /* --verify, or NULL */
    int nprints;
    const char *const *prints;     /* --print: names of parameters, "w" or "w:full" */
    bool eval;                     /* --eval: no training, one evaluation */
    const char *predict;           /* --predict: file of what the net answers, likewise; or NULL */
    int ndata;
    const char **data;             /* --data: "INPUT=FILE", of an evaluation alone */
    const char *load, *save;       /* --load, --save: parameters, safetensors; or NULL */
    LoadRules rules;
    const char *resume;            /* --resume: "latest", or a checkpoint; or NULL */
    const char *checkpoint;        /* --checkpoint-dir; NULL: beside the plan */
    bool overwrite;                /* --overwrite: an earlier run's checkpoints there are no error */
    const char *metrics;           /* --metrics: file of JSON lines; or NULL */
    const char *log_directory;     /* --log-dir: a file per rank; or NULL */
    bool check_replicas;           /* --check-replicas */
    const char *device;            /* --device: cpu or cuda; NULL: a GPU where there is one */
    const char *comm;              /* --comm: how ranks on GPUs talk; NULL: the best that works */
    bool no_graph;                 /* --no-graph: no captured steps */
    bool deterministic, tf32, wait; /* see DeviceOptions */
    bool profile;                  /* --profile */
    const char *trace;             /* --trace: file; or NULL */
    const char *on_nan;            /* --on-nan: stop or go; NULL: as the plan says */
    bool all_ranks, verbose;
    const Told *told;              /* what all ranks must have been told */
} RunOptions;
/* Processes of the job as its launcher says, 0 without one. */
int launched_processes(void);
/* A launcher's ranks, or else nranks (0: one) in this process; main.c has refused --ranks under a launcher. NULL and *error, of processes too that were told
 * different things. */
Comm *comm_of_launch(int nranks, const Told *told, int *argc, char ***argv, Error *error);
/* Measures what messages cost, prints it and writes the machine file at path; returns the exit code after saying on stderr what went wrong.
 * Collective; under 10 s. nranks: --ranks, or 0 (always under a launcher). A file at path that is not empty and no machine file stays. */
int calibrate(const char *path, int nranks, const Told *told, int *argc, char ***argv);
/* Does it all; returns the exit code after saying on stderr what went wrong. */
int run(const RunOptions *options, int *argc, char ***argv);
