/* pcc check: reads a plan as prun will and proves it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/commands.h"
#include "compiler/compiler.h"
#include "ir/file.h"
#include "ir/plan.h"
#include "proof/proof.h"

enum { MAX_PLAN_BYTES = 1 << 30 };

static void help(FILE *out) {
    fputs("usage: pcc check [OPTION...] FILE.plan\n"
          "Reads a plan and proves it against the net that it contains.\n"
          "  --update            after an edit by hand: renew the checksum, drop the certificate\n"
          "  --prove[=HOW]       full: run the whole plan over a finite field, whatever it takes; compositional: nothing numeric\n"
          "                      (default: what the budget allows)\n"
          "  --proof-budget T    estimated time within which the whole plan is run: 0.2s (default), 500ms\n"
          "Exit codes: 0 proved, 1 refused, 2 usage, 3 a file cannot be read or written.\n",
          out);
}

bool read_proof_level(const char *value, ProofOptions *proof) {
    proof->full = value != NULL && strcmp(value, "full") == 0;
    proof->compositional = value != NULL && strcmp(value, "compositional") == 0;
    return value == NULL || proof->full || proof->compositional;
}

bool read_proof_budget(const char *value, ProofOptions *proof) {
    char *end;
    double time = strtod(value, &end);
    if (end == value || strspn(value, "0123456789.eE+-") < (size_t)(end - value)) return false; /* strtod also reads "inf" and "0x1" */
    if (strcmp(end, "ms") == 0)
        time *= 1e-3;
    else if (*end != '\0' && strcmp(end, "s") != 0)
        return false;
    proof->budget_s = time;
    return time >= 0 && time <= 1e9;
}

/* The certificate, a part a line. */
static void print_certificate(const char *certificate) {
    while (*certificate != '\0') {
        size_t n = strcspn(certificate, ";");
        printf("  %.*s\n", (int)n, certificate);
        certificate += n;
        certificate += strspn(certificate, "; ");
    }
}

static int fail(const Error *error) {
    fprintf(stderr, "pcc check: %s\n", error->text);
    return error->code;
}

static bool renew(Plan *plan, const char *path, Error *error) {
    Text text = {0}, side = {0};
    Arena arena;
    arena_init(&arena);
    const char *slash = strrchr(path, '/'), *side_path = plan_side_path(&arena, slash != NULL ? slash + 1 : path);
    const char *file = plan->side_file != NULL ? plan->side_file : side_path;
    const char *beside = arena_printf(&arena, "%.*s%s", slash != NULL ? (int)(slash + 1 - path) : 0, path, file);
    plan->certificate = NULL;
    plan_print_files(&text, &side, file, plan);
    FileUses uses = {0};
    graph_reads(&uses, &plan->graph, &arena);
    for (int p = 0; p < plan->programs.n; p++)
        if (plan->programs.at[p].graph != NULL) graph_reads(&uses, plan->programs.at[p].graph, &arena);
    bool done = files_write(&uses, &arena, path, "--update", error) &&
                (side.n == 0 || files_write(&uses, &arena, beside, "the file of long literals", error)) &&
                (side.n == 0 || file_write(beside, side.at, side.n, error)) && file_write(path, text.at, text.n, error);
    arena_finish(&arena);
    text_finish(&text);
    text_finish(&side);
    return done;
}

typedef struct CheckOptions {
    const char *path;
    bool update;
    ProofOptions proof;
} CheckOptions;

static int check(const CheckOptions *options, Arena *arena) {
    const char *path = options->path;
    Error error = {0};
    Plan plan;
    Proof proof = {0};
    PlanFiles files;
    if (!plan_files_read(&files, arena, path, MAX_PLAN_BYTES, &error) ||
        !plan_read_files(&plan, arena, path, &files, options->update ? PLAN_IGNORE_CHECKSUM : 0, &error))
        return fail(&error);
    if (options->update) {
        if (!renew(&plan, path, &error)) return fail(&error);
        printf("%s: checksum renewed, certificate dropped\n", path);
    }
    Text header = {0};
    ProofOptions how = options->proof;
    how.pool = pool_of_cores(MOST_THREADS);
    bool proved = graph_verify(&plan.graph, "reading the plan", &error) && proof_check(&plan, &how, &proof, &error) &&
                  proof_header(&plan, &header, &error);
    if (proved) {
        printf("%s: proved in %.1f ms\n", path, 1e3 * proof.seconds);
        print_certificate(proof.certificate);
        printf("%s", header.at);
    } else {
        fprintf(stderr, "%s: not proved: %s\n", path, error.text);
    }
    pool_destroy(how.pool);
    text_finish(&header);
    return proved ? EXIT_DONE : EXIT_REJECTED;
}

/* Reads an option with a value, --name=value or in the next word. False: it is another one. */
static bool option_value(const char *name, int argc, char **argv, int *i, const char **value) {
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0 || (argv[*i][n] != '\0' && argv[*i][n] != '=')) return false;
    *value = argv[*i][n] == '=' ? argv[*i] + n + 1 : *i + 1 < argc ? argv[++*i] : "";
    return true;
}

static int usage(const char *format, const char *word) {
    fprintf(stderr, format, word);
    help(stderr);
    return EXIT_USAGE;
}

int check_command(int argc, char **argv) {
    CheckOptions options = {.proof = {.budget_s = PROOF_BUDGET_S}};
    bool has_budget = false;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--update") == 0) {
            options.update = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            help(stdout);
            return EXIT_DONE;
        } else if (strcmp(argv[i], "--prove") == 0) { /* as pcc itself takes it */
            read_proof_level(NULL, &options.proof);
        } else if (strncmp(argv[i], "--prove=", 8) == 0) {
            if (!read_proof_level(argv[i] + 8, &options.proof))
                return usage("pcc check: --prove takes full or compositional, not '%s'\n", argv[i] + 8);
        } else if (option_value("--proof-budget", argc, argv, &i, &value)) {
            has_budget = true;
            if (!read_proof_budget(value, &options.proof))
                return usage("pcc check: --proof-budget takes a time such as 0.2s or 500ms, not '%s'\n", value);
        } else if (argv[i][0] == '-') {
            return usage("pcc check: unknown option '%s'\n", argv[i]);
        } else if (options.path != NULL) {
            return usage("pcc check: one plan at a time, not '%s' too\n", argv[i]);
        } else {
            options.path = argv[i];
        }
    }
    if (has_budget && (options.proof.full || options.proof.compositional))
        return usage("pcc check: --prove=%s leaves nothing to decide: leave out --proof-budget\n",
                     options.proof.full ? "full" : "compositional");
    if (options.path == NULL) {
        help(stderr);
        return EXIT_USAGE;
    }
    Arena arena;
    arena_init(&arena);
    int code = check(&options, &arena);
    arena_finish(&arena);
    return code;
}
