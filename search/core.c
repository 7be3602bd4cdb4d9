/* core: a problem with its tables interned, parallel edges added up, and only the times at which the limit could be broken. */
#include "search/solve.h"

#include <string.h>

void core_connect(Core *core, int from, int to, const Table *table) {
    Tables *tables = &core->tables;
    /* Of two spots the one with fewer links is searched: a hub may have thousands. */
    bool exchange = core->spot[from].links.n > core->spot[to].links.n;
    Spot *few = &core->spot[exchange ? to : from], *many = &core->spot[exchange ? from : to];
    int other = exchange ? from : to, self = exchange ? to : from;
    const Table *mine = exchange ? table_turned(tables, table) : table;
    for (int i = 0; i < few->links.n; i++) {
        if (few->links.at[i].to != other) continue;
        few->links.at[i].table = table_sum(tables, few->links.at[i].table, mine);
        for (int j = 0; j < many->links.n; j++)
            if (many->links.at[j].to == self) many->links.at[j].table = table_turned(tables, few->links.at[i].table);
        return;
    }
    vec_push(core->arena, &few->links, (Link){other, mine});
    vec_push(core->arena, &many->links, (Link){self, table_turned(tables, mine)});
}

/* Keeps the times at which the choices that hold most would be over the limit together, those that are alike as one. */
static void core_times(Core *core) {
    const Problem *problem = core->problem;
    int end = 0;
    for (int v = 0; v < core->n; v++)
        if (problem->variables.at[v].end > end) end = problem->variables.at[v].end;
    if (problem->limit_bytes == 0 || end == 0) return;
    int64_t *most = arena_alloc(core->arena, ((size_t)end + 1) * sizeof *most),
            *least = arena_alloc(core->arena, ((size_t)end + 1) * sizeof *least);
    bool *begins = arena_alloc(core->arena, (size_t)end + 1);
    for (int v = 0; v < core->n; v++) {
        const Variable *variable = &problem->variables.at[v];
        if (variable->bytes == NULL || variable->begin >= variable->end) continue;
        int64_t low = variable->bytes[0], high = low;
        for (int i = 0; i < variable->nchoices; i++) {
            if (variable->bytes[i] < low) low = variable->bytes[i];
            if (variable->bytes[i] > high) high = variable->bytes[i];
        }
        most[variable->begin] += high, most[variable->end] -= high;
        least[variable->begin] += low, least[variable->end] -= low;
        if (low == high) continue;
        begins[variable->begin] = true;
    }
    int *number = arena_alloc(core->arena, ((size_t)end + 1) * sizeof *number); /* times that count before each */
    core->room = arena_alloc(core->arena, (size_t)end * sizeof *core->room);
    int64_t high = 0, low = 0;
    for (int time = 0; time < end; time++) {
        high += most[time], low += least[time];
        number[time] = core->ntimes;
        if (high > problem->limit_bytes) core->room[core->ntimes++] = problem->limit_bytes - low;
    }
    number[end] = core->ntimes;
    for (int v = 0; v < core->n; v++) {
        const Variable *variable = &problem->variables.at[v];
        Spot *spot = &core->spot[v];
        if (variable->bytes == NULL || variable->begin >= variable->end) continue;
        spot->begin = number[variable->begin], spot->end = number[variable->end];
        int64_t least_bytes = variable->bytes[0], most_bytes = least_bytes;
        for (int i = 0; i < variable->nchoices; i++) {
            if (variable->bytes[i] < least_bytes) least_bytes = variable->bytes[i];
            if (variable->bytes[i] > most_bytes) most_bytes = variable->bytes[i];
        }
        if (spot->begin == spot->end || least_bytes == most_bytes) continue;
        int64_t *bytes = arena_alloc(core->arena, (size_t)variable->nchoices * sizeof *bytes);
        for (int i = 0; i < variable->nchoices; i++)
            bytes[i] = variable->bytes[i] - least_bytes;
        spot->bytes = bytes;
    }
}

void core_init(Core *core, const Problem *problem, Arena *arena) {
    *core = (Core){.problem = problem, .arena = arena, .tables.arena = arena, .n = problem->variables.n};
    core->spot = arena_alloc(arena, (size_t)core->n * sizeof *core->spot);
    int most = 0;
    for (int v = 0; v < core->n; v++)
        if (problem->variables.at[v].nchoices > most) most = problem->variables.at[v].nchoices;
    int *same = arena_alloc(arena, (size_t)most * sizeof *same);
    for (int i = 0; i < most; i++)
        same[i] = i;
    for (int v = 0; v < core->n; v++) {
        const Variable *variable = &problem->variables.at[v];
        core->spot[v] =
            (Spot){.n = variable->nchoices, .cost = table_of(&core->tables, 1, variable->nchoices, variable->cost), .origin = same};
    }
    Map known = {0}; /* address of a CostTable -> its place in tables */
    VEC(const Table *) interned = {0};
    VEC(const CostTable *) address = {0};
    for (int e = 0; e < problem->edges.n; e++) {
        const Edge *edge = &problem->edges.at[e];
        const Table *table = NULL;
        uint64_t hash = (uint64_t)(uintptr_t)edge->table * 0x9e3779b97f4a7c15u;
        map_each(&known, hash, i) if (address.at[i] == edge->table) table = interned.at[i];
        if (table == NULL) {
            table = table_of(&core->tables, edge->table->nrows, edge->table->ncolumns, edge->table->at);
            map_add(arena, &known, hash, interned.n);
            vec_push(arena, &interned, table);
            vec_push(arena, &address, edge->table);
        }
        core_connect(core, edge->from, edge->to, table);
    }
    core_times(core);
}

double core_cost(const Core *core, const int *choice) {
    double cost = 0;
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
