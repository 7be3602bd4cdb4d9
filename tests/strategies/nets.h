/* Small graphs for the tests of this folder, built through ir's interface as the frontend builds them. */
#pragma once
#include "ir/graph.h"

/* A graph under construction with nothing but defaults: mode auto. */
typedef struct Net {
    Arena arena;
    Graph graph;
    Diags diags;
    const char *source; /* the text that spans point into */
} Net;
void net_init(Net *net, int nranks);
void net_finish(Net *net);
int net_input(Net *net, const char *name, int ndim, const int64_t *dim);     /* value id */
int net_parameter(Net *net, const char *name, int ndim, const int64_t *dim); /* value id */
int net_op(Net *net, OpCode op, int a, int b, const char *name);             /* value id; b -1: one operand */
int net_op_attr(Net *net, OpCode op, int a, const Attr *attr, const char *name);
/* "((2, 4), (4, 1)) -> (8, 1)": a hint with spans into a line that is that text; axis names where letters stand. */
const Hint *net_hint(Net *net, const char *text);
Node *net_node(Net *net, int value);           /* the producer of a value */
const char *net_strategy(Net *net, int value); /* its strategy as a tuple, "none" without one */
/* All diagnostics as pcc prints them, in the arena. */
const char *net_diagnostics(Net *net);

/* README's quick start with these sizes and names, mse expanded: the hint is on the first or on the second matmul. Values: h, a, y. */
typedef struct Quickstart {
    Net net;
    int h, a, y, loss;
} Quickstart;
void quickstart_init(Quickstart *q, int nranks, const int64_t size[4], const char *hint_first, const char *hint_second, Dataset dataset);
