/* file: whole files, read and written; what a command writes kept apart from what it reads. */
#pragma once
#include "ir/base.h"

/* First in a program: opens /dev/null for those of standard input, output and error that are closed. A file opened later would take their place, and get what is
 * printed. Writing beyond the size that a file may have fails from now on (EFBIG), and ends no program. */
void standard_files(void);
/* What there is at path that is no ordinary file: "a pipe", "a folder", ..; NULL: an ordinary one, or nothing. */
const char *file_kind(const char *path);
/* Opens an ordinary file for reading; -1 with *error. A pipe, a socket, a device or a folder is an error at once: reading one may never end. */
int file_open(const char *path, Error *error);
/* Whole file in the arena, NUL after it; fails over max_bytes, and where file_open does. */
bool file_read(Arena *arena, const char *path, size_t max_bytes, char **text, size_t *n, Error *error);
/* The folder that this program lies in, with a '/' at its end; "" where the system does not tell. n: of folder. */
void program_folder(char *folder, size_t n);
/* A new file in the folder of path, under a name that nothing else has and that ends in ".tmp", open for writing; -1 and errno: none. n: of temporary. */
int file_temporary(const char *path, char *temporary, size_t n);
/* Writes a temporary file, then renames it: nothing half-written is ever seen under path, two that write one path do not meet, and none stays
 * behind after a failure, SIGINT or SIGTERM. Not forced to the disk: what a power failure may cost is a compilation of milliseconds, and
 * forcing it costs as much. */
bool file_write(const char *path, const char *text, size_t n, Error *error);
/* Whether file_write can write path as things are: for what takes long before it writes. Changes nothing at path, and leaves no file behind. */
bool file_writable(const char *path, Error *error);

/* What a command reads and writes, in that order: nothing that it reads may be overwritten, and no file written twice; '-' is none. Files are compared by device
 * and inode, those that are yet to be made by their folder and name. */
typedef struct FileUse {
    const char *path, *what; /* as given; "the plan", "--save" */
    bool written;
    bool known;             /* an ordinary file, or none in a folder that exists */
    uint64_t device, inode; /* of the file, or of its folder */
    const char *name;       /* of a file that is not there, in its folder; NULL: it is there */
} FileUse;
typedef VEC(FileUse) FileUses;
/* Whether two paths are one file, or will be. */
bool file_is_same(Arena *arena, const char *a, const char *b);
/* path NULL: none. */
void files_read(FileUses *uses, Arena *arena, const char *path, const char *what);
bool files_write(FileUses *uses, Arena *arena, const char *path, const char *what, Error *error);
