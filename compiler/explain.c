/* explain: why a value has its layout, and what every conversion at it is for (docs/explain.md).
 *
 * Before: a whole compilation, with the decisions of propagate recorded. Reads the sharded graph for what was asked of a value, the SPMD graph for what is
 * done to it. */
#include "compiler/explain.h"

#include <assert.h>
#include <string.h>

#include "compiler/explain_index.h"
#include "compiler/name.h"
#include "compiler/oracle.h"
#include "compiler/sharded.h"

enum { MAX_USERS = 4, MAX_CHAIN_HEAD = HEAD_DEPTH + 1, MAX_CHAIN_TAIL = 8 };

typedef struct Explain {
    Text *text;
    Build *b;
    const Graph *g; /* b->sharded.graph */
    const ExplainIndex *index;
    const RoleIndex *role; /* that is explained */
    int nexplained;        /* names that are explained in this call of pcc */
} Explain;

static const char *layout_text(const Explain *e, const Layout *layout, const TensorType *type) {
    return layout_named(e->b->arena, e->g, layout, type->hidden);
}

static const char *bytes_text(const Explain *e, int64_t bytes) {
    return bytes_named(e->b->arena, bytes);
}

static const char *type_text(const Explain *e, const TensorType *type) {
    Text text = {0};
    type_print(&text, type);
    const char *copy = arena_copy(e->b->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

/* " at net.dsl:8:9", or nothing. */
static const char *at_text(const Explain *e, Span span) {
    const char *place = place_named(e->b->arena, e->b->diags, span);
    return *place ? arena_printf(e->b->arena, " at %s", place) : "";
}

/* "matmul h"; one word where both are one. */
static const char *node_text(const Explain *e, const Node *node) {
    const char *op = op_table[node->op].name, *name = node->name != NULL ? node->name : "";
    if (node->op == OP_write) return arena_printf(e->b->arena, "the write of %s", e->g->states.at[node->state].name);
    return strcmp(op, name) == 0 || *name == '\0' ? op : arena_printf(e->b->arena, "%s %s", op, name);
}

/* The strategy of a node of g: the tuple; where that cannot say it, the layouts of the operands too. */
static const char *strategy_text(const Explain *e, const Graph *g, const Node *node, const Strategy *strategy) {
    Text text = {0};
    if (!strategy_print(&text, node, g, strategy))
        for (int i = 0; i < node->nin; i++) {
            Layout layout;
            const TensorType *type = &g->values.at[node->in[i]].type;
            strategy_in_layout(node, strategy, i, type->shape.ndim, &layout);
            text_printf(&text, "%s%s", i ? ", " : " on ", layout_text(e, &layout, type));
        }
    const char *copy = arena_copy(e->b->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

/* ---------------------------------------------------------------- why a node has its strategy */

static const char *const by_text[] = {
    [BY_NOTHING] = "",
    [BY_ONE] = "the only candidate",
    [BY_BYTES] = "fewest bytes, a message counted as 128 a rank",
    [BY_FLOPS] = "as few bytes as the next, fewer FLOPs",
    [BY_SIDE] = "as cheap as the next, and fits its operands better",
    [BY_BATCH] = "equal to the next in all costs: more of the batch split",
    [BY_TUPLE] = "equal to the next in all costs: the first in order",
};

static void explain_alternatives(const Explain *e, const Node *node, const Decision *decision) {
    Text *text = e->text;
    text_printf(text, "  considered   %d candidate%s; %s%d:\n", decision->ncandidates, decision->ncandidates == 1 ? "" : "s",
                decision->nalternatives < decision->ncandidates ? "the best " : "all ", decision->nalternatives);
    text_printf(text, "                 bytes       regret      messages  FLOPs\n");
    for (int i = 0; i < decision->nalternatives; i++) {
        const Alternative *a = &decision->alternative[i];
        text_printf(text, "            %s  %-10s  %-10s  %-8d  %-10.4g  %s\n", i == 0 ? "-> " : "   ", bytes_text(e, a->bytes),
                    bytes_text(e, a->regret), (int)a->messages, a->flops, strategy_text(e, &e->b->front.chosen, node, a->strategy));
    }
    text_printf(text, "  decided by   %s\n", by_text[decision->by]);
}

static void explain_way(const Explain *e, int id, bool is_hint) {
    const Graph *g = &e->b->front.chosen;
    const Node *node = &g->nodes.at[id];
    const int depth = e->index->depth[id];
    text_printf(e->text, "    %3d. %s  %s", depth, node_text(e, node), strategy_text(e, g, node, node->strategy));
    text_printf(e->text, "  %s\n", depth > 0 ? by_text[e->b->front.propagation.decision[id].by] : is_hint ? "the user's" : "as there");
}

/* Prints the way from the hint to a node of front.chosen, an operator a line; of a long way its two ends. */
static void explain_chain(const Explain *e, int id) {
    const Graph *g = &e->b->front.chosen;
    const Decision *decision = e->b->front.propagation.decision;
    const int nsteps = e->index->depth[id], n = nsteps + 1;
    if (decision[id].hint < 0) {
        text_printf(e->text, "  because      the batch cannot be split over all ranks; no hint leads to it\n");
        return;
    }
    const bool whole = n <= MAX_CHAIN_HEAD + MAX_CHAIN_TAIL;
    int head[MAX_CHAIN_HEAD], nhead = 0, tail[MAX_CHAIN_HEAD + MAX_CHAIN_TAIL], ntail = 0;
    for (int at = e->index->head[id]; at >= 0; at = decision[at].from)
        head[nhead++] = at;
    for (int at = id; at >= 0 && ntail < (whole ? n : MAX_CHAIN_TAIL); at = decision[at].from)
        tail[ntail++] = at;
    const Node *first = &g->nodes.at[head[nhead - 1]];
    const bool is_hint = first->hint != NULL; /* else it follows program train */
    text_printf(e->text, "  because      of %s %s%s, in %d step%s:\n", is_hint ? "the hint on" : "what program train does with",
                node_text(e, first), is_hint ? at_text(e, first->hint->span) : "", nsteps, nsteps == 1 ? "" : "s");
    for (int i = nhead - 1; i >= 0 && !whole; i--)
        explain_way(e, head[i], is_hint);
    if (!whole) text_printf(e->text, "               ... %d operators\n", n - MAX_CHAIN_HEAD - MAX_CHAIN_TAIL);
    for (int i = ntail - 1; i >= 0; i--)
        explain_way(e, tail[i], is_hint);
}

/* Says into what an operator along rows, or a split along an axis, of front.chosen was expanded. */
static void explain_expanded(const Explain *e, int chosen) {
    const Node *node = &e->b->front.chosen.nodes.at[chosen];
    const bool rows = node->op != OP_split;
    text_printf(e->text, "  part of      %s, whose %s split: ", node_text(e, node), rows ? "rows are" : "axis is");
    int count = 0;
    each_in(&e->index->stands, chosen, n) text_printf(e->text, "%s%s", count++ > 0 ? ", " : "", op_table[e->g->nodes.at[n].op].name);
    text_printf(e->text, " stand for it;\n               %s\n",
                rows ? "its reductions have a number a row, no row is gathered" : "each rank receives what it lacks of its parts");
}

static const char *other_text(const void *context, const Node *node, const Strategy *strategy) {
    const Explain *e = context;
    return strategy_text(e, &e->b->front.chosen, node, strategy);
}

/* Which stage of a pipeline runs an operator of front.chosen. */
static void explain_stage(const Explain *e, int id) {
    const Front *front = &e->b->front;
    const Graph *g = &front->chosen;
    const Node *node = &g->nodes.at[id];
    if (front->stage_why == NULL || node_is_leaf(node)) return;
    const StageWhy *why = &front->stage_why[id];
    const int each = g->nranks, nstages = settings_stages(&g->settings), stage = (node->stage - 1) % nstages, first = stage * each;
    if (why->cause == STAGE_OF_ALL)
        text_printf(e->text, "  stage        none: it is computed of constants alone, by all ranks\n");
    else
        text_printf(e->text, "  stage        %d, %s", stage, ranks_named(e->b->arena, first, first + each - 1));
    if (why->cause != STAGE_OF_ALL && settings_parts(&g->settings) > nstages)
        text_printf(e->text, ", chunk %d (part %d of the net)", (node->stage - 1) / nstages, node->stage - 1);
    if (why->cause != STAGE_OF_ALL) text_printf(e->text, ": ");
    switch (why->cause) {
    case STAGE_OF_ALL:
        return;
    case STAGE_ASKED:
        text_printf(e->text, "its hint%s\n", at_text(e, node->asked->span));
        return;
    case STAGE_BETWEEN:
        text_printf(e->text, "it lies between %s and %s, which hints have there\n", g->nodes.at[why->before].name,
                    g->nodes.at[why->behind].name);
        return;
    case STAGE_CUT:
        text_printf(e->text, "the net is cut where the slowest stage takes least, %.4g ms of a batch\n", 1e3 * front->stage_s);
        return;
    }
}

/* The one rank that runs a lookup, of e->g; -1: it is another operator, or all have the table. */
static int lookup_rank(const Explain *e, int id) {
    const Node *node = &e->g->nodes.at[id];
    const Pin *pin = &node->strategy->pin;
    return id < e->g->nforward && !node_is_leaf(node) && pin_is_rank(e->g, pin) ? pin->value : -1;
}

static void explain_node(const Explain *e, int id) {
    Text *text = e->text;
    const int own = id;
    const Graph *g = e->g;
    const Node *node = &g->nodes.at[id], *chosen = &e->b->front.chosen.nodes.at[chosen_of(e->b, id)];
    const Decision *decision = NULL;
    if (node->strategy == NULL) return;
    if (chosen->op != node->op) explain_expanded(e, chosen_of(e->b, id));
    if (id < g->nforward && !node_is_leaf(node)) { /* strategies were chosen for these */
        id = chosen_of(e->b, id);
        g = &e->b->front.chosen;
        node = chosen;
        decision = &e->b->front.propagation.decision[id];
    }
    const char *what = node_text(e, node);
    if (op_table[node->op].op_class == OP_CLASS_UPDATE) {
        text_printf(text,
                    "  because      an update lies as its state is stored; of a state of 256 KiB or more it is divided further among the\n"
                    "               ranks that hold terms of the gradient (unless --whole-updates)\n");
        return;
    }
    if (decision != NULL) explain_stage(e, id);
    if (lookup_rank(e, own) >= 0) {
        text_printf(text, "  because      its table lies on rank %d, which looks it up: indices go there, and rows come from there\n",
                    lookup_rank(e, own));
        return;
    }
    text_printf(text, "  strategy     %s  %s\n", what, strategy_text(e, g, node, node->strategy));
    if (decision != NULL && e->b->front.followed != NULL && e->b->front.followed[id]) {
        text_printf(text, "  because      it has this strategy in program train\n");
        return;
    }
    switch (node->from) {
    case STRATEGY_USER:
        text_printf(text, "  because      of its hint%s\n", at_text(e, node->hint->span));
        return;
    case STRATEGY_PROPAGATED:
        assert(decision != NULL);
        if (decision->by_search) {
            text_printf(text, "  because      of a search over the whole net: ");
            search_print(text, e->b->front.search);
            text_printf(text, "\n");
            return;
        }
        explain_chain(e, id);
        explain_alternatives(e, node, decision);
        return;
    case STRATEGY_BATCH:
        if (mode_hides(g->settings.mode))
            text_printf(text, "  because      mode %s divides the replicas among the ranks\n", mode_name[g->settings.mode]);
        else if (g->settings.mode == MODE_SEMI_AUTO)
            text_printf(text, "  because      it has no hint: mode semi_auto splits its batch\n");
        else
            text_printf(text, "  because      no hint leads to it: it splits its batch\n");
        return;
    case STRATEGY_ORIGIN:
        if (node->origin == id) {
            text_printf(text, "  because      it lies as its users take it\n");
            return;
        }
        if (g->nodes.at[node->origin].op == OP_read) {
            text_printf(text, "  because      the gradients of what uses a parameter are added up as the parameter is stored\n");
            return;
        }
        text_printf(text, "  because      a gradient reuses the strategy of its operator, %s\n", node_text(e, &g->nodes.at[node->origin]));
        explain_node(e, node->origin);
        return;
    case STRATEGY_WHOLE:
        if (node->origin != id)
            text_printf(text, "  because      its operator, %s, is whole too\n", node_text(e, &g->nodes.at[node->origin]));
        else
            text_printf(text, "  because      %s\n",
                        g->nranks == 1 ? settings_stages(&g->settings) > 1 ? "its stage has one rank" : "there is one rank"
                                       : "no hint leads to it, and it has no batch that can be split");
        return;
    case STRATEGY_NONE:
        return;
    }
}

/* ---------------------------------------------------------------- conversions */

/* Which nodes take a value of spmd, also through conversions: "relu a, matmul y". */
static void collect_users(const Explain *e, int value, Text *users, int *n) {
    const Graph *s = &e->b->spmd.graph;
    for (int k = e->index->users.first[value]; k < e->index->users.first[value + 1]; k++) {
        const Node *node = &s->nodes.at[e->index->users.user[k]];
        if (node->op == OP_convert) {
            collect_users(e, node->out[0], users, n);
            continue;
        }
        if (++*n <= MAX_USERS) text_printf(users, "%s%s", *n > 1 ? ", " : "", node_text(e, node));
    }
    if (value == s->loss && ++*n <= MAX_USERS) text_printf(users, "%sthe report of the loss", *n > 1 ? ", " : "");
}

static const char *users_text(const Explain *e, int value) {
    Text users = {0};
    int n = 0;
    collect_users(e, value, &users, &n);
    if (n > MAX_USERS) text_printf(&users, " and %d more", n - MAX_USERS);
    const char *copy = n == 0 ? "nothing" : arena_copy(e->b->arena, users.at, users.n);
    text_finish(&users);
    return copy;
}

/* How the terms of a partial layout are combined; one that is not partial counts as a sum. */
static Reduction reduction_of(const Layout *layout) {
    for (int r = 0; r < NREDUCTIONS; r++)
        if (layout_count(layout, layout->ndim + r) > 0) return (Reduction)r;
    return REDUCE_SUM;
}

static const char *purpose(const Layout *from, const Layout *to, CommKind kind) {
    static const char *const for_all[NREDUCTIONS] = {[REDUCE_SUM] = "adds up the partial sums, for all",
                                                     [REDUCE_MAX] = "finds the maximum of all ranks, for all",
                                                     [REDUCE_MIN] = "finds the minimum of all ranks, for all"};
    static const char *const in_parts[NREDUCTIONS] = {[REDUCE_SUM] = "adds up the partial sums, each rank its part",
                                                      [REDUCE_MAX] = "finds the maximum of all ranks, each rank its part",
                                                      [REDUCE_MIN] = "finds the minimum of all ranks, each rank its part"};
    static const char *const anew[NREDUCTIONS] = {[REDUCE_SUM] = "adds up the partial sums and divides the result anew",
                                                  [REDUCE_MAX] = "finds the maximum of all ranks and divides it anew",
                                                  [REDUCE_MIN] = "finds the minimum of all ranks and divides it anew"};
    bool completes = layout_is_partial(from) && !layout_is_partial(to);
    switch (kind) {
    case COMM_ALL_REDUCE:
        return for_all[reduction_of(from)];
    case COMM_REDUCE_SCATTER:
        return in_parts[reduction_of(from)];
    case COMM_ALL_GATHER:
        return "brings parts together";
    case COMM_ALL_TO_ALL:
        return "divides another dimension";
    case COMM_EXCHANGE:
        return completes ? anew[reduction_of(from)] : "divides it otherwise";
    case COMM_STRIDED_SLICE:
        return "keeps a part; nothing is sent";
    case NCOMMS:
        break;
    }
    return "";
}

/* Gradients that are reduced in one communication. */
static void explain_bucket(const Explain *e, const Communication *move, const char *indent) {
    if (move->bucket == 0) return;
    int others = 0;
    text_printf(e->text, "%s               in bucket %d, together with", indent, move->bucket);
    each_in(&e->role->buckets, move->bucket, i) {
        if (e->role->facts->communications.at[i].step == move->step) continue;
        if (++others <= MAX_USERS)
            text_printf(e->text, "%s %s", others > 1 ? "," : "", e->g->values.at[e->role->facts->communications.at[i].value].name);
    }
    text_printf(e->text, others > MAX_USERS ? " and %d more\n" : others == 0 ? " nothing else\n" : "\n", others - MAX_USERS);
}

/* The event in which a step of the plan runs, for a bucket together with others; NULL: it takes no time. */
static const TimelineEvent *event_of(const Explain *e, int step) {
    return e->role->event[step] >= 0 ? &e->role->timeline->events.at[e->role->event[step]] : NULL;
}

/* Only the first of a bucket tells how long a step waits for all of them. */
static void explain_move_time(const Explain *e, int communication, const char *indent) {
    const Communication *move = &e->role->facts->communications.at[communication];
    const TimelineEvent *event = event_of(e, move->step);
    const Role *role = e->role->facts->role;
    if (move->kind == COMM_STRIDED_SLICE || event == NULL || event->step != move->step) return;
    const double waits = 1e3 * e->role->timeline->exposed_by[communication], step = 1e3 * e->role->timeline->step_s;
    if (e->index->nroles > 1)
        text_printf(e->text, "%s               predicted to keep %s waiting for %.4g ms of a step of %.4g ms\n", indent,
                    ranks_named(e->b->arena, role->first_rank, role->last_rank), waits, step);
    else
        text_printf(e->text, "%s               predicted to keep a step of %.4g ms waiting for %.4g ms\n", indent, step, waits);
}

static void explain_move(const Explain *e, int communication, const char *indent) {
    Text *text = e->text;
    const Communication *move = &e->role->facts->communications.at[communication];
    const Instance *instances = e->role->facts->role->instances.at;
    const TensorType *type = &e->g->values.at[move->value].type;
    const Layout *from = instances[move->from].layout, *to = instances[move->to].layout;
    text_printf(text, "%sconversion   %s  %s -> %s: %s\n", indent, comm_name[move->kind], layout_text(e, from, type),
                layout_text(e, to, type), purpose(from, to, move->kind));
    text_printf(text, "%s               for %s\n", indent, users_text(e, e->role->taken_as[move->to]));
    if (move->kind != COMM_STRIDED_SLICE)
        text_printf(text, "%s               %s received by all ranks, %s by the busiest; the least is %s\n", indent,
                    bytes_text(e, move->received.total), bytes_text(e, move->received.max), bytes_text(e, move->bound.total));
    explain_move_time(e, communication, indent);
    explain_bucket(e, move, indent);
}

/* Whether another role tells of a conversion: one before that has it too or, where this one only sends, the one that receives. */
static bool said_before(const ExplainIndex *index, int role, const Communication *move) {
    const Instance *instances = index->role[role].facts->role->instances.at;
    if (instances[move->to].place == PLACE_ELSEWHERE) return true;
    for (int r = 0; r < role; r++) {
        const Instance *others = index->role[r].facts->role->instances.at;
        each_in(&index->role[r].moves, move->value, i) {
            const Communication *other = &index->role[r].facts->communications.at[i];
            if (other->kind == move->kind && others[other->to].place != PLACE_ELSEWHERE &&
                others[other->from].layout == instances[move->from].layout && others[other->to].layout == instances[move->to].layout)
                return true;
        }
    }
    return false;
}

static void explain_moves(const Explain *e, int value, const char *indent) {
    int64_t received = 0;
    int count = 0, nroles = 0, least = 0; /* conversions; roles that have some, the last one */
    for (int r = 0; r < e->index->nroles; r++) {
        Explain of = *e;
        const int before = count;
        of.role = &e->index->role[r];
        each_in(&of.role->moves, value, i) {
            const Communication *move = &of.role->facts->communications.at[i];
            if (said_before(e->index, r, move)) continue;
            explain_move(&of, i, indent);
            received += move->received.total;
            count += move->kind != COMM_STRIDED_SLICE;
        }
        if (count > before) nroles++, least = r;
    }
    if (count > 1 && nroles == 1)
        text_printf(e->text, "%s               together %s; its uses need at least %s\n", indent, bytes_text(e, received),
                    bytes_text(e, e->index->role[least].facts->least[value].total));
}

/* Says where the passes of -O2 (partial.c, place.c) compute a value otherwise than by its strategy. */
static void explain_instead(const Explain *e, int value, const char *indent) {
    const Node *node = graph_producer(e->g, value);
    const TensorType *type = &e->g->values.at[value].type;
    int k = 0;
    if (node->strategy == NULL || op_table[node->op].op_class == OP_CLASS_UPDATE || node_is_leaf(node)) return;
    while (node->out[k] != value)
        k++;
    Layout own;
    strategy_out_layout(node, node->strategy, k, type->shape.ndim, &own);
    const Layout *made = e->b->spmd.graph.values.at[value].layout;
    if (graph_layout(&e->b->spmd.graph, &own, &type->shape) == made) return;
    text_printf(e->text, "%sinstead of   %s, which its strategy gives: fewer bytes are received so (-O2)\n", indent,
                layout_text(e, &own, type));
}

/* Says what becomes of a value once it is made. */
static void explain_use(const Explain *e, int value, const char *indent) {
    static const char *const has[NREDUCTIONS] = {[REDUCE_SUM] = ": every rank has a term of the sum",
                                                 [REDUCE_MAX] = ": every rank has the maximum of its part",
                                                 [REDUCE_MIN] = ": every rank has the minimum of its part"};
    const Graph *s = &e->b->spmd.graph;
    const TensorType *type = &e->g->values.at[value].type;
    const Layout *made = s->values.at[value].layout;
    Text direct = {0};
    int n = 0;
    for (int k = e->index->users.first[value]; k < e->index->users.first[value + 1]; k++) {
        const Node *node = &s->nodes.at[e->index->users.user[k]];
        if (node->op != OP_convert && ++n <= MAX_USERS) text_printf(&direct, "%s%s", n > 1 ? ", " : "", node_text(e, node));
    }
    if (value == s->loss && ++n <= MAX_USERS) text_printf(&direct, "%sthe report of the loss", n > 1 ? ", " : "");
    if (n > MAX_USERS) text_printf(&direct, " and %d more", n - MAX_USERS);
    text_printf(e->text, "%slayout       %s%s\n", indent, layout_text(e, made, type),
                layout_is_partial(made) ? has[reduction_of(made)] : "");
    explain_instead(e, value, indent);
    if (n > 0) text_printf(e->text, "%staken so by  %s\n", indent, direct.at);
    text_finish(&direct);
}

/* The fused step that computes a node, and whether what it makes has memory. */
static void explain_fused(const Explain *e, int id) {
    const Role *role = e->role->facts->role;
    const int at = e->role->step[id];
    int first = at, others = 0;
    if (at < 0 || role->steps.at[at].fused == 0) return;
    while (first > 0 && role->steps.at[first - 1].fused == role->steps.at[at].fused)
        first--;
    text_printf(e->text, "  fused        in one step with");
    for (int s = first; s < first + fused_length(role, first); s++) {
        const Step *step = &role->steps.at[s];
        if (s != at) text_printf(e->text, "%s %s", others++ > 0 ? "," : "", node_text(e, &e->g->nodes.at[step->node]));
    }
    const bool inner = role->instances.at[role->steps.at[at].out[0]].place == PLACE_INNER;
    text_printf(e->text, "%s\n", inner ? "; only they read it: it has no memory" : "");
}

/* The kernel's part of a step, and whether the value is there when the arena is fullest. */
static void explain_cost(const Explain *e, int value) {
    const Role *role = e->role->facts->role;
    const int node = e->g->values.at[value].node;
    const int step = e->role->step[node];
    const TimelineEvent *event = step >= 0 ? event_of(e, step) : NULL;
    if (event != NULL)
        text_printf(e->text, "  predicted    %.4g ms of a step of %.4g ms%s\n", 1e3 * (event->end_s - event->begin_s),
                    1e3 * e->role->timeline->step_s, event->nsteps > 1 ? ", together with what is fused with it" : "");
    if (e->role->is_held[value])
        text_printf(e->text, "  held         when the arena is fullest: step %d of %d, %s\n", e->role->held.step + 1, role->steps.n,
                    step_named(e->b->arena, e->role->facts, e->b->diags, e->role->held.step));
}

/* Of an operator for which a strategy is chosen. */
static void explain_others(const Explain *e, int id) {
    const Settings *settings = &e->g->settings;
    if (e->g->nodes.at[id].strategy != NULL && lookup_rank(e, id) >= 0) return; /* with any strategy the rank has all of the table */
    if (id >= e->g->nforward || node_is_leaf(&e->g->nodes.at[id]) || e->b->follows != NULL || e->g->nranks == 1) return;
    if (settings->mode == MODE_AUTO || settings->mode == MODE_SEMI_AUTO)
        others_print(e->text, e->b, chosen_of(e->b, id), e->nexplained, other_text, e);
}

/* ---------------------------------------------------------------- what is explained */

/* The first role that computes a node; where none does, the one whose ranks need the most memory. */
static const RoleIndex *role_of(const ExplainIndex *index, int node) {
    for (int r = 0; r < index->nroles; r++)
        if (index->role[r].step[node] >= 0) return &index->role[r];
    return &index->role[index->fullest];
}

static void explain_value(const Explain *of, int value) {
    Explain in = *of;
    const Explain *e = &in;
    const Value *v = &e->g->values.at[value];
    in.role = role_of(e->index, v->node);
    const Node *node = &e->g->nodes.at[v->node];
    text_printf(e->text, "%s: %s, made by %s%s\n", v->name, type_text(e, &v->type), op_table[node->op].name, at_text(e, node->span));
    explain_use(e, value, "  ");
    explain_node(e, v->node);
    explain_fused(e, v->node);
    explain_cost(e, value);
    explain_moves(e, value, "  ");
    explain_others(e, v->node);
}

static void explain_leaf(const Explain *e, OpCode leaf, int id) {
    const int user = e->index->taker[leaf == OP_input][id];
    if (user < 0) {
        text_printf(e->text, "  because      nothing takes it: it is whole\n");
        return;
    }
    text_printf(e->text, "  because      %s, which takes it first, takes it so\n", node_text(e, &e->g->nodes.at[user]));
    explain_node(e, user);
}

static void explain_reads(const Explain *e, OpCode leaf, int id) {
    each_in(&e->index->reads[leaf == OP_input], id, n) explain_moves(e, e->g->nodes.at[n].out[0], "  ");
}

static void explain_input(const Explain *e, int id) {
    const Input *input = &e->g->inputs.at[id];
    const Settings *settings = &e->g->settings;
    text_printf(e->text, "%s: input %s%s\n", input->name, type_text(e, &input->type), at_text(e, input->span));
    text_printf(e->text, "  delivered as %s\n", layout_text(e, input->layout, &input->type));
    if (input->type.hidden)
        text_printf(e->text, "  because      mode %s divides the replicas among the ranks\n", mode_name[settings->mode]);
    else if (settings->dataset == DATASET_EXPLICIT && settings->dataset_hint != NULL && id < settings->dataset_hint->nin &&
             input->hint == NULL)
        text_printf(e->text, "  because      of the dataset strategy%s\n", at_text(e, settings->dataset_hint->in[id].span));
    else if (input->hint != NULL)
        text_printf(e->text, "  because      of its hint%s\n", at_text(e, input->hint->span));
    else if (settings->dataset == DATASET_DATA_PARALLEL)
        text_printf(e->text, "  because      dataset = data_parallel: its rows are divided among the ranks\n");
    else if (settings->dataset == DATASET_FULL_BATCH)
        text_printf(e->text, "  because      dataset = full_batch: every rank has all of it\n");
    else
        explain_leaf(e, OP_input, id);
    explain_reads(e, OP_input, id);
}

static int64_t state_bytes(const State *state) {
    return layout_max_bytes(state->layout, &state->type);
}

static void explain_training(const Explain *e, int id) {
    const Graph *g = e->g;
    Text *text = e->text;
    const State *state = &g->states.at[id];
    const int update = e->index->update[id];
    text_printf(text, "  memory       on a rank: parameter %s (of %s)", bytes_text(e, state_bytes(state)),
                bytes_text(e, type_bytes(&state->type)));
    for (int s = 0; s < g->states.n; s++)
        if (s != id && g->states.at[s].parameter == id)
            text_printf(text, ", slot %s %s", g->states.at[s].name, bytes_text(e, state_bytes(&g->states.at[s])));
    if (update < 0) {
        text_printf(text, "\n  gradient     none: it is not trained\n");
        return;
    }
    const Node *node = &g->nodes.at[update];
    int gradient = update_gradient(g, node), next = node->out[0];
    const TensorType *type = &state->type;
    text_printf(text, ", gradient %s while it is used\n", bytes_text(e, e->b->spmd.box_bytes[gradient]));
    text_printf(text, "  gradient     %s, made as %s\n", g->values.at[gradient].name,
                layout_text(e, e->b->spmd.graph.values.at[gradient].layout, &g->values.at[gradient].type));
    explain_moves(e, gradient, "    ");
    const Layout *updated = e->b->spmd.graph.values.at[next].layout;
    text_printf(text, "  update       in %s%s\n", layout_text(e, updated, type),
                updated != e->b->spmd.graph.states.at[id].layout && !layout_equal(updated, state->layout)
                    ? ": each rank a part, then gathered"
                    : "");
    explain_moves(e, next, "    ");
}

static void explain_state(const Explain *e, int id) {
    const State *state = &e->g->states.at[id];
    text_printf(e->text, "%s: %s %s%s\n", state->name,
                state->trainable        ? "parameter"
                : state_is_const(state) ? "const"
                                        : "state",
                type_text(e, &state->type), at_text(e, state->span));
    text_printf(e->text, "  stored as    %s\n", layout_text(e, state->layout, &state->type));
    if (e->b->front.followed != NULL) { /* one state, two programs */
        text_printf(e->text, "  because      program train stores it so\n");
        explain_reads(e, OP_read, id);
        return;
    }
    if (state->hint != NULL)
        text_printf(e->text, "  because      of its hint%s\n", at_text(e, state->hint->span));
    else if (state->parameter != id)
        text_printf(e->text, "  because      it lies as the update of %s uses it\n", e->g->states.at[state->parameter].name);
    else
        explain_leaf(e, OP_read, id);
    explain_reads(e, OP_read, id);
    if (state->trainable) explain_training(e, id);
}

/* ---------------------------------------------------------------- names */

/* "w.grad": the gradient that the update of w takes; for another value the one named d_VALUE. -1: there is none. */
static int gradient_find(const Explain *e, const char *name) {
    const Graph *g = e->g;
    size_t n = strlen(name);
    if (n < 6 || strcmp(name + n - 5, ".grad") != 0) return -1;
    const char *of = arena_copy(e->b->arena, name, n - 5);
    const int state = index_state(e->index, g, of), update = state >= 0 ? e->index->update[state] : -1;
    if (update >= 0) return update_gradient(g, &g->nodes.at[update]);
    return index_value(e->index, g, arena_printf(e->b->arena, "d_%s", of));
}

static bool unknown(const Explain *e, const char *name, Error *error) {
    const Graph *g = e->g;
    VEC(const char *) names = {0};
    for (int i = 0; i < e->b->front.written.n; i++)
        if (strcmp(e->b->front.written.at[i], name) == 0)
            return error_set(error, EXIT_USAGE,
                             "--explain %.200s: it is not computed: the loss does not depend on it, or another value is equal to it", name);
    for (int s = 0; s < g->states.n; s++)
        vec_push(e->b->arena, &names, g->states.at[s].name);
    for (int i = 0; i < g->inputs.n; i++)
        vec_push(e->b->arena, &names, g->inputs.at[i].name);
    for (int v = 0; v < g->values.n; v++)
        vec_push(e->b->arena, &names, g->values.at[v].name);
    const char *nearest = name_nearest(name, names.at, names.n);
    if (nearest != NULL)
        return error_set(error, EXIT_USAGE, "--explain %.200s: the net has no such value; did you mean %.200s?", name, nearest);
    return error_set(error, EXIT_USAGE,
                     "--explain %.200s: the net has no such value, parameter or input; pcc --list-paths shows those it has", name);
}

static bool explain_program(Text *text, Build *b, const char *name, Error *error) {
    const ExplainIndex *index = explain_index(b);
    Explain e = {.text = text,
                 .b = b,
                 .g = &b->sharded.graph,
                 .index = index,
                 .role = &index->role[index->fullest],
                 .nexplained = b->options->nexplain};
    const int state = index_state(index, e.g, name), input = index_input(index, e.g, name);
    int value = index_value(index, e.g, name);
    if (value < 0) value = gradient_find(&e, name);
    if (state >= 0)
        explain_state(&e, state);
    else if (input >= 0)
        explain_input(&e, input);
    else if (value >= 0)
        explain_value(&e, value);
    else
        return unknown(&e, name, error);
    return true;
}

/* The graph's name of what a path means: of a cell's result that of its call. */
static const char *value_name(Build *b, const char *path) {
    const int number = index_path(explain_index(b), b, path);
    return number >= 0 ? b->front.paths.at[number].value : path;
}

bool explain(Text *text, Compilation *c, const char *name, Error *error) {
    name = value_name(program_train(c), name);
    if (c->programs.n == 1) return explain_program(text, program_train(c), name, error);
    bool found = false;
    for (int i = 0; i < c->programs.n; i++) {
        Text own = {0};
        Error other; /* where no program has it, the error is that of train */
        const bool has = explain_program(&own, c->programs.at[i], name, i == 0 ? error : &other);
        if (has) text_printf(text, "program %s\n%s", c->programs.at[i]->name, own.at);
        found = found || has;
        text_finish(&own);
    }
    return found;
}
