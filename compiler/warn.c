/* warn: warnings about nets that compile (docs/explain.md): parameters that are not trained, hints without effect, splits that leave ranks idle,
 * work that several ranks repeat. Conflicting and uneven hints are reported where hints are read (strategies/), hints in a mode that ignores
 * them by the frontend.
 *
 * Before: assign, so every node has its strategy. After: nothing is changed. */
#include <stdlib.h>
#include <string.h>

#include "compiler/sharded.h"

enum { REPLICATED_PERCENT = 10, MAX_NAMED = 3, MAX_LISTED_CANDIDATES = 20000 };

static const char *op_name(const Node *node) {
    return op_table[node->op].name;
}

/* ---------------------------------------------------------------- parameters without gradient */

/* The first operator without a gradient on a path from the state to the loss; -1: there is no path at all. */
static int cut_at(const Graph *g, int state, bool *depends) {
    int cut = -1;
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        bool on = node->op == OP_read && node->state == state;
        for (int i = 0; i < node->nin; i++)
            on = on || depends[node->in[i]];
        for (int k = 0; k < node->nout; k++)
            depends[node->out[k]] = on;
        if (on && cut < 0 && node->op != OP_read && op_table[node->op].adjoint == NULL) cut = n;
    }
    return depends[g->loss] ? cut : -1;
}

static void warn_no_gradient(const Build *b) {
    const Graph *g = &b->sharded.graph;
    if (g->loss < 0 || g->settings.optimizer == OPTIMIZER_NONE) return;
    bool *written = arena_alloc(b->arena, (size_t)g->states.n + 1), *depends = NULL;
    for (int n = g->nforward; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_write) written[g->nodes.at[n].state] = true;
    for (int s = 0; s < g->states.n; s++) {
        const State *state = &g->states.at[s];
        if (!state->trainable || written[s]) continue;
        if (depends == NULL) depends = arena_alloc(b->arena, (size_t)g->values.n + 1);
        int cut = cut_at(g, s, depends);
        if (cut < 0)
            diag_warning(b->diags, WARN_NO_GRADIENT, state->span, "parameter %s gets no gradient: the loss does not depend on it",
                         state->name);
        else
            diag_warning(b->diags, WARN_NO_GRADIENT, state->span,
                         "parameter %s gets no gradient: %s, through which the loss depends on it, has none", state->name,
                         op_name(&g->nodes.at[cut]));
        if (cut >= 0) diag_note(b->diags, g->nodes.at[cut].span, "here");
        if (b->diags->nwarnings > 2 * DIAG_MAX_ERRORS) return; /* enough are counted: each is a walk over the net */
    }
}

/* ---------------------------------------------------------------- hints without effect */

void warn_note_hints(Build *b) {
    const Graph *g = &b->front.graph;
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].hint != NULL) vec_push(b->arena, &b->front.hints, (NotedHint){g->nodes.at[n].hint, g->nodes.at[n].name});
}

static bool is_read(const Graph *g, OpCode op, int state) {
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == op && g->nodes.at[n].state == state) return true;
    return false;
}

static int compare_hints(const void *a, const void *b) {
    const Hint *x = *(const Hint *const *)a, *y = *(const Hint *const *)b;
    return x < y ? -1 : x > y;
}

static void warn_no_effect(const Build *b) {
    const Graph *g = &b->sharded.graph;
    const Settings *settings = &g->settings;
    if (b->front.chosen.nranks == 1) return; /* nothing to split over: the same text is meant for more ranks too */
    const Hint **kept = arena_alloc(b->arena, sizeof *kept * (size_t)(g->nodes.n + 1));
    size_t nkept = 0;
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].hint != NULL) kept[nkept++] = g->nodes.at[n].hint;
    qsort(kept, nkept, sizeof *kept, compare_hints);
    for (int i = 0; i < b->front.hints.n; i++)
        if (bsearch(&b->front.hints.at[i].hint, kept, nkept, sizeof *kept, compare_hints) == NULL)
            diag_warning(b->diags, WARN_NO_EFFECT, b->front.hints.at[i].hint->span,
                         "this strategy has no effect: the loss does not depend on %s", b->front.hints.at[i].name);
    for (int s = 0; s < g->states.n; s++)
        if (g->states.at[s].hint != NULL && !is_read(g, OP_read, s))
            diag_warning(b->diags, WARN_NO_EFFECT, g->states.at[s].hint->span, "this layout has no effect: nothing uses %s",
                         g->states.at[s].name);
    for (int i = 0; i < g->inputs.n; i++) {
        const Input *input = &g->inputs.at[i];
        if (input->hint == NULL) continue;
        if (!is_read(g, OP_input, i))
            diag_warning(b->diags, WARN_NO_EFFECT, input->hint->span, "this layout has no effect: nothing uses %s", input->name);
        if (settings->dataset != DATASET_EXPLICIT || settings->dataset_hint == NULL || i >= settings->dataset_hint->nin) continue;
        diag_warning(b->diags, WARN_NO_EFFECT, settings->dataset_hint->in[i].span, "this dataset strategy has no effect: %s has its own",
                     input->name);
        diag_note(b->diags, input->hint->span, "here");
    }
}

/* ---------------------------------------------------------------- uneven splits, replicated work */

/* Warns of uneven splits in a layout that the user gave a state or an input. */
static void warn_uneven_layout(const Build *b, const Hint *hint, const Layout *layout, const TensorType *type, const char *name) {
    if (hint == NULL || layout == NULL || mode_hides(b->sharded.graph.settings.mode)) return;
    for (int d = 0; d < layout->ndim; d++)
        if (type->shape.dim[d] % layout_split(layout, d) != 0)
            uneven_warning(b->diags, hint->span, name, type->shape.dim[d], layout_split(layout, d));
}

/* Whether a search found the strategy of this node of b->front.chosen: sharing its work among more ranks then makes no step faster. */
static bool found_best(const Build *b, int chosen) {
    const Build *searched = b->follows != NULL ? b->follows : b;
    return (searched->front.search != NULL || searched->front.graph.settings.found.n > 0) &&
           b->front.chosen.nodes.at[chosen].from != STRATEGY_USER;
}

/* Warns of each pair of size and split once: a batch that is split unevenly is so in every operator. What a search or propagation chose is
 * not the user's doing. */
static void warn_uneven(const Build *b) {
    const Graph *g = &b->sharded.graph;
    VEC(int64_t) said = {0};
    for (int s = 0; s < g->states.n; s++)
        warn_uneven_layout(b, g->states.at[s].hint, g->states.at[s].layout, &g->states.at[s].type, g->states.at[s].name);
    for (int i = 0; i < g->inputs.n; i++)
        warn_uneven_layout(b, g->inputs.at[i].hint, g->inputs.at[i].layout, &g->inputs.at[i].type, g->inputs.at[i].name);
    for (int pass = 0; pass < 2; pass++) /* uneven hints have been reported already */
        for (int n = 0; n < b->front.chosen.nforward; n++) {
            const Node *node = &b->front.chosen.nodes.at[n];
            if (node_is_leaf(node) || (node->from == STRATEGY_USER) != (pass == 0)) continue;
            if (node->from == STRATEGY_PROPAGATED || found_best(b, n)) continue;
            for (int f = 0; f < node->rule->nfactors; f++) {
                int64_t size = node->rule->factor[f].size, split = strategy_split(node->strategy, f);
                bool known = size % split == 0;
                for (int i = 0; i < said.n && !known; i += 2)
                    known = said.at[i] == size && said.at[i + 1] == split;
                if (known) continue;
                vec_push(b->arena, &said, size);
                vec_push(b->arena, &said, split);
                if (pass > 0) uneven_warning(b->diags, node->span, op_name(node), size, split);
            }
        }
}

/* How many ranks share the work of a node, each doing a different part of it. */
static int64_t ranks_sharing(const Node *node) {
    int64_t sharing = 1;
    for (int f = 0; f < node->rule->nfactors; f++)
        sharing *= strategy_split(node->strategy, f);
    return sharing;
}

/* Prints a strategy with which more ranks share the node's work: a split of its batch, or one without a partial sum, or any. False: none. */
static bool better_strategy(const Build *b, const Node *node, Text *text) {
    const Graph *g = &b->front.chosen;
    Node copy = *node;
    Strategy batch;
    strategy_batch(g, node, &batch);
    copy.strategy = &batch;
    int64_t now = ranks_sharing(node);
    if (ranks_sharing(&copy) == g->nranks) return strategy_print(text, node, g, &batch);
    if (candidates_count(node, g->nranks) > MAX_LISTED_CANDIDATES) return false;
    Candidates all = candidates(node, g->nranks, b->arena);
    const Strategy *best = NULL;
    for (int i = 0; i < all.n && best == NULL; i++) {
        bool sums = false;
        copy.strategy = &all.at[i];
        for (int f = 0; f < node->rule->nfactors; f++)
            sums = sums || (rule_sums(node->rule, f) && strategy_count(&all.at[i], f) > 0);
        if (!sums) best = &all.at[i];
    }
    if (best == NULL && all.n > 0) best = &all.at[0];
    copy.strategy = best;
    return best != NULL && ranks_sharing(&copy) > now && strategy_print(text, node, g, best);
}

/* Warns of work that ranks repeat. Updates are left out: they have the layouts of their parameters, and are split as far as that pays
 * (assign.c). */
static void warn_replicated(const Build *b) {
    const Graph *g = &b->sharded.graph;
    const int nranks = b->front.chosen.nranks;                  /* of a stage */
    if (nranks == 1 || g->settings.mode == MODE_MANUAL) return; /* each rank does what the net says */
    double *repeated = arena_alloc(b->arena, sizeof *repeated * (size_t)(g->nodes.n + 1)), total = 0,
           sum = 0; /* per forward node of b->front.chosen */
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (op_table[node->op].flops == 0) continue;
        double flops = rule_flops(node->op, node->rule);
        total += flops;
        if (op_table[node->op].op_class == OP_CLASS_UPDATE || found_best(b, chosen_of(b, node->origin))) continue;
        if (pin_is_rank(g, &node->strategy->pin)) continue; /* one rank does it */
        double again = flops * (1 - (double)ranks_sharing(node) / nranks);
        repeated[chosen_of(b, node->origin)] += again;
        sum += again;
    }
    if (sum <= total * REPLICATED_PERCENT / 100) return;
    int named[MAX_NAMED], n = 0;
    for (int id = 0; id < g->nodes.n; id++) {
        int at = n;
        while (at > 0 && repeated[id] > repeated[named[at - 1]])
            at--;
        if (repeated[id] == 0 || repeated[id] < total / 200 || at == MAX_NAMED) continue; /* rounded to 0 % */
        if (n < MAX_NAMED) n++;
        memmove(named + at + 1, named + at, sizeof *named * (size_t)(n - 1 - at));
        named[at] = id;
    }
    for (int i = 0; i < n; i++) {
        const Node *node = &b->front.chosen.nodes.at[named[i]];
        double percent = 100 * repeated[named[i]] / total;
        if (i == 0)
            diag_warning(b->diags, WARN_REPLICATED, node->span,
                         "%.0f %% of the step's FLOPs are done by several ranks alike; most by %s %s and its gradient: %.0f %%",
                         100 * sum / total, op_name(node), node->name, percent);
        else if (node->op == OP_read)
            diag_note(b->diags, node->span, "the sum of the gradients of %s: %.0f %%", node->name, percent);
        else
            diag_note(b->diags, node->span, "%s %s: %.0f %%", op_name(node), node->name, percent);
        if (op_table[node->op].op_class != OP_CLASS_USER) continue; /* no one can shard it */
        Text text = {0};
        if ((g->settings.mode == MODE_AUTO || g->settings.mode == MODE_SEMI_AUTO) && node->origin == named[i] &&
            better_strategy(b, node, &text))
            diag_hint(b->diags, "it is split over %lld of %d ranks; shard %s would split it further", (long long)ranks_sharing(node),
                      nranks, text.at);
        text_finish(&text);
    }
}

bool pass_warn(Build *b) {
    warn_no_gradient(b);
    warn_no_effect(b);
    warn_uneven(b);
    warn_replicated(b);
    return true;
}
