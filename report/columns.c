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

/* A number of a column as it is, or its difference from the one before. */
static int64_t item(const int64_t *at, int i, bool apart) {
    return at[i] - (apart && i > 0 ? at[i - 1] : 0);
}

/* How many equal items begin here. */
static int run_of(const int64_t *at, int n, int i, bool apart) {
    int end = i + 1;
    while (end < n && item(at, end, apart) == item(at, i, apart))
        end++;
    return end - i;
}

static int64_t length_as(const int64_t *at, int n, bool apart, bool runs) {
    int64_t length = 0;
    for (int i = 0, k; i < n; i += k) {
        k = runs ? run_of(at, n, i, apart) : 1;
        length += length_of(item(at, i, apart)) + (runs ? length_of(k) : 0);
    }
    return length;
}

static void write_items(Json *json, const char *key, const int64_t *at, int n, bool apart, bool runs) {
    if (runs) json_row(json, key);
    json_list(json, runs ? "runs" : key);
    for (int i = 0, k; i < n; i += k) {
        k = runs ? run_of(at, n, i, apart) : 1;
        json_int(json, NULL, item(at, i, apart));
        if (runs) json_int(json, NULL, k);
    }
    json_end(json);
    if (runs) json_end(json);
}

/* As it is; or as differences from row to row, as runs of equal numbers, as runs of equal differences, where these are shorter. */
static void write_column(Json *json, const char *key, const int64_t *at, int n) {
    bool apart = false, runs = false;
    int64_t shortest = length_as(at, n, false, false) * 9 / 10;
    if (n > 0 && run_of(at, n, 0, false) == n) {
        json_int(json, key, at[0]);
        return;
    }
    for (int as = 1; as < 4; as++) {
        const int64_t length = length_as(at, n, as & 1, as & 2);
        if (length >= shortest) continue;
        apart = as & 1;
        runs = as & 2;
        shortest = length;
    }
    if (apart) json_row(json, key);
    write_items(json, apart ? "differences" : key, at, n, apart, runs);
    if (apart) json_end(json);
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
