/* disturb: see disturb.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ir/lookup.h"
#include "runtime/disturb.h"
#include "runtime/element.h"
#include "runtime/exec.h"

struct Disturber {
    Backend backend; /* what executors see; its context is this */
    KernelFn *kernels[NOPS];
    const Backend *inner;
    void *context; /* inner's */
    double roundings;
    uint64_t seed;
    int64_t ncalls; /* of kernels since disturber_set: tells tensors apart */
};

/* ---------------------------------------------------------------- numbers */

static uint64_t mix(uint64_t x) /* splitmix64 */
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

double number_epsilon(DType dtype) {
    static const double epsilon[NDTYPES] = {[F32] = FLT_EPSILON, [F64] = DBL_EPSILON, [F16] = 0x1p-10, [BF16] = 0x1p-7};
    return epsilon[dtype];
}

double number_moved(double number, double least, DType dtype, double roundings, uint64_t key) {
    const double share = (double)(mix(key) >> 11) * 0x1p-52 - 1; /* [-1, 1) */
    const double part = roundings * number_epsilon(dtype) * share;
    return fabs(number) < least ? number + least * part : number * (1 + part);
}

/* Moves the elements of a tensor; number: the tensor's. */
static void move_elements(const Disturber *disturber, void *data, DType dtype, int64_t n, int64_t number, double least) {
    if (disturber->roundings == 0) return;
    for (int64_t i = 0; i < n; i++)
        element_put(data, dtype, i,
                    number_moved(element_at(data, dtype, i), least, dtype, disturber->roundings,
                                 (uint64_t)i ^ ((uint64_t)number << 40) ^ disturber->seed * 0x9E3779B97F4A7C15u));
}

/* ---------------------------------------------------------------- the backend */

/* Whether results are not moved: an operator that only moves or selects elements rounds nothing. A moved result of max would equal none of
 * its operands, and its gradient would vanish. */
static bool rounds_nothing(OpCode op) {
    return op_table[op].flops == 0 || op_table[op].reduction != REDUCE_SUM;
}

static bool run_kernel(const KernelCall *call, Error *error) {
    Disturber *disturber = call->context;
    KernelCall own = *call;
    own.context = disturber->context;
    if (!disturber->inner->kernels[call->op](&own, error)) return false;
    for (int o = 0; !rounds_nothing(call->op) && o < call->nout; o++)
        move_elements(disturber, call->out[o].data, call->out[o].dtype, shape_elements(&call->out[o].local),
                      disturber->ncalls * MAX_OUT + o, op_table[call->op].cancels && o == 0 ? 1 : 0);
    disturber->ncalls++;
    return true;
}

static bool prepare(const KernelCall *call, Error *error) {
    const Disturber *disturber = call->context;
    KernelCall own = *call;
    own.context = disturber->context;
    return disturber->inner->prepare(&own, error);
}

static void disturber_close(void *context) {
    Disturber *disturber = context;
    disturber->inner->close(disturber->context);
    free(disturber);
}

static void *alloc(void *context, int64_t bytes, Error *error) {
    const Disturber *disturber = context;
    return disturber->inner->alloc(disturber->context, bytes, error);
}

static void release(void *context, void *data) {
    const Disturber *disturber = context;
    disturber->inner->free(disturber->context, data);
}

static bool upload(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    const Disturber *disturber = context;
    return disturber->inner->upload(disturber->context, to, from, bytes, error);
}

static bool download(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    const Disturber *disturber = context;
    return disturber->inner->download(disturber->context, to, from, bytes, error);
}

static bool copy(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    const Disturber *disturber = context;
    return disturber->inner->copy(disturber->context, to, from, bytes, error);
}

static bool settle(void *context, Error *error) {
    const Disturber *disturber = context;
    return disturber->inner->sync(disturber->context, error);
}

Disturber *disturber_open(Device *device, const Backend *inner, const DeviceOptions *options, Error *error) {
    Disturber *disturber = calloc(1, sizeof *disturber);
    *device = (Device){0};
    if (!disturber) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    disturber->inner = inner;
    disturber->backend = (Backend){.name = inner->name,
                                   .host = true,
                                   .close = disturber_close,
                                   .alloc = alloc,
                                   .free = release,
                                   .upload = upload,
                                   .download = download,
                                   .copy = copy,
                                   .sync = settle,
                                   .kernels = disturber->kernels,
                                   .prepare = inner->prepare ? prepare : NULL};
    for (int op = 0; op < NOPS; op++)
        disturber->kernels[op] = inner->kernels[op] ? run_kernel : NULL;
    if (!inner->open(&disturber->context, options, error)) {
        free(disturber);
        return NULL;
    }
    *device = (Device){&disturber->backend, disturber};
    return disturber;
}

/* ---------------------------------------------------------------- what no kernel computes */

static void move_batch(void *context, int input, DType dtype, void *data, int64_t n) {
    move_elements(context, data, dtype, n, input, 0);
}

/* Per value whether its elements are added up unchanged, perhaps after being placed elsewhere, and never compared: moved a little they could
 * compare differently. NULL: out of memory. */
static bool *values_added(const Graph *graph) {
    bool *added = calloc((size_t)graph->values.n + 1, 2 * sizeof *added), *compared = added ? added + graph->values.n + 1 : NULL;
    for (int n = graph->nodes.n - 1; added && n >= 0; n--) {
        const Node *node = &graph->nodes.at[n];
        bool adds = false, compares = false;
        for (int f = 0; node->nin > 0 && node->rule && op_table[node->op].reduction == REDUCE_SUM && f < node->rule->nfactors; f++)
            adds = adds || rule_sums(node->rule, f);
        for (int o = 0; o < node->nout; o++) {
            adds = adds || (op_only_moves(node->op) && added[node->out[o]]);
            compares = compares || (op_only_moves(node->op) && compared[node->out[o]]) ||
                       !dtype_is_float(graph->values.at[node->out[o]].type.dtype);
        }
        for (int i = 0; i < node->nin; i++) {
            compared[node->in[i]] = compared[node->in[i]] || compares;
            added[node->in[i]] = (added[node->in[i]] || adds) && !compared[node->in[i]];
        }
    }
    return added;
}

/* Moves elements of constants that are added up: their sum can be exactly 0, which stays 0 if it is moved itself, but on several
 * ranks it is the rounding of its terms. */
static void move_constants(const Disturber *disturber, Executor *executor) {
    const Graph *graph = &executor->plan->graph;
    bool *added = values_added(graph);
    for (int d = 0; added && d < executor->comm->ndriven; d++) {
        const Cursor *cursor = &executor->cursors[d];
        for (int i = 0; i < cursor->role->instances.n; i++) {
            const Instance *instance = &cursor->role->instances.at[i];
            const DType dtype = graph->values.at[instance->value].type.dtype;
            if (instance->place != PLACE_CONSTANT || !added[instance->value] || !dtype_is_float(dtype)) continue;
            constant_fill(graph, instance, &cursor->box[i], cursor->at[i]);
            move_elements(disturber, cursor->at[i], dtype, box_elements(&cursor->box[i]), -1 - instance->value, 0);
        }
    }
    free(added);
}

void disturber_set(Disturber *disturber, Executor *executor, double roundings, uint64_t seed) {
    disturber->roundings = roundings;
    disturber->seed = seed;
    disturber->ncalls = 0;
    data_filter(executor->data, move_batch, disturber);
    move_constants(disturber, executor);
}
