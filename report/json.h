/* json: writes one JSON value, keys in the order of the calls: with two spaces of indentation a level, for people; or in a page. */
#pragma once
#include "ir/base.h"

enum { JSON_DEPTH = 16 };
typedef struct Json {
    Text *text;
    int depth;
    bool in_page;            /* no white space but the ends of lines; '<' as \u003c, so that no text ends the element that it stands in */
    bool filled[JSON_DEPTH]; /* the value open at this depth has a member */
    bool flat[JSON_DEPTH];   /* its members stand on one line */
    bool array[JSON_DEPTH];  /* it is an array */
} Json;

/* key: of the member in an object; NULL in an array and of the value itself. Texts are escaped; bytes that are no UTF-8 become U+FFFD. */
void json_object(Json *json, const char *key);
void json_array(Json *json, const char *key);
void json_row(Json *json, const char *key);                     /* an object on one line, as are the values within */
void json_list(Json *json, const char *key);                    /* an array, likewise */
void json_end(Json *json);                                      /* of the innermost object or array; the outermost ends the line */
void json_text(Json *json, const char *key, const char *value); /* NULL: null */
void json_int(Json *json, const char *key, int64_t value);
void json_real(Json *json, const char *key, double value); /* the shortest that reads back; not a finite number: null */
void json_bool(Json *json, const char *key, bool value);
