/* Pulls as tables on the device. Walks are known when a request is prepared. Addresses come with each use, and are nearly always those of
 * the previous use: then nothing is copied, and a use is one launch per level, which a captured step may hold. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/comm.h"

static const void *nowhere(int64_t bytes) {
    return (const void *)(uintptr_t)bytes;
}

void tasks_add(Tasks *tasks, Arena *arena, const PieceRuns *walk, DType dtype, Reduction reduction, bool add, TaskSide target,
               const TaskSide *source, int nsources) {
    if (walk->count == 0) return;
    for (int s = 0; s < nsources; s += PULL_TERMS) {
        int n = nsources - s < PULL_TERMS ? nsources - s : PULL_TERMS;
        Task task = {.target = target.memory, .level = tasks->base + s / PULL_TERMS};
        PieceView views[PULL_TERMS];
        const void *from[PULL_TERMS];
        for (int k = 0; k < n; k++) {
            views[k] = *source[s + k].view;
            from[k] = nowhere(source[s + k].bytes);
            task.source[k] = source[s + k].memory;
        }
        pull_init(&task.pull, walk, target.view, (void *)(uintptr_t)target.bytes, views, from, n, dtype, reduction, add || s > 0);
        vec_push(arena, &tasks->tasks, task);
        if (task.level + 1 > tasks->nlevels) tasks->nlevels = task.level + 1;
    }
}

void tasks_break(Tasks *tasks) {
    tasks->base = tasks->nlevels;
}

static void memory_use(Tasks *tasks, bool *seen, int memory) {
    if (!seen[memory]) tasks->used[tasks->nused++] = memory;
    seen[memory] = true;
}

bool tasks_ready(Tasks *tasks, Arena *arena, CudaContext *cuda, int nmemories, Error *error) {
    bool *seen = arena_alloc(arena, sizeof *seen * ((size_t)nmemories + 1));
    tasks->used = arena_alloc(arena, sizeof *tasks->used * ((size_t)nmemories + 1));
    for (int i = 0; i < tasks->tasks.n; i++) {
        const Task *task = &tasks->tasks.at[i];
        memory_use(tasks, seen, task->target);
        for (int s = 0; s < task->pull.nsources; s++)
            memory_use(tasks, seen, task->source[s]);
    }
    tasks->memory = arena_alloc(arena, sizeof *tasks->memory * ((size_t)tasks->nused + 1));
    tasks->launches = arena_alloc(arena, sizeof *tasks->launches * ((size_t)tasks->nlevels + 1));
    tasks->table = arena_alloc(arena, sizeof *tasks->table * ((size_t)tasks->tasks.n + 1));
    Task *sorted = arena_alloc(arena, sizeof *sorted * ((size_t)tasks->tasks.n + 1));
    int n = 0;
    for (int level = 0; level < tasks->nlevels; level++) {
        tasks->launches[level].first = n;
        for (int i = 0; i < tasks->tasks.n; i++)
            if (tasks->tasks.at[i].level == level) sorted[n++] = tasks->tasks.at[i];
        tasks->launches[level].n = n - tasks->launches[level].first;
    }
    tasks->tasks.at = sorted;
    /* Tables of one are passed by value. */
    bool table = false;
    for (int level = 0; level < tasks->nlevels; level++)
        table = table || tasks->launches[level].n > 1;
    if (table) tasks->device_table = cuda_backend.alloc(cuda, (int64_t)sizeof *tasks->table * n, error);
    return !table || tasks->device_table;
}

/* Puts addresses into the table; true if any has changed. */
static bool tasks_place(Tasks *tasks, void *const *memory) {
    bool changed = false;
    for (int i = 0; i < tasks->nused; i++) {
        changed = changed || tasks->memory[i] != memory[tasks->used[i]];
        tasks->memory[i] = memory[tasks->used[i]];
    }
    if (!changed) return false;
    for (int i = 0; i < tasks->tasks.n; i++) {
        const Task *task = &tasks->tasks.at[i];
        KernelPull *pull = &tasks->table[i];
        *pull = task->pull;
        pull->target = (char *)memory[task->target] + (uintptr_t)pull->target;
        for (int s = 0; s < pull->nsources; s++)
            pull->source[s] = (const char *)memory[task->source[s]] + (uintptr_t)pull->source[s];
    }
    for (int level = 0; level < tasks->nlevels; level++) {
        TaskLaunch *launch = &tasks->launches[level];
        launch->nblocks = pulls_prepare(tasks->table + launch->first, launch->n);
    }
    return true;
}

/* CUDA waits for the stream before it copies pageable memory, without watching the other ranks, so this waits first. */
static bool table_copy(const Tasks *tasks, CudaContext *cuda, cudaStream_t stream, Error *error) {
    static const char what[] = "copying what communications move";
    size_t bytes = sizeof *tasks->table * (size_t)tasks->tasks.n;
    if (cuda->watch && !cuda->capturing && !cuda_wait(cuda, stream, what, error)) return false;
    return cuda_ok(cuda, cudaMemcpyAsync(tasks->device_table, tasks->table, bytes, cudaMemcpyHostToDevice, stream), what, error);
}

bool tasks_run(Tasks *tasks, CudaContext *cuda, void *const *memory, cudaStream_t stream, Error *error) {
    if (tasks->tasks.n == 0) return true;
    if (tasks_place(tasks, memory) && tasks->device_table && !table_copy(tasks, cuda, stream, error)) return false;
    for (int level = 0; level < tasks->nlevels; level++) {
        const TaskLaunch *launch = &tasks->launches[level];
        if (launch->n == 0) continue;
        cudaError_t status = launch->n == 1 ? kernels_pull(tasks->table + launch->first, stream)
                                            : kernels_pulls(tasks->device_table + launch->first, launch->n, launch->nblocks, stream);
        if (!cuda_ok(cuda, status, "launching what communications move", error)) return false;
    }
    return true;
}

void tasks_finish(Tasks *tasks) {
    if (tasks->device_table) cuda_backend.free(NULL, tasks->device_table);
    tasks->device_table = NULL;
}
