/* index: see index.h. */
#include "runtime/index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/metric.h"

/* ---------------------------------------------------------------- writing */

bool index_keeps(const State *state, bool all_states) {
    return state_is_own(state) || (all_states && !state_is_const(state));
}

static void describe_number(TensorFile *file, Arena *arena, const char *key, int64_t value) {
    vec_push(arena, &file->metadata, (Metadata){key, arena_printf(arena, "%" PRId64, value)});
}

static const char *const watched_key[NWATCHES] = {"pcc.best", "pcc.early_stop"};

/* "f1_macro 220 0x1.9p-1 2" */
static void describe_watched(TensorFile *file, Arena *arena, const Position *position) {
    for (int kind = 0; kind < NWATCHES; kind++) {
        const Watched *watched = &position->watched[kind];
        if (!watched->metric) continue;
        const char *text =
            arena_printf(arena, "%s %" PRId64 " %a %" PRId64, watched->metric, watched->step, watched->value, watched->waited);
        vec_push(arena, &file->metadata, (Metadata){watched_key[kind], text});
    }
}

void index_describe(TensorFile *file, Arena *arena, const Graph *graph, uint64_t net_hash, bool all_states, const Position *position,
                    const DataOrder *order) {
    vec_push(arena, &file->metadata, (Metadata){"pcc.net", arena_printf(arena, "%016" PRIx64, net_hash)});
    if (all_states) {
        describe_number(file, arena, "pcc.epoch", position->epoch);
        describe_number(file, arena, "pcc.step", position->step);
        describe_number(file, arena, "pcc.global_step", position->global_step);
        describe_watched(file, arena, position);
        vec_push(arena, &file->metadata, (Metadata){"pcc.order", arena_copy(arena, order->words, strlen(order->words))});
        describe_number(file, arena, "pcc.epoch_steps", order->steps);
        describe_number(file, arena, "pcc.step_rows", order->step_rows);
    }
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        if (index_keeps(state, all_states))
            vec_push(arena, &file->tensors, (StoredTensor){.name = state->name, .dtype = state->type.dtype, .shape = state->type.shape});
    }
}

/* ---------------------------------------------------------------- reading */

bool index_find(const TensorFile *file, const State *state, int *tensor, Error *error) {
    *tensor = tensors_find(file, state->name);
    for (int i = 0; *tensor < 0 && i < file->unread.n; i++)
        if (strcmp(file->unread.at[i], state->name) == 0)
            return error_set(error, EXIT_ENVIRONMENT,
                             "%s: '%s' is of a type that prun does not read: it reads F64, F32, F16, BF16, I64, I32 and BOOL", file->path,
                             state->name);
    if (*tensor < 0) {
        if (!state_is_own(state))
            return error_set(error, EXIT_ENVIRONMENT, "%s: has no '%s': it was taken %s; --load takes its parameters alone", file->path,
                             state->name,
                             strcmp(state->name, "optimizer.loss_scale") == 0 ? "without precision = f16, which has a scale of the loss"
                                                                              : "with another optimizer");
        const char **names = malloc(((size_t)file->tensors.n + 1) * sizeof *names);
        for (int i = 0; names && i < file->tensors.n; i++)
            names[i] = file->tensors.at[i].name;
        const char *near = names ? name_nearest(state->name, names, file->tensors.n) : NULL;
        free(names);
        return error_set(error, EXIT_ENVIRONMENT, "%s: has no '%s'%s%s%s", file->path, state->name, near ? "; did you mean " : "",
                         near ? near : "", near ? "?" : "");
    }
    if (shape_equal(&file->tensors.at[*tensor].shape, &state->type.shape)) return true;
    Text text = {0};
    shape_print(&text, &file->tensors.at[*tensor].shape);
    text_printf(&text, ", and the net's is ");
    shape_print(&text, &state->type.shape);
    error_set(error, EXIT_ENVIRONMENT, "%s: the shape of '%s' is %s", file->path, state->name, text.at);
    text_finish(&text);
    return false;
}

static bool no_checkpoint(const TensorFile *file, const char *key, Error *error) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: no checkpoint: it does not say where training stood (%s); --load takes its parameters",
                     file->path, key);
}

static const int64_t most_number = INT64_C(1) << 53; /* limit of all numbers in a header, so that counting on from them does not overflow */

static bool read_number(const TensorFile *file, const char *key, int64_t least, int64_t *value, Error *error) {
    const char *text = tensors_metadata(file, key);
    char *end = NULL;
    errno = 0;
    if (text) *value = strtoll(text, &end, 10);
    return (text && end != text && *end == '\0' && errno == 0 && *value >= least && *value <= most_number) ||
           no_checkpoint(file, key, error);
}

static bool read_order(const TensorFile *file, DataOrder *order, Error *error) {
    static const struct {
        const char *word;
        DataFlow flow;
    } beginnings[] = {{"rows ", FLOW_EPOCHS}, {"generated ", FLOW_ENDLESS}, {"the same ", FLOW_SAME}};
    const char *words = tensors_metadata(file, "pcc.order");
    for (size_t i = 0; words && i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(words, beginnings[i].word, strlen(beginnings[i].word)) == 0 && strlen(words) < sizeof order->words) {
            order->flow = beginnings[i].flow;
            strcpy(order->words, words);
            text_printable(order->words);
            return true;
        }
    return no_checkpoint(file, "pcc.order", error);
}

static bool read_watched(const TensorFile *file, const char *key, Watched *watched, Error *error) {
    const char *text = tensors_metadata(file, key);
    char metric[32];
    int end = -1, which = 0;
    *watched = (Watched){0};
    if (!text) return true;
    if (sscanf(text, "%31s %" SCNd64 " %la %" SCNd64 "%n", metric, &watched->step, &watched->value, &watched->waited, &end) != 4 ||
        text[end])
        return no_checkpoint(file, key, error);
    while (which <= NMETRICS && strcmp(reported_name[which], metric) != 0)
        which++;
    if (which > NMETRICS || watched->step < 0 || watched->step > most_number || watched->waited < 0 || watched->waited > most_number)
        return no_checkpoint(file, key, error);
    watched->metric = reported_name[which];
    return true;
}

bool index_read(const TensorFile *file, Position *position, DataOrder *order, Error *error) {
    int64_t rows;
    for (int kind = 0; kind < NWATCHES; kind++)
        if (!read_watched(file, watched_key[kind], &position->watched[kind], error)) return false;
    bool ok = read_number(file, "pcc.epoch", 1, &position->epoch, error) &&
              read_number(file, "pcc.global_step", 0, &position->global_step, error) &&
              read_number(file, "pcc.step", position->global_step > 0, &position->step, error) && /* 0: --import, nothing is done yet */
              read_number(file, "pcc.epoch_steps", 1, &order->steps, error) &&
              read_number(file, "pcc.step_rows", 1, &order->step_rows, error) && read_order(file, order, error);
    if (!ok) return false;
    const bool begun = position->global_step > 0 || (position->epoch == 1 && position->step == 0);
    bool fits = begun && position->step <= order->steps && mul_checked(order->steps, order->step_rows, &rows) &&
                mul_checked(rows, position->epoch, &rows);
    return fits || error_set(error, EXIT_ENVIRONMENT,
                             "%s: damaged: step %" PRId64 " of epoch %" PRId64 ", and an epoch has %" PRId64 " steps of %" PRId64 " rows",
                             file->path, position->step, position->epoch, order->steps, order->step_rows);
}

/* ---------------------------------------------------------------- other batches */

static const char load_hint[] = "--load takes its parameters alone";

static bool convert_same(Position *position, const DataOrder *then, const DataOrder *now, const char *path, Error *error) {
    if (position->step == then->steps) position->step = now->steps;
    if (position->step <= now->steps) return true;
    return error_set(error, EXIT_ENVIRONMENT,
                     "%s: it stands at epoch %" PRId64 " step %" PRId64 ", and an epoch has %" PRId64 " steps now; %s", path,
                     position->epoch, position->step, now->steps, load_hint);
}

static bool other_rows(const DataOrder *then, const DataOrder *now, const char *path, const char *hint, Error *error) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: it was taken within an epoch of %s, and now they are %s: resume with that data%s; %s",
                     path, then->words, now->words, hint, load_hint);
}

/* The error that `rows` done in `what` are no whole number of steps. */
static bool between_steps(int64_t rows, const char *what, const DataOrder *then, const DataOrder *now, const char *path, const char *hint,
                          Error *error) {
    return error_set(error, EXIT_ENVIRONMENT,
                     "%s: it stands behind row %" PRId64 " of %s, in steps of %" PRId64 " rows, and steps of %" PRId64
                     " rows do not come to stand there: resume with a batch that divides %" PRId64 "%s; %s",
                     path, rows, what, then->step_rows, now->step_rows, rows, hint, load_hint);
}

static bool convert_epochs(Position *position, const DataOrder *then, const DataOrder *now, const char *path, Error *error) {
    static const char hint[] = ", or from a checkpoint at the end of an epoch";
    if (position->step == then->steps) {
        position->step = now->steps;
        return true;
    }
    char epoch[32];
    int64_t rows = position->step * then->step_rows;
    if (strcmp(then->words, now->words) != 0) return other_rows(then, now, path, hint, error);
    snprintf(epoch, sizeof epoch, "epoch %" PRId64, position->epoch);
    if (rows % now->step_rows != 0) return between_steps(rows, epoch, then, now, path, hint, error);
    position->step = rows / now->step_rows;
    if (position->step <= now->steps) return true;
    return error_set(error, EXIT_ENVIRONMENT,
                     "%s: it stands behind row %" PRId64 " of %s, and an epoch has %" PRId64 " steps of %" PRId64 " rows now; %s", path,
                     rows, epoch, now->steps, now->step_rows, load_hint);
}

static bool convert_endless(Position *position, const DataOrder *then, const DataOrder *now, const char *path, Error *error) {
    int64_t rows = ((position->epoch - 1) * then->steps + position->step) * then->step_rows, steps = rows / now->step_rows;
    if (strcmp(then->words, now->words) != 0) return other_rows(then, now, path, "", error);
    if (rows % now->step_rows != 0) return between_steps(rows, "all", then, now, path, "", error);
    position->epoch = (steps - 1) / now->steps + 1;
    position->step = steps - (position->epoch - 1) * now->steps;
    return true;
}

bool position_convert(Position *position, const DataOrder *then, const DataOrder *now, const char *path, Error *error) {
    int64_t rows;
    if (position->global_step == 0) return true; /* --import: nothing is done yet */
    if (!mul_checked(position->epoch, now->steps, &rows) || !mul_checked(rows, now->step_rows, &rows))
        return error_set(error, EXIT_ENVIRONMENT,
                         "%s: it stands at epoch %" PRId64 ", which is too far for epochs of %" PRId64 " steps; %s", path, position->epoch,
                         now->steps, load_hint);
    if (then->flow != now->flow && position->step != then->steps) return other_rows(then, now, path, "", error);
    switch (now->steps > 0 && then->flow == now->flow ? now->flow : FLOW_SAME) {
    case FLOW_SAME:
        return convert_same(position, then, now, path, error);
    case FLOW_EPOCHS:
        return convert_epochs(position, then, now, path, error);
    case FLOW_ENDLESS:
        return convert_endless(position, then, now, path, error);
    }
    return false;
}
