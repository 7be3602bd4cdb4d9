#include "report/json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at `at`, 0: it is not valid. */
static int character(const unsigned char *at) {
    if (at[0] < 0x80) return 1;
    int n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool beyond = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

static void quoted(Text *text, const char *value, bool in_page) {
    text_append(text, "\"", 1);
    for (const unsigned char *at = (const unsigned char *)value; *at;) {
        int n = character(at);
        if (n == 0)
            text_printf(text, "\\ufffd");
        else if (*at == '"' || *at == '\\')
            text_printf(text, "\\%c", *at);
        else if (*at == '\n')
            text_printf(text, "\\n");
        else if (*at < 0x20 || *at == 0x7f || (in_page && *at == '<'))
            text_printf(text, "\\u%04x", *at);
        else
            text_append(text, (const char *)at, (size_t)n);
        at += n > 0 ? n : 1;
    }
    text_append(text, "\"", 1);
}

static void new_line(Json *json, int depth) {
    text_append(json->text, "\n", 1);
    for (int i = 0; i < depth && !json->in_page; i++)
        text_append(json->text, "  ", 2);
}

static void member(Json *json, const char *key) {
    if (json->depth > 0) {
        const int at = json->depth - 1;
        if (json->filled[at]) text_append(json->text, ",", 1);
        if (!json->flat[at])
            new_line(json, json->depth);
        else if (json->filled[at] && !json->in_page)
            text_append(json->text, " ", 1);
        json->filled[at] = true;
    }
    if (key == NULL) return;
    quoted(json->text, key, json->in_page);
    text_append(json->text, ": ", json->in_page ? 1 : 2);
}

static void open(Json *json, const char *key, const char *bracket, bool flat) {
    member(json, key);
    assert(json->depth < JSON_DEPTH);
    bool within_flat = json->depth > 0 && json->flat[json->depth - 1];
    json->filled[json->depth] = false;
    json->flat[json->depth] = flat || within_flat;
    json->array[json->depth] = *bracket == '[';
    json->depth++;
    text_append(json->text, bracket, 1);
}

void json_object(Json *json, const char *key) {
    open(json, key, "{", false);
}

void json_row(Json *json, const char *key) {
    open(json, key, "{", true);
}

void json_array(Json *json, const char *key) {
    open(json, key, "[", false);
}

void json_list(Json *json, const char *key) {
    open(json, key, "[", true);
}

void json_end(Json *json) {
    assert(json->depth > 0);
    int at = --json->depth;
    if (json->filled[at] && !json->flat[at]) new_line(json, at);
    text_append(json->text, json->array[at] ? "]" : "}", 1);
    if (at == 0) text_append(json->text, "\n", 1);
}

void json_text(Json *json, const char *key, const char *value) {
    member(json, key);
    if (value != NULL)
        quoted(json->text, value, json->in_page);
    else
        text_printf(json->text, "null");
}

void json_int(Json *json, const char *key, int64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    member(json, key);
    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0) digits[--at] = '-';
    text_append(json->text, digits + at, sizeof digits - at);
}

void json_real(Json *json, const char *key, double value) {
    char digits[40] = "null";
    member(json, key);
    for (int precision = 15; isfinite(value) && precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    text_printf(json->text, "%s", digits);
}

void json_bool(Json *json, const char *key, bool value) {
    member(json, key);
    text_printf(json->text, value ? "true" : "false");
}
