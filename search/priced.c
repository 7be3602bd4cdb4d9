/* priced: finds a solution that fits by prices alone (a Lagrangean relaxation, whose factor is found by bisection). */
#include "search/solve.h"

#include <math.h>
#include <string.h>

/* The problem without its limit, but with `factor` times the prices for the bytes that choices hold. */
static void price_problem(Problem *priced, const Problem *problem, const double *price, int ntimes, double factor, Arena *arena) {
    *priced = *problem;
    priced->limit_bytes = 0;
    priced->most = 0;
    priced->variables.at = arena_alloc(arena, (size_t)problem->variables.n * sizeof *priced->variables.at);
    double *from = arena_alloc(arena, ((size_t)ntimes + 1) * sizeof *from); /* the sum of the prices before each time */
    for (int time = 0; time < ntimes; time++)
        from[time + 1] = from[time] + price[time];
    for (int v = 0; v < problem->variables.n; v++) {
        const Variable *variable = &problem->variables.at[v];
        priced->variables.at[v] = *variable;
        if (variable->bytes == NULL || variable->begin >= variable->end) continue;
        double *cost = arena_alloc(arena, (size_t)variable->nchoices * sizeof *cost);
        double each = factor * (from[variable->end] - from[variable->begin]);
        for (int i = 0; i < variable->nchoices; i++)
            cost[i] = variable->cost[i] + each * (double)variable->bytes[i];
        priced->variables.at[v].cost = cost;
    }
}

bool search_priced(Search *s, const Dual *dual, int64_t work_end, int *cheaper) {
    enum { ROUNDS = 12, ROUND_WORK = 1 << 27 };
    const Problem *problem = s->problem;
    Arena arena;
    arena_init(&arena);
    size_t n = (size_t)problem->variables.n;
    int ntimes = 0;
    for (int v = 0; v < problem->variables.n; v++)
        if (problem->variables.at[v].end > ntimes) ntimes = problem->variables.at[v].end;
    double *price = arena_alloc(&arena, ((size_t)ntimes + 1) * sizeof *price), most = 0, low = 0, high = INFINITY, factor = 1;
    for (int k = 0; k < dual->ntimes; k++)
        if (dual->best_price[k] > most) most = dual->best_price[k];
    if (most == 0) most = dual->first_step > 0 ? dual->first_step : 1;
    for (int time = 0; time < ntimes; time++) /* a small one even where the dual has found no need for it */
        price[time] = 1e-3 * most;
    for (int k = 0; k < dual->ntimes; k++)
        price[dual->time[k]] += dual->best_price[k];
    for (int round = 0; round < ROUNDS && s->work < work_end && high > 1.002 * low; round++) {
        Problem priced;
        price_problem(&priced, problem, price, ntimes, factor, &arena);
        Search one = {.problem = &priced, .work = s->work, .choice = arena_alloc(&arena, n * sizeof(int))};
        one.base = one.choice;
        double bound;
        int64_t work = (work_end - one.work) / 3;
        bool exact = search_problem(&one, one.work + (work < ROUND_WORK ? work : ROUND_WORK), &bound);
        s->work = one.work;
        if (!one.found || (s->found && !exact)) break; /* other ways find better ones then */
        if (problem_peak(problem, one.choice) <= problem->limit_bytes) {
            high = factor;
            double cost = problem_cost(problem, one.choice);
            if (!s->found || cost < s->cost) {
                s->found = true, s->cost = cost;
                memcpy(s->choice, one.choice, n * sizeof *s->choice);
            }
        } else {
            low = factor;
            memcpy(cheaper, one.choice, n * sizeof *cheaper);
        }
        factor = isinf(high) ? 4 * factor : low == 0 ? factor / 4 : sqrt(low * high);
    }
    arena_finish(&arena);
    return low > 0 && isfinite(high);
}
