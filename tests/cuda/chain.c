/* Runs of calls as one launch against the same calls one by one, both on the device: random operators and views on random shapes, results
 * where operands lay that nobody reads any more, whole or in part, as a plan's arena has them. What the launch leaves must be the same to
 * the bit, and no other byte may change. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fixture.h"

enum { MOST_CALLS = 12, MOST_VALUES = 64, MOST_ELEMENTS = 3000 };

/* A tensor of a run. */
typedef struct Tensor {
    DType dtype;
    Shape shape;
    int64_t at;   /* in the image */
    int from;     /* the call, -1: there before */
    int last_use; /* the last call that reads it, -1: none */
    bool stays;   /* something after the run reads it, or it is an input that must not change */
} Tensor;

typedef struct Run {
    Image image;
    uint64_t random;
    DType dtype;
    Tensor value[MOST_VALUES];
    int nvalues;
    KernelCall call[MOST_CALLS];
    int in[MOST_CALLS][MAX_IN], out[MOST_CALLS][MAX_OUT]; /* values */
    Attr attr[MOST_CALLS][MAX_ATTRS];
    Rule rule[MOST_CALLS];
    Box cut[MOST_CALLS]; /* of convert's operand */
    int ncalls;
} Run;

static int64_t value_bytes(const Tensor *value) {
    return shape_elements(&value->shape) * dtype_bytes[value->dtype];
}

/* ---------------------------------------------------------------- random calls */

static int add_input(Run *run, DType dtype, const Shape *shape) {
    Tensor *value = &run->value[run->nvalues];
    void *data = image_take(&run->image, &run->random, shape_elements(shape), dtype);
    Operand operand = operand_at(data, dtype, shape);
    operand_fill(&operand, &run->random, false);
    *value = (Tensor){.dtype = dtype,
                      .shape = *shape,
                      .at = (char *)data - run->image.host,
                      .from = -1,
                      .last_use = -1,
                      .stays = random_chance(&run->random, 30)};
    return run->nvalues++;
}

static const OpCode views[] = {OP_transpose, OP_reshape,       OP_slice, OP_split,  OP_sum_grad,
                               OP_mean_grad, OP_stop_gradient, OP_write, OP_convert};
static const OpCode elements[] = {OP_add,          OP_sub,         OP_mul,       OP_div,       OP_neg,      OP_relu,      OP_tanh,
                                  OP_exp,          OP_log,         OP_sqrt,      OP_sigmoid,   OP_gelu,     OP_silu,      OP_rsqrt,
                                  OP_square,       OP_cast,        OP_less,      OP_equal,     OP_where,    OP_relu_grad, OP_tanh_grad,
                                  OP_sigmoid_grad, OP_square_grad, OP_gelu_grad, OP_silu_grad, OP_max_mask, OP_clip,      OP_rsqrt_grad,
                                  OP_add,          OP_mul,         OP_add,       OP_relu_grad, OP_mul,      OP_greater,   OP_abs,
                                  OP_abs_grad,     OP_sin,         OP_cos,       OP_softplus,  OP_maximum,  OP_minimum,   OP_clamp,
                                  OP_clamp_grad,   OP_max_share};

static Attr ints(int n) {
    return (Attr){.given = true, .n = n};
}

/* Attributes for a value as operand 0. False where the operator does not take it. */
static bool random_attr(Run *run, OpCode op, const Tensor *x, Attr *attr) {
    static const char *const names[] = {"f32", "f64", "i32", "i64", "bool"};
    uint64_t *random = &run->random;
    const int ndim = x->shape.ndim;
    memset(attr, 0, MAX_ATTRS * sizeof *attr);
    if (op == OP_gelu || op == OP_gelu_grad) attr[0].i = random_chance(random, 50);
    if (op == OP_clip) attr[0] = (Attr){.given = true, .f = 0.5};
    if (op == OP_clamp || op == OP_clamp_grad) {
        attr[0] = (Attr){.given = random_chance(random, 70), .f = -random_below(random, 3)};
        attr[1] = (Attr){.given = !attr[0].given || random_chance(random, 50), .f = random_below(random, 3)};
    }
    if (op == OP_cast)
        attr[0] = (Attr){.given = true, .text = names[random_chance(random, 50) ? (int)run->dtype : (int)random_below(random, NDTYPES)]};
    if (op == OP_transpose) {
        attr[0] = ints(ndim);
        for (int d = 0; d < ndim; d++)
            attr[0].ints[d] = d;
        for (int d = ndim - 1; d > 0; d--) {
            int other = (int)random_below(random, d + 1);
            int64_t kept = attr[0].ints[d];
            attr[0].ints[d] = attr[0].ints[other];
            attr[0].ints[other] = kept;
        }
    }
    if (op == OP_reshape) { /* one dimension divided, or two joined */
        int at = ndim > 0 ? (int)random_below(random, ndim) : 0;
        attr[0] = ints(0);
        for (int d = 0; d < ndim; d++) {
            int64_t size = x->shape.dim[d], part = 2 + random_below(random, 3);
            bool divide = d == at && size % part == 0 && ndim < 5 && random_chance(random, 60), join = d == at && !divide && d + 1 < ndim;
            if (divide) attr[0].ints[attr[0].n++] = part;
            attr[0].ints[attr[0].n++] = divide ? size / part : join ? size * x->shape.dim[++d] : size;
        }
    }
    if (op == OP_slice) {
        attr[0] = attr[1] = ints(ndim);
        for (int d = 0; d < ndim; d++) {
            attr[0].ints[d] = random_chance(random, 60) ? 0 : random_below(random, x->shape.dim[d]);
            attr[1].ints[d] =
                random_chance(random, 60) ? x->shape.dim[d] : attr[0].ints[d] + 1 + random_below(random, x->shape.dim[d] - attr[0].ints[d]);
        }
    }
    if (op == OP_split) {
        int axis = ndim > 0 ? (int)random_below(random, ndim) : 0;
        if (ndim == 0 || x->shape.dim[axis] % 2) return false;
        attr[0] = (Attr){.given = true, .i = 2};
        attr[1] = (Attr){.given = true, .i = axis};
    }
    if (op == OP_sum_grad || op == OP_mean_grad) { /* a dimension more */
        int axis = (int)random_below(random, ndim + 1);
        if (ndim > 4) return false;
        attr[0] = ints(1);
        attr[0].ints[0] = axis;
        attr[1] = ints(ndim + 1);
        for (int d = 0; d <= ndim; d++)
            attr[1].ints[d] = d == axis ? 1 + random_below(random, 9) : x->shape.dim[d < axis ? d : d - 1];
    }
    return true;
}

/* The box that a conversion on this rank takes of its operand's, and its shape. */
static void random_cut(Run *run, Box *cut, Shape *shape) {
    cut->ndim = shape->ndim;
    for (int d = 0; d < shape->ndim; d++) {
        bool whole = random_chance(&run->random, 60);
        cut->begin[d] = whole ? 0 : random_below(&run->random, shape->dim[d]);
        cut->end[d] = whole ? shape->dim[d] : cut->begin[d] + 1 + random_below(&run->random, shape->dim[d] - cut->begin[d]);
        shape->dim[d] = cut->end[d] - cut->begin[d];
    }
}

/* One more call, on values that fit; false where the draw was none. */
static bool add_call(Run *run, bool view) {
    uint64_t *random = &run->random;
    const int c = run->ncalls;
    const OpCode op = view ? views[random_below(random, (int64_t)(sizeof views / sizeof *views))]
                           : elements[random_below(random, (int64_t)(sizeof elements / sizeof *elements))];
    TensorType types[MAX_IN];
    RuleError failure;
    KernelCall *call = &run->call[c];
    *call = (KernelCall){.op = op, .attr = run->attr[c], .nin = op_nin(op), .rule = &run->rule[c]};
    for (int i = 0; i < call->nin; i++) { /* the latest are likely */
        int back = (int)random_below(random, run->nvalues);
        if (random_chance(random, 60)) back = (int)random_below(random, back + 1);
        const int v = run->in[c][i] = run->nvalues - 1 - back;
        types[i] = (TensorType){run->value[v].dtype, false, run->value[v].shape};
        if (types[i].dtype != (op_type(op, false, i) == 'b' ? BOOL : types[call->nin - 1].dtype) && i == call->nin - 1 && op != OP_where)
            return false;
    }
    for (int i = 0; i < call->nin; i++)
        if (!(op_dtypes(op, i) & 1u << types[i].dtype)) return false;
    if (!random_attr(run, op, &run->value[run->in[c][0]], run->attr[c]) ||
        !rule_infer(op, types, call->nin, run->attr[c], &run->rule[c], &failure))
        return false;
    call->nout = run->rule[c].nout;
    if (op == OP_convert) random_cut(run, &run->cut[c], &run->rule[c].result[0].shape);
    if (run->nvalues + call->nout > MOST_VALUES) return false;
    for (int o = 0; o < call->nout; o++) {
        int64_t n = shape_elements(&run->rule[c].result[o].shape);
        if (n > MOST_ELEMENTS || n == 0) return false;
    }
    for (int i = 0; i < call->nin; i++)
        run->value[run->in[c][i]].last_use = c;
    for (int o = 0; o < call->nout; o++) {
        const TensorType *type = &run->rule[c].result[o];
        run->out[c][o] = run->nvalues;
        run->value[run->nvalues++] =
            (Tensor){.dtype = type->dtype, .shape = type->shape, .from = c, .last_use = -1, .stays = random_chance(random, 20)};
    }
    run->ncalls++;
    return true;
}

/* ---------------------------------------------------------------- memory */

static bool is_free(const Run *run, int call, int64_t at, int64_t bytes, int except) {
    for (int v = 0; v < run->nvalues; v++) {
        const Tensor *value = &run->value[v];
        bool placed = value->from < call || (value->from == call && v < except),
             needed = value->stays || value->last_use >= call || value->from == call;
        if (v != except && placed && needed && at < value->at + value_bytes(value) && value->at < at + bytes) return false;
        if (value->from == call && v == except) break; /* results that come later have no place yet */
    }
    return true;
}

/* Where result o of a call goes: over its operand, where something lay that nobody needs, anywhere. */
static void place(Run *run, int c, int o) {
    uint64_t *random = &run->random;
    const int v = run->out[c][o];
    Tensor *value = &run->value[v];
    const Tensor *first = &run->value[run->in[c][0]];
    const int64_t bytes = value_bytes(value), size = dtype_bytes[value->dtype];
    if (op_table[run->call[c].op].in_place && o == 0 && random_chance(random, 50) && first->last_use == c && !first->stays &&
        first->dtype == value->dtype && shape_equal(&first->shape, &value->shape)) {
        value->at = first->at;
        return;
    }
    for (int attempt = 0; attempt < 40; attempt++) {
        const Tensor *old = &run->value[random_below(random, v > 0 ? v : 1)];
        int64_t near = random_chance(random, 50) ? 0 : random_below(random, 33) - 16, at = (old->at / size + near) * size;
        if (at < 0 || at + bytes > run->image.bytes || !is_free(run, c, at, bytes, v)) continue;
        value->at = at;
        run->image.used = run->image.used > at + bytes ? run->image.used : at + bytes;
        return;
    }
    value->at = (char *)image_take(&run->image, random, shape_elements(&value->shape), value->dtype) - run->image.host;
}

static void random_run(Run *run, uint64_t seed) {
    static const DType dtypes[] = {F32, F32, F32, F32, F64, I32, I64};
    *run = (Run){.random = seed * 7919 + 1};
    uint64_t *random = &run->random;
    image_init(&run->image, 192 << 10);
    run->dtype = dtypes[random_below(random, (int64_t)(sizeof dtypes / sizeof *dtypes))];
    Shape shape = random_shape(random, 4, MOST_ELEMENTS / 4);
    for (int i = 0; i < 4; i++) {
        Shape part = shape;
        for (int d = 0; i >= 2 && d < part.ndim; d++)
            part.dim[d] = random_chance(random, 40) ? 1 : part.dim[d];
        add_input(run, run->dtype, &part);
    }
    add_input(run, BOOL, &shape);
    add_input(run, run->dtype, &(Shape){0});
    const int want = 2 + (int)random_below(random, MOST_CALLS - 1);
    for (int attempt = 0; attempt < 4000 && run->ncalls < want; attempt++)
        add_call(run, random_chance(random, 25));
    for (int v = 0; v < run->nvalues; v++)
        if (run->value[v].from >= 0 && run->value[v].last_use < 0 && !random_chance(random, 5)) run->value[v].stays = true;
    for (int c = 0; c < run->ncalls; c++) {
        KernelCall *call = &run->call[c];
        for (int o = 0; o < call->nout; o++)
            place(run, c, o);
        for (int i = 0; i < call->nin; i++) {
            const Tensor *value = &run->value[run->in[c][i]];
            call->in[i] = operand_at(run->image.host + value->at, value->dtype, &value->shape);
        }
        for (int o = 0; o < call->nout; o++) {
            const Tensor *value = &run->value[run->out[c][o]];
            call->out[o] = operand_at(run->image.host + value->at, value->dtype, &value->shape);
        }
        for (int d = 0; call->op == OP_convert && d < call->out[0].local.ndim; d++) { /* boxes that begin at 3 of larger tensors */
            call->in[0].global.dim[d] = call->out[0].global.dim[d] = call->in[0].local.dim[d] + 5;
            call->in[0].box.begin[d] = 3;
            call->in[0].box.end[d] = 3 + call->in[0].local.dim[d];
            call->out[0].box.begin[d] = 3 + run->cut[c].begin[d];
            call->out[0].box.end[d] = 3 + run->cut[c].end[d];
        }
    }
}

/* ---------------------------------------------------------------- one by one and fused */

static void print_run(Text *text, const Run *run, uint64_t seed) {
    text_printf(text, "run %llu:", (unsigned long long)seed);
    for (int c = 0; c < run->ncalls; c++) {
        text_printf(text, "\n%2d %s(", c, op_table[run->call[c].op].name);
        for (int i = 0; i < run->call[c].nin; i++)
            text_printf(text, "%s%%%d", i ? ", " : "", run->in[c][i]);
        text_printf(text, ") ->");
        for (int o = 0; o < run->call[c].nout; o++) {
            const Tensor *value = &run->value[run->out[c][o]];
            text_printf(text, " %%%d %s", run->out[c][o], dtype_name[value->dtype]);
            shape_print(text, &value->shape);
            text_printf(text, " at %lld%s", (long long)value->at, value->stays ? ", stays" : "");
        }
    }
}

static void run_call(const Run *run, int c, uint64_t seed) {
    const Device *device = fixture_device();
    Error error = {0};
    KernelCall call = image_call(&run->image, &run->call[c]);
    if (device->backend->kernels[call.op](&call, &error)) return;
    Text text = {0};
    print_run(&text, run, seed);
    cr_assert_fail("call %d: %s\n%s", c, error.text, text.at);
}

/* As runtime/fuse.c finds them: of the calls from `at` on. */
static void last_reads(const Run *run, int at, int *last) {
    for (int c = at; c < run->ncalls; c++) {
        last[c - at] = c - at;
        for (int o = 0; o < run->call[c].nout; o++) {
            const Tensor *value = &run->value[run->out[c][o]];
            if (value->last_use > c && last[c - at] < value->last_use - at) last[c - at] = value->last_use - at;
            if (value->stays) last[c - at] = run->ncalls - at;
        }
    }
}

/* Returns the number of launches. */
static int run_fused(const Run *run, uint64_t seed) {
    const Device *device = fixture_device();
    const DeviceQueue *queue = device->backend->queue;
    KernelCall calls[MOST_CALLS];
    int launches = 0, last[MOST_CALLS];
    for (int c = 0; c < run->ncalls; c++)
        calls[c] = image_call(&run->image, &run->call[c]);
    for (int at = 0; at < run->ncalls; launches++) {
        Error error = {0};
        void *fused = NULL;
        last_reads(run, at, last);
        int taken = run->ncalls - at < 2 ? 0 : queue->fuse(device->context, &calls[at], run->ncalls - at, last, &fused, &error);
        cr_assert(taken >= 0 && taken != 1 && taken <= run->ncalls - at, "%s", error.text);
        if (taken == 0) {
            run_call(run, at++, seed);
            continue;
        }
        cr_assert(queue->run(device->context, fused, &error), "%s", error.text);
        at += taken;
        queue->unfuse(device->context, fused);
    }
    return launches;
}

/* The device's memory after the calls one by one, then fused: the same where something is needed; as it was where no result lies. */
static void compare(Run *run, const char *alone, uint64_t seed) {
    char *written = calloc(1, (size_t)run->image.bytes);
    Text text = {0};
    print_run(&text, run, seed);
    for (int v = 0; v < run->nvalues; v++) {
        const Tensor *value = &run->value[v];
        if (value->from >= 0) memset(written + value->at, 1, (size_t)value_bytes(value));
        if (!value->stays || value->from < 0) continue;
        for (int64_t i = 0; i < value_bytes(value); i++)
            cr_assert(run->image.seen[value->at + i] == alone[value->at + i], "%%%d, byte %lld, differs\n%s", v, (long long)i, text.at);
    }
    for (int64_t i = 0; i < run->image.bytes; i++)
        cr_assert(written[i] || run->image.seen[i] == run->image.host[i], "byte %lld is no result's\n%s", (long long)i, text.at);
    text_finish(&text);
    free(written);
}

enum { RUNS = 1000 };

Test(chain, fused_runs_give_what_their_calls_give) {
    int calls = 0, launches = 0;
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        Run *run = malloc(sizeof *run);
        random_run(run, seed);
        image_upload(&run->image);
        for (int c = 0; c < run->ncalls; c++)
            run_call(run, c, seed);
        image_download(&run->image);
        char *alone = malloc((size_t)run->image.bytes);
        memcpy(alone, run->image.seen, (size_t)run->image.bytes);
        image_upload(&run->image);
        calls += run->ncalls;
        launches += run_fused(run, seed);
        image_download(&run->image);
        compare(run, alone, seed);
        free(alone);
        image_finish(&run->image);
        free(run);
    }
    cr_assert(launches * 3 < calls * 2, "%d calls became %d launches: too few to prove anything", calls, launches);
    cr_log_info("%d calls, %d launches", calls, launches);
}
