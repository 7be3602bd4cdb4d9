/* Mistakes in simplification and autodiff that a graph's evaluation over the field finds: graphs are compiled, then spoilt. */
#include "proof/field.h"

#include <criterion/criterion.h>
#include <string.h>

#include "compiler/compiler.h"
#include "tests/attrs.h"

static const char net[] = "net n(batch = 6, wide = 4) {\n"
                          "    input x     : f32[batch, 3];\n"
                          "    input label : f32[batch, 2];\n"
                          "    param w : f32[3, wide] = normal(0.1);\n"
                          "    param b : f32[wide] = zeros;\n"
                          "    param u : f32[wide, 2] = normal(0.1);\n"
                          "    h = tanh(matmul(x, w) + b);\n"
                          "    g = h * relu(h - mean(h, axes = [0]));\n"
                          "    y = matmul(g, u) + matmul(h, u);\n"
                          "    loss mse(y, label);\n"
                          "}\n"
                          "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); steps = 1; }\n";

typedef struct Fixture {
    Arena arena;
    Diags diags;
    Options options;
    Build b;
    Graph *graph;
} Fixture;

static void begin(Fixture *f, const char *text, int replicas) {
    memset(f, 0, sizeof *f);
    arena_init(&f->arena);
    diags_init(&f->diags, &f->arena);
    f->options = (Options){.input = "net.dsl", .overrides = {.nranks = replicas > 0 ? replicas : 1, .replicas = replicas}};
    build_init(&f->b, "train", &f->arena, &f->options, &f->diags);
    f->graph = &f->b.front.graph;
    bool ok = frontend_compile("net.dsl", text, strlen(text), &f->options.overrides, f->graph, &f->arena, &f->diags) &&
              build_run(&f->b, NULL, pass_follow);
    cr_assert(ok, "%s", f->diags.items.n > 0 ? f->diags.items.at[0].text : f->b.error.text);
}

static void end(Fixture *f) {
    arena_finish(&f->arena);
}

static bool gradients(Fixture *f, char why[512]) {
    int n;
    why[0] = '\0';
    return field_gradients(f->graph, 1, &n, why, 512);
}

/* The first node of this operator that autodiff added, or -1. */
static Node *added(Fixture *f, OpCode op) {
    for (int i = f->graph->nforward; i < f->graph->nodes.n; i++)
        if (f->graph->nodes.at[i].op == op) return &f->graph->nodes.at[i];
    cr_assert(false, "no %s", op_table[op].name);
    return NULL;
}

static Node *update_of(Fixture *f, const char *state) {
    Graph *g = f->graph;
    for (int i = 0; i < g->nodes.n; i++) {
        Node *node = &g->nodes.at[i];
        if (node->op == OP_momentum && strcmp(g->states.at[g->nodes.at[g->values.at[node->in[0]].node].state].name, state) == 0)
            return node;
    }
    cr_assert(false);
    return NULL;
}

Test(proof_graphs, right_gradients_are_the_derivative) {
    Fixture f;
    char why[512];
    int n = 0;
    begin(&f, net, 0);
    cr_assert(field_gradients(f.graph, 1, &n, why, sizeof why), "%s", why);
    cr_assert_eq(n, 3);
    cr_assert(field_same(&f.b.front.lowered, f.graph, 1, why, sizeof why), "%s", why);
    cr_assert_gt(field_graph_work(f.graph), 100);
    cr_assert_lt(field_graph_work(f.graph), 100000);
    end(&f);
}

/* All sizes are equal: the letters can be exchanged with the shapes still fitting. */
Test(proof_graphs, transposed_letters_are_found) {
    static const char square[] = "net n(m = 4) { input x : f32[m, m]; param w : f32[m, m] = normal(0.1); loss mean(tanh(matmul(x, w))); }\n"
                                 "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n";
    Fixture f;
    char why[512], spec[16];
    begin(&f, square, 0);
    cr_assert(gradients(&f, why), "%s", why);
    Node *einsum = added(&f, OP_einsum);
    cr_assert_eq(strlen(einsum->attr[0].text), 9); /* "ab,ac->bc" */
    strcpy(spec, einsum->attr[0].text);
    char first = spec[7];
    spec[7] = spec[8];
    spec[8] = first;
    own_attrs(f.graph, einsum)[0].text = spec;
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "state w"), "%s", why);
    end(&f);
}

Test(proof_graphs, a_dropped_adjoint_is_found) {
    Fixture f;
    char why[512];
    begin(&f, net, 0);
    Node *sum = added(&f, OP_add); /* of the gradients of one value that two nodes use */
    for (int i = 0; i < f.graph->nodes.n; i++)
        for (int k = 0; k < f.graph->nodes.at[i].nin; k++)
            if (f.graph->nodes.at[i].in[k] == sum->out[0]) f.graph->nodes.at[i].in[k] = sum->in[0];
    cr_assert_not(gradients(&f, why));
    end(&f);
}

Test(proof_graphs, a_missing_update_is_found) {
    Fixture f;
    char why[512];
    begin(&f, net, 0);
    Node *update = update_of(&f, "b");
    update->op = OP_add; /* no longer an update */
    update->nin = 2;
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "no gradient of state b"), "%s", why);
    end(&f);
}

static const char clipped[] =
    "net n() { input x : f32[6, 6]; param w : f32[6, 6] = normal(0.1); param b : f32[6] = zeros; loss mean(tanh(matmul(x, w) + b)); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = adam(lr = 0.1); clip = norm(0.5); steps = 1; }\n";

static Node *node_of(Graph *g, OpCode op, int number) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == op && number-- == 0) return &g->nodes.at[i];
    cr_assert(false);
    return NULL;
}

Test(proof_graphs, gradients_are_looked_at_before_they_are_clipped) {
    Fixture f;
    char why[512];
    begin(&f, clipped, 0);
    cr_assert(gradients(&f, why), "%s", why);
    end(&f);
}

Test(proof_graphs, a_norm_without_one_of_the_gradients_is_found) {
    Fixture f;
    char why[512];
    begin(&f, clipped, 0);
    Node *first = node_of(f.graph, OP_clip, 0), *second = node_of(f.graph, OP_clip, 1);
    first->in[1] = second->in[1] = node_of(f.graph, OP_sum_squares, 0)->out[0];
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "is not the sum of their squares"), "%s", why);
    end(&f);
}

Test(proof_graphs, a_gradient_that_is_not_clipped_with_the_others_is_found) {
    Fixture f;
    char why[512];
    begin(&f, clipped, 0);
    Node *clip = node_of(f.graph, OP_clip, 1), *adam = node_of(f.graph, OP_adam, 1);
    adam->in[3] = clip->in[0];
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "clipped in another way"), "%s", why);
    end(&f);
}

Test(proof_graphs, gradients_of_two_element_types_have_one_norm) {
    Fixture f;
    char why[512];
    begin(
        &f,
        "net n() { input x : f32[6, 6]; param w : f32[6, 6] = normal(0.1); param b : f64[6] = zeros; loss mean(tanh(matmul(x, w) + cast(b, to = f32))); }\n"
        "train { data = numpy_rand(seed = 1); optimizer = adam(lr = 0.1); clip = norm(0.5); steps = 1; }\n",
        0);
    cr_assert(gradients(&f, why), "%s", why);
    Node *first = node_of(f.graph, OP_clip, 0), *cast = &f.graph->nodes.at[f.graph->values.at[first->in[1]].node];
    cr_assert_eq(cast->op, OP_cast);
    cast->in[0] = node_of(f.graph, OP_sum_squares, 1)->out[0]; /* another number than the others' */
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "clipped in another way"), "%s", why);
    end(&f);
}

static const char batches[] =
    "net n() { input x : f32[6, 6]; input y : f32[6, 6]; param w : f32[6, 6] = normal(0.1); loss mse(tanh(matmul(x, w)), y); }\n"
    "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; accumulate = 3; }\n";

Test(proof_graphs, the_loss_of_several_batches_is_their_mean) {
    Fixture f;
    char why[512];
    begin(&f, batches, 0);
    cr_assert(gradients(&f, why), "%s", why);
    cr_assert(field_same(&f.b.front.lowered, f.graph, 1, why, sizeof why), "%s", why);
    end(&f);
}

/* The label of one batch with the input of another. */
Test(proof_graphs, a_batch_that_takes_an_input_of_another_is_found) {
    Fixture f;
    char why[512];
    begin(&f, batches, 0);
    Graph *g = f.graph;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == OP_sub && g->nodes.at[i].micro == 1)
            for (int k = 0; k < g->nodes.n; k++)
                if (g->nodes.at[k].op == OP_input && strcmp(g->inputs.at[g->nodes.at[k].state].name, "y") == 0)
                    g->nodes.at[i].in[1] = g->nodes.at[k].out[0];
    cr_assert_not(field_same(&f.b.front.lowered, g, 1, why, sizeof why));
    cr_assert(strstr(why, "the loss differs"), "%s", why);
    end(&f);
}

Test(proof_graphs, a_gradient_without_one_of_the_batches_is_found) {
    Fixture f;
    char why[512];
    begin(&f, batches, 0);
    Graph *g = f.graph;
    Node *update = node_of(g, OP_sgd, 0);
    update->in[1] = g->nodes.at[g->values.at[update->in[1]].node].in[0];
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "state w"), "%s", why);
    end(&f);
}

Test(proof_graphs, a_missing_factor_is_found) {
    Fixture f;
    char why[512];
    begin(&f, net, 0);
    added(&f, OP_mean_grad)->op = OP_sum_grad;
    cr_assert_not(gradients(&f, why));
    end(&f);
}

/* Of a mean over rows, the gradient of one over columns, or over everything. */
Test(proof_graphs, a_wrong_count_is_found) {
    static const char square[] =
        "net n() { input x : f32[6, 6]; param w : f32[6, 6] = normal(0.1); loss sum(square(mean(x * w, axes = [0]))); }\n"
        "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n";
    Fixture f;
    char why[512];
    begin(&f, square, 0);
    cr_assert(gradients(&f, why), "%s", why);
    Node *mean = added(&f, OP_mean_grad);
    own_attrs(f.graph, mean)[0].ints[0] = 1; /* the same count, another axis */
    cr_assert_not(gradients(&f, why));
    own_attrs(f.graph, mean)[0].ints[0] = 0;
    own_attrs(f.graph, mean)[0].given = false; /* spread from a row as from a scalar: no longer fits */
    cr_assert_not(gradients(&f, why));
    end(&f);
}

Test(proof_graphs, a_gradient_of_another_state_is_found) {
    Fixture f;
    char why[512];
    begin(&f, net, 0);
    Node *w = update_of(&f, "w");
    int gradient = w->in[2];
    w->in[2] = w->in[0];
    cr_assert_not(gradients(&f, why));
    cr_assert(strstr(why, "the gradient of state w"), "%s", why);
    w->in[2] = gradient;
    cr_assert(gradients(&f, why), "%s", why);
    end(&f);
}

static const char replicated[] = "net n(batch = 2) {\n"
                                 "    input x : f32[batch, 3];\n"
                                 "    param w : f32[3, 2] = normal(0.1);\n"
                                 "    loss mean(tanh(matmul(x, w)));\n"
                                 "}\n"
                                 "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n"
                                 "parallel { mode = data_parallel; gradients = %s; }\n";

Test(proof_graphs, replicas_gradients_are_the_mean_or_the_sum_of_theirs) {
    for (int mean = 0; mean < 2; mean++) {
        Fixture f;
        char why[512], text[512];
        snprintf(text, sizeof text, replicated, mean ? "mean" : "sum");
        begin(&f, text, 4);
        cr_assert(f.graph->values.at[f.graph->loss].type.hidden);
        cr_assert(gradients(&f, why), "%s", why);
        Node *sum = added(&f, OP_replica_sum);
        own_attrs(f.graph, sum)[0].i = !sum->attr[0].i; /* the mean for the sum, or the other way round */
        cr_assert_not(gradients(&f, why));
        end(&f);
    }
}

/* ---------------------------------------------------------------- simplification */

static bool same(Fixture *f, char why[512]) {
    return field_same(&f->b.front.lowered, f->graph, 1, why, 512);
}

Test(proof_graphs, composites_mean_what_they_are_expanded_to) {
    for (int sum = 0; sum < 2; sum++) {
        Fixture f;
        char why[512], text[512];
        snprintf(text, sizeof text,
                 "net n() { input x : f32[4, 3]; input t : f32[4, 3]; param w : f32[4, 3] = ones; loss mse(x * w, t%s); }\n"
                 "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n",
                 sum ? ", reduction = sum" : "");
        begin(&f, text, 0);
        cr_assert(same(&f, why), "%s", why);
        int loss = f.graph->values.at[f.graph->loss].node;
        f.graph->nodes.at[loss].op = sum ? OP_mean : OP_sum;
        cr_assert_not(same(&f, why));
        end(&f);
    }
}

Test(proof_graphs, a_node_taken_for_another_is_found) {
    Fixture f;
    char why[512];
    begin(&f, net, 0);
    Graph *g = f.graph;
    int matmuls[3], n = 0;
    for (int i = 0; i < g->nforward; i++)
        if (g->nodes.at[i].op == OP_matmul) matmuls[n++] = i;
    cr_assert_eq(n, 3);
    for (int i = 0; i < g->nforward; i++)
        for (int k = 0; k < g->nodes.at[i].nin; k++)
            if (g->nodes.at[i].in[k] == g->nodes.at[matmuls[2]].out[0]) g->nodes.at[i].in[k] = g->nodes.at[matmuls[1]].out[0];
    cr_assert_not(same(&f, why));
    cr_assert(strstr(why, "the loss"), "%s", why);
    end(&f);
}

Test(proof_graphs, a_new_state_that_changes_is_found) {
    Fixture f;
    char why[512];
    begin(&f, net, 0);
    Graph before = *f.graph;
    graph_simplify(f.graph, SIMPLIFY_ALL);
    cr_assert(field_same(&before, f.graph, 1, why, sizeof why), "%s", why);
    own_attrs(f.graph, update_of(&f, "u"))[1].f = 0.5;
    cr_assert_not(field_same(&before, f.graph, 1, why, sizeof why));
    cr_assert(strstr(why, "u"), "%s", why);
    end(&f);
}

/* ---------------------------------------------------------------- versions of states */

Test(proof_graphs, a_read_of_the_new_version_sees_what_was_written) {
    Arena arena;
    Graph graph;
    char why[512];
    arena_init(&arena);
    graph_init(&graph, &arena);
    int state = graph_add_state(&graph, (State){.name = "w", .type = {F32, false, {1, {3}}}, .trainable = true});
    int old = graph_read_state(&graph, state, 0, NULL, (Span){0});
    int twice = graph_emit(&graph, OP_add, (int[]){old, old}, 2, NULL, "twice", (Span){0});
    graph_write_state(&graph, state, twice, (Span){0});
    int new = graph_read_state(&graph, state, 1, NULL, (Span){0});
    FieldTensor *values = arena_alloc(&arena, sizeof *values * (size_t)graph.values.n);
    cr_assert(field_graph(&graph, graph.nodes.n, 1, &arena, values, why, sizeof why), "%s", why);
    for (int e = 0; e < 3; e++)
        cr_assert_eq(values[new].at[e], fe_add(values[old].at[e], values[old].at[e]));
    arena_finish(&arena);
}

/* ---------------------------------------------------------------- rows */

/* What stands for an operator whose rows are split computes what the operator does; with one of its parts exchanged, something else. */
Test(proof_graphs, the_expansions_of_rows_are_the_operators) {
    static const OpCode ops[] = {OP_softmax, OP_log_softmax};
    for (int i = 0; i < 2; i++)
        for (int axis = 0; axis < 3; axis++) {
            Arena arena;
            Graph graph[2];
            char why[512];
            arena_init(&arena);
            const Attr attr[MAX_ATTRS] = {{.given = axis < 2, .i = axis - 2}};
            for (int k = 0; k < 2; k++) {
                graph_init(&graph[k], &arena);
                graph[k].nranks = 1;
                int x = graph_input(&graph[k], graph_add_input(&graph[k], (Input){.name = "x", .type = {F32, false, {2, {4, 5}}}}));
                int y = graph_emit(&graph[k], ops[i], &x, 1, attr, "y", (Span){0});
                const Node node = graph[k].nodes.at[graph[k].values.at[y].node];
                if (k == 1) op_table[ops[i]].expand_split(&graph[k], &node, &y);
                vec_push(&arena, &graph[k].reports, (Report){.name = "y", .value = y, .whole = true});
            }
            cr_assert(field_same(&graph[0], &graph[1], 1, why, sizeof why), "%s", why);
            for (int n = 0; n < graph[1].nodes.n; n++)
                if (graph[1].nodes.at[n].op == OP_exp) graph[1].nodes.at[n].op = OP_tanh;
            cr_assert_not(field_same(&graph[0], &graph[1], 1, why, sizeof why));
            arena_finish(&arena);
        }
}
