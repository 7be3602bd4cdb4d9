/* nccl: making, splitting and ending communicators. Ranks meet in a file of the process that made the id. */
#include "nccl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ring.hpp"

namespace standin {

std::string &global_message() {
    static auto *the = new std::string;
    return *the;
}

ncclResult_t nccl_refuse(Ring *ring, ncclResult_t code, const std::string &message) {
    global_message() = message;
    if (ring) ring->message = message;
    if (code != ncclInProgress) complain("nccl: %s", message.c_str());
    return code;
}

struct Ticket { /* in ncclUniqueId */
    char magic[8];
    int32_t pid, fd;
};

/* Whether two ranks sit on one device, which older versions refuse. */
static bool share_devices(Ring &ring) {
    const char *allow = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (engine().settings.nccl >= 23000 && allow && !strcmp(allow, "1")) return false;
    for (int r = 0; r < ring.nranks; r++)
        for (int other = 0; other < r; other++)
            if (get(ring.shared->seat[r].joined) == get(ring.shared->seat[other].joined)) {
                ring_fail(ring, ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(other) + " and rank " + std::to_string(r) + " both on CUDA device " +
                                                      std::to_string(get(ring.shared->seat[r].joined)) + "000");
                return true;
            }
    return false;
}

static bool join(Ring &ring) {
    Seat &seat = ring.shared->seat[ring.rank];
    if (!get(seat.joined)) put(seat.joined, (uint64_t)ring.device + 1);
    for (int r = 0; r < ring.nranks; r++)
        if (!get(ring.shared->seat[r].joined)) return ring.aborted;
    if (share_devices(ring)) return true;
    ring.state = READY;
    serve(&ring);
    return true;
}

static void split_over(Ring &ring) {
    put(ring.shared->seat[ring.rank].split_read, ring.splits);
    ring.state = READY;
}

/* Tells this rank's color, learns the others', opens the file that the first of its color has made, and joins there. */
static bool split(Ring &ring) {
    Shared &shared = *ring.shared;
    Seat &mine = shared.seat[ring.rank];
    if (ring.aborted) return true;
    if (ring.split_stage == 0) {
        for (int r = 0; r < ring.nranks; r++)
            if (get(shared.seat[r].split_read) < ring.splits - 1) return false;
        mine.color = ring.color, mine.key = ring.key;
        put(mine.splits, ring.splits);
        ring.split_stage = 1;
    }
    for (int r = 0; r < ring.nranks; r++)
        if (get(shared.seat[r].splits) < ring.splits) return false;
    if (!ring.child) return split_over(ring), true;
    Ring &child = *ring.child;
    std::vector<std::pair<int, int>> members; /* key, rank */
    for (int r = 0; r < ring.nranks; r++)
        if (shared.seat[r].color == ring.color) members.push_back({shared.seat[r].key, r});
    std::sort(members.begin(), members.end());
    if (!child.shared) {
        child.nranks = (int)members.size();
        for (int i = 0; i < child.nranks; i++)
            if (members[(size_t)i].second == ring.rank) child.rank = i;
        Seat &leader = shared.seat[members[0].second];
        if (child.rank == 0) {
            int fd;
            child.shared = shared_create(&fd);
            mine.child_pid = engine().pid, mine.child_fd = fd;
            put(mine.child, ring.splits);
        } else {
            if (get(leader.child) < ring.splits) return false;
            child.shared = shared_open(leader.child_pid, leader.child_fd);
        }
        if (!child.shared) return ring_fail(ring, ncclSystemError, "a split's memory cannot be shared"), true;
    }
    if (child.state == JOINING && !join(child)) return false;
    if (child.error) ring_fail(ring, child.error, child.message);
    *ring.child_goes_to = new ncclComm{ring.child};
    ring.child = nullptr;
    if (!ring.error) split_over(ring);
    return true;
}

bool ring_advance(Ring &ring) {
    switch (ring.state) {
    case JOINING: return join(ring);
    case SPLITTING: return split(ring);
    case READY:
    case FAILED: return true;
    }
    return true;
}

ncclResult_t ring_usable(Ring *ring) {
    if (!ring) return nccl_refuse(nullptr, ncclInvalidArgument, "no communicator");
    if (ring->aborted) return nccl_refuse(ring, ncclInvalidUsage, "the communicator was aborted");
    if (ring->error) return ring->error;
    if (ring->state != READY || ring->polls || !ring->pending.empty())
        return nccl_refuse(ring, ncclInvalidArgument, "Attempt to use communicator before the previous operation returned ncclSuccess");
    return ncclSuccess;
}

/* Sets it up now or, in a group or without blocking, later. */
static ncclResult_t start(const std::shared_ptr<Ring> &ring) {
    if (!ring->blocking) {
        ring->polls = engine().settings.polls;
        ring_advance(*ring);
        return ncclInProgress;
    }
    if (group_depth) return group_rings.push_back(ring), ncclSuccess;
    wait_until([&ring] { return ring_advance(*ring); });
    return ring->aborted ? ncclInternalError : ring->error;
}

static bool config_valid(const ncclConfig_t *config) { return !config || (config->magic == 0xcafebeef && config->size >= offsetof(ncclConfig_t, cgaClusterSize)); }

static bool config_blocking(const ncclConfig_t *config, bool fallback) {
    return config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking != 0 : fallback;
}

static ncclResult_t init(ncclComm_t *comm, int nranks, const ncclUniqueId &id, int rank, const ncclConfig_t *config) {
    Ticket ticket;
    memcpy(&ticket, &id, sizeof ticket);
    if (!comm || nranks < 1 || rank < 0 || rank >= nranks || !config_valid(config)) return nccl_refuse(nullptr, ncclInvalidArgument, "wrong rank, size or configuration");
    if (nranks > MAX_RANKS) return nccl_refuse(nullptr, ncclInvalidArgument, "the stand-in has at most 128 ranks");
    *comm = nullptr;
    if (strncmp(ticket.magic, "ring", sizeof ticket.magic)) return nccl_refuse(nullptr, ncclInvalidArgument, "an id that ncclGetUniqueId has not made");
    auto ring = std::make_shared<Ring>();
    ring->shared = shared_open(ticket.pid, ticket.fd);
    if (!ring->shared) return nccl_refuse(nullptr, ncclSystemError, "the process that made the id cannot be reached");
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(&ring->shared->nranks, &none, (uint64_t)nranks, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) && none != (uint64_t)nranks)
        return nccl_refuse(nullptr, ncclInvalidArgument, "ranks disagree on how many they are");
    if (get(ring->shared->seat[rank].joined)) return nccl_refuse(nullptr, ncclInvalidUsage, "two ranks have one number");
    ring->rank = rank;
    ring->nranks = nranks;
    ring->device = current_device;
    ring->blocking = config_blocking(config, true);
    *comm = new ncclComm{ring};
    return start(ring);
}

/* All that this rank has queued on it. */
static OpRef last_of(Ring &ring) {
    auto &queue = engine().ordered[&ring];
    return queue.empty() ? nullptr : queue.back();
}

static void forget(ncclComm_t comm) {
    stop_serving(comm->ring.get());
    engine().ordered.erase(comm->ring.get());
    delete comm;
}

} // namespace standin

using namespace standin;

ncclResult_t ncclGetVersion(int *version) {
    Entry entry("ncclGetVersion", Entry::FREE);
    if (entry.injected) return (ncclResult_t)entry.injected;
    if (!version) return ncclInvalidArgument;
    *version = engine().settings.nccl;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclNumResults: break;
    }
    return "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm) { return comm ? comm->ring->message.c_str() : global_message().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId) {
    ENTER_NCCL(entry, "ncclGetUniqueId");
    if (!uniqueId) return ncclInvalidArgument;
    Ticket ticket = {"ring", engine().pid, -1};
    if (!shared_create(&ticket.fd)) return nccl_refuse(nullptr, ncclSystemError, "no memory to meet in");
    memset(uniqueId, 0, sizeof *uniqueId);
    memcpy(uniqueId, &ticket, sizeof ticket);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
    ENTER_NCCL(entry, "ncclCommInitRank");
    return init(comm, nranks, commId, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config) {
    ENTER_NCCL(entry, "ncclCommInitRankConfig");
    return init(comm, nranks, commId, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config) {
    ENTER_NCCL(entry, "ncclCommSplit");
    if (ncclResult_t failed = ring_usable(comm ? comm->ring.get() : nullptr)) return failed;
    if (!newcomm || color < NCCL_SPLIT_NOCOLOR || !config_valid(config)) return nccl_refuse(comm->ring.get(), ncclInvalidArgument, "wrong color or configuration");
    Ring &ring = *comm->ring;
    *newcomm = nullptr;
    ring.state = SPLITTING;
    ring.split_stage = 0;
    ring.splits++;
    ring.color = color, ring.key = key;
    ring.child = nullptr;
    ring.child_goes_to = newcomm;
    if (color != NCCL_SPLIT_NOCOLOR) {
        ring.child = std::make_shared<Ring>();
        ring.child->device = ring.device;
        ring.child->blocking = config_blocking(config, ring.blocking);
    }
    return start(comm->ring);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
    Entry entry("ncclCommGetAsyncError");
    if (!comm || !asyncError) return ncclInvalidArgument;
    Ring &ring = *comm->ring;
    if (entry.injected) ring_fail(ring, (ncclResult_t)entry.injected, "the communicator fails, as STANDIN_FAIL asks");
    if (entry.error && !entry.injected) return *asyncError = ncclUnhandledCudaError, ncclSuccess;
    bool settled = ring_advance(ring);
    if (!ring.error && (!settled || ring.polls > 0)) {
        if (ring.polls > 0) ring.polls--;
        return *asyncError = ncclInProgress, ncclSuccess;
    }
    while (!ring.error && !ring.pending.empty()) {
        ncclResult_t result = ring.pending.front()();
        ring.pending.pop_front();
        if (result) ring_fail(ring, result, ring.message);
    }
    *asyncError = ring.error;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    ENTER_NCCL(entry, "ncclCommFinalize");
    if (ncclResult_t failed = ring_usable(comm ? comm->ring.get() : nullptr)) return failed;
    if (finish(last_of(*comm->ring))) return ncclUnhandledCudaError;
    if (comm->ring->blocking || !engine().settings.polls) return ncclSuccess;
    comm->ring->polls = engine().settings.polls;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    ENTER_NCCL(entry, "ncclCommDestroy");
    if (!comm) return ncclSuccess;
    Ring &ring = *comm->ring;
    if (!ring.aborted && !ring.error && finish(last_of(ring))) return ncclUnhandledCudaError;
    forget(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    Entry entry("ncclCommAbort"); /* with a broken device as well */
    if (entry.injected) return (ncclResult_t)entry.injected;
    if (!comm) return ncclSuccess;
    comm->ring->aborted = true; /* what is queued ends without having done anything */
    comm->ring->pending.clear();
    forget(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
    ENTER_NCCL(entry, "ncclCommCount");
    if (!comm || !count) return ncclInvalidArgument;
    *count = comm->ring->nranks;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
    ENTER_NCCL(entry, "ncclCommCuDevice");
    if (!comm || !device) return ncclInvalidArgument;
    *device = comm->ring->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
    ENTER_NCCL(entry, "ncclCommUserRank");
    if (!comm || !rank) return ncclInvalidArgument;
    *rank = comm->ring->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle) {
    ENTER_NCCL(entry, "ncclCommRegister");
    if (!comm || !handle || !allocation_of(buff) || !range_valid("registered buffer", buff, size)) return ncclInvalidArgument;
    const char *local = getenv("NCCL_LOCAL_REGISTER");
    *handle = nullptr;
    if (local && !strcmp(local, "0")) return ncclSuccess;
    comm->ring->registered.insert({(const char *)buff, size});
    *handle = buff;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) {
    ENTER_NCCL(entry, "ncclCommDeregister");
    if (!comm || !handle) return ncclInvalidArgument;
    auto at = comm->ring->registered.find((const char *)handle);
    if (at == comm->ring->registered.end()) return ncclInvalidArgument;
    comm->ring->registered.erase(at);
    return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
    ENTER_NCCL(entry, "ncclRedOpCreatePreMulSum");
    if (ncclResult_t failed = ring_usable(comm ? comm->ring.get() : nullptr)) return failed;
    if (!op || !scalar || (datatype != ncclFloat32 && datatype != ncclFloat64)) return nccl_refuse(comm->ring.get(), ncclInvalidArgument, "factors are f32 or f64");
    bool host = residence == ncclScalarHostImmediate;
    double value = !host ? 1 : datatype == ncclFloat64 ? *(const double *)scalar : (double)*(const float *)scalar;
    comm->ring->ops.push_back({value, host ? nullptr : scalar, datatype, true});
    *op = (ncclRedOp_t)(ncclNumOps + (int)comm->ring->ops.size() - 1);
    return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    ENTER_NCCL(entry, "ncclRedOpDestroy");
    size_t i = (size_t)op - ncclNumOps;
    if (!comm || op < ncclNumOps || i >= comm->ring->ops.size() || !comm->ring->ops[i].live) return ncclInvalidArgument;
    comm->ring->ops[i].live = false;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **ptr, size_t size) {
    ENTER_NCCL(entry, "ncclMemAlloc");
    if (!ptr) return ncclInvalidArgument;
    cudaError_t error;
    *ptr = allocate_device((size + 4095) / 4096 * 4096, current_device, &error);
    return error ? nccl_refuse(nullptr, ncclUnhandledCudaError, cudaGetErrorString(error)) : ncclSuccess;
}

ncclResult_t ncclMemFree(void *ptr) {
    ENTER_NCCL(entry, "ncclMemFree");
    if (!ptr) return ncclSuccess;
    for (const OpRef &mark : device_marks(current_device))
        if (finish(mark)) return ncclUnhandledCudaError;
    return free_device(ptr) ? ncclInvalidArgument : ncclSuccess;
}
