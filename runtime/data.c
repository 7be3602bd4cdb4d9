/* data: what the inputs hold. numpy_rand is numpy's legacy generator, RandomState(seed).random_sample(): MT19937 (Matsumoto and Nishimura
 * 1998, init_genrand), two words a double, inputs in the order of their declaration. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* ---------------------------------------------------------------- MT19937 */

enum { MT_WORDS = 624, MT_SHIFT = 397 };

void mt19937_seed(Mt19937 *mt, uint32_t seed) {
    mt->word[0] = seed;
    for (uint32_t i = 1; i < MT_WORDS; i++)
        mt->word[i] = 1812433253u * (mt->word[i - 1] ^ mt->word[i - 1] >> 30) + i;
    mt->next = MT_WORDS;
}

static void mt19937_refill(Mt19937 *mt) {
    for (int i = 0; i < MT_WORDS; i++) {
        uint32_t y = (mt->word[i] & 0x80000000u) | (mt->word[(i + 1) % MT_WORDS] & 0x7fffffffu);
        mt->word[i] = mt->word[(i + MT_SHIFT) % MT_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    mt->next = 0;
}

static uint32_t mt19937_word(Mt19937 *mt) {
    if (mt->next == MT_WORDS) mt19937_refill(mt);
    uint32_t y = mt->word[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double mt19937_double(Mt19937 *mt) {
    uint32_t a = mt19937_word(mt) >> 5, b = mt19937_word(mt) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

/* ---------------------------------------------------------------- sources */

struct DataSource {
    const Graph *graph;
    Arena arena;
    const double **drawn; /* numpy_rand: per input, `rows` rows without the hidden dimension */
    int64_t *rows;        /* per input */
};

/* The shape without the hidden dimension. */
static Shape own_shape(const TensorType *type) {
    Shape shape = {.ndim = type->shape.ndim - type->hidden};
    memcpy(shape.dim, type->shape.dim + type->hidden, (size_t)shape.ndim * sizeof shape.dim[0]);
    return shape;
}

/* Rows of an input that are drawn. */
static int64_t drawn_rows(const Graph *graph, const Shape *shape) {
    int64_t batch = shape->ndim ? shape->dim[0] : 1, wanted = graph->settings.data_rows;
    return wanted > 0 && wanted < batch ? wanted : batch;
}

static void draw(DataSource *data) {
    const Graph *graph = data->graph;
    Mt19937 *mt = arena_alloc(&data->arena, sizeof *mt);
    mt19937_seed(mt, (uint32_t)graph->settings.data_seed);
    data->drawn = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->drawn);
    data->rows = arena_alloc(&data->arena, (size_t)graph->inputs.n * sizeof *data->rows);
    for (int i = 0; i < graph->inputs.n; i++) {
        Shape shape = own_shape(&graph->inputs.at[i].type);
        int64_t batch = shape.ndim ? shape.dim[0] : 1;
        data->rows[i] = drawn_rows(graph, &shape);
        int64_t n = data->rows[i] * (batch ? shape_elements(&shape) / batch : 0);
        double *drawn = arena_alloc(&data->arena, (size_t)n * sizeof *drawn);
        for (int64_t k = 0; k < n; k++)
            drawn[k] = mt19937_double(mt);
        data->drawn[i] = drawn;
    }
}

double data_bytes(const Graph *graph) {
    double bytes = 0;
    for (int i = 0; graph->settings.data == DATA_NUMPY_RAND && i < graph->inputs.n; i++) {
        Shape shape = own_shape(&graph->inputs.at[i].type);
        if (shape.ndim > 0) shape.dim[0] = drawn_rows(graph, &shape);
        bytes += (double)shape_elements(&shape) * sizeof(double);
    }
    return bytes;
}

DataSource *data_open(const Graph *graph, Error *error) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        bool has = graph->settings.data == DATA_NUMPY_RAND || (graph->settings.data == DATA_PER_RANK && input->per_rank);
        if (has) continue;
        error_set(error, EXIT_REJECTED, "input %s has no data: give the train block a data source", input->name);
        return NULL;
    }
    DataSource *data = calloc(1, sizeof *data);
    if (!data) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    data->graph = graph;
    arena_init(&data->arena);
    if (graph->settings.data == DATA_NUMPY_RAND) draw(data);
    return data;
}

/* Element of the whole input at a multi-index. */
static double element(const DataSource *data, int input, const int64_t *index) {
    const Input *in = &data->graph->inputs.at[input];
    const Shape *shape = &in->type.shape;
    bool is_drawn = data->drawn != NULL;
    int first = is_drawn ? in->type.hidden : 0; /* drawn: every replica has the same */
    int64_t at = 0;
    for (int d = first; d < shape->ndim; d++)
        at = at * shape->dim[d] + (is_drawn && d == first ? index[d] % data->rows[input] : index[d]);
    return is_drawn ? data->drawn[input][at] : in->per_rank[at];
}

bool data_fill(DataSource *data, int input, int64_t epoch, int64_t step, const Box *box, void *to, Error *error) {
    (void)epoch, (void)step;
    if (input < 0 || input >= data->graph->inputs.n) return error_set(error, EXIT_INTERNAL, "there is no input %d", input);
    int64_t index[MAX_NDIM];
    memcpy(index, box->begin, sizeof index);
    for (int64_t i = 0, n = box_elements(box); i < n; i++) {
        element_put(to, data->graph->inputs.at[input].type.dtype, i, element(data, input, index));
        for (int d = box->ndim - 1; d >= 0 && ++index[d] == box->end[d]; d--)
            index[d] = box->begin[d];
    }
    return true;
}

/* All of today's sources give the same batch at every step. */
bool data_changes(const DataSource *data) {
    (void)data;
    return false;
}

void data_close(DataSource *data) {
    if (!data) return;
    arena_finish(&data->arena);
    free(data);
}
