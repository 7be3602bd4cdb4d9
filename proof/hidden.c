/* hidden: the letters of the operators that see the hidden dimension: replicate and replica_sum, where only one side has it; expose, where one side has it as a plain dimension. */
#include "proof/internal.h"

static bool fail(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

static int8_t letter_add(Letters *letters, int64_t size) {
    letters->size[letters->n] = size; /* these operators have at most MAX_NDIM letters */
    return (int8_t)letters->n++;
}

/* The hidden dimension is a letter of one side only. */
static bool crossing(const TensorType *plain, const TensorType *hidden, Letters *letters, int8_t *plain_map, int8_t *hidden_map, char *why,
                     size_t n) {
    if (plain->hidden || !hidden->hidden || hidden->shape.ndim != plain->shape.ndim + 1)
        return fail(why, n, "not between a plain and a hidden tensor");
    hidden_map[0] = letter_add(letters, hidden->shape.dim[0]);
    for (int d = 0; d < plain->shape.ndim && d < MAX_NDIM - 1; d++) {
        if (plain->shape.dim[d] != hidden->shape.dim[d + 1]) return fail(why, n, "shapes differ beyond the hidden dimension");
        plain_map[d] = hidden_map[d + 1] = letter_add(letters, plain->shape.dim[d]);
    }
    return true;
}

static bool exposure(const TensorType *x, const TensorType *y, bool hide, Letters *letters, char *why, size_t n) {
    if (x->hidden == hide || y->hidden != hide || x->shape.ndim == 0 || !shape_equal(&x->shape, &y->shape))
        return fail(why, n, "not between a plain and a hidden tensor of one shape");
    for (int d = 0; d < x->shape.ndim && d < MAX_NDIM; d++)
        letters->in[0][d] = letters->out[0][d] = letter_add(letters, x->shape.dim[d]);
    return true;
}

bool hidden_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const TensorType *x = &graph->values.at[node->in[0]].type, *y = &graph->values.at[node->out[0]].type;
    letters->linear = LINEAR_IN_ALL;
    letters->flat = true; /* into one slice or out of one */
    letters->view = node->op != OP_replica_sum;
    if (node->op == OP_replicate) return crossing(x, y, letters, letters->in[0], letters->out[0], why, n);
    if (node->op == OP_replica_sum) return crossing(y, x, letters, letters->out[0], letters->in[0], why, n);
    return exposure(x, y, node->attr[0].i != 0, letters, why, n);
}
