#include "compiler/caches.h"

#include "compile.h"

/* x, w and what is computed have 16 KiB each. */
static const char *const text = "net n(batch = 64) { input x : f32[batch, 64]; param w : f32[64, 64] = normal(0.1);\n"
                                "  h = matmul(x, w); a = transpose(h); loss mean(square(a)); }\n" TRAIN;

static int instance_of(const Compiled *x, const char *name) {
    const Role *role = x->b->facts->role;
    int found = -1;
    for (int i = 0; i < role->instances.n; i++)
        if (strcmp(x->b->facts->graph->values.at[role->instances.at[i].value].name, name) == 0) found = i;
    cr_assert_geq(found, 0, "no instance of %s", name);
    return found;
}

static Machine machine_with(int kib, int more_kib) {
    Machine machine = machine_cpu;
    machine.ncaches = 2;
    machine.cache[0] = (Cache){9e10, (int64_t)kib << 10};
    machine.cache[1] = (Cache){5e10, (int64_t)more_kib << 10};
    return machine;
}

/* A cache of three of them, one of five: what is touched again lies in the first if at most two others were touched since, in the second if at most four. */
Test(caches, what_was_touched_recently_lies_in_the_nearest) {
    Compiled x;
    Caches caches;
    compiled(&x, text, 1, 0);
    build_emit(x.b);
    const Machine machine = machine_with(48, 80);
    caches_init(&caches, x.b->facts, &machine, &x.arena);
    const int input = instance_of(&x, "x"), state = instance_of(&x, "w"), h = instance_of(&x, "h");
    cr_expect_eq(caches_touch_one(&caches, input), 2, "never before");
    cr_expect_eq(caches_touch_one(&caches, input), 0);
    cr_expect_eq(caches_touch_one(&caches, state), 2);
    cr_expect_eq(caches_touch_one(&caches, h), 2);
    cr_expect_eq(caches_touch_one(&caches, input), 0, "two others since");
    caches_touch_one(&caches, state);
    caches_touch_one(&caches, h);
    caches_touch_one(&caches, state);
    cr_expect_eq(caches_touch_one(&caches, input), 1, "48 KiB since");
    for (int i = 0; i < 5; i++)
        caches_touch_one(&caches, state);
    cr_expect_eq(caches_touch_one(&caches, input), 2, "80 KiB since");
    compiled_finish(&x);
}

/* A kernel goes through three of them side by side, the next one through two: half of both lie between, 40 KiB. What a kernel reads and writes was there before it, or was not. */
Test(caches, kernels_go_through_their_operands_side_by_side) {
    Compiled x;
    compiled(&x, text, 1, 0);
    build_emit(x.b);
    const int input = instance_of(&x, "x"), state = instance_of(&x, "w"), h = instance_of(&x, "h");
    for (int kib = 39; kib <= 40; kib++) {
        Caches caches;
        int8_t cache[3];
        const Machine machine = machine_with(kib, 80);
        caches_init(&caches, x.b->facts, &machine, &x.arena);
        caches_touch(&caches, (int[]){input, state, h}, 3, cache);
        cr_expect(cache[0] == 2 && cache[1] == 2 && cache[2] == 2);
        caches_touch(&caches, (int[]){state, state}, 2, cache);
        cr_expect(cache[0] == cache[1] && cache[0] == (kib == 40 ? 0 : 1), "%d KiB: %d, %d", kib, cache[0], cache[1]);
    }
    compiled_finish(&x);
}

/* A step is predicted as one of many: what the one before has left in a cache is there. */
Test(caches, a_step_finds_what_the_one_before_has_left) {
    Compiled x;
    Caches caches;
    compiled(&x, text, 1, 0);
    build_emit(x.b);
    const Machine large = machine_with(8, 1 << 20), slow = machine_cpu;
    caches_init(&caches, x.b->facts, &large, &x.arena);
    caches_warm(&caches);
    cr_expect_eq(caches_touch_one(&caches, instance_of(&x, "w")), 1);
    Machine none = slow;
    none.cache[0].bytes_per_s = none.memory_bytes_per_s;
    caches_init(&caches, x.b->facts, &none, &x.arena);
    caches_warm(&caches);
    cr_expect_eq(caches_touch_one(&caches, instance_of(&x, "w")), none.ncaches, "a cache that is no faster than memory");
    compiled_finish(&x);
}
