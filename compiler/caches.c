#include "compiler/caches.h"

enum { PIECES = 2048 }; /* of the arena, at most */

/* When each of n places was touched: long ago. */
static double *never(Arena *arena, int n) {
    double *places = arena_alloc(arena, sizeof *places * ((size_t)n + 1));
    for (int i = 0; i < n; i++)
        places[i] = -1e30;
    return places;
}

void caches_init(Caches *caches, const Facts *facts, const Machine *machine, Arena *arena) {
    const Role *role = facts->role;
    const Graph *graph = facts->graph;
    *caches = (Caches){.role = role, .machine = machine};
    for (int c = 0; c < machine->ncaches; c++)
        caches->any = caches->any || machine->cache[c].bytes_per_s > machine->memory_bytes_per_s;
    if (!caches->any) return;
    const int64_t least = 64, piece = (role->arena_bytes + PIECES - 1) / PIECES;
    caches->piece_bytes = piece > least ? piece : least;
    int64_t *bytes = arena_alloc(arena, sizeof *bytes * ((size_t)role->instances.n + 1));
    for (int i = 0; i < role->instances.n; i++)
        bytes[i] = instance_bytes(graph, &role->instances.at[i]);
    caches->bytes = bytes;
    caches->piece = never(arena, PIECES + 1);
    caches->state = never(arena, graph->states.n);
    caches->input = never(arena, graph->inputs.n);
    caches->constant = never(arena, graph->nodes.n);
}

/* The *n places that note when an instance was touched; 0: it is in no memory. */
static double *places_of(const Caches *caches, int instance, int64_t *n) {
    const Instance *lies = &caches->role->instances.at[instance];
    const int64_t bytes = caches->bytes[instance];
    while (lies->place == PLACE_VIEW)
        lies = &caches->role->instances.at[lies->at];
    *n = 1;
    switch (lies->place) {
    case PLACE_ARENA: {
        const int64_t first = lies->at / caches->piece_bytes;
        *n = (lies->at + bytes + caches->piece_bytes - 1) / caches->piece_bytes - first;
        return &caches->piece[first];
    }
    case PLACE_STATE:
        return &caches->state[lies->at];
    case PLACE_INPUT:
        return &caches->input[lies->at];
    case PLACE_CONSTANT:
        return &caches->constant[lies->at];
    case PLACE_INNER:
    case PLACE_VIEW:
    case PLACE_ELSEWHERE:
        break;
    }
    *n = 0;
    return NULL;
}

void caches_touch(Caches *caches, const int *instance, int n, int8_t *cache) {
    double bytes = 0;
    int64_t nplaces;
    for (int i = 0; i < n; i++)
        cache[i] = (int8_t)caches->machine->ncaches;
    if (!caches->any) return;
    for (int i = 0; i < n; i++)
        if (places_of(caches, instance[i], &nplaces) != NULL) bytes += (double)caches->bytes[instance[i]];
    const double now = caches->touched + bytes / 2;
    for (int i = 0; i < n; i++) {
        const double *places = places_of(caches, instance[i], &nplaces);
        double oldest = now;
        for (int64_t p = 0; p < nplaces; p++)
            oldest = places[p] < oldest ? places[p] : oldest;
        cache[i] = (int8_t)machine_cache(caches->machine, now - oldest);
    }
    for (int i = 0; i < n; i++) {
        double *places = places_of(caches, instance[i], &nplaces);
        for (int64_t p = 0; p < nplaces; p++)
            places[p] = now;
    }
    caches->touched += bytes;
}

int caches_touch_one(Caches *caches, int instance) {
    int8_t cache;
    caches_touch(caches, &instance, 1, &cache);
    return cache;
}

void caches_warm(Caches *caches) {
    for (int s = 0; caches->any && s < caches->role->steps.n;) {
        const Step *first = &caches->role->steps.at[s];
        const int n = first->kind == STEP_KERNEL ? fused_length(caches->role, s) : 1;
        int instance[CACHES_MOST], ninstances = 0;
        int8_t cache[CACHES_MOST];
        for (int k = s; k < s + n; k++) {
            const Step *step = &caches->role->steps.at[k];
            for (int i = 0; i < step->nin && step->kind != STEP_WAIT; i++)
                instance[ninstances++] = step->in[i];
            for (int o = 0; o < step->nout && step->kind != STEP_START; o++)
                instance[ninstances++] = step->out[o];
        }
        caches_touch(caches, instance, ninstances, cache);
        s += n;
    }
}
