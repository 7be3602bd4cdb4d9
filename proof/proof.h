/* proof: re-reads a plan and proves it (docs/proof.md). Shares with the planner only ir's types and the plan reader; its boxes, holders, owners,
 * operator semantics and table of what is linear in what are its own.
 *
 *   prove.c     proof_check: which parts are run, and the certificate that says so
 *   steps.c     the compositional proof: the steps, by induction
 *   layout.c    boxes, terms, conversions, in this folder's own words; comparison with ir/box.c
 *   operators.c what each operator means for layouts; kernels.c: whether those of a kernel are so
 *   memory.c    no two values alive at once overlap; nothing is read before it is written
 *   header.c    proof_header; settings.c: what the header says twice
 *   field.h     the numeric check over a finite field: see there
 */
#pragma once
#include "ir/plan.h"
#include "ir/pool.h"

#define PROOF_BUDGET_S 0.2 /* default of --proof-budget */

/* How much is proved. All zero: everything that is always proved, and nothing whose work grows with the sizes of tensors. */
typedef struct ProofOptions {
    bool compositional; /* the compositional part alone, nothing numeric */
    bool full;          /* the whole plan and the gradients of the whole graph whatever their work */
    double budget_s; /* or when their estimated time, together, is within this; an estimate depends on the plan alone, not on the machine */
    /* Per program its graph before simplification and autodiff, whose results must be the plan's. NULL: the plan alone is there, as for pcc check. */
    const Graph *const *lowered;
    Pool *pool; /* threads that share the work; NULL: the caller alone */
} ProofOptions;

/* What was shown, counted as it was checked. */
typedef struct Proof {
    int64_t steps, kernels, communications, distinct_communications, boxes, ranks_checked, instances, roles, programs;
    int64_t copies;                                                   /* nodes that compute once more what others do */
    int operator_patterns, communication_patterns, gradient_patterns; /* run over the field at small sizes */
    int patterns_left_out;                                            /* neither made small nor run as they are */
    char left_why[512];                                               /* the first of them */
    int gradients;                                                    /* of the whole graph; 0: not run */
    bool whole_plan, gradients_run,
        simplified; /* run at full size: the plan; the graph's gradients; the lowered graph's loss against the plan's */
    double whole_plan_s, gradients_s, simplified_s;       /* what these were estimated to take */
    double seconds, compositional_s, patterns_s, whole_s; /* measured: all; its parts: steps, small sizes, full sizes */
    char certificate[1024]; /* one line, parts separated by "; ": "compositional: 42 steps, ...; numeric: 9 operator patterns, ..." */
} Proof;

/* True: proved, *proof filled. False: *error says what could not be shown (program, role, step, why). options NULL: PROOF_BUDGET_S. */
bool proof_check(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error);
/* What the header and the programs say beside the steps, as far as it can be counted again: `sent` of each program where the pieces are few enough
 * to enumerate, the replicas against the graph's hidden dimensions, and all that the header and the graphs both say (settings.c). Appends to *text one indented line a fact, the ones that cannot be shown too. False: *error
 * says what is wrong. */
bool proof_header(const Plan *plan, Text *text, Error *error);
