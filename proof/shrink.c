/* Makes a small case with the pattern of a large one: the same operator or communication, with digits above 3 reduced to 3 or 2, and with the smallest sizes at which every split
 * stays even, uneven or empty, and has the same boundaries in common. */
#include "proof/shrink.h"
#include "proof/windows.h"

#include <string.h>

/* ---------------------------------------------------------------- ranks */

/* The rank number in a mixed radix, given by boundaries between its positions; every digit of every layout is a run of neighbouring
 * positions. */
typedef struct Radix {
    int n;
    int64_t bound[2 * MAX_DIGITS], small[2 * MAX_DIGITS]; /* ascending, each divides the next; small: those of the small case */
} Radix;

static bool radix_add(Radix *radix, int64_t bound) {
    int at = 0;
    while (at < radix->n && radix->bound[at] < bound)
        at++;
    if (at < radix->n && radix->bound[at] == bound) return true;
    if (radix->n == 2 * MAX_DIGITS) return false;
    memmove(radix->bound + at + 1, radix->bound + at, (size_t)(radix->n++ - at) * sizeof *radix->bound);
    radix->bound[at] = bound;
    return true;
}

/* Makes the pins of a small case: at each level of the ranks that a pin covers, 0 stands for the value of the first such pin, 1 for any
 * other value. */
static void pins_shrink(const Radix *radix, const Case *own, Case *small) {
    int64_t first[2 * MAX_DIGITS];
    bool known[2 * MAX_DIGITS] = {false};
    for (int t = 0; t < case_tensors(own); t++) {
        const Pin *pin = &own->layout[t].pin;
        const int64_t end = (int64_t)pin->digit.stride * pin->digit.size, rank = (int64_t)pin->value * pin->digit.stride;
        int64_t low = 0, high = 0, value = 0;
        for (int l = 0; l + 1 < radix->n && pin->digit.size > 0; l++) {
            if (radix->bound[l] < pin->digit.stride || radix->bound[l] >= end) continue;
            const int64_t at = rank / radix->bound[l] % (radix->bound[l + 1] / radix->bound[l]);
            if (!known[l]) first[l] = at, known[l] = true;
            if (low == 0) low = radix->small[l];
            high = radix->small[l + 1];
            value += at == first[l] ? 0 : radix->small[l];
        }
        if (low > 0) small->layout[t].pin = (Pin){{(int32_t)(high / low), (int32_t)low}, (int32_t)(value / low)};
    }
}

/* False: the digits have no common refinement. */
static bool radix_init(Radix *radix, const Case *c, int most) {
    radix->n = 0;
    bool ok = radix_add(radix, 1) && radix_add(radix, c->nranks);
    for (int t = 0; t < case_tensors(c); t++)
        for (int i = 0; ok && i < c->layout[t].start[c->layout[t].ndim + NREDUCTIONS]; i++) {
            Digit d = c->layout[t].digit[i];
            ok = radix_add(radix, d.stride) && radix_add(radix, (int64_t)d.stride * d.size);
        }
    for (int t = 0; t < case_tensors(c); t++) {
        const Digit d = c->layout[t].pin.digit;
        if (ok && d.size > 0) ok = radix_add(radix, d.stride) && radix_add(radix, (int64_t)d.stride * d.size);
    }
    radix->small[0] = 1;
    for (int i = 1; ok && i < radix->n; i++) {
        int64_t size = radix->bound[i] / radix->bound[i - 1];
        ok = radix->bound[i] % radix->bound[i - 1] == 0;
        radix->small[i] = radix->small[i - 1] * (size > most ? most : size);
        ok = ok && radix->small[i] <= 1 << 20;
    }
    return ok;
}

static int64_t radix_small(const Radix *radix, int64_t bound) {
    int at = 0;
    while (radix->bound[at] != bound)
        at++;
    return radix->small[at];
}

static void layout_shrink(const Radix *radix, const Layout *layout, Layout *small) {
    *small = *layout;
    for (int i = 0; i < layout->start[layout->ndim + NREDUCTIONS]; i++) {
        Digit d = layout->digit[i];
        int64_t low = radix_small(radix, d.stride), high = radix_small(radix, (int64_t)d.stride * d.size);
        small->digit[i] = (Digit){.size = (int32_t)(high / low), .stride = (int32_t)low};
    }
}

/* ---------------------------------------------------------------- sizes */

enum { MAX_LISTS = MAX_IN + MAX_OUT };
/* All lists of digits that divide one index. */
typedef struct Lists {
    int n;
    const Layout *own[MAX_LISTS], *small[MAX_LISTS];
    int list[MAX_LISTS];
} Lists;

static void lists_add(Lists *lists, const Case *own, const Case *small, int tensor, int dim) {
    lists->own[lists->n] = &own->layout[tensor];
    lists->small[lists->n] = &small->layout[tensor];
    lists->list[lists->n++] = dim;
}

/* How a list divides a size: the first level at which parts differ (-1: none), and whether the last parts have no element, one, or more. At
 * each level parts have at most two neighbouring sizes. */
typedef struct Manner {
    int uneven;
    int64_t least, most;
} Manner;

static Manner manner_of(const Layout *layout, int list, int64_t size) {
    Manner manner = {.uneven = -1, .least = size, .most = size};
    for (int i = 0; i < layout_count(layout, list); i++) {
        int64_t parts = layout_list(layout, list)[i].size;
        if (manner.uneven < 0 && manner.least % parts) manner.uneven = i;
        manner.least /= parts;
        manner.most = (manner.most + parts - 1) / parts;
    }
    if (manner.least > 2) manner.least = 2;
    if (manner.most > 2) manner.most = 2;
    return manner;
}

static bool same_lists(const Layout *a, int list_a, const Layout *b, int list_b) {
    int n = layout_count(a, list_a);
    return n == layout_count(b, list_b) && !memcmp(layout_list(a, list_a), layout_list(b, list_b), (size_t)n * sizeof(Digit));
}

static bool keeps_manner(const Lists *lists, int64_t size, int64_t small) {
    for (int i = 0; i < lists->n; i++) {
        Manner a = manner_of(lists->own[i], lists->list[i], size), b = manner_of(lists->small[i], lists->list[i], small);
        if (a.uneven != b.uneven || a.least != b.least || (layout_count(lists->own[i], lists->list[i]) && a.most != b.most)) return false;
        if (i == 0 || same_lists(lists->own[i], lists->list[i], lists->own[0], lists->list[0])) continue;
        if (own_list_same(lists->own[i], lists->list[i], lists->own[0], lists->list[0], size) !=
            own_list_same(lists->small[i], lists->list[i], lists->small[0], lists->list[0], small))
            return false;
    }
    return true;
}

/* The least size that is divided in the same manner; 0: no small size is. */
static int64_t small_size(const Lists *lists, int64_t size, bool keep, int number) {
    int64_t most = 1;
    for (int i = 0; i < lists->n; i++)
        if (layout_split(lists->small[i], lists->list[i]) > most) most = layout_split(lists->small[i], lists->list[i]);
    if (size == 1) return 1;
    if (most == 1) {
        int64_t few = 2 + number % 2; /* neighbouring indices differ in size, so that confusing them is noticed */
        return keep || size < few ? size : few;
    }
    for (int64_t small = 2; small <= size && small <= 4 * most + 4; small++)
        if (keeps_manner(lists, size, small)) return small;
    return 0;
}

/* ---------------------------------------------------------------- operators */

static Shape *shape_of(Case *c, int tensor) {
    return &c->value[tensor].type.shape;
}
static const int8_t *map_of(const Letters *letters, const Case *c, int tensor) {
    return tensor < c->node.nin ? letters->in[tensor] : letters->out[tensor - c->node.nin];
}

/* The dimension, counted from the last one, along which an operand is read through the windows of this letter; -1: none. */
static int windows_of(const Letters *letters, const Case *c, int letter) {
    for (int i = 0; i < c->node.nin; i++)
        for (int d = 0, ndim = c->layout[i].ndim; d < ndim; d++)
            if (letters_see(letters, i, ndim, d) && letters->in[i][d] == letter) return ndim - 1 - d;
    return -1;
}

/* All lists that divide the letter itself, not a dimension read through its windows. */
static Lists lists_of(const Letters *letters, const Case *own, const Case *small, int letter) {
    Lists lists = {0};
    for (int t = 0; t < case_tensors(own); t++)
        for (int d = 0; d < own->layout[t].ndim; d++) {
            const bool through = t < own->node.nin && letters_see(letters, t, own->layout[t].ndim, d);
            if (!through && map_of(letters, own, t)[d] == letter && lists.n < MAX_LISTS) lists_add(&lists, own, small, t, d);
        }
    return lists;
}

/* The smallest size from `least` on of a letter with windows that is divided in the same manner, its own size if there is none; 0: nothing
 * divides it. d: the dimension of planes, else -1. */
static int64_t small_windows(const Case *own, const Lists *lists, int64_t size, int d, int64_t least) {
    int64_t most = 1;
    for (int i = 0; i < lists->n; i++)
        if (layout_split(lists->small[i], lists->list[i]) > most) most = layout_split(lists->small[i], lists->list[i]);
    for (int64_t small = least; most > 1 && small < size; small++)
        if (keeps_manner(lists, size, small) && (d < 0 || windowed_small(&own->graph, &own->node, d, small))) return small;
    return most > 1 ? size : 0;
}

/* Shrinks planes, and the halos that give their number of windows or elements. */
static void planes_shrink(const Case *own, const Letters *letters, Case *small) {
    Shape *shapes[3] = {NULL};
    int64_t size[2] = {0};
    for (int t = 0; t < case_tensors(own); t++)
        shapes[t] = shape_of(small, t);
    for (int letter = 0; letter < letters->n; letter++) {
        const int from_last = windows_of(letters, own, letter), d = 1 - from_last;
        const Lists lists = lists_of(letters, own, small, letter);
        if (from_last >= 0) size[d] = small_windows(own, &lists, letters->size[letter], d, 2);
    }
    windowed_shrink(&own->graph, &own->node, size, shapes, small->attr);
    for (int i = 0; i < own->node.nin; i++)
        for (int d = 0; d < 2; d++) {
            Halo *halo = &small->layout[i].halo[HALO_DIMS - 2 + d];
            if (halo->kind != HALO_NONE && size[d] > 0) halo->of = size[d];
        }
}

static bool letters_shrink(const Case *own, const Letters *letters, Case *small, bool keep) {
    for (int letter = 0; letter < letters->n; letter++) {
        const Lists lists = lists_of(letters, own, small, letter);
        if (windows_of(letters, own, letter) >= 0) continue;
        int64_t size = small_size(&lists, letters->size[letter], keep, letter);
        if (!size) return false;
        for (int t = 0; t < case_tensors(own); t++)
            for (int d = 0; d < own->layout[t].ndim; d++)
                if (map_of(letters, own, t)[d] == letter) shape_of(small, t)->dim[d] = size;
    }
    return true;
}

static int64_t few(int64_t size, int64_t most) {
    return size < most ? size : most;
}

/* Shrinks the dimensions that slice and slice_grad cut. What lies before, in and after the cut stays empty or non-empty, the parts of the
 * result are divided in the same manner, and what they need stays shifted by the cut. */
static void slice_shrink(const Case *own, const Letters *letters, Case *small) {
    const bool pads = own->node.op == OP_slice_grad;
    int wide = pads ? 1 : 0, first = own->value[wide].type.hidden;
    Attr *begin = &small->attr[op_attr(own->node.op, "begin")], *end = &small->attr[op_attr(own->node.op, "end")];
    for (int d = first, ndim = own->value[wide].type.shape.ndim; d < ndim; d++) {
        int64_t *from = &begin->ints[d - first], *to = &end->ints[d - first];
        if (!letters_see(letters, 0, ndim, d)) {
            *from = 0;
            *to = shape_of(small, wide)->dim[d];
            continue;
        }
        const int letter = letters->in[0][d];
        const Lists lists = lists_of(letters, own, small, letter);
        int64_t size = own->value[wide].type.shape.dim[d];
        if (*from < 0) *from += size;
        if (*to < 0) *to += size;
        const int64_t before = few(*from, 1), behind = few(size - *to, 1), around = pads ? before + behind : 0;
        const int64_t divided = small_windows(own, &lists, letters->size[letter], -1, around + 1),
                      taken = divided > 0 ? divided - around : few(*to - *from, 2), nearer = pads ? before - *from : *from - before;
        Halo *halo = &small->layout[0].halo[d - (ndim - HALO_DIMS)];
        if (halo->kind != HALO_NONE) *halo = (Halo){halo->kind, taken + around, halo->stride, halo->low + nearer, halo->high - nearer};
        *from = before;
        *to = before + taken;
        shape_of(small, wide)->dim[d] = before + taken + behind;
        shape_of(small, 1 - wide)->dim[d] = taken;
    }
}

/* Shrinks the classes of logits whose rows are read whole: they have no letter. */
static void classes_shrink(const Case *own, Case *small) {
    const int last = own->value[0].type.shape.ndim - 1;
    shape_of(small, 0)->dim[last] = few(own->value[0].type.shape.dim[last], 5);
}

/* Where a part after the first begins in a joined tensor of another size: in proportion, with room for at least one element of each
 * part. */
static int64_t joint_at(int64_t at, int64_t size, int64_t small, int64_t before, int k, int n) {
    const int64_t there = (int64_t)((double)at * (double)small / (double)size), least = before + 1, most = small - (n - k);
    return there < least ? least : there > most ? most : there;
}

/* Shrinks the dimension along which concat joins and split divides. If the joined dimension is divided, it stays divided in the same
 * manner, and what its parts need of each operand stays shifted by the operand's position. */
static bool axis_shrink(const Case *own, const Letters *letters, Case *small) {
    const Attr *axis = &own->node.attr[op_attr(own->node.op, "axis")];
    int nin = own->node.nin, hidden = own->value[0].type.hidden;
    int64_t d = axis->given ? axis->i : 0, ndim = own->value[0].type.shape.ndim - hidden, all = 0;
    if (d < 0) d += ndim;
    if (d < 0 || d >= ndim) return false;
    d += hidden;
    const int whole = own->node.op == OP_concat ? nin : 0, letter = map_of(letters, own, whole)[d];
    const int64_t size = own->value[whole].type.shape.dim[d];
    const Lists lists = lists_of(letters, own, small, letter);
    const int64_t divided = letter < 0 ? 0 : small_windows(own, &lists, size, -1, nin);
    int64_t at = 0, there = 0;
    for (int t = 0; t < nin && divided > 0; t++) {
        const int64_t behind = at + own->value[t].type.shape.dim[d],
                      next = t + 1 < nin ? joint_at(behind, size, divided, there, t + 1, nin) : divided;
        Halo *halo = &small->layout[t].halo[d - (ndim + hidden - HALO_DIMS)];
        if (halo->kind != HALO_NONE) *halo = (Halo){halo->kind, divided, halo->stride, halo->low + there - at, halo->high + at - there};
        shape_of(small, t)->dim[d] = next - there;
        at = behind, there = next;
    }
    if (divided > 0) return shape_of(small, whole)->dim[d] = divided, true;
    for (int t = 0; t < case_tensors(own); t++) {
        if (t == whole) continue;
        int64_t part = few(own->value[t].type.shape.dim[d], own->node.op == OP_concat ? 2 + t % 2 : 2);
        shape_of(small, t)->dim[d] = part;
        all += part;
    }
    shape_of(small, whole)->dim[d] = all;
    return true;
}

/* Keeps the sizes of a group without common factors, and splits where they divide the sizes. */
static bool group_keep(const Case *own, Case *small, const int *x, int nx, const int *y, int ny) {
    for (int i = 0; i < nx; i++)
        shape_of(small, 0)->dim[x[i]] = own->value[0].type.shape.dim[x[i]];
    for (int j = 0; j < ny; j++)
        shape_of(small, 1)->dim[y[j]] = own->value[1].type.shape.dim[y[j]];
    return true;
}

/* Shrinks one group of a reshape: nx dimensions of x and ny of y have the same product, and only the leading ones are split, by the same
 * digits. Where their partial products divide each other, sizes are products of common factors, and each factor becomes small. */
static bool group_shrink(const Case *own, Case *small, const int *x, int nx, const int *y, int ny, bool keep) {
    const Shape *from = &own->value[0].type.shape, *to = &own->value[1].type.shape;
    Lists lists = {0};
    lists_add(&lists, own, small, 0, x[0]);
    lists_add(&lists, own, small, 1, y[0]);
    if (nx == 1 && ny == 1) {
        int64_t size = small_size(&lists, from->dim[x[0]], keep, x[0]);
        shape_of(small, 0)->dim[x[0]] = shape_of(small, 1)->dim[y[0]] = size;
        return size > 0;
    }
    /* From the right: a and b are the products of the dimensions seen so far, last: the greater product up to which both are done. */
    int i = nx, j = ny;
    int64_t a = from->dim[x[nx - 1]], b = to->dim[y[ny - 1]], last = 1, small_x = 1, small_y = 1;
    while (i > 0 && j > 0) {
        int64_t next = a < b ? a : b, factor = next / last, size = few(factor, 2);
        if (next % last) return keep && group_keep(own, small, x, nx, y, ny);
        if (i == 1 && j == 1) { /* the leading factor: splits divide it */
            int64_t parts = layout_split(&own->layout[0], x[0]);
            if (factor % parts) return false;
            if (parts > 1) size = layout_split(&small->layout[0], x[0]) * few(factor / parts, 2);
        }
        last = next;
        small_x *= size;
        small_y *= size;
        bool end_x = a == next, end_y = b == next;
        if (end_x) {
            shape_of(small, 0)->dim[x[--i]] = small_x;
            small_x = 1;
            if (i > 0) a *= from->dim[x[i - 1]];
        }
        if (end_y) {
            shape_of(small, 1)->dim[y[--j]] = small_y;
            small_y = 1;
            if (j > 0) b *= to->dim[y[j - 1]];
        }
    }
    return i == 0 && j == 0;
}

static bool reshape_shrink(const Case *own, Case *small, bool keep) {
    const Shape *from = &own->value[0].type.shape, *to = &own->value[1].type.shape;
    int x[MAX_NDIM], y[MAX_NDIM], nx = 0, ny = 0, i = 0, j = 0;
    for (int d = 0; d < from->ndim; d++)
        if (from->dim[d] != 1) x[nx++] = d;
    for (int d = 0; d < to->ndim; d++)
        if (to->dim[d] != 1) y[ny++] = d;
    while (i < nx && j < ny) {
        int i0 = i, j0 = j;
        int64_t a = from->dim[x[i++]], b = to->dim[y[j++]];
        while (a != b) {
            if ((a < b && i == nx) || (a > b && j == ny)) return false;
            if (a < b)
                a *= from->dim[x[i++]];
            else
                b *= to->dim[y[j++]];
        }
        if (!group_shrink(own, small, x + i0, i - i0, y + j0, j - j0, keep)) return false;
    }
    return i == nx && j == ny;
}

/* Sets the attributes that give sizes. */
static void attributes_shrink(Case *small) {
    int classes = op_attr(small->node.op, "classes"), rows = op_attr(small->node.op, "rows"), shape = op_attr(small->node.op, "shape"),
        replicas = op_attr(small->node.op, "replicas"), along = op_attr(small->node.op, "size");
    const TensorType *type = &small->value[small->node.nin].type;
    if (shape >= 0) {
        Attr *attr = &small->attr[shape];
        attr->n = type->shape.ndim - type->hidden;
        for (int d = 0; d < attr->n; d++)
            attr->ints[d] = type->shape.dim[type->hidden + d];
    }
    if (rows >= 0) small->attr[rows].i = type->shape.dim[(int)type->hidden];
    if (classes >= 0) small->attr[classes].i = type->shape.dim[type->shape.ndim - 1];
    if (along >= 0) {
        const Attr *axis = &small->attr[op_attr(small->node.op, "axis")];
        const int64_t at = axis->given && axis->i >= 0 ? type->hidden + axis->i : type->shape.ndim + (axis->given ? axis->i : -1);
        small->attr[along].i = type->shape.dim[at];
    }
    if (replicas >= 0) small->attr[replicas].i = type->shape.dim[0];
}

static bool operator_shrink(const Case *own, Case *small, bool keep, char *why, size_t n) {
    Letters letters;
    if (!node_letters(&own->graph, &own->node, &letters, why, n)) return false;
    bool ok = letters.reshape ? reshape_shrink(own, small, keep) : letters_shrink(own, &letters, small, keep);
    if (ok && (own->node.op == OP_slice || own->node.op == OP_slice_grad)) slice_shrink(own, &letters, small);
    if (ok && (own->node.op == OP_concat || own->node.op == OP_split)) ok = axis_shrink(own, &letters, small);
    if (ok && own->node.op == OP_cross_entropy_rows) classes_shrink(own, small);
    if (ok && is_windowed(own->node.op)) planes_shrink(own, &letters, small);
    if (ok)
        attributes_shrink(small);
    else
        snprintf(why, n, "no small sizes are divided like its own");
    return ok;
}

static bool communication_shrink(const Case *own, Case *small, char *why, size_t n) {
    for (int d = 0; d < own->value[0].type.shape.ndim; d++) {
        Lists lists = {0};
        if (layout_halo(&own->layout[1], d)) continue; /* the size stays, as the halo gives it */
        lists_add(&lists, own, small, 0, d);
        lists_add(&lists, own, small, 1, d);
        int64_t size = small_size(&lists, own->value[0].type.shape.dim[d], false, d);
        if (!size) {
            snprintf(why, n, "no small sizes are divided like its own");
            return false;
        }
        shape_of(small, 0)->dim[d] = shape_of(small, 1)->dim[d] = size;
    }
    return true;
}

void case_copy(const Case *own, Case *copy) {
    *copy = *own;
    copy->graph.values.at = copy->value;
    if (own->communication) return;
    memcpy(copy->attr, own->node.attr, sizeof copy->attr);
    copy->node.attr = copy->attr;
}

bool case_shrink(const Case *own, int most, bool keep, Case *small, char *why, size_t n) {
    Radix radix;
    if (!radix_init(&radix, own, most)) {
        snprintf(why, n, "its layouts have no common refinement");
        return false;
    }
    case_copy(own, small);
    small->nranks = small->graph.nranks = (int)radix.small[radix.n - 1];
    for (int t = 0; t < case_tensors(own); t++)
        layout_shrink(&radix, &own->layout[t], &small->layout[t]);
    pins_shrink(&radix, own, small);
    return own->communication ? communication_shrink(own, small, why, n) : operator_shrink(own, small, keep, why, n);
}
