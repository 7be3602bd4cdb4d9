/* --verify finds what differs, says where, and accepts roundings. */
#include <float.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/file.h"
#include "runtime/verify.h"
#include "tests/ops/net.h"

#define NET(body)                                                                                                                          \
    "net t() { input x : f32[16, 32]; input label : f32[16, 16]; param w : f32[32, 16] = normal(0.1); param v : f32[16, 16] = "            \
    "normal(0.1);\n"                                                                                                                       \
    "h = matmul(x, w); y = matmul(relu(h), v); " body " }\n"                                                                               \
    "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.4, momentum = 0.1); epochs = 1; steps = 20; }\n"                     \
    "parallel { mode = semi_auto; }\n"
static const char text[] = NET("loss mse(y, label);");

typedef struct Pair {
    Net run, one;
    char path[32];
    Verifier *verifier;
    Error error;
} Pair;

static bool open_nets(Pair *pair, const char *many, int nranks, const char *one) {
    cr_assert(net_open(&pair->run, many, nranks, 0, 2), "%s", pair->run.error.text);
    cr_assert(net_compile(&pair->one, one, 1, 0, 2), "%s", pair->one.error.text);
    strcpy(pair->path, "/tmp/verify-XXXXXX");
    close(mkstemp(pair->path));
    cr_assert(file_write(pair->path, pair->one.text, strlen(pair->one.text), &pair->error));
    pair->verifier = verifier_create(&pair->run.plan, pair->path, pair->run.executor, pair->run.comm, 1, &pair->error);
    return pair->verifier != NULL;
}

static bool open_pair(Pair *pair, const char *one) {
    return open_nets(pair, text, 8, one);
}

static void close_pair(Pair *pair) {
    verifier_destroy(pair->verifier);
    unlink(pair->path);
    net_close(&pair->run);
    net_close(&pair->one);
}

static bool step(Pair *pair, int number, const char *state, int index, double moved) {
    cr_assert(verifier_before(pair->verifier, &pair->error));
    cr_assert(executor_step(pair->run.executor, 1, number, &pair->error));
    if (state) {
        double *values = net_values(&pair->run, state);
        values[index] += moved;
        cr_assert(executor_set_state(pair->run.executor, net_state(&pair->run, state), values, &pair->error));
    }
    return verifier_after(pair->verifier, 1, number, &pair->error);
}

Test(verify, roundings_are_accepted) {
    Pair pair;
    cr_assert(open_pair(&pair, text), "%s", pair.error.text);
    for (int i = 1; i <= 20; i++)
        cr_assert(step(&pair, i, NULL, 0, 0), "%s", pair.error.text);
    Text report = {0};
    verifier_report(pair.verifier, &report);
    cr_assert_eq(strncmp(report.at, "verified: 20 steps, 30740 numbers", 33), 0, "%s", report.at);
    text_finish(&report);
    close_pair(&pair);
}

/* v * (x / v) does not depend on p: its gradient is the difference of two equal sums, exactly 0 on one rank and a rounding of them on two. */
static const char cancelling[] =
    "net t() { input x : f32[5, 7, 3]; input t : f32[5, 7, 8]; param p : f32[] = ones; param w : f32[3, 8] = uniform(-0.5, 0.5);\n"
    "v = p * p + 1.5; y = tanh(matmul(v * (x / v), w)); loss mse(y, t, reduction = sum) + 0.1 * mean(y * y); }\n"
    "train { data = numpy_rand(seed = 3); optimizer = momentum(lr = 0.01, momentum = 0.9); steps = 6; }\n"
    "parallel { mode = semi_auto; }\n";

Test(verify, roundings_of_what_cancels_are_accepted) {
    Pair pair;
    cr_assert(open_nets(&pair, cancelling, 2, cancelling), "%s", pair.error.text);
    for (int i = 1; i <= 6; i++)
        cr_assert(step(&pair, i, NULL, 0, 0), "%s", pair.error.text);
    close_pair(&pair);
}

/* On one rank ((2^20 + 0) + 7e-11) - 2^20 = 0; on two (2^20 + 0) + (7e-11 - 2^20) is 2^-33, more than roundings of the other terms explain. */
static const char constants[] =
    "net t() { const c : f64[4] = [1048576, 0, 7e-11, -1048576]; const m : f64[2] = [1, 2]; param w : f64[] = zeros;\n"
    "s = sum(reshape(c, shape = (2, 2)), axes = (0, 1)) %s; loss (sum(where(equal(m, 1), 0 * m, m)) + sum(m) - 5 + s) * w; }\n"
    "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 1); steps = 2; }\nparallel { mode = semi_auto; }\n";

Test(verify, sums_of_constants_that_cancel_are_accepted) {
    Pair pair;
    char many[1024];
    snprintf(many, sizeof many, constants, "shard ((2, 1))");
    cr_assert(open_nets(&pair, many, 2, many), "%s", pair.error.text);
    for (int i = 1; i <= 2; i++)
        cr_assert(step(&pair, i, NULL, 0, 0), "%s", pair.error.text);
    cr_assert_neq(net_values(&pair.run, "w")[0], 0, "there is something to accept");
    close_pair(&pair);
    cr_assert(open_nets(&pair, many, 2, many), "%s", pair.error.text);
    cr_assert_not(step(&pair, 1, "w", 0, 1e-7), "what roundings of the terms do not explain");
    close_pair(&pair);
}

/* log(1 + 6e-6) is small, the rounding of the 1 is not: p becomes a hundredth of it. */
Test(verify, roundings_of_a_small_loss_of_a_sure_class_are_accepted) {
    static const char net[] =
        "net t() { input x : f64[2, 2]; param p : f64[] = zeros; const a : f64[1, 4] = [[1, 1, 14, 1]]; const c : i32[1] = [2];\n"
        "loss cross_entropy(a, c) * p + 0 * mean(x); }\n"
        "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.01); steps = 1; }\nparallel { mode = semi_auto; }\n";
    for (int k = 0; k < 2; k++) {
        Pair pair;
        cr_assert(open_nets(&pair, net, 2, net), "%s", pair.error.text);
        cr_assert_eq(step(&pair, 1, "p", 0, k == 0 ? 0.01 * DBL_EPSILON : 10 * DBL_EPSILON), k == 0, "%s", pair.error.text);
        close_pair(&pair);
    }
}

/* Sums that are 0 but for rounding: their relu has a gradient or none, by the order of the terms. */
Test(verify, a_kink_that_is_crossed_within_rounding_is_accepted) {
    for (int k = 1; k <= 24; k++) {
        Pair pair;
        char net[512];
        snprintf(net, sizeof net,
                 "net t() { input x : f32[2]; param w : f32[4] = [0.%d, 0.%d, -0.%d, -0.%d]; h = sum(w) %%s; loss mean(x) + relu(h); }\n"
                 "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.5); steps = 2; }\nparallel { mode = semi_auto; }\n",
                 100 + 7 * k, 201 + 11 * k, 100 + 11 * k, 201 + 7 * k);
        char many[512], one[512];
        snprintf(many, sizeof many, net, "shard ((2))");
        snprintf(one, sizeof one, net, "");
        cr_assert(open_nets(&pair, many, 2, one), "%s", pair.error.text);
        cr_expect(step(&pair, 1, NULL, 0, 0), "%d: %s", k, pair.error.text);
        close_pair(&pair);
    }
}

Test(verify, a_state_that_differs_is_named_with_its_index) {
    Pair pair;
    cr_assert(open_pair(&pair, text), "%s", pair.error.text);
    cr_assert(step(&pair, 1, NULL, 0, 0));
    cr_assert_not(step(&pair, 2, "v", 35, 1e-4));
    cr_assert_eq(pair.error.code, EXIT_MISMATCH);
    cr_assert_eq(strncmp(pair.error.text, "--verify: v[2, 3] differs after epoch 1 step 2: ", 48), 0, "%s", pair.error.text);
    close_pair(&pair);
}

Test(verify, differences_do_not_add_up_over_steps) {
    Pair pair;
    cr_assert(open_pair(&pair, text), "%s", pair.error.text);
    cr_assert_not(step(&pair, 1, "w", 0, 0.01));
    cr_assert(step(&pair, 2, NULL, 0, 0), "%s", pair.error.text); /* the reference began from the moved state */
    close_pair(&pair);
}

Test(verify, another_net_is_refused) {
    Pair pair;
    cr_assert_not(open_pair(&pair, NET("loss mse(y, label, reduction = sum);")));
    cr_assert_eq(pair.error.code, EXIT_REJECTED);
    cr_assert(strstr(pair.error.text, "is of another net"), "%s", pair.error.text);
    close_pair(&pair);
}
