/* Columns: each as it is shortest, and read back what was put in. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "report/columns.h"

Test(columns, each_is_written_as_it_is_shortest) {
    static const int ins[][2] = {{100000, 100001}, {100002, 100003}, {100004, 100005}};
    ColumnTable columns;
    Text text = {0};
    Json json = {.text = &text, .in_page = true};
    columns_init(&columns, "alike rising mixed ins* none*");
    for (int row = 0; row < 3; row++) {
        columns_int(&columns, -1);
        columns_int(&columns, 1000000 + row);
        columns_int(&columns, row == 1 ? -7 : 2 * row);
        columns_ints(&columns, ins[row], row == 1 ? 1 : 2);
        columns_list(&columns);
    }
    json_object(&json, NULL);
    columns_write(&json, "table", &columns);
    json_end(&json);
    cr_expect_str_eq(
        text.at,
        "{\n\"table\":{\n\"rows\":3,\n\"alike\":-1,\n\"rising\":{\"differences\":[1000000,1,1]},\n\"mixed\":[0,-7,4],\n"
        "\"ins\":{\"lengths\":[2,1,2],\"members\":{\"differences\":[100000,1,1,2,1]}},\n\"none\":{\"lengths\":0,\"members\":[]}\n}\n}\n");
    text_finish(&text);
}

Test(columns, members_one_by_one_and_no_rows) {
    ColumnTable columns;
    Text text = {0};
    Json json = {.text = &text, .in_page = true};
    columns_init(&columns, "n list*");
    json_object(&json, NULL);
    columns_write(&json, "empty", &columns);
    columns_init(&columns, "n list*");
    columns_int(&columns, INT64_MIN / 2);
    columns_list(&columns);
    columns_member(&columns, 3);
    columns_member(&columns, 3);
    columns_write(&json, "one", &columns);
    json_end(&json);
    cr_expect_str_eq(text.at, "{\n\"empty\":{\n\"rows\":0,\n\"n\":[],\n\"list\":{\"lengths\":[],\"members\":[]}\n},\n"
                              "\"one\":{\n\"rows\":1,\n\"n\":-4611686018427387904,\n\"list\":{\"lengths\":2,\"members\":3}\n}\n}\n");
    text_finish(&text);
}

Test(columns, what_comes_again_is_written_once) {
    ColumnTable columns;
    Text text = {0};
    Json json = {.text = &text, .in_page = true};
    columns_init(&columns, "phase even period none");
    for (int row = 0; row < 20; row++) {
        static const int layer[] = {700, 3, 90, 41};
        columns_int(&columns, row < 7 ? 0 : 2);
        columns_int(&columns, 2 * row + 5);
        columns_int(&columns, row == 19 ? 8 : layer[row % 4]);
        columns_int(&columns, row * row % 11);
    }
    json_object(&json, NULL);
    columns_write(&json, "table", &columns);
    json_end(&json);
    cr_expect_str_eq(
        text.at,
        "{\n\"table\":{\n\"rows\":20,\n\"phase\":{\"repeats\":[1,0,1,6,1,2,1,12]},\n\"even\":{\"differences\":{\"repeats\":[2,5,2,1,18]}},\n"
        "\"period\":{\"repeats\":[4,700,3,90,41,4,15,1,8]},\n\"none\":[0,1,4,9,5,3,3,5,9,4,1,0,1,4,9,5,3,3,5,9]\n}\n}\n");
    text_finish(&text);
}

/* Reads what `repeats` has: numbers in packed, as a page's script does. */
static int unpacked(const char *packed, int64_t *numbers) {
    int n = 0;
    for (char *at = (char *)packed; *at != ']';) {
        for (int64_t left = strtoll(at, &at, 10); left > 0; left--)
            numbers[n++] = strtoll(at + 1, &at, 10);
        if (*at == ']') break;
        const int64_t back = strtoll(at + 1, &at, 10);
        for (int64_t left = strtoll(at + 1, &at, 10); left > 0; left--, n++)
            numbers[n] = numbers[n - back];
        if (*at == ',') at++;
    }
    return n;
}

Test(columns, repeats_are_read_back) {
    enum { N = 3000 };
    uint64_t state = 7;
    for (int round = 0; round < 200; round++) {
        static int64_t numbers[N], read[N];
        ColumnTable columns;
        Text text = {0};
        Json json = {.text = &text, .in_page = true};
        columns_init(&columns, "n");
        const int period = 2 + round % 50, kinds = 2 + round % 7;
        for (int i = 0; i < N; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            numbers[i] = i < period || state >> 58 == 0 ? (int64_t)(state >> 33) % kinds * 1000 - 500 : numbers[i - period];
            columns_int(&columns, numbers[i]);
        }
        json_object(&json, NULL);
        columns_write(&json, "table", &columns);
        json_end(&json);
        const char *begin = strstr(text.at, "\"repeats\":[");
        cr_assert_not_null(begin, "round %d is not shorter without what comes again: %.200s", round, text.at);
        cr_assert_eq(unpacked(strchr(begin, '[') + 1, read), N);
        if (strstr(text.at, "differences"))
            for (int i = 1; i < N; i++)
                read[i] += read[i - 1];
        cr_assert_arr_eq(read, numbers, sizeof numbers);
        text_finish(&text);
    }
}
