#include "ir/lookup.h"
#include "tests/proof/simulate.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- boxes and digits */

/* Of a part of windows or elements what a halo says, looked for one by one: begin and length. */
static void reach(const Halo *halo, int64_t size, int64_t *begin, int64_t *length) {
    enum { MOST = 1 << 12 }; /* windows that may be there */
    int64_t first = size, last = -1, first_window = MOST, last_window = -1;
    const int64_t end = *begin + *length;
    for (int64_t o = 0; o<MOST && * length> 0; o++) {
        const int64_t low = o * halo->stride - halo->low, high = o * halo->stride + halo->high;
        const bool takes = halo->kind == HALO_SEES ? o >= *begin && o < end : high >= *begin && low < end;
        if (!takes) continue;
        if (first_window == MOST) first_window = o;
        last_window = o;
        if (low < first) first = low < 0 ? 0 : low;
        if (high > last) last = high < size ? high : size - 1;
    }
    if (halo->kind == HALO_SEEN) {
        first = first_window;
        last = last_window < size ? last_window : size - 1;
    }
    *begin = last < first ? 0 : first;
    *length = last < first ? 0 : last + 1 - first;
}

void simulate_box(const Layout *layout, const Shape *shape, int rank, int64_t *begin, Shape *local) {
    local->ndim = shape->ndim;
    for (int d = 0; d < shape->ndim; d++) {
        const Halo *halo = layout_halo(layout, d);
        begin[d] = 0;
        local->dim[d] = halo ? halo->of : shape->dim[d];
        for (int i = 0; i < layout_count(layout, d); i++) {
            Digit digit = layout_list(layout, d)[i];
            int64_t size = local->dim[d];
            int own = rank / digit.stride % digit.size;
            for (int part = 0; part <= own; part++) {
                begin[d] += part ? local->dim[d] : 0;
                local->dim[d] = size / digit.size + (part < size % digit.size);
            }
        }
        if (halo) reach(halo, shape->dim[d], &begin[d], &local->dim[d]);
    }
}

/* rank with the digits of lists [first, end) set to 0. */
static int without(const Layout *layout, int first, int end, int rank) {
    int rest = rank;
    for (int list = first; list < end; list++)
        for (int i = 0; i < layout_count(layout, list); i++) {
            Digit digit = layout_list(layout, list)[i];
            rest -= rank / digit.stride % digit.size * digit.stride;
        }
    return rest;
}

/* Whether a rank holds anything: the digit that the layout is pinned to has the pin's value there. */
static bool holds(const Layout *layout, int rank) {
    const Pin *pin = &layout->pin;
    return pin->digit.size == 0 || rank / pin->digit.stride % pin->digit.size == pin->value;
}

/* The rank with the pin's digit 0. */
static int without_pin(const Layout *layout, int rank) {
    const Digit digit = layout->pin.digit;
    return digit.size == 0 ? rank : rank - rank / digit.stride % digit.size * digit.stride;
}

/* What the partial digits of a layout spell on a rank: which term it has. */
static int term_of(const Layout *layout, int rank) {
    return rank - without(layout, layout->ndim, layout->ndim + NREDUCTIONS, rank);
}

/* ---------------------------------------------------------------- tensors in memory */

static bool fault(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

static uint32_t element_read(const unsigned char *bytes, DType dtype, int64_t i) {
    uint64_t wide = 0;
    uint32_t narrow;
    if (dtype_bytes[dtype] == 8) {
        memcpy(&wide, bytes + 8 * i, 8);
    } else if (dtype_bytes[dtype] == 1) {
        return bytes[i] <= 1 ? bytes[i] : SIM_POISON;
    } else {
        memcpy(&narrow, bytes + 4 * i, 4);
        wide = narrow;
    }
    return wide < SIM_PRIME ? (uint32_t)wide : SIM_POISON;
}

static void element_write(unsigned char *bytes, DType dtype, int64_t i, uint32_t number) {
    uint64_t wide = number == SIM_POISON ? UINT64_MAX : number;
    if (dtype_bytes[dtype] == 8)
        memcpy(bytes + 8 * i, &wide, 8);
    else if (dtype_bytes[dtype] == 1)
        bytes[i] = number > 1 ? 0xff : (unsigned char)number;
    else
        memcpy(bytes + 4 * i, &number, 4);
}

static uint64_t name_key(const char *name, uint64_t seed) {
    uint64_t key = seed;
    for (; *name; name++)
        key = simulate_mix(key ^ (unsigned char)*name);
    return key;
}

/* Calls for each element of the box: its number in the box, its number in the whole tensor. */
#define EACH_ELEMENT(tensor, i, whole)                                                                                                     \
    for (int64_t i = 0, count_ = shape_elements(&(tensor)->local), whole = 0; i < count_ && (whole = whole_index((tensor), i), true); i++)

static int64_t whole_index(const SimTensor *tensor, int64_t i) {
    int64_t whole = 0, step = 1;
    for (int d = tensor->local.ndim - 1; d >= 0; d--) {
        whole += (tensor->begin[d] + i % tensor->local.dim[d]) * step;
        step *= tensor->global.dim[d];
        i /= tensor->local.dim[d];
    }
    return whole;
}

/* Where the element `whole` of the global tensor lies in the box, -1: elsewhere. */
static int64_t local_index(const SimTensor *tensor, int64_t whole) {
    int64_t local = 0, step = 1;
    if (tensor->local.ndim != tensor->global.ndim) return -1; /* the rank holds nothing */
    for (int d = tensor->local.ndim - 1; d >= 0; d--) {
        int64_t at = whole % tensor->global.dim[d] - tensor->begin[d];
        if (at < 0 || at >= tensor->local.dim[d]) return -1;
        local += at * step;
        step *= tensor->local.dim[d];
        whole /= tensor->global.dim[d];
    }
    return local;
}

static uint32_t leaf_element(const Graph *graph, const Node *node, uint64_t key, int64_t whole) {
    if (node->op == OP_constant) return simulate_number(node->data ? node->data[whole] : node->attr[0].f);
    /* An index means something in its range. */
    int64_t range = 0;
    for (int n = 0; node->op == OP_input && n < graph->nodes.n; n++) {
        const Node *input = &graph->nodes.at[n];
        if (input->op != OP_input || input->state != node->state || dtype_is_float(graph->values.at[input->out[0]].type.dtype)) continue;
        range = graph->values.at[input->out[0]].type.dtype == BOOL ? 2 : graph_index_range(graph, input->out[0], false).end;
    }
    return (uint32_t)(simulate_mix(key + (uint64_t)whole) % (range > 0 ? (uint64_t)range : SIM_PRIME));
}

static uint64_t state_key(const Graph *graph, int state, uint64_t seed) {
    return name_key(graph->states.at[state].name, seed);
}
static uint64_t input_key(const Graph *graph, int input, uint64_t seed) {
    return name_key(graph->inputs.at[input].name, seed + 1);
}

/* ---------------------------------------------------------------- the reference */

bool simulate_reference(SimReference *reference, const Graph *graph, uint64_t seed, Arena *arena, char *why, size_t n) {
    *reference = (SimReference){.graph = graph, .seed = seed};
    reference->values = arena_alloc(arena, (size_t)graph->values.n * sizeof *reference->values);
    reference->new_state = arena_alloc(arena, (size_t)(graph->states.n + 1) * sizeof *reference->new_state);
    for (int v = 0; v < graph->values.n; v++) {
        const TensorType *type = &graph->values.at[v].type;
        SimTensor *tensor = &reference->values[v];
        *tensor = (SimTensor){.dtype = type->dtype, .hidden = type->hidden, .global = type->shape, .local = type->shape};
        tensor->at = arena_alloc(arena, (size_t)shape_elements(&type->shape) * sizeof *tensor->at);
    }
    for (int s = 0; s < graph->states.n; s++) {
        int64_t count = shape_elements(&graph->states.at[s].type.shape);
        reference->new_state[s] = arena_alloc(arena, (size_t)count * sizeof **reference->new_state);
        for (int64_t i = 0; i < count; i++)
            reference->new_state[s][i] = leaf_element(graph, &(Node){.op = OP_read}, state_key(graph, s, seed), i);
    }
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        SimTensor in[MAX_IN], out[MAX_OUT];
        for (int k = 0; k < node->nin; k++)
            in[k] = reference->values[node->in[k]];
        for (int k = 0; k < node->nout; k++)
            out[k] = reference->values[node->out[k]];
        int64_t count = node->nout ? shape_elements(&out[0].local) : 0;
        if (node->op == OP_read) {
            memcpy(out[0].at, reference->new_state[node->state], (size_t)count * sizeof *out[0].at); /* version 1 comes after the write */
        } else if (op_table[node->op].op_class == OP_CLASS_LEAF) {
            uint64_t key = node->op == OP_input ? input_key(graph, node->state, seed) : 0;
            for (int64_t e = 0; e < count; e++)
                out[0].at[e] = leaf_element(graph, node, key, e);
        } else if (!simulate_kernel(graph, node, in, out, why, n)) {
            return false;
        }
        if (node->op == OP_write)
            memcpy(reference->new_state[node->state], in[0].at, (size_t)shape_elements(&in[0].local) * sizeof *in[0].at);
    }
    return true;
}

/* ---------------------------------------------------------------- ranks */

/* What a rank has given away at the start of a request; it must be the same at its wait. */
typedef struct Given {
    bool started;
    const Step *step;
    uint32_t *source[MAX_IN];
} Given;

typedef struct Rank {
    const Role *role;
    int number, next; /* step */
    unsigned char *arena, **state, **input;
    unsigned char **constant; /* per instance */
    SimTensor *tensor;        /* per instance: its box; at unset */
    unsigned char **place;    /* per instance: its first byte */
    Given *given;             /* per request */
} Rank;

typedef struct Simulated {
    const Plan *plan;
    const Program *program;
    const SimReference *reference;
    Arena arena;
    int nranks, nrequests;
    Rank rank[SIM_RANKS];
    char *why;
    size_t n;
} Simulated;

static bool wrong(const Simulated *m, const Rank *rank, const char *text) {
    snprintf(m->why, m->n, "rank %d, step %d: %s", rank->number, rank->next, text);
    return false;
}

static int64_t bytes_of(const SimTensor *tensor) {
    return shape_elements(&tensor->local) * dtype_bytes[tensor->dtype];
}

static unsigned char *poisoned(Simulated *m, int64_t bytes) {
    unsigned char *at = arena_alloc(&m->arena, (size_t)bytes + 1);
    memset(at, 0xff, (size_t)bytes);
    return at;
}

static void tensor_init(SimTensor *tensor, const TensorType *type, const Layout *layout, int rank) {
    *tensor = (SimTensor){.dtype = type->dtype, .hidden = type->hidden, .global = type->shape};
    simulate_box(layout, &type->shape, rank, tensor->begin, &tensor->local);
    if (!holds(layout, rank)) tensor->local = (Shape){.ndim = 1}; /* no element */
}

/* The box of a leaf in memory of its own. */
static unsigned char *leaf(Simulated *m, const TensorType *type, const Layout *layout, int rank, const Node *node, uint64_t key) {
    SimTensor tensor;
    tensor_init(&tensor, type, layout, rank);
    unsigned char *at = poisoned(m, bytes_of(&tensor));
    EACH_ELEMENT(&tensor, i, whole) element_write(at, type->dtype, i, leaf_element(&m->plan->graph, node, key, whole));
    return at;
}

static bool rank_init(Simulated *m, Rank *rank) {
    const Graph *graph = &m->plan->graph;
    const Role *role = rank->role;
    Arena *arena = &m->arena;
    rank->arena = poisoned(m, role->arena_bytes);
    rank->state = arena_alloc(arena, (size_t)(graph->states.n + 1) * sizeof *rank->state);
    rank->input = arena_alloc(arena, (size_t)(graph->inputs.n + 1) * sizeof *rank->input);
    for (int s = 0; s < graph->states.n; s++)
        rank->state[s] = leaf(m, &graph->states.at[s].type, graph->states.at[s].layout, rank->number, &(Node){.op = OP_read},
                              state_key(graph, s, m->reference->seed));
    for (int i = 0; i < graph->inputs.n; i++)
        rank->input[i] = leaf(m, &graph->inputs.at[i].type, graph->inputs.at[i].layout, rank->number, &(Node){.op = OP_input, .state = i},
                              input_key(graph, i, m->reference->seed));
    rank->tensor = arena_alloc(arena, (size_t)(role->instances.n + 1) * sizeof *rank->tensor);
    rank->place = arena_alloc(arena, (size_t)(role->instances.n + 1) * sizeof *rank->place);
    rank->given = arena_alloc(arena, (size_t)(m->nrequests + 1) * sizeof *rank->given);
    for (int i = 0; i < role->instances.n; i++) {
        const Instance *instance = &role->instances.at[i];
        const TensorType *type = &graph->values.at[instance->value].type, *stored = NULL;
        tensor_init(&rank->tensor[i], type, instance->layout, rank->number);
        const Layout *layout = NULL;
        switch (instance->place) {
        case PLACE_ARENA:
            if (instance->at < 0 || instance->at + bytes_of(&rank->tensor[i]) > role->arena_bytes)
                return wrong(m, rank, "a value outside the arena");
            rank->place[i] = rank->arena + instance->at;
            break;
        case PLACE_INNER:
        case PLACE_VIEW: /* made again where it is read */
        case PLACE_ELSEWHERE:
            rank->place[i] = poisoned(m, bytes_of(&rank->tensor[i]));
            break;
        case PLACE_STATE:
            rank->place[i] = rank->state[instance->at];
            stored = &graph->states.at[instance->at].type;
            layout = graph->states.at[instance->at].layout;
            break;
        case PLACE_INPUT:
            rank->place[i] = rank->input[instance->at];
            stored = &graph->inputs.at[instance->at].type;
            layout = graph->inputs.at[instance->at].layout;
            break;
        case PLACE_CONSTANT:
            rank->place[i] = leaf(m, type, instance->layout, rank->number, &graph->nodes.at[instance->at], 0);
            break;
        }
        if (!stored) continue;
        SimTensor own;
        tensor_init(&own, stored, layout, rank->number);
        if (bytes_of(&own) != bytes_of(&rank->tensor[i])) return wrong(m, rank, "a value of another size than what it lies in");
    }
    return true;
}

static uint32_t *load(Simulated *m, const Rank *rank, int instance) {
    const SimTensor *tensor = &rank->tensor[instance];
    int64_t count = shape_elements(&tensor->local);
    uint32_t *at = arena_alloc(&m->arena, (size_t)(count + 1) * sizeof *at);
    for (int64_t i = 0; i < count; i++)
        at[i] = element_read(rank->place[instance], tensor->dtype, i);
    return at;
}

static void store(const Rank *rank, int instance, const uint32_t *at) {
    const SimTensor *tensor = &rank->tensor[instance];
    for (int64_t i = 0, count = shape_elements(&tensor->local); i < count; i++)
        element_write(rank->place[instance], tensor->dtype, i, at[i]);
}

static void poison(const Rank *rank, int instance) {
    memset(rank->place[instance], 0xff, (size_t)bytes_of(&rank->tensor[instance]));
}

static bool overlap(const Rank *rank, int a, int b) {
    const unsigned char *x = rank->place[a], *y = rank->place[b];
    return x < y + bytes_of(&rank->tensor[b]) && y < x + bytes_of(&rank->tensor[a]);
}

/* ---------------------------------------------------------------- steps */

static bool reads(const Step *step, int instance) {
    for (int i = 0; i < step->nin; i++)
        if (step->in[i] == instance) return true;
    return false;
}

/* Whether a kernel that reads or writes an instance does so element by element, in the order of its result. */
static bool by_element(const Rank *rank, const Step *step, int instance) {
    const SimTensor *x = &rank->tensor[instance], *y = &rank->tensor[step->out[0]];
    return step->op == OP_reshape || op_table[step->op].boundary || (shape_equal(&x->local, &y->local) && simulate_elementwise(step->op));
}

/* What a view lies in, at last; the instance itself where it is none. */
static int viewed(const Rank *rank, int instance) {
    for (int depth = 0; depth < rank->role->instances.n && rank->role->instances.at[instance].place == PLACE_VIEW; depth++)
        instance = (int)rank->role->instances.at[instance].at;
    return instance;
}

/* A fused step stores before it has read all of its operands, but what it reads element by element where it stores it: all else that its results lie over is
 * ruined before it begins. */
static void fused_begin(const Rank *rank, const Step *steps, int n) {
    for (int k = 0; k < n; k++)
        for (int o = 0; o < steps[k].nout; o++) {
            const int result = steps[k].out[o];
            bool ruined = false;
            for (int j = 0; j < n; j++)
                for (int i = 0; i < steps[j].nin; i++) {
                    const int operand = steps[j].in[i], base = viewed(rank, operand);
                    bool same =
                        rank->place[operand] == rank->place[result] && bytes_of(&rank->tensor[operand]) == bytes_of(&rank->tensor[result]);
                    bool keeps = same && by_element(rank, &steps[k], result);
                    for (int r = 0; r < n; r++)
                        keeps = keeps && (!reads(&steps[r], operand) || (r <= k && by_element(rank, &steps[r], operand)));
                    ruined = ruined || (base != operand && overlap(rank, base, result)) ||
                             (operand != result && overlap(rank, operand, result) && !keeps);
                }
            if (ruined) poison(rank, result);
        }
}

static bool compute(Simulated *m, const Rank *rank, const Step *step) {
    const Graph *graph = &m->plan->graph;
    SimTensor in[MAX_IN], out[MAX_OUT];
    for (int i = 0; i < step->nin; i++) {
        in[i] = rank->tensor[step->in[i]];
        in[i].at = load(m, rank, step->in[i]);
    }
    for (int o = 0; o < step->nout; o++) {
        out[o] = rank->tensor[step->out[o]];
        out[o].at = arena_alloc(&m->arena, (size_t)(shape_elements(&out[o].local) + 1) * sizeof *out[o].at);
    }
    char why[200];
    if (!simulate_kernel(graph, &graph->nodes.at[step->node], in, out, why, sizeof why)) return wrong(m, rank, why);
    for (int o = 0; o < step->nout; o++)
        store(rank, step->out[o], out[o].at);
    return true;
}

/* Makes a view of what lies there now. */
static bool view_make(Simulated *m, const Rank *rank, int instance) {
    const Role *role = rank->role;
    if (role->instances.at[instance].place != PLACE_VIEW) return true;
    for (int s = 0; s < role->steps.n; s++)
        for (int o = 0; o < role->steps.at[s].nout; o++) {
            const Step *step = &role->steps.at[s];
            if (step->out[o] != instance) continue;
            if (step->in[0] >= instance) return wrong(m, rank, "a view of what comes later");
            return view_make(m, rank, step->in[0]) && compute(m, rank, step);
        }
    return wrong(m, rank, "a view that no step makes");
}

static bool step_kernel(Simulated *m, Rank *rank, const Step *step) {
    const Graph *graph = &m->plan->graph;
    const Node *node = &graph->nodes.at[step->node];
    if (node->op != step->op) return wrong(m, rank, "another operator than its node");
    const int at = (int)(step - rank->role->steps.at);
    if (step->fused > 0 && (at == 0 || step[-1].fused != step->fused)) fused_begin(rank, step, fused_length(rank->role, at));
    /* A result over an operand is ruined, unless both are the same elements and the kernel goes element by element (the gradient of a loss through its logits),
     * reshapes, or makes or sums one replica. */
    for (int o = 0; o < step->nout; o++)
        for (int i = 0; i < step->nin; i++) {
            const SimTensor *x = &rank->tensor[step->in[i]], *y = &rank->tensor[step->out[o]];
            bool same = rank->place[step->in[i]] == rank->place[step->out[o]] && bytes_of(x) == bytes_of(y) && x->dtype == y->dtype;
            bool keeps = node->op == OP_reshape || op_table[node->op].boundary ||
                         (shape_equal(&x->local, &y->local) &&
                          (simulate_elementwise(node->op) || (node->op == OP_cross_entropy_rows_grad && i == 0)));
            if (overlap(rank, step->in[i], step->out[o]) && !(same && keeps)) poison(rank, step->out[o]);
            const int base = viewed(rank, step->in[i]);
            if (base != step->in[i] && overlap(rank, base, step->out[o])) poison(rank, step->out[o]);
        }
    for (int i = 0; i < step->nin; i++)
        if (!view_make(m, rank, step->in[i])) return false;
    return compute(m, rank, step);
}

static bool step_start(Simulated *m, Rank *rank, const Step *step) {
    Given *given = &rank->given[step->request];
    if (given->started) return wrong(m, rank, "a request that is under way is started again");
    *given = (Given){.started = true, .step = step};
    for (int i = 0; i < step->nin; i++)
        given->source[i] = load(m, rank, step->in[i]);
    for (int o = 0; o < step->nout; o++)
        poison(rank, step->out[o]);
    return true;
}

/* How the ranks of a communication work together: whose elements rank q's are made of. */
typedef struct Peer {
    int rank, term;
    const SimTensor *tensor;
    const uint32_t *at;
} Peer;

/* The ranks that rank q may take elements of transfer k from, in the kind's own way of working:
 *   all_reduce, reduce_scatter: the ranks that differ from q in digits that are added up, alone;
 *   exchange: those that differ in digits of the source, alone (divided or added up);
 *   all_gather, all_to_all: those that differ in digits that divide the source; nothing is added up;
 *   strided_slice: q itself.
 * In all of them ranks may differ in the digit that the source is pinned to, and of these the ones that hold it are asked. */
static int peers_of(const Simulated *m, const Rank *q, CommKind kind, const Layout *from, const Layout *to, Peer *peers) {
    int npeers = 0, ndim = from->ndim, all = ndim + NREDUCTIONS;
    bool sums = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER || kind == COMM_EXCHANGE;
    for (int r = 0; r < m->nranks && holds(to, q->number); r++) {
        int first = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER ? ndim : 0;
        bool with = without(from, first, sums ? all : ndim, without_pin(from, r)) ==
                    without(from, first, sums ? all : ndim, without_pin(from, q->number));
        if (kind == COMM_STRIDED_SLICE) with = r == q->number;
        if (sums && term_of(to, r) != term_of(to, q->number)) with = false;
        if (!holds(from, r)) with = false;
        if (with) peers[npeers++] = (Peer){.rank = r, .term = sums ? term_of(from, r) : 0};
    }
    return npeers;
}

/* The reduction whose digits are completed; -1: two of them. */
static int reduction_of(const Layout *from, const Layout *to) {
    int found = REDUCE_SUM, kinds = 0;
    for (int r = 0; r < NREDUCTIONS; r++)
        if (layout_split(from, from->ndim + r) != layout_split(to, to->ndim + r)) {
            found = r;
            kinds++;
        }
    return kinds > 1 ? -1 : found;
}

static uint32_t joined(int reduction, uint32_t a, uint32_t b) {
    if (a == SIM_POISON || b == SIM_POISON) return SIM_POISON;
    switch (reduction) {
    case REDUCE_SUM:
        return (uint32_t)(((uint64_t)a + b) % SIM_PRIME);
    case REDUCE_MAX:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

/* The elements of q's target: of each term one rank's that has the element; a term that no rank has makes it poison. */
static bool deliver(Simulated *m, const Rank *q, const Layout *from, const Layout *to, const Peer *peers, int npeers,
                    const SimTensor *target, uint32_t *at) {
    int reduction = reduction_of(from, to);
    if (reduction < 0) return wrong(m, q, "sums and maxima completed at once");
    int term[SIM_RANKS], nterms = 0;
    for (int p = 0; p < npeers; p++) {
        int t = 0;
        while (t < nterms && term[t] != peers[p].term)
            t++;
        if (t == nterms) term[nterms++] = peers[p].term;
    }
    EACH_ELEMENT(target, i, whole) {
        for (int t = 0; t < nterms; t++) {
            uint32_t found = SIM_POISON;
            for (int p = 0; p < npeers; p++) {
                if (peers[p].term != term[t]) continue;
                int64_t own = local_index(peers[p].tensor, whole);
                if (own < 0) continue;
                found = peers[p].at[own];
                if (peers[p].rank == q->number) break; /* its own is at hand */
            }
            at[i] = t ? joined(reduction, at[i], found) : found;
        }
    }
    return true;
}

/* *moved false: others must start first. */
static bool step_wait(Simulated *m, Rank *q, const Step *step, bool *moved) {
    Given *given = &q->given[step->request];
    if (!given->started) return wrong(m, q, "waits for a request that is not under way");
    for (int k = 0; k < given->step->nin; k++) {
        const Instance *source = &q->role->instances.at[given->step->in[k]], *target = &q->role->instances.at[given->step->out[k]];
        Peer peers[SIM_RANKS];
        int npeers = peers_of(m, q, given->step->comm, source->layout, target->layout, peers);
        for (int p = 0; p < npeers; p++) {
            const Rank *rank = &m->rank[peers[p].rank];
            const Given *theirs = &rank->given[step->request];
            if (!theirs->step) {
                *moved = false;
                return true;
            }
            const Instance *other = &rank->role->instances.at[theirs->step->in[k]];
            if (theirs->step->comm != given->step->comm || other->value != source->value || !layout_equal(other->layout, source->layout))
                return wrong(m, q, "ranks disagree about what a request moves");
            peers[p].tensor = &rank->tensor[theirs->step->in[k]];
            peers[p].at = theirs->source[k];
        }
        uint32_t *now = load(m, q, given->step->in[k]), *untouched = load(m, q, given->step->out[k]);
        const SimTensor *own = &q->tensor[given->step->in[k]], *result = &q->tensor[given->step->out[k]];
        if (memcmp(now, given->source[k], (size_t)shape_elements(&own->local) * sizeof *now) != 0)
            return wrong(m, q, "race: the source of a communication changed before its wait");
        for (int64_t i = 0, count = shape_elements(&result->local); i < count; i++)
            if (untouched[i] != SIM_POISON) return wrong(m, q, "race: the target of a communication was written before its wait");
        if (!deliver(m, q, source->layout, target->layout, peers, npeers, result, untouched)) return false;
        store(q, given->step->out[k], untouched);
    }
    given->started = false;
    return true;
}

static bool step_local(Simulated *m, Rank *rank, const Step *step) {
    const Instance *source = &rank->role->instances.at[step->in[0]], *target = &rank->role->instances.at[step->out[0]];
    Peer self = {.rank = rank->number, .tensor = &rank->tensor[step->in[0]]};
    if (overlap(rank, step->in[0], step->out[0])) poison(rank, step->out[0]);
    self.at = load(m, rank, step->in[0]);
    const SimTensor *result = &rank->tensor[step->out[0]];
    uint32_t *at = arena_alloc(&m->arena, (size_t)(shape_elements(&result->local) + 1) * sizeof *at);
    if (!deliver(m, rank, source->layout, target->layout, &self, 1, result, at)) return false;
    store(rank, step->out[0], at);
    return true;
}

static bool step_write(Simulated *m, Rank *rank, const Step *step) {
    const State *state = &m->plan->graph.states.at[step->state];
    SimTensor stored;
    tensor_init(&stored, &state->type, state->layout, rank->number);
    if (bytes_of(&stored) != bytes_of(&rank->tensor[step->in[0]])) return wrong(m, rank, "a state is written in another size");
    memmove(rank->state[step->state], rank->place[step->in[0]], (size_t)bytes_of(&stored));
    return true;
}

/* Runs a rank until it is done or has to wait for others. */
static bool rank_run(Simulated *m, Rank *rank, bool *any) {
    for (; rank->next < rank->role->steps.n; rank->next++, *any = true) {
        const Step *step = &rank->role->steps.at[rank->next];
        bool ok = true, moved = true;
        switch (step->kind) {
        case STEP_KERNEL:
            ok = step_kernel(m, rank, step);
            break;
        case STEP_LOCAL:
            ok = step_local(m, rank, step);
            break;
        case STEP_START:
            ok = step_start(m, rank, step);
            break;
        case STEP_WAIT:
            ok = step_wait(m, rank, step, &moved);
            break;
        case STEP_WRITE:
            ok = step_write(m, rank, step);
            break;
        }
        if (!ok) return false;
        if (!moved) return true;
    }
    return true;
}

/* ---------------------------------------------------------------- the answer */

static bool compare(const Simulated *m, const Rank *rank, const SimTensor *tensor, const unsigned char *place, const uint32_t *whole_tensor,
                    const char *name) {
    EACH_ELEMENT(tensor, i, whole) {
        uint32_t number = element_read(place, tensor->dtype, i);
        if (number == whole_tensor[whole]) continue;
        snprintf(m->why, m->n, "rank %d: element %lld of %s %s", rank->number, (long long)whole, name,
                 number == SIM_POISON ? "was never computed" : "differs");
        return false;
    }
    return true;
}

static bool outcome(const Simulated *m, const Rank *rank) {
    const Graph *graph = &m->plan->graph;
    int loss = m->program->loss;
    if (graph->loss >= 0) {
        if (loss < 0 || !shape_equal(&rank->tensor[loss].global, &graph->values.at[graph->loss].type.shape))
            return fault(m->why, m->n, "another loss");
        if (!compare(m, rank, &rank->tensor[loss], rank->place[loss], m->reference->values[graph->loss].at, "the loss")) return false;
    }
    for (int s = 0; s < graph->states.n; s++) {
        SimTensor tensor;
        tensor_init(&tensor, &graph->states.at[s].type, graph->states.at[s].layout, rank->number);
        if (!compare(m, rank, &tensor, rank->state[s], m->reference->new_state[s], graph->states.at[s].name)) return false;
    }
    return true;
}

static bool machine_run(Simulated *m) {
    for (int r = 0; r < m->nranks; r++)
        if (!rank_init(m, &m->rank[r])) return false;
    for (int done = 0; done < m->nranks;) {
        bool any = false;
        done = 0;
        for (int r = 0; r < m->nranks; r++) {
            if (!rank_run(m, &m->rank[r], &any)) return false;
            done += m->rank[r].next == m->rank[r].role->steps.n;
        }
        if (done < m->nranks && !any) return fault(m->why, m->n, "deadlock: every rank waits for another");
    }
    for (int r = 0; r < m->nranks; r++)
        if (!outcome(m, &m->rank[r])) return false;
    return true;
}

bool simulate_plan(const Plan *plan, const SimReference *reference, char *why, size_t n) {
    Simulated *m = calloc(1, sizeof *m);
    if (!m || plan->graph.nranks > SIM_RANKS || plan->programs.n == 0) {
        free(m);
        return fault(why, n, "not a plan that can be simulated");
    }
    *m = (Simulated){
        .plan = plan, .program = &plan->programs.at[0], .reference = reference, .nranks = plan->graph.nranks, .why = why, .n = n};
    arena_init(&m->arena);
    for (int k = 0; k < m->program->roles.n; k++) {
        const Role *role = &m->program->roles.at[k];
        m->nrequests += role->steps.n; /* a request is below the number of steps: plan_read */
        for (int r = role->first_rank; r <= role->last_rank; r++)
            m->rank[r] = (Rank){.role = role, .number = r};
    }
    bool same = machine_run(m);
    arena_finish(&m->arena);
    free(m);
    return same;
}
