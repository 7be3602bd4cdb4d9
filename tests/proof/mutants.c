/* Mutation testing of the proof (docs/proof.md): whatever the simulation says matters, the proof refuses. PCC_MUTANTS=N: so many (default 2000). */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/proof/judge.h"
#include "tests/proof/simulate.h"

Test(proof_mutants, the_simulation_knows_every_operator) {
    for (int op = 0; op < NOPS; op++) {
        bool kernel = op_table[op].op_class != OP_CLASS_LEAF && op_table[op].op_class != OP_CLASS_COMM && !op_table[op].expand;
        cr_expect(!kernel || simulate_knows((OpCode)op), "%s: add it to tests/proof/simulate_kernels.c", op_table[op].name);
    }
}

Test(proof_mutants, every_plan_that_computes_something_else_is_refused, .timeout = 240) {
    const char *most = getenv("PCC_MUTANTS");
    Judge judge = {.seed = 1, .most = most ? atoll(most) : 2000, .numeric = true};
    bool ok = judge_run(&judge);
    judge_print(&judge, stdout);
    cr_expect(ok, "%s", judge.report.at);
    cr_expect_eq(judge.missed, 0, "%s", judge.report.at);
    int64_t numeric = 0;
    for (int k = 0; k < NMUTANTS; k++) {
        numeric += judge.kind[k].numeric_rejected;
        const JudgeCount *count = &judge.kind[k];
        if (judge.most < 1000) continue; /* too few of each kind to say */
        cr_expect_geq(count->parsed, 10, "%s: only %d mutants", mutant_name[k], (int)count->parsed);
        cr_expect_geq(10 * count->counted, 8 * count->parsed, "%s: only %d of %d mutants matter", mutant_name[k], (int)count->counted,
                      (int)count->parsed);
    }
    cr_expect_geq(100 * numeric, 85 * judge.counted, "run over the field alone: only %d of %d refused", (int)numeric, (int)judge.counted);
    judge_finish(&judge);
}
