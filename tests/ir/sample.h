/* A small graph and plan that use everything the text form can say: for the tests of print, read and plan. */
#pragma once
#include "ir/plan.h"

#include <assert.h>
#include <string.h>

static inline const Layout *sample_layout(Graph *graph, const char *text) {
    Layout layout;
    bool hidden;
    bool ok = layout_read(&text, &layout, &hidden);
    assert(ok);
    (void)ok;
    return graph_layout_exact(graph, &layout);
}

static inline TensorType sample_type(int64_t rows, int64_t columns) {
    return (TensorType){F32, false, {2, {rows, columns}}};
}

/* h = matmul(x, w), a = relu(h), s = mean(a - target), with a gradient node and a momentum update; 8 ranks. */
static inline void sample_graph(Graph *graph, Arena *arena) {
    static const double target[] = {0.1, -2, 1e-30, 3};
    static const double literal[] = {1, 2.5, -0.0, 0x1.fffffep-3};
    graph_init(graph, arena);
    graph->name = "sample";
    graph->file = "nets/a \"quoted\"\tname.dsl";
    graph->nranks = 8;
    vec_push(arena, &graph->dims, (Dim){"batch", 4});
    vec_push(arena, &graph->dims, (Dim){"wide", 8});
    Settings *settings = &graph->settings;
    settings->mode = MODE_AUTO;
    settings->search = "sharding_propagation";
    settings->dataset = DATASET_DATA_PARALLEL;
    settings->gradients_mean = true;
    vec_push(arena, &settings->mesh, (Axis){"dp", 2, {2, 4}});
    vec_push(arena, &settings->mesh, (Axis){"tp", 4, {4, 1}});
    settings->data = DATA_NUMPY_RAND;
    settings->data_seed = 1;
    settings->data_rows = 2;
    settings->seed = UINT64_MAX;
    settings->optimizer = OPTIMIZER_MOMENTUM;
    settings->lr = 0.4;
    settings->momentum = 0.1;
    settings->epochs = 5;
    settings->steps = 4;

    const Layout *rows = sample_layout(graph, "[2@4 -]"), *whole = sample_layout(graph, "[- -]");
    const Layout *partial = sample_layout(graph, "[2@4 -] +sum(4@1)"), *scalar = sample_layout(graph, "[] +sum(2@4)");
    Init normal = {.kind = INIT_NORMAL, .a = 0.01}, zeros = {.kind = INIT_ZEROS};
    int w = graph_add_state(
        graph,
        (State){.name = "layer.0.w", .type = sample_type(8, 1), .init = normal, .trainable = true, .span = {0, 4, 11, 1}, .layout = whole});
    int v = graph_add_state(
        graph, (State){.name = "layer.0.w.momentum", .type = sample_type(8, 1), .init = zeros, .parameter = w, .layout = whole});
    graph_add_state(graph, (State){.name = "an odd\nname",
                                   .type = sample_type(2, 2),
                                   .init = {.kind = INIT_LITERAL, .data = literal},
                                   .trainable = true,
                                   .layout = whole});
    graph_add_state(graph, (State){.name = "u",
                                   .type = sample_type(2, 2),
                                   .init = {.kind = INIT_UNIFORM, .a = -0.1, .b = 1.0 / 3},
                                   .parameter = -1,
                                   .layout = whole});
    graph_add_state(
        graph,
        (State){
            .name = "f", .type = sample_type(2, 2), .init = {.kind = INIT_FILE, .file = "data/w.npy"}, .parameter = -1, .layout = whole});
    int x = graph_add_input(graph, (Input){.name = "x", .type = sample_type(4, 8), .span = {0, 2, 11, 1}, .layout = rows});

    Span span = {0, 9, 9, 12};
    int xv = graph_input(graph, x);
    int wv = graph_read_state(graph, w, 0, NULL, span), vv = graph_read_state(graph, v, 0, NULL, span);
    RuleError error;
    int matmul = graph_add(graph, OP_matmul, (int[]){xv, wv}, 2, NULL, "h", span, &error);
    assert(matmul >= 0);
    int h = graph->nodes.at[matmul].out[0];
    int a = graph_emit(graph, OP_relu, &h, 1, NULL, "a", span);
    int t = graph_constant(graph, sample_type(4, 1), target, 0, "target", span);
    int d = graph_emit(graph, OP_sub, (int[]){a, t}, 2, NULL, "d", span);
    graph->loss = graph_emit(graph, OP_mean, &d, 1, (Attr[MAX_ATTRS]){{.given = true, .n = 2, .ints = {0, 1}}}, "loss", span);
    graph->nforward = graph->nodes.n;
    int dh = graph_constant(graph, sample_type(4, 1), NULL, 0.25, "one", (Span){0});
    Attr spec[MAX_ATTRS] = {{.given = true, .text = "mn,mk->kn"}};
    int dw = graph_emit_gradient(graph, matmul, OP_einsum, (int[]){dh, xv}, (int[]){PART_OUT, 0}, 2, 1, spec, "w.grad");
    int update = graph->nodes.n;
    Attr rates[MAX_ATTRS] = {{.given = true, .f = 0.4}, {.given = true, .f = 0.1}};
    graph_emit(graph, OP_momentum, (int[]){wv, vv, dw}, 3, rates, "new", span);
    graph_write_state(graph, w, graph->nodes.at[update].out[0], span);
    graph_write_state(graph, v, graph->nodes.at[update].out[1], span);
    graph->nodes.at[update].name = "momentum_1";

    Strategy *strategy = arena_alloc(arena, sizeof *strategy);
    Node *node = &graph->nodes.at[matmul];
    *strategy = (Strategy){.nfactors = node->rule->nfactors, .start = {0, 1, 3, 3}, .digit = {{2, 4}, {2, 2}, {2, 1}}};
    node->strategy = strategy;
    node->from = STRATEGY_USER;
    graph->nodes.at[update].from = STRATEGY_WHOLE;
    for (int i = 0; i < graph->values.n; i++)
        graph->values.at[i].layout = graph->values.at[i].type.shape.ndim == 2 ? rows : scalar;
    graph->values.at[h].layout = partial;
}

/* One role that computes h from x and w, makes it whole along tp, and writes w back. */
static inline void sample_plan(Plan *plan, Arena *arena) {
    plan_init(plan, arena);
    sample_graph(&plan->graph, arena);
    Graph *graph = &plan->graph;
    plan->options = "mode=auto -O2";
    plan->net_hash = graph_hash(graph);
    plan->certificate = "compositional: 4 steps";
    int h = 3, matmul = 3, target = 5;
    Role role = {.first_rank = 0, .last_rank = 7, .arena_bytes = 128};
    const Layout *rows = sample_layout(graph, "[2@4 -]"), *whole = sample_layout(graph, "[- -]");
    vec_push(arena, &role.instances, (Instance){.value = 0, .layout = rows, .place = PLACE_INPUT, .at = 0});
    vec_push(arena, &role.instances, (Instance){.value = 1, .layout = whole, .place = PLACE_STATE, .at = 0});
    vec_push(arena, &role.instances, (Instance){.value = h, .layout = rows, .place = PLACE_ARENA, .at = 0});
    vec_push(arena, &role.instances, (Instance){.value = h, .layout = sample_layout(graph, "[8@1 -]"), .place = PLACE_ARENA, .at = 64});
    vec_push(arena, &role.instances, (Instance){.value = target, .layout = whole, .place = PLACE_CONSTANT, .at = 5});
    vec_push(arena, &role.instances, (Instance){.value = 1, .layout = whole, .place = PLACE_STATE, .at = 0, .version = 1});
    vec_push(arena, &role.steps,
             (Step){.kind = STEP_KERNEL, .op = OP_matmul, .node = matmul, .nin = 2, .in = {0, 1}, .nout = 1, .out = {2}});
    Step start = {.kind = STEP_START, .comm = COMM_EXCHANGE, .request = 0, .nin = 1, .in = {2}, .nout = 1, .out = {3}, .stream = 1},
         wait = start;
    wait.kind = STEP_WAIT;
    vec_push(arena, &role.steps, start);
    vec_push(arena, &role.steps, wait);
    vec_push(arena, &role.steps, (Step){.kind = STEP_LOCAL, .comm = COMM_STRIDED_SLICE, .nin = 1, .in = {2}, .nout = 1, .out = {3}});
    vec_push(arena, &role.steps, (Step){.kind = STEP_WRITE, .state = 0, .nin = 1, .in = {5}, .node = graph->nodes.n - 2});
    Program program = {.name = "train", .loss = 2, .sent_bytes = 96};
    vec_push(arena, &program.roles, role);
    vec_push(arena, &plan->programs, program);
}

/* text with the first `old` replaced by `fresh`; `old` must be there. */
static inline char *sample_replace(Arena *arena, const char *text, const char *old, const char *fresh) {
    const char *at = strstr(text, old);
    assert(at);
    return arena_printf(arena, "%.*s%s%s", (int)(at - text), text, fresh, at + strlen(old));
}
