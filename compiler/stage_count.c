/* stage_count: finds the best pipeline (`stages = auto`): how many stages it has, and, where the net does not say so, into how many parts each batch is divided and how many chunks
 * each stage has.
 *
 * Each pipeline that is tried is compiled, with the strategies that the search finds for the ranks of a stage, and with its cuts; it is judged by the predicted step of its plan
 * (oracle.h). For each divisor of the ranks the first has as many parts as keep all stages busy; then come twice as many, and so on as long as that is better, else half as
 * many; then 2 and 4 chunks. All of these have the strategies found for the first, unless measures for memory depend on it. One stage, which is the net without `stages`, is
 * compiled first, with all that its memory takes (micro.c); the others are compared with it, so that nothing worse is taken. Work is counted in forward operators times batches,
 * and a search as SEARCHED of them; what would be too much work is left out.
 *
 * The same is done where a net says nothing of stages and nothing else fits into the memory. */
#include <math.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/name.h"
#include "compiler/search.h"
#include "compiler/tasks.h"

/* The most: limits tried below the net's; stages; batches of a step; chunks; nodes of a net that does not ask for stages; work, in forward
 * operators times batches. */
enum { BELOW = 2, MOST_STAGES = 64, MOST_BATCHES = 256, MOST_CHUNKS = 4, MOST_NODES = 20000, MOST_WORK = 1 << 17, SEARCHED = 8 };

#define NEARLY 1.2 /* times the limit, or what the fastest takes */
#define CLOSE 1.1  /* times what the best takes: a search within a lower limit may make up for it */

bool stage_count_asked(const Compilation *c) {
    return program_train(c)->front.graph.settings.stages_auto && c->stages == NULL && c->options->overrides.nranks > 1;
}

struct Counting {
    Compilation *c; /* with the options that the user gave: parts that were found for one stage are not those of a pipeline */
    StageCount *count;
    const Settings *settings;
    int64_t rows;                /* of a batch; 1: it is not divided */
    int64_t batches;             /* of a step, when whole */
    int64_t limit;               /* bytes of a rank; 0: none */
    int64_t states;              /* bytes that states take at least, in even parts */
    int64_t work;                /* that is left; */
    int operators;               /* what a batch takes of it */
    double fastest;              /* seconds of the fastest step that fits */
    const SearchTaken *decision; /* what was found for these stages; NULL: nothing yet, or it depends on the memory */
};

static bool better_than(const StageTried *a, const StageTried *b) {
    if (a->compiles != b->compiles) return a->compiles;
    if (a->broken != b->broken) return a->broken < b->broken;
    if (a->over_bytes != b->over_bytes) return a->over_bytes < b->over_bytes;
    return a->step_s < b->step_s;
}

/* Whether so many stages can run so many batches: interleaved 1F1B takes as many at a time as there are stages. */
static bool may_take(const Counting *k, int64_t stages, int64_t parts, int64_t chunks) {
    const int64_t batches = k->batches * parts;
    return parts >= 1 && k->rows % parts == 0 && batches <= MOST_BATCHES && (chunks == 1 || batches % stages == 0);
}

/* Compiles a pipeline with its decision, if it has one. */
static void try_one(const Counting *k, StageTried *tried) {
    BuildCost cost;
    tried->compiles = may_take(k, tried->stages, tried->parts, tried->chunks) && stages_cost(k->c, tried, &cost, &tried->idle);
    if (!tried->compiles) return;
    tried->step_s = cost.step_s;
    tried->bytes = memory_bytes(&cost);
    tried->workspace_bytes = cost.workspace_bytes;
    tried->over_bytes = k->limit > 0 && tried->bytes > k->limit ? tried->bytes - k->limit : 0;
    tried->broken = cost.broken;
}

static bool holds(const StageTried *tried) {
    return tried->compiles && tried->over_bytes == 0 && tried->broken == 0;
}

static bool takes_measures(const StageTried *tried) {
    return tried->decision != NULL && tried->decision->measures.n > 0;
}

/* Whether so many parts of a batch may fit where those of `others` do not: if all but states and workspace shrinks as parts do. With fewer
 * parts as many batches are under way, but fewer gradients are added up. */
static bool may_fit(const Counting *k, const StageTried *others, int64_t parts) {
    const int64_t stays = k->states + others->workspace_bytes, rest = others->bytes - stays;
    if (others->over_bytes == 0 || rest < 0) return true;
    return stays + (parts > others->parts ? rest * others->parts / parts : rest / 2) <= k->limit;
}

/* Whether a quick search finds strategies that nearly fit and are nearly as fast as what fits: a whole search finds better ones, but not
 * by much. */
static bool comes_near(const Counting *k, StageTried *tried) {
    tried->compiles = stages_decide(k->c, tried, "recursive_programming");
    if (tried->compiles) try_one(k, tried);
    return !tried->compiles ||
           (memory_within(tried->bytes, tried->workspace_bytes, NEARLY, k->limit) && tried->step_s <= NEARLY * k->fastest);
}

/* Compiles a pipeline with the strategies that a search finds. */
static void search_one(Counting *k, StageTried *tried) {
    const bool quick = k->settings->memory_bytes > 0 && k->settings->mode == MODE_AUTO && strcmp(k->settings->search, "auto") == 0 &&
                       tried->stages < k->c->options->overrides.nranks;
    if (quick && !comes_near(k, tried)) return;
    tried->searched = true;
    tried->compiles = stages_decide(k->c, tried, NULL);
    if (tried->compiles) try_one(k, tried);
}

/* Tries a pipeline, which becomes *best if it is better. False: it is not, or there is no work left for it. */
static bool try_stages(Counting *k, StageTried *best, int64_t stages, int64_t parts, int64_t chunks) {
    StageTried tried = {
        .stages = (int)stages, .chunks = (int)chunks, .parts = (int)parts, .batches = (int)(k->batches * parts), .decision = k->decision};
    int64_t work = (int64_t)k->operators * tried.batches * (k->decision != NULL ? 1 : SEARCHED);
    if (work > k->work && parts > 1) {
        k->count->nleft++;
        return false;
    }
    if (tried.decision != NULL) try_one(k, &tried);
    if (tried.decision == NULL || (tried.compiles && (tried.over_bytes > 0 || tried.broken > 0))) {
        if (tried.decision != NULL) work += (int64_t)k->operators * tried.batches * SEARCHED;
        search_one(k, &tried);
        if (!takes_measures(&tried)) k->decision = tried.decision;
    }
    k->work -= work;
    if (holds(&tried) && tried.step_s < k->fastest) k->fastest = tried.step_s;
    vec_push(k->c->arena, &k->count->tried, tried);
    if (best->stages > 0 && !better_than(&tried, best)) return false;
    *best = tried;
    return true;
}

/* The fewest parts, at least so many, that a batch can be divided into, preferably such that the stages divide the batches of a step. */
static int64_t parts_from(const Counting *k, int64_t stages, int64_t least) {
    for (int64_t all = 0; all < 2; all++)
        for (int64_t parts = least; parts <= k->rows; parts++)
            if (may_take(k, stages, parts, 1) && (all || k->batches * parts % stages == 0)) return parts;
    return 0;
}

/* The most parts, at most so many; 0: none. */
static int64_t parts_to(const Counting *k, int64_t stages, int64_t most, int64_t chunks) {
    while (most > 0 && !may_take(k, stages, most, chunks))
        most--;
    return most;
}

/* Where nothing fits yet: tries as many parts as there can be, beyond those tried last. */
static void try_most(Counting *k, StageTried *best, int64_t parts) {
    int64_t most = 0;
    while ((parts = parts_from(k, best->stages, 2 * parts)) > 0)
        most = parts;
    if (most > 0 && may_fit(k, best, most)) try_stages(k, best, best->stages, most, best->chunks);
}

/* Tries other numbers of parts for the best pipeline with so many stages. */
static void try_parts(Counting *k, StageTried *best) {
    const int64_t stages = best->stages, first = best->parts;
    int64_t parts = first;
    do
        parts = parts_from(k, stages, 2 * parts);
    while (parts > 0 && (!may_fit(k, best, parts) || try_stages(k, best, stages, parts, best->chunks)));
    if (best->over_bytes > 0 && parts > 0) try_most(k, best, parts);
    if (best->parts > first) return;
    parts = first;
    while ((parts = parts_to(k, stages, parts / 2, best->chunks)) > 0)
        if (!may_fit(k, best, parts) || (!try_stages(k, best, stages, parts, best->chunks) && best->over_bytes == 0)) return;
}

static void try_count(Counting *k, int stages) {
    const bool chunks_said = k->settings->chunks_span.line > 0;
    const int64_t chunks = chunks_said && k->settings->chunks > 1 ? k->settings->chunks : 1;
    const int64_t busy = parts_from(k, stages, (stages + k->batches - 1) / k->batches);
    StageTried best = {0};
    const bool fits = busy > 0 && busy * k->batches * k->operators * SEARCHED <= k->work;
    k->decision = NULL;
    try_stages(k, &best, stages, fits ? busy : 1, chunks);
    if (!best.compiles && fits && busy > 1) { /* in parts the net may compute something else */
        k->rows = 1;
        best = (StageTried){0};
        try_stages(k, &best, stages, 1, chunks);
    }
    if (best.compiles && k->rows > 1) try_parts(k, &best);
    const bool fits_too = best.compiles && best.over_bytes == 0; /* chunks save time, and no memory */
    for (int64_t more = 2; more <= MOST_CHUNKS && fits_too && !chunks_said && k->settings->pipeline_span.line == 0; more *= 2)
        if (!may_take(k, stages, best.parts, more) || !try_stages(k, &best, stages, best.parts, more)) break;
    vec_push(k->c->arena, &k->count->best, best);
}

/* Searches again within `aim`, which is below the limit. False: there is no work left for it, or nothing is found. */
static bool search_within(Counting *k, StageTried *tried, int64_t aim) {
    const int64_t work = (int64_t)k->operators * tried->batches * SEARCHED;
    StageTried below = *tried;
    if (work > k->work || aim <= k->states) return false;
    k->work -= work;
    below.searched = false;
    below.aim = aim;
    below.compiles = stages_decide(k->c, &below, NULL);
    if (!below.compiles) return false;
    try_one(k, &below);
    if (better_than(&below, tried)) *tried = below;
    return true;
}

/* Searches within lower limits, whose plans may fit where this one does not, or be faster: a search takes measures one after another, and
 * sees only the first few batches of a step. */
static void search_below(Counting *k, StageTried *tried) {
    const int first = limit_from(k->limit, tried->workspace_bytes) - 1;
    tried->below = true;
    if (tried->over_bytes > 0 && !search_within(k, tried, k->limit - tried->over_bytes - k->limit / 256)) return;
    for (int n = 0; n < BELOW && first >= n; n++)
        if (!search_within(k, tried, limit_at(first - n, tried->workspace_bytes))) return;
}

static StageTried *best_tried(StageCount *count) {
    StageTried *best = &count->best.at[0];
    for (int i = 1; i < count->best.n; i++)
        if (better_than(&count->best.at[i], best)) best = &count->best.at[i];
    return best;
}

/* The fastest for which lower limits have not been tried and may bring something; NULL: it is much slower than the best of all. */
static StageTried *next_below(const Counting *k) {
    const StageTried *taken = best_tried(k->count);
    StageTried *next = NULL;
    for (int i = 0; i < k->count->best.n; i++) {
        StageTried *tried = &k->count->best.at[i];
        const bool costs = tried->compiles && tried->decision != NULL && (tried->decision->limit_costs || tried->over_bytes > 0);
        if (tried->below || !costs || !memory_within(tried->bytes, tried->workspace_bytes, NEARLY, k->limit)) continue;
        if (next == NULL || tried->step_s < next->step_s) next = tried;
    }
    return taken->over_bytes > 0 || (next != NULL && next->step_s < CLOSE * taken->step_s) ? next : NULL;
}

/* Searches for the best itself, which may have strategies that were found for fewer parts or chunks. */
static void search_best(Counting *k) {
    StageTried *best = best_tried(k->count), again = *best;
    const int64_t work = (int64_t)k->operators * best->batches * SEARCHED;
    if (best->stages == 1 || best->searched || best->aim > 0 || !best->compiles || work > k->work) return;
    k->work -= work;
    again.decision = NULL;
    search_one(k, &again);
    if (better_than(&again, best)) *best = again;
}

/* The decision, with the step that it takes; if it was found for other batches, or within a lower limit, it has no bound. */
static const SearchTaken *decision_of(Arena *arena, const StageTried *taken) {
    SearchTaken *decision = arena_alloc(arena, sizeof *decision);
    *decision = *taken->decision;
    if (decision->result == NULL) return decision;
    SearchResult *result = arena_alloc(arena, sizeof *result);
    *result = *decision->result;
    result->seconds = taken->step_s;
    if (!taken->searched) result->bound = 0;
    decision->result = result;
    return decision;
}

static Counting *count_begin(Compilation *c) {
    const Build *train = program_train(c);
    const Settings *settings = &train->front.graph.settings;
    const bool open = parts_open(c);
    Counting *k = arena_alloc(c->arena, sizeof *k);
    *k = (Counting){.c = arena_alloc(c->arena, sizeof *k->c),
                    .count = arena_alloc(c->arena, sizeof *k->count),
                    .settings = settings,
                    .rows = open ? graph_batch_rows(&train->front.graph) : 1,
                    .batches = settings_batches(settings),
                    .limit = budget_limit(train),
                    .states = graph_states_bytes(&train->front.graph) / c->options->overrides.nranks,
                    .work = MOST_WORK,
                    .fastest = INFINITY,
                    .operators = graph_nforward(&train->front.graph)};
    *k->c = *c;
    if (k->rows < 1) k->rows = 1;
    k->count->divides = open;
    return k;
}

/* Tries two stages and more. Returns the best of these and of what is known; NULL: it is one stage, or nothing compiles. */
static StageCount *count_more(Counting *k) {
    StageCount *count = k->count;
    const int nranks = k->c->options->overrides.nranks;
    for (int stages = 2; stages <= nranks && stages <= MOST_STAGES; stages++)
        if (nranks % stages == 0) try_count(k, stages);
    if (count->best.n == 0) return NULL;
    for (StageTried *next = next_below(k); next != NULL; next = next_below(k))
        search_below(k, next);
    search_best(k);
    count->taken = *best_tried(count);
    if (count->taken.decision != NULL) count->taken.decision = decision_of(k->c->arena, &count->taken);
    return count->taken.compiles && count->taken.stages > 1 ? count : NULL;
}

StageCount *stage_count_one(Compilation *c) {
    Counting *k = count_begin(c);
    k->count->open = k;
    k->count->taken = (StageTried){.stages = 1, .chunks = 1, .parts = 1, .batches = (int)k->batches};
    return k->count;
}

StageCount *stage_count_more(Compilation *c, const BuildCost *cost, int64_t needed) {
    Counting *k = c->stages->open;
    StageTried one = c->stages->taken;
    c->stages->open = NULL;
    if (c->micro != NULL && c->micro->parts > 1) one.parts = c->micro->parts;
    one.batches *= one.parts;
    one.below = true; /* micro_choose has looked */
    one.compiles = cost != NULL;
    if (cost == NULL && c->diags->items.n > 0) one.why = c->diags->items.at[0].text;
    if (cost != NULL) {
        one.step_s = cost->step_s;
        one.bytes = needed;
        one.broken = cost->broken;
        one.over_bytes = k->limit > 0 && needed > k->limit ? needed - k->limit : 0;
        if (holds(&one)) k->fastest = one.step_s;
    }
    vec_push(c->arena, &k->count->tried, one);
    vec_push(c->arena, &k->count->best, one);
    StageCount *count = count_more(k);
    if (count == NULL) stage_count_say(c);
    return count;
}

StageCount *stage_count_fitting(Compilation *c) {
    const Settings *settings = &program_train(c)->front.graph.settings;
    const bool open =
        settings->mode == MODE_AUTO && strcmp(settings->search, "auto") == 0 && settings->stages_span.line == 0 && settings->found.n == 0;
    if (!open || c->stages != NULL || c->options->overrides.nranks == 1 || settings->optimizer == OPTIMIZER_NONE) return NULL;
    if (program_train(c)->front.graph.nodes.n > MOST_NODES) return NULL;
    if (settings->lengths.n > 1) return NULL;       /* a net in stages takes texts of one length */
    StageCount *count = count_more(count_begin(c)); /* one does not fit: micro_choose has tried its parts */
    return count != NULL && count->taken.over_bytes == 0 ? count : NULL;
}

/* "4 of 16 batches in 2 chunks" */
static void print_pipe(Text *text, const StageTried *tried) {
    text_printf(text, "%d", tried->stages);
    if (tried->batches > 1) text_printf(text, " of %d batches", tried->batches);
    if (tried->chunks > 1) text_printf(text, " in %d chunks", tried->chunks);
}

void stage_count_print(Text *text, Compilation *c) {
    const StageCount *count = c->stages;
    print_pipe(text, &count->taken);
    text_printf(text, ", the best of %d tried", count->tried.n);
    if (count->nleft > 0) text_printf(text, " (%d more would be too much work)", count->nleft);
    for (int i = 0; i < count->best.n; i++) {
        const StageTried *best = &count->best.at[i];
        text_printf(text, "%s ", i > 0 ? ";" : ":");
        print_pipe(text, best);
        if (!best->compiles) {
            text_printf(text, " cannot be compiled%s%s", best->why != NULL ? ": " : "", best->why != NULL ? best->why : "");
            continue;
        }
        text_printf(text, " %.4g ms", 1e3 * best->step_s);
        if (best->stages > 1)
            text_printf(text, ", idle %.3g %%, the bubble alone %.3g %%", 100 * best->idle,
                        100 * pipe_bubble(best->stages, best->chunks, best->batches));
        if (best->over_bytes > 0) text_printf(text, ", %s too much on a rank", bytes_named(c->arena, best->over_bytes));
        if (best->broken > 0) text_printf(text, ", %d demand%s broken", best->broken, best->broken == 1 ? "" : "s");
    }
}

void stage_count_say(Compilation *c) {
    Text text = {0};
    if (c->stages == NULL || c->stages->open != NULL || !c->diags->verbose) return;
    stage_count_print(&text, c);
    diag_note(c->diags, (Span){0}, "stages: %s", text.at);
    text_finish(&text);
}
