/* executor: a program of a plan, run step by step. */
#pragma once
#include "ir/plan.h"
#include "runtime/backend.h"
#include "runtime/comm/comm.h"
#include "runtime/data/data.h"

/* A program being executed: the ranks of one communicator that this process drives. */
typedef struct Executor Executor;
/* For Comm.name_place; plan is the whole plan. */
void executor_name_place(const void *plan, int rank, const CommPlace *place, Text *text);
/* The device is borrowed; comm moves its memory. */
Executor *executor_create(const Plan *plan, const char *program, const Device *device, Comm *comm, const char *plan_directory, int nthreads,
                          Error *error);
/* The same for another program of the plan, over the states of an executor that lives longer: nothing is copied. It uses the other's arena too where that is
 * large enough, so what the other's last step left there is gone after a step of this one. states_of NULL: executor_create. */
Executor *executor_create_over(const Plan *plan, const char *program, Executor *states_of, const Device *device, Comm *comm,
                               const char *plan_directory, int nthreads, Error *error);
void executor_destroy(Executor *executor);
/* What a driven rank holds of a value that the program reports. */
typedef struct ReportPart {
    const TensorType *type;
    Box box;
    const void *data; /* its elements, row-major */
    void *copy;       /* for a backend whose buffers are not ordinary memory; else NULL */
    bool first;       /* this rank is the first of those that hold the same box */
} ReportPart;
/* report: index into the graph's reports, -1: the loss. Valid after a step, until the next one. */
bool executor_report(Executor *executor, int driven, int report, ReportPart *part, Error *error);
void executor_report_finish(Executor *executor, ReportPart *part);
int64_t executor_rows(const Executor *executor); /* of an epoch of the data, without filler */
/* The row of the data at a place of a step's batch (steps count from 1, places of all replicas together from 0) where the order is that of the
 * file. */
int64_t executor_row(const Executor *executor, int64_t step, int64_t place, bool *filler);
void executor_exclude_bytes(Executor *executor, int driven, int64_t bytes); /* that the communicator has counted, and no step has moved */
int64_t executor_steps(const Executor *executor);                           /* of an epoch */
int64_t executor_batch(const Executor *executor);                           /* rows of a step's batch, all replicas together */
double executor_held_bytes(const Executor *executor, const char **path);    /* data_held_bytes of its data */
void executor_order(const Executor *executor, DataOrder *order);            /* of its data */
DataSource *executor_data(const Executor *executor);
/* To be called when it is known what inputs are read with (data_figures): whether files fit it (data_know), and on process 0 notes about files (data_note). */
bool executor_know_data(Executor *executor, Error *error);
void executor_note_data(const Executor *executor);
const Graph *executor_graph(const Executor *executor);
double executor_rate(const Executor *executor);        /* learning rate of the last step done */
double executor_next_rate(const Executor *executor);   /* and of the one after it; after the last one what the schedule ends with */
int64_t executor_data_bytes(const Executor *executor); /* read from files of rows by this process so far, without headers */
/* Updates done so far, which the next one's bias corrections depend on; a run that is resumed, or checked, does not begin with 0. The schedule of the learning rate
 * counts `ahead` more: where a run goes on with another batch size, the steps of this size less the updates that were done. */
int64_t executor_updates(const Executor *executor, int64_t *ahead);
void executor_set_updates(Executor *executor, int64_t updates, int64_t ahead);
/* Sets what the next step of a program that generates, or reads a prompt, computes: places from this one on, and the token of each. Borrowed until the step is done. */
void executor_set_places(Executor *executor, const int64_t *token, int64_t place);
/* Reads the batch of the next step, so that all ranks know what is wrong with files, and it is printed once. Collective; may be left out. */
bool executor_begin(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Allows steps after the first to be captured and replayed as one, unless there is a reason against it ("--no-graph"). Without this call they are not. */
void executor_capture(Executor *executor, const char *against);
/* After a step that was timed, before one that is not: captures steps anew, without points in time, where they are captured. Returns whether they are. On all ranks alike. */
bool executor_recapture(Executor *executor);
/* Why steps run one by one, or what was captured; "" on a device without a queue. */
const char *executor_capture_note(const Executor *executor);
/* One step of training on every driven rank. */
bool executor_step(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* The same, but on a device with a queue the step may still be under way when the function returns, if communications allow that: then there are no losses
 * (executor_losses), and nothing else may be read before a later executor_step. The next step may report a failure of this one. */
bool executor_step_ahead(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Waits for a step that executor_step_ahead has left under way; then its losses are there. */
bool executor_settle(Executor *executor, Error *error);
/* From the next step on the loss is checked before anything is updated, on a backend of the process's memory, at no cost; if it is not finite on a driven rank, the rank's updates leave
 * all states of an optimizer as they are, from that step on. waits: on other backends too, where operators are waited for. */
void executor_guard(Executor *executor, bool waits);
/* The first update (counted as by executor_updates) whose loss on a driven rank was seen not to be finite; 0: none. */
int64_t executor_bad_update(const Executor *executor);
/* Says where the first number that is not finite came from. It looks at the inputs of steps `first` to `last`, counted over all epochs from 0, then repeats the last
 * operator by operator, without changing states (its number as an update: update). bad: this process's ranks had a loss that is not finite in it and kept
 * the states from before; what the others see does not count. Collective. EXIT_MISMATCH with the answer in *error of the process whose ranks it is about, the others' are reported; another code where the
 * search itself has failed. */
void executor_find_bad(Executor *executor, int64_t first, int64_t last, int64_t update, bool bad, Error *error);
/* The same for inputs alone. *any: one is not finite; text gets the answer on one process, where *at is the step, elsewhere -1. Collective; false: the search has failed. */
bool executor_find_bad_input(Executor *executor, int64_t first, int64_t last, Text *text, int64_t *at, bool *any, Error *error);
/* The losses of a driven rank after a step, one per hidden slice (global modes: 1); returns how many. */
int executor_losses(const Executor *executor, int driven, const double **losses);
/* A state's elements under the layout stored by a driven rank. */
void *executor_state(Executor *executor, int driven, int state, Box *box);
/* The whole tensor of a state, on every process, as doubles, in the arena. Collective. */
bool executor_gather_state(Executor *executor, int state, Arena *arena, double **whole, Error *error);
/* Copies a state in another layout: target has the backend memory of each driven rank's box. Collective; the same layout every time. */
bool executor_rearrange_state(Executor *executor, int state, const Layout *layout, void *const *target, Error *error);
/* Sets a state of every driven rank from a whole tensor: each takes its box. */
bool executor_set_state(Executor *executor, int state, const double *whole, Error *error);
/* The number of losses of any rank; *first: the hidden slice that the first of them belongs to (0 in global modes). */
int executor_slices(const Executor *executor, int rank, int *first);
int executor_most_slices(const Executor *executor); /* of any rank */
/* The losses of all ranks, on every process: those of rank r begin at losses[r * executor_most_slices]. Collective. */
bool executor_gather_losses(Executor *executor, double *losses, Error *error);
/* The same for numbers that each process has at the places of its own losses. */
bool executor_gather_slices(Executor *executor, double *numbers, Error *error);
/* The backend of its tensors, and the context that its functions take. */
const Backend *executor_backend(const Executor *executor, void **context);
/* Bytes that a driven rank has sent in executor_step so far (not in gathering states), counted by the communicator. */
int64_t executor_sent_bytes(const Executor *executor, int driven);
/* Memory that a rank's role needs, in bytes: arena, states, inputs and constants. Needs no executor. */
typedef struct ExecutorMemory {
    int64_t arena_bytes, state_bytes, input_bytes;
    bool odd_rows; /* role_has_odd_rows */
} ExecutorMemory;
void executor_memory(const Plan *plan, const char *program, int rank, ExecutorMemory *memory);

/* "steps by length: train 3, train_64 20\n": the steps done so far by the program and by those for shorter texts; nothing where there are none. */
void executor_lengths(const Executor *executor, Text *text);

/* From the next step on each action is timed. The profile is borrowed; NULL: no longer. */
struct Profile;
void executor_profile(Executor *executor, struct Profile *profile);
