/* The generator. A statement is made thus: an operator of the table; for operand 0 a value that there is; attributes; the other operands,
 * which fit by the operator's row: values that there are, or new leaves; its result from the rule, which also refuses what does not
 * fit. A new row of the table takes part by itself where its operands broadcast ("..."), have the sizes that its samples tie together, or
 * are one; their element types are those of its letters (Op.types), and the elements of an index are in the range that its rule says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nets/make.h"

/* ---------------------------------------------------------------- random numbers */

uint64_t fuzz_next(uint64_t *random) {
    uint64_t z = *random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int fuzz_below(uint64_t *random, int n) {
    return (int)(fuzz_next(random) % (uint64_t)n);
}

bool fuzz_chance(uint64_t *random, int percent) {
    return fuzz_below(random, 100) < percent;
}

/* ---------------------------------------------------------------- statements */

/* -1 where the operator's rule refuses the operands, or the result is too large. */
static int add_op(Make *make, OpCode op, const int *in, int nin, const Attr *attr) {
    FuzzItem item = {.kind = FUZZ_OP, .op = op, .nin = nin};
    TensorType types[MAX_IN];
    Rule rule;
    bool scalars = true, numbers = false;
    for (int k = 0; k < nin; k++) {
        item.in[k] = in[k];
        types[k] = *fuzz_type(make->net, in[k]);
        scalars = scalars && types[k].shape.ndim == 0;
        numbers = numbers || make->net->items.at[in[k] / MAX_OUT].kind == FUZZ_NUMBER;
    }
    if (attr) memcpy(item.attr, attr, sizeof item.attr);
    if (!rule_infer(op, types, nin, item.attr, &rule, NULL)) return -1;
    for (int o = 0; o < rule.nout; o++)
        if (rule.result[o].shape.ndim > FUZZ_MOST_NDIM ||
            shape_elements(&rule.result[o].shape) > (make->big ? FUZZ_BIG_BYTES : FUZZ_MOST_ELEMENTS))
            return -1;
    for (int k = 0; k < nin; k++) {
        FuzzItem *operand = &make->net->items.at[in[k] / MAX_OUT];
        if (!has_elements(operand)) draw_elements(make, operand, op_type(op, false, k) == 'i' ? rule.index_range : 0);
    }
    item.nout = rule.nout - op_table[op].kept; /* what has no name in the language */
    memcpy(item.type, rule.result, sizeof item.type);
    item.infix = numbers || chance(make, 50);
    bool may_split = make->net->mode != MODE_DATA_PARALLEL && (!op_table[op].expand || op_table[op].as_one) && !scalars;
    if (may_split && chance(make, 40)) item.hint = fuzz_strategy(make->net, &item, &rule, make->arena, make->random);
    return add_item(make, item);
}

static int add_unary(Make *make, OpCode op, int value) {
    return add_op(make, op, &value, 1, NULL);
}

static int add_binary(Make *make, OpCode op, int a, int b) {
    return add_op(make, op, (int[]){a, b}, 2, NULL);
}

/* Values brought into the domain of an operator, and kept small where a chain of them would run away. */
static int tamed(Make *make, OpCode op, int operand, int value) {
    if (op == OP_exp) return add_unary(make, OP_tanh, value);
    if (op_table[op].domain == DOMAIN_ALL || (op == OP_div && operand == 0)) return value;
    int product = add_binary(make, OP_mul, value, value);
    return product < 0 ? -1 : add_binary(make, OP_add, product, add_number(make, dtype_of(make, value), op == OP_div ? 1.5 : 0.5));
}

/* An index as it is, or computed: sums and products that a compiler takes away, and some that it cannot. A constant's elements are its first user's. */
static int computed(Make *make, int index) {
    const DType dtype = dtype_of(make, index);
    if (make->net->items.at[index / MAX_OUT].kind == FUZZ_CONST || chance(make, 60)) return index;
    switch (below(make, 5)) {
    case 0:
        return add_binary(make, OP_add, index, add_number(make, dtype, 0));
    case 1:
        return add_binary(make, OP_sub, index, add_number(make, dtype, below(make, 3)));
    case 2:
        return add_binary(make, OP_mul, add_number(make, dtype, 1), index);
    case 3:
        return add_binary(make, OP_sub, add_number(make, dtype, 1 + below(make, 4)), index);
    default:
        return add_unary(make, OP_neg, add_unary(make, OP_neg, index));
    }
}

int add_statement(Make *make, OpCode op) {
    int in[MAX_IN] = {draw_first(make, op)};
    Attr attr[MAX_ATTRS] = {{0}};
    if (in[0] < 0) return -1;
    const Shape shape = *shape_of(make, in[0]);
    draw_attrs(make, op, &shape, attr);
    int nin = draw_operands(make, op, attr, in);
    for (int i = 0; i < nin; i++) {
        if (op_type(op, false, i) == 'i') in[i] = computed(make, in[i]);
        if (make->net->items.at[in[i] / MAX_OUT].kind != FUZZ_NUMBER && (in[i] = tamed(make, op, i, in[i])) < 0) return -1;
    }
    int value = nin > 0 ? add_op(make, op, in, nin, attr) : -1;
    return value >= 0 && op == OP_matmul && chance(make, 60) ? add_unary(make, OP_tanh, value) : value;
}

/* value times a new parameter: whatever happened, one reaches the loss. */
static int project(Make *make, int value) {
    Shape shape = *shape_of(make, value);
    if (shape.ndim < 2) {
        Attr attr[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {1, shape_elements(&shape)}}};
        value = add_op(make, OP_reshape, &value, 1, attr);
        shape = *shape_of(make, value);
    }
    Shape other = {.ndim = 2, .dim = {shape.dim[shape.ndim - 1], draw_size(make)}};
    int product = add_binary(make, OP_matmul, value, add_leaf(make, FUZZ_PARAM, dtype_of(make, value), &other));
    return product >= 0 ? product : add_binary(make, OP_mul, value, add_leaf(make, FUZZ_PARAM, dtype_of(make, value), &(Shape){0}));
}

/* ---------------------------------------------------------------- the whole */

/* Rows that make what a loss cannot take come less often than those that take it. */
static int weight(OpCode op) {
    if (op_table[op].op_class != OP_CLASS_USER) return 0;
    if (op == OP_matmul) return 16;
    if (op == OP_dot_product_attention) return 20;                           /* in many manners */
    if (op == OP_max_pool || op == OP_avg_pool || op == OP_conv2d) return 8; /* few values fit them */
    if (op_table[op].types == NULL) return 2;
    return strchr("bn", op_type(op, true, 0)) ? 2 : 4;
}

static OpCode draw_op(Make *make) {
    int sum = 0;
    for (int op = 0; op < NOPS; op++)
        sum += weight((OpCode)op);
    int at = below(make, sum), op = 0;
    while ((at -= weight((OpCode)op)) >= 0)
        op++;
    return (OpCode)op;
}

/* The last small value of reals. */
static int last_value(Make *make) {
    for (int i = make->net->items.n - 1; i >= 0; i--) {
        const FuzzItem *item = &make->net->items.at[i];
        int o = below(make, item->nout);
        if (item->kind != FUZZ_NUMBER && dtype_is_float(item->type[o].dtype) && any_small(&item->type[o].shape, NULL))
            return i * MAX_OUT + o;
    }
    return 0; /* the first input */
}

static void add_loss(Make *make, int value) {
    static const OpCode means[] = {OP_sum, OP_mean};
    unsigned dtypes = 1u << dtype_of(make, value);
    Attr attr[MAX_ATTRS] = {{.given = chance(make, 70), .text = chance(make, 50) ? "sum" : "mean"}};
    int loss = -1, in[MAX_IN] = {value};
    if (chance(make, 15) && draw_operands(make, OP_cross_entropy, attr, in) > 0) loss = add_op(make, OP_cross_entropy, in, 2, attr);
    if (loss < 0 && chance(make, 70)) {
        int target = chance(make, 80) ? -1 : find_value(make, dtypes, equal_shapes, shape_of(make, value));
        if (target < 0 || target == value) target = add_leaf(make, FUZZ_INPUT, dtype_of(make, value), shape_of(make, value));
        loss = add_op(make, OP_mse, (int[]){value, target}, 2, attr);
    } else if (loss < 0) {
        loss = add_unary(make, means[below(make, 2)], add_binary(make, OP_mul, value, value));
    }
    int other = chance(make, 50) ? find_value(make, dtypes, any_small, NULL) : -1;
    if (other >= 0) {
        int reduced = add_unary(make, means[below(make, 2)], add_binary(make, OP_mul, other, other));
        loss = add_binary(make, OP_add, loss, add_binary(make, OP_mul, reduced, add_number(make, dtype_of(make, value), 0.125)));
    }
    make->net->loss = loss;
}

/* Of one net of two some statements, or all, from numbers of their own: with other ones a seed is the same net. */
static void draw_recompute(FuzzNet *net) {
    uint64_t random = ~net->seed;
    const int percent = fuzz_chance(&random, 50) ? 0 : fuzz_chance(&random, 30) ? 100 : 40;
    for (int i = 0; i < net->items.n; i++)
        net->items.at[i].recompute = net->items.at[i].kind == FUZZ_OP && fuzz_chance(&random, percent);
}

/* From numbers of its own: parameters and statements of which all that is gathered is gathered again. */
static void draw_regather(FuzzNet *net) {
    uint64_t random = net->seed + 6;
    const int percent = fuzz_chance(&random, 70) ? 0 : 50;
    for (int i = 0; i < net->items.n; i++) {
        const FuzzKind kind = net->items.at[i].kind;
        net->items.at[i].regather = (kind == FUZZ_OP || kind == FUZZ_PARAM) && fuzz_chance(&random, percent);
    }
}

/* From numbers of its own: in some nets of one rank each rank has parameters of its own, and the loss is the mean of all. These optimizers take norms of whole parameters. */
static void draw_manual(FuzzNet *net) {
    uint64_t random = net->seed + 2;
    const bool norms = net->optimizer == OPTIMIZER_LAMB || net->optimizer == OPTIMIZER_ADAFACTOR;
    if (net->mode == MODE_DATA_PARALLEL && !norms && fuzz_chance(&random, 40)) net->mode = MODE_MANUAL;
}

static bool may_be_dropped(const FuzzNet *net, const FuzzItem *item) {
    return item->kind == FUZZ_OP && item->nin == 1 && item->nout == 1 && op_elementwise(item->op) && dtype_is_float(item->type[0].dtype) &&
           dtype_is_float(fuzz_type(net, item->in[0])->dtype);
}

/* From numbers of its own: random numbers in some nets, and in some a state that a step writes, which parts of a batch cannot. */
static void draw_dropped(FuzzNet *net) {
    uint64_t random = net->seed + 3;
    const int percent = net->mode != MODE_MANUAL && fuzz_chance(&random, 30) ? 40 : 0;
    for (int i = 0; i < net->items.n; i++)
        net->items.at[i].dropped = may_be_dropped(net, &net->items.at[i]) && fuzz_chance(&random, percent);
    const bool global = net->mode == MODE_AUTO || net->mode == MODE_SEMI_AUTO;
    const int value = net->items.n > 0 ? fuzz_below(&random, net->items.n) : 0;
    const FuzzItem *item = &net->items.at[value];
    if (global && net->memory_percent == 0 && item->kind == FUZZ_OP && item->nout == 1 &&
        item->type[0].dtype == fuzz_type(net, net->loss)->dtype && fuzz_chance(&random, 30))
        net->kept = value * MAX_OUT;
}

void fuzz_make(FuzzNet *net, Arena *arena, uint64_t seed) {
    static const int64_t tiny[] = {1, 2, 3}, odd[] = {2, 3, 4, 5, 6, 7, 8, 12}, even[] = {4, 8, 12, 16};
    static const struct {
        const int64_t *at;
        int n;
    } sizes[] = {{tiny, 3}, {odd, 8}, {odd, 8}, {even, 4}};
    uint64_t random = seed;
    memset(net, 0, sizeof *net);
    net->seed = seed;
    net->unused = net->kept = -1;
    Make make = {.net = net, .arena = arena, .random = &random};
    int family = below(&make, 4);
    make.sizes = sizes[family].at;
    make.nsizes = sizes[family].n;
    make.dtype = chance(&make, 50) ? F32 : F64;
    make.big = chance(&make, 2);
    draw_options(&make);
    for (int n = 1 + below(&make, 2); n > 0; n--) {
        Shape shape = draw_shape(&make, 2 + below(&make, 2));
        int input = add_leaf(&make, FUZZ_INPUT, make.dtype, &shape);
        if (chance(&make, 60)) project(&make, input); /* what follows has a gradient */
    }
    for (int n = 4 + below(&make, 11); n > 0; n--)
        add_statement(&make, draw_op(&make));
    add_loss(&make, project(&make, last_value(&make)));
    fuzz_prune(net, arena);
    if (chance(&make, 15)) net->unused = add_statement(&make, draw_op(&make));
    fuzz_prune(net, arena);
    draw_dataset(&make);
    static const char *const searches[] = {"sharding_propagation", "sharding_propagation",  "sharding_propagation",
                                           "dynamic_programming",  "recursive_programming", NULL};
    if (net->mode == MODE_AUTO) net->search = searches[below(&make, 6)];
    draw_recompute(net);
    draw_regather(net);
    draw_manual(net);
    draw_dropped(net);
}
