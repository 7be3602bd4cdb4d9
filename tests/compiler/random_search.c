/* What auto takes on random nets with random hints, on 2 to 12 ranks, against what it could have taken: propagation, and the batch split beside the hints. */
#include <math.h>

#include "compile.h"
#include "compiler/oracle.h"
#include "tests/nets/net.h"

enum { NETS = 400 }; /* PCC_NETS: so many */

/* What the net costs under a search, or a mode; false: it is rejected. */
static bool cost_under(const char *net, const FuzzNet *from, const char *mode, const char *search, BuildCost *cost) {
    Compiled x;
    compiled_init(&x, fuzz_ranks(from), 2);
    x.options.no_plan = true;
    x.options.prove = false; /* tests/run/nets.c proves such nets */
    x.options.silenced = ~0u;
    x.options.machine = from->machine != NULL ? machine_named(from->machine) : NULL;
    x.options.overrides.mode = mode;
    x.options.overrides.search = search;
    const bool done = compiled_run(&x, net);
    if (done) build_cost(x.b, cost);
    compiled_finish(&x);
    return done;
}

Test(random_search, auto_takes_no_longer_than_propagation_and_the_batch_split) {
    const int nnets = getenv("PCC_NETS") != NULL ? atoi(getenv("PCC_NETS")) : NETS;
    int compared = 0, faster = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)nnets; seed++) {
        Arena arena;
        FuzzNet net;
        Text text = {0};
        BuildCost found, other[2];
        static const char *const name[] = {"propagation", "the batch split"};
        arena_init(&arena);
        fuzz_make(&net, &arena, seed);
        net.mode = MODE_AUTO;
        net.search = NULL;
        fuzz_print(&text, &net);
        const bool done = cost_under(text.at, &net, "auto", "auto", &found) &&
                          cost_under(text.at, &net, "auto", "sharding_propagation", &other[0]) &&
                          cost_under(text.at, &net, "semi_auto", NULL, &other[1]);
        for (int k = 0; done && k < 2; k++) {
            cr_expect(found.step_s <= ABOUT * other[k].step_s, "auto %g s, %s %g s (x %.4f)\n%s", found.step_s, name[k], other[k].step_s,
                      found.step_s / other[k].step_s, text.at);
            cr_expect(found.step_s <= 1.0001 * other[k].step_s || found.sent_bytes < other[k].sent_bytes,
                      "auto %g s, %lld bytes, %s %g s, %lld bytes\n%s", found.step_s, (long long)found.sent_bytes, name[k], other[k].step_s,
                      (long long)other[k].sent_bytes, text.at);
        }
        compared += done;
        faster += done && ABOUT * found.step_s < fmin(other[0].step_s, other[1].step_s);
        text_finish(&text);
        arena_finish(&arena);
    }
    cr_expect_gt(compared, nnets * 9 / 10, "%d of %d nets are compared", compared, nnets);
    cr_expect_gt(faster, nnets / 20, "of %d nets auto finds a faster plan of %d", compared, faster);
}
