/* Nodes that compute once more what others do: each way in which one can be another is refused. */
#include "compiler/compiler.h"
#include "proof/internal.h"
#include <criterion/criterion.h>
#include <string.h>

static const char net[] =
    "net n() { input x : f32[4, 6]; param w : f32[6, 6] = normal(1); param v : f32[6, 6] = normal(1);\n"
    "  a = matmul(x, w) recompute; b = matmul(x, v) recompute; c = a - b recompute; d = tanh(c) recompute;\n"
    "  p, q = split(d, parts = 2, axis = 1) recompute; m = p * q recompute; s = sum(m, axes = 1) recompute; e = exp(m) recompute; loss mean(e * e) + mean(s * s); }\n"
    "train { data = normal(seed = 1); steps = 1; optimizer = sgd(lr = 0.1); }\n";

static Arena arena;
static Plan plan;

static void load(void) {
    Error error = {0};
    Diags diags;
    Compilation c;
    arena_init(&arena);
    diags_init(&diags, &arena);
    Options options = {.input = "net.dsl", .output = "/dev/null", .optimize = 2, .prove = true};
    options.overrides.nranks = 2;
    cr_assert(compile(&c, &arena, &options, &diags, net, sizeof net - 1), "%s", c.error.text);
    cr_assert_gt(c.proof.copies, 5);
    cr_assert(strstr(c.proof.certificate, "copies of nodes"));
    const char *text = arena_copy(&arena, c.text.at, c.text.n);
    compilation_finish(&c);
    cr_assert(plan_read(&plan, &arena, "plan", text, strlen(text), 0, &error), "%s", error.text);
}

static bool holds(Error *error) {
    Proof proof = {0};
    return copies_check(&plan.graph, &proof, error);
}

static void refused(const char *what, const Node *node) {
    Error error = {0};
    cr_expect_not(holds(&error), "%s: %s", node->name, what);
    cr_expect(strstr(error.text, node->name), "%s", error.text);
}

Test(proof_copies, another_operand_is_refused) {
    int tried = 0;
    load();
    for (int n = 0; n < plan.graph.nodes.n; n++) {
        Node *node = &plan.graph.nodes.at[n];
        for (int i = 0; node->copy_of > 0 && i < node->nin; i++)
            for (int v = 0; v < plan.graph.nodes.at[n].out[0]; v++) {
                const int was = node->in[i];
                const int of = plan.graph.nodes.at[node->copy_of].in[i]; /* what the original takes, and its copies, are the same value */
                const Node *maker = graph_producer(&plan.graph, v);
                if (v == of || (maker->copy_of > 0 && maker->copy_of == plan.graph.values.at[of].node &&
                                plan.graph.values.at[v].index == plan.graph.values.at[of].index))
                    continue;
                node->in[i] = v;
                refused("another operand", node);
                node->in[i] = was;
                tried++;
            }
    }
    Error error = {0};
    cr_expect(holds(&error), "%s", error.text);
    cr_expect_gt(tried, 100);
    arena_finish(&arena);
}

Test(proof_copies, another_operator_attribute_or_original_is_refused) {
    load();
    for (int n = 0; n < plan.graph.nodes.n; n++) {
        Node *node = &plan.graph.nodes.at[n], saved = *node;
        if (node->copy_of == 0) continue;
        node->op = node->op == OP_tanh ? OP_relu : OP_tanh;
        refused("another operator", node);
        *node = saved;
        Attr attr[MAX_ATTRS];
        memcpy(attr, node->attr, sizeof attr);
        attr[0].given = !attr[0].given;
        attr[0].i += 1, attr[0].f += 1;
        attr[0].n = attr[0].n > 0 ? 0 : 1;
        node->attr = attr;
        refused("another attribute", node);
        *node = saved;
        for (int other = 1; other <= n + 1; other++) {
            if (other == saved.copy_of || (other < n && plan.graph.nodes.at[other].copy_of == saved.copy_of)) continue;
            node->copy_of = other;
            refused("another original", node);
        }
        *node = saved;
        TensorType *type = &plan.graph.values.at[node->out[0]].type;
        type->shape.dim[0]++;
        refused("another type", node);
        type->shape.dim[0]--;
    }
    arena_finish(&arena);
}
