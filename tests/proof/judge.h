/* judge: makes wrong plans, has the simulation say which of them matter, and the proof which of them it refuses (docs/proof.md). */
#pragma once
#include "tests/proof/mutate.h"

typedef struct JudgeCount {
    int64_t made, parsed, counted,
        rejected;    /* parsed: the plan's text reads back; counted: the simulation shows a difference; rejected: of these, by the proof */
    int64_t careful; /* rejected although no difference shows: the proof is stricter than need be */
    int64_t numeric_tried, numeric_rejected; /* of the counted: by running the plan over the field alone, where that can be tried */
} JudgeCount;

typedef struct Judge {
    uint64_t seed;
    int64_t most;   /* counted mutants, 0: no limit */
    double seconds; /* time, 0: no limit */
    bool stop;      /* at the first that is missed */
    bool numeric;   /* try the numeric part alone as well */
    int plans;      /* right plans that were simulated and proved */
    double used_s;
    JudgeCount kind[NMUTANTS];
    int64_t counted;
    int missed;  /* counted mutants that were proved */
    Text report; /* each of them, with what was changed */
} Judge;

/* Runs until `most` or `seconds` is reached. False: a right plan does not compile, simulate or prove; report says which. */
bool judge_run(Judge *judge);
void judge_print(const Judge *judge, FILE *out);
void judge_finish(Judge *judge);
