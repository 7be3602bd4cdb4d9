/* Checks that a kernel with operands in their layouts gives its results in theirs, by the letters of its operator (operators.c). */
#include "proof/internal.h"
#include "proof/cut.h"
#include "proof/windows.h"

#include <string.h>

static bool fail(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

/* A reshape must leave every rank's elements on that rank. Dimensions fall into groups of equal products; in each group only the leading
 * dimensions may be divided, by the same digits, at the same elements. */
static bool reshape_check(const Shape *x, const Shape *y, const Layout *in, const Layout *out, char *why, size_t n) {
    int xd[MAX_NDIM], yd[MAX_NDIM], nx = 0, ny = 0; /* the dimensions that are not 1 */
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] != 1)
            xd[nx++] = d;
        else if (layout_count(in, d))
            return fail(why, n, "reshape: a dimension of size 1 is split");
    }
    for (int d = 0; d < y->ndim; d++) {
        if (y->dim[d] != 1)
            yd[ny++] = d;
        else if (layout_count(out, d))
            return fail(why, n, "reshape: a dimension of size 1 is split");
    }
    int i = 0, j = 0;
    while (i < nx && j < ny) {
        int i0 = xd[i], j0 = yd[j];
        int64_t a = x->dim[xd[i++]], b = y->dim[yd[j++]];
        while (a != b) {
            if ((a < b && i == nx) || (a > b && j == ny)) return fail(why, n, "reshape: dimensions do not group");
            int d = a < b ? xd[i++] : yd[j++];
            if (layout_count(a < b ? in : out, d)) return fail(why, n, "reshape: an inner dimension of a group is split");
            if (a < b)
                a *= x->dim[d];
            else
                b *= y->dim[d];
        }
        if (x->dim[i0] == y->dim[j0]) {
            if (!own_list_same(in, i0, out, j0, x->dim[i0])) return fail(why, n, "reshape: split differently on the two sides");
            continue;
        }
        int ni = layout_count(in, i0), nj = layout_count(out, j0);
        if (ni != nj || memcmp(layout_list(in, i0), layout_list(out, j0), (size_t)ni * sizeof(Digit)))
            return fail(why, n, "reshape: split by different digits");
        int64_t parts = layout_split(in, i0);
        if (x->dim[i0] % parts || y->dim[j0] % parts) return fail(why, n, "reshape: a split that does not divide both sizes");
    }
    return i == nx && j == ny ? true : fail(why, n, "reshape: dimensions do not group");
}

/* Checks that only windows read halos, and that no result has one. */
static bool halos_belong(const Node *node, const Letters *letters, const Layout *const *in, const Layout *const *out, char *why, size_t n) {
    for (int k = 0; k < node->nout; k++)
        if (own_halos(out[k])) return fail(why, n, "a result that would have halos");
    for (int i = 0; i < node->nin; i++)
        for (int d = 0; d < in[i]->ndim; d++)
            if (layout_halo(in[i], d) && !letters_see(letters, i, in[i]->ndim, d))
                return fail(why, n, "an operand with halos that no windows see");
    return true;
}

/* Checks that the ranks that compute the results hold all operands. */
static bool pins_belong(const Node *node, const Layout *const *in, const Layout *const *out, char *why, size_t n) {
    for (int k = 1; k < node->nout; k++)
        if (!pin_equal(&out[k]->pin, &out[0]->pin)) return fail(why, n, "results on different ranks");
    for (int i = 0; i < node->nin && node->nout > 0; i++)
        if (layout_is_pinned(in[i]) && !pin_equal(&in[i]->pin, &out[0]->pin))
            return fail(why, n, "ranks that make a result have nothing of an operand");
    return true;
}

/* Checks that, whatever part of the letter a rank works on, it has all that the windows of that part see, or that see it. of: a tensor that
 * the letter divides, in dimension `dim`. */
static bool windows_check(const Graph *graph, const Node *node, int64_t size, const Layout *of, int dim, const Layout *operand, int i,
                          int d, char *why, size_t n) {
    DigitSet letter = {0}, own = {0}, rest;
    if (!set_add_list(&letter, of, dim) || !set_add_list(&own, operand, d)) return fail(why, n, "a digit divides a dimension twice");
    if (!set_subtract(&letter, &own, &rest)) { /* so a part of the letter determines the operand's part */
        snprintf(why, n, "operand %d is split over other ranks than the windows that see it", i);
        return false;
    }
    const int64_t held = graph->values.at[node->in[i]].type.shape.dim[d];
    for (int64_t part = 0, parts = layout_split(of, dim); part < parts; part++) {
        const int rank = own_rank_of(of, dim, part);
        int64_t begin, end, from, to;
        own_dim(of, dim, size, rank, &begin, &end);
        own_dim(operand, d, held, rank, &from, &to);
        const bool there = is_windowed(node->op) ? windowed_reach(graph, node, i, d - (operand->ndim - 2), begin, end, from, to)
                                                 : cut_reach(graph, node, i, d, begin, end, from, to);
        if (there) continue;
        snprintf(why, n, "rank %d: of dimension %d of operand %d it has less than its windows see", rank, d, i);
        return false;
    }
    return true;
}

bool kernel_check(const Graph *graph, const Node *node, const Letters *letters, const Layout *const *in, const Layout *const *out,
                  char *why, size_t n) {
    DigitSet all = {0}, summed[MAX_OUT] = {0}, partial = {0};
    if (!halos_belong(node, letters, in, out, why, n) || !pins_belong(node, in, out, why, n)) return false;
    if (letters->reshape) {
        if (!reshape_check(&graph->values.at[node->in[0]].type.shape, &graph->values.at[node->out[0]].type.shape, in[0], out[0], why, n))
            return false;
    }

    /* A letter has the same list of digits wherever it occurs. */
    const Layout *where[32] = {NULL};
    int list[32];
    for (int part = 0; part < node->nin + node->nout && !letters->reshape; part++) {
        bool result = part >= node->nin;
        int k = result ? part - node->nin : part;
        const Layout *layout = result ? out[k] : in[k];
        const int8_t *map = result ? letters->out[k] : letters->in[k];
        for (int d = 0; d < layout->ndim; d++) {
            int letter = map[d];
            if (!result && letters_see(letters, k, layout->ndim, d)) continue;
            if (letter < 0) {
                if (layout_count(layout, d)) return fail(why, n, "a dimension that must be whole is split");
                continue;
            }
            if (letter == letters->grouped && letters->size[letter] % layout_split(layout, d) != 0)
                return fail(why, n, "a split that takes parts of groups");
            if (!where[letter]) {
                where[letter] = layout;
                list[letter] = d;
                if (!set_add_list(&all, layout, d)) return fail(why, n, "one digit divides two index letters");
            } else if (!own_list_same(where[letter], list[letter], layout, d, letters->size[letter])) {
                snprintf(why, n, "%s %d is split otherwise along a shared index than another tensor of the operator",
                         result ? "result" : "operand", k);
                return false;
            }
        }
    }
    for (int i = 0; i < node->nin; i++)
        for (int d = 0; d < in[i]->ndim; d++) {
            const int letter = letters->in[i][d];
            if (!letters_see(letters, i, in[i]->ndim, d)) continue;
            if (!windows_check(graph, node, letters->size[letter], where[letter], list[letter], in[i], i, d, why, n)) return false;
        }
    /* Each result by itself is summed over the letters that it lacks. */
    for (int letter = 0; letter < letters->n && !letters->reshape; letter++)
        for (int k = 0; k < node->nout && where[letter]; k++) {
            bool kept = false;
            for (int d = 0; d < MAX_NDIM; d++)
                kept = kept || letters->out[k][d] == letter;
            if (!kept && !set_add_list(&summed[k], where[letter], list[letter])) return fail(why, n, "a digit summed twice");
        }

    /* Partial sums: which operands may be partial, and over which digits the result is then partial. */
    int npartial = 0, which = -1;
    DigitSet terms[MAX_IN];
    memset(terms, 0, sizeof terms);
    for (int i = 0; i < node->nin; i++) {
        for (int r = 0; r < NREDUCTIONS; r++) {
            if (r != REDUCE_SUM && layout_count(in[i], in[i]->ndim + r))
                return fail(why, n, "a partial maximum or minimum enters an operator");
            if (r == REDUCE_SUM && !set_add_list(&terms[i], in[i], in[i]->ndim + r)) return fail(why, n, "a digit is partial twice");
        }
        if (terms[i].n) {
            npartial++;
            which = i;
        }
    }
    if (npartial) {
        bool legal = letters->linear == LINEAR_IN_ALL || (letters->linear == LINEAR_IN_ONE && npartial == 1) ||
                     (letters->linear == LINEAR_IN_FIRST && npartial == 1 && which == 0) ||
                     (letters->linear == LINEAR_IN_SECOND && npartial == 1 && which == 1);
        if (!legal) return fail(why, n, "a partial sum enters an operator that is not linear in it");
        if (letters->linear == LINEAR_IN_ALL)
            for (int i = 0; i < node->nin; i++)
                if (!set_equal(&terms[i], &terms[which]))
                    return fail(why, n, "a partial sum is combined with a value that is not partial over the same digits");
        partial = terms[which];
        if (!letters->reshape && !set_add_set(&all, &partial)) return fail(why, n, "a digit is both partial and divides an index");
    }
    for (int k = 0; k < node->nout; k++) {
        DigitSet result = {0}, extreme = {0}, expected = partial;
        if (letters->reduction == REDUCE_SUM && !set_add_set(&expected, &summed[k]))
            return fail(why, n, "a digit is both partial and summed");
        for (int r = 0; r < NREDUCTIONS; r++) {
            if (!set_add_list(r == REDUCE_SUM ? &result : &extreme, out[k], out[k]->ndim + r))
                return fail(why, n, "a digit is partial twice");
            if (r != REDUCE_SUM && r != (int)letters->reduction && layout_count(out[k], out[k]->ndim + r))
                return fail(why, n, "the result is marked a partial maximum or minimum");
        }
        if (letters->reduction != REDUCE_SUM && !set_equal(&extreme, &summed[k]))
            return fail(why, n, "the digits over which the result is a partial maximum are not those that divide the reduced dimensions");
        if (!set_equal(&result, &expected)) {
            Text has = {0}, is = {0};
            set_print(&has, &expected);
            set_print(&is, &result);
            snprintf(why, n, "result %d is partial over %s, its layout says %s", k, has.at, is.at);
            text_finish(&has);
            text_finish(&is);
            return false;
        }
    }
    return true;
}
