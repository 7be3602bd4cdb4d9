/* row_parts: batches in parts (micro_batches). A step that takes a batch in k parts computes the same as with the whole batch if
 * - the net of a part is that of the batch with k times fewer rows: the same operators, states and numbers;
 * - what is computed of a row depends on no other row;
 * - the loss is made of means over rows, `sum(..) / batch` too, and of what no data goes into: then the mean of the parts' losses is the batch's. */
#include <string.h>

#include "compiler/rows.h"

typedef struct Parts {
    RowLoss loss;
    const Graph *graph, *whole; /* of a part; of a batch */
    bool *filled;               /* per value: all its elements are one number */
    bool *counted;              /* per value: a number with the rows as a factor, by which terms of the loss are multiplied */
} Parts;

static bool refuse(const Parts *parts, const char *what, const char *hint) {
    diag_error(parts->loss.diags, parts->graph->settings.micro_span, "%s", what);
    diag_hint(parts->loss.diags, "%s", hint);
    return false;
}

/* Whether each term of a loss is a mean over independent rows, or depends on no data. power: that of the batch's rows by which the term is
 * multiplied. */
static bool terms_are_means(Parts *parts, int value, int depth, int power) {
    RowLoss *loss = &parts->loss;
    const Node *node = graph_producer(parts->graph, value);
    bool ok = true;
    switch (term_kind(loss, value, depth)) {
    case TERM_WHOLE:
        return power == 0;
    case TERM_ROWS:
        for (int i = 0; i < node->nin; i++)
            ok = ok && !loss->traced[node->in[i]].mixed;
        return ok && power - !term_sums(node) == -1 && !counts_labels(node);
    case TERM_LINEAR:
        for (int i = 0; ok && i < node->nin; i++) {
            const bool scales = (node->op == OP_mul || node->op == OP_div) && !loss->depends[node->in[i]];
            if (scales)
                parts->counted[node->in[i]] = true;
            else
                ok = terms_are_means(parts, node->in[i], depth + 1, power + scale_power(loss, node));
        }
        return ok;
    case TERM_OTHER:
        return false;
    }
    return false;
}

/* Per value whether no data goes into it, and all its elements are one number. */
static bool *filled_trace(const Graph *graph) {
    bool *filled = arena_alloc(graph->arena, (size_t)graph->values.n + 1);
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        bool all = node->op == OP_constant ? node->data == NULL : node->nin > 0 && op_elementwise(node->op);
        for (int i = 0; i < node->nin; i++)
            all = all && filled[node->in[i]];
        for (int o = 0; o < node->nout; o++)
            filled[node->out[o]] = all;
    }
    return filled;
}

/* Whether a value of one number with the batch's rows as a size may have those of a part: only elementwise operators read it, with tensors
 * whose shapes are looked at too. */
static bool may_be_smaller(const Parts *parts, int value) {
    if (!parts->filled[value]) return false;
    for (int n = 0; n < parts->graph->nodes.n; n++) {
        const Node *node = &parts->graph->nodes.at[n];
        for (int i = 0; i < node->nin; i++)
            if (node->in[i] == value && !op_elementwise(node->op)) return false;
    }
    return true;
}

static bool same_shape(const Parts *parts, int value) {
    const Shape *part = &parts->graph->values.at[value].type.shape, *whole = &parts->whole->values.at[value].type.shape;
    const int rows = parts->loss.depends[value] ? parts->loss.traced[value].at : -1;
    if (!parts->loss.depends[value] && !shape_equal(part, whole)) return may_be_smaller(parts, value);
    for (int d = 0; d < part->ndim && d < whole->ndim; d++)
        if (whole->dim[d] != part->dim[d] * (d == rows ? parts->graph->settings.micro_batches : 1)) return false;
    return part->ndim == whole->ndim;
}

/* Whether slices go up to the end of each dimension, or to the same element; where they begin follows from their results' sizes. */
static bool same_slice(const Parts *parts, const Node *a, const Node *b) {
    const TensorType *part = &parts->graph->values.at[a->in[0]].type, *whole = &parts->whole->values.at[b->in[0]].type;
    for (int k = 0; k < a->attr[0].n; k++) {
        const int d = k + part->hidden;
        const bool both_end = a->attr[1].ints[k] == part->shape.dim[d] && b->attr[1].ints[k] == whole->shape.dim[d];
        if (!both_end && a->attr[1].ints[k] != b->attr[1].ints[k]) return false;
    }
    return true;
}

static bool same_attrs(const Parts *parts, const Node *a, const Node *b) {
    if (a->op == OP_slice) return same_slice(parts, a, b);
    for (int k = 0; k < MAX_ATTRS && a->op != OP_reshape; k++) { /* its result's shape says it */
        const Attr *x = &a->attr[k], *y = &b->attr[k];
        if (x->given != y->given || x->i != y->i || memcmp(&x->f, &y->f, sizeof x->f) != 0 || x->n != y->n) return false;
        if (memcmp(x->ints, y->ints, (size_t)x->n * sizeof *x->ints) != 0 || (x->text == NULL) != (y->text == NULL)) return false;
        if (x->text != NULL && strcmp(x->text, y->text) != 0) return false;
    }
    return true;
}

static bool same_data(const Parts *parts, const Node *a, const Node *b) {
    const int64_t n = shape_elements(&parts->graph->values.at[a->out[0]].type.shape);
    return (a->data == NULL) == (b->data == NULL) && (a->data == NULL || memcmp(a->data, b->data, (size_t)n * sizeof *a->data) == 0);
}

static bool same_node(const Parts *parts, int id) {
    const Node *a = &parts->graph->nodes.at[id], *b = &parts->whole->nodes.at[id];
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout || a->state != b->state) return false;
    if (memcmp(a->in, b->in, (size_t)a->nin * sizeof *a->in) != 0 || memcmp(a->out, b->out, (size_t)a->nout * sizeof *a->out) != 0)
        return false;
    for (int o = 0; o < a->nout; o++)
        if (!same_shape(parts, a->out[o])) return false;
    if (a->op != OP_constant) return same_attrs(parts, a, b);
    return parts->counted[a->out[0]] || (same_attrs(parts, a, b) && same_data(parts, a, b));
}

static bool same_state(const State *a, const State *b) {
    if (!type_equal(&a->type, &b->type) || a->init.kind != b->init.kind) return false;
    return memcmp(&a->init.a, &b->init.a, sizeof a->init.a) == 0 && memcmp(&a->init.b, &b->init.b, sizeof a->init.b) == 0;
}

/* Whether the nets are the same. differs: the first node that is not, or -1. */
static bool same_net(const Parts *parts, int *differs) {
    const Graph *a = parts->graph, *b = parts->whole;
    *differs = -1;
    bool same = a->nodes.n == b->nodes.n && a->states.n == b->states.n && a->inputs.n == b->inputs.n && a->loss == b->loss;
    for (int s = 0; same && s < a->states.n; s++)
        same = same_state(&a->states.at[s], &b->states.at[s]);
    for (int n = 0; same && n < a->nodes.n; n++)
        if (!(same = same_node(parts, n))) *differs = n;
    return same;
}

/* Whether random numbers are ordered by the batch's rows: a part's rows then get those that they get in the batch. */
static bool rows_lead(const Input *random) {
    return random->row_dim == random->type.hidden + 1;
}

bool rows_part(Graph *graph, const Graph *whole, const LossRows *asked, Diags *diags) {
    Parts parts = {.loss = row_loss(graph, asked, diags), .graph = graph, .whole = whole};
    const bool chosen = graph->settings.micro_span.line == 0; /* by the compiler, for memory */
    parts.filled = filled_trace(graph);
    parts.counted = arena_alloc(graph->arena, (size_t)graph->values.n + 1);
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == INPUT_RANDOM && chosen && !rows_lead(&graph->inputs.at[i]))
            return refuse(&parts, "parts of a batch draw other random numbers", "micro_batches = 2; where that is meant");
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].written)
            return refuse(&parts, "what a step writes depends on its whole batch",
                          "leave out micro_batches where the net writes states of its own");
    if (!parts.loss.depends[graph->loss] || !terms_are_means(&parts, graph->loss, 0, 0))
        return refuse(
            &parts, "a loss of parts of a batch is not the loss of the batch: it is no mean over rows that are apart",
            "mse(..), cross_entropy(..), the mean of a tensor whose first dimension is the batch, or sums of such; for another step, a "
            "smaller batch with accumulate");
    int differs;
    if (same_net(&parts, &differs)) return true;
    refuse(&parts, "the net of a part of a batch is another one than that of the batch: sizes or numbers depend on the rows",
           "for another step, a smaller batch with accumulate");
    if (differs >= 0) diag_note(diags, graph->nodes.at[differs].span, "here is the first that does");
    return false;
}
