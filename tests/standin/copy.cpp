/* copy: copies and sets, with CUDA's rules of what is read when. Pageable memory is read at the call, which waits for the stream if it is much; a copy to it ends before
   the call does. Page-locked memory is read and written when the stream comes to it. */
#include <cstdlib>
#include <cstring>

#include "engine.hpp"

namespace standin {

const size_t STAGED_BYTES = 64 << 10;

struct Area {
    char *to;
    size_t to_pitch;
    const char *from;
    size_t from_pitch;
    size_t width, height;
};

static size_t extent(size_t pitch, size_t width, size_t height) { return width && height ? (height - 1) * pitch + width : 0; }

static void copy(const Area &a) {
    for (size_t i = 0; i < a.height; i++) memmove(a.to + i * a.to_pitch, a.from + i * a.from_pitch, a.width);
}

static bool direction_fits(cudaMemcpyKind kind, Place to, Place from) {
    bool to_device = to == Place::DEVICE, from_device = from == Place::DEVICE;
    switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
    }
    return false;
}

static Work copying(const char *name, const Area &area) {
    Run run = [area] {
        copy(area);
        return Status::DONE;
    };
    return {name, cudaGraphNodeTypeMemcpy, [run] { return run; }};
}

/* blocking: the call without "Async". */
static cudaError_t copy_area(const Area &area, cudaMemcpyKind kind, cudaStream_t handle, bool blocking) {
    cudaError_t error;
    CUstream_st *stream = stream_of(handle, &error);
    if (!stream) return error;
    if (area.width > area.to_pitch || area.width > area.from_pitch) return cudaErrorInvalidPitchValue;
    if (!area.width || !area.height) return cudaSuccess;
    if (!range_valid("copy to", area.to, extent(area.to_pitch, area.width, area.height)) ||
        !range_valid("copy from", area.from, extent(area.from_pitch, area.width, area.height)))
        return cudaErrorInvalidValue;
    Place to = place_of(area.to), from = place_of(area.from);
    if (!direction_fits(kind, to, from)) return complain("a copy's direction does not fit its pointers"), cudaErrorInvalidValue;
    if (blocking && capture_active()) return capture_spoil(), cudaErrorStreamCaptureImplicit;
    if (stream->capture && (to == Place::PAGEABLE || from == Place::PAGEABLE)) {
        complain("a copy of pageable memory is captured: a launch would read or write it at any time");
        return capture_spoil(), cudaErrorStreamCaptureUnsupported;
    }
    if (from == Place::PAGEABLE && to == Place::DEVICE) {
        std::shared_ptr<char> staged((char *)malloc(area.width * area.height), free);
        if (!staged) return cudaErrorMemoryAllocation;
        /* What is larger than its buffer for this CUDA stages when the stream has come so far. */
        if (area.width * area.height > STAGED_BYTES && (error = finish(stream_mark(stream)))) return error;
        copy({staged.get(), area.width, area.from, area.from_pitch, area.width, area.height});
        Run run = [staged, area] {
            copy({area.to, area.to_pitch, staged.get(), area.width, area.width, area.height});
            return Status::DONE;
        };
        error = enqueue(handle, {"copy", cudaGraphNodeTypeMemcpy, [run] { return run; }});
        return error || !blocking ? error : finish(stream_mark(stream));
    }
    error = enqueue(handle, copying("copy", area));
    bool host_waits = to == Place::PAGEABLE || (from == Place::PAGEABLE && to == Place::PINNED) || (blocking && (to != Place::DEVICE || from != Place::DEVICE));
    return error || !host_waits ? error : finish(stream_mark(stream));
}

} // namespace standin

using namespace standin;

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    ENTER(entry, "cudaMemcpy");
    return entry(copy_area({(char *)dst, count, (const char *)src, count, count, 1}, kind, nullptr, true));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER(entry, "cudaMemcpyAsync");
    return entry(copy_area({(char *)dst, count, (const char *)src, count, count, 1}, kind, stream, false));
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind) {
    ENTER(entry, "cudaMemcpy2D");
    return entry(copy_area({(char *)dst, dpitch, (const char *)src, spitch, width, height}, kind, nullptr, true));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER(entry, "cudaMemcpy2DAsync");
    return entry(copy_area({(char *)dst, dpitch, (const char *)src, spitch, width, height}, kind, stream, false));
}

static bool on_device(const void *p, int device) {
    const Allocation *a = allocation_of(p);
    return a && a->device == device;
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count) {
    ENTER(entry, "cudaMemcpyPeer");
    if (!on_device(dst, dstDevice) || !on_device(src, srcDevice)) return entry(cudaErrorInvalidValue);
    return entry(copy_area({(char *)dst, count, (const char *)src, count, count, 1}, cudaMemcpyDeviceToDevice, nullptr, true));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t stream) {
    ENTER(entry, "cudaMemcpyPeerAsync");
    if (!on_device(dst, dstDevice) || !on_device(src, srcDevice)) return entry(cudaErrorInvalidValue);
    return entry(copy_area({(char *)dst, count, (const char *)src, count, count, 1}, cudaMemcpyDeviceToDevice, stream, false));
}

static cudaError_t set(void *to, int value, size_t count, cudaStream_t stream) {
    if (!count) return cudaSuccess;
    if (!range_valid("set", to, count) || place_of(to) == Place::PAGEABLE) return cudaErrorInvalidValue;
    Run run = [to, value, count] {
        memset(to, value, count);
        return Status::DONE;
    };
    return enqueue(stream, {"set", cudaGraphNodeTypeMemset, [run] { return run; }});
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count) {
    ENTER(entry, "cudaMemset");
    return entry(set(devPtr, value, count, nullptr));
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream) {
    ENTER(entry, "cudaMemsetAsync");
    return entry(set(devPtr, value, count, stream));
}
