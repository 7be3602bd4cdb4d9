/* pcc redistribute: plans one conversion between layouts written with mesh axes, and prints it (PLAN.md 2).
 *
 * Both layouts may name axes of meshes of their own: all that is planned is digits of rank numbers. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/commands.h"
#include "strategies/strategies.h"

static const char usage[] =
    "usage: pcc redistribute --mesh x=4,y=2,z=4 --shape 16x8x8 --from '[- y.x -]' --to '[x - y]' [options]\n"
    "\n"
    "Plans how a tensor gets from one layout to another and prints the steps, what they move, and the lower bound.\n"
    "\n"
    "  --mesh AXES       names and sizes; the last axis varies fastest; their product is the number of ranks\n"
    "  --shape SIZES     of the global tensor: 16x8x8\n"
    "  --from, --to LAYOUT   per dimension '-', an axis, or axes joined by '.', major first; then +sum(y), +max(..), +min(..)\n"
    "  --to-mesh AXES    the mesh of --to, where it is another one of the same ranks\n"
    "  --dtype TYPE      f32 (default), f64, i32\n"
    "  --redistribution=auto|bound|canonical   auto (default); the fewest elements in one step; MindSpore's form\n"
    "  --json            the figures as JSON, in elements\n";

/* ---- options */

enum { MAX_AXES = 16, MAX_RANKS = 1 << 16 };

typedef struct NamedMesh {
    int naxes, nranks;
    char name[MAX_AXES][32];
    int32_t size[MAX_AXES];
    Digit digit[MAX_AXES];
} NamedMesh;

typedef struct Request {
    const char *mesh, *shape, *from, *to, *to_mesh, *dtype, *policy;
    bool json, help;
} Request;

static int fail_usage(const char *format, ...) PRINTF_LIKE(1, 2);
static int fail_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "pcc redistribute: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\npcc redistribute --help shows the options\n");
    va_end(args);
    return EXIT_USAGE;
}

/* "--name value" or "--name=value". */
static bool option_value(int argc, char **argv, int *at, const char *name, const char **value) {
    size_t n = strlen(name);
    const char *arg = argv[*at];
    if (strncmp(arg, name, n) != 0) return false;
    if (arg[n] == '=') {
        *value = arg + n + 1;
        return true;
    }
    if (arg[n] != '\0') return false;
    *value = *at + 1 < argc ? argv[++*at] : "";
    return true;
}

static int request_read(int argc, char **argv, Request *request) {
    static const char *const names[] = {"--mesh",  "--shape",          "--from", "--to",  "--to-mesh",
                                        "--dtype", "--redistribution", "--json", "--help"};
    const char **values[] = {&request->mesh,    &request->shape, &request->from,  &request->to,
                             &request->to_mesh, &request->dtype, &request->policy};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            request->json = true;
            continue;
        }
        if (strcmp(argv[i], "--help") == 0) {
            request->help = true;
            return EXIT_DONE;
        }
        bool known = false;
        for (int k = 0; k < 7 && !known; k++) {
            known = option_value(argc, argv, &i, names[k], values[k]);
            if (known && **values[k] == '\0') return fail_usage("%s needs a value", names[k]);
        }
        if (known) continue;
        const char *nearest = name_nearest(argv[i], names, (int)(sizeof names / sizeof names[0]));
        return fail_usage("unknown argument '%s'%s%s%s", argv[i], nearest ? "; did you mean " : "", nearest ? nearest : "",
                          nearest ? "?" : "");
    }
    for (int k = 0; k < 4; k++)
        if (!*values[k]) return fail_usage("%s is missing", names[k]);
    return EXIT_DONE;
}

/* ---- reading: each reports its own errors and returns an exit code */

/* The text of an option with a mark under the place at fault. */
static int fail_at(int code, const char *option, const char *text, const char *at, const char *message) {
    fprintf(stderr, "pcc redistribute: %s: %s\n    %s\n    %*s^\n", option, message, text, (int)(at - text), "");
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

static int mesh_find(const NamedMesh *mesh, const char *name, int n) {
    for (int i = 0; i < mesh->naxes; i++)
        if ((int)strlen(mesh->name[i]) == n && strncmp(mesh->name[i], name, (size_t)n) == 0) return i;
    return -1;
}

static int mesh_read(const char *option, const char *text, NamedMesh *mesh) {
    memset(mesh, 0, sizeof *mesh);
    int64_t nranks = 1;
    for (const char *at = text;; at++) {
        int n = name_length(at);
        if (n == 0 || n >= (int)sizeof mesh->name[0])
            return fail_at(EXIT_USAGE, option, text, at, "expected the name of an axis, as in x=4,y=2");
        if (mesh->naxes == MAX_AXES) return fail_at(EXIT_REJECTED, option, text, at, "a mesh has at most 16 axes");
        if (mesh_find(mesh, at, n) >= 0) return fail_at(EXIT_REJECTED, option, text, at, "there is an axis of this name already");
        memcpy(mesh->name[mesh->naxes], at, (size_t)n);
        at += n;
        if (*at != '=') return fail_at(EXIT_USAGE, option, text, at, "expected '=' and the size of the axis");
        const char *digits = ++at;
        int64_t size;
        if (!read_number(&at, MAX_RANKS, &size) || size < 1 || (nranks *= size) > MAX_RANKS)
            return fail_at(EXIT_REJECTED, option, text, digits, "expected the size of the axis; a mesh has at most 65536 ranks");
        mesh->size[mesh->naxes++] = (int32_t)size;
        if (*at == '\0') break;
        if (*at != ',') return fail_at(EXIT_USAGE, option, text, at, "expected ',' and another axis, or the end");
    }
    mesh->nranks = (int)nranks;
    mesh_digits(mesh->size, mesh->naxes, 1, mesh->digit);
    return EXIT_DONE;
}

static int shape_read(const char *text, int nranks, Shape *shape) {
    shape->ndim = 0;
    int64_t moved = 8 * (int64_t)nranks; /* the most that any figure can be, in elements */
    for (const char *at = text;; at++) {
        const char *digits = at;
        int64_t size;
        if (shape->ndim == MAX_NDIM - 1) return fail_at(EXIT_REJECTED, "--shape", text, at, "a tensor has at most 8 dimensions");
        if (!read_number(&at, INT64_MAX / 16, &size) || size < 1)
            return fail_at(EXIT_USAGE, "--shape", text, digits, "expected sizes of at least 1, joined by 'x': 16x8x8");
        if (!mul_checked(moved, size, &moved)) return fail_at(EXIT_REJECTED, "--shape", text, digits, "the tensor is too large");
        shape->dim[shape->ndim++] = size;
        if (*at == '\0') return EXIT_DONE;
        if (*at != 'x') return fail_at(EXIT_USAGE, "--shape", text, at, "expected 'x' and another size, or the end");
    }
}

/* One layout while it is read. */
typedef struct Reader {
    const char *option, *text, *at;
    const NamedMesh *mesh;
    bool used[MAX_AXES];
    Layout *layout;
} Reader;

static int reader_fail(const Reader *reader, int code, const char *message) {
    return fail_at(code, reader->option, reader->text, reader->at, message);
}

static int read_axis(Reader *reader, int list) {
    int n = name_length(reader->at);
    if (n == 0) return reader_fail(reader, EXIT_USAGE, "expected '-' or the name of an axis");
    int axis = mesh_find(reader->mesh, reader->at, n);
    if (axis < 0) {
        const char *names[MAX_AXES];
        char name[32], message[128];
        for (int i = 0; i < reader->mesh->naxes; i++)
            names[i] = reader->mesh->name[i];
        snprintf(name, sizeof name, "%.*s", n, reader->at);
        const char *nearest = name_nearest(name, names, reader->mesh->naxes);
        snprintf(message, sizeof message, "the mesh has no axis %s%s%s%s", name, nearest ? "; did you mean " : "", nearest ? nearest : "",
                 nearest ? "?" : "");
        return reader_fail(reader, EXIT_REJECTED, message);
    }
    if (reader->used[axis]) return reader_fail(reader, EXIT_REJECTED, "this axis is used already; an axis divides one dimension at most");
    reader->used[axis] = true;
    if (!layout_append(reader->layout, list, reader->mesh->digit[axis])) return reader_fail(reader, EXIT_REJECTED, "too many digits");
    reader->at += n;
    return EXIT_DONE;
}

static int read_axes(Reader *reader, int list, char separator) {
    for (;;) {
        int code = read_axis(reader, list);
        if (code != EXIT_DONE || *reader->at != separator) return code;
        reader->at++;
    }
}

static void skip_spaces(Reader *reader) {
    reader->at += strspn(reader->at, " \t");
}

static int read_partial(Reader *reader) {
    reader->at++;
    int n = name_length(reader->at), reduction = 0;
    while (reduction < NREDUCTIONS &&
           !((int)strlen(reduction_name[reduction]) == n && strncmp(reduction_name[reduction], reader->at, (size_t)n) == 0))
        reduction++;
    if (reduction == NREDUCTIONS || reader->at[n] != '(')
        return reader_fail(reader, EXIT_USAGE, "expected sum(axes), max(axes) or min(axes)");
    reader->at += n + 1;
    int code = read_axes(reader, reader->layout->ndim + reduction, '.');
    if (code != EXIT_DONE) return code;
    if (*reader->at != ')') return reader_fail(reader, EXIT_USAGE, "expected ')' or '.' and another axis");
    reader->at++;
    return EXIT_DONE;
}

static int layout_parse(const char *option, const char *text, const NamedMesh *mesh, const Shape *shape, Layout *layout) {
    Reader reader = {.option = option, .text = text, .at = text, .mesh = mesh, .layout = layout};
    layout_init(layout, shape->ndim);
    skip_spaces(&reader);
    if (*reader.at != '[') return reader_fail(&reader, EXIT_USAGE, "expected '[', as in [x - y]");
    reader.at++;
    int dim = 0, code;
    for (skip_spaces(&reader); *reader.at != ']'; skip_spaces(&reader)) {
        if (*reader.at == '\0') return reader_fail(&reader, EXIT_USAGE, "expected ']'");
        if (dim == shape->ndim) return reader_fail(&reader, EXIT_REJECTED, "the layout has more dimensions than the shape");
        if (*reader.at == '-')
            reader.at++;
        else if ((code = read_axes(&reader, dim, '.')) != EXIT_DONE)
            return code;
        dim++;
        if (*reader.at && !strchr(" \t]", *reader.at)) return reader_fail(&reader, EXIT_USAGE, "expected a space, '.' or ']'");
    }
    if (dim < shape->ndim) return reader_fail(&reader, EXIT_REJECTED, "the layout has fewer dimensions than the shape");
    reader.at++;
    for (skip_spaces(&reader); *reader.at; skip_spaces(&reader)) {
        if (*reader.at != '+') return reader_fail(&reader, EXIT_USAGE, "expected +sum(axes) or the end");
        if ((code = read_partial(&reader)) != EXIT_DONE) return code;
    }
    layout_canonical(layout, shape);
    return EXIT_DONE;
}

/* ---- groups of a step */

/* Which ranks are joined by what the step moves. */
typedef struct Groups {
    int *parent; /* per rank */
} Groups;

static int group_root(Groups *groups, int rank) {
    while (groups->parent[rank] != rank)
        rank = groups->parent[rank] = groups->parent[groups->parent[rank]];
    return rank;
}

static void group_join(Groups *groups, int a, int b) {
    a = group_root(groups, a), b = group_root(groups, b);
    if (a < b)
        groups->parent[b] = a;
    else
        groups->parent[a] = b;
}

static bool join_piece(void *context, const Piece *piece) {
    group_join(context, piece->from, piece->to);
    return true;
}

/* A reduction of the library joins the ranks that differ in the summed digits alone; all else is what the pieces say. */
static void groups_of_step(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, Groups *groups) {
    Digit summed[MAX_DIGITS];
    Reduction reduction;
    int n = layout_summed(from, to, summed, &reduction);
    bool reduces = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
    for (int rank = 0; rank < nranks; rank++)
        groups->parent[rank] = rank;
    for (int rank = 0; rank < nranks; rank++) {
        if (reduces)
            group_join(groups, rank, group_leader(summed, n, rank));
        else
            pieces_received(from, to, shape, nranks, rank, join_piece, groups);
    }
}

enum { SHOWN_GROUPS = 4, SHOWN_RANKS = 16, ENUMERATED_RANKS = 1024 };

static void groups_print(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    if (kind == COMM_STRIDED_SLICE) return;
    if (nranks > ENUMERATED_RANKS) return; /* a page of numbers tells nobody anything */
    Groups groups = {.parent = malloc((size_t)nranks * sizeof *groups.parent)};
    if (!groups.parent) return;
    groups_of_step(kind, from, to, shape, nranks, &groups);
    int ngroups = 0;
    for (int root = 0; root < nranks; root++) {
        int members = 0;
        if (group_root(&groups, root) != root) continue;
        for (int rank = root; rank < nranks; rank++)
            members += group_root(&groups, rank) == root;
        if (members == 1 || ++ngroups > SHOWN_GROUPS) continue;
        printf("%s", ngroups == 1 ? "       groups " : ", ");
        int shown = 0;
        for (int rank = root; rank < nranks && shown < SHOWN_RANKS; rank++)
            if (group_root(&groups, rank) == root) printf("%s%d", shown++ ? "-" : "", rank);
        if (members > shown) printf("-.. (%d ranks)", members);
    }
    if (ngroups > SHOWN_GROUPS) printf(", .. (%d groups)", ngroups);
    if (ngroups) printf("\n");
    free(groups.parent);
}

/* ---- output */

static void print_json(const Conversion *c) {
    printf("{\"steps\": [");
    for (int i = 0; i < c->nsteps; i++)
        printf("%s{\"kind\": \"%s\"}", i ? ", " : "", comm_name[c->step[i].kind]);
    printf("], \"received\": {\"total\": %" PRId64 ", \"max\": %" PRId64 "}, \"sent\": {\"total\": %" PRId64 ", \"max\": %" PRId64 "}",
           c->received.total, c->received.max, c->sent.total, c->sent.max);
    printf(", \"bound\": {\"total\": %" PRId64 ", \"max\": %" PRId64 "}, \"rounds\": %d, \"peak\": %" PRId64 "}\n", c->bound.total,
           c->bound.max, c->rounds, c->peak_elements);
}

static void print_text(const Conversion *c, const Layout *from, const Layout *to, const Shape *shape, DType dtype, int nranks) {
    Text text = {0};
    TensorType type = {.dtype = dtype, .shape = *shape};
    type_print(&text, &type);
    text_printf(&text, " on %d rank%s: ", nranks, nranks == 1 ? "" : "s");
    layout_print(&text, from, false);
    text_printf(&text, " -> ");
    layout_print(&text, to, false);
    printf("%s\n", text.at);
    text_finish(&text);
    if (c->nsteps == 0) printf("  nothing to do: every rank has what it needs\n");
    const Layout *at = from;
    for (int i = 0; i < c->nsteps; i++) {
        const ConversionStep *step = &c->step[i];
        Traffic received, sent;
        traffic_step(step->kind, at, &step->to, shape, nranks, &received, &sent);
        layout_print(&text, &step->to, false);
        printf("  %d. %-14s -> %s: received %" PRId64 ", worst rank %" PRId64 "; sent %" PRId64 ", worst rank %" PRId64 "\n", i + 1,
               comm_name[step->kind], text.at, received.total, received.max, sent.total, sent.max);
        text_finish(&text);
        text = (Text){0};
        groups_print(step->kind, at, &step->to, shape, nranks);
        at = &step->to;
    }
    printf("received  %" PRId64 " elements in all, %" PRId64 " by the worst rank\n", c->received.total, c->received.max);
    printf("bound     %" PRId64 " elements in all, %" PRId64 " by the worst rank%s\n", c->bound.total, c->bound.max,
           c->received.total == c->bound.total ? " (attained in all)" : "");
    printf("sent      %" PRId64 " elements in all, %" PRId64 " by the worst rank\n", c->sent.total, c->sent.max);
    printf("rounds    %d\n", c->rounds);
    printf("peak      %" PRId64 " elements (%" PRId64 " bytes) on a rank\n", c->peak_elements, c->peak_elements * dtype_bytes[dtype]);
}

static bool policy_parse(const char *text, RedistributePolicy *policy) {
    static const char *const names[] = {
        [REDISTRIBUTE_AUTO] = "auto", [REDISTRIBUTE_BOUND] = "bound", [REDISTRIBUTE_CANONICAL] = "canonical"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) return *policy = (RedistributePolicy)i, true;
    return false;
}

int redistribute_command(int argc, char **argv) {
    Request request = {.dtype = "f32", .policy = "auto"};
    int code = request_read(argc, argv, &request);
    if (code != EXIT_DONE) return code;
    if (request.help) {
        printf("%s", usage);
        return EXIT_DONE;
    }
    DType dtype;
    RedistributePolicy policy;
    NamedMesh mesh, to_mesh;
    Shape shape;
    Layout from, to;
    if (!dtype_parse(request.dtype, &dtype)) return fail_usage("--dtype is f32, f64 or i32, not '%s'", request.dtype);
    if (!policy_parse(request.policy, &policy)) return fail_usage("--redistribution is auto, bound or canonical, not '%s'", request.policy);
    if ((code = mesh_read("--mesh", request.mesh, &mesh)) != EXIT_DONE) return code;
    if ((code = mesh_read("--to-mesh", request.to_mesh ? request.to_mesh : request.mesh, &to_mesh)) != EXIT_DONE) return code;
    if (mesh.nranks != to_mesh.nranks) {
        fprintf(stderr, "pcc redistribute: --mesh has %d ranks, --to-mesh %d: they must be the same ranks\n", mesh.nranks, to_mesh.nranks);
        return EXIT_REJECTED;
    }
    if ((code = shape_read(request.shape, mesh.nranks, &shape)) != EXIT_DONE) return code;
    if ((code = layout_parse("--from", request.from, &mesh, &shape, &from)) != EXIT_DONE) return code;
    if ((code = layout_parse("--to", request.to, &to_mesh, &shape, &to)) != EXIT_DONE) return code;
    Conversion conversion;
    const char *why = "";
    if (!redistribute(&from, &to, &shape, dtype_bytes[dtype], mesh.nranks, policy, NULL, &conversion, &why)) {
        fprintf(stderr, "pcc redistribute: %s\n", why);
        return EXIT_REJECTED;
    }
    if (request.json)
        print_json(&conversion);
    else
        print_text(&conversion, &from, &to, &shape, dtype, mesh.nranks);
    return EXIT_DONE;
}
