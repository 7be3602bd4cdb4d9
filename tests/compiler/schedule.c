#include "compile.h"
#include "compiler/facts.h"

enum { NOT_YET, STARTED, DONE };

static void check_order(const Compiled *x, const char *what) {
    const Graph *g = &x->b->spmd.graph;
    char *state = calloc((size_t)g->nodes.n, 1);
    for (int i = 0; i < x->b->placement.order.n; i++) {
        Item item = x->b->placement.order.at[i];
        const Node *node = &g->nodes.at[item.node];
        bool communicates = node->op == OP_convert && node->comm != COMM_STRIDED_SLICE;
        cr_expect_eq(state[item.node], item.wait ? STARTED : NOT_YET, "%s: %s", what, node->name);
        state[item.node] = communicates && !item.wait ? STARTED : DONE;
        for (int k = 0; k < node->nin; k++) {
            const Node *from = &g->nodes.at[g->values.at[node->in[k]].node];
            cr_expect(op_table[from->op].op_class == OP_CLASS_LEAF || state[g->values.at[node->in[k]].node] == DONE,
                      "%s: %s is not ready for %s", what, from->name, node->name);
        }
        if (x->options.optimize == 0 && communicates && !item.wait)
            cr_expect(i + 1 < x->b->placement.order.n && x->b->placement.order.at[i + 1].node == item.node, "-O0 waits at once");
    }
    for (int n = 0; n < g->nodes.n; n++)
        cr_expect(op_table[g->nodes.at[n].op].op_class == OP_CLASS_LEAF || state[n] == DONE, "%s: %s never runs", what,
                  g->nodes.at[n].name);
    free(state);
}

Test(schedule, every_node_runs_once_after_its_operands_at_every_level) {
    for (int i = 0; i < NNETS; i++)
        for (int o = 0; o <= 2; o++) {
            Compiled x;
            char what[32];
            compiled(&x, nets[i], 4, o);
            snprintf(what, sizeof what, "net %d -O%d", i, o);
            check_order(&x, what);
            compiled_finish(&x);
        }
}

/* A chain is long enough for updates to move between the gradients. */
static char *chain(int layers, const char *bucket) {
    Text text = {0};
    text_printf(&text, "net chain() { input x : f32[8, 8]; input label : f32[8, 8];\n");
    for (int i = 0; i < layers; i++)
        text_printf(&text, "param w%d : f32[8, 8] = normal(0.1);\n", i);
    text_printf(&text, "h0 = matmul(x, w0) shard ((2, 2), (2, 1));\n");
    for (int i = 1; i < layers; i++)
        text_printf(&text, "h%d = matmul(relu(h%d), w%d);\n", i, i - 1, i);
    text_printf(&text, "loss mse(h%d, label); }\n" TRAIN_MOMENTUM "parallel { mode = auto; %s }\n", layers - 1, bucket);
    return text.at;
}

Test(schedule, updates_follow_their_gradients_and_free_them) {
    char *text = chain(40, "bucket = 1 KiB;"); /* so much and no more is kept until the end */
    Compiled x;
    compiled(&x, text, 4, 2);
    check_order(&x, "chain");
    int first_update = -1, last_gradient = -1;
    for (int i = 0; i < x.b->placement.order.n; i++) {
        const Node *node = &x.b->spmd.graph.nodes.at[x.b->placement.order.at[i].node];
        if (node->op == OP_momentum && first_update < 0) first_update = i;
        if (node->op == OP_einsum) last_gradient = i;
    }
    cr_expect_lt(first_update, last_gradient);
    compiled_finish(&x);
    free(text);
}

/* Runs of items of one operator that stand behind each other, but for writes; *most: the longest. */
static int count_runs(const Compiled *x, OpCode op, int *most) {
    int runs = 0, length = 0;
    *most = 0;
    for (int i = 0; i < x->b->placement.order.n; i++) {
        const OpCode own = x->b->spmd.graph.nodes.at[x->b->placement.order.at[i].node].op;
        if (own == OP_write) continue;
        length = own == op ? length + 1 : 0;
        runs += length == 1;
        *most = length > *most ? length : *most;
    }
    return runs;
}

/* What 40 layers keep for their gradients is freed one by one: a few gradients find room meanwhile, then all others. */
Test(schedule, updates_wait_for_each_other_where_there_is_room) {
    char *text = chain(40, "");
    Compiled whole, ordered;
    int most;
    compiled(&whole, text, 1, 2);
    compiled(&ordered, text, 1, 1);
    check_order(&whole, "chain");
    const int runs = count_runs(&whole, OP_momentum, &most);
    cr_expect_leq(runs, 4, "%d", runs);
    cr_expect_geq(most, 30, "%d", most);
    cr_expect_geq(count_runs(&ordered, OP_momentum, &most), 20, "at -O1 each follows its gradient");
    cr_expect_leq(whole.b->placement.arena_bytes, ordered.b->placement.arena_bytes * 9 / 8);
    compiled_finish(&whole);
    compiled_finish(&ordered);
    free(text);
}

/* Casts of parameters that gradients read too, and of small ones, stand together before all else. */
Test(schedule, parameters_are_cast_first) {
    Compiled x;
    int most;
    compiled(
        &x,
        "net n() { input x : f32[8, 8]; param w : f32[8, 8] = zeros; param v : f32[8, 8] = zeros; param p : f32[8] = zeros;"
        " loss sum(square(matmul(gelu(matmul(x * 2, w) + p), v))); }"
        " train { precision = bf16; data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; } parallel { mode = auto; }",
        1, 2);
    check_order(&x, "casts");
    count_runs(&x, OP_cast, &most);
    cr_expect_eq(most, 3);
    cr_expect_eq(x.b->spmd.graph.nodes.at[x.b->placement.order.at[0].node].op, OP_cast);
    compiled_finish(&x);
}

Test(schedule, other_work_runs_between_start_and_wait_of_a_gradient) {
    char *text = chain(40, "bucket = 0;");
    Compiled x;
    compiled(&x, text, 4, 2);
    int overlapped = 0, communications = 0;
    for (int i = 0; i < x.b->placement.order.n; i++)
        if (x.b->placement.order.at[i].wait) {
            communications++;
            overlapped += x.b->placement.order.at[i - 1].node != x.b->placement.order.at[i].node;
        }
    cr_expect_geq(overlapped, 40, "%d of %d", overlapped, communications);
    compiled_finish(&x);
    free(text);
}

Test(schedule, reductions_of_gradients_are_waited_for_after_the_backward_pass_where_memory_allows) {
    char *text = chain(40, "");
    Compiled x;
    compiled(&x, text, 4, 2);
    check_order(&x, "chain");
    int last_gradient = -1, first_wait = -1;
    for (int i = 0; i < x.b->placement.order.n; i++) {
        Item item = x.b->placement.order.at[i];
        if (x.b->spmd.graph.nodes.at[item.node].op == OP_einsum) last_gradient = i;
        if (item.wait && item.bucket > 0 && first_wait < 0) first_wait = i;
    }
    cr_expect_gt(first_wait, last_gradient);
    compiled_finish(&x);
    free(text);
}

Test(schedule, a_parameter_enters_and_leaves_the_hidden_dimension_beside_its_user) {
    Compiled x;
    compiled(&x,
             "net n() { input h : f32[2, 4]; input label : f32[2, 4]; param a : f32[4, 4] = ones; param b : f32[4, 4] = ones;\n"
             "p = tanh(matmul(h, a)); loss mse(matmul(p, b), label); }\n" TRAIN "parallel { mode = data_parallel; }\n",
             2, 2);
    OpCode before = OP_input;
    int replicas = 0;
    for (int i = 0; i < x.b->placement.order.n; i++) {
        OpCode op = x.b->spmd.graph.nodes.at[x.b->placement.order.at[i].node].op;
        if (op == OP_matmul) cr_expect_eq(before, OP_replicate);
        if (op == OP_replica_sum) cr_expect_eq(before, OP_einsum);
        replicas += op == OP_replicate;
        before = op;
    }
    cr_expect_eq(replicas, 2);
    compiled_finish(&x);
}

/* Of a text place by place the links are slower than the kernels: of parameters in parts a layer or two are gathered at a time, not all from the beginning. */
Test(schedule, few_parameters_are_gathered_ahead) {
    static const char net[] = "net n(batch = 8, places = 16, d = 256) { input text : i32[batch, places]; input next : i32[batch, places];\n"
                              "  param letter : f32[11, d] = normal(0.5); x = embedding(letter, text);\n"
                              "  for i in 0..32 { param w : f32[d, d] = normal(0.1); x = tanh(matmul(x, w)); }\n"
                              "  y = dot_product_attention(x, x * 2, x, causal = true); logits = matmul(y, letter, transpose_b = true);\n"
                              "  loss cross_entropy(logits, next); }\n"
                              "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); }\n"
                              "generate { text = text; logits = logits; }\nparallel { shard_states = parameters; }\n";
    Compiled x;
    compiled_init(&x, 8, 2);
    x.options.machine = &machine_gpu8;
    cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
    const int64_t parameter = 4 * 256 * 256, arena = program_generate(&x.c)->facts->role->arena_bytes;
    cr_expect_leq(arena, 10 * parameter, "%lld KiB; a parameter has %lld", (long long)arena >> 10, (long long)parameter >> 10);
    compiled_finish(&x);
}
