/* shapes: rules that depend on attributes or on sizes: products, reductions, reshapes, transposes, composites. */
#include "ir/rules.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* "1 dimension", "3 dimensions" for messages. */
#define DIMENSIONS(n) (n), (n) == 1 ? "" : "s"

static void add_result_dim(Rule *rule, int factor, int64_t size) {
    Shape *shape = &rule->result[0].shape;
    rule->out[0][shape->ndim] = (int8_t)factor;
    shape->dim[shape->ndim++] = size;
}

void factors_of_operand(Rule *rule, const TensorType *in) {
    rule->result[0].dtype = in->dtype;
    for (int d = 0; d < in->shape.ndim; d++)
        rule->in[0][d] = (int8_t)rule_add_factor(rule, in->shape.dim[d]);
}

/* ---------------------------------------------------------------- matmul, einsum */

bool rule_matmul(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    const Shape *shape[2] = {&in[0].shape, &in[1].shape};
    for (int i = 0; i < 2; i++)
        if (shape[i]->ndim < 2)
            return rule_reject(error, i, -1, "%%%d has %d dimension%s, matmul needs at least 2", i, DIMENSIONS(shape[i]->ndim));
    bool transposed[2] = {attr[0].i != 0, attr[1].i != 0};
    int na = shape[0]->ndim, nb = shape[1]->ndim, nbatch = (na > nb ? na : nb) - 2;
    int dim_m = na - 2 + transposed[0], dim_ka = na - 1 - transposed[0];
    int dim_kb = nb - 2 + transposed[1], dim_n = nb - 1 - transposed[1];
    int64_t m = shape[0]->dim[dim_m], ka = shape[0]->dim[dim_ka], kb = shape[1]->dim[dim_kb], n = shape[1]->dim[dim_n];
    if (ka != kb) {
        rule_reject(error, 1, -1, "contracted sizes differ: %%0 has %" PRId64 ", %%1 has %" PRId64, ka, kb);
        if (ka == n)
            rule_hint(error, "transpose_b = %d would make it %" PRId64, !transposed[1], n);
        else if (kb == m)
            rule_hint(error, "transpose_a = %d would make it %" PRId64, !transposed[0], m);
        return false;
    }
    rule->result[0].dtype = in[0].dtype;
    for (int d = 0; d < nbatch; d++) {
        int own[2] = {d - (nbatch - (na - 2)), d - (nbatch - (nb - 2))};
        int64_t size[2] = {own[0] < 0 ? 1 : shape[0]->dim[own[0]], own[1] < 0 ? 1 : shape[1]->dim[own[1]]};
        if (size[0] != size[1] && size[0] != 1 && size[1] != 1) {
            rule_reject(error, 1, -1, "batch sizes do not broadcast: %%0 has %" PRId64 ", %%1 has %" PRId64, size[0], size[1]);
            return false;
        }
        int64_t common = size[0] == 1 ? size[1] : size[0];
        int f = rule_add_factor(rule, common);
        for (int i = 0; i < 2; i++)
            if (own[i] >= 0 && size[i] == common) rule->in[i][own[i]] = (int8_t)f;
        add_result_dim(rule, f, common);
    }
    int fm = rule_add_factor(rule, m), fk = rule_add_factor(rule, ka), fn = rule_add_factor(rule, n);
    rule->in[0][dim_m] = (int8_t)fm;
    rule->in[0][dim_ka] = (int8_t)fk;
    rule->in[1][dim_kb] = (int8_t)fk;
    rule->in[1][dim_n] = (int8_t)fn;
    add_result_dim(rule, fm, m);
    add_result_dim(rule, fn, n);
    return true;
}

bool rule_einsum(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const char *spec = attr[0].text ? attr[0].text : "", *at = spec;
    int64_t size[26] = {0};
    int uses[26] = {0};
    bool in_result[26] = {false};
    const char *term[MAX_IN + 1];
    int length[MAX_IN + 1];
    for (int i = 0; i <= nin; i++) {
        term[i] = at;
        unsigned seen = 0;
        for (; *at >= 'a' && *at <= 'z'; at++) {
            if (seen & 1u << (*at - 'a')) return rule_reject(error, -1, 0, "spec \"%s\" repeats %c in one operand", spec, *at);
            seen |= 1u << (*at - 'a');
        }
        length[i] = (int)(at - term[i]);
        const char *after = i + 1 < nin ? "," : i + 1 == nin ? "->" : "";
        if (strncmp(at, after, strlen(after)) != 0 || (i == nin && *at))
            return rule_reject(error, -1, 0, "spec \"%s\" is not of the form \"mk,kn->mn\" for %d operands", spec, nin);
        at += strlen(after);
    }
    for (int i = 0; i < nin; i++) {
        if (length[i] != in[i].shape.ndim)
            return rule_reject(error, i, 0, "%%%d has %d dimension%s, spec \"%s\" gives it %d letters", i, DIMENSIONS(in[i].shape.ndim),
                               spec, length[i]);
        for (int d = 0; d < length[i]; d++) {
            int c = term[i][d] - 'a';
            if (uses[c]++ > 0 && size[c] != in[i].shape.dim[d])
                return rule_reject(error, i, 0, "sizes of %c differ: %" PRId64 " and %" PRId64, term[i][d], size[c], in[i].shape.dim[d]);
            size[c] = in[i].shape.dim[d];
        }
    }
    if (length[nin] > MAX_USER_NDIM) return rule_reject(error, -1, 0, "the result would have more than %d dimensions", MAX_USER_NDIM);
    for (int d = 0; d < length[nin]; d++) {
        int c = term[nin][d] - 'a';
        if (uses[c] == 0) return rule_reject(error, -1, 0, "spec \"%s\": no operand has %c", spec, term[nin][d]);
        in_result[c] = true;
    }

    int8_t factor[26];
    memset(factor, -1, sizeof factor);
    for (int i = 0; i < nin; i++)
        for (int d = 0; d < length[i]; d++) {
            int c = term[i][d] - 'a';
            bool single = size[c] == 1 && uses[c] == 1 && !in_result[c]; /* left by a broadcast: nothing to split */
            if (factor[c] < 0 && !single) {
                if (rule->nfactors == MAX_FACTORS - 1) /* one is reserved for the hidden dimension */
                    return rule_reject(error, -1, 0, "spec \"%s\" has more than %d letters", spec, MAX_FACTORS - 1);
                factor[c] = (int8_t)rule_add_factor(rule, size[c]);
            }
            rule->in[i][d] = factor[c];
        }
    if (attr[1].i && !dtype_is_half(in[0].dtype))
        return rule_reject(error, -1, 1, "wide is for factors of 16 bits, and they are %s", dtype_name[in[0].dtype]);
    rule->result[0].dtype = attr[1].i ? F32 : in[0].dtype;
    for (int d = 0; d < length[nin]; d++)
        add_result_dim(rule, factor[term[nin][d] - 'a'], size[term[nin][d] - 'a']);
    return true;
}

/* ---------------------------------------------------------------- reductions and their duals */

/* Marks the dimensions that an axes attribute names; all of them when it was left out. Negative axes count from the end. */
static bool axes_read(const Attr *axes, int ndim, bool reduced[MAX_NDIM], RuleError *error) {
    for (int d = 0; d < MAX_NDIM; d++)
        reduced[d] = !axes->given && d < ndim;
    if (axes->given && axes->n == 0) {
        rule_reject(error, -1, 0, "axes is empty");
        rule_hint(error, "leave axes out to reduce over all dimensions");
        return false;
    }
    for (int i = 0; i < axes->n; i++) {
        int64_t axis = axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i];
        if (axis < 0 || axis >= ndim) {
            rule_reject(error, -1, 0, "axis %" PRId64 " is out of range: %%0 has %d dimension%s", axes->ints[i], DIMENSIONS(ndim));
            if (ndim > 0) rule_hint(error, "axes are %d to %d", -ndim, ndim - 1);
            return false;
        }
        if (reduced[axis]) return rule_reject(error, -1, 0, "axis %" PRId64 " is given twice", axes->ints[i]);
        reduced[axis] = true;
    }
    return true;
}

bool rule_reduce(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    bool reduced[MAX_NDIM];
    if (!axes_read(&attr[0], in[0].shape.ndim, reduced, error)) return false;
    factors_of_operand(rule, &in[0]);
    bool keep_dims = attr[1].i != 0;
    for (int d = 0; d < in[0].shape.ndim; d++) {
        if (!reduced[d])
            add_result_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
        else if (keep_dims)
            add_result_dim(rule, -1, 1);
    }
    return true;
}

bool shape_read(const Attr *attr, int index, Shape *shape, RuleError *error) {
    const Attr *a = &attr[index];
    if (a->n > MAX_USER_NDIM) return rule_reject(error, -1, index, "shape has %d dimensions, at most %d are possible", a->n, MAX_USER_NDIM);
    shape->ndim = a->n;
    for (int d = 0; d < a->n; d++) {
        shape->dim[d] = a->ints[d];
        if (a->ints[d] < 1) return rule_reject(error, -1, index, "size %" PRId64 " in shape is not positive", a->ints[d]);
    }
    int64_t elements;
    if (!shape_count(shape, &elements) || elements > MAX_ELEMENTS)
        return rule_reject(error, -1, index, "shape has more than 2^48 elements");
    return true;
}

bool rule_expand(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    Shape shape;
    bool reduced[MAX_NDIM];
    if (!shape_read(attr, 1, &shape, error) || !axes_read(&attr[0], shape.ndim, reduced, error)) return false;
    int left = 0;
    for (int d = 0; d < shape.ndim; d++)
        left += !reduced[d];
    bool kept = in[0].shape.ndim == shape.ndim;
    if (!kept && in[0].shape.ndim != left)
        return rule_reject(error, 0, 1, "%%0 has %d dimension%s, needs %d or %d", DIMENSIONS(in[0].shape.ndim), left, shape.ndim);
    rule->result[0].dtype = in[0].dtype;
    for (int d = 0, own = 0; d < shape.ndim; d++) {
        int f = rule_add_factor(rule, shape.dim[d]);
        add_result_dim(rule, f, shape.dim[d]);
        if (reduced[d] && !kept) continue;
        int64_t want = reduced[d] ? 1 : shape.dim[d];
        if (in[0].shape.dim[own] != want)
            return rule_reject(error, 0, 1, "%%0 has size %" PRId64 " in dimension %d, needs %" PRId64, in[0].shape.dim[own], own, want);
        rule->in[0][own++] = (int8_t)(reduced[d] ? -1 : f);
    }
    return true;
}

bool rule_sum_to(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    Shape shape;
    if (!shape_read(attr, 0, &shape, error)) return false;
    int missing = in[0].shape.ndim - shape.ndim;
    bool fits = missing >= 0;
    for (int d = 0; d < shape.ndim && fits; d++)
        fits = shape.dim[d] == 1 || shape.dim[d] == in[0].shape.dim[missing + d];
    if (!fits) {
        char from[SHAPE_TEXT_BYTES], to[SHAPE_TEXT_BYTES];
        return rule_reject(error, 0, 0, "%s does not broadcast to %%0, which is %s", shape_text(&shape, to),
                           shape_text(&in[0].shape, from));
    }
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < shape.ndim; d++)
        add_result_dim(rule, shape.dim[d] == in[0].shape.dim[missing + d] ? rule->in[0][missing + d] : -1, shape.dim[d]);
    return true;
}

/* Operands and reduction of a loss over pairs of elements. each: not NULL where the reduction "none" is allowed; *each: it was given. */
static bool pairs_read(const TensorType *in, const Attr *reduction, bool *each, Rule *rule, RuleError *error) {
    const char *word = reduction->given && reduction->text ? reduction->text : "mean";
    if (!shape_equal(&in[0].shape, &in[1].shape)) {
        char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
        return rule_reject(error, 1, -1, "shapes differ: %%0 is %s, %%1 is %s", shape_text(&in[0].shape, a), shape_text(&in[1].shape, b));
    }
    bool none = each && strcmp(word, "none") == 0;
    if (each) *each = none;
    if (!none && strcmp(word, "mean") != 0 && strcmp(word, "sum") != 0)
        return rule_reject(error, -1, 0, each ? "reduction is mean, sum or none, not %.100s" : "reduction is mean or sum, not %.100s",
                           word);
    factors_of_operand(rule, &in[0]);
    memcpy(rule->in[1], rule->in[0], sizeof rule->in[0]);
    return true;
}

bool rule_mse(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    return pairs_read(in, &attr[0], NULL, rule, error);
}

bool rule_bce_with_logits(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    bool each;
    if (!pairs_read(in, &attr[0], &each, rule, error)) return false;
    for (int d = 0; each && d < in[0].shape.ndim; d++)
        add_result_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}

/* ---------------------------------------------------------------- clamp */

bool rule_clamp(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    if (!attr[0].given && !attr[1].given) {
        rule_reject(error, -1, -1, "neither low nor high is given");
        rule_hint(error, "clamp(%%0, low = 0), clamp(%%0, high = 1), or both");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const double bound = attr[i].given ? attr[i].f : 0;
        if (!isfinite(bound)) return rule_reject(error, -1, i, "%s is no number", i ? "high" : "low");
        if (!dtype_is_float(in[0].dtype) && bound != floor(bound))
            return rule_reject(error, 0, i, "%%0 is %s, and %s is %g", dtype_name[in[0].dtype], i ? "high" : "low", bound);
    }
    if (attr[0].given && attr[1].given && attr[0].f > attr[1].f)
        return rule_reject(error, -1, 0, "low is %g, above high, which is %g", attr[0].f, attr[1].f);
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < in[0].shape.ndim; d++)
        add_result_dim(rule, d, in[0].shape.dim[d]);
    return true;
}

/* ---------------------------------------------------------------- movement */

bool rule_transpose(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    int ndim = in[0].shape.ndim;
    if (attr[0].given && attr[0].n != ndim)
        return rule_reject(error, 0, 0, "%%0 has %d dimension%s, perm names %d", DIMENSIONS(ndim), attr[0].n);
    bool used[MAX_NDIM] = {false};
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < ndim; d++) {
        int64_t from = !attr[0].given ? ndim - 1 - d : attr[0].ints[d] < 0 ? attr[0].ints[d] + ndim : attr[0].ints[d];
        if (from < 0 || from >= ndim) {
            rule_reject(error, -1, 0, "perm has %" PRId64 ", which is out of range: %%0 has %d dimension%s", attr[0].ints[d],
                        DIMENSIONS(ndim));
            rule_hint(error, "dimensions are %d to %d", -ndim, ndim - 1);
            return false;
        }
        if (used[from]) return rule_reject(error, -1, 0, "perm names dimension %" PRId64 " twice", from);
        used[from] = true;
        add_result_dim(rule, (int)from, in[0].shape.dim[from]);
    }
    return true;
}

/* Finds the target shape of a reshape, with its -1 filled in. */
static bool reshape_target(const Shape *from, const Attr *attr, Shape *to, RuleError *error) {
    if (attr->n > MAX_USER_NDIM)
        return rule_reject(error, -1, 0, "shape has %d dimensions, at most %d are possible", attr->n, MAX_USER_NDIM);
    int64_t have, known = 1;
    if (!shape_count(from, &have)) return rule_reject(error, 0, -1, "%%0 has more than 2^48 elements");
    int open = -1;
    bool fits = true;
    to->ndim = attr->n;
    for (int d = 0; d < attr->n; d++) {
        to->dim[d] = attr->ints[d];
        if (attr->ints[d] == -1) {
            if (open >= 0) return rule_reject(error, -1, 0, "shape has more than one -1");
            open = d;
        } else if (attr->ints[d] < 1)
            return rule_reject(error, -1, 0, "size %" PRId64 " in shape is not positive", attr->ints[d]);
        else
            fits = fits && mul_checked(known, attr->ints[d], &known);
    }
    char text[SHAPE_TEXT_BYTES];
    if (!fits) return rule_reject(error, 0, 0, "%%0 has %" PRId64 " elements, shape %s more than 2^48", have, shape_text(to, text));
    if (open >= 0) {
        if (have % known != 0)
            return rule_reject(error, 0, 0, "%%0 has %" PRId64 " elements, no multiple of the %" PRId64 " in shape %s", have, known,
                               shape_text(to, text));
        to->dim[open] = have / known;
    } else if (have != known) {
        rule_reject(error, 0, 0, "%%0 has %" PRId64 " elements, shape %s has %" PRId64, have, shape_text(to, text), known);
        int last = to->ndim - 1;
        if (last >= 0 && have % (known / to->dim[last]) == 0)
            rule_hint(error, "-1 in place of the last size would make it %" PRId64, have / (known / to->dim[last]));
        return false;
    }
    return true;
}

/* Dimensions are grouped from the left until the products of both sides agree. Splitting the leading dimension of a group into s equal
 * parts cuts the group's elements into s equal runs in row-major order, on either side, if s divides both leading sizes. */
bool rule_reshape(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    const Shape *from = &in[0].shape;
    Shape *to = &rule->result[0].shape;
    if (!reshape_target(from, &attr[0], to, error)) return false;
    rule->result[0].dtype = in[0].dtype;
    for (int i = 0, o = 0; i < from->ndim || o < to->ndim;) {
        if (i < from->ndim && from->dim[i] == 1) {
            i++;
            continue;
        }
        if (o < to->ndim && to->dim[o] == 1) {
            o++;
            continue;
        }
        assert(i < from->ndim && o < to->ndim); /* the counts are equal */
        int lead_in = i, lead_out = o;
        int64_t size_in = from->dim[i++], size_out = to->dim[o++];
        bool single = size_in == size_out;
        while (size_in != size_out) {
            if (size_in < size_out)
                size_in *= from->dim[i++];
            else
                size_out *= to->dim[o++];
        }
        int64_t size = gcd64(from->dim[lead_in], to->dim[lead_out]);
        if (size == 1) continue;
        int f = rule_add_factor(rule, size);
        rule->factor[f].divides = !single;
        rule->in[0][lead_in] = (int8_t)f;
        rule->out[0][lead_out] = (int8_t)f;
    }
    return true;
}

/* ---------------------------------------------------------------- the hidden dimension */

bool rule_replicate(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    if (in[0].hidden || in[0].shape.ndim > MAX_USER_NDIM) return rule_reject(error, 0, -1, "%%0 has replicas already");
    if (attr[0].i < 1) return rule_reject(error, -1, 0, "%" PRId64 " replicas", attr[0].i);
    add_result_dim(rule, rule_add_factor(rule, attr[0].i), attr[0].i);
    factors_of_operand(rule, &in[0]);
    rule->result[0].hidden = true;
    for (int d = 0; d < in[0].shape.ndim; d++)
        add_result_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}

bool rule_replica_sum(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin, (void)attr;
    if (!in[0].hidden) return rule_reject(error, 0, -1, "%%0 has no replicas");
    factors_of_operand(rule, &in[0]);
    for (int d = 1; d < in[0].shape.ndim; d++)
        add_result_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}

bool rule_expose(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    const bool hide = attr[0].i != 0;
    if (in[0].hidden == hide) return rule_reject(error, 0, -1, hide ? "%%0 has replicas already" : "%%0 has no replicas");
    if (hide && in[0].shape.ndim == 0) return rule_reject(error, 0, -1, "%%0 has no dimension to hide");
    if (!hide && in[0].shape.ndim > MAX_USER_NDIM) return rule_reject(error, 0, -1, "%%0 has %d dimensions already", (int)MAX_USER_NDIM);
    factors_of_operand(rule, &in[0]);
    rule->result[0].hidden = hide;
    for (int d = 0; d < in[0].shape.ndim; d++)
        add_result_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}
