/* Fused steps in the executor: run by the backend where it has a kernel for them, kernel by kernel where it has none, with the same bits. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fused.h"
#include "tests/ops/net.h"

static const char chain[] =
    "net t() { input x : f32[8, 8]; input label : f32[8, 8]; param w : f32[8, 8] = normal(0.5); param b : f32[8] = zeros;\n"
    "h = matmul(x, w); t = transpose(reshape(gelu(h + b), shape = [8, 8])); s = tanh(t) * sigmoid(h); loss mse(s + exp(-square(s)), label); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); epochs = 1; steps = 5; }\n"
    "parallel { mode = auto; }\n";

/* ---------------------------------------------------------------- a backend that fuses */

typedef struct Calls {
    int n;
    KernelCall call[MAX_FUSED];
} Calls;

static int made, ran, freed, inner_results;
static bool declines, fails;

static void *test_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error) {
    (void)context;
    if (fails && made > 0) return error_set(error, EXIT_ENVIRONMENT, "no room for a kernel"), NULL;
    if (declines && made > 0) return NULL;
    Calls *fused = malloc(sizeof *fused);
    cr_assert(fused && n >= 2 && n <= MAX_FUSED);
    fused->n = n;
    memcpy(fused->call, calls, (size_t)n * sizeof *calls);
    for (int i = 0; i < n; i++)
        for (int o = 0; o < calls[i].nout; o++)
            inner_results += inner[i] >> o & 1;
    made++;
    return fused;
}

static bool test_run(void *context, void *fused, Error *error) {
    (void)context;
    const Calls *calls = fused;
    ran++;
    for (int i = 0; i < calls->n; i++)
        if (!backend_cpu.kernels[calls->call[i].op](&calls->call[i], error)) return false;
    return true;
}

static void test_unfuse(void *context, void *fused) {
    (void)context;
    freed++;
    free(fused);
}

static int inner_values(const Net *net) {
    const Role *role = &net->plan.programs.at[0].roles.at[0];
    int n = 0;
    for (int i = 0; i < role->instances.n; i++)
        n += role->instances.at[i].place == PLACE_INNER;
    return n;
}

/* Trains for a few steps; the losses. fuses: on a backend that does. */
static void train(Net *net, const char *text, int nranks, int replicas, bool by_hand, bool fuses, double *losses) {
    static Backend backend;
    backend = backend_cpu;
    made = ran = freed = inner_results = 0;
    cr_assert(net_compile(net, text, nranks, replicas, 1), "%s", net->error.text);
    if (by_hand) cr_assert_gt(fused_by_hand(&net->plan, 4), 0);
    if (by_hand) cr_assert_gt(inner_values(net), 2);
    if (fuses) backend.fuse = test_fuse, backend.run = test_run, backend.unfuse = test_unfuse;
    net->comm = comm_local_create(nranks, &net->error);
    cr_assert(net->comm && device_open(&net->device, &backend, &(DeviceOptions){.nthreads = 1, .nlocal = 1}, &net->error));
    net->executor = executor_create(&net->plan, "train", &net->device, net->comm, ".", 1, &net->error);
    for (int step = 1; net->executor && step <= 5; step++) {
        cr_assert(executor_step(net->executor, 1, step, &net->error), "%s", net->error.text);
        losses[step - 1] = net_loss(net);
    }
    executor_destroy(net->executor);
    net->executor = NULL;
}

static void alike(const char *text, int nranks, int replicas, bool fuses, int *how_many) {
    Net alone, fused;
    double expected[5], found[5];
    train(&alone, text, nranks, replicas, false, false, expected);
    train(&fused, text, nranks, replicas, true, fuses, found);
    cr_assert(fused.error.text[0] == '\0', "%s", fused.error.text);
    cr_expect_arr_eq(found, expected, sizeof expected);
    *how_many = made;
    cr_expect_eq(freed, made);
    net_close(&alone);
    net_close(&fused);
}

Test(fused, members_run_one_by_one_where_the_backend_has_no_kernel) {
    int n;
    alike(chain, 1, 0, false, &n);
    alike(chain, 4, 0, false, &n);
}

Test(fused, a_backend_runs_a_step_as_one) {
    int n;
    alike(chain, 1, 0, true, &n);
    cr_expect_gt(n, 0);
    cr_expect_eq(ran, 5 * n);
    cr_expect_gt(inner_results, 2);
    alike(chain, 4, 0, true, &n);
    cr_expect_eq(ran, 5 * n);
}

Test(fused, a_step_of_several_replicas_is_one_for_each) {
    static const char text[] =
        "net t() { input x : f32[4, 6]; input label : f32[4, 6]; param w : f32[6, 6] = normal(0.5); h = matmul(x, w); s = tanh(gelu(h)) * sigmoid(h);\n"
        "loss mse(s + exp(-square(s)), label); }\n"
        "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 5; }\nparallel { mode = data_parallel; }\n";
    int n;
    alike(text, 1, 4, true, &n);
    cr_expect_eq(n % 4, 0);
    cr_expect_gt(n, 0);
    alike(text, 2, 4, true, &n);
}

Test(fused, a_backend_may_decline_a_step) {
    int n;
    declines = true;
    alike(chain, 1, 0, true, &n);
    cr_expect_eq(n, 1);
}

Test(fused, a_backend_that_fails_ends_the_run_and_loses_nothing) {
    Net net;
    double losses[5];
    fails = true;
    train(&net, chain, 1, 0, true, true, losses);
    cr_expect_str_eq(net.error.text, "no room for a kernel");
    cr_expect_eq(made, 1);
    cr_expect_eq(freed, 1);
    net_close(&net);
}

Test(fused, room_for_inner_values_is_counted) {
    Net net;
    ExecutorMemory alone, fused;
    cr_assert(net_compile(&net, chain, 1, 0, 1), "%s", net.error.text);
    executor_memory(&net.plan, "train", 0, &alone);
    fused_by_hand(&net.plan, MAX_FUSED);
    executor_memory(&net.plan, "train", 0, &fused);
    const Role *role = &net.plan.programs.at[0].roles.at[0];
    const int64_t inner = inner_room(&net.plan.graph, role, NULL);
    cr_expect_gt(inner, 2 * 8 * 8 * 4);
    cr_expect_eq(fused.arena_bytes, role->arena_bytes + inner);
    cr_expect_eq(fused.state_bytes, alone.state_bytes);
    net_close(&net);
}

/* ---------------------------------------------------------------- what no block may overwrite */

static const char squares[] =
    "net t() { input x : f32[8, 8]; param p : f32[8, 8] = normal(0.5); y = x * x; z = x + x; a = -y; b = exp(a); t = transpose(z); s = sum(z, axes = [1]);\n"
    "loss sum(b * t * a) + sum(s) + sum(p); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; }\nparallel { mode = auto; }\n";

/* Fuses neg (of y) to last; its result lies where that of the operand, an operator before, or of the step itself, lies. */
static void lies_over(OpCode last, OpCode result, OpCode operand, const char *expected) {
    Net net;
    int at[NOPS] = {0};
    cr_assert(net_compile(&net, squares, 1, 0, 0), "%s", net.error.text);
    Role *role = &net.plan.programs.at[0].roles.at[0];
    for (int s = role->steps.n - 1; s >= 0; s--)
        if (role->steps.at[s].kind == STEP_KERNEL) at[role->steps.at[s].op] = s;
    fused_make(&net.plan.graph, &net.plan.programs.at[0], role, at[OP_neg], at[last], 1);
    cr_assert(net_load(&net), "%s", net.error.text);
    executor_destroy(net.executor);
    role->instances.at[role->steps.at[at[result]].out[0]].at = role->instances.at[role->steps.at[at[operand]].out[0]].at;
    device_close(&net.device);
    net.comm->table->destroy(net.comm);
    const bool loads = net_load(&net);
    if (!expected) cr_expect(loads, "%s", net.error.text);
    if (expected) cr_expect(!loads && net.error.code == EXIT_REJECTED && strstr(net.error.text, expected) != NULL, "%s", net.error.text);
    net_close(&net);
}

Test(fused, results_lie_only_over_what_is_read_element_by_element_before) {
    lies_over(OP_transpose, OP_neg, OP_mul, NULL);
    lies_over(OP_transpose, OP_neg, OP_add, "which its members do not read element by element before"); /* the transpose reads it later */
    lies_over(OP_transpose, OP_transpose, OP_add, "which its members do not read element by element before");
    lies_over(OP_transpose, OP_transpose, OP_mul,
              "which its members do not read element by element before"); /* neg reads it; a block of the transpose has other elements */
    lies_over(OP_transpose, OP_transpose, OP_neg, "lie over each other");
}

static void losses_of(const char *text, int optimize, double losses[3]) {
    Net net;
    cr_assert(net_open(&net, text, 1, 0, optimize), "%s", net.error.text);
    for (int step = 1; step <= 3; step++) {
        cr_assert(executor_step(net.executor, 1, step, &net.error), "%s", net.error.text);
        losses[step - 1] = net_loss(&net);
    }
    net_close(&net);
}

/* s has a place of its own, and y is stored over t before sin reads s: what reads s must not read t. */
Test(fused, a_copy_is_read_after_what_it_was_copied_from_is_overwritten) {
    static const char text[] =
        "net sg() { input x : f64[6, 5]; param w : f64[5, 6] = normal(0.5); t = transpose(x @ w); s = stop_gradient(t);\n"
        "y = relu(t); z = tanh(y) + sin(s); loss sum(z * s); }\n"
        "train { data = normal(seed = 4); optimizer = sgd(lr = 0.05); steps = 3; epochs = 1; }\n";
    double plain[3], fused[3];
    losses_of(text, 0, plain);
    losses_of(text, 2, fused);
    for (int step = 0; step < 3; step++)
        cr_expect_float_eq(fused[step], plain[step], 1e-9, "step %d: %.17g, not %.17g", step + 1, fused[step], plain[step]);
}
