/* tokens: see tokens.h. */
#include "runtime/data/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "runtime/data/wordpiece.h"

typedef struct Letter {
    int32_t character;
    int number;
} Letter;

struct Tokens {
    Tokenizer kind;
    int64_t length;
    Wordpiece *wordpiece;
    Letter *letter; /* of an alphabet, by their characters */
    int nletters;
};

/* The character at the beginning of a text; returns how many bytes it has, 0: invalid UTF-8. */
static size_t character_at(const char *text, size_t n, int32_t *character) {
    const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, character);
    return bytes > 0 ? (size_t)bytes : 0;
}

static int by_character(const void *a, const void *b) {
    const Letter *x = a, *y = b;
    return (x->character > y->character) - (x->character < y->character);
}

static bool read_alphabet(Tokens *tokens, const RowFile *file, Error *error) {
    const char *text = file->vocabulary;
    const size_t n = strlen(text);
    tokens->letter = malloc((n + 1) * sizeof *tokens->letter);
    if (!tokens->letter) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", file->path);
    for (size_t at = 0, bytes; at < n; at += bytes) {
        Letter *letter = &tokens->letter[tokens->nletters];
        letter->number = tokens->nletters++;
        if ((bytes = character_at(text + at, n - at, &letter->character)) == 0)
            return error_set(error, EXIT_ENVIRONMENT, "%s: the alphabet of its texts is not UTF-8", file->path);
    }
    qsort(tokens->letter, (size_t)tokens->nletters, sizeof *tokens->letter, by_character);
    for (int i = 1; i < tokens->nletters; i++)
        if (tokens->letter[i].character == tokens->letter[i - 1].character)
            return error_set(error, EXIT_ENVIRONMENT, "%s: the alphabet of its texts has a character twice (U+%04X)", file->path,
                             (unsigned)tokens->letter[i].character);
    return true;
}

Tokens *tokens_open(const RowFile *file, int64_t length, Error *error) {
    Tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", file->path), NULL;
    tokens->kind = file->tokenizer;
    tokens->length = length;
    bool ok = tokens->kind != TOKENIZER_WORDPIECE || length >= 2 ||
              error_set(error, EXIT_ENVIRONMENT, "%s: a row of %lld tokens has no room for [CLS] and [SEP]", file->path, (long long)length);
    if (ok && tokens->kind == TOKENIZER_WORDPIECE)
        ok = (tokens->wordpiece = wordpiece_open(file->vocabulary, file->lowercase, error)) != NULL;
    if (ok && tokens->kind == TOKENIZER_CHARACTERS) ok = read_alphabet(tokens, file, error);
    if (ok) return tokens;
    tokens_close(tokens);
    return NULL;
}

void tokens_close(Tokens *tokens) {
    if (!tokens) return;
    wordpiece_close(tokens->wordpiece);
    free(tokens->letter);
    free(tokens);
}

/* How many characters were encoded; -1: at *bad the text is not UTF-8, or has a character outside the alphabet. */
static int64_t encode_characters(const Tokens *tokens, const char *text, size_t n, int32_t *ids, size_t *bad, char *why, size_t room) {
    int64_t used = 0;
    for (size_t at = 0, bytes; at < n; at += bytes) {
        Letter wanted;
        *bad = at;
        if ((bytes = character_at(text + at, n - at, &wanted.character)) == 0) {
            snprintf(why, room, "the text is not UTF-8");
            return -1;
        }
        const Letter *letter = bsearch(&wanted, tokens->letter, (size_t)tokens->nletters, sizeof wanted, by_character);
        if (!letter) {
            snprintf(why, room, "'%.*s' (U+%04X) is not in the alphabet", (int)bytes, text + at, (unsigned)wanted.character);
            return -1;
        }
        if (used < tokens->length) ids[used++] = letter->number;
    }
    return used;
}

int64_t tokens_encode(const Tokens *tokens, const char *text, size_t n, int32_t *ids, size_t *bad, char *why, size_t room) {
    int64_t used = 0;
    if (tokens->kind == TOKENIZER_WORDPIECE) {
        used = wordpiece_encode(tokens->wordpiece, text, n, tokens->length, ids, bad);
        if (used == WORDPIECE_BROKEN) snprintf(why, room, "the text is not UTF-8");
        return used;
    }
    if (tokens->kind == TOKENIZER_CHARACTERS) used = encode_characters(tokens, text, n, ids, bad, why, room);
    for (; tokens->kind == TOKENIZER_BYTES && used < tokens->length && (size_t)used < n; used++)
        ids[used] = (unsigned char)text[used];
    const int32_t filler = tokens->kind == TOKENIZER_CHARACTERS ? tokens->nletters : 0;
    for (int64_t i = used < 0 ? tokens->length : used; i < tokens->length; i++)
        ids[i] = filler;
    return used;
}
