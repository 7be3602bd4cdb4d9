/* The reader of the format of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator parallelism: JSON with "problem": "nodes" (for each an interval [begin, end), and
 * for each of its strategies a cost and a usage of memory), "edges" (pairs of nodes, and row by row a cost for each pair of their strategies), "usage_limit". */
#pragma once
#include "search/problem.h"

/* False, with what is wrong and at which byte: the text is not of this format. */
bool iopddl_read(Problem *problem, const char *text, Arena *arena, Error *error);
