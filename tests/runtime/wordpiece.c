/* BERT's tokenizer: the numbers that Hugging Face's gives, texts that are none, vocabularies that are none. */
#include "runtime/data/wordpiece.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/runtime/wordpiece_table.h"

static char path[] = "/tmp/test-wordpiece-XXXXXX";

static void write_vocabulary(const char *text) {
    if (!strcmp(path + strlen(path) - 6, "XXXXXX")) cr_assert_geq(mkstemp(path), 0);
    FILE *file = fopen(path, "wb");
    cr_assert_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}
static void clean(void) {
    if (strcmp(path + strlen(path) - 6, "XXXXXX")) unlink(path);
}

TestSuite(wordpiece, .fini = clean);

Test(wordpiece, tokens_are_hugging_faces) {
    write_vocabulary(vocabulary);
    for (int lowercase = 0; lowercase < 2; lowercase++) {
        Error error = {0};
        Wordpiece *wordpiece = wordpiece_open(path, lowercase, &error);
        cr_assert(wordpiece, "%s", error.text);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            int32_t ids[LENGTH];
            size_t bad = 0;
            int64_t used = LENGTH;
            while (used > 0 && cases[c].ids[lowercase][used - 1] == 0)
                used--;
            cr_expect_eq(wordpiece_encode(wordpiece, cases[c].text, cases[c].n, LENGTH, ids, &bad), used, "'%s'", cases[c].text);
            for (int i = 0; i < LENGTH; i++)
                cr_expect_eq(ids[i], cases[c].ids[lowercase][i], "'%s', lowercase %d: token %d is %d, not %d", cases[c].text, lowercase, i,
                             ids[i], cases[c].ids[lowercase][i]);
        }
        wordpiece_close(wordpiece);
    }
}

Test(wordpiece, ends_of_lines_may_be_those_of_windows) {
    write_vocabulary("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\nthe");
    Error error = {0};
    int32_t ids[4];
    size_t bad;
    Wordpiece *wordpiece = wordpiece_open(path, false, &error);
    cr_assert(wordpiece, "%s", error.text);
    cr_assert_eq(wordpiece_encode(wordpiece, "the [MASK]", 3, 4, ids, &bad), 3);
    cr_assert(ids[0] == 2 && ids[1] == 4 && ids[2] == 3 && ids[3] == 0);
    wordpiece_close(wordpiece);
}

/* As a dictionary that is filled line by line; the vocabulary of bert-base-chinese has such tokens. */
Test(wordpiece, a_token_in_two_lines_has_the_number_of_the_last) {
    write_vocabulary("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\na\n");
    Error error = {0};
    int32_t ids[4];
    size_t bad;
    Wordpiece *wordpiece = wordpiece_open(path, false, &error);
    cr_assert(wordpiece, "%s", error.text);
    cr_assert_eq(wordpiece_encode(wordpiece, "a b", 3, 4, ids, &bad), 4);
    cr_assert(ids[1] == 6 && ids[2] == 5);
    wordpiece_close(wordpiece);
}

Test(wordpiece, what_is_no_utf8_is_said) {
    static const struct {
        const char *text;
        size_t bad;
    } broken[] = {
        {"the \xff", 4}, {"\xc3", 0}, {"ab\xed\xa0\x80", 2} /* half of a pair of UTF-16 */, {"\xc0\x80", 0}, {"\xf4\x90\x80\x80", 0}};
    write_vocabulary(vocabulary);
    Error error = {0};
    Wordpiece *wordpiece = wordpiece_open(path, true, &error);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        int32_t ids[LENGTH];
        size_t bad = 99;
        cr_expect_eq(wordpiece_encode(wordpiece, broken[i].text, strlen(broken[i].text), LENGTH, ids, &bad), WORDPIECE_BROKEN);
        cr_expect_eq(bad, broken[i].bad, "%zu: %zu", i, bad);
    }
    wordpiece_close(wordpiece);
}

Test(wordpiece, a_vocabulary_has_the_special_tokens) {
    Error error = {0};
    write_vocabulary("[PAD]\n[UNK]\n[CLS]\nthe\n");
    cr_assert_null(wordpiece_open(path, true, &error));
    cr_assert(strstr(error.text, "no line is [SEP]") && error.code == EXIT_ENVIRONMENT, "%s", error.text);
    write_vocabulary("");
    cr_assert_null(wordpiece_open(path, true, &error));
    write_vocabulary("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nca\xfft\n");
    cr_assert_null(wordpiece_open(path, true, &error));
    cr_assert(strstr(error.text, ":6: the token is not UTF-8") && error.code == EXIT_ENVIRONMENT, "%s", error.text);
    cr_assert_null(wordpiece_open("/nowhere/vocab.txt", true, &error));
}
