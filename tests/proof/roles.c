/* Plans of several roles that are wrong: what the roles show each by itself is not enough. */
#include "proof/proof.h"
#include "tests/proof/changed.h"

static const char net[] =
    "net n(batch = 16) { input x : f32[batch, 8]; param w1 : f32[8, 8] = normal(0.3); param w2 : f32[8, 8] = normal(0.3);\n"
    "  h = tanh(matmul(x, w1)); y = tanh(matmul(h, w2)); loss mean(y * y); }\n"
    "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.1); clip = norm(1.0); micro_batches = 2; }\n"
    "parallel { stages = 2; }\n";

static void begin(Fixture *f) {
    fixture_of(f, net, 4);
    cr_assert_eq(f->plan.programs.at[0].roles.n, 2);
}

static Role *other(Fixture *f) {
    return &f->plan.programs.at[0].roles.at[1];
}

/* The n-th step of this kind whose source is, or is not, elsewhere. */
static int step_of(const Role *role, StepKind kind, bool receives, int n) {
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind == kind && (role->instances.at[step->in[0]].place == PLACE_ELSEWHERE) == receives && n-- == 0) return s;
    }
    cr_assert_fail("no such step");
    return -1;
}

static void take_out(Role *role, int at) {
    memmove(role->steps.at + at, role->steps.at + at + 1, (size_t)(role->steps.n - at - 1) * sizeof *role->steps.at);
    role->steps.n--;
}

static void drop(Role *role, int request) {
    for (int s = role->steps.n - 1; s >= 0; s--) {
        const StepKind kind = role->steps.at[s].kind;
        if ((kind == STEP_START || kind == STEP_WAIT) && role->steps.at[s].request == request) take_out(role, s);
    }
}

static void move(Role *role, int at, int to) {
    const Step step = role->steps.at[at];
    take_out(role, at);
    memmove(role->steps.at + to + 1, role->steps.at + to, (size_t)(role->steps.n - to) * sizeof *role->steps.at);
    role->steps.at[to] = step;
    role->steps.n++;
}

static int wait_of(const Role *role, int request) {
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_WAIT && role->steps.at[s].request == request) return s;
    return -1;
}

Test(proof_roles, a_send_that_is_left_out_is_missed) {
    Fixture f;
    begin(&f);
    drop(f.role, f.role->steps.at[step_of(f.role, STEP_START, false, 0)].request);
    refused(&f, "ranks of another role take part, which does not start it");
}

Test(proof_roles, a_receive_that_is_left_out_is_missed) {
    Fixture f;
    begin(&f);
    drop(other(&f), other(&f)->steps.at[step_of(other(&f), STEP_START, true, 0)].request);
    refused(&f, "");
}

Test(proof_roles, a_request_is_one_communication) {
    Fixture f;
    begin(&f);
    Role *role = other(&f);
    const int a = step_of(role, STEP_START, true, 0), b = step_of(role, STEP_START, true, 1), one = role->steps.at[a].request,
              two = role->steps.at[b].request;
    for (int s = 0; s < role->steps.n; s++) {
        Step *step = &role->steps.at[s];
        if (step->kind != STEP_START && step->kind != STEP_WAIT) continue;
        step->request = step->request == one ? two : step->request == two ? one : step->request;
    }
    refused(&f, "it is another communication in another role");
}

/* The first stage waits for the first gradient before it sends the activations that it is made of. */
Test(proof_roles, roles_that_wait_for_each_other_are_found) {
    Fixture f;
    begin(&f);
    Role *role = other(&f);
    const int start = step_of(role, STEP_START, false, 0), wait = wait_of(role, role->steps.at[start].request);
    int first = step_of(role, STEP_START, true, 0);
    first = wait_of(role, role->steps.at[first].request);
    cr_assert(start < wait && first < start);
    const int back = step_of(f.role, STEP_START, true, 0), back_wait = wait_of(f.role, f.role->steps.at[back].request),
              send = step_of(f.role, STEP_START, false, 0);
    cr_assert(back_wait > send);
    if (back > send) move(f.role, back, send);
    move(f.role, wait_of(f.role, f.role->steps.at[send].request), step_of(f.role, STEP_START, false, 0));
    refused(&f, "waits for ever");
}

/* What is one message for the sender is no two for the receiver. */
Test(proof_roles, what_is_sent_together_is_received_together) {
    static const char two[] =
        "net n(batch = 16) { input x : f32[batch, 8]; param w1 : f32[8, 8] = normal(0.3); param w2 : f32[8, 8] = normal(0.3);\n"
        "  a = tanh(matmul(x, w1)); b = relu(a); y = tanh(matmul(a, w2) * b); loss mean(y * b); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.1); micro_batches = 2; }\n"
        "parallel { stages = 2; }\nhints { b = stage 0; y = stage 1; }\n";
    Fixture f;
    fixture_of(&f, two, 2);
    Role *role = other(&f);
    int joined = 0;
    for (int s = 0; joined == 0 && s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_START && role->instances.at[role->steps.at[s].in[0]].place == PLACE_ELSEWHERE)
            joined = role->steps.at[s].bucket;
    cr_assert_gt(joined, 0);
    for (int s = 0; s < role->steps.n; s++) {
        Step *step = &role->steps.at[s];
        step->bucket = step->bucket == joined ? 0 : step->bucket > joined ? step->bucket - 1 : step->bucket;
    }
    refused(&f, "it runs as one with other communications than in another role");
}

Test(proof_roles, what_ranks_hold_is_not_elsewhere) {
    Fixture f;
    begin(&f);
    const Step *start = &f.role->steps.at[step_of(f.role, STEP_START, true, 0)];
    f.role->instances.at[start->out[0]].place = PLACE_ELSEWHERE;
    unread(&f, "is elsewhere in a role whose ranks hold some of it");
}

Test(proof_roles, nothing_is_computed_with_what_is_elsewhere) {
    Fixture f;
    begin(&f);
    const Step *start = &f.role->steps.at[step_of(f.role, STEP_START, true, 0)];
    for (int s = 0; s < f.role->steps.n; s++)
        for (int i = 0; f.role->steps.at[s].kind == STEP_KERNEL && i < f.role->steps.at[s].nin; i++)
            if (f.role->steps.at[s].in[i] == start->out[0]) f.role->steps.at[s].in[i] = start->in[0];
    unread(&f, "which is elsewhere");
}

/* A parameter stored on another stage's ranks than those that update it. */
Test(proof_roles, a_parameter_is_on_exactly_its_ranks) {
    Fixture f;
    begin(&f);
    Layout layout = *f.plan.graph.states.at[0].layout;
    cr_assert(layout_is_pinned(&layout));
    layout.pin.value = 1 - layout.pin.value;
    f.plan.graph.states.at[0].layout = graph_layout_exact(&f.plan.graph, &layout);
    refused(&f, "");
    begin(&f);
    layout.pin = (Pin){0};
    f.plan.graph.states.at[0].layout = graph_layout_exact(&f.plan.graph, &layout);
    refused(&f, "");
}

Test(proof_roles, a_kernel_s_operands_are_where_its_result_is) {
    Fixture f;
    begin(&f);
    Role *role = f.role;
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind != STEP_KERNEL || role->instances.at[step->out[0]].place != PLACE_ARENA) continue;
        Layout layout = *role->instances.at[step->out[0]].layout;
        layout.pin = (Pin){0};
        role->instances.at[step->out[0]].layout = graph_layout_exact(&f.plan.graph, &layout);
        break;
    }
    refused(&f, "ranks that make a result have nothing of an operand");
}

Test(proof_roles, the_loss_is_on_every_rank) {
    Fixture f;
    begin(&f);
    for (int r = 0; r < 2; r++) {
        Role *role = &f.plan.programs.at[0].roles.at[r];
        Instance *loss = &role->instances.at[f.plan.programs.at[0].loss];
        Layout layout = *loss->layout;
        layout.pin = (Pin){.digit = {2, 2}, .value = 1};
        loss->layout = graph_layout_exact(&f.plan.graph, &layout);
        if (r == 0) loss->place = PLACE_ELSEWHERE;
    }
    refused(&f, "");
}
