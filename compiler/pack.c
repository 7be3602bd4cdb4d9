/* pack: see pack.h. Packs in two ways and takes the one that needs fewer bytes: by time, each buffer in the order of its begin into the hole that it fits best; and by size,
 * the largest first, each at the lowest offset that is free while it is in use. The second needs hardly more than what is in use at once, but its time grows with the square
 * of the number of buffers, so large programs are packed by time alone. */
#include "compiler/pack.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BY_SIZE = 4096 }; /* buffers: 10 ms */

/* ---------------------------------------------------------------- by time */

/* A free part of memory below `top`. The list is sorted by begin; no two parts touch, the last does not reach the top. */
typedef struct Hole {
    int64_t begin, end;
} Hole;

typedef struct Holes {
    Hole *at;
    int n;
    int64_t top, most; /* everything from top on is free; the largest top so far */
} Holes;

static int64_t take(Holes *holes, int64_t bytes) {
    int best = -1;
    for (int i = 0; i < holes->n; i++) {
        const int64_t size = holes->at[i].end - holes->at[i].begin;
        if (size >= bytes && (best < 0 || size < holes->at[best].end - holes->at[best].begin)) best = i;
    }
    int64_t at = holes->top;
    if (best < 0) {
        holes->top += bytes;
        if (holes->top > holes->most) holes->most = holes->top;
        return at;
    }
    at = holes->at[best].begin;
    holes->at[best].begin += bytes;
    if (holes->at[best].begin == holes->at[best].end) {
        holes->n--;
        memmove(holes->at + best, holes->at + best + 1, sizeof *holes->at * (size_t)(holes->n - best));
    }
    return at;
}

static void give(Holes *holes, int64_t begin, int64_t bytes) {
    int low = 0, high = holes->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (holes->at[middle].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(holes->at + low + 1, holes->at + low, sizeof *holes->at * (size_t)(holes->n++ - low));
    holes->at[low] = (Hole){begin, begin + bytes};
    for (int i = low; i >= low - 1 && i >= 0; i--) /* joins with the next one, then with the one before */
        if (i + 1 < holes->n && holes->at[i].end == holes->at[i + 1].begin) {
            holes->at[i].end = holes->at[i + 1].end;
            holes->n--;
            memmove(holes->at + i + 1, holes->at + i + 2, sizeof *holes->at * (size_t)(holes->n - i - 1));
        }
    if (holes->at[holes->n - 1].end == holes->top) holes->top = holes->at[--holes->n].begin;
}

static int by_end(const void *one, const void *other) {
    const Buffer *a = *(const Buffer *const *)one, *b = *(const Buffer *const *)other;
    return a->end != b->end ? (a->end > b->end) - (a->end < b->end) : (a > b) - (a < b);
}

static int64_t pack_by_time(Buffer *buffers, int n, Arena *arena) {
    Holes holes = {.at = arena_alloc(arena, sizeof *holes.at * (size_t)(n + 1))};
    Buffer **dying = arena_alloc(arena, sizeof *dying * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        dying[i] = &buffers[i];
    qsort(dying, (size_t)n, sizeof *dying, by_end);
    for (int i = 0, d = 0; i < n; i++) {
        for (; dying[d]->end < buffers[i].begin; d++)
            if (dying[d]->bytes > 0) give(&holes, dying[d]->at, dying[d]->bytes);
        buffers[i].at = take(&holes, buffers[i].bytes);
    }
    return holes.most;
}

/* ---------------------------------------------------------------- by size */

static int by_size(const void *one, const void *other) {
    const Buffer *a = *(const Buffer *const *)one, *b = *(const Buffer *const *)other;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    const int a_steps = a->end - a->begin, b_steps = b->end - b->begin;
    return a_steps != b_steps ? (a_steps < b_steps ? 1 : -1) : (a > b) - (a < b);
}

/* A buffer that has its place; these lie side by side in memory for the others to look at. */
typedef struct Placed {
    int64_t at, top;
    int begin, end;
} Placed;

/* Stops once it needs `most` bytes, and then returns no less. */
static int64_t pack_by_size(Buffer *buffers, int n, int64_t most, Arena *arena) {
    Buffer **order = arena_alloc(arena, sizeof *order * (size_t)(n + 1));
    Placed *placed = arena_alloc(arena, sizeof *placed * (size_t)(n + 1)); /* those placed so far, by offset */
    int64_t needed = 0;
    for (int i = 0; i < n; i++)
        order[i] = &buffers[i];
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n && needed < most; i++) {
        Buffer *buffer = order[i];
        const int begin = buffer->begin, end = buffer->end;
        const int64_t bytes = buffer->bytes;
        int64_t at = 0;
        for (const Placed *other = placed; other < placed + i; other++) {
            if (other->begin > end || begin > other->end) continue;
            if (other->at - at >= bytes) break;
            if (other->top > at) at = other->top;
        }
        int to = 0;
        for (int end_of = i; to < end_of;) {
            const int middle = (to + end_of) / 2;
            if (placed[middle].at > at)
                end_of = middle;
            else
                to = middle + 1;
        }
        memmove(placed + to + 1, placed + to, sizeof *placed * (size_t)(i - to));
        placed[to] = (Placed){at, at + bytes, begin, end};
        buffer->at = at;
        if (at + bytes > needed) needed = at + bytes;
    }
    return needed;
}

/* The most bytes that are in use at once. */
static int64_t in_use(const Buffer *buffers, int n, Arena *arena) {
    int last = 0;
    for (int i = 0; i < n; i++)
        last = buffers[i].end > last ? buffers[i].end : last;
    int64_t *change = arena_alloc(arena, sizeof *change * ((size_t)last + 2)), now = 0, most = 0;
    for (int i = 0; i < n; i++) {
        change[buffers[i].begin] += buffers[i].bytes;
        change[buffers[i].end + 1] -= buffers[i].bytes;
    }
    for (int step = 0; step <= last; step++) {
        now += change[step];
        most = now > most ? now : most;
    }
    return most;
}

int64_t pack_buffers(Buffer *buffers, int n, Arena *arena) {
    const int64_t bytes = pack_by_time(buffers, n, arena);
    if (n > MOST_BY_SIZE || bytes == in_use(buffers, n, arena)) return bytes;
    Buffer *others = arena_alloc(arena, sizeof *others * (size_t)(n + 1));
    memcpy(others, buffers, sizeof *others * (size_t)n);
    const int64_t tighter = pack_by_size(others, n, bytes, arena);
    if (tighter >= bytes) return bytes;
    memcpy(buffers, others, sizeof *others * (size_t)n);
    return tighter;
}
