/* Cuts of a chain against all that there are. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "search/chain.h"
#include "tests/random.h"

enum { MOST = 9 };

typedef struct RandomChain {
    int nplaces, nruns;
    double seconds[MOST][MOST][MOST], bytes[MOST][MOST][MOST]; /* [run][from][to] */
    bool allowed[MOST][MOST][MOST];
    double crossing[MOST], limit;
} RandomChain;

static bool random_run(const void *context, int k, int from, int to, ChainRun *run) {
    const RandomChain *it = context;
    *run = (ChainRun){it->seconds[k][from][to], it->bytes[k][from][to]};
    return it->allowed[k][from][to];
}

/* Small numbers make ties, and ties are where a wrong order of the three shows. */
static void chain_random(RandomChain *it, uint64_t *random) {
    memset(it, 0, sizeof *it);
    it->nplaces = 2 + (int)(random_next(random) % (MOST - 1));
    it->nruns = 1 + (int)(random_next(random) % 4);
    const uint64_t most = random_next(random) % 2 ? 4 : 1000, barred = random_next(random) % 3 * 10;
    it->limit = random_next(random) % 3 == 0 ? 0 : (double)(1 + random_next(random) % most);
    for (int k = 0; k < it->nruns; k++)
        for (int from = 0; from < it->nplaces; from++)
            for (int to = from + 1; to < it->nplaces; to++) {
                it->seconds[k][from][to] = (double)(random_next(random) % most);
                it->bytes[k][from][to] = (double)(random_next(random) % most);
                it->allowed[k][from][to] = random_next(random) % 100 >= barred;
            }
    for (int p = 0; p < it->nplaces; p++)
        it->crossing[p] = (double)(random_next(random) % most);
}

typedef struct Cost {
    double excess, seconds, crossing;
} Cost;

/* Infinite where a run must not be. */
static Cost cost_of(const RandomChain *it, const int *place) {
    Cost cost = {0};
    for (int k = 0; k < it->nruns; k++) {
        const int from = place[k], to = place[k + 1];
        if (!it->allowed[k][from][to]) return (Cost){INFINITY, INFINITY, INFINITY};
        if (it->limit > 0) cost.excess = fmax(cost.excess, it->bytes[k][from][to] - it->limit);
        cost.seconds = fmax(cost.seconds, it->seconds[k][from][to]);
        cost.crossing += k + 1 < it->nruns ? it->crossing[to] : 0;
    }
    return cost;
}

static bool is_less(Cost a, Cost b) {
    return a.excess != b.excess ? a.excess < b.excess : a.seconds != b.seconds ? a.seconds < b.seconds : a.crossing < b.crossing;
}

static void try_all(const RandomChain *it, int k, int *place, Cost *best) {
    if (k == it->nruns) {
        if (place[k - 1] >= it->nplaces - 1) return;
        place[k] = it->nplaces - 1;
        const Cost cost = cost_of(it, place);
        if (is_less(cost, *best)) *best = cost;
        return;
    }
    for (place[k] = place[k - 1] + 1; place[k] < it->nplaces; place[k]++)
        try_all(it, k + 1, place, best);
}

Test(chain, cuts_are_the_best_of_all) {
    int cut = 0, none = 0, beyond = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        RandomChain it;
        Arena arena;
        uint64_t random = seed;
        int place[MOST + 1] = {0}, tried[MOST + 1] = {0};
        Cost best = {INFINITY, INFINITY, INFINITY};
        arena_init(&arena);
        chain_random(&it, &random);
        try_all(&it, 1, tried, &best);
        const Chain chain = {
            .nplaces = it.nplaces, .nruns = it.nruns, .run = random_run, .context = &it, .crossing = it.crossing, .limit_bytes = it.limit};
        const bool found = chain_cut(&chain, &arena, place);
        cr_assert_eq(found, isfinite(best.seconds), "seed %llu", (unsigned long long)seed);
        if (found) {
            for (int k = 0; k < it.nruns; k++)
                cr_assert_lt(place[k], place[k + 1], "seed %llu", (unsigned long long)seed);
            cr_assert_eq(place[0], 0);
            cr_assert_eq(place[it.nruns], it.nplaces - 1);
            const Cost cost = cost_of(&it, place);
            cr_assert(!is_less(best, cost), "seed %llu: %g %g %g, and %g %g %g is possible", (unsigned long long)seed, cost.excess,
                      cost.seconds, cost.crossing, best.excess, best.seconds, best.crossing);
        }
        cut += found, none += !found, beyond += found && best.excess > 0;
        arena_finish(&arena);
    }
    cr_expect_gt(cut, 5000);
    cr_expect_gt(none, 500);
    cr_expect_gt(beyond, 500);
}
