/* proof: re-reads a plan and proves it (PROOF.md 1). Shares with the planner only ir's types and the plan reader; its boxes, holders, owners,
 * operator semantics and table of what is linear in what are its own.
 *
 *   check.c   the compositional proof: the steps, by induction
 *   layout.c  boxes, terms, conversions, in this folder's own words; comparison with ir/box.c
 *   order.c   happens-before: deadlock, races, versions of states
 *   memory.c  no two values alive at once overlap; nothing is read before it is written
 */
#pragma once
#include "ir/ir.h"

/* What was shown, counted as it was checked. */
typedef struct Proof {
    int64_t steps, kernels, communications, distinct_communications, boxes, ranks_checked, instances;
    double seconds;
    char certificate[512];  /* one line: "compositional: 42 steps, ..., 8 ranks" */
} Proof;

/* True: proved, *proof filled. False: *error says what could not be shown (program, role, step, why). */
bool proof_check(const Plan *plan, Proof *proof, Error *error);
