/* what_if: what a step would cost if an operator had another strategy (--what-if). The net is compiled once more, with the strategy as --shard gives it, in memory of its
 * own; nothing is written. */
#include <inttypes.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/explain.h"
#include "compiler/oracle.h"

static void row(Text *text, const char *what, double now, double then, double unit, const char *unit_name) {
    text_printf(text, "  %-12s %.6g -> %.6g %s", what, now / unit, then / unit, unit_name);
    if (now > 0 && then != now) text_printf(text, " (%+.1f %%)", 100 * (then / now - 1));
    text_printf(text, "\n");
}

static void rows(Text *text, const char *hint, const BuildCost *now, const BuildCost *then) {
    text_printf(text, "what if %s\n", hint);
    row(text, "sent", (double)now->sent_bytes, (double)then->sent_bytes, 1024, "KiB by the busiest rank");
    row(text, "received", (double)now->received_bytes, (double)then->received_bytes, 1024, "KiB by the busiest rank");
    row(text, "memory", (double)memory_bytes(now), (double)memory_bytes(then), 1024, "KiB of a rank");
    row(text, "FLOPs", now->flops, then->flops, 1, "of the busiest rank");
    row(text, "predicted", now->step_s, then->step_s, 1e-3, "ms a step");
}

bool what_if(Text *text, const Compilation *c, const char *hint, const char *source, size_t n) {
    Arena arena;
    Diags diags;
    Compilation other;
    BuildCost now, then;
    Options options = *c->options;
    arena_init(&arena);
    diags_init(&diags, &arena);
    const int nshards = options.overrides.nshards;
    const char **shards = arena_alloc(&arena, (size_t)(nshards + 1) * sizeof *shards);
    for (int i = 0; i < nshards; i++)
        shards[i] = options.overrides.shard[i];
    shards[nshards] = hint;
    options.overrides.shard = shards;
    options.overrides.nshards = nshards + 1;
    options.no_plan = true;
    options.dump = false;
    options.timeline = NULL;
    const bool done = compile(&other, &arena, &options, &diags, source, n);
    if (done) {
        build_cost(program_train(c), &now);
        build_cost(program_train(&other), &then);
        rows(text, hint, &now, &then);
    } else {
        diags_print(&diags, stderr);
        if (!other.error.reported) fprintf(stderr, "pcc: --what-if %s: %s\n", hint, other.error.text);
    }
    compilation_finish(&other);
    arena_finish(&arena);
    return done;
}
