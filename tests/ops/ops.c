/* Walks the operator table. Every operator of the language, with every strategy that it may have on 2, 3, 4, 6 and 8 ranks, on even and
 * uneven sizes: its result and its gradients are what one rank computes. The number of strategies is compared with a count made here, and
 * gradients with finite differences.
 *
 * The net around an operator is   loss sum(op(a, b) * c)   with a, b and c parameters and learning rate 1, so one step leaves a - da, b -
 * db and c - op(a, b): results and gradients, all elements of them, are read off the parameters. Operators that take integers are tried with those at the
 * ends of their range too: a and b are constants then, and the result is read in two parts, its low bits and as a real. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/net.h"

/* Attributes to try beside none at all. An operator that is not here is tried without. */
typedef struct Variant {
    OpCode op;
    const char *attrs;
    const char *samples; /* instead of the table's; NULL: the table's */
} Variant;
static const Variant variants[] = {
    {OP_matmul, "", NULL},
    {OP_matmul, ", transpose_a = true", "6x8, 6x4; 2x5x7, 2x5x3"},
    {OP_matmul, ", transpose_b = true", "8x6, 4x6; 7x5, 3x5"},
    {OP_matmul, ", transpose_a = true, transpose_b = true", "6x8, 4x6; 5x7, 3x5"},
    {OP_sum, "", NULL},
    {OP_sum, ", axes = 0", NULL},
    {OP_sum, ", axes = [0, 1], keep_dims = true", NULL},
    {OP_mean, "", NULL},
    {OP_mean, ", axes = -1", NULL},
    {OP_mean, ", axes = 0, keep_dims = true", NULL},
    {OP_transpose, "", NULL},
    {OP_transpose, ", perm = [1, 2, 0]", "4x6x3; 5x2x7"},
    {OP_reshape, ", shape = [-1]", NULL},
    {OP_reshape, ", shape = [2, 4, 6]", "8x6"},
    {OP_reshape, ", shape = [12, 6]", "4x3x6; 6x2x6"},
    {OP_max, "", NULL},
    {OP_max, ", axes = 0", NULL},
    {OP_max, ", axes = [0, -1], keep_dims = true", NULL},
    {OP_min, "", NULL},
    {OP_min, ", axes = 0", NULL},
    {OP_min, ", axes = [0, -1], keep_dims = true", NULL},
    {OP_clamp, ", low = -3, high = 2147483646", NULL},
    {OP_clamp, ", low = -0.25, high = 0.5", NULL},
    {OP_clamp, ", low = 0.1", "7x5"},
    {OP_clamp, ", high = 0", "7x5"},
    {OP_slice, ", begin = [2, 0], end = [5, 6]", "8x6"},
    {OP_slice, ", begin = [-6, 1], end = [7, -1]", "7x5"},
    {OP_slice, ", begin = [0, 1, 0], end = [4, 2, 3]", "4x6x3"},
    {OP_slice, ", begin = [1, 0, 1, 0], end = [-1, 2, -1, 2]", "4x3x4x2"},
    {OP_concat, "", NULL},
    {OP_concat, ", axis = -1", "8x6, 8x1; 7x5, 7x2, 7x5, 7x1"},
    {OP_concat, ", axis = 1", "4x1x3, 4x6x3"},
    {OP_split, ", parts = 2", "8x6"},
    {OP_split, ", parts = 3, axis = 1", "7x6; 4x6x3"},
    {OP_split, ", parts = 1, axis = -1", "7x5"},
    {OP_gelu, "", NULL},
    {OP_gelu, ", tanh = true", NULL},
    {OP_log_softmax, "", NULL},
    {OP_log_softmax, ", axis = 0", "8x6; 7x5"},
    {OP_softmax, "", NULL},
    {OP_softmax, ", axis = 0", "8x6; 7x5"},
    {OP_softmax, ", axis = 1", "4x6x3"},
    {OP_layer_norm, ", eps = 0.1", NULL},
    {OP_rms_norm, ", eps = 0.01", NULL},
    {OP_batch_norm, ", eps = 0.1", NULL},
    {OP_rope, "", NULL},
    {OP_rope, ", base = 100, inverse = true", "7x6; 3x5x2"},
    {OP_dot_product_attention, "", NULL},
    {OP_dot_product_attention, ", causal = true", "4x6x3, 4x5x3, 4x5x2; 6x2, 8x2, 8x3"},
    {OP_dot_product_attention, ", scale = 0.5", "3x2x4x3, 3x5x3, 3x5x2, 3x1x4x5; 7x3, 5x3, 5x2, 7x5"},
    {OP_dot_product_attention, ", causal = true", "2x2x4x3, 2x4x3, 2x4x2, 1x4"},
    {OP_mse, "", "8x6, 8x6; 7x5, 7x5"},
    {OP_mse, ", reduction = sum", "8x6, 8x6; 7x5, 7x5"},
    {OP_bce_with_logits, "", NULL},
    {OP_bce_with_logits, ", reduction = sum", "7x5, 7x5"},
    {OP_bce_with_logits, ", reduction = none", "8x6, 8x6; 4x6x3, 4x6x3"},
    {OP_cast, ", to = f64", NULL},
    {OP_cast, ", to = i64", "8x6"},
    {OP_cast, ", to = bool", "7x5"},
    {OP_first, "", NULL},
    {OP_first, ", axis = 0", "8x6; 7x5"},
    {OP_argmax, "", NULL},
    {OP_argmax, ", axis = 0", "8x6; 7x5"},
    {OP_one_hot, ", depth = 5, to = f64", NULL},
    {OP_one_hot, ", depth = 6, to = i64", "8"},
    {OP_cross_entropy, "", NULL},
    {OP_cross_entropy, ", reduction = sum", "8x6, 8; 7x5, 7"},
    {OP_cross_entropy, ", reduction = none", "8x6, 8; 7x5, 7"},
    {OP_cross_entropy, ", ignore_index = 2", "8x6, 8; 7x5, 7; 4x6x3, 4x6"},
    {OP_cross_entropy, ", ignore_index = 1, label_smoothing = 0.25, reduction = none", "8x6, 8"},
    {OP_cross_entropy, ", label_smoothing = 0.1", NULL},
    {OP_gather, "", NULL},
    {OP_gather, ", axis = 0", "8x6, 3x6; 5x7, 4x7; 7x5, 9"},
    {OP_gather, ", axis = 1", "4x6x3, 4x5x3; 2x5x6, 2x7"},
    {OP_scatter_add, "", NULL},
    {OP_scatter_add, ", axis = 0", "8x6, 3x6, 3x6; 7x5, 9, 9x5"},
    {OP_scatter_add, ", axis = -2", "4x6x3, 4x5x3, 4x5x3; 2x5x6, 2x7, 2x7x6"},
    {OP_cumsum, "", NULL},
    {OP_cumsum, ", axis = 0, reverse = true", "8x6; 7x5"},
    {OP_cumsum, ", axis = 1, exclusive = true", "4x6x3"},
    {OP_cumsum, ", exclusive = true, reverse = true", "7x5"},
    {OP_topk, ", k = 2", NULL},
    {OP_topk, ", k = 5", "8x6; 7x5"},
    {OP_stack, "", NULL},
    {OP_stack, ", axis = 1", "8x6, 8x6, 8x6; 4x6x3, 4x6x3"},
    {OP_stack, ", axis = -1", "7x5, 7x5"},
    {OP_conv2d, "", NULL},
    {OP_conv2d, ", stride = 2, padding = [1, 0]", "3x2x5x4, 4x2x3x2"},
    {OP_conv2d, ", stride = [1, 3], padding = 2, dilation = [2, 1]", "2x3x4x5, 2x3x2x3"},
    {OP_conv2d, ", groups = 2, padding = 1", "3x4x3x3, 6x2x3x3"},
    {OP_conv2d, ", groups = 6", "2x6x3x2, 6x1x2x2"},
    {OP_max_pool, ", kernel_size = 2", NULL},
    {OP_max_pool, ", kernel_size = 3, stride = 2, padding = 1", "4x3x5x4"},
    {OP_max_pool, ", kernel_size = [2, 3], stride = 1, padding = [0, 1], dilation = [2, 1]", "6x5x4"},
    {OP_max_pool, ", kernel_size = 2, ceil_mode = true", "3x2x5x3"},
    {OP_avg_pool, ", kernel_size = 2", NULL},
    {OP_avg_pool, ", kernel_size = 3, stride = 2, padding = 1", "4x3x5x4"},
    {OP_avg_pool, ", kernel_size = [3, 2], stride = 1, padding = 1, count_include_pad = false", "3x5x4"},
    {OP_avg_pool, ", kernel_size = [3, 2], stride = 1, divisor_override = 5", "3x5x4"},
    {OP_pad, ", before = [0, 2], after = [0, 1]", NULL},
    {OP_pad, ", before = [1, 0, 0], after = [0, 0, 3]", "4x6x3"},
    {OP_pad, ", before = [7, 0], after = [1, 9]", "7x5; 8x3"}, /* parts of zeros alone */
    {OP_upsample, ", scale_factor = 2", NULL},
    {OP_upsample, ", scale_factor = [3, 1]", "4x3x2"},
    {OP_upsample, ", scale_factor = [2, 3]", "7x5"}, /* parts that are no multiples of the factor */
};

static const int rank_counts[] = {2, 3, 4, 6, 8};
enum { NRANK_COUNTS = sizeof rank_counts / sizeof *rank_counts };

static bool executed[NOPS]; /* a kernel of this operator ran on a part of a tensor */

/* One sample: "8x6, 6x4" -> operand sizes. Advances *at past "; ". */
static int read_sample(const char **at, Shape *shapes) {
    int n = 0;
    while (**at && **at != ';') {
        Shape *shape = &shapes[n++];
        for (shape->ndim = 0;; (*at)++) {
            char *end;
            shape->dim[shape->ndim++] = strtol(*at, &end, 10);
            *at = end;
            if (*end != 'x') break;
        }
        while (**at == ',' || **at == ' ')
            (*at)++;
    }
    while (**at == ';' || **at == ' ')
        (*at)++;
    return n;
}

/* How many results the operator has with these attributes: what the text says after "parts = ". */
static int count_results(OpCode op, const char *attrs) {
    const char *parts = strstr(attrs, "parts = ");
    return op_table[op].divided && parts ? atoi(parts + strlen("parts = ")) : op_named(op, op_nout(op));
}

/* What the operator takes indices of. */
static int64_t index_range(OpCode op, const char *attrs, const Shape *shapes, int n) {
    const char *depth = strstr(attrs, "depth = "), *axis = strstr(attrs, "axis = ");
    Attr attr[MAX_ATTRS] = {{.given = depth != NULL, .i = depth ? atoi(depth + strlen("depth = ")) : 0}};
    if (axis) attr[op_attr(op, "axis")] = (Attr){.given = true, .i = atoi(axis + strlen("axis = "))};
    TensorType in[MAX_IN];
    Rule rule;
    for (int i = 0; i < n; i++)
        in[i] = (TensorType){.dtype = op_type(op, false, i) == 'i' ? I32 : F64, .shape = shapes[i]};
    cr_assert(rule_infer(op, in, n, attr, &rule, NULL), "%s", op_table[op].name);
    return rule.index_range;
}

/* Element i of a constant. */
typedef int64_t ElementFn(int64_t i, int64_t range);

static int64_t index_at(int64_t i, int64_t range) {
    return (i * 7 + 2) % range;
}

/* Where overflow begins, and numbers that may be an index. */
static int64_t i64_at(int64_t i, int64_t range) {
    static const int64_t ends[] = {INT64_MAX, 1,  INT64_MIN,     0,          -1, INT64_MAX - 1, 2, INT64_MIN + 1, INT64_MAX / 2 + 1,
                                   3,         -2, INT64_MAX / 3, 3037000500, -4};
    return (void)range, ends[(i * 5 + i / 3) % (int64_t)(sizeof ends / sizeof *ends)];
}
static int64_t i32_at(int64_t i, int64_t range) {
    static const int64_t ends[] = {INT32_MAX, 1,  INT32_MIN,     0,     -1, INT32_MAX - 1, 2, INT32_MIN + 1, INT32_MAX / 2 + 1,
                                   3,         -2, INT32_MAX / 3, 46341, -4};
    return (void)range, ends[(i * 5 + i / 3) % (int64_t)(sizeof ends / sizeof *ends)];
}
/* i64_at is high * 2^32 + low: a literal has at most 53 bits. */
static int64_t low_at(int64_t i, int64_t range) {
    return i64_at(i, range) & UINT32_MAX;
}
static int64_t high_at(int64_t i, int64_t range) {
    return (i64_at(i, range) - low_at(i, range)) / (INT64_C(1) << 32);
}

/* The rest of a declaration: "[2, 3] = [[0, 3, 1], [4, 2, 5]];". */
static void integers_text(Text *text, const Shape *shape, ElementFn *element, int64_t range) {
    if (shape->ndim > 0) shape_print(text, shape);
    text_printf(text, " = ");
    for (int64_t i = 0, n = shape_elements(shape); i < n; i++) {
        int64_t block = 1;
        text_printf(text, "%s", i ? ", " : "");
        for (int d = shape->ndim - 1; d >= 0; d--)
            if (i % (block *= shape->dim[d]) == 0) text_printf(text, "[");
        text_printf(text, "%lld", (long long)element(i, range));
        block = 1;
        for (int d = shape->ndim - 1; d >= 0; d--)
            if ((i + 1) % (block *= shape->dim[d]) == 0) text_printf(text, "]");
    }
    text_printf(text, ";\n");
}

/* Whether its result is one of the net's reals: what its types say, and the attribute to. */
static bool gives_reals(OpCode op, const char *attrs) {
    char letter = op_type(op, true, 0);
    return letter == 't' || (letter == 'a' && strstr(attrs, "to = f64"));
}

/* The net around an operator; shard: " shard (...)" or "". Operands away from the kinks and poles of log, sqrt, div. A composite has no
 * strategy of its own: what computes its first operand has it, and mode auto carries it on. */
static void net_text(Text *text, OpCode op, const char *attrs, const Shape *shapes, int n, const Shape *result, const char *shard) {
    int nresults = count_results(op, attrs);
    const char *range = op_table[op].domain == DOMAIN_POSITIVE ? "uniform(0.5, 2)" : "uniform(-1, 1)";
    text_printf(text, "net t() {\n");
    for (int i = 0; i <= n; i++) {
        const Shape *shape = i < n ? &shapes[i] : result;
        char letter = i < n ? op_type(op, false, i) : 't';
        if (letter != 't') {
            text_printf(text, "const %c : %s", 'a' + i, letter == 'b' ? "bool" : i ? "i32" : "i64");
            integers_text(text, shape, index_at, letter == 'b' ? 2 : index_range(op, attrs, shapes, n));
            continue;
        }
        text_printf(text, "param %c : f64", i < n ? 'a' + i : 'r');
        if (shape->ndim > 0) shape_print(text, shape);
        text_printf(text, " = %s;\n", range);
    }
    bool composite = op_table[op].expand != NULL && !op_table[op].as_one;
    if (composite) text_printf(text, "h = -a%s;\n", shard);
    /* Of several results the last of three or more is used by nobody. */
    for (int o = 0; o < nresults; o++)
        text_printf(text, o ? ", y%d" : "y", o);
    text_printf(text, " = %s(%c", op_table[op].name, composite ? 'h' : 'a');
    for (int i = 1; i < n; i++)
        text_printf(text, ", %c", 'a' + i);
    text_printf(text, "%s)%s;\nloss sum(%s * r)", attrs, composite ? "" : shard, gives_reals(op, attrs) ? "y" : "cast(y, to = f64)");
    for (int o = 1; o < nresults - (nresults > 2); o++)
        text_printf(text, op_type(op, true, o) == 't' ? " + sum(y%d * y%d)" : " + sum(cast(y%d * y%d, to = f64))", o, o);
    text_printf(text, ";\n}\n");
    /* Slots begin at 0: the first step of both optimizers is w - lr g. */
    const char *optimizer = op % 2 ? "sgd(lr = 1.0)" : "momentum(lr = 1.0, momentum = 0.5)";
    text_printf(text, "train { optimizer = %s; epochs = 1; steps = 1; }\nparallel { mode = %s; }\n", optimizer,
                composite ? "auto" : "semi_auto");
}

/* Whether operand i is of integers in a net of these. */
static bool takes_integers(OpCode op, int i) {
    char letter = op_type(op, false, i);
    return letter == 'i' || (letter == 't' && op_table[op].dtypes & 1 << I32);
}

static void integer_operand(Text *text, char name, const Shape *shape, DType dtype) {
    static const char *const part[] = {"low", "high"};
    for (int p = 0; p < (dtype == I64 ? 2 : 1); p++) {
        text_printf(text, "const %c_%s : %s", name, part[p], dtype_name[dtype]);
        integers_text(text, shape, dtype == I32 ? i32_at : p ? high_at : low_at, 0);
    }
    /* Computed, as an index that is written must be in range. */
    text_printf(text, dtype == I64 ? "%c = %c_high * 4294967296 + %c_low;\n" : "%c = %c_low + 0;\n", name, name, name);
}

/* The same with integers of this type: r is minus the low bits of the result, q minus the result as a real. What they are multiplied by has no gradient, so
 * both begin at 0 and hold all bits. */
static void integer_net_text(Text *text, OpCode op, const char *attrs, const Shape *shapes, int n, const Shape *result, DType dtype,
                             const char *shard) {
    int nresults = count_results(op, attrs);
    bool composite = op_table[op].expand != NULL && !op_table[op].as_one,
         reals = op_type(op, true, 0) == 't' && !(op_table[op].dtypes & 1 << I32);
    text_printf(text, "net t() {\n");
    for (int o = 0; o < nresults; o++)
        for (int q = 0; q < 2; q++) {
            text_printf(text, "param %c%d : f64", q ? 'q' : 'r', o);
            if (result->ndim > 0) shape_print(text, result);
            text_printf(text, " = zeros;\n");
        }
    for (int i = 0; i < n; i++) {
        char name = (char)('a' + i);
        if (takes_integers(op, i)) {
            integer_operand(text, name, &shapes[i], dtype);
            continue;
        }
        bool condition = op_type(op, false, i) == 'b';
        text_printf(text, condition ? "const %c : bool" : "param %c : f64", name);
        if (condition) {
            integers_text(text, &shapes[i], index_at, 2);
            continue;
        }
        if (shapes[i].ndim > 0) shape_print(text, &shapes[i]);
        text_printf(text, " = uniform(-1, 1);\n");
    }
    if (composite) text_printf(text, "h = -a%s;\n", shard);
    for (int o = 0; o < nresults; o++)
        text_printf(text, o ? ", y%d" : "y", o);
    text_printf(text, " = %s(%c", op_table[op].name, composite ? 'h' : 'a');
    for (int i = 1; i < n; i++)
        text_printf(text, ", %c", 'a' + i);
    text_printf(text, "%s)%s;\nloss 0.0", attrs, composite ? "" : shard);
    for (int o = 0; o < nresults; o++) {
        char y[24] = "y";
        if (o > 0) snprintf(y, sizeof y, "y%d", o);
        if (reals)
            text_printf(text, " + sum(%s * r%d)", y, o);
        else
            text_printf(text, " + sum(cast(cast(%s, to = i32), to = f64) * r%d) + sum(cast(%s, to = f64) * q%d)", y, o, y, o);
    }
    text_printf(text, ";\n}\ntrain { optimizer = sgd(lr = 1.0); epochs = 1; steps = 1; }\nparallel { mode = %s; }\n",
                composite ? "auto" : "semi_auto");
}

static void any_net_text(Text *text, OpCode op, const char *attrs, const Shape *shapes, int n, const Shape *result, DType dtype,
                         const char *shard) {
    if (dtype_is_float(dtype))
        net_text(text, op, attrs, shapes, n, result, shard);
    else
        integer_net_text(text, op, attrs, shapes, n, result, dtype, shard);
}

static const Node *find_node(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->nodes.n; i++)
        for (int o = 0; o < graph->nodes.at[i].nout; o++)
            if (strcmp(graph->values.at[graph->nodes.at[i].out[o]].name, name) == 0) return &graph->nodes.at[i];
    return NULL;
}

/* The strategies of a rule by trying all tuples of divisors: those with the product n; the largest divisor of nranks that has any. */
static int64_t count_tuples(const Rule *rule, int factor, int64_t left) {
    if (factor == rule->nfactors) return left == 1;
    int64_t count = 0;
    const Factor *f = &rule->factor[factor];
    for (int64_t split = 1; split <= left; split++)
        if (left % split == 0 && split <= f->size && (split == 1 || !f->whole) && (!f->divides || f->size % split == 0))
            count += count_tuples(rule, factor + 1, left / split);
    return count;
}

static int64_t count_strategies(const Rule *rule, int nranks) {
    for (int used = nranks;; used--) {
        int64_t count = nranks % used == 0 ? count_tuples(rule, 0, used) : 0;
        if (count > 0) return count;
    }
}

/* The graph before passes: operators as written. */
static bool lower(Net *net, const char *text) {
    memset(net, 0, sizeof *net);
    arena_init(&net->arena);
    diags_init(&net->diags, &net->arena);
    graph_init(&net->plan.graph, &net->arena);
    Overrides overrides = {.nranks = 1};
    return frontend_compile("net.dsl", text, strlen(text), &overrides, &net->plan.graph, &net->arena, &net->diags);
}

static void note_executed(const Net *net) {
    const Role *role = &net->plan.programs.at[0].roles.at[0];
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind != STEP_KERNEL) continue;
        for (int i = 0; i < step->nin; i++)
            if (!layout_is_whole(role->instances.at[step->in[i]].layout)) executed[step->op] = true;
        if (!layout_is_whole(role->instances.at[step->out[0]].layout)) executed[step->op] = true;
    }
}

static void compare_states(Net *one, Net *many, const char *what) {
    for (int s = 0; s < one->plan.graph.states.n; s++) {
        const State *state = &one->plan.graph.states.at[s];
        double *expected = net_values(one, state->name), *actual = net_values(many, state->name);
        cr_assert(expected && actual, "%s: %s", what, many->error.text);
        for (int64_t i = 0, n = shape_elements(&state->type.shape); i < n; i++)
            cr_assert(fabs(actual[i] - expected[i]) <= 1e-11 * (1 + fabs(expected[i])), "%s\n%s[%lld] is %.17g, one rank has %.17g", what,
                      state->name, (long long)i, actual[i], expected[i]);
    }
    cr_assert_float_eq(net_loss(many), net_loss(one), 1e-11 * (1 + fabs(net_loss(one))), "%s\nloss", what);
}

static void run_step(Net *net, const char *text, int nranks, int replicas, int optimize) {
    cr_assert(net_open(net, text, nranks, replicas, optimize), "%d ranks, -O%d: %s\n%s", nranks, optimize, net->error.text, text);
    cr_assert(executor_step(net->executor, 1, 1, &net->error), "%d ranks, -O%d: %s\n%s", nranks, optimize, net->error.text, text);
}

/* PCC_OPS_EVERY=5: each fifth strategy is tried, others in each net; for devices that are slow to open. */
static int one_of(void) {
    const char *every = getenv("PCC_OPS_EVERY");
    int n = every ? atoi(every) : 1;
    return n < 1 ? 1 : n;
}

/* All strategies of one operator on one sample; returns their number. */
static int64_t try_strategies(OpCode op, const char *attrs, const Shape *shapes, int n, DType dtype) {
    Text text = {0};
    Net parsed, one;
    Shape result;
    /* The result's shape: that of a net whose last parameter broadcasts to anything. */
    any_net_text(&text, op, attrs, shapes, n, &(Shape){0}, dtype, "");
    if (!lower(&parsed, text.at)) {
        cr_assert(!dtype_is_float(dtype), "%s", text.at); /* attributes of reals */
        text_finish(&text);
        arena_finish(&parsed.arena);
        return 0;
    }
    const Node *node = find_node(&parsed.plan.graph, "y");
    cr_assert(node);
    result = node->rule->result[0].shape;
    if (op_table[op].expand && !op_table[op].as_one) node = find_node(&parsed.plan.graph, "h");
    text_finish(&text);
    text = (Text){0};
    any_net_text(&text, op, attrs, shapes, n, &result, dtype, "");
    run_step(&one, text.at, 1, 0, 2);
    text_finish(&text);
    int64_t tried = 0;
    for (int c = 0; c < NRANK_COUNTS; c++) {
        int nranks = rank_counts[c];
        parsed.plan.graph.nranks = nranks;
        Candidates all = candidates(node, nranks, &parsed.arena);
        cr_assert_eq(all.n, count_strategies(node->rule, nranks), "%s on %d ranks: %d candidates, there are %lld strategies",
                     op_table[op].name, nranks, all.n, (long long)count_strategies(node->rule, nranks));
        cr_assert_eq(all.n, candidates_count(node, nranks));
        for (int k = c % one_of(); k < all.n; k += one_of()) {
            Text hint = {0}, net = {0};
            Net many;
            text_printf(&hint, " shard ");
            cr_assert(strategy_print(&hint, node, &parsed.plan.graph, &all.at[k]), "%s: no tuple says candidate %d", op_table[op].name, k);
            any_net_text(&net, op, attrs, shapes, n, &result, dtype, hint.at);
            run_step(&many, net.at, nranks, 0, k % 3);
            note_executed(&many);
            Text what = {0};
            text_printf(&what, "%d ranks, -O%d\n%s", nranks, k % 3, net.at);
            compare_states(&one, &many, what.at);
            text_finish(&what);
            net_close(&many);
            text_finish(&hint);
            text_finish(&net);
            tried++;
        }
    }
    net_close(&one);
    arena_finish(&parsed.arena);
    return tried;
}

static int64_t try_reals(OpCode op, const char *attrs, const Shape *shapes, int n) {
    return try_strategies(op, attrs, shapes, n, F64);
}
static int64_t try_i32(OpCode op, const char *attrs, const Shape *shapes, int n) {
    return try_strategies(op, attrs, shapes, n, I32);
}
static int64_t try_i64(OpCode op, const char *attrs, const Shape *shapes, int n) {
    return try_strategies(op, attrs, shapes, n, I64);
}

typedef int64_t SampleFn(OpCode op, const char *attrs, const Shape *shapes, int n);

static int64_t each_sample(OpCode op, SampleFn *fn) {
    int64_t sum = 0;
    bool listed = false;
    for (size_t v = 0; v <= sizeof variants / sizeof *variants; v++) {
        bool is_last = v == sizeof variants / sizeof *variants;
        const Variant *variant = is_last ? &(Variant){op, "", NULL} : &variants[v];
        if (variant->op != op || (is_last && listed)) continue;
        listed = true;
        const char *at = variant->samples ? variant->samples : op_table[op].samples;
        cr_assert(at, "%s has no samples", op_table[op].name);
        while (*at) {
            Shape shapes[MAX_IN];
            int n = read_sample(&at, shapes);
            sum += fn(op, variant->attrs, shapes, n);
        }
    }
    return sum;
}

/* Modes data_parallel and manual, and the optimizers: the operators that no one writes. */
static void try_replicas(void) {
    static const char *const net =
        "net t() { input x : f64[6, 4]; input label : f64[6, 3]; param w : f64[4, 3] = uniform(-1, 1); param b : f64[3] = uniform(-1, 1);\n"
        "loss mse(tanh(matmul(x, w) + b), label); }\n"
        "train { data = numpy_rand(seed = 3); optimizer = %s; epochs = 1; steps = 2; }\n"
        "parallel { mode = %s; }\n";
    static const char *const optimizers[] = {"sgd(lr = 0.5)", "momentum(lr = 0.5, momentum = 0.9)",
                                             "adam(lr = 0.1, eps = 0.01); clip = norm(0.5)",
                                             "adamw(lr = 0.1, eps = 0.01); schedule = linear"},
                             *const modes[] = {"data_parallel; gradients = mean", "data_parallel; gradients = sum", "manual"};
    for (int o = 0; o < 4; o++)
        for (int m = 0; m < (o == 0 ? 3 : 2); m++)
            for (int c = 0; c < NRANK_COUNTS; c++)
                for (int replicas = rank_counts[c]; replicas <= 2 * rank_counts[c]; replicas++) {
                    Text text = {0}, what = {0};
                    Net one, many;
                    text_printf(&text, net, optimizers[o], modes[m]);
                    run_step(&one, text.at, 1, replicas, 2);
                    run_step(&many, text.at, rank_counts[c], replicas, 2);
                    note_executed(&many);
                    text_printf(&what, "%d replicas on %d ranks\n%s", replicas, rank_counts[c], text.at);
                    compare_states(&one, &many, what.at);
                    net_close(&one);
                    net_close(&many);
                    text_finish(&text);
                    text_finish(&what);
                }
}

/* Gradients that bf16 has exactly: sums of so few ones. */
static void try_compressed(void) {
    static const char net[] =
        "net t() { param a : f64[6, 4] = ones; param w : f64[4, 8] = ones; h = matmul(a, w) shard ((2, 1), (1, 2)); loss sum(h); }\n"
        "train { optimizer = sgd(lr = 0.5); compress = bf16; epochs = 1; steps = 2; }\n";
    const char *device = getenv("PRUN_TEST_DEVICE");
    Net one, many;
    if (device && strcmp(device, "cuda") == 0) { /* has no 16 bits yet, and says so (run-cuda_failures) */
        executed[OP_compress] = true;
        return;
    }
    run_step(&one, net, 1, 0, 2);
    run_step(&many, net, 4, 0, 2);
    note_executed(&many);
    compare_states(&one, &many, net);
    net_close(&one);
    net_close(&many);
}

/* Updates of parameters that lie in parts, and what their gradients go through. */
static void try_updates(void) {
    static const char *const net =
        "net t() { input x : f64[6, 4]; input label : f64[6, 8]; param w : f64[4, 8] = uniform(-1, 1); param b : f64[8] = uniform(-1, 1);\n"
        "h = matmul(x, w) shard ((1, 2), (2, 2)); loss mse(tanh(h + b), label); }\n"
        "train { data = numpy_rand(seed = 3); optimizer = %s; clip = norm(0.1); epochs = 1; steps = 2; }\nparallel { mode = auto; }\n";
    static const char *const optimizers[] = {"adam(lr = 0.1, eps = 0.01, weight_decay = 0.1)",
                                             "adamw(lr = 0.1, eps = 0.01); schedule = linear",
                                             "sgd(lr = 0.1, momentum = 0.9, nesterov = true); decay except b; lr 0.5 for w",
                                             "lion(lr = 0.1, weight_decay = 0.1)",
                                             "lamb(lr = 0.1, eps = 0.01)",
                                             "lamb(lr = 0.1, weight_decay = 0.1); schedule = linear(warmup = 1)",
                                             "adafactor(lr = 0.1, weight_decay = 0.1); ema = 0.5",
                                             "adafactor(lr = 0.1, eps1 = 0.01); schedule = linear(warmup = 1)"};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
        Text text = {0};
        Net one, many;
        text_printf(&text, net, optimizers[o]);
        run_step(&one, text.at, 1, 0, 2);
        run_step(&many, text.at, 4, 0, 2);
        note_executed(&many);
        compare_states(&one, &many, text.at);
        net_close(&one);
        net_close(&many);
        text_finish(&text);
    }
}

/* Tables by the rows that occur: whole, split by rows and by columns, looked up once and twice, in a batch that is split. */
static void try_tables(void) {
    static const char *const net =
        "net t() { input a : i32[6]; input b : i32[6, 2]; input label : f64[6, 4];\n"
        "param t : f64[24, 4] = uniform(-1, 1); param u : f64[30, 4] = uniform(-1, 1); param w : f64[4, 4] = uniform(-1, 1);\n"
        "h = embedding(t, a) shard ((%s), (%s)); k = embedding(u, a) + sum(embedding(u, b), axes = 1);\n"
        "loss mse(tanh((h + k) @ w), label); }\n"
        "train { data = normal(seed = 3); optimizer = %s; epochs = 1; steps = 3; %s }\nparallel { mode = auto; search = sharding_propagation; }\n";
    static const char *const optimizers[] = {"sgd(lr = 0.5)", "sgd(lr = 0.5); schedule = linear", "lazy_adam(lr = 0.1, eps = 0.01)",
                                             "lazy_adam(lr = 0.1, eps = 0.01); schedule = cosine(warmup = 2)"};
    static const char *const splits[][2] = {{"1, 1", "2"}, {"2, 1", "1"}, {"1, 2", "1"}, {"2, 2", "1"}, {"2, 1", "2"}};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
        for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
            for (int batches = 1; batches <= 2; batches++) {
                Text text = {0};
                Net one, many;
                text_printf(&text, net, splits[s][0], splits[s][1], optimizers[o], batches > 1 ? "accumulate = 2;" : "");
                run_step(&one, text.at, 1, 0, 2);
                run_step(&many, text.at, 4, 0, (int)s % 3);
                note_executed(&many);
                compare_states(&one, &many, text.at);
                net_close(&one);
                net_close(&many);
                text_finish(&text);
            }
}

Test(ops, every_strategy_of_every_operator_computes_what_one_rank_does) {
    for (int op = 0; op < NOPS; op++) {
        if (op_table[op].op_class != OP_CLASS_USER) continue;
        int64_t tried = each_sample((OpCode)op, try_reals);
        printf("%-10s %5lld strategies tried on 2, 3, 4, 6 and 8 ranks\n", op_table[op].name, (long long)tried);
        cr_assert_gt(tried, 0);
    }
    try_replicas();
    try_updates();
    try_compressed();
    try_tables();
    for (int op = 0; op < NOPS; op++) {
        bool computes =
            op_table[op].op_class != OP_CLASS_LEAF && op_table[op].op_class != OP_CLASS_COMM && !op_table[op].expand && op != OP_write;
        if (op == OP_put) continue; /* of programs that generate: tests/run/generate.py */
        cr_assert(!computes || executed[op], "no strategy has run %s on a part of a tensor", op_table[op].name);
    }
}

/* i32 and i64 wrap, so that however an operator is split its integers are one rank's, bit for bit, at the ends of their range too. A label of a cross_entropy
 * that is no class means nothing. */
Test(ops, integers_of_every_operator_by_every_strategy_are_those_of_one_rank) {
    for (int op = 0; op < NOPS; op++) {
        bool takes = false;
        for (int i = 0; i < op_nin((OpCode)op); i++)
            takes |= takes_integers((OpCode)op, i);
        if (op_table[op].op_class != OP_CLASS_USER || !takes || op == OP_cross_entropy) continue;
        int64_t tried = each_sample((OpCode)op, try_i32) + each_sample((OpCode)op, try_i64);
        printf("%-10s %5lld strategies tried with integers\n", op_table[op].name, (long long)tried);
        cr_assert_gt(tried, 0);
    }
}

/* (L(x + h) - L(x - h)) / 2h for every element of every parameter. */
static int64_t check_gradients(OpCode op, const char *attrs, const Shape *shapes, int n) {
    Text text = {0};
    Net parsed, net;
    net_text(&text, op, attrs, shapes, n, &(Shape){0}, "");
    cr_assert(lower(&parsed, text.at), "%s", text.at);
    Shape result = find_node(&parsed.plan.graph, "y")->rule->result[0].shape;
    text_finish(&text);
    arena_finish(&parsed.arena);
    text = (Text){0};
    net_text(&text, op, attrs, shapes, n, &result, "");
    cr_assert(net_open(&net, text.at, 1, 0, 2), "%s", net.error.text);
    const Graph *graph = &net.plan.graph;
    double *start[2 * (MAX_IN + 1)], *end[2 * (MAX_IN + 1)]; /* parameters and slots */
    for (int s = 0; s < graph->states.n; s++)
        start[s] = net_values(&net, graph->states.at[s].name);
    cr_assert(executor_step(net.executor, 1, 1, &net.error));
    for (int s = 0; s < graph->states.n; s++)
        end[s] = net_values(&net, graph->states.at[s].name);
    const double h = 1e-5;
    int64_t checked = 0;
    for (int s = 0; s < graph->states.n; s++)
        for (int64_t i = 0, size = shape_elements(&graph->states.at[s].type.shape); graph->states.at[s].trainable && i < size;
             i++, checked++) {
            double loss[2], at = start[s][i];
            for (int side = 0; side < 2; side++) {
                start[s][i] = side ? at + h : at - h;
                for (int k = 0; k < graph->states.n; k++)
                    cr_assert(executor_set_state(net.executor, k, start[k], &net.error));
                cr_assert(executor_step(net.executor, 1, 1, &net.error));
                loss[side] = net_loss(&net);
            }
            start[s][i] = at;
            double gradient = at - end[s][i], difference = (loss[1] - loss[0]) / (2 * h);
            if (op == OP_stop_gradient && strcmp(graph->states.at[s].name, "a") == 0) difference = 0;
            bool at_kink = op == OP_relu && fabs(at) < 2 * h;
            cr_assert(at_kink || fabs(gradient - difference) <= 1e-7 * (1 + fabs(difference)),
                      "%s\nd loss / d %s[%lld] is %.12g, by differences %.12g", text.at, graph->states.at[s].name, (long long)i, gradient,
                      difference);
        }
    net_close(&net);
    text_finish(&text);
    return checked;
}

Test(ops, gradients_are_finite_differences) {
    for (int op = 0; op < NOPS; op++)
        if (op_table[op].op_class == OP_CLASS_USER) cr_assert_gt(each_sample((OpCode)op, check_gradients), 0);
}
