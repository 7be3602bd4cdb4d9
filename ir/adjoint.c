/* Gradients by operator: each function adds the nodes that turn the results' gradients into the operands'. Every node goes through
 * graph_emit_gradient, which maps its factors to the forward operator's. For each tensor it is told which tensor of the forward operator has
 * the same shape: the result (PART_OUT) or an operand. Shapes in attributes leave the hidden dimension out. */
#include "ir/graph.h"
#include "ir/rules.h"

#include <assert.h>
#include <string.h>

/* The shape of a value without its hidden dimension, as an attribute. */
static Attr shape_attr(const Graph *graph, int value) {
    const TensorType *type = &graph->values.at[value].type;
    Attr attr = {.given = true, .n = type->shape.ndim - type->hidden};
    memcpy(attr.ints, type->shape.dim + type->hidden, sizeof *attr.ints * (size_t)attr.n);
    return attr;
}

/* "h.grad" for operand h. */
static const char *grad_name(const Graph *graph, int node, int operand) {
    return arena_printf(graph->arena, "%s.grad", graph->values.at[graph->nodes.at[node].in[operand]].name);
}

/* A node of one operand. */
static int emit1(Graph *graph, int node, OpCode op, int x, int x_part, int out_part, const Attr *attr, const char *name) {
    return graph_emit_gradient(graph, node, op, &x, &x_part, 1, out_part, attr, name);
}

static int emit2(Graph *graph, int node, OpCode op, int a, int a_part, int b, int b_part, int out_part, const char *name) {
    return graph_emit_gradient(graph, node, op, (int[]){a, b}, (int[]){a_part, b_part}, 2, out_part, NULL, name);
}

/* Sums a value of the result's shape to the shape of an operand that was broadcast; returns the value itself where it was not. */
static int unbroadcast(Graph *graph, int node, int value, int operand) {
    int target = graph->nodes.at[node].in[operand];
    if (shape_equal(&graph->values.at[value].type.shape, &graph->values.at[target].type.shape)) return value;
    Attr attr[MAX_ATTRS] = {shape_attr(graph, target)};
    return emit1(graph, node, OP_sum_to, value, PART_OUT, operand, attr, grad_name(graph, node, operand));
}

/* ---------------------------------------------------------------- elementwise */

void adjoint_add(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = unbroadcast(graph, node, dy[0], 0);
    dx[1] = unbroadcast(graph, node, dy[0], 1);
}

void adjoint_sub(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = unbroadcast(graph, node, dy[0], 0);
    int sum = unbroadcast(graph, node, dy[0], 1); /* first: negating the smaller one is cheaper */
    dx[1] = emit1(graph, node, OP_neg, sum, 1, 1, NULL, grad_name(graph, node, 1));
}

void adjoint_mul(Graph *graph, int node, const int *dy, int *dx) {
    int a = graph->nodes.at[node].in[0], b = graph->nodes.at[node].in[1];
    dx[0] = unbroadcast(graph, node, emit2(graph, node, OP_mul, dy[0], PART_OUT, b, 1, PART_OUT, grad_name(graph, node, 0)), 0);
    if (a == b)
        dx[1] = dx[0];
    else
        dx[1] = unbroadcast(graph, node, emit2(graph, node, OP_mul, dy[0], PART_OUT, a, 0, PART_OUT, grad_name(graph, node, 1)), 1);
}

/* y = a / b: da = dy / b, db = -dy y / b. */
void adjoint_div(Graph *graph, int node, const int *dy, int *dx) {
    int b = graph->nodes.at[node].in[1], y = graph->nodes.at[node].out[0];
    int scaled = emit2(graph, node, OP_div, dy[0], PART_OUT, b, 1, PART_OUT, grad_name(graph, node, 0));
    dx[0] = unbroadcast(graph, node, scaled, 0);
    int product = emit2(graph, node, OP_mul, scaled, PART_OUT, y, PART_OUT, PART_OUT, grad_name(graph, node, 1));
    dx[1] = emit1(graph, node, OP_neg, unbroadcast(graph, node, product, 1), 1, 1, NULL, grad_name(graph, node, 1));
}

void adjoint_neg(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = emit1(graph, node, OP_neg, dy[0], PART_OUT, 0, NULL, grad_name(graph, node, 0));
}

static int emit_of_result(Graph *graph, int node, OpCode op, int dy) {
    return emit2(graph, node, op, graph->nodes.at[node].out[0], PART_OUT, dy, PART_OUT, 0, grad_name(graph, node, 0));
}

/* gradient(y, dy), y the result. */
void adjoint_of_result(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = emit_of_result(graph, node, (OpCode)op_table[graph->nodes.at[node].op].gradient, dy[0]);
}

/* gradient(x, dy), x the operand, with the attributes of the forward operator. */
void adjoint_of_operand(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: a node is added */
    dx[0] = graph_emit_gradient(graph, node, (OpCode)op_table[forward.op].gradient, (int[]){forward.in[0], dy[0]}, (int[]){0, PART_OUT}, 2,
                                0, forward.attr, grad_name(graph, node, 0));
}

/* Gradients dy f(x), with f an operator of the table. */
static int adjoint_times(Graph *graph, int node, OpCode op, int dy) {
    int slope = emit1(graph, node, op, graph->nodes.at[node].in[0], 0, 0, NULL, grad_name(graph, node, 0));
    return emit2(graph, node, OP_mul, dy, PART_OUT, slope, 0, 0, grad_name(graph, node, 0));
}

void adjoint_softplus(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = adjoint_times(graph, node, OP_sigmoid, dy[0]);
}

void adjoint_sin(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = adjoint_times(graph, node, OP_cos, dy[0]);
}

void adjoint_cos(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = emit1(graph, node, OP_neg, adjoint_times(graph, node, OP_sin, dy[0]), 0, 0, NULL, grad_name(graph, node, 0));
}

/* The part of dy that operand i gets: all where it is the larger one, half where both are equal, else none. turned: the smaller one. */
static int adjoint_of_larger(Graph *graph, int node, int i, bool turned, int dy) {
    const int *in = graph->nodes.at[node].in, other = 1 - i, first = turned ? other : i;
    int share = emit2(graph, node, OP_max_share, in[first], first, in[1 - first], 1 - first, PART_OUT, grad_name(graph, node, i));
    return unbroadcast(graph, node, emit2(graph, node, OP_mul, dy, PART_OUT, share, PART_OUT, PART_OUT, grad_name(graph, node, i)), i);
}

void adjoint_maximum(Graph *graph, int node, const int *dy, int *dx) {
    for (int i = 0; i < 2; i++)
        dx[i] = adjoint_of_larger(graph, node, i, false, dy[0]);
}

void adjoint_minimum(Graph *graph, int node, const int *dy, int *dx) {
    for (int i = 0; i < 2; i++)
        dx[i] = adjoint_of_larger(graph, node, i, true, dy[0]);
}

/* A constant as an operand of a node. */
static int emit_constant(Graph *graph, int node, double number) {
    TensorType single = graph->values.at[graph->nodes.at[node].out[0]].type;
    single.shape.ndim = single.hidden;
    return graph_constant(graph, single, NULL, number, number == 0 ? "zero" : "one", graph->nodes.at[node].span);
}

static int emit_where(Graph *graph, int node, int cond, int cond_part, int a, int a_part, int b, int b_part, int out_part,
                      const char *name) {
    return graph_emit_gradient(graph, node, OP_where, (int[]){cond, a, b}, (int[]){cond_part, a_part, b_part}, 3, out_part, NULL, name);
}

/* y = a^b: da = dy b a^(b - 1), 0 where b is 0; db = dy y log(a), 0 where a is 0. */
void adjoint_pow(Graph *graph, int node, const int *dy, int *dx) {
    const int a = graph->nodes.at[node].in[0], b = graph->nodes.at[node].in[1], y = graph->nodes.at[node].out[0];
    const int zero = emit_constant(graph, node, 0), one = emit_constant(graph, node, 1);
    const char *name = grad_name(graph, node, 0);
    int less = emit2(graph, node, OP_sub, b, 1, one, PART_NONE, 1, name);
    int slope = emit2(graph, node, OP_mul, emit2(graph, node, OP_pow, a, 0, less, 1, PART_OUT, name), PART_OUT, b, 1, PART_OUT, name);
    int still = emit2(graph, node, OP_equal, b, 1, zero, PART_NONE, 1, name);
    slope = emit_where(graph, node, still, 1, zero, PART_NONE, slope, PART_OUT, PART_OUT, name);
    dx[0] = unbroadcast(graph, node, emit2(graph, node, OP_mul, dy[0], PART_OUT, slope, PART_OUT, PART_OUT, name), 0);
    name = grad_name(graph, node, 1);
    int none = emit2(graph, node, OP_equal, a, 0, zero, PART_NONE, 0, name);
    int base = emit_where(graph, node, none, 0, one, PART_NONE, a, 0, 0, name);
    int log = emit1(graph, node, OP_log, base, 0, 0, NULL, name);
    slope = emit2(graph, node, OP_mul, y, PART_OUT, log, 0, PART_OUT, name);
    dx[1] = unbroadcast(graph, node, emit2(graph, node, OP_mul, dy[0], PART_OUT, slope, PART_OUT, PART_OUT, name), 1);
}

void adjoint_exp(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = emit_of_result(graph, node, OP_mul, dy[0]);
}

void adjoint_log(Graph *graph, int node, const int *dy, int *dx) {
    int x = graph->nodes.at[node].in[0];
    dx[0] = emit2(graph, node, OP_div, dy[0], PART_OUT, x, 0, 0, grad_name(graph, node, 0));
}

/* ---------------------------------------------------------------- reductions, movement */

static int adjoint_of_reduction(Graph *graph, int node, OpCode op, int dy) {
    const Node *forward = &graph->nodes.at[node];
    Attr attr[MAX_ATTRS] = {forward->attr[0], shape_attr(graph, forward->in[0])};
    return emit1(graph, node, op, dy, PART_OUT, 0, attr, grad_name(graph, node, 0));
}

void adjoint_sum(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = adjoint_of_reduction(graph, node, OP_sum_grad, dy[0]);
}

void adjoint_mean(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = adjoint_of_reduction(graph, node, OP_mean_grad, dy[0]);
}

/* The elements that equal the maximum, or minimum, share dy: mask * (dy / count), with count the sum of the mask. Where a reduced axis is split, only count is
 * a partial sum; nothing is gathered. */
void adjoint_max(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: nodes are added */
    const char *name = grad_name(graph, node, 0);
    Attr expand[MAX_ATTRS] = {forward.attr[0], shape_attr(graph, forward.in[0])};
    int y = emit1(graph, node, OP_sum_grad, forward.out[0], PART_OUT, 0, expand, name);
    int mask = emit2(graph, node, OP_max_mask, forward.in[0], 0, y, 0, 0, name);
    int count = emit1(graph, node, OP_sum, mask, 0, PART_OUT, forward.attr, name);
    int share = emit2(graph, node, OP_div, dy[0], PART_OUT, count, PART_OUT, PART_OUT, name);
    int spread = emit1(graph, node, OP_sum_grad, share, PART_OUT, 0, expand, name);
    dx[0] = emit2(graph, node, OP_mul, mask, 0, spread, 0, 0, name);
}

/* Gradients of whole rows: op(y, dy), along the forward operator's axis. */
static int adjoint_of_rows(Graph *graph, int node, OpCode op, int dy) {
    const Node forward = graph->nodes.at[node];
    return graph_emit_gradient(graph, node, op, (int[]){forward.out[0], dy}, (int[]){PART_OUT, PART_OUT}, 2, 0, forward.attr,
                               grad_name(graph, node, 0));
}

void adjoint_softmax(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = adjoint_of_rows(graph, node, OP_softmax_grad, dy[0]);
}

void adjoint_log_softmax(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = adjoint_of_rows(graph, node, OP_log_softmax_grad, dy[0]);
}

void adjoint_slice(Graph *graph, int node, const int *dy, int *dx) {
    const Node *forward = &graph->nodes.at[node];
    Attr attr[MAX_ATTRS] = {forward->attr[0], forward->attr[1], shape_attr(graph, forward->in[0])};
    dx[0] = emit1(graph, node, OP_slice_grad, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

/* The gradient of a slice pads with zeros, so its own gradient is the slice. */
void adjoint_slice_grad(Graph *graph, int node, const int *dy, int *dx) {
    const Node *forward = &graph->nodes.at[node];
    const Attr attr[MAX_ATTRS] = {forward->attr[0], forward->attr[1]};
    dx[0] = emit1(graph, node, OP_slice, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

void expand_pad(Graph *graph, const Node *node, int *out) {
    const Attr x = shape_attr(graph, node->in[0]), *before = &node->attr[0], *after = &node->attr[1];
    Attr attr[MAX_ATTRS] = {*before, *before, *before};
    for (int d = 0; d < x.n; d++) {
        attr[1].ints[d] += x.ints[d];
        attr[2].ints[d] += x.ints[d] + after->ints[d];
    }
    out[0] = graph_emit(graph, OP_slice_grad, node->in, 1, attr, arena_printf(graph->arena, "%s.padded", node->name), node->span);
}

static int axis_of(const Attr *axis, int ndim) {
    return (int)(axis->i < 0 ? axis->i + ndim : axis->i);
}

/* Each operand's gradient is its part of dy. */
void adjoint_concat(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    Attr whole = shape_attr(graph, forward.out[0]);
    int axis = axis_of(&forward.attr[0], whole.n);
    int64_t at = 0;
    for (int i = 0; i < forward.nin; i++) {
        Attr attr[MAX_ATTRS] = {{.given = true, .n = whole.n}, whole};
        attr[0].ints[axis] = at;
        at += shape_attr(graph, forward.in[i]).ints[axis];
        attr[1].ints[axis] = at;
        dx[i] = emit1(graph, node, OP_slice, dy[0], PART_OUT, i, attr, grad_name(graph, node, i));
    }
}

/* Each result becomes a slice of its own. */
void split_split(Graph *graph, const Node *node, int *out) {
    const Attr whole = shape_attr(graph, node->in[0]);
    const int axis = axis_of(&node->attr[1], whole.n);
    Attr attr[MAX_ATTRS] = {{.given = true, .n = whole.n}, whole};
    for (int o = 0; o < node->nout; o++) {
        attr[0].ints[axis] = whole.ints[axis] / node->nout * o;
        attr[1].ints[axis] = whole.ints[axis] / node->nout * (o + 1);
        out[o] = graph_emit(graph, OP_slice, node->in, 1, attr, node->name, node->span);
    }
}

/* Concatenates the results' gradients; zeros stand for a result that nobody used. */
void adjoint_split(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const char *name = grad_name(graph, node, 0);
    int in[MAX_OUT], part[MAX_OUT];
    for (int o = 0; o < forward.nout; o++) {
        in[o] = dy[o] >= 0 ? dy[o] : graph_constant(graph, graph->values.at[forward.out[o]].type, NULL, 0, name, forward.span);
        part[o] = PART_OUT + o;
    }
    Attr attr[MAX_ATTRS] = {forward.attr[1]};
    dx[0] = forward.nout == 1 ? in[0] : graph_emit_gradient(graph, node, OP_concat, in, part, forward.nout, 0, attr, name);
}

void adjoint_transpose(Graph *graph, int node, const int *dy, int *dx) {
    const Attr *perm = &graph->nodes.at[node].attr[0];
    Attr attr[MAX_ATTRS] = {*perm}; /* left out: reversed, which is its own inverse */
    for (int d = 0; d < perm->n; d++)
        attr[0].ints[perm->ints[d] < 0 ? perm->ints[d] + perm->n : perm->ints[d]] = d;
    dx[0] = emit1(graph, node, OP_transpose, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

void adjoint_reshape(Graph *graph, int node, const int *dy, int *dx) {
    Attr attr[MAX_ATTRS] = {shape_attr(graph, graph->nodes.at[node].in[0])};
    dx[0] = emit1(graph, node, OP_reshape, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

/* A parameter used by every replica: its gradient sums theirs. */
void adjoint_replicate(Graph *graph, int node, const int *dy, int *dx) {
    Attr attr[MAX_ATTRS] = {graph->nodes.at[node].attr[1]};
    dx[0] = emit1(graph, node, OP_replica_sum, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

void adjoint_expose(Graph *graph, int node, const int *dy, int *dx) {
    Attr attr[MAX_ATTRS] = {{.given = true, .i = !graph->nodes.at[node].attr[0].i}};
    dx[0] = emit1(graph, node, OP_expose, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

/* ---------------------------------------------------------------- products */

/* The letters of a tensor's dimensions by its factors; a dimension without one (size 1, broadcast) gets a letter of its own from *fresh,
 * or is left out where fresh is NULL. Returns the end. */
static char *spec_letters(char *at, const int8_t *factor, const TensorType *type, char *fresh) {
    for (int d = type->hidden; d < type->shape.ndim; d++) {
        if (factor[d] >= 0)
            *at++ = (char)('a' + factor[d]);
        else if (fresh)
            *at++ = (*fresh)++;
    }
    return at;
}

/* Whether a value is a parameter that was cast to 16 bits, and is used by products alone: its gradients are computed as f32, and not rounded to 16 bits. */
static bool is_narrowed_parameter(const Graph *graph, int value) {
    const Node *cast = graph_producer(graph, value);
    if (cast->op != OP_cast || !dtype_is_half(graph->values.at[value].type.dtype) || graph->values.at[cast->in[0]].type.dtype != F32)
        return false;
    const Node *from = graph_producer(graph, cast->in[0]);
    if (from->op == OP_replicate) from = graph_producer(graph, from->in[0]);
    for (int n = 0; from->op == OP_read && n < graph->nforward; n++)
        for (int i = 0; i < graph->nodes.at[n].nin; i++)
            if (graph->nodes.at[n].in[i] == value && graph->nodes.at[n].op != OP_matmul && graph->nodes.at[n].op != OP_einsum) return false;
    return from->op == OP_read;
}

/* The gradient of operand `wanted` of a product of two operands: the einsum of dy with the other operand that keeps the letters of
 * `wanted`. It sums over the batch dimensions in which `wanted` was broadcast. */
static int product_grad(Graph *graph, int node, int wanted, int dy) {
    const Node *forward = &graph->nodes.at[node];
    const Rule *rule = forward->rule;
    int other = forward->in[1 - wanted], target = forward->in[wanted];
    const TensorType *dy_type = &graph->values.at[dy].type, *other_type = &graph->values.at[other].type,
                     *target_type = &graph->values.at[target].type;

    /* Operands stay on their side: da = dy b, db = a dy. */
    bool dy_first = wanted == 0;
    char spec[3 * MAX_NDIM + 4], *at = spec, fresh = (char)('a' + rule->nfactors);
    const int8_t *dy_factor = rule->out[0], *other_factor = rule->in[1 - wanted];
    at = spec_letters(at, dy_first ? dy_factor : other_factor, dy_first ? dy_type : other_type, &fresh);
    *at++ = ',';
    at = spec_letters(at, dy_first ? other_factor : dy_factor, dy_first ? other_type : dy_type, &fresh);
    *at++ = '-';
    *at++ = '>';
    char *result = at;
    at = spec_letters(at, rule->in[wanted], target_type, NULL);
    bool complete = at - result == target_type->shape.ndim - target_type->hidden;

    const bool wide = is_narrowed_parameter(graph, target);
    Attr attr[MAX_ATTRS] = {{.given = true, .text = arena_copy(graph->arena, spec, (size_t)(at - spec))}, {.given = wide, .i = wide}};
    const char *name = grad_name(graph, node, wanted);
    int in[2] = {dy_first ? dy : other, dy_first ? other : dy};
    int part[2] = {dy_first ? PART_OUT : 1 - wanted, dy_first ? 1 - wanted : PART_OUT};
    int value = graph_emit_gradient(graph, node, OP_einsum, in, part, 2, complete ? wanted : PART_NONE, attr, name);
    if (complete) return value;
    Attr shape[MAX_ATTRS] = {shape_attr(graph, target)}; /* puts the dimensions of size 1 back */
    return emit1(graph, node, OP_reshape, value, PART_NONE, wanted, shape, name);
}

void adjoint_einsum(Graph *graph, int node, const int *dy, int *dx) {
    dx[0] = product_grad(graph, node, 0, dy[0]);
    dx[1] = product_grad(graph, node, 1, dy[0]);
}

/* ---------------------------------------------------------------- by index */

void adjoint_pick(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const TensorType *x = &graph->values.at[forward.in[0]].type;
    Attr attr[MAX_ATTRS] = {{.given = true, .i = x->shape.dim[x->shape.ndim - 1]}};
    dx[0] = graph_emit_gradient(graph, node, OP_pick_grad, (int[]){dy[0], forward.in[1]}, (int[]){PART_OUT, 1}, 2, 0, attr,
                                grad_name(graph, node, 0));
}

void adjoint_cross_entropy_rows(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const int in[5] = {forward.in[0], dy[0], forward.in[1], forward.out[1], forward.out[2]};
    dx[0] = graph_emit_gradient(graph, node, OP_cross_entropy_rows_grad, in, (int[]){0, PART_OUT, 1, PART_OUT + 1, PART_OUT + 2}, 5, 0,
                                forward.attr, grad_name(graph, node, 0));
}

void adjoint_embedding(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const TensorType *table = &graph->values.at[forward.in[0]].type;
    Attr attr[MAX_ATTRS] = {{.given = true, .i = table->shape.dim[(int)table->hidden]}};
    dx[0] = graph_emit_gradient(graph, node, OP_embedding_grad, (int[]){dy[0], forward.in[1]}, (int[]){PART_OUT, 1}, 2, 0, attr,
                                grad_name(graph, node, 0));
}

/* ---------------------------------------------------------------- element types, selection */

/* A cast between reals casts dy back; a cast from or to an integer has no gradient. */
void adjoint_cast(Graph *graph, int node, const int *dy, int *dx) {
    DType from = graph->values.at[graph->nodes.at[node].in[0]].type.dtype;
    if (!dtype_is_float(from) || !dtype_is_float(graph->values.at[dy[0]].type.dtype)) return;
    if (from == graph->values.at[dy[0]].type.dtype) { /* dy is already of that type: it comes from a wide product */
        dx[0] = dy[0];
        return;
    }
    Attr attr[MAX_ATTRS] = {{.given = true, .text = dtype_name[from]}};
    dx[0] = emit1(graph, node, OP_cast, dy[0], PART_OUT, 0, attr, grad_name(graph, node, 0));
}

/* An operand's gradient is dy where its element was taken, else 0. */
void adjoint_where(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const int zero = emit_constant(graph, node, 0);
    for (int i = 1; i < 3; i++) {
        int in[3] = {forward.in[0], dy[0], zero}, part[3] = {0, PART_OUT, PART_NONE}, other = 3 - i;
        in[i] = dy[0], part[i] = PART_OUT;
        in[other] = zero, part[other] = PART_NONE;
        dx[i] =
            unbroadcast(graph, node, graph_emit_gradient(graph, node, OP_where, in, part, 3, PART_OUT, NULL, grad_name(graph, node, i)), i);
    }
}

/* ---------------------------------------------------------------- composites */

/* Adds one operator of a composite's expansion, named "loss.max" and the like. */
static int emit_part(Graph *graph, const Node *node, OpCode op, const int *in, int nin, const Attr *attr, const char *what) {
    return graph_emit(graph, op, in, nin, attr, arena_printf(graph->arena, "%s.%s", node->name, what), node->span);
}

static int constant_like(Graph *graph, const Node *node, int value, double number, const char *what) {
    TensorType single = graph->values.at[value].type;
    single.shape.ndim = single.hidden;
    return graph_constant(graph, single, NULL, number, arena_printf(graph->arena, "%s.%s", node->name, what), node->span);
}

/* The mean over the rows whose label is not ignored. */
static int mean_of_kept(Graph *graph, const Node *node, int rows, int keep) {
    const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[rows].type.dtype]}};
    int ones = emit_part(graph, node, OP_cast, &keep, 1, to, "kept");
    int count = emit_part(graph, node, OP_sum, &ones, 1, NULL, "count"), sum = emit_part(graph, node, OP_sum, &rows, 1, NULL, "sum");
    return emit_part(graph, node, OP_div, (int[]){sum, count}, 2, NULL, "mean");
}

/* A row with an ignored label picks element 0, and then counts as 0. */
void expand_cross_entropy(Graph *graph, const Node *node, int *out) {
    const int logits = node->in[0];
    int label = node->in[1], keep = -1;
    const char *reduction = node->attr[0].given && node->attr[0].text ? node->attr[0].text : "mean";
    const Attr ignored = node->attr[1], smoothing[MAX_ATTRS] = {node->attr[2]};
    const DType dtype = graph->values.at[logits].type.dtype;
    if (ignored.given) {
        const int none = constant_like(graph, node, label, (double)ignored.i, "ignored");
        keep = emit_part(graph, node, OP_not_equal, (int[]){label, none}, 2, NULL, "keep");
        label = emit_part(graph, node, OP_where, (int[]){keep, label, constant_like(graph, node, label, 0, "first")}, 3, NULL, "label");
    }
    int rows = emit_part(graph, node, OP_cross_entropy_rows, (int[]){logits, label}, 2, smoothing, "rows");
    if (keep >= 0)
        rows = emit_part(graph, node, OP_where, (int[]){keep, rows, constant_like(graph, node, rows, 0, "nothing")}, 3, NULL, "kept_rows");
    if (strcmp(reduction, "sum") == 0)
        rows = emit_part(graph, node, OP_sum, &rows, 1, NULL, reduction);
    else if (strcmp(reduction, "mean") == 0)
        rows = keep >= 0 ? mean_of_kept(graph, node, rows, keep) : emit_part(graph, node, OP_mean, &rows, 1, NULL, reduction);
    if (dtype_is_half(dtype))
        rows = emit_part(graph, node, OP_cast, &rows, 1, (const Attr[MAX_ATTRS]){{.given = true, .text = dtype_name[dtype]}}, "narrow");
    out[0] = rows;
}

/* The first place of the largest element. Where the axis is split, only one number a row is reduced, twice: a maximum, then a minimum. */
void expand_argmax(Graph *graph, const Node *node, int *out) {
    const char *name = node->name;
    Span span = node->span;
    int x = node->in[0];
    const Attr kept[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {node->attr[0].given ? node->attr[0].i : -1}}, {.given = true, .i = 1}};
    const Attr axis[MAX_ATTRS] = {node->attr[0]};
    int most = graph_emit(graph, OP_max, &x, 1, kept, arena_printf(graph->arena, "%s.max", name), span);
    int places = graph_emit(graph, OP_equal, (int[]){x, most}, 2, NULL, arena_printf(graph->arena, "%s.equal", name), span);
    out[0] = graph_emit(graph, OP_first, &places, 1, axis, arena_printf(graph->arena, "%s.first", name), span);
}

/* max(x, 0) - x t + log(1 + exp(-|x|)) for each element: -(t log(p) + (1 - t) log(1 - p)) with p = sigmoid(x), but accurate where that is small. The gradient is
 * sigmoid(x) - t for every x: at 0 the gradient of the maximum is a half, and that of |x| is 0. */
void expand_bce_with_logits(Graph *graph, const Node *node, int *out) {
    const char *name = node->name, *reduction = node->attr[0].given ? node->attr[0].text : NULL;
    const bool sum = reduction && strcmp(reduction, "sum") == 0, each = reduction && strcmp(reduction, "none") == 0;
    Span span = node->span;
    int x = node->in[0], t = node->in[1];
    TensorType single = graph->values.at[x].type;
    single.shape.ndim = single.hidden;
    int zero = graph_constant(graph, single, NULL, 0, arena_printf(graph->arena, "%s.zero", name), span);
    int most = graph_emit(graph, OP_maximum, (int[]){x, zero}, 2, NULL, arena_printf(graph->arena, "%s.most", name), span);
    int product = graph_emit(graph, OP_mul, (int[]){x, t}, 2, NULL, arena_printf(graph->arena, "%s.product", name), span);
    int line = graph_emit(graph, OP_sub, (int[]){most, product}, 2, NULL, arena_printf(graph->arena, "%s.line", name), span);
    int size = graph_emit(graph, OP_abs, &x, 1, NULL, arena_printf(graph->arena, "%s.abs", name), span);
    int turned = graph_emit(graph, OP_neg, &size, 1, NULL, arena_printf(graph->arena, "%s.neg", name), span);
    int plus = graph_emit(graph, OP_softplus, &turned, 1, NULL, arena_printf(graph->arena, "%s.softplus", name), span);
    int loss = graph_emit(graph, OP_add, (int[]){line, plus}, 2, NULL, arena_printf(graph->arena, "%s.each", name), span);
    if (!each)
        loss =
            graph_emit(graph, sum ? OP_sum : OP_mean, &loss, 1, NULL, arena_printf(graph->arena, sum ? "%s.sum" : "%s.mean", name), span);
    out[0] = loss;
}

void expand_mse(Graph *graph, const Node *node, int *out) {
    int in[2] = {node->in[0], node->in[1]};
    const char *name = node->name;
    Span span = node->span;
    bool sum = node->attr[0].given && node->attr[0].text && strcmp(node->attr[0].text, "sum") == 0;
    int diff = graph_emit(graph, OP_sub, in, 2, NULL, arena_printf(graph->arena, "%s.diff", name), span);
    int square = graph_emit(graph, OP_mul, (int[]){diff, diff}, 2, NULL, arena_printf(graph->arena, "%s.square", name), span);
    int loss =
        graph_emit(graph, sum ? OP_sum : OP_mean, &square, 1, NULL, arena_printf(graph->arena, sum ? "%s.sum" : "%s.mean", name), span);
    out[0] = loss;
}
