/* executor: a program of a plan, run step by step. */
#pragma once
#include "ir/plan.h"
#include "runtime/backend.h"
#include "runtime/comm/comm.h"
#include "runtime/data/data.h"

/* A program being executed: the ranks of one communicator that this process drives. */
typedef struct Executor Executor;
/* The device is borrowed; comm moves its memory. */
/* Comm.name_place: plan is the whole plan. */
void executor_name_place(const void *plan, int rank, const CommPlace *place, Text *text);
Executor *executor_create(const Plan *plan, const char *program, const Device *device, Comm *comm, const char *plan_directory, int nthreads,
                          Error *error);
/* The same of another program of the plan, over the states of an executor that lasts longer: nothing is copied. It uses the other's arena too where that is
 * large enough, so what the other's last step left in it is gone after a step of this one. states_of NULL: executor_create. */
Executor *executor_create_over(const Plan *plan, const char *program, Executor *states_of, const Device *device, Comm *comm,
                               const char *plan_directory, int nthreads, Error *error);
void executor_destroy(Executor *executor);
/* What a driven rank holds of a value that the program reports. */
typedef struct ReportPart {
    const TensorType *type;
    Box box;
    const void *data; /* its elements, row-major */
    void *copy;       /* of a backend whose buffers are not ordinary memory; else NULL */
    bool first;       /* of the ranks that hold the same box this is the first */
} ReportPart;
/* report: a number of the graph's reports, -1: the loss. After a step, until the next one. */
bool executor_report(Executor *executor, int driven, int report, ReportPart *part, Error *error);
void executor_report_finish(Executor *executor, ReportPart *part);
int64_t executor_rows(const Executor *executor); /* of the data, an epoch of it, without filler */
/* The row of the data that stands at a place of a step's batch (steps count from 1, places of all replicas together from 0) where the order is that of the
 * file. */
int64_t executor_row(const Executor *executor, int64_t step, int64_t place, bool *filler);
void executor_exclude_bytes(Executor *executor, int driven,
                            int64_t bytes);       /* that the communicator has counted, and that are none of its steps' */
int64_t executor_steps(const Executor *executor); /* of an epoch */
int64_t executor_batch(const Executor *executor); /* rows of a step's batch, all replicas together */
double executor_held_bytes(const Executor *executor, const char **path); /* data_held_bytes of its data */
void executor_order(const Executor *executor, DataOrder *order);         /* of its data */
DataSource *executor_data(const Executor *executor);
/* When it is known what inputs are read with (data_figures): whether files hold what these fit (data_know), and on process 0 notes of what there is to say of files (data_note). */
bool executor_know_data(Executor *executor, Error *error);
void executor_note_data(const Executor *executor);
const Graph *executor_graph(const Executor *executor);
double executor_rate(const Executor *executor);        /* learning rate of the step done last */
double executor_next_rate(const Executor *executor);   /* and of the one behind it; behind the last one what the schedule ends with */
int64_t executor_data_bytes(const Executor *executor); /* read from files of rows by this process so far, headers left out */
/* Updates done so far, which the next one's corrections depend on; a run that is resumed, or checked, begins with others. The schedule of the learning rate counts
 * `ahead` more: where a run goes on with another batch size, so many steps of this size, less those that were done. */
int64_t executor_updates(const Executor *executor, int64_t *ahead);
void executor_set_updates(Executor *executor, int64_t updates, int64_t ahead);
/* What the next step of a program that generates, or reads a prompt, computes: places from this one on, and the token of each. Borrowed until it is done. */
void executor_set_places(Executor *executor, const int64_t *token, int64_t place);
/* Reads the batch of the step that comes next: what is wrong with files is then known to all ranks, and said once. Collective; may be left out. */
bool executor_begin(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Whether steps after the first may be captured and replayed as one: unless there is a reason against it ("--no-graph"). They are not without this. */
void executor_capture(Executor *executor, const char *against);
/* After a step that was timed, before one that is not: where steps are captured they are captured anew, so that they hold no points in time. Whether they are. On all ranks alike. */
bool executor_recapture(Executor *executor);
/* Why steps run one by one, or what was captured; "" on a device without a queue. */
const char *executor_capture_note(const Executor *executor);
/* One step of training on every driven rank. */
bool executor_step(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* The same, but on a device with a queue it may be under way still when the function returns, if communications allow that: then there are no losses
 * (executor_losses), and nothing else may be read before an executor_step has come after it. What fails may be said by the next step. */
bool executor_step_ahead(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Waits for a step that executor_step_ahead has left under way; its losses are there then. */
bool executor_settle(Executor *executor, Error *error);
/* From the next step on the loss is looked at before anything is updated, on a backend of the process's memory at no cost; where it is not finite on a driven rank, the rank's updates leave
 * all states that an optimizer has as they are, from that step on. waits: elsewhere too, where operators are waited for. */
void executor_guard(Executor *executor, bool waits);
/* The first update (counted as executor_updates does) whose loss, on a driven rank, was seen to be not finite; 0: none. */
int64_t executor_bad_update(const Executor *executor);
/* Where the first number came from that is not finite, in words. Steps `first` to `last`, counted over all epochs from 0, are looked at: the inputs of all of them, then the last
 * is done again, operator by operator, updates leaving states as they are (its number as an update: update). bad: this process's ranks had a loss that is not finite in it and kept
 * the states from before; what the others see does not count. Collective. EXIT_MISMATCH and the words in *error of one process, whose ranks it is about, the others' are reported; another code where the
 * search itself has failed. */
void executor_find_bad(Executor *executor, int64_t first, int64_t last, int64_t update, bool bad, Error *error);
/* The inputs alone. *any: one is not finite; the words are appended to text on one process, where *at is the step, elsewhere -1. Collective; false: the search has failed. */
bool executor_find_bad_input(Executor *executor, int64_t first, int64_t last, Text *text, int64_t *at, bool *any, Error *error);
/* The loss of driven rank's slice(s) after a step, one number a hidden slice (global modes: 1); how many there are. */
int executor_losses(const Executor *executor, int driven, const double **losses);
/* A state's elements under the layout stored by a driven rank. */
void *executor_state(Executor *executor, int driven, int state, Box *box);
/* The whole tensor of a state on every driven rank's process (collective), as doubles, in the arena. */
bool executor_gather_state(Executor *executor, int state, Arena *arena, double **whole, Error *error);
/* Brings a state into another layout: target has the memory of each driven rank's box of it (of the backend). Collective; the same layout every time. */
bool executor_rearrange_state(Executor *executor, int state, const Layout *layout, void *const *target, Error *error);
/* Sets a state of every driven rank from a whole tensor: each takes its box. */
bool executor_set_state(Executor *executor, int state, const double *whole, Error *error);
/* The number of losses of any rank; *first: the hidden slice that the first of them belongs to (0 in global modes). */
int executor_slices(const Executor *executor, int rank, int *first);
int executor_most_slices(const Executor *executor); /* of any rank */
/* The losses of all ranks, on every process: those of rank r begin at losses[r * most slices]. Collective. */
bool executor_gather_losses(Executor *executor, double *losses, Error *error);
/* The same of numbers that each process has at the places of its own losses. */
bool executor_gather_slices(Executor *executor, double *numbers, Error *error);
/* Where its tensors live, and what that backend's functions take. */
const Backend *executor_backend(const Executor *executor, void **context);
/* Bytes that a driven rank has sent in executor_step so far (not in gathering states), counted by the communicator. */
int64_t executor_sent_bytes(const Executor *executor, int driven);
/* Memory of a rank's role, in bytes: arena, states, inputs and constants. Needs no executor. */
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
