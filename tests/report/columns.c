/* Columns: each as it is shortest, and read back what was put in. */
#include <criterion/criterion.h>
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

Test(columns, runs_of_equal_numbers_and_of_equal_differences) {
    ColumnTable columns;
    Text text = {0};
    Json json = {.text = &text, .in_page = true};
    columns_init(&columns, "phase even none");
    for (int row = 0; row < 12; row++) {
        columns_int(&columns, row < 7 ? 0 : 2);
        columns_int(&columns, 2 * row + 5);
        columns_int(&columns, row % 2);
    }
    json_object(&json, NULL);
    columns_write(&json, "table", &columns);
    json_end(&json);
    cr_expect_str_eq(text.at,
                     "{\n\"table\":{\n\"rows\":12,\n\"phase\":{\"runs\":[0,7,2,5]},\n\"even\":{\"differences\":{\"runs\":[5,1,2,11]}},\n"
                     "\"none\":[0,1,0,1,0,1,0,1,0,1,0,1]\n}\n}\n");
    text_finish(&text);
}
