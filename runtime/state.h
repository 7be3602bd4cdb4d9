/* state: initial values of states, and .npy files. */
#pragma once
#include "ir/graph.h"

/* Fills the elements of `box` of a state's initial value, as the state's dtype: a function of (seed, name, global index), so the same on any
 * number of ranks. Files: .npy, little-endian f4, f8, i4, i8 or b1, C order, with the state's shape. plan_directory: where to look after the current one. */
bool state_initial(const Graph *graph, const State *state, const Box *box, const char *plan_directory, void *data, Error *error);
/* Reads a .npy file's elements as doubles, shape in *shape. */
bool npy_read(const char *path, Arena *arena, Shape *shape, DType *dtype, double **data, Error *error);
