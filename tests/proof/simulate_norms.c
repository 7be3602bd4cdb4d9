/* layer_norm, rms_norm, batch_norm and their gradients, in plans that are simulated. */
#include "tests/proof/simulate_numbers.h"

/* Norms: of each row along the weight's dimensions mean and root are functions of all of it; what is made of them is arithmetic. The gradient takes both as they are given. */
static bool of_rows(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const bool gradient = node->op == OP_layer_norm_grad || node->op == OP_rms_norm_grad;
    const bool centered = node->op == OP_layer_norm_grad || node->op == OP_layer_norm;
    const SimTensor *x = &in[0], *weight = &in[gradient ? 2 : 1], *numbers = gradient ? &in[3] : &out[1];
    const int64_t length = shape_elements(&weight->global), count = shape_elements(&x->local);
    bool fits = shape_elements(&weight->local) == length && shape_equal(&out[0].local, &x->local) &&
                (!gradient || shape_equal(&in[1].local, &x->local));
    for (int d = 0; d < weight->global.ndim; d++)
        fits = fits && is_whole(x, x->local.ndim - 1 - d);
    for (int k = 0; k <= centered; k++)
        for (int d = 0; d < x->local.ndim - weight->global.ndim; d++)
            fits = fits && numbers[k].local.dim[d] == x->local.dim[d] && numbers[k].begin[d] == x->begin[d];
    if (!fits) return fault(why, n, "a row that is not whole");
    for (int k = 1; gradient && k < node->nout; k++)
        for (int64_t e = 0; e < length; e++)
            out[k].at[e] = 0;
    for (int64_t e = 0; e < count; e++) {
        const int64_t row = e / length, place = e % length, begin = e - place;
        uint64_t key = (uint64_t)node->op;
        uint32_t whole = 0, along = 0, sum = 0;
        for (int64_t k = 0; k < length; k++) {
            whole = plus(whole, x->at[begin + k]); /* poison */
            key = simulate_mix(key ^ x->at[begin + k]);
        }
        if (!gradient && centered) numbers[0].at[row] = any_function(key + 1, whole);
        if (!gradient) numbers[centered].at[row] = any_function(key, whole);
        const uint32_t mean = centered ? numbers[0].at[row] : 0, root = numbers[centered].at[row];
#define NORMALISED(k) times(plus(x->at[begin + (k)], negative(mean)), root)
        if (!gradient) {
            out->at[e] = times(NORMALISED(place), weight->at[place]);
            if (centered) out->at[e] = plus(out->at[e], in[2].at[place]);
            continue;
        }
        for (int64_t k = 0; k < length; k++) {
            const uint32_t g = times(in[1].at[begin + k], weight->at[k]);
            along = plus(along, times(g, NORMALISED(k)));
            sum = plus(sum, g);
        }
        const uint32_t taken = plus(times(along, NORMALISED(place)), centered ? sum : 0);
        out[0].at[e] = times(plus(times(in[1].at[e], weight->at[place]), negative(taken)), root);
        out[1].at[place] = plus(out[1].at[place], times(in[1].at[e], NORMALISED(place)));
        if (node->nout > 2) out[2].at[place] = plus(out[2].at[place], in[1].at[e]);
#undef NORMALISED
    }
    return true;
}

/* batch_norm: of each channel, dimension 1, its mean and its variance are functions of all of it; the root is one of the variance, and all else arithmetic. The gradient takes
 * mean and variance as they are given. */
static bool of_channels(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const bool gradient = node->op == OP_batch_norm_grad;
    const SimTensor *x = &in[0], *weight = &in[gradient ? 2 : 1];
    const int64_t channels = x->local.dim[1], count = shape_elements(&x->local);
    bool fits = shape_equal(&out[0].local, &x->local) && (!gradient || shape_equal(&in[1].local, &x->local)) &&
                weight->local.dim[0] == channels && weight->begin[0] == x->begin[1];
    for (int d = 0; d < x->local.ndim; d++)
        fits = fits && (d == 1 || is_whole(x, d));
    for (int k = 1; k < 3; k++)
        fits = fits && out[k].local.dim[0] == channels && out[k].begin[0] == x->begin[1];
    if (!fits) return fault(why, n, "a channel that is not whole");
    int64_t s = 1;
    for (int d = 2; d < x->local.ndim; d++)
        s *= x->local.dim[d];
    for (int64_t c = 0; c < channels; c++) {
        uint32_t whole = 0, along = 0, sum = 0;
        uint64_t key = OP_batch_norm;
        for (int64_t e = 0; e < count; e++)
            if (e / s % channels == c) {
                whole = plus(whole, x->at[e]); /* poison */
                key = simulate_mix(key ^ x->at[e]);
            }
        const uint32_t mean = gradient ? in[3].at[c] : any_function(key, whole),
                       variance = gradient ? in[4].at[c] : any_function(key + 1, whole);
        const uint32_t root = any_function(OP_rsqrt, variance), each = inverse(integer(count / channels));
#define NORMALISED(e) times(plus(x->at[e], negative(mean)), root)
        for (int64_t e = 0; e < count && gradient; e++)
            if (e / s % channels == c) {
                along = plus(along, times(in[1].at[e], NORMALISED(e)));
                sum = plus(sum, in[1].at[e]);
            }
        for (int64_t e = 0; e < count; e++) {
            if (e / s % channels != c) continue;
            const uint32_t taken = times(plus(sum, times(NORMALISED(e), along)), each);
            out[0].at[e] = gradient ? times(plus(in[1].at[e], negative(taken)), times(weight->at[c], root))
                                    : plus(times(NORMALISED(e), weight->at[c]), in[2].at[c]);
        }
#undef NORMALISED
        out[1].at[c] = gradient ? along : mean;
        out[2].at[c] = gradient ? sum : variance;
    }
    return true;
}

bool simulate_norm(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    return (node->op == OP_batch_norm || node->op == OP_batch_norm_grad ? of_channels : of_rows)(node, in, out, why, n);
}
