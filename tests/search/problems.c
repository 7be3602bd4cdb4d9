#include "tests/search/problems.h"

#include <math.h>

const char *const problem_shape_name[NSHAPES] = {"chain", "tree", "grid", "hubs", "random", "layers"};

static int below(uint64_t *random, int n) {
    return (int)(random_next(random) % (uint64_t)n);
}

static double random_cost(uint64_t *random, const ProblemKind *kind) {
    if (below(random, 100) < kind->infinite_percent) return INFINITY;
    if (below(random, 100) < kind->zero_percent) return 0;
    return below(random, kind->largest + 1);
}

static const CostTable *random_table(Arena *arena, uint64_t *random, const ProblemKind *kind, int nrows, int ncolumns) {
    double *at = arena_alloc(arena, (size_t)(nrows * ncolumns) * sizeof *at);
    for (int i = 0; i < nrows * ncolumns; i++)
        at[i] = random_cost(random, kind);
    CostTable *table = arena_alloc(arena, sizeof *table);
    *table = (CostTable){nrows, ncolumns, at};
    return table;
}

static void connect(Problem *problem, Arena *arena, uint64_t *random, const ProblemKind *kind, int from, int to) {
    if (below(random, 2)) {
        int other = from;
        from = to, to = other;
    }
    const CostTable *table = random_table(arena, random, kind, problem->variables.at[from].nchoices, problem->variables.at[to].nchoices);
    vec_push(arena, &problem->edges, (Edge){from, to, table});
    if (kind->parallel && below(random, 4) == 0) connect(problem, arena, random, kind, to, from);
}

/* Layers of four variables that share their tables, each linked with the next. */
static void layers(Problem *problem, Arena *arena, uint64_t *random, const ProblemKind *kind) {
    int n = problem->variables.n;
    static const int from[] = {0, 0, 1, 2, 3}, to[] = {1, 2, 3, 3, 4};
    const CostTable *table[5];
    for (int v = 4; v < n; v++)
        problem->variables.at[v] = problem->variables.at[v % 4];
    for (int k = 0; k < 5; k++)
        table[k] =
            random_table(arena, random, kind, problem->variables.at[from[k] % n].nchoices, problem->variables.at[to[k] % 4 % n].nchoices);
    for (int v = 0; v < n; v++)
        for (int k = 0; k < 5; k++)
            if (v % 4 == from[k] && v - from[k] + to[k] < n) vec_push(arena, &problem->edges, (Edge){v, v - from[k] + to[k], table[k]});
}

void problem_random(Problem *problem, Arena *arena, uint64_t *random, const ProblemKind *kind) {
    *problem = (Problem){0};
    int n = kind->nvariables;
    for (int v = 0; v < n; v++) {
        Variable variable = {.nchoices = 1 + below(random, kind->most_choices), .begin = below(random, 6)};
        variable.end = variable.begin + below(random, 6);
        double *cost = arena_alloc(arena, (size_t)variable.nchoices * sizeof *cost);
        int64_t *bytes = arena_alloc(arena, (size_t)variable.nchoices * sizeof *bytes);
        for (int i = 0; i < variable.nchoices; i++)
            cost[i] = random_cost(random, kind), bytes[i] = below(random, 10);
        variable.cost = cost;
        if (kind->memory && below(random, 5)) variable.bytes = bytes;
        vec_push(arena, &problem->variables, variable);
    }
    int width = n < 6 ? 2 : 3;
    if (kind->shape == SHAPE_LAYERS) layers(problem, arena, random, kind);
    for (int v = 0; v < n; v++) {
        if (kind->shape == SHAPE_CHAIN && v > 0) connect(problem, arena, random, kind, v - 1, v);
        if (kind->shape == SHAPE_TREE && v > 0) connect(problem, arena, random, kind, below(random, v), v);
        if (kind->shape == SHAPE_GRID && v % width > 0) connect(problem, arena, random, kind, v - 1, v);
        if (kind->shape == SHAPE_GRID && v >= width) connect(problem, arena, random, kind, v - width, v);
        if (kind->shape == SHAPE_HUBS && v > 1) connect(problem, arena, random, kind, below(random, 2), v);
        if (kind->shape == SHAPE_HUBS && v > 2) connect(problem, arena, random, kind, v - 1, v);
        if (kind->shape == SHAPE_RANDOM)
            for (int u = 0; u < v; u++)
                if (below(random, 2)) connect(problem, arena, random, kind, u, v);
    }
    int64_t least[12] = {0}, most[12] = {0}, low = 0, high = 0;
    for (int v = 0; v < n; v++) {
        const Variable *variable = &problem->variables.at[v];
        if (variable->bytes == NULL) continue;
        int64_t small = variable->bytes[0], large = small;
        for (int i = 0; i < variable->nchoices; i++) {
            if (variable->bytes[i] < small) small = variable->bytes[i];
            if (variable->bytes[i] > large) large = variable->bytes[i];
        }
        for (int time = variable->begin; time < variable->end; time++)
            least[time] += small, most[time] += large;
    }
    for (int time = 0; time < 12; time++) {
        if (least[time] > low) low = least[time];
        if (most[time] > high) high = most[time];
    }
    if (kind->memory) problem->limit_bytes = low + (high - low) * kind->memory / 100 - (kind->memory < 0);
    if (problem->limit_bytes < 1 && kind->memory) problem->limit_bytes = 1;
}

ProblemKind problem_kind_random(uint64_t *random) {
    static const int choices[] = {2, 3, 4, 6}, variables[] = {12, 9, 7, 5}, memories[] = {0, 0, 0, 60, 40, 20, 5, -10},
                     largest[] = {1, 4, 100, 1000000};
    int size = below(random, 4);
    return (ProblemKind){
        .shape = (ProblemShape)below(random, NSHAPES),
        .nvariables = 1 + below(random, variables[size]),
        .most_choices = choices[size],
        .infinite_percent = below(random, 3) ? 0 : below(random, 50),
        .zero_percent = below(random, 3) ? 0 : below(random, 100),
        .largest = largest[below(random, 4)],
        .memory = memories[below(random, 8)],
        .parallel = below(random, 3) == 0,
    };
}

void problem_print(FILE *out, const Problem *problem) {
    fprintf(out, "limit %lld\n", (long long)problem->limit_bytes);
    for (int v = 0; v < problem->variables.n; v++) {
        const Variable *variable = &problem->variables.at[v];
        fprintf(out, "%d at [%d, %d):", v, variable->begin, variable->end);
        for (int i = 0; i < variable->nchoices; i++)
            fprintf(out, " %g/%lld", variable->cost[i], variable->bytes ? (long long)variable->bytes[i] : 0);
        fprintf(out, "\n");
    }
    for (int e = 0; e < problem->edges.n; e++) {
        const Edge *edge = &problem->edges.at[e];
        fprintf(out, "%d - %d:", edge->from, edge->to);
        for (int i = 0; i < edge->table->nrows * edge->table->ncolumns; i++)
            fprintf(out, "%s%g", i % edge->table->ncolumns ? " " : i ? " | " : " ", edge->table->at[i]);
        fprintf(out, "\n");
    }
}

void core_random(RandomCore *it, uint64_t seed, const ProblemKind *kind) {
    *it = (RandomCore){.random = seed};
    arena_init(&it->arena);
    const ProblemKind any = problem_kind_random(&it->random);
    problem_random(&it->problem, &it->arena, &it->random, kind != NULL ? kind : &any);
    it->known = (Known){.tables = {.arena = &it->arena, .work = &it->work}};
    core_init(&it->core, &it->problem, &it->known, &it->arena);
}

Best problem_best(const Problem *problem) {
    Best best = {INFINITY, -1};
    Arena arena;
    arena_init(&arena);
    int *choice = arena_alloc(&arena, (size_t)problem->variables.n * sizeof *choice);
    for (int v = 0; v < problem->variables.n;) {
        double cost = problem_cost(problem, choice);
        if (isfinite(cost)) {
            int64_t peak = problem_peak(problem, choice);
            if (best.least_peak < 0 || peak < best.least_peak) best.least_peak = peak;
            if ((problem->limit_bytes == 0 || peak <= problem->limit_bytes) && cost < best.cost) best.cost = cost;
        }
        for (v = 0; v < problem->variables.n && ++choice[v] == problem->variables.at[v].nchoices; v++)
            choice[v] = 0;
    }
    arena_finish(&arena);
    return best;
}
