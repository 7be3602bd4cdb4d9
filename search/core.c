/* core: a problem with its tables interned and parallel edges added up, and the way back from what was decided. */
#include "search/solve.h"

#include <string.h>

static Link *link_find(Spot *spot, int to) {
    for (int i = 0; i < spot->links.n; i++)
        if (spot->links.at[i].to == to) return &spot->links.at[i];
    return NULL;
}

void core_connect(Core *core, int from, int to, const Table *table) {
    /* Of two spots the one with fewer links is searched: a hub may have thousands. */
    if (core->spot[from].links.n > core->spot[to].links.n) {
        int other = from;
        from = to, to = other;
        table = table_turned(core->tables, table);
    }
    Link *link = link_find(&core->spot[from], to);
    if (link) {
        link->table = table_sum(core->tables, link->table, table);
        link_find(&core->spot[to], from)->table = table_turned(core->tables, link->table);
    } else {
        vec_push(core->arena, &core->spot[from].links, (Link){to, table});
        vec_push(core->arena, &core->spot[to].links, (Link){from, table_turned(core->tables, table)});
    }
}

void core_disconnect(Core *core, int v) {
    for (int i = 0; i < core->spot[v].links.n; i++) {
        Spot *other = &core->spot[core->spot[v].links.at[i].to];
        *link_find(other, v) = other->links.at[other->links.n - 1];
        other->links.n--;
    }
}

void core_keep(Core *core, int v, const int *kept, int n) {
    Spot *spot = &core->spot[v];
    Arena scratch;
    arena_init(&scratch);
    double *at = arena_alloc(&scratch, (size_t)n * sizeof *at);
    int *origin = arena_alloc(core->arena, (size_t)n * sizeof *origin);
    int64_t *bytes = spot->bytes ? arena_alloc(core->arena, (size_t)n * sizeof *bytes) : NULL;
    for (int i = 0; i < n; i++) {
        at[i] = kept[i];
        origin[i] = spot->origin[kept[i]];
        if (bytes) bytes[i] = spot->bytes[kept[i]];
    }
    const Table *list = table_of(core->tables, 1, n, at);
    for (int i = 0; i < n; i++)
        at[i] = spot->cost->at[kept[i]];
    spot->cost = table_of(core->tables, 1, n, at);
    arena_finish(&scratch);
    spot->n = n, spot->origin = origin, spot->bytes = bytes;
    for (int i = 0; i < spot->links.n; i++) {
        Link *link = &spot->links.at[i];
        link->table = table_rows(core->tables, link->table, list);
        link_find(&core->spot[link->to], v)->table = table_turned(core->tables, link->table);
    }
}

static void core_edges(Core *core, const Problem *problem, Known *known) {
    for (int e = 0; e < problem->edges.n; e++) {
        const Edge *edge = &problem->edges.at[e];
        const Table *table = NULL;
        uint64_t hash = hash_mix(0, (uint64_t)(uintptr_t)edge->table);
        map_each(&known->edges, hash, i) if (known->address.at[i] == edge->table) table = known->interned.at[i];
        if (table == NULL) {
            table = table_of(core->tables, edge->table->nrows, edge->table->ncolumns, edge->table->at);
            map_add(core->tables->arena, &known->edges, hash, known->interned.n);
            vec_push(core->tables->arena, &known->interned, table);
            vec_push(core->tables->arena, &known->address, edge->table);
        }
        core_connect(core, edge->from, edge->to, table);
    }
}

void core_init(Core *core, const Problem *problem, Known *known, Arena *arena) {
    Tables *tables = &known->tables;
    *core = (Core){.arena = arena, .tables = tables, .n = problem->variables.n};
    core->spot = arena_alloc(arena, (size_t)core->n * sizeof *core->spot);
    int most = 0, end = 0;
    for (int v = 0; v < core->n; v++) {
        if (problem->variables.at[v].nchoices > most) most = problem->variables.at[v].nchoices;
        if (problem->variables.at[v].end > end) end = problem->variables.at[v].end;
    }
    int *same = arena_alloc(arena, (size_t)most * sizeof *same);
    for (int i = 0; i < most; i++)
        same[i] = i;
    for (int v = 0; v < core->n; v++) {
        const Variable *variable = &problem->variables.at[v];
        Spot *spot = &core->spot[v];
        *spot =
            (Spot){.variable = v, .n = variable->nchoices, .cost = table_of(tables, 1, variable->nchoices, variable->cost), .origin = same};
        if (problem->limit_bytes && variable->begin < variable->end)
            spot->bytes = variable->bytes, spot->begin = variable->begin, spot->end = variable->end;
    }
    core_edges(core, problem, known);
    if (problem->limit_bytes == 0) return;
    core->ntimes = end;
    core->room = arena_alloc(arena, (size_t)end * sizeof *core->room);
    core->time = arena_alloc(arena, (size_t)end * sizeof *core->time);
    for (int time = 0; time < end; time++)
        core->room[time] = problem->limit_bytes, core->time[time] = time;
}

/* Fills in the bytes that are left at each time beside what the spots outside the block hold. */
static void sub_room(Core *sub, const Core *core, const int *place, const int *choice) {
    sub->ntimes = core->ntimes;
    sub->room = arena_alloc(sub->arena, ((size_t)core->ntimes + 1) * sizeof *sub->room);
    sub->time = arena_alloc(sub->arena, ((size_t)core->ntimes + 1) * sizeof *sub->time);
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone || spot->bytes == NULL || place[v] >= 0) continue;
        sub->room[spot->begin] -= spot->bytes[choice[v]], sub->room[spot->end] += spot->bytes[choice[v]];
    }
    int64_t change = 0;
    for (int time = 0; time < core->ntimes; time++) {
        change += sub->room[time];
        sub->room[time] = core->room[time] + change;
        sub->time[time] = core->time[time];
    }
}

/* Makes a spot of the block, with the choices of spot v that are kept; its links out of the block become costs. */
static void sub_spot(Core *sub, const Core *core, int i, int v, const int *kept, int n, const int *place, const int *choice, double *cost) {
    const Spot *from = &core->spot[v];
    Spot *to = &sub->spot[i];
    *to = (Spot){.variable = from->variable, .n = n, .begin = from->begin, .end = from->end};
    int *origin = arena_alloc(sub->arena, (size_t)n * sizeof *origin);
    int64_t *bytes = from->bytes ? arena_alloc(sub->arena, (size_t)n * sizeof *bytes) : NULL;
    for (int c = 0; c < n; c++) {
        cost[c] = from->cost->at[kept[c]];
        origin[c] = from->origin[kept[c]];
        if (bytes) bytes[c] = from->bytes[kept[c]];
        for (int k = 0; k < from->links.n; k++) {
            const Link *link = &from->links.at[k];
            if (place[link->to] < 0) cost[c] += link->table->at[kept[c] * link->table->ncolumns + choice[link->to]];
        }
    }
    to->cost = table_of(sub->tables, 1, n, cost);
    to->origin = origin, to->bytes = bytes;
}

/* What the spots outside the block cost. */
static double sub_constant(const Core *core, const int *place, const int *choice) {
    double cost = core->constant;
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone || place[v] >= 0) continue;
        cost += spot->cost->at[choice[v]];
        for (int k = 0; k < spot->links.n; k++) {
            const Link *link = &spot->links.at[k];
            if (link->to > v && place[link->to] < 0) cost += link->table->at[choice[v] * link->table->ncolumns + choice[link->to]];
        }
    }
    return cost;
}

void core_sub(Core *sub, const Core *core, const int *block, int n, const int *choice, bool *const *keep, Tables *tables, Arena *arena) {
    *sub = (Core){.outer = core, .arena = arena, .tables = tables, .n = n};
    sub->spot = arena_alloc(arena, (size_t)n * sizeof *sub->spot);
    Arena scratch;
    arena_init(&scratch);
    int *place = arena_alloc(&scratch, (size_t)core->n * sizeof *place), most = 1;
    int **kept = arena_alloc(&scratch, (size_t)n * sizeof *kept), *nkept = arena_alloc(&scratch, (size_t)n * sizeof *nkept);
    for (int v = 0; v < core->n; v++)
        place[v] = -1;
    for (int i = 0; i < n; i++) {
        const Spot *spot = &core->spot[block[i]];
        place[block[i]] = i;
        kept[i] = arena_alloc(&scratch, (size_t)spot->n * sizeof **kept);
        for (int c = 0; c < spot->n; c++)
            if (keep == NULL || keep[block[i]][c]) kept[i][nkept[i]++] = c;
        if (nkept[i] > most) most = nkept[i];
    }
    sub->constant = sub_constant(core, place, choice);
    *tables->work += core->n + core->ntimes;
    double *at = arena_alloc(&scratch, (size_t)most * (size_t)most * sizeof *at);
    for (int i = 0; i < n; i++)
        sub_spot(sub, core, i, block[i], kept[i], nkept[i], place, choice, at);
    for (int i = 0; i < n; i++) {
        const Spot *spot = &core->spot[block[i]];
        for (int k = 0; k < spot->links.n; k++) {
            const Link *link = &spot->links.at[k];
            int j = place[link->to];
            if (j < i) continue;
            for (int a = 0; a < nkept[i]; a++)
                for (int b = 0; b < nkept[j]; b++)
                    at[a * nkept[j] + b] = link->table->at[kept[i][a] * link->table->ncolumns + kept[j][b]];
            const Table *table = table_of(tables, nkept[i], nkept[j], at);
            vec_push(arena, &sub->spot[i].links, (Link){j, table});
            vec_push(arena, &sub->spot[j].links, (Link){i, table_turned(tables, table)});
        }
    }
    sub_room(sub, core, place, choice);
    arena_finish(&scratch);
}

void core_expand(const Core *core, const int *choice, int *result) {
    for (int v = 0; v < core->n && choice; v++)
        if (!core->spot[v].gone) result[core->spot[v].variable] = core->spot[v].origin[choice[v]];
    for (int r = core->records.n - 1; r >= 0; r--) {
        const Record *record = &core->records.at[r];
        const Spot *spot = &core->spot[record->spot];
        int entry = 0;
        for (int k = 0; k < record->nnear; k++) {
            int i = 0;
            while (record->near_origin[k][i] != result[core->spot[record->near[k]].variable])
                i++;
            entry = entry * record->near_n[k] + i;
        }
        result[spot->variable] = spot->origin[record->choice ? record->choice[entry] : 0];
    }
}

/* Follows the order in which choices were replaced: when the new one was found to be as good, the others were still there. */
static void replace_choices(const Core *core, int *result) {
    if (core->outer) replace_choices(core->outer, result);
    for (int r = 0; r < core->replaced.n; r++) {
        const Replaced *replaced = &core->replaced.at[r];
        int *choice = &result[core->spot[replaced->spot].variable];
        if (*choice == replaced->from) *choice = replaced->to;
    }
}

void core_contract(const Core *core, const int *result, int *choice) {
    const Core *whole = core;
    while (whole->outer)
        whole = whole->outer;
    Arena scratch;
    arena_init(&scratch);
    int *replaced = arena_alloc(&scratch, (size_t)whole->n * sizeof *replaced); /* in the whole problem, spots are variables */
    if (whole->n) memcpy(replaced, result, (size_t)whole->n * sizeof *replaced);
    replace_choices(core, replaced);
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        choice[v] = 0;
        while (!spot->gone && choice[v] + 1 < spot->n && spot->origin[choice[v]] != replaced[spot->variable])
            choice[v]++;
    }
    arena_finish(&scratch);
}

double core_cost(const Core *core, const int *choice) {
    double cost = core->constant;
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone) continue;
        cost += spot->cost->at[choice[v]];
        for (int i = 0; i < spot->links.n; i++)
            if (spot->links.at[i].to > v)
                cost += spot->links.at[i].table->at[choice[v] * spot->links.at[i].table->ncolumns + choice[spot->links.at[i].to]];
    }
    return cost;
}
