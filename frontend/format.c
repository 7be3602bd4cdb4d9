/* pcc fmt: brings a text into its standard form. The tokens are those of the lexer, in their order, and comments stay where they are; only white
 * space changes: one statement per line, four columns per block, ':' and '=' aligned in neighbouring lines, at most one empty line.
 * The author chooses where a statement is broken into lines. Takes linear time; formatting again changes nothing.
 */
#include "frontend/ast.h"
#include "frontend/frontend.h"

#include <string.h>

enum { INDENT = 4, NEAR = 8 }; /* assignments whose names differ by more columns are not aligned */

/* A token or comment. */
typedef struct Lexeme {
    const char *at;
    int n;
    int newlines; /* before it, since the piece before it */
    int match;    /* '{': the piece that closes it; else -1 */
    int pad;      /* columns before it, beyond the usual space */
    bool comment;
    bool tail;  /* '{': its block is on one line */
    bool range; /* ':' in square brackets */
} Lexeme;

typedef enum { BRACES_STATEMENTS, BRACES_SETTINGS, BRACES_HINTS } Braces;
typedef enum { LINE_OTHER, LINE_DECLARATION, LINE_SETTING, LINE_ASSIGNMENT, LINE_NEUTRAL } LineKind;

/* A statement, the head of a block, a '}', or a comment on its own line: pieces [first, end), then a comment after it, or -1. */
typedef struct Line {
    int first, end, comment;
    int indent;
    bool blank; /* an empty line before it */
    LineKind kind;
    int colon, equals; /* pieces to be aligned, -1: none */
} Line;

typedef struct Format {
    Arena *arena;
    VEC(Lexeme) pieces;
    VEC(Line) lines;
    VEC(uint8_t) braces; /* Braces: of the blocks that are open */
} Format;

static bool is(const Lexeme *piece, const char *text) {
    return piece->n == (int)strlen(text) && memcmp(piece->at, text, (size_t)piece->n) == 0;
}

static bool is_one(const Lexeme *piece, const char *characters) {
    return piece->n == 1 && strchr(characters, piece->at[0]) != NULL;
}

static bool is_word(const Lexeme *piece) {
    char c = piece->at[0];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Words that are not operands: an expression begins after them. */
static bool is_keyword(const Lexeme *piece) {
    static const char *const words[] = {"net",    "input",   "param",  "const", "state", "loss",      "shard",   "train", "parallel",
                                        "eval",   "cell",    "import", "hints", "let",   "for",       "in",      "if",    "else",
                                        "return", "require", "and",    "or",    "not",   "recompute", "generate"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(piece, words[i])) return true;
    return false;
}

/* ---------------------------------------------------------------- pieces */

static void find_pieces(Format *format, const char *text, const Lexemes *lexemes) {
    int end = 0;
    VEC(int) open = {0};
    VEC(char) brackets = {0};
    for (int i = 0; i < lexemes->n; i++) {
        Loc loc = lexemes->at[i];
        Lexeme piece = {.at = text + loc.begin, .n = loc.end - loc.begin, .match = -1, .comment = text[loc.begin] == '#'};
        for (const char *at = text + end; (at = memchr(at, '\n', (size_t)(piece.at - at))); at++)
            piece.newlines++;
        end = loc.end;
        while (piece.comment && strchr(" \t\r\f\v", piece.at[piece.n - 1]))
            piece.n--;
        if (is_one(&piece, "([{")) vec_push(format->arena, &brackets, piece.at[0]);
        if (is_one(&piece, ")]}") && brackets.n > 0) brackets.n--;
        piece.range = is(&piece, ":") && brackets.n > 0 && brackets.at[brackets.n - 1] == '[';
        if (is(&piece, "{")) vec_push(format->arena, &open, i);
        if (is(&piece, "}") && open.n > 0) format->pieces.at[open.at[--open.n]].match = i;
        vec_push(format->arena, &format->pieces, piece);
    }
}

/* Whether the block that opens at piece i is on one line, and may stay so: at most one statement, nothing nested. */
static bool stands_in_line(const Format *format, int i) {
    const Lexeme *pieces = format->pieces.at;
    int end = pieces[i].match, nstatements = 0;
    for (int k = i + 1; k <= end; k++) {
        nstatements += is(&pieces[k], ";");
        if (pieces[k].newlines || pieces[k].comment || is(&pieces[k], "{") || nstatements > 1) return false;
    }
    return end > i;
}

/* ---------------------------------------------------------------- lines */

static Braces braces_of(const Format *format, const Line *line, int brace) {
    const Lexeme *first = &format->pieces.at[line->first];
    if (brace > line->first && is(&format->pieces.at[brace - 1], "shard")) return BRACES_HINTS;
    if (is(first, "hints")) return BRACES_HINTS;
    return is(first, "train") || is(first, "parallel") || is(first, "eval") || is(first, "generate") ? BRACES_SETTINGS : BRACES_STATEMENTS;
}

/* Fills a line that begins at piece i; returns the piece after it. */
static int take_line(Format *format, Line *line, int i) {
    const Lexeme *pieces = format->pieces.at;
    int n = format->pieces.n, brackets = 0;
    for (bool ended = false; i < n && !ended;) {
        const Lexeme *piece = &pieces[i];
        brackets += is_one(piece, "([");
        brackets -= is_one(piece, ")]");
        bool opens = is(piece, "{"), closes = is(piece, "}");
        if (opens && stands_in_line(format, i)) {
            format->pieces.at[i].tail = true;
            i = piece->match;
            closes = true;
        } else if (opens) {
            vec_push(format->arena, &format->braces, (uint8_t)braces_of(format, line, i));
            ended = true;
        }
        i++;
        if (closes) ended = i == n || !(is(&pieces[i], ";") || is(&pieces[i], "else"));
        if (is(piece, ";") && brackets <= 0) ended = true;
    }
    return i;
}

/* Finds the pieces of a line that are aligned in columns: only those before its first line break. */
static void classify(const Format *format, Line *line) {
    const Lexeme *pieces = format->pieces.at;
    const Lexeme *first = &pieces[line->first];
    Braces braces = format->braces.n ? (Braces)format->braces.at[format->braces.n - 1] : BRACES_STATEMENTS;
    bool declares = is(first, "input") || is(first, "param") || is(first, "const") || is(first, "state");
    line->colon = line->equals = -1;
    int brackets = 0;
    for (int i = line->first; i < line->end; i++) {
        if (i > line->first && pieces[i].newlines) break;
        brackets += is_one(&pieces[i], "([{");
        brackets -= is_one(&pieces[i], ")]}");
        if (brackets == 0 && declares && line->colon < 0 && is(&pieces[i], ":")) line->colon = i;
        if (brackets == 0 && line->equals < 0 && is(&pieces[i], "=")) line->equals = i;
    }
    if (declares)
        line->kind = line->colon < 0 ? LINE_OTHER : LINE_DECLARATION;
    else if (format->braces.n == 0 || (is_keyword(first) && braces != BRACES_HINTS) || first->comment || is(first, "}"))
        line->kind = LINE_OTHER;
    else if (braces != BRACES_STATEMENTS)
        line->kind = line->equals < 0 ? LINE_NEUTRAL : LINE_SETTING;
    else
        line->kind = line->equals < 0 ? LINE_OTHER : LINE_ASSIGNMENT;
}

static void find_lines(Format *format) {
    const Lexeme *pieces = format->pieces.at;
    bool after_open = true, block_ended = false;
    for (int i = 0; i < format->pieces.n;) {
        Line line = {.first = i, .comment = -1};
        bool closes = is(&pieces[i], "}");
        if (closes && format->braces.n > 0) format->braces.n--;
        line.indent = format->braces.n * INDENT;
        line.blank = !after_open && !closes && (pieces[i].newlines > 1 || block_ended);
        int depth = format->braces.n;
        i = pieces[i].comment ? i + 1 : take_line(format, &line, i);
        line.end = i;
        int inside = format->braces.n;
        format->braces.n = depth;
        classify(format, &line);
        format->braces.n = inside;
        if (!pieces[line.first].comment && i < format->pieces.n && pieces[i].comment && !pieces[i].newlines) line.comment = i++;
        after_open = inside > depth;
        block_ended = inside == 0 && closes;
        vec_push(format->arena, &format->lines, line);
    }
}

/* ---------------------------------------------------------------- space between two tokens */

/* Whether a sign begins an operand: what comes before it cannot be followed by a binary operator. */
static bool is_sign(const Format *format, int i, int first) {
    const Lexeme *pieces = format->pieces.at;
    if (!is_one(&pieces[i], "+-")) return false;
    if (i == first) return true;
    const Lexeme *before = &pieces[i - 1];
    return is_keyword(before) || (!is_word(before) && !strchr(")]\"0123456789", before->at[before->n - 1]));
}

/* The '-' of `mean <- x`. */
static bool ends_arrow(const Format *format, int i, int first) {
    return i == first + 2 && is(&format->pieces.at[i - 1], "<") && is(&format->pieces.at[i], "-");
}

/* `stage (i + 1) / 2` at the end of a statement: the piece before the word ends an expression, and is no keyword but recompute or shard. */
static bool says_stage(const Format *format, int i, int first) {
    if (i - 1 <= first || !is(&format->pieces.at[i], "stage")) return false;
    const Lexeme *before = &format->pieces.at[i - 1];
    const bool mark = is(before, "recompute") || is(before, "shard");
    return mark || is_one(before, ")]}") || (!is_keyword(before) && (is_word(before) || strchr("0123456789", before->at[before->n - 1])));
}

static bool is_between(const Format *format, int i, int first) {
    const Lexeme *a = &format->pieces.at[i - 1], *b = &format->pieces.at[i];
    if (ends_arrow(format, i, first)) return false;
    if (ends_arrow(format, i - 1, first)) return true;
    if (is_one(b, ",;)]") || is_one(a, "([")) return false;
    if (is(a, ".") || is(b, ".") || a->range || (b->range && !is(a, ","))) return false;
    if (is(b, "..")) return a->at[a->n - 1] == '.' || memchr(a->at, '.', (size_t)a->n) != NULL;
    if (is(a, "..")) return b->at[0] == '.';
    if (is_sign(format, i - 1, first)) return false;
    if (is_one(b, "([")) {
        bool settings = is_word(a) && i - 1 == first && is(b, "(");        /* mesh (dp = 2) */
        bool method = i - 1 > first && is(&format->pieces.at[i - 2], "."); /* .shard(...) */
        return settings || (is_keyword(a) && !method) || says_stage(format, i - 1, first) || !(is_word(a) || is_one(a, ")]"));
    }
    return true;
}

/* Columns of pieces [first, end) of a line. */
static int width(const Format *format, int first, int end) {
    int n = 0;
    for (int i = first; i < end; i++)
        n += (i > first ? is_between(format, i, first) + format->pieces.at[i].pad : 0) + format->pieces.at[i].n;
    return n;
}

/* ---------------------------------------------------------------- columns */

static bool joins(const Line *line, const Line *next) {
    LineKind kind = line->kind;
    return !next->blank && next->indent == line->indent && next->kind != LINE_OTHER &&
           (next->kind == kind || next->kind == LINE_NEUTRAL || kind == LINE_NEUTRAL);
}

/* Pads the colons, or the equals signs, of lines [first, end) to one column. */
static void align(Format *format, int first, int end, bool colons, int most) {
    int widest = 0, narrowest = INT32_MAX;
    for (int pass = 0; pass < 2; pass++)
        for (int l = first; l < end; l++) {
            const Line *line = &format->lines.at[l];
            int at = colons ? line->colon : line->equals;
            if (at < 0) continue;
            int n = width(format, line->first, at);
            if (pass == 0 && n > widest) widest = n;
            if (pass == 0 && n < narrowest) narrowest = n;
            if (pass == 1 && widest - narrowest <= most) format->pieces.at[at].pad = widest - n;
        }
}

static void align_groups(Format *format) {
    for (int l = 0, end; l < format->lines.n; l = end) {
        LineKind kind = format->lines.at[l].kind;
        end = l + 1;
        if (kind == LINE_OTHER) continue;
        while (end < format->lines.n && joins(&format->lines.at[end - 1], &format->lines.at[end]))
            end++;
        if (kind == LINE_DECLARATION) align(format, l, end, true, INT32_MAX);
        align(format, l, end, false, kind == LINE_ASSIGNMENT ? NEAR : INT32_MAX);
    }
}

/* ---------------------------------------------------------------- writing */

typedef struct Writer {
    Text *out;
    Format *format;
    int column;
    VEC(int) brackets; /* of the open brackets: the column at which lines inside begin */
} Writer;

static void put_spaces(Writer *writer, int n) {
    text_printf(writer->out, "%*s", n, "");
    writer->column += n;
}

static void put_line_break(Writer *writer, int column) {
    text_append(writer->out, "\n", 1);
    writer->column = 0;
    put_spaces(writer, column);
}

/* The number of characters, counted by their first bytes: one column each. */
static int characters(const char *at, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += ((unsigned char)at[i] & 0xc0) != 0x80;
    return count;
}

static void put_piece(Writer *writer, const Lexeme *piece) {
    text_append(writer->out, piece->at, (size_t)piece->n);
    writer->column += characters(piece->at, piece->n);
}

static void put_statement(Writer *writer, const Line *line) {
    const Lexeme *pieces = writer->format->pieces.at;
    writer->brackets.n = 0;
    put_spaces(writer, line->indent);
    bool must_break = false;
    for (int i = line->first; i < line->end; i++) {
        const Lexeme *piece = &pieces[i];
        bool glued = is_one(piece, "{;") || is(piece, "else");
        int inner = writer->brackets.n ? writer->brackets.at[writer->brackets.n - 1] : line->indent + INDENT;
        if (i > line->first && (must_break || (piece->newlines && !glued)))
            put_line_break(writer, inner);
        else if (i > line->first)
            put_spaces(writer, (piece->comment ? 2 : is_between(writer->format, i, line->first)) + piece->pad);
        put_piece(writer, piece);
        must_break = piece->comment;
        if (is_one(piece, "([")) {
            bool hangs = i + 1 < line->end && !pieces[i + 1].newlines && !pieces[i + 1].comment;
            int column = hangs ? writer->column : inner + (writer->brackets.n ? INDENT : 0);
            vec_push(writer->format->arena, &writer->brackets, column);
        }
        if (is_one(piece, ")]") && writer->brackets.n > 0) writer->brackets.n--;
    }
}

/* The width of the last line written. */
static int last_column(const Text *out) {
    size_t begin = out->n;
    while (begin > 0 && out->at[begin - 1] != '\n')
        begin--;
    return characters(out->at + begin, (int)(out->n - begin));
}

/* Trailing comments of consecutive lines are aligned in one column: so lines are first written into a text of their own. */
static void put_lines(Format *format, Text *out) {
    Writer writer = {.format = format, .out = out};
    int n = format->lines.n;
    for (int l = 0, end; l < n; l = end) {
        end = l + 1;
        while (end < n && !format->lines.at[end].blank && format->lines.at[end].indent == format->lines.at[l].indent)
            end++;
        int column = 0;
        for (int k = l; k < end; k++) {
            if (format->lines.at[k].comment < 0) continue;
            Text alone = {0};
            writer.out = &alone;
            writer.column = 0;
            put_statement(&writer, &format->lines.at[k]);
            int at = last_column(&alone);
            if (at > column) column = at;
            text_finish(&alone);
        }
        writer.out = out;
        for (int k = l; k < end; k++) {
            const Line *line = &format->lines.at[k];
            if (line->blank) text_append(out, "\n", 1);
            writer.column = 0;
            put_statement(&writer, line);
            if (line->comment >= 0) {
                put_spaces(&writer, column + 2 - last_column(out));
                put_piece(&writer, &format->pieces.at[line->comment]);
            }
            text_append(out, "\n", 1);
        }
    }
}

/* ---------------------------------------------------------------- */

/* Whether both have the same pieces in the same order. */
static bool same_pieces(const Format *a, const Format *b) {
    if (a->pieces.n != b->pieces.n) return false;
    for (int i = 0; i < a->pieces.n; i++)
        if (a->pieces.at[i].n != b->pieces.at[i].n || memcmp(a->pieces.at[i].at, b->pieces.at[i].at, (size_t)a->pieces.at[i].n) != 0)
            return false;
    return true;
}

static bool pieces_of(Format *format, Arena *arena, Diags *diags, const char *name, const char *text, size_t n) {
    Parse *parse = arena_alloc(arena, sizeof *parse);
    Lexemes lexemes = {0};
    *format = (Format){.arena = arena};
    if (!parse_text(parse, arena, diags, diags_add_file(diags, name, text, n), PARSE_FILE, &lexemes)) return false;
    find_pieces(format, text, &lexemes);
    return true;
}

bool frontend_format(const char *name, const char *text, size_t n, Text *out, Arena *arena, Diags *diags) {
    Format format, again;
    if (!pieces_of(&format, arena, diags, name, text, n)) return false;
    find_lines(&format);
    align_groups(&format);
    size_t before = out->n;
    put_lines(&format, out);
    if (pieces_of(&again, arena, diags, name, out->n > before ? out->at + before : "", out->n - before) && same_pieces(&format, &again))
        return true;
    diag_error(diags, (Span){0}, "%s cannot be formatted without changing what it says", name);
    return false;
}
