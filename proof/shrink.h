/* One operator or one communication by itself, and the small one with its pattern. For pattern.c alone. */
#pragma once
#include "proof/field.h"

typedef struct Case {
    bool communication;
    CommKind comm;
    int nranks;
    Node node;            /* operator: operands are values 0 .. nin - 1, results the next ones. Communication: 1 and 1 */
    Attr attr[MAX_ATTRS]; /* of a copy: what node.attr is */
    Value value[MAX_IN + MAX_OUT];
    Layout layout[MAX_IN + MAX_OUT];
    Graph graph; /* holds value, for the functions that look types up; nothing else of it is set */
} Case;
static inline int case_tensors(const Case *c) {
    return c->node.nin + c->node.nout;
}
void case_copy(const Case *own, Case *copy);

/* Digits above `most` become `most`, sizes as small as keeps the manner in which they are divided; keep: indices that nothing divides, and reshapes
 * without common factors, stay as they are. False with why where that cannot be. Whether the small case is as legal as its own is for the caller to see. */
bool case_shrink(const Case *own, int most, bool keep, Case *small, char *why, size_t n);
