/* proof: re-reads a plan and proves it (PROOF.md 0 to 2). Shares with the planner only ir's types and the plan reader; its boxes, holders, owners,
 * operator semantics and table of what is linear in what are its own.
 *
 *   prove.c     proof_check: which parts are run, and the certificate that says so; proof_header
 *   check.c     the compositional proof: the steps, by induction
 *   layout.c    boxes, terms, conversions, in this folder's own words; comparison with ir/box.c
 *   operators.c what each operator means for layouts
 *   memory.c    no two values alive at once overlap; nothing is read before it is written
 *   field.h     the numeric check over a finite field: field.c, semantics.c, tangent.c, graphs.c, numeric.c, pattern.c
 */
#pragma once
#include "ir/ir.h"

#define PROOF_BUDGET_S 0.2 /* default of --proof-budget */

/* How much is proved. All zero: everything that is always proved, and nothing whose work grows with the sizes of tensors. */
typedef struct ProofOptions {
    bool compositional;   /* the compositional part alone, nothing numeric */
    bool full;            /* the whole plan and the gradients of the whole graph whatever their work */
    double budget_s;      /* or when their estimated time, together, is within this; an estimate depends on the plan alone, not on the machine */
    const Graph *lowered; /* the graph before simplification and autodiff, whose loss must be the plan's; NULL: not at hand */
} ProofOptions;

/* What was shown, counted as it was checked. */
typedef struct Proof {
    int64_t steps, kernels, communications, distinct_communications, boxes, ranks_checked, instances;
    int operator_patterns, communication_patterns, gradient_patterns; /* run over the field at small sizes */
    int patterns_left_out;
    int gradients;                                                    /* of the whole graph; 0: not run */
    bool whole_plan, simplified;                                      /* run: the whole plan; the lowered graph against the plan's */
    double seconds, compositional_s, patterns_s, whole_s;             /* all, and its parts */
    char certificate[1024]; /* one line, parts separated by "; ": "compositional: 42 steps, ...; numeric: 9 operator patterns, ..." */
} Proof;

/* True: proved, *proof filled. False: *error says what could not be shown (program, role, step, why). options NULL: PROOF_BUDGET_S. */
bool proof_check(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error);
