/* Views: a proof accepts values that are read where others lie, and refuses what has changed by then. */
#include "tests/proof/changed.h"

/* t is a view of h, which the product m reads; w, before it, is as large as h. */
static const char net[] =
    "net n() { input x : f32[4, 8, 8]; param p : f32[4, 8, 8] = normal(0.5); h = exp(x); t = transpose(h, perm = [1, 0, 2]); "
    "u, v = split(p, parts = 2, axis = 2); w = matmul(u, v, transpose_b = true); m = matmul(t, t, transpose_b = true); loss sum(w) + sum(m); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; }\nparallel { mode = auto; }\n";

static int id(const Fixture *f, const char *name) {
    for (int i = 0; i < f->role->instances.n; i++)
        if (strcmp(f->plan.graph.values.at[f->role->instances.at[i].value].name, name) == 0) return i;
    cr_assert_fail("no %s", name);
    return -1;
}

static Instance *instance(const Fixture *f, const char *name) {
    return &f->role->instances.at[id(f, name)];
}

static int maker(const Fixture *f, const char *name) {
    for (int s = 0; s < f->role->steps.n; s++)
        for (int o = 0; o < f->role->steps.at[s].nout; o++)
            if (f->role->steps.at[s].out[o] == id(f, name)) return s;
    cr_assert_fail("nothing makes %s", name);
    return -1;
}

static void stored(Fixture *f, const char *name) {
    instance(f, name)->place = PLACE_ARENA;
    instance(f, name)->at = f->role->arena_bytes;
    f->role->arena_bytes += 4 * 8 * 8 * 4;
}

Test(views, a_plan_has_those_that_the_tests_rely_on) {
    Fixture f;
    fixture_of(&f, net, 1);
    cr_expect_eq(instance(&f, "t")->place, PLACE_VIEW);
    cr_expect_eq(instance(&f, "t")->at, id(&f, "h"));
    cr_expect_eq(instance(&f, "u")->place, PLACE_VIEW);
    cr_expect_eq(instance(&f, "v")->place, PLACE_VIEW);
    arena_finish(&f.arena);
}

Test(views, what_one_lies_in_is_not_overwritten_before_it_is_read) {
    Fixture f;
    Error error;
    fixture_of(&f, net, 1);
    stored(&f, "h");
    stored(&f, "w");
    cr_assert(proved(&f.plan, &error), "%s", error.text);
    cr_assert_lt(maker(&f, "t"), maker(&f, "w")); /* the last step that names h itself */
    cr_assert_lt(maker(&f, "w"), maker(&f, "m"));
    instance(&f, "w")->at = instance(&f, "h")->at;
    refused(&f, "which is read until step");
}

/* h * t goes element by element, but t has h's elements at other places. */
Test(views, a_step_stores_nothing_over_what_it_reads_one_of) {
    static const char squares[] =
        "net n() { input x : f32[8, 8]; param p : f32[8, 8] = normal(0.5); h = exp(x); t = transpose(h); w = sum(t); e = h * t; loss sum(e * x) + sum(p) + w; }\n"
        "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; }\nparallel { mode = auto; }\n";
    Fixture f;
    Error error;
    fixture_of(&f, squares, 1);
    for (int s = 0; s < f.role->steps.n; s++) { /* no fused steps, and every result its own memory */
        f.role->steps.at[s].fused = 0;
        for (int o = 0; f.role->steps.at[s].kind == STEP_KERNEL && o < f.role->steps.at[s].nout; o++) {
            Instance *result = &f.role->instances.at[f.role->steps.at[s].out[o]];
            if (result->place == PLACE_STATE) continue;
            *result = (Instance){result->value, result->layout, PLACE_ARENA, f.role->arena_bytes, 0};
            f.role->arena_bytes += 8 * 8 * 4;
        }
    }
    cr_assert(proved(&f.plan, &error), "%s", error.text);
    instance(&f, "e")->at = instance(&f, "h")->at; /* in place of h, which nothing reads later */
    instance(&f, "t")->at = f.role->arena_bytes;
    f.role->arena_bytes += 8 * 8 * 4;
    cr_assert(proved(&f.plan, &error), "%s", error.text);
    *instance(&f, "t") = (Instance){instance(&f, "t")->value, instance(&f, "t")->layout, PLACE_VIEW, id(&f, "h"), 0};
    cr_assert(reads(&f.arena, &f.plan, &error), "%s", error.text);
    refused(&f, "writes value");
}

/* The update of p, which reads p in another order. */
Test(views, a_state_is_not_overwritten_by_what_reads_a_view_of_it) {
    static const char update[] = "net n() { param p : f32[8, 8] = normal(0.5); q = transpose(p); loss sum(p * q); }\n"
                                 "train { optimizer = sgd(lr = 0.1); steps = 1; }\nparallel { mode = auto; }\n";
    Fixture f;
    Error error;
    fixture_of(&f, update, 1);
    const int read = id(&f, "q");
    f.role->instances.at[read] =
        (Instance){f.role->instances.at[read].value, f.role->instances.at[read].layout, PLACE_VIEW, id(&f, "p"), 0};
    cr_assert(proved(&f.plan, &error), "%s", error.text);
    /* its readers come behind the update */
    int last = f.role->steps.n - 1, at = maker(&f, "q") + 1;
    while (at <= last && f.role->steps.at[at].in[0] != read && f.role->steps.at[at].in[1] != read)
        at++;
    Step reader = f.role->steps.at[at];
    for (int s = 0; s < f.role->steps.n; s++)
        f.role->steps.at[s].fused = 0;
    memmove(&f.role->steps.at[at], &f.role->steps.at[at + 1], sizeof reader * (size_t)(last - at));
    reader.fused = 0;
    f.role->steps.at[last] = reader;
    refused(&f, "");
}

Test(views, one_is_of_the_operand_that_it_is_made_of) {
    Fixture f;
    fixture_of(&f, net, 1);
    instance(&f, "t")->at = id(&f, "x");
    unread(&f, "but made of value");
}

Test(views, one_is_made_by_an_operator_that_places_elements) {
    Fixture f;
    fixture_of(&f, net, 1);
    f.role->steps.at[maker(&f, "h")].fused = 0;
    instance(&f, "h")->place = PLACE_VIEW;
    instance(&f, "h")->at = id(&f, "x");
    unread(&f, "only operators alone that place elements have views");
}

Test(views, one_is_made_once) {
    Fixture f;
    fixture_of(&f, net, 1);
    const int at = maker(&f, "t");
    Step again = f.role->steps.at[at];
    vec_push(&f.arena, &f.role->steps, again);
    memmove(&f.role->steps.at[at + 1], &f.role->steps.at[at], sizeof again * (size_t)(f.role->steps.n - 1 - at));
    unread(&f, "is made twice");
}

Test(views, one_is_read_after_it_is_made) {
    Fixture f;
    fixture_of(&f, net, 1);
    const int at = maker(&f, "t");
    Step late = f.role->steps.at[at];
    memmove(&f.role->steps.at[at], &f.role->steps.at[at + 1], sizeof late * (size_t)(f.role->steps.n - 1 - at));
    f.role->steps.at[f.role->steps.n - 1] = late;
    unread(&f, "is read before it is made");
}

Test(views, all_results_of_a_step_are_some_or_none) {
    Fixture f;
    fixture_of(&f, net, 1);
    stored(&f, "u");
    unread(&f, "of which only 1 are views");
}

Test(views, a_fused_step_makes_none) {
    Fixture f;
    fixture_of(&f, net, 1);
    for (int s = 0; s < f.role->steps.n; s++)
        f.role->steps.at[s].fused = s == maker(&f, "t") ? 1 : 0;
    unread(&f, "");
}

Test(views, one_is_not_reported) {
    Fixture f;
    fixture_of(&f, net, 1);
    f.plan.programs.at[0].loss = id(&f, "t");
    unread(&f, "the view");
}
