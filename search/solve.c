/* solve: problem_solve. */
#include "search/solve.h"

#include <math.h>
#include <string.h>

enum { WORK_DEFAULT = 1 << 28 };

Known *known_create(Arena *arena) {
    Known *known = arena_alloc(arena, sizeof *known);
    known->tables.arena = arena;
    return known;
}

bool search_problem(Search *s, int64_t work_end, double *bound) {
    Arena arena;
    arena_init(&arena);
    Known *known = s->problem->known != NULL ? s->problem->known : known_create(&arena);
    Core core;
    int64_t *outer = known->tables.work;
    known->tables.work = &s->work;
    core_init(&core, s->problem, known, &arena);
    if (s->problem->most > 0) core_drop(&core, s->problem->most);
    *bound = 0;
    bool whole = search_core(s, &core, NULL, work_end, SEARCH_WHOLE, bound);
    const double most = s->problem->most > 0 ? s->problem->most : INFINITY;
    if (whole) *bound = most;
    if (s->found && *bound > s->cost) *bound = s->cost;
    known->tables.work = outer;
    arena_finish(&arena);
    return whole;
}

/* Where nothing was found within the limit: finds the choices with the least peak that so much work finds, and of those with that peak the
 * cheapest. Bisects between a limit at which there are none and one at which there are some. */
static void search_nearest(const Problem *problem, int64_t work_end, Search *s) {
    Problem relaxed = *problem;
    Search near = *s;
    near.problem = &relaxed;
    near.any = true;
    relaxed.limit_bytes = 0;
    double bound;
    search_problem(&near, near.work + (work_end - near.work) / 4, &bound);
    int64_t low = problem->limit_bytes, high = problem_peak(problem, near.choice);
    for (int round = 0; near.found && low + 1 < high && near.work < work_end; round++) {
        relaxed.limit_bytes = low + (high - low) / 2;
        near.found = false;
        search_problem(&near, near.work + (work_end - near.work) / 8, &bound);
        if (near.found)
            high = problem_peak(problem, near.choice);
        else
            low = relaxed.limit_bytes;
        near.found = true;
    }
    relaxed.limit_bytes = high;
    near.any = false;
    near.cost = problem_cost(problem, near.choice);
    if (near.found) search_problem(&near, work_end, &bound);
    s->work = near.work;
}

void problem_solve(const Problem *problem, int64_t work_limit, Arena *arena, Solution *solution) {
    if (work_limit == 0) work_limit = WORK_DEFAULT;
    Search s = {.problem = problem, .choice = arena_alloc(arena, (size_t)problem->variables.n * sizeof(int))};
    s.base = s.choice;
    double bound;
    search_problem(&s, work_limit, &bound);
    const bool nearest = !s.found && problem->most == 0;
    if (nearest) search_nearest(problem, s.work + work_limit / 2, &s);
    *solution = (Solution){.choice = s.choice,
                           .cost = problem_cost(problem, s.choice),
                           .bound = bound,
                           .peak_bytes = problem_peak(problem, s.choice),
                           .work = s.work};
    solution->fits =
        (s.found || nearest) && isfinite(solution->cost) && (problem->limit_bytes == 0 || solution->peak_bytes <= problem->limit_bytes);
}
