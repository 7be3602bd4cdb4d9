/* Reading meshes, device orders, shapes and layouts from the command line. */
#include "compiler/axes.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int fail_at(int code, const char *option, const char *text, const char *at, int length, const char *hint, const char *format, ...) {
    enum { SHOWN = 100 }; /* of a long text, the bytes around the mark */
    size_t before = (size_t)(at - text), begin = before > SHOWN / 2 ? before - SHOWN / 2 : 0;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "pcc redistribute: %s: error: ", option);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n    %.*s\n    %*s^", (int)SHOWN, text + begin, (int)(before - begin), "");
    for (int i = 1; i < length && before - begin + (size_t)i < SHOWN; i++)
        fputc('~', stderr);
    fputc('\n', stderr);
    if (hint) fprintf(stderr, "hint: %s\n", hint);
    return code;
}

static bool read_number(const char **at, int64_t most, int64_t *number) {
    if (!isdigit((unsigned char)**at)) return false;
    for (*number = 0; isdigit((unsigned char)**at); ++*at) {
        *number = *number * 10 + (**at - '0');
        if (*number > most) return false;
    }
    return true;
}

/* Length of the name at `at`, 0: there is none. */
static int name_length(const char *at) {
    int n = 0;
    if (!isalpha((unsigned char)*at) && *at != '_') return 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

static int digits_length(const char *at) {
    int n = 0;
    while (isdigit((unsigned char)at[n]))
        n++;
    return n;
}

static int mesh_find(const NamedMesh *mesh, const char *name, int n) {
    for (int i = 0; i < mesh->naxes; i++)
        if ((int)strlen(mesh->name[i]) == n && strncmp(mesh->name[i], name, (size_t)n) == 0) return i;
    return -1;
}

/* ---- meshes, orders, shapes */

int mesh_read(const char *option, const char *text, NamedMesh *mesh) {
    static const char hint[] = "a mesh is names and sizes, the last axis varying fastest: x=4,y=2";
    memset(mesh, 0, sizeof *mesh);
    int64_t nranks = 1;
    for (const char *at = text;; at++) {
        int n = name_length(at);
        if (n == 0 || n >= (int)sizeof mesh->name[0])
            return fail_at(EXIT_USAGE, option, text, at, n, hint, "expected the name of an axis, as in x=4,y=2");
        if (mesh->naxes == MAX_AXES) return fail_at(EXIT_REJECTED, option, text, at, n, NULL, "a mesh has at most %d axes", MAX_AXES);
        if (mesh_find(mesh, at, n) >= 0)
            return fail_at(EXIT_REJECTED, option, text, at, n, "give each axis a name of its own", "there is an axis of this name already");
        memcpy(mesh->name[mesh->naxes], at, (size_t)n);
        at += n;
        if (*at != '=') return fail_at(EXIT_USAGE, option, text, at, 1, hint, "expected '=' and the size of the axis");
        const char *digits = ++at;
        int64_t size;
        if (!read_number(&at, MAX_RANKS, &size) || size < 1 || (nranks *= size) > MAX_RANKS)
            return fail_at(EXIT_REJECTED, option, text, digits, digits_length(digits), NULL,
                           "expected the size of the axis; a mesh has at most %d ranks", MAX_RANKS);
        mesh->size[mesh->naxes++] = (int32_t)size;
        if (*at == '\0') break;
        if (*at != ',') return fail_at(EXIT_USAGE, option, text, at, 1, hint, "expected ',' and another axis, or the end");
    }
    mesh->nranks = (int)nranks;
    mesh_digits(mesh->size, mesh->naxes, 1, mesh->digit);
    return EXIT_DONE;
}

int order_read(const char *option, const char *text, int nranks, const char *name, Arena *arena, const Order **order) {
    int *ranks = arena_alloc(arena, (size_t)nranks * sizeof *ranks), *given = arena_alloc(arena, (size_t)nranks * sizeof *given);
    const char *hint = arena_printf(arena, "a device order names every rank from 0 to %d once, the rank at position 0 first", nranks - 1);
    int n = 0;
    for (const char *at = text;; at++) {
        const char *digits = at;
        int64_t rank;
        if (!isdigit((unsigned char)*at)) return fail_at(EXIT_USAGE, option, text, at, 1, hint, "expected the number of a rank");
        if (!read_number(&at, nranks - 1, &rank))
            return fail_at(EXIT_REJECTED, option, text, digits, digits_length(digits), hint, "the mesh has no such rank");
        if (n == nranks)
            return fail_at(EXIT_REJECTED, option, text, digits, digits_length(digits), hint, "the mesh has only %d rank%s", nranks,
                           nranks == 1 ? "" : "s");
        if (given[rank]++)
            return fail_at(EXIT_REJECTED, option, text, digits, digits_length(digits), hint, "rank %" PRId64 " is named twice", rank);
        ranks[n++] = (int)rank;
        if (*at == '\0') {
            if (n < nranks)
                return fail_at(EXIT_REJECTED, option, text, digits, digits_length(digits), hint, "the mesh has %d ranks, only %d are named",
                               nranks, n);
            *order = order_make(arena, name, ranks, nranks);
            return EXIT_DONE;
        }
        if (*at != ',') return fail_at(EXIT_USAGE, option, text, at, 1, hint, "expected ',' and another rank, or the end");
    }
}

int sizes_read(const char *text, int nranks, Shape *shape) {
    static const char hint[] = "the sizes of the global tensor are joined by 'x': 16x8x8";
    shape->ndim = 0;
    int64_t moved = 8 * (int64_t)nranks; /* the most that any figure can be, in elements */
    for (const char *at = text;; at++) {
        const char *digits = at;
        int64_t size;
        if (shape->ndim == MAX_NDIM - 1)
            return fail_at(EXIT_REJECTED, "--shape", text, at, 1, NULL, "a tensor has at most %d dimensions", MAX_NDIM - 1);
        if (!read_number(&at, INT64_MAX / 16, &size) || size < 1)
            return fail_at(EXIT_USAGE, "--shape", text, digits, digits_length(digits), hint,
                           "expected sizes of at least 1, joined by 'x': 16x8x8");
        if (!mul_checked(moved, size, &moved))
            return fail_at(EXIT_REJECTED, "--shape", text, digits, digits_length(digits), NULL, "the tensor is too large");
        shape->dim[shape->ndim++] = size;
        if (*at == '\0') return EXIT_DONE;
        if (*at != 'x') return fail_at(EXIT_USAGE, "--shape", text, at, 1, hint, "expected 'x' and another size, or the end");
    }
}

/* ---- layouts */

/* One layout while it is read. */
typedef struct Reader {
    const char *at;
    const NamedMesh *mesh;
    WrittenLayout *written;
} Reader;

static int reader_fail(const Reader *reader, int code, const char *at, int length, const char *hint, const char *message) {
    return fail_at(code, reader->written->option, reader->written->text, at, length, hint, "%s", message);
}

static int unknown_axis(const Reader *reader, int n) {
    const char *names[MAX_AXES];
    char name[64], hint[512];
    int length = snprintf(hint, sizeof hint, "its axes are");
    for (int i = 0; i < reader->mesh->naxes; i++) {
        names[i] = reader->mesh->name[i];
        if (length < (int)sizeof hint) length += snprintf(hint + length, sizeof hint - (size_t)length, " %s", names[i]);
    }
    snprintf(name, sizeof name, "%.*s", n, reader->at);
    const char *nearest = name_nearest(name, names, reader->mesh->naxes);
    if (nearest) snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    return fail_at(EXIT_REJECTED, reader->written->option, reader->written->text, reader->at, n, hint, "the mesh has no axis %s", name);
}

/* "(m)k" behind the name and ':'. */
static int read_part(Reader *reader, const char *begin, Digit axis, Digit *digit) {
    static const char hint[] = "x:(m)k is the part of axis x that has size k, after its m major parts: of x=8, x:(1)2 and x:(2)4";
    int64_t major, size;
    bool good = *reader->at++ == '(';
    good = good && read_number(&reader->at, MAX_RANKS, &major) && major >= 1 && *reader->at == ')' && *reader->at++;
    good = good && read_number(&reader->at, MAX_RANKS, &size) && size >= 1;
    if (!good) return reader_fail(reader, EXIT_USAGE, begin, 1, hint, "expected a part of the axis, as in x:(1)2");
    if (axis.size % (major * size) != 0)
        return fail_at(EXIT_REJECTED, reader->written->option, reader->written->text, begin, (int)(reader->at - begin), hint,
                       "the axis has size %" PRId32 ", which %" PRId64 " parts of size %" PRId64 " do not divide", axis.size, major, size);
    *digit = (Digit){(int32_t)size, (int32_t)(axis.stride * (axis.size / (major * size)))};
    return EXIT_DONE;
}

static int read_axis(Reader *reader, int list) {
    const char *begin = reader->at;
    int n = name_length(begin);
    if (n == 0) return reader_fail(reader, EXIT_USAGE, begin, 1, NULL, "expected '-' or the name of an axis");
    int axis = mesh_find(reader->mesh, begin, n);
    if (axis < 0) return unknown_axis(reader, n);
    Digit digit = reader->mesh->digit[axis];
    reader->at += n;
    if (*reader->at == ':') {
        reader->at++;
        int code = read_part(reader, begin, reader->mesh->digit[axis], &digit);
        if (code != EXIT_DONE) return code;
    }
    WrittenLayout *written = reader->written;
    int length = (int)(reader->at - begin);
    if (digit.size == 1) return EXIT_DONE;
    for (int i = 0; i < written->nuses; i++)
        if (!digits_compatible(written->use[i].digit, digit)) {
            char hint[160];
            snprintf(hint, sizeof hint, "%.*s stands before it; an axis, or each part of it, is used once in a layout",
                     written->use[i].length < 60 ? written->use[i].length : 60, written->text + written->use[i].at);
            return reader_fail(reader, EXIT_REJECTED, begin, length, hint, "this axis, or a part of it, is used already");
        }
    if (written->nuses == MAX_DIGITS || !layout_append(&written->layout, list, digit))
        return reader_fail(reader, EXIT_REJECTED, begin, length, NULL, "too many parts of axes");
    written->use[written->nuses++] = (AxisUse){.digit = digit, .list = list, .at = (int)(begin - written->text), .length = length};
    return EXIT_DONE;
}

static int read_axes(Reader *reader, int list) {
    for (;;) {
        int code = read_axis(reader, list);
        if (code != EXIT_DONE || *reader->at != '.') return code;
        reader->at++;
    }
}

static void skip_spaces(Reader *reader) {
    reader->at += strspn(reader->at, " \t");
}

static int read_partial(Reader *reader) {
    const char *begin = ++reader->at;
    int n = name_length(begin), reduction = 0, ndim = reader->written->layout.ndim;
    while (reduction < NREDUCTIONS &&
           !((int)strlen(reduction_name[reduction]) == n && strncmp(reduction_name[reduction], begin, (size_t)n) == 0))
        reduction++;
    if (reduction == NREDUCTIONS || begin[n] != '(')
        return reader_fail(reader, EXIT_USAGE, begin, n, "partial values are written behind the dimensions: [x -] +sum(y.z)",
                           "expected sum(axes), max(axes) or min(axes)");
    if (layout_count(&reader->written->layout, ndim + reduction) > 0)
        return reader_fail(reader, EXIT_REJECTED, begin, n, "join the axes with '.': +sum(x.y)", "this reduction is there already");
    reader->at += n + 1;
    int code = read_axes(reader, ndim + reduction);
    if (code != EXIT_DONE) return code;
    if (*reader->at != ')') return reader_fail(reader, EXIT_USAGE, reader->at, 1, NULL, "expected ')' or '.' and another axis");
    reader->at++;
    return EXIT_DONE;
}

int layout_parse(const char *option, const char *text, const NamedMesh *mesh, const Order *order, const Shape *shape,
                 WrittenLayout *written) {
    static const char hint[] = "a layout says for each dimension '-' or its axes, major first, with spaces between: [- y.x -]";
    *written = (WrittenLayout){.option = option, .text = text};
    Reader reader = {.at = text, .mesh = mesh, .written = written};
    layout_init(&written->layout, shape->ndim);
    skip_spaces(&reader);
    if (*reader.at != '[') return reader_fail(&reader, EXIT_USAGE, reader.at, 1, hint, "expected '[', as in [x - y]");
    reader.at++;
    int dim = 0, code;
    for (skip_spaces(&reader); *reader.at != ']'; skip_spaces(&reader)) {
        if (*reader.at == '\0') return reader_fail(&reader, EXIT_USAGE, reader.at, 1, hint, "expected ']'");
        if (dim == shape->ndim)
            return reader_fail(&reader, EXIT_REJECTED, reader.at, 1, hint, "the layout has more dimensions than the shape");
        if (*reader.at == '-')
            reader.at++;
        else if ((code = read_axes(&reader, dim)) != EXIT_DONE)
            return code;
        dim++;
        if (*reader.at && !strchr(" \t]", *reader.at))
            return reader_fail(&reader, EXIT_USAGE, reader.at, 1, hint, "expected a space, '.' or ']'");
    }
    if (dim < shape->ndim) return reader_fail(&reader, EXIT_REJECTED, reader.at, 1, hint, "the layout has fewer dimensions than the shape");
    reader.at++;
    for (skip_spaces(&reader); *reader.at; skip_spaces(&reader)) {
        if (*reader.at != '+') return reader_fail(&reader, EXIT_USAGE, reader.at, 1, NULL, "expected +sum(axes) or the end");
        if ((code = read_partial(&reader)) != EXIT_DONE) return code;
    }
    written->layout.order = order;
    layout_canonical(&written->layout, shape);
    return EXIT_DONE;
}

int layouts_convertible(const WrittenLayout *from, const WrittenLayout *to) {
    Digit digits[MAX_DIGITS];
    Reduction kind;
    int ndim = from->layout.ndim;
    if (layout_summed(&from->layout, &to->layout, digits, &kind) >= 0) return EXIT_DONE;
    for (int i = 0; i < to->nuses; i++) {
        const AxisUse *use = &to->use[i];
        Layout partial;
        layout_init(&partial, ndim);
        if (use->list < ndim || !layout_append(&partial, use->list, use->digit)) continue;
        /* Tests a source that is partial in this kind alone: two kinds are another mistake. */
        Layout source;
        layout_init(&source, ndim);
        for (int k = 0; k < layout_count(&from->layout, use->list); k++)
            layout_append(&source, use->list, layout_list(&from->layout, use->list)[k]);
        if (layout_summed(&source, &partial, digits, &kind) >= 0) continue;
        return fail_at(EXIT_REJECTED, to->option, to->text, to->text + use->at, use->length,
                       "a sum cannot be taken apart again: drop the axis here, or let --from be partial over it too",
                       "the target is partial over %.*s, over which the source is not (+%s)", use->length, to->text + use->at,
                       reduction_name[use->list - ndim]);
    }
    /* Each partial digit of the target is one of the source, so the source is partial in two kinds in which the target is not. */
    int last = -1;
    for (int i = 0; i < from->nuses; i++)
        if (from->use[i].list >= ndim) last = i;
    const AxisUse *use = &from->use[last < 0 ? 0 : last];
    return fail_at(EXIT_REJECTED, from->option, from->text, from->text + use->at, use->length,
                   "complete one of them first: let --to keep the other", "values of two reductions cannot be completed at once");
}
