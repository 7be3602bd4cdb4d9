/* pipeline: the passes in their order. After each: the graph is verified, the time is noted, its dump is written (--dump-ir). */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"

/* What a pass leaves behind that is verified and dumped. */
typedef enum { LEAVES_GRAPH, LEAVES_SPMD, LEAVES_PLAN } Leaves;

typedef struct Pass {
    const char *name; /* in --stats */
    bool (*run)(Compilation *c);
    Leaves leaves;
    const char *dump; /* the stage's name in file names; NULL: no dump */
} Pass;

/* clang-format off */
static const Pass passes[] = {
    {"parse",       pass_parse,       LEAVES_GRAPH, "parse"},
    {"simplify",    pass_simplify,    LEAVES_GRAPH, "simplify"},
    {"autodiff",    pass_autodiff,    LEAVES_GRAPH, "autodiff"},
    {"prune",       pass_prune,       LEAVES_GRAPH, "prune"},
    {"propagate",   pass_propagate,   LEAVES_GRAPH, "propagate"},
    {"expand",      pass_expand,      LEAVES_GRAPH, NULL},
    {"assign",      pass_assign,      LEAVES_GRAPH, "step_parallel_begin"},
    {"reshard",     pass_reshard,     LEAVES_SPMD,  "reshard"},
    {"localize",    pass_localize,    LEAVES_SPMD,  "step_parallel_end"},
    {"partial",     pass_partial,     LEAVES_SPMD,  NULL},
    {"place",       pass_place,       LEAVES_SPMD,  NULL},
    {"collectives", pass_collectives, LEAVES_SPMD,  "collectives"},
    {"schedule",    pass_schedule,    LEAVES_SPMD,  "execute"},
    {"memory",      pass_memory,      LEAVES_SPMD,  "memory"},
    {"eval",        pass_eval,        LEAVES_SPMD,  NULL},
    {"emit",        pass_emit,        LEAVES_PLAN,  NULL},
    {"prove",       pass_prove,       LEAVES_PLAN,  NULL},
    {"write",       pass_write,       LEAVES_PLAN,  NULL},
};
/* clang-format on */
enum { NPASSES = sizeof passes / sizeof *passes };
static_assert((int)NPASSES <= (int)MAX_PASSES, "room for the times");

/* The net once more, as its eval block wants it. What there is to warn of is said of the net as it is trained. */
static bool parse_eval(Compilation *c) {
    Graph graph;
    unsigned silenced = c->diags->silenced;
    c->diags->silenced = ~0u;
    bool ok = frontend_eval(c->options->input, c->source, c->source_bytes, &c->options->overrides, &graph, c->arena, c->diags);
    c->diags->silenced = silenced;
    if (!ok || !eval_states(c, &graph)) return false;
    c->eval = eval_create(c, &graph);
    c->net_hash = (c->net_hash ^ c->eval->net_hash) * 0x9e3779b97f4a7c15u;
    return true;
}

bool pass_parse(Compilation *c) {
    Overrides overrides = c->options->overrides;
    if (c->options->nexplain > 0) overrides.paths = &c->paths;
    if (!frontend_compile(c->options->input, c->source, c->source_bytes, &overrides, &c->graph, c->arena, c->diags)) {
        if (c->diags->nerrors == 0) error_set(&c->error, EXIT_INTERNAL, "the net was rejected without a reason");
        return false;
    }
    c->net_hash = graph_hash(&c->graph);
    if (c->graph.settings.has_eval && !parse_eval(c)) return false;
    warn_note_hints(c);
    for (int v = 0; c->options->nexplain > 0 && v < c->graph.values.n; v++)
        vec_push(c->arena, &c->parsed, c->graph.values.at[v].name);
    return true;
}

/* The number of a pass in the names of its files: they count up without gaps. */
static int dump_number(int number) {
    int count = 0;
    for (int p = 0; p < number; p++)
        count += passes[p].dump != NULL;
    return count;
}

/* Before anything is written. */
static bool check_outputs(Compilation *c) {
    const char *stages[NPASSES];
    int n = 0;
    for (int p = 0; p < NPASSES; p++)
        if (passes[p].dump != NULL) stages[n++] = passes[p].dump;
    return outputs_check(c, stages, n);
}

static bool run_pass(Compilation *c, int number) {
    const Pass *pass = &passes[number];
    double begin = now_seconds();
    bool done = pass->run(c);
    c->pass[number].name = pass->name;
    c->pass[number].seconds = now_seconds() - begin;
    c->seconds += c->pass[number].seconds;
    c->npasses = number + 1;
    if (!done || c->diags->nerrors > 0) return false; /* -Werror: a pass that was done can leave errors */
    if (pass->run == pass_parse && !check_outputs(c)) return false;
    begin = now_seconds();
    if (pass->leaves != LEAVES_PLAN && !graph_verify(pass->leaves == LEAVES_SPMD ? &c->spmd : &c->graph, pass->name, &c->error))
        return false;
    c->verify_seconds += now_seconds() - begin;
    return !c->options->dump || pass->dump == NULL || dump_stage(c, pass->dump, dump_number(number));
}

static int pass_number(bool (*run)(Compilation *c)) {
    int p = 0;
    while (passes[p].run != run)
        p++;
    return p;
}

bool pass_eval(Compilation *c) {
    Compilation *e = c->eval;
    if (e == NULL) return true;
    for (int p = pass_number(pass_simplify); p < pass_number(pass_eval); p++) {
        if (passes[p].run == pass_propagate && !eval_prepare(e, c)) return eval_failed(c);
        if (!run_pass(e, p)) return eval_failed(c);
    }
    return true;
}

bool compile(Compilation *c, Arena *arena, const Options *options, Diags *diags, const char *text, size_t n) {
    memset(c, 0, sizeof *c);
    c->arena = arena;
    c->options = options;
    c->diags = diags;
    c->source = text;
    c->source_bytes = n;
    diags->silenced = options->silenced;
    diags->warnings_are_errors = options->warnings_are_errors;
    for (int p = 0; p < NPASSES; p++)
        if (!run_pass(c, p)) {
            if (c->error.code == 0) c->error.code = EXIT_REJECTED;
            return false;
        }
    return true;
}

void compilation_finish(Compilation *c) {
    text_finish(&c->text);
    text_finish(&c->side);
}
