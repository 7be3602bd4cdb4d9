/* table: the rows of a CSV, as the numbers, or the tokens of a text, that an input takes of each. */
#pragma once
#include "runtime/data/rows.h"

typedef struct Table {
    const RowFile *file; /* the owner's, as all that it points to */
    const char *path;
    int64_t elements;              /* of a row: numbers of the file, or places for tokens */
    int separator;                 /* between columns */
    int64_t columns, first_column; /* of the file; the input's first */
    bool headed;                   /* the first line names columns */
    int64_t count, dropped;        /* rows; those that were left out, which the others do not count */
    struct Tokens *tokens;         /* of texts, else NULL */
    unsigned char *early;          /* rows that table_count has parsed, from file->first on; NULL: none */
    int64_t nearly, early_room;    /* how many, and for how many there is room */
    int64_t early_bytes;           /* that they may take */
    bool early_over;               /* no more are kept */
    const Figures *figures;        /* the owner's: names of labels, where they are found; NULL: none are */
} Table;
/* A row as it is parsed: `elements` doubles, nan where a field is missing whose mean stands for it; of texts how many tokens there are, and `elements` numbers, all int32_t. */
bool table_row_bytes(const RowFile *file, int64_t elements, int64_t *bytes);
/* Opens the vocabulary of texts. False with *error, closed. */
bool table_open(Table *table, const RowFile *file, const char *path, int64_t elements, Error *error);
void table_close(Table *table); /* takes a zeroed one */
/* The names of labels in the file, in order, one a line; NULL with *error. The caller's to free. */
char *table_find_classes(Table *table, Stream *stream, Error *error);
/* Goes through the file once: counts its rows and sees that each is as wide as the first; as far as that goes in a second or less, also that those that are used hold what the
 * input takes, so that a wrong file is said before training. Those are kept, where they take little of the memory. */
bool table_count(Table *table, Stream *stream, Error *error);
/* Whether the labels of the rows that are used are among the names of classes, as far as that goes in the same time. */
bool table_know(Table *table, Stream *stream, Error *error);
/* The rows with these numbers, ascending and distinct, where table_count has kept all of them, else NULL; the caller's to free. They are kept no longer, either way. */
unsigned char *table_take_early(Table *table, const int64_t *row, int64_t n);
/* Takes row number i of those that are asked for, as the file or the parser has it. */
typedef void RowSink(void *context, int64_t i, const void *row);
/* Gives the sink the rows with these numbers, ascending. shared: threads may call it at the same time, for different rows in any order. */
bool table_read(Table *table, Stream *stream, const int64_t *row, int64_t n, RowSink *sink, bool shared, void *context, Error *error);
/* ": rows.csv:17:9": where an element of a row stands; nothing if it cannot be found. Another thread may be reading. */
void table_where(const Table *table, int64_t row, int64_t element, Text *text);
