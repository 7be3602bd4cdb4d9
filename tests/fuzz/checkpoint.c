/* What a checkpoint says of itself: any file is one of this net, whose states are then there and whose position another batch size takes over exactly, or is refused.
 * Where it has checksums, any byte of a state that is changed then is found. */
#include "runtime/checksum.h"
#include "runtime/index.h"
#include "tests/flip.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/file.h"

/* A net of two parameters and their momentum, f32 and f64. */
static void make_states(Graph *graph) {
    static const State states[] = {{.name = "w", .type = {F32, false, {2, {2, 3}}}, .parameter = 0, .trainable = true},
                                   {.name = "b", .type = {F64, false, {0}}, .parameter = 1, .trainable = true},
                                   {.name = "w.momentum", .type = {F32, false, {2, {2, 3}}}, .parameter = 0},
                                   {.name = "b.momentum", .type = {F64, false, {0}}, .parameter = 1}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        graph_add_state(graph, states[i]);
}

/* Every state whole, as a rank of one reads it, after its checksums. */
static bool read_states(const TensorFile *file, const Checksums *sums, const Graph *graph, bool all_states, Error *error) {
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        Box box = {.ndim = state->type.shape.ndim};
        double elements[6]; /* room for any type */
        int tensor;
        memcpy(box.end, state->type.shape.dim, sizeof box.end);
        int64_t damaged = -1;
        if (index_keeps(state, all_states) &&
            (!index_find(file, state, &tensor, error) || !checksums_compare(sums, file, tensor, 0, 1, &damaged, error) ||
             (damaged >= 0 && !checksums_say(sums, file, damaged, error)) ||
             !tensors_read(file, tensor, &box, state->type.dtype, elements, error)))
            return false;
    }
    return true;
}

/* Of two processes exactly one finds it, in the first, middle and last byte of each state of an intact file. */
static void require_found(const char *path, const TensorFile *file, const Checksums *sums, const Graph *graph) {
    for (int i = 0; i < graph->states.n; i++) {
        Error error = {0};
        int tensor;
        require(index_find(file, &graph->states.at[i], &tensor, &error), "a state is lost");
        const StoredTensor *stored = &file->tensors.at[tensor];
        const int64_t bytes = shape_elements(&stored->shape) * dtype_bytes[stored->dtype], places[] = {0, bytes / 2, bytes - 1};
        for (int p = 0; p < 3; p++) {
            int64_t damaged[2];
            require(file_flip(path, (off_t)(stored->begin + places[p]), 1), "a byte is not to be changed");
            require(checksums_compare(sums, file, tensor, 0, 2, &damaged[0], &error) &&
                        checksums_compare(sums, file, tensor, 1, 2, &damaged[1], &error),
                    "cannot be compared");
            require((damaged[0] < 0) != (damaged[1] < 0), "a changed byte is not found");
            require(!checksums_say(sums, file, damaged[damaged[0] < 0], &error), "nothing is said");
            require_error(&error, path);
            require(file_flip(path, (off_t)(stored->begin + places[p]), 1), "a byte is not to be changed");
        }
    }
}

/* Rows done since the first epoch; those of files since the epoch began. */
static int64_t rows_done(const Position *position, const DataOrder *order) {
    int64_t epochs = order->flow == FLOW_ENDLESS ? position->epoch - 1 : 0;
    return (epochs * order->steps + position->step) * order->step_rows;
}

static void try_convert(const Position *position, const DataOrder *then, const char *path) {
    static const DataOrder others[] = {
        {FLOW_EPOCHS, 8, 8, "rows 1 to 64 shuffled with seed 7"},    {FLOW_EPOCHS, 3, 16, "rows 1 to 64 shuffled with seed 7"},
        {FLOW_EPOCHS, 8, 8, "rows 1 to 64 in their order"},          {FLOW_ENDLESS, 5, 8, "generated rows, normal with seed 3"},
        {FLOW_ENDLESS, 7, 12, "generated rows, normal with seed 3"}, {FLOW_SAME, 5, 8, "the same batch in every step"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const DataOrder *now = &others[i];
        Position converted = *position;
        Error error = {0};
        if (!position_convert(&converted, then, now, path, &error)) {
            require_error(&error, path);
            continue;
        }
        require(converted.epoch >= 1 && converted.step >= 0 && converted.step <= now->steps, "a position outside of its epoch");
        require(converted.global_step == position->global_step, "other updates were done");
        bool at_end = position->step == then->steps && converted.step == now->steps && converted.epoch == position->epoch;
        if (position->global_step == 0) continue; /* nothing is done, of no rows */
        if (now->flow == FLOW_SAME || (at_end && (then->flow != FLOW_ENDLESS || now->flow != FLOW_ENDLESS))) continue;
        require(then->flow == now->flow && strcmp(then->words, now->words) == 0, "went on over other rows");
        require(rows_done(&converted, now) == rows_done(position, then), "left out rows or took some again");
    }
}

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    char path[FUZZ_PATH];
    Arena arena;
    Graph graph;
    TensorFile file;
    Position position;
    DataOrder order;
    Checksums sums;
    Error error = {0};
    arena_init(&arena);
    graph_init(&graph, &arena);
    make_states(&graph);
    file_put(path, bytes, n, false);
    bool opened = tensors_open(&file, &arena, path, &error) && checksums_open(&sums, &file, &arena, &error);
    bool loaded = opened && read_states(&file, &sums, &graph, false, &error);
    if (!loaded) require_error(&error, path);
    bool resumed = opened && index_read(&file, &position, &order, &error);
    if (opened && !resumed) require_error(&error, path);
    if (resumed) {
        Position same = position;
        require(position_convert(&same, &order, &order, path, &error) && same.epoch == position.epoch && same.step == position.step,
                "the same data moves the position");
        try_convert(&position, &order, path);
        bool read = read_states(&file, &sums, &graph, true, &error);
        if (!read) require_error(&error, path);
        if (read && sums.tensor >= 0) require_found(path, &file, &sums, &graph);
        resumed = read;
    }
    tensors_close(&file);
    unlink(path);
    arena_finish(&arena);
    return resumed ? ACCEPTED : REFUSED;
}
