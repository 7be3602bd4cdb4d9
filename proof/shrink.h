/* One operator or one communication by itself, and a small one with the same pattern. Used only by pattern.c. */
#pragma once
#include "proof/field.h"

typedef struct Case {
    bool communication;
    CommKind comm;
    int nranks;
    Node node;            /* operator: operands are values 0 .. nin - 1, results the next ones. Communication: 1 and 1 */
    Attr attr[MAX_ATTRS]; /* in a copy: where node.attr points */
    Value value[MAX_IN + MAX_OUT];
    Layout layout[MAX_IN + MAX_OUT];
    Graph graph; /* holds value, for the functions that look types up; nothing else of it is set */
} Case;
static inline int case_tensors(const Case *c) {
    return c->node.nin + c->node.nout;
}
void case_copy(const Case *own, Case *copy);

/* Makes the small case: digits above `most` become `most`, sizes the smallest that are divided in the same manner. keep: indices that
 * nothing divides, and reshapes without common factors, keep their sizes. False with why where this is impossible. The caller checks
 * whether the small case is as legal as the original. */
bool case_shrink(const Case *own, int most, bool keep, Case *small, char *why, size_t n);
