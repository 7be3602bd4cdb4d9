/* explain: --explain, --what-if. */
#pragma once
#include "compiler/compiler.h"
#include "compiler/oracle.h"

/* Appends why the value of this name has its layout, and how it is converted; where there are several programs, for each that has it, under a heading. The compilation had Options.nexplain > 0. name: of a
 * value, a parameter or another state, an input, or NAME.grad. False with *error (EXIT_USAGE), naming the nearest one,
 * when there is none. */
bool explain(Text *text, Compilation *c, const char *name, Error *error);

/* ---- others.c */

typedef const char *(*StrategyText)(const void *context, const Node *node, const Strategy *strategy);
/* Appends what a step costs with each other strategy of operator `id` of b->front.chosen, the cheapest first. nexplained: how many operators are asked about, which share the number of
 * programs compiled. */
void others_print(Text *text, Build *b, int id, int nexplained, StrategyText name, const void *context);

/* ---- what_if.c */

typedef struct WhatIf {
    BuildCost cost;  /* of a step */
    const char *why; /* why there is no plan; NULL: there is one */
} WhatIf;
/* What a step would cost with this hint added, as --shard takes it; nothing is written. False with *error, or after printed diagnostics: the hint is wrong. */
bool what_if(const Options *options, const char *hint, const char *source, size_t n, Arena *arena, WhatIf *then, Error *error);
/* Appends what a step of the compilation costs beside that. */
void what_if_print(Text *text, const Compilation *c, const char *hint, const WhatIf *then);
