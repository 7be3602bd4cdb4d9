/* Compiling a text within a test. */
#pragma once
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/compiler.h"

typedef struct Compiled {
    Arena arena;
    Diags diags;
    Options options;
    Compilation c;
    Build *b;     /* the program train, once the net was read */
    Graph *graph; /* its unsharded graph */
    char output[64];
    bool done;
} Compiled;

/* Everything that a test does not say itself, before compiled_run. Tests are about the passes behind the strategies, and small nets are fastest whole on every rank:
 * these are split by their batch and their hints. Tests of a search say which. */
static inline void compiled_init(Compiled *x, int nranks, int optimize) {
    memset(x, 0, sizeof *x);
    arena_init(&x->arena);
    diags_init(&x->diags, &x->arena);
    snprintf(x->output, sizeof x->output, "/tmp/pcc-test-%ld.plan", (long)getpid());
    x->options = (Options){.input = "test.dsl",
                           .output = x->output,
                           .optimize = optimize,
                           .prove = true,
                           .overrides = {.nranks = nranks, .search = "sharding_propagation"}};
}

static inline const char *samples_folder(void) {
    return getenv("PCC_SAMPLES") != NULL ? getenv("PCC_SAMPLES") : "samples";
}

/* For a look at what is planned on a machine, not for a plan: tests/run has such plans proved, which takes longer than all else. Nets of samples/ can be imported. */
static inline void compiled_look(Compiled *x, int nranks, const Machine *machine) {
    static const char *samples;
    samples = samples_folder();
    compiled_init(x, nranks, 2);
    x->options.machine = machine;
    x->options.no_plan = true;
    x->options.prove = false;
    x->options.overrides.folder = &samples;
    x->options.overrides.nfolders = 1;
}

static inline bool compiled_run(Compiled *x, const char *text) {
    x->done = compile(&x->c, &x->arena, &x->options, &x->diags, text, strlen(text));
    if (x->c.programs.n > 0) x->b = program_train(&x->c), x->graph = &x->b->sharded.graph;
    return x->done;
}

/* All that was said, a line each. */
static inline const char *compiled_said(Compiled *x) {
    const char *said = "";
    for (int i = 0; i < x->diags.items.n; i++)
        said = arena_printf(&x->arena, "%s%s\n", said, x->diags.items.at[i].text);
    return said;
}

static inline void compiled_finish(Compiled *x) {
    compilation_finish(&x->c);
    unlink(x->output);
    arena_finish(&x->arena);
}

/* A net that must compile. */
static inline void compiled(Compiled *x, const char *text, int nranks, int optimize) {
    compiled_init(x, nranks, optimize);
    if (!compiled_run(x, text)) {
        diags_print(&x->diags, stderr);
        cr_assert_fail("does not compile: %s", x->c.error.text);
    }
}

/* Only the graph as the frontend leaves it, in a program that no pass has seen. */
static inline bool parsed_on(Compiled *x, const char *text) {
    x->b = arena_alloc(&x->arena, sizeof *x->b);
    build_init(x->b, "train", &x->arena, &x->options, &x->diags);
    x->graph = &x->b->front.graph;
    return x->done = frontend_compile("test.dsl", text, strlen(text), &x->options.overrides, x->graph, &x->arena, &x->diags);
}
static inline void parsed(Compiled *x, const char *text) {
    compiled_init(x, 1, 2);
    parsed_on(x, text);
    if (!x->done) diags_print(&x->diags, stderr);
    cr_assert(x->done);
}

static inline int count_op(const Graph *g, OpCode op) {
    int count = 0;
    for (int n = 0; n < g->nodes.n; n++)
        count += g->nodes.at[n].op == op;
    return count;
}

static inline int count_kind(const Graph *g, CommKind kind) {
    int count = 0;
    for (int n = 0; n < g->nodes.n; n++)
        count += g->nodes.at[n].op == OP_convert && g->nodes.at[n].comm == kind;
    return count;
}

static inline int value_named(const Graph *g, const char *name) {
    for (int v = 0; v < g->values.n; v++)
        if (strcmp(g->values.at[v].name, name) == 0) return v;
    cr_assert_fail("no value %s", name);
    return -1;
}

static inline void assert_layout(const Layout *layout, const char *expected) {
    Text text = {0};
    layout_print(&text, layout, false);
    cr_assert_str_eq(text.at, expected);
    text_finish(&text);
}

#define TRAIN "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 2; }\n"
#define TRAIN_MOMENTUM "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.5); epochs = 1; steps = 2; }\n"

static const char *const quickstart =
    "net quickstart(batch = 16, in_dim = 32, hidden_dim = 16, out_dim = 16) {\n"
    "    input x     : f32[batch, in_dim];\n"
    "    input label : f32[batch, out_dim];\n"
    "    param w     : f32[in_dim, hidden_dim]  = normal(0.01);\n"
    "    param w2    : f32[hidden_dim, out_dim] = normal(0.01);\n"
    "    h = matmul(x, w) shard ((2, 4), (4, 1));\n"
    "    a = relu(h);\n"
    "    y = matmul(a, w2);\n"
    "    loss mse(y, label);\n"
    "}\n" TRAIN_MOMENTUM "parallel { mode = auto; search = sharding_propagation; dataset = data_parallel; }\n";

/* Shared values, conversions of many kinds, uneven parts: what properties are tested on. */
static const char *const nets[] = {
    /* broadcasting, a bias, a value used three times */
    "net a(batch = 12) {\n"
    "  input x : f64[batch, 10]; input label : f64[batch, 6];\n"
    "  param w : f64[10, 6] = normal(0.3); param b : f64[6] = zeros; param v : f64[6, 6] = normal(0.3);\n"
    "  g = matmul(x, w) shard ((2, 2), (2, 1)); h = add(g, b); t = tanh(h);\n"
    "  u = matmul(t, v) shard ((1, 4), (4, 1)); y = u + t * h;\n"
    "  loss mse(y, label);\n}\n" TRAIN_MOMENTUM "parallel { mode = auto; dataset = full_batch; }\n",
    /* a parameter used twice, transposes, a sum */
    "net b(batch = 8) {\n"
    "  input x : f64[batch, 6]; input label : f64[batch, 6]; param w : f64[6, 6] = normal(0.3);\n"
    "  h = relu(matmul(x, w)) shard ((2, 2)); r = relu(transpose(h)) shard ((4, 1)); y = matmul(transpose(r), w, transpose_b = true);\n"
    "  loss mse(y, label, reduction = sum);\n}\n" TRAIN "parallel { mode = semi_auto; }\n",
    /* uneven everywhere, an output strategy */
    "net c(batch = 7) {\n"
    "  input x : f32[batch, 5]; input label : f32[batch, 5]; param w : f32[5, 5] = uniform(-1, 1) shard (1, 4);\n"
    "  y = matmul(x, w) shard ((2, 2), (2, 1)) -> (1, 4); z = reshape(exp(reshape(y, shape = [35])), shape = [7, 5]);\n"
    "  loss mse(z - y, label);\n}\n" TRAIN "parallel { mode = auto; dataset = data_parallel; }\n",
    /* data parallel */
    "net d() {\n"
    "  input x : f32[2, 3]; input label : f32[2, 1]; param w : f32[3, 1] = zeros;\n"
    "  loss mse(matmul(x, w), label);\n}\n" TRAIN_MOMENTUM "parallel { mode = data_parallel; gradients = mean; }\n",
};
enum { NNETS = sizeof nets / sizeof *nets };
