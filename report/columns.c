/* Writes columns of numbers, each in its shortest form. A column whose rows are all equal is just that number: most tables have some. */
#include "report/columns.h"

#include <assert.h>
#include <string.h>

#include "ir/map.h"

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

/* Characters of the numbers as JSON, each with its separator. */
static int64_t length_of(const int64_t *at, int n) {
    int64_t length = 0;
    for (int i = 0; i < n; i++) {
        length += 2 + (at[i] < 0);
        for (int64_t left = at[i]; left /= 10;)
            length++;
    }
    return length;
}

typedef VEC(int64_t) Numbers;

/* Earlier occurrences of a stretch of items are found by a hash of its first four. */
enum { STRETCH = 4, WORTH = 12 }; /* the least number of characters for a copy */
typedef struct Stretches {
    const int64_t *at;
    int n, bits, *last; /* per hash: the last place + 1, 0: none */
} Stretches;

/* The hash slot for the stretch that begins at i; NULL: fewer than four items are left. */
static int *last_place(const Stretches *seen, int i) {
    uint64_t hash = 0;
    if (i + STRETCH > seen->n) return NULL;
    for (int k = 0; k < STRETCH; k++)
        hash = hash_mix(hash, (uint64_t)seen->at[i + k]);
    return &seen->last[hash >> (64 - seen->bits)];
}

static int equal_items(const Stretches *seen, int i, int before) {
    int equal = 0;
    while (i + equal < seen->n && seen->at[i + equal] == seen->at[before + equal])
        equal++;
    return equal;
}

/* Packs numbers as LZ77 does (Ziv and Lempel, 1977): a count of literal numbers, these, how far back the next stretch occurred, its length; and so on. */
static Numbers repeats_of(Arena *arena, const int64_t *at, int n) {
    Stretches seen = {.at = at, .n = n, .bits = 4};
    Numbers packed = {0};
    while (seen.bits < 30 && n >> seen.bits)
        seen.bits++;
    seen.last = arena_alloc(arena, sizeof *seen.last << seen.bits);
    for (int i = 0, begin = 0; begin < n;) { /* begin: the first number not written yet */
        int back = 1, length = i > 0 ? equal_items(&seen, i, i - 1) : 0, *last = last_place(&seen, i);
        if (last && *last > 0) {
            const int equal = equal_items(&seen, i, *last - 1);
            if (equal > length) back = i - (*last - 1);
            if (equal > length) length = equal;
        }
        if (i < n && length < WORTH && length_of(at + i, length) < WORTH) {
            if (last) *last = i + 1;
            i++;
            continue;
        }
        vec_push(arena, &packed, i - begin);
        for (; begin < i; begin++)
            vec_push(arena, &packed, at[begin]);
        if (length == 0) break;
        vec_push(arena, &packed, back);
        vec_push(arena, &packed, length);
        for (begin += length; i < begin; i++)
            if ((last = last_place(&seen, i)) != NULL) *last = i + 1;
    }
    return packed;
}

static void write_numbers(Json *json, const char *key, Numbers numbers) {
    json_list(json, key);
    for (int i = 0; i < numbers.n; i++)
        json_int(json, NULL, numbers.at[i]);
    json_end(json);
}

/* Writes a column as it is; or as differences from row to row where these are shorter by a tenth; either is packed by repeats_of where that is shorter by half. */
static void write_column(Arena *arena, Json *json, const char *key, const int64_t *at, int n) {
    Numbers as[4] = {0}; /* bit 0: differences; bit 1: without repeats */
    int best = 0, equal = n > 0;
    while (equal < n && at[equal] == at[0])
        equal++;
    if (n > 0 && equal == n) {
        json_int(json, key, at[0]);
        return;
    }
    for (int i = 0; i < n; i++) {
        vec_push(arena, &as[0], at[i]);
        vec_push(arena, &as[1], at[i] - (i > 0 ? at[i - 1] : 0));
    }
    for (int i = 2; i < 4; i++)
        as[i] = repeats_of(arena, as[i - 2].at, n);
    int64_t shortest = length_of(as[0].at, n) * 9 / 10;
    for (int i = 1; i < 4; i++) {
        const int64_t length = length_of(as[i].at, (int)as[i].n);
        if (length >= shortest / (i < 2 || best > 1 ? 1 : 2)) continue;
        best = i;
        shortest = length;
    }
    if (best & 1) json_row(json, key);
    if (best & 2) json_row(json, best & 1 ? "differences" : key);
    write_numbers(json, best & 2 ? "repeats" : best & 1 ? "differences" : key, as[best]);
    if (best & 2) json_end(json);
    if (best & 1) json_end(json);
}

void columns_write(Json *json, const char *key, ColumnTable *columns) {
    assert(columns->next == 0);
    json_object(json, key);
    json_int(json, "rows", columns->column[0].row.n);
    for (int c = 0; c < columns->ncolumns; c++) {
        const char *name = columns->column[c].name;
        const bool list = columns->column[c].list;
        if (list) json_row(json, name);
        write_column(&columns->arena, json, list ? "lengths" : name, columns->column[c].row.at, columns->column[c].row.n);
        if (list) write_column(&columns->arena, json, "members", columns->column[c].member.at, columns->column[c].member.n);
        if (list) json_end(json);
    }
    json_end(json);
    arena_finish(&columns->arena);
}
