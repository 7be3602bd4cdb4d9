/* eliminate: solves a block of spots exactly by eliminating one after another (Bertele and Brioschi 1972; bucket elimination, Dechter 1999). The least cost of a spot
 * becomes a table over the spots that it was linked with, which are linked with each other from then on. Equal tables in the same relation are made once. */
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
    const double *at; /* NULL: the result of bucket `from`, when that is there */
    int from, id;     /* factors with one id have the same entries */
} Factor;

typedef struct Bucket {
    VEC(int) near;       /* places in the block that are linked with it and are not eliminated, ascending */
    VEC(Factor) factors; /* those of which this spot is the first to be eliminated */
    double *cost;        /* per choice: its own, with links out of the block */
    int cost_id;         /* the same for the same costs */
    int rank, age;       /* place in the order of elimination; how many eliminations, one after another, led to its factors */
    int nscope;          /* spots that its choice depends on */
    const int *scope;    /* these spots, the first to be eliminated last */
    int same;            /* an earlier bucket with the same result, or itself */
    double *least;       /* per entry of the scope */
    uint16_t *choice;    /* the same */
} Bucket;

typedef struct Elimination {
    Arena arena;
    const Core *core;
    const int *block;
    int n;
    int *place; /* of a spot in the block; -1: not in it */
    Bucket *bucket;
    int *order;
    Tables costs;  /* of spots alone */
    VEC(int) keys; /* of buckets: what their results are made from */
    Map known;     /* key -> where it begins in keys */
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

/* A spot with at most two neighbours is never eliminated too early. */
static double key_of(const Elimination *e, int i) {
    return e->bucket[i].near.n <= 2 ? 0 : entries_of(e, i);
}

/* Sets the order of elimination: always the spot with the smallest table, of equal ones the one of least age, so that equal layers are
 * halved again and again, and stay equal. False: a table would have more entries than the limit. */
static bool eliminate_order(Elimination *e, double limit) {
    Heap heap = {0};
    for (int i = 0; i < e->n; i++)
        heap_push(&e->arena, &heap, (HeapItem){key_of(e, i), 0, i});
    double *current = arena_alloc(&e->arena, (size_t)e->n * sizeof *current);
    for (int i = 0; i < e->n; i++)
        current[i] = key_of(e, i), e->bucket[i].rank = -1;
    for (int rank = 0; rank < e->n;) {
        HeapItem next = heap_pop(&heap);
        Bucket *bucket = &e->bucket[next.number];
        if (bucket->rank >= 0 || next.key != current[next.number] || next.age != bucket->age) continue;
        if (entries_of(e, next.number) > limit || bucket->near.n > MAX_SCOPE) return false;
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
            current[other] = key_of(e, other);
            if (e->bucket[other].age <= bucket->age) e->bucket[other].age = bucket->age + 1;
            heap_push(&e->arena, &heap, (HeapItem){current[other], e->bucket[other].age, other});
        }
    }
    return true;
}

/* Sets the spots on which the choice of a bucket depends, the last to be eliminated first. Returns the entries of its table. */
static double bucket_scope(Elimination *e, Bucket *bucket) {
    int *scope = arena_alloc(&e->arena, (size_t)(bucket->near.n + 1) * sizeof *scope);
    double entries = 1;
    for (int k = 0; k < bucket->near.n; k++) {
        int j = k, other = bucket->near.at[k];
        entries *= e->core->spot[e->block[other]].n;
        for (; j > 0 && e->bucket[scope[j - 1]].rank < e->bucket[other].rank; j--)
            scope[j] = scope[j - 1];
        scope[j] = other;
    }
    bucket->scope = scope, bucket->nscope = bucket->near.n;
    return entries;
}

/* Adds the key of bucket i: its costs, its factors, and which spots of its scope they are over. Returns where it begins in keys. */
static int bucket_key(Elimination *e, int i, uint64_t *hash) {
    const Bucket *bucket = &e->bucket[i];
    int begin = e->keys.n;
    vec_push(&e->arena, &e->keys, 0); /* its length */
    vec_push(&e->arena, &e->keys, i);
    vec_push(&e->arena, &e->keys, bucket->cost_id);
    for (int f = 0; f < bucket->factors.n; f++) {
        const Factor *factor = &bucket->factors.at[f];
        vec_push(&e->arena, &e->keys, factor->id);
        for (int k = 0; k < factor->n; k++) {
            int d = 0;
            while (d < bucket->nscope && bucket->scope[d] != factor->scope[k])
                d++;
            vec_push(&e->arena, &e->keys, d);
        }
    }
    e->keys.at[begin] = e->keys.n - begin;
    *hash = 7;
    for (int k = begin + 2; k < e->keys.n; k++)
        *hash = hash_mix(*hash, (uint64_t)e->keys.at[k]);
    return begin;
}

/* Finds which results each bucket is made from, and which are the same. Returns the entries that are looked at to make them. */
static double eliminate_plan(Elimination *e) {
    double total = 0;
    for (int rank = 0; rank < e->n; rank++) {
        int i = e->order[rank];
        Bucket *bucket = &e->bucket[i];
        double entries = bucket_scope(e, bucket);
        uint64_t hash;
        int begin = bucket_key(e, i, &hash), length = e->keys.at[begin];
        bucket->same = i;
        map_each(&e->known, hash, other) if (e->keys.at[other] == length && memcmp(&e->keys.at[other + 2], &e->keys.at[begin + 2],
                                                                                   (size_t)(length - 2) * sizeof(int)) == 0) bucket->same =
            e->keys.at[other + 1];
        if (bucket->same == i) {
            map_add(&e->arena, &e->known, hash, begin);
            total += entries * e->core->spot[e->block[i]].n;
        } else {
            e->keys.n = begin;
        }
        if (bucket->nscope > 0)
            vec_push(&e->arena, &e->bucket[bucket->scope[bucket->nscope - 1]].factors,
                     (Factor){.n = bucket->nscope, .scope = bucket->scope, .from = bucket->same, .id = -1 - bucket->same});
    }
    return total;
}

/* Where a table of a bucket is read for one entry of the result: it moves on by a step for each spot of the result. */
typedef struct Reader {
    const double *at;
    int64_t step[MAX_SCOPE]; /* per spot of the result */
    int depth;               /* spots of the result up to the last on which it depends */
} Reader;

static Reader reader_of(const Elimination *e, const Factor *factor, const Bucket *result) {
    Reader reader = {.at = factor->at ? factor->at : e->bucket[factor->from].least};
    int64_t step = 1;
    for (int k = factor->n - 1; k >= 0; k--) {
        for (int d = 0; d < result->nscope; d++) {
            if (result->scope[d] != factor->scope[k]) continue;
            reader.step[d] = step;
            if (d + 1 > reader.depth) reader.depth = d + 1;
        }
        step *= e->core->spot[e->block[factor->scope[k]]].n;
    }
    return reader;
}

/* Fills in the result of a bucket. sum[depth] is what the tables below that depth cost for each choice: an entry adds only those that
 * depend on what has changed. */
static void bucket_minimise(Elimination *e, Bucket *bucket, int n, double *out) {
    int nscope = bucket->nscope;
    int digit[MAX_SCOPE] = {0}, size[MAX_SCOPE];
    for (int d = 0; d < nscope; d++)
        size[d] = e->core->spot[e->block[bucket->scope[d]]].n;
    Reader *reader = arena_alloc(&e->arena, (size_t)bucket->factors.n * sizeof *reader);
    int begin[MAX_SCOPE + 2] = {0}, nreaders = 0;
    for (int depth = 0; depth <= nscope; depth++) { /* in the order of depth */
        begin[depth] = nreaders;
        for (int f = 0; f < bucket->factors.n; f++) {
            Reader one = reader_of(e, &bucket->factors.at[f], bucket);
            if (one.depth == depth) reader[nreaders++] = one;
        }
    }
    begin[nscope + 1] = nreaders;
    double *sum = arena_alloc(&e->arena, (size_t)(nscope + 2) * (size_t)n * sizeof *sum);
    memcpy(sum, bucket->cost, (size_t)n * sizeof *sum);
    int depth = 0;
    for (size_t entry = 0;; entry++) {
        for (; depth <= nscope; depth++) {
            double *to = sum + (size_t)(depth + 1) * (size_t)n;
            memcpy(to, to - n, (size_t)n * sizeof *to);
            for (int f = begin[depth]; f < begin[depth + 1]; f++)
                for (int i = 0; i < n; i++)
                    to[i] += reader[f].at[i];
        }
        const double *whole = sum + (size_t)(nscope + 1) * (size_t)n;
        int least = 0;
        for (int i = 1; i < n; i++)
            if (whole[i] < whole[least]) least = i;
        bucket->choice[entry] = (uint16_t)least;
        out[entry] = whole[least];
        int d = nscope - 1;
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
    const Bucket *same = &e->bucket[bucket->same];
    if (same == bucket) {
        size_t entries = 1;
        for (int k = 0; k < bucket->nscope; k++)
            entries *= (size_t)e->core->spot[e->block[bucket->scope[k]]].n;
        bucket->least = arena_alloc(&e->arena, entries * sizeof *bucket->least);
        bucket->choice = arena_alloc(&e->arena, entries * sizeof *bucket->choice);
        bucket_minimise(e, bucket, e->core->spot[e->block[i]].n, bucket->least);
    }
    bucket->choice = same->choice;
}

/* Collects the costs of spots alone, and which spots are linked. */
static void block_gather(Elimination *e, const int *choice) {
    for (int i = 0; i < e->n; i++) {
        const Spot *spot = &e->core->spot[e->block[i]];
        Bucket *bucket = &e->bucket[i];
        bucket->cost = arena_alloc(&e->arena, (size_t)spot->n * sizeof *bucket->cost);
        memcpy(bucket->cost, spot->cost->at, (size_t)spot->n * sizeof *bucket->cost);
        for (int k = 0; k < spot->links.n; k++) {
            const Link *link = &spot->links.at[k];
            if (e->place[link->to] >= 0)
                near_add(&e->arena, bucket, e->place[link->to]);
            else
                for (int c = 0; c < spot->n; c++)
                    bucket->cost[c] += link->table->at[c * link->table->ncolumns + choice[link->to]];
        }
        bucket->cost_id = table_of(&e->costs, 1, spot->n, bucket->cost)->id;
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
            vec_push(&e->arena, &e->bucket[other].factors, (Factor){.n = 2, .scope = scope, .at = link->table->at, .id = link->table->id});
        }
    }
}

bool block_eliminate(const Core *core, const int *block, int n, int64_t max_work, int *choice, int64_t *work) {
    Elimination e = {.core = core, .block = block, .n = n};
    arena_init(&e.arena);
    e.costs = (Tables){.arena = &e.arena, .work = work};
    e.place = arena_alloc(&e.arena, (size_t)core->n * sizeof *e.place);
    e.bucket = arena_alloc(&e.arena, (size_t)n * sizeof *e.bucket);
    e.order = arena_alloc(&e.arena, (size_t)n * sizeof *e.order);
    for (int v = 0; v < core->n; v++)
        e.place[v] = -1;
    for (int i = 0; i < n; i++)
        e.place[block[i]] = i;
    block_gather(&e, choice);
    bool small = eliminate_order(&e, (double)max_work);
    double entries = 0;
    if (small) {
        block_links(&e);
        entries = eliminate_plan(&e);
    }
    if (!small || entries > (double)max_work) {
        arena_finish(&e.arena);
        return false;
    }
    *work += (int64_t)entries + n;
    for (int rank = 0; rank < n; rank++)
        bucket_eliminate(&e, e.order[rank]);
    for (int rank = n - 1; rank >= 0; rank--) {
        const Bucket *bucket = &e.bucket[e.order[rank]];
        size_t entry = 0;
        for (int k = 0; k < bucket->nscope; k++)
            entry = entry * (size_t)core->spot[block[bucket->scope[k]]].n + (size_t)choice[block[bucket->scope[k]]];
        choice[block[e.order[rank]]] = bucket->choice[entry];
    }
    arena_finish(&e.arena);
    return true;
}
