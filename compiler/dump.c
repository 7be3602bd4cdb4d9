/* dump: what --dump-ir writes. A rank's view reads as MindSpore's IR does (docs/ir.md says what is ours); the SPMD
 * form is graph_print's, for all ranks at once. Nothing here changes from run to run: names are numbered in program order, groups are named
 * by their ranks. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/compiler.h"
#include "compiler/convert.h"
#include "ir/file.h"

typedef struct Listing {
    const Build *b;
    const Graph *g;
    Text *text;
    int rank;
    bool local; /* local shapes */
    bool spmd;
    int *number;    /* value -> n of %n, -1 not yet shown */
    int *parameter; /* value -> n of %paran_.., 0: none */
    int *convert;   /* node -> number in its instance name */
    int nshown;
    int bucket, fused; /* of the step being shown, 0: none */
} Listing;

/* ---------------------------------------------------------------- pieces */

static void put_ints(Text *text, const int64_t *at, int n) {
    text_printf(text, "(");
    for (int i = 0; i < n; i++)
        text_printf(text, i ? ", %lld" : "%lld", (long long)at[i]);
    text_printf(text, ")");
}

static Shape shown_shape(const Listing *v, const TensorType *type, const Layout *layout) {
    Shape shape = type->shape;
    if (v->local && layout != NULL) layout_local_shape(layout, &type->shape, v->rank, &shape);
    return shape;
}

/* "<Tensor[Float32], (8, 16)>"; the hidden dimension stands before a bar: "(1 | 8, 16)". */
static void put_type(const Listing *v, const TensorType *type, const Layout *layout, const char *reference) {
    Shape shape = shown_shape(v, type, layout);
    text_printf(v->text, reference != NULL ? "<Ref[Tensor[%s]], (" : "<Tensor[%s], (", dtype_title[type->dtype]);
    for (int i = 0; i < shape.ndim; i++)
        text_printf(v->text, "%s%lld", i == 0 ? "" : type->hidden && i == 1 ? " | " : ", ", (long long)shape.dim[i]);
    text_printf(v->text, ")");
    if (reference != NULL) text_printf(v->text, ", ref_key=%s", reference);
    text_printf(v->text, ">");
}

static void put_value_type(const Listing *v, int value) {
    const Value *of = &v->g->values.at[value];
    put_type(v, &of->type, of->layout, NULL);
}

enum { SHOWN_ELEMENTS = 16 };

/* "Tensor(shape=[], dtype=Float32, value=1)": what this rank holds of a constant. */
static void put_constant(const Listing *v, const Node *node) {
    const Value *value = &v->g->values.at[node->out[0]];
    Shape shape = shown_shape(v, &value->type, value->layout);
    text_printf(v->text, "Tensor(shape=");
    shape_print(v->text, &shape);
    text_printf(v->text, ", dtype=%s, value=", dtype_title[value->type.dtype]);
    if (node->data == NULL) {
        text_printf(v->text, "%g)", node->attr[0].f);
        return;
    }
    int64_t n = shape_elements(&value->type.shape);
    bool all = n <= SHOWN_ELEMENTS && shape_equal(&shape, &value->type.shape);
    text_printf(v->text, "[");
    for (int64_t i = 0; all && i < n; i++)
        text_printf(v->text, i ? ", %g" : "%g", node->data[i]);
    text_printf(v->text, all ? "])" : "...])");
}

static void put_operand(const Listing *v, int value) {
    const Node *node = graph_producer(v->g, value);
    if (node->op == OP_constant)
        put_constant(v, node);
    else if (v->parameter[value] > 0)
        text_printf(v->text, "%%para%d_%s", v->parameter[value],
                    node->op == OP_read ? v->g->states.at[node->state].name : v->g->inputs.at[node->state].name);
    else
        text_printf(v->text, "%%%d", v->number[value]);
}

static void put_source(const Listing *v, Span span) {
    int length;
    const char *line = diags_line(v->b->diags, span, &length);
    if (span.line > 0)
        text_printf(v->text, "      # In file %s:%d, %d~%d/%.*s/\n", v->b->diags->files.at[span.file].name, span.line, span.column,
                    span.column + span.length, length, line);
}

/* ---------------------------------------------------------------- attributes */

static void put_attribute(Text *text, const AttrSpec *spec, const Attr *attr) {
    text_printf(text, "%s: ", spec->name);
    switch (spec->kind) {
    case ATTR_NONE:
        break;
    case ATTR_BOOL:
        text_printf(text, "Bool(%d)", attr->i != 0);
        break;
    case ATTR_INT:
        text_printf(text, "I64(%lld)", (long long)attr->i);
        break;
    case ATTR_FLOAT:
        text_printf(text, "F64(%g)", attr->f);
        break;
    case ATTR_INTS:
        put_ints(text, attr->ints, attr->n);
        break;
    case ATTR_TEXT:
        text_printf(text, "\"%s\"", attr->text);
        break;
    }
}

/* "((2, 4), (4, 1))", or the operands' layouts where a tuple cannot say them. */
static void put_strategy(const Listing *v, const Node *node) {
    Text tuple = {0};
    if (strategy_print(&tuple, node, v->g, node->strategy)) {
        text_printf(v->text, "in_strategy: %s", tuple.at);
    } else {
        text_printf(v->text, "in_layout: (");
        for (int i = 0; i < node->nin; i++) {
            Layout layout;
            strategy_in_layout(node, node->strategy, i, v->g->values.at[node->in[i]].type.shape.ndim, &layout);
            text_printf(v->text, i ? ", " : "");
            layout_print(v->text, &layout, v->g->values.at[node->in[i]].type.hidden);
        }
        text_printf(v->text, ")");
    }
    text_finish(&tuple);
}

/* Attributes of the operator, and the strategy if the user gave it: only then it is among the primitive's own, as in MindSpore. */
static void put_primitive(const Listing *v, const Node *node) {
    bool any = false, user = node->from == STRATEGY_USER && node->strategy != NULL;
    for (int a = 0; a < MAX_ATTRS && op_table[node->op].attrs[a].name != NULL; a++) {
        if (!node->attr[a].given) continue;
        text_printf(v->text, any ? ", " : " primitive_attrs: {");
        put_attribute(v->text, &op_table[node->op].attrs[a], &node->attr[a]);
        any = true;
    }
    if (user) {
        text_printf(v->text, any ? ", " : " primitive_attrs: {");
        put_strategy(v, node);
        any = true;
    }
    text_printf(v->text, any ? "}" : "");
    if (node->strategy != NULL && node->nin > 0) {
        text_printf(v->text, " {");
        put_strategy(v, node);
        text_printf(v->text, "} {strategy: %s}", strategy_from_name[node->from]);
    }
}

/* "group: 4-0-1-2-3, rank_list: (0, 1, 2, 3), group_ranks: 0-1-2-3" */
static void put_group(const Listing *v, const Digit *digits, int n) {
    int64_t size = 1;
    for (int i = 0; i < n; i++)
        size *= digits[i].size;
    Arena scratch;
    arena_init(&scratch);
    int *members = arena_alloc(&scratch, sizeof *members * (size_t)size), position;
    int count = group_members(digits, n, v->rank, members, &position);
    text_printf(v->text, "group: %d", count);
    for (int i = 0; i < count; i++)
        text_printf(v->text, "-%d", members[i]);
    text_printf(v->text, ", rank_list: (");
    for (int i = 0; i < count; i++)
        text_printf(v->text, i ? ", %d" : "%d", members[i]);
    text_printf(v->text, "), group_ranks: ");
    for (int i = 0; i < count; i++)
        text_printf(v->text, i ? "-%d" : "%d", members[i]);
    arena_finish(&scratch);
}

static void put_communication(const Listing *v, const Node *node) {
    const Value *from = &v->g->values.at[node->in[0]], *to = &v->g->values.at[node->out[0]];
    Digit digits[MAX_DIGITS];
    int dim, n = convert_digits(node->comm, from->layout, to->layout, digits, &dim);
    bool any = n > 0;
    text_printf(v->text, " primitive_attrs: {");
    if (n > 0) put_group(v, digits, n);
    if (layout_is_partial(from->layout) && !layout_is_partial(to->layout)) {
        text_printf(v->text, any ? ", op: " : "op: ");
        for (int r = 0, shown = 0; r < NREDUCTIONS; r++)
            if (layout_count(from->layout, from->layout->ndim + r) > 0) text_printf(v->text, shown++ ? "+%s" : "%s", reduction_name[r]);
        any = true;
    }
    if (n > 0 && dim >= 0) text_printf(v->text, ", axis: %d", dim);
    text_printf(v->text, any ? ", from: " : "from: ");
    layout_print(v->text, from->layout, from->type.hidden);
    text_printf(v->text, ", to: ");
    layout_print(v->text, to->layout, to->type.hidden);
    if (v->bucket > 0) text_printf(v->text, ", bucket: %d", v->bucket);
    text_printf(v->text, "}");
}

static void put_memory(const Listing *v, int value) {
    const Location *at = &v->b->placement.location[value];
    if (at->place == PLACE_ARENA)
        text_printf(v->text, " {arena: %lld~%lld}", (long long)at->at, (long long)(at->at + v->b->spmd.box_bytes[value]));
    else if (at->place == PLACE_STATE)
        text_printf(v->text, at->version == 0 ? " {view of: %s}" : " {in place of: %s}", v->g->states.at[at->at].name);
    else if (at->place == PLACE_INPUT)
        text_printf(v->text, " {view of: %s}", v->g->inputs.at[at->at].name);
    else if (at->place == PLACE_INNER)
        text_printf(v->text, " {inner}");
    else if (at->place == PLACE_VIEW)
        text_printf(v->text, " {view of: %s}", v->g->values.at[at->at].name);
}

/* ---------------------------------------------------------------- nodes */

/* A communication that completes a partial sum is named as the operator's own; the others convert a value. */
static void put_instance_name(const Listing *v, int id, const Node *node) {
    if (node->op != OP_convert) {
        text_printf(v->text, " {instance name: %s}", node->name);
        return;
    }
    bool completes = layout_is_partial(v->g->values.at[node->in[0]].layout) && !layout_is_partial(v->g->values.at[node->out[0]].layout);
    const char *prefix = !completes ? "redistribution_op_" : id < v->g->nforward ? "forward_op_" : "backward_op_";
    text_printf(v->text, " {instance name: %s%d%s}", prefix, v->convert[id], completes ? "" : comm_title[node->comm]);
}

/* ", (0, 0), (8, 4), (1, 1)": the part of the source that this rank keeps. */
static void put_slice(const Listing *v, const Node *node) {
    const Value *from = &v->g->values.at[node->in[0]], *to = &v->g->values.at[node->out[0]];
    Box source, target;
    int64_t begin[MAX_NDIM], end[MAX_NDIM], stride[MAX_NDIM];
    layout_box(from->layout, &from->type.shape, v->rank, &source);
    layout_box(to->layout, &to->type.shape, v->rank, &target);
    for (int d = 0; d < target.ndim; d++) {
        begin[d] = target.begin[d] - source.begin[d];
        end[d] = target.end[d] - source.begin[d];
        stride[d] = 1;
    }
    const int64_t *const parts[] = {begin, end, stride};
    for (int i = 0; i < 3; i++) {
        text_printf(v->text, ", ");
        put_ints(v->text, parts[i], target.ndim);
    }
}

static void put_scope(const Listing *v, int id, const Node *node) {
    const char *part = op_table[node->op].op_class == OP_CLASS_UPDATE ? "Optimizer/"
                       : id >= v->g->nforward && v->g->nforward > 0   ? "Gradients/"
                                                                      : "";
    const char *title = node->op == OP_convert ? comm_title[node->comm] : op_table[node->op].title;
    text_printf(v->text, "      # Fullname with scope: (%s%sDefault/%s/%s-%s)\n", part, node->copy_of > 0 ? "recompute_" : "", v->g->name,
                title, node->name);
}

static void put_node(Listing *v, int id) {
    const Node *node = &v->g->nodes.at[id];
    Text *text = v->text;
    text_printf(text, "  ");
    for (int k = 0; k < node->nout; k++) {
        v->number[node->out[k]] = v->nshown++;
        text_printf(text, "%s%%%d(%s)", k ? ", " : "", v->number[node->out[k]], v->g->values.at[node->out[k]].name);
    }
    text_printf(text, " = %s(", node->op == OP_convert ? comm_title[node->comm] : op_table[node->op].title);
    if (node->op == OP_write) text_printf(text, "&%s, ", v->g->states.at[node->state].name);
    for (int i = 0; i < node->nin; i++) {
        text_printf(text, i ? ", " : "");
        put_operand(v, node->in[i]);
    }
    if (node->op == OP_convert && node->comm == COMM_STRIDED_SLICE) put_slice(v, node);
    text_printf(text, ")");
    put_instance_name(v, id, node);
    if (node->op == OP_convert)
        put_communication(v, node);
    else
        put_primitive(v, node);
    if (node->recompute || node->copy_of > 0)
        text_printf(text, " cnode_attrs: {%s: Bool(1)}", node->recompute ? "recompute" : "duplicated");
    if (v->fused > 0) text_printf(text, " {fused: %d}", v->fused);
    for (int k = 0; k < node->nout && node->op != OP_convert && node->op != OP_write && v->g->values.at[node->out[k]].layout != NULL; k++) {
        text_printf(text, " {layout: ");
        layout_print(text, v->g->values.at[node->out[k]].layout, v->g->values.at[node->out[k]].type.hidden);
        text_printf(text, "}");
    }
    for (int k = 0; k < node->nout && v->spmd && v->b->placement.location != NULL && node->op != OP_write; k++)
        put_memory(v, node->out[k]);
    text_printf(text, "\n      : (");
    for (int i = 0; i < node->nin; i++) {
        text_printf(text, i ? ", " : "");
        put_value_type(v, node->in[i]);
    }
    text_printf(text, ") -> (");
    for (int k = 0; k < node->nout; k++) {
        text_printf(text, k ? ", " : "");
        put_value_type(v, node->out[k]);
    }
    text_printf(text, ")\n");
    put_scope(v, id, node);
    put_source(v, node->span);
}

/* The nodes in the order of the stage: as they run, once they are scheduled. A wait is shown if other steps run after the start. */
static void put_nodes(Listing *v) {
    const Placement *placement = &v->b->placement;
    if (!v->spmd || placement->order.n == 0) {
        for (int n = 0; n < v->g->nodes.n; n++)
            if (!node_is_leaf(&v->g->nodes.at[n])) put_node(v, n);
        return;
    }
    for (int i = 0; i < placement->order.n; i++) {
        Item item = placement->order.at[i];
        v->bucket = item.bucket;
        v->fused = item.fused;
        if (!item.wait)
            put_node(v, item.node);
        else if (i > 0 && placement->order.at[i - 1].node != item.node)
            text_printf(v->text, "  Wait(%%%d)\n", v->number[v->g->nodes.at[item.node].out[0]]);
    }
}

/* ---------------------------------------------------------------- parameters */

static void put_slice_of(const Listing *v, const TensorType *type, const Layout *layout) {
    if (layout == NULL) return;
    Box box;
    layout_box(layout, &type->shape, v->rank, &box);
    layout_print(v->text, layout, type->hidden);
    text_printf(v->text, ", rank %d holds (", v->rank);
    for (int d = 0; d < box.ndim; d++)
        text_printf(v->text, "%s%lld:%lld", d ? ", " : "", (long long)box.begin[d], (long long)box.end[d]);
    text_printf(v->text, ") of ");
    put_ints(v->text, type->shape.dim, type->shape.ndim);
}

/* Inputs and states are the parameters of the graph; reads and inputs name them directly. */
static void put_parameters(Listing *v) {
    const Graph *g = v->g;
    text_printf(v->text, "# Total params: %d\n# Params:\n", g->inputs.n + g->states.n);
    for (int i = 0; i < g->inputs.n; i++) {
        text_printf(v->text, "%%para%d_%s: ", i + 1, g->inputs.at[i].name);
        put_type(v, &g->inputs.at[i].type, g->inputs.at[i].layout, NULL);
        text_printf(v->text, " : ");
        put_slice_of(v, &g->inputs.at[i].type, g->inputs.at[i].layout);
        text_printf(v->text, "\n");
    }
    for (int s = 0; s < g->states.n; s++) {
        text_printf(v->text, "%%para%d_%s: ", g->inputs.n + s + 1, g->states.at[s].name);
        put_type(v, &g->states.at[s].type, g->states.at[s].layout, g->states.at[s].name);
        text_printf(v->text, " : ");
        put_slice_of(v, &g->states.at[s].type, g->states.at[s].layout);
        text_printf(v->text, "  :  has_default\n");
    }
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_input) v->parameter[node->out[0]] = node->state + 1;
        if (node->op == OP_read) v->parameter[node->out[0]] = g->inputs.n + node->state + 1;
    }
}

static const Graph *shown_graph(const Build *b, const Stage *stage) {
    return stage->shown == SHOW_FRONT ? &b->front.graph : stage->shown == SHOW_SHARDED ? &b->sharded.graph : &b->spmd.graph;
}

void dump_rank(Text *text, const Build *all, const Stage *stage, int rank) {
    Build of_role = *all; /* the rank's */
    const Build *b = &of_role;
    if (all->nroles > 1) of_role.placement = all->role[rank / (shown_graph(all, stage)->nranks / all->nroles)];
    Listing v = {.b = b, .g = shown_graph(b, stage), .text = text, .rank = rank, .local = stage->local, .spmd = stage->shown == SHOW_SPMD};
    Arena scratch;
    arena_init(&scratch);
    v.number = arena_alloc(&scratch, sizeof *v.number * (size_t)(v.g->values.n + 1));
    v.parameter = arena_alloc(&scratch, sizeof *v.parameter * (size_t)(v.g->values.n + 1));
    v.convert = arena_alloc(&scratch, sizeof *v.convert * (size_t)(v.g->nodes.n + 1));
    int nconverts = 0, nleaves = 0;
    for (int n = 0; n < v.g->nodes.n; n++) {
        nleaves += node_is_leaf(&v.g->nodes.at[n]);
        if (v.g->nodes.at[n].op == OP_convert) v.convert[n] = nconverts++;
    }
    text_printf(text, "# IR entry: @%s\n# Total subgraphs: 1\n\n# Attrs:\nstage: %s\nrank: %d\nranks: %d\nmode: %s\n", v.g->name,
                stage->name, rank, v.g->nranks, mode_name[v.g->settings.mode]);
    if (b->placement.location != NULL) text_printf(text, "arena_bytes: %lld\n", (long long)b->placement.arena_bytes);
    text_printf(text, "\n");
    put_parameters(&v);
    text_printf(text, "\nNode counting information:\nTotal number of nodes: %d\nTotal number of cnodes: %d\n\n", v.g->nodes.n,
                v.g->nodes.n - nleaves);
    text_printf(text, "subgraph @%s(", v.g->name);
    for (int i = 0; i < v.g->inputs.n; i++)
        text_printf(text, "%s%%para%d_%s", i ? ", " : "", i + 1, v.g->inputs.at[i].name);
    for (int s = 0; s < v.g->states.n; s++)
        text_printf(text, "%s%%para%d_%s", s + v.g->inputs.n ? ", " : "", v.g->inputs.n + s + 1, v.g->states.at[s].name);
    text_printf(text, ") {\n");
    put_nodes(&v);
    int nreports = graph_nreports(v.g);
    for (int k = 0; k < nreports; k++) {
        text_printf(text, k ? ", " : "  Return(");
        put_operand(&v, graph_report(v.g, k));
    }
    for (int k = 0; k < nreports; k++) {
        text_printf(text, k ? ", " : ")\n      : (");
        put_value_type(&v, graph_report(v.g, k));
    }
    if (nreports) text_printf(text, ")\n");
    text_printf(text, "}\n");
    arena_finish(&scratch);
}

/* ---------------------------------------------------------------- files */

/* mkdir -p */
static bool make_directory(Arena *arena, const char *path, Error *error) {
    char *copy = arena_copy(arena, path, strlen(path));
    for (char *at = copy + 1;; at++) {
        char end = *at;
        if (end != '/' && end != '\0') continue;
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) return error_set(error, EXIT_ENVIRONMENT, "%s: %s", copy, strerror(errno));
        *at = end;
        if (end == '\0') return true;
    }
}

static int ndumped(const Build *b) {
    return b->options->ndump_ranks < 0 ? b->front.graph.nranks : b->options->ndump_ranks;
}

static int dumped_rank(const Build *b, int k) {
    return b->options->ndump_ranks < 0 ? k : b->options->dump_ranks[k];
}

const char *dump_file(const Build *b, const Stage *stage, int number, int k) {
    const char *folder = b->dump_directory;
    if (k < ndumped(b)) return arena_printf(b->arena, "%s/rank_%d/%02d_%s_%04d.ir", folder, dumped_rank(b, k), number, stage->name, number);
    return k == ndumped(b) ? arena_printf(b->arena, "%s/%02d_%s.spmd", folder, number, stage->name) : NULL;
}

bool dump_stage(Build *b, const Stage *stage, int number) {
    int n = ndumped(b);
    if (!make_directory(b->arena, b->dump_directory, &b->error)) return false;
    for (int k = 0; k <= n; k++) {
        Text text = {0};
        if (k < n)
            dump_rank(&text, b, stage, dumped_rank(b, k));
        else
            graph_print(&text, shown_graph(b, stage));
        bool done =
            (k == n || make_directory(b->arena, arena_printf(b->arena, "%s/rank_%d", b->dump_directory, dumped_rank(b, k)), &b->error)) &&
            file_write(dump_file(b, stage, number, k), text.at, text.n, &b->error);
        text_finish(&text);
        if (!done) return false;
    }
    return true;
}
