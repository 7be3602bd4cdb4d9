/* What a kernel costs on a machine: the longer of its arithmetic and its reading and writing, and its start. The arithmetic of products includes the packing of their
 * operands. */
#include "strategies/strategies.h"

static int64_t part_of(int64_t size, int factor, const Strategy *strategy) {
    const int64_t split = factor < 0 ? 1 : strategy_split(strategy, factor);
    return (size + split - 1) / split;
}

/* Of the largest box: an operand's or result's dimensions run over these factors. */
static double elements_of(const Shape *shape, const int8_t *factors, const Strategy *strategy) {
    double elements = 1;
    for (int d = 0; d < shape->ndim; d++)
        elements *= (double)part_of(shape->dim[d], factors[d], strategy);
    return elements;
}

/* Elements of the rows that are put, or added, into operand 0: so many of it, and of an update's slots, are read and written at most. 0: it is no such operator. */
static double elements_of_rows(const Graph *graph, const Node *node, const Strategy *strategy) {
    const int g = op_rows(node->op);
    if (g < 0) return 0;
    return elements_of(&graph->values.at[node->in[g]].type.shape, node->rule->in[g], strategy);
}

void part_sizes(const Rule *rule, const Strategy *strategy, double *size) {
    for (int f = 0; f < rule->nfactors; f++)
        size[f] = (double)part_of(rule->factor[f].size, f, strategy);
}

/* FLOPs of the largest part: of its products, and others. Where windows lie over an operand, its elements are more than the factors' points: what is no product computes at each of
 * these. */
static void count_flops(const Node *node, const Strategy *strategy, double largest, double *products, double *others) {
    const Rule *rule = node->rule;
    double size[MAX_FACTORS], points = 1;
    part_sizes(rule, strategy, size);
    for (int f = 0; f < rule->nfactors; f++)
        points *= size[f];
    *others = op_vector_flops(node->op, rule, size);
    *products = op_flops(node->op, rule, size) - *others;
    if (!op_table[node->op].product && points > 0 && largest > points) *others *= largest / points;
}

/* Of products of such elements. */
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

void kernel_count(KernelWork *work, const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy,
                  unsigned handed_in, unsigned handed_out) {
    double largest = 0, given = 0, whole = 0; /* bytes of all operands and results, handed or not */
    const double before = work->bytes;
    const double rows = elements_of_rows(graph, node, strategy);
    for (int k = 0; k < node->nout; k++) {
        const TensorType *type = &graph->values.at[node->out[k]].type;
        double elements = elements_of(&type->shape, node->rule->out[k], strategy);
        if (rows > 0 && rows < elements) elements = rows;
        largest = elements > largest ? elements : largest;
        given += elements;
        whole += elements * dtype_bytes[type->dtype];
        if (!(handed_out >> k & 1)) work->bytes += elements * dtype_bytes[type->dtype];
    }
    for (int i = 0; i < node->nin; i++) {
        const TensorType *type = &graph->values.at[node->in[i]].type;
        double elements = elements_of(&type->shape, node->rule->in[i], strategy);
        if (i == 0 && op_looks_up(node->op) && given < elements) elements = given;
        if (i < node->nout && rows > 0 && rows < elements) elements = rows;
        largest = elements > largest ? elements : largest;
        whole += elements * dtype_bytes[type->dtype];
        if (!(handed_in >> i & 1)) work->bytes += elements * dtype_bytes[type->dtype];
    }
    if (op_table[node->op].op_class == OP_CLASS_UPDATE) work->in_place_bytes += work->bytes - before;
    const DType dtype = graph->values.at[node->out[0]].type.dtype, factor = graph->values.at[node->in[0]].type.dtype;
    const double width = dtype_bytes[dtype] > dtype_bytes[F32] ? (double)dtype_bytes[dtype] / dtype_bytes[F32] : 1;
    const Machine *on = machine != NULL ? machine : &machine_cpu;
    double products, others;
    count_flops(node, strategy, largest, &products, &others);
    work->flops += products + others;
    work->arithmetic_s += products / on->flops[peak_of(factor)] + others * width / on->flops[PEAK_VECTOR];
    if (op_table[node->op].product && on->product_bytes_per_s > 0) work->arithmetic_s += whole / on->product_bytes_per_s;
}

double kernel_seconds(const Machine *machine, const KernelWork *work) {
    const Machine *on = machine != NULL ? machine : &machine_cpu;
    const double update_per_s = on->update_bytes_per_s > 0 ? on->update_bytes_per_s : on->memory_bytes_per_s;
    const double memory_s = work->bytes <= (double)on->cache_bytes
                                ? work->bytes / on->cache_bytes_per_s
                                : (work->bytes - work->in_place_bytes) / on->memory_bytes_per_s + work->in_place_bytes / update_per_s;
    return (work->arithmetic_s > memory_s ? work->arithmetic_s : memory_s) + on->kernel_s;
}

double operator_seconds(const Machine *machine, const Graph *graph, const Node *node, const Strategy *strategy) {
    KernelWork work = {0};
    if (node_is_leaf(node) || op_table[node->op].view || node->op == OP_write) return 0;
    kernel_count(&work, machine, graph, node, strategy, 0, 0);
    return kernel_seconds(machine, &work);
}
