#include "search/problem.h"

double problem_cost(const Problem *problem, const int *choice) {
    double cost = 0;
    for (int v = 0; v < problem->variables.n; v++)
        cost += problem->variables.at[v].cost[choice[v]];
    for (int e = 0; e < problem->edges.n; e++) {
        const Edge *edge = &problem->edges.at[e];
        cost += edge->table->at[choice[edge->from] * edge->table->ncolumns + choice[edge->to]];
    }
    return cost;
}

int64_t problem_peak(const Problem *problem, const int *choice) {
    int end = 0;
    for (int v = 0; v < problem->variables.n; v++)
        if (problem->variables.at[v].end > end) end = problem->variables.at[v].end;
    Arena arena;
    arena_init(&arena);
    int64_t *change = arena_alloc(&arena, ((size_t)end + 1) * sizeof *change), held = 0, peak = 0; /* at each time, of the bytes held */
    for (int v = 0; v < problem->variables.n; v++) {
        const Variable *variable = &problem->variables.at[v];
        if (variable->bytes == NULL || variable->begin >= variable->end) continue;
        change[variable->begin] += variable->bytes[choice[v]];
        change[variable->end] -= variable->bytes[choice[v]];
    }
    for (int time = 0; time < end; time++) {
        held += change[time];
        if (held > peak) peak = held;
    }
    arena_finish(&arena);
    return peak;
}
