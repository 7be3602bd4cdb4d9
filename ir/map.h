/* map: a hash table from keys to numbers from 0, such as places in the array that has the keys. The owner of the map compares the keys:
 *     map_each (&map, hash, number)
 *         if (strcmp(names.at[number], name) == 0) return number;
 */
#pragma once
#include <string.h>

#include "ir/base.h"

typedef struct MapSlot {
    uint64_t hash;
    int number; /* + 1; 0: free */
} MapSlot;

/* Open addressing, at most half full. Zeroed: empty. */
typedef struct Map {
    MapSlot *at;
    size_t n, cap; /* cap: a power of two, or 0 */
} Map;
void map_add(Arena *arena, Map *map, uint64_t hash, int number);
void map_fork(Arena *arena, Map *map); /* gives a copied struct a table of its own */

/* Mixes one more word into a hash. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

/* FNV-1a; hash_more: with one more byte. */
static inline uint64_t hash_more(uint64_t hash, unsigned char byte) {
    return (hash ^ byte) * 0x100000001b3u;
}
static inline uint64_t hash_bytes(const void *at, size_t n) {
    const unsigned char *byte = at;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = hash_more(hash, byte[i]);
    return hash;
}

static inline void map_clear(Map *map) {
    if (map->cap) memset(map->at, 0, map->cap * sizeof *map->at);
    map->n = 0;
}
static inline size_t map_begin(const Map *map, uint64_t hash) {
    return map->cap ? (size_t)(hash ^ hash >> 32) & (map->cap - 1) : 0;
}
/* The next number with this hash from slot *at on; moves *at past it. -1: there is none. */
static inline int map_next(const Map *map, uint64_t hash, size_t *at) {
    while (map->cap && map->at[*at].number) {
        const MapSlot *slot = &map->at[*at];
        *at = (*at + 1) & (map->cap - 1);
        if (slot->hash == hash) return slot->number - 1;
    }
    return -1;
}
/* Iterates over the numbers that were added with a hash; nothing may be added meanwhile. */
#define map_each(map, key, item)                                                                                                           \
    for (size_t map_at = map_begin((map), (key)), map_once = 1; map_once; map_once = 0)                                                    \
        for (int item = map_next((map), (key), &map_at); item >= 0; item = map_next((map), (key), &map_at))
