/* What a kernel costs on a machine: the longer of its arithmetic and its memory traffic, plus its start. Where products take time to pack their operands, that is part of their
 * arithmetic, and the operators fused with a product run after it. */
#include "strategies/strategies.h"

static int64_t part_of(int64_t size, int factor, const Strategy *strategy) {
    const int64_t split = factor < 0 ? 1 : strategy_split(strategy, factor);
    return (size + split - 1) / split;
}

/* Elements of the largest box of an operand or result whose dimensions run over these factors. */
static double elements_of(const Shape *shape, const int8_t *factors, const Strategy *strategy) {
    double elements = 1;
    for (int d = 0; d < shape->ndim; d++)
        elements *= (double)part_of(shape->dim[d], factors[d], strategy);
    return elements;
}

/* Elements of the rows that are put, or added, into operand 0: at most as many elements of it, and of an update's slots, are read and
 * written. 0: not such an operator. */
static double elements_of_rows(const Graph *graph, const Node *node, const Strategy *strategy) {
    const int g = op_rows(node->op);
    if (g < 0) return 0;
    return elements_of(&graph->values.at[node->in[g]].type.shape, node->rule->in[g], strategy);
}

void part_sizes(const Rule *rule, const Strategy *strategy, double *size) {
    for (int f = 0; f < rule->nfactors; f++)
        size[f] = (double)part_of(rule->factor[f].size, f, strategy);
}

/* Counts for the largest part: FLOPs of its products, other FLOPs, and the effort of the others on a core (Op.effort). Where windows lie
 * over an operand, it has more elements than the factors have points; an operator that is no product computes at each element. */
static void count_flops(const Node *node, const double *size, double largest, double *products, double *others, double *effort) {
    const Rule *rule = node->rule;
    double points = 1;
    for (int f = 0; f < rule->nfactors; f++)
        points *= size[f];
    *others = op_vector_flops(node->op, rule, size);
    *effort = op_effort(node->op, rule, size);
    *products = op_flops(node->op, rule, size) - *others;
    if (op_table[node->op].product || points == 0 || largest <= points) return;
    *others *= largest / points;
    *effort *= largest / points;
}

/* The peak for products of this type. */
static Peak peak_of(DType dtype) {
    switch (dtype) {
    case F64:
        return PEAK_F64;
    case F16:
        return PEAK_F16;
    case BF16:
        return PEAK_BF16;
    default:
        return PEAK_F32;
    }
}

typedef enum { MOVE_READ, MOVE_WRITE, MOVE_UPDATE } Moving; /* an update writes over what it reads */

/* Seconds to move bytes that lie in a cache (0: the nearest) or, after the last one, only in memory. A core fetches a line before it writes
 * it: for two bytes of a copy, one read and one written, the memory moves three. */
static double moving_seconds(const Machine *on, double bytes, int cache, Moving moving) {
    if (cache < on->ncaches) return bytes / on->cache[cache].bytes_per_s;
    if (moving == MOVE_UPDATE && on->update_bytes_per_s > 0) return bytes / on->update_bytes_per_s;
    const bool fetches = moving != MOVE_UPDATE && on->product.bytes_per_s > 0;
    return bytes * (!fetches ? 1 : moving == MOVE_WRITE ? 4.0 / 3 : 2.0 / 3) / on->memory_bytes_per_s;
}

int machine_cache(const Machine *machine, double bytes) {
    int cache = 0;
    while (cache < machine->ncaches && bytes > (double)machine->cache[cache].bytes)
        cache++;
    return cache;
}

double copy_seconds(const Machine *machine, double bytes, int from, int to) {
    const Machine *on = machine != NULL ? machine : &machine_cpu;
    return moving_seconds(on, bytes, from, MOVE_READ) + moving_seconds(on, bytes, to, MOVE_WRITE) + on->kernel_s;
}

/* What an operator reads and writes. */
typedef struct Touched {
    double largest, given; /* elements: of the largest operand or result, of all results */
    double whole, factors; /* bytes: of all operands and results, of operands alone */
    double moved;          /* bytes not handed from one kernel to another */
    double moving_s;       /* seconds of these, by the cache in which they lie */
} Touched;

static void touch(Touched *touched, const Machine *on, double elements, DType dtype, bool handed, const int8_t *cache, Moving moving) {
    const double bytes = elements * dtype_bytes[dtype];
    touched->largest = elements > touched->largest ? elements : touched->largest;
    touched->whole += bytes;
    if (handed) return;
    touched->moved += bytes;
    if (cache != NULL) touched->moving_s += moving_seconds(on, bytes, *cache, moving);
}

static Touched count_touched(const Machine *on, const Graph *graph, const Node *node, const Strategy *strategy, unsigned handed_in,
                             unsigned handed_out, const KernelCaches *caches) {
    const bool update = op_table[node->op].op_class == OP_CLASS_UPDATE;
    const double rows = elements_of_rows(graph, node, strategy);
    Touched touched = {0};
    for (int k = 0; k < node->nout; k++) {
        const TensorType *type = &graph->values.at[node->out[k]].type;
        double elements = elements_of(&type->shape, node->rule->out[k], strategy);
        if (rows > 0 && rows < elements) elements = rows;
        touched.given += elements;
        touch(&touched, on, elements, type->dtype, handed_out >> k & 1, caches != NULL ? &caches->out[k] : NULL,
              update ? MOVE_UPDATE : MOVE_WRITE);
    }
    for (int i = 0; i < node->nin; i++) {
        const TensorType *type = &graph->values.at[node->in[i]].type;
        double elements = elements_of(&type->shape, node->rule->in[i], strategy);
        if (i == 0 && op_looks_up(node->op) && touched.given < elements) elements = touched.given;
        if (i < node->nout && rows > 0 && rows < elements) elements = rows;
        touched.factors += elements * dtype_bytes[type->dtype];
        touch(&touched, on, elements, type->dtype, handed_in >> i & 1, caches != NULL ? &caches->in[i] : NULL,
              update ? MOVE_UPDATE : MOVE_READ);
    }
    if (caches == NULL)
        touched.moving_s = moving_seconds(on, touched.moved, machine_cache(on, touched.moved), update ? MOVE_UPDATE : MOVE_READ);
    return touched;
}

/* Bytes per second at which so many bytes are moved when they are touched repeatedly. */
static double rate_of(const Machine *on, double bytes) {
    const int cache = machine_cache(on, bytes);
    return cache < on->ncaches ? on->cache[cache].bytes_per_s : on->memory_bytes_per_s;
}

/* Elements of the weights of windows: only the weights lack the factor of the images. */
static double weight_elements(const Graph *graph, const Node *node, const Strategy *strategy) {
    const Rule *rule = node->rule;
    for (int k = 0; k < node->nin + node->nout; k++) {
        const int8_t *factors = k < node->nin ? rule->in[k] : rule->out[k - node->nin];
        if (factors[0] != 0)
            return elements_of(&graph->values.at[k < node->nin ? node->in[k] : node->out[k - node->nin]].type.shape, factors, strategy);
    }
    return 0;
}

/* Seconds of a convolution beside its products. whole, weights: bytes of all operands and results, of the weights; images: how many read
 * the weights. Each byte is read and written once more. */
static double blocking_seconds(const Machine *on, const Rule *rule, double whole, double weights, double images) {
    const double seen = weights * rule->inside, moved = 2 * (whole - weights + seen);
    return moved / rate_of(on, moved) + (rule->again ? images * seen / rate_of(on, 0) : 0);
}

void kernel_count(KernelWork *work, const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy,
                  unsigned handed_in, unsigned handed_out, const KernelCaches *caches) {
    const Machine *on = machine != NULL ? machine : &machine_cpu;
    const Touched touched = count_touched(on, graph, node, strategy, handed_in, handed_out, caches);
    work->bytes += touched.moved;
    const DType dtype = graph->values.at[node->out[0]].type.dtype, factor = graph->values.at[node->in[0]].type.dtype;
    const double width = dtype_bytes[dtype] > dtype_bytes[F32] ? (double)dtype_bytes[dtype] / dtype_bytes[F32] : 1;
    double products, others, effort, size[MAX_FACTORS];
    part_sizes(node->rule, strategy, size);
    count_flops(node, size, touched.largest, &products, &others, &effort);
    work->flops += products + others;
    const bool windows = node->rule->inside > 0, convolves = windows && node->rule->blocked && on->convolution_flops > 0;
    const double peak = on->flops[peak_of(factor)] * (convolves ? on->convolution_flops / on->flops[PEAK_F32] : 1);
    const double vector_s = (on->product.bytes_per_s > 0 ? effort : others) * width / on->flops[PEAK_VECTOR], product_s = products / peak;
    if (op_table[node->op].product && on->product.bytes_per_s > 0) {
        /* The operators fused with a product run after it has packed its operands. */
        const double packing_s =
            windows && node->rule->blocked
                ? blocking_seconds(on, node->rule, touched.whole, weight_elements(graph, node, strategy) * dtype_bytes[factor], size[0])
                : on->product.latency_s + touched.factors / on->product.bytes_per_s;
        work->product_s += product_s * (windows ? node->rule->inside : 1) + packing_s + vector_s + touched.moving_s;
    } else {
        work->arithmetic_s += product_s + vector_s;
        work->moving_s += touched.moving_s;
    }
}

double kernel_seconds(const Machine *machine, const KernelWork *work) {
    const Machine *on = machine != NULL ? machine : &machine_cpu;
    return work->product_s + (work->arithmetic_s > work->moving_s ? work->arithmetic_s : work->moving_s) + on->kernel_s;
}

double operator_seconds(const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy) {
    KernelWork work = {0};
    if (node_is_leaf(node) || op_table[node->op].view || node->op == OP_write) return 0;
    kernel_count(&work, machine, graph, node, strategy, 0, 0, NULL);
    return kernel_seconds(machine, &work);
}
