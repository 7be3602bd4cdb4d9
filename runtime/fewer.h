/* fewer: plans of one net for fewer ranks, with which a job that has lost some goes on (--min-ranks). */
#pragma once
#include "ir/plan.h"
#include "runtime/options.h"

bool plan_of_file(Plan *plan, Arena *arena, const char *path, Error *error); /* not collective */
/* Reads options->plan and options->fewer before anything is started: fills fewer_ranks, in the arena, and sorts fewer by it. *error: EXIT_REJECTED, a plan has other states than the first or is
 * for as many ranks as another, for more than the first or for fewer than --min-ranks; EXIT_ENVIRONMENT, a plan cannot be read. */
bool fewer_read(RunOptions *options, Arena *arena, Error *error);
/* The plan for so many ranks: index into options->fewer, or -1: options->plan. */
int fewer_find(const RunOptions *options, int nranks);
