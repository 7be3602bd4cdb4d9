#include "compiler/caches.h"

enum { PIECES = 2048 }; /* of the arena, at most */

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
    caches->piece = arena_alloc(arena, sizeof *caches->piece * (PIECES + 1));
    caches->state = arena_alloc(arena, sizeof *caches->state * ((size_t)graph->states.n + 1));
    caches->input = arena_alloc(arena, sizeof *caches->input * ((size_t)graph->inputs.n + 1));
    caches->constant = arena_alloc(arena, sizeof *caches->constant * ((size_t)graph->nodes.n + 1));
    for (int p = 0; p <= PIECES; p++)
        caches->piece[p] = -1e30; /* long ago */
    for (int s = 0; s < graph->states.n; s++)
        caches->state[s] = -1e30;
    for (int i = 0; i < graph->inputs.n; i++)
        caches->input[i] = -1e30;
    for (int n = 0; n < graph->nodes.n; n++)
        caches->constant[n] = -1e30;
}

/* When the longest untouched of n places was touched; all of them are now. */
static double touch(double *places, int64_t n, double now) {
    double oldest = places[0];
    for (int64_t p = 0; p < n; p++) {
        if (places[p] < oldest) oldest = places[p];
        places[p] = now;
    }
    return oldest;
}

int caches_touch(Caches *caches, int instance) {
    if (!caches->any) return caches->machine->ncaches;
    const Instance *lies = &caches->role->instances.at[instance];
    const int64_t bytes = caches->bytes[instance];
    while (lies->place == PLACE_VIEW)
        lies = &caches->role->instances.at[lies->at];
    const double before = caches->touched;
    double since = before;
    caches->touched += (double)bytes;
    switch (lies->place) {
    case PLACE_ARENA: {
        const int64_t first = lies->at / caches->piece_bytes, end = (lies->at + bytes + caches->piece_bytes - 1) / caches->piece_bytes;
        if (end > first) since = touch(&caches->piece[first], end - first, caches->touched);
        break;
    }
    case PLACE_STATE:
        since = touch(&caches->state[lies->at], 1, caches->touched);
        break;
    case PLACE_INPUT:
        since = touch(&caches->input[lies->at], 1, caches->touched);
        break;
    case PLACE_CONSTANT:
        since = touch(&caches->constant[lies->at], 1, caches->touched);
        break;
    case PLACE_INNER:
    case PLACE_VIEW:
    case PLACE_ELSEWHERE:
        caches->touched = before;
        return 0;
    }
    return machine_cache(caches->machine, before - since + (double)bytes);
}

void caches_warm(Caches *caches) {
    for (int s = 0; caches->any && s < caches->role->steps.n; s++) {
        const Step *step = &caches->role->steps.at[s];
        for (int i = 0; i < step->nin && step->kind != STEP_WAIT; i++)
            caches_touch(caches, step->in[i]);
        for (int o = 0; o < step->nout && step->kind != STEP_START; o++)
            caches_touch(caches, step->out[o]);
    }
}
