/* taken: applies what pass search has chosen to the net itself, and keeps it for other compilations of it. */
#include <assert.h>
#include <stdlib.h>

#include "compiler/compiler.h"
#include "compiler/search.h"
#include "compiler/solutions.h"

/* ---------------------------------------------------------------- for the net */

static void apply_chosen(Build *b, const Chosen *chosen) {
    Graph *g = &b->front.graph;
    Propagation *propagation = &b->front.propagation;
    for (int n = 0; chosen->strategy != NULL && n < g->nforward; n++) {
        Node *node = &g->nodes.at[n];
        if (chosen->strategy[n] == NULL || node->from == STRATEGY_USER) continue;
        node->strategy = chosen->strategy[n];
        node->from = STRATEGY_PROPAGATED;
        if (propagation->decision != NULL) propagation->decision[n] = (Decision){.hint = -1, .from = -1, .by_search = true};
    }
    for (int k = 0; chosen->state != NULL && k < g->states.n; k++)
        if (chosen->state[k] != NULL) g->states.at[k].layout = chosen->state[k];
    for (int k = 0; chosen->input != NULL && k < g->inputs.n; k++)
        if (chosen->input[k] != NULL) g->inputs.at[k].layout = chosen->input[k];
}

static void say(Build *b) {
    if (!b->diags->verbose) return;
    Text text = {0};
    search_print(&text, b->front.search);
    diag_note(b->diags, (Span){0}, "search: %s", text.at);
    text_finish(&text);
}

/* Changes the net itself as its fork was changed. */
static void apply_measures(Build *b, const Measures *measures) {
    Error never = {0};
    if (measures->n == 0) return;
    b->front.measures = arena_alloc(b->arena, sizeof *measures);
    *b->front.measures = *measures;
    const bool applied = measures_apply(b, measures, &never);
    assert(applied);
    (void)applied;
}

void taken_apply(Build *b, const Chosen *chosen, const SearchResult *result, const Measures *measures) {
    apply_chosen(b, chosen);
    if (result != NULL) {
        b->front.search = arena_alloc(b->arena, sizeof *b->front.search);
        *b->front.search = *result;
        say(b);
    }
    apply_measures(b, measures);
}

/* The measures, with what each saves and costs with these strategies. */
static Measures weighed(Build *b, const Chosen *chosen, const Measures *measures) {
    Search s = {.b = b};
    Error ignored;
    Measures again = *measures;
    BuildCost cost;
    arena_init(&s.arena);
    Budget *budget = budget_again(with_layouts(&s, &(Found){.chosen = *chosen}), chosen->strategy, measures, &ignored);
    if (budget != NULL) {
        budget_weigh(budget);
        budget_read(budget, &again, &cost);
    }
    budget_end(budget);
    arena_finish(&s.arena);
    return again;
}

bool taken_again(Build *b) {
    const SearchTaken *decision = b->front.decision;
    Graph *g = &b->front.graph;
    Chosen chosen = {0};
    if (decision->nforward != g->nforward || decision->nstates != g->states.n)
        return error_set(&b->error, EXIT_INTERNAL, "a decision of another net");
    if (decision->chosen.strategy != NULL) {
        chosen.strategy = arena_alloc(b->arena, ((size_t)g->nodes.n + 1) * sizeof *chosen.strategy);
        chosen.state = arena_alloc(b->arena, ((size_t)g->states.n + 1) * sizeof *chosen.state);
        chosen.input = arena_alloc(b->arena, ((size_t)g->inputs.n + 1) * sizeof *chosen.input);
        for (int n = 0; n < g->nforward; n++)
            if (decision->chosen.strategy[n] != NULL) chosen.strategy[n] = graph_strategy(g, decision->chosen.strategy[n]);
        for (int k = 0; k < g->states.n; k++)
            if (decision->chosen.state[k] != NULL)
                chosen.state[k] = graph_layout(g, decision->chosen.state[k], &g->states.at[k].type.shape);
        for (int k = 0; k < decision->ninputs && k < g->inputs.n; k++)
            if (decision->chosen.input[k] != NULL)
                chosen.input[k] = graph_layout(g, decision->chosen.input[k], &g->inputs.at[k].type.shape);
    }
    const Measures measures = b->tried || !decision->measures.of_another ? decision->measures : weighed(b, &chosen, &decision->measures);
    taken_apply(b, &chosen, decision->result, &measures);
    return true;
}

/* ---------------------------------------------------------------- for other compilations */

int taken_compiled(const Search *s) {
    int n = 0;
    for (int k = 0; k < s->all.n; k++)
        n += budget_compiled(s->all.at[k].budget);
    return n;
}

/* Whether something was faster that does not fit without measures, be it what is taken itself. */
static bool limit_costs(const Search *s, const BuildCost *taken, int64_t limit) {
    for (int k = 0; k < s->all.n && limit > 0; k++) {
        const BuildCost *bare = &budget_known(s->all.at[k].budget, 0)->cost;
        if (memory_bytes(bare) > limit && bare->step_s < taken->step_s) return true;
    }
    return false;
}

/* Whether something was compiled, with measures or without, that does not fit. */
static bool limit_hides(const Search *s, int64_t limit) {
    for (int c = 0; c < s->all.n && limit > 0; c++) {
        const Budgeted *with;
        for (int k = 0; (with = budget_known(s->all.at[c].budget, k)) != NULL; k++)
            if (memory_bytes(&with->cost) > limit) return true;
    }
    return false;
}

/* A plan that was compiled: with which strategies, and with which measures. */
typedef struct Candidate {
    const Compiled *of;
    const Budgeted *with;
} Candidate;

static int by_bytes(const void *a, const void *b) {
    const BuildCost *x = &((const Candidate *)a)->with->cost, *y = &((const Candidate *)b)->with->cost;
    const int64_t less = memory_bytes(x) - memory_bytes(y);
    if (less != 0) return less < 0 ? -1 : 1;
    return (x->step_s > y->step_s) - (x->step_s < y->step_s);
}

/* The result as if the search had taken this plan; in the build's arena. */
static const SearchResult *result_of(const Search *s, const Candidate *plan, const SearchTaken *taken) {
    const Settings *settings = &s->b->front.graph.settings;
    if (taken->result == NULL) return NULL;
    SearchResult *result = arena_alloc(s->b->arena, sizeof *result);
    *result = *taken->result;
    result->how = plan->of->how;
    result->mesh = plan->of->mesh;
    result->seconds = plan->with->cost.step_s;
    if (measures_hide(settings, &plan->with->measures) != measures_hide(settings, &taken->measures) ||
        measures_share_small(&plan->with->measures) != measures_share_small(&taken->measures))
        result->bound = 0; /* it is of another model */
    return result;
}

/* Notes in `front` the plans that break no more demands than what is taken and are faster than all that need no more memory. */
static void note_front(const Search *s, SearchTaken *taken) {
    Arena scratch;
    VEC(Candidate) all = {0};
    int n = 0;
    arena_init(&scratch);
    for (int c = 0; c < s->all.n; c++) {
        const Budgeted *with;
        for (int k = 0; (with = budget_known(s->all.at[c].budget, k)) != NULL; k++)
            if (with->cost.broken <= taken->cost.broken) vec_push(&scratch, &all, ((Candidate){&s->all.at[c], with}));
    }
    if (all.n > 0) qsort(all.at, (size_t)all.n, sizeof *all.at, by_bytes);
    for (int k = 0; k < all.n; k++)
        if (n == 0 || all.at[k].with->cost.step_s < all.at[n - 1].with->cost.step_s) all.at[n++] = all.at[k];
    taken->front = arena_alloc(s->b->arena, sizeof *taken->front * (size_t)(n + 1));
    taken->nfront = n;
    for (int k = 0; k < n; k++) {
        taken->front[k] = *taken;
        taken->front[k].chosen = all.at[k].of->chosen;
        taken->front[k].measures = all.at[k].with->measures;
        taken->front[k].cost = all.at[k].with->cost;
        taken->front[k].result = result_of(s, &all.at[k], taken);
    }
    arena_finish(&scratch);
}

/* As measured, a node takes as long as 5,000 entries, 14 choices or edges of a model, or a conversion. */
int64_t taken_work(const Search *s) {
    enum { ENTRIES = 5000, MADE = 14 };
    const int nodes = s->b->front.graph.nodes.n + (s->b->eval != NULL ? s->b->eval->front.graph.nodes.n : 0);
    int64_t work = (int64_t)taken_compiled(s) * nodes + s->work / ENTRIES + s->made / MADE;
    for (int k = 0; k < s->pricings.n; k++)
        work += moves_planned(s->pricings.at[k]->moves);
    return work;
}

void taken_note(const Search *s, const Found *found) {
    Build *b = s->b;
    SearchTaken *taken = arena_alloc(b->arena, sizeof *taken);
    *taken = (SearchTaken){.chosen = found->chosen,
                           .nforward = b->front.graph.nforward,
                           .nstates = b->front.graph.states.n,
                           .ninputs = b->front.graph.inputs.n,
                           .measures = found->measures,
                           .result = b->front.search,
                           .cost = found->cost,
                           .limit = budget_limit(b),
                           .work = taken_work(s) - s->apart};
    taken->limit_costs = limit_costs(s, &found->cost, taken->limit);
    taken->limit_hides = limit_hides(s, taken->limit);
    if (taken->limit > 0) note_front(s, taken);
    b->front.decision = taken;
}
