/* hinted: a warning where the user's hints (strategies of operators, layouts of states and inputs) make a step take much longer than it would without hints, or send much
 * more in no less time. (strategies/costly.c warns where strategies move more than the batch split does, which is known before anything is compiled.)
 *
 * For the step without hints, the strategies are compiled that propagation finds, where it is the search; otherwise those that a search axis by axis finds or, for nets that are not large, those that auto begins with. That is no
 * bound: the search may find faster ones still. Where a plan without hints would not fit, nothing is said. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/name.h"
#include "compiler/search.h"

enum { MAX_TRIED = 8, MAX_TRIED_NODES = 30000 };
#define COSTLY 1.5
#define WORTH_SAYING_S 2e-4 /* less is latencies, which the machine's figures give only roughly */
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

/* ---- hints: of operators, and layouts of states and inputs that the user gave */

static const Hint *node_hint(const Node *node) {
    return node->from == STRATEGY_USER ? node->hint : NULL;
}
static const Hint *input_hint(const Input *input) {
    return input->type.hidden ? NULL : input->hint;
}

static bool same_place(const Hint *a, const Hint *b) {
    return a->span.file == b->span.file && a->span.line == b->span.line && a->span.column == b->span.column;
}

/* A hint, as it is written at one place. */
typedef struct Written {
    const Hint *hint;
    const char *name; /* of the first thing that it is for */
    bool strategy;    /* it is for an operator */
} Written;
typedef VEC(Written) WrittenHints;

/* Adds each place once, however much its pattern names. */
static void add_written(WrittenHints *written, Arena *arena, const Hint *hint, const char *name, bool strategy) {
    bool known = hint == NULL;
    for (int i = 0; i < written->n && !known; i++)
        known = same_place(written->at[i].hint, hint);
    if (!known) vec_push(arena, written, ((Written){.hint = hint, .name = name, .strategy = strategy}));
}

/* Finds at most so many. */
static void find_written(WrittenHints *written, const Graph *g, int most, Arena *arena) {
    for (int n = 0; n < g->nforward && written->n < most; n++)
        add_written(written, arena, node_hint(&g->nodes.at[n]), g->nodes.at[n].name, true);
    for (int s = 0; s < g->states.n && written->n < most; s++)
        add_written(written, arena, g->states.at[s].hint, g->states.at[s].name, false);
    for (int i = 0; i < g->inputs.n && written->n < most; i++)
        add_written(written, arena, input_hint(&g->inputs.at[i]), g->inputs.at[i].name, false);
}

bool hinted_asks(const Build *b) {
    const Graph *g = &b->front.graph;
    WrittenHints written = {0};
    if (b->diags->silenced & 1u << WARN_COSTLY || b->follows != NULL || b->front.propagation.costly || g->nranks == 1) return false;
    if (g->settings.mode != MODE_AUTO || g->settings.found.n > 0 || g->nodes.n > MAX_TRIED_NODES) return false;
    find_written(&written, g, 1, b->arena);
    return written.n > 0;
}

static bool is_without(const Hint *hint, const Hint *without) {
    return hint != NULL && (without == NULL || same_place(hint, without));
}

/* Removes a hint wherever its pattern matches (NULL: all hints). Says nothing. */
static void leave_out(Build *t, const Hint *without) {
    Graph *g = &t->front.graph;
    Diags diags;
    diags_init(&diags, t->arena);
    diags.silenced = ~0u;
    for (int n = 0; n < g->nforward; n++) {
        Node *node = &g->nodes.at[n];
        if (!is_without(node_hint(node), without)) continue;
        node->from = STRATEGY_NONE;
        node->hint = NULL;
        t->front.propagation.out_layout[n] = NULL;
    }
    for (int s = 0; s < g->states.n; s++) {
        State *state = &g->states.at[s];
        if (is_without(state->hint, without)) state->hint = NULL, state->layout = NULL;
    }
    for (int i = 0; i < g->inputs.n; i++) {
        Input *input = &g->inputs.at[i];
        Layout layout;
        bool given;
        if (!is_without(input_hint(input), without)) continue;
        input->hint = NULL; /* so it lies as the dataset says */
        input->layout = input_layout(g, i, &layout, &given, &diags) && given ? graph_layout(g, &layout, &input->type.shape) : NULL;
    }
}

/* ---- what they cost */

static bool propagate_and_compile(Build *t, BuildCost *cost) {
    Error ignored;
    if (!propagate_again(&t->front.graph, &t->front.propagation)) return false;
    t->front.chosen = t->front.graph;
    return build_try(t, NULL, NULL, cost, &ignored);
}

/* What a step costs without a hint wherever its pattern matches (NULL: without all hints); several: the best of several searches, where the net asks for that. */
static bool cost_without(const Build *before, const Hint *hint, bool several, BuildCost *cost) {
    Arena arena;
    Build t = *before;
    arena_init(&arena);
    t.arena = &arena;
    graph_fork(&t.front.graph, &before->front.graph, &arena);
    const size_t n = (size_t)t.front.graph.nodes.n + 1;
    t.front.propagation.out_layout = arena_alloc(&arena, n * sizeof *t.front.propagation.out_layout);
    memcpy(t.front.propagation.out_layout, before->front.propagation.out_layout, (n - 1) * sizeof *t.front.propagation.out_layout);
    leave_out(&t, hint);
    const bool found = searches(&t) ? search_quickly(&t, several, cost) : propagate_and_compile(&t, cost);
    arena_finish(&arena);
    return found;
}

/* What is compared: two plans with equal amounts of it are equally good. */
typedef enum { LONGER, MORE } Costlier;

static double amount(const BuildCost *cost, Costlier what) {
    return what == LONGER ? cost->step_s : (double)cost->sent_bytes;
}

static const char *amount_text(const Build *b, const BuildCost *cost, Costlier what) {
    return what == LONGER ? arena_printf(b->arena, "%.3g ms", 1e3 * cost->step_s) : bytes_named(b->arena, cost->sent_bytes);
}

/* Of the first few hints, each left out alone, the one without which a step costs least. tried: all of them. */
static const Written *costliest(const Build *before, Costlier what, BuildCost *without, WrittenHints *tried) {
    const Graph *g = &before->front.graph;
    const Written *found = NULL;
    find_written(tried, g, MAX_TRIED_NODES / g->nodes.n < MAX_TRIED ? MAX_TRIED_NODES / g->nodes.n : MAX_TRIED, before->arena);
    for (int i = 0; i < tried->n; i++) {
        BuildCost cost;
        if (!cost_without(before, tried->at[i].hint, false, &cost) || (found != NULL && amount(&cost, what) >= amount(without, what)))
            continue;
        found = &tried->at[i];
        *without = cost;
    }
    return found;
}

/* "strategies", "layouts", or both. */
static const char *kinds_of(const WrittenHints *written) {
    bool strategies = false, layouts = false;
    for (int i = 0; i < written->n; i++)
        written->at[i].strategy ? (strategies = true) : (layouts = true);
    return !layouts ? "strategies" : !strategies ? "layouts" : "strategies and layouts";
}

/* Whether a plan is much costlier than one without hints, and in what. */
static bool is_costly(const BuildCost *with, const BuildCost *none, Costlier *what) {
    const bool longer = with->step_s > COSTLY * none->step_s && with->step_s >= none->step_s + WORTH_SAYING_S,
               more = (double)with->sent_bytes > COSTLY * (double)none->sent_bytes &&
                      with->sent_bytes >= none->sent_bytes + WORTH_SAYING_BYTES && none->step_s <= with->step_s;
    *what = longer ? LONGER : MORE;
    return longer || more;
}

/* Compares with what a quick search finds; if the hints are not costly by that and the net not large, with what several find. */
static bool compare_without(const Build *before, const BuildCost *with, BuildCost *none, Costlier *what) {
    const Graph *g = &before->front.graph;
    if (cost_without(before, NULL, false, none) && is_costly(with, none, what)) return true;
    const bool several = strcmp(g->settings.search, "auto") == 0 && g->nodes.n <= MAX_TRIED_NODES / MAX_TRIED;
    return several && cost_without(before, NULL, true, none) && is_costly(with, none, what);
}

void warn_hinted(const Build *before, const BuildCost *with) {
    const int64_t limit = budget_limit(before);
    BuildCost none, without = {0};
    WrittenHints written = {0};
    Costlier what;
    if (with->step_s < WORTH_SAYING_S && with->sent_bytes < WORTH_SAYING_BYTES) return;
    if (!compare_without(before, with, &none, &what) || none.broken > with->broken) return;
    const bool longer = what == LONGER;
    if (limit > 0 && memory_bytes(&none) > limit && memory_bytes(&none) > memory_bytes(with)) return;
    const Written *worst = costliest(before, what, &without, &written);
    if (worst == NULL) return;
    const bool one = written.n == 1;
    const char *of =
        one ? arena_printf(before->arena, "%s of %s", worst->strategy ? "strategy" : "layout", worst->name) : kinds_of(&written);
    Text text = {0};
    text_printf(&text, "with the %s %s %s, without %s %s%s", of, longer ? "a step is predicted to take" : "a rank sends",
                amount_text(before, with, what), one ? "it" : "any of them", amount_text(before, &none, what),
                longer ? " or less" : ", and a step is predicted to take no longer");
    if (!one && amount(&without, what) < amount(with, what))
        text_printf(&text, "; that of %s costs most: without it %s", worst->name, amount_text(before, &without, what));
    diag_warning(before->diags, WARN_COSTLY, worst->hint->span, "%s", text.at);
    diag_hint(before->diags, "--explain %s shows what follows from it; -Wno-costly where it is there for memory", worst->name);
    text_finish(&text);
}
