/* graph: builds graphs: nodes with their rules inferred, unique names, interned layouts, states, inputs and reports. */
#include "ir/graph.h"
#include "ir/rules.h"
#include "ir/wildcard.h"

#include <assert.h>
#include <string.h>

const char *const strategy_from_name[] = {"none", "user", "propagated", "batch", "origin", "whole"};
const char *const asserted_name[NASSERTS] = {"comm", "memory", "time"};
const char *const mode_name[NMODES] = {"stand_alone", "data_parallel", "semi_auto", "auto", "manual"};

/* ---------------------------------------------------------------- indexes */

typedef struct NameEntry {
    const char *name;
    int last; /* the last number given to a value of this name */
} NameEntry;

struct NameIndex {
    VEC(NameEntry) names;
    Map map;
};

static uint64_t name_hash(const char *name) {
    return hash_bytes(name, strlen(name));
}

static NameEntry *name_find(const struct NameIndex *index, const char *name, uint64_t hash) {
    map_each(&index->map, hash, i) if (strcmp(index->names.at[i].name, name) == 0) return &index->names.at[i];
    return NULL;
}

static const char *name_insert(Graph *graph, const char *name, uint64_t hash) {
    struct NameIndex *index = graph->name_index;
    map_add(graph->arena, &index->map, hash, index->names.n);
    vec_push(graph->arena, &index->names, (NameEntry){name, 1});
    return name;
}

/* name if no value has it, else name_2, name_3, ... */
static const char *name_unique(Graph *graph, const char *name) {
    uint64_t hash = name_hash(name);
    NameEntry *entry = name_find(graph->name_index, name, hash);
    if (!entry) return name_insert(graph, arena_copy(graph->arena, name, strlen(name)), hash);
    const char *numbered;
    do {
        numbered = arena_printf(graph->arena, "%s_%d", name, ++entry->last);
        hash = name_hash(numbered);
    } while (name_find(graph->name_index, numbered, hash));
    return name_insert(graph, numbered, hash);
}

const Layout *graph_layout_exact(Graph *graph, const Layout *layout) {
    assert(!layout->order && "graphs have no device orders");
    LayoutTable *table = graph->layouts;
    const int number = graph_layout_number(graph, layout);
    if (number >= 0) return table->at[number];
    Layout *copy = arena_alloc(graph->arena, sizeof *copy);
    *copy = *layout;
    map_add(graph->arena, &table->map, layout_hash(layout), table->n);
    vec_push(graph->arena, table, copy);
    return copy;
}

const Layout *graph_layout(Graph *graph, const Layout *layout, const Shape *shape) {
    Layout canonical = *layout;
    layout_canonical(&canonical, shape);
    return graph_layout_exact(graph, &canonical);
}

int graph_layout_number(const Graph *graph, const Layout *layout) {
    map_each(&graph->layouts->map, layout_hash(layout), i) if (layout_equal(graph->layouts->at[i], layout)) return i;
    return -1;
}

struct StrategyTable {
    VEC(const Strategy *) all;
    Map map;
};

static bool strategy_equal(const Strategy *a, const Strategy *b) {
    return a->nfactors == b->nfactors && pin_equal(&a->pin, &b->pin) && memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->digit, b->digit, sizeof *a->digit * a->start[MAX_FACTORS]) == 0;
}

static uint64_t strategy_hash(const Strategy *strategy) {
    uint64_t hash = hash_mix((uint64_t)strategy->nfactors, (uint64_t)strategy->pin.digit.size << 32 | (uint32_t)strategy->pin.value);
    for (int f = 0; f <= MAX_FACTORS; f++)
        hash = hash_mix(hash, strategy->start[f]);
    for (int i = 0; i < strategy->start[MAX_FACTORS]; i++)
        hash = hash_mix(hash, (uint64_t)strategy->digit[i].size << 32 | (uint32_t)strategy->digit[i].stride);
    return hash;
}

const Strategy *graph_strategy(Graph *graph, const Strategy *strategy) {
    struct StrategyTable *table = graph->strategies;
    const uint64_t hash = strategy_hash(strategy);
    map_each(&table->map, hash, i) if (strategy_equal(table->all.at[i], strategy)) return table->all.at[i];
    Strategy *copy = arena_alloc(graph->arena, sizeof *copy);
    *copy = *strategy;
    map_add(graph->arena, &table->map, hash, table->all.n);
    vec_push(graph->arena, &table->all, copy);
    return copy;
}

void *table_fork(Arena *arena, const void *at, size_t bytes) {
    void *fork = arena_alloc(arena, bytes + 1);
    if (bytes > 0) memcpy(fork, at, bytes);
    return fork;
}

void tables_fork(Graph *graph) {
    Arena *arena = graph->arena;
    LayoutTable *layouts = table_fork(arena, graph->layouts, sizeof *layouts);
    layouts->at = table_fork(arena, layouts->at, (size_t)layouts->n * sizeof *layouts->at);
    layouts->cap = layouts->n;
    map_fork(arena, &layouts->map);
    struct NameIndex *names = table_fork(arena, graph->name_index, sizeof *names);
    names->names.at = table_fork(arena, names->names.at, (size_t)names->names.n * sizeof *names->names.at);
    names->names.cap = names->names.n;
    map_fork(arena, &names->map);
    struct StrategyTable *strategies = table_fork(arena, graph->strategies, sizeof *strategies);
    strategies->all.at = table_fork(arena, strategies->all.at, (size_t)strategies->all.n * sizeof *strategies->all.at);
    strategies->all.cap = strategies->all.n;
    map_fork(arena, &strategies->map);
    graph->layouts = layouts;
    graph->name_index = names;
    graph->strategies = strategies;
    graph->signatures = signatures_fork(graph->signatures, arena);
}

/* ---------------------------------------------------------------- building */

void graph_init(Graph *graph, Arena *arena) {
    memset(graph, 0, sizeof *graph);
    graph->arena = arena;
    graph->loss = -1;
    graph->layouts = arena_alloc(arena, sizeof *graph->layouts);
    graph->name_index = arena_alloc(arena, sizeof *graph->name_index);
    graph->strategies = arena_alloc(arena, sizeof *graph->strategies);
    graph->signatures = signatures_create(arena);
}

int graph_add_state(Graph *graph, State state) {
    if (state.trainable || state.parameter < 0) state.parameter = graph->states.n;
    vec_push(graph->arena, &graph->states, state);
    return graph->states.n - 1;
}

int graph_add_input(Graph *graph, Input input) {
    vec_push(graph->arena, &graph->inputs, input);
    return graph->inputs.n - 1;
}

static int node_push(Graph *graph, OpCode op, const int *in, int nin, const Signature *signature, const char *name, Span span) {
    const Rule *rule = &signature->rule;
    Node node = {.op = op,
                 .nin = nin,
                 .nout = rule->nout,
                 .attr = signature->attr,
                 .rule = rule,
                 .span = span,
                 .origin = graph->nodes.n,
                 .state = -1};
    for (int i = 0; i < nin; i++)
        node.in[i] = in[i];
    for (int f = 0; f < MAX_FACTORS; f++)
        node.origin_factor[f] = (int8_t)(f < rule->nfactors ? f : -1);
    for (int o = 0; o < node.nout; o++) {
        const char *wanted = name ? name : op_table[op].name;
        Value value = {.type = rule->result[o], .node = graph->nodes.n, .index = o};
        value.name = name_unique(graph, o ? arena_printf(graph->arena, "%s.%d", wanted, o) : wanted);
        node.out[o] = graph->values.n;
        if (o == 0) node.name = value.name;
        vec_push(graph->arena, &graph->values, value);
    }
    vec_push(graph->arena, &graph->nodes, node);
    return graph->nodes.n - 1;
}

int graph_add(Graph *graph, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span, RuleError *error) {
    TensorType types[MAX_IN] = {{0}};
    for (int i = 0; i < nin && i < MAX_IN; i++) {
        assert(in[i] >= 0 && in[i] < graph->values.n);
        types[i] = graph->values.at[in[i]].type;
    }
    const Signature *signature = signature_of(graph, op, types, nin, attr, error);
    return signature ? node_push(graph, op, in, nin, signature, name, span) : -1;
}

int graph_emit(Graph *graph, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span) {
    int node = graph_add(graph, op, in, nin, attr, name, span, NULL);
    assert(node >= 0);
    return graph->nodes.at[node].out[0];
}

void graph_retype(Graph *graph, int id) {
    Node *node = &graph->nodes.at[id];
    TensorType types[MAX_IN] = {{0}};
    for (int i = 0; i < node->nin; i++)
        types[i] = graph->values.at[node->in[i]].type;
    const Signature *signature = signature_of(graph, node->op, types, node->nin, node->attr, NULL);
    assert(signature);
    node->attr = signature->attr;
    node->rule = &signature->rule;
    for (int o = 0; o < node->nout; o++)
        graph->values.at[node->out[o]].type = signature->rule.result[o];
}

const char *graph_file(const Graph *graph, Span span) {
    if (span.file == 0) return graph->file;
    return span.file > 0 && span.file < graph->files.n ? graph->files.at[span.file] : NULL;
}

void graph_rename(Graph *graph, int value, const char *name) {
    graph->values.at[value].name = name_unique(graph, name);
}

/* A node without operands. */
static Node *leaf_add(Graph *graph, OpCode op, const TensorType *type, const Attr *attr, const char *name, Span span) {
    int node = node_push(graph, op, NULL, 0, signature_of(graph, op, type, 1, attr, NULL), name, span);
    return &graph->nodes.at[node];
}

int graph_read_state(Graph *graph, int state, int version, const char *name, Span span) {
    assert(state >= 0 && state < graph->states.n && (version == 0 || version == 1));
    const State *from = &graph->states.at[state];
    Node *node = leaf_add(graph, OP_read, &from->type, NULL, name ? name : from->name, span);
    node->state = state;
    node->version = version;
    return node->out[0];
}

int graph_declared(const Graph *graph) {
    int n = 0;
    while (n < graph->inputs.n && graph->inputs.at[n].kind == INPUT_DATA && graph->inputs.at[n].micro == 0)
        n++;
    return n;
}

int graph_write_state(Graph *graph, int state, int value, Span span) {
    assert(state >= 0 && state < graph->states.n);
    const char *name = arena_printf(graph->arena, "%s.new", graph->states.at[state].name);
    int node = graph_add(graph, OP_write, &value, 1, NULL, name, span, NULL);
    assert(node >= 0);
    graph->nodes.at[node].state = state;
    return node;
}

int graph_input(Graph *graph, int input) {
    assert(input >= 0 && input < graph->inputs.n);
    const Input *from = &graph->inputs.at[input];
    Node *node = leaf_add(graph, OP_input, &from->type, NULL, from->name, from->span);
    node->state = input;
    return node->out[0];
}

int graph_constant(Graph *graph, TensorType type, const double *data, double splat, const char *name, Span span) {
    Attr attr[MAX_ATTRS] = {{.given = !data, .f = data ? 0 : splat}};
    Node *node = leaf_add(graph, OP_constant, &type, attr, name, span);
    node->data = data;
    return node->out[0];
}

/* Maps each factor of a tensor of `node` to the factor of the origin that runs over the same dimension of the tensor whose part it plays. */
static void map_part(const Graph *graph, Node *node, const Node *origin, const int8_t *own, int value, int part) {
    if (part == PART_NONE) return;
    int ndim = graph->values.at[value].type.shape.ndim;
    bool is_result = part >= MAX_IN;
    int played = is_result ? origin->out[part - MAX_IN] : origin->in[part];
    assert(graph->values.at[played].type.shape.ndim == ndim);
    (void)played;
    const int8_t *theirs = is_result ? origin->rule->out[part - MAX_IN] : origin->rule->in[part];
    for (int d = 0; d < ndim; d++) {
        if (own[d] < 0 || theirs[d] < 0) continue;
        assert(node->origin_factor[own[d]] < 0 || node->origin_factor[own[d]] == theirs[d]);
        node->origin_factor[own[d]] = theirs[d];
    }
}

int graph_emit_gradient(Graph *graph, int forward, OpCode op, const int *in, const int *in_part, int nin, int out_part, const Attr *attr,
                        const char *name) {
    int value = graph_emit(graph, op, in, nin, attr, name, graph->nodes.at[forward].span);
    Node *node = &graph->nodes.at[graph->values.at[value].node];
    const Node *origin = &graph->nodes.at[forward];
    node->origin = forward;
    memset(node->origin_factor, -1, sizeof node->origin_factor);
    for (int i = 0; i < nin; i++)
        map_part(graph, node, origin, node->rule->in[i], in[i], in_part[i]);
    map_part(graph, node, origin, node->rule->out[0], value, out_part);
    return value;
}

int graph_replicate(Graph *graph, int value, const char *name, Span span) {
    if (graph->replicas == 0) return value;
    Attr attr[MAX_ATTRS] = {{.given = true, .i = graph->replicas}, {.given = true, .i = graph->settings.gradients_mean}};
    return graph_emit(graph, OP_replicate, &value, 1, attr, name, span);
}

int64_t graph_trainable_bytes(const Graph *graph) {
    int64_t bytes = 0;
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].trainable) bytes += type_bytes(&graph->states.at[s].type);
    return bytes;
}

int64_t graph_states_bytes(const Graph *graph) {
    int64_t bytes = 0;
    for (int s = 0; s < graph->states.n; s++)
        bytes += type_bytes(&graph->states.at[s].type);
    return bytes;
}

int64_t graph_batch_rows(const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const TensorType *type = &graph->inputs.at[i].type;
        if (graph->inputs.at[i].kind == INPUT_DATA && type->shape.ndim > type->hidden) return type->shape.dim[(int)type->hidden];
    }
    return 0;
}

bool value_has_rows(const Graph *graph, int value) {
    const TensorType *type = &graph->values.at[value].type;
    const int first = type->hidden ? 1 : 0;
    return type->shape.ndim > first && type->shape.dim[first] == graph_batch_rows(graph);
}

/* ---------------------------------------------------------------- layouts of a strategy */

int64_t strategy_split(const Strategy *strategy, int factor) {
    int64_t split = 1;
    for (int i = 0; strategy != NULL && i < strategy_count(strategy, factor); i++)
        split *= strategy_digits(strategy, factor)[i].size;
    return split;
}

double settings_scale(const Settings *settings, ScaleKind kind, const char *path) {
    double factor = 1;
    for (int i = 0; i < settings->scales.n; i++)
        if (settings->scales.at[i].kind == kind && pattern_matches(settings->scales.at[i].path, path, NULL))
            factor = settings->scales.at[i].factor;
    return factor;
}

const Axis *axis_find(const Settings *settings, const char *name) {
    for (int i = 0; i < settings_naxes(settings); i++)
        if (strcmp(settings_axis(settings, i)->name, name) == 0) return settings_axis(settings, i);
    return NULL;
}

bool strategy_append(Strategy *strategy, int factor, Digit digit) {
    const int n = strategy->start[MAX_FACTORS], at = strategy->start[factor + 1];
    if (n == MAX_DIGITS) return false;
    memmove(&strategy->digit[at + 1], &strategy->digit[at], (size_t)(n - at) * sizeof(Digit));
    strategy->digit[at] = digit;
    for (int f = factor + 1; f <= MAX_FACTORS; f++)
        strategy->start[f]++;
    return true;
}

void strategy_follow(Strategy *strategy, int factor, const Strategy *other, int other_factor) {
    for (int i = 0; i < strategy_count(other, other_factor); i++) {
        bool room = strategy_append(strategy, factor, strategy_digits(other, other_factor)[i]);
        assert(room);
        (void)room;
    }
}

static void append_digits(Layout *layout, int list, const Strategy *strategy, int factor) {
    for (int i = 0; i < strategy_count(strategy, factor); i++) {
        bool room = layout_append(layout, list, strategy_digits(strategy, factor)[i]);
        assert(room);
        (void)room;
    }
}

void strategy_in_layout(const Node *node, const Strategy *strategy, int operand, int ndim, Layout *layout) {
    layout_init(layout, ndim);
    for (int d = 0; d < ndim; d++)
        if (node->rule->in[operand][d] >= 0) append_digits(layout, d, strategy, node->rule->in[operand][d]);
    for (const Need *need = node->rule->need; need < node->rule->need + node->rule->nneeds; need++) {
        const int d = ndim - HALO_DIMS + need->at;
        if (need->operand == operand && d >= 0 && layout_count(layout, d) > 0) layout->halo[need->at] = need->halo;
    }
    layout->pin = strategy->pin;
}

void strategy_out_layout(const Node *node, const Strategy *strategy, int result, int ndim, Layout *layout) {
    layout_init(layout, ndim);
    for (int d = 0; d < ndim; d++)
        if (node->rule->out[result][d] >= 0) append_digits(layout, d, strategy, node->rule->out[result][d]);
    for (int f = 0; f < node->rule->nfactors; f++)
        if (strategy_count(strategy, f) > 0 && !rule_out_has(node->rule, result, f))
            append_digits(layout, ndim + (int)op_table[node->op].reduction, strategy, f);
    layout->pin = strategy->pin;
}

void strategy_from_origin(const Node *node, const Strategy *origin, Strategy *strategy) {
    *strategy = (Strategy){.nfactors = node->rule->nfactors, .pin = origin->pin};
    for (int f = 0; f < strategy->nfactors; f++)
        if (node->origin_factor[f] >= 0 && factor_splits(&node->rule->factor[f], strategy_split(origin, node->origin_factor[f])))
            strategy_follow(strategy, f, origin, node->origin_factor[f]);
}

bool *graph_active(const Graph *graph, Arena *arena) {
    bool *active = arena_alloc(arena, (size_t)graph->values.n + 1);
    for (int n = 0; n < graph_nforward(graph); n++) {
        const Node *node = &graph->nodes.at[n];
        bool on = node->op == OP_read && graph->states.at[node->state].trainable;
        for (int i = 0; i < node->nin; i++)
            on = on || (active[node->in[i]] && op_table[node->op].adjoint != NULL);
        for (int o = 0; o < node->nout; o++)
            active[node->out[o]] = on && dtype_is_float(graph->values.at[node->out[o]].type.dtype);
    }
    return active;
}

int *graph_uses(const Graph *graph, Arena *arena) {
    int *uses = arena_alloc(arena, sizeof *uses * (size_t)(graph->values.n + 1));
    for (int i = 0; i < graph->nodes.n; i++)
        for (int k = 0; k < graph->nodes.at[i].nin; k++)
            uses[graph->nodes.at[i].in[k]]++;
    for (int k = 0; k < graph_nreports(graph); k++)
        uses[graph_report(graph, k)]++;
    return uses;
}

int graph_find_report(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->reports.n; i++)
        if (strcmp(graph->reports.at[i].name, name) == 0) return i;
    return -1;
}

void graph_set_report(Graph *graph, int k, int value) {
    if (graph->loss >= 0 && k == 0)
        graph->loss = value;
    else
        graph->reports.at[k - (graph->loss >= 0)].value = value;
}

bool state_is_average(const Graph *graph, int state) {
    const State *own = &graph->states.at[state];
    const size_t n = strlen(own->name);
    return own->parameter != state && n > 4 && strcmp(own->name + n - 4, ".ema") == 0;
}

int state_average(const Graph *graph, int parameter) {
    for (int s = parameter; s < graph->states.n; s++)
        if (graph->states.at[s].parameter == parameter && state_is_average(graph, s)) return s;
    return -1;
}
