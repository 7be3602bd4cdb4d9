/* fuse: runs of kernel calls that the device does as one. Which, the backend knows; here: where runs are, and who reads what they leave. */
#include <string.h>

#include "runtime/exec.h"

enum { MAX_RUN = 32 };

/* The number of steps of the role that read each instance, and one for each report and the loss: what the program leaves. */
static int *count_readers(Executor *executor, const Cursor *cursor) {
    const Role *role = cursor->role;
    const Program *program = executor->program;
    int *readers = arena_alloc(&executor->arena, (size_t)role->instances.n * sizeof *readers);
    for (int s = 0; s < role->steps.n; s++)
        for (int i = 0; i < role->steps.at[s].nin; i++)
            readers[role->steps.at[s].in[i]]++;
    for (int i = 0; i < program->reports.n; i++)
        readers[program->reports.at[i]]++;
    if (program->loss >= 0) readers[program->loss]++;
    for (int i = 0; i < role->instances.n; i++) /* states outlive the step */
        readers[i] += role->instances.at[i].place != PLACE_ARENA;
    return readers;
}

/* For each call of a run, the last of the run's that reads its results; n where something else does. */
static void find_last_reads(const Cursor *cursor, const Action *actions, int n, const int *readers, int *last) {
    const Role *role = cursor->role;
    for (int i = 0; i < n; i++) {
        const Step *step = &role->steps.at[actions[i].step];
        last[i] = i;
        for (int o = 0; o < step->nout; o++) {
            int found = 0;
            for (int k = i + 1; k < n; k++) {
                const Step *reader = &role->steps.at[actions[k].step];
                for (int r = 0; r < reader->nin; r++)
                    if (reader->in[r] == step->out[o]) found++, last[i] = last[i] > k ? last[i] : k;
            }
            if (found < readers[step->out[o]]) last[i] = n;
        }
    }
}

/* Calls of one slice each that follow each other from `at` on. */
static int run_length(const Cursor *cursor, int at) {
    int n = 0;
    while (n < MAX_RUN && at + n < cursor->actions.n && cursor->actions.at[at + n].kind == ACTION_CALLS &&
           cursor->actions.at[at + n].ncalls == 1)
        n++;
    return n;
}

bool fuse_actions(Executor *executor, Cursor *cursor, Error *error) {
    const DeviceQueue *queue = executor->backend->queue;
    if (!queue || !queue->fuse) return true;
    int *readers = count_readers(executor, cursor), kept = 0;
    for (int at = 0; at < cursor->actions.n;) {
        int n = run_length(cursor, at), taken = 0, last[MAX_RUN];
        KernelCall calls[MAX_RUN];
        void *fused = NULL;
        if (n >= 2) {
            find_last_reads(cursor, &cursor->actions.at[at], n, readers, last);
            for (int i = 0; i < n; i++)
                calls[i] = cursor->calls.at[cursor->actions.at[at + i].first_call].call;
            taken = queue->fuse(executor->context, calls, n, last, &fused, error);
            if (taken < 0) return false;
        }
        Action action = cursor->actions.at[at];
        if (taken >= 2) {
            action.kind = ACTION_FUSED;
            action.fused = fused;
            action.ncalls = taken; /* calls[first_call..]: what it stands for */
            action.name =
                arena_printf(&executor->arena, "%d operators, %s to %s", taken, action.name, cursor->actions.at[at + taken - 1].name);
        }
        cursor->actions.at[kept++] = action;
        at += taken >= 2 ? taken : 1;
    }
    cursor->actions.n = kept;
    return true;
}

void fuse_finish(Executor *executor, Cursor *cursor) {
    for (int i = 0; i < cursor->actions.n; i++)
        if (cursor->actions.at[i].kind == ACTION_FUSED) executor->backend->queue->unfuse(executor->context, cursor->actions.at[i].fused);
}
