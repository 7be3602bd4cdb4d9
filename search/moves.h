/* moves: layouts of tensors by number, and the seconds in which one becomes another, each pair looked at once. Internal to search/. */
#pragma once
#include "ir/pool.h"
#include "strategies/strategies.h"

typedef struct Moves Moves;
Moves *moves_create(Arena *arena, const Machine *machine, int nranks);
/* Moves on a machine like that of `of`, but on which so many messages take as long as one there; in the arena of `of`. */
Moves *moves_joined(Moves *of, const Machine *machine, int joined);
/* From now on threads share what moves_plan plans. moves_finish frees what they have. */
void moves_share(Moves *moves, Pool *pool);
void moves_finish(Moves *moves);
/* The number of a layout of a tensor of this type, made canonical; partial digits stay. Numbers of one type and layout are equal. */
int moves_layout(Moves *moves, const TensorType *type, const Layout *layout);
int moves_parts(Moves *moves, int layout); /* the layout without its halos: what may be made or stored */
const Layout *moves_at(const Moves *moves, int number);
int64_t moves_bytes(const Moves *moves, int number); /* of the largest box */
int moves_planned(const Moves *moves);               /* how many conversions have been planned so far */
/* Seconds to convert a tensor from one layout into another, by the steps that are planned between them. Where it is `most` or more, some
 * such number is returned, which is known sooner. INFINITY: `to` is partial over digits that `from` is not. */
double moves_seconds(Moves *moves, int from, int to, double most);
MoveSeconds moves_both(Moves *moves, int from, int to, double most);
/* Notes a conversion that will be asked for, where threads share them. moves_plan plans all that were noted, as exactly as `most` asks. */
void moves_want(Moves *moves, int from, int to);
void moves_plan(Moves *moves, double most);
