/* strategies: graph + hints -> strategies, layouts; and how one layout becomes another.
 *
 *   redistribute.c  conversions between layouts: steps, received elements, lower bound
 *   links.c         what a step of a conversion takes: its messages, and its bytes over its slowest link
 *   machine.c       what messages, arithmetic and memory cost on a machine
 *   kernel.c        seconds of an operator's kernel
 *   tables.c        tables that are updated by the rows that occur
 *   traffic.c       received and sent elements, lower bound; pair.c: two layouts over common digits; classes.c, uneven.c: busiest ranks
 *   candidates.c    which strategies an operator may have; hints.c: what the user wrote, checked and read
 *   cost.c          bytes and FLOPs of a choice, each conversion counted once
 *   propagate.c     sharding_propagation and batch split: every forward node gets a strategy (propagator.h: the files that it is made of)
 */
#pragma once
#include "ir/graph.h"

/* ---------------------------------------------------------------- machine.c  (docs/machine.md) */

/* One kind of link: a message of n bytes takes latency_s + n / bytes_per_s. */
typedef struct MachineLevel {
    double latency_s, bytes_per_s;
} MachineLevel;
/* What arithmetic a rank does how fast: products by the type of their elements; everything else, in f32. */
typedef enum { PEAK_F32, PEAK_F64, PEAK_F16, PEAK_BF16, PEAK_VECTOR, NPEAKS } Peak;
extern const char *const peak_name[NPEAKS]; /* "f32" */
/* What has been read or written lies in the nearest cache that holds all that has been touched since. */
enum { MAX_CACHES = 3 };
typedef struct Cache {
    double bytes_per_s; /* read and written by kernels */
    int64_t bytes;
} Cache;
/* Where the ranks are: consecutive ranks_per_node of them share a node; and what each of them does while all others do the same. */
typedef struct Machine {
    const char *name;
    int ranks_per_node;
    MachineLevel rank;              /* between ranks of one node */
    MachineLevel node;              /* between ranks of different nodes */
    double rank_cached_bytes_per_s; /* between ranks of one node, where what is sent lies in a cache; 0: as rank's */
    double flops[NPEAKS];
    MachineLevel product; /* what a product takes beside its arithmetic: a start, and the packing of its operands; bytes_per_s 0: nothing */
    double convolution_flops;  /* of convolutions and their gradients, f32; 0: those of products */
    double memory_bytes_per_s; /* read and written by kernels */
    double update_bytes_per_s; /* the same of updates, which write over what they read; 0: memory_bytes_per_s */
    int64_t memory_bytes;      /* that a rank has */
    Cache cache[MAX_CACHES];   /* the nearest first: each is larger and slower than the one before */
    int ncaches;
    double kernel_s; /* what a kernel takes beside its arithmetic and its bytes */
    double overlap;  /* the share of a communication that can run while kernels do, 0 to 1 */
    bool cuda;       /* ranks compute on GPUs: kernels need memory beside tensors (ir/workspace.h) */
    bool assumed;    /* of a file: some figures of kernels and memory are not in it, and are machine_cpu's */
} Machine;
extern const Machine machine_cpu, machine_gpu8; /* machine_cpu is the default */
const Machine *machine_named(const char *name); /* one of the two, NULL: none of this name */
/* Reads a machine file; name is for diagnostics. What it points to is in the arena. Figures of kernels and memory that it leaves out are machine_cpu's. False after
 * diagnostics. */
bool machine_read(Machine *machine, Arena *arena, Diags *diags, const char *name, const char *text, size_t n);
/* Whether groups of ranks along these digits stay within nodes. */
bool machine_within_node(const Machine *machine, const Digit *digits, int n, int nranks);
int64_t log2_ceil(int64_t n);                           /* rounds of messages in which each of n ranks can hear of all */
void machine_print(Text *text, const Machine *machine); /* the text of its file, four digits a number */
/* The value of --machine: cpu, gpu8 or the path of a file. False with *error: the file cannot be read; or EXIT_REJECTED, reported by
 * diagnostics. */
bool machine_find(const char *what, Arena *arena, Diags *diags, Machine *machine, Error *error);

/* ---------------------------------------------------------------- kernel.c  (docs/machine.md) */

/* What one kernel, or several that run as one, do on the rank with the largest parts. */
typedef struct KernelWork {
    double flops, bytes;           /* bytes: read and written */
    double product_s;              /* of products that pack their operands: their arithmetic, packing and bytes, before the others */
    double arithmetic_s, moving_s; /* of the others, at the machine's peaks for them */
} KernelWork;
/* Of each operand and result the machine's cache that it lies in; its ncaches: none. */
typedef struct KernelCaches {
    int8_t in[MAX_IN], out[MAX_OUT];
} KernelCaches;
/* Adds an operator under a strategy (NULL: whole). handed_in, bit i: operand i comes from a kernel that runs as one with this one, or was read by it already;
 * handed_out, bit k: result k goes to such ones alone: neither is in memory. caches NULL: all of them lie where they fit together. machine NULL: machine_cpu. */
void kernel_count(KernelWork *work, const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy,
                  unsigned handed_in, unsigned handed_out, const KernelCaches *caches);
double kernel_seconds(const Machine *machine, const KernelWork *work);
/* Of bytes from one cache into another (as of KernelCaches). machine NULL: machine_cpu. */
double copy_seconds(const Machine *machine, double bytes, int from, int to);
int machine_cache(const Machine *machine, double bytes); /* the nearest that holds so many; ncaches: none */
/* Of each factor of the rule its size in the largest part, for op_flops. strategy NULL: whole. */
void part_sizes(const Rule *rule, const Strategy *strategy, double *size);
/* Of an operator by itself; of a leaf, a view, a write in place: 0. */
double operator_seconds(const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy);

/* ---------------------------------------------------------------- tables.c */

/* Per state: whether its update is by the rows of a gradient that an index names. */
bool *states_by_rows(const Graph *graph, Arena *arena);
/* The layout in which that update takes the rows, [.., d]: all of them, in the columns that a rank has of the table. */
void rows_of_table(const Layout *table, int ndim, Layout *rows);

/* ---------------------------------------------------------------- redistribute.c  (docs/redistribution.md) */

typedef enum { REDISTRIBUTE_AUTO, REDISTRIBUTE_BOUND, REDISTRIBUTE_CANONICAL } RedistributePolicy;

enum { MAX_CONVERSION_STEPS = 2 * MAX_NDIM + NREDUCTIONS + 2 };
/* One step of a conversion: `kind` converts the value to layout `to`. */
typedef struct ConversionStep {
    CommKind kind;
    Layout to;
} ConversionStep;

/* What a step, or several, take: the messages that a rank waits for, one after another, and the bytes of the busiest rank over the slowest link that they take. */
typedef struct MoveSeconds {
    int64_t messages;
    double messages_s, bytes_s;
} MoveSeconds;
static inline double move_seconds(MoveSeconds seconds) {
    return seconds.messages_s + seconds.bytes_s;
}

typedef struct Conversion {
    int nsteps;
    Traffic received, sent; /* what these steps move; max: the sum over the steps of each one's worst rank */
    Traffic bound;          /* the least that any algorithm must let be received */
    MoveSeconds seconds;    /* on the machine; between two device orders, as if positions were ranks */
    int rounds;
    int64_t peak_elements; /* of the worst step: largest source + target + staging (what its worst rank receives or sends) */
    ConversionStep step[MAX_CONVERSION_STEPS];
} Conversion;

/* Plans the conversion of a tensor. policy canonical: AllReduce the partials, AllGather each dimension from the first digit that differs,
 * StridedSlice; bound: one step that lets the fewest elements be received; auto: that too, or a chain of gathers that lets equally many be
 * received with fewer messages; on many ranks also what receives more and is faster (docs/redistribution.md). A step is named after a library's collective where that is exactly what it does, the boxes that it joins
 * are even and it receives no more than the exchange. machine (NULL: machine_cpu) weighs messages against bytes. Layouts with one device order give the steps of the natural order with that order; between two orders auto and bound
 * are one exchange, canonical gathers the whole tensor first. False with *why when `to` is partial over digits that `from` is not, or values of two
 * reductions would have to be completed at once. Equal layouts: no steps. */
bool redistribute(const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, int nranks, RedistributePolicy policy,
                  const Machine *machine, Conversion *conversion, const char **why);
/* What single steps take on a machine and a number of ranks, remembered from one conversion to the next; in the arena. */
typedef struct Steps Steps;
Steps *steps_create(Arena *arena, const Machine *machine, int nranks);
/* On a machine that is like that of others, but where so many messages take as long as one there: both count each step once. */
Steps *steps_joined(Steps *of, const Machine *machine, int joined);
/* The seconds of what redistribute plans with policy auto, for layouts in the natural order; at least `most` where it takes as much, which is known sooner. INFINITY where nothing
 * can be planned. */
MoveSeconds redistribute_seconds(Steps *steps, const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, double most);
/* ---------------------------------------------------------------- links.c */

/* What the messages of one step take, and the links. machine NULL: machine_cpu. */
typedef struct StepLinks {
    int64_t messages; /* as in MoveSeconds */
    double messages_s;
    double bytes_per_s; /* of the slowest link that they take */
} StepLinks;
StepLinks step_links(const Machine *machine, CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks);
/* One step, of which the busiest rank receives or sends so many bytes. machine NULL: machine_cpu. */
MoveSeconds step_seconds(const Machine *machine, CommKind kind, const Layout *from, const Layout *to, const Shape *shape,
                         int64_t busiest_bytes, int nranks);
/* ---------------------------------------------------------------- traffic.c */

/* Received and sent elements of one step, from box.c's formulas without enumerating all ranks where symmetry allows. */
void traffic_step(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *received, Traffic *sent);
/* Received elements of the direct exchange between two layouts (no partial digits), total over all ranks; memoised by the caller. */
int64_t traffic_exchange(const Layout *from, const Layout *to, const Shape *shape, int nranks);
void traffic_bound(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *bound);

/* ---------------------------------------------------------------- candidates.c */

/* The strategies that a forward node may have on nranks ranks: every ordered factorisation of nranks over its splittable factors, none
 * larger than its factor (or not dividing it where it must); if there is none, of the largest divisor of nranks that has one, the rest left
 * over as the last, fastest digit. In lexicographic order of the split tuple, the first factor most significant. */
typedef struct Candidates {
    int n;
    Strategy *at;
} Candidates;
Candidates candidates(const Node *node, int nranks, Arena *arena);
int64_t candidates_count(const Node *node, int nranks); /* by the same rule, counting only */
/* Of an operator that reads an operand, of this shape, through windows: in which layout the gradient of its result is left, and in which, with halos, that of the
 * operand needs it. False: there are no windows, or they stay whole. */
bool strategy_gradient_halos(const Node *node, const Strategy *strategy, int operand, const Shape *shape, Layout *left, Layout *needed);
/* Of a split along an axis that is split: in which layout operand 0, of this shape, is left, and in which, with halos, a result needs it; or, with `gradient`, the
 * gradient of the result, and that of the operand. False: there is no such exchange. */
bool strategy_result_halos(const Node *node, const Strategy *strategy, int result, const Shape *shape, bool gradient, Layout *left,
                           Layout *needed);
/* Splits per factor (1: whole) to a strategy: a mesh of the factors in order, ranks left over last. */
void strategy_from_splits(const int32_t *splits, int nfactors, int nranks, Strategy *strategy);
/* A user's hint on a node to its strategy; checks all that docs/language.md asks of one. False after diagnostics. */
bool strategy_from_hint(const Graph *graph, const Node *node, const Hint *hint, bool strict_divide, Strategy *strategy, Diags *diags);
/* Of `hints found`, `((a, -), (a, -)) -> (a, b)`: adds how the operator splits the dimensions of its result that no operand has; the others must be split as the operands
 * are. False after diagnostics. */
bool strategy_from_result(const Graph *graph, const Node *node, const Hint *hint, bool strict_divide, Strategy *strategy, Diags *diags);
/* A user's tuple on a tensor (parameter, input, dataset, output strategy) to a layout. leftover_first: dataset strategies. */
bool layout_from_hint(const Graph *graph, const HintTuple *tuple, bool named, const TensorType *type, const char *what, bool leftover_first,
                      bool strict_divide, Layout *layout, Diags *diags);
/* The layout in which an input is delivered where its hint, the dataset setting or mode data_parallel says so; *given false: it is free.
 * False after diagnostics. */
bool input_layout(const Graph *graph, int input, Layout *layout, bool *given, Diags *diags);
/* Warns (uneven) when a split leaves the busiest rank this much over the average; returns whether it did, or would if it were not silenced. */
enum { UNEVEN_PERCENT = 1 };
bool uneven_warning(Diags *diags, Span span, const char *what, int64_t size, int64_t split);
/* The strategy that splits the node's batch, or whole. */
void strategy_batch(const Graph *graph, const Node *node, Strategy *strategy);
/* "((2, 4), (4, 1))": per operand, per dimension the split; false when a tuple cannot say it (several digits of other meshes). */
bool strategy_print(Text *text, const Node *node, const Graph *graph, const Strategy *strategy);

/* ---------------------------------------------------------------- propagate.c */

/* Before: a verified graph as lowered or simplified, types inferred, composite operators expanded; hints on nodes, inputs, states.
 * After: every forward node (nodes[0 .. nforward), all when nforward is 0) that is not a leaf has strategy and from; inputs and states
 * whose layout the user or the dataset fixes have it; conversions caused by an output strategy are in out_layout[node] (NULL: none), in the
 * graph's arena. Modes as in docs/language.md; search as in docs/architecture.md. Warns of conflicting
 * hints, says when there was no hint. A node that has a strategy already keeps it, and others follow from it as from a hint. False after
 * diagnostics. */
typedef struct Propagation {
    const Layout **out_layout; /* per node: the layout to which its result is converted by `-> (..)`, or NULL */
    struct Decision *decision; /* per node, in the graph's arena; NULL after propagate */
    bool costly;               /* hints that make a step move much more than none were warned of */
} Propagation;
bool propagate(Graph *graph, Propagation *propagation, Diags *diags);

/* What decided between candidates, in the order in which it is compared. BY_NOTHING: not decided by propagation; BY_ONE: there was one candidate; BY_SIDE: what its
 * operands need. */
typedef enum { BY_NOTHING, BY_ONE, BY_BYTES, BY_FLOPS, BY_SIDE, BY_BATCH, BY_TUPLE } DecidedBy;
typedef struct Alternative {
    const Strategy *strategy;
    int64_t bytes;    /* received, by all ranks, in converting its operands, results and their gradients, sums included */
    int64_t messages; /* communications of these */
    int64_t
        regret; /* bytes that it costs more than the one taken, the start of a message counted too; below 0: propagation ended before it was looked at again */
    double flops; /* of the busiest rank */
} Alternative;
enum { MAX_ALTERNATIVES = 4 };
/* How the strategy of a forward node was decided. */
typedef struct Decision {
    int hint;       /* the hinted node from which propagation reached it; its own id: it has the hint; -1: not reached */
    int from;       /* the neighbour from which it was reached, -1: none */
    bool by_search; /* pass search decided it, not propagation */
    int ncandidates;
    int nalternatives; /* recorded: the one taken, then the next best */
    Alternative alternative[MAX_ALTERNATIVES];
    DecidedBy by; /* what decided between the first two */
} Decision;
/* propagate, with the decisions recorded: for --explain. The strategies are the same. */
bool propagate_explained(Graph *graph, Propagation *propagation, Diags *diags);
