#include "compile.h"

/* The nodes of fused step `number` by their operators' names: "matmul add gelu"; "" where there is none. inner: of how many the result has no memory. */
static const char *members(const Compiled *x, int number, int *inner) {
    static char names[512];
    names[0] = '\0';
    *inner = 0;
    for (int i = 0; i < x->b->placement.order.n; i++) {
        const Item *item = &x->b->placement.order.at[i];
        const Node *node = &x->b->spmd.graph.nodes.at[item->node];
        if (item->fused != number) continue;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? " " : "", op_table[node->op].name);
        *inner += x->b->placement.location[node->out[0]].place == PLACE_INNER;
    }
    return names;
}

static void expect(const char *net, int nranks, int optimize, const char *const *steps, const int *inner) {
    Compiled x;
    compiled(&x, net, nranks, optimize);
    int found, n = 0;
    for (; steps[n]; n++) {
        const char *names = members(&x, n + 1, &found);
        cr_expect_str_eq(names, steps[n], "step %d of: %s\n%s, not %s", n + 1, net, names, steps[n]);
        cr_expect_eq(found, inner[n], "%s: %d inner", names, found);
    }
    const char *more = members(&x, n + 1, &found);
    cr_expect_str_empty(more, "one more: %s", more);
    compiled_finish(&x);
}

#define TRAINED " train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; } parallel { mode = auto; }"

/* Nothing that is trained depends on x: no gradients. */
#define FORWARD(statements) "net n() { input x : f32[8, 8]; input y : f32[8]; param p : f32[8] = zeros; " statements " + sum(p); }" TRAINED

#define NET4(statements)                                                                                                                   \
    "net n() { input u : f32[4, 6, 8, 16]; input v : f32[4, 6, 16, 8]; param p : f32[8] = zeros; " statements " + sum(p); }" TRAINED

Test(fuse, elementwise_kernels_of_one_shape_are_one_step) {
    expect(FORWARD("loss sum(exp(x) + y - relu(x), axes = [0, 1])"), 1, 2, (const char *const[]){"exp add relu sub sum", NULL}, (int[]){4});
}

Test(fuse, nothing_is_fused_below_O2) {
    for (int o = 0; o < 2; o++)
        expect(FORWARD("loss sum(exp(x) + y - relu(x), axes = [0, 1])"), 1, o, (const char *const[]){NULL}, NULL);
}

Test(fuse, a_product_takes_what_follows_it) {
    expect(FORWARD("h = matmul(x, x) + y; loss sum(transpose(gelu(h)) * 2) + sum(transpose(h))"), 1, 2,
           (const char *const[]){"matmul add gelu", "mul sum", NULL}, (int[]){1, 1});
}

#define HALVES(statements)                                                                                                                 \
    "net n() { input x : f32[8, 8]; param w : f32[8, 8] = zeros; param p : f32[8] = zeros; " statements " }"                               \
    " train { precision = bf16; data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; } parallel { mode = auto; }"

/* A bias is cast between the product and its sum: before the step. Residuals in f32 are added behind a cast. */
Test(fuse, steps_have_casts) {
    expect(HALVES("h = x + 1; y = h + (matmul(h, w) + p); loss sum(square(y));"), 1, 2,
           (const char *const[]){"add cast", "matmul add cast add square", "sum_grad square_grad cast", "einsum sum_to cast", NULL},
           (int[]){0, 3, 2, 1});
    expect(HALVES("h = matmul(x, w) + p; g = matmul(gelu(h, tanh = true), w); loss sum(square(g));"), 1, 2,
           (const char *const[]){"matmul add gelu", "matmul cast square", "sum_grad square_grad cast", "einsum gelu_grad",
                                 "einsum sum_to cast", NULL},
           (int[]){1, 1, 2, 1, 1});
}

Test(fuse, gradients_of_a_weight_and_its_bias_are_one_step) {
    static const char *const steps[] = {"matmul add square", "sum_grad square_grad", "einsum sum_to", NULL};
    expect(
        "net n() { input x : f32[8, 8]; param w : f32[8, 8] = zeros; param p : f32[8] = zeros; loss sum(square(matmul(x, w) + p)); }" TRAINED,
        1, 2, steps, (int[]){1, 1, 0});
    expect("net n() { input x : f32[8, 8]; param w : f32[4, 8] = zeros; param p : f32[4] = zeros; "
           "loss sum(square(matmul(x, w, transpose_b = true) + p)); }" TRAINED,
           1, 2, steps, (int[]){1, 1, 0});
}

Test(fuse, a_product_is_written_where_its_transpose_lies) {
    expect(NET4("t = transpose(matmul(u, v), perm = [0, 2, 1, 3]); loss sum(t)"), 1, 2, (const char *const[]){"matmul transpose", NULL},
           (int[]){1});
    expect(NET4("m = matmul(u, v); t = transpose(m, perm = [0, 2, 1, 3]); loss sum(t) + sum(m)"), 1, 2, (const char *const[]){NULL}, NULL);
    expect(NET4("t = transpose(matmul(u, v)); loss sum(t)"), 1, 2, (const char *const[]){NULL},
           NULL); /* columns of the result: another product */
}

Test(fuse, kernels_of_other_shapes_and_unconnected_ones_stay_apart) {
    expect(FORWARD("loss sum(transpose(exp(x))) + sum(transpose(relu(y * x)))"), 1, 2, (const char *const[]){"exp mul relu", NULL},
           (int[]){1});
    expect(FORWARD("loss sum(transpose(tanh(y) + x))"), 1, 2, (const char *const[]){NULL}, NULL);
    expect(FORWARD("loss sum(transpose(exp(x))) + sum(square(tanh(y)))"), 1, 2, (const char *const[]){"tanh square sum", NULL}, (int[]){2});
}

Test(fuse, a_sum_over_leading_dimensions_stays_apart) {
    expect(FORWARD("loss sum(square(sum(exp(x) * x, axes = [0])))"), 1, 2, (const char *const[]){"exp mul", "square sum", NULL},
           (int[]){1, 1});
    expect(FORWARD("loss sum(square(sum(exp(x) * x, axes = [1])))"), 1, 2, (const char *const[]){"exp mul sum", "square sum", NULL},
           (int[]){2, 1});
    /* One over trailing ones too, as of a norm's channels, does not; one of dimensions that lie apart does. */
    expect(NET4("loss sum(square(sum(exp(u) * u, axes = [0, 2, 3]))) + sum(v)"), 1, 2,
           (const char *const[]){"exp mul sum", "square sum", NULL}, (int[]){2, 1});
    expect(NET4("loss sum(square(sum(exp(u) * u, axes = [1, 3]))) + sum(v)"), 1, 2, (const char *const[]){"exp mul", "square sum", NULL},
           (int[]){1, 1});
}

Test(fuse, members_are_moved_over_kernels_that_they_do_not_need) {
    expect(FORWARD("a = exp(x); t = matmul(x, x); b = a * x; loss sum(transpose(b)) + sum(transpose(t))"), 1, 2,
           (const char *const[]){"exp mul", NULL}, (int[]){1});
    expect(FORWARD("a = exp(x); t = matmul(a, x); b = a * t; loss sum(transpose(b)) + sum(transpose(a))"), 1, 2,
           (const char *const[]){"matmul mul", NULL}, (int[]){1});
}

/* h dies in the step, and lies in the arena: what the first member makes of it is stored, and may not lie over it. */
/* The gradient of v is made, and its sum is started, between the product and gelu's gradient. */
Test(fuse, members_are_moved_over_starts_of_communications) {
    expect(
        "net n() { input x : f32[8, 8]; param w : f32[8, 8] = zeros; param v : f32[8, 8] = zeros; h = matmul(x, w) shard ((2, 1), (1, 1)); "
        "loss sum(square(matmul(gelu(h), v))); } train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; } "
        "parallel { mode = auto; bucket = 256 B; }",
        2, 2, (const char *const[]){"matmul gelu", "matmul square", "sum_grad square_grad", "einsum gelu_grad", NULL}, (int[]){0, 0, 1, 1});
}

/* The wait for the product's sum, and what needs it, stand between exp and relu. */
Test(fuse, members_are_moved_over_waits_for_what_they_do_not_need) {
    expect(FORWARD("param v : f32[8, 8] = zeros; param w : f32[8, 8] = zeros; s = matmul(v, w) shard ((1, 2), (2, 1)); a = exp(x); "
                   "t = sum(s); b = relu(a) + y; loss t + sum(b)"),
           2, 2, (const char *const[]){"exp relu add sum", NULL}, (int[]){3});
}

/* The sum of a product that is no gradient is on its way while relu and the addition are computed: they do not come before its start, with exp. */
Test(fuse, members_are_not_moved_before_what_they_hide) {
    expect(FORWARD("param v : f32[8, 8] = zeros; param w : f32[8, 8] = zeros; a = exp(x); s = matmul(v, w) shard ((1, 2), (2, 1)); "
                   "b = relu(a) + y; loss sum(s) + sum(b)"),
           2, 2, (const char *const[]){"relu add sum", NULL}, (int[]){2});
}

Test(fuse, an_operand_that_a_later_member_reads_keeps_its_memory) {
    expect(FORWARD("h = transpose(x); a = exp(h); b = a * h; loss sum(transpose(a)) + sum(transpose(b))"), 1, 2,
           (const char *const[]){"exp mul", NULL}, (int[]){0});
}

Test(fuse, a_step_has_room_for_its_operands) {
    char text[2000] = "net n() { ";
    for (int i = 0; i < 12; i++)
        sprintf(text + strlen(text), "input x%d : f32[4, 4]; ", i);
    strcat(text, "param p : f32[8] = zeros; loss sum(transpose(x0");
    for (int i = 1; i < 12; i++)
        sprintf(text + strlen(text), " + x%d", i);
    strcat(text, ")) + sum(p); }" TRAINED);
    expect(text, 1, 2, (const char *const[]){"add add add add add add add", "add add add add", NULL}, (int[]){6, 3});
}

Test(fuse, each_kernel_runs_once_behind_its_operands) {
    for (int i = 0; i < NNETS; i++) {
        Compiled x;
        compiled(&x, nets[i], 4, 2);
        const Graph *g = &x.b->spmd.graph;
        int *at = calloc((size_t)g->nodes.n, sizeof *at), n = 0;
        for (int k = 0; k < x.b->placement.order.n; k++) {
            const Item *item = &x.b->placement.order.at[k];
            const Node *node = &g->nodes.at[item->node];
            for (int o = 0; o < node->nin && node->op != OP_convert; o++)
                cr_expect(node_is_leaf(graph_producer(g, node->in[o])) || at[g->values.at[node->in[o]].node] > 0, "net %d: %s", i,
                          node->name);
            if (node->op != OP_convert) cr_expect_eq(at[item->node], 0, "net %d: %s twice", i, node->name);
            at[item->node] = ++n;
        }
        for (int k = 0; k < g->nodes.n; k++)
            if (g->nodes.at[k].op != OP_convert && !node_is_leaf(&g->nodes.at[k]))
                cr_expect_gt(at[k], 0, "net %d: %s is left out", i, g->nodes.at[k].name);
        free(at);
        compiled_finish(&x);
    }
}
