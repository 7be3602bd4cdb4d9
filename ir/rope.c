/* rope: rotary positions (Su et al., "RoFormer", 2021), as in Hugging Face's LLaMA: in x [.., places, d], elements k and k + d / 2 of a place are rotated as a pair
 * by the angle place * base^(-2 k / d). The gradient rotates by the opposite angle. */
#include <math.h>

#include "ir/graph.h"
#include "ir/rules.h"

enum { BASE, INVERSE }; /* attributes */

bool rule_rope(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape;
    (void)nin;
    if (x->ndim < 2)
        return rule_reject(error, 0, -1, "%%0 has %d dimension%s, needs at least 2: places and their width", x->ndim,
                           x->ndim == 1 ? "" : "s");
    if (x->dim[x->ndim - 1] % 2 != 0)
        return rule_reject(error, 0, -1, "the width, the last size of %%0, is %lld: its elements are turned in pairs",
                           (long long)x->dim[x->ndim - 1]);
    if (attr[BASE].given && !(attr[BASE].f > 0 && isfinite(attr[BASE].f)))
        return rule_reject(error, -1, BASE, "base is %g, and must be above 0", attr[BASE].f);
    rule->result[0] = in[0];
    for (int d = 0; d < x->ndim - 1; d++)
        rule->in[0][d] = rule->out[0][d] = (int8_t)rule_add_factor(rule, x->dim[d]);
    rule->depth = x->dim[x->ndim - 1];
    return true;
}

void adjoint_rope(Graph *graph, int node, const int *dy, int *dx) {
    const Node *forward = &graph->nodes.at[node];
    const Attr attr[MAX_ATTRS] = {forward->attr[BASE], {.given = true, .i = !forward->attr[INVERSE].i}};
    const char *name = arena_printf(graph->arena, "%s.grad", graph->values.at[forward->in[0]].name);
    dx[0] = graph_emit_gradient(graph, node, OP_rope, dy, (int[]){PART_OUT}, 1, 0, attr, name);
}
