/* micro: batches in parts where no other measure makes a plan fit. The net is compiled for 2, 4, 8.. parts, each with all other measures, until one fits; as long as more parts
 * make it faster, since they need fewer of these, more are taken. Nets that would compute something else in parts (row_parts.c) are left as they are. */
#include "compiler/compiler.h"
#include "compiler/oracle.h"

enum { MOST_PARTS = 256, MOST_NODES = 40000 };

/* What the net costs in so many parts. False: it is none that may be taken so. */
static bool compile_parts(const Compilation *c, int parts, BuildCost *cost, int64_t *needed) {
    Arena arena;
    Diags diags;
    Compilation other;
    Options options = *c->options;
    arena_init(&arena);
    diags_init(&diags, &arena);
    options.overrides.micro_batches = parts;
    options.overrides.paths = NULL;
    options.no_plan = true;
    options.prove = options.dump = options.verbose = options.warnings_are_errors = false;
    options.silenced = ~0u;
    options.nexplain = 0;
    const bool done = compile(&other, &arena, &options, &diags, c->source, c->nsource),
               built = other.programs.n > 0 && program_train(&other)->facts != NULL;
    if (built) {
        build_cost(program_train(&other), cost);
        *needed = bytes_needed(&other);
    }
    (void)done; /* not where it does not fit */
    compilation_finish(&other);
    arena_finish(&arena);
    return built;
}

static bool may_take(const Compilation *c, int parts) {
    const Graph *g = &program_train(c)->front.lowered;
    const int64_t rows = graph_batch_rows(g), accumulate = g->settings.accumulate > 1 ? g->settings.accumulate : 1;
    return rows % parts == 0 && rows >= parts && accumulate * parts <= MOST_PARTS &&
           (int64_t)program_train(c)->front.graph.nodes.n * parts <= MOST_NODES;
}

const MicroBatches *micro_choose(const Compilation *c, int64_t limit) {
    Build *train = program_train(c);
    const Settings *settings = &train->front.graph.settings;
    BuildCost now, cost, best = {0};
    int64_t needed = 0, best_needed = 0;
    int best_parts = 0;
    if (c->options->overrides.micro_batches > 0 || settings->micro_span.line > 0 || settings->optimizer == OPTIMIZER_NONE) return NULL;
    build_cost(train, &now);
    for (int parts = 2; may_take(c, parts); parts *= 2) {
        if (!compile_parts(c, parts, &cost, &needed)) break;
        const bool fits = needed <= limit;
        if (!fits && best_parts == 0) continue;
        if (!fits || (best_parts > 0 && cost.step_s >= best.step_s)) break;
        best = cost, best_parts = parts, best_needed = needed;
    }
    if (best_parts == 0) return NULL;
    MicroBatches *micro = arena_alloc(c->arena, sizeof *micro);
    *micro = (MicroBatches){best_parts, bytes_needed(c) - best_needed, best.step_s - now.step_s};
    return micro;
}
