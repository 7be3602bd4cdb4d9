/* exec: what load.c builds and exec.c runs. Not seen outside these two. */
#pragma once
#include "runtime/runtime.h"

/* A kernel and its operands, ready to be called. */
typedef struct Call {
    KernelFn *fn;
    KernelCall call;
} Call;

typedef enum { ACTION_CALLS, ACTION_COPY, ACTION_START, ACTION_WAIT } ActionKind;
/* One step of the plan as one rank runs it: every name resolved to an address. */
typedef struct Action {
    ActionKind kind;
    int step;               /* number in the role, for messages */
    int first_call, ncalls; /* calls: one, or one for each hidden slice that the rank holds */
    CommRequest *request;   /* start, wait */
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
    bool arena_lent; /* it is the lender's */
    void **state, **input; /* by id */
    int *take;             /* by id of the input: its number in the data source */
    void **at;             /* per instance of the role: where its box lies */
    Box *box;              /* per instance */
    VEC(Call) calls;
    VEC(Action) actions;
    VEC(void *) owned; /* constants */
    int next;          /* action */
    double *losses;
    int nlosses;
} Cursor;

/* The step that a request was prepared for: its first start. With a bucket, the n starts that it was prepared together with. */
typedef struct Prepared {
    const Role *role;
    const Step *step;
    const Step *first;
    int n;
} Prepared;

struct Executor {
    const Plan *plan;
    const Program *program;
    struct Executor *lender; /* whose states these are, and whose context; NULL: none */
    const Backend *backend;
    void *context; /* the backend's */
    Comm *comm;
    const char *plan_directory;
    int nthreads;
    Arena arena;
    Cursor *cursors; /* one a driven rank */
    DataSource *data;
    bool filled;            /* inputs hold a batch already */
    bool begun;             /* and that of the step that comes next: executor_begin */
    int64_t updates;        /* done */
    double roundings;       /* executor_disturb */
    CommRequest **requests; /* by the number in the plan */
    Prepared *prepared;     /* the same */
    int nrequests;
    CommRequest **gathers;   /* per state, prepared when first needed */
    CommRequest **saves;     /* the same: executor_rearrange_state */
    int64_t *gathered_bytes; /* per driven rank: sent to gather states, not in steps */
};

/* Builds everything that needs no other rank: memory, states, inputs, constants, calls. */
bool load_local(Executor *executor, Error *error);
/* Prepares the requests of all roles, in the order of their numbers: collective. Then the actions. */
bool load_requests(Executor *executor, Error *error);
void load_finish(Executor *executor);
/* Memory that communicators can read in place where they offer it. */
void *tensor_alloc(Executor *executor, int64_t bytes, Error *error);
void tensor_free(Executor *executor, void *data);
/* "rank 3, step 12 (matmul h)": where something failed. */
void where(const Executor *executor, const Cursor *cursor, int step, char *text, size_t n);

/* ---------------------------------------------------------------- fit.c */

/* Whether a step's operands and results (an instance in its storage, the loss) fit together on the cursor's rank, so that nothing is touched outside
 * of them, whatever the plan says; *why says what does not. Once, when the plan is loaded; requests are prepared already. */
bool fit_step(const Executor *executor, const Cursor *cursor, const Step *step, char *why, size_t n);
bool fit_instance(const Executor *executor, const Cursor *cursor, int id, char *why, size_t n);
bool fit_reports(const Executor *executor, const Cursor *cursor, char *why, size_t n);
bool fit_loss(const Executor *executor, const Cursor *cursor, char *why, size_t n);
