/* stream: reads a file sequentially. zlib reads plain files as they are and decompresses those with gzip's magic bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "runtime/data/data.h"
#include "runtime/data/rows.h"

enum {
    BEHIND_BYTES = 65, /* after a record: see Record.text */
    BUFFER_BYTES = 1 << 16,
    BLOCK_BYTES = 1 << 18,
    FIRST_LINE_BYTES = 4096,
    MOST_LINE_BYTES = 1 << 26
}; /* zlib copies nothing into a block of two buffers or more */

/* A piece of a text. */
typedef struct Block {
    char *at;           /* on the heap */
    size_t n;           /* bytes; 0: the end of the file, or gzerror says what failed */
    bool read;          /* it has been read */
    bool quotes, zeros; /* whether it has any */
} Block;

struct Stream {
    gzFile file;
    char *path, *line; /* line: a record that spans blocks, or has quotes */
    size_t line_bytes;
    Block block, ahead; /* of a text: the current one, from block_at on; the next, if it has been read */
    size_t block_at;
    int64_t lines; /* that have been read */
    int64_t file_bytes;
    bool compressed;
};

Stream *stream_open(const char *path, Error *error) {
    struct stat status;
    if (stat(path, &status) != 0) return error_set(error, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno)), NULL;
    if (!S_ISREG(status.st_mode)) /* a pipe cannot be read in every epoch */
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
    gzbuffer(stream->file, BUFFER_BYTES);
    stream->file_bytes = status.st_size;
    stream->compressed = !gzdirect(stream->file);
    return stream;
}

void stream_close(Stream *stream) {
    if (!stream) return;
    if (stream->file) gzclose(stream->file);
    free(stream->path);
    free(stream->line);
    free(stream->block.at);
    free(stream->ahead.at);
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

/* Sets *error to why the last call gave less than was asked for. */
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
    char dump[BUFFER_BYTES];
    for (int64_t done = 0; done < n;) {
        int64_t left = n - done, most = to ? 1 << 30 : BUFFER_BYTES;
        int got = gzread(stream->file, to ? (char *)to + done : dump, (unsigned)(left < most ? left : most));
        if (got <= 0) return fail(stream, error);
        done += got;
    }
    return true;
}

static void read_block(Stream *stream, Block *block) {
    if (!block->at) block->at = calloc(1, BLOCK_BYTES + BEHIND_BYTES);
    if (!block->at) return;
    const int got = gzread(stream->file, block->at, BLOCK_BYTES);
    block->read = true;
    block->n = got > 0 ? (size_t)got : 0;
    block->quotes = memchr(block->at, '"', block->n) != NULL;
    block->zeros = memchr(block->at, '\0', block->n) != NULL;
}

void stream_read_ahead(Stream *stream) {
    if (!stream->ahead.read) read_block(stream, &stream->ahead);
}

/* The next block of a text; false at the end, or where *error says what has failed. */
static bool next_block(Stream *stream, Error *error) {
    const Block ahead = stream->ahead;
    if (ahead.read) {
        stream->ahead = (Block){.at = stream->block.at};
        stream->block = ahead;
    } else {
        read_block(stream, &stream->block);
    }
    stream->block_at = 0;
    if (!stream->block.at) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (stream->block.n > 0) return true;
    int code = Z_OK;
    gzerror(stream->file, &code);
    if (code != Z_OK && code != Z_STREAM_END) fail(stream, error);
    return false;
}

static bool put_byte(Stream *stream, size_t *used, char byte, Error *error) {
    if (*used + 1 + BEHIND_BYTES > stream->line_bytes) {
        size_t bytes = stream->line_bytes ? 2 * stream->line_bytes : FIRST_LINE_BYTES;
        char *line = bytes > MOST_LINE_BYTES ? NULL : realloc(stream->line, bytes);
        if (!line)
            return error_set(error, EXIT_ENVIRONMENT, "%s:%lld: a line of more than %zu bytes", stream->path, (long long)stream->lines + 1,
                             *used);
        stream->line = line;
        stream->line_bytes = bytes;
    }
    stream->line[(*used)++] = byte;
    return true;
}

/* Reads a record byte by byte. A quote at the beginning of a field opens it; elsewhere, as in 5", it is an ordinary character. */
static bool slow_record(Stream *stream, int separator, Record *record, Error *error) {
    static const char mark[] = "\xEF\xBB\xBF";
    enum { BEFORE, PLAIN, INSIDE, CLOSED } state = BEFORE;
    size_t used = 0, line_at = 0; /* where its line begins */
    int64_t lines = 0, opened_line = 0, opened_column = 0;
    bool ended = false;
    while (!ended && (stream->block_at < stream->block.n || next_block(stream, error))) {
        const char byte = stream->block.at[stream->block_at++];
        lines += byte == '\n';
        if (byte == '\n' && state != INSIDE) {
            ended = true;
            break;
        }
        if (state == INSIDE)
            state = byte == '"' ? CLOSED : INSIDE;
        else if (byte == '"' && (state == BEFORE || state == CLOSED)) { /* closed, then opened again: two stand for one */
            if (state == BEFORE) opened_line = record->line + lines, opened_column = (int64_t)(used - line_at) + 1;
            state = INSIDE;
            record->quotes = true;
        } else if (separator ? byte == separator : byte == ',' || byte == ';' || byte == '\t')
            state = BEFORE;
        else if (state == CLOSED || (byte != ' ' && byte != '\t' && !(record->line == 1 && used < 3 && byte == mark[used])))
            state = PLAIN;
        if (!put_byte(stream, &used, byte, error)) return false;
        if (byte == '\n') line_at = used;
    }
    if (error->code != 0 || (!ended && used == 0)) return false;
    if (state == INSIDE)
        return error_set(error, EXIT_ENVIRONMENT, "%s:%lld:%lld: a quote is opened and not closed", stream->path, (long long)opened_line,
                         (long long)opened_column);
    stream->lines += lines + !ended;
    if (!put_byte(stream, &used, '\0', error)) return false;
    record->text = stream->line;
    record->n = used - 1;
    return true;
}

bool lines_next(Lines *lines, Record *record) {
    if (lines->at >= lines->end) return false;
    char *end = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    *record = (Record){.text = lines->at, .n = (size_t)(end - lines->at), .line = lines->line++};
    lines->at = end + 1;
    while (record->n > 0 && record->text[record->n - 1] == '\r')
        record->n--;
    *end = '\0';
    return true;
}

/* The lines from the next byte to the last line end in the block. */
static bool lines_left(Stream *stream, Lines *lines) {
    if (stream->block_at == stream->block.n) return false;
    char *begin = stream->block.at + stream->block_at, *end = stream->block.at + stream->block.n;
    while (end > begin && end[-1] != '\n')
        end--;
    *lines = (Lines){begin, end, stream->lines + 1};
    return end > begin;
}

bool stream_lines(Stream *stream, Lines *lines) {
    if (stream->block.quotes || stream->block.zeros || !lines_left(stream, lines)) return false;
    stream->block_at += (size_t)(lines->end - lines->at);
    return true;
}

void stream_pass_lines(Stream *stream, int64_t n) {
    stream->lines += n;
}

bool stream_record(Stream *stream, int separator, Record *record, Error *error) {
    error->code = 0;
    *record = (Record){.line = stream->lines + 1};
    const size_t left = stream->block.n - stream->block_at;
    char *begin = left ? stream->block.at + stream->block_at : NULL, *end = left ? memchr(begin, '\n', left) : NULL;
    Lines one = {begin, end ? end + 1 : NULL, record->line};
    bool zeros = stream->block.zeros;
    if (end && !(stream->block.quotes && memchr(begin, '"', (size_t)(end - begin)))) { /* in place */
        lines_next(&one, record);
        stream->block_at += (size_t)(end + 1 - begin);
        stream->lines++;
    } else if (!slow_record(stream, separator, record, error)) {
        return false;
    } else {
        zeros = true; /* maybe, in an earlier block */
    }
    const char *zero = zeros ? memchr(record->text, '\0', record->n) : NULL;
    if (zero) {
        int64_t line, column;
        csv_place(record, zero, &line, &column);
        return error_set(error, EXIT_ENVIRONMENT, "%s:%lld:%lld: not a text of ASCII or UTF-8: it holds a zero byte", stream->path,
                         (long long)line, (long long)column);
    }
    if (record->line == 1 && record->n >= 3 && strncmp(record->text, "\xEF\xBB\xBF", 3) == 0)
        record->text += 3, record->n -= 3, record->marked = 3;
    while (record->n > 0 && record->text[record->n - 1] == '\r')
        record->n--;
    return true;
}

bool stream_at_end(Stream *stream, bool *at_end, Error *error) {
    int byte = gzgetc(stream->file), code = Z_OK;
    *at_end = byte < 0;
    if (byte >= 0) return gzungetc(byte, stream->file) >= 0 || fail(stream, error);
    gzerror(stream->file, &code);
    return code == Z_OK || code == Z_STREAM_END || fail(stream, error);
}
