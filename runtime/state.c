/* state: initial values. Element i (its row-major position in the whole tensor) of a random one is computed from (seed, name, i) alone, by
 * the generator of data/random.c, which makes two elements at a time: 2p and 2p + 1. */
#include <string.h>

#include "runtime/data/data.h"

/* ---------------------------------------------------------------- filling a box */

typedef struct Fill {
    const Init *init;
    uint64_t key;
    const double *whole; /* literal or file */
    DType dtype;
    char *to; /* next element */
} Fill;

static void put(Fill *fill, double value) {
    element_put(fill->to, fill->dtype, 0, value);
    fill->to += dtype_bytes[fill->dtype];
}

/* Elements [first, first + n) of the whole tensor. */
static void fill_run(Fill *fill, int64_t first, int64_t n) {
    switch (fill->init->kind) {
    case INIT_ZEROS:
        memset(fill->to, 0, (size_t)n * (size_t)dtype_bytes[fill->dtype]);
        fill->to += n * dtype_bytes[fill->dtype];
        return;
    case INIT_ONES:
        for (int64_t i = 0; i < n; i++)
            put(fill, 1);
        return;
    case INIT_NORMAL:
    case INIT_UNIFORM:
        for (int64_t i = first; i < first + n; i++) {
            double pair[2];
            if (fill->init->kind == INIT_NORMAL)
                random_normal_pair(fill->key, (uint64_t)i / 2, fill->init->a, pair);
            else
                random_uniform_pair(fill->key, (uint64_t)i / 2, fill->init->a, fill->init->b, pair);
            put(fill, pair[i % 2]);
            if (i % 2 == 0 && i + 1 < first + n) put(fill, pair[1]), i++;
        }
        return;
    case INIT_LITERAL:
    case INIT_FILE:
        for (int64_t i = first; i < first + n; i++)
            put(fill, fill->whole[i]);
        return;
    }
}

static void fill_box(Fill *fill, const Shape *shape, const Box *box) {
    BoxRuns runs = box_runs(shape, box);
    for (int64_t first; box_next_run(&runs, &first);)
        fill_run(fill, first, runs.length);
}

static bool fill_from_file(Fill *fill, const State *state, const Box *box, const char *plan_directory, Error *error) {
    Arena arena;
    arena_init(&arena);
    Shape shape;
    DType dtype;
    double *data;
    Error failure;
    bool ok = npy_read(file_find(state->init.file, plan_directory, &arena), &arena, &shape, &dtype, &data, &failure);
    if (!ok) {
        error_set(error, failure.code, "parameter %s: %.900s", state->name, failure.text);
    } else if (!shape_equal(&shape, &state->type.shape)) {
        Text text = {0};
        shape_print(&text, &shape);
        text_printf(&text, ", the parameter is ");
        shape_print(&text, &state->type.shape);
        ok = error_set(error, EXIT_ENVIRONMENT, "parameter %s: the shape in %s is %s", state->name, state->init.file, text.at);
        text_finish(&text);
    } else {
        fill->whole = data;
        fill_box(fill, &state->type.shape, box);
    }
    arena_finish(&arena);
    return ok;
}

bool state_initial(const Graph *graph, const State *state, const Box *box, const char *plan_directory, void *data, Error *error) {
    Fill fill = {&state->init, random_key(graph->settings.seed, state->name), state->init.data, state->type.dtype, data};
    if (state->init.kind == INIT_FILE) return fill_from_file(&fill, state, box, plan_directory, error);
    if (state->init.kind == INIT_LITERAL && !state->init.data)
        return error_set(error, EXIT_REJECTED, "parameter %s: the plan has no initial value for it", state->name);
    fill_box(&fill, &state->type.shape, box);
    return true;
}
