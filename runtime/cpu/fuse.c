/* fuse: fused steps. The elementwise operators that follow a product process its tiles while they are in the cache; products of 16-bit types are computed
 * whole first. A sum adds up the blocks as they come, in the same order as the unfused kernel. */
#include <stdalign.h>
#include <stdlib.h>

#include "runtime/cpu/chain.h"
#include "runtime/cpu/cpu.h"

typedef struct Fused {
    CpuChain cpu;
    bool has_product, strided;
    bool apart; /* the product's kernel runs alone, before the others */
    KernelCall product;
    ProductStrides strides;
    bool sums;
    PieceSum sum;
    int64_t cost; /* of an element, in additions */
} Fused;

/* ---------------------------------------------------------------- building */

static bool reads(const KernelCall *call, const void *data, int64_t bytes) {
    for (int i = 0; i < call->nin; i++)
        if (bytes_overlap(call->in[i].data, operand_bytes(&call->in[i]), data, bytes)) return true;
    return false;
}

/* Whether nothing that is stored overlaps what the product's members read, as all tiles read it. */
static bool is_safe(const Fused *fused, const KernelCall *calls, int n) {
    const Chain *chain = &fused->cpu.chain;
    const Operand *out = &fused->product.out[0];
    for (int c = 0; c < n; c++) {
        if (reads(&calls[c], out->data, operand_bytes(out))) return false;
        for (int s = 0; s < chain->nsteps; s++)
            if (chain->step[s].out && reads(&calls[c], chain->step[s].out, chain->n * dtype_bytes[chain->step[s].dtype])) return false;
    }
    return true;
}

/* Whether the product of the first n calls and the program of the others can process the result together: the program reads it linearly. */
static bool take_product(Fused *fused, const KernelCall *calls, int n, int others) {
    const Chain *chain = &fused->cpu.chain;
    const Operand *out = &fused->product.out[0];
    const int64_t elements = shape_elements(&out->local), bytes = elements * dtype_bytes[out->dtype];
    fused->strided = n > 1;
    if (fused->strided && (!dtype_is_float(out->dtype) || !product_same_digits(&fused->product, &fused->strides))) return false;
    if (elements == 0 || (others > 0 && chain->n != elements)) return false;
    for (int l = 0; l < chain->nloads; l++) {
        const ChainLoad *load = &chain->load[l];
        if (chain_load_overlaps(load, out->data, bytes) && (load->data != out->data || !chain_load_is_linear(load))) return false;
    }
    return is_safe(fused, calls, n);
}

static bool build(Fused *fused, const KernelCall *calls, int n, const unsigned *inner) {
    Chain *chain = &fused->cpu.chain;
    const int first = product_take(calls, n, inner, &fused->product, &fused->strides), others = n - first;
    fused->has_product = first > 0;
    fused->apart = fused->has_product && call_is_half(&fused->product);
    if (fused->apart && (first > 1 || others == 0)) return false;
    if (others > 0) {
        if (!chain_build(chain, calls + first, others, inner + first)) return false;
        fused->sums = chain->reduced >= 0;
        if (fused->sums && (first > 0 || call_is_half(&calls[n - 1]) || !piece_sum_prepare(&calls[n - 1], &fused->sum))) return false;
        if (!cpu_chain_prepare(&fused->cpu, chain->reduced)) return false;
    }
    for (int s = 0; s < chain->nsteps; s++)
        fused->cost += op_table[chain->step[s].op].flops + 1;
    return first == 0 || fused->apart || take_product(fused, calls, first, others);
}

void *cpu_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error) {
    (void)context;
    Fused *fused = calloc(1, sizeof *fused);
    error->text[0] = '\0';
    if (!fused) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory for a fused step");
        return NULL;
    }
    if (build(fused, calls, n, inner)) return fused;
    free(fused);
    return NULL;
}

void cpu_unfuse(void *context, void *fused) {
    (void)context;
    free(fused);
}

/* ---------------------------------------------------------------- running */

enum { LINE = 64 }; /* elements; no two threads share a line */

/* What a thread needs to compute blocks. */
typedef struct Maker {
    const Fused *fused;
    char *slots;
} Maker;

static void run_range(const CpuChain *cpu, int64_t first, int64_t n, char *slots) {
    for (int64_t done = 0, next; done < n; done += next) {
        next = cpu_chain_next(cpu, first + done, n - done);
        cpu_chain_block(cpu, first + done, next, slots, -1);
    }
}

/* Ranges are of lines. */
static void chain_part(void *context, int64_t begin, int64_t end) {
    const Fused *fused = context;
    const int64_t n = fused->cpu.chain.n, last = end * LINE < n ? end * LINE : n;
    alignas(64) char slots[SLOTS_BYTES];
    cpu_chain_begin(&fused->cpu, slots);
    run_range(&fused->cpu, begin * LINE, last - begin * LINE, slots);
}

static void tile_part(void *context, int64_t first, int64_t m, int64_t n, int64_t leading) {
    const Fused *fused = context;
    alignas(64) char slots[SLOTS_BYTES];
    cpu_chain_begin(&fused->cpu, slots);
    if (leading == n) {
        run_range(&fused->cpu, first, m * n, slots);
        return;
    }
    for (int64_t row = 0; row < m; row++)
        run_range(&fused->cpu, first + row * leading, n, slots);
}

static const void *make_piece(void *context, int64_t first, int64_t n) {
    const Maker *maker = context;
    return cpu_chain_block(&maker->fused->cpu, first, n, maker->slots, maker->fused->cpu.chain.reduced);
}

static void sum_part(void *context, int64_t begin, int64_t end) {
    const Fused *fused = context;
    alignas(64) char slots[SLOTS_BYTES];
    cpu_chain_begin(&fused->cpu, slots);
    piece_sum_part(&fused->sum, begin, end, make_piece, &(Maker){fused, slots});
}

bool cpu_run_fused(void *context_, void *fused_, Error *error) {
    CpuContext *context = context_;
    Fused *fused = fused_;
    const int64_t n = fused->cpu.chain.n;
    if (fused->apart && !backend_cpu.kernels[fused->product.op](&fused->product, error)) return false;
    if (fused->has_product && !fused->apart)
        return einsum_with(&fused->product, fused->strided ? &fused->strides : NULL, fused->cpu.chain.nsteps > 0 ? tile_part : NULL, fused,
                           error);
    if (fused->sums) {
        pool_run(context->pool, fused->sum.rows, 1 + GRAIN / (fused->cost * fused->sum.n * fused->sum.times + 1), sum_part, fused);
    } else
        pool_run(context->pool, (n + LINE - 1) / LINE, 1 + GRAIN / (fused->cost * LINE), chain_part, fused);
    return true;
}
