/* What a disk does to a file in the end. */
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Turns bits of the byte at this offset; false where there is none. */
static inline bool file_flip(const char *path, off_t at, unsigned char bits) {
    unsigned char byte;
    int fd = open(path, O_RDWR);
    bool ok = fd >= 0 && pread(fd, &byte, 1, at) == 1;
    byte = (unsigned char)(ok ? byte ^ bits : 0);
    ok = ok && pwrite(fd, &byte, 1, at) == 1;
    if (fd >= 0) close(fd);
    return ok;
}
