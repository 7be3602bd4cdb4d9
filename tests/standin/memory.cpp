/* memory: the devices' memory is one file in memory, mapped in one range of addresses that no allocation ever gets twice; the file can be mapped by other processes.
   Host memory is malloc's, with a list of what is page-locked. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#include "engine.hpp"

namespace standin {

static const size_t page = 4096, region_bytes = (size_t)1 << 40, alignment = 256, mprotect_bytes = 2 << 20, poisoned = 2 << 20;
static const unsigned char guard = 0xfd, poison = 0xff;

struct Pinned {
    size_t size;
    bool registered; /* the caller's own memory */
};

struct Heap {
    char *region = nullptr;
    int fd = -1;
    size_t used = 0; /* of the region and of the file; never goes back */
    std::map<uintptr_t, Allocation> live;
    std::map<int, size_t> bytes; /* of each device */
    std::map<uintptr_t, Pinned> pinned;
    int64_t count = 0;
    int open = 0;
};

static Heap &heap() {
    static Heap *the = new Heap;
    if (!the->region) {
        the->fd = memfd_create("standin", MFD_CLOEXEC);
        void *region = mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (the->fd < 0 || region == MAP_FAILED) {
            complain("no memory for the devices");
            abort();
        }
        the->region = (char *)region;
    }
    return *the;
}

static size_t pages(size_t bytes) { return (bytes + page - 1) / page * page; }

/* Maps a file's pages at the next free place, after one that is never mapped. */
static char *map_pages(int fd, int64_t offset, size_t bytes) {
    Heap &h = heap();
    if (h.used + bytes + 2 * page > region_bytes) return nullptr;
    char *at = h.region + h.used + page;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED) return nullptr;
    h.used += bytes + page;
    return at;
}

/* The host's hands off the devices' memory: by a protection key where the processor has them, which costs nothing; else page by page, and only what is small. */
static int key = -1;
static thread_local int key_depth = 0;

static void mprotect_all(bool open) {
    for (auto &each : heap().live)
        if (each.second.map_bytes <= mprotect_bytes && mprotect(each.second.map, each.second.map_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE))
            complain("mprotect failed");
}

static void protect_new(const Allocation &a) {
    if (!engine().settings.protect) return;
    if (heap().count == 1) key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key >= 0) {
        if (pkey_mprotect(a.map, a.map_bytes, PROT_READ | PROT_WRITE, key)) complain("pkey_mprotect failed");
    } else if (!heap().open && a.map_bytes <= mprotect_bytes) {
        mprotect(a.map, a.map_bytes, PROT_NONE);
    }
}

void open_memory(bool open) {
    if (!engine().settings.protect) return;
    if (key >= 0) {
        key_depth += open ? 1 : -1;
        pkey_set(key, key_depth ? 0 : PKEY_DISABLE_ACCESS);
        return;
    }
    Heap &h = heap();
    int before = h.open;
    h.open += open ? 1 : -1;
    if (!before != !h.open) mprotect_all(open);
}

void *allocate_device(size_t bytes, int device, cudaError_t *error) {
    Heap &h = heap();
    *error = cudaErrorMemoryAllocation;
    size_t size = (bytes + alignment - 1) / alignment * alignment, whole = pages(size + alignment);
    if (bytes > engine().settings.memory_bytes || h.bytes[device] + size > engine().settings.memory_bytes) return nullptr;
    int64_t offset = (int64_t)(h.used + page);
    if (ftruncate(h.fd, (off_t)(offset + (int64_t)whole))) return nullptr;
    Allocation a;
    a.map = map_pages(h.fd, offset, whole);
    if (!a.map) return nullptr;
    a.map_bytes = whole;
    a.begin = a.map + whole - size;
    if (((uintptr_t)a.begin / alignment) % 2 == 0 && whole >= size + 2 * alignment) a.begin -= alignment; /* aligned to no more than is promised */
    a.size = bytes;
    a.device = device;
    a.number = ++h.count;
    memset(a.map, guard, (size_t)(a.begin - a.map));
    memset(a.begin, poison, std::min(bytes, poisoned)); /* of the workspace of products, which each test's device has, most is never touched */
    memset(a.begin + bytes - std::min(bytes, poisoned), poison, std::min(bytes, poisoned));
    memset(a.begin + bytes, guard, (size_t)(a.map + whole - a.begin) - bytes);
    ASAN_POISON_MEMORY_REGION(a.map, (size_t)(a.begin - a.map));
    ASAN_POISON_MEMORY_REGION(a.begin + bytes, (size_t)(a.map + whole - a.begin) - bytes);
    h.live[(uintptr_t)a.begin] = a;
    h.bytes[device] += size;
    protect_new(a);
    *error = cudaSuccess;
    return a.begin;
}

static bool guards_whole(const Allocation &a) {
#ifdef __SANITIZE_ADDRESS__
    (void)a;
    return true; /* the guards are poisoned: nobody can have written there */
#else
    for (const char *p = a.map; p < a.begin; p++)
        if ((unsigned char)*p != guard) return complain("allocation %lld (%zu bytes): written %td bytes before it", (long long)a.number, a.size, a.begin - p), false;
    for (const char *p = a.begin + a.size; p < a.map + a.map_bytes; p++)
        if ((unsigned char)*p != guard)
            return complain("allocation %lld (%zu bytes): written %td bytes past its end", (long long)a.number, a.size, p - (a.begin + a.size) + 1), false;
    return true;
#endif
}

bool check_guards() {
    bool whole = true;
    open_memory(true);
    for (auto &each : heap().live)
        if (!each.second.imported) whole = guards_whole(each.second) && whole;
    open_memory(false);
    if (!whole) break_device(cudaErrorIllegalAddress, "a guard around device memory is damaged");
    return whole;
}

static void unmap(const Allocation &a) {
    ASAN_UNPOISON_MEMORY_REGION(a.map, a.map_bytes);
    mmap(a.map, a.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

cudaError_t free_device(void *p) {
    Heap &h = heap();
    auto at = h.live.find((uintptr_t)p);
    if (at == h.live.end() || at->second.imported) return cudaErrorInvalidValue;
    Allocation a = at->second;
    open_memory(true);
    bool whole = guards_whole(a);
    open_memory(false);
    unmap(a);
    fallocate(h.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, a.map - h.region, (off_t)a.map_bytes);
    h.bytes[a.device] -= (a.size + alignment - 1) / alignment * alignment;
    h.live.erase(at);
    if (!whole) break_device(cudaErrorIllegalAddress, "a guard around freed device memory is damaged");
    return whole ? cudaSuccess : cudaErrorIllegalAddress;
}

void *import_device(int pid, int fd, int64_t offset, size_t begin, size_t size, cudaError_t *error) {
    Heap &h = heap();
    static std::map<std::pair<int, int64_t>, uintptr_t> *opened = new std::map<std::pair<int, int64_t>, uintptr_t>;
    uintptr_t &known = (*opened)[std::make_pair(pid, offset)];
    *error = cudaSuccess;
    auto live = h.live.find(known);
    if (live != h.live.end()) return live->second.imports++, live->second.begin;
    *error = cudaErrorInvalidResourceHandle;
    int file = open_foreign(pid, fd);
    if (file < 0) return nullptr;
    Allocation a;
    a.map_bytes = pages(begin + size);
    a.map = map_pages(file, offset, a.map_bytes);
    close(file);
    *error = cudaErrorMemoryAllocation;
    if (!a.map) return nullptr;
    a.begin = a.map + begin;
    a.size = size;
    a.device = current_device;
    a.imported = true;
    a.imports = 1;
    a.number = ++h.count;
    known = (uintptr_t)a.begin;
    h.live[known] = a;
    protect_new(a);
    *error = cudaSuccess;
    return a.begin;
}

bool import_left(void *p) { return --heap().live[(uintptr_t)p].imports > 0; }

void import_end(void *p) {
    unmap(heap().live[(uintptr_t)p]);
    heap().live.erase((uintptr_t)p);
}

const Allocation *allocation_of(const void *p) {
    auto at = heap().live.upper_bound((uintptr_t)p);
    if (at == heap().live.begin()) return nullptr;
    const Allocation &a = (--at)->second;
    return (const char *)p < a.begin + a.size || (const char *)p == a.begin ? &a : nullptr;
}

static bool in_region(const void *p) { return (uintptr_t)p - (uintptr_t)heap().region < region_bytes; }

Place place_of(const void *p) {
    if (in_region(p)) return Place::DEVICE;
    auto at = heap().pinned.upper_bound((uintptr_t)p);
    if (at == heap().pinned.begin()) return Place::PAGEABLE;
    --at;
    return (uintptr_t)p < at->first + at->second.size ? Place::PINNED : Place::PAGEABLE;
}

bool range_valid(const char *what, const void *p, size_t bytes) {
    if (!bytes) return true;
    if (!p) return complain("%s: a null pointer", what), false;
    if (!in_region(p)) return true;
    const Allocation *a = allocation_of(p);
    if (!a) return complain("%s: %p lies in no live allocation", what, p), false;
    if ((size_t)((const char *)p - a->begin) + bytes <= a->size) return true;
    complain("%s: %zu bytes from byte %td of allocation %lld, which has %zu", what, bytes, (const char *)p - a->begin, (long long)a->number, a->size);
    return false;
}

size_t live_allocations() { return heap().live.size(); }
int heap_fd() { return heap().fd; }
char *heap_at(int64_t offset) { return heap().region + offset; }
int64_t heap_offset(const void *p) { return (const char *)p - heap().region; }

} // namespace standin

using namespace standin;

cudaError_t cudaMalloc(void **devPtr, size_t size) {
    ENTER(entry, "cudaMalloc");
    if (!devPtr) return entry(cudaErrorInvalidValue);
    if (capture_active()) return capture_spoil(), entry(cudaErrorStreamCaptureUnsupported);
    *devPtr = nullptr;
    if (!size) return cudaSuccess;
    cudaError_t error;
    void *p = allocate_device(size, current_device, &error);
    if (p) *devPtr = p;
    return entry(error);
}

cudaError_t cudaFree(void *devPtr) {
    ENTER(entry, "cudaFree");
    if (!devPtr) return cudaSuccess;
    const Allocation *a = allocation_of(devPtr);
    if (!a || a->begin != devPtr) return entry(cudaErrorInvalidValue);
    if (capture_active()) return capture_spoil(), entry(cudaErrorStreamCaptureUnsupported);
    for (const OpRef &mark : device_marks(a->device))
        if (cudaError_t error = finish(mark)) return entry(error);
    return entry(free_device(devPtr));
}

static cudaError_t host_alloc(void **pointer, size_t size) {
    if (!pointer) return cudaErrorInvalidValue;
    if (capture_active()) return capture_spoil(), cudaErrorStreamCaptureUnsupported;
    *pointer = nullptr;
    if (!size) return cudaSuccess;
    void *p = nullptr;
    if (posix_memalign(&p, page, pages(size))) return cudaErrorMemoryAllocation;
    memset(p, poison, size);
    ASAN_POISON_MEMORY_REGION((char *)p + size, pages(size) - size);
    heap().pinned[(uintptr_t)p] = {size, false};
    *pointer = p;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ptr, size_t size) {
    ENTER(entry, "cudaMallocHost");
    return entry(host_alloc(ptr, size));
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
    ENTER(entry, "cudaHostAlloc");
    return entry(flags > 7 ? cudaErrorInvalidValue : host_alloc(pHost, size));
}

cudaError_t cudaFreeHost(void *ptr) {
    ENTER(entry, "cudaFreeHost");
    if (!ptr) return cudaSuccess;
    auto at = heap().pinned.find((uintptr_t)ptr);
    if (at == heap().pinned.end() || at->second.registered) return entry(cudaErrorInvalidValue);
    if (capture_active()) return capture_spoil(), entry(cudaErrorStreamCaptureUnsupported);
    for (int d = 0; d < engine().settings.devices; d++)
        for (const OpRef &mark : device_marks(d))
            if (cudaError_t error = finish(mark)) return entry(error);
    ASAN_UNPOISON_MEMORY_REGION(ptr, pages(at->second.size));
    memset(ptr, poison, at->second.size);
    heap().pinned.erase(at);
    free(ptr);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags) {
    ENTER(entry, "cudaHostRegister");
    if (!ptr || !size || flags > 15 || in_region(ptr)) return entry(cudaErrorInvalidValue);
    auto after = heap().pinned.lower_bound((uintptr_t)ptr);
    bool clash = after != heap().pinned.end() && after->first < (uintptr_t)ptr + size;
    if (clash || place_of(ptr) == Place::PINNED) return entry(cudaErrorHostMemoryAlreadyRegistered);
    heap().pinned[(uintptr_t)ptr] = {size, true};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *ptr) {
    ENTER(entry, "cudaHostUnregister");
    auto at = heap().pinned.find((uintptr_t)ptr);
    if (at == heap().pinned.end() || !at->second.registered) return entry(cudaErrorHostMemoryNotRegistered);
    for (int d = 0; d < engine().settings.devices; d++)
        for (const OpRef &mark : device_marks(d))
            if (cudaError_t error = finish(mark)) return entry(error);
    heap().pinned.erase(at);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags) {
    ENTER(entry, "cudaHostGetDevicePointer");
    if (!pDevice || flags || place_of(pHost) != Place::PINNED) return entry(cudaErrorInvalidValue);
    *pDevice = pHost;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    ENTER(entry, "cudaMemGetInfo");
    if (!free || !total) return entry(cudaErrorInvalidValue);
    *total = engine().settings.memory_bytes;
    *free = *total - heap().bytes[current_device];
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr) {
    ENTER(entry, "cudaPointerGetAttributes");
    if (!attributes) return entry(cudaErrorInvalidValue);
    void *p = const_cast<void *>(ptr);
    const Allocation *a = allocation_of(ptr);
    if (a)
        *attributes = {cudaMemoryTypeDevice, a->device, p, nullptr};
    else if (place_of(ptr) == Place::PINNED)
        *attributes = {cudaMemoryTypeHost, current_device, p, p};
    else
        *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, p};
    return cudaSuccess;
}
