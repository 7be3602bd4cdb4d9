/* windows: conv2d, max_pool, avg_pool and their gradients: letters, and values over the field. Window o sees the elements o * stride + k * dilation - padding of its operand.
 * Elements outside count 0 in a sum, and are ignored by a maximum. conv2d and its gradients use the same products of elements of x, w and y; each of the three tensors is computed
 * from the other two. */
#include "proof/windows.h"

#include <string.h>

/* One dimension of the windows. */
typedef struct Look {
    int64_t taps, stride, dilation, padding;
} Look;

static bool is_conv(OpCode op) {
    return op == OP_conv2d || op == OP_conv2d_grad_x || op == OP_conv2d_grad_w;
}
static bool is_pool(OpCode op) {
    return op == OP_max_pool || op == OP_max_pool_grad || op == OP_avg_pool || op == OP_avg_pool_grad;
}
bool is_windowed(OpCode op) {
    return is_conv(op) || is_pool(op);
}

/* Gradients of pools: the result has the planes of x. */
static bool is_back(const Node *node) {
    return node->op == OP_max_pool_grad || node->op == OP_avg_pool_grad;
}

static bool no(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

/* Number d of an attribute that has one or two numbers. */
static int64_t number_of(const Node *node, const char *name, int d, int64_t otherwise) {
    const int index = op_attr(node->op, name);
    const Attr *attr = index >= 0 ? &node->attr[index] : NULL;
    return attr && attr->given && attr->n > 0 ? attr->ints[attr->n > 1 ? d : 0] : otherwise;
}

/* taps: those of a convolution's kernel. */
static Look look_of(const Node *node, int d, int64_t taps) {
    if (is_pool(node->op)) taps = number_of(node, "kernel_size", d, 0);
    return (Look){taps, number_of(node, "stride", d, is_pool(node->op) ? taps : 1), number_of(node, "dilation", d, 1),
                  number_of(node, "padding", d, 0)};
}

static int64_t groups_of(const Node *node) {
    const Attr *attr = &node->attr[op_attr(node->op, "groups")];
    return attr->given ? attr->i : 1;
}

/* Which operand or result is x (over which windows lie), w, and y (one element a window): operands count from 0, results from nin. */
typedef struct Roles {
    int x, w, y;
} Roles;

static Roles roles_of(const Node *node) {
    switch ((int)node->op) {
    case OP_conv2d:
        return (Roles){0, 1, 2};
    case OP_conv2d_grad_x:
        return (Roles){2, 1, 0};
    case OP_conv2d_grad_w:
        return (Roles){0, 2, 1};
    case OP_max_pool_grad:
        return (Roles){0, -1, 1}; /* the result has x's shape */
    case OP_avg_pool_grad:
        return (Roles){1, -1, 0};
    default:
        return (Roles){0, -1, 1};
    }
}

/* ---------------------------------------------------------------- letters */

static const TensorType *type_of(const Graph *graph, const Node *node, int role) {
    return &graph->values.at[role < node->nin ? node->in[role] : node->out[role - node->nin]].type;
}

static int8_t *map_of(Letters *letters, const Node *node, int role) {
    return role < node->nin ? letters->in[role] : letters->out[role - node->nin];
}

/* Window o exists if all its taps are within the padded elements; with ceil_mode, if the previous window left at least one padded element,
 * and it begins before the padding at the end. */
static bool is_window(const Look *look, int64_t size, int64_t o, bool ceil) {
    const int64_t reach = look->dilation * (look->taps - 1), padded = size + 2 * look->padding;
    if (!ceil || o == 0) return o * look->stride + reach < padded;
    return (o - 1) * look->stride + reach + 1 < padded && o * look->stride < size + look->padding;
}

static bool windows_fit(const Node *node, const Look *look, int64_t size, int64_t count) {
    const int ceil_mode = op_attr(node->op, "ceil_mode");
    const bool ceil = ceil_mode >= 0 && node->attr[ceil_mode].i;
    if (look->taps < 1 || look->stride < 1 || look->dilation < 1 || look->padding < 0 || count < 1) return false;
    return is_window(look, size, count - 1, ceil) && !is_window(look, size, count, ceil);
}

static int8_t letter_of(Letters *letters, int64_t size) {
    letters->size[letters->n] = size;
    return (int8_t)letters->n++;
}

static bool conv_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const Roles roles = roles_of(node);
    const TensorType *x = type_of(graph, node, roles.x), *w = type_of(graph, node, roles.w), *y = type_of(graph, node, roles.y);
    const int h = x->hidden;
    if (x->shape.ndim != h + 4 || w->shape.ndim != h + 4 || y->shape.ndim != h + 4) return no(why, n, "not of four dimensions each");
    const int64_t *xd = x->shape.dim + h, *wd = w->shape.dim + h, *yd = y->shape.dim + h, groups = groups_of(node);
    if (groups < 1 || xd[0] != yd[0] || xd[1] != groups * wd[1] || wd[0] != yd[1] || wd[0] % groups != 0)
        return no(why, n, "images or channels of the convolution differ");
    int8_t *in = map_of(letters, node, roles.x) + h, *by = map_of(letters, node, roles.w) + h, *out = map_of(letters, node, roles.y) + h;
    letters->linear = LINEAR_IN_ONE;
    in[0] = out[0] = letter_of(letters, xd[0]);
    if (groups == 1) {
        in[1] = by[1] = letter_of(letters, xd[1]);
        by[0] = out[1] = letter_of(letters, wd[0]);
    } else {
        letters->grouped = in[1] = by[0] = out[1] = letter_of(letters, groups);
    }
    for (int d = 0; d < 2; d++) {
        const Look look = look_of(node, d, wd[2 + d]);
        if (!windows_fit(node, &look, xd[2 + d], yd[2 + d])) return no(why, n, "there are not so many windows");
        in[2 + d] = out[2 + d] = letter_of(letters, roles.x < node->nin ? yd[2 + d] : xd[2 + d]);
    }
    letters->windows[0] = window_bit(2, 0) | window_bit(2, 1);
    return true;
}

static bool pool_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const Roles roles = roles_of(node);
    const TensorType *x = type_of(graph, node, roles.x), *y = type_of(graph, node, roles.y);
    const int h = x->hidden, ndim = x->shape.ndim;
    if (ndim < h + 2 || y->shape.ndim != ndim) return no(why, n, "not planes with a window each");
    letters->linear = node->op == OP_max_pool ? LINEAR_IN_NONE : node->op == OP_max_pool_grad ? LINEAR_IN_SECOND : LINEAR_IN_ALL;
    for (int d = h; d < ndim - 2; d++) {
        if (x->shape.dim[d] != y->shape.dim[d]) return no(why, n, "not planes with a window each");
        map_of(letters, node, roles.x)[d] = map_of(letters, node, roles.y)[d] = letter_of(letters, x->shape.dim[d]);
        if (node->op == OP_max_pool_grad) letters->out[0][d] = letters->in[0][d];
    }
    if (node->op == OP_max_pool_grad && !shape_equal(&type_of(graph, node, 2)->shape, &x->shape))
        return no(why, n, "the gradient is not of x's shape");
    for (int d = 0; d < 2; d++) {
        const Look look = look_of(node, d, 0);
        const int at = ndim - 2 + d;
        if (!windows_fit(node, &look, x->shape.dim[at], y->shape.dim[at])) return no(why, n, "there are not so many windows");
        const int8_t letter = letter_of(letters, (is_back(node) ? x : y)->shape.dim[at]);
        for (int i = 0; i < node->nin; i++)
            letters->in[i][at] = letter;
        letters->out[0][at] = letter;
    }
    for (int i = 0; i < node->nin; i++)
        letters->windows[i] = window_bit(2, 0) | window_bit(2, 1);
    return true;
}

bool windowed_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    return (is_conv(node->op) ? conv_letters : pool_letters)(graph, node, letters, why, n);
}

/* ---------------------------------------------------------------- what is read */

/* The first and the last tap of window o that lie in [begin, end); false: none does. */
static bool taps_in(const Look *look, int64_t o, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
    const int64_t place = o * look->stride - look->padding;
    *first = place >= begin ? 0 : (begin - place + look->dilation - 1) / look->dilation;
    *last = end - 1 < place ? -1 : (end - 1 - place) / look->dilation;
    if (*last > look->taps - 1) *last = look->taps - 1;
    return *first <= *last;
}

/* Whether all that window o sees of a dimension lies in [from, to). */
static bool sees_within(const Look *look, int64_t o, int64_t size, int64_t from, int64_t to) {
    int64_t first, last;
    const int64_t place = o * look->stride - look->padding;
    return !taps_in(look, o, 0, size, &first, &last) || (place + first * look->dilation >= from && place + last * look->dilation < to);
}

bool windowed_reach(const Graph *graph, const Node *node, int operand, int d, int64_t begin, int64_t end, int64_t from, int64_t to) {
    const Roles roles = roles_of(node);
    const Shape *x = &type_of(graph, node, roles.x)->shape, *y = &type_of(graph, node, roles.y)->shape;
    const int64_t size = x->dim[x->ndim - 2 + d], windows = y->dim[y->ndim - 2 + d];
    const Look look = look_of(node, d, roles.w < 0 ? 0 : type_of(graph, node, roles.w)->shape.dim[x->ndim - 2 + d]);
    if (!is_back(node) && node->op != OP_conv2d_grad_x) { /* the letter runs over windows */
        for (int64_t o = begin; o < end; o++)
            if (!sees_within(&look, o, size, from, to)) return false;
        return true;
    }
    for (int64_t o = 0; o < windows && begin < end; o++) { /* the letter is an element's: windows that see it are read, or what these see */
        int64_t first, last;
        if (!taps_in(&look, o, begin, end, &first, &last)) continue;
        if (operand == roles.y ? o < from || o >= to : !sees_within(&look, o, size, from, to)) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- small cases */

/* A size with windows at both ends and one between them, and with as many elements left over as before. */
static int64_t few_elements(const Look *look, int64_t size, bool ceil) {
    const int64_t reach = look->dilation * (look->taps - 1) + 1;
    int64_t windows = 3, small = 0;
    const int64_t left = (size + 2 * look->padding - reach) % look->stride;
    for (; small < 1 && windows < 1 << 10; windows++)
        small = reach - 2 * look->padding + look->stride * (windows - 1) + left;
    return small < 1 || small > size || ceil ? size : small;
}

static int64_t count_of(const Node *node, const Look *look, int64_t size) {
    int64_t count = (size + 2 * look->padding - look->dilation * (look->taps - 1) - 1) / look->stride + 1;
    return windows_fit(node, look, size, count) ? count : count + 1;
}

/* The size of a dimension for a letter of this size: as many windows, with as many elements left over as before; or as many elements. */
static int64_t elements_for(const Node *node, const Look *look, int64_t size, int64_t letter) {
    if (is_back(node) || node->op == OP_conv2d_grad_x) return letter;
    const int64_t reach = look->dilation * (look->taps - 1) + 1, left = (size + 2 * look->padding - reach) % look->stride;
    return reach - 2 * look->padding + look->stride * (letter - 1) + left;
}

bool windowed_small(const Graph *graph, const Node *node, int d, int64_t letter) {
    const Roles roles = roles_of(node);
    const Shape *x = &type_of(graph, node, roles.x)->shape;
    const int at = x->ndim - 2 + d, ceil_mode = op_attr(node->op, "ceil_mode");
    const Look look = look_of(node, d, roles.w < 0 ? 0 : type_of(graph, node, roles.w)->shape.dim[at]);
    const int64_t reach = look.dilation * (look.taps - 1) + 1, elements = elements_for(node, &look, x->dim[at], letter);
    return (ceil_mode < 0 || !node->attr[ceil_mode].i) && elements >= 1 && elements + 2 * look.padding >= reach;
}

void windowed_shrink(const Graph *graph, const Node *node, const int64_t *letter, Shape *const *shape, Attr *attr) {
    const Roles roles = roles_of(node);
    const TensorType *x = type_of(graph, node, roles.x);
    const int h = x->hidden, ndim = x->shape.ndim, ceil_mode = op_attr(node->op, "ceil_mode");
    for (int d = 0; d < 2; d++) {
        const int at = ndim - 2 + d;
        const Look look = look_of(node, d, roles.w < 0 ? 0 : type_of(graph, node, roles.w)->shape.dim[at]);
        const int64_t small = letter && letter[d] > 0 ? elements_for(node, &look, x->shape.dim[at], letter[d])
                                                      : few_elements(&look, x->shape.dim[at], ceil_mode >= 0 && node->attr[ceil_mode].i);
        if (shape[roles.x]) shape[roles.x]->dim[at] = small;
        if (shape[roles.y]) shape[roles.y]->dim[at] = count_of(node, &look, small);
        if (node->op == OP_max_pool_grad && shape[2]) shape[2]->dim[at] = small;
    }
    const int64_t groups = is_conv(node->op) ? groups_of(node) : 1;
    if (groups == 1) return;
    const int64_t *w = type_of(graph, node, roles.w)->shape.dim + h, in = w[1] < 2 ? w[1] : 2, out = w[0] / groups < 2 ? w[0] / groups : 2;
    int64_t few = 0;
    for (int k = 0; k < 3; k++)
        if (shape[k]) few = shape[k]->dim[h + (k == roles.w ? 0 : 1)]; /* the letter's size */
    if (shape[roles.x]) shape[roles.x]->dim[h + 1] = few * in;
    if (shape[roles.y]) shape[roles.y]->dim[h + 1] = few * out;
    if (shape[roles.w]) {
        shape[roles.w]->dim[h] = few * out;
        shape[roles.w]->dim[h + 1] = in;
    }
    attr[op_attr(node->op, "groups")].i = few;
}

/* For a gradient: whether all of the windows that see an element of [begin, end) are in the held ones, [first, behind). */
static bool windows_held(const Look *look, int64_t windows, int64_t begin, int64_t end, int64_t first, int64_t behind) {
    int64_t tap, last;
    for (int64_t o = 0; o < windows && begin < end; o++)
        if ((o < first || o >= behind) && taps_in(look, o, begin, end, &tap, &last)) return false;
    return true;
}

/* ---------------------------------------------------------------- values: conv2d */

/* A tensor of planes: its box, and the strides of its elements. */
typedef struct Box4 {
    Fe *at;
    int64_t begin[4], end[4], stride[4], slice; /* slice: of the hidden dimension */
} Box4;

static Box4 box4_of(const FieldTensor *t) {
    Box4 box = {.at = t->at};
    int64_t stride = 1;
    for (int d = 3; d >= 0; d--) {
        box.begin[d] = t->box.begin[t->hidden + d];
        box.end[d] = t->box.end[t->hidden + d] > box.begin[d] ? t->box.end[t->hidden + d] : box.begin[d];
        box.stride[d] = stride;
        stride *= box.end[d] - box.begin[d];
    }
    box.slice = stride;
    return box;
}

static Fe *element_of(const Box4 *box, int64_t slice, int64_t a, int64_t b, int64_t c, int64_t d) {
    return box->at + slice * box->slice + (a - box->begin[0]) * box->stride[0] + (b - box->begin[1]) * box->stride[1] +
           (c - box->begin[2]) * box->stride[2] + (d - box->begin[3]) * box->stride[3];
}

static bool same_range(const Box4 *a, int d, const Box4 *b, int e) {
    return a->begin[d] == b->begin[e] && a->end[d] == b->end[e];
}

static bool is_whole(const FieldTensor *t, const Box4 *box, int d) {
    return box->begin[d] == 0 && box->end[d] == t->global.dim[t->hidden + d];
}

/* Checks that the three tensors hold the same images and channels, and that kernels are whole. */
static bool boxes_fit(const FieldTensor *const *t, const Box4 *x, const Box4 *w, const Box4 *y, int64_t groups, char *why, size_t n) {
    const int64_t in = t[1]->global.dim[t[1]->hidden + 1], out = t[1]->global.dim[(int)t[1]->hidden] / groups;
    if (!same_range(x, 0, y, 0) || !same_range(w, 0, y, 1)) return no(why, n, "the tensors hold different images or channels");
    for (int d = 2; d < 4; d++)
        if (!is_whole(t[1], w, d)) return no(why, n, "kernels that must be whole are split");
    if (groups == 1) return same_range(x, 1, w, 1) || no(why, n, "the tensors hold different input channels");
    if (!is_whole(t[1], w, 1) || w->begin[0] % out || w->end[0] % out) return no(why, n, "groups of channels are split");
    return (x->begin[1] == w->begin[0] / out * in && x->end[1] == w->end[0] / out * in) || no(why, n, "the tensors hold different groups");
}

/* Where an index of dimension d is: in the tensor's box, elsewhere in the tensor, or in the padding. */
typedef enum { IN_BOX, IN_TENSOR, IN_PADDING } Where;
static Where place_in(const FieldTensor *t, const Box4 *box, int d, int64_t place) {
    if (place >= box->begin[d] && place < box->end[d]) return IN_BOX;
    return place >= 0 && place < t->global.dim[t->hidden + d] ? IN_TENSOR : IN_PADDING;
}

bool conv_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const Roles roles = roles_of(node);
    const FieldTensor *t[3];
    for (int k = 0; k < 3; k++) {
        const int role = k == 0 ? roles.x : k == 1 ? roles.w : roles.y;
        t[k] = role < node->nin ? &in[role] : &out[0];
        if (t[k]->global.ndim != t[k]->hidden + 4) return no(why, n, "not of four dimensions each");
    }
    const Box4 x = box4_of(t[0]), w = box4_of(t[1]), y = box4_of(t[2]);
    const int64_t groups = groups_of(node), each = t[1]->global.dim[t[1]->hidden + 1], of = t[1]->global.dim[(int)t[1]->hidden] / groups;
    const int64_t slices = out[0].hidden ? out[0].box.end[0] - out[0].box.begin[0] : 1;
    if (!boxes_fit(t, &x, &w, &y, groups, why, n)) return false;
    const Look down = look_of(node, 0, w.end[2]), across = look_of(node, 1, w.end[3]);
    const int64_t *windows = t[2]->global.dim + t[2]->hidden + 2;
    if (roles.x == node->nin && (!windows_held(&down, windows[0], x.begin[2], x.end[2], y.begin[2], y.end[2]) ||
                                 !windows_held(&across, windows[1], x.begin[3], x.end[3], y.begin[3], y.end[3])))
        return no(why, n, "a window that sees the result is not held");
    tensor_fill(&out[0], 0);
    for (int64_t s = 0; s < slices; s++)
        for (int64_t image = x.begin[0]; image < x.end[0]; image++)
            for (int64_t o = w.begin[0]; o < w.end[0]; o++)
                for (int64_t c = w.begin[1]; c < w.end[1]; c++)
                    for (int64_t ky = 0; ky < w.end[2]; ky++)
                        for (int64_t oy = y.begin[2]; oy < y.end[2]; oy++) {
                            const int64_t row = oy * down.stride + ky * down.dilation - down.padding;
                            const Where in_rows = place_in(t[0], &x, 2, row);
                            for (int64_t kx = 0; in_rows != IN_PADDING && kx < w.end[3]; kx++)
                                for (int64_t ox = y.begin[3]; ox < y.end[3]; ox++) {
                                    const int64_t column = ox * across.stride + kx * across.dilation - across.padding;
                                    const Where in_columns = place_in(t[0], &x, 3, column);
                                    if (in_columns == IN_PADDING) continue;
                                    if (in_rows != IN_BOX || in_columns != IN_BOX) { /* on another rank, where x is a result */
                                        if (roles.x < node->nin) return no(why, n, "a window sees what its operand's box does not hold");
                                        continue;
                                    }
                                    Fe *at[3] = {element_of(&x, s, image, o / of * each + c, row, column), element_of(&w, s, o, c, ky, kx),
                                                 element_of(&y, s, image, o, oy, ox)};
                                    const int sum = roles.x == 2 ? 0 : roles.w == 2 ? 1 : 2;
                                    *at[sum] = fe_add(*at[sum], fe_mul(*at[(sum + 1) % 3], *at[(sum + 2) % 3]));
                                }
                        }
    return true;
}

/* ---------------------------------------------------------------- values: pools */

/* Ranges of the last two dimensions. */
typedef struct Plane {
    int64_t begin[2], end[2];
} Plane;

/* Planes, one after the other. */
typedef struct PlanesHeld {
    int64_t planes;
    int64_t size[2]; /* rows, columns of a whole plane of x */
    Plane x, y, out; /* the held ranges of x's planes, of windows, of the result */
    Look look[2];
} PlanesHeld;

static Plane plane_of(const FieldTensor *t) {
    Plane plane;
    for (int d = 0; d < 2; d++) {
        const int at = t->global.ndim - 2 + d;
        plane.begin[d] = t->box.begin[at];
        plane.end[d] = t->box.end[at] > plane.begin[d] ? t->box.end[at] : plane.begin[d];
    }
    return plane;
}

static int64_t plane_elements(const Plane *plane) {
    return (plane->end[0] - plane->begin[0]) * (plane->end[1] - plane->begin[1]);
}

/* The offset of an element in the held part of its plane; -1: not held. */
static int64_t place_at(const Plane *plane, int64_t row, int64_t column) {
    if (row < plane->begin[0] || row >= plane->end[0] || column < plane->begin[1] || column >= plane->end[1]) return -1;
    return (row - plane->begin[0]) * (plane->end[1] - plane->begin[1]) + column - plane->begin[1];
}

static bool planes_held(const Node *node, const FieldTensor *x, const FieldTensor *y, const FieldTensor *out, PlanesHeld *held, char *why,
                        size_t n) {
    const int ndim = x->global.ndim;
    if (ndim < x->hidden + 2 || y->global.ndim != ndim || out->global.ndim != ndim) return no(why, n, "not planes with a window each");
    held->planes = 1;
    for (int d = 0; d < ndim - 2; d++) {
        if (x->box.begin[d] != y->box.begin[d] || x->box.end[d] != y->box.end[d] || x->box.begin[d] != out->box.begin[d] ||
            x->box.end[d] != out->box.end[d])
            return no(why, n, "the tensors hold different planes");
        held->planes *= x->box.end[d] > x->box.begin[d] ? x->box.end[d] - x->box.begin[d] : 0;
    }
    held->x = plane_of(x);
    held->y = plane_of(y);
    held->out = plane_of(out);
    for (int d = 0; d < 2; d++) {
        held->size[d] = x->global.dim[ndim - 2 + d];
        held->look[d] = look_of(node, d, 0);
        if (is_back(node) && !windows_held(&held->look[d], y->global.dim[ndim - 2 + d], held->out.begin[d], held->out.end[d],
                                           held->y.begin[d], held->y.end[d]))
            return no(why, n, "a window that sees the result is not held");
    }
    return true;
}

/* Row and column that tap k of window (oy, ox) sees; false: they are in the padding. */
static bool seen_at(const PlanesHeld *held, int64_t oy, int64_t ox, int64_t k, int64_t *row, int64_t *column) {
    const Look *down = &held->look[0], *across = &held->look[1];
    *row = oy * down->stride + k / across->taps * down->dilation - down->padding;
    *column = ox * across->stride + k % across->taps * across->dilation - across->padding;
    return *row >= 0 && *row < held->size[0] && *column >= 0 && *column < held->size[1];
}

/* Finds the first element of a window that is its maximum, in the order of representatives; false: it sees none, or one that x's box does
 * not hold. */
static bool maximum_at(const PlanesHeld *held, const Fe *plane, int64_t oy, int64_t ox, int64_t *most_row, int64_t *most_column) {
    Fe most = 0;
    bool any = false;
    for (int64_t k = 0; k < held->look[0].taps * held->look[1].taps; k++) {
        int64_t row, column;
        if (!seen_at(held, oy, ox, k, &row, &column)) continue;
        const int64_t at = place_at(&held->x, row, column);
        if (at < 0) return false;
        if (any && fe_signed(plane[at]) <= fe_signed(most)) continue;
        any = true;
        most = plane[at];
        *most_row = row;
        *most_column = column;
    }
    return any;
}

/* to[w] = from[its maximum] for each window w; with back: to[its maximum] += from[w], where the maximum is held. */
static bool at_maxima(const PlanesHeld *held, const Fe *x, const Fe *from, Fe *to, bool back, char *why, size_t n) {
    const int64_t seen = plane_elements(&held->x), windows = plane_elements(&held->y), across = held->y.end[1] - held->y.begin[1];
    for (int64_t i = 0; i < held->planes * windows; i++) {
        const int64_t plane = i / windows, oy = held->y.begin[0] + i % windows / across, ox = held->y.begin[1] + i % across;
        int64_t row = 0, column = 0;
        if (!maximum_at(held, x + plane * seen, oy, ox, &row, &column))
            return no(why, n, "a window of padding alone, or one that sees what its operand's box does not hold");
        if (!back) {
            to[i] = from[plane * seen + place_at(&held->x, row, column)];
            continue;
        }
        const int64_t at = place_at(&held->out, row, column);
        Fe *sum = &to[plane * plane_elements(&held->out) + at];
        if (at >= 0) *sum = fe_add(*sum, from[i]);
    }
    return true;
}

bool max_pool_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const bool back = node->op == OP_max_pool_grad;
    PlanesHeld held;
    if (!planes_held(node, &in[0], back ? &in[1] : &out[0], &out[0], &held, why, n)) return false;
    if (!back) return at_maxima(&held, in[0].at, in[0].at, out[0].at, false, why, n);
    tensor_fill(&out[0], 0);
    return at_maxima(&held, in[0].at, in[1].at, out[0].at, true, why, n);
}

bool max_pool_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n) {
    PlanesHeld held;
    return planes_held(node, &in[0], &dout[0], &dout[0], &held, why, n) && at_maxima(&held, in[0].at, din[0].at, dout[0].at, false, why, n);
}

bool avg_pool_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const bool back = node->op == OP_avg_pool_grad;
    const Attr *include = &node->attr[op_attr(node->op, "count_include_pad")],
               *divisor = &node->attr[op_attr(node->op, "divisor_override")];
    PlanesHeld held;
    if (!planes_held(node, back ? &out[0] : &in[0], back ? &in[0] : &out[0], &out[0], &held, why, n)) return false;
    const int64_t taps = held.look[0].taps * held.look[1].taps, across = held.y.end[1] - held.y.begin[1], windows = plane_elements(&held.y);
    tensor_fill(&out[0], 0);
    for (int64_t i = 0; i < held.planes * windows; i++) {
        const int64_t plane = i / windows * plane_elements(&held.x), oy = held.y.begin[0] + i % windows / across,
                      ox = held.y.begin[1] + i % across;
        int64_t seen = 0, row, column;
        for (int64_t k = 0; k < taps; k++)
            seen += seen_at(&held, oy, ox, k, &row, &column);
        const Fe share = fe_inverse(fe_integer(divisor->given ? divisor->i : include->given && !include->i ? seen : taps));
        for (int64_t k = 0; k < taps; k++) {
            if (!seen_at(&held, oy, ox, k, &row, &column)) continue;
            const int64_t at = place_at(&held.x, row, column);
            if (at < 0 && !back) return no(why, n, "a window sees what its operand's box does not hold");
            if (at < 0) continue;
            Fe *to = &out[0].at[back ? plane + at : i];
            *to = fe_add(*to, fe_mul(in[0].at[back ? i : plane + at], share));
        }
    }
    return true;
}

double windowed_work(const Node *node, const FieldTensor *in, const FieldTensor *out) {
    const Roles roles = roles_of(node);
    const FieldTensor *y = roles.y < node->nin ? &in[roles.y] : &out[0];
    double taps = is_pool(node->op) ? (double)(number_of(node, "kernel_size", 0, 1) * number_of(node, "kernel_size", 1, 1)) : 1;
    if (is_conv(node->op)) {
        const FieldTensor *w = roles.w < node->nin ? &in[roles.w] : &out[0];
        for (int d = w->hidden + 1; d < w->global.ndim; d++)
            taps *= (double)(w->box.end[d] - w->box.begin[d]);
    }
    return 4 * taps * (double)field_elements(y);
}

/* ---------------------------------------------------------------- pad, upsample */

bool spaced_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *x = &in[0], *y = &out[0];
    if (x->global.ndim != y->global.ndim) return no(why, n, "the numbers of dimensions differ");
    for (int64_t i = 0; i < field_elements(y); i++) {
        int64_t rest = i, at = 0, stride = 1;
        bool inside = true;
        for (int d = y->global.ndim - 1; d >= 0; d--) {
            const int64_t size = y->box.end[d] - y->box.begin[d], held = x->box.end[d] - x->box.begin[d];
            const int own = d - y->hidden, last = d - (y->global.ndim - 2);
            int64_t index = y->box.begin[d] + rest % size;
            rest /= size;
            if (node->op == OP_pad && own >= 0) index -= node->attr[0].ints[own];
            if (node->op == OP_upsample && last >= 0) index /= number_of(node, "scale_factor", last, 1);
            inside = inside && index >= 0 && index < x->global.dim[d];
            if (!inside) continue;
            if (index < x->box.begin[d] || index >= x->box.end[d]) return no(why, n, "elements that are not in the operand's box");
            at += (index - x->box.begin[d]) * stride;
            stride *= held;
        }
        y->at[i] = inside ? x->at[at] : 0;
    }
    return true;
}
