/* What exchanges into halos move, against their pieces one by one. */
#include <criterion/criterion.h>

#include "strategies/pair.h"
#include "tests/strategies/pairs.h"

typedef struct Counts {
    int64_t received[64], sent[64];
    Links links[64]; /* of what a rank receives */
} Counts;

enum { RANKS_PER_NODE = 4 };

static bool count(void *context, const Piece *piece) {
    Counts *counts = context;
    if (piece->from == piece->to) return true;
    counts->received[piece->to] += piece->count;
    counts->sent[piece->from] += piece->count;
    Links *links = &counts->links[piece->to];
    *(piece->from / RANKS_PER_NODE == piece->to / RANKS_PER_NODE ? &links->near : &links->far) += 1;
    return true;
}

static Traffic traffic_of(const int64_t *bytes, int nranks) {
    Traffic traffic = {0};
    for (int rank = 0; rank < nranks; rank++) {
        traffic.total += bytes[rank];
        traffic.max = max64(traffic.max, bytes[rank]);
    }
    return traffic;
}

/* One or both of the last two dimensions are divided by windows, of which some see nothing of the dimension, and some all. False: the layout divides neither. */
static bool random_halos(uint64_t *seed, Layout *layout, const Shape *shape) {
    bool any = false;
    for (int i = 0; i < HALO_DIMS; i++) {
        const int dim = shape->ndim - HALO_DIMS + i;
        if (layout_count(layout, dim) == 0 || random_below(seed, 4) == 0) continue;
        layout->halo[i] = (Halo){HALO_SEES, 1 + random_below(seed, (int)shape->dim[dim] + 3), 1 + random_below(seed, 3),
                                 random_below(seed, 4), random_below(seed, 4)};
        any = true;
    }
    return any;
}

Test(halo, exchanges_are_counted_exactly) {
    static const int ranks[] = {2, 4, 6, 8, 12, 16, 64};
    Machine machine = machine_cpu;
    int checked = 0, moved = 0;
    machine.ranks_per_node = RANKS_PER_NODE;
    for (int i = 0; i < 4000; i++) {
        uint64_t seed = (uint64_t)i * 1000003 + 17;
        const int nranks = ranks[random_below(&seed, 7)];
        Shape shape = {.ndim = 3};
        Layout from, to;
        Pair pair;
        for (int d = 0; d < 3; d++)
            shape.dim[d] = 1 + random_below(&seed, 40);
        random_source(&seed, nranks, -1, &from);
        random_target(&seed, nranks, -1, &from, &to);
        if (!random_halos(&seed, &to, &shape) || !pair_init(&pair, &from, &to, &shape, nranks, NULL)) continue;
        cr_assert(halo_counts(&pair) && !pair.refined);
        Counts counts = {0};
        for (int rank = 0; rank < nranks; rank++)
            pieces_received(&from, &to, &shape, nranks, rank, count, &counts);
        double latency = 0;
        for (int rank = 0; rank < nranks; rank++)
            latency = links_latency(&machine, counts.links[rank]) > latency ? links_latency(&machine, counts.links[rank]) : latency;
        Traffic received, sent;
        Links links;
        halo_count(&machine, &pair, &received, &sent, &links);
        const Traffic all = traffic_of(counts.received, nranks), out = traffic_of(counts.sent, nranks);
        cr_assert(received.total == all.total && received.max == all.max && sent.total == out.total && sent.max == out.max,
                  "case %d: received %lld, at most %lld; sent %lld, at most %lld; counted %lld %lld %lld %lld", i,
                  (long long)received.total, (long long)received.max, (long long)sent.total, (long long)sent.max, (long long)all.total,
                  (long long)all.max, (long long)out.total, (long long)out.max);
        cr_assert_float_eq(links_latency(&machine, links), latency, 1e-12, "case %d: %lld near and %lld far", i, (long long)links.near,
                           (long long)links.far);
        checked++;
        moved += received.total > 0;
    }
    cr_expect(checked > 2000 && moved > 1000, "%d exchanges, of which %d move something", checked, moved);
}
