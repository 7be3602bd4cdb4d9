/* improve: the model does not know what overlaps and what is fused, and that decides between solutions that it takes to be about as good. So strategies near the best plan are
 * compiled too (changes.c). The work is bounded by nodes and numbers of tries, and so is the same on any machine. */
#include "compiler/improve.h"

#include <math.h>
#include <stdlib.h>

#include "compiler/changes.h"
#include "compiler/compiler.h"

/* Bounds from one start: nodes of all models solved and of all plans compiled, and how many of these for small nets. */
enum { SOLVED_NODES = 200000, MAX_SOLVED = 512, COMPILED_NODES = 30000, MAX_COMPILED = 48 };
enum { WIDE = 3, CLOSE = 2 }; /* Changes.around: at first, and around the best found by then */
enum { ENOUGH = 125 };        /* a net of which so many changes can be solved is not large */
enum {
    STARTS = 5,
    WHOLE_STARTS = 2,
    START_SOLVED = 120,
    START_COMPILED = 16
};                           /* plans to start from; how many of them with all that work; bounds for the others */
enum { LEAST_WORK = 60000 }; /* taken_work that is allowed in any case */
#define NEARLY 1.1           /* times the limit: a plan near one that needs this much may fit */
#define FAR_START 1.5        /* times the seconds of the best: what takes longer is not worth starting from */
#define WORTH_COMPILING 1.05 /* times the model's seconds of the best */
#define EQUAL 1e-7           /* of the model's seconds: changes that differ by less are taken to be of operators alike in all, */
enum { ALIKE = 3 };          /* and of these so many are compiled */

/* The work allowed from one start. */
typedef struct Effort {
    int around; /* Changes.around */
    int solved, compiled;
} Effort;

typedef struct Local {
    Search *s;
    Effort most;
    int64_t until; /* the search ends at this taken_work */
    Changes changes;
    Found base;     /* the best so far */
    double seconds; /* of the best, in the model */
    int nbetter;    /* how often a change was taken */
    double tried;   /* seconds in the model of the last change tried, */
    int nalike;     /* and how many in a row before it took as long */
    int nsolved, ncompiled;
} Local;

/* Whether `found` is a better start than the best so far: faster, or as fast and sends less. */
static bool is_better(const Search *s, const Found *found, const Found *best) {
    const BuildCost *cost = &found->cost, *base = &best->cost;
    const int order = compare_demands(s, found, best);
    if (!isfinite(cost->step_s) || order != 0) return isfinite(cost->step_s) && order < 0;
    if (cost->step_s * ABOUT_THE_SAME < base->step_s) return true;
    return cost->step_s <= base->step_s * ABOUT_THE_SAME && cost->sent_bytes < base->sent_bytes;
}

static bool is_known(const Search *s, const Found *found) {
    for (int k = 0; k < s->all.n; k++)
        if (chosen_equal(&s->b->front.graph, &s->all.at[k].chosen, &found->chosen)) return true;
    return false;
}

/* Compiles it with the measures of the one that it is near. */
static void compile_near(Local *l, Found *found) {
    Search *s = l->s;
    Error error = {0};
    found->budget = budget_again(with_layouts(s, found), found->chosen.strategy, &l->base.measures, &error);
    found->cost.step_s = INFINITY;
    found->fitted = true;
    l->ncompiled++;
    if (found->budget == NULL) return;
    vec_push(&s->arena, &s->all, ((Compiled){found->budget, l->base.how, l->base.mesh, found->chosen, l->base.nchanges + 1}));
    budget_read(found->budget, &found->measures, &found->cost);
}

static bool may_solve(const Local *l) {
    return l->nsolved < l->most.solved && taken_work(l->s) < l->until;
}

static bool solve_change(Local *l, Change *change) {
    change->beside = l->nbetter;
    if (!may_solve(l)) return false;
    l->nsolved++;
    return change_solve(&l->changes, change, &l->base);
}

static int by_model(const void *a, const void *b) {
    const Change *x = a, *y = b;
    return x->found.seconds != y->found.seconds ? (x->found.seconds > y->found.seconds) - (x->found.seconds < y->found.seconds)
                                                : x->number - y->number;
}

/* Solves as many changes as it may; keeps those that are possible, the model's best first. */
static void solve_changes(Local *l) {
    int n = 0;
    for (int k = 0; k < l->changes.list.n; k++)
        if (solve_change(l, &l->changes.list.at[k])) l->changes.list.at[n++] = l->changes.list.at[k];
    l->changes.list.n = n;
    if (n > 0) qsort(l->changes.list.at, (size_t)n, sizeof *l->changes.list.at, by_model);
    l->most.solved += l->most.solved / 2; /* to solve changes again, beside what is better by then */
}

/* Compiles it. Returns whether it is better than the best so far; then it becomes the best. */
static bool take_better(Local *l, Found found) {
    compile_near(l, &found);
    if (!is_better(l->s, &found, &l->base)) return false;
    found.how = l->base.how, found.mesh = l->base.mesh;
    found.nchanges = l->base.nchanges + 1;
    l->base = found;
    l->seconds = found.seconds;
    l->s->beyond = WORTH * l->seconds;
    l->nbetter++;
    return true;
}

/* Compiles a change. Of those that are alike to the model, such as one of each of many tables, a few are enough. */
static void try_change(Local *l, Change *change) {
    if (change->found.seconds > WORTH_COMPILING * l->seconds) return;
    if (change->beside < l->nbetter && !solve_change(l, change)) return;
    const double seconds = change->found.seconds;
    if (seconds > WORTH_COMPILING * l->seconds || is_known(l->s, &change->found)) return;
    l->nalike = fabs(seconds - l->tried) < EQUAL * seconds ? l->nalike + 1 : 0;
    l->tried = seconds;
    if (l->nalike >= ALIKE) return;
    take_better(l, change->found);
}

/* Tries exchanged axes: to the model both are about as good, and no change leads from one to the other. */
static void try_exchange(Local *l) {
    Found found;
    if (!changes_exchange(&l->changes, &l->base, &found) || found.seconds > WORTH * l->seconds || is_known(l->s, &found)) return;
    if (take_better(l, found)) l->seconds = changes_find(&l->changes, l->s, &l->base, l->most.around);
}

static void local_search(Local *l) {
    l->seconds = changes_find(&l->changes, l->s, &l->base, l->most.around);
    l->s->beyond = WORTH * l->seconds;
    try_exchange(l);
    solve_changes(l);
    for (int k = 0; k < l->changes.list.n && l->ncompiled < l->most.compiled && taken_work(l->s) < l->until; k++)
        try_change(l, &l->changes.list.at[k]);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* False of a pipeline, whose stages are cut after the search, and where nothing nearly fits. */
static bool is_asked(const Search *s, int best) {
    const int64_t limit = budget_limit(s->b);
    if (best < 0 || s->b->front.graph.settings.stages > 1) return false;
    return limit == 0 || (double)memory_bytes(&s->found.at[best].cost) <= NEARLY * (double)limit;
}

/* Searches around a solution, in the model that it is the best of. */
static Local improve_from(Search *s, const Found *found, Effort most, int64_t until) {
    Local l = {.s = s, .most = most, .until = until, .base = *found};
    s->pricing = found->pricing != NULL ? found->pricing : s->as_is;
    local_search(&l);
    s->beyond = 0;
    return l;
}

/* Of the first n solutions that keep the demands as well as the best: the fastest that takes longer than `seconds`. NULL: none is nearly as fast as the best. */
static const Found *next_start(const Search *s, int n, const Found *best, double seconds) {
    const Found *next = NULL;
    for (int k = 0; k < n; k++) {
        const Found *found = &s->found.at[k];
        const double step_s = found->cost.step_s;
        if (found->budget == best->budget) continue;
        if (compare_demands(s, found, best) <= 0 && step_s > seconds && step_s <= FAR_START * best->cost.step_s &&
            (next == NULL || step_s < next->cost.step_s))
            next = found;
    }
    return next;
}

/* The best of what is near one of the best few solutions: what is near another one is often better than all that is near the best. The first few starts get all effort, the others a little. */
static Found from_some(Search *s, const Found *best, const Effort *most, int64_t until) {
    const Effort little = {WIDE, least(START_SOLVED, most->solved), least(START_COMPILED, most->compiled)};
    const int n = s->found.n;
    double seconds = 0;
    const Found *start;
    Found found = improve_from(s, best, *most, until).base;
    for (int k = 1; k < STARTS && (start = next_start(s, n, best, seconds)) != NULL; k++) {
        seconds = start->cost.step_s;
        const Local near = improve_from(s, start, k < WHOLE_STARTS ? *most : little, until);
        if (is_better(s, &near.base, &found)) found = near.base;
    }
    return found;
}

static bool improves_several(const Search *s) {
    return SOLVED_NODES / (s->b->front.graph.nodes.n + 1) >= ENOUGH;
}

bool improves_twice(const Search *s) {
    enum { TWICE_NODES = 2500 };
    return !improves_several(s) && s->b->front.graph.nodes.n <= TWICE_NODES;
}

/* Searches around the best; for nets that are not large around the best few, then nearer around the best by then, since what the model takes to be best around a change is not always so. */
static void look_around(Search *s, Found best) {
    const int nodes = s->b->front.graph.nodes.n + 1;
    const int64_t before = taken_work(s), until = before + LEAST_WORK > AUTO_WORK ? before + LEAST_WORK : AUTO_WORK;
    const Effort most = {WIDE, least(MAX_SOLVED, SOLVED_NODES / nodes), least(MAX_COMPILED, COMPILED_NODES / nodes)},
                 close = {CLOSE, least(MAX_SOLVED, SOLVED_NODES / nodes / 4), most.compiled};
    if (!improves_several(s)) {
        improve_from(s, &best, most, until);
        return;
    }
    best = from_some(s, &best, &most, until);
    improve_from(s, &best, close, until);
}

static Found found_of(const Compiled *of) {
    Found found = {.how = of->how, .mesh = of->mesh, .chosen = of->chosen, .budget = of->budget, .nchanges = of->nchanges, .fitted = true};
    budget_read(of->budget, &found.measures, &found.cost);
    return found;
}

/* The best in time and traffic of the plans that keep the most demands and take at most this part longer than the fastest of these: a solution, or one of the plans compiled after the first so many. */
static Found choose(const Search *s, int best, int first, double tolerance) {
    Found found = s->found.at[best], fastest = found;
    for (int k = first; k < s->all.n; k++) {
        const Found near = found_of(&s->all.at[k]);
        const int order = compare_demands(s, &near, &fastest);
        if (order < 0 || (order == 0 && near.cost.step_s < fastest.cost.step_s)) fastest = near;
    }
    if (compare_demands(s, &fastest, &found) < 0 || found.cost.step_s > (1 + tolerance) * fastest.cost.step_s) found = fastest;
    for (int k = first; k < s->all.n; k++) {
        const Found near = found_of(&s->all.at[k]);
        if (compare_demands(s, &near, &fastest) == 0 && near.cost.step_s <= (1 + tolerance) * fastest.cost.step_s &&
            time_and_traffic(&near.cost) < time_and_traffic(&found.cost))
            found = near;
    }
    return found;
}

/* Adds what was found near a solution, with measures that make it faster. False: it is the solution itself. */
static bool finish(Search *s, Found found) {
    if (found.nchanges == 0) return false;
    budget_weigh(found.budget);
    budget_faster(found.budget);
    budget_read(found.budget, &found.measures, &found.cost);
    vec_push(&s->arena, &s->found, found);
    return true;
}

int improve(Search *s, int best) {
    if (!is_asked(s, best)) return best;
    const Search before = *s;
    const int64_t work = taken_work(s);
    s->behind = BEHIND_HALF;
    s->most = WORTH * s->found.at[best].cost.step_s;
    s->shares_models = true;
    look_around(s, s->found.at[best]);
    s->shares_models = false;
    s->apart += taken_work(s) - work;
    s->pricing = before.pricing, s->behind = before.behind, s->most = before.most;
    const double tolerance = s->b->front.graph.settings.tolerance;
    const Found found = choose(s, best, before.all.n, TOLERANCE_USUAL), other = choose(s, best, before.all.n, tolerance);
    if (tolerance != TOLERANCE_USUAL && other.budget != found.budget) finish(s, other);
    return finish(s, found) ? s->found.n - 1 : best;
}
