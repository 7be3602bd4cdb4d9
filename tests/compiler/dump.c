#include "compile.h"

static const Stage execute = {.name = "execute", .shown = SHOW_SPMD, .local = true};

static bool has(const Text *text, const char *what) {
    return strstr(text->at, what) != NULL;
}

Test(dump, local_shapes_and_groups_are_those_of_the_rank) {
    Compiled x;
    Text text = {0};
    compiled(&x, quickstart, 8, 0);
    dump_rank(&text, x.b, &execute, 0);
    cr_expect(has(&text, ": (<Tensor[Float32], (8, 8)>, <Tensor[Float32], (8, 16)>) -> (<Tensor[Float32], (8, 16)>)"));
    cr_expect(has(&text, "group: 4-0-1-2-3, rank_list: (0, 1, 2, 3)"));
    cr_expect(has(&text, "StridedSlice(%3, (0, 0), (8, 4), (1, 1)) {instance name: redistribution_op_3StridedSlice}"));
    cr_expect(has(&text, "{instance name: forward_op_2}"));
    text_finish(&text);
    text = (Text){0};
    dump_rank(&text, x.b, &execute, 5);
    cr_expect(has(&text, "group: 4-4-5-6-7"));
    cr_expect(has(&text, "StridedSlice(%3, (0, 4), (8, 8), (1, 1))"));
    text_finish(&text);
    compiled_finish(&x);
}

Test(dump, strategies_say_who_chose_them) {
    Compiled x;
    Text text = {0};
    compiled(&x, quickstart, 8, 2);
    dump_rank(&text, x.b, &execute, 0);
    cr_expect(has(&text, "primitive_attrs: {in_strategy: ((2, 4), (4, 1))} {in_strategy: ((2, 4), (4, 1))} {strategy: user}"));
    cr_expect(has(&text, "{instance name: a} {in_strategy: ((2, 4))} {strategy: propagated}"));
    text_finish(&text);
    compiled_finish(&x);
}

Test(dump, the_spmd_form_reads_back) {
    for (int i = 0; i < NNETS; i++) {
        Compiled x;
        Error error;
        Graph graph;
        Text first = {0}, second = {0};
        compiled(&x, nets[i], 4, 2);
        graph_print(&first, &x.b->spmd.graph);
        cr_assert(graph_read(&graph, &x.arena, "test.spmd", first.at, first.n, &error), "net %d: %s", i, error.text);
        graph_print(&second, &graph);
        cr_expect_str_eq(first.at, second.at);
        text_finish(&first);
        text_finish(&second);
        compiled_finish(&x);
    }
}

Test(dump, nothing_changes_from_run_to_run) {
    Compiled x, y;
    Text first = {0}, second = {0};
    compiled(&x, quickstart, 8, 2);
    compiled(&y, quickstart, 8, 2);
    dump_rank(&first, x.b, &execute, 3);
    dump_rank(&second, y.b, &execute, 3);
    cr_expect_str_eq(first.at, second.at);
    text_finish(&first);
    text_finish(&second);
    compiled_finish(&x);
    compiled_finish(&y);
}
