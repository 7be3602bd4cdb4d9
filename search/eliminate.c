/* eliminate: a block of spots solved exactly, one after another eliminated (Bertele and Brioschi 1972; bucket elimination, Dechter 1999). What a spot costs at the
 * least is a table over the spots that it was linked with, which are linked with each other from then on. */
#include "search/heap.h"
#include "search/solve.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_SCOPE = 24 }; /* spots of a table: with two choices each, more entries than anything may look at */

/* A table over some spots of the block. The last one is eliminated first, and its choices lie side by side. */
typedef struct Factor {
    int n;
    const int *scope; /* places in the block, in the reverse of the order of elimination */
    const double *at;
} Factor;

typedef struct Bucket {
    VEC(int) near;       /* places in the block that are linked with it and are not eliminated, ascending */
    VEC(Factor) factors; /* whose first spot to be eliminated this is */
    double *cost;        /* per choice: its own, and of links out of the block */
    int rank;            /* in the order of elimination */
    Factor best;         /* at: none; scope: those that its choice depends on, without itself */
    uint16_t *choice;    /* per entry of best */
} Bucket;

typedef struct Elimination {
    Arena arena;
    const Core *core;
    const int *block;
    int n;
    int *place; /* of a spot in the block; -1: not in it */
    Bucket *bucket;
    int *order;
} Elimination;

static double entries_of(const Elimination *e, int i) {
    double entries = e->core->spot[e->block[i]].n;
    for (int k = 0; k < e->bucket[i].near.n; k++)
        entries *= e->core->spot[e->block[e->bucket[i].near.at[k]]].n;
    return entries;
}

static void near_remove(Bucket *bucket, int place) {
    int k = 0;
    while (bucket->near.at[k] != place)
        k++;
    memmove(&bucket->near.at[k], &bucket->near.at[k + 1], (size_t)(bucket->near.n - k - 1) * sizeof(int));
    bucket->near.n--;
}

static void near_add(Arena *arena, Bucket *bucket, int place) {
    int k = 0;
    while (k < bucket->near.n && bucket->near.at[k] < place)
        k++;
    if (k < bucket->near.n && bucket->near.at[k] == place) return;
    vec_push(arena, &bucket->near, place);
    memmove(&bucket->near.at[k + 1], &bucket->near.at[k], (size_t)(bucket->near.n - k - 1) * sizeof(int));
    bucket->near.at[k] = place;
}

/* The order of elimination: always the spot with the smallest table. The entries of all tables, or -1: more than the limit. */
static double eliminate_order(Elimination *e, double limit) {
    Heap heap = {0};
    for (int i = 0; i < e->n; i++)
        heap_push(&e->arena, &heap, (HeapItem){entries_of(e, i), 0, i});
    double *current = arena_alloc(&e->arena, (size_t)e->n * sizeof *current), total = 0;
    for (int i = 0; i < e->n; i++)
        current[i] = entries_of(e, i), e->bucket[i].rank = -1;
    for (int rank = 0; rank < e->n;) {
        HeapItem next = heap_pop(&heap);
        Bucket *bucket = &e->bucket[next.number];
        if (bucket->rank >= 0 || next.key != current[next.number]) continue;
        total += next.key;
        if (total > limit || bucket->near.n > MAX_SCOPE) return -1;
        bucket->rank = rank;
        e->order[rank++] = next.number;
        for (int k = 0; k < bucket->near.n; k++) {
            int other = bucket->near.at[k];
            near_remove(&e->bucket[other], next.number);
            for (int l = 0; l < bucket->near.n; l++)
                if (l != k) near_add(&e->arena, &e->bucket[other], bucket->near.at[l]);
        }
        for (int k = 0; k < bucket->near.n; k++) {
            int other = bucket->near.at[k];
            double entries = entries_of(e, other);
            if (entries == current[other]) continue;
            current[other] = entries;
            heap_push(&e->arena, &heap, (HeapItem){entries, 0, other});
        }
    }
    return total;
}

/* Where the tables of a bucket are read for one entry of its result: each moves on by a step for each spot of the result. */
typedef struct Reader {
    const double *at;
    int64_t step[MAX_SCOPE]; /* per spot of the result */
    int depth;               /* spots of the result up to the last on which it depends */
} Reader;

static Reader reader_of(const Elimination *e, const Factor *factor, const Factor *result) {
    Reader reader = {.at = factor->at};
    int64_t step = 1;
    for (int k = factor->n - 1; k >= 0; k--) {
        for (int d = 0; d < result->n; d++) {
            if (result->scope[d] != factor->scope[k]) continue;
            reader.step[d] = step;
            if (d + 1 > reader.depth) reader.depth = d + 1;
        }
        step *= e->core->spot[e->block[factor->scope[k]]].n;
    }
    return reader;
}

/* sum[depth] is what the tables up to that depth cost for each choice: an entry adds only those that depend on what has changed. */
static void bucket_minimise(Elimination *e, Bucket *bucket, int n, double *out) {
    const Factor *best = &bucket->best;
    int digit[MAX_SCOPE] = {0}, size[MAX_SCOPE];
    for (int d = 0; d < best->n; d++)
        size[d] = e->core->spot[e->block[best->scope[d]]].n;
    Reader *reader = arena_alloc(&e->arena, (size_t)bucket->factors.n * sizeof *reader);
    int begin[MAX_SCOPE + 2] = {0}, nreaders = 0;
    for (int depth = 0; depth <= best->n; depth++) { /* in the order of depth */
        begin[depth] = nreaders;
        for (int f = 0; f < bucket->factors.n; f++) {
            Reader one = reader_of(e, &bucket->factors.at[f], best);
            if (one.depth == depth) reader[nreaders++] = one;
        }
    }
    begin[best->n + 1] = nreaders;
    double *sum = arena_alloc(&e->arena, (size_t)(best->n + 2) * (size_t)n * sizeof *sum);
    memcpy(sum, bucket->cost, (size_t)n * sizeof *sum);
    int depth = 0;
    for (size_t entry = 0;; entry++) {
        for (; depth <= best->n; depth++) {
            double *to = sum + (size_t)(depth + 1) * (size_t)n;
            memcpy(to, to - n, (size_t)n * sizeof *to);
            for (int f = begin[depth]; f < begin[depth + 1]; f++)
                for (int i = 0; i < n; i++)
                    to[i] += reader[f].at[i];
        }
        const double *whole = sum + (size_t)(best->n + 1) * (size_t)n;
        int least = 0;
        for (int i = 1; i < n; i++)
            if (whole[i] < whole[least]) least = i;
        bucket->choice[entry] = (uint16_t)least;
        out[entry] = whole[least];
        int d = best->n - 1;
        for (; d >= 0; d--) { /* the next entry */
            bool carry = ++digit[d] == size[d];
            for (int f = begin[d + 1]; f < nreaders; f++)
                reader[f].at += carry ? -reader[f].step[d] * (size[d] - 1) : reader[f].step[d];
            if (!carry) break;
            digit[d] = 0;
        }
        if (d < 0) return;
        depth = d + 1;
    }
}

static void bucket_eliminate(Elimination *e, int i) {
    Bucket *bucket = &e->bucket[i];
    int n = e->core->spot[e->block[i]].n, scope = bucket->near.n;
    /* Sorted by rank, the last to be eliminated first. */
    int *by_rank = arena_alloc(&e->arena, (size_t)(scope + 1) * sizeof *by_rank);
    size_t entries = 1;
    for (int k = 0; k < scope; k++) {
        int j = k, other = bucket->near.at[k];
        entries *= (size_t)e->core->spot[e->block[other]].n;
        for (; j > 0 && e->bucket[by_rank[j - 1]].rank < e->bucket[other].rank; j--)
            by_rank[j] = by_rank[j - 1];
        by_rank[j] = other;
    }
    double *out = arena_alloc(&e->arena, entries * sizeof *out);
    bucket->choice = arena_alloc(&e->arena, entries * sizeof *bucket->choice);
    bucket->best = (Factor){scope, by_rank, out};
    bucket_minimise(e, bucket, n, out);
    for (int f = 0; f < bucket->factors.n; f++)
        arena_release(&e->arena, bucket->factors.at[f].at);
    if (scope > 0) vec_push(&e->arena, &e->bucket[by_rank[scope - 1]].factors, bucket->best);
}

/* The costs of spots alone, and the links between them. */
static void block_gather(Elimination *e, const double *price, const int *choice) {
    for (int i = 0; i < e->n; i++) {
        const Spot *spot = &e->core->spot[e->block[i]];
        Bucket *bucket = &e->bucket[i];
        bucket->cost = arena_alloc(&e->arena, (size_t)spot->n * sizeof *bucket->cost);
        memcpy(bucket->cost, spot->cost->at, (size_t)spot->n * sizeof *bucket->cost);
        for (int c = 0; c < spot->n && price && spot->bytes; c++)
            bucket->cost[c] += price[i] * (double)spot->bytes[c];
        for (int k = 0; k < spot->links.n; k++) {
            const Link *link = &spot->links.at[k];
            if (e->place[link->to] >= 0)
                near_add(&e->arena, bucket, e->place[link->to]);
            else
                for (int c = 0; c < spot->n; c++)
                    bucket->cost[c] += link->table->at[c * link->table->ncolumns + choice[link->to]];
        }
    }
}

static void block_links(Elimination *e) {
    for (int i = 0; i < e->n; i++) {
        const Spot *spot = &e->core->spot[e->block[i]];
        for (int k = 0; k < spot->links.n; k++) {
            const Link *link = &spot->links.at[k];
            int other = e->place[link->to];
            if (other < 0 || e->bucket[other].rank > e->bucket[i].rank) continue;
            int *scope = arena_alloc(&e->arena, 2 * sizeof *scope);
            scope[0] = i, scope[1] = other; /* other is eliminated first */
            vec_push(&e->arena, &e->bucket[other].factors, (Factor){2, scope, link->table->at});
        }
    }
}

bool block_eliminate(const Core *core, const int *block, int n, const double *price, int64_t max_work, int *choice, int64_t *work) {
    Elimination e = {.core = core, .block = block, .n = n};
    arena_init(&e.arena);
    e.place = arena_alloc(&e.arena, (size_t)core->n * sizeof *e.place);
    e.bucket = arena_alloc(&e.arena, (size_t)n * sizeof *e.bucket);
    e.order = arena_alloc(&e.arena, (size_t)n * sizeof *e.order);
    for (int v = 0; v < core->n; v++)
        e.place[v] = -1;
    for (int i = 0; i < n; i++)
        e.place[block[i]] = i;
    block_gather(&e, price, choice);
    double entries = eliminate_order(&e, (double)max_work);
    if (entries < 0) {
        arena_finish(&e.arena);
        return false;
    }
    *work += (int64_t)entries;
    block_links(&e);
    for (int rank = 0; rank < n; rank++)
        bucket_eliminate(&e, e.order[rank]);
    for (int rank = n - 1; rank >= 0; rank--) {
        const Bucket *bucket = &e.bucket[e.order[rank]];
        size_t entry = 0;
        for (int k = 0; k < bucket->best.n; k++)
            entry = entry * (size_t)core->spot[block[bucket->best.scope[k]]].n + (size_t)choice[block[bucket->best.scope[k]]];
        choice[block[e.order[rank]]] = bucket->choice[entry];
    }
    arena_finish(&e.arena);
    return true;
}
