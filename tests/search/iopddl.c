#include <criterion/criterion.h>
#include <string.h>

#include "tests/bench/iopddl.h"

/* Two nodes that are live together for one time: their cheapest strategies do not fit, so the second takes its other one. */
static const char small[] =
    "{\"problem\": {\"name\": \"small\",\n"
    " \"nodes\": {\"intervals\": [[0, 2], [1, 3], [5, 5]], \"costs\": [[1, 7], [2, 4], [0, 1000000000000000000]], \"usages\": [[60, 10], [60, 30], [99, 0]]},\n"
    " \"edges\": {\"nodes\": [[0, 1], [1, 2]], \"costs\": [[0, 5, 1e18, 0], [3, 0, 8, 0]]}, \"usage_limit\": 100}}\n";

Test(iopddl, reads_a_problem) {
    Arena arena;
    arena_init(&arena);
    Problem problem;
    Error error;
    cr_assert(iopddl_read(&problem, small, &arena, &error), "%s", error.text);
    cr_assert(problem.variables.n == 3 && problem.edges.n == 2 && problem.limit_bytes == 100);
    Solution solution;
    problem_solve(&problem, 0, &arena, &solution);
    cr_expect(solution.fits && solution.cost == 1 + 4 + 0 + 5 + 8 && solution.bound == solution.cost && solution.peak_bytes == 90);
    arena_finish(&arena);
}

/* Each text with its end or a part of it changed is refused with a place or a name, or is another problem; none breaks the reader. */
Test(iopddl, refuses_what_is_no_problem) {
    static const char *const wrong[][2] = {{"[[0, 2]", "[[0, -2]"},
                                           {"[[1, 7]", "[[1]"},
                                           {"[[60, 10]", "[[60]"},
                                           {"[0, 1]", "[0, 3]"},
                                           {"[0, 1]", "[1, 1]"},
                                           {"[0, 1]", "[0, 1, 2]"},
                                           {"[0, 5,", "[0, -5,"},
                                           {"[0, 5, 1e18", "[0, 1e18"},
                                           {"edges", "edge"},
                                           {"\"usage_limit\": 100", "\"usage_limit\": -1"},
                                           {"}}\n", "}}}"},
                                           {", [5, 5]", ""},
                                           {"100", "x"},
                                           {"[[1, 7]", "[[], [1]"},
                                           {"{\"nodes\": [[0, 1], [1, 2]], ", "{"},
                                           {"\"name\"", "\"nodes\": {\"costs\": [[1]]}, \"name\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Arena arena;
        arena_init(&arena);
        const char *at = strstr(small, wrong[i][0]);
        char *text = arena_printf(&arena, "%.*s%s%s", (int)(at - small), small, wrong[i][1], at + strlen(wrong[i][0]));
        Problem problem;
        Error error = {0};
        cr_expect(!iopddl_read(&problem, text, &arena, &error) && error.text[0], "%s", text);
        arena_finish(&arena);
    }
    for (size_t n = 0; n + 2 < sizeof small; n++) {
        Arena arena;
        arena_init(&arena);
        Problem problem;
        Error error = {0};
        cr_expect(!iopddl_read(&problem, arena_copy(&arena, small, n), &arena, &error), "%zu bytes", n);
        arena_finish(&arena);
    }
}
