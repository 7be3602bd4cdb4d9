/* others: what a step would cost with each other strategy of one operator (--explain). Each one is compiled (oracle.h), with all other operators as they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/explain.h"
#include "compiler/name.h"
#include "compiler/oracle.h"

/* Of a net of so many nodes one strategy is compiled, of smaller nets more: that takes seconds in all. If more than FEW operators are asked
 * about, they share what FEW would have. */
enum { COMPILED_NODES = 200000, FEW = 8, MAX_SHOWN = 8 };

typedef struct Other {
    const Strategy *strategy;
    BuildCost cost;
    bool present;
} Other;
typedef VEC(Other) Others;

/* Adds strategies with these splits, which leave the order of digits open: that of the factors and the opposite one stand for all. */
static void add_orders(Graph *g, const Node *node, const Strategy *in_order, Others *others) {
    const int n = in_order->nfactors;
    int32_t splits[MAX_FACTORS] = {0}, used = 1;
    Digit digits[MAX_FACTORS];
    Strategy opposite = {.nfactors = n};
    for (int f = 0; f < n; f++)
        used *= splits[n - 1 - f] = (int32_t)strategy_split(in_order, f);
    mesh_digits(splits, n, g->nranks / used, digits);
    for (int f = 0; f < n; f++)
        if (splits[n - 1 - f] > 1) strategy_append(&opposite, f, digits[n - 1 - f]);
    const Strategy *both[] = {graph_strategy(g, in_order), graph_strategy(g, &opposite)};
    for (int k = 0; k < 2; k++)
        if (both[k] != node->strategy && (k == 0 || both[1] != both[0])) vec_push(g->arena, others, ((Other){.strategy = both[k]}));
}

static int by_cost(const void *a, const void *b) {
    const Other *x = a, *y = b;
    if (x->cost.step_s != y->cost.step_s) return x->cost.step_s < y->cost.step_s ? -1 : 1;
    if (x->cost.sent_bytes != y->cost.sent_bytes) return x->cost.sent_bytes < y->cost.sent_bytes ? -1 : 1;
    return y->present - x->present;
}

/* Compiles each, with the measures that front.chosen has; those that cannot be compiled are left out. */
static void compile_others(Build *b, int id, Others *others, Error *error) {
    const Graph *g = &b->front.chosen;
    const Strategy **strategy = arena_alloc(b->arena, sizeof *strategy * (size_t)(g->nforward + 1));
    int n = 0;
    for (int k = 0; k < others->n; k++) {
        Other other = others->at[k];
        strategy[id] = other.strategy;
        if (build_try(b, strategy, NULL, &other.cost, k == 0 ? error : &(Error){0})) others->at[n++] = other;
    }
    others->n = n;
}

static const char *more_bytes(const Build *b, int64_t now, int64_t then) {
    if (then == now) return "as much";
    return arena_printf(b->arena, "%s %s", bytes_named(b->arena, then > now ? then - now : now - then), then > now ? "more" : "less");
}

void others_print(Text *text, Build *b, int id, int nexplained, StrategyText name, const void *context) {
    Graph *g = &b->front.chosen;
    const Node *node = &g->nodes.at[id];
    Others others = {0};
    const Candidates all = candidates(node, g->nranks, b->arena);
    vec_push(b->arena, &others, ((Other){.strategy = node->strategy, .present = true}));
    for (int k = 0; k < all.n; k++)
        add_orders(g, node, &all.at[k], &others);
    const int nodes = nexplained > FEW ? COMPILED_NODES / nexplained * FEW : COMPILED_NODES;
    const int known = others.n, most = nodes / (g->nodes.n + 1) + 1;
    if (nexplained > FEW && most < 2) {
        text_printf(text,
                    "  others       none of %d strategies is compiled, as %d names are asked about: --explain of this one alone does\n",
                    known, nexplained);
        return;
    }
    if (others.n > most) others.n = most;
    const int tried = others.n;
    Error error = {0};
    compile_others(b, id, &others, &error);
    if (others.n == 0 || !others.at[0].present) {
        text_printf(text, "  others       none: the plan itself cannot be compiled with all else as it is: %s\n", error.text);
        return;
    }
    const BuildCost now = others.at[0].cost;
    qsort(others.at, (size_t)others.n, sizeof *others.at, by_cost);
    text_printf(text, "  others       %d of %d strategies compiled, all else as it is; a step of %.4g ms takes\n", tried, known,
                1e3 * now.step_s);
    text_printf(text, "                 ms          sent by a rank   memory of a rank\n");
    const char *present = name(context, node, node->strategy);
    for (int k = 0, shown = 0; k < others.n; k++) {
        const Other *other = &others.at[k];
        if (!other->present && (shown == MAX_SHOWN || strcmp(name(context, node, other->strategy), present) == 0))
            continue; /* the present one written differently */
        shown += !other->present;
        text_printf(text, "            %s  %-+10.4g  %-15s  %-16s  %s\n", other->present ? "-> " : "   ",
                    1e3 * (other->cost.step_s - now.step_s), more_bytes(b, now.sent_bytes, other->cost.sent_bytes),
                    more_bytes(b, memory_bytes(&now), memory_bytes(&other->cost)), name(context, node, other->strategy));
    }
}
