/* drawn: tensors of random numbers. */
#include <math.h>

#include "ir/lookup.h"
#include "runtime/data/data.h"
#include "runtime/data/drawn.h"
#include "runtime/data/sampler.h"
#include "runtime/element.h"

static void fill_part(void *context, int64_t begin, int64_t end) {
    const Drawn *drawn = context;
    const IndexRange range = drawn->range;
    const double from = range_known(range) ? 0 : drawn->from, by = range_known(range) ? (double)(range.end - range.begin) : drawn->by;
    enum { BLOCK = 256 };
    double block[BLOCK];
    for (int64_t i = begin, more; i < end; i += more) {
        more = end - i < BLOCK ? end - i : BLOCK;
        (drawn->normal ? random_normals : random_uniforms)(drawn->key, drawn->first + (uint64_t)i, more, block);
        for (int64_t k = 0; k < more; k++)
            block[k] = from + by * block[k];
        for (int64_t k = 0; range_known(range) && k < more; k++)
            block[k] = (double)range.begin + floor(block[k]);
        elements_put(drawn->to, drawn->dtype, i, block, more);
    }
}

void drawn_fill(const Drawn *drawn, int64_t n, int threads, Pool **pool) {
    enum { MANY = 1 << 16, GRAIN = 1 << 12, MOST_THREADS = 8 };
    Error none; /* without threads slower, but no failure */
    if (n >= MANY && !*pool && threads > 1) *pool = pool_create(threads < MOST_THREADS ? threads : MOST_THREADS, &none);
    pool_run(n >= MANY ? *pool : NULL, n, GRAIN, fill_part, (void *)drawn);
}
