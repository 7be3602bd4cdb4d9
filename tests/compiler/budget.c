/* Plans within a limit of memory: by which measures, and after how much work. */
#include <math.h>

#include "compile.h"
#include "compiler/facts.h"
#include "compiler/search.h"
#include "ir/file.h"

/* On 8 ranks of machine gpu8. */
static void begin(Compiled *x, const char *memory) {
    compiled_look(x, 8, &machine_gpu8);
    x->options.overrides.memory = memory;
}

/* A net of samples/. */
static bool sample(Compiled *x, const char *name, const char *search, const char *memory, BuildCost *cost) {
    char *text, path[512];
    size_t n;
    Error error;
    begin(x, memory);
    x->options.overrides.search = search;
    snprintf(path, sizeof path, "%s/%s.dsl", *x->options.overrides.folder, name);
    cr_assert(file_read(&x->arena, path, 1 << 20, &text, &n, &error), "%s", error.text);
    const bool done = compiled_run(x, text);
    if (done) build_cost(x->b, cost);
    return done;
}

/* What the first two batches of a step say of all is what all of them take. */
static void expect_as_decided(const Compiled *x, const BuildCost *cost) {
    const BuildCost *decided = &x->c.micro->decision->cost;
    cr_expect_float_eq(decided->step_s, cost->step_s, 0.04 * cost->step_s, "%g s decided, %g s compiled", decided->step_s, cost->step_s);
    cr_expect_float_eq((double)memory_bytes(decided), (double)memory_bytes(cost), 0.01 * (double)memory_bytes(cost));
    cr_expect_float_eq((double)decided->input_bytes, (double)cost->input_bytes, 256, "%lld bytes of inputs decided, %lld compiled",
                       (long long)decided->input_bytes, (long long)cost->input_bytes);
    cr_expect_float_eq((double)decided->sent_bytes, (double)cost->sent_bytes, 0.05 * (double)cost->sent_bytes);
    cr_expect_float_eq(decided->flops, cost->flops, 0.02 * cost->flops);
}

/* The figures of docs/memory.md. Work is bounded, not seconds: programs that are compiled for the parts that are taken. */
Test(budget, batches_in_parts_fit_after_little_work) {
    static const struct {
        const char *memory;
        double mib, step_s;
        int parts, programs;
    } at[] = {{"900 MiB", 900, 21.8e-3, 1, 110},
              {"700 MiB", 700, 34.6e-3, 4, 100},
              {"600 MiB", 600, 39.5e-3, 4, 80},
              {"500 MiB", 500, 50.6e-3, 8, 100}};
    int decided = 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        Compiled x;
        BuildCost cost;
        cr_assert(sample(&x, "gpt2", NULL, at[i].memory, &cost), "%s", at[i].memory);
        cr_expect_leq((double)memory_bytes(&cost), at[i].mib * (1 << 20));
        cr_expect_leq(cost.step_s, at[i].step_s, "%s: %g s", at[i].memory, cost.step_s);
        cr_assert_eq(x.c.micro != NULL ? x.c.micro->parts : 1, at[i].parts, "%s", at[i].memory);
        cr_expect_leq(x.b->front.search->ncompiled, at[i].programs, "%s: %d programs", at[i].memory, x.b->front.search->ncompiled);
        if (x.c.micro != NULL && x.c.micro->again == 0) { /* else all batches did not fit as the first two did */
            expect_as_decided(&x, &cost);
            decided++;
        }
        compiled_finish(&x);
    }
    cr_expect_geq(decided, 1);
}

/* What is computed again takes what it does by itself, also where it is fused behind a product: of LLaMA silu and its product with the gate, not products. 2,146 ms where members of a fused step count alike. */
Test(budget, computing_again_costs_a_kernel_of_its_own) {
    Compiled x;
    BuildCost cost;
    cr_assert(sample(&x, "llama", "sharding_propagation", "24 GiB", &cost));
    cr_expect_leq(memory_bytes(&cost), INT64_C(24) << 30);
    cr_expect_leq(cost.step_s, 2.05, "%g s", cost.step_s);
    compiled_finish(&x);
}

/* Of LLaMA-8B most memory buys most time, and each GiB less costs some: parameters stored in parts, of which no more are gathered again than must be. */
Test(budget, more_memory_is_as_fast_or_faster) {
    static const struct {
        const char *memory;
        double step_s;
    } at[] = {{"80 GiB", 1.8405}, {"60 GiB", 1.842}, {"45 GiB", 1.851}, {"36 GiB", 1.857}};
    double faster_s = 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        Compiled x;
        BuildCost cost;
        cr_assert(sample(&x, "llama", NULL, at[i].memory, &cost), "%s", at[i].memory);
        cr_expect_leq(cost.step_s, at[i].step_s, "%s: %g s", at[i].memory, cost.step_s);
        cr_expect_geq(cost.step_s, faster_s, "%s: %g s, with more memory %g s", at[i].memory, cost.step_s, faster_s);
        faster_s = cost.step_s;
        compiled_finish(&x);
    }
}

static BuildCost graph_convolution(const char *parallel) {
    static const char net[] =
        "import \"nn.dsl\"; net gcn(nodes = 3000, dim = 512, classes = 40) {\n"
        "  input x : f32[nodes, dim]; input adj : f32[nodes, nodes]; input label : i32[nodes];\n"
        "  h = relu(matmul(adj, linear(x, 256))); h2 = relu(matmul(adj, linear(h, 256))); loss cross_entropy(matmul(adj, linear(h2, classes)), label); }\n"
        "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); } parallel { %s }\n";
    char text[1024];
    Compiled x;
    BuildCost cost;
    compiled_look(&x, 4, &machine_gpu8);
    x.options.overrides.search = NULL;
    snprintf(text, sizeof text, net, parallel);
    cr_assert(compiled_run(&x, text), "%s", compiled_said(&x));
    build_cost(x.b, &cost);
    compiled_finish(&x);
    return cost;
}

/* For fewer bytes auto gives away up to 2.25 % of the time: not where the user says so, nor, unless the user says so, within a limit of the user's. */
Test(budget, a_user_may_want_the_fastest) {
    const BuildCost usual = graph_convolution(""), fastest = graph_convolution("tolerance = 0;"),
                    limited = graph_convolution("memory = 10 GiB;"), both = graph_convolution("memory = 10 GiB; tolerance = 0.0225;");
    cr_expect_lt(fastest.step_s, usual.step_s);
    cr_expect_gt(fastest.sent_bytes, usual.sent_bytes);
    cr_expect_leq(usual.step_s, fastest.step_s * 1.0225);
    cr_expect_eq(limited.step_s, fastest.step_s);
    cr_expect_eq(both.step_s, usual.step_s);
}

/* What another search finds within the limit, in a lower one, or with batches in parts: before, 1.088 ms where dynamic_programming found 0.9415, and 0.999 where recursive_programming found 0.9153. */
Test(budget, within_a_limit_no_search_finds_more_than_auto) {
    static const struct {
        const char *net, *memory;
        int nranks;
        double most_s;
    } at[] = {
        {"import \"nn.dsl\"; net tied(batch = 6, places = 192, dim = 384) { input word : i32[batch, places]; input next : i32[batch, places];\n"
         "  t = gpt2_model(word, 20000, 1024, dim, 2, 6); loss cross_entropy(t, next); }\n"
         "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); }\n",
         "152069286", 4, 0.95e-3},
        {"cell two(x, out) { param v : f32[out, size(x, 1), 3, 3] = normal(0.1); param w : f32[out, out, 3, 3] = normal(0.1);\n"
         "  a = relu(conv2d(x, v, padding = 1)); return relu(conv2d(a, w, padding = 1)); }\n"
         "net ushape(batch = 2, side = 128) { input x : f32[batch, 3, side, side]; input label : i32[batch, side, side]; param o : f32[8, 32, 1, 1] = normal(0.1);\n"
         "  a = two(x, 32); b = two(max_pool(a, kernel_size = 2), 64); c = two(max_pool(b, kernel_size = 2), 128);\n"
         "  d = two(concat(b, upsample(c, scale_factor = 2), axis = 1), 64); e = two(concat(a, upsample(d, scale_factor = 2), axis = 1), 32);\n"
         "  loss cross_entropy(transpose(conv2d(e, o), perm = [0, 2, 3, 1]), label); }\n"
         "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); }\n",
         "58000000", 12, 0.95e-3}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        Compiled x;
        BuildCost cost;
        compiled_look(&x, at[i].nranks, &machine_gpu8);
        x.options.overrides.search = NULL;
        x.options.overrides.memory = at[i].memory;
        cr_assert(compiled_run(&x, at[i].net), "%s", compiled_said(&x));
        build_cost(x.b, &cost);
        cr_expect_leq(cost.step_s, at[i].most_s, "%d ranks: %g s", at[i].nranks, cost.step_s);
        compiled_finish(&x);
    }
}

/* Equal layers: solutions that cost the same to the last bit are not fitted twice, and what was compiled once is not compiled again. */
Test(budget, equal_layers_fit_after_little_work) {
    Compiled x;
    compiled_init(&x, 8, 2);
    x.options.machine = &machine_gpu8;
    x.options.no_plan = true;
    x.options.prove = false;
    x.options.overrides.search = NULL;
    x.options.overrides.memory = "196 MiB";
    cr_assert(compiled_run(&x, "cell layer(x) { param w : f32[256, 256] = normal(0.1); return relu(matmul(x, w)); }\n"
                               "net n(batch = 4096, layers = 200) { input x : f32[batch, 256]; h = x;\n"
                               "  for i in 0..layers { h = layer(h); } loss mean(h * h); }\n"
                               "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); }\n"),
              "%s", compiled_said(&x));
    cr_assert_not_null(x.b->front.search);
    cr_expect_leq(x.b->facts->rank_bytes, (int64_t)196 << 20);
    cr_expect_leq(x.b->front.search->ncompiled, 40, "%d programs", x.b->front.search->ncompiled);
    cr_expect_null(x.c.micro);
    BuildCost cost;
    build_cost(x.b, &cost);
    cr_expect_leq(cost.step_s, 3e-3, "%g s", cost.step_s);
    compiled_finish(&x);
}

/* Parameters below shard_from and gradients below a bucket: what the settings would bring by hand is a measure, but where the user has said them. */
#define SMALL(settings)                                                                                                                          \
    "net n(batch = 64, dim = 128) { input x : f32[batch, dim]; input label : f32[batch, dim]; h = x;\n"                                          \
    "  for i in 0..6 { param u : f32[dim, 256] = normal(0.1); param w : f32[256, dim] = normal(0.1); h = h + matmul(gelu(matmul(h, u)), w); }\n" \
    "  loss mse(h, label); }\ntrain { data = normal(seed = 1); optimizer = adam(lr = 0.001); steps = 2; }\n"                                     \
    "parallel { mode = semi_auto; " settings " }\n"
Test(budget, small_states_and_small_buckets_are_measures) {
    static const struct {
        const char *net;
        bool fits, small, buckets;
    } cases[] = {{SMALL(""), true, true, true},
                 {SMALL("shard_from = 256 KiB;"), false, false, true},
                 {SMALL("bucket = 25 MiB;"), false, true, false},
                 {SMALL("shard_from = 0; shard_states = parameters; bucket = 64 KiB;"), true, false, false}};
    double by_hand = 0, found = 0;
    for (int i = 0; i < 4; i++) {
        Compiled x;
        bool small = false, buckets = false;
        compiled_init(&x, 4, 2);
        x.options.overrides.memory = "1950000";
        cr_expect_eq(compiled_run(&x, cases[i].net), cases[i].fits, "%d: %s", i, compiled_said(&x));
        const Measures *measures = x.b->front.measures;
        for (int k = 0; measures != NULL && k < measures->n; k++) {
            small = small || strcmp(measure_name(&measures->taken[k]), "shard_from = 0") == 0;
            buckets = buckets || strncmp(measure_name(&measures->taken[k]), "bucket = ", strlen("bucket = ")) == 0;
        }
        cr_expect(small == cases[i].small && buckets == cases[i].buckets, "%d: %d, %d", i, small, buckets);
        BuildCost cost;
        if (cases[i].fits) build_cost(x.b, &cost), *(i == 0 ? &found : &by_hand) = cost.step_s;
        compiled_finish(&x);
    }
    cr_expect_leq(found, 1.01 * by_hand, "%g s, by hand %g s", found, by_hand);
}

/* What of measures taken near another plan brings nothing is left out, and what is left says what it brings in this one. */
Test(budget, measures_of_another_plan_are_weighed_and_idle_ones_left_out) {
    static const char *const memory[] = {"2200000", "2150000"};
    for (int i = 0; i < 2; i++) {
        Compiled x;
        compiled_look(&x, 4, NULL);
        x.options.overrides.memory = memory[i];
        x.options.overrides.search = "auto";
        x.options.overrides.mode = "auto";
        cr_assert(compiled_run(
                      &x, "import \"nn.dsl\"; net n(batch = 64, dim = 128) { input x : f32[batch, dim]; input t : f32[batch, dim]; h = x;\n"
                          "  for i in 0..6 { h = h + linear(gelu(linear(h, 256)), dim); } loss mse(linear(h, dim), t); }\n"
                          "train { data = normal(seed = 1); optimizer = adam(lr = 0.001); steps = 4; epochs = 2; }\n"
                          "eval { every = epoch; batch = 512; data = normal(seed = 2); steps = 3; metrics = loss; }\n"),
                  "%s", compiled_said(&x));
        const Measures *measures = x.b->front.measures;
        cr_assert_not_null(measures);
        cr_expect_not(measures->of_another);
        for (int k = 0; k < measures->n; k++)
            cr_expect(measures->taken[k].saved_bytes > 0 || measures->taken[k].seconds < 0, "%s", measure_name(&measures->taken[k]));
        compiled_finish(&x);
    }
}

/* Measures of another plan: what they save and cost is counted anew, one behind the other. */
Test(budget, measures_that_are_known_are_weighed_again) {
    Compiled x;
    BuildCost cost;
    Error error;
    Measures fitted, again;
    cr_assert(sample(&x, "gpt2", "sharding_propagation", NULL, &cost));
    x.b->front.aim_bytes = memory_bytes(&cost) * 3 / 4;
    Budget *budget = budget_begin(x.b, NULL, false, &error);
    cr_assert_not_null(budget);
    budget_fit(budget, INFINITY);
    budget_read(budget, &fitted, &cost);
    cr_assert_gt(fitted.n, 1);
    again = fitted;
    for (int k = 0; k < again.n; k++)
        again.taken[k].saved_bytes = 0, again.taken[k].seconds = 0;
    Budget *other = budget_again(x.b, NULL, &again, &error);
    cr_assert_not_null(other);
    budget_weigh(other);
    budget_read(other, &again, &cost);
    cr_expect_eq(budget_compiled(other), 1 + again.n);
    cr_assert_eq(again.n, fitted.n);
    for (int k = 0; k < again.n; k++) {
        cr_expect_eq(again.taken[k].saved_bytes, fitted.taken[k].saved_bytes);
        cr_expect_float_eq(again.taken[k].seconds, fitted.taken[k].seconds, 1e-12);
    }
    budget_end(budget);
    budget_end(other);
    compiled_finish(&x);
}

/* Where something else fits, but takes longer, parts are taken all the same; not where the user says that batches stay whole. */
/* Of a long sequence scores and weights are large: to compute both again at once holds more than it saves. */
Test(budget, a_limit_out_of_reach_is_come_near_to) {
    static const char text[] =
        "import \"nn.dsl\";\nnet n(dim = 64) { input x : f32[1, 2048, dim]; input label : f32[1, 2048, dim]; h = x;\n"
        "for i in 0..2 { h = transformer_block(h, 16); } loss mse(linear(h, dim), label); }\n"
        "train { data = normal(seed = 1); optimizer = adamw(lr = 0.001); steps = 2; }\n";
    static const char *const memory[] = {"180 MiB", "164 MiB", "100 MiB"};
    double needed[3] = {0};
    for (int i = 0; i < 3; i++) {
        Compiled x;
        begin(&x, memory[i]);
        const bool done = compiled_run(&x, text);
        if (done) {
            BuildCost cost;
            build_cost(x.b, &cost);
            needed[i] = (double)memory_bytes(&cost) / (1 << 20);
        } else {
            const char *said = strstr(compiled_said(&x), "needs ");
            cr_assert(said != NULL && sscanf(said, "needs %lf MiB", &needed[i]) == 1, "%s", compiled_said(&x));
        }
        compiled_finish(&x);
    }
    cr_expect_lt(needed[0], 180);
    cr_expect_lt(needed[1], needed[0] + 1, "%g MiB, %g within 180, %g for 164", needed[1], needed[0], needed[1]);
    cr_expect_lt(needed[2], needed[0] + 1, "%g MiB for 100, %g within 180", needed[2], needed[0]);
}

Test(budget, parts_compete_by_predicted_time) {
    static const char net[] =
        "cell block(x) { param up : f32[32, 128] = normal(0.1); param down : f32[128, 32] = normal(0.1);\n"
        "  h = matmul(x, up); g = tanh(h); y = x + matmul(g, down); return y; }\n"
        "net n(batch = 2048, layers = 6) { input x : f32[batch, 32]; layer = x;\n"
        "  for i in 0..layers { layer = block(layer); } loss mean(layer * layer); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; %s }\nparallel { shard_states = optimizer; }\n";
    Compiled free, whole, parts;
    BuildCost cost[3];
    char text[1024], memory[32];
    compiled_init(&free, 4, 2);
    snprintf(text, sizeof text, net, "");
    cr_assert(compiled_run(&free, text));
    build_cost(free.b, &cost[0]);
    snprintf(memory, sizeof memory, "%lld", (long long)memory_bytes(&cost[0]) * 3 / 4);
    compiled_init(&parts, 4, 2);
    parts.options.overrides.memory = memory;
    cr_assert(compiled_run(&parts, text), "%s", compiled_said(&parts));
    build_cost(parts.b, &cost[1]);
    compiled_init(&whole, 4, 2);
    whole.options.overrides.memory = memory;
    snprintf(text, sizeof text, net, "micro_batches = 1;");
    cr_assert(compiled_run(&whole, text), "%s", compiled_said(&whole));
    build_cost(whole.b, &cost[2]);
    cr_expect_null(whole.c.micro);
    cr_assert_not_null(parts.c.micro);
    cr_expect_gt(parts.c.micro->parts, 1);
    cr_expect_lt(cost[1].step_s, cost[2].step_s, "%g s in parts, %g s whole", cost[1].step_s, cost[2].step_s);
    compiled_finish(&free);
    compiled_finish(&parts);
    compiled_finish(&whole);
}

/* Searches that know no limit in their model get the measures all the same. */
Test(budget, every_search_keeps_the_limit) {
    static const char *const searches[] = {"auto", "dynamic_programming", "recursive_programming", "sharding_propagation"};
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        Compiled x;
        BuildCost free, cost;
        char memory[32];
        cr_assert(sample(&x, "gpt2", searches[i], NULL, &free), "%s", searches[i]);
        compiled_finish(&x);
        snprintf(memory, sizeof memory, "%lld", (long long)memory_bytes(&free) / 2);
        cr_assert(sample(&x, "gpt2", searches[i], memory, &cost), "%s: %s", searches[i], compiled_said(&x));
        cr_expect_leq(memory_bytes(&cost), memory_bytes(&free) / 2, "%s", searches[i]);
        cr_assert(x.b->front.measures != NULL || x.c.micro != NULL, "%s", searches[i]);
        compiled_finish(&x);
    }
}

/* What more than two parts need is told from a compilation of two. Where that says too little, less is aimed at, and then more parts are taken: the limit is kept, and what fits into less fits into more. */
Test(budget, what_two_batches_say_is_not_trusted) {
    static const char net[] =
        "net n(batch = %d) { input x : f32[batch, 32]; param u : f32[32, 128] = normal(0.1); param v : f32[128, 32] = normal(0.1);\n"
        "  h = tanh(matmul(x, u)); y = sin(matmul(h, v)) * x; loss mean(square(tanh(y))); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }\n"
        "parallel { shard_states = optimizer; regather = none; recompute = none; search = sharding_propagation; memory = %d; }\n";
    int again = 0, parts = 0;
    int64_t least = 0; /* with which some plan does */
    for (int memory = 100000; memory < 760000; memory += 5000) {
        Compiled x;
        char text[1024];
        compiled_init(&x, 2, 2);
        x.options.overrides.search = NULL;
        x.options.prove = false;
        snprintf(text, sizeof text, net, 768, memory);
        const bool done = compiled_run(&x, text);
        if (done) cr_expect_leq(x.b->facts->rank_bytes, memory);
        if (!done) cr_expect_not_null(strstr(compiled_said(&x), "of memory on a rank"), "%s", compiled_said(&x));
        least = done && (least == 0 || x.b->facts->rank_bytes < least) ? x.b->facts->rank_bytes : least;
        cr_expect(done || least == 0 || memory < least, "%d bytes are too few, but %lld are enough", memory, (long long)least);
        again += done && x.c.micro != NULL && x.c.micro->again > 0;
        parts += done && x.c.micro != NULL && x.c.micro->again == 0;
        compiled_finish(&x);
    }
    cr_expect(again > 0 && parts > 0, "%d and %d", again, parts);
}

/* Two layers of GPT-2 on 4 ranks. Measures come in pieces, so that what a search finds within a little less may need less than what it finds within the limit. */
Test(budget, what_fits_into_less_fits_into_more) {
    static const char *const memory[] = {"438 MiB", "440 MiB", "442 MiB"};
    char *text, path[512];
    size_t n;
    Error error;
    for (int i = 0; i < 3; i++) {
        Compiled x;
        begin(&x, memory[i]);
        x.options.overrides.nranks = 4;
        x.options.overrides.search = NULL;
        snprintf(path, sizeof path, "%s/gpt2.dsl", *x.options.overrides.folder);
        cr_assert(file_read(&x.arena, path, 1 << 20, &text, &n, &error), "%s", error.text);
        char *layers = strstr(text, "layers = 12");
        cr_assert_not_null(layers);
        memcpy(layers, "layers = 2 ", 11);
        cr_expect(compiled_run(&x, text), "%s: %s", memory[i], compiled_said(&x));
        compiled_finish(&x);
    }
}
