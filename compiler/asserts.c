/* asserts: what the parallel block demands of a plan: `assert comm < 2 MiB;`, `forbid all_gather at layer.*;`.
 *
 * Before: emit. After: nothing is changed; a program train that breaks a demand is rejected, with what breaks it. The search asks the same of each plan that it tries
 * (build_broken). */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/held.h"
#include "compiler/name.h"
#include "compiler/oracle.h"
#include "compiler/timeline.h"
#include "ir/wildcard.h"

enum { MAX_SHOWN = 4 };

static bool kept(const Assertion *assertion, double measured) {
    return assertion->reached ? measured <= assertion->limit : measured < assertion->limit;
}

/* ---------------------------------------------------------------- where a communication is */

/* Whether the pattern covers a step from `first` on that takes `instance`, directly or through other communications. *user: its node. */
static bool taken_at(const Facts *facts, int first, int instance, const char *pattern, int *user) {
    for (int s = first; s < facts->role->steps.n; s++) {
        const Step *step = &facts->role->steps.at[s];
        bool takes = false;
        for (int i = 0; i < step->nin; i++)
            takes = takes || step->in[i] == instance;
        if (!takes || step->kind == STEP_WAIT) continue;
        if (step->kind != STEP_KERNEL && step->kind != STEP_WRITE) {
            if (taken_at(facts, s, step->out[0], pattern, user)) return true;
        } else if (pattern == NULL || pattern_covers(pattern, node_path(facts->graph, step->node))) {
            *user = step->node;
            return true;
        }
    }
    return false;
}

/* Whether a communication is at the forbidden place: its value is made there, or an operator there takes it. *user: a node that takes it there, -1: none. */
static bool is_forbidden(const Facts *facts, const Forbidden *forbidden, const Communication *move, int *user) {
    const Graph *g = facts->graph;
    *user = -1;
    const bool taken = taken_at(facts, move->step, move->to, forbidden->path, user);
    return taken || forbidden->path == NULL || pattern_covers(forbidden->path, g->values.at[move->value].name) ||
           pattern_covers(forbidden->path, node_path(g, g->values.at[move->value].node));
}

/* A communication that is forbidden, as a role has it. */
typedef struct Found {
    const Facts *facts;
    const Communication *move;
    int user;                  /* -1: none */
    const int64_t *sent_bytes; /* by the busiest rank of all roles */
} Found;

typedef VEC(Found) FoundList;

/* Those of all roles. A communication of several roles counts once, as a role that receives has it. */
static FoundList find_forbidden(const Build *b, const Forbidden *forbidden) {
    FoundList list = {0};
    const size_t nrequests = (size_t)program_requests(b->program) + 1;
    bool *listed = arena_alloc(b->arena, nrequests);
    int64_t *sent_bytes = arena_alloc(b->arena, sizeof *sent_bytes * nrequests);
    for (int r = 0; r < b->nroles; r++) {
        const Facts *facts = &b->role_facts[r];
        for (int i = 0; i < facts->communications.n; i++) {
            const Communication *move = &facts->communications.at[i];
            const int request = facts->role->steps.at[move->step].request;
            Found found = {.facts = facts, .move = move, .sent_bytes = &sent_bytes[request]};
            if (move->kind != forbidden->kind) continue;
            if (move->sent.max > sent_bytes[request]) sent_bytes[request] = move->sent.max;
            if (listed[request] || facts->role->instances.at[move->to].place == PLACE_ELSEWHERE) continue;
            listed[request] = is_forbidden(facts, forbidden, move, &found.user);
            if (listed[request]) vec_push(b->arena, &list, found);
        }
    }
    return list;
}

/* ---------------------------------------------------------------- for the search */

int build_broken(const Build *b, const BuildCost *cost) {
    const Settings *settings = &b->front.graph.settings;
    const double measured[NASSERTS] = {
        [ASSERT_COMM] = (double)cost->sent_bytes, [ASSERT_MEMORY] = (double)memory_bytes(cost), [ASSERT_TIME] = cost->step_s};
    int n = 0;
    for (int i = 0; i < settings->asserts.n; i++)
        n += !kept(&settings->asserts.at[i], measured[settings->asserts.at[i].what]);
    for (int i = 0; i < settings->forbids.n; i++)
        n += find_forbidden(b, &settings->forbids.at[i]).n > 0;
    return n;
}

/* ---------------------------------------------------------------- for people */

static void note_communication(const Compilation *c, const Found *found) {
    const Communication *move = found->move;
    const int user = found->user;
    const Graph *g = found->facts->graph;
    const Value *value = &g->values.at[move->value];
    const Instance *instances = found->facts->role->instances.at;
    Text text = {0};
    text_printf(&text, "%s of %s, ", comm_name[move->kind], value->name);
    text_printf(&text, "%s -> ", layout_named(c->arena, g, instances[move->from].layout, value->type.hidden));
    text_printf(&text, "%s", layout_named(c->arena, g, instances[move->to].layout, value->type.hidden));
    if (user >= 0) text_printf(&text, ", for %s %s", op_table[g->nodes.at[user].op].name, g->nodes.at[user].name);
    diag_note(c->diags, g->nodes.at[value->node].span, "%s: the busiest rank sends %s", text.at, bytes_named(c->arena, *found->sent_bytes));
    text_finish(&text);
}

/* Hints at what makes a plan send less: the search that keeps to demands or, where that found none, strategies by hand. */
static void hint_value(const Compilation *c, const char *value, const char *aim) {
    const Settings *settings = &program_train(c)->front.graph.settings;
    const bool divides_batch = settings->mode == MODE_DATA_PARALLEL;
    if (divides_batch || (settings->mode == MODE_AUTO && settings->found.n == 0 && strcmp(settings->search, "auto") != 0))
        diag_hint(c->diags, "--explain %s says why; %s = auto looks for a plan that %s", value, divides_batch ? "mode" : "search", aim);
    else if (settings->mode == MODE_AUTO || settings->mode == MODE_SEMI_AUTO)
        diag_hint(c->diags, "--explain %s says why; --what-if HINT shows what another strategy sends, and --shard HINT takes it", value);
    else
        diag_hint(c->diags, "--explain %s says why", value);
}

static bool check_forbidden(const Compilation *c, const Forbidden *forbidden) {
    const FoundList found = find_forbidden(program_train(c), forbidden);
    if (found.n == 0) return true;
    diag_error(c->diags, forbidden->span, "%s is forbidden%s%s, and the plan has %d", comm_name[forbidden->kind],
               forbidden->path != NULL ? " at " : "", forbidden->path != NULL ? forbidden->path : "", found.n);
    for (int i = 0; i < found.n && i < MAX_SHOWN; i++)
        note_communication(c, &found.at[i]);
    if (found.n > MAX_SHOWN) diag_note(c->diags, (Span){0}, "and %d more", found.n - MAX_SHOWN);
    hint_value(c, found.at[0].facts->graph->values.at[found.at[0].move->value].name, "has none of them");
    return false;
}

/* Notes what is sent, the most bytes first: "all_reduce of layer.*.w.grad 12 x 4.0 MiB". */
static void note_sent(const Compilation *c) {
    const Build *b = program_train(c);
    const Facts *facts = b->role_facts; /* of the role that sends most */
    Held sent = {0};
    while (facts->all.sent < b->program->sent_bytes)
        facts++;
    for (int i = 0; i < facts->communications.n; i++) {
        const Communication *move = &facts->communications.at[i];
        if (move->sent.max == 0) continue;
        held_add(&sent, arena_printf(c->arena, "%s of %s", comm_name[move->kind], facts->graph->values.at[move->value].name), move->value,
                 move->sent.max, c->arena);
    }
    held_sort(&sent);
    if (sent.holders.n == 0) return;
    const int value = sent.holders.at[0].value;
    diag_note(c->diags, graph_producer(facts->graph, value)->span, "sent by the busiest rank: %s", holders_named(c->arena, &sent));
    hint_value(c, facts->graph->values.at[value].name, "sends less");
}

static void note_time(const Compilation *c) {
    const Build *b = program_train(c);
    const Timeline *timeline = b->timeline;
    const Machine *machine = options_machine(c->options);
    diag_note(c->diags, (Span){0}, "on machine %s: kernels %.4g ms, communications %.4g ms, %s %.4g ms", machine->name,
              1e3 * timeline->kernel_s, 1e3 * timeline->communication_s, b->nroles > 1 ? "waits" : "of which kernels wait for",
              1e3 * timeline->exposed_s);
    diag_hint(c->diags, "--timeline FILE writes the predicted step; --machine FILE predicts for another machine");
}

static bool check_assertion(const Compilation *c, const Assertion *assertion) {
    Build *b = program_train(c);
    Arena *arena = c->arena;
    if (assertion->what == ASSERT_TIME && b->timeline == NULL) build_time(b);
    const double measured = assertion->what == ASSERT_COMM     ? (double)b->program->sent_bytes
                            : assertion->what == ASSERT_MEMORY ? (double)bytes_needed(c)
                                                               : b->timeline->step_s;
    if (kept(assertion, measured)) return true;
    const int64_t bytes = (int64_t)measured, limit = assertion->limit < 0x1p62 ? (int64_t)assertion->limit : INT64_MAX;
    const char *below = assertion->reached ? "at most" : "less than";
    switch (assertion->what) {
    case ASSERT_COMM:
        diag_error(c->diags, assertion->span, "in a step of this plan the busiest rank sends %s, %lld bytes; %s %s are asserted",
                   bytes_named(arena, bytes), (long long)bytes, below, bytes_named(arena, limit));
        note_sent(c);
        break;
    case ASSERT_MEMORY:
        diag_error(c->diags, assertion->span, "this plan needs %s of memory on a rank, %lld bytes; %s %s are asserted",
                   bytes_named(arena, bytes), (long long)bytes, below, bytes_named(arena, limit));
        explain_need(c, bytes - limit);
        break;
    case ASSERT_TIME:
        diag_error(c->diags, assertion->span, "a step of this plan is predicted to take %.4g ms; %s %.4g ms are asserted", 1e3 * measured,
                   below, 1e3 * assertion->limit);
        note_time(c);
        break;
    case NASSERTS:
        break;
    }
    return false;
}

bool pass_asserts(Compilation *c) {
    const Settings *settings = &program_train(c)->front.graph.settings;
    bool ok = true;
    for (int i = 0; i < settings->asserts.n; i++)
        ok = check_assertion(c, &settings->asserts.at[i]) && ok;
    for (int i = 0; i < settings->forbids.n; i++)
        ok = check_forbidden(c, &settings->forbids.at[i]) && ok;
    return ok;
}
