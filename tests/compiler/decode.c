/* The graph of one place of a text: what is kept, what is read at the place, and that the program has what the plan says. */
#include "compile.h"

#define NET(head, body, more)                                                                                                              \
    "net n(batch = 4, places = 6) { input text : i32[batch, places]; input next : i32[batch, places];\n"                                   \
    "  param letter : f32[11, 8] = normal(0.5); param where_ : f32[places, 8] = normal(0.5); " head                                        \
    " x = embedding(letter, text) + where_;\n" body                                                                                        \
    " logits = matmul(y, letter, transpose_b = true); loss cross_entropy(logits, next); }\n"                                               \
    "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); }\n"                                                                     \
    "generate { text = text; logits = logits; top_k = 3; temperature = 0.5; " more " }\n"
#define ATTENTION "y = dot_product_attention(x, x * 2, x, causal = true);"

static const Graph *decoded(const Compiled *x) {
    cr_assert_not_null(program_generate(&x->c));
    return &program_generate(&x->c)->sharded.graph;
}

static int caches(const Graph *g) {
    int n = 0;
    for (int s = 0; s < g->states.n; s++)
        n += g->states.at[s].cache;
    return n;
}

Test(decode, keys_and_values_are_kept_and_nothing_else) {
    Compiled x;
    compiled(&x, NET("", ATTENTION, ""), 2, 2);
    const Graph *g = decoded(&x);
    cr_expect_eq(caches(g), 2);
    cr_expect_eq(caches(x.graph), 0, "training has none");
    cr_expect_eq(count_op(g, OP_write), 2);
    for (int s = 0; s < g->states.n; s++) {
        if (!g->states.at[s].cache) continue;
        cr_expect_eq(g->states.at[s].type.shape.dim[1], 6, "all places");
        cr_expect_eq(g->states.at[s].parameter, s);
        cr_expect_geq(s, x.graph->states.n, "behind the optimizer's");
    }
    compiled_finish(&x);
}

/* A step writes the place that it computes, and touches nothing else of a cache. */
Test(decode, caches_are_written_where_they_lie) {
    Compiled x;
    compiled(&x, NET("", ATTENTION, ""), 2, 2);
    const Program *program = &x.c.plan.programs.at[plan_find(&x.c.plan, "generate")];
    const Role *role = &program->roles.at[0];
    int written = 0;
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind != STEP_KERNEL || step->op != OP_put) continue;
        const Instance *old = &role->instances.at[step->in[0]], *new = &role->instances.at[step->out[0]];
        cr_expect(old->place == PLACE_STATE && new->place == PLACE_STATE && old->at == new->at && program->graph->states.at[new->at].cache);
        written++;
    }
    cr_expect_eq(written, 2);
    compiled_finish(&x);
}

Test(decode, every_value_but_the_kept_ones_is_of_one_place) {
    Compiled x;
    compiled(
        &x, NET("const mask : f32[places, places] = causal(-1e9);", "y = matmul(softmax(matmul(x, x, transpose_b = true) + mask), x);", ""),
        1, 2);
    const Graph *g = decoded(&x);
    cr_expect_eq(caches(g), 1, "one value is read twice, and kept once");
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        const Shape *shape = &g->values.at[node->out[0]].type.shape;
        if (node->op == OP_matmul || node->op == OP_add || node->op == OP_softmax)
            cr_expect_eq(shape->dim[shape->ndim - 2], 1, "%s", node->name);
    }
    cr_expect_eq(g->reports.n, 1);
    cr_expect_str_eq(g->reports.at[0].name, "logits");
    cr_expect_eq(g->loss, -1);
    compiled_finish(&x);
}

/* What only the logits need is not computed: neither attention, whose result nothing keeps, nor what follows it. */
Test(decode, a_prompt_leaves_the_caches_of_many_places_and_computes_nothing_else) {
    Compiled x, y;
    compiled(&x, NET("", ATTENTION, "chunk = 4;"), 2, 0);
    const Graph *one = decoded(&x), *g = &program_prompt(&x.c)->sharded.graph;
    cr_expect_eq(g->reports.n, 0);
    cr_expect_eq(g->loss, -1);
    cr_expect_eq(count_op(g, OP_write), 2);
    cr_expect_eq(count_op(g, OP_matmul), 0);
    cr_expect_eq(count_op(g, OP_dot_product_attention), 0);
    cr_assert_eq(g->states.n, one->states.n);
    for (int s = 0; s < g->states.n; s++) {
        cr_expect_str_eq(g->states.at[s].name, one->states.at[s].name);
        cr_expect_eq(g->states.at[s].cache, one->states.at[s].cache);
        cr_expect(layout_equal(g->states.at[s].layout, one->states.at[s].layout), "%s", g->states.at[s].name);
    }
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_add) cr_expect_eq(g->values.at[g->nodes.at[n].out[0]].type.shape.dim[1], 4, "%s", g->nodes.at[n].name);
    compiled(&y, NET("", ATTENTION, "chunk = 1;"), 2, 2);
    cr_expect_null(program_prompt(&y.c));
    cr_expect_eq(x.c.net_hash, y.c.net_hash, "the net is the same");
    compiled_finish(&x);
    compiled_finish(&y);
}

Test(decode, the_plan_says_how_tokens_are_drawn) {
    Compiled x;
    compiled(&x, NET("", ATTENTION, "seed = 5; end = 10; alphabet = \"abcdefghij.\";"), 2, 2);
    const int program = plan_find(&x.c.plan, "generate");
    cr_assert_geq(program, 0);
    const Settings *settings = &x.c.plan.programs.at[program].graph->settings;
    cr_expect_eq(settings->top_k, 3);
    cr_expect_eq(settings->temperature, 0.5);
    cr_expect_eq(settings->draw_seed, 5);
    cr_expect_eq(settings->end, 10);
    cr_expect_str_eq(settings->alphabet, "abcdefghij.");
    compiled_finish(&x);
}

Test(decode, a_strategy_that_fits_one_place_is_that_of_training) {
    Compiled x;
    compiled(&x,
             NET("param w : f32[8, 8] = normal(0.5);",
                 "k = matmul(x, w) shard ((1, 1, 1), (1, 4)); y = dot_product_attention(x, k, x, causal = true);", ""),
             4, 2);
    const Graph *g = decoded(&x);
    for (int n = 0; n < g->nodes.n; n++) {
        if (strcmp(g->nodes.at[n].name, "k") != 0) continue;
        cr_expect_eq(strategy_split(g->nodes.at[n].strategy, g->nodes.at[n].rule->in[1][1]), 4);
    }
    compiled_finish(&x);
}

Test(decode, in_mode_data_parallel_each_rank_has_all_and_in_mode_manual_there_is_none) {
    Compiled x, y;
    compiled(&x, NET("", ATTENTION, "") "parallel { mode = data_parallel; }", 2, 2);
    const Graph *g = decoded(&x);
    for (int v = 0; v < g->values.n; v++)
        cr_expect(!g->values.at[v].type.hidden && layout_is_whole(g->values.at[v].layout));
    cr_expect_eq(count_op(g, OP_convert), 0);
    compiled_finish(&x);
    compiled(&y, NET("", ATTENTION, "") "parallel { mode = manual; }", 2, 2);
    cr_expect_null(program_generate(&y.c));
    compiled_finish(&y);
}

/* Its cost is that of the rows, and no fused step takes it for an elementwise operator. */
Test(decode, put_writes_rows_into_a_tensor) {
    cr_expect_eq(op_rows(OP_put), op_in(OP_put, "rows"));
    cr_expect_not(op_elementwise(OP_put));
}
