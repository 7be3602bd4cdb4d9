/* table: parses the rows of a CSV into the numbers, or the tokens of a text, that an input takes from each. */
#pragma once
#include "runtime/data/rows.h"

typedef struct Table {
    const RowFile *file; /* owned by the caller, like all that it points to */
    const char *path;
    int64_t elements;              /* of a row: numbers of the file, or places for tokens */
    int separator;                 /* between columns */
    int64_t columns, first_column; /* how many the file has; the input's first */
    bool headed;                   /* the first line names columns */
    int64_t count, dropped;        /* rows; rows left out, which count does not include */
    struct Tokens *tokens;         /* of texts, else NULL */
    unsigned char *early;          /* rows that table_count has parsed, from file->first on; NULL: none */
    int64_t nearly, early_room;    /* how many there are, and for how many there is room */
    int64_t early_bytes;           /* the most memory that they may take */
    bool early_over;               /* no more are kept */
    const Figures *figures;        /* the caller's: names of labels, where they are found in the file; else NULL */
} Table;
/* Size of a parsed row: `elements` doubles, nan for a missing field that the mean will replace; of texts the number of tokens, then `elements` token numbers, all int32_t. */
bool table_row_bytes(const RowFile *file, int64_t elements, int64_t *bytes);
/* Opens the vocabulary of texts. On failure false and *error; the table is then closed. */
bool table_open(Table *table, const RowFile *file, const char *path, int64_t elements, Error *error);
void table_close(Table *table); /* takes a zeroed one */
/* The names of labels in the file, sorted, one a line; NULL and *error on failure. The caller frees it. */
char *table_find_classes(Table *table, Stream *stream, Error *error);
/* Reads the file once: counts its rows and checks that each is as wide as the first. For a second or less it also parses the rows that are used and checks that the input may
 * hold them, so that a wrong file is reported before training. Parsed rows are kept where they take little memory. */
bool table_count(Table *table, Stream *stream, Error *error);
/* Whether the labels of the rows that are used are among the class names; looks for as long as table_count does. */
bool table_know(Table *table, Stream *stream, Error *error);
/* The rows with these numbers, ascending and distinct, if table_count has kept all of them, else NULL; the caller frees it. Either way the table drops its rows. */
unsigned char *table_take_early(Table *table, const int64_t *row, int64_t n);
/* Takes row number i of the requested ones, as stored in the file or as parsed. */
typedef void RowSink(void *context, int64_t i, const void *row);
/* Passes the rows with these numbers, ascending, to the sink. shared: threads may call it at the same time, for different rows in any order. */
bool table_read(Table *table, Stream *stream, const int64_t *row, int64_t n, RowSink *sink, bool shared, void *context, Error *error);
/* ": rows.csv:17:9": where an element of a row stands; nothing if it cannot be found. Another thread may be reading. */
void table_where(const Table *table, int64_t row, int64_t element, Text *text);
