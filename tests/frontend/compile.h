/* Compiles a text for the tests of the frontend, and looks at what came of it. */
#pragma once
#include "frontend/frontend.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct Compiled {
    Arena arena;
    Diags diags;
    Graph graph;
    bool accepted;
} Compiled;

static inline void compile_with(Compiled *c, const char *text, size_t n, const Overrides *flags) {
    arena_init(&c->arena);
    diags_init(&c->diags, &c->arena);
    c->accepted = frontend_compile("dir/net.dsl", text, n, flags, &c->graph, &c->arena, &c->diags);
    cr_assert_eq(c->accepted, c->diags.nerrors == 0, "rejected if and only if there is an error");
}

static inline void compile(Compiled *c, const char *text, int nranks) {
    Overrides flags = {.nranks = nranks};
    compile_with(c, text, strlen(text), &flags);
}

/* Fails the test with the first diagnostic when the text was rejected. */
static inline void expect_accepted(const Compiled *c) {
    Error error = {0};
    const char *text = c->diags.items.n ? c->diags.items.at[0].text : "";
    cr_assert(c->accepted, "%s at line %d", text, c->diags.items.n ? c->diags.items.at[0].span.line : 0);
    cr_assert(graph_verify(&c->graph, "lower", &error), "%s", error.text);
}

/* The first error is on this line and column, and its text contains this. */
static inline void expect_error(const Compiled *c, int line, int column, const char *text) {
    cr_assert_not(c->accepted, "accepted, expected: %s", text);
    cr_assert_gt(c->diags.items.n, 0);
    const Diag *first = &c->diags.items.at[0];
    cr_assert_eq(first->kind, DIAG_ERROR);
    cr_assert(strstr(first->text, text), "found: %s\nexpected: %s", first->text, text);
    cr_assert_eq(first->span.line, line, "%s: line %d", text, first->span.line);
    cr_assert_eq(first->span.column, column, "%s: column %d", text, first->span.column);
}

static inline void compiled_finish(Compiled *c) {
    arena_finish(&c->arena);
}

static inline const Node *node_named(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->nodes.n; i++)
        if (!strcmp(graph->nodes.at[i].name, name)) return &graph->nodes.at[i];
    cr_assert_fail("no node %s", name);
    return NULL;
}

static inline const TensorType *result_type(const Graph *graph, const char *name) {
    return &graph->values.at[node_named(graph, name)->out[0]].type;
}

static inline void expect_type(const Graph *graph, const char *name, const char *want) {
    Text text = {0};
    type_print(&text, result_type(graph, name));
    cr_assert_str_eq(text.at, want);
    text_finish(&text);
}

/* A net around statements; x: f32[16, 32], w: f32[32, 8], t: f32[16, 8]. The statements start at line 5. */
#define HEAD                                                                                                                               \
    "net q(batch = 16, eps = 0.5) {\n    input x : f32[batch, 32];\n    input t : f32[batch, 8];\n    param w : f32[32, 8] = "             \
    "normal(0.01);\n"
#define TAIL "\n    loss mse(matmul(x, w), t);\n}\n"
#define TRAIN "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }\n"
#define NET(statements) HEAD statements TAIL TRAIN
