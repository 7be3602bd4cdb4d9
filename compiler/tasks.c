/* The order of a pipeline's tasks: that in which they begin if a forward pass of a part takes one unit of time, a backward pass two, and messages none. Each stage has a list of
 * its own, as `pipeline_scheduler` says:
 * - 1f1b: as many forward passes as there are stages behind it, then a forward and a backward pass in turn, then the backward passes that are left (PipeDream-Flush,
 *   Narayanan et al. 2021): a stage holds the activations of no more batches than there are stages from it to the last one;
 * - gpipe: all forward passes, then all backward passes (Huang et al. 2019);
 * - interleaved: a stage has v parts of the net, the chunks. It takes p batches through the first, then the same through the next one, and so on; backward likewise from the last
 *   chunk on. Again a forward and a backward pass come in turn, after (v - 1) p forward passes and two more for each stage behind it (Narayanan et al. 2021, section 2.2;
 *   Megatron-LM's schedules.py).
 * The first two leave each stage idle for (p - 1) / (m + p - 1) of a step of p stages and m batches, the last one for (p - 1) / (v m + p - 1). */
#include "compiler/tasks.h"

#include <stdlib.h>

#include "compiler/sharded.h"

/* ---------------------------------------------------------------- the list of a stage */

/* The i-th forward, or backward, pass of a stage: p batches of a chunk come first, then the same of the next one. */
static Turn pass_of(const Turns *turns, int stage, int i, bool backward) {
    const int p = turns->nstages, v = turns->nchunks, group = i / (p * v), left = turns->nbatches - group * p;
    const int together = left < p ? left : p, within = i - group * p * v, chunk = within / together;
    return (Turn){.part = (backward ? v - 1 - chunk : chunk) * p + stage, .batch = group * p + within % together, .backward = backward};
}

/* How many forward passes come before a forward and a backward pass in turn. */
static int first_passes(const Turns *turns, int stage) {
    const int all = turns->nbatches * turns->nchunks, behind = turns->nstages - 1 - stage;
    int first = all;
    switch (turns->order) {
    case PIPELINE_1F1B:
        first = behind;
        break;
    case PIPELINE_INTERLEAVED:
        first = 2 * behind + (turns->nchunks - 1) * turns->nstages;
        break;
    case PIPELINE_GPIPE:
    case NPIPELINES:
        break;
    }
    return first < all ? first : all;
}

bool turn_of(const Turns *turns, int stage, int k, Turn *turn) {
    const int n = turns->nbatches * turns->nchunks, first = turns->backward ? first_passes(turns, stage) : n;
    const int in_turn = k - first; /* the place among those that come in turn */
    if (k >= (turns->backward ? 2 * n : n)) return false;
    if (in_turn < 0)
        *turn = pass_of(turns, stage, k, false);
    else if (k >= 2 * n - first)
        *turn = pass_of(turns, stage, k - n, true);
    else
        *turn = in_turn % 2 == 0 ? pass_of(turns, stage, first + in_turn / 2, false) : pass_of(turns, stage, in_turn / 2, true);
    return true;
}

int turns_held(const Turns *turns, int part) {
    Turn turn;
    int held = 0, most = 0, of_part = 0, of_part_then = 0;
    for (int k = 0; turn_of(turns, part % turns->nstages, k, &turn); k++) {
        const int more = turn.backward ? -1 : 1;
        held += more;
        of_part += turn.part == part ? more : 0;
        if (held > most) most = held, of_part_then = of_part;
    }
    return of_part_then;
}

/* ---------------------------------------------------------------- all stages together */

typedef struct Task {
    int stage;
    double begin_s, end_s; /* in units of a forward pass; end_s < 0: not done */
} Task;

typedef struct Pipe {
    Turns turns;
    Task *task; /* [part][batch][backward] */
} Pipe;

static Task *task_of(const Pipe *pipe, int part, int batch, bool backward) {
    return &pipe->task[(part * pipe->turns.nbatches + batch) * 2 + backward];
}

/* The task that must be done before this one; NULL: none. */
static const Task *before(const Pipe *pipe, const Turn *turn) {
    const bool last = turn->part + 1 == pipe->turns.nstages * pipe->turns.nchunks;
    if (!turn->backward) return turn->part > 0 ? task_of(pipe, turn->part - 1, turn->batch, false) : NULL;
    return last ? task_of(pipe, turn->part, turn->batch, false) : task_of(pipe, turn->part + 1, turn->batch, true);
}

/* Simulates all stages, each of which does its list: the task that can begin first is next. */
static void run(const Pipe *pipe, int *next, double *free_s) {
    for (;;) {
        Task *first = NULL;
        bool backward = false;
        for (int s = 0; s < pipe->turns.nstages; s++) {
            Turn turn;
            if (!turn_of(&pipe->turns, s, next[s], &turn)) continue;
            Task *task = task_of(pipe, turn.part, turn.batch, turn.backward);
            const Task *needs = before(pipe, &turn);
            if (needs != NULL && needs->end_s < 0) continue;
            task->begin_s = needs != NULL && needs->end_s > free_s[s] ? needs->end_s : free_s[s];
            if (first == NULL || task->begin_s < first->begin_s) first = task, backward = turn.backward;
        }
        if (first == NULL) return;
        first->end_s = free_s[first->stage] = first->begin_s + (backward ? 2 : 1);
        next[first->stage]++;
    }
}

/* By begin; of tasks that begin at once the one of the last stage is first: what the others send to it is waited for by then. */
static int by_begin(const void *a, const void *b) {
    const Task *const *x = a, *const *y = b;
    if ((*x)->begin_s != (*y)->begin_s) return (*x)->begin_s < (*y)->begin_s ? -1 : 1;
    return (*y)->stage - (*x)->stage;
}

static int pipe_ntasks(const Pipe *pipe) {
    return pipe->turns.nstages * pipe->turns.nchunks * pipe->turns.nbatches * 2;
}

/* Per task its number. */
static int *number(const Pipe *pipe, Arena *arena) {
    const int n = pipe_ntasks(pipe);
    Task **sorted = arena_alloc(arena, sizeof *sorted * (size_t)n);
    int *numbers = arena_alloc(arena, sizeof *numbers * (size_t)n);
    for (int t = 0; t < n; t++)
        sorted[t] = &pipe->task[t];
    qsort(sorted, (size_t)n, sizeof *sorted, by_begin);
    for (int k = 0; k < n; k++)
        numbers[sorted[k] - pipe->task] = k;
    return numbers;
}

static int phase_of(const Build *b, int node) {
    const int whole = b->spmd.whole_node.at[node];
    return whole < 0 ? -1 : b->sharded.phase[whole];
}

/* The part of the net, from 0, that a node belongs to. What reads whole gradients, which may be summed together, belongs to the part whose
 * gradients its stage makes last. */
static int part_of(const Build *b, int node, bool backward) {
    const Node *at = &b->spmd.graph.nodes.at[node];
    const int part = b->sharded.graph.nodes.at[b->spmd.whole_node.at[node]].stage;
    return part == 0 || (backward && gradient_is_whole(&b->spmd.graph, at)) ? pin_stage(&b->spmd.graph, &at->strategy->pin) : part - 1;
}

static void pipe_init(Pipe *pipe, const Build *b) {
    const Graph *g = &b->spmd.graph;
    const int nstages = settings_stages(&g->settings), nparts = settings_parts(&g->settings);
    Turns *turns = &pipe->turns;
    *turns = (Turns){.order = g->settings.pipeline, .nstages = nstages, .nchunks = nparts / nstages, .nbatches = 1};
    for (int n = 0; n < g->nodes.n; n++) {
        const int phase = phase_of(b, n);
        if (phase / 2 >= turns->nbatches) turns->nbatches = phase / 2 + 1;
        turns->backward = turns->backward || phase > 0;
    }
    pipe->task = arena_alloc(b->arena, sizeof *pipe->task * (size_t)pipe_ntasks(pipe));
    for (int t = 0; t < pipe_ntasks(pipe); t++)
        pipe->task[t] = (Task){.stage = t / (2 * turns->nbatches) % nstages, .end_s = -1};
}

int *tasks_order(const Build *b) {
    const Graph *g = &b->spmd.graph;
    const size_t nstages = (size_t)settings_stages(&g->settings);
    Pipe pipe;
    if (nstages < 2) return NULL;
    pipe_init(&pipe, b);
    run(&pipe, arena_alloc(b->arena, sizeof(int) * nstages), arena_alloc(b->arena, sizeof(double) * nstages));
    const int *numbers = number(&pipe, b->arena);
    int *order = arena_alloc(b->arena, sizeof *order * (size_t)(g->nodes.n + 1));
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        const int phase = phase_of(b, n);
        if (!node_is_leaf(node) && phase >= 0 && node->strategy != NULL && node->strategy->pin.digit.size > 0)
            order[n] = numbers[task_of(&pipe, part_of(b, n, phase % 2 == 1), phase / 2, phase % 2 == 1) - pipe.task];
        for (int i = 0; i < node->nin; i++) { /* never before its operands, which have their tasks already, as this is program order */
            const int maker = g->values.at[node->in[i]].node;
            if (order[maker] > order[n]) order[n] = order[maker];
        }
    }
    return order;
}
