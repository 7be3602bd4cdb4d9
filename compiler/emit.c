/* emit: the plan and its bytes.
 *
 * Before: memory. After: c->plan, one program "train" of one role, where there is one "eval" of another graph, and c->text and c->side, its bytes. The
 * plan's graph is the unsharded one without strategies: what the proof compares with, free of what the planner thought. */
#include <string.h>

#include "compiler/compiler.h"

/* The unsharded graph with the layouts of states and inputs, the only ones that are part of it. */
static void plan_graph(Compilation *c, Graph *g) {
    const Graph *from = &c->graph;
    graph_init(g, c->arena);
    g->name = from->name;
    g->file = from->file;
    g->files = from->files;
    g->nranks = from->nranks;
    g->replicas = from->replicas;
    g->dims = from->dims;
    g->settings = from->settings;
    g->loss = from->loss;
    g->reports = from->reports;
    g->nforward = from->nforward;
    graph_reserve(g, from->nodes.n, from->values.n);
    for (int s = 0; s < from->states.n; s++) {
        State state = from->states.at[s];
        state.layout = graph_layout(g, state.layout, &state.type.shape);
        state.hint = NULL;
        vec_push(c->arena, &g->states, state);
    }
    for (int i = 0; i < from->inputs.n; i++) {
        Input input = from->inputs.at[i];
        input.layout = graph_layout(g, input.layout, &input.type.shape);
        input.hint = NULL;
        vec_push(c->arena, &g->inputs, input);
    }
    for (int n = 0; n < from->nodes.n; n++) {
        Node node = from->nodes.at[n];
        node.strategy = NULL;
        node.from = STRATEGY_NONE;
        node.hint = NULL;
        vec_push(c->arena, &g->nodes, node);
    }
    for (int v = 0; v < from->values.n; v++) {
        Value value = from->values.at[v];
        value.layout = NULL;
        vec_push(c->arena, &g->values, value);
    }
}

typedef struct Emitter {
    Compilation *c;
    Role *role;
    int *instance; /* per value of spmd: its instance, -1: none yet */
    int *request;  /* per node of spmd: number of its communication */
    int nrequests;
} Emitter;

static int instance_of(Emitter *e, int value) {
    Compilation *c = e->c;
    if (e->instance[value] >= 0) return e->instance[value];
    const Value *v = &c->spmd.values.at[value];
    const Location *location = &c->location[value];
    Instance instance = {.value = c->whole_value.at[value],
                         .layout = graph_layout(&c->plan.graph, v->layout, &v->type.shape),
                         .place = location->place,
                         .at = location->at,
                         .version = location->version};
    e->instance[value] = e->role->instances.n;
    vec_push(c->arena, &e->role->instances, instance);
    return e->instance[value];
}

static StepKind step_kind(const Node *node, bool wait) {
    if (node->op == OP_write) return STEP_WRITE;
    if (node->op != OP_convert) return STEP_KERNEL;
    return node->comm == COMM_STRIDED_SLICE ? STEP_LOCAL : wait ? STEP_WAIT : STEP_START;
}

static void emit_step(Emitter *e, Item item) {
    Compilation *c = e->c;
    const Node *node = &c->spmd.nodes.at[item.node];
    Step step = {.kind = step_kind(node, item.wait), .op = node->op, .comm = node->comm, .nin = node->nin, .state = -1, .request = -1};
    if (step.kind == STEP_KERNEL || step.kind == STEP_WRITE) step.node[step.nnodes++] = c->whole_node.at[item.node];
    if (step.kind == STEP_START) e->request[item.node] = e->nrequests++;
    if (step.kind == STEP_START || step.kind == STEP_WAIT) {
        step.request = e->request[item.node];
        step.stream = step.kind == STEP_START;
        step.bucket = item.bucket;
    }
    for (int i = 0; i < node->nin; i++)
        step.in[i] = instance_of(e, node->in[i]);
    step.nout = step.kind == STEP_WRITE ? 0 : node->nout;
    for (int k = 0; k < step.nout; k++)
        step.out[k] = instance_of(e, node->out[k]);
    if (step.kind == STEP_WRITE) step.state = node->state;
    vec_push(c->arena, &e->role->steps, step);
}

/* Of a machine other than the default: its name, and of one from a file its figures. */
static const char *machine_words(const Compilation *c) {
    const Machine *m = c->options->machine;
    const Machine *named = m != NULL ? machine_named(m->name) : NULL;
    if (m == NULL || m == &machine_cpu) return "";
    if (m == named) return arena_printf(c->arena, " machine=%s", m->name);
    return arena_printf(c->arena, " machine=%s(%d,%.4g,%.4g,%.4g,%.4g)", m->name, m->ranks_per_node, m->rank.latency_s, m->rank.bytes_per_s,
                        m->node.latency_s, m->node.bytes_per_s);
}

static const char *options_line(const Compilation *c) {
    static const char *const policy[] = {"auto", "bound", "canonical"};
    const Settings *settings = &c->graph.settings;
    return arena_printf(c->arena, "mode=%s search=%s -O%d redistribution=%s%s", mode_name[settings->mode], settings->search,
                        c->options->optimize, policy[c->options->optimize < 2 ? REDISTRIBUTE_CANONICAL : c->options->redistribution],
                        machine_words(c));
}

/* Its name in the plan: beside it, wherever both are. */
static const char *side_file(const Compilation *c) {
    const char *path = plan_side_path(c->arena, c->options->output), *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static Program emit_program(Compilation *c, const char *name) {
    Program program = {.name = name, .loss = -1, .sent_bytes = stats_sent_bytes(c)};
    Role role = {.first_rank = 0, .last_rank = c->graph.nranks - 1, .arena_bytes = c->arena_bytes};
    Emitter e = {.c = c, .role = &role};
    e.instance = arena_alloc(c->arena, sizeof *e.instance * (size_t)(c->spmd.values.n + 1));
    memset(e.instance, -1, sizeof *e.instance * (size_t)(c->spmd.values.n + 1));
    e.request = arena_alloc(c->arena, sizeof *e.request * (size_t)(c->spmd.nodes.n + 1));
    vec_reserve(c->arena, &role.instances, c->spmd.values.n);
    vec_reserve(c->arena, &role.steps, c->order.n);
    for (int i = 0; i < c->order.n; i++)
        emit_step(&e, c->order.at[i]);
    if (c->spmd.loss >= 0) program.loss = instance_of(&e, c->spmd.loss);
    for (int i = 0; i < c->spmd.reports.n; i++)
        vec_push(c->arena, &program.reports, instance_of(&e, c->spmd.reports.at[i].value));
    vec_push(c->arena, &program.roles, role);
    return program;
}

/* The program of c->eval, over the states of the plan. */
static Program emit_eval(Compilation *c) {
    Compilation *e = c->eval;
    Graph *graph = &e->plan.graph;
    plan_graph(e, graph);
    graph->states = c->plan.graph.states;
    Program eval = emit_program(e, "eval");
    eval.graph = graph;
    return eval;
}

bool pass_emit(Compilation *c) {
    plan_init(&c->plan, c->arena);
    c->plan.options = options_line(c);
    c->plan.net_hash = c->net_hash;
    plan_graph(c, &c->plan.graph);
    vec_push(c->arena, &c->plan.programs, emit_program(c, "train"));
    if (c->eval != NULL) vec_push(c->arena, &c->plan.programs, emit_eval(c));
    plan_print_files(&c->text, &c->side, side_file(c), &c->plan);
    return true;
}
