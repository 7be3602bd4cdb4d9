/* Pages: what is written is read again, and nothing else is taken for one. */
#include <criterion/criterion.h>
#include <string.h>

#include "report/page.h"

static void append(Text *text, const char *more) {
    text_append(text, more, strlen(more));
}

Test(page, elements_come_back) {
    Page page = {0}, again;
    Text text = {0};
    char digits[17];
    append(&page.element[ELEMENT_PLAN], "{\n\"net\":\"a\",\n\"checksum\":\"0123456789abcdef\",\n\"n\":1\n}\n");
    append(&page.element[ELEMENT_OTHER], "{\n\"checksum\":\"fedcba9876543210\"\n}\n");
    page_print(&text, &page);
    cr_assert(page_read(&again, text.at, text.n));
    cr_expect_str_eq(again.element[ELEMENT_PLAN].at, page.element[ELEMENT_PLAN].at);
    cr_expect_str_eq(again.element[ELEMENT_OTHER].at, page.element[ELEMENT_OTHER].at);
    cr_expect_eq(again.element[ELEMENT_RUN].n, 0);
    page_checksum(&again, digits);
    cr_expect_str_eq(digits, "0123456789abcdef");
    append(&again.element[ELEMENT_RUN], "{}\n");
    Text more = {0};
    page_print(&more, &again);
    page_finish(&page);
    cr_assert(page_read(&page, more.at, more.n));
    cr_expect_str_eq(page.element[ELEMENT_RUN].at, "{}\n");
    cr_expect_str_eq(page.element[ELEMENT_OTHER].at, again.element[ELEMENT_OTHER].at);
    text_finish(&text);
    text_finish(&more);
    page_finish(&page);
    page_finish(&again);
}

Test(page, other_files_are_none) {
    static const char *const texts[] = {"", "x", "<!doctype html>\n<script>1</script>\n",
                                        "\n<script type=\"application/json\" id=\"plan\">{}",
                                        "\n<script type=\"application/json\" id=\"run\">{}</script>\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Page page;
        cr_expect_not(page_read(&page, texts[i], strlen(texts[i])), "%s", texts[i]);
        page_finish(&page);
    }
}

Test(page, a_page_without_checksum_says_none) {
    static const char *const texts[] = {"{\n\"checksum\":\"01", "{\n\"checksum\":\"0\",\n\"options\":\"mode=auto\"\n}\n",
                                        "{\n\"checksum\":\"0123456789abcdef0\"\n}\n", "{\n\"checksum\":\"0123456789abcde\\\"\n}\n",
                                        "{\n\"checksum\":\"0123456789abcdef"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Page page = {0};
        char digits[17] = "x";
        append(&page.element[ELEMENT_PLAN], texts[i]);
        page_checksum(&page, digits);
        cr_expect_str_eq(digits, "", "%s", texts[i]);
        page_finish(&page);
    }
}

Test(page, comments_stay_at_home) {
    cr_expect_null(strstr((const char *)page_head, "\n/*"));
    cr_expect_null(strstr((const char *)page_tail, "\n/*"));
    cr_expect_not_null(strstr((const char *)page_tail, "\nfunction findingsMake("));
}
