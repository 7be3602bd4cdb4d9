#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "report/json.h"

Test(json, objects_arrays_and_rows_have_one_form) {
    Text text = {0};
    Json json = {.text = &text};
    json_object(&json, NULL);
    json_int(&json, "n", -3);
    json_array(&json, "empty");
    json_end(&json);
    json_array(&json, "rows");
    json_row(&json, NULL);
    json_bool(&json, "yes", true);
    json_row(&json, "in");
    json_real(&json, "x", 0.1);
    json_end(&json);
    json_end(&json);
    json_text(&json, NULL, "t");
    json_end(&json);
    json_text(&json, "nothing", NULL);
    json_end(&json);
    cr_expect_str_eq(text.at,
                     "{\n  \"n\": -3,\n  \"empty\": [],\n  \"rows\": [\n    {\"yes\": true, \"in\": {\"x\": 0.1}},\n    \"t\"\n  ],\n"
                     "  \"nothing\": null\n}\n");
    text_finish(&text);
}

Test(json, any_bytes_are_escaped_so_that_they_parse) {
    static const struct {
        const char *bytes, *read;
    } texts[] = {
        {"a \"quoted\" \\ name", "a \"quoted\" \\ name"},
        {"tab\t line\n bell\a del\x7f", "tab\t line\n bell\a del\x7f"},
        {"gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0 \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0 \xf0\x9f\x98\x80"},
        {"\xff|\xc3|\xc0\xaf|\xed\xa0\x80|\xf5\x80\x80\x80", NULL}, /* no UTF-8 */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Text text = {0};
        Json json = {.text = &text};
        json_object(&json, NULL);
        json_text(&json, texts[i].bytes, texts[i].bytes);
        json_end(&json);
        cJSON *read = cJSON_Parse(text.at);
        cr_assert_not_null(read, "%s", text.at);
        if (texts[i].read) {
            cr_expect_str_eq(read->child->valuestring, texts[i].read);
            cr_expect_str_eq(read->child->string, texts[i].read);
        } else {
            for (const char *c = text.at; *c; c++)
                cr_expect_lt((unsigned char)*c, 0x80);
            cr_expect(strstr(text.at, "\\ufffd|\\ufffd|") != NULL, "%s", text.at);
        }
        cJSON_Delete(read);
        text_finish(&text);
    }
}

Test(json, numbers_read_back_and_others_are_null) {
    const double numbers[] = {0, -0.0, 1.0 / 3, 1e300, 5e-324, 123456789};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Text text = {0};
        Json json = {.text = &text};
        json_object(&json, NULL);
        json_real(&json, "x", numbers[i]);
        json_real(&json, "none", i % 2 ? NAN : INFINITY);
        json_end(&json);
        cJSON *read = cJSON_Parse(text.at);
        cr_assert_not_null(read, "%s", text.at);
        cr_expect_eq(read->child->valuedouble, numbers[i]);
        cr_expect(cJSON_IsNull(read->child->next));
        cJSON_Delete(read);
        text_finish(&text);
    }
}

Test(json, in_a_page_is_no_space_and_no_less_than) {
    Text text = {0};
    Json json = {.text = &text, .in_page = true};
    json_object(&json, NULL);
    json_list(&json, "a<b");
    json_int(&json, NULL, INT64_MIN);
    json_text(&json, NULL, "</script>");
    json_list(&json, NULL);
    json_end(&json);
    json_end(&json);
    json_array(&json, "rows");
    json_row(&json, NULL);
    json_int(&json, "x", 0);
    json_end(&json);
    json_end(&json);
    json_end(&json);
    cr_expect_str_eq(text.at, "{\n\"a\\u003cb\":[-9223372036854775808,\"\\u003c/script>\",[]],\n\"rows\":[\n{\"x\":0}\n]\n}\n");
    text_finish(&text);
}
