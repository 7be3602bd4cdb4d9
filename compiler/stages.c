/* stages: which stage of a pipeline runs each operator (`stages` in the parallel block).
 *
 * With `chunks` the net is cut into that many times as many parts, which the stages get in turn. All that is said of stages here is then of these parts, as Node.stage is.
 *
 * Before: expand; all strategies are for the ranks of one stage. After: Node.stage of every node is set, and graph.nranks counts the ranks of all stages: a stage is the
 * ranks with one value of their slowest digit. What is computed from constants alone, and inputs that several stages read, belong to no stage: all ranks have them. The operators
 * of a stage follow each other in program order, unless hints (`stage 1`) ask for another one; so in the forward pass a stage reads what it or a stage before it made.
 *
 * Hints hold; those that cannot are an error. Between them the cuts are where the slowest stage takes the least time, in kernels, forward and backward, and exchanges with
 * its neighbours; of equal cuts, where the fewest bytes cross. Where the memory of a rank is limited, first of all no stage exceeds that, judged by states and by what
 * gradients read (search/chain.h). Gradients are computed where their operators are; parameters and their slots lie where their first user is. */
#include "compiler/search.h"
#include "compiler/sharded.h"
#include "compiler/tasks.h"
#include "search/chain.h"

enum { MAX_CUTS = 400 }; /* places where cuts are tried: of longer nets the best in each of so many runs of operators */

/* Forward operators in the order of the stages, that is program order unless hints say otherwise, and what a cut in front of each costs. */
typedef struct Line {
    const Build *b;
    Graph *g;
    int n, nstages;
    int *node;       /* position -> node */
    double *behind;  /* position p: seconds of the kernels of positions 0 .. p - 1 */
    double *states;  /* likewise: bytes on a rank of the parameters that they use first, with slots and gradients */
    double *held;    /* likewise: bytes on a rank of what gradients read, for one batch */
    double *bytes;   /* position p: what crosses a cut between p - 1 and p, forward and backward, of a rank */
    int *messages;   /* likewise: in how many messages */
    int *next_asked; /* position p: the first from p on whose stage a hint asks for; n: none */
    int *last_asked; /* position p: the last before p with such a hint; -1: none */
    int *batches;    /* per stage: the number of batches whose values it holds at once */
    int ncuts;
    int *cut; /* positions where cuts are tried; the first is 0, the last n */
} Line;

static const Machine *machine_of(const Build *b) {
    return b->options->machine != NULL ? b->options->machine : &machine_cpu;
}

bool *graph_constant_nodes(const Graph *g) {
    bool *only = arena_alloc(g->arena, (size_t)g->nodes.n + 1);
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        only[n] = node->op != OP_input && node->op != OP_read;
        for (int i = 0; i < node->nin; i++)
            only[n] = only[n] && only[g->values.at[node->in[i]].node];
    }
    return only;
}

/* ---------------------------------------------------------------- the order of operators */

/* The stages, from 0, that hints allow for a node. */
typedef struct Within {
    int least;     /* the first, as its hint or those of what it reads say */
    int most;      /* the last, as its hint or those of its users say */
    int least_for; /* the node whose hint sets `least`; -1: none does */
} Within;

static bool asked_before(const Build *b, const Graph *g, int node, const Within *within) {
    const Node *late = &g->nodes.at[within->least_for], *early = &g->nodes.at[node];
    diag_error(b->diags, early->asked->span, "%s cannot be of stage %d: it needs %s, which is of stage %d", early->name,
               early->asked->stage, late->name, late->asked->stage);
    diag_note(b->diags, late->asked->span, "that is said here");
    diag_hint(b->diags, "a stage takes what it, or a stage before it, has computed");
    diag_calls(b->diags, early->asked->call);
    return false;
}

/* Fills in the first and the last stage that hints allow for each operator. False after a diagnostic: hints contradict each other. */
static bool find_within(const Build *b, const Graph *g, const bool *constant, int nstages, Within *within) {
    const int nforward = graph_nforward(g);
    for (int n = 0; n < nforward; n++) {
        const Node *node = &g->nodes.at[n];
        Within *own = &within[n];
        *own = (Within){0, nstages - 1, -1};
        if (node_is_leaf(node) || constant[n]) continue;
        for (int i = 0; i < node->nin; i++) {
            const Within *operand = &within[g->values.at[node->in[i]].node];
            if (operand->least > own->least) *own = *operand;
        }
        if (node->asked == NULL) continue;
        if (node->asked->stage < own->least) return asked_before(b, g, n, own);
        *own = (Within){node->asked->stage, node->asked->stage, n};
    }
    for (int n = nforward - 1; n >= 0; n--)
        for (int i = 0; i < g->nodes.at[n].nin && !constant[n]; i++) {
            Within *operand = &within[g->values.at[g->nodes.at[n].in[i]].node];
            if (within[n].most < operand->most) operand->most = within[n].most;
        }
    return true;
}

/* Puts the operators in an order in which the stages that hints ask for ascend. One without a hint gets the stage of the one before it
 * in the net, as far as its operands and users allow that. */
static bool line_order(Line *line, const bool *constant) {
    const Graph *g = line->g;
    const int nforward = graph_nforward(g);
    Within *within = arena_alloc(g->arena, sizeof *within * (size_t)(nforward + 1));
    int *stage = arena_alloc(g->arena, sizeof *stage * (size_t)(nforward + 1));
    if (!find_within(line->b, g, constant, line->nstages, within)) return false;
    int before = 0;
    for (int n = 0; n < nforward; n++) {
        if (node_is_leaf(&g->nodes.at[n]) || constant[n]) continue;
        const Within *own = &within[n];
        before = stage[n] = before < own->least ? own->least : before > own->most ? own->most : before;
    }
    line->node = arena_alloc(g->arena, sizeof *line->node * (size_t)(nforward + 1));
    for (int s = 0; s < line->nstages; s++)
        for (int n = 0; n < nforward; n++)
            if (stage[n] == s && !node_is_leaf(&g->nodes.at[n]) && !constant[n]) line->node[line->n++] = n;
    return true;
}

/* ---------------------------------------------------------------- what a cut costs */

static double bytes_of(const Graph *g, const Node *node, int k) {
    Layout layout;
    const TensorType *type = &g->values.at[node->out[k]].type;
    strategy_out_layout(node, node->strategy, k, type->shape.ndim, &layout);
    return (double)layout_max_bytes(&layout, type);
}

/* About how many bytes of a rank of the stage a parameter takes, with its gradient and slots, which ranks with equal copies may divide. */
static double state_bytes(const Graph *g, const Node *user, int operand) {
    const int state = graph_producer(g, user->in[operand])->state;
    const State *of = &g->states.at[state];
    const ShardStates shared = of->hint != NULL && of->hint->at > 0 ? SHARD_NONE : g->settings.shard_states; /* on one rank: whole */
    Layout layout;
    strategy_in_layout(user, user->strategy, operand, of->type.shape.ndim, &layout);
    const double own = (double)layout_max_bytes(of->layout != NULL ? of->layout : &layout, &of->type), all = (double)type_bytes(&of->type);
    const double part = all < (double)g->settings.shard_bytes ? own : all / g->nranks;
    double bytes = shared >= SHARD_PARAMETERS ? part : own;
    for (int s = 0; s < g->states.n; s++)
        if (s != state && g->states.at[s].parameter == state) bytes += shared >= SHARD_OPTIMIZER ? part : own;
    return bytes + (of->trainable ? own : 0);
}

/* Per value: a gradient reads it. */
static bool *taken_by_gradients(const Graph *g) {
    bool *taken = arena_alloc(g->arena, (size_t)g->values.n + 1);
    for (int n = graph_nforward(g); n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin && !graph_is_forward(g, n); i++)
            taken[g->nodes.at[n].in[i]] = true;
    return taken;
}

/* Sums up to each position: the seconds that its operators take, and the bytes that they hold. */
static void line_sums(Line *line) {
    const Graph *g = line->g;
    const bool *active = graph_active(g, g->arena), *taken = taken_by_gradients(g);
    bool *known = arena_alloc(g->arena, (size_t)g->states.n + 1);
    for (int p = 0; p < line->n; p++) {
        const Node *node = &g->nodes.at[line->node[p]];
        const double backward = node->nout > 0 && active[node->out[0]] ? 2 : 0; /* kernels of gradients take about twice as long */
        line->behind[p + 1] = line->behind[p] + (1 + backward) * operator_seconds(line->b->options->machine, g, node, node->strategy);
        line->states[p + 1] = line->states[p];
        line->held[p + 1] = line->held[p];
        for (int i = 0; i < node->nin; i++) {
            const Node *maker = graph_producer(g, node->in[i]);
            if (maker->op != OP_read || known[maker->state]) continue;
            known[maker->state] = true;
            line->states[p + 1] += state_bytes(g, node, i);
        }
        for (int k = 0; k < node->nout; k++)
            if (taken[node->out[k]] && !node->recompute) line->held[p + 1] += bytes_of(g, node, k);
    }
}

/* Counts what crosses each cut: values that are made before it and read behind it. */
static void line_crossings(Line *line) {
    const Graph *g = line->g;
    const bool *active = graph_active(g, g->arena);
    int *last = arena_alloc(g->arena, sizeof *last * (size_t)(g->values.n + 1)); /* per value the position of its last user */
    for (int p = 0; p < line->n; p++)
        for (int i = 0; i < g->nodes.at[line->node[p]].nin; i++)
            last[g->nodes.at[line->node[p]].in[i]] = p;
    for (int p = 0; p < line->n; p++) { /* as differences, then summed */
        const Node *node = &g->nodes.at[line->node[p]];
        for (int k = 0; k < node->nout; k++) {
            if (last[node->out[k]] <= p) continue;
            const int messages = active[node->out[k]] ? 2 : 1;
            const double bytes = messages * bytes_of(g, node, k);
            line->bytes[p + 1] += bytes;
            line->bytes[last[node->out[k]] + 1] -= bytes;
            line->messages[p + 1] += messages;
            line->messages[last[node->out[k]] + 1] -= messages;
        }
    }
    for (int p = 1; p <= line->n; p++)
        line->bytes[p] += line->bytes[p - 1], line->messages[p] += line->messages[p - 1];
}

static const StageHint *asked_at(const Line *line, int position) {
    return line->g->nodes.at[line->node[position]].asked;
}

static void line_asked(Line *line) {
    line->next_asked[line->n] = line->n;
    for (int p = line->n - 1; p >= 0; p--)
        line->next_asked[p] = asked_at(line, p) != NULL ? p : line->next_asked[p + 1];
    line->last_asked[0] = -1;
    for (int p = 0; p < line->n; p++)
        line->last_asked[p + 1] = asked_at(line, p) != NULL ? p : line->last_asked[p];
}

static void line_batches(Line *line) {
    const Settings *settings = &line->g->settings;
    const int nstages = settings_stages(settings);
    const Turns turns = {settings->pipeline, .nstages = nstages, .nchunks = line->nstages / nstages,
                         .nbatches = (int)settings_batches(settings), .backward = true};
    line->batches = arena_alloc(line->g->arena, sizeof *line->batches * (size_t)line->nstages);
    for (int s = 0; s < line->nstages; s++)
        line->batches[s] = turns_held(&turns, s);
}

/* False after a diagnostic. */
static bool line_init(Line *line, const Build *b, Graph *g, const bool *constant) {
    const size_t n = (size_t)graph_nforward(g) + 2;
    *line = (Line){.b = b, .g = g, .nstages = settings_parts(&g->settings)};
    line->behind = arena_alloc(g->arena, sizeof *line->behind * n);
    line->states = arena_alloc(g->arena, sizeof *line->states * n);
    line->held = arena_alloc(g->arena, sizeof *line->held * n);
    line->messages = arena_alloc(g->arena, sizeof *line->messages * n);
    line->bytes = arena_alloc(g->arena, sizeof *line->bytes * n);
    line->next_asked = arena_alloc(g->arena, sizeof *line->next_asked * n);
    line->last_asked = arena_alloc(g->arena, sizeof *line->last_asked * n);
    if (!line_order(line, constant)) return false;
    line_sums(line);
    line_crossings(line);
    line_asked(line);
    line_batches(line);
    return true;
}

/* The seconds of what crosses the cut at a position. */
static double crossing_seconds(const Line *line, int position) {
    const Machine *machine = machine_of(line->b);
    const MachineLevel *link = line->g->nranks < machine->ranks_per_node ? &machine->rank : &machine->node;
    if (position == 0 || position == line->n || line->bytes[position] == 0) return 0;
    return line->messages[position] * link->latency_s + line->bytes[position] / link->bytes_per_s;
}

/* ---------------------------------------------------------------- where to cut */

/* Whether a cut at a position keeps what one operator was expanded to together. */
static bool may_cut(const Line *line, int p) {
    return chosen_of(line->b, line->node[p - 1]) != chosen_of(line->b, line->node[p]);
}

/* Where hints ask for other stages at positions from and to, without a hint between: marks enough places for the cuts between them. */
static void mark_between(const Line *line, int from, int to, bool *marked) {
    int missing = asked_at(line, to)->stage - asked_at(line, from)->stage, best = -1;
    if (missing == 0) return;
    for (int p = from + 1; p <= to; p++)
        if (may_cut(line, p) && (best < 0 || line->bytes[p] < line->bytes[best])) best = p;
    if (best >= 0) marked[best] = true;
    for (int p = from + 1; p <= to && missing > 1; p++)
        if (may_cut(line, p)) marked[p] = true, missing--;
}

/* The places for cuts: in each of MAX_CUTS runs of operators that take about as long, where the fewest bytes cross; and what hints need. */
static void line_cuts(Line *line) {
    bool *marked = arena_alloc(line->g->arena, (size_t)line->n + 1);
    const double each = line->n > MAX_CUTS ? line->behind[line->n] / MAX_CUTS : 0;
    for (int p = 1; p < line->n;) {
        int best = -1;
        const int run = each > 0 ? (int)(line->behind[p] / each) : p;
        for (; p < line->n && (each > 0 ? (int)(line->behind[p] / each) : p) == run; p++)
            if (may_cut(line, p) && (best < 0 || line->bytes[p] < line->bytes[best])) best = p;
        if (best >= 0) marked[best] = true;
    }
    for (int p = line->next_asked[0]; p < line->n && line->next_asked[p + 1] < line->n; p = line->next_asked[p + 1])
        mark_between(line, p, line->next_asked[p + 1], marked);
    line->cut = arena_alloc(line->g->arena, sizeof *line->cut * (size_t)(line->n + 2));
    line->cut[line->ncuts++] = 0;
    for (int p = 1; p < line->n; p++)
        if (marked[p]) line->cut[line->ncuts++] = p;
    line->cut[line->ncuts++] = line->n;
}

/* A ChainRun. False: a hint in it asks for another stage. In a line such stages ascend, so its first and last hint decide. */
static bool stage_run(const void *context, int stage, int from, int to, ChainRun *run) {
    const Line *line = context;
    const int begin = line->cut[from], end = line->cut[to], first = line->next_asked[begin], last = line->last_asked[end];
    if (first < end && asked_at(line, first)->stage < stage) return false;
    if (last >= begin && asked_at(line, last)->stage > stage) return false;
    run->seconds = line->behind[end] - line->behind[begin] + crossing_seconds(line, begin) + crossing_seconds(line, end);
    run->bytes = line->states[end] - line->states[begin] + line->batches[stage] * (line->held[end] - line->held[begin]);
    return true;
}

static bool none_left(const Line *line, int stage, int position) {
    const Node *node = &line->g->nodes.at[line->node[position]];
    diag_error(line->b->diags, node->asked->span, "no operator is left for stage %d: %s is of stage %d", stage, node->name,
               node->asked->stage);
    diag_hint(line->b->diags, "each stage has an operator at least, and the operators of a stage follow each other");
    return false;
}

/* Hints at the most stages, or chunks of as many stages, that there are enough operators for. */
static void hint_fewer(const Line *line) {
    Diags *diags = line->b->diags;
    const int nstages = settings_stages(&line->g->settings), nranks = line->g->nranks * nstages, runs = line->ncuts - 1;
    if (nstages <= runs) {
        const int chunks = runs / nstages;
        diag_hint(diags, chunks > 1 ? "at most chunks = %d; or fewer stages" : "leave out chunks, or fewer stages", chunks);
        return;
    }
    int most = runs;
    while (most > 1 && nranks % most != 0)
        most--;
    if (most > 1)
        diag_hint(diags, "at most stages = %d; of %d ranks", most, nranks);
    else
        diag_hint(diags, "leave out stages: %d ranks have no number of stages that this net is enough for", nranks);
}

/* Says why there are no cuts. */
static bool no_cuts(const Line *line) {
    const Settings *settings = &line->g->settings;
    int before = -1, stage = -1;
    for (int p = line->next_asked[0]; p < line->n; before = p, stage = asked_at(line, p)->stage, p = line->next_asked[p + 1])
        if (asked_at(line, p)->stage - stage > p - before) return none_left(line, stage + 1, p);
    if (before >= 0 && line->nstages - stage > line->n - before) return none_left(line, stage + 1, before);
    const int nstages = settings_stages(settings);
    if (line->nstages > nstages)
        diag_error(line->b->diags, settings->chunks_span, "%d stages with %lld chunks of %d operator%s: some would have none", nstages,
                   (long long)settings->chunks, line->n, line->n == 1 ? "" : "s");
    else
        diag_error(line->b->diags, settings->stages_span, "%d stages of %d operator%s: some would have none", nstages, line->n,
                   line->n == 1 ? "" : "s");
    hint_fewer(line);
    return false;
}

static StageWhy why(const Line *line, int p, int stage) {
    const int before = line->last_asked[p + 1], behind = line->next_asked[p];
    if (before == p) return (StageWhy){.cause = STAGE_ASKED};
    if (before < 0 || behind == line->n || asked_at(line, before)->stage != stage || asked_at(line, behind)->stage != stage)
        return (StageWhy){.cause = STAGE_CUT};
    return (StageWhy){STAGE_BETWEEN, chosen_of(line->b, line->node[before]), chosen_of(line->b, line->node[behind])};
}

/* Gives the operators of a line the stages. False after a diagnostic. */
static bool cut_line(Build *b, Line *line) {
    double *crossing = arena_alloc(line->g->arena, sizeof *crossing * (size_t)line->ncuts);
    int *place = arena_alloc(line->g->arena, sizeof *place * (size_t)(line->nstages + 1));
    const int nstages = settings_stages(&line->g->settings); /* each has equally many parts */
    const int64_t most = b->front.decision != NULL ? b->front.decision->limit : budget_limit(b);
    const int64_t limit = line->g->settings.cut_bytes > 0 ? line->g->settings.cut_bytes : most;
    for (int i = 0; i < line->ncuts; i++)
        crossing[i] = line->bytes[line->cut[i]];
    const Chain chain = {.nplaces = line->ncuts,
                         .nruns = line->nstages,
                         .run = stage_run,
                         .context = line,
                         .crossing = crossing,
                         .limit_bytes = (double)limit * nstages / line->nstages};
    if (!chain_cut(&chain, line->g->arena, place)) return no_cuts(line);
    b->front.stage_why = arena_alloc(b->arena, sizeof *b->front.stage_why * (size_t)(b->front.chosen.nodes.n + 1));
    for (int k = 0; k < line->nstages; k++) {
        ChainRun run;
        stage_run(line, k, place[k], place[k + 1], &run);
        if (run.seconds > b->front.stage_s) b->front.stage_s = run.seconds;
        for (int p = line->cut[place[k]]; p < line->cut[place[k + 1]]; p++) {
            line->g->nodes.at[line->node[p]].stage = k + 1;
            b->front.stage_why[chosen_of(b, line->node[p])] = why(line, p, k);
        }
    }
    return true;
}

static bool cut_forward(Build *b, Graph *g, const bool *constant) {
    Line line;
    if (!line_init(&line, b, g, constant)) return false;
    line_cuts(&line);
    return cut_line(b, &line);
}

/* Per state of train: the stage that reads and writes it, or holds it; 0: all. */
static int *stages_of_states(const Graph *g, Arena *arena) {
    int *of_state = arena_alloc(arena, sizeof *of_state * (size_t)(g->states.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_read || g->nodes.at[n].op == OP_write) of_state[g->nodes.at[n].state] = g->nodes.at[n].stage;
    for (int s = 0; s < g->states.n; s++)
        if (of_state[s] == 0) of_state[s] = pin_stage(g, &g->states.at[s].layout->pin) + 1;
    return of_state;
}

/* States of train have the stage that they have there (follow); other nodes have the last stage of their operands. */
static void follow_forward(Graph *g, const Graph *train, const bool *constant) {
    const int *of_state = stages_of_states(train, g->arena);
    for (int n = 0; n < graph_nforward(g); n++) {
        Node *node = &g->nodes.at[n];
        if (node->op == OP_read && node->state < train->states.n && of_state[node->state] > 0) node->stage = of_state[node->state];
        for (int i = 0; i < node->nin && !constant[n] && !node_is_leaf(node); i++) {
            const Node *maker = graph_producer(g, node->in[i]);
            if (maker->stage > node->stage) node->stage = maker->stage;
        }
    }
}

/* ---------------------------------------------------------------- all other nodes */

/* Leaves: a parameter has the stage of its first user, an input that of all its users, if it is one. of_state: per state, to be filled. */
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
        if (node->op == OP_input)
            node->stage =
                input_is_text(g->inputs.at[node->state].kind) || first[node->out[0]] != last[node->out[0]] ? 0 : first[node->out[0]];
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

/* A copy for another batch, and a gradient, have the stage of their origin; an update that of its state; all other nodes the last stage
 * of their operands. */
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
    const bool *constant = graph_constant_nodes(g);
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
    for (int s = 0; b->follows != NULL && s < b->follows->sharded.graph.states.n; s++) /* with their pins */
        g->states.at[s].layout = graph_layout(g, b->follows->sharded.graph.states.at[s].layout, &g->states.at[s].type.shape);
    return true;
}

Pin stage_pin(const Graph *g, int stage) {
    const int nstages = settings_stages(&g->settings);
    if (stage == 0 || nstages < 2) return (Pin){0};
    return (Pin){.digit = {nstages, g->nranks / nstages}, .value = (stage - 1) % nstages};
}

int pin_stage(const Graph *g, const Pin *pin) {
    return pin->digit.size == 0 ? -1 : pin->value * pin->digit.stride / (g->nranks / settings_stages(&g->settings));
}

bool pin_is_rank(const Graph *g, const Pin *pin) {
    return pin->digit.size == g->nranks && g->nranks > settings_stages(&g->settings);
}
