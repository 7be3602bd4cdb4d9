/* flow: the program of c->spmd as needs and results, without converts. One linear walk. */
#include "compiler/flow.h"

/* The value at the start of the converts that lead to v. */
static int root_of(const Graph *g, int v) {
    while (g->nodes.at[g->values.at[v].node].op == OP_convert)
        v = g->nodes.at[g->values.at[v].node].in[0];
    return v;
}

static void find_uses(Flow *flow) {
    const Graph *g = flow->g;
    size_t values = (size_t)g->values.n + 2;
    flow->first_use = arena_alloc(flow->c->arena, sizeof *flow->first_use * values);
    int *next = arena_alloc(flow->c->arena, sizeof *next * values), count = 0;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; g->nodes.at[n].op != OP_convert && i < g->nodes.at[n].nin; i++, count++)
            flow->first_use[flow->root[n][i] + 1]++;
    for (int v = 0; v < g->values.n; v++)
        next[v + 1] = flow->first_use[v + 1] += flow->first_use[v];
    flow->use = arena_alloc(flow->c->arena, sizeof *flow->use * (size_t)(count + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; g->nodes.at[n].op != OP_convert && i < g->nodes.at[n].nin; i++)
            flow->use[next[flow->root[n][i]]++] = (Use){n, i};
}

Flow *flow_of(Compilation *c) {
    if (c->flow != NULL) return c->flow;
    Flow *flow = c->flow = arena_alloc(c->arena, sizeof *flow);
    *flow = (Flow){.c = c, .g = &c->spmd};
    const Graph *g = flow->g;
    flow->root = arena_alloc(c->arena, sizeof *flow->root * (size_t)(g->nodes.n + 1));
    flow->need = arena_alloc(c->arena, sizeof *flow->need * (size_t)(g->nodes.n + 1));
    flow->layout = arena_alloc(c->arena, sizeof *flow->layout * (size_t)(g->values.n + 1));
    for (int v = 0; v < g->values.n; v++)
        flow->layout[v] = g->values.at[v].layout;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; g->nodes.at[n].op != OP_convert && i < g->nodes.at[n].nin; i++) {
            flow->root[n][i] = root_of(g, g->nodes.at[n].in[i]);
            flow->need[n][i] = g->values.at[g->nodes.at[n].in[i]].layout;
        }
    find_uses(flow);
    flow->nreports = graph_nreports(g);
    flow->report = arena_alloc(c->arena, sizeof *flow->report * (size_t)(flow->nreports + 1));
    flow->report_need = arena_alloc(c->arena, sizeof *flow->report_need * (size_t)(flow->nreports + 1));
    for (int k = 0; k < flow->nreports; k++) {
        flow->report[k] = root_of(g, graph_report(g, k));
        flow->report_need[k] = g->values.at[graph_report(g, k)].layout;
    }
    return flow;
}

static void want(const Flow *flow, int v, const Layout *layout, Targets *targets) {
    if (layout == flow->layout[v]) return;
    for (int i = 0; i < targets->n; i++)
        if (targets->at[i].layout == layout) return;
    int64_t elements = layout_max_elements(layout, &flow->g->values.at[v].type.shape);
    vec_push(flow->c->arena, targets, (Target){.layout = layout, .elements = elements, .value = -1, .parent = -1});
}

void flow_targets(const Flow *flow, int v, Targets *targets) {
    targets->n = 0;
    for (int u = flow->first_use[v]; u < flow->first_use[v + 1]; u++)
        want(flow, v, flow->need[flow->use[u].node][flow->use[u].operand], targets);
    for (int k = 0; k < flow->nreports; k++)
        if (v == flow->report[k]) want(flow, v, flow->report_need[k], targets);
}

bool flow_reports(const Flow *flow, int v) {
    for (int k = 0; k < flow->nreports; k++)
        if (v == flow->report[k]) return true;
    return false;
}

FlowCost flow_cost(Flow *flow, int v) {
    const TensorType *type = &flow->g->values.at[v].type;
    flow_targets(flow, v, &flow->scratch);
    if (flow->scratch.n == 0) return (FlowCost){0};
    FlowCost cost = tree_plan(flow->c, type, flow->layout[v], &flow->scratch);
    return (FlowCost){.max = cost.max * dtype_bytes[type->dtype], .total = cost.total * dtype_bytes[type->dtype], .count = cost.count};
}
