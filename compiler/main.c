/* pcc: the command line. */
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/commands.h"
#include "compiler/compiler.h"
#include "compiler/explain.h"
#include "compiler/name.h"
#include "ir/file.h"

enum { MAX_SOURCE_BYTES = 1 << 26 };

/* ---------------------------------------------------------------- options */

typedef enum {
    OPT_RANKS,
    OPT_REPLICAS,
    OPT_OUTPUT,
    OPT_DEFINE,
    OPT_MODE,
    OPT_SEARCH,
    OPT_DATASET,
    OPT_SHARD,
    OPT_HINTS,
    OPT_WRITE_HINTS,
    OPT_FOLDER,
    OPT_GRADIENTS,
    OPT_BATCH_NORM,
    OPT_STRICT,
    OPT_REDISTRIBUTION,
    OPT_MACHINE,
    OPT_MEMORY,
    OPT_STAGES,
    OPT_CHUNKS,
    OPT_SHARD_STATES,
    OPT_REGATHER,
    OPT_OPTIMIZE,
    OPT_DUMP,
    OPT_DUMP_RANKS,
    OPT_STATS,
    OPT_TIMELINE,
    OPT_REPORT,
    OPT_NO_SOURCE,
    OPT_EXPLAIN,
    OPT_WHAT_IF,
    OPT_WARN,
    OPT_WHOLE_UPDATES,
    OPT_PROVE,
    OPT_PROOF_BUDGET,
    OPT_NO_PROOF,
    OPT_LIST_OPS,
    OPT_LIST_PATHS,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_VERSION,
    NOPTIONS
} OptionId;
typedef enum { ARGUMENT_NONE, ARGUMENT_REQUIRED, ARGUMENT_OPTIONAL } Argument;

static const struct OptionSpec {
    const char *name; /* with its dashes; options of one dash take their argument directly behind them or as the next word */
    Argument argument;
    const char *shown, *help;
} specs[NOPTIONS] = {
    [OPT_RANKS] = {"--ranks", ARGUMENT_REQUIRED, "--ranks N", "number of ranks (default 1)"},
    [OPT_REPLICAS] = {"--replicas", ARGUMENT_REQUIRED, "--replicas N",
                      "modes data_parallel, manual: number of replicas (default: the ranks)"},
    [OPT_OUTPUT] = {"-o", ARGUMENT_REQUIRED, "-o FILE", "write the plan to FILE (default: the net's name with .plan)"},
    [OPT_DEFINE] = {"-D", ARGUMENT_REQUIRED, "-D name=value", "a number of the net's head"},
    [OPT_MODE] = {"--mode", ARGUMENT_REQUIRED, "--mode MODE", "stand_alone, data_parallel, semi_auto, auto, manual"},
    [OPT_SEARCH] =
        {"--search", ARGUMENT_REQUIRED, "--search NAME",
         "how operators without a strategy get one: auto (default), sharding_propagation,\n                        dynamic_programming, recursive_programming"},
    [OPT_DATASET] = {"--dataset", ARGUMENT_REQUIRED, "--dataset HOW", "how inputs arrive: data_parallel, full_batch, auto"},
    [OPT_SHARD] = {"--shard", ARGUMENT_REQUIRED, "--shard HINT",
                   "a strategy by path, 'layer.*.fc1=((2, 4), (4, 1))', or recompute, regather, stage 1;\n"
                   "                        goes before what files say; may be repeated"},
    [OPT_HINTS] = {"--hints", ARGUMENT_REQUIRED, "--hints FILE", "read FILE as if the net imported it; may be repeated"},
    [OPT_WRITE_HINTS] = {"--write-hints", ARGUMENT_REQUIRED, "--write-hints FILE",
                         "write the strategies of the plan, found or given, as hints: --hints FILE\n"
                         "                        makes the same plan without a search"},
    [OPT_FOLDER] = {"-I", ARGUMENT_REQUIRED, "-I FOLDER", "look for imports in FOLDER too; may be repeated"},
    [OPT_GRADIENTS] = {"--gradients", ARGUMENT_REQUIRED, "--gradients HOW", "mode data_parallel: mean or sum over the replicas"},
    [OPT_BATCH_NORM] = {"--batch-norm", ARGUMENT_REQUIRED, "--batch-norm HOW",
                        "mode data_parallel: statistics of each replica's rows, local, or of all,\n"
                        "                        global"},
    [OPT_STRICT] = {"--strict-divide", ARGUMENT_NONE, "--strict-divide", "a split that does not divide a size is an error"},
    [OPT_REDISTRIBUTION] = {"--redistribution", ARGUMENT_REQUIRED, "--redistribution P",
                            "at -O2: auto, bound (fewest bytes), canonical (MindSpore's)"},
    [OPT_MACHINE] = {"--machine", ARGUMENT_REQUIRED, "--machine FILE",
                     "cpu (default), gpu8, or a machine file (prun --calibrate): what\n"
                     "                        messages, arithmetic and memory cost there"},
    [OPT_MEMORY] = {"--memory", ARGUMENT_REQUIRED, "--memory BYTES", "what a rank may need, '80 GiB': a plan that needs more is refused"},
    [OPT_STAGES] =
        {"--stages", ARGUMENT_REQUIRED, "--stages N",
         "a pipeline: ranks in N stages, each of which has a part of the net;\n                        auto: as many as are best, with as many parts of batches and chunks"},
    [OPT_CHUNKS] = {"--chunks", ARGUMENT_REQUIRED, "--chunks N",
                    "of a pipeline: each stage has N parts of the net, taken in turn (interleaved 1F1B)"},
    [OPT_SHARD_STATES] = {"--shard-states", ARGUMENT_REQUIRED, "--shard-states WHAT",
                          "what ranks with equal copies share: none, optimizer (default; ZeRO-1),\n"
                          "                        gradients (ZeRO-2), parameters (ZeRO-3, FSDP)"},
    [OPT_REGATHER] = {"--regather", ARGUMENT_REQUIRED, "--regather WHAT",
                      "what is gathered anew for the backward pass: none, parameters, all"},
    [OPT_OPTIMIZE] = {"-O", ARGUMENT_REQUIRED, "-O0, -O1, -O2",
                      "0: canonical communication, in order; 1: and overlap, in place;\n"
                      "                        2 (default): and conversions replanned"},
    [OPT_DUMP] = {"--dump-ir", ARGUMENT_OPTIONAL, "--dump-ir[=DIR]",
                  "write the IR after every pass (default DIR: FILE without .plan, and _ir)"},
    [OPT_DUMP_RANKS] = {"--dump-ranks", ARGUMENT_REQUIRED, "--dump-ranks LIST",
                        "which ranks' views: 0,3 or all (default 0); implies --dump-ir"},
    [OPT_STATS] = {"--stats", ARGUMENT_OPTIONAL, "--stats[=json]",
                   "communication, memory, FLOPs, predicted time of a step, time of each\n"
                   "                        pass"},
    [OPT_TIMELINE] = {"--timeline", ARGUMENT_REQUIRED, "--timeline FILE",
                      "write the predicted step as Chrome's JSON, as prun --trace writes what\n"
                      "                        was measured"},
    [OPT_REPORT] = {"--report", ARGUMENT_REQUIRED, "--report FILE",
                    "write an HTML page of the plan: layouts and why, the predicted step,\n"
                    "                        memory, communication; prun --report adds what it measures. It has the\n"
                    "                        net's text in it"},
    [OPT_NO_SOURCE] = {"--report-without-source", ARGUMENT_NONE, "--report-without-source", "leave the net's text out of the page"},
    [OPT_EXPLAIN] = {"--explain", ARGUMENT_REQUIRED, "--explain VALUE",
                     "why a value, parameter, input or gradient (w.grad) has its layout, and\n"
                     "                        every conversion at it; may be repeated; writes no plan without -o"},
    [OPT_WHAT_IF] = {"--what-if", ARGUMENT_REQUIRED, "--what-if HINT",
                     "what a step costs with this strategy, as --shard takes it, and without;\n"
                     "                        may be repeated; writes no plan without -o"},
    [OPT_WARN] = {"-W", ARGUMENT_REQUIRED, "-Wno-NAME",
                  "no warnings of this name: conflict (hints that do not fit), uneven (splits),\n"
                  "                        gradient (parameters without), effect (hints without), costly\n"
                  "                        (hints that make a step move more than none would), replicated\n"
                  "                        (work done by several ranks), memory (more than the machine\n"
                  "                        has); -Werror: warnings are errors"},
    [OPT_WHOLE_UPDATES] = {"--whole-updates", ARGUMENT_NONE, "--whole-updates",
                           "--shard-states none: every rank updates all of a large parameter, not a\n"
                           "                        part that is then gathered (same traffic; more time and memory)"},
    [OPT_PROVE] = {"--prove", ARGUMENT_OPTIONAL, "--prove[=HOW]",
                   "full: run the whole plan over a finite field whatever it takes;\n"
                   "                        compositional: nothing numeric (default: what the budget allows)"},
    [OPT_PROOF_BUDGET] = {"--proof-budget", ARGUMENT_REQUIRED, "--proof-budget T",
                          "estimated time within which the whole plan is run (0.2s)"},
    [OPT_NO_PROOF] = {"--no-proof", ARGUMENT_NONE, "--no-proof", "do not prove the plan"},
    [OPT_LIST_OPS] = {"--list-ops", ARGUMENT_NONE, "--list-ops", "print the operators"},
    [OPT_LIST_PATHS] = {"--list-paths", ARGUMENT_NONE, "--list-paths",
                        "print the paths of the net that hints, --shard and --explain take; writes no\n"
                        "                        plan"},
    [OPT_VERBOSE] = {"-v", ARGUMENT_NONE, "-v", "notes on what is usual too, such as that no operator has a strategy"},
    [OPT_HELP] = {"--help", ARGUMENT_NONE, "--help", "this text"},
    [OPT_VERSION] = {"--version", ARGUMENT_NONE, "--version", "the version"},
};

static void help(FILE *out) {
    fputs("usage: pcc NET.dsl [OPTION...]\n"
          "       pcc redistribute [OPTION...]   plan one change of layout (pcc redistribute --help)\n"
          "       pcc check [--update] PLAN      prove a plan again\n"
          "       pcc fmt [--check] FILE..       write files in their standard form\n"
          "       pcc fuzz-net --seed N          write a random net, to try operators and plans with\n"
          "       pcc --diff [--json] A B        what two plans do differently; --report FILE: as a page\n"
          "Compiles a net to the plan that prun runs.\n",
          out);
    for (int i = 0; i < NOPTIONS; i++)
        fprintf(out, "  %-20s  %s\n", specs[i].shown, specs[i].help);
    fputs("Of an option that is given again the last one counts, but for those that may be repeated.\n", out);
    fputs("Exit codes: 0 done, 1 net rejected, 2 usage, 3 environment, 70 internal.\n", out);
}

static void list_ops(void) {
    for (int op = 0; op < NOPS; op++) {
        const Op *row = &op_table[op];
        if (row->op_class != OP_CLASS_USER) continue;
        Text call = {0};
        text_printf(&call, "%s(%s", row->name, row->ins);
        for (int a = 0; a < MAX_ATTRS && row->attrs[a].name != NULL; a++)
            text_printf(&call, row->attrs[a].required ? ", %s" : ", [%s]", row->attrs[a].name);
        text_printf(&call, ")");
        printf("%-40s %s%s\n", call.at, row->help != NULL ? row->help : "",
               (row->adjoint == NULL && row->expand == NULL) || strchr("in", op_type((OpCode)op, true, 0)) ? " (no gradient)" : "");
        text_finish(&call);
    }
}

/* ---------------------------------------------------------------- reading the command line */

typedef struct CommandLine {
    Arena *arena;
    bool given[NOPTIONS];
    Options options;
    VEC(const char *) define_name;
    VEC(int64_t) define_value;
    VEC(double) define_real;
    VEC(int) ranks;
    VEC(const char *) explain, what_if, shards, hints, folders;
    const char *machine; /* NULL: the default */
    bool list_ops, list_paths, help, version;
} CommandLine;

static bool usage_error(const char *format, ...) PRINTF_LIKE(1, 2);
static bool usage_error(const char *format, ...) { /* returns false */
    va_list args;
    va_start(args, format);
    fputs("pcc: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return false;
}

static bool read_number(const char *text, int64_t low, int64_t high, int64_t *value) {
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    *value = n;
    return *text != '\0' && *end == '\0' && errno == 0 && n >= low && n <= high;
}

/* A real as the language writes it: 0.5, 1e-3; no hexadecimal ones, no names. A whole number too large for an integer is none. */
static bool read_real(const char *text, double *real) {
    char *end;
    if (text[strspn(text, "+-.0123456789eE")] != '\0' || text[strcspn(text, ".eE")] == '\0') return false;
    *real = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*real);
}

static bool read_count(const char *option, const char *text, int *count) {
    int64_t value;
    if (!read_number(text, 1, MAX_RANKS, &value)) return usage_error("%s takes a number from 1 to %d, not '%s'", option, MAX_RANKS, text);
    *count = (int)value;
    return true;
}

static bool read_define(CommandLine *line, const char *text) {
    const char *equals = strchr(text, '=');
    int64_t value = 0;
    double real = NAN;
    if (equals == NULL || equals == text || (!read_number(equals + 1, INT64_MIN, INT64_MAX, &value) && !read_real(equals + 1, &real)))
        return usage_error("-D takes name=value with a number, not '%s'", text);
    vec_push(line->arena, &line->define_name, arena_copy(line->arena, text, (size_t)(equals - text)));
    vec_push(line->arena, &line->define_value, value);
    vec_push(line->arena, &line->define_real, real);
    return true;
}

static bool read_ranks(CommandLine *line, const char *text) {
    line->options.dump = true;
    if (strcmp(text, "all") == 0) {
        line->options.ndump_ranks = -1;
        return true;
    }
    line->ranks.n = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        int64_t rank;
        if (!read_number(arena_copy(line->arena, at, n), 0, MAX_RANKS - 1, &rank))
            return usage_error("--dump-ranks takes ranks such as 0,3 or all, not '%s'", text);
        vec_push(line->arena, &line->ranks, (int)rank);
        at += n;
        if (*at == '\0') break;
    }
    line->options.ndump_ranks = line->ranks.n;
    return true;
}

static bool read_policy(const char *text, RedistributePolicy *policy) {
    static const char *const name[] = {
        [REDISTRIBUTE_AUTO] = "auto", [REDISTRIBUTE_BOUND] = "bound", [REDISTRIBUTE_CANONICAL] = "canonical"};
    for (int p = 0; p < 3; p++)
        if (strcmp(text, name[p]) == 0) {
            *policy = (RedistributePolicy)p;
            return true;
        }
    return usage_error("--redistribution takes auto, bound or canonical, not '%s'", text);
}

/* "no-uneven", "uneven", "error", "no-error"; "no-effect", which is printed behind the warning, silences it as "no-no-effect" does. */
static bool read_warning(Options *options, const char *text) {
    bool off = strncmp(text, "no-", 3) == 0;
    for (int w = 0; w < NWARNINGS; w++) {
        bool named = strcmp(text, warning_name[w]) == 0, silence = off && (named || strcmp(text + 3, warning_name[w]) == 0);
        if (!silence && !named) continue;
        options->silenced = silence ? options->silenced | 1u << w : options->silenced & ~(1u << w);
        return true;
    }
    if (strcmp(text, "error") == 0 || strcmp(text, "no-error") == 0) {
        options->warnings_are_errors = !off;
        return true;
    }
    const char *nearest = name_nearest(off && strncmp(text + 3, "no-", 3) != 0 ? text + 3 : text, warning_name, NWARNINGS);
    if (nearest != NULL) return usage_error("there is no warning '-W%s'; did you mean '-Wno-%s'?", text, nearest);
    return usage_error("there is no warning '-W%s'; -Wno-NAME silences conflict, uneven, gradient, effect, replicated, costly, memory",
                       text);
}

static bool take(CommandLine *line, OptionId id, const char *value) {
    Options *options = &line->options;
    switch (id) {
    case OPT_RANKS:
        return read_count("--ranks", value, &options->overrides.nranks);
    case OPT_REPLICAS:
        return read_count("--replicas", value, &options->overrides.replicas);
    case OPT_OUTPUT:
        options->output = value;
        return true;
    case OPT_DEFINE:
        return read_define(line, value);
    case OPT_MODE:
        options->overrides.mode = value;
        return true;
    case OPT_SEARCH:
        options->overrides.search = value;
        return true;
    case OPT_DATASET:
        options->overrides.dataset = value;
        return true;
    case OPT_SHARD:
        vec_push(line->arena, &line->shards, value);
        return true;
    case OPT_HINTS:
        vec_push(line->arena, &line->hints, value);
        return true;
    case OPT_WRITE_HINTS:
        options->hints_file = value;
        return true;
    case OPT_FOLDER:
        vec_push(line->arena, &line->folders, value);
        return true;
    case OPT_GRADIENTS:
        options->overrides.gradients = value;
        return true;
    case OPT_BATCH_NORM:
        options->overrides.batch_norm = value;
        return true;
    case OPT_STRICT:
        return options->overrides.strict_divide = true;
    case OPT_REDISTRIBUTION:
        return read_policy(value, &options->redistribution);
    case OPT_MACHINE:
        line->machine = value;
        return true;
    case OPT_MEMORY:
        options->overrides.memory = value;
        return true;
    case OPT_STAGES:
        options->overrides.stages = value;
        return true;
    case OPT_CHUNKS:
        options->overrides.chunks = value;
        return true;
    case OPT_SHARD_STATES:
        options->overrides.shard_states = value;
        return true;
    case OPT_REGATHER:
        options->overrides.regather = value;
        return true;
    case OPT_OPTIMIZE:
        if (strlen(value) != 1 || *value < '0' || *value > '2') return usage_error("-O takes 0, 1 or 2, not '%s'", value);
        options->optimize = *value - '0';
        return true;
    case OPT_DUMP:
        options->dump = true;
        options->dump_directory = value;
        return true;
    case OPT_DUMP_RANKS:
        return read_ranks(line, value);
    case OPT_TIMELINE:
        options->timeline = value;
        return true;
    case OPT_REPORT:
        options->report = value;
        return true;
    case OPT_NO_SOURCE:
        options->report_source = false;
        return true;
    case OPT_STATS:
        if (value != NULL && strcmp(value, "json") != 0) return usage_error("--stats takes json or nothing, not '%s'", value);
        options->stats_json = value != NULL;
        return options->stats = true;
    case OPT_EXPLAIN:
        vec_push(line->arena, &line->explain, value);
        return true;
    case OPT_WHAT_IF:
        vec_push(line->arena, &line->what_if, value);
        return true;
    case OPT_WARN:
        return read_warning(options, value);
    case OPT_WHOLE_UPDATES:
        options->overrides.shard_states = "none";
        return true;
    case OPT_PROVE:
        options->prove = true;
        return read_proof_level(value, &options->proof) || usage_error("--prove takes full or compositional, not '%s'", value);
    case OPT_PROOF_BUDGET:
        return read_proof_budget(value, &options->proof) ||
               usage_error("--proof-budget takes a time such as 0.2s or 500ms, not '%s'", value);
    case OPT_NO_PROOF:
        options->prove = false;
        return true;
    case OPT_LIST_OPS:
        return line->list_ops = true;
    case OPT_LIST_PATHS:
        return line->list_paths = true;
    case OPT_VERBOSE:
        return options->verbose = true;
    case OPT_HELP:
        return line->help = true;
    case OPT_VERSION:
        return line->version = true;
    case NOPTIONS:
        break;
    }
    return false;
}

/* The other ways to call pcc. --diff is one too: its arguments are plans. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"redistribute", redistribute_command}, {"check", check_command}, {"fmt", fmt_command},
    {"fuzz-net", fuzz_net_command},         {"--diff", diff_command},
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

/* A second word that belongs to no option: the first one may be meant as a command or an option, or this one as the argument of the option
 * before it. */
static bool second_input(const char *first, const char *before, const char *second) {
    const char *names[NCOMMANDS + NOPTIONS];
    for (int i = 0; i < NCOMMANDS + NOPTIONS; i++)
        names[i] = i < NCOMMANDS ? commands[i].name : specs[i - NCOMMANDS].name;
    for (int i = 0; i < NCOMMANDS + NOPTIONS; i++)
        if (strncmp(names[i], "--", 2) == 0 && strcmp(names[i] + 2, first) == 0)
            return usage_error("there is no command '%s'; did you mean '%s'?", first, names[i]);
    const char *nearest = strchr(first, '.') == NULL ? name_nearest(first, names, NCOMMANDS) : NULL;
    if (nearest != NULL) return usage_error("there is no command '%s'; did you mean '%s'?", first, nearest);
    for (int i = 0; i < NOPTIONS; i++)
        if (specs[i].argument == ARGUMENT_OPTIONAL && strcmp(specs[i].name, before) == 0)
            return usage_error("one net at a time, not '%s' too; did you mean '%s=%s'?", second, before, second);
    return usage_error("one net at a time, not '%s' too", second);
}

static bool unknown_option(const char *word, size_t n) {
    const char *names[NOPTIONS];
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    for (int i = 0; i < NOPTIONS; i++)
        names[i] = specs[i].name;
    const char *nearest = name_nearest(name, names, NOPTIONS);
    return nearest != NULL ? usage_error("unknown option '%s'; did you mean '%s'?", name, nearest)
                           : usage_error("unknown option '%s'; pcc --help lists them", name);
}

/* One option at argv[*i], its argument behind '=', directly behind it (-O2), or the next word. */
static bool read_option(CommandLine *line, int argc, char **argv, int *i) {
    const char *word = strcmp(argv[*i], "-h") == 0 ? "--help" : argv[*i];
    bool is_short = word[1] != '-';
    size_t n = is_short ? 2 : strcspn(word, "=");
    int id = 0;
    while (id < NOPTIONS && (strlen(specs[id].name) != n || strncmp(specs[id].name, word, n) != 0))
        id++;
    if (id == NOPTIONS) return unknown_option(word, is_short ? strlen(word) : n);
    const char *value = word[n] == '\0' ? NULL : word + n + !is_short;
    if (value != NULL && specs[id].argument == ARGUMENT_NONE) return usage_error("%s takes no argument", specs[id].name);
    if (value != NULL && *value == '\0') return usage_error("%s takes an argument: %s", specs[id].name, specs[id].shown);
    if (value == NULL && specs[id].argument == ARGUMENT_REQUIRED) {
        if (*i + 1 >= argc) return usage_error("%s takes an argument: %s", specs[id].name, specs[id].shown);
        value = argv[++*i];
    }
    line->given[id] = true;
    return take(line, (OptionId)id, value);
}

/* Checks for two options of which one has no meaning with the other: that is an error, and not ignored. */
static bool check_options(const CommandLine *line) {
    const Options *options = &line->options;
    const bool *given = line->given;
    const OptionId proof = given[OPT_PROVE] ? OPT_PROVE : OPT_PROOF_BUDGET;
    if (given[OPT_NO_PROOF] && given[proof]) return usage_error("--no-proof proves nothing: leave out %s", specs[proof].name);
    if (given[OPT_PROOF_BUDGET] && (options->proof.full || options->proof.compositional))
        return usage_error("--prove=%s leaves nothing to decide: leave out --proof-budget", options->proof.full ? "full" : "compositional");
    if (given[OPT_REDISTRIBUTION] && options->optimize < 2)
        return usage_error("-O%d replans no conversion: leave out --redistribution", options->optimize);
    if (options->stats_json && line->what_if.n > 0) return usage_error("--stats=json prints one JSON object: leave out --what-if");
    if (options->stats_json && options->nexplain > 0) return usage_error("--stats=json prints one JSON object: leave out --explain");
    if (line->list_paths && (options->stats || options_explain(options)))
        return usage_error("--list-paths compiles no plan: leave out %s", options->stats          ? "--stats"
                                                                          : options->nexplain > 0 ? "--explain"
                                                                                                  : "--report");
    if (given[OPT_NO_SOURCE] && options->report == NULL) return usage_error("--report-without-source is of a report: add --report FILE");
    if (given[OPT_SEARCH] && options->overrides.mode != NULL && strcmp(options->overrides.mode, "auto") != 0)
        return usage_error("--mode %s searches for no strategies: leave out --search", options->overrides.mode);
    for (int r = 0; options->ndump_ranks > 0 && r < line->ranks.n; r++)
        if (line->ranks.at[r] >= options->overrides.nranks)
            return usage_error("--dump-ranks: there is no rank %d of %d", line->ranks.at[r], options->overrides.nranks);
    return true;
}

/* Adds the folders of the library, relative to the folder of pcc: beside it in share/pcc once installed, in samples in the build folder.
 * Both may be moved. */
static void add_libraries(CommandLine *line) {
    static const char *const places[] = {"share/pcc", "samples"};
    char folder[4096];
    program_folder(folder, sizeof folder);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
    }
    for (int i = 0; folder[0] && i < 2; i++)
        vec_push(line->arena, &line->folders, arena_printf(line->arena, "%s/%s", folder, places[i]));
    vec_push(line->arena, &line->folders, PCC_LIBRARY);
}

/* The command line as a shell takes it. */
static const char *command_text(Arena *arena, int argc, char **argv) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%";
    Text text = {0};
    text_printf(&text, "pcc");
    for (int i = 1; i < argc; i++) {
        const bool quote = argv[i][strspn(argv[i], plain)] != '\0' || argv[i][0] == '\0';
        text_printf(&text, quote ? " '" : " ");
        for (const char *at = argv[i]; *at; at++)
            text_printf(&text, *at == '\'' ? "'\\''" : "%c", *at);
        if (quote) text_printf(&text, "'");
    }
    const char *copy = arena_copy(arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static bool read_command_line(CommandLine *line, int argc, char **argv) {
    Options *options = &line->options;
    *options = (Options){.optimize = 2,
                         .prove = true,
                         .proof = {.budget_s = PROOF_BUDGET_S},
                         .report_source = true,
                         .redistribution = REDISTRIBUTE_AUTO,
                         .ndump_ranks = 1,
                         .overrides.nranks = 1};
    vec_push(line->arena, &line->ranks, 0);
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!read_option(line, argc, argv, &i)) return false;
        } else if (options->input != NULL) {
            return second_input(options->input, argv[i - 1], argv[i]);
        } else {
            options->input = argv[i];
        }
    }
    options->command = command_text(line->arena, argc, argv);
    options->dump_ranks = line->ranks.at;
    options->explain = line->explain.at;
    options->nexplain = line->explain.n;
    options->what_if = line->what_if.at;
    options->nwhat_if = line->what_if.n;
    options->no_plan = (options->nexplain > 0 || options->nwhat_if > 0) && options->output == NULL;
    add_libraries(line);
    options->overrides.nfolders = line->folders.n;
    options->overrides.folder = line->folders.at;
    options->overrides.nshards = line->shards.n;
    options->overrides.shard = line->shards.at;
    options->overrides.nhint_files = line->hints.n;
    options->overrides.hint_file = line->hints.at;
    options->overrides.ndefines = line->define_name.n;
    options->overrides.define_name = line->define_name.at;
    options->overrides.define_value = line->define_value.at;
    options->overrides.define_real = line->define_real.at;
    return check_options(line);
}

/* name without directory and, if it has it, without ending; then suffix. */
static const char *renamed(Arena *arena, const char *name, bool keep_directory, const char *ending, const char *suffix) {
    const char *slash = strrchr(name, '/');
    const char *begin = keep_directory || slash == NULL ? name : slash + 1;
    size_t n = strlen(begin), e = strlen(ending);
    if (n > e && strcmp(begin + n - e, ending) == 0) n -= e;
    return arena_printf(arena, "%.*s%s", (int)n, begin, suffix);
}

/* ---------------------------------------------------------------- one compilation */

static int run(const Options *options, Arena *arena) {
    Diags diags;
    Compilation c;
    Error error = {0};
    char *source;
    size_t n;
    if (!file_read(arena, options->input, MAX_SOURCE_BYTES, &source, &n, &error)) {
        fprintf(stderr, "pcc: %s\n", error.text);
        return error.code;
    }
    WhatIf *then = arena_alloc(arena, ((size_t)options->nwhat_if + 1) * sizeof *then);
    for (int i = 0; i < options->nwhat_if; i++) { /* first: a wrong one leaves all files as they are */
        if (what_if(options, options->what_if[i], source, n, arena, &then[i], &error)) continue;
        if (!error.reported) fprintf(stderr, "pcc: %s\n", error.text);
        return error.code;
    }
    diags_init(&diags, arena);
    diags.verbose = options->verbose;
    bool done = compile(&c, arena, options, &diags, source, n);
    diags_print(&diags, stderr);
    if (!done && !c.error.reported) /* the environment's failures name their file; a bug of pcc is about this net */
        fprintf(stderr, "pcc: %s%s%s\n", c.error.code == EXIT_INTERNAL ? options->input : "",
                c.error.code == EXIT_INTERNAL ? ": internal error: " : "", c.error.text);
    Text text = {0};
    bool known = done;
    if (done && !options->stats_json && !options->no_plan) stats_summary(&text, &c);
    for (int i = 0; done && i < options->nexplain; i++)
        known = explain(&text, &c, options->explain[i], &error) && known;
    for (int i = 0; known && i < options->nwhat_if; i++)
        what_if_print(&text, &c, options->what_if[i], &then[i]);
    if (known && options->stats_json) stats_json(&text, &c);
    if (known && options->stats && !options->stats_json) stats_print(&text, &c);
    if (done && !known && !error.reported) fprintf(stderr, "pcc: %s\n", error.text);
    if (known) fwrite(text.at, 1, text.n, stdout);
    text_finish(&text);
    compilation_finish(&c);
    return !done ? c.error.code : known ? EXIT_DONE : error.code;
}

/* --list-paths. The net's own paths are printed even if a hint for it is wrong. */
static int list_paths(const Options *options, Arena *arena) {
    Diags diags;
    Error error = {0};
    Paths paths = {0};
    Graph graph;
    char *source;
    size_t n;
    if (!file_read(arena, options->input, MAX_SOURCE_BYTES, &source, &n, &error)) {
        fprintf(stderr, "pcc: %s\n", error.text);
        return error.code;
    }
    Overrides overrides = options->overrides;
    overrides.paths = &paths;
    diags_init(&diags, arena);
    const bool done = frontend_compile(options->input, source, n, &overrides, &graph, arena, &diags);
    int path_columns = 0, what_columns = 0, type_columns = 0;
    for (int i = 0; i < paths.n; i++) {
        const NamedPath *at = &paths.at[i];
        const int widths[] = {(int)strlen(at->path), (int)strlen(at->what), (int)strlen(at->type)};
        if (widths[0] > path_columns) path_columns = widths[0];
        if (widths[1] > what_columns) what_columns = widths[1];
        if (widths[2] > type_columns) type_columns = widths[2];
    }
    for (int i = 0; i < paths.n; i++) {
        const NamedPath *at = &paths.at[i];
        printf("%-*s  %-8s  %-*s  %-*s  %s\n", path_columns, at->path, path_kind_name[at->kind], what_columns, at->what, type_columns,
               at->type, place_named(arena, &diags, at->span));
    }
    diags_print(&diags, stderr);
    return done ? EXIT_DONE : EXIT_REJECTED;
}

/* Reads --machine's value into options->machine, in the arena. */
static int find_machine(const char *what, Arena *arena, Options *options) {
    options->machine = machine_named(what);
    if (options->machine != NULL) return EXIT_DONE;
    Machine *machine = arena_alloc(arena, sizeof *machine);
    Diags diags;
    Error error = {0};
    diags_init(&diags, arena);
    bool found = machine_find(what, arena, &diags, machine, &error);
    options->machine_file = what;
    diags_print(&diags, stderr);
    if (!found && !error.reported) fprintf(stderr, "pcc: %s\n", error.text);
    options->machine = machine;
    return found ? EXIT_DONE : error.code;
}

static int command(int argc, char **argv) {
    for (int i = 0; argc > 1 && i < NCOMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    Arena arena;
    arena_init(&arena);
    CommandLine line = {.arena = &arena};
    int code = EXIT_DONE;
    if (!read_command_line(&line, argc, argv)) {
        code = EXIT_USAGE;
    } else if (line.help) {
        help(stdout);
    } else if (line.version) {
        puts("pcc " PCC_VERSION);
    } else if (line.list_ops) {
        list_ops();
    } else if (line.options.input == NULL) {
        if (argc > 1)
            usage_error("which net? pcc NET.dsl and then the options");
        else
            help(stderr);
        code = EXIT_USAGE;
    } else {
        Options *options = &line.options;
        if (options->output == NULL) options->output = renamed(&arena, options->input, false, ".dsl", ".plan");
        if (options->dump_directory == NULL) options->dump_directory = renamed(&arena, options->output, true, ".plan", "_ir");
        if (line.machine == NULL || (code = find_machine(line.machine, &arena, options)) == EXIT_DONE) {
            options->pool = pool_of_cores(MOST_THREADS);
            code = line.list_paths ? list_paths(options, &arena) : run(options, &arena);
            pool_destroy(options->pool);
        }
    }
    arena_finish(&arena);
    return code;
}

/* A search compiles hundreds of programs one after another: their memory is reused by the next one, not given back to the system. */
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
#endif
}

int main(int argc, char **argv) {
    keep_memory();
    standard_files();
    int code = command(argc, argv);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || code != EXIT_DONE) return code;
    fputs("pcc: cannot write the output: is the disk full?\n", stderr);
    return EXIT_ENVIRONMENT;
}
