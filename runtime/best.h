/* best: what evaluations decide: which is the best so far, and whether there was no better one for too long. */
#pragma once
#include "runtime/evaluate.h"
#include "runtime/index.h"

/* Takes up the evaluation behind global step `step`. better: it is the best so far; a figure that is nan never is. */
void best_see(const Watch *watch, const EvalResult *result, int64_t step, Watched *watched, bool *better);
/* What was watched by another metric counts for nothing. */
void best_forget_others(const Settings *settings, Watched watched[NWATCHES]);
/* "early stop after epoch 5 step 110: the best f1 is 0.91, after step 220, and 3 evaluations were no better since" */
void best_put_stop(Text *text, const Position *at);
/* "best: f1 is 0.91 after step 220, restored from net.plan.checkpoints/step-000000220.safetensors" */
void best_put_restored(Text *text, const Watched *best, const char *path);
/* Whether the program eval has what is watched: EXIT_REJECTED. */
bool best_check(const Settings *settings, const Evaluation *evaluation, Error *error);
