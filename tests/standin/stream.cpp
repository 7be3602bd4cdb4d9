/* stream: streams and events. A stream is the last operation queued on it; an event is an operation, too, one that only marks. */
#include <cstdio>
#include <cstring>

#include "engine.hpp"

namespace standin {

CUstream_st *stream_of(cudaStream_t handle, cudaError_t *error) {
    Engine &e = engine();
    *error = cudaSuccess;
    if (!handle || handle == cudaStreamLegacy) return e.legacy[(size_t)current_device];
    if (e.streams.count(handle)) return handle;
    *error = cudaErrorInvalidResourceHandle;
    return nullptr;
}

static bool blocking(const CUstream_st *stream) { return !(stream->flags & cudaStreamNonBlocking); }

/* What the stream's next operation comes after: its last one; and the legacy stream waits for all blocking streams, as they for it. */
static std::vector<OpRef> stream_ends(CUstream_st *stream) {
    Engine &e = engine();
    std::vector<OpRef> ends;
    auto add = [&ends](const OpRef &op) {
        if (op && !op->done) ends.push_back(op);
    };
    add(stream->tail);
    if (stream->legacy) {
        for (CUstream_st *other : e.streams)
            if (other->device == stream->device && blocking(other)) add(other->tail);
    } else if (blocking(stream)) {
        add(e.legacy[(size_t)stream->device]->tail);
    }
    return ends;
}

OpRef op_after(CUstream_st *stream, const std::string &name, Run run, std::vector<OpRef> more) {
    OpRef op = std::make_shared<Op>();
    op->name = name;
    op->device = stream->device;
    op->run = std::move(run);
    op->after = stream_ends(stream);
    for (const OpRef &each : more)
        if (each && !each->done) op->after.push_back(each);
    stream->tail = op;
    order_after(op);
    return op;
}

OpRef op_create(const Work &work, int device, std::vector<OpRef> after) {
    Engine &e = engine();
    OpRef op = std::make_shared<Op>();
    op->name = work.name;
    op->device = device;
    op->run = work.make();
    op->after = std::move(after);
    if (work.order) {
        op->opens = false;
        std::deque<OpRef> &queue = e.ordered[work.order];
        while (!queue.empty() && queue.front()->done) queue.pop_front();
        if (!queue.empty()) op->after.push_back(queue.back());
        queue.push_back(op);
    }
    return op;
}

OpRef stream_mark(CUstream_st *stream) {
    std::vector<OpRef> ends = stream_ends(stream);
    if (ends.empty()) return nullptr;
    if (ends.size() == 1) return ends[0];
    OpRef mark = std::make_shared<Op>();
    mark->after = ends;
    return mark;
}

std::vector<OpRef> device_marks(int device) {
    std::vector<OpRef> marks{engine().legacy[(size_t)device]->tail};
    for (CUstream_st *stream : engine().streams)
        if (stream->device == device) marks.push_back(stream->tail);
    return marks;
}

cudaError_t enqueue(cudaStream_t handle, Work work) {
    Engine &e = engine();
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return error;
    if (work.type == cudaGraphNodeTypeKernel && stream->device != current_device) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return capture_add(stream, work);
    if (stream->legacy && capture_active()) return capture_spoil(), cudaErrorStreamCaptureImplicit;
    e.queued++;
    OpRef op = op_create(work, stream->device, stream_ends(stream));
    stream->tail = op;
    order_after(op);
    return cudaSuccess;
}

/* Records that other processes may wait for. */
class EventServer : public Server {
  public:
    void add(const Watched &watched) {
        if (list.empty() && !known) standin::serve(this), known = true;
        list.push_back(watched);
    }
    void serve() override {
        for (size_t i = 0; i < list.size();) {
            Watched each = list[i];
            uint64_t demanded = __atomic_load_n(&each.shared->demanded, __ATOMIC_ACQUIRE);
            if (demanded >= each.version || engine().settings.order == Order::EAGER) progress(each.op);
            if (each.op->done)
                list.erase(list.begin() + (long)i);
            else
                i++;
        }
    }

  private:
    std::vector<Watched> list;
    bool known = false;
};

static EventServer &event_server() {
    static EventServer *the = new EventServer;
    return *the;
}

static cudaError_t record(cudaEvent_t event, CUstream_st *stream) {
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    event->recorded = true;
    event->capture = nullptr;
    if (SharedEvent *shared = event->shared) {
        uint64_t version = __atomic_add_fetch(&shared->recorded, 1, __ATOMIC_ACQ_REL);
        event->op = op_after(
            stream, "event",
            [shared, version] {
                if (__atomic_load_n(&shared->completed, __ATOMIC_ACQUIRE) < version) __atomic_store_n(&shared->completed, version, __ATOMIC_RELEASE);
                return Status::DONE;
            },
            {});
        event_server().add({shared, version, event->op});
    } else {
        event->op = op_after(stream, "event", nullptr, {});
    }
    return cudaSuccess;
}

/* The work of waiting for what another process recorded last. */
static Run shared_wait(SharedEvent *shared) {
    uint64_t version = __atomic_load_n(&shared->recorded, __ATOMIC_ACQUIRE);
    return [shared, version] {
        uint64_t demanded = __atomic_load_n(&shared->demanded, __ATOMIC_ACQUIRE);
        while (demanded < version && !__atomic_compare_exchange_n(&shared->demanded, &demanded, version, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
        return __atomic_load_n(&shared->completed, __ATOMIC_ACQUIRE) >= version ? Status::DONE : Status::WAITING;
    };
}

/* An operation of no stream that is done when the event is; null: it is. */
static OpRef event_op(cudaEvent_t event) {
    if (!event->shared) return event->recorded ? event->op : nullptr;
    OpRef op = std::make_shared<Op>();
    op->name = "event";
    op->opens = false;
    op->run = shared_wait(event->shared);
    if (event->op && !event->op->done) op->after.push_back(event->op);
    return op;
}

} // namespace standin

using namespace standin;

static cudaError_t create_stream(cudaStream_t *stream, unsigned flags, int priority) {
    if (!stream || flags > 1) return cudaErrorInvalidValue;
    *stream = new CUstream_st;
    (*stream)->device = current_device;
    (*stream)->flags = flags;
    (*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    engine().streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream) {
    ENTER(entry, "cudaStreamCreate");
    return entry(create_stream(pStream, cudaStreamDefault, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
    ENTER(entry, "cudaStreamCreateWithFlags");
    return entry(create_stream(pStream, flags, 0));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority) {
    ENTER(entry, "cudaStreamCreateWithPriority");
    return entry(create_stream(pStream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ENTER(entry, "cudaStreamDestroy");
    Engine &e = engine();
    if (!e.streams.count(stream)) return entry(cudaErrorInvalidResourceHandle);
    if (stream->capture) return entry(cudaErrorStreamCaptureUnsupported);
    if (OpRef tail = stream->tail) { /* what is queued still runs, before the device is idle */
        CUstream_st *legacy = e.legacy[(size_t)stream->device];
        OpRef mark = std::make_shared<Op>();
        mark->device = stream->device;
        mark->after = {tail};
        if (legacy->tail && !legacy->tail->done) mark->after.push_back(legacy->tail);
        legacy->tail = mark;
    }
    e.streams.erase(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    ENTER(entry, "cudaStreamSynchronize");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return entry(error);
    if (stream->capture) return capture_spoil(), entry(cudaErrorStreamCaptureUnsupported);
    if (stream->legacy && capture_active()) return capture_spoil(), entry(cudaErrorStreamCaptureImplicit);
    return entry(finish(stream_mark(stream)));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    ENTER(entry, "cudaStreamQuery");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return entry(error);
    if (stream->capture) return capture_spoil(), entry(cudaErrorStreamCaptureUnsupported);
    OpRef mark = stream_mark(stream);
    if (!mark || mark->done) return cudaSuccess;
    progress(mark); /* done by the next query, at the earliest */
    return entry(engine().broken ? engine().broken : cudaErrorNotReady);
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags) {
    ENTER(entry, "cudaStreamGetFlags");
    cudaError_t error;
    CUstream_st *stream = stream_of(hStream, &error);
    if (stream && flags) *flags = stream->flags;
    return entry(error ? error : flags ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority) {
    ENTER(entry, "cudaStreamGetPriority");
    cudaError_t error;
    CUstream_st *stream = stream_of(hStream, &error);
    if (stream && priority) *priority = stream->priority;
    return entry(error ? error : priority ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData) {
    ENTER(entry, "cudaLaunchHostFunc");
    if (!fn) return entry(cudaErrorInvalidValue);
    Run run = [fn, userData] { /* without the lock: it may wait for another thread, but not for CUDA */
        open_memory(false);
        engine().lock.unlock();
        in_host_function = true;
        fn(userData);
        in_host_function = false;
        engine().lock.lock();
        open_memory(true);
        return Status::DONE;
    };
    return entry(enqueue(stream, {"host function", cudaGraphNodeTypeHost, [run] { return run; }}));
}

static cudaError_t create_event(cudaEvent_t *event, unsigned flags) {
    if (!event || flags > 7 || ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming))) return cudaErrorInvalidValue;
    CUevent_st *created = new CUevent_st;
    created->flags = flags;
    created->device = current_device;
    if ((flags & cudaEventInterprocess) && !(created->shared = shared_event_create(&created->shared_offset))) return delete created, cudaErrorMemoryAllocation;
    *event = created;
    engine().events.insert(created);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    ENTER(entry, "cudaEventCreate");
    return entry(create_event(event, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    ENTER(entry, "cudaEventCreateWithFlags");
    return entry(create_event(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    ENTER(entry, "cudaEventDestroy");
    if (!engine().events.erase(event)) return entry(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

static cudaError_t event_record(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return error;
    if (!engine().events.count(event)) return cudaErrorInvalidResourceHandle;
    if (flags > 1) return cudaErrorInvalidValue;
    if (!stream->capture) return flags & cudaEventRecordExternal ? cudaErrorIllegalState : record(event, stream);
    if (!(flags & cudaEventRecordExternal)) {
        event->capture = stream->capture;
        event->nodes = stream->frontier;
        return cudaSuccess;
    }
    if (event->shared) return cudaErrorNotSupported;
    Make make = [event] { /* each launch of the graph records anew */
        OpRef op = std::make_shared<Op>();
        if (engine().events.count(event)) event->recorded = true, event->op = op;
        return [op] {
            op->time_s = clock_s();
            op->done = true;
            return Status::DONE;
        };
    };
    return capture_add(stream, {"event", cudaGraphNodeTypeEventRecord, make});
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER(entry, "cudaEventRecord");
    return entry(event_record(event, stream, cudaEventRecordDefault));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    ENTER(entry, "cudaEventRecordWithFlags");
    return entry(event_record(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    ENTER(entry, "cudaEventQuery");
    if (!engine().events.count(event)) return entry(cudaErrorInvalidResourceHandle);
    if (event->capture) return capture_spoil(), entry(cudaErrorCapturedEvent);
    OpRef op = event_op(event);
    if (!op || op->done) return cudaSuccess;
    if (event->shared && __atomic_load_n(&event->shared->completed, __ATOMIC_ACQUIRE) >= __atomic_load_n(&event->shared->recorded, __ATOMIC_ACQUIRE)) return cudaSuccess;
    progress(op);
    return entry(engine().broken ? engine().broken : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER(entry, "cudaEventSynchronize");
    if (!engine().events.count(event)) return entry(cudaErrorInvalidResourceHandle);
    if (event->capture) return capture_spoil(), entry(cudaErrorCapturedEvent);
    return entry(finish(event_op(event)));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    ENTER(entry, "cudaEventElapsedTime");
    if (!ms) return entry(cudaErrorInvalidValue);
    if (!start || !end || !start->recorded || !end->recorded) return entry(cudaErrorInvalidResourceHandle);
    if ((start->flags | end->flags) & cudaEventDisableTiming) return entry(cudaErrorInvalidResourceHandle);
    if (start->capture || end->capture) return entry(cudaErrorCapturedEvent);
    if (!start->op->done || !end->op->done) return entry(cudaErrorNotReady);
    *ms = (float)((end->op->time_s - start->op->time_s) * 1e3);
    return cudaSuccess;
}
