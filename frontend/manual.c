/* manual: mode manual: each rank has its own values, and the net says what is communicated. A call such as all_reduce(x, sum) is lowered to existing operators: `expose`
 * makes the ranks dimension 0 of a plain tensor; operators on that (a sum over it, a reshape, a transpose, rows by index) compute with all ranks' values; `replicate` gives
 * every rank the result, `expose` with hide gives each rank its row. So gradients, communications and the proof are those of these operators.
 * Ranks are replicas here: --replicas 4 --ranks 1 computes on one rank what 4 ranks do. */
#include "frontend/lower.h"

#include <string.h>

typedef enum { ALL_REDUCE, REDUCE, BROADCAST, SCATTER, GATHER, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND, RECV, BARRIER, NCALLS } Kind;
enum { ARG_X, ARG_OP, ARG_ROOT, ARG_OVER, ARG_TO, ARG_FROM, NARGS };
static const char *const argument_name[NARGS] = {"x", "op", "root", "over", "to", "from"};
/* The arguments that a call takes, in their order; -1 ends them. */
static const struct {
    const char *name;
    int nrequired, arguments[NARGS];
} calls[NCALLS] = {[ALL_REDUCE] = {"all_reduce", 1, {ARG_X, ARG_OP, ARG_OVER, -1}},
                   [REDUCE] = {"reduce", 1, {ARG_X, ARG_OP, ARG_ROOT, ARG_OVER, -1}},
                   [BROADCAST] = {"broadcast", 1, {ARG_X, ARG_ROOT, ARG_OVER, -1}},
                   [SCATTER] = {"scatter", 1, {ARG_X, ARG_ROOT, ARG_OVER, -1}},
                   [GATHER] = {"gather", 1, {ARG_X, ARG_ROOT, ARG_OVER, -1}},
                   [ALL_GATHER] = {"all_gather", 1, {ARG_X, ARG_OVER, -1}},
                   [REDUCE_SCATTER] = {"reduce_scatter", 1, {ARG_X, ARG_OP, ARG_OVER, -1}},
                   [ALL_TO_ALL] = {"all_to_all", 1, {ARG_X, ARG_OVER, -1}},
                   [SEND] = {"send", 2, {ARG_X, ARG_TO, ARG_OVER, -1}},
                   [RECV] = {"recv", 2, {ARG_X, ARG_FROM, ARG_OVER, -1}},
                   [BARRIER] = {"barrier", 1, {ARG_X, ARG_OVER, -1}}};

typedef enum { SUM, MEAN, PROD, MAX, MIN, NREDUCES } Reduce;
static const char *const reduce_name[NREDUCES] = {"sum", "mean", "prod", "max", "min"};
static const OpCode reduce_op[NREDUCES] = {[SUM] = OP_sum, [MEAN] = OP_mean, [PROD] = OP_mul, [MAX] = OP_max, [MIN] = OP_min};

typedef struct Manual {
    Lower *lower;
    Graph *graph;
    const Expr *call;
    Kind kind;
    Span span;
    const char *name; /* of the result; the names of helper values begin with it */
    int nranks;
    const Expr *argument[NARGS];
    Shape own; /* of a rank's value of x */
    Reduce reduce;
    int root;   /* the root's rank; over an axis its place along that */
    bool axis;  /* the groups are along an axis of the mesh */
    int *place; /* per rank its place in its group, -1: it is in none; NULL: all ranks are one group */
    int *group; /* per rank the number of its group */
    int size;   /* ranks per group */
} Manual;

/* ---------------------------------------------------------------- groups */

/* Groups along an axis of the mesh: ranks that differ only in its digit are a group. */
static bool over_axis(Manual *m, const Axis *axis, const Span span) {
    const MeshAxes *mesh = &m->graph->settings.mesh;
    int64_t product = 1, stride = 1;
    for (int i = 0; i < mesh->n; i++)
        product *= mesh->at[i].size;
    for (int i = mesh->n - 1; &mesh->at[i] != axis; i--)
        stride *= mesh->at[i].size;
    if (product != m->nranks) {
        diag_error(m->lower->diags, span, "%s: the mesh has %lld ranks, and there are %d", axis->name, (long long)product, m->nranks);
        diag_hint(m->lower->diags, "in mode manual the axes of a mesh have all ranks between them");
        return false;
    }
    for (int r = 0; r < m->nranks; r++) {
        m->place[r] = (int)(r / stride % axis->size);
        m->group[r] = (int)(r - m->place[r] * stride);
    }
    m->size = axis->size;
    m->axis = true;
    return true;
}

static bool over_read(Manual *m) {
    Lower *lower = m->lower;
    const Expr *over = m->argument[ARG_OVER];
    m->size = m->nranks;
    if (!over) return true;
    const Span span = lower_span(lower, over->loc);
    const char *name = over->kind == EXPR_NAME ? over->text : NULL;
    const Axis *axis = name ? axis_find(&m->graph->settings, name) : NULL;
    m->place = arena_alloc(lower->arena, sizeof *m->place * (size_t)m->nranks);
    m->group = arena_alloc(lower->arena, sizeof *m->group * (size_t)m->nranks);
    if (axis) return over_axis(m, axis, span);
    const char *names[64];
    int n = 0;
    for (int i = 0; i < lower->groups.n; i++) {
        const RankGroup *group = &lower->groups.at[i];
        if (n < 64) names[n++] = group->name;
        if (!name || strcmp(group->name, name) != 0) continue;
        memcpy(m->place, group->place, sizeof *m->place * (size_t)m->nranks);
        memset(m->group, 0, sizeof *m->group * (size_t)m->nranks);
        m->size = group->size;
        return true;
    }
    for (int i = 0; i < m->graph->settings.mesh.n && n < 64; i++)
        names[n++] = m->graph->settings.mesh.at[i].name;
    const char *nearest = name ? name_nearest(name, names, n) : NULL;
    diag_error(lower->diags, span, "%s: over is a group or an axis of the mesh", calls[m->kind].name);
    if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(lower->diags, "parallel { mode = manual; group (evens = [0, 2]); mesh (dp = 2, tp = 2); }");
    return false;
}

/* The rank at a place in the group of rank r. */
static int member(const Manual *m, int r, int place) {
    if (!m->place) return place;
    for (int other = 0; other < m->nranks; other++)
        if (m->place[other] == place && m->group[other] == m->group[r]) return other;
    return -1;
}

/* ---------------------------------------------------------------- nodes */

static int emit(const Manual *m, OpCode op, const int *in, int nin, const Attr *attr, const char *part) {
    return graph_emit(m->graph, op, in, nin, attr, arena_printf(m->lower->arena, "%s.%s", m->name, part), m->span);
}

static int exposed(const Manual *m, int value) {
    return emit(m, OP_expose, &value, 1, NULL, "ranks");
}

static int hidden(const Manual *m, int value) {
    return rank_own(m->lower, value, arena_printf(m->lower->arena, "%s.own", m->name), m->span);
}

/* Reshapes to the dimensions `lead`, followed by those of `rest` from dimension `from` on. */
static int reshaped(const Manual *m, int value, const int64_t *lead, int nlead, const Shape *rest, int from) {
    Attr attr[MAX_ATTRS] = {{.given = true}};
    for (int i = 0; i < nlead; i++)
        attr[0].ints[attr[0].n++] = lead[i];
    for (int d = from; d < rest->ndim; d++)
        attr[0].ints[attr[0].n++] = rest->dim[d];
    return emit(m, OP_reshape, &value, 1, attr, "shaped");
}

static int along(const Manual *m, OpCode op, int value) { /* dimension 0 */
    const Attr attr[MAX_ATTRS] = {{.given = true, .n = 1}};
    return emit(m, op, &value, 1, attr, op_table[op].name);
}

static int number(const Manual *m, DType dtype, double f) {
    return graph_replicate(m->graph, graph_constant(m->graph, (TensorType){.dtype = dtype}, NULL, f, NULL, m->span), NULL, m->span);
}

static DType dtype_of(const Manual *m, int value) {
    return m->graph->values.at[value].type.dtype;
}

/* `value` on the root, zeros elsewhere. */
static int at_root(const Manual *m, int value) {
    const int is[2] = {m->lower->rank, number(m, I32, m->root)};
    const int in[3] = {emit(m, OP_equal, is, 2, NULL, "is_root"), value, number(m, dtype_of(m, value), 0)};
    return emit(m, OP_where, in, 3, NULL, "at_root");
}

/* The product along dimension 0: multiplies one half with the other, until one element is left. */
static int product(const Manual *m, int value, int64_t width) {
    for (int64_t n = m->graph->values.at[value].type.shape.dim[1]; n > 1; n = n / 2 + n % 2) {
        int half[3];
        for (int k = 0; k < 3; k++) {
            const Attr attr[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {k * (n / 2), 0}},
                                          {.given = true, .n = 2, .ints = {k == 2 ? n : (k + 1) * (n / 2), width}}};
            if (k < 2 || n % 2) half[k] = emit(m, OP_slice, &value, 1, attr, "half");
        }
        value = emit(m, OP_mul, half, 2, NULL, "prod");
        const int both[2] = {value, half[2]};
        const Attr axis[MAX_ATTRS] = {{.given = true}};
        if (n % 2) value = emit(m, OP_concat, both, 2, axis, "rest");
    }
    return along(m, OP_sum, value); /* of one element: drops the dimension */
}

/* Reduces [k, width] over dimension 0. */
static int reduced(const Manual *m, int value, int64_t width) {
    return m->reduce == PROD ? product(m, value, width) : along(m, reduce_op[m->reduce], value);
}

/* Keeps the rows of each rank's value that are true in `kept`, whose dimension 0 is the ranks; takes `others` for the rest. */
static int rows_kept(const Manual *m, int value, const double *kept, TensorType type, int others) {
    bool all = true;
    for (int64_t i = 0; i < shape_elements(&type.shape); i++)
        all = all && kept[i] != 0;
    if (all) return value;
    type.dtype = BOOL;
    const int mask = hidden(m, graph_constant(m->graph, type, kept, 0, arena_printf(m->lower->arena, "%s.mask", m->name), m->span));
    return emit(m, OP_where, (const int[]){mask, value, others}, 3, NULL, "kept");
}

/* Views every rank's x as `parts` rows of `width`. Rank r gets [k, width], whose row i is row from[r * k + i] among the rows of all ranks; -1: zeros. */
static int rows(const Manual *m, int x, int64_t parts, int64_t width, double *from, int k) {
    const TensorType type = {.dtype = I32, .shape = {.ndim = 2, .dim = {m->nranks, k}}};
    double *kept = arena_alloc(m->lower->arena, sizeof *kept * (size_t)m->nranks * (size_t)k);
    for (int i = 0; i < m->nranks * k; i++) {
        kept[i] = from[i] >= 0;
        if (from[i] < 0) from[i] = 0;
    }
    const int plain = reshaped(m, exposed(m, x), (const int64_t[]){m->nranks * parts, width}, 2, &(Shape){0}, 0);
    const int all = graph_replicate(m->graph, plain, arena_printf(m->lower->arena, "%s.all", m->name), m->span);
    const int index = graph_constant(m->graph, type, from, 0, arena_printf(m->lower->arena, "%s.from", m->name), m->span);
    const Attr axis[MAX_ATTRS] = {{.given = true}};
    const int taken = emit(m, OP_gather, (const int[]){all, hidden(m, index)}, 2, axis, "rows");
    return rows_kept(m, taken, kept, (TensorType){.shape = {.ndim = 3, .dim = {m->nranks, k, 1}}}, number(m, dtype_of(m, x), 0));
}

/* ---------------------------------------------------------------- calls over all ranks */

static int world_reduced(const Manual *m, int x) {
    return along(m, reduce_op[m->reduce], exposed(m, x));
}

static int everywhere(const Manual *m, int value) {
    return graph_replicate(m->graph, value, arena_printf(m->lower->arena, "%s.everywhere", m->name), m->span);
}

static int over_all(const Manual *m, int x) {
    const int64_t n = m->nranks, own = m->own.ndim > 0 ? m->own.dim[0] : 1, part = own / n;
    int value;
    switch (m->kind) {
    case ALL_REDUCE:
        return everywhere(m, world_reduced(m, x));
    case REDUCE:
        return at_root(m, everywhere(m, world_reduced(m, x)));
    case BROADCAST:
        return everywhere(m, world_reduced(m, at_root(m, x)));
    case SCATTER:
    case REDUCE_SCATTER:
        value = world_reduced(m, m->kind == SCATTER ? at_root(m, x) : x);
        return hidden(m, reshaped(m, value, (const int64_t[]){n, part}, 2, &m->own, 1));
    case GATHER:
    case ALL_GATHER:
        value = everywhere(m, reshaped(m, exposed(m, x), (const int64_t[]){n * own}, 1, &m->own, 1));
        return m->kind == GATHER ? at_root(m, value) : value;
    case ALL_TO_ALL: {
        Attr perm[MAX_ATTRS] = {{.given = true, .n = m->own.ndim + 2, .ints = {1, 0}}};
        for (int d = 2; d < perm[0].n; d++)
            perm[0].ints[d] = d;
        value = reshaped(m, exposed(m, x), (const int64_t[]){n, n, part}, 3, &m->own, 1);
        value = emit(m, OP_transpose, &value, 1, perm, "turned");
        return hidden(m, reshaped(m, value, (const int64_t[]){n, own}, 2, &m->own, 1));
    }
    case SEND:
    case RECV:
    case BARRIER:
    case NCALLS:
        break;
    }
    return -1;
}

/* ---------------------------------------------------------------- calls over groups */

/* `value`, but on ranks in no group their own x. */
static int others_keep(const Manual *m, int value, int x) {
    double *inside = arena_alloc(m->lower->arena, sizeof *inside * (size_t)m->nranks);
    for (int r = 0; r < m->nranks; r++)
        inside[r] = !m->place || m->place[r] >= 0;
    return rows_kept(m, value, inside, (TensorType){.shape = {.ndim = 1, .dim = {m->nranks}}}, x);
}

static int over_group(const Manual *m, int x) {
    const bool halves = m->kind == SCATTER || m->kind == REDUCE_SCATTER || m->kind == ALL_TO_ALL;
    const bool one = m->kind == BROADCAST || m->kind == SCATTER, rooted = m->kind == REDUCE || m->kind == GATHER;
    const int64_t elements = shape_elements(&m->own), parts = halves ? m->size : 1, width = elements / parts;
    const int k = one ? 1 : m->size, root_place = m->place && !m->axis ? m->place[m->root] : m->root;
    double *from = arena_alloc(m->lower->arena, sizeof *from * (size_t)m->nranks * (size_t)k);
    for (int r = 0; r < m->nranks; r++) {
        const int place = m->place ? m->place[r] : r;
        for (int i = 0; i < k; i++) {
            const bool takes = place >= 0 && (!rooted || place == root_place);
            const int sender = takes ? member(m, r, one ? root_place : i) : -1;
            from[r * k + i] = sender < 0 ? -1 : (double)(sender * parts + (halves ? place : 0));
        }
    }
    int value = rows(m, x, parts, width, from, k);
    const bool reduces = m->kind == ALL_REDUCE || m->kind == REDUCE || m->kind == REDUCE_SCATTER;
    if (reduces) value = reduced(m, value, width);
    if (m->kind == GATHER || m->kind == ALL_GATHER) {
        const int64_t own = m->own.ndim > 0 ? m->own.dim[0] : 1;
        return reshaped(m, value, (const int64_t[]){own * k}, 1, &m->own, 1);
    }
    if (halves) {
        const int64_t lead = m->own.dim[0] / parts * (m->kind == ALL_TO_ALL ? k : 1);
        return reshaped(m, value, &lead, 1, &m->own, 1);
    }
    return others_keep(m, reshaped(m, value, NULL, 0, &m->own, 0), x);
}

/* ---------------------------------------------------------------- send and recv */

/* The rank that rank r sends to or receives from, -1: none. Over an axis it is given by its place there; over a group it must be one of its ranks, and ranks outside have none. */
static bool partner(const Manual *m, const Expr *expr, const char *what, int r, int *other) {
    Diags *diags = m->lower->diags;
    const int most = (m->axis ? m->size : m->nranks) - 1;
    int64_t number = -1;
    *other = -1;
    if (m->place && m->place[r] < 0) return true;
    rank_set(m->lower, r);
    const bool ok = integer_eval(m->lower, expr, what, -1, most, &number);
    rank_set(m->lower, -1);
    if (!ok && m->axis) diag_hint(diags, "a place along the axis, from 0 to %d, or -1 for none", most);
    if (!ok && !m->axis) diag_hint(diags, "a rank from 0 to %d, or -1 for none: (rank + 1) %% nranks", most);
    if (!ok || number < 0) return ok;
    *other = m->axis ? member(m, r, (int)number) : (int)number;
    if (!m->place || m->place[*other] >= 0) return true;
    diag_error(diags, lower_span(m->lower, expr->loc), "%s: rank %d, the %s of rank %d, is not in the group", calls[m->kind].name, *other,
               what, r);
    return false;
}

static int *partners(const Manual *m, const Expr *expr, const char *what) {
    int *other = arena_alloc(m->lower->arena, sizeof *other * (size_t)m->nranks);
    for (int r = 0; r < m->nranks; r++)
        if (!partner(m, expr, what, r, &other[r])) return NULL;
    return other;
}

static int sent(Manual *m, int x) {
    const int *to = partners(m, m->argument[ARG_TO], "to");
    if (!to) return -1;
    const int value = graph_emit(m->graph, OP_expose, &x, 1, NULL, m->name, m->span);
    vec_push(m->lower->arena, &m->lower->sent, ((Sent){.value = value, .to = to, .span = m->span}));
    return value;
}

/* Reports what would wait forever: a message that no rank receives, or one that no rank sends. */
static bool matched(const Manual *m, const Sent *sent, const int *from) {
    Diags *diags = m->lower->diags;
    for (int r = 0; r < m->nranks; r++) {
        const int to = sent->to[r], source = from[r];
        if (source >= 0 && sent->to[source] != r) {
            diag_error(diags, m->span, "rank %d would wait for ever: it receives from rank %d, which sends %s", r, source,
                       sent->to[source] < 0 ? "nothing" : arena_printf(m->lower->arena, "to rank %d", sent->to[source]));
        } else if (to >= 0 && from[to] != r) {
            diag_error(diags, m->span, "rank %d would wait for ever: it sends to rank %d, which receives %s", r, to,
                       from[to] < 0 ? "nothing" : arena_printf(m->lower->arena, "from rank %d", from[to]));
        } else {
            continue;
        }
        diag_note(diags, sent->span, "it is sent here");
        return false;
    }
    return true;
}

static int received(const Manual *m, int message) {
    Lower *lower = m->lower;
    Sent *sent = NULL;
    for (int i = 0; i < lower->sent.n && message >= 0; i++)
        if (lower->sent.at[i].value == message) sent = &lower->sent.at[i];
    if (!sent || sent->received) {
        diag_error(lower->diags, m->span, sent ? "this is received already" : "recv takes what a send has sent");
        if (sent) diag_note(lower->diags, sent->span, "it is sent here, once");
        diag_hint(lower->diags, "m = send(x, to = (rank + 1) %% nranks); y = recv(m, from = (rank + nranks - 1) %% nranks);");
        return -1;
    }
    const int *from = partners(m, m->argument[ARG_FROM], "from");
    if (!from || !matched(m, sent, from)) return -1;
    sent->received = true;
    double *row = arena_alloc(lower->arena, sizeof *row * (size_t)m->nranks);
    for (int r = 0; r < m->nranks; r++)
        row[r] = from[r];
    Manual of = *m;
    const TensorType *type = &m->graph->values.at[message].type;
    of.own = (Shape){.ndim = type->shape.ndim - 1};
    memcpy(of.own.dim, type->shape.dim + 1, sizeof *of.own.dim * (size_t)of.own.ndim);
    const int x = m->graph->nodes.at[m->graph->values.at[message].node].in[0];
    return reshaped(&of, rows(&of, x, 1, shape_elements(&of.own), row, 1), NULL, 0, &of.own, 0);
}

bool message_misused(Lower *lower, const Expr *expr, int value) {
    for (int i = 0; i < lower->sent.n && value >= 0; i++) {
        if (lower->sent.at[i].value != value) continue;
        diag_error(lower->diags, lower_span(lower, expr->loc), "this is a message: recv takes it");
        diag_note(lower->diags, lower->sent.at[i].span, "it is sent here");
        return true;
    }
    return false;
}

bool sends_received(Lower *lower) {
    for (int i = 0; i < lower->sent.n; i++) {
        if (lower->sent.at[i].received) continue;
        diag_error(lower->diags, lower->sent.at[i].span, "nobody receives what is sent here");
        diag_hint(lower->diags, "y = recv(m, from = ...); with what send gives as m");
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- barrier */

/* The maximum of the flags in a rank's group; 0 for ranks in none. */
static int group_flag(const Manual *m, int flag) {
    double *from = arena_alloc(m->lower->arena, sizeof *from * (size_t)m->nranks * (size_t)m->size);
    for (int r = 0; r < m->nranks; r++)
        for (int i = 0; i < m->size; i++)
            from[r * m->size + i] = m->place[r] < 0 ? -1 : member(m, r, i);
    return along(m, OP_max, rows(m, flag, 1, 1, from, m->size));
}

/* x, but not before every rank (of the group) has computed its own: it depends on the maximum of their flags, which each rank computes from an element of its x. */
static int barrier(const Manual *m, int x) {
    const Attr first[MAX_ATTRS] = {{.given = true, .n = 1}, {.given = true, .n = 1, .ints = {1}}},
               to[MAX_ATTRS] = {{.given = true, .text = "i32"}};
    const int64_t elements = shape_elements(&m->own);
    int flag = reshaped(m, x, &elements, 1, &(Shape){0}, 0);
    flag = emit(m, OP_slice, &flag, 1, first, "first");
    flag = emit(m, OP_equal, (const int[]){flag, flag}, 2, NULL, "there");
    flag = emit(m, OP_cast, &flag, 1, to, "flag");
    flag = m->place ? group_flag(m, flag)
                    : everywhere(m, along(m, OP_max, reshaped(m, exposed(m, flag), (const int64_t[]){m->nranks}, 1, &(Shape){0}, 0)));
    const int come = emit(m, OP_greater_equal, (const int[]){flag, number(m, I32, 0)}, 2, NULL, "come");
    return emit(m, OP_where, (const int[]){come, x, x}, 3, NULL, "behind");
}

/* ---------------------------------------------------------------- calls */

bool is_manual_call(const Lower *lower, const Expr *call) {
    if (!lower->manual) return false;
    /* gather(x, index) is the operator. */
    const Expr *second = call->items ? call->items->next : NULL;
    if (!strcmp(call->text, "gather") && second &&
        (second->kind != EXPR_KEYWORD || !strcmp(second->text, "index") || !strcmp(second->text, "axis")))
        return false;
    for (int k = 0; k < NCALLS; k++)
        if (!strcmp(calls[k].name, call->text)) return true;
    return false;
}

static bool arguments_read(Manual *m) {
    const char *names[NARGS];
    const Expr *given[NARGS];
    int n = 0;
    for (; n < NARGS && calls[m->kind].arguments[n] >= 0; n++)
        names[n] = argument_name[calls[m->kind].arguments[n]];
    if (!call_arguments(m->lower, m->call, names, n, calls[m->kind].nrequired, given)) return false;
    for (int i = 0; i < n; i++)
        m->argument[calls[m->kind].arguments[i]] = given[i];
    const Expr *op = m->argument[ARG_OP];
    const int reduce = op ? choice(m->lower, "reduction", op, reduce_name, NREDUCES) : SUM;
    if (reduce < 0) return false;
    m->reduce = (Reduce)reduce;
    int64_t root = 0;
    const Expr *at = m->argument[ARG_ROOT];
    if (!over_read(m) || (at && !integer_eval(m->lower, at, "root", 0, (m->axis ? m->size : m->nranks) - 1, &root))) return false;
    m->root = (int)root;
    if (!m->place || m->axis || m->place[root] >= 0) return true;
    const bool rooted = m->kind == REDUCE || m->kind == BROADCAST || m->kind == SCATTER || m->kind == GATHER;
    if (!rooted) return true;
    diag_error(m->lower->diags, lower_span(m->lower, (at ? at : m->argument[ARG_OVER])->loc), "%s: rank %d, the root, is not in the group",
               calls[m->kind].name, m->root);
    diag_hint(m->lower->diags, "root = one of its ranks");
    return false;
}

/* Whether the shape and type of a rank's value fit the call. */
static bool value_fits(const Manual *m, int x) {
    enum { MOST = MAX_NDIM - 3 };
    const DType dtype = dtype_of(m, x);
    const Span span = lower_span(m->lower, m->argument[ARG_X]->loc);
    const char *name = calls[m->kind].name;
    const unsigned takes = m->argument[ARG_OP] && m->reduce == MEAN ? DTYPES_FLOAT : DTYPES_NUMBER;
    if (!(takes & 1u << dtype)) {
        diag_error(m->lower->diags, span, takes == DTYPES_FLOAT ? "%s: a mean is of real numbers, not %s" : "%s takes numbers, not %s",
                   name, dtype_name[dtype]);
        diag_hint(m->lower->diags, "cast(x, to = %s)", takes == DTYPES_FLOAT ? "f32" : "i32");
        return false;
    }
    if (m->own.ndim > MOST) {
        diag_error(m->lower->diags, span, "%s: a value has at most %d dimensions, this one has %d", name, MOST, m->own.ndim);
        return false;
    }
    const bool halves = m->kind == SCATTER || m->kind == REDUCE_SCATTER || m->kind == ALL_TO_ALL;
    if (!halves || (m->own.ndim > 0 && m->own.dim[0] % m->size == 0)) return true;
    diag_error(m->lower->diags, span, "%s gives each of %d ranks a part of dimension 0, and this is %s", name, m->size,
               type_text(m->lower, &m->graph->values.at[x].type));
    diag_hint(m->lower->diags, "a size that %d divides", m->size);
    return false;
}

static int lowered(Manual *m, int x) {
    if (m->kind == SEND) return sent(m, x);
    if (m->kind == RECV) return received(m, x);
    if (!value_fits(m, x)) return -1;
    if (m->kind == BARRIER) return barrier(m, x);
    return m->place || m->reduce == PROD ? over_group(m, x) : over_all(m, x);
}

bool manual_lower(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out) {
    Manual m = {
        .lower = lower, .graph = lower->graph, .call = call, .span = lower_span(lower, call->loc), .nranks = lower->graph->replicas};
    while (strcmp(calls[m.kind].name, call->text) != 0)
        m.kind++;
    Operand x;
    if (outcome->own) {
        diag_error(lower->diags, m.span, "%s has no strategy: it is a communication", call->text);
        return false;
    }
    if (outcome->name && lower->nresults != 1) {
        diag_error(lower->diags, m.span, "%s has 1 result, and here are %d names", call->text, lower->nresults);
        return false;
    }
    if (!room_for_node(lower, call->loc) || !arguments_read(&m) || !value_lower(lower, m.argument[ARG_X], &(Outcome){0}, &x)) return false;
    if (m.kind != RECV && message_misused(lower, m.argument[ARG_X], x.value)) return false;
    const TensorType *type = x.value >= 0 ? &lower->graph->values.at[x.value].type : NULL;
    if (m.kind != RECV && (!type || !type->hidden)) {
        diag_error(lower->diags, lower_span(lower, m.argument[ARG_X]->loc), "%s takes a tensor, and this is a number", call->text);
        return false;
    }
    if (m.kind != RECV) {
        m.own.ndim = type->shape.ndim - 1;
        memcpy(m.own.dim, type->shape.dim + 1, sizeof *m.own.dim * (size_t)m.own.ndim);
    }
    m.name = outcome->name ? outcome->name : inner_path(lower, call->text, call->loc);
    const int value = m.name ? lowered(&m, x.value) : -1;
    if (value < 0) return false;
    if (outcome->name && m.kind != SEND) graph_rename(lower->graph, value, outcome->name);
    *out = (Operand){.expr = call, .value = value};
    return true;
}
