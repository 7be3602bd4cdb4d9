/* branch: searches for the best choices of a core. Each step leaves a smaller core, which is searched in turn: without the choices that the bound excludes, with only
 * the most likely ones (a dive, which finds good solutions), or with the choice of one spot made (so that the search ends). */
#include "search/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ENTRIES = 1 << 24, /* of tables that elimination may look at, and hold in memory */
    WINDOW = 16,            /* passes after which the bound must be better */
    WINDOW_PRICES = 64,     /* the same, while prices move */
    LATE_WORK = 1 << 26,    /* for a bound when all other work is used up */
};
#define ROUNDING 1e-12

/* The cost from which on solutions are not looked for. */
static double cutoff(const Search *s) {
    if (s->found && s->any) return -INFINITY;
    const double most = s->problem->most > 0 ? s->problem->most : INFINITY;
    return s->found && s->cost < most ? s->cost * (1 - ROUNDING) : most;
}

bool search_take(Search *s, const Core *core, const int *choice, bool equal) {
    Arena scratch;
    arena_init(&scratch);
    int n = s->problem->variables.n, *result = arena_alloc(&scratch, (size_t)n * sizeof *result);
    if (n) memcpy(result, s->base, (size_t)n * sizeof *result);
    core_expand(core, choice, result);
    for (const Core *outer = core->outer; outer; outer = outer->outer)
        core_expand(outer, NULL, result);
    double cost = problem_cost(s->problem, result);
    s->work += n + s->problem->edges.n;
    bool better = isfinite(cost) && (!s->found || cost < s->cost || (equal && cost <= s->cost * (1 + ROUNDING))) &&
                  (s->problem->limit_bytes == 0 || problem_peak(s->problem, result) <= s->problem->limit_bytes);
    if (better) {
        s->found = true, s->cost = cost;
        memcpy(s->choice, result, (size_t)n * sizeof *result);
    }
    arena_finish(&scratch);
    return better;
}

/* What is left of a core, and what its dual says of it. */
typedef struct Stage {
    Search *s;
    Core *core;
    Arena arena;
    int *live, n;     /* spots that are not gone */
    int most;         /* choices of a spot */
    int64_t nchoices; /* of all of them */
    int *choice;      /* per spot of the core */
    Dual *dual;
    double **regret; /* per spot of the core */
    double bound;    /* to which regrets are added */
    bool **keep;     /* per spot of the core */
} Stage;

static void stage_init(Stage *stage, Search *s, Core *core) {
    *stage = (Stage){.s = s, .core = core};
    arena_init(&stage->arena);
    stage->live = arena_alloc(&stage->arena, (size_t)core->n * sizeof *stage->live);
    stage->choice = arena_alloc(&stage->arena, (size_t)core->n * sizeof *stage->choice);
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone) continue;
        stage->live[stage->n++] = v;
        stage->nchoices += spot->n;
        if (spot->n > stage->most) stage->most = spot->n;
    }
    stage->regret = arena_alloc(&stage->arena, (size_t)core->n * sizeof *stage->regret);
    stage->keep = arena_alloc(&stage->arena, (size_t)core->n * sizeof *stage->keep);
}

/* Eliminates all that is left, if it holds no bytes and that looks at no more than 1 / part of the entries allowed. False: not done. */
static bool stage_eliminate(Stage *stage, int64_t work_end, int part) {
    Search *s = stage->s;
    int64_t most = (work_end - s->work) / part;
    if (most > MOST_ENTRIES) most = MOST_ENTRIES;
    for (int i = 0; i < stage->n; i++)
        if (stage->core->spot[stage->live[i]].bytes) return false;
    if (!block_eliminate(stage->core, stage->live, stage->n, most, stage->choice, &s->work)) return false;
    search_take(s, stage->core, stage->choice, false);
    return true;
}

/* Runs passes of the dual until the bound gains little more. True: it excludes everything. */
static bool stage_bound(Stage *stage, const Dual *warm, int64_t work_end) {
    Search *s = stage->s;
    Dual *dual = stage->dual = dual_create(stage->core, &stage->arena);
    if (warm) dual_warm(dual, warm);
    double before = -INFINITY;
    int window = stage->core->ntimes && !warm ? WINDOW_PRICES : WINDOW;
    for (int pass = 1; s->work < work_end; pass++) {
        dual_pass(dual);
        if (dual->over == 0 && (!s->found || dual->cost < s->cost)) search_take(s, stage->core, dual->choice, false);
        if (dual->bound >= cutoff(s)) return true;
        if (pass % window) continue;
        double gain = dual->bound - before, gap = s->found ? s->cost - dual->bound : 0;
        if (pass > window && (gain <= 1e-6 * window * fabs(dual->bound) || gain < 0.02 * gap)) break;
        before = dual->bound;
    }
    for (int i = 0; i < stage->n; i++) {
        int v = stage->live[i];
        stage->regret[v] = arena_alloc(&stage->arena, (size_t)stage->core->spot[v].n * sizeof(double));
        stage->keep[v] = arena_alloc(&stage->arena, (size_t)stage->core->spot[v].n);
    }
    stage->bound = dual_regret(dual, stage->regret);
    return dual->bound >= cutoff(s);
}

/* Keeps the choices with at most so much regret, and the one with the least of each spot. Returns how many. */
static int64_t stage_keep(Stage *stage, double most) {
    int64_t kept = 0;
    for (int i = 0; i < stage->n; i++) {
        int v = stage->live[i];
        for (int c = 0; c < stage->core->spot[v].n; c++)
            kept += stage->keep[v][c] = stage->regret[v][c] <= most || stage->regret[v][c] == 0;
    }
    return kept;
}

/* Searches what is kept. */
static bool stage_descend(Stage *stage, int64_t work_end, SearchMode mode, double *bound) {
    Arena arena;
    arena_init(&arena);
    Tables tables = {.arena = &arena, .work = &stage->s->work};
    Core sub;
    core_sub(&sub, stage->core, stage->live, stage->n, stage->choice, stage->keep, &tables, &arena);
    bool whole = search_core(stage->s, &sub, stage->dual, work_end, mode, bound);
    arena_finish(&arena);
    return whole;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Looks for solutions among the most likely choices, first among few: that there are none is found quickly then. */
static void stage_dive(Stage *stage, int64_t work_end, SearchMode mode) {
    static const double share[] = {0.3, 0.6, 0.85};
    Search *s = stage->s;
    double *at = arena_alloc(&stage->arena, (size_t)stage->nchoices * sizeof *at), before = s->found ? s->cost : INFINITY;
    int64_t n = 0;
    for (int i = 0; i < stage->n; i++)
        for (int c = 0; c < stage->core->spot[stage->live[i]].n; c++)
            if (stage->regret[stage->live[i]][c] > 0) at[n++] = stage->regret[stage->live[i]][c];
    qsort(at, (size_t)n, sizeof *at, by_value);
    for (int i = 0; i < 3 && n > 0 && s->work < work_end; i++) {
        stage_keep(stage, at[(int64_t)((double)(n - 1) * share[i])]);
        stage_descend(stage, s->work + (work_end - s->work) / 2, mode, NULL);
        if (s->found && s->cost < before) return;
    }
}

/* Marks the spots of links that cost infinity, and those that hold bytes at times over the room. Returns how many. */
static int stage_conflicts(const Stage *stage, const int *choice, int *depth, Arena *arena) {
    const Core *core = stage->core;
    int n = 0;
    int64_t *used = arena_alloc(arena, ((size_t)core->ntimes + 1) * sizeof *used);
    bool over = core_over(core, choice, used) > 0;
    for (int i = 0; i < stage->n; i++) {
        int v = stage->live[i];
        const Spot *spot = &core->spot[v];
        bool conflict = false;
        for (int k = 0; k < spot->links.n && !conflict; k++)
            conflict = isinf(spot->links.at[k].table->at[choice[v] * spot->links.at[k].table->ncolumns + choice[spot->links.at[k].to]]);
        for (int time = spot->begin; over && spot->bytes && spot->bytes[choice[v]] > 0 && time < spot->end && !conflict; time++)
            conflict = used[time] > core->room[time];
        depth[v] = conflict ? 0 : -1;
        n += conflict;
    }
    return n;
}

/* Repairs what does not fit in the choices of the dual's last pass: around it all choices are open, farther off none; ever wider. */
static void stage_repair(Stage *stage, int64_t work_end) {
    enum { HUB = 50 };
    Search *s = stage->s;
    const Core *core = stage->core;
    size_t n = (size_t)s->problem->variables.n;
    int *choice = arena_alloc(&stage->arena, (size_t)core->n * sizeof *choice),
        *depth = arena_alloc(&stage->arena, (size_t)core->n * sizeof *depth);
    int *block = arena_alloc(&stage->arena, (size_t)core->n * sizeof *block), *base = arena_alloc(&stage->arena, n * sizeof *base),
        *outer_base = s->base;
    memcpy(choice, stage->dual->choice, (size_t)core->n * sizeof *choice);
    memcpy(base, s->base, n * sizeof *base);
    core_expand(core, choice, base);
    if (stage_conflicts(stage, choice, depth, &stage->arena) == 0) return;
    double before = s->found ? s->cost : INFINITY;
    for (int radius = 1; s->work < work_end; radius++) {
        int size = 0;
        for (int i = 0; i < stage->n; i++) {
            const Spot *spot = &core->spot[stage->live[i]];
            if (depth[stage->live[i]] != radius - 1 || (spot->links.n > HUB && radius > 1)) continue;
            for (int k = 0; k < spot->links.n; k++)
                if (depth[spot->links.at[k].to] < 0) depth[spot->links.at[k].to] = radius;
        }
        for (int i = 0; i < stage->n; i++)
            if (depth[stage->live[i]] >= 0) block[size++] = stage->live[i];
        if (size > 0.8 * stage->n) break;
        Arena arena;
        arena_init(&arena);
        Tables tables = {.arena = &arena, .work = &s->work};
        Core sub;
        core_sub(&sub, core, block, size, choice, NULL, &tables, &arena);
        s->base = base;
        search_core(s, &sub, stage->dual, s->work + (work_end - s->work) / 4, SEARCH_DIVE, NULL);
        s->base = outer_base;
        arena_finish(&arena);
        if (s->found && s->cost < before) break;
    }
}

/* Finds a solution by prices, and searches between it and the cheaper one that does not fit: each spot chooses as in one of the two. */
static void stage_priced(Stage *stage, int64_t work_end) {
    Search *s = stage->s;
    size_t n = (size_t)s->problem->variables.n;
    int *result[2] = {arena_alloc(&stage->arena, n * sizeof(int)), arena_alloc(&stage->arena, n * sizeof(int))};
    if (!search_priced(s, stage->dual, s->work + (work_end - s->work) / 2, result[0])) return;
    memcpy(result[1], s->choice, n * sizeof(int));
    for (int i = 0; i < stage->n; i++)
        memset(stage->keep[stage->live[i]], 0, (size_t)stage->core->spot[stage->live[i]].n);
    for (int k = 0; k < 2; k++) {
        core_contract(stage->core, result[k], stage->choice);
        for (int i = 0; i < stage->n; i++)
            stage->keep[stage->live[i]][stage->choice[stage->live[i]]] = true;
    }
    stage_descend(stage, work_end, SEARCH_WHOLE, NULL);
}

/* The spot that the bound is surest of, so that all but one of its branches end soon; of equal ones that with most links. */
static int stage_pick(const Stage *stage) {
    int best = -1;
    double best_margin = -1;
    for (int i = 0; i < stage->n; i++) {
        int v = stage->live[i];
        const Spot *spot = &stage->core->spot[v];
        double least = INFINITY, second = INFINITY;
        for (int c = 0; c < spot->n; c++) {
            double regret = stage->regret[v][c];
            if (regret < least)
                second = least, least = regret;
            else if (regret < second)
                second = regret;
        }
        if (best >= 0 && (second < best_margin || (second == best_margin && spot->links.n <= stage->core->spot[best].links.n))) continue;
        best = v, best_margin = second;
    }
    return best;
}

static bool stage_branch(Stage *stage, int64_t work_end, SearchMode mode) {
    int v = stage_pick(stage);
    const Spot *spot = &stage->core->spot[v];
    bool *tried = arena_alloc(&stage->arena, (size_t)spot->n), whole = true;
    stage_keep(stage, INFINITY);
    for (int i = 0; i < spot->n; i++) {
        int next = -1;
        for (int c = 0; c < spot->n; c++)
            if (!tried[c] && (next < 0 || stage->regret[v][c] < stage->regret[v][next])) next = c;
        tried[next] = true;
        if (stage->bound + stage->regret[v][next] >= cutoff(stage->s)) return whole; /* the others have more regret */
        for (int c = 0; c < spot->n; c++)
            stage->keep[v][c] = c == next;
        if (!stage_descend(stage, work_end, mode, NULL)) whole = false;
        if (mode == SEARCH_DIVE && stage->s->found) return false;
    }
    return whole;
}

bool search_core(Search *s, Core *core, const Dual *warm, int64_t work_end, SearchMode mode, double *bound) {
    core_reduce(core);
    if (core->impossible || core->constant >= cutoff(s)) return true;
    const bool late = s->work >= work_end;
    if (late && (bound == NULL || core->outer != NULL)) return false;
    Stage stage;
    stage_init(&stage, s, core);
    bool whole = !late || stage.n == 0;
    if (stage.n == 0) {
        search_take(s, core, stage.choice, false);
        goto done;
    }
    if (late) { /* reducing the problem used up all work: a bound is made nevertheless */
        stage_bound(&stage, warm, s->work + LATE_WORK);
        *bound = stage.dual->bound;
        goto done;
    }
    if (stage_eliminate(&stage, work_end, 4) || stage_bound(&stage, warm, work_end)) goto done;
    if (bound && stage.dual->bound > *bound) *bound = stage.dual->bound;
    if (stage_eliminate(&stage, work_end, 1)) goto done;
    for (bool again = true, priced = false; again && s->work < work_end;) {
        again = false;
        double before = s->found ? s->cost : INFINITY;
        double room = cutoff(s) - stage.bound;
        if (room <= 0) goto done;
        if ((double)stage_keep(&stage, room) < 0.9 * (double)stage.nchoices) {
            whole = stage_descend(&stage, work_end, mode, bound);
            goto done;
        }
        if (stage.n < 16 || mode == SEARCH_BLOCK) break;
        if (core->ntimes > 0 && core->outer == NULL && !s->any && !priced) {
            priced = again = true;
            stage_priced(&stage, s->work + (work_end - s->work) / 2);
            continue;
        }
        if (!s->found || mode == SEARCH_DIVE) stage_repair(&stage, s->work + (work_end - s->work) / 4);
        if (mode == SEARCH_WHOLE || !s->found || s->cost >= before) stage_dive(&stage, s->work + (work_end - s->work) / 4, SEARCH_DIVE);
        again = s->found && s->cost < before;
        if (mode == SEARCH_DIVE) {
            whole = false;
            goto done;
        }
        if (again || !s->found) continue;
        if (neighbourhood_search(s, core, stage.dual, stage.regret, s->work + (work_end - s->work) / 2)) goto done;
        again = s->cost < before;
    }
    whole = s->work < work_end && stage_branch(&stage, work_end, mode);
done:
    arena_finish(&stage.arena);
    return whole;
}
