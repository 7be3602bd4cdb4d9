/* write: the plan's files. Each appears whole or not at all. */
#include "compiler/compiler.h"
#include "ir/file.h"

const char *plan_side_path(Arena *arena, const char *plan) {
    return arena_printf(arena, "%s.data", plan);
}

/* The side file first: a plan that is there has its literals. */
bool pass_write(Compilation *c) {
    if (c->options->no_plan) return true;
    if (c->side.n > 0 && !file_write(plan_side_path(c->arena, c->options->output), c->side.at, c->side.n, &c->error)) return false;
    return file_write(c->options->output, c->text.at, c->text.n, &c->error);
}
