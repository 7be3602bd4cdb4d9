/* stats: --stats, --stats=json and the one-line summary. Counts what is in b->placement.order: what runs. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/convert.h"
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

Moves stats_moves(Build *b) {
    const Graph *g = &b->spmd.graph;
    Moves moves = {0};
    for (int i = 0; i < b->placement.order.n; i++) {
        int n = b->placement.order.at[i].node;
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_convert || b->placement.order.at[i].wait) continue;
        int from = node->in[0], to = node->out[0];
        StepTraffic traffic = convert_traffic(b, node->comm, g->values.at[from].layout, g->values.at[to].layout, &g->values.at[from].type);
        int64_t bytes = element_bytes(g, from);
        vec_push(b->arena, &moves,
                 (Move){.node = n,
                        .value = b->spmd.whole_value.at[from],
                        .kind = node->comm,
                        .from = from,
                        .to = to,
                        .bucket = b->placement.order.at[i].bucket,
                        .sent = {traffic.sent.total * bytes, traffic.sent.max * bytes},
                        .received = {traffic.received.total * bytes, traffic.received.max * bytes},
                        .bound = {traffic.bound.total * bytes, traffic.bound.max * bytes}});
    }
    return moves;
}

static void raise(Build *b, Traffic *bound, int value) {
    const Graph *g = &b->spmd.graph;
    int root = graph_converted(g, value);
    const Layout *from = g->values.at[root].layout, *to = g->values.at[value].layout;
    if (from == to) return;
    /* the kind only selects the memo: the bound is that of any way */
    Traffic least = convert_traffic(b, COMM_EXCHANGE, from, to, &g->values.at[root].type).bound;
    int64_t bytes = element_bytes(g, root);
    if (least.total * bytes > bound[root].total) bound[root].total = least.total * bytes;
    if (least.max * bytes > bound[root].max) bound[root].max = least.max * bytes;
}

Traffic *stats_bounds(Build *b) {
    const Graph *g = &b->spmd.graph;
    Traffic *bound = arena_alloc(b->arena, sizeof *bound * (size_t)(g->values.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; g->nodes.at[n].op != OP_convert && i < g->nodes.at[n].nin; i++)
            raise(b, bound, g->nodes.at[n].in[i]);
    for (int k = 0; k < graph_nreports(g); k++)
        raise(b, bound, graph_report(g, k));
    return bound;
}

static void count_kinds(Build *b, KindStats kinds[NCOMMS]) {
    Moves moves = stats_moves(b);
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

int64_t stats_sent_bytes(Build *b) {
    KindStats kinds[NCOMMS];
    count_kinds(b, kinds);
    return sum_kinds(kinds).sent;
}

void stats_flops(const Build *b, double *total, double *busiest) {
    *total = *busiest = 0;
    for (int n = 0; n < b->sharded.graph.nodes.n; n++) {
        const Node *node = &b->sharded.graph.nodes.at[n];
        const Strategy *strategy = b->sharded.strategy[n];
        double part = op_table[node->op].flops;
        if (part == 0) continue;
        *total += rule_flops(node->op, node->rule);
        for (int f = 0; f < node->rule->nfactors; f++) {
            int64_t split = strategy_split(strategy, f), size = node->rule->factor[f].size;
            part *= (double)((size + split - 1) / split);
        }
        *busiest += part;
    }
}

static int64_t local_bytes(const TensorType *type, const Layout *layout) {
    return layout_max_elements(layout, &type->shape) * dtype_bytes[type->dtype];
}

Memory stats_memory(const Build *b) {
    Memory memory = {0};
    for (int s = 0; s < b->sharded.graph.states.n; s++) {
        const State *state = &b->sharded.graph.states.at[s];
        memory.states += local_bytes(&state->type, state->layout);
        memory.whole += shape_elements(&state->type.shape) * dtype_bytes[state->type.dtype];
        memory.nparameters += state->trainable;
        memory.parameters += state->trainable ? shape_elements(&state->type.shape) : 0;
    }
    for (int i = 0; i < b->sharded.graph.inputs.n; i++)
        memory.inputs += local_bytes(&b->sharded.graph.inputs.at[i].type, b->sharded.graph.inputs.at[i].layout);
    for (int n = 0; n < b->spmd.graph.nodes.n; n++)
        if (b->spmd.graph.nodes.at[n].op == OP_constant) memory.constants += b->spmd.box_bytes[b->spmd.graph.nodes.at[n].out[0]];
    return memory;
}

/* What all communications let be received, and the least that the values' conversions can; bytes of all ranks. */
typedef struct Totals {
    int64_t sent, received, bound, rank_sent, rank_received, rank_bound;
} Totals;

static Totals count_totals(Build *b) {
    Totals totals = {0};
    Moves moves = stats_moves(b);
    const Traffic *bound = stats_bounds(b);
    for (int i = 0; i < moves.n; i++) {
        totals.sent += moves.at[i].sent.total;
        totals.received += moves.at[i].received.total;
        totals.rank_sent += moves.at[i].sent.max;
        totals.rank_received += moves.at[i].received.max;
    }
    for (int v = 0; v < b->spmd.graph.values.n; v++) {
        totals.bound += bound[v].total;
        totals.rank_bound += bound[v].max;
    }
    return totals;
}

static double ratio_of(int64_t received, int64_t bound) {
    return bound > 0 ? (double)received / (double)bound : 1.0;
}

static const char *layout_of(Build *b, int value) {
    const Value *v = &b->spmd.graph.values.at[value];
    return layout_named(b->arena, &b->sharded.graph, v->layout, v->type.hidden);
}

static void print_moves(Text *text, Build *b) {
    Moves moves = stats_moves(b);
    bool any = false;
    for (int i = 0; i < moves.n; i++) {
        const Move *move = &moves.at[i];
        if (move->kind == COMM_STRIDED_SLICE) continue;
        if (!any) text_printf(text, "each, of all ranks            received      bound         from -> to\n");
        any = true;
        text_printf(text, "  %-14s %-11s  %-12s  %-12s  %s -> %s\n", comm_name[move->kind], b->sharded.graph.values.at[move->value].name,
                    bytes_named(b->arena, move->received.total), bytes_named(b->arena, move->bound.total), layout_of(b, move->from),
                    layout_of(b, move->to));
    }
    Totals totals = count_totals(b);
    text_printf(text, "in all         %s received by all ranks; the values' conversions need at least %s: %.2f x the bound\n",
                bytes_named(b->arena, totals.received), bytes_named(b->arena, totals.bound), ratio_of(totals.received, totals.bound));
}

static void print_communication(Text *text, Build *b) {
    KindStats kinds[NCOMMS];
    count_kinds(b, kinds);
    KindStats sum = sum_kinds(kinds);
    text_printf(text, "communication  count  sent/rank     received/rank  bound\n");
    for (int k = 0; k < NCOMMS; k++)
        if (kinds[k].count > 0)
            text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", comm_name[k], kinds[k].count, bytes_named(b->arena, kinds[k].sent),
                        bytes_named(b->arena, kinds[k].received), bytes_named(b->arena, kinds[k].bound));
    text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", "all", sum.count, bytes_named(b->arena, sum.sent), bytes_named(b->arena, sum.received),
                bytes_named(b->arena, sum.bound));
    print_moves(text, b);
}

static void print_memory(Text *text, const Build *b) {
    Memory memory = stats_memory(b);
    text_printf(text, "parameters     %lld in %d tensors; with the optimizer's slots %s, on a rank %s\n", (long long)memory.parameters,
                memory.nparameters, bytes_named(b->arena, memory.whole), bytes_named(b->arena, memory.states));
    text_printf(text, "memory a rank  %s: arena %s (peak), states %s, inputs %s, constants %s\n",
                bytes_named(b->arena, b->placement.arena_bytes + memory.states + memory.inputs + memory.constants), bytes_named(b->arena, b->placement.arena_bytes),
                bytes_named(b->arena, memory.states), bytes_named(b->arena, memory.inputs), bytes_named(b->arena, memory.constants));
}

void stats_print(Text *text, Compilation *c) {
    Build *train = program_train(c);
    print_communication(text, train);
    print_memory(text, train);
    double total, busiest;
    stats_flops(train, &total, &busiest);
    text_printf(text, "FLOPs a step   %.4g; busiest rank %.4g (%.2f x an even share)\n", total, busiest,
                total > 0 ? busiest * train->front.graph.nranks / total : 1.0);
    if (program_eval(c) != NULL) {
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

static void json_strategies(Json *json, const Build *b) {
    const Graph *g = &b->sharded.graph;
    json_array(json, "strategies");
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node)) continue;
        Text tuple = {0};
        bool said = strategy_print(&tuple, node, g, b->sharded.strategy[n]);
        json_row(json, NULL);
        json_text(json, "name", node->name);
        json_text(json, "op", op_table[node->op].name);
        json_text(json, "from", strategy_from_name[node->from]);
        json_text(json, "strategy", said ? tuple.at : NULL);
        Text layout = {0};
        const Value *result = &g->values.at[node->out[0]];
        layout_print(&layout, b->sharded.made[node->out[0]], result->type.hidden);
        json_text(json, "layout", layout.at);
        json_end(json);
        text_finish(&tuple);
        text_finish(&layout);
    }
    json_end(json);
}

static void json_layout(Json *json, const Build *b, const char *key, int value) {
    const Value *v = &b->spmd.graph.values.at[value];
    Text text = {0};
    layout_print(&text, v->layout, v->type.hidden);
    json_text(json, key, text.at);
    text_finish(&text);
}

static void json_communications(Json *json, Build *b) {
    Moves moves = stats_moves(b);
    json_array(json, "communications");
    for (int i = 0; i < moves.n; i++) {
        const Move *move = &moves.at[i];
        json_row(json, NULL);
        json_text(json, "value", b->sharded.graph.values.at[move->value].name);
        json_text(json, "kind", comm_name[move->kind]);
        json_layout(json, b, "from", move->from);
        json_layout(json, b, "to", move->to);
        json_traffic(json, "sent", move->sent);
        json_traffic(json, "received", move->received);
        json_traffic(json, "bound", move->bound);
        json_int(json, "bucket", move->bucket);
        json_end(json);
    }
    json_end(json);
}

static void json_totals(Json *json, Build *b) {
    KindStats kinds[NCOMMS];
    count_kinds(b, kinds);
    Totals totals = count_totals(b);
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

static void json_figures(Json *json, const Build *b) {
    Memory memory = stats_memory(b);
    double total, busiest;
    stats_flops(b, &total, &busiest);
    json_object(json, "memory");
    json_int(json, "parameters", memory.parameters);
    json_int(json, "parameter_tensors", memory.nparameters);
    json_int(json, "states_whole", memory.whole);
    json_int(json, "states", memory.states);
    json_int(json, "arena", b->placement.arena_bytes);
    json_int(json, "inputs", memory.inputs);
    json_int(json, "constants", memory.constants);
    json_int(json, "rank", b->placement.arena_bytes + memory.states + memory.inputs + memory.constants);
    json_end(json);
    json_object(json, "flops");
    json_real(json, "net", total);
    json_real(json, "rank", busiest);
    json_end(json);
}

void stats_json(Text *text, Compilation *c) {
    Build *train = program_train(c);
    Json json = {.text = text};
    json_object(&json, NULL);
    json_text(&json, "net", train->front.graph.name);
    json_text(&json, "plan", c->options->no_plan ? NULL : c->options->output);
    json_int(&json, "ranks", train->front.graph.nranks);
    json_int(&json, "steps", c->plan.programs.at[0].roles.at[0].steps.n);
    if (program_eval(c) != NULL) {
        const Program *eval = &c->plan.programs.at[plan_find(&c->plan, "eval")];
        json_object(&json, "eval");
        json_int(&json, "steps", eval->roles.at[0].steps.n);
        json_int(&json, "sent", eval->sent_bytes);
        json_int(&json, "arena", eval->roles.at[0].arena_bytes);
        json_end(&json);
    }
    json_strategies(&json, train);
    json_communications(&json, train);
    json_totals(&json, train);
    json_figures(&json, train);
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
    count_kinds(program_train(c), kinds);
    KindStats sum = sum_kinds(kinds);
    const Role *role = &c->plan.programs.at[0].roles.at[0];
    const int nranks = program_train(c)->front.graph.nranks;
    text_printf(text, "%s: %d rank%s, %d steps, %d communication%s, %s/rank/step sent, ", c->options->output, nranks,
                nranks == 1 ? "" : "s", role->steps.n, sum.count, sum.count == 1 ? "" : "s", bytes_named(c->arena, sum.sent));
    if (c->options->prove)
        text_printf(text, "proved in %.1f ms\n", 1e3 * c->proof.seconds);
    else
        text_printf(text, "not proved\n");
}
