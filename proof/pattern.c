/* Runs each distinct operator and communication of a plan alone, over the field, at small sizes, and checks that its results on all ranks are those of the whole operator. The cost
 * depends on the number of distinct patterns, not on sizes or layers. Threads share it where there are many ranks. */
#include "proof/seen.h"
#include "proof/shrink.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- one case */

/* A thread's memory for running cases. */
typedef struct Bench {
    Spread in[MAX_IN], out[MAX_OUT];
    Fe *whole[MAX_IN + MAX_OUT]; /* room for `room` elements each */
    int64_t room;
    uint64_t seed;
} Bench;

/* An operator or a communication that differs from those of earlier steps. */
typedef struct Pattern {
    const Program *program;
    int step;
    const char *name; /* of the node or value */
    Case as_is, small;
    Case *chosen; /* the one of the two that is run; NULL: neither */
    bool first;   /* no earlier pattern is run as the same case */
    bool holds;
    char why[300]; /* why it does not hold, or nothing is chosen */
} Pattern;

typedef struct Collection {
    const Plan *plan;
    Arena arena;
    SeenTable own, chosen;
    Key key;
    VEC(Pattern *) patterns;
} Collection;

static Shape *shape_at(Case *c, int tensor) {
    return &c->value[tensor].type.shape;
}

static FieldTensor whole_tensor(Case *c, int tensor, Fe *at) {
    const TensorType *type = &c->value[tensor].type;
    FieldTensor t = {.dtype = type->dtype, .hidden = type->hidden, .global = type->shape, .box = {.ndim = type->shape.ndim}, .at = at};
    for (int d = 0; d < type->shape.ndim; d++)
        t.box.end[d] = type->shape.dim[d];
    return t;
}

static FieldTensor rank_tensor(Case *c, int tensor, const Spread *spread, int rank) {
    FieldTensor t = whole_tensor(c, tensor, spread_rank(spread, rank));
    own_box(&c->layout[tensor], &t.global, rank, &t.box);
    return t;
}

static bool room_for(Bench *b, Case *c) {
    int64_t most = 1;
    for (int t = 0; t < case_tensors(c); t++)
        if (shape_elements(shape_at(c, t)) > most) most = shape_elements(shape_at(c, t));
    for (int t = 0; t < MAX_IN + MAX_OUT && most > b->room; t++) {
        free(b->whole[t]);
        b->whole[t] = malloc((size_t)most * sizeof *b->whole[t]);
        if (!b->whole[t]) return b->room = 0, false;
    }
    if (most > b->room) b->room = most;
    for (int t = 0; t < case_tensors(c); t++) {
        Spread *spread = t < c->node.nin ? &b->in[t] : &b->out[t - c->node.nin];
        if (!spread_room(spread, &c->layout[t], shape_at(c, t), c->nranks)) return false;
    }
    for (int i = 0; i < c->node.nin; i++)
        spread_draw(&c->layout[i], shape_at(c, i), c->value[i].type.dtype, c->nranks, fe_hash(b->seed, (Fe)i), &b->in[i], b->whole[i]);
    return true;
}

static bool run_operator(Bench *b, Case *c, char *why, size_t n) {
    FieldTensor in[MAX_IN], out[MAX_OUT];
    if (!room_for(b, c)) return snprintf(why, n, "out of memory in the proof"), false;
    for (int i = 0; i < c->node.nin; i++)
        in[i] = whole_tensor(c, i, b->whole[i]);
    for (int k = 0; k < c->node.nout; k++)
        out[k] = whole_tensor(c, c->node.nin + k, b->whole[c->node.nin + k]);
    if (!field_kernel(&c->graph, &c->node, in, out, why, n)) return false;
    for (int rank = 0; rank < c->nranks; rank++) {
        for (int i = 0; i < c->node.nin; i++)
            in[i] = rank_tensor(c, i, &b->in[i], rank);
        for (int k = 0; k < c->node.nout; k++)
            out[k] = rank_tensor(c, c->node.nin + k, &b->out[k], rank);
        char text[200];
        if (field_kernel(&c->graph, &c->node, in, out, text, sizeof text)) continue;
        snprintf(why, n, "rank %d: %s", rank, text);
        return false;
    }
    for (int k = 0; k < c->node.nout; k++)
        if (!spread_agrees(&c->layout[c->node.nin + k], shape_at(c, c->node.nin + k), c->nranks, &b->out[k], b->whole[c->node.nin + k], why,
                           n))
            return false;
    return true;
}

static bool run_communication(Bench *b, Case *c, char *why, size_t n) {
    if (!room_for(b, c)) return snprintf(why, n, "out of memory in the proof"), false;
    return spread_move(c->comm, &c->layout[0], &c->layout[1], shape_at(c, 0), c->nranks, &b->in[0], &b->out[0], why, n) &&
           spread_agrees(&c->layout[1], shape_at(c, 1), c->nranks, &b->out[0], b->whole[0], why, n);
}

/* Work of a case, approximately, in multiplications. */
static double case_work(Case *c) {
    FieldTensor in[MAX_IN], out[MAX_OUT];
    double elements = 0;
    for (int t = 0; t < case_tensors(c); t++) {
        FieldTensor *tensor = t < c->node.nin ? &in[t] : &out[t - c->node.nin];
        *tensor = whole_tensor(c, t, NULL);
        elements += (double)shape_elements(shape_at(c, t));
        own_box(&c->layout[t], shape_at(c, t), 0, &tensor->box);
        elements += c->nranks * (double)own_max_elements(&c->layout[t], shape_at(c, t));
    }
    return elements + (c->communication ? 0 : c->nranks * field_work(&c->graph, &c->node, in, out));
}

/* Whether the compositional proof accepts a case. */
static bool legal(const Case *c) {
    char why[300];
    if (c->communication) {
        Sample sample;
        sample_ranks(c->nranks, &sample);
        return conversion_check(c->comm, &c->layout[0], &c->layout[1], &c->value[0].type.shape, c->nranks, &sample, why, sizeof why);
    }
    const Layout *in[MAX_IN], *out[MAX_OUT];
    for (int t = 0; t < case_tensors(c); t++)
        *(t < c->node.nin ? &in[t] : &out[t - c->node.nin]) = &c->layout[t];
    Letters letters;
    return node_letters(&c->graph, &c->node, &letters, why, sizeof why) &&
           kernel_check(&c->graph, &c->node, &letters, in, out, why, sizeof why);
}

static const double most_work = 1 << 20; /* a few milliseconds */

/* The case to run: a small one that is as legal as the original, or the original. NULL with why: there is no small one, and the original is
 * too large. */
static Case *choose(Pattern *pattern, char *why, size_t n) {
    static const struct {
        int most;
        bool keep;
    } tries[] = {{3, false}, {2, false}, {3, true}, {2, true}};
    Case *own = &pattern->as_is, *small = &pattern->small;
    int own_legal = -1; /* not known */
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        if (!case_shrink(own, tries[i].most, tries[i].keep, small, why, n)) continue;
        if (small->nranks > 32 && tries[i].most > 2) continue;
        if (case_work(small) > most_work) {
            snprintf(why, n, "too large even at small sizes");
            continue;
        }
        if (legal(small)) return small;
        if (own_legal < 0) own_legal = legal(own);
        if (!own_legal) return small; /* running it shows the fault */
        snprintf(why, n, "it is another pattern at small sizes");
    }
    return case_work(own) <= most_work ? own : NULL;
}

static void describe(Text *text, const Case *c) {
    text_printf(text, "on %d rank%s, ", c->nranks, c->nranks == 1 ? "" : "s");
    for (int t = 0; t < case_tensors(c); t++) {
        text_printf(text, t == 0 ? "" : t == c->node.nin ? " -> " : ", ");
        type_print(text, &c->value[t].type);
        text_printf(text, " ");
        layout_print(text, &c->layout[t], c->value[t].type.hidden);
    }
}

static const char *case_name(const Case *c) {
    return c->communication ? comm_name[c->comm] : op_table[c->node.op].name;
}

/* ---------------------------------------------------------------- all of a plan */

static bool is_new(Collection *all, const Role *role, const Step *step, const Node *node) {
    Key *key = &all->key;
    key_begin(key);
    key_add(key, node ? (uint64_t)node->op : 1000 + (uint64_t)step->comm);
    if (node) key_attrs(key, node->op, node->attr);
    for (int t = 0; t < step->nin + step->nout; t++) {
        const Instance *instance = &role->instances.at[t < step->nin ? step->in[t] : step->out[t - step->nin]];
        key_type(key, &all->plan->graph.values.at[instance->value].type);
        key_add(key, (uint64_t)(uintptr_t)instance->layout); /* interned; equal ones at two addresses match once the cases are small */
    }
    return !seen_before(&all->own, &all->arena, key);
}

static void collect_step(Collection *all, const Program *program, const Role *role, int number) {
    const Step *step = &role->steps.at[number];
    const Graph *graph = &all->plan->graph;
    const Node *node = NULL;
    if (step->kind == STEP_WAIT || step->kind == STEP_WRITE) return;
    if (step->kind == STEP_KERNEL) node = &graph->nodes.at[step->node];
    if (!is_new(all, role, step, node)) return;
    Pattern *pattern = arena_alloc(&all->arena, sizeof *pattern);
    Case *c = &pattern->as_is;
    c->communication = !node;
    c->comm = step->comm;
    c->nranks = graph->nranks;
    if (node) c->node = *node;
    c->node.nin = step->nin;
    c->node.nout = step->nout;
    c->graph = (Graph){.nranks = graph->nranks, .replicas = graph->replicas, .loss = -1};
    c->graph.values.at = c->value;
    c->graph.values.n = c->graph.values.cap = step->nin + step->nout;
    for (int t = 0; t < step->nin + step->nout; t++) {
        const Instance *instance = &role->instances.at[t < step->nin ? step->in[t] : step->out[t - step->nin]];
        c->value[t] = graph->values.at[instance->value];
        c->layout[t] = *instance->layout;
        if (node) c->layout[t].pin = (Pin){0}; /* what holds on all ranks holds on those that compute it */
        *(t < step->nin ? &c->node.in[t] : &c->node.out[t - step->nin]) = t;
    }
    pattern->program = program, pattern->step = number, pattern->name = node ? node->name : c->value[0].name;
    vec_push(&all->arena, &all->patterns, pattern);
}

/* Marks the first of the patterns that are run as the same case, and counts. */
static void mark_first(Collection *all, Patterns *counts) {
    Key *key = &all->key;
    for (int k = 0; k < all->patterns.n; k++) {
        Pattern *pattern = all->patterns.at[k];
        Case *c = pattern->chosen;
        if (!c) {
            if (counts->left_out++ == 0)
                snprintf(counts->left_why, sizeof counts->left_why, "%s of %s: %s", case_name(&pattern->as_is), pattern->name,
                         pattern->why);
            continue;
        }
        key_begin(key);
        key_add(key, c->communication ? 1000 + (uint64_t)c->comm : (uint64_t)c->node.op);
        key_add(key, (uint64_t)c->nranks);
        if (!c->communication) key_attrs(key, c->node.op, c->node.attr);
        for (int t = 0; t < case_tensors(c); t++) {
            key_type(key, &c->value[t].type);
            key_layout(key, &c->layout[t]);
        }
        pattern->first = !seen_before(&all->chosen, &all->arena, key);
        counts->operators += pattern->first && !c->communication;
        counts->communications += pattern->first && c->communication;
    }
}

/* ---------------------------------------------------------------- by several threads */

typedef struct Sharing {
    const Collection *all;
    Bench *bench; /* one for each thread */
} Sharing;

static void choose_case(void *context, int thread, int item) {
    const Sharing *sharing = context;
    Pattern *pattern = sharing->all->patterns.at[item];
    (void)thread;
    pattern->chosen = choose(pattern, pattern->why, sizeof pattern->why);
}

static void run_case(void *context, int thread, int item) {
    const Sharing *sharing = context;
    Pattern *pattern = sharing->all->patterns.at[item];
    Bench *b = &sharing->bench[thread];
    Case *c = pattern->chosen;
    if (pattern->first)
        pattern->holds = c->communication ? run_communication(b, c, pattern->why, sizeof pattern->why)
                                          : run_operator(b, c, pattern->why, sizeof pattern->why);
}

static bool refuse_pattern(const Pattern *pattern, char *why, size_t n) {
    Text text = {0};
    describe(&text, pattern->chosen);
    snprintf(why, n, "program %s, step %d: %s (%s), alone %s: %s", pattern->program->name, pattern->step, pattern->name,
             case_name(&pattern->as_is), text.at, pattern->why);
    text_finish(&text);
    return false;
}

static void bench_finish(Bench *b) {
    for (int t = 0; t < MAX_IN + MAX_OUT; t++)
        free(b->whole[t]);
    for (int i = 0; i < MAX_IN; i++)
        spread_finish(&b->in[i]);
    for (int k = 0; k < MAX_OUT; k++)
        spread_finish(&b->out[k]);
}

bool pattern_plan(const Plan *plan, uint64_t seed, Pool *pool, Patterns *counts, char *why, size_t n) {
    enum { FEW_RANKS = 64 }; /* patterns on up to this many ranks run quickly without threads */
    *counts = (Patterns){0};
    Collection all = {.plan = plan};
    arena_init(&all.arena);
    for (int p = 0; p < plan->programs.n; p++)
        for (int r = 0; r < plan->programs.at[p].roles.n; r++)
            for (int s = 0; s < plan->programs.at[p].roles.at[r].steps.n; s++)
                collect_step(&all, &plan->programs.at[p], &plan->programs.at[p].roles.at[r], s);
    if (plan->graph.nranks <= FEW_RANKS) pool = NULL;
    const int nthreads = pool_threads(pool);
    Sharing sharing = {.all = &all, .bench = arena_alloc(&all.arena, (size_t)nthreads * sizeof *sharing.bench)};
    for (int k = 0; k < nthreads; k++)
        sharing.bench[k].seed = seed;
    pool_each(pool, all.patterns.n, choose_case, &sharing);
    mark_first(&all, counts);
    pool_each(pool, all.patterns.n, run_case, &sharing);
    bool ok = true;
    for (int k = 0; ok && k < all.patterns.n; k++)
        if (all.patterns.at[k]->first && !all.patterns.at[k]->holds) ok = refuse_pattern(all.patterns.at[k], why, n);
    for (int k = 0; k < nthreads; k++)
        bench_finish(&sharing.bench[k]);
    arena_finish(&all.arena);
    return ok;
}
