/* csv: a record's fields. RFC 4180: a field that begins with a quote ends with one, holds any character between them, and two quotes for one. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"
#include "runtime/data/rows.h"

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

/* Behind the digits at `at`, which *digits takes up; what is more than 64 bits hold is lost. */
static const char *read_digits(const char *at, uint64_t *digits) {
    for (; *at >= '0' && *at <= '9'; at++)
        *digits = 10 * *digits + (uint64_t)(*at - '0');
    return at;
}

/* Behind the decimal number at `at`, of which one multiplication or division of exact numbers makes the nearest double (Clinger 1990, the fast path); NULL: strtod's.
 * What stands behind the number is no digit. */
static const char *plain_number(const char *at, double *number) {
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { MOST_TENS = sizeof tens / sizeof *tens - 1, MOST_DIGITS = 19, MOST_EXPONENT_DIGITS = 4 }; /* 19 digits are below 2^64 */
    static const uint64_t EXACT = (uint64_t)1 << 53;
    const bool negative = *at == '-';
    uint64_t digits = 0;
    const char *begin = at + negative, *point = read_digits(begin, &digits), *end = point;
    int64_t n = point - begin, power = 0;
    if (*point == '.') {
        end = read_digits(point + 1, &digits);
        power = point + 1 - end;
        n -= power;
    }
    if (n == 0 || n > MOST_DIGITS || digits > EXACT) return NULL;
    if (*end == 'e' || *end == 'E') {
        const bool below = end[1] == '-';
        const char *exponent = end + 1 + (below || end[1] == '+');
        uint64_t value = 0;
        end = read_digits(exponent, &value);
        if (end == exponent || end - exponent > MOST_EXPONENT_DIGITS) return NULL;
        power += below ? -(int64_t)value : (int64_t)value;
    }
    if (power < -MOST_TENS || power > MOST_TENS) return NULL;
    const double magnitude = power < 0 ? (double)digits / tens[-power] : (double)digits * tens[power];
    *number = negative ? -magnitude : magnitude;
    return end;
}

bool csv_number(const Field *field, double *number) {
    char *end;
    if (field->n == 0 || field->broken) return false;
    if (plain_number(field->text, number) == field->text + field->n) return true;
    *number = strtod(field->text, &end);
    if (end == field->text) return false;
    while (end < field->text + field->n && is_blank(*end, 0))
        end++;
    return end == field->text + field->n;
}

bool csv_plain_number(const Record *record, int separator, const char **at, double *number) {
    const char *begin = *at ? *at : record->text, *last = record->text + record->n;
    const char *end = begin < last ? plain_number(begin, number) : NULL;
    if (!end || (end != last && *end != separator)) return false;
    *at = end + 1;
    return true;
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
