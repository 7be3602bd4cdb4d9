/* table: see table.h. What the fields of a record are is csv.c's; here are the columns of an input, what stands for a field that is missing, labels by name, and texts as tokens. */
#include "runtime/data/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/tokens.h"

/* What is wrong at a place of a record. */
static bool fail_at(const Table *table, const Record *record, const char *at, Error *error, const char *what) {
    int64_t line, column;
    csv_place(record, at, &line, &column);
    Text text = {0};
    text_printf(&text, "%s:%lld:%lld: %s", table->path, (long long)line, (long long)column, what);
    text_printable(text.at); /* whatever the file says, nothing a terminal obeys */
    error_set(error, EXIT_ENVIRONMENT, "%s", text.at);
    text_finish(&text);
    return false;
}

/* So much of a field as a message shows. */
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

/* What stands between columns, how many there are, whether the line names them (none of its fields is a number, or the net says so), and which the input has. */
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

/* Nothing, or a word that stands for it: those of pandas.read_csv that are no text or number of their own. */
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

/* Calls fn for each record of a row that counts, with the row's number; what fn does not want it skips without parsing. */
typedef bool RecordFn(Table *table, const Record *record, int64_t row, void *context, Error *error);
static bool each_record(Table *table, Stream *stream, RecordFn *fn, void *context, Error *error) {
    int64_t row = 0;
    int separator = table->file->separator;
    bool begun = false;
    table->dropped = 0;
    for (Record record; stream_record(stream, separator, &record, error);) {
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
        if (!fn(table, &record, row++, context, error)) return false;
    }
    return error->code == 0;
}

/* ---------------------------------------------------------------- fields */

/* The place of a field among the names of labels, which stand one a line; -1: it is none. */
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

/* Names of labels, which fields are then; NULL: none. */
static const char *classes_of(const Table *table) {
    return table->figures && table->figures->classes ? table->figures->classes : table->file->classes;
}

static bool parse_number(const Table *table, const Record *record, const Field *field, int64_t column, double *value, Error *error) {
    const RowFile *file = table->file;
    static const char left_out[] = ": `missing = drop` leaves its row out";
    char text[160];
    const bool missing = file->missing == MISSING_ERROR ? field->n == 0 && !field->broken : is_missing(field);
    if (missing && file->missing >= MISSING_MEAN) {
        *value = file->missing == MISSING_FILL ? file->fill : (double)NAN;
        return true;
    }
    if (missing) {
        snprintf(text, sizeof text, "column %lld is empty%s", (long long)column, file->missing == MISSING_ERROR ? left_out : "");
        return fail_at(table, record, field->begin, error, text);
    }
    const char *classes = classes_of(table);
    if (file->find_classes && !classes) { /* any name will do */
        *value = 0;
        return true;
    }
    if (classes) {
        *value = label_of(field, classes);
        if (*value >= 0) return true;
        snprintf(text, sizeof text, "'%.*s' is none of the classes (column %lld)", shown(field), field->text, (long long)column);
        return fail_at(table, record, field->text, error, text);
    }
    if (csv_number(field, value)) return true;
    snprintf(text, sizeof text, "'%.*s' is %s (column %lld)%s", shown(field), field->text,
             field->broken ? "a field in quotes with more behind it" : "no number", (long long)column,
             !field->broken && is_missing(field) ? left_out : "");
    return fail_at(table, record, field->text, error, text);
}

/* A field's text, in which two quotes may stand for one, as it is. */
static size_t plain_text(const Field *field, char *to) {
    const bool quoted = field->text > field->begin && field->text[-1] == '"';
    size_t n = 0;
    for (size_t i = 0; i < field->n; i++) {
        to[n++] = field->text[i];
        i += quoted && field->text[i] == '"';
    }
    return n;
}

static bool parse_text(const Table *table, const Record *record, const Field *field, Error *error) {
    int32_t *used = table->parsed, *ids = used + 1;
    char why[160];
    size_t bad = 0, n = 0;
    if (is_missing(field)) {
        snprintf(why, sizeof why, "column %lld has no text", (long long)table->first_column);
        return fail_at(table, record, field->begin, error, why);
    }
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
        if (!rows_value_fits(table->file, ids[i], why, sizeof why)) return fail_at(table, record, field->text, error, why);
    return true;
}

/* What the input takes of a record, to table->parsed. */
static bool parse(const Table *table, const Record *record, Error *error) {
    const bool numbers = !table->tokens && !table->file->find_classes && !classes_of(table);
    double *number = table->parsed;
    const char *at = NULL;
    Field field;
    char why[160];
    for (int64_t column = 0; column < table->first_column + width(table); column++) {
        double value;
        field.text = at ? at : record->text;
        if (!numbers || column < table->first_column || !csv_plain_number(record, table->separator, &at, &value)) {
            if (!csv_field(record, table->separator, &at, &field))
                return fail_at(table, record, record->text + record->n, error, "the row is too short");
            if (column < table->first_column) continue;
            if (table->tokens) return parse_text(table, record, &field, error);
            if (!parse_number(table, record, &field, column, &value, error)) return false;
        }
        if (!rows_value_fits(table->file, value, why, sizeof why)) return fail_at(table, record, field.text, error, why);
        number[column - table->first_column] = value;
    }
    return true;
}

/* ---------------------------------------------------------------- the whole file */

bool table_row_bytes(const RowFile *file, int64_t elements, int64_t *bytes) {
    return file->tokens == TOKENS_NONE ? mul_checked(elements, sizeof(double), bytes) : mul_checked(elements + 1, sizeof(int32_t), bytes);
}

/* Rows that were parsed when they were counted. */
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

static void keep_early(Table *table) {
    enum { MOST_BYTES = 1 << 26, FIRST_ROWS = 256 };
    const int64_t bytes = row_bytes(table), most = MOST_BYTES / (bytes + 1);
    if (table->early_over) return;
    if (table->nearly == table->early_room) {
        const int64_t twice = table->early_room ? 2 * table->early_room : FIRST_ROWS, room = twice < most ? twice : most;
        unsigned char *early = room == table->nearly ? NULL : realloc(table->early, (size_t)(room * bytes) + 1);
        if (!early) {
            drop_early(table);
            return;
        }
        table->early = early;
        table->early_room = room;
    }
    memcpy(table->early + table->nearly++ * bytes, table->parsed, (size_t)bytes);
}

bool table_take_early(Table *table, const int64_t *row, int64_t n, unsigned char *to) {
    const int64_t bytes = row_bytes(table), first = table->file->first;
    const bool kept = n > 0 && row[n - 1] - first < table->nearly;
    for (int64_t i = 0; kept && i < n; i++)
        memcpy(to + i * bytes, table->early + (row[i] - first) * bytes, (size_t)bytes);
    drop_early(table);
    return kept;
}

bool table_open(Table *table, const RowFile *file, const char *path, int64_t elements, Error *error) {
    int64_t bytes;
    *table = (Table){.file = file, .path = path, .elements = elements};
    if (!table_row_bytes(file, elements, &bytes) || !(table->parsed = malloc((size_t)bytes + 1)))
        return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory for a row", path);
    if (file->tokens == TOKENS_NONE || (table->tokens = tokens_open(file, elements, error))) return true;
    table_close(table);
    return false;
}

void table_close(Table *table) {
    tokens_close(table->tokens);
    free(table->parsed);
    drop_early(table);
    table->tokens = NULL;
    table->parsed = NULL;
}

enum { MOST_CLASSES = 1000 };
/* Names that were found, in order. */
typedef struct Found {
    char (*name)[MAX_CLASS_BYTES];
    int n;
} Found;

static bool find_record(Table *table, const Record *record, int64_t row, void *context, Error *error) {
    Found *found = context;
    const char *at = NULL;
    Field field;
    char name[MAX_CLASS_BYTES];
    (void)row;
    for (int64_t column = 0; column < table->first_column + width(table) && csv_field(record, table->separator, &at, &field); column++) {
        int low = 0, high = found->n;
        if (column < table->first_column || is_missing(&field)) continue; /* which is said when the row is read */
        if (field.n >= sizeof name || memchr(field.text, '\n', field.n))
            return fail_at(table, record, field.text, error, "too long for the name of a class");
        name[plain_text(&field, name)] = '\0';
        while (low < high) {
            const int middle = (low + high) / 2;
            if (strcmp(found->name[middle], name) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < found->n && strcmp(found->name[low], name) == 0) continue;
        if (found->n == MOST_CLASSES)
            return fail_at(table, record, field.text, error, "one more name than a thousand: these are no classes");
        memmove(found->name + low + 1, found->name + low, (size_t)(found->n++ - low) * sizeof *found->name);
        memcpy(found->name[low], name, sizeof name);
    }
    return true;
}

char *table_find_classes(Table *table, Stream *stream, Error *error) {
    Found found = {.name = calloc(MOST_CLASSES + 1, sizeof *found.name)};
    bool ok = found.name || error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", table->path);
    ok = ok && each_record(table, stream, find_record, &found, error);
    if (ok && found.n == 0) ok = error_set(error, EXIT_ENVIRONMENT, "%s: no row has the name of a class", table->path);
    char *names = ok ? malloc((size_t)found.n * MAX_CLASS_BYTES + 1) : NULL;
    size_t n = 0;
    if (ok && !names) error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", table->path);
    for (int i = 0; names && i < found.n; i++)
        n += (size_t)snprintf(names + n, MAX_CLASS_BYTES + 1, "%s%s", i ? "\n" : "", found.name[i]);
    free(found.name);
    return names;
}

static bool count_record(Table *table, const Record *record, int64_t row, void *context, Error *error) {
    enum { CLOCK_EVERY = 256 };
    static const double BUDGET_S = 0.7;
    double *began = context;
    const int64_t columns = csv_fields(record, table->separator), behind = row - table->file->first;
    table->count = row + 1;
    if (columns != table->columns) {
        const char *at = NULL;
        Field field = {.begin = record->text};
        char text[160];
        for (int64_t i = 0; i <= table->columns && csv_field(record, table->separator, &at, &field);)
            i++;
        snprintf(text, sizeof text, "%lld column%s, and the first line has %lld", (long long)columns, columns == 1 ? "" : "s",
                 (long long)table->columns);
        return fail_at(table, record, columns > table->columns ? field.begin : record->text + record->n, error, text);
    }
    if (*began > 0 && row % CLOCK_EVERY == CLOCK_EVERY - 1 && now_seconds() - *began > BUDGET_S) *began = 0;
    if (*began == 0 || behind < 0 || (table->file->rows > 0 && behind >= table->file->rows)) return true;
    if (!parse(table, record, error)) return false;
    keep_early(table);
    return true;
}

bool table_count(Table *table, Stream *stream, Error *error) {
    double began = now_seconds();
    table->early_over = table->file->find_classes; /* what a name stands for is not known yet */
    return each_record(table, stream, count_record, &began, error);
}

typedef struct Wanted {
    const int64_t *row;
    int64_t n, next; /* of row: the one that comes next */
    RowSink *sink;
    void *context;
} Wanted;

static bool read_record(Table *table, const Record *record, int64_t row, void *context, Error *error) {
    Wanted *wanted = context;
    if (wanted->next >= wanted->n || wanted->row[wanted->next] != row) return true;
    if (!parse(table, record, error)) return false;
    wanted->sink(wanted->context, wanted->next++, table->parsed);
    return true;
}

bool table_read(Table *table, Stream *stream, const int64_t *row, int64_t n, RowSink *sink, void *context, Error *error) {
    Wanted wanted = {row, n, 0, sink, context};
    if (!each_record(table, stream, read_record, &wanted, error)) return false;
    return wanted.next == n || error_set(error, EXIT_ENVIRONMENT, "%s: has become shorter", table->path);
}

/* The place of an element of a row, which is looked for. */
typedef struct Sought {
    int64_t row, element;
    Text *text;
} Sought;

static bool put_place(Table *table, const Record *record, int64_t row, void *context, Error *error) {
    const Sought *place = context;
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
    Error ignored;
    Stream *stream = stream_open(table->path, &ignored);
    if (stream) each_record(&again, stream, put_place, &sought, &ignored);
    stream_close(stream);
}
