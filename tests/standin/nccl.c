/* Communicators on the stand-in: a process for each rank, started by a process that itself makes no call. */
#include <criterion/criterion.h>
#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/kernels.h"

enum { MAX = 4, N = 64 };
#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                                        \
            _exit(1);                                                                                                                      \
        }                                                                                                                                  \
    } while (0)
#define OK(call) CHECK((call) == 0)

typedef struct Rank {
    int rank, nranks;
    ncclUniqueId id;
    int (*pipes)[2];
    cudaStream_t stream;
    ncclComm_t comm;
} Rank;

/* Waits on the host until all ranks have come: what MPI_Barrier does. */
static void host_barrier(Rank *r) {
    char c = 0;
    if (r->rank == 0) {
        for (int i = 1; i < r->nranks; i++)
            CHECK(read(r->pipes[0][0], &c, 1) == 1);
        for (int i = 1; i < r->nranks; i++)
            CHECK(write(r->pipes[i][1], &c, 1) == 1);
    } else {
        CHECK(write(r->pipes[0][1], &c, 1) == 1);
        CHECK(read(r->pipes[r->rank][0], &c, 1) == 1);
    }
}

static void ranks_run(int nranks, int share_device, void (*body)(Rank *)) {
    int pipes[MAX][2], status;
    pid_t children[MAX];
    char devices[8];
    snprintf(devices, sizeof devices, "%d", share_device ? 1 : nranks);
    setenv("STANDIN_DEVICES", devices, 1);
    for (int i = 0; i < nranks; i++)
        cr_assert(!pipe(pipes[i]));
    for (int i = 0; i < nranks; i++) {
        if ((children[i] = fork())) continue;
        Rank r = {.rank = i, .nranks = nranks, .pipes = pipes};
        OK(cudaSetDevice(share_device ? 0 : i));
        OK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
        if (i == 0) {
            OK(ncclGetUniqueId(&r.id));
            for (int k = 1; k < nranks; k++)
                CHECK(write(pipes[k][1], &r.id, sizeof r.id) == sizeof r.id);
        } else {
            CHECK(read(pipes[i][0], &r.id, sizeof r.id) == sizeof r.id);
        }
        body(&r);
        host_barrier(&r); /* ids and memory are the maker's: nobody leaves before all are done */
        _exit(0);
    }
    for (int i = 0; i < nranks; i++) {
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "rank %d", i);
    }
}

static float *filled(float value, int n) {
    float *d, *host = malloc((size_t)n * sizeof *host);
    for (int i = 0; i < n; i++)
        host[i] = value + (float)i;
    OK(cudaMalloc((void **)&d, (size_t)n * sizeof *d));
    OK(cudaMemcpy(d, host, (size_t)n * sizeof *d, cudaMemcpyHostToDevice));
    free(host);
    return d;
}

static float element(const float *d, int i) {
    float value;
    OK(cudaMemcpy(&value, d + i, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void collectives(Rank *r) {
    float *x = filled((float)(100 * r->rank), N * MAX), *y = filled(0, N * MAX), third = 0.5f;
    ncclRedOp_t scaled;
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    OK(ncclAllReduce(x, y, N, ncclFloat32, ncclSum, r->comm, r->stream));
    OK(cudaStreamSynchronize(r->stream));
    CHECK(element(y, 3) == 3 * 3 + 300);
    OK(ncclRedOpCreatePreMulSum(&scaled, &third, ncclFloat32, ncclScalarHostImmediate, r->comm));
    OK(ncclReduceScatter(x, y, N, ncclFloat32, scaled, r->comm, r->stream));
    OK(ncclRedOpDestroy(scaled, r->comm));
    OK(cudaStreamSynchronize(r->stream));
    CHECK(element(y, 3) == ((float)(r->rank * N + 3) * 3 + 300) / 2);
    OK(ncclAllGather(x, y, N, ncclFloat32, r->comm, r->stream));
    OK(ncclBroadcast(x, x, N, ncclFloat32, 2, r->comm, r->stream));
    OK(ncclAllReduce(y, y, 1, ncclFloat32, ncclMax, r->comm, r->stream));
    OK(cudaStreamSynchronize(r->stream));
    CHECK(element(y, 2 * N + 5) == 205 && element(x, 7) == 207);
    CHECK(ncclAllReduce(x, x + 1, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(r->comm), "overlap"));
    OK(ncclCommDestroy(r->comm));
}

Test(nccl, collectives_give_every_rank_its_result, .timeout = 60) {
    ranks_run(3, 0, collectives);
}

/* Each sends to all, itself included, in one group. */
static void exchange(Rank *r) {
    float *x = filled((float)(100 * r->rank), N), *y = filled(0, N);
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    OK(ncclGroupStart());
    for (int peer = 0; peer < r->nranks; peer++) {
        OK(ncclSend(x + peer, 1, ncclFloat32, peer, r->comm, r->stream));
        OK(ncclRecv(y + peer, 1, ncclFloat32, peer, r->comm, r->stream));
    }
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(r->stream));
    for (int peer = 0; peer < r->nranks; peer++)
        CHECK(element(y, peer) == (float)(100 * peer + r->rank));
    OK(ncclCommDestroy(r->comm));
}

Test(nccl, a_group_sends_and_receives_at_once, .timeout = 60) {
    ranks_run(4, 0, exchange);
}

/* Only rank 0 synchronises; the others wait for it on the host, with their work queued and not asked for. */
static void demanded(Rank *r) {
    float *x = filled(1, N), *y = filled(0, N);
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    launch_scale(y, x, 2, N, r->stream);
    OK(ncclAllReduce(y, x, N, ncclFloat32, ncclSum, r->comm, r->stream));
    if (r->rank == 0) OK(cudaStreamSynchronize(r->stream));
    host_barrier(r);
    if (r->rank == 0) CHECK(element(x, 0) == 4);
    OK(cudaStreamSynchronize(r->stream));
    CHECK(element(x, 1) == 8);
    OK(ncclCommDestroy(r->comm));
}

Test(nccl, what_one_rank_asks_for_others_do, .timeout = 60) {
    ranks_run(2, 0, demanded);
}

static void split(Rank *r) {
    ncclComm_t half = NULL, none = NULL;
    int rank, count;
    float *x = filled((float)r->rank, 1);
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    OK(ncclCommSplit(r->comm, r->rank % 2, -r->rank, &half, NULL));
    OK(ncclCommUserRank(half, &rank));
    OK(ncclCommCount(half, &count));
    CHECK(count == 2 && rank == (r->rank < 2)); /* greater ranks have smaller keys */
    OK(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, half, r->stream));
    OK(cudaStreamSynchronize(r->stream));
    CHECK(element(x, 0) == (float)(2 * (r->rank % 2) + 2));
    OK(ncclCommSplit(r->comm, r->rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
    CHECK(!none == (r->rank != 0));
    OK(ncclCommDestroy(half));
    OK(ncclCommDestroy(none));
    OK(ncclCommDestroy(r->comm));
}

Test(nccl, splits_order_their_ranks_by_key, .timeout = 60) {
    ranks_run(4, 0, split);
}

static int poll_until_settled(ncclComm_t comm, ncclResult_t *result) {
    int polls = 0;
    struct timespec pause = {0, 1000000};
    do {
        OK(ncclCommGetAsyncError(comm, result));
        nanosleep(&pause, NULL);
    } while (*result == ncclInProgress && polls++ < 10000);
    return polls;
}

static void non_blocking(Rank *r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    float *x = filled(1, N);
    config.blocking = 0;
    CHECK(ncclCommInitRankConfig(&r->comm, r->nranks, r->id, r->rank, &config) == ncclInProgress);
    CHECK(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclInvalidArgument);
    CHECK(poll_until_settled(r->comm, &result) >= 3 && result == ncclSuccess);
    OK(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeRelaxed));
    CHECK(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclInProgress);
    CHECK(poll_until_settled(r->comm, &result) == 3 && result == ncclSuccess);
    OK(cudaStreamEndCapture(r->stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(executable, r->stream));
    OK(cudaStreamSynchronize(r->stream));
    CHECK(element(x, 0) == 8);
    CHECK(ncclCommFinalize(r->comm) == ncclInProgress);
    poll_until_settled(r->comm, &result);
    OK(ncclCommDestroy(r->comm));
}

Test(nccl, non_blocking_communicators_are_polled_and_captured, .timeout = 60) {
    ranks_run(2, 0, non_blocking);
}

/* Rank 1 never makes the call: rank 0 polls until its deadline, aborts, and its stream comes to an end. */
static void deserted(Rank *r) {
    float *x = filled(1, N);
    struct timespec pause = {0, 1000000};
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    if (r->rank == 0) {
        OK(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, r->comm, r->stream));
        for (int i = 0; i < 50; i++) {
            CHECK(cudaStreamQuery(r->stream) == cudaErrorNotReady);
            nanosleep(&pause, NULL);
        }
        OK(ncclCommAbort(r->comm));
        OK(cudaStreamSynchronize(r->stream));
    }
}

Test(nccl, a_call_that_a_rank_does_not_make_hangs_until_abort, .timeout = 60) {
    ranks_run(2, 0, deserted);
}

static void disagreeing(Rank *r) {
    float *x = filled(1, N);
    ncclResult_t result;
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    OK(ncclAllReduce(x, x, (size_t)(N - r->rank), ncclFloat32, ncclSum, r->comm, r->stream));
    OK(cudaStreamSynchronize(r->stream));
    OK(ncclCommGetAsyncError(r->comm, &result));
    CHECK(result == ncclInvalidUsage && strstr(ncclGetLastError(r->comm), "collective 1"));
    OK(ncclCommAbort(r->comm));
}

Test(nccl, counts_that_differ_are_found, .timeout = 60) {
    ranks_run(2, 0, disagreeing);
}

static void sharing(Rank *r) {
    const char *version = getenv("STANDIN_NCCL");
    ncclResult_t expected = version ? ncclSuccess : ncclInvalidUsage;
    CHECK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank) == expected);
    if (!version) CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU"));
}

Test(nccl, two_ranks_on_one_device_are_refused, .timeout = 60) {
    ranks_run(2, 1, sharing);
}

Test(nccl, a_newer_version_lets_ranks_share_when_told, .timeout = 60) {
    setenv("STANDIN_NCCL", "23007", 1);
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    ranks_run(2, 1, sharing);
}

static void failing(Rank *r) {
    ncclResult_t result;
    float *x = filled(1, N);
    OK(ncclCommInitRank(&r->comm, r->nranks, r->id, r->rank));
    OK(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, r->comm, r->stream));
    CHECK(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclSystemError);
    OK(cudaStreamSynchronize(r->stream));
    OK(ncclCommGetAsyncError(r->comm, &result));
    CHECK(result == ncclRemoteError);
    OK(ncclCommAbort(r->comm));
}

Test(nccl, faults_strike_calls_and_communicators, .timeout = 60) {
    setenv("STANDIN_FAIL", "ncclAllReduce:2:2;ncclCommGetAsyncError:1:6", 1);
    ranks_run(2, 0, failing);
}
