/* seen: patterns found by hash and compared whole: two of one hash are two. */
#include "proof/seen.h"

#include <string.h>

typedef struct Seen {
    uint64_t hash;
    const uint64_t *word;
    int n;
} Seen;

void key_begin(Key *key) {
    key->n = 0;
    key->overflow = false;
}

void key_add(Key *key, uint64_t word) {
    if (key->n < (int)(sizeof key->word / sizeof *key->word))
        key->word[key->n++] = word;
    else
        key->overflow = true;
}

void key_type(Key *key, const TensorType *type) {
    key_add(key, (uint64_t)type->dtype << 8 | (uint64_t)type->hidden << 7 | (uint64_t)type->shape.ndim);
    for (int d = 0; d < type->shape.ndim; d++)
        key_add(key, (uint64_t)type->shape.dim[d]);
}

void key_layout(Key *key, const Layout *layout) {
    int lists = layout->ndim + NREDUCTIONS;
    for (int list = 0; list < lists; list++)
        key_add(key, (uint64_t)layout_count(layout, list));
    for (int i = 0; i < layout->start[lists]; i++)
        key_add(key, (uint64_t)layout->digit[i].size << 32 | (uint32_t)layout->digit[i].stride);
}

void key_attrs(Key *key, OpCode op, const Attr *attrs) {
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++) {
        const Attr *attr = &attrs[a];
        uint64_t bits;
        memcpy(&bits, &attr->f, sizeof bits);
        key_add(key, (uint64_t)attr->given << 32 | (uint64_t)attr->n);
        key_add(key, (uint64_t)attr->i);
        key_add(key, bits);
        for (int i = 0; i < attr->n; i++)
            key_add(key, (uint64_t)attr->ints[i]);
        key_add(key, attr->text ? strlen(attr->text) : 0);
        for (const char *at = attr->text ? attr->text : ""; *at; at++)
            key_add(key, (unsigned char)*at);
    }
}

bool seen_before(SeenTable *table, Arena *arena, const Key *key) {
    if (key->overflow) return false;
    if (2 * table->n >= table->cap) {
        SeenTable bigger = {.cap = table->cap ? 2 * table->cap : 64, .n = table->n};
        bigger.at = arena_alloc(arena, sizeof *bigger.at * (size_t)bigger.cap);
        for (int i = 0; i < table->cap; i++) {
            if (!table->at[i].word) continue;
            uint64_t at = table->at[i].hash & (uint64_t)(bigger.cap - 1);
            while (bigger.at[at].word)
                at = (at + 1) & (uint64_t)(bigger.cap - 1);
            bigger.at[at] = table->at[i];
        }
        *table = bigger;
    }
    uint64_t hash = 0;
    for (int i = 0; i < key->n; i++) {
        hash = (hash ^ key->word[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    uint64_t at = hash & (uint64_t)(table->cap - 1);
    for (; table->at[at].word; at = (at + 1) & (uint64_t)(table->cap - 1)) {
        const Seen *seen = &table->at[at];
        if (seen->hash == hash && seen->n == key->n && !memcmp(seen->word, key->word, (size_t)key->n * sizeof *key->word)) return true;
    }
    uint64_t *word = arena_alloc(arena, sizeof *word * (size_t)(key->n + 1));
    memcpy(word, key->word, (size_t)key->n * sizeof *word);
    table->at[at] = (Seen){.hash = hash, .word = word, .n = key->n};
    table->n++;
    return false;
}
