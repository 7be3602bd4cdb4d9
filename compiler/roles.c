/* Before: the order of all steps, in which every communication is started before it is waited for. After: b->role, whose orders are parts of that one, so that all ranks that
 * take part in a communication issue it in the same order, and the earliest unfinished one can always finish.
 *
 * A role computes what its ranks hold, and starts and waits for what they send or receive. Where it only sends, it waits later, after the next task of its stage, so that it
 * need not stand still until the receiver has come. The receiver's wait needs only that the sender has started (docs/proof.md); but where sums are completed, all ranks wait
 * for all, at one place in the order. */
#include "compiler/roles.h"

#include <string.h>

#include "compiler/compiler.h"

bool role_holds(const Build *b, int value) {
    const Placement *role = &b->placement;
    return layout_has_ranks(b->spmd.graph.values.at[value].layout, role->first_rank, role->last_rank);
}

/* Whether the role's ranks do something for a node. */
static bool takes_part(const Build *b, const Node *node) {
    if (node->op == OP_convert && node->comm != COMM_STRIDED_SLICE && role_holds(b, node->in[0])) return true;
    return role_holds(b, node->op == OP_write ? node->in[0] : node->out[0]);
}

/* A wait of a role that only sends, and the first task that follows it; -1: none has come yet. */
typedef struct Late {
    Item item;
    int task;
} Late;
typedef VEC(Late) Lates;

/* Adds the waits whose task is over, as this one begins; task -1: all. */
static void wait_late(Build *b, Lates *lates, int task) {
    int n = 0;
    for (int i = 0; i < lates->n; i++) {
        Late *late = &lates->at[i];
        if (late->task < 0 && task >= 0) late->task = task;
        if (task < 0 || late->task != task)
            vec_push(b->arena, &b->placement.order, late->item);
        else
            lates->at[n++] = *late;
    }
    lates->n = n;
}

/* Whether the role only sends, and neither a sum nor anything of a state, which may be overwritten meanwhile. */
static bool may_wait_late(const Build *b, const Node *convert) {
    const Graph *g = &b->spmd.graph;
    const Node *root = graph_producer(g, convert->in[0]);
    while (op_table[root->op].view || root->op == OP_convert)
        root = graph_producer(g, root->in[0]);
    return !role_holds(b, convert->out[0]) && !layout_is_partial(g->values.at[convert->in[0]].layout) && root->op != OP_read;
}

static void role_make(Build *b, const Placement *all, const int *task) {
    const Graph *g = &b->spmd.graph;
    Lates lates = {0};
    for (int i = 0; i < all->order.n; i++) {
        const Item item = all->order.at[i];
        const Node *node = &g->nodes.at[item.node];
        if (!takes_part(b, node)) continue;
        if (node->op != OP_convert && node->op != OP_write) wait_late(b, &lates, task[item.node]);
        if (item.wait && may_wait_late(b, node))
            vec_push(b->arena, &lates, ((Late){item, -1}));
        else
            vec_push(b->arena, &b->placement.order, item);
    }
    wait_late(b, &lates, -1);
}

/* Renumbers the buckets of each role from 1. */
static void number_buckets(Build *b) {
    Placement *role = &b->placement;
    int *number = arena_alloc(b->arena, sizeof *number * (size_t)(role->order.n + b->spmd.graph.nodes.n + 2)), n = 0;
    for (int i = 0; i < role->order.n; i++) {
        Item *item = &role->order.at[i];
        if (item->bucket == 0) continue;
        if (number[item->bucket] == 0) number[item->bucket] = ++n;
        item->bucket = number[item->bucket];
    }
}

void roles_make(Build *b, const int *task) {
    const int nstages = settings_stages(&b->spmd.graph.settings), each = b->spmd.graph.nranks / nstages;
    const Placement all = b->placement;
    b->nroles = nstages;
    b->role = arena_alloc(b->arena, sizeof *b->role * (size_t)nstages);
    for (int r = 0; r < nstages; r++) {
        b->placement = (Placement){.first_rank = r * each, .last_rank = (r + 1) * each - 1};
        if (nstages == 1)
            b->placement.order.at = all.order.at, b->placement.order.n = all.order.n, b->placement.order.cap = all.order.cap;
        else
            role_make(b, &all, task), number_buckets(b);
        b->role[r] = b->placement;
    }
    b->placement = b->role[0];
}

bool roles_each(Build *b, bool (*run)(Build *b)) {
    bool ok = true;
    for (int r = 0; ok && r < b->nroles; r++) {
        b->placement = b->role[r];
        ok = run(b);
        b->role[r] = b->placement;
    }
    b->placement = b->role[0];
    return ok;
}
