/* decode: the programs that generate text: place by place, and so many places of a prompt at once.
 *
 * Before: the forward graph of all places (positions) of the text, as the generate block lowers it. After: the graph of one place, or of `count` consecutive ones. Its inputs are the tokens
 * at the places, and the places themselves; each value that has the text's places as a dimension has size `count` there. Where an operator of a place reads an operand at other places (keys and
 * values of attention), that operand is a cache: a state with all places, into which each step puts its own, in place. What depends on the place alone
 * is read at its row. So everything in the graph is an operator that nets have anyway: strategies, layouts, the proof and kernels know nothing of this.
 *
 * A cache holds nothing of the places still to come, and what is read of them must not matter: `seen` is the dimension of a value that runs over the places read. Its elements
 * behind (that is, after) a value's own place must be shown to be 0 before they are summed, or very negative before a maximum or a softmax takes them. The masks are constants,
 * and are checked element by element. What cannot be shown is refused, with the operator's name. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "compiler/compiler.h"
#include "ir/copy.h"

/* A softmax of scores below this, beside others near 0, is 0 in every element type. */
static const double low_score = -1e4;

/* What is known of a place's elements for the places behind it. */
typedef enum { BEHIND_ANY, BEHIND_ZERO, BEHIND_LOW, BEHIND_TRUE } Behind;
typedef struct Bound {
    Behind what;
    double most; /* BEHIND_LOW: none is above it */
} Bound;

/* What stands for a value of the forward graph. */
typedef struct Trace {
    bool varies;   /* it depends on the text */
    int own, seen; /* dimensions: of its places; of the places that they read; -1: none. A value that varies has the first */
    Bound behind;  /* where it has `seen` */
    int value;     /* of one place; where it does not vary, of all of it */
    int cache;     /* of all places so far, -1: not needed yet */
} Trace;

typedef struct Row {
    int value, dim, row;
} Row;
typedef struct Mask {
    int value, own, seen;
    Bound behind;
} Mask;

typedef struct Decode {
    const Graph *from;
    Graph *to;
    Diags *diags;
    const Generation *generation;
    int64_t places;
    int64_t count;    /* of them that a step computes */
    Trace *trace;     /* per value of from */
    int token, place; /* values of to: like the text, with count places; i32[count] */
    VEC(Row) rows;    /* read so far */
    VEC(Mask) masks;  /* looked at so far */
} Decode;

/* The letters of a node's places, and of those that they read; -1: none. */
typedef struct Roles {
    int own, seen;
} Roles;

static const TensorType *type_of(const Decode *d, int value) {
    return &d->from->values.at[value].type;
}

static bool refuse(Decode *d, const Node *node, const char *format, ...) PRINTF_LIKE(3, 4);
static bool refuse(Decode *d, const Node *node, const char *format, ...) {
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    diag_error(d->diags, node->span, "%s %s", op_table[node->op].name, why);
    diag_note(d->diags, d->generation->span,
              "text is generated place by place: a place of %s may depend on those before it, which are kept, and on nothing behind it",
              d->from->inputs.at[d->generation->text].name);
    return false;
}

/* ---------------------------------------------------------------- elements of constants */

enum { MAX_LEVELS = 64, MAX_LOOKED_AT = 1 << 26 };

static bool element_of(const Graph *g, int value, const int64_t *index, int level, double *element);

/* The element of an operand that a broadcast puts at this index of a result of ndim dimensions. */
static bool operand_element(const Graph *g, int value, const int64_t *index, int ndim, int level, double *element) {
    const Shape *shape = &g->values.at[value].type.shape;
    int64_t own[MAX_NDIM] = {0};
    for (int k = 0; k < shape->ndim; k++)
        own[k] = shape->dim[k] == 1 ? 0 : index[ndim - shape->ndim + k];
    return element_of(g, value, own, level + 1, element);
}

static int64_t flat_index(const Shape *shape, const int64_t *index) {
    int64_t at = 0;
    for (int k = 0; k < shape->ndim; k++)
        at = at * shape->dim[k] + index[k];
    return at;
}

static void index_of(const Shape *shape, int64_t at, int64_t *index) {
    for (int k = shape->ndim - 1; k >= 0; at /= shape->dim[k--])
        index[k] = at % shape->dim[k];
}

static bool moved_element(const Graph *g, const Node *node, const int64_t *index, int level, double *element) {
    const Shape *from = &g->values.at[node->in[0]].type.shape, *to = &g->values.at[node->out[0]].type.shape;
    int64_t own[MAX_NDIM] = {0};
    if (node->op == OP_reshape) index_of(from, flat_index(to, index), own);
    for (int k = 0; node->op == OP_transpose && k < to->ndim; k++) {
        const int64_t perm = node->attr[0].n > 0 ? node->attr[0].ints[k] : to->ndim - 1 - k;
        own[perm < 0 ? perm + to->ndim : perm] = index[k];
    }
    for (int k = 0; node->op == OP_slice && k < to->ndim; k++) {
        const int64_t begin = node->attr[0].ints[k];
        own[k] = index[k] + (begin < 0 ? begin + from->dim[k] : begin);
    }
    return element_of(g, node->in[0], own, level + 1, element);
}

/* Computes an element of a result from those of the operands; false: masks are not made of this operator. */
static bool element_computed(const Graph *g, const Node *node, const double *x, double *element) {
    const DType to = g->values.at[node->out[0]].type.dtype;
    switch ((int)node->op) {
    case OP_add:
        return *element = x[0] + x[1], true;
    case OP_sub:
        return *element = x[0] - x[1], true;
    case OP_mul:
        return *element = x[0] * x[1], true;
    case OP_div:
        return *element = x[0] / x[1], true;
    case OP_neg:
        return *element = -x[0], true;
    case OP_less:
        return *element = x[0] < x[1], true;
    case OP_less_equal:
        return *element = x[0] <= x[1], true;
    case OP_greater:
        return *element = x[0] > x[1], true;
    case OP_greater_equal:
        return *element = x[0] >= x[1], true;
    case OP_equal:
        return *element = x[0] == x[1], true;
    case OP_not_equal:
        return *element = x[0] != x[1], true;
    case OP_where:
        return *element = x[0] != 0 ? x[1] : x[2], true;
    case OP_stop_gradient:
        return *element = x[0], true;
    case OP_cast:
        return *element = to == BOOL ? x[0] != 0 : to == I32 || to == I64 ? trunc(x[0]) : x[0], true;
    default:
        return false;
    }
}

static bool element_of(const Graph *g, int value, const int64_t *index, int level, double *element) {
    const Node *node = graph_producer(g, value);
    const Shape *shape = &g->values.at[value].type.shape;
    double x[MAX_IN];
    if (level > MAX_LEVELS) return false;
    if (node->op == OP_constant) return *element = node->data != NULL ? node->data[flat_index(shape, index)] : node->attr[0].f, true;
    if (node->op == OP_reshape || node->op == OP_transpose || node->op == OP_slice) return moved_element(g, node, index, level, element);
    if (node->nin == 0 || (!op_elementwise(node->op) && node->op != OP_stop_gradient)) return false;
    for (int i = 0; i < node->nin; i++)
        if (!operand_element(g, node->in[i], index, shape->ndim, level, &x[i])) return false;
    return element_computed(g, node, x, element);
}

/* What is known of a value's elements behind each place; of one without both dimensions, of all its elements. */
static Bound look_behind(const Graph *g, int value, int own, int seen) {
    const Shape *shape = &g->values.at[value].type.shape;
    const int64_t n = shape_elements(shape);
    bool zero = true, all = true;
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        int64_t index[MAX_NDIM] = {0};
        double element;
        index_of(shape, i, index);
        if (own >= 0 && seen >= 0 && index[seen] <= index[own]) continue;
        if (n > MAX_LOOKED_AT || !element_of(g, value, index, 0, &element)) return (Bound){.what = BEHIND_ANY};
        zero = zero && element == 0;
        all = all && element != 0;
        if (!(element <= most)) most = element;
    }
    return (Bound){zero ? BEHIND_ZERO : most <= low_score ? BEHIND_LOW : all ? BEHIND_TRUE : BEHIND_ANY, most};
}

static Bound behind_constant(Decode *d, int value, int own, int seen) {
    for (int i = 0; i < d->masks.n; i++) {
        const Mask *mask = &d->masks.at[i];
        if (mask->value == value && mask->own == own && mask->seen == seen) return mask->behind;
    }
    const Mask mask = {value, own, seen, look_behind(d->from, value, own, seen)};
    vec_push(d->to->arena, &d->masks, mask);
    return mask.behind;
}

/* ---------------------------------------------------------------- nodes of one place */

static int emit(Decode *d, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span) {
    return graph_emit(d->to, op, in, nin, attr, name, span);
}

static int cast_to(Decode *d, int value, DType to, const char *name, Span span) {
    const Attr attr[MAX_ATTRS] = {{.given = true, .text = dtype_name[to]}};
    return d->to->values.at[value].type.dtype == to ? value : emit(d, OP_cast, &value, 1, attr, name, span);
}

static int reshaped(Decode *d, int value, const Shape *shape, const char *name, Span span) {
    Attr attr[MAX_ATTRS] = {{.given = true, .n = shape->ndim}};
    memcpy(attr[0].ints, shape->dim, sizeof attr[0].ints[0] * (size_t)shape->ndim);
    return shape_equal(&d->to->values.at[value].type.shape, shape) ? value : emit(d, OP_reshape, &value, 1, attr, name, span);
}

/* 0, 1, .. up to the number of places. */
static int indices(Decode *d) {
    double *data = arena_alloc(d->to->arena, sizeof *data * (size_t)d->places);
    for (int64_t i = 0; i < d->places; i++)
        data[i] = (double)i;
    const TensorType type = {.dtype = I32, .shape = {.ndim = 1, .dim = {d->places}}};
    return graph_constant(d->to, type, data, 0, "generate.places", d->generation->span);
}

/* The places of the step as a column, to broadcast against another dimension; one place needs no column. */
static int places_down(Decode *d) {
    return d->count == 1 ? d->place
                         : reshaped(d, d->place, &(Shape){.ndim = 2, .dim = {d->count, 1}}, "generate.here", d->generation->span);
}

/* Moves dimension `dim` of a value of `to` to the front, or from there back. */
static int turned(Decode *d, int value, int dim, bool back, const char *name, Span span) {
    const int ndim = d->to->values.at[value].type.shape.ndim;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = ndim}};
    for (int k = 0; k < ndim; k++)
        attr[0].ints[k] = back ? (k < dim ? k + 1 : k == dim ? 0 : k) : (k == 0 ? dim : k <= dim ? k - 1 : k);
    return dim == 0 ? value : emit(d, OP_transpose, &value, 1, attr, name, span);
}

/* The rows of a value that does not vary at the step's places, along one of its dimensions. */
static int row_of(Decode *d, int value, int dim) {
    for (int i = 0; i < d->rows.n; i++)
        if (d->rows.at[i].value == value && d->rows.at[i].dim == dim) return d->rows.at[i].row;
    const TensorType *type = type_of(d, value);
    const Span span = graph_producer(d->from, value)->span;
    const char *name = arena_printf(d->to->arena, "%s.here", d->from->values.at[value].name);
    const DType table_type = dtype_is_float(type->dtype) ? type->dtype : F64;
    const int64_t rest = shape_elements(&type->shape) / d->places;
    int row = turned(d, cast_to(d, d->trace[value].value, table_type, name, span), dim, false, name, span);
    Shape shape = d->to->values.at[row].type.shape;
    row = reshaped(d, row, &(Shape){.ndim = 2, .dim = {d->places, rest}}, name, span);
    row = emit(d, OP_embedding, (int[]){row, d->place}, 2, NULL, name, span);
    shape.dim[0] = d->count;
    row = cast_to(d, turned(d, reshaped(d, row, &shape, name, span), dim, true, name, span), type->dtype, name, span);
    const Row made = {value, dim, row};
    vec_push(d->to->arena, &d->rows, made);
    return row;
}

/* All places of a value so far, in a cache. */
static int cache_of(Decode *d, int value) {
    Trace *t = &d->trace[value];
    if (t->cache >= 0) return t->cache;
    const Value *of = &d->from->values.at[value];
    const Span span = d->from->nodes.at[of->node].span;
    const State state = {.name = arena_printf(d->to->arena, "%s.cache", of->name),
                         .type = of->type,
                         .written = true,
                         .cache = true,
                         .parameter = -1,
                         .span = span};
    const int id = graph_add_state(d->to, state);
    const int old = graph_read_state(d->to, id, 0, NULL, span);
    const char *name = arena_printf(d->to->arena, "%s.kept", of->name);
    const Attr axis[MAX_ATTRS] = {{.given = true, .i = t->own}};
    const DType as = of->type.dtype == BOOL ? I32 : of->type.dtype; /* put is of numbers */
    const int in[3] = {cast_to(d, old, as, name, span), cast_to(d, t->value, as, name, span), d->place};
    t->cache = cast_to(d, emit(d, OP_put, in, 3, axis, name, span), of->type.dtype, name, span);
    const Report write = {.name = state.name, .value = t->cache, .writes = true, .state = id, .span = span};
    vec_push(d->to->arena, &d->to->reports, write);
    return t->cache;
}

/* ---------------------------------------------------------------- the letters of a node */

static int out_dim(const Decode *d, const Node *node, int result, int factor) {
    for (int k = 0; factor >= 0 && k < type_of(d, node->out[result])->shape.ndim; k++)
        if (node->rule->out[result][k] == factor) return k;
    return -1;
}

static int in_dim(const Decode *d, const Node *node, int operand, int factor) {
    const Shape *shape = &type_of(d, node->in[operand])->shape;
    for (int k = 0; factor >= 0 && k < shape->ndim; k++)
        if (node->rule->in[operand][k] == factor && shape->dim[k] > 1) return k;
    return -1;
}

/* Finds the letter of the places of an operand. False: it is cut or joined. */
static bool letter_of(Decode *d, const Node *node, int operand, int dim, int *letter) {
    *letter = node->rule->in[operand][dim];
    if (*letter >= 0 && node->rule->factor[*letter].size == d->places) return true;
    return refuse(d, node, "cuts or joins the places of %s", d->from->inputs.at[d->generation->text].name);
}

/* Finds the letters of the text's places. Of two, the one in the result's earlier dimension is own; places of the other are read. */
static bool roles_find(Decode *d, const Node *node, Roles *roles) {
    *roles = (Roles){-1, -1};
    int single[MAX_IN], nsingle = 0;
    for (int i = 0; i < node->nin; i++) {
        const Trace *t = &d->trace[node->in[i]];
        int own, seen;
        if (!t->varies) continue;
        if (!letter_of(d, node, i, t->own, &own)) return false;
        if (t->seen < 0) {
            single[nsingle++] = own;
            continue;
        }
        if (!letter_of(d, node, i, t->seen, &seen)) return false;
        if (roles->own >= 0 && (roles->own != own || roles->seen != seen))
            return refuse(d, node, "joins scores of places with scores that lie otherwise");
        *roles = (Roles){own, seen};
    }
    for (int i = 0; i < nsingle; i++) {
        if (roles->own < 0) roles->own = single[i];
        if (single[i] == roles->own || single[i] == roles->seen) continue;
        if (roles->seen >= 0) return refuse(d, node, "reads the places of the text in more than two ways");
        roles->seen = single[i];
    }
    const int own = out_dim(d, node, 0, roles->own), seen = out_dim(d, node, 0, roles->seen);
    bool scored = false; /* an operand says already which is which */
    for (int i = 0; i < node->nin; i++)
        scored = scored || d->trace[node->in[i]].seen >= 0;
    if (!scored && own >= 0 && seen >= 0 && seen < own) *roles = (Roles){roles->seen, roles->own};
    if (!scored && own < 0 && seen >= 0) *roles = (Roles){roles->seen, roles->own};
    return true;
}

/* An operand as the node takes it at one place. */
static bool operand_of(Decode *d, const Node *node, int i, const Roles *roles, int *operand) {
    const int value = node->in[i];
    const Trace *t = &d->trace[value];
    int letter;
    if (!t->varies) {
        const int dim = in_dim(d, node, i, roles->own);
        *operand = dim >= 0 ? row_of(d, value, dim) : t->value;
        return true;
    }
    if (!letter_of(d, node, i, t->own, &letter)) return false;
    *operand = letter == roles->own ? t->value : cache_of(d, value);
    return letter == roles->own || t->seen < 0 || refuse(d, node, "reads scores of places at other places");
}

/* ---------------------------------------------------------------- what lies behind a place */

/* What is behind each place in operand i of a node, by the dimensions of its letters. */
static Bound operand_behind(Decode *d, const Node *node, int i, const Roles *roles) {
    const Trace *t = &d->trace[node->in[i]];
    if (t->varies) return t->seen >= 0 ? t->behind : (Bound){.what = BEHIND_ANY};
    return behind_constant(d, node->in[i], in_dim(d, node, i, roles->own), in_dim(d, node, i, roles->seen));
}

static double least_constant(const Graph *g, int value) {
    const Shape *shape = &g->values.at[value].type.shape;
    double least = INFINITY, element;
    for (int64_t i = 0; i < shape_elements(shape); i++) {
        int64_t index[MAX_NDIM] = {0};
        index_of(shape, i, index);
        if (!element_of(g, value, index, 0, &element)) return -INFINITY;
        if (!(element >= least)) least = element;
    }
    return least;
}

/* Scores that are very negative stay so when they are scaled by a constant. */
static Bound scaled(const Decode *d, const Node *node, Bound low, int by) {
    if (d->trace[node->in[by]].varies) return (Bound){.what = BEHIND_ANY};
    const double least = least_constant(d->from, node->in[by]);
    const double most = low.most * least;
    return least > 0 && most <= low_score ? (Bound){BEHIND_LOW, most} : (Bound){.what = BEHIND_ANY};
}

/* The same for the result of an elementwise node. */
static Bound behind_elementwise(Decode *d, const Node *node, const Roles *roles) {
    const Bound any = {.what = BEHIND_ANY}, zero = {.what = BEHIND_ZERO};
    Bound x[MAX_IN];
    for (int i = 0; i < node->nin; i++)
        x[i] = operand_behind(d, node, i, roles);
    switch ((int)node->op) {
    case OP_add:
        if (x[1].what == BEHIND_LOW) return x[1];
        return x[0].what == BEHIND_LOW ? x[0] : x[0].what == BEHIND_ZERO && x[1].what == BEHIND_ZERO ? zero : any;
    case OP_sub:
        return x[0].what == BEHIND_LOW ? x[0] : x[0].what == BEHIND_ZERO && x[1].what == BEHIND_ZERO ? zero : any;
    case OP_mul:
        if (x[0].what == BEHIND_ZERO || x[1].what == BEHIND_ZERO) return zero;
        return x[0].what == BEHIND_LOW ? scaled(d, node, x[0], 1) : x[1].what == BEHIND_LOW ? scaled(d, node, x[1], 0) : any;
    case OP_div:
        return x[0].what == BEHIND_ZERO && in_dim(d, node, 1, roles->seen) < 0 ? zero : any;
    case OP_where:
        return x[0].what == BEHIND_ZERO                             ? x[2]
               : x[0].what == BEHIND_TRUE                           ? x[1]
               : x[1].what == x[2].what && x[1].what == BEHIND_ZERO ? zero
                                                                    : any;
    case OP_exp:
    case OP_relu:
        return x[0].what == BEHIND_LOW || (x[0].what == BEHIND_ZERO && node->op == OP_relu) ? zero : any;
    case OP_cast:
        return x[0].what == BEHIND_LOW && !dtype_is_float(type_of(d, node->out[0])->dtype) ? any : x[0];
    case OP_neg:
    case OP_abs:
    case OP_square:
    case OP_tanh:
    case OP_silu:
    case OP_gelu:
        return x[0].what == BEHIND_ZERO ? zero : any;
    default:
        return any;
    }
}

/* Whether some operand that has the letter `seen` is 0 behind each place: then so is the product. */
static bool some_zero(Decode *d, const Node *node, const Roles *roles) {
    for (int i = 0; i < node->nin; i++)
        if (in_dim(d, node, i, roles->seen) >= 0 && operand_behind(d, node, i, roles).what == BEHIND_ZERO) return true;
    return false;
}

static bool not_causal(Decode *d, const Node *node, const char *how) {
    refuse(d, node, "%s, also those behind its own", how);
    diag_hint(d->diags,
              "add a mask to the scores: const mask : f32[%lld, %lld] = causal(-1e9); or say dot_product_attention(q, k, v, causal = true)",
              (long long)d->places, (long long)d->places);
    return false;
}

/* Whether a node may do what it does along the letter `seen`; *behind: what is behind each place in its result. */
static bool seen_taken(Decode *d, const Node *node, const Roles *roles, Bound *behind) {
    const bool kept = out_dim(d, node, 0, roles->seen) >= 0, along = node->rule->factor[roles->seen].reductions > 0;
    *behind = (Bound){.what = BEHIND_ANY};
    switch ((int)node->op) {
    case OP_softmax:
        if (!along) return true;
        behind->what = BEHIND_ZERO;
        return operand_behind(d, node, 0, roles).what == BEHIND_LOW || not_causal(d, node, "weighs all places of the text");
    case OP_max:
        return kept || operand_behind(d, node, 0, roles).what == BEHIND_LOW || not_causal(d, node, "goes over all places of the text");
    case OP_matmul:
    case OP_einsum:
        if (kept && some_zero(d, node, roles)) behind->what = BEHIND_ZERO;
        return kept || some_zero(d, node, roles) || not_causal(d, node, "sums over all places of the text");
    case OP_sum:
    case OP_mean:
        if (kept && some_zero(d, node, roles)) behind->what = BEHIND_ZERO;
        return kept || some_zero(d, node, roles) || not_causal(d, node, "sums over all places of the text");
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_split:
    case OP_stop_gradient:
        *behind = operand_behind(d, node, 0, roles);
        return true;
    default:
        if (op_elementwise(node->op)) *behind = behind_elementwise(d, node, roles);
        return (kept && !along) || not_causal(d, node, "goes over all places of the text");
    }
}

/* ---------------------------------------------------------------- nodes */

/* Operators that do the same at each place, whatever is along their other letters. */
static bool is_known(OpCode op) {
    static const OpCode known[] = {OP_matmul,      OP_einsum,     OP_sum,      OP_mean,      OP_max,           OP_min,
                                   OP_transpose,   OP_reshape,    OP_slice,    OP_concat,    OP_split,         OP_softmax,
                                   OP_log_softmax, OP_layer_norm, OP_rms_norm, OP_rope,      OP_pick,          OP_topk,
                                   OP_first,       OP_argmax,     OP_one_hot,  OP_embedding, OP_stop_gradient, OP_dot_product_attention};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == op) return true;
    return op_elementwise(op);
}

/* Whether each result of a node has places of its own, and the node does the same at each place. */
static bool own_stays(Decode *d, const Node *node, const Roles *roles) {
    const char *text = d->from->inputs.at[d->generation->text].name;
    if (!is_known(node->op)) return refuse(d, node, "mixes the places of %s", text);
    for (int o = 0; o < node->nout; o++) {
        const int dim = out_dim(d, node, o, roles->own);
        if (dim < 0 || node->rule->factor[roles->own].reductions > 0) return refuse(d, node, "goes over the places of %s", text);
        if (type_of(d, node->out[o])->shape.dim[dim] != d->places)
            return refuse(d, node, "joins the places of %s with other dimensions", text);
    }
    return true;
}

static void attrs_of(const Decode *d, const Node *node, const Roles *roles, Attr attr[MAX_ATTRS]) {
    const int own = out_dim(d, node, 0, roles->own);
    memcpy(attr, node->attr, sizeof *attr * MAX_ATTRS);
    if (node->op == OP_reshape) {
        const Shape *shape = &type_of(d, node->out[0])->shape;
        memcpy(attr[0].ints, shape->dim, sizeof attr[0].ints[0] * (size_t)shape->ndim);
        attr[0].n = shape->ndim;
        attr[0].ints[own] = d->count;
    }
    if (node->op == OP_slice) {
        attr[0].ints[own] = 0;
        attr[1].ints[own] = d->count;
    }
}

static void note_results(Decode *d, const Node *node, const Roles *roles, Bound behind, const int *out) {
    for (int o = 0; o < node->nout; o++)
        d->trace[node->out[o]] = (Trace){.varies = true,
                                         .own = out_dim(d, node, o, roles->own),
                                         .seen = out_dim(d, node, o, roles->seen),
                                         .behind = behind,
                                         .value = out[o],
                                         .cache = -1};
}

static bool node_added(Decode *d, const Node *node, const int *in, int nin, const Attr *attr, int *out) {
    RuleError error = {0};
    const int made = graph_add(d->to, node->op, in, nin, attr, node->name, node->span, &error);
    if (made < 0) return refuse(d, node, "has no meaning at one place: %.300s", error.text);
    for (int o = 0; o < node->nout; o++)
        out[o] = d->to->nodes.at[made].out[o];
    return true;
}

/* rope at a place: the pairs are turned by its angle alone, which is computed as the kernel does, in f64. */
static int rope_at(Decode *d, const Node *node, int x) {
    const TensorType type = d->to->values.at[x].type;
    const int last = type.shape.ndim - 1;
    const int64_t half = type.shape.dim[last] / 2;
    const double base = node->attr[0].given ? node->attr[0].f : 10000;
    double *data = arena_alloc(d->to->arena, sizeof *data * (size_t)half);
    for (int64_t k = 0; k < half; k++)
        data[k] = pow(base, -(double)k / (double)half);
    const char *name = arena_printf(d->to->arena, "%s.turn", node->name);
    const Span span = node->span;
    const int frequency = graph_constant(d->to, (TensorType){.dtype = F64, .shape = {.ndim = 1, .dim = {half}}}, data, 0, name, span);
    const int angle = emit(d, OP_mul, (int[]){cast_to(d, places_down(d), F64, name, span), frequency}, 2, NULL, name, span);
    const int cosine = cast_to(d, emit(d, OP_cos, &angle, 1, NULL, name, span), type.dtype, name, span);
    int sine = cast_to(d, emit(d, OP_sin, &angle, 1, NULL, name, span), type.dtype, name, span);
    if (node->attr[1].i) sine = emit(d, OP_neg, &sine, 1, NULL, name, span);
    int part[2];
    for (int side = 0; side < 2; side++) {
        Attr cut[MAX_ATTRS] = {{.given = true, .n = last + 1}, {.given = true, .n = last + 1}};
        for (int k = 0; k <= last; k++)
            cut[1].ints[k] = type.shape.dim[k];
        cut[0].ints[last] = side * half;
        cut[1].ints[last] = (side + 1) * half;
        part[side] = emit(d, OP_slice, &x, 1, cut, name, span);
    }
    int turned_part[2];
    for (int side = 0; side < 2; side++) {
        const int straight = emit(d, OP_mul, (int[]){part[side], cosine}, 2, NULL, name, span);
        const int across = emit(d, OP_mul, (int[]){part[1 - side], sine}, 2, NULL, name, span);
        turned_part[side] = emit(d, side == 0 ? OP_sub : OP_add, (int[]){straight, across}, 2, NULL, name, span);
    }
    const Attr join[MAX_ATTRS] = {{.given = true, .i = last}};
    return emit(d, OP_concat, turned_part, 2, join, node->name, span);
}

/* Attention of a place to those up to it: the attribute causal becomes a mask of the places up to the step's. */
static bool attention_at(Decode *d, const Node *node, const Roles *roles) {
    enum { MASK = 3 };
    const bool causal = node->attr[0].i, masked = node->nin > MASK;
    int in[MAX_IN], out[MAX_OUT], nin = node->nin;
    if (!own_stays(d, node, roles)) return false;
    if (roles->seen >= 0 && !causal && !(masked && operand_behind(d, node, MASK, roles).what == BEHIND_ZERO))
        return not_causal(d, node, "weighs all places of the text");
    for (int i = 0; i < node->nin; i++)
        if (!operand_of(d, node, i, roles, &in[i])) return false;
    Attr attr[MAX_ATTRS];
    memcpy(attr, node->attr, sizeof attr);
    if (causal) {
        const int seen = emit(d, OP_less_equal, (int[]){indices(d), places_down(d)}, 2, NULL, "generate.seen", node->span);
        const int none = masked ? graph_constant(d->to, (TensorType){.dtype = BOOL}, NULL, 0, "generate.unseen", node->span) : -1;
        in[MASK] = masked ? emit(d, OP_where, (int[]){seen, in[MASK], none}, 3, NULL, "generate.seen", node->span) : seen;
        nin = MASK + 1;
        attr[0] = (Attr){0};
    }
    if (!node_added(d, node, in, nin, attr, out)) return false;
    note_results(d, node, &(Roles){roles->own, -1}, (Bound){.what = BEHIND_ANY}, out);
    return true;
}

/* Copies a node that does not depend on the text. */
static bool copy_whole(Decode *d, const Node *node) {
    int in[MAX_IN], out[MAX_OUT];
    const char *name = d->from->values.at[node->out[0]].name;
    for (int i = 0; i < node->nin; i++)
        in[i] = d->trace[node->in[i]].value;
    if (node->op == OP_read)
        out[0] = graph_read_state(d->to, node->state, node->version, name, node->span);
    else if (node->op == OP_constant)
        out[0] = graph_constant(d->to, *type_of(d, node->out[0]), node->data, node->attr[0].f, name, node->span);
    else if (!node_added(d, node, in, node->nin, node->attr, out))
        return false;
    for (int o = 0; o < node->nout; o++)
        d->trace[node->out[o]] = (Trace){.own = -1, .seen = -1, .value = out[o], .cache = -1};
    return true;
}

static bool copy_input(Decode *d, const Node *node) {
    const Input *input = &d->from->inputs.at[node->state];
    if (node->state != d->generation->text) {
        diag_error(d->diags, input->span, "what is generated depends on input %s, and there is nothing that it could be", input->name);
        diag_note(d->diags, d->generation->span, "text is generated from %s alone", d->from->inputs.at[d->generation->text].name);
        return false;
    }
    d->trace[node->out[0]] = (Trace){.varies = true, .own = input->type.shape.ndim - 1, .seen = -1, .value = d->token, .cache = -1};
    return true;
}

static bool decode_node(Decode *d, const Node *node) {
    bool varies = false;
    Roles roles;
    Bound behind = {.what = BEHIND_ANY};
    int in[MAX_IN], out[MAX_OUT];
    for (int i = 0; i < node->nin; i++)
        varies = varies || d->trace[node->in[i]].varies;
    if (node->op == OP_input) return copy_input(d, node);
    if (!varies) return copy_whole(d, node);
    if (!is_known(node->op)) return refuse(d, node, "mixes the places of %s", d->from->inputs.at[d->generation->text].name);
    if (!roles_find(d, node, &roles)) return false;
    if (node->op == OP_dot_product_attention) return attention_at(d, node, &roles);
    if (!own_stays(d, node, &roles) || (roles.seen >= 0 && !seen_taken(d, node, &roles, &behind))) return false;
    for (int i = 0; i < node->nin; i++)
        if (!operand_of(d, node, i, &roles, &in[i])) return false;
    Attr attr[MAX_ATTRS];
    attrs_of(d, node, &roles, attr);
    if (node->op == OP_rope && d->trace[node->in[0]].own == type_of(d, node->in[0])->shape.ndim - 2)
        out[0] = rope_at(d, node, in[0]);
    else if (!node_added(d, node, in, node->nin, attr, out))
        return false;
    note_results(d, node, &roles, behind, out);
    return true;
}

/* ---------------------------------------------------------------- the graph */

/* A graph of the same net, with its states and settings, without nodes and inputs. */
static void graph_begin(Graph *to, const Graph *from) {
    graph_over(to, from);
    to->dims = from->dims;
    for (int s = 0; s < from->states.n; s++)
        vec_push(to->arena, &to->states, from->states.at[s]);
}

/* Per node: the generated token depends on it. */
static const bool *needed_nodes(const Graph *g, int value) {
    bool *needed = arena_alloc(g->arena, (size_t)g->nodes.n + 1);
    needed[g->values.at[value].node] = true;
    for (int n = g->nodes.n - 1; n >= 0; n--)
        for (int i = 0; needed[n] && i < g->nodes.at[n].nin; i++)
            needed[g->values.at[g->nodes.at[n].in[i]].node] = true;
    return needed;
}

static void add_inputs(Decode *d) {
    Graph *g = d->to;
    const Input *text = &d->from->inputs.at[d->generation->text];
    Input token = {.name = text->name, .type = text->type, .span = text->span, .kind = INPUT_TOKEN, .index = text->index};
    token.type.shape.dim[token.type.shape.ndim - 1] = d->count;
    d->token = graph_input(g, graph_add_input(g, token));
    const Input place = {.name = "generate.place",
                         .type = {.dtype = I32, .shape = {.ndim = 1, .dim = {d->count}}},
                         .span = d->generation->span,
                         .kind = INPUT_PLACE,
                         .index = {0, d->places}};
    d->place = graph_input(g, graph_add_input(g, place));
}

/* Whether the logits of a place are a number for each token. */
static bool logits_fit(Decode *d) {
    const int value = d->generation->logits;
    const Trace *t = &d->trace[value];
    const TensorType *type = type_of(d, value);
    const int ndim = type->shape.ndim;
    const bool fit = t->varies && t->own == ndim - 2 && t->seen < 0 && dtype_is_float(type->dtype) &&
                     shape_elements(&type->shape) == d->places * type->shape.dim[ndim - 1];
    if (fit) return true;
    diag_error(d->diags, d->generation->logits_span, "%s has no number for each token at each place of %s", d->from->values.at[value].name,
               d->from->inputs.at[d->generation->text].name);
    diag_hint(d->diags, "logits are f32[%lld, tokens], with sizes of 1 in front", (long long)d->places);
    return false;
}

bool graph_decode(Graph *graph, const Generation *generation, int64_t count, Diags *diags) {
    const Graph from = *graph;
    const Shape *text = &from.inputs.at[generation->text].type.shape;
    Graph to;
    graph_begin(&to, &from);
    Decode d = {.from = &from, .to = &to, .diags = diags, .generation = generation, .places = text->dim[text->ndim - 1], .count = count};
    d.trace = arena_alloc(to.arena, sizeof *d.trace * (size_t)(from.values.n + 1));
    const Report logits = {.name = "logits", .value = -1, .whole = true, .span = generation->logits_span};
    if (count == 1) vec_push(to.arena, &to.reports, logits); /* before the caches */
    add_inputs(&d);
    const bool *needed = needed_nodes(&from, generation->logits);
    for (int n = 0; n < from.nodes.n; n++)
        if (needed[n] && !decode_node(&d, &from.nodes.at[n])) return false;
    if (!logits_fit(&d)) return false;
    if (count == 1) to.reports.at[0].value = d.trace[generation->logits].value;
    *graph = to;
    return true;
}
