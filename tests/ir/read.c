#include "ir/text.h"
#include "tests/ir/sample.h"

#include <criterion/criterion.h>

static char *sample_text(Arena *arena) {
    Graph graph;
    Text text = {0};
    sample_graph(&graph, arena);
    graph_print(&text, &graph);
    char *copy = arena_copy(arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

Test(read, what_was_printed_prints_the_same) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    Graph graph;
    Error error = {0};
    cr_assert(graph_read(&graph, &arena, "g", text, strlen(text), &error), "%s", error.text);
    Text again = {0};
    graph_print(&again, &graph);
    cr_assert_str_eq(again.at, text);
    text_finish(&again);
    arena_finish(&arena);
}

Test(read, what_matters_comes_back) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    Graph graph;
    Error error = {0};
    cr_assert(graph_read(&graph, &arena, "g", text, strlen(text), &error), "%s", error.text);
    cr_assert_eq(graph.nranks, 8);
    cr_assert_str_eq(graph.file, "nets/a \"quoted\"\tname.dsl");
    cr_assert_eq(graph.settings.seed, UINT64_MAX);
    cr_assert_eq(graph.states.at[1].parameter, 0);
    cr_assert_not(graph.states.at[1].trainable);
    cr_assert_eq(graph.states.at[2].init.data[3], 0x1.fffffep-3);
    const Node *matmul = &graph.nodes.at[3], *gradient = &graph.nodes.at[9];
    cr_assert_eq(strategy_count(matmul->strategy, 1), 2);
    cr_assert_eq(matmul->span.line, 9);
    cr_assert_eq(gradient->origin, 3);
    cr_assert_eq(gradient->origin_factor[1], 2);
    cr_assert_eq(matmul->rule->nfactors, 3);
    cr_assert_str_eq(gradient->attr[0].text, "mn,mk->kn");
    cr_assert_eq(graph.nodes.at[5].data[2], 1e-30);
    cr_assert_eq(graph_layout_number(&graph, graph.values.at[3].layout), 2);
    arena_finish(&arena);
}

Test(read, places_in_imported_files_come_back) {
    Arena arena;
    arena_init(&arena);
    Graph graph, again;
    Error error = {0};
    Text text = {0}, second = {0};
    sample_graph(&graph, &arena);
    for (int i = 0; i < 4; i++)
        vec_push(&arena, &graph.files, i == 1 ? "lib/nn.dsl" : i == 3 ? "h.dsl" : NULL); /* 2: a flag */
    graph.nodes.at[3].span = (Span){.file = 1, .line = 12, .column = 5};
    graph.states.at[0].span = (Span){.file = 3, .line = 2, .column = 1};
    graph.nodes.at[4].span = (Span){.file = 2, .line = 1, .column = 1};
    graph_print(&text, &graph);
    cr_assert(graph_read(&again, &arena, "g", text.at, text.n, &error), "%s", error.text);
    cr_expect_str_eq(graph_file(&again, again.nodes.at[3].span), "lib/nn.dsl");
    cr_expect_eq(again.nodes.at[3].span.line, 12);
    cr_expect_str_eq(graph_file(&again, again.states.at[0].span), "h.dsl");
    cr_expect_eq(again.nodes.at[4].span.line, 0, "a flag is no file");
    graph_print(&second, &again);
    cr_expect_str_eq(second.at, text.at);
    text_finish(&text);
    text_finish(&second);
    arena_finish(&arena);
}

Test(read, constants_and_data_per_rank_with_a_hidden_dimension_come_back) {
    Arena arena;
    arena_init(&arena);
    Graph graph, read;
    static const double rows[] = {1, 2, 3, 4, 5, 6};
    graph_init(&graph, &arena);
    graph.name = "hidden";
    graph.nranks = 2;
    graph.replicas = 2;
    graph.settings.data = DATA_PER_RANK;
    graph_add_input(&graph, (Input){.name = "x", .type = {F64, true, {2, {2, 3}}}, .per_rank = rows});
    graph_input(&graph, 0);
    Text text = {0}, again = {0};
    graph_print(&text, &graph);
    cr_assert(strstr(text.at, "input 0 x f64[2 | 3] per_rank=(1, 2, 3, 4, 5, 6)\ndata per_rank\n"), "%s", text.at);
    Error error = {0};
    cr_assert(graph_read(&read, &arena, "g", text.at, text.n, &error), "%s", error.text);
    graph_print(&again, &read);
    cr_assert_str_eq(again.at, text.at);
    char *bad = sample_replace(&arena, text.at, "replicas 2", "replicas 3");
    cr_assert_not(graph_read(&read, &arena, "g", bad, strlen(bad), &error));
    cr_assert(strstr(error.text, "the hidden dimension is 2, the number of replicas 3"), "%s", error.text);
    text_finish(&text);
    text_finish(&again);
    arena_finish(&arena);
}

Test(read, what_an_index_is_drawn_from_comes_back) {
    Arena arena;
    arena_init(&arena);
    Graph graph, read;
    graph_init(&graph, &arena);
    graph.name = "indices";
    graph.nranks = 1;
    const int nothing = graph_input(&graph, graph_add_input(&graph, (Input){.name = "n", .type = {I32, false, {1, {4}}}}));
    const int known = graph_input(&graph, graph_add_input(&graph, (Input){.name = "k", .type = {I64, false, {1, {4}}}, .index = {-2, 7}}));
    cr_assert(nothing != known);
    Text text = {0}, again = {0};
    graph_print(&text, &graph);
    cr_assert(strstr(text.at, "input 0 n i32[4]\ninput 1 k i64[4] index=(-2, 7)\n"), "%s", text.at);
    Error error = {0};
    cr_assert(graph_read(&read, &arena, "g", text.at, text.n, &error), "%s", error.text);
    graph_print(&again, &read);
    cr_assert_str_eq(again.at, text.at);
    static const char *const wrong[][2] = {{"i64[4] index=(-2, 7)", "i64[4] index=(-2, -2)"},
                                           {"i64[4] index=(-2, 7)", "i64[4] index=(7, -2)"},
                                           {"i64[4] index=(-2, 7)", "f64[4] index=(-2, 7)"},
                                           {"n i32[4]", "n i32[4] index=(0, 2147483649)"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *bad = sample_replace(&arena, text.at, wrong[i][0], wrong[i][1]);
        cr_assert_not(graph_read(&read, &arena, "g", bad, strlen(bad), &error), "%s", bad);
    }
    graph.inputs.at[1].index = (IndexRange){0};
    const uint64_t hash = graph_hash(&graph); /* follows from the nodes: plans of older versions keep their hash */
    graph.inputs.at[1].index = (IndexRange){-2, 7};
    cr_assert_eq(graph_hash(&graph), hash);
    text_finish(&text);
    text_finish(&again);
    arena_finish(&arena);
}

/* Each edit of the sample is refused with this message. */
static const struct {
    const char *old, *fresh, *message;
} refused[] = {
    {"pcc-graph 1", "pcc-graph 2", "g:1: this is format 2 of graphs; format 1 is read here"},
    {"pcc-graph 1", "net x {", "g: not a graph: its first line is not 'pcc-graph 1'"},
    {"net sample", "nett sample", "g:2: unknown key 'nett'; expected 'net'"},
    {"ranks 8\n", "ranks 8\nranks 8\n", "g:5: 'ranks' is out of place here"},
    {"ranks 8", "ranks 0", "g:4: the number of ranks is 0; it must be 1 to 65536"},
    {"ranks 8", "ranks 4", "the layout is not valid: a digit does not divide the number of ranks"},
    {"ranks 8", "ranks 99999999999999999999", "the number of ranks is 99999999999999999999"},
    {"mode=auto", "mode=magic", "g:6: unknown mode 'magic'"},
    {"search=", "foo=1 search=", "g:6: unknown key 'foo'; expected 'search='"},
    {"epochs=5", "epochs=1e9", "epochs"},
    {"lr=0.4", "lr=1e999", "lr is too large: 1e999"},
    {"layout 1 [2@4 -]", "layout 7 [2@4 -]", "the number of a layout is 7 where 1 is next"},
    {"layout 1 [2@4 -]", "layout 1 [2@4 2@4]", "the layout is not valid"},
    {"layout 1 [2@4 -]", "layout 1 [3@1 -]", "the layout is not valid"},
    {"layout 1 [2@4 -]", "layout 1 [2@4 -", "this is no layout"},
    {"layout 1 [2@4 -]", "layout 1 [2@4 -] x", "expected the end of the line"},
    {"layout 1 [2@4 -]", "layout 1 [2@4 -] %order1", "expected the end of the line"},
    {"init=zeros layout=0", "init=zeros layout=9", "the number of a layout is 9"},
    {"init=zeros layout=0", "init=zeros layout=3", "layout 3 has 0 dimensions, the tensor has 2"},
    {"init=zeros", "init=twos", "unknown initial value 'twos'"},
    {"init=literal(1, ", "init=literal(", "the literal has 3 numbers, its type 4"},
    {"init=literal(1, ", "init=literal(1, 1, ", "the literal has more than the 4 numbers"},
    {"parameter=0", "parameter=5", "state 1 belongs to state 5, which does not exist"},
    {"state 1", "state 0", "the number of a state is 0 where 1 is next"},
    {"input 0 x f32[4, 8]", "input 0 x f32[4, 9]", "node 0 input: its result 0 is f32[4, 9]"},
    {"data numpy_rand", "data per_rank", "input 0 has no per_rank data"},
    {"data numpy_rand seed=1 rows=2\n", "", "expected 'data'"},
    {"loss=%7", "loss=%14", "the loss %14 is no value of the graph"},
    {"forward=8", "forward=14", "14 forward nodes of 13 nodes"},
    {"node 4 relu", "node 4 relux", "unknown operator 'relux'"},
    {"node 4 relu (%3)", "node 4 relu (%4)", "operand is 4; it must be 0 to 3"},
    {"node 4 relu (%3)", "node 4 relu (%3, %3)", "relu has 1 operands, not 2"},
    {"-> %4 a f32[4, 1] layout=1", "", "relu has 1 results, not 0"},
    {"-> %4 a", "-> %5 a", "the number of a value is 5 where 4 is next"},
    {"-> %4 a f32[4, 1]", "-> %4 a f32[4, 2]", "node 4 relu: its result 0 is f32[4, 1]"},
    {"read state=0 version=0", "read state=0 version=2", "a version is 2; it must be 0 to 1"},
    {"read state=0 version=0", "read state=5 version=0", "a state is 5; it must be 0 to 4"},
    {"{value: 0.25}", "{valued: 0.25}", "constant has no attribute 'valued'"},
    {"{value: 0.25}", "{value: 0.25, value: 1}", "the attribute 'value' is there a second time"},
    {"matmul (%0, %1)", "matmul (%0, %0)", "node 3 matmul: "},
    {"(2@4, 2@2.2@1, -)", "(2@4, 2@2.2@1)", "the strategy has 2 factors, the operator 3"},
    {"(2@4, 2@2.2@1, -)", "(2@4, 2@2.2@1, -, -)", "the strategy is longer than the 3 factors"},
    {"(2@4, 2@2.2@1, -)", "(2@4, 2@4, -)", "the strategy is not valid: two digits overlap"},
    {"(2@4, 2@2.2@1, -)", "(2@4, 5@1, -)", "the digit 5@1 does not divide 8 ranks"},
    {"origin=3", "origin=9", "the origin is 9; it must be 0 to 8"},
    {"factors=(0, 2, 1)", "factors=(0, 2, 3)", "a factor of the origin is 3"},
    {"factors=(0, 2, 1)", "factors=(0, 2)", "expected ','"},
    {"write state=0 (%10)", "write state=3 (%10)", "node 11 write: its operand has another type than state 3"},
    {"name=momentum_1", "nam=momentum_1", "unknown key 'nam'"},
    {"@2:11\ndata", "@2:\ndata", "a column"},
};

Test(read, every_mistake_is_refused_with_its_line) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *bad = sample_replace(&arena, text, refused[i].old, refused[i].fresh);
        Graph graph;
        Error error = {0};
        cr_expect_not(graph_read(&graph, &arena, "g", bad, strlen(bad), &error), "accepted: %s", refused[i].fresh);
        cr_expect(strstr(error.text, refused[i].message), "%s: saw \"%s\"", refused[i].fresh, error.text);
        cr_expect_eq(error.code, EXIT_REJECTED);
    }
    arena_finish(&arena);
}

Test(read, any_prefix_and_any_wrong_byte_is_survived) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        Arena own;
        arena_init(&own);
        Graph graph;
        Error error = {0};
        graph_read(&graph, &own, "g", text, i, &error);
        static const char wrong[] = {'\0', '\n', '"', '9', '-', '('};
        for (size_t w = 0; w < sizeof wrong; w++) {
            char saved = text[i];
            text[i] = wrong[w];
            graph_read(&graph, &own, "g", text, n, &error);
            text[i] = saved;
        }
        arena_finish(&own);
    }
    arena_finish(&arena);
}
