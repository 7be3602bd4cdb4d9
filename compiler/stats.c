/* stats: --stats, --stats=json and the one-line summary, of the facts of what runs. */
#include <math.h>
#include <string.h>

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/held.h"
#include "compiler/name.h"
#include "compiler/oracle.h"
#include "compiler/report.h"
#include "compiler/sharded.h"
#include "compiler/tasks.h"
#include "compiler/timeline.h"
#include "ir/map.h"

static void print_held(Text *text, const Facts *facts, const Diags *diags, Arena *arena) {
    Held held;
    held_find(&held, facts, arena);
    if (held.step < 0) return;
    text_printf(text, "fullest        step %d of %d (%s): %s of values in the arena, %s in gaps\n", held.step + 1, facts->role->steps.n,
                step_named(arena, facts, diags, held.step), bytes_named(arena, held.bytes),
                bytes_named(arena, facts->role->arena_bytes - held.bytes));
    text_printf(text, "  held then    %s\n", holders_named(arena, &held));
}

static double ratio_of(int64_t received, int64_t bound) {
    return bound > 0 ? (double)received / (double)bound : 1.0;
}

/* The number of a role, which is that of its stage. */
static int stage_of(const Build *b, const Facts *facts) {
    return (int)(facts - b->role_facts);
}

static const char *layout_of(Arena *arena, const Facts *facts, int instance) {
    const Instance *at = &facts->role->instances.at[instance];
    return layout_named(arena, facts->graph, at->layout, facts->graph->values.at[at->value].type.hidden);
}

/* Conversions that differ only by numbers in their value's name, as those of equal layers do. */
typedef struct Alike {
    CommKind kind;
    const char *name; /* of their values, held_kind */
    const char *from, *to;
    Traffic received, bound; /* of each */
    int count;
} Alike;
typedef VEC(Alike) Alikes;

static bool are_alike(const Alike *a, const Alike *b) {
    return a->kind == b->kind && a->received.total == b->received.total && a->bound.total == b->bound.total &&
           strcmp(a->name, b->name) == 0 && strcmp(a->from, b->from) == 0 && strcmp(a->to, b->to) == 0;
}

static void find_alike(Alikes *alikes, const Totals *totals, Arena *arena) {
    Map map = {0};
    for (int i = 0; i < totals->moves.n; i++) {
        const Facts *facts = totals->moves.at[i].facts;
        const Communication *made = &totals->moves.at[i].made;
        if (made->kind == COMM_STRIDED_SLICE) continue;
        const char *name = held_kind(arena, facts->graph->values.at[made->value].name);
        const uint64_t hash = hash_mix(hash_bytes(name, strlen(name)), (uint64_t)made->received.total);
        const Alike one = {made->kind,  name, layout_of(arena, facts, made->from), layout_of(arena, facts, made->to), made->received,
                           made->bound, 1};
        int same = -1;
        map_each(&map, hash, a) if (same < 0 && are_alike(&alikes->at[a], &one)) same = a;
        if (same >= 0) {
            alikes->at[same].count++;
        } else {
            map_add(arena, &map, hash, alikes->n);
            vec_push(arena, alikes, one);
        }
    }
}

static const char *times_bytes(Arena *arena, int count, int64_t bytes) {
    return count == 1 ? bytes_named(arena, bytes) : arena_printf(arena, "%d x %s", count, bytes_named(arena, bytes));
}

/* Prints conversions in the order in which the first of each kind starts. */
static void print_conversions(Text *text, const Totals *totals, Arena *arena) {
    Alikes alikes = {0};
    find_alike(&alikes, totals, arena);
    int width = (int)strlen("of all ranks");
    for (int i = 0; i < alikes.n; i++)
        if ((int)strlen(alikes.at[i].name) > width) width = (int)strlen(alikes.at[i].name);
    text_printf(text, "each           %-*s  received         bound            from -> to\n", width, "of all ranks");
    for (int i = 0; i < alikes.n; i++) {
        const Alike *of = &alikes.at[i];
        text_printf(text, "  %-14s %-*s  %-15s  %-15s  %s -> %s\n", comm_name[of->kind], width, of->name,
                    times_bytes(arena, of->count, of->received.total), times_bytes(arena, of->count, of->bound.total), of->from, of->to);
    }
}

static void print_communication(Text *text, const Build *b, const Totals *totals, Arena *arena) {
    text_printf(text, "communication  count  sent/rank     received/rank  bound\n");
    if (b->nroles > 1)
        text_printf(text, "  of stage       all  %-12d  %-13d  %d\n", stage_of(b, totals->sender), stage_of(b, totals->receiver),
                    stage_of(b, totals->receiver));
    for (int k = 0; k <= NCOMMS; k++) {
        const KindFacts *kind = k < NCOMMS ? &totals->kind[k] : &totals->all;
        if (kind->count > 0 || k == NCOMMS)
            text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", k < NCOMMS ? comm_name[k] : "all", kind->count,
                        bytes_named(arena, kind->sent), bytes_named(arena, kind->received), bytes_named(arena, kind->bound));
    }
    if (totals->all.count > 0) print_conversions(text, totals, arena);
    text_printf(text, "in all         %s received by all ranks; the values' conversions need at least %s: %.2f x the bound\n",
                bytes_named(arena, totals->received.total), bytes_named(arena, totals->bound.total),
                ratio_of(totals->received.total, totals->bound.total));
}

static void print_memory(Text *text, const Compilation *c) {
    const Build *train = program_train(c);
    const Facts *facts = train->facts;
    Arena *arena = c->arena;
    if (train->nroles > 1)
        text_printf(text, "most memory    stage %d, whose memory, fused steps, views, kernels, communications and waits follow\n",
                    stage_of(train, facts));
    text_printf(text, "parameters     %lld in %d tensors; with the optimizer's slots %s, on a rank %s\n", (long long)facts->parameters,
                facts->nparameters, bytes_named(arena, facts->states_whole), bytes_named(arena, facts->states));
    text_printf(text, "memory a rank  %s: arena %s (peak), inner values of fused steps %s, states %s, inputs %s, constants %s",
                bytes_named(arena, bytes_needed(c)), bytes_named(arena, facts->role->arena_bytes), bytes_named(arena, facts->inner),
                bytes_named(arena, facts->states), bytes_named(arena, facts->inputs), bytes_named(arena, facts->constants));
    if (facts->workspace > 0) text_printf(text, ", workspace of kernels %s", bytes_named(arena, facts->workspace));
    if (evals_bytes(c) > 0) text_printf(text, ", evals %s more", bytes_named(arena, evals_bytes(c)));
    text_printf(text, "\n");
}

static const Timeline *timeline_of(Build *b) {
    if (b->timeline == NULL) build_time(b);
    return b->timeline;
}

/* Prints the times; of a pipeline, those of the stage that needs the most memory, which waits for the others too. */
static void print_time(Text *text, const Timeline *timeline, int nroles, const Machine *machine) {
    text_printf(text, "predicted      %.4g ms a step on %s: kernels %.4g ms, communications %.4g ms, %s %.4g ms%s\n",
                1e3 * timeline->step_s, machine != NULL ? machine->name : machine_cpu.name, 1e3 * timeline->kernel_s,
                1e3 * timeline->communication_s, nroles > 1 ? "waits" : "of them", 1e3 * timeline->exposed_s, nroles > 1 ? "" : " exposed");
    if (machine != NULL && machine->assumed)
        text_printf(text, "               by cpu's figures where %s has none of kernels or memory; prun --calibrate measures them\n",
                    machine->name);
}

/* Parts of the net that each stage of a pipeline has. */
static int stage_chunks(const Build *b) {
    const Settings *settings = &b->front.graph.settings;
    return settings_parts(settings) / settings_stages(settings);
}

static double bubble_of(const Build *b) {
    const Settings *settings = &b->front.graph.settings;
    return pipe_bubble(b->nroles, stage_chunks(b), (int)settings_batches(settings));
}

/* Of a pipeline, prints each stage and the part of a step in which it computes nothing. */
static void print_stages(Text *text, Build *b, Arena *arena) {
    const Settings *settings = &b->front.graph.settings;
    if (b->nroles < 2) return;
    timeline_of(b);
    for (int r = 0; r < b->nroles; r++) {
        const Facts *facts = &b->role_facts[r];
        const Timeline *timeline = &b->role_timelines[r];
        text_printf(text, "stage %-8d %s: %s a rank, of it states %s and arena %s; sends %s, receives %s; kernels %.4g ms, waits %.4g ms\n",
                    r, ranks_named(arena, facts->role->first_rank, facts->role->last_rank), bytes_named(arena, facts->rank_bytes),
                    bytes_named(arena, facts->states), bytes_named(arena, facts->role->arena_bytes), bytes_named(arena, facts->all.sent),
                    bytes_named(arena, facts->all.received), 1e3 * timeline->kernel_s, 1e3 * timeline->exposed_s);
    }
    const int64_t chunks = stage_chunks(b), batches = settings_batches(settings);
    text_printf(text, "bubble         %.3g %% of the step no kernel runs, on average of the stages; %d equal stages",
                100 * timelines_idle(b->role_timelines, b->nroles), b->nroles);
    if (chunks > 1) text_printf(text, " of %lld chunks", (long long)chunks);
    text_printf(text, " and %lld batch%s, nothing else: %.3g %%\n", (long long)batches, batches == 1 ? "" : "es", 100 * bubble_of(b));
}

/* What of the forward pass is done again for the backward pass, and what that saves and costs: the program is compiled again without it. */
typedef struct Saved {
    const char *name, *unit; /* "recompute", "kernels" */
    const char *done;        /* "computed" */
    int count;               /* kernels that are computed again, values that are gathered again */
    int64_t bytes;           /* less on a rank */
    double seconds;          /* more a step */
} Saved;
enum { NSAVED = 2 };

static int computed_again(const Graph *g) {
    int n = 0;
    for (int k = 0; k < g->nodes.n; k++) {
        const Node *node = &g->nodes.at[k];
        const bool gathered = node->op == OP_replicate || (node->op == OP_cast && graph_producer(g, node->in[0])->op == OP_replicate);
        n += node->copy_of > 0 && !gathered; /* of a parameter that is gathered again */
    }
    return n;
}

static int all_gathered_again(Build *b) {
    const Edit edit = edit_begin(b);
    int n = 0;
    for (int v = 0; v < edit.g->values.n; v++)
        n += gathered_again(&edit, v);
    return n;
}

/* Fills in those of NSAVED that the program has. Returns their number. */
static int find_saved(Build *b, Arena *arena, Saved *saved) {
    const bool *none = arena_alloc(arena, (size_t)b->front.chosen.nodes.n + 1);
    const Trial without[NSAVED] = {{.recompute = none}, {.gathered_once = true}};
    const Saved again[NSAVED] = {{"recompute", "kernels", "computed", .count = computed_again(&b->sharded.graph)},
                                 {"regather", "values", "gathered", .count = all_gathered_again(b)}};
    BuildCost with, cost;
    Error error;
    int n = 0;
    build_cost(b, &with);
    for (int k = 0; k < NSAVED; k++) {
        if (again[k].count == 0 || !build_try_with(b, &without[k], &cost, &error)) continue;
        saved[n] = again[k];
        saved[n].bytes = memory_bytes(&cost) - memory_bytes(&with);
        saved[n++].seconds = with.step_s - cost.step_s;
    }
    return n;
}

static void print_saved(Text *text, Build *b, Arena *arena) {
    Saved saved[NSAVED];
    const int n = find_saved(b, arena, saved);
    for (const Saved *s = saved; s < saved + n; s++)
        text_printf(text, "%-14s %d %.*s %s again: %s %s on a rank, %.4g ms %s a step\n", s->name, s->count,
                    (int)strlen(s->unit) - (s->count == 1), s->unit, s->done, bytes_named(arena, s->bytes < 0 ? -s->bytes : s->bytes),
                    s->bytes < 0 ? "more" : "less", 1e3 * fabs(s->seconds), s->seconds < 0 ? "less" : "more");
}

/* The most steps of any role of a program. */
static int most_steps(const Program *program) {
    int steps = 0;
    for (int r = 0; r < program->roles.n; r++)
        steps = program->roles.at[r].steps.n > steps ? program->roles.at[r].steps.n : steps;
    return steps;
}

static int64_t most_arena(const Program *program) {
    int64_t bytes = 0;
    for (int r = 0; r < program->roles.n; r++)
        bytes = program->roles.at[r].arena_bytes > bytes ? program->roles.at[r].arena_bytes : bytes;
    return bytes;
}

/* Prints a line about a program other than train. */
static void print_program(Text *text, const Compilation *c, const Build *b, const char *more) {
    text_printf(text, "%-14s %d steps, %s/rank/step sent, arena %s%s\n", b->name, most_steps(b->program),
                bytes_named(c->arena, b->program->sent_bytes), bytes_named(c->arena, most_arena(b->program)), more);
}

/* The bytes of all caches on a rank, each at its largest box. */
static int64_t cache_bytes(const Build *b) {
    const Graph *g = &b->sharded.graph;
    int64_t bytes = 0;
    for (int s = 0; s < g->states.n; s++)
        if (g->states.at[s].cache) bytes += layout_max_bytes(g->states.at[s].layout, &g->states.at[s].type);
    return bytes;
}

/* The places that a step computes. */
static int64_t places_of(const Build *prompt) {
    const Graph *g = &prompt->sharded.graph;
    int64_t places = 0;
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].kind == INPUT_PLACE) places = shape_elements(&g->inputs.at[i].type.shape);
    return places;
}

static void json_program(Json *json, const Build *b) {
    json_object(json, b->name);
    json_int(json, "steps", most_steps(b->program));
    json_int(json, "sent", b->program->sent_bytes);
    json_int(json, "arena", most_arena(b->program));
}

void search_print(Text *text, const SearchResult *result) {
    text_printf(text, "%.4g ms %s", 1e3 * result->seconds, result->of_model ? "as the model predicts" : "predicted");
    const double above = result->bound > 0 ? 100 * (result->seconds / result->bound - 1) : 0;
    if (above > 0.05)
        text_printf(text, ", at most %.1f %% above the best of this model", above);
    else if (above < -0.05) /* what runs as one, and what is deferred, the model does not know */
        text_printf(text, ", %.1f %% below the best of this model", -above);
    else if (result->bound > 0)
        text_printf(text, ", the best of this model");
    text_printf(text, ", by %s", result->how);
    for (int a = 0; a < result->mesh.naxes; a++)
        text_printf(text, "%s%d", a > 0 ? " x " : " on the mesh ", (int)result->mesh.axis[a].size);
    if (result->nchanges > 0) text_printf(text, " and %d change%s near it", result->nchanges, result->nchanges > 1 ? "s" : "");
}

void stats_print(Text *text, Compilation *c) {
    Build *train = program_train(c);
    Totals totals;
    facts_totals(&totals, train->role_facts, train->nroles, c->arena);
    print_communication(text, train, &totals, c->arena);
    print_memory(text, c);
    print_held(text, train->facts, c->diags, c->arena);
    print_saved(text, train, c->arena);
    text_printf(text, "fused          %d kernels in %d steps, %d results without memory\n", train->facts->fused_kernels,
                train->facts->fused_steps, train->facts->ninner);
    text_printf(text, "views          %d results read where their operands lie, %s a rank not copied\n", train->facts->views,
                bytes_named(c->arena, train->facts->view_bytes));
    const double flops = train->facts->flops, busiest = totals.rank_flops;
    text_printf(text, "FLOPs a step   %.4g; busiest rank %.4g (%.2f x an even share)\n", flops, busiest,
                flops > 0 ? busiest * train->front.graph.nranks / flops : 1.0);
    print_time(text, timeline_of(train), train->nroles, c->options->machine);
    print_stages(text, train, c->arena);
    if (c->stages != NULL) {
        text_printf(text, "stages         ");
        stage_count_print(text, c);
        text_printf(text, "\n");
    }
    measures_print(text, train, "measure        ", "\n");
    if (c->micro != NULL && c->micro->parts > 1) {
        text_printf(text, "measure        micro_batches = %d", c->micro->parts);
        measure_print(text, c->arena, c->micro->saved_bytes, c->micro->seconds);
        text_printf(text, "\n");
    }
    if (train->front.search != NULL) {
        text_printf(text, "search         ");
        search_print(text, train->front.search);
        text_printf(text, "\n");
    }
    if (program_eval(c) != NULL) print_program(text, c, program_eval(c), "");
    if (program_generate(c) != NULL)
        print_program(text, c, program_generate(c),
                      arena_printf(c->arena, ", caches %s, %.4g ms a token", bytes_named(c->arena, cache_bytes(program_generate(c))),
                                   1e3 * timeline_of(program_generate(c))->step_s));
    if (program_prompt(c) != NULL)
        print_program(text, c, program_prompt(c),
                      arena_printf(c->arena, ", %lld places in %.4g ms", (long long)places_of(program_prompt(c)),
                                   1e3 * timeline_of(program_prompt(c))->step_s));
    text_printf(text, "time           %.2f ms, verification between passes %.2f ms\n", 1e3 * c->seconds, 1e3 * c->verify_seconds);
    for (int p = 0; p < c->npasses; p++)
        text_printf(text, "  %-12s %8.3f ms\n", c->pass[p].name, 1e3 * c->pass[p].seconds);
    if (c->options->prove)
        text_printf(text, "proof          %.3f ms (steps %.3f, patterns %.3f, full size %.3f): %s\n", 1e3 * c->proof.seconds,
                    1e3 * c->proof.compositional_s, 1e3 * c->proof.patterns_s, 1e3 * c->proof.whole_s, c->proof.certificate);
}

/* ---------------------------------------------------------------- JSON: docs/explain.md lists the keys */

static void json_traffic(Json *json, const char *key, Traffic bytes) {
    json_row(json, key);
    json_int(json, "total", bytes.total);
    json_int(json, "max", bytes.max);
    json_end(json);
}

static void json_strategies(Json *json, const Build *b) {
    const Graph *g = &b->sharded.graph;
    json_array(json, "strategies");
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node)) continue;
        Text tuple = {0};
        bool said = strategy_print(&tuple, node, g, b->sharded.strategy[n]);
        json_row(json, NULL);
        json_text(json, "name", node->name);
        json_text(json, "op", op_table[node->op].name);
        json_text(json, "from", strategy_from_name[node->from]);
        json_text(json, "strategy", said ? tuple.at : NULL);
        Text layout = {0};
        const Value *result = &g->values.at[node->out[0]];
        layout_print(&layout, b->sharded.made[node->out[0]], result->type.hidden);
        json_text(json, "layout", layout.at);
        json_end(json);
        text_finish(&tuple);
        text_finish(&layout);
    }
    json_end(json);
}

static void json_layout(Json *json, const Facts *facts, const char *key, int instance) {
    const Instance *at = &facts->role->instances.at[instance];
    Text text = {0};
    layout_print(&text, at->layout, facts->graph->values.at[at->value].type.hidden);
    json_text(json, key, text.at);
    text_finish(&text);
}

static void json_communications(Json *json, const Totals *totals) {
    json_array(json, "communications");
    for (int i = 0; i < totals->moves.n; i++) {
        const Facts *facts = totals->moves.at[i].facts;
        const Communication *made = &totals->moves.at[i].made;
        json_row(json, NULL);
        json_text(json, "value", facts->graph->values.at[made->value].name);
        json_text(json, "kind", comm_name[made->kind]);
        json_layout(json, facts, "from", made->from);
        json_layout(json, facts, "to", made->to);
        json_traffic(json, "sent", made->sent);
        json_traffic(json, "received", made->received);
        json_traffic(json, "bound", made->bound);
        json_int(json, "bucket", made->bucket);
        json_end(json);
    }
    json_end(json);
}

static void json_totals(Json *json, const Build *b, const Totals *totals) {
    json_object(json, "totals");
    json_int(json, "communications", totals->all.count);
    json_traffic(json, "sent", totals->sent);
    json_traffic(json, "received", totals->received);
    json_traffic(json, "bound", totals->bound);
    json_real(json, "ratio", ratio_of(totals->received.total, totals->bound.total));
    if (b->nroles > 1) {
        json_int(json, "sender", stage_of(b, totals->sender));
        json_int(json, "receiver", stage_of(b, totals->receiver));
    }
    json_object(json, "kinds");
    for (int k = 0; k < NCOMMS; k++) {
        const KindFacts *kind = &totals->kind[k];
        if (kind->count == 0) continue;
        json_row(json, comm_name[k]);
        json_int(json, "count", kind->count);
        json_int(json, "sent", kind->sent);
        json_int(json, "received", kind->received);
        json_int(json, "bound", kind->bound);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

void json_figures(Json *json, const Facts *facts, double rank_flops, JsonOpen *open) {
    open(json, "memory");
    json_int(json, "parameters", facts->parameters);
    json_int(json, "parameter_tensors", facts->nparameters);
    json_int(json, "states_whole", facts->states_whole);
    json_int(json, "states", facts->states);
    json_int(json, "arena", facts->role->arena_bytes);
    json_int(json, "inner", facts->inner);
    json_int(json, "inputs", facts->inputs);
    json_int(json, "constants", facts->constants);
    if (facts->workspace > 0) json_int(json, "workspace", facts->workspace);
    json_int(json, "rank", facts->rank_bytes);
    json_end(json);
    open(json, "flops");
    json_real(json, "net", facts->flops);
    json_real(json, "rank", rank_flops);
    json_end(json);
}

static void json_held(Json *json, const Facts *facts, const Diags *diags, Arena *arena) {
    Held held;
    held_find(&held, facts, arena);
    json_object(json, "fullest");
    json_int(json, "step", held.step + 1);
    json_text(json, "what", held.step >= 0 ? step_named(arena, facts, diags, held.step) : NULL);
    json_int(json, "bytes", held.bytes);
    json_array(json, "values");
    for (int i = 0; i < held.holders.n; i++) {
        json_row(json, NULL);
        json_text(json, "name", held.holders.at[i].name);
        json_int(json, "count", held.holders.at[i].count);
        json_int(json, "bytes", held.holders.at[i].bytes);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static void json_saved(Json *json, Build *b, Arena *arena) {
    Saved saved[NSAVED];
    const int n = find_saved(b, arena, saved);
    for (const Saved *s = saved; s < saved + n; s++) {
        json_object(json, s->name);
        json_int(json, s->unit, s->count);
        json_int(json, "bytes", s->bytes);
        json_real(json, "seconds", s->seconds);
        json_end(json);
    }
}

static void json_time(Json *json, const Timeline *timeline, const Machine *machine) {
    json_object(json, "predicted");
    json_text(json, "machine", machine != NULL ? machine->name : machine_cpu.name);
    json_real(json, "step", timeline->step_s);
    json_real(json, "kernels", timeline->kernel_s);
    json_real(json, "communications", timeline->communication_s);
    json_real(json, "exposed", timeline->exposed_s);
    json_end(json);
}

static void json_stages(Json *json, Build *b) {
    if (b->nroles < 2) return;
    timeline_of(b);
    json_array(json, "stages");
    for (int r = 0; r < b->nroles; r++) {
        const Facts *facts = &b->role_facts[r];
        json_row(json, NULL);
        json_int(json, "first", facts->role->first_rank);
        json_int(json, "last", facts->role->last_rank);
        json_int(json, "rank", facts->rank_bytes);
        json_int(json, "states", facts->states);
        json_int(json, "arena", facts->role->arena_bytes);
        json_int(json, "sent", facts->all.sent);
        json_int(json, "received", facts->all.received);
        json_real(json, "kernels", b->role_timelines[r].kernel_s);
        json_real(json, "exposed", b->role_timelines[r].exposed_s);
        json_end(json);
    }
    json_end(json);
    json_real(json, "idle", timelines_idle(b->role_timelines, b->nroles));
    json_int(json, "chunks", stage_chunks(b));
    json_real(json, "bubble", bubble_of(b));
}

static void json_stage_count(Json *json, const StageCount *count) {
    if (count == NULL) return;
    json_array(json, "stages_tried");
    for (int i = 0; i < count->tried.n; i++) {
        const StageTried *tried = &count->tried.at[i];
        json_row(json, NULL);
        json_int(json, "stages", tried->stages);
        json_int(json, "chunks", tried->chunks);
        json_int(json, "batches", tried->batches);
        json_bool(json, "compiles", tried->compiles);
        json_real(json, "step", tried->step_s);
        json_real(json, "idle", tried->idle);
        json_real(json, "bubble", pipe_bubble(tried->stages, tried->chunks, tried->batches));
        json_int(json, "rank", tried->bytes);
        json_int(json, "missing", tried->over_bytes);
        json_int(json, "broken", tried->broken);
        json_end(json);
    }
    json_end(json);
}

static void json_measure(Json *json, const char *name, double share, int64_t saved_bytes, double seconds) {
    json_row(json, NULL);
    json_text(json, "name", name);
    json_real(json, "share", share > 0 ? share : 1);
    json_int(json, "saved", saved_bytes);
    json_real(json, "seconds", seconds);
    json_end(json);
}

static void json_measures(Json *json, const Compilation *c) {
    const Measures *measures = program_train(c)->front.measures;
    json_array(json, "measures");
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        const Taken *taken = &measures->taken[k];
        json_measure(json, measure_name(taken), taken->share, taken->saved_bytes, taken->seconds);
    }
    if (c->micro != NULL && c->micro->parts > 1)
        json_measure(json, arena_printf(c->arena, "micro_batches = %d", c->micro->parts), 1, c->micro->saved_bytes, c->micro->seconds);
    json_end(json);
}

void stats_json(Text *text, Compilation *c) {
    Build *train = program_train(c);
    Json json = {.text = text};
    Totals totals;
    facts_totals(&totals, train->role_facts, train->nroles, c->arena);
    json_object(&json, NULL);
    json_text(&json, "net", train->front.graph.name);
    json_text(&json, "plan", c->options->no_plan ? NULL : c->options->output);
    json_int(&json, "ranks", train->front.graph.nranks);
    json_int(&json, "steps", most_steps(&c->plan.programs.at[0]));
    if (program_eval(c) != NULL) {
        json_program(&json, program_eval(c));
        json_end(&json);
    }
    if (program_generate(c) != NULL) {
        json_program(&json, program_generate(c));
        json_int(&json, "caches", cache_bytes(program_generate(c)));
        json_real(&json, "seconds", timeline_of(program_generate(c))->step_s);
        json_end(&json);
    }
    if (program_prompt(c) != NULL) {
        json_program(&json, program_prompt(c));
        json_int(&json, "places", places_of(program_prompt(c)));
        json_real(&json, "seconds", timeline_of(program_prompt(c))->step_s);
        json_end(&json);
    }
    json_object(&json, "fused");
    json_int(&json, "kernels", train->facts->fused_kernels);
    json_int(&json, "steps", train->facts->fused_steps);
    json_int(&json, "inner", train->facts->ninner);
    json_end(&json);
    json_object(&json, "views");
    json_int(&json, "values", train->facts->views);
    json_int(&json, "bytes", train->facts->view_bytes);
    json_end(&json);
    json_strategies(&json, train);
    json_communications(&json, &totals);
    json_totals(&json, train, &totals);
    if (train->nroles > 1) json_int(&json, "most_memory", stage_of(train, train->facts));
    json_figures(&json, train->facts, totals.rank_flops, json_object);
    json_int(&json, "needed", bytes_needed(c));
    json_held(&json, train->facts, c->diags, c->arena);
    json_saved(&json, train, c->arena);
    json_time(&json, timeline_of(train), c->options->machine);
    json_stages(&json, train);
    json_stage_count(&json, c->stages);
    json_measures(&json, c);
    if (train->front.search != NULL) {
        const SearchResult *found = train->front.search;
        json_object(&json, "search");
        json_real(&json, "seconds", found->seconds);
        json_real(&json, "bound", found->bound);
        json_text(&json, "how", found->how);
        json_array(&json, "mesh");
        for (int a = 0; a < found->mesh.naxes; a++)
            json_int(&json, NULL, found->mesh.axis[a].size);
        json_end(&json);
        json_int(&json, "meshes", found->nmeshes);
        json_int(&json, "changes", found->nchanges);
        json_int(&json, "solutions", found->ntried);
        json_int(&json, "conversions", found->nmoves);
        json_int(&json, "work", found->work);
        json_end(&json);
    }
    json_object(&json, "seconds");
    json_real(&json, "passes", c->seconds);
    json_real(&json, "verification", c->verify_seconds);
    json_object(&json, "pass");
    for (int p = 0; p < c->npasses; p++)
        json_real(&json, c->pass[p].name, c->pass[p].seconds);
    json_end(&json);
    json_end(&json);
    json_object(&json, "proof");
    json_bool(&json, "proved", c->options->prove);
    json_real(&json, "seconds", c->options->prove ? c->proof.seconds : 0);
    json_real(&json, "steps_seconds", c->proof.compositional_s);
    json_real(&json, "patterns_seconds", c->proof.patterns_s);
    json_real(&json, "full_size_seconds", c->proof.whole_s);
    json_text(&json, "certificate", c->options->prove ? c->proof.certificate : NULL);
    json_end(&json);
    json_end(&json);
}

void stats_summary(Text *text, Compilation *c) {
    const Program *program = program_train(c)->program;
    const int nranks = program_train(c)->front.graph.nranks, ncommunications = program_requests(program);
    text_printf(text, "%s: %d rank%s", c->options->output, nranks, nranks == 1 ? "" : "s");
    if (program->roles.n > 1) text_printf(text, " in %d stages", program->roles.n);
    text_printf(text, ", %d steps, %d communication%s, %s/rank/step sent, ", most_steps(program), ncommunications,
                ncommunications == 1 ? "" : "s", bytes_named(c->arena, program->sent_bytes));
    if (c->options->prove)
        text_printf(text, "proved in %.1f ms\n", 1e3 * c->proof.seconds);
    else
        text_printf(text, "not proved\n");
}
