/* A rule in one line: "[8:0 6:1], [8:0] -> [8:0]", sizes with their factors. */
#pragma once
#include "ir/rules.h"

#include <criterion/criterion.h>

static inline void tensor_text(Text *text, const Shape *shape, const int8_t *map) {
    text_printf(text, "[");
    for (int d = 0; d < shape->ndim; d++) {
        text_printf(text, "%s%d", d ? " " : "", (int)shape->dim[d]);
        if (map[d] >= 0) text_printf(text, ":%d", map[d]);
    }
    text_printf(text, "]");
}

static inline void expect(OpCode op, const TensorType *in, int nin, const Attr *attr, const char *want) {
    Text text = {0};
    Rule rule;
    RuleError error;
    if (!rule_infer(op, in, nin, attr, &rule, &error)) {
        text_printf(&text, "%s", error.text);
    } else {
        for (int i = 0; i < nin; i++) {
            text_printf(&text, i ? ", " : "");
            tensor_text(&text, &in[i].shape, rule.in[i]);
        }
        text_printf(&text, " -> %s", dtype_name[rule.result[0].dtype]);
        tensor_text(&text, &rule.result[0].shape, rule.out[0]);
        if (rule.index_range) text_printf(&text, " of %d", (int)rule.index_range);
    }
    cr_expect_str_eq(text.at, want);
    text_finish(&text);
}

#define T(t, ...) ((TensorType){.dtype = (t), .shape = {(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}}})
#define TYPES(...) ((TensorType[]){__VA_ARGS__}), (int)(sizeof((TensorType[]){__VA_ARGS__}) / sizeof(TensorType))
#define NUMBER(n) ((Attr[MAX_ATTRS]){{.given = true, .i = (n)}})
#define WORD(w) ((Attr[MAX_ATTRS]){{.given = true, .text = (w)}})
#define NUMBERS(m, n) ((Attr[MAX_ATTRS]){{.given = true, .i = (m)}, {.given = true, .i = (n)}})
