/* seen: patterns are found by hash and compared in full, so that two with one hash stay distinct. */
#include "proof/seen.h"

#include <string.h>

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
    key_add(key, (uint64_t)layout->pin.digit.size << 32 | (uint32_t)layout->pin.digit.stride);
    key_add(key, (uint64_t)layout->pin.value);
    for (int d = 0; d < layout->ndim; d++) {
        const Halo *halo = layout_halo(layout, d);
        if (!halo) continue;
        key_add(key, (uint64_t)d << 8 | (uint64_t)halo->kind);
        key_add(key, (uint64_t)halo->of);
        key_add(key, (uint64_t)halo->stride);
        key_add(key, (uint64_t)halo->low);
        key_add(key, (uint64_t)halo->high);
    }
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
    uint64_t hash = 0;
    for (int i = 0; i < key->n; i++)
        hash = hash_mix(hash, key->word[i]);
    map_each(&table->map, hash, k) {
        const Seen *seen = &table->seen.at[k];
        if (seen->n == key->n && !memcmp(seen->word, key->word, (size_t)key->n * sizeof *key->word)) return true;
    }
    const size_t bytes = (size_t)key->n * sizeof *key->word;
    vec_push(arena, &table->seen, (Seen){memcpy(arena_alloc(arena, bytes + 1), key->word, bytes), key->n});
    map_add(arena, &table->map, hash, table->seen.n - 1);
    return false;
}
