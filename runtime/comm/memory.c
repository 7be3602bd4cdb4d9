/* memory: memory for tensors that no other process sees. Large blocks are aligned to huge pages and ask for them: a step goes over all of them, which with pages of 4 KiB is
 * a TLB miss for each page. */
#define _DEFAULT_SOURCE /* madvise */
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"

enum { LINE = 64, HUGE_PAGE = 2 << 20, LARGE = 2 * HUGE_PAGE };

void *comm_memory(int64_t bytes, Error *error) {
    const bool large = bytes >= LARGE;
    void *data =
        bytes < 0 ? NULL : aligned_alloc(large ? HUGE_PAGE : LINE, (size_t)align_bytes(bytes > 0 ? bytes : 1, large ? HUGE_PAGE : LINE));
    if (!data) error_set(error, EXIT_ENVIRONMENT, "no memory for %lld bytes of tensors", (long long)bytes);
#ifdef MADV_HUGEPAGE
    if (data && large) (void)madvise(data, (size_t)bytes, MADV_HUGEPAGE); /* fails on a kernel without them: nothing is lost */
#endif
    return data;
}
