/* Schedules: Hugging Face's lambdas (transformers/optimization.py), step = updates done before. */
#include "runtime/schedule.h"

#include <criterion/criterion.h>
#include <math.h>

Test(schedule, constant_is_1_after_its_warmup) {
    const Schedule constant = {0}, warm = {.warmup = 4};
    for (int update = 1; update < 10; update++)
        cr_assert_float_eq(schedule_rate(&constant, update, 10, 1), 1, 0);
    static const double rates[] = {0, 0.25, 0.5, 0.75, 1, 1, 1};
    for (int update = 1; update <= 7; update++)
        cr_assert_float_eq(schedule_rate(&warm, update, 7, 1), rates[update - 1], 0);
}

Test(schedule, linear_falls_to_its_end) {
    const Schedule linear = {.kind = SCHEDULE_LINEAR, .warmup = 2}, half = {.kind = SCHEDULE_LINEAR, .end = 0.5};
    static const double rates[] = {0, 0.5, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125}; /* get_linear_schedule_with_warmup(2, 10) */
    for (int update = 1; update <= 10; update++)
        cr_assert_float_eq(schedule_rate(&linear, update, 10, 1), rates[update - 1], 1e-15);
    cr_assert_float_eq(schedule_rate(&half, 1, 4, 1), 1, 0);
    cr_assert_float_eq(schedule_rate(&half, 3, 4, 1), 0.75, 1e-15);
    cr_assert_float_eq(schedule_rate(&half, 5, 4, 1), 0.5, 1e-15);
    cr_assert_float_eq(schedule_rate(&half, 50, 4, 1), 0.5, 1e-15, "it stays at its end");
}

Test(schedule, cosine_is_half_a_period) {
    const Schedule cosine = {.kind = SCHEDULE_COSINE, .warmup = 1}, tenth = {.kind = SCHEDULE_COSINE, .end = 0.1};
    static const double rates[] = {0, 1, 0.8535533905932737, 0.5, 0.14644660940672627}; /* get_cosine_schedule_with_warmup(1, 5) */
    for (int update = 1; update <= 5; update++)
        cr_assert_float_eq(schedule_rate(&cosine, update, 5, 1), rates[update - 1], 1e-15);
    cr_assert_float_eq(schedule_rate(&tenth, 1, 10, 1), 1, 0);
    cr_assert_float_eq(schedule_rate(&tenth, 6, 10, 1), 0.55, 1e-15);
    cr_assert_float_eq(schedule_rate(&tenth, 11, 10, 1), 0.1, 1e-15);
}

Test(schedule, a_warmup_longer_than_training_never_ends) {
    const Schedule linear = {.kind = SCHEDULE_LINEAR, .warmup = 100};
    cr_assert_float_eq(schedule_rate(&linear, 51, 60, 1), 0.5, 0);
}

/* get_polynomial_decay_schedule_with_warmup(1, 5, lr_end = 0.25 lr, power = 2) */
Test(schedule, polynomial_falls_by_a_power) {
    const Schedule square = {.kind = SCHEDULE_POLYNOMIAL, .warmup = 1, .end = 0.25, .power = 2};
    static const double rates[] = {0, 1, 0.671875, 0.4375, 0.296875, 0.25, 0.25};
    for (int update = 1; update <= 7; update++)
        cr_assert_float_eq(schedule_rate(&square, update, 1, 5), rates[update - 1], 1e-15);
}

/* get_inverse_sqrt_schedule(4), and without a warmup, whose timescale is 10000 */
Test(schedule, inverse_sqrt_goes_on_from_its_warmup) {
    const Schedule warm = {.kind = SCHEDULE_INVERSE_SQRT, .warmup = 4}, none = {.kind = SCHEDULE_INVERSE_SQRT};
    static const double rates[] = {0, 0.25, 0.5, 0.75, 1, 0.8944271909999159, 0.816496580927726};
    for (int update = 1; update <= 7; update++)
        cr_assert_float_eq(schedule_rate(&warm, update, 7, 1), rates[update - 1], 1e-15);
    cr_assert_float_eq(schedule_rate(&warm, 17, 7, 1), 0.5, 1e-15, "it knows no end");
    cr_assert_float_eq(schedule_rate(&none, 1, 7, 1), 1, 0);
    cr_assert_float_eq(schedule_rate(&none, 30001, 7, 1), 0.5, 1e-15);
}

/* StepLR(optimizer, 2, 0.5) and MultiStepLR(optimizer, [1, 3], 0.1), called behind each epoch of 3 updates, or behind each update. */
Test(schedule, steps_are_where_epochs_or_updates_end) {
    const Schedule step = {.kind = SCHEDULE_STEP, .every = 2, .gamma = 0.5},
                   by_step = {.kind = SCHEDULE_STEP, .every = 2, .gamma = 0.5, .unit = PER_STEP};
    const Schedule milestones = {.kind = SCHEDULE_MULTISTEP, .gamma = 0.1, .nmilestones = 2, .milestone = {1, 3}},
                   warm = {.kind = SCHEDULE_MULTISTEP, .warmup = 4, .gamma = 0.1, .nmilestones = 2, .milestone = {1, 3}};
    static const double by_epochs[] = {1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25};
    static const double by_updates[] = {1, 1, 0.5, 0.5, 0.25, 0.25, 0.125};
    static const double by_milestones[] = {1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01};
    for (int update = 1; update <= 13; update++) {
        cr_expect_float_eq(schedule_rate(&step, update, 3, 5), by_epochs[update - 1], 1e-15, "update %d", update);
        cr_expect_float_eq(schedule_rate(&milestones, update, 3, 5), by_milestones[update - 1], 1e-15, "update %d", update);
        cr_expect_float_eq(schedule_rate(&warm, update, 3, 5), update <= 4 ? (update - 1) / 4.0 : by_milestones[update - 1], 1e-15,
                           "update %d", update);
        if (update <= 7) cr_expect_float_eq(schedule_rate(&by_step, update, 3, 5), by_updates[update - 1], 1e-15, "update %d", update);
    }
}
