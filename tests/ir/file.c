#include "ir/file.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *temporary_folder(char *template) {
    cr_assert_not_null(mkdtemp(template));
    return template;
}

/* Files in the folder that begin so. */
static int files_like(const char *folder, const char *begin) {
    DIR *directory = opendir(folder);
    int n = 0;
    cr_assert_not_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        n += strncmp(entry->d_name, begin, strlen(begin)) == 0;
    closedir(directory);
    return n;
}

Test(file, what_is_written_is_read_back) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    arena_init(&arena);
    char *path = arena_printf(&arena, "%s/a", folder), *text;
    size_t n;
    for (int version = 0; version < 2; version++) {
        size_t size = version ? 300000 : 5;
        char *bytes = arena_alloc(&arena, size);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)(i * 7);
        cr_assert(file_write(path, bytes, size, &error), "%s", error.text);
        cr_assert(file_read(&arena, path, 300000, &text, &n, &error), "%s", error.text);
        cr_assert_eq(n, size);
        cr_assert_eq(memcmp(text, bytes, size), 0);
        cr_assert_eq(text[n], '\0');
    }
    cr_assert_eq(files_like(folder, "a"), 1);
    cr_assert_not(file_read(&arena, path, 299999, &text, &n, &error));
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    unlink(path);
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, failures_name_the_file_and_leave_nothing) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    arena_init(&arena);
    char *text;
    size_t n;
    char *missing = arena_printf(&arena, "%s/none/a", folder);
    cr_assert_not(file_read(&arena, missing, 10, &text, &n, &error));
    cr_assert_not_null(strstr(error.text, missing));
    cr_assert_not(file_write(missing, "x", 1, &error));
    cr_assert_not_null(strstr(error.text, missing));
    cr_assert_not(file_read(&arena, folder, 10, &text, &n, &error), "a folder is not a file");
    /* A folder stands where the file should go: the rename fails, the temporary file goes. */
    char *taken = arena_printf(&arena, "%s/taken", folder);
    cr_assert_eq(mkdir(taken, 0700), 0);
    cr_assert_not(file_write(taken, "x", 1, &error));
    cr_assert_eq(files_like(folder, "taken"), 1);
    rmdir(taken);
    rmdir(folder);
    arena_finish(&arena);
}

/* As file_write finds it, but for what is missing behind a link. */
Test(file, whether_it_can_be_written_is_asked_without_a_trace) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    char *text;
    size_t n;
    arena_init(&arena);
    char *path = arena_printf(&arena, "%s/a", folder), *link = arena_printf(&arena, "%s/link", folder);
    cr_expect(file_writable(path, &error), "%s", error.text);
    cr_expect_eq(files_like(folder, "a"), 0, "an empty file stays behind");
    cr_assert(file_write(path, "text", 4, &error), "%s", error.text);
    cr_assert_eq(symlink("a", link), 0);
    cr_expect(file_writable(path, &error) && file_writable(link, &error), "%s", error.text);
    cr_expect_eq(files_like(folder, "a"), 1);
    cr_assert(file_read(&arena, path, 100, &text, &n, &error), "%s", error.text);
    cr_expect_str_eq(text, "text");
    cr_expect(file_writable("/dev/null", &error), "%s", error.text);
    const char *const refused[] = {folder, arena_printf(&arena, "%s/none/a", folder), arena_printf(&arena, "%s/a/b", folder),
                                   arena_printf(&arena, "%s/", path), ""};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_expect_not(file_writable(refused[i], &error), "%s", refused[i]);
        cr_expect_eq(error.code, EXIT_ENVIRONMENT);
        cr_expect(strstr(error.text, refused[i]), "%s: %s", refused[i], error.text);
    }
    unlink(link);
    unlink(path);
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, a_link_stays_a_link) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    struct stat status;
    char *text;
    size_t n;
    arena_init(&arena);
    char *target = arena_printf(&arena, "%s/target", folder), *link = arena_printf(&arena, "%s/link", folder);
    cr_assert(file_write(target, "old", 3, &error), "%s", error.text);
    cr_assert_eq(symlink(target, link), 0);
    cr_assert(file_write(link, "new text", 8, &error), "%s", error.text);
    cr_assert_eq(lstat(link, &status), 0);
    cr_expect(S_ISLNK(status.st_mode));
    cr_assert(file_read(&arena, target, 100, &text, &n, &error), "%s", error.text);
    cr_expect_str_eq(text, "new text");
    unlink(link);
    unlink(target);
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, a_full_disk_is_an_error) {
    if (access("/dev/full", W_OK) != 0) cr_skip_test("no /dev/full here");
    Error error;
    cr_assert_not(file_write("/dev/full", "x", 1, &error));
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    cr_assert_not_null(strstr(error.text, "/dev/full"));
}

Test(file, that_many_write_at_once_is_whole_and_of_one_of_them) {
    enum { WRITERS = 4, ROUNDS = 100, BYTES = 100000 };
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    arena_init(&arena);
    char *path = arena_printf(&arena, "%s/a", folder), *bytes = arena_alloc(&arena, BYTES), *text;
    pid_t child[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        child[w] = fork();
        cr_assert_geq(child[w], 0);
        if (child[w] > 0) continue;
        memset(bytes, 'a' + w, BYTES);
        bool ok = true;
        for (int i = 0; i < ROUNDS; i++)
            ok = file_write(path, bytes, BYTES, &error) && ok;
        _exit(ok ? 0 : 1);
    }
    int status, left = WRITERS;
    size_t n;
    while (left > 0) {
        if (access(path, F_OK) == 0) {
            cr_assert(file_read(&arena, path, BYTES, &text, &n, &error), "%s", error.text);
            cr_assert_eq(n, BYTES);
            cr_assert_eq(memcmp(text, text + 1, BYTES - 1), 0, "of two writers");
        }
        if (waitpid(-1, &status, WNOHANG) > 0) {
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a writer met another one");
            left--;
        }
    }
    cr_assert_eq(files_like(folder, "a"), 1);
    unlink(path);
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, a_writer_that_is_ended_leaves_no_other_file) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    arena_init(&arena);
    char *path = arena_printf(&arena, "%s/a", folder), *bytes = arena_alloc(&arena, 4 << 20);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0)
            for (;;)
                file_write(path, bytes, 4 << 20, &error);
        while (access(path, F_OK) != 0)
            ;
        nanosleep(&(struct timespec){.tv_nsec = 211000L * round}, NULL);
        kill(child, round % 2 ? SIGTERM : SIGINT);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        cr_assert_eq(files_like(folder, "a"), 1);
        unlink(path);
    }
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, gets_the_bits_of_the_umask_and_a_long_name) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    struct stat status;
    arena_init(&arena);
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    char *path = arena_printf(&arena, "%s/%s", folder, name);
    mode_t mask = umask(027);
    cr_expect(file_write(path, "x", 1, &error), "%s", error.text);
    umask(mask);
    cr_assert_eq(stat(path, &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0640);
    unlink(path);
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, what_is_no_ordinary_file_is_refused_at_once) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    arena_init(&arena);
    char *pipe = arena_printf(&arena, "%s/pipe", folder), *text;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(mkfifo(pipe, 0600) == 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    const char *const paths[] = {pipe, address.sun_path, folder, "/dev/null"}, *const kinds[] = {"a pipe", "a socket", "a folder",
                                                                                                 "a device"};
    size_t n;
    alarm(10);
    for (int i = 0; i < 4; i++) {
        cr_expect_not(file_read(&arena, paths[i], 10, &text, &n, &error));
        cr_expect(strstr(error.text, paths[i]) && strstr(error.text, kinds[i]), "%s", error.text);
        cr_expect_str_eq(file_kind(paths[i]), kinds[i]);
    }
    cr_expect_null(file_kind("/nowhere"));
    alarm(0);
    close(fd);
    unlink(pipe);
    unlink(address.sun_path);
    rmdir(folder);
    arena_finish(&arena);
}

Test(file, what_is_read_is_not_written_under_any_name) {
    char folder[] = "/tmp/pcc-file-XXXXXX";
    temporary_folder(folder);
    Arena arena;
    Error error;
    arena_init(&arena);
    cr_assert_eq(chdir(folder), 0);
    cr_assert(file_write("a", "x", 1, &error) && symlink("a", "soft") == 0 && link("a", "hard") == 0);
    const char *const same[] = {"a", "./a", "soft", "hard", arena_printf(&arena, "%s/a", folder)};
    for (int i = 0; i < 5; i++) {
        FileUses uses = {0};
        files_read(&uses, &arena, "a", "the net");
        cr_expect_not(files_write(&uses, &arena, same[i], "-o", &error), "%s", same[i]);
        cr_expect_eq(error.code, EXIT_USAGE);
        cr_expect_str_eq(error.text, arena_printf(&arena, "-o %s would overwrite the net (a): name another file", same[i]));
    }
    FileUses uses = {0};
    files_read(&uses, &arena, "a", "the net");
    files_read(&uses, &arena, NULL, "nothing");
    files_read(&uses, &arena, "later", "data that is yet to come");
    cr_expect(files_write(&uses, &arena, NULL, "-o", &error));
    cr_expect(files_write(&uses, &arena, "b", "-o", &error));
    cr_expect(files_write(&uses, &arena, "/dev/null", "--save", &error));
    cr_expect(files_write(&uses, &arena, "/dev/null", "--trace", &error));
    cr_expect_not(files_write(&uses, &arena, "./later", "--metrics", &error));
    cr_expect_not(files_write(&uses, &arena, "./b", "--metrics", &error));
    cr_expect_str_eq(error.text, "-o and --metrics both write ./b: name another file");
    for (int i = 0; i < 4; i++)
        unlink(same[i]);
    cr_assert_eq(chdir("/"), 0);
    rmdir(folder);
    arena_finish(&arena);
}
