/* adjoints: checks the gradient of each operator of a graph by itself, at small sizes that keep the structure of its operands. */
#include <stdlib.h>
#include <string.h>

#include "ir/lookup.h"
#include "proof/field.h"
#include "proof/seen.h"
#include "proof/windows.h"

/* ---------------------------------------------------------------- small operands */

/* An operator with operands of its own. */
typedef struct OperatorCase {
    OpCode op;
    int nin;
    TensorType in[MAX_IN];
    int same[MAX_IN]; /* the index of the first operand that is the same value */
    Attr attr[MAX_ATTRS];
} OperatorCase;

enum { HIDDEN = 3 }; /* at most this many hidden slices */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A value that is two operands, as in matmul(w, w), ties their letters together: these get the larger of their sizes, or the dimension's
 * own size where one dimension has no letter. */
static void tie_letters(const OperatorCase *p, const Letters *letters, int64_t *size) {
    for (bool tied = false; !tied;) {
        tied = true;
        for (int i = 0; i < p->nin; i++)
            for (int d = 0; p->same[i] < i && d < p->in[i].shape.ndim; d++) {
                const int a = letters->in[i][d], b = letters->in[p->same[i]][d];
                const int64_t whole = p->in[i].shape.dim[d], of_a = a < 0 ? whole : size[a], of_b = b < 0 ? whole : size[b],
                              most = of_a > of_b ? of_a : of_b;
                if (of_a == of_b) continue;
                if (a >= 0) size[a] = most;
                if (b >= 0) size[b] = most;
                tied = false;
            }
    }
}

/* Gives the letters small sizes. Neighbouring sizes differ, so that exchanging two letters is noticed. */
static void shrink_letters(OperatorCase *p, const Graph *graph, const Node *node, const Letters *letters) {
    int64_t size[32];
    for (int l = 0; l < letters->n; l++)
        size[l] = least(letters->size[l], 2 + l % 4);
    tie_letters(p, letters, size);
    for (int i = 0; i < p->nin; i++)
        for (int d = 0; d < p->in[i].shape.ndim; d++)
            if (letters->in[i][d] >= 0) p->in[i].shape.dim[d] = size[(int)letters->in[i][d]];
    int replicas = op_attr(node->op, "replicas");
    if (replicas >= 0 && graph->values.at[node->out[0]].type.hidden) p->attr[replicas].i = size[(int)letters->out[0][0]];
}

/* Divides pairs of an operand's and a result's dimension by common primes while neither becomes 1. This keeps the groups of dimensions,
 * with fewer elements. */
static void shrink_reshape(OperatorCase *p, const TensorType *result) {
    Shape *x = &p->in[0].shape, y = result->shape;
    int hidden = p->in[0].hidden;
    if (hidden) x->dim[0] = least(x->dim[0], HIDDEN);
    for (int i = hidden; i < x->ndim; i++)
        for (int o = hidden; o < y.ndim; o++)
            for (int64_t prime = 2; prime * 2 <= x->dim[i] && prime * 2 <= y.dim[o] && prime < 1000;) {
                if (x->dim[i] % prime == 0 && y.dim[o] % prime == 0) {
                    x->dim[i] /= prime;
                    y.dim[o] /= prime;
                } else {
                    prime++;
                }
            }
    p->attr[0].n = y.ndim - hidden;
    memcpy(p->attr[0].ints, y.dim + hidden, sizeof *y.dim * (size_t)p->attr[0].n);
}

/* Shrinks a sliced dimension: two elements are kept, and one each is cut off before and after them. */
static void shrink_slice(OperatorCase *p, const TensorType *whole) {
    for (int k = 0; k < whole->shape.ndim - whole->hidden; k++) {
        int d = whole->hidden + k;
        int64_t size = whole->shape.dim[d], begin = p->attr[0].ints[k], end = p->attr[1].ints[k];
        begin += begin < 0 ? size : 0;
        end += end < 0 ? size : 0;
        if (begin == 0 && end == size) {
            p->attr[0].ints[k] = 0; /* it may have been counted from the end */
            p->attr[1].ints[k] = p->in[0].shape.dim[d];
            continue;
        }
        int64_t before = least(begin, 1), kept = least(end - begin, 2), after = least(size - end, 1);
        p->in[0].shape.dim[d] = before + kept + after;
        p->attr[0].ints[k] = before;
        p->attr[1].ints[k] = before + kept;
    }
}

/* Shrinks the padding to one element each before and after. */
static void shrink_padding(OperatorCase *p, const TensorType *dy, const TensorType *result) {
    for (int k = 0; k < result->shape.ndim - result->hidden; k++) {
        const int d = result->hidden + k;
        int64_t size = result->shape.dim[d], begin = p->attr[0].ints[k], end = p->attr[1].ints[k], *kept = &p->in[0].shape.dim[d];
        begin = least(begin + (begin < 0 ? size : 0), 1);
        const int64_t after = least(size - (end + (end < 0 ? size : 0)), 1);
        if (begin + after > 0) *kept = least(dy->shape.dim[d], 2);
        p->attr[0].ints[k] = begin;
        p->attr[1].ints[k] = begin + *kept;
        p->attr[2].ints[k] = begin + *kept + after;
    }
}

/* Shrinks keys and widths, which have no letters. This comes before the letters are shrunk, as a value that is two operands ties letters to
 * these dimensions. */
static void shrink_attention(OperatorCase *p) {
    enum { KEYS = 5, WIDTH = 3 };
    const int lead = p->in[1].shape.ndim - 2, width = p->in[0].shape.ndim - 1;
    const int64_t keys = p->in[1].shape.dim[lead], few = least(keys, KEYS);
    int64_t *of_mask = p->nin > 3 ? &p->in[3].shape.dim[p->in[3].shape.ndim - 1] : NULL;
    if (of_mask != NULL && *of_mask == keys) *of_mask = few;
    p->in[0].shape.dim[width] = p->in[1].shape.dim[lead + 1] = least(p->in[0].shape.dim[width], WIDTH);
    p->in[1].shape.dim[lead] = p->in[2].shape.dim[lead] = few;
    p->in[2].shape.dim[lead + 1] = least(p->in[2].shape.dim[lead + 1], WIDTH + (p->same[2] == 2));
}

static int axis_at(const OperatorCase *p, int64_t otherwise) {
    const Attr *axis = &p->attr[op_attr(p->op, "axis")];
    int ndim = p->in[0].shape.ndim - p->in[0].hidden;
    int64_t at = axis->given ? axis->i : otherwise;
    return (int)(at < 0 ? at + ndim : at) + p->in[0].hidden;
}

static bool shrink(OperatorCase *p, const Graph *graph, const Node *node, char *why, size_t n) {
    Letters letters;
    if (!node_letters(graph, node, &letters, why, n)) return false;
    if (letters.reshape) {
        shrink_reshape(p, &graph->values.at[node->out[0]].type);
        return true;
    }
    if (node->op == OP_dot_product_attention) shrink_attention(p);
    shrink_letters(p, graph, node, &letters);
    if (node->op == OP_slice) shrink_slice(p, &graph->values.at[node->in[0]].type);
    if (node->op == OP_slice_grad) shrink_padding(p, &graph->values.at[node->in[0]].type, &graph->values.at[node->out[0]].type);
    if (is_windowed(node->op)) {
        TensorType result = p->in[0];
        windowed_shrink(graph, node, NULL, (Shape *[]){&p->in[0].shape, p->nin > 1 ? &p->in[1].shape : &result.shape, NULL}, p->attr);
        Attr *shape = node->op == OP_avg_pool_grad ? &p->attr[op_attr(node->op, "shape")] : NULL;
        for (int d = 0; shape && d < shape->n; d++)
            shape->ints[d] = result.shape.dim[result.hidden + d];
    }
    for (int i = 0; node->op == OP_concat && i < p->nin; i++) {
        int64_t *size = &p->in[i].shape.dim[axis_at(p, 0)];
        *size = least(graph->values.at[node->in[i]].type.shape.dim[axis_at(p, 0)], 1 + p->same[i] % 3);
    }
    if (node->op == OP_cross_entropy_rows) {
        int64_t *classes = &p->in[0].shape.dim[p->in[0].shape.ndim - 1];
        *classes = least(*classes, 5);
    }
    if (node->op == OP_split) {
        int64_t size = graph->values.at[node->in[0]].type.shape.dim[axis_at(p, 0)], parts = p->attr[op_attr(OP_split, "parts")].i;
        p->in[0].shape.dim[axis_at(p, 0)] = parts * least(size / parts, 2);
    }
    return true;
}

static void pattern_of(OperatorCase *p, const Graph *graph, const Node *node) {
    memset(p, 0, sizeof *p);
    p->op = node->op;
    p->nin = node->nin;
    memcpy(p->attr, node->attr, sizeof p->attr);
    for (int i = 0; i < node->nin; i++) {
        p->in[i] = graph->values.at[node->in[i]].type;
        p->same[i] = i;
        for (int j = i - 1; j >= 0; j--)
            if (node->in[j] == node->in[i]) p->same[i] = j;
    }
}

static void pattern_key(Key *key, const OperatorCase *p) {
    key_begin(key);
    key_add(key, (uint64_t)p->op);
    key_attrs(key, p->op, p->attr);
    for (int i = 0; i < p->nin; i++) {
        key_add(key, (uint64_t)p->same[i]);
        key_type(key, &p->in[i]);
    }
}

/* ---------------------------------------------------------------- the check */

/* A graph of the operator alone, with its results' gradients as inputs, and its adjoint. */
typedef struct Alone {
    Graph graph;
    int node, in[MAX_IN], dy[MAX_OUT], dx[MAX_IN];
} Alone;

static int add_input(Graph *graph, TensorType type, const char *name, int number) {
    Input input = {.name = arena_printf(graph->arena, "%s%d", name, number), .type = type};
    return graph_input(graph, graph_add_input(graph, input));
}

static bool alone_build(Alone *a, const OperatorCase *p, Arena *arena, char *why, size_t n) {
    RuleError error;
    graph_init(&a->graph, arena);
    a->graph.nranks = 1;
    for (int i = 0; i < p->nin; i++)
        a->in[i] = p->same[i] < i ? a->in[p->same[i]] : add_input(&a->graph, p->in[i], "x", i);
    a->node = graph_add(&a->graph, p->op, a->in, p->nin, p->attr, "y", (Span){0}, &error);
    if (a->node < 0) {
        snprintf(why, n, "at small sizes: %.200s", error.text);
        return false;
    }
    int nout = a->graph.nodes.at[a->node].nout, named = op_named(p->op, nout);
    for (int k = 0; k < nout; k++)
        a->dy[k] = k < named ? add_input(&a->graph, a->graph.values.at[a->graph.nodes.at[a->node].out[k]].type, "dy", k) : -1;
    for (int i = 0; i < MAX_IN; i++)
        a->dx[i] = -1;
    op_table[p->op].adjoint(&a->graph, a->node, a->dy, a->dx);
    graph_find_indices(&a->graph);
    return true;
}

/* Compares <dy, derivative along v> with the sum of <dx_i, v_i>. */
static bool alone_compare(const Alone *a, const OperatorCase *p, uint64_t seed, Arena *arena, char *why, size_t n) {
    const Graph *graph = &a->graph;
    const Node *node = &graph->nodes.at[a->node];
    FieldTensor *values = arena_alloc(arena, sizeof *values * (size_t)graph->values.n);
    FieldTensor in[MAX_IN], din[MAX_IN], out[MAX_OUT], dout[MAX_OUT];
    if (!field_graph(graph, graph->nodes.n, seed, arena, values, why, n)) return false;
    Fe forward = 0, backward = 0;
    for (int i = 0; i < node->nin; i++) {
        in[i] = din[i] = values[node->in[i]];
        int64_t elements = shape_elements(&in[i].global);
        din[i].at = arena_alloc(arena, sizeof(Fe) * (size_t)elements);
        if (!field_leaf(graph, graph_producer(graph, node->in[i]), seed + 1, &din[i], why, n)) return false;
        if (a->dx[i] < 0) continue;
        if (!shape_equal(&values[a->dx[i]].global, &in[i].global)) {
            snprintf(why, n, "the gradient of operand %d has another shape", i);
            return false;
        }
        backward = fe_add(backward, fe_dot(values[a->dx[i]].at, din[i].at, elements));
    }
    for (int k = 0; k < node->nout; k++) {
        out[k] = dout[k] = values[node->out[k]];
        dout[k].at = arena_alloc(arena, sizeof(Fe) * (size_t)shape_elements(&out[k].global));
    }
    if (!field_tangent(graph, node, in, din, out, dout, why, n)) return false;
    for (int k = 0; k < node->nout; k++)
        if (dout[k].at && a->dy[k] >= 0) forward = fe_add(forward, fe_dot(values[a->dy[k]].at, dout[k].at, shape_elements(&out[k].global)));
    /* The gradient of a value that data_parallel replicates is the mean of the replicas' gradients. */
    if (p->op == OP_replicate && p->attr[op_attr(OP_replicate, "mean")].i)
        forward = fe_mul(forward, fe_inverse(fe_integer(out[0].global.dim[0])));
    if (forward == backward) return true;
    snprintf(why, n, "its adjoint is not its derivative's");
    return false;
}

static bool pattern_check(const OperatorCase *p, uint64_t seed, char *why, size_t n) {
    Arena arena;
    Alone alone;
    arena_init(&arena);
    bool ok = alone_build(&alone, p, &arena, why, n) && alone_compare(&alone, p, seed, &arena, why, n);
    arena_finish(&arena);
    return ok;
}

bool field_operator_gradients(const Graph *graph, uint64_t seed, int *npatterns, char *why, size_t n) {
    Arena arena;
    arena_init(&arena);
    SeenTable whole = {0}, small = {0}; /* the operators at full size, and shrunk */
    Key *key = arena_alloc(&arena, sizeof *key);
    char reason[512];
    *npatterns = 0;
    bool ok = true;
    for (int i = 0; ok && i < graph_nforward(graph); i++) {
        const Node *node = &graph->nodes.at[i];
        if (!op_table[node->op].adjoint || !dtype_is_float(graph->values.at[node->out[0]].type.dtype)) continue;
        OperatorCase p;
        pattern_of(&p, graph, node);
        pattern_key(key, &p);
        if (seen_before(&whole, &arena, key)) continue;
        ok = shrink(&p, graph, node, reason, sizeof reason);
        pattern_key(key, &p);
        if (ok && seen_before(&small, &arena, key)) continue;
        ok = ok && pattern_check(&p, seed, reason, sizeof reason);
        (*npatterns)++;
        if (!ok) snprintf(why, n, "%s: %s", node->name, reason);
    }
    arena_finish(&arena);
    return ok;
}
