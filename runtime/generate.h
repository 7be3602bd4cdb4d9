/* generate: runs the programs generate and prompt of a plan. A step of prompt takes the tokens of many places, and writes their keys and values to the caches. A step of generate does so for the token of
 * one place, and computes the logits of what follows. Process 0 draws the next token, from the logits and from (seed, place) alone: the same text on any number of ranks, as far as the
 * logits are the same. */
#pragma once
#include "runtime/run.h"

typedef struct Generator Generator;
/* Makes the programs of the run's plan, with states of their own; reads the prompts and checks that they fit. Collective. NULL and *error on failure. */
Generator *generator_create(Run *run, Error *error);
void generator_destroy(Generator *generator); /* takes NULL */
Executor *generator_executor(Generator *generator);
void generator_capture(Generator *generator, const char *against); /* executor_capture */
/* Generates, and prints on process 0, each prompt and what follows it, as it comes; with --json a line for each. Collective. */
bool generator_run(Generator *generator, Run *run, Error *error);
/* All memory of a rank. */
void generator_memory(const Plan *plan, int rank, ExecutorMemory *memory);
/* The next token by the n logits: one of the top_k most likely (0: all), each with the probability exp(logit / temperature) over their sum; `uniform` in [0, 1) selects it.
 * temperature 0: the most likely, the first of those that tie. -1: a logit is not a number, or no logit is finite. */
int64_t token_draw(const double *logits, int64_t n, double temperature, int64_t top_k, double uniform);
