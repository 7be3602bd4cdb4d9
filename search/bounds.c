/* bounds: removes choices with which every solution costs too much, judged by the least that all else costs. */
#include "search/solve.h"

#include <math.h>

static double least_of(const double *at, int n) {
    double least = INFINITY;
    for (int i = 0; i < n; i++)
        least = fmin(least, at[i]);
    return least;
}

/* The sum of the least costs of all spots and links, each by itself. */
static double core_least(const Core *core) {
    double sum = core->constant;
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone) continue;
        sum += least_of(spot->cost->at, spot->n);
        for (int k = 0; k < spot->links.n; k++)
            if (spot->links.at[k].to > v) sum += least_of(table_least(core->tables, spot->links.at[k].table), spot->n);
    }
    return sum;
}

/* Keeps the choices of a spot with which it and its links cost at most `room` more than the sum of their least costs. */
static void spot_drop(Core *core, int v, double room, int *kept) {
    const Spot *spot = &core->spot[v];
    double least = least_of(spot->cost->at, spot->n);
    int n = 0;
    for (int k = 0; k < spot->links.n; k++)
        least += least_of(table_least(core->tables, spot->links.at[k].table), spot->n);
    for (int c = 0; c < spot->n; c++) {
        double cost = spot->cost->at[c];
        for (int k = 0; k < spot->links.n; k++)
            cost += table_least(core->tables, spot->links.at[k].table)[c];
        if (cost - least <= room) kept[n++] = c;
    }
    *core->tables->work += (int64_t)spot->n * (1 + spot->links.n);
    if (n == 0)
        core->impossible = true;
    else if (n < spot->n)
        core_keep(core, v, kept, n);
}

void core_drop(Core *core, double most) {
    Arena scratch;
    int widest = 1;
    const double room = most - core_least(core);
    if (!(room > 0)) { /* or NaN, where costs are infinite */
        core->impossible = true;
        return;
    }
    arena_init(&scratch);
    for (int v = 0; v < core->n; v++)
        if (core->spot[v].n > widest) widest = core->spot[v].n;
    int *kept = arena_alloc(&scratch, (size_t)widest * sizeof *kept);
    for (int v = 0; v < core->n && !core->impossible; v++)
        if (!core->spot[v].gone && core->spot[v].n > 1) spot_drop(core, v, room, kept);
    arena_finish(&scratch);
}
