#include "tests/strategies/nets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/strategies.h"

void net_init(Net *net, int nranks) {
    memset(net, 0, sizeof *net);
    arena_init(&net->arena);
    graph_init(&net->graph, &net->arena);
    diags_init(&net->diags, &net->arena);
    net->graph.nranks = nranks;
    net->graph.settings.mode = MODE_AUTO;
    net->graph.settings.search = "sharding_propagation";
}

void net_finish(Net *net) {
    arena_finish(&net->arena);
}

static TensorType type_make(int ndim, const int64_t *dim) {
    TensorType type = {.dtype = F32, .shape = {.ndim = ndim}};
    for (int d = 0; d < ndim; d++)
        type.shape.dim[d] = dim[d];
    return type;
}

int net_input(Net *net, const char *name, int ndim, const int64_t *dim) {
    return graph_input(&net->graph, graph_add_input(&net->graph, (Input){.name = name, .type = type_make(ndim, dim)}));
}

int net_parameter(Net *net, const char *name, int ndim, const int64_t *dim) {
    int state = graph_add_state(&net->graph, (State){.name = name, .type = type_make(ndim, dim), .trainable = true});
    return graph_read_state(&net->graph, state, 0, name, (Span){0});
}

int net_op(Net *net, OpCode op, int a, int b, const char *name) {
    int in[2] = {a, b};
    return graph_emit(&net->graph, op, in, b < 0 ? 1 : 2, NULL, name, (Span){0});
}

int net_op_attr(Net *net, OpCode op, int a, const Attr *attr, const char *name) {
    return graph_emit(&net->graph, op, &a, 1, attr, name, (Span){0});
}

static Span span_make(int file, const char *text, const char *begin, const char *end) {
    return (Span){.file = file, .line = 1, .column = (int)(begin - text) + 1, .length = (int)(end - begin)};
}

static void skip(const char **at) {
    *at += strspn(*at, " ,");
}

static void read_dim(Net *net, int file, const char *text, const char **at, Hint *hint, HintDim *dim) {
    const char *begin = *at;
    if (**at == '-' && !isdigit((unsigned char)(*at)[1])) {
        ++*at;
    } else if (isalpha((unsigned char)**at)) {
        hint->named = true;
        do {
            if (**at == '.') ++*at;
            size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz");
            dim->axis[dim->naxes++] = arena_copy(&net->arena, *at, n);
            *at += n;
        } while (**at == '.');
    } else {
        dim->split = strtoll(*at, (char **)at, 10);
    }
    dim->span = span_make(file, text, begin, *at);
}

static void read_tuple(Net *net, int file, const char *text, const char **at, Hint *hint, HintTuple *tuple) {
    const char *begin = (*at)++;
    for (skip(at); **at != ')'; skip(at))
        read_dim(net, file, text, at, hint, &tuple->dim[tuple->ndim++]);
    ++*at;
    tuple->span = span_make(file, text, begin, *at);
}

const Hint *net_hint(Net *net, const char *text) {
    int file = diags_add_file(&net->diags, "net.dsl", text, strlen(text));
    Hint *hint = arena_alloc(&net->arena, sizeof *hint);
    const char *at = text + 1;
    for (skip(&at); *at == '('; skip(&at))
        read_tuple(net, file, text, &at, hint, &hint->in[hint->nin++]);
    at++;
    at += strspn(at, " ");
    if (*at == '-') {
        at += 2 + strspn(at + 2, " ");
        read_tuple(net, file, text, &at, hint, &hint->out);
        hint->nout = 1;
    }
    hint->span = span_make(file, text, text, at);
    return hint;
}

Node *net_node(Net *net, int value) {
    return &net->graph.nodes.at[net->graph.values.at[value].node];
}

const char *net_strategy(Net *net, int value) {
    const Node *node = net_node(net, value);
    if (!node->strategy) return "none";
    Text text = {0};
    bool says_it = strategy_print(&text, node, &net->graph, node->strategy);
    const char *copy = arena_printf(&net->arena, "%s%s", text.at, says_it ? "" : " (on other axes)");
    text_finish(&text);
    return copy;
}

const char *net_diagnostics(Net *net) {
    FILE *file = tmpfile();
    diags_print(&net->diags, file);
    long n = ftell(file);
    rewind(file);
    char *text = arena_alloc(&net->arena, (size_t)n + 1);
    if (fread(text, 1, (size_t)n, file) != (size_t)n) text[0] = '\0';
    fclose(file);
    return text;
}

void quickstart_init(Quickstart *q, int nranks, const int64_t size[4], const char *hint_first, const char *hint_second, Dataset dataset) {
    Net *net = &q->net;
    net_init(net, nranks);
    net->graph.settings.dataset = dataset;
    int x = net_input(net, "x", 2, (int64_t[]){size[0], size[1]}), label = net_input(net, "label", 2, (int64_t[]){size[0], size[3]});
    int w = net_parameter(net, "w", 2, (int64_t[]){size[1], size[2]}), w2 = net_parameter(net, "w2", 2, (int64_t[]){size[2], size[3]});
    q->h = net_op(net, OP_matmul, x, w, "h");
    q->a = net_op(net, OP_relu, q->h, -1, "a");
    q->y = net_op(net, OP_matmul, q->a, w2, "y");
    int difference = net_op(net, OP_sub, q->y, label, "difference");
    q->loss = net_op(net, OP_mean, net_op(net, OP_mul, difference, difference, "square"), -1, "loss");
    net->graph.loss = q->loss;
    if (hint_first) net_node(net, q->h)->hint = net_hint(net, hint_first);
    if (hint_second) net_node(net, q->y)->hint = net_hint(net, hint_second);
}
