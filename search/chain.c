#include "search/chain.h"

#include <math.h>

#define ROUNDING (1 + 1e-9)

typedef enum { BY_EXCESS, BY_SECONDS, BY_CROSSING } What;

/* A search among runs that are within the bests found before. */
typedef struct Search {
    const Chain *chain;
    double most_excess, most_seconds;
} Search;

static double excess(const Chain *chain, const ChainRun *run) {
    return chain->limit_bytes > 0 && run->bytes > chain->limit_bytes ? run->bytes - chain->limit_bytes : 0;
}

/* The cost of a run. False: it must not be, or exceeds these bests. */
static bool run_cost(const Search *s, What what, int k, int from, int to, double *cost) {
    ChainRun run;
    const Chain *chain = s->chain;
    if (!chain->run(chain->context, k, from, to, &run)) return false;
    const double beyond = excess(chain, &run);
    if (beyond > s->most_excess * ROUNDING || run.seconds > s->most_seconds * ROUNDING) return false;
    *cost = what == BY_EXCESS ? beyond : what == BY_SECONDS ? run.seconds : to + 1 < chain->nplaces ? chain->crossing[to] : 0;
    return true;
}

typedef struct Best {
    double cost; /* infinite: there is no way */
    int from;    /* where the last run begins */
} Best;

/* The least cost of all runs together; infinite where there are none. best: [nruns + 1][nplaces]. */
static double solve(const Search *s, What what, Best *best) {
    const int n = s->chain->nplaces, nruns = s->chain->nruns;
    for (int i = 0; i < n * (nruns + 1); i++)
        best[i] = (Best){INFINITY, -1};
    best[0].cost = 0;
    for (int k = 1; k <= nruns; k++)
        for (int from = k - 1; from < n; from++) {
            const double before = best[(k - 1) * n + from].cost;
            const int first = k == nruns ? n - 1 : from + 1; /* the last run ends at the end */
            if (!isfinite(before)) continue;
            for (int to = first > from ? first : from + 1; to < n; to++) {
                double cost;
                Best *now = &best[k * n + to];
                if (!run_cost(s, what, k - 1, from, to, &cost)) continue;
                cost = what == BY_CROSSING ? before + cost : fmax(before, cost);
                if (cost < now->cost) *now = (Best){cost, from};
            }
        }
    return best[nruns * n + n - 1].cost;
}

bool chain_cut(const Chain *chain, Arena *arena, int *place) {
    Search s = {chain, INFINITY, INFINITY};
    Best *best = arena_alloc(arena, sizeof *best * (size_t)(chain->nruns + 1) * (size_t)chain->nplaces);
    if (chain->nplaces < 2 || chain->nruns < 1) return false;
    if (chain->limit_bytes > 0) s.most_excess = solve(&s, BY_EXCESS, best);
    if (chain->limit_bytes > 0 && !isfinite(s.most_excess)) return false;
    s.most_seconds = solve(&s, BY_SECONDS, best);
    if (!isfinite(s.most_seconds)) return false;
    solve(&s, BY_CROSSING, best);
    place[chain->nruns] = chain->nplaces - 1;
    for (int k = chain->nruns; k > 0; k--)
        place[k - 1] = best[k * chain->nplaces + place[k]].from;
    return true;
}
