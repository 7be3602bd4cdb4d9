/* Chooses the communicator of ranks on devices. All ranks exchange what they can do, so that all choose the same. Operations that do not
 * involve device memory (barriers, words, the end of the job) are passed to the communicator below, over which this one was made.
 */
#include "runtime/cuda/comm.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/nccl.h"

bool below_barrier(Comm *comm, Error *error) {
    Comm *base = ((CudaComm *)comm)->base;
    return base->table->barrier(base, error);
}

bool below_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    Comm *base = ((CudaComm *)comm)->base;
    return base->table->broadcast(base, data, bytes, error);
}

bool below_all_gather_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    Comm *base = ((CudaComm *)comm)->base;
    return base->table->all_gather_words(base, word, words, error);
}

bool below_gather_text(Comm *comm, const char *text, int width, char *texts, Error *error) {
    Comm *base = ((CudaComm *)comm)->base;
    return base->table->gather_text(base, text, width, texts, error);
}

void below_abort(Comm *comm, int code, const char *message) {
    Comm *base = ((CudaComm *)comm)->base;
    base->table->abort(base, code, message);
}

bool device_overdue(void *watcher, double waited_s, Error *error) {
    const CudaComm *job = watcher;
    char what[256];
    snprintf(what, sizeof what, "rank %d, device %d: what is queued there (last: %.180s)", job->comm.process, job->cuda->device,
             job->waits ? job->waits : "a communication");
    return job->base->table->overdue(job->base, waited_s, what, error);
}

static void give_up(void *watcher, const Error *error) {
    const CudaComm *job = watcher;
    job->base->table->abort(job->base, error->code, error->text);
}

void device_watch(CudaComm *job, bool (*watch)(void *watcher, double waited_s, Error *error)) {
    job->cuda->watch = watch;
    job->cuda->give_up = give_up;
    job->cuda->watcher = job;
}

void *device_alloc(Comm *comm, int64_t bytes, Error *error) {
    return cuda_backend.alloc(((CudaComm *)comm)->cuda, bytes, error);
}

void device_free(Comm *comm, void *data) {
    cuda_backend.free(((CudaComm *)comm)->cuda, data);
}

void common_destroy(Comm *comm) {
    if (!comm) return;
    CudaComm *job = (CudaComm *)comm;
    requests_close(job);
    if (job->cuda->watcher == job) device_watch(job, NULL);
    if (job->comm.counters != job->base->counters) free(job->comm.counters);
    job->base->table->destroy(job->base);
    free(job);
}

bool all_gather_bytes(Comm *base, const void *mine, int64_t bytes, void *all, Error *error) {
    size_t n = (size_t)base->nprocesses;
    uint64_t *words = calloc(n, sizeof *words);
    bool ok = words || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    for (int64_t at = 0; ok && at < bytes; at += 8) {
        size_t length = (size_t)(bytes - at < 8 ? bytes - at : 8);
        uint64_t word = 0;
        memcpy(&word, (const char *)mine + at, length);
        ok = base->table->all_gather_words(base, word, words, error);
        for (size_t p = 0; ok && p < n; p++)
            memcpy((char *)all + p * (size_t)bytes + at, &words[p], length);
    }
    free(words);
    return ok;
}

/* ---------------------------------------------------------------- the choice */

/* What a process tells the others. */
typedef struct Word {
    char uuid[16];                /* of its device */
    int32_t nlocal, nccl, shares; /* nccl: the version, 0: none; shares: whether its settings let ranks share a device */
    int32_t unused;
} Word;

typedef struct Setting {
    bool one_node, one_each; /* all ranks are on one machine; no two on one device */
    int first, second;       /* two ranks on one device */
    int nccl;                /* the oldest version of any rank, 0: some have none */
    Error without;           /* the first rank that has none, and why */
    bool shares;
} Setting;

static bool setting_find(CudaComm *job, Setting *setting, Error *error) {
    Comm *base = job->base;
    struct cudaDeviceProp properties;
    const char *shares = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    Error why = {0};
    Word mine = {.nlocal = base->nlocal, .nccl = nccl_version(&why), .shares = shares && strcmp(shares, "1") == 0};
    bool ok = cuda_ok(job->cuda, cudaGetDeviceProperties(&properties, job->cuda->device), "asking for the device's properties", error);
    if (ok) memcpy(mine.uuid, properties.uuid.bytes, sizeof mine.uuid);
    if (!comm_agree_all(base, ok, error)) return false;
    comm_agree_all(base, mine.nccl > 0, &why);
    Word *words = calloc((size_t)base->nprocesses, sizeof *words);
    if (!words) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    ok = all_gather_bytes(base, &mine, sizeof mine, words, error);
    *setting = (Setting){.one_node = true, .one_each = true, .nccl = mine.nccl, .without = why, .shares = true};
    for (int p = 0; ok && p < base->nprocesses; p++) {
        setting->one_node = setting->one_node && words[p].nlocal == base->nprocesses;
        setting->shares = setting->shares && words[p].shares;
        if (words[p].nccl < setting->nccl) setting->nccl = words[p].nccl;
        for (int q = 0; q < p && setting->one_each; q++)
            if (memcmp(words[p].uuid, words[q].uuid, sizeof words[p].uuid) == 0) {
                setting->one_each = false;
                setting->first = q;
                setting->second = p;
            }
    }
    free(words);
    return ok;
}

/* Whether NCCL can be used, else why not. */
static bool nccl_usable(const Setting *setting, char *why, size_t n) {
    int version = setting->nccl;
    if (version == 0) {
        snprintf(why, n, "no NCCL on %.400s", setting->without.text);
        return false;
    }
    if (setting->one_each || (version >= NCCL_SHARES_DEVICES && setting->shares)) return true;
    snprintf(why, n, "ranks %d and %d share a GPU, NCCL %d.%d %s", setting->first, setting->second, version / 10000, version / 100 % 100,
             version >= NCCL_SHARES_DEVICES ? "wants NCCL_MULTI_RANK_GPU_ENABLE=1 for that" : "wants one a rank");
    return false;
}

static bool transport_say(CudaComm *job, const char *why) {
    size_t used = strlen(job->comm.transport), room = sizeof job->comm.transport - used;
    if (why[0]) snprintf(job->comm.transport + used, room, " (%s)", why);
    return true;
}

/* Opens the first mode that works; the transport's name says why better ones do not. */
static bool open_best(CudaComm *job, const Setting *setting, Error *error) {
    char why[1024] = "";
    if (nccl_usable(setting, why, sizeof why)) return comm_nccl_open(job, error);
    Error failure = {0};
    size_t used = strlen(why);
    if (!setting->one_node)
        snprintf(why + used, sizeof why - used, "; CUDA IPC is for one node");
    else if (comm_ipc_open(job, &failure))
        return transport_say(job, why);
    else
        snprintf(why + used, sizeof why - used, "; no CUDA IPC: %.400s", failure.text);
    return comm_host_open(job, error) && transport_say(job, why);
}

static bool open_chosen(CudaComm *job, const char *choice, Error *error) {
    Comm *base = job->base;
    if (base->nprocesses == 1) {
        if (strcmp(choice, "auto") == 0 || base->nranks == 1)
            return comm_local_open(job, error); /* one rank communicates with nobody; so scripts over 1 to 8 ranks work */
        return error_set(error, EXIT_USAGE,
                         "--comm %s: all ranks run in this process, on one device: leave it out, or start them with mpirun", choice);
    }
    Setting setting;
    char why[512] = "";
    if (!setting_find(job, &setting, error)) return false;
    if (strcmp(choice, "auto") == 0) return open_best(job, &setting, error);
    if (strcmp(choice, "host") == 0) return comm_host_open(job, error);
    if (strcmp(choice, "ipc") == 0) {
        if (!setting.one_node)
            return error_set(error, EXIT_USAGE,
                             "--comm ipc: CUDA IPC joins ranks of one node, and there are several: use --comm nccl or host");
        Error failure;
        if (comm_ipc_open(job, &failure)) return true;
        return error_set(error, failure.code, "--comm ipc: %.900s; --comm host does without", failure.text);
    }
    if (strcmp(choice, "nccl") != 0) return error_set(error, EXIT_USAGE, "--comm %s: expected nccl, ipc or host", choice);
    if (nccl_usable(&setting, why, sizeof why)) return comm_nccl_open(job, error);
    return error_set(error, EXIT_ENVIRONMENT, "--comm nccl: %s; %s", why,
                     setting.nccl == 0
                         ? "install libnccl2, or name the file in PRUN_NCCL, or use --comm host"
                         : "use as many GPUs as ranks, or NCCL 2.30 with NCCL_MULTI_RANK_GPU_ENABLE=1, or --comm ipc or host");
}

void comm_list(Text *text) {
    Error why = {0};
    int version = nccl_version(&why);
    if (version == 0)
        text_printf(text, "NCCL: none (%s)\n", why.text);
    else
        text_printf(text, "NCCL: %d.%d.%d%s\n", version / 10000, version / 100 % 100, version % 100,
                    version < NCCL_SHARES_DEVICES ? ", a GPU for each rank" : ", ranks may share a GPU with NCCL_MULTI_RANK_GPU_ENABLE=1");
}

Comm *cuda_comm(void *context, Comm *base, const char *choice, Error *error) {
    CudaComm *job = calloc(1, sizeof *job);
    CommCounters *counters = calloc((size_t)base->ndriven, sizeof *counters);
    bool ok = job && counters;
    if (!ok) error_set(error, EXIT_ENVIRONMENT, "out of memory");
    ok = comm_agree_all(base, ok, error);
    if (ok) {
        job->comm = *base;
        job->comm.counters = counters;
        job->comm.device = true;
        job->comm.captures = false;
        job->base = base;
        job->cuda = context;
        ok = open_chosen(job, choice, error);
    }
    if (!ok || job->comm.counters != counters) free(counters);
    if (ok) return &job->comm;
    free(job);
    comm_first_says(base, error);
    return NULL;
}
