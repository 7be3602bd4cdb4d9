/* ring: communicators of the stand-in. nccl.cpp: making and ending them; ring.cpp: what they share and how data moves; calls.cpp: the calls that queue it. */
#ifndef STANDIN_RING_HPP
#define STANDIN_RING_HPP

#include <deque>

#include "engine.hpp"
#include "nccl.h"

namespace standin {

enum { MAX_RANKS = 128 };
enum PartKind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV };

struct Buffer { /* in the memory of some process */
    int32_t pid, fd;
    int64_t offset;
};

struct Seat { /* of a rank, written by it alone but for `wanted` */
    uint64_t joined; /* 1 + its device */
    uint64_t wanted; /* another waits for what this rank has queued */
    uint64_t posted, computed; /* collectives, counted from 1: of this one its part is told below, and is done */
    int32_t kind, type, op, root, registered;
    uint64_t count;
    double scalar;
    Buffer send;
    uint64_t splits, split_read, child; /* splits asked for; those whose colors it has read; those whose child's file it has made */
    int32_t color, key;
    int32_t child_pid, child_fd;
};

struct Box { /* of a sender and a receiver */
    uint64_t posted, taken;
    uint64_t bytes;
    Buffer send;
    int32_t registered;
};

struct Shared {
    uint64_t nranks;
    Seat seat[MAX_RANKS];
    Box box[MAX_RANKS][MAX_RANKS]; /* [from][to] */
};

inline uint64_t get(const uint64_t &word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
inline void put(uint64_t &word, uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }

struct Part { /* of one call */
    PartKind kind;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    int op, root; /* root: the peer of SEND and RECV */
    double scalar;
    const void *device_scalar; /* read when it runs */
    int stage; /* 0: to be told; then told, computed, done */
    uint64_t number;
    std::vector<char> result;
    bool registered = false; /* its buffers are, with the communicator */
};

struct PreMul {
    double scalar;
    const void *device;
    ncclDataType_t type;
    bool live;
};

enum CommState { JOINING, SPLITTING, READY, FAILED };

struct Ring : Server, std::enable_shared_from_this<Ring> {
    Shared *shared = nullptr;
    int rank = 0, nranks = 0, device = 0;
    CommState state = JOINING;
    ncclResult_t error = ncclSuccess; /* what GetAsyncError says, for good */
    std::string message;
    bool blocking = true, aborted = false;
    int polls = 0; /* still to be answered with ncclInProgress */
    uint64_t collectives = 0, splits = 0;
    std::vector<PreMul> ops;
    std::multimap<const char *, size_t> registered; /* memory, bytes */
    std::deque<std::function<ncclResult_t()>> pending; /* what a non-blocking communicator queues once it has been polled */
    /* of a split not yet over: */
    std::shared_ptr<Ring> child, parent; /* child: the parent's, parent: the child's */
    ncclComm_t *child_goes_to = nullptr;
    int color = 0, key = 0, split_stage = 0;

    void serve() override;
};

struct GroupCall {
    std::shared_ptr<Ring> ring;
    cudaStream_t stream;
    int device;
    std::vector<Part> parts;
};

size_t type_size(ncclDataType_t type); /* 0: not supported */
Shared *shared_create(int *fd);
Shared *shared_open(int pid, int fd);
/* As far as it can be done now; WAITING: others have to do their part. */
Status parts_run(Ring &ring, std::vector<Part> &parts);
void ring_fail(Ring &ring, ncclResult_t error, const std::string &message);
std::string &global_message();
/* Sets last-error texts; returns the code. */
ncclResult_t nccl_refuse(Ring *ring, ncclResult_t code, const std::string &message);
ncclResult_t ring_usable(Ring *ring); /* and set up; for calls that queue */
/* Goes on with joining or splitting; false: others are not there yet. */
bool ring_advance(Ring &ring);
extern thread_local int group_depth;
extern thread_local std::vector<std::shared_ptr<Ring>> group_rings; /* to be waited for at the group's end */
extern thread_local std::vector<GroupCall> group_calls;
ncclResult_t group_queue(std::vector<GroupCall> calls);

} // namespace standin

struct ncclComm {
    std::shared_ptr<standin::Ring> ring;
};

#define ENTER_NCCL(entry, name)                                                               \
    standin::Entry entry(name);                                                               \
    if (entry.injected) return standin::nccl_refuse(nullptr, (ncclResult_t)entry.injected, std::string(name) + " fails, as STANDIN_FAIL asks"); \
    if (entry.error) return standin::nccl_refuse(nullptr, ncclUnhandledCudaError, cudaGetErrorString(entry.error))

#endif
