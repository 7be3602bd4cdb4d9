#include "runtime/cuda/nccl.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- the library */

/* ISO C has no conversion from object pointers to function pointers; POSIX guarantees that they have the same representation. */
static bool symbol_find(void *handle, const char *name, void *function, size_t bytes) {
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, bytes);
    return symbol != NULL;
}

bool nccl_library_open(NcclLibrary *library, Error *error) {
    const char *given = getenv("PRUN_NCCL"), *path = given && *given ? given : "libnccl.so.2";
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed, as dlopen returns the same one each time */
    *library = (NcclLibrary){0};
    if (!handle) return error_set(error, EXIT_ENVIRONMENT, "NCCL cannot be opened: %.400s", dlerror());
#define FIND(name) symbol_find(handle, "nccl" #name, &library->name, sizeof library->name)
    bool all = FIND(GetVersion) && FIND(GetUniqueId) && FIND(CommInitRankConfig) && FIND(CommFinalize) && FIND(CommDestroy) &&
               FIND(CommAbort) && FIND(GetErrorString) && FIND(GetLastError) && FIND(CommGetAsyncError) && FIND(GroupStart) &&
               FIND(GroupEnd) && FIND(Send) && FIND(Recv) && FIND(AllReduce) && FIND(ReduceScatter) && FIND(AllGather);
    bool splits = FIND(CommSplit), registers = FIND(MemAlloc) && FIND(MemFree) && FIND(CommRegister) && FIND(CommDeregister);
#undef FIND
    (void)splits; /* without it, groups are made by groups_join */
    if (!registers) library->MemAlloc = NULL;
    if (!library->GetVersion || library->GetVersion(&library->version) != ncclSuccess)
        return error_set(error, EXIT_ENVIRONMENT, "%s is not NCCL, or cannot say which version it is", path);
    if (all && library->version >= NCCL_OLDEST) return true;
    return error_set(error, EXIT_ENVIRONMENT, "%s is NCCL %d.%d%s, and 2.14 or later is needed", path, library->version / 10000,
                     library->version / 100 % 100, library->version >= NCCL_OLDEST ? " without some of its functions" : "");
}

int nccl_version(Error *why) {
    NcclLibrary library;
    return nccl_library_open(&library, why) ? library.version : 0;
}

/* ---------------------------------------------------------------- failures */

static const char *advice(ncclResult_t result) {
    switch ((int)result) {
    case ncclUnhandledCudaError:
        return "the driver may be too old for this NCCL, or the device's memory full";
    case ncclSystemError:
        return "/dev/shm may be too small (docker run --shm-size), a network interface be missing (NCCL_SOCKET_IFNAME), or a rank have "
               "died";
    case ncclInvalidUsage:
        return "two ranks may be on one GPU: they need NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1, or --comm ipc or host";
    case ncclRemoteError:
        return "another rank has failed or died: look for its message";
    default:
        return "--comm host does without NCCL";
    }
}

/* Also ends what is running on the device, where a waiting rank would wait for ever. */
static void abort_all(CudaComm *job) {
    Nccl *nccl = job->nccl;
    if (nccl->aborted) return;
    nccl->aborted = true;
    for (int i = nccl->ngroups - 1; i >= 0; i--)
        if (nccl->groups[i].comm) nccl->library.CommAbort(nccl->groups[i].comm);
    for (int i = 0; i < nccl->ngroups; i++)
        nccl->groups[i].comm = NULL;
}

bool nccl_ok(CudaComm *job, ncclComm_t comm, ncclResult_t result, const char *what, Error *error) {
    Nccl *nccl = job->nccl;
    if (result == ncclSuccess || result == ncclInProgress) return true;
    const char *words = nccl->library.GetErrorString(result), *last = comm ? nccl->library.GetLastError(comm) : NULL;
    error_of_rank(error, job->comm.process, EXIT_ENVIRONMENT,
                  "rank %d, device %d: %.200s: NCCL says %.100s%s%.300s; %s; NCCL_DEBUG=INFO says more", job->comm.process,
                  job->cuda->device, what, words ? words : "?", last && *last ? ": " : "", last && *last ? last : "", advice(result));
    abort_all(job);
    return false;
}

/* ---------------------------------------------------------------- waiting */

/* Pauses for a moment, longer after the first turns. */
static void pause_turn(int64_t turn) {
    if (turn < 1000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

bool nccl_settle(CudaComm *job, ncclComm_t comm, const char *what, Error *error) {
    double start = 0;
    for (int64_t turn = 0;; turn++) {
        ncclResult_t state = ncclSuccess;
        if (!nccl_ok(job, comm, job->nccl->library.CommGetAsyncError(comm, &state), what, error) || !nccl_ok(job, comm, state, what, error))
            return false;
        if (state == ncclSuccess) return true;
        if (turn % 64 == 0) {
            double now = now_seconds();
            if (turn == 0) start = now;
            if (!job->base->table->overdue(job->base, now - start, what, error)) {
                abort_all(job);
                return false;
            }
        }
        pause_turn(turn);
    }
}

bool nccl_watch(void *watcher, double waited_s, Error *error) {
    CudaComm *job = watcher;
    Nccl *nccl = job->nccl;
    char what[256];
    snprintf(what, sizeof what, "what is queued on the device (last: %.200s)", job->waits ? job->waits : "a communication");
    for (int i = 0; i < nccl->ngroups; i++) {
        ncclResult_t state = ncclSuccess;
        ncclComm_t comm = nccl->groups[i].comm;
        if (comm &&
            (!nccl_ok(job, comm, nccl->library.CommGetAsyncError(comm, &state), what, error) || !nccl_ok(job, comm, state, what, error)))
            return false;
    }
    if (device_overdue(job, waited_s, error)) return true;
    abort_all(job);
    return false;
}

/* ---------------------------------------------------------------- communicators */

/* All communicators are non-blocking, also those that steps use. The price: NCCL starts a thread of its own for a group (ncclGroupEnd) that has connections to make, newer versions for
 * every group, also when a step is captured, but not when it is replayed. A blocking communicator needs none. But its ncclGroupEnd returns only when the other ranks have
 * connected (the first time) and, if the library's queue is full, when earlier calls have been taken from it: a rank that waits there for one that has died or hangs
 * can check neither the deadline nor the other ranks. Only another thread could end the wait, by ncclCommAbort, and it could not check the others, as the communicator
 * below belongs to one thread. And communicators of both kinds must not be in one group. */
static ncclConfig_t config_make(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* A rank that fails while all make a communicator would leave the others waiting inside the library: so it ends the job at once, with its message. */
static bool must(CudaComm *job, bool ok, const Error *error) {
    if (!ok) job->base->table->abort(job->base, error->code, error->text);
    return ok;
}

static bool join(CudaComm *job, ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank, const char *what, Error *error) {
    ncclConfig_t config = config_make();
    bool ok = nccl_ok(job, NULL, job->nccl->library.CommInitRankConfig(comm, nranks, *id, rank, &config), what, error) &&
              nccl_settle(job, *comm, what, error);
    return must(job, ok, error);
}

/* Appends a group. */
static NcclGroup *group_add(Nccl *nccl, const GroupKey *key, Error *error) {
    NcclGroup *more = realloc(nccl->groups, sizeof *more * ((size_t)nccl->ngroups + 1));
    if (!more) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    nccl->groups = more;
    more[nccl->ngroups] = (NcclGroup){.key = *key};
    return &more[nccl->ngroups++];
}

/* Rank 0 makes n ids and sends them to all. */
static bool ids_share(CudaComm *job, ncclUniqueId *ids, int n, Error *error) {
    bool ok = true;
    for (int i = 0; ok && job->comm.process == 0 && i < n; i++)
        ok = nccl_ok(job, NULL, job->nccl->library.GetUniqueId(&ids[i]), "making an id for a communicator", error);
    if (!comm_agree_all(job->base, ok, error)) return false;
    return job->base->table->broadcast(job->base, ids, (int64_t)sizeof *ids * n, error);
}

bool nccl_open(CudaComm *job, Error *error) {
    static const GroupKey all = {0};
    ncclUniqueId id = {{0}};
    NcclGroup *world = group_add(job->nccl, &all, error);
    return comm_agree_all(job->base, world != NULL, error) && ids_share(job, &id, 1, error) &&
           join(job, &world->comm, job->comm.nranks, &id, job->comm.process, "joining NCCL's communicator of all ranks", error);
}

/* Makes a group's communicator if the library cannot split: by an id for each group, in the order of their lowest ranks. */
static bool groups_join(CudaComm *job, NcclGroup *group, int leader, int number, Error *error) {
    int nranks = job->comm.nranks, size = group_key_size(&group->key), ngroups = 0, mine = 0;
    ncclUniqueId *ids = calloc((size_t)(nranks / size), sizeof *ids);
    bool ok = comm_agree_all(job->base, ids || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    for (int r = 0; r < nranks; r++) {
        int least;
        group_key_number(&group->key, r, &least);
        if (least != r) continue;
        if (r == leader) mine = ngroups;
        ngroups++;
    }
    ok = ok && ids_share(job, ids, ngroups, error) &&
         join(job, &group->comm, size, &ids[mine], number, "joining NCCL's communicator of a group", error);
    free(ids);
    return ok;
}

int nccl_group(CudaComm *job, const GroupKey *key, Error *error) {
    Nccl *nccl = job->nccl;
    if (group_key_is_world(key, job->comm.nranks)) return 0;
    for (int i = 1; i < nccl->ngroups; i++)
        if (group_key_equal(&nccl->groups[i].key, key)) return i;
    NcclGroup *group = group_add(nccl, key, error);
    if (!comm_agree_all(job->base, group != NULL, error)) return -1;
    static const char what[] = "splitting NCCL's communicator into groups";
    int leader, number = group_key_number(key, job->comm.process, &leader);
    ncclComm_t world = nccl->groups[0].comm;
    bool ok;
    if (nccl->library.CommSplit) {
        ncclConfig_t config = config_make();
        ok = nccl_ok(job, world, nccl->library.CommSplit(world, leader, number, &group->comm, &config), what, error) &&
             nccl_settle(job, world, what, error) && nccl_settle(job, group->comm, what, error);
        must(job, ok, error);
    } else {
        ok = groups_join(job, group, leader, number, error);
    }
    return ok ? nccl->ngroups - 1 : -1;
}

void *nccl_staging(CudaComm *job, int64_t bytes, Error *error) {
    Nccl *nccl = job->nccl;
    if (nccl->staging && nccl->staging->bytes >= bytes) return nccl->staging->data;
    NcclStaging *staging = calloc(1, sizeof *staging);
    void *data = staging ? nccl_alloc(&job->comm, bytes, error) : NULL;
    if (!staging) error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (!data) {
        free(staging);
        return NULL;
    }
    *staging = (NcclStaging){.next = nccl->staging, .data = data, .bytes = bytes};
    nccl->staging = staging;
    return data;
}

/* ---------------------------------------------------------------- memory of tensors and messages */

static NcclBuffer *buffer_create(CudaComm *job, int64_t bytes, Error *error) {
    Nccl *nccl = job->nccl;
    NcclBuffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    buffer->own = nccl->library.MemAlloc(&buffer->data, (size_t)bytes) == ncclSuccess && buffer->data;
    if (buffer->own)
        job->cuda->taken_bytes += bytes;
    else
        cudaGetLastError(); /* no lasting failure: CUDA's own memory then, or its reason */
    if (!buffer->own) buffer->data = device_alloc(&job->comm, bytes, error);
    if (!buffer->data) {
        free(buffer);
        return NULL;
    }
    buffer->bytes = bytes;
    buffer->next = nccl->buffers;
    return nccl->buffers = buffer;
}

static void buffer_deregister(Nccl *nccl, NcclBuffer *buffer) {
    for (int i = 0; i < buffer->nhandles; i++)
        if (buffer->handles[i] && nccl->groups[i].comm) nccl->library.CommDeregister(nccl->groups[i].comm, buffer->handles[i]);
    buffer->nhandles = 0;
}

/* Removes it from the list and frees it. */
static void buffer_destroy(CudaComm *job, NcclBuffer **at) {
    NcclBuffer *buffer = *at;
    *at = buffer->next;
    buffer_deregister(job->nccl, buffer);
    if (buffer->own) {
        cuda_idle(job->cuda);
        job->nccl->library.MemFree(buffer->data);
    } else {
        device_free(&job->comm, buffer->data);
    }
    free(buffer->handles);
    free(buffer);
}

void *nccl_alloc(Comm *comm, int64_t bytes, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    Nccl *nccl = job->nccl;
    const int64_t need = align_bytes(bytes > 0 ? bytes : 1, 256);
    if (!nccl->library.MemAlloc || nccl->plain) return device_alloc(comm, bytes, error);
    NcclBuffer *buffer = nccl->buffers;
    while (buffer && buffer->bytes - buffer->used < need)
        buffer = buffer->next;
    if (!buffer) buffer = buffer_create(job, need < NCCL_BUFFER_BYTES ? NCCL_BUFFER_BYTES : need, error);
    if (!buffer) return NULL;
    void *data = (char *)buffer->data + buffer->used;
    buffer->used += need;
    buffer->live++;
    return data;
}

void nccl_free(Comm *comm, void *data) {
    CudaComm *job = (CudaComm *)comm;
    NcclBuffer **at = &job->nccl->buffers;
    while (*at && (uintptr_t)data - (uintptr_t)(*at)->data >= (uintptr_t)(*at)->bytes)
        at = &(*at)->next;
    if (!*at)
        device_free(comm, data);
    else if (--(*at)->live == 0)
        buffer_destroy(job, at);
}

/* Registers each piece of memory with each communicator; whether all could be. */
static bool buffers_register(Nccl *nccl) {
    if (!nccl->library.MemAlloc) return false;
    for (NcclBuffer *buffer = nccl->buffers; buffer; buffer = buffer->next) {
        if (buffer->nhandles == nccl->ngroups) continue;
        void **more = realloc(buffer->handles, sizeof *more * (size_t)nccl->ngroups);
        if (!more) return false;
        for (buffer->handles = more; buffer->nhandles < nccl->ngroups; buffer->nhandles++) {
            const NcclGroup *group = &nccl->groups[buffer->nhandles];
            void **handle = &more[buffer->nhandles];
            *handle = NULL;
            if (nccl->library.CommRegister(group->comm, buffer->data, (size_t)buffer->bytes, handle) != ncclSuccess) return false;
        }
    }
    return true;
}

bool nccl_register(CudaComm *job, Error *error) {
    Nccl *nccl = job->nccl;
    if (nccl->plain) return true;
    uint64_t refused = !buffers_register(nccl);
    if (!comm_most(job->base, &refused, error)) return false;
    if (!refused) return true;
    if (nccl->used) /* captured steps may use what is registered */
        return error_set(error, EXIT_ENVIRONMENT, "NCCL registers no more memory, on some rank; NCCL_LOCAL_REGISTER=0 does without");
    nccl->plain = true;
    for (NcclBuffer *buffer = nccl->buffers; buffer; buffer = buffer->next)
        buffer_deregister(nccl, buffer);
    return true;
}

void nccl_close(CudaComm *job) {
    Nccl *nccl = job->nccl;
    Error ignored;
    if (!nccl) return;
    for (int i = nccl->ngroups - 1; i >= 0 && !nccl->aborted; i--) {
        ncclComm_t comm = nccl->groups[i].comm;
        if (!comm) continue;
        /* A failure here has aborted them all. */
        if (!nccl_ok(job, comm, nccl->library.CommFinalize(comm), "leaving a communicator", &ignored) ||
            !nccl_settle(job, comm, "leaving a communicator", &ignored))
            break;
        nccl->library.CommDestroy(comm);
        nccl->groups[i].comm = NULL;
    }
    while (nccl->staging) {
        NcclStaging *staging = nccl->staging;
        nccl->staging = staging->next;
        nccl_free(&job->comm, staging->data);
        free(staging);
    }
    while (nccl->buffers)
        buffer_destroy(job, &nccl->buffers);
    free(nccl->groups);
    free(nccl);
    job->nccl = NULL;
}
