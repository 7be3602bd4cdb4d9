/* frontend: text -> Graph.
 *
 *   lex.l, parse.y  the language's tokens and grammar (flex, bison)
 *   ast.h, ast.c    what the parser builds
 *   lower.c ...     names, types, hints checked; AST -> Graph
 */
#pragma once
#include "ir/ir.h"

/* -D name=value and the flags that override the blocks. NULL or -1: not given. */
typedef struct Overrides {
    int ndefines;
    const char *const *define_name;
    const int64_t *define_value;
    const double *define_real; /* NULL, or per definition: its value where it is a real; NaN: define_value counts */
    int nranks;
    int replicas;          /* 0: not given */
    const char *mode, *search, *dataset, *gradients; /* as written; checked here */
    bool strict_divide;
} Overrides;

/* Reads a net and builds its forward graph (inputs, states, constants, operators, loss; in mode data_parallel with the hidden dimension and
 * replicate nodes), its states with initial values, its data source and settings. Composite operators are still one node. The loss value
 * is graph->loss. False after diagnostics; never crashes, never uses memory beyond a small multiple of the text. */
bool frontend_compile(const char *name, const char *text, size_t n, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags);
