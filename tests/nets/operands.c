/* Operands of a random statement: values that there are, new leaves, and what fits an operator's row. */
#include <stdlib.h>
#include <string.h>

#include "tests/nets/make.h"

/* ---------------------------------------------------------------- sizes */

int64_t draw_size(Make *make) {
    return make->sizes[below(make, make->nsizes)];
}

int64_t draw_divisor(Make *make, int64_t n) {
    int64_t divisor = 1;
    for (int64_t d = 2, seen = 1; d <= n; d++)
        if (n % d == 0 && below(make, (int)++seen) == 0) divisor = d;
    return divisor;
}

Shape draw_shape(Make *make, int ndim) {
    Shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim; d++)
        shape.dim[d] = draw_size(make);
    while (shape_elements(&shape) > FUZZ_MOST_ELEMENTS)
        shape.ndim--;
    return shape;
}

/* ---------------------------------------------------------------- leaves */

int add_item(Make *make, FuzzItem item) {
    vec_push(make->arena, &make->net->items, item);
    return (make->net->items.n - 1) * MAX_OUT;
}

/* Nested as the type's dimensions are. */
static const char *literal(Make *make, const TensorType *type, int64_t range) {
    /* A sum of up to 24 of them is never 0: of a mean that is, one rank has 0 and others have what rounding leaves of its terms. */
    static const double off_grid = 0.0123;
    Text text = {0};
    const Shape *shape = &type->shape;
    int64_t n = shape_elements(shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t block = 1;
        text_printf(&text, "%s", i ? ", " : "");
        for (int d = shape->ndim - 1; d >= 0; d--)
            if (i % (block *= shape->dim[d]) == 0) text_printf(&text, "[");
        text_printf(&text, "%g", range > 0 ? below(make, (int)range) : (double)(below(make, 33) - 16) / 16 + off_grid);
        block = 1;
        for (int d = shape->ndim - 1; d >= 0; d--)
            if ((i + 1) % (block *= shape->dim[d]) == 0) text_printf(&text, "]");
    }
    const char *copy = arena_copy(make->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

void draw_elements(Make *make, FuzzItem *item, int64_t range) {
    enum { SHORT = 24, LONG = 96 }; /* integers that are all the same say little */
    const TensorType *type = &item->type[0];
    if (dtype_is_float(type->dtype))
        range = 0;
    else if (range == 0)
        range = type->dtype == BOOL ? 2 : 4;
    bool fits = shape_elements(&type->shape) <= (range > 0 ? LONG : SHORT);
    item->init = fits ? literal(make, type, range) : range == 1 ? "zeros" : "ones";
}

bool has_elements(const FuzzItem *item) {
    return item->kind != FUZZ_CONST || item->init;
}

int add_leaf(Make *make, FuzzKind kind, DType dtype, const Shape *shape) {
    /* No equal elements: of thousands of equal terms an f32 product rounds each the same way, and rows that sum to 1 times ones tie for an argmax. */
    static const char *const params[] = {"normal(0.3)", "uniform(-0.5, 0.5)", "normal(1)", "uniform(0.5, 1.5)"};
    FuzzItem item = {.kind = kind, .nout = 1, .type[0] = {.dtype = dtype, .shape = *shape}};
    if (kind == FUZZ_PARAM) item.init = params[below(make, 4)];
    if (kind == FUZZ_CONST && dtype_is_float(dtype)) draw_elements(make, &item, 0);
    bool may_split = make->net->mode != MODE_DATA_PARALLEL && shape->ndim > 0 && (kind == FUZZ_INPUT || kind == FUZZ_PARAM);
    if (may_split && chance(make, 20)) item.hint = fuzz_layouts(make->net, &item.type[0], 1, make->arena, make->random);
    return add_item(make, item);
}

int add_number(Make *make, DType dtype, double number) {
    return add_item(make, (FuzzItem){.kind = FUZZ_NUMBER, .nout = 1, .type[0] = {.dtype = dtype}, .number = number});
}

/* Reals: a param in all but so many cases out of a hundred. Others cannot be trained, nor drawn by numpy_rand. */
static int draw_leaf(Make *make, DType dtype, const Shape *shape, FuzzKind seldom, int percent) {
    bool real = dtype_is_float(dtype);
    FuzzKind kind = real ? FUZZ_PARAM : FUZZ_CONST;
    if (chance(make, real ? percent : 50)) kind = real ? seldom : make->net->data == DATA_NUMPY_RAND ? FUZZ_CONST : FUZZ_INPUT;
    return add_leaf(make, kind, dtype, shape);
}

/* ---------------------------------------------------------------- values that there are */

bool any_small(const Shape *shape, const Shape *with) {
    (void)with;
    return shape_elements(shape) <= FUZZ_MOST_ELEMENTS;
}

bool equal_shapes(const Shape *shape, const Shape *with) {
    return shape_equal(shape, with);
}

static bool broadcasts(const Shape *shape, const Shape *with) {
    int64_t n = 1;
    for (int d = 1; d <= shape->ndim || d <= with->ndim; d++) {
        int64_t a = d <= shape->ndim ? shape->dim[shape->ndim - d] : 1, b = d <= with->ndim ? with->dim[with->ndim - d] : 1;
        if (a != b && a != 1 && b != 1) return false;
        n *= a > b ? a : b;
    }
    return n <= FUZZ_MOST_ELEMENTS;
}

static int find(Make *make, unsigned dtypes, bool constants, Accepts *accepts, const Shape *with) {
    const FuzzNet *net = make->net;
    int first = chance(make, 50) && net->items.n > 4 ? net->items.n - 4 : 0, found = -1, seen = 0;
    for (int i = first; i < net->items.n; i++) {
        const FuzzItem *item = &net->items.at[i];
        if (item->kind == FUZZ_NUMBER || (item->kind == FUZZ_CONST && (!constants || !item->init))) continue;
        for (int o = 0; o < item->nout; o++)
            if (dtypes & 1u << item->type[o].dtype && accepts(&item->type[o].shape, with) && below(make, ++seen) == 0)
                found = i * MAX_OUT + o;
    }
    return found;
}

int find_value(Make *make, unsigned dtypes, Accepts *accepts, const Shape *with) {
    return find(make, dtypes, true, accepts, with);
}

/* ---------------------------------------------------------------- one operand */

/* A number of an index's range may be out of another's: such a constant has one user. */
static bool may_be_constant(OpCode op, int operand) {
    return op_type(op, false, operand) != 'i';
}

static DType draw_dtype(Make *make, unsigned dtypes) {
    if (dtypes & 1u << make->dtype) return make->dtype;
    int found = 0, seen = 0;
    for (int t = 0; t < NDTYPES; t++)
        if (dtypes & 1u << t && !dtype_is_half((DType)t) && below(make, ++seen) == 0)
            found = t; /* sums of halves differ too much between ranks */
    return (DType)found;
}

/* An earlier operand that this one has its element type from; -1: none. */
static int same_letter(OpCode op, int operand) {
    for (int i = 0; i < operand; i++)
        if (op_type(op, false, i) == op_type(op, false, operand)) return i;
    return -1;
}

static DType operand_dtype(Make *make, OpCode op, const int *in, int operand) {
    int like = same_letter(op, operand);
    return like >= 0 ? dtype_of(make, in[like]) : draw_dtype(make, op_dtypes(op, operand));
}

/* A condition or an index that a new statement makes of reals: nobody else needs one, so that few would be left of those made by chance. */
static int make_value(Make *make, unsigned dtypes) {
    int found = -1, seen = 0;
    for (int op = 0; op < NOPS; op++) {
        const Op *row = &op_table[op];
        if (row->op_class != OP_CLASS_USER || !row->types) continue;
        char letter = op_type((OpCode)op, true, 0);
        unsigned made = letter == 'b' ? 1u << BOOL : letter == 'n' ? 1u << I32 : 0;
        if (dtypes & made && below(make, ++seen) == 0) found = op;
    }
    return found >= 0 ? add_statement(make, (OpCode)found) : -1;
}

int draw_first(Make *make, OpCode op) {
    unsigned dtypes = op_dtypes(op, 0);
    if (dtypes & 1u << make->dtype) {
        int value = chance(make, 75) ? find(make, 1u << make->dtype, true, any_small, NULL) : -1;
        return value >= 0 ? value : find(make, dtypes, true, any_small, NULL);
    }
    int value = chance(make, 50) ? make_value(make, dtypes) : -1;
    if (value < 0 && chance(make, 80)) value = find(make, dtypes, may_be_constant(op, 0), any_small, NULL);
    if (value >= 0) return value;
    Shape shape = draw_shape(make, 1 + below(make, 2));
    return draw_leaf(make, draw_dtype(make, dtypes), &shape, FUZZ_INPUT, 10);
}

/* An operand of this shape: mostly a value that there is, so that values and parameters are used more than once. */
static int operand_like(Make *make, OpCode op, const int *in, int operand, const Shape *shape) {
    DType dtype = operand_dtype(make, op, in, operand);
    int value = chance(make, 50) ? find(make, 1u << dtype, may_be_constant(op, operand), equal_shapes, shape) : -1;
    return value >= 0 ? value : draw_leaf(make, dtype, shape, FUZZ_INPUT, 10);
}

/* An operand to combine elementwise with in[0]. */
static int partner(Make *make, OpCode op, const int *in, int operand) {
    const Shape shape = *shape_of(make, in[0]);
    DType dtype = operand_dtype(make, op, in, operand);
    int value = chance(make, 60) ? find_value(make, 1u << dtype, broadcasts, &shape) : -1;
    if (value >= 0) return value;
    if (dtype != BOOL && same_letter(op, operand) >= 0 && chance(make, 15))
        return add_number(make, dtype, dtype_is_float(dtype) ? (1 + below(make, 8)) / 4.0 : 1 + below(make, 4));
    Shape part = {0};
    for (int d = below(make, shape.ndim + 1); d < shape.ndim; d++)
        part.dim[part.ndim++] = chance(make, 20) ? 1 : shape.dim[d];
    return draw_leaf(make, dtype, &part, FUZZ_CONST, 15);
}

/* ---------------------------------------------------------------- operands as samples tie them */

/* Which size each number of a sample stands for here. */
typedef struct Sizes {
    int n;
    struct {
        int64_t sample, size;
    } at[MAX_NDIM * MAX_IN + 1];
} Sizes;

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

static int sizes_find(const Sizes *sizes, int64_t sample) {
    int k = 0;
    while (k < sizes->n && sizes->at[k].sample != sample)
        k++;
    return k;
}

static void sizes_set(Sizes *sizes, int k, int64_t sample, int64_t size) {
    sizes->at[k].sample = sample;
    sizes->at[k].size = size;
    if (k == sizes->n) sizes->n++;
}

/* Whether the operand may have this shape; the sizes of others are then what it makes them. */
static bool sizes_bind(Sizes *sizes, const Shape *sample, const Shape *shape) {
    Sizes with = *sizes;
    if (sample->ndim != shape->ndim) return false;
    for (int d = 0; d < sample->ndim; d++) {
        int k = sizes_find(&with, sample->dim[d]);
        if (k < with.n && with.at[k].size != shape->dim[d]) return false;
        sizes_set(&with, k, sample->dim[d], shape->dim[d]);
    }
    *sizes = with;
    return true;
}

static Shape sizes_fill(Make *make, Sizes *sizes, const Shape *sample) {
    Shape shape = {.ndim = sample->ndim};
    for (int d = 0; d < sample->ndim; d++) {
        int k = sizes_find(sizes, sample->dim[d]);
        if (k == sizes->n) sizes_set(sizes, k, sample->dim[d], draw_size(make));
        shape.dim[d] = sizes->at[k].size;
    }
    return shape;
}

/* The operands after the first as one of the row's samples ties their sizes: equal numbers there are equal sizes here, others are random.
 * 0: the sample that was drawn does not fit the first operand. */
static int operands_by_sample(Make *make, OpCode op, int *in) {
    const char *samples = op_table[op].samples, *at = samples;
    Sizes sizes = {.n = 1, .at = {{1, 1}}};
    int nin = op_nin(op), nsamples = 1;
    for (const char *c = samples; *c; c++)
        nsamples += *c == ';';
    for (int skip = below(make, nsamples); skip > 0; skip--)
        at = strchr(at, ';') + 2;
    for (int i = 0; i < nin; i++) {
        if (*at < '0' || *at > '9') return op_table[op].optional ? i : 0;
        Shape sample = sample_operand(&at);
        if (i == 0) {
            if (!sizes_bind(&sizes, &sample, shape_of(make, in[0]))) return 0;
            continue;
        }
        unsigned dtypes = same_letter(op, i) < 0 ? op_dtypes(op, i) : 1u << operand_dtype(make, op, in, i);
        in[i] = op_type(op, false, i) == 'i' && chance(make, 30) ? make_value(make, dtypes) : -1;
        if (in[i] < 0 && chance(make, 50)) in[i] = find(make, dtypes, may_be_constant(op, i), any_small, NULL);
        if (in[i] >= 0 && sizes_bind(&sizes, &sample, shape_of(make, in[i]))) continue;
        Shape shape = sizes_fill(make, &sizes, &sample);
        in[i] = operand_like(make, op, in, i, &shape);
    }
    return nin;
}

/* ---------------------------------------------------------------- operands by the row */

/* matmul: batches of operand 0 or none; sometimes so many columns that the parameter is updated in parts. */
static void operand_of_product(Make *make, const Attr *attr, int *in) {
    const Shape *shape = shape_of(make, in[0]);
    bool across = attr[0].i != 0, turned = attr[1].i != 0;
    int64_t rows = shape->dim[shape->ndim - 1 - !across], depth = shape->dim[shape->ndim - 1 - across], columns = draw_size(make);
    bool is_big = make->big && rows * shape_elements(shape) / (rows * depth) <= 16;
    if (is_big) columns = FUZZ_BIG_BYTES / dtype_bytes[dtype_of(make, in[0])] / depth + (chance(make, 50) ? 1 : 5);
    Shape other = {0};
    for (int d = is_big || chance(make, 70) ? shape->ndim - 2 : 0; d < shape->ndim - 2; d++)
        other.dim[other.ndim++] = chance(make, 20) ? 1 : shape->dim[d];
    other.dim[other.ndim++] = turned ? columns : depth;
    other.dim[other.ndim++] = turned ? depth : columns;
    in[1] = operand_like(make, OP_matmul, in, 1, &other);
}

/* concat: equal sizes but along the axis; stack: equal sizes. */
static int operands_of_concat(Make *make, OpCode op, const Attr *attr, int *in) {
    Shape shape = *shape_of(make, in[0]);
    int64_t axis = attr->i < 0 ? attr->i + shape.ndim : attr->i;
    int n = 2 + (chance(make, 30) ? below(make, 3) : 0);
    for (int i = 1; i < n; i++) {
        if (chance(make, 50) && op == OP_concat) shape.dim[axis] = draw_size(make);
        in[i] = operand_like(make, op, in, 1, &shape);
    }
    return n;
}

/* One of the one or two numbers that an attribute gives for height and width. */
static int64_t of_plane(const Attr *attr, int d, int64_t otherwise) {
    return attr->given ? attr->ints[attr->n == 2 ? d : 0] : otherwise;
}

/* conv2d: pictures of their own where operand 0 is none; windows that fit. */
static int operands_of_conv2d(Make *make, const Attr *attr, int *in) {
    const int64_t groups = attr[3].given ? attr[3].i : 1;
    Shape x = *shape_of(make, in[0]);
    if (x.ndim != 4 || x.dim[1] % groups != 0) {
        x = (Shape){.ndim = 4, .dim = {draw_size(make), groups * (1 + below(make, 2)), 2 + below(make, 4), 2 + below(make, 4)}};
        in[0] = draw_leaf(make, dtype_of(make, in[0]), &x, FUZZ_INPUT, 10);
    }
    Shape w = {.ndim = 4, .dim = {groups * (1 + below(make, 3)), x.dim[1] / groups}};
    for (int d = 0; d < 2; d++) {
        const int64_t room = x.dim[2 + d] + 2 * of_plane(&attr[1], d, 0), most = 1 + (room - 1) / of_plane(&attr[2], d, 1);
        w.dim[2 + d] = 1 + below(make, most < 3 ? (int)most : 3);
    }
    in[1] = operand_like(make, OP_conv2d, in, 1, &w);
    return 2;
}

static int operands_that_broadcast(Make *make, OpCode op, int *in) {
    int nin = op_nin(op);
    for (int i = 1; i < nin; i++)
        in[i] = partner(make, op, in, i);
    if (nin == 2 && chance(make, 20) && make->net->items.at[in[1] / MAX_OUT].kind != FUZZ_NUMBER) { /* the other way round */
        int kept = in[0];
        in[0] = in[1];
        in[1] = kept;
    }
    return nin;
}

int draw_operands(Make *make, OpCode op, const Attr *attr, int in[MAX_IN]) {
    const char *letters = op_table[op].letters;
    int ndim = shape_of(make, in[0])->ndim;
    if (op == OP_matmul) {
        if (ndim < 2) return 0;
        operand_of_product(make, attr, in);
        return 2;
    }
    if (op == OP_conv2d) return operands_of_conv2d(make, attr, in);
    if (op_table[op].variadic) return ndim == 0 ? 0 : operands_of_concat(make, op, attr, in);
    if (letters && strncmp(letters, "...", 3) == 0) return operands_that_broadcast(make, op, in);
    enum { TRIES = 4 };
    int nin = op_nin(op) > 1 ? 0 : 1;
    for (int i = 0; i < TRIES && nin == 0; i++)
        nin = operands_by_sample(make, op, in);
    return nin;
}
