/* fits: whether a rank's memory is enough for the plan, and if it is not, what fills it and what would help.
 *
 * Before: emit. After: nothing is changed. A plan that needs more than `memory` or --memory is an error; one that needs more than the machine of --machine has is
 * a warning, since that figure is of another day or from somebody's data sheet. */
#include <string.h>

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "compiler/held.h"
#include "compiler/name.h"
#include "compiler/search.h"

/* Bytes of a rank that generates. generate uses the arena of prompt where that is large enough. */
static int64_t generating_bytes(const Compilation *c) {
    if (program_generate(c) == NULL) return 0;
    const Facts *one = program_generate(c)->facts;
    if (program_prompt(c) == NULL) return one->rank_bytes;
    const Facts *many = program_prompt(c)->facts;
    const int64_t arena = one->role->arena_bytes > many->role->arena_bytes ? one->role->arena_bytes : 0;
    return many->rank_bytes + one->inputs + one->constants + arena;
}

int64_t bytes_needed(const Compilation *c) {
    const Facts *train = program_train(c)->facts;
    int64_t trains = train->rank_bytes - train->workspace, workspace = train->workspace, more = 0;
    for (int p = 1; p < c->programs.n; p++) { /* these use the arena of train where it is large enough */
        const Facts *facts = c->programs.at[p]->facts;
        if (c->programs.at[p]->kind == PROGRAM_GENERATE || c->programs.at[p]->kind == PROGRAM_PROMPT) continue;
        trains += facts->inputs + facts->constants;
        const int64_t larger = facts->role->arena_bytes - train->role->arena_bytes;
        if (larger > more) more = larger;
        if (facts->workspace > workspace) workspace = facts->workspace;
    }
    return trains + more + workspace;
}

/* Bytes of the forward pass's values that are held for gradients at the fullest step. */
static int64_t activation_bytes(const Held *held, const Graph *g) {
    int64_t bytes = 0;
    for (int i = 0; i < held->holders.n; i++) {
        const int node = g->values.at[held->holders.at[i].value].node;
        if (node < g->nforward && !node_is_leaf(&g->nodes.at[node])) bytes += held->holders.at[i].bytes;
    }
    return bytes;
}

static bool is_whole(const State *state) {
    return state->layout != NULL && layout_is_whole(state->layout) && state->type.shape.ndim > 0;
}

/* The largest state that every rank has whole, -1: none. */
static int largest_whole(const Graph *g) {
    int found = -1;
    for (int s = 0; s < g->states.n; s++)
        if (is_whole(&g->states.at[s]) && (found < 0 || type_bytes(&g->states.at[s].type) > type_bytes(&g->states.at[found].type)))
            found = s;
    return found;
}

int64_t small_states_bytes(const Graph *g) {
    const Settings *settings = &g->settings;
    const bool slots_alone = settings->shard_states_given && settings->shard_states != SHARD_PARAMETERS;
    int64_t bytes = 0;
    if (g->nranks == 1 || (settings->shard_states_given && settings->shard_states == SHARD_NONE)) return 0;
    for (int s = 0; s < g->states.n; s++) {
        const State *state = &g->states.at[s], *parameter = &g->states.at[state->parameter];
        if (parameter->trainable && parameter->hint == NULL && is_whole(state) && type_bytes(&parameter->type) < settings->shard_bytes &&
            !(slots_alone && state == parameter))
            bytes += type_bytes(&state->type) - type_bytes(&state->type) / g->nranks;
    }
    return bytes;
}

int64_t evals_bytes(const Compilation *c) {
    return bytes_needed(c) - program_train(c)->facts->rank_bytes;
}

/* Says what would help, the cheapest change first. */
static void hint_help(const Compilation *c, const Facts *facts, const Held *held, int64_t missing, bool sought) {
    const Graph *g = facts->graph;
    Arena *arena = c->arena;
    const int64_t activations = held->step >= 0 ? activation_bytes(held, g) : 0;
    const int whole = g->nranks > 1 ? largest_whole(g) : -1;
    const int64_t small = small_states_bytes(g);
    Text text = {0};
    if (!sought) text_printf(&text, "memory = %lld B in parallel has the search keep to it; ", (long long)(bytes_needed(c) - missing));
    if (g->nranks > 1 && g->settings.shard_states_given && g->settings.shard_states != SHARD_PARAMETERS)
        text_printf(&text, "leave out shard_states = %s: states in parts of more kinds need less; ",
                    shard_states_name[g->settings.shard_states]);
    if (g->nranks > 1 && g->settings.regather_given && g->settings.regather != REGATHER_ALL)
        text_printf(&text, "leave out regather = %s; ", regather_name[g->settings.regather]);
    if (small > missing / 16 && (!sought || g->settings.shard_from_given))
        text_printf(&text, "shard_from = 0 has ranks share the states of small parameters too: up to %s less; ", bytes_named(arena, small));
    if (whole >= 0) {
        const State *state = &g->states.at[whole];
        const int64_t bytes = type_bytes(&state->type), saved = bytes - bytes / g->nranks;
        if (saved > missing / 16)
            text_printf(&text, "split %s, which every rank has whole: up to %s less; ", state->name, bytes_named(arena, saved));
    }
    if (2 * activations > missing)
        text_printf(&text,
                    "half the batch, with accumulate twice as large for the same step: about %s of %s in values kept for gradients; ",
                    bytes_named(arena, activations / 2), bytes_named(arena, activations));
    const int nranks = c->options->overrides.nranks > 1 ? c->options->overrides.nranks : 1;
    const int64_t needed = bytes_needed(c), more = 2 * nranks <= MAX_RANKS ? ranks_bytes(c, 2 * nranks, needed - missing) : 0;
    const bool helps = more > 0 && 2 * (needed - more) >=
                                       missing; /* twice as many ranks save half of what they divide; any number saves at most twice that */
    if (helps)
        text_printf(&text, "%smore ranks than %d: each of %d needs %s", text.n > 0 ? "or " : "", nranks, 2 * nranks,
                    bytes_named(arena, more));
    else if (more > 0)
        text_printf(&text, "more ranks alone may not be enough: in the plan that is found for %d each needs %s", 2 * nranks,
                    bytes_named(arena, more));
    if (text.n > 0) diag_hint(c->diags, "%s", text.at);
    text_finish(&text);
}

static void explain_evals(const Compilation *c) {
    const Facts *train = program_train(c)->facts;
    if (program_eval(c) == NULL || evals_bytes(c) <= 0) return;
    const Facts *eval = program_eval(c)->facts;
    diag_note(c->diags, (Span){0},
              "evals need %s beside that: inputs %s, and an arena of %s where train's is %s; a smaller batch in the eval block needs less",
              bytes_named(c->arena, evals_bytes(c)), bytes_named(c->arena, eval->inputs), bytes_named(c->arena, eval->role->arena_bytes),
              bytes_named(c->arena, train->role->arena_bytes));
}

void explain_need(const Compilation *c, int64_t missing) {
    const Build *train = program_train(c);
    const Facts *facts = train->facts;
    const int64_t limit = budget_limit(train);
    const bool sought = limit > 0 && limit <= bytes_needed(c) - missing; /* the search has kept within it */
    Arena *arena = c->arena;
    Held found, *held = &found;
    held_find(held, facts, arena);
    if (held->step >= 0)
        diag_note(c->diags, (Span){0}, "the arena is fullest at step %d of %d, %s, with %s of values: %s", held->step + 1,
                  facts->role->steps.n, step_named(arena, facts, c->diags, held->step), bytes_named(arena, held->bytes),
                  holders_named(arena, held));
    diag_note(c->diags, (Span){0}, "states take %s, inputs %s, the arena %s, of which %s are gaps between values%s%s",
              bytes_named(arena, facts->states), bytes_named(arena, facts->inputs), bytes_named(arena, facts->role->arena_bytes),
              bytes_named(arena, facts->role->arena_bytes - held->bytes), facts->workspace > 0 ? ", the workspace of kernels " : "",
              facts->workspace > 0 ? bytes_named(arena, facts->workspace) : "");
    const int64_t least = least_bytes(facts->graph, facts->graph->nranks, c->options->machine);
    if (least > bytes_needed(c) - missing && facts->graph->settings.mode != MODE_MANUAL)
        diag_note(c->diags, (Span){0}, "no plan on %d rank%s needs less than %s: all states in even parts%s", facts->graph->nranks,
                  facts->graph->nranks == 1 ? "" : "s", bytes_named(arena, least),
                  facts->workspace > 0 ? ", and the workspace of kernels" : "");
    explain_evals(c);
    Text taken = {0};
    measures_print(&taken, train, "; ", "");
    if (c->micro != NULL && c->micro->parts > 1) {
        text_printf(&taken, "; micro_batches = %d", c->micro->parts);
        measure_print(&taken, arena, c->micro->saved_bytes, c->micro->seconds);
    }
    if (taken.n > 0)
        diag_note(c->diags, (Span){0}, "%s %s", sought ? "no measure that is left saves memory; taken are" : "measures taken are",
                  taken.at + 2);
    text_finish(&taken);
    hint_help(c, facts, held, missing, sought);
}

/* Notes what micro-batches have brought. False: the plan does not fit, and something else is left, with which compile() begins again. */
static bool parts_hold(Compilation *c, int64_t needed, int64_t limit) {
    BuildCost cost;
    MicroBatches *micro = c->micro;
    Build *train = program_train(c);
    build_cost(train, &cost);
    micro->saved_bytes = micro->whole_bytes - needed;
    micro->seconds = cost.step_s - micro->whole_s;
    if (train->front.search != NULL && micro->decision != NULL) {
        train->front.search->seconds = cost.step_s;
        train->front.search->of_model = false;
    }
    if (needed > limit && !micro->too_large) c->again = micro_next(c, needed);
    return c->again == NULL;
}

/* Only a warning: a plan is for training, and none the worse if it cannot generate within the limit. */
static void warn_generating(const Compilation *c, int64_t limit) {
    const int64_t needed = generating_bytes(c);
    if (needed <= limit) return;
    diag_warning(c->diags, WARN_MEMORY, program_train(c)->front.graph.settings.memory_span,
                 "generating needs %s of memory on a rank, %s more than it may; training needs %s", bytes_named(c->arena, needed),
                 bytes_named(c->arena, needed - limit), bytes_named(c->arena, bytes_needed(c)));
    diag_hint(c->diags,
              "a smaller chunk in the generate block needs less; a plan with other strategies generates with the same parameters");
}

/* Where the limit is too low: the choice found to need the least, which the error or the warning is about. */
static MicroBatches *least_found(Compilation *c, int64_t needed) {
    return c->micro == NULL ? micro_least(c, needed) : NULL;
}

/* `stages = auto`, compiled in one stage: whether more stages, or, where nothing fits, another plan in one stage that needs less than all of these, are taken. */
static bool more_stages(Compilation *c, int64_t needed) {
    BuildCost cost;
    build_cost(program_train(c), &cost);
    StageCount *count = stage_count_more(c, &cost, needed);
    if (count == NULL) return false;
    if (count->taken.over_bytes > 0) c->again = least_found(c, needed);
    const int64_t least = c->again != NULL ? c->again->bytes : needed;
    if (count->taken.over_bytes > 0 && least <= count->taken.bytes) {
        count->taken = count->best.at[0];
        return c->again != NULL;
    }
    c->again = NULL;
    c->stages_again = count;
    return true;
}

bool pass_fits(Compilation *c) {
    const Build *train = program_train(c);
    const Settings *settings = &train->front.graph.settings;
    const Machine *machine = c->options->machine;
    const int64_t needed = bytes_needed(c), asked = settings->memory_bytes, there = machine != NULL ? machine->memory_bytes : INT64_MAX;
    const int64_t limit = asked > 0 ? asked : there;
    if (c->micro != NULL && !parts_hold(c, needed, limit)) return false;
    const SearchTaken *decision = train->front.decision;
    if (c->micro == NULL && (needed > limit || (decision != NULL && decision->limit_hides))) c->again = micro_choose(c, needed, limit);
    if (c->again != NULL) return false; /* compile() begins again with it */
    if (c->stages != NULL && c->stages->open != NULL && more_stages(c, needed)) return false;
    if (needed <= limit) {
        warn_generating(c, limit);
        return true;
    }
    if (c->micro == NULL) c->stages_again = stage_count_fitting(c);
    if (c->stages_again != NULL) return false;
    c->again = least_found(c, needed);
    if (c->again != NULL) return false; /* the messages are about the plan that needs least */
    if (asked > 0)
        diag_error(c->diags, settings->memory_span, "this plan needs %s of memory on a rank, %s more than the %s that it may",
                   bytes_named_up(c->arena, needed), bytes_named(c->arena, needed - asked), bytes_named(c->arena, asked));
    else
        diag_warning(c->diags, WARN_MEMORY, (Span){0}, "this plan needs %s of memory on a rank; %s has %s",
                     bytes_named_up(c->arena, needed), machine->name, bytes_named(c->arena, there));
    explain_need(c, needed - (asked > 0 ? asked : there));
    return asked == 0;
}
