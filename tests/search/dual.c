#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "search/solve.h"
#include "tests/search/problems.h"

/* The least cost with each choice forced: [variable][choice]. */
static double **forced(const Problem *problem, Arena *arena) {
    int n = problem->variables.n, *choice = arena_alloc(arena, (size_t)n * sizeof *choice);
    double **least = arena_alloc(arena, (size_t)n * sizeof *least);
    for (int v = 0; v < n; v++) {
        least[v] = arena_alloc(arena, (size_t)problem->variables.at[v].nchoices * sizeof **least);
        for (int c = 0; c < problem->variables.at[v].nchoices; c++)
            least[v][c] = INFINITY;
    }
    for (int v = 0; v < n;) {
        double cost = problem_cost(problem, choice);
        if (isfinite(cost) && (problem->limit_bytes == 0 || problem_peak(problem, choice) <= problem->limit_bytes))
            for (int u = 0; u < n; u++)
                if (cost < least[u][choice[u]]) least[u][choice[u]] = cost;
        for (v = 0; v < n && ++choice[v] == problem->variables.at[v].nchoices; v++)
            choice[v] = 0;
    }
    return least;
}

/* How near the bounds come to the best: without a limit, and where a limit makes the best cost more. */
static double closeness[2];
static int count[2];

static void check(uint64_t seed) {
    Arena arena;
    arena_init(&arena);
    uint64_t random = seed;
    int64_t work = 0;
    ProblemKind kind = problem_kind_random(&random);
    kind.infinite_percent /= 4;
    Problem problem;
    problem_random(&problem, &arena, &random, &kind);
    double best = problem_best(&problem).cost, **least = forced(&problem, &arena);
    Known known = {.tables = {.arena = &arena, .work = &work}};
    Core core;
    core_init(&core, &problem, &known, &arena);
    core_times(&core, arena_alloc(&arena, (size_t)core.n));
    bool empty = core.impossible;
    for (int v = 0; v < core.n; v++) { /* what core_reduce takes out first, and a dual may count on */
        for (int c = 0; c < core.spot[v].n; c++)
            empty |= isinf(core.spot[v].cost->at[c]);
        for (int k = 0; k < core.spot[v].links.n; k++)
            for (int c = 0; c < core.spot[v].n; c++)
                empty |= isinf(-table_excess(&known.tables, core.spot[v].links.at[k].table)[c * core.spot[v].n + c]);
    }
    if (!empty && isfinite(best)) {
        Dual *dual = dual_create(&core, &arena), *warm = dual_create(&core, &arena);
        double tolerance = 1e-9 * best;
        for (int pass = 0; pass < 40; pass++) {
            dual_pass(dual);
            cr_assert_leq(dual->bound, best + tolerance, "seed %llu, pass %d", (unsigned long long)seed, pass);
        }
        Problem unlimited = problem;
        unlimited.limit_bytes = 0;
        bool dearer = best > problem_best(&unlimited).cost;
        if (best > 0) closeness[dearer] += dual->bound / best, count[dearer]++;
        double **regret = arena_alloc(&arena, (size_t)core.n * sizeof *regret);
        for (int v = 0; v < core.n; v++)
            regret[v] = arena_alloc(&arena, (size_t)core.spot[v].n * sizeof **regret);
        double before = -INFINITY;
        for (int round = 0; round < 2; round++) {
            double bound = dual_regret(round ? warm : dual, regret);
            cr_assert_geq(bound, before - tolerance); /* what was reached is not lost */
            before = bound;
            for (int v = 0; v < core.n; v++)
                for (int c = 0; c < core.spot[v].n; c++)
                    cr_assert_leq(bound + regret[v][c], least[v][core.spot[v].origin[c]] + tolerance, "seed %llu, choice %d of %d",
                                  (unsigned long long)seed, c, v);
            dual_warm(warm, dual);
        }
    }
    arena_finish(&arena);
}

Test(dual, bounds_every_solution_and_every_choice) {
    enum { N = 3000 };
    for (uint64_t seed = 0; seed < N; seed++)
        check(seed);
    cr_expect(count[0] > 500 && closeness[0] > 0.995 * count[0]);
    cr_expect(count[1] > 100 && closeness[1] > 0.98 * count[1]);
}
