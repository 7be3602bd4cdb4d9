/* generate: the programs generate and prompt of a plan. A step of prompt takes the tokens of many places, and leaves keys and values of these in the caches. A step of generate takes the token of one place,
 * leaves the same of it, and the logits of what follows. Which token follows is drawn by process 0, from the logits and from (seed, place) alone: the same text on any number of ranks, as far as the
 * logits are the same. */
#pragma once
#include "runtime/run.h"

typedef struct Generator Generator;
/* The programs of the run's plan, with states of their own; the prompts are read, and known to fit. Collective. NULL and *error on failure. */
Generator *generator_create(Run *run, Error *error);
void generator_destroy(Generator *generator); /* takes NULL */
Executor *generator_executor(Generator *generator);
void generator_capture(Generator *generator, const char *against); /* executor_capture */
/* Generates and prints, on process 0, each prompt and what follows it, as it comes; with --json a line of each. Collective. */
bool generator_run(Generator *generator, Run *run, Error *error);
/* All memory of a rank. */
void generator_memory(const Plan *plan, int rank, ExecutorMemory *memory);
/* The next token by its logits, n of them: of the top_k most likely (0: all), each with the probability exp(logit / temperature) over their sum; `uniform` in [0, 1) says which.
 * temperature 0: the most likely, the first of those that tie. -1: a logit is not a number, or no logit is finite. */
int64_t token_draw(const double *logits, int64_t n, double temperature, int64_t top_k, double uniform);
