/* json: writes one JSON value, with keys in the order of the calls: indented by two spaces per level, for people; or compact, in a page. */
#pragma once
#include "ir/base.h"

enum { JSON_DEPTH = 16 };
typedef struct Json {
    Text *text;
    int depth;
    bool in_page;            /* no white space but line ends; '<' as \u003c, so that no text can end the HTML element around it */
    bool filled[JSON_DEPTH]; /* the value open at this depth has a member */
    bool flat[JSON_DEPTH];   /* its members stand on one line */
    bool array[JSON_DEPTH];  /* it is an array */
} Json;

/* key: the member's name in an object; NULL in an array and for the outermost value. Texts are escaped; invalid UTF-8 becomes U+FFFD. */
void json_object(Json *json, const char *key);
void json_array(Json *json, const char *key);
void json_row(Json *json, const char *key);                     /* an object on one line, with all values within */
void json_list(Json *json, const char *key);                    /* an array, likewise */
void json_end(Json *json);                                      /* ends the innermost object or array; the outermost ends the line */
void json_text(Json *json, const char *key, const char *value); /* NULL: null */
void json_int(Json *json, const char *key, int64_t value);
void json_real(Json *json, const char *key, double value); /* the shortest text that reads back; null where it is not finite */
void json_bool(Json *json, const char *key, bool value);
