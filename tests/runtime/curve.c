/* The curve of a report: a fixed number of points, from which no extreme is missing. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>

#include "runtime/curve.h"

static cJSON *printed(int n, double (*loss)(int step)) {
    Error error;
    Curve *curve = curve_create(&error);
    for (int k = 1; k <= n; k++) {
        const Position at = {.global_step = k};
        curve_add(curve, &(Record){.at = &at, .n = 2, .measured = {{"loss", loss(k)}, {"lr", 0.5}}});
    }
    const Position last = {.global_step = n};
    curve_add(curve, &(Record){.at = &last, .eval = true, .n = 1, .measured = {{"loss", 7}}});
    Text text = {0};
    Json json = {.text = &text, .in_page = true};
    json_object(&json, NULL);
    curve_print(&json, curve);
    json_end(&json);
    cJSON *read = cJSON_Parse(text.at);
    text_finish(&text);
    curve_destroy(curve);
    cr_assert_not_null(read);
    return read;
}

static double number(const cJSON *row, int column) {
    return cJSON_GetArrayItem(row, column)->valuedouble;
}

static double falls(int step) {
    return step == 777 ? 1e6 : step == 7777 ? -5 : 1.0 / step;
}

static double breaks(int step) {
    return step == 30 ? NAN : step;
}

Test(curve, few_points_are_all_there) {
    cJSON *read = printed(40, breaks), *rows = cJSON_GetObjectItem(cJSON_GetObjectItem(read, "curve"), "rows"), *row;
    int step = 0;
    cr_expect_eq(cJSON_GetArraySize(rows), 40);
    cJSON_ArrayForEach(row, rows) {
        cr_expect_eq(number(row, 0), ++step);
        if (step == 30)
            cr_expect(cJSON_IsNull(cJSON_GetArrayItem(row, 1)));
        else
            cr_expect_eq(number(row, 1), step);
        cr_expect_eq(number(row, 2), 0.5);
    }
    cJSON *columns = cJSON_GetObjectItem(cJSON_GetObjectItem(read, "curve"), "columns");
    cr_expect_str_eq(cJSON_GetArrayItem(columns, 0)->valuestring, "step");
    cr_expect_str_eq(cJSON_GetArrayItem(columns, 2)->valuestring, "lr");
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetObjectItem(read, "evaluations"), "rows")), 1);
    cJSON_Delete(read);
}

Test(curve, of_many_the_least_and_the_most_stay) {
    cJSON *read = printed(100000, falls), *rows = cJSON_GetObjectItem(cJSON_GetObjectItem(read, "curve"), "rows"), *row;
    double before = 0, least = INFINITY, most = -INFINITY;
    cr_expect_leq(cJSON_GetArraySize(rows), 4000);
    cr_expect_geq(cJSON_GetArraySize(rows), 2000);
    cJSON_ArrayForEach(row, rows) {
        cr_expect_gt(number(row, 0), before);
        before = number(row, 0);
        cr_expect_eq(number(row, 1), falls((int)number(row, 0)));
        least = fmin(least, number(row, 1));
        most = fmax(most, number(row, 1));
    }
    cr_expect_eq(least, -5);
    cr_expect_eq(most, 1e6);
    cJSON_Delete(read);
}

Test(curve, a_loss_that_is_no_number_stays) {
    cJSON *read = printed(50000, breaks), *rows = cJSON_GetObjectItem(cJSON_GetObjectItem(read, "curve"), "rows"), *row;
    int nulls = 0;
    cJSON_ArrayForEach(row, rows) nulls += cJSON_IsNull(cJSON_GetArrayItem(row, 1));
    cr_expect_eq(nulls, 1);
    cJSON_Delete(read);
}
