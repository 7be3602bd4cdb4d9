/* Files of rows: every format, what is read and held of them, and what is said of damaged ones. Files are made here, in a directory of the test's own. */
#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data/data.h"
#include "runtime/data/rows.h"

static char directory[] = "/tmp/test-rows-XXXXXX";
static char path[128];

static const char *write_file(const char *name, const void *bytes, size_t n, bool compressed) {
    if (!strncmp(directory + strlen(directory) - 6, "XXXXXX", 6)) cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (compressed) {
        gzFile file = gzopen(path, "wb");
        cr_assert_eq(gzwrite(file, bytes, (unsigned)n), (int)n);
        cr_assert_eq(gzclose(file), Z_OK);
    } else {
        FILE *file = fopen(path, "wb");
        cr_assert_eq(fwrite(bytes, 1, n, file), n);
        fclose(file);
    }
    return path;
}

static void clean(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (strncmp(directory + strlen(directory) - 6, "XXXXXX", 6) != 0) cr_assert_eq(system(command), 0);
}

/* An IDX file of 6 images of 2 x 2: element e of row r is 10 r + e. */
static size_t idx_images(unsigned char *bytes) {
    static const unsigned char head[] = {0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 2};
    memcpy(bytes, head, sizeof head);
    for (int i = 0; i < 24; i++)
        bytes[sizeof head + (size_t)i] = (unsigned char)(10 * (i / 4) + i % 4);
    return sizeof head + 24;
}

static RowFile images(const char *at) {
    return (RowFile){.format = FILE_IDX, .path = at, .input = "x", .row = {.ndim = 1, .dim = {4}}, .dtype = F32};
}

static Rows *must_open(const RowFile *file) {
    Error error = {0};
    Rows *rows = rows_open(file, &error);
    cr_assert(rows, "%s", error.text);
    return rows;
}

static void must_fail(const RowFile *file, const char *words) {
    Error error = {0};
    Rows *rows = rows_open(file, &error);
    cr_assert(!rows, "opened; expected: %s", words);
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    cr_assert(strstr(error.text, words) && strstr(error.text, "input x"), "%s", error.text);
}

static void expect_row(Rows *rows, int64_t row, int64_t first, int64_t n, double begin) {
    float got[16];
    Error error = {0};
    cr_assert(rows_read(rows, row, 0, first, n, got, &error), "%s", error.text);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(got[i], (float)(begin + (double)i), "row %d element %d", (int)row, (int)i);
}

TestSuite(rows, .fini = clean);

Test(rows, idx_rows_are_read_where_they_stand) {
    unsigned char bytes[64];
    RowFile file = images(write_file("x.idx", bytes, idx_images(bytes), false));
    Rows *rows = must_open(&file);
    cr_assert_eq(rows_count(rows), 6);
    expect_row(rows, 5, 0, 4, 50);
    expect_row(rows, 2, 1, 2, 21);
    RowFile part = file;
    part.first = 2, part.rows = 3;
    Rows *some = must_open(&part);
    cr_assert_eq(rows_count(some), 3);
    expect_row(some, 2, 0, 4, 40);
    rows_close(some);
    part.rows = 5;
    must_fail(&part, "has 6 rows, and 5 from row 2 on are to be used");
    cr_assert_eq(rows_bytes_read(rows), 6);
    cr_assert_eq(rows_bytes_held(rows), 0);
    rows_close(rows);
}

Test(rows, neighbours_are_read_at_once_as_one_by_one) {
    static const float elements[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    Error error = {0};
    RowFile plain = {.format = FILE_RAW,
                     .path = write_file("x.raw", elements, sizeof elements, false),
                     .input = "x",
                     .row = {1, {2}},
                     .stored = {STORED_F32, false},
                     .offset = -1,
                     .dtype = F32},
            scaled = plain, integers = plain;
    scaled.change.scale = 2;
    integers.dtype = I32, integers.stored.kind = STORED_I32;
    float got[8];
    int32_t whole[8];
    Rows *rows = must_open(&plain), *twice = must_open(&scaled), *ints = must_open(&integers);
    static const int64_t some_rows[] = {1, 2, 3, 4}, mixed[] = {5, 0, 1, 3};
    cr_assert(rows_read_whole(rows, some_rows, 4, 0, got, &error), "%s", error.text);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(got[i], 3 + (float)i);
    cr_assert(rows_read_whole(rows, mixed, 4, 0, got, &error), "%s", error.text);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(got[i], (float)(2 * mixed[i / 2] + i % 2 + 1));
    cr_assert(rows_read_whole(twice, some_rows, 4, 0, got, &error), "%s", error.text);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(got[i], 2 * (3 + (float)i));
    cr_assert(rows_read_whole(ints, some_rows + 1, 3, 0, whole, &error), "%s", error.text);
    cr_assert(memcmp(whole, elements + 4, 6 * sizeof *whole) == 0);
    cr_assert(!rows_read_whole(rows, (int64_t[]){3, 4, 5, 6}, 4, 0, got, &error) && error.code == EXIT_INTERNAL, "there are 6 rows");
    rows_close(rows), rows_close(twice), rows_close(ints);
    unsigned char bytes[64]; /* bytes, and rows of a part of the file */
    RowFile file = images(write_file("x.idx", bytes, idx_images(bytes), false));
    file.first = 2;
    Rows *some = must_open(&file);
    cr_assert(rows_read_whole(some, some_rows, 2, 0, got, &error), "%s", error.text);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(got[i], (float)(30 + 10 * (i / 4) + i % 4));
    rows_close(some);
}

Test(rows, compressed_files_are_streamed_and_only_a_ranks_rows_are_held) {
    unsigned char bytes[64];
    Error error = {0};
    RowFile file = images(write_file("x.idx.gz", bytes, idx_images(bytes), true));
    Rows *rows = must_open(&file);
    cr_assert(rows_hold(rows, (const int64_t[]){1, 4}, 2, &error), "%s", error.text);
    expect_row(rows, 1, 0, 4, 10);
    expect_row(rows, 4, 2, 2, 42);
    cr_assert_eq(rows_bytes_held(rows), 8);
    int64_t before = rows_bytes_read(rows);
    cr_assert(rows_hold(rows, (const int64_t[]){4}, 1, &error));
    cr_assert_eq(rows_bytes_read(rows), before, "what is held is not read again");
    float none[4];
    cr_assert(!rows_read(rows, 0, 0, 0, 4, none, &error), "row 0 is not held");
    rows_close(rows);
}

Test(rows, npy_elements_of_either_byte_order_and_any_kind) {
    static const struct {
        const char *descr;
        unsigned char element[8];
        size_t n;
        double value;
    } kinds[] = {{"|u1", {200}, 1, 200},
                 {"|i1", {0xff}, 1, -1},
                 {"<i2", {0x01, 0x80}, 2, -32767},
                 {">i4", {0, 0, 1, 2}, 4, 258},
                 {"<i8", {0xfe, 255, 255, 255, 255, 255, 255, 255}, 8, -2},
                 {"<f4", {0, 0, 0x20, 0xc0}, 4, -2.5},
                 {">f8", {0x3f, 0xf8}, 8, 1.5}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        unsigned char bytes[256] = {0};
        int header = snprintf((char *)bytes + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (3, 1), }", kinds[k].descr);
        memset(bytes + 10 + header, ' ', (size_t)(118 - header));
        memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
        bytes[127] = '\n';
        memcpy(bytes + 128 + 2 * kinds[k].n, kinds[k].element, kinds[k].n);
        RowFile file = {.format = FILE_NPY,
                        .path = write_file("x.npy", bytes, 128 + 3 * kinds[k].n, false),
                        .input = "x",
                        .row = {.ndim = 1, .dim = {1}},
                        .dtype = F64};
        Rows *rows = must_open(&file);
        double got;
        Error error;
        cr_assert(rows_read(rows, 2, 0, 0, 1, &got, &error));
        cr_assert_eq(got, kinds[k].value, "%s: %g", kinds[k].descr, got);
        rows_close(rows);
    }
}

Test(rows, csv_columns_by_number_with_or_without_a_heading) {
    static const char text[] = "a, b ,label\n1,2.5,0\n\n-3e1,4,1\r\n5,6,2";
    Error error = {0};
    RowFile file = {.format = FILE_CSV,
                    .path = write_file("d.csv", text, sizeof text - 1, false),
                    .input = "x",
                    .row = {.ndim = 1, .dim = {2}},
                    .dtype = F64};
    Rows *rows = must_open(&file);
    cr_assert_eq(rows_count(rows), 3);
    cr_assert(rows_hold(rows, (const int64_t[]){0, 1}, 2, &error), "%s", error.text);
    RowFile behind = file;
    behind.first = 1;
    Rows *rest = must_open(&behind);
    cr_assert_eq(rows_count(rest), 2);
    double last[2];
    cr_assert(rows_hold(rest, (const int64_t[]){1}, 1, &error) && rows_read(rest, 1, 0, 0, 2, last, &error), "%s", error.text);
    cr_assert(last[0] == 5 && last[1] == 6);
    rows_close(rest);
    double got[2];
    cr_assert(rows_read(rows, 1, 0, 0, 2, got, &error));
    cr_assert_eq(got[0], -30);
    cr_assert_eq(got[1], 4);
    rows_close(rows);
    file.first_column = 2, file.row.ndim = 0, file.dtype = I32, file.range = 2;
    must_fail(&file, "d.csv:5:5: 2, and it must be in 0 .. 1");
    file.rows = 2;
    rows = must_open(&file);
    cr_assert(rows_hold(rows, (const int64_t[]){0, 1}, 2, &error), "%s", error.text);
    int32_t label;
    cr_assert(rows_read(rows, 1, 0, 0, 1, &label, &error));
    cr_assert_eq(label, 1);
    rows_close(rows);
}

/* The text of a row of two numbers, or what is said of the file. */
static void csv_rows(const char *text, size_t n, int64_t count, const char *words) {
    Error error = {0};
    RowFile file = {
        .format = FILE_CSV, .path = write_file("d.csv", text, n, false), .input = "x", .row = {.ndim = 1, .dim = {2}}, .dtype = F64};
    Rows *rows = rows_open(&file, &error);
    cr_assert_eq(rows != NULL, words == NULL, "%s", error.text);
    cr_assert(words ? strstr(error.text, words) != NULL : rows_count(rows) == count, "%s: %s", text, error.text);
    for (const char *c = error.text; *c; c++)
        cr_assert((unsigned char)*c >= ' ', "a message holds nothing that a terminal obeys");
    rows_close(rows);
}
#define CSV(text, count, words) csv_rows(text, sizeof text - 1, count, words)

Test(rows, a_first_line_of_numbers_is_no_heading_however_it_is_written) {
    CSV("1 , 2 \n3,4\n", 2, NULL);
    CSV("\xEF\xBB\xBF"
        "1,2\r\n3,4\r\n",
        2, NULL);
    CSV("a,b\n3,4", 1, NULL);
    CSV("1,2\0\n3,4\n5,6\n", 0, "zero byte");
    CSV("1,\033[2J\n", 0, "d.csv:1:3: '?[2J' is no number (column 1)");
    CSV("\n\n", 0, "has no rows");
    CSV("\"1\",\"2\"\n3,4", 2, NULL);
}

Test(rows, csv_is_read_by_rfc_4180) {
    CSV("\"a, the first\",\"b \"\"two\"\"\"\n1,2\n\"3\", \" 4 \" \n", 2, NULL);
    CSV("\"a\nb\",c\n1,2\n", 1, NULL);
    CSV("a,\"b\r\nc\"\r\n\r\n1,2\r\n", 1, NULL);
    CSV("5\" disk,b\n1,2\n", 1, NULL);
    CSV("a,b\n1,2\n\n3,\"4", 0, "d.csv:4:3: a quote is opened and not closed");
    CSV("a,b\n\"1\n\",\" \"\"2\n3,4", 0, "d.csv:3:3: a quote is opened and not closed");
    CSV("a,b\n1,\"2\"x\n", 0, "d.csv:2:4: '2' is a field in quotes with more behind it (column 1 'b')");
    CSV("a,b\n1,\n", 0, "d.csv:2:3: column 1 'b' is empty: `missing = drop` leaves its row out");
    CSV("1,0x10\n", 0, "d.csv:1:3: '0x10' is no number (column 1)");
    CSV("1,-1e400\n", 0, "d.csv:1:3: '-1e400' is no number (column 1)");
    CSV("a,b\n1,NA\n", 0, "d.csv:2:3: 'NA' is no number (column 1 'b'): `missing = drop` leaves its row out");
    CSV("a,b\n1,nan\n", 1, NULL);
    CSV("\"a\nb\",\"c\nd\"\n1,2\n3,x\n", 0, "d.csv:5:3: 'x' is no number");
}

Test(rows, csv_rows_have_one_width_and_one_separator) {
    CSV("1\t2\n3\t4\n", 2, NULL);
    CSV("a;b\n1;2\n", 1, NULL);
    CSV("1,2\n3,4,5\n", 0, "d.csv:2:5: 3 columns, and the first line has 2");
    CSV("a,b,c\n1,2,3\n4,5\n", 0, "d.csv:3:4: 2 columns, and the first line has 3");
    CSV("1\t\t2\n", 0, "d.csv:1:3: column 1 is empty");
    static const char bars[] = "a|b|c\n1|2|3\n";
    RowFile file = {.format = FILE_CSV,
                    .path = write_file("d.csv", bars, sizeof bars - 1, false),
                    .input = "x",
                    .row = {.ndim = 1, .dim = {3}},
                    .dtype = F64};
    must_fail(&file, "1 column, and the input takes 3");
    file.separator = '|';
    rows_close(must_open(&file));
}

Test(rows, csv_columns_by_name_and_from_the_end) {
    static const char text[] = "year,\"price, \"\"net\"\"\",2020\n1,2,3\n4,5,6\n";
    Error error = {0};
    RowFile file = {
        .format = FILE_CSV, .path = write_file("d.csv", text, sizeof text - 1, false), .input = "x", .row = {.ndim = 0}, .dtype = F64};
    static const struct {
        const char *heading;
        int64_t column;
        double found; /* in row 1 */
    } cases[] = {{"year", 0, 4}, {"price, \"net\"", 0, 5}, {"2020", 0, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double found = 0;
        file.heading = cases[i].heading, file.first_column = cases[i].column;
        Rows *rows = must_open(&file);
        cr_assert(rows_hold(rows, (const int64_t[]){1}, 1, &error) && rows_read(rows, 1, 0, 0, 1, &found, &error), "%s", error.text);
        cr_assert_eq(found, cases[i].found);
        rows_close(rows);
    }
    file.heading = "prize";
    must_fail(&file, "d.csv:1:1: there is no column 'prize': the first line has year, price, \"\"net\"\", 2020");
    static const char plain[] = "1,2,3\n4,5,6\n";
    file = (RowFile){.format = FILE_CSV,
                     .path = write_file("d.csv", plain, sizeof plain - 1, false),
                     .input = "x",
                     .row = {.ndim = 1, .dim = {2}},
                     .dtype = F64,
                     .first_column = -2};
    Rows *rows = must_open(&file);
    double found[2];
    cr_assert(rows_hold(rows, (const int64_t[]){1}, 1, &error) && rows_read(rows, 1, 0, 0, 2, found, &error), "%s", error.text);
    cr_assert(found[0] == 5 && found[1] == 6);
    Text where = {0};
    rows_where(rows, 1, 1, &where);
    cr_assert(strstr(where.at, "d.csv:2:5"), "%s", where.at);
    text_finish(&where);
    rows_close(rows);
    file.first_column = -1;
    must_fail(&file, "3 columns, and the input takes 2 from column 2 on");
    file.first_column = -4;
    must_fail(&file, "3 columns, and the input takes 2 from column -4 on");
    static const char twice[] = "a,b,a\n1,2,3\n", torn[] = "1,\"2\"0,3\n";
    file = (RowFile){.format = FILE_CSV,
                     .path = write_file("d.csv", twice, sizeof twice - 1, false),
                     .input = "x",
                     .row = {.ndim = 0},
                     .dtype = F64,
                     .heading = "a"};
    must_fail(&file, "d.csv:1:5: a column before this one has the same name");
    file.path = write_file("d.csv", torn, sizeof torn - 1, false), file.heading = NULL, file.first_column = 1;
    must_fail(&file, "d.csv:1:4: '2' is a field in quotes with more behind it (column 1)");
}

/* As strtod reads it, to the bit; but for hexadecimal numbers, which no reader of CSV takes, and those beyond all doubles. */
Test(rows, csv_numbers_are_the_nearest_doubles) {
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "1.",
                                          ".5",
                                          "-0.1",
                                          "0.3",
                                          "123456789012345",
                                          "0.123456789012345",
                                          "1234567890123456",
                                          "9007199254740993",
                                          "1e-3",
                                          "-2.5E+10",
                                          "4.9e-324",
                                          "00000000000000001",
                                          "0.00000000000000001",
                                          "+7",
                                          "inf",
                                          "3.14159265358979"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double found = 1, expected = strtod(numbers[i], NULL);
        const Field field = {.begin = numbers[i], .text = numbers[i], .n = strlen(numbers[i])};
        cr_assert(csv_number(&field, &found), "%s", numbers[i]);
        cr_assert_eq(memcmp(&found, &expected, sizeof found), 0, "%s: %.17g, not %.17g", numbers[i], found, expected);
    }
    for (const char *wrong = ". - 1.2.3 1- -. 1e e1 0x1p-3 0X10 1e309 -1e999"; *wrong;
         wrong += strcspn(wrong, " ") + (wrong[strcspn(wrong, " ")] == ' ')) {
        double found;
        char text[16];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(wrong, " "), wrong);
        const Field field = {.begin = text, .text = text, .n = strlen(text)};
        cr_assert(!csv_number(&field, &found), "%s", text);
    }
}

/* How many fields csv_plain_numbers reads; each of them as csv_field and strtod do, and as far. */
static int plain_fields(const char *said) {
    char line[256] = {0}; /* and more behind it, as a Record has */
    snprintf(line, sizeof line - 64, "%s", said);
    const Record record = {.text = line, .n = strlen(line)};
    const char *at = NULL;
    Field field;
    int n = 0;
    for (;;) {
        double found = 1, parsed = 1;
        const char *behind = at;
        const bool plain = csv_plain_numbers(&record, ',', &behind, &found, 1) == 1;
        if (!plain) cr_assert_eq(behind, at, "%s", line);
        if (!csv_field(&record, ',', &at, &field)) {
            cr_assert(!plain, "%s", line);
            return n;
        }
        n += plain;
        if (!plain) continue;
        const double expected = strtod(field.text, NULL);
        cr_assert_eq(behind, at, "%s", field.text);
        cr_assert_eq(memcmp(&found, &expected, sizeof found), 0, "%.40s: %.17g, not %.17g", field.text, found, expected);
        cr_assert(csv_number(&field, &parsed));
        cr_assert_eq(memcmp(&parsed, &expected, sizeof parsed), 0, "%.40s: %.17g, not %.17g", field.text, parsed, expected);
    }
}

Test(rows, csv_plain_numbers_are_what_strtod_reads) {
    static const struct {
        const char *line;
        int plain;
    } rows[] = {{"1,-2.5,.5,3.,-0,0.000", 6},
                {"9007199254740992,9007199254740993,-9007199254740992", 2},
                {"9007199254740993.5,9007199254740993.0,1.7976931348623157,-0.30000000000000004", LDBL_MANT_DIG == 64 ? 3 : 0},
                {"0000000000000000001,00000000000000000001", 1},  /* 19 digits, and 20 */
                {"18446744073709551617,36893488147419103233", 0}, /* 2^64 + 1, 2^65 + 1 */
                {"1e22,1e23,1e-22,1e27,1e28,1e-28,9007199254740991e22,9007199254740991e-22", LDBL_MANT_DIG == 64 ? 5 : 4},
                {"1e+5,1E5,1e05,1.25e-3,0.1e23,1e00022", 5},
                {"1e99999999999999999999,1e-18446744073709551617,1e9999", 0},
                {"0.0000000000000000000001,0.000000000000000001", 1},
                {" 1,2 ,\"3\",+4,5", 1},
                {"1e,1e+,e1,.,-,-.,--1,1-,1.2.3,0x10,inf,nan,,-e1", 0},
                {"", 0},
                {",", 0},
                {"7,", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(plain_fields(rows[i].line), rows[i].plain, "%s: %d", rows[i].line, plain_fields(rows[i].line));
    /* Drawn at random: of 1 to 20 digits with a point anywhere, with and without an exponent; and doubles as they are printed. */
    uint64_t state = 1;
    int plain = 0;
    for (int i = 0; i < 200000; i++) {
        char line[96];
        uint64_t draw[3];
        double number;
        for (int k = 0; k < 3; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            draw[k] = state >> 11 ^ state << 40;
        }
        char digits[24];
        const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)(draw[0] >> draw[1] % 63)),
                  point = (int)(draw[2] % (uint64_t)(n + 1));
        const int exponent = (int)(draw[2] / 32 % 60) - 30, precision = (int)(draw[2] / 4096 % 18);
        memcpy(&number, &draw[1], sizeof number);
        if (!(number > -1e300 && number < 1e300)) number = 1;
        snprintf(line, sizeof line, "%s%.*s.%s,%s%se%d,%.*g", draw[1] & 64 ? "-" : "", point, digits, digits + point, digits,
                 draw[1] & 128 ? "." : "", exponent, precision, number);
        plain += plain_fields(line);
    }
    cr_assert_gt(plain, 200000, "%d", plain);
}

/* Opens it with so many threads, holds every third row, and looks at these. */
static void expect_every_third(const char *at, int threads, int64_t n) {
    Error error = {0};
    RowFile file = {.format = FILE_CSV, .path = at, .input = "x", .row = {.ndim = 1, .dim = {2}}, .dtype = F64, .threads = threads};
    Rows *rows = must_open(&file);
    cr_assert_eq(rows_count(rows), n);
    int64_t *third = malloc((size_t)n * sizeof *third), kept = 0;
    for (int64_t i = 0; i < n; i += 3)
        third[kept++] = i;
    for (int again = 0; again < 2; again++) { /* from what was kept when it was opened; then from the file */
        cr_assert(rows_hold(rows, third, kept, &error), "%s", error.text);
        for (int64_t i = 0; i < kept; i++) {
            double found[2];
            cr_assert(rows_read(rows, third[i], 0, 0, 2, found, &error), "%s", error.text);
            cr_assert(found[0] == (double)third[i] && found[1] == (double)(2 * third[i]), "%d threads: row %d", threads, (int)third[i]);
        }
        if (third[0] == 0) third[0] = 1;
    }
    free(third);
    rows_close(rows);
}

/* Beyond what is looked at when a file is opened, and where blocks of a stream meet; with lines without fields, and blocks with and without quotes. */
Test(rows, csv_of_many_blocks) {
    enum { ROWS = 200000, QUOTED = 90000 };
    Text text = {0};
    for (int i = 0; i < ROWS; i++) {
        text_printf(&text, i > QUOTED && i < QUOTED + 1000 && i % 7 ? "\"%d\",\"%d\",\"a,\n7,b\"\r\n" : "%d,%d,a\n", i, 2 * i);
        if (i % 1001 == 0) text_printf(&text, i % 2 ? "\n" : "  \r\n");
    }
    const char *at = write_file("d.csv", text.at, text.n, false);
    for (int threads = 0; threads < 6; threads++)
        expect_every_third(at, threads, ROWS);
    text_finish(&text);
}

/* The first of two, however many threads read: with the line that it stands in. */
Test(rows, csv_names_the_first_place_that_is_wrong_on_any_number_of_threads) {
    enum { ROWS = 200000 };
    const struct {
        int64_t row;
        const char *line, *words;
    } wrong[] = {{7, "1,x\n", "d.csv:8:3: 'x' is no number (column 1)"},
                 {ROWS / 2, "1\n", "d.csv:100001:2: 1 column, and the first line has 2"},
                 {ROWS / 2 + 1, "1.5e,2\n", "d.csv:100002:1: '1.5e' is no number (column 0)"},
                 {ROWS - 1, "1,2,3\n", "d.csv:200000:5: 3 columns, and the first line has 2"}};
    for (size_t first = 0; first < sizeof wrong / sizeof *wrong; first++) {
        Text text = {0};
        for (int64_t i = 0, next = (int64_t)first; i < ROWS; i++) {
            const bool here = next < (int64_t)(sizeof wrong / sizeof *wrong) && wrong[next].row == i;
            text_printf(&text, "%s", here ? wrong[next++].line : "12.25,-3\n");
        }
        RowFile file = {.format = FILE_CSV,
                        .path = write_file("d.csv", text.at, text.n, false),
                        .input = "x",
                        .row = {.ndim = 1, .dim = {2}},
                        .dtype = F32};
        for (file.threads = 1; file.threads < 5; file.threads++)
            must_fail(&file, wrong[first].words);
        text_finish(&text);
    }
}

/* Also between two looks at its size: what is not there any more is not taken for rows. It is mapped first, and read where addresses are counted. */
Test(rows, a_file_that_is_cut_off_while_it_is_open_is_seen) {
    enum { ROWS = 5000 };
    static float numbers[4 * ROWS];
    for (int i = 0; i < 4 * ROWS; i++)
        numbers[i] = (float)i;
    const struct rlimit many = {(rlim_t)1 << 46, (rlim_t)1 << 46};
    for (int round = 0, cut; cut = round % 3, round < 6; round++) {
        Error error = {0};
        float found[4];
        if (round == 3) cr_assert_eq(setrlimit(RLIMIT_AS, &many), 0);
        RowFile file = {.format = FILE_RAW,
                        .path = write_file("x.bin", numbers, sizeof numbers, false),
                        .input = "x",
                        .row = {.ndim = 1, .dim = {4}},
                        .dtype = F32,
                        .offset = -1,
                        .stored = {STORED_F32, false}};
        Rows *rows = must_open(&file);
        expect_row(rows, 2, 0, 4, 8);
        cr_assert(rows_check(rows, &error), "%s", error.text);
        cr_assert_eq(truncate(file.path, cut == 2 ? (long)sizeof numbers - 4 : 100), 0);
        const bool read = rows_read_whole(rows, (int64_t[]){ROWS - 1}, 1, 0, found, &error);
        if (cut == 1) write_file("x.bin", numbers, sizeof numbers, false); /* it is whole again, and what was read is not */
        cr_assert(!read || !rows_check(rows, &error));
        cr_assert(strstr(error.text, "input x: ") && strstr(error.text, "x.bin: has become shorter"), "%s", error.text);
        rows_close(rows);
    }
}

Test(rows, raw_files_are_rows_of_the_inputs_shape) {
    const float numbers[] = {0, 1, 2, 3, 10, 11, 12, 13};
    RowFile file = {.format = FILE_RAW,
                    .path = write_file("x.bin", numbers, sizeof numbers, false),
                    .input = "x",
                    .row = {.ndim = 2, .dim = {2, 2}},
                    .stored = {STORED_F32, false},
                    .offset = -1,
                    .dtype = F32};
    Rows *rows = must_open(&file);
    cr_assert_eq(rows_count(rows), 2);
    expect_row(rows, 1, 1, 3, 11);
    rows_close(rows);
    file.offset = 1; /* 7 elements are left: one row of 4 */
    rows = must_open(&file);
    cr_assert_eq(rows_count(rows), 1);
    float row[4];
    Error error;
    cr_assert(rows_read(rows, 0, 0, 0, 4, row, &error));
    cr_assert(row[0] == 1 && row[3] == 10);
    rows_close(rows);
    file.offset = -1;
    file.row.dim[0] = 3;
    must_fail(&file, "32 bytes are no whole number of rows of 24 bytes");
}

Test(rows, what_is_wrong_with_a_file_is_said) {
    unsigned char bytes[64];
    size_t n = idx_images(bytes);
    RowFile file = images("/nowhere/x.idx");
    must_fail(&file, "/nowhere/x.idx: No such file");
    file = images("/dev/null");
    must_fail(&file, "is no ordinary file");
    file = images(write_file("cut.idx", bytes, n - 3, false));
    must_fail(&file, "cut off");
    file = images(write_file("head.idx", bytes, 9, false));
    must_fail(&file, "ends early");
    file = images(write_file("text.idx", "hello, world", 12, false));
    must_fail(&file, "not an IDX file");
    file = images(write_file("x.idx", bytes, n, false));
    file.row.dim[0] = 5;
    must_fail(&file, "a row of the file is [2, 2], a row of the input [5]");
    file = images(write_file("x.npy", bytes, n, false));
    file.format = FILE_NPY;
    must_fail(&file, "not a .npy file");
    static const char csv[] = "1,2\n3,x\n";
    file = (RowFile){.format = FILE_CSV,
                     .path = write_file("d.csv", csv, sizeof csv - 1, false),
                     .input = "x",
                     .row = {.ndim = 1, .dim = {3}},
                     .dtype = F32};
    must_fail(&file, "d.csv:1:1: 2 columns, and the input takes 3 from column 0 on");
    file.row.dim[0] = 2;
    must_fail(&file, "d.csv:2:3: 'x' is no number (column 1");
}

Test(rows, damaged_gzip_is_found_in_the_first_pass) {
    unsigned char bytes[64], file_bytes[256];
    size_t n = idx_images(bytes);
    RowFile file = images(write_file("x.idx.gz", bytes, n, true));
    FILE *in = fopen(path, "rb");
    size_t size = fread(file_bytes, 1, sizeof file_bytes, in);
    fclose(in);
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 1) file_bytes[size - 6] ^= 0x10; /* the checksum */
        file = images(write_file(kind ? "damaged.gz" : "cut.gz", file_bytes, kind ? size : size - 9, false));
        Error error = {0};
        Rows *rows = rows_open(&file, &error);
        bool held = rows && rows_hold(rows, (const int64_t[]){0}, 1, &error);
        cr_assert(!held);
        cr_assert(strstr(error.text, "gzip data"), "%s", error.text);
        rows_close(rows);
    }
}
