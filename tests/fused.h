/* A plan fused by hand: what tests of fused steps start from, whatever the compiler fuses. */
#pragma once
#include "ir/plan.h"

static inline bool fused_has(const int *at, int n, int id) {
    for (int i = 0; i < n; i++)
        if (at[i] == id) return true;
    return false;
}

/* Whether only steps first to last read an instance. */
static inline bool fused_private(const Program *program, const Role *role, int id, int first, int last) {
    for (int s = 0; s < role->steps.n; s++)
        if ((s < first || s > last) && fused_has(role->steps.at[s].in, role->steps.at[s].nin, id)) return false;
    return id != program->loss && !fused_has(program->reports.at, program->reports.n, id);
}

/* Makes the steps first to last one fused step: what only they read becomes inner, what else they make gets memory of its own behind the arena. */
static inline void fused_make(const Graph *graph, const Program *program, Role *role, int first, int last, int number) {
    for (int s = first; s <= last; s++) {
        Step *step = &role->steps.at[s];
        step->fused = number;
        for (int o = 0; o < step->nout; o++) {
            Instance *instance = &role->instances.at[step->out[o]];
            const TensorType *type = &graph->values.at[instance->value].type;
            if (instance->place != PLACE_ARENA) continue;
            if (fused_private(program, role, step->out[o], first, last)) {
                instance->place = PLACE_INNER;
                instance->at = 0;
            } else {
                instance->at = (role->arena_bytes + 63) / 64 * 64;
                role->arena_bytes = instance->at + layout_max_bytes(instance->layout, type);
            }
        }
    }
}

static inline bool fused_takes(const Step *step) {
    return step->kind == STEP_KERNEL && op_table[step->op].op_class != OP_CLASS_UPDATE;
}

/* Fuses every run of two kernels or more that are no updates, up to `most` in one; how many fused steps there are. */
static inline int fused_by_hand(Plan *plan, int most) {
    int number = 0;
    for (int p = 0; p < plan->programs.n; p++) {
        Program *program = &plan->programs.at[p];
        Role *role = &program->roles.at[0];
        number = 0;
        for (int s = 0; s < role->steps.n; s++) {
            int last = s;
            while (fused_takes(&role->steps.at[s]) && last + 1 < role->steps.n && last + 1 - s < most &&
                   fused_takes(&role->steps.at[last + 1]))
                last++;
            if (last > s) fused_make(program->graph ? program->graph : &plan->graph, program, role, s, last, ++number);
            s = last;
        }
    }
    return number;
}
