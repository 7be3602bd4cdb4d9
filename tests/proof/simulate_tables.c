/* Operators of indices, in plans that are simulated: pick, tables and their updates, one_hot. */
#include "tests/proof/simulate_numbers.h"

/* Element e of `narrow` and the one at index[e] of row e of `wide`: the ranks that do not have it take and give zero. */
bool simulate_lookup(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    bool back = node->op == OP_pick_grad;
    const SimTensor *wide = back ? &out[0] : &in[0], *narrow = back ? &in[0] : &out[0], *index = &in[1];
    int ndim = narrow->local.ndim;
    if (!shape_equal(&narrow->local, &index->local) || wide->local.ndim != ndim + 1) return fault(why, n, "not an index for each row");
    for (int d = 0; d < ndim; d++)
        if (wide->local.dim[d] != narrow->local.dim[d]) return fault(why, n, "not an index for each row");
    int64_t length = wide->local.dim[ndim], first = wide->begin[ndim];
    for (int64_t e = 0, count = shape_elements(&narrow->local); e < count; e++)
        for (int64_t k = 0; k < length; k++) {
            uint32_t *element = &wide->at[e * length + k];
            bool poisoned = index->at[e] == SIM_POISON, here = index->at[e] == first + k;
            if (back)
                *element = poisoned ? SIM_POISON : here ? narrow->at[e] : 0;
            else if (poisoned || here || k == 0)
                narrow->at[e] = poisoned ? SIM_POISON : here ? *element : 0;
        }
    for (int64_t e = 0, count = shape_elements(&narrow->local); e < count && length == 0 && !back; e++)
        narrow->at[e] = 0;
    return true;
}

/* For each index the row of the table with that number, or the other way round added to it; rows that are elsewhere count for nothing. */
bool simulate_table_rows(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    bool back = node->op == OP_embedding_grad;
    const SimTensor *table = back ? &out[0] : &in[0], *rows = back ? &in[0] : &out[0], *index = &in[1];
    int64_t width = table->local.dim[1], indices = shape_elements(&index->local);
    if (shape_elements(&rows->local) != indices * width) return fault(why, n, "not a row for each index");
    for (int64_t e = 0, count = back ? shape_elements(&table->local) : indices * width; e < count; e++)
        out->at[e] = 0;
    for (int64_t i = 0; i < indices; i++)
        for (int64_t r = 0; r < table->local.dim[0]; r++)
            for (int64_t k = 0; k < width && (index->at[i] == SIM_POISON || index->at[i] == table->begin[0] + r); k++) {
                uint32_t *entry = &table->at[r * width + k], *own = &rows->at[i * width + k];
                if (index->at[i] == SIM_POISON)
                    *(back ? entry : own) = SIM_POISON;
                else if (back)
                    *entry = plus(*entry, *own);
                else
                    *own = *entry;
            }
    return true;
}

/* Of a table and its slots what the rows of a gradient say of the rows that indices name. A poisoned index poisons all. */
bool simulate_table_update(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const int at = node->nout;
    const bool lazy = node->op == OP_lazy_adam;
    const SimTensor *table = &in[0], *g = &in[at], *index = &in[at + 1];
    const int64_t width = table->local.dim[1], indices = shape_elements(&index->local);
    uint32_t rate = simulate_number(node->attr[0].f);
    if (node->nin == at + 3 + lazy) rate = times(rate, in[node->nin - 1].at[0]);
    if (!is_whole(index, 0) || shape_elements(&g->local) != indices * width) return fault(why, n, "not all rows that a table gets");
    for (int64_t e = 0; e < shape_elements(&table->local); e++) {
        uint32_t sum = 0;
        bool named = false;
        for (int64_t i = 0; i < indices; i++) {
            const bool poisoned = index->at[i] == SIM_POISON;
            if (!poisoned && index->at[i] != table->begin[0] + e / width) continue;
            named = true;
            sum = plus(sum, poisoned ? SIM_POISON : g->at[i * width + e % width]);
        }
        for (int k = 0; k < node->nout; k++)
            out[k].at[e] = in[k].at[e];
        if (!named) continue;
        uint32_t step = sum;
        if (lazy) {
            const uint32_t beta1 = simulate_number(node->attr[1].f), beta2 = simulate_number(node->attr[2].f);
            out[1].at[e] = plus(times(beta1, in[1].at[e]), times(plus(1, negative(beta1)), sum));
            out[2].at[e] = plus(times(beta2, in[2].at[e]), times(plus(1, negative(beta2)), times(sum, sum)));
            step = times(out[1].at[e], any_function(OP_lazy_adam, times(in[at + 2].at[0], any_function(OP_adam, out[2].at[e]))));
        }
        out[0].at[e] = plus(in[0].at[e], negative(times(rate, step)));
    }
    return true;
}

bool simulate_one_hot(const SimTensor *in, SimTensor *out, char *why, size_t n) {
    int64_t length = out->local.dim[out->local.ndim - 1];
    if (shape_elements(&out->local) != shape_elements(&in->local) * length) return fault(why, n, "not a row for each index");
    for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++) {
        uint32_t index = in->at[e / length];
        out->at[e] = index == SIM_POISON ? SIM_POISON : index == out->begin[out->local.ndim - 1] + e % length;
    }
    return true;
}
