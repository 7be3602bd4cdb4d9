/* batchnorm: batch_norm and its gradient: which dimensions may be split, and what the operator computes over the field. Channels are dimension 1 of x [n, c, ..]; all other
 * dimensions belong to a channel and are needed whole. With n the normalised elements (x - mean) root, and root the hash in place of rsqrt of variance plus eps: y = n weight +
 * bias. The gradient is given mean and variance: dbias is the sum of dy, dweight that of dy n, dx = (dy - dbias / count - n dweight / count) weight root. */
#include <stdlib.h>
#include <string.h>

#include "proof/internal.h"
#include "proof/walk.h"

/* ---------------------------------------------------------------- letters */

/* The only letter is that of the channels. wide: how many operands have x's shape, as the first result does; the others have one element a
 * channel. */
bool batch_norm_letters(const Graph *graph, const Node *node, int wide, Letters *letters, char *why, size_t n) {
    const TensorType *x = &graph->values.at[node->in[0]].type;
    const int hidden = x->hidden, channel = hidden + 1;
    if (x->shape.ndim - hidden < 2) return field_fail(why, n, "no dimension of channels");
    const int8_t letter = (int8_t)letters->n++;
    letters->size[letter] = x->shape.dim[channel];
    for (int part = 0; part < node->nin + node->nout; part++) {
        const bool is_in = part < node->nin;
        const int k = is_in ? part : part - node->nin;
        const bool as_x = k < (is_in ? wide : 1);
        const TensorType *own = &graph->values.at[is_in ? node->in[k] : node->out[k]].type;
        if ((int)own->hidden != hidden || (as_x ? !shape_equal(&own->shape, &x->shape)
                                                : own->shape.ndim != hidden + 1 || own->shape.dim[hidden] != x->shape.dim[channel]))
            return field_fail(why, n, "operand or result of another shape than x or its channels");
        (is_in ? letters->in[k] : letters->out[k])[as_x ? channel : hidden] = letter;
    }
    return true;
}

/* ---------------------------------------------------------------- values */

/* The hidden slices; each is [n, c, s]. */
typedef struct Planes {
    int64_t slices, n, c, s;
    Fe inverse, eps; /* inverse: 1 / the number of a channel's elements */
} Planes;

/* Sets *planes. Every tensor in `numbers` must hold the channels that x holds. */
static bool planes_open(const Node *node, const FieldTensor *x, const FieldTensor *numbers, int nnumbers, Planes *planes, char *why,
                        size_t n) {
    const int hidden = x->hidden, channel = hidden + 1;
    *planes = (Planes){.slices = 1, .n = 1, .c = 1, .s = 1};
    for (int d = 0; d < x->global.ndim; d++) {
        const int64_t size = x->box.end[d] - x->box.begin[d];
        *(d < hidden ? &planes->slices : d < channel ? &planes->n : d == channel ? &planes->c : &planes->s) *= size;
        if (d >= hidden && d != channel && size != x->global.dim[d]) return field_fail(why, n, "a channel that must be whole is split");
    }
    for (int k = 0; k < nnumbers; k++)
        for (int d = 0; d <= hidden; d++) {
            const int of = d == hidden ? channel : d;
            if (numbers[k].global.ndim != hidden + 1 || numbers[k].box.begin[d] != x->box.begin[of] ||
                numbers[k].box.end[d] != x->box.end[of])
                return field_fail(why, n, "numbers of other channels than x's");
        }
    planes->inverse = fe_inverse(fe_integer(planes->n * planes->s));
    return fe_double(node->attr[0].f, &planes->eps) ? true : field_fail(why, n, "eps is no number");
}

static bool same_box(const FieldTensor *a, const FieldTensor *b) {
    bool same = a->global.ndim == b->global.ndim;
    for (int d = 0; same && d < a->global.ndim; d++)
        same = a->global.dim[d] == b->global.dim[d] && a->box.begin[d] == b->box.begin[d] && a->box.end[d] == b->box.end[d];
    return same;
}

/* The offset in x of element i of channel `item`; channels are counted slice after slice. */
static int64_t place_of(const Planes *planes, int64_t item, int64_t i) {
    const int64_t slice = item / planes->c, channel = item % planes->c;
    return ((slice * planes->n + i / planes->s) * planes->c + channel) * planes->s + i % planes->s;
}

static Fe channel_mean(const Planes *planes, int64_t item, const Fe *x) {
    Fe sum = 0;
    for (int64_t i = 0; i < planes->n * planes->s; i++)
        sum = fe_add(sum, x[place_of(planes, item, i)]);
    return fe_mul(sum, planes->inverse);
}

static Fe root_of(const Planes *planes, Fe variance) {
    return fe_hash(OP_rsqrt, fe_add(variance, planes->eps));
}

static void statistics(const Planes *planes, int64_t item, const Fe *x, Fe *mean, Fe *variance) {
    Fe sum = 0;
    *mean = channel_mean(planes, item, x);
    for (int64_t i = 0; i < planes->n * planes->s; i++) {
        const Fe apart = fe_sub(x[place_of(planes, item, i)], *mean);
        sum = fe_add(sum, fe_mul(apart, apart));
    }
    *variance = fe_mul(sum, planes->inverse);
}

bool batch_norm_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Planes planes;
    if (!planes_open(node, &in[0], in + 1, 2, &planes, why, n) || !planes_open(node, &in[0], out + 1, 2, &planes, why, n)) return false;
    if (!same_box(&in[0], &out[0])) return field_fail(why, n, "operands and results hold different boxes");
    for (int64_t item = 0; item < planes.slices * planes.c; item++) {
        Fe *mean = &out[1].at[item], *variance = &out[2].at[item];
        statistics(&planes, item, in[0].at, mean, variance);
        const Fe root = root_of(&planes, *variance);
        for (int64_t i = 0; i < planes.n * planes.s; i++) {
            const int64_t at = place_of(&planes, item, i);
            const Fe normalised = fe_mul(fe_sub(in[0].at[at], *mean), root);
            out[0].at[at] = fe_add(fe_mul(normalised, in[1].at[item]), in[2].at[item]);
        }
    }
    return true;
}

bool batch_norm_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Planes planes;
    if (!planes_open(node, &in[0], in + 2, 3, &planes, why, n) || !planes_open(node, &in[0], out + 1, 2, &planes, why, n)) return false;
    if (!same_box(&in[0], &in[1]) || !same_box(&in[0], &out[0])) return field_fail(why, n, "operands and results hold different boxes");
    for (int64_t item = 0; item < planes.slices * planes.c; item++) {
        const Fe mean = in[3].at[item], root = root_of(&planes, in[4].at[item]);
        Fe dweight = 0, dbias = 0;
        for (int64_t i = 0; i < planes.n * planes.s; i++) {
            const int64_t at = place_of(&planes, item, i);
            dweight = fe_add(dweight, fe_mul(in[1].at[at], fe_mul(fe_sub(in[0].at[at], mean), root)));
            dbias = fe_add(dbias, in[1].at[at]);
        }
        out[1].at[item] = dweight;
        out[2].at[item] = dbias;
        for (int64_t i = 0; i < planes.n * planes.s; i++) {
            const int64_t at = place_of(&planes, item, i);
            const Fe normalised = fe_mul(fe_sub(in[0].at[at], mean), root);
            const Fe taken = fe_mul(fe_add(dbias, fe_mul(normalised, dweight)), planes.inverse);
            out[0].at[at] = fe_mul(fe_sub(in[1].at[at], taken), fe_mul(in[2].at[item], root));
        }
    }
    return true;
}

/* mean' = mean(x'), variance' = 2 mean(c c') with c = x - mean and c' = x' - mean', and y' = n' weight + n weight' + bias' with n' = root (c' - n mean(n c')), as the
 * derivative of the root is -root^3 mean(c c'). */
bool batch_norm_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n) {
    Planes planes;
    if (!planes_open(node, &in[0], in + 1, 2, &planes, why, n)) return false;
    for (int64_t item = 0; item < planes.slices * planes.c; item++) {
        Fe mean, variance, moved = din[0].at ? channel_mean(&planes, item, din[0].at) : 0, along = 0;
        statistics(&planes, item, in[0].at, &mean, &variance);
        const Fe root = root_of(&planes, variance);
#define CENTERED(at) fe_sub(in[0].at[at], mean)
#define MOVED(at) (din[0].at ? fe_sub(din[0].at[at], moved) : 0)
        for (int64_t i = 0; i < planes.n * planes.s; i++) {
            const int64_t at = place_of(&planes, item, i);
            along = fe_add(along, fe_mul(CENTERED(at), MOVED(at)));
        }
        along = fe_mul(along, planes.inverse);
        dout[1].at[item] = moved;
        dout[2].at[item] = fe_mul(2, along);
        for (int64_t i = 0; i < planes.n * planes.s; i++) {
            const int64_t at = place_of(&planes, item, i);
            const Fe normalised = fe_mul(CENTERED(at), root), bent = fe_mul(fe_mul(normalised, along), root);
            Fe dy = fe_mul(fe_mul(root, fe_sub(MOVED(at), bent)), in[1].at[item]);
            if (din[1].at) dy = fe_add(dy, fe_mul(normalised, din[1].at[item]));
            if (din[2].at) dy = fe_add(dy, din[2].at[item]);
            dout[0].at[at] = dy;
        }
#undef MOVED
#undef CENTERED
    }
    return true;
}
