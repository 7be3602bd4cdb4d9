/* rows: files whose first dimension counts rows. Plain binary files are read by random access. Compressed ones and text are streamed, and
 * only the rows that will be read are kept. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "runtime/data/map.h"
#include "runtime/data/pictures.h"
#include "runtime/data/rows.h"
#include "runtime/data/table.h"
#include "runtime/element.h"
#include "ir/limits.h"

struct Rows {
    RowFile file;
    char *path;
    Stored stored;     /* binary files */
    int64_t count;     /* rows of the file */
    int64_t used;      /* rows that are used, from file.first on */
    int64_t elements;  /* of a row of the input */
    int64_t hot;       /* elements made from one number of the file (one_hot); else 1 */
    int64_t width;     /* numbers of a row of the file */
    int64_t row_bytes; /* of a row as it is held: as stored, or as table.h parses it */
    Rows *texts;       /* the one that reads the texts; NULL: this one */
    Figures given;     /* those of file.change, one for each number */
    const Figures *figures;
    int64_t begin; /* of the first row in the file, uncompressed */
    bool streamed;
    Table table;                          /* CSV */
    Pictures *pictures;                   /* NULL: the rows are no pictures */
    unsigned char label[sizeof(int64_t)]; /* of a picture, as STORED_I64 */
    int fd;                               /* if not streamed */
    Map *map;                             /* of fd; NULL: fd is read */
    int64_t nheld, *held_row;
    unsigned char *held;
    int64_t file_bytes, bytes_read;
    unsigned char *scratch; /* one row's bytes */
    size_t scratch_bytes;
};

static double change_scale(const RowChange *change) {
    return change->scale != 0 ? change->scale : 1;
}

/* One byte of gzip's deflate expands to at most this many (zlib.net/zlib_tech.html: 1032:1). */
enum { MOST_INFLATION = 1032 };

static bool rows_fail(const Rows *rows, Error *error, const char *text) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s", rows->path, text);
}

/* ---------------------------------------------------------------- binary files */

/* Checks that a row of the file has as many elements as the input's; (N, 28, 28) may feed rows of 784. */
static bool check_row(const Rows *rows, const Shape *shape, Error *error) {
    Shape row = {.ndim = shape->ndim - 1};
    int64_t elements = 0, count = 0;
    if (shape->ndim == 0) return rows_fail(rows, error, "a single number: it has no rows");
    memcpy(row.dim, shape->dim + 1, sizeof *row.dim * (size_t)row.ndim);
    if (shape_count(&row, &elements) && elements == rows->width && shape_count(shape, &count)) return true;
    Text text = {0};
    text_printf(&text, "a row of the file is ");
    shape_print(&text, &row);
    text_printf(&text, ", a row of the input ");
    shape_print(&text, &rows->file.row);
    if (rows->hot > 1) text_printf(&text, ", one_hot: %lld number%s", (long long)rows->width, rows->width == 1 ? "" : "s");
    rows_fail(rows, error, text.at);
    text_finish(&text);
    return false;
}

static bool check_type(const Rows *rows, Error *error) {
    if (stored_is_integer(rows->stored) || dtype_is_float(rows->file.dtype)) return true;
    char text[128];
    snprintf(text, sizeof text, "holds %s, and the input is %s", file_element_name[rows->stored.kind], dtype_name[rows->file.dtype]);
    return rows_fail(rows, error, text);
}

/* Whether a file may be mapped while a training runs. */
static bool fits_beside(int64_t bytes) {
    enum { SHARE = 4 };
    return limits_addresses() < 0 && bytes <= limits_memory("") / SHARE;
}

static bool open_binary(Rows *rows, Stream *stream, Error *error) {
    Shape shape = {.ndim = 1};
    rows->streamed = stream_compressed(stream);
    bool raw = rows->file.format == FILE_RAW;
    if (raw) {
        rows->stored = rows->file.stored;
    } else {
        HeaderFn *header = rows->file.format == FILE_NPY ? header_of_npy : header_of_idx;
        if (!header(stream, rows->path, &rows->stored, &shape, &rows->begin, error) || !check_row(rows, &shape, error)) return false;
        rows->count = shape.dim[0];
    }
    if (!check_type(rows, error) || !mul_checked(rows->width, stored_bytes[rows->stored.kind], &rows->row_bytes)) return false;
    int64_t bytes, size = stream_file_bytes(stream);
    if (raw && rows->streamed) return rows_fail(rows, error, "a raw file cannot be compressed: how many rows it has is its size");
    if (raw) {
        rows->begin = rows->file.offset > 0 ? rows->file.offset * stored_bytes[rows->stored.kind] : 0;
        rows->count = rows->row_bytes && size > rows->begin ? (size - rows->begin) / rows->row_bytes : 0;
        if (rows->file.offset < 0 && rows->count * rows->row_bytes != size) {
            char text[160];
            snprintf(text, sizeof text, "%lld bytes are no whole number of rows of %lld bytes", (long long)size,
                     (long long)rows->row_bytes);
            return rows_fail(rows, error, text);
        }
    } else if (!mul_checked(rows->count, rows->row_bytes, &bytes)) {
        return rows_fail(rows, error, "its shape is too large");
    } else if (!rows->streamed && bytes != size - rows->begin) {
        char text[160];
        snprintf(text, sizeof text, "holds %lld bytes of elements, its %lld rows need %lld: it is cut off or damaged",
                 (long long)(size - rows->begin), (long long)rows->count, (long long)bytes);
        return rows_fail(rows, error, text);
    } else if (rows->streamed &&
               (bytes - 1) / MOST_INFLATION >= size) { /* checked before memory is allocated for rows that cannot exist in the file */
        char text[160];
        snprintf(text, sizeof text, "its %lld rows need %lld bytes, and %lld compressed ones cannot hold them: it is cut off or damaged",
                 (long long)rows->count, (long long)bytes, (long long)size);
        return rows_fail(rows, error, text);
    }
    if (rows->streamed) return true;
    rows->fd = open(rows->path, O_RDONLY);
    if (rows->fd < 0) return rows_fail(rows, error, strerror(errno));
    if (fits_beside(size)) rows->map = map_open(rows->fd, rows->begin + rows->count * rows->row_bytes);
    return true;
}

/* ---------------------------------------------------------------- opening */

static bool open_csv(Rows *rows, Stream *stream, Error *error) {
    rows->streamed = true;
    if (!table_row_bytes(&rows->file, rows->width, &rows->row_bytes)) return rows_fail(rows, error, "a row of so many columns is not read");
    const bool ok = table_open(&rows->table, &rows->file, rows->path, rows->width, error) && table_count(&rows->table, stream, error);
    rows->count = rows->table.count;
    return ok;
}

static bool open_pictures(Rows *rows, Error *error) {
    const bool label = rows->file.picture.label;
    rows->stored = (Stored){label ? STORED_I64 : STORED_U8, false};
    if (label && rows->width != 1)
        return error_set(error, EXIT_ENVIRONMENT, "%s: a picture has one label, and a row of the input %lld", rows->path,
                         (long long)rows->width);
    rows->pictures = pictures_open(&rows->file, error);
    rows->count = rows->pictures ? pictures_count(rows->pictures) : 0;
    return rows->pictures && pictures_look(rows->pictures, error);
}

void rows_close(Rows *rows) {
    if (!rows) return;
    pictures_close(rows->pictures);
    map_close(rows->map);
    if (rows->fd >= 0) close(rows->fd);
    table_close(&rows->table);
    figures_finish(&rows->given);
    free(rows->path);
    free(rows->held_row);
    free(rows->held);
    free(rows->scratch);
    free(rows);
}

/* Determines which rows are used: file->rows of them from file->first on. */
static bool use_part(Rows *rows, Error *error) {
    int64_t first = rows->file.first, wanted = rows->file.rows, there = rows->count > first ? rows->count - first : 0;
    rows->used = wanted > 0 ? wanted : there;
    if (rows->used > 0 && rows->used <= there) return true;
    char text[160];
    snprintf(text, sizeof text, "has %lld rows, and %lld from row %lld on are to be used", (long long)rows->count,
             (long long)(wanted > 0 ? wanted : 1), (long long)first);
    return rows_fail(rows, error, text);
}

/* Checks that the input may hold a number of the file. */
static bool number_fits(const Rows *rows, int64_t row, double value, Error *error) {
    char why[160], words[200];
    if (rows_value_fits(&rows->file, value, why, sizeof why)) return true;
    snprintf(words, sizeof words, "row %lld holds %s", (long long)row, why);
    return rows_fail(rows, error, words);
}

/* Spreads the change's means and deviations to each number of a row: there is one pair, or one per index of the first dimension. */
static bool spread_figures(Rows *rows, Error *error) {
    const RowChange *change = &rows->file.change;
    if (change->nmeans == 0) return true;
    const int64_t n = rows->width, each = (n + change->nmeans - 1) / change->nmeans;
    if (!figures_alloc(&rows->given, n)) return rows_fail(rows, error, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        rows->given.mean[i] = change->mean[i / each];
        rows->given.deviation[i] = change->deviation[i / each];
    }
    rows->figures = &rows->given;
    return true;
}

static Rows *rows_new(const RowFile *file, Error *error) {
    Rows *rows = calloc(1, sizeof *rows);
    const Shape *row = &file->row;
    if (rows) rows->fd = -1;
    if (rows) rows->path = malloc(strlen(file->path) + 1);
    if (!rows || !rows->path) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        rows_close(rows);
        return NULL;
    }
    memcpy(rows->path, file->path, strlen(file->path) + 1);
    rows->file = *file;
    rows->hot = file->change.one_hot && row->ndim > 0 && row->dim[row->ndim - 1] > 0 ? row->dim[row->ndim - 1] : 1;
    if (file->change.one_hot) rows->file.range = rows->hot;
    if (shape_count(row, &rows->elements) && (rows->width = rows->elements / rows->hot, spread_figures(rows, error))) return rows;
    if (error->code == 0) error_set(error, EXIT_ENVIRONMENT, "the row is too large");
    rows_close(rows);
    return NULL;
}

/* Whether both read the same texts, of which b has the ids and a may have another part. */
static bool same_texts(const RowFile *a, const RowFile *b, int64_t elements, int64_t other_elements) {
    const bool words = !a->vocabulary || !b->vocabulary ? a->vocabulary == b->vocabulary : strcmp(a->vocabulary, b->vocabulary) == 0;
    const bool headings = !a->heading || !b->heading ? a->heading == b->heading : strcmp(a->heading, b->heading) == 0;
    return a->format == FILE_CSV && b->format == FILE_CSV && a->tokens != TOKENS_NONE && b->tokens == TOKENS_IDS &&
           strcmp(a->path, b->path) == 0 && words && headings && a->first == b->first && a->rows == b->rows &&
           a->first_column == b->first_column && a->separator == b->separator && a->missing == b->missing && a->tokenizer == b->tokenizer &&
           a->lowercase == b->lowercase && elements == other_elements &&
           (a->tokens != TOKENS_IDS || (a->range == b->range && a->dtype == b->dtype));
}

Rows *rows_open_part(const RowFile *file, Rows *texts, Error *error) {
    int64_t elements;
    *error = (Error){0};
    if (texts->texts || !shape_count(&file->row, &elements) || !same_texts(file, &texts->file, elements, texts->elements)) return NULL;
    Rows *rows = rows_new(file, error);
    if (rows) rows->texts = texts;
    return rows;
}

/* Finds labels, tokens and other integers that the input may not hold before training. Looks at a mapped file for less than a second. */
static bool look_at_integers(Rows *rows, Error *error) {
    const RowFile *file = &rows->file;
    const double until = now_seconds() + 0.3;
    if (!rows->map || rows_any_value_fits(file) || (file->dtype == I64 && file->range == 0)) return true;
    const unsigned char *at = map_bytes(rows->map) + rows->begin + file->first * rows->row_bytes;
    for (int64_t i = 0; i < rows->used * rows->width && (i % 4096 > 0 || now_seconds() < until); i++, at += stored_bytes[rows->stored.kind])
        if (!number_fits(rows, file->first + i / rows->width, stored_element(at, rows->stored), error)) return false;
    return true;
}

Rows *rows_open(const RowFile *file, Error *error) {
    *error = (Error){0};
    Rows *rows = rows_new(file, error);
    if (!rows) return NULL;
    Error failure = {0};
    Stream *stream = file_has_pictures(file->format) ? NULL : stream_open(file->path, &failure);
    bool ok = file_has_pictures(file->format)
                  ? open_pictures(rows, &failure)
                  : stream && (file->format == FILE_CSV ? open_csv(rows, stream, &failure) : open_binary(rows, stream, &failure));
    if (ok && rows->count == 0) ok = rows_fail(rows, &failure, "has no rows");
    ok = ok && use_part(rows, &failure) && look_at_integers(rows, &failure);
    if (ok && stream) rows->file_bytes = stream_file_bytes(stream);
    if (ok && stream) rows->bytes_read = file->format == FILE_CSV ? stream_bytes_read(stream) : 0;
    stream_close(stream);
    if (ok) return rows;
    *error = failure;
    error_prefix(error, "input %s: ", file->input);
    rows_close(rows);
    return NULL;
}

int64_t rows_count(const Rows *rows) {
    return rows->texts ? rows->texts->used : rows->used;
}

void rows_describe(const Rows *rows, Text *text) {
    if (rows->texts) rows = rows->texts;
    const char *elements = rows->file.format == FILE_CSV ? "text" : file_element_name[rows->stored.kind];
    if (rows->pictures) {
        pictures_describe(rows->pictures, text);
        return;
    }
    text_printf(text, "%lld rows of %lld elements (%s) in %lld bytes", (long long)rows->count, (long long)rows->elements, elements,
                (long long)rows->file_bytes);
    if (rows->table.dropped > 0) text_printf(text, ", %lld more left out for a missing field", (long long)rows->table.dropped);
}

int64_t rows_all(const Rows *rows) {
    return rows->texts ? rows->texts->count : rows->count;
}

void rows_note(const Rows *rows, bool first, const char *labels, Text *text) {
    const int64_t dropped = rows_dropped(rows);
    const char *classes = rows->file.find_classes && rows->figures ? rows->figures->classes : NULL;
    if (classes) {
        enum { NAMED = 20 };
        int n = 0;
        text_printf(text, "input %s: classes", rows->file.input);
        for (const char *at = classes; *at && n < NAMED; n++) {
            const int length = (int)strcspn(at, "\n");
            text_printf(text, "%s %d %.*s", n ? "," : "", n, length, at);
            at += length + (at[length] == '\n');
        }
        text_printf(text, "%s\n", n == NAMED ? ", .." : "");
    }
    if (first && rows->pictures) pictures_note(rows->pictures, labels, text);
    if (first && dropped > 0)
        text_printf(text, "%s: %lld of %lld rows %s left out: a field is missing\n", rows->path, (long long)dropped,
                    (long long)(dropped + rows_all(rows)), dropped == 1 ? "is" : "are");
}

int64_t rows_dropped(const Rows *rows) {
    return rows->texts ? rows->texts->table.dropped : rows->table.dropped;
}

bool rows_streamed(const Rows *rows) {
    return rows->texts || rows->streamed;
}

int64_t rows_bytes_read(const Rows *rows) {
    return rows->pictures ? pictures_bytes_read(rows->pictures) : rows->bytes_read;
}

int64_t rows_bytes_held(const Rows *rows) {
    return rows->nheld * rows->row_bytes;
}

double rows_bytes_of(const Rows *rows, int64_t n) {
    return rows->streamed ? (double)n * (double)(rows->row_bytes + (int64_t)sizeof *rows->held_row) : 0;
}

void rows_where(const Rows *rows, int64_t row, int64_t element, Text *text) {
    if (rows->texts) rows = rows->texts;
    row += rows->file.first;
    element /= rows->hot;
    if (rows->pictures) {
        text_printf(text, ": ");
        pictures_where(rows->pictures, row, text);
        text_printf(text, ", element %lld", (long long)element);
        return;
    }
    if (rows->file.format != FILE_CSV) {
        text_printf(text, ": %s, row %lld (from 0), element %lld", rows->path, (long long)row, (long long)element);
        return;
    }
    table_where(&rows->table, row, element, text);
}

/* ---------------------------------------------------------------- holding */

static int64_t find_held(const Rows *rows, int64_t row) {
    int64_t low = 0, high = rows->nheld;
    if (high > 0 && rows->held_row[high - 1] - rows->held_row[0] == high - 1) /* all consecutive */
        return row >= rows->held_row[0] && row <= rows->held_row[high - 1] ? row - rows->held_row[0] : -1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (rows->held_row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rows->nheld && rows->held_row[low] == row ? low : -1;
}

static bool stream_binary(Rows *rows, Stream *stream, const int64_t *row, int64_t n, unsigned char *bytes, RowSink *sink, void *context,
                          Error *error) {
    int64_t at = 0; /* the next row of the stream */
    if (!stream_read(stream, NULL, rows->begin, error)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (!stream_read(stream, NULL, (row[i] - at) * rows->row_bytes, error)) return false;
        if (!stream_read(stream, bytes, rows->row_bytes, error)) return false;
        sink(context, i, bytes);
        at = row[i] + 1;
    }
    /* The rest is read too: so damage anywhere is found in the first epoch, and on every rank. */
    bool at_end;
    if (!stream_read(stream, NULL, (rows->count - at) * rows->row_bytes, error)) return false;
    if (rows->file.format == FILE_RAW) return true; /* a last row may not be whole */
    return stream_at_end(stream, &at_end, error) && (at_end || rows_fail(rows, error, "has more bytes than its header says"));
}

/* Passes the rows of the file with these numbers, ascending, to the sink. */
static bool stream_rows(Rows *rows, const int64_t *row, int64_t n, RowSink *sink, bool shared, void *context, Error *error) {
    Error failure = {0};
    Stream *stream = stream_open(rows->path, &failure);
    unsigned char *bytes = malloc((size_t)rows->row_bytes + 1);
    bool ok = stream && (bytes || rows_fail(rows, &failure, "out of memory"));
    if (ok && rows->file.format == FILE_CSV)
        ok = table_read(&rows->table, stream, row, n, sink, shared, context, &failure);
    else if (ok)
        ok = stream_binary(rows, stream, row, n, bytes, sink, context, &failure);
    if (stream) rows->bytes_read += stream_bytes_read(stream);
    stream_close(stream);
    free(bytes);
    if (ok) return true;
    *error = failure;
    return error_prefix(error, "input %s: ", rows->file.input);
}

static void hold_row(void *context, int64_t i, const void *row) {
    const Rows *rows = context;
    memcpy(rows->held + i * rows->row_bytes, row, (size_t)rows->row_bytes);
}

bool rows_hold(Rows *rows, const int64_t *row, int64_t n, Error *error) {
    if (rows->texts) return rows_hold(rows->texts, row, n, error);
    if (!rows->streamed) return true;
    bool there = n <= rows->nheld;
    for (int64_t i = 0; there && i < n; i++)
        there = find_held(rows, rows->file.first + row[i]) >= 0;
    if (there) return true;
    free(rows->held);
    free(rows->held_row);
    rows->nheld = 0;
    rows->held = NULL;
    rows->held_row = malloc((size_t)n * sizeof *rows->held_row + 1);
    for (int64_t i = 0; rows->held_row && i < n; i++)
        rows->held_row[i] = rows->file.first + row[i];
    if (rows->held_row && rows->file.format == FILE_CSV) rows->held = table_take_early(&rows->table, rows->held_row, n);
    const bool parsed = rows->held != NULL;
    if (!parsed) rows->held = malloc((size_t)(n * rows->row_bytes) + 1);
    if (!rows->held || !rows->held_row)
        return error_set(error, EXIT_ENVIRONMENT, "input %s: %s: out of memory for a rank's rows", rows->file.input, rows->path);
    if (!parsed && !stream_rows(rows, rows->held_row, n, hold_row, true, rows, error)) return false;
    rows->nheld = n;
    return true;
}

/* ---------------------------------------------------------------- figures */

bool rows_need_figures(const Rows *rows) {
    const RowFile *file = &rows->file;
    if (file->format == FILE_PICTURES) return file->picture.label && !file->classes;
    return file->change.standardize || (file->format == FILE_CSV && (file->missing == MISSING_MEAN || file->find_classes));
}

void rows_set_figures(Rows *rows, const Figures *figures) {
    rows->figures = figures;
    rows->table.figures = figures;
}

bool rows_know(Rows *rows, Error *error) {
    Error failure = {0};
    if (!rows->figures->classes) return true;
    if (rows->pictures) return pictures_know(rows->pictures, rows->figures->classes, error);
    Stream *stream = stream_open(rows->path, &failure);
    const bool ok = stream && table_know(&rows->table, stream, &failure);
    stream_close(stream);
    if (ok) return true;
    *error = failure;
    return error_prefix(error, "input %s: ", rows->file.input);
}

int64_t rows_width(const Rows *rows) {
    return rows->width;
}

static double number_of(const Rows *rows, const void *row, int64_t i) {
    if (rows->file.format == FILE_CSV) return ((const double *)row)[i];
    return stored_element((const unsigned char *)row + i * stored_bytes[rows->stored.kind], rows->stored);
}

/* Welford 1962: mean and sum of squared distances, row by row. */
typedef struct Finding {
    const Rows *rows;
    Figures *figures;
    int64_t *seen; /* for each number of a row, how many were not missing */
    double scale;
    int64_t infinite_row, infinite_at; /* the first infinite number; row -1: none */
} Finding;

static void find_row(void *context, int64_t i, const void *row) {
    Finding *finding = context;
    for (int64_t k = 0; k < finding->figures->n; k++) {
        const double number = number_of(finding->rows, row, k) * finding->scale;
        if (isnan(number)) continue;
        if (isinf(number) && finding->infinite_row < 0) finding->infinite_row = i, finding->infinite_at = k;
        const double far = number - finding->figures->mean[k];
        finding->figures->mean[k] += far / (double)++finding->seen[k];
        finding->figures->deviation[k] += far * (number - finding->figures->mean[k]);
    }
}

static bool find_classes(Rows *rows, Figures *figures, Error *error) {
    Error failure = {0};
    Stream *stream = stream_open(rows->path, &failure);
    figures->classes = stream ? table_find_classes(&rows->table, stream, &failure) : NULL;
    stream_close(stream);
    if (figures->classes) return true;
    *error = failure;
    return error_prefix(error, "input %s: ", rows->file.input);
}

static bool fails_infinite(const Rows *rows, int64_t row, int64_t element, Error *error) {
    Text where = {0};
    rows_where(rows, row, element, &where);
    error_set(error, EXIT_ENVIRONMENT, "input %s%s: the number is infinite: its column has no mean", rows->file.input, where.at);
    return text_finish(&where), false;
}

bool rows_find_figures(Rows *rows, const int64_t *row, int64_t n, Figures *figures, Error *error) {
    if (rows->file.find_classes) return find_classes(rows, figures, error);
    if (rows->pictures) return (figures->classes = pictures_classes(rows->pictures)) || rows_fail(rows, error, "out of memory");
    Finding finding = {rows, figures, calloc((size_t)rows->width + 1, sizeof *finding.seen), change_scale(&rows->file.change), -1, 0};
    int64_t *own = malloc((size_t)n * sizeof *own + 1); /* numbered as in the file */
    bool ok = (finding.seen && own && figures_alloc(figures, rows->width)) || rows_fail(rows, error, "out of memory");
    for (int64_t i = 0; ok && i < n; i++)
        own[i] = rows->file.first + row[i];
    if (ok) {
        memset(figures->mean, 0, (size_t)rows->width * sizeof *figures->mean);
        memset(figures->deviation, 0, (size_t)rows->width * sizeof *figures->deviation);
        ok = stream_rows(rows, own, n, find_row, false, &finding, error);
    }
    if (ok && finding.infinite_row >= 0) ok = fails_infinite(rows, row[finding.infinite_row], finding.infinite_at, error);
    for (int64_t k = 0; ok && k < rows->width; k++) {
        figures->deviation[k] = finding.seen[k] > 0 ? sqrt(figures->deviation[k] / (double)finding.seen[k]) : 0;
        if (!(figures->deviation[k] > 0)) figures->deviation[k] = 1;
        if (finding.seen[k] > 0 && isfinite(figures->mean[k]) && isfinite(figures->deviation[k])) continue;
        char text[160];
        snprintf(text, sizeof text, "number %lld of a row %s in the rows of training: it has no mean", (long long)k,
                 finding.seen[k] > 0 ? "is too large" : "is nowhere");
        rows_fail(rows, error, text);
        ok = error_prefix(error, "input %s: ", rows->file.input);
    }
    free(finding.seen);
    free(own);
    if (!ok) figures_finish(figures);
    return ok;
}

/* ---------------------------------------------------------------- reading */

/* A picture's elements, or its label. */
static const unsigned char *picture_bytes(Rows *rows, int64_t row, int64_t epoch, int64_t offset, Error *error) {
    int64_t label;
    if (!rows->file.picture.label) {
        const unsigned char *elements = pictures_read(rows->pictures, row, epoch, error);
        return elements ? elements + offset : NULL;
    }
    if (!pictures_label(rows->pictures, row, rows->figures ? rows->figures->classes : NULL, &label, error)) return NULL;
    for (size_t i = 0; i < sizeof rows->label; i++)
        rows->label[i] = (unsigned char)(label >> 8 * i);
    return rows->label;
}

/* Reads `bytes` bytes of the file from `begin` on. */
static bool read_file(Rows *rows, int64_t begin, int64_t bytes, void *to, Error *error) {
    for (int64_t done = 0; done < bytes;) {
        ssize_t got = pread(rows->fd, (char *)to + done, (size_t)(bytes - done), (off_t)(begin + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return rows_fail(rows, error, got < 0 ? strerror(errno) : "has become shorter");
        done += got;
    }
    return true;
}

bool rows_check(const Rows *rows, Error *error) {
    struct stat status;
    if (!rows->map) return true;
    const bool there = fstat(rows->fd, &status) == 0, whole = there && status.st_size >= rows->begin + rows->count * rows->row_bytes;
    if (whole && map_is_sound(rows->map)) return true;
    rows_fail(rows, error, !there ? strerror(errno) : !whole ? "has become shorter" : "has become shorter for a while, or cannot be read");
    return error_prefix(error, "input %s: ", rows->file.input);
}

/* The stored bytes of a part of a row, or NULL. In a file with random access the part may extend into the next rows. */
static const unsigned char *part_bytes(Rows *rows, int64_t row, int64_t epoch, int64_t offset, int64_t bytes, Error *error) {
    if (rows->pictures) return picture_bytes(rows, row, epoch, offset, error);
    if (rows->streamed) {
        int64_t at = find_held(rows, row);
        if (at < 0) return error_set(error, EXIT_INTERNAL, "row %lld is not held", (long long)row), NULL;
        return rows->held + at * rows->row_bytes + offset;
    }
    const int64_t begin = rows->begin + row * rows->row_bytes + offset;
    rows->bytes_read += bytes;
    if (rows->map) return map_bytes(rows->map) + begin;
    if ((size_t)bytes > rows->scratch_bytes) {
        unsigned char *scratch = realloc(rows->scratch, (size_t)bytes);
        if (!scratch) return rows_fail(rows, error, "out of memory"), NULL;
        rows->scratch = scratch;
        rows->scratch_bytes = (size_t)bytes;
    }
    return read_file(rows, begin, bytes, rows->scratch, error) ? rows->scratch : NULL;
}

/* The number of a row's tokens, followed by the tokens; another input may have read them. */
static const int32_t *tokens_of(Rows *rows, int64_t row, Error *error) {
    Rows *texts = rows->texts ? rows->texts : rows;
    const unsigned char *from = part_bytes(texts, row, 0, 0, texts->row_bytes, error);
    if (!from) error_prefix(error, "input %s: ", rows->file.input);
    return (const void *)from;
}

int64_t rows_tokens(Rows *rows, int64_t row, Error *error) {
    if (rows->file.tokens == TOKENS_NONE || row < 0 || row >= rows_count(rows))
        return error_set(error, EXIT_INTERNAL, "input %s has no text in row %lld", rows->file.input, (long long)row), -1;
    const int32_t *used = tokens_of(rows, row + rows->file.first, error);
    return used ? *used : -1;
}

static bool read_tokens(Rows *rows, int64_t row, int64_t first, int64_t n, void *to, Error *error) {
    const int32_t *used = tokens_of(rows, row, error), *ids = used + 1;
    if (!used) return false;
    const TokenPart part = rows->file.tokens;
    for (int64_t i = 0; i < n; i++)
        element_put(to, rows->file.dtype, i, part == TOKENS_IDS ? ids[first + i] : part == TOKENS_MASK ? first + i < *used : 0);
    return true;
}

/* The input's element made from a number of the file. */
static double changed(const Rows *rows, double number, int64_t element) {
    const RowChange *change = &rows->file.change;
    if (change->one_hot) return number == (double)(element % rows->hot);
    const Figures *figures = rows->figures;
    number = isnan(number) && rows->file.missing == MISSING_MEAN && figures ? figures->mean[element] : number * change_scale(change);
    return figures && (change->standardize || change->nmeans > 0) ? (number - figures->mean[element]) / figures->deviation[element]
                                                                  : number;
}

/* Converts bytes to f32, by a table of the 256 values of a channel where that pays. */
static void read_bytes(const Rows *rows, const unsigned char *from, int64_t first, int64_t n, float *to) {
    const int nmeans = rows->file.change.nmeans > 0 ? rows->file.change.nmeans : 1;
    const int64_t each = (rows->width + nmeans - 1) / nmeans;
    float of_byte[256];
    for (int64_t i = 0; i < n;) {
        const int64_t channel = (first + i) / each, end = (channel + 1) * each - first < n ? (channel + 1) * each - first : n;
        const bool few = end - i < 256;
        for (int byte = 0; !few && byte < 256; byte++)
            of_byte[byte] = (float)changed(rows, byte, first + i);
        for (; i < end; i++)
            to[i] = few ? (float)changed(rows, from[i], first + i) : of_byte[from[i]];
    }
}

/* Some numbers are infinite in the input: whether they are so in the file too. */
static bool are_infinite(const Rows *rows, int64_t row, const unsigned char *from, int64_t first, int64_t n, Error *error) {
    for (int64_t i = 0; i < n; i++) {
        const double value = number_of(rows, from, i), number = changed(rows, value, first + i);
        if (!isfinite(value) || fabs(number) < dtype_beyond(rows->file.dtype)) continue;
        Text text = {0};
        rows_where(rows, row - rows->file.first, first + i, &text);
        text_printf(&text, ": ");
        rows_say_beyond(&rows->file, value, number, &text);
        error_set(error, EXIT_ENVIRONMENT, "input %s%s", rows->file.input, text.at);
        return text_finish(&text), false;
    }
    return true;
}

/* Converts numbers to real ones, without one_hot. */
static bool read_floats(const Rows *rows, int64_t row, const unsigned char *from, int64_t first, int64_t n, void *to, Error *error) {
    const RowFile *file = &rows->file;
    const bool text = file->format == FILE_CSV, plain = file->change.scale == 0 && !rows->figures;
    if (plain && !text && stored_is_native(rows->stored, file->dtype)) {
        memcpy(to, from, (size_t)(n * stored_bytes[rows->stored.kind]));
        return true;
    }
    if (plain && text && file->dtype == F32) { /* the parser has checked them */
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = (float)((const double *)(const void *)from)[i];
        return true;
    }
    const double beyond = dtype_beyond(file->dtype);
    bool infinite = false;
    for (int64_t i = 0; i < n; i++) {
        const double value = number_of(rows, from, i), number = plain ? value : changed(rows, value, first + i);
        infinite |= fabs(number) >= beyond;
        if (file->dtype == F32)
            ((float *)to)[i] = (float)number;
        else
            element_put(to, file->dtype, i, number);
    }
    return !infinite || are_infinite(rows, row, from, first, n, error);
}

static int64_t number_bytes(const Rows *rows) {
    return rows->file.format == FILE_CSV ? (int64_t)sizeof(double) : stored_bytes[rows->stored.kind];
}

/* Makes elements [first, first + n) of a row (numbered as in the file) from the numbers at `from`. */
static bool convert(const Rows *rows, int64_t row, const unsigned char *from, int64_t first, int64_t n, void *to, Error *error) {
    const RowFile *file = &rows->file;
    const bool text = file->format == FILE_CSV;
    const int64_t bytes = number_bytes(rows), begin = first / rows->hot;
    if (rows->stored.kind == STORED_U8 && !text && file->dtype == F32 && file->range == 0 && !file->change.standardize) {
        read_bytes(rows, from, first, n, to);
        return true;
    }
    if (rows_any_value_fits(file)) return read_floats(rows, row, from, first, n, to, error);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *at = from + ((first + i) / rows->hot - begin) * bytes;
        const double value = text ? *(const double *)(const void *)at : stored_element(at, rows->stored);
        if (file->dtype == I64 && !text && stored_is_integer(rows->stored) && file->range == 0) {
            ((int64_t *)to)[i] = stored_integer(at, rows->stored);
            continue;
        }
        if (!number_fits(rows, row, value, error)) return error_prefix(error, "input %s: ", file->input);
        element_put(to, file->dtype, i, changed(rows, value, first + i));
    }
    return true;
}

static bool check_read(const Rows *rows, int64_t row, int64_t n, Error *error) {
    if (row < 0 || n < 0 || row + n > rows_count(rows))
        return error_set(error, EXIT_INTERNAL, "input %s has no row %lld", rows->file.input, (long long)row);
    if (rows_need_figures(rows) && !rows->pictures && (!rows->figures || !figures_found(rows->figures)))
        return error_set(error, EXIT_INTERNAL, "input %s: the means of its rows are not known", rows->file.input);
    return true;
}

bool rows_read(Rows *rows, int64_t row, int64_t epoch, int64_t first, int64_t n, void *to, Error *error) {
    const int64_t bytes = number_bytes(rows), begin = first / rows->hot, end = (first + n - 1) / rows->hot + 1;
    if (!check_read(rows, row, 1, error)) return false;
    if (first < 0 || n < 0 || first + n > rows->elements)
        return error_set(error, EXIT_INTERNAL, "input %s has rows of fewer elements", rows->file.input);
    row += rows->file.first;
    if (n == 0) return true;
    if (rows->file.tokens != TOKENS_NONE) return read_tokens(rows, row, first, n, to, error);
    const unsigned char *from = part_bytes(rows, row, epoch, begin * bytes, (end - begin) * bytes, error);
    if (!from) return error_prefix(error, "input %s: ", rows->file.input);
    return convert(rows, row, from, first, n, to, error);
}

/* Whether a row is stored in the file as the input has it. */
static bool is_plain(const Rows *rows) {
    const RowFile *file = &rows->file;
    return rows->hot == 1 && file->range == 0 && file->change.scale == 0 && !rows->figures && stored_is_native(rows->stored, file->dtype);
}

/* Reads n whole rows that are consecutive in the file. */
static bool read_run(Rows *rows, int64_t row, int64_t epoch, int64_t n, void *to, Error *error) {
    const int64_t bytes = rows->elements * dtype_bytes[rows->file.dtype];
    char *at = to;
    if (!check_read(rows, row, n, error)) return false;
    row += rows->file.first;
    if (is_plain(rows) && !rows->map) {
        rows->bytes_read += n * bytes;
        return read_file(rows, rows->begin + row * rows->row_bytes, n * bytes, to, error) ||
               error_prefix(error, "input %s: ", rows->file.input);
    }
    const unsigned char *from = part_bytes(rows, row, epoch, 0, n * rows->row_bytes, error);
    if (!from) return error_prefix(error, "input %s: ", rows->file.input);
    if (is_plain(rows)) memcpy(to, from, (size_t)(n * bytes));
    if (is_plain(rows)) return true;
    for (int64_t i = 0; i < n; i++, from += rows->row_bytes, at += bytes)
        if (!convert(rows, row + i, from, 0, rows->elements, at, error)) return false;
    return true;
}

/* Prefetches a row that is read soon: where the order is random, the processor cannot predict it. */
static void expect(const Rows *rows, int64_t row) {
    enum { LINE = 64, MOST_BYTES = 2048 /* the rest it predicts */ };
    if (!rows->map || row < 0 || row >= rows->used) return;
    const unsigned char *at = map_bytes(rows->map) + rows->begin + (row + rows->file.first) * rows->row_bytes;
    for (int64_t i = 0; i < rows->row_bytes && i < MOST_BYTES; i += LINE)
        __builtin_prefetch(at + i);
}

bool rows_read_whole(Rows *rows, const int64_t *row, int64_t n, int64_t epoch, void *to, Error *error) {
    enum { AHEAD = 2 };
    const int64_t bytes = rows->elements * dtype_bytes[rows->file.dtype];
    const bool random_access = rows->fd >= 0 && rows->elements > 0;
    for (int64_t i = 0, run = 1; i < n; i += run, run = 1) {
        char *at = (char *)to + i * bytes;
        while (random_access && i + run < n && row[i + run] == row[i] + run)
            run++;
        if (i + run + AHEAD <= n) expect(rows, row[i + run + AHEAD - 1]);
        const bool ok =
            random_access ? read_run(rows, row[i], epoch, run, at, error) : rows_read(rows, row[i], epoch, 0, rows->elements, at, error);
        if (!ok) return false;
    }
    return true;
}
