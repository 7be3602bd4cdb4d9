/* What stands for operators whose rows are split: which nodes, on which operands, with whose factors. That they compute the same is shown
 * over the field (tests/proof/graphs.c) and by running them (tests/ops). */
#include "tests/ir/expansion.h"

static Arena arena;
static Graph graph;
static int x, dy, nleaves;

static void start(void) {
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph.nranks = 1;
    x = expansion_input(&graph, "x", (Shape){3, {4, 6, 3}});
    dy = expansion_input(&graph, "dy", (Shape){3, {4, 6, 3}});
    nleaves = graph.nodes.n;
}
static void stop(void) {
    arena_finish(&arena);
}
TestSuite(softmax, .init = start, .fini = stop);

/* A node that is not in the graph, as a pass has it at hand. */
static Node alone(OpCode op, const int *in, int nin, int axis, int origin) {
    Node node = {.op = op, .nin = nin, .name = origin < 0 ? "y" : "x.grad", .origin = origin};
    own_attrs(&graph, &node)[0] = (Attr){.given = axis >= 0, .i = axis};
    memcpy(node.in, in, sizeof *in * (size_t)nin);
    return node;
}

static int expand(OpCode op, const int *in, int nin, int axis, int origin) {
    const Node node = alone(op, in, nin, axis, origin);
    int out[MAX_OUT];
    op_table[op].expand_split(&graph, &node, out);
    cr_assert_eq(graph.values.at[out[0]].node, graph.nodes.n - 1, "the last node is what gradients reuse");
    cr_assert(shape_equal(&graph.values.at[out[0]].type.shape, &graph.values.at[x].type.shape));
    return out[0];
}

static const Node *named(const char *name) {
    for (int v = 0; v < graph.values.n; v++)
        if (strcmp(graph.values.at[v].name, name) == 0) return &graph.nodes.at[graph.values.at[v].node];
    cr_assert_fail("no %s", name);
    return NULL;
}

Test(softmax, softmax_is_exponentials_over_their_sum) {
    expand(OP_softmax, &x, 1, -1, -1);
    expansion_expect(&graph, nleaves, "max(x) sub(x y.max) exp(y.shifted) sum(y.exp) div(y.exp y.sum)");
    cr_expect(shape_equal(&named("y.sum")->rule->result[0].shape, &(Shape){3, {4, 6, 1}}));
}

Test(softmax, log_softmax_takes_the_logarithm_of_the_sum_off) {
    expand(OP_log_softmax, &x, 1, 1, -1);
    expansion_expect(&graph, nleaves, "max(x) sub(x y.max) exp(y.shifted) sum(y.exp) log(y.sum) sub(y.shifted y.log)");
    cr_expect(shape_equal(&named("y.max")->rule->result[0].shape, &(Shape){3, {4, 1, 3}}));
}

Test(softmax, gradients_reduce_once_and_have_the_factors_of_the_last_node) {
    static const OpCode ops[][2] = {{OP_softmax, OP_softmax_grad}, {OP_log_softmax, OP_log_softmax_grad}};
    static const char *const expected[] = {"mul(y.div dy) sum(x.grad.mul) sub(dy x.grad.sum) mul(y.div x.grad.sub)",
                                           "sum(dy) div(x.grad.sum y.sum) mul(y.exp x.grad.div) sub(dy x.grad.mul)"};
    for (int k = 0; k < 2; k++) {
        stop(), start();
        int y = expand(ops[k][0], &x, 1, 1, -1), first = graph.nodes.n, last = first - 1;
        expand(ops[k][1], (int[]){y, dy}, 2, 1, last);
        expansion_expect(&graph, first, expected[k]);
        for (int n = first; n < graph.nodes.n; n++) {
            const Node *node = &graph.nodes.at[n], *origin = &graph.nodes.at[last];
            const Shape *shape = &graph.values.at[node->in[0]].type.shape;
            cr_expect_eq(node->origin, last);
            for (int d = 0; d < 3; d++)
                if (node->rule->in[0][d] >= 0 && shape->dim[d] > 1)
                    cr_expect_eq(node->origin_factor[node->rule->in[0][d]], origin->rule->out[0][d], "node %d, dimension %d", n, d);
        }
    }
}
