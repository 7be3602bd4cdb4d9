/* stats: --stats and the one-line summary. Counts what is in c->order: what runs. */
#include <string.h>

#include "compiler/compiler.h"

typedef struct KindStats {
    int count;
    int64_t sent, received, bound; /* bytes of the busiest rank, summed over the communications */
} KindStats;

static void count_kinds(Compilation *c, KindStats kinds[NCOMMS]) {
    memset(kinds, 0, sizeof *kinds * NCOMMS);
    for (int i = 0; i < c->order.n; i++) {
        const Node *node = &c->spmd.nodes.at[c->order.at[i].node];
        if (node->op != OP_convert || c->order.at[i].wait) continue;
        const Value *from = &c->spmd.values.at[node->in[0]], *to = &c->spmd.values.at[node->out[0]];
        StepTraffic traffic = convert_traffic(c, node->comm, from->layout, to->layout, &from->type);
        int64_t bytes = dtype_bytes[from->type.dtype];
        KindStats *kind = &kinds[node->comm];
        kind->count++;
        kind->sent += traffic.sent.max * bytes;
        kind->received += traffic.received.max * bytes;
        kind->bound += traffic.bound.max * bytes;
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

/* "1.2 KiB" */
static const char *bytes_text(const Compilation *c, int64_t bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    int u = 0;
    for (; size >= 1024 && u < 6; u++)
        size /= 1024;
    return arena_printf(c->arena, u == 0 ? "%.0f %s" : "%.1f %s", size, unit[u]);
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
            int64_t split = 1, size = node->rule->factor[f].size;
            for (int i = 0; node->strategy != NULL && i < node->strategy->factor[f].n; i++)
                split *= node->strategy->factor[f].at[i].size;
            part *= (double)((size + split - 1) / split);
        }
        *busiest += part;
    }
}

static int64_t local_bytes(const TensorType *type, const Layout *layout) {
    return layout_max_elements(layout, &type->shape) * dtype_bytes[type->dtype];
}

static void print_memory(Text *text, const Compilation *c) {
    int64_t states = 0, whole = 0, inputs = 0, constants = 0, parameters = 0;
    int nparameters = 0;
    for (int s = 0; s < c->graph.states.n; s++) {
        const State *state = &c->graph.states.at[s];
        states += local_bytes(&state->type, state->layout);
        whole += shape_elements(&state->type.shape) * dtype_bytes[state->type.dtype];
        nparameters += state->trainable;
        parameters += state->trainable ? shape_elements(&state->type.shape) : 0;
    }
    for (int i = 0; i < c->graph.inputs.n; i++)
        inputs += local_bytes(&c->graph.inputs.at[i].type, c->graph.inputs.at[i].layout);
    for (int n = 0; n < c->spmd.nodes.n; n++)
        if (c->spmd.nodes.at[n].op == OP_constant) constants += c->box_bytes[c->spmd.nodes.at[n].out[0]];
    text_printf(text, "parameters     %lld in %d tensors; with the optimizer's slots %s, on a rank %s\n", (long long)parameters,
                nparameters, bytes_text(c, whole), bytes_text(c, states));
    text_printf(text, "memory a rank  %s: arena %s (peak), states %s, inputs %s, constants %s\n",
                bytes_text(c, c->arena_bytes + states + inputs + constants), bytes_text(c, c->arena_bytes), bytes_text(c, states),
                bytes_text(c, inputs), bytes_text(c, constants));
}

static void print_communication(Text *text, Compilation *c) {
    KindStats kinds[NCOMMS];
    count_kinds(c, kinds);
    KindStats sum = sum_kinds(kinds);
    text_printf(text, "communication  count  sent/rank     received/rank  bound\n");
    for (int k = 0; k < NCOMMS; k++)
        if (kinds[k].count > 0)
            text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", comm_name[k], kinds[k].count, bytes_text(c, kinds[k].sent),
                        bytes_text(c, kinds[k].received), bytes_text(c, kinds[k].bound));
    text_printf(text, "%-14s %5d  %-12s  %-13s  %s\n", "all", sum.count, bytes_text(c, sum.sent), bytes_text(c, sum.received),
                bytes_text(c, sum.bound));
}

void stats_print(Text *text, Compilation *c) {
    print_communication(text, c);
    print_memory(text, c);
    double total, busiest;
    count_flops(c, &total, &busiest);
    text_printf(text, "FLOPs a step   %.4g; busiest rank %.4g (%.2f x an even share)\n", total, busiest,
                total > 0 ? busiest * c->graph.nranks / total : 1.0);
    text_printf(text, "time           %.2f ms, verification between passes %.2f ms\n", 1e3 * c->seconds, 1e3 * c->verify_seconds);
    for (int p = 0; p < c->npasses; p++)
        text_printf(text, "  %-12s %8.3f ms\n", c->pass[p].name, 1e3 * c->pass[p].seconds);
    if (c->options->prove) text_printf(text, "proof          %.3f ms: %s\n", 1e3 * c->proof.seconds, c->proof.certificate);
}

void stats_summary(Text *text, Compilation *c) {
    KindStats kinds[NCOMMS];
    count_kinds(c, kinds);
    KindStats sum = sum_kinds(kinds);
    const Role *role = &c->plan.programs.at[0].roles.at[0];
    text_printf(text, "%s: %d rank%s, %d steps, %d communication%s, %s/rank/step sent, ", c->options->output, c->graph.nranks,
                c->graph.nranks == 1 ? "" : "s", role->steps.n, sum.count, sum.count == 1 ? "" : "s", bytes_text(c, sum.sent));
    if (c->options->prove)
        text_printf(text, "proved in %.1f ms\n", 1e3 * c->proof.seconds);
    else
        text_printf(text, "not proved\n");
}
