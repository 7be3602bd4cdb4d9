/* Operators and communications alone at small sizes: their number does not grow with the net, small cases are divided like their own, wrong layouts
 * give wrong elements. */
#include <string.h>

#include "proof/shrink.h"
#include "tests/proof/plans.h"

static const PlanCase cases[] = {
    {"samples/quickstart.dsl", 8, 2, ""},
    {"samples/quickstart.dsl", 8, 0, ""},
    {"samples/elementwise.dsl", 6, 2, "semi_auto"},
    {"samples/mesh.dsl", 8, 2, ""},
    {"samples/output.dsl", 8, 2, ""},
    {"samples/oneflow_ddp.dsl", 2, 2, ""},
    {"samples/mlp.dsl", 16, 2, ""},
    {"samples/reductions.dsl", 5, 2, "semi_auto"},
    {"samples/mlp_small.dsl", 12, 0, ""},
};
enum { NCASES = sizeof cases / sizeof *cases };
static char why[1200];

static bool run(const Plan *plan, Patterns *patterns) {
    *why = '\0';
    return pattern_plan(plan, 3, NULL, patterns, why, sizeof why);
}

Test(pattern, right_plans_agree_and_nothing_is_left_out) {
    for (int i = 0; i < NCASES; i++) {
        Arena arena;
        arena_init(&arena);
        Plan plan;
        Patterns patterns;
        plan_load(&cases[i], &arena, &plan);
        cr_assert(run(&plan, &patterns), "%s: %s", cases[i].file, why);
        cr_assert(patterns.operators > 4 && patterns.communications > 0 && patterns.left_out == 0, "%s: %d, %d, left out %d (%s)",
                  cases[i].file, patterns.operators, patterns.communications, patterns.left_out, patterns.left_why);
        arena_finish(&arena);
    }
}

static Patterns chain(int layers, int size, int nranks) {
    Text net = {0};
    text_printf(&net, "net chain(b = %d, d = %d) { input x : f32[b, d]; param w0 : f32[d, d] = normal(1); h0 = relu(matmul(x, w0));\n",
                size, size);
    for (int i = 1; i < layers; i++)
        text_printf(&net, "param w%d : f32[d, d] = normal(1); h%d = relu(matmul(h%d, w%d));\n", i, i, i - 1, i);
    text_printf(&net,
                "loss mean(h%d); }\ntrain { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }\nparallel { mode = semi_auto; }",
                layers - 1);
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Patterns patterns;
    plan_of(net.at, nranks, &arena, &plan);
    cr_assert(run(&plan, &patterns), "%s", why);
    cr_assert_eq(patterns.left_out, 0, "%s", patterns.left_why);
    arena_finish(&arena);
    text_finish(&net);
    return patterns;
}

Test(pattern, neither_layers_nor_sizes_nor_ranks_make_more_patterns) {
    Patterns few = chain(3, 64, 8), many = chain(40, 64, 8), large = chain(3, 4096, 8), wide = chain(3, 4096, 512);
    cr_assert_eq(few.operators, many.operators);
    cr_assert_eq(few.communications, many.communications);
    cr_assert_eq(few.operators, large.operators);
    cr_assert_eq(few.operators, wide.operators);
    cr_assert_eq(large.communications,
                 wide.communications); /* large states are updated in parts: other communications than of small ones */
}

/* ---------------------------------------------------------------- small cases */

static Layout layout_of(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden), "%s", text);
    return layout;
}

static Case communication(CommKind kind, const char *from, const char *to, Shape shape, int nranks) {
    Case c = {.communication = true, .comm = kind, .nranks = nranks, .node = {.nin = 1, .nout = 1}};
    c.layout[0] = layout_of(from);
    c.layout[1] = layout_of(to);
    c.value[0].type = c.value[1].type = (TensorType){.dtype = F32, .shape = shape};
    return c;
}

static Case shrunk(const Case *own, int most) {
    Case small;
    cr_assert(case_shrink(own, most, false, &small, why, sizeof why), "%s", why);
    return small;
}

Test(pattern, digits_above_three_are_made_three_and_sizes_follow) {
    Case own = communication(COMM_ALL_GATHER, "[64@64 -]", "[]", (Shape){.ndim = 2, .dim = {4096, 1000}}, 4096);
    own.layout[1] = layout_of("[- -]");
    Case small = shrunk(&own, 3);
    cr_assert_eq(small.nranks, 3 * 3);
    cr_assert(small.layout[0].digit[0].size == 3 && small.layout[0].digit[0].stride == 3);
    cr_assert_eq(small.value[0].type.shape.dim[0], 6, "64 elements a part: two are enough");
    cr_assert_leq(small.value[0].type.shape.dim[1], 3);
}

Test(pattern, even_uneven_and_empty_splits_stay_what_they_are) {
    struct {
        int64_t size;
        int parts;
        bool even, empty;
    } rows[] = {{64, 8, true, false},  {8, 8, true, false}, {65, 8, false, false},
                {13, 8, false, false}, {5, 8, false, true}, {1, 8, false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char from[32];
        snprintf(from, sizeof from, "[%d@1]", rows[i].parts);
        Case own = communication(COMM_ALL_GATHER, from, "[-]", (Shape){.ndim = 1, .dim = {rows[i].size}}, 8), small = shrunk(&own, 3);
        int64_t size = small.value[0].type.shape.dim[0], parts = small.layout[0].digit[0].size;
        cr_expect_eq(size % parts == 0, rows[i].even, "%d by %d became %d by %d", (int)rows[i].size, rows[i].parts, (int)size, (int)parts);
        cr_expect_eq(size < parts, rows[i].empty, "%d by %d became %d by %d", (int)rows[i].size, rows[i].parts, (int)size, (int)parts);
    }
}

Test(pattern, boundaries_in_common_stay_in_common) { /* 16@4 and 4@1 of one dimension, 8@8 of the other side */
    Case own = communication(COMM_EXCHANGE, "[16@4 -]", "[- 8@8]", (Shape){.ndim = 2, .dim = {64, 64}}, 64), small = shrunk(&own, 3);
    Digit a = small.layout[0].digit[0], b = small.layout[1].digit[0];
    cr_assert_eq(a.size * a.stride, small.nranks);
    cr_assert_eq(b.size * b.stride, small.nranks);
    cr_assert(b.stride > a.stride && b.stride % a.stride == 0, "%d@%d and %d@%d", a.size, a.stride, b.size, b.stride);
}

Test(pattern, meshes_without_a_common_refinement_are_not_made_small) {
    Case own = communication(COMM_EXCHANGE, "[2@3 -]", "[- 3@2]", (Shape){.ndim = 2, .dim = {6, 6}}, 6), small;
    cr_assert_not(case_shrink(&own, 3, false, &small, why, sizeof why));
    cr_assert(strstr(why, "no common refinement"), "%s", why);
}

/* ---------------------------------------------------------------- wrong ones */

static int tried;
static void refuse_changed(Plan *plan, bool (*wrong)(Plan *, const Step *), const char *what) {
    Role *role = plan_role(plan);
    for (int s = 0; s < role->steps.n; s++) {
        Patterns patterns;
        const Step *step = &role->steps.at[s];
        const Layout *in[MAX_IN] = {NULL}, *out[MAX_OUT] = {NULL};
        for (int i = 0; i < step->nin; i++)
            in[i] = role->instances.at[step->in[i]].layout;
        for (int k = 0; k < step->nout; k++)
            out[k] = role->instances.at[step->out[k]].layout;
        if (step->kind == STEP_KERNEL && wrong(plan, step)) {
            int n = role->steps.n;
            Step *steps = role->steps.at;
            role->steps.at += s; /* this step alone: its neighbours would see the changed layouts too */
            role->steps.n = 1;
            tried++;
            cr_expect_not(run(plan, &patterns), "%s: step %d (%s) agrees", what, s, op_table[step->op].name);
            role->steps.at = steps;
            role->steps.n = n;
        }
        for (int i = 0; i < step->nin; i++)
            role->instances.at[step->in[i]].layout = in[i];
        for (int k = 0; k < step->nout; k++)
            role->instances.at[step->out[k]].layout = out[k];
    }
}

static Layout changed[MAX_IN + MAX_OUT];
static const Layout *make_partial(const Layout *layout, int at, Digit digit) {
    changed[at] = *layout;
    return layout_append(&changed[at], layout->ndim + REDUCE_SUM, digit) ? &changed[at] : NULL;
}

/* The sum over the contracted index is forgotten: a dropped term. */
static bool sum_forgotten(Plan *plan, const Step *step) {
    Instance *result = &plan_role(plan)->instances.at[step->out[0]];
    if (!layout_is_partial(result->layout)) return false;
    changed[0] = *result->layout;
    layout_complete(&changed[0], &changed[0]);
    result->layout = &changed[0];
    return true;
}

/* A partial operand is let through an operator that is not linear in it. */
static bool partial_let_through(Plan *plan, const Step *step) {
    if (step->op != OP_relu && step->op != OP_tanh && step->op != OP_exp && step->op != OP_log) return false;
    Instance *x = &plan_role(plan)->instances.at[step->in[0]], *y = &plan_role(plan)->instances.at[step->out[0]];
    Layout used = *x->layout;
    const char *reason;
    if (!layout_append(&used, used.ndim + REDUCE_SUM, (Digit){.size = 2, .stride = 1}) || !layout_valid(&used, plan->graph.nranks, &reason))
        return false;
    x->layout = make_partial(x->layout, 0, (Digit){.size = 2, .stride = 1});
    y->layout = make_partial(y->layout, 1, (Digit){.size = 2, .stride = 1});
    return true;
}

/* Something whole is added to a partial sum on every rank; both factors of a product are partial. */
static bool bias_everywhere(Plan *plan, const Step *step) {
    if (step->op != OP_add && step->op != OP_sub && step->op != OP_mul) return false;
    Role *role = plan_role(plan);
    if (step->in[0] == step->in[1] || step->in[0] == step->out[0]) return false;
    const int number[3] = {step->in[0], step->in[1], step->out[0]};
    for (int i = 0; i < 3; i++) {
        const char *reason;
        Layout used = *role->instances.at[number[i]].layout;
        if (layout_is_partial(&used) || !layout_append(&used, used.ndim + REDUCE_SUM, (Digit){.size = 2, .stride = 1}) ||
            !layout_valid(&used, plan->graph.nranks, &reason))
            return false;
    }
    for (int i = 0; i < 3; i++)
        if (i != 1 || step->op == OP_mul)
            role->instances.at[number[i]].layout = make_partial(role->instances.at[number[i]].layout, i, (Digit){.size = 2, .stride = 1});
    return true;
}

static void refuse_on_all(bool (*wrong)(Plan *, const Step *), const char *what, int least) {
    tried = 0;
    static const PlanCase wide[] = {
        {"samples/quickstart.dsl", 8, 2, ""}, {"samples/elementwise.dsl", 16, 2, ""}, {"samples/mesh.dsl", 8, 2, ""},
        {"samples/output.dsl", 8, 2, ""},     {"samples/reductions.dsl", 4, 2, ""},   {"samples/elementwise.dsl", 1, 2, ""},
    };
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        Arena arena;
        arena_init(&arena);
        Plan plan;
        plan_load(&wide[i], &arena, &plan);
        if (plan.graph.nranks == 1) plan.graph.nranks = 4; /* all is whole: any digit is free */
        refuse_changed(&plan, wrong, what);
        arena_finish(&arena);
    }
    cr_assert_geq(tried, least, "only %d tried", tried);
}

Test(pattern, a_sum_that_is_not_owed_any_more_is_wrong) {
    refuse_on_all(sum_forgotten, "a sum was forgotten", 10);
}
Test(pattern, a_partial_sum_through_a_function_is_wrong) {
    refuse_on_all(partial_let_through, "a partial sum was let through", 2);
}
Test(pattern, a_bias_on_every_rank_of_a_partial_sum_is_wrong) {
    refuse_on_all(bias_everywhere, "a whole value was added to a partial sum", 3);
}

/* ---------------------------------------------------------------- communications */

/* Moves random terms as one kind and looks at the result as another layout. */
static bool moves(CommKind kind, const char *from_text, const char *to_text, const char *as_text, Shape shape, int nranks) {
    Layout from = layout_of(from_text), to = layout_of(to_text), as = layout_of(as_text);
    Spread source = {0}, target = {0};
    Fe whole[512];
    cr_assert(spread_room(&source, &from, &shape, nranks) && spread_room(&target, &to, &shape, nranks));
    spread_draw(&from, &shape, F32, nranks, 11, &source, whole);
    bool ok = spread_move(kind, &from, &to, &shape, nranks, &source, &target, why, sizeof why) &&
              spread_agrees(&as, &shape, nranks, &target, whole, why, sizeof why);
    spread_finish(&source);
    spread_finish(&target);
    return ok;
}

Test(pattern, communications_bring_what_they_say) {
    Shape shape = {.ndim = 2, .dim = {7, 12}};
    cr_expect(moves(COMM_ALL_REDUCE, "[- -] +sum(4@2)", "[- -]", "[- -]", shape, 8), "%s", why);
    cr_expect(moves(COMM_REDUCE_SCATTER, "[- -] +sum(4@1)", "[- 4@1]", "[- 4@1]", shape, 8), "%s", why);
    cr_expect(moves(COMM_EXCHANGE, "[2@4 -] +sum(2@2)", "[- 2@2]", "[- 2@2]", shape, 8), "%s", why);
    cr_expect(moves(COMM_EXCHANGE, "[- -] +max(2@2)", "[2@2 -]", "[2@2 -]", shape, 4), "%s", why);
    cr_expect(moves(COMM_EXCHANGE, "[3@2 -] +sum(2@1)", "[- 3@2] +sum(2@1)", "[- 3@2] +sum(2@1)", shape, 6), "%s", why);
}

Test(pattern, communications_that_bring_something_else_are_found) {
    Shape shape = {.ndim = 2, .dim = {7, 12}};
    cr_expect_not(moves(COMM_STRIDED_SLICE, "[4@1 -]", "[- 4@1]", "[- 4@1]", shape, 4));
    cr_expect(strstr(why, "needs another rank's part"), "%s", why);
    cr_expect_not(moves(COMM_ALL_REDUCE, "[- -]", "[- -] +sum(2@1)", "[- -]", shape, 4));
    cr_expect(strstr(why, "partial over digits that the source is not"), "%s", why);
    cr_expect_not(moves(COMM_EXCHANGE, "[4@1 -]", "[2@2.2@1 -]", "[4@1 -]", (Shape){.ndim = 2, .dim = {6, 2}}, 4),
                  "6 by 4@1 is 2 2 1 1, by 2@2.2@1 2 1 2 1");
    cr_expect_not(moves(COMM_EXCHANGE, "[- -] +sum(4@1)", "[- -] +sum(2@1)", "[- -]", shape, 4), "two terms are still to be added");
}
