/* data: provides the values of a program's inputs at each step.
 *
 *   random.c   generators: MT19937, Philox
 *   sampler.c  which row of a data set stands where in a batch
 *   stored.c   reads elements in the formats that files store
 *   value.c    which values of a file an input may hold
 *   stream.c   reads a file sequentially, and decompresses gzip
 *   map.c      memory-maps a file
 *   csv.c      splits a CSV record into fields
 *   wordpiece.c BERT's tokenizer
 *   tokens.c   encodes a text as numbers: tokens of wordpiece.c, bytes or characters
 *   table.c    parses rows of CSV: columns, missing fields, names of labels, texts
 *   pictures.c CIFAR-10, folders of pictures; decode.c: PNG and JPEG; pixels.c: resizing and cropping
 *   rows.c     files whose first dimension counts rows: .npy, IDX, raw, CSV
 *   numbers.c  inputs of random numbers: which number of the generator each element is
 *   source.c   fills the inputs at each step, one batch ahead; means.c: statistics of the training rows; note.c: notes on files
 *   file.c     finds a file that a net names
 */
#pragma once
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/comm/comm.h"

/* Provides the values of the inputs at each step. The graph's settings say where they come from. Files are looked for as the plan names
 * them, then in plan_directory. On failure NULL and *error: EXIT_ENVIRONMENT, one line that names the file. */
typedef struct DataSource DataSource;
/* used: for each input, whether anything reads it; files of unused inputs are not opened. NULL: all are used. threads: how many parse a CSV. says: until the rows of an epoch are held,
 * progress is printed on stderr for a file that takes longer than a second to read. */
DataSource *data_open(const Graph *graph, const bool *used, const char *plan_directory, int threads, bool says, Error *error);
void data_close(DataSource *data);     /* takes NULL */
double data_bytes(const Graph *graph); /* memory that a source takes, without the inputs themselves; each process has one */
/* Announces a box of an input that every step of a group will read, and returns the box's number. All are announced before the first data_fill. With one program there is one group, 0;
 * with further programs for shorter texts each program has a group, whose boxes lie in the inputs of the longest. */
int data_take(DataSource *data, int group, int input, const Box *box);
bool data_has(const DataSource *data, int input); /* whether the input's file was opened, or it needs none */
/* Sets which group reads at each step of an epoch, so that the right boxes are prepared ahead; borrowed. Other epochs are unknown. */
void data_groups(DataSource *data, int64_t epoch, const unsigned char *group);
/* For each step of an epoch, the largest number of tokens in any row of the announced boxes of the inputs in `texts`: most[steps]. */
bool data_tokens(DataSource *data, int64_t epoch, const bool *texts, int32_t *most, Error *error);
/* The most memory that the rows of an epoch take, once all boxes are announced: the held rows of files without random access, and the order of rows. *path: the
 * file that takes most of it, NULL: none. */
double data_held_bytes(const DataSource *data, const char **path);
/* Writes the elements of an announced box for one step (epochs and steps count from 1), row-major. When all boxes of its group have been filled, a thread of the
 * source prepares those of the next step. */
bool data_fill(DataSource *data, int take, int64_t epoch, int64_t step, void *to, Error *error);
/* Describes an input of random numbers, for callers that generate them themselves. */
void data_numbers(const DataSource *data, int input, int64_t epoch, int64_t step, Numbers *numbers);
uint64_t numbers_at(const Numbers *numbers, const int64_t *index); /* the number of an element */
/* Called with the elements that data_fill has filled, before it returns. With a filter, batches count as different at every step. */
typedef void DataFilter(void *context, int input, DType dtype, void *data, int64_t n);
void data_filter(DataSource *data, DataFilter *filter, void *context);
bool data_changes(const DataSource *data);  /* false: every step's batch is the same */
int64_t data_batch(const DataSource *data); /* rows of a batch, all replicas together */
int64_t data_steps(const DataSource *data); /* of an epoch */
int64_t data_rows(const DataSource *data);  /* of an epoch, without filler */
/* "d.csv: 1 of 7766 rows is left out: a field is missing", "photos: 200 pictures of 2 classes: 0 cat, 1 dog": lines for each file with something to report. */
void data_note(const DataSource *data, Text *text);
/* A description of the inputs' files, in the arena: it must be the same on all processes. */
const Common *data_common(const DataSource *data, Arena *arena);
int64_t data_row(const DataSource *data, int64_t step, int64_t place,
                 bool *filler);            /* the row at a place of a batch; numbered as in the file */
int64_t data_bytes_read(DataSource *data); /* from files, headers left out */
/* ": rows.csv:17:9", or ": x.npy, row 15 (from 0), element 3": where an element of a step's input stands, given its index in the whole input; nothing if it is in no file. */
void data_where(DataSource *data, int input, int64_t epoch, int64_t step, const int64_t *index, Text *text);
/* Means and deviations of the training rows. They are used to read inputs that are standardized, or have means in place of missing fields. A source for training computes them; other
 * sources take them from it, or from a file. data_figures: n is 0 where they are not known; NULL: the input needs none. */
struct Figures;
const struct Figures *data_figures(const DataSource *data, int input);
bool data_find_figures(DataSource *data, Error *error);
void data_share_figures(DataSource *data, const DataSource *of); /* by the names of inputs; `of` lasts longer */
bool data_set_figures(DataSource *data, int input, const struct Figures *figures, Error *error);
/* Whether the labels in files are among the class names that were found, and these are no more than the input takes. Looks for less than a second. */
bool data_know(DataSource *data, Error *error);
/* How rows come: the same rows in each step; rows of files, each once an epoch; generated rows, none twice. */
typedef enum { FLOW_SAME, FLOW_EPOCHS, FLOW_ENDLESS } DataFlow;
/* The order of rows. Sources with equal words have the same row at each place of an epoch (of all epochs where rows are endless), however many rows a step
 * takes and however many ranks share them. */
typedef struct DataOrder {
    DataFlow flow;
    int64_t steps, step_rows; /* of an epoch; of a step, all replicas and accumulated batches together */
    char words[96];           /* "rows 1 to 60000 shuffled with seed 7" */
} DataOrder;
void data_order(const DataSource *data, DataOrder *order);

/* ---------------------------------------------------------------- file.c */

/* The path as written (relative to the current directory) if it exists; else its longest suffix that exists beside the plan; else as written. */
const char *file_find(const char *file, const char *plan_directory, Arena *arena);
bool file_is_readable(const char *path); /* with a * in it: whether any file matches */
