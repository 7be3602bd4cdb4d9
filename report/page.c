#include "report/page.h"

#include <string.h>

static const char *const element_id[NELEMENTS] = {"plan", "run", "other"};
static const char element_end[] = "</script>\n";

void page_finish(Page *page) {
    for (int e = 0; e < NELEMENTS; e++)
        text_finish(&page->element[e]);
}

void page_print(Text *text, const Page *page) {
    text_append(text, (const char *)page_head, page_head_bytes);
    for (int e = 0; e < NELEMENTS; e++) {
        if (page->element[e].n == 0) continue;
        text_printf(text, "<script type=\"application/json\" id=\"%s\">", element_id[e]);
        text_append(text, page->element[e].at, page->element[e].n);
        text_append(text, element_end, sizeof element_end - 1);
    }
    text_append(text, (const char *)page_tail, page_tail_bytes);
}

/* Like memmem, which POSIX lacks. */
static const char *find(const char *at, const char *end, const char *word) {
    const size_t n = strlen(word);
    for (; at < end && (at = memchr(at, word[0], (size_t)(end - at))) != NULL; at++)
        if ((size_t)(end - at) >= n && memcmp(at, word, n) == 0) return at;
    return NULL;
}

bool page_read(Page *page, const char *text, size_t n) {
    const char *end = text + n;
    *page = (Page){0};
    for (int e = 0; e < NELEMENTS; e++) {
        char begin[64];
        snprintf(begin, sizeof begin, "\n<script type=\"application/json\" id=\"%s\">", element_id[e]);
        const char *at = find(text, end, begin);
        if (at == NULL) continue;
        at += strlen(begin);
        const char *stop = find(at, end, "</script>");
        if (stop == NULL) return page_finish(page), false;
        text_append(&page->element[e], at, (size_t)(stop - at));
    }
    return page->element[ELEMENT_PLAN].n > 0;
}

void page_checksum(const Page *page, char *digits) {
    const Text *plan = &page->element[ELEMENT_PLAN];
    const char *key = "\n\"checksum\":\"", *at = plan->n > 0 ? find(plan->at, plan->at + plan->n, key) : NULL;
    digits[0] = '\0';
    if (at == NULL) return;
    at += strlen(key); /* the text ends in a zero, which is no digit */
    if (strspn(at, "0123456789abcdef") != 16 || at[16] != '"') return;
    memcpy(digits, at, 16);
    digits[16] = '\0';
}
