/* chain: see chain.h. Every result so far is a view of memory as it was before the step, or the result of a step of the program. */
#include "runtime/chain.h"

#include <assert.h>
#include <string.h>

#include "runtime/views.h"

/* A result of a call. */
typedef struct Result {
    const void *data;
    int64_t elements;
    DType dtype;
    bool is_view;
    View view;
    int step;
} Result;

enum { MAX_RESULTS = 2 * CHAIN_STEPS };

typedef struct Build {
    Chain *chain;
    bool begun; /* chain->n is known */
    Result result[MAX_RESULTS];
    int nresults;
} Build;

DType chain_source_dtype(const Chain *chain, ChainSource source) {
    return source.is_load ? chain->load[source.index].dtype : chain->step[source.index].dtype;
}

bool chain_load_is_linear(const ChainLoad *load) {
    return load->ndim == 1 && (load->stride[0] == 1 || load->size[0] == 1);
}

bool chain_is_reduction(OpCode op) {
    return op == OP_sum || op == OP_mean || op == OP_sum_to;
}

bool chain_load_overlaps(const ChainLoad *load, const void *data, int64_t bytes) {
    int64_t last = 0;
    for (int d = 0; d < load->ndim; d++)
        last += (load->size[d] - 1) * load->stride[d];
    return bytes_overlap(load->data, (last + 1) * dtype_bytes[load->dtype], data, bytes);
}

static bool take_size(Build *build, const Shape *shape) {
    const int64_t n = shape_elements(shape);
    if (!build->begun) build->chain->n = n;
    build->begun = true;
    return n == build->chain->n;
}

/* ---------------------------------------------------------------- loads */

static bool loads_equal(const ChainLoad *a, const ChainLoad *b) {
    return a->data == b->data && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0 &&
           memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride) == 0;
}

/* Adds the load of a view; strides: those along the dimensions of results of this shape. -1: there are too many loads. */
static int add_load(Build *build, const View *view, const Shape *shape, const int64_t *strides) {
    Chain *chain = build->chain;
    ChainLoad load = {.data = view->data, .dtype = view->dtype};
    int64_t linear[MAX_NDIM];
    Nest nest;
    strides_of(shape, linear);
    nest_init(&nest, 2);
    for (int d = 0; d < shape->ndim; d++)
        nest_push(&nest, shape->dim[d], (const int64_t[]){linear[d], strides[d]});
    nest_merge(&nest);
    assert(nest.ndim <= MAX_NDIM);
    load.ndim = nest.ndim;
    for (int d = 0; d < nest.ndim; d++) {
        load.size[d] = nest.size[d];
        load.stride[d] = nest.stride[1][d];
    }
    for (int l = 0; l < chain->nloads; l++)
        if (loads_equal(&chain->load[l], &load)) return l;
    if (chain->nloads == CHAIN_LOADS) return -1;
    chain->load[chain->nloads] = load;
    return chain->nloads++;
}

/* *found: what an operand is, the latest result at its address, or memory. False where something else lies there by now. */
static bool resolve(const Build *build, const Operand *operand, Result *found) {
    const int64_t elements = shape_elements(&operand->local);
    for (int r = build->nresults - 1; r >= 0; r--) {
        const Result *result = &build->result[r];
        if (result->data != operand->data) continue;
        *found = *result;
        return result->elements == elements && result->dtype == operand->dtype &&
               (!result->is_view || shape_equal(&result->view.at.shape, &operand->local));
    }
    *found = (Result){.is_view = true, .view = view_of(operand)};
    return true;
}

/* ---------------------------------------------------------------- calls */

static int add_step(Build *build, const ChainStep *step) {
    Chain *chain = build->chain;
    if (chain->nsteps == CHAIN_STEPS) return -1;
    chain->step[chain->nsteps] = *step;
    chain->step[chain->nsteps].last_use = -1;
    return chain->nsteps++;
}

static bool add_result(Build *build, const Operand *out, const Result *as) {
    if (build->nresults == MAX_RESULTS) return false;
    Result *result = &build->result[build->nresults++];
    *result = *as;
    result->data = out->data;
    result->elements = shape_elements(&out->local);
    result->dtype = out->dtype;
    return true;
}

/* Adds a step that stores a source as the result `out`. */
static bool add_copy(Build *build, ChainSource from, const Operand *out) {
    return add_step(build, &(ChainStep){.op = OP_write, .nin = 1, .in = {from}, .dtype = out->dtype, .out = out->data}) >= 0;
}

static bool store_view(Build *build, const View *view, const Operand *out) {
    if (!take_size(build, &out->local)) return false;
    int load = add_load(build, view, &view->at.shape, view->at.stride);
    return load >= 0 && add_copy(build, (ChainSource){true, load}, out);
}

/* Stores the result of a step in its own order: if no step has come after it, the step itself stores it. */
static bool store_step(Build *build, int step, const Operand *out) {
    Chain *chain = build->chain;
    if (!take_size(build, &out->local)) return false;
    if (step < chain->nsteps - 1 || chain->step[step].out) return add_copy(build, (ChainSource){false, step}, out);
    chain->step[step].out = out->data;
    return true;
}

static bool add_placement(Build *build, const KernelCall *call, unsigned inner) {
    Result from;
    if (call->nin != 1 || !resolve(build, &call->in[0], &from)) return false;
    for (int o = 0; o < call->nout; o++) {
        const Operand *out = &call->out[o];
        const bool stored = !(inner >> o & 1);
        Result result = from;
        if (shape_elements(&out->local) == 0) return false;
        if (from.is_view) {
            if (!view_result(call, o, &result.view) || (stored && !store_view(build, &result.view, out))) return false;
        } else { /* results of steps keep their order */
            if (!op_keeps_order(call->op) || (stored && !store_step(build, from.step, out))) return false;
        }
        if (!add_result(build, out, &result)) return false;
    }
    return true;
}

/* *source: operand i of a call, broadcast to the shape of its result. */
static bool find_source(Build *build, const KernelCall *call, int i, ChainSource *source) {
    const Shape *shape = &call->out[0].local;
    const Operand *in = &call->in[i];
    Result from;
    if (!resolve(build, in, &from)) return false;
    *source = (ChainSource){false, from.step};
    if (!from.is_view) return shape_elements(&in->local) == build->chain->n;
    View view = from.view;
    if (call->op == OP_mean_grad) {
        view_expand(&view, call);
    } else {
        int64_t stride[MAX_NDIM];
        for (int d = 0; d < shape->ndim; d++) {
            int at = d - (shape->ndim - in->local.ndim);
            stride[d] = at < 0 || (in->local.dim[at] == 1 && shape->dim[d] != 1) ? 0 : view.at.stride[at];
        }
        memcpy(view.at.stride, stride, sizeof stride);
    }
    *source = (ChainSource){true, add_load(build, &view, shape, view.at.stride)};
    return source->index >= 0;
}

static bool add_element(Build *build, const KernelCall *call, unsigned inner) {
    const Operand *out = &call->out[0];
    ChainStep step = {.op = call->op, .attr = call->attr, .nin = call->nin, .dtype = out->dtype, .out = inner & 1 ? NULL : out->data};
    if (call->nin > CHAIN_OPERANDS || call->nout != 1 || !take_size(build, &out->local)) return false;
    for (int i = 0; i < call->nin; i++)
        if (!find_source(build, call, i, &step.in[i])) return false;
    if (call->op == OP_mean_grad) step.number = (double)shape_elements(&out->global) / (double)shape_elements(&call->in[0].global);
    int at = add_step(build, &step);
    return at >= 0 && add_result(build, out, &(Result){.step = at});
}

/* Adds the reduction that the calls end in. */
static bool add_reduction(Build *build, const KernelCall *call) {
    Result from;
    if (!resolve(build, &call->in[0], &from) || from.is_view) return false;
    build->chain->reduced = from.step;
    return true;
}

/* Whether a step reads memory that an earlier step has overwritten with its result: through a view, which the plan has as a value of its own. */
static bool reads_overwritten(const Chain *chain) {
    for (int s = 0; s < chain->nsteps; s++)
        for (int i = 0; i < chain->step[s].nin; i++) {
            const ChainSource source = chain->step[s].in[i];
            for (int before = 0; source.is_load && before < s; before++) {
                const ChainStep *step = &chain->step[before];
                if (step->out && chain_load_overlaps(&chain->load[source.index], step->out, chain->n * dtype_bytes[step->dtype]))
                    return true;
            }
        }
    return false;
}

bool chain_build(Chain *chain, const KernelCall *calls, int n, const unsigned *inner) {
    Build build = {.chain = chain};
    *chain = (Chain){.reduced = -1};
    const bool reduces = n > 1 && chain_is_reduction(calls[n - 1].op);
    for (int i = 0; i < n - reduces; i++)
        if (!(op_places(calls[i].op) ? add_placement : add_element)(&build, &calls[i], inner[i])) return false;
    if (reduces && !add_reduction(&build, &calls[n - 1])) return false;
    if (chain->nsteps == 0 || reads_overwritten(chain)) return false; /* no step: nobody reads what the calls place */
    for (int s = 0; s < chain->nsteps; s++)
        for (int i = 0; i < chain->step[s].nin; i++)
            if (!chain->step[s].in[i].is_load) chain->step[chain->step[s].in[i].index].last_use = s;
    return true;
}
