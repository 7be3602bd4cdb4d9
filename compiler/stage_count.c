/* stage_count: as many stages as are best (`stages = auto`). All divisors of the ranks are compiled, each with what the search finds for the ranks of its stages, and with their cuts: what a step then takes
 * is what the plan is predicted to take (oracle.h). So it is where a net says nothing of stages, and nothing else fits into the memory that it may need. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/name.h"
#include "compiler/search.h"

enum { MOST_STAGES = 64, MOST_NODES = 20000 }; /* stages; nodes of a net for which it is asked though it does not ask */

bool stage_count_asked(const Compilation *c) {
    return program_train(c)->front.graph.settings.stages_auto && c->stages == NULL && c->options->overrides.nranks > 1;
}

static bool better_than(const StageTried *a, const StageTried *b) {
    if (a->broken != b->broken) return a->broken < b->broken;
    if (a->over_bytes != b->over_bytes) return a->over_bytes < b->over_bytes;
    return a->step_s < b->step_s;
}

static StageTried try_stages(const Compilation *c, int stages, int64_t limit) {
    BuildCost cost;
    if (!stages_cost(c, stages, &cost)) return (StageTried){.stages = stages};
    const int64_t bytes = memory_bytes(&cost);
    return (StageTried){.stages = stages,
                        .compiles = true,
                        .step_s = cost.step_s,
                        .bytes = bytes,
                        .over_bytes = limit > 0 && bytes > limit ? bytes - limit : 0,
                        .broken = cost.broken};
}

StageCount *stage_count_fitting(Compilation *c) {
    const Settings *settings = &program_train(c)->front.graph.settings;
    const bool open =
        settings->mode == MODE_AUTO && strcmp(settings->search, "auto") == 0 && settings->stages_span.line == 0 && settings->found.n == 0;
    if (!open || c->stages != NULL || c->options->overrides.nranks == 1 || settings->optimizer == OPTIMIZER_NONE) return NULL;
    if (program_train(c)->front.graph.nodes.n > MOST_NODES) return NULL;
    if (settings->lengths.n > 1) return NULL; /* a net in stages takes texts of one length */
    StageCount *count = stage_count_choose(c);
    for (int i = 0; i < count->ntried; i++)
        if (count->tried[i].stages == count->stages && count->stages > 1 && count->tried[i].over_bytes == 0) return count;
    return NULL;
}

StageCount *stage_count_choose(Compilation *c) {
    const int nranks = c->options->overrides.nranks;
    const int64_t limit = budget_limit(program_train(c));
    StageCount *count = arena_alloc(c->arena, sizeof *count);
    const StageTried *best = NULL;
    for (int stages = 1; stages <= nranks && stages <= MOST_STAGES; stages++) {
        if (nranks % stages != 0) continue;
        StageTried *tried = &count->tried[count->ntried++];
        *tried = try_stages(c, stages, limit);
        if (tried->compiles && (best == NULL || better_than(tried, best))) best = tried;
    }
    count->stages = best != NULL ? best->stages : 1; /* which says what is wrong with the net */
    return count;
}

void stage_count_print(Text *text, Compilation *c) {
    const StageCount *count = c->stages;
    text_printf(text, "%d, the best of %d tried:", count->stages, count->ntried);
    for (int i = 0; i < count->ntried; i++) {
        const StageTried *tried = &count->tried[i];
        text_printf(text, "%s %d ", i > 0 ? ";" : "", tried->stages);
        if (!tried->compiles)
            text_printf(text, "cannot be compiled");
        else
            text_printf(text, "%.4g ms", 1e3 * tried->step_s);
        if (tried->over_bytes > 0) text_printf(text, ", %s too much on a rank", bytes_named(c->arena, tried->over_bytes));
        if (tried->broken > 0) text_printf(text, ", %d demand%s broken", tried->broken, tried->broken == 1 ? "" : "s");
    }
}

void stage_count_say(Compilation *c) {
    Text text = {0};
    if (c->stages == NULL || !c->diags->verbose) return;
    stage_count_print(&text, c);
    diag_note(c->diags, (Span){0}, "stages: %s", text.at);
    text_finish(&text);
}
