/* fused: a fused step of the CPU beside its members one by one: bias and gelu, a residual with its norm's statistics, a gradient with its
 * bias's. Best of several runs. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

enum { ROWS = 4096, COLUMNS = 3072, RUNS = 9, MOST_CALLS = 4 };

typedef struct Steps {
    const char *name;
    KernelCall call[MOST_CALLS];
    unsigned inner[MOST_CALLS];
    Rule rule[MOST_CALLS];
    Attr attr[MOST_CALLS][MAX_ATTRS];
    int ncalls;
} Steps;

static Operand tensor(int64_t rows, int64_t columns) {
    Operand operand = {.dtype = F32, .local = {.ndim = rows ? 2 : 1, .dim = {rows ? rows : columns, columns}}};
    operand.global = operand.local;
    operand.box.ndim = operand.local.ndim;
    for (int d = 0; d < operand.local.ndim; d++)
        operand.box.end[d] = operand.local.dim[d];
    const int64_t n = shape_elements(&operand.local);
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(i % 1009) / 250 - 2;
    operand.data = data;
    return operand;
}

static Operand add(Steps *program, OpCode op, int nin, Operand a, Operand b, bool inner) {
    const int c = program->ncalls++;
    KernelCall *call = &program->call[c];
    TensorType types[2] = {{F32, false, a.local}, {F32, false, b.local}};
    *call = (KernelCall){.op = op, .attr = program->attr[c], .nin = nin, .nout = 1, .in = {a, b}, .rule = &program->rule[c]};
    if (op == OP_sum) program->attr[c][0] = (Attr){.given = true, .n = 1, .ints = {1}}; /* of each row */
    if (!rule_infer(op, types, nin, program->attr[c], &program->rule[c], NULL)) abort();
    const Shape *shape = &program->rule[c].result[0].shape;
    call->out[0] = tensor(shape->ndim == 2 ? shape->dim[0] : 0, shape->dim[shape->ndim - 1]);
    program->inner[c] = inner;
    return call->out[0];
}

static double measure(Steps *program, CpuContext *context, void *fused) {
    double best = 1e9;
    Error error;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now_seconds();
        if (fused && !cpu_run_fused(context, fused, &error)) abort();
        for (int c = 0; c < program->ncalls && !fused; c++)
            if (!backend_cpu.kernels[program->call[c].op](&program->call[c], &error)) abort();
        const double took = now_seconds() - begin;
        if (took < best) best = took;
    }
    return best;
}

static void report(Steps *program) {
    Error error;
    for (int threads = 1; threads <= 2; threads++) {
        CpuContext context = {.most_threads = 2, .pool = threads > 1 ? pool_create(threads, &error) : NULL};
        for (int c = 0; c < program->ncalls; c++)
            program->call[c].context = &context;
        void *fused = cpu_fuse(&context, program->call, program->ncalls, program->inner, &error);
        if (!fused) abort();
        const double alone = measure(program, &context, NULL), together = measure(program, &context, fused);
        printf("%-24s %d thread%s  one by one %7.2f ms  fused %7.2f ms  %.2f x\n", program->name, threads, threads > 1 ? "s" : " ",
               alone * 1e3, together * 1e3, together / alone);
        cpu_unfuse(&context, fused);
        pool_destroy(context.pool);
    }
}

int main(void) {
    const Operand x = tensor(ROWS, COLUMNS), other = tensor(ROWS, COLUMNS), bias = tensor(0, COLUMNS), each = tensor(ROWS, 1);
    Steps gelu = {.name = "bias, gelu"}, norm = {.name = "residual, scale, bias"}, gradient = {.name = "gelu gradient, rows' sums"};
    add(&gelu, OP_gelu, 1, add(&gelu, OP_add, 2, x, bias, true), x, false);
    add(&norm, OP_add, 2, add(&norm, OP_mul, 2, add(&norm, OP_add, 2, x, other, true), each, true), bias, false);
    add(&gradient, OP_sum, 1, add(&gradient, OP_gelu_grad, 2, x, other, false), x, false);
    report(&gelu);
    report(&norm);
    report(&gradient);
    return 0;
}
