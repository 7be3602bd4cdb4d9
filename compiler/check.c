/* pcc check: reads a plan as prun will and proves it. */
#include <stdio.h>
#include <string.h>

#include "compiler/commands.h"
#include "ir/ir.h"
#include "proof/proof.h"

enum { MAX_PLAN_BYTES = 1 << 30 };

static void help(FILE *out) {
    fputs("usage: pcc check [--update] FILE.plan\n"
          "Reads a plan and proves it against the net that it contains.\n"
          "  --update   after an edit by hand: renew the checksum, drop the certificate\n",
          out);
}

static int fail(const Error *error) {
    fprintf(stderr, "pcc check: %s\n", error->text);
    return error->code;
}

static bool renew(Plan *plan, const char *path, Error *error) {
    Text text = {0}, side = {0};
    Arena arena;
    arena_init(&arena);
    const char *slash = strrchr(path, '/');
    const char *file = plan->side_file != NULL ? plan->side_file : arena_printf(&arena, "%s.data", slash != NULL ? slash + 1 : path);
    const char *beside = arena_printf(&arena, "%.*s%s", slash != NULL ? (int)(slash + 1 - path) : 0, path, file);
    plan->certificate = NULL;
    plan_print_files(&text, &side, file, plan);
    bool done = (side.n == 0 || file_write(beside, side.at, side.n, error)) && file_write(path, text.at, text.n, error);
    arena_finish(&arena);
    text_finish(&text);
    text_finish(&side);
    return done;
}

static int check(const char *path, bool update, Arena *arena) {
    Error error = {0};
    Plan plan;
    Proof proof = {0};
    PlanFiles files;
    if (!plan_files_read(&files, arena, path, MAX_PLAN_BYTES, &error) ||
        !plan_read_files(&plan, arena, path, &files, update ? PLAN_IGNORE_CHECKSUM : 0, &error))
        return fail(&error);
    if (update) {
        if (!renew(&plan, path, &error)) return fail(&error);
        printf("%s: checksum renewed, certificate dropped\n", path);
    }
    if (!graph_verify(&plan.graph, "reading the plan", &error) || !proof_check(&plan, NULL, &proof, &error)) {
        fprintf(stderr, "%s: not proved: %s\n", path, error.text);
        return EXIT_REJECTED;
    }
    printf("%s: proved in %.1f ms: %s\n", path, 1e3 * proof.seconds, proof.certificate);
    return EXIT_DONE;
}

int check_command(int argc, char **argv) {
    const char *path = NULL;
    bool update = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--update") == 0) {
            update = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            help(stdout);
            return EXIT_DONE;
        } else if (argv[i][0] == '-' || path != NULL) {
            fprintf(stderr, argv[i][0] == '-' ? "pcc check: unknown option '%s'\n" : "pcc check: one plan at a time, not '%s' too\n",
                    argv[i]);
            help(stderr);
            return EXIT_USAGE;
        } else {
            path = argv[i];
        }
    }
    if (path == NULL) {
        help(stderr);
        return EXIT_USAGE;
    }
    Arena arena;
    arena_init(&arena);
    int code = check(path, update, &arena);
    arena_finish(&arena);
    return code;
}
