/* calls: collectives and messages are queued like any other work; a group's, together. A non-blocking communicator's are queued only once it has been polled: what is
   recorded or launched before that comes before them. */
#include <cstring>

#include "ring.hpp"

namespace standin {

thread_local int group_depth = 0;
thread_local std::vector<std::shared_ptr<Ring>> group_rings;
thread_local std::vector<GroupCall> group_calls;

static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclSend", "ncclRecv"};

static ncclResult_t submit(const GroupCall &call, bool late) {
    cudaError_t error;
    int device = current_device;
    current_device = call.device;
    CUstream_st *stream = stream_of(call.stream, &error);
    if (stream && stream->device != call.ring->device) error = cudaErrorInvalidResourceHandle;
    if (stream && late && stream->capture && !capture_relaxed(stream)) {
        capture_spoil();
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (!error) {
        std::shared_ptr<Ring> ring = call.ring;
        std::vector<Part> parts = call.parts;
        Make make = [ring, parts] {
            auto mine = std::make_shared<std::vector<Part>>(parts);
            return Run([ring, mine] { return parts_run(*ring, *mine); });
        };
        error = enqueue(call.stream, {names[parts[0].kind], cudaGraphNodeTypeKernel, make, ring.get()});
    }
    current_device = device;
    return error ? nccl_refuse(call.ring.get(), ncclUnhandledCudaError, cudaGetErrorString(error)) : ncclSuccess;
}

ncclResult_t group_queue(std::vector<GroupCall> calls) {
    ncclResult_t result = ncclSuccess;
    for (GroupCall &call : calls) {
        int polls = call.ring->blocking ? 0 : engine().settings.polls;
        ncclResult_t one = ncclSuccess;
        if (polls) {
            call.ring->polls = polls;
            call.ring->pending.push_back([call] { return submit(call, true); });
            one = ncclInProgress;
        } else {
            one = submit(call, !call.ring->blocking);
        }
        if (one == ncclInProgress && result) continue;
        if (one) result = one;
    }
    return result;
}

static bool on_device(const char *what, const void *p, size_t bytes) {
    if (!bytes) return true;
    const Allocation *a = allocation_of(p);
    return a && !a->imported && range_valid(what, p, bytes);
}

static bool apart(const void *p, size_t p_bytes, const void *q, size_t q_bytes) {
    return (const char *)p + p_bytes <= (const char *)q || (const char *)q + q_bytes <= (const char *)p;
}

/* Buffers are the device's, and the same or apart: in place at the place that NCCL names. */
static const char *buffers_wrong(const Ring &ring, const Part &part) {
    size_t bytes = part.count * type_size(part.type), all = bytes * (size_t)ring.nranks, own = bytes * (size_t)ring.rank;
    size_t sent = part.kind == REDUCE_SCATTER ? all : bytes, received = part.kind == ALL_GATHER ? all : bytes;
    bool sends = part.kind != RECV && (part.kind != BROADCAST || ring.rank == part.root), receives = part.kind != SEND;
    if (sends && !on_device("send buffer", part.send, sent)) return "a send buffer that is no memory of the device";
    if (receives && !on_device("receive buffer", part.recv, received)) return "a receive buffer that is no memory of the device";
    if (!sends || !receives || apart(part.send, sent, part.recv, received)) return nullptr;
    const char *from = (const char *)part.send, *to = (const char *)part.recv;
    bool in_place = part.kind == REDUCE_SCATTER ? to == from + own : part.kind == ALL_GATHER ? from == to + own : from == to;
    return in_place ? nullptr : "buffers that overlap but are not in place";
}

static bool is_registered(const Ring &ring, const void *p, size_t bytes) {
    for (const auto &each : ring.registered)
        if ((const char *)p >= each.first && (const char *)p + bytes <= each.first + each.second) return true;
    return false;
}

static bool buffers_registered(const Ring &ring, const Part &part) {
    const size_t bytes = part.count * type_size(part.type), all = bytes * (size_t)ring.nranks;
    return (part.kind == RECV || is_registered(ring, part.send, part.kind == REDUCE_SCATTER ? all : bytes)) &&
           (part.kind == SEND || is_registered(ring, part.recv, part.kind == ALL_GATHER ? all : bytes));
}

static ncclResult_t call(Part part, ncclComm_t comm, cudaStream_t stream) {
    ENTER_NCCL(entry, names[part.kind]);
    if (ncclResult_t failed = ring_usable(comm ? comm->ring.get() : nullptr)) return failed;
    Ring &ring = *comm->ring;
    bool to_rank = part.kind == BROADCAST || part.kind == SEND || part.kind == RECV;
    if (!type_size(part.type)) return nccl_refuse(&ring, ncclInvalidArgument, "a type that the stand-in does not have");
    if (to_rank && (part.root < 0 || part.root >= ring.nranks)) return nccl_refuse(&ring, ncclInvalidArgument, "a root or peer that is no rank");
    if (!to_rank && part.kind != ALL_GATHER && part.op >= ncclNumOps) {
        size_t i = (size_t)part.op - ncclNumOps;
        if (i >= ring.ops.size() || !ring.ops[i].live || ring.ops[i].type != part.type) return nccl_refuse(&ring, ncclInvalidArgument, "an operator of another type, or none");
        part.scalar = ring.ops[i].scalar;
        part.device_scalar = ring.ops[i].device;
    } else if (part.op < 0) {
        return nccl_refuse(&ring, ncclInvalidArgument, "an unknown operator");
    }
    part.registered = buffers_registered(ring, part);
    if (const char *why = buffers_wrong(ring, part)) return nccl_refuse(&ring, ncclInvalidArgument, std::string(names[part.kind]) + ": " + why);
    if (!group_depth) return group_queue({{comm->ring, stream, current_device, {part}}});
    for (GroupCall &each : group_calls)
        if (each.ring == comm->ring && each.stream == stream) return each.parts.push_back(part), ncclSuccess;
    group_calls.push_back({comm->ring, stream, current_device, {part}});
    return ncclSuccess;
}

} // namespace standin

using namespace standin;

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return call({ALL_REDUCE, sendbuff, recvbuff, count, datatype, op, 0, 1, nullptr, 0, 0, {}, false}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return call({REDUCE_SCATTER, sendbuff, recvbuff, recvcount, datatype, op, 0, 1, nullptr, 0, 0, {}, false}, comm, stream);
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
    return call({ALL_GATHER, sendbuff, recvbuff, sendcount, datatype, 0, 0, 1, nullptr, 0, 0, {}, false}, comm, stream);
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
    return call({BROADCAST, sendbuff, recvbuff, count, datatype, 0, root, 1, nullptr, 0, 0, {}, false}, comm, stream);
}

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream) {
    return call({SEND, sendbuff, nullptr, count, datatype, 0, peer, 1, nullptr, 0, 0, {}, false}, comm, stream);
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream) {
    return call({RECV, nullptr, recvbuff, count, datatype, 0, peer, 1, nullptr, 0, 0, {}, false}, comm, stream);
}

ncclResult_t ncclGroupStart(void) {
    ENTER_NCCL(entry, "ncclGroupStart");
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (group_depth > 1) return group_depth--, ncclSuccess;
    std::vector<GroupCall> calls;
    std::vector<std::shared_ptr<Ring>> rings;
    bool open = group_depth == 1;
    group_depth = 0;
    calls.swap(group_calls), rings.swap(group_rings);
    ENTER_NCCL(entry, "ncclGroupEnd");
    if (!open) return nccl_refuse(nullptr, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    ncclResult_t result = ncclSuccess;
    for (auto &ring : rings)
        if (ring->blocking) {
            wait_until([&ring] { return ring_advance(*ring); });
            if (ring->error) result = ring->error;
        } else if (!result) {
            result = ncclInProgress;
        }
    ncclResult_t queued = group_queue(calls);
    return result && result != ncclInProgress ? result : queued ? queued : result;
}
