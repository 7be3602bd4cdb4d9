/* finite: finds where the first number that is not finite came from. A step is repeated from the same states on the same batch, and each result is checked when it is computed. From
 * the loss the search goes back through operands that are not finite, so it does not blame an infinity that a mask uses on purpose and a softmax removes; it ends at an input, a
 * state, or an operator whose operands were finite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "runtime/exec.h"

/* The first element of an instance that is not finite; element -1: there is none. */
typedef struct Found {
    int64_t element;
    double value;
} Found;

/* ---------------------------------------------------------------- looking */

int64_t elements_first_bad(const void *data, DType dtype, int64_t n) {
    int64_t i = 0;
    if (dtype == F32)
        while (i < n && isfinite(((const float *)data)[i]))
            i++;
    else if (dtype == F64)
        while (i < n && isfinite(((const double *)data)[i]))
            i++;
    else if (dtype_is_half(dtype))
        while (i < n && isfinite(element_at(data, dtype, i)))
            i++;
    else
        return -1;
    return i < n ? i : -1;
}

static bool look(const Executor *executor, Cursor *cursor, int instance, Error *error) {
    const DType dtype = executor->plan->graph.values.at[cursor->role->instances.at[instance].value].type.dtype;
    const int64_t n = box_elements(&cursor->box[instance]);
    const void *data = cursor->at[instance];
    void *copy = NULL;
    if (!dtype_is_float(dtype) || n == 0) return true;
    if (!executor->backend->host) {
        copy = malloc((size_t)n * (size_t)dtype_bytes[dtype]);
        if (!copy) return error_set(error, EXIT_ENVIRONMENT, "out of memory for a copy of a result");
        if (!executor->backend->sync(executor->context, error) ||
            !executor->backend->download(executor->context, copy, data, n * dtype_bytes[dtype], error)) {
            free(copy);
            return false;
        }
        data = copy;
    }
    const int64_t at = elements_first_bad(data, dtype, n);
    cursor->found[instance] = (Found){at, at < 0 ? 0 : element_at(data, dtype, at)};
    free(copy);
    return true;
}

static bool look_at_results(const Executor *executor, Cursor *cursor, const Step *step, Error *error) {
    for (int o = 0; o < step->nout; o++)
        if (!look(executor, cursor, step->out[o], error)) return false;
    return true;
}

/* Checks the results of the steps that an action stands for. */
bool inspect_action(Executor *executor, Cursor *cursor, const Action *action, Error *error) {
    const Role *role = cursor->role;
    const Step *first = &role->steps.at[action->step];
    if (action->kind == ACTION_START) return true;
    for (int i = 0; action->kind == ACTION_FUSED && i < action->nsteps; i++)
        if (!look_at_results(executor, cursor, &role->steps.at[action->steps[i]], error)) return false;
    for (int s = action->step; action->kind != ACTION_FUSED && s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (s > action->step &&
            (action->kind != ACTION_WAIT || first->bucket == 0 || step->kind != STEP_WAIT || step->bucket != first->bucket))
            break;
        if (!look_at_results(executor, cursor, step, error)) return false;
    }
    return true;
}

/* Checks values of this place that are there before the first step. */
static bool look_at_sources(const Executor *executor, Cursor *cursor, Place place, Error *error) {
    bool ok = true;
    for (int i = 0; ok && i < cursor->role->instances.n; i++) {
        const Instance *instance = &cursor->role->instances.at[i];
        if (instance->place == place && (place != PLACE_STATE || instance->version == 0)) ok = look(executor, cursor, i, error);
    }
    return ok;
}

static void forget(Cursor *cursor) {
    for (int i = 0; i < cursor->role->instances.n; i++)
        cursor->found[i] = (Found){-1, 0};
}

/* ---------------------------------------------------------------- what all ranks have found */

static int role_number(const Executor *executor, int rank) {
    int r = 0;
    while (rank > executor->program->roles.at[r].last_rank)
        r++;
    return r;
}

/* Per role and instance whether it is not finite on any of its ranks that kept the states from before: nwords words per role. */
static bool gather_found(const Executor *executor, bool bad, uint64_t *bits, int nwords, Error *error) {
    Comm *comm = executor->comm;
    const int nroles = executor->program->roles.n;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words), *own = calloc((size_t)nroles, sizeof *own);
    bool ok = (words && own) || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    for (int w = 0; ok && w < nwords; w++) {
        memset(own, 0, (size_t)nroles * sizeof *own);
        for (int d = 0; bad && d < comm->ndriven; d++) {
            const Cursor *cursor = &executor->cursors[d];
            for (int b = 0; b < 64 && w * 64 + b < cursor->role->instances.n; b++)
                if (cursor->found[w * 64 + b].element >= 0) own[role_number(executor, cursor->rank)] |= UINT64_C(1) << b;
        }
        for (int r = 0; r < nroles; r++)
            bits[r * nwords + w] |= own[r];
        /* If there are several processes, each drives one rank. */
        const uint64_t word = own[role_number(executor, comm->first_driven)];
        ok = comm->table->all_gather_words(comm, word, words, error);
        for (int p = 0; ok && comm->nprocesses > 1 && p < comm->nprocesses; p++)
            bits[role_number(executor, p) * nwords + w] |= words[p];
    }
    free(words);
    free(own);
    return ok;
}

/* *least: the lowest number of any process. UINT64_MAX stands for none. */
static bool gather_least(Comm *comm, uint64_t own, uint64_t *least, Error *error) {
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool ok = words || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    ok = ok && comm->table->all_gather_words(comm, own, words, error);
    *least = UINT64_MAX;
    for (int p = 0; ok && p < comm->nprocesses; p++)
        if (words[p] < *least) *least = words[p];
    free(words);
    return ok;
}

static bool has(const uint64_t *bits, int i) {
    return bits[i / 64] >> (i % 64) & 1;
}

/* ---------------------------------------------------------------- going back */

/* Where the search ends, lower is better: an input; a state; the result of an operator on finite operands; a constant, where it may be intended. */
enum { RANK_INPUT, RANK_STATE, RANK_STEP, RANK_CONSTANT, NO_RANK };

typedef struct Origin {
    int role, instance, step; /* -1: none; step -1: it was there before the first step */
    int rank;
} Origin;

/* maker: per instance the step that computes it, -1: none. */
static void find_makers(const Role *role, int *maker) {
    for (int i = 0; i < role->instances.n; i++)
        maker[i] = -1;
    for (int s = 0; s < role->steps.n; s++)
        for (int o = 0; role->steps.at[s].kind != STEP_START && role->steps.at[s].kind != STEP_WRITE && o < role->steps.at[s].nout; o++)
            maker[role->steps.at[s].out[o]] = s;
}

/* Whether the step's results lie where its operand lies. */
static bool makes_view(const Role *role, const Step *step) {
    const Instance *in = &role->instances.at[step->in[0]], *out = &role->instances.at[step->out[0]];
    return step->kind == STEP_KERNEL &&
           (out->place == PLACE_VIEW || (op_table[step->op].view && in->place == out->place && in->at == out->at));
}

/* The instance that a view is a view of, after all views; others are their own. */
static int viewed(const Role *role, const int *maker, int instance) {
    while (maker[instance] >= 0 && makes_view(role, &role->steps.at[maker[instance]]))
        instance = role->steps.at[maker[instance]].in[0];
    return instance;
}

static void prefer(const Program *program, Origin *best, int role, int instance, int step) {
    static const int ranks[] = {
        [PLACE_ARENA] = RANK_STEP, [PLACE_STATE] = RANK_STATE, [PLACE_INPUT] = RANK_INPUT,   [PLACE_CONSTANT] = RANK_CONSTANT,
        [PLACE_INNER] = RANK_STEP, [PLACE_VIEW] = RANK_STEP,   [PLACE_ELSEWHERE] = RANK_STEP};
    const int rank = step >= 0 ? RANK_STEP : ranks[program->roles.at[role].instances.at[instance].place];
    if (rank > best->rank || (rank == best->rank && step >= best->step)) return;
    *best = (Origin){role, instance, step, rank};
}

/* Values of all roles that the search is to visit, and what was found of them. */
typedef struct Trail {
    const Program *program;
    int width; /* instances of a role */
    int *maker, *stack, n;
    bool *seen;
    const uint64_t *bits;
    int nwords;
} Trail;

/* Continues the search at a value of a role if it is not finite. True where it is finite. */
static bool follow(Trail *t, int role, int instance) {
    const Role *of = &t->program->roles.at[role];
    const int at = viewed(of, t->maker + role * t->width, instance);
    if (!has(t->bits + role * t->nwords, at)) return true;
    if (!t->seen[role * t->width + at]) t->seen[role * t->width + at] = true, t->stack[t->n++] = role * t->width + at;
    return false;
}

/* Continues at what a step computes its results from; for a communication, at the sources of all roles. True where all of it is finite. */
static bool follow_operands(Trail *t, int role, const Step *step) {
    bool finite = true;
    if (step->kind != STEP_WAIT) {
        for (int i = 0; i < step->nin; i++)
            finite = follow(t, role, step->in[i]) && finite;
        return finite;
    }
    for (int r = 0; r < t->program->roles.n; r++) {
        const Role *other = &t->program->roles.at[r];
        for (int s = 0; s < other->steps.n; s++)
            if (other->steps.at[s].kind == STEP_WAIT && other->steps.at[s].request == step->request)
                finite = follow(t, r, other->steps.at[s].in[0]) && finite;
    }
    return finite;
}

static bool go_back(const Program *program, const uint64_t *bits, int nwords, Origin *best, Error *error) {
    Trail t = {.program = program, .bits = bits, .nwords = nwords, .width = 64 * nwords};
    const size_t all = (size_t)program->roles.n * (size_t)t.width + 1;
    t.maker = malloc(all * sizeof *t.maker);
    t.stack = malloc(all * sizeof *t.stack);
    t.seen = calloc(all, sizeof *t.seen);
    const bool ok = t.maker && t.stack && t.seen;
    *best = (Origin){-1, -1, -1, NO_RANK};
    if (!ok) error_set(error, EXIT_ENVIRONMENT, "out of memory");
    for (int r = 0; ok && r < program->roles.n; r++)
        find_makers(&program->roles.at[r], t.maker + r * t.width);
    for (int r = 0; ok && r < program->roles.n; r++)
        follow(&t, r, program->loss);
    while (ok && t.n > 0) {
        const int number = t.stack[--t.n], role = number / t.width, at = number % t.width, s = t.maker[number];
        if (s < 0 || follow_operands(&t, role, &program->roles.at[role].steps.at[s])) prefer(program, best, role, at, s);
    }
    free(t.maker);
    free(t.stack);
    free(t.seen);
    return ok;
}

/* ---------------------------------------------------------------- words */

static void put_number(Text *text, double value) {
    text_printf(text, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/* The place in the whole tensor of an element of a box. */
static void global_index(const Box *box, int64_t element, int64_t index[MAX_NDIM]) {
    for (int d = box->ndim - 1; d >= 0; d--) {
        const int64_t n = box->end[d] - box->begin[d];
        index[d] = box->begin[d] + (n > 0 ? element % n : 0);
        element = n > 0 ? element / n : 0;
    }
}

static void put_index(Text *text, const int64_t *index, int ndim) {
    for (int d = 0; d < ndim; d++)
        text_printf(text, "%s%lld", d ? ", " : " at [", (long long)index[d]);
    text_printf(text, ndim > 0 ? "]" : "");
}

/* "input x holds nan at [5, 2]: train.csv:17:9". */
static void put_input(const Executor *executor, const Cursor *cursor, int instance, int64_t epoch, int64_t step, Text *text) {
    const int id = (int)cursor->role->instances.at[instance].at;
    const Input *input = &executor->plan->graph.inputs.at[id];
    const Found *found = &cursor->found[instance];
    int64_t index[MAX_NDIM];
    global_index(&cursor->box[instance], found->element, index);
    text_printf(text, "input %s holds ", executor->plan->graph.inputs.at[input->micro > 0 ? input->of : id].name);
    put_number(text, found->value);
    put_index(text, index, cursor->box[instance].ndim);
    if (input_is_of_batch(input->kind)) data_where(executor->data, id, epoch, step, index, text);
}

static void put_origin(const Executor *executor, const Cursor *cursor, const Origin *origin, int64_t at, int64_t update, Text *text) {
    const Graph *graph = &executor->plan->graph;
    const Instance *instance = &cursor->role->instances.at[origin->instance];
    const Found *found = &cursor->found[origin->instance];
    int64_t index[MAX_NDIM];
    char place[256];
    global_index(&cursor->box[origin->instance], found->element, index);
    const int64_t steps = executor_steps(executor);
    if (origin->rank == RANK_INPUT) {
        put_input(executor, cursor, origin->instance, at / steps + 1, at % steps + 1, text);
        return;
    }
    if (origin->rank == RANK_STATE) {
        const State *state = &graph->states.at[instance->at];
        text_printf(text, "%s %s holds ", state_is_const(state) ? "const" : "parameter", state->name);
        put_number(text, found->value);
        put_index(text, index, cursor->box[origin->instance].ndim);
        text_printf(text, !executor->guards
                              ? " after that step: --sync looks at each loss before parameters are updated, and names the operator"
                          : update > 1 ? ": the update of the step before or an earlier one made it so, of a gradient that was not finite"
                                       : " before the first step");
        return;
    }
    if (origin->step < 0) {
        text_printf(text, "constant %s holds ", graph->values.at[instance->value].name);
        put_number(text, found->value);
        put_index(text, index, cursor->box[origin->instance].ndim);
        return;
    }
    where(executor, cursor, origin->step, place, sizeof place);
    text_printf(text, "the first result that is not finite, of finite operands, is of %s: ", place);
    put_number(text, found->value);
    put_index(text, index, cursor->box[origin->instance].ndim);
}

/* ---------------------------------------------------------------- the search */

/* The first of the steps, counted from 0 over all epochs, in which an input of a driven rank is not finite; -1: none. *driven, *instance: which input. */
static int64_t find_input(Executor *executor, int64_t first, int64_t last, int *driven, int *instance, Error *error) {
    const int64_t steps = executor_steps(executor);
    for (int64_t at = first; at <= last; at++) {
        if (!inputs_fill(executor, at / steps + 1, at % steps + 1, error)) return -1;
        for (int d = 0; d < executor->comm->ndriven; d++) {
            Cursor *cursor = &executor->cursors[d];
            forget(cursor);
            if (!look_at_sources(executor, cursor, PLACE_INPUT, error)) return -1;
            for (int i = 0; i < cursor->role->instances.n; i++)
                if (cursor->role->instances.at[i].place == PLACE_INPUT && cursor->found[i].element >= 0) {
                    *driven = d;
                    *instance = i;
                    return at;
                }
        }
    }
    error->code = 0;
    return -1;
}

/* Repeats the step; text gets the answer on the process whose rank has the origin. */
static bool find_operator(Executor *executor, int64_t at, int64_t update, bool bad, Text *text, Error *error) {
    Comm *comm = executor->comm;
    const int64_t steps = executor_steps(executor);
    const Program *program = executor->program;
    int n = 0; /* the same for all ranks */
    for (int r = 0; r < program->roles.n; r++)
        if (program->roles.at[r].instances.n > n) n = program->roles.at[r].instances.n;
    const int nwords = n / 64 + 1;
    bool ok = true;
    for (int d = 0; ok && d < comm->ndriven; d++) {
        Cursor *cursor = &executor->cursors[d];
        forget(cursor);
        ok = look_at_sources(executor, cursor, PLACE_STATE, error) && look_at_sources(executor, cursor, PLACE_CONSTANT, error);
    }
    if (!comm_agree(comm, ok, error) || !executor_repeat(executor, at / steps + 1, at % steps + 1, update, error)) return false;
    for (int d = 0; ok && d < comm->ndriven; d++)
        ok = look_at_sources(executor, &executor->cursors[d], PLACE_INPUT, error);
    uint64_t *bits = calloc((size_t)nwords * (size_t)program->roles.n, sizeof *bits);
    ok = comm_agree(comm, ok && (bits || error_set(error, EXIT_ENVIRONMENT, "out of memory")), error);
    Origin origin = {-1, -1, -1, NO_RANK};
    ok = ok && gather_found(executor, bad, bits, nwords, error) && comm_agree(comm, go_back(program, bits, nwords, &origin, error), error);
    free(bits);
    uint64_t own = UINT64_MAX, least;
    for (int d = comm->ndriven - 1; ok && bad && origin.instance >= 0 && d >= 0; d--)
        if (executor->cursors[d].role == &program->roles.at[origin.role] && executor->cursors[d].found[origin.instance].element >= 0)
            own = (uint64_t)d;
    const bool has_it = own != UINT64_MAX;
    ok = ok && gather_least(comm, has_it ? (uint64_t)comm->process : UINT64_MAX, &least, error);
    if (!ok) return false;
    if (has_it && least == (uint64_t)comm->process)
        put_origin(executor, &executor->cursors[own], &origin, at, update, text);
    else if (least == UINT64_MAX && comm->process == 0)
        text_printf(text, "the step done again has no such result");
    return true;
}

static void make_found(Executor *executor) {
    for (int d = 0; d < executor->comm->ndriven; d++) {
        Cursor *cursor = &executor->cursors[d];
        if (!cursor->found) cursor->found = arena_alloc(&executor->arena, ((size_t)cursor->role->instances.n + 1) * sizeof *cursor->found);
    }
}

bool executor_find_bad_input(Executor *executor, int64_t first, int64_t last, Text *text, int64_t *at, bool *any, Error *error) {
    Comm *comm = executor->comm;
    const int64_t steps = executor_steps(executor);
    int driven = 0, instance = 0;
    uint64_t least;
    make_found(executor);
    *error = (Error){0};
    *at = find_input(executor, first, last, &driven, &instance, error);
    /* The first step that has one, and in it the first process that has one. */
    const uint64_t own = *at < 0 ? UINT64_MAX : (uint64_t)(*at - first) * (uint64_t)comm->nprocesses + (uint64_t)comm->process;
    if (!comm_agree(comm, *at >= 0 || error->code == 0, error) || !gather_least(comm, own, &least, error)) return false;
    *any = least != UINT64_MAX;
    if (!*any || own != least) *at = -1;
    if (*at >= 0) put_input(executor, &executor->cursors[driven], instance, *at / steps + 1, *at % steps + 1, text);
    return true;
}

void executor_find_bad(Executor *executor, int64_t first, int64_t last, int64_t update, bool bad, Error *error) {
    const int64_t steps = executor_steps(executor);
    Text text = {0};
    int64_t at;
    bool any;
    Executor *repeats = lengths_known(executor, last / steps + 1, last % steps + 1); /* the one that did the last step */
    make_found(repeats);
    bool ok = executor_find_bad_input(executor, first, last, &text, &at, &any, error);
    if (ok && !any) ok = find_operator(repeats, last, update, bad, &text, error);
    if (ok && at >= 0 && at < last)
        text_printf(&text, ", in epoch %lld step %lld", (long long)(at / steps + 1), (long long)(at % steps + 1));
    if (ok && text.at) error_set(error, EXIT_MISMATCH, "%.900s", text.at);
    if (ok && !text.at) error_reported(error, EXIT_MISMATCH);
    text_finish(&text);
}
