/* prun: the command line. */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/file.h"
#include "runtime/backend.h"
#include "runtime/export.h"
#include "runtime/fewer.h"
#include "runtime/launch.h"
#include "runtime/options.h"
#include "runtime/plot.h"

static const char usage[] =
    "usage: prun [options] net.plan\n"
    "       mpirun -n RANKS prun [options] net.plan\n"
    "       prun --nproc RANKS [options] net.plan\n"
    "       mpirun -n RANKS prun --calibrate [FILE]\n"
    "\n"
    "Trains the net of a plan that pcc wrote.\n"
    "\n"
    "  --ranks N           all N ranks in this one process, without MPI\n"
    "  --nproc N           N ranks, each a process that this prun starts, without MPI; on several nodes each starts its own, with\n"
    "  --nnodes M --node-rank K --master-addr A --master-port P    where the ranks of all meet: node 0's address, a port there\n"
    "  --max-restarts R    with --nproc: after a failure start them again, from the latest checkpoint, up to R times\n"
    "  --min-ranks K       with --nproc: where a node does not come (again), go on with the ranks that are left, K or more;\n"
    "                      plans for fewer ranks stand behind the first: net8.plan net4.plan\n"
    "  --job NAME          what the job is called, on each node alike: ranks of another one that come to the same port are refused\n"
    "  --start-timeout S   seconds until all ranks have met (default: 300; with --min-ranks: 30)\n"
    "  --calibrate [FILE]  measure links between ranks and nodes, kernels and memory (about 10 s), and write them to FILE\n"
    "                      (default: calibrated.machine), for pcc --machine FILE; with mpirun or --ranks N, without a plan\n"
    "  --verify=ONE.plan   run the plan of the same net for one rank beside it; compare losses and states after each step\n"
    "  --print NAME        print a parameter, or an optimizer's state (w.momentum), at the end (may be repeated); NAME:full prints all\n"
    "                      elements with all digits\n"
    "  --load FILE         begin with the parameters of a safetensors file, of prun or of another program\n"
    "  --rename NET=FILE   with --load: what the file calls parameters, 'encoder.**=bert.encoder.**'; * is a name or a piece of one,\n"
    "                      ** any number of names, each the same on both sides (may be repeated, as the two that follow)\n"
    "  --transpose PATTERN with --load: the file has these matrices transposed\n"
    "  --fresh PATTERN     with --load: these parameters begin as the net says, whatever the file has\n"
    "  --save FILE         write the parameters into a safetensors file at the end (with --eval: those that were loaded)\n"
    "  --averages          --save writes the averages that train keeps (ema) in place of the parameters\n"
    "  --import FILE       do not train: write what --load FILE would begin with as the plan's first checkpoint\n"
    "  --export FILE       do not train: write the parameters of the newest checkpoint, or of --resume's, into a safetensors file\n"
    "  --resume latest     go on from the newest checkpoint, or from the one named; on any number of ranks, with any strategy,\n"
    "                      and any batch size that the rows done so far divide into\n"
    "  --checkpoint-dir D  where checkpoints are (default: the plan's path and .checkpoints)\n"
    "  --overwrite         begin where an earlier run's checkpoints are: the first checkpoint of this run replaces them\n"
    "  --eval              do not train: evaluate once, on the data of the eval block (with --load or --resume)\n"
    "  --predict FILE      the same, and write what the net answers to each row into FILE, a .npy in the order of the data;\n"
    "                      labels are not needed for that\n"
    "  --data INPUT=FILE   with --eval or --predict: another file for an input of the eval block, read as that one is (may be repeated)\n"
    "  --generate N        do not train: generate N tokens behind a prompt, of a net with a generate block (with --load or --resume)\n"
    "  --prompt TEXT       what the text begins with; --prompt-tokens 1,2,3 where tokens are no characters (may be repeated: a text each,\n"
    "                      one after the other, each as if it were alone)\n"
    "  --prompts FILE      the same, of a file with a prompt a line\n"
    "  --json              a line of JSON for each text: prompt, text, tokens, ended\n"
    "  --temperature T, --top-k K, --seed S  in place of what the generate block says; temperature 0: the most likely token\n";
/* In parts: no string is longer than what C requires compilers to support. */
static const char usage_end[] =
    "  --logits FILE       write the logits that each token was drawn from, a line of numbers each; of --generate 0 those of each\n"
    "                      place of the prompt\n"
    "  --metrics FILE      write loss, learning rate, time and samples/s as JSON, a line for each loss printed;\n"
    "                      a table where FILE ends in .csv, TensorBoard's events where it is a directory (runs/)\n"
    "  --plot[=FILE.svg]   draw loss and metrics of runs: prun --plot=loss.svg a.jsonl b.csv; without a file as text\n"
    "  --log-dir DIR       write each rank's losses into DIR/rank_K.log\n"
    "  --on-nan HOW        where a loss is nan or infinite: stop, and say why, or go (default: as the plan says, else stop)\n"
    "  --check-replicas    see after loading and after each step that ranks with the same part of a state hold the same bits\n"
    "  --device D          cpu or cuda (default: a GPU where there is one)\n"
    "  --comm HOW          how ranks on GPUs talk: nccl, ipc or host (default: the first that works)\n"
    "  --tf32              products of f32 round their factors to tf32: faster on GPUs, about 3 digits\n"
    "  --deterministic     on GPUs too, two runs are equal bit for bit\n"
    "  --no-graph          do not capture steps as CUDA graphs\n"
    "  --sync              wait for each operator: a failure on the GPU names the one that failed (slow)\n"
    "  --devices           list the GPUs, and whether NCCL, IPC and peer access work\n"
    "  --profile           print where the time of steps goes: by operator, against the device's measured peaks, gaps between them\n"
    "  --trace FILE        write the first 20 steps as Chrome's JSON, for chrome://tracing and Perfetto\n"
    "  --report FILE       put what the run measures into the plan's page (pcc --report): times of each rank, losses, memory;\n"
    "                      where there is no file yet, make one of the plan alone\n"
    "  --all-ranks         print the loss of every rank, not of rank 0 only\n"
    "  -v, --verbose       say where each rank runs, what was proved of the plan, how much is read from files\n"
    "  -h, --help          this text\n"
    "  --version           prun's version\n"
    "\n"
    "Options that contradict each other are usage errors. Of one that is given again the last one counts, but for those that may be repeated.\n"
    "Without mpirun ranks meet over TCP where RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say so, or Slurm's variables.\n"
    "Environment: PRUN_COMM, how ranks of a node exchange data: shared, messages or nodes:N; PRUN_TIMEOUT, seconds that a rank waits (600);\n"
    "PRUN_DEVICE, as --device; PRUN_CUDA_MODULE, PRUN_NCCL and PRUN_CUDNN, the files of prun_cuda.so, libnccl.so.2 and libcudnn.so.9.\n"
    "SIGUSR1: a checkpoint after the step under way, and training goes on. SIGINT, SIGTERM and SIGUSR2 end it after that step, with\n"
    "checkpoint and --save; a second SIGINT at once.\n"
    "Exit codes: 0 done, 1 plan rejected, 2 usage, 3 environment, 4 results differ (--verify) or are not finite, 70 internal, 128 + N: signal N.\n";

enum {
    OPTION_RANKS = 256,
    OPTION_NPROC,
    OPTION_NNODES,
    OPTION_NODE_RANK,
    OPTION_MASTER_ADDR,
    OPTION_MASTER_PORT,
    OPTION_MAX_RESTARTS,
    OPTION_MIN_RANKS,
    OPTION_JOB,
    OPTION_START_TIMEOUT,
    OPTION_CALIBRATE,
    OPTION_VERIFY,
    OPTION_PRINT,
    OPTION_EVAL,
    OPTION_PREDICT,
    OPTION_DATA,
    OPTION_GENERATE,
    OPTION_PROMPT,
    OPTION_PROMPT_TOKENS,
    OPTION_PROMPTS,
    OPTION_JSON,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_SEED,
    OPTION_LOGITS,
    OPTION_LOAD,
    OPTION_RENAME,
    OPTION_TRANSPOSE,
    OPTION_FRESH,
    OPTION_SAVE,
    OPTION_AVERAGES,
    OPTION_IMPORT,
    OPTION_EXPORT,
    OPTION_RESUME,
    OPTION_CHECKPOINT_DIR,
    OPTION_OVERWRITE,
    OPTION_METRICS,
    OPTION_PLOT,
    OPTION_LOG_DIR,
    OPTION_CHECK_REPLICAS,
    OPTION_ALL_RANKS,
    OPTION_DEVICE,
    OPTION_COMM,
    OPTION_TF32,
    OPTION_DETERMINISTIC,
    OPTION_NO_GRAPH,
    OPTION_SYNC,
    OPTION_DEVICES,
    OPTION_PROFILE,
    OPTION_TRACE,
    OPTION_REPORT,
    OPTION_ON_NAN,
    OPTION_VERSION
};
static const struct option long_options[] = {
    {"ranks", required_argument, NULL, OPTION_RANKS},
    {"nproc", required_argument, NULL, OPTION_NPROC},
    {"nnodes", required_argument, NULL, OPTION_NNODES},
    {"node-rank", required_argument, NULL, OPTION_NODE_RANK},
    {"master-addr", required_argument, NULL, OPTION_MASTER_ADDR},
    {"master-port", required_argument, NULL, OPTION_MASTER_PORT},
    {"max-restarts", required_argument, NULL, OPTION_MAX_RESTARTS},
    {"min-ranks", required_argument, NULL, OPTION_MIN_RANKS},
    {"job", required_argument, NULL, OPTION_JOB},
    {"start-timeout", required_argument, NULL, OPTION_START_TIMEOUT},
    {"calibrate", optional_argument, NULL, OPTION_CALIBRATE},
    {"verify", required_argument, NULL, OPTION_VERIFY},
    {"print", required_argument, NULL, OPTION_PRINT},
    {"eval", no_argument, NULL, OPTION_EVAL},
    {"predict", required_argument, NULL, OPTION_PREDICT},
    {"data", required_argument, NULL, OPTION_DATA},
    {"generate", required_argument, NULL, OPTION_GENERATE},
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"prompt-tokens", required_argument, NULL, OPTION_PROMPT_TOKENS},
    {"prompts", required_argument, NULL, OPTION_PROMPTS},
    {"json", no_argument, NULL, OPTION_JSON},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"top-k", required_argument, NULL, OPTION_TOP_K},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"logits", required_argument, NULL, OPTION_LOGITS},
    {"load", required_argument, NULL, OPTION_LOAD},
    {"rename", required_argument, NULL, OPTION_RENAME},
    {"transpose", required_argument, NULL, OPTION_TRANSPOSE},
    {"fresh", required_argument, NULL, OPTION_FRESH},
    {"save", required_argument, NULL, OPTION_SAVE},
    {"averages", no_argument, NULL, OPTION_AVERAGES},
    {"import", required_argument, NULL, OPTION_IMPORT},
    {"export", required_argument, NULL, OPTION_EXPORT},
    {"resume", required_argument, NULL, OPTION_RESUME},
    {"checkpoint-dir", required_argument, NULL, OPTION_CHECKPOINT_DIR},
    {"overwrite", no_argument, NULL, OPTION_OVERWRITE},
    {"metrics", required_argument, NULL, OPTION_METRICS},
    {"plot", optional_argument, NULL, OPTION_PLOT},
    {"log-dir", required_argument, NULL, OPTION_LOG_DIR},
    {"check-replicas", no_argument, NULL, OPTION_CHECK_REPLICAS},
    {"all-ranks", no_argument, NULL, OPTION_ALL_RANKS},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"comm", required_argument, NULL, OPTION_COMM},
    {"tf32", no_argument, NULL, OPTION_TF32},
    {"deterministic", no_argument, NULL, OPTION_DETERMINISTIC},
    {"no-graph", no_argument, NULL, OPTION_NO_GRAPH},
    {"sync", no_argument, NULL, OPTION_SYNC},
    {"profile", no_argument, NULL, OPTION_PROFILE},
    {"trace", required_argument, NULL, OPTION_TRACE},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"on-nan", required_argument, NULL, OPTION_ON_NAN},
    {"devices", no_argument, NULL, OPTION_DEVICES},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {0},
};

enum { MAX_LOCAL_RANKS = 4096, MAX_JOB = 63 };

static bool read_number(const char *text, long least, long most, int *number) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most) return false;
    *number = (int)value;
    return true;
}

static bool read_count(const char *text, int *count) {
    return read_number(text, 1, MAX_LOCAL_RANKS, count);
}

static bool read_seconds(const char *text, double *seconds) {
    char *end;
    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds >= 0 && *seconds <= 1e6;
}

/* Reads the number of --generate, --top-k or --seed. */
static bool read_integer(const char *text, int64_t most, int64_t *number) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0 || value > most) return false;
    *number = value;
    return true;
}

static bool read_temperature(const char *text, double *temperature) {
    char *end;
    *temperature = strtod(text, &end);
    return end != text && !*end && *temperature >= 0 && *temperature <= 1e6;
}

/* Whether this process is the first that a launcher has started with its command line: mpirun -n 2 prun .. : -n 2 prun .. has two of these. */
static bool is_first(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *app = getenv("OMPI_MCA_orte_app_num"),
               *sizes = getenv("OMPI_APP_CTX_NUM_PROCS"); /* "1", "2 2" */
    if (!rank) rank = getenv("PMIX_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    if (!rank && getenv("MASTER_PORT")) rank = getenv("RANK");
    if (!rank) rank = getenv("SLURM_PROCID");
    long first = 0;
    for (int i = app && sizes ? atoi(app) : 0; i > 0; i--) {
        char *end;
        first += strtol(sizes, &end, 10);
        sizes = end;
    }
    return !rank || atol(rank) == first;
}

/* The launcher ends all processes when one fails: the others give the first one time to print why. */
static int usage_exit(void) {
    if (!is_first()) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return EXIT_USAGE;
}

/* Reports a mistake on the command line. */
static int usage_error(const char *format, ...) PRINTF_LIKE(1, 2);
static int usage_error(const char *format, ...) {
    if (!is_first()) return usage_exit();
    va_list args;
    va_start(args, format);
    fputs("prun: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

/* Whether word is one of two or three; reports a mistake otherwise. */
static bool one_of(const char *option, const char *word, const char *first, const char *second, const char *third) {
    if (strcmp(word, first) == 0 || strcmp(word, second) == 0 || (third && strcmp(word, third) == 0)) return true;
    usage_error("%s is %s%s%s%s%s, not '%s'", option, first, third ? ", " : " or ", second, third ? " or " : "", third ? third : "", word);
    return false;
}

/* ---------------------------------------------------------------- options that say opposite things */

enum { NOPTIONS = OPTION_VERSION - OPTION_RANKS + 1 };
#define OPTION_BIT(name) (UINT64_C(1) << (OPTION_##name - OPTION_RANKS))
static_assert(NOPTIONS < 64, "a bit for each");

/* Options of --nproc. */
#define LAUNCH_BITS                                                                                                                        \
    (OPTION_BIT(NPROC) | OPTION_BIT(NNODES) | OPTION_BIT(NODE_RANK) | OPTION_BIT(MASTER_ADDR) | OPTION_BIT(MASTER_PORT) |                  \
     OPTION_BIT(MAX_RESTARTS) | OPTION_BIT(MIN_RANKS) | OPTION_BIT(JOB) | OPTION_BIT(START_TIMEOUT))

/* Options for training, its figures and checks. */
#define NOT_TRAINED_BITS                                                                                                                   \
    (OPTION_BIT(VERIFY) | OPTION_BIT(CHECK_REPLICAS) | OPTION_BIT(LOG_DIR) | OPTION_BIT(METRICS) | OPTION_BIT(ALL_RANKS) |                 \
     OPTION_BIT(PROFILE) | OPTION_BIT(TRACE) | OPTION_BIT(REPORT) | OPTION_BIT(ON_NAN))

static const char *option_name(int bit) {
    int i = 0;
    while (long_options[i].val != OPTION_RANKS + bit)
        i++;
    return long_options[i].name;
}

/* With the first option the others have no meaning: they are reported as mistakes, not ignored. */
static const struct Contradiction {
    uint64_t with, out;
    const char *because;
} contradictions[] = {
    {OPTION_BIT(RANKS), OPTION_BIT(NPROC), "puts all ranks in one process"},
    {OPTION_BIT(PLOT), ~OPTION_BIT(PLOT), "draws what runs have written and runs nothing"},
    {OPTION_BIT(DEVICES), ~OPTION_BIT(DEVICES), "lists GPUs and runs nothing"},
    {OPTION_BIT(CALIBRATE), ~(OPTION_BIT(CALIBRATE) | OPTION_BIT(RANKS) | LAUNCH_BITS), "measures the machine and runs no plan"},
    {OPTION_BIT(EVAL) | OPTION_BIT(PREDICT),
     OPTION_BIT(VERIFY) | OPTION_BIT(CHECK_REPLICAS) | OPTION_BIT(LOG_DIR) | OPTION_BIT(ALL_RANKS) | OPTION_BIT(PROFILE) |
         OPTION_BIT(TRACE) | OPTION_BIT(REPORT) | OPTION_BIT(OVERWRITE) | OPTION_BIT(ON_NAN),
     "trains nothing"},
    {OPTION_BIT(GENERATE),
     OPTION_BIT(EVAL) | OPTION_BIT(PREDICT) | OPTION_BIT(DATA) | OPTION_BIT(VERIFY) | OPTION_BIT(CHECK_REPLICAS) | OPTION_BIT(LOG_DIR) |
         OPTION_BIT(METRICS) | OPTION_BIT(ALL_RANKS) | OPTION_BIT(PROFILE) | OPTION_BIT(TRACE) | OPTION_BIT(REPORT) |
         OPTION_BIT(OVERWRITE) | OPTION_BIT(ON_NAN) | OPTION_BIT(SAVE) | OPTION_BIT(PRINT),
     "generates text and does nothing else"},
    {OPTION_BIT(PROMPT), OPTION_BIT(PROMPT_TOKENS), "says what the text begins with"},
    {OPTION_BIT(PROMPTS), OPTION_BIT(PROMPT) | OPTION_BIT(PROMPT_TOKENS), "says what the texts begin with"},
    {OPTION_BIT(LOAD), OPTION_BIT(RESUME), "says what parameters begin with"},
    {OPTION_BIT(IMPORT),
     OPTION_BIT(EVAL) | OPTION_BIT(PREDICT) | OPTION_BIT(GENERATE) | OPTION_BIT(LOAD) | OPTION_BIT(RESUME) | OPTION_BIT(SAVE) |
         OPTION_BIT(EXPORT) | OPTION_BIT(PRINT) | NOT_TRAINED_BITS,
     "writes a checkpoint and trains nothing"},
    {OPTION_BIT(EXPORT), ~(OPTION_BIT(EXPORT) | OPTION_BIT(RESUME) | OPTION_BIT(CHECKPOINT_DIR) | OPTION_BIT(AVERAGES)),
     "copies a checkpoint's parameters and runs nothing"},
    {OPTION_BIT(TF32), OPTION_BIT(VERIFY), "rounds far more than what is compared may differ"},
};

/* Checks --nproc and the options that go with it. */
static bool check_launch(uint64_t given, const LaunchOptions *launch) {
    const uint64_t more = given & LAUNCH_BITS & ~(OPTION_BIT(NPROC) | OPTION_BIT(JOB) | OPTION_BIT(START_TIMEOUT));
    for (int b = 0; launch->nproc == 0 && b < NOPTIONS; b++)
        if (more >> b & 1) {
            usage_error("--%s is of ranks that prun starts itself: add --nproc N", option_name(b));
            return false;
        }
    if (launch->nproc == 0) return true;
    if (launched_processes() > 0) {
        usage_error("--nproc starts the ranks itself: leave out mpirun, or --nproc");
        return false;
    }
    if (launch->nnodes > 1 && (!launch->master_address || launch->master_port == 0 || !(given & OPTION_BIT(NODE_RANK)))) {
        usage_error("--nnodes %d wants --node-rank, and where the ranks meet: --master-addr and --master-port", launch->nnodes);
        return false;
    }
    if (launch->node_rank >= launch->nnodes) {
        usage_error("--node-rank is from 0 to %d (--nnodes), not %d", launch->nnodes - 1, launch->node_rank);
        return false;
    }
    if (launch->min_ranks >= launch->nnodes * launch->nproc) {
        usage_error("--min-ranks %d: the job has %d, and goes on with fewer", launch->min_ranks, launch->nnodes * launch->nproc);
        return false;
    }
    return true;
}

static bool check_options(uint64_t given, const RunOptions *options) {
    if (!check_launch(given, &options->launch)) return false;
    for (size_t i = 0; i < sizeof contradictions / sizeof *contradictions; i++) {
        const struct Contradiction *rule = &contradictions[i];
        for (int a = 0; a < NOPTIONS; a++)
            for (int b = 0; b < NOPTIONS; b++)
                if ((rule->with & given) >> a & 1 && (rule->out & given) >> b & 1) {
                    usage_error("--%s %s: leave out --%s", option_name(a), rule->because, option_name(b));
                    return false;
                }
    }
    const uint64_t rules = given & (OPTION_BIT(RENAME) | OPTION_BIT(TRANSPOSE) | OPTION_BIT(FRESH));
    for (int b = 0; !options->load && b < NOPTIONS; b++)
        if (rules >> b & 1) {
            usage_error("--%s says how --load reads a file: add --load FILE", option_name(b));
            return false;
        }
    const uint64_t drawn = given & (OPTION_BIT(PROMPT) | OPTION_BIT(PROMPT_TOKENS) | OPTION_BIT(PROMPTS) | OPTION_BIT(JSON) |
                                    OPTION_BIT(TEMPERATURE) | OPTION_BIT(TOP_K) | OPTION_BIT(SEED) | OPTION_BIT(LOGITS));
    for (int b = 0; options->ngenerate < 0 && b < NOPTIONS; b++)
        if (drawn >> b & 1) {
            usage_error("--%s is of what is generated: add --generate N", option_name(b));
            return false;
        }
    if (options->ngenerate >= 0 && options->nprompts == 0 && !options->prompts_file) {
        usage_error("--generate goes on from a text: add --prompt TEXT, --prompts FILE or --prompt-tokens 1,2,3");
        return false;
    }
    const char *dot = options->predict ? strrchr(options->predict, '.') : NULL;
    if (dot && (strcmp(dot, ".csv") == 0 || strcmp(dot, ".tsv") == 0 || strcmp(dot, ".txt") == 0)) {
        usage_error("--predict writes a .npy file, and %s is the name of another", options->predict);
        return false;
    }
    if (options->ndata > 0 && !options->eval && !options->predict) {
        usage_error("--data says what is evaluated: add --eval or --predict FILE");
        return false;
    }
    if (options->averages && !options->save && !options->export) {
        usage_error("--averages says what is saved: add --save FILE");
        return false;
    }
    bool latest = options->resume && strcmp(options->resume, "latest") == 0;
    if (options->checkpoint && (options->eval || options->predict) && !latest) {
        usage_error("--%s saves no checkpoint: leave out --checkpoint-dir, or add --resume latest", options->eval ? "eval" : "predict");
        return false;
    }
    const uint64_t gpu = given & (OPTION_BIT(COMM) | OPTION_BIT(TF32) | OPTION_BIT(NO_GRAPH) | OPTION_BIT(SYNC));
    for (int b = 0; options->device && strcmp(options->device, "cpu") == 0 && b < NOPTIONS; b++)
        if (gpu >> b & 1) {
            usage_error("--device cpu uses no GPU: leave out --%s", option_name(b));
            return false;
        }
    return true;
}

/* ---------------------------------------------------------------- what all ranks must have in common */

enum { NLONG = sizeof long_options / sizeof *long_options - 1, COMMON_VERSION = NLONG, COMMON_PLAN, COMMON_COMM, COMMON_DEVICE, NCOMMON };

/* Notes an option as one that all ranks must have in common, except those of processes, which may differ between nodes. */
static void note_option(Common *common, Arena *arena, int option, const char *value) {
    if (option >= OPTION_NPROC && option <= OPTION_START_TIMEOUT) return;
    for (int i = 0; i < NLONG; i++)
        if (long_options[i].val == option)
            common[i].said = !value ? "given" : common[i].said ? arena_printf(arena, "%s, %s", common[i].said, value) : value;
}

/* Notes variables that decide how ranks talk; how long a rank waits for others may differ. */
static void note_others(Common *common, Arena *arena, const char *plan, const char *device) {
    const char *comm = getenv("PRUN_COMM"), *variable = getenv("PRUN_DEVICE");
    for (int i = 0; i < NLONG; i++)
        common[i].what = arena_printf(arena, "--%s", long_options[i].name);
    common[COMMON_VERSION] = (Common){"prun's version", PCC_VERSION};
    common[COMMON_PLAN] = (Common){"the plan", plan};
    common[COMMON_COMM] = (Common){"PRUN_COMM", comm && *comm ? comm : NULL};
    common[COMMON_DEVICE] = (Common){"PRUN_DEVICE", !device && variable && *variable ? variable : NULL};
}

/* --devices. */
static int list_devices(void) {
    Error error = {0};
    Text text = {0};
    const DeviceModule *module = device_module(&error);
    bool ok = module && module->list(&text, &error);
    if (text.n > 0) fputs(text.at, stdout);
    text_finish(&text);
    if (!ok) fprintf(stderr, "prun: %s\n", error.text);
    return ok ? EXIT_DONE : error.code;
}

/* --min-ranks: -1, or the exit code. */
static int read_fewer(RunOptions *options, Arena *arena) {
    Error error = {0};
    if (fewer_read(options, arena, &error)) return -1;
    fprintf(stderr, "prun: %s\n", error.text);
    return error.code;
}

int main(int argc, char **argv) {
    RunOptions options = {.launch = {.nnodes = 1, .start_timeout_s = -1}, .ngenerate = -1, .temperature = -1, .top_k = -1, .draw_seed = -1};
    standard_files();
    cpu_set_environment();
    const char **words = calloc((size_t)argc * 6, sizeof *words); /* values of the options that may be repeated */
    if (!words) return EXIT_ENVIRONMENT;
    const char **prints = words, **prompts = words + 5 * argc;
    options.data = words + 4 * argc;
    options.rules = (LoadRules){.renames = words + argc, .transposes = words + 2 * argc, .fresh = words + 3 * argc};
    uint64_t given = 0;         /* OPTION_BIT of each */
    const char *picture = NULL; /* --plot's FILE */
    const char *machine = NULL; /* --calibrate's FILE, behind '=' or as a word of its own */
    Arena arena;
    arena_init(&arena);
    Common common[NCOMMON + 1] = {{0}};
    options.common = common;
    int code = -1;
    opterr = is_first();
    for (int option; code < 0 && (option = getopt_long(argc, argv, "hv", long_options, NULL)) != -1;) {
        if (option >= OPTION_RANKS && option <= OPTION_VERSION) given |= UINT64_C(1) << (option - OPTION_RANKS);
        note_option(common, &arena, option, optarg);
        switch (option) {
        case OPTION_RANKS:
            if (!read_count(optarg, &options.nranks))
                code = usage_error("--ranks takes a number from 1 to %d, not '%s'", MAX_LOCAL_RANKS, optarg);
            break;
        case OPTION_NPROC:
            if (!read_count(optarg, &options.launch.nproc))
                code = usage_error("--nproc takes a number from 1 to %d, not '%s'", MAX_LOCAL_RANKS, optarg);
            break;
        case OPTION_NNODES:
            if (!read_count(optarg, &options.launch.nnodes))
                code = usage_error("--nnodes takes a number from 1 to %d, not '%s'", MAX_LOCAL_RANKS, optarg);
            break;
        case OPTION_NODE_RANK:
            if (!read_number(optarg, 0, MAX_LOCAL_RANKS - 1, &options.launch.node_rank))
                code = usage_error("--node-rank takes the number of this node, from 0 on, not '%s'", optarg);
            break;
        case OPTION_MASTER_ADDR:
            options.launch.master_address = optarg;
            break;
        case OPTION_MASTER_PORT:
            if (!read_number(optarg, 1, 65535, &options.launch.master_port))
                code = usage_error("--master-port takes a port from 1 to 65535, not '%s'", optarg);
            break;
        case OPTION_MAX_RESTARTS:
            if (!read_number(optarg, 0, 1000000, &options.launch.max_restarts))
                code = usage_error("--max-restarts takes a number from 0 on, not '%s'", optarg);
            break;
        case OPTION_MIN_RANKS:
            if (!read_count(optarg, &options.launch.min_ranks))
                code = usage_error("--min-ranks takes a number from 1 to %d, not '%s'", MAX_LOCAL_RANKS, optarg);
            break;
        case OPTION_JOB:
            options.launch.job = optarg;
            if (strlen(optarg) > MAX_JOB) code = usage_error("--job takes a name of up to %d bytes", MAX_JOB);
            break;
        case OPTION_START_TIMEOUT:
            if (!read_seconds(optarg, &options.launch.start_timeout_s))
                code = usage_error("--start-timeout takes seconds, 0: no limit, not '%s'", optarg);
            break;
        case OPTION_CALIBRATE:
            machine = optarg;
            break;
        case OPTION_VERIFY:
            options.verify = optarg;
            break;
        case OPTION_PRINT:
            prints[options.nprints++] = optarg;
            break;
        case OPTION_EVAL:
            options.eval = true;
            break;
        case OPTION_PREDICT:
            options.predict = optarg;
            break;
        case OPTION_DATA:
            options.data[options.ndata++] = optarg;
            break;
        case OPTION_GENERATE:
            if (!read_integer(optarg, INT32_MAX, &options.ngenerate))
                code = usage_error("--generate takes a number of tokens, not '%s'", optarg);
            break;
        case OPTION_PROMPT:
        case OPTION_PROMPT_TOKENS:
            prompts[options.nprompts++] = optarg;
            options.prompt_tokens = option == OPTION_PROMPT_TOKENS;
            break;
        case OPTION_PROMPTS:
            options.prompts_file = optarg;
            break;
        case OPTION_JSON:
            options.json = true;
            break;
        case OPTION_TEMPERATURE:
            if (!read_temperature(optarg, &options.temperature))
                code = usage_error("--temperature takes a number from 0 on, not '%s'", optarg);
            break;
        case OPTION_TOP_K:
            if (!read_integer(optarg, INT32_MAX, &options.top_k))
                code = usage_error("--top-k takes a number of tokens, 0: all, not '%s'", optarg);
            break;
        case OPTION_SEED:
            if (!read_integer(optarg, INT64_MAX, &options.draw_seed))
                code = usage_error("--seed takes a number from 0 on, not '%s'", optarg);
            break;
        case OPTION_LOGITS:
            options.logits = optarg;
            break;
        case OPTION_LOAD:
            options.load = optarg;
            break;
        case OPTION_RENAME:
            options.rules.renames[options.rules.nrenames++] = optarg;
            break;
        case OPTION_TRANSPOSE:
            options.rules.transposes[options.rules.ntransposes++] = optarg;
            break;
        case OPTION_FRESH:
            options.rules.fresh[options.rules.nfresh++] = optarg;
            break;
        case OPTION_AVERAGES:
            options.averages = true;
            break;
        case OPTION_SAVE:
            options.save = optarg;
            break;
        case OPTION_IMPORT:
            options.load = optarg;
            options.import = true;
            break;
        case OPTION_EXPORT:
            options.export = optarg;
            break;
        case OPTION_RESUME:
            options.resume = optarg;
            break;
        case OPTION_CHECKPOINT_DIR:
            options.checkpoint = optarg;
            break;
        case OPTION_OVERWRITE:
            options.overwrite = true;
            break;
        case OPTION_METRICS:
            options.metrics = optarg;
            break;
        case OPTION_PLOT:
            picture = optarg;
            break;
        case OPTION_LOG_DIR:
            options.log_directory = optarg;
            break;
        case OPTION_CHECK_REPLICAS:
            options.check_replicas = true;
            break;
        case OPTION_ALL_RANKS:
            options.all_ranks = true;
            break;
        case OPTION_DEVICE:
            options.device = optarg;
            if (!one_of("--device", optarg, "cpu", "cuda", NULL)) code = EXIT_USAGE;
            break;
        case OPTION_COMM:
            options.comm = optarg;
            if (!one_of("--comm", optarg, "nccl", "ipc", "host")) code = EXIT_USAGE;
            break;
        case OPTION_TF32:
            options.tf32 = true;
            break;
        case OPTION_DETERMINISTIC:
            options.deterministic = true;
            break;
        case OPTION_NO_GRAPH:
            options.no_graph = true;
            break;
        case OPTION_SYNC:
            options.wait = true;
            break;
        case OPTION_PROFILE:
            options.profile = true;
            break;
        case OPTION_TRACE:
            options.trace = optarg;
            break;
        case OPTION_REPORT:
            options.report = optarg;
            break;
        case OPTION_ON_NAN:
            options.on_nan = optarg;
            if (!one_of("--on-nan", optarg, on_nan_name[ON_NAN_STOP], on_nan_name[ON_NAN_GO], NULL)) code = EXIT_USAGE;
            break;
        case OPTION_DEVICES: /* below */
            break;
        case 'v':
            options.verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            fputs(usage_end, stdout);
            code = EXIT_DONE; /* whether output could be written is checked at the end */
            break;
        case OPTION_VERSION:
            printf("prun %s\n", PCC_VERSION);
            code = EXIT_DONE;
            break;
        default: /* getopt has printed what is wrong */
            if (opterr) fputs("try 'prun --help'\n", stderr);
            code = usage_exit();
        }
    }
    if (code < 0 && !check_options(given, &options)) code = EXIT_USAGE;
    note_others(common, &arena, optind < argc ? argv[optind] : NULL, options.device);
    if (code < 0 && options.nranks > 0 && launched_processes() > 1)
        code = usage_error("--ranks %d puts all ranks in one process: leave out mpirun, or --ranks", options.nranks);
    bool alone;
    if (code < 0 && options.nranks > 0 && slurm_processes(&alone) > 1)
        code = usage_error("--ranks %d puts all ranks in one process: leave out srun, or --ranks", options.nranks);
    if (code < 0 && given & OPTION_BIT(DEVICES))
        code = optind < argc ? usage_error("--devices takes no plan, '%s' is too much", argv[optind]) : list_devices();
    if (code < 0 && given & OPTION_BIT(PLOT))
        code = optind == argc ? usage_error("--plot draws files of --metrics: which?") : plot(picture, argc - optind, argv + optind);
    if (code < 0 && given & OPTION_BIT(CALIBRATE) && machine == NULL && optind < argc) machine = argv[optind++];
    const bool plans = code < 0 && !(given & OPTION_BIT(CALIBRATE));
    if (plans && optind == argc) code = usage_error("which plan? try 'prun --help'");
    const int more = argc - 1 - optind;
    if (plans && options.launch.min_ranks > 0 && more < 1)
        code = usage_error("--min-ranks %d: with which plan? Those for fewer ranks stand behind the first: net8.plan net4.plan",
                           options.launch.min_ranks);
    if (plans && options.launch.min_ranks == 0 && more > 0) code = usage_error("one plan at a time, '%s' is the second", argv[optind + 1]);
    if (code < 0 && plans) {
        options.plan = argv[optind];
        options.fewer = (const char *const *)argv + optind + 1;
        options.nfewer = more;
    }
    if (code < 0 && options.nfewer > 0 && options.launch.node_rank == 0) code = read_fewer(&options, &arena);
    if (code < 0 && options.export)
        code = launched_processes() > 1 ? usage_error("--export needs no ranks: leave out mpirun") : export_run(&options);
    if (code < 0 && options.launch.nproc > 0) code = launch(&options);
    if (code < 0 && given & OPTION_BIT(CALIBRATE)) {
        code = optind < argc ? usage_error("--calibrate takes one file and no plan, '%s' is too much", argv[optind])
                             : calibrate(machine ? machine : "calibrated.machine", &options, &argc, &argv);
    }
    if (code < 0) {
        options.prints = prints;
        options.prompts = prompts;
        code = run(&options, &argc, &argv);
    }
    free(words);
    arena_finish(&arena);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_DONE) {
        fputs("prun: cannot write the output\n", stderr);
        code = EXIT_ENVIRONMENT;
    }
    return code;
}
