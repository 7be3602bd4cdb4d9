/* verify: checks what must hold of a graph between two passes. A failure is a bug of the last pass, or a plan that pcc did not write. */
#include "ir/graph.h"
#include "ir/rules.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

/* The state of one verification. written: per state, whether a write precedes the current node; valid: per layout of the graph, whether it is known to be valid. Unused
 * layouts are not checked: they may be another graph's (graph_fork). */
typedef struct Check {
    const Graph *graph;
    const char *stage;
    Error *error;
    bool *written, *valid;
    const Node **inferred; /* hashed by a rule's address: the last node whose rule was inferred again */
} Check;
enum { INFERRED_SLOTS = 1024 };

static bool fail(const Check *check, const char *format, ...) PRINTF_LIKE(2, 3);
static bool fail(const Check *check, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(check->error, EXIT_INTERNAL, "the graph is wrong after %s: %s", check->stage, text);
}

static bool node_fail(const Check *check, int id, const char *format, ...) PRINTF_LIKE(3, 4);
static bool node_fail(const Check *check, int id, const char *format, ...) {
    const Node *node = &check->graph->nodes.at[id];
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *op = (unsigned)node->op < NOPS ? op_table[node->op].name : "?";
    return fail(check, "node %d (%s %s): %s", id, op, node->name ? node->name : "?", text);
}

static const TensorType *type_of(const Graph *graph, int value) {
    return &graph->values.at[value].type;
}

/* Checks that operands come before the node, and that results are its own. */
static bool check_edges(const Check *check, int id) {
    const Graph *graph = check->graph;
    const Node *node = &graph->nodes.at[id];
    if ((unsigned)node->op >= NOPS) return node_fail(check, id, "no such operator");
    if (!op_takes(node->op, node->nin) || !op_gives(node->op, node->nout))
        return node_fail(check, id, "%d operands and %d results, not %d and %d", node->nin, node->nout, op_nin(node->op),
                         op_nout(node->op));
    if (!node->name || !node->rule) return node_fail(check, id, "no name or no rule");
    for (int i = 0; i < node->nin; i++) {
        if (node->in[i] < 0 || node->in[i] >= graph->values.n)
            return node_fail(check, id, "operand %d is value %d of %d", i, node->in[i], graph->values.n);
        int producer = graph->values.at[node->in[i]].node;
        if (producer < 0 || producer >= id)
            return node_fail(check, id, "operand %d (%s) is made later, by node %d", i, graph->values.at[node->in[i]].name, producer);
    }
    for (int o = 0; o < node->nout; o++) {
        if (node->out[o] < 0 || node->out[o] >= graph->values.n)
            return node_fail(check, id, "result %d is value %d of %d", o, node->out[o], graph->values.n);
        const Value *value = &graph->values.at[node->out[o]];
        if (value->node != id || value->index != o)
            return node_fail(check, id, "result %d (%s) belongs to node %d", o, value->name, value->node);
    }
    return true;
}

static bool check_leaf_type(const Check *check, int id, const TensorType *type) {
    int64_t elements;
    bool sane = (unsigned)type->dtype < NDTYPES && type->shape.ndim >= type->hidden && type->shape.ndim <= MAX_USER_NDIM + type->hidden;
    for (int d = 0; sane && d < type->shape.ndim; d++)
        sane = type->shape.dim[d] >= 1;
    if (!sane || !shape_count(&type->shape, &elements) || elements > MAX_ELEMENTS) return node_fail(check, id, "no such type");
    return true;
}

/* Whether inference gives both the same: they share rule and attributes, and have the same types. */
static bool is_like(const Graph *graph, const Node *a, const Node *b) {
    if (a->op != b->op || a->rule != b->rule || a->attr != b->attr || a->nin != b->nin || a->nout != b->nout) return false;
    for (int i = 0; i < a->nin; i++)
        if (!type_equal(type_of(graph, a->in[i]), type_of(graph, b->in[i]))) return false;
    for (int o = 0; o < a->nout; o++)
        if (!type_equal(type_of(graph, a->out[o]), type_of(graph, b->out[o]))) return false;
    return true;
}

/* Checks that the rule equals what inference gives for the operands and attributes as they are now. */
static bool check_rule(const Check *check, int id) {
    const Graph *graph = check->graph;
    const Node *node = &graph->nodes.at[id];
    TensorType in[MAX_IN];
    for (int i = 0; i < node->nin; i++)
        in[i] = *type_of(graph, node->in[i]);
    Rule rule;
    RuleError error;
    const Node **known = &check->inferred[(uintptr_t)node->rule / sizeof(Rule) % INFERRED_SLOTS];
    if (*known && is_like(graph, *known, node)) return true;
    if (node_is_leaf(node)) {
        if (!check_leaf_type(check, id, type_of(graph, node->out[0]))) return false;
        rule_of_leaf(type_of(graph, node->out[0]), &rule);
    } else if (!rule_infer(node->op, in, node->nin, node->attr, &rule, &error))
        return node_fail(check, id, "the rule rejects it: %s", error.text);
    if (rule.nout != node->nout || !rule_equal(&rule, node->rule, in, node->nin, node->nout))
        return node_fail(check, id, "its rule is not the one of its operands");
    for (int o = 0; o < node->nout; o++)
        if (!type_equal(&rule.result[o], type_of(graph, node->out[o])))
            return node_fail(check, id, "result %s has another type than the rule gives", graph->values.at[node->out[o]].name);
    *known = node;
    return true;
}

static bool check_origin(const Check *check, int id) {
    const Graph *graph = check->graph;
    const Node *node = &graph->nodes.at[id];
    if (node->origin < 0 || node->origin >= graph->nodes.n) return node_fail(check, id, "origin is node %d", node->origin);
    const Rule *origin = graph->nodes.at[node->origin].rule;
    if (!origin) return node_fail(check, id, "origin %d has no rule", node->origin);
    for (int f = 0; f < node->rule->nfactors; f++) {
        int o = node->origin_factor[f];
        if (o < -1 || o >= origin->nfactors)
            return node_fail(check, id, "factor %d is factor %d of %d of its origin", f, o, origin->nfactors);
    }
    return true;
}

/* Checks that all digits of a strategy can be in one layout. */
static bool check_strategy(const Check *check, int id) {
    const Node *node = &check->graph->nodes.at[id];
    const Strategy *strategy = node->strategy;
    if (!strategy) return true;
    if (strategy->nfactors != node->rule->nfactors)
        return node_fail(check, id, "a strategy for %d factors, the rule has %d", strategy->nfactors, node->rule->nfactors);
    Layout all;
    layout_init(&all, 1);
    for (int f = 0; f < strategy->nfactors; f++) {
        if (strategy_count(strategy, f) > 0 && node->rule->factor[f].whole)
            return node_fail(check, id, "the strategy splits factor %d, which must be whole", f);
        if (strategy_count(strategy, f) > 0 && node->rule->factor[f].expands && check->graph->values.at[node->out[0]].layout != NULL)
            return node_fail(check, id, "the strategy splits factor %d, which its kernel needs whole: it was not expanded", f);
        const int64_t split = strategy_split(strategy, f);
        for (int i = 0; i < strategy_count(strategy, f); i++)
            layout_append(&all, 0, strategy_digits(strategy, f)[i]); /* a layout has room for those of a strategy */
        if (node->rule->factor[f].divides && (split < 1 || node->rule->factor[f].size % split != 0))
            return node_fail(check, id, "the strategy splits factor %d unevenly", f);
    }
    const char *why;
    if (!layout_valid(&all, check->graph->nranks, &why)) return node_fail(check, id, "the strategy: %s", why);
    return true;
}

static bool check_state_type(const Check *check, int id, const TensorType *type) {
    const Graph *graph = check->graph;
    const Node *node = &graph->nodes.at[id];
    if (node->state < 0 || node->state >= graph->states.n) return node_fail(check, id, "no state %d", node->state);
    if (!type_equal(type, &graph->states.at[node->state].type))
        return node_fail(check, id, "another type than state %s", graph->states.at[node->state].name);
    return true;
}

/* Checks that a conversion is between two layouts, and that its result is partial only over digits of its operand. */
static bool check_convert(const Check *check, int id) {
    const Graph *graph = check->graph;
    const Node *node = &graph->nodes.at[id];
    const Layout *from = graph->values.at[node->in[0]].layout, *to = graph->values.at[node->out[0]].layout;
    if (!from || !to) return node_fail(check, id, "a conversion without layouts");
    if (layout_has_halo(from)) return node_fail(check, id, "a conversion of what lies with halos");
    if ((unsigned)node->comm >= NCOMMS) return node_fail(check, id, "no such communication");
    if (!layout_is_partial(to)) return true;
    Layout a = *from, b = *to;
    bool fits = layout_refine(&a, &b);
    for (int r = b.ndim; fits && r < b.ndim + NREDUCTIONS; r++)
        for (int i = 0; fits && i < layout_count(&b, r); i++)
            fits = layout_has(&a, r, layout_list(&b, r)[i]);
    return fits || node_fail(check, id, "the result is partial over digits that the operand is not");
}

/* Checks leaves, writes and conversions. A read names a version: the old one before the state's write, the new one after it.
 */
static bool check_special(const Check *check, int id) {
    const Graph *graph = check->graph;
    const Node *node = &graph->nodes.at[id];
    if (node->op == OP_read) {
        if (!check_state_type(check, id, type_of(graph, node->out[0]))) return false;
        if (node->version != check->written[node->state])
            return node_fail(check, id, "reads version %d of %s %s its write", node->version, graph->states.at[node->state].name,
                             check->written[node->state] ? "after" : "before");
    } else if (node->op == OP_write) {
        if (!check_state_type(check, id, type_of(graph, node->in[0]))) return false;
        if (check->written[node->state]) return node_fail(check, id, "a second write of %s", graph->states.at[node->state].name);
        check->written[node->state] = true;
    } else if (node->op == OP_input) {
        if (node->state < 0 || node->state >= graph->inputs.n) return node_fail(check, id, "no input %d", node->state);
        if (!type_equal(type_of(graph, node->out[0]), &graph->inputs.at[node->state].type))
            return node_fail(check, id, "another type than input %s", graph->inputs.at[node->state].name);
    } else if (node->op == OP_convert)
        return check_convert(check, id);
    return true;
}

static bool check_layout(const Check *check, const Layout *layout, const TensorType *type, const char *what, const char *name) {
    const char *why;
    if (!layout) return true;
    if (layout->ndim != type->shape.ndim)
        return fail(check, "the layout of %s %s has %d dimensions, the tensor %d", what, name, layout->ndim, type->shape.ndim);
    if (layout_has_halo(layout) && strcmp(what, "value") != 0) return fail(check, "%s %s would lie with halos", what, name);
    int number = graph_layout_number(check->graph, layout);
    if (number < 0 || check->graph->layouts->at[number] != layout)
        return fail(check, "the layout of %s %s is not one of the graph's", what, name);
    if (!check->valid[number] && !layout_valid(layout, check->graph->nranks, &why))
        return fail(check, "the layout of %s %s: %s", what, name, why);
    return check->valid[number] = true;
}

static bool check_layouts(const Check *check) {
    const Graph *graph = check->graph;
    for (int v = 0; v < graph->values.n; v++)
        if (!check_layout(check, graph->values.at[v].layout, type_of(graph, v), "value", graph->values.at[v].name)) return false;
    for (int s = 0; s < graph->states.n; s++)
        if (!check_layout(check, graph->states.at[s].layout, &graph->states.at[s].type, "state", graph->states.at[s].name)) return false;
    for (int i = 0; i < graph->inputs.n; i++)
        if (!check_layout(check, graph->inputs.at[i].layout, &graph->inputs.at[i].type, "input", graph->inputs.at[i].name)) return false;
    return true;
}

bool graph_verify(const Graph *graph, const char *stage, Error *error) {
    Arena scratch;
    arena_init(&scratch);
    Check check = {graph,
                   stage,
                   error,
                   arena_alloc(&scratch, sizeof(bool) * (size_t)(graph->states.n + 1)),
                   arena_alloc(&scratch, sizeof(bool) * (size_t)(graph->layouts->n + 1)),
                   arena_alloc(&scratch, sizeof(Node *) * INFERRED_SLOTS)};
    bool good = true;
    int nvalues = 0;
    for (int s = 0; s < graph->states.n && good; s++) {
        const State *state = &graph->states.at[s];
        good = state->parameter >= 0 && state->parameter < graph->states.n && !state->type.hidden;
        if (!good) fail(&check, "state %d (%s) belongs to no parameter, or has replicas", s, state->name);
    }
    for (int id = 0; id < graph->nodes.n && good; id++) {
        good = check_edges(&check, id) && check_rule(&check, id) && check_origin(&check, id) && check_strategy(&check, id) &&
               check_special(&check, id);
        nvalues += graph->nodes.at[id].nout;
    }
    if (good && nvalues != graph->values.n) good = fail(&check, "%d values, of which nodes make %d", graph->values.n, nvalues);
    if (good && (graph->loss < -1 || graph->loss >= graph->values.n))
        good = fail(&check, "the loss is value %d of %d", graph->loss, graph->values.n);
    if (good && graph->loss >= 0) {
        const TensorType *type = type_of(graph, graph->loss);
        if (type->shape.ndim != type->hidden || !(DTYPES_STATE & 1u << type->dtype))
            good = fail(&check, "the loss %s is not a scalar", graph->values.at[graph->loss].name);
    }
    for (int i = 0; good && i < graph->reports.n; i++)
        if (graph->reports.at[i].value < 0 || graph->reports.at[i].value >= graph->values.n)
            good = fail(&check, "the report %s is value %d of %d", graph->reports.at[i].name, graph->reports.at[i].value, graph->values.n);
    if (good && (graph->nforward < 0 || graph->nforward > graph->nodes.n))
        good = fail(&check, "%d forward nodes of %d", graph->nforward, graph->nodes.n);
    good = good && check_layouts(&check);
    arena_finish(&scratch);
    return good;
}
