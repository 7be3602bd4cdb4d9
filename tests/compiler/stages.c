/* Stages: which operators a stage has, what its ranks hold, and when they compute what. */
#include "compile.h"

#include <math.h>

#include "compiler/facts.h"
#include "compiler/oracle.h"
#include "compiler/timeline.h"

#define LAYERS "h1 = tanh(matmul(x, w1)); h2 = tanh(matmul(h1, w2)); h3 = tanh(matmul(h2, w3)); h4 = tanh(matmul(h3, w4));"
#define NET_OF(train, parallel)                                                                                                            \
    "net n(batch = 64) { input x : f32[batch, 64]; param w1 : f32[64, 64] = normal(0.1); param w2 : f32[64, 64] = normal(0.1);\n"          \
    "  param w3 : f32[64, 64] = normal(0.1); param w4 : f32[64, 64] = normal(0.1); " LAYERS " loss mean(h4 * h4); }\n"                     \
    "train { data = normal(seed = 1); steps = 2; optimizer = adam(lr = 0.01); " train "}\nparallel { " parallel " }\n"

static int stage_of(const Graph *g, const char *name) {
    const int v = value_named(g, name);
    cr_assert_geq(v, 0, "%s", name);
    return graph_producer(g, v)->stage;
}

Test(stages, equal_layers_are_cut_into_equal_stages) {
    Compiled x;
    compiled(&x, NET_OF("", "stages = 2;"), 4, 2);
    static const struct {
        const char *value;
        int stage;
    } expected[] = {{"h1", 1}, {"h2", 1}, {"h3", 2}, {"h4", 2}, {"w1", 1}, {"w2", 1}, {"w3", 2}, {"w4", 2}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_expect_eq(stage_of(x.graph, expected[i].value), expected[i].stage, "%s", expected[i].value);
    compiled_finish(&x);
}

Test(stages, the_ranks_of_a_stage_hold_its_parameters_and_slots_alone) {
    Compiled x;
    compiled(&x, NET_OF("", "stages = 4;"), 8, 2);
    const Graph *g = x.graph;
    int held[8] = {0};
    for (int s = 0; s < g->states.n; s++)
        for (int rank = 0; rank < 8; rank++) {
            Box box;
            layout_box(g->states.at[s].layout, &g->states.at[s].type.shape, rank, &box);
            held[rank] += box_elements(&box) > 0 && g->states.at[s].type.shape.ndim == 2;
        }
    for (int rank = 0; rank < 8; rank++)
        cr_expect_eq(held[rank], 3, "rank %d holds %d: a parameter and its two slots", rank, held[rank]);
    for (int r = 0; r < 4; r++)
        cr_expect_lt(x.b->role_facts[r].states, 4 * 64 * 64 * 4);
    compiled_finish(&x);
}

Test(stages, a_role_has_the_kernels_of_its_stage) {
    Compiled x;
    compiled(&x, NET_OF("micro_batches = 4; ", "stages = 4;"), 4, 2);
    const Program *program = &x.c.plan.programs.at[0];
    cr_assert_eq(program->roles.n, 4);
    int times[4096] = {0};
    for (int r = 0; r < 4; r++) {
        const Role *role = &program->roles.at[r];
        int products = 0;
        cr_expect_eq(role->first_rank, r);
        cr_expect_eq(role->last_rank, r);
        for (int s = 0; s < role->steps.n; s++) {
            if (role->steps.at[s].kind != STEP_KERNEL) continue;
            times[role->steps.at[s].node]++;
            products += role->steps.at[s].op == OP_matmul;
        }
        cr_expect_eq(products, 4, "one a batch");
    }
    for (int n = 0; n < x.graph->nodes.n && n < 4096; n++)
        cr_expect_leq(times[n], 1, "node %d is computed by %d stages", n, times[n]);
    compiled_finish(&x);
}

/* The forward products and gradients of each batch, as a role computes them: "F0 F1 B0 ..". */
static const char *order_of(Compiled *x, int role) {
    const Role *r = &x->c.plan.programs.at[0].roles.at[role];
    const char *order = "";
    int batches[2] = {0};
    for (int s = 0; s < r->steps.n; s++) {
        const OpCode op = r->steps.at[s].op;
        if (r->steps.at[s].kind != STEP_KERNEL || (op != OP_tanh && op != OP_tanh_grad)) continue;
        order = arena_printf(&x->arena, "%s%s%c%d", order, *order ? " " : "", op == OP_tanh ? 'F' : 'B', batches[op != OP_tanh]++);
    }
    return order;
}

Test(stages, batches_come_in_the_order_of_1f1b) {
    Compiled x;
    compiled(&x, NET_OF("micro_batches = 4; ", "stages = 4;"), 4, 2);
    cr_expect_str_eq(order_of(&x, 0), "F0 F1 F2 F3 B0 B1 B2 B3");
    cr_expect_str_eq(order_of(&x, 1), "F0 F1 F2 B0 F3 B1 B2 B3");
    cr_expect_str_eq(order_of(&x, 2), "F0 F1 B0 F2 B1 F3 B2 B3");
    cr_expect_str_eq(order_of(&x, 3), "F0 B0 F1 B1 F2 B2 F3 B3");
    compiled_finish(&x);
    compiled(&x, NET_OF("micro_batches = 4; ", "stages = 4; pipeline_scheduler = gpipe;"), 4, 2);
    for (int r = 0; r < 4; r++)
        cr_expect_str_eq(order_of(&x, r), "F0 F1 F2 F3 B0 B1 B2 B3");
    compiled_finish(&x);
}

/* A net of four equal layers of which the products take nearly all time, and activations nearly all memory. */
static const char *large_net(Compiled *x, int batches, const char *parallel) {
    return arena_printf(
        &x->arena,
        "net n(batch = 65536, d = 8192) { input data : f32[batch, d]; param s : f32[d] = ones; param w1 : f32[d, d] = normal(0.1);\n"
        "  param w2 : f32[d, d] = normal(0.1); param w3 : f32[d, d] = normal(0.1); param w4 : f32[d, d] = normal(0.1);\n"
        "  x = data * s; " LAYERS " loss mean(h4); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.01); micro_batches = %d; }\nparallel { %s }\n",
        batches, parallel);
}

/* With 1f1b a stage holds activations of no more batches than there are stages behind it, with gpipe those of all. */
Test(stages, one_forward_one_backward_holds_fewer_activations) {
    Compiled few, all;
    compiled_init(&few, 2, 2);
    compiled_init(&all, 2, 2);
    cr_assert(compiled_run(&few, large_net(&few, 16, "stages = 2;")));
    cr_assert(compiled_run(&all, large_net(&all, 16, "stages = 2; pipeline_scheduler = gpipe;")));
    for (int r = 0; r < 2; r++)
        cr_expect_lt(2 * few.b->role_facts[r].role->arena_bytes, all.b->role_facts[r].role->arena_bytes, "role %d", r);
    compiled_finish(&few);
    compiled_finish(&all);
}

/* p stages and m batches: (p - 1) / (m + p - 1) of a step, where stages are equal. */
Test(stages, the_bubble_is_that_of_the_formula) {
    for (int batches = 2; batches <= 32; batches *= 2)
        for (int gpipe = 0; gpipe < 2; gpipe++) {
            Compiled x;
            compiled_init(&x, 4, 2);
            x.options.machine = &machine_gpu8;
            cr_assert(compiled_run(&x, large_net(&x, batches, gpipe ? "stages = 4; pipeline_scheduler = gpipe;" : "stages = 4;")));
            build_time(x.b);
            const double idle = timelines_idle(x.b->role_timelines, 4), formula = 3.0 / (batches + 3);
            cr_expect_lt(fabs(idle - formula), 0.04, "%d batches: %g, by the formula %g", batches, idle, formula);
            compiled_finish(&x);
        }
}

Test(stages, more_stages_than_operators_are_refused) {
    Compiled x;
    compiled_init(&x, 8, 2);
    cr_assert_not(compiled_run(&x, "net n() { input x : f32[4, 6]; param w : f32[6, 6] = ones; loss mean(matmul(x, w)); }\n"
                                   "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); }\nparallel { stages = 4; }\n"));
    cr_expect_str_eq(compiled_said(&x), "4 stages of 2 operators: some would have none\n");
    compiled_finish(&x);
}
