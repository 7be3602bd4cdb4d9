/* What is left of measured steps. */
#include <criterion/criterion.h>

#include "runtime/lanes.h"

Test(lanes, a_disturbed_step_is_not_in_the_mean_of_three) {
    cr_expect_eq(lanes_mean(4, 4, 1), 4);
    cr_expect_eq(lanes_mean(2 + 4, 4, 2), 3);
    cr_expect_eq(lanes_mean(2 + 4 + 1000, 1000, 3), 3);
}
