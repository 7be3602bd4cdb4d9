/* ipc: device memory and events of other processes. A handle says which process's file to open, and where in it the thing lies. */
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.hpp"

namespace standin {

int open_foreign(int pid, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Events that processes share: a file of their own, an event every 64 bytes. */
static int event_fd = -1;
static char *event_page = nullptr;
static int64_t event_count = 0;
static const size_t event_bytes = (size_t)1 << 20;

SharedEvent *shared_event_create(int64_t *offset) {
    if (event_fd < 0) {
        event_fd = memfd_create("standin-events", MFD_CLOEXEC);
        if (event_fd < 0 || ftruncate(event_fd, (off_t)event_bytes)) return nullptr;
        void *at = mmap(nullptr, event_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event_fd, 0);
        event_page = at == MAP_FAILED ? nullptr : (char *)at;
    }
    if (!event_page || (size_t)(event_count + 1) * 64 > event_bytes) return nullptr;
    *offset = event_count++ * 64;
    return (SharedEvent *)(event_page + *offset);
}

SharedEvent *shared_event_open(int pid, int fd, int64_t offset) {
    int file = open_foreign(pid, fd);
    if (file < 0) return nullptr;
    void *at = mmap(nullptr, event_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED ? nullptr : (SharedEvent *)((char *)at + offset);
}

struct Ticket { /* in cudaIpcMemHandle_t and cudaIpcEventHandle_t */
    char magic[8];
    int32_t pid, fd, device, pad;
    int64_t offset, size, begin;
};
static_assert(sizeof(Ticket) <= CUDA_IPC_HANDLE_SIZE, "the ticket fits the handle");

} // namespace standin

using namespace standin;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr) {
    ENTER(entry, "cudaIpcGetMemHandle");
    if (!engine().settings.ipc) return entry(cudaErrorNotSupported);
    const Allocation *a = allocation_of(devPtr);
    if (!handle || !a || a->imported) return entry(cudaErrorInvalidValue);
    Ticket ticket = {"memory", engine().pid, heap_fd(), a->device, 0, heap_offset(a->map), (int64_t)a->size, a->begin - a->map};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ticket, sizeof ticket);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags) {
    ENTER(entry, "cudaIpcOpenMemHandle");
    Ticket ticket;
    memcpy(&ticket, &handle, sizeof ticket);
    if (!engine().settings.ipc) return entry(cudaErrorNotSupported);
    if (!devPtr || flags != cudaIpcMemLazyEnablePeerAccess || strcmp(ticket.magic, "memory")) return entry(cudaErrorInvalidValue);
    if (ticket.pid == engine().pid) return entry(cudaErrorInvalidResourceHandle);
    cudaError_t error;
    void *p = import_device(ticket.pid, ticket.fd, ticket.offset, (size_t)ticket.begin, (size_t)ticket.size, &error);
    if (p) *devPtr = p;
    return entry(error);
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr) {
    ENTER(entry, "cudaIpcCloseMemHandle");
    const Allocation *a = allocation_of(devPtr);
    if (!a || a->begin != devPtr || !a->imported) return entry(cudaErrorInvalidValue);
    if (import_left(devPtr)) return cudaSuccess;
    for (const OpRef &mark : device_marks(a->device))
        if (cudaError_t error = finish(mark)) return entry(error);
    import_end(devPtr);
    return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    ENTER(entry, "cudaIpcGetEventHandle");
    if (!engine().settings.ipc) return entry(cudaErrorNotSupported);
    if (!handle || !engine().events.count(event) || !event->shared || event->imported) return entry(cudaErrorInvalidResourceHandle);
    Ticket ticket = {"event", engine().pid, event_fd, event->device, 0, event->shared_offset, 0, 0};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ticket, sizeof ticket);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    ENTER(entry, "cudaIpcOpenEventHandle");
    Ticket ticket;
    memcpy(&ticket, &handle, sizeof ticket);
    if (!engine().settings.ipc) return entry(cudaErrorNotSupported);
    if (!event || strcmp(ticket.magic, "event")) return entry(cudaErrorInvalidValue);
    if (ticket.pid == engine().pid) return entry(cudaErrorInvalidResourceHandle);
    SharedEvent *shared = shared_event_open(ticket.pid, ticket.fd, ticket.offset);
    if (!shared) return entry(cudaErrorInvalidResourceHandle);
    *event = new CUevent_st;
    (*event)->flags = cudaEventInterprocess | cudaEventDisableTiming;
    (*event)->device = current_device;
    (*event)->shared = shared;
    (*event)->imported = true;
    engine().events.insert(*event);
    return cudaSuccess;
}
