/* watch: the launcher above a rank. Ends a rank that has no launcher any more. Open MPI does so itself while a job runs; before MPI_Init has returned, a rank may wait for ever. */
#include "runtime/comm/job.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINKS = 16, EVERY_S = 1 };

/* This process or an ancestor, and its parent. */
typedef struct Link {
    long child, parent;
} Link;

struct Watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, started;
    double begin_s, limit_s; /* limit_s: of MPI_Init, 0: none */
    int nlinks;
    Link link[MAX_LINKS]; /* from this process up to the launcher */
};

/* The parent's number; 0: there is no such process any more. */
static long parent_of(long process) {
    char path[64], line[512] = "";
    if (process == (long)getpid()) return (long)getppid();
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    const char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* behind the name, which may hold anything */
    long parent = 0;
    if (end) sscanf(end + 1, " %*c %ld", &parent);
    fclose(file);
    return parent;
}

/* The process number of mpirun, or of its daemon on this node; Open MPI's session folder is named after it. 0: unknown. */
static long launcher(void) {
    const char *folder = getenv("OMPI_MCA_orte_jobfam_session_dir"), *name = folder ? strrchr(folder, '/') : NULL;
    return name && strncmp(name, "/pid.", 5) == 0 ? atol(name + 5) : 0;
}

/* Lists the processes up to the launcher: a shell may stand between and outlive it. Where the launcher is not found, perhaps as it is in another namespace, only the
 * parent is looked at. */
static void find_links(Watch *watch) {
    long top = launcher(), child = (long)getpid();
    for (watch->nlinks = 0; watch->nlinks < MAX_LINKS;) {
        long parent = parent_of(child);
        watch->link[watch->nlinks++] = (Link){child, parent};
        if (parent == top || parent <= 1) break;
        child = parent;
    }
    if (watch->link[watch->nlinks - 1].parent != top) watch->nlinks = 1;
}

int comm_terminal(int number) {
    Watch above = {.nlinks = 0};
    char path[64];
    const long top = launcher();
    find_links(&above);
    if (top == 0 || above.link[above.nlinks - 1].parent != top) return -1;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", top, number);
    const int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || isatty(fd)) return fd;
    close(fd);
    return -1;
}

static bool is_alone(const Watch *watch) {
    for (int i = 0; i < watch->nlinks; i++)
        if (parent_of(watch->link[i].child) != watch->link[i].parent) return true;
    return false;
}

/* Prints in one write: other ranks print the same at the same moment. */
static _Noreturn void give_up(const char *what) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char text[256];
    const int n = snprintf(text, sizeof text, "prun: rank %s: %s\n", rank ? rank : "?", what);
    signal(SIGPIPE, SIG_IGN);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) _Exit(EXIT_ENVIRONMENT); /* nobody reads it */
    _Exit(EXIT_ENVIRONMENT);
}

static _Noreturn void give_up_start(double seconds) {
    char what[128];
    snprintf(what, sizeof what, "MPI_Init: not all ranks came within %g s (PRUN_TIMEOUT)", seconds);
    give_up(what);
}

static void *look(void *argument) {
    Watch *watch = argument;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += EVERY_S;
        pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
        if (watch->stop) break;
        if (is_alone(watch)) give_up("mpirun has ended without this rank, which ends too");
        if (!watch->started && watch->limit_s > 0 && now_seconds() - watch->begin_s > watch->limit_s) give_up_start(watch->limit_s);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

Watch *watch_begin(double limit_s) {
    Watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    watch->begin_s = now_seconds();
    watch->limit_s = limit_s;
    find_links(watch);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
    if (pthread_create(&watch->thread, NULL, look, watch) == 0) return watch;
    free(watch);
    return NULL;
}

static void change(Watch *watch, bool *what) {
    pthread_mutex_lock(&watch->lock);
    *what = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void watch_started(Watch *watch) {
    if (watch) change(watch, &watch->started);
}

void watch_end(Watch *watch) {
    if (!watch) return;
    change(watch, &watch->stop);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
