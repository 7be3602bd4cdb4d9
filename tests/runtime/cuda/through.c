#include "tests/runtime/cuda/through.h"

#include <stdlib.h>
#include <string.h>

/* A tensor of one driven rank. */
typedef struct Tensor {
    int64_t bytes;
    void *data, *beside; /* what is moved; where it is copied from, or to */
} Tensor;

struct CommRequest {
    CommRequest *next;
    CommRequest *inner;
    int n, nwaited;
    Tensor *source, *target; /* [driven][transfer] */
    void **host;             /* the caller's targets, likewise */
    void *graph;
    CommCounters *each; /* per driven rank: what a replay moves */
    int uses;
};

typedef struct Through {
    Comm comm;
    Comm *inner;
    Device device;
    CommRequest *requests;
    void *poison;
    bool capture, foreign;
} Through;

enum { POISON_BYTES = 1 << 22 };

Comm *through_inner(Comm *comm) {
    return ((Through *)comm)->inner;
}

const Device *through_device(Comm *comm) {
    return &((Through *)comm)->device;
}

void through_capture(Comm *comm, bool capture) {
    ((Through *)comm)->capture = capture;
}

void through_foreign(Comm *comm) {
    ((Through *)comm)->foreign = true;
}

static bool tensor_open(Through *through, Tensor *tensor, const Layout *layout, const Transfer *transfer, int rank, Error *error) {
    Box box;
    layout_box(layout, &transfer->shape, rank, &box);
    tensor->bytes = box_elements(&box) * dtype_bytes[transfer->dtype];
    const Backend *backend = through->device.backend;
    tensor->data = through->foreign ? backend->alloc(through->device.context, tensor->bytes, error)
                                    : through->inner->table->alloc(through->inner, tensor->bytes, error);
    tensor->beside = tensor->data ? backend->alloc(through->device.context, tensor->bytes, error) : NULL;
    return tensor->beside != NULL;
}

static CommRequest *through_prepare(Comm *comm, const Transfer *transfers, int n, Error *error) {
    Through *through = (Through *)comm;
    CommRequest *request = calloc(1, sizeof *request);
    size_t count = (size_t)n * (size_t)comm->ndriven;
    request->n = n;
    request->source = calloc(count + 1, sizeof *request->source);
    request->target = calloc(count + 1, sizeof *request->target);
    request->host = calloc(count + 1, sizeof *request->host);
    request->each = calloc((size_t)comm->ndriven, sizeof *request->each);
    request->next = through->requests;
    through->requests = request;
    for (int r = 0; r < comm->ndriven; r++)
        for (int i = 0; i < n; i++)
            if (!tensor_open(through, &request->source[r * n + i], transfers[i].from, &transfers[i], comm->first_driven + r, error) ||
                !tensor_open(through, &request->target[r * n + i], transfers[i].to, &transfers[i], comm->first_driven + r, error))
                return NULL;
    Transfer *inner = calloc((size_t)n + 1, sizeof *inner);
    for (int i = 0; i < n; i++) {
        inner[i] = transfers[i];
        inner[i].anywhere = through->foreign;
    }
    request->inner = through->inner->table->prepare(through->inner, inner, n, error);
    free(inner);
    return request->inner ? request : NULL;
}

/* A copy of the poison over a tensor, queued. */
static bool spoil(Through *through, const Tensor *tensor, Error *error) {
    const Backend *backend = through->device.backend;
    for (int64_t at = 0; at < tensor->bytes; at += POISON_BYTES) {
        int64_t left = tensor->bytes - at;
        if (!backend->copy(through->device.context, (char *)tensor->data + at, through->poison, left < POISON_BYTES ? left : POISON_BYTES,
                           error))
            return false;
    }
    return true;
}

/* What the device does in a use, of one driven rank: before start, and after wait. */
static bool rank_start(Through *through, CommRequest *request, int driven, Error *error) {
    const Backend *backend = through->device.backend;
    int n = request->n;
    const void **source = calloc((size_t)n + 1, sizeof *source);
    void **target = calloc((size_t)n + 1, sizeof *target);
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        const Tensor *from = &request->source[driven * n + i], *to = &request->target[driven * n + i];
        ok = spoil(through, to, error) && backend->copy(through->device.context, from->data, from->beside, from->bytes, error);
        source[i] = from->data;
        target[i] = to->data;
    }
    ok = ok && through->inner->table->start(through->inner, request->inner, driven, source, target, error);
    free(source);
    free(target);
    return ok;
}

static bool rank_finish(Through *through, CommRequest *request, int driven, Error *error) {
    const Backend *backend = through->device.backend;
    bool ok = true;
    for (int i = 0; ok && i < request->n; i++) {
        const Tensor *from = &request->source[driven * request->n + i], *to = &request->target[driven * request->n + i];
        ok = backend->copy(through->device.context, to->beside, to->data, to->bytes, error) && spoil(through, from, error);
    }
    return ok;
}

static bool through_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    Through *through = (Through *)comm;
    const Backend *backend = through->device.backend;
    for (int i = 0; i < request->n; i++) {
        const Tensor *from = &request->source[driven * request->n + i];
        request->host[driven * request->n + i] = target[i];
        if (!backend->upload(through->device.context, from->beside, source[i], from->bytes, error)) return false;
    }
    return through->capture || rank_start(through, request, driven, error);
}

/* All driven ranks' part in a use, recorded the second time. */
static bool use_captured(Through *through, CommRequest *request, Error *error) {
    const DeviceQueue *queue = through->device.backend->queue;
    void *context = through->device.context;
    Error why;
    int nodes = 0;
    if (!request->graph) {
        bool records = request->uses++ > 0;
        if (records && !queue->capture(context, error)) return false;
        for (int r = 0; r < through->comm.ndriven; r++)
            request->each[r] = through->comm.counters[r];
        for (int r = 0; r < through->comm.ndriven; r++)
            if (!rank_start(through, request, r, error)) return false;
        for (int r = 0; r < through->comm.ndriven; r++)
            if (through->inner->table->wait(through->inner, request->inner, r, error) != COMM_COMPLETE ||
                !rank_finish(through, request, r, error))
                return false;
        if (records && !queue->captured(context, &request->graph, &nodes, &why)) return error_set(error, why.code, "%s", why.text);
        for (int r = 0; records && r < through->comm.ndriven; r++) { /* nothing has moved yet */
            CommCounters *now = &through->comm.counters[r], *each = &request->each[r];
            each->sent_bytes = now->sent_bytes - each->sent_bytes;
            each->received_bytes = now->received_bytes - each->received_bytes;
            now->sent_bytes -= each->sent_bytes;
            now->received_bytes -= each->received_bytes;
        }
        if (!records) return true;
        if (!request->graph) return error_set(error, EXIT_MISMATCH, "not captured: %s", why.text);
    }
    for (int r = 0; r < through->comm.ndriven; r++) {
        through->comm.counters[r].sent_bytes += request->each[r].sent_bytes;
        through->comm.counters[r].received_bytes += request->each[r].received_bytes;
    }
    return queue->replay(context, request->graph, error);
}

static CommStatus through_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    Through *through = (Through *)comm;
    const Backend *backend = through->device.backend;
    int n = request->n;
    if (!through->capture) {
        CommStatus status = through->inner->table->wait(through->inner, request->inner, driven, error);
        if (status != COMM_COMPLETE) return status;
        if (!rank_finish(through, request, driven, error)) return COMM_FAILED;
    } else if (request->nwaited++ % comm->ndriven == 0 && !use_captured(through, request, error)) {
        return COMM_FAILED;
    }
    for (int i = 0; i < n; i++) {
        const Tensor *to = &request->target[driven * n + i];
        if (!backend->download(through->device.context, request->host[driven * n + i], to->beside, to->bytes, error)) return COMM_FAILED;
    }
    return COMM_COMPLETE;
}

static bool through_barrier(Comm *comm, Error *error) {
    Comm *inner = ((Through *)comm)->inner;
    return inner->table->barrier(inner, error);
}

static bool through_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    Comm *inner = ((Through *)comm)->inner;
    return inner->table->broadcast(inner, data, bytes, error);
}

static bool through_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    Comm *inner = ((Through *)comm)->inner;
    return inner->table->all_gather_words(inner, word, words, error);
}

static bool through_text(Comm *comm, const char *text, int width, char *texts, Error *error) {
    Comm *inner = ((Through *)comm)->inner;
    return inner->table->gather_text(inner, text, width, texts, error);
}

static void through_abort(Comm *comm, int code, const char *message) {
    Comm *inner = ((Through *)comm)->inner;
    inner->table->abort(inner, code, message);
}

static void *through_alloc(Comm *comm, int64_t bytes, Error *error) {
    void *data = malloc((size_t)bytes + 1);
    (void)comm;
    if (!data) error_set(error, EXIT_ENVIRONMENT, "no memory");
    return data;
}

static void through_free(Comm *comm, void *data) {
    (void)comm;
    free(data);
}

static void through_destroy(Comm *comm) {
    Through *through = (Through *)comm;
    const Backend *backend = through->device.backend;
    while (through->requests) {
        CommRequest *request = through->requests;
        through->requests = request->next;
        if (request->graph) backend->queue->discard(through->device.context, request->graph);
        for (int i = 0; i < request->n * comm->ndriven; i++)
            for (int side = 0; side < 2; side++) {
                Tensor *tensor = side ? &request->target[i] : &request->source[i];
                if (tensor->data && through->foreign)
                    backend->free(through->device.context, tensor->data);
                else if (tensor->data)
                    through->inner->table->free(through->inner, tensor->data);
                if (tensor->beside) backend->free(through->device.context, tensor->beside);
            }
        free(request->source);
        free(request->target);
        free(request->host);
        free(request->each);
        free(request);
    }
    backend->free(through->device.context, through->poison);
    through->inner->table->destroy(through->inner);
    device_close(&through->device);
    free(through);
}

static const CommTable through_table = {
    .name = "through",
    .prepare = through_prepare,
    .start = through_start,
    .wait = through_wait,
    .barrier = through_barrier,
    .broadcast = through_broadcast,
    .all_gather_words = through_words,
    .gather_text = through_text,
    .abort = through_abort,
    .destroy = through_destroy,
    .alloc = through_alloc,
    .free = through_free,
};

Comm *through_open(Comm *base, const char *choice, Error *error) {
    const DeviceModule *module = device_module(error);
    Through *through = calloc(1, sizeof *through);
    if (!module || !through) return NULL;
    DeviceOptions options = {
        .rank = base->first_driven, .local_rank = base->local_rank, .nlocal = base->nprocesses == 1 ? 1 : base->nlocal, .nthreads = 1};
    if (!device_open(&through->device, module->backend, &options, error)) return NULL;
    const Backend *backend = module->backend;
    through->inner = backend->queue->comm(through->device.context, base, choice, error);
    through->poison = through->inner ? backend->alloc(through->device.context, POISON_BYTES, error) : NULL;
    char *bytes = malloc(POISON_BYTES);
    if (!through->poison || !bytes) return NULL;
    memset(bytes, 0x6b, POISON_BYTES);
    bool ok = backend->upload(through->device.context, through->poison, bytes, POISON_BYTES, error);
    free(bytes);
    if (!ok) return NULL;
    through->comm = *through->inner;
    through->comm.table = &through_table;
    return &through->comm;
}
