/* Plans: what pcc writes and prun executes. */
#pragma once
#include "ir/graph.h"

/* ---------------------------------------------------------------- plan.c  (docs/plan.md) */

typedef enum { PLACE_ARENA, PLACE_STATE, PLACE_INPUT, PLACE_CONSTANT, PLACE_INNER, PLACE_VIEW, PLACE_ELSEWHERE } Place;
extern const char *const place_name[];
/* A value of the graph in a given layout, and where it is stored. */
typedef struct Instance {
    int value; /* graph value id */
    const Layout *layout;
    Place place; /* inner: not stored, it is made and read within one fused step; view: in another instance, which kernels read by strides;
                  elsewhere: the ranks of the role hold nothing of it */
    int64_t
        at; /* arena: offset in bytes; state, input: id; constant: graph node id; inner: 0; view: the instance, the one operand of the step that makes it */
    int version; /* PLACE_STATE: which version of the state, 0 or 1 */
} Instance;
/* Whether it is the result of an operator with views and is stored in an input or a state's old version: it shares its operand's memory. */
bool instance_is_view(const Graph *graph, const Instance *instance);

typedef enum { STEP_KERNEL, STEP_LOCAL, STEP_START, STEP_WAIT, STEP_WRITE } StepKind;
/* Limits of a fused step: its members; and, where a planner builds one, the operands in memory and the results stored there. */
enum { MAX_FUSED = 32, MAX_FUSED_IN = 8, MAX_FUSED_OUT = 8 };
typedef struct Step {
    StepKind kind;
    OpCode op;     /* kernel: the operator */
    int node;      /* kernel, write: the graph node that it computes */
    CommKind comm; /* local, start, wait */
    int request;   /* start, wait: number that pairs them */
    int nin, nout;
    int in[MAX_IN], out[MAX_OUT]; /* instances; start: source and target; wait: the same; write: in[0] */
    int state;                    /* write: state id */
    int stream;                   /* 0 compute, 1 communication */
    int bucket; /* start, wait: consecutive starts with one number run as one communication, and so do their waits; from 1, 0: alone */
    int fused;  /* kernel: consecutive kernels with one number are the members of one fused step; from 1, 0: alone */
} Step;

typedef struct Role {
    int first_rank, last_rank;
    int64_t arena_bytes;
    VEC(Instance) instances;
    VEC(Step) steps;
} Role;
int64_t instance_bytes(const Graph *graph, const Instance *instance); /* of the largest box of any rank; at most MAX_TENSOR_BYTES */
/* How messages name a step: its operator or communication, the value or state that it makes, and its place in the source. */
typedef struct StepLabel {
    const char *what, *of;
    Span span;
} StepLabel;
StepLabel step_label(const Graph *graph, const Role *role, const Step *step);
/* Names of steps in predicted and measured traces. The value or state that the step at `at` makes; for an inner value, the next value of the fused step that is
 * stored. */
const char *step_makes(const Graph *graph, const Role *role, int at);
/* Appends a step to the name of a fused step, "matmul+add+relu", which ends in "..." where it is too long. name: STEP_NAME_BYTES, "" at first. */
enum { STEP_NAME_BYTES = 96 };
void step_name_add(char *name, const Graph *graph, const Role *role, int at);
int fused_length(const Role *role, int at); /* the number of steps from `at` on that are members of one fused step; 1: it is alone */
/* Lays out memory for running the members of fused steps one by one: the inner values side by side, then copies of the views that are read. Fills the offset of each
 * inner instance into at (NULL: not asked); returns the bytes that the largest step needs. */
int64_t inner_room(const Graph *graph, const Role *role, int64_t *at);
/* The steps that make the views read by the step, or fused step, at `at`, and the views that those are views of: at most MAX_VIEWS, in the
 * order of the role; -1: more. maker: per instance the step that makes it where it is a view, -1 elsewhere. */
enum { MAX_VIEWS = 32 };
void view_makers(const Role *role, int *maker);
int step_views(const Role *role, const int *maker, int at, int *steps);
/* Places the results of a step one after the other, from offset `used` of the memory for inner values on; returns the next free offset. */
int64_t results_room(const Graph *graph, const Role *role, const Step *step, int64_t used, int64_t *at);

typedef enum {
    PROGRAM_TRAIN,
    PROGRAM_EVAL,
    PROGRAM_GENERATE,
    PROGRAM_PROMPT
} ProgramKind; /* the last two: for one place of a text, and for many at once */
enum { MAX_PROGRAMS = 16 };
extern const char *const program_kind_name[]; /* "train", "eval", "generate", "prompt" */
typedef struct Program {
    const char *name; /* "train", "eval", "train_32" */
    ProgramKind kind;
    bool
        shorter; /* a program of the same kind for shorter texts: over the same states, with as many rows. It follows the program for the longest */
    Graph *graph;       /* its graph, over the plan's states (the same list), with inputs of its own. NULL: the plan's graph */
    int loss;           /* instance id in every role, or -1 */
    VEC(int) reports;   /* likewise, of the graph's reports in their order */
    int64_t sent_bytes; /* per step by a rank: the sum over all communications of what its busiest rank sends (traffic_step) */
    VEC(Role) roles;
} Program;

int program_steps(const Program *program);    /* summed over all roles */
int program_requests(const Program *program); /* requests are numbered from 0, over all roles: one more than the highest number */

/* The interface between pcc and prun. graph is the unsharded graph after simplification, forward and backward, its states and inputs with
 * their storage layouts; its settings say epochs, steps, data. */
typedef struct Plan {
    int format;          /* 1 */
    const char *options; /* one line, for people: mode, search, -O, ... */
    uint64_t net_hash;
    Graph graph;
    VEC(Program) programs;
    const char *certificate; /* one line, NULL: none */
    bool certificate_bound;  /* as read: it names the text that it proves, and that is this one */
    uint64_t checksum;       /* of the text, without its certificate: as read */
    const char *side_file;   /* as read: name of the file beside it that holds its long literals, NULL: none */
} Plan;

void plan_init(Plan *plan, Arena *arena);
/* The plan reduced to one program, with that program's graph as its graph. Shares all memory with the plan, and lasts as long
 * as it. */
Plan plan_part(const Plan *plan, int program);
int plan_find(const Plan *plan, const char *program); /* -1: there is none */
int plan_shorter(const Plan *plan, int program);      /* how many programs for shorter texts follow it */
/* The whole text with certificate and checksum. The same bytes for the same plan. */
void plan_print(Text *text, const Plan *plan);
/* Reads and checks what can be checked without a proof: version, checksum, grammar, ids in range, types by the rules, layouts valid,
 * sizes sane. name is for messages: "net.plan:12: unknown key 'foo'". flags: PLAN_IGNORE_CHECKSUM. */
enum { PLAN_IGNORE_CHECKSUM = 1 };
bool plan_read(Plan *plan, Arena *arena, const char *name, const char *text, size_t n, int flags, Error *error);
/* ---- side.c: literals of more than 4 KiB are in a file beside the plan, which the text names with size and checksum */

/* The bytes of a plan's two files. side NULL: there is no second one. */
typedef struct PlanFiles {
    const char *text, *side;
    size_t n, nside;
} PlanFiles;
/* As plan_print, with the long literals appended to *side (nothing when there are none); side_file: its name in the text, without folder. */
void plan_print_files(Text *text, Text *side, const char *side_file, const Plan *plan);
void plan_certify(Text *text, const char *certificate); /* adds a certificate to a text that was printed without one */
/* As plan_read, of both files; plan_read refuses a plan that names a side file. */
bool plan_read_files(Plan *plan, Arena *arena, const char *name, const PlanFiles *files, int flags, Error *error);
/* Reads both files of the plan at path, each of at most max_bytes. Fails (EXIT_ENVIRONMENT) when one cannot be read; plan_read_files
 * checks whether they fit together. */
bool plan_files_read(PlanFiles *files, Arena *arena, const char *path, size_t max_bytes, Error *error);
/* The text of a plan after an edit by hand: without its certificate, with a new checksum. Checks only that it is a plan of this format. */
bool plan_renew(Text *renewed, const char *name, const char *text, size_t n, Error *error);
/* The SPMD form of a stage: header, states, inputs, layouts and the graph with its layouts and strategies, in the plan's grammar. */
void graph_print(Text *text, const Graph *graph);
bool graph_read(Graph *graph, Arena *arena, const char *name, const char *text, size_t n, Error *error);
void attr_print(Text *text, OpCode op, const Node *node); /* "{transpose_b: 1}" or "" */
