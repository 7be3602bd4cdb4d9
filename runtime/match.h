/* match: which tensor of a file each parameter of a net is loaded from (prun --load), and notes about those that do not fit. */
#pragma once
#include "ir/graph.h"
#include "runtime/tensors.h"

/* How --load reads a file that has other names than the net; each option may be repeated. Patterns are those of ir/wildcard.h. */
typedef struct LoadRules {
    int nrenames, ntransposes, nfresh;
    const char **renames;    /* --rename: "NET=FILE", two patterns */
    const char **transposes; /* --transpose: parameters that are transposed in the file */
    const char **fresh;      /* --fresh: parameters that are not taken from it */
} LoadRules;

/* What a state is loaded from; tensor -1: nothing, it stays as it is. */
typedef struct Match {
    int tensor;
    bool transposed; /* the state is a matrix whose rows are the tensor's columns; likewise for each piece */
    int npieces; /* 0: the tensor is all of the state; else it is the first of so many pieces, one for each index of the state's dimension 0 */
    const int *piece;
} Match;
/* How many tensors a match has, and the k-th of them. */
static inline int match_ntensors(const Match *match) {
    return match->npieces > 0 ? match->npieces : match->tensor >= 0;
}
static inline int match_tensor(const Match *match, int k) {
    return match->npieces > 0 ? match->piece[k] : match->tensor;
}

/* Fills matches for every state of the graph; those that are not trainable match nothing. False and *error: EXIT_USAGE, a rule is malformed, matches nothing, or gives
 * one tensor to two parameters; EXIT_ENVIRONMENT, a tensor is missing or does not fit: then *error names all that do not. */
bool match_parameters(const TensorFile *file, const Graph *graph, const LoadRules *rules, Arena *arena, Match *matches, Error *error);
/* Prints notes on standard error about tensors that nothing takes, parameters that keep the net's initial values, and square matrices of a file from elsewhere, whose
 * shape does not tell whether they are transposed. */
void match_report(const TensorFile *file, const Graph *graph, const Match *matches);
