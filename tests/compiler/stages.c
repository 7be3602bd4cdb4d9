/* Stages: which operators a stage has, what its ranks hold, and when they compute what. */
#include "compile.h"

#include <math.h>

#include "compiler/facts.h"
#include "compiler/oracle.h"
#include "compiler/tasks.h"
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

/* The forward and backward passes as a role computes them, each with its batch: "F0 F1 B0 ..". layers: with the layer before that, "F1.0" is the forward pass of h1 for batch 0. */
static const char *passes_of(Compiled *x, int role, bool layers) {
    const Role *r = &x->c.plan.programs.at[0].roles.at[role];
    const char *order = "";
    int batches[2][10] = {{0}};
    for (int s = 0; s < r->steps.n; s++) {
        const OpCode op = r->steps.at[s].op;
        if (r->steps.at[s].kind != STEP_KERNEL || (op != OP_tanh && op != OP_tanh_grad)) continue;
        const int layer = layers ? x->graph->nodes.at[r->steps.at[s].node].name[1] - '0' : 0, batch = batches[op != OP_tanh][layer]++;
        const char *of = layers ? arena_printf(&x->arena, "%d.", layer) : "";
        order = arena_printf(&x->arena, "%s%s%c%s%d", order, *order ? " " : "", op == OP_tanh ? 'F' : 'B', of, batch);
    }
    return order;
}

Test(stages, batches_come_in_the_order_of_1f1b) {
    Compiled x;
    compiled(&x, NET_OF("micro_batches = 4; ", "stages = 4;"), 4, 2);
    cr_expect_str_eq(passes_of(&x, 0, false), "F0 F1 F2 F3 B0 B1 B2 B3");
    cr_expect_str_eq(passes_of(&x, 1, false), "F0 F1 F2 B0 F3 B1 B2 B3");
    cr_expect_str_eq(passes_of(&x, 2, false), "F0 F1 B0 F2 B1 F3 B2 B3");
    cr_expect_str_eq(passes_of(&x, 3, false), "F0 B0 F1 B1 F2 B2 F3 B3");
    compiled_finish(&x);
    compiled(&x, NET_OF("micro_batches = 4; ", "stages = 4; pipeline_scheduler = gpipe;"), 4, 2);
    for (int r = 0; r < 4; r++)
        cr_expect_str_eq(passes_of(&x, r, false), "F0 F1 F2 F3 B0 B1 B2 B3");
    compiled_finish(&x);
}

/* As Megatron's: as many batches as stages through a chunk, then the same through the next one. */
Test(stages, batches_come_in_the_order_of_interleaved_1f1b) {
    Compiled x;
    compiled(&x, NET_OF("micro_batches = 4; ", "stages = 2; chunks = 2;"), 2, 2);
    cr_expect_str_eq(passes_of(&x, 0, true), "F1.0 F1.1 F3.0 F3.1 F1.2 B3.0 F1.3 B3.1 F3.2 B1.0 F3.3 B1.1 B3.2 B3.3 B1.2 B1.3");
    cr_expect_str_eq(passes_of(&x, 1, true), "F2.0 F2.1 F4.0 B4.0 F4.1 B4.1 F2.2 B2.0 F2.3 B2.1 F4.2 B4.2 F4.3 B4.3 B2.2 B2.3");
    compiled_finish(&x);
}

/* Whether all lists come to their ends where each task waits for the one before it. */
static bool lists_end(const Turns *turns) {
    enum { MOST = 8 * 4 * 32 };
    static bool done[MOST][2];
    int next[8] = {0}, ndone = 0;
    const int nparts = turns->nstages * turns->nchunks;
    memset(done, 0, sizeof done);
    for (bool any = true; any;) {
        any = false;
        for (int s = 0; s < turns->nstages; s++) {
            Turn turn;
            while (turn_of(turns, s, next[s], &turn)) {
                const int at = turn.part * turns->nbatches + turn.batch,
                          other = turn.backward ? at + turns->nbatches : at - turns->nbatches;
                cr_assert(turn.part % turns->nstages == s && !done[at][turn.backward]);
                if (turn.backward ? !done[at][false] || (turn.part + 1 < nparts && !done[other][true])
                                  : turn.part > 0 && !done[other][false])
                    break;
                done[at][turn.backward] = any = true;
                next[s]++, ndone++;
            }
        }
    }
    return ndone == nparts * turns->nbatches * (turns->backward ? 2 : 1);
}

Test(stages, no_list_of_turns_waits_for_ever) {
    for (int order = 0; order < NPIPELINES; order++)
        for (int p = 2; p <= 6; p++)
            for (int v = 1; v <= (order == PIPELINE_INTERLEAVED ? 4 : 1); v++)
                for (int m = 1; m <= 4 * p; m++)
                    for (int backward = 0; backward < 2; backward++) {
                        const Turns turns = {(Pipeline)order, p, v, m, backward};
                        if (order == PIPELINE_INTERLEAVED && backward && m % p != 0) continue; /* an error */
                        cr_expect(lists_end(&turns), "order %d, %d stages, %d chunks, %d batches", order, p, v, m);
                    }
}

Test(stages, a_part_holds_what_is_under_way) {
    const Turns plain = {PIPELINE_1F1B, 4, 1, 8, true}, all = {PIPELINE_GPIPE, 4, 1, 8, true},
                chunks = {PIPELINE_INTERLEAVED, 4, 2, 8, true};
    for (int s = 0; s < 4; s++) {
        cr_expect_eq(turns_held(&plain, s), 4 - s);
        cr_expect_eq(turns_held(&all, s), 8);
    }
    cr_expect_eq(turns_held(&chunks, 0), 7); /* 10 forward passes and one more: 4 of each chunk, then 3 of the first */
    cr_expect_eq(turns_held(&chunks, 4), 4);
    cr_expect_eq(turns_held(&chunks, 3) + turns_held(&chunks, 7), 5);
}

Test(stages, a_stage_has_every_other_part) {
    Compiled x;
    compiled(&x, NET_OF("micro_batches = 2; ", "stages = 2; chunks = 2;"), 4, 2);
    for (int k = 0; k < 4; k++) {
        static const char *const layers[] = {"h1", "h2", "h3", "h4"}, *const parameters[] = {"w1", "w2", "w3", "w4"};
        cr_expect_eq(stage_of(x.graph, layers[k]), k + 1);
        const int state = graph_producer(x.graph, value_named(x.graph, parameters[k]))->state;
        cr_expect_eq(x.graph->states.at[state].layout->pin.value, k % 2, "%s", parameters[k]);
    }
    compiled_finish(&x);
}

/* Two values that the second stage takes of the first: one message where latency is what they cost. */
static int buckets_of_sends(Compiled *x, double latency_s) {
    static Machine machine;
    machine = machine_cpu;
    machine.rank.latency_s = machine.node.latency_s = latency_s;
    compiled_init(x, 2, 2);
    x->options.machine = &machine;
    cr_assert(
        compiled_run(
            x, "net n(batch = 64) { input x : f32[batch, 64]; param w1 : f32[64, 64] = normal(0.1); param w2 : f32[64, 64] = normal(0.1);\n"
               "  a = tanh(matmul(x, w1)); b = relu(a); y = tanh(matmul(a, w2) * b); loss mean(y * b); }\n"
               "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.01); micro_batches = 2; }\n"
               "parallel { stages = 2; }\nhints { b = stage 0; y = stage 1; }\n"),
        "%s", x->c.error.text);
    const Role *role = &x->c.plan.programs.at[0].roles.at[1];
    int n = 0;
    for (int s = 0; s < role->steps.n; s++)
        n += role->steps.at[s].kind == STEP_START && role->steps.at[s].bucket > 0 &&
             role->instances.at[role->steps.at[s].in[0]].place == PLACE_ELSEWHERE;
    return n;
}

Test(stages, sends_that_start_together_are_one_where_that_is_faster) {
    Compiled x;
    cr_expect_eq(buckets_of_sends(&x, 1e-3), 4, "two of each batch");
    compiled_finish(&x);
    cr_expect_eq(buckets_of_sends(&x, 0), 0);
    compiled_finish(&x);
}

/* A net of four equal layers of which the products take nearly all time, and activations nearly all memory. batches 0: the net does not say how many. */
static const char *large_net(Compiled *x, int batches, const char *parallel) {
    return arena_printf(
        &x->arena,
        "net n(batch = 65536, d = 8192) { input data : f32[batch, d]; param s : f32[d] = ones; param w1 : f32[d, d] = normal(0.1);\n"
        "  param w2 : f32[d, d] = normal(0.1); param w3 : f32[d, d] = normal(0.1); param w4 : f32[d, d] = normal(0.1);\n"
        "  x = data * s; " LAYERS " loss mean(h4); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.01); %s }\nparallel { %s }\n",
        batches > 0 ? arena_printf(&x->arena, "micro_batches = %d;", batches) : "", parallel);
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

/* The stage of each layer, as digits: "0011". */
static const char *layers_of(Compiled *x) {
    static const char *const names[] = {"h1", "h2", "h3", "h4"};
    char *stages = arena_alloc(&x->arena, 5);
    for (int i = 0; i < 4; i++)
        stages[i] = (char)('0' + stage_of(x->graph, names[i]) - 1);
    return stages;
}

static void compile_hinted(Compiled *x, int nstages, const char *const *hints, int nhints) {
    compiled_init(x, 4, 2);
    x->options.overrides.nshards = nhints;
    x->options.overrides.shard = hints;
    compiled_run(x, arena_printf(&x->arena, NET_OF("micro_batches = 2; ", "stages = %d;"), nstages));
}

/* What is between two hints follows them; what they leave open is cut evenly. */
Test(stages, hints_say_where_the_stages_are) {
    static const struct {
        int nstages;
        const char *hints[4];
        const char *expected;
    } cases[] = {{2, {"h2 = stage 1"}, "0111"},
                 {2, {"h3 = stage 0"}, "0001"},
                 {2, {"h1 = stage 0", "h3 = stage 0"}, "0001"},
                 {4, {"h* = stage 3", "--"}, NULL},
                 {2, {"h4 = stage 1", "h1 = stage 0"}, "0011"},
                 {4, {"h1 = stage 0", "loss.* = stage 3", "h4 = stage 2", "h3 = stage 2"}, "0122"},
                 {4, {"h1 = stage 0", "loss.* = stage 3", "h4 = stage 2", "h3 = stage 1"}, "0112"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled x;
        int n = 0;
        while (n < 4 && cases[i].hints[n] != NULL && cases[i].hints[n][0] != '-')
            n++;
        compile_hinted(&x, cases[i].nstages, cases[i].hints, n);
        cr_expect_eq(x.done, cases[i].expected != NULL, "case %zu: %s", i, compiled_said(&x));
        if (x.done && cases[i].expected != NULL) cr_expect_str_eq(layers_of(&x), cases[i].expected, "case %zu", i);
        compiled_finish(&x);
    }
}

Test(stages, hints_that_cannot_be_are_refused) {
    static const struct {
        int nstages;
        const char *hints[2], *said;
    } cases[] = {{2,
                  {"h3 = stage 0", "h1.matmul = stage 1"},
                  "h3.matmul cannot be of stage 0: it needs h1.matmul, which is of stage 1\nthat is said here\n"
                  "a stage takes what it, or a stage before it, has computed\n"},
                 {2,
                  {"h1.matmul = stage 1", "loss = stage 1"},
                  "no operator is left for stage 0: h1.matmul is of stage 1\n"
                  "each stage has an operator at least, and the operators of a stage follow each other\n"},
                 {4,
                  {"h2 = stage 0", "h3.matmul = stage 2"},
                  "no operator is left for stage 1: h3.matmul is of stage 2\n"
                  "each stage has an operator at least, and the operators of a stage follow each other\n"},
                 {2,
                  {"h1 = stage 0", "loss = stage 0"},
                  "no operator is left for stage 1: loss is of stage 0\n"
                  "each stage has an operator at least, and the operators of a stage follow each other\n"},
                 {2,
                  {"h1.matmul = ((8, 1), (1, 1))", "h2.matmul = ((3, 1), (1, 1))"},
                  "matmul: the strategy needs 8 ranks, there are 2 in a stage\n((2, 1), (1, 1)) would be one for 2 ranks\n"
                  "it is for h1.matmul, which is here\n"
                  "matmul: the strategy needs 3 ranks, there are 2 in a stage\n((2, 1), (1, 1)) would be one for 2 ranks\n"
                  "it is for h2.matmul, which is here\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled x;
        compile_hinted(&x, cases[i].nstages, cases[i].hints, 2);
        cr_expect_not(x.done, "case %zu", i);
        cr_expect_str_eq(compiled_said(&x), cases[i].said, "case %zu", i);
        compiled_finish(&x);
    }
}

#define CELLS                                                                                                                              \
    "cell layer(x) { param w : f32[64, 64] = normal(0.1); m = matmul(x, w); return tanh(m); }\n"                                           \
    "net n(batch = 64) { input x : f32[batch, 64]; h = x; for i in 0..4 { h = layer(h) %s; } a = tanh(x) %s; b = tanh(a) %s;\n"            \
    "  loss mean(h * h) + mean(b); }\ntrain { data = normal(seed = 1); steps = 2; optimizer = adam(lr = 0.01); }\nparallel { stages = 4; }\n"

/* All that a call computes is of its stage, but what is said within it; what the text has behind stages that follow may be of one before them. */
Test(stages, hints_at_calls_and_against_the_order_of_the_text) {
    Compiled x;
    compiled_init(&x, 4, 2);
    const char *within = "h.2.m = stage 1";
    x.options.overrides.nshards = 1;
    x.options.overrides.shard = &within;
    cr_assert(compiled_run(&x, arena_printf(&x.arena, CELLS, "stage i", "stage 1", "stage 2")), "%s", compiled_said(&x));
    static const struct {
        const char *value;
        int stage;
    } expected[] = {{"h.0", 1},   {"h.0.m", 1}, {"h.0.w", 1}, {"h.1", 2}, {"h.1.w", 2}, {"h.2.m", 2},
                    {"h.2.w", 2}, {"h.2", 3},   {"h.3.m", 4}, {"h.3", 4}, {"a", 2},     {"b", 3}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_expect_eq(stage_of(x.graph, expected[i].value), expected[i].stage, "%s", expected[i].value);
    compiled_finish(&x);
}

/* What no hint names goes with what the text has before it. */
Test(stages, operators_without_a_hint_follow_the_text) {
    Compiled x;
    compiled_init(&x, 4, 2);
    cr_assert(compiled_run(&x, arena_printf(&x.arena, CELLS, "stage i", "", "")), "%s", compiled_said(&x));
    cr_expect_eq(stage_of(x.graph, "a"), 4);
    cr_expect_eq(stage_of(x.graph, "b"), 4);
    compiled_finish(&x);
}

/* --write-hints and --hints: the same plan, but for the names of files. */
static const char *plan_body(Compiled *x) {
    const char *at = strstr(x->c.text.at, "\nranks "), *end = strstr(x->c.text.at, "\ncertificate ");
    cr_assert(at != NULL && end > at);
    return arena_copy(&x->arena, at, (size_t)(end - at));
}

/* Writes the hints that a compilation found, and compiles the net with them. */
static void expect_same_again(Compiled *first, Compiled *second, const char *net, const char *path) {
    Text text = {0};
    cr_assert(compiled_run(first, net), "%s", compiled_said(first));
    cr_assert(hints_print(&text, &first->c));
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fwrite(text.at, 1, text.n, file);
    fclose(file);
    second->options.overrides.nhint_files = 1;
    second->options.overrides.hint_file = &path;
    cr_assert(compiled_run(second, net), "%s", compiled_said(second));
    cr_expect_null(second->c.stages);
    cr_expect_str_eq(plan_body(first), plan_body(second));
    unlink(path);
    text_finish(&text);
}

/* Of two compilations on 4 ranks the first writes its hints to a file of this process. */
static void begin_written(Compiled *first, Compiled *second, char *path, size_t n) {
    snprintf(path, n, "/tmp/pcc-test-%ld.hints.dsl", (long)getpid());
    compiled_init(first, 4, 2);
    compiled_init(second, 4, 2);
    first->options.hints_file = path;
}

/* Compiles a net with a hint beside it, and without it but with what was written. */
static void expect_same_plan(const char *marks[3], const char *hint, const char *stages) {
    Compiled first, second;
    char path[64];
    begin_written(&first, &second, path, sizeof path);
    first.options.overrides.stages = second.options.overrides.stages = stages;
    first.options.overrides.shard = &hint;
    first.options.overrides.nshards = hint != NULL;
    expect_same_again(&first, &second, arena_printf(&first.arena, CELLS, marks[0], marks[1], marks[2]), path);
    compiled_finish(&first);
    compiled_finish(&second);
}

Test(stages, written_hints_give_the_same_stages) {
    expect_same_plan((const char *[]){"", "", ""}, NULL, NULL);
    expect_same_plan((const char *[]){"", "", ""}, "h.3.m = stage 1", "2");
    expect_same_plan((const char *[]){"", "", ""}, "b = stage 0", "2");
    expect_same_plan((const char *[]){"stage i", "stage 1", "stage 2"}, NULL, NULL);
    expect_same_plan((const char *[]){"", "", ""}, NULL, "auto");
}

/* Batches and chunks that were found are in what is written. */
Test(stages, written_hints_hold_batches_and_chunks) {
    Compiled first, second;
    char path[64];
    begin_written(&first, &second, path, sizeof path);
    expect_same_again(&first, &second,
                      "net n(batch = 64, d = 1024) { input data : f32[batch, d]; x = data;\n"
                      "  for i in 0..8 { param w : f32[d, d] = normal(0.1); x = tanh(matmul(x, w)); } loss mean(x * x); }\n"
                      "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.01); }\nparallel { stages = auto; }\n",
                      path);
    const StageTried *taken = &first.c.stages->taken;
    cr_expect(taken->stages == 4 && taken->parts == 4 && taken->chunks == 2, "%d stages, %d parts, %d chunks", taken->stages, taken->parts,
              taken->chunks);
    compiled_finish(&first);
    compiled_finish(&second);
}

/* What a pipeline costs that the net asks for. */
static BuildCost large_cost(int stages, int batches, int chunks, const char *said) {
    Compiled x;
    BuildCost cost;
    compiled_init(&x, 4, 2);
    x.options.machine = &machine_gpu8;
    x.options.prove = false;
    const char *parallel = arena_printf(&x.arena, chunks > 1 ? "stages = %d; %s chunks = %d;" : "stages = %d; %s", stages, said, chunks);
    cr_assert(compiled_run(&x, large_net(&x, batches, parallel)), "%s", compiled_said(&x));
    build_cost(x.b, &cost);
    compiled_finish(&x);
    return cost;
}

/* The pipeline that takes the least, of those that are tried. */
static void expect_best(int batches, const char *said, int ntried) {
    Compiled best;
    compiled_init(&best, 4, 2);
    best.options.machine = &machine_gpu8;
    cr_assert(compiled_run(&best, large_net(&best, batches, arena_printf(&best.arena, "stages = auto; %s", said))), "%s",
              compiled_said(&best));
    const StageCount *count = best.c.stages;
    cr_assert_not_null(count);
    cr_expect_eq(count->tried.n, ntried, "%d tried", count->tried.n);
    cr_expect(count->best.n == 3 && count->nleft == 0);
    BuildCost taken;
    build_cost(best.b, &taken);
    cr_expect_eq(taken.step_s, count->taken.step_s);
    for (int i = 0; i < count->tried.n; i++) {
        const StageTried *tried = &count->tried.at[i];
        const BuildCost cost = large_cost(tried->stages, tried->batches, tried->chunks, said);
        cr_expect(tried->compiles && 4 % tried->stages == 0);
        cr_expect_eq(tried->step_s, cost.step_s);
        cr_expect_eq(tried->bytes, memory_bytes(&cost));
        cr_expect_leq(taken.step_s, cost.step_s);
    }
    compiled_finish(&best);
}

Test(stages, as_many_stages_as_are_best) {
    expect_best(16, "", 6); /* several stages in more chunks as long as that is better */
    expect_best(16, "chunks = 1;", 3);
    expect_best(16, "pipeline_scheduler = gpipe;", 3);
}

/* With as many parts of batches, and chunks, as are best where the net does not say it: of each number of stages about as good as the best of all, and no worse than one stage. */
Test(stages, as_many_batches_and_chunks_as_are_best) {
    Compiled x;
    BuildCost taken;
    compiled_init(&x, 4, 2);
    x.options.machine = &machine_gpu8;
    cr_assert(compiled_run(&x, large_net(&x, 0, "stages = auto;")), "%s", compiled_said(&x));
    build_cost(x.b, &taken);
    for (int i = 0; i < 3; i++) {
        const StageTried *best = &x.c.stages->best.at[i];
        const int stages = 1 << i;
        double least_s = INFINITY;
        for (int batches = 1; batches <= (stages > 1 ? 64 : 1); batches *= 2)
            for (int chunks = 1; chunks <= (batches % stages == 0 && stages > 1 ? 2 : 1); chunks++)
                least_s = fmin(least_s, large_cost(stages, batches, chunks, "").step_s);
        cr_expect_eq(best->stages, stages);
        cr_expect_leq(best->step_s, 1.01 * least_s, "%d stages: %g s with %d batches, %d chunks; the best takes %g s", stages, best->step_s,
                      best->batches, best->chunks, least_s);
        cr_expect_leq(taken.step_s, best->step_s);
    }
    compiled_finish(&x);
}

/* Where a rank may need so much, the stages hold no more, though other cuts would be faster. */
Test(stages, cuts_keep_within_the_memory) {
    const char *net =
        "net n(batch = 4096, d = 512) { input x : i32[batch]; param table : f32[50000, 64] = normal(0.1); param up : f32[64, d] = normal(0.1);\n"
        "  h = embedding(table, x) @ up; for i in 0..12 { param w : f32[d, d] = normal(0.1); h = tanh(h @ w); } loss mean(h); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = adam(lr = 0.01); micro_batches = 4; }\nparallel { stages = 2; %s }\n";
    int64_t needed = 0;
    int layers[2] = {0}; /* of the first stage, which has the table */
    for (int limited = 0; limited < 2; limited++) {
        Compiled x;
        compiled_init(&x, 2, 2);
        const char *memory = limited ? arena_printf(&x.arena, "memory = %lld; recompute = none;", (long long)(needed * 7 / 10)) : "";
        cr_assert(compiled_run(&x, arena_printf(&x.arena, net, memory)) || limited, "%s", compiled_said(&x));
        for (int n = 0; n < x.graph->nforward; n++)
            layers[limited] += x.graph->nodes.at[n].op == OP_tanh && x.graph->nodes.at[n].stage == 1;
        needed = x.b->role_facts[0].rank_bytes;
        compiled_finish(&x);
    }
    cr_expect_lt(layers[1], layers[0]);
}

/* Where nothing else fits into the memory a net that says nothing of stages gets some, those with which it is fastest; where a net says how many it keeps them. */
Test(stages, what_does_not_fit_otherwise_gets_stages) {
    const char *net =
        "net n(batch = 4, d = 400) { input x : f32[batch, d]; param w : f32[d, d] = normal(0.1); param v : f32[d, d] = normal(0.1);\n"
        "  param u : f32[d, d] = normal(0.1); param t : f32[d, d] = normal(0.1);\n"
        "  a = matmul(x, w); b = matmul(tanh(a), v); c = matmul(tanh(b), u); e = matmul(tanh(c), t); loss mean(e); }\n"
        "hints { a = ((1, 1), (1, 1)); b = ((1, 1), (1, 1)); c = ((1, 1), (1, 1)); e = ((1, 1), (1, 1)); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }\nparallel { %s memory = %d; }\n";
    static const struct {
        const char *stages;
        int of_bytes; /* a parameter has 640,000 */
        int expected; /* 0: it is refused */
    } cases[] = {{"", 6000000, 1},           {"", 2800000, 4}, {"", 1500000, 4}, {"", 700000, 0}, {"stages = 1;", 2800000, 0},
                 {"stages = 2;", 1500000, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled x;
        compiled_init(&x, 4, 2);
        x.options.overrides.search = NULL;
        const bool done = compiled_run(&x, arena_printf(&x.arena, net, cases[i].stages, cases[i].of_bytes));
        cr_expect_eq(done, cases[i].expected > 0, "case %zu: %s", i, compiled_said(&x));
        if (done) cr_expect_eq(x.b->nroles, cases[i].expected, "case %zu: %d stages", i, x.b->nroles);
        compiled_finish(&x);
    }
}

/* With v chunks (p - 1) / (v m + p - 1). */
Test(stages, chunks_make_the_bubble_smaller) {
    for (int batches = 2; batches <= 16; batches *= 2) {
        Compiled x;
        compiled_init(&x, 2, 2);
        x.options.machine = &machine_gpu8;
        cr_assert(compiled_run(&x, large_net(&x, batches, "stages = 2; chunks = 2;")));
        build_time(x.b);
        const double idle = timelines_idle(x.b->role_timelines, 2), formula = 1.0 / (2 * batches + 1);
        cr_expect_lt(fabs(idle - formula), 0.02, "%d batches: %g, by the formula %g", batches, idle, formula);
        compiled_finish(&x);
    }
}

/* A gradient of a number that one stage has and another one takes stays with its operator, whose result it takes too, though its term is a sum over the batch elsewhere. */
Test(stages, gradients_of_numbers_stay_in_their_stage) {
    for (int nstages = 2; nstages <= 6; nstages++) {
        Compiled x;
        compiled_init(&x, 4 * nstages, 2);
        x.options.overrides.search = NULL;
        const char *net = "net fuzz { input x0 : f64[8, 16]; param w1 : f64[16, 12] = normal(1) shard ((a, -)); param w3 : f64[8, 1] = "
                          "normal(0.3); param w6 : f64[] = uniform(0.5, 1.5); const c13 : i32[8] = [0, 0, 0, 0, 0, 0, 0, 0]; const c16 : "
                          "f64[] = 0.6373; param w19 : f64[8, 16] = uniform(0.5, 1.5); v2 = matmul(x0, w1) shard ((-, -), (-, a)) "
                          "recompute; v4 = sigmoid(w3) recompute; v5 = mean(v2, axes = [1]) shard ((b, a)) recompute; v7 = w6 * w6 "
                          "recompute; v9 = v7 + 0.5 recompute; v10 = rsqrt(v9) recompute; v11 = pad(v10, before = [], after = []) "
                          "recompute; v12 = cast(v11, to = f64) recompute; v14 = pick(v4, c13) shard ((a, -), (a)) recompute; v15 = "
                          "less(v14, v5) recompute; v17 = where(v15, c16, v12) shard ((b), (), ()) -> (b) recompute; v18 = reshape(v17, "
                          "shape = [1, 8]) shard ((b.a)) recompute; v20 = matmul(v18, w19) shard ((-, b), (b, -)) recompute; v21 = v20 * "
                          "v20 shard ((-, a.b), (-, a.b)) recompute; v22 = mean(v21) recompute; loss v22; } train { data = normal(seed = "
                          "29); optimizer = sgd(lr = 0.01, weight_decay = 0.25); schedule = cosine(warmup = 1, end = 0.5); accumulate = "
                          "3; steps = 2; seed = 575; } parallel { mode = auto; search = recursive_programming; stages = %d; mesh (a = 2, "
                          "b = 2); dataset = data_parallel; shard_states = parameters; regather = all; }";
        cr_expect(compiled_run(&x, arena_printf(&x.arena, net, nstages)), "%d stages: %s%s", nstages, x.c.error.text, compiled_said(&x));
        compiled_finish(&x);
    }
}

/* What another stage needs again is computed after the update of what it reads, which is written behind it. */
Test(stages, what_is_computed_again_reads_parameters_of_before_the_update) {
    for (int optimize = 0; optimize <= 2; optimize++) {
        Compiled x;
        compiled_init(&x, 6, optimize);
        x.options.overrides.search = NULL;
        cr_expect(compiled_run(
                      &x, "net n { input x0 : f32[1, 3, 1]; input x1 : f32[6, 3]; param w3 : f32[] = normal(0.3); param w6 : f32[1, 6] = "
                          "normal(1); v2 = sum(x1) recompute; v4 = v2 - w3 recompute stage 1; v5 = add(v4, x0) recompute stage 2; v7 = "
                          "matmul(v5, w6) stage 2; v8 = v7 * v7 stage 2; v9 = sum(v8) stage 2; loss v9; } train { data = "
                          "normal(seed = 3); optimizer = sgd(lr = 0.01); steps = 1; } parallel { mode = semi_auto; stages = 3; dataset "
                          "= auto; shard_states = parameters; regather = all; }"),
                  "-O%d: %s%s", optimize, x.c.error.text, compiled_said(&x));
        compiled_finish(&x);
    }
}

Test(stages, more_stages_than_operators_are_refused) {
    Compiled x;
    compiled_init(&x, 8, 2);
    cr_assert_not(compiled_run(&x, "net n() { input x : f32[4, 6]; param w : f32[6, 6] = ones; loss mean(matmul(x, w)); }\n"
                                   "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); }\nparallel { stages = 4; }\n"));
    cr_expect_str_eq(compiled_said(&x), "4 stages of 2 operators: some would have none\nat most stages = 2; of 8 ranks\n");
    compiled_finish(&x);
}

/* Of large_net the best pipeline has a rank a stage: what is written of meshes and strategies keeps all four ranks, or two of them, in a stage. */
Test(stages, auto_keeps_what_is_said_of_the_ranks_of_a_stage) {
    static const struct {
        const char *said;
        const char *hint; /* --shard */
        int most;         /* stages that may be tried */
    } cases[] = {{"", NULL, 4},
                 {"mesh (dp = 2);", NULL, 2},
                 {"mesh (dp = 2, tp = 2);", NULL, 1},
                 {"", "h2.matmul=((2, 1), (1, 2))", 1},
                 {"", "h2.matmul=((1, 1), (1, 1))", 4}};
    for (int i = 0; i < 5; i++) {
        Compiled x;
        compiled_init(&x, 4, 2);
        x.options.machine = &machine_gpu8;
        x.options.overrides.shard = &cases[i].hint;
        x.options.overrides.nshards = cases[i].hint != NULL;
        cr_assert(compiled_run(&x, large_net(&x, 16, arena_printf(&x.arena, "stages = auto; %s", cases[i].said))), "%s", compiled_said(&x));
        for (int k = 0; k < x.c.stages->best.n; k++) {
            const StageTried *best = &x.c.stages->best.at[k];
            cr_expect_eq(best->compiles, best->stages <= cases[i].most, "case %d, %d stages", i, best->stages);
            if (!best->compiles) cr_expect_not_null(best->why);
        }
        compiled_finish(&x);
    }
}

Test(stages, a_mesh_or_a_split_of_more_than_the_one_rank_of_a_stage_is_refused) {
    Compiled x;
    compiled_init(&x, 4, 2);
    cr_expect_not(compiled_run(&x, NET_OF("", "stages = 4; mesh (dp = 2);")));
    cr_expect_not_null(strstr(compiled_said(&x), "the mesh has 2 ranks, which does not divide the 1 rank of a stage"), "%s",
                       compiled_said(&x));
    compiled_finish(&x);
    const char *hint = "h2.matmul=((2, 1), (1, 1))";
    compiled_init(&x, 4, 2);
    x.options.overrides.shard = &hint;
    x.options.overrides.nshards = 1;
    cr_expect_not(compiled_run(&x, NET_OF("", "stages = 4;")));
    cr_expect_not_null(strstr(compiled_said(&x), "a split in 2, and a stage has one rank"), "%s", compiled_said(&x));
    compiled_finish(&x);
    compiled_init(&x, 1, 2); /* the same on one rank in all */
    cr_expect(compiled_run(&x, NET_OF("", "stages = 4; mesh (dp = 2);")), "%s", compiled_said(&x));
    compiled_finish(&x);
}

/* A bound of the search is one of a net on the ranks of one stage: of a pipeline none is known. */
Test(stages, no_bound_is_given_of_a_pipeline) {
    for (int stages = 1; stages <= 2; stages++) {
        Compiled x;
        compiled_init(&x, 4, 2);
        x.diags.verbose = true;
        x.options.overrides.search = "auto";
        cr_assert(compiled_run(&x, stages == 1 ? NET_OF("", "") : NET_OF("micro_batches = 2;", "stages = 2;")), "%s", compiled_said(&x));
        cr_expect_not_null(strstr(compiled_said(&x), "search: "), "%s", compiled_said(&x));
        cr_expect_eq(strstr(compiled_said(&x), "the best of this model") != NULL, stages == 1, "%s", compiled_said(&x));
        cr_expect_eq(x.b->front.search->bound > 0, stages == 1);
        compiled_finish(&x);
    }
}

/* What is taken has strategies that were found for it, not those of fewer chunks. Before: 13.37 ms; by hand, as many stages and chunks, 12.95. */
Test(stages, the_best_number_of_stages_and_chunks_is_searched_itself) {
    Compiled x;
    BuildCost cost;
    compiled_look(&x, 4, &machine_gpu8);
    x.options.overrides.search = "auto";
    x.options.overrides.stages = "auto";
    cr_assert(
        compiled_run(
            &x,
            "import \"nn.dsl\"; net n(batch = 32, dim = 768, words = 8000) { input word : i32[batch, 128]; input next : i32[batch, 128];\n"
            "  h = embedding(word, words, dim, std = 0.02); for i in 0..8 { h = transformer_block(h, 12); }\n"
            "  loss cross_entropy(linear(layer_norm(h), words, with_bias = false), next); }\n"
            "train { data = normal(seed = 1); optimizer = adam(lr = 0.001); steps = 2; micro_batches = 8; }\n"),
        "%s", compiled_said(&x));
    build_cost(x.b, &cost);
    cr_expect_leq(cost.step_s, 13e-3, "%g s", cost.step_s);
    compiled_finish(&x);
}

/* Fewer parts than stages are no parts of a pipeline in chunks: they are not looked for for ever. */
Test(stages, chunks_that_few_parts_cannot_have_are_left) {
    Compiled x;
    compiled_look(&x, 8, NULL);
    cr_assert(
        compiled_run(
            &x,
            "net n(batch = 16) { input x : f32[batch, 64]; input t : f32[batch, 32]; param w : f32[64, 128] = normal(0.1); param v : f32[128, 32] = normal(0.1);\n"
            "  loss mse(matmul(relu(matmul(x, w)), v), t); }\n"
            "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\n"
            "parallel { mode = auto; stages = auto; chunks = 2; }\n"),
        "%s", compiled_said(&x));
    cr_assert_not_null(x.c.stages);
    cr_expect_eq(x.c.stages->taken.stages, 1);
    compiled_finish(&x);
}

/* Each part of a batch reads the parameters again. Of 25 rows the parts that keep four stages busy are 5; half as many cannot be, and one is faster. */
Test(stages, few_rows_are_taken_in_few_parts) {
    Compiled x;
    int parts = 0;
    compiled_look(&x, 4, &machine_gpu8);
    cr_assert(compiled_run(&x, "import \"nn.dsl\"; net n(batch = 25) { input x : f32[batch, 2048]; input t : f32[batch, 2048]; h = x;\n"
                               "  for i in 0..4 { h = relu(linear(h, 2048)); } loss mse(h, t); }\n"
                               "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\n"
                               "parallel { mode = auto; stages = auto; }\n"),
              "%s", compiled_said(&x));
    cr_assert_not_null(x.c.stages);
    for (int k = 0; k < x.c.stages->best.n; k++)
        if (x.c.stages->best.at[k].stages == 4) parts = x.c.stages->best.at[k].parts;
    cr_expect_eq(parts, 1, "%d parts", parts);
    compiled_finish(&x);
}

/* Pipelines, and parts of batches, of which those that were tried show that they cannot fit either are left out: three numbers of stages, each in as many parts as keep it busy. */
Test(stages, what_cannot_fit_is_not_tried) {
    Compiled x;
    compiled_init(&x, 4, 2);
    x.options.machine = &machine_gpu8;
    cr_expect_not(compiled_run(&x, large_net(&x, 0, "stages = auto; memory = 300 MiB;")));
    cr_assert_not_null(x.c.stages);
    cr_expect_leq(x.c.stages->tried.n, 6, "%d tried", x.c.stages->tried.n);
    compiled_finish(&x);
}
