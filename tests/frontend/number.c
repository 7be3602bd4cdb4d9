#include "compile.h"

/* A size with this text. */
static void size_of(Compiled *c, const char *size) {
    char text[512];
    snprintf(text, sizeof text, NET("    const c : f32[%s] = ones;"), size);
    compile(c, text, 8);
}

Test(number, integer_expressions_give_sizes) {
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"batch", 16}, {"2 + 3 * 4", 14}, {"(2 + 3) * 4", 20}, {"batch / 4 - 1", 3}, {"17 % 5", 2},
                 {"-(-7)", 7},  {"- -7", 7},       {"100 - 1 - 2", 97}, {"((3))", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        size_of(&c, cases[i].text);
        expect_accepted(&c);
        cr_assert_eq(result_type(&c.graph, "c")->shape.dim[0], cases[i].value, "%s", cases[i].text);
        compiled_finish(&c);
    }
}

Test(number, bytes_have_units_and_decimals) {
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"100 B", 100},         {"1B", 1},
                 {"1.6 B", 2},           {"1.5 KiB", 1536},
                 {"1.5KiB", 1536},       {".5 KiB", 512},
                 {"2. KiB", 2048},       {"3 MiB", 3 << 20},
                 {"0.001 GiB", 1073742}, {"1.5 GiB", 3LL << 29},
                 {"0.5 TiB", 1LL << 39}, {"1 B + 1 KiB", 1025},
                 {"2 * 1.5 B", 4},       {"1e3 KiB", 1024000},
                 {"1E3KiB", 1024000},    {"2.5e-1 KiB", 256},
                 {"15e0 B", 15},         {"1e0 MiB", 1 << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        size_of(&c, cases[i].text);
        expect_accepted(&c);
        cr_expect_eq(result_type(&c.graph, "c")->shape.dim[0], cases[i].value, "%s", cases[i].text);
        compiled_finish(&c);
    }
}

Test(number, mistakes_in_sizes_are_diagnosed) {
    static const struct {
        const char *text, *error;
    } cases[] = {{"8 EiB", "it is more than 9223372036854775807 bytes"},
                 {"8.0 EiB", "it is more than 9223372036854775807 bytes"},
                 {"1e3 EiB", "it is more than 9223372036854775807 bytes"},
                 {"5 Batches", "'5 Batches' is not a number"},
                 {"0.2 B", "a size is at least 1, not 0"},
                 {"16 / 0", "division by zero: 16 / 0"},
                 {"16 % (batch - 16)", "division by zero"},
                 {"16 / 3", "16 / 3 is not an integer"},
                 {"9223372036854775807 + 1", "does not fit in a 64-bit integer"},
                 {"0 - 9223372036854775807 - 2", "does not fit in a 64-bit integer"},
                 {"4611686018427387904 * 2", "does not fit in a 64-bit integer"},
                 {"1e300 * 1e300", "does not fit in a 64-bit float"},
                 {"2.5 % 2", "% takes integers"},
                 {"4.0", "a size is an integer, not 4.0"},
                 {"eps", "a size is an integer, not 0.5"},
                 {"0", "a size is at least 1, not 0"},
                 {"1 - 2", "a size is at least 1, not -1"},
                 {"\"4\"", "not a text"},
                 {"[4]", "not a list"},
                 {"(4, 4)", "not a tuple"},
                 {"relu(4)", "relu(...) is none"},
                 {"x", "x is a tensor"},
                 {"batch.x", "a number is needed here, and this is none"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        size_of(&c, cases[i].text);
        expect_error(&c, 5, 19, cases[i].error);
        compiled_finish(&c);
    }
}

Test(number, a_real_operand_makes_a_real_result) {
    Compiled c;
    compile(&c, NET("    h = x * (1.0 / 3 + 2);"), 8);
    expect_accepted(&c);
    cr_assert_float_eq(node_named(&c.graph, "constant")->attr[0].f, 1.0 / 3 + 2, 1e-15);
    compiled_finish(&c);
}

Test(number, a_name_can_stand_for_a_number) {
    Compiled c;
    compile(&c, NET("    half = batch / 2;\n    const c : f32[half] = ones;"), 8);
    expect_accepted(&c);
    cr_assert_eq(result_type(&c.graph, "c")->shape.dim[0], 8);
    compiled_finish(&c);
}

Test(number, numbers_must_fit_the_element_type) {
    static const struct {
        const char *text, *error;
    } cases[] = {{"f32[1] = [1e39]", "1e+39 is too large for f32"},
                 {"i32[1] = [2147483648]", "out of the range of i32"},
                 {"i32[1] = [0.5]", "i32 holds integers, not 0.5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, NET("    const c : %s;"), cases[i].text);
        compile(&c, text, 8);
        expect_error(&c, 5, 25, cases[i].error);
        compiled_finish(&c);
    }
}
