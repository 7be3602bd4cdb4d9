/* walk: loops over boxes, for semantics.c and tangent.c. */
#include "proof/walk.h"

#include <string.h>

bool field_fail(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

void walk_begin(Walk *walk, const Box *box) {
    memset(walk, 0, sizeof *walk);
    walk->ndim = box->ndim;
    for (int d = 0; d < box->ndim; d++) {
        walk->begin[d] = box->begin[d];
        walk->size[d] = box->end[d] - box->begin[d];
        walk->empty |= walk->size[d] <= 0;
    }
}

bool walk_add(Walk *walk, const FieldTensor *tensor, const int8_t *map, const int64_t *shift, bool exact, char *why, size_t n) {
    int t = walk->ntensors++;
    int64_t stride = 1, first = 0;
    for (int d = tensor->global.ndim - 1; d >= 0; d--) {
        int64_t low = tensor->box.begin[d], high = tensor->box.end[d], begin = 0, end = 1;
        if (map[d] >= 0) {
            begin = walk->begin[map[d]] + (shift ? shift[d] : 0);
            end = begin + walk->size[map[d]];
            walk->stride[t][map[d]] += stride;
        }
        bool inside = exact ? begin == low && end == high : begin >= low && end <= high;
        if (!inside && !walk->empty) {
            snprintf(why, n, "dimension %d holds [%lld, %lld) where [%lld, %lld) is computed on", d, (long long)low, (long long)high,
                     (long long)begin, (long long)end);
            return false;
        }
        first += (begin - low) * stride;
        stride *= high - low;
    }
    walk->at[t] = tensor->at && !walk->empty ? tensor->at + first : tensor->at;
    return true;
}

/* Joins neighbouring dimensions that every tensor runs through as if they were one. */
static void join(Walk *walk) {
    int last = -1; /* dimensions so far: [0, last] */
    for (int d = 0; d < walk->ndim; d++) {
        if (walk->size[d] == 1) continue;
        bool joined = last >= 0;
        for (int t = 0; joined && t < walk->ntensors; t++)
            joined = walk->stride[t][last] == walk->stride[t][d] * walk->size[d];
        if (joined)
            walk->size[last] *= walk->size[d];
        else
            walk->size[++last] = walk->size[d];
        for (int t = 0; t < walk->ntensors; t++)
            walk->stride[t][last] = walk->stride[t][d];
    }
    walk->ndim = last + 1;
}

void walk_run(Walk *walk, WalkRow *row, const void *context) {
    if (walk->empty) return;
    join(walk);
    int inner = walk->ndim - 1;
    int64_t n = inner < 0 ? 1 : walk->size[inner], strides[WALK_TENSORS], index[MAX_NDIM] = {0};
    for (int t = 0; t < walk->ntensors; t++)
        strides[t] = inner < 0 ? 0 : walk->stride[t][inner];
    Fe *at[WALK_TENSORS];
    memcpy(at, walk->at, sizeof at);
    for (;;) {
        row(context, at, strides, n);
        int d = inner - 1;
        for (; d >= 0; d--) {
            for (int t = 0; t < walk->ntensors; t++)
                at[t] += walk->stride[t][d];
            if (++index[d] < walk->size[d]) break;
            for (int t = 0; t < walk->ntensors; t++)
                at[t] -= walk->stride[t][d] * walk->size[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

void walk_assign_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = at[1][i * stride[1]];
}

void walk_assign(Walk *walk) {
    walk_run(walk, walk_assign_row, NULL);
}

/* ---------------------------------------------------------------- maps */

void map_same(int8_t *map) {
    for (int d = 0; d < MAX_NDIM; d++)
        map[d] = (int8_t)d;
}

bool map_right(const FieldTensor *t, const FieldTensor *frame, int8_t *map) {
    int missing = frame->global.ndim - t->global.ndim;
    if (t->hidden != frame->hidden || missing < 0) return false;
    for (int d = 0; d < t->global.ndim; d++) {
        int to = d < t->hidden ? d : d + missing;
        map[d] = (int8_t)to;
        if (t->global.dim[d] == frame->global.dim[to]) continue;
        if (t->global.dim[d] != 1) return false;
        map[d] = -1;
    }
    return true;
}

bool axes_marked(const Attr *axes, const FieldTensor *t, bool *marked) {
    int first = t->hidden, ndim = t->global.ndim - first;
    for (int d = 0; d < MAX_NDIM; d++)
        marked[d] = !axes->given && d >= first && d < t->global.ndim;
    for (int i = 0; axes->given && i < axes->n; i++) {
        int64_t axis = axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i];
        if (axis < 0 || axis >= ndim) return false;
        marked[first + axis] = true;
    }
    return true;
}

bool map_narrow(const FieldTensor *narrow, const FieldTensor *wide, const bool *marked, int8_t *map) {
    bool kept = narrow->global.ndim == wide->global.ndim;
    int at = 0;
    for (int d = 0; d < wide->global.ndim; d++) {
        if (marked[d] && !kept) continue;
        if (at == narrow->global.ndim || narrow->global.dim[at] != (marked[d] ? 1 : wide->global.dim[d])) return false;
        map[at++] = (int8_t)(marked[d] ? -1 : d);
    }
    return at == narrow->global.ndim;
}

int axis_of(const Node *node, int64_t otherwise, const FieldTensor *t) {
    const Attr *attr = &node->attr[op_attr(node->op, "axis")];
    int64_t ndim = t->global.ndim - t->hidden, axis = attr->given ? attr->i : otherwise;
    if (axis < 0) axis += ndim;
    return axis < 0 || axis >= ndim ? -1 : (int)axis + t->hidden;
}

bool walk_elements(const Node *node, const FieldTensor *in, FieldTensor *out, WalkRow *row, const void *numbers, char *why, size_t n) {
    Walk walk;
    int8_t map[MAX_NDIM];
    walk_begin(&walk, &out[0].box);
    map_same(map);
    for (int k = 0; k < node->nout; k++)
        if (!walk_add(&walk, &out[k], map, NULL, true, why, n)) return false;
    for (int i = 0; i < node->nin; i++) {
        if (!map_right(&in[i], &out[0], map)) return field_fail(why, n, "an operand does not broadcast to the result");
        if (!walk_add(&walk, &in[i], map, NULL, true, why, n)) return false;
    }
    walk_run(&walk, row, numbers);
    return true;
}

void tensor_fill(const FieldTensor *t, Fe value) {
    int64_t elements = field_elements(t);
    for (int64_t i = 0; i < elements; i++)
        t->at[i] = value;
}

void tensor_multiply(const FieldTensor *t, Fe factor) {
    int64_t elements = field_elements(t);
    for (int64_t i = 0; factor != 1 && i < elements; i++)
        t->at[i] = fe_mul(t->at[i], factor);
}
