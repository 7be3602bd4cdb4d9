#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "search/solve.h"
#include "tests/search/problems.h"

/* From any solution that fits, blocks lead to one that is no worse, mostly far better, and fits. */
Test(neighbourhood, makes_solutions_better) {
    int ntried = 0, nbetter = 0, nbest = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        Arena arena;
        arena_init(&arena);
        uint64_t random = seed;
        ProblemKind kind = problem_kind_random(&random);
        kind.nvariables = 20, kind.most_choices = 3, kind.infinite_percent = 0;
        if (kind.memory < 0) kind.memory = 50;
        if (kind.shape == SHAPE_RANDOM) kind.shape = SHAPE_GRID;
        Problem problem;
        problem_random(&problem, &arena, &random, &kind);
        Solution best;
        problem_solve(&problem, 0, &arena, &best);
        Search s = {.problem = &problem, .choice = arena_alloc(&arena, (size_t)problem.variables.n * sizeof(int))};
        s.base = s.choice;
        Known known = {.tables = {.arena = &arena, .work = &s.work}};
        Core core;
        core_init(&core, &problem, &known, &arena);
        int *least = arena_alloc(&arena, (size_t)core.n * sizeof *least); /* of bytes */
        double **regret = arena_alloc(&arena, (size_t)core.n * sizeof *regret);
        for (int v = 0; v < core.n; v++) {
            regret[v] = arena_alloc(&arena, (size_t)core.spot[v].n * sizeof **regret);
            for (int c = 1; c < core.spot[v].n && core.spot[v].bytes; c++)
                if (core.spot[v].bytes[c] < core.spot[v].bytes[least[v]]) least[v] = c;
        }
        bool found = search_take(&s, &core, least, false);
        if (seed % 2) core_reduce(&core); /* which leaves other choices, and may replace some of the solution's */
        bool left = false;
        for (int v = 0; v < core.n; v++)
            left |= !core.spot[v].gone;
        if (found && left) {
            double before = s.cost;
            Dual *dual = dual_create(&core, &arena);
            neighbourhood_search(&s, &core, dual, regret, s.work + 1000000);
            cr_assert(s.cost <= before && s.cost >= best.bound && s.cost == problem_cost(&problem, s.choice));
            cr_assert(problem.limit_bytes == 0 || problem_peak(&problem, s.choice) <= problem.limit_bytes);
            ntried++, nbetter += s.cost < before, nbest += s.cost == best.cost;
        }
        arena_finish(&arena);
    }
    cr_expect(ntried > 150 && nbetter > 0.8 * ntried && nbest > 0.9 * ntried, "%d, %d better, %d best", ntried, nbetter, nbest);
}
