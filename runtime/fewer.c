/* fewer: see fewer.h. */
#include "runtime/fewer.h"

#include <string.h>

#include "ir/plan.h"
#include "runtime/index.h"

enum { MAX_PLAN_BYTES = 1 << 30 };

bool plan_of_file(Plan *plan, Arena *arena, const char *path, Error *error) {
    PlanFiles files = {0};
    plan_init(plan, arena);
    return plan_files_read(&files, arena, path, MAX_PLAN_BYTES, error) && plan_read_files(plan, arena, path, &files, 0, error);
}

/* The name of a state that differs between checkpoints of the two graphs; NULL: none does. */
static const char *other_state(const Graph *one, const Graph *other) {
    for (int i = 0; i < one->states.n; i++) {
        const State *state = &one->states.at[i];
        bool same = !index_keeps(state, true);
        for (int k = 0; k < other->states.n && !same; k++)
            same = strcmp(other->states.at[k].name, state->name) == 0 && other->states.at[k].type.dtype == state->type.dtype &&
                   shape_equal(&other->states.at[k].type.shape, &state->type.shape);
        if (!same) return state->name;
    }
    return NULL;
}

/* Whether the job can go on with this plan: its states are those of the first, and its number of ranks is allowed by --min-ranks. */
static bool check_one(const RunOptions *options, const Plan *first, const Plan *plan, const char *path, Error *error) {
    const int ranks = plan->graph.nranks, all = first->graph.nranks;
    const char *differs = other_state(&first->graph, &plan->graph);
    if (!differs) differs = other_state(&plan->graph, &first->graph);
    if (differs)
        return error_set(error, EXIT_REJECTED, "%s is of another net than %s: '%s' is not in both, or of another shape", path,
                         options->plan, differs);
    if (ranks >= all)
        return error_set(error, EXIT_REJECTED, "%s is for %d ranks, and %s for %d: behind the first plan stand those for fewer ranks", path,
                         ranks, options->plan, all);
    return ranks >= options->launch.min_ranks || error_set(error, EXIT_REJECTED, "%s is for %d rank%s, and --min-ranks says %d", path,
                                                           ranks, ranks == 1 ? "" : "s", options->launch.min_ranks);
}

bool fewer_read(RunOptions *options, Arena *arena, Error *error) {
    const int n = options->nfewer;
    const char **paths = arena_alloc(arena, (size_t)n * sizeof *paths);
    int *ranks = arena_alloc(arena, (size_t)n * sizeof *ranks);
    Arena plans;
    Plan first, plan;
    arena_init(&plans);
    bool ok = plan_of_file(&first, &plans, options->plan, error);
    for (int i = 0; ok && i < n; i++) {
        const char *path = options->fewer[i];
        ok = plan_of_file(&plan, &plans, path, error) && check_one(options, &first, &plan, path, error);
        int at = i;
        for (; ok && at > 0 && ranks[at - 1] <= plan.graph.nranks; at--) {
            if (ranks[at - 1] == plan.graph.nranks)
                ok = error_set(error, EXIT_REJECTED, "%s and %s are both for %d ranks", paths[at - 1], path, ranks[at - 1]);
            ranks[at] = ranks[at - 1];
            paths[at] = paths[at - 1];
        }
        if (!ok) break;
        ranks[at] = plan.graph.nranks;
        paths[at] = path;
    }
    arena_finish(&plans);
    options->fewer = paths;
    options->fewer_ranks = ranks;
    return ok;
}

int fewer_find(const RunOptions *options, int nranks) {
    int i = options->fewer_ranks ? options->nfewer - 1 : -1;
    while (i >= 0 && options->fewer_ranks[i] != nranks)
        i--;
    return i;
}
