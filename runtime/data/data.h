/* data: what the inputs of a program hold at each step.
 *
 *   random.c   generators: MT19937, Philox
 *   sampler.c  which row of a data set stands where in a batch
 *   stored.c   elements as files hold them
 *   value.c    which of them an input may hold
 *   stream.c   bytes of a file from its beginning, through gzip where it is compressed
 *   map.c      bytes of a file as memory
 *   csv.c      a record of CSV as fields
 *   wordpiece.c BERT's tokens of a text
 *   tokens.c   a text as numbers: wordpiece.c's, bytes, characters
 *   table.c    rows of CSV as numbers: columns, missing fields, names of labels, texts
 *   pictures.c CIFAR-10, folders of pictures; decode.c PNG and JPEG, pixels.c sizes and parts
 *   rows.c     files whose first dimension counts rows: .npy, IDX, raw, CSV
 *   numbers.c  inputs of random numbers: which of the generator's each element is
 *   source.c   the inputs at each step, one batch ahead; means.c: what is found in the rows of training; note.c: what is said of files
 *   file.c     where a file that a net names is
 */
#pragma once
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/comm/comm.h"

/* What the inputs hold at each step. The graph's settings say where it comes from; files are looked for as the plan names them, then in
 * plan_directory. NULL and *error: EXIT_ENVIRONMENT, one line that names the file. */
typedef struct DataSource DataSource;
/* used: of each input, whether anything reads it; files of the others are left alone. NULL: all are. threads: that share the numbers of a CSV. says: until the rows of an epoch are held, how
 * far a file is read that takes longer than a second is said on stderr. */
DataSource *data_open(const Graph *graph, const bool *used, const char *plan_directory, int threads, bool says, Error *error);
void data_close(DataSource *data);     /* takes NULL */
double data_bytes(const Graph *graph); /* of memory that a source takes, beside the inputs themselves; each process has one */
/* Announces a box of an input that will be asked for at every step of a group; its number. All of them before the first data_fill. A source of one program has one group, 0;
 * of one that has others for shorter texts each has a group, whose boxes lie in the inputs of the longest. */
int data_take(DataSource *data, int group, int input, const Box *box);
bool data_has(const DataSource *data, int input); /* whether it was opened, or needs no file */
/* Which group asks at each step of an epoch, so that the right boxes are prepared ahead; borrowed. Of other epochs it is not known. */
void data_groups(DataSource *data, int64_t epoch, const unsigned char *group);
/* The most tokens, in each step of an epoch, of the rows that the boxes announced hold, of those inputs that are texts: most[steps]. */
bool data_tokens(DataSource *data, int64_t epoch, const bool *texts, int32_t *most, Error *error);
/* Of memory that the rows of an epoch take at most, once all boxes are announced: those of files without random access, which are held, and their order; *path: the
 * file with most of it, NULL: none. */
double data_held_bytes(const DataSource *data, const char **path);
/* The elements of a box announced, for one step (epochs and steps count from 1), row-major. When all of its group have been filled, the next step's are prepared
 * by a thread of the source's. */
bool data_fill(DataSource *data, int take, int64_t epoch, int64_t step, void *to, Error *error);
/* Of an input of random numbers, for those who make them themselves. */
void data_numbers(const DataSource *data, int input, int64_t epoch, int64_t step, Numbers *numbers);
uint64_t numbers_at(const Numbers *numbers, const int64_t *index); /* the number of an element */
/* Called with the elements that data_fill has filled, before it returns. With one, every step's batch is another. */
typedef void DataFilter(void *context, int input, DType dtype, void *data, int64_t n);
void data_filter(DataSource *data, DataFilter *filter, void *context);
bool data_changes(const DataSource *data);  /* false: every step's batch is the same */
int64_t data_batch(const DataSource *data); /* rows of a batch, all replicas together */
int64_t data_steps(const DataSource *data); /* of an epoch */
int64_t data_rows(const DataSource *data);  /* of an epoch, without filler */
/* "d.csv: 1 of 7766 rows is left out: a field is missing", "photos: 200 pictures of 2 classes: 0 cat, 1 dog": lines for each file of which there is something to say. */
void data_note(const DataSource *data, Text *text);
/* What the files of the inputs are, in the arena: all processes must have the same. */
const Common *data_common(const DataSource *data, Arena *arena);
int64_t data_row(const DataSource *data, int64_t step, int64_t place,
                 bool *filler);            /* at a place of a batch; the order is that of the file */
int64_t data_bytes_read(DataSource *data); /* from files, headers left out */
/* ": rows.csv:17:9", or ": x.npy, row 15 (from 0), element 3": where an element of a step's input stands, by its place in the whole input; nothing where it is in no file. */
void data_where(DataSource *data, int input, int64_t epoch, int64_t step, const int64_t *index, Text *text);
/* Means and deviations of the rows of training, which inputs that are standardized, or have means in place of missing fields, are read with. A source of training finds them; others
 * have those of training, or of a file. data_figures: n is 0 where they are not known; NULL: the input needs none. */
struct Figures;
const struct Figures *data_figures(const DataSource *data, int input);
bool data_find_figures(DataSource *data, Error *error);
void data_share_figures(DataSource *data, const DataSource *of); /* by the names of inputs; `of` lasts longer */
bool data_set_figures(DataSource *data, int input, const struct Figures *figures, Error *error);
/* Whether the labels that stand in files are among the names of classes that were found, and these no more than the input takes, as far as looking takes less than a second. */
bool data_know(DataSource *data, Error *error);
/* How rows come: the same ones in each step; those of files, each once an epoch; generated, none twice. */
typedef enum { FLOW_SAME, FLOW_EPOCHS, FLOW_ENDLESS } DataFlow;
/* Which rows stand where. Sources with equal words have the same row at each place of an epoch, or of all epochs where rows are endless, however many rows a step
 * takes and however many ranks share them. */
typedef struct DataOrder {
    DataFlow flow;
    int64_t steps, step_rows; /* of an epoch; of a step, all replicas and accumulated batches together */
    char words[96];           /* "rows 1 to 60000 shuffled with seed 7" */
} DataOrder;
void data_order(const DataSource *data, DataOrder *order);

/* ---------------------------------------------------------------- file.c */

/* The path as written (relative to the current directory); else its longest end that there is beside the plan; else as written. */
const char *file_find(const char *file, const char *plan_directory, Arena *arena);
bool file_is_readable(const char *path); /* with a * in it: whether a file has such a name */
