/* Syntax errors: the lexer's brackets and messages, and the parser's messages about an unexpected token. */
#include "frontend/ast.h"
#include "ir/layout.h"

#include <errno.h>
#include <math.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { QUOTE_BYTES = 40 }; /* of source text quoted in a message */

static const char ASSERTION[] = "an assertion is written assert comm < 2 MiB;";

static Span here(const Parse *parse, Loc loc) {
    return span_of(parse->file, loc);
}

static char closer_of(char opener) {
    return opener == '(' ? ')' : opener == '[' ? ']' : '}';
}

/* The first bytes of the source at loc: one line, for a message. */
static const char *quote(const Parse *parse, Loc loc) {
    int n = loc.end - loc.begin;
    const char *at = parse->text + loc.begin;
    bool cut = n > QUOTE_BYTES;
    if (cut) n = QUOTE_BYTES;
    const char *newline = memchr(at, '\n', (size_t)n);
    if (newline) n = (int)(newline - at);
    return arena_printf(parse->arena, "'%.*s%s'", n, at, cut ? "..." : "");
}

static void note_opened(const Parse *parse, Loc loc, char kind) {
    diag_note(parse->diags, here(parse, loc), "'%c' was opened here", kind);
}

/* ---------------------------------------------------------------- for the lexer */

void lex_advance(Parse *parse, Loc *loc, const char *text, int n) {
    *loc = (Loc){.begin = parse->offset, .end = parse->offset + n, .line = parse->line, .column = parse->offset - parse->line_begin + 1};
    const char *at = text, *end = text + n;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        parse->line++;
        parse->line_begin = parse->offset + (int)(at - text);
    }
    parse->offset += n;
    if (parse->lexemes && n > 0 && !strchr(" \t\r\n\f\v", text[0])) vec_push(parse->arena, parse->lexemes, *loc);
}

int lex_token(Parse *parse, const Loc *loc, int kind) {
    parse->before = parse->previous;
    parse->previous = parse->current;
    parse->current = *loc;
    parse->unclosed = false;
    /* Stops at DIAG_MAX_ERRORS errors: what follows is usually noise. */
    if (parse->diags->nerrors >= DIAG_MAX_ERRORS) parse->stopped = true;
    return parse->stopped ? 0 : kind;
}

int lex_open(Parse *parse, const Loc *loc, char kind) {
    if (parse->nopen == MAX_BRACKETS) {
        diag_error(parse->diags, here(parse, *loc), "brackets nest more than %d deep", (int)MAX_BRACKETS);
        note_opened(parse, parse->open[0].loc, parse->open[0].kind);
        parse->stopped = true;
        return 0;
    }
    parse->open[parse->nopen].loc = *loc;
    parse->open[parse->nopen++].kind = kind;
    return lex_token(parse, loc, kind);
}

/* Leaves all round and square brackets inside the innermost braces: the token at loc ends a statement. */
static void leave_brackets(Parse *parse) {
    int innermost = parse->nopen - 1;
    while (parse->nopen > 0 && parse->open[parse->nopen - 1].kind != '{')
        parse->nopen--;
    parse->unclosed = innermost >= parse->nopen;
    if (!parse->unclosed) return;
    parse->unclosed_loc = parse->open[innermost].loc;
    parse->unclosed_kind = parse->open[innermost].kind;
}

int lex_close(Parse *parse, const Loc *loc, char kind) {
    char opener = parse->nopen > 0 ? parse->open[parse->nopen - 1].kind : 0;
    if (kind == '}' && opener) {
        int token = lex_token(parse, loc, kind);
        leave_brackets(parse);
        if (parse->nopen > 0) parse->nopen--;
        if (parse->nopen < parse->hints_open) parse->hints_open = 0;
        return token;
    }
    if (!opener || (opener == '{' && kind != '}')) {
        diag_error(parse->diags, here(parse, *loc), "'%c' closes nothing: no '%c' is open here", kind,
                   kind == ')'   ? '('
                   : kind == ']' ? '['
                                 : '{');
        return 0;
    }
    char wanted = closer_of(opener);
    if (kind != wanted) {
        diag_error(parse->diags, here(parse, *loc), "expected '%c', found '%c'", wanted, kind);
        note_opened(parse, parse->open[parse->nopen - 1].loc, opener);
    }
    parse->nopen--;
    return lex_token(parse, loc, wanted);
}

bool lex_begins_hints(Parse *parse) {
    const Loc *at = &parse->current, *before = &parse->previous;
    const char *word = parse->text + at->begin;
    const bool begins = at->end - at->begin == 5 && (memcmp(word, "hints", 5) == 0 || memcmp(word, "shard", 5) == 0);
    const bool found = before->end - before->begin == 5 && memcmp(parse->text + before->begin, "hints", 5) == 0; /* hints found { */
    if (!begins && !found) return false;
    parse->hints_open = parse->nopen + 1;
    return true;
}

bool lex_begins_path(const Parse *parse) {
    const Loc *before = &parse->previous;
    return before->end - before->begin == 6 && memcmp(parse->text + before->begin, "forbid", 6) == 0;
}

static bool is_word(const Parse *parse, Loc loc, const char *word) {
    const size_t n = strlen(word);
    return (size_t)(loc.end - loc.begin) == n && memcmp(parse->text + loc.begin, word, n) == 0;
}

static bool is_scaled(const Parse *parse, Loc loc) {
    return is_word(parse, loc, "lr") || is_word(parse, loc, "decay");
}

bool lex_begins_paths(const Parse *parse) {
    return is_scaled(parse, parse->current) || is_scaled(parse, parse->previous);
}

/* Words after which an expression begins. */
static bool is_lead(const char *word, int n) {
    static const char *const leads[] = {"let",     "for",  "in",    "if",    "and",   "or",    "not", "return",
                                        "require", "loss", "param", "input", "const", "state", "cell"};
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
        if ((int)strlen(leads[i]) == n && memcmp(word, leads[i], (size_t)n) == 0) return true;
    return false;
}

bool lex_begins_stage(const Parse *parse, const Loc *loc) {
    const Loc *before = &parse->current;
    const char *behind = parse->text + loc->end, *end = parse->text + parse->n;
    while (behind < end && strchr(" \t\r\n", *behind))
        behind++;
    const bool number = behind < end && (*behind == '(' || *behind == '_' || (*behind >= '0' && *behind <= '9') ||
                                         (*behind >= 'a' && *behind <= 'z') || (*behind >= 'A' && *behind <= 'Z'));
    if (!number || before->end <= before->begin) return false;
    const char *word = parse->text + before->begin, last = parse->text[before->end - 1];
    if (last == '=') return (lex_in_hints(parse) || parse->kind == PARSE_HINT) && before->end == before->begin + 1;
    const bool named = last == '_' || (last >= '0' && last <= '9') || (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z');
    return last == ')' || last == ']' || last == '}' || (named && !is_lead(word, before->end - before->begin));
}

bool lex_in_hints(const Parse *parse) {
    return parse->hints_open > 0 && parse->nopen == parse->hints_open;
}

bool lex_begins_write(const Parse *parse) {
    const Loc *before = &parse->previous;
    return before->end > before->begin && strchr(";{}", parse->text[before->end - 1]) != NULL;
}

int lex_end_statement(Parse *parse, const Loc *loc) {
    int token = lex_token(parse, loc, ';');
    leave_brackets(parse);
    return token;
}

int lex_end_file(Parse *parse, Loc *loc) {
    lex_advance(parse, loc, "", 0);
    lex_token(parse, loc, 0);
    leave_brackets(parse);
    if (!parse->unclosed && parse->nopen > 0) {
        parse->unclosed = true;
        parse->unclosed_loc = parse->open[parse->nopen - 1].loc;
        parse->unclosed_kind = parse->open[parse->nopen - 1].kind;
    }
    return 0;
}

int64_t lex_integer(Parse *parse, const Loc *loc, const char *text) {
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno != ERANGE) return value;
    diag_error(parse->diags, here(parse, *loc), "number out of range: an integer is at most %lld", (long long)INT64_MAX);
    return 1;
}

int64_t lex_size(Parse *parse, const Loc *loc, const char *text) {
    static const char units[] = "BKMGTPE";
    const char *digits_end = text + strspn(text, "0123456789");
    char *end;
    const double number = strtod(text, &end);
    const int64_t unit = (int64_t)1 << 10 * (strchr(units, end[strspn(end, " \t")]) - units);
    int64_t bytes;
    if (digits_end == end) {
        if (mul_checked(lex_integer(parse, loc, text), unit, &bytes)) return bytes;
    } else {
        const double nearest = round(number * (double)unit);
        if (nearest < 0x1p63) return (int64_t)nearest;
    }
    diag_error(parse->diags, here(parse, *loc), "number out of range: it is more than %lld bytes", (long long)INT64_MAX);
    return 1;
}

double lex_real(Parse *parse, const Loc *loc, const char *text) {
    double value = strtod(text, NULL);
    if (isfinite(value) && (value > 0 || strspn(text, "0.") >= strcspn(text, "eE"))) return value;
    diag_error(parse->diags, here(parse, *loc), "number out of range: it is too %s for a 64-bit float",
               isfinite(value) ? "small" : "large");
    return 1;
}

/* Hints where a number ends in an unknown unit of bytes: GB, gib, G. Returns whether it does. */
static bool hint_bytes(const Parse *parse, Loc loc) {
    const char *begin = parse->text + loc.begin, *at = parse->text + loc.end;
    const bool byte = at > begin && (at[-1] == 'B' || at[-1] == 'b');
    at -= byte;
    if (at > begin && (at[-1] == 'i' || at[-1] == 'I')) at--;
    const bool times = at > begin && strchr(byte ? "KMGTPEkmgtpe" : "KMGTkmgt", at[-1]) != NULL;
    at -= times;
    if ((!byte && !times) || (at > begin && !strchr("0123456789. \t", at[-1]))) return false;
    diag_hint(parse->diags, "bytes are written 25 MiB or 1.5 GiB; B, KiB and TiB likewise");
    return true;
}

void lex_bad_number(Parse *parse, const Loc *loc, const char *text) {
    diag_error(parse->diags, here(parse, *loc), "%s is not a number", quote(parse, *loc));
    if (strchr(text, '_'))
        diag_hint(parse->diags, "digits are written without '_'");
    else if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        diag_hint(parse->diags, "numbers are decimal");
    else if (hint_bytes(parse, *loc))
        return;
    else
        diag_hint(parse->diags, "numbers are written 12, 0.5 or 1e-3; names start with a letter");
}

void lex_bad_name(Parse *parse, const Loc *loc, int n) {
    diag_error(parse->diags, here(parse, *loc), "a name of %d bytes; a name has at most %d", n, (int)MAX_NAME_BYTES);
}

void lex_bad_path(Parse *parse, const Loc *loc, int n) {
    diag_error(parse->diags, here(parse, *loc), "a path of %d bytes; a path has at most %d", n, (int)MAX_PATH_BYTES);
}

/* The character that the n bytes after a backslash stand for; *used: how many of them it takes; 0: none. */
static char escaped(const char *text, int n, int *used) {
    static const char letters[] = "nt\"\\", meant[] = "\n\t\"\\";
    const char *letter = strchr(letters, text[0]);
    *used = 1;
    if (letter && text[0]) return meant[letter - letters];
    if (text[0] != 'x' || n < 3 || !strchr("01234567", text[1]) || !isxdigit((unsigned char)text[2])) return 0;
    *used = 3;
    return (char)strtol((char[]){text[1], text[2], 0}, NULL, 16);
}

char *lex_string(Parse *parse, const Loc *loc, const char *text, int n) {
    char *string = arena_copy(parse->arena, text, (size_t)n), *end = string;
    for (int i = 0, used; i < n; i++) {
        *end = text[i];
        if (text[i] == '\\') {
            *end = escaped(text + i + 1, n - i - 1, &used);
            if (!*end) {
                int bytes = 1;
                while (i + 1 + bytes < n && ((unsigned char)text[i + 1 + bytes] & 0xc0) == 0x80)
                    bytes++;
                Loc at = *loc;
                at.begin += 1 + i, at.column += 1 + i, at.end = at.begin + 1 + bytes;
                diag_error(parse->diags, here(parse, at), "'%.*s' stands for no character in a text", 1 + bytes, text + i);
                diag_hint(parse->diags,
                          "\\n is a new line, \\t a tab, \\\" a quote, \\\\ a backslash, \\x01 to \\x7f a character by its number");
                break;
            }
            i += used;
        }
        end++;
    }
    *end = '\0';
    return string;
}

void lex_bad_string(Parse *parse, const Loc *loc) {
    Loc opener = *loc;
    opener.end = opener.begin + 1;
    diag_error(parse->diags, here(parse, opener), "this text is not closed: expected '\"' before the end of the line");
}

void lex_bad_quotes(Parse *parse, const Loc *loc) {
    const int n = loc->end - loc->begin - 2;
    diag_error(parse->diags, here(parse, *loc), "texts stand in double quotes");
    diag_hint(parse->diags, "\"%.*s\"", n < QUOTE_BYTES ? n : QUOTE_BYTES, parse->text + loc->begin + 1);
}

void lex_bad_comment(Parse *parse, const Loc *loc) {
    Loc opener = *loc;
    opener.end = opener.begin + 2;
    diag_error(parse->diags, here(parse, opener), "comments start with '#' and go to the end of the line");
    const bool operand = parse->current.end > 0 && !strchr(";{}", parse->text[parse->current.end - 1]);
    if (operand && parse->current.line == loc->line && parse->text[opener.begin + 1] == '/')
        diag_hint(parse->diags, "a division is written with one '/'; that of two integers must be exact");
}

void lex_bad_include(Parse *parse, const Loc *loc) {
    diag_error(parse->diags, here(parse, *loc), "a '#' starts a comment: this includes nothing");
    diag_hint(parse->diags, "import \"nn.dsl\";");
}

void lex_bad_operator(Parse *parse, const Loc *loc, const char *text) {
    diag_error(parse->diags, here(parse, *loc), "'%s' is not an operator of the language", text);
    if (!strcmp(text, ":="))
        diag_hint(parse->diags, "write '='");
    else if (!strcmp(text, "=>"))
        diag_hint(parse->diags, "an output strategy follows '->'");
    else if (!strcmp(text, "&&") || !strcmp(text, "||") || !strcmp(text, "!"))
        diag_hint(parse->diags, "conditions are joined with and, or, not: if i > 0 and not last { ... }");
    else if (!strcmp(text, "^"))
        diag_hint(parse->diags, "a power is x ** 2");
    else if (text[1] == '=')
        diag_hint(parse->diags, "write it out, x = x %c y; inside a loop, and outside with a new name, z = x %c y;", text[0], text[0]);
    else
        diag_hint(parse->diags, "there are + - * / %% ** and @, and '=' gives a name its value");
}

/* Characters that look like one of ours: typed with a foreign keyboard, or pasted from a document. */
static const struct {
    const char *text;
    char meant; /* ' ': white space; 0: none with which parsing could continue */
    const char *hint;
} lookalikes[] = {
    {"\xef\xbb\xbf", ' ', NULL}, /* byte order mark */
    {"\xc2\xa0", ' ', NULL},     /* no-break space */
    {"\xe3\x80\x80", ' ', NULL}, /* ideographic space */
    {"\xe2\x80\x8b", ' ', NULL}, /* zero width space */
    {"\xef\xbc\x8c", ',', ","},  {"\xe3\x80\x81", ',', ","}, {"\xef\xbc\x9b", ';', ";"}, {"\xef\xbc\x9a", ':', ":"},
    {"\xef\xbc\x88", '(', "("},  {"\xef\xbc\x89", ')', ")"}, {"\xef\xbc\xbb", '[', "["}, {"\xef\xbc\xbd", ']', "]"},
    {"\xe3\x80\x90", '[', "["},  {"\xe3\x80\x91", ']', "]"}, {"\xef\xbd\x9b", '{', "{"}, {"\xef\xbd\x9d", '}', "}"},
    {"\xef\xbc\x9d", '=', "="},  {"\xef\xbc\x8b", '+', "+"}, {"\xef\xbc\x8d", '-', "-"}, {"\xe2\x88\x92", '-', "-"},
    {"\xe2\x80\x93", '-', "-"},  {"\xe2\x80\x94", '-', "-"}, {"\xc3\x97", '*', "*"},     {"\xe2\x88\x97", '*', "*"},
    {"\xc3\xb7", '/', "/"},      {"\xef\xbc\x8f", '/', "/"}, {"\xef\xbc\x8e", '.', "."}, {"\xc2\xb7", '.', "."},
    {"\xe2\x86\x92", 0, "->"},   {"\xe2\x80\x9c", 0, "\""},  {"\xe2\x80\x9d", 0, "\""},  {"\xe2\x80\x98", 0, "\""},
    {"\xe2\x80\x99", 0, "\""},
};

int lex_other(Parse *parse, const Loc *loc, const char *text, int n) {
    for (size_t i = 0; i < sizeof lookalikes / sizeof lookalikes[0]; i++) {
        if (strlen(lookalikes[i].text) != (size_t)n || memcmp(lookalikes[i].text, text, (size_t)n)) continue;
        if (lookalikes[i].meant == ' ') return 0;
        diag_error(parse->diags, here(parse, *loc), "'%s' is not '%s'", lookalikes[i].text, lookalikes[i].hint);
        diag_hint(parse->diags, "type the ASCII character %s", lookalikes[i].hint);
        parse->bad_end = loc->end;
        return lookalikes[i].meant ? lookalikes[i].meant : -1;
    }
    bool again = parse->bad_end == loc->begin && loc->begin > 0;
    parse->bad_end = loc->end;
    if (parse->diags->nerrors >= DIAG_MAX_ERRORS) parse->stopped = true;
    if (again || parse->stopped) return -1;
    unsigned char c = (unsigned char)text[0];
    if (c == 0) {
        diag_error(parse->diags, here(parse, *loc), "a NUL byte: this is not a text file");
        parse->stopped = true;
    } else if (c < 0x20 || c == 0x7f) {
        diag_error(parse->diags, here(parse, *loc), "a control character (byte 0x%02x): this is not a text file", c);
    } else if (c < 0x80) {
        diag_error(parse->diags, here(parse, *loc), "'%c' is not part of the language", c);
        if (c == '&' || c == '|')
            diag_hint(parse->diags,
                      "conditions are joined with and, or, not; those that are tensors: where(a, b, a) is a and b, where(a, a, b) a or b");
        if (c == '?')
            diag_hint(parse->diags, "where(x > 0, a, b) chooses element by element; if n > 0 { y = a; } else { y = b; } by a number");
    } else if (n > 1) {
        diag_error(parse->diags, here(parse, *loc), "'%.*s' is not part of the language", n, text);
        diag_hint(parse->diags, "names are made of the letters a to z and A to Z, digits and '_'");
    } else {
        diag_error(parse->diags, here(parse, *loc), "byte 0x%02x is not UTF-8 text", c);
    }
    return -1;
}

/* ---------------------------------------------------------------- for the parser */

void syntax_too_deep(Parse *parse, Loc loc) {
    if (parse->stopped) return;
    parse->stopped = true;
    diag_error(parse->diags, here(parse, loc), "this expression nests too deeply (more than %d levels)", (int)MAX_EXPR_DEPTH);
    diag_hint(parse->diags, "give parts of it names of their own");
}

void syntax_block_inside(Parse *parse, Loc loc) {
    diag_error(parse->diags, here(parse, loc), "hints in braces stand at the end of a statement");
    diag_hint(parse->diags, "give the call a name of its own: h = block(x) shard { fc1 = ((2, 1), (1, 4)); };");
}

Expr *expr_counted(Parse *parse, const char *name, Expr *number, Expr *unit) {
    if (!strcmp(name, "every"))
        return expr_add(parse, expr_add(parse, expr_text(parse, EXPR_CALL, loc_join(number->loc, unit->loc), name), number), unit);
    diag_error(parse->diags, here(parse, unit->loc), "expected an infix operator or ';', found %s", quote(parse, unit->loc));
    hint_bytes(parse, unit->loc);
    return number;
}

static Expr *add_items(Parse *parse, Expr *call, const Expr *list) {
    for (Expr *item = list->items, *next; item; item = next) {
        next = item->next;
        item->next = NULL;
        expr_add(parse, call, item);
    }
    return call;
}

Expr *expr_sentence(Parse *parse, const char *word, Loc loc, Expr *first, Expr *words) {
    return add_items(parse, expr_add(parse, expr_text(parse, EXPR_CALL, loc, word), first), words);
}

Expr *expr_paths(Parse *parse, const char *name, const char *word, Loc loc, Expr *number, Expr *paths) {
    Expr *call = expr_text(parse, EXPR_CALL, number ? loc_join(number->loc, paths->loc) : loc_join(loc, paths->loc), word);
    if (strcmp(name, "lr") != 0 && strcmp(name, "decay") != 0)
        diag_error(parse->diags, here(parse, loc), "expected '=', found %s: only lr and decay are set by parameter", quote(parse, loc));
    if (number) expr_add(parse, call, number);
    return add_items(parse, call, paths);
}

const char *hints_word(Parse *parse, const char *word, Loc loc) {
    if (strcmp(word, "found") == 0) return word;
    diag_error(parse->diags, here(parse, loc), "expected '{', found %s", quote(parse, loc));
    diag_hint(parse->diags, "hints { ... }, or hints found { ... } of what pcc --write-hints has written");
    return word;
}

PatternList pattern_mesh(Parse *parse, PatternList list, const char *word, Loc loc, Expr *arguments) {
    if (strcmp(word, "mesh") != 0) {
        const Loc at = arguments->loc;
        diag_error(parse->diags, here(parse, (Loc){at.begin, at.begin + 1, at.line, at.column}), "expected '=', found '('");
        diag_hint(parse->diags, "a hint is a path and a strategy: layer.*.fc1 = ((2, 4), (4, 1));");
        return list;
    }
    list = pattern_append(parse, list, word, loc, NULL);
    arguments->text = word;
    arguments->loc = loc_join(loc, arguments->loc);
    list.last->mesh = arguments;
    return list;
}

Expr *expr_forbidden(Parse *parse, const char *name, Expr *value, Loc end) {
    if (strcmp(name, "forbid") == 0 || strcmp(name, "restore") == 0) return value;
    diag_error(parse->diags, here(parse, end), "expected an expression, found ';'");
    if (strcmp(name, "assert") == 0)
        diag_hint(parse->diags, "%s", ASSERTION);
    else if (strcmp(name, "decay") == 0)
        diag_hint(parse->diags, "decay except **.bias, **.norm*.weight; or decay 0.5 for encoder.**;");
    else
        diag_hint(parse->diags, "a setting is written %s = %s;", name, value->text);
    return value;
}

Expr *expr_compared(Parse *parse, const char *name, Expr *left, const char *op, Expr *right, Expr *unit) {
    Expr *call = expr_text(parse, EXPR_CALL, loc_join(left->loc, unit != NULL ? unit->loc : right->loc), op);
    if (strcmp(name, "assert") != 0)
        diag_error(parse->diags, here(parse, left->loc), "expected '=', found %s: only assert compares", quote(parse, left->loc));
    expr_add(parse, expr_add(parse, call, left), right);
    return unit != NULL ? expr_add(parse, call, unit) : call;
}

static bool among(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static bool is_keyword(const char *token) {
    return token[0] == '\'' && token[1] >= 'a' && token[1] <= 'z';
}

/* "'=' or ';'": the tokens that could stand here, at most four; expressions and infix operators each as one. */
static const char *list_expected(const Parse *parse, const char *const *expected, int n) {
    static const char *const starts[] = {"a number", "a real number", "a text", "'('", "'['", "'-'", "'+'", "'not'"};
    static const char *const infix[] = {"'+'", "'-'",  "'*'",  "'/'",  "'%'",  "'.'", "'('", "'['",   "'**'",
                                        "'@'", "'=='", "'!='", "'<='", "'>='", "'<'", "'>'", "'and'", "'or'"};
    const bool operators = among(expected, n, "'*'"),
               expression = !operators && among(expected, n, "a number") && !among(expected, n, "'='");
    const char *words[64];
    int nwords = 0;
    if (expression) words[nwords++] = "an expression";
    for (int i = 0; i < n && nwords < 64; i++) {
        const char *word = expected[i];
        if (expression && (!strcmp(word, "a name") || among(starts, sizeof starts / sizeof *starts, word))) continue;
        if (operators && among(infix, sizeof infix / sizeof *infix, word)) continue;
        if (!strcmp(word, "'shard'") && n > 2) continue;
        if (!strcmp(word, "'recompute'") || !strcmp(word, "'stage'")) continue;
        if (!strcmp(word, "'('") && among(expected, n, "'='")) continue;  /* only mesh is written with parentheses */
        if (!strcmp(word, "'<-'") && among(expected, n, "'='")) continue; /* few names are states */
        if (!strcmp(word, "','") && n == 2 + among(expected, n, "'<-'") && among(expected, n, "'='"))
            continue; /* few operators have several results */
        if (!strcmp(word, "end of file")) continue;
        if (operators &&
            (!strcmp(word, "a name") || !strcmp(word, "a number") || !strcmp(word, "a real number") || !strcmp(word, "'loss'")))
            continue; /* a unit, or the words of a setting that reads as a sentence */
        if (!strcmp(word, "a path") && expression) continue;
        if ((!strcmp(word, "a name") || !strcmp(word, "a text") || !strcmp(word, "a number") || !strcmp(word, "a real number") ||
             !strcmp(word, "'loss'")) &&
            among(expected, n, "'='"))
            continue;                                                                 /* settings that read as a sentence */
        if (!strcmp(word, "';'") && n > 4 && among(expected, n, "'param'")) continue; /* a lone ';' has no meaning */
        words[nwords++] = word;
    }
    if (among(expected, n, "'param'")) return "a statement (input, param, const, loss, let, for, if, return, or a name) or '}'";
    if (among(expected, n, "'net'")) return "'net', 'train', 'eval', 'generate', 'parallel', 'cell', 'let', 'hints' or 'import'";
    if (among(expected, n, "a path") && (parse->kind == PARSE_HINT || n == 1)) return "a path";
    if (among(expected, n, "a path") && !expression) return "a hint (layer.*.fc1 = ((2, 4), (4, 1));) or '}'";
    if (nwords == 0) return "an infix operator";
    const char *list = words[0];
    for (int i = 1; i < nwords && i < 4; i++)
        list = arena_printf(parse->arena, "%s%s%s", list, i == nwords - 1 || i == 3 ? " or " : ", ", words[i]);
    return list;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Hints at what does not belong at the top level of a file. */
static void hint_top(const Parse *parse, Loc loc, const char *unexpected) {
    static const char *const statements[] = {"'input'", "'param'", "'const'", "'loss'", "'for'", "'if'", "'return'", "'require'"},
                             *const comments[] = {"a text", "'-'", "'%'", "'*'", "'/'"};
    size_t behind = (size_t)loc.end;
    while (behind < parse->n && parse->text[behind] == ' ')
        behind++;
    if (among(statements, sizeof statements / sizeof *statements, unexpected))
        diag_hint(parse->diags, "statements stand in a net or a cell: net q(batch = 16) { input x : f32[batch, 32]; ... }");
    else if (among(comments, sizeof comments / sizeof *comments, unexpected))
        diag_hint(parse->diags, "comments start with '#' and go to the end of the line");
    else if (!strcmp(unexpected, "a name") && behind < parse->n && parse->text[behind] == '=')
        diag_hint(parse->diags, "a number at the top of a file is named let %.*s = 3; statements stand in a net or a cell",
                  loc.end - loc.begin, parse->text + loc.begin);
    else
        diag_hint(parse->diags, "a file holds net NAME(...) { ... }, train { ... } and parallel { ... }, and cells, hints and imports");
}

/* How a demand (assert, forbid) is written, if one begins at the word. */
static const char *demand_hint(const Parse *parse, Loc word) {
    if (is_word(parse, word, "assert")) return ASSERTION;
    if (is_word(parse, word, "forbid")) return "a communication is forbidden by forbid all_gather; or forbid all_gather at layer.*;";
    return NULL;
}

static const char BY_PARAMETER[] = "for some of the parameters lr and decay are scaled: lr 0.1 for encoder.**; decay except **.bias;";

/* What newcomers write, and what they should. */
static void hint_for(const Parse *parse, Loc loc, const char *unexpected, const char *const *expected, int n) {
    Loc previous = parse->previous;
    const char *before = parse->text + previous.begin;
    int nbefore = previous.end - previous.begin;
    bool wants_equals = among(expected, n, "'='"), begins = among(expected, n, "'param'") || among(expected, n, "'net'");
    bool names_word = !strcmp(unexpected, "a name") && among(expected, n, "'*'") && nbefore > 0 && is_letter(before[0]) &&
                      loc.line == previous.line; /* relu x */
    const char *word = begins && !strcmp(unexpected, "a name")
                           ? arena_copy(parse->arena, parse->text + loc.begin, (size_t)(loc.end - loc.begin))
                       : wants_equals || names_word ? arena_copy(parse->arena, before, (size_t)nbefore)
                                                    : NULL;
    const bool entry = wants_equals && among(expected, n, "'('");
    const char *demand = entry ? demand_hint(parse, previous) : !strcmp(unexpected, "','") ? demand_hint(parse, parse->before) : NULL;
    const char *known = demand ? demand : word ? foreign_hint(parse->arena, "statement", word) : NULL;
    if (known)
        diag_hint(parse->diags, "%s", known);
    else if (!strcmp(unexpected, "a name") && isdigit((unsigned char)before[0]) && hint_bytes(parse, loc))
        return;
    else if (among(expected, n, "'net'"))
        hint_top(parse, loc, unexpected);
    else if (n == 1 && !strcmp(expected[0], "a text"))
        diag_hint(parse->diags, "a file is imported by its name in quotes: import \"nn.dsl\";");
    else if (n == 1 && !strcmp(expected[0], "'{'") && !strcmp(unexpected, "'='"))
        diag_hint(parse->diags, "a block has no '=': %.*s { ... }", nbefore, before);
    else if (!strcmp(unexpected, "'->'") && among(expected, n, "'{'"))
        diag_hint(parse->diags, "what a cell returns is said at its end: return y;");
    else if (!strcmp(unexpected, "':'") && wants_equals && among(expected, n, "')'"))
        diag_hint(parse->diags,
                  among(expected, n, "'*'")
                      ? "an argument is written %.*s = ..."
                      : "%.*s has no type: a cell takes what it is given, cell f(x, n = 4); a net numbers, net q(batch = 16)",
                  nbefore, before);
    else if (!strcmp(unexpected, "'='") && among(expected, n, "')'"))
        diag_hint(parse->diags, "names get values in a call, f(k = 2), and in mesh (dp = 2, tp = 4);");
    else if (!strcmp(unexpected, "'='") && among(expected, n, "','") && among(expected, n, "';'"))
        diag_hint(parse->diags, "each setting ends in ';': mode = auto; search = sharding_propagation;");
    else if (before[0] == ',' && among(expected, n, "'loss'"))
        diag_hint(parse->diags, "a setting ends in ';'");
    else if (!strcmp(unexpected, "';'") && among(expected, n, "a number") && is_letter(before[0]) && parse->before.end > 0 &&
             is_letter(parse->text[parse->before.begin]))
        diag_hint(parse->diags,
                  strncmp(parse->text + parse->before.begin, "early_stop", 10) == 0 ? "%.*s %.*s patience 3;"
                                                                                    : "a setting is written %.*s = %.*s;",
                  parse->before.end - parse->before.begin, parse->text + parse->before.begin, nbefore, before);
    else if (wants_equals && !strcmp(unexpected, "'=='"))
        diag_hint(parse->diags, "'=' gives a name its value: %.*s = ...;", nbefore, before);
    else if (wants_equals && !strcmp(unexpected, "'.'"))
        diag_hint(parse->diags, "a name that is given a value has no '.'");
    else if (!strcmp(unexpected, "'('") && before[0] == ')')
        diag_hint(
            parse->diags,
            "a call takes its operands at once, y = linear(x, 64); its strategy stands behind it: y = matmul(x, w) shard ((2, 4), (4, 1));");
    else if (!strcmp(unexpected, "'if'") && among(expected, n, "'*'"))
        diag_hint(parse->diags, "where(x > 0, a, b) chooses element by element; if n > 0 { y = a; } else { y = b; } by a number");
    else if (among(expected, n, "'..'"))
        diag_hint(parse->diags, "for i in 0..12 { ... } runs from 0 to 11");
    else if (parse->kind != PARSE_HINT && n == 1 && (!strcmp(expected[0], "a path") || !strcmp(expected[0], "'for'")))
        diag_hint(parse->diags, "%s", BY_PARAMETER);
    else if (nbefore == 3 && !memcmp(before, "for", 3))
        diag_hint(parse->diags, "for i in 0..12 { ... } runs from 0 to 11");
    else if (!strcmp(unexpected, "':'") && among(expected, n, "'{'"))
        diag_hint(parse->diags, "the body stands in braces: for i in 0..12 { ... }, if n > 0 { ... }");
    else if (among(expected, n, "':'") && wants_equals)
        diag_hint(parse->diags,
                  !strcmp(unexpected, "','") ? "each name has a declaration of its own: input x : f32[16, 32]; input y : f32[16];"
                                             : "a type follows the name: param %.*s : f32[8, 4] = normal(0.01);",
                  nbefore, before);
    else if (wants_equals && !strcmp(unexpected, "':'") && parse->before.end - parse->before.begin == 3 &&
             !memcmp(parse->text + parse->before.begin, "let", 3))
        diag_hint(parse->diags, "a number has no type: let %.*s = 3;", nbefore, before);
    else if (names_word)
        diag_hint(parse->diags, "a call has brackets: %.*s(%.*s)", nbefore, before, loc.end - loc.begin, parse->text + loc.begin);
    else if (among(expected, n, "'->'") && n <= 4)
        diag_hint(
            parse->diags,
            "a strategy ends its statement; that of an inner operator stands in brackets with it: (matmul(x, w) shard ((2, 4), (4, 1))) + b");
    else if (parse->hints_open || parse->kind == PARSE_HINT)
        diag_hint(parse->diags, "a hint is a path and a strategy: layer.*.fc1 = ((2, 4), (4, 1));");
    else if (entry)
        diag_hint(parse->diags, "%s", is_scaled(parse, previous) ? BY_PARAMETER : "a setting is written name = value;");
    else if (wants_equals && !strcmp(unexpected, "':'"))
        diag_hint(parse->diags, "a declaration starts with input, param or const: input x : f32[16, 32];");
    else if (wants_equals && !strcmp(unexpected, "'('"))
        diag_hint(parse->diags, "give the result a name: h = %.*s(...);", nbefore, before);
    else if (wants_equals && !strcmp(unexpected, "a name"))
        diag_hint(parse->diags, "a statement gives a name its value: h = relu(x);");
    else if (nbefore == 4 && !memcmp(before, "loss", 4) && !strcmp(unexpected, "'='"))
        diag_hint(parse->diags, "loss takes no '=': loss mse(y, label);");
}

void syntax_error(Parse *parse, Loc loc, const char *unexpected, const char *const *expected, int n) {
    if (parse->stopped) return;
    bool at_end = !strcmp(unexpected, "end of file");
    bool ends = at_end || !strcmp(unexpected, "';'") || !strcmp(unexpected, "'}'");
    const char *found = at_end ? (parse->kind == PARSE_FILE   ? "the end of the file"
                                  : parse->kind == PARSE_HINT ? "the end of the hint"
                                                              : "the end of the value")
                               : quote(parse, loc);
    if (at_end && parse->previous.end > 0) loc = parse->previous;
    Loc previous = parse->previous;
    if (!strcmp(unexpected, "'='") && n == 1 &&
        !strcmp(expected[0], "';'")) { /* in `steps = 5 keep = 3;` keep has been read as a unit of 5 */
        loc = parse->previous;
        previous = parse->before;
        found = quote(parse, loc);
    }
    Span span = here(parse, loc);

    if (ends && parse->unclosed) {
        diag_error(parse->diags, span, "expected '%c' before %s", closer_of(parse->unclosed_kind), found);
        note_opened(parse, parse->unclosed_loc, parse->unclosed_kind);
        return;
    }
    static const char *const blocks[] = {"'net'", "'train'", "'eval'", "'generate'", "'parallel'", "'cell'", "'hints'", "'import'"};
    if (among(blocks, sizeof blocks / sizeof *blocks, unexpected) && among(expected, n, "'}'") && parse->nopen > 0) {
        diag_error(parse->diags, span, "expected '}' before %s", found);
        note_opened(parse, parse->open[parse->nopen - 1].loc, parse->open[parse->nopen - 1].kind);
        parse->stopped = true; /* all following braces would be off by one */
        return;
    }
    if (!strcmp(unexpected, "'shard'") && !among(expected, n, unexpected) && !parse->hints_open && parse->kind != PARSE_HINT) {
        diag_error(parse->diags, span, "shard stands once, behind the operator that it shards");
        diag_hint(
            parse->diags,
            "at the end of a statement it is that of the outermost operator; in brackets of an inner one: relu(matmul(x, w) shard ((2, 4), (4, 1)))");
        return;
    }
    const bool member = parse->previous.end > 0 && parse->text[parse->previous.begin] == '.';
    if (!strcmp(unexpected, "'recompute'") && (parse->nopen > 1 || member) && !parse->hints_open) {
        diag_error(parse->diags, span, "recompute stands at the end of a statement, behind a strategy");
        diag_hint(parse->diags, "give what is to be computed again a name of its own: h = block(x) recompute;");
        return;
    }
    if (!strcmp(unexpected, "'stage'") && !parse->hints_open) {
        diag_error(parse->diags, span, "stage stands at the end of an assignment, behind a strategy");
        diag_hint(parse->diags, "give what the stage runs a name of its own: h = block(x) stage 1;");
        return;
    }
    if (is_keyword(unexpected) && among(expected, n, "a name") && !among(expected, n, "'param'")) {
        diag_error(parse->diags, span, "%s is a keyword and cannot be a name", found);
        if (parse->hints_open || parse->kind == PARSE_HINT)
            diag_hint(parse->diags, "a hint is a path and a strategy: layer.*.fc1 = ((2, 4), (4, 1));");
        else if (!strcmp(unexpected, "'param'") || !strcmp(unexpected, "'input'") || !strcmp(unexpected, "'const'"))
            diag_hint(
                parse->diags,
                "a declaration begins with it: input x : f32[16, 32]; param w : f32[32, 8] = normal(0.01); const c : f32[2] = [1, 2];");
        else if (!strcmp(unexpected, "'loss'") && among(expected, n, "']'"))
            diag_hint(parse->diags, "metrics stand without brackets: metrics = loss, accuracy;");
        else if (!strcmp(unexpected, "'loss'") && among(expected, n, "'}'"))
            diag_hint(parse->diags, "the loss stands in the net: loss mse(y, label);");
        else if (!strcmp(unexpected, "'for'") && is_scaled(parse, previous))
            diag_hint(parse->diags, "%s", BY_PARAMETER);
        else
            diag_hint(parse->diags, "give it another name");
        return;
    }
    if (parse->kind == PARSE_HINT && among(expected, n, "end of file")) {
        diag_error(parse->diags, span, "expected the end of the hint, found %s", found);
        diag_hint(parse->diags, "each hint has a --shard of its own");
        return;
    }
    bool next_line = loc.line > previous.line && previous.line > 0;
    bool between = among(expected, n, "'param'") || among(expected, n, "'net'"); /* between statements or blocks no ';' is missing */
    if (among(expected, n, "';'") && !between && (next_line || at_end || !strcmp(unexpected, "'}'"))) {
        diag_error(parse->diags, here(parse, previous), "expected ';' after %s", quote(parse, previous));
        return;
    }
    diag_error(parse->diags, span, "expected %s, found %s", list_expected(parse, expected, n), found);
    if (parse->nopen > 0 && parse->open[parse->nopen - 1].kind != '{' && !strcmp(unexpected, "'{'"))
        note_opened(parse, parse->open[parse->nopen - 1].loc, parse->open[parse->nopen - 1].kind);
    hint_for(parse, loc, unexpected, expected, n);
}
