/* exec: what load.c and fuse.c build, inputs.c fills and exec.c runs; finite.c and disturb.c read it too. Only for these files. */
#pragma once
#include "runtime/executor.h"

/* A kernel and its operands, ready to be called. */
typedef struct PreparedCall {
    KernelFn *fn;
    KernelCall call;
} PreparedCall;

typedef enum { ACTION_CALLS, ACTION_FUSED, ACTION_COPY, ACTION_START, ACTION_WAIT } ActionKind;
/* One step of the plan as one rank runs it: every name resolved to an address. */
typedef struct Action {
    ActionKind kind;
    int step;               /* number in the role, for messages */
    const char *name;       /* "matmul of h", "2 operators, add of y to relu of z": for profilers */
    int first_call, ncalls; /* calls: one, or one for each hidden slice that the rank holds; fused: those of its first step */
    int nviews; /* calls, fused: steps that make the views which it reads; their calls are done here, where the results are read */
    const int *view_call; /* the first call of each */
    int nsteps;           /* fused: the steps of the role that it stands for, without views */
    const int *steps;
    void **fused; /* one for each slice, from fuse of the backend or its queue; NULL: the calls are done one by one */
    bool (*run)(void *context, void *fused, Error *error);
    void (*unfuse)(void *context, void *fused);
    CommRequest *request; /* start, wait */
    const void **source;
    void **target;
    void *to; /* copy */
    const void *from;
    int64_t bytes;
} Action;

/* A driven rank: its memory and its place in its role. */
typedef struct Cursor {
    int rank, driven; /* number in the job, number in this process */
    const Role *role;
    void *arena;
    void *inner;                 /* room for the inner values of the largest fused step and the views that it reads */
    bool arena_lent, inner_lent; /* it belongs to the lender */
    void **state, **input;       /* by id */
    void **ahead; /* by id of the input, on a device with a queue: the next batch, copied while a step runs; NULL elsewhere */
    void **host;  /* page-locked memory that ahead is copied from */
    int *take;    /* by id of the input: its number in the data source */
    bool *made;   /* likewise: it has random numbers, which the device generates in place */
    void **at;    /* per instance of the role: where its box lies; of a view, where the last loaded step has room for a copy */
    Box *box;     /* per instance */
    VEC(PreparedCall) calls;
    VEC(Action) actions;
    VEC(void *) owned;   /* constants */
    int *first_call;     /* per step of the role: the first of its calls */
    int next;            /* action */
    int guard;           /* action after which the loss is there, -1: it is not checked within the step: executor_guard */
    bool withholds;      /* that loss was not finite: updates leave states as they are */
    struct Found *found; /* per instance, while a step is inspected: finite.c */
    double *losses;
    int nlosses;
} Cursor;

/* The first start step of a request. With a bucket, `first` is the first of the n start steps that were prepared together. */
typedef struct Prepared {
    const Role *role;
    const Step *step;
    const Step *first;
    int n;
} Prepared;

struct Executor {
    const Plan *plan;
    const Program *program;
    struct Executor *lender; /* whose states these are; NULL: none */
    struct Executor *of;     /* the executor for the longest texts, if this one is for shorter texts: takes a part of its data; else NULL */
    int group;               /* of its boxes in the data */
    struct Lengths *lengths; /* lengths.c: the executors for shorter texts that it has; NULL: none */
    const Backend *backend;
    void *context; /* the backend's, borrowed */
    Comm *comm;
    int number; /* of the program in the whole plan; -1: the plan is a part of another */
    const char *plan_directory;
    int nthreads;
    Arena arena;
    Cursor *cursors; /* one a driven rank */
    DataSource *data;
    struct Batches *batches; /* inputs.c: which batches inputs hold */
    struct Capture *capture; /* exec.c: steps captured as graphs */
    struct Gathers *gathers; /* results.c: states of all ranks put together */
    bool begun;              /* inputs hold the batch of the next step: executor_begin */
    bool ran;                /* a step has been done */
    bool behind;             /* the previous step may still be under way: executor_step_ahead */
    struct Profile *profile; /* NULL: steps are not timed */
    const int64_t *token;    /* executor_set_places */
    int64_t place;           /* likewise: the first */
    int64_t updates;         /* done */
    int64_t schedule_ahead;  /* updates that the schedule counts besides: executor_set_updates */
    int64_t bad_update;      /* the first whose loss on a driven rank is not finite, 0: none yet */
    bool guards;             /* the loss is checked before updates: executor_guard */
    bool inspects;           /* a step is being repeated for finite.c */
    CommRequest **requests;  /* by the number in the plan */
    Prepared *prepared;      /* likewise */
    int nrequests;
};

/* Builds everything that needs no other rank: memory, states, inputs, constants, calls. */
bool load_local(Executor *executor, Error *error);
/* Prepares the requests of all roles, in the order of their numbers: collective. Then the actions. */
bool load_requests(Executor *executor, Error *error);
void load_finish(Executor *executor);
/* Memory from the communicator, which can be read in place, where it offers any. */
void *tensor_alloc(Executor *executor, int64_t bytes, Error *error);
void tensor_free(Executor *executor, void *data);
/* Whether the step needs no action: its results lie where its operand lies. */
static inline bool step_is_view(const Cursor *cursor, const Step *step) {
    return step->kind == STEP_KERNEL && (cursor->role->instances.at[step->out[0]].place == PLACE_VIEW ||
                                         (op_table[step->op].view && cursor->at[step->in[0]] == cursor->at[step->out[0]]));
}
/* "rank 3, step 12 (matmul h)": where something failed. */
void where(const Executor *executor, const Cursor *cursor, int step, char *text, size_t n);

/* The box of a constant's elements. */
void constant_fill(const Graph *graph, const Instance *instance, const Box *box, void *to);

/* What the schedule multiplies the learning rate by at an update, counted by the schedule from 1. */
double executor_scheduled(const Executor *executor, int64_t update);

/* exec.c: repeats a step's actions operator by operator on the batch of this step; each result goes through inspect_action. Updates leave states as they are. */
bool executor_repeat(Executor *executor, int64_t epoch, int64_t step, int64_t update, Error *error);

/* ---------------------------------------------------------------- finite.c */

/* Looks at what an action has computed, while a step is inspected. */
bool inspect_action(Executor *executor, Cursor *cursor, const Action *action, Error *error);

/* ---------------------------------------------------------------- lengths.c */

/* Where programs for shorter texts follow the executor's own: makes executors for them, over its states and its data. Each step is then done, on all ranks, by the one for the
 * shortest texts that its batch fits. Collective. */
bool lengths_open(Executor *executor, const Device *device, Error *error);
void lengths_close(Executor *executor);
/* Chooses the executor of a step, and hands it what the one before has left: counts, losses that were not finite. Collective in the first step of an epoch. NULL: *error. */
Executor *lengths_choose(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* The same without communication: the one for the longest texts can do each step. */
Executor *lengths_known(Executor *executor, int64_t epoch, int64_t step);
void lengths_done(Executor *executor);           /* after a step: hands its counts to the executor */
Executor *lengths_now(const Executor *executor); /* the executor of the last step that was chosen; itself where there are no others */
int lengths_count(const Executor *executor);     /* how many others there are */
Executor *lengths_at(const Executor *executor, int i);

/* ---------------------------------------------------------------- inputs.c */

void inputs_begin(Executor *executor);
/* Allocates buffers in addition to the inputs, where the device needs them. */
bool inputs_load(Executor *executor, Cursor *cursor, Error *error);
void inputs_unload(Executor *executor, Cursor *cursor);
/* Fills all inputs of every driven rank with what the step reads. */
bool inputs_fill(Executor *executor, int64_t epoch, int64_t step, Error *error);
/* Begins to copy the batch of the step after this one to the device. Data that cannot be read is no failure yet: the step itself reports it. */
bool inputs_ahead(Executor *executor, int64_t epoch, int64_t step, Error *error);

/* ---------------------------------------------------------------- results.c */

void results_begin(Executor *executor);

/* ---------------------------------------------------------------- fuse.c */

/* Makes one action of each fused step that the backend runs as one, and of calls that the device can run together. */
bool fuse_actions(Executor *executor, Cursor *cursor, Error *error);
void fuse_finish(Executor *executor, Cursor *cursor);

/* ---------------------------------------------------------------- fit.c */

/* Whether a step's operands and results (an instance in its storage, the loss) fit together on the cursor's rank, so that no memory outside of
 * them is touched, whatever the plan says; why says what does not. Called once, when the plan is loaded and requests are prepared. */
bool fit_fused(const Executor *executor, const Cursor *cursor, int at, char *why,
               size_t n); /* for a fused step that begins at `at`: what it stores, and where */
bool fit_step(const Executor *executor, const Cursor *cursor, const Step *step, char *why, size_t n);
/* Whether each request is started once, and then waited for once. *step: the step that is wrong. */
bool fit_requests(const Executor *executor, const Cursor *cursor, int *step, char *why, size_t n);
bool fit_instance(const Executor *executor, const Cursor *cursor, int id, char *why, size_t n);
bool fit_reports(const Executor *executor, const Cursor *cursor, char *why, size_t n);
bool fit_loss(const Executor *executor, const Cursor *cursor, char *why, size_t n);
