/* settings: checks what a plan says twice: the header's optimizer, clipping, schedule, accumulation, gradients, buckets, sources of data and evaluation, each against the graph and
 * the steps made from it. How values are computed is checked by the rest of the proof. */
#include "ir/metric.h"
#include "ir/wildcard.h"
#include "proof/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool differ(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);
static bool differ(Error *error, const char *format, ...) {
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(error, EXIT_REJECTED, "the plan contradicts itself: %s", text);
}

/* ---------------------------------------------------------------- the optimizer */

static const OpCode update_op[NOPTIMIZERS] = {
    [OPTIMIZER_NONE] = OP_write,     [OPTIMIZER_SGD] = OP_sgd,        [OPTIMIZER_MOMENTUM] = OP_momentum,
    [OPTIMIZER_ADAM] = OP_adam,      [OPTIMIZER_ADAMW] = OP_adamw,    [OPTIMIZER_LION] = OP_lion,
    [OPTIMIZER_LAMB] = OP_lamb_step, [OPTIMIZER_LAZY_ADAM] = OP_adam, [OPTIMIZER_ADAFACTOR] = OP_adafactor};
/* The update of a table whose gradient is only that of looking it up: by the rows that occur. */
static OpCode table_update_op(OptimizerKind optimizer) {
    return optimizer == OPTIMIZER_SGD ? OP_embedding_sgd : optimizer == OPTIMIZER_LAZY_ADAM ? OP_lazy_adam : update_op[optimizer];
}

static bool is_update(const Node *node) {
    return op_table[node->op].op_class == OP_CLASS_UPDATE && node->op != OP_write;
}

static bool scheduled(const Settings *settings) {
    return settings->schedule.kind != SCHEDULE_CONSTANT || settings->schedule.warmup > 0;
}

/* The shortest decimal that reads back as the number. */
static const char *shown(char text[32], double number) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    return text;
}

/* The factor by which `scaled` lines change a number of the parameter's update. */
static double scaled(const Settings *settings, ScaleKind kind, const char *parameter) {
    for (int i = settings->scales.n - 1; i >= 0; i--)
        if (settings->scales.at[i].kind == kind && pattern_matches(settings->scales.at[i].path, parameter, NULL))
            return settings->scales.at[i].factor;
    return 1;
}

static bool numbers_agree(const Settings *settings, const char *parameter, const Node *node, Error *error) {
    const struct {
        const char *name;
        double number;
    } said[] = {{"lr", settings->lr * scaled(settings, SCALE_LR, parameter)},
                {"momentum", settings->momentum},
                {"beta1", settings->beta1},
                {"beta2", settings->beta2},
                {"eps", settings->eps},
                {"eps2", settings->eps2},
                {"d", settings->d},
                {"weight_decay", settings->weight_decay * scaled(settings, SCALE_DECAY, parameter)}};
    char header[32], own[32];
    const int nesterov = op_attr(node->op, "nesterov");
    if (nesterov >= 0 && (node->attr[nesterov].i != 0) != settings->nesterov)
        return differ(error, "the header says %snesterov, %s %s", settings->nesterov ? "" : "no ", node->name,
                      settings->nesterov ? "does not look ahead" : "looks ahead");
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        int a = op_attr(node->op, said[i].name);
        if (a >= 0 && node->attr[a].f != said[i].number)
            return differ(error, "the header says %s=%s, %s has %s", said[i].name, shown(header, said[i].number), node->name,
                          shown(own, node->attr[a].f));
        if (op_updates_rows(node->op) && strcmp(said[i].name, "weight_decay") == 0 && said[i].number != 0)
            return differ(error, "the header says weight_decay=%s, %s has none", shown(header, said[i].number), node->name);
    }
    return true;
}

/* Checks that operand k of a node is an input of this kind. */
static bool takes_input(const Graph *graph, const Node *node, int k, InputKind kind, Error *error) {
    const Node *from = k < node->nin ? graph_producer(graph, node->in[k]) : NULL;
    if (from && from->op == OP_input && graph->inputs.at[from->state].kind == kind) return true;
    return differ(error, "%s takes no input of kind=%s as its operand %d", node->name, input_kind_name[kind], k);
}

/* The value that a node writes when gradients are finite. With a loss scale, a `where` chooses between it and the old value
 * (scale_agrees). */
static int written_by(const Graph *graph, const Node *write) {
    const Node *choice = graph_producer(graph, write->in[0]);
    return graph->settings.precision == F16 && choice->op == OP_where ? choice->in[1] : write->in[0];
}

/* The state that a result is written to; -1: none. */
static int written_to(const Graph *graph, int value) {
    for (int i = graph->values.at[value].node + 1; i < graph->nodes.n; i++)
        if (graph->nodes.at[i].op == OP_write && written_by(graph, &graph->nodes.at[i]) == value) return graph->nodes.at[i].state;
    return -1;
}

/* The node that takes a direction, as its operand u; NULL: none. */
static const Node *taker(const Graph *graph, int direction) {
    for (int i = graph->values.at[direction].node + 1; i < graph->nodes.n; i++)
        if (graph->nodes.at[i].op == OP_lamb && graph->nodes.at[i].in[1] == direction) return &graph->nodes.at[i];
    return NULL;
}

/* The state whose old value is operand k and whose new value is result k, or is made from result k if that is LAMB's direction; -1:
 * none. */
static int updated_state(const Graph *graph, const Node *node, int k) {
    const Node *read = graph_producer(graph, node->in[k]), *last = node->op == OP_lamb_step && k == 0 ? taker(graph, node->out[0]) : node;
    return read->op == OP_read && last && last->in[k] == node->in[k] && written_to(graph, last->out[k]) == read->state ? read->state : -1;
}

/* Whether `value` is the sum of the squares of `of`. */
static bool is_squares(const Graph *graph, int value, int of) {
    const Node *node = graph_producer(graph, value);
    return node->op == OP_sum_squares && node->in[0] == of;
}

/* Checks the second half of LAMB: it takes the direction that its first half makes, and both norms. */
static bool lamb_agrees(const Graph *graph, const Node *node, Error *error) {
    const Node *first = graph_producer(graph, node->in[1]);
    if (first->op != OP_lamb_step || first->in[0] != node->in[0] || first->out[0] != node->in[1] || taker(graph, node->in[1]) != node)
        return differ(error, "%s takes no direction of its own", node->name);
    if (!is_squares(graph, node->in[2], node->in[0]) || !is_squares(graph, node->in[3], node->in[1]))
        return differ(error, "%s takes other norms than those of its parameter and direction", node->name);
    const int state = updated_state(graph, first, 0);
    if (state >= 0 && !numbers_agree(&graph->settings, graph->states.at[state].name, node, error)) return false;
    if (scheduled(&graph->settings)) return takes_input(graph, node, 4, INPUT_RATE, error);
    return node->nin == 4 || differ(error, "the header has no schedule, %s takes a rate", node->name);
}

static bool is_number(const Graph *graph, int value, double number) {
    const Node *node = graph_producer(graph, value);
    return node->op == OP_constant && node->data == NULL && node->attr[op_attr(OP_constant, "value")].f == number;
}

/* Whether a value is the number of the update. With a loss scale not every step makes an update, so a state counts them. */
static bool is_count(const Graph *graph, int value) {
    const Node *node = graph_producer(graph, value);
    if (graph->settings.precision != F16) return node->op == OP_input && graph->inputs.at[node->state].kind == INPUT_UPDATE;
    if (node->op == OP_cast) node = graph_producer(graph, node->in[0]);
    const Node *read = node->op == OP_add ? graph_producer(graph, node->in[0]) : node;
    return read->op == OP_read && read->version == 0 && read != node && is_number(graph, node->in[1], 1) &&
           written_to(graph, node->out[0]) == read->state;
}

/* Checks one update: it is the header's optimizer with its numbers, and takes a trained parameter and its own slots. taken: per state, the
 * updates that take it. */
static bool update_agrees(const Graph *graph, const Node *node, int *taken, Error *error) {
    const Settings *settings = &graph->settings;
    if (node->op == OP_lamb) return lamb_agrees(graph, node, error);
    if (node->op != update_op[settings->optimizer] && node->op != table_update_op(settings->optimizer))
        return differ(error, "the header says optimizer=%s, %s is made by %s",
                      settings->optimizer == OPTIMIZER_NONE ? "none" : op_table[update_op[settings->optimizer]].name, node->name,
                      op_table[node->op].name);
    int parameter = -1;
    for (int k = 0; k < node->nout; k++) {
        int state = updated_state(graph, node, k);
        if (state < 0) return differ(error, "%s updates no state with its operand %d", node->name, k);
        const State *s = &graph->states.at[state];
        if (k == 0 && (!s->trainable || s->parameter != state))
            return differ(error, "%s updates state %s, which is not trainable", node->name, s->name);
        if (k == 0) parameter = state;
        if (s->parameter != parameter)
            return differ(error, "%s updates state %s and takes %s, which says parameter=%d", node->name, graph->states.at[parameter].name,
                          s->name, s->parameter);
        taken[state]++;
    }
    if (!numbers_agree(settings, graph->states.at[parameter].name, node, error)) return false;
    if (node->op == OP_adafactor && (!is_squares(graph, node->in[2], node->in[0]) || !is_squares(graph, node->in[3], node->in[1])))
        return differ(error, "%s takes other norms than those of its parameter and direction", node->name);
    const int counts = op_in(node->op, "update");
    if (counts >= 0 && settings->precision != F16 && !takes_input(graph, node, counts, INPUT_UPDATE, error)) return false;
    if (counts >= 0 && !is_count(graph, node->in[counts]))
        return differ(error, "%s takes no number of the updates that were made as its operand %d", node->name, counts);
    int next = counts >= 0 ? counts + 1 : op_in(node->op, op_in(node->op, "index") < 0 ? "g" : "index") + 1;
    if (scheduled(settings) && node->op != OP_lamb_step && !takes_input(graph, node, next++, INPUT_RATE, error)) return false;
    return next == node->nin || differ(error, "the header has no schedule, %s takes a rate", node->name);
}

/* Whether a slot that no update writes moves towards a value by a share: (to - slot) * share + slot. */
static bool moves(const Graph *graph, int slot, int *to, int *share) {
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *write = &graph->nodes.at[i];
        if (write->op != OP_write || write->state != slot) continue;
        const Node *add = graph_producer(graph, written_by(graph, write)),
                   *mul = add->op == OP_add ? graph_producer(graph, add->in[0]) : NULL;
        const Node *way = mul && mul->op == OP_mul ? graph_producer(graph, mul->in[0]) : NULL;
        if (!way || way->op != OP_sub || way->in[1] != add->in[1]) return false;
        const Node *read = graph_producer(graph, add->in[1]);
        *to = way->in[0];
        *share = mul->in[1];
        return read->op == OP_read && read->state == slot;
    }
    return false;
}

/* Whether a slot is the average of a parameter's new values: it takes the whole value at the first update, then the header's share. */
static bool is_average(const Graph *graph, int slot) {
    int to, share;
    if (!graph->settings.ema || !moves(graph, slot, &to, &share)) return false;
    const Node *which = graph_producer(graph, share), *less = which->op == OP_where ? graph_producer(graph, which->in[0]) : NULL;
    return less && less->op == OP_less && is_count(graph, less->in[0]) && is_number(graph, less->in[1], 1.5) &&
           is_number(graph, which->in[1], 1) && is_number(graph, which->in[2], 1 - graph->settings.ema_decay) &&
           written_to(graph, to) == graph->states.at[slot].parameter;
}

/* Whether a slot is adafactor's estimate: of the gradient's squares, or of their means. */
static bool is_estimate(const Graph *graph, int slot) {
    int to, share;
    if (graph->settings.optimizer != OPTIMIZER_ADAFACTOR || !moves(graph, slot, &to, &share)) return false;
    const Node *power = graph_producer(graph, share), *squares = graph_producer(graph, to);
    if (squares->op == OP_mean) squares = graph_producer(graph, squares->in[0]);
    return squares->op == OP_square && power->op == OP_pow && is_count(graph, power->in[0]) &&
           is_number(graph, power->in[1], graph->settings.beta2_decay);
}

/* Whether a slot has its parameter's type; dimensions over which means are taken have size 1. */
static bool slot_fits(const State *slot, const State *of, bool narrow) {
    bool fits = slot->type.dtype == of->type.dtype && slot->type.shape.ndim == of->type.shape.ndim;
    for (int d = 0; fits && d < of->type.shape.ndim; d++)
        fits = slot->type.shape.dim[d] == of->type.shape.dim[d] || (narrow && slot->type.shape.dim[d] == 1);
    return fits && !slot->trainable;
}

static bool slot_agrees(const Graph *graph, int slot, bool taken, Error *error) {
    const State *state = &graph->states.at[slot], *of = &graph->states.at[state->parameter];
    const bool average = !taken && is_average(graph, slot), estimate = !taken && !average && is_estimate(graph, slot);
    if (!taken && !average && !estimate)
        return differ(error, "state %s says parameter=%d, whose update does not take it", state->name, state->parameter);
    if (average != (state_is_average(graph, slot)))
        return differ(error, "state %s %s an average of %s", state->name, average ? "is named as no" : "is not", of->name);
    if (!slot_fits(state, of, estimate) || (!average && state->init.kind != INIT_ZEROS))
        return differ(error, "state %s says parameter=%d, and does not begin at zero with the type of %s", state->name, state->parameter,
                      of->name);
    return true;
}

static bool updates_agree(const Graph *graph, Error *error) {
    int *taken = calloc((size_t)graph->states.n + 1, sizeof *taken);
    bool ok = taken || error_set(error, EXIT_ENVIRONMENT, "out of memory in the proof");
    for (int i = 0; ok && i < graph->nodes.n; i++)
        ok = !is_update(&graph->nodes.at[i]) || update_agrees(graph, &graph->nodes.at[i], taken, error);
    for (int s = 0; ok && s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        if (taken[s] > 1) ok = differ(error, "state %s is updated %d times", state->name, taken[s]);
        if (ok && state->trainable && state->written) ok = differ(error, "state %s is trained and says written", state->name);
        if (state->parameter == s) continue;
        ok = ok && slot_agrees(graph, s, taken[s] > 0, error);
    }
    for (int s = 0; ok && graph->settings.ema && s < graph->states.n; s++)
        if (taken[s] > 0 && graph->states.at[s].trainable && state_average(graph, s) < 0)
            ok = differ(error, "the header says ema, state %s has no average", graph->states.at[s].name);
    free(taken);
    return ok;
}

/* ---------------------------------------------------------------- norms of gradients */

/* Counts the gradients whose squares are in a sum, and removes them from `left`; false: the sum has other terms. */
static bool squares_in(const Graph *graph, int value, int *left, int *n) {
    const Node *node = graph_producer(graph, value);
    while (node->op == OP_cast)
        node = graph_producer(graph, node->in[0]);
    if (node->op == OP_sum_squares) {
        (*n)++;
        return left[node->in[0]]-- > 0;
    }
    return node->op == OP_add && squares_in(graph, node->in[0], left, n) && squares_in(graph, node->in[1], left, n);
}

/* Whether a value is the sum of the squares of n gradients; gradients: per value, how often it is one of them. */
static bool sums_squares(const Graph *graph, int value, const int *gradients, int n) {
    const size_t bytes = ((size_t)graph->values.n + 1) * sizeof *gradients;
    int *left = malloc(bytes), found = 0;
    if (left) memcpy(left, gradients, bytes);
    const bool is = left && squares_in(graph, value, left, &found) && found == n;
    free(left);
    return is;
}

/* The value that an update, or its first step, takes as the gradient; -1: it takes a direction that another node made from it. */
static int gradient_of(const Graph *graph, const Node *node) {
    const Node *direction = node->op == OP_adafactor ? graph_producer(graph, node->in[1]) : NULL;
    if (direction) return direction->in[0];
    return op_in(node->op, "g") >= 0 ? node->in[op_in(node->op, "g")] : -1;
}

/* Checks that gradients are clipped as the header says, and that the norm is of exactly these gradients. Counts them, in all and by their
 * values before clipping. */
static bool clips_agree(const Graph *graph, int *gradients, int *n, Error *error) {
    const double clip = graph->settings.clip;
    char header[32], own[32];
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        const int gradient = is_update(node) ? gradient_of(graph, node) : -1;
        if (node->op == OP_clip && node->attr[op_attr(OP_clip, "norm")].f != clip)
            return differ(error, "the header says clip=%s, %s has norm %s", shown(header, clip), node->name,
                          shown(own, node->attr[op_attr(OP_clip, "norm")].f));
        if (gradient < 0) continue;
        const Node *maker = graph_producer(graph, gradient);
        if (clip > 0 && maker->op != OP_clip)
            return differ(error, "the header says clip=%s, the gradient of %s is not clipped", shown(header, clip), node->name);
        gradients[maker->op == OP_clip ? maker->in[0] : gradient]++;
        (*n)++;
    }
    return true;
}

/* Whether a value tests that the squares of all n gradients are finite: that their sum times 0 is 0. */
static bool is_finite(const Graph *graph, int value, const int *gradients, int n) {
    const Node *equal = graph_producer(graph, value), *product = equal->op == OP_equal ? graph_producer(graph, equal->in[0]) : equal;
    return product->op == OP_mul && is_number(graph, product->in[1], 0) && is_number(graph, equal->in[1], 0) &&
           sums_squares(graph, product->in[0], gradients, n);
}

/* precision=f16: checks that trained states and their slots get new values where all gradients are finite, and else keep the old ones. */
static bool scale_agrees(const Graph *graph, const int *gradients, int n, Error *error) {
    int checked = -1; /* the condition */
    for (int i = 0; i < graph->nodes.n && graph->settings.precision == F16; i++) {
        const Node *write = &graph->nodes.at[i], *choice = write->op == OP_write ? graph_producer(graph, write->in[0]) : NULL;
        if (!choice || (!graph->states.at[write->state].trainable && graph->states.at[write->state].parameter == write->state)) continue;
        const Node *old = choice->op == OP_where ? graph_producer(graph, choice->in[2]) : choice;
        if (old->op != OP_read || old->state != write->state || old->version != 0 ||
            (choice->in[0] != checked && !is_finite(graph, choice->in[0], gradients, n)))
            return differ(error, "the header says precision=f16, state %s is written where a gradient is infinite too",
                          graph->states.at[write->state].name);
        checked = choice->in[0];
    }
    return true;
}

static bool norms_agree(const Graph *graph, Error *error) {
    const int norm = graph_find_report(graph, "grad_norm"), replicas = graph_find_report(graph, "replica_norm2");
    int all = 0, checked = -1;
    int *gradients = calloc((size_t)graph->values.n + 1, sizeof *gradients);
    bool ok = (gradients || error_set(error, EXIT_ENVIRONMENT, "out of memory in the proof")) && clips_agree(graph, gradients, &all, error);
    for (int i = 0; ok && i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        if (node->op != OP_clip || node->in[1] == checked) continue;
        checked = node->in[1];
        ok = sums_squares(graph, checked, gradients, all) ||
             differ(error, "%s is clipped by another norm than that of all %d gradients", node->name, all);
    }
    const Node *root = ok && norm >= 0 ? graph_producer(graph, graph->reports.at[norm].value) : NULL;
    if (root && (root->op != OP_sqrt || !sums_squares(graph, root->in[0], gradients, all)))
        ok = differ(error, "grad_norm is another norm than that of all %d gradients", all);
    ok = ok && scale_agrees(graph, gradients, all, error);
    /* The replicas' own gradients stand in for their sums, which may be compressed. */
    for (int v = graph->values.n - 1; ok && replicas >= 0 && v >= 0; v--) {
        const Node *maker = graph_producer(graph, v);
        if (gradients[v] > 0 && (maker->op == OP_replica_sum || maker->op == OP_cast || maker->op == OP_compress))
            gradients[maker->in[0]] += gradients[v];
    }
    root = ok && replicas >= 0 ? graph_producer(graph, graph->reports.at[replicas].value) : NULL;
    if (root && (root->op != OP_replica_sum || !sums_squares(graph, root->in[0], gradients, all)))
        ok = differ(error, "replica_norm2 is of other squares than those of the replicas' %d gradients", all);
    free(gradients);
    return ok;
}

/* ---------------------------------------------------------------- the batches of a step, replicas, the forward part */

static bool has_node(const Graph *graph, int input) {
    for (int i = 0; i < graph->nodes.n; i++)
        if (graph->nodes.at[i].op == OP_input && graph->nodes.at[i].state == input) return true;
    return false;
}

/* accumulate=k: checks that each used input exists k times, and that the loss is the mean over these. */
static bool batches_agree(const Graph *graph, Error *error) {
    const int64_t k = settings_batches(&graph->settings);
    bool several = false;
    for (int i = 0; i < graph->inputs.n; i++)
        several = several || graph->inputs.at[i].micro > 0;
    if (!several) return true; /* also where the loss depends on no input: its gradient is that of one batch */
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        int64_t n = 1;
        if (input->micro > 0 || !input_is_taken(input->kind) || !has_node(graph, i)) continue;
        for (int other = i + 1; other < graph->inputs.n; other++) {
            if (graph->inputs.at[other].micro == 0 || graph->inputs.at[other].of != i) continue;
            if (graph->inputs.at[other].micro != n++)
                return differ(error, "input %s is batch %d of its step, the next is %" PRId64, graph->inputs.at[other].name,
                              graph->inputs.at[other].micro, n - 1);
        }
        if (n != k) return differ(error, "the header says accumulate=%" PRId64 ", of input %s there are %" PRId64, k, input->name, n);
    }
    const Node *mean = graph->loss >= 0 ? graph_producer(graph, graph->loss) : NULL;
    for (int i = 0; mean && mean->op == OP_mul && i < mean->nin; i++) {
        const Node *share = graph_producer(graph, mean->in[i]);
        if (share->op == OP_constant && !share->data && share->attr[op_attr(OP_constant, "value")].f == 1.0 / (double)k) return true;
    }
    return !mean || differ(error, "the header says accumulate=%" PRId64 ", the loss is not the mean of so many", k);
}

static bool replicas_agree(const Graph *graph, Error *error) {
    const Settings *settings = &graph->settings;
    if (settings->mode == MODE_STAND_ALONE && graph->nranks > 1)
        return differ(error, "the header says mode=stand_alone and ranks %d", graph->nranks);
    if (mode_hides(settings->mode) && graph->replicas < graph->nranks)
        return differ(error, "the header says mode=%s, ranks %d and replicas %d", mode_name[settings->mode], graph->nranks,
                      graph->replicas);
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        if (node->op != OP_replicate && node->op != OP_replica_sum) continue;
        const Attr *mean = &node->attr[op_attr(node->op, "mean")];
        if ((mean->i != 0) != settings->gradients_mean)
            return differ(error, "the header says gradients=%s, %s %s", settings->gradients_mean ? "mean" : "sum", node->name,
                          mean->i ? "averages" : "adds up");
    }
    return true;
}

/* Checks forward=N against the nodes: those that the loss needs come before it, gradients and updates after it. */
static bool forward_agrees(const Graph *graph, Error *error) {
    bool *needed = calloc((size_t)graph->nodes.n + 1, sizeof *needed),
         ok = needed || error_set(error, EXIT_ENVIRONMENT, "out of memory in the proof");
    const bool one_batch = graph->settings.accumulate < 2;
    if (ok && graph->loss >= 0 && one_batch) needed[graph->values.at[graph->loss].node] = true;
    for (int i = graph->nodes.n - 1; ok && i >= 0; i--) {
        const Node *node = &graph->nodes.at[i];
        bool behind = i >= graph->nforward;
        for (int k = 0; needed[i] && k < node->nin; k++)
            needed[graph->values.at[node->in[k]].node] = true;
        if (needed[i] && behind)
            ok = differ(error, "it says forward=%d, node %d (%s) is one that the loss needs", graph->nforward, i, node->name);
        else if (!behind && (node->origin != i || op_table[node->op].op_class == OP_CLASS_UPDATE))
            ok = differ(error, "it says forward=%d, node %d (%s) is of the gradients or an update", graph->nforward, i,
                        node->name ? node->name : "");
        else if (node->origin != i && node->origin >= graph->nforward)
            ok = differ(error, "it says forward=%d, node %d (%s) says origin=%d", graph->nforward, i, node->name, node->origin);
    }
    free(needed);
    return ok;
}

/* ---------------------------------------------------------------- sources of data, the mesh, what only people read */

static bool data_agrees(const Graph *graph, Error *error) {
    const DataKind data = graph->settings.data;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->file.format != FILE_NONE && data != DATA_FILES)
            return differ(error, "input %s names a file, and the data is not from files", input->name);
        if (input->per_rank && data != DATA_PER_RANK)
            return differ(error, "input %s has per_rank data, and the data is another", input->name);
    }
    return true;
}

/* The last axis varies fastest; ranks left over are a faster digit after it. */
static bool mesh_agrees(const Graph *graph, Error *error) {
    const Settings *settings = &graph->settings;
    int64_t stride = settings->mesh.n > 0 ? settings->mesh.at[settings->mesh.n - 1].digit.stride : graph->nranks;
    for (int i = settings->mesh.n - 1; i >= 0; i--) {
        const Axis *axis = &settings->mesh.at[i];
        if (axis->digit.stride != stride)
            return differ(error, "mesh axis %s is %d@%d, the axes behind it have %" PRId64 " ranks", axis->name, (int)axis->digit.size,
                          (int)axis->digit.stride, stride);
        stride *= axis->digit.size;
    }
    if (stride != graph->nranks) return differ(error, "the mesh has %" PRId64 " ranks, the header says ranks %d", stride, graph->nranks);
    return true;
}

/* Checks the word after a key in `options` against the header. */
static bool option_agrees(const char *options, const char *key, const char *said, Error *error) {
    const char *at = strstr(options, key);
    if (!at || (at > options && at[-1] != ' ')) return true;
    at += strlen(key);
    size_t n = strcspn(at, " ");
    if (n == strlen(said) && strncmp(at, said, n) == 0) return true;
    return differ(error, "its options say %s%.*s, the header %s%s", key, (int)(n < 60 ? n : 60), at, key, said);
}

static bool header_agrees(const Plan *plan, Error *error) {
    const Settings *settings = &plan->graph.settings;
    if (!option_agrees(plan->options, "mode=", mode_name[settings->mode], error) ||
        !option_agrees(plan->options, "search=", settings->search, error))
        return false;
    if (settings->log && settings->log[0] && settings->log_rank >= plan->graph.nranks)
        return differ(error, "the losses of rank %" PRId64 " are printed, the header says ranks %d", settings->log_rank,
                      plan->graph.nranks);
    return mesh_agrees(&plan->graph, error);
}

/* ---------------------------------------------------------------- programs: their names, reports, buckets */

/* A step of training can report norms of its gradients (norms_agree), on every rank. */
static bool step_agrees(const Graph *graph, Error *error) {
    static const char *const known[] = {"penalty", "grad_norm", "replica_norm2"};
    enum { NKNOWN = sizeof known / sizeof *known };
    int k = 0;
    for (int i = 0; i < graph->reports.n; i++, k++) {
        const Report *report = &graph->reports.at[i];
        while (k < NKNOWN && strcmp(report->name, known[k]) != 0)
            k++;
        if (k == NKNOWN) return differ(error, "a training reports %.60s", report->name);
        if (!report->whole) return differ(error, "the report %s is not whole on every rank", report->name);
    }
    return true;
}

/* Checks what an evaluation reports, each once: numbers on every rank, the prediction in any layout. */
static bool reports_agree(const Graph *graph, bool evaluates, Error *error) {
    enum { ROWS = NMETRICS, PREDICTION, NKNOWN };
    bool seen[NKNOWN] = {false};
    if (!evaluates) return step_agrees(graph, error);
    for (int i = 0; i < graph->reports.n; i++) {
        const Report *report = &graph->reports.at[i];
        int k = metric_of(report->name);
        while (k >= ROWS && k < NKNOWN && strcmp(k == ROWS ? "rows" : "prediction", report->name) != 0)
            k++;
        if (k == NKNOWN) return differ(error, "an evaluation reports rows, metrics and a prediction, not %.60s", report->name);
        if (seen[k]) return differ(error, "the report %s is there a second time", report->name);
        seen[k] = true;
        const TensorType *type = &graph->values.at[report->value].type;
        const int ndim = type->shape.ndim - type->hidden;
        if (report->whole != (k != PREDICTION))
            return differ(error, "the report %s is %s", report->name,
                          report->whole ? "whole, where it is left as it lies" : "not whole on every rank");
        if (k != PREDICTION && ndim != (k < NMETRICS ? metric_ndim((Metric)k) : 0))
            return differ(error, "the report %s has %d dimensions", report->name, ndim);
        if (ndim == 1 && k < NMETRICS && (type->shape.dim[type->hidden] % 3 != 0 || type->shape.dim[type->hidden] < 6))
            return differ(error, "the report %s does not count hits, answers and rows of two classes or more", report->name);
        if (ndim == 2 && k < NMETRICS && type->shape.dim[type->hidden + 1] != 3)
            return differ(error, "the report %s is no score, class and weight of each row", report->name);
    }
    return graph->loss < 0 || seen[ROWS] || differ(error, "an evaluation does not report its rows");
}

/* Checks that the inputs are `count` tokens and, if there are any, as many places. */
static bool text_agrees(const Graph *graph, int64_t count, Error *error) {
    int ntokens = 0, nplaces = 0;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        ntokens += input->kind == INPUT_TOKEN;
        nplaces += input->kind == INPUT_PLACE;
        if (!input_is_text(input->kind) || shape_elements(&input->type.shape) != count ||
            (input->type.dtype != I32 && input->type.dtype != I64))
            return differ(error, "input %.60s is neither a token nor a place", input->name);
    }
    return (ntokens == 1 && nplaces <= 1) || differ(error, "a program that generates has %d tokens and %d places", ntokens, nplaces);
}

/* Checks that a program that generates reports the logits of one place, whole on every rank. */
static bool generate_agrees(const Graph *graph, Error *error) {
    const Report *report = graph->reports.n == 1 ? &graph->reports.at[0] : NULL;
    if (graph->loss >= 0 || !report || strcmp(report->name, "logits") != 0 || !report->whole)
        return differ(error, "a program that generates reports its logits, whole on every rank, and nothing else");
    const TensorType *type = &graph->values.at[report->value].type;
    const int64_t tokens = type->shape.ndim > 0 ? type->shape.dim[type->shape.ndim - 1] : 0;
    if (!dtype_is_float(type->dtype) || shape_elements(&type->shape) != tokens)
        return differ(error, "the logits are not a real number for each token");
    if (graph->settings.end >= tokens) return differ(error, "the end is token %" PRId64 " of %" PRId64, graph->settings.end, tokens);
    return text_agrees(graph, 1, error);
}

/* Checks that a program for prompts takes several places of generate's texts, and reports nothing. */
static bool prompt_agrees(const Graph *graph, const Graph *generate, Error *error) {
    const Input *places = NULL, *of = NULL;
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == INPUT_PLACE) places = &graph->inputs.at[i];
    for (int i = 0; i < generate->inputs.n; i++)
        if (generate->inputs.at[i].kind == INPUT_PLACE) of = &generate->inputs.at[i];
    if (graph->loss >= 0 || graph->reports.n > 0) return differ(error, "a program for prompts reports nothing");
    if (!places || !of || places->index.begin != of->index.begin || places->index.end != of->index.end)
        return differ(error, "a program for prompts and the one that generates are of other texts");
    const int64_t count = shape_elements(&places->type.shape);
    if (count < 2 || count > places->index.end - places->index.begin)
        return differ(error, "a program for prompts takes %" PRId64 " places of %" PRId64, count, places->index.end - places->index.begin);
    return text_agrees(graph, count, error);
}

static bool eval_agrees(const Graph *graph, Error *error) {
    const Settings *settings = &graph->settings;
    if (settings->data == DATA_FILES && settings->steps > 0)
        return differ(error, "the eval says steps=%" PRId64 ", and its data is files, which are read to their end (steps=0)",
                      settings->steps);
    if (settings->data != DATA_FILES && settings->steps == 0 && graph->inputs.n > 0)
        return differ(error, "the eval says steps=0, as many batches as its data has, and its data has no end");
    return true;
}

/* Checks the limit `bucket`: without its largest gradient, a bucket is below it. */
static bool buckets_agree(const Plan *plan, const Program *program, Error *error) {
    const Graph *graph = &plan->graph;
    for (int r = 0; r < program->roles.n; r++) {
        const Role *role = &program->roles.at[r];
        int64_t sum = 0, most = 0;
        int bucket = 0, members = 0;
        for (int s = 0; s <= role->steps.n; s++) {
            const Step *step = s < role->steps.n ? &role->steps.at[s] : NULL;
            if (step && step->kind != STEP_START && bucket > 0 && members > 0 && step->kind == STEP_WAIT && step->bucket == bucket)
                continue;
            int next = step && step->kind == STEP_START ? step->bucket : 0;
            if (next != bucket || !step) {
                if (members > 1 && sum - most >= graph->settings.bucket_bytes)
                    return differ(error, "the header says bucket=%" PRId64 ", bucket %d has %" PRId64 " bytes before its last gradient",
                                  graph->settings.bucket_bytes, bucket, sum - most);
                sum = most = members = 0;
                bucket = next;
            }
            if (bucket == 0 || !step || step->kind != STEP_START) continue;
            int64_t bytes = 0;
            for (int side = 0; side < 2; side++) {
                const Instance *at = &role->instances.at[side ? step->out[0] : step->in[0]];
                const TensorType *type = &graph->values.at[at->value].type;
                int64_t own = own_max_elements(at->layout, &type->shape) * dtype_bytes[type->dtype];
                if (own > bytes) bytes = own;
            }
            sum += bytes;
            if (bytes > most) most = bytes;
            members++;
        }
    }
    return true;
}

/* Checks that a program for shorter texts takes the inputs of the program for the longest texts, with the same rows, but shorter: prun
 * gives it the beginnings of the other's inputs. */
static bool shorter_agrees(const Program *program, const Graph *graph, const Graph *longest, Error *error) {
    bool shorter = false;
    if (graph->inputs.n != longest->inputs.n || graph->reports.n != longest->reports.n || (graph->loss < 0) != (longest->loss < 0))
        return differ(error, "program %.60s takes other inputs, or gives other results, than the program before it", program->name);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *own = &graph->inputs.at[i], *of = &longest->inputs.at[i];
        const int rows = own->type.hidden + 1; /* the leading dimensions that belong to the batch */
        bool same = strcmp(own->name, of->name) == 0 && own->kind == of->kind && own->type.dtype == of->type.dtype &&
                    own->type.hidden == of->type.hidden && own->type.shape.ndim == of->type.shape.ndim && own->micro == of->micro &&
                    own->of == of->of && own->row_dim == of->row_dim;
        for (int d = 0; same && d < own->type.shape.ndim; d++) {
            const int64_t less = of->type.shape.dim[d] - own->type.shape.dim[d];
            same = less == 0 || (less > 0 && (d >= rows || own->kind == INPUT_RANDOM));
            shorter = shorter || less > 0;
        }
        if (!same)
            return differ(error, "program %.60s takes input %.60s as another than the program before it, of other rows or longer",
                          program->name, own->name);
    }
    for (int i = 0; i < graph->reports.n; i++) {
        const Report *own = &graph->reports.at[i], *of = &longest->reports.at[i];
        if (strcmp(own->name, of->name) != 0 || !type_equal(&graph->values.at[own->value].type, &longest->values.at[of->value].type))
            return differ(error, "program %.60s reports %.60s otherwise than the program before it", program->name, own->name);
    }
    return shorter || differ(error, "program %.60s is for no shorter texts than the program before it", program->name);
}

/* "eval", or "eval_32" of a program for shorter texts; only train has the plan's own graph. */
static bool name_agrees(const Program *program, Error *error) {
    static const char *const does[] = {"trains", "evaluates", "generates", "reads a prompt"};
    const char *kind = program_kind_name[program->kind];
    const size_t n = strlen(kind);
    const bool own = strncmp(program->name, kind, n) == 0;
    if (!own || (program->shorter ? program->name[n] != '_' : program->name[n] != '\0'))
        return differ(error, "program %.60s is one that %s: its name is %s%s", program->name, does[program->kind], kind,
                      program->shorter ? "_ and a length" : "");
    return (program->graph == NULL) == (program->kind == PROGRAM_TRAIN && !program->shorter) ||
           differ(error, "program %.60s has %s graph", program->name, program->graph ? "its own" : "the plan's");
}

/* before: the graph of the program before it, or of the one for the longest texts. */
static bool program_agrees(const Plan *plan, const Program *program, const Graph *before, Error *error) {
    const Graph *graph = &plan->graph;
    if (!name_agrees(program, error) || !replicas_agree(graph, error) || !forward_agrees(graph, error) ||
        !buckets_agree(plan, program, error))
        return false;
    if (program->shorter && !shorter_agrees(program, graph, before, error)) return false;
    switch (program->kind) {
    case PROGRAM_TRAIN:
        return data_agrees(graph, error) && reports_agree(graph, false, error) && updates_agree(graph, error) &&
               norms_agree(graph, error) && batches_agree(graph, error);
    case PROGRAM_EVAL:
        return data_agrees(graph, error) && reports_agree(graph, true, error) && eval_agrees(graph, error);
    case PROGRAM_GENERATE:
        return generate_agrees(graph, error);
    case PROGRAM_PROMPT:
        return prompt_agrees(graph, before, error);
    }
    return true;
}

bool settings_check(const Plan *plan, Error *error) {
    Plan before = *plan;
    if (!header_agrees(plan, error)) return false;
    for (int p = 0; p < plan->programs.n; p++) {
        const Plan part = plan_part(plan, p);
        if (!program_agrees(&part, &plan->programs.at[p], &before.graph, error)) return false;
        if (!plan->programs.at[p].shorter) before = part;
    }
    return true;
}
