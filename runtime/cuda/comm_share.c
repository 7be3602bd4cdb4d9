/* Small tensors are cut from larger pieces of memory: a peer always opens a whole allocation, and the driver puts several small allocations
 * into one, except those of multiples of 2 MiB. Memory that a peer has opened is kept and reused until all have
 * closed it. */
#include "runtime/cuda/comm_share.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK_BYTES = 2 << 20, CHUNK_LARGE = 1 << 20, CHUNK_ALIGNMENT = 256, PROBE_BYTES = 4096, HEAP_BYTES = 64 << 20 };

/* ---------------------------------------------------------------- memory */

static ShareChunk *chunk_create(CudaComm *job, int64_t bytes, Error *error) {
    ShareChunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    *chunk = (ShareChunk){.next = job->share->chunks, .base = cuda_backend.alloc(job->cuda, bytes, error), .bytes = bytes, .entry = -1};
    if (!chunk->base) {
        free(chunk);
        return NULL;
    }
    job->share->chunks = chunk;
    return chunk;
}

void *share_alloc(Comm *comm, int64_t bytes, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    int64_t need = align_bytes(bytes > 0 ? bytes : 1, CHUNK_ALIGNMENT);
    ShareChunk *chunk = job->share->chunks;
    /* Room left by small tensors, or freed memory that a peer still has open. */
    while (chunk && (chunk->bytes - chunk->used < need || (need > CHUNK_LARGE && chunk->bytes > 2 * need)))
        chunk = chunk->next;
    if (!chunk) chunk = chunk_create(job, align_bytes(need, CHUNK_BYTES), error);
    if (!chunk) return NULL;
    char *data = chunk->base + chunk->used;
    chunk->used += need;
    chunk->live++;
    return data;
}

static ShareChunk **chunk_find(Share *share, const void *data) {
    for (ShareChunk **at = &share->chunks; *at; at = &(*at)->next)
        if ((uintptr_t)data - (uintptr_t)(*at)->base < (uintptr_t)(*at)->bytes) return at;
    return NULL;
}

void share_free(Comm *comm, void *data) {
    CudaComm *job = (CudaComm *)comm;
    ShareChunk **at = data ? chunk_find(job->share, data) : NULL, *chunk = at ? *at : NULL;
    if (!chunk || --chunk->live > 0) return;
    chunk->used = 0;
    if (chunk->entry >= 0) return;
    *at = chunk->next;
    cuda_backend.free(job->cuda, chunk->base);
    free(chunk);
}

bool share_has(CudaComm *job, const void *data) {
    return chunk_find(job->share, data) != NULL;
}

bool share_publish(CudaComm *job, const void *data, int64_t *entry, int64_t *offset, Error *error) {
    Share *share = job->share;
    ShareChunk **at = chunk_find(share, data);
    if (!at) return error_set(error, EXIT_INTERNAL, "memory that does not come from the communicator is to be sent");
    ShareChunk *chunk = *at;
    if (chunk->entry < 0) {
        if (share->nentries == SHARE_ENTRIES)
            return error_set(error, EXIT_ENVIRONMENT, "more than %d pieces of memory are shared by CUDA IPC", SHARE_ENTRIES);
        if (!cuda_ok(job->cuda, cudaIpcGetMemHandle(&share->entries[share->nentries].handle, chunk->base), "sharing memory by CUDA IPC",
                     error))
            return false;
        chunk->entry = share->nentries++;
    }
    *entry = chunk->entry;
    *offset = (const char *)data - chunk->base;
    return true;
}

char *share_find(CudaComm *job, int process, int64_t entry, int64_t offset, Error *error) {
    Share *share = job->share;
    char **at = &share->opened[process][entry];
    if (!*at) {
        const ShareEntry *theirs = (const ShareEntry *)(share->heap.base[process] + share->entries_at[process]) + entry;
        char what[96];
        void *data = NULL;
        snprintf(what, sizeof what, "opening memory of rank %d by CUDA IPC", process);
        cudaIpcMemHandle_t handle = theirs->handle;
        if (!cuda_ok(job->cuda, cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess), what, error)) return NULL;
        *at = data;
    }
    return *at + offset;
}

/* ---------------------------------------------------------------- beginning and end */

typedef struct HeapName {
    char text[64];
    uint64_t token;
    int64_t bytes;
} HeapName;

/* A heap for each process, mapped by all; see heap.h. */
static bool heaps_open(CudaComm *job, Error *error) {
    Share *share = job->share;
    Comm *base = job->base;
    int n = base->nprocesses;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    HeapName mine = {.bytes = heap_limit(n)}, *names = calloc((size_t)n, sizeof *names);
    if (mine.bytes > HEAP_BYTES) mine.bytes = HEAP_BYTES;
    mine.token = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec * 31u + (uint64_t)getpid();
    snprintf(mine.text, sizeof mine.text, "/prun-ipc-%ld-%llx", (long)getpid(), (unsigned long long)mine.token);
    bool ok = names ? heap_create(&share->heap, mine.text, mine.bytes, n, base->process, mine.token, error)
                    : error_set(error, EXIT_ENVIRONMENT, "out of memory");
    share->heap_open = share->heap.base != NULL;
    if (ok) share->entries = heap_alloc(&share->heap, (int64_t)sizeof(ShareEntry) * SHARE_ENTRIES, error);
    ok = comm_agree_all(base, ok && share->entries, error) && all_gather_bytes(base, &mine, sizeof mine, names, error);
    bool attached = ok;
    for (int p = 0; attached && p < n; p++)
        if (p != base->process) attached = heap_attach(&share->heap, p, names[p].text, names[p].bytes, names[p].token, error);
    ok = ok && comm_agree_all(base, attached, error);
    if (share->heap_open) heap_unlink(&share->heap);
    free(names);
    int64_t at = ok ? (char *)share->entries - share->heap.base[base->process] : 0;
    return ok && all_gather_bytes(base, &at, sizeof at, share->entries_at, error);
}

/* Fills in a rank's pattern, which differs from every other rank's. */
static void probe_fill(unsigned char *bytes, int rank, unsigned round) {
    for (unsigned i = 0; i < PROBE_BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + (unsigned)rank * 31 + round * 101);
}

/* Tries it: every rank reads every other rank's device memory. */
static bool probe(CudaComm *job, Error *error) {
    Comm *base = job->base;
    CudaContext *cuda = job->cuda;
    unsigned char *expected = malloc(2 * PROBE_BYTES), *found = expected + PROBE_BYTES;
    int64_t place[2] = {0, 0}, *places = calloc((size_t)base->nprocesses, sizeof place);
    void *memory = expected && places ? share_alloc(&job->comm, PROBE_BYTES, error) : NULL;
    if (!expected || !places) error_set(error, EXIT_ENVIRONMENT, "out of memory");
    bool ok = memory && share_publish(job, memory, &place[0], &place[1], error);
    if (ok) probe_fill(expected, base->process, 0);
    ok = ok &&
         cuda_ok(cuda, cudaMemcpyAsync(memory, expected, PROBE_BYTES, cudaMemcpyHostToDevice, cuda->compute), "trying CUDA IPC", error) &&
         cuda_wait(cuda, cuda->compute, "trying CUDA IPC", error);
    ok = comm_agree_all(base, ok, error) && all_gather_bytes(base, place, sizeof place, places, error);
    bool right = ok;
    for (int p = 0; right && p < base->nprocesses; p++) {
        if (p == base->process) continue;
        char *theirs = share_find(job, p, places[2 * p], places[2 * p + 1], error);
        right = theirs &&
                cuda_ok(cuda, cudaMemcpyAsync(found, theirs, PROBE_BYTES, cudaMemcpyDeviceToHost, cuda->compute),
                        "reading another rank's memory", error) &&
                cuda_wait(cuda, cuda->compute, "reading another rank's memory", error);
        probe_fill(expected, p, 0);
        if (right && memcmp(expected, found, PROBE_BYTES) != 0)
            right = error_set(error, EXIT_ENVIRONMENT, "rank %d's memory reads otherwise than it was written", p);
    }
    cudaGetLastError(); /* what cannot be shared is no lasting failure */
    ok = ok && comm_agree_all(base, right, error);
    if (memory) share_free(&job->comm, memory);
    free(expected);
    free(places);
    return ok;
}

/* The same for events: each rank waits for an event of every other. */
static bool probe_events(CudaComm *job, Error *error) {
    Comm *base = job->base;
    CudaContext *cuda = job->cuda;
    cudaEvent_t own = NULL;
    cudaIpcEventHandle_t handle, *handles = calloc((size_t)base->nprocesses, sizeof *handles);
    memset(&handle, 0, sizeof handle);
    bool ok = handles || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    ok = ok &&
         cuda_ok(cuda, cudaEventCreateWithFlags(&own, cudaEventDisableTiming | cudaEventInterprocess), "making an event for CUDA IPC",
                 error) &&
         cuda_ok(cuda, cudaIpcGetEventHandle(&handle, own), "sharing an event by CUDA IPC", error) &&
         cuda_ok(cuda, cudaEventRecord(own, cuda->compute), "trying CUDA IPC", error);
    ok = comm_agree_all(base, ok, error) && all_gather_bytes(base, &handle, sizeof handle, handles, error);
    bool right = ok;
    for (int p = 0; right && p < base->nprocesses; p++) {
        cudaEvent_t theirs = NULL;
        if (p == base->process) continue;
        right = cuda_ok(cuda, cudaIpcOpenEventHandle(&theirs, handles[p]), "opening another rank's event", error) &&
                cuda_ok(cuda, cudaStreamWaitEvent(cuda->compute, theirs, 0), "waiting for another rank's event", error) &&
                cuda_wait(cuda, cuda->compute, "waiting for another rank's event", error);
        if (theirs) cudaEventDestroy(theirs);
    }
    cudaGetLastError();
    ok = ok && comm_agree_all(base, right, error); /* now nobody has it open */
    if (own) cudaEventDestroy(own);
    free(handles);
    return ok;
}

bool share_open(CudaComm *job, Error *error) {
    Comm *base = job->base;
    size_t n = (size_t)base->nprocesses;
    Share *share = job->share = calloc(1, sizeof *share);
    bool ok = share != NULL;
    if (ok) {
        share->heap.fd = -1;
        share->entries_at = calloc(n, sizeof *share->entries_at);
        share->opened = calloc(n, sizeof *share->opened);
        ok = share->entries_at && share->opened;
        for (size_t p = 0; ok && p < n; p++)
            ok = (share->opened[p] = calloc(SHARE_ENTRIES, sizeof **share->opened)) != NULL;
    }
    if (!ok) error_set(error, EXIT_ENVIRONMENT, "out of memory");
    ok = comm_agree_all(base, ok, error) && heaps_open(job, error) && probe(job, error) && probe_events(job, error);
    if (!ok) share_close(job);
    return ok;
}

void share_close(CudaComm *job) {
    Share *share = job->share;
    Error error = {0};
    if (!share) return;
    for (int p = 0; share->opened && p < job->base->nprocesses; p++) {
        for (int i = 0; share->opened[p] && i < SHARE_ENTRIES; i++)
            if (share->opened[p][i]) cudaIpcCloseMemHandle(share->opened[p][i]);
        free(share->opened[p]);
    }
    free(share->opened);
    if (!job->base->table->barrier(job->base, &error)) /* nothing may be freed that a peer has open */
        job->base->table->abort(job->base, error.code, error.text);
    while (share->chunks) {
        ShareChunk *chunk = share->chunks;
        share->chunks = chunk->next;
        cuda_backend.free(job->cuda, chunk->base);
        free(chunk);
    }
    if (share->heap_open) heap_destroy(&share->heap);
    free(share->entries_at);
    free(share);
    job->share = NULL;
}
