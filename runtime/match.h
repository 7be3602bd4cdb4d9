/* match: which tensor of a file each parameter of a net begins with (prun --load), and what is said of those that do not fit. */
#pragma once
#include "ir/graph.h"
#include "runtime/tensors.h"

/* How --load reads a file that has other names than the net; each may be repeated. Patterns are those of ir/wildcard.h. */
typedef struct LoadRules {
    int nrenames, ntransposes, nfresh;
    const char **renames;    /* --rename: "NET=FILE", two patterns */
    const char **transposes; /* --transpose: parameters that the file has transposed */
    const char **fresh;      /* --fresh: parameters that it does not give */
} LoadRules;

/* Of a state; tensor -1: none, it stays as it is. */
typedef struct Match {
    int tensor;
    bool transposed; /* a matrix whose rows are the tensor's columns; likewise each piece */
    int npieces; /* 0: the tensor is all of it; else it is the first piece of so many, which make up a state of that many along dimension 0 */
    const int *piece;
} Match;
/* The k-th of the tensors that a match has. */
static inline int match_ntensors(const Match *match) {
    return match->npieces > 0 ? match->npieces : match->tensor >= 0;
}
static inline int match_tensor(const Match *match, int k) {
    return match->npieces > 0 ? match->piece[k] : match->tensor;
}

/* For every state of the graph; those that are not trainable match nothing. False and *error: EXIT_USAGE, a rule that is none, matches nothing, or gives one tensor
 * to two parameters; EXIT_ENVIRONMENT, a tensor is missing or does not fit: then *error names all that do not. */
bool match_parameters(const TensorFile *file, const Graph *graph, const LoadRules *rules, Arena *arena, Match *matches, Error *error);
/* Notes on standard error about tensors that nothing takes, parameters that begin as the net says, and matrices of a file from elsewhere that are square, so that
 * their shape does not say how they lie. */
void match_report(const TensorFile *file, const Graph *graph, const Match *matches);
