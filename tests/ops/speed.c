/* speed: the time of each operator's kernel at the sizes of cases_timed, as f32, with GB/s of operands and results, and GFLOP/s of products.
 *   speed [THREADS] [OPERATOR]...    PRUN_TEST_DEVICE=cuda: of the module that PRUN_CUDA_MODULE names
 * A line's time is the smallest of several runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/cases.h"
#include "tests/ops/device.h"

typedef struct Speed {
    Device device;
    char **ops; /* NULL-terminated; none: all */
} Speed;

static _Noreturn void fail(const char *what, const Error *error) {
    fprintf(stderr, "speed: %s: %s\n", what, error->text);
    exit(1);
}

/* Gives an operand memory of the device. */
static double place(const Device *device, Operand *operand, bool filled) {
    Error error;
    int64_t bytes = shape_elements(&operand->local) * dtype_bytes[operand->dtype];
    void *data = device->backend->alloc(device->context, bytes, &error);
    if (!data || (filled && !device->backend->upload(device->context, data, operand->data, bytes, &error))) fail("memory", &error);
    operand->data = data;
    return (double)bytes;
}

static double seconds_of(const Device *device, const KernelCall *call, int repeats) {
    Error error;
    double begin = now_seconds();
    for (int i = 0; i < repeats; i++)
        if (!device->backend->kernels[call->op](call, &error)) fail(op_table[call->op].name, &error);
    if (!device->backend->sync(device->context, &error)) fail("sync", &error);
    return (now_seconds() - begin) / repeats;
}

static void print_call(const KernelCall *call) {
    char line[160] = "";
    size_t n = 0;
    for (int i = 0; i < call->nin && n < sizeof line - 32; i++) {
        n += (size_t)snprintf(line + n, sizeof line - n, "%s", i ? ", " : "");
        for (int d = 0; d < call->in[i].local.ndim; d++)
            n += (size_t)snprintf(line + n, sizeof line - n, "%s%lld", d ? "x" : "", (long long)call->in[i].local.dim[d]);
    }
    printf("%-18s %-34s", op_table[call->op].name, line);
}

static void time_case(void *context, const Check *check) {
    const Speed *speed = context;
    const Device *device = &speed->device;
    Check typed = *check;
    KernelCall host, call;
    Rule rule;
    uint64_t random = 7;
    double bytes = 0, best = INFINITY;
    bool asked = !speed->ops[0];
    for (int i = 0; speed->ops[i]; i++)
        asked = asked || strcmp(speed->ops[i], op_table[check->op].name) == 0;
    if (!asked) return;
    typed.dtype = F32;
    check_open(&host, &typed, &rule, true, &random);
    call = host;
    call.context = device->context;
    for (int i = 0; i < call.nin; i++)
        bytes += place(device, &call.in[i], true);
    for (int o = 0; o < call.nout; o++)
        bytes += place(device, &call.out[o], false);
    double once = seconds_of(device, &call, 1);
    int repeats = once > 0.02 ? 1 : (int)(0.02 / once) + 1;
    for (int run = 0; run < 5; run++)
        best = fmin(best, seconds_of(device, &call, repeats));
    print_call(&call);
    printf(" %10.1f us %8.1f GB/s", best * 1e6, bytes / best / 1e9);
    if (op_table[call.op].product) printf(" %8.1f GFLOP/s", rule_flops(call.op, &rule) / best / 1e9);
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < call.nin; i++)
        device->backend->free(device->context, call.in[i].data);
    for (int o = 0; o < call.nout; o++)
        device->backend->free(device->context, call.out[o].data);
    call_close(&host);
}

int main(int argc, char **argv) {
    const bool counted = argc > 1 && atoi(argv[1]) > 0;
    const int nthreads = counted ? atoi(argv[1]) : 1;
    Speed speed = {.ops = argv + 1 + counted};
    Error error;
    if (!test_device_open(&speed.device, nthreads, &error)) fail("no device", &error);
    printf("%s, %d thread%s\n", getenv("PRUN_TEST_DEVICE") ? getenv("PRUN_TEST_DEVICE") : "cpu", nthreads, nthreads == 1 ? "" : "s");
    cases_timed(time_case, &speed);
    return 0;
}
