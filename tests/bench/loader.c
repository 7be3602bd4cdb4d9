/* How fast rows of files come: an epoch of whole batches, from opening the file on, by one process that does nothing else.
 *   loader csv FILE COLUMNS [THREADS] | text FILE VOCABULARY | pictures FILE      a line of JSON: rows, seconds of opening, of the first epoch and of the second, and processor time of the second */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/data/data.h"

static bool read_epoch(DataSource *data, int ntakes, char *const *to, int64_t epoch, Error *error) {
    for (int64_t step = 1; step <= data_steps(data); step++)
        for (int t = 0; t < ntakes; t++)
            if (!data_fill(data, t, epoch, step, to[t], error)) return false;
    return true;
}

static void add(Graph *graph, const char *name, DType dtype, Shape shape, DataFile file) {
    file.offset = -1;
    graph_add_input(graph, (Input){.name = name, .type = {dtype, false, shape}, .file = file});
}

int main(int argc, char **argv) {
    enum { BATCH = 128, PLACES = 128, SIDE = 32, MOST_INPUTS = 2 };
    if (argc < 3) return fprintf(stderr, "usage: loader csv FILE COLUMNS [THREADS] | text FILE VOCABULARY | pictures FILE\n"), 2;
    Arena arena;
    Graph graph;
    Error error = {0};
    char *to[MOST_INPUTS] = {NULL};
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph.settings.data = DATA_FILES;
    graph.settings.epochs = 2;
    graph.settings.shuffle = true;
    if (strcmp(argv[1], "csv") == 0) {
        add(&graph, "x", F32, (Shape){2, {BATCH, strtoll(argc > 3 ? argv[3] : "1", NULL, 10)}},
            (DataFile){.format = FILE_CSV, .path = argv[2]});
    } else if (strcmp(argv[1], "text") == 0) {
        DataFile file = {
            .format = FILE_CSV, .path = argv[2], .heading = "text", .tokens = TOKENS_IDS, .vocabulary = argc > 3 ? argv[3] : ""};
        add(&graph, "ids", I32, (Shape){2, {BATCH, PLACES}}, file);
        file.tokens = TOKENS_MASK;
        add(&graph, "mask", F32, (Shape){2, {BATCH, PLACES}}, file);
    } else {
        DataFile file = {
            .format = FILE_CIFAR10, .path = argv[2], .picture = {.pad = 4, .crop = {SIDE, SIDE}, .flip = true, .random = true}};
        file.change = (RowChange){.scale = 1.0 / 255, .nmeans = 3, .mean = {0.49, 0.48, 0.45}, .deviation = {0.2, 0.2, 0.2}};
        add(&graph, "image", F32, (Shape){4, {BATCH, 3, SIDE, SIDE}}, file);
        file.picture = (PictureChange){.label = true};
        file.change = (RowChange){0};
        add(&graph, "label", I32, (Shape){1, {BATCH}}, file);
    }
    const int threads = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 1;
    const double begin = now_seconds();
    DataSource *data = data_open(&graph, NULL, NULL, threads, false, &error);
    for (int i = 0; data && i < graph.inputs.n; i++) {
        const TensorType *type = &graph.inputs.at[i].type;
        Box box = {.ndim = type->shape.ndim};
        memcpy(box.end, type->shape.dim, sizeof box.end);
        to[data_take(data, 0, i, &box)] = arena_alloc(&arena, (size_t)(shape_elements(&type->shape) * dtype_bytes[type->dtype]));
    }
    const double opened = now_seconds();
    bool ok = data && read_epoch(data, graph.inputs.n, to, 1, &error);
    const double once = now_seconds();
    const clock_t begun = clock();
    ok = ok && read_epoch(data, graph.inputs.n, to, 2, &error);
    if (ok)
        printf("{\"rows\": %lld, \"open_s\": %.6f, \"first_s\": %.6f, \"second_s\": %.6f, \"second_cpu_s\": %.6f}\n",
               (long long)(data_steps(data) * BATCH), opened - begin, once - opened, now_seconds() - once,
               (double)(clock() - begun) / CLOCKS_PER_SEC);
    else
        fprintf(stderr, "loader: %s\n", error.text);
    data_close(data);
    arena_finish(&arena);
    return ok ? 0 : 1;
}
