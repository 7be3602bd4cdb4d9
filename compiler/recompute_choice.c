/* recompute_choice: chooses the values that are computed again where a plan needs too much memory.
 *
 * It looks at the program as compiled so far: which values of the forward pass lie in the arena at its fullest step, and how long computing each is predicted to take. Values of
 * one kind, that is of equal layers, are weighed together: the bytes that they hold, against the seconds to compute them again, with all that they need that is not kept itself.
 * What is read directly after that step is kept. Kinds that hold the most bytes a second go first, of each as many values as are needed, from the first layer on, held longest.
 *
 * A kind that is computed from values of its own kind, as what layers hand on to each other, would be computed, and held, for all layers at once. Of n such values one in about
 * sqrt(n) is kept, so that only what lies between two of these, a segment, is computed at once (Chen et al. 2016). However long segments are, each value that is not kept is
 * computed once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "compiler/held.h"
#include "compiler/timeline.h"

enum { SOON = 32, SOON_SHARE = 64 }; /* steps: at most so many, and about 1 / SOON_SHARE of all */

/* Of the program that is looked at, per node of front.chosen. */
typedef struct Looked {
    int64_t *held;   /* bytes of its results at the fullest step */
    int64_t *size;   /* bytes of its results */
    double *seconds; /* that it takes, with its communications */
    bool *soon;      /* read so soon after the fullest step that computing it again would bring nothing */
    int64_t bytes;   /* that a rank needs */
} Looked;

/* The operator of front.chosen that a forward node, of any batch, is made from; -1: it is no such node, or its results are not kept. */
static int forward_operator(const Build *t, int id) {
    const Graph *g = &t->sharded.graph;
    const Node *node = &g->nodes.at[id];
    if (node_is_leaf(node) || node->recompute || !graph_is_forward(g, id)) return -1;
    return chosen_of(t, id < g->nforward ? id : node->origin);
}

/* Adds the seconds of an event. A kernel counts by itself: one that is fused with a product may be computed again without it. */
static void add_seconds(const Build *t, const TimelineEvent *event, double *seconds) {
    const Graph *g = &t->sharded.graph;
    const Role *role = t->facts->role;
    for (int s = event->step; s < event->step + event->nsteps; s++) {
        const Step *step = &role->steps.at[s];
        const bool kernel = step->kind == STEP_KERNEL;
        const int id = kernel ? step->node : g->values.at[role->instances.at[step->in[0]].value].node;
        const int chosen = id < g->nforward ? forward_operator(t, id) : -1;
        if (chosen < 0) continue;
        const Node *node = &g->nodes.at[id];
        seconds[chosen] +=
            kernel ? operator_seconds(t->options->machine, g, node, node->strategy) : (event->end_s - event->begin_s) / event->nsteps;
    }
}

/* Marks what is read soon from the fullest step on. */
static void note_soon(const Build *t, int fullest, bool *soon) {
    const Role *role = t->facts->role;
    const int share = role->steps.n / SOON_SHARE, end = fullest + (share < SOON ? share + 1 : SOON);
    for (int s = fullest; s >= 0 && s < role->steps.n && s < end; s++)
        for (int i = 0; i < role->steps.at[s].nin; i++) {
            const int node = t->sharded.graph.values.at[role->instances.at[role->steps.at[s].in[i]].value].node;
            const int chosen = forward_operator(t, node);
            if (chosen >= 0) soon[chosen] = true;
        }
}

static void look(const Tried *tried, Looked *looked, Arena *arena) {
    const Build *t = tried->build;
    const Graph *g = &t->sharded.graph;
    Held held;
    held_find(&held, t->facts, arena);
    note_soon(t, held.step, looked->soon);
    for (int i = 0; i < held.values.n; i++) {
        const Value *value = &g->values.at[held.values.at[i]];
        const int chosen = forward_operator(t, value->node);
        if (chosen >= 0) looked->held[chosen] += layout_max_bytes(t->sharded.made[held.values.at[i]], &value->type);
    }
    for (int n = 0; n < g->nforward; n++)
        for (int k = 0; k < g->nodes.at[n].nout; k++) {
            const int v = g->nodes.at[n].out[k];
            looked->size[chosen_of(t, n)] += layout_max_bytes(t->sharded.made[v], &g->values.at[v].type);
        }
    for (int e = 0; e < t->timeline->events.n; e++)
        add_seconds(t, &t->timeline->events.at[e], looked->seconds);
    looked->bytes = memory_bytes(&tried->cost);
}

/* ---------------------------------------------------------------- kinds */

typedef struct Kind {
    const char *name;
    VEC(int) members; /* nodes that hold bytes and may be marked, in program order */
    int segment;      /* it is marked in segments of so many values, the last of each kept; 0: it is not */
    double worth;     /* bytes a second when it was last looked at */
} Kind;

typedef struct Choice {
    const Graph *g;
    Arena *arena;
    const Looked *looked;
    bool *marks;
    int *kind;  /* per node: its kind, -1: none */
    int *stamp; /* per node: the last question that has collected it */
    int *kept;  /* per node: the last question for which it ends a segment */
    int question;
    VEC(Kind) kinds;
    VEC(int) found; /* the nodes that computing again needs */
} Choice;

static bool may_mark(const Node *node) {
    const OpClass made = op_table[node->op].op_class;
    return (made == OP_CLASS_USER || made == OP_CLASS_INTERNAL) && !op_table[node->op].boundary && node->op != OP_replicate;
}

/* The kind of a name: names of a loop's layers have a place for their number, "h.*". Without one, as in h1 = .., h2 = .., any number is
 * taken for it. */
static const char *kind_name(Arena *arena, const char *name) {
    const char *kind = held_kind(arena, name);
    if (strchr(kind, '*') != NULL) return kind;
    char *numbered = arena_alloc(arena, strlen(kind) + 1);
    int n = 0;
    for (const char *at = kind; *at;) {
        const size_t digits = strspn(at, "0123456789");
        numbered[n++] = digits > 0 ? '*' : *at;
        at += digits > 0 ? digits : 1;
    }
    return numbered;
}

/* Whether a node is of a kind. If its name differs in other numbers, it is only if the same operator makes it and it holds as much. */
static bool is_of(const Choice *c, const Kind *kind, const char *name, int node) {
    const int first = kind->members.at[0];
    return strcmp(kind->name, name) == 0 &&
           (strcmp(held_kind(c->arena, c->g->nodes.at[node].name), name) == 0 ||
            (c->g->nodes.at[first].op == c->g->nodes.at[node].op && c->looked->held[first] == c->looked->held[node]));
}

static void find_kinds(Choice *c) {
    Map names = {0};
    for (int n = 0; n < c->g->nforward; n++) {
        c->kind[n] = -1;
        if (c->looked->held[n] == 0 || c->looked->soon[n] || c->marks[n] || !may_mark(&c->g->nodes.at[n])) continue;
        const char *name = kind_name(c->arena, c->g->nodes.at[n].name);
        const uint64_t hash = hash_bytes(name, strlen(name));
        map_each(&names, hash, k) if (is_of(c, &c->kinds.at[k], name, n)) c->kind[n] = k;
        if (c->kind[n] < 0) {
            c->kind[n] = c->kinds.n;
            map_add(c->arena, &names, hash, c->kinds.n);
            vec_push(c->arena, &c->kinds, ((Kind){.name = name}));
        }
        vec_push(c->arena, &c->kinds.at[c->kind[n]].members, n);
    }
}

/* Collects the nodes needed to compute a value again, beside those that the same question has collected: they begin at what is kept, and in
 * segments at what ends one. False: another value of its kind is needed, and there are no segments. */
static bool collect(Choice *c, int member, bool segments) {
    int next = c->found.n;
    if (c->stamp[member] != c->question) vec_push(c->arena, &c->found, member);
    c->stamp[member] = c->question;
    for (; next < c->found.n; next++) {
        const Node *node = &c->g->nodes.at[c->found.at[next]];
        for (int i = 0; i < node->nin; i++) {
            const int maker = c->g->values.at[node->in[i]].node;
            if (!may_mark(&c->g->nodes.at[maker])) continue;
            const bool own = c->kind[maker] >= 0 && c->kind[maker] == c->kind[member];
            if (own && !segments) return false;
            const bool stays = own ? c->kept[maker] == c->question : c->looked->held[maker] > 0;
            if (c->stamp[maker] == c->question || (stays && !c->marks[maker])) continue;
            c->stamp[maker] = c->question;
            vec_push(c->arena, &c->found, maker);
        }
    }
    return true;
}

static void ask(Choice *c) {
    c->question++;
    c->found.n = 0;
}

/* How many values a segment has so that the kept ones and those of one segment together hold the least; less than 2: no segments. */
static int segment_length(Choice *c, const Kind *kind) {
    if (kind->segment > 0) return kind->segment;
    const int member = kind->members.at[kind->members.n / 2];
    int64_t held = 0; /* of what is computed again with one value */
    ask(c);
    for (int m = 0; m < kind->members.n; m++)
        c->kept[kind->members.at[m]] = c->question;
    collect(c, member, true);
    for (int i = 0; i < c->found.n; i++)
        if (c->found.at[i] == member || c->marks[c->found.at[i]]) held += c->looked->size[c->found.at[i]];
    return held == 0 ? 0 : (int)sqrt((double)kind->members.n * (double)c->looked->held[member] / (double)held);
}

/* Collects values of a kind until `missing` bytes are saved: *saved. segment 0: one by one. False: it cannot be computed so. */
static bool collect_kind(Choice *c, const Kind *kind, int segment, int64_t missing, int64_t *saved) {
    ask(c);
    *saved = 0;
    for (int m = segment - 1; segment > 0 && m < kind->members.n; m += segment)
        c->kept[kind->members.at[m]] = c->question;
    for (int m = 0; m < kind->members.n && *saved < missing; m++) {
        const int member = kind->members.at[m];
        if (c->kept[member] == c->question) continue;
        if (!collect(c, member, segment > 0)) return false;
        if (!c->marks[member]) *saved += c->looked->held[member];
    }
    return true;
}

/* Marks values of a kind until `missing` bytes are saved: *saved, in *seconds. With try_only nothing is marked. False: it cannot be computed again. */
static bool take_kind(Choice *c, Kind *kind, int64_t missing, bool try_only, int64_t *saved, double *seconds) {
    int segment = 0;
    *seconds = 0;
    if (kind->segment > 0 || !collect_kind(c, kind, 0, missing, saved)) {
        segment = segment_length(c, kind);
        if (segment < 2 || !collect_kind(c, kind, segment, missing, saved)) return false;
    }
    for (int i = 0; i < c->found.n; i++)
        if (!c->marks[c->found.at[i]]) *seconds += c->looked->seconds[c->found.at[i]];
    for (int i = 0; i < c->found.n && !try_only; i++)
        c->marks[c->found.at[i]] = true;
    if (!try_only) kind->segment = segment;
    return true;
}

static double worth_of(Choice *c, Kind *kind) {
    int64_t saved;
    double seconds;
    if (!take_kind(c, kind, INT64_MAX, true, &saved, &seconds)) return -INFINITY;
    return saved == 0 ? -INFINITY : seconds > 0 ? (double)saved / seconds : INFINITY;
}

/* The kind with the most worth now; -1: none. What was marked since makes a kind worth less or more, so each is computed anew. */
static int best_kind(Choice *c) {
    int best = -1;
    for (int k = 0; k < c->kinds.n; k++) {
        c->kinds.at[k].worth = worth_of(c, &c->kinds.at[k]);
        if (c->kinds.at[k].worth > 0 && (best < 0 || c->kinds.at[k].worth > c->kinds.at[best].worth)) best = k;
    }
    return best;
}

bool recompute_choose(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken) {
    enum { NAMED = 4 };
    const Graph *g = &b->front.chosen;
    Arena scratch;
    if (g->settings.recompute_none || g->settings.optimizer == OPTIMIZER_NONE) return false;
    arena_init(&scratch);
    const size_t n = (size_t)g->nodes.n + 1;
    Looked looked = {.held = arena_alloc(&scratch, sizeof *looked.held * n),
                     .size = arena_alloc(&scratch, sizeof *looked.size * n),
                     .seconds = arena_alloc(&scratch, sizeof *looked.seconds * n),
                     .soon = arena_alloc(&scratch, n)};
    bool *marks = arena_alloc(b->arena, n);
    look(with, &looked, &scratch);
    for (int k = 0; k < g->nodes.n; k++)
        marks[k] = g->nodes.at[k].recompute;
    for (int k = 0; measures != NULL && k < measures->n; k++)
        if (measures->taken[k].marks != NULL) memcpy(marks, measures->taken[k].marks, n - 1);
    Choice c = {.g = g, .arena = &scratch, .looked = &looked, .marks = marks};
    c.kind = arena_alloc(&scratch, sizeof *c.kind * n);
    c.stamp = arena_alloc(&scratch, sizeof *c.stamp * n);
    c.kept = arena_alloc(&scratch, sizeof *c.kept * n);
    find_kinds(&c);
    bool some = false;
    Text text = {0};
    int named = 0;
    for (int64_t missing = looked.bytes - limit, saved; missing > 0; missing -= saved) {
        double seconds;
        const int best = best_kind(&c);
        if (best < 0 || !take_kind(&c, &c.kinds.at[best], missing, false, &saved, &seconds) || saved == 0) break;
        if (named++ < NAMED) text_printf(&text, "%s%s", some ? ", " : "", c.kinds.at[best].name);
        some = true;
    }
    if (named > NAMED) text_printf(&text, ", %d more kinds", named - NAMED);
    if (some) *taken = (Taken){.measure = taken->measure, .marks = marks, .what = arena_copy(b->arena, text.at, text.n)};
    text_finish(&text);
    arena_finish(&scratch);
    return some;
}
