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
/* A rank's kinds of arithmetic, each with its own speed: products, by the type of their elements; everything else, in f32. */
typedef enum { PEAK_F32, PEAK_F64, PEAK_F16, PEAK_BF16, PEAK_VECTOR, NPEAKS } Peak;
extern const char *const peak_name[NPEAKS]; /* "f32" */
/* Data that was read or written lies in the nearest cache that holds everything touched since. */
enum { MAX_CACHES = 3 };
typedef struct Cache {
    double bytes_per_s; /* read and written by kernels */
    int64_t bytes;
} Cache;
/* Where ranks are (ranks_per_node consecutive ones share a node), and how fast each is while all others do the same. */
typedef struct Machine {
    const char *name;
    int ranks_per_node;
    MachineLevel rank;              /* between ranks of one node */
    MachineLevel node;              /* between ranks of different nodes */
    double rank_cached_bytes_per_s; /* between ranks of one node, where the sent data lies in a cache; 0: as rank's */
    double flops[NPEAKS];
    MachineLevel product;      /* time of a product beside its arithmetic: a start, and the packing of its operands; bytes_per_s 0: none */
    double convolution_flops;  /* of convolutions and their gradients, f32; 0: those of products */
    double memory_bytes_per_s; /* read and written by kernels */
    double update_bytes_per_s; /* the same for updates, which overwrite what they read; 0: memory_bytes_per_s */
    int64_t memory_bytes;      /* that a rank has */
    Cache cache[MAX_CACHES];   /* the nearest first: each is larger and slower than the one before */
    int ncaches;
    double kernel_s; /* time of a kernel beside its arithmetic and its bytes */
    double overlap;  /* the share of a communication that can run while kernels do, 0 to 1 */
    bool cuda;       /* ranks compute on GPUs: kernels need memory beside tensors (ir/workspace.h) */
    bool assumed;    /* the machine file lacks some figures of kernels and memory, which are machine_cpu's */
} Machine;
extern const Machine machine_cpu, machine_gpu8; /* machine_cpu is the default */
const Machine *machine_named(const char *name); /* one of the two; NULL: none has this name */
/* Reads a machine file; name is for diagnostics. What it points to is in the arena. Figures of kernels and memory that it leaves out are machine_cpu's. False after
 * diagnostics. */
bool machine_read(Machine *machine, Arena *arena, Diags *diags, const char *name, const char *text, size_t n);
/* Whether groups of ranks along these digits stay within nodes. */
bool machine_within_node(const Machine *machine, const Digit *digits, int n, int nranks);
int64_t log2_ceil(int64_t n);                           /* rounds of messages in which each of n ranks can reach all */
void machine_print(Text *text, const Machine *machine); /* the text of its machine file, with four digits a number */
/* The value of --machine: cpu, gpu8 or the path of a file. False with *error: the file cannot be read; or EXIT_REJECTED, reported by
 * diagnostics. */
bool machine_find(const char *what, Arena *arena, Diags *diags, Machine *machine, Error *error);

/* ---------------------------------------------------------------- kernel.c  (docs/machine.md) */

/* The work of one kernel, or of several fused ones, on the rank with the largest parts. */
typedef struct KernelWork {
    double flops, bytes;           /* bytes: read and written */
    double product_s;              /* products that pack their operands: their arithmetic, packing and bytes; they run before the others */
    double arithmetic_s, moving_s; /* the other operators, at the machine's peaks for them */
} KernelWork;
/* The cache of the machine in which each operand and result lies; ncaches: none. */
typedef struct KernelCaches {
    int8_t in[MAX_IN], out[MAX_OUT];
} KernelCaches;
/* Adds an operator under a strategy (NULL: whole). handed_in, bit i: operand i comes from a kernel fused with this one, or a fused kernel
 * has read it already; handed_out, bit k: result k goes only to fused kernels. Neither is then read from or written to memory. caches NULL:
 * all lie in the cache that holds them together. machine NULL: machine_cpu. */
void kernel_count(KernelWork *work, const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy,
                  unsigned handed_in, unsigned handed_out, const KernelCaches *caches);
double kernel_seconds(const Machine *machine, const KernelWork *work);
/* Seconds to copy bytes from one cache into another (numbered as in KernelCaches). machine NULL: machine_cpu. */
double copy_seconds(const Machine *machine, double bytes, int from, int to);
int machine_cache(const Machine *machine, double bytes); /* the nearest cache that holds these bytes; ncaches: none */
/* The size of each factor of the rule in the largest part, for op_flops. strategy NULL: whole. */
void part_sizes(const Rule *rule, const Strategy *strategy, double *size);
/* Seconds of an operator alone in a kernel; 0 for a leaf, a view, a write in place. */
double operator_seconds(const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy);

/* ---------------------------------------------------------------- tables.c */

/* Per state: whether it is updated only in the rows that an index names. */
bool *states_by_rows(const Graph *graph, Arena *arena);
/* The layout in which that update needs the gradient's rows, [.., d]: all rows, in the columns of the table that a rank has. */
void rows_of_table(const Layout *table, int ndim, Layout *rows);

/* ---------------------------------------------------------------- redistribute.c  (docs/redistribution.md) */

typedef enum { REDISTRIBUTE_AUTO, REDISTRIBUTE_BOUND, REDISTRIBUTE_CANONICAL } RedistributePolicy;

enum { MAX_CONVERSION_STEPS = 2 * MAX_NDIM + NREDUCTIONS + 2 };
/* One step of a conversion: `kind` converts the value to layout `to`. */
typedef struct ConversionStep {
    CommKind kind;
    Layout to;
} ConversionStep;

/* The time of one or several steps: the messages that a rank waits for, one after another, and the bytes of the busiest rank over the
 * slowest link used. */
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
    Traffic bound;          /* the least that any algorithm must receive */
    MoveSeconds seconds;    /* on the machine; between two device orders, as if positions were ranks */
    int rounds;
    int64_t peak_elements; /* of the worst step: largest source + target + staging (what its worst rank receives or sends) */
    ConversionStep step[MAX_CONVERSION_STEPS];
} Conversion;

/* Plans the conversion of a tensor. policy canonical: AllReduce the partials, AllGather each dimension from the first digit that differs,
 * StridedSlice; bound: the one step that receives the fewest elements; auto: that step, or a chain of gathers that receives as many with
 * fewer messages; on many ranks also plans that receive more but are faster (docs/redistribution.md). A step is named after a library's
 * collective where that is exactly what it does, the boxes that it joins are even and it receives no more than the exchange. machine (NULL:
 * machine_cpu) weighs messages against bytes. Layouts with one device order give the steps of the natural order, with that device order.
 * Between two orders auto and bound are one exchange; canonical gathers the whole tensor first. False with *why when `to` is partial over
 * digits that `from` is not, or values of two reductions would have to be completed at once. Equal layouts: no steps. */
bool redistribute(const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, int nranks, RedistributePolicy policy,
                  const Machine *machine, Conversion *conversion, const char **why);
/* The time and traffic of single steps on a machine and a number of ranks, remembered across conversions; in the arena. */
typedef struct Steps Steps;
Steps *steps_create(Arena *arena, const Machine *machine, int nranks);
/* Steps on a machine like that of `of`, except that `joined` messages take as long as one there. Both share what was counted. */
Steps *steps_joined(Steps *of, const Machine *machine, int joined);
/* The seconds of the plan of redistribute with policy auto, for layouts in the natural order. Where the plan takes `most` or more, which is
 * known sooner, at least `most`. INFINITY where there is no plan. */
MoveSeconds redistribute_seconds(Steps *steps, const Layout *from, const Layout *to, const Shape *shape, int dtype_bytes, double most);
/* ---------------------------------------------------------------- links.c */

/* The messages of one step, their latencies, and the bandwidth of its links. machine NULL: machine_cpu. */
typedef struct StepLinks {
    int64_t messages; /* as in MoveSeconds */
    double messages_s;
    double bytes_per_s; /* of the slowest link that they take */
} StepLinks;
StepLinks step_links(const Machine *machine, CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks);
/* The time of one step in which the busiest rank receives or sends busiest_bytes. machine NULL: machine_cpu. */
MoveSeconds step_seconds(const Machine *machine, CommKind kind, const Layout *from, const Layout *to, const Shape *shape,
                         int64_t busiest_bytes, int nranks);
/* ---------------------------------------------------------------- traffic.c */

/* Received and sent elements of one step, from box.c's formulas without enumerating all ranks where symmetry allows. */
void traffic_step(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *received, Traffic *sent);
/* Received elements of the direct exchange between two layouts (no partial digits), in total over all ranks; memoised by the caller. */
int64_t traffic_exchange(const Layout *from, const Layout *to, const Shape *shape, int nranks);
void traffic_bound(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *bound);

/* ---------------------------------------------------------------- candidates.c */

/* The strategies that a forward node may have on nranks ranks: every ordered factorisation of nranks over its splittable factors, no split
 * larger than its factor (or not dividing it where it must). If there is none: those of the largest divisor of nranks that has one, the
 * remaining ranks being the last, fastest digit. In lexicographic order of the split tuple, the first factor most significant. */
typedef struct Candidates {
    int n;
    Strategy *at;
} Candidates;
Candidates candidates(const Node *node, int nranks, Arena *arena);
int64_t candidates_count(const Node *node, int nranks); /* the number of candidates, without making them */
/* For an operator that reads an operand, of this shape, through windows: the layout in which the gradient of its result is left, and the
 * one, with halos, in which the operand's gradient needs it. False: there are no windows, or their dimensions stay whole. */
bool strategy_gradient_halos(const Node *node, const Strategy *strategy, int operand, const Shape *shape, Layout *left, Layout *needed);
/* For the operator `split` along a sharded axis: the layout in which operand 0, of this shape, is left, and the one, with halos, in which a
 * result needs it. With `gradient`: the layout of the result's gradient, and the one in which the operand's gradient needs it. False: there
 * is no such exchange. */
bool strategy_result_halos(const Node *node, const Strategy *strategy, int result, const Shape *shape, bool gradient, Layout *left,
                           Layout *needed);
/* Turns splits per factor (1: whole) into a strategy: a mesh of the factors in order, the remaining ranks last. */
void strategy_from_splits(const int32_t *splits, int nfactors, int nranks, Strategy *strategy);
/* Turns a user's hint on a node into its strategy; checks all that docs/language.md demands of one. False after diagnostics. */
bool strategy_from_hint(const Graph *graph, const Node *node, const Hint *hint, bool strict_divide, Strategy *strategy, Diags *diags);
/* For `hints found`, `((a, -), (a, -)) -> (a, b)`: adds the splits of the result's dimensions that no operand has; the others must be split
 * as in the operands. False after diagnostics. */
bool strategy_from_result(const Graph *graph, const Node *node, const Hint *hint, bool strict_divide, Strategy *strategy, Diags *diags);
/* Turns a user's tuple on a tensor (parameter, input, dataset, output strategy) into a layout. leftover_first: dataset strategies. */
bool layout_from_hint(const Graph *graph, const HintTuple *tuple, bool named, const TensorType *type, const char *what, bool leftover_first,
                      bool strict_divide, Layout *layout, Diags *diags);
/* The layout in which an input is delivered where its hint, the dataset setting or mode data_parallel says so; *given false: it is free.
 * False after diagnostics. */
bool input_layout(const Graph *graph, int input, Layout *layout, bool *given, Diags *diags);
/* Warns (uneven) when a split leaves the busiest rank UNEVEN_PERCENT over the average; returns whether it did, or would if not silenced. */
enum { UNEVEN_PERCENT = 1 };
bool uneven_warning(Diags *diags, Span span, const char *what, int64_t size, int64_t split);
/* The strategy that splits the node's batch, or whole. */
void strategy_batch(const Graph *graph, const Node *node, Strategy *strategy);
/* "((2, 4), (4, 1))": per operand, per dimension the split; false when a tuple cannot express it (digits of another mesh). */
bool strategy_print(Text *text, const Node *node, const Graph *graph, const Strategy *strategy);

/* ---------------------------------------------------------------- propagate.c */

/* Before: a verified graph as lowered or simplified, types inferred, composite operators expanded; hints on nodes, inputs, states. After:
 * every forward node (nodes[0 .. nforward), all when nforward is 0) that is not a leaf has strategy and from; inputs and states whose
 * layout the user or the dataset fixes have it; conversions caused by an output strategy are in out_layout[node] (NULL: none), in the
 * graph's arena. Modes as in docs/language.md; search as in docs/architecture.md. Warns of conflicting hints and notes when there was no
 * hint. A node that already has a strategy keeps it, and others follow from it as from a hint. False after diagnostics. */
typedef struct Propagation {
    const Layout **out_layout; /* per node: the layout to which its result is converted by `-> (..)`, or NULL */
    struct Decision *decision; /* per node, in the graph's arena; NULL after propagate */
    bool costly;               /* it was warned of hints that make a step move much more than without them */
} Propagation;
bool propagate(Graph *graph, Propagation *propagation, Diags *diags);

/* The criterion that decided between candidates, in the order in which they are applied. BY_NOTHING: not decided by propagation; BY_ONE:
 * there was one candidate; BY_SIDE: the cost of what its operands need. */
typedef enum { BY_NOTHING, BY_ONE, BY_BYTES, BY_FLOPS, BY_SIDE, BY_BATCH, BY_TUPLE } DecidedBy;
typedef struct Alternative {
    const Strategy *strategy;
    int64_t bytes;    /* received, by all ranks, in converting its operands, results and their gradients, sums included */
    int64_t messages; /* number of these conversions */
    int64_t
        regret; /* how many bytes more it costs than the one taken, messages' starts included; below 0: propagation ended before trying it again */
    double flops; /* of the busiest rank */
} Alternative;
enum { MAX_ALTERNATIVES = 4 };
/* How the strategy of a forward node was decided. */
typedef struct Decision {
    int hint;       /* the hinted node from which propagation reached it; its own id: it has the hint itself; -1: not reached */
    int from;       /* the neighbour from which it was reached, -1: none */
    bool by_search; /* pass search decided it, not propagation */
    int ncandidates;
    int nalternatives; /* recorded: the one taken, then the next best */
    Alternative alternative[MAX_ALTERNATIVES];
    DecidedBy by; /* what decided between the first two */
} Decision;
/* propagate, with the decisions recorded: for --explain. The strategies are the same. */
bool propagate_explained(Graph *graph, Propagation *propagation, Diags *diags);
