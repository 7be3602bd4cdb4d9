/* Tables on one rank: what lies there, who looks it up, and what is sent. */
#include "compile.h"

#include "compiler/facts.h"
#include "compiler/oracle.h"

#define NET                                                                                                                                \
    "cell table(index, rows, dim) { param weight : f32[rows, dim] = normal(0.1); return embedding(weight, index); }\n"                     \
    "net n(batch = 32, rows = 5000, dim = 8) { input c : i32[batch, 6]; input y : f32[batch, dim]; param w : f32[dim, dim] = ones %s;\n"   \
    "  s = y * 0; for i in 0..6 { e = table(c[:, i], rows, dim) %s; s = s + e; } loss mse(matmul(s, w), y); }\n"                           \
    "train { data = uniform(seed = 1); steps = 2; optimizer = %s; }\nparallel { %s }\n"

static void compile_tables(Compiled *x, const char *own, const char *tables, const char *optimizer, const char *parallel) {
    compiled_init(x, 4, 2);
    cr_assert(compiled_run(x, arena_printf(&x->arena, NET, own, tables, optimizer, parallel)), "%s", compiled_said(x));
}

static int64_t held(const Graph *g, int state, int rank) {
    Box box;
    layout_box(g->states.at[state].layout, &g->states.at[state].type.shape, rank, &box);
    return box_elements(&box);
}

Test(tables, a_table_and_its_slots_lie_on_their_rank_alone) {
    Compiled x;
    compile_tables(&x, "", "shard { weight = at(i % 3 + 1); }", "adam(lr = 0.1)", "");
    const Graph *g = x.graph;
    int64_t of_rank[4] = {0};
    for (int s = 0; s < g->states.n; s++) {
        const State *state = &g->states.at[s];
        if (state->type.shape.dim[0] != 5000) continue;
        const int i = g->states.at[state->parameter].name[2] - '0';
        for (int rank = 0; rank < 4; rank++) {
            cr_expect_eq(held(g, s, rank), rank == i % 3 + 1 ? 5000 * 8 : 0, "%s on rank %d", state->name, rank);
            of_rank[rank] += held(g, s, rank);
        }
    }
    cr_expect_eq(of_rank[0], 0);
    cr_expect_eq(of_rank[1], 2 * 3 * 5000 * 8, "two tables with two slots each");
    cr_expect_leq(x.b->facts->states, 4 * (of_rank[1] + 3 * 64), "no rank has all tables");
    compiled_finish(&x);
}

/* Every kernel that computes with a table is of its rank; indices and rows are what is sent, never a table. */
Test(tables, rows_are_sent_and_no_table) {
    static const char *const optimizers[] = {"sgd(lr = 0.1)", "lazy_adam(lr = 0.1)"};
    for (int k = 0; k < 2; k++) {
        Compiled x;
        int lookups = 0;
        compile_tables(&x, "", "shard { weight = at(i % 4); }", optimizers[k], "");
        for (int n = 0; n < x.graph->nodes.n; n++) {
            const Node *node = &x.graph->nodes.at[n];
            if (node->op != OP_embedding) continue;
            lookups++;
            cr_expect_eq(node->strategy->pin.digit.size, 4);
            const State *table = &x.graph->states.at[graph_producer(x.graph, node->in[0])->state];
            cr_expect(pin_equal(&node->strategy->pin, &table->layout->pin), "%s", table->name);
        }
        cr_expect_eq(lookups, 6);
        cr_expect_lt(x.b->facts->sent.total, 6 * 2 * 32 * 8 * 4 * 4, "%lld bytes", (long long)x.b->facts->sent.total);
        for (int i = 0; i < x.b->facts->communications.n; i++) {
            const Value *value = &x.graph->values.at[x.b->facts->communications.at[i].value];
            cr_expect_neq(value->type.shape.dim[0], 5000, "%s is sent", value->name);
        }
        compiled_finish(&x);
    }
}

/* What is no lookup takes the parameter by a conversion. */
Test(tables, other_operators_take_it_by_a_conversion) {
    Compiled x;
    compile_tables(&x, "shard at(2)", "", "sgd(lr = 0.1)", "");
    const int w = value_named(x.graph, "w");
    bool sent = false;
    for (int i = 0; i < x.b->facts->communications.n; i++)
        sent = sent || x.b->facts->communications.at[i].value == w;
    cr_expect(sent);
    cr_expect(layout_is_pinned(x.graph->values.at[w].layout));
    compiled_finish(&x);
}

/* Tables on as many ranks are looked up at the same time. */
Test(tables, lookups_of_other_ranks_take_no_time) {
    double kernels[2];
    for (int k = 0; k < 2; k++) {
        Compiled x;
        BuildCost cost;
        compile_tables(&x, "", k == 0 ? "shard { weight = at(0); }" : "shard { weight = at(i % 3); }", "sgd(lr = 0.1)", "");
        build_cost(x.b, &cost);
        kernels[k] = cost.kernel_s;
        compiled_finish(&x);
    }
    cr_expect_lt(kernels[1], kernels[0]);
}

/* In a pipeline rank 1 is that of the stage that looks up first. */
Test(tables, in_a_pipeline_they_lie_on_a_rank_of_their_stage) {
    Compiled x;
    bool stages[2] = {false};
    compile_tables(&x, "", "shard { weight = at(1 - i % 2); }", "adam(lr = 0.1); accumulate = 4", "stages = 2;");
    const Graph *g = x.graph;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_embedding || n >= g->nforward) continue;
        const Node *table = graph_producer(g, node->in[0]);
        const State *state = &g->states.at[table->state];
        const int at = (node->stage - 1) * 2 + 1 - (state->name[2] - '0') % 2;
        stages[node->stage - 1] = true;
        cr_expect_eq(node->stage, table->stage);
        cr_expect(pin_equal(&node->strategy->pin, &state->layout->pin));
        for (int s = 0; s < g->states.n; s++)
            for (int rank = 0; rank < 4 && g->states.at[s].parameter == table->state; rank++)
                cr_expect_eq(held(g, s, rank) > 0, rank == at, "%s on rank %d, of rank %d", g->states.at[s].name, rank, at);
    }
    cr_expect(stages[0] && stages[1]);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < x.b->role_facts[r].communications.n; i++) {
            const Value *value = &g->values.at[x.b->role_facts[r].communications.at[i].value];
            cr_expect_neq(value->type.shape.dim[0], 5000, "%s is sent", value->name);
        }
    compiled_finish(&x);
}

/* Each rank has just the part of the concatenation that it makes, and nothing of the others': nothing is sent, and the plan is proved. */
Test(tables, columns_lie_where_their_tables_are) {
    Compiled x;
    compiled_init(&x, 2, 2);
    cr_assert(compiled_run(&x, "net n(batch = 8) { input i : i32[batch]; input j : i32[batch]; input label : f32[batch, 8];\n"
                               "  param a : f32[16, 4] = ones shard at(0); param b : f32[16, 4] = ones shard at(1);\n"
                               "  y = concat(embedding(a, i), embedding(b, j), axis = 1) shard ((1, 2), (1, 2)); loss mse(y, label); }\n"
                               "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.1); }\n"),
              "%s", compiled_said(&x));
    const Graph *g = &x.b->spmd.graph;
    int nconverts = 0;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_concat || node->nin != 2 || g->values.at[node->out[0]].type.shape.dim[1] != 8) continue;
        for (int k = 0; k < 2; k++)
            nconverts += graph_producer(g, node->in[k])->op == OP_convert && !layout_is_pinned(g->values.at[node->in[k]].layout);
    }
    cr_expect_eq(nconverts, 2, "%d operands are there in a layout of all ranks", nconverts);
    compiled_finish(&x);
}
