#include "tests/bench/iopddl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORBIDDEN 1e18 /* from this cost on a strategy or pair is excluded */

typedef struct Numbers {
    VEC(double) at;
    VEC(int) begin; /* of each list; one more at the end */
} Numbers;

typedef struct Reading {
    const char *begin, *at;
    Arena *arena;
    Error *error;
} Reading;

static bool wrong(Reading *reading, const char *expected) {
    return error_set(reading->error, EXIT_REJECTED, "byte %td: expected %s, saw '%.16s'", reading->at - reading->begin, expected,
                     reading->at);
}

static char next(Reading *reading) {
    reading->at += strspn(reading->at, " \t\r\n");
    return *reading->at;
}

static bool take(Reading *reading, char mark) {
    if (next(reading) != mark) return false;
    reading->at++;
    return true;
}

static bool read_number(Reading *reading, double *number) {
    next(reading);
    char *end;
    *number = strtod(reading->at, &end);
    if (end == reading->at || !isfinite(*number)) return wrong(reading, "a number");
    reading->at = end;
    return true;
}

static bool read_string(Reading *reading, char *text, size_t cap) {
    if (!take(reading, '"')) return wrong(reading, "a string");
    size_t n = strcspn(reading->at, "\"\\");
    if (reading->at[n] != '"') return wrong(reading, "a string without escapes, up to its end");
    snprintf(text, cap, "%.*s", n < cap ? (int)n : (int)cap - 1, reading->at);
    reading->at += n + 1;
    return true;
}

/* [[1, 2], [3]] */
static bool read_lists(Reading *reading, Numbers *numbers) {
    if (numbers->begin.n) return wrong(reading, "each key once");
    if (!take(reading, '[')) return wrong(reading, "[");
    vec_push(reading->arena, &numbers->begin, 0);
    if (take(reading, ']')) return true;
    do {
        if (!take(reading, '[')) return wrong(reading, "[");
        if (!take(reading, ']')) {
            do {
                double number;
                if (!read_number(reading, &number)) return false;
                vec_push(reading->arena, &numbers->at, number);
            } while (take(reading, ','));
            if (!take(reading, ']')) return wrong(reading, ", or ]");
        }
        vec_push(reading->arena, &numbers->begin, numbers->at.n);
    } while (take(reading, ','));
    return take(reading, ']') || wrong(reading, ", or ]");
}

typedef struct Parts {
    Numbers node_cost, usage, interval, edge, edge_cost;
    double limit;
} Parts;

/* An object of the keys that are known; prefix is its own key and a dot. */
static bool read_object(Reading *reading, const char *prefix, Parts *parts) {
    struct {
        const char *key;
        Numbers *numbers;
    } known[] = {{"nodes.costs", &parts->node_cost},
                 {"nodes.usages", &parts->usage},
                 {"nodes.intervals", &parts->interval},
                 {"edges.nodes", &parts->edge},
                 {"edges.costs", &parts->edge_cost}};
    if (!take(reading, '{')) return wrong(reading, "{");
    if (take(reading, '}')) return true;
    do {
        char key[64], path[128], name[8];
        if (!read_string(reading, key, sizeof key)) return false;
        if (!take(reading, ':')) return wrong(reading, ":");
        snprintf(path, sizeof path, "%s%s", prefix, key);
        bool done = false;
        for (size_t i = 0; i < sizeof known / sizeof *known && !done; i++) {
            if (strcmp(path, known[i].key) != 0) continue;
            done = true;
            if (!read_lists(reading, known[i].numbers)) return false;
        }
        if (done) continue;
        if (strcmp(path, "usage_limit") == 0 ? !read_number(reading, &parts->limit)
            : strcmp(path, "name") == 0      ? !read_string(reading, name, sizeof name)
            : strcmp(path, "problem") == 0   ? !read_object(reading, "", parts)
            : strcmp(path, "nodes") == 0     ? !read_object(reading, "nodes.", parts)
            : strcmp(path, "edges") == 0     ? !read_object(reading, "edges.", parts)
                                             : !wrong(reading, "a key of the format"))
            return false;
    } while (take(reading, ','));
    return take(reading, '}') || wrong(reading, ", or }");
}

static int length(const Numbers *numbers, int i) {
    return numbers->begin.at[i + 1] - numbers->begin.at[i];
}

static bool make_nodes(Problem *problem, const Parts *parts, Reading *reading) {
    int n = parts->node_cost.begin.n - 1;
    if (parts->usage.begin.n != n + 1 || parts->interval.begin.n != n + 1)
        return error_set(reading->error, EXIT_REJECTED, "nodes: as many lists of costs as of usages, and as many intervals, are needed");
    for (int v = 0; v < n; v++) {
        Variable variable = {.nchoices = length(&parts->node_cost, v)};
        if (variable.nchoices < 1 || length(&parts->usage, v) != variable.nchoices || length(&parts->interval, v) != 2)
            return error_set(reading->error, EXIT_REJECTED,
                             "node %d: costs and usages of the same strategies, and an interval of two times, are needed", v);
        const double *interval = parts->interval.at.at + parts->interval.begin.at[v];
        if (!(interval[0] >= 0 && interval[0] < 1e8 && interval[1] >= 0 && interval[1] < 1e8))
            return error_set(reading->error, EXIT_REJECTED, "node %d: times from 0 to 1e8 are needed", v);
        variable.begin = (int)interval[0], variable.end = (int)interval[1];
        double *cost = parts->node_cost.at.at + parts->node_cost.begin.at[v];
        const double *usage = parts->usage.at.at + parts->usage.begin.at[v];
        int64_t *bytes = arena_alloc(reading->arena, (size_t)variable.nchoices * sizeof *bytes);
        for (int i = 0; i < variable.nchoices; i++) {
            if (!(cost[i] >= 0 && usage[i] >= 0 && usage[i] <= FORBIDDEN))
                return error_set(reading->error, EXIT_REJECTED, "node %d: its costs and usages must not be negative", v);
            if (cost[i] >= FORBIDDEN) cost[i] = INFINITY;
            bytes[i] = (int64_t)usage[i];
        }
        variable.cost = cost, variable.bytes = bytes;
        vec_push(reading->arena, &problem->variables, variable);
    }
    return true;
}

static bool make_edges(Problem *problem, const Parts *parts, Reading *reading) {
    int n = parts->edge.begin.n - 1;
    if (parts->edge_cost.begin.n != n + 1)
        return error_set(reading->error, EXIT_REJECTED, "edges: as many lists of costs as of nodes are needed");
    for (int e = 0; e < n; e++) {
        if (length(&parts->edge, e) != 2)
            return error_set(reading->error, EXIT_REJECTED, "edge %d: joins %d nodes, only pairs are read", e, length(&parts->edge, e));
        const double *ends = parts->edge.at.at + parts->edge.begin.at[e];
        if (!(ends[0] >= 0 && ends[0] < problem->variables.n && ends[1] >= 0 && ends[1] < problem->variables.n && ends[0] != ends[1]))
            return error_set(reading->error, EXIT_REJECTED, "edge %d: joins nodes that there are not", e);
        Edge edge = {.from = (int)ends[0], .to = (int)ends[1]};
        int nrows = problem->variables.at[edge.from].nchoices, ncolumns = problem->variables.at[edge.to].nchoices;
        double *cost = parts->edge_cost.at.at + parts->edge_cost.begin.at[e];
        if (length(&parts->edge_cost, e) != nrows * ncolumns)
            return error_set(reading->error, EXIT_REJECTED, "edge %d: %d costs for %d x %d strategies", e, length(&parts->edge_cost, e),
                             nrows, ncolumns);
        for (int i = 0; i < nrows * ncolumns; i++) {
            if (cost[i] < 0) return error_set(reading->error, EXIT_REJECTED, "edge %d: its costs must not be negative", e);
            if (cost[i] >= FORBIDDEN) cost[i] = INFINITY;
        }
        CostTable *table = arena_alloc(reading->arena, sizeof *table);
        *table = (CostTable){nrows, ncolumns, cost};
        edge.table = table;
        vec_push(reading->arena, &problem->edges, edge);
    }
    return true;
}

bool iopddl_read(Problem *problem, const char *text, Arena *arena, Error *error) {
    *problem = (Problem){0};
    Reading reading = {text, text, arena, error};
    Parts parts = {0};
    if (!read_object(&reading, "", &parts)) return false;
    if (next(&reading) != '\0') return wrong(&reading, "the end");
    if (!parts.node_cost.begin.n || !parts.usage.begin.n || !parts.interval.begin.n || !parts.edge.begin.n || !parts.edge_cost.begin.n)
        return error_set(error, EXIT_REJECTED, "expected \"problem\" with \"nodes\" and \"edges\"");
    if (!(parts.limit >= 0 && parts.limit <= FORBIDDEN)) return error_set(error, EXIT_REJECTED, "\"usage_limit\" is not a number of bytes");
    problem->limit_bytes = (int64_t)parts.limit;
    return make_nodes(problem, &parts, &reading) && make_edges(problem, &parts, &reading);
}
