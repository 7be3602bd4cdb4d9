/* cudnn: cuDNN's convolutions, as far as runtime/cuda/cudnn.c uses them: descriptors, three algorithms to choose from, the first of which has no order of sums, and plain
   loops. All compute the same, but the first, which is wrong so that a test sees whether it is taken. */
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "engine.hpp"
#include "ir/half.h"
#include "standin.h"

using namespace standin;

namespace {

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, FAILED = 5000 };
enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER };
enum { LAST_WORKSPACE = 1 << 20 };
int last_algorithm = -1;

struct Descriptor {
    int type = -1, size[4] = {};
};
struct Convolution {
    int pad[2], stride[2], dilation[2], groups = 1, math = 0;
};
struct Handle {
    cudaStream_t stream = nullptr;
};
struct Perf {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

size_t bytes_of(int type) { return type == 0 ? 4 : 2; }
double load(const void *p, int type, size_t i) {
    if (type == 0) return ((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return type == 2 ? f16_to_f32(bits) : bf16_to_f32(bits);
}
void store(void *p, int type, size_t i, double value) {
    if (type == 0)
        ((float *)p)[i] = (float)value;
    else
        ((uint16_t *)p)[i] = type == 2 ? f16_of_f32((float)value) : bf16_of_f32((float)value);
}
size_t elements_of(const Descriptor &d) { return (size_t)d.size[0] * (size_t)d.size[1] * (size_t)d.size[2] * (size_t)d.size[3]; }

/* Whether the shapes fit each other. */
bool valid(const Descriptor &x, const Descriptor &w, const Descriptor &y, const Convolution &c) {
    if (x.type != w.type || x.type != y.type || x.size[0] != y.size[0] || x.size[1] != w.size[1] * c.groups || y.size[1] != w.size[0] || w.size[0] % c.groups) return false;
    for (int d = 0; d < 2; d++) {
        const int room = x.size[2 + d] + 2 * c.pad[d] - c.dilation[d] * (w.size[2 + d] - 1) - 1;
        if (room < 0 || room / c.stride[d] + 1 != y.size[2 + d]) return false;
    }
    return true;
}

/* Calls term(element of x, of w, of y) for each product there is. */
template <class Term> void each_term(const Descriptor &x, const Descriptor &w, const Descriptor &y, const Convolution &c, Term term) {
    const int each = w.size[0] / c.groups;
    for (int n = 0; n < y.size[0]; n++)
        for (int o = 0; o < y.size[1]; o++)
            for (int i = 0; i < y.size[2]; i++)
                for (int j = 0; j < y.size[3]; j++)
                    for (int k = 0; k < w.size[1]; k++)
                        for (int r = 0; r < w.size[2]; r++)
                            for (int s = 0; s < w.size[3]; s++) {
                                const int row = i * c.stride[0] + r * c.dilation[0] - c.pad[0], column = j * c.stride[1] + s * c.dilation[1] - c.pad[1];
                                if (row < 0 || row >= x.size[2] || column < 0 || column >= x.size[3]) continue;
                                const int channel = o / each * w.size[1] + k;
                                term((((size_t)n * (size_t)x.size[1] + (size_t)channel) * (size_t)x.size[2] + (size_t)row) * (size_t)x.size[3] + (size_t)column,
                                     (((size_t)o * (size_t)w.size[1] + (size_t)k) * (size_t)w.size[2] + (size_t)r) * (size_t)w.size[3] + (size_t)s,
                                     (((size_t)n * (size_t)y.size[1] + (size_t)o) * (size_t)y.size[2] + (size_t)i) * (size_t)y.size[3] + (size_t)j);
                            }
}

int find(const char *name, const Descriptor &x, const Descriptor &w, const Descriptor &y, const Convolution &c, int asked, int *found, Perf *perf) {
    Entry entry(name);
    *found = 0;
    if (entry.injected || entry.error) return entry.injected ? entry.injected : FAILED;
    if (!valid(x, w, y, c)) return BAD_PARAM;
    for (int a = 0; a < 3 && a < asked; a++)
        perf[(*found)++] = {a, SUCCESS, 1, a == 2 ? (size_t)LAST_WORKSPACE : 0, a > 0, c.math, {}};
    return SUCCESS;
}

int run(const char *name, int kind, Handle *handle, const Descriptor &x, void *xs, const Descriptor &w, void *ws, const Descriptor &y, void *ys, const Convolution &c, int algorithm,
        void *workspace, size_t bytes) {
    Entry entry(name);
    if (entry.injected || entry.error) return entry.injected ? entry.injected : FAILED;
    if (!valid(x, w, y, c) || algorithm < 0 || algorithm > 2) return BAD_PARAM;
    if (algorithm == 2 && (!workspace || bytes < LAST_WORKSPACE || !range_valid("workspace", workspace, bytes))) return BAD_PARAM;
    if (!range_valid("x", xs, elements_of(x) * bytes_of(x.type)) || !range_valid("w", ws, elements_of(w) * bytes_of(w.type)) || !range_valid("y", ys, elements_of(y) * bytes_of(y.type)))
        return BAD_PARAM;
    last_algorithm = algorithm;
    const char *how = getenv("STANDIN_CUDNN");
    const bool slow = how && !strcmp(how, "slow");
    const double factor = algorithm == 0 || (how && (!strcmp(how, "wrong") || (algorithm == 1 && !strcmp(how, "wrong1")))) ? 1.5 : 1;
    Run work = [=] {
        if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (algorithm == 2) memset(workspace, 0xff, LAST_WORKSPACE); /* nothing else may live there */
        const Descriptor &to = kind == FORWARD ? y : kind == BACKWARD_DATA ? x : w;
        void *out = kind == FORWARD ? ys : kind == BACKWARD_DATA ? xs : ws;
        std::vector<double> sum(elements_of(to));
        each_term(x, w, y, c, [&](size_t i, size_t j, size_t k) {
            if (kind == FORWARD) sum[k] += load(xs, x.type, i) * load(ws, w.type, j);
            if (kind == BACKWARD_DATA) sum[i] += load(ys, y.type, k) * load(ws, w.type, j);
            if (kind == BACKWARD_FILTER) sum[j] += load(ys, y.type, k) * load(xs, x.type, i);
        });
        for (size_t i = 0; i < sum.size(); i++)
            store(out, to.type, i, factor * sum[i]);
        return Status::DONE;
    };
    return entry(enqueue(handle->stream, {name, cudaGraphNodeTypeKernel, [work] { return work; }})) ? FAILED : SUCCESS;
}

template <class T> int create(void **to) {
    *to = new T();
    return SUCCESS;
}
template <class T> int destroy(void *what) {
    delete (T *)what;
    return SUCCESS;
}
int describe(void *to, int type, int format, int a, int b, int c, int d) {
    if (format != 0 || (type != 0 && type != 2 && type != 9)) return NOT_SUPPORTED;
    if (a < 1 || b < 1 || c < 1 || d < 1) return BAD_PARAM;
    *(Descriptor *)to = {type, {a, b, c, d}};
    return SUCCESS;
}
size_t size_of(int algorithm) { return algorithm == 2 ? LAST_WORKSPACE : 0; }

} // namespace

/* The library's names; no header of it is here. */
#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {

int standin_last_convolution() { return last_algorithm; }

size_t cudnnGetVersion() { return 91300; }
const char *cudnnGetErrorString(int status) { return status == FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : status == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_NOT_SUPPORTED"; }
int cudnnCreate(void **handle) {
    Entry entry("cudnnCreate");
    if (entry.injected || entry.error) return entry.injected ? entry.injected : FAILED;
    return create<Handle>(handle);
}
int cudnnDestroy(void *handle) { return destroy<Handle>(handle); }
int cudnnSetStream(void *handle, cudaStream_t stream) {
    ((Handle *)handle)->stream = stream;
    return SUCCESS;
}
int cudnnCreateTensorDescriptor(void **to) { return create<Descriptor>(to); }
int cudnnDestroyTensorDescriptor(void *what) { return destroy<Descriptor>(what); }
int cudnnSetTensor4dDescriptor(void *to, int format, int type, int n, int c, int h, int w) { return describe(to, type, format, n, c, h, w); }
int cudnnCreateFilterDescriptor(void **to) { return create<Descriptor>(to); }
int cudnnDestroyFilterDescriptor(void *what) { return destroy<Descriptor>(what); }
int cudnnSetFilter4dDescriptor(void *to, int type, int format, int k, int c, int h, int w) { return describe(to, type, format, k, c, h, w); }
int cudnnCreateConvolutionDescriptor(void **to) { return create<Convolution>(to); }
int cudnnDestroyConvolutionDescriptor(void *what) { return destroy<Convolution>(what); }
int cudnnSetConvolution2dDescriptor(void *to, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int mode, int type) {
    if (mode != 1 || type != 0) return NOT_SUPPORTED;
    if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1) return BAD_PARAM;
    *(Convolution *)to = {{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1, 0};
    return SUCCESS;
}
int cudnnSetConvolutionGroupCount(void *to, int groups) {
    ((Convolution *)to)->groups = groups;
    return SUCCESS;
}
int cudnnSetConvolutionMathType(void *to, int math) {
    ((Convolution *)to)->math = math;
    return SUCCESS;
}

#define D(p) (*(const Descriptor *)(p))
#define C(p) (*(const Convolution *)(p))
int cudnnGetConvolutionForwardAlgorithm_v7(void *, const void *x, const void *w, const void *c, const void *y, int asked, int *found, Perf *perf) {
    return find("cudnnGetConvolutionForwardAlgorithm_v7", D(x), D(w), D(y), C(c), asked, found, perf);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, const void *w, const void *y, const void *c, const void *x, int asked, int *found, Perf *perf) {
    return find("cudnnGetConvolutionBackwardDataAlgorithm_v7", D(x), D(w), D(y), C(c), asked, found, perf);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, const void *x, const void *y, const void *c, const void *w, int asked, int *found, Perf *perf) {
    return find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", D(x), D(w), D(y), C(c), asked, found, perf);
}
int cudnnGetConvolutionForwardWorkspaceSize(void *, const void *, const void *, const void *, const void *, int algorithm, size_t *bytes) { return *bytes = size_of(algorithm), SUCCESS; }
int cudnnGetConvolutionBackwardDataWorkspaceSize(void *, const void *, const void *, const void *, const void *, int algorithm, size_t *bytes) {
    return *bytes = size_of(algorithm), SUCCESS;
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *, const void *, const void *, const void *, const void *, int algorithm, size_t *bytes) {
    return *bytes = size_of(algorithm), SUCCESS;
}
int cudnnConvolutionForward(void *handle, const void *, const void *x, void *xs, const void *w, void *ws, const void *c, int algorithm, void *workspace, size_t bytes, const void *,
                            const void *y, void *ys) {
    return run("cudnnConvolutionForward", FORWARD, (Handle *)handle, D(x), xs, D(w), ws, D(y), ys, C(c), algorithm, workspace, bytes);
}
int cudnnConvolutionBackwardData(void *handle, const void *, const void *w, void *ws, const void *y, void *ys, const void *c, int algorithm, void *workspace, size_t bytes, const void *,
                                 const void *x, void *xs) {
    return run("cudnnConvolutionBackwardData", BACKWARD_DATA, (Handle *)handle, D(x), xs, D(w), ws, D(y), ys, C(c), algorithm, workspace, bytes);
}
int cudnnConvolutionBackwardFilter(void *handle, const void *, const void *x, void *xs, const void *y, void *ys, const void *c, int algorithm, void *workspace, size_t bytes, const void *,
                                   const void *w, void *ws) {
    return run("cudnnConvolutionBackwardFilter", BACKWARD_FILTER, (Handle *)handle, D(x), xs, D(w), ws, D(y), ys, C(c), algorithm, workspace, bytes);
}
}
