/* pcc redistribute: plans one conversion between layouts written with mesh axes, and prints it (docs/redistribution.md).
 *
 * Both layouts may name axes of meshes of their own, with device orders of their own: what is planned is digits of positions. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/axes.h"
#include "compiler/commands.h"
#include "strategies/strategies.h"

static const char usage[] =
    "usage: pcc redistribute --mesh x=4,y=2,z=4 --shape 16x8x8 --from '[- y.x -]' --to '[x - y]' [options]\n"
    "\n"
    "Plans how a tensor gets from one layout to another and prints the steps, what they move, and the lower bound.\n"
    "\n"
    "  --mesh AXES       names and sizes; the last axis varies fastest; their product is the number of ranks\n"
    "  --shape SIZES     of the global tensor: 16x8x8\n"
    "  --from, --to LAYOUT   per dimension '-', an axis, or axes joined by '.', major first; then +sum(y), +max(..), +min(..);\n"
    "                    x:(m)k is the part of size k of axis x after its m major parts\n"
    "  --to-mesh AXES    the mesh of --to, where it is another one of the same ranks\n"
    "  --ids RANKS       device order: the rank at each position of the mesh: 3,2,1,0 (default: 0,1,2,..)\n"
    "  --to-ids RANKS    the device order of --to, where it is another one\n"
    "  --dtype TYPE      f32 (default), f64, i32, i64, bool: what the bytes of the peak count\n"
    "  --redistribution=auto|bound|canonical   auto (default); the fewest elements in one step; MindSpore's form\n"
    "  --machine FILE    cpu (default), gpu8, or a machine file (prun --calibrate): latencies and bandwidths for auto\n"
    "  --json            the figures as JSON, in elements\n"
    "  --help            this text\n"
    "\n"
    "examples:\n"
    "  pcc redistribute --mesh x=4,y=2 --shape 16x16 --from '[x -]' --to '[- x]'                an AllToAll\n"
    "  pcc redistribute --mesh x=4,y=2 --shape 16x16 --from '[x -] +sum(y)' --to '[x y]'        a ReduceScatter\n"
    "  pcc redistribute --mesh x=8 --shape 16x16 --from '[x -]' --to '[x:(1)2 x:(2)4]'          parts of an axis\n"
    "  pcc redistribute --mesh a=2,b=3 --to-mesh c=3,d=2 --shape 12x12 --from '[a b]' --to '[c d]'\n"
    "  pcc redistribute --mesh x=4 --ids 0,1,2,3 --to-ids 3,2,1,0 --shape 16 --from '[x]' --to '[x]'\n"
    "Exit codes: 0 done, 1 rejected, 2 usage, 3 a file cannot be read.\n";

/* ---- options */

typedef struct Request {
    const char *mesh, *shape, *from, *to, *to_mesh, *ids, *to_ids, *dtype, *policy, *machine;
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
    static const char *const names[] = {"--mesh",   "--shape", "--from",           "--to",      "--to-mesh", "--ids",
                                        "--to-ids", "--dtype", "--redistribution", "--machine", "--json",    "--help"};
    const char **values[] = {&request->mesh, &request->shape,  &request->from,  &request->to,     &request->to_mesh,
                             &request->ids,  &request->to_ids, &request->dtype, &request->policy, &request->machine};
    enum { NVALUES = sizeof values / sizeof values[0] };
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
        for (int k = 0; k < NVALUES && !known; k++) {
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

/* ---- groups of a step */

/* The groups of ranks that are connected by what the step moves. */
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

/* A reduction of the library connects ranks that differ only in the summed digits; all other steps connect ranks that exchange pieces. */
static void groups_of_step(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, Groups *groups) {
    Digit summed[MAX_DIGITS];
    Reduction reduction;
    int n = layout_summed(from, to, summed, &reduction);
    bool reduces = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
    const Order *order = from->order;
    for (int rank = 0; rank < nranks; rank++)
        groups->parent[rank] = rank;
    for (int rank = 0; rank < nranks; rank++) {
        if (reduces)
            group_join(groups, rank, order_rank(order, group_leader(summed, n, order_position(order, rank))));
        else
            pieces_received(from, to, shape, nranks, rank, join_piece, groups);
    }
}

enum { SHOWN_GROUPS = 4, SHOWN_RANKS = 16, ENUMERATED_RANKS = 1024 };

static void groups_print(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    if (kind == COMM_STRIDED_SLICE) return;
    if (nranks > ENUMERATED_RANKS) return; /* a page of numbers is of no use */
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

/* "  order1    positions 0, 1, .. are ranks 3-2-1-0" */
static void print_order(const Order *order) {
    if (!order) return;
    printf("  %%%s: the ranks by position are ", order->name);
    for (int i = 0; i < order->nranks && i < SHOWN_RANKS; i++)
        printf("%s%d", i ? "-" : "", order->rank[i]);
    printf("%s\n", order->nranks > SHOWN_RANKS ? "-.." : "");
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
    text = (Text){0};
    print_order(from->order);
    if (!order_equal(from->order, to->order)) print_order(to->order);
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

static int machine_of(const char *what, Arena *arena, Machine *machine) {
    Diags diags;
    Error error = {0};
    diags_init(&diags, arena);
    if (machine_find(what, arena, &diags, machine, &error)) return EXIT_DONE;
    diags_print(&diags, stderr);
    if (!error.reported) fprintf(stderr, "pcc redistribute: %s\n", error.text);
    return error.code;
}

static int plan_request(const Request *request, Arena *arena) {
    int code;
    DType dtype;
    RedistributePolicy policy;
    Machine machine;
    NamedMesh mesh, to_mesh;
    const Order *order = NULL, *to_order;
    Shape shape;
    WrittenLayout from, to;
    if (!dtype_parse(request->dtype, &dtype))
        return fail_usage("--dtype is f32, f64, i32, i64, bool, f16 or bf16, not '%s'", request->dtype);
    if (!policy_parse(request->policy, &policy))
        return fail_usage("--redistribution is auto, bound or canonical, not '%s'", request->policy);
    if ((code = machine_of(request->machine, arena, &machine)) != EXIT_DONE) return code;
    if ((code = mesh_read("--mesh", request->mesh, &mesh)) != EXIT_DONE) return code;
    if ((code = mesh_read("--to-mesh", request->to_mesh ? request->to_mesh : request->mesh, &to_mesh)) != EXIT_DONE) return code;
    if (mesh.nranks != to_mesh.nranks)
        return fail_at(EXIT_REJECTED, "--to-mesh", request->to_mesh, request->to_mesh, (int)strlen(request->to_mesh), NULL,
                       "--mesh has %d ranks, --to-mesh %d: they must be the same ranks", mesh.nranks, to_mesh.nranks);
    if (request->ids && (code = order_read("--ids", request->ids, mesh.nranks, "order1", arena, &order)) != EXIT_DONE) return code;
    to_order = order;
    if (request->to_ids &&
        (code = order_read("--to-ids", request->to_ids, mesh.nranks, order ? "order2" : "order1", arena, &to_order)) != EXIT_DONE)
        return code;
    if ((code = sizes_read(request->shape, mesh.nranks, &shape)) != EXIT_DONE) return code;
    if ((code = layout_parse("--from", request->from, &mesh, order, &shape, &from)) != EXIT_DONE) return code;
    if ((code = layout_parse("--to", request->to, &to_mesh, to_order, &shape, &to)) != EXIT_DONE) return code;
    if ((code = layouts_convertible(&from, &to)) != EXIT_DONE) return code;
    Conversion conversion;
    const char *why = "";
    if (!redistribute(&from.layout, &to.layout, &shape, dtype_bytes[dtype], mesh.nranks, policy, &machine, &conversion, &why)) {
        fprintf(stderr, "pcc redistribute: %s\n", why);
        return EXIT_REJECTED;
    }
    if (request->json)
        print_json(&conversion);
    else
        print_text(&conversion, &from.layout, &to.layout, &shape, dtype, mesh.nranks);
    return EXIT_DONE;
}

int redistribute_command(int argc, char **argv) {
    Request request = {.dtype = "f32", .policy = "auto", .machine = "cpu"};
    int code = request_read(argc, argv, &request);
    if (code != EXIT_DONE) return code;
    if (request.help) {
        printf("%s", usage);
        return EXIT_DONE;
    }
    Arena arena;
    arena_init(&arena);
    code = plan_request(&request, &arena);
    arena_finish(&arena);
    return code;
}
