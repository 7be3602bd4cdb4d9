#include "compiler/report.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/budget.h"
#include "compiler/name.h"
#include "compiler/oracle.h"
#include "report/page.h"

typedef struct Reporter {
    Compilation *c;
    Calls calls;
    HintNumbers hints;
} Reporter;

/* ---------------------------------------------------------------- calls */

static int find_call(const Calls *calls, const char *path, size_t n) {
    map_each(&calls->map, hash_bytes(path, n), number) {
        const char *other = calls->paths->at[calls->at.at[number]].path;
        if (strncmp(other, path, n) == 0 && other[n] == '\0') return number;
    }
    return -1;
}

int call_around(const Calls *calls, const char *path) {
    for (size_t n = strlen(path); n > 0; n--) {
        if (path[n] != '.') continue;
        const int call = find_call(calls, path, n);
        if (call >= 0) return call;
    }
    return -1;
}

static void find_calls(Calls *calls, const Paths *paths, Arena *arena) {
    size_t longest = 0;
    calls->arena = arena;
    calls->paths = paths;
    for (int i = 0; i < paths->n; i++)
        if (paths->at[i].kind == PATH_CALL) {
            const size_t n = strlen(paths->at[i].path);
            if (find_call(calls, paths->at[i].path, n) >= 0) continue; /* of several results */
            map_add(arena, &calls->map, hash_bytes(paths->at[i].path, n), calls->at.n);
            vec_push(arena, &calls->at, i);
            longest = n > longest ? n : longest;
        }
}

static void write_calls(PlanData *data, const Calls *calls) {
    Json *json = &data->json;
    json_array(json, "calls");
    for (int i = 0; i < calls->at.n; i++) {
        const NamedPath *call = &calls->paths->at[calls->at.at[i]];
        json_list(json, NULL);
        data_text(data, call->what);
        data_text(data, call->path);
        data_place(data, call->span);
        json_int(json, NULL, call_around(calls, call->path));
        json_end(json);
    }
    json_end(json);
}

/* ---------------------------------------------------------------- hints */

static uint64_t hint_hash(const Hint *hint) {
    return hash_mix(0, (uint64_t)(uintptr_t)hint);
}

int hint_number(const HintNumbers *hints, const Hint *hint) {
    if (hint == NULL) return -1;
    map_each(&hints->map, hint_hash(hint), number) if (hints->front->hints.at[number].hint == hint) return number;
    return -1;
}

typedef enum { HINT_OPERATOR, HINT_INPUT, HINT_STATE } Hinted;

static void write_hint(PlanData *data, const Hint *hint, int node, const char *name, Hinted what, int id) {
    json_list(&data->json, NULL);
    data_place(data, hint->span);
    data_place(data, hint->nout > 0 ? hint->out.span : (Span){0});
    json_int(&data->json, NULL, node);
    data_text(data, name);
    json_int(&data->json, NULL, what);
    json_int(&data->json, NULL, id);
    json_end(&data->json);
}

static void write_hints(PlanData *data, const Build *b, const HintNumbers *hints) {
    Json *json = &data->json;
    const Graph *g = &b->front.chosen;
    int *node = arena_alloc(data->tables.arena, sizeof *node * (size_t)(b->front.hints.n + 1));
    memset(node, -1, sizeof *node * (size_t)(b->front.hints.n + 1));
    for (int n = b->sharded.graph.nforward - 1; n >= 0; n--) {
        const int number = hint_number(hints, g->nodes.at[chosen_of(b, n)].hint);
        if (number >= 0) node[number] = n;
    }
    json_array(json, "hints");
    for (int i = 0; i < b->front.hints.n; i++)
        write_hint(data, b->front.hints.at[i].hint, node[i], b->front.hints.at[i].name, HINT_OPERATOR, -1);
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].hint != NULL) write_hint(data, g->inputs.at[i].hint, -1, g->inputs.at[i].name, HINT_INPUT, i);
    for (int i = 0; i < g->states.n; i++)
        if (g->states.at[i].hint != NULL && g->states.at[i].parameter == i)
            write_hint(data, g->states.at[i].hint, -1, g->states.at[i].name, HINT_STATE, i);
    json_end(json);
}

/* ---------------------------------------------------------------- warnings */

/* The nodes of program train by the lines on which they, and their hints, stand. */
static uint64_t line_hash(Span span) {
    return hash_mix(hash_mix(0, (uint64_t)span.file), (uint64_t)span.line);
}

static bool has(Span span, Span at) {
    return span.file == at.file && span.line == at.line && span.column <= at.column &&
           at.column < span.column + (span.length > 0 ? span.length : 1);
}

static Span hint_span(const Node *node) {
    return node->hint != NULL ? node->hint->span : (Span){0};
}

static void find_lines(Map *lines, const Graph *g, Arena *arena) {
    for (int n = 0; n < g->nforward; n++) {
        const Span own = g->nodes.at[n].span, hint = hint_span(&g->nodes.at[n]);
        map_add(arena, lines, line_hash(own), n);
        if (hint.line > 0 && line_hash(hint) != line_hash(own)) map_add(arena, lines, line_hash(hint), n);
    }
}

/* Nodes of the forward pass that stand there, or whose hints do. */
static void write_nodes_at(Json *json, const Graph *g, const Map *lines, Span span) {
    json_list(json, NULL);
    if (span.line > 0) {
        map_each(lines, line_hash(span), node) if (has(g->nodes.at[node].span, span) || has(hint_span(&g->nodes.at[node]), span))
            json_int(json, NULL, node);
    }
    json_end(json);
}

/* "uneven" of "text [-Wuneven]". */
static const char *flag_of(const char *text, Arena *arena, const char **message) {
    const char *flag = strstr(text, " [-W");
    *message = flag != NULL ? arena_copy(arena, text, (size_t)(flag - text)) : text;
    return flag != NULL ? arena_copy(arena, flag + 4, strcspn(flag + 4, "]")) : "";
}

/* Writes what of this kind follows a warning, up to the next warning. */
static void write_notes(PlanData *data, const Diags *diags, int first, DiagKind kind) {
    Json *json = &data->json;
    json_list(json, NULL);
    for (int i = first; i < diags->items.n && diags->items.at[i].kind != DIAG_WARNING; i++) {
        const Diag *diag = &diags->items.at[i];
        if (diag->kind != kind) continue;
        if (kind == DIAG_NOTE) {
            json_list(json, NULL);
            data_place(data, diag->span);
        }
        data_text(data, diag->text);
        if (kind == DIAG_NOTE) json_end(json);
    }
    json_end(json);
}

static void write_warnings(PlanData *data, const Compilation *c) {
    Json *json = &data->json;
    const Graph *g = &program_train(c)->sharded.graph;
    Map lines = {0};
    find_lines(&lines, g, data->tables.arena);
    json_array(json, "warnings");
    for (int i = 0; i < c->diags->items.n; i++) {
        const Diag *diag = &c->diags->items.at[i];
        const char *message;
        if (diag->kind != DIAG_WARNING) continue;
        json_list(json, NULL);
        data_text(data, flag_of(diag->text, data->tables.arena, &message));
        data_place(data, diag->span);
        data_text(data, message);
        write_nodes_at(json, g, &lines, diag->span);
        write_notes(data, c->diags, i + 1, DIAG_NOTE);
        write_notes(data, c->diags, i + 1, DIAG_HINT);
        json_end(json);
    }
    json_end(json);
}

/* ---------------------------------------------------------------- demands, measures, search, machine */

static void write_demand(PlanData *data, const char *text, int64_t measured, int64_t limit, const char *unit, Span span) {
    json_list(&data->json, NULL);
    data_text(data, text);
    json_int(&data->json, NULL, measured);
    json_int(&data->json, NULL, limit);
    data_text(data, unit);
    data_place(data, span);
    json_end(&data->json);
}

static void write_demands(PlanData *data, const Compilation *c) {
    const Build *b = program_train(c);
    const Settings *settings = &b->front.graph.settings;
    Arena *arena = data->tables.arena;
    json_array(&data->json, "demands");
    for (int i = 0; i < settings->asserts.n; i++) {
        const Assertion *at = &settings->asserts.at[i];
        const bool time = at->what == ASSERT_TIME;
        const double limit = time ? at->limit * 1e9 : at->limit;
        const int64_t measured = time                        ? nanoseconds(b->timeline->step_s)
                                 : at->what == ASSERT_MEMORY ? bytes_needed(c)
                                                             : b->program->sent_bytes;
        write_demand(data, arena_printf(arena, "%s %s", asserted_name[at->what], at->reached ? "<=" : "<"), measured,
                     limit < 0x1p62 ? (int64_t)limit : INT64_MAX >> 1, time ? "ns" : "bytes", at->span);
    }
    for (int i = 0; i < settings->forbids.n; i++) {
        const Forbidden *at = &settings->forbids.at[i];
        const char *where = at->path != NULL ? at->path : "";
        write_demand(data, arena_printf(arena, "no %s%s%s", comm_name[at->kind], *where ? " at " : "", where), -1, -1, "", at->span);
    }
    json_end(&data->json);
}

static void write_measure(PlanData *data, const char *name, double share, int64_t saved_bytes, double seconds) {
    json_list(&data->json, NULL);
    data_text(data, name);
    json_real(&data->json, NULL, share > 0 ? share : 1);
    json_int(&data->json, NULL, saved_bytes);
    json_int(&data->json, NULL, nanoseconds(seconds));
    json_end(&data->json);
}

static void write_measures(PlanData *data, const Compilation *c) {
    const Measures *measures = program_train(c)->front.measures;
    json_array(&data->json, "measures");
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        const Taken *taken = &measures->taken[k];
        write_measure(data, measure_name(taken), taken->share, taken->saved_bytes, taken->seconds);
    }
    if (c->micro != NULL && c->micro->parts > 1)
        write_measure(data, arena_printf(data->tables.arena, "micro_batches = %d", c->micro->parts), 1, c->micro->saved_bytes,
                      c->micro->seconds);
    json_end(&data->json);
}

static void write_search(Json *json, const SearchResult *found) {
    if (found == NULL) {
        json_text(json, "search", NULL);
        return;
    }
    json_row(json, "search");
    json_text(json, "how", found->how);
    json_real(json, "seconds", found->seconds);
    json_real(json, "bound", found->bound);
    json_list(json, "mesh");
    for (int a = 0; a < found->mesh.naxes; a++)
        json_int(json, NULL, found->mesh.axis[a].size);
    json_end(json);
    json_int(json, "tried", found->ntried);
    json_int(json, "conversions", found->nmoves);
    json_end(json);
}

static void write_level(Json *json, const char *key, const MachineLevel *level) {
    json_list(json, key);
    json_real(json, NULL, level->latency_s);
    json_real(json, NULL, level->bytes_per_s);
    json_end(json);
}

void report_machine(Json *json, const Machine *machine) {
    const Machine *on = machine != NULL ? machine : &machine_cpu;
    json_row(json, "machine");
    json_text(json, "name", on->name);
    json_int(json, "ranks_per_node", on->ranks_per_node);
    write_level(json, "rank", &on->rank);
    write_level(json, "node", &on->node);
    if (on->rank_cached_bytes_per_s > 0) json_real(json, "rank_cached_bytes_per_s", on->rank_cached_bytes_per_s);
    json_row(json, "flops");
    for (int p = 0; p < NPEAKS; p++)
        json_real(json, peak_name[p], on->flops[p]);
    json_end(json);
    if (on->product.bytes_per_s > 0) write_level(json, "product", &on->product);
    json_real(json, "memory_bytes_per_s", on->memory_bytes_per_s);
    if (on->convolution_flops > 0) json_real(json, "convolution_flops", on->convolution_flops);
    if (on->update_bytes_per_s > 0) json_real(json, "update_bytes_per_s", on->update_bytes_per_s);
    json_int(json, "memory_bytes", on->memory_bytes);
    json_array(json, "caches");
    for (int c = 0; c < on->ncaches; c++) {
        json_list(json, NULL);
        json_real(json, NULL, on->cache[c].bytes_per_s);
        json_int(json, NULL, on->cache[c].bytes);
        json_end(json);
    }
    json_end(json);
    json_real(json, "kernel_s", on->kernel_s);
    json_real(json, "overlap", on->overlap);
    json_bool(json, "assumed", on->assumed);
    json_end(json);
}

/* ---------------------------------------------------------------- the whole */

static void write_files(PlanData *data, const Compilation *c) {
    Json *json = &data->json;
    json_array(json, "files");
    for (int f = 0; f < c->diags->files.n; f++) {
        const SourceFile *file = &c->diags->files.at[f];
        json_list(json, NULL);
        data_text(data, file->name);
        json_text(json, NULL, c->options->report_source ? arena_copy(data->tables.arena, file->text, file->n) : NULL);
        json_end(json);
    }
    json_end(json);
}

static void more_of_plan(void *context, PlanData *data) {
    Reporter *r = context;
    const Compilation *c = r->c;
    const Build *train = program_train(c);
    json_text(&data->json, "command", c->options->command);
    json_int(&data->json, "chunks", settings_parts(&train->front.graph.settings) / settings_stages(&train->front.graph.settings));
    report_machine(&data->json, c->options->machine);
    write_files(data, c);
    write_calls(data, &r->calls);
    write_hints(data, train, &r->hints);
    write_warnings(data, c);
    write_demands(data, c);
    write_measures(data, c);
    write_search(&data->json, train->front.search);
}

static void more_of_program(void *context, PlanData *data, int program) {
    const Reporter *r = context;
    report_why(data, r->c->programs.at[program], &r->calls, &r->hints);
}

static void more_of_role(void *context, PlanData *data, int program, int role) {
    const Reporter *r = context;
    const Build *b = r->c->programs.at[program];
    report_cost(data, &b->role_facts[role], &b->role_timelines[role], b->options->machine);
}

bool report_print(Text *text, Compilation *c) {
    Reporter r = {.c = c};
    Build *train = program_train(c);
    for (int i = 0; i < c->programs.n; i++) {
        Build *b = c->programs.at[i];
        for (int role = 0; role < b->nroles; role++)
            facts_bounds(&b->role_facts[role], c->arena);
        if (b->timeline == NULL) build_time(b);
    }
    find_calls(&r.calls, &train->front.paths, c->arena);
    r.hints.front = &train->front;
    for (int i = 0; i < train->front.hints.n; i++)
        map_add(c->arena, &r.hints.map, hint_hash(train->front.hints.at[i].hint), i);
    Page page = {0};
    plan_data(&page.element[ELEMENT_PLAN], &c->plan,
              &(PlanMore){.context = &r, .plan = more_of_plan, .program = more_of_program, .role = more_of_role});
    page_print(text, &page);
    page_finish(&page);
    return true;
}
