/* improve: what the model does not know, that is what runs behind what and what is fused, decides between solutions that it takes to be about as good. So strategies near the best
 * plan are compiled too (changes.c). What is done is bounded by nodes and numbers of tries, and so is the same on any machine. */
#include "compiler/improve.h"

#include <math.h>
#include <stdlib.h>

#include "compiler/changes.h"
#include "compiler/compiler.h"

/* Nodes of all that is solved, and of what is compiled from one solution on; of small nets so many, from one on. */
enum { SOLVED_NODES = 200000, MAX_SOLVED = 512, COMPILED_NODES = 30000, MAX_COMPILED = 48 };
enum { WIDE = 3, CLOSE = 2 }; /* operators around a change that follow: at first, and around what is best by then */
enum { ENOUGH = 200 };        /* changes: a net with work for so many is not large */
#define NEXT_BEST 1.3         /* times the seconds of the best: of a solution from which on it is worth going, too */
#define WORTH_COMPILING 1.03  /* times the model's seconds of the best */

typedef struct Local {
    Search *s;
    int around; /* Changes */
    Changes changes;
    Found base;     /* the best so far */
    double seconds; /* of it in the model */
    double fastest; /* of a step, of all that keep to as much as it does */
    int nbetter;    /* how often a change was taken */
    int nsolved, ncompiled;
    int most_solved, most_compiled;
} Local;

static double both(const BuildCost *cost) {
    return cost->step_s * ((double)cost->sent_bytes + 1);
}

/* Whether a solution of auto takes no more and sends no more. */
static bool is_dominated(const Search *s, const Found *found) {
    for (int k = 0; k < s->found.n; k++) {
        const Found *other = &s->found.at[k];
        if (compare_demands(s, other, found) <= 0 && other->cost.step_s <= found->cost.step_s &&
            other->cost.sent_bytes <= found->cost.sent_bytes)
            return true;
    }
    return false;
}

/* Whether it is better than the best so far: much faster; or about as fast as the fastest, where seconds and bytes together are less. */
static bool is_better(const Local *l, const Found *found) {
    const BuildCost *cost = &found->cost, *base = &l->base.cost;
    const int order = compare_demands(l->s, found, &l->base);
    if (!isfinite(cost->step_s) || order != 0) return isfinite(cost->step_s) && order < 0;
    if (cost->step_s * ABOUT < base->step_s) return true;
    return cost->step_s <= l->fastest * ABOUT && both(cost) < both(base) && !is_dominated(l->s, found);
}

static bool is_known(const Search *s, const Found *found) {
    for (int k = 0; k < s->found.n; k++)
        if (chosen_equal(&s->b->front.graph, &s->found.at[k].chosen, &found->chosen)) return true;
    return false;
}

/* With the measures of the one that it is near to. */
static void compile_near(Local *l, Found *found) {
    Search *s = l->s;
    Error error = {0};
    found->budget = budget_again(with_layouts(s, found), found->chosen.strategy, &l->base.measures, &error);
    found->cost.step_s = INFINITY;
    found->fitted = true;
    l->ncompiled++;
    if (found->budget == NULL) return;
    vec_push(&s->arena, &s->all, ((Compiled){found->budget, l->base.how, l->base.mesh, found->chosen}));
    budget_read(found->budget, &found->measures, &found->cost);
    if (compare_demands(s, found, &l->base) <= 0) l->fastest = fmin(l->fastest, found->cost.step_s);
}

static bool solve_change(Local *l, Change *change) {
    change->beside = l->nbetter;
    if (l->nsolved == l->most_solved) return false;
    l->nsolved++;
    return change_solve(&l->changes, change, &l->base);
}

static int by_model(const void *a, const void *b) {
    const Change *x = a, *y = b;
    return x->found.seconds != y->found.seconds ? (x->found.seconds > y->found.seconds) - (x->found.seconds < y->found.seconds)
                                                : x->number - y->number;
}

/* Those that can be, as many as there is work for: the best of the model first. */
static void solve_changes(Local *l) {
    int n = 0;
    for (int k = 0; k < l->changes.list.n; k++)
        if (solve_change(l, &l->changes.list.at[k])) l->changes.list.at[n++] = l->changes.list.at[k];
    l->changes.list.n = n;
    if (n > 0) qsort(l->changes.list.at, (size_t)n, sizeof *l->changes.list.at, by_model);
    l->most_solved += l->most_solved / 2; /* beside what is better by then */
}

/* Compiles it. Whether it is better than the best so far, and is that now. */
static bool take_better(Local *l, Found found) {
    compile_near(l, &found);
    if (!is_better(l, &found)) return false;
    found.how = l->base.how, found.mesh = l->base.mesh;
    found.nchanges = l->base.nchanges + 1;
    l->base = found;
    l->seconds = found.seconds;
    l->nbetter++;
    return true;
}

static void try_change(Local *l, Change *change) {
    if (change->found.seconds > WORTH_COMPILING * l->seconds) return;
    if (change->beside < l->nbetter && !solve_change(l, change)) return;
    if (change->found.seconds > WORTH_COMPILING * l->seconds || is_known(l->s, &change->found)) return;
    take_better(l, change->found);
}

/* The model takes both to be about as good, and no change leads from one to the other. */
static void try_exchange(Local *l) {
    Found found;
    if (!changes_exchange(&l->changes, &l->base, &found) || found.seconds > WORTH * l->seconds || is_known(l->s, &found)) return;
    if (take_better(l, found)) l->seconds = changes_find(&l->changes, l->s, &l->base, l->around);
}

static void local_search(Local *l) {
    l->seconds = changes_find(&l->changes, l->s, &l->base, l->around);
    try_exchange(l);
    solve_changes(l);
    for (int k = 0; k < l->changes.list.n && l->ncompiled < l->most_compiled; k++)
        try_change(l, &l->changes.list.at[k]);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Not of a pipeline, whose stages the cuts make behind the search, nor where nothing fits, nor of one search of many (micro.c). */
static bool is_asked(const Search *s, int best) {
    const int64_t limit = budget_limit(s->b);
    if (best < 0 || s->b->front.graph.settings.stages > 1 || s->b->front.aim_bytes > 0) return false;
    return limit == 0 || memory_bytes(&s->found.at[best].cost) <= limit;
}

static double fastest_of(const Search *s, const Found *base) {
    double fastest = base->cost.step_s;
    for (int k = 0; k < s->found.n; k++)
        if (compare_demands(s, &s->found.at[k], base) <= 0) fastest = fmin(fastest, s->found.at[k].cost.step_s);
    return fastest;
}

/* Goes on from a solution, with so many changes to solve. */
static Local improve_from(Search *s, const Found *found, int around, int most_solved) {
    Local l = {.s = s,
               .around = around,
               .base = *found,
               .fastest = fastest_of(s, found),
               .most_solved = least(MAX_SOLVED, most_solved),
               .most_compiled = least(MAX_COMPILED, COMPILED_NODES / (s->b->front.graph.nodes.n + 1))};
    local_search(&l);
    return l;
}

/* The fastest of the others that keep to as much as the best and cost something else; NULL: none is nearly as fast. */
static const Found *next_best(const Search *s, int best) {
    const Found *first = &s->found.at[best], *next = NULL;
    for (int k = 0; k < s->found.n; k++) {
        const Found *found = &s->found.at[k];
        if (compare_demands(s, found, first) > 0 || both(&found->cost) == both(&first->cost)) continue;
        if (found->cost.step_s <= NEXT_BEST * first->cost.step_s && (next == NULL || found->cost.step_s < next->cost.step_s)) next = found;
    }
    return next;
}

/* From the best on. Of nets that are not large, where there is work left, from the next best too: what is near one is often better than all that is near the other. Then from what is best of all, with less around it: what the
 * model takes to follow best is not always. */
static Found improve_some(Search *s, int best) {
    const int most = SOLVED_NODES / (s->b->front.graph.nodes.n + 1);
    Local first = improve_from(s, &s->found.at[best], WIDE, most);
    if (most < ENOUGH) return first.base;
    const Found *next = most > first.nsolved ? next_best(s, best) : NULL;
    if (next != NULL) {
        const Local second = improve_from(s, next, WIDE, most - first.nsolved);
        first.fastest = fmin(first.fastest, second.base.cost.step_s);
        if (second.nbetter > 0 && is_better(&first, &second.base)) first.base = second.base;
    }
    return improve_from(s, &first.base, CLOSE, most / 4).base;
}

int improve(Search *s, int best) {
    if (!is_asked(s, best)) return best;
    const Search before = *s;
    const int64_t work = taken_work(s);
    s->machine = s->b->options->machine, s->moves = s->moves_as_is; /* not of those that are joined */
    s->behind = BEHIND_HALF;
    s->most = WORTH * s->found.at[best].cost.step_s;
    s->shares_models = true;
    Found found = improve_some(s, best);
    s->shares_models = false;
    s->apart += taken_work(s) - work;
    s->machine = before.machine, s->moves = before.moves, s->behind = before.behind, s->most = before.most;
    if (found.nchanges == 0) return best;
    budget_weigh(found.budget);
    budget_read(found.budget, &found.measures, &found.cost);
    vec_push(&s->arena, &s->found, found);
    return s->found.n - 1;
}
