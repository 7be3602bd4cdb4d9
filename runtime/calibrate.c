/* prun --calibrate: measures what messages and kernels cost on this machine, by the communicator that training uses and the kernels of the CPU.
 *
 * All ranks at once gather along one digit of the rank number: from all ranks of their node for the level `rank`, from those at the same place
 * of the other nodes for the level `node`. A step with a few bytes costs the latency of its rounds, a step with megabytes the latency and the
 * bytes. Between gathers ranks compute, as between communications of a net: ranks that share a core hand it to each other, and data that is
 * gathered has just been written. Kernels run on all ranks at once too, as ranks may share cores and memory. The result is the machine file that `pcc --machine` reads (docs/machine.md). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/file.h"
#include "ir/limits.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/run.h"

static const double BATCH_S = 0.02, LEVEL_S = 0.8; /* of one batch of steps; of all batches of one size */
enum { WORK = 1 << 16, ROUNDS = 4 };               /* numbers that a rank computes on between messages, how many times */
enum { MAX_BATCHES = 101, MIN_BATCHES = 3, MAX_BATCH = 2000, MAX_COPIES = 16 };
static const int64_t LARGE_BYTES = 8 << 20, CACHED_BYTES = 512 << 10,
                     TOTAL_BYTES = 256 << 20; /* size of a gather; of all buffers of a node */

typedef struct Level {
    bool measured;
    double latency_s, bytes_per_s;
    double cached_bytes_per_s; /* for data that lies in caches; 0: not measured */
} Level;

/* Used where there is nothing to measure: pcc's default machine. */
static const Level default_rank = {.latency_s = 2e-6, .bytes_per_s = 8e9}, default_node = {.latency_s = 3e-5, .bytes_per_s = 1e9};
static const double default_memory = 8589934592.0;

/* ---------------------------------------------------------------- one size of message */

/* How many ranks share this node's memory, or this process's. */
static int ranks_sharing(const Comm *comm) {
    return comm->nprocesses == 1 ? comm->ndriven : comm->nlocal;
}

/* Gathers of `elements` f32 in all, split along one digit. With several copies of the buffers, which large gathers use in turn, none lies in a cache: a net's communications too move what others have not
 * just moved. */
typedef struct Probe {
    Comm *comm;
    Layout from, to;
    Transfer transfer;
    CommRequest *request;
    char **source, **target; /* per driven rank */
    int64_t source_bytes, target_bytes, ncopies, turn;
    float *work; /* WORK numbers that it computes on */
    bool silent; /* it only computes */
} Probe;

static void *buffer_alloc(Comm *comm, int64_t bytes, Error *error) {
    if (comm->table->alloc) return comm->table->alloc(comm, bytes, error);
    void *data = malloc((size_t)bytes);
    if (!data) error_set(error, EXIT_ENVIRONMENT, "no memory for %lld bytes", (long long)bytes);
    return data;
}

static void buffer_free(Comm *comm, void *data) {
    if (!data) return;
    if (comm->table->free)
        comm->table->free(comm, data);
    else
        free(data);
}

static void buffers_free(Probe *probe) {
    for (int i = 0; probe->source && probe->target && i < probe->comm->ndriven; i++) {
        buffer_free(probe->comm, probe->source[i]);
        buffer_free(probe->comm, probe->target[i]);
        probe->source[i] = probe->target[i] = NULL;
    }
}

static void probe_finish(Probe *probe) {
    buffers_free(probe);
    free(probe->source);
    free(probe->target);
    free(probe->work);
}

static bool buffers_fill(Probe *probe, Error *error) {
    for (int i = 0; i < probe->comm->ndriven; i++) {
        probe->source[i] = buffer_alloc(probe->comm, probe->ncopies * probe->source_bytes, error);
        probe->target[i] = buffer_alloc(probe->comm, probe->ncopies * probe->target_bytes, error);
        if (!probe->source[i] || !probe->target[i]) return false;
        memset(probe->source[i], 0, (size_t)(probe->ncopies * probe->source_bytes)); /* so that pages are allocated before the clock runs */
        memset(probe->target[i], 0, (size_t)(probe->ncopies * probe->target_bytes));
    }
    return true;
}

/* Allocates as many copies as fit into TOTAL_BYTES of a node, at least one, at most `most`, or fewer where a rank has no room for them. */
static bool buffers_take(Probe *probe, int64_t most, Error *error) {
    const int64_t copies = TOTAL_BYTES / ranks_sharing(probe->comm) / (probe->source_bytes + probe->target_bytes);
    probe->ncopies = copies < 1 ? 1 : copies > most ? most : copies;
    for (;; probe->ncopies /= 2) {
        const bool filled = buffers_fill(probe, error);
        uint64_t failed = !filled;
        if (!comm_most(probe->comm, &failed, error)) return false;
        if (!failed) return true;
        buffers_free(probe);
        if (probe->ncopies == 1) return comm_agree(probe->comm, filled, error);
    }
}

static bool probe_init(Probe *probe, Comm *comm, Digit digit, int64_t message_elements, int64_t copies, Error *error) {
    int64_t elements = message_elements * digit.size;
    *probe = (Probe){.comm = comm};
    layout_init(&probe->from, 1);
    layout_init(&probe->to, 1);
    layout_append(&probe->from, 0, digit);
    probe->source_bytes = message_elements * 4;
    probe->target_bytes = elements * 4;
    probe->transfer = (Transfer){.kind = COMM_ALL_GATHER,
                                 .dtype = F32,
                                 .shape = {.ndim = 1, .dim = {elements}},
                                 .from = &probe->from,
                                 .to = &probe->to,
                                 .name = "calibration"};
    probe->source = calloc((size_t)comm->ndriven, sizeof *probe->source);
    probe->target = calloc((size_t)comm->ndriven, sizeof *probe->target);
    if (!probe->source || !probe->target) return error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", comm->ndriven);
    if (!buffers_take(probe, copies, error)) return false;
    if (!(probe->work = calloc(WORK, sizeof *probe->work))) return error_set(error, EXIT_ENVIRONMENT, "no memory");
    probe->request = comm->table->prepare(comm, &probe->transfer, 1, error);
    return probe->request != NULL;
}

static void compute(float *numbers, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        numbers[i] = numbers[i] * 0.999f + 0.001f;
}

static bool probe_step(Probe *probe, Error *error) {
    Comm *comm = probe->comm;
    const int64_t copy = probe->turn++ % probe->ncopies;
    for (int round = 0; round < ROUNDS; round++)
        compute(probe->work, WORK);
    for (int i = 0; i < comm->ndriven; i++)
        compute((float *)(probe->source[i] + copy * probe->source_bytes), probe->source_bytes / 4);
    if (probe->silent) return true;
    for (int i = 0; i < comm->ndriven; i++) {
        const void *source = probe->source[i] + copy * probe->source_bytes;
        void *target = probe->target[i] + copy * probe->target_bytes;
        if (!comm->table->start(comm, probe->request, i, &source, &target, error)) return false;
    }
    for (int i = 0; i < comm->ndriven; i++) {
        CommStatus status = comm->table->wait(comm, probe->request, i, error);
        if (status == COMM_PENDING) error_set(error, EXIT_INTERNAL, "calibration: a rank waits for one that has started");
        if (status != COMM_COMPLETE) return false;
    }
    return true;
}

/* Mean seconds of a step, over so many steps between two barriers. */
static bool probe_batch(Probe *probe, int64_t steps, double *seconds, Error *error) {
    Comm *comm = probe->comm;
    if (!comm->table->barrier(comm, error)) return false;
    const double begin = now_seconds();
    for (int64_t i = 0; i < steps; i++)
        if (!probe_step(probe, error)) return false;
    if (!comm->table->barrier(comm, error)) return false;
    *seconds = (now_seconds() - begin) / (double)steps;
    return true;
}

/* Median seconds of the communication in a step, on the slowest rank: the time of as many steps that only compute is subtracted each time. Rank 0 decides how long to measure. */
static bool probe_measure(Probe *probe, double *seconds, Error *error) {
    Comm *comm = probe->comm;
    double batch_s[MAX_BATCHES], begin = now_seconds();
    int64_t steps = 1;
    for (int warm = 0; warm < 2; warm++) { /* the first touches untouched memory */
        begin = now_seconds();
        if (!probe_step(probe, error)) return false;
    }
    double once = now_seconds() - begin;
    steps = once > 0 ? (int64_t)(BATCH_S / once) : MAX_BATCH;
    steps = steps < 1 ? 1 : steps > MAX_BATCH ? MAX_BATCH : steps;
    if (!comm->table->broadcast(comm, &steps, sizeof steps, error)) return false;
    int n = 0;
    double first = now_seconds();
    for (int64_t more = 1; more;) {
        double computing_s = 0;
        if (!probe_batch(probe, steps, &batch_s[n], error)) return false;
        probe->silent = true;
        if (!probe_batch(probe, steps, &computing_s, error)) return false;
        probe->silent = false;
        batch_s[n++] -= computing_s;
        const double took = now_seconds() - first;
        more = n < MAX_BATCHES && (took < LEVEL_S || (n < MIN_BATCHES && took < 2 * LEVEL_S));
        if (!comm->table->broadcast(comm, &more, sizeof more, error)) return false;
    }
    qsort(batch_s, (size_t)n, sizeof *batch_s, compare_seconds);
    *seconds = batch_s[n / 2];
    return comm_longest(comm, seconds, error);
}

static bool measure_size(Comm *comm, Digit digit, int64_t message_elements, int64_t copies, double *seconds, Error *error) {
    Probe probe;
    bool ok = probe_init(&probe, comm, digit, message_elements, copies, error) && probe_measure(&probe, seconds, error);
    probe_finish(&probe);
    return ok;
}

/* ---------------------------------------------------------------- levels */

static double rate_of(int64_t bytes, double seconds, double small_s) {
    return (double)bytes / (seconds - small_s > 0.1 * seconds ? seconds - small_s : 0.1 * seconds);
}

/* Measures along a digit, all of whose groups are of this level. */
static bool measure_level(Comm *comm, Digit digit, Level *level, Error *error) {
    const int64_t messages = digit.size - 1, most = TOTAL_BYTES / comm->ndriven / (digit.size + 1), large = LARGE_BYTES / digit.size;
    const int64_t elements = (most < 4096 ? 4096 : large < most ? large : most) / 4, cached = CACHED_BYTES / digit.size / 4;
    int rounds = 0; /* how many pcc assumes for the gather */
    while (1 << rounds < digit.size)
        rounds++;
    double small_s, large_s, cached_s = 0;
    if (!measure_size(comm, digit, 1, 1, &small_s, error) || !measure_size(comm, digit, elements, MAX_COPIES, &large_s, error) ||
        (cached > 0 && !measure_size(comm, digit, cached, 1, &cached_s, error)))
        return false;
    *level = (Level){.measured = true, .latency_s = small_s / rounds, .bytes_per_s = rate_of(elements * 4 * messages, large_s, small_s)};
    if (cached > 0) level->cached_bytes_per_s = rate_of(cached * 4 * messages, cached_s, small_s);
    if (level->latency_s < 1e-9) level->latency_s = 1e-9;
    return true;
}

/* The largest divisor of nranks such that every group of so many consecutive ranks shares a node; *regular: and no larger groups do. */
static bool find_nodes(Comm *comm, int *ranks_per_node, bool *regular, Error *error) {
    *ranks_per_node = comm->nranks;
    *regular = true;
    if (comm->nprocesses == 1) return true;
    uint64_t *first = calloc((size_t)comm->nprocesses, sizeof *first);
    if (!first) return error_set(error, EXIT_ENVIRONMENT, "no memory");
    bool ok = comm->table->all_gather_words(comm, (uint64_t)comm->node_first, first, error);
    for (int size = comm->nranks; ok && size >= 1; size--) {
        if (comm->nranks % size != 0) continue;
        bool together = true, apart = true;
        for (int r = 0; r < comm->nranks && together; r++) {
            together = first[r] == first[r - r % size];
            apart = apart && (r < size || first[r] != first[r - size]);
        }
        if (!together) continue;
        *ranks_per_node = size;
        *regular = apart;
        break;
    }
    free(first);
    return ok;
}

/* ---------------------------------------------------------------- kernels and memory */

typedef struct Kernels {
    RankPeaks peaks;
    int64_t memory_bytes; /* that a rank can have */
} Kernels;

/* Memory of a rank: the least of any node, divided among its ranks. */
static bool measure_memory(Comm *comm, int64_t *bytes, Error *error) {
    int64_t here = limits_memory("");
    const int sharing = ranks_sharing(comm);
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool ok = words ? comm->table->all_gather_words(comm, here < 0 ? UINT64_MAX : (uint64_t)here / (uint64_t)sharing, words, error)
                    : error_set(error, EXIT_ENVIRONMENT, "no memory");
    uint64_t least = UINT64_MAX;
    for (int i = 0; ok && i < comm->nprocesses; i++)
        if (words[i] < least) least = words[i];
    *bytes = least == UINT64_MAX ? -1 : (int64_t)least;
    free(words);
    return ok;
}

static bool measure_kernels(Comm *comm, Kernels *kernels, Error *error) {
    Device device = {0};
    const int nthreads = threads_each(comm);
    const DeviceOptions options = {
        .rank = comm->first_driven, .local_rank = comm->local_rank, .nlocal = comm->nlocal, .nthreads = nthreads, .most_threads = nthreads};
    bool ok = comm_agree(comm, device_open(&device, &backend_cpu, &options, error), error) &&
              peak_measure_ranks(&device, nthreads, comm, &kernels->peaks, error) && measure_memory(comm, &kernels->memory_bytes, error);
    device_close(&device);
    return ok;
}

static void kernels_show(const Kernels *kernels) {
    const RankPeaks *peaks = &kernels->peaks;
    printf("a rank, while all compute\n");
    printf("f32    %9.2f GFLOP/s in products\n", 1e-9 * peaks->product.flops_per_s);
    printf("f64    %9.2f GFLOP/s in products\n", 1e-9 * peaks->f64_flops);
    printf("product %8.2f us to start one, and %.2f GB/s of its operands, beside that\n", 1e6 * peaks->product.start_s,
           1e-9 * peaks->product.bytes_per_s);
    printf("convolution %4.0f GFLOP/s in convolutions and their gradients, f32\n", 1e-9 * peaks->convolution_flops);
    printf("vector %9.2f GFLOP/s in other kernels, f32\n", 1e-9 * peaks->vector_flops);
    printf("memory %9.2f GB/s", 1e-9 * peaks->bytes_per_s);
    if (kernels->memory_bytes > 0) printf(", %.2f GiB free", (double)kernels->memory_bytes / (1 << 30));
    printf("\nupdate %9.2f GB/s where kernels write over what they read", 1e-9 * peaks->update_bytes_per_s);
    for (int c = 0; c < peaks->ncaches; c++)
        printf("\ncache  %9.2f GB/s, up to %.2f MiB", 1e-9 * peaks->cache[c].bytes_per_s, peaks->cache[c].bytes / (1 << 20));
    printf("\nkernel %9.2f us to start one\n", 1e6 * peaks->kernel_s);
}

static void kernels_print(Text *text, const Kernels *kernels) {
    const RankPeaks *peaks = &kernels->peaks;
    text_printf(text, "f32 %.4g FLOP/s\nf64 %.4g FLOP/s\n", peaks->product.flops_per_s, peaks->f64_flops);
    text_printf(text, "f16 %.4g FLOP/s # as f32\nbf16 %.4g FLOP/s # as f32\n", peaks->product.flops_per_s, peaks->product.flops_per_s);
    text_printf(text, "product %.4g s %.4g B/s\n", peaks->product.start_s, peaks->product.bytes_per_s);
    text_printf(text, "convolution %.4g FLOP/s\n", peaks->convolution_flops);
    text_printf(text, "vector %.4g FLOP/s\n", peaks->vector_flops);
    text_printf(text, "memory %.4g B/s %.4g B%s\n", peaks->bytes_per_s,
                kernels->memory_bytes > 0 ? (double)kernels->memory_bytes : default_memory,
                kernels->memory_bytes > 0 ? "" : " # size not known");
    text_printf(text, "update %.4g B/s\n", peaks->update_bytes_per_s);
    for (int c = 0; c < peaks->ncaches; c++)
        text_printf(text, "cache %.4g B/s %.4g B\n", peaks->cache[c].bytes_per_s, peaks->cache[c].bytes);
    text_printf(text, "kernel %.4g s\noverlap 0 # not measured\n", peaks->kernel_s);
}

/* ---------------------------------------------------------------- the report and the file */

static void level_show(const char *name, const Level *level, const char *why) {
    if (level->measured)
        printf("%-6s %9.2f us  %9.3f GB/s\n", name, 1e6 * level->latency_s, 1e-9 * level->bytes_per_s);
    else
        printf("%-6s %9.2f us  %9.3f GB/s   not measured: %s; pcc's default\n", name, 1e6 * level->latency_s, 1e-9 * level->bytes_per_s,
               why);
}

/* Whether path can be written, and a file there may be replaced: a machine file, or an empty one. */
static bool replaceable(const char *path, Error *error) {
    static const char first_word[] = "pcc-machine";
    char begin[sizeof first_word] = "";
    if (!file_writable(path, error)) return false;
    FILE *file = file_kind(path) ? NULL : fopen(path, "rb");
    if (!file) return true;
    size_t n = fread(begin, 1, sizeof first_word - 1, file);
    bool machine = n == 0 || strcmp(begin, first_word) == 0;
    fclose(file);
    return machine || error_set(error, EXIT_USAGE, "--calibrate %s would overwrite a file that is no machine file; it takes no plan", path);
}

static bool machine_write(const char *path, const Comm *comm, int ranks_per_node, const Level *rank, const Level *node,
                          const Kernels *kernels, Error *error) {
    char name[64];
    int n = 0;
    for (const char *c = comm->node; *c && n < (int)sizeof name - 1; c++)
        name[n++] = isalnum((unsigned char)*c) || strchr("_-.", *c) ? *c : '_';
    name[n] = '\0';
    Text text = {0};
    text_printf(&text, "pcc-machine 1\n# measured by prun --calibrate on %d ranks, %s\n", comm->nranks, comm->transport);
    text_printf(&text, "name %s\nranks_per_node %d\n", n ? name : "here", ranks_per_node);
    text_printf(&text, "rank %.4g s %.4g B/s%s\n", rank->latency_s, rank->bytes_per_s, rank->measured ? "" : " # not measured");
    if (rank->cached_bytes_per_s > 0) text_printf(&text, "rank_cached %.4g B/s\n", rank->cached_bytes_per_s);
    text_printf(&text, "node %.4g s %.4g B/s%s\n", node->latency_s, node->bytes_per_s, node->measured ? "" : " # not measured");
    kernels_print(&text, kernels);
    bool ok = file_write(path, text.at, text.n, error);
    text_finish(&text);
    return ok;
}

static bool calibrate_on(Comm *comm, const char *path, Error *error) {
    int ranks_per_node;
    bool regular;
    Level rank = default_rank, node = default_node;
    Kernels kernels;
    if (comm->process == 0 && !replaceable(path, error)) return false;
    if (!find_nodes(comm, &ranks_per_node, &regular, error)) return false;
    int nodes = comm->nranks / ranks_per_node;
    if (ranks_per_node > 1 && !measure_level(comm, (Digit){ranks_per_node, 1}, &rank, error)) return false;
    if (nodes > 1 && !measure_level(comm, (Digit){nodes, ranks_per_node}, &node, error)) return false;
    if (!measure_kernels(comm, &kernels, error)) return false;
    if (comm->process != 0) return true;
    printf("%d rank%s a node, %d node%s (%s)%s\n", ranks_per_node, ranks_per_node == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
           comm->transport, regular ? "" : "; the ranks of a node are not consecutive or equally many");
    printf("level    latency       bandwidth\n");
    level_show("rank", &rank, "no two ranks share a node");
    if (rank.cached_bytes_per_s > 0) printf("%-6s %12s  %9.3f GB/s   of what lies in a cache\n", "", "", 1e-9 * rank.cached_bytes_per_s);
    level_show("node", &node, "there is one node");
    kernels_show(&kernels);
    if (!machine_write(path, comm, ranks_per_node, &rank, &node, &kernels, error)) return false;
    printf("written to %s, for pcc --machine %s\n", path, path);
    return true;
}

int calibrate(const char *path, const RunOptions *options, int *argc, char ***argv) {
    Error error = {0};
    Comm *comm = comm_of_launch(options, argc, argv, &error);
    bool ok = comm && calibrate_on(comm, path, &error);
    if (!ok) {
        if (comm && comm->nprocesses > 1) comm->table->abort(comm, error.code, error.text); /* the others wait for this rank */
        comm_say(&error);
    }
    if (comm) comm->table->destroy(comm);
    return ok ? EXIT_DONE : error.code;
}
