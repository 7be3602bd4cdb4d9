/* outputs: a file that pcc writes must be none that it or the plan reads. prun holds to the same rule (runtime/outputs.c). */
#include "compiler/compiler.h"
#include "ir/file.h"

void graph_reads(FileUses *uses, const Graph *graph, Arena *arena) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        files_read(uses, arena, input->file.path, arena_printf(arena, "the data of %s", input->name));
        if (input->file.tokens != TOKENS_NONE && input->file.tokenizer == TOKENIZER_WORDPIECE)
            files_read(uses, arena, input->file.vocabulary, arena_printf(arena, "the vocabulary of %s", input->name));
    }
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].init.kind == INIT_FILE)
            files_read(uses, arena, graph->states.at[s].init.file,
                       arena_printf(arena, "the initial value of %s", graph->states.at[s].name));
}

/* Dumps have different names: they are not compared with each other. */
static bool check_dumps(const Build *b, FileUses *uses, const Stage *stages, int nstages, Error *error) {
    for (int s = 0; s < nstages; s++) {
        const char *file;
        for (int k = 0; (file = dump_file(b, &stages[s], s, k)) != NULL; k++) {
            if (!files_write(uses, b->arena, file, "--dump-ir", error)) return false;
            uses->n--;
        }
    }
    return true;
}

bool outputs_check(Compilation *c, const Stage *stages, int nstages) {
    const Options *options = c->options;
    FileUses uses = {0};
    files_read(&uses, c->arena, options->input, "the net");
    for (int f = 1; f < c->diags->files.n; f++)
        files_read(&uses, c->arena, c->diags->files.at[f].name, "a file of the net");
    files_read(&uses, c->arena, options->machine_file, "the machine file");
    for (int i = 0; i < c->programs.n; i++)
        graph_reads(&uses, &c->programs.at[i]->front.graph, c->arena);
    const char *plan = options->no_plan ? NULL : options->output;
    if (!files_write(&uses, c->arena, plan, "-o", &c->error) ||
        !files_write(&uses, c->arena, plan != NULL ? plan_side_path(c->arena, plan) : NULL, "the file of long literals", &c->error) ||
        !files_write(&uses, c->arena, options->hints_file, "--write-hints", &c->error) ||
        !files_write(&uses, c->arena, options->timeline, "--timeline", &c->error) ||
        !files_write(&uses, c->arena, options->report, "--report", &c->error))
        return false;
    for (int i = 0; options->dump && i < c->programs.n; i++)
        if (!check_dumps(c->programs.at[i], &uses, stages, nstages, &c->error)) return false;
    return true;
}
