/* Runs a plan's programs over the field, the ranks of each role in lock step, and compares them with the graph. Memory is laid out as in the plan: each rank has an arena of
 * cells of the size of the smallest element (larger elements fill several), and a buffer for each state. So values that overlap overwrite each other here too. Inner values of a
 * fused step lie after the arena, side by side; its members run one after the other. A view has no memory: each reader recomputes it from what its operand's memory holds at
 * that time. */
#include "proof/field.h"

#include <stdlib.h>
#include <string.h>

/* A communication in progress, in all roles that have it. */
typedef struct Flight {
    int nroles, nstarted; /* roles that have it; that have started it */
    bool moved;
    Spread source; /* what was sent at the start */
    Spread target; /* what the ranks receive, once all roles have started it */
} Flight;

/* A role being run, and the memory of its ranks. */
typedef struct Lane {
    const Role *role;
    int step;
    int64_t ncells; /* of a rank: the arena's, then those of inner values */
    int64_t narena; /* of the arena */
    int64_t *inner; /* per inner instance: its first cell */
    int *maker;     /* per view: the step that makes it */
    Fe *cells;      /* [rank][cell] */
    int *under_way; /* per request: its start step + 1; 0: not in progress */
} Lane;

typedef struct Interpreter {
    const Plan *plan;
    const Program *program;
    int nranks;
    Lane *lane; /* the role being run */
    Lane *lanes;
    Arena arena;         /* of values */
    FieldTensor *values; /* the graph's, whole */
    int cell_bytes;
    Spread *states; /* per state */
    int nrequests;
    Flight *flights;                        /* per request */
    Spread in[MAX_IN], out[MAX_OUT], there; /* there: the memory in which a view lies */
    char *why;
    size_t n;
} Interpreter;

/* Bytes of the smallest element of any value. */
static int smallest_element(const Graph *graph) {
    int least = 8;
    for (int v = 0; v < graph->values.n; v++)
        if (dtype_bytes[graph->values.at[v].type.dtype] < least) least = dtype_bytes[graph->values.at[v].type.dtype];
    return least;
}

static bool fails(const Interpreter *m, const char *format, ...) PRINTF_LIKE(2, 3);
static bool fails(const Interpreter *m, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (m->lane->step < m->lane->role->steps.n)
        snprintf(m->why, m->n, "program %s, step %d: %s", m->program->name, m->lane->step, text);
    else
        snprintf(m->why, m->n, "program %s, after its last step: %s", m->program->name, text);
    return false;
}

static const Value *value_of(const Interpreter *m, const Instance *instance) {
    return &m->plan->graph.values.at[instance->value];
}

static int64_t elements_of(const Box *box) {
    int64_t n = !box->nothing;
    for (int d = 0; d < box->ndim; d++)
        n *= box->end[d] - box->begin[d];
    return n;
}

/* ---------------------------------------------------------------- where values lie */

static Fe *cells_of(const Interpreter *m, const Instance *instance, int rank) {
    return m->lane->cells + m->lane->ncells * (rank - m->lane->role->first_rank) +
           (instance->place == PLACE_INNER ? m->lane->inner[instance - m->lane->role->instances.at] : instance->at / m->cell_bytes);
}

/* Gives the inner instances of each fused step cells from `behind` on. Returns the end of the cells that any of them takes. */
static int64_t place_inner(Interpreter *m, int64_t behind) {
    int64_t at = behind, end = behind;
    m->lane->inner = arena_alloc(&m->arena, sizeof *m->lane->inner * (size_t)(m->lane->role->instances.n + 1));
    memset(m->lane->inner, 0xff, sizeof *m->lane->inner * (size_t)m->lane->role->instances.n);
    for (int s = 0; s < m->lane->role->steps.n; s++) {
        const Step *step = &m->lane->role->steps.at[s];
        if (s == 0 || step->fused != step[-1].fused) at = behind;
        for (int k = 0; k < step->nin + step->nout; k++) {
            const int id = k < step->nin ? step->in[k] : step->out[k - step->nin];
            const Instance *instance = &m->lane->role->instances.at[id];
            const TensorType *type = &value_of(m, instance)->type;
            if (instance->place != PLACE_INNER || m->lane->inner[id] >= 0) continue;
            m->lane->inner[id] = at;
            at += own_max_elements(instance->layout, &type->shape) * dtype_bytes[type->dtype] / m->cell_bytes;
            end = at > end ? at : end;
        }
    }
    return end;
}

static void arena_load(const Fe *cell, int width, int64_t elements, Fe *to) {
    for (int64_t i = 0; i < elements; i++) {
        to[i] = cell[i * width];
        for (int part = 1; part < width; part++)
            if (cell[i * width + part] != to[i]) to[i] = FE_POISON; /* part of the element was overwritten */
    }
}

static void arena_store(Fe *cell, int width, int64_t elements, const Fe *from) {
    for (int64_t i = 0; i < elements * width; i++)
        cell[i] = from[i / width];
}

/* The graph's value of an input; -1: nothing reads it. */
static int input_value(const Graph *graph, int64_t input) {
    for (int i = 0; i < graph->nodes.n; i++)
        if (graph->nodes.at[i].op == OP_input && graph->nodes.at[i].state == input) return graph->nodes.at[i].out[0];
    return -1;
}

/* Loads a rank's box of an input, whose graph value is `value`: its elements, whatever the shape of the instance that lies there. */
static bool input_load(const Interpreter *m, const Input *stored, int value, int rank, int64_t elements, Fe *to) {
    Box box;
    if (value < 0 || !stored->layout) return fails(m, "nothing reads input %s", stored->name);
    own_box(stored->layout, &stored->type.shape, rank, &box);
    if (elements_of(&box) != elements) return fails(m, "a value does not fit input %s that it lies in", stored->name);
    box_cut(&stored->type.shape, m->values[value].at, &box, to);
    return true;
}

static bool load_view(const Interpreter *m, int number, Spread *to);

/* Loads the instance's boxes on all ranks of the role. */
static bool load(const Interpreter *m, int number, Spread *to) {
    const Instance *instance = &m->lane->role->instances.at[number];
    const Value *value = value_of(m, instance);
    const Shape *shape = &value->type.shape;
    if (!spread_room(to, instance->layout, shape, m->nranks)) return fails(m, "no memory for value %d (%s)", number, value->name);
    if (instance->place == PLACE_STATE && m->states[instance->at].each != to->each)
        return fails(m, "value %d (%s) does not fit the state that it lies in", number, value->name);
    if (instance->place == PLACE_VIEW) return load_view(m, number, to);
    const int input = instance->place == PLACE_INPUT ? input_value(&m->plan->graph, instance->at) : -1;
    for (int rank = m->lane->role->first_rank; rank <= m->lane->role->last_rank; rank++) {
        Box box;
        own_box(instance->layout, shape, rank, &box);
        Fe *part = spread_rank(to, rank);
        switch (instance->place) {
        case PLACE_ARENA:
        case PLACE_INNER:
            arena_load(cells_of(m, instance, rank), dtype_bytes[value->type.dtype] / m->cell_bytes, elements_of(&box), part);
            break;
        case PLACE_STATE:
            memcpy(part, spread_rank(&m->states[instance->at], rank), (size_t)to->each * sizeof *part);
            break;
        case PLACE_INPUT:
            if (!input_load(m, &m->plan->graph.inputs.at[instance->at], input, rank, elements_of(&box), part)) return false;
            break;
        case PLACE_CONSTANT:
            box_cut(shape, m->values[instance->value].at, &box, part);
            break;
        case PLACE_VIEW:
        case PLACE_ELSEWHERE:
            break;
        }
    }
    return true;
}

static FieldTensor part_of(const Interpreter *m, int number, const Spread *spread, int rank) {
    const Instance *instance = &m->lane->role->instances.at[number];
    const TensorType *type = &value_of(m, instance)->type;
    FieldTensor tensor = {.dtype = type->dtype, .hidden = type->hidden, .global = type->shape, .at = spread_rank(spread, rank)};
    own_box(instance->layout, &type->shape, rank, &tensor.box);
    return tensor;
}

/* Whether a and b are equal in the boxes of the role's ranks. */
static bool same_parts(const Interpreter *m, int number, const Spread *a, const Spread *b) {
    for (int rank = m->lane->role->first_rank; rank <= m->lane->role->last_rank; rank++) {
        FieldTensor part = part_of(m, number, a, rank);
        if (memcmp(part.at, spread_rank(b, rank), (size_t)elements_of(&part.box) * sizeof(Fe))) return false;
    }
    return true;
}

/* Checks that a view equals what its memory holds. */
static bool view_agrees(Interpreter *m, int number, const Spread *from) {
    const Instance *instance = &m->lane->role->instances.at[number];
    if (!load(m, number, &m->there)) return false;
    return same_parts(m, number, &m->there, from) ||
           fails(m, "value %d (%s) is not what lies in its %s", number, value_of(m, instance)->name, place_name[instance->place]);
}

static bool store(Interpreter *m, int number, const Spread *from) {
    const Instance *instance = &m->lane->role->instances.at[number];
    const Value *value = value_of(m, instance);
    if (instance->place == PLACE_VIEW || instance->place == PLACE_ELSEWHERE) return true;
    if (instance_is_view(&m->plan->graph, instance)) return view_agrees(m, number, from);
    const bool in_cells = instance->place == PLACE_ARENA || instance->place == PLACE_INNER;
    if (!in_cells && instance->place != PLACE_STATE)
        return fails(m, "value %d (%s) is computed into an %s", number, value->name, place_name[instance->place]);
    if (instance->place == PLACE_STATE && m->states[instance->at].each != from->each)
        return fails(m, "value %d (%s) does not fit the state that it lies in", number, value->name);
    for (int rank = m->lane->role->first_rank; rank <= m->lane->role->last_rank; rank++) {
        Box box;
        own_box(instance->layout, &value->type.shape, rank, &box);
        if (in_cells)
            arena_store(cells_of(m, instance, rank), dtype_bytes[value->type.dtype] / m->cell_bytes, elements_of(&box),
                        spread_rank(from, rank));
        else
            memcpy(spread_rank(&m->states[instance->at], rank), spread_rank(from, rank), (size_t)from->each * sizeof(Fe));
    }
    return true;
}

/* ---------------------------------------------------------------- steps */

static bool agrees(const Interpreter *m, const char *what, int number, const Spread *spread) {
    const Instance *instance = &m->lane->role->instances.at[number];
    const Value *value = value_of(m, instance);
    char why[300];
    const Role *role = m->lane->role;
    if (spread_agrees_on(instance->layout, &value->type.shape, role->first_rank, role->last_rank, spread, m->values[instance->value].at,
                         why, sizeof why))
        return true;
    return fails(m, "%s gives a wrong %s (value %d): %s", what, value->name, number, why);
}

static bool has_poison(const FieldTensor *tensor) {
    int64_t elements = elements_of(&tensor->box);
    for (int64_t i = 0; i < elements; i++)
        if (tensor->at[i] == FE_POISON) return true;
    return false;
}

/* Computes a step's results from its operands. */
static bool compute(const Interpreter *m, const Step *step, const Spread *operands, Spread *results) {
    char why[300];
    const Node *node = &m->plan->graph.nodes.at[step->node];
    for (int k = 0; k < step->nout; k++) {
        const Instance *result = &m->lane->role->instances.at[step->out[k]];
        if (!spread_room(&results[k], result->layout, &value_of(m, result)->type.shape, m->nranks))
            return fails(m, "no memory for value %d", step->out[k]);
    }
    for (int rank = m->lane->role->first_rank; rank <= m->lane->role->last_rank; rank++) {
        FieldTensor in[MAX_IN], out[MAX_OUT];
        if (step->nout > 0 && !own_has_rank(m->lane->role->instances.at[step->out[0]].layout, rank)) continue; /* others compute it */
        for (int i = 0; i < step->nin; i++) {
            in[i] = part_of(m, step->in[i], &operands[i], rank);
            if (has_poison(&in[i]))
                return fails(m, "%s (%s): rank %d reads a part of operand %d (value %d) that is not there, or was overwritten", node->name,
                             op_table[node->op].name, rank, i, step->in[i]);
        }
        for (int k = 0; k < step->nout; k++)
            out[k] = part_of(m, step->out[k], &results[k], rank);
        if (!field_kernel(&m->plan->graph, node, in, out, why, sizeof why))
            return fails(m, "%s (%s), rank %d: %s", node->name, op_table[node->op].name, rank, why);
    }
    return true;
}

static bool load_view(const Interpreter *m, int number, Spread *to) {
    const int base = (int)m->lane->role->instances.at[number].at;
    const Step *step = m->lane->maker[number] < 0 ? NULL : &m->lane->role->steps.at[m->lane->maker[number]];
    if (!step || step->in[0] != base || base >= number) return fails(m, "value %d is a view that no step makes of value %d", number, base);
    Spread from = {0}, results[MAX_OUT] = {0};
    const bool ok = load(m, base, &from) && compute(m, step, &from, results);
    for (int k = 0; k < step->nout; k++) {
        if (ok && step->out[k] == number && to->each > 0) memcpy(to->at, results[k].at, (size_t)(to->each * m->nranks) * sizeof *to->at);
        spread_finish(&results[k]);
    }
    spread_finish(&from);
    return ok;
}

static bool run_kernel(Interpreter *m, const Step *step) {
    for (int i = 0; i < step->nin; i++)
        if (!load(m, step->in[i], &m->in[i])) return false;
    if (!compute(m, step, m->in, m->out)) return false;
    for (int k = 0; k < step->nout; k++)
        if (!agrees(m, op_table[m->plan->graph.nodes.at[step->node].op].name, step->out[k], &m->out[k]) ||
            !store(m, step->out[k], &m->out[k]))
            return false;
    return true;
}

static bool move(Interpreter *m, const Step *step, const Spread *source, Spread *target) {
    const Instance *from = &m->lane->role->instances.at[step->in[0]], *to = &m->lane->role->instances.at[step->out[0]];
    const Shape *shape = &value_of(m, from)->type.shape;
    char why[300];
    if (!spread_room(target, to->layout, shape, m->nranks)) return fails(m, "no memory for value %d", step->out[0]);
    return spread_move(step->comm, from->layout, to->layout, shape, m->nranks, source, target, why, sizeof why) ||
           fails(m, "%s of %s: %s", comm_name[step->comm], value_of(m, from)->name, why);
}

/* Runs a local step: a slice of what each rank of the role holds. */
static bool run_local(Interpreter *m, const Step *step) {
    const Instance *from = &m->lane->role->instances.at[step->in[0]], *to = &m->lane->role->instances.at[step->out[0]];
    const Role *role = m->lane->role;
    const Shape *shape = &value_of(m, from)->type.shape;
    char why[300];
    if (!load(m, step->in[0], &m->in[0])) return false;
    if (!spread_room(&m->out[0], to->layout, shape, m->nranks)) return fails(m, "no memory for value %d", step->out[0]);
    if (!spread_move_on(step->comm, from->layout, to->layout, shape, m->nranks, role->first_rank, role->last_rank, &m->in[0], &m->out[0],
                        why, sizeof why))
        return fails(m, "%s of %s: %s", comm_name[step->comm], value_of(m, from)->name, why);
    return agrees(m, comm_name[step->comm], step->out[0], &m->out[0]) && store(m, step->out[0], &m->out[0]);
}

/* Copies the parts of the role's ranks. */
static void copy_parts(const Interpreter *m, const Spread *from, Spread *to) {
    const Role *role = m->lane->role;
    if (to->each > 0)
        memcpy(spread_rank(to, role->first_rank), spread_rank(from, role->first_rank),
               (size_t)(to->each * (role->last_rank - role->first_rank + 1)) * sizeof(Fe));
}

static bool start_move(Interpreter *m, const Step *step) {
    Flight *flight = &m->flights[step->request];
    const Instance *from = &m->lane->role->instances.at[step->in[0]], *to = &m->lane->role->instances.at[step->out[0]];
    if (m->lane->under_way[step->request] != 0) return fails(m, "request %d is started twice", step->request);
    if (flight->nstarted == 0 && !spread_room(&flight->source, from->layout, &value_of(m, from)->type.shape, m->nranks))
        return fails(m, "no memory for value %d", step->in[0]);
    m->lane->under_way[step->request] = m->lane->step + 1;
    flight->nstarted++;
    if (!load(m, step->in[0], &m->in[0])) return false;
    if (m->in[0].each != flight->source.each) return fails(m, "request %d is another communication in another role", step->request);
    copy_parts(m, &m->in[0], &flight->source);
    if (!spread_room(&m->out[0], to->layout, &value_of(m, to)->type.shape, m->nranks))
        return fails(m, "no memory for value %d", step->out[0]);
    return store(m, step->out[0], &m->out[0]); /* poison until the wait */
}

/* Ends a communication that all its roles have started. */
static bool end_move(Interpreter *m, const Step *step) {
    Flight *flight = &m->flights[step->request];
    const int start = m->lane->under_way[step->request] - 1;
    if (start < 0) return fails(m, "request %d is not under way", step->request);
    const Step *started = &m->lane->role->steps.at[start];
    if (!load(m, started->in[0], &m->in[0]) || !load(m, started->out[0], &m->in[1])) return false;
    if (!same_parts(m, started->in[0], &m->in[0], &flight->source))
        return fails(m, "%s: its source was overwritten since step %d", comm_name[step->comm], start);
    for (int rank = m->lane->role->first_rank; rank <= m->lane->role->last_rank; rank++) {
        FieldTensor target = part_of(m, started->out[0], &m->in[1], rank);
        for (int64_t i = 0, n = elements_of(&target.box); i < n; i++)
            if (target.at[i] != FE_POISON) return fails(m, "%s: its target was used since step %d", comm_name[step->comm], start);
    }
    m->lane->under_way[step->request] = 0;
    if (!flight->moved && !move(m, started, &flight->source, &flight->target)) return false;
    flight->moved = true;
    return agrees(m, comm_name[step->comm], step->out[0], &flight->target) && store(m, step->out[0], &flight->target);
}

static bool write_state(Interpreter *m, const Step *step) {
    const Instance *instance = &m->lane->role->instances.at[step->in[0]];
    if (instance->place == PLACE_STATE && instance->at == step->state) return true;
    Spread *state = &m->states[step->state];
    if (!load(m, step->in[0], &m->in[0])) return false;
    if (m->in[0].each != state->each)
        return fails(m, "state %s is written in another layout than it is stored in", m->plan->graph.states.at[step->state].name);
    copy_parts(m, &m->in[0], state);
    return true;
}

/* Poisons the inner cells, so that no fused step finds values that another one left. */
static void forget_inner(const Interpreter *m) {
    for (int rank = m->lane->role->first_rank; rank <= m->lane->role->last_rank; rank++)
        memset(m->lane->cells + m->lane->ncells * (rank - m->lane->role->first_rank) + m->lane->narena, 0xff,
               (size_t)(m->lane->ncells - m->lane->narena) * sizeof *m->lane->cells);
}

static bool run_step(Interpreter *m, const Step *step) {
    switch (step->kind) {
    case STEP_KERNEL:
        if (step->fused > 0 && (m->lane->step == 0 || step[-1].fused != step->fused)) forget_inner(m);
        return run_kernel(m, step);
    case STEP_LOCAL:
        return run_local(m, step);
    case STEP_START:
        return start_move(m, step);
    case STEP_WAIT:
        return end_move(m, step);
    case STEP_WRITE:
        return write_state(m, step);
    }
    return false;
}

/* ---------------------------------------------------------------- before the first step, after the last */

/* The value that a state holds before a step, or with `after` after it; -1: nothing reads or writes it. */
static int state_value(const Graph *graph, int state, bool after) {
    int value = -1;
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        if (node->state != state) continue;
        if (node->op == OP_read && node->version == 0 && value < 0) value = node->out[0];
        if (node->op == OP_write && after) value = node->in[0];
    }
    return value;
}

static bool prepare_lane(Interpreter *m) {
    Lane *lane = m->lane;
    const Role *role = lane->role;
    lane->narena = (role->arena_bytes + m->cell_bytes - 1) / m->cell_bytes;
    lane->ncells = place_inner(m, lane->narena);
    lane->maker = arena_alloc(&m->arena, ((size_t)role->instances.n + 1) * sizeof *lane->maker);
    lane->under_way = arena_alloc(&m->arena, ((size_t)m->nrequests + 1) * sizeof *lane->under_way);
    view_makers(role, lane->maker);
    const size_t ncells = (size_t)lane->ncells * (size_t)(role->last_rank - role->first_rank + 1);
    lane->cells = malloc((ncells + 1) * sizeof *lane->cells);
    if (!lane->cells) return fails(m, "no memory to run it");
    memset(lane->cells, 0xff, ncells * sizeof *lane->cells);
    for (int i = 0; i < role->instances.n; i++) {
        const Instance *instance = &role->instances.at[i];
        const TensorType *type = &value_of(m, instance)->type;
        int64_t bytes = own_max_elements(instance->layout, &type->shape) * dtype_bytes[type->dtype];
        if (instance->place == PLACE_ARENA &&
            (instance->at < 0 || instance->at % m->cell_bytes || instance->at + bytes > role->arena_bytes))
            return fails(m, "value %d (%s) lies outside the arena", i, value_of(m, instance)->name);
    }
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind != STEP_START && step->kind != STEP_WAIT) continue;
        if (step->request < 0 || step->request >= m->nrequests) return fails(m, "an impossible request");
        m->flights[step->request].nroles += step->kind == STEP_START;
    }
    return true;
}

static bool prepare(Interpreter *m, uint64_t seed) {
    const Graph *graph = &m->plan->graph;
    const int nroles = m->program->roles.n;
    char why[300];
    m->lanes = m->lane = arena_alloc(&m->arena, ((size_t)nroles + 1) * sizeof *m->lanes);
    m->lane->role = &m->program->roles.at[0];
    m->values = arena_alloc(&m->arena, ((size_t)graph->values.n + 1) * sizeof *m->values);
    if (!field_graph(graph, graph->nodes.n, seed, &m->arena, m->values, why, sizeof why)) return fails(m, "the graph: %s", why);
    m->cell_bytes = smallest_element(graph);
    m->nrequests = program_requests(m->program);
    m->states = calloc((size_t)graph->states.n + 1, sizeof *m->states);
    m->flights = calloc((size_t)m->nrequests + 1, sizeof *m->flights);
    if (!m->states || !m->flights) return fails(m, "no memory to run it");
    for (int s = 0; s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        int value = state_value(graph, s, false);
        if (!state->layout || !spread_room(&m->states[s], state->layout, &state->type.shape, m->nranks))
            return fails(m, "no memory for state %s", state->name);
        for (int rank = 0; value >= 0 && rank < m->nranks; rank++) {
            Box box;
            own_box(state->layout, &state->type.shape, rank, &box);
            box_cut(&state->type.shape, m->values[value].at, &box, spread_rank(&m->states[s], rank));
        }
    }
    for (int r = 0; r < nroles; r++) {
        m->lane = &m->lanes[r];
        m->lane->role = &m->program->roles.at[r];
        if (!prepare_lane(m)) return false;
    }
    return true;
}

static bool compare_report(Interpreter *m, const char *what, int instance, int value) {
    if (instance < 0 || m->lane->role->instances.at[instance].value != value) return fails(m, "%s is not reported", what);
    return load(m, instance, &m->in[0]) && agrees(m, "the program", instance, &m->in[0]);
}

static bool compare_reports(Interpreter *m) {
    const Graph *graph = &m->plan->graph;
    if (graph->loss >= 0 && !compare_report(m, "the loss", m->program->loss, graph->loss)) return false;
    if (m->program->reports.n != graph->reports.n)
        return fails(m, "%d reports where the graph has %d", m->program->reports.n, graph->reports.n);
    for (int i = 0; i < graph->reports.n; i++)
        if (!compare_report(m, graph->reports.at[i].name, m->program->reports.at[i], graph->reports.at[i].value)) return false;
    return true;
}

static bool compare_end(Interpreter *m) {
    const Graph *graph = &m->plan->graph;
    for (int s = 0; s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        int value = state_value(graph, s, true);
        char why[300];
        if (value >= 0 && !spread_agrees(state->layout, &state->type.shape, m->nranks, &m->states[s], m->values[value].at, why, sizeof why))
            return fails(m, "state %s is wrong: %s", state->name, why);
    }
    for (int r = 0; r < m->program->roles.n; r++) {
        m->lane = &m->lanes[r];
        if (!compare_reports(m)) return false;
    }
    return true;
}

/* Runs the role up to a wait for a communication that other roles have not started yet. *any: some step was run. */
static bool run_lane(Interpreter *m, bool *any) {
    Lane *lane = m->lane;
    for (; lane->step < lane->role->steps.n; lane->step++, *any = true) {
        const Step *step = &lane->role->steps.at[lane->step];
        if (step->kind == STEP_WAIT && m->flights[step->request].nstarted < m->flights[step->request].nroles) break;
        if (!run_step(m, step)) return false;
    }
    return true;
}

static bool run_lanes(Interpreter *m) {
    const int nroles = m->program->roles.n;
    for (bool any = true; any;) {
        any = false;
        for (int r = 0; r < nroles; r++) {
            m->lane = &m->lanes[r];
            if (!run_lane(m, &any)) return false;
        }
    }
    for (int r = 0; r < nroles; r++) {
        m->lane = &m->lanes[r];
        if (m->lane->step < m->lane->role->steps.n) return fails(m, "waits for ever");
    }
    return true;
}

bool numeric_program(const Plan *plan, const Program *program, uint64_t seed, char *why, size_t n) {
    Interpreter m = {.plan = plan, .program = program, .nranks = plan->graph.nranks, .why = why, .n = n};
    arena_init(&m.arena);
    bool ok = prepare(&m, seed) && run_lanes(&m) && compare_end(&m);
    for (int s = 0; m.states && s < plan->graph.states.n; s++)
        spread_finish(&m.states[s]);
    for (int r = 0; m.flights && r < m.nrequests; r++) {
        spread_finish(&m.flights[r].source);
        spread_finish(&m.flights[r].target);
    }
    for (int i = 0; i < MAX_IN; i++)
        spread_finish(&m.in[i]);
    for (int k = 0; k < MAX_OUT; k++)
        spread_finish(&m.out[k]);
    spread_finish(&m.there);
    for (int r = 0; r < program->roles.n; r++)
        free(m.lanes[r].cells);
    free(m.states);
    free(m.flights);
    arena_finish(&m.arena);
    return ok;
}

/* ---------------------------------------------------------------- what it costs */

/* Costs in multiplications: of an element loaded, compared and stored, measured with the nets of samples/; of a tensor on a rank, however
 * small, measured with random nets on thousands of ranks. */
static const double element_work = 2, tensor_work = 250;

/* The work of all ranks of a role. */
static double role_work(const Graph *graph, const Role *role) {
    double a_rank = 0;
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        FieldTensor in[MAX_IN], out[MAX_OUT];
        for (int i = 0; i < step->nin + step->nout; i++) {
            const Instance *instance = &role->instances.at[i < step->nin ? step->in[i] : step->out[i - step->nin]];
            const TensorType *type = &graph->values.at[instance->value].type;
            FieldTensor *tensor = i < step->nin ? &in[i] : &out[i - step->nin];
            *tensor = (FieldTensor){.dtype = type->dtype, .hidden = type->hidden, .global = type->shape};
            own_box(instance->layout, &type->shape, role->first_rank, &tensor->box); /* the largest */
            a_rank += tensor_work + element_work * (double)elements_of(&tensor->box);
        }
        if (step->kind == STEP_KERNEL) a_rank += field_work(graph, &graph->nodes.at[step->node], in, out);
    }
    return a_rank * (role->last_rank - role->first_rank + 1);
}

double numeric_work(const Plan *plan, const Program *program) {
    const Graph *graph = &plan->graph;
    double work = field_graph_work(graph);
    for (int r = 0; r < program->roles.n; r++)
        work += role_work(graph, &program->roles.at[r]);
    return work;
}
double numeric_bytes(const Plan *plan, const Program *program) {
    const Graph *graph = &plan->graph;
    double bytes = 0;
    for (int v = 0; v < graph->values.n; v++)
        bytes += (double)sizeof(Fe) * (double)shape_elements(&graph->values.at[v].type.shape);
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].layout)
            bytes +=
                (double)sizeof(Fe) * graph->nranks * (double)own_max_elements(graph->states.at[s].layout, &graph->states.at[s].type.shape);
    for (int r = 0; r < program->roles.n; r++) {
        const Role *role = &program->roles.at[r];
        Lane lane = {.role = role};
        Interpreter m = {.plan = plan, .lane = &lane, .cell_bytes = smallest_element(graph)};
        arena_init(&m.arena);
        bytes += (double)sizeof(Fe) * (role->last_rank - role->first_rank + 1) *
                 (double)place_inner(&m, (role->arena_bytes + m.cell_bytes - 1) / m.cell_bytes);
        arena_finish(&m.arena);
    }
    return bytes;
}
