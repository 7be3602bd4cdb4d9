/* fuse: fused steps. A product's tiles go through the elementwise operators that follow it while they are in the cache; a sum adds up the
 * blocks as they come, in the order of the kernel that sums alone. */
#include <stdalign.h>
#include <stdlib.h>

#include "runtime/cpu/chain.h"
#include "runtime/cpu/cpu.h"

typedef struct Fused {
    CpuChain cpu;
    KernelCall product; /* .nin 0: there is none */
    bool sums;
    PieceSum sum;
    int64_t cost; /* of an element, in additions */
} Fused;

/* ---------------------------------------------------------------- building */

static bool is_product(OpCode op) {
    return op == OP_matmul || op == OP_einsum;
}

static bool overlaps(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + (uintptr_t)b_bytes && (uintptr_t)b < (uintptr_t)a + (uintptr_t)a_bytes;
}

static bool reads(const KernelCall *call, const void *data, int64_t bytes) {
    for (int i = 0; i < call->nin; i++)
        if (overlaps(call->in[i].data, shape_elements(&call->in[i].local) * dtype_bytes[call->in[i].dtype], data, bytes)) return true;
    return false;
}

/* The product as the step's first member: its result is read as it lies, and nothing that is stored lies over its operands, which all tiles
 * read. */
static bool take_product(Fused *fused, const KernelCall *call) {
    const Chain *chain = &fused->cpu.chain;
    const Operand *out = &call->out[0];
    const int64_t bytes = chain->n * dtype_bytes[out->dtype];
    if (chain->n != shape_elements(&out->local) || chain->n == 0) return false;
    for (int l = 0; l < chain->nloads; l++) {
        const ChainLoad *load = &chain->load[l];
        if (chain_load_overlaps(load, out->data, bytes) && (load->data != out->data || !chain_load_is_linear(load))) return false;
    }
    for (int s = 0; s < chain->nsteps; s++)
        if (chain->step[s].out && reads(call, chain->step[s].out, chain->n * dtype_bytes[chain->step[s].dtype])) return false;
    fused->product = *call;
    return true;
}

static bool build(const CpuContext *context, Fused *fused, const KernelCall *calls, int n, const unsigned *inner) {
    Chain *chain = &fused->cpu.chain;
    const bool product = is_product(calls[0].op);
    if (n - product < 1 || !chain_build(chain, calls + product, n - product, inner + product)) return false;
    fused->sums = chain->reduced >= 0;
    if (fused->sums && (product || !piece_sum_prepare(&calls[n - 1], pool_threads(context->pool), &fused->sum))) return false;
    if (!cpu_chain_prepare(&fused->cpu, chain->reduced)) return false;
    for (int s = 0; s < chain->nsteps; s++)
        fused->cost += op_table[chain->step[s].op].flops + 1;
    return !product || take_product(fused, &calls[0]);
}

void *cpu_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error) {
    Fused *fused = calloc(1, sizeof *fused);
    error->text[0] = '\0';
    if (!fused) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory for a fused step");
        return NULL;
    }
    if (build(context, fused, calls, n, inner)) return fused;
    free(fused);
    return NULL;
}

void cpu_unfuse(void *context, void *fused) {
    (void)context;
    free(fused);
}

/* ---------------------------------------------------------------- running */

enum { LINE = 64 }; /* elements that no two threads share */

/* What a thread makes blocks with. */
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
    run_range(&fused->cpu, begin * LINE, last - begin * LINE, slots);
}

static void tile_part(void *context, int64_t first, int64_t m, int64_t n, int64_t leading) {
    const Fused *fused = context;
    alignas(64) char slots[SLOTS_BYTES];
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
    piece_sum_part(&fused->sum, begin, end, make_piece, &(Maker){fused, slots});
}

bool cpu_run_fused(void *context_, void *fused_, Error *error) {
    CpuContext *context = context_;
    Fused *fused = fused_;
    const int64_t n = fused->cpu.chain.n;
    if (fused->product.nin > 0) return einsum_with(&fused->product, tile_part, fused, error);
    if (fused->sums) {
        const int64_t items = piece_sum_items(&fused->sum);
        pool_run(context->pool, items, 1 + GRAIN / (fused->cost * n / items + 1), sum_part, fused);
    } else
        pool_run(context->pool, (n + LINE - 1) / LINE, 1 + GRAIN / (fused->cost * LINE), chain_part, fused);
    return true;
}
