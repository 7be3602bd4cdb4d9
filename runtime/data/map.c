/* map: see map.h. Reading a mapped file beyond its end (it may have been truncated) raises SIGBUS. A handler maps a page of zeros there, so that the reader goes on, and
 * records this for map_is_sound. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "runtime/data/map.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_MAPS = 64 };
struct Map {
    atomic_uintptr_t begin, end; /* 0: the entry is free */
    atomic_bool torn;
};

/* File-level only because a signal handler can reach nothing else. */
static Map maps[MOST_MAPS];
static struct sigaction before;
static uintptr_t page_bytes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int nmaps; /* above 0: the handler is installed */

static void mend(int number, siginfo_t *info, void *context) {
    const uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    for (int i = 0; i < MOST_MAPS; i++) {
        if (at < atomic_load(&maps[i].begin) || at >= atomic_load(&maps[i].end)) continue;
        atomic_store(&maps[i].torn, true);
        void *page = (void *)(at & ~(page_bytes - 1)); /* mmap is only a system call on Linux */
        if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) return;
    }
    sigaction(number, &before, NULL); /* not of a map: it is raised again */
}

Map *map_open(int fd, int64_t bytes) {
    struct sigaction action = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO};
    Map *map = NULL;
    if (bytes <= 0 || (uint64_t)bytes > SIZE_MAX) return NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; !map && i < MOST_MAPS; i++)
        if (atomic_load(&maps[i].begin) == 0) map = &maps[i];
    void *at = map ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at != MAP_FAILED) {
        page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
        sigemptyset(&action.sa_mask);
        if (nmaps++ == 0) sigaction(SIGBUS, &action, &before);
        atomic_store(&map->torn, false);
        atomic_store(&map->end, (uintptr_t)at + (uintptr_t)bytes);
        atomic_store(&map->begin, (uintptr_t)at);
    }
    pthread_mutex_unlock(&lock);
    return at == MAP_FAILED ? NULL : map;
}

void map_close(Map *map) {
    if (!map) return;
    pthread_mutex_lock(&lock);
    const uintptr_t begin = atomic_load(&map->begin), bytes = atomic_load(&map->end) - begin;
    atomic_store(&map->end, 0);
    munmap((void *)begin, bytes);
    atomic_store(&map->begin, 0);
    if (--nmaps == 0) sigaction(SIGBUS, &before, NULL);
    pthread_mutex_unlock(&lock);
}

const unsigned char *map_bytes(const Map *map) {
    return (const unsigned char *)atomic_load(&map->begin);
}

bool map_is_sound(const Map *map) {
    return !atomic_load(&map->torn);
}
