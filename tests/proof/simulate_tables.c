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

/* A row's largest and its sum are functions of all of it; its loss is one of these, less the share of each logit. */
bool simulate_loss(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const int last = in[0].local.ndim - 1;
    const int64_t length = in[0].local.dim[last], rows = shape_elements(&in[1].local);
    const uint32_t smoothing = simulate_number(node->attr[0].f), share = times(smoothing, inverse(integer(in[0].global.dim[last])));
    if (!is_whole(&in[0], last) || shape_elements(&in[0].local) != rows * length) return fault(why, n, "a row that is not whole");
    for (int64_t row = 0; row < rows; row++) {
        uint32_t whole = 0, taken = 0;
        uint64_t key = OP_cross_entropy_rows;
        for (int64_t k = 0; k < length; k++) {
            const uint32_t x = in[0].at[row * length + k];
            const bool own = in[1].at[row] == (uint32_t)k;
            whole = plus(whole, x);
            key = simulate_mix(key ^ x);
            taken = plus(taken, times(x, plus(share, own ? plus(1, negative(smoothing)) : 0)));
        }
        if (in[1].at[row] == SIM_POISON) taken = SIM_POISON;
        out[0].at[row] = plus(any_function(key, whole), negative(taken));
        out[1].at[row] = any_function(key + 1, whole);
        out[2].at[row] = any_function(key + 2, whole);
    }
    return true;
}

/* A function of a logit, less its share, and of its row's two numbers, times dy. */
bool simulate_loss_grad(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const int last = in[0].local.ndim - 1;
    const int64_t length = in[0].local.dim[last], rows = shape_elements(&in[1].local);
    const uint32_t smoothing = simulate_number(node->attr[0].f), share = times(smoothing, inverse(integer(in[0].global.dim[last])));
    if (!shape_equal(&in[0].local, &out->local) || in[0].begin[last] != out->begin[last] || shape_elements(&in[2].local) != rows)
        return fault(why, n, "not a number for each row");
    for (int64_t e = 0; e < rows * length; e++) {
        const int64_t row = e / length;
        const uint32_t label = in[2].at[row], own = label == in[0].begin[last] + e % length ? plus(1, negative(smoothing)) : 0;
        const uint32_t power = times(any_function(OP_exp, plus(in[0].at[e], negative(in[3].at[row]))), inverse(in[4].at[row]));
        out->at[e] = label == SIM_POISON ? SIM_POISON : times(in[1].at[row], plus(power, negative(plus(share, own))));
    }
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
