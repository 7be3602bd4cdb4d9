/* elementwise: ten elementwise operators of f32 on 64 MiB on the CPU, beside a loop of their threads that reads as much once and writes it once. Best of several runs.
 *   elementwise [THREADS]    (2) */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cpu/cpu.h"

enum { ELEMENTS = 16 << 20, RUNS = 9 };
static const double most = 1.3; /* times the loop that copies */

static const OpCode ops[] = {OP_relu, OP_abs, OP_square, OP_sqrt, OP_exp, OP_tanh, OP_sigmoid, OP_silu, OP_gelu, OP_hardswish};

static void copy_part(void *context, int64_t begin, int64_t end) {
    const KernelCall *call = context;
    const float *x = call->in[0].data;
    float *out = call->out[0].data;
    for (int64_t i = begin; i < end; i++)
        out[i] = x[i] * 2; /* a copy alone would be a call of memcpy, which writes past the caches */
}

static Operand tensor(void) {
    Operand operand = {.dtype = F32, .local = {.ndim = 1, .dim = {ELEMENTS}}, .data = malloc(ELEMENTS * sizeof(float))};
    operand.global = operand.local;
    operand.box = (Box){.ndim = 1, .end = {ELEMENTS}};
    float *data = operand.data;
    for (int64_t i = 0; data && i < ELEMENTS; i++)
        data[i] = (float)(i % 1009) / 250;
    if (!data) exit(3);
    return operand;
}

/* kernel NULL: the loop that copies. */
static double measure(const KernelCall *call, KernelFn *kernel) {
    double best = 1e9;
    Error error;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now_seconds();
        if (!kernel)
            pool_run(call_pool(call), ELEMENTS, GRAIN, copy_part, (void *)call);
        else if (!kernel(call, &error))
            exit(70);
        const double took = now_seconds() - begin;
        if (took < best) best = took;
    }
    return best;
}

int main(int argc, char **argv) {
    const int nthreads = argc > 1 ? atoi(argv[1]) : 2;
    Error error;
    CpuContext context = {.most_threads = nthreads, .pool = nthreads > 1 ? pool_create(nthreads, &error) : NULL};
    const Attr attr[MAX_ATTRS] = {{0}};
    KernelCall call = {.attr = attr, .nin = 1, .nout = 1, .in = {tensor()}, .out = {tensor()}, .context = &context};
    const double copied = measure(&call, NULL);
    int slow = 0;
    printf("64 MiB of f32, %d thread%s; read once and written once: %.2f ms\n", nthreads, nthreads == 1 ? "" : "s", copied * 1e3);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const TensorType type = {F32, false, call.in[0].local};
        Rule rule;
        call.op = ops[i], call.rule = &rule;
        if (!rule_infer(ops[i], &type, 1, attr, &rule, NULL)) exit(70);
        const double took = measure(&call, backend_cpu.kernels[ops[i]]);
        printf("%-12s %8.2f ms  %.2f x\n", op_table[ops[i]].name, took * 1e3, took / copied);
        slow += took > most * copied;
    }
    printf("goal: at most %.1f x; %s\n", most, slow ? "NOT met" : "met");
    pool_destroy(context.pool);
    free(call.in[0].data);
    free(call.out[0].data);
    return 0;
}
