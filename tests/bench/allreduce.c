/* All-reduce of f32, our communicator beside MPI_Allreduce, in the same run: milliseconds per call, median of the rounds; a barrier before
 * each call, the slowest rank counts. busy: the same, each rank computing for a while between the calls, as training does (with a mere
 * barrier in the last column).
 *
 *   mpirun -n 8 allreduce [bytes ...]
 */
#include "runtime/comm/comm.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 400 };

typedef struct Bench {
    Comm *comm;
    CommRequest *request;
    int64_t n;
    float *source, *target;
} Bench;

static void must(Comm *comm, bool ok, const Error *error) {
    if (ok) return;
    comm->table->abort(comm, EXIT_ENVIRONMENT, error->text);
}

static void ours(Bench *b) {
    Error error = {0};
    must(b->comm, b->comm->table->start(b->comm, b->request, 0, (const void *[]){b->source}, (void *[]){b->target}, &error), &error);
    must(b->comm, b->comm->table->wait(b->comm, b->request, 0, &error) == COMM_COMPLETE, &error);
}

static void theirs(Bench *b) {
    MPI_Allreduce(b->source, b->target, (int)b->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A fixed amount of arithmetic, about a millisecond. */
static float compute(float x) {
    for (int i = 0; i < 250000; i++)
        x = x * 0.999999f + 1e-7f;
    return x;
}

static double median_ms(Bench *b, void (*call)(Bench *), int rounds, bool busy, volatile float *sink) {
    double slowest[MAX_ROUNDS];
    for (int i = -2; i < rounds; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime(), most = 0;
        if (busy) *sink = compute((float)i);
        call(b);
        double mine = MPI_Wtime() - begin;
        MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0) slowest[i] = most;
    }
    qsort(slowest, (size_t)rounds, sizeof *slowest, ascending);
    return 1e3 * slowest[rounds / 2];
}

static void nothing(Bench *b) {
    (void)b;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bench_size(Comm *comm, int64_t bytes) {
    Error error = {0};
    volatile float sink = 0;
    Layout from, to;
    Bench b = {.comm = comm, .n = bytes / 4};
    layout_init(&from, 1);
    layout_init(&to, 1);
    layout_append(&from, 1 + REDUCE_SUM, (Digit){comm->nranks, 1});
    Transfer transfer = {.kind = COMM_ALL_REDUCE, .dtype = F32, .shape = {1, {b.n}}, .from = &from, .to = &to, .name = "x"};
    b.source = comm->table->alloc(comm, bytes, &error);
    b.target = comm->table->alloc(comm, bytes, &error);
    must(comm, b.source && b.target, &error);
    b.request = comm->table->prepare(comm, &transfer, 1, &error);
    must(comm, b.request != NULL, &error);
    for (int64_t i = 0; i < b.n; i++)
        b.source[i] = (float)(i % 7 + comm->process);
    int rounds = bytes >= 1 << 22 ? 15 : bytes >= 1 << 18 ? 60 : 300;
    double own[3], mpi[3];
    for (int k = 0; k < 3; k++) { /* by turns, for the machine's moods */
        own[k] = median_ms(&b, ours, rounds, false, &sink);
        mpi[k] = median_ms(&b, theirs, rounds, false, &sink);
    }
    qsort(own, 3, sizeof *own, ascending);
    qsort(mpi, 3, sizeof *mpi, ascending);
    int few = rounds < 100 ? rounds : 100;
    double idle = median_ms(&b, nothing, few, true, &sink), own_busy = median_ms(&b, ours, few, true, &sink),
           mpi_busy = median_ms(&b, theirs, few, true, &sink);
    if (comm->process == 0)
        printf("%10lld %10.4f %10.4f %7.2f %8.2f   %10.4f %10.4f   (barrier %.4f)\n", (long long)bytes, own[1], mpi[1], mpi[1] / own[1],
               2.0 * (comm->nranks - 1) / comm->nranks * (double)bytes / own[1] / 1e6, own_busy, mpi_busy, idle);
    fflush(stdout);
    comm->table->free(comm, b.source);
    comm->table->free(comm, b.target);
}

int main(int argc, char **argv) {
    Error error = {0};
    Comm *comm = comm_job_create(&argc, &argv, NULL, NULL, &error);
    if (!comm) {
        fprintf(stderr, "allreduce: %s\n", error.text);
        return error.code;
    }
    if (comm->process == 0)
        printf("%d ranks, %s, f32 sum; times in ms\n%10s %10s %10s %7s %8s   %10s %10s\n", comm->nranks, comm->transport, "bytes", "ours",
               "MPI", "ratio", "GB/s bus", "ours busy", "MPI busy");
    static const int64_t sizes[] = {4, 4096, 65536, 1 << 20, 1 << 24};
    if (argc > 1)
        for (int i = 1; i < argc; i++)
            bench_size(comm, strtoll(argv[i], NULL, 10));
    else
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            bench_size(comm, sizes[i]);
    comm->table->destroy(comm);
    return EXIT_DONE;
}
