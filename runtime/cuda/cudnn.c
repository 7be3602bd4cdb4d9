/* cudnn: conv2d and its gradients by cuDNN.
 *
 * Of the algorithms that its heuristics name, the deterministic ones are tried before the first step: each is compared with our own kernel on the device, in the shape in
 * use, and the fastest correct one is chosen, which may be ours. Our own kernel also computes what cuDNN cannot express (unequal padding), refuses, or gets wrong. All
 * processes take the choice of the first that has the shape, or our own kernel if one cannot use it, so that replicas compute the same bits. Then the choice is final:
 * a failure in a step is an error. */
#include "runtime/cuda/cudnn.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/pull.h"
#include "runtime/element.h"

enum { CANDIDATES = 4, ASKED = 16, NKINDS = 3, ALIGNED = 16, ROUNDS = 3, SIXTEENTHS = 16, OWN = -1, WORD = 64 };
static const size_t most_workspace = (size_t)256 << 20;

typedef struct CudnnLibrary {
    size_t (*GetVersion)(void);
    const char *(*GetErrorString)(int status);
    int (*Create)(void **handle);
    int (*Destroy)(void *handle);
    int (*SetStream)(void *handle, cudaStream_t stream);
    int (*CreateTensorDescriptor)(void **tensor);
    int (*DestroyTensorDescriptor)(void *tensor);
    int (*SetTensor4dDescriptor)(void *tensor, int format, int type, int n, int c, int h, int w);
    int (*CreateFilterDescriptor)(void **filter);
    int (*DestroyFilterDescriptor)(void *filter);
    int (*SetFilter4dDescriptor)(void *filter, int type, int format, int k, int c, int h, int w);
    int (*CreateConvolutionDescriptor)(void **convolution);
    int (*DestroyConvolutionDescriptor)(void *convolution);
    int (*SetConvolution2dDescriptor)(void *convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                                      int mode, int type);
    int (*SetConvolutionGroupCount)(void *convolution, int groups);
    int (*SetConvolutionMathType)(void *convolution, int math);
    CudnnFind *find[NKINDS]; /* by WindowsKind */
    CudnnSize *size[NKINDS];
    CudnnRun *run[NKINDS];
} CudnnLibrary;

/* All that the choice of an algorithm depends on; compared as bytes: no padding. */
typedef struct ConvKey {
    int32_t kind, dtype, images, groups, in_channels, out_channels, in[2], out[2], taps[2], stride[2], dilation[2], pad[2];
} ConvKey;

typedef struct Candidate {
    int32_t algorithm, math;
    size_t bytes; /* of workspace */
} Candidate;

enum { TENSOR_X, TENSOR_W, TENSOR_Y, NTENSORS };
typedef struct ConvPlan {
    struct ConvPlan *next;
    ConvKey key;
    void *tensor[NTENSORS], *convolution;
    Candidate candidate[CANDIDATES];
    int n, chosen; /* OWN: our own kernel */
    int calls;     /* prepared calls of plans' programs */
    bool settled;
} ConvPlan;

/* Workspaces; smaller ones are kept, because captured steps use them. */
typedef struct ConvWorkspace {
    struct ConvWorkspace *next;
    void *data;
    size_t bytes;
} ConvWorkspace;

typedef struct CudaConv {
    CudnnLibrary library;
    void *handle; /* NULL: there is no cuDNN */
    ConvWorkspace *workspace;
    ConvPlan *plans, **end;
    int calls; /* prepared calls, of any shape */
} CudaConv;

/* ---------------------------------------------------------------- the library */

static bool find_symbol(void *library, const char *name, void *function, size_t bytes) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, bytes);
    return symbol != NULL;
}

static bool library_open(CudnnLibrary *library) {
    static const char *const ways[NKINDS] = {"Forward", "BackwardData", "BackwardFilter"};
    const char *given = getenv("PRUN_CUDNN"), *path = given && *given ? given : "libcudnn.so.9";
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* the same one each time: never closed */
    char name[80];
    if (!opened) return false;
#define FIND(function) find_symbol(opened, "cudnn" #function, &library->function, sizeof library->function)
    bool all = FIND(GetVersion) && FIND(GetErrorString) && FIND(Create) && FIND(Destroy) && FIND(SetStream) &&
               FIND(CreateTensorDescriptor) && FIND(DestroyTensorDescriptor) && FIND(SetTensor4dDescriptor) &&
               FIND(CreateFilterDescriptor) && FIND(DestroyFilterDescriptor) && FIND(SetFilter4dDescriptor) &&
               FIND(CreateConvolutionDescriptor) && FIND(DestroyConvolutionDescriptor) && FIND(SetConvolution2dDescriptor) &&
               FIND(SetConvolutionGroupCount) && FIND(SetConvolutionMathType);
#undef FIND
    for (int k = 0; all && k < NKINDS; k++) {
        snprintf(name, sizeof name, "cudnnGetConvolution%sAlgorithm_v7", ways[k]);
        all = find_symbol(opened, name, &library->find[k], sizeof library->find[k]);
        snprintf(name, sizeof name, "cudnnGetConvolution%sWorkspaceSize", ways[k]);
        all = all && find_symbol(opened, name, &library->size[k], sizeof library->size[k]);
        snprintf(name, sizeof name, "cudnnConvolution%s", ways[k]);
        all = all && find_symbol(opened, name, &library->run[k], sizeof library->run[k]);
    }
    return all;
}

static void version_print(const CudnnLibrary *library, Text *text) {
    const int version = (int)library->GetVersion();
    text_printf(text, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void cudnn_list(Text *text) {
    CudnnLibrary library = {0};
    if (!library_open(&library)) {
        text_printf(text, "cuDNN: none; convolutions are prun's own\n");
        return;
    }
    text_printf(text, "cuDNN: ");
    version_print(&library, text);
    text_printf(text, "\n");
}

/* Opens cuDNN once; NULL: there is none, or no memory for it. */
static CudaConv *conv_of(CudaContext *cuda) {
    if (cuda->conv) return cuda->conv->handle ? cuda->conv : NULL;
    CudaConv *conv = cuda->conv = calloc(1, sizeof *conv);
    if (!conv) return NULL;
    conv->end = &conv->plans;
    if (!library_open(&conv->library) || conv->library.Create(&conv->handle) != CUDNN_SUCCESS) {
        conv->handle = NULL;
        cudaGetLastError();
        return NULL;
    }
    if (conv->library.SetStream(conv->handle, cuda->compute) == CUDNN_SUCCESS) return conv;
    conv->library.Destroy(conv->handle);
    conv->handle = NULL;
    return NULL;
}

static void plan_empty(const CudnnLibrary *library, ConvPlan *plan) {
    if (plan->tensor[TENSOR_X]) library->DestroyTensorDescriptor(plan->tensor[TENSOR_X]);
    if (plan->tensor[TENSOR_Y]) library->DestroyTensorDescriptor(plan->tensor[TENSOR_Y]);
    if (plan->tensor[TENSOR_W]) library->DestroyFilterDescriptor(plan->tensor[TENSOR_W]);
    if (plan->convolution) library->DestroyConvolutionDescriptor(plan->convolution);
}

void cudnn_close(CudaContext *cuda) {
    CudaConv *conv = cuda->conv;
    if (!conv) return;
    for (ConvPlan *plan = conv->plans, *next; plan; plan = next) {
        next = plan->next;
        plan_empty(&conv->library, plan);
        free(plan);
    }
    for (ConvWorkspace *workspace = conv->workspace, *next; workspace; workspace = next) {
        next = workspace->next;
        cudaFree(workspace->data);
        free(workspace);
    }
    if (conv->handle) conv->library.Destroy(conv->handle);
    free(conv);
    cuda->conv = NULL;
}

/* ---------------------------------------------------------------- shapes */

static bool fits(int64_t a, int64_t b, int64_t c, int64_t d) {
    return a > 0 && b > 0 && c > 0 && d > 0 && a <= INT32_MAX / b && a * b <= INT32_MAX / c && a * b * c <= INT32_MAX / d;
}

/* false: cuDNN cannot express this convolution. */
static bool key_of(const KernelWindows *run, ConvKey *key) {
    const Planes *p = &run->planes;
    if (run->kind > WINDOWS_CONV_W || (run->dtype != KERNEL_F32 && run->dtype != KERNEL_F16 && run->dtype != KERNEL_BF16)) return false;
    if (!fits(p->images, p->groups * p->in_channels, p->in[0], p->in[1]) ||
        !fits(p->images, p->groups * p->out_channels, p->out[0], p->out[1]) ||
        !fits(p->groups * p->out_channels, p->in_channels, p->window[0].size, p->window[1].size))
        return false;
    *key = (ConvKey){.kind = (int32_t)run->kind,
                     .dtype = run->dtype,
                     .images = (int32_t)p->images,
                     .groups = (int32_t)p->groups,
                     .in_channels = (int32_t)p->in_channels,
                     .out_channels = (int32_t)p->out_channels};
    for (int d = 0; d < 2; d++) {
        const Window *window = &p->window[d];
        const int64_t room = p->in[d] + 2 * window->low - window_extent(window);
        if (window->low < 0 || room < 0 || room / window->stride + 1 != p->out[d]) return false; /* padding is not equal on both sides */
        if (window->low > INT16_MAX || window->stride > INT16_MAX || window->dilation > INT16_MAX) return false;
        key->in[d] = (int32_t)p->in[d];
        key->out[d] = (int32_t)p->out[d];
        key->taps[d] = (int32_t)window->size;
        key->stride[d] = (int32_t)window->stride;
        key->dilation[d] = (int32_t)window->dilation;
        key->pad[d] = (int32_t)window->low;
    }
    return true;
}

/* The tensors in the order that cuDNN's functions have them: two operands, the result. */
static const int roles[NKINDS][3] = {{TENSOR_X, TENSOR_W, TENSOR_Y}, {TENSOR_W, TENSOR_Y, TENSOR_X}, {TENSOR_X, TENSOR_Y, TENSOR_W}};

static bool plan_describe(const CudnnLibrary *library, ConvPlan *plan) {
    const ConvKey *k = &plan->key;
    const int type = k->dtype == KERNEL_F16 ? CUDNN_HALF : k->dtype == KERNEL_BF16 ? CUDNN_BFLOAT16 : CUDNN_FLOAT;
    return library->CreateTensorDescriptor(&plan->tensor[TENSOR_X]) == CUDNN_SUCCESS &&
           library->CreateTensorDescriptor(&plan->tensor[TENSOR_Y]) == CUDNN_SUCCESS &&
           library->CreateFilterDescriptor(&plan->tensor[TENSOR_W]) == CUDNN_SUCCESS &&
           library->CreateConvolutionDescriptor(&plan->convolution) == CUDNN_SUCCESS &&
           library->SetTensor4dDescriptor(plan->tensor[TENSOR_X], CUDNN_NCHW, type, k->images, k->groups * k->in_channels, k->in[0],
                                          k->in[1]) == CUDNN_SUCCESS &&
           library->SetTensor4dDescriptor(plan->tensor[TENSOR_Y], CUDNN_NCHW, type, k->images, k->groups * k->out_channels, k->out[0],
                                          k->out[1]) == CUDNN_SUCCESS &&
           library->SetFilter4dDescriptor(plan->tensor[TENSOR_W], type, CUDNN_NCHW, k->groups * k->out_channels, k->in_channels, k->taps[0],
                                          k->taps[1]) == CUDNN_SUCCESS &&
           library->SetConvolution2dDescriptor(plan->convolution, k->pad[0], k->pad[1], k->stride[0], k->stride[1], k->dilation[0],
                                               k->dilation[1], CUDNN_CORRELATION, CUDNN_FLOAT) == CUDNN_SUCCESS &&
           library->SetConvolutionGroupCount(plan->convolution, k->groups) == CUDNN_SUCCESS;
}

/* Finds deterministic algorithms that need at most most_workspace; for f32 without tf32 none rounds its factors. */
static void plan_fill(CudaContext *cuda, ConvPlan *plan) {
    const CudnnLibrary *library = &cuda->conv->library;
    const int *role = roles[plan->key.kind];
    const bool single = plan->key.dtype == KERNEL_F32;
    const int math = single ? cuda->options.tf32 ? CUDNN_MATH_DEFAULT : CUDNN_MATH_FMA : CUDNN_MATH_TENSOR;
    CudnnPerf perf[ASKED];
    int found = 0;
    const void *a = plan->tensor[role[0]], *b = plan->tensor[role[1]], *result = plan->tensor[role[2]];
    if (library->SetConvolutionMathType(plan->convolution, math) != CUDNN_SUCCESS ||
        library->find[plan->key.kind](cuda->conv->handle, a, b, plan->convolution, result, ASKED, &found, perf) != CUDNN_SUCCESS)
        return;
    for (int i = 0; i < found && plan->n < CANDIDATES; i++) {
        Candidate one = {.algorithm = perf[i].algorithm, .math = single ? math : perf[i].math};
        if (perf[i].status != CUDNN_SUCCESS || perf[i].determinism != CUDNN_IS_DETERMINISTIC) continue;
        if (library->SetConvolutionMathType(plan->convolution, one.math) == CUDNN_SUCCESS &&
            library->size[plan->key.kind](cuda->conv->handle, a, b, plan->convolution, result, one.algorithm, &one.bytes) ==
                CUDNN_SUCCESS &&
            one.bytes <= most_workspace)
            plan->candidate[plan->n++] = one;
    }
}

/* NULL: our own kernel must compute it. */
static ConvPlan *plan_of(CudaContext *cuda, const KernelWindows *run) {
    ConvKey key;
    CudaConv *conv = key_of(run, &key) ? conv_of(cuda) : NULL;
    if (!conv) return NULL;
    for (ConvPlan *plan = conv->plans; plan; plan = plan->next)
        if (memcmp(&plan->key, &key, sizeof key) == 0) return plan;
    if (cuda->capturing) return NULL;
    ConvPlan *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    plan->key = key;
    plan->chosen = OWN;
    if (plan_describe(&conv->library, plan)) plan_fill(cuda, plan);
    *conv->end = plan;
    conv->end = &plan->next;
    return plan;
}

/* Runs a candidate; returns cuDNN's status. at: data by TENSOR_X, .. */
static int plan_call(CudaContext *cuda, ConvPlan *plan, int candidate, void *const *at, void *workspace) {
    static const float one = 1, zero = 0;
    const CudnnLibrary *library = &cuda->conv->library;
    const Candidate *c = &plan->candidate[candidate];
    const int *role = roles[plan->key.kind], status = library->SetConvolutionMathType(plan->convolution, c->math);
    if (status != CUDNN_SUCCESS) return status;
    return library->run[plan->key.kind](cuda->conv->handle, &one, plan->tensor[role[0]], at[role[0]], plan->tensor[role[1]], at[role[1]],
                                        plan->convolution, c->algorithm, c->bytes ? workspace : NULL, c->bytes, &zero,
                                        plan->tensor[role[2]], at[role[2]]);
}

/* ---------------------------------------------------------------- trying them */

/* The pieces of a result that are compared, spread from its beginning to its end. */
enum { PIECES = 16, PIECE = 1024 };

typedef struct ConvTrial {
    char *memory;
    void *at[NTENSORS], *own, *workspace; /* own: the result of our own kernel */
    int64_t elements[NTENSORS];
} ConvTrial;

static KernelWindows trial_windows(const ConvPlan *plan, const ConvTrial *trial) {
    const ConvKey *k = &plan->key;
    KernelWindows run = {.kind = (WindowsKind)k->kind, .dtype = k->dtype, .n = trial->elements[roles[k->kind][2]], .out = trial->own};
    run.planes = (Planes){.images = k->images, .groups = k->groups, .in_channels = k->in_channels, .out_channels = k->out_channels};
    for (int d = 0; d < 2; d++) {
        run.planes.in[d] = k->in[d];
        run.planes.out[d] = k->out[d];
        run.planes.window[d] = (Window){k->taps[d], k->stride[d], k->dilation[d], k->pad[d]};
    }
    run.a = trial->at[run.kind == WINDOWS_CONV_X ? TENSOR_Y : TENSOR_X];
    run.b = trial->at[run.kind == WINDOWS_CONV_W ? TENSOR_Y : TENSOR_W];
    return run;
}

/* 1: opened; 0: there is no memory; -1: *error. */
static int trial_open(CudaContext *cuda, ConvTrial *trial, const ConvPlan *plan, Error *error) {
    const ConvKey *k = &plan->key;
    const int64_t each = dtype_bytes[k->dtype];
    const int result = roles[k->kind][2];
    int64_t bytes = 0, begin[NTENSORS + 2], most = 0;
    void *memory;
    *trial = (ConvTrial){0};
    trial->elements[TENSOR_X] = (int64_t)k->images * k->groups * k->in_channels * k->in[0] * k->in[1];
    trial->elements[TENSOR_Y] = (int64_t)k->images * k->groups * k->out_channels * k->out[0] * k->out[1];
    trial->elements[TENSOR_W] = (int64_t)k->groups * k->out_channels * k->in_channels * k->taps[0] * k->taps[1];
    for (int c = 0; c < plan->n; c++)
        if ((int64_t)plan->candidate[c].bytes > most) most = (int64_t)plan->candidate[c].bytes;
    for (int t = 0; t < NTENSORS + 2; t++) {
        begin[t] = bytes;
        bytes += align_bytes(t == NTENSORS + 1 ? most : trial->elements[t < NTENSORS ? t : result] * each, 256);
    }
    const int taken = cuda_try_memory(cuda, &memory, bytes, "taking memory to try a convolution", error);
    if (taken < 1) return taken;
    trial->memory = memory;
    for (int t = 0; t < NTENSORS; t++)
        trial->at[t] = trial->memory + begin[t];
    trial->own = trial->memory + begin[NTENSORS];
    trial->workspace = trial->memory + begin[NTENSORS + 1];
    for (int t = 0; t < NTENSORS; t++)
        if (t != result &&
            !cuda_launched(cuda, kernels_trial(trial->at[t], trial->elements[t], k->dtype, (uint32_t)t, 1, SIXTEENTHS, cuda->compute),
                           "trial", error))
            return -1;
    const KernelWindows run = trial_windows(plan, trial);
    return cuda_launched(cuda, kernels_windows(&run, cuda->scratch, SCRATCH_BYTES, cuda->compute), "convolution", error) ? 1 : -1;
}

/* Copies the pieces of a result to the host; returns how many elements, or -1: *error. */
static int64_t fetch(CudaContext *cuda, const void *from, int64_t n, int dtype, double *to, Error *error) {
    char room[PIECE * sizeof(float)];
    const int64_t each = dtype_bytes[dtype], pieces = n < PIECES * PIECE ? (n + PIECE - 1) / PIECE : PIECES;
    int64_t at = 0;
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t piece = n < PIECE ? n : PIECE, begin = pieces < 2 ? 0 : p * (n - piece) / (pieces - 1);
        if (!cuda_backend.download(cuda, room, (const char *)from + begin * each, piece * each, error)) return -1;
        for (int64_t i = 0; i < piece; i++)
            to[at++] = element_at(room, (DType)dtype, i);
    }
    return at;
}

/* Factors are exact in every type; sums are rounded, and for 16-bit types the result. Transformed algorithms (Winograd) lose a few bits more. */
static int is_right(CudaContext *cuda, const ConvPlan *plan, const ConvTrial *trial, Error *error) {
    const int dtype = plan->key.dtype, result = roles[plan->key.kind][2];
    const double unit = ldexp(1, dtype == KERNEL_F16 ? -9 : dtype == KERNEL_BF16 ? -6 : cuda->options.tf32 ? -8 : -13);
    double *room = malloc(2 * PIECES * PIECE * sizeof *room), mean = 0;
    if (!room) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return -1;
    }
    double *found = room + PIECES * PIECE;
    const int64_t n = fetch(cuda, trial->own, trial->elements[result], dtype, room, error);
    int right = n < 0 || fetch(cuda, trial->at[result], trial->elements[result], dtype, found, error) < 0 ? -1 : 1;
    for (int64_t i = 0; right > 0 && i < n; i++)
        mean += fabs(room[i]) / (double)n;
    for (int64_t i = 0; right > 0 && i < n; i++)
        if (!(fabs(found[i] - room[i]) <= unit * (fabs(room[i]) + mean))) right = 0;
    free(room);
    return right;
}

/* Milliseconds of a candidate, or of our own kernel; -1: refused; -2: *error. */
static double time_candidate(CudaContext *cuda, ConvPlan *plan, int candidate, const ConvTrial *trial, const cudaEvent_t *clock,
                             Error *error) {
    const KernelWindows own = trial_windows(plan, trial);
    double least = -1;
    for (int round = 0; round < ROUNDS; round++) {
        float ms = 0;
        if (!cuda_ok(cuda, cudaEventRecord(clock[0], cuda->compute), "timing a convolution", error)) return -2;
        if (candidate == OWN ? kernels_windows(&own, cuda->scratch, SCRATCH_BYTES, cuda->compute) != cudaSuccess
                             : plan_call(cuda, plan, candidate, trial->at, trial->workspace) != CUDNN_SUCCESS)
            return -1;
        if (!cuda_ok(cuda, cudaEventRecord(clock[1], cuda->compute), "timing a convolution", error) ||
            !cuda_ok(cuda, cudaStreamSynchronize(cuda->compute), "timing a convolution", error) ||
            !cuda_ok(cuda, cudaEventElapsedTime(&ms, clock[0], clock[1]), "timing a convolution", error))
            return -2;
        if (least < 0 || ms < least) least = ms;
    }
    return least;
}

/* Chooses among the correct candidates: with clocks the fastest, or our own kernel if it is faster still; without clocks the first. */
static bool choose(CudaContext *cuda, ConvPlan *plan, const ConvTrial *trial, const cudaEvent_t *clock, Error *error) {
    double best = -1;
    bool wrong = false;
    for (int c = 0; c < plan->n && (clock || plan->chosen == OWN); c++) {
        const size_t each = (size_t)dtype_bytes[plan->key.dtype];
        const int result = roles[plan->key.kind][2];
        if (!cuda_ok(cuda, cudaMemsetAsync(trial->at[result], 0xff, (size_t)trial->elements[result] * each, cuda->compute),
                     "trying a convolution", error))
            return false;
        if (plan_call(cuda, plan, c, trial->at, trial->workspace) != CUDNN_SUCCESS) continue;
        const int right = is_right(cuda, plan, trial, error);
        if (right < 0) return false;
        wrong = wrong || !right;
        const double ms = right && clock ? time_candidate(cuda, plan, c, trial, clock, error) : 0;
        if (ms < -1) return false;
        if (!right || ms < 0 || (plan->chosen != OWN && ms >= best)) continue;
        best = ms;
        plan->chosen = c;
    }
    if (wrong && plan->chosen == OWN)
        fprintf(stderr,
                "prun: note: device %d: a convolution of %s by cuDNN is not what it should be: computed without it; please report it\n",
                cuda->device, dtype_name[plan->key.dtype]);
    if (clock && plan->chosen != OWN) {
        const double ms = time_candidate(cuda, plan, OWN, trial, clock, error);
        if (ms < -1) return false;
        if (ms >= 0 && ms < best) plan->chosen = OWN;
    }
    return true;
}

static bool try_plan(CudaContext *cuda, ConvPlan *plan, bool timed, Error *error) {
    ConvTrial trial = {0};
    cudaEvent_t clock[2] = {0};
    const int opened = plan->n > 0 ? trial_open(cuda, &trial, plan, error) : 0;
    bool ok = opened >= 0;
    for (int e = 0; ok && timed && e < 2; e++)
        ok = cuda_ok(cuda, cudaEventCreate(&clock[e]), "making an event", error);
    if (ok && opened > 0) ok = choose(cuda, plan, &trial, timed ? clock : NULL, error);
    for (int e = 0; e < 2; e++)
        if (clock[e]) cudaEventDestroy(clock[e]);
    if (trial.memory) cudaFree(trial.memory);
    return ok;
}

/* Allocates workspace for what is chosen; if there is none, chooses our own kernels. */
static void take_workspace(CudaConv *conv) {
    size_t most = 0, have = conv->workspace ? conv->workspace->bytes : 0;
    for (const ConvPlan *plan = conv->plans; plan; plan = plan->next)
        if (plan->chosen != OWN && plan->candidate[plan->chosen].bytes > most) most = plan->candidate[plan->chosen].bytes;
    if (most <= have) return;
    ConvWorkspace *workspace = calloc(1, sizeof *workspace);
    if (workspace && cudaMalloc(&workspace->data, most) == cudaSuccess) {
        workspace->bytes = most;
        workspace->next = conv->workspace;
        conv->workspace = workspace;
        return;
    }
    free(workspace);
    cudaGetLastError();
    for (ConvPlan *plan = conv->plans; plan; plan = plan->next)
        if (plan->chosen != OWN && plan->candidate[plan->chosen].bytes > have) plan->chosen = OWN;
}

/* ---------------------------------------------------------------- the same everywhere */

typedef struct ConvChosen {
    ConvKey key;
    int32_t own, algorithm, math;
} ConvChosen;

/* Takes the list's choice, or our own kernel if the heuristics here do not name the algorithm. False: the shape is not in the list. */
static bool take_chosen(ConvPlan *plan, const ConvChosen *list, int64_t n) {
    int64_t i = 0;
    while (i < n && memcmp(&list[i].key, &plan->key, sizeof plan->key) != 0)
        i++;
    if (i == n) return false;
    plan->chosen = OWN;
    for (int c = 0; !list[i].own && c < plan->n; c++)
        if (plan->candidate[c].algorithm == list[i].algorithm && plan->candidate[c].math == list[i].math) plan->chosen = c;
    return true;
}

static void choices_take(ConvPlan *plans, const ConvChosen *list, int64_t n, bool settled) {
    for (ConvPlan *plan = plans; plan; plan = plan->next)
        if (!plan->settled) plan->settled = take_chosen(plan, list, n) && settled;
}

/* A word for the list's shapes from `first` on; bit i: this process needs shape first + i, but cannot compute it by cuDNN. */
static uint64_t refused_word(const CudaConv *conv, const ConvChosen *list, int64_t first, int64_t n) {
    uint64_t word = 0;
    if (conv && !conv->handle) return UINT64_MAX;
    for (const ConvPlan *plan = conv ? conv->plans : NULL; plan; plan = plan->next)
        for (int64_t i = 0; i < WORD && first + i < n; i++)
            if (!plan->settled && plan->chosen == OWN && memcmp(&list[first + i].key, &plan->key, sizeof plan->key) == 0)
                word |= UINT64_C(1) << i;
    return word;
}

/* If one process cannot compute a shape by cuDNN (no memory for the workspace, another library, none), no process does. Collective. */
static bool agree_on(CudaConv *conv, ConvChosen *list, int64_t n, Comm *comm, Error *error) {
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool ok = comm_agree(comm, words || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    for (int64_t first = 0; ok && first < n; first += WORD) {
        ok = comm->table->all_gather_words(comm, refused_word(conv, list, first, n), words, error);
        for (int64_t i = 0; ok && i < WORD && first + i < n; i++)
            for (int p = 0; p < comm->nprocesses; p++)
                if (words[p] >> i & 1) list[first + i].own = true;
    }
    free(words);
    return ok;
}

/* Shares the choices for shapes that processes have settled in earlier programs, or for those that they have not. */
static bool share_chosen(CudaConv *conv, Comm *comm, bool settled, Error *error) {
    ConvPlan *plans = conv ? conv->plans : NULL;
    int64_t n = 0, at = 0;
    void *all = NULL;
    for (const ConvPlan *plan = plans; plan; plan = plan->next)
        n += plan->settled == settled;
    ConvChosen *mine = calloc((size_t)n + 1, sizeof *mine);
    bool ok = comm_agree(comm, mine || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    for (const ConvPlan *plan = plans; ok && plan; plan = plan->next) {
        if (plan->settled != settled) continue;
        ConvChosen *chosen = &mine[at++];
        chosen->key = plan->key;
        chosen->own = plan->chosen == OWN;
        if (chosen->own) continue;
        chosen->algorithm = plan->candidate[plan->chosen].algorithm;
        chosen->math = plan->candidate[plan->chosen].math;
    }
    ok = ok && comm_union(comm, mine, n, sizeof *mine, sizeof mine->key, &all, &n, error);
    free(mine);
    if (ok) choices_take(plans, all, n, false);
    if (ok && conv) take_workspace(conv);
    ok = ok && agree_on(conv, all, n, comm, error);
    if (ok) choices_take(plans, all, n, true);
    free(all);
    return ok;
}

bool cudnn_settle(CudaContext *cuda, Comm *comm, Error *error) {
    CudaConv *conv = cuda->conv;
    bool ok = true;
    for (ConvPlan *plan = conv ? conv->plans : NULL; ok && plan; plan = plan->next)
        if (!plan->settled) ok = try_plan(cuda, plan, !cuda->options.deterministic, error);
    if (!comm_agree(comm, ok, error)) return false;
    if (comm->nprocesses > 1 && !(share_chosen(conv, comm, true, error) && share_chosen(conv, comm, false, error))) return false;
    if (comm->nprocesses == 1 && conv) take_workspace(conv);
    for (ConvPlan *plan = conv ? conv->plans : NULL; plan; plan = plan->next)
        plan->settled = true;
    return true;
}

void cudnn_say(const CudaContext *cuda, Text *text) {
    const CudaConv *conv = cuda->conv;
    int calls = 0;
    if (!conv || conv->calls == 0) return;
    for (const ConvPlan *plan = conv->plans; plan; plan = plan->next)
        if (plan->chosen != OWN) calls += plan->calls;
    text_printf(text, "%d of %d convolutions by cuDNN", calls, conv->calls);
    if (conv->handle) {
        text_printf(text, " ");
        version_print(&conv->library, text);
    } else {
        text_printf(text, ", which is not there");
    }
}

/* ---------------------------------------------------------------- operators */

void cudnn_prepare(const KernelCall *call) {
    KernelWindows run;
    const WindowsKind kind = call->op == OP_conv2d ? WINDOWS_CONV : call->op == OP_conv2d_grad_x ? WINDOWS_CONV_X : WINDOWS_CONV_W;
    CudaContext *cuda = call->context;
    if (call->op != OP_conv2d && call->op != OP_conv2d_grad_x && call->op != OP_conv2d_grad_w) return;
    windows_of(call, kind, &run);
    ConvPlan *plan = plan_of(cuda, &run);
    conv_of(cuda);
    if (plan) plan->calls++;
    if (cuda->conv) cuda->conv->calls++;
}

static bool is_aligned(const void *data) {
    return (uintptr_t)data % ALIGNED == 0;
}

bool cudnn_convolve(CudaContext *cuda, const KernelWindows *run, bool *done, Error *error) {
    *done = false;
    if (!is_aligned(run->a) || !is_aligned(run->b) || !is_aligned(run->out)) return true;
    ConvPlan *plan = plan_of(cuda, run);
    if (!plan || (!plan->settled && cuda->capturing)) return true; /* it cannot be tried while capturing, when nothing is executed */
    if (!plan->settled) { /* a call that was not prepared (plans have none): takes the first correct algorithm */
        if (!try_plan(cuda, plan, false, error)) return false;
        take_workspace(cuda->conv);
        plan->settled = true;
    }
    if (plan->chosen == OWN) return true;
    void *at[NTENSORS];
    memcpy(&at[run->kind == WINDOWS_CONV_X ? TENSOR_Y : TENSOR_X], &run->a, sizeof run->a);
    memcpy(&at[run->kind == WINDOWS_CONV_W ? TENSOR_Y : TENSOR_W], &run->b, sizeof run->b);
    at[roles[run->kind][2]] = run->out;
    const int status = plan_call(cuda, plan, plan->chosen, at, cuda->conv->workspace ? cuda->conv->workspace->data : NULL);
    if (status != CUDNN_SUCCESS) /* other ranks use cuDNN here, so our own kernel must not replace it */
        return error_set(error, EXIT_ENVIRONMENT, "device %d: a convolution: cuDNN says %s", cuda->device,
                         cuda->conv->library.GetErrorString(status));
    *done = true;
    return cuda_launched(cuda, cudaSuccess, "convolution", error);
}
