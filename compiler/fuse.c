/* fuse: kernels that become one step.
 *
 * Before: b->placement.order. After: Item.fused of the members of a fused step (docs/plan.md), which are consecutive. At -O2 only.
 * A fused step is a product or an elementwise kernel, and the elementwise kernels after it whose results are of one shape and layout and which take a result
 * of the step, or an operand of that shape that it takes too; then perhaps the sum over trailing dimensions, or leading and trailing ones, of one of its results. Or
 * it is a product and the transpose of its result that nothing else reads: the product is written where the transpose lies, by strides. Or a weight's gradient and its
 * bias's: a product, the sum of one operand's rows, and what that is cast to. Real types that are computed in f32 may be mixed in a step, by its casts. Between two
 * members there are only kernels that need neither, waits for what neither needs, and starts of what nobody waits for soon, which are moved after the step; and casts of values that exist before
 * it, such as a bias, which are moved before it. No sum is added in another order, so that every element is what it is without fusion. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/roles.h"
#include "compiler/views.h"

enum { WINDOW = 8 }; /* kernels that a member is moved over */

/* The step that is being made, of a kernel and later ones of the order. */
typedef struct Group {
    const Build *b;
    const int *uses;                      /* per value: how many operands and reports it is */
    VEC(int) member;                      /* nodes */
    const Value *result;                  /* of the elementwise members: all of its shape and layout */
    DType dtype;                          /* of them and their operands, but for bools and for types that are computed alike */
    int operand[MAX_FUSED_IN], noperands; /* values from outside */
    bool closed;                          /* by a reduction, or a transpose */
    VEC(int) ahead;                       /* casts that members need, and that stand between them */
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

static bool is_computed_wide(DType dtype) {
    return dtype == F32 || dtype_is_half(dtype);
}

/* Whether the result repeats an operand's elements: that is then read as any operand that broadcasts. */
static bool is_repeat(OpCode op) {
    return op == OP_sum_grad || op == OP_mean_grad;
}

/* Whether it is a cast between types that are computed in f32. */
static bool is_cast(const Graph *g, const Node *node) {
    return node->op == OP_cast && is_computed_wide(g->values.at[node->in[0]].type.dtype) &&
           is_computed_wide(g->values.at[node->out[0]].type.dtype);
}

static bool is_element(const Graph *g, const Node *node) {
    return node->nout == 1 && node->nin <= 3 &&
           (is_cast(g, node) || is_repeat(node->op) ||
            (op_elementwise(node->op) && node->op != OP_clip && node->op != OP_cast && node->op != OP_compress));
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
    return dtype == f->dtype || dtype == BOOL || (is_computed_wide(dtype) && is_computed_wide(f->dtype));
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
    f->member.n = f->noperands = f->ahead.n = 0;
    f->closed = false;
    f->result = value_at(f, node->out[0]);
    if (!is_element(&f->b->spmd.graph, node) && !is_product(node)) return false;
    f->dtype = f->result->type.dtype == BOOL ? value_at(f, node->in[node->nin - 1])->type.dtype : f->result->type.dtype;
    if (!dtype_is_float(f->dtype)) return false;
    for (int i = 0; i < node->nin; i++)
        if (!type_fits(f, node->in[i])) return false;
    add(f, node);
    return true;
}

/* How many values of the first n members others read too, so that they are stored. */
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

/* An order that is being changed. */
typedef struct Fuser {
    Build *b;
    Group group;
    int *fused;  /* per node: its fused step, 0: none */
    int *ahead;  /* per node: the fused step that it is moved before, 0: none */
    int *passed; /* per node: the last group that it was passed over for */
    int *behind; /* per node: of those passed over, the last group that it needs */
    int *next;   /* per node: the next member of its fused step, -1: it is the last */
    int *at;     /* per node: where it stands in the run */
    int ngroups, nfused;
    VEC(int) nahead; /* of each fused step, in the order of their numbers: how many nodes are moved before it */
    VEC(int) head;   /* of each: its first member */
} Fuser;

static bool is_passed(const Fuser *f, int value) {
    return f->passed[f->b->spmd.graph.values.at[value].node] == f->ngroups;
}

/* Whether a node needs what the group has passed over, other than casts that can be moved before the step. */
static bool needs_passed(const Fuser *f, const Node *node) {
    const Graph *g = &f->b->spmd.graph;
    for (int i = 0; i < node->nin; i++) {
        const Node *from = graph_producer(g, node->in[i]);
        if (is_passed(f, node->in[i]) && (!is_cast(g, from) || is_passed(f, from->in[0]) || f->behind[from - g->nodes.at] == f->ngroups))
            return true;
    }
    return false;
}

static void take(Fuser *f, const Node *node) {
    for (int i = 0; i < node->nin; i++) {
        const int from = f->b->spmd.graph.values.at[node->in[i]].node;
        bool known = !is_passed(f, node->in[i]);
        for (int k = 0; k < f->group.ahead.n; k++)
            known = known || f->group.ahead.at[k] == from;
        if (!known) vec_push(f->b->arena, &f->group.ahead, from);
    }
    add(&f->group, node);
}

static void pass_over(Fuser *f, const Node *node) {
    const int n = (int)(node - f->b->spmd.graph.nodes.at);
    f->passed[n] = f->ngroups;
    for (int i = 0; i < node->nin; i++)
        if (maker(&f->group, node->in[i]) >= 0) f->behind[n] = f->ngroups;
}

/* Makes a step of the group's members. */
static void finish_group(Fuser *f) {
    const Group *group = &f->group;
    if (group->member.n < 2) return;
    f->nfused++;
    for (int m = 0; m < group->member.n; m++) {
        f->fused[group->member.at[m]] = f->nfused;
        f->next[group->member.at[m]] = m + 1 < group->member.n ? group->member.at[m + 1] : -1;
    }
    for (int k = 0; k < group->ahead.n; k++)
        f->ahead[group->ahead.at[k]] = f->nfused;
    vec_push(f->b->arena, &f->nahead, group->ahead.n);
    vec_push(f->b->arena, &f->head, group->member.at[0]);
}

static const Node *node_in_order(const Fuser *f, int at) {
    return &f->b->spmd.graph.nodes.at[f->b->placement.order.at[at].node];
}

/* Whether a kernel of the run is free to be a member, or to be passed over. */
static bool is_free(const Fuser *f, int at) {
    const int n = f->b->placement.order.at[at].node;
    return f->fused[n] == 0 && f->ahead[n] == 0;
}

/* Makes the largest group that begins with the kernel at `at`, of those before `end`. */
static void gather(Fuser *f, int at, int end) {
    const Build *b = f->b;
    Group *group = &f->group;
    f->ngroups++;
    if (!begin(group, node_in_order(f, at))) return;
    for (int i = at + 1, npassed = 0; i < end && npassed <= WINDOW && group->member.n < MAX_FUSED && !group->closed; i++) {
        const Node *node = node_in_order(f, i);
        if (!is_free(f, i)) continue;
        const bool free = is_kernel(b, &b->placement.order.at[i]) && !needs_passed(f, node),
                   element = free && is_element(&b->spmd.graph, node) && takes_element(group, node);
        if (element || (free && (takes_sum(group, node) || takes_transpose(group, node)))) {
            take(f, node);
            group->closed = !element;
        } else {
            pass_over(f, node);
            npassed += is_kernel(b, &b->placement.order.at[i]);
        }
    }
    while (group->member.n > 1 && count_stored(group, group->member.n) > MAX_FUSED_OUT)
        group->member.n--;
    finish_group(f);
}

/* Whether a node sums all rows of its operand, as a bias's gradient does. */
static bool is_sum_of_rows(const Graph *g, const Node *node) {
    const Value *from = &g->values.at[node->in[0]];
    const int last = from->type.shape.ndim - 1;
    if ((node->op != OP_sum && node->op != OP_sum_to) || last < 1 || !is_computed_wide(from->type.dtype)) return false;
    for (int d = 0; d < last; d++)
        if (from->type.shape.dim[d] > 1 && rule_out_has(node->rule, 0, node->rule->in[0][d])) return false;
    return rule_out_has(node->rule, 0, node->rule->in[0][last]);
}

/* Whether a product has what is summed as one operand, whose rows it adds up, and nothing of it as the other. */
static bool multiplies_rows(const Graph *g, const Node *node, const Node *sum, const Node *cast) {
    if (!is_product(node) || node->nin != 2 || node->in[0] == node->in[1]) return false;
    const int rows = node->in[0] == sum->in[0] ? 0 : 1, other = node->in[!rows], last = g->values.at[sum->in[0]].type.shape.ndim - 1;
    if (node->in[rows] != sum->in[0] || other == sum->out[0] || (cast && other == cast->out[0])) return false;
    for (int d = 0; d <= last; d++)
        if (rule_out_has(node->rule, 0, node->rule->in[rows][d]) != (d == last)) return false;
    return true;
}

/* Groups a bias's gradient, the cast that alone reads it, and the later product that multiplies the same rows: the weight's gradient, which becomes first. */
static bool gather_gradients(Fuser *f, int at, int end) {
    const Graph *g = &f->b->spmd.graph;
    Group *group = &f->group;
    const Node *sum = node_in_order(f, at), *cast = NULL, *product = NULL;
    f->ngroups++;
    if (!is_sum_of_rows(g, sum)) return false;
    group->member.n = group->noperands = group->ahead.n = 0;
    add(group, sum);
    for (int i = at + 1, npassed = 0; i < end && npassed <= WINDOW && !product; i++) {
        const Node *node = node_in_order(f, i);
        if (!is_free(f, i)) continue;
        const bool free = !needs_passed(f, node);
        if (free && !cast && is_cast(g, node) && node->in[0] == sum->out[0] && group->uses[sum->out[0]] == 1)
            cast = node;
        else if (free && multiplies_rows(g, node, sum, cast))
            product = node;
        else {
            pass_over(f, node);
            npassed += is_kernel(f->b, &f->b->placement.order.at[i]);
        }
    }
    if (!product) return false;
    group->member.n = group->noperands = 0; /* in another order */
    take(f, product);
    take(f, sum);
    if (cast) take(f, cast);
    finish_group(f);
    return true;
}

/* Writes a fused step's members, in its order, after what is moved before it. */
static Item *put_step(const Fuser *f, Item *to, Item *was, int first) {
    const int step = f->fused[was[first].node];
    for (int k = first + 1, left = f->nahead.at[step - 1]; left > 0; k++) {
        if (was[k].node < 0 || f->ahead[was[k].node] != step) continue;
        *to++ = was[k];
        was[k].node = -1;
        left--;
    }
    for (int node = f->head.at[step - 1]; node >= 0; node = f->next[node]) {
        *to = was[f->at[node]];
        to++->fused = step;
        was[f->at[node]].node = -1;
    }
    return to;
}

/* Fuses in the run [first, end) of the order: members of a fused step move to where its first one is. */
static void fuse_run(Fuser *f, int first, int end) {
    Build *b = f->b;
    Item *order = b->placement.order.at, *was = arena_alloc(b->arena, sizeof *was * (size_t)(end - first)), *to = order + first;
    const int nbefore = f->nfused;
    for (int i = first; i < end; i++)
        if (is_free(f, i) && is_kernel(b, &order[i]) && !gather_gradients(f, i, end)) gather(f, i, end);
    if (f->nfused == nbefore) return;
    memcpy(was, to, sizeof *was * (size_t)(end - first));
    for (int i = 0; i < end - first; i++)
        f->at[was[i].node] = i;
    for (int i = 0; i < end - first; i++) {
        if (was[i].node < 0) continue; /* taken */
        if (f->fused[was[i].node] > 0)
            to = put_step(f, to, was, i);
        else
            *to++ = was[i];
    }
}

/* Whether members move over an item: a wait, which then comes later, or a start that nobody waits for soon, of a gather of states or of the sums of a bucket of gradients. Not other starts, as of sums of
 * activations: kernels after them hide most of their traffic. */
static bool is_passable(const Build *b, const Item *item) {
    const Graph *g = &b->spmd.graph;
    const Node *node = &g->nodes.at[item->node];
    if (node->op != OP_convert) return false;
    const int source = g->values.at[node->in[0]].node;
    return item->wait || g->nodes.at[source].op == OP_read || (item->bucket > 0 && !graph_is_forward(g, source));
}

/* Whether members may move over an item: a kernel, an update with its write, or a communication. */
static bool is_in_run(const Build *b, const Item *item) {
    return is_kernel(b, item) || op_table[b->spmd.graph.nodes.at[item->node].op].op_class == OP_CLASS_UPDATE || is_passable(b, item);
}

static int *per_node(const Build *b) {
    return arena_alloc(b->arena, sizeof(int) * (size_t)(b->spmd.graph.nodes.n + 1));
}

static bool fuse_role(Build *b) {
    Fuser f = {.b = b, .group = {.b = b, .uses = graph_uses(&b->spmd.graph, b->arena)}};
    f.fused = per_node(b);
    f.ahead = per_node(b);
    f.passed = per_node(b);
    f.behind = per_node(b);
    f.next = per_node(b);
    f.at = per_node(b);
    for (int i = 0; i < b->placement.order.n;) {
        int end = i;
        while (end < b->placement.order.n && is_in_run(b, &b->placement.order.at[end]))
            end++;
        if (end - i > 1) fuse_run(&f, i, end);
        i = end > i ? end : i + 1;
    }
    return true;
}

bool pass_fuse(Build *b) {
    return b->options->optimize < 2 || roles_each(b, fuse_role);
}
