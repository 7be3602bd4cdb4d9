#include "ir/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

typedef struct Fixture {
    Arena arena;
    Error error;
    Scan scan;
} Fixture;

static Scan *begin(Fixture *f, const char *text) {
    f->error = (Error){0};
    f->scan = (Scan){&f->arena, "t", text, text + strlen(text), 1, &f->error};
    return &f->scan;
}

Test(scan, integers_stop_at_their_limits) {
    Fixture f = {0};
    int64_t value;
    cr_assert(scan_integer(begin(&f, " -9223372036854775808\n"), "n", INT64_MIN, INT64_MAX, &value));
    cr_assert_eq(value, INT64_MIN);
    cr_assert(scan_integer(begin(&f, "9223372036854775807-"), "n", INT64_MIN, INT64_MAX, &value));
    cr_assert_eq(value, INT64_MAX);
    cr_assert_not(scan_integer(begin(&f, "9223372036854775808\n"), "n", INT64_MIN, INT64_MAX, &value));
    cr_assert_str_eq(f.error.text, "t:1: n is 9223372036854775808; it must be -9223372036854775808 to 9223372036854775807");
    cr_assert_not(scan_integer(begin(&f, "99999999999999999999999999999999999999\n"), "n", 0, 5, &value));
    cr_assert(scan_integer(begin(&f, "5\n"), "n", 0, 5, &value) && value == 5);
    cr_assert_not(scan_integer(begin(&f, "6\n"), "n", 0, 5, &value));
    cr_assert_str_eq(f.error.text, "t:1: n is 6; it must be 0 to 5");
    cr_assert_not(scan_integer(begin(&f, "-1\n"), "n", 0, 5, &value));
    cr_assert_not(scan_integer(begin(&f, "12x\n"), "n", 0, 50, &value));
    cr_assert_not(scan_integer(begin(&f, "-\n"), "n", -5, 5, &value));
    cr_assert_eq(f.error.code, EXIT_REJECTED);
}

Test(scan, unsigned_numbers_use_all_64_bits) {
    Fixture f = {0};
    uint64_t value;
    cr_assert(scan_unsigned(begin(&f, "ffffffffffffffff\n"), "n", 16, &value));
    cr_assert_eq(value, UINT64_MAX);
    cr_assert(scan_unsigned(begin(&f, "18446744073709551615\n"), "n", 10, &value));
    cr_assert_eq(value, UINT64_MAX);
    cr_assert_not(scan_unsigned(begin(&f, "18446744073709551616\n"), "n", 10, &value));
    cr_assert_not(scan_unsigned(begin(&f, "10000000000000000\n"), "n", 16, &value));
    cr_assert_not(scan_unsigned(begin(&f, "-1\n"), "n", 10, &value));
}

Test(scan, doubles_are_decimal_and_finite_or_named) {
    Fixture f = {0};
    double value;
    cr_assert(scan_double(begin(&f, "-0\n"), "n", &value) && value == 0 && signbit(value));
    cr_assert(scan_double(begin(&f, "1e-320\n"), "n", &value) && value == 1e-320);
    cr_assert(scan_double(begin(&f, "-inf)"), "n", &value) && isinf(value) && value < 0);
    cr_assert(scan_double(begin(&f, "nan\n"), "n", &value) && isnan(value));
    static const char *const bad[] = {"1e999", "0x10", "1e", ".", "--1", "infinity", "1.5f", "00000000000000000000000000000000000000001",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(scan_double(begin(&f, bad[i]), "n", &value), "%s", bad[i]);
}

Test(scan, quoted_words_are_what_put_quoted_wrote) {
    Fixture f = {0};
    const char *word, *odd = "a\"b\\c\n\x01\x7f d\xc3\xa9";
    Text text = {0};
    put_quoted(&text, odd);
    cr_assert(scan_word(begin(&f, text.at), &word));
    cr_assert_str_eq(word, odd);
    static const char *const bad[] = {"\"a", "\"a\n\"", "\"\\", "\"\\\"", "\"\\q\"", "\"\\x0\"", "\"\\x00\"", "\"\\xG0\"", "\"\\\n\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(scan_word(begin(&f, bad[i]), &word), "%s", bad[i]);
    text_finish(&text);
    arena_finish(&f.arena);
}

Test(scan, types_are_what_put_type_wrote) {
    Fixture f = {0};
    static const char *const good[] = {"f32[]", "f64[3]", "i32[8 | 16, 32]", "f32[8 |]", "f32[1, 2, 3, 4, 5, 6, 7, 8, 9]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        TensorType type;
        Text text = {0}, other = {0};
        cr_assert(scan_type(begin(&f, good[i]), &type), "%s: %s", good[i], f.error.text);
        put_type(&text, &type);
        type_print(&other, &type);
        cr_assert_str_eq(text.at, good[i]);
        cr_assert_str_eq(other.at, good[i]);
        text_finish(&text);
        text_finish(&other);
    }
    static const char *const bad[] = {"f8[2]",
                                      "f32",
                                      "f32[",
                                      "f32[2",
                                      "f32[0]",
                                      "f32[-1]",
                                      "f32[2,]",
                                      "f32[2 | 3 | 4]",
                                      "f32[4294967296, 4294967296]",
                                      "f32[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"};
    TensorType type;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(scan_type(begin(&f, bad[i]), &type), "%s", bad[i]);
}

Test(scan, what_is_unexpected_is_said) {
    Fixture f = {0};
    cr_assert_not(scan_keyword(begin(&f, "foo 1\n"), "net"));
    cr_assert_str_eq(f.error.text, "t:1: unknown key 'foo'; expected 'net'");
    cr_assert_not(scan_keyword(begin(&f, "ranks 1\n"), "net"));
    cr_assert_str_eq(f.error.text, "t:1: 'ranks' is out of place here, or there a second time; expected 'net'");
    cr_assert_not(scan_keyword(begin(&f, "\n"), "net"));
    cr_assert_str_eq(f.error.text, "t:1: the line ends here; expected 'net'");
    cr_assert_not(scan_keyword(begin(&f, "\x01\n"), "net"));
    cr_assert_str_eq(f.error.text, "t:1: expected 'net', saw byte 0x01");
    cr_assert_not(scan_keyword(begin(&f, ""), "net"));
    cr_assert_str_eq(f.error.text, "t:1: the text ends here; expected 'net'");
}
