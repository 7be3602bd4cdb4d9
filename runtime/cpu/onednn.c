/* onednn: oneDNN, opened by the first product that it computes faster (multiply.c). Like OpenBLAS it is not linked. Where it is not installed, OpenBLAS is used instead. */
#include <dlfcn.h>
#include <string.h>
#ifdef PRUN_ONEDNN_HEADER
#include <assert.h>
#include <oneapi/dnnl/dnnl.h>
#endif

#include "runtime/cpu/cpu.h"

#ifdef PRUN_ONEDNN_HEADER
typedef dnnl_status_t DeclaredSgemm(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float, const float *, dnnl_dim_t, const float *,
                                    dnnl_dim_t, float, float *, dnnl_dim_t);
static_assert(_Generic(&dnnl_sgemm, DeclaredSgemm * : true, default : false), "as dnnl.h declares it");
static_assert(sizeof(dnnl_status_t) == sizeof(int) &&
                  _Generic((dnnl_dim_t)0, int64_t
                           : true, default
                           : false) &&
                  dnnl_success == 0,
              "as OnednnSgemm has it");
#endif

static const int64_t buffer_bytes = INT64_C(32) << 20; /* per thread that multiplies: copies of blocks of the factors */
static const int64_t loops_bytes = INT64_C(8) << 20;   /* code that it generates for this processor */

bool onednn_find(const Onednn *onednn, const char *name, void *function) {
    void *found = dlsym(onednn->library, name);
    memcpy(function, &found, sizeof found); /* dlsym gives functions as objects */
    return found;
}

bool onednn_open(Onednn *onednn, int nthreads, Error *error) {
    Onednn opened = {.library = dlopen("libdnnl.so.2", RTLD_LAZY | RTLD_LOCAL)};
    *onednn = (Onednn){0};
    /* If it is not built with OpenMP, it has threads of its own, which would compete with ours for the cores. */
    if (!opened.library || !onednn_find(&opened, "dnnl_sgemm", &opened.sgemm) ||
        !onednn_find(&opened, "omp_set_num_threads", &opened.set_threads))
        return true;
    if (!blas_check_room("oneDNN", nthreads, buffer_bytes, loops_bytes, error)) return false;
    *onednn = opened;
    return true;
}
