/* propagate: every forward operator gets a strategy (DESIGN 5 and 7; MindSpore's sharding_propagation, made exact).
 *
 * Before: a verified graph with composites expanded; hints on nodes, inputs, states, the dataset. After: see strategies.h.
 *
 * Breadth-first from the hints, in program order, through operands and users; an operator is decided once, when it is first reached. All
 * that is compared is known by number: candidates and their layouts are made once per distinct operator, conversions counted once per pair
 * of layouts, so a thousand equal layers cost little more than one. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "ir/rules.h"
#include "strategies/choice.h"

/* The candidates of all nodes with one operator, rule and operand types. */
typedef struct Class {
    OpCode op;
    const Rule *rule;
    int nin, nout;
    TensorType in[MAX_IN];
    Splits splits;
    int *layout; /* row i: numbers of the layouts of operands, then results, under candidate i */
    double *flops;
    int64_t *completion; /* bytes to complete the results; -1: not asked for yet */
    const Strategy **strategy;
    struct Class *next; /* in the same slot */
} Class;

enum { CLASS_SLOTS = 512 };

typedef struct Propagator {
    Graph *graph;
    Propagation *result;
    Diags *diags;
    Arena arena; /* until propagate returns */
    CostMemo *memo;
    int nnodes; /* forward nodes */
    Class *classes[CLASS_SLOTS];
    int *value_layout;      /* per value: number of the layout in which its users find it, -1: free or not decided */
    int (*need)[MAX_IN];    /* per decided node and operand: number of the layout that it asks for */
    int *hint_of;           /* per node: the hinted node from which it was reached, -1: none */
    int *first_user, *user; /* users of value v: node user[k] for k in first_user[v] .. first_user[v + 1], operand user_operand[k] */
    int *user_operand;
    int8_t *batch; /* values_batch */
} Propagator;

static const TensorType *value_type(const Propagator *p, int value) {
    return &p->graph->values.at[value].type;
}

static bool is_operator(const Node *node) {
    return op_table[node->op].op_class != OP_CLASS_LEAF;
}

/* ---- classes */

static Class *class_make(Propagator *p, const Node *node) {
    Class *class = arena_alloc(&p->arena, sizeof *class);
    *class = (Class){.op = node->op, .rule = node->rule, .nin = node->nin, .nout = node->nout};
    for (int i = 0; i < node->nin; i++)
        class->in[i] = *value_type(p, node->in[i]);
    class->splits = candidate_splits(node->rule, p->graph->nranks, p->graph->settings.strict_divide, &p->arena);
    size_t n = (size_t) class->splits.n;
    int columns = node->nin + node->nout;
    class->layout = arena_alloc(&p->arena, n * (size_t)columns * sizeof *class->layout);
    class->flops = arena_alloc(&p->arena, n * sizeof *class->flops);
    class->completion = arena_alloc(&p->arena, n * sizeof *class->completion);
    class->strategy = arena_alloc(&p->arena, n * sizeof *class->strategy);
    for (size_t i = 0; i < n; i++) {
        const int32_t *splits = class->splits.at + i * (size_t) class->splits.nfactors;
        Strategy strategy;
        strategy_from_splits(splits, class->splits.nfactors, p->graph->nranks, &strategy);
        class->flops[i] = cost_flops(node->op, node->rule, splits);
        class->completion[i] = -1;
        for (int c = 0; c < columns; c++) {
            const TensorType *type = c < node->nin ? &class->in[c] : &node->rule->result[c - node->nin];
            Layout layout;
            if (c < node->nin)
                strategy_in_layout(node, &strategy, c, type->shape.ndim, &layout);
            else
                strategy_out_layout(node, &strategy, c - node->nin, type->shape.ndim, &layout);
            class->layout[i * (size_t)columns + (size_t)c] = cost_layout(p->memo, &layout, &type->shape);
        }
    }
    return class;
}

static Class *class_of_node(Propagator *p, const Node *node) {
    uint64_t hash = (uint64_t)node->op;
    for (int f = 0; f < node->rule->nfactors; f++)
        hash = (hash ^ (uint64_t)node->rule->factor[f].size) * 0x9E3779B97F4A7C15u;
    Class **slot = &p->classes[(hash ^ (hash >> 32)) % CLASS_SLOTS];
    for (Class *class = *slot; class; class = class->next) {
        bool same = class->op == node->op && class->nin == node->nin && class->nout == node->nout;
        for (int i = 0; same && i < node->nin; i++)
            same = type_equal(&class->in[i], value_type(p, node->in[i]));
        if (same && rule_equal(class->rule, node->rule, class->in, node->nin, node->nout)) return class;
    }
    Class *class = class_make(p, node);
    class->next = *slot;
    return *slot = class;
}

/* Bytes received in the reductions over the rows that a candidate splits (Factor.reductions): each has a number a row. */
static int64_t row_bytes(const Propagator *p, const Class *class, const Node *node, const Strategy *strategy) {
    int64_t bytes = 0;
    const TensorType *type = &class->in[0];
    for (int d = 0; d < type->shape.ndim; d++) {
        int f = class->rule->in[0][d], reductions = f < 0 || strategy_count(strategy, f) == 0 ? 0 : class->rule->factor[f].reductions;
        if (reductions == 0) continue;
        Strategy others = {.nfactors = strategy->nfactors};
        Shape rows = type->shape;
        Layout partial, whole;
        Traffic bound;
        for (int g = 0; g < strategy->nfactors; g++)
            if (g != f) strategy_follow(&others, g, strategy, g);
        rows.dim[d] = 1;
        strategy_in_layout(node, &others, 0, rows.ndim, &whole);
        partial = whole;
        for (int i = 0; i < strategy_count(strategy, f); i++)
            layout_append(&partial, rows.ndim + REDUCE_SUM, strategy_digits(strategy, f)[i]);
        traffic_bound(&partial, &whole, &rows, p->graph->nranks, &bound);
        bytes += reductions * bound.total * dtype_bytes[type->dtype];
    }
    return bytes;
}

/* Bytes received to complete the results of a candidate, and the reductions that it is made of. */
static int64_t class_completion(Propagator *p, Class *class, const Node *node, int candidate) {
    if (class->completion[candidate] >= 0) return class->completion[candidate];
    Strategy strategy;
    strategy_from_splits(class->splits.at + (size_t)candidate * (size_t) class->splits.nfactors, class->splits.nfactors, p->graph->nranks,
                         &strategy);
    int64_t bytes = row_bytes(p, class, node, &strategy);
    for (int o = 0; o < class->nout; o++) {
        const TensorType *type = &class->rule->result[o];
        Layout partial, whole;
        strategy_out_layout(node, &strategy, o, type->shape.ndim, &partial);
        if (!layout_is_partial(&partial)) continue;
        layout_complete(&partial, &whole);
        Traffic bound;
        traffic_bound(&partial, &whole, &type->shape, p->graph->nranks, &bound);
        bytes += bound.total * dtype_bytes[type->dtype];
    }
    return class->completion[candidate] = bytes;
}

/* Lexicographic order of the tuples of two candidates. */
static int tuple_compare(const Class *class, int a, int b) {
    const int32_t *x = class->splits.at + (size_t)a * (size_t) class->splits.nfactors;
    const int32_t *y = class->splits.at + (size_t)b * (size_t) class->splits.nfactors;
    for (int i = 0; i < class->nin; i++)
        for (int d = 0; d < class->in[i].shape.ndim; d++) {
            int f = class->rule->in[i][d];
            if (f >= 0 && x[f] != y[f]) return x[f] < y[f] ? -1 : 1;
        }
    return a < b ? -1 : a > b;
}

/* ---- decisions */

/* One conversion that a candidate of a node causes: between column `column` of its layouts and a decided neighbour's layout. */
typedef struct Term {
    int column, value, other;
    bool towards; /* from other to the node; else from the node to other */
} Term;

typedef struct Terms {
    int n;
    Term *at;
} Terms;

static Terms terms_of(Propagator *p, const Node *node) {
    int room = node->nin;
    for (int o = 0; o < node->nout; o++)
        room += p->first_user[node->out[o] + 1] - p->first_user[node->out[o]];
    Terms terms = {.at = arena_alloc(&p->arena, (size_t)room * sizeof *terms.at + 1)};
    for (int i = 0; i < node->nin; i++)
        if (p->value_layout[node->in[i]] >= 0)
            terms.at[terms.n++] = (Term){.column = i, .value = node->in[i], .other = p->value_layout[node->in[i]], .towards = true};
    for (int o = 0; o < node->nout; o++) {
        int before = terms.n;
        for (int k = p->first_user[node->out[o]]; k < p->first_user[node->out[o] + 1]; k++) {
            int other = p->need[p->user[k]][p->user_operand[k]];
            bool known = other < 0;
            for (int t = before; t < terms.n && !known; t++)
                known = terms.at[t].other == other;
            if (!known) terms.at[terms.n++] = (Term){.column = node->nin + o, .value = node->out[o], .other = other};
        }
    }
    return terms;
}

/* Bytes that the conversions of one candidate let be received; beyond `limit` any number above it. */
static int64_t terms_bytes(Propagator *p, const Terms *terms, const int *layout, int64_t limit) {
    int64_t bytes = 0;
    for (int t = 0; t < terms->n && bytes <= limit; t++) {
        const Term *term = &terms->at[t];
        bool repeated = false; /* one value asked for twice in the same layout is converted once */
        for (int u = 0; u < t && term->towards && !repeated; u++)
            repeated = terms->at[u].towards && terms->at[u].value == term->value && layout[terms->at[u].column] == layout[term->column];
        if (repeated) continue;
        int own = layout[term->column];
        int64_t elements = term->towards ? cost_convert(p->memo, term->other, own) : cost_convert(p->memo, own, term->other);
        bytes += elements * dtype_bytes[value_type(p, term->value)->dtype];
    }
    return bytes;
}

/* Remembers what a decided node asks for and makes. */
static void decided(Propagator *p, int id) {
    const Node *node = &p->graph->nodes.at[id];
    for (int i = 0; i < node->nin; i++) {
        Layout layout;
        const Shape *shape = &value_type(p, node->in[i])->shape;
        strategy_in_layout(node, node->strategy, i, shape->ndim, &layout);
        p->need[id][i] = cost_layout(p->memo, &layout, shape);
    }
    for (int o = 0; o < node->nout; o++) {
        Layout layout;
        const Shape *shape = &value_type(p, node->out[o])->shape;
        strategy_out_layout(node, node->strategy, o, shape->ndim, &layout);
        if (o == 0 && p->result->out_layout[id]) layout = *p->result->out_layout[id];
        p->value_layout[node->out[o]] = cost_layout(p->memo, &layout, shape);
    }
}

static Strategy *strategy_new(Propagator *p, const int32_t *splits, int nfactors) {
    Strategy *strategy = arena_alloc(p->graph->arena, sizeof *strategy);
    strategy_from_splits(splits, nfactors, p->graph->nranks, strategy);
    return strategy;
}

static void decide_splits(Propagator *p, int id, const int32_t *splits, StrategyFrom from) {
    Node *node = &p->graph->nodes.at[id];
    node->strategy = strategy_new(p, splits, node->rule->nfactors);
    node->from = from;
}

/* Splits one factor as far as it goes; factor -1: whole. */
static void decide_factor(Propagator *p, int id, int factor, StrategyFrom from) {
    const Rule *rule = p->graph->nodes.at[id].rule;
    int32_t splits[MAX_FACTORS];
    for (int f = 0; f < MAX_FACTORS; f++)
        splits[f] = 1;
    if (factor >= 0) splits[factor] = split_largest(&rule->factor[factor], p->graph->nranks, p->graph->settings.strict_divide);
    decide_splits(p, id, splits, factor >= 0 && splits[factor] > 1 ? from : STRATEGY_WHOLE);
}

/* The key in which candidate a, with these bytes, is better than b; negative: in which it is worse. */
static int compare(Propagator *p, Class *class, const Node *node, int a, int64_t a_bytes, int b, int64_t b_bytes) {
    if (a_bytes != b_bytes) return a_bytes < b_bytes ? BY_BYTES : -BY_BYTES;
    if (class->flops[a] != class->flops[b]) return class->flops[a] < class->flops[b] ? BY_FLOPS : -BY_FLOPS;
    int64_t mine = class_completion(p, class, node, a), other = class_completion(p, class, node, b);
    if (mine != other) return mine < other ? BY_SUM : -BY_SUM;
    return tuple_compare(class, a, b) < 0 ? BY_TUPLE : -BY_TUPLE;
}

/* What was considered at a decision: the best few, each weighed in full. */
static void record(Propagator *p, int id, Class *class, const Terms *terms) {
    const Node *node = &p->graph->nodes.at[id];
    Decision *decision = &p->result->decision[id];
    int columns = class->nin + class->nout, best[MAX_ALTERNATIVES], n = 0;
    int64_t best_bytes[MAX_ALTERNATIVES];
    for (int i = 0; i < class->splits.n; i++) {
        int64_t bytes = terms_bytes(p, terms, class->layout + (size_t)i * (size_t)columns, INT64_MAX - 1);
        int at = n;
        while (at > 0 && compare(p, class, node, i, bytes, best[at - 1], best_bytes[at - 1]) > 0)
            at--;
        if (at == MAX_ALTERNATIVES) continue;
        if (n < MAX_ALTERNATIVES) n++;
        for (int k = n - 1; k > at; k--)
            best[k] = best[k - 1], best_bytes[k] = best_bytes[k - 1];
        best[at] = i, best_bytes[at] = bytes;
    }
    decision->ncandidates = class->splits.n;
    decision->nalternatives = n;
    for (int k = 0; k < n; k++)
        decision->alternative[k] = (Alternative){
            .strategy = strategy_new(p, class->splits.at + (size_t)best[k] * (size_t) class->splits.nfactors, class->splits.nfactors),
            .bytes = best_bytes[k],
            .flops = class->flops[best[k]],
            .sum_bytes = class_completion(p, class, node, best[k])};
    decision->by = n < 2 ? BY_ONE : (DecidedBy)compare(p, class, node, best[0], best_bytes[0], best[1], best_bytes[1]);
}

/* The best candidate by the four keys of DESIGN 7. */
static void decide_best(Propagator *p, int id) {
    Node *node = &p->graph->nodes.at[id];
    Class *class = class_of_node(p, node);
    Terms terms = terms_of(p, node);
    int columns = class->nin + class->nout, best = -1;
    int64_t best_bytes = INT64_MAX;
    for (int i = 0; i < class->splits.n; i++) {
        int64_t bytes = terms_bytes(p, &terms, class->layout + (size_t)i * (size_t)columns, best_bytes);
        if (best < 0 || compare(p, class, node, i, bytes, best, best_bytes) > 0) best = i, best_bytes = bytes;
    }
    assert(best >= 0);
    if (p->result->decision) record(p, id, class, &terms);
    if (!class->strategy[best]) {
        decide_splits(p, id, class->splits.at + (size_t)best * (size_t) class->splits.nfactors, STRATEGY_PROPAGATED);
        class->strategy[best] = node->strategy;
    }
    node->strategy = class->strategy[best];
    node->from = STRATEGY_PROPAGATED;
}

/* ---- hints */

/* Where the operator of a hint is that stands elsewhere, and the calls around it. */
static void note_place(Diags *diags, const Node *node) {
    if (node->hint->span.file != node->span.file || node->hint->span.line != node->span.line)
        diag_note(diags, node->span, "it is for %s, which is here", node->name);
    diag_calls(diags, node->hint->call);
}

static void read_output(Propagator *p, int id) {
    Graph *graph = p->graph;
    const Node *node = &graph->nodes.at[id];
    const TensorType *type = value_type(p, node->out[0]);
    const char *what = arena_printf(&p->arena, "%s: output strategy", op_table[node->op].name);
    Layout layout;
    if (layout_from_hint(graph, &node->hint->out, node->hint->named, type, what, false, graph->settings.strict_divide, &layout, p->diags))
        p->result->out_layout[id] = graph_layout(graph, &layout, &type->shape);
}

static bool read_hints(Propagator *p) {
    Graph *graph = p->graph;
    int before = p->diags->nerrors;
    for (int id = 0; id < p->nnodes; id++) {
        Node *node = &graph->nodes.at[id];
        if (!node->hint) continue;
        int said = p->diags->items.n;
        Strategy *strategy = arena_alloc(graph->arena, sizeof *strategy);
        if (strategy_from_hint(graph, node, node->hint, graph->settings.strict_divide, strategy, p->diags)) {
            node->strategy = strategy;
            node->from = STRATEGY_USER;
            p->hint_of[id] = id;
        }
        if (node->hint->nout > 0 && is_operator(node)) read_output(p, id);
        if (p->diags->items.n > said) note_place(p->diags, node);
    }
    return p->diags->nerrors == before;
}

bool input_layout(const Graph *graph, int input, Layout *layout, bool *given, Diags *diags) {
    const Input *in = &graph->inputs.at[input];
    const Settings *settings = &graph->settings;
    layout_init(layout, in->type.shape.ndim);
    *given = true;
    if (in->hint && !in->type.hidden)
        return layout_from_hint(graph, &in->hint->in[0], in->hint->named, &in->type, in->name, true, settings->strict_divide, layout,
                                diags);
    if (!in->type.hidden && settings->dataset == DATASET_EXPLICIT && settings->dataset_hint && input < settings->dataset_hint->nin)
        return layout_from_hint(graph, &settings->dataset_hint->in[input], settings->dataset_hint->named, &in->type, in->name, true,
                                settings->strict_divide, layout, diags);
    if (in->type.hidden || settings->dataset == DATASET_DATA_PARALLEL) {
        if (in->type.shape.ndim == 0) return true;
        Factor batch = {.size = in->type.shape.dim[0]};
        int32_t split = split_largest(&batch, graph->nranks, settings->strict_divide);
        layout_append(layout, 0, (Digit){.size = split, .stride = graph->nranks / split});
        return true;
    }
    *given = settings->dataset == DATASET_FULL_BATCH;
    return true;
}

static bool spans_equal(Span a, Span b) {
    return a.file == b.file && a.line == b.line && a.column == b.column;
}

/* A strategy that is wrong for the parameter of one iteration, or call, is so for that of each: the first one is said. */
static void read_states(Propagator *p) {
    Graph *graph = p->graph;
    VEC(const State *) wrong = {0};
    for (int s = 0; s < graph->states.n; s++) {
        State *state = &graph->states.at[s];
        Layout layout;
        int before = p->diags->nerrors;
        bool said = !state->hint || graph->settings.mode == MODE_DATA_PARALLEL;
        for (int i = 0; i < wrong.n && !said; i++)
            said = spans_equal(wrong.at[i]->hint->span, state->hint->span) && shape_equal(&wrong.at[i]->type.shape, &state->type.shape);
        if (said) continue;
        if (layout_from_hint(graph, &state->hint->in[0], state->hint->named, &state->type, state->name, false, graph->settings.strict_divide,
                             &layout, p->diags))
            state->layout = graph_layout(graph, &layout, &state->type.shape);
        if (p->diags->nerrors == before) continue;
        diag_calls(p->diags, state->hint->call);
        vec_push(&p->arena, &wrong, state);
    }
}

/* Inputs and states whose layout the user or the dataset fixes. */
static bool read_leaves(Propagator *p) {
    Graph *graph = p->graph;
    int before = p->diags->nerrors;
    const Hint *dataset = graph->settings.dataset == DATASET_EXPLICIT ? graph->settings.dataset_hint : NULL;
    int ninputs = 0; /* without those that lowering added, behind them */
    for (int i = 0; i < graph->inputs.n; i++)
        ninputs += graph->inputs.at[i].kind == INPUT_DATA && graph->inputs.at[i].micro == 0;
    if (dataset && dataset->nin != ninputs && graph->nranks > 1) {
        diag_error(p->diags, dataset->span, "the dataset strategy has %d tuple%s, the net has %d input%s", dataset->nin,
                   dataset->nin == 1 ? "" : "s", ninputs, ninputs == 1 ? "" : "s");
        diag_hint(p->diags, "one tuple an input, in the order of their declaration");
    }
    for (int i = 0; i < graph->inputs.n; i++) {
        Layout layout;
        bool given;
        if (input_is_of_batch(graph->inputs.at[i].kind) && graph->inputs.at[i].micro == 0 && input_layout(graph, i, &layout, &given, p->diags) && given)
            graph->inputs.at[i].layout = graph_layout(graph, &layout, &graph->inputs.at[i].type.shape);
    }
    read_states(p);
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        const Layout *layout = node->op == OP_input  ? graph->inputs.at[node->state].layout
                               : node->op == OP_read ? graph->states.at[node->state].layout
                                                     : NULL;
        if (layout) p->value_layout[node->out[0]] = cost_layout(p->memo, layout, &value_type(p, node->out[0])->shape);
    }
    return p->diags->nerrors == before;
}

/* ---- the walk */

/* Decides one neighbour, unless that has been done, and queues it. */
static void reach(Propagator *p, int id, int from, int hint, int *queue, int *nqueue) {
    Node *node = &p->graph->nodes.at[id];
    if (id >= p->nnodes || !is_operator(node) || node->strategy) return;
    decide_best(p, id);
    decided(p, id);
    p->hint_of[id] = hint;
    if (p->result->decision) p->result->decision[id].from = from;
    queue[(*nqueue)++] = id;
}

static void walk_from_hints(Propagator *p) {
    int *queue = arena_alloc(&p->arena, (size_t)p->nnodes * sizeof *queue + 1);
    int nqueue = 0;
    for (int id = 0; id < p->nnodes; id++)
        if (p->hint_of[id] == id) queue[nqueue++] = id;
    for (int i = 0; i < nqueue; i++) {
        const Node *node = &p->graph->nodes.at[queue[i]];
        int hint = p->hint_of[queue[i]];
        int producer[MAX_IN], nproducers = 0;
        for (int k = 0; k < node->nin; k++) {
            int id = p->graph->values.at[node->in[k]].node, at = nproducers++;
            for (; at > 0 && producer[at - 1] > id; at--)
                producer[at] = producer[at - 1];
            producer[at] = id;
        }
        for (int k = 0; k < nproducers; k++)
            reach(p, producer[k], queue[i], hint, queue, &nqueue);
        for (int o = 0; o < node->nout; o++)
            for (int k = p->first_user[node->out[o]]; k < p->first_user[node->out[o] + 1]; k++)
                reach(p, p->user[k], queue[i], hint, queue, &nqueue);
    }
}

/* An operator before node `end` that follows from hint `a` takes the value in this layout too. */
static bool wants_too(const Propagator *p, int value, int a, int want, int end) {
    for (int k = p->first_user[value]; k < p->first_user[value + 1]; k++)
        if (p->hint_of[p->user[k]] == a && p->user[k] < end && p->need[p->user[k]][p->user_operand[k]] == want) return true;
    return false;
}

/* Two hints, as they stand in the text, whose consequences do not fit. */
typedef struct Conflict {
    const Hint *from, *to; /* of what makes the value, of what needs it */
    int from_node, to_node; /* the operators at which they stand */
    int value, user, have, want;
    int more;           /* further places: other iterations and calls, other values between them */
    int64_t bytes, all; /* of the first conversion; of all */
} Conflict;

static bool same_hints(const Conflict *c, const Hint *a, const Hint *b) {
    return (spans_equal(c->from->span, a->span) && spans_equal(c->to->span, b->span)) || (spans_equal(c->from->span, b->span) && spans_equal(c->to->span, a->span));
}

static void warn_conflict(Propagator *p, const Conflict *c) {
    const Graph *graph = p->graph;
    const Node *user = &graph->nodes.at[c->user];
    const bool after = c->from_node < c->to_node;
    const Node *first = &graph->nodes.at[after ? c->from_node : c->to_node], *second = &graph->nodes.at[after ? c->to_node : c->from_node];
    Text text = {0};
    text_printf(&text, "the hints of %s and %s do not fit together: %s is made as ", first->name, second->name, graph->values.at[c->value].name);
    layout_print(&text, cost_layout_at(p->memo, c->have), false);
    text_printf(&text, " and needed as ");
    layout_print(&text, cost_layout_at(p->memo, c->want), false);
    text_printf(&text, " by %s; the conversion lets %" PRId64 " bytes be received a step", user->name, c->bytes);
    if (c->more > 0) text_printf(&text, ", with those at %d more place%s %" PRId64, c->more, c->more == 1 ? "" : "s", c->all);
    diag_warning(p->diags, WARN_CONFLICT, after ? c->to->span : c->from->span, "%s", text.at);
    if (spans_equal(c->from->span, c->to->span)) /* of one pattern: where the operators stand */
        diag_note(p->diags, first->span, "%s, which the same pattern names", first->name);
    else
        diag_note(p->diags, after ? c->from->span : c->to->span, "the hint of %s", first->name);
    text_finish(&text);
}

/* Where what followed from two hints meets and does not fit: said once for each two hints, however often a pattern makes them meet. */
static void warn_conflicts(Propagator *p) {
    const Graph *graph = p->graph;
    VEC(Conflict) found = {0};
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        for (int i = 0; i < node->nin && is_operator(node); i++) {
            int producer = graph->values.at[node->in[i]].node;
            int a = p->hint_of[producer], b = p->hint_of[id];
            if (a < 0 || b < 0 || a == b || !graph->nodes.at[a].hint || !graph->nodes.at[b].hint) continue;
            int have = p->value_layout[node->in[i]], want = p->need[id][i];
            int64_t bytes = cost_convert(p->memo, have, want) * dtype_bytes[value_type(p, node->in[i])->dtype];
            if (bytes == 0 || wants_too(p, node->in[i], a, want, p->nnodes)) continue; /* that conversion is the first hint's own affair */
            if (wants_too(p, node->in[i], b, want, id)) continue;
            const Hint *from = graph->nodes.at[a].hint, *to = graph->nodes.at[b].hint;
            int known = 0;
            while (known < found.n && !same_hints(&found.at[known], from, to))
                known++;
            if (known == found.n)
                vec_push(&p->arena, &found, ((Conflict){.from = from, .to = to, .from_node = a, .to_node = b, .value = node->in[i], .user = id, .have = have, .want = want, .more = -1, .bytes = bytes}));
            found.at[known].more++;
            found.at[known].all += bytes;
        }
    }
    for (int k = 0; k < found.n; k++)
        warn_conflict(p, &found.at[k]);
}

/* ---- propagate */

static void propagator_init(Propagator *p, Graph *graph, Propagation *result, Diags *diags) {
    memset(p, 0, sizeof *p);
    p->graph = graph, p->result = result, p->diags = diags;
    arena_init(&p->arena);
    p->memo = cost_memo_create(&p->arena, graph->nranks);
    p->nnodes = graph->nforward ? graph->nforward : graph->nodes.n;
    result->out_layout = arena_alloc(graph->arena, (size_t)(graph->nodes.n + 1) * sizeof *result->out_layout);
    int nvalues = graph->values.n;
    p->value_layout = arena_alloc(&p->arena, (size_t)nvalues * sizeof *p->value_layout + 1);
    p->need = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->need + 1);
    p->hint_of = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->hint_of + 1);
    p->first_user = arena_alloc(&p->arena, (size_t)(nvalues + 2) * sizeof *p->first_user);
    for (int v = 0; v < nvalues; v++)
        p->value_layout[v] = -1;
    int nuses = 0;
    for (int id = 0; id < graph->nodes.n; id++) {
        p->hint_of[id] = -1;
        for (int i = 0; i < MAX_IN; i++)
            p->need[id][i] = -1;
        if (id < p->nnodes)
            for (int i = 0; i < graph->nodes.at[id].nin; i++, nuses++)
                p->first_user[graph->nodes.at[id].in[i] + 2]++;
    }
    for (int v = 0; v < nvalues; v++)
        p->first_user[v + 2] += p->first_user[v + 1];
    p->user = arena_alloc(&p->arena, (size_t)nuses * sizeof *p->user + 1);
    p->user_operand = arena_alloc(&p->arena, (size_t)nuses * sizeof *p->user_operand + 1);
    for (int id = 0; id < p->nnodes; id++)
        for (int i = 0; i < graph->nodes.at[id].nin; i++) {
            int at = p->first_user[graph->nodes.at[id].in[i] + 1]++;
            p->user[at] = id;
            p->user_operand[at] = i;
        }
    p->batch = values_batch(graph, &p->arena);
}

/* The factor of the hidden dimension of mode data_parallel, -1: the node has none. */
static int hidden_factor(const Propagator *p, const Node *node) {
    for (int i = 0; i < node->nin; i++)
        if (value_type(p, node->in[i])->hidden) return node->rule->in[i][0];
    for (int o = 0; o < node->nout; o++)
        if (value_type(p, node->out[o])->hidden) return node->rule->out[o][0];
    return -1;
}

static bool propagate_all(Propagator *p) {
    Graph *graph = p->graph;
    bool sharded = graph->nranks > 1 && (graph->settings.mode == MODE_SEMI_AUTO || graph->settings.mode == MODE_AUTO);
    bool well = !sharded || read_hints(p);
    if (!read_leaves(p) || !well) return false;
    bool any_hint = false;
    for (int id = 0; id < p->nnodes; id++)
        if (p->hint_of[id] == id || (graph->nodes.at[id].strategy && is_operator(&graph->nodes.at[id]))) {
            p->hint_of[id] = id;
            any_hint = true;
            decided(p, id);
        }
    if (sharded && graph->settings.mode == MODE_AUTO) {
        if (any_hint)
            walk_from_hints(p);
        else if (p->diags->verbose)
            diag_note(p->diags, (Span){0}, "no operator has a strategy (shard): every operator splits its batch");
    }
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        if (!is_operator(node) || node->strategy) continue;
        int factor = -1;
        if (graph->settings.mode == MODE_DATA_PARALLEL)
            factor = hidden_factor(p, node);
        else if (sharded)
            factor = batch_factor(graph, node, p->batch);
        decide_factor(p, id, factor, STRATEGY_BATCH);
        decided(p, id);
    }
    if (sharded) warn_conflicts(p);
    return true;
}

static bool propagate_any(Graph *graph, Propagation *propagation, Diags *diags, bool explained) {
    Propagator p;
    propagator_init(&p, graph, propagation, diags);
    propagation->decision = explained ? arena_alloc(graph->arena, (size_t)(graph->nodes.n + 1) * sizeof *propagation->decision) : NULL;
    for (int id = 0; explained && id < graph->nodes.n; id++)
        propagation->decision[id].from = -1;
    bool done = propagate_all(&p);
    for (int id = 0; explained && id < graph->nodes.n; id++)
        propagation->decision[id].hint = p.hint_of[id];
    arena_finish(&p.arena);
    return done;
}

bool propagate(Graph *graph, Propagation *propagation, Diags *diags) {
    return propagate_any(graph, propagation, diags, false);
}

bool propagate_explained(Graph *graph, Propagation *propagation, Diags *diags) {
    return propagate_any(graph, propagation, diags, true);
}
