/* contraction: sums of products over shared letters, as dot products of packed rows. */
#include "proof/contraction.h"

#include <stdlib.h>
#include <string.h>

#include "proof/walk.h"

enum { MAX_LETTERS = 3 * MAX_NDIM, A = 0, B = 1, Y = 2 };

typedef struct Contraction {
    int n;                   /* letters */
    int8_t map[3][MAX_NDIM]; /* per dimension of a, b, result: its letter; -1: size 1, repeated */
    bool in[3][MAX_LETTERS]; /* the tensor has the letter */
    int64_t begin[MAX_LETTERS], end[MAX_LETTERS];
    int64_t stride[3][MAX_LETTERS];
} Contraction;

/* ---------------------------------------------------------------- letters */

/* Batch dimensions, the hidden one among them, align right; the last two dimensions are the matrices. */
static bool letters_matmul(Contraction *c, const Node *node, const FieldTensor *const *t) {
    const FieldTensor *y = t[Y];
    int last = y->global.ndim - 1;
    if (last - y->hidden < 1) return false;
    c->n = last + 2; /* a result dimension's letter is its number; the contracted letter is the last */
    for (int d = 0; d <= last; d++)
        c->map[Y][d] = (int8_t)d;
    for (int i = 0; i < 2; i++) {
        const FieldTensor *x = t[i];
        int ndim = x->global.ndim, missing = y->global.ndim - ndim;
        bool transposed = node->attr[i].i != 0;
        if (ndim - x->hidden < 2 || missing < 0 || x->hidden != y->hidden) return false;
        for (int d = 0; d < ndim - 2; d++) {
            int to = d < x->hidden ? d : d + missing;
            bool repeats = x->global.dim[d] != y->global.dim[to];
            if (repeats && x->global.dim[d] != 1) return false;
            c->map[i][d] = (int8_t)(repeats ? -1 : to);
        }
        int free_dim = i == A ? ndim - 2 + transposed : ndim - 1 - transposed;
        c->map[i][free_dim] = (int8_t)(i == A ? last - 1 : last);
        c->map[i][2 * ndim - 3 - free_dim] = (int8_t)(c->n - 1);
    }
    return true;
}

/* Each letter of the spec is a letter here; the hidden dimension is one more. */
static bool letters_einsum(Contraction *c, const Node *node, const FieldTensor *const *t) {
    const char *at = node->attr[0].text ? node->attr[0].text : "";
    int8_t letter[26];
    memset(letter, -1, sizeof letter);
    c->n = t[A]->hidden;
    for (int i = 0; i < 3; i++) {
        if (t[i]->hidden != t[A]->hidden) return false;
        c->map[i][0] = 0;
        for (int d = t[i]->hidden; d < t[i]->global.ndim; d++, at++) {
            if (*at < 'a' || *at > 'z') return false;
            int8_t *own = &letter[*at - 'a'];
            if (*own < 0) *own = (int8_t)c->n++;
            c->map[i][d] = *own;
        }
        const char *separator = i == A ? "," : i == B ? "->" : "";
        if (strncmp(at, separator, strlen(separator)) != 0) return false;
        at += strlen(separator);
    }
    return *at == '\0';
}

static bool letters(Contraction *c, const Node *node, const FieldTensor *const *t) {
    memset(c, 0, sizeof *c);
    return node->op == OP_einsum ? letters_einsum(c, node, t) : letters_matmul(c, node, t);
}

/* Sets the range of each letter from the tensors' boxes, which must agree. */
static bool ranges(Contraction *c, const FieldTensor *const *t, char *why, size_t n) {
    bool set[MAX_LETTERS] = {false};
    int64_t size[MAX_LETTERS];
    for (int i = 0; i < 3; i++) {
        int64_t stride = 1;
        for (int d = t[i]->global.ndim - 1; d >= 0; d--) {
            int l = c->map[i][d];
            int64_t low = t[i]->box.begin[d], high = t[i]->box.end[d] < low ? low : t[i]->box.end[d];
            if (l >= 0) {
                if (!set[l]) {
                    set[l] = true;
                    c->begin[l] = low;
                    c->end[l] = high;
                    size[l] = t[i]->global.dim[d];
                }
                if (size[l] != t[i]->global.dim[d]) return field_fail(why, n, "sizes of a shared index differ");
                if (c->begin[l] != low || c->end[l] != high)
                    return field_fail(why, n, "the tensors hold different parts of a shared index");
                if (c->in[i][l]) return field_fail(why, n, "one index for two dimensions of a tensor");
                c->in[i][l] = true;
                c->stride[i][l] = stride;
            }
            stride *= high - low;
        }
    }
    for (int l = 0; l < c->n; l++)
        if (!c->in[A][l] && !c->in[B][l]) return field_fail(why, n, "an index of the result that no operand has");
    return true;
}

/* ---------------------------------------------------------------- loops */

/* The letters of one kind, combined into one index. */
typedef struct IndexGroup {
    int64_t count;
    int64_t *offset[3]; /* per tensor: its offset for each value of the index */
} IndexGroup;

typedef enum { BATCH, ROWS, COLUMNS, SUMMED, NKINDS } Kind;

static Kind kind_of(const Contraction *c, int l) {
    if (!c->in[Y][l]) return SUMMED;
    return c->in[A][l] && c->in[B][l] ? BATCH : c->in[A][l] ? ROWS : COLUMNS;
}

static bool group_make(const Contraction *c, Kind kind, IndexGroup *group) {
    group->count = 1;
    for (int l = 0; l < c->n; l++)
        if (kind_of(c, l) == kind) group->count *= c->end[l] - c->begin[l];
    for (int t = 0; t < 3; t++) {
        int64_t *offset = malloc(sizeof *offset * (size_t)(group->count + 1)), done = 1;
        group->offset[t] = offset;
        if (!offset) return false;
        if (group->count == 0) continue;
        offset[0] = 0;
        for (int l = c->n - 1; l >= 0; l--) { /* the last letter fastest */
            if (kind_of(c, l) != kind) continue;
            int64_t size = c->end[l] - c->begin[l];
            for (int64_t k = 1; k < size; k++)
                for (int64_t i = 0; i < done; i++)
                    offset[k * done + i] = offset[i] + k * c->stride[t][l];
            done *= size;
        }
    }
    return true;
}

/* Returns an operand's rows (of one batch), contiguous in the summed index; row i begins at i * *pitch. Packs them where they are not
 * contiguous. */
static const Fe *rows_of(const Fe *x, int t, const IndexGroup *of, const IndexGroup *summed, Fe *packed, int64_t *pitch) {
    bool contiguous = true;
    for (int64_t k = 0; contiguous && k < summed->count; k++)
        contiguous = summed->offset[t][k] == k;
    *pitch = of->count > 1 ? of->offset[t][1] : 0;
    for (int64_t i = 0; contiguous && i < of->count; i++)
        contiguous = of->offset[t][i] == i * *pitch;
    if (contiguous) return x;
    *pitch = summed->count;
    /* The inner loop runs along whichever index is the tensor's faster one. */
    if (of->count > 1 && of->offset[t][1] == 1) {
        for (int64_t k = 0; k < summed->count; k++)
            for (int64_t i = 0; i < of->count; i++)
                packed[i * *pitch + k] = x[of->offset[t][i] + summed->offset[t][k]];
    } else {
        for (int64_t i = 0; i < of->count; i++)
            for (int64_t k = 0; k < summed->count; k++)
                packed[i * *pitch + k] = x[of->offset[t][i] + summed->offset[t][k]];
    }
    return packed;
}

static void multiply(const IndexGroup *g, const FieldTensor *const *t, Fe *packed_a, Fe *packed_b) {
    int64_t m = g[ROWS].count, nc = g[COLUMNS].count, k = g[SUMMED].count;
    int64_t block = 1 + 16384 / (k + 1); /* columns that stay in the cache while all rows pass */
    for (int64_t batch = 0; batch < g[BATCH].count; batch++) {
        int64_t pitch_a, pitch_b;
        const Fe *a = rows_of(t[A]->at + g[BATCH].offset[A][batch], A, &g[ROWS], &g[SUMMED], packed_a, &pitch_a);
        const Fe *b = rows_of(t[B]->at + g[BATCH].offset[B][batch], B, &g[COLUMNS], &g[SUMMED], packed_b, &pitch_b);
        Fe *y = t[Y]->at + g[BATCH].offset[Y][batch];
        for (int64_t first = 0; first < nc; first += block) {
            int64_t last = first + block < nc ? first + block : nc;
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = first; j < last; j++)
                    y[g[ROWS].offset[Y][i] + g[COLUMNS].offset[Y][j]] = fe_dot(a + i * pitch_a, b + j * pitch_b, k);
        }
    }
}

static bool contract(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *const t[3] = {&in[0], &in[1], &out[0]};
    Contraction c;
    IndexGroup group[NKINDS];
    memset(group, 0, sizeof group);
    if (!letters(&c, node, t)) return field_fail(why, n, "the product's dimensions do not fit");
    if (!ranges(&c, t, why, n)) return false;
    bool ok = true;
    for (int kind = 0; ok && kind < NKINDS; kind++)
        ok = group_make(&c, (Kind)kind, &group[kind]);
    Fe *packed_a = ok ? malloc(sizeof(Fe) * (size_t)(group[ROWS].count * group[SUMMED].count + 1)) : NULL;
    Fe *packed_b = ok ? malloc(sizeof(Fe) * (size_t)(group[COLUMNS].count * group[SUMMED].count + 1)) : NULL;
    ok = packed_a && packed_b;
    if (ok) multiply(group, t, packed_a, packed_b);
    free(packed_a);
    free(packed_b);
    for (int kind = 0; kind < NKINDS; kind++)
        for (int i = 0; i < 3; i++)
            free(group[kind].offset[i]);
    return ok ? true : field_fail(why, n, "out of memory");
}

bool contraction_matmul(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return contract(node, in, out, why, n);
}

bool contraction_einsum(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return contract(node, in, out, why, n);
}

double contraction_work(const Node *node, const FieldTensor *in, const FieldTensor *out) {
    const FieldTensor *const t[3] = {&in[0], &in[1], &out[0]};
    Contraction c;
    char why[128];
    if (!letters(&c, node, t) || !ranges(&c, t, why, sizeof why)) return 0;
    double work = 1;
    for (int l = 0; l < c.n; l++)
        work *= (double)(c.end[l] - c.begin[l]);
    return work;
}
