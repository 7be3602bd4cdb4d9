/* BERT's tokenizer: a vocabulary, and behind the first zero byte a text. */
#include "runtime/data/wordpiece.h"
#include "tests/fuzz/file.h"

#include <string.h>
#include <unistd.h>

enum { SHORT = 8, LONG = 40 };

/* What is cut off at a smaller length is all that differs. */
static bool try_text(const Wordpiece *wordpiece, const char *text, size_t n, int64_t ntokens) {
    int32_t few[SHORT], many[LONG];
    size_t bad = n, bad_of_few = n;
    const int64_t used = wordpiece_encode(wordpiece, text, n, LONG, many, &bad);
    const int64_t used_of_few = wordpiece_encode(wordpiece, text, n, SHORT, few, &bad_of_few);
    require((used == WORDPIECE_BROKEN) == !text_is_utf8(text, n), "a text is broken where it is not UTF-8, and only there");
    require((used == WORDPIECE_BROKEN) == (used_of_few == WORDPIECE_BROKEN), "a text is broken at any length or at none");
    if (used == WORDPIECE_BROKEN) {
        require(bad < n && bad_of_few == bad, "the byte from which on a text is broken is one of its own");
        return false;
    }
    require(used >= 2 && used <= LONG && used_of_few == (used < SHORT ? used : SHORT), "another number of tokens than there is room for");
    for (int i = 0; i < LONG; i++)
        require(many[i] >= 0 && many[i] < ntokens, "a token that the vocabulary has not");
    require(memcmp(few, many, sizeof *few * (size_t)(used_of_few - 1)) == 0, "other tokens at another length");
    require(few[used_of_few - 1] == many[used - 1], "another last token at another length");
    return true;
}

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    const unsigned char *zero = n > 0 ? memchr(bytes, 0, n) : NULL;
    const size_t words = zero ? (size_t)(zero - bytes) : n, behind = zero ? words + 1 : n;
    char path[FUZZ_PATH];
    int64_t ntokens = 1;
    bool ok = true;
    file_put(path, bytes, words, false);
    for (size_t i = 0; i < words; i++)
        ntokens += bytes[i] == '\n';
    for (int lowercase = 0; lowercase < 2; lowercase++) {
        Error error = {0};
        Wordpiece *wordpiece = wordpiece_open(path, lowercase, &error);
        if (!wordpiece) require_error(&error, path);
        ok = wordpiece && try_text(wordpiece, (const char *)bytes + behind, n - behind, ntokens) && ok;
        wordpiece_close(wordpiece);
    }
    unlink(path);
    return ok ? ACCEPTED : REFUSED;
}
