/* fuse: kernels that become one step.
 *
 * Before: b->placement.order. After: Item.fused of those that are members of a fused step (docs/plan.md); members stand behind each other. At -O2 only.
 * A fused step is a product or an elementwise kernel, and the elementwise kernels behind it whose results are of one shape and layout and which take a result
 * of the step, or an operand of that shape that it takes too; then perhaps the sum over trailing dimensions, or leading and trailing ones, of one of its results. Or
 * it is a product and the transpose of its result that nothing else reads: the product is written where the transpose lies, by strides. Between two members stand
 * only kernels that need neither: they are moved behind the step. No sum is added in another order, so that every element is what it is without. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/roles.h"
#include "compiler/views.h"

enum { WINDOW = 8 }; /* kernels that a member is moved over */

/* The step that is being made of kernels from `first` in the order on. */
typedef struct Group {
    const Build *b;
    const int *uses;                      /* per value: how many operands and reports it is */
    VEC(int) member;                      /* nodes */
    const Value *result;                  /* of the elementwise members: all of its shape and layout */
    DType dtype;                          /* of them and their operands, but for bools */
    int operand[MAX_FUSED_IN], noperands; /* values from outside */
    bool closed;                          /* by a reduction, or a transpose */
} Group;

static const Node *node_at(const Group *f, int member) {
    return &f->b->spmd.graph.nodes.at[f->member.at[member]];
}

static const Value *value_at(const Group *f, int value) {
    return &f->b->spmd.graph.values.at[value];
}

static bool is_kernel(const Build *b, const Item *item) {
    const Node *node = &b->spmd.graph.nodes.at[item->node];
    const OpClass made = op_table[node->op].op_class;
    return (made == OP_CLASS_USER || made == OP_CLASS_INTERNAL) && !op_table[node->op].boundary;
}

/* Elements of the result are those of an operand, repeated: it is read as any operand that broadcasts. */
static bool is_repeat(OpCode op) {
    return op == OP_sum_grad || op == OP_mean_grad;
}

static bool is_element(const Node *node) {
    return node->nout == 1 && node->nin <= 3 &&
           ((op_elementwise(node->op) && node->op != OP_clip && node->op != OP_cast && node->op != OP_compress) || is_repeat(node->op));
}

static bool is_product(const Node *node) {
    return node->op == OP_matmul || node->op == OP_einsum;
}

static bool alike(const Group *f, int value) {
    const Value *v = value_at(f, value);
    return v->layout == f->result->layout && shape_equal(&v->type.shape, &f->result->type.shape);
}

/* The member that makes a value, -1: none. */
static int maker(const Group *f, int value) {
    for (int m = 0; m < f->member.n; m++)
        if (f->member.at[m] == value_at(f, value)->node) return m;
    return -1;
}

static bool is_operand(const Group *f, int value) {
    for (int i = 0; i < f->noperands; i++)
        if (f->operand[i] == value) return true;
    return false;
}

static bool type_fits(const Group *f, int value) {
    const DType dtype = value_at(f, value)->type.dtype;
    return dtype == f->dtype || dtype == BOOL;
}

static void add(Group *f, const Node *node) {
    for (int i = 0; i < node->nin; i++)
        if (maker(f, node->in[i]) < 0 && !is_operand(f, node->in[i])) f->operand[f->noperands++] = node->in[i];
    vec_push(f->b->arena, &f->member, (int)(node - f->b->spmd.graph.nodes.at));
}

/* Whether an elementwise kernel can be the next member: of the step's shape, connected with it, with operands that there is room for. */
static bool takes_element(const Group *f, const Node *node) {
    int fresh = 0;
    bool connected = false;
    if (!alike(f, node->out[0]) || !type_fits(f, node->out[0])) return false;
    for (int i = 0; i < node->nin; i++) {
        const bool made = maker(f, node->in[i]) >= 0, known = is_operand(f, node->in[i]);
        if (!type_fits(f, node->in[i]) || (made && !alike(f, node->in[i]))) return false;
        connected = connected || made || (known && alike(f, node->in[i]));
        fresh += !made && !known;
    }
    return connected && f->noperands + fresh <= MAX_FUSED_IN;
}

/* Whether a node sums a member's result over its last dimensions, or over its first and last ones, all of them here. */
static bool takes_sum(const Group *f, const Node *node) {
    if ((node->op != OP_sum && node->op != OP_mean && node->op != OP_sum_to) || is_product(node_at(f, 0)) || maker(f, node->in[0]) < 0 ||
        !alike(f, node->in[0]))
        return false;
    const Value *from = value_at(f, node->in[0]);
    int changes = 0; /* between dimensions that are summed, and that are not, from the last one on */
    bool summed = true;
    for (int d = from->type.shape.ndim - 1; d >= 0; d--) {
        const int letter = node->rule->in[0][d];
        const bool here = letter >= 0 && !rule_out_has(node->rule, 0, letter);
        if (here != summed && (d == from->type.shape.ndim - 1 || ++changes > 2)) return false;
        summed = here;
    }
    return dtype_is_float(from->type.dtype);
}

/* Whether a node transposes the product that is the only member, so that the library multiplies the same matrices into the strides of the transpose. */
static bool takes_transpose(const Group *f, const Node *node) {
    const Node *product = node_at(f, 0);
    if (node->op != OP_transpose || f->member.n > 1 || !is_product(product) || node->in[0] != product->out[0] || f->uses[node->in[0]] > 1)
        return false;
    const Shape shape = kernel_shape(f->b, node->out[0]), own = kernel_shape(f->b, node->in[0]);
    Strided at = strided_of(&shape);
    strided_letters(&at, node->rule->out[0], &own, node->rule->in[0]);
    return product_takes(f->b, product, OUT, &at);
}

static bool begin(Group *f, const Node *node) {
    f->member.n = f->noperands = 0;
    f->closed = false;
    f->result = value_at(f, node->out[0]);
    if (!is_element(node) && !is_product(node)) return false;
    f->dtype = f->result->type.dtype == BOOL ? value_at(f, node->in[node->nin - 1])->type.dtype : f->result->type.dtype;
    if (!dtype_is_float(f->dtype)) return false;
    for (int i = 0; i < node->nin; i++)
        if (!type_fits(f, node->in[i])) return false;
    add(f, node);
    return true;
}

/* Values of the first n members that someone else reads: they are stored. */
static int count_stored(const Group *f, int n) {
    int stored = 0;
    for (int m = 0; m < n; m++) {
        const int value = node_at(f, m)->out[0];
        int inside = 0;
        for (int k = m + 1; k < n; k++)
            for (int i = 0; i < node_at(f, k)->nin; i++)
                inside += node_at(f, k)->in[i] == value;
        stored += inside < f->uses[value];
    }
    return stored;
}

/* Where the order is being changed. */
typedef struct Fuser {
    Build *b;
    Group group;
    int *fused;  /* per node: its fused step, 0: none */
    int *passed; /* per node: the last group that it was passed over for */
    int ngroups, nfused;
    VEC(int) members; /* of each fused step, in the order of their numbers: how many */
} Fuser;

/* Whether a node needs what the group has passed over. */
static bool needs_passed(const Fuser *f, const Node *node) {
    for (int i = 0; i < node->nin; i++)
        if (f->passed[f->b->spmd.graph.values.at[node->in[i]].node] == f->ngroups) return true;
    return false;
}

/* The largest group that begins with the kernel at `at`, of those up to `end`. */
static void gather(Fuser *f, int at, int end) {
    const Build *b = f->b;
    Group *group = &f->group;
    f->ngroups++;
    if (!begin(group, &b->spmd.graph.nodes.at[b->placement.order.at[at].node])) return;
    for (int i = at + 1, npassed = 0; i < end && npassed <= WINDOW && group->member.n < MAX_FUSED && !group->closed; i++) {
        const int n = b->placement.order.at[i].node;
        const Node *node = &b->spmd.graph.nodes.at[n];
        if (f->fused[n] > 0) continue; /* of a step before */
        const bool free = !needs_passed(f, node), element = free && is_element(node) && takes_element(group, node);
        if (element || (free && (takes_sum(group, node) || takes_transpose(group, node)))) {
            add(group, node);
            group->closed = !element;
        } else {
            f->passed[n] = f->ngroups;
            npassed++;
        }
    }
    while (group->member.n > 1 && count_stored(group, group->member.n) > MAX_FUSED_OUT)
        group->member.n--;
    if (group->member.n < 2) return;
    f->nfused++;
    vec_push(b->arena, &f->members, group->member.n);
    for (int m = 0; m < group->member.n; m++)
        f->fused[group->member.at[m]] = f->nfused;
}

/* Kernels that stand behind each other from first to end: members of a fused step come where its first one is. */
static void fuse_run(Fuser *f, int first, int end) {
    Build *b = f->b;
    Item *order = b->placement.order.at, *was = arena_alloc(b->arena, sizeof *was * (size_t)(end - first));
    for (int i = first; i < end; i++)
        if (f->fused[order[i].node] == 0) gather(f, i, end);
    memcpy(was, order + first, sizeof *was * (size_t)(end - first));
    int to = first;
    for (int i = 0; i < end - first; i++) {
        if (was[i].node < 0) continue; /* taken */
        const int step = f->fused[was[i].node];
        order[to] = was[i];
        order[to++].fused = step;
        for (int k = i + 1, left = step > 0 ? f->members.at[step - 1] - 1 : 0; left > 0; k++) {
            if (was[k].node < 0 || f->fused[was[k].node] != step) continue;
            order[to] = was[k];
            order[to++].fused = step;
            was[k].node = -1;
            left--;
        }
    }
}

static bool fuse_role(Build *b) {
    const Graph *g = &b->spmd.graph;
    Fuser f = {.b = b, .group = {.b = b, .uses = graph_uses(g, b->arena)}};
    f.fused = arena_alloc(b->arena, sizeof *f.fused * (size_t)(g->nodes.n + 1));
    f.passed = arena_alloc(b->arena, sizeof *f.passed * (size_t)(g->nodes.n + 1));
    for (int i = 0; i < b->placement.order.n;) {
        int end = i;
        while (end < b->placement.order.n && is_kernel(b, &b->placement.order.at[end]))
            end++;
        if (end - i > 1) fuse_run(&f, i, end);
        i = end > i ? end : i + 1;
    }
    return true;
}

bool pass_fuse(Build *b) {
    return b->options->optimize < 2 || roles_each(b, fuse_role);
}
