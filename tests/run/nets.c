/* Random nets: the program.
 *
 *   nets DIR --first SEED --count N   nets from this seed on until N count (fewer: PCC_NETS); demands that all has occurred when N is large
 *   nets DIR --seed SEED              this net alone; shrunk if it fails
 *   nets DIR --seconds S | --forever  a benchmark: as many as there is time for, beginning at the time of day or --first
 *   nets DIR --faults                 tests this test: seeded faults are found and shrunk
 *
 * Nets are checked in child processes: a crash or an endless loop is a failure like others. A failing net is shrunk and printed with its
 * seed. */
#include "tests/run/nets.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NET_SECONDS = 60, SHRINK_SECONDS = 120, MOST_FAILURES = 3, DEMANDING = 400 };

/* What occurred, in nets that count; all but the first four are numbers of nets. */
typedef struct Totals {
    int64_t checked, counted, rejected, failed;
    int64_t doubtful, uneven, named, output, shared, explicit_dataset, bucket, machine, searched, recomputes, regathers, stages,
        stage_hints, at, limited, chosen_again, warmup, decay, clip, accumulate, ema, scaled;
    int64_t modes[NMODES], dtypes[NDTYPES], optimizers[NOPTIMIZERS], schedules[NSCHEDULES], data[NDATA_KINDS], policies[3], ranks[13];
    int64_t in_graph[NOPS], on_parts[NOPS], comms[NCOMMS], comm_steps[NCOMMS];
} Totals;

static void add_report(Totals *totals, const NetReport *report) {
    totals->checked++;
    totals->rejected += report->outcome == NET_REJECTED;
    totals->failed += report->outcome > NET_REJECTED;
    totals->doubtful += report->doubtful;
    if (!net_counts(report)) return;
    totals->counted++;
    totals->uneven += report->uneven;
    totals->named += report->named;
    totals->output += report->output;
    totals->shared += report->shared;
    totals->explicit_dataset += report->explicit_dataset;
    totals->bucket += report->bucket;
    totals->machine += report->machine;
    totals->searched += report->searched;
    totals->recomputes += report->recomputes;
    totals->regathers += report->regathers;
    totals->stages += report->stages;
    totals->stage_hints += report->stage_hints;
    totals->at += report->at;
    totals->limited += report->limited;
    totals->chosen_again += report->chosen_again;
    totals->modes[report->mode]++;
    totals->modes[MODE_STAND_ALONE] += !mode_hides(report->mode); /* the reference */
    totals->dtypes[report->dtype]++;
    totals->optimizers[report->optimizer]++;
    totals->schedules[report->schedule]++;
    totals->data[report->data]++;
    totals->warmup += report->warmup;
    totals->decay += report->decay;
    totals->clip += report->clip;
    totals->accumulate += report->accumulate;
    totals->ema += report->ema;
    totals->scaled += report->scaled;
    totals->policies[report->redistribution]++;
    totals->ranks[report->nranks]++;
    for (int op = 0; op < NOPS; op++) {
        totals->in_graph[op] += report->in_graph[op];
        totals->on_parts[op] += report->on_parts[op];
    }
    for (int c = 0; c < NCOMMS; c++) {
        totals->comms[c] += report->comms[c] > 0;
        totals->comm_steps[c] += report->comms[c];
    }
}

/* ---------------------------------------------------------------- the table */

static void print_totals(const Totals *totals, double seconds) {
    printf("%" PRId64 " nets count of %" PRId64 ", each at -O2 and -O0 (%" PRId64 " rejected, %" PRId64 " failed, %" PRId64
           " within rounding of a kink), %.1f s, %.1f a second\n",
           totals->counted, totals->checked, totals->rejected, totals->failed, totals->doubtful, seconds,
           (double)totals->checked / (seconds > 0 ? seconds : 1));
    printf("  modes     ");
    for (int m = 0; m < NMODES; m++)
        printf(" %s %" PRId64, mode_name[m], totals->modes[m]);
    printf("\n  ranks     ");
    for (int r = 2; r <= 12; r++)
        printf(" %d: %" PRId64, r, totals->ranks[r]);
    printf("\n  nets with  uneven shares %" PRId64 ", named axes %" PRId64 ", output strategies %" PRId64 ", values used twice %" PRId64
           ", explicit dataset %" PRId64 ", buckets of several gradients %" PRId64 ", another machine %" PRId64 ", searched %" PRId64
           ", values computed again %" PRId64 ", hinted to be gathered again %" PRId64 ", stages %" PRId64 ", of them hinted %" PRId64
           ", parameters on one rank %" PRId64 ", measures for memory %" PRId64 ", of them values computed again %" PRId64
           "\n             f32 %" PRId64 ", f64 %" PRId64 ", policy auto %" PRId64 ", bound %" PRId64 ", canonical %" PRId64 "\n",
           totals->uneven, totals->named, totals->output, totals->shared, totals->explicit_dataset, totals->bucket, totals->machine,
           totals->searched, totals->recomputes, totals->regathers, totals->stages, totals->stage_hints, totals->at, totals->limited,
           totals->chosen_again, totals->dtypes[F32], totals->dtypes[F64], totals->policies[REDISTRIBUTE_AUTO],
           totals->policies[REDISTRIBUTE_BOUND], totals->policies[REDISTRIBUTE_CANONICAL]);
    printf("  train      sgd %" PRId64 ", momentum %" PRId64 ", adam %" PRId64 ", adamw %" PRId64 ", lion %" PRId64 ", lamb %" PRId64
           ", adafactor %" PRId64 ",",
           totals->optimizers[OPTIMIZER_SGD], totals->optimizers[OPTIMIZER_MOMENTUM], totals->optimizers[OPTIMIZER_ADAM],
           totals->optimizers[OPTIMIZER_ADAMW], totals->optimizers[OPTIMIZER_LION], totals->optimizers[OPTIMIZER_LAMB],
           totals->optimizers[OPTIMIZER_ADAFACTOR]);
    for (int s = 0; s < NSCHEDULES; s++)
        printf(" %s rate %" PRId64 ",", schedule_name[s], totals->schedules[s]);
    printf(" warmup %" PRId64 ", weight decay %" PRId64 ", clip %" PRId64 ", accumulate %" PRId64 ", averages %" PRId64
           ", factors of a parameter %" PRId64 "; data numpy_rand %" PRId64 ", normal %" PRId64 ", uniform %" PRId64 "\n",
           totals->warmup, totals->decay, totals->clip, totals->accumulate, totals->ema, totals->scaled, totals->data[DATA_NUMPY_RAND],
           totals->data[DATA_NORMAL], totals->data[DATA_UNIFORM]);
    printf("  communication, nets (steps):");
    for (int c = 0; c < NCOMMS; c++)
        printf(" %s %" PRId64 " (%" PRId64 ")", comm_name[c], totals->comms[c], totals->comm_steps[c]);
    printf("\n  operators, nets (on parts of a tensor):");
    for (int op = 0; op < NOPS; op++)
        printf("%s%-14s %5" PRId64 " (%5" PRId64 ")", op % 4 ? "  " : "\n    ", op_table[op].name, totals->in_graph[op],
               totals->on_parts[op]);
    printf("\n");
}

static int missing(const char *what, const char *name, int64_t n) {
    if (n == 0) printf("never occurred: %s %s\n", what, name);
    return n == 0;
}

/* Every operator row, every kind of communication, every mode, uneven shares. */
static bool all_occurred(const Totals *totals) {
    int none = 0;
    for (int op = 0; op < NOPS; op++) {
        const Op *row = &op_table[op];
        if (op == OP_compress) continue; /* what ranks round is not what one rank rounds: run-compress tries it */
        if (op == OP_put) continue;      /* of caches of programs that generate, which random nets have none of: run-generate tries it */
        if (op_updates_rows((OpCode)op))
            continue; /* few nets have a table that is looked up alone, and is as large as the batch: tests/ops tries them */
        none += missing("operator", row->name, totals->in_graph[op]);
        bool computes = row->op_class != OP_CLASS_LEAF && !row->expand;
        if (computes && totals->in_graph[op] > 0) none += missing("on a part of a tensor:", row->name, totals->on_parts[op]);
    }
    for (int c = 0; c < NCOMMS; c++)
        none += missing("communication", comm_name[c], totals->comms[c]);
    for (int m = 0; m < NMODES; m++)
        none += missing("mode", mode_name[m], totals->modes[m]);
    for (int p = 0; p < 3; p++)
        none += missing("redistribution policy", "", totals->policies[p]);
    for (int s = 0; s < NSCHEDULES; s++)
        none += missing("schedule", schedule_name[s], totals->schedules[s]);
    none += missing("warmup", "", totals->warmup) + missing("weight decay", "", totals->decay) + missing("clip", "", totals->clip) +
            missing("accumulate", "", totals->accumulate) + missing("averages of parameters", "", totals->ema) +
            missing("factors of a parameter", "", totals->scaled);
    none += missing("data", "numpy_rand", totals->data[DATA_NUMPY_RAND]) + missing("data", "normal", totals->data[DATA_NORMAL]) +
            missing("data", "uniform", totals->data[DATA_UNIFORM]);
    none += missing("f32", "", totals->dtypes[F32]) + missing("f64", "", totals->dtypes[F64]);
    none += missing("uneven shares", "", totals->uneven) + missing("named axes", "", totals->named) +
            missing("output strategy", "", totals->output);
    none += missing("a value used twice", "", totals->shared) + missing("explicit dataset strategy", "", totals->explicit_dataset);
    none += missing("bucket of several gradients", "", totals->bucket) + missing("another machine", "", totals->machine) +
            missing("search over the whole net", "", totals->searched) + missing("values computed again", "", totals->recomputes) +
            missing("values hinted to be gathered again", "", totals->regathers) + missing("stages", "", totals->stages) +
            missing("stage hint", "", totals->stage_hints) + missing("parameter on one rank", "", totals->at) +
            missing("measures for memory", "", totals->limited) + missing("values chosen to be computed again", "", totals->chosen_again);
    return none == 0;
}

/* ---------------------------------------------------------------- many nets */

/* A child that checks seeds from `first` on and writes a report each. */
typedef struct Worker {
    pid_t pid;
    int reports;
} Worker;

static bool worker_start(Worker *worker, uint64_t first, NetFault fault, const char *directory) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fflush(stdout);
    worker->pid = fork();
    worker->reports = ends[0];
    if (worker->pid != 0) {
        close(ends[1]);
        return worker->pid > 0;
    }
    close(ends[0]);
    for (uint64_t seed = first;; seed++) {
        Arena arena;
        FuzzNet net;
        NetReport report;
        alarm(NET_SECONDS);
        arena_init(&arena);
        fuzz_make(&net, &arena, seed);
        net_check(&net, seed % 8 == 0 ? NET_ALL_LEVELS : NET_LEVELS, fault, directory, &report);
        arena_finish(&arena);
        if (write(ends[1], &report, sizeof report) != (ssize_t)sizeof report) _exit(1);
    }
}

/* The next report; false: the child is dead. */
static bool worker_next(Worker *worker, NetReport *report) {
    size_t n = 0;
    for (ssize_t got; n < sizeof *report && (got = read(worker->reports, (char *)report + n, sizeof *report - n)) > 0;)
        n += (size_t)got;
    return n == sizeof *report;
}

static void worker_stop(Worker *worker) {
    close(worker->reports); /* its next report ends it */
    kill(worker->pid, SIGKILL);
    waitpid(worker->pid, NULL, 0);
}

/* Makes it again, shrinks and prints it; *left: what is left of it, or NULL. */
static NetReport shrink_and_print(uint64_t seed, NetFault fault, const char *directory, Arena *arena, FuzzNet *left) {
    NetReport report;
    Text text = {0}, before = {0};
    fuzz_make(left, arena, seed);
    fuzz_print(&before, left);
    static const int levels[] = {2, 0, 1};
    for (int k = 0; k < 3; k++) {
        left->optimize = levels[k];
        net_check_apart(left, 1 << levels[k], fault, directory, NET_SECONDS, &report);
        if (report.outcome > NET_REJECTED) break;
    }
    if (report.outcome <= NET_REJECTED) {
        printf("seed %" PRIu64 " failed, but does not when it is checked alone\n%s", seed, before.at);
    } else {
        printf("seed %" PRIu64 ": the net %s at -O%d: %s\n", seed, net_outcome_name[report.outcome], left->optimize, report.text);
        int tried = net_shrink(left, arena, fault, directory, SHRINK_SECONDS, &report);
        fuzz_print(&text, left);
        printf("shrunk in %d trials; it %s: %s\n%s--- before\n%s", tried, net_outcome_name[report.outcome], report.text, text.at,
               before.at);
    }
    fflush(stdout);
    text_finish(&text);
    text_finish(&before);
    return report;
}

/* Until so many count or the time is over; failures are printed. */
static Totals check_nets(uint64_t first, int64_t count, double seconds, const char *directory) {
    Totals totals = {0};
    Worker worker;
    double begin = now_seconds(), said = begin;
    uint64_t seed = first;
    bool alive = worker_start(&worker, seed, FAULT_NONE, directory);
    while (alive && totals.failed < MOST_FAILURES && totals.counted < count && totals.checked < 4 * count &&
           now_seconds() - begin < seconds) {
        NetReport report;
        bool heard = worker_next(&worker, &report);
        if (!heard) report = (NetReport){.seed = seed, .outcome = NET_CRASHES};
        add_report(&totals, &report);
        seed++;
        if (report.outcome > NET_REJECTED) {
            FuzzNet left;
            Arena arena;
            worker_stop(&worker);
            arena_init(&arena);
            shrink_and_print(report.seed, FAULT_NONE, directory, &arena, &left);
            arena_finish(&arena);
            alive = worker_start(&worker, seed, FAULT_NONE, directory);
        }
        if (now_seconds() - said > 10) {
            said = now_seconds();
            fprintf(stderr, "%" PRId64 " nets, %.1f a second, %" PRId64 " failed, at seed %" PRIu64 "\n", totals.checked,
                    (double)totals.checked / (said - begin), totals.failed, seed);
        }
    }
    if (alive) worker_stop(&worker);
    print_totals(&totals, now_seconds() - begin);
    return totals;
}

/* ---------------------------------------------------------------- one net; this test's test */

static int check_one(uint64_t seed, const char *directory) {
    Arena arena;
    FuzzNet net;
    Text text = {0};
    NetReport report;
    arena_init(&arena);
    fuzz_make(&net, &arena, seed);
    fuzz_print(&text, &net);
    net_check_apart(&net, NET_ALL_LEVELS, FAULT_NONE, directory, NET_SECONDS, &report);
    if (report.outcome <= NET_REJECTED)
        printf("%sthe net %s%s%s; it %s\n", text.at, net_outcome_name[report.outcome], report.text[0] ? ": " : "", report.text,
               net_counts(&report) ? "counts" : "does not count");
    else
        shrink_and_print(seed, FAULT_NONE, directory, &arena, &net);
    text_finish(&text);
    arena_finish(&arena);
    return report.outcome > NET_REJECTED ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The first net that fails with the fault is shrunk to at most so many statements and ranks, and still fails so. */
static bool finds_fault(NetFault fault, NetOutcome expected, int statements, int nranks, const char *directory) {
    for (uint64_t seed = 1; seed < 100; seed++) {
        Arena arena;
        FuzzNet net;
        NetReport report;
        arena_init(&arena);
        fuzz_make(&net, &arena, seed);
        net_check_apart(&net, NET_LEVELS, fault, directory, NET_SECONDS, &report);
        bool found = report.outcome > NET_REJECTED;
        if (found) {
            int n = 0;
            report = shrink_and_print(seed, fault, directory, &arena, &net);
            for (int i = 0; i < net.items.n; i++)
                n += net.items.at[i].kind == FUZZ_OP;
            printf("fault %d: %s, %d statements, %d ranks\n\n", fault, net_outcome_name[report.outcome], n, net.nranks);
            found = report.outcome == expected && n <= statements && net.nranks <= nranks;
            arena_finish(&arena);
            return found;
        }
        arena_finish(&arena);
    }
    return false;
}

static int usage(void) {
    fputs("usage: nets DIR (--first SEED --count N | --seed SEED | --seconds S | --forever | --faults)\n", stderr);
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    uint64_t first = 0, seed = 0;
    double seconds = 1e18;
    int64_t count = INT64_MAX / 8;
    bool one = false, faults = false, given = false, counted = false;
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        bool takes = true;
        if (strcmp(argv[i], "--first") == 0)
            first = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoll(value, NULL, 10), counted = true;
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10), one = true;
        else if (strcmp(argv[i], "--forever") == 0)
            takes = false;
        else if (strcmp(argv[i], "--faults") == 0)
            takes = false, faults = true;
        else
            return usage();
        given = true;
        i += takes;
    }
    if (!given) return usage();
    Arena arena;
    arena_init(&arena);
    char *directory = arena_printf(&arena, "%s/nets.XXXXXX", argv[1]);
    if (!mkdtemp(directory)) {
        perror(directory);
        return EXIT_ENVIRONMENT;
    }
    int code = EXIT_FAILURE;
    if (one) {
        code = check_one(seed, directory);
    } else if (faults) {
        bool found = finds_fault(FAULT_NO_REDUCTION, NET_DIFFERS, 4, 2, directory);
        found = finds_fault(FAULT_CRASH, NET_CRASHES, 3, 2, directory) && found;
        code = found ? EXIT_SUCCESS : EXIT_FAILURE;
    } else {
        const char *fewer = getenv("PCC_NETS");
        if (counted && fewer && *fewer) count = strtoll(fewer, NULL, 10);
        if (!counted && first == 0) first = (uint64_t)time(NULL) * 1000;
        Totals totals = check_nets(first, count, seconds, directory);
        bool enough = !counted || totals.counted >= count, occurred = totals.counted < DEMANDING || all_occurred(&totals);
        if (!enough) printf("only %" PRId64 " of %" PRId64 " nets count\n", totals.counted, count);
        bool few_doubts = totals.doubtful * 50 <= totals.checked;
        if (!few_doubts) printf("too many nets differ from one rank with some data\n");
        code = totals.failed == 0 && enough && occurred && few_doubts ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    static const char *const files[] = {"one.plan", "many.plan"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(arena_printf(&arena, "%s/%s", directory, files[i]));
    rmdir(directory);
    arena_finish(&arena);
    return code;
}
