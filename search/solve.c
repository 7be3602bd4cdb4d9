/* solve: problem_solve. */
#include "search/solve.h"

#include <math.h>

enum { WORK_DEFAULT = 1 << 28 };

static double bound_of_minima(const Core *core) {
    double bound = 0;
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        double least = INFINITY;
        for (int c = 0; c < spot->n; c++)
            if (spot->cost->at[c] < least) least = spot->cost->at[c];
        bound += least;
    }
    return bound;
}

void problem_solve(const Problem *problem, int64_t work_limit, Arena *arena, Solution *solution) {
    if (work_limit == 0) work_limit = WORK_DEFAULT;
    Arena scratch;
    arena_init(&scratch);
    Core core;
    core_init(&core, problem, &scratch);
    int *all = arena_alloc(&scratch, (size_t)core.n * sizeof *all), *choice = arena_alloc(arena, (size_t)core.n * sizeof *choice);
    for (int v = 0; v < core.n; v++)
        all[v] = v;
    *solution = (Solution){.choice = choice, .work = core.tables.work};
    bool exact = block_eliminate(&core, all, core.n, NULL, work_limit, choice, &solution->work);
    for (bool better = !exact; better && solution->work < work_limit;) { /* one after another to its best */
        double cost = core_cost(&core, choice);
        for (int v = 0; v < core.n; v++)
            block_eliminate(&core, &all[v], 1, NULL, work_limit, choice, &solution->work);
        better = core_cost(&core, choice) < cost;
    }
    solution->cost = problem_cost(problem, choice);
    solution->bound = exact ? solution->cost : bound_of_minima(&core);
    solution->peak_bytes = problem_peak(problem, choice);
    solution->fits = isfinite(solution->cost) && (problem->limit_bytes == 0 || solution->peak_bytes <= problem->limit_bytes);
    arena_finish(&scratch);
}
