/* file: reads and writes whole files, and checks that a command does not overwrite what it reads. */
#include "ir/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- reading */

/* NULL: an ordinary file. */
static const char *other_kind(mode_t mode) {
    return S_ISREG(mode) ? NULL : S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

const char *file_kind(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? other_kind(status.st_mode) : NULL;
}

int file_open(const char *path, Error *error) {
    struct stat status;
    /* stat comes first, since opening a device may have effects; O_NONBLOCK, since the file may have become a pipe in between. */
    int fd = stat(path, &status) == 0 && !other_kind(status.st_mode) ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0 && (fstat(fd, &status) != 0 || other_kind(status.st_mode))) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) return fd;
    int why = errno;
    const char *kind = file_kind(path);
    if (kind)
        error_set(error, EXIT_ENVIRONMENT, "cannot read %s: it is %s; name an ordinary file", path, kind);
    else
        error_set(error, EXIT_ENVIRONMENT, "cannot open %s: %s", path, strerror(why));
    return -1;
}

bool file_read(Arena *arena, const char *path, size_t max_bytes, char **text, size_t *n, Error *error) {
    int fd = file_open(path, error);
    if (fd < 0) return false;
    /* Read until the end instead of asking for the size: files grow. */
    enum { BLOCK_BYTES = 64 << 10 };
    Text all = {0};
    char block[BLOCK_BYTES];
    bool ok = true;
    for (ssize_t got = 1; ok && got != 0;) {
        got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            ok = error_set(error, EXIT_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
        else if (all.n + (size_t)got > max_bytes)
            ok = error_set(error, EXIT_ENVIRONMENT, "%s has more than the %zu bytes that are read at most", path, max_bytes);
        else
            text_append(&all, block, (size_t)got);
    }
    close(fd);
    if (ok) {
        *text = arena_copy(arena, all.at, all.n);
        *n = all.n;
    }
    text_finish(&all);
    return ok;
}

void standard_files(void) {
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return; /* open takes the lowest free number: fd */
}

void program_folder(char *folder, size_t n) {
    ssize_t length = readlink("/proc/self/exe", folder, n - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) slash[1] = '\0';
}

/* ---------------------------------------------------------------- writing */

static bool write_all(int fd, const char *text, size_t n) {
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        text += done;
        n -= (size_t)done;
    }
    return true;
}

int file_temporary(const char *path, char *temporary, size_t n) {
    enum { MAX_TRIES = 1000, MAX_NAME = 200 }; /* a name may have 255 bytes */
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (int attempt = 0; attempt < MAX_TRIES; attempt++) {
        int length = snprintf(temporary, n, "%.*s%.*s.%ld-%d.tmp", (int)(name - path), path, MAX_NAME, name, (long)getpid(), attempt);
        if (length < 0 || (size_t)length >= n) return errno = ENAMETOOLONG, -1;
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* Writes in place: into a device, a pipe, or the target of a link. */
static bool write_in_place(const char *path, const char *text, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && write_all(fd, text, n);
    int saved = errno;
    if (fd >= 0 && close(fd) != 0 && ok) return false;
    errno = saved;
    return ok;
}

static bool write_beside(const char *path, const char *text, size_t n) {
    char temporary[8192];
    int fd = file_temporary(path, temporary, sizeof temporary);
    if (fd < 0) return false;
    bool ok = write_all(fd, text, n);
    int saved = errno;
    if (close(fd) != 0 && ok) {
        saved = errno;
        ok = false;
    }
    if (ok && rename(temporary, path) == 0) return true;
    if (ok) saved = errno;
    unlink(temporary);
    errno = saved;
    return false;
}

/* Whether path is a device, a pipe or a link (/dev/stdout can be each of them), which must be written to and not replaced by a renamed file. */
static bool in_place(const char *path) {
    struct stat status;
    return (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) ||
           (lstat(path, &status) == 0 && S_ISLNK(status.st_mode));
}

bool file_write(const char *path, const char *text, size_t n, Error *error) {
    if (in_place(path))
        return write_in_place(path, text, n) || error_set(error, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
    /* Signals that end the program are blocked until the file is in place or its temporary file is gone. */
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    bool ok = write_beside(path, text, n) || error_set(error, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

bool file_writable(const char *path, Error *error) {
    struct stat status;
    char temporary[8192];
    const char *slash = strrchr(path, '/');
    if (stat(path, &status) == 0 && (S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)))
        return error_set(error, EXIT_ENVIRONMENT, "cannot write %s: it is %s; name a file", path, other_kind(status.st_mode));
    if (!*(slash ? slash + 1 : path)) return error_set(error, EXIT_ENVIRONMENT, "cannot write '%s': it names no file", path);
    if (in_place(path)) { /* a link may point to a file that does not exist yet */
        if (access(path, W_OK) == 0 || errno == ENOENT) return true;
        return error_set(error, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
    }
    const int fd = file_temporary(path, temporary, sizeof temporary);
    if (fd < 0) return error_set(error, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
    close(fd);
    unlink(temporary);
    return true;
}

/* ---------------------------------------------------------------- outputs against inputs */

/* Identifies the file at path, or where there is none yet, its folder and its name there. */
static FileUse file_use(Arena *arena, const char *path, const char *what, bool written) {
    FileUse use = {.path = path, .what = what, .written = written};
    struct stat status;
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode)) return use;
        use.known = true;
    } else {
        const char *slash = strrchr(path, '/');
        const char *folder = slash ? arena_printf(arena, "%.*s", (int)(slash - path) + 1, path) : ".";
        if (stat(folder, &status) != 0) return use;
        use.known = true;
        use.name = slash ? slash + 1 : path;
    }
    use.device = (uint64_t)status.st_dev;
    use.inode = (uint64_t)status.st_ino;
    return use;
}

static bool same_file(const FileUse *a, const FileUse *b) {
    if (!a->known || !b->known || a->device != b->device || a->inode != b->inode) return false;
    return a->name && b->name ? strcmp(a->name, b->name) == 0 : !a->name && !b->name;
}

bool file_is_same(Arena *arena, const char *a, const char *b) {
    const FileUse one = file_use(arena, a, NULL, false), other = file_use(arena, b, NULL, false);
    return same_file(&one, &other);
}

void files_read(FileUses *uses, Arena *arena, const char *path, const char *what) {
    if (path) vec_push(arena, uses, file_use(arena, path, what, false));
}

bool files_write(FileUses *uses, Arena *arena, const char *path, const char *what, Error *error) {
    if (!path) return true;
    if (!*path) return error_set(error, EXIT_USAGE, "%s names no file: its argument is empty", what);
    if (strcmp(path, "-") == 0)
        return error_set(error, EXIT_USAGE, "%s - names no file: /dev/stdout is the standard output, ./- a file of this name", what);
    FileUse use = file_use(arena, path, what, true);
    for (int i = 0; i < uses->n; i++) {
        const FileUse *other = &uses->at[i];
        if (!same_file(&use, other)) continue;
        if (other->written) return error_set(error, EXIT_USAGE, "%s and %s both write %.400s: name another file", other->what, what, path);
        return error_set(error, EXIT_USAGE, "%s %.400s would overwrite %s (%.400s): name another file", what, path, other->what,
                         other->path);
    }
    vec_push(arena, uses, use);
    return true;
}
