#include "search/reads.h"

#include <string.h>

/* ---- who reads what */

static void find_varying(Reads *m, Arena *arena) {
    m->varies = arena_alloc(arena, (size_t)m->graph->values.n + 1);
    for (int n = 0; n < m->nnodes; n++) {
        const Node *node = &m->graph->nodes.at[n];
        bool varies = node->op == OP_read || node->op == OP_input;
        for (int i = 0; i < node->nin; i++)
            varies = varies || m->varies[node->in[i]];
        for (int o = 0; o < node->nout; o++)
            m->varies[node->out[o]] = varies;
    }
}

static void find_kept(Reads *m, Arena *arena) {
    const Graph *graph = m->graph;
    m->kept = arena_alloc(arena, (size_t)graph->values.n + 1);
    for (int n = m->nnodes; n < graph->nodes.n; n++)
        for (int i = 0; i < graph->nodes.at[n].nin; i++) {
            int value = graph->nodes.at[n].in[i];
            while (op_table[graph_producer(graph, value)->op].view)
                value = graph_producer(graph, value)->in[0];
            m->kept[value] = graph->values.at[value].node < m->nnodes;
        }
}

static int read_new(Reads *m, const Layout *const *out_layout, const Node *node, int id, int result, Arena *arena) {
    const Graph *graph = m->graph;
    const int value = node->out[result];
    Read read = {
        .type = graph->values.at[value].type, .producer = id, .result = result, .state = -1, .input = -1, .active = m->active[value]};
    if (node_is_leaf(node)) {
        read.producer = -1;
        read.free = node->op != OP_read && node->op != OP_input;
        if (node->op == OP_read) read.state = node->state, read.given = graph->states.at[node->state].layout;
        if (node->op == OP_input) read.input = node->state, read.given = graph->inputs.at[node->state].layout;
    } else if (result == 0 && out_layout != NULL) {
        read.given = out_layout[id];
    }
    vec_push(arena, &m->all, read);
    return m->all.n - 1;
}

static void find_reads(Reads *m, const Layout *const *out_layout, Arena *arena) {
    const Graph *graph = m->graph;
    m->read_of = arena_alloc(arena, ((size_t)graph->values.n + 1) * sizeof *m->read_of);
    int *of_state = arena_alloc(arena, ((size_t)graph->states.n + 1) * sizeof *of_state), nreaders = 0; /* + 1 */
    for (int n = 0; n < m->nnodes; n++) {
        const Node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->nin; i++, nreaders++)
            m->all.at[m->read_of[node->in[i]]].nreaders++;
        for (int o = 0; o < node->nout; o++) {
            const bool read = node->op == OP_read;
            if (read && of_state[node->state] > 0) {
                m->read_of[node->out[o]] = of_state[node->state] - 1;
                continue;
            }
            m->read_of[node->out[o]] = read_new(m, out_layout, node, n, o, arena);
            if (read) of_state[node->state] = m->read_of[node->out[o]] + 1;
        }
    }
    int first = 0;
    for (int s = 0; s < m->all.n; s++) {
        m->all.at[s].first_reader = first;
        first += m->all.at[s].nreaders;
        m->all.at[s].nreaders = 0;
    }
    m->readers.at = arena_alloc(arena, ((size_t)nreaders + 1) * sizeof *m->readers.at);
    m->readers.n = nreaders;
    for (int n = 0; n < m->nnodes; n++)
        for (int i = 0; i < graph->nodes.at[n].nin; i++) {
            Read *read = &m->all.at[m->read_of[graph->nodes.at[n].in[i]]];
            m->readers.at[read->first_reader + read->nreaders++] = (Reader){n, i};
        }
}

/* ---- which operators are alike */

static void operand_kind(const Reads *m, const Read *read, int i, bool differentiated, OperatorKind *key) {
    key->active[i] = read->active && differentiated;
    key->trained[i] = read->state >= 0 && m->graph->states.at[read->state].trainable;
    key->kind[i] = OPERAND_EDGE;
    if (read->free || (read->producer < 0 && read->nreaders == 1 && !key->trained[i] && read->given == NULL))
        key->kind[i] = OPERAND_FREE;
    else if (read->producer < 0 && read->nreaders == 1 && read->given == NULL)
        key->kind[i] = OPERAND_OWN;
    else if (read->producer < 0 && read->nreaders == 1) {
        key->kind[i] = OPERAND_GIVEN;
        key->given[i] = read->given;
    }
    if (key->kind[i] == OPERAND_EDGE || key->kind[i] == OPERAND_FREE) key->trained[i] = false;
}

static void kind_of_node(const Reads *m, const Node *node, OperatorKind *kind) {
    memset(kind, 0, sizeof *kind); /* its padding too */
    kind->op = node->op;
    kind->rule = node->rule;
    kind->kernels = kernels_hash(&m->kernels, (int)(node - m->graph->nodes.at));
    for (int i = 0; i < node->nin; i++)
        operand_kind(m, &m->all.at[m->read_of[node->in[i]]], i, op_table[node->op].adjoint != NULL, kind);
    const int table = node->op == OP_embedding ? m->all.at[m->read_of[node->in[0]]].state : -1;
    kind->by_rows = table >= 0 && m->by_rows[table];
    for (int o = 0; o < node->nout; o++) {
        kind->kept[o] = m->kept[node->out[o]];
        for (int k = 0; k < graph_nreports(m->graph); k++)
            kind->reported[o] = kind->reported[o] || (graph_report(m->graph, k) == node->out[o] && graph_report_whole(m->graph, k));
    }
}

static bool types_equal(const Graph *graph, const Node *a, const Node *b) {
    bool equal = a->nin == b->nin;
    for (int i = 0; i < a->nin && equal; i++)
        equal = type_equal(&graph->values.at[a->in[i]].type, &graph->values.at[b->in[i]].type);
    return equal;
}

static void find_kinds(Reads *m, Arena *arena) {
    Map map = {0};
    m->kind_of = arena_alloc(arena, ((size_t)m->nnodes + 1) * sizeof *m->kind_of);
    for (int n = 0; n < m->nnodes; n++) {
        const Node *node = &m->graph->nodes.at[n];
        OperatorKind kind;
        m->kind_of[n] = -1;
        if (node_is_leaf(node)) continue;
        kind_of_node(m, node, &kind);
        const uint64_t hash = hash_bytes(&kind, sizeof kind);
        map_each(&map, hash, k) if (memcmp(m->kinds.at[k], &kind, sizeof kind) == 0 && types_equal(m->graph, node, m->first.at[k]))
            m->kind_of[n] = k;
        if (m->kind_of[n] >= 0) continue;
        OperatorKind *added = arena_alloc(arena, sizeof *added);
        *added = kind;
        m->kind_of[n] = m->kinds.n;
        map_add(arena, &map, hash, m->kinds.n);
        vec_push(arena, &m->kinds, added);
        vec_push(arena, &m->first, node);
    }
}

const Reads *reads_find(const Graph *graph, const Layout *const *out_layout, Arena *arena) {
    Reads *m = arena_alloc(arena, sizeof *m);
    m->graph = graph;
    m->nnodes = graph_nforward(graph);
    kernels_init(&m->kernels, graph, NULL, arena);
    m->active = graph_active(graph, arena);
    m->by_rows = states_by_rows(graph, arena);
    find_varying(m, arena);
    find_kept(m, arena);
    find_reads(m, out_layout, arena);
    find_kinds(m, arena);
    return m;
}
