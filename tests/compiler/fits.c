#include <math.h>

#include "compile.h"
#include "compiler/facts.h"
#include "compiler/search.h"
#include "ir/workspace.h"

/* With what a measure may not change: no measure helps. */
#define AS_IT_IS " shard_from = 256 KiB; bucket = 25 MiB; "
#define NET(memory) OPEN_NET(AS_IT_IS memory)
#define OPEN_NET(memory)                                                                                                                   \
    "net n(batch = 64) { input x : f32[batch, 256]; param w : f32[256, 128] = normal(0.1); param v : f32[128, 8] = normal(0.1);\n"         \
    "  h = tanh(matmul(x, w)); loss mean(matmul(h, v)); }\n" TRAIN_MOMENTUM "parallel {" memory "}\n"

static bool run(Compiled *x, const char *net, const char *flag, const Machine *machine) {
    compiled_init(x, 4, 2);
    x->options.overrides.memory = flag;
    x->options.machine = machine;
    return compiled_run(x, net);
}

static int64_t needed_bytes(void) {
    Compiled x;
    cr_assert(run(&x, NET(""), NULL, NULL), "%s", compiled_said(&x));
    const int64_t bytes = x.b->facts->rank_bytes;
    compiled_finish(&x);
    return bytes;
}

Test(fits, what_may_be_needed_is_an_error_one_byte_below) {
    const int64_t needed = needed_bytes();
    char flag[32];
    Compiled x;
    snprintf(flag, sizeof flag, "%lld", (long long)needed);
    cr_expect(run(&x, NET(""), flag, NULL), "%s", compiled_said(&x));
    cr_expect_eq(x.diags.items.n, 0);
    compiled_finish(&x);
    snprintf(flag, sizeof flag, "%lld", (long long)needed - 1);
    cr_expect_not(run(&x, NET(""), flag, NULL));
    cr_expect_eq(x.diags.nerrors, 1);
    snprintf(flag, sizeof flag, "%.1f KiB", ceil((double)needed / 102.4) / 10); /* what it names is enough */
    cr_expect_not_null(strstr(compiled_said(&x), arena_printf(&x.arena, "needs %s of memory", flag)), "%s", compiled_said(&x));
    cr_expect_not_null(strstr(compiled_said(&x), "1 B more than the"), "%s", compiled_said(&x));
    cr_expect_not_null(strstr(compiled_said(&x), "the arena is fullest at step "), "%s", compiled_said(&x));
    cr_expect_not_null(strstr(compiled_said(&x), "or more ranks than 4"), "%s", compiled_said(&x));
    compiled_finish(&x);
}

Test(fits, the_net_says_it_and_a_flag_goes_before) {
    Compiled x;
    cr_expect_not(run(&x, NET(" memory = 64 KiB; "), NULL, NULL));
    cr_expect_eq(x.diags.items.at[0].span.line, 4);
    cr_expect_not_null(strstr(compiled_said(&x), "than the 64.0 KiB that it may"), "%s", compiled_said(&x));
    cr_expect_not_null(strstr(compiled_said(&x), "split "), "%s", compiled_said(&x));
    compiled_finish(&x);
    /* Of w, its slot, and those of v, 264 KiB in all, three quarters are the other ranks'. */
    cr_expect_not(run(&x, NET(" memory = 64 KiB; shard_states = parameters; "), NULL, NULL));
    cr_expect_not_null(strstr(compiled_said(&x), "shard_from = 0 has ranks share the states of small parameters too: up to 198.0 KiB less"),
                       "%s", compiled_said(&x));
    compiled_finish(&x);
    cr_expect_not(run(&x, NET(" memory = 64 KiB; shard_states = optimizer; "), NULL, NULL)); /* slots alone */
    cr_expect_not_null(strstr(compiled_said(&x), "small parameters too: up to 99.0 KiB less"), "%s", compiled_said(&x));
    compiled_finish(&x);
    cr_expect_not(run(&x, OPEN_NET(" memory = 64 KiB; shard_states = parameters; shard_from = 0; "), NULL, NULL));
    cr_expect_null(strstr(compiled_said(&x), "shard_from"), "%s", compiled_said(&x));
    compiled_finish(&x);
    cr_expect(run(&x, NET(" memory = 64 KiB; "), "1 GiB", NULL), "%s", compiled_said(&x));
    compiled_finish(&x);
    cr_expect_not(run(&x, NET(" memory = 0; "), NULL, NULL));
    compiled_finish(&x);
}

Test(fits, a_machine_with_less_is_a_warning) {
    Compiled x;
    Machine small = machine_cpu;
    small.name = "small";
    small.memory_bytes = needed_bytes() - 1;
    cr_expect(run(&x, NET(""), NULL, &small));
    cr_expect_eq(x.diags.nwarnings, 1);
    cr_expect_not_null(strstr(compiled_said(&x), "; small has "), "%s", compiled_said(&x));
    compiled_finish(&x);
    small.memory_bytes++;
    cr_expect(run(&x, NET(""), NULL, &small));
    cr_expect_eq(x.diags.nwarnings, 0);
    compiled_finish(&x);
    small.memory_bytes = 1; /* what is asked for counts alone */
    cr_expect(run(&x, NET(" memory = 1 GiB; "), NULL, &small));
    cr_expect_eq(x.diags.nwarnings, 0, "%s", compiled_said(&x));
    compiled_finish(&x);
}

Test(fits, the_workspace_of_gpus_counts) {
    Compiled x;
    Machine gpus = machine_cpu;
    gpus.cuda = true;
    gpus.memory_bytes = needed_bytes() + WORKSPACE_REDUCTIONS + WORKSPACE_PRODUCTS - 1;
    cr_expect(run(&x, NET(""), NULL, &gpus));
    cr_expect_eq(x.diags.nwarnings, 1);
    cr_expect_not_null(strstr(compiled_said(&x), "the workspace of kernels 36.0 MiB"), "%s", compiled_said(&x));
    compiled_finish(&x);
    gpus.memory_bytes++;
    cr_expect(run(&x, NET(""), NULL, &gpus));
    cr_expect_eq(x.diags.nwarnings, 0, "%s", compiled_said(&x));
    compiled_finish(&x);
}

/* Layers of a large batch: in parts a rank needs much less. */
Test(fits, where_nothing_fits_the_error_is_about_batches_in_parts_if_these_need_less) {
    static const char net[] = "net n(batch = 4096, dim = 16) { input x : f32[batch, dim]; input label : f32[batch, dim]; h = x;\n"
                              "  for i in 0..6 { param w : f32[dim, dim] = normal(0.1); h = tanh(matmul(h, w)); } loss mse(h, label); }\n"
                              "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\n";
    Compiled x;
    cr_expect_not(run(&x, net, "1 KiB", NULL));
    cr_expect_eq(x.diags.nerrors, 1);
    const char *parts = strstr(compiled_said(&x), " micro_batches = ");
    cr_assert_not_null(parts, "%s", compiled_said(&x));
    cr_expect_geq(atoi(parts + strlen(" micro_batches = ")), 128, "%s", compiled_said(&x)); /* 256 need 1 KiB less of 288 */
    compiled_finish(&x);
}

/* In 64 parts a batch has one row, which ranks compute alike: but no plan has these parts. */
Test(fits, work_of_parts_that_are_not_taken_is_not_warned_of) {
    static const char net[] =
        "net n(batch = 64, dim = 64) { input x : f32[batch, dim]; h = x;\n"
        "  for i in 0..6 { param w : f32[dim, dim] = normal(0.1); h = tanh(matmul(h, w)); } loss mean(h * h); }\n"
        "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\nparallel { mode = %s;" AS_IT_IS "}\n";
    static const char *const modes[] = {"semi_auto", "auto"};
    for (int i = 0; i < 2; i++) {
        Compiled x;
        char text[512];
        snprintf(text, sizeof text, net, modes[i]);
        cr_expect_not(run(&x, text, "1 KiB", NULL));
        cr_expect_not_null(strstr(compiled_said(&x), " micro_batches = 64: "), "%s", compiled_said(&x));
        cr_expect_null(strstr(compiled_said(&x), "several ranks alike"), "%s", compiled_said(&x));
        compiled_finish(&x);
    }
}

/* More ranks are proposed where a rank of twice as many needs less: not where it holds what cannot be split, however many there are. */
Test(fits, more_ranks_are_proposed_where_they_help) {
    static const struct {
        const char *net, *memory;
        bool helps;
    } cases[] = {
        {NET(""), "540 KiB", true},
        {NET(""), "64 KiB", false},
        {"net n() { input x : f32[1, 7]; param w : f32[7, 7] = normal(0.1); loss mean(matmul(x, w)); }\n" TRAIN, "64 B", false},
        {"net n() { input x : f32[3, 3]; param w : f32[3, 100] = normal(0.1) shard (1, 1); y = matmul(x, w) shard ((1, 1), (1, 1));\n"
         "  loss mean(y); }\n" TRAIN "parallel { stages = 1; }\n",
         "32 B", false}};
    for (int i = 0; i < 4; i++) {
        Compiled x;
        cr_expect_not(run(&x, cases[i].net, cases[i].memory, NULL));
        cr_expect_eq(strstr(compiled_said(&x), "more ranks than 4: each of 8 needs ") != NULL, cases[i].helps, "%s", compiled_said(&x));
        cr_expect_eq(strstr(compiled_said(&x), "more ranks alone may not be enough: in the plan that is found for 8 each needs ") != NULL,
                     !cases[i].helps, "%s", compiled_said(&x));
        compiled_finish(&x);
    }
}

/* The limit is of training: the plan is the same, and what generates would need is said. */
Test(fits, generating_beyond_the_limit_is_a_warning) {
    static const char net[] = "net n(batch = 4, places = 16) { input text : i32[batch, places]; input next : i32[batch, places];\n"
                              "  param letter : f32[11, 64] = normal(0.5); x = embedding(letter, text);\n"
                              "  y = dot_product_attention(x, x * 2, x, causal = true); logits = matmul(y, letter, transpose_b = true);\n"
                              "  loss cross_entropy(logits, next); }\n"
                              "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); }\n"
                              "generate { text = text; logits = logits; places = 2048; }\n";
    Compiled x;
    cr_assert(run(&x, net, NULL, NULL), "%s", compiled_said(&x));
    const Facts *prompt = program_prompt(&x.c)->facts, *train = x.b->facts;
    cr_assert_gt(prompt->rank_bytes, train->rank_bytes);
    char flag[32];
    snprintf(flag, sizeof flag, "%lld", (long long)train->rank_bytes);
    const int nsteps = train->role->steps.n;
    compiled_finish(&x);
    cr_expect(run(&x, net, flag, NULL), "%s", compiled_said(&x));
    cr_expect_eq(x.b->facts->role->steps.n, nsteps);
    cr_expect_eq(x.diags.nwarnings, 1);
    cr_expect_eq(x.diags.items.at[0].span.line, 1);
    cr_expect_not_null(strstr(compiled_said(&x), "generating needs "), "%s", compiled_said(&x));
    compiled_finish(&x);
}

/* Begins a compilation by search = auto within a limit. */
static void auto_within(Compiled *x, int nranks, const char *memory) {
    compiled_look(x, nranks, NULL);
    x->options.overrides.search = "auto";
    x->options.overrides.memory = memory;
}

/* Within 284 KiB a plan is found, whose measures are others than those that come first within 313.7 KiB, where 314.1 are then needed. */
static const char blocks[] =
    "cell block(x) {\n"
    "let dim = size(x, -1);\n"
    "let heads = 4;\n"
    "param wq : f32[dim, dim] = normal(0.1);\n"
    "param wk : f32[dim, dim] = normal(0.1);\n"
    "param wv : f32[dim, dim] = normal(0.1);\n"
    "param wo : f32[dim, dim] = normal(0.1);\n"
    "param g1 : f32[dim] = ones;\n"
    "param c1 : f32[dim] = zeros;\n"
    "param g2 : f32[dim] = ones;\n"
    "param c2 : f32[dim] = zeros;\n"
    "param up : f32[dim, 4 * dim] = normal(0.1);\n"
    "param down : f32[4 * dim, dim] = normal(0.1);\n"
    "n = layer_norm(x, g1, c1, eps = 1e-5);\n"
    "q = transpose(reshape(matmul(n, wq), shape = [size(x, 0), size(x, 1), heads, dim / heads]), perm = [0, 2, 1, 3]);\n"
    "k = transpose(reshape(matmul(n, wk), shape = [size(x, 0), size(x, 1), heads, dim / heads]), perm = [0, 2, 1, 3]);\n"
    "v = transpose(reshape(matmul(n, wv), shape = [size(x, 0), size(x, 1), heads, dim / heads]), perm = [0, 2, 1, 3]);\n"
    "a = dot_product_attention(q, k, v, causal = true);\n"
    "o = matmul(reshape(transpose(a, perm = [0, 2, 1, 3]), shape = [size(x, 0), size(x, 1), dim]), wo);\n"
    "r = x + o;\n"
    "n2 = layer_norm(r, g2, c2, eps = 1e-5);\n"
    "return r + matmul(gelu(matmul(n2, up)), down);\n"
    "}\n"
    "net tr(batch = 16, places = 16, dim = 32, layers = 4) {\n"
    "input x : f32[batch, places, dim];\n"
    "input label : f32[batch, places, dim];\n"
    "h = x;\n"
    "for i in 0..layers {\n"
    "h = block(h);\n"
    "}\n"
    "loss mse(h, label);\n"
    "}\n"
    "train {\n"
    "data = normal(seed = 1);\n"
    "optimizer = adamw(lr = 0.003);\n"
    "epochs = 1;\n"
    "steps = 3;\n"
    "}\n"
    "parallel { shard_from = 0 B; }\n";
Test(fits, what_fits_within_less_fits) {
    static const char *const memory[] = {"273000", "290833", "321250"};
    for (int i = 0; i < 3; i++) {
        Compiled x;
        auto_within(&x, 4, memory[i]);
        cr_expect(compiled_run(&x, blocks), "%s: %s", memory[i], compiled_said(&x));
        compiled_finish(&x);
    }
}

/* What an error says is needed is enough, and nearly the least: what is looked for within a limit that nothing reaches needs 158.2 KiB and 249.5 of the blocks, which then do not fit. */
Test(fits, what_is_said_to_be_needed_is_enough) {
    static const char experts[] =
        "import \"nn.dsl\"; net n(batch = 12, places = 16, dim = 24) { input x : f32[batch, places, dim]; input t : f32[batch, places, dim];\n"
        "  a = x + attention(layer_norm(x), 4); mixed, even, out = moe(layer_norm(a), 6, 48, k = 2); loss mse(a + mixed, t) + 0.01 * even; }\n"
        "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); steps = 3; }\n";
    static const struct {
        const char *net;
        int nranks;
        const char *memory;
        int64_t most;
    } at[] = {{experts, 8, "60 KiB", 136 << 10}, {blocks, 4, "140000", 256000}};
    for (int i = 0; i < 2; i++) {
        char memory[32];
        Compiled x;
        auto_within(&x, at[i].nranks, at[i].memory);
        cr_expect_not(compiled_run(&x, at[i].net));
        const int64_t needed = bytes_needed(&x.c);
        compiled_finish(&x);
        cr_expect_leq(needed, at[i].most, "%lld B", (long long)needed);
        snprintf(memory, sizeof memory, "%lld", (long long)needed);
        auto_within(&x, at[i].nranks, memory);
        cr_expect(compiled_run(&x, at[i].net), "%s: %s", memory, compiled_said(&x));
        compiled_finish(&x);
    }
}

/* An eval has inputs and an arena of its own: what it needs beside train is said. */
Test(fits, what_evals_need_is_said) {
    static const char net[] =
        "net n(batch = 16) { input x : f32[batch, 64]; param w : f32[64, 64] = normal(0.1); h = tanh(matmul(x, w)); loss mean(h * h); }\n"
        "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\neval { data = normal(seed = 2); batch = 4096; steps = 1; }\n";
    Compiled x;
    cr_expect_not(run(&x, net, "64 KiB", NULL));
    cr_expect_not_null(strstr(compiled_said(&x), "evals need "), "%s", compiled_said(&x));
    cr_expect_not_null(strstr(compiled_said(&x), "a smaller batch in the eval block needs less"), "%s", compiled_said(&x));
    cr_expect_not_null(strstr(compiled_said(&x), "each of 8 needs 410.5 KiB"), "%s",
                       compiled_said(&x)); /* with its eval, which needs most of that */
    compiled_finish(&x);
}

/* What is compiled to see what it costs has its eval: of 37 rows, which no number of ranks divides, and of 16 to train. What fits is as fast as what fits into less, and the figure of the search is that of the plan. */
Test(fits, plans_are_tried_with_their_eval) {
    static const char net[] =
        "net n(batch = 16, dim = 12, hidden = 24) { input x : f32[batch, dim]; input label : f32[batch, 4]; param w : f32[dim, hidden] = normal(0.3);\n"
        "  param b : f32[hidden] = zeros; param w2 : f32[hidden, 4] = normal(0.3); y = matmul(tanh(matmul(x, w) + b), w2); loss mse(y, label); }\n"
        "train { data = normal(seed = 1); optimizer = momentum(lr = 0.05, momentum = 0.9); steps = 4; }\n"
        "eval { batch = 37; data = normal(seed = 2); steps = 8; }\n";
    static const char *const memory[] = {"7400", "10000", "12200", "12400", "14000"};
    double before = INFINITY;
    for (int i = 0; i < 5; i++) {
        Compiled x;
        BuildCost cost;
        auto_within(&x, 4, memory[i]);
        cr_assert(compiled_run(&x, net), "%s B: %s", memory[i], compiled_said(&x));
        build_cost(x.b, &cost);
        cr_expect_gt(cost.eval_bytes, 0);
        cr_expect_eq(memory_bytes(&cost), bytes_needed(&x.c), "%lld and %lld B", (long long)memory_bytes(&cost),
                     (long long)bytes_needed(&x.c));
        cr_expect_leq(cost.step_s, before, "%g s within %s B", cost.step_s, memory[i]);
        before = cost.step_s;
        compiled_finish(&x);
    }
}

/* An eval that is small beside the states counts where the limit is close to what is needed, and need not be compiled where it is not. */
Test(fits, a_small_eval_counts_where_memory_is_tight) {
    static const char net[] =
        "net n(batch = 16) { input x : f32[batch, 256]; param w : f32[256, 256] = normal(0.1); loss mean(square(matmul(x, w))); }\n"
        "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\neval { data = normal(seed = 2); batch = 8; steps = 1; }\n";
    char memory[32] = "1 GiB";
    for (int tight = 0; tight < 2; tight++) {
        Compiled x;
        BuildCost cost;
        compiled_look(&x, 1, NULL);
        x.options.overrides.memory = memory;
        cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
        build_cost(x.b, &cost);
        cr_expect_eq(cost.eval_bytes > 0, tight, "%lld bytes", (long long)cost.eval_bytes);
        cr_expect(!tight || memory_bytes(&cost) == bytes_needed(&x.c));
        snprintf(memory, sizeof memory, "%lld", (long long)bytes_needed(&x.c));
        compiled_finish(&x);
    }
}

/* A search within a limit takes measures one after another: of several limits the fastest that fits is taken. Layers in two stages, whose cuts are a measure too, and blocks on four ranks. */
static void expect_no_slower(const char *net, int nranks, const int64_t *limits, int n) {
    double bytes[8], seconds[8];
    for (int i = 0; i < n; i++) {
        Compiled x;
        BuildCost cost;
        char memory[32];
        snprintf(memory, sizeof memory, "%lld", (long long)limits[i]);
        auto_within(&x, nranks, memory);
        bytes[i] = 0;
        if (compiled_run(&x, net)) {
            build_cost(x.b, &cost);
            bytes[i] = (double)memory_bytes(&cost);
            seconds[i] = cost.step_s;
            cr_expect_leq(bytes[i], (double)limits[i]);
            if (x.c.micro != NULL && x.c.micro->parts == 1 && x.c.micro->decision != NULL) /* of whole batches all was seen */
                cr_expect_eq(memory_bytes(&cost), memory_bytes(&x.c.micro->decision->cost), "within %lld B", (long long)limits[i]);
        }
        compiled_finish(&x);
        cr_expect_gt(bytes[i], 0, "nothing fits into %lld B", (long long)limits[i]);
        for (int k = 0; k < i; k++) {
            if (bytes[k] == 0) continue;
            cr_expect_leq(seconds[i], 1.05 * seconds[k], "%g ms within %lld B, %g within %lld", 1e3 * seconds[i], (long long)limits[i],
                          1e3 * seconds[k], (long long)limits[k]);
        }
    }
}
static const char six[] =
    "net n(batch = 32, dim = 48) { input x : f32[batch, dim]; input label : f32[batch, dim]; h = x;\n"
    "  for i in 0..6 { param w : f32[dim, dim] = normal(0.15); param b : f32[dim] = zeros; h = tanh(matmul(h, w) + b); }\n"
    "  loss mse(h, label); }\n"
    "train { data = normal(seed = 1); optimizer = adam(lr = 0.01); steps = 8; }\nparallel { shard_from = 0 B; stages = 2; }\n";
Test(fits, more_memory_makes_no_pipeline_slower) {
    expect_no_slower(six, 4, (int64_t[]){86440, 94619, 101735, 105000, 114434, 120351, 125000, 130000}, 8);
}
Test(fits, more_memory_makes_no_plan_slower) {
    expect_no_slower(blocks, 4, (int64_t[]){302000, 318821, 325423, 334047}, 4);
}

/* Of one search: cuts that keep to the limit as a whole leave 0.1055 ms. */
Test(fits, stages_are_cut_again_for_what_is_missing) {
    Compiled x;
    BuildCost cost;
    auto_within(&x, 4, "93726");
    x.options.overrides.search = "recursive_programming";
    cr_assert(compiled_run(&x, six), "%s", compiled_said(&x));
    build_cost(x.b, &cost);
    cr_expect_leq(cost.step_s, 0.104e-3, "%g s", cost.step_s);
    compiled_finish(&x);
}

static void blocks_within(Compiled *x, const char *memory, BuildCost *cost) {
    auto_within(x, 4, memory);
    cr_assert(compiled_run(x, blocks), "%s", compiled_said(x));
    build_cost(x->b, cost);
}

/* What is compiled on the way to a lower limit may fit into this one and be faster than what either search takes: 4.9 ms without. */
Test(fits, what_is_compiled_for_a_lower_limit_is_taken) {
    Compiled x;
    BuildCost cost;
    blocks_within(&x, "325423", &cost);
    cr_expect_leq(cost.step_s, 3.8e-3, "%g s", cost.step_s);
    compiled_finish(&x);
}

/* blocks, so many of them, on so many ranks. */
static void some_blocks(Compiled *x, int64_t layers, int nranks, const char *stages, const char *memory) {
    static const char *const name[] = {"layers"};
    static int64_t value[1];
    value[0] = layers;
    auto_within(x, nranks, memory);
    x->options.overrides.stages = stages;
    x->options.overrides.ndefines = 1;
    x->options.overrides.define_name = name;
    x->options.overrides.define_value = value;
    compiled_run(x, blocks);
}

/* What a search within a limit compiled on its way is kept for others: each is faster than all that need no more, and what is taken is no slower than any of them that fits. */
Test(fits, what_is_compiled_on_the_way_is_kept) {
    Compiled x;
    BuildCost cost;
    blocks_within(&x, "321250", &cost);
    const SearchTaken *decision = x.b->front.decision;
    cr_assert_not_null(decision);
    cr_assert_gt(decision->nfront, 2);
    for (int k = 0; k < decision->nfront; k++) {
        const BuildCost *one = &decision->front[k].cost, *before = k > 0 ? &decision->front[k - 1].cost : NULL;
        if (before != NULL) cr_expect(memory_bytes(before) < memory_bytes(one) && one->step_s < before->step_s, "%d", k);
        if (memory_bytes(one) <= 321250) cr_expect_leq(cost.step_s, 1.0225 * one->step_s, "%d: %g s", k, one->step_s);
    }
    compiled_finish(&x);
}

/* Three blocks on six ranks, `stages = auto`: of three stages what a search finds within the limit needs too much with all batches of a step, within a lower one it fits. Without 3.4 ms, of one stage, which is compiled first. */
Test(fits, lower_limits_are_looked_at_for_pipelines) {
    static const char *const memory[] = {"220000", "800000"};
    static const double most_s[] = {2.1e-3, 0.6e-3};
    for (int i = 0; i < 2; i++) {
        Compiled x;
        BuildCost cost;
        some_blocks(&x, 3, 6, "auto", memory[i]);
        cr_assert(x.done, "%s", compiled_said(&x));
        build_cost(x.b, &cost);
        cr_expect_leq(cost.step_s, most_s[i], "%g s within %s B", cost.step_s, memory[i]);
        cr_expect_leq(bytes_needed(&x.c), (int64_t)atoll(memory[i]));
        cr_expect(x.c.stages->best.n == 4 && x.c.stages->best.at[0].stages == 1 && x.c.stages->best.at[0].compiles);
        cr_expect_eq(x.c.stages->taken.stages > 1, i == 0, "%d stages", x.c.stages->taken.stages);
        compiled_finish(&x);
    }
}

/* Where nothing fits the error is about the plan that needs the least, in one stage or in several: here one of one stage needs 151.0 KiB, pipelines more. */
Test(fits, stages_auto_is_refused_with_the_least_of_all) {
    for (int i = 0; i < 2; i++) {
        Compiled x;
        some_blocks(&x, 2, 4, i > 0 ? "auto" : NULL, "140000");
        cr_expect_not(x.done);
        cr_expect_not_null(strstr(compiled_said(&x), "this plan needs 151.0 KiB of memory on a rank"), "%s", compiled_said(&x));
        compiled_finish(&x);
    }
}

/* What is found within a lower limit is the same whatever the user's is: else more memory could bring less. */
Test(fits, what_is_found_within_a_limit_depends_on_it_alone) {
    static const char *const memory[] = {"100000", "140000"};
    int64_t bytes[2];
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        Compiled x;
        auto_within(&x, 4, memory[i]);
        cr_assert(compiled_run(&x, six), "%s", compiled_said(&x));
        const SearchTaken *decision = parts_decide(&x.c, NULL, 1, 0, 92672);
        cr_assert_not_null(decision);
        cr_expect_eq(decision->limit, 92672);
        bytes[i] = memory_bytes(&decision->cost);
        seconds[i] = decision->cost.step_s;
        compiled_finish(&x);
    }
    cr_expect_eq(bytes[0], bytes[1], "%lld and %lld B", (long long)bytes[0], (long long)bytes[1]);
    cr_expect_eq(seconds[0], seconds[1]);
}

/* What every plan needs is said where the limit is less, and where it is not, not: two blocks on 4 ranks have 73.5 KiB of states in even parts, in one stage and in two. */
Test(fits, what_every_plan_needs_is_said) {
    for (int i = 0; i < 2; i++) {
        Compiled x;
        some_blocks(&x, 2, 4, NULL, i > 0 ? "70000" : "140000");
        cr_expect_not(x.done);
        cr_expect_eq(strstr(compiled_said(&x), "no plan on 4 ranks needs less than") != NULL, i > 0, "%s", compiled_said(&x));
        compiled_finish(&x);
    }
    for (int stages = 1; stages <= 2; stages++) {
        Compiled x;
        some_blocks(&x, 2, 4, stages > 1 ? "2" : NULL, "200000");
        cr_assert(x.done, "%s", compiled_said(&x));
        const Graph *g = &x.b->front.graph;
        const int64_t least = least_bytes(g, g->nranks, NULL);
        cr_expect_eq(g->nranks, 4);
        cr_expect(least <= bytes_needed(&x.c) && 3 * least > bytes_needed(&x.c), "%lld of %lld B", (long long)least,
                  (long long)bytes_needed(&x.c));
        compiled_finish(&x);
    }
}

/* Of a large product with odd rows the workspace is larger: not of its parts, so that what fits in parts is not beyond reach. */
Test(fits, workspace_that_parts_spare_is_not_in_every_plan) {
    Compiled x;
    auto_within(&x, 1, "15730 MiB");
    x.options.machine = &machine_gpu8;
    cr_expect(
        compiled_run(
            &x,
            "import \"nn.dsl\";\n"
            "net n(batch = 32768, dim = 1025, rows = 4000000) { input x : i32[batch]; input t : i32[batch]; param e : f32[rows, dim] = normal(0.02);\n"
            " f = stop_gradient(embedding(e, x));\n"
            " h = relu(linear(f, dim)); loss cross_entropy(linear(h, 16), t); }\n"
            "train { data = normal(seed = 1); optimizer = sgd(lr = 0.001); steps = 2; }\n"),
        "%s", compiled_said(&x));
    compiled_finish(&x);
}
