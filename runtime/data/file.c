/* file: finds a file that a net names. */
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/data.h"

bool file_is_readable(const char *path) {
    if (strchr(path, '*')) { /* a pattern of files */
        glob_t found = {0};
        const bool any = glob(path, 0, NULL, &found) == 0;
        globfree(&found);
        return any;
    }
    return access(path, R_OK) == 0; /* not opened: opening a pipe waits for its writer */
}

const char *file_find(const char *file, const char *plan_directory, Arena *arena) {
    if (!plan_directory || file_is_readable(file)) return file;
    /* "nets/data/x.npy" is relative to where pcc ran: beside the plan it may be nets/data/x.npy, data/x.npy, or x.npy. */
    for (const char *part = file; part; part = strchr(part, '/')) {
        part += strspn(part, "/");
        const char *beside = arena_printf(arena, "%s/%s", plan_directory, part);
        if (file_is_readable(beside)) return beside;
    }
    return file;
}
