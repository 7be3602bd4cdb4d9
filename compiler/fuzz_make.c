/* The generator. A statement is made thus: an operator of the table; for operand 0 a value that there is; attributes; the other operands,
 * which fit by the operator's rule: values that there are, or new parameters; its result from the rule, which also refuses what does not
 * fit. A new row of the table takes part by itself where its operands broadcast ("..."), have the sizes that its samples tie together, or
 * are one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/fuzz_net.h"

enum { MOST_ELEMENTS = 1500, MOST_NDIM = 5, BIG_BYTES = 256 << 10 /* parameters from here on are updated in parts */ };

typedef struct Make {
    FuzzNet *net;
    Arena *arena;
    uint64_t *random;
    DType dtype;
    const int64_t *sizes;
    int nsizes;
    bool big; /* some parameters are large */
} Make;

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

static int below(Make *make, int n) {
    return fuzz_below(make->random, n);
}

static bool chance(Make *make, int percent) {
    return fuzz_chance(make->random, percent);
}

static int64_t draw_size(Make *make) {
    return make->sizes[below(make, make->nsizes)];
}

/* One of the numbers that divide n. */
static int64_t draw_divisor(Make *make, int64_t n) {
    int64_t divisor = 1;
    for (int64_t d = 2, seen = 1; d <= n; d++)
        if (n % d == 0 && below(make, (int)++seen) == 0) divisor = d;
    return divisor;
}

static Shape draw_shape(Make *make, int ndim) {
    Shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim; d++)
        shape.dim[d] = draw_size(make);
    while (shape_elements(&shape) > MOST_ELEMENTS)
        shape.ndim--;
    return shape;
}

/* ---------------------------------------------------------------- items */

static const Shape *shape_of(Make *make, int value) {
    return &fuzz_type(make->net, value)->shape;
}

static int add_item(Make *make, FuzzItem item) {
    vec_push(make->arena, &make->net->items, item);
    return (make->net->items.n - 1) * MAX_OUT;
}

/* Nested as the type's dimensions are. */
static const char *literal(Make *make, const Shape *shape) {
    Text text = {0};
    int64_t n = shape_elements(shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t block = 1;
        text_printf(&text, "%s", i ? ", " : "");
        for (int d = shape->ndim - 1; d >= 0; d--)
            if (i % (block *= shape->dim[d]) == 0) text_printf(&text, "[");
        text_printf(&text, "%g", (double)(below(make, 33) - 16) / 16);
        block = 1;
        for (int d = shape->ndim - 1; d >= 0; d--)
            if ((i + 1) % (block *= shape->dim[d]) == 0) text_printf(&text, "]");
    }
    const char *copy = arena_copy(make->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static int add_leaf(Make *make, FuzzKind kind, const Shape *shape) {
    /* Of thousands of equal terms an f32 product rounds each the same way: one rank is then off by more than rounding explains. */
    static const char *const params[] = {"normal(0.3)", "uniform(-0.5, 0.5)", "normal(1)", "ones"};
    FuzzItem item = {.kind = kind, .nout = 1, .type[0] = {.dtype = make->dtype, .shape = *shape}};
    if (kind == FUZZ_PARAM) item.init = params[below(make, make->big ? 3 : 4)];
    if (kind == FUZZ_CONST) item.init = shape_elements(shape) <= 24 ? literal(make, shape) : "ones";
    bool may_split = make->net->mode != MODE_DATA_PARALLEL && shape->ndim > 0 && (kind == FUZZ_INPUT || kind == FUZZ_PARAM);
    if (may_split && chance(make, 20)) item.hint = fuzz_layouts(make->net, &item.type[0], 1, make->arena, make->random);
    return add_item(make, item);
}

static int add_number(Make *make, double number) {
    return add_item(make, (FuzzItem){.kind = FUZZ_NUMBER, .nout = 1, .type[0] = {.dtype = make->dtype}, .number = number});
}

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
        if (rule.result[o].shape.ndim > MOST_NDIM || shape_elements(&rule.result[o].shape) > (make->big ? BIG_BYTES : MOST_ELEMENTS))
            return -1;
    item.nout = rule.nout;
    memcpy(item.type, rule.result, sizeof item.type);
    item.infix = numbers || chance(make, 50);
    bool may_split = make->net->mode != MODE_DATA_PARALLEL && !op_table[op].expand && !scalars;
    if (may_split && chance(make, 40)) item.hint = fuzz_strategy(make->net, &item, &rule, make->arena, make->random);
    return add_item(make, item);
}

static int add_unary(Make *make, OpCode op, int value) {
    return add_op(make, op, &value, 1, NULL);
}

static int add_binary(Make *make, OpCode op, int a, int b) {
    return add_op(make, op, (int[]){a, b}, 2, NULL);
}

/* ---------------------------------------------------------------- values that there are */

typedef bool Accepts(const Shape *shape, const Shape *with);

static bool any_small(const Shape *shape, const Shape *with) {
    (void)with;
    return shape_elements(shape) <= MOST_ELEMENTS;
}

static bool equal(const Shape *shape, const Shape *with) {
    return shape_equal(shape, with);
}

static bool broadcasts(const Shape *shape, const Shape *with) {
    int64_t n = 1;
    for (int d = 1; d <= shape->ndim || d <= with->ndim; d++) {
        int64_t a = d <= shape->ndim ? shape->dim[shape->ndim - d] : 1, b = d <= with->ndim ? with->dim[with->ndim - d] : 1;
        if (a != b && a != 1 && b != 1) return false;
        n *= a > b ? a : b;
    }
    return n <= MOST_ELEMENTS;
}

/* A random value of an accepted shape, a recent one half of the time; -1: there is none. */
static int find_value(Make *make, Accepts *accepts, const Shape *with) {
    const FuzzNet *net = make->net;
    int first = chance(make, 50) && net->items.n > 4 ? net->items.n - 4 : 0, found = -1, seen = 0;
    for (int i = first; i < net->items.n; i++)
        for (int o = 0; net->items.at[i].kind != FUZZ_NUMBER && o < net->items.at[i].nout; o++)
            if (accepts(&net->items.at[i].type[o].shape, with) && below(make, ++seen) == 0) found = i * MAX_OUT + o;
    return found;
}

/* A value of this shape: mostly one that there is, so that values and parameters are used more than once. */
static int value_like(Make *make, const Shape *shape) {
    int value = chance(make, 50) ? find_value(make, equal, shape) : -1;
    return value >= 0 ? value : add_leaf(make, chance(make, 10) ? FUZZ_INPUT : FUZZ_PARAM, shape);
}

/* A value to combine elementwise with one of this shape. */
static int partner(Make *make, const Shape *shape) {
    int value = chance(make, 60) ? find_value(make, broadcasts, shape) : -1;
    if (value >= 0) return value;
    if (chance(make, 15)) return add_number(make, (1 + below(make, 8)) / 4.0);
    Shape part = {0};
    for (int d = below(make, shape->ndim + 1); d < shape->ndim; d++)
        part.dim[part.ndim++] = chance(make, 20) ? 1 : shape->dim[d];
    return add_leaf(make, chance(make, 15) ? FUZZ_CONST : FUZZ_PARAM, &part);
}

/* ---------------------------------------------------------------- attributes */

static void shuffle_ints(Make *make, int64_t *at, int n) {
    for (int i = 0; i < n; i++)
        at[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = below(make, i + 1);
        int64_t kept = at[i];
        at[i] = at[k];
        at[k] = kept;
    }
}

static void draw_reshape(Make *make, const Shape *from, Attr *attr) {
    int64_t n = shape_elements(from);
    switch (below(make, 4)) {
    case 0:
        attr->ints[attr->n++] = n;
        break;
    case 1: /* two leading dimensions joined */
        attr->ints[attr->n++] = from->ndim > 1 ? from->dim[0] * from->dim[1] : n;
        for (int d = 2; d < from->ndim; d++)
            attr->ints[attr->n++] = from->dim[d];
        break;
    case 2: /* each dimension in two, while there is room */
        for (int d = 0; d < from->ndim; d++) {
            int64_t first = from->ndim < 3 ? draw_divisor(make, from->dim[d]) : 1;
            if (first > 1 && first < from->dim[d]) attr->ints[attr->n++] = first;
            attr->ints[attr->n++] = first > 1 && first < from->dim[d] ? from->dim[d] / first : from->dim[d];
        }
        break;
    default:
        attr->ints[attr->n++] = draw_divisor(make, n);
        attr->ints[attr->n++] = n / attr->ints[0];
    }
    if (attr->n > 0 && chance(make, 50)) attr->ints[below(make, attr->n)] = -1;
}

static void draw_ints(Make *make, const char *name, const Shape *shape, const Attr *before, Attr *attr) {
    if (strcmp(name, "shape") == 0) {
        draw_reshape(make, shape, attr);
        return;
    }
    attr->n = shape->ndim;
    if (strcmp(name, "axes") == 0 || strcmp(name, "perm") == 0) {
        shuffle_ints(make, attr->ints, shape->ndim);
        bool some = name[0] == 'a' && shape->ndim > 0;
        if (some) attr->n = 1 + below(make, shape->ndim);
        if (some && chance(make, 30)) attr->ints[0] -= shape->ndim;
        return;
    }
    bool is_end = strcmp(name, "end") == 0;
    for (int d = 0; d < shape->ndim; d++) {
        int64_t size = shape->dim[d], from = is_end && before->n > d ? before->ints[d] + (before->ints[d] < 0 ? size : 0) : 0;
        if (is_end)
            attr->ints[d] = chance(make, 40) ? size : from + 1 + below(make, (int)(size - from));
        else
            attr->ints[d] = chance(make, 40) ? 0 : below(make, (int)size) - (chance(make, 20) ? size : 0);
    }
}

static void draw_int(Make *make, const char *name, const Shape *shape, Attr *attr) {
    if (strcmp(name, "axis") == 0)
        attr->i = shape->ndim > 0 ? below(make, shape->ndim) - (chance(make, 30) ? shape->ndim : 0) : 0;
    else /* a number of parts and the like */
        attr->i = shape->ndim > 0 ? draw_divisor(make, shape->dim[below(make, shape->ndim)]) : 1;
}

static void draw_attrs(Make *make, OpCode op, const Shape *shape, Attr *attr) {
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++) {
        const AttrSpec *spec = &op_table[op].attrs[a];
        attr[a].given = spec->required || chance(make, spec->kind == ATTR_BOOL ? 40 : 75);
        if (!attr[a].given) continue;
        switch (spec->kind) {
        case ATTR_BOOL:
            attr[a].i = chance(make, 80);
            break;
        case ATTR_INT:
            draw_int(make, spec->name, shape, &attr[a]);
            break;
        case ATTR_INTS:
            draw_ints(make, spec->name, shape, a > 0 ? &attr[a - 1] : &attr[a], &attr[a]);
            break;
        case ATTR_FLOAT:
            attr[a].f = (1 + below(make, 8)) / 8.0;
            break;
        case ATTR_TEXT: /* a word that cannot be guessed is left out */
            attr[a].given = strcmp(spec->name, "reduction") == 0;
            attr[a].text = chance(make, 50) ? "sum" : "mean";
            break;
        case ATTR_NONE:
            break;
        }
    }
}

/* ---------------------------------------------------------------- operands */

enum { UNBOUND = 0 };

/* One operand of a sample, "8x6": its shape; *at goes to what follows. */
static Shape sample_operand(const char **at) {
    Shape shape = {0};
    for (;; (*at)++) {
        char *end;
        shape.dim[shape.ndim++] = strtol(*at, &end, 10);
        *at = end;
        if (*end != 'x') break;
    }
    while (**at == ',' || **at == ' ')
        (*at)++;
    return shape;
}

/* The operands after the first as one of the row's samples ties their sizes: equal numbers there are equal sizes here, others are random.
 * False: the sample does not fit the first operand. */
static bool operands_by_sample(Make *make, OpCode op, int *in, int nin) {
    const char *samples = op_table[op].samples, *at = samples;
    int nsamples = 1;
    for (const char *c = samples; *c; c++)
        nsamples += *c == ';';
    for (int skip = below(make, nsamples); skip > 0; skip--)
        at = strchr(at, ';') + 2;
    struct {
        int64_t sample, size;
    } bound[MAX_NDIM * 2] = {{1, 1}};
    int nbound = 1;
    for (int i = 0; i < nin; i++) {
        if (*at < '0' || *at > '9') return false;
        Shape sample = sample_operand(&at), shape = {.ndim = sample.ndim};
        if (i == 0 && shape_of(make, in[0])->ndim != sample.ndim) return false;
        for (int d = 0; d < sample.ndim; d++) {
            int64_t size = i == 0 ? shape_of(make, in[0])->dim[d] : UNBOUND;
            int k = 0;
            while (k < nbound && bound[k].sample != sample.dim[d])
                k++;
            if (k == MAX_NDIM * 2 || (k < nbound && size != UNBOUND && size != bound[k].size)) return false;
            if (k == nbound) {
                bound[nbound].sample = sample.dim[d];
                bound[nbound++].size = size != UNBOUND ? size : draw_size(make);
            }
            shape.dim[d] = bound[k].size;
        }
        if (i > 0) in[i] = value_like(make, &shape);
    }
    return true;
}

/* matmul: batches of operand 0 or none; sometimes so many columns that the parameter is updated in parts. */
static void operand_of_product(Make *make, const Attr *attr, int *in) {
    const Shape *shape = shape_of(make, in[0]);
    bool across = attr[0].i != 0, turned = attr[1].i != 0;
    int64_t rows = shape->dim[shape->ndim - 1 - !across], depth = shape->dim[shape->ndim - 1 - across], columns = draw_size(make);
    bool is_big = make->big && rows * shape_elements(shape) / (rows * depth) <= 16;
    if (is_big) columns = BIG_BYTES / dtype_bytes[make->dtype] / depth + (chance(make, 50) ? 1 : 5);
    Shape other = {0};
    for (int d = is_big || chance(make, 70) ? shape->ndim - 2 : 0; d < shape->ndim - 2; d++)
        other.dim[other.ndim++] = chance(make, 20) ? 1 : shape->dim[d];
    other.dim[other.ndim++] = turned ? columns : depth;
    other.dim[other.ndim++] = turned ? depth : columns;
    in[1] = value_like(make, &other);
}

/* concat: equal sizes but along the axis. */
static int operands_of_concat(Make *make, const Attr *attr, int *in) {
    Shape shape = *shape_of(make, in[0]);
    int64_t axis = attr->i < 0 ? attr->i + shape.ndim : attr->i;
    int n = 2 + (chance(make, 30) ? below(make, 3) : 0);
    for (int i = 1; i < n; i++) {
        if (chance(make, 50)) shape.dim[axis] = draw_size(make);
        in[i] = value_like(make, &shape);
    }
    return n;
}

/* Values brought into the domain of an operator, and kept small where a chain of them would run away. */
static int tamed(Make *make, OpCode op, int operand, int value) {
    if (op == OP_exp) return add_unary(make, OP_tanh, value);
    if (op != OP_log && op != OP_sqrt && !(op == OP_div && operand == 1)) return value;
    int product = add_binary(make, OP_mul, value, value);
    return product < 0 ? -1 : add_binary(make, OP_add, product, add_number(make, op == OP_div ? 1.5 : 0.5));
}

/* A statement of this operator; its value, -1: not this time. */
static int add_statement(Make *make, OpCode op) {
    int in[MAX_IN] = {find_value(make, any_small, NULL)}, nin = op_nin(op);
    Attr attr[MAX_ATTRS] = {{0}};
    if (in[0] < 0) return -1;
    const Shape shape = *shape_of(make, in[0]);
    draw_attrs(make, op, &shape, attr);
    if (op == OP_matmul) {
        if (shape.ndim < 2) return -1;
        operand_of_product(make, attr, in);
    } else if (op_table[op].variadic) {
        if (shape.ndim == 0) return -1;
        nin = operands_of_concat(make, attr, in);
    } else if (op_table[op].letters && strncmp(op_table[op].letters, "...", 3) == 0) {
        for (int i = 1; i < nin; i++)
            in[i] = partner(make, &shape);
        if (nin == 2 && chance(make, 20) && make->net->items.at[in[1] / MAX_OUT].kind != FUZZ_NUMBER) { /* the other way round */
            int kept = in[0];
            in[0] = in[1];
            in[1] = kept;
        }
    } else if (nin > 1 && !operands_by_sample(make, op, in, nin)) {
        return -1;
    }
    for (int i = 0; i < nin; i++)
        if (make->net->items.at[in[i] / MAX_OUT].kind != FUZZ_NUMBER && (in[i] = tamed(make, op, i, in[i])) < 0) return -1;
    int value = add_op(make, op, in, nin, attr);
    return value < 0 ? -1 : op == OP_matmul && chance(make, 60) ? add_unary(make, OP_tanh, value) : value;
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
    int product = add_binary(make, OP_matmul, value, add_leaf(make, FUZZ_PARAM, &other));
    return product >= 0 ? product : add_binary(make, OP_mul, value, add_leaf(make, FUZZ_PARAM, &(Shape){0}));
}

/* ---------------------------------------------------------------- the whole */

static int weight(OpCode op) {
    if (op_table[op].op_class != OP_CLASS_USER) return 0;
    return op == OP_matmul ? 12 : op_table[op].expand ? 1 : 2;
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

static void add_loss(Make *make, int value) {
    static const OpCode means[] = {OP_sum, OP_mean};
    int loss;
    if (chance(make, 70)) {
        Attr attr[MAX_ATTRS] = {{.given = chance(make, 70), .text = chance(make, 50) ? "sum" : "mean"}};
        int target = chance(make, 80) ? -1 : find_value(make, equal, shape_of(make, value));
        if (target < 0 || target == value) target = add_leaf(make, FUZZ_INPUT, shape_of(make, value));
        loss = add_op(make, OP_mse, (int[]){value, target}, 2, attr);
    } else {
        loss = add_unary(make, means[below(make, 2)], add_binary(make, OP_mul, value, value));
    }
    int other = chance(make, 50) ? find_value(make, any_small, NULL) : -1;
    if (other >= 0) {
        int reduced = add_unary(make, means[below(make, 2)], add_binary(make, OP_mul, other, other));
        loss = add_binary(make, OP_add, loss, add_binary(make, OP_mul, reduced, add_number(make, 0.125)));
    }
    make->net->loss = loss;
}

/* A mesh of the ranks, or of part of them. */
static void draw_axes(Make *make) {
    static const char *const names[FUZZ_MAX_AXES] = {"a", "b", "c", "d"};
    int rest = make->net->nranks;
    while (rest > 1 && make->net->naxes < FUZZ_MAX_AXES && chance(make, 80)) {
        int64_t size = draw_divisor(make, rest);
        if (size == 1) continue;
        make->net->axis[make->net->naxes] = (Axis){.name = names[make->net->naxes], .size = (int32_t)size};
        make->net->naxes++;
        rest /= (int)size;
    }
}

static void draw_options(Make *make) {
    static const Mode modes[] = {MODE_AUTO, MODE_AUTO, MODE_AUTO, MODE_SEMI_AUTO, MODE_SEMI_AUTO, MODE_DATA_PARALLEL};
    static const int levels[] = {0, 1, 2, 2, 2}, more[] = {0, 0, 1, 5};
    static const int ranks[] = {2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12, 12, 12}; /* those with many divisors more often */
    static const RedistributePolicy policies[] = {REDISTRIBUTE_AUTO, REDISTRIBUTE_AUTO, REDISTRIBUTE_BOUND, REDISTRIBUTE_CANONICAL};
    static const int64_t buckets[] = {-1, -1, 0, 64, 1024}; /* bytes */
    FuzzNet *net = make->net;
    net->nranks = ranks[below(make, 16)];
    net->mode = modes[below(make, 6)];
    net->optimize = levels[below(make, 5)];
    net->redistribution = policies[below(make, 4)];
    net->whole_updates = chance(make, 20);
    net->optimizer = chance(make, 50) ? OPTIMIZER_SGD : OPTIMIZER_MOMENTUM;
    net->steps = 2;
    net->bucket = buckets[below(make, 5)];
    net->machine = chance(make, 20) ? machine_gpu8.name : NULL;
    net->data_seed = below(make, 1000);
    net->init_seed = below(make, 1000);
    if (net->mode == MODE_DATA_PARALLEL) {
        net->replicas = net->nranks + (chance(make, 20) ? net->nranks : more[below(make, 4)]);
        net->gradients_mean = chance(make, 50);
    } else if (chance(make, 40)) {
        draw_axes(make);
    }
}

/* How inputs arrive, and whether rows repeat: once all inputs are known. */
static void draw_dataset(Make *make) {
    static const Dataset datasets[] = {DATASET_AUTO, DATASET_DATA_PARALLEL, DATASET_FULL_BATCH};
    FuzzNet *net = make->net;
    TensorType inputs[8];
    int n = 0;
    bool rows = chance(make, 40), fit = true;
    for (int i = 0; i < net->items.n; i++) {
        if (net->items.at[i].kind != FUZZ_INPUT) continue;
        const TensorType *type = &net->items.at[i].type[0];
        rows = rows && type->shape.ndim > 0 && type->shape.dim[0] > 1;
        if (n < 8) inputs[n] = *type;
        fit = ++n <= 8;
    }
    net->rows = rows ? 1 + below(make, 2) : 0;
    net->dataset = datasets[below(make, 3)];
    if (net->mode == MODE_DATA_PARALLEL || n == 0 || !fit || !chance(make, 15)) return;
    net->dataset = DATASET_EXPLICIT;
    net->dataset_hint = fuzz_layouts(net, inputs, n, make->arena, make->random);
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
    Make make = {.net = net, .arena = arena, .random = &random};
    int family = below(&make, 4);
    make.sizes = sizes[family].at;
    make.nsizes = sizes[family].n;
    make.dtype = chance(&make, 50) ? F32 : F64;
    make.big = chance(&make, 2);
    draw_options(&make);
    for (int n = 1 + below(&make, 2); n > 0; n--) {
        Shape shape = draw_shape(&make, 2 + below(&make, 2));
        int input = add_leaf(&make, FUZZ_INPUT, &shape);
        if (chance(&make, 60)) project(&make, input); /* what follows has a gradient */
    }
    for (int n = 3 + below(&make, 10); n > 0; n--)
        add_statement(&make, draw_op(&make));
    int last = net->items.n - 1;
    while (net->items.at[last].kind == FUZZ_NUMBER)
        last--;
    int value = last * MAX_OUT + below(&make, net->items.at[last].nout);
    if (!any_small(shape_of(&make, value), NULL)) value = find_value(&make, any_small, NULL);
    add_loss(&make, project(&make, value));
    fuzz_prune(net, arena);
    draw_dataset(&make);
}
