/* Operators with several results that do not lie alike: from strategies to conversions. */
#include "compiler/sharded.h"

#include "compile.h"
#include "proof/field.h"
#include "tests/two_results.h"

/* A program of inputs and operators alone, made by hand. */
static Graph *by_hand(Compiled *x, int nranks) {
    compiled_init(x, nranks, 2);
    x->b = arena_alloc(&x->arena, sizeof *x->b);
    build_init(x->b, "train", &x->arena, &x->options, &x->diags);
    x->graph = &x->b->front.graph;
    graph_init(x->graph, &x->arena);
    x->graph->nranks = nranks;
    x->graph->settings.mode = MODE_AUTO;
    x->graph->settings.search = "sharding_propagation";
    return x->graph;
}

static int input(Graph *g, const char *name, int64_t rows, int64_t columns) {
    return graph_input(g, graph_add_input(g, (Input){.name = name, .type = {F32, false, {2, {rows, columns}}}}));
}

static int emit(Graph *g, OpCode op, int a, int b, const char *name) {
    return graph_emit(g, op, (int[]){a, b}, b < 0 ? 1 : 2, NULL, name, (Span){0});
}

/* Splits the first factors of a value's maker by a digit each; none where its size is 1. */
static void split(Graph *g, int value, const Digit *digits, int n) {
    Node *node = &g->nodes.at[g->values.at[value].node];
    Strategy strategy = {.nfactors = node->rule->nfactors};
    for (int f = 0; f < n; f++)
        if (digits[f].size > 1) strategy_append(&strategy, f, digits[f]);
    node->from = STRATEGY_PROPAGATED;
    node->strategy = graph_strategy(g, &strategy);
}

/* Two operators in place of the one. */
static void product_then_sum(Graph *g, const Node *node, int *out) {
    const Attr rows[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {0}}};
    out[0] = graph_emit(g, OP_mul, node->in, 2, NULL, "product", node->span);
    out[1] = graph_emit(g, OP_sum, out, 1, rows, "total", node->span);
}

static ExpandFn *of_two_results(const Graph *g, int id) {
    return g->nodes.at[id].nout == 2 ? product_then_sum : NULL;
}

/* The passes from strategies to the graph with conversions; the invariants after each. */
static void run(Compiled *x, bool expanded) {
    static bool (*const passes[])(Build *) = {pass_assign, pass_updates, pass_partial, pass_place};
    Error error = {0};
    x->graph->nforward = x->graph->nodes.n;
    cr_assert(pass_propagate(x->b) && pass_expand(x->b));
    if (expanded) {
        cr_assert(graph_expand(x->graph, of_two_results, NULL));
        cr_assert(graph_verify(x->graph, "expand", &error), "%s", error.text);
        x->b->front.out_layout = NULL;
    }
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        cr_assert(passes[i](x->b));
        cr_assert(sharded_verify(&x->b->sharded, "a pass", &error), "%s", error.text);
    }
    cr_assert(pass_collectives(x->b), "%s", x->b->error.text);
    x->graph = &x->b->sharded.graph;
}

/* y is split as its operands are, its sums are reduced over the ranks that have other rows; as one operator, or as two. */
Test(results, one_result_is_a_sum_that_is_owed_and_the_other_is_not) {
    for (int expanded = 0; expanded < 2; expanded++) {
        Compiled x;
        Graph *g = by_hand(&x, 8);
        const int id = add_product_and_sum(g, input(g, "x", 16, 8), input(g, "z", 16, 8), "y");
        split(g, emit(g, OP_relu, g->nodes.at[id].out[0], -1, "a"), (Digit[]){{4, 2}, {2, 1}}, 2);
        split(g, emit(g, OP_square, g->nodes.at[id].out[1], -1, "b"), (Digit[]){{2, 1}}, 1);
        split(g, g->nodes.at[id].out[0], (Digit[]){{4, 2}, {2, 1}}, 2);
        run(&x, expanded);
        const int y = value_named(x.graph, "y"), sum = value_named(x.graph, "y.sum");
        cr_expect_eq(count_op(x.graph, OP_sum), expanded);
        assert_layout(x.b->sharded.made[y], "[4@2 2@1]");
        assert_layout(x.b->sharded.made[sum], "[2@1] +sum(4@2)");
        assert_layout(x.b->sharded.home[sum], "[2@1]");
        cr_expect_eq(count_op(&x.b->spmd.graph, OP_convert), 1);
        cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_ALL_REDUCE), 1);
        const Layout *made = x.b->sharded.made[sum];
        Error error = {0};
        x.b->sharded.made[sum] = x.b->sharded.home[sum];
        cr_expect_not(sharded_verify(&x.b->sharded, "forgetting it", &error));
        x.b->sharded.made[sum] = made, x.b->sharded.made[y] = graph_layout(x.graph, made, &(Shape){1, {8}});
        cr_expect_not(sharded_verify(&x.b->sharded, "giving the other result's layout", &error));
        compiled_finish(&x);
    }
}

/* x owes a sum over half of the ranks. The product is linear in it: both of its results owe that sum, the second its own beside. */
Test(results, both_results_owe_what_an_operand_does) {
    Compiled x;
    Graph *g = by_hand(&x, 8);
    int product = emit(g, OP_matmul, input(g, "u", 16, 32), input(g, "w", 32, 8), "x");
    const int id = add_product_and_sum(g, product, input(g, "z", 16, 8), "y");
    int y = g->nodes.at[id].out[0], sum = g->nodes.at[id].out[1];
    split(g, emit(g, OP_square, sum, -1, "b"), NULL, 0);
    split(g, product, (Digit[]){{4, 2}, {2, 1}}, 2);
    split(g, y, (Digit[]){{4, 2}}, 1);
    run(&x, false);
    assert_layout(x.b->sharded.made[product], "[4@2 -] +sum(2@1)");
    assert_layout(x.b->sharded.need[id][0], "[4@2 -] +sum(2@1)");
    assert_layout(x.b->sharded.made[y], "[4@2 -] +sum(2@1)");
    assert_layout(x.b->sharded.made[sum], "[-] +sum(8@1)");
    cr_expect_eq(count_op(&x.b->spmd.graph, OP_convert), 1);
    compiled_finish(&x);
}

/* What a rank computes of its parts, and sums of nothing where it has no row. */
static void product_and_sum(const Fe *x, const Fe *z, const Box *box, Fe *y, Fe *sum) {
    const int64_t rows = box->end[0] - box->begin[0], columns = box->end[1] - box->begin[1];
    for (int64_t c = 0; c < columns; c++)
        sum[c] = 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        y[i] = fe_mul(x[i], z[i]);
        sum[i % columns] = fe_add(sum[i % columns], y[i]);
    }
}

static void try_strategy(Graph *g, const Node *node, const Strategy *strategy) {
    const Shape *shape = &node->rule->result[0].shape, *columns = &node->rule->result[1].shape;
    Layout in[2], out[2];
    Spread x[2] = {{0}}, y[2] = {{0}};
    Fe whole[2][64], product[64], sum[8];
    char why[512];
    const Box all = {.ndim = 2, .begin = {0, 0}, .end = {shape->dim[0], shape->dim[1]}};
    for (int i = 0; i < 2; i++) {
        strategy_in_layout(node, strategy, i, 2, &in[i]);
        cr_assert(spread_room(&x[i], &in[i], shape, g->nranks));
        spread_draw(&in[i], shape, F32, g->nranks, (uint64_t)i + 1, &x[i], whole[i]);
        strategy_out_layout(node, strategy, i, i == 0 ? 2 : 1, &out[i]);
        cr_assert(spread_room(&y[i], &out[i], i == 0 ? shape : columns, g->nranks));
    }
    product_and_sum(whole[0], whole[1], &all, product, sum);
    for (int rank = 0; rank < g->nranks; rank++) {
        Box box;
        layout_box(&in[0], shape, rank, &box);
        product_and_sum(spread_rank(&x[0], rank), spread_rank(&x[1], rank), &box, spread_rank(&y[0], rank), spread_rank(&y[1], rank));
    }
    cr_expect(spread_agrees(&out[0], shape, g->nranks, &y[0], product, why, sizeof why), "%s", why);
    cr_expect(spread_agrees(&out[1], columns, g->nranks, &y[1], sum, why, sizeof why), "%s", why);
    for (int i = 0; i < 2; i++)
        spread_finish(&x[i]), spread_finish(&y[i]);
}

Test(results, results_of_every_strategy_are_what_one_rank_computes) {
    static const int64_t shapes[][2] = {{8, 6}, {7, 5}, {3, 8}};
    static const int ranks[] = {1, 2, 3, 4, 6, 8};
    int tried = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
            Compiled x;
            Graph *g = by_hand(&x, ranks[r]);
            const int id =
                add_product_and_sum(g, input(g, "x", shapes[s][0], shapes[s][1]), input(g, "z", shapes[s][0], shapes[s][1]), "y");
            const Candidates all = candidates(&g->nodes.at[id], ranks[r], g->arena);
            for (int i = 0; i < all.n; i++, tried++)
                try_strategy(g, &g->nodes.at[id], &all.at[i]);
            compiled_finish(&x);
        }
    cr_expect_gt(tried, 30);
}
