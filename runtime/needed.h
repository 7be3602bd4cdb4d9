/* needed: which part of a program one of its reports needs. */
#pragma once
#include "ir/plan.h"

/* For each input of the graph: whether the value of a report depends on it. In the arena. */
const bool *report_inputs(const Graph *graph, int report, Arena *arena);
/* Reduces a plan's part (plan_part) to one report of its program and the steps that it needs, without loss and other reports; memory and communications stay as they
 * are. What the part shares with the plan is not changed. */
void report_alone(Plan *part, int report, Arena *arena);
