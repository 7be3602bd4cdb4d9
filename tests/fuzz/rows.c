/* rows: see rows.h. */
#include "tests/fuzz/rows.h"
#include "runtime/data/rows.h"
#include "runtime/element.h"

#include <string.h>
#include <unistd.h>

enum { WIDTH = 4, MOST_ROWS = 64 };

/* What a net may want of the file. */
static const struct Wanted {
    DType dtype;
    int64_t range, first, rows, first_column;
    Missing missing;
    RowChange change;
    TokenPart tokens;
    Tokenizer tokenizer;
} wanted[] = {{.dtype = F32},
              {.dtype = I64, .range = 10},
              {.dtype = BOOL, .first = 1, .rows = 2},
              {.dtype = F64, .first_column = 1},
              {.dtype = F64, .missing = MISSING_MEAN, .change = {.standardize = true, .scale = 0.5}},
              {.dtype = F32, .change = {.one_hot = true}},
              {.dtype = I32, .tokens = TOKENS_IDS, .tokenizer = TOKENIZER_CHARACTERS, .missing = MISSING_DROP},
              {.dtype = F32, .tokens = TOKENS_MASK, .tokenizer = TOKENIZER_BYTES}};
enum { NWANTED = sizeof wanted / sizeof *wanted, NNUMBERS = 4 /* the first ones: all columns are numbers that are there */ };

/* What reading it came to. */
typedef struct Seen {
    bool ok;
    int64_t count, nread;
    double element[MOST_ROWS * WIDTH];
} Seen;

static void see_rows(Rows *rows, DType dtype, Seen *seen, Error *error) {
    int64_t row[MOST_ROWS], last = rows_count(rows) - 1;
    int n = 0;
    while (n < MOST_ROWS - 1 && n < last)
        row[n] = n, n++;
    row[n++] = last;
    Figures figures = {0};
    seen->ok = !rows_need_figures(rows) || rows_find_figures(rows, row, n, &figures, error);
    if (figures.n > 0) rows_set_figures(rows, &figures);
    seen->ok = seen->ok && rows_hold(rows, row, n, error);
    for (int i = 0; seen->ok && i < n; i++) {
        double elements[WIDTH]; /* room for any type */
        seen->ok = rows_read(rows, row[i], 0, 0, WIDTH, elements, error);
        for (int k = 0; seen->ok && k < WIDTH; k++)
            seen->element[seen->nread++] = element_at(elements, dtype, k);
    }
    figures_finish(&figures);
}

static void see(const char *path, FileFormat format, const struct Wanted *want, Seen *seen) {
    RowFile file = {.format = format,
                    .path = path,
                    .input = "x",
                    .row = {.ndim = 1, .dim = {WIDTH}},
                    .offset = -1,
                    .dtype = want->dtype,
                    .range = want->range,
                    .missing = want->missing,
                    .change = want->change,
                    .tokens = format == FILE_CSV ? want->tokens : TOKENS_NONE,
                    .tokenizer = want->tokenizer,
                    .vocabulary = "0123456789.,abc\xC3\xA9",
                    .first = want->first,
                    .rows = want->rows,
                    .first_column = want->first_column};
    Error error = {0};
    *seen = (Seen){0};
    Rows *rows = rows_open(&file, &error);
    if (rows) {
        seen->count = rows_count(rows);
        require(seen->count > 0, "rows_open: accepted without rows");
        see_rows(rows, want->dtype, seen, &error);
    }
    if (!seen->ok) require_error(&error, path);
    rows_close(rows);
}

/* As prun reads it: two epochs in two orders, one batch ahead, as a rank that has half of the batch. */
static void try_source(const char *path, FileFormat format) {
    enum { BATCH = 4, MOST_STEPS = 8 };
    Arena arena;
    Graph graph;
    Error error = {0};
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph_add_input(
        &graph, (Input){.name = "x", .type = {F32, false, {2, {BATCH, WIDTH}}}, .file = {.format = format, .path = path, .offset = -1}});
    graph.settings.data = DATA_FILES;
    graph.settings.shuffle = true;
    graph.settings.last = LAST_PAD;
    graph.settings.epochs = 2;
    DataSource *data = data_open(&graph, NULL, NULL, 1, false, &error);
    float half[BATCH / 2 * WIDTH];
    Box box = {.ndim = 2, .begin = {0, 0}, .end = {BATCH / 2, WIDTH}};
    int take = data ? data_take(data, 0, 0, &box) : 0;
    bool ok = data != NULL;
    for (int64_t epoch = 1; ok && epoch <= 2; epoch++)
        for (int64_t step = 1; ok && step <= data_steps(data) && step <= MOST_STEPS; step++)
            ok = data_fill(data, take, epoch, step, half, &error);
    if (!ok) require_error(&error, path);
    data_close(data);
    arena_finish(&arena);
}

bool try_rows(FileFormat format, const unsigned char *bytes, size_t n) {
    bool is_packed = n > 1 && bytes[0] == 0x1f && bytes[1] == 0x8b, any = false;
    Seen plain[NWANTED], packed;
    char path[FUZZ_PATH];
    file_put(path, bytes, n, false);
    for (int i = 0; i < NWANTED; i++) {
        see(path, format, &wanted[i], &plain[i]);
        any |= plain[i].ok && i < NNUMBERS;
    }
    try_source(path, format);
    unlink(path);
    if (is_packed || n == 0) return any;
    file_put(path, bytes, n, true);
    for (int i = 0; i < NWANTED; i++) {
        see(path, format, &wanted[i], &packed);
        require(packed.ok == plain[i].ok, "compressed it is read otherwise");
        require(!packed.ok || (packed.count == plain[i].count && packed.nread == plain[i].nread), "compressed it has other rows");
        require(!packed.ok || memcmp(packed.element, plain[i].element, (size_t)packed.nread * sizeof *packed.element) == 0,
                "compressed it has other elements");
    }
    unlink(path);
    return any;
}
