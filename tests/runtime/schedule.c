/* Schedules: Hugging Face's lambdas (transformers/optimization.py), step = updates done before. */
#include "runtime/schedule.h"

#include <criterion/criterion.h>
#include <math.h>

Test(schedule, constant_is_1_after_its_warmup) {
    const Schedule constant = {0}, warm = {.warmup = 4};
    for (int update = 1; update < 10; update++)
        cr_assert_float_eq(schedule_rate(&constant, update, 10), 1, 0);
    static const double rates[] = {0, 0.25, 0.5, 0.75, 1, 1, 1};
    for (int update = 1; update <= 7; update++)
        cr_assert_float_eq(schedule_rate(&warm, update, 7), rates[update - 1], 0);
}

Test(schedule, linear_falls_to_its_end) {
    const Schedule linear = {.kind = SCHEDULE_LINEAR, .warmup = 2}, half = {.kind = SCHEDULE_LINEAR, .end = 0.5};
    static const double rates[] = {0, 0.5, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125}; /* get_linear_schedule_with_warmup(2, 10) */
    for (int update = 1; update <= 10; update++)
        cr_assert_float_eq(schedule_rate(&linear, update, 10), rates[update - 1], 1e-15);
    cr_assert_float_eq(schedule_rate(&half, 1, 4), 1, 0);
    cr_assert_float_eq(schedule_rate(&half, 3, 4), 0.75, 1e-15);
    cr_assert_float_eq(schedule_rate(&half, 5, 4), 0.5, 1e-15);
    cr_assert_float_eq(schedule_rate(&half, 50, 4), 0.5, 1e-15, "it stays at its end");
}

Test(schedule, cosine_is_half_a_period) {
    const Schedule cosine = {.kind = SCHEDULE_COSINE, .warmup = 1}, tenth = {.kind = SCHEDULE_COSINE, .end = 0.1};
    static const double rates[] = {0, 1, 0.8535533905932737, 0.5, 0.14644660940672627}; /* get_cosine_schedule_with_warmup(1, 5) */
    for (int update = 1; update <= 5; update++)
        cr_assert_float_eq(schedule_rate(&cosine, update, 5), rates[update - 1], 1e-15);
    cr_assert_float_eq(schedule_rate(&tenth, 1, 10), 1, 0);
    cr_assert_float_eq(schedule_rate(&tenth, 6, 10), 0.55, 1e-15);
    cr_assert_float_eq(schedule_rate(&tenth, 11, 10), 0.1, 1e-15);
}

Test(schedule, a_warmup_longer_than_training_never_ends) {
    const Schedule linear = {.kind = SCHEDULE_LINEAR, .warmup = 100};
    cr_assert_float_eq(schedule_rate(&linear, 51, 60), 0.5, 0);
}
