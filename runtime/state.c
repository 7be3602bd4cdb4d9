/* state: initial values. Element i (its row-major position in the whole tensor) of a random state is computed from (seed, name, i) alone, by
 * the generator of data/random.c, which makes two elements at a time: 2p and 2p + 1. */
#include <string.h>

#include "ir/lookup.h"
#include "runtime/data/data.h"
#include "runtime/data/drawn.h"
#include "runtime/data/sampler.h"
#include "runtime/element.h"
#include "runtime/state.h"

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

static void fill_random(Fill *fill, uint64_t first, int64_t n) {
    const bool normal = fill->init->kind == INIT_NORMAL;
    const double a = fill->init->a, b = fill->init->b;
    Pool *none = NULL;
    const Drawn drawn = {.key = fill->key,
                         .first = first,
                         .normal = normal,
                         .from = normal ? 0 : a,
                         .by = normal ? a : b - a,
                         .dtype = fill->dtype,
                         .to = fill->to};
    drawn_fill(&drawn, n, 1, &none);
    fill->to += n * dtype_bytes[fill->dtype];
}

/* Fills elements [first, first + n) of the whole tensor. */
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
        fill_random(fill, (uint64_t)first, n);
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

static const char *kind_of(const State *state) {
    return state_is_const(state) ? "const" : "parameter";
}

/* Whether a state of this type can hold the number: a real type rounds it, any other must hold it exactly. */
static bool fits_type(double value, DType dtype) {
    switch (dtype) {
    case F32:
    case F64:
    case F16:
    case BF16:
        return true;
    case I32:
        return value >= INT32_MIN && value <= INT32_MAX && value == (double)(int32_t)value;
    case I64:
        return value >= -INDEX_MOST * 2.0 && value <= INDEX_MOST * 2.0 && value == (double)(int64_t)value; /* exact as a double */
    case BOOL:
        return value == 0 || value == 1;
    case NDTYPES:
        break;
    }
    return false;
}

/* The range that a state's values must lie in, where they are used as indices. */
static IndexRange range_of(const Graph *graph, const State *state) {
    if (state->type.dtype == I32 || state->type.dtype == I64)
        for (int n = 0; n < graph->nodes.n; n++)
            if (graph->nodes.at[n].op == OP_read && &graph->states.at[graph->nodes.at[n].state] == state)
                return graph_index_range(graph, graph->nodes.at[n].out[0], false);
    return (IndexRange){0};
}

/* "[2, 0]" of the element at this row-major position. */
static void put_place(Text *text, const Shape *shape, int64_t at) {
    int64_t index[MAX_NDIM];
    for (int d = shape->ndim - 1; d >= 0; at /= shape->dim[d--])
        index[d] = at % shape->dim[d];
    text_printf(text, "[");
    for (int d = 0; d < shape->ndim; d++)
        text_printf(text, d ? ", %lld" : "%lld", (long long)index[d]);
    text_printf(text, "]");
}

static bool check_elements(const Graph *graph, const State *state, const double *data, Error *error) {
    const int64_t n = shape_elements(&state->type.shape);
    const IndexRange range = range_of(graph, state);
    for (int64_t i = 0; i < n; i++) {
        bool fits = fits_type(data[i], state->type.dtype);
        if (fits && (!range_known(range) || (data[i] >= (double)range.begin && data[i] < (double)range.end))) continue;
        Text text = {0};
        text_printf(&text, "%s, element ", state->init.file);
        put_place(&text, &state->type.shape, i);
        if (fits)
            text_printf(&text, " is %.17g, and it is used as an index of %lld to %lld", data[i], (long long)range.begin,
                        (long long)range.end - 1);
        else
            text_printf(&text, " is %.17g, which is no %s", data[i], dtype_name[state->type.dtype]);
        error_set(error, EXIT_ENVIRONMENT, "%s %s: %.900s", kind_of(state), state->name, text.at);
        text_finish(&text);
        return false;
    }
    return true;
}

static bool fill_from_file(Fill *fill, const Graph *graph, const State *state, const Box *box, const char *plan_directory, Error *error) {
    Arena arena;
    arena_init(&arena);
    Shape shape;
    DType dtype;
    double *data;
    bool ok = npy_read(file_find(state->init.file, plan_directory, &arena), &arena, &shape, &dtype, &data, error);
    if (!ok) {
        error_prefix(error, "%s %s: ", kind_of(state), state->name);
    } else if (!shape_equal(&shape, &state->type.shape)) {
        Text text = {0};
        shape_print(&text, &shape);
        text_printf(&text, ", the %s is ", kind_of(state));
        shape_print(&text, &state->type.shape);
        ok = error_set(error, EXIT_ENVIRONMENT, "%s %s: the shape in %s is %s", kind_of(state), state->name, state->init.file, text.at);
        text_finish(&text);
    } else if ((ok = check_elements(graph, state, data, error))) {
        fill->whole = data;
        fill_box(fill, &state->type.shape, box);
    }
    arena_finish(&arena);
    return ok;
}

bool state_initial(const Graph *graph, const State *state, const Box *box, const char *plan_directory, void *data, Error *error) {
    /* An average begins as its parameter does. */
    const char *name = state_is_own(state) ? state->name : graph->states.at[state->parameter].name;
    Fill fill = {&state->init, random_key(graph->settings.seed, name), state->init.data, state->type.dtype, data};
    if (state->init.kind == INIT_FILE) return fill_from_file(&fill, graph, state, box, plan_directory, error);
    if (state->init.kind == INIT_LITERAL && !state->init.data)
        return error_set(error, EXIT_REJECTED, "parameter %s: the plan has no initial value for it", state->name);
    fill_box(&fill, &state->type.shape, box);
    return true;
}
