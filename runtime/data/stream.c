/* stream: a file from its beginning. zlib reads plain files as they are and undoes gzip where it finds its mark. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "runtime/data/data.h"

enum { BLOCK_BYTES = 1 << 16, FIRST_LINE_BYTES = 4096, MOST_LINE_BYTES = 1 << 26 };

struct Stream {
    gzFile file;
    char *path, *line;
    size_t line_bytes;
    int64_t file_bytes;
    bool compressed;
};

Stream *stream_open(const char *path, Error *error) {
    struct stat status;
    if (stat(path, &status) != 0) return error_set(error, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno)), NULL;
    if (!S_ISREG(status.st_mode)) /* a pipe cannot be read once an epoch */
        return error_set(error, EXIT_ENVIRONMENT, "%s: %s", path, S_ISDIR(status.st_mode) ? "is a directory" : "is no ordinary file"), NULL;
    Stream *stream = calloc(1, sizeof *stream);
    if (stream) {
        stream->path = malloc(strlen(path) + 1);
        stream->file = gzopen(path, "rb");
    }
    if (!stream || !stream->path || !stream->file) {
        error_set(error, EXIT_ENVIRONMENT, "%s: %s", path, errno ? strerror(errno) : "out of memory");
        stream_close(stream);
        return NULL;
    }
    memcpy(stream->path, path, strlen(path) + 1);
    gzbuffer(stream->file, BLOCK_BYTES);
    stream->file_bytes = status.st_size;
    stream->compressed = !gzdirect(stream->file);
    return stream;
}

void stream_close(Stream *stream) {
    if (!stream) return;
    if (stream->file) gzclose(stream->file);
    free(stream->path);
    free(stream->line);
    free(stream);
}

bool stream_compressed(const Stream *stream) {
    return stream->compressed;
}

int64_t stream_file_bytes(const Stream *stream) {
    return stream->file_bytes;
}

int64_t stream_bytes_read(const Stream *stream) {
    return (int64_t)gzoffset(stream->file);
}

/* Why the last call gave less than was asked for. */
static bool fail(Stream *stream, Error *error) {
    int code = Z_OK;
    const char *text = gzerror(stream->file, &code);
    if (code == Z_ERRNO) return error_set(error, EXIT_ENVIRONMENT, "%s: %s", stream->path, strerror(errno));
    if (code == Z_OK || code == Z_STREAM_END || (code == Z_BUF_ERROR && !stream->compressed))
        return error_set(error, EXIT_ENVIRONMENT, "%s: the file ends early: it is cut off", stream->path);
    if (code == Z_BUF_ERROR) return error_set(error, EXIT_ENVIRONMENT, "%s: the gzip data ends early: the file is cut off", stream->path);
    size_t named = strlen(stream->path); /* zlib names the file too */
    if (strncmp(text, stream->path, named) == 0) text += named + strspn(text + named, ": ");
    return error_set(error, EXIT_ENVIRONMENT, "%s: the gzip data is damaged (%s)", stream->path, text);
}

bool stream_read(Stream *stream, void *to, int64_t n, Error *error) {
    char dump[BLOCK_BYTES];
    for (int64_t done = 0; done < n;) {
        int64_t left = n - done, most = to ? 1 << 30 : BLOCK_BYTES;
        int got = gzread(stream->file, to ? (char *)to + done : dump, (unsigned)(left < most ? left : most));
        if (got <= 0) return fail(stream, error);
        done += got;
    }
    return true;
}

const char *stream_line(Stream *stream, size_t *n, Error *error) {
    size_t used = 0;
    int byte;
    error->code = 0;
    while ((byte = gzgetc(stream->file)) >= 0 && byte != '\n') {
        if (byte == '\0')
            return error_set(error, EXIT_ENVIRONMENT, "%s: not a text of ASCII or UTF-8: it holds a zero byte", stream->path), NULL;
        if (used + 2 > stream->line_bytes) {
            size_t bytes = stream->line_bytes ? 2 * stream->line_bytes : FIRST_LINE_BYTES;
            char *line = bytes > MOST_LINE_BYTES ? NULL : realloc(stream->line, bytes);
            if (!line) return error_set(error, EXIT_ENVIRONMENT, "%s: a line of more than %zu bytes", stream->path, used), NULL;
            stream->line = line;
            stream->line_bytes = bytes;
        }
        stream->line[used++] = (char)byte;
    }
    int code = Z_OK;
    if (byte < 0) gzerror(stream->file, &code);
    if (code != Z_OK && code != Z_STREAM_END) return fail(stream, error), NULL;
    if (byte < 0 && used == 0) return NULL;
    while (used > 0 && stream->line[used - 1] == '\r')
        used--;
    *n = used;
    if (used == 0) return "";
    stream->line[used] = '\0';
    return stream->line;
}

bool stream_at_end(Stream *stream, bool *at_end, Error *error) {
    int byte = gzgetc(stream->file), code = Z_OK;
    *at_end = byte < 0;
    if (byte >= 0) return gzungetc(byte, stream->file) >= 0 || fail(stream, error);
    gzerror(stream->file, &code);
    return code == Z_OK || code == Z_STREAM_END || fail(stream, error);
}

bool stream_rewind(Stream *stream, Error *error) {
    return gzrewind(stream->file) == 0 || fail(stream, error);
}
