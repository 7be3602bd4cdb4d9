/* What conversions take: as the model of pass search counts them, and as the timeline of a compiled net does. */
#include "search/moves.h"

#include <math.h>

#include "compile.h"
#include "compiler/facts.h"
#include "compiler/oracle.h"
#include "compiler/timeline.h"

/* The conversion of h alone, as the model counts it and as the timeline of the compiled net does. */
static void expect_same_seconds(const char *made, const char *needed, int nranks) {
    Compiled x;
    char net[1024];
    snprintf(net, sizeof net,
             "net n() { input x : f32[96, 96]; param w : f32[96, 96] = normal(0.1);\n"
             "  h = matmul(x, w) shard (%s); loss mean(square(relu(h) shard (%s))); }\n" TRAIN "parallel { mode = semi_auto; }",
             made, needed);
    compiled(&x, net, nranks, 2);
    build_time(x.b);
    const Graph *g = &x.b->front.chosen;
    const int h = value_named(g, "h");
    const Node *product = graph_producer(g, h), *relu = product + 1;
    cr_assert(relu->op == OP_relu && relu->in[0] == h);
    Layout from, to;
    strategy_out_layout(product, product->strategy, 0, 2, &from);
    strategy_in_layout(relu, relu->strategy, 0, 2, &to);
    Moves *moves = moves_create(&x.arena, NULL, nranks);
    const TensorType *type = &g->values.at[h].type;
    const double expected = moves_seconds(moves, moves_layout(moves, type, &from), moves_layout(moves, type, &to), INFINITY);
    double exposed = 0;
    for (int k = 0; k < x.b->facts->communications.n; k++)
        if (x.b->facts->communications.at[k].value == h) exposed += x.b->timeline->exposed_by[k];
    cr_expect_float_eq(exposed, expected, 1e-9 * expected, "%s -> %s on %d ranks: %g s, %g in the model", made, needed, nranks, exposed,
                       expected);
    cr_expect_gt(expected, 0);
    compiled_finish(&x);
}

static Layout layout_of(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden));
    return layout;
}

/* Of a conversion that takes longer than anybody would have it, it is enough to know so; who would have it looks again. */
Test(moves, a_conversion_is_planned_as_far_as_it_may_take) {
    Arena arena;
    arena_init(&arena);
    static const char *const layouts[] = {"[- -]", "[512@1 -]", "[- 512@1]", "[64@8 8@1]", "[- -] +sum(512@1)", "[64@8 -] +sum(8@1)"};
    const TensorType type = {.dtype = F32, .shape = {.ndim = 2, .dim = {5000, 3000}}};
    Moves *all = moves_create(&arena, &machine_gpu8, 512), *some = moves_create(&arena, &machine_gpu8, 512);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 4; k++) {
            const Layout a = layout_of(layouts[i]), b = layout_of(layouts[k]);
            const int x = moves_layout(all, &type, &a), y = moves_layout(all, &type, &b), u = moves_layout(some, &type, &a),
                      v = moves_layout(some, &type, &b);
            const double exact = moves_seconds(all, x, y, INFINITY);
            const double least = moves_seconds(some, u, v, exact / 2);
            cr_expect(least >= exact / 2 && least <= exact, "%s -> %s: %g s, not %g", layouts[i], layouts[k], least, exact);
            cr_expect_eq(moves_seconds(some, u, v, 2 * exact), exact, "%s -> %s", layouts[i], layouts[k]);
            cr_expect_eq(moves_seconds(some, u, v, exact / 2), exact, "what is known is not forgotten");
        }
    arena_finish(&arena);
}

/* Threads plan what one plans, and as much of it. */
Test(moves, threads_plan_the_same_conversions) {
    Arena arena;
    arena_init(&arena);
    static const char *const layouts[] = {
        "[- -]",    "[512@1 -]",   "[- 512@1]", "[64@8 8@1]",        "[8@1.64@8 -]",       "[8@64 64@1]",        "[2@1.4@128 64@2]",
        "[- 64@8]", "[256@2 2@1]", "[4@1 -]",   "[- -] +sum(512@1)", "[64@8 -] +sum(8@1)", "[- 8@1] +sum(64@8)", "[2@256 -] +sum(256@1)"};
    enum { N = sizeof layouts / sizeof *layouts };
    Error error;
    Pool *pool = pool_create(3, &error);
    cr_assert_not_null(pool);
    Moves *alone = moves_create(&arena, &machine_gpu8, 512), *shared = moves_create(&arena, &machine_gpu8, 512),
          *joined[] = {moves_joined(alone, &machine_gpu8, 5), moves_joined(shared, &machine_gpu8, 5)};
    moves_share(shared, pool);
    moves_share(joined[1], pool);
    for (int round = 0; round < 4; round++) { /* each again with more to be known */
        Moves *one = round < 2 ? alone : joined[0], *many = round < 2 ? shared : joined[1];
        const double most = round % 2 == 0 ? 1e-4 : INFINITY;
        const int before[] = {moves_planned(one), moves_planned(many)};
        for (int again = 0; again < 2; again++)
            for (int i = 0; i < N * N; i++) {
                const TensorType type = {.dtype = F32, .shape = {.ndim = 2, .dim = {5000, 3000 + i % 2}}};
                const Layout a = layout_of(layouts[i / N]), b = layout_of(layouts[i % N]);
                if (again == 0) moves_want(many, moves_layout(many, &type, &a), moves_layout(many, &type, &b));
                if (again == 0 && i % 5 == 0) /* alone meanwhile, and exactly */
                    moves_seconds(many, moves_layout(many, &type, &a), moves_layout(many, &type, &b), INFINITY),
                        moves_seconds(one, moves_layout(one, &type, &a), moves_layout(one, &type, &b), INFINITY);
                if (again == 1)
                    cr_assert_eq(moves_seconds(many, moves_layout(many, &type, &a), moves_layout(many, &type, &b), most),
                                 moves_seconds(one, moves_layout(one, &type, &a), moves_layout(one, &type, &b), most), "%s -> %s",
                                 layouts[i / N], layouts[i % N]);
                if (again == 0 && i == N * N - 1) {
                    moves_plan(many, most);
                    cr_assert_gt(moves_planned(many), before[1] + 20);
                }
            }
        cr_assert_eq(moves_planned(many) - before[1], moves_planned(one) - before[0]);
    }
    moves_finish(shared);
    moves_finish(joined[1]);
    pool_destroy(pool);
    arena_finish(&arena);
}

/* A machine with a part of the latencies shares what is counted on the one with all of them. */
Test(moves, fewer_latencies_count_the_same_messages) {
    Arena arena;
    arena_init(&arena);
    static const char *const layouts[] = {"[- -]", "[24@1 -]", "[- 24@1]", "[3@8 8@1]", "[8@3 3@1]", "[3@8 -] +sum(8@1)"};
    const TensorType type = {.dtype = F32, .shape = {.ndim = 2, .dim = {5000, 3000}}};
    Machine few = machine_gpu8;
    few.rank.latency_s /= 26;
    few.node.latency_s /= 26;
    Moves *all = moves_create(&arena, &machine_gpu8, 24);
    Moves *const joined[] = {moves_joined(all, &few, 26), moves_create(&arena, &few, 24)};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 5; k++) {
            const Layout a = layout_of(layouts[i]), b = layout_of(layouts[k]);
            MoveSeconds seconds[2];
            for (int j = 0; j < 2; j++)
                seconds[j] = moves_both(joined[j], moves_layout(joined[j], &type, &a), moves_layout(joined[j], &type, &b), INFINITY);
            cr_expect_float_eq(seconds[0].messages_s, seconds[1].messages_s, 1e-12 * seconds[1].messages_s, "%s -> %s: %g s, not %g",
                               layouts[i], layouts[k], seconds[0].messages_s, seconds[1].messages_s);
            cr_expect_eq(seconds[0].bytes_s, seconds[1].bytes_s, "%s -> %s", layouts[i], layouts[k]);
        }
    arena_finish(&arena);
}

Test(moves, a_conversion_takes_as_long_as_when_it_is_compiled) {
    static const char *const made[] = {"(8, 1), (1, 1)", "(1, 8), (8, 1)", "(2, 4), (4, 1)", "(5, 1), (1, 1)", "(1, 4), (4, 2)"};
    static const char *const needed[] = {"(1, 8)", "(2, 4)", "(1, 5)"};
    static const int nranks[] = {40, 80, 960};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++)
                expect_same_seconds(made[i], needed[k], nranks[r]);
}
