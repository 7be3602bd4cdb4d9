/* pool: threads that share one loop at a time. A worker that has just worked polls for a short while before it sleeps, because
 * the loops of a training step follow each other within microseconds; it yields while polling. A loop wakes only the workers that have a range of it. When the caller is done with
 * its own range, it takes those that no worker has begun: a worker whose core runs another thread, such as the loader's, may be milliseconds late. */
#include "ir/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ir/limits.h"

enum { LOOKS_BEFORE_SLEEP = 400, MAX_THREADS = 256 };

typedef struct Worker {
    Pool *pool;
    int index; /* 1 .. nthreads - 1; the caller is 0 */
    pthread_t thread;
    atomic_uint turn;  /* counts the loops in which it has a range; a change means work */
    atomic_uint taken; /* counts its ranges that someone has begun: turn, or one less */
    bool asleep;       /* it waits on wake; both are guarded by the pool's mutex */
    pthread_cond_t wake;
} Worker;

struct Pool {
    int nthreads;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    atomic_int left;  /* workers that have not finished the loop */
    atomic_bool stop; /* may also be read by a worker that comes late to a loop */
    int parts;        /* ranges of this loop */
    int64_t n;
    PoolFn *fn;
    void *context;
    int nworkers;
    Worker worker[MAX_THREADS];
};

static void run_part(const Pool *pool, int part) {
    int64_t size = pool->n / pool->parts, rest = pool->n % pool->parts;
    int64_t begin = part * size + (part < rest ? part : rest);
    pool->fn(pool->context, begin, begin + size + (part < rest));
}

/* Waits until the worker's turn is no longer `seen`; returns the new turn. */
static unsigned wait_for_turn(Worker *worker, unsigned seen) {
    unsigned turn;
    for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
        turn = atomic_load_explicit(&worker->turn, memory_order_acquire);
        if (turn != seen) return turn;
        sched_yield();
    }
    pthread_mutex_lock(&worker->pool->mutex);
    worker->asleep = true;
    while ((turn = atomic_load_explicit(&worker->turn, memory_order_acquire)) == seen)
        pthread_cond_wait(&worker->wake, &worker->pool->mutex);
    worker->asleep = false;
    pthread_mutex_unlock(&worker->pool->mutex);
    return turn;
}

/* Claims the worker's range of this turn; true if the claim succeeds. A loop lasts until all its ranges have run, so a turn that is over is taken. */
static bool take_range(Worker *worker, unsigned turn) {
    unsigned before = turn - 1;
    return atomic_compare_exchange_strong_explicit(&worker->taken, &before, turn, memory_order_acq_rel, memory_order_relaxed);
}

/* Signal handlers must run in other threads: a worker's stack may be in use below its pointer (stop.c). Faults of the worker itself stay its own. */
static void take_no_signals(void) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_BLOCK, &others, NULL);
}

static void *work(void *argument) {
    Worker *worker = argument;
    Pool *pool = worker->pool;
    take_no_signals();
    for (unsigned turn = 0;;) {
        turn = wait_for_turn(worker, turn);
        if (pool->stop) return NULL;
        if (!take_range(worker, turn)) continue;
        run_part(pool, worker->index);
        if (atomic_fetch_sub_explicit(&pool->left, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

/* Gives work to the first n workers. */
static void next_turn(Pool *pool, int n) {
    pthread_mutex_lock(&pool->mutex);
    for (int i = 1; i <= n; i++) {
        atomic_fetch_add_explicit(&pool->worker[i].turn, 1, memory_order_acq_rel);
        if (pool->worker[i].asleep) pthread_cond_signal(&pool->worker[i].wake);
    }
    pthread_mutex_unlock(&pool->mutex);
}

Pool *pool_create(int nthreads, Error *error) {
    Pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory for threads");
        return NULL;
    }
    pool->nthreads = nthreads < 1 ? 1 : nthreads > MAX_THREADS ? MAX_THREADS : nthreads;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 1; i < pool->nthreads; i++) {
        Worker *worker = &pool->worker[i];
        worker->pool = pool;
        worker->index = i;
        pthread_cond_init(&worker->wake, NULL);
        int failed = pthread_create(&worker->thread, NULL, work, worker);
        if (failed) {
            error_set(error, EXIT_ENVIRONMENT, "cannot start thread %d of %d: %s", i + 1, pool->nthreads, strerror(failed));
            pthread_cond_destroy(&worker->wake);
            pool_destroy(pool);
            return NULL;
        }
        pool->nworkers++;
    }
    return pool;
}

void pool_destroy(Pool *pool) {
    if (!pool) return;
    pool->stop = true;
    next_turn(pool, pool->nworkers);
    for (int i = 1; i <= pool->nworkers; i++) {
        pthread_join(pool->worker[i].thread, NULL);
        pthread_cond_destroy(&pool->worker[i].wake);
    }
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

int pool_threads(const Pool *pool) {
    return pool ? pool->nthreads : 1;
}

void pool_run(Pool *pool, int64_t n, int64_t grain, PoolFn *fn, void *context) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    int64_t parts = n / grain;
    if (!pool || pool->nworkers == 0 || parts < 2) {
        fn(context, 0, n);
        return;
    }
    pool->parts = parts < pool->nworkers + 1 ? (int)parts : pool->nworkers + 1;
    pool->n = n;
    pool->fn = fn;
    pool->context = context;
    atomic_store_explicit(&pool->left, pool->parts - 1, memory_order_release);
    next_turn(pool, pool->parts - 1);
    run_part(pool, 0);
    for (int i = pool->parts - 1; i > 0; i--) {
        Worker *worker = &pool->worker[i];
        if (!take_range(worker, atomic_load_explicit(&worker->turn, memory_order_relaxed))) continue;
        run_part(pool, i);
        atomic_fetch_sub_explicit(&pool->left, 1, memory_order_relaxed);
    }
    for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0) return;
        sched_yield();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load_explicit(&pool->left, memory_order_acquire) != 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

Pool *pool_of_cores(int most) {
    const int bound = limits_bound_cores(), granted = limits_cores("");
    int cores = bound < granted ? bound : granted;
    if (cores > most) cores = most;
    Error none;
    return cores > 1 ? pool_create(cores, &none) : NULL;
}

typedef struct Items {
    int n;
    PoolItemFn *fn;
    void *context;
    atomic_int next;
} Items;

static void take_items(void *context, int64_t begin, int64_t end) {
    Items *items = context;
    for (int64_t thread = begin; thread < end; thread++)
        for (int item; (item = atomic_fetch_add(&items->next, 1)) < items->n;)
            items->fn(items->context, (int)thread, item);
}

void pool_each(Pool *pool, int n, PoolItemFn *fn, void *context) {
    Items items = {.n = n, .fn = fn, .context = context};
    pool_run(pool, pool_threads(pool), 1, take_items, &items);
}
