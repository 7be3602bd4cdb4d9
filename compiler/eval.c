/* eval: the program that evaluates what was trained, compiled beside the program train.
 *
 * Before: train's graph has its strategies and layouts (assign). After: c->eval has gone through the passes of the table up to emit, on a graph of its
 * own over the same states, which lie as train left them. An operator that train has too gets the strategy that it has there, as far as that fits the
 * other batch; the others follow from these. So hints speak of both programs, and what fits only one of the two is not an error: a split that the
 * batch of the eval is too short for is left out, and search or the batch split fills it in.
 *
 * Warnings are of train alone: what there is to say of a strategy was said there. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compiler.h"

static int find_state(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->states.n; i++)
        if (strcmp(graph->states.at[i].name, name) == 0) return i;
    return -1;
}

bool eval_states(Compilation *c, Graph *graph) {
    static const char hint[] = "the numbers of the eval block say how a batch is evaluated; its parameters are those of training";
    int *number = arena_alloc(c->arena, ((size_t)graph->states.n + 1) * sizeof *number);
    bool ok = true;
    for (int i = 0; i < graph->states.n; i++) {
        const State *own = &graph->states.at[i];
        number[i] = i < c->graph.states.n && strcmp(c->graph.states.at[i].name, own->name) == 0 ? i : find_state(&c->graph, own->name);
        if (number[i] >= 0 && type_equal(&c->graph.states.at[number[i]].type, &own->type)) continue;
        Text text = {0};
        type_print(&text, &own->type);
        if (number[i] >= 0) {
            text_printf(&text, " in the eval, and in training ");
            type_print(&text, &c->graph.states.at[number[i]].type);
            diag_error(c->diags, own->span, "%s is %s", own->name, text.at);
        } else {
            diag_error(c->diags, own->span, "%s, %s, is a parameter of the eval, and training has none of that name", own->name, text.at);
        }
        diag_hint(c->diags, "%s", hint);
        text_finish(&text);
        ok = false;
    }
    for (int n = 0; ok && n < graph->nodes.n; n++)
        if (graph->nodes.at[n].op == OP_read) graph->nodes.at[n].state = number[graph->nodes.at[n].state];
    graph->states.n = 0;
    graph->states.cap = 0;
    for (int i = 0; ok && i < c->graph.states.n; i++)
        vec_push(graph->arena, &graph->states, c->graph.states.at[i]);
    return ok;
}

Compilation *eval_create(const Compilation *c, Graph *graph) {
    Compilation *e = arena_alloc(c->arena, sizeof *e);
    Options *options = arena_alloc(c->arena, sizeof *options);
    Diags *diags = arena_alloc(c->arena, sizeof *diags);
    *options = *c->options;
    options->dump_directory = arena_printf(c->arena, "%s/eval", c->options->dump_directory ? c->options->dump_directory : "");
    diags_init(diags, c->arena);
    for (int f = 0; f < c->diags->files.n; f++)
        vec_push(c->arena, &diags->files, c->diags->files.at[f]);
    *e = (Compilation){.arena = c->arena, .options = options, .diags = diags, .source = c->source, .source_bytes = c->source_bytes, .graph = *graph};
    e->graph.settings.optimizer = OPTIMIZER_NONE;
    e->graph.settings.accumulate = 0;
    e->net_hash = graph_hash(&e->graph);
    return e;
}

/* Train's forward nodes by name. */
static int by_name(const void *a, const void *b) {
    return strcmp((*(const Node *const *)a)->name, (*(const Node *const *)b)->name);
}

static const Node *find_node(const Node *const *sorted, int n, const char *name) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(sorted[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && strcmp(sorted[low]->name, name) == 0 ? sorted[low] : NULL;
}

static bool split_fits(const Factor *factor, const Factor *theirs, int64_t split, bool strict) {
    if (split == 1) return true;
    bool even = theirs->size % split == 0 || strict || factor->divides; /* what train divides evenly stays even */
    return !factor->whole && split <= factor->size && (!even || factor->size % split == 0);
}

/* The strategy of train's node on this one; factors that it does not fit are left out together, for half a strategy is another. */
static bool follow(Graph *g, Node *node, const Node *theirs) {
    if (theirs == NULL || theirs->op != node->op || theirs->strategy == NULL || theirs->rule->nfactors != node->rule->nfactors) return false;
    for (int f = 0; f < node->rule->nfactors; f++)
        if (!split_fits(&node->rule->factor[f], &theirs->rule->factor[f], strategy_split(theirs->strategy, f), g->settings.strict_divide)) return false;
    Strategy *strategy = arena_alloc(g->arena, sizeof *strategy);
    *strategy = *theirs->strategy;
    node->strategy = strategy;
    node->from = theirs->from;
    return true;
}

static void follow_train(const Compilation *c, Graph *g, bool *followed) {
    const Graph *train = &c->graph, *chosen = &c->chosen;
    int n = 0;
    const Node **sorted = arena_alloc(g->arena, sizeof *sorted * (size_t)(chosen->nforward + 1));
    for (int id = 0; id < chosen->nforward; id++)
        if (op_table[chosen->nodes.at[id].op].op_class != OP_CLASS_LEAF) sorted[n++] = &chosen->nodes.at[id];
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int id = 0; id < g->nodes.n; id++) {
        Node *node = &g->nodes.at[id];
        node->hint = NULL;
        if (!node_is_leaf(node)) followed[id] = follow(g, node, find_node(sorted, n, node->name));
    }
    for (int i = 0; i < g->inputs.n; i++)
        g->inputs.at[i].hint = NULL;
    if (g->settings.dataset == DATASET_EXPLICIT) g->settings.dataset = DATASET_AUTO;
    assert(g->states.n <= train->states.n); /* train's, and its optimizer's behind them */
    g->states.n = 0;
    g->states.cap = 0;
    for (int s = 0; s < train->states.n; s++) {
        State state = train->states.at[s];
        state.hint = NULL;
        state.layout = graph_layout(g, state.layout, &state.type.shape);
        vec_push(g->arena, &g->states, state);
    }
}

bool eval_prepare(Compilation *e, const Compilation *c) {
    e->followed = arena_alloc(e->arena, (size_t)(e->graph.nodes.n + 1) * sizeof *e->followed);
    follow_train(c, &e->graph, e->followed);
    return true;
}

bool eval_failed(Compilation *c) {
    const Compilation *e = c->eval;
    const char *why = e->error.text[0] != '\0' ? e->error.text : e->diags->items.n > 0 ? e->diags->items.at[0].text : "no reason";
    return error_set(&c->error, e->error.code ? e->error.code : EXIT_INTERNAL, "program eval: %s", why);
}
