/* steps: see steps.h. */
#include "tests/ops/steps.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"

enum { INNER_PERCENT = 60, GUARD = 64 };

static int64_t below(FusedStep *step, int64_t n) {
    return (int64_t)(random_next(&step->random) % (uint64_t)n);
}

static bool chance(FusedStep *step, int percent) {
    return below(step, 100) < percent;
}

static int64_t value_bytes(const StepValue *value) {
    return shape_elements(&value->shape) * dtype_bytes[value->dtype];
}

static bool is_full(const FusedStep *step, const StepValue *value) {
    return shape_equal(&value->shape, &step->shape);
}

/* ---------------------------------------------------------------- memory */

static int64_t take(FusedStep *step, int64_t bytes) {
    const int64_t at = (step->used + GUARD + 63) / 64 * 64 + (chance(step, 30) ? 8 : 0);
    step->used = at + bytes;
    return at;
}

static int add_value(FusedStep *step, DType dtype, const Shape *shape, int from) {
    step->value[step->nvalues] = (StepValue){.dtype = dtype, .shape = *shape, .at = -1, .from = from, .in_order = true, .last_use = -1};
    return step->nvalues++;
}

static int add_input(FusedStep *step, DType dtype, const Shape *shape) {
    const int v = add_value(step, dtype, shape, -1);
    step->value[v].at = take(step, value_bytes(&step->value[v]));
    return v;
}

/* Numbers of [-3, 3] in eighths and finer, sometimes 0. */
static void fill(FusedStep *step, const StepValue *value) {
    for (int64_t i = 0, n = shape_elements(&value->shape); i < n; i++) {
        const double number = (double)(below(step, 6001) - 3000) / 1000;
        element_put(step->memory + value->at, value->dtype, i,
                    value->dtype == BOOL            ? (double)chance(step, 50)
                    : !dtype_is_float(value->dtype) ? (double)(int)number
                    : chance(step, 5)               ? 0
                                                    : number);
    }
}

/* ---------------------------------------------------------------- calls */

static const OpCode elements[] = {
#define ELEMENTWISE(name) OP_##name,
#include "ir/elementwise.def"
    OP_constant};
static const OpCode views[] = {OP_transpose, OP_reshape, OP_slice, OP_split, OP_sum_grad, OP_mean_grad, OP_stop_gradient};

static Attr ints(int n) {
    return (Attr){.given = true, .n = n};
}

/* Axes of the step's results, at least one. */
static Attr random_axes(FusedStep *step, int ndim) {
    Attr axes = ints(0);
    const bool trailing = chance(step, 50);
    const int n = 1 + (int)below(step, ndim);
    for (int i = 0; i < n; i++)
        axes.ints[axes.n++] = trailing ? ndim - n + i : i;
    return axes;
}

static bool random_attr(FusedStep *step, OpCode op, const StepValue *x, Attr *attr) {
    memset(attr, 0, MAX_ATTRS * sizeof *attr);
    if (op == OP_constant) attr[0] = (Attr){.given = true, .f = (double)below(step, 5) - 2};
    if (op == OP_gelu || op == OP_gelu_grad) attr[0].i = chance(step, 50);
    if (op == OP_clip) attr[0] = (Attr){.given = true, .f = 0.5};
    if (op == OP_clamp || op == OP_clamp_grad) {
        attr[0] = (Attr){.given = chance(step, 70), .f = -(double)below(step, 3)};
        attr[1] = (Attr){.given = !attr[0].given || chance(step, 50), .f = (double)below(step, 3)};
    }
    if (op == OP_cast || op == OP_compress)
        attr[0] = (Attr){.given = true,
                         .text = dtype_name[op == OP_compress || chance(step, 50) ? (int)step->dtype : (int)below(step, BOOL + 1)]};
    if (op == OP_transpose) { /* of the step's shape with its dimensions turned round */
        attr[0] = ints(x->shape.ndim);
        for (int d = 0; d < x->shape.ndim; d++)
            attr[0].ints[d] = x->shape.ndim - 1 - d;
    }
    if (op == OP_reshape) {
        attr[0] = ints(step->shape.ndim);
        for (int d = 0; d < step->shape.ndim; d++)
            attr[0].ints[d] = step->shape.dim[d];
    }
    if (op == OP_slice) {
        attr[0] = attr[1] = ints(x->shape.ndim);
        for (int d = 0; d < x->shape.ndim; d++) {
            if (x->shape.ndim != step->shape.ndim || x->shape.dim[d] < step->shape.dim[d]) return false;
            attr[0].ints[d] = below(step, x->shape.dim[d] - step->shape.dim[d] + 1);
            attr[1].ints[d] = attr[0].ints[d] + step->shape.dim[d];
        }
    }
    if (op == OP_split) {
        attr[0] = (Attr){.given = true, .i = 2};
        attr[1] = (Attr){.given = true, .i = x->shape.ndim - 1};
        return x->shape.ndim > 0 && x->shape.dim[x->shape.ndim - 1] % 2 == 0;
    }
    if (op == OP_sum_grad || op == OP_mean_grad) { /* the first dimension is new */
        if (x->shape.ndim + 1 != step->shape.ndim) return false;
        attr[0] = attr[1] = ints(1);
        attr[1].n = step->shape.ndim;
        for (int d = 0; d < step->shape.ndim; d++)
            attr[1].ints[d] = step->shape.dim[d];
    }
    return true;
}

static bool is_view(OpCode op) {
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (views[i] == op) return true;
    return false;
}

/* The call with operands chosen and attributes drawn; false where they do not fit. */
static bool add_call(FusedStep *step, OpCode op, const int *in, int nin) {
    const int c = step->ncalls;
    TensorType types[MAX_IN] = {0};
    RuleError failure;
    for (int i = 0; i < nin; i++) {
        types[i] = (TensorType){step->value[in[i]].dtype, false, step->value[in[i]].shape};
        if (!(op_dtypes(op, i) & 1u << types[i].dtype)) return false;
        if (op_type(op, false, i) == 't' && types[i].dtype != types[nin - 1].dtype) return false;
    }
    if (op == OP_constant) {
        step->rule[c] = (Rule){.nout = 1, .result = {{step->dtype, false, step->shape}}};
    } else if (!rule_infer(op, types, nin, step->attr[c], &step->rule[c], &failure))
        return false;
    const Rule *rule = &step->rule[c];
    if (step->nvalues + rule->nout > STEP_VALUES) return false;
    const bool other = op == OP_sum || op == OP_mean || op == OP_sum_to || step->heading;
    for (int o = 0; o < rule->nout && !other; o++)
        if (!shape_equal(&rule->result[o].shape, &step->shape)) return false;
    step->call[c] = (KernelCall){.op = op, .attr = step->attr[c], .nin = nin, .nout = rule->nout, .rule = rule};
    for (int i = 0; i < nin; i++) {
        StepValue *value = &step->value[in[i]];
        step->in[c][i] = in[i];
        value->last_use = c;
        value->in_order = value->in_order && !is_view(op) && op != OP_matmul && is_full(step, value);
    }
    for (int o = 0; o < rule->nout; o++)
        step->out[c][o] = add_value(step, rule->result[o].dtype, &rule->result[o].shape, c);
    step->ncalls++;
    return true;
}

static bool add_random(FusedStep *step, bool view) {
    const OpCode op = view ? views[below(step, (int64_t)(sizeof views / sizeof *views))]
                           : elements[below(step, (int64_t)(sizeof elements / sizeof *elements))];
    const int nin = op == OP_constant ? 0 : op_nin(op);
    int in[MAX_IN];
    for (int i = 0; i < nin; i++) { /* the latest are likely */
        int64_t back = below(step, step->nvalues);
        if (chance(step, 60)) back = below(step, back + 1);
        in[i] = step->nvalues - 1 - (int)back;
        if (view && op != OP_stop_gradient && op != OP_reshape && step->value[in[i]].from >= 0)
            return false; /* what is made within the step keeps its order */
        if (step->value[in[i]].from >= 0 && !is_full(step, &step->value[in[i]])) return false;
    }
    return random_attr(step, op, &step->value[nin ? in[0] : 0], step->attr[step->ncalls]) && add_call(step, op, in, nin);
}

/* ---------------------------------------------------------------- a step */

static void choose_shape(FusedStep *step, int64_t most) {
    step->shape.ndim = 1 + (int)below(step, 3);
    int64_t left = most;
    for (int d = 0; d < step->shape.ndim; d++) {
        const int64_t size = d == step->shape.ndim - 1 ? left : left > 40 ? 40 : left;
        step->shape.dim[d] = chance(step, 3) ? 0 : 1 + below(step, chance(step, 40) ? size : size > 64 ? 64 : size);
        left /= step->shape.dim[d] > 0 ? step->shape.dim[d] : 1;
    }
}

static void add_inputs(FusedStep *step, unsigned with) {
    const Shape *shape = &step->shape;
    Shape other = *shape;
    for (int i = 0; i < 4; i++) {
        other = *shape;
        for (int d = 0; i >= 2 && d < shape->ndim; d++)
            other.dim[d] = chance(step, 50) ? 1 : other.dim[d];
        add_input(step, step->dtype, &other);
    }
    add_input(step, BOOL, shape);
    add_input(step, step->dtype, &(Shape){0});
    Shape last = {.ndim = 1, .dim = {shape->dim[shape->ndim - 1]}};
    add_input(step, step->dtype, &last);
    if (!(with & STEP_WITH_VIEWS)) return;
    for (int d = 0; d < shape->ndim; d++) /* for transpose */
        other.dim[d] = shape->dim[shape->ndim - 1 - d];
    add_input(step, step->dtype, &other);
    for (int d = 0; d < shape->ndim; d++) /* slice, split */
        other.dim[d] = shape->dim[d] * (d == shape->ndim - 1 ? 2 : 1 + below(step, 2));
    add_input(step, step->dtype, &other);
    other = (Shape){.ndim = shape->ndim - 1}; /* sum_grad, mean_grad */
    for (int d = 1; d < shape->ndim; d++)
        other.dim[d - 1] = shape->dim[d];
    add_input(step, step->dtype, &other);
    add_input(step, step->dtype, &(Shape){.ndim = 1, .dim = {shape_elements(shape)}}); /* reshape */
}

/* A tensor of this shape as an operand of a product: of memory, or a transpose of such. */
static int add_operand(FusedStep *step, const Shape *shape, unsigned with) {
    Shape from = *shape;
    if (!(with & STEP_WITH_VIEWS) || shape->ndim < 2 || chance(step, 40)) return add_input(step, step->dtype, shape);
    Attr perm = ints(shape->ndim);
    const int a = (int)below(step, shape->ndim), b = (int)below(step, shape->ndim);
    for (int d = 0; d < shape->ndim; d++)
        perm.ints[d] = d == a ? b : d == b ? a : d;
    for (int d = 0; d < shape->ndim; d++)
        from.dim[perm.ints[d]] = shape->dim[d];
    const int in = add_input(step, step->dtype, &from);
    memset(step->attr[step->ncalls], 0, sizeof step->attr[0]);
    step->attr[step->ncalls][0] = perm;
    if (!add_call(step, OP_transpose, &in, 1)) return -1;
    return step->nvalues - 1;
}

/* A product, perhaps transposed to the step's shape. */
static void add_product(FusedStep *step, unsigned with) {
    Shape shape = step->shape;
    const int ndim = shape.ndim;
    const bool turned = ndim == 3 && (with & STEP_WITH_VIEWS) && chance(step, 60);
    if (ndim < 2 || !dtype_is_float(step->dtype)) return;
    if (turned) {
        shape.dim[0] = step->shape.dim[1];
        shape.dim[1] = step->shape.dim[0];
    }
    const int64_t depth = chance(step, 10) ? 0 : 1 + below(step, 40);
    const bool batch = ndim == 3 && chance(step, 50);
    Shape left = shape, right = {.ndim = 2, .dim = {depth, shape.dim[ndim - 1]}};
    left.dim[ndim - 1] = depth;
    if (batch) right = (Shape){.ndim = 3, .dim = {shape.dim[0], depth, shape.dim[2]}};
    step->heading = true;
    const int a = add_operand(step, &left, with), b = add_operand(step, &right, with);
    memset(step->attr[step->ncalls], 0, sizeof step->attr[0]);
    if (a >= 0 && b >= 0 && add_call(step, OP_matmul, (const int[]){a, b}, 2) && turned) {
        const int product = step->nvalues - 1;
        memset(step->attr[step->ncalls], 0, sizeof step->attr[0]);
        step->attr[step->ncalls][0] = (Attr){.given = true, .n = 3, .ints = {1, 0, 2}};
        add_call(step, OP_transpose, &product, 1);
    }
    step->heading = false;
    step->nheading = step->ncalls;
}

static void add_sum(FusedStep *step) {
    const int x = step->nvalues - 1;
    const OpCode op = chance(step, 30) && dtype_is_float(step->value[x].dtype) ? OP_mean : OP_sum;
    if (step->value[x].dtype == BOOL || step->value[x].from < 0 || is_view(step->call[step->value[x].from].op)) return;
    memset(step->attr[step->ncalls], 0, sizeof step->attr[0]);
    if (chance(step, 80)) step->attr[step->ncalls][0] = random_axes(step, step->shape.ndim);
    if (step->shape.ndim > 2 && chance(step, 40)) { /* all but one between them */
        const int kept = 1 + (int)below(step, step->shape.ndim - 2);
        step->attr[step->ncalls][0] = ints(0);
        for (int d = 0; d < step->shape.ndim; d++)
            if (d != kept) step->attr[step->ncalls][0].ints[step->attr[step->ncalls][0].n++] = d;
    }
    add_call(step, op, &x, 1);
}

/* Every result that something reads may be inner; a stored one may take the place of an operand whose readers are all before it, or itself.
 */
static void place_results(FusedStep *step) {
    for (int c = 0; c < step->ncalls; c++)
        for (int o = 0; o < step->call[c].nout; o++) {
            StepValue *value = &step->value[step->out[c][o]];
            value->inner = value->last_use > c && (chance(step, INNER_PERCENT) || c + 1 < step->nheading);
            if (value->inner) step->inner[c] |= 1u << o;
            for (int v = 0; v < step->nvalues && !value->inner && value->at < 0 && chance(step, 50); v++) {
                StepValue *old = &step->value[v];
                if (old->from >= 0 || !old->in_order || old->last_use > c || old->last_use < 0 || old->dtype != value->dtype ||
                    !is_full(step, old) || !is_full(step, value))
                    continue;
                value->at = old->at;
                old->in_order = false; /* taken */
            }
            if (value->at < 0) value->at = take(step, value_bytes(value));
        }
}

static Operand operand_of(const FusedStep *step, const StepValue *value) {
    Operand operand = {.data = step->memory + value->at,
                       .dtype = value->dtype,
                       .local = value->shape,
                       .global = value->shape,
                       .box = {.ndim = value->shape.ndim}};
    for (int d = 0; d < value->shape.ndim; d++)
        operand.box.end[d] = value->shape.dim[d];
    return operand;
}

void step_random(FusedStep *step, uint64_t seed, int64_t most, unsigned with) {
    static const DType dtypes[] = {F32, F32, F32, F64, I32, I64, F16, BF16};
    *step = (FusedStep){.random = seed * 7919 + 1};
    step->dtype = with & STEP_WITH_PRODUCT ? F32 : dtypes[below(step, (int64_t)(sizeof dtypes / sizeof *dtypes))];
    choose_shape(step, most);
    add_inputs(step, with);
    if (with & STEP_WITH_PRODUCT) add_product(step, with);
    const int want = 2 + (int)below(step, STEP_CALLS - 3);
    for (int attempt = 0; attempt < 4000 && step->ncalls < want; attempt++)
        add_random(step, (with & STEP_WITH_VIEWS) && chance(step, 20));
    if (with & STEP_WITH_SUM) add_sum(step);
    place_results(step);
    step->bytes = step->used + GUARD;
    step->memory = malloc((size_t)step->bytes);
    memset(step->memory, 0x55, (size_t)step->bytes);
    for (int v = 0; v < step->nvalues; v++)
        if (step->value[v].from < 0) fill(step, &step->value[v]);
    for (int c = 0; c < step->ncalls; c++) {
        for (int i = 0; i < step->call[c].nin; i++)
            step->call[c].in[i] = operand_of(step, &step->value[step->in[c][i]]);
        for (int o = 0; o < step->call[c].nout; o++)
            step->call[c].out[o] = operand_of(step, &step->value[step->out[c][o]]);
    }
}

void step_finish(FusedStep *step) {
    free(step->memory);
}

static void print_value(const FusedStep *step, int v, Text *text) {
    const StepValue *value = &step->value[v];
    text_printf(text, " %%%d:%s[", v, dtype_name[value->dtype]);
    for (int d = 0; d < value->shape.ndim; d++)
        text_printf(text, "%s%lld", d ? "," : "", (long long)value->shape.dim[d]);
    text_printf(text, "]@%lld%s", (long long)value->at, value->inner ? " inner" : "");
}

void step_print(const FusedStep *step, Text *text) {
    for (int c = 0; c < step->ncalls; c++) {
        text_printf(text, "%s", op_table[step->call[c].op].name);
        for (int i = 0; i < step->call[c].nin; i++)
            print_value(step, step->in[c][i], text);
        text_printf(text, " ->");
        for (int o = 0; o < step->call[c].nout; o++)
            print_value(step, step->out[c][o], text);
        text_printf(text, "\n");
    }
}
