/* dominance: makes a problem smaller without a loss. A choice is removed if another one of its spot holds no more bytes and costs no more whatever the neighbours choose
 * (Goldstein 1994); a spot with one choice becomes costs of its neighbours; a spot with one or two links that holds no bytes becomes a vector or a table. */
#include "search/heap.h"
#include "search/solve.h"

#include <math.h>

typedef struct Reduction {
    Core *core;
    Arena scratch;
    Heap heap;
    double *key;    /* per spot: with which it is in the heap; -1: it is not */
    bool *changed;  /* per spot */
    double *excess; /* of the choices of one spot, [a, b]: by how much a costs more than b at most */
    int *kept;
} Reduction;

/* Queues a spot by what looking at it costs: cheap ones come first, since they make the others smaller. */
static void touch(Reduction *r, int v) {
    const Spot *spot = &r->core->spot[v];
    if (spot->gone) return;
    double key = (double)spot->n * spot->n * (1 + spot->links.n);
    if (spot->bytes == NULL && spot->links.n <= 2) {
        key = spot->n;
        for (int i = 0; i < spot->links.n; i++)
            key *= r->core->spot[spot->links.at[i].to].n;
        if (spot->links.n == 1)
            key *= r->core->spot[spot->links.at[0].to]
                       .n; /* the ends of a chain are no cheaper, so that it is halved and not eaten up from there */
    }
    if (r->key[v] == key) return;
    r->key[v] = key;
    heap_push(&r->scratch, &r->heap, (HeapItem){key, spot->age, v});
}

static void touch_near(Reduction *r, int v) {
    for (int i = 0; i < r->core->spot[v].links.n; i++)
        touch(r, r->core->spot[v].links.at[i].to);
}

/* Removes choices that are impossible, and those that another one replaces. */
static void choices_prune(Reduction *r, int v) {
    Core *core = r->core;
    const Spot *spot = &core->spot[v];
    int n = spot->n, nkept = 0;
    bool any = false;
    for (int i = 0; i < n; i++) {
        bool possible = spot->cost->at[i] < INFINITY;
        for (int k = 0; k < spot->links.n && possible; k++)
            possible =
                table_excess(core->tables, spot->links.at[k].table)[i * n + i] > -INFINITY; /* of an empty row there is no difference */
        r->kept[i] = possible;
        any |= possible;
    }
    if (!any) {
        core->impossible = true;
        return;
    }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            r->excess[a * n + b] = spot->cost->at[a] - spot->cost->at[b];
    for (int k = 0; k < spot->links.n; k++) {
        const double *excess = table_excess(core->tables, spot->links.at[k].table);
        for (int i = 0; i < n * n; i++)
            r->excess[i] += excess[i];
    }
    *core->tables->work += (int64_t)n * n * (1 + spot->links.n);
    for (int b = 0; b < n; b++)
        for (int a = 0; a < n && r->kept[b]; a++)
            if (a != b && r->kept[a] && r->excess[a * n + b] <= 0 && (spot->bytes == NULL || spot->bytes[a] <= spot->bytes[b])) {
                r->kept[b] = false;
                vec_push(core->arena, &core->replaced, (Replaced){v, spot->origin[b], spot->origin[a]});
            }
    for (int i = 0; i < n; i++)
        if (r->kept[i]) r->kept[nkept++] = i;
    if (nkept == n) return;
    core_keep(core, v, r->kept, nkept);
    touch_near(r, v);
}

static void record(Core *core, int v, const uint16_t *choice) {
    const Spot *spot = &core->spot[v];
    Record record = {.spot = v, .choice = choice};
    for (int i = 0; choice && i < spot->links.n; i++) {
        const Spot *other = &core->spot[spot->links.at[i].to];
        record.near[i] = spot->links.at[i].to;
        record.near_origin[i] = other->origin;
        record.near_n[i] = other->n;
        record.nnear++;
    }
    vec_push(core->arena, &core->records, record);
}

/* Decides a spot with one choice: its rows become costs of the neighbours, its bytes are taken from the room. */
static void spot_decide(Reduction *r, int v) {
    Core *core = r->core;
    Spot *spot = &core->spot[v];
    core->constant += spot->cost->at[0];
    for (int time = spot->begin; spot->bytes && time < spot->end; time++) {
        core->room[time] -= spot->bytes[0];
        if (core->room[time] < 0) core->impossible = true;
    }
    record(core, v, NULL);
    core_disconnect(core, v);
    for (int i = 0; i < spot->links.n; i++) {
        Spot *other = &core->spot[spot->links.at[i].to];
        other->cost = table_sum(core->tables, other->cost, table_row(core->tables, spot->links.at[i].table, 0));
    }
    spot->gone = true;
    touch_near(r, v);
}

/* Eliminates a spot with at most two links that holds no bytes. */
static void spot_eliminate(Reduction *r, int v) {
    Core *core = r->core;
    Spot *spot = &core->spot[v];
    const Link *link = spot->links.at;
    if (spot->links.n == 0) { /* dominance has left one choice, unless its costs are not comparable numbers */
        spot_decide(r, v);
        return;
    }
    Spot *first = &core->spot[link[0].to];
    core_disconnect(core, v);
    const Table *from = table_turned(core->tables, link[0].table);
    if (spot->links.n == 1) {
        const TableResult *leaf = table_leaf(core->tables, spot->cost, from);
        record(core, v, leaf->choice);
        first->cost = table_sum(core->tables, first->cost, leaf->table);
    } else {
        const TableResult *series = table_series(core->tables, spot->cost, from, table_turned(core->tables, link[1].table));
        record(core, v, series->choice);
        core_connect(core, link[0].to, link[1].to, series->table);
        Spot *second = &core->spot[link[1].to];
        if (second->age <= spot->age) second->age = spot->age + 1;
    }
    if (first->age <= spot->age) first->age = spot->age + 1;
    spot->gone = true;
    touch_near(r, v);
}

static void drain(Reduction *r) {
    Core *core = r->core;
    while (r->heap.items.n && !core->impossible) {
        HeapItem next = heap_pop(&r->heap);
        int v = next.number;
        Spot *spot = &core->spot[v];
        if (spot->gone || next.key != r->key[v]) continue;
        r->key[v] = -1;
        choices_prune(r, v);
        if (core->impossible) return;
        if (spot->n == 1)
            spot_decide(r, v);
        else if (spot->bytes == NULL && spot->links.n <= 2)
            spot_eliminate(r, v);
    }
}

void core_reduce(Core *core) {
    Reduction r = {.core = core};
    arena_init(&r.scratch);
    int most = 1;
    r.key = arena_alloc(&r.scratch, (size_t)core->n * sizeof *r.key);
    r.changed = arena_alloc(&r.scratch, (size_t)core->n);
    for (int v = 0; v < core->n; v++) {
        r.key[v] = -1;
        r.changed[v] = true;
        if (core->spot[v].n > most) most = core->spot[v].n;
    }
    r.excess = arena_alloc(&r.scratch, (size_t)most * (size_t)most * sizeof *r.excess);
    r.kept = arena_alloc(&r.scratch, (size_t)most * sizeof *r.kept);
    for (bool more = true; more && !core->impossible;) {
        core_times(core, r.changed);
        more = false;
        for (int v = 0; v < core->n && !core->impossible; v++) {
            if (r.changed[v]) touch(&r, v), more = true;
            r.changed[v] = false;
        }
        drain(&r);
    }
    arena_finish(&r.scratch);
}
