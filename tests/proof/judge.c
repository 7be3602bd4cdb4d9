#include "ir/file.h"
#include "tests/proof/judge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/compiler.h"
#include "tests/nets/net.h"
#include "proof/field.h"
#include "tests/proof/simulate.h"

/* ---------------------------------------------------------------- right plans */

typedef struct JudgeCase {
    const char *file; /* from the source folder */
    int nranks, optimize;
    const char *mode;
    RedistributePolicy redistribution;
} JudgeCase;
static const JudgeCase cases[] = {
    {"samples/quickstart.dsl", 8, 2, NULL, REDISTRIBUTE_AUTO},
    {"samples/quickstart.dsl", 8, 0, NULL, REDISTRIBUTE_CANONICAL},
    {"samples/mesh.dsl", 8, 2, NULL, REDISTRIBUTE_AUTO},
    {"samples/output.dsl", 8, 2, NULL, REDISTRIBUTE_BOUND},
    {"samples/output.dsl", 8, 0, NULL, REDISTRIBUTE_CANONICAL},
    {"samples/oneflow_ddp.dsl", 2, 2, NULL, REDISTRIBUTE_AUTO},
    {"samples/elementwise.dsl", 6, 2, "semi_auto", REDISTRIBUTE_AUTO},
    {"samples/elementwise.dsl", 4, 0, NULL, REDISTRIBUTE_CANONICAL},
    {"samples/reductions.dsl", 4, 2, NULL, REDISTRIBUTE_AUTO},
    {"samples/quickstart.dsl", 6, 2, "data_parallel", REDISTRIBUTE_AUTO},
    {"samples/mesh.dsl", 8, 0, NULL, REDISTRIBUTE_CANONICAL},
    {"samples/reductions.dsl", 3, 0, "semi_auto", REDISTRIBUTE_CANONICAL},
};
enum { NCASES = sizeof cases / sizeof *cases };

enum { MUTANTS_A_PLAN = 2 * NMUTANTS, TRIES = 30, MOST_WORK = 200000 };

static bool compile_text(Plan *plan, Arena *arena, const Options *options, const char *text, size_t n, bool may_reject, Text *report) {
    Diags diags;
    diags_init(&diags, arena);
    diags_add_file(&diags, options->input, text, n);
    Compilation c;
    Error error = {0};
    bool ok = compile(&c, arena, options, &diags, text, n), rejected = !ok && c.error.code == EXIT_REJECTED;
    if (!ok && !(rejected && may_reject))
        text_printf(report, "%s on %d ranks, -O%d: does not compile: %s\n", options->input, options->overrides.nranks, options->optimize,
                    c.error.text);
    if (ok && !plan_read(plan, arena, "plan", c.text.at, c.text.n, 0, &error)) {
        text_printf(report, "%s: %s\n", options->input, error.text);
        ok = false;
    }
    compilation_finish(&c);
    return ok;
}

static bool compile_case(Plan *plan, Arena *arena, const JudgeCase *which, Text *report) {
    Error error = {0};
    char *text;
    size_t n;
    if (!file_read(arena, which->file, 1 << 20, &text, &n, &error)) {
        text_printf(report, "%s (run from the source folder)\n", error.text);
        return false;
    }
    Options options = {.input = which->file, .output = "/dev/null", .optimize = which->optimize, .redistribution = which->redistribution};
    options.overrides.nranks = which->nranks;
    options.overrides.search = "sharding_propagation";
    options.overrides.mode = which->mode;
    return compile_text(plan, arena, &options, text, n, false, report);
}

/* A random net; *some false where pcc rejects it, or it is too large to be simulated often. */
static bool compile_net(Plan *plan, Arena *arena, uint64_t seed, char *name, size_t n, bool *some, Text *report) {
    FuzzNet net;
    Text text = {0}, flags = {0};
    fuzz_make(&net, arena, seed);
    fuzz_print(&text, &net);
    fuzz_flags(&flags, &net);
    snprintf(name, n, "fuzz-net --seed %llu, %s", (unsigned long long)seed, flags.at);
    Options options = {.input = "net.dsl", .output = "/dev/null", .optimize = net.optimize, .redistribution = net.redistribution};
    options.overrides.nranks = fuzz_ranks(&net);
    options.overrides.replicas = mode_hides(net.mode) ? net.replicas : 0;
    bool ok = compile_text(plan, arena, &options, text.at, text.n, true, report);
    double work = 0;
    for (int i = 0; ok && i < plan->graph.nodes.n; i++)
        work += rule_flops(plan->graph.nodes.at[i].op, plan->graph.nodes.at[i].rule);
    *some = ok && work < MOST_WORK;
    text_finish(&flags);
    text_finish(&text);
    return ok || report->n == 0;
}

/* ---------------------------------------------------------------- one wrong plan */

typedef struct Right {
    Plan plan;
    SimReference reference;
    char name[96];
} Right;

/* The compositional part alone: it must refuse whatever matters, without running anything. */
static bool compositional(const Plan *plan, Error *error) {
    Proof proof;
    return proof_check(plan, &(ProofOptions){.compositional = true}, &proof, error);
}

/* Whether running it over the field finds it, in a process of its own: what the compositional part has not refused may not be run at all. */
static bool numeric_rejects(const Plan *plan, uint64_t seed) {
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        char why[300];
        if (!freopen("/dev/null", "w", stderr)) _exit(2); /* a failed assertion is not this run's */
        _exit(numeric_program(plan, &plan->programs.at[0], seed, why, sizeof why) ? 0 : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        ;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void judge_mutant(Judge *judge, const Right *right, MutantKind kind, Random *random) {
    JudgeCount *count = &judge->kind[kind];
    Arena arena;
    arena_init(&arena);
    Plan copy, wrong;
    char what[160] = "", why[300] = "";
    Error error = {0};
    Text text = {0};
    uint64_t before = random->state;
    plan_copy(&right->plan, &arena, &copy);
    if (mutate(&copy, kind, random, &arena, what, sizeof what)) {
        count->made++;
        plan_print(&text, &copy);
        if (plan_read(&wrong, &arena, "mutant", text.at, text.n, 0, &error)) {
            count->parsed++;
            bool same = simulate_plan(&wrong, &right->reference, why, sizeof why), proved = compositional(&wrong, &error);
            if (same) {
                count->careful += !proved;
            } else {
                count->counted++;
                judge->counted++;
                count->rejected += !proved;
                if (judge->numeric) {
                    count->numeric_tried++;
                    count->numeric_rejected += numeric_rejects(&wrong, judge->seed);
                }
                if (proved) {
                    judge->missed++;
                    text_printf(&judge->report, "PROVED: %s, %s (%s), random %llu; the simulation: %s\n", right->name, mutant_name[kind],
                                what, (unsigned long long)before, why);
                }
            }
        }
        text_finish(&text);
    }
    arena_finish(&arena);
}

/* ---------------------------------------------------------------- the run */

/* Compiles, simulates and proves the right plan: one that fails here shows nothing about wrong ones. *some false: the net is no use. */
static bool right_begin(Judge *judge, int number, Arena *arena, Right *right, bool *some) {
    Error error = {0};
    char why[300];
    *some = true;
    if (number % 2) {
        if (!compile_net(&right->plan, arena, judge->seed * 1000003 + (uint64_t)number, right->name, sizeof right->name, some,
                         &judge->report))
            return false;
    } else {
        const JudgeCase *which = &cases[number / 2 % NCASES];
        snprintf(right->name, sizeof right->name, "%s on %d ranks, -O%d", which->file, which->nranks, which->optimize);
        if (!compile_case(&right->plan, arena, which, &judge->report)) return false;
    }
    if (!*some) return true;
    if (!simulate_reference(&right->reference, &right->plan.graph, judge->seed + (uint64_t)number, arena, why, sizeof why)) {
        text_printf(&judge->report, "%s: the graph cannot be simulated: %s\n", right->name, why);
        return false;
    }
    if (!simulate_plan(&right->plan, &right->reference, why, sizeof why)) {
        text_printf(&judge->report, "%s: the right plan, simulated: %s\n", right->name, why);
        return false;
    }
    if (!compositional(&right->plan, &error)) {
        text_printf(&judge->report, "%s: the right plan: %s\n", right->name, error.text);
        return false;
    }
    judge->plans++;
    return true;
}

static bool done(const Judge *judge, double begin) {
    if (judge->stop && judge->missed) return true;
    return (judge->most > 0 && judge->counted >= judge->most) || (judge->seconds > 0 && now_seconds() - begin >= judge->seconds);
}

bool judge_run(Judge *judge) {
    double begin = now_seconds();
    Random random = {judge->seed};
    bool ok = true;
    for (int number = 0; ok && !done(judge, begin); number++) {
        Arena arena;
        arena_init(&arena);
        Right right;
        bool some;
        ok = right_begin(judge, number, &arena, &right, &some);
        for (int i = 0; ok && some && i < MUTANTS_A_PLAN && !done(judge, begin); i++) {
            MutantKind kind = (MutantKind)((number + i) % NMUTANTS);
            int64_t before = judge->kind[kind].parsed;
            for (int k = 0; k < TRIES && judge->kind[kind].parsed == before; k++)
                judge_mutant(judge, &right, kind, &random);
        }
        arena_finish(&arena);
    }
    judge->used_s = now_seconds() - begin;
    return ok;
}

void judge_print(const Judge *judge, FILE *out) {
    int64_t parsed = 0, rejected = 0, numeric = 0, tried = 0;
    fprintf(out, "%-28s %8s %8s %6s %8s %8s %8s\n", "what is wrong", "mutants", "counted", "", "rejected", "numeric", "careful");
    for (int k = 0; k < NMUTANTS; k++) {
        const JudgeCount *count = &judge->kind[k];
        fprintf(out, "%-28s %8lld %8lld %5.1f%% %8lld %8lld %8lld\n", mutant_name[k], (long long)count->parsed, (long long)count->counted,
                count->parsed ? 100.0 * (double)count->counted / (double)count->parsed : 0, (long long)count->rejected,
                (long long)count->numeric_rejected, (long long)count->careful);
        numeric += count->numeric_rejected;
        tried += count->numeric_tried;
        parsed += count->parsed;
        rejected += count->rejected;
    }
    fprintf(out, "%d plans, %lld mutants, %lld counted, %lld rejected, %d missed", judge->plans, (long long)parsed,
            (long long)judge->counted, (long long)rejected, judge->missed);
    if (tried) fprintf(out, "; numeric alone: %lld of %lld", (long long)numeric, (long long)tried);
    fprintf(out, "; %.1f s, %.0f a second\n", judge->used_s, (double)parsed / judge->used_s);
}

void judge_finish(Judge *judge) {
    text_finish(&judge->report);
}
