/* map: see map.h. */
#include <string.h>

#include "ir/map.h"

static void place(Map *map, MapSlot slot) {
    size_t at = map_begin(map, slot.hash);
    while (map->at[at].number)
        at = (at + 1) & (map->cap - 1);
    map->at[at] = slot;
}

void map_add(Arena *arena, Map *map, uint64_t hash, int number) {
    if (2 * (map->n + 1) > map->cap) {
        const Map old = *map;
        map->cap = old.cap ? 2 * old.cap : 64;
        map->at = arena_alloc(arena, map->cap * sizeof *map->at);
        for (size_t i = 0; i < old.cap; i++)
            if (old.at[i].number) place(map, old.at[i]);
    }
    place(map, (MapSlot){hash, number + 1});
    map->n++;
}

void map_fork(Arena *arena, Map *map) {
    const Map old = *map;
    if (old.cap == 0) return;
    map->at = arena_alloc(arena, map->cap * sizeof *map->at);
    memcpy(map->at, old.at, old.cap * sizeof *old.at);
}
