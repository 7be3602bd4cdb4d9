/* outputs: a file that prun writes must be none that it reads. */
#include <string.h>

#include "ir/file.h"
#include "runtime/data/data.h"
#include "runtime/run.h"

static void add_graph(Run *run, FileUses *uses, const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].file.path)
            files_read(uses, &run->arena, file_find(graph->inputs.at[i].file.path, run->directory, &run->arena),
                       arena_printf(&run->arena, "the data of %s", graph->inputs.at[i].name));
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].init.kind == INIT_FILE)
            files_read(uses, &run->arena, file_find(graph->states.at[s].init.file, run->directory, &run->arena),
                       arena_printf(&run->arena, "the initial value of %s", graph->states.at[s].name));
}

bool check_outputs(Run *run, Error *error) {
    const RunOptions *options = run->options;
    Arena *arena = &run->arena;
    FileUses uses = {0};
    files_read(&uses, arena, options->plan, "the plan");
    files_read(&uses, arena, options->verify, "the plan of --verify");
    if (run->plan.side_file)
        files_read(&uses, arena, arena_printf(arena, "%s/%s", run->directory ? run->directory : ".", run->plan.side_file),
                   "the plan's second file");
    add_graph(run, &uses, &run->plan.graph);
    for (int p = 0; p < run->plan.programs.n; p++)
        if (run->plan.programs.at[p].graph) add_graph(run, &uses, run->plan.programs.at[p].graph);
    for (int i = 0; i < options->ndata; i++)
        if (strchr(options->data[i], '='))
            files_read(&uses, arena, file_find(strchr(options->data[i], '=') + 1, run->directory, arena), "what --data reads");
    /* Parameters may be saved where they were loaded from: the file is replaced when the new one is whole. */
    if (!files_write(&uses, arena, options->save, "--save", error)) return false;
    files_read(&uses, arena, options->load, "what --load reads");
    files_read(&uses, arena, options->resume, "what --resume reads");
    files_read(&uses, arena, options->prompts_file, "what --prompts reads");
    return files_write(&uses, arena, options->metrics, "--metrics", error) && files_write(&uses, arena, options->trace, "--trace", error) &&
           files_write(&uses, arena, options->report, "--report", error) &&
           files_write(&uses, arena, options->predict, "--predict", error) && files_write(&uses, arena, options->logits, "--logits", error);
}
