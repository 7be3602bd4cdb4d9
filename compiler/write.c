/* write: the plan's files, the predicted timeline, and the hints that were found. Each appears whole or not at all. */
#include "compiler/compiler.h"
#include "compiler/oracle.h"
#include "compiler/report.h"
#include "compiler/timeline.h"
#include "ir/file.h"

const char *plan_side_path(Arena *arena, const char *plan) {
    return arena_printf(arena, "%s.data", plan);
}

/* --timeline: of the program train. */
static bool write_timeline(Compilation *c) {
    Build *b = program_train(c);
    Text text = {0};
    build_time(b);
    timeline_print(&text, b->role_timelines, b->role_facts, b->nroles);
    const bool done = file_write(c->options->timeline, text.at, text.n, &c->error);
    text_finish(&text);
    return done;
}

/* --write-hints */
static bool write_hints(Compilation *c) {
    Text text = {0};
    const bool done = hints_print(&text, c) && file_write(c->options->hints_file, text.at, text.n, &c->error);
    text_finish(&text);
    return done;
}

/* --report */
static bool write_report(Compilation *c) {
    Text text = {0};
    const bool done = report_print(&text, c) && file_write(c->options->report, text.at, text.n, &c->error);
    text_finish(&text);
    return done;
}

/* The side file first: a plan that is there has its literals. */
bool pass_write(Compilation *c) {
    if (c->options->timeline != NULL && !write_timeline(c)) return false;
    if (c->options->hints_file != NULL && !write_hints(c)) return false;
    if (c->options->report != NULL && !write_report(c)) return false;
    if (c->options->no_plan) return true;
    if (c->side.n > 0 && !file_write(plan_side_path(c->arena, c->options->output), c->side.at, c->side.n, &c->error)) return false;
    return file_write(c->options->output, c->text.at, c->text.n, &c->error);
}
