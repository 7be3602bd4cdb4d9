/* file: reads and writes whole files; checks that a command does not overwrite what it reads. */
#pragma once
#include "ir/base.h"

/* Called first in a program: opens /dev/null for each of standard input, output and error that is closed. A file opened later would take its number, and get what is
 * printed. From now on, writing beyond the size limit of files fails (EFBIG) and does not end the program. */
void standard_files(void);
/* What is at path where that is no ordinary file: "a pipe", "a folder", ..; NULL: an ordinary file, or nothing. */
const char *file_kind(const char *path);
/* Opens an ordinary file for reading; -1 with *error. A pipe, a socket, a device or a folder is an error at once: reading one may never end. */
int file_open(const char *path, Error *error);
/* Reads the whole file into the arena, with a NUL after it; fails over max_bytes, and where file_open does. */
bool file_read(Arena *arena, const char *path, size_t max_bytes, char **text, size_t *n, Error *error);
/* The folder of this program's file, with a '/' at its end; "" where the system does not tell. n: size of folder. */
void program_folder(char *folder, size_t n);
/* Creates a file in the folder of path, under an unused name that ends in ".tmp", open for writing; -1 with errno on failure. n: size of temporary. */
int file_temporary(const char *path, char *temporary, size_t n);
/* Writes a temporary file, then renames it: no half-written file is ever seen under path, two writers of one path do not interfere, and no temporary
 * file stays after a failure, SIGINT or SIGTERM. It is not synced to the disk: a power failure may cost a compilation of milliseconds, and
 * syncing costs as much. */
bool file_write(const char *path, const char *text, size_t n, Error *error);
/* Whether file_write could write path now: to be asked before long work. Changes nothing at path, and leaves no file behind. */
bool file_writable(const char *path, Error *error);

/* The files that a command reads, then those that it writes: none that it reads may be overwritten, and none written twice; '-' is no file. Files are compared by device
 * and inode, files that do not exist yet by folder and name. */
typedef struct FileUse {
    const char *path, *what; /* as given; "the plan", "--save" */
    bool written;
    bool known;             /* an ordinary file, or a new one in a folder that exists */
    uint64_t device, inode; /* of the file, or of its folder */
    const char *name;       /* of a file that does not exist yet, in its folder; NULL: it exists */
} FileUse;
typedef VEC(FileUse) FileUses;
/* Whether two paths are, or will be, the same file. */
bool file_is_same(Arena *arena, const char *a, const char *b);
/* path NULL: none. */
void files_read(FileUses *uses, Arena *arena, const char *path, const char *what);
bool files_write(FileUses *uses, Arena *arena, const char *path, const char *what, Error *error);
