/* chain: runs of elementwise calls as programs for one launch. A first pass goes through the calls and keeps, for every result, what stands
 * for it: a node (an operator applied to nodes and loads) or a view of memory as it was before the launch. A second gives nodes the slots
 * that they need.
 *
 * A plan's arena uses memory again, so a result may lie where an operand of an earlier call did. Each thread reads all of its elements
 * before it writes any; threads are not ordered. So what is stored may overlap what is loaded only where every thread's elements are the
 * same in both. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/chain.h"
#include "runtime/cut.h"

static_assert(KERNEL_F32 == (int)F32 && KERNEL_F64 == (int)F64 && KERNEL_I32 == (int)I32 && KERNEL_I64 == (int)I64 &&
                  KERNEL_BOOL == (int)BOOL,
              "element types have one numbering");
static_assert((int)KERNEL_NDIM >= (int)MAX_NDIM, "loads have a loop for every dimension");

/* What each operator does to elements; views and what is no business of a chain: ELEMENT_NONE. */
static const uint8_t element_ops[NOPS] = {
    [OP_constant] = ELEMENT_CONSTANT,
    [OP_add] = ELEMENT_ADD,
    [OP_sub] = ELEMENT_SUB,
    [OP_mul] = ELEMENT_MUL,
    [OP_div] = ELEMENT_DIV,
    [OP_neg] = ELEMENT_NEG,
    [OP_relu] = ELEMENT_RELU,
    [OP_tanh] = ELEMENT_TANH,
    [OP_exp] = ELEMENT_EXP,
    [OP_log] = ELEMENT_LOG,
    [OP_sqrt] = ELEMENT_SQRT,
    [OP_sigmoid] = ELEMENT_SIGMOID,
    [OP_gelu] = ELEMENT_GELU,
    [OP_silu] = ELEMENT_SILU,
    [OP_rsqrt] = ELEMENT_RSQRT,
    [OP_square] = ELEMENT_SQUARE,
    [OP_abs] = ELEMENT_ABS,
    [OP_sin] = ELEMENT_SIN,
    [OP_cos] = ELEMENT_COS,
    [OP_softplus] = ELEMENT_SOFTPLUS,
    [OP_maximum] = ELEMENT_MAXIMUM,
    [OP_minimum] = ELEMENT_MINIMUM,
    [OP_clamp] = ELEMENT_CLAMP,
    [OP_cast] = ELEMENT_COPY,
    [OP_less] = ELEMENT_LESS,
    [OP_less_equal] = ELEMENT_LESS_EQUAL,
    [OP_greater] = ELEMENT_GREATER,
    [OP_greater_equal] = ELEMENT_GREATER_EQUAL,
    [OP_equal] = ELEMENT_EQUAL,
    [OP_not_equal] = ELEMENT_NOT_EQUAL,
    [OP_where] = ELEMENT_WHERE,
    [OP_relu_grad] = ELEMENT_RELU_GRAD,
    [OP_tanh_grad] = ELEMENT_TANH_GRAD,
    [OP_sqrt_grad] = ELEMENT_SQRT_GRAD,
    [OP_sigmoid_grad] = ELEMENT_SIGMOID_GRAD,
    [OP_square_grad] = ELEMENT_SQUARE_GRAD,
    [OP_gelu_grad] = ELEMENT_GELU_GRAD,
    [OP_silu_grad] = ELEMENT_SILU_GRAD,
    [OP_rsqrt_grad] = ELEMENT_RSQRT_GRAD,
    [OP_max_mask] = ELEMENT_MAX_MASK,
    [OP_max_share] = ELEMENT_MAX_SHARE,
    [OP_abs_grad] = ELEMENT_ABS_GRAD,
    [OP_clamp_grad] = ELEMENT_CLAMP_GRAD,
    [OP_mean_grad] = ELEMENT_DIVIDE,
    [OP_clip] = ELEMENT_CLIP,
};

/* Elements of memory, a stride for each dimension. */
typedef struct View {
    const char *data;
    DType dtype;
    Shape shape;
    int64_t stride[MAX_NDIM];
} View;

/* An operand of a node: node `index`, or load `index`. */
typedef struct Source {
    bool is_load;
    int index;
} Source;

typedef struct Element {
    ElementOp op;
    int nin;
    Source in[3];
    DType dtype; /* of the result: the chain's, BOOL, or what a cast leaves, which can only be stored */
    double constant[2];
    int last_use; /* the last node that reads it, -1: none */
    bool kept;    /* some node but the next reads it */
} Element;

/* What a call left in memory, or would have. */
typedef struct Result {
    const char *data;
    int64_t bytes;
    DType dtype;
    bool is_view;
    View view;
    int node;
} Result;

enum { MAX_CALLS = CHAIN_STEPS, MAX_RESULTS = 2 * MAX_CALLS };

typedef struct Build {
    ChainProgram *program;
    int dtype; /* of the chain, -1: nothing but bools so far */
    Element element[CHAIN_STEPS];
    int nelements;
    const char *begin[CHAIN_LOADS], *end[CHAIN_LOADS]; /* the memory that each load reads */
    int store_node[CHAIN_STORES];
    Result result[MAX_RESULTS];
    int nresults;
} Build;

static bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + (uintptr_t)b_bytes && (uintptr_t)b < (uintptr_t)a + (uintptr_t)a_bytes;
}

static int64_t operand_bytes(const Operand *operand) {
    return shape_elements(&operand->local) * dtype_bytes[operand->dtype];
}

/* ---------------------------------------------------------------- types and sizes */

/* Whether values of this type can be computed with; the first that is no bool decides what the chain's is. */
static bool take_dtype(Build *build, DType dtype) {
    if (dtype == BOOL) return true;
    if (build->dtype < 0) build->dtype = (int)dtype;
    return build->dtype == (int)dtype;
}

static bool take_size(Build *build, const Operand *out) {
    int64_t n = shape_elements(&out->local);
    if (build->program->n == 0) build->program->n = n;
    return n > 0 && n == build->program->n;
}

static bool is_of_reals(ElementOp op) {
    return op >= ELEMENT_RELU;
}

/* ---------------------------------------------------------------- loads */

static bool loads_equal(const ChainLoad *a, const ChainLoad *b) {
    if (a->data != b->data || a->dtype != b->dtype || a->ndim != b->ndim) return false;
    return memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0 &&
           memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride) == 0;
}

/* Neighbours in the result that lie apart in the operand are read in pieces of a cache line, again and again: little data stays in the
 * cache meanwhile, much is better brought into order first. */
enum { SCATTERED_BYTES = 2 << 20 };

/* The load of a view whose strides are of these dimensions of the results. -1: none. */
static int add_load(Build *build, const View *view, const Shape *shape, const int64_t *strides) {
    ChainProgram *program = build->program;
    ChainLoad load = {.data = view->data, .dtype = (uint8_t)view->dtype};
    const int bytes = dtype_bytes[view->dtype];
    int64_t linear[MAX_NDIM], last = 0;
    Nest nest;
    strides_of(shape, linear);
    nest_init(&nest, 2);
    for (int d = 0; d < shape->ndim; d++)
        nest_push(&nest, shape->dim[d], (const int64_t[]){linear[d], strides[d]});
    nest_merge(&nest);
    assert(nest.ndim <= KERNEL_NDIM);
    load.ndim = (uint8_t)nest.ndim;
    for (int d = 0; d < nest.ndim; d++) {
        load.size[d] = nest.size[d];
        load.stride[d] = nest.stride[1][d];
        load.divisor[d] = kernel_divisor(nest.size[d]);
        last += (nest.size[d] - 1) * nest.stride[1][d];
    }
    for (int l = 0; l < program->nloads; l++)
        if (loads_equal(&program->load[l], &load)) return l;
    const int64_t inner = load.stride[load.ndim - 1];
    if (program->nloads == CHAIN_LOADS || (inner > 1 && program->n * bytes > SCATTERED_BYTES)) return -1;
    load.mode = load.ndim == 1 && inner == 1 ? CHAIN_LINEAR : CHAIN_ANY;
    build->begin[program->nloads] = view->data;
    build->end[program->nloads] = view->data + (last + 1) * bytes;
    program->load[program->nloads] = load;
    return program->nloads++;
}

/* Once the chain's type is known: how packs are loaded. */
static void finish_load(const Build *build, ChainLoad *load) {
    const int width = 16 / dtype_bytes[build->dtype], last = load->ndim - 1;
    load->packed =
        (load->dtype == build->dtype || load->dtype == BOOL) && (uintptr_t)load->data % (uintptr_t)(width * dtype_bytes[load->dtype]) == 0;
    if (load->mode == CHAIN_LINEAR) return;
    if (load->size[last] % width == 0 || (load->ndim == 1 && load->stride[last] == 0)) load->mode = CHAIN_ROWS;
    load->packed = load->packed && load->mode == CHAIN_ROWS && load->stride[last] == 1;
    for (int d = 0; d < last; d++)
        load->packed = load->packed && load->stride[d] % width == 0;
}

/* ---------------------------------------------------------------- views */

static View view_of(const Operand *operand) {
    View view = {.data = operand->data, .dtype = operand->dtype, .shape = operand->local};
    strides_of(&operand->local, view.stride);
    return view;
}

/* What an operand is: the latest result that lies there, or memory as the launch finds it. False where it is a part of results, or several.
 */
static bool resolve(const Build *build, const Operand *operand, Result *found) {
    const int64_t bytes = operand_bytes(operand);
    for (int r = build->nresults - 1; r >= 0; r--) {
        const Result *result = &build->result[r];
        if (!overlap(result->data, result->bytes, operand->data, bytes)) continue;
        *found = *result;
        return result->data == (const char *)operand->data && result->bytes == bytes && result->dtype == operand->dtype &&
               (!result->is_view || shape_equal(&result->view.shape, &operand->local));
    }
    *found = (Result){.data = operand->data, .bytes = bytes, .dtype = operand->dtype, .is_view = true, .view = view_of(operand)};
    return bytes > 0;
}

/* The same elements in row-major order under another shape. False where that needs more than a stride a dimension. */
static bool view_reshape(View *view, const Shape *shape) {
    Nest nest;
    int64_t linear[MAX_NDIM];
    strides_of(&view->shape, linear);
    nest_init(&nest, 2);
    for (int d = 0; d < view->shape.ndim; d++)
        nest_push(&nest, view->shape.dim[d], (const int64_t[]){linear[d], view->stride[d]});
    nest_merge(&nest);
    /* Innermost first: every new dimension must be a part of one run. */
    int run = nest.ndim - 1;
    int64_t left = nest.size[run], stride = nest.stride[1][run];
    for (int d = shape->ndim - 1; d >= 0; d--) {
        view->stride[d] = 0;
        if (shape->dim[d] == 1) continue;
        if (left == 1 && run > 0) left = nest.size[--run], stride = nest.stride[1][run];
        if (left % shape->dim[d] != 0) return false;
        view->stride[d] = stride;
        stride *= shape->dim[d];
        left /= shape->dim[d];
    }
    view->shape = *shape;
    return true;
}

/* The result's dimensions by the operand's letters; those that it does not have repeat it. */
static void view_expand(View *view, const KernelCall *call) {
    const View from = *view;
    const Operand *out = &call->out[0];
    view->shape = out->local;
    for (int d = 0; d < out->local.ndim; d++) {
        view->stride[d] = 0;
        for (int k = 0; k < from.shape.ndim; k++)
            if (call->rule->out[0][d] >= 0 && call->rule->in[0][k] == call->rule->out[0][d]) view->stride[d] = from.stride[k];
    }
}

/* The elements of a box that begins at these indices. */
static void view_cut(View *view, const int64_t *begin, const Shape *shape) {
    for (int d = 0; d < shape->ndim; d++)
        view->data += begin[d] * view->stride[d] * dtype_bytes[view->dtype];
    view->shape = *shape;
}

/* Result o of an operator that only brings elements to other places. */
static bool view_result(const KernelCall *call, int o, View *view) {
    const Operand *in = &call->in[0], *out = &call->out[o];
    int64_t begin[MAX_NDIM] = {0};
    if (call->op == OP_transpose || call->op == OP_sum_grad) return view_expand(view, call), true;
    if (call->op == OP_reshape || call->op == OP_stop_gradient || call->op == OP_write) return view_reshape(view, &out->local);
    if (call->op == OP_slice) {
        slice_begin(&call->attr[0], in, begin);
    } else if (call->op == OP_split) {
        int axis = attr_axis(&call->attr[1], 0, in->local.ndim);
        begin[axis] = o * out->local.dim[axis];
    } else if (call->op == OP_convert) {
        Error error;
        if (!convert_begin(call, begin, &error)) return false;
    } else
        return false;
    return view_cut(view, begin, &out->local), true;
}

/* ---------------------------------------------------------------- calls */

static int add_node(Build *build, Element element) {
    if (build->nelements == CHAIN_STEPS) return -1;
    build->element[build->nelements] = element;
    return build->nelements++;
}

static bool add_store(Build *build, int node, const Operand *out) {
    ChainProgram *program = build->program;
    if (program->nstores == CHAIN_STORES) return false;
    build->store_node[program->nstores] = node;
    program->store[program->nstores++] = (ChainStore){.data = out->data, .dtype = (uint8_t)out->dtype};
    return true;
}

static bool add_result(Build *build, const Operand *out, const Result *as) {
    if (build->nresults == MAX_RESULTS) return false;
    Result *result = &build->result[build->nresults++];
    *result = *as;
    result->data = out->data;
    result->bytes = operand_bytes(out);
    result->dtype = out->dtype;
    return true;
}

/* A view that something else reads is computed like any other result. */
static bool store_view(Build *build, const View *view, const Operand *out) {
    if (!take_size(build, out) || !take_dtype(build, view->dtype)) return false;
    int load = add_load(build, view, &view->shape, view->stride);
    int node = load < 0 ? -1 : add_node(build, (Element){.op = ELEMENT_COPY, .nin = 1, .in = {{true, load}}, .dtype = view->dtype});
    return node >= 0 && add_store(build, node, out);
}

static bool add_view(Build *build, const KernelCall *call, bool stored) {
    Result from;
    if (call->nin != 1 || !resolve(build, &call->in[0], &from)) return false;
    for (int o = 0; o < call->nout; o++) {
        const Operand *out = &call->out[o];
        Result result = from;
        if (shape_elements(&out->local) == 0) return false;
        if (from.is_view) {
            if (!view_result(call, o, &result.view) || (stored && !store_view(build, &result.view, out))) return false;
        } else { /* what is computed here keeps its order */
            bool same = call->op == OP_reshape || call->op == OP_stop_gradient || call->op == OP_write || call->op == OP_sum_grad ||
                        call->op == OP_convert;
            if (!same || !take_size(build, out) || (stored && !add_store(build, from.node, out))) return false;
        }
        if (!add_result(build, out, &result)) return false;
    }
    return true;
}

/* Operand i of a call whose results have the shape of out[0]. */
static bool find_source(Build *build, const KernelCall *call, int i, Source *source) {
    const Shape *shape = &call->out[0].local;
    const Operand *in = &call->in[i];
    const bool converts = call->op == OP_cast && in->dtype != BOOL && call->out[0].dtype != BOOL && in->dtype != call->out[0].dtype;
    Result from;
    if (!resolve(build, in, &from)) return false;
    *source = (Source){false, from.node};
    if (!from.is_view) {
        if (shape_elements(&in->local) != build->program->n) return false;
        return from.dtype == BOOL || (int)from.dtype == build->dtype;
    }
    View view = from.view;
    if (call->op == OP_mean_grad) {
        view_expand(&view, call);
    } else {
        int64_t stride[MAX_NDIM];
        for (int d = 0; d < shape->ndim; d++) {
            int at = d - (shape->ndim - in->local.ndim);
            stride[d] = at < 0 || (in->local.dim[at] == 1 && shape->dim[d] != 1) ? 0 : view.stride[at];
        }
        memcpy(view.stride, stride, sizeof stride);
    }
    *source = (Source){true, add_load(build, &view, shape, view.stride)};
    return source->index >= 0 && (converts || view.dtype == BOOL || (int)view.dtype == build->dtype);
}

/* The operands' type decides; of a cast between numbers that of its result, while it is open: loads convert. */
static bool take_types(Build *build, const KernelCall *call) {
    const DType in = call->nin > 0 ? call->in[call->nin - 1].dtype : call->out[0].dtype, out = call->out[0].dtype;
    if (call->op != OP_cast) return take_dtype(build, in);
    if (out == BOOL) return take_dtype(build, in);
    if (build->dtype < 0) build->dtype = (int)out;
    return in == BOOL || build->dtype == (int)in || build->dtype == (int)out;
}

static bool add_element(Build *build, const KernelCall *call, bool stored) {
    const Operand *out = &call->out[0];
    Element element = {.op = (ElementOp)element_ops[call->op], .nin = call->nin, .dtype = out->dtype};
    if (call->nin > 3 || call->nout != 1 || !take_size(build, out) || !take_types(build, call)) return false;
    for (int i = 0; i < call->nin; i++)
        if (!find_source(build, call, i, &element.in[i])) return false;
    if (call->op == OP_gelu && call->attr[0].i) element.op = ELEMENT_GELU_TANH;
    if (call->op == OP_gelu_grad && call->attr[0].i) element.op = ELEMENT_GELU_TANH_GRAD;
    if (call->op == OP_cast && out->dtype == BOOL) element.op = ELEMENT_TRUTH;
    if (is_of_reals(element.op) && !(build->dtype >= 0 && dtype_is_float((DType)build->dtype))) return false;
    if (call->op == OP_constant) element.constant[0] = call->attr[0].f;
    if (call->op == OP_clip) element.constant[0] = call->attr[op_attr(OP_clip, "norm")].f;
    if (call->op == OP_mean_grad) element.constant[0] = (double)shape_elements(&out->global) / (double)shape_elements(&call->in[0].global);
    if (call->op == OP_clamp || call->op == OP_clamp_grad)
        for (int i = 0; i < 2; i++)
            element.constant[i] = call->attr[i].given ? call->attr[i].f : i ? INFINITY : -INFINITY;
    int node = add_node(build, element);
    if (node < 0 || (stored && !add_store(build, node, out))) return false;
    return add_result(build, out, &(Result){.node = node});
}

/* ---------------------------------------------------------------- memory, slots */

/* No thread writes what another has yet to read, or has written. */
static bool memory_is_safe(const Build *build) {
    const ChainProgram *program = build->program;
    for (int s = 0; s < program->nstores; s++) {
        const char *begin = program->store[s].data;
        const int64_t bytes = program->n * dtype_bytes[program->store[s].dtype];
        for (int l = 0; l < program->nloads; l++) {
            const ChainLoad *load = &program->load[l];
            if (!overlap(begin, bytes, build->begin[l], build->end[l] - build->begin[l])) continue;
            if (load->mode != CHAIN_LINEAR || load->data != begin || dtype_bytes[load->dtype] != dtype_bytes[program->store[s].dtype])
                return false;
        }
        for (int other = 0; other < s; other++)
            if (overlap(begin, bytes, program->store[other].data, program->n * dtype_bytes[program->store[other].dtype])) return false;
    }
    return true;
}

static int constant_index(ChainProgram *program, int *nconstants, double value) {
    for (int i = 0; i < *nconstants; i++)
        if (memcmp(&program->constant[i], &value, sizeof value) == 0) return i;
    if (*nconstants == CHAIN_CONSTANTS) return -1;
    program->constant[*nconstants] = value;
    return (*nconstants)++;
}

/* Nodes in the order of calls, each with a slot from where it is computed to where it is read last. */
static bool emit(Build *build) {
    ChainProgram *program = build->program;
    int load_use[CHAIN_LOADS], slot_until[CHAIN_SLOTS], slot_of[CHAIN_STEPS], nconstants = 0, nstores = 0;
    ChainStore stores[CHAIN_STORES];
    memset(load_use, -1, sizeof load_use);
    memset(slot_until, -1, sizeof slot_until);
    for (int k = 0; k < build->nelements; k++)
        build->element[k].last_use = -1;
    for (int k = 0; k < build->nelements; k++)
        for (int i = 0; i < build->element[k].nin; i++) {
            Source in = build->element[k].in[i];
            if (in.is_load) {
                load_use[in.index] = k;
            } else {
                build->element[in.index].last_use = k;
                build->element[in.index].kept |= k != in.index + 1;
            }
        }
    for (int l = 0; l < program->nloads; l++)
        slot_until[l] = load_use[l];
    for (int k = 0; k < build->nelements; k++) {
        const Element *element = &build->element[k];
        ChainStep *step = &program->step[program->nsteps++];
        int low = constant_index(program, &nconstants, element->constant[0]), high = constant_index(program, &nconstants, element->constant[1]);
        if (low < 0 || high < 0) return false;
        *step =
            (ChainStep){.op = (uint8_t)element->op, .slot = CHAIN_RESULT, .constant = {(uint8_t)low, (uint8_t)high}, .first_store = (uint8_t)nstores};
        for (int i = 0; i < 3; i++) {
            Source in = i < element->nin ? element->in[i] : (Source){false, k - 1};
            step->in[i] = (uint8_t)(in.is_load ? in.index : in.index == k - 1 ? CHAIN_RESULT : slot_of[in.index]);
        }
        if (element->kept) { /* operands are read before the result is written: a slot that is read last here can take it */
            int slot = 0;
            while (slot < CHAIN_SLOTS && slot_until[slot] > k)
                slot++;
            if (slot == CHAIN_SLOTS) return false;
            slot_until[slot] = element->last_use;
            slot_of[k] = slot;
            step->slot = (uint8_t)slot;
        }
        for (int s = 0; s < program->nstores; s++)
            if (build->store_node[s] == k) stores[nstores++] = program->store[s];
        step->nstores = (uint8_t)(nstores - step->first_store);
    }
    memcpy(program->store, stores, (size_t)nstores * sizeof *stores);
    return true;
}

bool chain_build(ChainProgram *program, const KernelCall *calls, int n, const int *last_read) {
    Build build = {.program = program, .dtype = -1};
    *program = (ChainProgram){0};
    for (int i = 0; i < n; i++) {
        const bool stored = last_read[i] >= n;
        bool ok = element_ops[calls[i].op] != ELEMENT_NONE ? add_element(&build, &calls[i], stored) : add_view(&build, &calls[i], stored);
        if (!ok) return false;
    }
    if (build.dtype < 0) build.dtype = (int)F32; /* bools only: their numbers are any type's */
    program->dtype = (uint8_t)build.dtype;
    program->wide = program->n > INT32_MAX;
    if (program->nstores == 0 || !memory_is_safe(&build)) return false;
    for (int l = 0; l < program->nloads; l++)
        finish_load(&build, &program->load[l]);
    for (int s = 0; s < program->nstores; s++) {
        ChainStore *store = &program->store[s];
        const int width = 16 / dtype_bytes[build.dtype];
        store->packed = (store->dtype == build.dtype || store->dtype == BOOL) &&
                        (uintptr_t)store->data % (uintptr_t)(width * dtype_bytes[store->dtype]) == 0;
    }
    return emit(&build);
}

/* ---------------------------------------------------------------- fused runs */

typedef struct FusedChain {
    CudaFused base;
    ChainProgram program;
} FusedChain;

static bool run_chain(CudaContext *cuda, CudaFused *fused, Error *error) {
    const FusedChain *chain = (const FusedChain *)fused;
    return cuda_launched(cuda, kernels_chain(&chain->program, cuda->compute), "chain", error);
}

static void destroy_chain(CudaFused *fused) {
    free(fused);
}

static bool is_view(OpCode op) {
    return op == OP_transpose || op == OP_reshape || op == OP_slice || op == OP_split || op == OP_sum_grad || op == OP_stop_gradient ||
           op == OP_write || op == OP_convert;
}

int chain_fuse(CudaContext *cuda, const KernelCall *calls, int n, const int *last_read, CudaFused **fused, Error *error) {
    int most = 0;
    while (most < n && most < MAX_CALLS && (element_ops[calls[most].op] != ELEMENT_NONE || is_view(calls[most].op)))
        most++;
    if (most < 2) return update_fuse(cuda, calls, n, fused, error);
    FusedChain *chain = malloc(sizeof *chain);
    if (!chain) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory for a chain of %d operators", most);
        return -1;
    }
    chain->base = (CudaFused){run_chain, destroy_chain};
    /* The longest that can be: which results are stored depends on where the run ends. */
    while (most >= 2 && !chain_build(&chain->program, calls, most, last_read))
        most--;
    if (most >= 2) {
        *fused = &chain->base;
        return most;
    }
    free(chain);
    return update_fuse(cuda, calls, n, fused, error); /* of several tensors, each of its size */
}
