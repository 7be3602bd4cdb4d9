/* outputs: checks that prun writes no file that it reads. */
#include <string.h>

#include "ir/file.h"
#include "runtime/data/data.h"
#include "runtime/run.h"

/* Adds a file that the net names, looked for from the folder of the plan. */
static void add_file(FileUses *uses, Arena *arena, const char *file, const char *directory, const char *what) {
    if (file) files_read(uses, arena, file_find(file, directory, arena), what);
}

static void add_graph(FileUses *uses, Arena *arena, const Graph *graph, const char *directory) {
    add_file(uses, arena, graph->file, directory, "the net");
    for (int f = 0; f < graph->files.n; f++)
        add_file(uses, arena, graph->files.at[f], directory, "a file of the net");
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        add_file(uses, arena, input->file.path, directory, arena_printf(arena, "the data of %s", input->name));
        if (input->file.tokens != TOKENS_NONE && input->file.tokenizer == TOKENIZER_WORDPIECE)
            add_file(uses, arena, input->file.vocabulary, directory, arena_printf(arena, "the vocabulary of %s", input->name));
    }
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].init.kind == INIT_FILE)
            add_file(uses, arena, graph->states.at[s].init.file, directory,
                     arena_printf(arena, "the initial value of %s", graph->states.at[s].name));
}

/* path: of the plan's file. */
static void add_plan(FileUses *uses, Arena *arena, const Plan *plan, const char *path, const char *directory) {
    files_read(uses, arena, path, "the plan");
    if (plan->side_file) files_read(uses, arena, arena_printf(arena, "%s/%s", directory, plan->side_file), "the plan's second file");
    add_graph(uses, arena, &plan->graph, directory);
    for (int p = 0; p < plan->programs.n; p++)
        if (plan->programs.at[p].graph) add_graph(uses, arena, plan->programs.at[p].graph, directory);
}

const char *plan_folder(const char *path, Arena *arena) {
    const char *slash = strrchr(path, '/');
    return slash ? arena_copy(arena, path, (size_t)(slash - path + (slash == path))) : ".";
}

bool check_export(const RunOptions *options, const Plan *plan, Arena *arena, Error *error) {
    FileUses uses = {0};
    add_plan(&uses, arena, plan, options->plan, plan_folder(options->plan, arena));
    return files_write(&uses, arena, options->export, "--export", error);
}

bool check_outputs(Run *run, Error *error) {
    const RunOptions *options = run->options;
    Arena *arena = &run->arena;
    FileUses uses = {0};
    add_plan(&uses, arena, &run->plan, options->plan, run->directory);
    for (int i = 0; i < options->nfewer; i++)
        files_read(&uses, arena, options->fewer[i], "a plan for fewer ranks");
    files_read(&uses, arena, options->verify, "the plan of --verify");
    for (int i = 0; i < options->ndata; i++)
        if (strchr(options->data[i], '='))
            files_read(&uses, arena, file_find(strchr(options->data[i], '=') + 1, run->directory, arena), "what --data reads");
    /* Parameters may be saved where they were loaded from: the file is replaced when the new one is complete. */
    if (!files_write(&uses, arena, options->save, "--save", error)) return false;
    files_read(&uses, arena, options->load, "what --load reads");
    files_read(&uses, arena, options->resume, "what --resume reads");
    files_read(&uses, arena, options->prompts_file, "what --prompts reads");
    return files_write(&uses, arena, options->metrics, "--metrics", error) && files_write(&uses, arena, options->trace, "--trace", error) &&
           files_write(&uses, arena, options->report, "--report", error) &&
           files_write(&uses, arena, options->predict, "--predict", error) && files_write(&uses, arena, options->logits, "--logits", error);
}
