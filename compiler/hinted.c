/* hinted: a warning where the strategies that the user wrote make a step take much longer than it would with none, or send much more in no less time (strategies/costly.c: than the batch split
 * does, which is known before anything is compiled).
 *
 * What a step takes without them is what is compiled of what propagation finds, where that is the search; otherwise of what another one finds axis by axis: that bounds
 * nothing, and the search may be faster still. Where a plan without them would not fit, nothing is said. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/name.h"
#include "compiler/search.h"

enum { MAX_TRIED = 8, MAX_TRIED_NODES = 30000 };
#define COSTLY 1.5
#define WORTH_SAYING_S 2e-4 /* less is latencies, which the machine's figures say roughly */
static const int64_t WORTH_SAYING_BYTES = 1 << 20;

bool propagate_again(Graph *copy, Propagation *propagation) {
    Diags diags;
    diags_init(&diags, copy->arena);
    diags.silenced = ~0u;
    *propagation = (Propagation){0};
    for (int n = 0; n < copy->nforward; n++) {
        copy->nodes.at[n].strategy = NULL;
        copy->nodes.at[n].from = STRATEGY_NONE;
    }
    return propagate(copy, propagation, &diags);
}

bool hinted_asks(const Build *b) {
    const Graph *g = &b->front.graph;
    if (b->diags->silenced & 1u << WARN_COSTLY || b->follows != NULL || b->front.propagation.costly || g->nranks == 1) return false;
    if (g->settings.mode != MODE_AUTO || g->settings.found.n > 0 || g->nodes.n > MAX_TRIED_NODES) return false;
    for (int n = 0; n < g->nforward; n++)
        if (g->nodes.at[n].hint != NULL && g->nodes.at[n].from == STRATEGY_USER) return true;
    return false;
}

static bool stands_at(const Node *node, const Hint *hint) {
    return node->hint != NULL && node->hint->span.file == hint->span.file && node->hint->span.line == hint->span.line &&
           node->hint->span.column == hint->span.column;
}

static bool propagate_and_compile(Build *t, BuildCost *cost) {
    Error ignored;
    if (!propagate_again(&t->front.graph, &t->front.propagation)) return false;
    t->front.chosen = t->front.graph;
    return build_try(t, NULL, NULL, cost, &ignored);
}

/* What a step costs without a hint, wherever that pattern is met (NULL: without any). */
static bool cost_without(const Build *before, const Hint *hint, BuildCost *cost) {
    Arena arena;
    Build t = *before;
    arena_init(&arena);
    t.arena = &arena;
    graph_fork(&t.front.graph, &before->front.graph, &arena);
    const size_t n = (size_t)t.front.graph.nodes.n + 1;
    t.front.propagation.out_layout = arena_alloc(&arena, n * sizeof *t.front.propagation.out_layout);
    memcpy(t.front.propagation.out_layout, before->front.propagation.out_layout, (n - 1) * sizeof *t.front.propagation.out_layout);
    for (int id = 0; id < t.front.graph.nforward; id++) {
        Node *node = &t.front.graph.nodes.at[id];
        if (node->from != STRATEGY_USER || node->hint == NULL || (hint != NULL && !stands_at(node, hint))) continue;
        node->from = STRATEGY_NONE;
        node->hint = NULL;
        t.front.propagation.out_layout[id] = NULL;
    }
    const bool found = searches(&t) ? search_axis_by_axis(&t, cost) : propagate_and_compile(&t, cost);
    arena_finish(&arena);
    return found;
}

/* What is compared: of two plans with as much of it none is better. */
typedef enum { LONGER, MORE } Costlier;

static double amount(const BuildCost *cost, Costlier what) {
    return what == LONGER ? cost->step_s : (double)cost->sent_bytes;
}

static const char *amount_text(const Build *b, const BuildCost *cost, Costlier what) {
    return what == LONGER ? arena_printf(b->arena, "%.3g ms", 1e3 * cost->step_s) : bytes_named(b->arena, cost->sent_bytes);
}

/* Of the first few hints the operator of the one without which a step costs the least, that one alone left out. *ntried: how many. */
static const Node *costliest(const Build *before, Costlier what, BuildCost *without, int *ntried) {
    const Graph *g = &before->front.graph;
    const Node *tried[MAX_TRIED], *found = NULL;
    const int most = MAX_TRIED_NODES / g->nodes.n < MAX_TRIED ? MAX_TRIED_NODES / g->nodes.n : MAX_TRIED;
    *ntried = 0;
    for (int n = 0; n < g->nforward && *ntried < most; n++) {
        const Node *node = &g->nodes.at[n];
        BuildCost cost;
        bool known = node->from != STRATEGY_USER || node->hint == NULL;
        for (int i = 0; i < *ntried && !known; i++)
            known = stands_at(tried[i], node->hint);
        if (known) continue;
        tried[(*ntried)++] = node;
        if (!cost_without(before, node->hint, &cost) || (found != NULL && amount(&cost, what) >= amount(without, what))) continue;
        found = node;
        *without = cost;
    }
    return found;
}

void warn_hinted(const Build *before, const BuildCost *with) {
    const int64_t limit = budget_limit(before);
    BuildCost none, without = {0};
    int nhints;
    if (with->step_s < WORTH_SAYING_S && with->sent_bytes < WORTH_SAYING_BYTES) return;
    if (!cost_without(before, NULL, &none) || none.broken > with->broken) return;
    const bool longer = with->step_s > COSTLY * none.step_s && with->step_s >= none.step_s + WORTH_SAYING_S,
               more = (double)with->sent_bytes > COSTLY * (double)none.sent_bytes &&
                      with->sent_bytes >= none.sent_bytes + WORTH_SAYING_BYTES && none.step_s <= with->step_s;
    if (!longer && !more) return;
    const Costlier what = longer ? LONGER : MORE;
    if (limit > 0 && memory_bytes(&none) > limit && memory_bytes(&none) > memory_bytes(with)) return;
    const Node *node = costliest(before, what, &without, &nhints);
    if (node == NULL) return;
    Text text = {0};
    text_printf(&text, "with the strateg%s%s %s %s, without %s %s%s", nhints == 1 ? "y of " : "ies", nhints == 1 ? node->name : "",
                longer ? "a step is predicted to take" : "a rank sends", amount_text(before, with, what),
                nhints == 1 ? "it" : "any of them", amount_text(before, &none, what),
                longer ? " or less" : ", and a step is predicted to take no longer");
    if (nhints > 1) text_printf(&text, "; that of %s costs most: without it %s", node->name, amount_text(before, &without, what));
    diag_warning(before->diags, WARN_COSTLY, node->hint->span, "%s", text.at);
    diag_hint(before->diags, "--explain %s shows what follows from it; -Wno-costly where it is there for memory", node->name);
    text_finish(&text);
}
