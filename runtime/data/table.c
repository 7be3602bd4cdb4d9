/* table: see table.h. csv.c splits a record into fields; this file handles the columns of an input, replacement of missing fields, labels by name, and texts as tokens. */
#include "runtime/data/table.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/tokens.h"
#include "runtime/data/wordpiece.h"
#include "ir/limits.h"
#include "ir/pool.h"

/* Sets *error to what is wrong at a place of a record. */
static bool fail_at(const Table *table, const Record *record, const char *at, Error *error, const char *what) {
    int64_t line, column;
    csv_place(record, at, &line, &column);
    Text text = {0};
    text_printf(&text, "%s:%lld:%lld: %s", table->path, (long long)line, (long long)column, what);
    text_printable(text.at); /* replaces control characters of the file */
    error_set(error, EXIT_ENVIRONMENT, "%s", text.at);
    text_finish(&text);
    return false;
}

/* How many bytes of a field a message shows. */
static int shown(const Field *field) {
    return (int)(field->n < 40 ? field->n : 40);
}

/* ---------------------------------------------------------------- the first line */

static int64_t width(const Table *table) {
    return table->tokens ? 1 : table->elements;
}

static bool unknown_column(const Table *table, const Record *record, Error *error) {
    enum { NAMED = 12 };
    Text text = {0};
    const char *at = NULL;
    Field field;
    text_printf(&text, "there is no column '%s': the first line has", table->file->heading);
    int n = 0;
    for (; csv_field(record, table->separator, &at, &field); n++)
        if (n < NAMED) text_printf(&text, "%s %.*s", n ? "," : "", shown(&field), field.text);
    if (n > NAMED) text_printf(&text, " and %d more", n - NAMED);
    fail_at(table, record, record->text, error, text.at);
    text_finish(&text);
    return false;
}

/* Finds the separator, the number of columns, whether the line names them (none of its fields is a number, or the net says so), and which the input has. */
static bool begin(Table *table, const Record *record, Error *error) {
    const char *at = NULL, *heading = table->file->heading;
    Field field;
    double number;
    bool found = !heading;
    table->separator = table->file->separator ? table->file->separator : csv_separator(record);
    table->columns = 0;
    table->headed = true;
    table->first_column = table->file->first_column;
    for (; csv_field(record, table->separator, &at, &field); table->columns++) {
        if (!heading && csv_number(&field, &number)) table->headed = false;
        if (!heading || !csv_is(&field, heading)) continue;
        if (found)
            return fail_at(table, record, field.begin, error,
                           "a column before this one has the same name: the net must say its number, counted from 0");
        found = true;
        table->first_column += table->columns;
    }
    if (!found) return unknown_column(table, record, error);
    const int64_t asked = table->first_column;
    if (table->first_column < 0) table->first_column += table->columns;
    if (table->first_column >= 0 && table->first_column <= table->columns - width(table)) return true;
    char text[160];
    snprintf(text, sizeof text, "%lld column%s, and the input takes %lld from column %lld on", (long long)table->columns,
             table->columns == 1 ? "" : "s", (long long)width(table), (long long)(table->first_column < 0 ? asked : table->first_column));
    return fail_at(table, record, record->text, error, text);
}

/* ---------------------------------------------------------------- records */

/* An empty field, or a word that means a missing value: those of pandas.read_csv that cannot be meant as text or numbers. */
static bool is_missing(const Field *field) {
    static const char *const word[] = {"NA", "N/A", "NaN", "nan", "null", "NULL"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (csv_is(field, word[i])) return true;
    return field->n == 0 && !field->broken;
}

static bool lacks_field(const Record *record, int separator) {
    Field field;
    for (const char *at = NULL; csv_field(record, separator, &at, &field);)
        if (is_missing(&field)) return true;
    return false;
}

enum { MOST_THREADS = 16, THREAD_CHUNKS = 4 };
/* Per-thread state of a pass. */
typedef struct Worker {
    int64_t next; /* index of the next wanted row */
    void *parsed; /* room for a row */
} Worker;

/* A part of a block; one thread reads it. */
typedef struct Chunk {
    Lines lines;
    int64_t row; /* the number of the first row in lines */
    int64_t nlines, nrows;
    Error error;
} Chunk;

/* A pass over the file. fn is called for each record that is a row, with the row's number; it need not parse rows that it does not want. */
typedef bool RecordFn(const Table *table, const Record *record, int64_t row, Worker *worker, void *context, Error *error);
typedef struct Pass {
    RecordFn *fn;
    void *context;
    bool shared;                                              /* threads may call fn at the same time, each for consecutive rows */
    void (*before)(Table *table, int64_t end, void *context); /* called before fn gets the next rows, which end before `end`; may be NULL */
    Table *table;
    int nworkers, nchunks;
    Worker worker[MOST_THREADS];
    Chunk chunk[MOST_THREADS * THREAD_CHUNKS];
    Stream *stream;
    double begin_s, say_s; /* when it began; when it next prints its progress */
    atomic_int taken;      /* chunks that threads have taken */
} Pass;

static void count_lines(void *context, int64_t begin, int64_t end) {
    Pass *pass = context;
    for (Chunk *chunk = pass->chunk + begin; chunk < pass->chunk + end; chunk++) {
        chunk->nlines = chunk->nrows = 0;
        for (const char *at = chunk->lines.at, *stop; at < chunk->lines.end; at = stop + 1, chunk->nlines++) {
            stop = memchr(at, '\n', (size_t)(chunk->lines.end - at));
            chunk->nrows += !csv_is_empty(&(Record){.text = at, .n = (size_t)(stop - at)}, pass->table->separator);
        }
    }
}

static void read_lines(Pass *pass, Chunk *chunk, Worker *worker) {
    int64_t row = chunk->row;
    bool ok = true;
    chunk->error.code = 0;
    for (Record record; ok && lines_next(&chunk->lines, &record);)
        if (!csv_is_empty(&record, pass->table->separator))
            ok = pass->fn(pass->table, &record, row++, worker, pass->context, &chunk->error);
}

/* A thread takes chunks as long as there are any. The first thread reads the next block before, which takes as long as a few chunks. */
static void take_chunks(void *context, int64_t begin, int64_t end) {
    Pass *pass = context;
    if (begin == 0 && pass->nworkers > 1) stream_read_ahead(pass->stream);
    for (int i; (i = atomic_fetch_add_explicit(&pass->taken, 1, memory_order_relaxed)) < pass->nchunks;)
        read_lines(pass, &pass->chunk[i], &pass->worker[begin]);
    (void)end;
}

/* Reads the lines of a block, in chunks. */
static bool read_block(Pass *pass, Pool *pool, const Lines *lines, int64_t *nlines, int64_t *row, Error *error) {
    pass->nchunks = pass->nworkers > 1 ? pass->nworkers * THREAD_CHUNKS : 1;
    const int64_t each = (lines->end - lines->at) / pass->nchunks;
    char *at = lines->at;
    for (int i = 0; i < pass->nchunks; i++) {
        char *end = i + 1 < pass->nchunks && lines->at + (i + 1) * each > at ? lines->at + (i + 1) * each : at;
        if (i + 1 == pass->nchunks) end = lines->end;
        while (end > at && end[-1] != '\n')
            end++;
        pass->chunk[i].lines = (Lines){at, end, 0};
        at = end;
    }
    pool_run(pool, pass->nchunks, 1, count_lines, pass);
    *nlines = 0;
    for (Chunk *chunk = pass->chunk; chunk < pass->chunk + pass->nchunks; chunk++) {
        chunk->lines.line = lines->line + *nlines;
        chunk->row = *row;
        *nlines += chunk->nlines;
        *row += chunk->nrows;
    }
    if (pass->before) pass->before(pass->table, *row, pass->context);
    atomic_store_explicit(&pass->taken, 0, memory_order_relaxed);
    pool_run(pool, pass->nworkers, 1, take_chunks, pass);
    for (const Chunk *chunk = pass->chunk; chunk < pass->chunk + pass->nchunks; chunk++) {
        if (chunk->error.code == 0) continue;
        *error = chunk->error;
        return false;
    }
    return true;
}

/* Prints the progress of a pass that takes longer than a second, on stderr. */
static void say_progress(Pass *pass) {
    enum { EVERY_S = 10 };
    const RowFile *file = pass->table->file;
    const double now = now_seconds(), bytes = (double)stream_file_bytes(pass->stream);
    if (!file->says || !*file->says || now < pass->say_s) return;
    Text text = {0};
    text_printf(&text, "prun: note: input %s: reading %s: %.0f %% of %.1f MB in %.0f s", file->input, pass->table->path,
                100 * (double)stream_bytes_read(pass->stream) / bytes, bytes / 1e6, now - pass->begin_s);
    text_printable(text.at);
    fprintf(stderr, "%s\n", text.at);
    text_finish(&text);
    pass->say_s = now + EVERY_S;
}

static bool each_record_by(Pass *pass, Pool *pool, Stream *stream, int64_t *row, Error *error) {
    Table *table = pass->table;
    int separator = table->file->separator;
    const bool whole = pass->shared && table->file->missing != MISSING_DROP; /* whether a line is a row can be told without its fields */
    enum { CLOCK_EVERY = 64 };
    bool begun = false;
    Record record;
    for (Lines lines;;) {
        int64_t nlines;
        if (begun && whole && stream_lines(stream, &lines)) {
            if (!read_block(pass, pool, &lines, &nlines, row, error)) return false;
            stream_pass_lines(stream, nlines);
            say_progress(pass);
            continue;
        }
        if (*row % CLOCK_EVERY == 0) say_progress(pass);
        if (!stream_record(stream, separator, &record, error)) return error->code == 0;
        if (csv_is_empty(&record, separator)) continue;
        if (!begun) {
            if (!begin(table, &record, error)) return false;
            begun = true;
            separator = table->separator;
            if (table->headed) continue;
        }
        if (table->file->missing == MISSING_DROP && lacks_field(&record, separator)) {
            table->dropped++;
            continue;
        }
        if (pass->before) pass->before(table, *row + 1, pass->context);
        if (!pass->fn(table, &record, (*row)++, pass->worker, pass->context, error)) return false;
    }
}

/* Runs a pass; *rows: how many rows the file has. */
static bool each_record(Table *table, Stream *stream, Pass *pass, int64_t *rows, Error *error) {
    enum { FEW_BYTES = 1 << 20 };
    int64_t bytes = 0;
    Error none;
    const int threads = pass->shared && stream_file_bytes(stream) > FEW_BYTES ? table->file->threads : 1;
    Pool *pool =
        threads > 1 ? pool_create(threads < MOST_THREADS ? threads : MOST_THREADS, &none) : NULL; /* NULL: slower, but no failure */
    bool ok = table_row_bytes(table->file, table->elements, &bytes);
    pass->table = table;
    pass->stream = stream;
    pass->begin_s = now_seconds();
    pass->say_s = pass->begin_s + 1;
    pass->nworkers = pool_threads(pool);
    for (int i = 0; i < pass->nworkers; i++) {
        pass->worker[i] = (Worker){.parsed = malloc((size_t)bytes + 1)};
        ok = ok && pass->worker[i].parsed;
    }
    table->dropped = *rows = 0;
    ok = ok ? each_record_by(pass, pool, stream, rows, error)
            : error_set(error, EXIT_ENVIRONMENT, "%s: out of memory for a row", table->path);
    for (int i = 0; i < pass->nworkers; i++)
        free(pass->worker[i].parsed);
    pool_destroy(pool);
    return ok;
}

/* ---------------------------------------------------------------- fields */

static const char BROKEN[] = "a field in quotes with more behind it";

/* The position of a field among the names of labels, one a line; -1: it is none of them. */
static int label_of(const Field *field, const char *classes) {
    char name[MAX_CLASS_BYTES];
    int label = 0;
    for (const char *at = classes; *at; label++) {
        const size_t n = strcspn(at, "\n");
        if (n < sizeof name) {
            memcpy(name, at, n);
            name[n] = '\0';
            if (csv_is(field, name)) return label;
        }
        at += n + (at[n] == '\n');
    }
    return -1;
}

/* The names of labels, if fields are names; NULL: they are not. */
static const char *classes_of(const Table *table) {
    return table->figures && table->figures->classes ? table->figures->classes : table->file->classes;
}

/* "column 2", or with the name in the first line "column 2 'kind'". For an error message: the file is opened again. */
static void put_column(const Table *table, int64_t column, Text *text) {
    Error ignored;
    Record record;
    Field field;
    const char *at = NULL;
    text_printf(text, "column %lld", (long long)column);
    Stream *stream = table->headed ? stream_open(table->path, &ignored) : NULL;
    bool there = stream && stream_record(stream, table->separator, &record, &ignored);
    while (there && csv_is_empty(&record, table->separator))
        there = stream_record(stream, table->separator, &record, &ignored);
    for (int64_t i = 0; there && i <= column; i++)
        there = csv_field(&record, table->separator, &at, &field);
    if (there) text_printf(text, " '%.*s'", shown(&field), field.text);
    stream_close(stream);
}

/* Sets *error for a field: what it is (`words`), its column in brackets, then `more`. */
static bool fail_field(const Table *table, const Record *record, const Field *field, int64_t column, const char *words, const char *more,
                       Error *error) {
    Text text = {0};
    text_printf(&text, "'%.*s' is %s (", shown(field), field->text, words);
    put_column(table, column, &text);
    text_printf(&text, ")%s", more);
    fail_at(table, record, field->text, error, text.at);
    text_finish(&text);
    return false;
}

static bool fail_missing(const Table *table, const Record *record, const Field *field, int64_t column, const char *words, Error *error) {
    Text text = {0};
    put_column(table, column, &text);
    text_printf(&text, " %s", words);
    fail_at(table, record, field->begin, error, text.at);
    text_finish(&text);
    return false;
}

static bool fail_class(const Table *table, const Record *record, const Field *field, int64_t column, const char *classes, Error *error) {
    enum { NAMED = 8 };
    Text names = {0};
    int n = 0;
    for (const char *at = classes; *at && n < NAMED; n++) {
        const int length = (int)strcspn(at, "\n");
        text_printf(&names, "%s %.*s", n ? "," : ", which are", length, at);
        at += length + (at[length] == '\n');
    }
    text_printf(&names, "%s", n == NAMED ? ", .." : "");
    fail_field(table, record, field, column, "none of the classes", names.at, error);
    text_finish(&names);
    return false;
}

static bool parse_number(const Table *table, const Record *record, const Field *field, int64_t column, double *value, Error *error) {
    const RowFile *file = table->file;
    const bool missing = file->missing == MISSING_ERROR ? field->n == 0 && !field->broken : is_missing(field);
    if (missing && file->missing >= MISSING_MEAN) {
        *value = file->missing == MISSING_FILL ? file->fill : (double)NAN;
        return true;
    }
    if (missing)
        return fail_missing(table, record, field, column,
                            file->missing == MISSING_ERROR ? "is empty: `missing = drop` leaves its row out" : "is empty", error);
    const char *classes = classes_of(table);
    if (file->find_classes && !classes) { /* any name will do */
        *value = 0;
        return true;
    }
    if (classes) {
        *value = label_of(field, classes);
        return *value >= 0 || fail_class(table, record, field, column, classes, error);
    }
    return csv_number(field, value) ||
           fail_field(table, record, field, column, field->broken ? BROKEN : "no number",
                      !field->broken && is_missing(field) ? ": `missing = drop` leaves its row out" : "", error);
}

/* A field's text, with doubled quotes made single. */
static size_t plain_text(const Field *field, char *to) {
    const bool quoted = field->text > field->begin && field->text[-1] == '"';
    size_t n = 0;
    for (size_t i = 0; i < field->n; i++) {
        to[n++] = field->text[i];
        i += quoted && field->text[i] == '"';
    }
    return n;
}

static bool parse_text(const Table *table, const Record *record, const Field *field, void *to, Error *error) {
    int32_t *used = to, *ids = used + 1;
    char why[160];
    size_t bad = 0, n = 0;
    if (is_missing(field)) return fail_missing(table, record, field, table->first_column, "has no text", error);
    if (field->broken) return fail_field(table, record, field, table->first_column, BROKEN, "", error);
    char *plain = malloc(field->n + 1);
    if (!plain) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", table->path);
    const bool quoted = field->text > field->begin && field->text[-1] == '"';
    n = plain_text(field, plain);
    *used = (int32_t)tokens_encode(table->tokens, plain, n, ids, &bad, why, sizeof why);
    free(plain);
    if (*used < 0) {
        const char *at = field->text;
        for (size_t i = 0; i < bad; i++)
            at += 1 + (quoted && *at == '"');
        return fail_at(table, record, at, error, why);
    }
    for (int64_t i = 0; table->file->tokens == TOKENS_IDS && i < table->elements; i++)
        if (!rows_value_fits(table->file, ids[i], why, sizeof why)) {
            char words[sizeof why + 40];
            snprintf(words, sizeof words, "token %lld is %s", (long long)i, why);
            return fail_at(table, record, field->text, error, words);
        }
    return true;
}

/* Checks that no finite number becomes infinite in the input's type, where numbers are not changed. */
static bool check_beyond(const Table *table, const Record *record, const double *number, Error *error) {
    const RowFile *file = table->file;
    const RowChange *change = &file->change;
    const double beyond = dtype_beyond(file->dtype);
    const int64_t n = width(table);
    if (change->scale != 0 || change->standardize || change->nmeans > 0) return true;
    int64_t infinite = 0; /* as wide as a double: vectors compare two or more at once */
    for (int64_t i = 0; i < n; i++)
        infinite |= fabs(number[i]) >= beyond;
    for (int64_t i = 0; infinite && i < n; i++) {
        const char *at = NULL;
        Field field;
        if (!isfinite(number[i]) || fabs(number[i]) < beyond) continue;
        for (int64_t column = 0; column <= table->first_column + i && csv_field(record, table->separator, &at, &field);)
            column++;
        Text text = {0};
        rows_say_beyond(file, number[i], number[i], &text);
        fail_at(table, record, field.text, error, text.at);
        return text_finish(&text), false;
    }
    return true;
}

/* Parses what the input takes of a record; *at: the field after that. */
static bool parse(const Table *table, const Record *record, const char **at, void *to, Error *error) {
    const bool numbers = !table->tokens && !table->file->find_classes && !classes_of(table), any = rows_any_value_fits(table->file);
    const int64_t end = table->first_column + width(table);
    double *number = to;
    Field field;
    char why[160];
    *at = NULL;
    for (int64_t column = 0, n; column < end; column += n) {
        const bool taken = column >= table->first_column;
        double *value = number + (column - table->first_column);
        const char *begin = *at;
        n = numbers && taken ? csv_plain_numbers(record, table->separator, at, value, any ? end - column : 1) : 0;
        field.text = begin ? begin : record->text;
        if (n == 0) {
            n = 1;
            if (!csv_field(record, table->separator, at, &field))
                return fail_at(table, record, record->text + record->n, error, "the row is too short");
            if (!taken) continue;
            if (table->tokens) return parse_text(table, record, &field, to, error);
            if (!parse_number(table, record, &field, column, value, error)) return false;
        }
        if (any || rows_value_fits(table->file, *value, why, sizeof why)) continue;
        if (!classes_of(table)) return fail_at(table, record, field.text, error, why);
        char words[sizeof why + 16];
        snprintf(words, sizeof words, "class %s", why);
        return fail_field(table, record, &field, column, words, "", error);
    }
    return !any || check_beyond(table, record, number, error);
}

/* ---------------------------------------------------------------- the whole file */

bool table_row_bytes(const RowFile *file, int64_t elements, int64_t *bytes) {
    return file->tokens == TOKENS_NONE ? mul_checked(elements, sizeof(double), bytes) : mul_checked(elements + 1, sizeof(int32_t), bytes);
}

/* The size of a parsed row. */
static int64_t row_bytes(const Table *table) {
    int64_t bytes = 0;
    table_row_bytes(table->file, table->elements, &bytes);
    return bytes;
}

static void drop_early(Table *table) {
    free(table->early);
    table->early = NULL;
    table->nearly = table->early_room = 0;
    table->early_over = true;
}

/* Makes room for n early rows, or gives up keeping them. */
static void grow_early(Table *table, int64_t n) {
    enum { FIRST_ROWS = 256 };
    const int64_t bytes = row_bytes(table), most = table->early_bytes / (bytes + 1);
    int64_t room = table->early_room ? table->early_room : FIRST_ROWS;
    if (table->early_over || n <= table->early_room) return;
    while (room < n)
        room *= 2;
    if (room > most) room = most;
    unsigned char *early = n > most ? NULL : realloc(table->early, (size_t)(room * bytes) + 1);
    if (!early) {
        drop_early(table);
        return;
    }
    table->early = early;
    table->early_room = room;
}

unsigned char *table_take_early(Table *table, const int64_t *row, int64_t n) {
    const int64_t bytes = row_bytes(table), first = table->file->first;
    const bool kept = n > 0 && row[n - 1] - first < table->nearly;
    unsigned char *taken = NULL;
    if (kept && n == table->nearly) { /* all of them */
        taken = table->early;
        table->early = NULL;
    } else if (kept && (taken = malloc((size_t)(n * bytes) + 1))) {
        for (int64_t i = 0; i < n; i++)
            memcpy(taken + i * bytes, table->early + (row[i] - first) * bytes, (size_t)bytes);
    }
    drop_early(table);
    return taken;
}

bool table_open(Table *table, const RowFile *file, const char *path, int64_t elements, Error *error) {
    int64_t bytes;
    *table = (Table){.file = file, .path = path, .elements = elements};
    if (!table_row_bytes(file, elements, &bytes)) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory for a row", path);
    if (file->tokens == TOKENS_NONE || (table->tokens = tokens_open(file, elements, error))) return true;
    table_close(table);
    return false;
}

void table_close(Table *table) {
    tokens_close(table->tokens);
    drop_early(table);
    table->tokens = NULL;
}

enum { MOST_CLASSES = 1000 };
/* Names that were found, sorted. */
typedef struct Found {
    char (*name)[MAX_CLASS_BYTES];
    int n;
} Found;

static bool find_record(const Table *table, const Record *record, int64_t row, Worker *worker, void *context, Error *error) {
    Found *found = context;
    const char *at = NULL;
    Field field;
    char name[MAX_CLASS_BYTES];
    (void)row, (void)worker;
    for (int64_t column = 0; column < table->first_column + width(table) && csv_field(record, table->separator, &at, &field); column++) {
        int low = 0, high = found->n;
        if (column < table->first_column || is_missing(&field)) continue; /* it is reported when the row is read */
        if (field.n >= sizeof name) return fail_at(table, record, field.text, error, "too long for the name of a class");
        const size_t n = plain_text(&field, name);
        name[n] = '\0';
        if (memchr(name, '\n', n))
            return fail_at(table, record, field.text, error, "the name of a class goes over two lines: it is of one");
        while (low < high) {
            const int middle = (low + high) / 2;
            if (strcmp(found->name[middle], name) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < found->n && strcmp(found->name[low], name) == 0) continue;
        if (!text_is_utf8(name, n)) return fail_at(table, record, field.text, error, "the name of a class is not UTF-8");
        if (found->n == MOST_CLASSES)
            return fail_at(table, record, field.text, error, "one more name than a thousand: these are no classes");
        memmove(found->name + low + 1, found->name + low, (size_t)(found->n++ - low) * sizeof *found->name);
        memcpy(found->name[low], name, sizeof name);
    }
    return true;
}

char *table_find_classes(Table *table, Stream *stream, Error *error) {
    Found found = {.name = calloc(MOST_CLASSES + 1, sizeof *found.name)};
    Pass pass = {.fn = find_record, .context = &found};
    int64_t rows;
    bool ok = found.name || error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", table->path);
    ok = ok && each_record(table, stream, &pass, &rows, error);
    if (ok && found.n == 0) ok = error_set(error, EXIT_ENVIRONMENT, "%s: no row has the name of a class", table->path);
    char *names = ok ? malloc((size_t)found.n * MAX_CLASS_BYTES + 1) : NULL;
    size_t n = 0;
    if (ok && !names) error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", table->path);
    for (int i = 0; names && i < found.n; i++)
        n += (size_t)snprintf(names + n, MAX_CLASS_BYTES + 1, "%s%s", i ? "\n" : "", found.name[i]);
    free(found.name);
    return names;
}

/* Rows are parsed and kept only for a short time. */
typedef struct Counting {
    double until; /* seconds; 0: the time is over */
    int64_t end;  /* of the rows that were reached */
} Counting;

static bool is_used(const Table *table, int64_t row) {
    const int64_t behind = row - table->file->first;
    return behind >= 0 && (table->file->rows == 0 || behind < table->file->rows);
}

static void begin_counting(Table *table, int64_t end, void *context) {
    enum { CLOCK_EVERY = 256 };
    Counting *counting = context;
    if (counting->until > 0 && (end - counting->end > 1 || end % CLOCK_EVERY == 0) && now_seconds() > counting->until) counting->until = 0;
    counting->end = end;
    if (counting->until == 0) return;
    int64_t n = end - table->file->first;
    if (table->file->rows > 0 && n > table->file->rows) n = table->file->rows;
    if (n <= table->nearly) return;
    grow_early(table, n);
    if (table->early) table->nearly = n;
}

static bool count_record(const Table *table, const Record *record, int64_t row, Worker *worker, void *context, Error *error) {
    const Counting *counting = context;
    const bool used = counting->until > 0 && is_used(table, row);
    void *to = used && table->early ? table->early + (row - table->file->first) * row_bytes(table) : worker->parsed;
    const char *at = NULL;
    const bool parsed = used && parse(table, record, &at, to, error);
    const int64_t columns = (parsed ? table->first_column + width(table) : 0) + csv_fields(record, table->separator, parsed ? at : NULL);
    if (columns != table->columns) { /* this says more than what is wrong with a field */
        Field field = {.begin = record->text};
        char text[160];
        at = NULL;
        for (int64_t i = 0; i <= table->columns && csv_field(record, table->separator, &at, &field);)
            i++;
        snprintf(text, sizeof text, "%lld column%s, and the first line has %lld", (long long)columns, columns == 1 ? "" : "s",
                 (long long)table->columns);
        return fail_at(table, record, columns > table->columns ? field.begin : record->text + record->n, error, text);
    }
    return parsed || !used;
}

static const double look_s = 0.7; /* time for parsing rows before training */

bool table_count(Table *table, Stream *stream, Error *error) {
    enum { FEW_BYTES = 1 << 26, SHARE = 16 };
    const int64_t share = limits_memory("") / SHARE;
    Counting counting = {now_seconds() + look_s, 0};
    Pass pass = {.fn = count_record, .context = &counting, .shared = true, .before = begin_counting};
    table->early_bytes = share > FEW_BYTES ? share : FEW_BYTES;
    table->early_over = table->file->find_classes; /* the label of a name is not known yet */
    return each_record(table, stream, &pass, &table->count, error);
}

static bool know_record(const Table *table, const Record *record, int64_t row, Worker *worker, void *context, Error *error) {
    const Counting *counting = context;
    const char *at = NULL;
    if (counting->until == 0) return error->code = 0, false; /* no further */
    return !is_used(table, row) || parse(table, record, &at, worker->parsed, error);
}

bool table_know(Table *table, Stream *stream, Error *error) {
    Counting counting = {now_seconds() + look_s, 0};
    Pass pass = {.fn = know_record, .context = &counting, .before = begin_counting};
    int64_t rows;
    return each_record(table, stream, &pass, &rows, error) || error->code == 0;
}

typedef struct Wanted {
    const int64_t *row;
    int64_t n;
    RowSink *sink;
    void *context;
} Wanted;

/* The index of the first wanted row that is not before this one. */
static int64_t first_wanted(const Wanted *wanted, int64_t row) {
    int64_t low = 0, high = wanted->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (wanted->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool read_record(const Table *table, const Record *record, int64_t row, Worker *worker, void *context, Error *error) {
    const Wanted *wanted = context;
    const int64_t n = wanted->n;
    int64_t *next = &worker->next;
    const char *at;
    if ((*next > 0 && wanted->row[*next - 1] >= row) || (*next < n && wanted->row[*next] < row))
        *next = first_wanted(wanted, row); /* the worker is in another chunk */
    if (*next >= n || wanted->row[*next] != row) return true;
    if (!parse(table, record, &at, worker->parsed, error)) return false;
    wanted->sink(wanted->context, (*next)++, worker->parsed);
    return true;
}

bool table_read(Table *table, Stream *stream, const int64_t *row, int64_t n, RowSink *sink, bool shared, void *context, Error *error) {
    Wanted wanted = {row, n, sink, context};
    Pass pass = {.fn = read_record, .context = &wanted, .shared = shared};
    int64_t rows;
    if (!each_record(table, stream, &pass, &rows, error)) return false;
    return n == 0 || row[n - 1] < rows || error_set(error, EXIT_ENVIRONMENT, "%s: has become shorter", table->path);
}

/* An element of a row whose place in the file is sought. */
typedef struct Sought {
    int64_t row, element;
    Text *text;
} Sought;

static bool put_place(const Table *table, const Record *record, int64_t row, Worker *worker, void *context, Error *error) {
    const Sought *place = context;
    (void)worker;
    const char *at = NULL;
    Field field = {.text = record->text};
    int64_t line, column;
    if (row != place->row) return true;
    for (int64_t i = 0;
         i <= table->first_column + (table->tokens ? 0 : place->element) && csv_field(record, table->separator, &at, &field);)
        i++;
    csv_place(record, field.text, &line, &column);
    text_printf(place->text, ": %s:%lld:%lld", table->path, (long long)line, (long long)column);
    error->code = 0;
    return false; /* no further */
}

void table_where(const Table *table, int64_t row, int64_t element, Text *text) {
    Table again = *table;
    Sought sought = {row, element, text};
    Pass pass = {.fn = put_place, .context = &sought};
    int64_t rows;
    Error ignored;
    Stream *stream = stream_open(table->path, &ignored);
    if (stream) each_record(&again, stream, &pass, &rows, &ignored);
    stream_close(stream);
}
