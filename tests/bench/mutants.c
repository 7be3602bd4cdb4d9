/* mutants [SECONDS [SEED]]: wrong plans of samples and random nets, judged by simulation and refused by the proof, for so long (default 60; 0: until
 * one is proved). Prints kinds and rates; fails when a plan that computes something else was proved. Run from the source folder. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/proof/judge.h"

int main(int argc, char **argv) {
    Judge judge = {.seconds = argc > 1 ? atof(argv[1]) : 60,
                   .seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1,
                   .numeric = true,
                   .stop = argc > 1 && atof(argv[1]) == 0};
    bool ok = judge_run(&judge);
    judge_print(&judge, stdout);
    if (judge.report.n) fputs(judge.report.at, stdout);
    bool right = ok && judge.missed == 0;
    judge_finish(&judge);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
