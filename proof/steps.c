/* The compositional proof (docs/proof.md), by induction over the steps of each role: every instance is the named value of the graph in the stated layout. Before: a plan from
 * plan_read (types and ids are in range). Takes time linear in the size of the plan. */
#include "proof/internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER = 1 << 30 };

/* What is known of one role while its steps are walked. Per instance: the step from which it may be written, the step after which it may be
 * read, the last step that reads it. Per state: the step that overwrites its storage, and its `write` step. */
typedef struct RoleCheck {
    const Plan *plan;
    const Program *program;
    const Role *role;
    Proof *proof;
    Error *error;
    int *defined, *readable, *last;
    bool *in_place;
    int *overwritten, *written; /* per state; -1: not */
    bool *computed;             /* per graph node */
    int *pending;               /* per request: its start step, -1 none, -2 waited for */
    int nrequests;
    int step;
    int first, end; /* the first and last step of the fused step that it belongs to; the step itself if it is not fused */
} RoleCheck;

static bool reject(const RoleCheck *walk, const char *format, ...) PRINTF_LIKE(2, 3);
static bool reject(const RoleCheck *walk, const char *format, ...) {
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (walk->step >= 0) return error_set(walk->error, EXIT_INTERNAL, "program %s, step %d: %s", walk->program->name, walk->step, text);
    return error_set(walk->error, EXIT_INTERNAL, "program %s: %s", walk->program->name, text);
}

static const Value *value_of(const RoleCheck *walk, int instance) {
    return &walk->plan->graph.values.at[walk->role->instances.at[instance].value];
}

static bool role_has(const Role *role, const Layout *layout) {
    for (int rank = role->first_rank; rank <= role->last_rank; rank++)
        if (own_has_rank(layout, rank)) return true;
    return false;
}

/* Checks an instance's place; one that no step computes must be a leaf in the layout of its input or state. */
static bool leaf_check(RoleCheck *walk, int i) {
    const Graph *graph = &walk->plan->graph;
    const Instance *instance = &walk->role->instances.at[i];
    const Value *value = &graph->values.at[instance->value];
    const Node *node = &graph->nodes.at[value->node];
    bool computed = !node_is_leaf(node);
    switch (instance->place) {
    case PLACE_ARENA:
    case PLACE_INNER:
    case PLACE_VIEW:
        return true;
    case PLACE_ELSEWHERE:
        return !role_has(walk->role, instance->layout) ||
               reject(walk, "value %d (%s) is elsewhere, and ranks of the role hold some of it", i, value->name);
    case PLACE_INPUT:
        if (computed) return true; /* is_view must hold for its step */
        if (node->op != OP_input || node->state != instance->at)
            return reject(walk, "value %d (%s) is not input %d", i, value->name, (int)instance->at);
        if (!layout_equal(instance->layout, graph->inputs.at[instance->at].layout))
            return reject(walk, "value %d (%s) is not in its input's layout", i, value->name);
        break;
    case PLACE_CONSTANT:
        if (node->op != OP_constant || value->node != instance->at)
            return reject(walk, "value %d (%s) is not constant %d", i, value->name, (int)instance->at);
        break;
    case PLACE_STATE:
        if (computed && instance->version == 0) return true; /* likewise */
        if (!graph->states.at[instance->at].layout || !layout_equal(instance->layout, graph->states.at[instance->at].layout))
            return reject(walk, "value %d (%s) is not in the storage layout of state %s", i, value->name,
                          graph->states.at[instance->at].name);
        if (node->op == OP_read) {
            if (node->state != instance->at || node->version != instance->version)
                return reject(walk, "value %d (%s) is not version %d of state %s", i, value->name, instance->version,
                              graph->states.at[instance->at].name);
        } else {
            return true; /* computed by a step, in its state's storage */
        }
        break;
    }
    if (layout_is_partial(instance->layout)) return reject(walk, "value %d (%s) is partial before anything was computed", i, value->name);
    walk->defined[i] = walk->readable[i] = -1;
    return true;
}

/* Records that a value is read until a step, and checks that it may be read. A view is read in its operand's memory, whose content is
 * unchanged as long as the operand itself may be read; so both are checked. */
static bool use(RoleCheck *walk, int i, int until) {
    const Instance *instance = &walk->role->instances.at[i];
    if (instance->place == PLACE_ELSEWHERE) return true; /* the role's ranks hold nothing of it, so nothing is read */
    if (walk->readable[i] >= walk->step) return reject(walk, "value %d (%s) is read before it is there", i, value_of(walk, i)->name);
    if (instance->place == PLACE_VIEW) {
        if (walk->step >= walk->role->steps.n || walk->role->steps.at[walk->step].kind != STEP_KERNEL)
            return reject(walk, "value %d (%s) is a view, which only kernels read", i, value_of(walk, i)->name);
        if (!use(walk, (int)instance->at, until)) return false;
    }
    if (instance->place == PLACE_INNER && walk->defined[i] != walk->first)
        return reject(walk, "inner value %d (%s) is read outside of its fused step", i, value_of(walk, i)->name);
    if (instance->place == PLACE_STATE) {
        int overwritten = walk->overwritten[instance->at];
        const Node *node = &walk->plan->graph.nodes.at[value_of(walk, i)->node];
        if (instance->version == 0 && overwritten >= 0)
            return reject(walk, "the old version of state %s is read after it was overwritten",
                          walk->plan->graph.states.at[instance->at].name);
        if (instance->version == 1 && node->op == OP_read && walk->written[instance->at] < 0)
            return reject(walk, "the new version of state %s is read before it is written", walk->plan->graph.states.at[instance->at].name);
    }
    if (walk->last[i] < until) walk->last[i] = until;
    return true;
}

/* Records that a value is computed. view: it lies in its operand's memory, and nothing is written. */
static bool define(RoleCheck *walk, int i, int readable, bool view) {
    const Instance *instance = &walk->role->instances.at[i];
    if (instance->place == PLACE_ELSEWHERE) return true;
    if (walk->defined[i] != NEVER) return reject(walk, "value %d (%s) is computed twice", i, value_of(walk, i)->name);
    walk->defined[i] = walk->first;
    walk->readable[i] = readable;
    if (walk->last[i] < walk->end) walk->last[i] = walk->end;
    if (view) return true;
    if (instance->place == PLACE_VIEW)
        return reject(walk, "value %d (%s) is no view of value %d", i, value_of(walk, i)->name, (int)instance->at);
    if (instance->place == PLACE_INNER) return true;
    if (instance->place == PLACE_STATE && instance->version == 1) {
        if (walk->overwritten[instance->at] >= 0)
            return reject(walk, "state %s is overwritten twice", walk->plan->graph.states.at[instance->at].name);
        walk->overwritten[instance->at] = walk->step;
    } else if (instance->place != PLACE_ARENA) {
        return reject(walk, "value %d (%s) is computed into %s", i, value_of(walk, i)->name,
                      instance->place == PLACE_STATE ? "a state's old version" : place_name[instance->place]);
    }
    return true;
}

/* Whether each rank has a slice of the hidden dimension: with more parts than slices, some ranks have none. */
static bool has_slices(const Layout *layout, const TensorType *type) {
    return !type->hidden || layout_split(layout, 0) <= type->shape.dim[0];
}

/* Whether a result equals the step's only operand, element by element, and lies in the same place outside the arena: an input or a state's
 * old version in another shape. Both lists of digits have been checked, so boxes of the same largest size have the same size on every rank:
 * a reshape's split divides, and a replica has one slice. */
static bool is_view(const RoleCheck *walk, const Step *step, const Letters *letters) {
    if (step->nin != 1 || step->nout != 1 || !letters->view) return false;
    const Instance *operand = &walk->role->instances.at[step->in[0]], *result = &walk->role->instances.at[step->out[0]];
    if (result->place != PLACE_INPUT && (result->place != PLACE_STATE || result->version != 0)) return false;
    if (operand->place != result->place || operand->at != result->at || operand->version != result->version) return false;
    const TensorType *from = &value_of(walk, step->in[0])->type, *to = &value_of(walk, step->out[0])->type;
    return from->dtype == to->dtype && has_slices(result->layout, to) &&
           own_max_elements(operand->layout, &from->shape) == own_max_elements(result->layout, &to->shape);
}

/* Whether all results are views of the step's only operand: their elements are some of its elements, and readers get those that the
 * operator would give. A fused step has no such member. All results of an operator are views, so it is not run. */
static bool are_views(const RoleCheck *walk, const Step *step, const Letters *letters) {
    if (step->nin != 1 || !letters->places || step->fused > 0) return false;
    for (int k = 0; k < step->nout; k++) {
        const Instance *result = &walk->role->instances.at[step->out[k]];
        if (result->place != PLACE_VIEW || result->at != step->in[0]) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- results over operands */

/* Whether a step that updates only rows may store its results over this operand: it must be the table or a slot, and neither the gradient
 * nor the indices. */
static bool is_table(const RoleCheck *walk, const Step *step, int operand) {
    for (int i = step->nout; i < step->nin; i++)
        if (step->in[i] == operand) return false;
    return walk->first == walk->end;
}

/* Whether element i of each result of a member needs only element i of those operands that are as large as this one, and of this one, if it
 * reads it. */
static bool goes_by_element(const RoleCheck *walk, const Step *step, int operand, bool reads_it) {
    const Role *role = walk->role;
    const Layout *layout = role->instances.at[operand].layout;
    const Shape *shape = &value_of(walk, operand)->type.shape;
    const int64_t elements = own_max_elements(layout, shape);
    Letters letters;
    char why[512];
    if (!node_letters(&walk->plan->graph, &walk->plan->graph.nodes.at[step->node], &letters, why, sizeof why)) return false;
    for (int k = 0; k < step->nout; k++) {
        const Layout *own_layout = role->instances.at[step->out[k]].layout;
        const Shape *own_shape = &value_of(walk, step->out[k])->type.shape;
        const bool same = layout_equal(layout, own_layout) && shape_equal(shape, own_shape);
        const bool element = letters.elementwise || (letters.by_rows && is_table(walk, step, operand));
        if (own_max_elements(own_layout, own_shape) != elements || !(letters.flat || (element && (same || !reads_it)))) return false;
    }
    return true;
}

static bool reads(const Step *step, int instance) {
    for (int i = 0; i < step->nin; i++)
        if (step->in[i] == instance) return true;
    return false;
}

/* Whether the result of the current step may lie where an operand of it, or of an earlier member of its fused step, lies. The members may
 * run one after the other, or together block by block of elements, in any order. So all members from the first that reads the operand to
 * the one that overwrites it must work element by element, and no later one may read it. */
static bool may_overwrite(const RoleCheck *walk, int result, int operand) {
    const Role *role = walk->role;
    bool found = false;
    for (int s = walk->first; s <= walk->end; s++) {
        const bool here = reads(&role->steps.at[s], operand);
        found = found || here;
        if (s <= walk->step && found && !goes_by_element(walk, &role->steps.at[s], operand, here)) return false;
        if (s > walk->step && here) return false;
    }
    return value_of(walk, operand)->type.dtype == value_of(walk, result)->type.dtype;
}

static bool same_place(const Instance *a, const Instance *b) {
    return a->place == b->place && a->at == b->at && (a->place == PLACE_ARENA || a->place == PLACE_STATE);
}

/* Whether the step, or a member of its fused step, reads a view of a value that lies where the result does: a view's elements are read at
 * other positions. */
static bool reads_view(const RoleCheck *walk, const Instance *result) {
    const Role *role = walk->role;
    for (int s = walk->first; s <= walk->end; s++)
        for (int i = 0; i < role->steps.at[s].nin; i++) {
            const Instance *at = &role->instances.at[role->steps.at[s].in[i]];
            for (int depth = 0; at->place == PLACE_VIEW && depth < role->instances.n; depth++) {
                at = &role->instances.at[at->at];
                if (same_place(at, result)) return true;
            }
        }
    return false;
}

/* Checks a result that the step computes: it may overwrite every operand that lies in the same place. A state is not overwritten
 * otherwise. */
static bool overwrites(RoleCheck *walk, int id) {
    const Role *role = walk->role;
    const Instance *result = &role->instances.at[id];
    bool some = false, all = true;
    for (int s = walk->first; s <= walk->step; s++)
        for (int i = 0; i < role->steps.at[s].nin; i++) {
            const int in = role->steps.at[s].in[i];
            const Instance *operand = &role->instances.at[in];
            if (!same_place(operand, result)) continue;
            if (result->place == PLACE_ARENA && walk->defined[in] == walk->first)
                continue; /* a result of the same fused step: memory_check refuses it */
            const bool may = may_overwrite(walk, id, in);
            if (result->place == PLACE_STATE && !may)
                return reject(walk, "%s: overwrites the state that it reads",
                              walk->plan->graph.nodes.at[role->steps.at[walk->step].node].name);
            some = true;
            all = all && may;
        }
    const bool viewed = reads_view(walk, result);
    if (result->place == PLACE_STATE && viewed)
        return reject(walk, "%s: overwrites the state of which it reads a view",
                      walk->plan->graph.nodes.at[role->steps.at[walk->step].node].name);
    walk->in_place[id] = some && all && !viewed;
    return true;
}

/* Checks that the role's ranks hold all operands and results of the step. */
static bool all_here(const RoleCheck *walk, const Step *step) {
    for (int i = 0; i < step->nin + step->nout; i++) {
        const int id = i < step->nin ? step->in[i] : step->out[i - step->nin];
        if (walk->role->instances.at[id].place == PLACE_ELSEWHERE)
            return reject(walk, "value %d (%s), which is elsewhere, is computed with", id, value_of(walk, id)->name);
    }
    return true;
}

static bool kernel_step(RoleCheck *walk, const Step *step) {
    const Graph *graph = &walk->plan->graph;
    const Role *role = walk->role;
    char why[512];
    const Node *node = &graph->nodes.at[step->node];
    if (!all_here(walk, step)) return false;
    if (node->op != step->op)
        return reject(walk, "the kernel is %s, graph node %d is %s", op_table[step->op].name, step->node, op_table[node->op].name);
    if (step->nin != node->nin || step->nout != node->nout)
        return reject(walk, "%s: wrong number of operands or results", op_table[step->op].name);
    const Layout *in[MAX_IN], *out[MAX_OUT];
    for (int k = 0; k < step->nin; k++) {
        const Instance *instance = &role->instances.at[step->in[k]];
        if (instance->value != node->in[k])
            return reject(walk, "%s: operand %d is %s, not %s", node->name, k, value_of(walk, step->in[k])->name,
                          graph->values.at[node->in[k]].name);
        if (!use(walk, step->in[k], walk->end)) return false;
        in[k] = instance->layout;
    }
    for (int k = 0; k < step->nout; k++) {
        const Instance *instance = &role->instances.at[step->out[k]];
        if (instance->value != node->out[k])
            return reject(walk, "%s: result %d is %s, not %s", node->name, k, value_of(walk, step->out[k])->name,
                          graph->values.at[node->out[k]].name);
        out[k] = instance->layout;
    }
    Letters letters;
    if (!node_letters(graph, node, &letters, why, sizeof why) || !kernel_check(graph, node, &letters, in, out, why, sizeof why))
        return reject(walk, "%s (%s): %s", node->name, op_table[node->op].name, why);
    bool view = is_view(walk, step, &letters) || are_views(walk, step, &letters);
    for (int k = 0; k < step->nout; k++) {
        if (!view && !overwrites(walk, step->out[k])) return false;
        if (!define(walk, step->out[k], walk->step, view)) return false;
    }
    walk->computed[step->node] = true;
    walk->proof->kernels++;
    return true;
}

/* Checks a fused step: consecutive kernels with one number. Numbers count from 1 in order, so none occurs twice. */
static bool fused_step(RoleCheck *walk, const Step *step, int *nfused) {
    walk->first = walk->end = walk->step;
    if (step->fused == 0) return true;
    if (step->kind != STEP_KERNEL) return reject(walk, "a %s in fused step %d", comm_name[step->comm], step->fused);
    const Step *steps = walk->role->steps.at;
    while (walk->first > 0 && steps[walk->first - 1].fused == step->fused)
        walk->first--;
    walk->end = walk->first + fused_length(walk->role, walk->first) - 1;
    if (walk->first == walk->step && step->fused != ++*nfused)
        return reject(walk, "fused step %d begins where fused step %d is next", step->fused, *nfused);
    return walk->end - walk->first < MAX_FUSED || reject(walk, "more than %d kernels in fused step %d", MAX_FUSED, step->fused);
}

/* A communication that has been checked, or a layout: kind NCOMMS, no `to`. */
typedef struct Shown {
    CommKind kind;
    const Layout *from, *to;
    Shape shape;
} Shown;
/* A communication that is to be checked, from the first step with these layouts. */
typedef struct Claim {
    RoleCheck walk; /* as it was at that step */
    CommKind kind;
    const Layout *from, *to;
    Shape shape;
    const char *name;
    bool holds;
    char why[512];
} Claim;
typedef struct ShownTable {
    Arena arena;
    VEC(Shown) shown;
    Map map;
    VEC(Claim *) claims;
} ShownTable;

/* Whether it was in the table; adds it if not. */
static bool shown_before(ShownTable *table, CommKind kind, const Layout *from, const Layout *to, const Shape *shape) {
    uint64_t hash = hash_mix(hash_mix(layout_hash(from), to ? layout_hash(to) : 7), (uint64_t)kind);
    for (int d = 0; d < shape->ndim; d++)
        hash = hash_mix(hash, (uint64_t)shape->dim[d]);
    map_each(&table->map, hash, i) {
        const Shown *s = &table->shown.at[i];
        if (s->kind == kind && layout_equal(s->from, from) && (!to == !s->to) && (!to || layout_equal(s->to, to)) &&
            shape_equal(&s->shape, shape))
            return true;
    }
    vec_push(&table->arena, &table->shown, (Shown){.kind = kind, .from = from, .to = to, .shape = *shape});
    map_add(&table->arena, &table->map, hash, table->shown.n - 1);
    return false;
}

/* Checks the step itself; its claim about layouts is checked later, by conversions_check. */
static bool conversion_step(RoleCheck *walk, const Step *step, ShownTable *shown) {
    if (step->nin != 1 || step->nout != 1) return reject(walk, "%s: one source and one target are needed", comm_name[step->comm]);
    const Instance *from = &walk->role->instances.at[step->in[0]], *to = &walk->role->instances.at[step->out[0]];
    const Value *value = value_of(walk, step->in[0]);
    if (from->value != to->value)
        return reject(walk, "%s: turns %s into %s", comm_name[step->comm], value->name, value_of(walk, step->out[0])->name);
    walk->proof->communications += step->kind != STEP_LOCAL;
    Shape alike;
    conversion_shape(from->layout, to->layout, &value->type.shape, walk->plan->graph.nranks, &alike);
    if (shown_before(shown, step->comm, from->layout, to->layout, &alike)) return true;
    if (step->kind != STEP_LOCAL) walk->proof->distinct_communications++;
    Claim *claim = arena_alloc(&shown->arena, sizeof *claim);
    claim->walk = *walk;
    claim->kind = step->comm, claim->from = from->layout, claim->to = to->layout, claim->shape = alike, claim->name = value->name;
    vec_push(&shown->arena, &shown->claims, claim);
    return true;
}

typedef struct Showing {
    const ShownTable *shown;
    const Sample *sample;
    int nranks;
} Showing;

static void show_claim(void *context, int thread, int item) {
    const Showing *showing = context;
    Claim *claim = showing->shown->claims.at[item];
    (void)thread;
    claim->holds = conversion_check(claim->kind, claim->from, claim->to, &claim->shape, showing->nranks, showing->sample, claim->why,
                                    sizeof claim->why);
}

/* Checks all claims, with several threads where that takes long. Rejects the first step whose claim does not hold. */
static bool conversions_check(const ShownTable *shown, const Sample *sample, int nranks, Pool *pool) {
    enum { MUCH = 1 << 18 }; /* comparisons of ranks with ranks */
    Showing showing = {shown, sample, nranks};
    const int n = shown->claims.n;
    pool_each((int64_t)n * sample->n * nranks >= MUCH ? pool : NULL, n, show_claim, &showing);
    for (int k = 0; k < n; k++) {
        const Claim *claim = shown->claims.at[k];
        if (!claim->holds) return reject(&claim->walk, "%s of %s: %s", comm_name[claim->kind], claim->name, claim->why);
    }
    return true;
}

static bool write_step(RoleCheck *walk, const Step *step) {
    const Graph *graph = &walk->plan->graph;
    const Instance *instance = &walk->role->instances.at[step->in[0]];
    const State *state = &graph->states.at[step->state];
    const Node *node = &graph->nodes.at[step->node];
    if (node->op != OP_write || node->state != step->state || node->in[0] != instance->value)
        return reject(walk, "write of state %s: graph node %d writes something else", state->name, step->node);
    if (walk->computed[step->node]) return reject(walk, "state %s is written twice", state->name);
    walk->computed[step->node] = true;
    if (walk->written[step->state] >= 0) return reject(walk, "state %s is written twice", state->name);
    if (!all_here(walk, step) || !use(walk, step->in[0], walk->step)) return false;
    if (!state->layout || !layout_equal(instance->layout, state->layout))
        return reject(walk, "state %s is written in another layout than it is stored in", state->name);
    if (instance->place == PLACE_STATE) {
        if (instance->at != step->state || instance->version != 1)
            return reject(walk, "state %s is written from another state's storage", state->name);
    } else {
        if (walk->overwritten[step->state] >= 0) return reject(walk, "state %s is overwritten twice", state->name);
        walk->overwritten[step->state] = walk->step;
    }
    walk->written[step->state] = walk->step;
    return true;
}

/* The step before or after step `at` (side -1, 1), if it has the same kind and bucket; else NULL. */
static const Step *bucket_neighbour(const RoleCheck *walk, int at, int side) {
    const Role *role = walk->role;
    const Step *step = &role->steps.at[at], *other = at + side >= 0 && at + side < role->steps.n ? &role->steps.at[at + side] : NULL;
    return step->bucket > 0 && other && other->kind == step->kind && other->bucket == step->bucket ? other : NULL;
}

/* A bucket is one communication: it begins with its first start and ends with its first wait. So its starts are consecutive, of one kind
 * and type, and all targets are written from the first start on. Buckets are numbered in order, so none occurs twice. */
static bool bucket_start(RoleCheck *walk, const Step *step, int *nbuckets) {
    if (step->bucket == 0) return true;
    const Step *before = bucket_neighbour(walk, walk->step, -1);
    if (!before) return step->bucket == ++*nbuckets || reject(walk, "bucket %d begins where bucket %d is next", step->bucket, *nbuckets);
    if (before->comm != step->comm || value_of(walk, before->in[0])->type.dtype != value_of(walk, step->in[0])->type.dtype)
        return reject(walk, "bucket %d joins communications of different kinds or types", step->bucket);
    walk->defined[step->out[0]] = walk->defined[before->out[0]];
    return true;
}

/* The waits of a bucket are consecutive too, as many as its starts and in their order. */
static bool bucket_wait(RoleCheck *walk, const Step *step, int start) {
    if (step->bucket != walk->role->steps.at[start].bucket)
        return reject(walk, "waits for request %d as of bucket %d", step->request, step->bucket);
    for (int side = -1; side <= 1; side += 2) {
        const Step *started = bucket_neighbour(walk, start, side), *waited = bucket_neighbour(walk, walk->step, side);
        if (!started != !waited || (started && started->request != waited->request))
            return reject(walk, "the waits of bucket %d are not those of its starts, in their order", step->bucket);
    }
    return true;
}

static bool steps_check(RoleCheck *walk, ShownTable *shown) {
    const Role *role = walk->role;
    int nbuckets = 0, nfused = 0;
    for (walk->step = 0; walk->step < role->steps.n; walk->step++) {
        const Step *step = &role->steps.at[walk->step];
        walk->proof->steps++;
        if (!fused_step(walk, step, &nfused)) return false;
        switch (step->kind) {
        case STEP_KERNEL:
            if (!kernel_step(walk, step)) return false;
            break;
        case STEP_LOCAL:
            if (step->comm != COMM_STRIDED_SLICE) return reject(walk, "%s is not a local step", comm_name[step->comm]);
            if (!all_here(walk, step) || !conversion_step(walk, step, shown) || !use(walk, step->in[0], walk->step) ||
                !define(walk, step->out[0], walk->step, false))
                return false;
            break;
        case STEP_START:
            if (step->request < 0 || step->request >= walk->nrequests || walk->pending[step->request] != -1)
                return reject(walk, "request %d is started twice", step->request);
            if (!conversion_step(walk, step, shown) || !use(walk, step->in[0], walk->step) || !define(walk, step->out[0], NEVER, false))
                return false;
            walk->pending[step->request] = walk->step;
            if (!bucket_start(walk, step, &nbuckets)) return false;
            break;
        case STEP_WAIT: {
            if (step->request < 0 || step->request >= walk->nrequests || walk->pending[step->request] < 0)
                return reject(walk, "waits for request %d, which is not under way", step->request);
            const Step *start = &role->steps.at[walk->pending[step->request]];
            if (step->comm != start->comm || step->in[0] != start->in[0] || step->out[0] != start->out[0])
                return reject(walk, "waits for request %d, which is another communication", step->request);
            if (!bucket_wait(walk, step, walk->pending[step->request])) return false;
            /* The source must last until here; the result may be read from here. The old version of a state must not have been overwritten
             * meanwhile. */
            if (!use(walk, start->in[0], walk->step)) return false;
            walk->readable[start->out[0]] = walk->step;
            if (walk->last[start->out[0]] < walk->step) walk->last[start->out[0]] = walk->step;
            walk->pending[step->request] = -2;
            break;
        }
        case STEP_WRITE:
            if (!write_step(walk, step)) return false;
            break;
        }
    }
    walk->step = -1;
    for (int r = 0; r < walk->nrequests; r++)
        if (walk->pending[r] >= 0) return reject(walk, "request %d is never waited for", r);
    return true;
}

/* Checks a reported value: it is there after the last step, not partial, and whole (per hidden slice) where the graph says so. */
static bool report_check(RoleCheck *walk, const char *what, int instance, int value, bool whole) {
    const Graph *graph = &walk->plan->graph;
    if (instance < 0) return reject(walk, "%s is not reported", what);
    const Instance *own = &walk->role->instances.at[instance];
    if (own->value != value) return reject(walk, "reports %s as %s", value_of(walk, instance)->name, what);
    walk->step = walk->first = walk->end = walk->role->steps.n;
    if (!use(walk, instance, walk->step)) return false;
    walk->step = -1;
    if (layout_is_partial(own->layout)) return reject(walk, "%s is partial where it is reported", what);
    if (own_halos(own->layout)) return reject(walk, "%s has halos where it is reported", what);
    if (whole && layout_is_pinned(own->layout)) return reject(walk, "%s is not on every rank", what);
    for (int list = graph->values.at[value].type.hidden ? 1 : 0; whole && list < own->layout->ndim; list++)
        if (layout_count(own->layout, list)) return reject(walk, "%s is not whole where it is reported", what);
    return true;
}

/* Checks what a program must leave behind: a loss that every rank can report, and every state of the graph written. */
static bool outputs_check(RoleCheck *walk) {
    const Graph *graph = &walk->plan->graph;
    for (int i = 0; i < graph->nodes.n; i++)
        if (graph->nodes.at[i].op == OP_write && !walk->computed[i] &&
            role_has(walk->role, graph->states.at[graph->nodes.at[i].state].layout))
            return reject(walk, "state %s is not written", graph->states.at[graph->nodes.at[i].state].name);
    for (int s = 0; s < graph->states.n; s++)
        if (walk->overwritten[s] >= 0 && walk->written[s] < 0)
            return reject(walk, "state %s is overwritten, not written", graph->states.at[s].name);
    if (graph->loss < 0 && walk->program->loss >= 0) return reject(walk, "a loss that the graph does not have");
    if (walk->program->reports.n != graph->reports.n)
        return reject(walk, "reports %d values where the graph says %d", walk->program->reports.n, graph->reports.n);
    if (graph->loss >= 0 && !report_check(walk, "the loss", walk->program->loss, graph->loss, true)) return false;
    for (int i = 0; i < graph->reports.n; i++) {
        const Report *report = &graph->reports.at[i];
        if (!report_check(walk, report->name, walk->program->reports.at[i], report->value, report->whole)) return false;
    }
    return true;
}

/* Checks that a program that does not train leaves the net's states unchanged: it writes none, and reads no new version of one. It may
 * write its own caches. */
static bool reads_only(RoleCheck *walk) {
    const Graph *graph = &walk->plan->graph;
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        const bool writes = node->op == OP_write && !graph->states.at[node->state].cache;
        if (writes || (node->op == OP_read && node->version != 0))
            return reject(walk, "it %ss, and %s state %s", walk->program->kind == PROGRAM_EVAL ? "evaluate" : "generate",
                          writes ? "writes" : "reads a new version of", graph->states.at[node->state].name);
    }
    return true;
}

static bool role_check(RoleCheck *walk, const Sample *sample, ShownTable *shown) {
    const Graph *graph = &walk->plan->graph;
    const Role *role = walk->role;
    char why[512];
    size_t n = (size_t)role->instances.n, nrequests = (size_t)(walk->nrequests = program_requests(walk->program)),
           nstates = (size_t)graph->states.n;
    int *ints = malloc((3 * n + nrequests + 2 * nstates + 1) * sizeof *ints);
    bool *flags = calloc(n + (size_t)graph->nodes.n + 1, sizeof *flags);
    bool ok = ints && flags;
    walk->step = -1;
    if (!ok) reject(walk, "out of memory in the proof");
    if (ok) {
        walk->defined = ints;
        walk->readable = ints + n;
        walk->last = ints + 2 * n;
        walk->pending = ints + 3 * n;
        walk->overwritten = walk->pending + nrequests;
        walk->written = walk->overwritten + nstates;
        walk->in_place = flags;
        walk->computed = flags + n;
        for (size_t i = 0; i < n; i++) {
            walk->defined[i] = walk->readable[i] = NEVER;
            walk->last[i] = -1;
        }
        for (size_t i = 0; i < nrequests + 2 * nstates; i++)
            walk->pending[i] = -1;
    }
    for (int i = 0; ok && i < role->instances.n; i++) {
        const Instance *instance = &role->instances.at[i];
        const Value *value = &graph->values.at[instance->value];
        const char *invalid = NULL;
        if (!own_layout_valid(instance->layout, value->type.shape.ndim, graph->nranks, &invalid))
            ok = reject(walk, "value %d (%s): %s", i, value->name, invalid);
        if (ok && instance->place != PLACE_ARENA && instance->place != PLACE_ELSEWHERE && own_halos(instance->layout))
            ok = reject(walk, "value %d (%s): what has halos is an exchange's result, and lies in the arena", i, value->name);
        ok = ok && leaf_check(walk, i);
        if (ok && !shown_before(shown, NCOMMS, instance->layout, NULL, &value->type.shape)) {
            walk->proof->boxes += sample->n;
            if (!box_check(instance->layout, &value->type.shape, sample, why, sizeof why))
                ok = reject(walk, "value %d (%s): %s", i, value->name, why);
        }
        walk->proof->instances++;
    }
    ok = ok && steps_check(walk, shown) && outputs_check(walk);
    if (ok && !memory_check(walk->plan, role, walk->defined, walk->last, walk->in_place, why, sizeof why)) ok = reject(walk, "%s", why);
    free(ints);
    free(flags);
    return ok;
}

bool compositional_check(const Plan *plan, Pool *pool, Proof *proof, Error *error) {
    Sample sample;
    sample_ranks(plan->graph.nranks, &sample);
    proof->ranks_checked = sample.n;
    ShownTable shown = {0};
    arena_init(&shown.arena);
    bool ok = true;
    int programs = 0;
    for (int p = 0; ok && p < plan->programs.n; p++, programs++) {
        RoleCheck walk = {.plan = plan, .program = &plan->programs.at[p], .proof = proof, .error = error, .step = -1};
        ok = (walk.program->kind == PROGRAM_TRAIN || reads_only(&walk)) && copies_check(&plan->graph, proof, error);
        for (int r = 0; ok && r < walk.program->roles.n; r++) {
            walk.role = &walk.program->roles.at[r];
            ok = role_check(&walk, &sample, &shown);
        }
        ok = ok && roles_check(plan, walk.program, error);
        proof->roles += walk.program->roles.n;
    }
    ok = conversions_check(&shown, &sample, plan->graph.nranks, pool) &&
         ok; /* also checks steps before a rejected one, as their errors come first */
    if (ok && !programs) ok = error_set(error, EXIT_INTERNAL, "the plan has no program");
    arena_finish(&shown.arena);
    return ok;
}
