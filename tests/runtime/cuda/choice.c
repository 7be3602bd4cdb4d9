/* Algorithms of products: those that are not exact are left alone, the fastest of the others is taken, and the same by all processes. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

/* ---------------------------------------------------------------- a job of two processes */

enum { MOST_SENT = 4, MOST_BYTES = 1 << 14, MOST_WORDS = 256 };

/* What process 0 has broadcast, and its words, are what process 1 receives, which then goes on alone. Process 0 hears of process 1 that it succeeds and has nothing to say. */
typedef struct Job {
    Comm comm;
    int nsent, nreceived, nsaid, nheard;
    uint64_t said[MOST_WORDS];
    int64_t bytes[MOST_SENT];
    char sent[MOST_SENT][MOST_BYTES];
} Job;

static bool job_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    Job *job = (Job *)comm;
    (void)error;
    const int at = comm->process == 0 ? job->nsent++ : job->nreceived++;
    cr_assert(at < MOST_SENT && bytes <= MOST_BYTES);
    if (comm->process == 0) {
        job->bytes[at] = bytes;
        memcpy(job->sent[at], data, (size_t)bytes);
    }
    cr_assert_eq(job->bytes[at], bytes);
    memcpy(data, job->sent[at], (size_t)bytes);
    return true;
}

static bool job_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    Job *job = (Job *)comm;
    (void)error;
    for (int r = 0; r < comm->nranks; r++)
        words[r] = 0;
    if (comm->process == 0) {
        cr_assert(job->nsaid < MOST_WORDS);
        job->said[job->nsaid++] = word;
    } else if (job->nheard < job->nsaid) {
        words[0] = job->said[job->nheard++];
    }
    words[comm->process] = word;
    return true;
}

static const CommTable job_table = {.name = "job", .broadcast = job_broadcast, .all_gather_words = job_words};

static void job_init(Job *job, int nprocesses) {
    *job = (Job){.comm = {.table = &job_table, .nranks = nprocesses, .nprocesses = nprocesses, .ndriven = 1}};
}

/* ---------------------------------------------------------------- products */

static int last_algorithm(void) {
    void *standin = dlopen(getenv("PRUN_NCCL"), RTLD_NOW | RTLD_NOLOAD);
    int (*last)(void) = NULL;
    if (standin) *(void **)&last = dlsym(standin, "standin_last_algorithm");
    return last ? last() : -1;
}

/* A device of its own, so that nothing is known of any shape. */
static void open_device(Device *device, bool deterministic) {
    Error error = {0};
    const DeviceModule *module = device_module(&error);
    cr_assert(module, "%s", error.text);
    cr_assert(device_open(device, module->backend, &(DeviceOptions){.nlocal = 1, .nthreads = 1, .deterministic = deterministic}, &error),
              "%s", error.text);
}

/* A product of 12 x n by n x 16, prepared, settled and run: the algorithm that it has taken. */
static int algorithm_of(const Device *device, int64_t n, Comm *comm) {
    const Shape a = SHAPE(12, n), b = SHAPE(n, 16), y = SHAPE(12, 16);
    const TensorType types[2] = {{F32, false, a}, {F32, false, b}};
    Attr attr[MAX_ATTRS] = {{0}};
    Rule rule;
    Error error = {0};
    cr_assert(rule_infer(OP_matmul, types, 2, attr, &rule, NULL));
    KernelCall call = {.op = OP_matmul, .attr = attr, .nin = 2, .nout = 1, .nthreads = 1, .rule = &rule, .context = device->context};
    const Shape shapes[3] = {a, b, y};
    for (int t = 0; t < 3; t++) {
        void *data = device->backend->alloc(device->context, shape_elements(&shapes[t]) * 4, &error);
        cr_assert(data, "%s", error.text);
        *(t < 2 ? &call.in[t] : &call.out[0]) = operand_at(data, F32, &shapes[t]);
    }
    cr_assert(device->backend->prepare(&call, &error), "%s", error.text);
    if (comm) cr_assert(device->backend->queue->settle(device->context, comm, &error), "%s", error.text);
    cr_assert(device->backend->kernels[OP_matmul](&call, &error) && device->backend->sync(device->context, &error), "%s", error.text);
    for (int t = 0; t < 3; t++)
        device->backend->free(device->context, t < 2 ? call.in[t].data : call.out[0].data);
    return last_algorithm();
}

Test(choice, the_fastest_algorithm_is_taken) {
    setenv("STANDIN_SLOW", "2", 1);
    Device device;
    Job job;
    open_device(&device, false);
    if (last_algorithm() == -1 && !strstr(getenv("PRUN_CUDA_MODULE"), "standin")) return; /* where algorithms have no numbers */
    job_init(&job, 1);
    cr_assert_eq(algorithm_of(&device, 20, NULL), 0, "the heuristics' first, as long as nothing is timed");
    cr_assert_eq(algorithm_of(&device, 20, &job.comm), 2);
    cr_assert_eq(algorithm_of(&device, 24, NULL), 0, "a shape that comes late");
    device_close(&device);
}

Test(choice, with_deterministic_nothing_depends_on_times) {
    setenv("STANDIN_SLOW", "2", 1);
    Device device;
    Job job;
    open_device(&device, true);
    job_init(&job, 1);
    if (strstr(getenv("PRUN_CUDA_MODULE"), "standin")) cr_assert_eq(algorithm_of(&device, 20, &job.comm), 0);
    device_close(&device);
}

Test(choice, all_processes_take_what_the_first_that_has_the_shape_has_found) {
    setenv("STANDIN_SLOW", "1", 1);
    Device devices[2];
    Job job;
    job_init(&job, 2);
    open_device(&devices[0], false);
    const int first = algorithm_of(&devices[0], 20, &job.comm);
    if (!strstr(getenv("PRUN_CUDA_MODULE"), "standin")) return;
    cr_assert_neq(first, 0);
    cr_assert_eq(job.nsent, 1, "the products");
    open_device(&devices[1], false);
    job.comm.process = 1;
    cr_assert_eq(algorithm_of(&devices[1], 20, &job.comm), first);
    job.nreceived = job.nheard = 0;
    open_device(&devices[1], false);
    cr_assert_neq(algorithm_of(&devices[1], 24, &job.comm), 0, "a shape that process 0 has not: what this one has found");
}

/* Of two programs: process 0 has the shape in both, process 1 in the second alone. */
Test(choice, what_one_process_has_settled_others_take_in_later_programs) {
    setenv("STANDIN_SLOW", "2", 1);
    Device devices[2];
    Job job;
    job_init(&job, 2);
    for (int p = 0; p < 2; p++)
        open_device(&devices[p], false);
    if (!strstr(getenv("PRUN_CUDA_MODULE"), "standin")) return;
    const int first = algorithm_of(&devices[0], 20, &job.comm);
    job_init(&job, 2);
    algorithm_of(&devices[0], 24, &job.comm);
    cr_assert_eq(job.nsent, 2, "what is settled, what is not");
    setenv("STANDIN_SLOW", "-1", 1); /* by itself the other one would take the first */
    job.comm.process = 1;
    cr_assert_eq(algorithm_of(&devices[1], 20, &job.comm), first);
    cr_assert_eq(algorithm_of(&devices[1], 20, NULL), first);
}

/* A convolution, prepared, settled and run; what prun -v says of it. */
static const char *convolution_of(const Device *device, Comm *comm) {
    static char words[128];
    Check check = {.op = OP_conv2d, .dtype = F32, .nin = 2, .in = {SHAPE(2, 4, 9, 7), SHAPE(16, 4, 3, 3)}};
    uint64_t random = 3;
    KernelCall call;
    Rule rule;
    Error error = {0};
    Text said = {0};
    check.attr[1] = (Attr)INTS(1, 1);
    check_open(&call, &check, &rule, true, &random);
    call.context = device->context;
    cr_assert(device->backend->prepare(&call, &error), "%s", error.text);
    cr_assert(device->backend->queue->settle(device->context, comm, &error), "%s", error.text);
    device->backend->queue->libraries(device->context, &said);
    snprintf(words, sizeof words, "%s", said.at);
    text_finish(&said);
    call_close(&call);
    return words;
}

Test(choice, convolutions_too) {
    Device devices[2];
    Job job;
    job_init(&job, 2);
    for (int p = 0; p < 2; p++)
        open_device(&devices[p], true);
    if (!strstr(getenv("PRUN_CUDA_MODULE"), "standin")) return;
    setenv("STANDIN_CUDNN", "wrong", 1);
    cr_assert_str_eq(convolution_of(&devices[0], &job.comm), "0 of 1 convolutions by cuDNN 9.13.0");
    job_init(&job, 2);
    algorithm_of(&devices[0], 24, &job.comm);
    unsetenv("STANDIN_CUDNN"); /* by itself process 1 would take cuDNN's */
    job.comm.process = 1;
    cr_assert_str_eq(convolution_of(&devices[1], &job.comm), "0 of 1 convolutions by cuDNN 9.13.0");
}
