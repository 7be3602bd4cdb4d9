#include <criterion/criterion.h>
#include <stdlib.h>

#include "compiler/pack.h"
#include "tests/random.h"

static int64_t below(uint64_t *state, int n) {
    return n == 0 ? 0 : (int64_t)(random_next(state) % (uint64_t)n);
}

static bool together(const Buffer *a, const Buffer *b) {
    return a->begin <= b->end && b->begin <= a->end;
}

/* No two buffers in use at one time overlap, all lie within `bytes`; what is in use at once at most. */
static int64_t checked(const Buffer *buffers, int n, int64_t bytes, unsigned seed) {
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        int64_t used = 0;
        cr_assert(buffers[i].at >= 0 && buffers[i].at + buffers[i].bytes <= bytes, "seed %u: buffer %d", seed, i);
        for (int k = 0; k < n; k++) {
            const Buffer *a = &buffers[i], *b = &buffers[k];
            if (b->begin <= a->begin && a->begin <= b->end) used += b->bytes;
            cr_assert(i == k || !together(a, b) || a->at + a->bytes <= b->at || b->at + b->bytes <= a->at, "seed %u: buffers %d and %d",
                      seed, i, k);
        }
        most = used > most ? used : most;
    }
    return most;
}

/* As they come: begins ascend. Lives are nested, as activations that the backward pass reads, or any. */
static void random_buffers(Buffer *buffers, int n, uint64_t *state) {
    const bool nested = below(state, 2);
    for (int i = 0, at = 0; i < n; i++) {
        at += (int)below(state, 3);
        const int life = (int)below(state, below(state, 4) ? 6 : 2 * n);
        buffers[i] = (Buffer){
            .begin = at, .end = nested && life > 6 ? 4 * n - at : at + life, .bytes = 64 * (1 + below(state, below(state, 3) ? 4 : 100))};
    }
}

Test(pack, blocks_in_use_at_one_time_never_overlap_and_take_little_more_than_is_in_use) {
    double sum = 0, used = 0;
    for (unsigned seed = 1; seed <= 300; seed++) {
        Arena arena;
        Buffer buffers[80];
        uint64_t state = seed;
        const int n = (int)below(&state, 80);
        arena_init(&arena);
        random_buffers(buffers, n, &state);
        const int64_t bytes = pack_buffers(buffers, n, &arena), least = checked(buffers, n, bytes, seed);
        cr_assert_geq(bytes, least);
        sum += (double)bytes;
        used += (double)least;
        arena_finish(&arena);
    }
    cr_expect_lt(sum / used, 1.05, "%.3f of what is in use", sum / used);
}

Test(pack, a_large_block_does_not_wait_behind_small_ones) {
    Arena arena;
    arena_init(&arena);
    Buffer buffers[] = {{.begin = 0, .end = 1, .bytes = 128}, {.begin = 1, .end = 4, .bytes = 64}, {.begin = 2, .end = 5, .bytes = 256}};
    cr_expect_eq(pack_buffers(buffers, 3, &arena), 320); /* by time: 128, 64 behind it, 256 behind that */
    checked(buffers, 3, 320, 0);
    arena_finish(&arena);
}

Test(pack, thousands_of_blocks_are_packed_by_time) {
    enum { N = 6000 };
    Arena arena;
    uint64_t state = 1;
    Buffer *buffers = malloc(sizeof *buffers * N);
    arena_init(&arena);
    random_buffers(buffers, N, &state);
    checked(buffers, N, pack_buffers(buffers, N, &arena), 1);
    arena_finish(&arena);
    free(buffers);
}
