/* diag: collects the mistakes of a user's text and prints each with its line, the span underlined, notes and hints. */
#include "ir/base.h"

#include <string.h>

enum {
    EXCERPT_BYTES = 120,
    NAME_BYTES = 64,
    MAX_EDITS = 2,     /* between a word and one that may have been meant */
    SAME_BYTES = 1024, /* of two messages that are compared; longer ones never count as the same */
    CHAIN_NOTES = 6,   /* calls shown with a diagnostic in a cell: the innermost ones, and the last */
};

static const char *const kind_name[] = {[DIAG_ERROR] = "error", [DIAG_WARNING] = "warning", [DIAG_NOTE] = "note", [DIAG_HINT] = "hint"};

const char *const warning_name[NWARNINGS] = {"conflict", "uneven", "no-gradient", "no-effect", "replicated", "costly", "memory"};

void diags_init(Diags *diags, Arena *arena) {
    *diags = (Diags){0};
    diags->arena = arena;
}

int diags_add_file(Diags *diags, const char *name, const char *text, size_t n) {
    vec_push(diags->arena, &diags->files, (SourceFile){.name = name, .text = text, .n = n});
    return diags->files.n - 1;
}

/* Whether a diagnostic that is kept has the same text and place. */
static bool reported_before(const Diags *diags, DiagKind kind, Span span, const char *flag, const char *format, va_list args) {
    char text[SAME_BYTES];
    int n = vsnprintf(text, sizeof text, format, args);
    for (int i = 0; i < diags->items.n && n < (int)sizeof text; i++) {
        const Diag *other = &diags->items.at[i];
        if (other->kind == kind && other->span.file == span.file && other->span.line == span.line && other->span.column == span.column &&
            !strncmp(other->text, text, (size_t)n) && (!other->text[n] || (flag && !strncmp(other->text + n, " [-W", 4))))
            return true;
    }
    return false;
}

/* A diagnostic beyond the limit is counted, not kept: one mistake repeated a million times must not fill the memory. */
static void diag_add(Diags *diags, DiagKind kind, Span span, const char *flag, const char *format, va_list args) {
    bool keep = true;
    if ((kind == DIAG_ERROR || kind == DIAG_WARNING) && span.line > 0) {
        va_list again;
        va_copy(again, args);
        bool reported = reported_before(diags, kind, span, flag, format, again);
        va_end(again);
        diags->dropped |= reported;
        if (reported) return;
    }
    switch (kind) {
    case DIAG_ERROR:
        keep = diags->nerrors++ < DIAG_MAX_ERRORS;
        break;
    case DIAG_WARNING:
        keep = diags->nwarnings++ < DIAG_MAX_ERRORS;
        break;
    case DIAG_NOTE:
    case DIAG_HINT:
        keep = !diags->dropped;
        break;
    }
    diags->dropped = !keep;
    if (!keep) return;
    const char *text = arena_vprintf(diags->arena, format, args);
    if (flag) text = arena_printf(diags->arena, "%s [-W%s%s]", text, kind == DIAG_ERROR ? "error=" : "", flag);
    vec_push(diags->arena, &diags->items, (Diag){.kind = kind, .span = span, .text = text});
}

void diag_error(Diags *diags, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_add(diags, DIAG_ERROR, span, NULL, format, args);
    va_end(args);
}

void diag_warning(Diags *diags, Warning warning, Span span, const char *format, ...) {
    va_list args;
    if (diags->silenced & 1u << warning) {
        diags->dropped = true;
        return;
    }
    va_start(args, format);
    diag_add(diags, diags->warnings_are_errors ? DIAG_ERROR : DIAG_WARNING, span, warning_name[warning], format, args);
    va_end(args);
}

void diag_note(Diags *diags, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_add(diags, DIAG_NOTE, span, NULL, format, args);
    va_end(args);
}

void diag_hint(Diags *diags, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_add(diags, DIAG_HINT, (Span){0}, NULL, format, args);
    va_end(args);
}

void diag_calls(Diags *diags, const CellCall *call) {
    int n = 0, i = 0;
    for (const CellCall *at = call; at; at = at->outer)
        n++;
    for (const CellCall *at = call; at; at = at->outer, i++) {
        if (n > CHAIN_NOTES && i == CHAIN_NOTES - 1 && at->outer) {
            diag_note(diags, (Span){0}, "and %d more calls, the first of which is:", n - i - 1);
            while (at->outer)
                at = at->outer;
        }
        diag_note(diags, at->span, "in cell %s, called here as %s", at->cell, at->path);
    }
}

const char *diags_line(const Diags *diags, Span span, int *length) {
    *length = 0;
    if (span.line < 1 || span.file < 0 || span.file >= diags->files.n) return "";
    const SourceFile *file = &diags->files.at[span.file];
    const char *at = file->text, *end = file->text + file->n;
    for (int line = 1; line < span.line; line++) {
        const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!newline) return "";
        at = newline + 1;
    }
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    const char *stop = newline ? newline : end;
    if (stop > at && stop[-1] == '\r') stop--;
    if (stop - at > 1 << 30) stop = at + (1 << 30);
    *length = (int)(stop - at);
    return at;
}

static bool is_continuation(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

unsigned direction_control(const char *at, size_t n) {
    static const unsigned codes[] = {0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};
    if (n < 2) return 0;
    const unsigned char *c = (const unsigned char *)at;
    unsigned code = c[0] >> 5 == 6              ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
                    : c[0] >> 4 == 14 && n >= 3 ? (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu)
                                                : 0;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code) return code;
    return 0;
}

/* Prints the source line and the underline below it: of a long line only the surroundings of the span; as '?' each character that could
 * steer a terminal or reverse the line; one caret column per UTF-8 character. */
static void print_excerpt(const Diags *diags, Span span, FILE *out) {
    int n;
    const char *line = diags_line(diags, span, &n);
    int column = span.column < 1 ? 0 : span.column - 1;
    if (column > n) column = n;
    int first = 0, last = n;
    if (n > EXCERPT_BYTES) {
        first = column > EXCERPT_BYTES / 2 ? column - EXCERPT_BYTES / 2 : 0;
        last = n - first > EXCERPT_BYTES ? first + EXCERPT_BYTES : n;
        while (first < column && is_continuation(line[first]))
            first++;
        while (last < n && last > column && is_continuation(line[last]))
            last--;
    }
    const char *lead = first > 0 ? "..." : "", *trail = last < n ? "..." : "";
    fprintf(out, "%5d | %s", span.line, lead);
    for (int i = first; i < last; i++) {
        unsigned char c = (unsigned char)line[i];
        if (direction_control(line + i, (size_t)(last - i))) {
            putc('?', out);
            while (i + 1 < last && is_continuation(line[i + 1]))
                i++;
            continue;
        }
        putc((c < 0x20 && c != '\t') || c == 0x7f ? '?' : c, out);
    }
    fprintf(out, "%s\n      | %*s", trail, (int)strlen(lead), "");
    for (int i = first; i < column; i++)
        if (!is_continuation(line[i])) putc(line[i] == '\t' ? '\t' : ' ', out);
    putc('^', out);
    int end = span.length < last - column ? column + (span.length > 1 ? span.length : 1) : last;
    for (int i = column + 1; i < end; i++)
        if (!is_continuation(line[i])) putc('~', out);
    putc('\n', out);
}

void diags_print(const Diags *diags, FILE *out) {
    for (int i = 0; i < diags->items.n; i++) {
        const Diag *diag = &diags->items.at[i];
        if (diag->kind == DIAG_HINT) {
            fprintf(out, "    hint: %s\n", diag->text);
            continue;
        }
        bool placed = diag->span.line > 0 && diag->span.file >= 0 && diag->span.file < diags->files.n;
        if (placed) fprintf(out, "%s:%d:%d: ", diags->files.at[diag->span.file].name, diag->span.line, diag->span.column);
        fprintf(out, "%s: %s\n", kind_name[diag->kind], diag->text);
        if (placed && diag->kind != DIAG_NOTE) print_excerpt(diags, diag->span, out);
    }
    if (diags->nerrors > DIAG_MAX_ERRORS) fprintf(out, "%d more errors not shown\n", diags->nerrors - DIAG_MAX_ERRORS);
    if (diags->nwarnings > DIAG_MAX_ERRORS) fprintf(out, "%d more warnings not shown\n", diags->nwarnings - DIAG_MAX_ERRORS);
}

/* Insertions, deletions, substitutions and swaps of neighbours ("optimal string alignment"), three rows at a time. */
static int edit_distance(const char *a, int na, const char *b, int nb) {
    int rows[3][NAME_BYTES + 1];
    int *before = rows[0], *previous = rows[1], *row = rows[2];
    for (int j = 0; j <= nb; j++)
        previous[j] = before[j] = j;
    for (int i = 1; i <= na; i++) {
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = previous[j - 1] + (a[i - 1] != b[j - 1]);
            if (previous[j] + 1 < best) best = previous[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
        int *oldest = before;
        before = previous;
        previous = row;
        row = oldest;
    }
    return previous[nb];
}

const char *name_nearest(const char *name, const char *const *candidates, int n) {
    size_t length = strlen(name);
    if (length > NAME_BYTES) return NULL;
    const char *nearest = NULL;
    int best = NAME_BYTES + 1;
    const bool is_path = strchr(name, '.') != NULL;
    for (int i = 0; i < n; i++) {
        size_t other = strlen(candidates[i]);
        if (other > NAME_BYTES) continue;
        int limit = (int)(length > other ? length : other) / 3;
        if (limit > MAX_EDITS && !is_path) limit = MAX_EDITS;
        int distance = edit_distance(name, (int)length, candidates[i], (int)other);
        if (distance <= limit && distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}
