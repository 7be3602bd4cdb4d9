#include "compile.h"
#include "compiler/held.h"

/* The instance in whose memory one lies. */
static int root_of(const Role *role, int instance) {
    while (role->instances.at[instance].place == PLACE_VIEW)
        instance = (int)role->instances.at[instance].at;
    return instance;
}

/* By counting: for every step, every byte of the arena that lies in a value that a step up to it writes and one from it on reads. */
static int64_t counted(const Facts *facts, int *step) {
    const Role *role = facts->role;
    int64_t most = 0;
    bool *full = malloc((size_t)role->arena_bytes + 1);
    for (int s = 0; s < role->steps.n; s += fused_length(role, s)) {
        const int end = s + fused_length(role, s);
        int64_t bytes = 0;
        memset(full, 0, (size_t)role->arena_bytes + 1);
        for (int i = 0; i < role->instances.n; i++) {
            const Instance *at = &role->instances.at[i];
            const TensorType *type = &facts->graph->values.at[at->value].type;
            bool before = false, after = facts->program->loss == i;
            for (int k = 0; k < role->steps.n; k++) {
                const Step *one = &role->steps.at[k];
                for (int o = 0; o < one->nout; o++)
                    before = before || (k < end && one->out[o] == i), after = after || (k >= s && one->out[o] == i);
                for (int o = 0; o < one->nin; o++)
                    after = after || (k >= s && root_of(role, one->in[o]) == i);
            }
            if (at->place == PLACE_ARENA && before && after) memset(full + at->at, 1, (size_t)layout_max_bytes(at->layout, type));
        }
        for (int64_t b = 0; b < role->arena_bytes; b++)
            bytes += full[b];
        if (bytes > most) most = bytes, *step = s;
    }
    free(full);
    return most;
}

Test(held, the_fullest_step_is_the_one_that_counting_finds) {
    for (int o = 0; o <= 2; o++)
        for (int i = 0; i < NNETS; i++) {
            Compiled x;
            Held held;
            int step = -1;
            compiled(&x, nets[i], 4, o);
            held_find(&held, x.b->facts, &x.arena);
            cr_expect_eq(held.bytes, counted(x.b->facts, &step));
            cr_expect_eq(held.step, step);
            cr_expect_leq(held.bytes, x.b->placement.arena_bytes);
            int64_t sum = 0;
            for (int k = 0; k < held.holders.n; k++) {
                sum += held.holders.at[k].bytes;
                cr_expect(k == 0 || held.holders.at[k].bytes <= held.holders.at[k - 1].bytes);
            }
            cr_expect_eq(sum, held.bytes);
            compiled_finish(&x);
        }
}

/* The transpose is read where a lies, by products that come after the last step that names a. */
Test(held, what_is_read_through_a_view_is_held) {
    Compiled x;
    Held held;
    int step = -1;
    compiled(
        &x,
        "net n(batch = 64) { input x : f32[batch, 8, 6, 16]; param u : f32[16] = normal(0.1); param v : f32[batch, 6, 16, 8] = normal(0.1);\n"
        "  a = x + u; t = transpose(a, perm = [0, 2, 1, 3]); loss mean(square(matmul(t, v))); }\n" TRAIN,
        1, 2);
    cr_expect_gt(x.b->facts->views, 0);
    held_find(&held, x.b->facts, &x.arena);
    cr_expect_eq(held.bytes, counted(x.b->facts, &step));
    cr_expect_eq(held.step, step);
    compiled_finish(&x);
}

/* Two products of 64 x 64 whose results are multiplied: when the second is made all three are there, and nothing else lies in the arena. */
Test(held, values_are_named) {
    Compiled x;
    Held held;
    compiled(&x,
             "net n(batch = 64) { input x : f32[batch, 64]; param u : f32[64, 64] = normal(0.1); param v : f32[64, 64] = normal(0.1);\n"
             "  a = matmul(x, u); b = matmul(a, v); loss sum(matmul(b, a)); }\n" TRAIN,
             1, 2);
    held_find(&held, x.b->facts, &x.arena);
    cr_expect_neq(held.step, -1);
    const char *all = holders_named(&x.arena, &held), *step = step_named(&x.arena, x.b->facts, &x.diags, held.step);
    cr_expect_not_null(strstr(all, "a 16.0 KiB"), "%s", all);
    cr_expect_not_null(strstr(all, "b 16.0 KiB"), "%s", all);
    cr_expect_not_null(strstr(step, " of "), "%s", step);
    cr_expect_not_null(strstr(step, " at test.dsl:2:"), "%s", step);
    compiled_finish(&x);
}

Test(held, equal_layers_count_together) {
    Compiled x;
    Held held;
    compiled(&x,
             "cell step(x, d) { param w : f32[d, d] = normal(0.1); h = tanh(matmul(x, w)); return h; }\n"
             "net n(batch = 64) { input x : f32[batch, 64];\n"
             "  layer = x; for i in 0..6 { layer = step(layer, 64); } loss sum(layer); }\n" TRAIN,
             1, 2);
    held_find(&held, x.b->facts, &x.arena);
    const char *all = holders_named(&x.arena, &held);
    cr_expect_not_null(strstr(all, "layer.* 5 x 16.0 KiB"), "%s", all);
    compiled_finish(&x);
}
