/* pull: converts what a rank receives, walks of runtime/comm/pull.h over memory that the device can access, to kernel arguments. */
#pragma once
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include "runtime/cuda/kernels.h"

/* target = source[0] + source[1] + ... (or max, min) in this order over the walk, with `add` target + source[0] + ...; a copy for one source without `add`. At most
 * PULL_TERMS sources: further ones need more pulls with `add`, launched after this one. Views and memory: as for walk_copy and walk_reduce. */
void pull_init(KernelPull *pull, const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_views,
               const void *const *source, int nsources, DType dtype, Reduction reduction, bool add);
/* Chooses how each pull is run, once their addresses are final: before kernels_pull of one (n 1), or before the table is copied to the device for kernels_pulls.
 * Returns the total number of blocks. */
int64_t pulls_prepare(KernelPull *pulls, int n);
