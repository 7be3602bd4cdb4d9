/* neighbourhood: improves a solution block by block, each as exactly as the work for it allows (large-neighbourhood search, Shaw 1998). */
#include "search/solve.h"

#include <math.h>
#include <string.h>

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 (Steele, Lea, Flood 2014) */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

typedef struct Blocks {
    Search *s;
    const Core *core;
    int *choice; /* of the best solution */
    int *live, n;
    int *odd, nodd; /* spots whose choice is not that of the least regret */
    int *mark;      /* per spot: of the last block that it was in */
    int *block, size;
} Blocks;

/* Sets b->choice to the best solution. False: this core does not have it. */
static bool blocks_contract(Blocks *b, double *const *regret) {
    core_contract(b->core, b->s->choice, b->choice);
    if (!search_take(b->s, b->core, b->choice, true)) return false;
    b->nodd = 0;
    for (int i = 0; i < b->n; i++)
        if (regret[b->live[i]][b->choice[b->live[i]]] > 0) b->odd[b->nodd++] = b->live[i];
    return true;
}

/* Makes a block of the spots nearest to a random one, found breadth first, in ascending order. */
static void block_grow(Blocks *b, int number, int size) {
    uint64_t *random = &b->s->random;
    bool odd = number % 2 && b->nodd > 0;
    int first = odd ? b->odd[next_random(random) % (uint64_t)b->nodd] : b->live[next_random(random) % (uint64_t)b->n];
    b->size = 0;
    b->block[b->size++] = first;
    b->mark[first] = number;
    for (int i = 0; i < b->size; i++) {
        const Spot *spot = &b->core->spot[b->block[i]];
        int turn = (int)(next_random(random) % (uint64_t)(spot->links.n + 1)), most = 4 + size / 8; /* not all of a hub */
        for (int k = 0; k < spot->links.n && k < most && b->size < size; k++) {
            int to = spot->links.at[(k + turn) % spot->links.n].to;
            if (b->mark[to] == number) continue;
            b->mark[to] = number;
            b->block[b->size++] = to;
        }
    }
    int n = 0;
    for (int i = 0; i < b->n; i++)
        if (b->mark[b->live[i]] == number) b->block[n++] = b->live[i];
}

bool neighbourhood_search(Search *s, const Core *core, const Dual *dual, double *const *regret, int64_t work_end) {
    Arena arena;
    arena_init(&arena);
    size_t ints = (size_t)core->n * sizeof(int);
    Blocks b = {.s = s,
                .core = core,
                .choice = arena_alloc(&arena, ints),
                .live = arena_alloc(&arena, ints),
                .odd = arena_alloc(&arena, ints),
                .mark = arena_alloc(&arena, ints),
                .block = arena_alloc(&arena, ints)};
    for (int v = 0; v < core->n; v++)
        if (!core->spot[v].gone) b.live[b.n++] = v;
    bool all = false, known = b.n > 0 && blocks_contract(&b, regret);
    double size = 12;
    for (int number = 1, idle = 0; known && !all && s->work < work_end && idle < 40 + 4 * b.n / (int)size; number++) {
        block_grow(&b, number, size < b.n ? (int)size : b.n);
        Arena scratch;
        arena_init(&scratch);
        Tables tables = {.arena = &scratch, .work = &s->work};
        Core sub;
        double before = s->cost;
        core_sub(&sub, core, b.block, b.size, b.choice, NULL, &tables, &scratch);
        s->work += b.n;
        int64_t work = 2000000;
        bool whole = search_core(s, &sub, dual, s->work + work < work_end ? s->work + work : work_end, SEARCH_BLOCK, NULL);
        all = whole && b.size == b.n;
        size *= whole ? 1.2 : 0.75;
        if (size < 6) size = 6;
        if (size > 4.0 * b.n) size = 4.0 * b.n;
        idle++;
        if (s->cost < before) {
            known = blocks_contract(&b, regret);
            idle = 0;
        }
        arena_finish(&scratch);
    }
    arena_finish(&arena);
    return all;
}
