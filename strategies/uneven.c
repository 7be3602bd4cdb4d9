/* Sums and maxima over all ranks for two layouts over common digits whose parts are not all of one size. Dimensions that share no digit are counted separately, over the values of
 * their own digits, and multiplied. The ranges of parts are tabulated. */
#include <stdlib.h>
#include <string.h>

#include "strategies/pair.h"

/* One dimension. The values of the atoms give the numbers of its parts. */
typedef struct Split {
    Range *part[2]; /* of from, of to */
    int64_t *
        sendable; /* [part of from * nfixed + fixed]: cells of the part that ranks need which have these values of the atoms that `from` lacks */
    int nparts[2], nfixed;
    int weight[2][MAX_ATOMS], fixed[MAX_ATOMS]; /* what an atom's value adds to the part's number, to `fixed` */
    int component;                              /* the lowest dimension with which it shares digits, directly or through others */
} Split;

typedef struct Counter {
    const Pair *pair;
    Arena arena;
    Split dim[MAX_NDIM];
} Counter;

/* ---- dimensions */

Range *ranges_of(Arena *arena, const Layout *layout, int d, int64_t size, int *nparts) {
    const int n = (int)layout_split(layout, d);
    Range *part = arena_alloc(arena, (size_t)n * sizeof *part);
    part[0] = (Range){0, size};
    int count = 1;
    for (int i = 0; i < layout_count(layout, d); i++) {
        const int pieces = layout_list(layout, d)[i].size;
        for (int p = count - 1; p >= 0; p--) { /* backwards, so that no part is overwritten before it is divided */
            const int64_t each = (part[p].end - part[p].begin) / pieces, larger = (part[p].end - part[p].begin) % pieces;
            int64_t end = part[p].end;
            for (int k = pieces - 1; k >= 0; k--) {
                const int64_t begin = end - each - (k < larger);
                part[p * pieces + k] = (Range){begin, end};
                end = begin;
            }
        }
        count *= pieces;
    }
    *nparts = n;
    return part;
}

/* For every part of `to`, the values of the atoms that `from` lacks. */
static int *fixed_of_parts(Counter *c, int d) {
    const Pair *pair = c->pair;
    const AtomList *list = &pair->list[1][d];
    int *fixed = arena_alloc(&c->arena, (size_t)c->dim[d].nparts[1] * sizeof *fixed);
    for (int i = list->n - 1, count = 1; i >= 0; i--) { /* so far parts by the atoms after this one; now by this one too */
        const int size = pair->atom[list->at[i]].size, weight = c->dim[d].fixed[list->at[i]];
        for (int k = count; k < count * size; k++)
            fixed[k] = fixed[k - count] + weight;
        count *= size;
    }
    return fixed;
}

/* Both sides' parts are ascending, so each meets only a few of the other side: the parts before `first` all end before any later part
 * begins. */
static void fill_sendable(Counter *c, int d) {
    Split *dim = &c->dim[d];
    const int *fixed = fixed_of_parts(c, d);
    dim->sendable = arena_alloc(&c->arena, (size_t)dim->nparts[0] * (size_t)dim->nfixed * sizeof *dim->sendable);
    for (int p = 0, first = 0; p < dim->nparts[0]; p++) {
        while (first < dim->nparts[1] && dim->part[1][first].end <= dim->part[0][p].begin)
            first++;
        for (int q = first; q < dim->nparts[1] && dim->part[1][q].begin < dim->part[0][p].end; q++)
            dim->sendable[p * dim->nfixed + fixed[q]] += ranges_common(dim->part[0][p], dim->part[1][q]);
    }
}

static void dim_init(Counter *c, int d) {
    const Pair *pair = c->pair;
    Split *dim = &c->dim[d];
    dim->nfixed = 1;
    for (int side = 0; side < 2; side++) {
        const AtomList *list = &pair->list[side][d];
        const Layout *layout = side == 0 ? pair->from : pair->to;
        dim->part[side] = ranges_of(&c->arena, layout, d, pair->shape->dim[d], &dim->nparts[side]);
        for (int i = list->n - 1, weight = 1; i >= 0; i--) {
            const int atom = list->at[i];
            dim->weight[side][atom] = weight;
            weight *= pair->atom[atom].size;
            if (side == 0 || pair->in_from[atom]) continue;
            dim->fixed[atom] = dim->nfixed;
            dim->nfixed *= pair->atom[atom].size;
        }
    }
    fill_sendable(c, d);
}

static bool dim_has(const Split *dim, int atom) {
    return dim->weight[0][atom] > 0 || dim->weight[1][atom] > 0;
}

static void find_components(Counter *c) {
    const int ndim = c->pair->shape->ndim;
    for (int d = 0; d < ndim; d++) {
        c->dim[d].component = d;
        for (int e = 0; e < d; e++)
            for (int atom = 0; atom < c->pair->natoms; atom++) {
                if (!dim_has(&c->dim[d], atom) || !dim_has(&c->dim[e], atom)) continue;
                const int now = c->dim[d].component, then = c->dim[e].component, least = now < then ? now : then;
                for (int k = 0; k <= d; k++)
                    if (c->dim[k].component == now || c->dim[k].component == then) c->dim[k].component = least;
            }
    }
}

/* ---- components */

/* What a rank needs or may send, and how much of that it holds or needs itself. */
typedef struct Both {
    int64_t all, own;
} Both;
/* The Pareto front over ranks: no entry has as much `all` and as little `own` as another one. */
typedef struct Front {
    VEC(Both) at;
} Front;

static void front_add(Arena *arena, Front *front, int64_t all, int64_t own) {
    int n = 0;
    for (int i = 0; i < front->at.n; i++)
        if (front->at.at[i].all >= all && front->at.at[i].own <= own) return;
    for (int i = 0; i < front->at.n; i++)
        if (front->at.at[i].all > all || front->at.at[i].own < own) front->at.at[n++] = front->at.at[i];
    front->at.n = n;
    vec_push(arena, &front->at, ((Both){all, own}));
}

static void front_multiply(Arena *arena, Front *front, const Front *by) {
    Front product = {0};
    for (int i = 0; i < front->at.n; i++)
        for (int k = 0; k < by->at.n; k++)
            front_add(arena, &product, front->at.at[i].all * by->at.at[k].all, front->at.at[i].own * by->at.at[k].own);
    *front = product;
}

static int64_t front_most(const Front *front) {
    int64_t most = 0;
    for (int i = 0; i < front->at.n; i++)
        if (front->at.at[i].all - front->at.at[i].own > most) most = front->at.at[i].all - front->at.at[i].own;
    return most;
}

typedef struct Component {
    int ndims, dim[MAX_NDIM], natoms, atom[MAX_ATOMS];
    int64_t ranks;   /* combinations of its atoms' values */
    int64_t overlap; /* the sum of `own` over these */
    Front needed, sendable;
    int64_t last[3]; /* needed, sendable and overlap of the previous rank, which are mostly the same */
} Component;

static void component_init(const Counter *c, int first, Component *component) {
    *component = (Component){.ranks = 1, .last = {-1, -1, -1}};
    for (int d = first; d < c->pair->shape->ndim; d++)
        if (c->dim[d].component == first) component->dim[component->ndims++] = d;
    for (int atom = 0; atom < c->pair->natoms; atom++) {
        bool has = false;
        for (int i = 0; i < component->ndims; i++)
            has = has || dim_has(&c->dim[component->dim[i]], atom);
        if (!has) continue;
        component->atom[component->natoms++] = atom;
        component->ranks *= c->pair->atom[atom].size;
    }
}

/* Where a rank stands in one dimension. */
typedef struct Place {
    int part[2], fixed;
} Place;

/* Multiplies what a rank needs, may send, and holds of what it needs by its amounts in one dimension. */
static inline void count_dim(const Split *dim, Place place, int64_t *needed, int64_t *sendable, int64_t *own) {
    const Range held = dim->part[0][place.part[0]], wanted = dim->part[1][place.part[1]];
    *needed *= wanted.end - wanted.begin;
    *own *= ranges_common(held, wanted);
    *sendable *= dim->sendable[place.part[0] * dim->nfixed + place.fixed];
}

static inline void count_rank(Counter *c, Component *component, int64_t needed, int64_t sendable, int64_t own) {
    component->overlap += own;
    if (needed == component->last[0] && sendable == component->last[1] && own == component->last[2]) return;
    component->last[0] = needed, component->last[1] = sendable, component->last[2] = own;
    front_add(&c->arena, &component->needed, needed, own);
    front_add(&c->arena, &component->sendable, sendable, own);
}

/* Counts all values of the last atom, in a component of one dimension. */
static void count_run(Counter *c, Component *component, Place place) {
    const Split *dim = &c->dim[component->dim[0]];
    const int atom = component->natoms > 0 ? component->atom[component->natoms - 1] : 0,
              n = component->natoms > 0 ? c->pair->atom[atom].size : 1;
    for (int v = 0; v < n; v++) {
        int64_t needed = 1, sendable = 1, own = 1;
        count_dim(dim, place, &needed, &sendable, &own);
        count_rank(c, component, needed, sendable, own);
        place.part[0] += dim->weight[0][atom];
        place.part[1] += dim->weight[1][atom];
        place.fixed += dim->fixed[atom];
    }
}

/* Counts all combinations of values of a component's atoms. */
static void component_count(Counter *c, Component *component) {
    const bool runs = component->ndims == 1;
    Place place[MAX_NDIM] = {0};
    int value[MAX_ATOMS] = {0};
    for (int i = 0; i >= 0;) {
        if (runs) {
            count_run(c, component, place[0]);
        } else {
            int64_t needed = 1, sendable = 1, own = 1;
            for (int k = 0; k < component->ndims; k++)
                count_dim(&c->dim[component->dim[k]], place[k], &needed, &sendable, &own);
            count_rank(c, component, needed, sendable, own);
        }
        for (i = component->natoms - 1 - runs; i >= 0; i--) {
            const int atom = component->atom[i], size = c->pair->atom[atom].size, step = value[i] + 1 < size ? 1 : 1 - size;
            value[i] += step;
            for (int k = 0; k < component->ndims; k++) {
                const Split *dim = &c->dim[component->dim[k]];
                place[k].part[0] += step * dim->weight[0][atom];
                place[k].part[1] += step * dim->weight[1][atom];
                place[k].fixed += step * dim->fixed[atom];
            }
            if (step == 1) break;
        }
    }
}

void uneven_count(const Pair *pair, UnevenCounts *counts) {
    Counter c = {.pair = pair};
    Front needed = {0}, sendable = {0};
    int64_t unused = 1, ranks = 1, overlap = 1; /* unused: source digits that the target does not use */
    arena_init(&c.arena);
    for (int i = 0; i < pair->natoms; i++)
        if (pair->in_from[i] && !pair->in_to[i]) unused *= pair->atom[i].size;
    for (int d = 0; d < pair->shape->ndim; d++)
        dim_init(&c, d);
    find_components(&c);
    front_add(&c.arena, &needed, 1, 1);
    front_add(&c.arena, &sendable, unused, 1);
    for (int d = 0; d < pair->shape->ndim; d++) {
        Component component;
        if (c.dim[d].component != d) continue;
        component_init(&c, d, &component);
        component_count(&c, &component);
        front_multiply(&c.arena, &needed, &component.needed);
        front_multiply(&c.arena, &sendable, &component.sendable);
        overlap *= component.overlap;
        ranks *= component.ranks;
    }
    *counts = (UnevenCounts){overlap * (pair->nranks / ranks), front_most(&needed), front_most(&sendable)};
    arena_finish(&c.arena);
}
