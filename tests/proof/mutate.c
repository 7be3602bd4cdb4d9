#include "tests/proof/mutate.h"
#include "tests/proof/leaves.h"

#include <string.h>

const char *const mutant_name[NMUTANTS] = {
    [MUTANT_COMM_DROPPED] = "communication dropped",
    [MUTANT_COMM_DOUBLED] = "communication doubled",
    [MUTANT_COMM_MOVED] = "communication moved",
    [MUTANT_COMM_KIND] = "another collective",
    [MUTANT_COMM_DIGITS] = "other digits summed",
    [MUTANT_COMM_FROM] = "source in another layout",
    [MUTANT_COMM_TO] = "target in another layout",
    [MUTANT_COMM_SOURCE] = "another value sent",
    [MUTANT_WAIT_MOVED] = "wait moved",
    [MUTANT_OFFSET] = "another offset",
    [MUTANT_ORDER] = "order of kernels",
    [MUTANT_OPERAND] = "another operand",
    [MUTANT_OPERAND_LAYOUT] = "operand's layout",
    [MUTANT_RESULT_LAYOUT] = "result's layout",
    [MUTANT_KERNEL] = "another node",
    [MUTANT_STATE_VERSION] = "version of a state",
    [MUTANT_STATE] = "another state",
    [MUTANT_STORAGE] = "storage layout",
    [MUTANT_RESULT] = "results exchanged",
    [MUTANT_LEAF] = "another input or constant",
    [MUTANT_LOSS] = "another loss",
    [MUTANT_ROLE] = "ranks that differ",
    [MUTANT_VIEW] = "a result in a leaf",
};

int random_below(Random *random, int n) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

#define COPY_VEC(arena, v)                                                                                                                 \
    do {                                                                                                                                   \
        void *own = arena_alloc((arena), ((size_t)(v)->n + 8) * sizeof *(v)->at);                                                          \
        if ((v)->n) memcpy(own, (v)->at, (size_t)(v)->n * sizeof *(v)->at);                                                                \
        (v)->at = own;                                                                                                                     \
        (v)->cap = (v)->n + 8;                                                                                                             \
    } while (0)

void plan_copy(const Plan *plan, Arena *arena, Plan *copy) {
    *copy = *plan;
    COPY_VEC(arena, &copy->graph.states);
    COPY_VEC(arena, &copy->graph.inputs);
    COPY_VEC(arena, &copy->programs);
    for (int p = 0; p < copy->programs.n; p++) {
        COPY_VEC(arena, &copy->programs.at[p].roles);
        for (int r = 0; r < copy->programs.at[p].roles.n; r++) {
            COPY_VEC(arena, &copy->programs.at[p].roles.at[r].instances);
            COPY_VEC(arena, &copy->programs.at[p].roles.at[r].steps);
        }
    }
}

/* ---------------------------------------------------------------- what there is to change */

typedef struct Mutation {
    Plan *plan;
    Role *role;
    Random *random;
    Arena *arena;
    int *defined, *last; /* per instance: the step that computes it (-1: a leaf), the last that needs it (its communications' waits) */
    char *what;
    size_t n;
} Mutation;

static Step *step_at(const Mutation *m, int i) {
    return &m->role->steps.at[i];
}
static Instance *instance_at(const Mutation *m, int i) {
    return &m->role->instances.at[i];
}
static const TensorType *type_of(const Mutation *m, int instance) {
    return &m->plan->graph.values.at[instance_at(m, instance)->value].type;
}

static bool same_place(const Mutation *m, int a, int b) {
    return instance_at(m, a)->place == instance_at(m, b)->place && instance_at(m, a)->at == instance_at(m, b)->at;
}

static int wait_of(const Mutation *m, int start) {
    for (int i = start + 1; i < m->role->steps.n; i++)
        if (step_at(m, i)->kind == STEP_WAIT && step_at(m, i)->request == step_at(m, start)->request) return i;
    return -1;
}

static void look(Mutation *m) {
    size_t n = (size_t)m->role->instances.n;
    m->defined = arena_alloc(m->arena, (n + 1) * sizeof *m->defined);
    m->last = arena_alloc(m->arena, (n + 1) * sizeof *m->last);
    for (size_t i = 0; i < n; i++)
        m->defined[i] = m->last[i] = -1;
    for (int i = 0; i < m->role->steps.n; i++) {
        const Step *step = step_at(m, i);
        for (int k = 0; k < step->nin; k++)
            m->last[step->in[k]] = i;
        for (int k = 0; k < step->nout && step->kind != STEP_WAIT; k++)
            m->defined[step->out[k]] = i;
    }
    if (m->plan->programs.at[0].loss >= 0) m->last[m->plan->programs.at[0].loss] = m->role->steps.n;
}

/* A random step that fits, -1: none does. */
typedef bool StepTest(const Mutation *m, int step);
static int any_step(const Mutation *m, StepTest *fits) {
    int found = -1, nfound = 0;
    for (int i = 0; i < m->role->steps.n; i++)
        if (fits(m, i) && random_below(m->random, ++nfound) == 0) found = i;
    return found;
}

static bool is_communication(const Mutation *m, int i) {
    return step_at(m, i)->kind == STEP_START || step_at(m, i)->kind == STEP_LOCAL;
}
static bool is_start(const Mutation *m, int i) {
    return step_at(m, i)->kind == STEP_START;
}
static bool is_kernel(const Mutation *m, int i) {
    return step_at(m, i)->kind == STEP_KERNEL;
}
static bool is_sum(const Mutation *m, int i) {
    return is_start(m, i) && layout_is_partial(instance_at(m, step_at(m, i)->in[0])->layout);
}

/* The first step after `after` that uses an instance; -1: none. A communication uses its source from its start. */
static int next_use(const Mutation *m, int instance, int after) {
    for (int i = after + 1; i < m->role->steps.n; i++)
        for (int k = 0; k < step_at(m, i)->nin && step_at(m, i)->kind != STEP_WAIT; k++)
            if (step_at(m, i)->in[k] == instance) return i;
    return -1;
}

static void remove_step(Mutation *m, int at) {
    memmove(step_at(m, at), step_at(m, at + 1), (size_t)(m->role->steps.n - at - 1) * sizeof(Step));
    m->role->steps.n--;
}
static void insert_step(Mutation *m, int at, Step step) {
    vec_push(m->arena, &m->role->steps, step);
    memmove(step_at(m, at + 1), step_at(m, at), (size_t)(m->role->steps.n - at - 1) * sizeof(Step));
    *step_at(m, at) = step;
}
/* The step comes to stand right after the one that is now at `to` (to < from: right before it). */
static void move_step(Mutation *m, int from, int to) {
    Step step = *step_at(m, from);
    remove_step(m, from);
    insert_step(m, to, step);
}

static bool say(Mutation *m, const char *what, int step) {
    snprintf(m->what, m->n, "%s, step %d", what, step);
    return true;
}

/* An instance of its own that lies where another one does, in another layout. */
static int alias(Mutation *m, int instance, const Layout *layout) {
    Instance own = *instance_at(m, instance);
    own.layout = layout;
    vec_push(m->arena, &m->role->instances, own);
    return m->role->instances.n - 1;
}

static const Layout *keep(Mutation *m, const Layout *layout) {
    Layout *own = arena_alloc(m->arena, sizeof *own);
    *own = *layout;
    return own;
}

/* Room for values that become larger than they were. */
static void widen(Mutation *m) {
    int64_t most = 0;
    for (int v = 0; v < m->plan->graph.values.n; v++) {
        const TensorType *type = &m->plan->graph.values.at[v].type;
        int64_t bytes = shape_elements(&type->shape) * dtype_bytes[type->dtype];
        if (bytes > most) most = bytes;
    }
    m->role->arena_bytes += (most + 7) / 8 * 8;
}

/* ---------------------------------------------------------------- layouts */

/* layout with one list replaced by n digits; NULL where that is no layout, or means the same on a tensor of this shape. */
static const Layout *with_list(Mutation *m, const Layout *layout, int list, const Digit *digits, int n, const Shape *shape) {
    Layout other;
    layout_init(&other, layout->ndim);
    for (int l = 0; l < layout->ndim + NREDUCTIONS; l++) {
        int count = l == list ? n : layout_count(layout, l);
        for (int i = 0; i < count; i++)
            if (!layout_append(&other, l, l == list ? digits[i] : layout_list(layout, l)[i])) return NULL;
    }
    const char *why;
    if (!layout_valid(&other, m->plan->graph.nranks, &why) || layout_same(&other, layout, shape, m->plan->graph.nranks)) return NULL;
    return keep(m, &other);
}

/* A random digit of the ranks. */
static Digit any_digit(Mutation *m) {
    int nranks = m->plan->graph.nranks;
    for (;;) {
        int size = 2 + random_below(m->random, nranks - 1), stride = 1 + random_below(m->random, nranks);
        if (nranks % (size * stride) == 0) return (Digit){.size = size, .stride = stride};
    }
}

/* Another layout of the same tensor: a list loses a digit, gets one, or has one exchanged. NULL: none was found. */
static const Layout *other_list(Mutation *m, const Layout *layout, int list, const Shape *shape) {
    for (int attempt = 0; attempt < 40; attempt++) {
        Digit digits[MAX_DIGITS];
        int n = layout_count(layout, list), way = random_below(m->random, 3);
        memcpy(digits, layout_list(layout, list), (size_t)n * sizeof *digits);
        if (way == 0 && n > 0)
            n--;
        else if (way == 1 && n > 0)
            digits[random_below(m->random, n)] = any_digit(m);
        else if (n < 4)
            digits[n++] = any_digit(m);
        /* Partial digits are listed from the largest stride on. */
        for (int i = n - 1; list >= layout->ndim && i > 0 && digits[i].stride > digits[i - 1].stride; i--) {
            Digit swap = digits[i];
            digits[i] = digits[i - 1];
            digits[i - 1] = swap;
        }
        const Layout *other = with_list(m, layout, list, digits, n, shape);
        if (other) return other;
    }
    return NULL;
}

/* One of the plan's, or one with a list changed. A sum that nobody owes is claimed only where some is owed: elsewhere no one would notice. */
static const Layout *other_layout(Mutation *m, const Layout *layout, const Shape *shape) {
    const Graph *graph = &m->plan->graph;
    for (int attempt = 0; attempt < 20; attempt++) {
        const Layout *other = NULL;
        if (random_below(m->random, 2)) {
            other = graph->layouts->at[random_below(m->random, graph->layouts->n)];
            if (other->ndim != layout->ndim || layout_same(other, layout, shape, graph->nranks) ||
                layout_is_partial(other) > layout_is_partial(layout))
                other = NULL;
        } else if (layout->ndim + layout_is_partial(layout) > 0) {
            other = other_list(m, layout, random_below(m->random, layout->ndim + layout_is_partial(layout)), shape);
        }
        if (other) return other;
    }
    return NULL;
}

static bool relayout(Mutation *m, int instance, const Layout *layout) {
    if (!layout) return false;
    widen(m);
    instance_at(m, instance)->layout = layout;
    return true;
}

/* ---------------------------------------------------------------- communications */

static bool comm_dropped(Mutation *m) {
    int at = any_step(m, is_communication);
    if (at < 0) return false;
    Step step = *step_at(m, at);
    if (step.kind == STEP_START) remove_step(m, wait_of(m, at));
    remove_step(m, at);
    if (random_below(m->random, 2)) return say(m, "left out", at);
    for (int i = 0; i < m->role->steps.n; i++)
        for (int k = 0; k < step_at(m, i)->nin; k++)
            if (step_at(m, i)->in[k] == step.out[0]) step_at(m, i)->in[k] = step.in[0];
    int *loss = &m->plan->programs.at[0].loss;
    if (*loss == step.out[0]) *loss = step.in[0];
    return say(m, "left out, its source used", at);
}

/* A request number that nobody has; there are fewer requests than steps. */
static int free_request(const Mutation *m) {
    int request = 0;
    for (int i = 0; i < m->role->steps.n; i++)
        if (step_at(m, i)->kind == STEP_START && step_at(m, i)->request >= request) request = step_at(m, i)->request + 1;
    return request;
}

static bool comm_doubled(Mutation *m) {
    int way = random_below(m->random, 3), at = any_step(m, way == 0 ? is_sum : is_start);
    if (at < 0) return false;
    Step start = *step_at(m, at);
    int end = wait_of(m, at);
    Step wait = *step_at(m, end);
    if (way == 1) {
        insert_step(m, at + 1, start);
        return say(m, "started twice", at);
    }
    if (way == 2) { /* once more where its target's memory is another value's */
        int found = -1;
        for (int i = 0; i < m->role->instances.n; i++) {
            const Instance *a = instance_at(m, i), *target = instance_at(m, start.out[0]);
            if (a->place == PLACE_ARENA && a->at == target->at && m->defined[i] > end && m->last[i] > m->defined[i] + 1 &&
                i != start.out[0] && step_at(m, m->defined[i])->kind == STEP_KERNEL)
                found = m->defined[i];
        }
        if (found < 0) return false;
        start.request = wait.request = free_request(m);
        insert_step(m, found + 1, wait);
        insert_step(m, found + 1, start);
        return say(m, "repeated over a later value", at);
    }
    start.in[0] = wait.in[0] = alias(m, start.out[0], instance_at(m, start.in[0])->layout);
    start.request = wait.request = free_request(m);
    if (instance_at(m, start.out[0])->layout->ndim > 0) widen(m);
    /* The second result lies beside the first, which is its source. */
    Instance second = *instance_at(m, start.out[0]);
    second.place = PLACE_ARENA;
    second.at = m->role->arena_bytes;
    widen(m);
    vec_push(m->arena, &m->role->instances, second);
    int result = m->role->instances.n - 1;
    for (int i = end + 1; i < m->role->steps.n; i++)
        for (int k = 0; k < step_at(m, i)->nin; k++)
            if (step_at(m, i)->in[k] == start.out[0]) step_at(m, i)->in[k] = result;
    if (m->plan->programs.at[0].loss == start.out[0]) m->plan->programs.at[0].loss = result;
    start.out[0] = wait.out[0] = result;
    insert_step(m, end + 1, wait);
    insert_step(m, end + 1, start);
    return say(m, "a sum completed twice", at);
}

static bool comm_moved(Mutation *m) {
    int at = any_step(m, is_communication);
    if (at < 0) return false;
    Step step = *step_at(m, at);
    int end = step.kind == STEP_START ? wait_of(m, at) : at, producer = m->defined[step.in[0]], use = next_use(m, step.out[0], end);
    if (producer >= 0 && step_at(m, producer)->kind == STEP_KERNEL && random_below(m->random, 2)) {
        if (end != at) move_step(m, end, producer);
        move_step(m, end != at ? at + 1 : at, producer);
        return say(m, "moved before what it sends", at);
    }
    if (use < 0) return false;
    if (end != at) move_step(m, end, use); /* the wait first: then the start before it */
    move_step(m, at, end != at ? use - 1 : use);
    return say(m, "moved after its use", at);
}

static bool comm_kind(Mutation *m) {
    static const CommKind others[NCOMMS] = {
        /* one that does something else */
        [COMM_ALL_REDUCE] = COMM_ALL_GATHER,    [COMM_REDUCE_SCATTER] = COMM_ALL_TO_ALL, [COMM_ALL_GATHER] = COMM_REDUCE_SCATTER,
        [COMM_ALL_TO_ALL] = COMM_STRIDED_SLICE, [COMM_EXCHANGE] = COMM_STRIDED_SLICE,    [COMM_STRIDED_SLICE] = COMM_STRIDED_SLICE,
    };
    int at = any_step(m, is_start);
    if (at < 0) return false;
    CommKind other = others[step_at(m, at)->comm];
    step_at(m, wait_of(m, at))->comm = step_at(m, at)->comm = other;
    return say(m, comm_name[other], at);
}

static bool comm_digits(Mutation *m) {
    int at = any_step(m, is_sum);
    if (at < 0) return false;
    Step *start = step_at(m, at), *wait = step_at(m, wait_of(m, at));
    int source = start->in[0], list = 0;
    const Layout *layout = instance_at(m, source)->layout;
    for (int r = 0; r < NREDUCTIONS; r++)
        if (layout_count(layout, layout->ndim + r)) list = layout->ndim + r;
    const Layout *other = other_list(m, layout, list, &type_of(m, source)->shape);
    if (!other) return false;
    if (random_below(m->random, 2)) return relayout(m, source, other) && say(m, "other digits owed by the source", at);
    start->in[0] = wait->in[0] = alias(m, source, other);
    return say(m, "summed over other digits", at);
}

static bool comm_layout(Mutation *m, bool target) {
    int at = any_step(m, is_communication);
    if (at < 0) return false;
    Step *start = step_at(m, at);
    int *end = target ? start->out : start->in, instance = *end;
    if (instance_at(m, instance)->place != PLACE_ARENA) return false;
    const Layout *other = other_layout(m, instance_at(m, instance)->layout, &type_of(m, instance)->shape);
    if (!other) return false;
    if (random_below(m->random, 2)) return relayout(m, instance, other) && say(m, "in another layout", at);
    widen(m);
    int own = alias(m, instance, other);
    if (start->kind == STEP_START) *(target ? step_at(m, wait_of(m, at))->out : step_at(m, wait_of(m, at))->in) = own;
    *end = own;
    return say(m, "taken in another layout", at);
}

static bool comm_source(Mutation *m) {
    int at = any_step(m, is_communication);
    if (at < 0) return false;
    Step *start = step_at(m, at);
    int found = -1, nfound = 0;
    for (int i = 0; i < m->role->instances.n; i++)
        if (instance_at(m, i)->value != instance_at(m, start->in[0])->value && !same_place(m, i, start->in[0]) &&
            type_equal(type_of(m, i), type_of(m, start->in[0])) && random_below(m->random, ++nfound) == 0)
            found = i;
    if (found < 0) return false;
    start->in[0] = found;
    if (start->kind == STEP_START) step_at(m, wait_of(m, at))->in[0] = found;
    return say(m, "sends another value", at);
}

static bool memory_meets(const Mutation *m, int a, int b) {
    const Instance *x = instance_at(m, a), *y = instance_at(m, b);
    int64_t x_bytes = layout_max_bytes(x->layout, type_of(m, a)), y_bytes = layout_max_bytes(y->layout, type_of(m, b));
    return x->place == y->place &&
           (x->place == PLACE_ARENA ? x->at < y->at + y_bytes && y->at < x->at + x_bytes : x->place == PLACE_STATE && x->at == y->at);
}

static bool wait_moved(Mutation *m) {
    int at = any_step(m, is_start);
    if (at < 0) return false;
    int end = wait_of(m, at), to = next_use(m, step_at(m, at)->out[0], end);
    bool race = false;
    for (int i = end + 1; i < m->role->steps.n && random_below(m->random, 2); i++) {
        if (step_at(m, i)->kind != STEP_KERNEL) continue;
        for (int k = 0; k < step_at(m, i)->nout; k++)
            if (memory_meets(m, step_at(m, i)->out[k], step_at(m, at)->in[0])) {
                race = true;
                to = i;
            }
        if (race) break;
    }
    if (to < 0) return false;
    move_step(m, end, to);
    return say(m, race ? "waited for after its source is overwritten" : "waited for after its use", at);
}

/* ---------------------------------------------------------------- kernels */

static bool offset(Mutation *m) {
    int at = -1, below = -1, nfound = 0;
    for (int i = 0; i < m->role->instances.n; i++) { /* i is written while k is needed later on, or sent */
        if (instance_at(m, i)->place != PLACE_ARENA || m->defined[i] < 0 || m->last[i] < 0) continue;
        int step = m->defined[i];
        for (int k = 0; k < m->role->instances.n; k++)
            if (k != i && instance_at(m, k)->place == PLACE_ARENA && m->defined[k] >= 0 && m->defined[k] < step && m->last[k] > step &&
                random_below(m->random, ++nfound) == 0) {
                at = i;
                below = k;
            }
    }
    if (at < 0) return false;
    widen(m);
    instance_at(m, at)->at = instance_at(m, below)->at;
    snprintf(m->what, m->n, "value %d over value %d", at, below);
    return true;
}

static bool order(Mutation *m) {
    int at = any_step(m, is_kernel);
    if (at < 0) return false;
    const Step *step = step_at(m, at);
    int use = next_use(m, step->out[0], at), producer = -1;
    for (int k = 0; k < step->nin; k++)
        if (m->defined[step->in[k]] > producer && m->defined[step->in[k]] < at && step_at(m, m->defined[step->in[k]])->kind == STEP_KERNEL)
            producer = m->defined[step->in[k]];
    if (producer >= 0 && random_below(m->random, 2)) {
        move_step(m, at, producer);
        return say(m, "before its operand", at);
    }
    if (use < 0 || (step_at(m, use)->kind == STEP_WRITE && instance_at(m, step->out[0])->place == PLACE_STATE)) return false;
    move_step(m, at, use);
    return say(m, "after its user", at);
}

static bool operand(Mutation *m) {
    int at = any_step(m, is_kernel), found = -1, nfound = 0;
    if (at < 0) return false;
    int k = random_below(m->random, step_at(m, at)->nin), own = step_at(m, at)->in[k];
    for (int i = 0; i < m->role->instances.n; i++)
        if (instance_at(m, i)->value != instance_at(m, own)->value && !same_place(m, i, own) &&
            type_equal(type_of(m, i), type_of(m, own)) && random_below(m->random, ++nfound) == 0)
            found = i;
    if (found < 0) return false;
    step_at(m, at)->in[k] = found;
    return say(m, "another operand", at);
}

static bool operand_layout(Mutation *m) {
    int at = any_step(m, is_kernel);
    if (at < 0) return false;
    int k = random_below(m->random, step_at(m, at)->nin), own = step_at(m, at)->in[k], found = -1, nfound = 0;
    for (int i = 0; i < m->role->instances.n; i++)
        if (i != own && instance_at(m, i)->value == instance_at(m, own)->value && random_below(m->random, ++nfound) == 0) found = i;
    if (found >= 0 &&
        !layout_same(instance_at(m, found)->layout, instance_at(m, own)->layout, &type_of(m, own)->shape, m->plan->graph.nranks)) {
        step_at(m, at)->in[k] = found; /* before or after its conversion */
        return say(m, "the operand in the layout that another one needs", at);
    }
    if (instance_at(m, own)->place != PLACE_ARENA) return false;
    const Layout *other = other_layout(m, instance_at(m, own)->layout, &type_of(m, own)->shape);
    if (!other) return false;
    widen(m);
    step_at(m, at)->in[k] = alias(m, own, other);
    return say(m, "the operand taken in another layout", at);
}

static bool has_two_results(const Mutation *m, int i) {
    return is_kernel(m, i) && step_at(m, i)->nout > 1;
}

static bool result(Mutation *m) {
    int at = any_step(m, is_kernel), both = random_below(m->random, 2) ? any_step(m, has_two_results) : -1, found = -1, nfound = 0;
    if (both >= 0) { /* of one kernel: nothing but the values tells them apart */
        Step *step = step_at(m, both);
        int first = step->out[0], last = step->out[step->nout - 1];
        if (!type_equal(type_of(m, first), type_of(m, last))) return false;
        step->out[0] = last;
        step->out[step->nout - 1] = first;
        return say(m, "its results exchanged", both);
    }
    if (at < 0) return false;
    int own = step_at(m, at)->out[0];
    for (int i = 0; i < m->role->steps.n; i++) {
        int other = step_at(m, i)->nout ? step_at(m, i)->out[step_at(m, i)->nout - 1] : -1; /* the slot, where there is one */
        if (is_kernel(m, i) && other != own && !same_place(m, other, own) && type_equal(type_of(m, other), type_of(m, own)) &&
            random_below(m->random, ++nfound) == 0)
            found = i;
    }
    if (found < 0) return false;
    int *other = &step_at(m, found)->out[step_at(m, found)->nout - 1];
    step_at(m, at)->out[0] = *other;
    *other = own;
    return say(m, "its result exchanged for another's", at);
}

static bool result_layout(Mutation *m) {
    int at = any_step(m, is_kernel);
    if (at < 0) return false;
    int out = step_at(m, at)->out[0];
    if (instance_at(m, out)->place != PLACE_ARENA) return false;
    return relayout(m, out, other_layout(m, instance_at(m, out)->layout, &type_of(m, out)->shape)) &&
           say(m, "the result in another layout", at);
}

static bool same_signature(const Graph *graph, const Node *a, const Node *b) {
    if (a->nin != b->nin || a->nout != b->nout) return false;
    for (int i = 0; i < a->nin; i++)
        if (!type_equal(&graph->values.at[a->in[i]].type, &graph->values.at[b->in[i]].type)) return false;
    for (int o = 0; o < a->nout; o++)
        if (!type_equal(&graph->values.at[a->out[o]].type, &graph->values.at[b->out[o]].type)) return false;
    return true;
}

static bool kernel(Mutation *m) {
    const Graph *graph = &m->plan->graph;
    int at = any_step(m, is_kernel), found = -1, nfound = 0;
    if (at < 0) return false;
    Step *step = step_at(m, at);
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i], *own = &graph->nodes.at[step->node];
        bool other = node->op != own->op && node->op != OP_write && op_table[node->op].op_class != OP_CLASS_LEAF;
        if (other && same_signature(graph, node, own) && random_below(m->random, ++nfound) == 0) found = i;
    }
    if (found < 0) return false;
    step->node = found;
    step->op = graph->nodes.at[found].op;
    return say(m, op_table[step->op].name, at);
}

/* ---------------------------------------------------------------- states, leaves, ranks */

static bool updates(const Mutation *m, int i) {
    const Step *step = step_at(m, i);
    for (int k = 0; k < step->nout && step->kind == STEP_KERNEL; k++)
        if (instance_at(m, step->out[k])->place == PLACE_STATE && instance_at(m, step->out[k])->version == 1) return true;
    return step->kind == STEP_WRITE && instance_at(m, step->in[0])->place == PLACE_ARENA;
}

static bool state_version(Mutation *m) {
    int update = any_step(m, updates);
    if (update < 0) return false;
    const Step *step = step_at(m, update);
    int64_t state = step->kind == STEP_WRITE ? step->state : instance_at(m, step->out[0])->at;
    int reader = -1, nfound = 0, ready = -1;
    for (int k = 0; k < step->nin; k++)
        if (m->defined[step->in[k]] > ready) ready = m->defined[step->in[k]];
    for (int i = 0; i < update; i++)
        for (int k = 0; k < step_at(m, i)->nin && step_at(m, i)->kind != STEP_WAIT; k++) {
            const Instance *instance = instance_at(m, step_at(m, i)->in[k]);
            bool reads = instance->place == PLACE_STATE && instance->at == state &&
                         m->plan->graph.nodes.at[m->plan->graph.values.at[instance->value].node].op == OP_read;
            if (reads && random_below(m->random, ++nfound) == 0) reader = i;
        }
    if (reader < 0) return false;
    if (reader > ready) { /* all that it needs is there before */
        move_step(m, update, reader);
        return say(m, "updated before it is read", update);
    }
    if (step_at(m, reader)->kind == STEP_START) {
        int end = wait_of(m, reader);
        if (end > update) return false;
        move_step(m, end, update);
    }
    move_step(m, reader, step_at(m, reader)->kind == STEP_START ? update - 1 : update);
    return say(m, "read after its update", reader);
}

static bool state(Mutation *m) {
    const Graph *graph = &m->plan->graph;
    int write = any_step(m, updates), found = -1, nfound = 0;
    if (write >= 0 && step_at(m, write)->kind == STEP_WRITE && random_below(m->random, 2)) {
        remove_step(m, write);
        return say(m, "not written", write);
    }
    int other = 0;
    for (int i = 0; i < m->role->instances.n; i++)
        for (int s = 0; s < graph->states.n && instance_at(m, i)->place == PLACE_STATE; s++) {
            const State *a = &graph->states.at[s], *b = &graph->states.at[instance_at(m, i)->at];
            if (s != instance_at(m, i)->at && type_equal(&a->type, &b->type) && random_below(m->random, ++nfound) == 0) {
                found = i;
                other = s;
            }
        }
    if (found < 0) return false;
    instance_at(m, found)->at = other;
    if (!instance_is_view(graph, instance_at(m, found))) instance_at(m, found)->layout = graph->states.at[other].layout;
    snprintf(m->what, m->n, "value %d in state %d", found, other);
    return true;
}

static bool storage(Mutation *m) {
    Graph *graph = &m->plan->graph;
    int i = random_below(m->random, graph->states.n + graph->inputs.n);
    bool is_state = i < graph->states.n;
    const Layout **layout = is_state ? &graph->states.at[i].layout : &graph->inputs.at[i - graph->states.n].layout;
    const Layout *other =
        other_layout(m, *layout, is_state ? &graph->states.at[i].type.shape : &graph->inputs.at[i - graph->states.n].type.shape);
    if (!other) return false;
    *layout = other;
    for (int k = 0; k < m->role->instances.n; k++) { /* else the reader of the plan refuses it */
        Instance *instance = instance_at(m, k);
        if (!instance_is_view(graph, instance) && instance->place == (is_state ? PLACE_STATE : PLACE_INPUT) &&
            instance->at == (is_state ? i : i - graph->states.n))
            instance->layout = other;
    }
    snprintf(m->what, m->n, "%s in another layout", is_state ? graph->states.at[i].name : graph->inputs.at[i - graph->states.n].name);
    return true;
}

static bool leaf(Mutation *m) {
    const Graph *graph = &m->plan->graph;
    int found = -1, nfound = 0;
    int64_t other = 0;
    for (int i = 0; i < m->role->instances.n; i++) {
        const Instance *instance = instance_at(m, i);
        if (instance->place != PLACE_INPUT || m->last[i] < 0) continue;
        for (int k = 0; k < graph->inputs.n; k++)
            if (k != instance->at && type_equal(&graph->inputs.at[k].type, type_of(m, i)) &&
                pin_equal(&graph->inputs.at[k].layout->pin, &instance->layout->pin) && random_below(m->random, ++nfound) == 0) {
                found = i;
                other = k;
            }
    }
    if (found >= 0) {
        instance_at(m, found)->at = other;
        if (!instance_is_view(graph, instance_at(m, found))) instance_at(m, found)->layout = graph->inputs.at[other].layout;
        snprintf(m->what, m->n, "value %d in input %d", found, (int)other);
        return true;
    }
    int at = any_step(m, is_kernel); /* a constant for another operand */
    if (at < 0) return false;
    for (int k = 0; k < step_at(m, at)->nin; k++)
        for (int i = 0; i < m->role->instances.n; i++)
            if (instance_at(m, i)->place == PLACE_CONSTANT && i != step_at(m, at)->in[k] &&
                type_equal(type_of(m, i), type_of(m, step_at(m, at)->in[k]))) {
                step_at(m, at)->in[k] = i;
                return say(m, "reads another constant", at);
            }
    return false;
}

/* Whether an input or a state's old version is read after this step. */
static bool is_read_later(const Mutation *m, Place place, int leaf, int step) {
    for (int i = 0; i < m->role->instances.n; i++)
        if (instance_at(m, i)->place == place && instance_at(m, i)->at == leaf && instance_at(m, i)->version == 0 && m->last[i] > step)
            return true;
    return false;
}

/* A result of a kernel lies in an input or in a state's old version, of the same size and read later on. */
static bool view(Mutation *m) {
    const Graph *graph = &m->plan->graph;
    int at = any_step(m, is_kernel), nfound = 0;
    if (at < 0) return false;
    Instance *instance = instance_at(m, step_at(m, at)->out[0]), own = *instance, there;
    for (int i = 0; i < graph->states.n + graph->inputs.n; i++)
        if (in_leaf(graph, i, &own, &there) && is_read_later(m, there.place, (int)there.at, at) && random_below(m->random, ++nfound) == 0)
            *instance = there;
    return nfound > 0 && say(m, place_name[instance->place], at);
}

static bool loss(Mutation *m) {
    int *own = &m->plan->programs.at[0].loss;
    if (*own < 0) return false;
    int found = random_below(m->random, m->role->instances.n);
    if (random_below(m->random, 2)) /* before it is completed */
        for (int i = 0; i < m->role->instances.n; i++)
            if (i != *own && instance_at(m, i)->value == instance_at(m, *own)->value) found = i;
    if (instance_at(m, found)->value == instance_at(m, *own)->value &&
        layout_equal(instance_at(m, found)->layout, instance_at(m, *own)->layout))
        return false;
    *own = found;
    snprintf(m->what, m->n, "value %d", found);
    return true;
}

/* The ranks fall into two roles, of which the second is changed. */
static bool role(Mutation *m) {
    Program *program = &m->plan->programs.at[0];
    int nranks = m->plan->graph.nranks;
    if (nranks < 2 || program->roles.n > 1) return false;
    Plan halves;
    plan_copy(m->plan, m->arena, &halves);
    Role second = halves.programs.at[0].roles.at[0];
    second.first_rank = 1 + random_below(m->random, nranks - 1);
    m->role->last_rank = second.first_rank - 1;
    vec_push(m->arena, &program->roles, second);
    m->role = &program->roles.at[1];
    int at = any_step(m, is_start), end = at < 0 ? -1 : wait_of(m, at), next = -1;
    if (at < 0) return false;
    for (int i = end + 1; i < m->role->steps.n && next < 0; i++)
        if (is_start(m, i)) next = i;
    if (next < 0 || random_below(m->random, 2)) {
        remove_step(m, end);
        remove_step(m, at);
        return say(m, "some ranks leave it out", at);
    }
    move_step(m, end, next);
    move_step(m, at, next - 1); /* after the next one's start, which its wait follows */
    int other = wait_of(m, next - 2);
    if (other < 0) return false;
    move_step(m, other, next - 1);
    return say(m, "in another order on some ranks", at);
}

bool mutate(Plan *copy, MutantKind kind, Random *random, Arena *arena, char *what, size_t n) {
    Mutation m = {.plan = copy, .role = &copy->programs.at[0].roles.at[0], .random = random, .arena = arena, .what = what, .n = n};
    if (copy->graph.nranks < 2) return false;
    if (copy->programs.at[0].roles.n > 1) m.role = &copy->programs.at[0].roles.at[random_below(random, copy->programs.at[0].roles.n)];
    look(&m);
    switch (kind) {
    case MUTANT_COMM_DROPPED:
        return comm_dropped(&m);
    case MUTANT_COMM_DOUBLED:
        return comm_doubled(&m);
    case MUTANT_COMM_MOVED:
        return comm_moved(&m);
    case MUTANT_COMM_KIND:
        return comm_kind(&m);
    case MUTANT_COMM_DIGITS:
        return comm_digits(&m);
    case MUTANT_COMM_FROM:
        return comm_layout(&m, false);
    case MUTANT_COMM_TO:
        return comm_layout(&m, true);
    case MUTANT_COMM_SOURCE:
        return comm_source(&m);
    case MUTANT_WAIT_MOVED:
        return wait_moved(&m);
    case MUTANT_OFFSET:
        return offset(&m);
    case MUTANT_ORDER:
        return order(&m);
    case MUTANT_OPERAND:
        return operand(&m);
    case MUTANT_OPERAND_LAYOUT:
        return operand_layout(&m);
    case MUTANT_RESULT:
        return result(&m);
    case MUTANT_RESULT_LAYOUT:
        return result_layout(&m);
    case MUTANT_KERNEL:
        return kernel(&m);
    case MUTANT_STATE_VERSION:
        return state_version(&m);
    case MUTANT_STATE:
        return state(&m);
    case MUTANT_STORAGE:
        return storage(&m);
    case MUTANT_LEAF:
        return leaf(&m);
    case MUTANT_LOSS:
        return loss(&m);
    case MUTANT_ROLE:
        return role(&m);
    case MUTANT_VIEW:
        return view(&m);
    case NMUTANTS:
        break;
    }
    return false;
}
