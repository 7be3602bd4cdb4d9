/* The executor under comm/local: lock step, deadlocks, states, counters. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/ops/net.h"

static const char mlp[] =
    "net t() { input x : f32[7, 5]; input label : f32[7, 3]; param w : f32[5, 4] = normal(0.5); param v : f32[4, 3] = normal(0.5);\n"
    "h = matmul(x, w) shard ((2, 2), (2, 1)); loss mse(matmul(relu(h), v), label); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); epochs = 1; steps = 5; }\n"
    "parallel { mode = auto; }\n";

Test(exec, ranks_in_lock_step_train_as_one_does) {
    Net one, four;
    cr_assert(net_open(&one, mlp, 1, 0, 2), "%s", one.error.text);
    cr_assert(net_open(&four, mlp, 4, 0, 2), "%s", four.error.text);
    for (int step = 1; step <= 5; step++) {
        cr_assert(executor_step(one.executor, 1, step, &one.error), "%s", one.error.text);
        cr_assert(executor_step(four.executor, 1, step, &four.error), "%s", four.error.text);
        cr_assert_float_eq(net_loss(&four), net_loss(&one), 1e-6);
    }
    double *a = net_values(&one, "w"), *b = net_values(&four, "w");
    for (int i = 0; i < 20; i++)
        cr_assert_float_eq(a[i], b[i], 1e-6);
    net_close(&one);
    net_close(&four);
}

/* What lies behind a box's dimensions is not set. */
static bool same_box(const Box *a, const Box *b) {
    const size_t bytes = sizeof *a->begin * (size_t)a->ndim;
    return a->ndim == b->ndim && memcmp(a->begin, b->begin, bytes) == 0 && memcmp(a->end, b->end, bytes) == 0;
}

Test(exec, replicas_of_a_state_are_equal_bit_for_bit) {
    Net net;
    cr_assert(net_open(&net, mlp, 4, 0, 2), "%s", net.error.text);
    for (int step = 1; step <= 5; step++)
        cr_assert(executor_step(net.executor, 1, step, &net.error), "%s", net.error.text);
    int replicas = 0;
    for (int s = 0; s < net.plan.graph.states.n; s++)
        for (int r = 1; r < 4; r++)
            for (int q = 0; q < r; q++) {
                Box a, b;
                void *x = executor_state(net.executor, r, s, &a), *y = executor_state(net.executor, q, s, &b);
                if (!same_box(&a, &b)) continue;
                cr_assert_arr_eq(x, y, (size_t)box_elements(&a) * sizeof(float));
                replicas++;
            }
    cr_assert_gt(replicas, 0);
    net_close(&net);
}

Test(exec, a_rank_that_never_starts_a_communication_is_a_deadlock_with_names) {
    Net net;
    cr_assert(net_compile(&net, mlp, 4, 0, 2), "%s", net.error.text);
    /* Rank 3 gets a role of its own, without the start of the first communication that the others wait for. */
    Program *program = &net.plan.programs.at[0];
    Role broken = program->roles.at[0];
    program->roles.at[0].last_rank = 2;
    broken.first_rank = broken.last_rank = 3;
    Role copy = broken;
    copy.steps.at = NULL;
    copy.steps.n = copy.steps.cap = 0;
    int dropped = -1;
    for (int s = 0; s < broken.steps.n; s++) {
        const Step *step = &broken.steps.at[s];
        if (dropped < 0 && step->kind == STEP_START) dropped = step->request;
        bool drop = step->kind != STEP_KERNEL && step->kind != STEP_LOCAL && step->kind != STEP_WRITE && step->request == dropped;
        if (!drop) vec_push(&net.arena, &copy.steps, *step);
    }
    cr_assert_geq(dropped, 0);
    vec_push(&net.arena, &program->roles, copy);
    cr_assert(net_load(&net), "%s", net.error.text);
    cr_assert_not(executor_step(net.executor, 1, 1, &net.error));
    cr_assert_eq(net.error.code, EXIT_INTERNAL);
    cr_assert(strstr(net.error.text, "deadlock: every rank waits: rank 0, step "), "%s", net.error.text);
    net_close(&net);
}

Test(exec, a_rank_without_a_role_is_refused) {
    Net net;
    cr_assert(net_compile(&net, mlp, 4, 0, 2), "%s", net.error.text);
    net.plan.programs.at[0].roles.at[0].last_rank = 2;
    cr_assert_not(net_load(&net));
    cr_assert_str_eq(net.error.text, "the plan has no role for rank 3");
    net_close(&net);
}

Test(exec, a_state_that_is_set_is_gathered_again) {
    Net net;
    double values[20];
    cr_assert(net_open(&net, mlp, 4, 0, 2), "%s", net.error.text);
    for (int i = 0; i < 20; i++)
        values[i] = i + 0.5;
    cr_assert(executor_set_state(net.executor, net_state(&net, "w"), values, &net.error));
    double *read = net_values(&net, "w");
    cr_assert_arr_eq(read, values, sizeof values);
    net_close(&net);
}

Test(exec, bytes_sent_are_counted_a_step_and_not_when_states_are_gathered) {
    Net net;
    cr_assert(net_open(&net, mlp, 4, 0, 2), "%s", net.error.text);
    cr_assert_eq(executor_sent_bytes(net.executor, 0), 0);
    cr_assert(executor_step(net.executor, 1, 1, &net.error));
    int64_t first = executor_sent_bytes(net.executor, 0), most = 0;
    cr_assert_gt(first, 0);
    net_values(&net, "w");
    cr_assert_eq(executor_sent_bytes(net.executor, 0), first);
    cr_assert(executor_step(net.executor, 1, 2, &net.error));
    cr_assert_eq(executor_sent_bytes(net.executor, 0), 2 * first);
    for (int r = 0; r < 4; r++)
        if (executor_sent_bytes(net.executor, r) > most) most = executor_sent_bytes(net.executor, r);
    cr_assert_leq(most, 2 * net.plan.programs.at[0].sent_bytes);
    net_close(&net);
}

Test(exec, memory_of_a_rank_is_its_boxes_and_its_arena) {
    Net net;
    ExecutorMemory memory;
    cr_assert(net_compile(&net, mlp, 1, 0, 2), "%s", net.error.text);
    executor_memory(&net.plan, "train", 0, &memory);
    cr_assert_eq(memory.state_bytes, 2 * (5 * 4 + 4 * 3) * (int)sizeof(float)); /* parameters and slots */
    cr_assert_geq(memory.input_bytes, 7 * (5 + 3) * (int)sizeof(float));
    const Role *role = &net.plan.programs.at[0].roles.at[0];
    cr_assert_eq(memory.arena_bytes, role->arena_bytes + inner_room(&net.plan.graph, role, NULL));
    net_close(&net);
}

Test(exec, replicas_report_their_losses_slice_by_slice) {
    static const char text[] =
        "net t() { input x : f32[2, 2]; input label : f32[2, 1]; param w : f32[2, 1] = zeros; loss mse(matmul(x, w), label, reduction = "
        "sum); }\n"
        "train { data = per_rank(x = [[[1, 2], [2, 3]], [[4, 6], [3, 1]]], label = [[[8], [13]], [[26], [9]]]); optimizer = sgd(lr = 0.01);"
        " epochs = 1; steps = 1; }\nparallel { mode = data_parallel; }\n";
    const double expected[2] = {8 * 8 + 13 * 13, 26 * 26 + 9 * 9};
    for (int nranks = 1; nranks <= 2; nranks++) {
        Net net;
        int first;
        cr_assert(net_open(&net, text, nranks, 2, 2), "%s", net.error.text);
        cr_assert(executor_step(net.executor, 1, 1, &net.error));
        int most = executor_most_slices(net.executor);
        double losses[2];
        cr_assert_eq(most, 2 / nranks);
        cr_assert(executor_gather_losses(net.executor, losses, &net.error));
        cr_assert_eq(executor_slices(net.executor, nranks - 1, &first), most);
        cr_assert_eq(first, nranks - 1);
        cr_assert_arr_eq(losses, expected, sizeof losses);
        net_close(&net);
    }
}
