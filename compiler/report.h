/* report: --report, the page of a compilation (docs/report.md): adds what pcc knows beside the plan to the plan's data (report/plan.h).
 *
 *   report.c       the net: source, calls, hints, warnings, demands, what the search found
 *   report_why.c   why each node has its strategy
 *   report_search.c  what other strategies cost in the search's model
 *   report_cost.c  what each step and communication costs
 */
#pragma once
#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/timeline.h"
#include "report/plan.h"

/* Prints the page of a whole compilation with Options.report. False with c->error. */
bool report_print(Text *text, Compilation *c);

/* ---------------------------------------------------------------- report.c: what others ask for */

/* The calls of cells, by path. */
typedef struct Calls {
    Arena *arena;
    const Paths *paths;
    VEC(int) at; /* of paths: those that are calls, outer ones first */
    Map map;     /* of at, by path */
} Calls;
/* The innermost call that contains what has this path; -1: it stands in the net itself. */
int call_around(const Calls *calls, const char *path);
/* The hints as they are numbered in the page. */
typedef struct HintNumbers {
    const Front *front;
    Map map; /* of front->hints, by address */
} HintNumbers;
int hint_number(const HintNumbers *hints, const Hint *hint); /* -1: none */

void report_machine(Json *json, const Machine *machine); /* member `machine` */

/* ---------------------------------------------------------------- stats.c */

typedef void JsonOpen(Json *json, const char *key);                                   /* json_object or json_row */
void json_figures(Json *json, const Facts *facts, double rank_flops, JsonOpen *open); /* members `memory` and `flops` */

/* ---------------------------------------------------------------- report_why.c */

/* Adds `why` and `decisions` of a program. */
void report_why(PlanData *data, Build *b, const Calls *calls, const HintNumbers *hints);

/* ---------------------------------------------------------------- report_search.c */

/* The number of a strategy's text, of a node of front.chosen. */
typedef int StrategyNumber(void *context, int chosen, const Strategy *strategy);
/* Adds `weighed`. node_of: per node of front.chosen, the node of the program. */
void report_weighed(PlanData *data, const Build *b, const int *node_of, StrategyNumber *strategy_number, void *context);

/* ---------------------------------------------------------------- report_cost.c */

/* Adds `comms`, `events` and the sums of a role, whose bounds and times must have been made: facts_bounds, timeline_make. */
void report_cost(PlanData *data, const Facts *facts, const Timeline *timeline, const Machine *machine);
