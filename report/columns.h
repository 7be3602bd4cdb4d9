/* columns: a table of integers, collected row by row and written column by column (docs/report.md): a browser reads few long arrays several times faster than many short ones. */
#pragma once
#include "report/json.h"

enum { MAX_COLUMNS = 20 };
typedef struct ColumnTable {
    Arena arena;
    int ncolumns, next; /* next: the column of the next field */
    struct {
        char name[20];
        bool list;           /* each row has any number of values */
        VEC(int64_t) row;    /* per row the field; for a list its length */
        VEC(int64_t) member; /* the members of all lists, one after the other */
    } column[MAX_COLUMNS];
} ColumnTable;
/* names: "kind what ins* outs*", where '*' marks a list. */
void columns_init(ColumnTable *columns, const char *names);
/* The next field of the row under way. */
void columns_int(ColumnTable *columns, int64_t value);
void columns_list(ColumnTable *columns);                       /* begins a list, empty at first */
void columns_member(ColumnTable *columns, int64_t value);      /* of the list that was begun last */
void columns_ints(ColumnTable *columns, const int *at, int n); /* a whole list */
/* Writes the table as member `key` of the open object, and frees it. */
void columns_write(Json *json, const char *key, ColumnTable *columns);
