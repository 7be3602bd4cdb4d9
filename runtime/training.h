/* training: what a run that trains has in addition to every run (run.h): for run.c and best.c. */
#pragma once
#include "runtime/curve.h"
#include "runtime/evaluate.h"
#include "runtime/lanes.h"
#include "runtime/profile.h"
#include "runtime/run.h"
#include "runtime/stop.h"
#include "runtime/verify.h"

/* Checks, interruptions, the end. */
struct Training {
    uint64_t text_hash;      /* of the plan */
    const char *checkpoints; /* their directory */
    int lock;                /* of that directory: checkpoint_claim; -1: none */
    bool replaces;           /* its first checkpoint replaces those of an earlier run there */
    EvalWhen eval;           /* when training is interrupted for the program eval */
    int64_t eval_steps;      /* EVAL_STEPS */
    Verifier *verifier;
    Profile *profile; /* --profile, --trace; or NULL */
    Lanes *lanes;     /* --report: what ran when; or NULL */
    Curve *curve;     /* likewise: losses */
    Stop stop;
    int64_t began;      /* global step that this run goes on from */
    bool looked;        /* it has searched for the row that makes an evaluation's loss not finite */
    bool enough;        /* early_stop: no evaluation was better for too long */
    int64_t saved_step; /* global step of the last checkpoint of this run, -1: none */
    int argc;           /* what prun was started with, for stop_command */
    char *const *argv;
};

/* Saves all states as the checkpoint of the step where training stands, and removes checkpoints that need not be kept. Collective. */
bool training_checkpoint(Run *run, Error *error);
