/* rows: files of rows, and what reads them. */
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
bool stored_is_native(Stored stored, DType dtype); /* real numbers that are stored in the file as in memory */

/* ---------------------------------------------------------------- stream.c */

/* A file that is read sequentially; gzip is detected by its first bytes and decompressed. */
typedef struct Stream Stream;
Stream *stream_open(const char *path, Error *error);
void stream_close(Stream *stream); /* takes NULL */
bool stream_compressed(const Stream *stream);
int64_t stream_file_bytes(const Stream *stream); /* size of the file itself */
/* Reads the next n bytes; `to` NULL skips them. False: *error says that the file ends early or is damaged. */
bool stream_read(Stream *stream, void *to, int64_t n, Error *error);
/* The next record of a text: a line, or several where one ends between the quotes of a field. */
typedef struct Record {
    const char *
        text; /* without the end of the line; after it 64 more bytes may be read, of which the first is no digit; valid until the next call */
    size_t n;
    int64_t line; /* of the file, from 1: where the record begins */
    int marked;   /* bytes before text on that line: the byte order mark that some programs put before UTF-8 */
    bool quotes;  /* it holds quotes */
} Record;
/* separator: the one between fields, 0: any of , ; and tab. False at the end of the file (error->code 0) or on failure. */
bool stream_record(Stream *stream, int separator, Record *record, Error *error);
/* Whole lines of a block of text that has no quotes: each line is a record. */
typedef struct Lines {
    char *at, *end; /* the next line; the byte after the last line's end */
    int64_t line;   /* the next line's number in the file, from 1 */
} Lines;
/* All whole lines left in the current block; the caller then passes their number to stream_pass_lines. False: there are none, call stream_record. */
bool stream_lines(Stream *stream, Lines *lines);
void stream_pass_lines(Stream *stream, int64_t n);
/* Reads the block after the current one, whose lines stay valid; one thread at a time may call it. */
void stream_read_ahead(Stream *stream);
bool lines_next(Lines *lines, Record *record); /* as stream_record */
bool stream_at_end(Stream *stream, bool *at_end, Error *error);
int64_t stream_bytes_read(const Stream *stream); /* of the file, so far */

/* ---------------------------------------------------------------- headers.c */

/* Reads a file's header: the type of its elements, its shape, the byte at which the first row begins. */
typedef bool HeaderFn(Stream *stream, const char *path, Stored *stored, Shape *shape, int64_t *begin, Error *error);
HeaderFn header_of_npy, header_of_idx;

/* ---------------------------------------------------------------- csv.c */

typedef struct Field {
    const char *begin, *text; /* text: without blanks and quotes around it */
    size_t n;                 /* of text; in quotes two quotes still stand for one */
    bool broken;              /* something follows the closing quote */
} Field;
bool csv_is_empty(const Record *record, int separator);
/* The field at *at, which is moved past it; *at NULL: the first. False: there is none. */
bool csv_field(const Record *record, int separator, const char **at, Field *field);
int64_t csv_fields(const Record *record, int separator, const char *at); /* how many fields there are from `at` on; NULL: in all */
bool csv_number(const Field *field, double *number);                     /* false: the field is no number */
/* csv_field and csv_number at once, for fields that are plain decimal numbers: how many were read, up to `most`. *at is moved past them; the next field needs csv_field. */
int64_t csv_plain_numbers(const Record *record, int separator, const char **at, double *number, int64_t most);
bool csv_is(const Field *field, const char *name);
int csv_separator(const Record *record); /* whichever of comma, semicolon and tab gives the most fields; if equal, the first */
/* The line and column of a place in a record, from 1. */
void csv_place(const Record *record, const char *at, int64_t *line, int64_t *column);

/* ---------------------------------------------------------------- rows.c */

/* Whether the input may hold a value of a file; if not, why, of n bytes, says what the value is. */
struct RowFile;
bool rows_value_fits(const struct RowFile *file, double value, char *why, size_t n);
bool rows_any_value_fits(const struct RowFile *file); /* then no value need be checked */

double dtype_beyond(DType dtype); /* real numbers from here on are infinite in this type */
/* "1e+300 is beyond f32, ..": value is finite in the file, but the input's number made of it is infinite. */
void rows_say_beyond(const struct RowFile *file, double value, double number, Text *text);

/* What is to be opened. */
typedef struct RowFile {
    FileFormat format;
    const char *path;
    const char *input;   /* whose data it is, for messages */
    Shape row;           /* of one row as the net sees it; a file may have another shape of as many elements */
    int64_t first, rows; /* the rows that are used: the first, and how many; 0: all from there on */
    Stored stored;       /* raw: its elements */
    int64_t offset;      /* raw: elements before the first row, and a last row that is not whole is left out; -1: neither */
    int64_t
        first_column; /* CSV: the first of the columns, as many as a row has elements; relative to the heading's, below 0: from the end */
    const char *heading; /* CSV: the name of a column in the first line, NULL: none */
    int separator;       /* CSV: the one between columns, 0: csv_separator of the first line */
    Missing missing;     /* CSV: what becomes of a row with a field that is missing */
    double fill;         /* CSV, MISSING_FILL: the number in its place */
    /* CSV, pictures: names of labels, one a line; a label is its line's number from 0. NULL: fields are numbers, and folders are sorted. */
    const char *classes;
    bool find_classes;      /* CSV: the names are found in the column */
    TokenPart tokens;       /* CSV: the column holds texts; which part of them the input has */
    const char *vocabulary; /* of texts: wordpiece.h's file, or the alphabet */
    Tokenizer tokenizer;
    bool lowercase;
    RowChange change;
    PictureChange picture;
    uint64_t seed;    /* of the random changes to pictures */
    int threads;      /* CSV: how many share a pass over the file; 0: one */
    const bool *says; /* CSV: whether a long pass prints its progress on stderr; NULL: none does */
    int64_t range;    /* elements must be integers in [0, range); 0: anything */
    DType dtype;      /* the input's */
} RowFile;
typedef struct Rows Rows;
/* Checks the file's type, shape and size. NULL and *error (EXIT_ENVIRONMENT, one line with the path) on failure. */
Rows *rows_open(const RowFile *file, Error *error);
void rows_close(Rows *rows); /* takes NULL */
int64_t rows_count(const Rows *rows);
int64_t rows_all(const Rows *rows);               /* all rows of the file, not only those that are used */
int64_t rows_dropped(const Rows *rows);           /* rows left out for a missing field: neither counted nor numbered */
void rows_describe(const Rows *rows, Text *text); /* "1000 rows of 16 f4 elements, 64128 bytes" */
bool rows_streamed(const Rows *rows);             /* whether the file has no random access: gzip, CSV */
/* What is reported of the file before training, a line each: rows left out, classes found; maybe nothing. first: this is the first input that reads the file. labels: names of
 * pictures' classes in the order of their numbers, NULL: the folder's own, "": not known. */
void rows_note(const Rows *rows, bool first, const char *labels, Text *text);
/* Announces the rows that will be read next, ascending and distinct. Files without random access (rows_streamed) are streamed once, and only
 * these rows are kept. Announcing rows that are already held costs nothing. */
bool rows_hold(Rows *rows, const int64_t *row, int64_t n, Error *error);
/* Reads elements [first, first + n) of a row, as the input's dtype. Of streamed files the row must be held. epoch, from 0: random changes differ in each. */
bool rows_read(Rows *rows, int64_t row, int64_t epoch, int64_t first, int64_t n, void *to, Error *error);
/* Reads n whole rows with these numbers; consecutive rows of a file with random access are read at once. */
bool rows_read_whole(Rows *rows, const int64_t *row, int64_t n, int64_t epoch, void *to, Error *error);
/* Whether the rows read so far were really in the file, which may have been truncated meanwhile. */
bool rows_check(const Rows *rows, Error *error);
/* How many tokens a row of an input of texts has; the row is held. -1: *error. */
int64_t rows_tokens(Rows *rows, int64_t row, Error *error);
/* Opens another part of the texts of a CSV that another input reads: `texts` reads them, and lasts longer. NULL with error->code 0: the texts are not the same. */
Rows *rows_open_part(const RowFile *file, Rows *texts, Error *error);
/* Statistics of the training rows: means and deviations of the numbers of a row, or names of labels, one a line. */
typedef struct Figures {
    int64_t n; /* 0: not known */
    double *mean, *deviation;
    char *classes; /* NULL: not known */
} Figures;
bool rows_need_figures(const Rows *rows);
/* Finds them in the rows with these numbers, ascending, without missing fields. A deviation of 0, where all values are equal, becomes 1. Names are those of the whole file, in order. */
bool rows_find_figures(Rows *rows, const int64_t *row, int64_t n, Figures *figures, Error *error);
void rows_set_figures(Rows *rows, const Figures *figures); /* borrowed; read when rows are read */
bool rows_know(Rows *rows,
               Error *error);         /* whether the labels in the file are among the names, as far as looking takes less than a second */
int64_t rows_width(const Rows *rows); /* numbers of a row in the file */
static inline bool figures_found(const Figures *figures) {
    return figures->n > 0 || figures->classes;
}
bool figures_alloc(Figures *figures, int64_t n);     /* without names */
bool figures_copy(Figures *to, const Figures *from); /* false: no memory */
void figures_finish(Figures *figures);
int64_t rows_bytes_read(const Rows *rows); /* of the file, without its header */
int64_t rows_bytes_held(const Rows *rows);
/* ": rows.csv:17:9" or ": x.npy, row 15 (from 0), element 3": where an element of a row stands in its file. */
void rows_where(const Rows *rows, int64_t row, int64_t element, Text *text);
double rows_bytes_of(const Rows *rows, int64_t n); /* memory for holding n rows; 0: the file has random access */
