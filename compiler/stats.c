/* stats: --stats, --stats=json and the one-line summary. Counts what is in c->order: what runs. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/json.h"
#include "compiler/name.h"
#include "compiler/stats.h"

typedef struct KindStats {
    int count;
    int64_t sent, received, bound; /* bytes of the busiest rank, summed over the communications */
} KindStats;

static int64_t element_bytes(const Graph *g, int value) {
    return dtype_bytes[g->values.at[value].type.dtype];
}

Moves stats_moves(Compilation *c) {
    const Graph *g = &c->spmd;
    Moves moves = {0};
    for (int i = 0; i < c->order.n; i++) {
        int n = c->order.at[i].node;
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_convert || c->order.at[i].wait) continue;
        int from = node->in[0], to = node->out[0];
        StepTraffic traffic = convert_traffic(c, node->comm, g->values.at[from].layout, g->values.at[to].layout, &g->values.at[from].type);
        int64_t bytes = element_bytes(g, from);
        vec_push(c->arena, &moves,
                 (Move){.node = n,
                        .value = c->whole_value.at[from],
                        .kind = node->comm,
                        .from = from,
                        .to = to,
                        .bucket = c->order.at[i].bucket,
                        .sent = {traffic.sent.total * bytes, traffic.sent.max * bytes},
                        .received = {traffic.received.total * bytes, traffic.received.max * bytes},
                        .bound = {traffic.bound.total * bytes, traffic.bound.max * bytes}});
    }
    return moves;
}

static void raise(Compilation *c, Traffic *bound, int value) {
    const Graph *g = &c->spmd;
    int root = graph_converted(g, value);
    const Layout *from = g->values.at[root].layout, *to = g->values.at[value].layout;
    if (from == to) return;
    /* the kind only selects the memo: the bound is that of any way */
    Traffic least = convert_traffic(c, COMM_EXCHANGE, from, to, &g->values.at[root].type).bound;
    int64_t bytes = element_bytes(g, root);
    if (least.total * bytes > bound[root].total) bound[root].total = least.total * bytes;
    if (least.max * bytes > bound[root].max) bound[root].max = least.max * bytes;
}

Traffic *stats_bounds(Compilation *c) {
    const Graph *g = &c->spmd;
    Traffic *bound = arena_alloc(c->arena, sizeof *bound * (size_t)(g->values.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; g->nodes.at[n].op != OP_convert && i < g->nodes.at[n].nin; i++)
            raise(c, bound, g->nodes.at[n].in[i]);
    for (int k = 0; k < graph_nreports(g); k++)
        raise(c, bound, graph_report(g, k));
    return bound;
}

static void count_kinds(Compilation *c, KindStats kinds[NCOMMS]) {
    Moves moves = stats_moves(c);
    memset(kinds, 0, sizeof *kinds * NCOMMS);
    for (int i = 0; i < moves.n; i++) {
        KindStats *kind = &kinds[moves.at[i].kind];
        kind->count++;
        kind->sent += moves.at[i].sent.max;
        kind->received += moves.at[i].received.max;
        kind->bound += moves.at[i].bound.max;
    }
}

static KindStats sum_kinds(const KindStats kinds[NCOMMS]) {
    KindStats sum = {0};
    for (int k = 0; k < NCOMMS; k++) {
        if (k != COMM_STRIDED_SLICE) sum.count += kinds[k].count;
        sum.sent += kinds[k].sent;
        sum.received += kinds[k].received;
        sum.bound += kinds[k].bound;
    }
    return sum;
}

int64_t stats_sent_bytes(Compilation *c) {
    KindStats kinds[NCOMMS];
    count_kinds(c, kinds);
    return sum_kinds(kinds).sent;
}

/* Floating-point operations of a step: of the whole net, and of the rank with the largest part of every operator. */
static void count_flops(const Compilation *c, double *total, double *busiest) {
    *total = *busiest = 0;
    for (int n = 0; n < c->graph.nodes.n; n++) {
        const Node *node = &c->graph.nodes.at[n];
        double part = op_table[node->op].flops;
        if (part == 0) continue;
        *total += rule_flops(node->op, node->rule);
        for (int f = 0; f < node->rule->nfactors; f++) {
            int64_t split = strategy_split(node->strategy, f), size = node->rule->factor[f].size;
            part *= (double)((size + split - 1) / split);
        }
        *busiest += part;
    }
}

static int64_t local_bytes(const TensorType *type, const Layout *layout) {
    return layout_max_elements(layout, &type->shape) * dtype_bytes[type->dtype];
}

/* Bytes on a rank, of the largest boxes. */
typedef struct Memory {
    int64_t parameters; /* numbers in them, not bytes */
    int nparameters;
    int64_t whole, states, inputs, constants; /* whole: the states' bytes, undivided */
} Memory;

static Memory count_memory(const Compilation *c) {
    Memory memory = {0};
    for (int s = 0; s < c->graph.states.n; s++) {
        const State *state = &c->graph.states.at[s];
        memory.states += local_bytes(&state->type, state->layout);
        memory.whole += shape_elements(&state->type.shape) * dtype_bytes[state->type.dtype];
        memory.nparameters += state->trainable;
        memory.parameters += state->trainable ? shape_elements(&state->type.shape) : 0;
    }
    for (int i = 0; i < c->graph.inputs.n; i++)
        memory.inputs += local_bytes(&c->graph.inputs.at[i].type, c->graph.inputs.at[i].layout);
    for (int n = 0; n < c->spmd.nodes.n; n++)
        if (c->spmd.nodes.at[n].op == OP_constant) memory.constants += c->box_bytes[c->spmd.nodes.at[n].out[0]];
    return memory;
}

/* What all communications let be received, and the least that the values' conversions can; bytes of all ranks. */
typedef struct Totals {
    int64_t sent, received, bound, rank_sent, rank_received, rank_bound;
} Totals;

static Totals count_totals(Compilation *c) {
    Totals totals = {0};
    Moves moves = stats_moves(c);
    const Traffic *bound = stats_bounds(c);
    for (int i = 0; i < moves.n; i++) {
        totals.sent += moves.at[i].sent.total;
        totals.received += moves.at[i].received.total;
        totals.rank_sent += moves.at[i].sent.max;
        totals.rank_received += moves.at[i].received.max;
    }
    for (int v = 0; v < c->spmd.values.n; v++) {
        totals.bound += bound[v].total;
        totals.rank_bound += bound[v].max;
    }
    return totals;
}

static double ratio_of(int64_t received, int64_t bound) {
    return bound > 0 ? (double)received / (double)bound : 1.0;
}

static const char *layout_of(Compilation *c, int value) {
    const Value *v = &c->spmd.values.at[value];
    return layout_named(c->arena, &c->graph, v->layout, v->type.hidden);
}

static void print_moves(Text *text, Compilation *c) {
    Moves moves = stats_moves(c);
    bool any = false;
    for (int i = 0; i < moves.n; i++) {
        const Move *move = &moves.at[i];
        if (move->kind == COMM_STRIDED_SLICE) continue;
        if (!any) text_printf(text, "each, of all ranks            received      bound         from -> to\n");
        any = true;
        text_printf(text, "  %-14s %-11s  %-12s  %-12s  %s -> %s\n", comm_name[move->kind], c->graph.values.at[move->value].name,
                    bytes_named(c->arena, move->received.total), bytes_named(c->arena, move->bound.total), layout_of(c, move->from),
                    layout_of(c, move->to));
    }
    Totals totals = count_totals(c);
    text_printf(text, "in all         %s received by all ranks; the values' conversions need at least %s: %.2f x the bound\n",
                bytes_named(c->arena, totals.received), bytes_named(c->arena, totals.bound), ratio_of(totals.received, totals.bound));
}

static void print_communication(Text *text, Compilation *c) {
    KindStats kinds[NCOMMS];
    count_kinds(c, kinds);
    KindStats sum = sum_kinds(kinds);
    text_printf(text, "communication  count  sent/rank     received/rank  bound\n");
    for (int k = 0; k < NCOMMS; k++)
        if (kinds[k].count > 0)
            text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", comm_name[k], kinds[k].count, bytes_named(c->arena, kinds[k].sent),
                        bytes_named(c->arena, kinds[k].received), bytes_named(c->arena, kinds[k].bound));
    text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", "all", sum.count, bytes_named(c->arena, sum.sent), bytes_named(c->arena, sum.received),
                bytes_named(c->arena, sum.bound));
    print_moves(text, c);
}

static void print_memory(Text *text, const Compilation *c) {
    Memory memory = count_memory(c);
    text_printf(text, "parameters     %lld in %d tensors; with the optimizer's slots %s, on a rank %s\n", (long long)memory.parameters,
                memory.nparameters, bytes_named(c->arena, memory.whole), bytes_named(c->arena, memory.states));
    text_printf(text, "memory a rank  %s: arena %s (peak), states %s, inputs %s, constants %s\n",
                bytes_named(c->arena, c->arena_bytes + memory.states + memory.inputs + memory.constants), bytes_named(c->arena, c->arena_bytes),
                bytes_named(c->arena, memory.states), bytes_named(c->arena, memory.inputs), bytes_named(c->arena, memory.constants));
}

void stats_print(Text *text, Compilation *c) {
    print_communication(text, c);
    print_memory(text, c);
    double total, busiest;
    count_flops(c, &total, &busiest);
    text_printf(text, "FLOPs a step   %.4g; busiest rank %.4g (%.2f x an even share)\n", total, busiest,
                total > 0 ? busiest * c->graph.nranks / total : 1.0);
    if (c->eval != NULL) {
        const Program *eval = &c->plan.programs.at[plan_find(&c->plan, "eval")];
        text_printf(text, "eval           %d steps, %s/rank/step sent, arena %s\n", eval->roles.at[0].steps.n, bytes_named(c->arena, eval->sent_bytes),
                    bytes_named(c->arena, eval->roles.at[0].arena_bytes));
    }
    text_printf(text, "time           %.2f ms, verification between passes %.2f ms\n", 1e3 * c->seconds, 1e3 * c->verify_seconds);
    for (int p = 0; p < c->npasses; p++)
        text_printf(text, "  %-12s %8.3f ms\n", c->pass[p].name, 1e3 * c->pass[p].seconds);
    if (c->options->prove)
        text_printf(text, "proof          %.3f ms (steps %.3f, patterns %.3f, full size %.3f): %s\n", 1e3 * c->proof.seconds,
                    1e3 * c->proof.compositional_s, 1e3 * c->proof.patterns_s, 1e3 * c->proof.whole_s, c->proof.certificate);
}

/* ---------------------------------------------------------------- JSON: docs/explain.md lists the keys */

static void json_traffic(Json *json, const char *key, Traffic bytes) {
    json_row(json, key);
    json_int(json, "total", bytes.total);
    json_int(json, "max", bytes.max);
    json_end(json);
}

static void json_strategies(Json *json, const Compilation *c) {
    const Graph *g = &c->graph;
    json_array(json, "strategies");
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node) || node->strategy == NULL) continue;
        Text tuple = {0};
        bool said = strategy_print(&tuple, node, g, node->strategy);
        json_row(json, NULL);
        json_text(json, "name", node->name);
        json_text(json, "op", op_table[node->op].name);
        json_text(json, "from", strategy_from_name[node->from]);
        json_text(json, "strategy", said ? tuple.at : NULL);
        Text layout = {0};
        const Value *result = &g->values.at[node->out[0]];
        layout_print(&layout, result->layout, result->type.hidden);
        json_text(json, "layout", layout.at);
        json_end(json);
        text_finish(&tuple);
        text_finish(&layout);
    }
    json_end(json);
}

static void json_layout(Json *json, const Compilation *c, const char *key, int value) {
    const Value *v = &c->spmd.values.at[value];
    Text text = {0};
    layout_print(&text, v->layout, v->type.hidden);
    json_text(json, key, text.at);
    text_finish(&text);
}

static void json_communications(Json *json, Compilation *c) {
    Moves moves = stats_moves(c);
    json_array(json, "communications");
    for (int i = 0; i < moves.n; i++) {
        const Move *move = &moves.at[i];
        json_row(json, NULL);
        json_text(json, "value", c->graph.values.at[move->value].name);
        json_text(json, "kind", comm_name[move->kind]);
        json_layout(json, c, "from", move->from);
        json_layout(json, c, "to", move->to);
        json_traffic(json, "sent", move->sent);
        json_traffic(json, "received", move->received);
        json_traffic(json, "bound", move->bound);
        json_int(json, "bucket", move->bucket);
        json_end(json);
    }
    json_end(json);
}

static void json_totals(Json *json, Compilation *c) {
    KindStats kinds[NCOMMS];
    count_kinds(c, kinds);
    Totals totals = count_totals(c);
    json_object(json, "totals");
    json_int(json, "communications", sum_kinds(kinds).count);
    json_traffic(json, "sent", (Traffic){totals.sent, totals.rank_sent});
    json_traffic(json, "received", (Traffic){totals.received, totals.rank_received});
    json_traffic(json, "bound", (Traffic){totals.bound, totals.rank_bound});
    json_real(json, "ratio", ratio_of(totals.received, totals.bound));
    json_object(json, "kinds");
    for (int k = 0; k < NCOMMS; k++) {
        if (kinds[k].count == 0) continue;
        json_row(json, comm_name[k]);
        json_int(json, "count", kinds[k].count);
        json_int(json, "sent", kinds[k].sent);
        json_int(json, "received", kinds[k].received);
        json_int(json, "bound", kinds[k].bound);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static void json_figures(Json *json, const Compilation *c) {
    Memory memory = count_memory(c);
    double total, busiest;
    count_flops(c, &total, &busiest);
    json_object(json, "memory");
    json_int(json, "parameters", memory.parameters);
    json_int(json, "parameter_tensors", memory.nparameters);
    json_int(json, "states_whole", memory.whole);
    json_int(json, "states", memory.states);
    json_int(json, "arena", c->arena_bytes);
    json_int(json, "inputs", memory.inputs);
    json_int(json, "constants", memory.constants);
    json_int(json, "rank", c->arena_bytes + memory.states + memory.inputs + memory.constants);
    json_end(json);
    json_object(json, "flops");
    json_real(json, "net", total);
    json_real(json, "rank", busiest);
    json_end(json);
}

void stats_json(Text *text, Compilation *c) {
    Json json = {.text = text};
    json_object(&json, NULL);
    json_text(&json, "net", c->graph.name);
    json_text(&json, "plan", c->options->no_plan ? NULL : c->options->output);
    json_int(&json, "ranks", c->graph.nranks);
    json_int(&json, "steps", c->plan.programs.at[0].roles.at[0].steps.n);
    if (c->eval != NULL) {
        const Program *eval = &c->plan.programs.at[plan_find(&c->plan, "eval")];
        json_object(&json, "eval");
        json_int(&json, "steps", eval->roles.at[0].steps.n);
        json_int(&json, "sent", eval->sent_bytes);
        json_int(&json, "arena", eval->roles.at[0].arena_bytes);
        json_end(&json);
    }
    json_strategies(&json, c);
    json_communications(&json, c);
    json_totals(&json, c);
    json_figures(&json, c);
    json_object(&json, "seconds");
    json_real(&json, "passes", c->seconds);
    json_real(&json, "verification", c->verify_seconds);
    json_object(&json, "pass");
    for (int p = 0; p < c->npasses; p++)
        json_real(&json, c->pass[p].name, c->pass[p].seconds);
    json_end(&json);
    json_end(&json);
    json_object(&json, "proof");
    json_bool(&json, "proved", c->options->prove);
    json_real(&json, "seconds", c->options->prove ? c->proof.seconds : 0);
    json_real(&json, "steps_seconds", c->proof.compositional_s);
    json_real(&json, "patterns_seconds", c->proof.patterns_s);
    json_real(&json, "full_size_seconds", c->proof.whole_s);
    json_text(&json, "certificate", c->options->prove ? c->proof.certificate : NULL);
    json_end(&json);
    json_end(&json);
}

void stats_summary(Text *text, Compilation *c) {
    KindStats kinds[NCOMMS];
    count_kinds(c, kinds);
    KindStats sum = sum_kinds(kinds);
    const Role *role = &c->plan.programs.at[0].roles.at[0];
    text_printf(text, "%s: %d rank%s, %d steps, %d communication%s, %s/rank/step sent, ", c->options->output, c->graph.nranks,
                c->graph.nranks == 1 ? "" : "s", role->steps.n, sum.count, sum.count == 1 ? "" : "s", bytes_named(c->arena, sum.sent));
    if (c->options->prove)
        text_printf(text, "proved in %.1f ms\n", 1e3 * c->proof.seconds);
    else
        text_printf(text, "not proved\n");
}
