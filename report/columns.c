/* Columns of numbers, each as it is shortest. One whose rows are all equal is that number alone: most tables have some. */
#include "report/columns.h"

#include <assert.h>
#include <string.h>

void columns_init(ColumnTable *columns, const char *names) {
    *columns = (ColumnTable){0};
    arena_init(&columns->arena);
    while (*names) {
        const size_t n = strcspn(names, "* ");
        assert(columns->ncolumns < MAX_COLUMNS && n < sizeof columns->column[0].name);
        memcpy(columns->column[columns->ncolumns].name, names, n);
        columns->column[columns->ncolumns++].list = names[n] == '*';
        names += n + strspn(names + n, "* ");
    }
}

static int next_column(ColumnTable *columns) {
    const int at = columns->next;
    columns->next = (at + 1) % columns->ncolumns;
    return at;
}

void columns_int(ColumnTable *columns, int64_t value) {
    const int at = next_column(columns);
    assert(!columns->column[at].list);
    vec_push(&columns->arena, &columns->column[at].row, value);
}

void columns_list(ColumnTable *columns) {
    const int at = next_column(columns);
    assert(columns->column[at].list);
    vec_push(&columns->arena, &columns->column[at].row, 0);
}

void columns_member(ColumnTable *columns, int64_t value) {
    const int at = (columns->next + columns->ncolumns - 1) % columns->ncolumns;
    assert(columns->column[at].list);
    columns->column[at].row.at[columns->column[at].row.n - 1]++;
    vec_push(&columns->arena, &columns->column[at].member, value);
}

void columns_ints(ColumnTable *columns, const int *at, int n) {
    columns_list(columns);
    for (int i = 0; i < n; i++)
        columns_member(columns, at[i]);
}

/* Characters of a number and what parts it from the next. */
static int length_of(int64_t value) {
    int n = 2 + (value < 0);
    while (value /= 10)
        n++;
    return n;
}

/* As it is, or as differences from row to row, where these are shorter. */
static void write_column(Json *json, const char *key, const int64_t *at, int n) {
    int64_t plain = 0, apart = 0;
    bool alike = n > 0;
    for (int i = 0; i < n; i++) {
        alike = alike && at[i] == at[0];
        plain += length_of(at[i]);
        apart += length_of(at[i] - (i > 0 ? at[i - 1] : 0));
    }
    if (alike) {
        json_int(json, key, at[0]);
        return;
    }
    const bool differences = apart < plain * 9 / 10;
    if (differences) json_row(json, key);
    json_list(json, differences ? "differences" : key);
    for (int i = 0; i < n; i++)
        json_int(json, NULL, at[i] - (differences && i > 0 ? at[i - 1] : 0));
    json_end(json);
    if (differences) json_end(json);
}

void columns_write(Json *json, const char *key, ColumnTable *columns) {
    assert(columns->next == 0);
    json_object(json, key);
    json_int(json, "rows", columns->column[0].row.n);
    for (int c = 0; c < columns->ncolumns; c++) {
        const char *name = columns->column[c].name;
        const bool list = columns->column[c].list;
        if (list) json_row(json, name);
        write_column(json, list ? "lengths" : name, columns->column[c].row.at, columns->column[c].row.n);
        if (list) write_column(json, "members", columns->column[c].member.at, columns->column[c].member.n);
        if (list) json_end(json);
    }
    json_end(json);
    arena_finish(&columns->arena);
}
