#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "search/solve.h"
#include "tests/search/problems.h"

/* The best choices of what is left of a core, by trying all. */
static double core_best(const Core *core, int *best) {
    Arena arena;
    arena_init(&arena);
    int *choice = arena_alloc(&arena, (size_t)core->n * sizeof *choice);
    int64_t *used = arena_alloc(&arena, ((size_t)core->ntimes + 1) * sizeof *used);
    double least = INFINITY;
    for (int v = 0; v < core->n;) {
        double cost = core_cost(core, choice);
        if (cost < least && core_over(core, choice, used) == 0) {
            least = cost;
            memcpy(best, choice, (size_t)core->n * sizeof *best);
        }
        for (v = 0; v < core->n && (core->spot[v].gone || ++choice[v] == core->spot[v].n); v++)
            choice[v] = 0;
    }
    arena_finish(&arena);
    return least;
}

static void compare(bool times_only, uint64_t first, uint64_t end) {
    int smaller = 0;
    for (uint64_t seed = first; seed < end; seed++) {
        RandomCore it;
        core_random(&it, seed, NULL);
        Core *core = &it.core;
        const Problem *problem = &it.problem;
        double best = problem_best(problem).cost;
        if (times_only)
            core_times(core, arena_alloc(&it.arena, (size_t)core->n));
        else
            core_reduce(core);
        int *choice = arena_alloc(&it.arena, (size_t)core->n * sizeof *choice),
            *result = arena_alloc(&it.arena, (size_t)core->n * sizeof *result);
        double left = core->impossible ? INFINITY : core_best(core, choice);
        bool right = left == best;
        if (isfinite(left)) {
            core_expand(core, choice, result);
            right = right && problem_cost(problem, result) == best &&
                    (problem->limit_bytes == 0 || problem_peak(problem, result) <= problem->limit_bytes);
        }
        if (!right) {
            fprintf(stderr, "seed %llu: best %g, of what is left %g\n", (unsigned long long)seed, best, left);
            problem_print(stderr, problem);
        }
        cr_assert(right);
        for (int v = 0; v < core->n; v++)
            smaller += core->spot[v].gone || core->spot[v].n < problem->variables.at[v].nchoices;
        arena_finish(&it.arena);
    }
    cr_expect(smaller > 100);
}

Test(dominance, keeps_the_optimum) {
    compare(false, 0, 4000);
}

Test(dominance, times_that_are_dropped_do_not_matter) {
    compare(true, 4000, 8000);
}

/* A choice that costs no more but holds more does not replace another one. */
Test(dominance, a_choice_that_holds_more_bytes_replaces_none) {
    Arena arena;
    arena_init(&arena);
    static const double cost[] = {1, 2};
    static const int64_t more[] = {8, 4}, less[] = {4, 8};
    for (int same = 0; same < 2; same++) {
        Problem problem = {.limit_bytes = 12};
        vec_push(&arena, &problem.variables, (Variable){2, cost, same ? less : more, 0, 2});
        vec_push(&arena, &problem.variables, (Variable){2, cost, more, 1, 3});
        int64_t work = 0;
        Known known = {.tables = {.arena = &arena, .work = &work}};
        Core core;
        core_init(&core, &problem, &known, &arena);
        core_reduce(&core);
        cr_expect_eq(core.spot[0].gone, same);
    }
    arena_finish(&arena);
}
