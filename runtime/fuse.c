/* fuse: joins steps that are run as one: those that the plan has fused, where the backend has a kernel for them; and sequences of calls that
 * the device can run together, where it says itself how many. */
#include "runtime/exec.h"

/* The action that does n actions, each of one step, at once. */
static Action join(Executor *executor, const Action *actions, int n) {
    Action action = actions[0];
    int *steps = arena_alloc(&executor->arena, (size_t)n * sizeof *steps);
    for (int i = 0; i < n; i++)
        steps[i] = actions[i].step;
    action.kind = ACTION_FUSED;
    action.steps = steps;
    action.nsteps = n;
    action.fused = arena_alloc(&executor->arena, (size_t)action.ncalls * sizeof *action.fused);
    if (executor->backend->queue && n > 1)
        action.name = arena_printf(&executor->arena, "%d operators, %s to %s", n, actions[0].name, actions[n - 1].name);
    return action;
}

/* ---------------------------------------------------------------- as the plan says */

static void unfuse(const Executor *executor, const Action *action) {
    for (int s = 0; action->fused && s < action->ncalls; s++)
        if (action->fused[s]) action->unfuse(executor->context, action->fused[s]);
}

/* Joins the n actions of a fused step, or of one that reads views: 1; 0: the backend has no kernel for them; -1: *error. */
static int fuse_step(Executor *executor, const Cursor *cursor, const Action *actions, int n, Action *joined, Error *error) {
    const Backend *backend = executor->backend;
    const int nviews = actions[0].nviews;
    KernelCall calls[MAX_VIEWS + MAX_FUSED];
    unsigned inner[MAX_VIEWS + MAX_FUSED] = {0};
    for (int i = 0; i < nviews; i++)
        inner[i] = ~0u;
    for (int i = 0; i < n; i++) {
        const Step *step = &cursor->role->steps.at[actions[i].step];
        if (actions[i].ncalls != actions[0].ncalls || actions[i].ncalls == 0) return 0;
        for (int o = 0; o < step->nout; o++)
            if (cursor->role->instances.at[step->out[o]].place == PLACE_INNER) inner[nviews + i] |= 1u << o;
    }
    *joined = join(executor, actions, n);
    joined->run = backend->run;
    joined->unfuse = backend->unfuse;
    for (int s = 0; s < joined->ncalls; s++) {
        for (int i = 0; i < nviews; i++)
            calls[i] = cursor->calls.at[actions[0].view_call[i] + s].call;
        for (int i = 0; i < n; i++)
            calls[nviews + i] = cursor->calls.at[actions[i].first_call + s].call;
        *error = (Error){0};
        joined->fused[s] = backend->fuse(executor->context, calls, nviews + n, inner, error);
        if (joined->fused[s]) continue;
        unfuse(executor, joined);
        return error->text[0] ? -1 : 0;
    }
    return 1;
}

/* The n actions of a step that reads views, to be run one by one with copies of the views. */
static Action apart(Executor *executor, const Action *actions, int n) {
    Action joined = join(executor, actions, n);
    joined.fused = NULL;
    return joined;
}

/* How many actions from `at` on belong to one fused step. */
static int members(const Cursor *cursor, int at) {
    const Role *role = cursor->role;
    const int fused = role->steps.at[cursor->actions.at[at].step].fused;
    int n = 1;
    while (fused > 0 && n < MAX_FUSED && at + n < cursor->actions.n && role->steps.at[cursor->actions.at[at + n].step].fused == fused)
        n++;
    return n;
}

static bool fuse_planned(Executor *executor, Cursor *cursor, Error *error) {
    int kept = 0;
    bool ok = true;
    for (int at = 0; at < cursor->actions.n;) {
        const int n = members(cursor, at);
        const bool views = cursor->actions.at[at].nviews > 0;
        Action joined;
        int fused =
            ok && (n > 1 || views) && executor->backend->fuse ? fuse_step(executor, cursor, &cursor->actions.at[at], n, &joined, error) : 0;
        ok = ok && fused >= 0; /* goes on after a failure: what was fused must be freed */
        if (fused == 0 && views) {
            joined = apart(executor, &cursor->actions.at[at], n);
            fused = 1;
        }
        const int taken = fused > 0 ? n : 1;
        cursor->actions.at[kept++] = fused > 0 ? joined : cursor->actions.at[at];
        at += taken;
    }
    cursor->actions.n = kept;
    return ok;
}

/* ---------------------------------------------------------------- as the device says */

/* How many consecutive calls of one slice each begin at `at`. */
static int run_length(const Cursor *cursor, int at) {
    int n = 0;
    while (n < MAX_FUSED && at + n < cursor->actions.n && cursor->actions.at[at + n].kind == ACTION_CALLS &&
           cursor->actions.at[at + n].ncalls == 1)
        n++;
    return n;
}

static bool fuse_runs(Executor *executor, Cursor *cursor, Error *error) {
    const DeviceQueue *queue = executor->backend->queue;
    if (!queue || !queue->fuse) return true;
    int kept = 0, taken = 0;
    for (int at = 0; at < cursor->actions.n;) {
        const int n = taken < 0 ? 0 : run_length(cursor, at);
        KernelCall calls[MAX_FUSED];
        void *fused = NULL;
        if (n >= 2) {
            for (int i = 0; i < n; i++)
                calls[i] = cursor->calls.at[cursor->actions.at[at + i].first_call].call;
            taken = queue->fuse(executor->context, calls, n, &fused, error);
        } else if (taken > 0)
            taken = 0;
        Action action = cursor->actions.at[at];
        if (taken >= 2) {
            action = join(executor, &cursor->actions.at[at], taken);
            action.run = queue->run;
            action.unfuse = queue->unfuse;
            action.fused[0] = fused;
        }
        cursor->actions.at[kept++] = action;
        at += taken >= 2 ? taken : 1;
    }
    cursor->actions.n = kept;
    return taken >= 0;
}

bool fuse_actions(Executor *executor, Cursor *cursor, Error *error) {
    return fuse_planned(executor, cursor, error) && fuse_runs(executor, cursor, error);
}

void fuse_finish(Executor *executor, Cursor *cursor) {
    for (int i = 0; i < cursor->actions.n; i++)
        if (cursor->actions.at[i].kind == ACTION_FUSED) unfuse(executor, &cursor->actions.at[i]);
}
