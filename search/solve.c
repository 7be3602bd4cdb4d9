/* solve: problem_solve. */
#include "search/solve.h"

#include <math.h>

enum { WORK_DEFAULT = 1 << 28 };

void problem_solve(const Problem *problem, int64_t work_limit, Arena *arena, Solution *solution) {
    if (work_limit == 0) work_limit = WORK_DEFAULT;
    Arena scratch;
    arena_init(&scratch);
    Search s = {.problem = problem, .choice = arena_alloc(arena, (size_t)problem->variables.n * sizeof(int))};
    Tables tables = {.arena = &scratch, .work = &s.work};
    Core core;
    core_init(&core, problem, &tables, &scratch);
    double bound = 0;
    if (search_core(&s, &core, NULL, work_limit, SEARCH_WHOLE, &bound)) bound = s.found ? s.cost : INFINITY;
    *solution = (Solution){.choice = s.choice, .fits = s.found, .work = s.work};
    solution->cost = problem_cost(problem, s.choice);
    solution->bound = s.found && bound > s.cost ? s.cost : bound;
    solution->peak_bytes = problem_peak(problem, s.choice);
    arena_finish(&scratch);
}
