/* graphs: whole graphs over the field: compares two graphs that should compute the same, and a graph's gradients with derivatives. */
#include <stdlib.h>
#include <string.h>

#include "proof/walk.h"

/* ---------------------------------------------------------------- evaluation */

static FieldTensor whole_tensor(const TensorType *type) {
    FieldTensor t = {.dtype = type->dtype, .hidden = type->hidden, .global = type->shape, .box.ndim = type->shape.ndim};
    for (int d = 0; d < type->shape.ndim; d++)
        t.box.end[d] = type->shape.dim[d];
    return t;
}

static Fe *room(Arena *arena, const FieldTensor *t) {
    return arena_alloc(arena, sizeof(Fe) * (size_t)shape_elements(&t->global));
}

/* Marks the nodes that the marked nodes in needed[] depend on. */
static void mark_operands(const Graph *graph, int nnodes, bool *needed) {
    for (int i = nnodes - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < graph->nodes.at[i].nin; k++)
            needed[graph->values.at[graph->nodes.at[i].in[k]].node] = true;
}

static bool evaluate(const Graph *graph, int nnodes, const bool *needed, uint64_t seed, Arena *arena, FieldTensor *values, char *why,
                     size_t n) {
    char reason[512];
    int *written = arena_alloc(arena, sizeof *written * (size_t)(graph->states.n + 1)); /* value id + 1 */
    for (int i = 0; i < nnodes; i++) {
        const Node *node = &graph->nodes.at[i];
        if (node->op == OP_write) written[node->state] = node->in[0] + 1;
        if (needed && !needed[i]) continue;
        FieldTensor in[MAX_IN], out[MAX_OUT];
        for (int k = 0; k < node->nin; k++)
            in[k] = values[node->in[k]];
        for (int k = 0; k < node->nout; k++)
            out[k] = whole_tensor(&graph->values.at[node->out[k]].type);
        if (node->op == OP_read && node->version == 1) { /* its value has been computed already */
            if (!written[node->state]) {
                snprintf(why, n, "%s is read before it is written", graph->states.at[node->state].name);
                return false;
            }
            values[node->out[0]] = values[written[node->state] - 1];
            continue;
        }
        for (int k = 0; k < node->nout; k++)
            out[k].at = room(arena, &out[k]);
        bool ok = node->nin == 0 ? field_leaf(graph, node, seed, &out[0], reason, sizeof reason)
                                 : field_kernel(graph, node, in, out, reason, sizeof reason);
        if (!ok) {
            snprintf(why, n, "%s (%s): %s", node->name, op_table[node->op].name, reason);
            return false;
        }
        for (int k = 0; k < node->nout; k++)
            values[node->out[k]] = out[k];
    }
    return true;
}

bool field_graph(const Graph *graph, int nnodes, uint64_t seed, Arena *arena, FieldTensor *values, char *why, size_t n) {
    return evaluate(graph, nnodes, NULL, seed, arena, values, why, n);
}

double field_graph_work(const Graph *graph) {
    double work = 0;
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        FieldTensor in[MAX_IN], out[MAX_OUT];
        for (int k = 0; k < node->nin; k++)
            in[k] = whole_tensor(&graph->values.at[node->in[k]].type);
        for (int k = 0; k < node->nout; k++)
            out[k] = whole_tensor(&graph->values.at[node->out[k]].type);
        work += field_work(graph, node, in, out);
    }
    return work;
}

/* ---------------------------------------------------------------- two graphs */

/* A value that both graphs must agree on: the loss, the new value of a state; in graphs with neither, any value that has a name in both. */
typedef struct Output {
    const char *name;
    int before, after; /* value ids */
} Output;

typedef VEC(Output) Outputs;

static int write_of(const Graph *graph, const char *state) {
    for (int i = graph->nodes.n - 1; i >= 0; i--) {
        const Node *node = &graph->nodes.at[i];
        if (node->op == OP_write && strcmp(graph->states.at[node->state].name, state) == 0) return node->in[0];
    }
    return -1;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const Value *const *)a)->name, (*(const Value *const *)b)->name);
}

static void outputs_by_name(const Graph *before, const Graph *after, Arena *arena, Outputs *outputs) {
    const Value **sorted = arena_alloc(arena, sizeof *sorted * (size_t)(after->values.n + 1));
    for (int v = 0; v < after->values.n; v++)
        sorted[v] = &after->values.at[v];
    qsort(sorted, (size_t)after->values.n, sizeof *sorted, compare_names);
    for (int v = 0; v < before->values.n; v++) {
        const Value *own = &before->values.at[v];
        const Value **found = bsearch(&own, sorted, (size_t)after->values.n, sizeof *sorted, compare_names);
        if (found) vec_push(arena, outputs, (Output){own->name, v, (int)(*found - after->values.at)});
    }
}

static bool outputs_of(const Graph *before, const Graph *after, Arena *arena, Outputs *outputs, char *why, size_t n) {
    for (int i = 0; i < before->nodes.n; i++) {
        const Node *node = &before->nodes.at[i];
        if (node->op != OP_write) continue;
        const char *state = before->states.at[node->state].name;
        vec_push(arena, outputs, (Output){state, node->in[0], write_of(after, state)});
    }
    if (before->loss >= 0) vec_push(arena, outputs, (Output){"the loss", before->loss, after->loss});
    for (int i = 0; i < before->reports.n; i++) {
        const Report *report = &before->reports.at[i];
        const int reported = i < after->reports.n ? after->reports.at[i].value : -1;
        vec_push(arena, outputs, (Output){report->name, report->value, report->writes ? write_of(after, report->name) : reported});
    }
    if (outputs->n == 0) outputs_by_name(before, after, arena, outputs);
    for (int i = 0; i < outputs->n; i++) {
        if (outputs->at[i].after >= 0) continue;
        snprintf(why, n, "%s is no longer computed", outputs->at[i].name);
        return false;
    }
    return true;
}

static bool same_elements(const char *name, const FieldTensor *a, const FieldTensor *b, char *why, size_t n) {
    if (!shape_equal(&a->global, &b->global) || a->dtype != b->dtype || a->hidden != b->hidden) {
        snprintf(why, n, "%s has another type", name);
        return false;
    }
    int64_t elements = shape_elements(&a->global);
    for (int64_t e = 0; e < elements; e++) {
        if (a->at[e] == b->at[e]) continue;
        snprintf(why, n, "%s differs, first in its element %lld", name, (long long)e);
        return false;
    }
    return true;
}

static FieldTensor *evaluate_outputs(const Graph *graph, const Outputs *outputs, bool after, uint64_t seed, Arena *arena, char *why,
                                     size_t n) {
    FieldTensor *values = arena_alloc(arena, sizeof *values * (size_t)(graph->values.n + 1));
    bool *needed = arena_alloc(arena, (size_t)graph->nodes.n + 1);
    for (int i = 0; i < outputs->n; i++)
        needed[graph->values.at[after ? outputs->at[i].after : outputs->at[i].before].node] = true;
    for (int i = 0; i < graph->nodes.n; i++) /* new versions of states may be read */
        needed[i] |= graph->nodes.at[i].op == OP_write;
    mark_operands(graph, graph->nodes.n, needed);
    return evaluate(graph, graph->nodes.n, needed, seed, arena, values, why, n) ? values : NULL;
}

/* The number of batches of a step for which the graph has inputs. */
static int batches(const Graph *graph) {
    int most = 0;
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].micro > most) most = graph->inputs.at[i].micro;
    return most + 1;
}

/* The mean of a one-batch graph's outputs over the batches of `after`: the graph is evaluated once per batch, with the names of that
 * batch's inputs. */
static bool means(const Graph *before, const Graph *after, uint64_t seed, const Outputs *outputs, Arena *arena, FieldTensor *mean,
                  char *why, size_t n) {
    const int count = batches(after);
    Fe share;
    for (int micro = 0; micro < count; micro++) {
        Graph one = *before;
        one.inputs.at = arena_alloc(arena, sizeof *one.inputs.at * (size_t)(before->inputs.n + 1));
        memcpy(one.inputs.at, before->inputs.at, sizeof *one.inputs.at * (size_t)before->inputs.n);
        for (int i = 0; i < after->inputs.n; i++)
            if (after->inputs.at[i].micro == micro && micro > 0) one.inputs.at[after->inputs.at[i].of].name = after->inputs.at[i].name;
        const FieldTensor *values = evaluate_outputs(&one, outputs, false, seed, arena, why, n);
        if (!values) return false;
        for (int o = 0; o < outputs->n; o++) {
            const FieldTensor *value = &values[outputs->at[o].before];
            if (micro == 0) mean[o] = *value;
            for (int64_t e = 0; micro > 0 && e < shape_elements(&value->global); e++)
                mean[o].at[e] = fe_add(mean[o].at[e], value->at[e]);
        }
    }
    fe_double(1.0 / count, &share); /* rounded to a double, as in the graph */
    for (int o = 0; o < outputs->n; o++)
        tensor_multiply(&mean[o], share);
    return true;
}

/* Whether a value of the lowered graph depends on an input. */
static bool varies(const Graph *graph, int value, Arena *arena) {
    bool *needed = arena_alloc(arena, (size_t)graph->nodes.n + 1);
    needed[graph->values.at[value].node] = true;
    mark_operands(graph, graph->nodes.n, needed);
    for (int i = 0; i < graph->nodes.n; i++)
        if (needed[i] && graph->nodes.at[i].op == OP_input) return true;
    return false;
}

/* field_same for a graph of one batch and one of several, which also has gradients and updates: compares the loss, and the states that
 * depend on a batch. */
static bool same_mean(const Graph *before, const Graph *after, uint64_t seed, char *why, size_t n) {
    Arena arena;
    Outputs outputs = {0};
    arena_init(&arena);
    vec_push(&arena, &outputs, ((Output){"the loss", before->loss, after->loss}));
    for (int i = 0; i < before->reports.n; i++) {
        const Report *report = &before->reports.at[i];
        if (report->writes && varies(before, report->value, &arena))
            vec_push(&arena, &outputs, ((Output){report->name, report->value, write_of(after, report->name)}));
    }
    FieldTensor *mean = arena_alloc(&arena, sizeof *mean * (size_t)outputs.n);
    const FieldTensor *values = NULL;
    bool ok = true;
    for (int i = 0; i < outputs.n; i++)
        ok = ok && (outputs.at[i].after >= 0 || field_fail(why, n, "a state is no longer written"));
    ok = ok && means(before, after, seed, &outputs, &arena, mean, why, n) &&
         (values = evaluate_outputs(after, &outputs, true, seed, &arena, why, n)) != NULL;
    for (int i = 0; ok && i < outputs.n; i++)
        ok = same_elements(outputs.at[i].name, &mean[i], &values[outputs.at[i].after], why, n);
    arena_finish(&arena);
    return ok;
}

bool field_same(const Graph *before, const Graph *after, uint64_t seed, char *why, size_t n) {
    Arena arena;
    Outputs outputs = {0};
    if (batches(after) > batches(before) && before->loss >= 0 && after->loss >= 0) return same_mean(before, after, seed, why, n);
    arena_init(&arena);
    bool ok = outputs_of(before, after, &arena, &outputs, why, n);
    FieldTensor *old = ok ? evaluate_outputs(before, &outputs, false, seed, &arena, why, n) : NULL;
    FieldTensor *new = old ? evaluate_outputs(after, &outputs, true, seed, &arena, why, n) : NULL;
    ok = new != NULL;
    for (int i = 0; ok && i < outputs.n; i++)
        ok = same_elements(outputs.at[i].name, &old[outputs.at[i].before], &new[outputs.at[i].after], why, n);
    arena_finish(&arena);
    return ok;
}

/* ---------------------------------------------------------------- gradients of a graph */

enum { DIRECTION = 0x5eed }; /* added to the seed, so that directions differ from values */

typedef struct GradientCheck {
    const Graph *graph;
    uint64_t seed;
    Arena arena;
    FieldTensor *values;
    int *gradient; /* per state: the value that its update takes as its gradient, -1: none */
    int *
        index; /* per state: for a table, the value that gives the table row of each row of `gradient`; -1: the gradient has the state's shape */
    int norm;      /* the value by whose square root the gradients are clipped; negative: none */
    bool *forward; /* per node: the loss depends on it */
} GradientCheck;

/* Skips casts between float types: over the field, a real number is the same in all of them. */
static int before_rounding(const Graph *graph, int value) {
    for (;;) {
        const Node *maker = graph_producer(graph, value);
        if (maker->op != OP_cast || !dtype_is_float(graph->values.at[value].type.dtype) ||
            !dtype_is_float(graph->values.at[maker->in[0]].type.dtype))
            return value;
        value = maker->in[0];
    }
}

/* Replaces *gradient by the gradient before clipping. *norm: the value by whose square root all are clipped; -1: not clipped; -2: none seen
 * yet. */
static bool unclip(const GradientCheck *g, const Node *update, int *gradient, int *norm, char *why, size_t n) {
    const Node *maker = graph_producer(g->graph, *gradient);
    int own = maker->op == OP_clip ? before_rounding(g->graph, maker->in[1]) : -1;
    if (maker->op == OP_clip) *gradient = maker->in[0];
    if (*norm == -2) *norm = own;
    if (*norm == own) return true;
    snprintf(why, n, "%s takes a gradient that is clipped in another way than the others", update->name);
    return false;
}

static bool updates_find(GradientCheck *g, int *ngradients, char *why, size_t n) {
    int norm = -2;
    for (int i = 0; i < g->graph->nodes.n; i++) {
        const Node *node = &g->graph->nodes.at[i];
        if (op_table[node->op].op_class != OP_CLASS_UPDATE || node->op == OP_write) continue;
        const Node *read = graph_producer(g->graph, node->in[0]);
        if (node->op == OP_lamb) continue; /* it takes a direction that lamb_step makes from the gradient */
        const int at = op_in(node->op, "g"), by = op_in(node->op, "index");
        int gradient = at < 0 ? -1 : node->in[at];
        const Node *direction = node->op == OP_adafactor ? graph_producer(g->graph, node->in[1]) : NULL;
        if (direction && direction->op == OP_mul) gradient = direction->in[0]; /* the gradient over the root of an estimate */
        if (read->op != OP_read || gradient < 0) {
            snprintf(why, n, "%s updates no state", node->name);
            return false;
        }
        const State *state = &g->graph->states.at[read->state];
        if (g->gradient[read->state] >= 0 || (by < 0 && !shape_equal(&state->type.shape, &g->graph->values.at[gradient].type.shape))) {
            snprintf(why, n, "state %s is updated twice, or by a gradient of another shape", state->name);
            return false;
        }
        if (!unclip(g, node, &gradient, &norm, why, n)) return false;
        g->gradient[read->state] = gradient;
        if (by >= 0) g->index[read->state] = node->in[by];
        (*ngradients)++;
    }
    g->norm = norm;
    return true;
}

/* The derivative of the minimised value (the loss; with hidden slices, the sum or mean of their losses) when trainable states move along
 * their directions: all states, or `only` one. */
static bool derivative(const GradientCheck *g, int only, Fe *result, char *why, size_t n) {
    const Graph *graph = g->graph;
    Arena arena;
    arena_init(&arena);
    FieldTensor *moved = arena_alloc(&arena, sizeof *moved * (size_t)(graph->values.n + 1));
    bool ok = true;
    for (int i = 0; ok && i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        if (!g->forward[i]) continue;
        FieldTensor in[MAX_IN], din[MAX_IN], out[MAX_OUT], dout[MAX_OUT];
        bool moves =
            node->op == OP_read && node->version == 0 && graph->states.at[node->state].trainable && (only < 0 || only == node->state);
        bool direction = moves;
        for (int k = 0; k < node->nin; k++) {
            in[k] = g->values[node->in[k]];
            din[k] = moved[node->in[k]];
            moves |= din[k].at != NULL;
        }
        for (int k = 0; k < node->nout; k++) {
            out[k] = dout[k] = g->values[node->out[k]];
            dout[k].at = moves ? room(&arena, &dout[k]) : NULL;
        }
        if (direction)
            ok = field_leaf(graph, node, g->seed + DIRECTION, &dout[0], why, n);
        else if (moves)
            ok = field_tangent(graph, node, in, din, out, dout, why, n);
        for (int k = 0; k < node->nout; k++)
            moved[node->out[k]] = dout[k];
    }
    *result = 0;
    const FieldTensor *loss = &moved[graph->loss];
    for (int64_t e = 0; ok && loss->at && e < shape_elements(&loss->global); e++)
        *result = fe_add(*result, loss->at[e]);
    if (ok && loss->hidden && graph->settings.gradients_mean) *result = fe_mul(*result, fe_inverse(fe_integer(loss->global.dim[0])));
    arena_finish(&arena);
    return ok;
}

/* <gradient, direction> for a table: the gradient has one row for each index, which names the table's row. Indices out of range count 0. */
static Fe along_rows(const FieldTensor *gradient, const FieldTensor *index, const FieldTensor *direction) {
    const int64_t width = direction->global.dim[1];
    Fe sum = 0;
    for (int64_t i = 0; i < shape_elements(&index->global); i++) {
        const int64_t row = fe_signed(index->at[i]);
        if (row >= 0 && row < direction->global.dim[0])
            sum = fe_add(sum, fe_dot(gradient->at + i * width, direction->at + row * width, width));
    }
    return sum;
}

/* <gradient of the state, its direction> */
static bool along_gradient(GradientCheck *g, int state, Fe *result, char *why, size_t n) {
    *result = 0;
    if (g->gradient[state] < 0) return true;
    const FieldTensor *gradient = &g->values[g->gradient[state]];
    Arena arena;
    arena_init(&arena);
    FieldTensor direction = whole_tensor(&g->graph->states.at[state].type);
    direction.at = room(&arena, &direction);
    const Node read = {.op = OP_read, .state = state};
    bool ok = field_leaf(g->graph, &read, g->seed + DIRECTION, &direction, why, n);
    const int index = g->index[state];
    if (ok)
        *result = index < 0 ? fe_dot(gradient->at, direction.at, shape_elements(&direction.global))
                            : along_rows(gradient, &g->values[index], &direction);
    arena_finish(&arena);
    return ok;
}

static bool gradients_compare(GradientCheck *g, char *why, size_t n) {
    Fe sum = 0, term, all, one;
    for (int s = 0; s < g->graph->states.n; s++) {
        if (!along_gradient(g, s, &term, why, n)) return false;
        sum = fe_add(sum, term);
    }
    if (!derivative(g, -1, &all, why, n)) return false;
    if (sum == all) return true;
    for (int s = 0; s < g->graph->states.n; s++) { /* find which state's gradient is wrong */
        if (!g->graph->states.at[s].trainable) continue;
        if (!along_gradient(g, s, &term, why, n) || !derivative(g, s, &one, why, n)) return false;
        if (term == one) continue;
        snprintf(why, n, "%s %s is not the derivative of the loss", g->gradient[s] < 0 ? "no gradient of state" : "the gradient of state",
                 g->graph->states.at[s].name);
        return false;
    }
    snprintf(why, n, "the gradients are not the derivative of the loss");
    return false;
}

/* Checks that the value by which gradients are clipped is the sum of the squares of all of them. */
static bool norm_check(const GradientCheck *g, char *why, size_t n) {
    Fe sum = 0;
    for (int s = 0; s < g->graph->states.n; s++) {
        if (g->gradient[s] < 0) continue;
        const FieldTensor *gradient = &g->values[g->gradient[s]];
        sum = fe_add(sum, fe_dot(gradient->at, gradient->at, shape_elements(&gradient->global)));
    }
    if (g->norm < 0 || sum == g->values[g->norm].at[0]) return true;
    snprintf(why, n, "%s, by which gradients are clipped, is not the sum of their squares", g->graph->values.at[g->norm].name);
    return false;
}

bool field_gradients(const Graph *graph, uint64_t seed, int *ngradients, char *why, size_t n) {
    *ngradients = 0;
    if (graph->loss < 0 || graph->settings.optimizer == OPTIMIZER_NONE) return true;
    GradientCheck g = {.graph = graph, .seed = seed};
    arena_init(&g.arena);
    g.values = arena_alloc(&g.arena, sizeof *g.values * (size_t)(graph->values.n + 1));
    g.gradient = arena_alloc(&g.arena, sizeof *g.gradient * (size_t)(graph->states.n + 1));
    g.index = arena_alloc(&g.arena, sizeof *g.index * (size_t)(graph->states.n + 1));
    for (int s = 0; s < graph->states.n; s++)
        g.gradient[s] = g.index[s] = -1;
    bool *needed = arena_alloc(&g.arena, (size_t)graph->nodes.n + 1);
    g.forward = arena_alloc(&g.arena, (size_t)graph->nodes.n + 1);
    g.forward[graph->values.at[graph->loss].node] = true;
    mark_operands(graph, graph->nodes.n, g.forward);
    bool ok = updates_find(&g, ngradients, why, n);
    memcpy(needed, g.forward, (size_t)graph->nodes.n);
    for (int s = 0; s < graph->states.n; s++) {
        if (g.gradient[s] >= 0) needed[graph->values.at[g.gradient[s]].node] = true;
        if (g.index[s] >= 0) needed[graph->values.at[g.index[s]].node] = true;
    }
    if (ok && g.norm >= 0) needed[graph->values.at[g.norm].node] = true;
    mark_operands(graph, graph->nodes.n, needed);
    ok = ok && evaluate(graph, graph->nodes.n, needed, seed, &g.arena, g.values, why, n) && gradients_compare(&g, why, n) &&
         norm_check(&g, why, n);
    arena_finish(&g.arena);
    return ok;
}
