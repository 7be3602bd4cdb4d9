/* Fused steps of the CPU give what their members give one by one, to the bit, on any number of threads, and touch nothing else: no inner
 * result's place. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/elements.h"
#include "runtime/element.h"
#include "tests/ops/steps.h"

enum { RUNS = 400, NPOOLS = 3 };

typedef struct Tally {
    int calls, fused, steps;
    bool seen[NOPS]; /* operators that were part of a fused step */
} Tally;

static void fail(const FusedStep *step, uint64_t seed, const char *what) {
    Text text = {0};
    step_print(step, &text);
    cr_assert_fail("seed %llu: %s\n%s", (unsigned long long)seed, what, text.at);
}

/* Numbers that differ in their bits and are both no numbers do not differ: which operand's they are is nobody's promise. */
static bool same(DType dtype, const char *a, const char *b, int64_t n) {
    if (memcmp(a, b, (size_t)(n * dtype_bytes[dtype])) == 0) return true;
    for (int64_t i = 0; i < n; i++) {
        const int bytes = dtype_bytes[dtype];
        if (memcmp(a + i * bytes, b + i * bytes, (size_t)bytes) != 0 &&
            !(dtype_is_float(dtype) && isnan(element_at(a, dtype, i)) && isnan(element_at(b, dtype, i))))
            return false;
    }
    return true;
}

/* The memory after the members one by one, and after the fused step from the same beginning. */
static void compare(const FusedStep *step, const char *before, const char *alone, uint64_t seed) {
    char *written = calloc(1, (size_t)step->bytes), what[128];
    for (int v = 0; v < step->nvalues; v++) {
        const StepValue *value = &step->value[v];
        const int64_t n = shape_elements(&value->shape);
        if (value->from < 0) continue;
        if (!value->inner || step->nheading > 0) memset(written + value->at, 1, (size_t)(n * dtype_bytes[value->dtype]));
        if (value->inner) continue;
        snprintf(what, sizeof what, "%%%d differs", v);
        if (!same(value->dtype, step->memory + value->at, alone + value->at, n)) fail(step, seed, what);
    }
    for (int64_t i = 0; i < step->bytes; i++)
        if (!written[i] && step->memory[i] != before[i]) {
            snprintf(what, sizeof what, "byte %lld is no stored result's", (long long)i);
            fail(step, seed, what);
        }
    free(written);
}

static void check(uint64_t seed, int64_t most, unsigned with, Tally *tally) {
    static const int threads[NPOOLS] = {1, 2, 3};
    static Pool *pool[NPOOLS];
    static CpuContext context; /* BLAS is opened once */
    FusedStep step;
    Error error = {0};
    step_random(&step, seed, most, with);
    for (int p = 1; p < NPOOLS; p++)
        if (!pool[p]) pool[p] = pool_create(threads[p], &error);
    char *before = malloc((size_t)step.bytes), *alone = malloc((size_t)step.bytes);
    context.most_threads = 3;
    memcpy(before, step.memory, (size_t)step.bytes);
    context.pool = NULL;
    for (int c = 0; c < step.ncalls; c++) {
        step.call[c].context = &context;
        cr_assert(backend_cpu.kernels[step.call[c].op](&step.call[c], &error), "seed %llu, call %d: %s", (unsigned long long)seed, c,
                  error.text);
    }
    memcpy(alone, step.memory, (size_t)step.bytes);
    for (int p = 0; p < NPOOLS; p++) {
        memcpy(step.memory, before, (size_t)step.bytes);
        context.pool = pool[p];
        void *fused = cpu_fuse(&context, step.call, step.ncalls, step.inner, &error);
        cr_assert_str_empty(error.text);
        tally->steps++;
        if (!fused) continue;
        tally->fused++;
        for (int c = 0; c < step.ncalls; c++)
            tally->seen[step.call[c].op] = true;
        cr_assert(cpu_run_fused(&context, fused, &error), "%s", error.text);
        compare(&step, before, alone, seed);
        cpu_unfuse(&context, fused);
    }
    free(before);
    free(alone);
    step_finish(&step);
}

static Tally check_all(unsigned with, int percent) {
    static const int64_t most[] = {40, 900, 5000, 40000};
    Tally tally = {0};
    for (uint64_t seed = 0; seed < RUNS; seed++)
        check(seed, most[seed % 4], with, &tally);
    cr_log_info("%d of %d steps are fused", tally.fused, tally.steps);
    cr_assert(tally.fused * 100 >= tally.steps * percent, "%d of %d steps are fused: too few to prove anything", tally.fused, tally.steps);
    return tally;
}

Test(chain, elementwise_operators_give_the_same_in_blocks) {
    const Tally tally = check_all(0, 95);
    const Attr attr[MAX_ATTRS] = {{.given = true, .text = "f32"}};
    for (int op = 0; op < NOPS; op++)
        if (element_loop((OpCode)op, attr, F32, F32)) cr_expect(tally.seen[op], "%s was in no fused step", op_table[op].name);
}

Test(chain, operands_of_memory_are_read_through_views) {
    check_all(STEP_WITH_VIEWS, 80);
}

Test(chain, a_sum_adds_up_blocks_in_the_order_of_its_kernel) {
    check_all(STEP_WITH_SUM, 50);
}

Test(chain, tiles_of_a_product_go_through_what_follows_it) {
    check_all(STEP_WITH_PRODUCT, 30);
}

Test(chain, all_of_it) {
    check_all(STEP_WITH_PRODUCT | STEP_WITH_VIEWS, 20);
}
