/* What each operator means for layouts: written from the operators' definitions, never derived from ir's table of rules, so that a mistake there
 * does not prove itself. */
#include "proof/internal.h"
#include "proof/cut.h"
#include "proof/windows.h"

#include <string.h>

static bool fail(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

/* Every result dimension is a letter; operands align right and repeat where their size is 1. */
static bool broadcast(const Graph *graph, const Node *node, Letters *letters, bool exact, char *why, size_t n) {
    Plain y = plain_of(graph, node->nout ? node->out[0] : node->in[0]);
    int first = letters->n;
    for (int d = 0; d < y.ndim; d++)
        letter_new(letters, y.dim[d]);
    for (int k = 0; k < node->nout; k++) {
        Plain out = plain_of(graph, node->out[k]);
        if (out.ndim != y.ndim) return fail(why, n, "results of different shapes");
        for (int d = 0; d < y.ndim; d++) {
            if (out.dim[d] != y.dim[d]) return fail(why, n, "results of different shapes");
            letters->out[k][out.hidden + d] = (int8_t)(first + d);
        }
    }
    for (int i = 0; i < node->nin; i++) {
        Plain x = plain_of(graph, node->in[i]);
        if (x.ndim > y.ndim || (exact && x.ndim != y.ndim)) return fail(why, n, "operand has another number of dimensions than the result");
        for (int d = 0; d < x.ndim; d++) {
            int at = d + y.ndim - x.ndim;
            if (x.dim[d] == y.dim[at])
                letters->in[i][x.hidden + d] = (int8_t)(first + at);
            else if (x.dim[d] != 1 || exact)
                return fail(why, n, "operand does not broadcast to the result");
        }
    }
    return true;
}

static bool contraction(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    Plain a = plain_of(graph, node->in[0]), b = plain_of(graph, node->in[1]), y = plain_of(graph, node->out[0]);
    if (a.ndim < 2 || b.ndim < 2 || y.ndim < 2) return fail(why, n, "a matrix product of something with fewer than 2 dimensions");
    bool ta = node->attr[0].i != 0, tb = node->attr[1].i != 0;
    int am = a.ndim - (ta ? 1 : 2), ak = a.ndim - (ta ? 2 : 1), bk = b.ndim - (tb ? 1 : 2), bn = b.ndim - (tb ? 2 : 1);
    if (a.dim[ak] != b.dim[bk] || y.dim[y.ndim - 2] != a.dim[am] || y.dim[y.ndim - 1] != b.dim[bn])
        return fail(why, n, "sizes of the matrix product differ");
    int m = letter_new(letters, a.dim[am]), k = letter_new(letters, a.dim[ak]), c = letter_new(letters, b.dim[bn]);
    letters->in[0][a.hidden + am] = (int8_t)m;
    letters->in[0][a.hidden + ak] = (int8_t)k;
    letters->in[1][b.hidden + bk] = (int8_t)k;
    letters->in[1][b.hidden + bn] = (int8_t)c;
    letters->out[0][y.hidden + y.ndim - 2] = (int8_t)m;
    letters->out[0][y.hidden + y.ndim - 1] = (int8_t)c;
    int nbatch = y.ndim - 2;
    const Plain operand[2] = {a, b};
    for (int d = 0; d < nbatch; d++) {
        int letter = letter_new(letters, y.dim[d]);
        letters->out[0][y.hidden + d] = (int8_t)letter;
        for (int i = 0; i < 2; i++) {
            int at = d - (nbatch - (operand[i].ndim - 2));
            if (at < 0) continue;
            if (operand[i].dim[at] == y.dim[d])
                letters->in[i][operand[i].hidden + at] = (int8_t)letter;
            else if (operand[i].dim[at] != 1)
                return fail(why, n, "batch sizes of the matrix product differ");
        }
    }
    return a.ndim <= y.ndim && b.ndim <= y.ndim ? true : fail(why, n, "the result has too few batch dimensions");
}

static bool einsum(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    int of[256];
    for (int i = 0; i < 256; i++)
        of[i] = -1;
    const char *at = node->attr[0].text;
    if (!at) return fail(why, n, "einsum without a spec");
    for (int part = 0; part <= node->nin; part++) {
        Plain x = plain_of(graph, part < node->nin ? node->in[part] : node->out[0]);
        int8_t *map = part < node->nin ? letters->in[part] : letters->out[0];
        for (int d = 0; d < x.ndim; d++, at++) {
            if (*at < 'a' || *at > 'z') return fail(why, n, "einsum's spec does not fit its operands");
            int *letter = &of[(unsigned char)*at];
            if (*letter < 0) {
                if (part == node->nin) return fail(why, n, "einsum's result has a letter that no operand has");
                *letter = letter_new(letters, x.dim[d]);
            }
            if (*letter < 0 || letters->size[*letter] != x.dim[d]) return fail(why, n, "einsum: one letter, two sizes");
            for (int e = 0; e < d; e++)
                if (map[x.hidden + e] == *letter) return fail(why, n, "einsum: a letter twice in one tensor");
            map[x.hidden + d] = (int8_t)*letter;
        }
        const char *separator = part < node->nin - 1 ? "," : part == node->nin - 1 ? "->" : "";
        if (strncmp(at, separator, strlen(separator))) return fail(why, n, "einsum's spec does not fit its operands");
        at += strlen(separator);
    }
    return *at ? fail(why, n, "einsum's spec does not fit its operands") : true;
}

/* Which dimensions of x (without the hidden one) are reduced. */
static bool axes_of(const Attr *axes, int ndim, bool *reduced) {
    for (int d = 0; d < ndim; d++)
        reduced[d] = !axes->given;
    for (int i = 0; axes->given && i < axes->n; i++) {
        int64_t d = axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i];
        if (d < 0 || d >= ndim || reduced[d]) return false;
        reduced[d] = true;
    }
    return true;
}

/* `wide` has all dimensions; `narrow` lacks the reduced ones (or has them with size 1). */
static bool reduction(const Attr *axes, Plain wide, Plain narrow, Letters *letters, int8_t *wide_map, int8_t *narrow_map, char *why,
                      size_t n) {
    bool reduced[MAX_NDIM];
    if (!axes_of(axes, wide.ndim, reduced)) return fail(why, n, "axes out of range");
    bool kept = narrow.ndim == wide.ndim;
    int at = 0;
    for (int d = 0; d < wide.ndim; d++) {
        int letter = letter_new(letters, wide.dim[d]);
        wide_map[wide.hidden + d] = (int8_t)letter;
        if (reduced[d] && !kept) continue;
        if (at >= narrow.ndim || narrow.dim[at] != (reduced[d] ? 1 : wide.dim[d]))
            return fail(why, n, "shapes of the reduction do not fit");
        if (!reduced[d]) narrow_map[narrow.hidden + at] = (int8_t)letter;
        at++;
    }
    return at == narrow.ndim ? true : fail(why, n, "shapes of the reduction do not fit");
}

static bool permutation(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    Plain x = plain_of(graph, node->in[0]), y = plain_of(graph, node->out[0]);
    const Attr *perm = &node->attr[0];
    bool seen[MAX_NDIM] = {false};
    if (x.ndim != y.ndim || (perm->given && perm->n != x.ndim)) return fail(why, n, "perm does not fit");
    for (int d = 0; d < x.ndim; d++)
        letters->in[0][x.hidden + d] = (int8_t)letter_new(letters, x.dim[d]);
    for (int d = 0; d < y.ndim; d++) {
        int64_t from = perm->given ? perm->ints[d] : x.ndim - 1 - d;
        if (from < 0) from += x.ndim;
        if (from < 0 || from >= x.ndim || seen[from] || x.dim[from] != y.dim[d]) return fail(why, n, "perm does not fit");
        seen[from] = true;
        letters->out[0][y.hidden + d] = letters->in[0][x.hidden + from];
    }
    return true;
}

static bool narrowing(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    Plain x = plain_of(graph, node->in[0]), y = plain_of(graph, node->out[0]);
    if (y.ndim > x.ndim || x.hidden != y.hidden) return fail(why, n, "sum_to a shape with more dimensions");
    for (int d = 0; d < x.ndim && x.hidden + d < MAX_NDIM; d++) {
        int letter = letter_new(letters, x.dim[d]), at = d - (x.ndim - y.ndim);
        letters->in[0][x.hidden + d] = (int8_t)letter;
        if (at < 0) continue;
        if (y.dim[at] == x.dim[d])
            letters->out[0][x.hidden + at] = (int8_t)letter;
        else if (y.dim[at] != 1)
            return fail(why, n, "sum_to a shape that does not broadcast back");
    }
    return true;
}

/* All tensors have one shape. Each row along the axis is needed whole, so the axis has no letter. */
static bool by_rows(const Graph *graph, const Node *node, int64_t axis, Letters *letters, char *why, size_t n) {
    Plain y = plain_of(graph, node->out[0]);
    if (axis < 0) axis += y.ndim;
    if (axis < 0 || axis >= y.ndim) return fail(why, n, "axis out of range");
    for (int i = 0; i < node->nin; i++) {
        Plain x = plain_of(graph, node->in[i]);
        if (x.ndim != y.ndim || memcmp(x.dim, y.dim, sizeof *x.dim * (size_t)x.ndim))
            return fail(why, n, "operand of another shape than the result");
    }
    for (int d = 0; d < y.ndim; d++) {
        if (d == axis) continue;
        letters->out[0][y.hidden + d] = (int8_t)letter_new(letters, y.dim[d]);
        for (int i = 0; i < node->nin; i++)
            letters->in[i][y.hidden + d] = letters->out[0][y.hidden + d];
    }
    return true;
}

/* The axis of softmax and similar operators. */
static int64_t axis_given(const Node *node) {
    return node->attr[0].given ? node->attr[0].i : -1;
}

/* Whether an operand or result has a number per row, query or channel, or terms of these: it is f32 where the others have 16 bits. */
static bool is_wide(const Node *node, bool result, int k) {
    if (node->op == OP_layer_norm || node->op == OP_rms_norm || node->op == OP_batch_norm || node->op == OP_dot_product_attention)
        return result && k > 0;
    if (node->op == OP_layer_norm_grad || node->op == OP_rms_norm_grad || node->op == OP_batch_norm_grad) return !result && k > 2;
    if (node->op == OP_attention_grad) return !result && (k == 5 || k == 6);
    if (node->op == OP_cross_entropy_rows) return result;
    if (node->op == OP_cross_entropy_rows_grad) return !result && k > 0;
    return node->op == OP_attention_sums ? result || k == 3 : node->op == OP_attention_most && result;
}

/* Updates that may have one more operand: the number by which a schedule multiplies the learning rate. */
static bool takes_rate(OpCode op) {
    return op == OP_sgd || op == OP_momentum || op == OP_adam || op == OP_adamw || op == OP_lion || op == OP_lamb || op == OP_adafactor ||
           op == OP_embedding_sgd || op == OP_lazy_adam;
}

/* The first `ntensors` operands and the results have one shape; the operands after them are single numbers. */
static bool with_numbers(const Graph *graph, const Node *node, int ntensors, Letters *letters, char *why, size_t n) {
    Node tensors = *node;
    tensors.nin = ntensors;
    for (int i = ntensors; i < node->nin; i++)
        if (graph->values.at[node->in[i]].type.shape.ndim > 0) return fail(why, n, "an operand that must be one number has dimensions");
    return broadcast(graph, &tensors, letters, true, why, n);
}

/* wide: rows along its last dimension; index and narrow: one number for each row. */
static bool by_index(Plain wide, Plain index, Plain narrow, Letters *letters, int8_t *wide_map, int8_t *index_map, int8_t *narrow_map,
                     char *why, size_t n) {
    if (index.ndim != wide.ndim - 1 || narrow.ndim != index.ndim) return fail(why, n, "not one index for each row");
    for (int d = 0; d < wide.ndim; d++) {
        int letter = letter_new(letters, wide.dim[d]);
        wide_map[wide.hidden + d] = (int8_t)letter;
        if (d == index.ndim) break;
        if (index.dim[d] != wide.dim[d] || narrow.dim[d] != wide.dim[d]) return fail(why, n, "not one index for each row");
        index_map[index.hidden + d] = narrow_map[narrow.hidden + d] = (int8_t)letter;
    }
    return true;
}

/* table: [rows, d]; rows: a row of d elements for each index. */
static bool by_row(Plain table, Plain index, Plain rows, Letters *letters, int8_t *table_map, int8_t *index_map, int8_t *rows_map,
                   char *why, size_t n) {
    if (table.ndim != 2 || rows.ndim != index.ndim + 1 || rows.dim[index.ndim] != table.dim[1])
        return fail(why, n, "not a row of the table for each index");
    table_map[table.hidden] = (int8_t)letter_new(letters, table.dim[0]);
    table_map[table.hidden + 1] = rows_map[rows.hidden + index.ndim] = (int8_t)letter_new(letters, table.dim[1]);
    for (int d = 0; d < index.ndim; d++) {
        if (index.dim[d] != rows.dim[d]) return fail(why, n, "not a row of the table for each index");
        index_map[index.hidden + d] = rows_map[rows.hidden + d] = (int8_t)letter_new(letters, index.dim[d]);
    }
    return true;
}

/* The update of a table by the rows that occur: the table, its slots and the results have the table's letters. The indices are whole, and
 * so are the gradient's rows, so that every rank sees all contributions to the rows of its part. */
static bool table_rows(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const int g = node->nout; /* the gradient follows the table and its slots */
    const Plain table = plain_of(graph, node->in[0]), rows = plain_of(graph, node->in[g]), index = plain_of(graph, node->in[g + 1]);
    if (table.ndim != 2 || table.hidden > 0 || rows.ndim != index.ndim + 1 || rows.dim[index.ndim] != table.dim[1] ||
        memcmp(rows.dim, index.dim, sizeof *rows.dim * (size_t)index.ndim) != 0)
        return fail(why, n, "not a row of the table for each index");
    for (int i = g + 2; i < node->nin; i++)
        if (graph->values.at[node->in[i]].type.shape.ndim > 0) return fail(why, n, "an operand that must be one number has dimensions");
    const int8_t row = (int8_t)letter_new(letters, table.dim[0]), column = (int8_t)letter_new(letters, table.dim[1]);
    for (int i = 0; i < g; i++) {
        const Plain in = plain_of(graph, node->in[i]), out = plain_of(graph, node->out[i]);
        if (in.ndim != 2 || out.ndim != 2 || memcmp(in.dim, table.dim, sizeof *in.dim * 2) != 0 ||
            memcmp(out.dim, table.dim, sizeof *out.dim * 2) != 0)
            return fail(why, n, "a slot or result of another shape than the table");
        letters->in[i][0] = letters->out[i][0] = row;
        letters->in[i][1] = letters->out[i][1] = column;
    }
    letters->in[g][index.ndim] = column;
    return true;
}

/* Operators whose last operand, a mask, may be missing. */
static bool takes_mask(OpCode op) {
    return op == OP_dot_product_attention || op == OP_attention_grad || op == OP_attention_most || op == OP_attention_sums;
}

/* Whether a node has as many operands and results as its operator. */
static bool arity_fits(const Node *node) {
    static const int8_t arity[NOPS][2] = {
#define UNARY_OP(name, ...) [OP_##name] = {1, 1},
#define UNARY_OP_X(name, ...) [OP_##name] = {1, 1}, [OP_##name##_grad] = {2, 1},
#define UNARY_OP_Y(name, ...) [OP_##name] = {1, 1}, [OP_##name##_grad] = {2, 1},
#define BINARY_OP(name, ...) [OP_##name] = {2, 1},
#include "ir/elementwise.def"
        [OP_write] = {1, 0}, /* operands, results */
        [OP_matmul] = {2, 1},
        [OP_sum] = {1, 1},
        [OP_mean] = {1, 1},
        [OP_transpose] = {1, 1},
        [OP_reshape] = {1, 1},
        [OP_replicate] = {1, 1},
        [OP_replica_sum] = {1, 1},
        [OP_expose] = {1, 1},
        [OP_einsum] = {2, 1},
        [OP_sum_grad] = {1, 1},
        [OP_mean_grad] = {1, 1},
        [OP_sum_to] = {1, 1},
        [OP_sgd] = {2, 1},
        [OP_momentum] = {3, 2},
        [OP_adam] = {5, 3},
        [OP_adamw] = {5, 3},
        [OP_lion] = {3, 2},
        [OP_lamb_step] = {5, 3},
        [OP_lamb] = {4, 1},
        [OP_embedding_sgd] = {3, 1},
        [OP_lazy_adam] = {6, 3},
        [OP_adafactor] = {5, 1},
        [OP_sum_squares] = {1, 1},
        [OP_clip] = {2, 1},
        [OP_max] = {1, 1},
        [OP_max_mask] = {2, 1},
        [OP_slice] = {1, 1},
        [OP_slice_grad] = {1, 1},
        [OP_softmax] = {1, 1},
        [OP_softmax_grad] = {2, 1},
        [OP_gelu] = {1, 1},
        [OP_gelu_grad] = {2, 1},
        [OP_stop_gradient] = {1, 1},
        [OP_pick] = {2, 1},
        [OP_pick_grad] = {2, 1},
        [OP_cross_entropy_rows] = {2, 3},
        [OP_cross_entropy_rows_grad] = {5, 1},
        [OP_cast] = {1, 1},
        [OP_compress] = {1, 1},
        [OP_less] = {2, 1},
        [OP_less_equal] = {2, 1},
        [OP_greater] = {2, 1},
        [OP_greater_equal] = {2, 1},
        [OP_equal] = {2, 1},
        [OP_not_equal] = {2, 1},
        [OP_where] = {3, 1},
        [OP_first] = {1, 1},
        [OP_one_hot] = {1, 1},
        [OP_embedding] = {2, 1},
        [OP_embedding_grad] = {2, 1},
        [OP_gather] = {2, 1},
        [OP_gather_grad] = {2, 1},
        [OP_put] = {3, 1},
        [OP_cumsum] = {1, 1},
        [OP_topk] = {1, 2},
        [OP_min] = {1, 1},
        [OP_clamp] = {1, 1},
        [OP_clamp_grad] = {2, 1},
        [OP_max_share] = {2, 1},
        [OP_log_softmax] = {1, 1},
        [OP_log_softmax_grad] = {2, 1},
        [OP_rope] = {1, 1},
        [OP_dot_product_attention] = {4, 3},
        [OP_attention_grad] = {8, 3},
        [OP_attention_most] = {3, 1},
        [OP_attention_sums] = {5, 2},
        [OP_layer_norm] = {3, 3},
        [OP_rms_norm] = {2, 2},
        [OP_layer_norm_grad] = {5, 3},
        [OP_rms_norm_grad] = {4, 2},
        [OP_batch_norm] = {3, 3},
        [OP_batch_norm_grad] = {5, 3},
        [OP_conv2d] = {2, 1},
        [OP_conv2d_grad_x] = {2, 1},
        [OP_conv2d_grad_w] = {2, 1},
        [OP_max_pool] = {1, 1},
        [OP_max_pool_grad] = {2, 1},
        [OP_avg_pool] = {1, 1},
        [OP_avg_pool_grad] = {1, 1},
    };
    if (node->op == OP_concat) return node->nin >= 2 && node->nin <= MAX_IN && node->nout == 1;
    if (node->op == OP_split) return node->nin == 1 && node->nout >= 1 && node->nout <= MAX_OUT && node->nout == node->attr[0].i;
    if (node->nin == arity[node->op][0] - 1 && takes_mask(node->op)) return node->nout == arity[node->op][1];
    if (node->nin == arity[node->op][0] + 1 && takes_rate(node->op)) return node->nout == arity[node->op][1];
    return node->nin == arity[node->op][0] && (node->op == OP_write || node->nout == arity[node->op][1]);
}

/* The operand that is an index, that is, holds the integers i of x[i]; -1: none. */
static int index_operand(OpCode op) {
    const bool second = op == OP_pick || op == OP_pick_grad || op == OP_embedding || op == OP_embedding_grad || op == OP_gather ||
                        op == OP_gather_grad || op == OP_cross_entropy_rows;
    return second                                   ? 1
           : op == OP_cross_entropy_rows_grad       ? 2
           : op == OP_one_hot                       ? 0
           : op == OP_embedding_sgd || op == OP_put ? 2
           : op == OP_lazy_adam                     ? 4
                                                    : -1;
}

static bool is_comparison(OpCode op) {
    return op == OP_less || op == OP_less_equal || op == OP_greater || op == OP_greater_equal || op == OP_equal || op == OP_not_equal;
}

/* Checks a result's type. It can differ from the operands' type: comparisons give bool, places are i32, casts and the like give the type in
 * `to`. */
static bool result_fits(const Node *node, int result, DType dtype, DType common) {
    if (is_comparison(node->op)) return dtype == BOOL;
    if (node->op == OP_first || (node->op == OP_topk && result == 1)) return dtype == I32;
    if (node->op == OP_einsum && node->attr[op_attr(OP_einsum, "wide")].i) return dtype_is_half(common) && dtype == F32;
    if (is_wide(node, true, result)) return dtype == dtype_widened(common);
    if (node->op != OP_cast && node->op != OP_compress && node->op != OP_one_hot) return dtype == common;
    const Attr *to = &node->attr[op_attr(node->op, "to")];
    return (node->op != OP_compress || dtype_is_float(dtype)) && strcmp(dtype_name[dtype], to->given && to->text ? to->text : "f32") == 0;
}

/* Which operand is a condition; -1: none. */
static int condition_operand(const Node *node) {
    return node->op == OP_where || node->op == OP_first ? 0 : takes_mask(node->op) && attention_is_masked(node) ? node->nin - 1 : -1;
}

/* All operands have one type, except an index, which is an integer, and a condition, which is bool. */
static bool types_fit(const Graph *graph, const Node *node) {
    int index = index_operand(node->op), condition = condition_operand(node);
    DType common = graph->values.at[node->in[node->op == OP_where ? 1 : 0]].type.dtype;
    for (int i = 0; i < node->nin; i++) {
        DType dtype = graph->values.at[node->in[i]].type.dtype;
        const DType own = is_wide(node, false, i) ? dtype_widened(common) : common;
        if (i == index ? dtype != I32 && dtype != I64 : i == condition ? dtype != BOOL : dtype != own) return false;
    }
    for (int k = 0; k < node->nout; k++)
        if (!result_fits(node, k, graph->values.at[node->out[k]].type.dtype, common)) return false;
    return true;
}

bool node_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    letters->n = 0;
    letters->reshape = letters->flat = letters->view = letters->places = letters->elementwise = letters->by_rows = false;
    letters->linear = LINEAR_IN_NONE;
    letters->grouped = -1;
    letters->reduction = node->op == OP_max || node->op == OP_attention_most ? REDUCE_MAX
                         : node->op == OP_first || node->op == OP_min        ? REDUCE_MIN
                                                                             : REDUCE_SUM;
    memset(letters->windows, 0, sizeof letters->windows);
    memset(letters->in, -1, sizeof letters->in);
    memset(letters->out, -1, sizeof letters->out);
    if (!arity_fits(node)) return fail(why, n, "wrong number of operands or results");

    bool boundary = node->op == OP_replicate || node->op == OP_replica_sum || node->op == OP_expose;
    bool hidden = graph->values.at[node->in[0]].type.hidden;
    int64_t replicas = hidden ? graph->values.at[node->in[0]].type.shape.dim[0] : 0;
    for (int i = 0; i < node->nin + node->nout; i++) {
        const TensorType *type = &graph->values.at[i < node->nin ? node->in[i] : node->out[i - node->nin]].type;
        if (!boundary && (type->hidden != hidden || (hidden && type->shape.dim[0] != replicas)))
            return fail(why, n, "hidden and plain tensors mixed");
    }
    if (!types_fit(graph, node)) return fail(why, n, "operands or results of wrong types");
    if (!boundary && hidden) {
        int h = letter_new(letters, replicas);
        for (int i = 0; i < node->nin; i++)
            letters->in[i][0] = (int8_t)h;
        for (int i = 0; i < node->nout; i++)
            letters->out[i][0] = (int8_t)h;
    }

    switch (node->op) {
#define BINARY_OP(name, ...) case OP_##name:
#include "ir/elementwise.def"
        letters->linear = node->op == OP_add || node->op == OP_sub ? LINEAR_IN_ALL
                          : node->op == OP_mul                     ? LINEAR_IN_ONE
                          : node->op == OP_div                     ? LINEAR_IN_FIRST
                                                                   : LINEAR_IN_NONE;
        letters->elementwise = true;
        return broadcast(graph, node, letters, false, why, n);
#define UNARY_OP(name, ...) case OP_##name:
#define UNARY_OP_X(name, ...) case OP_##name:
#define UNARY_OP_Y(name, ...) case OP_##name:
#include "ir/elementwise.def"
    case OP_gelu:
    case OP_clamp:
    case OP_stop_gradient:
    case OP_max_mask:
    case OP_compress:
    case OP_write:
        letters->linear = node->op == OP_neg || node->op == OP_stop_gradient || node->op == OP_compress ? LINEAR_IN_ALL : LINEAR_IN_NONE;
        letters->elementwise = node->op != OP_compress;
        return broadcast(graph, node, letters, true, why, n);
    case OP_sgd:
    case OP_momentum:
    case OP_adam:
    case OP_adamw:
    case OP_lion:
    case OP_lamb_step:
    case OP_lamb:
    case OP_adafactor:
    case OP_clip:
        letters->elementwise = true;
        return with_numbers(graph, node,
                            node->op == OP_clip                               ? 1
                            : node->op == OP_sgd                              ? 2
                            : node->op == OP_lamb || node->op == OP_adafactor ? 2
                            : node->op == OP_momentum                         ? 3
                            : node->op == OP_lion                             ? 3
                                                                              : 4,
                            letters, why, n);
    case OP_embedding_sgd:
    case OP_lazy_adam:
        letters->by_rows = true;
        return table_rows(graph, node, letters, why, n);
    case OP_sum_squares: {
        Plain x = plain_of(graph, node->in[0]);
        if (plain_of(graph, node->out[0]).ndim > 0) return fail(why, n, "the sum of squares is one number");
        for (int d = 0; d < x.ndim; d++)
            letters->in[0][x.hidden + d] = (int8_t)letter_new(letters, x.dim[d]);
        return true;
    }
#define UNARY_OP_X(name, ...) case OP_##name##_grad:
#define UNARY_OP_Y(name, ...) case OP_##name##_grad:
#include "ir/elementwise.def"
    case OP_gelu_grad:
    case OP_clamp_grad:
        letters->linear = LINEAR_IN_SECOND;
        letters->elementwise = true;
        return broadcast(graph, node, letters, true, why, n);
    case OP_matmul:
        letters->linear = LINEAR_IN_ONE;
        return contraction(graph, node, letters, why, n);
    case OP_einsum:
        letters->linear = LINEAR_IN_ONE;
        return einsum(graph, node, letters, why, n);
    case OP_sum:
    case OP_mean:
        letters->linear = LINEAR_IN_ALL;
        return reduction(&node->attr[0], plain_of(graph, node->in[0]), plain_of(graph, node->out[0]), letters, letters->in[0],
                         letters->out[0], why, n);
    case OP_max:
    case OP_min:
        return reduction(&node->attr[0], plain_of(graph, node->in[0]), plain_of(graph, node->out[0]), letters, letters->in[0],
                         letters->out[0], why, n);
    case OP_max_share:
        letters->elementwise = true;
        return broadcast(graph, node, letters, false, why, n);
    case OP_slice:
    case OP_slice_grad:
    case OP_concat:
    case OP_split:
        return cut_letters(graph, node, letters, why, n);
    case OP_softmax:
    case OP_log_softmax:
        return by_rows(graph, node, axis_given(node), letters, why, n);
    case OP_softmax_grad:
    case OP_log_softmax_grad:
        letters->linear = LINEAR_IN_SECOND;
        return by_rows(graph, node, axis_given(node), letters, why, n);
    case OP_rope:
        letters->linear = LINEAR_IN_ALL;
        return by_rows(graph, node, -1, letters, why, n);
    case OP_dot_product_attention:
    case OP_attention_most:
    case OP_attention_sums:
        return attention_letters(graph, node, letters, why, n);
    case OP_attention_grad:
        letters->linear = LINEAR_IN_SECOND;
        return attention_letters(graph, node, letters, why, n);
    case OP_layer_norm:
    case OP_rms_norm:
        return norm_letters(graph, node, 1, letters, why, n);
    case OP_layer_norm_grad:
    case OP_rms_norm_grad:
        letters->linear = LINEAR_IN_SECOND;
        return norm_letters(graph, node, 2, letters, why, n);
    case OP_batch_norm:
        return batch_norm_letters(graph, node, 1, letters, why, n);
    case OP_batch_norm_grad:
        letters->linear = LINEAR_IN_SECOND;
        return batch_norm_letters(graph, node, 2, letters, why, n);
    case OP_conv2d:
    case OP_conv2d_grad_x:
    case OP_conv2d_grad_w:
    case OP_max_pool:
    case OP_max_pool_grad:
    case OP_avg_pool:
    case OP_avg_pool_grad:
        return windowed_letters(graph, node, letters, why, n);
    case OP_less:
    case OP_less_equal:
    case OP_greater:
    case OP_greater_equal:
    case OP_equal:
    case OP_not_equal:
    case OP_where:
    case OP_cast:
        letters->elementwise = node->op == OP_where || dtype_bytes[graph->values.at[node->in[0]].type.dtype] ==
                                                           dtype_bytes[graph->values.at[node->out[0]].type.dtype];
        return broadcast(graph, node, letters, false, why, n);
    case OP_first: {
        const Attr axis = {.given = true, .n = 1, .ints = {node->attr[0].given ? node->attr[0].i : -1}};
        return reduction(&axis, plain_of(graph, node->in[0]), plain_of(graph, node->out[0]), letters, letters->in[0], letters->out[0], why,
                         n);
    }
    case OP_one_hot: {
        Plain index = plain_of(graph, node->in[0]), y = plain_of(graph, node->out[0]);
        for (int d = 0; d < index.ndim && y.ndim == index.ndim + 1; d++) {
            if (index.dim[d] != y.dim[d]) return fail(why, n, "not one row for each index");
            letters->in[0][index.hidden + d] = letters->out[0][y.hidden + d] = (int8_t)letter_new(letters, y.dim[d]);
        }
        return y.ndim == index.ndim + 1 && y.dim[index.ndim] == node->attr[0].i ? true : fail(why, n, "not one row for each index");
    }
    case OP_embedding:
        letters->linear = LINEAR_IN_FIRST;
        return by_row(plain_of(graph, node->in[0]), plain_of(graph, node->in[1]), plain_of(graph, node->out[0]), letters, letters->in[0],
                      letters->in[1], letters->out[0], why, n);
    case OP_embedding_grad:
        letters->linear = LINEAR_IN_FIRST;
        return by_row(plain_of(graph, node->out[0]), plain_of(graph, node->in[1]), plain_of(graph, node->in[0]), letters, letters->out[0],
                      letters->in[1], letters->in[0], why, n);
    case OP_put:
        letters->by_rows = true;
        return put_letters(graph, node, letters, why, n);
    case OP_gather:
    case OP_gather_grad:
    case OP_cumsum:
    case OP_topk:
        return along_letters(graph, node, letters, why, n);
    case OP_pick:
        letters->linear = LINEAR_IN_FIRST;
        return by_index(plain_of(graph, node->in[0]), plain_of(graph, node->in[1]), plain_of(graph, node->out[0]), letters, letters->in[0],
                        letters->in[1], letters->out[0], why, n);
    case OP_pick_grad:
        letters->linear = LINEAR_IN_FIRST;
        return by_index(plain_of(graph, node->out[0]), plain_of(graph, node->in[1]), plain_of(graph, node->in[0]), letters, letters->out[0],
                        letters->in[1], letters->in[0], why, n);
    case OP_cross_entropy_rows:
        return class_loss_letters(graph, node, letters, why, n);
    case OP_cross_entropy_rows_grad:
        letters->linear = LINEAR_IN_SECOND;
        letters->by_rows = true;
        return class_loss_letters(graph, node, letters, why, n);
    case OP_sum_grad:
    case OP_mean_grad:
        letters->linear = LINEAR_IN_ALL;
        return reduction(&node->attr[0], plain_of(graph, node->out[0]), plain_of(graph, node->in[0]), letters, letters->out[0],
                         letters->in[0], why, n);
    case OP_sum_to:
        letters->linear = LINEAR_IN_ALL;
        return narrowing(graph, node, letters, why, n);
    case OP_transpose:
        letters->linear = LINEAR_IN_ALL;
        letters->places = true;
        return permutation(graph, node, letters, why, n);
    case OP_reshape:
        letters->linear = LINEAR_IN_ALL;
        letters->reshape = letters->flat = letters->view = letters->places = true;
        if (shape_elements(&graph->values.at[node->in[0]].type.shape) != shape_elements(&graph->values.at[node->out[0]].type.shape))
            return fail(why, n, "a reshape to another number of elements");
        return true;
    case OP_replicate:
    case OP_replica_sum:
    case OP_expose:
        return hidden_letters(graph, node, letters, why, n);
    case OP_input:
    case OP_constant:
    case OP_read:
    case OP_mse:
    case OP_bce_with_logits:
    case OP_cross_entropy:
    case OP_argmax:
    case OP_scatter_add:
    case OP_stack:
    case OP_pad:
    case OP_upsample:
    case OP_convert:
    case NOPS:
        break;
    }
    return fail(why, n, "no kernel computes this operator");
}
