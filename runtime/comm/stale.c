/* stale: removes shared memory left by jobs whose mpirun was killed. Until a rank ends, in whatever way, it holds a lock on a file in its session's folder of Open
 * MPI. The file is named after the job, and so is the job's shared memory: prun's own, and Open MPI's (vader_segment.NODE.USER.JOB.RANK). If nobody holds the lock,
 * the job is over on this machine, also as seen from another container. A process number would not show that: each container has its own numbers. */
#include "runtime/comm/job.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "prun-job-";

uint64_t stale_job(void) {
    const char *job = getenv("OMPI_MCA_ess_base_jobid");
    return job ? strtoull(job, NULL, 10) : 0;
}

/* Locks the whole file, F_RDLCK or F_WRLCK; false where another process holds a conflicting lock. */
static bool lock_file(int fd, short type) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) == 0;
}

int stale_claim(void) {
    const char *folder = getenv("OMPI_MCA_orte_jobfam_session_dir");
    char path[4096];
    if (!folder || stale_job() == 0) return -1;
    int n = snprintf(path, sizeof path, "%s/%s%llx", folder, prefix, (unsigned long long)stale_job());
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0 && !lock_file(fd, F_RDLCK)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A file of a job in some session's folder. */
typedef struct Mark {
    char *path;
    unsigned long long job;
    int fd; /* locked by this process; -1: a rank holds a lock */
} Mark;
typedef struct Marks {
    VEC(Mark) at;
    Arena arena;
} Marks;

static void find_marks(Marks *marks, const char *folder) {
    DIR *files = opendir(folder);
    for (const struct dirent *file; files && (file = readdir(files)) != NULL;) {
        char *end;
        if (strncmp(file->d_name, prefix, sizeof prefix - 1) != 0) continue;
        Mark mark = {.path = arena_printf(&marks->arena, "%s/%s", folder, file->d_name),
                     .job = strtoull(file->d_name + sizeof prefix - 1, &end, 16),
                     .fd = -1};
        struct stat status;
        if (*end || mark.job == 0 || lstat(mark.path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) continue;
        mark.fd = open(mark.path, O_RDWR | O_CLOEXEC);
        if (mark.fd >= 0 && !lock_file(mark.fd, F_WRLCK)) {
            close(mark.fd);
            mark.fd = -1;
        }
        vec_push(&marks->arena, &marks->at, mark);
    }
    if (files) closedir(files);
}

/* Whether no session has a live job of this number: another one may have given the same. */
static bool is_over(const Marks *marks, unsigned long long job) {
    for (int i = 0; i < marks->at.n; i++)
        if (marks->at.at[i].job == job && marks->at.at[i].fd < 0) return false;
    return job != stale_job();
}

/* Whether a file of shared memory is the job's: "vader_segment.NODE.USER.JOB.RANK", "prun-PROCESS-JOB-NUMBER". */
static bool belongs(const char *name, unsigned long long job) {
    char word[32];
    if (strncmp(name, "vader_segment.", 14) == 0) {
        snprintf(word, sizeof word, ".%llx.", job);
        const char *at = strstr(name, word);
        return at && strspn(at + strlen(word), "0123456789") == strlen(at + strlen(word));
    }
    snprintf(word, sizeof word, "-%llx-", job);
    return strncmp(name, "prun-", 5) == 0 && strncmp(name + 5 + strspn(name + 5, "0123456789"), word, strlen(word)) == 0;
}

static void remove_memory(const Marks *marks) {
    DIR *files = opendir("/dev/shm");
    for (const struct dirent *file; files && (file = readdir(files)) != NULL;) {
        char path[512];
        struct stat status;
        bool stale = false;
        for (int i = 0; i < marks->at.n && !stale; i++)
            stale = belongs(file->d_name, marks->at.at[i].job) && is_over(marks, marks->at.at[i].job);
        snprintf(path, sizeof path, "/dev/shm/%s", file->d_name);
        if (stale && lstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid()) unlink(path);
    }
    if (files) closedir(files);
}

void stale_remove(void) {
    const char *top = getenv("OMPI_MCA_orte_top_session_dir"), *own = getenv("OMPI_MCA_orte_jobfam_session_dir");
    Marks marks = {.at = {0}};
    if (!top || !own) return;
    arena_init(&marks.arena);
    DIR *sessions = opendir(top);
    for (const struct dirent *session; sessions && (session = readdir(sessions)) != NULL;) {
        const char *folder = arena_printf(&marks.arena, "%s/%s", top, session->d_name);
        if (session->d_name[0] != '.' && strcmp(folder, own) != 0)
            find_marks(&marks, folder); /* closing a file in its own folder would give up this process's lock */
    }
    if (sessions) closedir(sessions);
    bool any = false;
    for (int i = 0; i < marks.at.n; i++)
        any = any || marks.at.at[i].fd >= 0;
    if (any) remove_memory(&marks);
    for (int i = 0; i < marks.at.n; i++) {
        if (marks.at.at[i].fd < 0) continue;
        if (is_over(&marks, marks.at.at[i].job)) unlink(marks.at.at[i].path);
        close(marks.at.at[i].fd);
    }
    arena_finish(&marks.arena);
}
