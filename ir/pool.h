/* pool: threads that share one loop. */
#pragma once
#include "ir/base.h"

/* Threads that wait for loops to share. */
typedef struct Pool Pool;
/* Works on [begin, end). Called concurrently with disjoint ranges that cover the whole. */
typedef void PoolFn(void *context, int64_t begin, int64_t end);
/* nthreads counts the caller's. NULL and *error when threads cannot be started. */
Pool *pool_create(int nthreads, Error *error);
/* A pool with one thread per core that this process may use, at most `most`. NULL: one thread, or more cannot be started. */
Pool *pool_of_cores(int most);
void pool_destroy(Pool *pool);      /* accepts NULL */
int pool_threads(const Pool *pool); /* 1 for NULL */
/* Runs fn over [0, n) in ranges of at least `grain` items (balanced, in order, one a thread). Small loops and a NULL pool run on the caller's
 * thread. Not reentrant: fn must not call it. */
void pool_run(Pool *pool, int64_t n, int64_t grain, PoolFn *fn, void *context);
/* Called item by item, as threads become free; thread: the number of the calling one, from 0, below pool_threads. */
typedef void PoolItemFn(void *context, int thread, int item);
void pool_each(Pool *pool, int n, PoolItemFn *fn, void *context);
