/* ring: how data moves. A collective is told by every rank in its seat; when all have, each computes its own result straight from the others' memory; when all have
   computed, each writes it. So nobody writes what another still reads, in place or not. */
#include "ring.hpp"
#include "ir/half.h"

#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace standin {

size_t type_size(ncclDataType_t type) {
    switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
    }
}

static Shared *map_shared(int fd) {
    void *at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : (Shared *)at;
}

Shared *shared_create(int *fd) { /* the file stays open as long as the process: others find it by its number */
    *fd = memfd_create("standin-ring", MFD_CLOEXEC);
    return *fd < 0 || ftruncate(*fd, sizeof(Shared)) ? nullptr : map_shared(*fd);
}

Shared *shared_open(int pid, int fd) {
    int file = open_foreign(pid, fd);
    if (file < 0) return nullptr;
    Shared *shared = map_shared(file);
    close(file);
    return shared;
}

struct Opened { /* this process's device memory, as long as it lives */
    Opened() { open_memory(true); }
    ~Opened() { open_memory(false); }
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;
};

/* Another rank's bytes, mapped as long as this lives. */
class WalkView {
  public:
    WalkView(const Buffer &buffer, size_t bytes) {
        static auto *files = new std::map<std::pair<int, int>, int>;
        if (!bytes) return;
        if (buffer.pid == engine().pid) {
            data = heap_at(buffer.offset);
            return;
        }
        auto key = std::make_pair(buffer.pid, buffer.fd);
        if (!files->count(key)) (*files)[key] = open_foreign(buffer.pid, buffer.fd);
        int64_t first = buffer.offset / 4096 * 4096;
        length = (size_t)(buffer.offset - first) + bytes;
        map = mmap(nullptr, length, PROT_READ, MAP_SHARED, (*files)[key], (off_t)first);
        if (map != MAP_FAILED) data = (const char *)map + (buffer.offset - first);
    }
    ~WalkView() {
        if (map != MAP_FAILED) munmap(map, length);
    }
    WalkView(const WalkView &) = delete;
    WalkView &operator=(const WalkView &) = delete;
    const char *data = nullptr;

  private:
    void *map = MAP_FAILED;
    size_t length = 0;
};

void ring_fail(Ring &ring, ncclResult_t error, const std::string &message) {
    complain("nccl: rank %d: %s", ring.rank, message.c_str());
    ring.message = global_message() = message;
    if (!ring.error) ring.error = error;
    ring.state = FAILED;
}

/* Not defined, says NCCL's manual. */
static void ring_mixed(Ring &ring, int other) {
    ring_fail(ring, ncclInvalidUsage, "registered buffers meet others, of rank " + std::to_string(other));
}

/* Halves: computed with as float, and rounded after each term, as the library does. */
struct Float16 {
    uint16_t bits;
    explicit Float16(double number) : bits(f16_of_f32((float)number)) {}
    operator float() const { return f16_to_f32(bits); }
};
struct BFloat16 {
    uint16_t bits;
    explicit BFloat16(double number) : bits(bf16_of_f32((float)number)) {}
    operator float() const { return bf16_to_f32(bits); }
};

template <class T> static void reduce_one(T *to, const T *from, size_t n, int op, bool first, double scalar) {
    for (size_t i = 0; i < n; i++) {
        T value = op >= ncclNumOps ? (T)((double)from[i] * scalar) : from[i];
        if (first)
            to[i] = value;
        else if (op == ncclProd)
            to[i] = (T)(to[i] * value);
        else if (op == ncclMax)
            to[i] = to[i] < value ? value : to[i];
        else if (op == ncclMin)
            to[i] = value < to[i] ? value : to[i];
        else
            to[i] = (T)(to[i] + value);
    }
}

template <class T> static void divide(T *to, size_t n, int by) {
    for (size_t i = 0; i < n; i++) to[i] = (T)(to[i] / (T)by);
}

#define EACH_TYPE(call)                                                                       \
    switch (type) {                                                                           \
    case ncclInt8: call(int8_t) break;                                                        \
    case ncclUint8: call(uint8_t) break;                                                      \
    case ncclInt32: call(int32_t) break;                                                      \
    case ncclUint32: call(uint32_t) break;                                                    \
    case ncclInt64: call(int64_t) break;                                                      \
    case ncclUint64: call(uint64_t) break;                                                    \
    case ncclFloat32: call(float) break;                                                      \
    case ncclFloat64: call(double) break;                                                     \
    case ncclFloat16: call(Float16) break;                                                    \
    case ncclBfloat16: call(BFloat16) break;                                                  \
    default: break;                                                                           \
    }

static void reduce(char *to, const char *from, ncclDataType_t type, size_t n, int op, bool first, double scalar) {
#define REDUCE(T) reduce_one((T *)to, (const T *)from, n, op, first, scalar);
    EACH_TYPE(REDUCE)
}

static void average(char *to, ncclDataType_t type, size_t n, int by) {
#define DIVIDE(T) divide((T *)to, n, by);
    EACH_TYPE(DIVIDE)
}

/* This rank's result of a collective that all have told. The order of the terms is that of the ranks, on every rank. */
static bool compute(Ring &ring, Part &part) {
    Opened opened;
    size_t each = type_size(part.type), n = part.count, ranks = (size_t)ring.nranks;
    part.result.resize(n * each * (part.kind == ALL_GATHER ? ranks : 1));
    for (size_t r = 0; r < ranks; r++) {
        const Seat &seat = ring.shared->seat[r];
        if (part.kind == BROADCAST && (int)r != part.root) continue;
        size_t sent = n * (part.kind == REDUCE_SCATTER ? ranks : 1);
        WalkView view(seat.send, sent * each);
        if (sent && !view.data) return ring_fail(ring, ncclSystemError, "the memory of rank " + std::to_string(r) + " cannot be mapped"), false;
        if (part.kind == ALL_GATHER)
            memcpy(part.result.data() + r * n * each, view.data, n * each);
        else if (part.kind == BROADCAST)
            memcpy(part.result.data(), view.data, n * each);
        else
            reduce(part.result.data(), view.data + (part.kind == REDUCE_SCATTER ? (size_t)ring.rank * n * each : 0), part.type, n, part.op, r == 0, seat.scalar);
    }
    if ((part.kind == ALL_REDUCE || part.kind == REDUCE_SCATTER) && part.op == ncclAvg) average(part.result.data(), part.type, n, ring.nranks);
    return true;
}

static bool agrees(const Seat &seat, const Part &part) {
    bool reduces = part.kind == ALL_REDUCE || part.kind == REDUCE_SCATTER;
    int op = part.op >= ncclNumOps ? ncclNumOps : part.op;
    return seat.kind == part.kind && seat.type == part.type && seat.count == part.count && (!reduces || seat.op == op) && (part.kind != BROADCAST || seat.root == part.root);
}

static Buffer buffer_of(const void *p) { return {engine().pid, heap_fd(), heap_offset(p)}; }

static void tell(Ring &ring, Part &part) {
    Seat &seat = ring.shared->seat[ring.rank];
    if (part.device_scalar) {
        Opened opened;
        part.scalar = part.type == ncclFloat64 ? *(const double *)part.device_scalar : (double)*(const float *)part.device_scalar;
    }
    seat.kind = part.kind, seat.type = part.type, seat.root = part.root, seat.count = part.count, seat.scalar = part.scalar;
    seat.op = part.op >= ncclNumOps ? ncclNumOps : part.op;
    seat.send = buffer_of(part.send), seat.registered = part.registered;
    part.number = ++ring.collectives;
    put(seat.posted, part.number);
}

/* Whether all have come as far; asks those who have not. */
static bool all_at(Ring &ring, uint64_t Seat::*counter, uint64_t number) {
    bool all = true;
    for (int r = 0; r < ring.nranks; r++)
        if (get(ring.shared->seat[r].*counter) < number) put(ring.shared->seat[r].wanted, 1), all = false;
    return all;
}

static bool collective(Ring &ring, Part &part) {
    if (part.stage == 0) tell(ring, part), part.stage = 1;
    if (part.stage == 1) {
        if (!all_at(ring, &Seat::posted, part.number)) return false;
        for (int r = 0; r < ring.nranks; r++)
            if (!agrees(ring.shared->seat[r], part)) {
                ring_fail(ring, ncclInvalidUsage, "collective " + std::to_string(part.number) + " is another one on rank " + std::to_string(r));
                return true;
            }
        for (int r = 0; r < ring.nranks; r++)
            if ((bool)ring.shared->seat[r].registered != part.registered) return ring_mixed(ring, r), true;
        if (!compute(ring, part)) return true;
        put(ring.shared->seat[ring.rank].computed, part.number);
        part.stage = 2;
    }
    if (!all_at(ring, &Seat::computed, part.number)) return false;
    Opened opened;
    if (!part.result.empty()) memcpy(part.recv, part.result.data(), part.result.size());
    part.result.clear();
    part.stage = 3;
    return true;
}

static bool send(Ring &ring, Part &part) {
    Box &box = ring.shared->box[ring.rank][part.root];
    if (part.stage == 0) {
        if (get(box.posted) != get(box.taken)) return false;
        box.send = buffer_of(part.send), box.registered = part.registered;
        box.bytes = part.count * type_size(part.type);
        part.number = get(box.posted) + 1;
        put(box.posted, part.number);
        part.stage = 1;
    }
    if (get(box.taken) < part.number) return put(ring.shared->seat[part.root].wanted, 1), false;
    part.stage = 3;
    return true;
}

static bool receive(Ring &ring, Part &part) {
    Box &box = ring.shared->box[part.root][ring.rank];
    size_t bytes = part.count * type_size(part.type);
    if (get(box.posted) == get(box.taken)) return put(ring.shared->seat[part.root].wanted, 1), false;
    if (box.bytes != bytes) {
        ring_fail(ring, ncclInvalidUsage,
                  "rank " + std::to_string(part.root) + " sends " + std::to_string(box.bytes) + " bytes, " + std::to_string(bytes) + " are expected");
        return true;
    }
    if ((bool)box.registered != part.registered) return ring_mixed(ring, part.root), true;
    Opened opened;
    WalkView view(box.send, bytes);
    if (bytes && !view.data) return ring_fail(ring, ncclSystemError, "a sender's memory cannot be mapped"), true;
    if (bytes) memcpy(part.recv, view.data, bytes);
    put(box.taken, get(box.posted));
    part.stage = 3;
    return true;
}

Status parts_run(Ring &ring, std::vector<Part> &parts) {
    bool waiting = false, collective_waits = false;
    std::set<std::pair<int, int>> blocked; /* kind and peer: messages between two ranks keep their order */
    for (Part &part : parts) {
        if (ring.aborted || ring.error) return Status::DONE;
        if (part.stage == 3) continue;
        bool done = false;
        if (part.kind == SEND || part.kind == RECV) {
            auto key = std::make_pair((int)part.kind, part.root);
            if (!blocked.count(key)) done = part.kind == SEND ? send(ring, part) : receive(ring, part);
            if (!done) blocked.insert(key);
        } else if (!collective_waits) {
            done = collective(ring, part);
            collective_waits = !done;
        }
        waiting = waiting || !done;
    }
    return waiting && !ring.error ? Status::WAITING : Status::DONE;
}

/* Others want what this rank has queued: its oldest operation on this communicator. */
void Ring::serve() {
    if (!shared || aborted) return;
    uint64_t &wanted = shared->seat[rank].wanted;
    if (!get(wanted) && engine().settings.order != Order::EAGER) return;
    put(wanted, 0);
    auto &queue = engine().ordered[this];
    while (!queue.empty() && queue.front()->done) queue.pop_front();
    if (!queue.empty()) progress(queue.front());
}

} // namespace standin
