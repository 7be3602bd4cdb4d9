/* scan: the tokens of a plan's text. Every message names the file and the line. */
#include "ir/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Words of the format: in a wrong place such a word is "out of order", any other word is "unknown". tests/layers.sh compares them with the readers. */
static const char *const known[] = {
    "net",
    "file",
    "import",
    "ranks",
    "replicas",
    "options",
    "hash",
    "parallel",
    "train",
    "dim",
    "mesh",
    "layout",
    "state",
    "input",
    "data",
    "graph",
    "node",
    "program",
    "role",
    "value",
    "kernel",
    "local",
    "start",
    "wait",
    "write",
    "mode",
    "search",
    "seed",
    "rows",
    "dataset",
    "gradients",
    "epochs",
    "steps",
    "lr",
    "loss",
    "forward",
    "init",
    "nodes",
    "stream",
    "arena",
    "per_rank",
    "trainable",
    "written",
    "parameter",
    "strategy",
    "origin",
    "factors",
    "copy",
    "name",
    "version",
    "kind",
    "sent",
    "certificate",
    "checksum",
    "optimizer",
    "momentum",
    "beta2_decay",
    "eps1",
    "eps2",
    "d",
    "ema",
    "log_every",
    "log_from_zero",
    "strict_divide",
    "log",
    "log_rank",
    "checkpoint_epochs",
    "checkpoint_steps",
    "keep",
    "best",
    "restore_best",
    "early_stop",
    "patience",
    "delta",
    "first",
    "offset",
    "column",
    "stored",
    "shuffle",
    "split",
    "share",
    "part",
    "missing",
    "fill",
    "classes",
    "tokens",
    "vocabulary",
    "lowercase",
    "tokenizer",
    "find_classes",
    "one_hot",
    "standardize",
    "scale",
    "mean",
    "deviation",
    "label",
    "resize",
    "pad",
    "crop",
    "flip",
    "random",
    "last",
    "uneven",
    "side",
    "bytes",
    "bucket",
    "fused",
    "beta1",
    "beta2",
    "eps",
    "weight_decay",
    "schedule",
    "warmup",
    "end",
    "power",
    "gamma",
    "unit",
    "milestone",
    "clip",
    "accumulate",
    "precision",
    "index",
    "micro",
    "of",
    "eval",
    "every",
    "report",
    "reports",
    "whole",
    "on_nan",
    "heading",
    "separator",
    "nesterov",
    "scaled",
    "by",
    "generate",
    "prompt",
    "shorter",
    "temperature",
    "top_k",
    "alphabet",
    "cache",
};

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}
static bool is_word_char(char c) {
    return is_name_char(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '/' || c == '-';
}
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int hex_value(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void skip(Scan *scan) {
    while (*scan->at == ' ')
        scan->at++;
}

int scan_lines(const Scan *scan) {
    int64_t lines = 1, most = (scan->end - scan->at) / 16; /* no meaningful line is shorter */
    for (const char *at = scan->at; (at = memchr(at, '\n', (size_t)(scan->end - at))) != NULL; at++)
        lines++;
    return (int)(lines < most ? lines : most);
}

bool scan_fail(Scan *scan, const char *format, ...) {
    char message[800];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return error_set(scan->error, EXIT_REJECTED, "%s:%d: %s", scan->name, scan->line, message);
}

bool scan_unexpected(Scan *scan, const char *expected) {
    skip(scan);
    char word[33];
    size_t n = 0;
    while (n < sizeof word - 1 && is_word_char(scan->at[n])) {
        word[n] = scan->at[n];
        n++;
    }
    word[n] = '\0';
    if (scan->at >= scan->end) return scan_fail(scan, "the text ends here; expected %s", expected);
    if (*scan->at == '\n') return scan_fail(scan, "the line ends here; expected %s", expected);
    if (n == 0) {
        unsigned char c = (unsigned char)*scan->at;
        if (c > ' ' && c < 0x7f) return scan_fail(scan, "expected %s, saw '%c'", expected, c);
        return scan_fail(scan, "expected %s, saw byte 0x%02x", expected, c);
    }
    bool key = (word[0] >= 'a' && word[0] <= 'z') && strspn(word, "abcdefghijklmnopqrstuvwxyz_0123456789") == n;
    for (size_t i = 0; key && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], word) == 0)
            return scan_fail(scan, "'%s' is out of place here, or there a second time; expected %s", word, expected);
    return key ? scan_fail(scan, "unknown key '%s'; expected %s", word, expected)
               : scan_fail(scan, "expected %s, saw '%s'", expected, word);
}

static bool fail_expected(Scan *scan, const char *what) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "'%s'", what);
    return scan_unexpected(scan, quoted);
}

bool scan_is_keyword(Scan *scan, const char *keyword) {
    skip(scan);
    size_t n = strlen(keyword);
    if (strncmp(scan->at, keyword, n) != 0 || is_word_char(scan->at[n]) || scan->at[n] == '=') return false;
    scan->at += n;
    return true;
}

bool scan_is_key(Scan *scan, const char *key) {
    skip(scan);
    size_t n = strlen(key);
    if (strncmp(scan->at, key, n) != 0 || scan->at[n] != '=') return false;
    scan->at += n + 1;
    return true;
}

bool scan_is_char(Scan *scan, char c) {
    skip(scan);
    if (*scan->at != c) return false;
    scan->at++;
    return true;
}

bool scan_is_arrow(Scan *scan) {
    skip(scan);
    if (strncmp(scan->at, "->", 2) != 0) return false;
    scan->at += 2;
    return true;
}

bool scan_is_end(Scan *scan) {
    skip(scan);
    return *scan->at == '\n' || scan->at >= scan->end;
}

bool scan_keyword(Scan *scan, const char *keyword) {
    return scan_is_keyword(scan, keyword) || fail_expected(scan, keyword);
}

bool scan_key(Scan *scan, const char *key) {
    if (scan_is_key(scan, key)) return true;
    char quoted[64];
    snprintf(quoted, sizeof quoted, "'%s='", key);
    return scan_unexpected(scan, quoted);
}

bool scan_char(Scan *scan, char c) {
    return scan_is_char(scan, c) || fail_expected(scan, (char[]){c, '\0'});
}

bool scan_arrow(Scan *scan) {
    return scan_is_arrow(scan) || fail_expected(scan, "->");
}

bool scan_end(Scan *scan) {
    if (!scan_is_char(scan, '\n')) return scan_unexpected(scan, "the end of the line");
    scan->line++;
    return true;
}

bool scan_integer(Scan *scan, const char *what, int64_t min, int64_t max, int64_t *value) {
    skip(scan);
    const char *p = scan->at;
    bool negative = *p == '-';
    if (negative) p++;
    if (!is_digit(*p)) return scan_unexpected(scan, what);
    int64_t number = 0;
    bool fits = true;
    for (; is_digit(*p); p++) {
        int digit = *p - '0';
        /* Accumulates negative numbers, so that INT64_MIN fits too. */
        if (number < (INT64_MIN + digit) / 10)
            fits = false;
        else
            number = number * 10 - digit;
    }
    if (is_letter(*p)) return scan_unexpected(scan, what);
    if (!negative && number == INT64_MIN) fits = false;
    if (fits && !negative) number = -number;
    if (!fits || number < min || number > max)
        return scan_fail(scan, "%s is %.*s; it must be %" PRId64 " to %" PRId64, what, p - scan->at > 24 ? 24 : (int)(p - scan->at),
                         scan->at, min, max);
    scan->at = p;
    *value = number;
    return true;
}

bool scan_int(Scan *scan, const char *what, int min, int max, int *value) {
    int64_t wide;
    if (!scan_integer(scan, what, min, max, &wide)) return false;
    *value = (int)wide;
    return true;
}

bool scan_unsigned(Scan *scan, const char *what, int base, uint64_t *value) {
    skip(scan);
    const char *p = scan->at;
    uint64_t number = 0;
    for (int digit; (digit = hex_value(*p)) >= 0 && digit < base; p++) {
        if (number > (UINT64_MAX - (unsigned)digit) / (unsigned)base) return scan_fail(scan, "%s does not fit 64 bits", what);
        number = number * (unsigned)base + (unsigned)digit;
    }
    if (p == scan->at || is_letter(*p)) return scan_unexpected(scan, what);
    scan->at = p;
    *value = number;
    return true;
}

bool scan_double(Scan *scan, const char *what, double *value) {
    skip(scan);
    if (scan_is_keyword(scan, "nan")) return *value = NAN, true;
    if (scan_is_keyword(scan, "inf")) return *value = INFINITY, true;
    if (scan_is_keyword(scan, "-inf")) return *value = -INFINITY, true;
    const char *p = scan->at;
    int digits = 0;
    if (*p == '-') p++;
    for (; is_digit(*p); p++)
        digits++;
    bool whole = digits <= 15 && *scan->at != '-';
    int64_t number = 0;
    for (const char *q = scan->at; whole && q < p; q++)
        number = number * 10 + (*q - '0');
    if (*p == '.') {
        whole = false;
        for (p++; is_digit(*p); p++)
            digits++;
    }
    if (digits == 0) return scan_unexpected(scan, what);
    if (*p == 'e') {
        whole = false;
        p++;
        if (*p == '-' || *p == '+') p++;
        if (!is_digit(*p)) return scan_unexpected(scan, what);
        while (is_digit(*p))
            p++;
    }
    if (is_letter(*p)) return scan_unexpected(scan, what);
    if (p - scan->at > 40) return scan_fail(scan, "%s has more than 40 characters", what);
    *value = whole ? (double)number : strtod(scan->at, NULL);
    if (!isfinite(*value)) return scan_fail(scan, "%s is too large: %.*s", what, (int)(p - scan->at), scan->at);
    scan->at = p;
    return true;
}

/* Reads the rest of a quoted word, after the opening quote. */
static bool scan_quoted(Scan *scan, const char **word) {
    const char *p = scan->at;
    while (*p != '"' && *p != '\n' && *p != '\0')
        p += *p == '\\' && p[1] != '\0' ? 2 : 1;
    if (*p != '"') return scan_fail(scan, "a quotation mark is not closed on its line");
    char *to = arena_copy(scan->arena, scan->at, (size_t)(p - scan->at));
    *word = to;
    for (const char *q = scan->at; q < p; q++) {
        if (*q != '\\') {
            *to++ = *q;
            continue;
        }
        q++;
        if (*q == '"' || *q == '\\') {
            *to++ = *q;
            continue;
        }
        int high = *q == 'x' ? hex_value(q[1]) : -1, low = high >= 0 ? hex_value(q[2]) : -1;
        if (low < 0 || high * 16 + low == 0)
            return scan_fail(scan, "in a quoted text \\ is followed by \", \\ or x and two digits 0-9a-f, not 00");
        *to++ = (char)(high * 16 + low);
        q += 2;
    }
    *to = '\0';
    scan->at = p + 1;
    return true;
}

bool scan_word(Scan *scan, const char **word) {
    if (scan_is_char(scan, '"')) return scan_quoted(scan, word);
    size_t n = 0;
    while (is_word_char(scan->at[n]))
        n++;
    if (n == 0) return scan_unexpected(scan, "a name");
    *word = arena_copy(scan->arena, scan->at, n);
    scan->at += n;
    return true;
}

bool scan_name(Scan *scan, char *name, size_t n) {
    skip(scan);
    size_t length = 0;
    while (is_name_char(scan->at[length]))
        length++;
    if (length == 0) return scan_unexpected(scan, "a name");
    if (length >= n) return scan_fail(scan, "the name '%.32s...' is too long", scan->at);
    memcpy(name, scan->at, length);
    name[length] = '\0';
    scan->at += length;
    return true;
}

bool scan_choice(Scan *scan, const char *what, const char *const *names, int n, int *choice) {
    char name[32];
    if (!scan_name(scan, name, sizeof name)) return false;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) {
            *choice = i;
            return true;
        }
    return scan_fail(scan, "unknown %s '%s'", what, name);
}

bool scan_type(Scan *scan, TensorType *type) {
    char name[32];
    *type = (TensorType){0};
    if (!scan_name(scan, name, sizeof name)) return false;
    if (!dtype_parse(name, &type->dtype)) return scan_fail(scan, "unknown element type '%s'", name);
    if (!scan_char(scan, '[')) return false;
    int64_t bytes = dtype_bytes[type->dtype];
    for (bool more = !scan_is_char(scan, ']'); more;) {
        int i = type->shape.ndim;
        if (i == MAX_NDIM) return scan_fail(scan, "more than %d dimensions", MAX_NDIM);
        if (!scan_integer(scan, "a size", 1, MAX_TENSOR_BYTES, &type->shape.dim[i])) return false;
        if (!mul_checked(bytes, type->shape.dim[i], &bytes) || bytes > MAX_TENSOR_BYTES)
            return scan_fail(scan, "a tensor has more than 2^56 bytes");
        type->shape.ndim++;
        if (i == 0 && scan_is_char(scan, '|')) {
            type->hidden = true;
            more = !scan_is_char(scan, ']');
        } else if (!scan_is_char(scan, ',')) {
            if (!scan_char(scan, ']')) return false;
            more = false;
        }
    }
    return true;
}

bool scan_digit(Scan *scan, int nranks, Digit *digit) {
    int size, stride;
    if (!scan_int(scan, "the size of a digit", 1, MAX_RANKS, &size) || !scan_char(scan, '@') ||
        !scan_int(scan, "the stride of a digit", 1, MAX_RANKS, &stride))
        return false;
    if (nranks > 0 && nranks % ((int64_t)size * stride) != 0)
        return scan_fail(scan, "the digit %d@%d does not divide %d ranks", size, stride, nranks);
    *digit = (Digit){size, stride};
    return true;
}

bool scan_span(Scan *scan, Span *span) {
    *span = (Span){0};
    if (!scan_is_char(scan, '@')) return true;
    if (!scan_int(scan, "a line", 1, INT32_MAX, &span->line)) return false;
    if (scan_is_char(scan, '/')) { /* the number before it was that of a file */
        span->file = span->line;
        if (!scan_int(scan, "a line", 1, INT32_MAX, &span->line)) return false;
    }
    return scan_char(scan, ':') && scan_int(scan, "a column", 0, INT32_MAX, &span->column);
}
