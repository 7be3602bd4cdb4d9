#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "search/solve.h"
#include "tests/search/problems.h"

static int below(uint64_t *random, int n) {
    return (int)(random_next(random) % (uint64_t)n);
}

/* Any choices of a block cost, and hold, what they do within the whole. */
Test(core, a_part_of_a_problem_costs_and_holds_what_it_does_in_the_whole) {
    int limited = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        RandomCore it;
        core_random(&it, seed, NULL);
        const Core *core = &it.core;
        Arena *arena = &it.arena;
        Core sub;
        size_t ints = (size_t)core->n * sizeof(int);
        int *choice = arena_alloc(arena, ints), *block = arena_alloc(arena, ints), *part = arena_alloc(arena, ints), n = 0;
        bool **keep = arena_alloc(arena, (size_t)core->n * sizeof *keep);
        for (int v = 0; v < core->n; v++) {
            choice[v] = below(&it.random, core->spot[v].n);
            if (below(&it.random, 2)) block[n++] = v;
            keep[v] = arena_alloc(arena, (size_t)core->spot[v].n);
            keep[v][below(&it.random, core->spot[v].n)] = true;
            for (int c = 0; c < core->spot[v].n; c++)
                keep[v][c] |= below(&it.random, 2);
        }
        core_sub(&sub, core, block, n, choice, keep, &it.known.tables, arena);
        for (int i = 0; i < n; i++) {
            part[i] = below(&it.random, sub.spot[i].n);
            choice[block[i]] = sub.spot[i].origin[part[i]];
            cr_assert(keep[block[i]][choice[block[i]]]);
        }
        int64_t *used = arena_alloc(arena, ((size_t)core->ntimes + 1) * sizeof *used);
        double cost = core_cost(core, choice);
        cr_assert(core_cost(&sub, part) == cost && cost == problem_cost(&it.problem, choice), "seed %llu", (unsigned long long)seed);
        int64_t over = core_over(core, choice, used);
        cr_assert_eq(core_over(&sub, part, used), over, "seed %llu", (unsigned long long)seed);
        int64_t beyond = it.problem.limit_bytes ? problem_peak(&it.problem, choice) - it.problem.limit_bytes : 0;
        cr_assert_eq(over, beyond > 0 ? beyond : 0, "seed %llu", (unsigned long long)seed);
        limited += over > 0;
        int *result = arena_alloc(arena, ints), *again = arena_alloc(arena, ints);
        memcpy(result, choice, ints);
        core_expand(&sub, part, result);
        cr_assert_eq(memcmp(result, choice, ints), 0);
        core_contract(&sub, result, again);
        cr_assert_eq(memcmp(again, part, (size_t)n * sizeof *part), 0);
        arena_finish(&it.arena);
    }
    cr_expect_gt(limited, 100);
}
