/* elementwise: ten elementwise operators of f32 on 64 MiB on the CPU, beside a loop of their threads that reads as much once and writes it once.
 * Best of many rounds, in each of which all take their turn: a machine that is slow for a while is so for all of them.
 *   elementwise [THREADS]    (2) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cpu/cpu.h"

enum { ELEMENTS = 16 << 20, ROUNDS = 60 };
static const double most = 1.3; /* times the loop that copies */

static const OpCode ops[] = {OP_relu, OP_abs, OP_square, OP_sqrt, OP_exp, OP_tanh, OP_sigmoid, OP_silu, OP_gelu, OP_hardswish};
enum { NRUN = sizeof ops / sizeof *ops };

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

/* Seconds of one call. kernel NULL: the loop that copies. */
static double measure(const KernelCall *call, KernelFn *kernel) {
    Error error;
    const double begin = now_seconds();
    if (!kernel)
        pool_run(call_pool(call), ELEMENTS, GRAIN, copy_part, (void *)call);
    else if (!kernel(call, &error))
        exit(70);
    return now_seconds() - begin;
}

int main(int argc, char **argv) {
    const int nthreads = argc > 1 ? atoi(argv[1]) : 2;
    Error error;
    CpuContext context = {.most_threads = nthreads, .pool = nthreads > 1 ? pool_create(nthreads, &error) : NULL};
    const Attr attr[MAX_ATTRS] = {{0}};
    KernelCall call = {.attr = attr, .nin = 1, .nout = 1, .in = {tensor()}, .out = {tensor()}, .context = &context};
    const TensorType type = {F32, false, call.in[0].local};
    double copied = INFINITY, best[NRUN];
    int slow = 0;
    for (int i = 0; i < NRUN; i++)
        best[i] = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        copied = fmin(copied, measure(&call, NULL));
        for (int i = 0; i < NRUN; i++) {
            Rule rule;
            call.op = ops[i], call.rule = &rule;
            if (!rule_infer(ops[i], &type, 1, attr, &rule, NULL)) exit(70);
            best[i] = fmin(best[i], measure(&call, backend_cpu.kernels[ops[i]]));
        }
    }
    printf("64 MiB of f32, %d thread%s; read once and written once: %.2f ms\n", nthreads, nthreads == 1 ? "" : "s", copied * 1e3);
    for (int i = 0; i < NRUN; i++) {
        printf("%-12s %8.2f ms  %.2f x\n", op_table[ops[i]].name, best[i] * 1e3, best[i] / copied);
        slow += best[i] > most * copied;
    }
    printf("goal: at most %.1f x; %s\n", most, slow ? "NOT met" : "met");
    pool_destroy(context.pool);
    free(call.in[0].data);
    free(call.out[0].data);
    return 0;
}
