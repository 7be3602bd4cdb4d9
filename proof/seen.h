/* seen: which patterns were seen before; a pattern is a list of everything that it consists of. */
#pragma once
#include "ir/graph.h"

/* A pattern as 64-bit words. */
typedef struct Key {
    uint64_t word[1024];
    int n;
    bool overflow; /* the key is never equal to another */
} Key;
typedef struct Seen {
    const uint64_t *word;
    int n;
} Seen;
/* Zeroed: empty. */
typedef struct SeenTable {
    VEC(Seen) seen;
    Map map;
} SeenTable;

void key_begin(Key *key);
void key_add(Key *key, uint64_t word);
void key_type(Key *key, const TensorType *type);
void key_layout(Key *key, const Layout *layout);
void key_attrs(Key *key, OpCode op, const Attr *attr);
/* Whether the key was in the table; adds it if not. */
bool seen_before(SeenTable *table, Arena *arena, const Key *key);
