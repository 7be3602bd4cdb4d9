/* Threads that share loops. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "ir/pool.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

TestSuite(pool, .timeout = 20); /* a range that is run twice makes a loop wait for ever */

typedef struct Count {
    atomic_int parts;
    atomic_int seen[1000];
} Count;

static void count(void *context, int64_t begin, int64_t end) {
    Count *c = context;
    atomic_fetch_add(&c->parts, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&c->seen[i], 1);
}

Test(pool, every_item_is_done_once) {
    Error error;
    for (int threads = 1; threads <= 5; threads++) {
        Pool *pool = pool_create(threads, &error);
        cr_assert(pool, "%s", error.text);
        cr_assert_eq(pool_threads(pool), threads);
        for (int round = 0; round < 500; round++) {
            Count c = {0};
            int64_t n = round * 2, grain = 1 + round % 7;
            pool_run(pool, n, grain, count, &c);
            for (int64_t i = 0; i < 1000; i++)
                cr_assert_eq(c.seen[i], i < n ? 1 : 0);
            cr_assert_leq(c.parts, threads);
            cr_assert(n == 0 || c.parts == 1 || n / c.parts >= grain);
        }
        pool_destroy(pool);
    }
}

Test(pool, no_pool_is_one_thread) {
    Count c = {0};
    pool_run(NULL, 10, 1, count, &c);
    cr_assert_eq(c.parts, 1);
    cr_assert_eq(pool_threads(NULL), 1);
    pool_destroy(NULL);
}

static void store_thread(void *context, int64_t begin, int64_t end) {
    int *items = context;
    for (int64_t i = begin; i < end; i++)
        items[i] = (int)i * 3;
}

Test(pool, results_are_seen_by_the_caller) {
    Error error;
    Pool *pool = pool_create(4, &error);
    static int items[1 << 16];
    for (int round = 0; round < 50; round++) {
        memset(items, 0, sizeof items);
        pool_run(pool, 1 << 16, 16, store_thread, items);
        for (int i = 0; i < 1 << 16; i++)
            cr_assert_eq(items[i], i * 3);
    }
    pool_destroy(pool);
}

typedef struct Runners {
    pthread_t caller;
    atomic_int of_caller, of_workers;
} Runners;

static void count_runner(void *context, int64_t begin, int64_t end) {
    Runners *runners = context;
    atomic_fetch_add(pthread_equal(pthread_self(), runners->caller) ? &runners->of_caller : &runners->of_workers, (int)(end - begin));
}

/* On one processor a worker seldom runs before the caller waits, which has nothing to wait for once it has run all ranges. */
Test(pool, the_caller_runs_what_no_worker_has_begun) {
    enum { LOOPS = 100, THREADS = 4 };
    Error error;
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    Pool *pool = pool_create(THREADS, &error);
    cr_assert(pool, "%s", error.text);
    Runners runners = {.caller = pthread_self()};
    for (int loop = 0; loop < LOOPS; loop++)
        pool_run(pool, THREADS, 1, count_runner, &runners);
    cr_expect_eq(runners.of_caller + runners.of_workers, THREADS * LOOPS);
    cr_expect_gt(runners.of_caller, THREADS * LOOPS / 2, "the caller ran %d of %d", runners.of_caller, THREADS * LOOPS);
    pool_destroy(pool);
}

static void twice(void *context, int64_t begin, int64_t end) {
    (void)context, (void)begin, (void)end;
}

/* Of 16 threads a loop of two ranges wakes one: workers that sleep on go off the processor no more often than it. */
Test(pool, a_loop_wakes_those_who_have_a_range) {
    enum { LOOPS = 50 };
    Error error;
    Pool *pool = pool_create(16, &error);
    cr_assert(pool, "%s", error.text);
    const struct timespec pause = {.tv_nsec = 4000000}; /* until all sleep */
    struct rusage before, after;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < LOOPS; i++) {
        pool_run(pool, 2, 1, twice, NULL);
        nanosleep(&pause, NULL);
    }
    getrusage(RUSAGE_SELF, &after);
    pool_destroy(pool);
    cr_expect_leq(after.ru_nvcsw - before.ru_nvcsw, 6 * LOOPS);
}

typedef struct Items {
    atomic_int seen[1000];
    atomic_bool inside[8]; /* per thread: it runs an item */
    int nthreads;
} Items;

static void see_item(void *context, int thread, int item) {
    Items *items = context;
    cr_assert(thread >= 0 && thread < items->nthreads);
    cr_assert_not(atomic_exchange(&items->inside[thread], true), "two items at a time as thread %d", thread);
    atomic_fetch_add(&items->seen[item], 1);
    if (item % 100 == 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&items->inside[thread], false);
}

Test(pool, each_item_is_run_once) {
    static const int sizes[] = {0, 1, 2, 7, 1000};
    for (int nthreads = 1; nthreads <= 5; nthreads += 2)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            Error error;
            Pool *pool = nthreads == 1 ? NULL : pool_create(nthreads, &error);
            Items items = {.nthreads = nthreads};
            pool_each(pool, sizes[k], see_item, &items);
            for (int item = 0; item < 1000; item++)
                cr_assert_eq(items.seen[item], item < sizes[k]);
            pool_destroy(pool);
        }
}

Test(pool, there_are_no_more_threads_than_cores) {
    Pool *pool = pool_of_cores(3);
    cr_expect_leq(pool_threads(pool), 3);
    pool_destroy(pool);
    cr_expect_null(pool_of_cores(1));
}
