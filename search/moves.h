/* moves: layouts of tensors by number, and the seconds in which one becomes another, each pair looked at once. Internal to search/. */
#pragma once
#include "strategies/strategies.h"

typedef struct Moves Moves;
Moves *moves_create(Arena *arena, const Machine *machine, int nranks);
/* The number of a layout of a tensor of this type, made canonical; partial digits stay. Numbers of one type and layout are equal. */
int moves_layout(Moves *moves, const TensorType *type, const Layout *layout);
const Layout *moves_at(const Moves *moves, int number);
int64_t moves_bytes(const Moves *moves, int number); /* of the largest box */
/* Seconds from one layout into another of the same tensor: what the busiest rank must receive at the least, over the slowest link that it takes, and the latency of
 * messages to its group. INFINITY: `to` is partial over digits that `from` is not. */
double moves_seconds(Moves *moves, int from, int to);
/* The part of it that its bytes take, and that its messages do. */
typedef struct MoveSeconds {
    double bytes_s, messages_s;
} MoveSeconds;
MoveSeconds moves_both(Moves *moves, int from, int to);
