/* rows: files of rows, and what they are read with. */
#pragma once
#include "ir/graph.h"

/* ---------------------------------------------------------------- stored.c */

/* In the order of ir's file_element_name. */
typedef enum {
    STORED_U8,
    STORED_I8,
    STORED_I16,
    STORED_I32,
    STORED_I64,
    STORED_F32,
    STORED_F64,
    STORED_F16,
    STORED_BF16,
    NSTORED
} StoredKind;
/* How a file holds an element. */
typedef struct Stored {
    StoredKind kind;
    bool big_endian;
} Stored;
extern const int stored_bytes[NSTORED];
double stored_element(const unsigned char *at, Stored stored);  /* exact but for i64 beyond 2^53 */
int64_t stored_integer(const unsigned char *at, Stored stored); /* of integers: exact */
bool stored_npy(const char *descr, Stored *stored);             /* "<f4" or "|u1", as numpy writes it after a quote */
bool stored_idx(unsigned char code, Stored *stored);            /* IDX's third byte */
bool stored_is_integer(Stored stored);
bool stored_is_native(Stored stored, DType dtype); /* real numbers that lie in the file as in memory */

/* ---------------------------------------------------------------- stream.c */

/* A file read from its beginning; gzip is seen by its first bytes and undone. */
typedef struct Stream Stream;
Stream *stream_open(const char *path, Error *error);
void stream_close(Stream *stream); /* takes NULL */
bool stream_compressed(const Stream *stream);
int64_t stream_file_bytes(const Stream *stream); /* size of the file itself */
/* The next n bytes; to NULL skips them. False: *error says that the file ends early or is damaged. */
bool stream_read(Stream *stream, void *to, int64_t n, Error *error);
/* The next record of a text: a line, or several where one ends between the quotes of a field. */
typedef struct Record {
    const char *
        text; /* without the end of the line, behind which are 64 bytes more that may be read, of them the first no digit; until the next call */
    size_t n;
    int64_t line; /* of the file, from 1: where it begins */
    int marked;   /* bytes before text on that line: the mark that some programs put before UTF-8 */
    bool quotes;  /* it holds quotes */
} Record;
/* separator: between fields, 0: any of , ; and tab. False at the end of the file (error->code 0) or on failure. */
bool stream_record(Stream *stream, int separator, Record *record, Error *error);
/* Whole lines of a block of a text, where it has no quotes: each is a record. */
typedef struct Lines {
    char *at, *end; /* from the next one on; behind the last one's end */
    int64_t line;   /* of the file, from 1: the next one's */
} Lines;
/* All that are in the block under way, for a caller that then says how many those were; false: there are none, stream_record has the next record. */
bool stream_lines(Stream *stream, Lines *lines);
void stream_pass_lines(Stream *stream, int64_t n);
/* Reads the block behind that one, so that what was given stays; by one thread at a time. */
void stream_read_ahead(Stream *stream);
bool lines_next(Lines *lines, Record *record); /* as stream_record */
bool stream_at_end(Stream *stream, bool *at_end, Error *error);
int64_t stream_bytes_read(const Stream *stream); /* of the file, so far */

/* ---------------------------------------------------------------- headers.c */

/* What stands before the rows of a file: how it holds elements, its shape, the byte at which the first row begins. */
typedef bool HeaderFn(Stream *stream, const char *path, Stored *stored, Shape *shape, int64_t *begin, Error *error);
HeaderFn header_of_npy, header_of_idx;

/* ---------------------------------------------------------------- csv.c */

typedef struct Field {
    const char *begin, *text; /* text: without blanks and quotes around it */
    size_t n;                 /* of text; in quotes two quotes still stand for one */
    bool broken;              /* something stands behind the closing quote */
} Field;
bool csv_is_empty(const Record *record, int separator);
/* The field at *at, which moves behind it; *at NULL: the first. False: there is none. */
bool csv_field(const Record *record, int separator, const char **at, Field *field);
int64_t csv_fields(const Record *record, int separator, const char *at); /* how many there are from this one on; NULL: in all */
bool csv_number(const Field *field, double *number);                     /* false: it is none */
/* csv_field and csv_number at once, of fields that are digits alone: how many there are, up to `most`; at the next one those are to be asked. *at moves behind those that are. */
int64_t csv_plain_numbers(const Record *record, int separator, const char **at, double *number, int64_t most);
bool csv_is(const Field *field, const char *name);
int csv_separator(const Record *record); /* the one of comma, semicolon and tab with the most fields; of equal ones the first */
/* The line and column of a place in a record, from 1. */
void csv_place(const Record *record, const char *at, int64_t *line, int64_t *column);

/* ---------------------------------------------------------------- rows.c */

/* Whether an element of a file is one that the input takes; why, of n bytes, says what it is instead. */
struct RowFile;
bool rows_value_fits(const struct RowFile *file, double value, char *why, size_t n);
bool rows_any_value_fits(const struct RowFile *file); /* so that none need be asked */

double dtype_beyond(DType dtype); /* from here on real numbers are infinite in it */
/* "1e+300 is beyond f32, ..": value is finite in the file, and infinite as the input's number. */
void rows_say_beyond(const struct RowFile *file, double value, double number, Text *text);

/* What is to be opened. */
typedef struct RowFile {
    FileFormat format;
    const char *path;
    const char *input;   /* whose data it is, for messages */
    Shape row;           /* of one row as the net sees it; a file may have another shape of as many elements */
    int64_t first, rows; /* those that are used: from this one on, so many; 0: all behind it */
    Stored stored;       /* raw: its elements */
    int64_t offset;      /* raw: elements before the first row, and a last row that is not whole is left out; -1: neither */
    int64_t
        first_column; /* CSV: the columns are this one and as many as a row has elements; counted from the heading's, below 0: from behind the last */
    const char *heading; /* CSV: the name of a column in the first line, NULL: none */
    int separator;       /* CSV: between columns, 0: csv_separator of the first line */
    Missing missing;     /* CSV: what becomes of a row with a field that is missing */
    double fill;         /* CSV, MISSING_FILL: the number in its place */
    /* CSV, pictures: names of labels, one a line, which are their numbers from 0; NULL: fields are numbers, and folders sorted. */
    const char *classes;
    bool find_classes;      /* CSV: the names are those of the column */
    TokenPart tokens;       /* CSV: the column holds texts, of which the input has this */
    const char *vocabulary; /* of texts: wordpiece.h's file, or the alphabet */
    Tokenizer tokenizer;
    bool lowercase;
    RowChange change;
    PictureChange picture;
    uint64_t seed;    /* of what is by chance in pictures */
    int threads;      /* CSV: that share a pass over the file; 0: one */
    const bool *says; /* CSV: whether a pass that takes long is said on stderr; NULL: none is */
    int64_t range;    /* elements must be integers in [0, range); 0: anything */
    DType dtype;      /* the input's */
} RowFile;
typedef struct Rows Rows;
/* Checks the file's type, shape and size. NULL and *error (EXIT_ENVIRONMENT, one line with the path) on failure. */
Rows *rows_open(const RowFile *file, Error *error);
void rows_close(Rows *rows); /* takes NULL */
int64_t rows_count(const Rows *rows);
int64_t rows_all(const Rows *rows);               /* of the file, not only those that are used */
int64_t rows_dropped(const Rows *rows);           /* left out for a missing field: not counted, and without a number */
void rows_describe(const Rows *rows, Text *text); /* "1000 rows of 16 f4 elements, 64128 bytes" */
bool rows_streamed(const Rows *rows);             /* whether the file has no random access: gzip, CSV */
/* What is reported of the file before training, a line each: rows left out, classes found; maybe nothing. first: of several inputs that read it. labels: names of pictures'
 * classes in the order of their numbers, NULL: the folder's own, "": not known. */
void rows_note(const Rows *rows, bool first, const char *labels, Text *text);
/* Announces the rows that will be asked for next, ascending and distinct: files without random access (rows_streamed) are streamed once and only
 * these rows are kept. Announcing what is there already costs nothing. */
bool rows_hold(Rows *rows, const int64_t *row, int64_t n, Error *error);
/* Elements [first, first + n) of a row, as the input's dtype. Streamed files: of a row that is held. epoch, from 0: what is by chance is another in each. */
bool rows_read(Rows *rows, int64_t row, int64_t epoch, int64_t first, int64_t n, void *to, Error *error);
/* n whole rows with these numbers; those that follow one another in a file with random access are read at once. */
bool rows_read_whole(Rows *rows, const int64_t *row, int64_t n, int64_t epoch, void *to, Error *error);
/* Whether the rows that have been read so far were there: a file may be cut off meanwhile. */
bool rows_check(const Rows *rows, Error *error);
/* How many tokens a row has, of an input of texts; the row is held. -1: *error. */
int64_t rows_tokens(Rows *rows, int64_t row, Error *error);
/* Rows of a CSV's texts, of which another input has another part: `texts` reads them, and lasts longer. NULL with error->code 0: they are not the same texts. */
Rows *rows_open_part(const RowFile *file, Rows *texts, Error *error);
/* What is found in the rows of training: means and deviations of the numbers of a row, or names of labels, one a line. */
typedef struct Figures {
    int64_t n; /* 0: not known */
    double *mean, *deviation;
    char *classes; /* NULL: not known */
} Figures;
bool rows_need_figures(const Rows *rows);
/* Finds them in the rows with these numbers, ascending: in each place those that are no missing fields; a deviation of 0 is 1, as where all are equal. Names are those of the whole file, in order. */
bool rows_find_figures(Rows *rows, const int64_t *row, int64_t n, Figures *figures, Error *error);
void rows_set_figures(Rows *rows, const Figures *figures); /* borrowed; read when rows are */
bool rows_know(Rows *rows,
               Error *error);         /* whether the labels in the file are among the names, as far as looking takes less than a second */
int64_t rows_width(const Rows *rows); /* numbers of a row, as the file has it */
static inline bool figures_found(const Figures *figures) {
    return figures->n > 0 || figures->classes;
}
bool figures_alloc(Figures *figures, int64_t n);     /* without names */
bool figures_copy(Figures *to, const Figures *from); /* false: no memory */
void figures_finish(Figures *figures);
int64_t rows_bytes_read(const Rows *rows); /* of the file, beside its header */
int64_t rows_bytes_held(const Rows *rows);
/* ": rows.csv:17:9" or ": x.npy, row 15 (from 0), element 3": where an element of a row stands in its file. */
void rows_where(const Rows *rows, int64_t row, int64_t element, Text *text);
double rows_bytes_of(const Rows *rows, int64_t n); /* that holding n rows takes; 0: the file has random access */
