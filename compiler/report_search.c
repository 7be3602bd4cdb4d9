/* What other strategies of each operator would cost in the model of the search (search/model.h), on the mesh that it took, with all other operators as they are: the search weighs whole
 * nets, so what it passed over is known of none by itself. */
#include <math.h>
#include <string.h>

#include "compiler/report.h"
#include "search/model.h"

enum { MAX_WEIGHED = 4, MESH_AXES = 2 }; /* a model of more axes takes longer to make than all else of a compilation */
#define WORTH 4.0                        /* conversions with which a step would take so many times as long need not be told apart */

/* A sum of seconds, some of them infinite. */
typedef struct Sum {
    double finite;
    int infinite;
} Sum;

typedef struct Weighing {
    Model model;
    Sum **sum;       /* per free variable and choice of it: what it costs beside all that was taken */
    int *choice;     /* per variable: what was taken; -1: it is free, as the layouts that several operators share are */
    int *first, *at; /* per variable: its edges, at[first[v]] .. at[first[v + 1] - 1] */
    PlanData *data;
    const Build *b;
} Weighing;

static bool same_strategy(const Strategy *a, const Strategy *b) {
    return a->nfactors == b->nfactors && memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->digit, b->digit, a->start[a->nfactors] * sizeof *a->digit) == 0;
}

static int choice_of(const Graph *g, const Chooser *chooser) {
    if (chooser->node < 0) return -1;
    const Strategy *taken = g->nodes.at[chooser->node].strategy;
    for (int k = 0; taken != NULL && k < chooser->class->n; k++)
        if (same_strategy(&chooser->class->strategy[k], taken)) return k;
    return -1;
}

static void find_edges(Weighing *w, Arena *arena) {
    const Problem *problem = &w->model.problem;
    const size_t n = (size_t)problem->variables.n;
    w->first = arena_alloc(arena, (n + 2) * sizeof *w->first);
    w->at = arena_alloc(arena, (2 * (size_t)problem->edges.n + 1) * sizeof *w->at);
    for (int e = 0; e < problem->edges.n; e++)
        w->first[problem->edges.at[e].from + 1]++, w->first[problem->edges.at[e].to + 1]++;
    for (size_t v = 0; v < n; v++)
        w->first[v + 1] += w->first[v];
    int *next = arena_alloc(arena, (n + 1) * sizeof *next);
    memcpy(next, w->first, n * sizeof *next);
    for (int e = 0; e < problem->edges.n; e++) {
        w->at[next[problem->edges.at[e].from]++] = e;
        w->at[next[problem->edges.at[e].to]++] = e;
    }
}

/* Of an edge where variable v takes k and the other one j. */
static double edge_seconds(const Edge *edge, int v, int k, int j) {
    const int row = edge->from == v ? k : j, column = edge->from == v ? j : k;
    return edge->table->at[row * edge->table->ncolumns + column];
}

static int other_end(const Edge *edge, int v) {
    return edge->from == v ? edge->to : edge->from;
}

static void sum_add(Sum *sum, double seconds, int sign) {
    if (isfinite(seconds))
        sum->finite += sign * seconds;
    else
        sum->infinite += sign;
}

static void find_sums(Weighing *w, Arena *arena) {
    const Problem *problem = &w->model.problem;
    w->sum = arena_alloc(arena, ((size_t)problem->variables.n + 1) * sizeof *w->sum);
    for (int v = 0; v < problem->variables.n; v++) {
        const Variable *variable = &problem->variables.at[v];
        if (w->choice[v] >= 0) continue;
        w->sum[v] = arena_alloc(arena, (size_t)variable->nchoices * sizeof **w->sum);
        for (int j = 0; j < variable->nchoices; j++) {
            sum_add(&w->sum[v][j], variable->cost[j], 1);
            for (int i = w->first[v]; i < w->first[v + 1]; i++) {
                const Edge *edge = &problem->edges.at[w->at[i]];
                const int taken = w->choice[other_end(edge, v)];
                if (taken >= 0) sum_add(&w->sum[v][j], edge_seconds(edge, v, j, taken), 1);
            }
        }
    }
}

/* The least that a free variable costs where v takes k. */
static double free_seconds(const Weighing *w, int free, int v, int k) {
    const Variable *variable = &w->model.problem.variables.at[free];
    double least = INFINITY;
    for (int j = 0; j < variable->nchoices; j++) {
        Sum sum = w->sum[free][j];
        for (int i = w->first[v]; i < w->first[v + 1]; i++) {
            const Edge *edge = &w->model.problem.edges.at[w->at[i]];
            if (other_end(edge, v) != free) continue;
            sum_add(&sum, edge_seconds(edge, v, w->choice[v], j), -1);
            sum_add(&sum, edge_seconds(edge, v, k, j), 1);
        }
        if (sum.infinite == 0) least = fmin(least, sum.finite);
    }
    return least;
}

/* What a step takes, as far as it depends on v, where v takes k. */
static double seconds_with(const Weighing *w, int v, int k) {
    double seconds = w->model.problem.variables.at[v].cost[k];
    for (int i = w->first[v]; i < w->first[v + 1]; i++) {
        const Edge *edge = &w->model.problem.edges.at[w->at[i]];
        const int other = other_end(edge, v);
        bool counted = false; /* of two edges between two variables the first counts a free one */
        for (int before = w->first[v]; before < i && !counted; before++)
            counted = other_end(&w->model.problem.edges.at[w->at[before]], v) == other;
        if (w->choice[other] >= 0)
            seconds += edge_seconds(edge, v, k, w->choice[other]);
        else if (!counted)
            seconds += free_seconds(w, other, v, k);
    }
    return seconds;
}

static void write_variable(Weighing *w, int v, int node, StrategyNumber *strategy_number, void *context) {
    Json *json = &w->data->json;
    const Chooser *chooser = &w->model.choosers.at[v];
    const double taken = seconds_with(w, v, w->choice[v]);
    int best[MAX_WEIGHED] = {w->choice[v]}, n = 1;
    double seconds[MAX_WEIGHED] = {taken};
    for (int k = 0; k < chooser->class->n; k++) {
        const double its = k == w->choice[v] ? INFINITY : seconds_with(w, v, k);
        int at = n;
        if (!isfinite(its)) continue;
        while (at > 1 && its < seconds[at - 1])
            at--;
        if (at == MAX_WEIGHED) continue;
        if (n < MAX_WEIGHED) n++;
        for (int i = n - 1; i > at; i--)
            best[i] = best[i - 1], seconds[i] = seconds[i - 1];
        best[at] = k, seconds[at] = its;
    }
    json_list(json, NULL);
    json_int(json, NULL, node);
    json_int(json, NULL, chooser->class->n);
    json_list(json, NULL);
    for (int i = 0; i < n; i++) {
        json_list(json, NULL);
        json_int(json, NULL, strategy_number(context, chooser->node, &chooser->class->strategy[best[i]]));
        json_int(json, NULL, nanoseconds(seconds[i] - taken));
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

void report_weighed(PlanData *data, const Build *b, const int *node_of, StrategyNumber *strategy_number, void *context) {
    const SearchResult *found = b->front.search;
    Arena arena;
    json_array(&data->json, "weighed");
    if (found == NULL || found->mesh.naxes == 0 || found->mesh.naxes > MESH_AXES || b->follows != NULL) {
        json_end(&data->json);
        return;
    }
    arena_init(&arena);
    Weighing w = {.data = data, .b = b};
    const Graph *g = &b->front.chosen;
    model_init(&w.model,
               &(ModelInput){.graph = g,
                             .out_layout = b->front.propagation.out_layout,
                             .machine = b->options->machine,
                             .mesh = found->mesh,
                             .moves = moves_create(&arena, b->options->machine, g->nranks),
                             .batches = b->front.batches,
                             .most = WORTH * found->seconds},
               &arena);
    const int n = w.model.problem.variables.n;
    w.choice = arena_alloc(&arena, ((size_t)n + 1) * sizeof *w.choice);
    for (int v = 0; v < n; v++)
        w.choice[v] = choice_of(g, &w.model.choosers.at[v]);
    find_edges(&w, &arena);
    find_sums(&w, &arena);
    for (int v = 0; v < n; v++)
        if (w.choice[v] >= 0) write_variable(&w, v, node_of[w.model.choosers.at[v].node], strategy_number, context);
    json_end(&data->json);
    arena_finish(&arena);
}
