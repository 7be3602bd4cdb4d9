#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "search/solve.h"
#include "tests/search/problems.h"

/* Random blocks of random problems, beside trying all choices of the block. */
Test(eliminate, finds_the_best_choices_of_a_block) {
    for (uint64_t seed = 0; seed < 4000; seed++) {
        RandomCore it;
        uint64_t kind_seed = seed;
        ProblemKind kind = problem_kind_random(&kind_seed);
        kind.memory = 0;
        core_random(&it, seed, &kind);
        const Core *core = &it.core;
        Arena *arena = &it.arena;
        size_t ints = (size_t)core->n * sizeof(int);
        int *choice = arena_alloc(arena, ints), *other = arena_alloc(arena, ints), *block = arena_alloc(arena, ints), n = 0;
        for (int v = 0; v < core->n; v++) {
            choice[v] = (int)(random_next(&it.random) % (uint64_t)core->spot[v].n);
            if (random_next(&it.random) % 3) block[n++] = v;
        }
        memcpy(other, choice, ints);
        double least = INFINITY;
        for (int i = 0; i < n; i++)
            other[block[i]] = 0;
        for (int i = 0; i < n || n == 0;) {
            double cost = core_cost(core, other);
            if (cost < least) least = cost;
            if (n == 0) break;
            for (i = 0; i < n && ++other[block[i]] == core->spot[block[i]].n; i++)
                other[block[i]] = 0;
        }
        int *before = arena_alloc(arena, ints);
        memcpy(before, choice, ints);
        cr_assert(!block_eliminate(core, block, n, 0, choice, &it.work) || n == 0);
        cr_assert_eq(memcmp(before, choice, ints), 0); /* nothing is done beyond the limit */
        cr_assert(block_eliminate(core, block, n, INT64_MAX / 2, choice, &it.work));
        cr_assert_eq(core_cost(core, choice), least, "seed %llu", (unsigned long long)seed);
        for (int v = 0, i = 0; v < core->n; v++)
            if (i < n && block[i] == v)
                i++;
            else
                cr_assert_eq(choice[v], before[v]);
        arena_finish(&it.arena);
    }
}

/* Layers that share their tables cost little more when there are ten times as many: then almost all that is looked at are the costs of the spots alone. */
Test(eliminate, equal_layers_are_eliminated_once) {
    int64_t entries[2] = {0};
    for (int i = 0; i < 2; i++) {
        RandomCore it;
        core_random(&it, 5, &(ProblemKind){.shape = SHAPE_LAYERS, .nvariables = i ? 4000 : 400, .most_choices = 12, .largest = 1000});
        const Core *core = &it.core;
        int *all = arena_alloc(&it.arena, (size_t)core->n * sizeof *all),
            *choice = arena_alloc(&it.arena, (size_t)core->n * sizeof *choice);
        for (int v = 0; v < core->n; v++)
            all[v] = v, entries[i] -= 1 + core->spot[v].n;
        cr_assert(block_eliminate(core, all, core->n, 1 << 24, choice, &entries[i]));
        arena_finish(&it.arena);
    }
    cr_expect_lt(entries[1], 2 * entries[0]);
}
