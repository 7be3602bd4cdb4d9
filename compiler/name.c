/* name: layouts, bytes and places as people read them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/name.h"

/* The axes of a mesh by falling stride, as a digit is taken apart. */
static int by_stride(const void *a, const void *b) {
    const Axis *x = *(const Axis *const *)a, *y = *(const Axis *const *)b;
    return x->digit.stride != y->digit.stride ? (x->digit.stride < y->digit.stride ? 1 : -1) : 0;
}

enum { MAX_NAMED_AXES = 32 };
typedef struct Axes {
    int n;
    const Axis *at[MAX_NAMED_AXES];
} Axes;

static bool axes_of(const Graph *graph, Axes *axes) {
    axes->n = 0;
    for (int i = 0; i < graph->settings.mesh.n; i++) {
        const Axis *axis = &graph->settings.mesh.at[i];
        if (axis->size == 1) continue;
        if (axes->n == MAX_NAMED_AXES) return false;
        axes->at[axes->n++] = axis;
    }
    qsort(axes->at, (size_t)axes->n, sizeof *axes->at, by_stride);
    return axes->n > 0;
}

/* "dp.tp", "x:(1)2": the digit in axes and parts of axes, major first. False: it is not made of them. */
static bool digit_named(Text *text, const Axes *axes, Digit digit) {
    int64_t top = (int64_t)digit.size * digit.stride, low = digit.stride;
    bool first = true;
    for (int i = 0; i < axes->n && top > low; i++) {
        const Axis *axis = axes->at[i];
        int64_t axis_low = axis->digit.stride, axis_top = axis_low * axis->size;
        if (axis_low >= top || axis_top <= low) continue;
        int64_t begin = low > axis_low ? low : axis_low; /* the part runs from stride begin up to top */
        if (top > axis_top || axis_top % top != 0 || top % begin != 0 || begin % axis_low != 0) return false;
        text_printf(text, first ? "%s" : ".%s", axis->name);
        if (top != axis_top || begin != axis_low) text_printf(text, ":(%lld)%lld", (long long)(axis_top / top), (long long)(top / begin));
        first = false;
        top = begin;
    }
    return top == low;
}

static bool list_named(Text *text, const Axes *axes, const Layout *layout, int list) {
    if (layout_count(layout, list) == 0) text_printf(text, "-");
    for (int i = 0; i < layout_count(layout, list); i++) {
        if (i > 0) text_printf(text, ".");
        if (!digit_named(text, axes, layout_list(layout, list)[i])) return false;
    }
    return true;
}

static bool layout_in_axes(Text *text, const Graph *graph, const Layout *layout, bool hidden) {
    Axes axes;
    if (!axes_of(graph, &axes)) return false;
    text_printf(text, "[");
    for (int d = 0; d < layout->ndim; d++) {
        text_printf(text, d == 0 ? "" : hidden && d == 1 ? " | " : " ");
        if (!list_named(text, &axes, layout, d)) return false;
    }
    text_printf(text, "]");
    for (int k = 0; k < NREDUCTIONS; k++) {
        if (layout_count(layout, layout->ndim + k) == 0) continue;
        text_printf(text, " +%s(", reduction_name[k]);
        if (!list_named(text, &axes, layout, layout->ndim + k)) return false;
        text_printf(text, ")");
    }
    return true;
}

const char *layout_named(Arena *arena, const Graph *graph, const Layout *layout, bool hidden) {
    Text text = {0};
    bool split = false, plain = layout_is_whole(layout);
    for (int d = 0; d < layout->ndim; d++)
        split = split || layout_count(layout, d) > 0;
    text_printf(&text, "%s", "");
    if (layout_in_axes(&text, graph, layout, hidden)) {
        const char *copy = arena_copy(arena, text.at, text.n);
        text_finish(&text);
        return copy;
    }
    text.n = 0;
    if (split) {
        text_printf(&text, "(");
        for (int d = 0; d < layout->ndim; d++)
            text_printf(&text, d > 0 ? ", %lld" : "%lld", (long long)layout_split(layout, d));
        text_printf(&text, ") ");
    }
    if (plain)
        text_printf(&text, "whole");
    else
        layout_print(&text, layout, hidden);
    const char *copy = arena_copy(arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static const char *bytes_rounded(Arena *arena, int64_t bytes, bool up) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    int u = 0;
    for (; size >= 1024 && u < 6; u++)
        size /= 1024;
    if (up) size = ceil(10 * size) / 10;
    return arena_printf(arena, u == 0 ? "%.0f %s" : "%.1f %s", size, unit[u]);
}

const char *bytes_named(Arena *arena, int64_t bytes) {
    return bytes_rounded(arena, bytes, false);
}

const char *bytes_named_up(Arena *arena, int64_t bytes) {
    return bytes_rounded(arena, bytes, true);
}

const char *place_named(Arena *arena, const Diags *diags, Span span) {
    if (span.line < 1 || span.file < 0 || span.file >= diags->files.n) return "";
    return arena_printf(arena, "%s:%d:%d", diags->files.at[span.file].name, span.line, span.column);
}

const char *node_path(const Graph *g, int id) {
    const Node *node = &g->nodes.at[id];
    if (node->op == OP_read || node->op == OP_write) return g->states.at[node->state].name;
    if (op_table[node->op].op_class == OP_CLASS_UPDATE) return node_path(g, g->values.at[node->in[0]].node);
    return g->nodes.at[node->origin].name;
}

const char *ranks_named(Arena *arena, int first, int last) {
    return first == last ? arena_printf(arena, "rank %d", first) : arena_printf(arena, "ranks %d to %d", first, last);
}
