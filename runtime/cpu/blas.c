/* blas: OpenBLAS, opened by the first product that needs it. It is not linked, so that `prun --help`, or a net without products, need not wait for tens of megabytes
 * of library. Where address space is limited (ulimit -v), OpenBLAS retries allocating its buffers for ever. So we check beforehand whether they can be mapped, and
 * take those of all threads at once. */
#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"
#include "ir/limits.h"

static_assert(_Generic(&cblas_sgemm, Sgemm *: true, default: false) && _Generic(&cblas_dgemm, Dgemm *: true, default: false), "as cblas.h declares them");

enum { MAX_BUFFERS = 256 };
static const int64_t library_bytes = INT64_C(64) << 20; /* with the libraries that it needs itself */
static const int64_t buffer_bytes = INT64_C(129) << 20; /* OpenBLAS's BUFFER_SIZE on x86-64, and the end of a page table */

/* Whether the pieces that a library maps can be mapped. It tries, because the system and its cgroups have many limits. */
static bool can_map(int nbuffers, int64_t each, int64_t last) {
    void *piece[MAX_BUFFERS + 1];
    int n = 0, zeros = open("/dev/zero", O_RDWR);
    while (zeros >= 0 && n <= nbuffers) {
        size_t bytes = (size_t)(n < nbuffers ? each : last);
        piece[n] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, zeros, 0);
        if (piece[n] == MAP_FAILED) break;
        n++;
    }
    for (int i = 0; i < n; i++)
        munmap(piece[i], (size_t)(i < nbuffers ? each : last));
    if (zeros >= 0) close(zeros);
    return zeros < 0 || n > nbuffers;
}

bool blas_check_room(const char *library, int nthreads, int64_t each, int64_t more, Error *error) {
    if (nthreads > MAX_BUFFERS) nthreads = MAX_BUFFERS;
    if (can_map(nthreads, each, more)) return true;
    int64_t need = more + nthreads * each, left = limits_addresses();
    char has[64] = "";
    if (left >= 0) snprintf(has, sizeof has, ", and this process can have %lld (ulimit -v)", (long long)(left >> 20));
    return error_set(
        error, EXIT_ENVIRONMENT,
        "not enough memory for matrix products: %s maps %lld MiB of addresses on %d thread%s%s: raise the limit, or bind each process to fewer cores "
        "(taskset)",
        library, (long long)(need >> 20), nthreads, nthreads == 1 ? "" : "s", has);
}

/* Names the kernels that OpenBLAS should use, by the processor's features; NULL: an older processor, which OpenBLAS knows. OpenBLAS identifies processors by
 * model number: one newer than itself gets kernels of 2004 (on Emerald Rapids 0.3.21 reaches a fifth of the processor's speed). */
static const char *kernels_of_processor(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return __builtin_cpu_supports("avx512bf16") ? "Cooperlake" : "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return __builtin_cpu_is("intel") ? "Haswell" : "Zen";
#endif
    return NULL;
}

void cpu_set_environment(void) {
    const char *kernels = kernels_of_processor();
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (kernels) setenv("OPENBLAS_CORETYPE", kernels, 0);
}

static void *open_library(int mode) {
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", PRUN_BLAS_FOLDER "/libopenblas.so"};
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof names / sizeof *names; i++)
        handle = dlopen(names[i], mode);
    return handle;
}

static bool find(void *library, const char *name, void *function, Error *error) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found); /* dlsym returns functions as object pointers */
    return found || error_set(error, EXIT_ENVIRONMENT, "OpenBLAS has no %s: %s", name, dlerror());
}

/* Has OpenBLAS allocate a buffer for each thread that will need one; it keeps them. */
static void take_buffers(void *library, int nthreads) {
    void *(*alloc)(int) = NULL, (*release)(void *) = NULL, *buffer[MAX_BUFFERS];
    Error none;
    if (!find(library, "blas_memory_alloc", &alloc, &none) || !find(library, "blas_memory_free", &release, &none)) return;
    for (int i = 0; i < nthreads; i++)
        buffer[i] = alloc(0);
    for (int i = 0; i < nthreads; i++)
        if (buffer[i]) release(buffer[i]);
}

bool blas_open(Blas *blas, int nthreads, Error *error) {
    Blas opened = {0};
    void (*set_threads)(int) = NULL;
    if (nthreads > MAX_BUFFERS) nthreads = MAX_BUFFERS;
    void *library = NULL;
#ifdef RTLD_NOLOAD
    library = open_library(RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD); /* another device of this process has opened it */
#endif
    bool fresh = !library;
    if (fresh && !blas_check_room("OpenBLAS", nthreads, buffer_bytes, library_bytes, error)) return false;
    if (fresh) library = open_library(RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return error_set(error, EXIT_ENVIRONMENT,
                         "cannot open OpenBLAS, which computes matrix products: %.700s: is libopenblas0 installed?", dlerror());
    if (!find(library, "cblas_sgemm", &opened.sgemm, error) || !find(library, "cblas_dgemm", &opened.dgemm, error)) return false;
    /* einsum.c divides products among the pool's threads itself: two sets of threads would compete for the cores. */
    if (find(library, "openblas_set_num_threads", &set_threads, error)) set_threads(1);
    if (fresh) take_buffers(library, nthreads);
    *blas = opened;
    return true;
}
