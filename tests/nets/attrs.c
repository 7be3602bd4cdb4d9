/* Attributes of a random statement, drawn by their names and kinds. The operator's rule refuses those that do not fit. */
#include <string.h>

#include "tests/nets/make.h"

static void shuffle_ints(Make *make, int64_t *at, int n) {
    for (int i = 0; i < n; i++)
        at[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = below(make, i + 1);
        int64_t kept = at[i];
        at[i] = at[k];
        at[k] = kept;
    }
}

static void draw_reshape(Make *make, const Shape *from, Attr *attr) {
    int64_t n = shape_elements(from);
    switch (below(make, 4)) {
    case 0:
        attr->ints[attr->n++] = n;
        break;
    case 1: /* two leading dimensions joined */
        attr->ints[attr->n++] = from->ndim > 1 ? from->dim[0] * from->dim[1] : n;
        for (int d = 2; d < from->ndim; d++)
            attr->ints[attr->n++] = from->dim[d];
        break;
    case 2: /* each dimension in two, while there is room */
        for (int d = 0; d < from->ndim; d++) {
            int64_t first = from->ndim < 3 ? draw_divisor(make, from->dim[d]) : 1;
            if (first > 1 && first < from->dim[d]) attr->ints[attr->n++] = first;
            attr->ints[attr->n++] = first > 1 && first < from->dim[d] ? from->dim[d] / first : from->dim[d];
        }
        break;
    default:
        attr->ints[attr->n++] = draw_divisor(make, n);
        attr->ints[attr->n++] = n / attr->ints[0];
    }
    if (attr->n > 0 && chance(make, 50)) attr->ints[below(make, attr->n)] = -1;
}

static void draw_ints(Make *make, const char *name, const Shape *shape, const Attr *before, Attr *attr) {
    if (strcmp(name, "shape") == 0) {
        draw_reshape(make, shape, attr);
        return;
    }
    const bool windows = strcmp(name, "kernel_size") == 0 || strcmp(name, "stride") == 0 || strcmp(name, "dilation") == 0 ||
                         strcmp(name, "scale_factor") == 0;
    if (windows || strcmp(name, "padding") == 0) {
        attr->n = 1 + chance(make, 50);
        for (int d = 0; d < attr->n; d++)
            attr->ints[d] = below(make, windows ? 3 : 2) + windows;
        return;
    }
    attr->n = shape->ndim;
    if (strcmp(name, "axes") == 0 || strcmp(name, "perm") == 0) {
        shuffle_ints(make, attr->ints, shape->ndim);
        bool some = name[0] == 'a' && shape->ndim > 0;
        if (some) attr->n = 1 + below(make, shape->ndim);
        if (some && chance(make, 30)) attr->ints[0] -= shape->ndim;
        return;
    }
    bool is_end = strcmp(name, "end") == 0;
    for (int d = 0; d < shape->ndim; d++) {
        int64_t size = shape->dim[d], from = is_end && before->n > d ? before->ints[d] + (before->ints[d] < 0 ? size : 0) : 0;
        if (is_end)
            attr->ints[d] = chance(make, 40) ? size : from + 1 + below(make, (int)(size - from));
        else
            attr->ints[d] = chance(make, 40) ? 0 : below(make, (int)size) - (chance(make, 20) ? size : 0);
    }
}

static void draw_int(Make *make, const char *name, bool divided, const Shape *shape, Attr *attr) {
    if (strcmp(name, "axis") == 0)
        attr->i = shape->ndim > 0 ? below(make, shape->ndim) - (chance(make, 30) ? shape->ndim : 0) : 0;
    else if (divided) /* a number of parts */
        attr->i = shape->ndim > 0 ? draw_divisor(make, shape->dim[below(make, shape->ndim)]) : 1;
    else
        attr->i = draw_size(make);
}

/* A word that an attribute of this name may be, whether or not this row takes it. */
static const char *draw_word(Make *make, const char *name) {
    static const char *const reductions[] = {"sum", "mean", "none"};
    if (strcmp(name, "reduction") == 0) return reductions[below(make, 3)];
    return dtype_name[chance(make, 60) ? make->dtype : (DType)below(make, BOOL + 1)]; /* to = f32; no halves, see draw_dtype */
}

void draw_attrs(Make *make, OpCode op, const Shape *shape, Attr *attr) {
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++) {
        const AttrSpec *spec = &op_table[op].attrs[a];
        attr[a].given = spec->required || chance(make, spec->kind == ATTR_BOOL ? 40 : 75);
        if (!attr[a].given) continue;
        switch (spec->kind) {
        case ATTR_BOOL:
            attr[a].i = chance(make, 80);
            break;
        case ATTR_INT:
            draw_int(make, spec->name, op_table[op].divided, shape, &attr[a]);
            break;
        case ATTR_INTS:
            draw_ints(make, spec->name, shape, a > 0 ? &attr[a - 1] : &attr[a], &attr[a]);
            break;
        case ATTR_FLOAT:
            attr[a].f = (1 + below(make, 8)) / 8.0;
            break;
        case ATTR_TEXT:
            attr[a].text = draw_word(make, spec->name);
            break;
        case ATTR_NONE:
            break;
        }
    }
}
