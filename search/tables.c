/* tables: one pointer for each contents. Operations remember their results, so that a thousand equal layers cost one. */
#include "search/solve.h"

#include <math.h>
#include <string.h>

const Table *table_of(Tables *tables, int nrows, int ncolumns, const double *at) {
    size_t cells = (size_t)nrows * (size_t)ncolumns;
    uint64_t hash = hash_mix((uint64_t)nrows, (uint64_t)ncolumns), word;
    for (size_t i = 0; i < cells; i++) {
        memcpy(&word, &at[i], sizeof word);
        hash = hash_mix(hash, word);
    }
    *tables->work += (int64_t)cells;
    map_each(&tables->contents, hash, id) {
        const Table *table = tables->all.at[id];
        if (table->nrows == nrows && table->ncolumns == ncolumns && memcmp(table->at, at, cells * sizeof *at) == 0) return table;
    }
    double *copy = arena_alloc(tables->arena, cells * sizeof *copy);
    memcpy(copy, at, cells * sizeof *copy);
    Table *table = arena_alloc(tables->arena, sizeof *table);
    *table = (Table){.nrows = nrows, .ncolumns = ncolumns, .at = copy, .id = tables->all.n};
    map_add(tables->arena, &tables->contents, hash, table->id);
    vec_push(tables->arena, &tables->all, table);
    return table;
}

const Table *table_turned(Tables *tables, const Table *table) {
    if (table->turned) return table->turned;
    Arena scratch;
    arena_init(&scratch);
    double *at = arena_alloc(&scratch, CELLS(table) * sizeof *at);
    for (int i = 0; i < table->nrows; i++)
        for (int j = 0; j < table->ncolumns; j++)
            at[j * table->nrows + i] = table->at[i * table->ncolumns + j];
    const Table *turned = table_of(tables, table->ncolumns, table->nrows, at);
    arena_finish(&scratch);
    tables->all.at[table->id]->turned = turned;
    tables->all.at[turned->id]->turned = table;
    return turned;
}

/* NaN changes neither. */
static inline void widen(double value, double *most, double *least) {
    *most = value > *most ? value : *most;
    *least = value < *least ? value : *least;
}

/* By how much one row costs more than the other at most, where the other is possible, and vice versa: a difference that does not count is
 * NaN, or an infinity that loses to all others. Takes several columns at a time, which do not wait for each other. */
static void rows_excess(const double *one, const double *other, int n, double *one_more, double *other_more) {
    enum { LANES = 8 };
    double most[LANES], least[LANES];
    for (int l = 0; l < LANES; l++)
        most[l] = -INFINITY, least[l] = INFINITY;
    int j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            widen(one[j + l] - other[j + l], &most[l], &least[l]);
    for (; j < n; j++)
        widen(one[j] - other[j], &most[0], &least[0]);
    for (int l = 1; l < LANES; l++) {
        most[0] = fmax(most[0], most[l]);
        least[0] = fmin(least[0], least[l]);
    }
    *one_more = most[0];
    *other_more = -least[0];
}

const double *table_excess(Tables *tables, const Table *table) {
    if (table->excess) return table->excess;
    int n = table->nrows, m = table->ncolumns;
    double *excess = arena_alloc(tables->arena, (size_t)n * (size_t)n * sizeof *excess);
    for (int a = 0; a < n; a++)
        for (int b = 0; b <= a; b++)
            rows_excess(table->at + a * m, table->at + b * m, m, &excess[a * n + b], &excess[b * n + a]);
    *tables->work += (int64_t)n * n * m;
    tables->all.at[table->id]->excess = excess;
    return excess;
}

const double *table_least(Tables *tables, const Table *table) {
    if (table->least) return table->least;
    double *least = arena_alloc(tables->arena, (size_t)table->nrows * sizeof *least);
    for (int i = 0; i < table->nrows; i++) {
        least[i] = INFINITY;
        for (int j = 0; j < table->ncolumns; j++)
            least[i] = fmin(least[i], table->at[i * table->ncolumns + j]);
    }
    *tables->work += (int64_t)CELLS(table);
    tables->all.at[table->id]->least = least;
    return least;
}

enum { RESULT_SUM, RESULT_ROW, RESULT_ROWS, RESULT_LEAF, RESULT_SERIES };

static uint64_t result_hash(int kind, int first, int second, int third) {
    return hash_mix(hash_mix(hash_mix(hash_mix(7, (uint64_t)kind), (uint64_t)first), (uint64_t)second), (uint64_t)third);
}

static const TableResult *result_find(const Tables *tables, int kind, int first, int second, int third) {
    map_each(&tables->results, result_hash(kind, first, second, third), i) {
        const TableResult *done = tables->done.at[i];
        if (done->kind == kind && done->first == first && done->second == second && done->third == third) return done;
    }
    return NULL;
}

static const TableResult *result_add(Tables *tables, TableResult added) {
    map_add(tables->arena, &tables->results, result_hash(added.kind, added.first, added.second, added.third), tables->done.n);
    TableResult *result = arena_alloc(tables->arena, sizeof *result);
    *result = added;
    vec_push(tables->arena, &tables->done, result);
    return result;
}

const Table *table_sum(Tables *tables, const Table *a, const Table *b) {
    const TableResult *found = result_find(tables, RESULT_SUM, a->id, b->id, 0);
    if (found) return found->table;
    Arena scratch;
    arena_init(&scratch);
    double *at = arena_alloc(&scratch, CELLS(a) * sizeof *at);
    for (size_t i = 0; i < CELLS(a); i++)
        at[i] = a->at[i] + b->at[i];
    const Table *sum = table_of(tables, a->nrows, a->ncolumns, at);
    arena_finish(&scratch);
    return result_add(tables, (TableResult){RESULT_SUM, a->id, b->id, 0, sum, NULL})->table;
}

const Table *table_row(Tables *tables, const Table *table, int row) {
    const TableResult *found = result_find(tables, RESULT_ROW, table->id, row, 0);
    if (found) return found->table;
    const Table *vector = table_of(tables, 1, table->ncolumns, table->at + row * table->ncolumns);
    return result_add(tables, (TableResult){RESULT_ROW, table->id, row, 0, vector, NULL})->table;
}

const Table *table_rows(Tables *tables, const Table *table, const Table *kept) {
    const TableResult *found = result_find(tables, RESULT_ROWS, table->id, kept->id, 0);
    if (found) return found->table;
    Arena scratch;
    arena_init(&scratch);
    size_t row_bytes = (size_t)table->ncolumns * sizeof(double);
    double *at = arena_alloc(&scratch, (size_t)kept->ncolumns * row_bytes);
    for (int i = 0; i < kept->ncolumns; i++)
        memcpy(at + i * table->ncolumns, table->at + (int)kept->at[i] * table->ncolumns, row_bytes);
    const Table *rows = table_of(tables, kept->ncolumns, table->ncolumns, at);
    arena_finish(&scratch);
    return result_add(tables, (TableResult){RESULT_ROWS, table->id, kept->id, 0, rows, NULL})->table;
}

const TableResult *table_leaf(Tables *tables, const Table *cost, const Table *from) {
    const TableResult *found = result_find(tables, RESULT_LEAF, cost->id, from->id, 0);
    if (found) return found;
    Arena scratch;
    arena_init(&scratch);
    double *at = arena_alloc(&scratch, (size_t)from->nrows * sizeof *at);
    uint16_t *choice = arena_alloc(tables->arena, (size_t)from->nrows * sizeof *choice);
    for (int i = 0; i < from->nrows; i++) {
        at[i] = INFINITY;
        for (int c = 0; c < from->ncolumns; c++) {
            double sum = cost->at[c] + from->at[i * from->ncolumns + c];
            if (sum < at[i]) at[i] = sum, choice[i] = (uint16_t)c;
        }
    }
    *tables->work += (int64_t)CELLS(from);
    const Table *least = table_of(tables, 1, from->nrows, at);
    arena_finish(&scratch);
    return result_add(tables, (TableResult){RESULT_LEAF, cost->id, from->id, 0, least, choice});
}

const TableResult *table_series(Tables *tables, const Table *cost, const Table *from, const Table *to) {
    const TableResult *found = result_find(tables, RESULT_SERIES, cost->id, from->id, to->id);
    if (found) return found;
    Arena scratch;
    arena_init(&scratch);
    size_t cells = (size_t)from->nrows * (size_t)to->nrows;
    int n = cost->ncolumns;
    double *at = arena_alloc(&scratch, cells * sizeof *at), *sum = arena_alloc(&scratch, (size_t)n * sizeof *sum);
    uint16_t *choice = arena_alloc(tables->arena, cells * sizeof *choice);
    for (int i = 0; i < from->nrows; i++) {
        for (int c = 0; c < n; c++)
            sum[c] = cost->at[c] + from->at[i * n + c];
        for (int j = 0; j < to->nrows; j++) {
            int entry = i * to->nrows + j;
            at[entry] = INFINITY;
            for (int c = 0; c < n; c++) {
                double whole = sum[c] + to->at[j * n + c];
                if (whole < at[entry]) at[entry] = whole, choice[entry] = (uint16_t)c;
            }
        }
    }
    *tables->work += (int64_t)cells * n;
    const Table *least = table_of(tables, from->nrows, to->nrows, at);
    arena_finish(&scratch);
    return result_add(tables, (TableResult){RESULT_SERIES, cost->id, from->id, to->id, least, choice});
}
