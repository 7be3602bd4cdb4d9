/* Where training stands, for other batch sizes: exact, or refused with a way out. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/index.h"

static const DataOrder eights = {FLOW_EPOCHS, 8, 8, "rows 1 to 64 shuffled with seed 7"},
                       sixteens = {FLOW_EPOCHS, 4, 16, "rows 1 to 64 shuffled with seed 7"},
                       in_order = {FLOW_EPOCHS, 8, 8, "rows 1 to 64 in their order"},
                       fewer = {FLOW_EPOCHS, 2, 16, "rows 1 to 64 shuffled with seed 7"},
                       endless = {FLOW_ENDLESS, 6, 8, "generated rows, normal with seed 3"},
                       endless_twelve = {FLOW_ENDLESS, 5, 12, "generated rows, normal with seed 3"},
                       other_seed = {FLOW_ENDLESS, 6, 8, "generated rows, normal with seed 4"},
                       same = {FLOW_SAME, 5, 8, "the same batch in every step"},
                       same_longer = {FLOW_SAME, 9, 16, "the same batch in every step"};

static Position at(int64_t epoch, int64_t step, int64_t global_step) {
    return (Position){.epoch = epoch, .step = step, .global_step = global_step};
}

static void expect(Position from, const DataOrder *then, const DataOrder *now, int64_t epoch, int64_t step) {
    Position at = from;
    Error error = {0};
    cr_assert(position_convert(&at, then, now, "c", &error), "%s", error.text);
    cr_expect(at.epoch == epoch && at.step == step, "epoch %lld step %lld", (long long)at.epoch, (long long)at.step);
    cr_expect_eq(at.global_step, from.global_step, "as many updates were done");
}

static void refuse(Position from, const DataOrder *then, const DataOrder *now, const char *words) {
    Error error = {0};
    cr_assert_not(position_convert(&from, then, now, "c", &error));
    cr_expect_eq(error.code, EXIT_ENVIRONMENT);
    cr_expect(strstr(error.text, words), "%s", error.text);
    cr_expect(strstr(error.text, "--load takes its parameters alone"), "%s", error.text);
}

Test(index, the_same_data_and_batch_go_on_at_the_next_step) {
    expect(at(2, 3, 11), &eights, &eights, 2, 3);
    expect(at(2, 6, 12), &endless, &endless, 2, 6);
    expect(at(2, 3, 8), &same, &same, 2, 3);
}

Test(index, within_an_epoch_of_files_the_rows_done_stay_the_same) {
    expect(at(2, 6, 14), &eights, &sixteens, 2, 3);
    expect(at(2, 3, 7), &sixteens, &eights, 2, 6);
    refuse(
        at(2, 3, 11), &eights, &sixteens,
        "c: it stands behind row 24 of epoch 2, in steps of 8 rows, and steps of 16 rows do not come to stand there: resume with a batch that divides 24, or from a "
        "checkpoint at the end of an epoch");
    refuse(at(2, 6, 14), &eights, &fewer, "c: it stands behind row 48 of epoch 2, and an epoch has 2 steps of 16 rows now");
    refuse(at(2, 6, 14), &eights, &in_order,
           "within an epoch of rows 1 to 64 shuffled with seed 7, and now they are rows 1 to 64 in their order");
}

Test(index, the_end_of_an_epoch_is_one_for_any_data) {
    expect(at(2, 8, 16), &eights, &sixteens, 2, 4);
    expect(at(2, 8, 16), &eights, &in_order, 2, 8);
    expect(at(2, 8, 16), &eights, &fewer, 2, 2);
    expect(at(2, 8, 16), &eights, &same, 2, 5);
    refuse(at(2, 7, 15), &eights, &same, "now they are the same batch in every step");
}

Test(index, generated_rows_are_counted_over_all_epochs) {
    expect(at(2, 3, 9), &endless, &endless_twelve, 2, 1); /* 72 rows: 6 steps of 12, the first of epoch 2 */
    expect(at(1, 6, 6), &endless, &endless_twelve, 1, 4);
    expect(at(3, 3, 15), &endless, &endless_twelve, 2, 5); /* 120 rows: 10 steps of 12, the end of epoch 2 */
    refuse(at(2, 1, 7), &endless, &endless_twelve, "behind row 56 of all, in steps of 8 rows");
    refuse(at(2, 6, 12), &endless, &other_seed, "normal with seed 4");
}

Test(index, of_the_same_batch_in_every_step_steps_are_counted) {
    expect(at(2, 3, 8), &same, &same_longer, 2, 3);
    expect(at(2, 5, 10), &same, &same_longer, 2, 9);
    refuse(at(1, 7, 7), &same_longer, &same, "it stands at epoch 1 step 7, and an epoch has 5 steps now");
}
