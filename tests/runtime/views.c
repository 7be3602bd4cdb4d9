/* Views in the executor: read by strides where the backend's kernels do, copied for each reader where they do not, with the same bits as where they are values. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/ops/net.h"

/* q, k and v are views of parts of one product; the context is written where its transpose lies. */
#define HEADS(batch)                                                                                                                       \
    "net t() { input x : f32[" batch ", 6, 8]; input label : f32[" batch                                                                   \
    ", 6, 8]; param w : f32[8, 24] = normal(0.5); param o : f32[8, 8] = normal(0.5);\n"                                                    \
    "q, k, v = split(matmul(x, w), parts = 3, axis = -1);\n"                                                                               \
    "qh = transpose(reshape(q, shape = [" batch ", 6, 2, 4]), perm = [0, 2, 1, 3]); kh = transpose(reshape(k, shape = [" batch             \
    ", 6, 2, 4]), perm = [0, 2, 1, 3]);\n"                                                                                                 \
    "vh = transpose(reshape(v, shape = [" batch                                                                                            \
    ", 6, 2, 4]), perm = [0, 2, 1, 3]); c = matmul(softmax(matmul(qh, kh, transpose_b = true)), vh);\n"                                    \
    "loss mse(matmul(reshape(transpose(c, perm = [0, 2, 1, 3]), shape = [" batch ", 6, 8]), o), label); }\n"                               \
    "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); epochs = 1; steps = 5; }\n"
static const char apart[] = HEADS("8") "parallel { mode = auto; }\n", replicas[] = HEADS("2") "parallel { mode = data_parallel; }\n";

static int views_of(const Net *net) {
    const Role *role = &net->plan.programs.at[0].roles.at[0];
    int n = 0;
    for (int i = 0; i < role->instances.n; i++)
        n += role->instances.at[i].place == PLACE_VIEW;
    return n;
}

static int offered, taken;

/* The CPU's, which counts. */
static void *counting_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error) {
    void *fused = backend_cpu.fuse(context, calls, n, inner, error);
    if (!op_table[calls[0].op].places) return fused;
    offered++;
    taken += fused != NULL;
    return fused;
}

/* Trains for a few steps; the losses. */
static void train(const char *text, int nranks, int nreplicas, int optimize, bool fuses, double *losses) {
    Net net;
    Backend backend = backend_cpu;
    offered = taken = 0;
    backend.fuse = fuses ? counting_fuse : NULL;
    cr_assert(net_compile(&net, text, nranks, nreplicas, optimize), "%s", net.error.text);
    cr_assert(optimize < 2 ? views_of(&net) == 0 : views_of(&net) >= 9);
    net.comm = comm_local_create(nranks, &net.error);
    cr_assert(net.comm && device_open(&net.device, &backend, &(DeviceOptions){.nthreads = 1, .nlocal = 1}, &net.error));
    net.executor = executor_create(&net.plan, "train", &net.device, net.comm, ".", 1, &net.error);
    cr_assert(net.executor, "%s", net.error.text);
    for (int step = 1; step <= 5; step++) {
        cr_assert(executor_step(net.executor, 1, step, &net.error), "%s", net.error.text);
        losses[step - 1] = net_loss(&net);
    }
    executor_destroy(net.executor);
    net.executor = NULL;
    net_close(&net);
}

static void alike(const char *text, int nranks, int nreplicas) {
    double expected[5], found[5];
    train(text, nranks, nreplicas, 1, true, expected);
    train(text, nranks, nreplicas, 2, true, found);
    cr_expect_arr_eq(found, expected, sizeof expected);
    cr_expect_gt(offered, 4);
    cr_expect_eq(taken, offered, "%d of %d", taken, offered);
    train(text, nranks, nreplicas, 2, false, found);
    cr_expect_arr_eq(found, expected, sizeof expected);
}

Test(views, a_net_trains_alike_with_them_and_without) {
    alike(apart, 1, 0);
    alike(apart, 4, 0);
}

Test(views, each_replica_reads_its_own) {
    alike(replicas, 1, 4);
    alike(replicas, 2, 4);
}

Test(views, room_for_copies_is_counted) {
    Net net;
    ExecutorMemory memory;
    cr_assert(net_compile(&net, apart, 1, 0, 2), "%s", net.error.text);
    Role *role = &net.plan.programs.at[0].roles.at[0];
    executor_memory(&net.plan, "train", 0, &memory);
    cr_expect_eq(memory.arena_bytes, role->arena_bytes + inner_room(&net.plan.graph, role, NULL));
    /* q, k and v of the split, a reshape and a transpose of two of them */
    cr_expect_geq(inner_room(&net.plan.graph, role, NULL), 7 * 8 * 6 * 8 * 4);
    net_close(&net);
}

/* The score's product would write over what it reads k and q of. */
Test(views, a_result_over_what_the_step_reads_one_of_is_refused) {
    Net net;
    cr_assert(net_compile(&net, apart, 1, 0, 2), "%s", net.error.text);
    Role *role = &net.plan.programs.at[0].roles.at[0];
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        int base = step->nin > 0 ? step->in[0] : -1;
        if (step->kind != STEP_KERNEL || step->op != OP_matmul || role->instances.at[base].place != PLACE_VIEW) continue;
        while (role->instances.at[base].place == PLACE_VIEW)
            base = (int)role->instances.at[base].at;
        Instance *result = &role->instances.at[step->out[0]];
        result->place = PLACE_ARENA;
        result->at = role->instances.at[base].at;
        break;
    }
    cr_expect_not(net_load(&net));
    cr_expect(strstr(net.error.text, "of which the step reads a view"), "%s", net.error.text);
    net_close(&net);
}
