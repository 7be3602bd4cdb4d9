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
