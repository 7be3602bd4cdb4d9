/* What ranks store in parts, and gather when it is needed: updates.c, the phases of materialize.c, and the measures of budget.c that choose it. */
#include <math.h>

#include "compile.h"
#include "compiler/budget.h"
#include "compiler/facts.h"
#include "ir/file.h"

/* Three products of 256 x 256, 256 KiB each; the batch is split. */
#define NET(train, parallel, at_v)                                                                                                         \
    "net n(batch = 64) { input x : f32[batch, 256]; param u : f32[256, 256] = normal(0.1); param v : f32[256, 256] = normal(0.1)" at_v     \
    "; param w : f32[256, 256] = normal(0.1);\n"                                                                                           \
    "  h = tanh(matmul(x, u)); k = tanh(matmul(h, v)); loss mean(square(matmul(k, w))); }\n"                                               \
    "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); " train " }\nparallel { " parallel " }\n"

enum { WHOLE = 256 << 10, PARAMS = 3, RANKS = 4 };

static int gathers(const Compiled *x) {
    return count_kind(&x->b->spmd.graph, COMM_ALL_GATHER);
}

static const Layout *layout_of(const Compiled *x, const char *name) {
    for (int s = 0; s < x->graph->states.n; s++)
        if (strcmp(x->graph->states.at[s].name, name) == 0) return x->graph->states.at[s].layout;
    cr_assert_fail("no state %s", name);
    return NULL;
}

static void expect(const char *net, const char *v, const char *slot, int ngathers, int nscatters, int64_t bytes) {
    for (int optimize = 0; optimize <= 2; optimize++) {
        Compiled x;
        compiled(&x, net, RANKS, optimize);
        assert_layout(layout_of(&x, "v"), v);
        assert_layout(layout_of(&x, "v.m"), slot);
        cr_expect_eq(gathers(&x), ngathers, "-O%d: %d gathers", optimize, gathers(&x));
        if (optimize == 2) cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_REDUCE_SCATTER), nscatters);
        cr_expect_eq(x.b->facts->states, bytes, "%lld bytes of states", (long long)x.b->facts->states);
        compiled_finish(&x);
    }
}

Test(states, are_whole_or_in_parts_by_level) {
    expect(NET("", "shard_states = none;", ""), "[- -]", "[- -]", 0, 0, PARAMS * 3 * WHOLE);
    expect(NET("", "", ""), "[- -]", "[4@1 -]", PARAMS, PARAMS, PARAMS * (WHOLE + 2 * WHOLE / RANKS));
    expect(NET("", "shard_states = gradients;", ""), "[- -]", "[4@1 -]", PARAMS, PARAMS, PARAMS * (WHOLE + 2 * WHOLE / RANKS));
    /* gathered for the forward pass, and all but the first once more for the backward pass; not after the update */
    expect(NET("", "shard_states = parameters;", ""), "[4@1 -]", "[4@1 -]", 2 * PARAMS - 1, PARAMS, PARAMS * 3 * WHOLE / RANKS);
    expect(NET("", "shard_states = parameters; regather = none;", ""), "[4@1 -]", "[4@1 -]", PARAMS, PARAMS, PARAMS * 3 * WHOLE / RANKS);
    expect(NET("", "shard_states = parameters; shard_from = 512 KiB;", ""), "[- -]", "[- -]", 0, 0, PARAMS * 3 * WHOLE);
    /* what the user says of a parameter stays */
    expect(NET("", "shard_states = parameters;", " shard (1, 1)"), "[- -]", "[4@1 -]", 2 * (PARAMS - 1) - 1 + 1, PARAMS,
           PARAMS * 3 * WHOLE / RANKS + WHOLE - WHOLE / RANKS);
}

/* Each batch of a step gathers by itself, and its gradients go to the parts by themselves. */
Test(states, batches_of_a_step_have_phases_of_their_own) {
    Compiled x;
    compiled(&x, NET("accumulate = 3;", "shard_states = parameters;", ""), RANKS, 2);
    cr_expect_eq(gathers(&x), 3 * (2 * PARAMS - 1));
    cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_REDUCE_SCATTER), 3 * PARAMS);
    compiled_finish(&x);
    compiled(&x, NET("accumulate = 3;", "shard_states = gradients;", ""), RANKS, 2);
    cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_REDUCE_SCATTER), 3 * PARAMS);
    compiled_finish(&x);
    compiled(&x, NET("accumulate = 3;", "", ""), RANKS, 2);
    cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_REDUCE_SCATTER), PARAMS, "sums of all batches at once");
    compiled_finish(&x);
}

/* In mode data_parallel what the replicas read of a parameter is dropped too, and made once more of what is gathered: in each phase of a step once, but for the first parameter's gradient. */
Test(states, replicas_drop_what_they_gather) {
    static const char *const train[] = {"", "accumulate = 3;"};
    for (int several = 0; several < 2; several++) {
        int64_t arena[2];
        for (int again = 0; again < 2; again++) {
            char net[1024];
            Compiled x;
            snprintf(net, sizeof net, NET("%s", "mode = data_parallel; bucket = 0; shard_states = parameters; regather = %s;", ""),
                     train[several], again ? "parameters" : "none");
            compiled(&x, net, RANKS, 2);
            assert_layout(layout_of(&x, "v"), "[4@1 -]");
            cr_expect_eq(gathers(&x), again ? (several ? 3 : 1) * (2 * PARAMS - 1) : PARAMS, "%d gathers", gathers(&x));
            int copies = 0;
            for (int n = 0; n < x.graph->nodes.n; n++) {
                const Node *node = &x.graph->nodes.at[n];
                if (node->copy_of == 0) continue;
                cr_expect_eq(node->op, OP_replicate);
                copies++;
            }
            cr_expect_eq(copies, !again ? 0 : several ? 3 * (2 * PARAMS - 1) - PARAMS : PARAMS - 1, "%d copies", copies);
            arena[again] = x.b->placement.arena_bytes;
            compiled_finish(&x);
        }
        cr_expect_lt(arena[1], arena[0]);
    }
}

/* Sequence parallelism: what is split between two products is gathered before the second, dropped, and gathered again for the gradient of its weight. */
Test(states, activations_are_gathered_again) {
    static const char net[] =
        "net n(batch = 64) { input x : f32[batch, 256]; param u : f32[256, 256] = normal(0.1); param v : f32[256, 256] = normal(0.1);\n"
        "  h = matmul(x, u) shard ((1, 4), (4, 1)); k = tanh(h) shard ((4, 1)); y = matmul(k, v) shard ((1, 1), (1, 4)); loss mean(y); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }\n";
    int count[2];
    for (int again = 0; again < 2; again++) {
        Compiled x;
        compiled_init(&x, RANKS, 2);
        if (again) x.options.overrides.regather = "all";
        cr_assert(compiled_run(&x, net));
        count[again] = gathers(&x);
        compiled_finish(&x);
    }
    cr_expect_eq(count[1], count[0] + 1, "%d and %d gathers", count[0], count[1]);
}

static Compiled gathered(const char *net, const char *parallel, const char *regather, const char *shard) {
    Compiled x;
    char text[2048];
    compiled_init(&x, RANKS, 2);
    snprintf(text, sizeof text, net, parallel);
    x.options.overrides.regather = regather;
    x.options.overrides.nshards = shard != NULL;
    x.options.overrides.shard = &shard;
    cr_assert(compiled_run(&x, text), "%s", compiled_said(&x));
    return x;
}

static void expect_same_gathers(const char *net, const char *parallel, const char *setting, const char *hint) {
    Compiled by_setting = gathered(net, parallel, setting, NULL), by_hint = gathered(net, parallel, "none", hint);
    cr_expect_eq(gathers(&by_hint), gathers(&by_setting), "%s: %d gathers, %s: %d", hint, gathers(&by_hint), setting, gathers(&by_setting));
    cr_expect_eq(by_hint.b->facts->rank_bytes, by_setting.b->facts->rank_bytes);
    cr_expect_eq(by_hint.diags.nwarnings, by_setting.diags.nwarnings, "%s", compiled_said(&by_hint));
    compiled_finish(&by_setting);
    compiled_finish(&by_hint);
}

/* By path the same is said as by the setting, in all modes, of operators, parameters and all within calls, batch by batch; and of some parameters alone. */
Test(states, hints_say_what_is_gathered_again) {
    static const char net[] =
        "cell block(x) { param u : f32[256, 256] = normal(0.1); param v : f32[256, 256] = normal(0.1);\n"
        "  h = matmul(x, u) shard ((1, 4), (4, 1)); k = tanh(h) shard ((4, 1)); return matmul(k, v) shard ((1, 1), (1, 4)); }\n"
        "net n(batch = 64) { input x : f32[batch, 256]; y = block(x); loss mean(y); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); } parallel { %s }\n";
    expect_same_gathers(NET("", "shard_states = parameters; %s", ""), "", "parameters", "*=regather");
    expect_same_gathers(NET("accumulate = 3;", "shard_states = parameters; %s", ""), "", "parameters", "*=regather");
    expect_same_gathers(NET("", "mode = data_parallel; bucket = 0; shard_states = parameters; %s", ""), "", "parameters", "**=regather");
    expect_same_gathers(net, "", "all", "y=regather");
    expect_same_gathers(net, "", "all", "y.k=regather");
    Compiled x = gathered(NET("", "shard_states = parameters; %s", ""), "", "none", "w=regather");
    cr_expect_eq(gathers(&x), PARAMS + 1);
    compiled_finish(&x);
}

/* Of a net in 16 bits parameters are cast where they lie: half the bytes are gathered, and again by setting or by hint, as of any net. */
Test(states, parameters_are_gathered_in_16_bits) {
    for (int replicas = 0; replicas < 2; replicas++) {
        const char *net = replicas ? NET("precision = bf16;", "mode = data_parallel; bucket = 0; shard_states = parameters; %s", "")
                                   : NET("precision = bf16;", "shard_states = parameters; %s", "");
        Compiled once = gathered(net, "", "none", NULL), again = gathered(net, "", "parameters", NULL),
                 hinted = gathered(net, "", "none", "**=regather");
        cr_expect_eq(gathers(&once), PARAMS, "%d", gathers(&once));
        cr_expect_eq(gathers(&again), 2 * PARAMS - 1, "%d", gathers(&again));
        cr_expect_eq(gathers(&hinted), 2 * PARAMS - 1, "%d", gathers(&hinted));
        for (int n = 0; n < again.b->spmd.graph.nodes.n; n++) {
            const Graph *g = &again.b->spmd.graph;
            const Node *node = &g->nodes.at[n];
            if (node->op == OP_convert && node->comm == COMM_ALL_GATHER && !replicas)
                cr_expect_eq(g->values.at[node->out[0]].type.dtype, BF16, "%s", g->values.at[node->out[0]].name);
        }
        compiled_finish(&once);
        compiled_finish(&again);
        compiled_finish(&hinted);
    }
}

static int64_t bytes_with(const char *shard, const char *regather) {
    Compiled x;
    compiled_init(&x, RANKS, 2);
    x.options.overrides.shard_states = shard;
    x.options.overrides.regather = regather;
    cr_assert(compiled_run(&x, NET("", "", "")));
    const int64_t bytes = x.b->facts->rank_bytes;
    compiled_finish(&x);
    return bytes;
}

/* The plan needs what the measures said, and no more than is allowed. What the user says stays, and is then an error. */
Test(states, a_limit_is_kept_by_measures) {
    const int64_t usual = bytes_with(NULL, NULL), least = bytes_with("parameters", "parameters");
    char limit[32];
    Compiled x;
    cr_assert_lt(least, usual);
    for (int64_t bytes = usual; bytes >= least;
         bytes = bytes > least && (bytes + least) / 2 < bytes - 1 ? (bytes + least) / 2 : bytes - 1) {
        compiled_init(&x, RANKS, 2);
        snprintf(limit, sizeof limit, "%lld", (long long)bytes);
        x.options.overrides.memory = limit;
        x.options.overrides.search = "sharding_propagation";
        cr_assert(compiled_run(&x, NET("", "", "")), "%s of %lld", limit, (long long)least);
        cr_expect_leq(x.b->facts->rank_bytes, bytes);
        cr_expect_eq(x.b->front.measures != NULL, bytes < usual);
        if (bytes < usual) cr_expect_eq(x.b->front.measures->taken[0].saved_bytes, usual - x.b->facts->rank_bytes);
        compiled_finish(&x);
    }
    compiled_init(&x, RANKS, 2);
    x.options.overrides.memory = limit;
    x.options.overrides.shard_states = "optimizer";
    cr_expect_not(compiled_run(&x, NET("micro_batches = 1;", "", "")));
    cr_expect_eq(x.diags.nerrors, 1);
    cr_expect_not_null(strstr(compiled_said(&x), "of memory on a rank"), "%s", compiled_said(&x));
    cr_expect_eq(x.b->front.graph.settings.shard_states, SHARD_OPTIMIZER);
    compiled_finish(&x);
}

/* Where two measures fit the plan is that of the faster one. */
Test(states, of_measures_that_fit_the_fastest_is_taken) {
    static const char *const again[] = {"none", "parameters"};
    const int64_t usual = bytes_with(NULL, NULL);
    double fastest = INFINITY;
    char limit[32];
    Compiled x;
    for (int k = 0; k < 2; k++) {
        BuildCost cost;
        cr_assert_lt(bytes_with("parameters", again[k]), usual);
        compiled_init(&x, RANKS, 2);
        x.options.overrides.shard_states = "parameters";
        x.options.overrides.regather = again[k];
        cr_assert(compiled_run(&x, NET("", "", "")));
        build_cost(x.b, &cost);
        fastest = fmin(fastest, cost.step_s);
        compiled_finish(&x);
    }
    BuildCost cost;
    snprintf(limit, sizeof limit, "%lld", (long long)usual - 1);
    compiled_init(&x, RANKS, 2);
    x.options.overrides.memory = limit;
    x.options.overrides.search = "sharding_propagation";
    cr_assert(compiled_run(&x, NET("", "", "")));
    build_cost(x.b, &cost);
    cr_expect_leq(cost.step_s, fastest);
    cr_expect_str_eq(measure_name(&x.b->front.measures->taken[0]), "shard_states = parameters, regather = none");
    compiled_finish(&x);
}

/* Where ranks have kernels to spare, nothing is gathered behind updates that every rank makes: no slower than the batch split by hand with any shard_states. Within a limit that has no room for that it is no measure. */
Test(states, every_rank_updates_all_where_that_is_faster) {
    static const char net[] = "net n() { input x : f32[4096, 512]; input t : f32[4096, 512]; h = x;\n"
                              "  for i in 0..6 { param w : f32[512, 512] = normal(0.1); h = relu(matmul(h, w)); } loss mse(h, t); }\n"
                              "train { data = normal(seed = 1); optimizer = adam(lr = 0.001); steps = 2; }\n";
    static const char *const by_hand[] = {"none", "optimizer", "parameters"};
    BuildCost found, hand, limited;
    Compiled x;
    compiled_look(&x, 7, &machine_gpu8);
    x.options.overrides.search = "auto";
    cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
    build_cost(x.b, &found);
    cr_assert(x.b->front.measures != NULL && x.b->front.measures->n == 1);
    const Taken taken = x.b->front.measures->taken[0];
    cr_expect_str_eq(measure_name(&taken), "shard_states = none");
    cr_expect(taken.saved_bytes < 0 && taken.seconds < -0.04e-3, "%lld B, %g s", (long long)taken.saved_bytes, taken.seconds);
    cr_expect(0 < x.b->front.search->bound && x.b->front.search->bound <= found.step_s, "%g s, the bound is %g", found.step_s,
              x.b->front.search->bound);
    compiled_finish(&x);
    for (int k = 0; k < 3; k++) {
        compiled_look(&x, 7, &machine_gpu8);
        x.options.overrides.mode = "semi_auto";
        x.options.overrides.shard_states = by_hand[k];
        cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
        build_cost(x.b, &hand);
        cr_expect_leq(found.step_s, 1.005 * hand.step_s, "%g s, %s %g s", found.step_s, by_hand[k], hand.step_s);
        compiled_finish(&x);
    }
    compiled_look(&x, 3, &machine_gpu8); /* parameters in parts are faster than slots, but not as much */
    x.options.overrides.search = "auto";
    cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
    cr_assert(x.b->front.measures != NULL && x.b->front.measures->n == 1);
    cr_expect_str_eq(measure_name(&x.b->front.measures->taken[0]), "shard_states = none");
    compiled_finish(&x);
    char limit[32];
    snprintf(limit, sizeof limit, "%lld", (long long)(memory_bytes(&found) + taken.saved_bytes));
    compiled_look(&x, 7, &machine_gpu8);
    x.options.overrides.memory = limit;
    x.options.overrides.search = "auto";
    cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
    build_cost(x.b, &limited);
    cr_expect_leq(memory_bytes(&limited), memory_bytes(&found) + taken.saved_bytes);
    cr_expect_gt(limited.step_s, found.step_s);
    compiled_finish(&x);
}

/* Where updates of small parameters take longer than to share them, they are shared without need. The bound is of such a model. */
Test(states, small_states_are_shared_where_that_is_faster) {
    BuildCost found, hand;
    Compiled x;
    static const char net[] = "import \"nn.dsl\"; net n() { input x : f32[16, 64, 128]; input t : f32[16, 64, 128]; h = x;\n"
                              "  for i in 0..4 { h = transformer_block(h, 4); } loss mse(h, t); }\n"
                              "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); steps = 2; }\n";
    compiled_look(&x, 4, NULL);
    x.options.overrides.search = "auto";
    cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
    build_cost(x.b, &found);
    cr_assert(x.b->front.measures != NULL && x.b->front.measures->n == 1, "%s", compiled_said(&x));
    cr_expect_str_eq(measure_name(&x.b->front.measures->taken[0]), "shard_from = 0");
    cr_expect_lt(x.b->front.measures->taken[0].seconds, 0);
    cr_expect(0 < x.b->front.search->bound && x.b->front.search->bound <= found.step_s, "%g s, the bound is %g", found.step_s,
              x.b->front.search->bound);
    compiled_finish(&x);
    compiled_look(&x, 4, NULL);
    x.options.overrides.search = "auto";
    cr_assert(compiled_run(&x, arena_printf(&x.arena, "%sparallel { mode = auto; shard_from = 262144; }\n", net)), "%s", compiled_said(&x));
    build_cost(x.b, &hand);
    cr_expect_lt(found.step_s, hand.step_s);
    compiled_finish(&x);
}

/* Kernels behind which a gather runs are as long as it, however many these are: no more is waited for than the machine never hides, and what has no kernel beside it. */
Test(states, gathers_of_parameters_run_behind_kernels) {
    Compiled x;
    BuildCost cost;
    char *text, path[512];
    size_t n;
    Error error;
    compiled_look(&x, 8, &machine_gpu8);
    x.options.overrides.shard_states = "parameters";
    snprintf(path, sizeof path, "%s/llama.dsl", samples_folder());
    cr_assert(file_read(&x.arena, path, 1 << 20, &text, &n, &error), "%s", error.text);
    cr_assert(compiled_run(&x, text), "%s", x.c.error.text);
    build_cost(x.b, &cost);
    cr_expect_lt(cost.exposed_s, (1.05 - machine_gpu8.overlap) * cost.communication_s, "%g of %g s", cost.exposed_s, cost.communication_s);
    compiled_finish(&x);
}
