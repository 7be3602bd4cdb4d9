/* held: which values lie in a rank's arena when, and when it is fullest. */
#pragma once
#include "compiler/facts.h"

/* Values of one kind: those of equal layers, whose names differ in numbers, "layer.*.a". */
typedef struct Holder {
    const char *name;
    int value; /* of the graph: one of them */
    int count;
    int64_t bytes; /* of all of them */
} Holder;

typedef struct Held {
    int64_t bytes;       /* that values take at the fullest step; the arena has these and gaps between values */
    int step;            /* the fullest one of the role: of a fused step the first, of equally full ones the first; -1: nothing is held */
    VEC(Holder) holders; /* at that step, the most bytes first; a value that lies in another one counts there */
    VEC(int) values;     /* of the graph: all of them */
} Held;

/* "layer.*.a" of "layer.12.a"; the number that makes a name unique is dropped: "h" of "h_3". */
const char *held_kind(Arena *arena, const char *name);
/* Adds bytes to the holder of this name's kind, which it adds where there is none. */
void held_add(Held *held, const char *name, int value, int64_t bytes, Arena *arena);
void held_sort(Held *held); /* the most bytes first */
/* Finds what is held at the fullest step of the facts' role. */
void held_find(Held *held, const Facts *facts, Arena *arena);
/* "matmul of h at net.dsl:8:9": a step for people, in the arena. */
const char *step_named(Arena *arena, const Facts *facts, const Diags *diags, int step);
/* "h 1.2 MiB, layer.*.a 32 x 4.0 MiB, 7 more 120.0 KiB": the first few. */
const char *holders_named(Arena *arena, const Held *held);
