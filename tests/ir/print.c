#include "ir/text.h"
#include "tests/ir/random.h"
#include "tests/ir/sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include "tests/attrs.h"

Test(print, doubles_are_short_and_exact) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-5, "-5"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e100, "1e+100"},
        {0.01, "0.01"},
        {(double)0.1f, "0.10000000149011612"},
        {5e-324, "4.94065645841247e-324"},
        {1e300 * 1e10, "inf"},
        {999999999999999, "999999999999999"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Text text = {0};
        put_double(&text, cases[i].value);
        cr_assert_str_eq(text.at, cases[i].text);
        text_finish(&text);
    }
}

Test(print, random_doubles_read_back) {
    uint64_t seed = 7;
    for (int i = 0; i < 10000; i++) {
        uint64_t bits = random_next(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (value != value) continue;
        Text text = {0};
        put_double(&text, value);
        cr_assert_eq(strtod(text.at, NULL), value, "%s", text.at);
        text_finish(&text);
    }
}

Test(print, integers_reach_their_limits) {
    Text text = {0};
    put_int(&text, INT64_MIN);
    put(&text, " ");
    put_int(&text, INT64_MAX);
    put(&text, " ");
    put_int(&text, 0);
    cr_assert_str_eq(text.at, "-9223372036854775808 9223372036854775807 0");
    text_finish(&text);
}

Test(print, words_are_bare_or_quoted) {
    static const char *const cases[][2] = {
        {"encoder.layer.0/w-1", "encoder.layer.0/w-1"}, {"", "\"\""}, {"a b", "\"a b\""}, {"a\"\\\n", "\"a\\\"\\\\\\x0a\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Text text = {0};
        put_word(&text, cases[i][0]);
        cr_assert_str_eq(text.at, cases[i][1]);
        text_finish(&text);
    }
}

Test(print, attributes_are_those_given) {
    Attr attr[MAX_ATTRS] = {{0}};
    Node node = {.op = OP_matmul, .attr = attr};
    Text text = {0};
    put(&text, "");
    attr_print(&text, OP_matmul, &node);
    cr_assert_str_eq(text.at, "");
    attr[1] = (Attr){.given = true, .i = 1};
    attr_print(&text, OP_matmul, &node);
    cr_assert_str_eq(text.at, "{transpose_b: 1}");
    text_finish(&text);
}

Test(print, nodes_say_all_they_have) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    sample_graph(&graph, &arena);
    Text text = {0};
    graph_print(&text, &graph);
    cr_assert_eq(strncmp(text.at, "pcc-graph 1\nnet sample\n", 23), 0);
    cr_assert(strstr(text.at, "\n  node 3 matmul (%0, %1) -> %3 h f32[4, 1] layout=2 strategy=user(2@4, 2@2.2@1, -) @9:9\n"), "%s",
              text.at);
    cr_assert(strstr(text.at,
                     "\n  node 9 einsum (%8, %0) -> %9 w.grad f32[8, 1] layout=1 {spec: \"mn,mk->kn\"} origin=3 factors=(0, 2, 1) @9:9\n"));
    cr_assert(strstr(text.at, "\nlayout 2 [2@4 -] +sum(4@1)\n"));
    cr_assert(strstr(text.at, "\nstate 3 u f32[2, 2] init=uniform(-0.1, 0.3333333333333333) layout=0\n"));
    text_finish(&text);
    arena_finish(&arena);
}

Test(print, values_are_numbered_by_definition_whatever_passes_left) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    sample_graph(&graph, &arena);
    Text before = {0}, after = {0};
    graph_print(&before, &graph);
    /* A value without a node, and the results of the last two nodes numbered the other way round. */
    vec_push(&arena, &graph.values, (Value){.name = "dead", .type = sample_type(1, 1), .node = -1});
    Node *last = &graph.nodes.at[graph.nodes.n - 1], *other = last - 1;
    Value swapped = graph.values.at[last->out[0]];
    graph.values.at[last->out[0]] = graph.values.at[other->out[0]];
    graph.values.at[other->out[0]] = swapped;
    int id = last->out[0];
    last->out[0] = other->out[0];
    other->out[0] = id;
    graph_print(&after, &graph);
    cr_assert_str_eq(after.at, before.at);
    text_finish(&before);
    text_finish(&after);
    arena_finish(&arena);
}

static uint64_t hash_of(void (*change)(Graph *)) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    sample_graph(&graph, &arena);
    if (change) change(&graph);
    uint64_t hash = graph_hash(&graph);
    arena_finish(&arena);
    return hash;
}

static void change_ranks(Graph *g) {
    g->nranks = 1;
}
static void change_strategy(Graph *g) {
    g->nodes.at[3].strategy = NULL, g->nodes.at[3].from = STRATEGY_BATCH;
}
static void change_layouts(Graph *g) {
    for (int i = 0; i < g->values.n; i++)
        g->values.at[i].layout = NULL;
    for (int i = 0; i < g->states.n; i++)
        g->states.at[i].layout = NULL;
    g->inputs.at[0].layout = NULL;
}
static void change_places(Graph *g) {
    g->nodes.at[3].span = (Span){0, 77, 1, 1}, g->states.at[0].span.line = 5, g->file = "other";
}
static void change_mode(Graph *g) {
    g->settings.mode = MODE_SEMI_AUTO, g->settings.mesh.n = 0, g->settings.log_every = 7, g->settings.dataset = DATASET_AUTO;
}

Test(print, the_hash_does_not_see_sharding) {
    uint64_t hash = hash_of(NULL);
    cr_assert_eq(hash_of(change_ranks), hash);
    cr_assert_eq(hash_of(change_strategy), hash);
    cr_assert_eq(hash_of(change_layouts), hash);
    cr_assert_eq(hash_of(change_places), hash);
    cr_assert_eq(hash_of(change_mode), hash);
}

static void change_replicas(Graph *g) {
    g->replicas = 8;
}
static void change_attr(Graph *g) {
    own_attrs(g, &g->nodes.at[10])[0].f = 0.2;
}
static void change_op(Graph *g) {
    g->nodes.at[4].op = OP_tanh;
}
static void change_init(Graph *g) {
    g->states.at[0].init.a = 0.02;
}
static void change_data(Graph *g) {
    g->settings.data_seed = 2;
}
static void change_seed(Graph *g) {
    g->settings.seed = 2;
}
static void change_shape(Graph *g) {
    g->inputs.at[0].type.shape.dim[0] = 8;
}
static void change_constant(Graph *g) {
    static const double other[] = {0.1, -2, 1e-30, 4};
    g->nodes.at[5].data = other;
}
static void change_operand(Graph *g) {
    g->nodes.at[6].in[0] = 3;
}

Test(print, the_hash_sees_the_net) {
    void (*const changes[])(Graph *) = {change_replicas, change_attr,  change_op,       change_init,   change_data,
                                        change_seed,     change_shape, change_constant, change_operand};
    uint64_t hash = hash_of(NULL);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        cr_assert_neq(hash_of(changes[i]), hash, "change %zu", i);
}
