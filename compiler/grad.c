/* grad: reverse-mode differentiation of the unsharded graph, and the optimizer.
 *
 * Before: a verified forward graph without composites; graph->loss is a scalar (of each hidden slice in mode data_parallel).
 * After: nforward is the number of forward nodes; after them come, for every trainable state that the loss depends on, the nodes of its
 * gradient (each with the forward node whose strategy it will reuse), one update and the writes of state and slots. A state that the loss
 * does not depend on gets no update. No optimizer: nothing is added. */
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/loss_scale.h"

/* Finds which values depend on a trainable state through operators that have a gradient. */
static void active_values(const Graph *g, bool *active) {
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        bool on = node->op == OP_read && g->states.at[node->state].trainable;
        for (int i = 0; i < node->nin; i++)
            on |= op_table[node->op].adjoint != NULL && active[node->in[i]];
        for (int k = 0; k < node->nout; k++)
            active[node->out[k]] = on;
    }
}

/* Each value's gradient so far: the sum of the contributions that are products, and the sum of the others. Products whose contracted dimension
 * is split over ranks are partial sums: they are added first, so that only their sum has to be completed, once. */
typedef struct Gradients {
    int *sum, *products; /* per value, -1: none */
    bool *active;        /* per value: depends on a trainable state */
    int n;               /* values */
} Gradients;

/* Makes room for the values that the graph has by now. */
static void gradients_grow(Graph *g, Gradients *grads) {
    int n = g->values.n;
    Gradients old = *grads;
    *grads = (Gradients){arena_alloc(g->arena, sizeof *grads->sum * (size_t)(n + 1)),
                         arena_alloc(g->arena, sizeof *grads->sum * (size_t)(n + 1)), arena_alloc(g->arena, (size_t)n + 1), n};
    memset(grads->sum, -1, sizeof *grads->sum * (size_t)n);
    memset(grads->products, -1, sizeof *grads->sum * (size_t)n);
    if (old.n == 0) return;
    memcpy(grads->sum, old.sum, sizeof *grads->sum * (size_t)old.n);
    memcpy(grads->products, old.products, sizeof *grads->sum * (size_t)old.n);
    memcpy(grads->active, old.active, (size_t)old.n);
}

/* Whether it is a product, perhaps reshaped, transposed or negated. */
static bool is_product(const Graph *g, int value) {
    const Node *node = graph_producer(g, value);
    while (node->op == OP_reshape || node->op == OP_transpose || node->op == OP_neg)
        node = graph_producer(g, node->in[0]);
    return node->op == OP_einsum || node->op == OP_matmul;
}

/* grad[value] += dy. The sum is split like the value that it is the gradient of. */
static void accumulate(Graph *g, int *grad, int value, int dy) {
    if (grad[value] < 0) {
        grad[value] = dy;
        return;
    }
    int part = PART_OUT + g->values.at[value].index;
    char name[256];
    snprintf(name, sizeof name, "d_%s", g->values.at[value].name);
    grad[value] =
        graph_emit_gradient(g, g->values.at[value].node, OP_add, (int[]){grad[value], dy}, (int[]){part, part}, 2, part, NULL, name);
}

/* Adds up a value's whole gradient, once all its users have contributed. */
static void complete(Graph *g, const Gradients *grads, int value) {
    int others = grads->sum[value];
    if (grads->products[value] < 0) return;
    grads->sum[value] = grads->products[value];
    if (others >= 0) accumulate(g, grads->sum, value, others);
}

/* Differentiates nodes [begin, end) in reverse; with `varies`, only forward nodes that vary, or only those that do not. */
static void backward(Graph *g, Gradients *grads, int begin, int end, const bool *varies, bool which) {
    for (int n = end - 1; n >= begin; n--) {
        Node node = g->nodes.at[n]; /* a copy: adjoints add nodes */
        int dy[MAX_OUT], dx[MAX_IN];
        bool reached = false;
        if (varies && varies[n] != which) continue;
        for (int k = 0; k < node.nout; k++) {
            complete(g, grads, node.out[k]);
            dy[k] = grads->active[node.out[k]] ? grads->sum[node.out[k]] : -1;
            reached |= dy[k] >= 0;
        }
        if (!reached || op_table[node.op].adjoint == NULL) continue;
        for (int i = 0; i < MAX_IN; i++)
            dx[i] = -1;
        op_table[node.op].adjoint(g, n, dy, dx);
        for (int i = 0; i < node.nin; i++)
            if (dx[i] >= 0 && grads->active[node.in[i]])
                accumulate(g, is_product(g, dx[i]) ? grads->products : grads->sum, node.in[i], dx[i]);
    }
}

/* Finds the whole net's gradients, of one batch. */
static void backward_once(Graph *g, const LossScale *scale, Gradients *grads) {
    const int seed = loss_scale_seed(g, scale, 1);
    grads->sum[g->loss] = seed;
    backward(g, grads, 0, g->nforward, NULL, false);
}

/* ---------------------------------------------------------------- states that the net writes */

/* What is written after the step: taken out of the reports, where it was kept alive. */
typedef VEC(Report) Writes;

static Writes take_writes(Graph *g) {
    Writes writes = {0};
    int kept = 0;
    for (int i = 0; i < g->reports.n; i++) {
        const Report report = g->reports.at[i];
        if (report.writes)
            vec_push(g->arena, &writes, report);
        else
            g->reports.at[kept++] = report;
    }
    g->reports.n = kept;
    return writes;
}

/* Adds what a further batch of the step would write to the sums. */
static void add_writes(Graph *g, const Writes *writes, const int *first, const bool *varies, const int *copy) {
    for (int i = 0; i < writes->n; i++) {
        const Value *own = &g->values.at[first[i]];
        const int from = own->node, part = PART_OUT + own->index;
        if (!varies[from]) continue;
        writes->at[i].value = graph_emit_gradient(g, from, OP_add, (int[]){writes->at[i].value, copy[first[i]]}, (int[]){part, part}, 2,
                                                  part, NULL, arena_printf(g->arena, "%s.sum", writes->at[i].name));
    }
}

/* Each state takes the mean over the step's batches. */
static void mean_writes(Graph *g, const Writes *writes, const int *first, const bool *varies, int k) {
    for (int i = 0; i < writes->n; i++) {
        const Value *own = &g->values.at[first[i]];
        const int from = own->node, part = PART_OUT + own->index;
        if (!varies[from]) continue;
        const TensorType single = {.dtype = own->type.dtype};
        const int share = graph_constant(g, single, NULL, 1.0 / k, "share", writes->at[i].span);
        writes->at[i].value = graph_emit_gradient(g, from, OP_mul, (int[]){writes->at[i].value, share}, (int[]){part, PART_NONE}, 2, part,
                                                  NULL, arena_printf(g->arena, "%s.mean", writes->at[i].name));
    }
}

/* Makes the mean of the losses of k batches the loss, and finds its gradients: forward and backward of one batch after the other, so that what the
 * backward pass of a batch needs is gone when the next begins. What the batches share comes last: it gets the sum of their gradients. */
static void backward_of_batches(Graph *g, const LossScale *scale, Gradients *grads, int k, const Writes *writes) {
    const bool *varies = graph_varies(g);
    const int loss = g->loss, from = g->values.at[loss].node, part = PART_OUT + g->values.at[loss].index;
    const Span span = g->nodes.at[from].span;
    int share = graph_constant(g, g->values.at[loss].type, NULL, 1.0 / k, "d_loss", span), sum = loss,
        seed = loss_scale_seed(g, scale, 1.0 / k);
    int *first = arena_alloc(g->arena, sizeof *first * (size_t)(writes->n + 1)); /* what the first batch would write */
    for (int i = 0; i < writes->n; i++)
        first[i] = writes->at[i].value;
    gradients_grow(g, grads);
    grads->sum[loss] = seed;
    backward(g, grads, 0, g->nforward, varies, true);
    for (int micro = 1; micro < k; micro++) {
        int begin = g->nodes.n;
        GraphCopy copy;
        graph_copy_forward(&copy, g, varies, micro);
        int end = g->nodes.n;
        gradients_grow(g, grads);
        for (int n = 0; n < g->nforward; n++)
            for (int o = 0; o < g->nodes.at[n].nout; o++)
                grads->active[copy.value[g->nodes.at[n].out[o]]] = grads->active[g->nodes.at[n].out[o]];
        sum = graph_emit_gradient(g, from, OP_add, (int[]){sum, copy.value[loss]}, (int[]){part, part}, 2, part, NULL, "loss_sum");
        add_writes(g, writes, first, varies, copy.value);
        grads->sum[copy.value[loss]] = seed;
        backward(g, grads, begin, end, NULL, false);
    }
    backward(g, grads, 0, g->nforward, varies, false);
    mean_writes(g, writes, first, varies, k);
    g->loss = graph_emit_gradient(g, from, OP_mul, (int[]){sum, share}, (int[]){part, part}, 2, part, NULL, "mean_loss");
}

/* ---------------------------------------------------------------- optimizers */

static Attr attr_float(double f) {
    return (Attr){.given = true, .f = f};
}

/* Adds a slot of a parameter, of zeros and of its type, but of size 1 in dimension `narrow` (-1: in none). */
static int slot_add(Graph *g, int state, const char *suffix, int narrow) {
    State slot = {.name = arena_printf(g->arena, "%s.%s", g->states.at[state].name, suffix),
                  .type = g->states.at[state].type,
                  .init = {.kind = INIT_ZEROS},
                  .parameter = state,
                  .span = g->states.at[state].span};
    if (narrow >= 0) slot.type.shape.dim[narrow] = 1;
    return graph_add_state(g, slot);
}
static int slot_read(Graph *g, int slot) {
    return graph_read_state(g, slot, 0, g->states.at[slot].name, g->states.at[slot].span);
}

/* The inputs that give updates a number each step: their values, plus 1; 0: not made yet. */
typedef struct UpdateNumbers {
    int value[NINPUT_KINDS][NDTYPES];
} UpdateNumbers;

/* The input of one kind, the number of the update or the rate of the schedule, which prun fills. One for each element type of parameters. */
static int update_number(Graph *g, UpdateNumbers *numbers, DType dtype, InputKind kind) {
    int *value = &numbers->value[kind][dtype];
    if (*value > 0) return *value - 1;
    const char *name =
        arena_printf(g->arena, "optimizer.%s%s%s", input_kind_name[kind], dtype == F32 ? "" : ".", dtype == F32 ? "" : dtype_name[dtype]);
    *value = graph_input(g, graph_add_input(g, (Input){.name = name, .type = {.dtype = dtype}, .kind = kind})) + 1;
    return *value - 1;
}

/* One row of the operator table for each optimizer: its operands are the parameter, its slots in the order of their names here, the gradient. */
typedef struct Optimizer {
    OpCode op;
    int nslots;
    const char *slot[2]; /* "w.momentum" */
    bool counts;         /* takes the number of the update */
    OpCode last;         /* takes the parameter and the direction that `op` gives; OP_input: `op` is all */
} Optimizer;

static const Optimizer optimizers[NOPTIMIZERS] = {
    [OPTIMIZER_SGD] = {.op = OP_sgd},
    [OPTIMIZER_MOMENTUM] = {.op = OP_momentum, .nslots = 1, .slot = {"momentum"}},
    [OPTIMIZER_ADAM] = {.op = OP_adam, .nslots = 2, .slot = {"m", "v"}, .counts = true},
    [OPTIMIZER_ADAMW] = {.op = OP_adamw, .nslots = 2, .slot = {"m", "v"}, .counts = true},
    [OPTIMIZER_LION] = {.op = OP_lion, .nslots = 1, .slot = {"m"}},
    [OPTIMIZER_ADAFACTOR] = {.op = OP_adafactor, .counts = true},
    [OPTIMIZER_LAMB] = {.op = OP_lamb_step, .nslots = 2, .slot = {"m", "v"}, .counts = true, .last = OP_lamb},
    [OPTIMIZER_LAZY_ADAM] = {.op = OP_adam, .nslots = 2, .slot = {"m", "v"}, .counts = true},
};

int graph_as_type(Graph *g, int value, DType dtype, Span span) {
    Attr attr[MAX_ATTRS] = {{0}};
    if (g->values.at[value].type.dtype == dtype) return value;
    attr[op_attr(OP_cast, "to")] = (Attr){.given = true, .text = dtype_name[dtype]};
    return graph_emit(g, OP_cast, &value, 1, attr, g->values.at[value].name, span);
}

/* The same for tables that are only looked up, by the rows that occur. */
static const Optimizer of_rows[NOPTIMIZERS] = {
    [OPTIMIZER_SGD] = {.op = OP_embedding_sgd},
    [OPTIMIZER_LAZY_ADAM] = {.op = OP_lazy_adam, .nslots = 2, .slot = {"m", "v"}, .counts = true},
};

/* Rows of a table's gradient, [.., d], and their indices in the table, [..]. */
typedef struct RowGradient {
    int g, index;
} RowGradient;

/* A value with all dimensions before the last `kept` joined to one. */
static int flattened(Graph *g, int value, int kept) {
    const TensorType *type = &g->values.at[value].type;
    const int ndim = type->shape.ndim;
    Attr shape[MAX_ATTRS] = {{.given = true, .n = kept + 1}};
    if (ndim == kept + 1) return value;
    shape[0].ints[0] = 1;
    for (int d = 0; d < ndim - kept; d++)
        shape[0].ints[0] *= type->shape.dim[d];
    for (int d = 0; d < kept; d++)
        shape[0].ints[1 + d] = type->shape.dim[ndim - kept + d];
    return graph_emit(g, OP_reshape, &value, 1, shape, g->values.at[value].name, graph_producer(g, value)->span);
}

/* Both, one after the other. */
static int joined(Graph *g, int a, int b, int kept) {
    const int parts[2] = {flattened(g, a, kept), flattened(g, b, kept)};
    return graph_emit(g, OP_concat, parts, 2, NULL, g->values.at[a].name, graph_producer(g, a)->span);
}

/* Whether a gradient is of lookups alone; adds to *rows how many. */
static bool is_of_rows(const Graph *g, int gradient, int64_t *rows) {
    const Node *maker = graph_producer(g, gradient);
    if (maker->op == OP_replica_sum) return is_of_rows(g, maker->in[0], rows);
    if (maker->op == OP_add) return is_of_rows(g, maker->in[0], rows) && is_of_rows(g, maker->in[1], rows);
    if (maker->op != OP_embedding_grad) return false;
    *rows += shape_elements(&g->values.at[maker->in[1]].type.shape);
    return true;
}

/* The replicas of a value, one after another. */
static int of_all_replicas(Graph *g, int value) {
    return g->values.at[value].type.hidden
               ? graph_emit(g, OP_expose, &value, 1, NULL, g->values.at[value].name, graph_producer(g, value)->span)
               : value;
}

/* Rows of the mean or the sum of replicas' gradients: those of all replicas, for a mean times their share. */
static RowGradient row_gradient(Graph *g, int gradient);
static RowGradient row_gradient_of_replicas(Graph *g, const Node *sum) {
    const int64_t replicas = g->values.at[sum->in[0]].type.shape.dim[0];
    RowGradient rows = row_gradient(g, sum->in[0]);
    if (!sum->attr[op_attr(OP_replica_sum, "mean")].i) return rows;
    const int share =
        graph_constant(g, (TensorType){.dtype = g->values.at[rows.g].type.dtype}, NULL, 1.0 / (double)replicas, "share", sum->span);
    rows.g = graph_emit(g, OP_mul, (int[]){rows.g, share}, 2, NULL, g->values.at[rows.g].name, sum->span);
    return rows;
}

static RowGradient row_gradient(Graph *g, int gradient) {
    const Node maker = *graph_producer(g, gradient); /* a copy: joining adds nodes */
    if (maker.op == OP_replica_sum) return row_gradient_of_replicas(g, &maker);
    if (maker.op != OP_add) return (RowGradient){of_all_replicas(g, maker.in[0]), of_all_replicas(g, maker.in[1])};
    const RowGradient a = row_gradient(g, maker.in[0]), b = row_gradient(g, maker.in[1]);
    const bool wide = g->values.at[a.index].type.dtype == I64 || g->values.at[b.index].type.dtype == I64;
    const DType dtype = wide ? I64 : I32;
    return (RowGradient){joined(g, a.g, b.g, 1),
                         joined(g, graph_as_type(g, a.index, dtype, maker.span), graph_as_type(g, b.index, dtype, maker.span), 0)};
}

/* Whether a state is updated only in the rows that occur. With sgd the whole gradient would do the same, and this is done where no more rows occur than the table has; lazy_adam differs from adam
 * for rows that do not occur. */
static bool updates_rows(const Graph *g, int state, int gradient) {
    const Settings *settings = &g->settings;
    int64_t rows = 0;
    if (of_rows[settings->optimizer].op == 0 || settings->clip > 0 || settings->grad_norm || settings->noise_scale ||
        settings->precision == F16 || !is_of_rows(g, gradient, &rows))
        return false;
    if (settings->optimizer == OPTIMIZER_LAZY_ADAM) return true;
    return settings->weight_decay * settings_scale(settings, SCALE_DECAY, g->states.at[state].name) == 0 &&
           rows <= g->states.at[state].type.shape.dim[0];
}

static void update_attributes(const Settings *settings, const char *parameter, OpCode op, Attr *attr) {
    const double decay = settings->weight_decay * settings_scale(settings, SCALE_DECAY, parameter);
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"lr", settings->lr * settings_scale(settings, SCALE_LR, parameter)},
                   {"momentum", settings->momentum},
                   {"beta1", settings->beta1},
                   {"beta2", settings->beta2},
                   {"eps", settings->eps},
                   {"eps2", settings->eps2},
                   {"d", settings->d}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (op_attr(op, numbers[i].name) >= 0) attr[op_attr(op, numbers[i].name)] = attr_float(numbers[i].number);
    if (decay != 0 && op_attr(op, "weight_decay") >= 0) attr[op_attr(op, "weight_decay")] = attr_float(decay);
    if (settings->nesterov && op_attr(op, "nesterov") >= 0) attr[op_attr(op, "nesterov")] = (Attr){.given = true, .i = 1};
}

/* The sum of the squares of all elements of a tensor of the parameter. */
static int squares_of(Graph *g, int state, int value) {
    return graph_emit(g, OP_sum_squares, &value, 1, NULL, arena_printf(g->arena, "norm2_%s", g->values.at[value].name),
                      g->states.at[state].span);
}

/* How the arithmetic of an update is emitted, named after the parameter. */
typedef struct Arithmetic {
    Graph *g;
    const LossScale *scale;
    DType dtype;
    Span span;
    const char *name;
} Arithmetic;

static int number(const Arithmetic *a, double value) {
    return graph_constant(a->g, (TensorType){.dtype = a->dtype}, NULL, value, "number", a->span);
}
static int binary(const Arithmetic *a, OpCode op, int x, int y) {
    return graph_emit(a->g, op, (int[]){x, y}, 2, NULL, a->name, a->span);
}
static int unary(const Arithmetic *a, OpCode op, int x) {
    return graph_emit(a->g, op, &x, 1, NULL, a->name, a->span);
}
static int at_least(const Arithmetic *a, int x, double least) {
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr(OP_clamp, "low")] = attr_float(least);
    return graph_emit(a->g, OP_clamp, &x, 1, attr, a->name, a->span);
}
static int mean_along(const Arithmetic *a, int x, int axis) {
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr(OP_mean, "axes")] = (Attr){.given = true, .n = 1, .ints = {axis}};
    attr[op_attr(OP_mean, "keep_dims")] = (Attr){.given = true, .i = 1};
    return graph_emit(a->g, OP_mean, &x, 1, attr, a->name, a->span);
}
/* A slot moves towards a value by a share of the way. */
static int moved(const Arithmetic *a, int slot, int to, int share) {
    const int from = slot_read(a->g, slot);
    const int next = binary(a, OP_add, binary(a, OP_mul, binary(a, OP_sub, to, from), share), from);
    graph_write_state(a->g, slot, loss_scale_keep(a->g, a->scale, next, from, a->span), a->span);
    return next;
}

/* Adafactor's direction: the gradient over the root of an estimate of its square; for a matrix that is the product of the averages of rows and columns. */
static int adafactor_direction(const Arithmetic *a, int state, int gradient, int count) {
    Graph *g = a->g;
    const Settings *settings = &g->settings;
    const int ndim = g->states.at[state].type.shape.ndim;
    const double eps1 = settings->eps > 0 ? settings->eps : a->dtype == F64 ? DBL_EPSILON : FLT_EPSILON;
    const int squares = unary(a, OP_square, gradient); /* first: update_gradient finds the gradient by it */
    const int share = binary(a, OP_pow, count, number(a, settings->beta2_decay));
    int estimate;
    if (ndim > 1) {
        const int row_slot = slot_add(g, state, "row_var", ndim - 1), column_slot = slot_add(g, state, "col_var", ndim - 2);
        const int rows = moved(a, row_slot, mean_along(a, squares, -1), share);
        const int columns = moved(a, column_slot, mean_along(a, squares, -2), share);
        const int product = binary(a, OP_mul, rows, columns);
        estimate = binary(a, OP_div, product, at_least(a, mean_along(a, rows, -2), eps1));
    } else {
        estimate = moved(a, slot_add(g, state, "variance", -1), squares, share);
    }
    return binary(a, OP_mul, gradient, unary(a, OP_rsqrt, at_least(a, estimate, eps1 * eps1)));
}

/* The average of a parameter, as AveragedModel with get_ema_multi_avg_fn keeps it: the first update's result, then a share of the way to each. */
static void average(const Arithmetic *a, int state, int w, int count) {
    Graph *g = a->g;
    const int slot = slot_add(g, state, "ema", -1);
    g->states.at[slot].init = g->states.at[state].init;
    const int first = binary(a, OP_less, count, number(a, 1.5));
    const int either[] = {first, number(a, 1), number(a, 1 - g->settings.ema_decay)};
    moved(a, slot, w, graph_emit(g, OP_where, either, 3, NULL, a->name, a->span));
}

/* The number of this update; -1: nothing takes it. */
static int update_count(Graph *g, const LossScale *scale, UpdateNumbers *numbers, int state, bool counts) {
    const State *of = &g->states.at[state];
    if (!counts) return -1;
    return scale->on ? graph_as_type(g, scale->count, of->type.dtype, of->span) : update_number(g, numbers, of->type.dtype, INPUT_UPDATE);
}

static void update(Graph *g, const LossScale *scale, UpdateNumbers *numbers, int state, int read, int gradient) {
    const Settings *settings = &g->settings;
    const bool by_rows = updates_rows(g, state, gradient);
    const Optimizer *optimizer = by_rows ? &of_rows[settings->optimizer] : &optimizers[settings->optimizer];
    RowGradient rows = {.g = gradient};
    if (by_rows) rows = row_gradient(g, gradient);
    const int count = update_count(g, scale, numbers, state, optimizer->counts || settings->ema), first = g->nodes.n;
    const DType dtype = g->states.at[state].type.dtype;
    const Span span = g->states.at[state].span;
    const char *parameter = g->states.at[state].name, *name = arena_printf(g->arena, "new_%s", parameter),
               *step_name = arena_printf(g->arena, "step_%s", parameter);
    const Arithmetic arithmetic = {g, scale, dtype, span, step_name};
    const bool scheduled = settings->schedule.kind != SCHEDULE_CONSTANT || settings->schedule.warmup > 0;
    const int rate = scheduled ? update_number(g, numbers, dtype, INPUT_RATE) : -1;
    const OpCode ops[] = {optimizer->op, optimizer->last};
    Attr attr[2][MAX_ATTRS] = {{{0}}};
    for (int i = 0; i < 2; i++)
        update_attributes(settings, parameter, ops[i], attr[i]);
    int in[MAX_IN] = {read}, nin = 1, slot[2], w;
    if (optimizer->op == OP_adafactor) {
        const int u = adafactor_direction(&arithmetic, state, gradient, count), of_w = squares_of(g, state, read),
                  of_u = squares_of(g, state, u);
        const int step[] = {read, u, of_w, of_u, count, rate};
        w = graph_emit(g, OP_adafactor, step, scheduled ? 6 : 5, attr[0], name, span);
    } else {
        for (int s = 0; s < optimizer->nslots; s++) {
            slot[s] = slot_add(g, state, optimizer->slot[s], -1);
            in[nin++] = slot_read(g, slot[s]);
        }
        in[nin++] = rows.g;
        if (by_rows) in[nin++] = rows.index;
        if (optimizer->counts) in[nin++] = count;
        if (scheduled && optimizer->last == OP_input) in[nin++] = rate;
        w = graph_emit(g, optimizer->op, in, nin, attr[0], optimizer->last == OP_input ? name : step_name, span);
    }
    const int made = g->values.at[w].node;
    if (optimizer->last != OP_input) {
        const int of_w = squares_of(g, state, read), of_u = squares_of(g, state, w), step[] = {read, w, of_w, of_u, rate};
        w = graph_emit(g, optimizer->last, step, scheduled ? 5 : 4, attr[1], name, span);
    }
    graph_write_state(g, state, loss_scale_keep(g, scale, w, read, span), span);
    for (int s = 0; s < optimizer->nslots; s++)
        graph_write_state(g, slot[s], loss_scale_keep(g, scale, g->nodes.at[made].out[1 + s], in[1 + s], span), span);
    if (settings->ema) average(&arithmetic, state, w, count);
    for (int n = first; n < g->nodes.n; n++)
        if (!node_is_leaf(&g->nodes.at[n])) g->nodes.at[n].update = 1 + state;
}

typedef struct BySize {
    int state;
    int64_t elements;
} BySize;

static int larger_first(const void *a, const void *b) {
    const BySize *x = a, *y = b;
    return x->elements != y->elements ? (x->elements > y->elements ? -1 : 1) : x->state - y->state;
}

/* The sum of the squares of all gradients, -1: there is none. Each gradient is complete here, and its squares are counted once however it is split (assign). The largest come first: what is
 * too small to be split like the others comes last, where it has at most one partial sum to complete. Where gradients are of two element types the sum is f64. */
static int squares_of_all(Graph *g, const int *gradient, int nstates) {
    int sum = -1;
    DType dtype = F32;
    for (int s = 0; s < nstates; s++)
        if (gradient[s] >= 0 && g->values.at[gradient[s]].type.dtype == F64) dtype = F64;
    BySize *order = arena_alloc(g->arena, sizeof *order * (size_t)(nstates + 1));
    int norder = 0;
    for (int s = 0; s < nstates; s++)
        if (gradient[s] >= 0) order[norder++] = (BySize){s, shape_elements(&g->states.at[s].type.shape)};
    qsort(order, (size_t)norder, sizeof *order, larger_first);
    for (int k = 0; k < norder; k++) {
        int s = order[k].state;
        Span span = g->states.at[s].span;
        int squares = graph_emit(g, OP_sum_squares, &gradient[s], 1, NULL, arena_printf(g->arena, "norm2_%s", g->states.at[s].name), span);
        squares = graph_as_type(g, squares, dtype, span);
        sum = sum < 0 ? squares : graph_emit(g, OP_add, (int[]){sum, squares}, 2, NULL, "norm2", span);
    }
    return sum;
}

/* The gradient of every state, scaled down together so that their norm is at most settings.clip: PyTorch's clip_grad_norm_. */
static void clip_gradients(Graph *g, int *gradient, int nstates, int squares) {
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr(OP_clip, "norm")] = attr_float(g->settings.clip);
    for (int s = 0; s < nstates; s++) {
        if (gradient[s] < 0) continue;
        Span span = g->states.at[s].span;
        int own = graph_as_type(g, squares, g->values.at[gradient[s]].type.dtype, span);
        gradient[s] =
            graph_emit(g, OP_clip, (int[]){gradient[s], own}, 2, attr, arena_printf(g->arena, "clipped_%s", g->states.at[s].name), span);
    }
}

bool gradient_changes(const Graph *g, const Node *node) {
    return (node->op == OP_compress || node->op == OP_cast || node->op == OP_mul) && g->nodes.at[node->origin].op == OP_read;
}

bool gradient_is_whole(const Graph *g, const Node *node) {
    return (node->update > 0 && node->op != OP_write) || node->op == OP_clip || node->op == OP_sum_squares || gradient_changes(g, node);
}

/* The gradient as the backward pass made it. */
static int unchanged(const Graph *g, int gradient) {
    while (gradient_changes(g, graph_producer(g, gradient)))
        gradient = graph_producer(g, gradient)->in[0];
    return gradient;
}

/* Adds an operator on one number per replica; its replicas lie as those that node `replicate` makes of a parameter. */
static int along_replicas(Graph *g, int replicate, OpCode op, const int *in, int nin, const Attr *attr, const char *name) {
    const int value = graph_emit(g, op, in, nin, attr, name, g->nodes.at[replicate].span);
    Node *node = &g->nodes.at[g->values.at[value].node];
    node->origin = replicate;
    memset(node->origin_factor, -1, sizeof node->origin_factor);
    node->origin_factor[node->rule->in[0][0]] = g->nodes.at[replicate].rule->out[0][0];
    return value;
}

/* The squared norms of the replicas' own gradients: their sum over the replicas, or mean, as gradients are. */
static int squares_of_replicas(Graph *g, const int *gradient, int nstates) {
    int sum = -1, replicate = -1;
    for (int s = 0; s < nstates; s++) {
        if (gradient[s] < 0) continue;
        const Node added = *graph_producer(g, unchanged(g, gradient[s])); /* a copy: what follows adds nodes */
        assert(added.op == OP_replica_sum && g->nodes.at[added.origin].op == OP_replicate);
        replicate = added.origin;
        const int part = PART_OUT,
                  own = graph_emit_gradient(g, replicate, OP_sum_squares, added.in, &part, 1, PART_NONE, NULL, "replicas.norm2");
        sum = sum < 0 ? own : along_replicas(g, replicate, OP_add, (int[]){sum, own}, 2, NULL, "replicas.norm2");
    }
    const Attr mean[MAX_ATTRS] = {{.given = true, .i = g->settings.gradients_mean}};
    return along_replicas(g, replicate, OP_replica_sum, &sum, 1, mean, "replica_norm2");
}

/* Computes the gradients' norm: it is reported, clips them, and says whether the loss's scale was too large. */
static void measure_gradients(Graph *g, LossScale *scale, int *gradient, int nstates) {
    if (!g->settings.grad_norm && g->settings.clip == 0 && !scale->on) return;
    const int squares = squares_of_all(g, gradient, nstates);
    if (squares < 0) return;
    if (scale->on) loss_scale_check(g, scale, squares);
    if (g->settings.grad_norm) {
        const Span span = graph_producer(g, squares)->span;
        const int norm = graph_emit(g, OP_sqrt, &squares, 1, NULL, "grad_norm", span);
        vec_push(g->arena, &g->reports, ((Report){.name = "grad_norm", .value = norm, .whole = true, .span = span}));
    }
    if (g->settings.noise_scale) {
        const int of_replicas = squares_of_replicas(g, gradient, nstates);
        vec_push(g->arena, &g->reports, ((Report){.name = "replica_norm2", .value = of_replicas, .whole = true}));
    }
    if (g->settings.clip > 0) clip_gradients(g, gradient, nstates, squares);
}

/* A gradient in another element type: `op` says whether its terms are converted, or their sum. */
static int gradient_as(Graph *g, OpCode op, int read, int gradient, DType dtype, const char *what) {
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr(op, "to")] = (Attr){.given = true, .text = dtype_name[dtype]};
    return graph_emit_gradient(g, g->values.at[read].node, op, &gradient, (int[]){PART_OUT}, 1, PART_OUT, attr,
                               arena_printf(g->arena, "%s_%s", what, g->values.at[read].name));
}

/* Has ranks add up gradients in fewer bits, and widens them afterwards. All are narrow before the first one is widened, so that they can be communicated together. */
static void compress_gradients(Graph *g, const int *read, int *gradient, int nstates) {
    bool *narrow = arena_alloc(g->arena, (size_t)nstates + 1);
    for (int s = 0; s < nstates; s++) {
        narrow[s] = gradient[s] >= 0 && g->settings.compress != F32 && !updates_rows(g, s, gradient[s]);
        if (narrow[s]) gradient[s] = gradient_as(g, OP_compress, read[s], gradient[s], g->settings.compress, "compressed");
    }
    for (int s = 0; s < nstates; s++)
        if (narrow[s]) gradient[s] = gradient_as(g, OP_cast, read[s], gradient[s], g->states.at[s].type.dtype, "reduced");
}

int update_gradient(const Graph *g, const Node *update) {
    const int direction = op_in(update->op, "u"); /* of an update in two steps the first has the gradient */
    if (direction >= 0) return update_gradient(g, graph_producer(g, update->in[direction]));
    int gradient = update->in[op_in(update->op, "g") >= 0 ? op_in(update->op, "g")
                                                          : 0]; /* adafactor's direction is it, times an estimate; its squares */
    if (graph_producer(g, gradient)->op == OP_clip) gradient = graph_producer(g, gradient)->in[0];
    return unchanged(g, gradient);
}

/* The gradient of a state: the sum over all reads of it. *read: the first of these. -1: the loss does not depend on the state. */
static int state_gradient(Graph *g, const int *grad, int state, const int *first_read, const int *next_read, int *read) {
    int sum = -1;
    for (int n = first_read[state]; n >= 0; n = next_read[n]) {
        int value = g->nodes.at[n].out[0];
        if (grad[value] < 0) continue;
        if (sum < 0) {
            *read = value;
            sum = grad[value];
        } else {
            sum = graph_emit_gradient(g, n, OP_add, (int[]){sum, grad[value]}, (int[]){PART_OUT, PART_OUT}, 2, PART_OUT, NULL,
                                      arena_printf(g->arena, "d_%s", g->states.at[state].name));
        }
    }
    return sum;
}

/* Adds gradients and updates. writes: becomes what all batches together write. */
static void differentiate(Graph *g, const Writes *writes) {
    if (g->loss < 0 || g->settings.optimizer == OPTIMIZER_NONE) return;
    int nstates = g->states.n;
    Gradients grads = {0};
    LossScale scale;
    gradients_grow(g, &grads);
    active_values(g, grads.active);
    if (!grads.active[g->loss]) return;
    loss_scale_begin(g, &scale, optimizers[g->settings.optimizer].counts || g->settings.ema);
    enum { TIMES = 5 }; /* nodes that become of one, hardly ever more */
    if (g->nodes.n < INT_MAX / TIMES && g->values.n < INT_MAX / TIMES) {
        vec_reserve(g->arena, &g->nodes, TIMES * g->nodes.n);
        vec_reserve(g->arena, &g->values, TIMES * g->values.n);
    }
    if (g->settings.accumulate > 1 && graph_varies(g)[g->values.at[g->loss].node])
        backward_of_batches(g, &scale, &grads, (int)g->settings.accumulate, writes);
    else
        backward_once(g, &scale, &grads);
    graph_origins_follow(g);

    int *first_read = arena_alloc(g->arena, sizeof *first_read * (size_t)(nstates + 1));
    int *next_read = arena_alloc(g->arena, sizeof *next_read * (size_t)(g->nforward + 1));
    for (int s = 0; s < nstates; s++)
        first_read[s] = -1;
    for (int n = g->nforward - 1; n >= 0; n--) {
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_read) {
            next_read[n] = first_read[node->state];
            first_read[node->state] = n;
        }
    }
    int *gradient = arena_alloc(g->arena, sizeof *gradient * (size_t)(nstates + 1)),
        *read = arena_alloc(g->arena, sizeof *read * (size_t)(nstates + 1));
    for (int s = 0; s < nstates; s++)
        gradient[s] = g->states.at[s].trainable ? state_gradient(g, grads.sum, s, first_read, next_read, &read[s]) : -1;
    compress_gradients(g, read, gradient, nstates);
    for (int s = 0; s < nstates; s++)
        if (gradient[s] >= 0) gradient[s] = loss_scale_remove(g, &scale, read[s], gradient[s]);
    measure_gradients(g, &scale, gradient, nstates);
    UpdateNumbers numbers = {0};
    for (int s = 0; s < nstates; s++)
        if (gradient[s] >= 0) update(g, &scale, &numbers, s, read[s], gradient[s]);
    loss_scale_end(g, &scale);
}

void graph_differentiate(Graph *g) {
    const Writes writes = take_writes(g);
    g->nforward = g->nodes.n;
    differentiate(g, &writes);
    for (int i = 0; i < writes.n; i++)
        graph_write_state(g, writes.at[i].state, writes.at[i].value, writes.at[i].span);
}

bool pass_autodiff(Build *b) {
    graph_differentiate(&b->front.graph);
    return true;
}
