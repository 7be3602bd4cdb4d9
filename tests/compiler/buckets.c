#include "compile.h"

#include "compiler/buckets.h"
#include "compiler/oracle.h"

/* Layers whose weights have 512 KiB; gradients become ready from the last layer to the first. */
static void compile_updated(Compiled *x, int layers, const char *bucket, int optimize, bool whole_updates) {
    Text text = {0};
    text_printf(&text, "net n() { input h : f32[4, 256]; input label : f32[4, 256];\n");
    for (int i = 0; i < layers; i++)
        text_printf(&text, "param w%d : f32[256, 512] = normal(0.1); param v%d : f32[512, 256] = normal(0.1);\n", i, i);
    for (int i = 0; i < layers; i++) {
        char in[16] = "h";
        if (i > 0) snprintf(in, sizeof in, "h%d", i - 1);
        text_printf(&text, "h%d = tanh(matmul(tanh(matmul(%s, w%d)), v%d));\n", i, in, i, i);
    }
    text_printf(&text, "loss mse(h%d, label); }\n" TRAIN "parallel { mode = data_parallel; %s }\n", layers - 1, bucket);
    compiled_init(x, 2, optimize);
    if (whole_updates) x->options.overrides.shard_states = "none";
    cr_assert(compiled_run(x, text.at), "%s", x->c.error.text);
    text_finish(&text);
}

static void compile_layers(Compiled *x, int layers, const char *bucket, int optimize) {
    compile_updated(x, layers, bucket, optimize, true);
}

/* Members of each bucket, by number. Starts stand together, and so do waits. */
static int bucket_sizes(const Compiled *x, int sizes[64]) {
    int nbuckets = 0;
    memset(sizes, 0, 64 * sizeof *sizes);
    for (int i = 0; i < x->b->placement.order.n; i++) {
        Item item = x->b->placement.order.at[i];
        if (item.bucket == 0) continue;
        bool first = i == 0 || x->b->placement.order.at[i - 1].bucket != item.bucket || x->b->placement.order.at[i - 1].wait != item.wait;
        if (item.wait) continue;
        if (first) cr_expect_eq(item.bucket, ++nbuckets, "numbered in the order of the starts");
        cr_assert_lt(item.bucket, 64);
        sizes[item.bucket]++;
    }
    return nbuckets;
}

Test(buckets, gradients_are_reduced_together_and_the_first_bucket_is_small) {
    Compiled x;
    int sizes[64];
    compile_layers(&x, 6, "bucket = 2 MiB;", 2);
    cr_expect_eq(bucket_sizes(&x, sizes), 4, "1 MiB, 2 MiB, 2 MiB, the rest: saw %d", bucket_sizes(&x, sizes));
    cr_expect_eq(sizes[1], 2);
    cr_expect_eq(sizes[2], 4);
    cr_expect_eq(sizes[3], 4);
    cr_expect_eq(sizes[4], 2);
    compiled_finish(&x);
    compile_layers(&x, 6, "", 2);
    cr_expect_eq(bucket_sizes(&x, sizes), 2, "25 MiB is the default");
    compiled_finish(&x);
}

Test(buckets, gradients_join_in_the_order_in_which_they_become_ready) {
    Compiled x;
    compile_layers(&x, 3, "bucket = 1 MiB;", 2);
    int last = -1;
    for (int i = 0; i < x.b->placement.order.n; i++) {
        Item item = x.b->placement.order.at[i];
        if (item.bucket == 0 || item.wait) continue;
        int source = x.b->spmd.graph.values.at[x.b->spmd.graph.nodes.at[item.node].in[0]].node;
        int made = -1;
        for (int k = 0; k < i; k++)
            if (x.b->placement.order.at[k].node == source) made = k;
        cr_expect_gt(made, last, "bucket %d", item.bucket);
        last = made;
    }
    compiled_finish(&x);
}

Test(buckets, a_bucket_starts_as_soon_as_its_last_gradient_is_there) {
    Compiled x;
    compile_layers(&x, 6, "bucket = 2 MiB;", 2);
    for (int i = 1; i < x.b->placement.order.n; i++) {
        Item item = x.b->placement.order.at[i], before = x.b->placement.order.at[i - 1];
        if (item.bucket == 0 || item.wait || before.bucket == item.bucket) continue;
        int n = 0;
        while (i + n < x.b->placement.order.n && x.b->placement.order.at[i + n].bucket == item.bucket)
            n++;
        const Node *last = &x.b->spmd.graph.nodes.at[x.b->placement.order.at[i + n - 1].node];
        cr_expect_eq(x.b->spmd.graph.values.at[last->in[0]].node, before.node, "bucket %d", item.bucket);
    }
    compiled_finish(&x);
}

/* While the updates of the first bucket are made, the last one is under way. */
Test(buckets, what_was_started_first_is_waited_for_first) {
    for (int parts = 0; parts < 2; parts++) {
        Compiled x;
        compile_updated(&x, 6, "bucket = 2 MiB;", 2, parts == 0);
        int last = 0;
        for (int i = 0; i < x.b->placement.order.n; i++) {
            Item item = x.b->placement.order.at[i];
            if (item.bucket == 0 || !item.wait || x.b->spmd.graph.nodes.at[item.node].comm == COMM_ALL_GATHER) continue;
            cr_expect_geq(item.bucket, last, "%d after %d", item.bucket, last);
            last = item.bucket;
        }
        cr_expect_eq(last, 4, "saw %d", last);
        compiled_finish(&x);
    }
}

/* Weights of 512 KiB, updated in halves by two ranks. */
Test(buckets, gathers_are_joined_by_the_bytes_of_the_whole) {
    Compiled x;
    int most = 0, gathers = 0, at = 0, n = 0;
    compile_updated(&x, 6, "bucket = 2 MiB;", 2, false);
    for (int i = 0; i < x.b->placement.order.n; i++) {
        Item item = x.b->placement.order.at[i];
        if (item.bucket == 0 || item.wait || x.b->spmd.graph.nodes.at[item.node].comm != COMM_ALL_GATHER) continue;
        n = item.bucket == at ? n + 1 : 1;
        at = item.bucket;
        most = n > most ? n : most;
        gathers++;
    }
    cr_expect_eq(gathers, 12);
    cr_expect_eq(most, 4, "4 of 512 KiB: saw %d", most);
    compiled_finish(&x);
}

Test(buckets, none_below_O2_and_none_when_turned_off) {
    Compiled x;
    int sizes[64];
    compile_layers(&x, 2, "bucket = 0;", 2);
    cr_expect_eq(bucket_sizes(&x, sizes), 0);
    compiled_finish(&x);
    compile_layers(&x, 2, "", 1);
    cr_expect_eq(bucket_sizes(&x, sizes), 0);
    compiled_finish(&x);
}

Test(buckets, so_much_is_under_way_at_once_and_no_more) {
    Compiled x;
    compile_layers(&x, 12, "bucket = 1 MiB;", 2);
    int64_t flight = 0, most = 0;
    for (int i = 0; i < x.b->placement.order.n; i++) {
        Item item = x.b->placement.order.at[i];
        if (item.bucket == 0) continue;
        const Node *node = &x.b->spmd.graph.nodes.at[item.node];
        int64_t bytes = x.b->spmd.box_bytes[node->in[0]] + x.b->spmd.box_bytes[node->out[0]];
        flight += item.wait ? -bytes : bytes;
        most = flight > most ? flight : most;
    }
    cr_expect_eq(flight, 0);
    cr_expect_leq(most, 3 * (2 << 20), "two buckets, and the one that is started before the oldest is waited for: %lld", (long long)most);
    compiled_finish(&x);
}

/* ---------------------------------------------------------------- what the proof makes of it */

static Role *role_of(Compiled *x) {
    return &x->c.plan.programs.at[0].roles.at[0];
}

static bool proved(Compiled *x) {
    Proof proof;
    Error error;
    ProofOptions options = {.compositional = true};
    return proof_check(&x->c.plan, &options, &proof, &error);
}

/* The first step of this kind in a bucket. */
static int first_of(const Role *role, StepKind kind) {
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == kind && role->steps.at[s].bucket > 0) return s;
    cr_assert_fail("no bucket");
    return -1;
}

static void swap_steps(Role *role, int a, int b) {
    Step step = role->steps.at[a];
    role->steps.at[a] = role->steps.at[b];
    role->steps.at[b] = step;
}

Test(buckets, a_plan_whose_buckets_do_not_stand_together_is_rejected) {
    Compiled x;
    compile_layers(&x, 2, "", 2);
    Role *role = role_of(&x);
    cr_assert(proved(&x));
    int start = first_of(role, STEP_START), wait = first_of(role, STEP_WAIT);

    swap_steps(role, wait, wait + 1);
    cr_expect_not(proved(&x), "waits in another order than the starts");
    swap_steps(role, wait, wait + 1);

    int bucket = role->steps.at[start].bucket;
    role->steps.at[start].bucket = 0;
    cr_expect_not(proved(&x), "a start left out");
    role->steps.at[start].bucket = bucket;

    int waited = role->steps.at[wait].bucket;
    role->steps.at[wait].bucket = 0;
    cr_expect_not(proved(&x), "a wait left out");
    role->steps.at[wait].bucket = waited;

    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].bucket == waited) role->steps.at[s].bucket = 77;
    cr_expect_not(proved(&x), "a bucket out of the order");
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].bucket == 77) role->steps.at[s].bucket = waited;
    cr_expect(proved(&x));
    compiled_finish(&x);
}

/* What completes the norm of the gradients begins when they are there: in their bucket it would wait for itself. */
Test(buckets, the_norm_of_gradients_is_in_no_bucket_of_theirs) {
    Compiled x;
    compiled_init(&x, 2, 2);
    x.options.redistribution = REDISTRIBUTE_CANONICAL;
    cr_assert(compiled_run(&x, "net n() { input x : f32[2, 2]; param w : f32[2, 1] = normal(1) shard ((2, 1)); loss sum(matmul(x, w)); }\n"
                               "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); clip = norm(1); }\n"
                               "parallel { mode = semi_auto; dataset = auto; }\n"),
              "%s", x.c.error.text);
    compiled_finish(&x);
}

/* The gradient of w3 is completed twice, and its scale taken off between: in one bucket the second would wait for the first. */
Test(buckets, a_gradient_that_is_completed_twice_is_in_two) {
    Compiled x;
    compiled_init(&x, 12, 2);
    x.options.redistribution = REDISTRIBUTE_CANONICAL;
    cr_assert(compiled_run(
                  &x, "net n() { param w0 : f64[8, 24, 5, 2] = normal(1); param w1 : f64[12, 2, 2, 1] = normal(1) shard ((2, 1, 1, 1));\n"
                      "param w3 : f64[1, 3] = normal(1) shard ((1, 3)); param w6 : f64[3, 3] = normal(1);\n"
                      "v = tanh(matmul(conv2d(w0, w1, stride = 2, groups = 12), w3)); y = matmul(v, w6) shard ((1, 1, 2, 3), (3, 1));\n"
                      "loss sum(y * y) shard ((1, 1, 2, 1)); }\n"
                      "train { optimizer = sgd(lr = 0.1); precision = f16; }\n"),
              "%s", x.c.error.text);
    compiled_finish(&x);
}

/* Rows looked up in tables that are split by columns: of so many bytes each, and needed side by side. */
static void compile_tables(Compiled *x, int tables, int rows, const char *bucket, int optimize, BuildCost *cost) {
    Text text = {0};
    text_printf(&text, "net n() { input label : f32[%d, 1]; param w : f32[%d, 1] = normal(0.1);\n", rows, 64 * tables);
    for (int i = 0; i < tables; i++)
        text_printf(&text, "input i%d : i32[%d]; param t%d : f32[1000, 64] = normal(0.1); e%d = embedding(t%d, i%d) shard ((1, 4), (1));\n",
                    i, rows, i, i, i, i);
    text_printf(&text, "all = concat(");
    for (int i = 0; i < tables; i++)
        text_printf(&text, "e%d, ", i);
    text_printf(&text,
                "axis = 1);\n loss mse(matmul(all, w) shard ((1, 1), (1, 1)), label); }\n"
                "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }\nparallel { mode = semi_auto; %s }\n",
                bucket);
    compiled_init(x, 4, optimize);
    x->options.machine = &machine_gpu8;
    cr_assert(compiled_run(x, text.at), "%s", compiled_said(x));
    build_cost(x->b, cost);
    text_finish(&text);
}

/* The buckets of conversions of values in the plan, and the members of the last. */
static int value_buckets(const Compiled *x, int *members) {
    int n = 0, last = 0;
    *members = 0;
    for (int i = 0; i < x->b->placement.order.n; i++) {
        const Item item = x->b->placement.order.at[i];
        const Node *node = &x->b->spmd.graph.nodes.at[item.node];
        if (item.bucket == 0 || item.wait || node->comm == COMM_ALL_REDUCE || node->comm == COMM_REDUCE_SCATTER ||
            graph_producer(&x->b->spmd.graph, node->in[0])->update > 0)
            continue;
        *members = item.bucket == last ? *members + 1 : 1;
        n += item.bucket != last;
        last = item.bucket;
    }
    return n;
}

Test(buckets, many_small_conversions_are_one) {
    Compiled x, apart;
    BuildCost cost, without;
    int members;
    compile_tables(&x, 8, 256, "", 2, &cost);
    cr_expect_eq(value_buckets(&x, &members), 1, "of rows; their gradients are made as the tables lie");
    cr_expect_eq(members, 8);
    compile_tables(&apart, 8, 256, "bucket = 0;", 2, &without);
    cr_expect_eq(value_buckets(&apart, &members), 0);
    cr_expect_lt(cost.communication_s, without.communication_s - 6 * machine_gpu8.rank.latency_s);
    cr_expect_lt(cost.step_s, without.step_s);
    compiled_finish(&x);
    compiled_finish(&apart);
    compile_tables(&x, 3, 256, "", 2, &cost);
    cr_expect_eq(value_buckets(&x, &members), 0, "a few are not");
    compiled_finish(&x);
    compile_tables(&x, 8, 256, "", 1, &cost);
    cr_expect_eq(value_buckets(&x, &members), 0, "none below -O2");
    compiled_finish(&x);
    compile_tables(&x, 8, 256, "bucket = 60 KiB;", 2, &cost);
    cr_expect_eq(value_buckets(&x, &members), 2, "16 KiB each: %d", value_buckets(&x, &members));
    compiled_finish(&x);
}

/* Each conversion's source is made of what the one before brought. */
Test(buckets, conversions_that_are_made_of_one_another_are_not_joined) {
    Compiled x;
    int members;
    Text text = {0};
    text_printf(&text, "net n() { input x0 : f32[8, 8]; param w : f32[8, 8] = normal(0.1);\n");
    for (int i = 0; i < 12; i++)
        text_printf(&text, "x%d = tanh(x%d) shard (%s);\n", i + 1, i, i % 2 ? "(1, 4)" : "(4, 1)");
    text_printf(
        &text,
        "loss mean(matmul(x12, w) shard ((1, 4), (4, 1)));\n}\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }\nparallel { mode = semi_auto; bucket = 100 GiB; }\n");
    compiled_init(&x, 4, 2);
    x.options.machine = &machine_gpu8;
    cr_assert(compiled_run(&x, text.at), "%s", compiled_said(&x));
    cr_expect_eq(value_buckets(&x, &members), 0);
    compiled_finish(&x);
    text_finish(&text);
}

/* Large ones run behind the kernels between, so that joining them does not always pay. */
Test(buckets, conversions_are_joined_only_where_that_is_faster) {
    for (int rows = 64; rows <= 1 << 19; rows *= 2) {
        Compiled x, apart;
        BuildCost cost, without;
        compile_tables(&x, 8, rows, "bucket = 100 GiB;", 2, &cost);
        compile_tables(&apart, 8, rows, "bucket = 0;", 2, &without);
        cr_expect_leq(cost.step_s, without.step_s, "%d rows: %g s, apart %g s", rows, cost.step_s, without.step_s);
        compiled_finish(&x);
        compiled_finish(&apart);
    }
}

/* Two products, their gradients and the loss, on so many ranks of 8 a node; the members of the last bucket that are summed, and whether the loss is one of them. */
static int last_bucket(int nranks, const char *first, const char *second, const char *settings, bool *has_loss) {
    Compiled x;
    int last = 0, members = 0;
    char text[512];
    snprintf(text, sizeof text,
             "net n() { input x : f32[64, 64]; param w : f32[64, 64] = normal(0.1); param v : f32[64, 64] = normal(0.1);\n"
             "  h = matmul(x, w) %s; y = matmul(relu(h), v) %s; loss mean(square(y)); }\n" TRAIN "parallel { mode = semi_auto; %s }\n",
             first, second, settings);
    compiled_init(&x, nranks, 2);
    x.options.machine = &machine_gpu8;
    cr_assert(compiled_run(&x, text), "%s", compiled_said(&x));
    const Graph *g = &x.b->spmd.graph;
    *has_loss = false;
    for (int i = 0; i < x.b->placement.order.n; i++) {
        const Item item = x.b->placement.order.at[i];
        if (item.bucket == 0 || item.wait || g->nodes.at[item.node].comm != COMM_ALL_REDUCE) continue;
        if (item.bucket != last) members = 0, *has_loss = false;
        last = item.bucket;
        members++;
        *has_loss = *has_loss || g->nodes.at[item.node].out[0] == g->loss;
    }
    cr_expect(proved(&x));
    compiled_finish(&x);
    return members;
}

/* Alone the loss would keep the gradients' messages waiting on all nodes. */
Test(buckets, on_several_nodes_the_loss_is_summed_with_the_last_gradients) {
    bool has_loss;
    cr_expect_eq(last_bucket(16, "", "", "", &has_loss), 3);
    cr_expect(has_loss);
    cr_expect_eq(last_bucket(8, "", "", "", &has_loss), 2, "one node");
    cr_expect_not(has_loss);
    cr_expect_eq(last_bucket(16, "", "", "bucket = 0;", &has_loss), 0);
    cr_expect_eq(last_bucket(16, "", "", "bucket = 100;", &has_loss), 2, "a gradient each, the last with the loss");
    cr_expect(has_loss);
    cr_expect_eq(last_bucket(16, "shard ((2, 1), (1, 8))", "shard ((2, 8), (8, 1))", "", &has_loss), 2);
    cr_expect_not(has_loss, "gradients are summed over 2 ranks: with 16 they would take longer");
}
