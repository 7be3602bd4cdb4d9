/* needed: see needed.h. Goes backwards through the steps of each role; a communication that one role needs is run by all. */
#include "runtime/needed.h"

#include <string.h>

const bool *report_inputs(const Graph *graph, int report, Arena *arena) {
    bool *value = arena_alloc(arena, (size_t)graph->values.n + 1), *input = arena_alloc(arena, (size_t)graph->inputs.n + 1);
    value[graph->reports.at[report].value] = true;
    for (int n = graph->nodes.n - 1; n >= 0; n--) {
        const Node *node = &graph->nodes.at[n];
        bool needed = false;
        for (int k = 0; k < node->nout; k++)
            needed = needed || value[node->out[k]];
        for (int i = 0; needed && i < node->nin; i++)
            value[node->in[i]] = true;
        if (needed && node->op == OP_input) input[node->state] = true;
    }
    return input;
}

/* What is needed of one role. */
typedef struct Needed {
    bool *instance, *step;
} Needed;

/* One pass from the last step to the first; returns whether anything new is needed. request: those needed by any role. */
static bool mark_steps(const Role *role, Needed *needed, bool *request) {
    bool more = false;
    for (int s = role->steps.n - 1; s >= 0; s--) {
        const Step *step = &role->steps.at[s];
        const bool communicates = step->kind == STEP_START || step->kind == STEP_WAIT;
        bool is = needed->step[s] || (communicates && request[step->request]);
        for (int o = 0; !is && o < step->nout; o++)
            is = needed->instance[step->out[o]];
        if (!is || needed->step[s]) continue;
        more = needed->step[s] = true;
        if (communicates) request[step->request] = true;
        for (int i = 0; i < step->nin; i++)
            needed->instance[step->in[i]] = true;
    }
    return more;
}

static int count_requests(const Program *program) {
    int n = 0;
    for (int r = 0; r < program->roles.n; r++)
        for (int s = 0; s < program->roles.at[r].steps.n; s++)
            if (program->roles.at[r].steps.at[s].request >= n) n = program->roles.at[r].steps.at[s].request + 1;
    return n;
}

void report_alone(Plan *part, int report, Arena *arena) {
    Program *program = arena_alloc(arena, sizeof *program);
    *program = part->programs.at[0];
    Needed *needed = arena_alloc(arena, (size_t)program->roles.n * sizeof *needed);
    bool *request = arena_alloc(arena, (size_t)count_requests(program) + 1);
    for (int r = 0; r < program->roles.n; r++) {
        const Role *role = &program->roles.at[r];
        needed[r] = (Needed){arena_alloc(arena, (size_t)role->instances.n + 1), arena_alloc(arena, (size_t)role->steps.n + 1)};
        needed[r].instance[program->reports.at[report]] = true;
    }
    for (bool more = true; more;) {
        more = false;
        for (int r = 0; r < program->roles.n; r++)
            more = mark_steps(&program->roles.at[r], &needed[r], request) || more;
    }
    Role *roles = arena_alloc(arena, (size_t)program->roles.n * sizeof *roles);
    for (int r = 0; r < program->roles.n; r++) {
        const Role *whole = &program->roles.at[r];
        roles[r] = *whole;
        memset(&roles[r].steps, 0, sizeof roles[r].steps);
        for (int s = 0; s < whole->steps.n; s++)
            if (needed[r].step[s]) vec_push(arena, &roles[r].steps, whole->steps.at[s]);
    }
    const Report *own = &part->graph.reports.at[report];
    const int id = program->reports.at[report];
    memset(&part->graph.reports, 0, sizeof part->graph.reports);
    vec_push(arena, &part->graph.reports, *own);
    memset(&program->reports, 0, sizeof program->reports);
    vec_push(arena, &program->reports, id);
    program->roles.at = roles;
    program->loss = -1;
    part->programs.at = program;
    part->programs.n = part->programs.cap = 1;
}
