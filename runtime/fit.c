/* fit: checks that the operands and results of a step on this rank fit together. prun proves nothing: an edited plan may compute nonsense, but no step of
 * it may reach outside the memory of its operands. Kernels index all operands by the sizes of one of them and rely on what is checked here. */
#include <stdlib.h>
#include <string.h>

#include "ir/metric.h"
#include "runtime/exec.h"

static bool misfit(char *why, size_t n, const char *what, int which, int dim) {
    snprintf(why, n, "%s %d has another box in dimension %d than its operator's other tensors", what, which, dim);
    return false;
}

/* The range of each factor, from the tensors seen so far. */
typedef struct Ranges {
    bool known[MAX_FACTORS];
    int64_t begin[MAX_FACTORS], end[MAX_FACTORS];
} Ranges;

/* A step's kernel: its rule, and the boxes of its operands and results. */
typedef struct Fitting {
    const Rule *rule;
    int nin;
    const Box *box[MAX_IN + MAX_OUT];
    const Shape *global[MAX_IN + MAX_OUT];
    Ranges ranges;
} Fitting;

/* Whether windows lie along a factor: then tensors count windows or elements along it. */
static bool counts_windows(const Fitting *fitting, int factor) {
    for (int i = 0; i < fitting->nin; i++)
        for (int d = 0; d < fitting->box[i]->ndim; d++)
            if (fitting->rule->in[i][d] == factor && rule_halo(fitting->rule, i, fitting->box[i]->ndim, d)) return true;
    return false;
}

/* Whether a tensor has the range of each factor that others have; dimensions without a factor must be whole. A reshaped dimension is cut
 * between runs of size / factor's size elements, and so is the other one that shares its factor. */
static bool fit_tensor(Fitting *fitting, int at, char *why, size_t n) {
    const bool result = at >= fitting->nin;
    const int which = result ? at - fitting->nin : at;
    const char *what = result ? "result" : "operand";
    const int8_t *letters = result ? fitting->rule->out[which] : fitting->rule->in[which];
    const Box *box = fitting->box[at];
    Ranges *ranges = &fitting->ranges;
    for (int d = 0; d < box->ndim; d++) {
        const int f = letters[d];
        if (!result && rule_halo(fitting->rule, which, box->ndim, d)) continue;
        int64_t run = fitting->global[at]->dim[d];
        if (f >= 0) run = counts_windows(fitting, f) ? 1 : run / fitting->rule->factor[f].size;
        if (box->begin[d] % run || box->end[d] % run) return misfit(why, n, what, which, d);
        int64_t begin = box->begin[d] / run, end = box->end[d] / run;
        if (f < 0) {
            if (begin != 0 || end != 1) return misfit(why, n, what, which, d);
        } else if (!ranges->known[f]) {
            ranges->known[f] = true;
            ranges->begin[f] = begin;
            ranges->end[f] = end;
        } else if (begin != ranges->begin[f] || end != ranges->end[f])
            return misfit(why, n, what, which, d);
    }
    return true;
}

/* Whether the operand's box has all that windows see from the range of their factor. */
static bool fit_windows(const Fitting *fitting, int operand, char *why, size_t n) {
    const Box *box = fitting->box[operand];
    for (int d = 0; d < box->ndim; d++) {
        const Halo *halo = rule_halo(fitting->rule, operand, box->ndim, d);
        const int f = fitting->rule->in[operand][d];
        if (!halo) continue;
        int64_t begin = fitting->ranges.begin[f], end = fitting->ranges.end[f];
        halo_range(halo, fitting->global[operand]->dim[d], &begin, &end);
        if (begin < end && (begin < box->begin[d] || end > box->end[d])) return misfit(why, n, "operand", operand, d);
    }
    return true;
}

static bool fit_kernel(const Executor *executor, const Cursor *cursor, const Step *step, char *why, size_t n) {
    const Graph *graph = &executor->plan->graph;
    const Role *role = cursor->role;
    Fitting fitting = {.rule = graph->nodes.at[step->node].rule, .nin = step->nin};
    for (int at = 0; at < step->nin + step->nout; at++) {
        const int instance = at < step->nin ? step->in[at] : step->out[at - step->nin];
        fitting.box[at] = &cursor->box[instance];
        fitting.global[at] = &graph->values.at[role->instances.at[instance].value].type.shape;
    }
    for (int at = 0; at < step->nin + step->nout; at++)
        if (!fit_tensor(&fitting, at, why, n)) return false;
    for (int i = 0; i < step->nin; i++)
        if (!fit_windows(&fitting, i, why, n)) return false;
    return true;
}

static bool same_box(const Box *a, const Box *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->begin[d] != b->begin[d] || a->end[d] != b->end[d]) return false;
    return a->ndim == b->ndim;
}

/* ---------------------------------------------------------------- fused steps */

static int64_t bytes_of(const Executor *executor, const Cursor *cursor, int instance) {
    return box_elements(&cursor->box[instance]) *
           dtype_bytes[executor->plan->graph.values.at[cursor->role->instances.at[instance].value].type.dtype];
}

static bool overlap(const Executor *executor, const Cursor *cursor, int a, int b) {
    return bytes_overlap(cursor->at[a], bytes_of(executor, cursor, a), cursor->at[b], bytes_of(executor, cursor, b));
}

/* A fused step: its first member and how many there are. */
typedef struct Members {
    const Executor *executor;
    const Cursor *cursor;
    const Step *step;
    int n;
} Members;

static bool reads(const Step *step, int instance) {
    for (int i = 0; i < step->nin; i++)
        if (step->in[i] == instance) return true;
    return false;
}

static bool stores(const Members *m, int member, int o) {
    return m->cursor->role->instances.at[m->step[member].out[o]].place != PLACE_INNER && !step_is_view(m->cursor, &m->step[member]);
}

/* Whether an instance is the result of an earlier member, and not a view of memory from before the step. */
static bool made_by(const Members *m, int member, int instance) {
    for (int k = 0; k < member; k++)
        for (int o = 0; o < m->step[k].nout; o++)
            if (m->step[k].out[o] == instance && !step_is_view(m->cursor, &m->step[k])) return true;
    return false;
}

/* Whether element i of each result of a member needs only element i of those operands that are as large as this one, including this one if it is read. */
static bool goes_by_element(const Members *m, const Step *step, int operand) {
    const Box *box = &m->cursor->box[operand];
    for (int o = 0; o < step->nout; o++) {
        const Box *own = &m->cursor->box[step->out[o]];
        const bool elementwise = op_elementwise(step->op) && (!reads(step, operand) || same_box(box, own));
        if (box_elements(own) != box_elements(box) || !(elementwise || op_table[step->op].flat)) return false;
    }
    return true;
}

/* Whether a member may store a result where an operand of the step lies: members may run one after the other, or all of them block by block of elements, in
 * any order. So the elements must be the same, all members from the first reader of the operand to this one elementwise, and no later one may read it. */
static bool may_overwrite(const Members *m, int member, int result, int operand) {
    bool found = false;
    for (int k = 0; k < m->n; k++) {
        const bool here = reads(&m->step[k], operand);
        found = found || here;
        if (k > member ? here : found && !goes_by_element(m, &m->step[k], operand)) return false;
    }
    return m->cursor->at[result] == m->cursor->at[operand] &&
           bytes_of(m->executor, m->cursor, result) == bytes_of(m->executor, m->cursor, operand);
}

/* The instance in whose memory a view finally lies. */
static int viewed(const Cursor *cursor, int instance) {
    while (cursor->role->instances.at[instance].place == PLACE_VIEW)
        instance = (int)cursor->role->instances.at[instance].at;
    return instance;
}

static bool fit_result(const Members *m, int member, int result, char *why, size_t n) {
    for (int k = 0; k < m->n; k++) {
        for (int o = 0; o < m->step[k].nout; o++)
            if (m->step[k].out[o] != result && stores(m, k, o) && overlap(m->executor, m->cursor, result, m->step[k].out[o])) {
                snprintf(why, n, "results %d and %d of fused step %d lie over each other", result, m->step[k].out[o], m->step->fused);
                return false;
            }
        for (int i = 0; i < m->step[k].nin; i++) {
            const int operand = m->step[k].in[i], base = viewed(m->cursor, operand);
            if (base != operand && overlap(m->executor, m->cursor, result, base)) {
                snprintf(why, n, "result %d lies over value %d, of which the step reads a view", result, base);
                return false;
            }
            if (base != operand) continue;
            if (made_by(m, k, operand) || !overlap(m->executor, m->cursor, result, operand) || may_overwrite(m, member, result, operand))
                continue;
            snprintf(why, n, "result %d of fused step %d lies over operand %d, which its members do not read element by element before",
                     result, m->step->fused, operand);
            return false;
        }
    }
    return true;
}

bool fit_fused(const Executor *executor, const Cursor *cursor, int at, char *why, size_t n) {
    const Members m = {executor, cursor, &cursor->role->steps.at[at], fused_length(cursor->role, at)};
    if (m.n > MAX_FUSED) return snprintf(why, n, "more than %d kernels in fused step %d", MAX_FUSED, m.step->fused), false;
    for (int k = 0; k < m.n; k++)
        for (int o = 0; o < m.step[k].nout; o++)
            if (stores(&m, k, o) && !fit_result(&m, k, m.step[k].out[o], why, n)) return false;
    return true;
}

/* Whether a use of a request agrees with the one that it was prepared for. */
static bool fit_request(const Executor *executor, const Cursor *cursor, const Step *step, char *why, size_t n) {
    const Graph *graph = &executor->plan->graph;
    const Prepared *prepared = step->request < executor->nrequests ? &executor->prepared[step->request] : NULL;
    if (!prepared || !prepared->step) {
        snprintf(why, n, "request %d is never started", step->request);
        return false;
    }
    const Instance *from = &cursor->role->instances.at[step->in[0]], *to = &cursor->role->instances.at[step->out[0]];
    const Instance *first_from = &prepared->role->instances.at[prepared->step->in[0]],
                   *first_to = &prepared->role->instances.at[prepared->step->out[0]];
    if (step->comm == prepared->step->comm && layout_equal(from->layout, first_from->layout) &&
        layout_equal(to->layout, first_to->layout) &&
        type_equal(&graph->values.at[from->value].type, &graph->values.at[first_from->value].type))
        return true;
    snprintf(why, n, "request %d is of other tensors elsewhere", step->request);
    return false;
}

/* Received data must not overwrite data that is still to be sent. */
static bool fit_start(const Executor *executor, const Cursor *cursor, const Step *step, char *why, size_t n) {
    if (!overlap(executor, cursor, step->in[0], step->out[0])) return true;
    snprintf(why, n, "source %d and target %d of request %d lie over each other", step->in[0], step->out[0], step->request);
    return false;
}

bool fit_step(const Executor *executor, const Cursor *cursor, const Step *step, char *why, size_t n) {
    switch (step->kind) {
    case STEP_KERNEL:
        return fit_kernel(executor, cursor, step, why, n);
    case STEP_LOCAL: {
        Box common;
        const Box *from = &cursor->box[step->in[0]], *to = &cursor->box[step->out[0]];
        if (box_elements(to) == 0 || (box_intersect(from, to, &common) && same_box(&common, to))) return true;
        snprintf(why, n, "the result is not within the operand");
        return false;
    }
    case STEP_START:
        return fit_request(executor, cursor, step, why, n) && fit_start(executor, cursor, step, why, n);
    case STEP_WAIT:
        return fit_request(executor, cursor, step, why, n);
    case STEP_WRITE: {
        const State *state = &executor->plan->graph.states.at[step->state];
        Box box;
        layout_box(state->layout, &state->type.shape, cursor->rank, &box);
        if (same_box(&box, &cursor->box[step->in[0]])) return true;
        snprintf(why, n, "the operand has another box than the state");
        return false;
    }
    }
    return false;
}

static bool fit_turn(int *begun, int at, const Step *step, char *why, size_t n) {
    if (step->kind == STEP_START ? *begun == 0 : *begun > 0) {
        *begun = step->kind == STEP_START ? at + 1 : -1;
        return true;
    }
    snprintf(why, n, "request %d is %s", step->request,
             step->kind == STEP_START ? "started a second time"
             : *begun < 0             ? "waited for a second time"
                                      : "waited for before it is started");
    return false;
}

bool fit_requests(const Executor *executor, const Cursor *cursor, int *step, char *why, size_t n) {
    const Role *role = cursor->role;
    int *begun = calloc((size_t)executor->nrequests + 1, sizeof *begun); /* per request: its start, + 1; -1: waited for */
    bool fits = begun != NULL;
    if (!fits) snprintf(why, n, "out of memory");
    for (*step = 0; fits && *step < role->steps.n; ++*step) {
        const Step *at = &role->steps.at[*step];
        if ((at->kind == STEP_START || at->kind == STEP_WAIT) && at->request < executor->nrequests)
            fits = fit_turn(&begun[at->request], *step, at, why, n);
        if (!fits) break;
    }
    for (int r = 0; fits && r < executor->nrequests; r++)
        if (begun[r] > 0) {
            *step = begun[r] - 1;
            snprintf(why, n, "request %d is never waited for", r);
            fits = false;
        }
    free(begun);
    return fits;
}

bool fit_instance(const Executor *executor, const Cursor *cursor, int id, char *why, size_t n) {
    const Graph *graph = &executor->plan->graph;
    const Instance *instance = &cursor->role->instances.at[id];
    if (instance->place != PLACE_STATE && instance->place != PLACE_INPUT) return true;
    const TensorType *type = instance->place == PLACE_STATE ? &graph->states.at[instance->at].type : &graph->inputs.at[instance->at].type;
    const Layout *layout = instance->place == PLACE_STATE ? graph->states.at[instance->at].layout : graph->inputs.at[instance->at].layout;
    Box box;
    layout_box(layout, &type->shape, cursor->rank, &box);
    bool view = instance_is_view(graph, instance);
    if (view ? box_elements(&box) == box_elements(&cursor->box[id]) : same_box(&box, &cursor->box[id])) return true;
    snprintf(why, n, "value %d has another box than the %s that it lies in", id, place_name[instance->place]);
    return false;
}

bool fit_loss(const Executor *executor, const Cursor *cursor, char *why, size_t n) {
    const Graph *graph = &executor->plan->graph;
    int loss = executor->program->loss;
    if (loss < 0) return true;
    const Instance *own = &cursor->role->instances.at[loss], *first = &executor->program->roles.at[0].instances.at[loss];
    const TensorType *type = &graph->values.at[own->value].type;
    int64_t expected = graph->replicas > 0 ? graph->replicas : 1;
    if (own->value == graph->loss && layout_equal(own->layout, first->layout) && shape_elements(&type->shape) == expected) return true;
    snprintf(why, n, "value %d is not the loss: one number%s, alike in all roles", loss, graph->replicas > 0 ? " a replica" : "");
    return false;
}

/* Dimensions of a report: a number, or one per class and more, or some per row. */
static int report_ndim(const char *name) {
    const Metric metric = metric_of(name);
    return metric == NMETRICS ? 0 : metric_ndim(metric);
}

bool fit_reports(const Executor *executor, const Cursor *cursor, char *why, size_t n) {
    const Graph *graph = &executor->plan->graph;
    const Program *program = executor->program;
    if (program->reports.n != graph->reports.n) {
        snprintf(why, n, "the program reports %d values, its graph %d", program->reports.n, graph->reports.n);
        return false;
    }
    for (int i = 0; i < graph->reports.n; i++) {
        int id = program->reports.at[i];
        const Instance *own = &cursor->role->instances.at[id], *first = &program->roles.at[0].instances.at[id];
        const TensorType *type = &graph->values.at[own->value].type;
        bool fits = own->value == graph->reports.at[i].value && layout_equal(own->layout, first->layout) && !layout_is_partial(own->layout);
        if (fits && strcmp(graph->reports.at[i].name, "prediction") == 0) /* rows of the batch, or of each replica's */
            fits = type->shape.ndim > (type->hidden ? 1 : 0);
        else if (fits && strcmp(graph->reports.at[i].name, "logits") == 0) /* a number for each token, on every rank */
            fits = layout_is_whole(own->layout);
        else if (fits)
            fits = type->shape.ndim - type->hidden == report_ndim(graph->reports.at[i].name);
        if (fits) continue;
        snprintf(why, n, "value %d is not the report %s of the graph, alike in all roles", id, graph->reports.at[i].name);
        return false;
    }
    return true;
}
