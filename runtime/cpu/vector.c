/* vector: see vector.h. attentionloops.c, batchloops.c, depthwiseloops.c, elements.c, lossloops.c, normloops.c, productloops.c, rowloops.c and sumloops.c are compiled once for each variant, VECTOR being its name. */
#include "runtime/cpu/vector.h"

#define VARIANT(variant)                                                                                                                   \
    {                                                                                                                                      \
        element_loop_##variant, row_loop_##variant, sum_loops_##variant, norm_loop_##variant, batch_loop_##variant,                        \
            attention_loops_##variant, loss_loops_##variant, depthwise_loops_##variant, product_loop_##variant                             \
    }
DECLARE_LOOPS(base)
#ifdef PRUN_VECTORS
DECLARE_LOOPS(avx2)
DECLARE_LOOPS(avx512)
#endif

static const VectorLoops variants[] = {
    VARIANT(base),
#ifdef PRUN_VECTORS
    VARIANT(avx2),
    VARIANT(avx512),
#endif
};

int vector_variants(void) {
#ifdef PRUN_VECTORS
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
    return wide ? 3 : 2;
#else
    return 1;
#endif
}

const VectorLoops *vector_variant(int i) {
    return &variants[i];
}

ElementLoop *element_loop(OpCode op, const Attr *attr, DType in, DType out) {
    return variants[vector_variants() - 1].element(op, attr, in, out);
}

SumLoops sum_loops(DType dtype) {
    return variants[vector_variants() - 1].sum(dtype);
}
