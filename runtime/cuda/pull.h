/* pull: what a rank receives, as kernels take it: walks of runtime/comm/pull.h over memory that the device reaches. */
#pragma once
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include "runtime/cuda/kernels.h"

/* target = source[0] + source[1] + ... (max, min) in this order over the walk, with `add` target + source[0] + ...; a copy for one source without `add`. At most
 * PULL_TERMS sources: more of them go in further pulls with `add`, launched after this one. Views and memory as walk_copy and walk_reduce take them. */
void pull_init(KernelPull *pull, const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_views,
               const void *const *source, int nsources, DType dtype, Reduction reduction, bool add);
/* Once their addresses are final, before kernels_pull of one (n 1) or before the table goes to the device for kernels_pulls: chooses how each is run.
 * Returns the number of blocks of all. */
int64_t pulls_prepare(KernelPull *pulls, int n);
