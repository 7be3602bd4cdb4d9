/* stages: which stage of a pipeline runs each operator (`stages` in the parallel block).
 *
 * Before: expand; all strategies are of the ranks of one stage. After: Node.stage of every node, and graph.nranks counts the ranks of all stages: a stage is the ranks of
 * one value of their slowest digit. What is computed of constants alone, and inputs that several stages take, belong to no stage: all ranks have them. The operators of
 * a stage follow each other in program order, so what a stage reads is made by it or by one before it, in the forward pass.
 *
 * The cuts are where the slowest stage takes the least time: its kernels, forward and backward, and what it exchanges with its neighbours; of equal ones where the
 * fewest bytes cross. Gradients are computed where their operators are, parameters and their slots lie where their first user is. */
#include <math.h>
#include <string.h>

#include "compiler/sharded.h"

enum { MAX_CUTS = 400 }; /* places where cuts are looked for: of longer nets the best ones of so many runs of operators */

/* Forward operators in program order, and what a cut behind each costs. */
typedef struct Line {
    const Build *b;
    Graph *g;
    int n;
    int *node;      /* position -> node */
    double *behind; /* position p: seconds of the kernels of positions 0 .. p - 1 */
    double *bytes;  /* position p: what crosses a cut between p - 1 and p, forward and backward, of a rank */
    int *messages;  /* the same: in how many messages */
    int ncuts;
    int *cut; /* positions where cuts are looked for; the first is 0, the last n */
} Line;

static const Machine *machine_of(const Build *b) {
    return b->options->machine != NULL ? b->options->machine : &machine_cpu;
}

/* ---------------------------------------------------------------- what a cut costs */

/* Per node: it is computed of constants alone. */
static bool *made_of_constants(const Graph *g) {
    bool *only = arena_alloc(g->arena, (size_t)g->nodes.n + 1);
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        only[n] = node->op != OP_input && node->op != OP_read;
        for (int i = 0; i < node->nin; i++)
            only[n] = only[n] && only[g->values.at[node->in[i]].node];
    }
    return only;
}

static void line_init(Line *line, const Build *b, Graph *g, const bool *constant) {
    const bool *active = graph_active(g, g->arena);
    const int nforward = graph_nforward(g);
    *line = (Line){.b = b, .g = g};
    line->node = arena_alloc(g->arena, sizeof *line->node * (size_t)(nforward + 1));
    line->behind = arena_alloc(g->arena, sizeof *line->behind * (size_t)(nforward + 2));
    line->messages = arena_alloc(g->arena, sizeof *line->messages * (size_t)(nforward + 2));
    line->bytes = arena_alloc(g->arena, sizeof *line->bytes * (size_t)(nforward + 2));
    int *last = arena_alloc(g->arena, sizeof *last * (size_t)(g->values.n + 1)); /* per value the position of its last user */
    for (int n = 0; n < nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node) || constant[n]) continue;
        const double backward = node->nout > 0 && active[node->out[0]] ? 2 : 0; /* kernels of gradients take about twice as long */
        line->behind[line->n + 1] = line->behind[line->n] + (1 + backward) * operator_seconds(b->options->machine, g, node, node->strategy);
        for (int i = 0; i < node->nin; i++)
            last[node->in[i]] = line->n;
        line->node[line->n++] = n;
    }
    for (int p = 0; p < line->n; p++) { /* as differences, then summed */
        const Node *node = &g->nodes.at[line->node[p]];
        for (int k = 0; k < node->nout; k++) {
            Layout layout;
            const TensorType *type = &g->values.at[node->out[k]].type;
            if (last[node->out[k]] <= p) continue;
            strategy_out_layout(node, node->strategy, k, type->shape.ndim, &layout);
            const int messages = active[node->out[k]] ? 2 : 1;
            const double bytes = messages * (double)layout_max_bytes(&layout, type);
            line->bytes[p + 1] += bytes;
            line->bytes[last[node->out[k]] + 1] -= bytes;
            line->messages[p + 1] += messages;
            line->messages[last[node->out[k]] + 1] -= messages;
        }
    }
    for (int p = 1; p <= line->n; p++)
        line->bytes[p] += line->bytes[p - 1], line->messages[p] += line->messages[p - 1];
}

/* Of each of MAX_CUTS runs of operators that take about as long the position where the least crosses. */
static void line_cuts(Line *line) {
    line->cut = arena_alloc(line->g->arena, sizeof *line->cut * (size_t)(MAX_CUTS + 2));
    line->cut[line->ncuts++] = 0;
    const double each = line->n > MAX_CUTS ? line->behind[line->n] / MAX_CUTS : 0;
    for (int p = 1; p < line->n;) {
        int best = p;
        const int run = each > 0 ? (int)(line->behind[p] / each) : p;
        for (; p < line->n && (each > 0 ? (int)(line->behind[p] / each) : p) == run; p++)
            if (line->bytes[p] < line->bytes[best]) best = p;
        if (line->ncuts <= MAX_CUTS) line->cut[line->ncuts++] = best;
    }
    line->cut[line->ncuts++] = line->n;
}

/* What the cut at a position takes. */
static double crossing_seconds(const Line *line, int position) {
    const Machine *machine = machine_of(line->b);
    const MachineLevel *link = line->g->nranks < machine->ranks_per_node ? &machine->rank : &machine->node;
    if (position == 0 || position == line->n || line->bytes[position] == 0) return 0;
    return line->messages[position] * link->latency_s + line->bytes[position] / link->bytes_per_s;
}

/* ---------------------------------------------------------------- where to cut */

typedef struct Best {
    double seconds, bytes; /* of the slowest stage; over all cuts */
    int before;            /* the cut that the last stage begins at */
} Best;

static bool is_better(double seconds, double bytes, const Best *best) {
    if (best->before < 0) return true;
    if (fabs(seconds - best->seconds) > 1e-9 * best->seconds) return seconds < best->seconds;
    return bytes < best->bytes;
}

/* Gives the operators of a line so many stages. */
static void cut_line(Line *line, int nstages) {
    const size_t ncuts = (size_t)line->ncuts;
    Best *best = arena_alloc(line->g->arena, sizeof *best * ncuts * (size_t)(nstages + 1)); /* [stages][cut] */
    for (size_t i = 0; i < ncuts * (size_t)(nstages + 1); i++)
        best[i].before = -1;
    best[0].before = 0;
    for (int k = 1; k <= nstages; k++)
        for (int to = k; to < line->ncuts; to++)
            for (int from = k - 1; from < to; from++) {
                const Best *before = &best[(size_t)(k - 1) * ncuts + (size_t)from];
                Best *now = &best[(size_t)k * ncuts + (size_t)to];
                const int begin = line->cut[from], end = line->cut[to];
                if (before->before < 0) continue;
                const double own = line->behind[end] - line->behind[begin] + crossing_seconds(line, begin) + crossing_seconds(line, end),
                             slowest = own > before->seconds ? own : before->seconds;
                const double bytes = before->bytes + (end < line->n ? line->bytes[end] : 0);
                if (is_better(slowest, bytes, now)) *now = (Best){slowest, bytes, from};
            }
    for (int k = nstages, to = line->ncuts - 1; k > 0; k--) {
        const int from = best[(size_t)k * ncuts + (size_t)to].before;
        for (int p = line->cut[from]; p < line->cut[to]; p++)
            line->g->nodes.at[line->node[p]].stage = k;
        to = from;
    }
}

static bool cut_forward(Build *b, Graph *g, const bool *constant) {
    Line line;
    const int nstages = settings_stages(&g->settings);
    line_init(&line, b, g, constant);
    line_cuts(&line);
    if (line.ncuts > nstages) {
        cut_line(&line, nstages);
        return true;
    }
    diag_error(b->diags, g->settings.stages_span, "%d stages of %d operator%s: some would have none", nstages, line.n,
               line.n == 1 ? "" : "s");
    return false;
}

/* What train has too has the stage that it has there (follow); the others are where the last of what they read is. */
static void follow_forward(Graph *g, const Graph *train, const bool *constant) {
    for (int n = 0; n < graph_nforward(g); n++) {
        Node *node = &g->nodes.at[n];
        const Pin *pin = node->op == OP_read && node->state < train->states.n ? &train->states.at[node->state].layout->pin : NULL;
        if (pin != NULL && pin->digit.size > 0) node->stage = pin->value + 1;
        for (int i = 0; i < node->nin && !constant[n] && !node_is_leaf(node); i++) {
            const Node *maker = graph_producer(g, node->in[i]);
            if (maker->stage > node->stage) node->stage = maker->stage;
        }
    }
}

/* ---------------------------------------------------------------- all other nodes */

/* What is given to every rank, the token and the place of what is generated. */
static bool of_all(const Graph *g, const Node *input) {
    const InputKind kind = g->inputs.at[input->state].kind;
    return kind == INPUT_TOKEN || kind == INPUT_PLACE;
}

/* Leaves: a parameter is where its first user is, an input where all its users are. of_state: per state, to be filled. */
static void stage_leaves(Graph *g, int *of_state) {
    int *first = arena_alloc(g->arena, sizeof *first * (size_t)(g->values.n + 1)),
        *last = arena_alloc(g->arena, sizeof *last * (size_t)(g->values.n + 1));
    for (int n = 0; n < graph_nforward(g); n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            const int v = g->nodes.at[n].in[i], stage = g->nodes.at[n].stage;
            if (first[v] == 0 || stage < first[v]) first[v] = stage;
            if (stage > last[v]) last[v] = stage;
        }
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (node->op == OP_input) node->stage = of_all(g, node) || first[node->out[0]] != last[node->out[0]] ? 0 : first[node->out[0]];
        if (node->op == OP_read && n < graph_nforward(g) && of_state[node->state] == 0)
            of_state[node->state] = node->stage > 0 ? node->stage : first[node->out[0]];
    }
    for (int s = 0; s < g->states.n; s++)
        if (of_state[s] == 0 && g->states.at[s].parameter != s) of_state[s] = of_state[g->states.at[s].parameter];
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (node->op == OP_read || node->op == OP_write) node->stage = of_state[node->state];
    }
}

/* A copy for another batch, and a gradient, where the node is that it is like; an update where its state is; what else there is where the last of its operands is. */
static void stage_others(Graph *g, const int *of_state) {
    for (int n = graph_nforward(g); n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (node->op == OP_read || node->op == OP_write || node->op == OP_constant) continue;
        const bool like = node->origin != n;
        int stage = 0;
        for (int i = 0; i < node->nin; i++)
            stage = graph_producer(g, node->in[i])->stage > stage ? graph_producer(g, node->in[i])->stage : stage;
        if (node->update > 0) stage = of_state[node->update - 1];
        node->stage = like ? g->nodes.at[node->origin].stage : stage;
        if (node->op == OP_clip || gradient_changes(g, node)) node->stage = graph_producer(g, node->in[0])->stage;
    }
}

bool pass_stages(Build *b) {
    Graph *g = &b->front.graph;
    if (g->settings.stages < 2) return true;
    const bool *constant = made_of_constants(g);
    for (int n = 0; n < g->nodes.n && b->follows == NULL; n++)
        g->nodes.at[n].stage = 0;
    if (b->follows != NULL)
        follow_forward(g, &b->follows->sharded.graph, constant);
    else if (!cut_forward(b, g, constant))
        return false;
    int *of_state = arena_alloc(g->arena, sizeof *of_state * (size_t)(g->states.n + 1));
    stage_leaves(g, of_state);
    stage_others(g, of_state);
    for (int n = 0; n < graph_nforward(g); n++)
        if (chosen_of(b, n) < b->front.chosen.nodes.n) b->front.chosen.nodes.at[chosen_of(b, n)].stage = g->nodes.at[n].stage;
    g->nranks = b->front.chosen.nranks * (int)g->settings.stages;
    for (int s = 0; b->follows != NULL && s < b->follows->sharded.graph.states.n; s++) /* pins too */
        g->states.at[s].layout = graph_layout(g, b->follows->sharded.graph.states.at[s].layout, &g->states.at[s].type.shape);
    return true;
}

Pin stage_pin(const Graph *g, int stage) {
    const int nstages = settings_stages(&g->settings);
    if (stage == 0 || nstages < 2) return (Pin){0};
    return (Pin){.digit = {nstages, g->nranks / nstages}, .value = stage - 1};
}
