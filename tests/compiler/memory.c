#include "compile.h"

typedef struct Life {
    int from, to; /* steps */
} Life;

/* The first (side -1) or last step of the fused step that this one is a member of; itself. */
static int fused_end(const Compiled *x, int step, int side) {
    const int fused = x->b->placement.order.at[step].fused;
    for (int next = step + side; fused > 0 && next >= 0 && next < x->b->placement.order.n && x->b->placement.order.at[next].fused == fused;
         next += side)
        step = next;
    return step;
}

/* By brute force: what a step begins to write, and until which step someone reads it. */
static Life *lives(const Compiled *x) {
    const Graph *g = &x->b->spmd.graph;
    Life *life = malloc(sizeof *life * (size_t)g->values.n);
    for (int v = 0; v < g->values.n; v++) {
        life[v] = (Life){x->b->placement.order.n + 1, -1};
        for (int i = 0; i < x->b->placement.order.n; i++) {
            const Node *node = &g->nodes.at[x->b->placement.order.at[i].node];
            bool in = false, out = false;
            for (int k = 0; k < node->nin; k++)
                in |= node->in[k] == v;
            for (int k = 0; k < node->nout; k++)
                out |= node->out[k] == v && node->op != OP_write;
            if (out && fused_end(x, i, -1) < life[v].from) life[v].from = fused_end(x, i, -1);
            if (in || out) life[v].to = fused_end(x, i, 1);
        }
        if (g->loss == v) life[v].to = x->b->placement.order.n;
    }
    return life;
}

static const Node *node_of(const Compiled *x, int step) {
    return &x->b->spmd.graph.nodes.at[x->b->placement.order.at[step].node];
}

/* In a fused step, which begins at `first`, only elementwise members of b's shape stand from the first reader of a to b, and none reads it behind b. */
static bool fused_over(const Compiled *x, int first, int a, int b) {
    const Graph *g = &x->b->spmd.graph;
    bool read = false, made = false;
    for (int s = first; s <= fused_end(x, first, 1); s++) {
        const Node *node = node_of(x, s);
        bool reads = false;
        for (int i = 0; i < node->nin; i++)
            reads |= node->in[i] == a;
        if (reads && made) return false;
        read |= reads;
        const Value *out = &g->values.at[node->out[0]];
        if (read && !made &&
            !(op_elementwise(node->op) && out->layout == g->values.at[a].layout &&
              shape_equal(&out->type.shape, &g->values.at[a].type.shape)))
            return false;
        made |= node->out[0] == b;
    }
    return read && x->b->placement.location[a].at == x->b->placement.location[b].at && x->b->spmd.box_bytes[a] == x->b->spmd.box_bytes[b];
}

/* b is made over a, elementwise or reshaped, in the step in which a dies. */
static bool made_over(const Compiled *x, int a, int b) {
    for (int s = 0; s < x->b->placement.order.n; s++)
        if (node_of(x, s) == &x->b->spmd.graph.nodes.at[x->b->spmd.graph.values.at[b].node] && x->b->placement.order.at[s].fused > 0)
            return fused_over(x, fused_end(x, s, -1), a, b);
    const Node *node = &x->b->spmd.graph.nodes.at[x->b->spmd.graph.values.at[b].node];
    for (int k = 0; k < node->nout && k < node->nin; k++)
        if (node->out[k] == b && node->in[k] == a)
            return op_table[node->op].flat ||
                   (op_table[node->op].in_place && x->b->spmd.graph.values.at[a].layout == x->b->spmd.graph.values.at[b].layout);
    return false;
}

Test(memory, no_two_values_alive_at_once_overlap) {
    for (int i = 0; i < NNETS; i++)
        for (int o = 0; o <= 2; o++) {
            Compiled x;
            compiled(&x, nets[i], 4, o);
            Life *life = lives(&x);
            int checked = 0;
            for (int a = 0; a < x.b->spmd.graph.values.n; a++)
                for (int b = 0; b < x.b->spmd.graph.values.n; b++) {
                    const Location *p = &x.b->placement.location[a], *q = &x.b->placement.location[b];
                    bool used = a != b && life[a].to >= 0 && life[b].to >= 0 && p->place == PLACE_ARENA && q->place == PLACE_ARENA;
                    if (!used || life[a].from > life[b].from || life[b].from > life[a].to || x.b->spmd.box_bytes[a] == 0 ||
                        x.b->spmd.box_bytes[b] == 0)
                        continue;
                    bool apart = p->at + x.b->spmd.box_bytes[a] <= q->at || q->at + x.b->spmd.box_bytes[b] <= p->at;
                    const bool dies = life[b].from <= life[a].to && life[a].to <= life[b].to && life[a].from < life[b].from;
                    bool over = dies && fused_end(&x, life[b].from, 1) == life[a].to && made_over(&x, a, b) && o > 0;
                    cr_expect(apart || over, "net %d -O%d: %s and %s", i, o, x.b->spmd.graph.values.at[a].name,
                              x.b->spmd.graph.values.at[b].name);
                    checked++;
                }
            cr_expect_gt(checked, 5);
            free(life);
            compiled_finish(&x);
        }
}

Test(memory, offsets_are_aligned_and_within_the_arena) {
    for (int i = 0; i < NNETS; i++) {
        Compiled x;
        compiled(&x, nets[i], 4, 2);
        for (int v = 0; v < x.b->spmd.graph.values.n; v++)
            if (x.b->placement.location[v].place == PLACE_ARENA) {
                cr_expect_eq(x.b->placement.location[v].at % 64, 0);
                cr_expect_leq(x.b->placement.location[v].at +
                                  (x.b->spmd.graph.nodes.at[x.b->spmd.graph.values.at[v].node].op == OP_write ? 0 : x.b->spmd.box_bytes[v]),
                              x.b->placement.arena_bytes);
            }
        compiled_finish(&x);
    }
}

Test(memory, new_parameters_and_slots_lie_in_the_storage_of_the_old) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
        const Node *node = &x.b->spmd.graph.nodes.at[n];
        if (node->op != OP_write) continue;
        cr_expect_eq(x.b->placement.location[node->in[0]].place, PLACE_STATE);
        cr_expect_eq(x.b->placement.location[node->in[0]].at, node->state);
        cr_expect_eq(x.b->placement.location[node->in[0]].version, 1);
    }
    compiled_finish(&x);
}

Test(memory, inputs_and_parameters_are_read_where_they_are) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    cr_expect_eq(x.b->placement.location[value_named(&x.b->spmd.graph, "w")].place, PLACE_STATE);
    cr_expect_eq(x.b->placement.location[value_named(&x.b->spmd.graph, "label")].place, PLACE_INPUT);
    compiled_finish(&x);
}

/* Replicas of parameters, and reshapes of parameters and inputs, are not copied; what is no larger lies there, what is no view does not. */
Test(memory, what_is_another_shape_of_an_input_or_a_parameter_lies_there) {
    static const char net[] =
        "net n() { input x : f32[8, 4, 4]; param w : f32[16, 4] = ones; param b : f32[4] = zeros;\n"
        "x2 = reshape(x, shape = [8, 16]); b2 = reshape(b, shape = [1, 4]); h = matmul(x2, w) + b2; h2 = reshape(h, shape = [32]); loss mean(h2 * h2); }\n" TRAIN;
    static const char *const modes[] = {"parallel { mode = stand_alone; }\n", "parallel { mode = data_parallel; }\n"};
    for (int i = 0; i < 4; i++) {
        Text text = {0};
        Compiled x;
        int replicas = 0, o = i < 2 ? 2 : 0;
        text_printf(&text, "%s%s", net, modes[i % 2]);
        compiled(&x, text.at, 1 + 3 * (i % 2), o);
        const Graph *g = &x.b->spmd.graph;
        const Location *x2 = &x.b->placement.location[value_named(g, "x2")], *b2 = &x.b->placement.location[value_named(g, "b2")],
                       *h2 = &x.b->placement.location[value_named(g, "h2")];
        cr_expect_eq(x2->place == PLACE_INPUT && x2->at == 0, o > 0);
        cr_expect_eq(b2->place == PLACE_STATE && b2->at == 1 && b2->version == 0, o > 0);
        cr_expect_eq(h2->place, PLACE_ARENA);
        for (int n = 0; n < g->nodes.n; n++) {
            const Node *node = &g->nodes.at[n];
            if (node->op == OP_replica_sum) /* of one slice: over it */
                cr_expect_eq(x.b->placement.location[node->in[0]].place == PLACE_ARENA &&
                                 x.b->placement.location[node->in[0]].at == x.b->placement.location[node->out[0]].at,
                             o > 0, "%s", node->name);
            if (node->op != OP_replicate || g->nodes.at[g->values.at[node->in[0]].node].op != OP_read) continue;
            const Location *from = &x.b->placement.location[node->in[0]], *to = &x.b->placement.location[node->out[0]];
            cr_expect_eq(to->place == PLACE_STATE && to->at == from->at && to->version == 0, o > 0, "%s", node->name);
            replicas++;
        }
        cr_expect_eq(replicas, 2 * (i % 2));
        for (int n = 0; n < g->nodes.n; n++)
            if (o > 0 && g->nodes.at[n].op == OP_write)
                cr_expect_eq(x.b->placement.location[g->nodes.at[n].in[0]].place, PLACE_STATE, "a new parameter is copied");
        compiled_finish(&x);
        text_finish(&text);
    }
}

Test(memory, an_elementwise_result_takes_the_place_of_its_dying_operand_but_not_at_O0) {
    for (int o = 0; o <= 2; o++) {
        Compiled x;
        compiled(&x, quickstart, 8, o);
        const Node *relu = &x.b->spmd.graph.nodes.at[x.b->spmd.graph.values.at[value_named(&x.b->spmd.graph, "a")].node];
        cr_expect_eq(x.b->placement.location[relu->out[0]].at == x.b->placement.location[relu->in[0]].at, o > 0, "-O%d", o);
        compiled_finish(&x);
    }
}

/* What it costs in memory that gradients are under way until the end of the backward pass: at most the sources and targets of two buckets, and
 * of the one that is started before the oldest is waited for. */
Test(memory, gradients_under_way_take_no_more_than_their_bound) {
    Text text = {0};
    enum { LAYERS = 24, BUCKET = 256 << 10 };
    text_printf(&text, "net n() { input h : f32[4, 128]; input label : f32[4, 128];\n");
    for (int i = 0; i < LAYERS; i++)
        text_printf(&text, "param w%d : f32[128, 128] = normal(0.1);\n", i);
    for (int i = 0; i < LAYERS; i++) {
        char in[16] = "h";
        if (i > 0) snprintf(in, sizeof in, "h%d", i - 1);
        text_printf(&text, "h%d = tanh(matmul(%s, w%d));\n", i, in, i);
    }
    text_printf(&text, "loss mse(h%d, label); }\n" TRAIN "parallel { mode = data_parallel; bucket = 256 KiB; }\n", LAYERS - 1);
    int64_t arena[2];
    for (int o = 1; o <= 2; o++) {
        Compiled x;
        compiled(&x, text.at, 4, o);
        arena[o - 1] = x.b->placement.arena_bytes;
        compiled_finish(&x);
    }
    text_finish(&text);
    fprintf(stderr, "arena of %d layers, 64 KiB a gradient: -O1 %lld KiB, -O2 with buckets of %d KiB %lld KiB\n", LAYERS,
            (long long)arena[0] >> 10, BUCKET >> 10, (long long)arena[1] >> 10);
    cr_expect_leq(arena[1], arena[0] + 6 * (int64_t)BUCKET);
}
