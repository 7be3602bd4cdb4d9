/* index: what a checkpoint's header says: which tensors it holds, where training stood, and in what order of rows. A run with other ranks, strategies or batch sizes may
 * go on from it; position_convert says how. */
#pragma once
#include "runtime/data/data.h"
#include "runtime/tensors.h"

/* A metric by which evaluations are compared, and its best value so far. */
typedef struct Watched {
    const char *metric; /* one of reported_name; NULL: nothing yet */
    double value;       /* of the best */
    int64_t step;       /* global step after which the best was; 0: there is none */
    int64_t waited;     /* evaluations since */
} Watched;

/* Where training stands: the last step that was done, counted from 1; global_step: all that were done, of whatever size. */
typedef struct Position {
    int64_t epoch, step, global_step;
    Watched watched[NWATCHES]; /* before the evaluation after this step */
} Position;

/* Describes a file of the graph's states, with position and order in its metadata (all_states), or of its parameters alone. */
void index_describe(TensorFile *file, Arena *arena, const Graph *graph, uint64_t net_hash, bool all_states, const Position *position,
                    const DataOrder *order);
/* Whether a state is in such a file. */
bool index_keeps(const State *state, bool all_states);
/* *tensor: the number of a state's tensor in the file. False and *error (EXIT_ENVIRONMENT): it is missing, or has another shape. */
bool index_find(const TensorFile *file, const State *state, int *tensor, Error *error);
/* Reads and checks where training stood and the order of its rows. False and *error (EXIT_ENVIRONMENT): no checkpoint, or damaged. */
bool index_read(const TensorFile *file, Position *position, DataOrder *order, Error *error);
/* Converts a position in one order of rows to another. It is exact or refused: no row is left out, none comes twice.
 *  - Files: the end of an epoch is the end of an epoch whatever the data is now. Within an epoch the rows must stand at the same places (as many rows, the same
 *    shuffle) and the rows done must be whole steps of the size now. How many ranks share a batch does not matter: together they read the same rows.
 *  - Generated rows never end: they are counted over all epochs, and epoch and step are those where as many rows are done now.
 *  - The same batch in every step: steps are counted.
 * path: of the checkpoint, for *error. */
bool position_convert(Position *position, const DataOrder *then, const DataOrder *now, const char *path, Error *error);
