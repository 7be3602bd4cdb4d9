#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/search/problems.h"

/* Thousands of small problems of every kind; count: of those with a solution, with none of a finite cost, with none within the limit. */
static void compare(uint64_t first, uint64_t end, bool memory, int *count) {
    for (uint64_t seed = first; seed < end; seed++) {
        Arena arena;
        arena_init(&arena);
        uint64_t random = seed;
        ProblemKind kind = problem_kind_random(&random);
        if (!memory) kind.memory = 0;
        Problem problem;
        problem_random(&problem, &arena, &random, &kind);
        Best best = problem_best(&problem);
        Solution solution;
        problem_solve(&problem, 0, &arena, &solution);
        bool right = solution.fits == isfinite(best.cost) && solution.cost == problem_cost(&problem, solution.choice) &&
                     solution.peak_bytes == problem_peak(&problem, solution.choice) && solution.bound <= best.cost;
        if (solution.fits)
            right = right && solution.cost == best.cost && solution.bound == best.cost;
        else
            right = right && isinf(solution.bound) &&
                    (best.least_peak < 0 || (isfinite(solution.cost) && solution.peak_bytes == best.least_peak));
        count[solution.fits ? 0 : best.least_peak < 0 ? 1 : 2]++;
        if (!right) {
            fprintf(stderr, "seed %llu, %s: best %g, least peak %lld; found %g, bound %g, peak %lld, %s\n", (unsigned long long)seed,
                    problem_shape_name[kind.shape], best.cost, (long long)best.least_peak, solution.cost, solution.bound,
                    (long long)solution.peak_bytes, solution.fits ? "fits" : "does not fit");
            problem_print(stderr, &problem);
        }
        cr_assert(right);
        arena_finish(&arena);
    }
}

Test(solve, is_what_brute_force_finds) {
    int count[3] = {0};
    compare(0, 4000, false, count);
    cr_expect(count[0] > 3000 && count[1] > 100);
}

Test(solve, is_what_brute_force_finds_within_a_limit) {
    int count[3] = {0};
    compare(10000, 16000, true, count);
    cr_expect(count[0] > 3000 && count[1] > 100 && count[2] > 100);
}

/* Where only what costs less than so much is wanted: the best of that, or nothing, and bounds of what there is. */
Test(solve, what_costs_too_much_is_not_looked_for) {
    static const double shares[] = {0.5, 1, 1.000001, 1.05, 2};
    int wanted = 0, none = 0;
    for (uint64_t seed = 20000; seed < 26000; seed++) {
        Arena arena;
        arena_init(&arena);
        uint64_t random = seed;
        ProblemKind kind = problem_kind_random(&random);
        Problem problem;
        problem_random(&problem, &arena, &random, &kind);
        const Best best = problem_best(&problem);
        const double share = shares[random_next(&random) % 5];
        problem.most = isfinite(best.cost) ? share * best.cost : 1 + share;
        if (problem.most == 0) problem.most = 1e-300;
        Solution solution;
        problem_solve(&problem, 0, &arena, &solution);
        cr_assert_leq(solution.bound, best.cost, "seed %llu: bound %g, best %g", (unsigned long long)seed, solution.bound, best.cost);
        if (solution.fits) cr_assert_geq(solution.cost, best.cost);
        if (best.cost < problem.most) {
            cr_assert(solution.fits && solution.cost == best.cost && solution.bound == best.cost, "seed %llu: %g, not %g",
                      (unsigned long long)seed, solution.cost, best.cost);
            wanted++;
        } else {
            cr_assert(solution.fits || solution.bound == problem.most || isinf(best.cost), "seed %llu", (unsigned long long)seed);
            none++;
        }
        arena_finish(&arena);
    }
    cr_expect(wanted > 1000 && none > 1000, "%d and %d", wanted, none);
}

/* Problems of many sizes, too large to try everything, solved with much work and with little: what little finds is a solution, and its bound is one. */
Test(solve, bounds_hold_when_work_ends_early) {
    int exact = 0, gaps = 0, near = 0, solved = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        Arena arena;
        arena_init(&arena);
        uint64_t random = seed;
        ProblemKind kind = problem_kind_random(&random);
        kind.nvariables = 1 + (int)(random_next(&random) % 150);
        kind.most_choices = 1 + (int)(random_next(&random) % 12);
        if (kind.shape == SHAPE_RANDOM) kind.nvariables = 1 + kind.nvariables % 20;
        kind.infinite_percent /= 8;
        Problem problem;
        problem_random(&problem, &arena, &random, &kind);
        Solution much, little, none, again;
        problem_solve(&problem, 1, &arena, &none); /* a bound there is nevertheless, and a solution where reducing leaves nothing */
        problem_solve(&problem, 3000000, &arena, &much);
        problem_solve(&problem, 1 + (int64_t)(random_next(&random) % 300000), &arena, &little);
        double tolerance = 1e-9 * much.cost;
        cr_assert_leq(little.bound, much.fits ? much.cost + tolerance : INFINITY, "seed %llu", (unsigned long long)seed);
        cr_assert_leq(none.bound, much.fits ? much.cost + tolerance : INFINITY, "seed %llu", (unsigned long long)seed);
        near += none.bound >= 0.5 * much.bound;
        solved += none.fits && none.bound == none.cost; /* by what reducing leaves, whatever it took */
        if (little.fits) cr_assert_geq(little.cost, much.bound - tolerance, "seed %llu", (unsigned long long)seed);
        if (much.fits) cr_assert_leq(much.bound, much.cost);
        cr_assert_eq(little.cost, problem_cost(&problem, little.choice));
        cr_assert_eq(little.peak_bytes, problem_peak(&problem, little.choice));
        exact += much.fits && much.bound == much.cost;
        gaps += little.bound < little.cost;
        problem_solve(&problem, 3000000, &arena, &again);
        cr_assert(again.cost == much.cost && again.bound == much.bound && again.work == much.work &&
                  memcmp(again.choice, much.choice, (size_t)problem.variables.n * sizeof(int)) == 0);
        arena_finish(&arena);
    }
    cr_expect(exact > 40 && gaps > 5 && near > 60, "%d exact, %d with a gap, %d near without work", exact, gaps, near);
    cr_expect(solved > 40, "%d solved without work", solved);
}

Test(solve, a_problem_without_variables_costs_nothing) {
    Arena arena;
    arena_init(&arena);
    Solution solution;
    problem_solve(&(Problem){0}, 0, &arena, &solution);
    cr_expect(solution.fits && solution.cost == 0 && solution.bound == 0);
    arena_finish(&arena);
}
