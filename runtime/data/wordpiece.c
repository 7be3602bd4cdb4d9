/* wordpiece: see wordpiece.h. A text is cleaned and split into words (at blanks, around punctuation and around each Chinese character). Each word is split from left to right
 * into the longest pieces that the vocabulary has. Categories and decompositions of Unicode are utf8proc's. */
#include "runtime/data/wordpiece.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "ir/file.h"
#include "ir/map.h"

enum { MOST_CHARACTERS = 100 /* of a word; a longer one is unknown */, CHARACTER_BYTES = 4, MOST_VOCABULARY_BYTES = 1 << 28 };

typedef enum { PAD, UNK, CLS, SEP, MASK, NSPECIALS } Special;
static const char *const special_text[NSPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

struct Wordpiece {
    Arena arena;
    Map map; /* by hash_bytes */
    VEC(const char *) token;
    int special[NSPECIALS]; /* -1: [MASK] may be absent */
    bool lowercase;
};

static int find(const Wordpiece *wordpiece, const char *text, size_t n, uint64_t hash) {
    map_each(&wordpiece->map, hash,
             token) if (strncmp(wordpiece->token.at[token], text, n) == 0 && wordpiece->token.at[token][n] == '\0') return token;
    return -1;
}

static int find_text(const Wordpiece *wordpiece, const char *text) {
    return find(wordpiece, text, strlen(text), hash_bytes(text, strlen(text)));
}

bool text_is_utf8(const char *text, size_t n) {
    utf8proc_int32_t c;
    utf8proc_ssize_t got = 1;
    for (; n > 0 && got > 0; text += got, n -= (size_t)got)
        got = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    return got > 0;
}

/* Where lines are equal the last one counts, as in a dictionary that is filled line by line. */
static bool read_vocabulary(Wordpiece *wordpiece, const char *path, char *text, size_t n, Error *error) {
    for (char *line = text, *end; line < text + n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        if (!end) end = text + n;
        size_t bytes = (size_t)(end - line);
        if (bytes > 0 && line[bytes - 1] == '\r') bytes--;
        line[bytes] = '\0';
        vec_push(&wordpiece->arena, &wordpiece->token, line);
        if (!text_is_utf8(line, bytes))
            return error_set(error, EXIT_ENVIRONMENT, "%s:%d: the token is not UTF-8", path, wordpiece->token.n);
    }
    for (int i = wordpiece->token.n - 1; i >= 0; i--)
        if (find_text(wordpiece, wordpiece->token.at[i]) < 0)
            map_add(&wordpiece->arena, &wordpiece->map, hash_bytes(wordpiece->token.at[i], strlen(wordpiece->token.at[i])), i);
    return true;
}

Wordpiece *wordpiece_open(const char *vocabulary, bool lowercase, Error *error) {
    Wordpiece *wordpiece = calloc(1, sizeof *wordpiece);
    char *text;
    size_t n;
    if (!wordpiece) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", vocabulary), NULL;
    arena_init(&wordpiece->arena);
    wordpiece->lowercase = lowercase;
    bool ok = file_read(&wordpiece->arena, vocabulary, MOST_VOCABULARY_BYTES, &text, &n, error);
    ok = ok && read_vocabulary(wordpiece, vocabulary, text, n, error);
    for (int s = 0; ok && s < NSPECIALS; s++) {
        wordpiece->special[s] = find_text(wordpiece, special_text[s]);
        ok = wordpiece->special[s] >= 0 || s == MASK ||
             error_set(error, EXIT_ENVIRONMENT, "%s: no line is %s: a vocabulary of BERT has [PAD], [UNK], [CLS] and [SEP]", vocabulary,
                       special_text[s]);
    }
    if (ok) return wordpiece;
    wordpiece_close(wordpiece);
    return NULL;
}

void wordpiece_close(Wordpiece *wordpiece) {
    if (!wordpiece) return;
    arena_finish(&wordpiece->arena);
    free(wordpiece);
}

/* ---------------------------------------------------------------- characters */

typedef enum { IS_LETTER, IS_BLANK, IS_NOTHING /* left out */, IS_ALONE /* a word of its own */ } CharacterKind;

/* CJK Unified Ideographs, and their extensions and compatibility forms: scripts that put no blanks between words. */
static bool is_chinese(int32_t c) {
    static const int32_t range[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                       {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t i = 0; c >= range[1][0] && i < sizeof range / sizeof *range; i++)
        if (c >= range[i][0] && c <= range[i][1]) return true;
    return false;
}

static CharacterKind kind_of(int32_t c) {
    if (c == '\t' || c == '\n' || c == '\r' || c == ' ') return IS_BLANK;
    if (c < 0x80) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        return plain ? IS_LETTER : c < ' ' || c == 0x7F ? IS_NOTHING : IS_ALONE;
    }
    if (is_chinese(c)) return IS_ALONE;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return IS_BLANK;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return IS_NOTHING;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return IS_ALONE;
    default:
        return c == 0xFFFD ? IS_NOTHING : IS_LETTER;
    }
}

/* ---------------------------------------------------------------- words */

typedef struct Encoding {
    const Wordpiece *wordpiece;
    char word[MOST_CHARACTERS * CHARACTER_BYTES];
    size_t bytes;
    int characters; /* of the word; those beyond MOST_CHARACTERS are not kept */
    int32_t *ids;
    int64_t used, room;
} Encoding;

static void put(Encoding *encoding, int id) {
    if (encoding->used < encoding->room) encoding->ids[encoding->used++] = id;
}

/* The longest token at the beginning of text, *bytes long. inside: within a word, where tokens begin with ##. */
static int longest(const Wordpiece *wordpiece, const char *text, size_t n, bool inside, size_t *bytes) {
    char mark[2 + MOST_CHARACTERS * CHARACTER_BYTES] = "##";
    const size_t marked = inside ? 2 : 0;
    memcpy(mark + marked, text, n);
    int found = -1;
    /* FNV-1a proceeds byte by byte, so one pass gives the hashes of all prefixes. */
    uint64_t hash = hash_bytes(mark, marked);
    for (size_t i = 1; i <= n; i++) {
        hash = hash_more(hash, (unsigned char)text[i - 1]);
        const int token = find(wordpiece, mark, marked + i, hash);
        if (token >= 0) found = token, *bytes = i;
    }
    return found;
}

static void end_word(Encoding *encoding) {
    const Wordpiece *wordpiece = encoding->wordpiece;
    int piece[MOST_CHARACTERS], n = 0;
    bool known = encoding->characters <= MOST_CHARACTERS;
    for (size_t at = 0, bytes = 0; known && at < encoding->bytes; at += bytes) {
        piece[n] = longest(wordpiece, encoding->word + at, encoding->bytes - at, at > 0, &bytes);
        known = piece[n++] >= 0;
    }
    if (!known) put(encoding, wordpiece->special[UNK]);
    for (int i = 0; known && i < n; i++)
        put(encoding, piece[i]);
    encoding->bytes = 0;
    encoding->characters = 0;
}

static void add_character(Encoding *encoding, int32_t c) {
    const bool alone = kind_of(c) == IS_ALONE;
    if (alone) end_word(encoding);
    if (encoding->characters++ < MOST_CHARACTERS)
        encoding->bytes += (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)encoding->word + encoding->bytes);
    if (alone) end_word(encoding);
}

/* Adds a character decomposed (NFD), without accents (category Mn), in lower case. */
static void add_small(Encoding *encoding, int32_t c) {
    enum { MOST_PARTS = 8 }; /* a canonical decomposition has at most four */
    int32_t part[MOST_PARTS] = {c};
    int boundary = 0;
    const int n = c < 0x80 ? 1 : (int)utf8proc_decompose_char(c, part, MOST_PARTS, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
    for (int i = 0; i < n && i < MOST_PARTS; i++)
        if (utf8proc_category(part[i]) != UTF8PROC_CATEGORY_MN) add_character(encoding, utf8proc_tolower(part[i]));
}

/* The special token that is written in the text itself; -1: none. */
static int special_at(const Wordpiece *wordpiece, const char *text, size_t n, size_t *bytes) {
    for (int s = 0; *text == '[' && s < NSPECIALS; s++) {
        *bytes = strlen(special_text[s]);
        if (*bytes <= n && memcmp(text, special_text[s], *bytes) == 0) return wordpiece->special[s];
    }
    return -1;
}

int64_t wordpiece_encode(const Wordpiece *wordpiece, const char *text, size_t n, int64_t length, int32_t *ids, size_t *bad) {
    Encoding encoding = {.wordpiece = wordpiece, .ids = ids, .room = length - 1};
    put(&encoding, wordpiece->special[CLS]);
    for (size_t at = 0, bytes = 0; at < n; at += bytes) {
        int32_t c;
        const int special = special_at(wordpiece, text + at, n - at, &bytes);
        if (special >= 0) {
            end_word(&encoding);
            put(&encoding, special);
            continue;
        }
        const utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c);
        if (got <= 0) {
            *bad = at;
            return WORDPIECE_BROKEN;
        }
        bytes = (size_t)got;
        const CharacterKind kind = kind_of(c);
        const bool alone = kind == IS_ALONE;
        if (kind == IS_BLANK || alone) end_word(&encoding);
        if (kind == IS_BLANK || kind == IS_NOTHING) continue;
        if (wordpiece->lowercase)
            add_small(&encoding, c);
        else
            add_character(&encoding, c);
        if (alone) end_word(&encoding);
    }
    end_word(&encoding);
    encoding.room = length;
    put(&encoding, wordpiece->special[SEP]);
    for (int64_t i = encoding.used; i < length; i++)
        ids[i] = wordpiece->special[PAD];
    return encoding.used;
}
