/* Plans that a proof refuses, and that plan_read lets through: prun refuses to run what would reach outside its memory. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/ops/net.h"

static const char mlp[] =
    "net t() { input x : f32[7, 5]; input label : f32[7, 3]; param w : f32[5, 4] = normal(0.5); param v : f32[4, 3] = normal(0.5);\n"
    "h = matmul(x, w) shard ((2, 2), (2, 1)); r = reshape(relu(h), shape = [14, 2]); loss mse(matmul(relu(h), v), label) + mean(r * r); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); epochs = 1; steps = 5; }\n"
    "parallel { mode = auto; }\n";

static void compiled(Net *net) {
    cr_assert(net_compile(net, mlp, 4, 0, 1), "%s", net->error.text);
}

static Role *role_of(Net *net) {
    return &net->plan.programs.at[0].roles.at[0];
}

static void refused(Net *net, const char *text) {
    cr_assert_not(net_load(net));
    cr_expect_eq(net->error.code, EXIT_REJECTED);
    cr_expect(strstr(net->error.text, text) != NULL, "%s", net->error.text);
    net_close(net);
}

static Step *step_of(Net *net, StepKind kind, int op) {
    Role *role = role_of(net);
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == kind && (op < 0 || (int)role->steps.at[s].op == op)) return &role->steps.at[s];
    cr_assert_fail("no such step");
    return NULL;
}

static Layout *split_rows(Net *net, int ndim, int size, int stride) {
    Layout *layout = arena_alloc(&net->arena, sizeof *layout);
    layout_init(layout, ndim);
    cr_assert(layout_append(layout, 0, (Digit){.size = size, .stride = stride}));
    return layout;
}

Test(fit, a_compiled_plan_fits) {
    Net net;
    compiled(&net);
    cr_assert(net_load(&net), "%s", net.error.text);
    net_close(&net);
}

Test(fit, operands_of_other_boxes_are_refused) {
    Net net;
    compiled(&net);
    Step *sub = step_of(&net, STEP_KERNEL, OP_sub);
    role_of(&net)->instances.at[sub->in[0]].layout = split_rows(&net, 2, 2, 1);
    refused(&net, "than its operator's other tensors");
}

Test(fit, a_contraction_over_unlike_boxes_is_refused) {
    Net net;
    compiled(&net);
    Step *product = step_of(&net, STEP_KERNEL, OP_matmul);
    Instance *w = &role_of(&net)->instances.at[product->in[1]];
    w->layout = split_rows(&net, 2, 4, 1);
    w->place = PLACE_ARENA, w->at = 0;
    refused(&net, "than its operator's other tensors");
}

Test(fit, a_reshape_of_unlike_shares_is_refused) {
    Net net;
    compiled(&net);
    Step *reshape = step_of(&net, STEP_KERNEL, OP_reshape); /* [7, 4] to [14, 2]: no split of the rows divides both */
    Instance *out = &role_of(&net)->instances.at[reshape->out[0]];
    cr_assert_eq(out->layout->ndim, 2);
    out->layout = split_rows(&net, 2, 2, 1);
    refused(&net, "than its operator's other tensors");
}

Test(fit, a_slice_outside_its_operand_is_refused) {
    Net net;
    compiled(&net);
    Step *slice = step_of(&net, STEP_LOCAL, -1);
    Instance *in = &role_of(&net)->instances.at[slice->in[0]];
    cr_assert_eq(in->layout->ndim, 2);
    /* What makes it and what reads it agree with the edit; the slice does not fit. */
    Step *relu = step_of(&net, STEP_KERNEL, OP_relu);
    relu->kind = STEP_LOCAL;
    relu->in[0] = relu->out[0] = slice->in[0];
    *in = (Instance){.value = in->value, .layout = split_rows(&net, 2, 2, 1), .place = PLACE_ARENA};
    refused(&net, "");
}

Test(fit, a_request_of_other_tensors_is_refused) {
    Net net;
    compiled(&net);
    Role *role = role_of(&net);
    Step *first = step_of(&net, STEP_START, -1), *other = NULL;
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_START && role->steps.at[s].request != first->request) other = &role->steps.at[s];
    cr_assert_not_null(other);
    other->request = first->request;
    refused(&net, "is of other tensors elsewhere");
}

/* The proof refuses it as well: both are alive at once. */
Test(fit, a_target_over_its_source_is_refused) {
    Net net;
    compiled(&net);
    Role *role = role_of(&net);
    Step *start = NULL;
    for (int s = 0; s < role->steps.n && !start; s++)
        if (role->steps.at[s].kind == STEP_START && role->instances.at[role->steps.at[s].in[0]].place == PLACE_ARENA &&
            role->instances.at[role->steps.at[s].out[0]].place == PLACE_ARENA)
            start = &role->steps.at[s];
    cr_assert_not_null(start);
    role->instances.at[start->out[0]].at = role->instances.at[start->in[0]].at;
    refused(&net, "lie over each other");
}

/* A result of a fused step over an operand that its members read element by element: what the proof takes, prun runs. */
Test(fit, a_clamp_goes_element_by_element) {
    Net net;
    cr_assert(
        net_compile(
            &net,
            "net t() { input x : f32[8, 4]; param w : f32[4, 6] = normal(0.5); h = softmax(matmul(x, w));\n"
            "loss mean(clamp(h, low = -0.5, high = 0.5) * 2); }\ntrain { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n",
            1, 0, 2),
        "%s", net.error.text);
    Role *role = role_of(&net);
    const Step *clamp = step_of(&net, STEP_KERNEL, OP_clamp), *gradient = step_of(&net, STEP_KERNEL, OP_clamp_grad);
    cr_assert_neq(clamp->fused, 0, "a clamp is a member of fused steps");
    cr_assert_eq(gradient->in[0], clamp->in[0]);
    role->instances.at[clamp->out[0]] = (Instance){.value = role->instances.at[clamp->out[0]].value,
                                                   .layout = role->instances.at[clamp->out[0]].layout,
                                                   .place = role->instances.at[clamp->in[0]].place,
                                                   .at = role->instances.at[clamp->in[0]].at};
    cr_assert(net_load(&net), "%s", net.error.text);
    net_close(&net);
}

Test(fit, a_wait_for_what_nobody_starts_is_refused) {
    Net net;
    compiled(&net);
    step_of(&net, STEP_WAIT, -1)->request = 99;
    refused(&net, "request 99 is never started");
}

/* A copy of the step at `from` comes to stand at `to`. */
static void again(Net *net, int from, int to) {
    Role *role = role_of(net);
    const Step copy = role->steps.at[from];
    vec_push(&net->arena, &role->steps, copy);
    for (int s = role->steps.n - 1; s > to; s--)
        role->steps.at[s] = role->steps.at[s - 1];
    role->steps.at[to] = copy;
}

Test(fit, a_request_is_started_once_and_waited_for_once) {
    static const char *const expected[] = {"request 0 is started a second time", "request 0 is waited for a second time",
                                           "request 0 is waited for before it is started", "request 0 is never waited for"};
    for (int k = 0; k < 4; k++) {
        Net net;
        compiled(&net);
        Role *role = role_of(&net);
        int start = -1, wait = -1;
        for (int s = role->steps.n - 1; s >= 0; s--) {
            const Step *step = &role->steps.at[s];
            start = step->kind == STEP_START && step->request == 0 ? s : start;
            wait = step->kind == STEP_WAIT && step->request == 0 ? s : wait;
        }
        cr_assert(start >= 0 && wait > start);
        if (k == 0) again(&net, start, start);
        if (k == 1) again(&net, wait, wait);
        if (k == 2) again(&net, wait, start);
        if (k == 3) role->steps.n = wait;
        refused(&net, expected[k]);
    }
}

Test(fit, a_gap_in_the_numbers_of_requests_is_no_request) {
    Net net;
    compiled(&net);
    Role *role = role_of(&net);
    int last = 0;
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_START && role->steps.at[s].request > last) last = role->steps.at[s].request;
    cr_assert_gt(last, 0);
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_START && role->steps.at[s].request == 0) role->steps.at[s].request = last + 1;
    refused(&net, "request 0 is never started");
}

Test(fit, a_state_written_from_another_box_is_refused) {
    Net net;
    compiled(&net);
    State *state = &net.plan.graph.states.at[step_of(&net, STEP_WRITE, -1)->state];
    state->layout = split_rows(&net, 2, 4, 1);
    cr_assert_not(net_load(&net));
    cr_expect_eq(net.error.code, EXIT_REJECTED);
    net_close(&net);
}

Test(fit, the_loss_is_the_graphs_and_alike_in_all_roles) {
    Net net;
    compiled(&net);
    net.plan.programs.at[0].loss = step_of(&net, STEP_KERNEL, OP_matmul)->out[0];
    refused(&net, "is not the loss: one number");
}
