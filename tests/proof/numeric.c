/* Plans run over the field, the compositional proof left out: right ones agree with their graph, wrong ones do not. */
#include <string.h>

#include "proof/field.h"
#include "tests/proof/plans.h"
#include "tests/attrs.h"

static const PlanCase cases[] = {
    {"samples/quickstart.dsl", 8, 2, ""},  {"samples/quickstart.dsl", 8, 0, ""}, {"samples/elementwise.dsl", 6, 2, "semi_auto"},
    {"samples/mesh.dsl", 8, 2, ""},        {"samples/output.dsl", 8, 2, ""},     {"samples/oneflow_ddp.dsl", 2, 2, ""},
    {"samples/elementwise.dsl", 4, 2, ""}, {"samples/reductions.dsl", 4, 0, ""}, {"samples/reductions.dsl", 5, 2, "semi_auto"},
};
enum { NCASES = sizeof cases / sizeof *cases };
static char why[1024];

static bool agrees(const Plan *plan) {
    *why = '\0';
    return numeric_program(plan, &plan->programs.at[0], 7, why, sizeof why);
}

static int tried;
/* The plan was changed: it must be found wrong, and the place named. */
static void differs(const PlanCase *which, const Plan *plan, const char *what, int at) {
    tried++;
    cr_expect_not(agrees(plan), "%s on %d ranks, -O%d: agrees although %s %d", which->file, which->nranks, which->optimize, what, at);
    cr_expect(strstr(why, "program train, "), "'%s' does not say where", why);
}

static void on_all(void (*change)(const PlanCase *, Plan *), int least) {
    tried = 0;
    for (int i = 0; i < NCASES; i++) {
        Arena arena;
        arena_init(&arena);
        Plan plan;
        plan_load(&cases[i], &arena, &plan);
        change(&cases[i], &plan);
        cr_assert(agrees(&plan), "%s on %d ranks: %s", cases[i].file, cases[i].nranks, why);
        arena_finish(&arena);
    }
    cr_assert_geq(tried, least, "only %d plans tried", tried);
}

static void nothing(const PlanCase *which, Plan *plan) {
    (void)which;
    (void)plan;
    tried++;
}
Test(numeric, right_plans_agree) {
    on_all(nothing, NCASES);
}

static void each_step_dropped(const PlanCase *which, Plan *plan) {
    Role *role = plan_role(plan);
    for (int i = 0; i < role->steps.n; i++) {
        Step saved = role->steps.at[i];
        if (saved.kind == STEP_WRITE && role->instances.at[saved.in[0]].place == PLACE_STATE)
            continue; /* it names what lies there already */
        if (saved.kind == STEP_KERNEL && instance_is_view(&plan->graph, &role->instances.at[saved.out[0]])) continue; /* likewise */
        /* A dropped reshape or transpose of a vector can leave its operand where its result would lie, and that is the same. */
        if (saved.kind == STEP_KERNEL && (saved.op == OP_reshape || saved.op == OP_transpose)) continue;
        memmove(role->steps.at + i, role->steps.at + i + 1, (size_t)(--role->steps.n - i) * sizeof saved);
        differs(which, plan, "this step was dropped:", i);
        memmove(role->steps.at + i + 1, role->steps.at + i, (size_t)(role->steps.n++ - i) * sizeof saved);
        role->steps.at[i] = saved;
    }
}
Test(numeric, a_plan_without_one_of_its_steps_differs) {
    on_all(each_step_dropped, 200);
}

/* A value that is still partial (or a part) is used in place of the communication's result. */
static void each_communication_skipped(const PlanCase *which, Plan *plan) {
    Role *role = plan_role(plan);
    for (int i = 0; i < role->steps.n; i++) {
        const Step *step = &role->steps.at[i];
        if (step->kind != STEP_START && step->kind != STEP_LOCAL) continue;
        int source = step->in[0], target = step->out[0], used = 0;
        Step saved[256];
        cr_assert_leq(role->steps.n, 256);
        memcpy(saved, role->steps.at, (size_t)role->steps.n * sizeof *saved);
        for (int k = i + 1; k < role->steps.n; k++)
            for (int j = 0; j < role->steps.at[k].nin && role->steps.at[k].kind == STEP_KERNEL; j++)
                if (role->steps.at[k].in[j] == target) role->steps.at[k].in[j] = source, used++;
        if (used) differs(which, plan, "the source was used for the result of communication", i);
        memcpy(role->steps.at, saved, (size_t)role->steps.n * sizeof *saved);
    }
}
Test(numeric, a_source_used_for_its_target_differs) {
    on_all(each_communication_skipped, 15);
}

/* A reader that comes before the wait reads what is not there yet. */
static void each_wait_moved(const PlanCase *which, Plan *plan) {
    Role *role = plan_role(plan);
    for (int i = 0; i + 1 < role->steps.n; i++) {
        Step wait = role->steps.at[i], next = role->steps.at[i + 1];
        bool reads = false;
        for (int j = 0; j < next.nin; j++)
            reads = reads || (next.kind != STEP_WAIT && next.in[j] == wait.out[0]);
        if (wait.kind != STEP_WAIT || !reads) continue;
        role->steps.at[i] = next;
        role->steps.at[i + 1] = wait;
        differs(which, plan, "this wait comes after the first reader:", i);
        role->steps.at[i] = wait;
        role->steps.at[i + 1] = next;
    }
}
Test(numeric, a_result_read_before_its_wait_is_not_there) {
    on_all(each_wait_moved, 15);
}

/* What is overwritten while it is still needed is gone: each value of the arena is moved onto each that is computed before its last reader. */
static void each_overlap(const PlanCase *which, Plan *plan) {
    Role *role = plan_role(plan);
    for (int i = 0; i < role->steps.n; i++)
        for (int k = i + 1; k < role->steps.n; k++) {
            const Step *maker = &role->steps.at[i], *later = &role->steps.at[k];
            if (maker->kind != STEP_KERNEL || later->kind != STEP_KERNEL || later->nout == 0) continue;
            Instance *early = &role->instances.at[maker->out[0]], *late = &role->instances.at[later->out[0]];
            bool read_after = false;
            for (int s = k + 1; s < role->steps.n; s++)
                for (int j = 0; j < role->steps.at[s].nin && role->steps.at[s].kind == STEP_KERNEL; j++)
                    read_after = read_after || role->steps.at[s].in[j] == maker->out[0];
            if (!read_after || early->place != PLACE_ARENA || late->place != PLACE_ARENA || early->at == late->at) continue;
            int64_t at = late->at, bytes = role->arena_bytes;
            late->at = early->at;
            role->arena_bytes = 2 * bytes; /* a large one fits, wherever it begins */
            differs(which, plan, "its result was put over an earlier one that is read later: step", k);
            late->at = at;
            role->arena_bytes = bytes;
        }
}
Test(numeric, a_value_over_another_that_is_needed_differs) {
    on_all(each_overlap, 50);
}

/* The wrong ranks hold it: a layout's digits are exchanged for the same numbers at other strides, on the result of a kernel alone. */
static void each_stride_changed(const PlanCase *which, Plan *plan) {
    Role *role = plan_role(plan);
    for (int i = 0; i < role->steps.n; i++) {
        const Step *step = &role->steps.at[i];
        if (step->kind != STEP_KERNEL) continue;
        Instance *result = &role->instances.at[step->out[0]];
        const Layout *own = result->layout;
        Layout other = *own;
        int64_t split = 1;
        for (int k = 0; k < own->start[own->ndim]; k++)
            split *= own->digit[k].size;
        if (own->start[own->ndim] != 1 || layout_is_partial(own) || plan->graph.nranks / split < 2 ||
            own->digit[0].stride * split == plan->graph.nranks)
            continue;
        other.digit[0].stride = (int32_t)(plan->graph.nranks / split);
        result->layout = &other;
        differs(which, plan, "other ranks hold the result of step", i);
        result->layout = own;
    }
}
Test(numeric, boxes_of_other_ranks_differ) {
    on_all(each_stride_changed, 4);
}

/* The step computes another node than the one whose values are the reference. */
Test(numeric, a_step_with_other_numbers_differs) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    plan_load(&cases[0], &arena, &plan);
    for (int i = 0, n = plan.graph.nodes.n; i < n; i++) {
        const Node *node = &plan.graph.nodes.at[i];
        if (node->op != OP_sgd && node->op != OP_momentum) continue;
        double lr = node->attr[0].f;
        Step *steps = plan_role(&plan)->steps.at;
        int s = 0;
        while (steps[s].kind != STEP_KERNEL || steps[s].node != i)
            s++;
        Node other = *node; /* a second node that the step names in its place */
        own_attrs(&plan.graph, &other)[0].f = lr / 2;
        vec_push(&arena, &plan.graph.nodes, other);
        for (int k = 0; k < other.nout; k++) {
            Value value = plan.graph.values.at[other.out[k]];
            plan.graph.nodes.at[plan.graph.nodes.n - 1].out[k] = plan.graph.values.n;
            vec_push(&arena, &plan.graph.values, value);
        }
        steps[s].node = plan.graph.nodes.n - 1;
        cr_expect_not(agrees(&plan), "another learning rate makes no difference");
        cr_expect(strstr(why, "is wrong") || strstr(why, "gives a wrong"), "%s", why);
        steps[s].node = i;
    }
    arena_finish(&arena);
}

Test(numeric, its_work_and_memory_grow_with_the_sizes) {
    Arena arena;
    arena_init(&arena);
    Plan small, large;
    static const char net[] = "net n(b = %d) { input x : f32[b, 8]; param w : f32[8, 8] = normal(1); loss mean(matmul(x, w)); }\n"
                              "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }";
    char text[400];
    snprintf(text, sizeof text, net, 16);
    plan_of(text, 2, &arena, &small);
    snprintf(text, sizeof text, net, 1600);
    plan_of(text, 2, &arena, &large);
    double ratio = numeric_work(&large, &large.programs.at[0]) / numeric_work(&small, &small.programs.at[0]);
    cr_assert(ratio > 30 && ratio < 110, "%g", ratio);
    cr_assert_gt(numeric_bytes(&large, &large.programs.at[0]), 20 * numeric_bytes(&small, &small.programs.at[0]));
    arena_finish(&arena);
}
