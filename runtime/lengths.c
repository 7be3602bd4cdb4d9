/* lengths: a program for the longest texts, and others for shorter ones. All have the same states, and take the beginnings of the texts from the data source of the longest.
 *
 * When an epoch begins, each process counts the tokens of its rows, and all agree on the program of each step: the one for the shortest texts that the step's rows fit into on all ranks. So a
 * step needs no further communication, and the source prepares the right boxes ahead. The executor for the longest keeps the counts of updates, and whether a loss was not finite:
 * another executor gets them before its step, and they are taken back after it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec.h"

enum { MOST_OTHERS = 15, STEPS_A_WORD = 16 }; /* four bits per step */

struct Lengths {
    int n;
    Executor *other[MOST_OTHERS];   /* in the order of the plan; other[i] is group i + 1 of the data */
    int64_t places[MOST_OTHERS];    /* of their texts */
    bool *texts;                    /* per input: it is one */
    Executor *now;                  /* of the step that was chosen last */
    int64_t epoch;                  /* the one whose groups are known; 0: none */
    unsigned char *group;           /* per step of it: the group that does it */
    int64_t steps[MOST_OTHERS + 1]; /* done, by group */
};

int lengths_count(const Executor *executor) {
    return executor->lengths ? executor->lengths->n : 0;
}

Executor *lengths_at(const Executor *executor, int i) {
    return executor->lengths->other[i];
}

Executor *lengths_now(const Executor *executor) {
    return executor->lengths ? executor->lengths->now : (Executor *)executor;
}

/* Inputs of data of which a program for shorter texts takes less are texts; *places: the least that it takes of any. False: its inputs do not fit. */
static bool find_texts(const Graph *longest, const Graph *graph, bool *texts, int64_t *places) {
    if (graph->inputs.n != longest->inputs.n) return false;
    *places = INT64_MAX;
    for (int i = 0; i < graph->inputs.n; i++) {
        const TensorType *own = &graph->inputs.at[i].type, *of = &longest->inputs.at[i].type;
        if (own->shape.ndim != of->shape.ndim || own->dtype != of->dtype || graph->inputs.at[i].kind != longest->inputs.at[i].kind)
            return false;
        for (int d = 0; d < own->shape.ndim; d++) {
            if (own->shape.dim[d] > of->shape.dim[d]) return false;
            if (own->shape.dim[d] == of->shape.dim[d] || graph->inputs.at[i].kind != INPUT_DATA) continue;
            texts[i] = true;
            if (own->shape.dim[d] < *places) *places = own->shape.dim[d];
        }
    }
    return *places < INT64_MAX;
}

bool lengths_open(Executor *executor, const Device *device, Error *error) {
    const Plan *plan = executor->plan;
    const int program = (int)(executor->program - plan->programs.at), n = plan_shorter(plan, program);
    if (n == 0) return true;
    if (n > MOST_OTHERS) return error_set(error, EXIT_REJECTED, "program %s has %d programs for shorter texts", executor->program->name, n);
    struct Lengths *lengths = executor->lengths = arena_alloc(&executor->arena, sizeof *lengths);
    lengths->now = executor;
    lengths->texts = arena_alloc(&executor->arena, (size_t)plan->graph.inputs.n + 1);
    lengths->group = arena_alloc(&executor->arena, (size_t)executor_steps(executor) + 1);
    for (int k = 0; k < n; k++) {
        Plan *part = arena_alloc(&executor->arena, sizeof *part);
        *part = plan_part(plan, program + k + 1);
        if (!find_texts(&plan->graph, &part->graph, lengths->texts, &lengths->places[k]))
            return error_set(error, EXIT_REJECTED, "program %s takes other inputs than program %s", part->programs.at[0].name,
                             executor->program->name);
        Executor *other = executor_create_over(part, part->programs.at[0].name, executor, device, executor->comm, executor->plan_directory,
                                               executor->nthreads, error);
        if (!other) return false;
        lengths->other[lengths->n++] = other;
    }
    return true;
}

void lengths_close(Executor *executor) {
    for (int k = 0; k < lengths_count(executor); k++)
        executor_destroy(executor->lengths->other[k]);
}

/* The group for the shortest texts with room for so many tokens: 0 is that for the longest. */
static int group_for(const struct Lengths *lengths, int32_t tokens) {
    int group = 0;
    for (int k = 0; k < lengths->n; k++)
        if (lengths->places[k] >= tokens && (group == 0 || lengths->places[k] < lengths->places[group - 1])) group = k + 1;
    return group;
}

/* Agrees on the program of each step: each process sends which program its own rows need (`most` tokens), and the one for the longest texts among these is taken. */
static bool agree(Executor *executor, const int32_t *most, Error *error) {
    struct Lengths *lengths = executor->lengths;
    Comm *comm = executor->comm;
    const int64_t steps = executor_steps(executor);
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    if (!comm_agree(comm, words || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error)) return free(words), false;
    bool ok = true;
    for (int64_t first = 0; ok && first < steps; first += STEPS_A_WORD) {
        uint64_t own = 0;
        for (int64_t s = first; s < steps && s < first + STEPS_A_WORD; s++)
            own |= (uint64_t)group_for(lengths, most[s]) << 4 * (s - first);
        ok = comm->table->all_gather_words(comm, own, words, error);
        for (int64_t s = first; ok && s < steps && s < first + STEPS_A_WORD; s++) {
            int group = (int)(own >> 4 * (s - first) & 15);
            for (int p = 0; p < comm->nprocesses; p++) {
                const int other = (int)(words[p] >> 4 * (s - first) & 15);
                if (group != 0 && (other == 0 || lengths->places[other - 1] > lengths->places[group - 1])) group = other;
            }
            lengths->group[s] = (unsigned char)group;
        }
    }
    free(words);
    return ok;
}

/* Finds out which group does each step of an epoch. */
static bool begin_epoch(Executor *executor, int64_t epoch, Error *error) {
    struct Lengths *lengths = executor->lengths;
    int32_t *most = malloc((size_t)executor_steps(executor) * sizeof *most + 1);
    bool ok = most ? data_tokens(executor->data, epoch, lengths->texts, most, error) : error_set(error, EXIT_ENVIRONMENT, "out of memory");
    lengths->epoch = 0;
    ok = comm_agree(executor->comm, ok, error) && agree(executor, most, error);
    free(most);
    if (!ok) return false;
    lengths->epoch = epoch;
    data_groups(executor->data, epoch, lengths->group);
    return true;
}

Executor *lengths_known(Executor *executor, int64_t epoch, int64_t step) {
    const struct Lengths *lengths = executor->lengths;
    if (!lengths || lengths->epoch != epoch || step < 1 || step > executor_steps(executor) || executor->profile) return executor;
    const int group = lengths->group[step - 1];
    return group == 0 ? executor : lengths->other[group - 1];
}

static void hand_over(const Executor *from, Executor *to) {
    if (from == to) return;
    to->updates = from->updates;
    to->schedule_ahead = from->schedule_ahead;
    to->bad_update = from->bad_update;
    for (int d = 0; d < from->comm->ndriven; d++)
        to->cursors[d].withholds = from->cursors[d].withholds;
}

Executor *lengths_choose(Executor *executor, int64_t epoch, int64_t step, Error *error) {
    struct Lengths *lengths = executor->lengths;
    if (!lengths) return executor;
    if (lengths->epoch != epoch && !begin_epoch(executor, epoch, error)) return NULL;
    Executor *before = lengths->now, *now = lengths->now = lengths_known(executor, epoch, step);
    hand_over(executor, now);
    if (before != now) { /* a step that is still under way ends before this one */
        now->behind = now->behind || before->behind;
        before->behind = false;
    }
    return now;
}

void lengths_done(Executor *executor) {
    struct Lengths *lengths = executor->lengths;
    if (!lengths) return;
    hand_over(lengths->now, executor);
    lengths->steps[lengths->now->group]++;
}

void executor_lengths(const Executor *executor, Text *text) {
    const struct Lengths *lengths = executor->lengths;
    if (!lengths) return;
    text_printf(text, "steps by length: %s %lld", executor->program->name, (long long)lengths->steps[0]);
    for (int k = lengths->n - 1; k >= 0; k--)
        text_printf(text, ", %s %lld", lengths->other[k]->program->name, (long long)lengths->steps[k + 1]);
    text_printf(text, "\n");
}
