/* label: names of a plan's steps in messages and traces. */
#include "ir/plan.h"

#include <stdio.h>
#include <string.h>

StepLabel step_label(const Graph *graph, const Role *role, const Step *step) {
    if (step->kind == STEP_WRITE) {
        const State *state = &graph->states.at[step->state];
        return (StepLabel){"write", state->name, state->span};
    }
    const bool kernel = step->kind == STEP_KERNEL;
    const Value *value = &graph->values.at[role->instances.at[kernel ? step->out[0] : step->in[0]].value];
    return (StepLabel){kernel ? op_table[step->op].name : comm_name[step->comm], value->name, graph->nodes.at[value->node].span};
}

const char *step_makes(const Graph *graph, const Role *role, int at) {
    const int last = at + fused_length(role, at) - 1;
    while (at < last && role->instances.at[role->steps.at[at].out[0]].place == PLACE_INNER)
        at++;
    return step_label(graph, role, &role->steps.at[at]).of;
}

void step_name_add(char *name, const Graph *graph, const Role *role, int at) {
    const char *what = step_label(graph, role, &role->steps.at[at]).what;
    const size_t n = strlen(name);
    if (n + strlen(what) + 5 < STEP_NAME_BYTES)
        snprintf(name + n, STEP_NAME_BYTES - n, "%s%s", n ? "+" : "", what);
    else if (n < 3 || strcmp(name + n - 3, "...") != 0)
        snprintf(name + n, STEP_NAME_BYTES - n, "...");
}
