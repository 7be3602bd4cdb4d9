/* csv: a record's fields. As in RFC 4180, a field that begins with a quote ends with one and may hold any character between; two quotes stand for one. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

int64_t csv_fields(const Record *record, int separator, const char *at) {
    int64_t n = 0;
    if (!record->quotes) {
        const char *end = record->text + record->n, *p = at ? at : record->text;
        if (p > end) return 0;
        for (; p < end; p++)
            n += *p == separator;
        return n + 1;
    }
    Field field;
    while (csv_field(record, separator, &at, &field))
        n++;
    return n;
}

/* ---------------------------------------------------------------- numbers */

enum { WORD_BYTES = 8 };

/* Eight characters, the first one in the lowest byte. */
static uint64_t word_at(const char *at) {
    const unsigned char *byte = (const unsigned char *)at;
    uint64_t word = 0;
    for (int i = 0; i < WORD_BYTES; i++)
        word |= (uint64_t)byte[i] << 8 * i;
    return word;
}

/* Appends the digits at `at` to *digits, modulo 2^64; returns the place after them. */
static inline const char *read_digits(const char *at, const char *end, uint64_t *digits) {
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        *digits = 10 * *digits + (uint64_t)(*at - '0');
    return at;
}

/* The first *n of eight characters are digits: returns their values, after leading zeros. */
static inline uint64_t leading_digits(const char *at, int *n) {
    static const uint64_t EACH = 0x0101010101010101;
    const uint64_t word = word_at(at) ^ '0' * EACH;                             /* of a digit its value */
    const uint64_t others = ((word + (0x80 - 10) * EACH) | word) & 0x80 * EACH; /* right up to the first non-digit */
    *n = others ? __builtin_ctzll(others) / 8 : WORD_BYTES;
    return *n ? word << 8 * (WORD_BYTES - *n) : 0;
}

/* The number that eight digits make, by twos and fours (Lemire 2021, Number parsing at a gigabyte per second). */
static inline uint64_t eight_digits(uint64_t word) {
    static const uint64_t PAIRS = 0x000000ff000000ff;
    word = word * 10 + (word >> 8);
    return ((word & PAIRS) * (100 + ((uint64_t)1000000 << 32)) + (word >> 16 & PAIRS) * (1 + ((uint64_t)10000 << 32))) >> 32;
}

/* As read_digits, eight at a time while eight bytes can be read. */
static inline const char *read_many_digits(const char *at, const char *end, uint64_t *digits) {
    static const uint64_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    while (end - at >= WORD_BYTES) {
        int n;
        *digits = eight_digits(leading_digits(at, &n)) + *digits * tens[n];
        at += n;
        if (n < WORD_BYTES) return at;
    }
    return read_digits(at, end, digits);
}

#define TENS(sign)                                                                                                                         \
    sign 1e0, sign 1e1, sign 1e2, sign 1e3, sign 1e4, sign 1e5, sign 1e6, sign 1e7, sign 1e8, sign 1e9, sign 1e10, sign 1e11, sign 1e12,   \
        sign 1e13, sign 1e14, sign 1e15, sign 1e16, sign 1e17, sign 1e18, sign 1e19, sign 1e20, sign 1e21, sign 1e22
enum { NTENS = 23 };
static const double exact_tens[2][NTENS] = {{TENS(+)}, {TENS(-)}}; /* positive and negative */

/* Bit i: the i-th of 16 characters is no digit. */
static inline unsigned others_among(const char *at) {
#ifdef __SSE2__
    const __m128i number = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)at), _mm_set1_epi8('0'));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(number, _mm_set1_epi8(10)), number));
#else
    unsigned others = 0;
    for (unsigned i = 0; i < 16; i++)
        others |= (unsigned)((unsigned char)(at[i] - '0') > 9) << i;
    return others;
#endif
}

/* Parses a number of at most eight digits, perhaps with a minus sign and a point. False: the field is anything else. */
static inline bool short_number(const char *begin, const char *end, double *number) {
    static const uint64_t EACH = 0x0101010101010101;
    enum { MOST = WORD_BYTES + 2 };
    if (end - begin > MOST || begin == end) return false;
    const int negative = *begin == '-';
    const char *at = begin + negative;
    int n = (int)(end - at), behind = 0;
    const unsigned others = (others_among(begin) & ((1u << (end - begin)) - 1)) >> negative;
    uint64_t word = word_at(at);
    if (others != 0) {
        n = __builtin_ctz(others);
        if ((others & (others - 1)) != 0 || at[n] != '.') return false;
        const uint64_t before = ((uint64_t)1 << 4 * n << 4 * n) - 1; /* up to eight bytes */
        word = (word & before) | (word_at(at + 1) & ~before);
        behind = (int)(end - at) - n - 1;
    }
    if (n + behind < 1 || n + behind > WORD_BYTES) return false;
    word = (word ^ '0' * EACH) << 8 * (WORD_BYTES - n - behind);
    *number = (double)(int64_t)eight_digits(word) / exact_tens[negative][behind];
    return true;
}

/* digits * 10^power by one operation on exact long doubles. Its result rounds to the nearest double too, unless it lies half way between two. False: it does, or the
 * operands are not exact. */
static bool wide_number(uint64_t digits, int64_t power, double *number) {
#if LDBL_MANT_DIG == 64
    static const long double tens[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                       1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    enum {
        MOST_TENS = sizeof tens / sizeof *tens - 1,
        HALF = 1 << 10,
        BELOW = (1 << 11) - 1
    }; /* of the bits that a double has no place for */
    if (power < -MOST_TENS || power > MOST_TENS) return false;
    const long double wide = power < 0 ? (long double)digits / tens[-power] : (long double)digits * tens[power];
    uint64_t mantissa;
    memcpy(&mantissa, &wide, sizeof mantissa);
    *number = (double)wide;
    return (mantissa & BELOW) != HALF;
#else
    (void)digits, (void)power, (void)number;
    return false;
#endif
}

/* Parses the decimal number at `at`, before `last`, where one operation gives the nearest double (Clinger 1990, the fast path). Returns its
 * end; NULL: strtod must parse it. The number is followed by no digit. */
static const char *plain_number(const char *at, const char *last, double *number) {
    enum { MOST_TENS = NTENS - 1, MOST_DIGITS = 19, MOST_EXPONENT_DIGITS = 4 }; /* 19 digits are below 2^64 */
    static const uint64_t EXACT = (uint64_t)1 << 53;
    const bool negative = *at == '-';
    uint64_t digits = 0;
    const char *begin = at + negative, *point = read_many_digits(begin, last, &digits), *end = point;
    int64_t n = point - begin, power = 0;
    if (point < last && *point == '.') {
        end = read_many_digits(point + 1, last, &digits);
        power = point + 1 - end;
        n -= power;
    }
    if (n == 0 || n > MOST_DIGITS) return NULL;
    if (end < last && (*end == 'e' || *end == 'E')) {
        const bool below = end[1] == '-';
        const char *exponent = end + 1 + (below || end[1] == '+');
        uint64_t value = 0;
        end = read_digits(exponent, last, &value);
        if (end == exponent || end - exponent > MOST_EXPONENT_DIGITS) return NULL;
        power += below ? -(int64_t)value : (int64_t)value;
    }
    double magnitude;
    if (digits <= EXACT && power >= -MOST_TENS && power <= MOST_TENS)
        magnitude = power < 0 ? (double)digits / exact_tens[0][-power] : (double)digits * exact_tens[0][power];
    else if (!wide_number(digits, power, &magnitude))
        return NULL;
    *number = magnitude * (1 - 2 * negative);
    return end;
}

bool csv_number(const Field *field, double *number) {
    char *end;
    if (field->n == 0 || field->broken) return false;
    if (plain_number(field->text, field->text + field->n, number) == field->text + field->n) return true;
    *number = strtod(field->text, &end);
    if (end == field->text || memchr(field->text, 'x', (size_t)(end - field->text)) ||
        memchr(field->text, 'X', (size_t)(end - field->text)))
        return false;                                                     /* 0x10 */
    if (isinf(*number) && end[-1] >= '0' && end[-1] <= '9') return false; /* no f64 is so large */
    while (end < field->text + field->n && is_blank(*end, 0))
        end++;
    return end == field->text + field->n;
}

/* Ends of fields: 64 characters are examined at once, so that a field need not wait for the one before it. */
enum { WINDOW = 64 };
typedef struct Ends {
    const char *window;
    uint64_t bits; /* bit i: there is a separator at window[i] that has not been taken */
} Ends;

static inline uint64_t separators_among(const char *at, int separator) {
    uint64_t bits = 0;
#ifdef __SSE2__
    const __m128i each = _mm_set1_epi8((char)separator);
    for (int i = 0; i < WINDOW; i += 16) {
        const __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(at + i)), each);
        bits |= (uint64_t)(unsigned)_mm_movemask_epi8(same) << i;
    }
#else
    for (int i = 0; i < WINDOW; i++)
        bits |= (uint64_t)(at[i] == separator) << i;
#endif
    return bits;
}

/* The next separator, or `last` where there is none before it. */
static inline const char *next_end(Ends *ends, const char *last, int separator) {
    while (ends->bits == 0) {
        if (last - ends->window < WINDOW) return last;
        ends->window += WINDOW;
        ends->bits = separators_among(ends->window, separator);
    }
    const char *end = ends->window + __builtin_ctzll(ends->bits);
    ends->bits &= ends->bits - 1;
    return end < last ? end : last;
}

int64_t csv_plain_numbers(const Record *record, int separator, const char **at, double *number, int64_t most) {
    const char *begin = *at ? *at : record->text, *last = record->text + record->n;
    if (begin >= last) return 0;
    Ends ends = {begin, separators_among(begin, separator)};
    int64_t n = 0;
    for (; n < most && begin < last; n++) {
        const char *end = next_end(&ends, last, separator);
        if (!short_number(begin, end, number + n) && plain_number(begin, last, number + n) != end) break;
        begin = end + 1;
    }
    if (n > 0) *at = begin;
    return n;
}

int csv_separator(const Record *record) {
    static const char separators[] = ",;\t";
    int best = ',';
    int64_t most = 1;
    for (const char *s = separators; *s; s++) {
        const int64_t n = csv_fields(record, *s, NULL);
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
