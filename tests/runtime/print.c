/* Numbers as Python prints them. */
#include "runtime/print.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Known {
    double number;
    const char *text;
} Known;

/* Python 3: repr(number) */
Test(print, numbers_are_pythons_repr) {
    const Known known[] = {
        {0.367389976978302, "0.367389976978302"},
        {4.547473508864641e-12, "4.547473508864641e-12"},
        {6e-05, "6e-05"},
        {0.0001, "0.0001"},
        {0.00025336415274068713, "0.00025336415274068713"},
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-2.5, "-2.5"},
        {100, "100.0"},
        {123456789.125, "123456789.125"},
        {1e15, "1000000000000000.0"},
        {9999999999999998, "9999999999999998.0"},
        {1e16, "1e+16"},
        {1.5e300, "1.5e+300"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {-0.001, "-0.001"},
        {12345678901234567.0, "1.2345678901234568e+16"},
        {9.5e-5, "9.5e-05"},
        {(double)0.1f, "0.10000000149011612"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[NUMBER_MAX];
        number_print(text, known[i].number);
        cr_expect_str_eq(text, known[i].text);
    }
}

/* The first of all precisions that reads back. */
static void check_shortest(double number) {
    char text[NUMBER_MAX], expected[NUMBER_MAX];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(expected, sizeof expected, "%.*e", precision, number);
        if (strtod(expected, NULL) == number) break;
    }
    number_print(text, number);
    cr_assert_eq(strtod(text, NULL), number, "%s is not %a", text, number);
    size_t n = 0, most = 0;
    for (const char *at = text, *begin = text + strspn(text, "-0."); *at && *at != 'e'; at++)
        n += at >= begin && *at != '.';
    for (const char *end = strchr(text, 'e') ? strchr(text, 'e') : text + strlen(text);
         end > text && (end[-1] == '0' || end[-1] == '.') && n > 1; end--)
        n -= end[-1] == '0';
    for (const char *at = expected; *at && *at != 'e'; at++)
        most += *at >= '0' && *at <= '9';
    cr_assert_leq(n, most, "%s has %zu digits, %s has %zu", text, n, expected, most);
}

Test(print, digits_are_as_few_as_read_back) {
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        double number;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed >> 1 ^ seed << 40;
        if (i % 4 == 1) bits &= ~UINT64_C(0) << (i / 4 % 50);     /* few bits */
        if (i % 4 == 2) bits = bits >> 12 & bits >> (i / 4 % 52); /* next to 0 */
        memcpy(&number, &bits, sizeof number);
        if (i % 4 == 3) number = (double)(int64_t)(bits % 2000000) * (i % 8 == 3 ? 1e-6 : 1e-11);
        if (isfinite(number) && number != 0) check_shortest(fabs(number));
    }
    for (int exponent = -1074; exponent < 1024; exponent++) /* above them numbers are twice as far apart as below */
        check_shortest(ldexp(1, exponent));
}

Test(print, all_digits_are_the_shortest_that_read_back_as_the_type) {
    Text text = {0};
    const double w[] = {(double)0.1f, (double)1e-7f, -3, (double)16777216.0f};
    tensor_print(&text, &(Shape){1, {4}}, F32, w, true);
    cr_assert_str_eq(text.at, "[0.1, 1e-07, -3.0, 16777216.0]");
    text_finish(&text);
    text = (Text){0};
    tensor_print(&text, &(Shape){1, {1}}, F64, w, true);
    cr_assert_str_eq(text.at, "[0.10000000149011612]");
    text_finish(&text);
    text = (Text){0};
    static double many[2000];
    tensor_print(&text, &(Shape){1, {2000}}, F32, many, true);
    cr_assert_eq(text.n, 2000 * strlen("0.0, "), "all of them");
    text_finish(&text);
}

Test(print, tensors_are_nested_and_large_ones_cut) {
    Text text = {0};
    const double w[] = {2.00000334, 2.99999738};
    tensor_print(&text, &(Shape){2, {2, 1}}, F32, w, false);
    cr_assert_str_eq(text.at, "[[2.0000], [3.0000]]");
    text_finish(&text);
    text = (Text){0};
    static double many[2000];
    for (int i = 0; i < 2000; i++)
        many[i] = i;
    tensor_print(&text, &(Shape){2, {2, 1000}}, I32, many, false);
    cr_assert_str_eq(text.at, "[[0, 1, 2, ..., 997, 998, 999], [1000, 1001, 1002, ..., 1997, 1998, 1999]]");
    text_finish(&text);
}
