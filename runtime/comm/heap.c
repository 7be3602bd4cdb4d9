/* Shared memory of a node. The files are large, sparse and mapped once, so that a later allocation needs no exchange with the peers. Memory
 * is reserved before it is handed out, so that a full /dev/shm is an error here and not a SIGBUS later. */
#include "runtime/comm/heap.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ALIGNMENT = 64, RESERVE_BYTES = 1 << 16 };
static const int64_t MAX_ADDRESSES = INT64_C(1) << 44; /* of a node; 47 bits are usual */

int64_t heap_limit(int nprocesses) {
    struct statvfs shm;
    int64_t bytes = INT64_C(1) << 34;
    /* Where the limit cannot be queried, the reservation of a block shows it. */
    if (statvfs("/dev/shm", &shm) == 0) bytes = (int64_t)shm.f_frsize * (int64_t)shm.f_bavail;
    if (bytes > MAX_ADDRESSES / nprocesses) bytes = MAX_ADDRESSES / nprocesses;
    return bytes / RESERVE_BYTES * RESERVE_BYTES;
}

static int64_t header_bytes(int nprocesses) {
    int64_t bytes = (int64_t)sizeof(HeapHeader) + nprocesses * (int64_t)sizeof(HeapCount);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Reserves memory for the first `bytes` of the file. */
static bool heap_commit(Heap *heap, int64_t bytes, Error *error) {
    if (bytes <= heap->committed) return true;
    int64_t upto = (bytes + RESERVE_BYTES - 1) / RESERVE_BYTES * RESERVE_BYTES;
    int code = upto > heap->bytes ? ENOSPC : EINTR;
    while (code == EINTR)
        code = posix_fallocate(heap->fd, heap->committed, upto - heap->committed);
    if (code)
        return error_set(
            error, EXIT_ENVIRONMENT,
            "no shared memory for %lld more bytes (%s): make /dev/shm larger (docker run --shm-size), or set PRUN_COMM=messages",
            (long long)(upto - heap->committed), strerror(code));
    heap->committed = upto;
    return true;
}

bool heap_create(Heap *heap, const char *name, int64_t bytes, int nprocesses, int self, uint64_t token, Error *error) {
    *heap = (Heap){.fd = -1, .bytes = bytes, .token = token, .nprocesses = nprocesses, .self = self};
    heap->base = calloc((size_t)nprocesses, sizeof *heap->base);
    heap->blocks = calloc(16, sizeof *heap->blocks);
    heap->capacity = 16;
    if (!heap->base || !heap->blocks) return error_set(error, EXIT_ENVIRONMENT, "no memory for the heap of a rank");
    if (bytes <= header_bytes(nprocesses)) return error_set(error, EXIT_ENVIRONMENT, "no shared memory on this machine");
    heap->fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
    if (heap->fd < 0) return error_set(error, EXIT_ENVIRONMENT, "shared memory %s: %s", name, strerror(errno));
    snprintf(heap->name, sizeof heap->name, "%s", name);
    if (ftruncate(heap->fd, (off_t)bytes) != 0)
        return error_set(error, EXIT_ENVIRONMENT, "shared memory %s, %lld bytes: %s", name, (long long)bytes, strerror(errno));
    if (!heap_commit(heap, header_bytes(nprocesses), error)) return false;
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, heap->fd, 0);
    if (base == MAP_FAILED)
        return error_set(error, EXIT_ENVIRONMENT, "shared memory %s, %lld bytes: %s", name, (long long)bytes, strerror(errno));
    heap->base[self] = base;
    HeapHeader *header = base;
    header->token = token;
    header->place = (CommPlace){.at = -1, .request = -1};
    if (sem_init(&header->wake, 1, 0) != 0) return error_set(error, EXIT_ENVIRONMENT, "a semaphore in shared memory: %s", strerror(errno));
    heap->blocks[0] = (HeapBlock){.bytes = header_bytes(nprocesses), .used = true};
    heap->blocks[1] = (HeapBlock){.at = heap->blocks[0].bytes, .bytes = bytes - heap->blocks[0].bytes};
    heap->nblocks = 2;
    return true;
}

bool heap_attach(Heap *heap, int process, const char *name, int64_t bytes, uint64_t token, Error *error) {
    int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0) return error_set(error, EXIT_ENVIRONMENT, "shared memory %s: %s", name, strerror(errno));
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int code = errno;
    close(fd);
    if (base == MAP_FAILED) return error_set(error, EXIT_ENVIRONMENT, "shared memory %s: %s", name, strerror(code));
    heap->base[process] = base;
    if (heap_header(heap, process)->token != token)
        return error_set(error, EXIT_ENVIRONMENT, "shared memory %s is not the one of this job", name);
    return true;
}

void heap_unlink(Heap *heap) {
    if (heap->name[0]) shm_unlink(heap->name);
    heap->name[0] = 0;
}

void heap_destroy(Heap *heap) {
    heap_unlink(heap);
    if (heap->fd >= 0) close(heap->fd);
    for (int i = 0; heap->base && i < heap->nprocesses; i++)
        if (heap->base[i]) munmap(heap->base[i], (size_t)heap->bytes);
    free(heap->base);
    free(heap->blocks);
    *heap = (Heap){.fd = -1};
}

void *heap_alloc(Heap *heap, int64_t bytes, Error *error) {
    int64_t need = bytes > 0 ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    int found = -1;
    for (int i = 0; i < heap->nblocks && found < 0; i++)
        if (!heap->blocks[i].used && heap->blocks[i].bytes >= need) found = i;
    if (found < 0) {
        error_set(error, EXIT_ENVIRONMENT,
                  "no shared memory for %lld bytes: make /dev/shm larger (docker run --shm-size), or set PRUN_COMM=messages",
                  (long long)bytes);
        return NULL;
    }
    if (!heap_commit(heap, heap->blocks[found].at + need, error)) return NULL;
    if (heap->blocks[found].bytes > need) {
        if (heap->nblocks == heap->capacity) {
            HeapBlock *more = realloc(heap->blocks, 2 * (size_t)heap->capacity * sizeof *more);
            if (!more) {
                error_set(error, EXIT_ENVIRONMENT, "no memory for the heap of a rank");
                return NULL;
            }
            heap->blocks = more;
            heap->capacity *= 2;
        }
        memmove(heap->blocks + found + 2, heap->blocks + found + 1, (size_t)(heap->nblocks - found - 1) * sizeof *heap->blocks);
        HeapBlock *block = &heap->blocks[found];
        block[1] = (HeapBlock){.at = block->at + need, .bytes = block->bytes - need};
        block->bytes = need;
        heap->nblocks++;
    }
    heap->blocks[found].used = true;
    return heap->base[heap->self] + heap->blocks[found].at;
}

/* Joins block i and the one after it when both are free. */
static void heap_merge(Heap *heap, int i) {
    if (i < 0 || i + 1 >= heap->nblocks || heap->blocks[i].used || heap->blocks[i + 1].used) return;
    heap->blocks[i].bytes += heap->blocks[i + 1].bytes;
    memmove(heap->blocks + i + 1, heap->blocks + i + 2, (size_t)(heap->nblocks - i - 2) * sizeof *heap->blocks);
    heap->nblocks--;
}

void heap_free(Heap *heap, void *data) {
    if (!data) return;
    int64_t at = (char *)data - heap->base[heap->self];
    for (int i = 0; i < heap->nblocks; i++)
        if (heap->blocks[i].at == at) {
            assert(heap->blocks[i].used);
            heap->blocks[i].used = false;
            heap_merge(heap, i);
            heap_merge(heap, i - 1);
            return;
        }
    assert(!"memory of this heap");
}
