/* numbers: inputs of random numbers that the net itself has (random(x), dropout): which number of the generator each element is. */
#include "runtime/data/drawn.h"
#include "runtime/data/source.h"

void numbers_begin(const DataSource *data, int id, int64_t batch, Numbers *numbers) {
    const Graph *graph = data->graph;
    const Input *input = &graph->inputs.at[id];
    const Shape *shape = &input->type.shape;
    const bool replicas = input->type.hidden && input->row_dim > 0; /* replicas' rows are consecutive, as those of one replica */
    int64_t stride = 1;
    *numbers = (Numbers){.key = random_key(graph->settings.seed, graph->inputs.at[input->micro > 0 ? input->of : id].name),
                         .first = (uint64_t)batch * (uint64_t)shape_elements(shape),
                         .ndim = shape->ndim,
                         .row_dim = input->row_dim - 1,
                         .replica_rows = 0,
                         .row_length = 1,
                         .share = data->batch,
                         .world = 1};
    for (int d = shape->ndim - 1; d >= 0; d--) {
        numbers->stride[d] = replicas && d == 0 ? 0 : stride;
        stride *= shape->dim[d] * (replicas && d == numbers->row_dim ? shape->dim[0] : 1);
    }
    if (numbers->row_dim < 0) return;
    const int64_t rows = data->batch / (replicas ? shape->dim[0] : 1); /* of a replica */
    numbers->row_length = shape->dim[numbers->row_dim] / rows;
    if (replicas) numbers->replica_rows = rows;
    if (data->sampler.world > 0) {
        numbers->world = data->sampler.world;
        numbers->share = data->batch / numbers->world;
    }
}

uint64_t numbers_at(const Numbers *numbers, const int64_t *index) {
    uint64_t number = numbers->first;
    for (int d = 0; d < numbers->ndim; d++)
        if (d != numbers->row_dim) number += (uint64_t)(index[d] * numbers->stride[d]);
    if (numbers->row_dim < 0) return number;
    const int64_t at = index[numbers->row_dim], length = numbers->row_length;
    const int64_t row = sampler_place(numbers->share, numbers->world, index[0] * numbers->replica_rows + at / length);
    return number + (uint64_t)((row * length + at % length) * numbers->stride[numbers->row_dim]);
}

void numbers_fill(DataSource *data, const Take *take, int64_t batch, void *to) {
    const TensorType *type = &data->graph->inputs.at[take->input].type;
    Numbers numbers;
    numbers_begin(data, take->input, batch, &numbers);
    /* The outer dimensions are iterated index by index: along the others, neighbours in the tensor are neighbours in the sequence. */
    const bool in_order = numbers.world == 1 && (!type->hidden || numbers.row_dim <= 1);
    const int outer = in_order ? 0 : numbers.row_dim + 1;
    Shape shape = {.ndim = type->shape.ndim - outer};
    Box box = {.ndim = shape.ndim};
    int64_t index[MAX_NDIM] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dim[d] = type->shape.dim[outer + d];
        box.begin[d] = take->box.begin[outer + d];
        box.end[d] = take->box.end[outer + d];
    }
    for (int d = 0; d < outer; d++)
        index[d] = take->box.begin[d];
    for (bool more = box_elements(&take->box) > 0; more;) {
        BoxRuns runs = box_runs(&shape, &box);
        for (int64_t first; box_next_run(&runs, &first); to = (char *)to + runs.length * dtype_bytes[type->dtype])
            drawn_fill(
                &(Drawn){
                    .key = numbers.key, .first = numbers_at(&numbers, index) + (uint64_t)first, .by = 1, .dtype = type->dtype, .to = to},
                runs.length, data->threads, &data->pool);
        more = false;
        for (int d = outer - 1; d >= 0 && !more; d--) {
            more = ++index[d] < take->box.end[d];
            if (!more) index[d] = take->box.begin[d];
        }
    }
}
