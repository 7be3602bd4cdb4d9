#include "compiler/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at `at`, 0: it is none. */
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

static void quoted(Text *text, const char *value) {
    text_append(text, "\"", 1);
    for (const unsigned char *at = (const unsigned char *)value; *at;) {
        int n = character(at);
        if (n == 0)
            text_printf(text, "\\ufffd");
        else if (*at == '"' || *at == '\\')
            text_printf(text, "\\%c", *at);
        else if (*at == '\n')
            text_printf(text, "\\n");
        else if (*at < 0x20 || *at == 0x7f)
            text_printf(text, "\\u%04x", *at);
        else
            text_append(text, (const char *)at, (size_t)n);
        at += n > 0 ? n : 1;
    }
    text_append(text, "\"", 1);
}

static void member(Json *json, const char *key) {
    if (json->depth > 0) {
        int at = json->depth - 1;
        if (json->filled[at]) text_printf(json->text, ",");
        if (!json->flat[at])
            text_printf(json->text, "\n%*s", 2 * json->depth, "");
        else if (json->filled[at])
            text_printf(json->text, " ");
        json->filled[at] = true;
    }
    if (key == NULL) return;
    quoted(json->text, key);
    text_printf(json->text, ": ");
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

void json_end(Json *json) {
    assert(json->depth > 0);
    int at = --json->depth;
    if (json->filled[at] && !json->flat[at]) text_printf(json->text, "\n%*s", 2 * at, "");
    text_append(json->text, json->array[at] ? "]" : "}", 1);
    if (at == 0) text_append(json->text, "\n", 1);
}

void json_text(Json *json, const char *key, const char *value) {
    member(json, key);
    if (value != NULL)
        quoted(json->text, value);
    else
        text_printf(json->text, "null");
}

void json_int(Json *json, const char *key, int64_t value) {
    member(json, key);
    text_printf(json->text, "%" PRId64, value);
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
