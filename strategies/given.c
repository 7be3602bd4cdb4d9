/* given: what the user and the dataset fix before anything is chosen: strategies of operators, layouts of states and inputs. */
#include <string.h>

#include "ir/wildcard.h"
#include "strategies/propagator.h"

/* Notes where the hint's operator is, if the hint stands elsewhere, and the calls around it. */
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
    if (!layout_from_hint(graph, &node->hint->out, node->hint->named, type, what, false, graph->settings.strict_divide, &layout, p->diags))
        return;
    p->result->out_layout[id] = graph_layout(graph, &layout, &type->shape);
    p->fixed_layout[node->out[0]] = cost_layout(p->memo, &layout, &type->shape);
}

bool read_hints(Propagator *p) {
    Graph *graph = p->graph;
    int before = p->diags->nerrors;
    for (int id = 0; id < p->nnodes; id++) {
        Node *node = &graph->nodes.at[id];
        if (!node->hint) continue;
        int reported = p->diags->items.n;
        Strategy *strategy = arena_alloc(graph->arena, sizeof *strategy);
        if (strategy_from_hint(graph, node, node->hint, graph->settings.strict_divide, strategy, p->diags)) {
            node->strategy = strategy;
            node->from = STRATEGY_USER;
            p->hint_of[id] = id;
        }
        if (node->hint->nout > 0 && !node_is_leaf(node)) read_output(p, id);
        if (p->diags->items.n > reported) note_place(p->diags, node);
    }
    return p->diags->nerrors == before;
}

/* ---- `hints found` */

/* What a line gives: a strategy or layout, a stage, or that an operator is recomputed. */
typedef enum { SAYS_STRATEGY, SAYS_STAGE, SAYS_RECOMPUTE } Says;

static Says found_says(const FoundHint *found) {
    return found->recompute ? SAYS_RECOMPUTE : found->stage ? SAYS_STAGE : SAYS_STRATEGY;
}

/* The last line of this kind whose pattern matches; -1: none. */
static int found_line(const Settings *settings, const char *name, Says says, bool *matched) {
    for (int i = settings->found.n - 1; i >= 0; i--) {
        const char *path = settings->found.at[i].path;
        if (found_says(&settings->found.at[i]) != says) continue;
        if ((path[0] != '*' && path[0] != name[0]) || !pattern_matches(path, name, NULL)) continue;
        for (int k = 0; k <= i; k++) { /* earlier lines may be meant for other operators too, or repeat this one */
            const FoundHint *before = &settings->found.at[k];
            const bool alike = strchr(before->path, '*') || found_says(before) == says;
            matched[k] = matched[k] || (alike && pattern_matches(before->path, name, NULL));
        }
        return i;
    }
    return -1;
}

static bool found_strategy(Propagator *p, Node *node, const FoundHint *found) {
    Strategy *strategy = arena_alloc(p->graph->arena, sizeof *strategy);
    const bool strict = p->graph->settings.strict_divide;
    if (!strategy_from_hint(p->graph, node, found->hint, strict, strategy, p->diags) ||
        (found->hint->nout > 0 && !strategy_from_result(p->graph, node, found->hint, strict, strategy, p->diags))) {
        diag_note(p->diags, node->span, "it is for %s, which is here", node->name);
        return false;
    }
    node->strategy = graph_strategy(p->graph, strategy);
    node->from = STRATEGY_PROPAGATED; /* not a user's request: equal operators stay one, and -O2 may compute otherwise */
    return true;
}

/* A state that is to lie on one rank is whole here (compiler/assign.c says where it lies). */
static bool state_from_hint(Propagator *p, const State *state, const Hint *hint, Layout *layout) {
    const Graph *graph = p->graph;
    layout_init(layout, state->type.shape.ndim);
    return hint->at > 0 || layout_from_hint(graph, &hint->in[0], hint->named, &state->type, state->name, false,
                                            graph->settings.strict_divide, layout, p->diags);
}

static bool found_layout(Propagator *p, const char *name, const TensorType *type, const FoundHint *found, const Layout **at) {
    Layout layout;
    if (!layout_from_hint(p->graph, &found->hint->in[0], found->hint->named, type, name, false, p->graph->settings.strict_divide, &layout,
                          p->diags))
        return false;
    *at = graph_layout(p->graph, &layout, &type->shape);
    return true;
}

static bool nothing_found(Propagator *p, const FoundHint *found) {
    const Graph *graph = p->graph;
    VEC(const char *) names = {0};
    for (int id = 0; id < p->nnodes; id++)
        if (!node_is_leaf(&graph->nodes.at[id])) vec_push(&p->arena, &names, graph->nodes.at[id].name);
    for (int s = 0; s < graph->states.n && !found->recompute; s++) /* only operators can be recomputed */
        vec_push(&p->arena, &names, graph->states.at[s].name);
    for (int i = 0; i < graph->inputs.n && !found->recompute; i++)
        vec_push(&p->arena, &names, graph->inputs.at[i].name);
    const char *nearest = name_nearest(found->path, names.at, names.n);
    diag_error(p->diags, found->span, "%s has the name %s",
               found->recompute ? "no operator, which could be computed again," : "nothing that strategies are chosen for", found->path);
    if (nearest)
        diag_hint(p->diags, "did you mean %s?", nearest);
    else
        diag_hint(p->diags, "the net has changed since: write the hints anew, pcc --write-hints");
    return false;
}

bool read_found(Propagator *p) {
    Graph *graph = p->graph;
    const Settings *settings = &graph->settings;
    if (settings->found.n == 0) return true;
    bool *matched = arena_alloc(&p->arena, (size_t)settings->found.n + 1), ok = true;
    const unsigned silenced = p->diags->silenced;
    p->diags->silenced |= 1u << WARN_UNEVEN; /* reported as for all operators without a hint */
    for (int id = 0; id < p->nnodes && ok; id++) {
        Node *node = &graph->nodes.at[id];
        if (node_is_leaf(node)) continue;
        const int line = found_line(settings, node->name, SAYS_STRATEGY, matched),
                  stage = found_line(settings, node->name, SAYS_STAGE, matched);
        if (stage >= 0 && !node->asked) node->asked = settings->found.at[stage].stage;
        if (found_line(settings, node->name, SAYS_RECOMPUTE, matched) >= 0) node->recompute = true;
        if (line >= 0 && !node->strategy) ok = found_strategy(p, node, &settings->found.at[line]);
    }
    for (int id = p->nnodes; id < graph->nodes.n; id++) /* the same for all batches of a step */
        if (graph->nodes.at[id].micro > 0 && graph->nodes.at[graph->nodes.at[id].origin].recompute) graph->nodes.at[id].recompute = true;
    for (int s = 0; s < graph->states.n && ok; s++) {
        State *state = &graph->states.at[s];
        const int line = found_line(settings, state->name, SAYS_STRATEGY, matched);
        if (line < 0 || state->layout) continue;
        Layout layout;
        ok = state_from_hint(p, state, settings->found.at[line].hint, &layout);
        if (!ok) continue;
        state->layout = graph_layout(graph, &layout, &state->type.shape);
        if (settings->found.at[line].hint->at > 0) state->hint = settings->found.at[line].hint;
    }
    for (int i = 0; i < graph->inputs.n && ok; i++) {
        Input *input = &graph->inputs.at[i];
        const int line = found_line(settings, input->name, SAYS_STRATEGY, matched);
        if (line >= 0 && !input->layout) ok = found_layout(p, input->name, &input->type, &settings->found.at[line], &input->layout);
    }
    for (int i = 0; i < settings->found.n && ok; i++)
        if (!matched[i]) ok = nothing_found(p, &settings->found.at[i]);
    p->diags->silenced = silenced;
    return ok;
}

/* ---- inputs and states */

/* Dimension 0 split over all ranks. */
static void rows_layout(const Graph *graph, const TensorType *type, Layout *layout) {
    layout_init(layout, type->shape.ndim);
    if (type->shape.ndim == 0) return;
    const Factor batch = {.size = type->shape.dim[0]};
    const int32_t split = split_largest(&batch, graph->nranks, graph->settings.strict_divide);
    layout_append(layout, 0, (Digit){.size = split, .stride = graph->nranks / split});
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
        rows_layout(graph, &in->type, layout);
        return true;
    }
    *given = settings->dataset == DATASET_FULL_BATCH;
    return true;
}

/* A strategy that is wrong for the parameter of one iteration, or call, is wrong in every one: only the first is reported. */
static void read_states(Propagator *p) {
    Graph *graph = p->graph;
    VEC(const State *) wrong = {0};
    for (int s = 0; s < graph->states.n; s++) {
        State *state = &graph->states.at[s];
        Layout layout;
        int before = p->diags->nerrors;
        if (graph->settings.mode == MODE_MANUAL && (state->trainable || state->written)) { /* each rank has its own */
            rows_layout(graph, &state->type, &layout);
            state->layout = graph_layout(graph, &layout, &state->type.shape);
            continue;
        }
        bool reported = !state->hint || mode_hides(graph->settings.mode);
        for (int i = 0; i < wrong.n && !reported; i++)
            reported = spans_equal(wrong.at[i]->hint->span, state->hint->span) && shape_equal(&wrong.at[i]->type.shape, &state->type.shape);
        if (reported) continue;
        if (state_from_hint(p, state, state->hint, &layout)) state->layout = graph_layout(graph, &layout, &state->type.shape);
        if (p->diags->nerrors == before) continue;
        diag_calls(p->diags, state->hint->call);
        vec_push(&p->arena, &wrong, state);
    }
}

bool read_leaves(Propagator *p) {
    Graph *graph = p->graph;
    int before = p->diags->nerrors;
    const Hint *dataset = graph->settings.dataset == DATASET_EXPLICIT ? graph->settings.dataset_hint : NULL;
    int ninputs = 0; /* without the inputs that lowering added after these */
    for (int i = 0; i < graph->inputs.n; i++)
        ninputs += graph->inputs.at[i].kind == INPUT_DATA && graph->inputs.at[i].micro == 0;
    if (dataset && dataset->nin != ninputs && graph->nranks > 1) {
        diag_error(p->diags, dataset->span, "the dataset strategy has %d tuple%s, the net has %d input%s", dataset->nin,
                   dataset->nin == 1 ? "" : "s", ninputs, ninputs == 1 ? "" : "s");
        diag_hint(p->diags, "one tuple an input, in the order of their declaration");
    }
    for (int i = 0; i < graph->inputs.n; i++) {
        Input *input = &graph->inputs.at[i];
        Layout layout;
        bool given = input_is_text(input->kind);
        if (given)
            layout_init(&layout, input->type.shape.ndim);
        else if (input_is_of_batch(input->kind) && input->micro == 0)
            given = input_layout(graph, i, &layout, &given, p->diags) && given;
        if (given) input->layout = graph_layout(graph, &layout, &input->type.shape);
    }
    read_states(p);
    if (p->diags->nerrors > before || !read_found(p)) return false;
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        const Layout *layout = node->op == OP_input  ? graph->inputs.at[node->state].layout
                               : node->op == OP_read ? graph->states.at[node->state].layout
                                                     : NULL;
        if (layout) p->fixed_layout[node->out[0]] = cost_layout(p->memo, layout, &value_type(p, node->out[0])->shape);
    }
    return p->diags->nerrors == before;
}
