/* tables: one pointer for each contents. Operations remember their results, so that a thousand equal layers cost one. */
#include "search/solve.h"

#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

const Table *table_of(Tables *tables, int nrows, int ncolumns, const double *at) {
    size_t cells = (size_t)nrows * (size_t)ncolumns;
    uint64_t hash = mix((uint64_t)nrows, (uint64_t)ncolumns), word;
    for (size_t i = 0; i < cells; i++) {
        memcpy(&word, &at[i], sizeof word);
        hash = mix(hash, word);
    }
    tables->work += (int64_t)cells;
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
            at[(size_t)j * (size_t)table->nrows + (size_t)i] = table->at[(size_t)i * (size_t)table->ncolumns + (size_t)j];
    const Table *turned = table_of(tables, table->ncolumns, table->nrows, at);
    arena_finish(&scratch);
    tables->all.at[table->id]->turned = turned;
    tables->all.at[turned->id]->turned = table;
    return turned;
}

enum { RESULT_SUM, RESULT_ROW };

static uint64_t result_hash(int kind, int first, int second, int third) {
    return mix(mix(mix(mix(7, (uint64_t)kind), (uint64_t)first), (uint64_t)second), (uint64_t)third);
}

static const Table *result_find(const Tables *tables, int kind, int first, int second, int third) {
    map_each(&tables->results, result_hash(kind, first, second, third), i) {
        const TableResult *done = &tables->done.at[i];
        if (done->kind == kind && done->first == first && done->second == second && done->third == third) return done->result;
    }
    return NULL;
}

static const Table *result_add(Tables *tables, int kind, int first, int second, int third, const Table *result) {
    map_add(tables->arena, &tables->results, result_hash(kind, first, second, third), tables->done.n);
    vec_push(tables->arena, &tables->done, (TableResult){kind, first, second, third, result});
    return result;
}

const Table *table_sum(Tables *tables, const Table *a, const Table *b) {
    const Table *found = result_find(tables, RESULT_SUM, a->id, b->id, 0);
    if (found) return found;
    Arena scratch;
    arena_init(&scratch);
    double *at = arena_alloc(&scratch, CELLS(a) * sizeof *at);
    for (size_t i = 0; i < CELLS(a); i++)
        at[i] = a->at[i] + b->at[i];
    found = table_of(tables, a->nrows, a->ncolumns, at);
    arena_finish(&scratch);
    return result_add(tables, RESULT_SUM, a->id, b->id, 0, found);
}

const Table *table_row(Tables *tables, const Table *table, int row) {
    const Table *found = result_find(tables, RESULT_ROW, table->id, row, 0);
    if (found) return found;
    return result_add(tables, RESULT_ROW, table->id, row, 0,
                      table_of(tables, 1, table->ncolumns, table->at + (size_t)row * (size_t)table->ncolumns));
}
