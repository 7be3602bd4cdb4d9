/* outputs: what prun is told to write must be nothing that it reads. */
#include <string.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "runtime/run.h"

typedef struct Named {
    const char *path, *what;
} Named;

typedef struct Inputs {
    VEC(Named) at;
} Inputs;

static void add(Run *run, Inputs *read, const char *path, const char *what) {
    if (path) vec_push(&run->arena, &read->at, ((Named){path, what}));
}

static void add_graph(Run *run, Inputs *read, const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].file.path)
            add(run, read, file_find(graph->inputs.at[i].file.path, run->directory, &run->arena), arena_printf(&run->arena, "the data of %s", graph->inputs.at[i].name));
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].init.kind == INIT_FILE)
            add(run, read, file_find(graph->states.at[s].init.file, run->directory, &run->arena),
                arena_printf(&run->arena, "the initial value of %s", graph->states.at[s].name));
}

/* Also of files that are yet to be made. */
static bool same_output(const char *a, const char *b) {
    return file_same(a, b) || (strcmp(a, b) == 0 && access(a, F_OK) != 0);
}

bool check_outputs(Run *run, Error *error) {
    const RunOptions *options = run->options;
    const Named written[] = {{options->save, "--save"}, {options->metrics, "--metrics"}, {options->trace, "--trace"}, {options->predict, "--predict"}};
    enum { NWRITTEN = sizeof written / sizeof *written };
    Inputs read = {0};
    add(run, &read, options->plan, "the plan");
    add(run, &read, options->verify, "the plan of --verify");
    if (run->plan.side_file) add(run, &read, arena_printf(&run->arena, "%s/%s", run->directory ? run->directory : ".", run->plan.side_file), "the plan's second file");
    add_graph(run, &read, &run->plan.graph);
    for (int p = 0; p < run->plan.programs.n; p++)
        if (run->plan.programs.at[p].graph) add_graph(run, &read, run->plan.programs.at[p].graph);
    for (int w = 0; w < NWRITTEN; w++) {
        if (!written[w].path) continue;
        for (int i = 0; i < read.at.n; i++)
            if (file_same(written[w].path, read.at.at[i].path))
                return error_set(error, EXIT_USAGE, "%s %s would overwrite %s", written[w].what, written[w].path, read.at.at[i].what);
        /* Parameters may be saved where they were loaded from: the file is replaced when the new one is whole. */
        const char *loaded = options->load ? options->load : options->resume;
        if (loaded && strcmp(written[w].what, "--save") != 0 && file_same(written[w].path, loaded))
            return error_set(error, EXIT_USAGE, "%s %s would overwrite what --%s reads", written[w].what, written[w].path, options->load ? "load" : "resume");
        for (int other = 0; other < w; other++)
            if (written[other].path && same_output(written[w].path, written[other].path))
                return error_set(error, EXIT_USAGE, "%s and %s both write %s", written[other].what, written[w].what, written[w].path);
    }
    return true;
}
