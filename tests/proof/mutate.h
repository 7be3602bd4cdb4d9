/* mutate: wrong plans. Each mutation changes a right plan in one way that somebody's bug could; the simulation says whether it matters, the proof must
 * then refuse it. */
#pragma once
#include "ir/plan.h"

typedef enum MutantKind {
    MUTANT_COMM_DROPPED,   /* a communication is left out, or its result replaced by its source */
    MUTANT_COMM_DOUBLED,   /* a sum is completed twice, a request started twice, a communication repeated over what came after it */
    MUTANT_COMM_MOVED,     /* before what it sends is computed, or after its result is used */
    MUTANT_COMM_KIND,      /* another collective */
    MUTANT_COMM_DIGITS,    /* summed over fewer, more or other digits */
    MUTANT_COMM_FROM,      /* another layout for the source */
    MUTANT_COMM_TO,        /* another layout for the target */
    MUTANT_COMM_SOURCE,    /* another value is sent */
    MUTANT_WAIT_MOVED,     /* after its result is used, or after its source is overwritten */
    MUTANT_OFFSET,         /* a value over another one that is still needed */
    MUTANT_ORDER,          /* a kernel after its user, or before its operand */
    MUTANT_OPERAND,        /* a kernel reads another value */
    MUTANT_OPERAND_LAYOUT, /* a kernel reads its operand in another layout */
    MUTANT_RESULT,         /* two kernels leave their results in each other's place */
    MUTANT_RESULT_LAYOUT,  /* a kernel's result is said to be in another layout */
    MUTANT_KERNEL,         /* another node of the graph is computed */
    MUTANT_STATE_VERSION,  /* a state is read after its update, or updated before it is read */
    MUTANT_STATE,          /* another state, or its write is left out */
    MUTANT_STORAGE,        /* a state or an input lies otherwise */
    MUTANT_LEAF,           /* another input or constant */
    MUTANT_LOSS,           /* another value is reported */
    MUTANT_ROLE,           /* some ranks leave out a communication, or make two in another order */
    MUTANT_VIEW,           /* a result lies in an input or an old state of its size */
    NMUTANTS
} MutantKind;
extern const char *const mutant_name[NMUTANTS];

typedef struct Random {
    uint64_t state;
} Random;
int random_below(Random *random, int n); /* 0 .. n - 1; n > 0 */

/* A copy of a plan whose programs, roles, steps, instances, states and inputs may be changed; the rest is shared. In arena. */
void plan_copy(const Plan *plan, Arena *arena, Plan *copy);
/* Changes a copy in one random way of this kind. new layouts go to arena. False: there is nothing of the kind in it. what: in words. */
bool mutate(Plan *copy, MutantKind kind, Random *random, Arena *arena, char *what, size_t n);
