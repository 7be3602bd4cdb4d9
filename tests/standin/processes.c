/* Memory and events of one process in another: two children of a process that itself makes no call. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/standin/kernels.h"

enum { N = 64, BYTES = N * sizeof(float) };
#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                                        \
            _exit(1);                                                                                                                      \
        }                                                                                                                                  \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

typedef struct Handles {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
} Handles;

static void say(int fd, const void *data, size_t bytes) {
    CHECK(write(fd, data, bytes) == (ssize_t)bytes);
}
static void hear(int fd, void *data, size_t bytes) {
    CHECK(read(fd, data, bytes) == (ssize_t)bytes);
}

/* Exports memory that a kernel has yet to write, and the event behind it; waits for nothing on the device. */
static void writer(int to, int from) {
    float *x, *y, ones[N];
    cudaStream_t stream;
    cudaEvent_t event;
    Handles handles;
    char done;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&x, BYTES));
    OK(cudaMalloc((void **)&y, BYTES));
    OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaMemcpyAsync(x, ones, BYTES, cudaMemcpyHostToDevice, stream));
    launch_scale(y, x, 4, N, stream);
    OK(cudaEventRecord(event, stream));
    OK(cudaIpcGetMemHandle(&handles.memory, y));
    OK(cudaIpcGetEventHandle(&handles.event, event));
    say(to, &handles, sizeof handles);
    hear(from, &done, 1);
    _exit(0);
}

static void reader(int to, int from, int wait) {
    float *remote, *local, back[N];
    cudaStream_t stream;
    cudaEvent_t event;
    Handles handles;
    hear(from, &handles, sizeof handles);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&local, BYTES));
    OK(cudaIpcOpenMemHandle((void **)&remote, handles.memory, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaIpcOpenEventHandle(&event, handles.event));
    if (wait) OK(cudaStreamWaitEvent(stream, event, 0));
    launch_scale(local, remote, 2, N, stream);
    OK(cudaMemcpyAsync(back, local, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(wait ? back[0] == 8 && back[N - 1] == 8 : back[0] != 8);
    OK(cudaIpcCloseMemHandle(remote));
    CHECK(cudaIpcCloseMemHandle(remote) == cudaErrorInvalidValue);
    say(to, "d", 1);
    _exit(0);
}

static void run(int wait_for_event) {
    int there[2], back[2], status;
    cr_assert(!pipe(there) && !pipe(back));
    pid_t children[2];
    if (!(children[0] = fork())) writer(there[1], back[0]);
    if (!(children[1] = fork())) reader(back[1], there[0], wait_for_event);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(waitpid(children[1 - i], &status, 0), children[1 - i]);
        cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "child %d", 1 - i);
    }
}

Test(processes, an_event_of_another_process_is_waited_for, .timeout = 30) {
    run(1);
}
Test(processes, without_the_wait_the_memory_is_not_yet_written, .timeout = 30) {
    run(0);
}
