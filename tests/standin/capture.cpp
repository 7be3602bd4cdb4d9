/* capture: streams that capture, and the graphs that come of it. A node keeps its work; a launch queues an operation for each node, after those it depends on, so that
   a graph's nodes run late and in any order that its edges allow. */
#include <algorithm>

#include "engine.hpp"

struct CUgraphNode_st {
    standin::Work work;
    std::vector<int> after;
};

struct CUgraph_st {
    std::vector<CUgraphNode_st> nodes;
};

struct CUgraphExec_st {
    std::vector<CUgraphNode_st> nodes;
    int device = 0;
    standin::OpRef last; /* the launch before: a graph does not run beside itself */
};

namespace standin {

struct Capture {
    std::vector<CUgraphNode_st> nodes;
    CUstream_st *origin;
    cudaStreamCaptureMode mode;
    bool spoilt = false;
};

static std::vector<std::weak_ptr<Capture>> &captures() {
    static auto *the = new std::vector<std::weak_ptr<Capture>>;
    return *the;
}

static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/* A capture in global mode forbids such calls to every thread, unless the thread itself has asked for relaxed mode. */
template <class Visit> static void each_strict(Visit visit) {
    if (thread_mode == cudaStreamCaptureModeRelaxed) return;
    for (auto &weak : captures())
        if (std::shared_ptr<Capture> capture = weak.lock())
            if (capture->mode != cudaStreamCaptureModeRelaxed) visit(*capture);
}

bool capture_active() {
    bool active = false;
    each_strict([&active](Capture &) { active = true; });
    return active;
}

void capture_spoil() {
    each_strict([](Capture &capture) { capture.spoilt = true; });
}

bool capture_relaxed(CUstream_st *stream) { return stream->capture && stream->capture->mode == cudaStreamCaptureModeRelaxed; }

cudaError_t capture_add(CUstream_st *stream, const Work &work) {
    Capture &capture = *stream->capture;
    if (capture.spoilt) return cudaErrorStreamCaptureInvalidated;
    std::vector<int> after = stream->frontier;
    if (work.order)
        for (int i = (int)capture.nodes.size(); i-- > 0;)
            if (capture.nodes[(size_t)i].work.order == work.order) {
                after.push_back(i);
                break;
            }
    capture.nodes.push_back({work, after});
    stream->frontier = {(int)capture.nodes.size() - 1};
    return cudaSuccess;
}

/* The nodes that those given come after, and themselves. */
static std::vector<bool> ancestors(const Capture &capture, std::vector<int> ends) {
    std::vector<bool> reached(capture.nodes.size());
    while (!ends.empty()) {
        size_t node = (size_t)ends.back();
        ends.pop_back();
        if (reached[node]) continue;
        reached[node] = true;
        for (int before : capture.nodes[node].after) ends.push_back(before);
    }
    return reached;
}

static void leave(const std::shared_ptr<Capture> &capture) {
    for (CUstream_st *stream : engine().streams)
        if (stream->capture == capture) stream->capture = nullptr, stream->frontier.clear();
}

} // namespace standin

using namespace standin;

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    ENTER(entry, "cudaThreadExchangeStreamCaptureMode");
    if (!mode) return entry(cudaErrorInvalidValue);
    std::swap(*mode, thread_mode);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    ENTER(entry, "cudaStreamBeginCapture");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return entry(error);
    if (stream->legacy) return entry(cudaErrorStreamCaptureUnsupported);
    if (stream->capture) return entry(cudaErrorIllegalState);
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->frontier.clear();
    captures().push_back(stream->capture);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *pGraph) {
    ENTER(entry, "cudaStreamEndCapture");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return entry(error);
    if (!pGraph) return entry(cudaErrorInvalidValue);
    *pGraph = nullptr;
    std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return entry(cudaErrorIllegalState);
    if (capture->origin != stream) return capture->spoilt = true, entry(cudaErrorStreamCaptureUnmatched);
    std::vector<bool> joined = ancestors(*capture, stream->frontier);
    leave(capture);
    captures().erase(std::remove_if(captures().begin(), captures().end(), [&](auto &weak) { return weak.expired() || weak.lock() == capture; }), captures().end());
    if (capture->spoilt) return entry(cudaErrorStreamCaptureInvalidated);
    for (size_t i = 0; i < joined.size(); i++)
        if (!joined[i]) {
            complain("the capture ends, but its stream has not waited for %s", capture->nodes[i].work.name.c_str());
            return entry(cudaErrorStreamCaptureUnjoined);
        }
    *pGraph = new CUgraph_st;
    (*pGraph)->nodes = capture->nodes;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *pCaptureStatus) {
    ENTER(entry, "cudaStreamIsCapturing");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream || !pCaptureStatus) return entry(stream ? cudaErrorInvalidValue : error);
    *pCaptureStatus = !stream->capture ? cudaStreamCaptureStatusNone : stream->capture->spoilt ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
    ENTER(entry, "cudaStreamWaitEvent");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return entry(error);
    if (!engine().events.count(event)) return entry(cudaErrorInvalidResourceHandle);
    if (flags > 1) return entry(cudaErrorInvalidValue);
    if (event->capture) {
        if (stream->legacy) return event->capture->spoilt = true, entry(cudaErrorStreamCaptureImplicit);
        if (stream->capture && stream->capture != event->capture) return stream->capture->spoilt = event->capture->spoilt = true, entry(cudaErrorStreamCaptureMerge);
        if (!stream->capture) {
            if (!event->capture->origin->capture || event->capture->origin->capture != event->capture) return entry(cudaErrorCapturedEvent); /* that capture is over */
            stream->capture = event->capture;
            stream->frontier.clear();
        }
        for (int node : event->nodes)
            if (std::find(stream->frontier.begin(), stream->frontier.end(), node) == stream->frontier.end()) stream->frontier.push_back(node);
        return cudaSuccess;
    }
    if (stream->capture) { /* work outside the capture would have to be waited for at each launch */
        if (!event->recorded && !event->shared) return cudaSuccess;
        return stream->capture->spoilt = true, entry(cudaErrorStreamCaptureIsolation);
    }
    if (event->shared) {
        SharedEvent *shared = event->shared;
        uint64_t version = __atomic_load_n(&shared->recorded, __ATOMIC_ACQUIRE);
        Run wait = [shared, version] {
            if (__atomic_load_n(&shared->demanded, __ATOMIC_ACQUIRE) < version) __atomic_store_n(&shared->demanded, version, __ATOMIC_RELEASE);
            return __atomic_load_n(&shared->completed, __ATOMIC_ACQUIRE) >= version ? Status::DONE : Status::WAITING;
        };
        op_after(stream, "wait", wait, {event->op});
    } else if (event->recorded && event->op && !event->op->done) {
        op_after(stream, "wait", nullptr, {event->op});
    }
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes) {
    ENTER(entry, "cudaGraphGetNodes");
    if (!graph || !numNodes) return entry(cudaErrorInvalidValue);
    if (nodes)
        for (size_t i = 0; i < *numNodes; i++) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
    *numNodes = nodes ? std::min(*numNodes, graph->nodes.size()) : graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType) {
    ENTER(entry, "cudaGraphNodeGetType");
    if (!node || !pType) return entry(cudaErrorInvalidValue);
    *pType = node->work.type;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags) {
    ENTER(entry, "cudaGraphInstantiate");
    if (!pGraphExec || !graph || flags) return entry(cudaErrorInvalidValue);
    *pGraphExec = new CUgraphExec_st;
    (*pGraphExec)->nodes = graph->nodes;
    (*pGraphExec)->device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
    ENTER(entry, "cudaGraphUpload");
    cudaError_t error;
    return entry(!graphExec ? cudaErrorInvalidValue : stream_of(stream, &error) ? cudaSuccess : error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t handle) {
    ENTER(entry, "cudaGraphLaunch");
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return entry(error);
    if (!graphExec) return entry(cudaErrorInvalidValue);
    if (stream->capture) return stream->capture->spoilt = true, entry(cudaErrorNotSupported);
    OpRef start = std::make_shared<Op>(); /* the roots come after it */
    start->device = stream->device;
    if (OpRef mark = stream_mark(stream)) start->after.push_back(mark);
    if (graphExec->last && !graphExec->last->done) start->after.push_back(graphExec->last);
    std::vector<OpRef> ops;
    for (const CUgraphNode_st &node : graphExec->nodes) {
        std::vector<OpRef> after{start};
        for (int before : node.after) after.push_back(ops[(size_t)before]);
        ops.push_back(op_create(node.work, stream->device, after));
    }
    engine().queued += (int64_t)ops.size();
    engine().launches++;
    ops.push_back(start);
    graphExec->last = op_after(stream, "graph", nullptr, ops);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
    ENTER(entry, "cudaGraphExecDestroy");
    if (!graphExec) return entry(cudaErrorInvalidValue);
    delete graphExec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER(entry, "cudaGraphDestroy");
    if (!graph) return entry(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}
