/* Plans of the samples, as pcc writes them and prun reads them: what tests of the proof change and try. */
#pragma once
#include "compiler/compiler.h"
#include "ir/file.h"
#include <criterion/criterion.h>

typedef struct PlanCase {
    char file[64];
    int nranks, optimize;
    char mode[24];
} PlanCase;

/* From the source folder. */
static inline void plan_load(const PlanCase *which, Arena *arena, Plan *plan) {
    Error error = {0};
    char *text;
    size_t n;
    cr_assert(file_read(arena, which->file, 1 << 20, &text, &n, &error), "%s (run from the source folder)", error.text);
    Diags diags;
    diags_init(&diags, arena);
    Options options = {.input = which->file, .output = "/dev/null", .optimize = which->optimize, .no_plan = true};
    options.overrides.nranks = which->nranks;
    options.overrides.search = "sharding_propagation"; /* the nets are small, and fastest whole on every rank */
    options.overrides.mode = *which->mode ? which->mode : NULL;
    Compilation c;
    bool ok = compile(&c, arena, &options, &diags, text, n);
    if (!ok) diags_print(&diags, stderr);
    cr_assert(ok, "%s: %s", which->file, c.error.text);
    const PlanFiles files = {.text = c.text.at, .n = c.text.n, .side = c.side.at, .nside = c.side.n};
    cr_assert(plan_read_files(plan, arena, "plan", &files, 0, &error), "%s", error.text);
    compilation_finish(&c);
}

/* The same of a net's text. */
static inline void plan_of(const char *text, int nranks, Arena *arena, Plan *plan) {
    Error error = {0};
    Diags diags;
    diags_init(&diags, arena);
    Options options = {.input = "n.dsl", .output = "/dev/null", .optimize = 2, .no_plan = true};
    options.overrides.nranks = nranks;
    options.overrides.search = "sharding_propagation"; /* the nets are small, and fastest whole on every rank */
    Compilation c;
    bool ok = compile(&c, arena, &options, &diags, text, strlen(text));
    if (!ok) diags_print(&diags, stderr);
    cr_assert(ok, "%s", c.error.text);
    cr_assert(plan_read(plan, arena, "plan", c.text.at, c.text.n, 0, &error), "%s", error.text);
    compilation_finish(&c);
}

static inline Role *plan_role(Plan *plan) {
    return &plan->programs.at[0].roles.at[0];
}
