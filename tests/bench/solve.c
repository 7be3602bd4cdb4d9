/* solve [WORK]: reads a problem of the contest (iopddl.h) from standard input, solves it, and prints what was found. WORK: entries of tables that may be looked at, in
 * millions (default 20000, which take less than a minute). */
#include "tests/bench/iopddl.h"

#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char *end = "";
    double millions = argc > 1 ? strtod(argv[1], &end) : 20000;
    if (argc > 2 || *end || !(millions >= 0 && millions < 1e9)) {
        fprintf(stderr, "usage: solve [WORK] < FILE     WORK: millions of entries of tables that may be looked at\n");
        return EXIT_USAGE;
    }
    Text text = {0};
    char part[1 << 16];
    for (ssize_t n; (n = read(STDIN_FILENO, part, sizeof part)) > 0;)
        text_append(&text, part, (size_t)n);
    Arena arena;
    arena_init(&arena);
    Problem problem;
    Error error;
    int status = EXIT_REJECTED;
    if (!iopddl_read(&problem, text.at ? text.at : "", &arena, &error)) {
        fprintf(stderr, "error: %s\n", error.text);
    } else {
        Solution solution;
        double begin = now_seconds();
        problem_solve(&problem, (int64_t)(millions * 1e6), &arena, &solution);
        double seconds = now_seconds() - begin,
               gap = solution.cost > solution.bound ? (solution.cost - solution.bound) / solution.bound : 0;
        printf("%d variables, %d edges\n", problem.variables.n, problem.edges.n);
        printf("cost  %.0f%s\nbound %.0f, gap %.3f %%\n", solution.cost, solution.fits ? "" : " (does not fit)", solution.bound, 100 * gap);
        printf("peak  %lld of %lld bytes\ntime  %.2f s, %.0f million entries\n", (long long)solution.peak_bytes,
               (long long)problem.limit_bytes, seconds, (double)solution.work / 1e6);
        status = solution.fits ? EXIT_DONE : EXIT_MISMATCH;
    }
    arena_finish(&arena);
    text_finish(&text);
    return status;
}
