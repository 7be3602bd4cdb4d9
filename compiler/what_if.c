/* what_if: what a step would cost if an operator had another strategy (--what-if). The net is compiled again with the strategy, as if --shard gave it, in memory of its
 * own; nothing is written. */
#include <inttypes.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/explain.h"
#include "compiler/name.h"
#include "compiler/oracle.h"

/* Prints a number of the plan and of the plan with the hint, each as it is named, and by how much it is more (NULL: only in per cent). */
static void row(Text *text, const char *what, const char *now_named, const char *then_named, const char *of, const char *more, double now,
                double then) {
    const bool same = then == now || (more == NULL && strcmp(now_named, then_named) == 0);
    text_printf(text, "  %-12s %s -> %s %s", what, now_named, then_named, of);
    if (!same) text_printf(text, ": %s%s", more != NULL ? more : "", more != NULL && now > 0 ? ", " : "");
    if (!same && now > 0) text_printf(text, "%+.1f %%", 100 * (then / now - 1));
    text_printf(text, "\n");
}

static void row_bytes(Text *text, Arena *arena, const char *what, int64_t now, int64_t then, const char *of) {
    const char *more = arena_printf(arena, "%c%s", then > now ? '+' : '-', bytes_named(arena, then > now ? then - now : now - then));
    row(text, what, bytes_named(arena, now), bytes_named(arena, then), of, more, (double)now, (double)then);
}

static void rows(Text *text, Arena *arena, const char *hint, const BuildCost *now, const BuildCost *then) {
    text_printf(text, "what if %s\n", hint);
    row_bytes(text, arena, "sent", now->sent_bytes, then->sent_bytes, "by the busiest rank");
    row_bytes(text, arena, "received", now->received_bytes, then->received_bytes, "by the busiest rank");
    row_bytes(text, arena, "memory", memory_bytes(now), memory_bytes(then), "of a rank");
    row(text, "FLOPs", arena_printf(arena, "%.4g", now->flops), arena_printf(arena, "%.4g", then->flops), "of the busiest rank", NULL,
        now->flops, then->flops);
    row(text, "predicted", arena_printf(arena, "%.4g ms", 1e3 * now->step_s), arena_printf(arena, "%.4g ms", 1e3 * then->step_s), "a step",
        arena_printf(arena, "%+.4g ms", 1e3 * (then->step_s - now->step_s)), now->step_s, then->step_s);
}

void what_if_print(Text *text, const Compilation *c, const char *hint, const WhatIf *then) {
    BuildCost now;
    build_cost(program_train(c), &now);
    if (then->why == NULL)
        rows(text, c->arena, hint, &now, &then->cost);
    else
        text_printf(text, "what if %s\n  no plan      %s\n", hint, then->why);
}

static bool at_hint(const Diags *diags, const Diag *diag) {
    return diag->span.line > 0 && strcmp(diags->files.at[diag->span.file].name, "--what-if") == 0;
}

/* The first error that does not stand at the hint. NULL: one does, or there is none. */
static const char *error_elsewhere(const Diags *diags) {
    const char *text = NULL;
    for (int i = 0; i < diags->items.n; i++) {
        const Diag *diag = &diags->items.at[i];
        if (diag->kind == DIAG_ERROR && at_hint(diags, diag)) return NULL;
        if (diag->kind == DIAG_ERROR && text == NULL) text = diag->text;
    }
    return text;
}

/* Warnings that stand at the hint itself; the net's own are said of the net. */
static void print_warnings(const Diags *diags, Arena *arena) {
    Diags own = *diags;
    bool kept = false;
    memset(&own.items, 0, sizeof own.items);
    own.nwarnings = 0;
    for (int i = 0; i < diags->items.n; i++) {
        const Diag *diag = &diags->items.at[i];
        if (diag->kind == DIAG_WARNING) kept = at_hint(diags, diag);
        if (kept) vec_push(arena, &own.items, *diag);
    }
    diags_print(&own, stderr);
}

bool what_if(const Options *given, const char *hint, const char *source, size_t n, Arena *kept, WhatIf *then, Error *error) {
    Arena arena;
    Diags diags;
    Compilation other;
    Options options = *given;
    arena_init(&arena);
    diags_init(&diags, &arena);
    options.overrides.what_if = hint;
    options.no_plan = true;
    options.dump = false;
    options.timeline = NULL;
    options.hints_file = NULL;
    options.silenced |= 1u << WARN_COSTLY; /* what it costs is what is printed */
    const bool done = compile(&other, &arena, &options, &diags, source, n);
    const char *why = done || other.error.code != EXIT_REJECTED ? NULL : error_elsewhere(&diags);
    *then = (WhatIf){.why = why != NULL ? arena_printf(kept, "%s", why) : NULL};
    if (done) {
        build_cost(program_train(&other), &then->cost);
        print_warnings(&diags, &arena);
    } else if (why == NULL) {
        diags_print(&diags, stderr);
        *error = other.error;
        error_prefix(error, "--what-if %s: ", hint);
    }
    compilation_finish(&other);
    arena_finish(&arena);
    return done || then->why != NULL;
}
