/* emit: the plan and its bytes.
 *
 * Before: memory. After: c->plan, with a program "train" of a role for each stage and, where there is one, "eval" of another graph; c->text and c->side, its bytes. The
 * plan's graph is the unsharded one without strategies: what the proof compares with, independent of the planner. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/facts.h"

/* The unsharded graph; the layouts of states and inputs are the only ones that are part of it. */
static void plan_graph(const Build *b, Graph *g) {
    graph_copy(g, &b->sharded.graph);
    for (int s = 0; s < g->states.n; s++)
        g->states.at[s].hint = NULL;
    for (int i = 0; i < g->inputs.n; i++)
        g->inputs.at[i].hint = NULL;
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        node->strategy = NULL;
        node->from = STRATEGY_NONE;
        node->hint = NULL;
    }
    for (int v = 0; v < g->values.n; v++)
        g->values.at[v].layout = NULL;
}

typedef struct Emitter {
    const Build *b;
    const Placement *placement;
    Role *role;
    int *instance;  /* per value of spmd: its instance, -1: none yet */
    int *request;   /* per node of spmd: number of its communication */
    int *nrequests; /* of all roles */
} Emitter;

static int instance_of(Emitter *e, int value) {
    const Build *b = e->b;
    if (e->instance[value] >= 0) return e->instance[value];
    const Location *location = &e->placement->location[value];
    Instance instance = {.value = b->spmd.whole_value.at[value],
                         .layout = b->spmd.graph.values.at[value].layout,
                         .place = location->place,
                         .at = location->at,
                         .version = location->version};
    if (location->place == PLACE_VIEW) instance.at = instance_of(e, (int)location->at);
    e->instance[value] = e->role->instances.n;
    vec_push(b->arena, &e->role->instances, instance);
    return e->instance[value];
}

static StepKind step_kind(const Node *node, bool wait) {
    if (node->op == OP_write) return STEP_WRITE;
    if (node->op != OP_convert) return STEP_KERNEL;
    return node->comm == COMM_STRIDED_SLICE ? STEP_LOCAL : wait ? STEP_WAIT : STEP_START;
}

static void emit_step(Emitter *e, Item item) {
    const Build *b = e->b;
    const Node *node = &b->spmd.graph.nodes.at[item.node];
    Step step = {.kind = step_kind(node, item.wait), .op = node->op, .comm = node->comm, .nin = node->nin, .state = -1, .request = -1};
    if (step.kind == STEP_KERNEL || step.kind == STEP_WRITE) step.node = b->spmd.whole_node.at[item.node];
    if (step.kind == STEP_START && e->request[item.node] < 0) e->request[item.node] = (*e->nrequests)++;
    if (step.kind == STEP_START || step.kind == STEP_WAIT) {
        step.request = e->request[item.node];
        step.stream = step.kind == STEP_START;
        step.bucket = item.bucket;
    }
    step.fused = item.fused;
    for (int i = 0; i < node->nin; i++)
        step.in[i] = instance_of(e, node->in[i]);
    step.nout = step.kind == STEP_WRITE ? 0 : node->nout;
    for (int k = 0; k < step.nout; k++)
        step.out[k] = instance_of(e, node->out[k]);
    if (step.kind == STEP_WRITE) step.state = node->state;
    vec_push(b->arena, &e->role->steps, step);
}

/* The name of a machine other than the default and, if it is from a file, its figures. */
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
    const Settings *settings = &program_train(c)->front.graph.settings;
    return arena_printf(c->arena, "mode=%s search=%s -O%d redistribution=%s%s", mode_name[settings->mode], settings->search,
                        c->options->optimize, policy[c->options->optimize < 2 ? REDISTRIBUTE_CANONICAL : c->options->redistribution],
                        machine_words(c));
}

/* The side file's name in the plan: it lies beside the plan, wherever that is. */
static const char *side_file(const Compilation *c) {
    const char *path = plan_side_path(c->arena, c->options->output), *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static Role emit_role(Build *b, Placement *placement, int *request, int *nrequests) {
    const Graph *g = &b->spmd.graph;
    Role role = {.first_rank = placement->first_rank, .last_rank = placement->last_rank, .arena_bytes = placement->arena_bytes};
    Emitter e = {.b = b, .placement = placement, .role = &role, .request = request, .nrequests = nrequests};
    e.instance = placement->instance = arena_alloc(b->arena, sizeof *e.instance * (size_t)(g->values.n + 1));
    memset(e.instance, -1, sizeof *e.instance * (size_t)(g->values.n + 1));
    vec_reserve(b->arena, &role.instances, placement->order.n);
    vec_reserve(b->arena, &role.steps, placement->order.n);
    for (int k = 0; b->nroles > 1 && k < graph_nreports(g); k++) /* they have the same numbers in all roles: the first ones */
        instance_of(&e, graph_report(g, k));
    for (int i = 0; i < placement->order.n; i++)
        emit_step(&e, placement->order.at[i]);
    for (int k = 0; k < graph_nreports(g); k++)
        instance_of(&e, graph_report(g, k));
    return role;
}

static Program emit_program(Build *b) {
    const Graph *g = &b->spmd.graph;
    Program program = {.name = b->name, .kind = b->kind, .shorter = b->shorter, .loss = -1};
    int *request = arena_alloc(b->arena, sizeof *request * (size_t)(g->nodes.n + 1)), nrequests = 0;
    memset(request, -1, sizeof *request * (size_t)(g->nodes.n + 1));
    for (int r = 0; r < b->nroles; r++)
        vec_push(b->arena, &program.roles, emit_role(b, &b->role[r], request, &nrequests));
    b->placement = b->role[0];
    if (g->loss >= 0) program.loss = b->placement.instance[g->loss];
    for (int i = 0; i < g->reports.n; i++)
        vec_push(b->arena, &program.reports, b->placement.instance[g->reports.at[i].value]);
    return program;
}

void build_emit(Build *b) {
    b->program = arena_alloc(b->arena, sizeof *b->program);
    b->facts = b->role_facts = arena_alloc(b->arena, sizeof *b->facts * (size_t)b->nroles);
    *b->program = emit_program(b);
    for (int r = 0; r < b->nroles; r++) {
        Facts *facts = &b->role_facts[r];
        facts_init(facts, &b->sharded.graph, b->program, r, b->options->machine, b->arena);
        facts_flops(facts, b->sharded.strategy, b->arena);
        if (facts->all.sent > b->program->sent_bytes) b->program->sent_bytes = facts->all.sent;
        if (facts->rank_bytes > b->facts->rank_bytes) b->facts = facts;
    }
}

/* Adds a program: train computes the plan's graph, the others graphs of their own, over the states of the plan. */
static void add_program(Compilation *c, Build *b) {
    Graph *graph = b->follows == NULL ? &c->plan.graph : arena_alloc(c->arena, sizeof *graph);
    build_emit(b);
    plan_graph(b, graph);
    Program program = *b->program;
    if (b->follows != NULL) {
        const int shared = c->plan.graph.states.n;
        for (int s = 0; s < shared; s++) /* those of train as in the plan; after them the program's own caches */
            graph->states.at[s] = c->plan.graph.states.at[s];
        program.graph = graph;
    }
    for (int i = 0; b->shorter && i < graph->inputs.n; i++) /* it is given parts of the longest texts' inputs */
        graph->inputs.at[i].file = (DataFile){0};
    vec_push(c->arena, &c->plan.programs, program);
}

bool pass_emit(Compilation *c) {
    plan_init(&c->plan, c->arena);
    c->plan.options = options_line(c);
    c->plan.net_hash = c->net_hash;
    for (int i = 0; i < c->programs.n; i++)
        add_program(c, c->programs.at[i]);
    plan_print_files(&c->text, &c->side, side_file(c), &c->plan);
    return true;
}
