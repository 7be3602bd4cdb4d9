/* prompts: see prompts.h. */
#include "runtime/prompts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- tokens and text */

/* The length of the character at the beginning of n bytes. */
static int utf8_length(const char *at, size_t n) {
    const unsigned char c = (unsigned char)*at;
    const int length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    for (int i = 1; i < length; i++)
        if ((size_t)i >= n || ((unsigned char)at[i] & 0xc0) != 0x80) return i; /* no UTF-8: the bytes up to there */
    return length;
}

void alphabet_init(Alphabet *alphabet, const char *of, int64_t ntokens, Arena *arena) {
    *alphabet = (Alphabet){.ntokens = ntokens, .of = of};
    if (!of) return;
    if (!*of) {
        if (ntokens > 256) alphabet->ntokens = 256;
        return;
    }
    int64_t n = 0;
    size_t left = strlen(of);
    alphabet->letter = arena_alloc(arena, (left + 1) * sizeof *alphabet->letter);
    for (const char *at = of; left > 0;) {
        const size_t length = (size_t)utf8_length(at, left);
        alphabet->letter[n++] = arena_copy(arena, at, length);
        at += length;
        left -= length;
    }
    if (n < alphabet->ntokens) alphabet->ntokens = n;
}

void token_print(Text *text, const Alphabet *alphabet, int64_t token, bool first) {
    if (alphabet->letter) {
        text_printf(text, "%s", alphabet->letter[token]);
    } else if (alphabet->of) {
        const char byte = (char)token;
        text_append(text, &byte, 1);
    } else {
        text_printf(text, first ? "%lld" : " %lld", (long long)token);
    }
}

/* ---------------------------------------------------------------- one prompt */

typedef struct Reader {
    const Alphabet *alphabet;
    int64_t places, asked;
    Arena *arena;
    Error *error;
    const char *option; /* the option that gives the prompt; "": it is a line of a file */
} Reader;

static bool push_token(const Reader *r, Prompt *prompt, int64_t token) {
    if (prompt->n >= r->places)
        return error_set(r->error, EXIT_USAGE, "the prompt is longer than the %lld places of the net", (long long)r->places);
    prompt->token[prompt->n++] = token;
    return true;
}

/* The token of a character of so many bytes; -1: there is none. */
static int64_t token_of(const Alphabet *alphabet, const char *at, int length) {
    if (!alphabet->letter) return (unsigned char)*at < alphabet->ntokens ? (unsigned char)*at : -1;
    for (int64_t i = 0; i < alphabet->ntokens; i++)
        if (strncmp(alphabet->letter[i], at, (size_t)length) == 0 && alphabet->letter[i][length] == '\0') return i;
    return -1;
}

static bool read_text(const Reader *r, const char *text, size_t n, Prompt *prompt) {
    const Alphabet *alphabet = r->alphabet;
    for (size_t i = 0; i < n;) {
        const int length = alphabet->letter ? utf8_length(text + i, n - i) : 1;
        const int64_t token = token_of(alphabet, text + i, length);
        if (token < 0 && !alphabet->letter)
            return error_set(r->error, EXIT_USAGE, "%sthe byte 0x%02x behind %d others is no token of the net, which has %lld", r->option,
                             (unsigned char)text[i], (int)i, (long long)alphabet->ntokens);
        if (token < 0) return error_set(r->error, EXIT_USAGE, "%s'%.*s' is not in the net's alphabet", r->option, length, text + i);
        if (!push_token(r, prompt, token)) return false;
        i += (size_t)length;
    }
    return true;
}

/* "1,2,3" */
static bool read_numbers(const Reader *r, const char *text, Prompt *prompt) {
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        const long long token = strtoll(at, &end, 10);
        if (end == at || errno || (*end && *end != ',') || (*end == ',' && !end[1]))
            return error_set(r->error, EXIT_USAGE, "%s'%.200s' is no list of tokens: 1,2,3", r->option, text);
        if (token < 0 || token >= r->alphabet->ntokens)
            return error_set(r->error, EXIT_USAGE, "%sthe net has tokens 0 to %lld, and no %lld", r->option,
                             (long long)r->alphabet->ntokens - 1, token);
        if (!push_token(r, prompt, token)) return false;
        at = end + (*end == ',');
    }
    return true;
}

static bool read_prompt(const Reader *r, const char *text, size_t n, bool numbers, Prompts *prompts) {
    Prompt prompt = {.token = arena_alloc(r->arena, (size_t)(r->places + 1) * sizeof *prompt.token)};
    if (!(numbers ? read_numbers(r, arena_copy(r->arena, text, n), &prompt) : read_text(r, text, n, &prompt))) return false;
    if (prompt.n == 0) return error_set(r->error, EXIT_USAGE, "the prompt is empty: the first token is given, what follows is generated");
    const int64_t most = r->places - prompt.n + 1; /* the last one is not read again */
    if (r->asked > most)
        return error_set(r->error, EXIT_USAGE, "--generate %lld: the net has %lld places, and a prompt of %lld leaves %lld",
                         (long long)r->asked, (long long)r->places, (long long)prompt.n, (long long)most);
    vec_push(r->arena, prompts, prompt);
    return true;
}

/* ---------------------------------------------------------------- all of them */

/* Reads a prompt from each line: as numbers where tokens are not characters. */
static bool read_lines(const Reader *r, const char *path, const char *text, size_t n, Prompts *prompts) {
    int line = 1;
    for (size_t begin = 0; begin < n; line++) {
        const char *newline = memchr(text + begin, '\n', n - begin);
        const size_t end = newline ? (size_t)(newline - text) : n;
        const size_t length = end - begin - (end > begin && text[end - 1] == '\r');
        if (!read_prompt(r, text + begin, length, !r->alphabet->of, prompts)) return error_prefix(r->error, "%s:%d: ", path, line);
        begin = end + 1;
    }
    return prompts->n > 0 || error_set(r->error, EXIT_USAGE, "%s: it is empty: a prompt is a line", path);
}

bool prompts_read(Prompts *prompts, const RunOptions *options, const Alphabet *alphabet, int64_t places, int64_t asked, const char *file,
                  size_t n, Arena *arena, Error *error) {
    const bool numbers = options->prompt_tokens;
    Reader r = {alphabet, places, asked, arena, error, numbers ? "--prompt-tokens: " : "--prompt: "};
    if (file) {
        r.option = "";
        return read_lines(&r, options->prompts_file, file, n, prompts);
    }
    if (!numbers && !alphabet->of)
        return error_set(
            error, EXIT_USAGE,
            "--prompt: the plan does not say which characters the tokens are: say --prompt-tokens 1,2,3, or `alphabet` in the generate block");
    for (int i = 0; i < options->nprompts; i++) {
        if (read_prompt(&r, options->prompts[i], strlen(options->prompts[i]), numbers, prompts)) continue;
        return options->nprompts == 1 ? false : error_prefix(error, "prompt %d: ", i + 1);
    }
    return true;
}
