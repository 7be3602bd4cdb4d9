/* signature: what all nodes with the same operator, operand types and attributes share. It is inferred and stored once: a net of a thousand equal layers
 * has as many signatures as a net of one. */
#include <string.h>

#include "ir/graph.h"
#include "ir/map.h"
#include "ir/rules.h"

struct Signatures {
    VEC(const Signature *) all;
    Map map;
};

static uint64_t hash_of(OpCode op, const TensorType *in, int nin, const Attr *attr) {
    uint64_t hash = hash_mix((uint64_t)op, (uint64_t)nin);
    for (int i = 0; i < nin; i++) {
        hash = hash_mix(hash, (uint64_t)in[i].dtype << 16 | (uint64_t)in[i].hidden << 8 | (uint64_t)in[i].shape.ndim);
        for (int d = 0; d < in[i].shape.ndim; d++)
            hash = hash_mix(hash, (uint64_t)in[i].shape.dim[d]);
    }
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++) {
        uint64_t bits;
        memcpy(&bits, &attr[a].f, sizeof bits);
        hash = hash_mix(hash_mix(hash_mix(hash, bits), (uint64_t)attr[a].i), (uint64_t)attr[a].n << 1 | attr[a].given);
        for (int i = 0; i < attr[a].n; i++)
            hash = hash_mix(hash, (uint64_t)attr[a].ints[i]);
        for (const char *at = attr[a].text; at && *at; at++)
            hash = hash_mix(hash, (unsigned char)*at);
    }
    return hash;
}

bool attr_equal(const Attr *a, const Attr *b) {
    return a->given == b->given && a->i == b->i && memcmp(&a->f, &b->f, sizeof a->f) == 0 && a->n == b->n &&
           memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints) == 0 && !a->text == !b->text &&
           (!a->text || strcmp(a->text, b->text) == 0);
}

static bool is_of(const Signature *signature, OpCode op, const TensorType *in, int nin, const Attr *attr) {
    if (signature->op != op || signature->nin != nin) return false;
    for (int i = 0; i < nin; i++)
        if (!type_equal(&signature->in[i], &in[i])) return false;
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++)
        if (!attr_equal(&signature->attr[a], &attr[a])) return false;
    return true;
}

struct Signatures *signatures_create(Arena *arena) {
    return arena_alloc(arena, sizeof(struct Signatures));
}

struct Signatures *signatures_fork(const struct Signatures *signatures, Arena *arena) {
    struct Signatures *fork = signatures_create(arena);
    *fork = *signatures;
    fork->all.at = table_fork(arena, signatures->all.at, (size_t)signatures->all.n * sizeof *fork->all.at);
    fork->all.cap = fork->all.n;
    map_fork(arena, &fork->map);
    return fork;
}

const Signature *signature_of(Graph *graph, OpCode op, const TensorType *in, int nin, const Attr *attr, RuleError *error) {
    static const Attr none[MAX_ATTRS];
    if (!attr) attr = none;
    struct Signatures *all = graph->signatures;
    const bool known = nin >= 0 && nin <= MAX_IN; /* else the rule rejects it below */
    const uint64_t hash = known ? hash_of(op, in, nin, attr) : 0;
    map_each(&all->map, hash, i) if (known && is_of(all->all.at[i], op, in, nin, attr)) return all->all.at[i];
    Rule rule;
    if (op_table[op].op_class == OP_CLASS_LEAF)
        rule_of_leaf(in, &rule);
    else if (!rule_infer(op, in, nin, attr, &rule, error))
        return NULL;
    Signature *made = arena_alloc(graph->arena, sizeof *made);
    *made = (Signature){.op = op, .nin = nin, .rule = rule};
    memcpy(made->in, in, (size_t)nin * sizeof *in);
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++)
        made->attr[a] = attr[a];
    map_add(graph->arena, &all->map, hash, all->all.n);
    vec_push(graph->arena, &all->all, made);
    return made;
}
