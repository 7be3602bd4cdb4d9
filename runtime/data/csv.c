/* csv: a record's fields. RFC 4180: a field that begins with a quote ends with one, holds any character between them, and two quotes for one. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

static bool is_blank(char c, int separator) {
    return c == ' ' || c == '\r' || (c == '\t' && separator != '\t');
}

bool csv_is_empty(const Record *record, int separator) {
    for (size_t i = 0; i < record->n; i++)
        if (!is_blank(record->text[i], separator)) return false;
    return true;
}

bool csv_field(const Record *record, int separator, const char **at, Field *field) {
    const char *end = record->text + record->n, *p = *at ? *at : record->text;
    if (p > end) return false;
    *field = (Field){.begin = p};
    while (p < end && is_blank(*p, separator))
        p++;
    field->text = p;
    if (p < end && *p == '"') {
        field->text = ++p;
        while (p < end && (*p != '"' || p[1] == '"'))
            p += 1 + (*p == '"');
        field->n = (size_t)(p - field->text);
        for (p += p < end; p < end && is_blank(*p, separator);)
            p++;
        field->broken = p < end && *p != separator;
    }
    const char *next = memchr(p, separator, (size_t)(end - p));
    if (field->begin == field->text || field->text[-1] != '"') {
        const char *last = next ? next : end;
        while (last > field->text && is_blank(last[-1], separator))
            last--;
        field->n = (size_t)(last - field->text);
    }
    *at = next ? next + 1 : end + 1;
    return true;
}

int64_t csv_fields(const Record *record, int separator) {
    int64_t n = 0;
    if (!record->quotes) {
        for (size_t i = 0; i < record->n; i++)
            n += record->text[i] == separator;
        return n + 1;
    }
    Field field;
    for (const char *at = NULL; csv_field(record, separator, &at, &field);)
        n++;
    return n;
}

bool csv_number(const Field *field, double *number) {
    char *end;
    if (field->n == 0 || field->broken) return false;
    *number = strtod(field->text, &end);
    if (end == field->text) return false;
    while (end < field->text + field->n && is_blank(*end, 0))
        end++;
    return end == field->text + field->n;
}

int csv_separator(const Record *record) {
    static const char separators[] = ",;\t";
    int best = ',';
    int64_t most = 1;
    for (const char *s = separators; *s; s++) {
        const int64_t n = csv_fields(record, *s);
        if (n > most) most = n, best = *s;
    }
    return best;
}

bool csv_is(const Field *field, const char *name) {
    size_t i = 0;
    for (; i < field->n && *name == field->text[i]; i++, name++)
        i += field->text[i] == '"' && field->text[-1] == '"'; /* two for one */
    return i == field->n && *name == '\0';
}

void csv_place(const Record *record, const char *at, int64_t *line, int64_t *column) {
    const char *begin = record->text - record->marked;
    *line = record->line;
    for (const char *p = record->text; p < at; p++)
        if (*p == '\n') ++*line, begin = p + 1;
    *column = at - begin + 1;
}
