/* Fused steps on the device against their members one by one there: random operators, views and sums on random shapes. What is stored is
 * the same to the bit, and no byte changes that is no result's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/steps.h"

enum { RUNS = 400, MOST_ELEMENTS = 3000 };

static void fail(const FusedStep *step, uint64_t seed, const char *what) {
    Text text = {0};
    step_print(step, &text);
    cr_assert_fail("seed %llu: %s\n%s", (unsigned long long)seed, what, text.at);
}

static void move(void **data, const FusedStep *step, char *device) {
    *data = device + ((char *)*data - step->memory);
}

/* What the memory holds after the calls; fused: as one step. Returns whether it could be one. */
static bool run(const FusedStep *step, bool fused, char *device, char *after, uint64_t seed) {
    const Device *on = fixture_device();
    KernelCall calls[STEP_CALLS];
    Error error = {0};
    bool ok = on->backend->upload(on->context, device, step->memory, step->bytes, &error);
    for (int c = 0; c < step->ncalls; c++) {
        calls[c] = step->call[c];
        calls[c].context = on->context;
        for (int i = 0; i < calls[c].nin; i++)
            move(&calls[c].in[i].data, step, device);
        for (int o = 0; o < calls[c].nout; o++)
            move(&calls[c].out[o].data, step, device);
    }
    void *kernel = fused ? on->backend->fuse(on->context, calls, step->ncalls, step->inner, &error) : NULL;
    cr_assert_str_empty(error.text);
    if (kernel) ok = ok && on->backend->run(on->context, kernel, &error);
    for (int c = 0; c < step->ncalls && !kernel; c++)
        ok = ok && on->backend->kernels[calls[c].op](&calls[c], &error);
    ok = ok && on->backend->download(on->context, after, device, step->bytes, &error);
    if (!ok) fail(step, seed, error.text);
    if (kernel) on->backend->unfuse(on->context, kernel);
    return kernel != NULL;
}

static void compare(const FusedStep *step, const char *alone, const char *together, uint64_t seed) {
    char *written = calloc(1, (size_t)step->bytes), what[64];
    for (int v = 0; v < step->nvalues; v++) {
        const StepValue *value = &step->value[v];
        const size_t bytes = (size_t)(shape_elements(&value->shape) * dtype_bytes[value->dtype]);
        if (value->from < 0) continue;
        memset(written + value->at, 1, bytes);
        snprintf(what, sizeof what, "%%%d differs", v);
        if (!value->inner && memcmp(alone + value->at, together + value->at, bytes) != 0) fail(step, seed, what);
    }
    for (int64_t i = 0; i < step->bytes; i++) {
        snprintf(what, sizeof what, "byte %lld is no result's", (long long)i);
        if (!written[i] && step->memory[i] != together[i]) fail(step, seed, what);
    }
    free(written);
}

static void check(unsigned with, int percent) {
    const Device *on = fixture_device();
    int fused = 0;
    Error error = {0};
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        FusedStep step;
        step_random(&step, seed, MOST_ELEMENTS, with);
        char *device = on->backend->alloc(on->context, step.bytes, &error), *alone = malloc((size_t)step.bytes),
             *together = malloc((size_t)step.bytes);
        cr_assert(device, "%s", error.text);
        run(&step, false, device, alone, seed);
        fused += run(&step, true, device, together, seed);
        compare(&step, alone, together, seed);
        on->backend->free(on->context, device);
        free(alone);
        free(together);
        step_finish(&step);
    }
    cr_log_info("%d of %d steps are fused", fused, RUNS);
    cr_assert(fused * 100 >= RUNS * percent, "%d of %d steps are fused: too few to prove anything", fused, RUNS);
}

Test(chain, elementwise_operators_give_the_same_as_few_launches) {
    check(0, 90);
}

Test(chain, operands_of_memory_are_read_through_views) {
    check(STEP_WITH_VIEWS, 90);
}

Test(chain, a_sum_follows_the_launch) {
    check(STEP_WITH_SUM, 80);
}
