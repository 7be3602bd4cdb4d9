#include "compile.h"
#include "compiler/facts.h"
#include "compiler/oracle.h"

/* Two layers, the second of which is split along what it sums over. */
#define NET                                                                                                                                \
    "net n(batch = 64) { input x : f32[batch, 32]; h = x;\n"                                                                               \
    "  for i in 0..2 { param w : f32[32, 32] = normal(0.1); layer = relu(matmul(h, w)); h = layer; }\n"                                    \
    "  param v : f32[32, 8] = normal(0.1); y = matmul(h, v) shard ((1, 4), (4, 1)); loss mean(y); }\n" TRAIN "parallel { %s }\n"

/* Compiles a net with demands in its parallel block. */
static bool run(Compiled *x, const char *net, const char *demands) {
    char whole[2048];
    snprintf(whole, sizeof whole, net, demands);
    compiled_init(x, 4, 2);
    return compiled_run(x, whole);
}

static void expect_kept(const char *demand) {
    Compiled x;
    cr_expect(run(&x, NET, demand), "%s: %s", demand, compiled_said(&x));
    cr_expect_eq(x.diags.items.n, 0);
    compiled_finish(&x);
}

/* One error, at the demand, which says all of these. */
static void expect_broken(const char *demand, const char *const *parts, int n) {
    Compiled x;
    cr_expect_not(run(&x, NET, demand), "%s", demand);
    cr_expect_eq(x.diags.nerrors, 1, "%s: %s", demand, compiled_said(&x));
    cr_expect_gt(x.diags.items.at[0].span.line, 0);
    for (int i = 0; i < n; i++)
        cr_expect_not_null(strstr(compiled_said(&x), parts[i]), "%s: '%s' is not in: %s", demand, parts[i], compiled_said(&x));
    compiled_finish(&x);
}
#define BROKEN(demand, ...)                                                                                                                \
    expect_broken(demand, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void cost_of(BuildCost *cost) {
    Compiled x;
    cr_assert(run(&x, NET, ""), "%s", compiled_said(&x));
    build_cost(x.b, cost);
    compiled_finish(&x);
}

Test(asserts, the_limit_itself_is_allowed_where_it_says_so) {
    BuildCost cost;
    char demand[128];
    cost_of(&cost);
    const struct {
        const char *what;
        long long bytes;
    } limits[] = {{"comm", cost.sent_bytes}, {"memory", memory_bytes(&cost)}};
    for (int i = 0; i < 2; i++) {
        snprintf(demand, sizeof demand, "assert %s <= %lld;", limits[i].what, limits[i].bytes);
        expect_kept(demand);
        snprintf(demand, sizeof demand, "assert %s < %lld;", limits[i].what, limits[i].bytes + 1);
        expect_kept(demand);
        snprintf(demand, sizeof demand, "assert %s < %lld;", limits[i].what, limits[i].bytes);
        BROKEN(demand, "less than");
        snprintf(demand, sizeof demand, "assert %s <= %lld;", limits[i].what, limits[i].bytes - 1);
        BROKEN(demand, "at most");
    }
    snprintf(demand, sizeof demand, "assert time < %.9f s;", 1.001 * cost.step_s);
    expect_kept(demand);
    snprintf(demand, sizeof demand, "assert time < %.9f us;", 0.999e6 * cost.step_s);
    BROKEN(demand, "is predicted to take", "kernels wait for");
}

Test(asserts, limits_have_decimals_and_units) {
    expect_kept("assert memory < 0.5 GiB; memory = 1.5 GiB;");
    BROKEN("assert comm < 1.5 B;", "less than 2 B");
    BROKEN("memory = 1.5 KiB;", "more than the 1.5 KiB that it may");
}

Test(asserts, what_breaks_one_is_named) {
    BROKEN("assert comm < 0.25 KiB;", "the busiest rank sends", "sent by the busiest rank: ", " of ", "reduce_scatter", "--explain");
    BROKEN("assert memory < 1 KiB;", "of memory on a rank", "the arena is fullest at step", "states take",
           "memory = 1024 B in parallel has the search keep to it", "more ranks alone may not be enough");
}

/* What is said to help is not what was done already. */
Test(asserts, a_hint_names_what_has_not_been_tried) {
    static const char *const demands[] = {"assert comm < 1;", "forbid all_reduce;"};
    static const struct {
        const char *mode, *search, *said, *unsaid;
    } cases[] = {{"auto", "auto", "--what-if HINT", "auto looks"},
                 {"auto", NULL, "--what-if HINT", "auto looks"}, /* auto is the default */
                 {"auto", "dynamic_programming", "search = auto looks for a plan that", "--what-if"},
                 {"semi_auto", NULL, "--what-if HINT", "auto looks"},
                 {"data_parallel", NULL, "mode = auto looks for a plan that", "--what-if"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 2; k++) {
            Compiled x;
            char text[2048];
            snprintf(text, sizeof text, NET, demands[k]);
            compiled_init(&x, 4, 2);
            x.options.overrides.mode = cases[i].mode;
            x.options.overrides.search = cases[i].search;
            cr_expect_not(compiled_run(&x, text), "%s", text);
            cr_expect_not_null(strstr(compiled_said(&x), cases[i].said), "%s: %s", text, compiled_said(&x));
            cr_expect_null(strstr(compiled_said(&x), cases[i].unsaid), "%s: %s", text, compiled_said(&x));
            compiled_finish(&x);
        }
}

Test(asserts, a_kind_is_forbidden_where_a_value_is_made_or_taken) {
    Compiled x;
    cr_assert(run(&x, NET, ""), "%s", compiled_said(&x));
    cr_assert_eq(x.b->facts->kind[COMM_ALL_TO_ALL].count, 0);
    cr_assert_gt(x.b->facts->kind[COMM_ALL_REDUCE].count, 0);
    compiled_finish(&x);
    expect_kept("forbid all_to_all; forbid all_reduce at v; forbid reduce_scatter at w.0;");
    BROKEN("forbid all_reduce;", "all_reduce is forbidden, and the plan has", "all_reduce of w.0.grad", "--explain ");
    BROKEN("forbid all_reduce at w.*;", "at w.*, and the plan has 2", "all_reduce of w.1.grad", "for sgd new_w.1: the busiest rank sends ");
    BROKEN("forbid all_reduce at w;", "all_reduce of w.0.grad");       /* all that lies within */
    BROKEN("forbid all_reduce at layer.1;", "all_reduce of w.1.grad"); /* a gradient is where its operator is */
}

/* The fastest plans share updates, and so gather what they make; they split batches, and so send gradients. */
#define LAYERS                                                                                                                             \
    "net n(batch = 4096, dim = 64) { input x : f32[batch, dim]; input label : f32[batch, dim]; h = x;\n"                                   \
    "  for i in 0..4 { param w : f32[dim, dim] = normal(0.1); h = relu(matmul(h, w)); } loss mse(h, label); }\n"                           \
    "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); steps = 2; }\nparallel { mode = auto; shard_from = 1 KiB; %s }\n"

Test(asserts, auto_looks_for_what_keeps_to_demands) {
    static const char *const demands[] = {
        "", "forbid all_gather;", "assert comm < 1 KiB;",
        "forbid all_gather; forbid all_reduce; forbid reduce_scatter; forbid exchange; forbid all_to_all;"};
    for (int i = 0; i < 4; i++) {
        Compiled x;
        char net[1024];
        snprintf(net, sizeof net, LAYERS, demands[i]);
        compiled_init(&x, 4, 2);
        x.options.overrides.search = "auto";
        cr_assert(compiled_run(&x, net), "%s: %s", demands[i], compiled_said(&x));
        cr_expect(i > 0 || x.b->facts->kind[COMM_ALL_GATHER].count > 0);
        cr_expect(i > 0 || x.b->program->sent_bytes > 1024);
        cr_expect(i != 1 || x.b->facts->kind[COMM_ALL_REDUCE].count > 0, "batches are still split");
        compiled_finish(&x);
    }
}

/* Two stages: the second one holds more, the first one has an AllReduce, and sends more in it. */
#define STAGED                                                                                                                             \
    "net n(batch = 256) { input x : f32[batch, 64]; param a : f32[64, 64] = normal(0.1); param b : f32[64, 4096] = normal(0.1);\n"         \
    "  h = tanh(matmul(x, a) shard ((2, 1), (1, 1))) stage 0; y = matmul(h, b) shard ((1, 1), (1, 2)) stage 1; loss mean(y); }\n"          \
    "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); }\n"                                                                     \
    "parallel { mode = semi_auto; stages = 2; %s }\n"

Test(asserts, demands_are_made_of_all_stages) {
    Compiled x;
    cr_assert(run(&x, STAGED, ""), "%s", compiled_said(&x));
    cr_assert_eq(x.b->nroles, 2);
    const Facts *first = &x.b->role_facts[0], *second = &x.b->role_facts[1];
    cr_assert_gt(second->rank_bytes, first->rank_bytes);
    cr_assert_gt(first->all.sent, second->all.sent);
    char demand[128];
    snprintf(demand, sizeof demand, "assert comm < %lld;", (long long)first->all.sent);
    compiled_finish(&x);
    const struct {
        const char *demand, *said[3];
    } broken[] = {{demand, {"less than", "all_reduce of a.grad"}},
                  {"forbid all_reduce at a;", {"at a, and the plan has 1", "all_reduce of a.grad", "for adam new_a"}},
                  {"forbid exchange at loss;", {"at loss, and the plan has 1"}}, /* all stages receive it */
                  {"forbid exchange at h;",
                   {"at h, and the plan has 2", "exchange of h.grad",
                    "exchange of h, (2, 1) [2@1 -] only(2@2=0) -> [- -] only(2@2=1)"}}}; /* to the other stage and back */
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        cr_expect_not(run(&x, STAGED, broken[i].demand), "%s", broken[i].demand);
        cr_expect_eq(x.diags.nerrors, 1, "%s: %s", broken[i].demand, compiled_said(&x));
        for (int k = 0; k < 3 && broken[i].said[k] != NULL; k++)
            cr_expect_not_null(strstr(compiled_said(&x), broken[i].said[k]), "%s: '%s' is not in: %s", broken[i].demand, broken[i].said[k],
                               compiled_said(&x));
        cr_expect_null(strstr(compiled_said(&x), "sends 0 B"), "%s", compiled_said(&x));
        compiled_finish(&x);
    }
}
