/* The nodes that stand for an operator, as text. */
#pragma once
#include <criterion/criterion.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/rules.h"
#include "tests/attrs.h"

static inline int expansion_input(Graph *graph, const char *name, Shape shape) {
    return graph_input(graph, graph_add_input(graph, (Input){.name = name, .type = {F32, false, shape}}));
}

/* The nodes from `first` on: "max(x) sub(x y.max) ..". */
static inline void expansion_expect(const Graph *graph, int first, const char *expected) {
    Text text = {0};
    Error error = {0};
    for (int n = first; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        text_printf(&text, "%s%s(", n > first ? " " : "", op_table[node->op].name);
        for (int i = 0; i < node->nin; i++)
            text_printf(&text, "%s%s", i ? " " : "", graph->values.at[node->in[i]].name);
        text_printf(&text, ")");
    }
    cr_assert_str_eq(text.at, expected);
    cr_assert(graph_verify(graph, "test", &error), "%s", error.text);
    text_finish(&text);
}
