/* costly: warnings about hints that do not fit together, and about hints that make a step move much more than it would without any. */
#include <inttypes.h>
#include <string.h>

#include "strategies/propagator.h"

/* Whether an operator before node `end` that follows from hint `a` needs the value in this layout too. */
static bool also_needed(const Propagator *p, int value, int a, int want, int end) {
    for (int k = p->first_user[value]; k < p->first_user[value + 1]; k++)
        if (p->hint_of[p->user[k]] == a && p->user[k] < end &&
            cost_layout_parts(p->memo, p->chosen[p->user[k]]->need[p->user_operand[k]]) == want)
            return true;
    return false;
}

/* Two hints in the source text whose consequences do not fit together. */
typedef struct Conflict {
    const Hint *from, *to;  /* the hint of the value's producer, that of its user */
    int from_node, to_node; /* the operators that have these hints */
    int value, user, have, want;
    int more;           /* further places: other iterations and calls, or other values between the two */
    int64_t bytes, all; /* of the first conversion; of all */
} Conflict;

static bool same_hints(const Conflict *c, const Hint *a, const Hint *b) {
    return (spans_equal(c->from->span, a->span) && spans_equal(c->to->span, b->span)) ||
           (spans_equal(c->from->span, b->span) && spans_equal(c->to->span, a->span));
}

static void warn_conflict(Propagator *p, const Conflict *c) {
    const Graph *graph = p->graph;
    const Node *user = &graph->nodes.at[c->user];
    const bool after = c->from_node < c->to_node;
    const Node *first = &graph->nodes.at[after ? c->from_node : c->to_node], *second = &graph->nodes.at[after ? c->to_node : c->from_node];
    Text text = {0};
    text_printf(&text, "the hints of %s and %s do not fit together: %s is made as ", first->name, second->name,
                graph->values.at[c->value].name);
    layout_print(&text, cost_layout_at(p->memo, c->have), false);
    text_printf(&text, " and needed as ");
    layout_print(&text, cost_layout_at(p->memo, c->want), false);
    text_printf(&text, " by %s; the conversion lets %" PRId64 " bytes be received a step", user->name, c->bytes);
    if (c->more > 0) text_printf(&text, ", with those at %d more place%s %" PRId64, c->more, c->more == 1 ? "" : "s", c->all);
    diag_warning(p->diags, WARN_CONFLICT, after ? c->to->span : c->from->span, "%s", text.at);
    if (spans_equal(c->from->span, c->to->span)) /* both from one pattern: say where the operators are */
        diag_note(p->diags, first->span, "%s, which the same pattern names", first->name);
    else
        diag_note(p->diags, after ? c->from->span : c->to->span, "the hint of %s", first->name);
    text_finish(&text);
}

void warn_conflicts(Propagator *p) {
    const Graph *graph = p->graph;
    VEC(Conflict) found = {0};
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        for (int i = 0; i < node->nin && !node_is_leaf(node); i++) {
            int producer = graph->values.at[node->in[i]].node;
            int a = p->hint_of[producer], b = p->hint_of[id];
            if (p->apart[producer] || p->apart[id]) continue; /* converted because that moves less, not because hints ask for it */
            if (a < 0 || b < 0 || a == b || !graph->nodes.at[a].hint || !graph->nodes.at[b].hint) continue;
            int have = value_home(p, node->in[i]), want = cost_layout_parts(p->memo, p->chosen[id]->need[i]);
            int64_t bytes = cost_convert(p->memo, have, want) * dtype_bytes[value_type(p, node->in[i])->dtype];
            if (bytes == 0 || also_needed(p, node->in[i], a, want, p->nnodes))
                continue; /* the first hint's own operators need that conversion */
            if (also_needed(p, node->in[i], b, want, id)) continue;
            const Hint *from = graph->nodes.at[a].hint, *to = graph->nodes.at[b].hint;
            int known = 0;
            while (known < found.n && !same_hints(&found.at[known], from, to))
                known++;
            if (known == found.n)
                vec_push(&p->arena, &found,
                         ((Conflict){.from = from,
                                     .to = to,
                                     .from_node = a,
                                     .to_node = b,
                                     .value = node->in[i],
                                     .user = id,
                                     .have = have,
                                     .want = want,
                                     .more = -1,
                                     .bytes = bytes}));
            found.at[known].more++;
            found.at[known].all += bytes;
        }
    }
    for (int k = 0; k < found.n; k++)
        warn_conflict(p, &found.at[k]);
}

/* ---- hints that cost much */

enum { COSTLY_PERCENT = 150, MAX_TRIED = 16, MAX_TRIED_NODES = 200000 };

static void print_bytes(Text *text, int64_t bytes) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    int u = 0;
    for (; n >= 1024 && u < 4; u++)
        n /= 1024;
    text_printf(text, u == 0 ? "%.0f %s" : "%.1f %s", n, unit[u]);
}

/* Makes propagation ignore the hints at this place (line 0: all). */
static void leave_out(Propagator *p, Span place) {
    for (int id = 0; id < p->nnodes; id++) {
        const Hint *hint = p->graph->nodes.at[id].hint;
        p->left_out[id] = hint && p->given[id] && (place.line == 0 || spans_equal(hint->span, place));
    }
}

/* The hint without which a step moves the least, and what it then moves. Tries the first few hints, each alone. *ntried: how many. */
static int costliest(Propagator *p, int64_t *without, int *ntried) {
    VEC(int) tried = {0};
    int found = -1;
    const int most = p->nnodes < MAX_TRIED_NODES / MAX_TRIED ? MAX_TRIED : MAX_TRIED_NODES / (p->nnodes + 1);
    for (int id = 0; id < p->nnodes && (tried.n < most || tried.n == 0); id++) {
        const Node *node = &p->graph->nodes.at[id];
        bool known = !node->hint || !p->given[id];
        for (int i = 0; i < tried.n && !known; i++)
            known = spans_equal(p->graph->nodes.at[tried.at[i]].hint->span, node->hint->span);
        if (known) continue;
        vec_push(&p->arena, &tried, id);
        leave_out(p, node->hint->span);
        const int64_t bytes = fill(p).bytes;
        if (found < 0 || bytes < *without) found = id, *without = bytes;
    }
    *ntried = tried.n;
    return found;
}

bool warn_costly(Propagator *p, Volume with) {
    if (p->diags->silenced & 1u << WARN_COSTLY) return false;
    leave_out(p, (Span){0});
    fill(p);
    const Volume none = volume_count(p);
    bool costly = (double)with.moved.bytes * 100 > (double)none.moved.bytes * COSTLY_PERCENT && none.flops <= with.flops * 1.01;
    p->result->costly = costly;
    if (costly) {
        int64_t without = 0;
        int nhints;
        const Node *node = &p->graph->nodes.at[costliest(p, &without, &nhints)];
        Text text = {0};
        if (nhints == 1)
            text_printf(&text, "with the strategy of %s", node->name);
        else
            text_printf(&text, "with the strategies");
        text_printf(&text, " a rank receives about ");
        print_bytes(&text, with.moved.bytes / p->graph->nranks);
        text_printf(&text, " a step, without %s about ", nhints == 1 ? "it" : "any of them");
        print_bytes(&text, none.moved.bytes / p->graph->nranks);
        if (nhints > 1) {
            text_printf(&text, "; that of %s costs most: without it ", node->name);
            print_bytes(&text, without / p->graph->nranks);
        }
        diag_warning(p->diags, WARN_COSTLY, node->hint->span, "%s", text.at);
        diag_hint(p->diags, "--explain %s shows what follows from it; -Wno-costly where it is there for memory", node->name);
        text_finish(&text);
    }
    memset(p->left_out, 0, (size_t)p->nnodes * sizeof *p->left_out);
    return true;
}
