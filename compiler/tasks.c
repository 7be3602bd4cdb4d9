/* The order of a pipeline, as if a forward pass took one unit of time in each stage and a backward pass two, and messages none: tasks come in the order in which they then
 * begin. Each stage has a list of its own, which `pipeline_scheduler` says:
 * - 1f1b: as many forward passes as there are stages behind it, then a forward and a backward pass in turn, then the backward passes that are left (PipeDream-Flush,
 *   Narayanan et al. 2021): a stage holds the activations of no more batches than there are stages from it to the last one;
 * - gpipe: all forward passes, then all backward passes (Huang et al. 2019).
 * Either leaves each stage idle for (p - 1) / (m + p - 1) of a step of p stages and m batches. */
#include "compiler/tasks.h"

#include <stdlib.h>

#include "compiler/sharded.h"

typedef struct Task {
    int stage, batch; /* from 0 */
    bool backward;
    double begin_s, end_s; /* in units of a forward pass; end_s < 0: not done */
} Task;

typedef struct Pipe {
    int nstages, nbatches;
    bool backward; /* there are backward passes */
    Task *task;    /* [stage][batch][backward] */
} Pipe;

static Task *task_of(const Pipe *pipe, int stage, int batch, bool backward) {
    return &pipe->task[(stage * pipe->nbatches + batch) * 2 + backward];
}

/* The k-th task of a stage; NULL: it has no more. */
static Task *turn_of(const Pipe *pipe, Pipeline order, int stage, int k) {
    const int m = pipe->nbatches, behind = pipe->nstages - 1 - stage;
    const int first = order == PIPELINE_GPIPE || behind > m ? m : behind; /* forward passes before the first backward pass, but for one */
    if (!pipe->backward) return k < m ? task_of(pipe, stage, k, false) : NULL;
    if (k >= 2 * m) return NULL;
    if (k < first) return task_of(pipe, stage, k, false);
    if (k >= 2 * m - first) return task_of(pipe, stage, k - m, true);
    return task_of(pipe, stage, (k - first) % 2 == 0 ? first + (k - first) / 2 : (k - first) / 2, (k - first) % 2 == 1);
}

/* What must be done before; NULL: nothing. */
static const Task *before(const Pipe *pipe, const Task *task) {
    if (!task->backward) return task->stage > 0 ? task_of(pipe, task->stage - 1, task->batch, false) : NULL;
    return task->stage + 1 < pipe->nstages ? task_of(pipe, task->stage + 1, task->batch, true)
                                           : task_of(pipe, task->stage, task->batch, false);
}

/* Each stage does its list; what can begin first is next. */
static void run(const Pipe *pipe, Pipeline order, int *next, double *free_s) {
    for (;;) {
        Task *first = NULL;
        for (int s = 0; s < pipe->nstages; s++) {
            Task *task = turn_of(pipe, order, s, next[s]);
            const Task *needs = task != NULL ? before(pipe, task) : NULL;
            if (task == NULL || (needs != NULL && needs->end_s < 0)) continue;
            task->begin_s = needs != NULL && needs->end_s > free_s[s] ? needs->end_s : free_s[s];
            if (first == NULL || task->begin_s < first->begin_s) first = task;
        }
        if (first == NULL) return;
        first->end_s = free_s[first->stage] = first->begin_s + (first->backward ? 2 : 1);
        next[first->stage]++;
    }
}

/* By begin; of those that begin at once the last stage first: what the others send to it is waited for by then. */
static int by_begin(const void *a, const void *b) {
    const Task *const *x = a, *const *y = b;
    if ((*x)->begin_s != (*y)->begin_s) return (*x)->begin_s < (*y)->begin_s ? -1 : 1;
    return (*y)->stage - (*x)->stage;
}

/* Per task its number. */
static int *number(const Pipe *pipe, Arena *arena) {
    const int n = pipe->nstages * pipe->nbatches * 2;
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

int *tasks_order(const Build *b) {
    const Graph *g = &b->spmd.graph;
    const int nstages = settings_stages(&g->settings);
    Pipe pipe = {.nstages = nstages, .nbatches = 1};
    if (nstages < 2) return NULL;
    for (int n = 0; n < g->nodes.n; n++) {
        const int phase = phase_of(b, n);
        if (phase / 2 >= pipe.nbatches) pipe.nbatches = phase / 2 + 1;
        pipe.backward = pipe.backward || phase > 0;
    }
    pipe.task = arena_alloc(b->arena, sizeof *pipe.task * (size_t)nstages * (size_t)pipe.nbatches * 2);
    for (int s = 0; s < nstages; s++)
        for (int k = 0; k < 2 * pipe.nbatches; k++)
            *task_of(&pipe, s, k / 2, k % 2 == 1) = (Task){.stage = s, .batch = k / 2, .backward = k % 2 == 1, .end_s = -1};
    run(&pipe, g->settings.pipeline, arena_alloc(b->arena, sizeof(int) * (size_t)nstages),
        arena_alloc(b->arena, sizeof(double) * (size_t)nstages));
    const int *numbers = number(&pipe, b->arena);
    int *order = arena_alloc(b->arena, sizeof *order * (size_t)(g->nodes.n + 1));
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        const int phase = phase_of(b, n);
        if (!node_is_leaf(node) && phase >= 0 && node->strategy != NULL && node->strategy->pin.digit.size > 0) {
            order[n] = numbers[task_of(&pipe, node->strategy->pin.value, phase / 2, phase % 2 == 1) - pipe.task];
        }
        for (int i = 0; i < node->nin; i++) { /* never before what it needs: in program order that has its task */
            const int maker = g->values.at[node->in[i]].node;
            if (order[maker] > order[n]) order[n] = order[maker];
        }
    }
    return order;
}
