/* proof: re-reads a plan and proves it (docs/proof.md). Shares with the planner only ir's types and the plan reader; it has its own boxes, holders, owners, operator semantics and
 * table of which operators are linear in which operands.
 *
 *   prove.c     proof_check: which parts are run, and the certificate of these
 *   steps.c     the compositional proof: the steps, by induction
 *   layout.c    boxes, terms, conversions, implemented anew; comparison with ir/box.c
 *   operators.c what each operator means for layouts; kernels.c: whether a kernel's layouts agree with that
 *   memory.c    no two values alive at once overlap; nothing is read before it is written
 *   header.c    proof_header; settings.c: what the header says twice
 *   field.h     the numeric check over a finite field: see there
 */
#pragma once
#include "ir/plan.h"
#include "ir/pool.h"

#define PROOF_BUDGET_S 0.2 /* default of --proof-budget */

/* How much is proved. All zero: only what is always proved, nothing whose work grows with the sizes of tensors. */
typedef struct ProofOptions {
    bool compositional; /* only the compositional part, nothing numeric */
    bool full;          /* run the whole plan and the gradients of the whole graph, whatever their work */
    double budget_s;    /* else run them if their estimated time, together, is within this; estimates depend only on the plan */
    /* Per program, its graph before simplification and autodiff, whose results must equal the plan's. NULL: only the plan is known, as for
     * pcc check. */
    const Graph *const *lowered;
    Pool *pool; /* threads that share the work; NULL: only the calling thread */
} ProofOptions;

/* What was proved, counted during the checks. */
typedef struct Proof {
    int64_t steps, kernels, communications, distinct_communications, boxes, ranks_checked, instances, roles, programs;
    int64_t copies;                                                   /* nodes that recompute other nodes' results */
    int operator_patterns, communication_patterns, gradient_patterns; /* run over the field at small sizes */
    int patterns_left_out;                                            /* neither shrunk nor run at their own size */
    char left_why[512];                                               /* why the first of them was */
    int gradients;                                                    /* of the whole graph; 0: not run */
    bool whole_plan, gradients_run,
        simplified; /* run at full size: the plan; the graph's gradients; the lowered graph's loss against the plan's */
    double whole_plan_s, gradients_s, simplified_s;       /* what these were estimated to take */
    double seconds, compositional_s, patterns_s, whole_s; /* measured: all; its parts: steps, small sizes, full sizes */
    char certificate[1024]; /* one line, parts separated by "; ": "compositional: 42 steps, ...; numeric: 9 operator patterns, ..." */
} Proof;

/* True: proved, *proof filled. False: *error says what could not be shown (program, role, step, why). options NULL: PROOF_BUDGET_S. */
bool proof_check(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error);
/* Checks what the header and the programs say beside the steps, as far as it can be recounted: `sent` of each program where the pieces are
 * few enough to enumerate, the replicas against the graph's hidden dimensions, and all that the header and the graphs both say
 * (settings.c). Appends to *text one indented line a fact, also for facts that cannot be shown. False: *error says what is wrong. */
bool proof_header(const Plan *plan, Text *text, Error *error);
