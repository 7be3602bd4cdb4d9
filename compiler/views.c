/* views: finds results that are not copied, but read where the operand lies.
 *
 * Before: fuse. After: b->placement.view of each value of spmd: the operand that it is a view of, -1: none. At -O2 only.
 * A transpose, slice, split or reshape becomes a view if all nodes that read its results read them by strides (Op.strided), or are such views themselves: then
 * nothing is copied, and the operand lives as long as they do. A product reads by strides where the library multiplies the same matrices on them, so that the
 * digits stay (ir/gemm.h); an elementwise operator where the innermost elements lie side by side. Boxes are those of rank 0: if those of other ranks are smaller
 * so that strides cannot be used, prun copies there. */
#include "compiler/views.h"

#include <string.h>

#include "compiler/compiler.h"
#include "compiler/roles.h"

typedef struct Viewer {
    const Build *b;
    const Graph *g;
    const int *uses; /* per value: how many operands and reports it is */
    int *first_reader,
        *next_reader; /* per value: the first item that reads it; per item and operand: the next one, as item * MAX_IN + operand; -1: none */
    int *written;     /* per state: the item of its write; the number of items where there is none */
} Viewer;

static const Node *item_node(const Viewer *v, int item) {
    return &v->g->nodes.at[v->b->placement.order.at[item].node];
}

Shape kernel_shape(const Build *b, int value) {
    const Value *at = &b->spmd.graph.values.at[value];
    Shape shape = {.ndim = at->type.shape.ndim};
    Box box;
    layout_box(at->layout, &at->type.shape, layout_first_rank(at->layout), &box);
    for (int d = 0; d < shape.ndim; d++)
        shape.dim[d] = d == 0 && at->type.hidden ? 1 : box.end[d] - box.begin[d];
    return shape;
}

/* ---------------------------------------------------------------- readers */

bool product_takes(const Build *b, const Node *product, int tensor, const Strided *at) {
    Strided tensors[3];
    for (int t = A; t <= OUT; t++) {
        const Shape shape = kernel_shape(b, t == OUT ? product->out[0] : product->in[t]);
        tensors[t] = t == tensor ? *at : strided_of(&shape);
    }
    return gemm_same_digits(product->rule, tensors);
}

/* Whether neighbours along the last dimension lie side by side. */
static bool runs_are_whole(const Strided *at) {
    int last = at->shape.ndim - 1;
    while (last >= 0 && at->shape.dim[last] == 1)
        last--;
    return last < 0 || at->stride[last] == 1;
}

static bool all_read(const Viewer *v, int value, const Strided *at);

/* Whether the results of a step that only places its operand's elements can all be views, if the operand lies like this. */
static bool results_read(const Viewer *v, const Node *node, const Strided *operand) {
    for (int o = 0; o < node->nout; o++) {
        const Shape shape = kernel_shape(v->b, node->out[o]);
        Strided at = *operand;
        if (!strided_result(&at, node->op, node->rule, &shape) || !all_read(v, node->out[o], &at)) return false;
    }
    return true;
}

/* Whether an operand of an item may be read by strides if it lies like this. In a fused step that begins with a product, only the product
 * may read it. */
static bool is_read(const Viewer *v, int item, int operand, const Strided *at) {
    const Node *node = item_node(v, item);
    int begin, end;
    fused_items(&v->b->placement, item, &begin, &end);
    if (node->op == OP_convert || op_table[node->op].boundary) return false;
    if (op_table[node->op].places) return v->b->placement.order.at[item].fused == 0 && results_read(v, node, at);
    if (!op_table[node->op].strided || !dtype_is_float(v->g->values.at[node->in[operand]].type.dtype)) return false;
    if (!op_elementwise(node->op)) return begin == item && product_takes(v->b, node, operand, at);
    return op_elementwise(item_node(v, begin)->op) && runs_are_whole(at);
}

static bool all_read(const Viewer *v, int value, const Strided *at) {
    int readers = 0;
    for (int r = v->first_reader[value]; r >= 0; r = v->next_reader[r], readers++)
        if (!is_read(v, r / MAX_IN, r % MAX_IN, at)) return false;
    return readers > 0 && readers == v->uses[value]; /* else it is reported */
}

/* ---------------------------------------------------------------- what lasts */

static int64_t bytes_of(const Viewer *v, int value) {
    return v->b->spmd.box_bytes[value];
}

/* Whether a view pays: a part of a tensor must not keep a much larger rest alive; a reshape whose operand nothing else reads lies there
 * anyway. */
static bool is_worth(const Viewer *v, const Node *node) {
    int64_t bytes = 0;
    if (op_table[node->op].flat && v->uses[node->in[0]] == 1) return false;
    for (int o = 0; o < node->nout; o++)
        bytes += bytes_of(v, node->out[o]);
    return 2 * bytes >= bytes_of(v, node->in[0]);
}

/* The last item at which a value is read, itself or as a view; of a fused step its last member. */
static int last_reader(const Viewer *v, int value) {
    int last = -1;
    for (int r = v->first_reader[value]; r >= 0; r = v->next_reader[r]) {
        const Node *node = item_node(v, r / MAX_IN);
        int begin, end;
        fused_items(&v->b->placement, r / MAX_IN, &begin, &end);
        last = end > last ? end : last;
        for (int o = 0; op_table[node->op].places && o < node->nout; o++) {
            const int later = last_reader(v, node->out[o]);
            last = later > last ? later : last;
        }
    }
    return last;
}

/* Whether a view of a state's old version is last read before the state's storage is written. */
static bool lasts(const Viewer *v, const Node *node) {
    const Node *root = graph_producer(v->g, node->in[0]);
    while (op_table[root->op].view)
        root = graph_producer(v->g, root->in[0]);
    if (root->op != OP_read || root->version != 0) return true;
    for (int o = 0; o < node->nout; o++)
        if (last_reader(v, node->out[o]) >= v->written[root->state]) return false;
    return true;
}

/* ---------------------------------------------------------------- */

static void find_readers(Viewer *v) {
    const Placement *placement = &v->b->placement;
    Arena *arena = v->b->arena;
    const size_t operands = (size_t)placement->order.n * MAX_IN + 1;
    v->first_reader = arena_alloc(arena, sizeof *v->first_reader * (size_t)(v->g->values.n + 1));
    v->next_reader = arena_alloc(arena, sizeof *v->next_reader * operands);
    v->written = arena_alloc(arena, sizeof *v->written * (size_t)(v->g->states.n + 1));
    memset(v->first_reader, -1, sizeof *v->first_reader * (size_t)(v->g->values.n + 1));
    for (int s = 0; s < v->g->states.n; s++)
        v->written[s] = placement->order.n;
    for (int i = placement->order.n - 1; i >= 0; i--) {
        const Node *node = item_node(v, i);
        if (node->op == OP_write) v->written[node->state] = i;
        for (int k = 0; k < node->nin && !placement->order.at[i].wait; k++) {
            v->next_reader[i * MAX_IN + k] = v->first_reader[node->in[k]];
            v->first_reader[node->in[k]] = i * MAX_IN + k;
        }
    }
}

/* Makes the results of a step, and those of the steps that place them, views, or undoes that. */
static void mark(const Viewer *v, const Node *node, int *view, bool is_view) {
    for (int o = 0; o < node->nout; o++) {
        view[node->out[o]] = is_view ? node->in[0] : -1;
        for (int r = v->first_reader[node->out[o]]; r >= 0; r = v->next_reader[r])
            if (op_table[item_node(v, r / MAX_IN)->op].places) mark(v, item_node(v, r / MAX_IN), view, is_view);
    }
}

/* Whether a step, of all its members, reads views that no more than MAX_VIEWS nodes make. */
static bool step_fits(const Viewer *v, int item, const int *view) {
    int maker[MAX_VIEWS], n = 0, begin, end;
    fused_items(&v->b->placement, item, &begin, &end);
    for (int i = begin; i <= end; i++) {
        const Node *node = item_node(v, i);
        for (int k = 0; k < node->nin; k++)
            for (int value = node->in[k]; view[value] >= 0; value = view[value]) {
                int at = 0;
                while (at < n && maker[at] != v->g->values.at[value].node)
                    at++;
                if (at == MAX_VIEWS) return false;
                maker[at] = v->g->values.at[value].node;
                n = at == n ? n + 1 : n;
            }
    }
    return true;
}

static bool readers_fit(const Viewer *v, const Node *node, const int *view) {
    for (int o = 0; o < node->nout; o++)
        for (int r = v->first_reader[node->out[o]]; r >= 0; r = v->next_reader[r]) {
            const Node *reader = item_node(v, r / MAX_IN);
            if (op_table[reader->op].places ? !readers_fit(v, reader, view) : !step_fits(v, r / MAX_IN, view)) return false;
        }
    return true;
}

static bool views_role(Build *b) {
    const Graph *g = &b->spmd.graph;
    Viewer v = {.b = b, .g = g, .uses = graph_uses(g, b->arena)};
    int *view = b->placement.view = arena_alloc(b->arena, sizeof *view * (size_t)(g->values.n + 1));
    memset(view, -1, sizeof *view * (size_t)(g->values.n + 1));
    if (b->options->optimize < 2) return true;
    find_readers(&v);
    for (int i = 0; i < b->placement.order.n; i++) {
        const Node *node = item_node(&v, i);
        if (!op_table[node->op].places || b->placement.order.at[i].fused > 0 || view[node->out[0]] >= 0 || !is_worth(&v, node)) continue;
        const Shape shape = kernel_shape(b, node->in[0]);
        const Strided whole = strided_of(&shape);
        if (!results_read(&v, node, &whole) || !lasts(&v, node)) continue;
        mark(&v, node, view, true);
        if (!readers_fit(&v, node, view)) mark(&v, node, view, false);
    }
    return true;
}

bool pass_views(Build *b) {
    return roles_each(b, views_role);
}
