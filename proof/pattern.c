/* Every distinct operator and communication of a plan, alone, over the field, at small sizes: what the operators' semantics and the pieces that ranks
 * exchange give on all ranks is what the whole operator gives. The cost depends on the number of distinct patterns, not on sizes, ranks or layers. */
#include "proof/seen.h"
#include "proof/shrink.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- one case */

typedef struct Bench {
    const Plan *plan;
    const Role *role;
    Arena arena; /* of keys */
    SeenTable own, small;
    Key key;
    Case as_is, shrunk;
    Spread in[MAX_IN], out[MAX_OUT];
    Fe *whole[MAX_IN + MAX_OUT]; /* room for `room` elements each */
    int64_t room;
    uint64_t seed;
    Patterns *patterns;
} Bench;

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

/* Multiplications, about. */
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

/* The compositional proof accepts it. */
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

/* The small case to run: as legal as its own. NULL with why: there is none, and its own is too large. */
static Case *choose(Bench *b, char *why, size_t n) {
    static const struct {
        int most;
        bool keep;
    } tries[] = {{3, false}, {2, false}, {3, true}, {2, true}};
    Case *own = &b->as_is, *small = &b->shrunk;
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
        if (!own_legal) return small; /* it is to be found wrong */
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

/* name: of the value or node, for messages. */
static bool run_case(Bench *b, const char *name, char *why, size_t n) {
    char reason[300] = "";
    const char *what = b->as_is.communication ? comm_name[b->as_is.comm] : op_table[b->as_is.node.op].name;
    Case *c = choose(b, reason, sizeof reason);
    if (!c) {
        if (b->patterns->left_out++ == 0) snprintf(b->patterns->left_why, sizeof b->patterns->left_why, "%s of %s: %s", what, name, reason);
        return true;
    }
    Key *key = &b->key;
    key_begin(key);
    key_add(key, c->communication ? 1000 + (uint64_t)c->comm : (uint64_t)c->node.op);
    key_add(key, (uint64_t)c->nranks);
    if (!c->communication) key_attrs(key, c->node.op, c->node.attr);
    for (int t = 0; t < case_tensors(c); t++) {
        key_type(key, &c->value[t].type);
        key_layout(key, &c->layout[t]);
    }
    if (seen_before(&b->small, &b->arena, key)) return true;
    b->patterns->operators += !c->communication;
    b->patterns->communications += c->communication;
    if (c->communication ? run_communication(b, c, reason, sizeof reason) : run_operator(b, c, reason, sizeof reason)) return true;
    Text text = {0};
    describe(&text, c);
    snprintf(why, n, "%s (%s), alone %s: %s", name, what, text.at, reason);
    text_finish(&text);
    return false;
}

/* ---------------------------------------------------------------- all of a plan */

static bool own_key(Bench *b, const Step *step, const Node *node) {
    Key *key = &b->key;
    key_begin(key);
    key_add(key, node ? (uint64_t)node->op : 1000 + (uint64_t)step->comm);
    if (node) key_attrs(key, node->op, node->attr);
    for (int t = 0; t < step->nin + step->nout; t++) {
        const Instance *instance = &b->role->instances.at[t < step->nin ? step->in[t] : step->out[t - step->nin]];
        key_type(key, &b->plan->graph.values.at[instance->value].type);
        key_add(key, (uint64_t)(uintptr_t)instance->layout); /* interned; equal ones under two addresses meet again when they are small */
    }
    return !seen_before(&b->own, &b->arena, key);
}

static bool run_step(Bench *b, const Program *program, int number, char *why, size_t n) {
    const Step *step = &b->role->steps.at[number];
    const Graph *graph = &b->plan->graph;
    const Node *node = NULL;
    if (step->kind == STEP_WAIT || step->kind == STEP_WRITE) return true;
    if (step->kind == STEP_KERNEL) node = &graph->nodes.at[step->node];
    if (!own_key(b, step, node)) return true;
    Case *c = &b->as_is;
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
        const Instance *instance = &b->role->instances.at[t < step->nin ? step->in[t] : step->out[t - step->nin]];
        c->value[t] = graph->values.at[instance->value];
        c->layout[t] = *instance->layout;
        if (node) c->layout[t].pin = (Pin){0}; /* what holds on all ranks holds on those that compute it */
        *(t < step->nin ? &c->node.in[t] : &c->node.out[t - step->nin]) = t;
    }
    char text[500];
    if (run_case(b, node ? node->name : c->value[0].name, text, sizeof text)) return true;
    snprintf(why, n, "program %s, step %d: %s", program->name, number, text);
    return false;
}

bool pattern_plan(const Plan *plan, uint64_t seed, Patterns *patterns, char *why, size_t n) {
    *patterns = (Patterns){0};
    Bench *b = calloc(1, sizeof *b);
    if (!b) return snprintf(why, n, "out of memory in the proof"), false;
    b->plan = plan;
    b->seed = seed;
    b->patterns = patterns;
    arena_init(&b->arena);
    bool ok = true;
    for (int p = 0; ok && p < plan->programs.n; p++)
        for (int r = 0; ok && r < plan->programs.at[p].roles.n; r++) {
            b->role = &plan->programs.at[p].roles.at[r];
            for (int s = 0; ok && s < b->role->steps.n; s++)
                ok = run_step(b, &plan->programs.at[p], s, why, n);
        }
    for (int t = 0; t < MAX_IN + MAX_OUT; t++)
        free(b->whole[t]);
    for (int i = 0; i < MAX_IN; i++)
        spread_finish(&b->in[i]);
    for (int k = 0; k < MAX_OUT; k++)
        spread_finish(&b->out[k]);
    arena_finish(&b->arena);
    free(b);
    return ok;
}
