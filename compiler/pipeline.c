/* pipeline: the passes in their order. After each pass, what it made is verified, its time is noted, its dumps are written (--dump-ir). */
#include <assert.h>
#include <string.h>

#include "compiler/search.h"
#include "compiler/sharded.h"
#include "compiler/timeline.h"

/* What is verified after a pass. */
typedef enum { LEAVES_FRONT, LEAVES_SHARDED, LEAVES_SPMD, LEAVES_PLACEMENT } Leaves;

typedef struct Pass {
    const char *name; /* in --stats */
    bool (*run)(Build *b);
    Leaves leaves;
} Pass;

/* clang-format off */

/* All programs go through this one first: what it finds wrong is wrong with the net. */
static const Pass first_pass = {"rows", pass_rows, LEAVES_FRONT};

/* Each program goes through these, one program after the other. */
static const Pass passes[] = {
    {"simplify",    pass_simplify,    LEAVES_FRONT},
    {"precision",   pass_precision,   LEAVES_FRONT},
    {"autodiff",    pass_autodiff,    LEAVES_FRONT},
    {"prune",       pass_prune,       LEAVES_FRONT},
    {"follow",      pass_follow,      LEAVES_FRONT},
    {"propagate",   pass_propagate,   LEAVES_FRONT},
    {"search",      pass_search,      LEAVES_FRONT},
    {"expand",      pass_expand,      LEAVES_FRONT},
    {"stages",      pass_stages,      LEAVES_FRONT},
    {"assign",      pass_assign,      LEAVES_SHARDED},
    {"updates",     pass_updates,     LEAVES_SHARDED},
    {"warn",        pass_warn,        LEAVES_PLACEMENT},
    {"reshard",     pass_reshard,     LEAVES_SPMD},
    {"partial",     pass_partial,     LEAVES_SHARDED},
    {"place",       pass_place,       LEAVES_SHARDED},
    {"recompute",   pass_recompute,   LEAVES_SHARDED},
    {"collectives", pass_collectives, LEAVES_SPMD},
    {"schedule",    pass_schedule,    LEAVES_PLACEMENT},
    {"fuse",        pass_fuse,        LEAVES_PLACEMENT},
    {"views",       pass_views,       LEAVES_PLACEMENT},
    {"memory",      pass_memory,      LEAVES_PLACEMENT},
};

/* Then the plan of all programs goes through these. */
static const struct {
    const char *name;
    bool (*run)(Compilation *c);
} plan_passes[] = {
    {"emit",    pass_emit},
    {"fits",    pass_fits},
    {"asserts", pass_asserts},
    {"prove",   pass_prove},
    {"write",   pass_write},
};

static const Stage stages[] = {
    {"parse",               pass_rows,        SHOW_FRONT,   false},
    {"simplify",            pass_simplify,    SHOW_FRONT,   false},
    {"autodiff",            pass_autodiff,    SHOW_FRONT,   false},
    {"prune",               pass_prune,       SHOW_FRONT,   false},
    {"propagate",           pass_search,      SHOW_FRONT,   false},
    {"step_parallel_begin", pass_updates,     SHOW_SHARDED, false},
    {"reshard",             pass_reshard,     SHOW_SPMD,    false},
    {"step_parallel_end",   pass_reshard,     SHOW_SPMD,    true},
    {"collectives",         pass_collectives, SHOW_SPMD,    true},
    {"execute",             pass_fuse,        SHOW_SPMD,    true},
    {"memory",              pass_memory,      SHOW_SPMD,    true},
};
/* clang-format on */
enum {
    NPASSES = sizeof passes / sizeof *passes,
    NPLAN_PASSES = sizeof plan_passes / sizeof *plan_passes,
    NSTAGES = sizeof stages / sizeof *stages
};
static_assert((int)NPASSES + (int)NPLAN_PASSES + 2 + MAX_PROGRAMS <= (int)MAX_PASSES,
              "room for the times: these, parse, rows, and other programs than train");

static void note_time(Compilation *c, const char *name, double seconds) {
    int p = 0;
    while (p < c->npasses && p + 1 < MAX_PASSES && strcmp(c->pass[p].name, name) != 0)
        p++;
    c->pass[p].name = name;
    c->pass[p].seconds += seconds;
    c->seconds += seconds;
    if (p == c->npasses) c->npasses++;
}

static bool dump(Build *b, bool (*after)(Build *b)) {
    for (int s = 0; b->options->dump && s < NSTAGES; s++)
        if (stages[s].after == after && !dump_stage(b, &stages[s], s)) return false;
    return true;
}

static bool verify(Build *b, const Pass *pass) {
    switch (pass->leaves) {
    case LEAVES_FRONT:
        return graph_verify(&b->front.graph, pass->name, &b->error);
    case LEAVES_SHARDED:
        return ((pass->run != pass_updates && pass->run != pass_recompute) ||
                graph_verify(&b->sharded.graph, pass->name, &b->error)) && /* later passes leave the graph as it is */
               sharded_verify(&b->sharded, pass->name, &b->error);
    case LEAVES_SPMD:
        return b->spmd.graph.nodes.n == 0 ||
               graph_verify(&b->spmd.graph, pass->name, &b->error); /* empty: reshard makes none if nothing asks for it */
    case LEAVES_PLACEMENT:
        break;
    }
    return true;
}

static bool run_pass(Compilation *c, Build *b, const Pass *pass) {
    double begin = now_seconds();
    bool done = pass->run(b);
    note_time(c, b->follows == NULL ? pass->name : b->name, now_seconds() - begin);
    if (!done || b->diags->nerrors > 0) return false; /* -Werror: a pass that was done can leave errors */
    begin = now_seconds();
    if (!verify(b, pass)) return false;
    c->verify_seconds += now_seconds() - begin;
    return dump(b, pass->run);
}

bool build_run(Build *b, bool (*begin)(Build *b), bool (*end)(Build *b)) {
    int p = 0;
    while (begin != NULL && passes[p].run != begin)
        p++;
    for (; p < NPASSES && passes[p].run != end; p++)
        if (!passes[p].run(b) || b->diags->nerrors > 0 || !(b->tried || verify(b, &passes[p]))) return false;
    return true;
}

void build_init(Build *b, const char *name, Arena *arena, const Options *options, Diags *diags) {
    *b = (Build){.name = name, .arena = arena, .options = options, .diags = diags, .dump_directory = options->dump_directory};
}

Options *build_init_tried(Build *b, const char *name, Arena *arena, const Options *options) {
    Options *own = arena_alloc(arena, sizeof *own);
    Diags *diags = arena_alloc(arena, sizeof *diags);
    *own = *options;
    own->dump = own->verbose = own->warnings_are_errors = false;
    diags_init(diags, arena);
    diags->silenced = ~0u;
    build_init(b, name, arena, own, diags);
    b->tried = true;
    return own;
}

/* ---------------------------------------------------------------- from the text to programs */

/* Lowers the net again, for its eval block. Warnings are given for the net as it is trained. */
static Build *parse_eval(const Build *train, const Source *source, const Overrides *of) {
    Graph graph;
    unsigned silenced = train->diags->silenced;
    train->diags->silenced = ~0u;
    LossRows rows;
    Overrides overrides = *of;
    overrides.rows = &rows;
    overrides.paths = NULL;
    const bool ok = frontend_eval(source, &overrides, &graph, train->arena, train->diags);
    train->diags->silenced = silenced;
    Build *eval = arena_alloc(train->arena, sizeof *eval);
    return ok && eval_create(eval, train, &graph, &rows) ? eval : NULL;
}

static bool parse_evals(Compilation *c, const Build *train, const Overrides *of) {
    Build *eval = parse_eval(train, &c->read, of);
    if (eval == NULL) return false;
    vec_push(c->arena, &c->programs, eval);
    return shorter_parse(c, eval, of);
}

/* The same for its generate block. In mode manual a net is that of one rank: it has nothing to generate with others. */
static bool parse_generate(Compilation *c, const Build *train, const Source *source) {
    Graph graph;
    Generation generation;
    const unsigned silenced = c->diags->silenced;
    Overrides overrides = c->options->overrides;
    overrides.rows = NULL;
    overrides.paths = NULL;
    c->diags->silenced = ~0u;
    const bool ok = frontend_generate(source, &overrides, &generation, &graph, c->arena, c->diags);
    c->diags->silenced = silenced;
    Build *generate = arena_alloc(c->arena, sizeof *generate);
    if (!ok || !generate_create(generate, train, &graph, &generation)) return false;
    vec_push(c->arena, &c->programs, generate);
    Build *prompt = arena_alloc(c->arena, sizeof *prompt);
    bool none;
    if (!prompt_create(prompt, generate, &graph, &generation, &none)) return false;
    if (!none) vec_push(c->arena, &c->programs, prompt);
    return true;
}

/* Adds the eval of a net that is read again, as far as its memory counts. */
static bool count_eval(Build *train, const Source *source) {
    if (!counts_memory(train)) return true;
    Build *eval = parse_eval(train, source, &train->options->overrides);
    return eval != NULL && pass_rows(eval) && eval_count(train, eval);
}

bool parse_whole(Build *b, const Source *source, const Overrides *of) {
    const unsigned silenced = b->diags->silenced;
    Overrides overrides = *of;
    LossRows rows;
    if (b->front.graph.settings.micro_batches < 2) return true;
    b->diags->silenced = ~0u;
    overrides.micro_batches = 1;
    overrides.rows = &rows;
    overrides.paths = NULL;
    b->front.whole = arena_alloc(b->arena, sizeof *b->front.whole);
    const bool done = frontend_train(source, &overrides, b->front.whole, b->arena, b->diags);
    b->diags->silenced = silenced;
    return done;
}

static bool parse(Compilation *c, const char *text, size_t n) {
    Build *train = arena_alloc(c->arena, sizeof *train);
    Front *front = &train->front;
    Overrides overrides = c->options->overrides;
    build_init(train, "train", c->arena, c->options, c->diags);
    vec_push(c->arena, &c->programs, train);
    overrides.rows = &front->rows;
    if (options_explain(c->options)) overrides.paths = &front->paths;
    front->decision = c->micro != NULL ? c->micro->decision : c->stages != NULL ? c->stages->taken.decision : NULL;
    if (!frontend_read(&c->read, c->options->input, text, n, &overrides, c->arena, c->diags) ||
        !frontend_train(&c->read, &overrides, &front->graph, c->arena, c->diags)) {
        if (c->diags->nerrors == 0) error_set(&c->error, EXIT_INTERNAL, "the net was rejected without a reason");
        return false;
    }
    if (!parse_whole(train, &c->read, &overrides)) return error_set(&c->error, EXIT_INTERNAL, "the net of a whole batch was rejected");
    const Settings *settings = &front->graph.settings;
    return shorter_parse(c, train, &overrides) && (!settings->has_eval || parse_evals(c, train, &c->options->overrides)) &&
           (!settings->has_generate || settings->mode == MODE_MANUAL || parse_generate(c, train, &c->read));
}

/* Leaves as few batches as tell what a step costs: the first two, of a pipeline as many as fill it twice, unless it holds all at once. */
static void see_few(Build *b) {
    Settings *settings = &b->front.graph.settings;
    const int stages = settings_stages(settings), seen = 2 * stages;
    if (settings->accumulate <= seen || (stages > 1 && settings->pipeline == PIPELINE_GPIPE)) return;
    b->front.batches = settings->accumulate;
    settings->accumulate = seen;
}

/* Reads the net again with other settings, to see what it costs: its program train after pass rows, with its eval. Nothing is printed. few:
 * with see_few. *read: whether it is accepted; b->diags says why not. */
static Build *read_again(const Compilation *c, const Overrides *said, bool few, Arena *arena, bool *read) {
    Build *b = arena_alloc(arena, sizeof *b);
    Options *options = build_init_tried(b, "train", arena, c->options);
    options->overrides = *said;
    options->overrides.paths = NULL;
    for (int f = 0; f < c->diags->files.n; f++)
        vec_push(arena, &b->diags->files, c->diags->files.at[f]);
    Overrides overrides = options->overrides;
    overrides.rows = &b->front.rows;
    *read = frontend_train(&c->read, &overrides, &b->front.graph, arena, b->diags) && parse_whole(b, &c->read, &overrides);
    if (*read && few) see_few(b);
    *read = *read && pass_rows(b) && (!b->front.graph.settings.has_eval || count_eval(b, &c->read));
    return b;
}

static void say_stages(Overrides *said, const StageTried *as, bool divides) {
    said->auto_stages = as->stages;
    said->auto_chunks = as->chunks;
    if (divides) said->micro_batches = as->parts;
}

bool stages_decide(const Compilation *c, StageTried *as, const char *search) {
    Overrides said = c->options->overrides;
    bool done;
    if (search != NULL) said.search = search;
    say_stages(&said, as, as->parts > 1);
    Build *b = read_again(c, &said, true, c->arena, &done);
    b->front.aim_bytes = as->aim;
    done = done && build_run(b, NULL, pass_expand);
    as->decision = done ? b->front.decision : NULL;
    as->why = b->diags->items.n > 0 ? b->diags->items.at[0].text : NULL;
    return done;
}

/* What the net costs with these settings; aim: Front.aim_bytes; idle NULL: not asked for. False: it does not compile. */
static bool cost_again(const Compilation *c, const Overrides *said, const SearchTaken *decision, bool few, int64_t aim, BuildCost *cost,
                       double *idle) {
    Arena arena;
    bool done;
    arena_init(&arena);
    Build *b = read_again(c, said, few, &arena, &done);
    b->front.decision = decision;
    b->front.aim_bytes = aim;
    done = done && build_run(b, NULL, NULL) && b->diags->nerrors == 0;
    if (done) build_cost(b, cost);
    if (done && idle != NULL) *idle = timelines_idle(b->role_timelines, b->nroles);
    arena_finish(&arena);
    return done;
}

bool stages_cost(const Compilation *c, const StageTried *as, BuildCost *cost, double *idle) {
    Overrides said = c->options->overrides;
    say_stages(&said, as, as->parts > 1);
    return cost_again(c, &said, as->decision, false, 0, cost, idle);
}

const SearchTaken *parts_decide(const Compilation *c, const char *search, int parts, double most_s, int64_t aim) {
    Overrides said = c->options->overrides;
    if (search != NULL) said.search = search;
    if (parts > 0) said.micro_batches = parts;
    bool read;
    Build *b = read_again(c, &said, true, c->arena, &read);
    b->front.two_axes = search != NULL; /* one among others */
    b->front.most_s = most_s;
    b->front.aim_bytes = aim;
    return read && build_run(b, NULL, pass_expand) ? b->front.decision : NULL;
}

int64_t ranks_bytes(const Compilation *c, int nranks, int64_t limit) {
    Overrides said = c->options->overrides;
    BuildCost cost = {0};
    said.nranks = nranks;
    const bool searched = searches(program_train(c)); /* first quickly, then as the net says */
    if (searched) said.search = "recursive_programming";
    const int64_t quick = cost_again(c, &said, NULL, true, 0, &cost, NULL) ? memory_bytes(&cost) : 0;
    if (!searched || (quick > 0 && quick <= limit)) return quick;
    said.search = c->options->overrides.search;
    const int64_t whole = cost_again(c, &said, NULL, true, limit, &cost, NULL) ? memory_bytes(&cost) : 0;
    return quick > 0 && (whole == 0 || quick < whole) ? quick : whole;
}

Build *program_of_kind(const Compilation *c, ProgramKind kind) {
    for (int i = 0; i < c->programs.n; i++)
        if (c->programs.at[i]->kind == kind && !c->programs.at[i]->shorter) return c->programs.at[i];
    return NULL;
}

/* Runs the first pass, and notes what is known of the net then. */
static bool run_first(Compilation *c) {
    for (int i = 0; i < c->programs.n; i++) {
        Build *b = c->programs.at[i];
        if (run_pass(c, b, &first_pass)) continue;
        c->error = b->error;
        return false;
    }
    Build *train = program_train(c);
    if (program_eval(c) != NULL && counts_memory(train) && !eval_count(train, program_eval(c)))
        return error_set(&c->error, EXIT_INTERNAL, "program eval, as it is before that of train is known: %s", train->eval->error.text);
    c->net_hash = graph_hash(&train->front.graph);
    for (int i = 1; i < c->programs.n; i++) /* prompt does nothing that generate would not do */
        if (c->programs.at[i]->kind != PROGRAM_PROMPT)
            c->net_hash = (c->net_hash ^ graph_hash(&c->programs.at[i]->front.graph)) * 0x9e3779b97f4a7c15u;
    warn_note_hints(train);
    for (int v = 0; c->options->nexplain > 0 && v < train->front.graph.values.n; v++)
        vec_push(c->arena, &train->front.written, train->front.graph.values.at[v].name);
    return true;
}

/* ---------------------------------------------------------------- all of it */

/* Sets c->error, which names the program that failed if it is not train. */
static bool program_failed(Compilation *c, const Build *b) {
    if (b->follows == NULL) {
        c->error = b->error;
        return false;
    }
    const char *why = b->error.code != 0 ? b->error.text : b->diags->items.n > 0 ? b->diags->items.at[0].text : "no reason";
    return error_set(&c->error, b->error.code ? b->error.code : EXIT_INTERNAL, "program %s: %s", b->name, why);
}

static bool run_program(Compilation *c, Build *b) {
    for (int p = 0; p < NPASSES; p++)
        if (!run_pass(c, b, &passes[p])) return program_failed(c, b);
    return true;
}

static bool run_all(Compilation *c, const char *text, size_t n) {
    double begin = now_seconds();
    bool done = parse(c, text, n);
    note_time(c, "parse", now_seconds() - begin);
    if (!done || c->diags->nerrors > 0 || !outputs_check(c, stages, NSTAGES) || !run_first(c)) return false;
    if (stage_count_asked(c)) c->stages_again = stage_count_one(c);
    if (c->stages_again != NULL) return false; /* compile() begins again with it */
    stage_count_say(c);
    for (int i = 0; i < c->programs.n; i++) {
        if (run_program(c, c->programs.at[i])) continue;
        if (c->stages != NULL && c->stages->open != NULL) c->stages_again = stage_count_more(c, NULL, 0);
        return false;
    }
    for (int p = 0; p < NPLAN_PASSES; p++) {
        begin = now_seconds();
        done = plan_passes[p].run(c);
        note_time(c, plan_passes[p].name, now_seconds() - begin);
        if (!done || c->diags->nerrors > 0) return false;
    }
    return true;
}

bool compile(Compilation *c, Arena *arena, const Options *options, Diags *diags, const char *text, size_t n) {
    const int nitems = diags->items.n, nwarnings = diags->nwarnings, nfiles = diags->files.n;
    const Options *asked = options;
    StageCount *with_stages = NULL;
    memset(c, 0, sizeof *c);
    for (;;) {
        c->arena = arena;
        c->options = options;
        c->diags = diags;
        c->stages = with_stages;
        diags->silenced = options->silenced;
        if (c->micro != NULL && c->micro->too_large) diags->silenced |= 1u << WARN_REPLICATED; /* of parts that the user did not ask for */
        diags->warnings_are_errors = options->warnings_are_errors;
        if (run_all(c, text, n)) return true;
        if (c->again == NULL && c->stages_again == NULL)
            return c->error.code != 0 ? false : error_reported(&c->error, EXIT_REJECTED); /* diagnostics say it */
        MicroBatches *micro = c->again;
        with_stages = c->stages_again != NULL ? c->stages_again : c->stages;
        Options *again = arena_alloc(arena, sizeof *again);
        *again = c->stages_again != NULL ? *asked : *options;
        if (micro != NULL && micro->parts > 0) again->overrides.micro_batches = micro->parts;
        if (with_stages != NULL) say_stages(&again->overrides, &with_stages->taken, with_stages->taken.stages > 1 && with_stages->divides);
        options = again;
        diags->items.n = nitems;
        diags->files.n = nfiles; /* they are read again, and have the same numbers */
        diags->nwarnings = nwarnings;
        compilation_finish(c);
        memset(c, 0, sizeof *c);
        c->micro = micro;
    }
}

void compilation_finish(Compilation *c) {
    text_finish(&c->text);
    text_finish(&c->side);
}
