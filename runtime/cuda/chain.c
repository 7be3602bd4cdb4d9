/* chain: the program of a fused step (runtime/chain.h) as one launch. All numbers have one type; operands and values are in the slots of a
 * thread's column. Each thread loads all of its elements before it stores any. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/chain.h"

static_assert(KERNEL_F32 == (int)F32 && KERNEL_F64 == (int)F64 && KERNEL_I32 == (int)I32 && KERNEL_I64 == (int)I64 &&
                  KERNEL_BOOL == (int)BOOL && KERNEL_F16 == (int)F16 && KERNEL_BF16 == (int)BF16,
              "element types have one numbering");
static_assert((int)KERNEL_NDIM >= (int)MAX_NDIM && (int)CHAIN_NODES >= (int)CHAIN_STEPS, "a launch has room for a program");

/* The operation of each operator on elements; ELEMENT_NONE for views and operators that a chain cannot compute. */
static const uint8_t element_ops[NOPS] = {
#define UNARY_OP(name, ...) [OP_##name] = ELEMENT_##name,
#define UNARY_OP_X(name, ...) [OP_##name] = ELEMENT_##name, [OP_##name##_grad] = ELEMENT_##name##_grad,
#define UNARY_OP_Y(name, ...) [OP_##name] = ELEMENT_##name, [OP_##name##_grad] = ELEMENT_##name##_grad,
#define BINARY_OP(name, ...) [OP_##name] = ELEMENT_##name,
#include "ir/elementwise.def"
    [OP_constant] = ELEMENT_CONSTANT,
    [OP_gelu] = ELEMENT_gelu,
    [OP_clamp] = ELEMENT_CLAMP,
    [OP_cast] = ELEMENT_COPY,
    [OP_compress] = ELEMENT_COPY,
    [OP_less] = ELEMENT_LESS,
    [OP_less_equal] = ELEMENT_LESS_EQUAL,
    [OP_greater] = ELEMENT_GREATER,
    [OP_greater_equal] = ELEMENT_GREATER_EQUAL,
    [OP_equal] = ELEMENT_EQUAL,
    [OP_not_equal] = ELEMENT_NOT_EQUAL,
    [OP_where] = ELEMENT_WHERE,
    [OP_gelu_grad] = ELEMENT_gelu_grad,
    [OP_max_mask] = ELEMENT_max_mask,
    [OP_max_share] = ELEMENT_max_share,
    [OP_clamp_grad] = ELEMENT_CLAMP_GRAD,
    [OP_mean_grad] = ELEMENT_DIVIDE,
    [OP_clip] = ELEMENT_CLIP,
};

typedef struct Build {
    const Chain *chain;
    ChainLaunch *launch;
    int dtype;             /* of the launch, -1: only bools so far */
    int node[CHAIN_STEPS]; /* the node of each step; for a copy, the node that it copies */
    int step[CHAIN_STEPS]; /* the step of each node */
    int nnodes;
    int store_node[CHAIN_STORES];
    int last_use[CHAIN_STEPS]; /* by node: the last node that reads it, -1: none */
    bool kept[CHAIN_STEPS];    /* a node other than the next reads it */
} Build;

/* ---------------------------------------------------------------- types */

/* The type in which elements of this type are computed. */
static DType computed(DType dtype) {
    return dtype_is_half(dtype) ? F32 : dtype;
}

/* Whether the launch can compute with values of this type; the first that is not bool becomes the launch's type. */
static bool take_dtype(Build *build, DType dtype) {
    if (dtype == BOOL) return true;
    if (build->dtype < 0) build->dtype = (int)dtype;
    return build->dtype == (int)dtype;
}

static bool is_of_reals(ElementOp op) {
    return op > ELEMENT_REAL;
}

/* The operands' type decides; for a cast between numbers its result's, if the launch has no type yet, as loads convert. A cast to another
 * type can only be stored. */
static bool take_types(Build *build, const ChainStep *step) {
    const Chain *chain = build->chain;
    const DType in = computed(step->nin > 0 ? chain_source_dtype(chain, step->in[step->nin - 1]) : step->dtype),
                out = computed(step->dtype);
    const bool converts = (step->op == OP_cast || step->op == OP_compress) && in != BOOL && out != BOOL;
    if (!converts && !take_dtype(build, in)) return false;
    if (converts && build->dtype < 0) build->dtype = (int)out;
    if (converts && build->dtype != (int)in && build->dtype != (int)out) return false;
    for (int i = 0; i < step->nin; i++) {
        const DType dtype = computed(chain_source_dtype(chain, step->in[i]));
        if (dtype != BOOL && (int)dtype != build->dtype && !(converts && step->in[i].is_load)) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- loads */

/* Where neighbours in the result are apart in the operand, each cache line is read again and again: little data stays in the cache
 * meanwhile, but much is better copied into order first. */
enum { SCATTERED_BYTES = 2 << 20 };

static bool add_loads(Build *build) {
    const Chain *chain = build->chain;
    ChainLaunch *launch = build->launch;
    if (chain->nloads > CHAIN_SLOTS) return false;
    for (int l = 0; l < chain->nloads; l++) {
        const ChainLoad *from = &chain->load[l];
        LaunchLoad *load = &launch->load[launch->nloads++];
        const int64_t inner = from->stride[from->ndim - 1];
        if (inner > 1 && launch->n * dtype_bytes[from->dtype] > SCATTERED_BYTES) return false;
        *load = (LaunchLoad){.data = from->data, .dtype = (uint8_t)from->dtype, .ndim = (uint8_t)from->ndim};
        for (int d = 0; d < from->ndim; d++) {
            load->size[d] = from->size[d];
            load->stride[d] = from->stride[d];
            load->divisor[d] = kernel_divisor(from->size[d]);
        }
        load->mode = chain_load_is_linear(from) ? CHAIN_LINEAR : CHAIN_ANY;
    }
    return true;
}

/* Whether the launch can access elements of this type at this address in packs. */
static bool is_packed(const Build *build, const void *data, DType dtype) {
    const int width = 16 / dtype_bytes[build->dtype];
    return ((int)computed(dtype) == build->dtype || dtype == BOOL) && (uintptr_t)data % (uintptr_t)(width * dtype_bytes[dtype]) == 0;
}

/* Decides how packs are loaded, once the launch's type is known. */
static void finish_load(const Build *build, LaunchLoad *load) {
    const int width = 16 / dtype_bytes[build->dtype], last = load->ndim - 1;
    load->packed = is_packed(build, load->data, (DType)load->dtype);
    if (load->mode == CHAIN_LINEAR) return;
    if (load->size[last] % width == 0 || (load->ndim == 1 && load->stride[last] == 0)) load->mode = CHAIN_ROWS;
    load->packed = load->packed && load->mode == CHAIN_ROWS && load->stride[last] == 1;
    for (int d = 0; d < last; d++)
        load->packed = load->packed && load->stride[d] % width == 0;
}

/* ---------------------------------------------------------------- nodes */

static bool add_store(Build *build, int node, const ChainStep *step) {
    ChainLaunch *launch = build->launch;
    if (!step->out) return true;
    if (launch->nstores == CHAIN_STORES) return false;
    build->store_node[launch->nstores] = node;
    launch->store[launch->nstores++] = (LaunchStore){.data = step->out, .dtype = (uint8_t)step->dtype};
    return true;
}

/* The operation of a step on elements; ELEMENT_NONE: no launch can do it. */
static ElementOp element_of(const ChainStep *step) {
    if (step->op == OP_write) return ELEMENT_COPY;
    if (step->op == OP_gelu && step->attr[0].i) return ELEMENT_gelu_tanh;
    if (step->op == OP_gelu_grad && step->attr[0].i) return ELEMENT_gelu_tanh_grad;
    if (step->op == OP_cast && step->dtype == BOOL) return ELEMENT_TRUTH;
    return (ElementOp)element_ops[step->op];
}

static void constants_of(const ChainStep *step, double *constant) {
    constant[0] = constant[1] = 0;
    if (step->op == OP_constant) constant[0] = step->attr[0].f;
    if (step->op == OP_clip) constant[0] = step->attr[op_attr(OP_clip, "norm")].f;
    if (step->op == OP_mean_grad) constant[0] = step->number;
    if (step->op == OP_clamp || step->op == OP_clamp_grad)
        for (int i = 0; i < 2; i++)
            constant[i] = step->attr[i].given ? step->attr[i].f : i ? INFINITY : -INFINITY;
}

static bool add_node(Build *build, int s) {
    const ChainStep *step = &build->chain->step[s];
    if (step->op == OP_write && !step->in[0].is_load) { /* only another store */
        build->node[s] = build->node[step->in[0].index];
        return add_store(build, build->node[s], step);
    }
    const ElementOp op = element_of(step);
    if (op == ELEMENT_NONE || !take_types(build, step)) return false;
    if (is_of_reals(op) && !(build->dtype >= 0 && dtype_is_float((DType)build->dtype))) return false;
    const int node = build->node[s] = build->nnodes++;
    build->step[node] = s;
    build->last_use[node] = -1;
    return add_store(build, node, step);
}

/* ---------------------------------------------------------------- slots */

static int constant_index(ChainLaunch *launch, int *nconstants, double value) {
    for (int i = 0; i < *nconstants; i++)
        if (memcmp(&launch->constant[i], &value, sizeof value) == 0) return i;
    if (*nconstants == CHAIN_CONSTANTS) return -1;
    launch->constant[*nconstants] = value;
    return (*nconstants)++;
}

static void find_uses(Build *build, int *load_use) {
    for (int k = 0; k < build->nnodes; k++) {
        const ChainStep *step = &build->chain->step[build->step[k]];
        for (int i = 0; i < step->nin; i++) {
            const int from = step->in[i].is_load ? -1 : build->node[step->in[i].index];
            if (from < 0) {
                load_use[step->in[i].index] = k;
            } else {
                build->last_use[from] = k;
                build->kept[from] |= k != from + 1;
            }
        }
    }
}

/* Emits the nodes in order, each with a slot from where it is computed to where it is last read. */
static bool emit(Build *build) {
    ChainLaunch *launch = build->launch;
    int slot_until[CHAIN_SLOTS], slot_of[CHAIN_STEPS], nconstants = 0, nstores = 0;
    LaunchStore stores[CHAIN_STORES];
    memset(slot_until, -1, sizeof slot_until); /* loads have the first slots */
    find_uses(build, slot_until);
    for (int k = 0; k < build->nnodes; k++) {
        const ChainStep *step = &build->chain->step[build->step[k]];
        LaunchStep *to = &launch->step[launch->nsteps++];
        double constant[2];
        constants_of(step, constant);
        int low = constant_index(launch, &nconstants, constant[0]), high = constant_index(launch, &nconstants, constant[1]);
        if (low < 0 || high < 0) return false;
        *to = (LaunchStep){.op = (uint8_t)element_of(step),
                           .slot = CHAIN_RESULT,
                           .constant = {(uint8_t)low, (uint8_t)high},
                           .round = dtype_is_half(step->dtype) && build->dtype == (int)F32 ? (uint8_t)step->dtype : 0,
                           .first_store = (uint8_t)nstores};
        for (int i = 0; i < 3; i++) {
            const ChainSource in = i < step->nin ? step->in[i] : (ChainSource){false, -1};
            const int from = in.is_load || in.index < 0 ? k - 1 : build->node[in.index];
            to->in[i] = (uint8_t)(in.is_load ? in.index : from == k - 1 ? CHAIN_RESULT : slot_of[from]);
        }
        if (build->kept[k]) { /* operands are read before the result is written, so it can reuse a slot that is last read here */
            int slot = 0;
            while (slot < CHAIN_SLOTS && slot_until[slot] > k)
                slot++;
            if (slot == CHAIN_SLOTS) return false;
            slot_until[slot] = build->last_use[k];
            slot_of[k] = slot;
            to->slot = (uint8_t)slot;
        }
        for (int s = 0; s < launch->nstores; s++)
            if (build->store_node[s] == k) stores[nstores++] = launch->store[s];
        to->nstores = (uint8_t)(nstores - to->first_store);
    }
    memcpy(launch->store, stores, (size_t)nstores * sizeof *stores);
    return true;
}

bool chain_launch(ChainLaunch *launch, const Chain *chain) {
    Build build = {.chain = chain, .launch = launch, .dtype = -1};
    *launch = (ChainLaunch){.n = chain->n};
    if (!add_loads(&build)) return false;
    for (int s = 0; s < chain->nsteps; s++)
        if (!add_node(&build, s)) return false;
    if (build.dtype < 0) build.dtype = (int)F32; /* only bools: any type will do */
    launch->dtype = (uint8_t)build.dtype;
    launch->wide = launch->n > INT32_MAX;
    for (int l = 0; l < launch->nloads; l++)
        finish_load(&build, &launch->load[l]);
    for (int s = 0; s < launch->nstores; s++)
        launch->store[s].packed = is_packed(&build, launch->store[s].data, (DType)launch->store[s].dtype);
    return emit(&build);
}
