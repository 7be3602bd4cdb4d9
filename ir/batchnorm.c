/* batchnorm: batch_norm, of each channel (dimension 1 of x) over all other dimensions: rules, the gradient, and the expansions of both where a strategy splits those.
 * Then only one number per channel crosses ranks: forward the mean and the variance; backward the gradients of weight and bias, from which that of x is computed.
 * In mode data_parallel with `batch_norm = global`, one batch_norm is computed over the concatenated rows of all replicas. */
#include "ir/expansion.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CHANNEL = 1 };                   /* the dimension of the channels */
enum { X, DY, WEIGHT, MEAN, VARIANCE }; /* operands of the gradient */
enum { PART_CHANNEL = 1 };              /* the operand with one number per channel, of the last node of the forward expansion */
enum { REDUCTIONS = 2 };                /* in each direction, forward and backward */

/* ---------------------------------------------------------------- rules */

/* The factors are x's dimensions. The operands from `first` on have one element per channel. */
static bool channel_factors(const TensorType *in, int nin, int first, const Attr *eps, Rule *rule, RuleError *error) {
    const Shape *x = &in[X].shape;
    char text[SHAPE_TEXT_BYTES];
    if (x->ndim < 2) return rule_reject(error, X, -1, "%%0 is %s, and needs the dimensions [n, c, ..]", shape_text(x, text));
    for (int d = 0; d < x->ndim; d++) {
        rule->in[X][d] = (int8_t)rule_add_factor(rule, x->dim[d]);
        if (d != CHANNEL) rule_expands(rule, rule->in[X][d], REDUCTIONS);
    }
    for (int i = first; i < nin; i++) {
        if (in[i].shape.ndim != 1 || in[i].shape.dim[0] != x->dim[CHANNEL]) {
            rule_reject(error, i, -1, "%%%d is %s: not an element for each channel", i, shape_text(&in[i].shape, text));
            rule_hint(error, "channels are dimension 1 of x: [%lld]", (long long)x->dim[CHANNEL]);
            return false;
        }
        rule->in[i][0] = rule->in[X][CHANNEL];
    }
    if (!(eps->f > 0) || !isfinite(eps->f)) return rule_reject(error, -1, 0, "eps is %g, and must be above 0", eps->f);
    return true;
}

/* Result 0 has the type and factors of x, the others those of operand `channel`. */
static bool channel_results(const TensorType *in, int channel, Rule *rule) {
    for (int o = 0; o < rule->nout; o++) {
        const int like = o == 0 ? X : channel;
        rule->result[o] = in[like];
        memcpy(rule->out[o], rule->in[like], sizeof rule->in[like]);
    }
    return true;
}

bool rule_batch_norm(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return channel_factors(in, nin, 1, &attr[0], rule, error) && channel_results(in, 1, rule);
}

bool rule_batch_norm_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    if (!shape_equal(&in[X].shape, &in[DY].shape)) return rule_reject(error, DY, -1, "%%0 and %%1 have different shapes");
    if (!channel_factors(in, nin, WEIGHT, &attr[0], rule, error)) return false;
    memcpy(rule->in[DY], rule->in[X], sizeof rule->in[X]);
    return channel_results(in, WEIGHT, rule);
}

/* ---------------------------------------------------------------- shapes */

/* x's dimensions, without the hidden one. */
static Attr sizes_of(const Graph *graph, int x) {
    const TensorType *type = &graph->values.at[x].type;
    Attr attr = {.given = true, .n = type->shape.ndim - type->hidden};
    memcpy(attr.ints, type->shape.dim + type->hidden, sizeof *attr.ints * (size_t)attr.n);
    return attr;
}

/* {axes, keep_dims} of a reduction of x to one number per channel, [1, c, 1, ..]. */
static void to_channels(const Graph *graph, int x, Attr attr[MAX_ATTRS]) {
    const int ndim = sizes_of(graph, x).n;
    reduction_along(attr, 1, ndim - 1); /* all axes but that of the channels */
    attr[0].ints[0] = 0;
    for (int d = CHANNEL + 1; d < ndim; d++)
        attr[0].ints[d - 1] = d;
}

/* {shape} of a reshape to [1, c, 1, ..], or to [c]. */
static void channel_shape(const Graph *graph, int x, bool wide, Attr attr[MAX_ATTRS]) {
    Attr sizes = sizes_of(graph, x);
    const int64_t channels = sizes.ints[CHANNEL];
    for (int d = 0; d < sizes.n; d++)
        sizes.ints[d] = d == CHANNEL ? channels : 1;
    if (!wide) sizes = (Attr){.given = true, .n = 1, .ints = {channels}};
    for (int a = 0; a < MAX_ATTRS; a++)
        attr[a] = a == 0 ? sizes : (Attr){0};
}

/* A scalar constant of a value's element type. */
static int number_beside(Graph *graph, const Node *node, int value, double number, const char *what) {
    TensorType type = graph->values.at[value].type;
    type.shape.ndim = type.hidden;
    return graph_constant(graph, type, NULL, number, arena_printf(graph->arena, "%s.%s", node->name, what), node->span);
}

/* ---------------------------------------------------------------- all replicas' rows */

/* Turns a value of every replica into one plain tensor [rows, ..], with the replicas' rows concatenated; hide: the way back. */
static int of_all(Graph *graph, const Node *node, int value, const Shape *shape, bool hide, const char *what) {
    const Attr hiding[MAX_ATTRS] = {{.given = hide, .i = hide}};
    Attr sizes[MAX_ATTRS] = {{.given = true, .n = shape->ndim}};
    memcpy(sizes[0].ints, shape->dim, sizeof *shape->dim * (size_t)shape->ndim);
    if (!hide) value = expand_emit(graph, node, OP_expose, value, -1, hiding, "all");
    value = expand_emit(graph, node, OP_reshape, value, -1, sizes, what);
    return hide ? expand_emit(graph, node, OP_expose, value, -1, hiding, what) : value;
}

/* Gives every replica the same number per channel. */
static int for_each_replica(Graph *graph, const Node *node, int number, const char *what) {
    const Shape *x = &graph->values.at[node->in[0]].type.shape;
    const Attr hide[MAX_ATTRS] = {{.given = true, .i = 1}};
    const TensorType type = {.dtype = graph->values.at[number].type.dtype, .shape = {.ndim = 2, .dim = {x->dim[0], x->dim[1 + CHANNEL]}}};
    const int zeros = graph_constant(graph, type, NULL, 0, arena_printf(graph->arena, "%s.zeros", node->name), node->span);
    return expand_emit(graph, node, OP_expose, expand_emit(graph, node, OP_add, zeros, number, NULL, what), -1, hide, what);
}

/* Each replica applies weight and bias last: so their gradients are averaged, or added up, like those of other parameters. With 16-bit elements all is computed in
 * f32, and y is rounded once. */
void spread_batch_norm(Graph *graph, const Node *node, int *out) {
    const int x = node->in[0];
    const TensorType type = graph->values.at[x].type;
    const DType exact = dtype_widened(type.dtype);
    Shape rows = {.ndim = type.shape.ndim - 1};
    Attr wide[MAX_ATTRS];
    memcpy(rows.dim, type.shape.dim + 1, sizeof *rows.dim * (size_t)rows.ndim);
    rows.dim[0] *= type.shape.dim[0];
    channel_shape(graph, x, true, wide);
    const TensorType channels = {.dtype = exact, .shape = {.ndim = 1, .dim = {rows.dim[CHANNEL]}}};
    const int all = expand_cast(graph, node, of_all(graph, node, x, &rows, false, "rows"), exact, "x");
    const int one = graph_constant(graph, channels, NULL, 1, arena_printf(graph->arena, "%s.one", node->name), node->span);
    const int zero = graph_constant(graph, channels, NULL, 0, arena_printf(graph->arena, "%s.zero", node->name), node->span);
    const int normal = graph_emit(graph, OP_batch_norm, (int[]){all, one, zero}, 3, node->attr,
                                  arena_printf(graph->arena, "%s.normal", node->name), node->span);
    const int mean = graph_producer(graph, normal)->out[1], variance = graph_producer(graph, normal)->out[2];
    const int own = of_all(graph, node, normal, &type.shape, true, "own");
    const int weight = expand_cast(graph, node, expand_emit(graph, node, OP_reshape, node->in[1], -1, wide, "weight"), exact, "factor");
    const int bias = expand_cast(graph, node, expand_emit(graph, node, OP_reshape, node->in[2], -1, wide, "bias"), exact, "offset");
    const int moved = expand_emit(graph, node, OP_add, expand_emit(graph, node, OP_mul, own, weight, NULL, "scaled"), bias, NULL, "moved");
    out[0] = expand_cast(graph, node, moved, type.dtype, "y");
    out[1] = for_each_replica(graph, node, mean, "mean");
    out[2] = for_each_replica(graph, node, variance, "variance");
}

/* ---------------------------------------------------------------- gradient */

/* Casts a value that has x's dimensions to another element type. */
static int gradient_cast(Graph *graph, int node, int value, DType dtype, const char *name) {
    const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[dtype]}};
    if (graph->values.at[value].type.dtype == dtype) return value;
    return graph_emit_gradient(graph, node, OP_cast, &value, (int[]){0}, 1, 0, to, name);
}

/* What the results mean and variance, one number per channel each, add to the gradient of x: dmean / count, 2 (x - mean) dvariance / count. In f32 for 16-bit elements. */
static int adjoint_of_statistic(Graph *graph, const Node *forward, int node, int result, int dy) {
    const int x = forward->in[X];
    const DType dtype = graph->values.at[x].type.dtype;
    const char *name = arena_printf(graph->arena, "%s.grad", graph->values.at[x].name);
    Attr along[MAX_ATTRS], spread[MAX_ATTRS] = {{0}}; /* {axes, shape} of mean_grad and sum_grad */
    to_channels(graph, x, along);
    spread[0] = along[0];
    spread[1] = sizes_of(graph, x);
    const int share = graph_emit_gradient(graph, node, OP_mean_grad, &dy, (const int[]){PART_OUT + result}, 1, 0, spread, name);
    if (result == 1) return gradient_cast(graph, node, share, dtype, name);
    const int mean = graph_emit_gradient(graph, node, OP_sum_grad, &forward->out[1], (const int[]){PART_OUT + 1}, 1, 0, spread, name);
    const int from[] = {gradient_cast(graph, node, x, dtype_widened(dtype), name), mean};
    const int apart = graph_emit_gradient(graph, node, OP_sub, from, (int[]){0, 0}, 2, 0, NULL, name);
    const int more = graph_emit_gradient(graph, node, OP_square_grad, (int[]){apart, share}, (int[]){0, 0}, 2, 0, NULL, name);
    return gradient_cast(graph, node, more, dtype, name);
}

void adjoint_batch_norm(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: nodes are added */
    const char *name[MAX_IN];
    for (int i = 0; i < forward.nin; i++)
        name[i] = arena_printf(graph->arena, "%s.grad", graph->values.at[forward.in[i]].name);
    if (dy[0] >= 0) {
        const int in[] = {forward.in[0], dy[0], forward.in[1], forward.out[1], forward.out[2]};
        const int part[] = {0, PART_OUT, 1, PART_OUT + 1, PART_OUT + 2};
        dx[0] = graph_emit_gradient(graph, node, OP_batch_norm_grad, in, part, 5, 0, forward.attr, name[0]);
        const Node *gradient = graph_producer(graph, dx[0]);
        for (int i = 1; i < forward.nin; i++) {
            dx[i] = gradient->out[i];
            graph_rename(graph, dx[i], name[i]);
        }
    }
    for (int result = 1; result <= 2; result++) {
        if (dy[result] < 0) continue;
        const int more = adjoint_of_statistic(graph, &forward, node, result, dy[result]);
        dx[0] = dx[0] < 0 ? more : graph_emit_gradient(graph, node, OP_add, (int[]){dx[0], more}, (int[]){0, 0}, 2, 0, NULL, name[0]);
    }
}

/* ---------------------------------------------------------------- dimensions that are split */

/* x - mean is computed twice, once for each pass over x: that is cheaper than keeping it. With 16-bit elements all is computed in f32, and y is
 * rounded once. */
void split_batch_norm(Graph *graph, const Node *node, int *out) {
    const DType dtype = graph->values.at[node->in[X]].type.dtype, exact = dtype_widened(dtype);
    const int x = expand_cast(graph, node, node->in[X], exact, "x");
    Attr along[MAX_ATTRS], wide[MAX_ATTRS], narrow[MAX_ATTRS];
    to_channels(graph, x, along);
    channel_shape(graph, x, true, wide);
    channel_shape(graph, x, false, narrow);
    const int mean = expand_emit(graph, node, OP_mean, x, -1, along, "center");
    const int apart = expand_emit(graph, node, OP_sub, x, mean, NULL, "apart");
    const int square = expand_emit(graph, node, OP_square, apart, -1, NULL, "square");
    const int variance = expand_emit(graph, node, OP_mean, square, -1, along, "spread");
    const int raised = expand_emit(graph, node, OP_add, variance, number_beside(graph, node, x, node->attr[0].f, "eps"), NULL, "raised");
    const int root = expand_emit(graph, node, OP_rsqrt, raised, -1, NULL, "rsqrt");
    const int weight = expand_emit(graph, node, OP_reshape, expand_cast(graph, node, node->in[1], exact, "factor"), -1, wide, "weight");
    const int scale = expand_emit(graph, node, OP_mul, root, weight, NULL, "scale");
    const int bias = expand_emit(graph, node, OP_reshape, expand_cast(graph, node, node->in[2], exact, "offset"), -1, wide, "bias");
    const int again = expand_emit(graph, node, OP_sub, x, mean, NULL, "centered");
    out[1] = expand_emit(graph, node, OP_reshape, mean, -1, narrow, "mean");
    out[2] = expand_emit(graph, node, OP_reshape, variance, -1, narrow, "variance");
    const int moved = expand_emit(graph, node, OP_add, expand_emit(graph, node, OP_mul, again, scale, NULL, "scaled"), bias, NULL, "moved");
    out[0] = expand_cast(graph, node, moved, dtype, "y");
}

/* With n the normalised elements: the gradient of bias is the sum of dy, that of weight the sum of dy n, that of x
 * (dy - dbias / count - n dweight / count) weight root. */
void split_batch_norm_grad(Graph *graph, const Node *node, int *out) {
    const Node *last = &graph->nodes.at[node->origin]; /* of the forward expansion; with 16-bit elements its cast */
    const int origin = last->op == OP_cast ? graph->values.at[last->in[0]].node : node->origin;
    const DType dtype = graph->values.at[node->in[X]].type.dtype, exact = dtype_widened(dtype);
    double count = 1;
    Attr along[MAX_ATTRS], wide[MAX_ATTRS], narrow[MAX_ATTRS];
#define EMIT(op, a, a_part, b, b_part, out_part, attr, what)                                                                               \
    expand_emit_gradient(graph, node, origin, op, a, a_part, b, b_part, out_part, attr, what)
#define CAST(value, part, to, what) expand_cast_gradient(graph, node, origin, value, part, to, what)
    const int x = CAST(node->in[X], PART_OUT, exact, "x"), dy = CAST(node->in[DY], PART_OUT, exact, "dy");
    const Attr sizes = sizes_of(graph, x);
    for (int d = 0; d < sizes.n; d++)
        if (d != CHANNEL) count *= (double)sizes.ints[d];
    to_channels(graph, x, along);
    channel_shape(graph, x, true, wide);
    channel_shape(graph, x, false, narrow);
#define OF_CHANNEL(op, a, b, what) EMIT(op, a, PART_CHANNEL, b, b < 0 ? PART_NONE : PART_CHANNEL, PART_CHANNEL, NULL, what)
    const int mean = EMIT(OP_reshape, node->in[MEAN], PART_NONE, -1, PART_NONE, PART_CHANNEL, wide, "center");
    const int variance = EMIT(OP_reshape, node->in[VARIANCE], PART_NONE, -1, PART_NONE, PART_CHANNEL, wide, "spread");
    const int narrower = EMIT(OP_reshape, node->in[WEIGHT], PART_NONE, -1, PART_NONE, PART_CHANNEL, wide, "factor");
    const int weight = CAST(narrower, PART_CHANNEL, exact, "weight");
    const int eps = number_beside(graph, node, x, node->attr[0].f, "eps"), n = number_beside(graph, node, x, count, "count");
    const int raised = EMIT(OP_add, variance, PART_CHANNEL, eps, PART_NONE, PART_CHANNEL, NULL, "raised");
    const int root = OF_CHANNEL(OP_rsqrt, raised, -1, "rsqrt");

    const int apart = EMIT(OP_sub, x, PART_OUT, mean, PART_CHANNEL, PART_OUT, NULL, "apart");
    const int normal = EMIT(OP_mul, apart, PART_OUT, root, PART_CHANNEL, PART_OUT, NULL, "normal");
    const int turned = EMIT(OP_mul, dy, PART_OUT, normal, PART_OUT, PART_OUT, NULL, "turned");
    const int dweight = EMIT(OP_sum, turned, PART_OUT, -1, PART_NONE, PART_CHANNEL, along, "along");
    const int dbias = EMIT(OP_sum, dy, PART_OUT, -1, PART_NONE, PART_CHANNEL, along, "all");

    const int share = EMIT(OP_div, OF_CHANNEL(OP_mul, dweight, root, "steep"), PART_CHANNEL, n, PART_NONE, PART_CHANNEL, NULL, "share");
    const int shift = EMIT(OP_div, dbias, PART_CHANNEL, n, PART_NONE, PART_CHANNEL, NULL, "shift");
    const int again = EMIT(OP_sub, x, PART_OUT, mean, PART_CHANNEL, PART_OUT, NULL, "centered");
    const int taken = EMIT(OP_mul, again, PART_OUT, share, PART_CHANNEL, PART_OUT, NULL, "taken");
    const int rest = EMIT(OP_sub, EMIT(OP_sub, dy, PART_OUT, shift, PART_CHANNEL, PART_OUT, NULL, "moved"), PART_OUT, taken, PART_OUT,
                          PART_OUT, NULL, "rest");
    const int scale = OF_CHANNEL(OP_mul, weight, root, "scale");
    out[0] = CAST(EMIT(OP_mul, rest, PART_OUT, scale, PART_CHANNEL, PART_OUT, NULL, "grad"), PART_OUT, dtype, "dx");
    out[1] = EMIT(OP_reshape, CAST(dweight, PART_CHANNEL, dtype, "dweight"), PART_CHANNEL, -1, PART_NONE, PART_NONE, narrow, "weight");
    out[2] = EMIT(OP_reshape, CAST(dbias, PART_CHANNEL, dtype, "dbias"), PART_CHANNEL, -1, PART_NONE, PART_NONE, narrow, "bias");
#undef OF_CHANNEL
#undef CAST
#undef EMIT
}
