/* pull: converts walks to kernel arguments. A walk may begin in the middle of its loops; here it becomes positions in their row-major order. */
#include "runtime/cuda/pull.h"

#include <assert.h>

_Static_assert((int)F32 == KERNEL_F32 && (int)F64 == KERNEL_F64 && (int)I32 == KERNEL_I32 && (int)I64 == KERNEL_I64 &&
                   (int)BOOL == KERNEL_BOOL && (int)F16 == KERNEL_F16 && (int)BF16 == KERNEL_BF16,
               "kernels.h");
_Static_assert((int)MAX_NDIM <= (int)KERNEL_NDIM, "kernels.h");

/* Where a view's loops begin. */
static int64_t view_begin(const PieceRuns *walk, const PieceView *view, int64_t *step) {
    int64_t start = view->start;
    for (int d = 0; d < walk->nouter; d++) {
        start -= walk->index[d] * view->step[d];
        step[d] = view->step[d];
    }
    return start;
}

void pull_init(KernelPull *pull, const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_views,
               const void *const *source, int nsources, DType dtype, Reduction reduction, bool add) {
    assert(nsources >= 1 && nsources <= PULL_TERMS);
    *pull = (KernelPull){.target = target,
                         .unit = walk->unit,
                         .count = walk->count,
                         .nouter = walk->nouter,
                         .nsources = nsources,
                         .dtype = (int)dtype,
                         .reduction = (int)reduction,
                         .add = add};
    int64_t run = 0; /* number of the run that the walk begins in */
    for (int d = 0; d < walk->nouter; d++) {
        pull->extent[d] = walk->extent[d];
        run = run * walk->extent[d] + walk->index[d];
    }
    pull->first = run * walk->unit + walk->skip;
    pull->target_start = view_begin(walk, target_view, pull->target_step);
    for (int s = 0; s < nsources; s++) {
        pull->source[s] = source[s];
        pull->source_start[s] = view_begin(walk, &source_views[s], pull->source_step[s]);
    }
}

/* Whether a memory's runs are aligned to `width` elements. */
static bool is_aligned(const KernelPull *pull, const void *data, int64_t start, const int64_t *step, int width, int element_bytes) {
    bool aligned = ((uintptr_t)data + (uintptr_t)(start * element_bytes)) % (uintptr_t)(width * element_bytes) == 0;
    for (int d = 0; d < pull->nouter; d++)
        aligned = aligned && step[d] % width == 0;
    return aligned;
}

static bool has_width(const KernelPull *pull, int width, int element_bytes) {
    bool whole = pull->nouter == 0 || pull->unit % width == 0;
    bool aligned =
        whole && pull->first % width == 0 && is_aligned(pull, pull->target, pull->target_start, pull->target_step, width, element_bytes);
    for (int s = 0; s < pull->nsources; s++)
        aligned = aligned && is_aligned(pull, pull->source[s], pull->source_start[s], pull->source_step[s], width, element_bytes);
    return aligned;
}

/* Makes a walk of one run begin at its first element. */
static void straighten(KernelPull *pull) {
    if (pull->nouter > 0) return;
    pull->target_start += pull->first;
    for (int s = 0; s < pull->nsources; s++)
        pull->source_start[s] += pull->first;
    pull->first = 0;
    pull->unit = pull->count;
}

int64_t pulls_prepare(KernelPull *pulls, int n) {
    enum { ITEMS = 1024, MOST = 4096 }; /* accesses of a block; blocks of a pull */
    int64_t nblocks = 0;
    for (int i = 0; i < n; i++) {
        KernelPull *pull = &pulls[i];
        int element_bytes = dtype_bytes[pull->dtype];
        straighten(pull);
        bool copy = pull->nsources == 1 && !pull->add;
        pull->width = copy || element_bytes > 2 ? 16 / element_bytes : 4;
        while (pull->width > 1 && !has_width(pull, pull->width, element_bytes))
            pull->width = copy ? pull->width / 2 : 1; /* reductions have two widths, copies all */
        int64_t items = (pull->count + pull->width - 1) / pull->width, blocks = (items + ITEMS - 1) / ITEMS;
        pull->first_block = (unsigned)nblocks;
        pull->nblocks = (unsigned)(blocks < 1 ? 1 : blocks > MOST ? MOST : blocks);
        pull->narrow = (pull->first + pull->count) / pull->width < INT32_MAX;
        pull->unit_divisor = kernel_divisor(pull->unit / pull->width > 0 ? pull->unit / pull->width : 1);
        for (int d = 0; d < pull->nouter; d++)
            pull->divisor[d] = kernel_divisor(pull->extent[d]);
        nblocks += pull->nblocks;
    }
    return nblocks;
}
