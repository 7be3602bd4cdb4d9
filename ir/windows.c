/* windows: rules and gradients of conv2d, max_pool and avg_pool, and the expansion of upsample. The batch, the channels, height and width may be split. Splitting the
 * input channels of conv2d gives partial sums, as does splitting height and width in the gradient of its kernel. With groups, a split takes whole groups of input and output
 * channels. Windows reach beyond the parts of height and width: their factor counts windows, and operands are needed with halos (layout.h). Factors of
 * dimensions that stay whole are there for counting operations. */
#include "ir/expansion.h"
#include "ir/windows.h"

#include <inttypes.h>
#include <string.h>

/* Attributes by their place in the rows of conv2d and its gradients, and of pools and theirs. */
enum { CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_GROUPS, CONV_SHAPE };
enum { POOL_SIZE, POOL_STRIDE, POOL_PADDING, POOL_DILATION, POOL_CEIL, AVERAGE_DIVISOR = POOL_CEIL, AVERAGE_SHAPE };
enum { MOST_TAPS = 1 << 20 }; /* limit of the numbers in attributes, and of kernel sizes */

/* ---------------------------------------------------------------- windows */

/* Number d of an attribute of two numbers, or of one that stands for both. */
static int64_t of_pair(const Attr *attr, int d, int64_t otherwise) {
    return attr->given ? attr->ints[attr->n == 1 ? 0 : d] : otherwise;
}

static bool is_convolution(OpCode op) {
    return op == OP_conv2d || op == OP_conv2d_grad_x || op == OP_conv2d_grad_w;
}

Window window_of(OpCode op, const Attr *attr, int d, int64_t size) {
    if (is_convolution(op))
        return (Window){size, of_pair(&attr[CONV_STRIDE], d, 1), of_pair(&attr[CONV_DILATION], d, 1), of_pair(&attr[CONV_PADDING], d, 0)};
    const bool max = op == OP_max_pool || op == OP_max_pool_grad;
    const int64_t taps = of_pair(&attr[POOL_SIZE], d, 1);
    return (Window){taps, of_pair(&attr[POOL_STRIDE], d, taps), max ? of_pair(&attr[POOL_DILATION], d, 1) : 1,
                    of_pair(&attr[POOL_PADDING], d, 0)};
}

/* The number of windows along a dimension; ceil: the last one may reach beyond the padding, if it begins before its end. */
static int64_t windows_along(const Window *window, int64_t size, bool ceil) {
    const int64_t room = size + 2 * window->low - window_extent(window);
    if (room < 0) return 0;
    const int64_t n = room / window->stride + 1;
    return ceil && room % window->stride != 0 && n * window->stride < size + window->low ? n + 1 : n;
}

/* Checks an attribute of two numbers, or of one, each at least `least`. */
static bool pair_check(const Attr *attr, int index, const char *name, int64_t least, RuleError *error) {
    const Attr *at = &attr[index];
    if (!at->given) return true;
    if (at->n != 1 && at->n != 2) {
        rule_reject(error, -1, index, "%s has %d numbers", name, at->n);
        rule_hint(error, "one for height and one for width, or one for both");
        return false;
    }
    for (int d = 0; d < at->n; d++)
        if (at->ints[d] < least || at->ints[d] > MOST_TAPS)
            return rule_reject(error, -1, index, "%s is %" PRId64 ", and must be from %" PRId64 " to %d", name, at->ints[d], least,
                               (int)MOST_TAPS);
    return true;
}

/* The number of windows over dimension d of %0, whose size is given; 0 with *error where there are none. */
static int64_t count_windows(const Window *window, int64_t size, int d, bool ceil, RuleError *error) {
    const int64_t n = windows_along(window, size, ceil);
    if (n > 0) return n;
    rule_reject(error, 0, -1,
                "the window is larger than the %s of %%0: it reaches over %" PRId64 " elements, and there are %" PRId64
                ", with padding %" PRId64,
                d == 0 ? "height" : "width", window_extent(window), size, size + 2 * window->low);
    rule_hint(error, "padding = %" PRId64 " would do", (window_extent(window) - size + 1) / 2);
    return 0;
}

static void result_dim(Rule *rule, int factor, int64_t size) {
    Shape *shape = &rule->result[0].shape;
    rule->out[0][shape->ndim] = (int8_t)factor;
    shape->dim[shape->ndim++] = size;
}

/* Adds the halo that a part needs in dimension d of the planes of an operand with ndim dimensions. */
static void need_halo(Rule *rule, int operand, int ndim, int d, HaloKind kind, int64_t of, const Window *window) {
    const Halo halo = {kind, of, window->stride, window->low, window_extent(window) - 1 - window->low};
    rule_need_halo(rule, operand, ndim, ndim - 2 + d, halo);
}

static int whole_factor(Rule *rule, int64_t size) {
    const int f = rule_add_factor(rule, size);
    rule->factor[f].whole = true;
    return f;
}

/* ---------------------------------------------------------------- conv2d */

/* The factors of the dimensions of x, w and y, for conv2d and its gradients alike; the windows. */
typedef struct ConvFactors {
    int8_t x[4], w[4], y[4];
    Shape y_shape;
    Window window[2];
} ConvFactors;

static bool conv_shapes(const Shape *x, const Shape *w, const Attr *attr, RuleError *error) {
    char text[SHAPE_TEXT_BYTES];
    const int64_t groups = attr[CONV_GROUPS].given ? attr[CONV_GROUPS].i : 1;
    if (x->ndim != 4) return rule_reject(error, 0, -1, "%%0 is %s, and must be [images, channels, height, width]", shape_text(x, text));
    if (w->ndim != 4)
        return rule_reject(error, 1, -1, "%%1 is %s, and must be [channels of the result, channels of %%0 / groups, height, width]",
                           shape_text(w, text));
    if (!pair_check(attr, CONV_STRIDE, "stride", 1, error) || !pair_check(attr, CONV_PADDING, "padding", 0, error) ||
        !pair_check(attr, CONV_DILATION, "dilation", 1, error))
        return false;
    if (groups < 1 || x->dim[1] % groups != 0 || w->dim[0] % groups != 0) {
        rule_reject(error, groups < 1 ? -1 : 0, CONV_GROUPS,
                    "%" PRId64 " groups: %%0 has %" PRId64 " channels, the result %" PRId64 ", which must be multiples of it", groups,
                    x->dim[1], w->dim[0]);
        return false;
    }
    if (w->dim[1] != x->dim[1] / groups) {
        rule_reject(error, 1, -1, "%%1 is for %" PRId64 " channels, %%0 has %" PRId64 "%s", w->dim[1], x->dim[1] / groups,
                    groups > 1 ? " in each group" : "");
        rule_hint(error, "%%1 is [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] then", w->dim[0], x->dim[1] / groups, w->dim[2],
                  w->dim[3]);
        return false;
    }
    if (w->dim[2] > MOST_TAPS || w->dim[3] > MOST_TAPS) return rule_reject(error, 1, -1, "%%1 is %s: too large", shape_text(w, text));
    return true;
}

/* The share of a dimension's taps that lie outside the padding. */
static double share_inside(const Window *window, int64_t size, int64_t n) {
    double inside = 0;
    for (int64_t k = 0; k < window->size; k++) {
        const int64_t first = window_place(window, 0, k), last = window_place(window, n - 1, k);
        const int64_t before = first < 0 ? (-first + window->stride - 1) / window->stride : 0,
                      behind = last >= size ? (last - size) / window->stride + 1 : 0;
        if (before + behind < n) inside += (double)(n - before - behind);
    }
    return inside / (double)(n * window->size);
}

static bool conv_factors(const Shape *x, const Shape *w, const Attr *attr, Rule *rule, ConvFactors *f, RuleError *error) {
    if (!conv_shapes(x, w, attr, error)) return false;
    const int64_t groups = attr[CONV_GROUPS].given ? attr[CONV_GROUPS].i : 1;
    int8_t of_x, of_w, of_y;
    memset(f, -1, sizeof *f);
    f->y_shape = (Shape){.ndim = 4, .dim = {x->dim[0], w->dim[0]}};
    f->x[0] = f->y[0] = (int8_t)rule_add_factor(rule, x->dim[0]);
    if (groups == 1) {
        of_x = of_w = (int8_t)rule_add_factor(rule, x->dim[1]);
        of_y = (int8_t)rule_add_factor(rule, w->dim[0]);
        f->w[0] = of_y;
        f->w[1] = of_w;
    } else {
        of_x = of_y = (int8_t)rule_add_factor(rule, groups);
        rule->factor[of_x].divides = true;
        f->w[0] = of_x;
        f->w[1] = (int8_t)whole_factor(rule, w->dim[1]);
        whole_factor(rule, w->dim[0] / groups); /* no dimension runs over it alone */
    }
    rule->inside = 1;
    f->x[1] = of_x;
    f->y[1] = of_y;
    for (int d = 0; d < 2; d++) {
        const Window window = window_of(OP_conv2d, attr, d, w->dim[2 + d]);
        const int64_t n = count_windows(&window, x->dim[2 + d], d, false, error);
        if (n == 0) return false;
        f->window[d] = window;
        rule->inside *= share_inside(&window, x->dim[2 + d], n);
        f->y_shape.dim[2 + d] = n;
        f->x[2 + d] = f->y[2 + d] = (int8_t)rule_add_factor(rule, n);
        f->w[2 + d] = (int8_t)whole_factor(rule, w->dim[2 + d]);
    }
    const bool product = w->dim[2] == 1 && w->dim[3] == 1 && f->window[0].stride == 1 && f->window[1].stride == 1;
    rule->blocked = !product && (groups == 1 || w->dim[1] > 1);
    rule->again = x->dim[2] * x->dim[3] > 1; /* with a single place, the images are the rows of one product */
    return true;
}

static void conv_operand(Rule *rule, int i, const int8_t *factors) {
    memcpy(rule->in[i], factors, 4);
}

/* Operand 0 is x, of which a part of y needs the elements that its windows see; or, where back, y, of which a part of x needs the windows that see it. */
static void conv_halos(Rule *rule, const Shape *x, const ConvFactors *f, bool back) {
    for (int d = 0; d < 2; d++)
        need_halo(rule, 0, 4, d, back ? HALO_SEEN : HALO_SEES, (back ? x : &f->y_shape)->dim[2 + d], &f->window[d]);
}

static void conv_result(Rule *rule, DType dtype, const Shape *shape, const int8_t *factors) {
    rule->result[0].dtype = dtype;
    for (int d = 0; d < 4; d++)
        result_dim(rule, factors[d], shape->dim[d]);
}

bool rule_conv2d(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    ConvFactors f;
    if (!conv_factors(&in[0].shape, &in[1].shape, attr, rule, &f, error)) return false;
    conv_operand(rule, 0, f.x);
    conv_operand(rule, 1, f.w);
    conv_halos(rule, &in[0].shape, &f, false);
    conv_result(rule, in[0].dtype, &f.y_shape, f.y);
    return true;
}

bool rule_conv2d_grad_x(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    ConvFactors f;
    Shape x;
    if (!shape_read(attr, CONV_SHAPE, &x, error) || !conv_factors(&x, &in[1].shape, attr, rule, &f, error)) return false;
    if (!shape_equal(&f.y_shape, &in[0].shape)) return rule_reject(error, 0, CONV_SHAPE, "%%0 is not the result for that shape");
    conv_operand(rule, 0, f.y);
    conv_operand(rule, 1, f.w);
    conv_halos(rule, &x, &f, true);
    conv_result(rule, in[0].dtype, &x, f.x);
    return true;
}

bool rule_conv2d_grad_w(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    ConvFactors f;
    Shape w;
    if (!shape_read(attr, CONV_SHAPE, &w, error) || !conv_factors(&in[0].shape, &w, attr, rule, &f, error)) return false;
    if (!shape_equal(&f.y_shape, &in[1].shape)) return rule_reject(error, 1, CONV_SHAPE, "%%1 is not the result for that shape");
    conv_operand(rule, 0, f.x);
    conv_operand(rule, 1, f.y);
    conv_halos(rule, &in[0].shape, &f, false);
    conv_result(rule, in[0].dtype, &w, f.w);
    return true;
}

/* ---------------------------------------------------------------- pools */

/* Whether no window sees only padding. Only those at the low end are checked, as the others begin within the plane. */
static bool sees_elements(const Window *window, int64_t size) {
    bool all = 2 * window->low <= window->size;
    for (int64_t begin = -window->low; all && begin < 0; begin += window->stride) {
        const int64_t first = (-begin + window->dilation - 1) / window->dilation;
        all = first < window->size && begin + first * window->dilation < size;
    }
    return all;
}

/* The windows of a pool over a shape: the result's shape, and a factor for each of its dimensions, shared with x. max: the attributes are max_pool's. */
static bool pool_factors(const Shape *x, const Attr *attr, bool max, Rule *rule, Shape *y, int8_t *factors, Window *windows,
                         RuleError *error) {
    if (x->ndim < 2) return rule_reject(error, 0, -1, "%%0 has %d dimensions, and must end in [height, width]", x->ndim);
    if (!pair_check(attr, POOL_SIZE, "kernel_size", 1, error) || !pair_check(attr, POOL_STRIDE, "stride", 1, error) ||
        !pair_check(attr, POOL_PADDING, "padding", 0, error) || (max && !pair_check(attr, POOL_DILATION, "dilation", 1, error)))
        return false;
    if (!max && attr[AVERAGE_DIVISOR].given && (attr[AVERAGE_DIVISOR].i < 1 || attr[AVERAGE_DIVISOR].i > MOST_TAPS))
        return rule_reject(error, -1, AVERAGE_DIVISOR, "divisor_override is %" PRId64 ", and must be from 1 to %d", attr[AVERAGE_DIVISOR].i,
                           (int)MOST_TAPS);
    *y = *x;
    for (int d = 0; d < x->ndim - 2; d++)
        factors[d] = (int8_t)rule_add_factor(rule, x->dim[d]);
    for (int d = 0; d < 2; d++) {
        const int at = x->ndim - 2 + d;
        const Window window = windows[d] = window_of(max ? OP_max_pool : OP_avg_pool, attr, d, 0);
        const int64_t n = count_windows(&window, x->dim[at], d, max && attr[POOL_CEIL].i != 0, error);
        if (n == 0) return false;
        if (!sees_elements(&window, x->dim[at])) {
            rule_reject(error, -1, POOL_PADDING, "padding %" PRId64 " of a window of %" PRId64 ": some would see nothing else", window.low,
                        window.size);
            rule_hint(error, "at most half of kernel_size");
            return false;
        }
        y->dim[at] = n;
        factors[at] = (int8_t)rule_add_factor(rule, n);
        whole_factor(rule, window.size); /* no dimension runs over it */
    }
    return true;
}

static void pool_result(Rule *rule, DType dtype, const Shape *shape, const int8_t *factors) {
    rule->result[0].dtype = dtype;
    for (int d = 0; d < shape->ndim; d++)
        result_dim(rule, factors[d], shape->dim[d]);
}

static bool pool_rule(const TensorType *in, const Attr *attr, bool max, Rule *rule, RuleError *error) {
    Shape y;
    Window windows[2];
    int8_t *factors = rule->in[0];
    if (!pool_factors(&in[0].shape, attr, max, rule, &y, factors, windows, error)) return false;
    for (int d = 0; d < 2; d++)
        need_halo(rule, 0, y.ndim, d, HALO_SEES, y.dim[y.ndim - 2 + d], &windows[d]);
    pool_result(rule, in[0].dtype, &y, factors);
    return true;
}

bool rule_max_pool(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, pool_rule(in, attr, true, rule, error);
}

bool rule_avg_pool(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, pool_rule(in, attr, false, rule, error);
}

/* dy is operand `dy`, the gradient of a pool over planes of shape x; the result has that shape. max_pool finds the largest element of a window again from x. */
static bool pool_grad_rule(const TensorType *in, int dy, const Shape *x, const Attr *attr, bool max, Rule *rule, RuleError *error) {
    Shape y;
    Window windows[2];
    int8_t *factors = rule->in[dy];
    if (!pool_factors(x, attr, max, rule, &y, factors, windows, error)) return false;
    if (!shape_equal(&y, &in[dy].shape)) return rule_reject(error, dy, -1, "%%%d is not the result for that shape", dy);
    if (dy > 0) memcpy(rule->in[0], factors, sizeof rule->in[0]);
    for (int d = 0; d < 2; d++)
        for (int i = 0; i <= dy; i++)
            need_halo(rule, i, x->ndim, d, i == dy ? HALO_SEEN : HALO_AROUND, x->dim[x->ndim - 2 + d], &windows[d]);
    pool_result(rule, in[0].dtype, x, factors);
    return true;
}

bool rule_max_pool_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, pool_grad_rule(in, 1, &in[0].shape, attr, true, rule, error);
}

bool rule_avg_pool_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    Shape x;
    return shape_read(attr, AVERAGE_SHAPE, &x, error) && pool_grad_rule(in, 0, &x, attr, false, rule, error);
}

/* ---------------------------------------------------------------- gradients */

/* A shape without its hidden dimension, as an attribute. */
static Attr shape_of_type(const TensorType *type) {
    Attr attr = {.given = true, .n = type->shape.ndim - type->hidden};
    memcpy(attr.ints, type->shape.dim + type->hidden, sizeof *attr.ints * (size_t)attr.n);
    return attr;
}

static Attr shape_of_value(const Graph *graph, int value) {
    return shape_of_type(&graph->values.at[value].type);
}

static const char *name_of_gradient(const Graph *graph, int value) {
    return arena_printf(graph->arena, "%s.grad", graph->values.at[value].name);
}

void adjoint_conv2d(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: nodes are added */
    Attr attr[MAX_ATTRS];
    memcpy(attr, forward.attr, sizeof attr);
    attr[CONV_SHAPE] = shape_of_value(graph, forward.in[0]);
    dx[0] = graph_emit_gradient(graph, node, OP_conv2d_grad_x, (int[]){dy[0], forward.in[1]}, (int[]){PART_OUT, 1}, 2, 0, attr,
                                name_of_gradient(graph, forward.in[0]));
    attr[CONV_SHAPE] = shape_of_value(graph, forward.in[1]);
    dx[1] = graph_emit_gradient(graph, node, OP_conv2d_grad_w, (int[]){forward.in[0], dy[0]}, (int[]){0, PART_OUT}, 2, 1, attr,
                                name_of_gradient(graph, forward.in[1]));
}

void adjoint_avg_pool(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    Attr attr[MAX_ATTRS];
    memcpy(attr, forward.attr, sizeof attr);
    attr[AVERAGE_SHAPE] = shape_of_value(graph, forward.in[0]);
    dx[0] = graph_emit_gradient(graph, node, OP_avg_pool_grad, dy, (int[]){PART_OUT}, 1, 0, attr, name_of_gradient(graph, forward.in[0]));
}

/* The gradient of an upsample: the pool of dy with the same windows. */
void adjoint_avg_pool_grad(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    Attr attr[MAX_ATTRS];
    memcpy(attr, forward.attr, sizeof attr);
    attr[AVERAGE_SHAPE] = (Attr){0};
    dx[0] = graph_emit_gradient(graph, node, OP_avg_pool, dy, (int[]){PART_OUT}, 1, 0, attr, name_of_gradient(graph, forward.in[0]));
}

/* ---------------------------------------------------------------- upsample */

bool rule_upsample(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape;
    (void)nin;
    if (x->ndim < 2) return rule_reject(error, 0, -1, "%%0 has %d dimensions, and must end in [height, width]", x->ndim);
    if (!pair_check(attr, 0, "scale_factor", 1, error)) return false;
    rule->result[0].dtype = in[0].dtype;
    for (int d = 0; d < x->ndim; d++) {
        const int f = rule_add_factor(rule, x->dim[d]), plane = d - (x->ndim - 2);
        const int64_t times = plane < 0 ? 1 : of_pair(&attr[0], plane, 1);
        const Window window = {times, times, 1, 0};
        rule->in[0][d] = (int8_t)f;
        if (plane >= 0) need_halo(rule, 0, x->ndim, plane, HALO_SEEN, x->dim[d] * times, &window);
        result_dim(rule, f, x->dim[d] * times);
    }
    return true;
}

/* The gradient of an avg_pool with the divisor 1 and windows that do not overlap: it copies each window's number to all elements that it sees. */
void expand_upsample(Graph *graph, const Node *node, int *out) {
    const Attr attr[MAX_ATTRS] = {
        [POOL_SIZE] = node->attr[0], [AVERAGE_DIVISOR] = {.given = true, .i = 1}, [AVERAGE_SHAPE] = shape_of_type(&node->rule->result[0])};
    out[0] = expand_emit(graph, node, OP_avg_pool_grad, node->in[0], -1, attr, "repeated");
}
