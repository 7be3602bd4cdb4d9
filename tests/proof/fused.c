/* Fused steps: a proof accepts what may be run block by block as well as kernel by kernel, and refuses what may not. */
#include "tests/fused.h"
#include "tests/proof/changed.h"

static const PlanCase cases[] = {
    {"samples/quickstart.dsl", 8, 1, ""}, {"samples/elementwise.dsl", 4, 1, ""}, {"samples/oneflow_ddp.dsl", 2, 1, ""},
    {"samples/mesh.dsl", 8, 1, ""},       {"samples/transformer.dsl", 4, 1, ""},
};

Test(fused, runs_of_kernels_are_proved_as_one_step) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int most = 2; most <= MAX_FUSED; most *= 4) {
            Arena arena;
            Plan plan;
            Error error;
            arena_init(&arena);
            plan_load(&cases[i], &arena, &plan);
            plan.certificate = NULL;
            cr_assert_gt(fused_by_hand(&plan, most), 0, "%s", cases[i].file);
            cr_expect(reads(&arena, &plan, &error), "%s: %s", cases[i].file, error.text);
            cr_expect(proved(&plan, &error), "%s: %s", cases[i].file, error.text);
            arena_finish(&arena);
        }
}

/* ---------------------------------------------------------------- one net, changed in one way at a time */

/* x, a to e: squares of one size, f32; k: i32. */
static const char squares[] =
    "net n() { input x : f32[8, 8]; param p : f32[8, 8] = normal(0.5); h = x * x; a = relu(h); b = transpose(h); c = exp(a); d = c + b; e = -d; "
    "r = sum(e, axes = [1]); loss sum(square(r)) + sum(h * d) + sum(p); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; }\nparallel { mode = auto; }\n";

/* Relu to the sum of rows as one fused step; its operands lie where nothing else does. */
static void squares_fused(Fixture *f) {
    Diags diags;
    Error error = {0};
    arena_init(&f->arena);
    diags_init(&diags, &f->arena);
    Options options = {.input = "n.dsl", .output = "/dev/null", .no_plan = true, .overrides.nranks = 1};
    Compilation c;
    cr_assert(compile(&c, &f->arena, &options, &diags, squares, strlen(squares)), "%s", c.error.text);
    cr_assert(plan_read(&f->plan, &f->arena, "plan", c.text.at, c.text.n, 0, &error), "%s", error.text);
    compilation_finish(&c);
    f->role = plan_role(&f->plan);
    for (f->first = 0; f->role->steps.at[f->first].op != OP_relu; f->first++)
        ;
    int last = f->first;
    while (f->role->steps.at[last].op != OP_sum)
        last++;
    fused_make(&f->plan.graph, &f->plan.programs.at[0], f->role, f->first, last, 1);
    cr_assert(proved(&f->plan, &error), "%s", error.text);
    cr_assert(reads(&f->arena, &f->plan, &error), "%s", error.text);
}

static Step *step_of(const Fixture *f, OpCode op) {
    for (int s = f->first; s < f->role->steps.n; s++)
        if (f->role->steps.at[s].op == op && f->role->steps.at[s].kind == STEP_KERNEL) return &f->role->steps.at[s];
    cr_assert_fail("no %s", op_table[op].name);
    return NULL;
}

static Instance *instance(const Fixture *f, int id) {
    return &f->role->instances.at[id];
}

/* Gives a value memory again. */
static void stored(Fixture *f, int id) {
    *instance(f, id) =
        (Instance){.value = instance(f, id)->value, .layout = instance(f, id)->layout, .place = PLACE_ARENA, .at = f->role->arena_bytes};
    f->role->arena_bytes += 8 * 8 * 4;
}

Test(fused, members_are_in_the_order_that_the_tests_rely_on) {
    Fixture f;
    squares_fused(&f);
    static const OpCode expected[] = {OP_relu, OP_transpose, OP_exp, OP_add, OP_neg, OP_sum};
    cr_assert_eq(fused_length(f.role, f.first), 6);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(f.role->steps.at[f.first + i].op, expected[i]);
    cr_assert_eq(instance(&f, step_of(&f, OP_exp)->out[0])->place, PLACE_INNER);
    cr_assert_eq(instance(&f, step_of(&f, OP_add)->out[0])->place, PLACE_ARENA); /* h * d reads it */
    arena_finish(&f.arena);
}

Test(fused, an_inner_value_is_read_in_its_step_alone) {
    Fixture f;
    squares_fused(&f);
    *instance(&f, step_of(&f, OP_add)->out[0]) =
        (Instance){instance(&f, step_of(&f, OP_add)->out[0])->value, instance(&f, step_of(&f, OP_add)->out[0])->layout, PLACE_INNER, 0, 0};
    unread(&f, "is read outside of the fused step that makes it");
}

Test(fused, an_inner_value_of_another_fused_step_is_not_read) {
    Fixture f;
    squares_fused(&f);
    for (int s = f.first + 3; s < f.first + 6; s++)
        f.role->steps.at[s].fused = 2;
    unread(&f, "is read outside of the fused step that makes it");
}

Test(fused, an_inner_value_is_made_by_a_fused_step) {
    Fixture f;
    squares_fused(&f);
    for (int s = f.first; s < f.first + 6; s++)
        f.role->steps.at[s].fused = 0;
    unread(&f, "is made by no fused step");
}

Test(fused, an_inner_value_is_read_after_it_is_made) {
    Fixture f;
    squares_fused(&f);
    Step *exp = step_of(&f, OP_exp), *add = step_of(&f, OP_add), kept = *exp;
    *exp = *add;
    *add = kept;
    unread(&f, "is read outside of the fused step that makes it");
}

Test(fused, an_inner_value_is_not_reported) {
    Fixture f;
    squares_fused(&f);
    instance(&f, f.plan.programs.at[0].loss)->place = PLACE_INNER;
    instance(&f, f.plan.programs.at[0].loss)->at = 0;
    for (int s = f.role->steps.n - 1, n = 0; s > f.first && n == 0; s--)
        if (f.role->steps.at[s].nout > 0 && f.role->steps.at[s].out[0] == f.plan.programs.at[0].loss) f.role->steps.at[s].fused = 2, n = 1;
    unread(&f, "is reported");
}

Test(fused, numbers_count_up_and_none_comes_twice) {
    static const int numbers[][6] = {{2, 2, 2, 2, 2, 2}, {1, 1, 2, 1, 1, 1}, {1, 1, 1, 1, 3, 3}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Fixture f;
        squares_fused(&f);
        for (int k = 0; k < 6; k++) {
            Step *step = &f.role->steps.at[f.first + k];
            step->fused = numbers[i][k];
            if (instance(&f, step->out[0])->place == PLACE_INNER) stored(&f, step->out[0]);
        }
        unread(&f, "a fused step is ");
    }
}

Test(fused, a_step_of_too_many_members_is_refused) {
    Fixture f;
    squares_fused(&f);
    for (int k = 0; k < MAX_FUSED;
         k++) { /* of the same node again and again: the reader counts before the proof looks at what they compute */
        const int s = f.first + 6 + k;
        Step step = f.role->steps.at[f.first];
        vec_push(&f.arena, &f.role->steps, step);
        memmove(&f.role->steps.at[s + 1], &f.role->steps.at[s], sizeof step * (size_t)(f.role->steps.n - 1 - s));
        f.role->steps.at[s] = step;
        Instance copy = *instance(&f, step.out[0]);
        f.role->steps.at[s].out[0] = f.role->instances.n;
        vec_push(&f.arena, &f.role->instances, copy);
    }
    unread(&f, "more than 32 kernels in fused step 1");
}

/* ---------------------------------------------------------------- memory */

/* y is read by `neg` alone, z by `relu` and then by `transpose`. */
static const char chains[] =
    "net n() { input x : f32[8, 8]; param p : f32[8, 8] = normal(0.5); y = x * x; z = x + x; a = -y; b = exp(a); v = relu(z); t = transpose(z); "
    "loss sum(b * t * v) + sum(p); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; }\nparallel { mode = auto; }\n";

/* Fuses from the first operator to the last; the result of one, and of a second (NOPS: none), lies where that of another lies. */
static bool lies_over(OpCode first, OpCode last, OpCode result, OpCode second, OpCode operand, char *why, size_t n) {
    Arena arena;
    Plan plan;
    Error error = {0};
    Diags diags;
    arena_init(&arena);
    diags_init(&diags, &arena);
    Options options = {.input = "n.dsl", .output = "/dev/null", .no_plan = true, .overrides.nranks = 1};
    Compilation c;
    cr_assert(compile(&c, &arena, &options, &diags, chains, strlen(chains)), "%s", c.error.text);
    cr_assert(plan_read(&plan, &arena, "plan", c.text.at, c.text.n, 0, &error), "%s", error.text);
    compilation_finish(&c);
    Role *role = plan_role(&plan);
    int at[NOPS] = {0};
    for (int s = role->steps.n - 1; s >= 0; s--)
        if (role->steps.at[s].kind == STEP_KERNEL) at[role->steps.at[s].op] = s;
    fused_make(&plan.graph, &plan.programs.at[0], role, at[first], at[last], 1);
    Instance *over = &role->instances.at[role->steps.at[at[result]].out[0]],
             *under = &role->instances.at[role->steps.at[at[operand]].out[0]];
    cr_assert_eq(under->place, PLACE_ARENA);
    under->at = (role->arena_bytes + 63) / 64 * 64; /* where nothing else lies */
    role->arena_bytes = under->at + 8 * 8 * 4;
    cr_assert(proved(&plan, &error), "%s", error.text);
    over->place = PLACE_ARENA, over->at = under->at;
    if (second != NOPS)
        role->instances.at[role->steps.at[at[second]].out[0]].place = PLACE_ARENA,
        role->instances.at[role->steps.at[at[second]].out[0]].at = under->at;
    const bool ok = proved(&plan, &error);
    snprintf(why, n, "%s", error.text);
    arena_finish(&arena);
    return ok;
}

Test(fused, what_may_be_overwritten) {
    char why[1024];
    /* y = mul, a = neg, b = exp: a over y, which neg alone reads. */
    cr_expect(lies_over(OP_neg, OP_exp, OP_neg, NOPS, OP_mul, why, sizeof why), "%s", why);
    /* t over y: between neg, which reads it, and the transpose all go element by element, but the transpose does not. */
    cr_expect_not(lies_over(OP_neg, OP_transpose, OP_transpose, NOPS, OP_mul, why, sizeof why));
    cr_expect(strstr(why, "writes value"), "%s", why);
    /* t over z, which the transpose itself reads. */
    cr_expect_not(lies_over(OP_exp, OP_transpose, OP_transpose, NOPS, OP_add, why, sizeof why));
    cr_expect(strstr(why, "writes value"), "%s", why);
    /* v over z, which the relu reads element by element, and the transpose, a later member, otherwise; a over z. */
    cr_expect_not(lies_over(OP_neg, OP_transpose, OP_relu, NOPS, OP_add, why, sizeof why));
    cr_expect(strstr(why, "writes value"), "%s", why);
    cr_expect_not(lies_over(OP_neg, OP_transpose, OP_neg, NOPS, OP_add, why, sizeof why));
    cr_expect(strstr(why, "writes value"), "%s", why);
    /* b over y, which only a is made of, element by element; a over y; both at once. */
    cr_expect(lies_over(OP_neg, OP_exp, OP_exp, NOPS, OP_mul, why, sizeof why), "%s", why);
    cr_expect_not(lies_over(OP_neg, OP_exp, OP_neg, OP_exp, OP_mul, why, sizeof why));
    cr_expect(strstr(why, "writes value"), "%s", why);
}
