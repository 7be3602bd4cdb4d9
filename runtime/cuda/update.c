/* update: optimizers and clipping, for one tensor or a run of several tensors in one launch; runs of casts. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/cuda/chain.h"

static double attribute(const KernelCall *call, const char *name) {
    int at = op_attr(call->op, name);
    return at < 0 ? 0 : call->attr[at].f;
}

/* The operand of this name, or NULL: the operator has none, or it is missing. */
static const Operand *operand(const KernelCall *call, const char *name) {
    int at = op_in(call->op, name);
    return at < 0 || at >= call->nin ? NULL : &call->in[at];
}

static bool is_update(OpCode op) {
    return op == OP_sgd || op == OP_momentum || op == OP_adam || op == OP_adamw || op == OP_lion || op == OP_lamb_step || op == OP_lamb ||
           op == OP_adafactor || op == OP_clip;
}

/* ---------------------------------------------------------------- updates */

/* Sets what all calls of a launch have in common. */
static bool init_table(UpdateTable *table, const KernelCall *call) {
    const Operand *rate = operand(call, call->op == OP_clip ? "s" : "rate"), *count = operand(call, "update");
    const Operand *of_w = operand(call, "of_w"), *of_u = operand(call, "of_u");
    *table = (UpdateTable){
        .kind = call->op == OP_sgd                                ? UPDATE_SGD
                : call->op == OP_lamb || call->op == OP_adafactor ? UPDATE_SGD
                : call->op == OP_momentum                         ? UPDATE_MOMENTUM
                : call->op == OP_lion                             ? UPDATE_LION
                : call->op == OP_clip                             ? UPDATE_CLIP
                                                                  : UPDATE_ADAM,
        .dtype = (int)call->in[0].dtype,
        .decoupled = call->op == OP_adamw,
        .direction = call->op == OP_lamb_step,
        .nesterov = call->op == OP_momentum && call->attr[op_attr(OP_momentum, "nesterov")].i != 0,
        .rate = rate ? rate->data : NULL,
        .count = count ? count->data : NULL,
        .of_w = of_w ? of_w->data : NULL,
        .of_u = of_u ? of_u->data : NULL,
        .lr = attribute(call, "lr"),
        .momentum = attribute(call, "momentum"),
        .beta1 = attribute(call, "beta1"),
        .beta2 = attribute(call, "beta2"),
        .eps = attribute(call, "eps"),
        .decay = attribute(call, "weight_decay"),
        .norm = attribute(call, "norm"),
        .eps2 = attribute(call, "eps2"),
        .d = attribute(call, "d"),
        .elements = call->op == OP_adafactor ? (double)shape_elements(&call->in[0].global) : 0,
    };
    return dtype_is_float(call->in[0].dtype);
}

static bool tables_agree(const UpdateTable *a, const UpdateTable *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->decoupled == b->decoupled && a->direction == b->direction &&
           a->of_w == b->of_w && a->of_u == b->of_u && a->nesterov == b->nesterov && a->rate == b->rate && a->count == b->count &&
           a->lr == b->lr && a->momentum == b->momentum && a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps &&
           a->eps2 == b->eps2 && a->d == b->d && a->elements == b->elements && a->decay == b->decay && a->norm == b->norm;
}

static const void *data_of(const KernelCall *call, const char *name) {
    const Operand *found = operand(call, name);
    return found ? found->data : NULL;
}

static void add_tensor(UpdateTable *table, const KernelCall *call) {
    UpdateTensor *tensor = &table->tensor[table->ntensors++];
    *tensor = (UpdateTensor){
        .w = data_of(call, "w"),
        .g = data_of(call, call->op == OP_clip         ? "x"
                           : op_in(call->op, "u") >= 0 ? "u"
                                                       : "g"),
        .m = data_of(call, "m"),
        .v = data_of(call, "v"),
        .new_w = call->out[0].data,
        .n = shape_elements(&call->out[0].local),
        .packed = true,
    };
    if (call->op == OP_momentum) tensor->new_v = call->out[1].data;
    if (call->op == OP_lion) tensor->new_m = call->out[1].data;
    if (call->op == OP_adam || call->op == OP_adamw || call->op == OP_lamb_step) {
        tensor->new_m = call->out[1].data;
        tensor->new_v = call->out[2].data;
    }
    const void *all[] = {tensor->w, tensor->g, tensor->m, tensor->v, tensor->new_w, tensor->new_m, tensor->new_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor->packed = tensor->packed && (uintptr_t)all[i] % 16 == 0;
}

static bool update(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    UpdateTable table;
    if (!init_table(&table, call))
        return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[call->in[0].dtype]);
    add_tensor(&table, call);
    return cuda_launched(cuda, kernels_update(&table, cuda->compute), op_table[call->op].name, error);
}

bool kernel_sgd(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_momentum(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_lion(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_lamb_step(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_adafactor(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_lamb(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_adam(const KernelCall *call, Error *error) {
    return update(call, error);
}
bool kernel_adamw(const KernelCall *call, Error *error) {
    return update(call, error);
}

/* ---------------------------------------------------------------- sums of squares */

static_assert(UPDATE_TENSORS * SQUARES_BLOCKS * sizeof(double) <= SCRATCH_BYTES - SCRATCH_COUNTERS * sizeof(unsigned), "partial sums fit");

static void init_squares(const CudaContext *cuda, SquaresTable *table, const KernelCall *call) {
    *table = (SquaresTable){.dtype = (int)call->in[0].dtype,
                            .partial = (double *)(void *)((char *)cuda->scratch + SCRATCH_COUNTERS * sizeof(unsigned))};
}

static void add_squares(SquaresTable *table, const KernelCall *call) {
    const Operand *x = &call->in[0];
    struct SquaresTensor *tensor = &table->tensor[table->ntensors++];
    tensor->x = x->data;
    tensor->out = call->out[0].data;
    tensor->n = shape_elements(&x->local);
    tensor->packed = (uintptr_t)x->data % 16 == 0;
}

bool kernel_sum_squares(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    SquaresTable table;
    if (!dtype_is_float(call->in[0].dtype))
        return error_set(error, EXIT_INTERNAL, "sum_squares: no kernel for %s", dtype_name[call->in[0].dtype]);
    init_squares(cuda, &table, call);
    add_squares(&table, call);
    return cuda_launched(cuda, kernels_squares(&table, cuda->compute), "sum_squares", error);
}

/* ---------------------------------------------------------------- casts */

bool cast_is_plain(const KernelCall *call) {
    const DType from = call->in[0].dtype, to = call->out[0].dtype;
    return call->op == OP_cast && ((from == F32 && dtype_is_half(to)) || (dtype_is_half(from) && to == F32));
}

static void add_cast(CastTable *table, const KernelCall *call) {
    struct CastTensor *tensor = &table->tensor[table->ntensors++];
    tensor->x = call->in[0].data;
    tensor->out = call->out[0].data;
    tensor->n = shape_elements(&call->out[0].local);
    tensor->packed = (uintptr_t)tensor->x % 16 == 0 && (uintptr_t)tensor->out % 16 == 0;
}

static void init_casts(CastTable *table, const KernelCall *call) {
    *table = (CastTable){.from = (int)call->in[0].dtype, .to = (int)call->out[0].dtype};
}

bool cast_run(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    CastTable table;
    init_casts(&table, call);
    add_cast(&table, call);
    return cuda_launched(cuda, kernels_casts(&table, cuda->compute), "cast", error);
}

/* ---------------------------------------------------------------- runs */

/* Whether `late`, which follows `early`, can be in one launch with it: neither writes what the other reads or writes. */
static bool independent(const KernelCall *early, const KernelCall *late) {
    for (int o = 0; o < early->nout; o++) {
        for (int i = 0; i < late->nin; i++)
            if (operands_overlap(&early->out[o], &late->in[i])) return false;
        for (int k = 0; k < late->nout; k++)
            if (operands_overlap(&early->out[o], &late->out[k])) return false;
    }
    for (int o = 0; o < late->nout; o++)
        for (int i = 0; i < early->nin; i++)
            if (operands_overlap(&late->out[o], &early->in[i])) return false;
    return true;
}

/* Several calls as one launch. */
typedef struct FusedRun {
    CudaFused base;
    union {
        UpdateTable updates;
        SquaresTable squares;
        CastTable casts;
    };
} FusedRun;

static bool run_updates(CudaContext *cuda, CudaFused *fused, Error *error) {
    return cuda_launched(cuda, kernels_update(&((FusedRun *)fused)->updates, cuda->compute), "updates", error);
}
static bool run_squares(CudaContext *cuda, CudaFused *fused, Error *error) {
    return cuda_launched(cuda, kernels_squares(&((FusedRun *)fused)->squares, cuda->compute), "sums of squares", error);
}
static bool run_casts(CudaContext *cuda, CudaFused *fused, Error *error) {
    return cuda_launched(cuda, kernels_casts(&((FusedRun *)fused)->casts, cuda->compute), "casts", error);
}
static void destroy(CudaFused *fused) {
    free(fused);
}

/* How many calls from the first on can be one launch. */
static int run_of(const KernelCall *calls, int n) {
    UpdateTable first, table;
    int taken = 1;
    const bool plain = calls[0].op == OP_sum_squares || cast_is_plain(&calls[0]); /* needs no table of attributes */
    if (!plain && (!is_update(calls[0].op) || !init_table(&first, &calls[0]))) return 0;
    for (; taken < n && taken < UPDATE_TENSORS && calls[taken].op == calls[0].op && calls[taken].in[0].dtype == calls[0].in[0].dtype &&
           calls[taken].out[0].dtype == calls[0].out[0].dtype;
         taken++) {
        if (!plain && (!init_table(&table, &calls[taken]) || !tables_agree(&table, &first))) return taken;
        for (int k = 0; k < taken; k++)
            if (!independent(&calls[k], &calls[taken])) return taken;
    }
    return taken;
}

static void fill_run(const CudaContext *cuda, FusedRun *run, const KernelCall *calls, int n) {
    if (calls[0].op == OP_sum_squares) {
        run->base = (CudaFused){run_squares, destroy};
        init_squares(cuda, &run->squares, &calls[0]);
        for (int i = 0; i < n; i++)
            add_squares(&run->squares, &calls[i]);
    } else if (calls[0].op == OP_cast) {
        run->base = (CudaFused){run_casts, destroy};
        init_casts(&run->casts, &calls[0]);
        for (int i = 0; i < n; i++)
            add_cast(&run->casts, &calls[i]);
    } else {
        run->base = (CudaFused){run_updates, destroy};
        init_table(&run->updates, &calls[0]);
        for (int i = 0; i < n; i++)
            add_tensor(&run->updates, &calls[i]);
    }
}

int update_fuse(CudaContext *cuda, const KernelCall *calls, int n, CudaFused **fused, Error *error) {
    const int taken = run_of(calls, n);
    if (taken < 2) return 0;
    FusedRun *run = malloc(sizeof *run);
    if (!run) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory for a launch of %d tensors", taken);
        return -1;
    }
    fill_run(cuda, run, calls, taken);
    *fused = &run->base;
    return taken;
}
