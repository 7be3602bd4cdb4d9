/* A map finds what was added, under equal hashes too, and a fork is its own. */
#include <criterion/criterion.h>

#include "ir/map.h"

/* Whether number is among those with this hash. */
static bool has(const Map *map, uint64_t hash, int number) {
    map_each(map, hash, at) if (at == number) return true;
    return false;
}

static int count(const Map *map, uint64_t hash) {
    int n = 0;
    map_each(map, hash, at) n += at >= 0;
    return n;
}

Test(map, finds_what_was_added_as_it_grows) {
    Arena arena;
    Map map = {0};
    arena_init(&arena);
    cr_assert_eq(count(&map, 7), 0);
    for (int i = 0; i < 1000; i++)
        map_add(&arena, &map, (uint64_t)i * 0x9E3779B97F4A7C15u, i);
    cr_assert_eq(map.n, 1000);
    for (int i = 0; i < 1000; i++)
        cr_assert(has(&map, (uint64_t)i * 0x9E3779B97F4A7C15u, i) && count(&map, (uint64_t)i * 0x9E3779B97F4A7C15u) == 1, "%d", i);
    cr_assert_eq(count(&map, 7), 0);
    arena_finish(&arena);
}

Test(map, a_cleared_map_is_empty_and_takes_numbers_again) {
    Arena arena;
    Map map = {0};
    arena_init(&arena);
    map_clear(&map);
    for (int i = 0; i < 100; i++)
        map_add(&arena, &map, 5, i);
    map_clear(&map);
    cr_assert_eq(map.n, 0);
    cr_assert_eq(count(&map, 5), 0);
    map_add(&arena, &map, 5, 7);
    cr_assert(has(&map, 5, 7) && count(&map, 5) == 1);
    arena_finish(&arena);
}

Test(map, keeps_numbers_of_one_hash_apart_from_those_of_one_slot) {
    Arena arena;
    Map map = {0};
    arena_init(&arena);
    for (int i = 0; i < 300; i++)
        map_add(&arena, &map, i % 2 ? 5 : 5 + ((uint64_t)1 << 20), i);
    cr_assert_eq(count(&map, 5), 150);
    for (int i = 0; i < 300; i++)
        cr_assert_eq(has(&map, 5, i), i % 2 == 1, "%d", i);
    arena_finish(&arena);
}

Test(map, a_fork_grows_by_itself) {
    Arena arena;
    Map map = {0};
    arena_init(&arena);
    map_add(&arena, &map, 1, 0);
    Map fork = map;
    map_fork(&arena, &fork);
    map_add(&arena, &fork, 2, 1);
    cr_assert(has(&fork, 1, 0) && has(&fork, 2, 1));
    cr_assert(has(&map, 1, 0) && !has(&map, 2, 1));
    arena_finish(&arena);
}
