/* A net's text and its types. */
#include <inttypes.h>
#include <string.h>

#include "tests/nets/net.h"

/* ---------------------------------------------------------------- types */

bool fuzz_infer(FuzzNet *net) {
    for (int i = 0; i < net->items.n; i++) {
        FuzzItem *item = &net->items.at[i];
        if (item->kind != FUZZ_OP) continue;
        TensorType in[MAX_IN];
        Rule rule;
        for (int k = 0; k < item->nin; k++) {
            if (item->in[k] % MAX_OUT >= net->items.at[item->in[k] / MAX_OUT].nout) return false;
            in[k] = *fuzz_type(net, item->in[k]);
        }
        if (!rule_infer(item->op, in, item->nin, item->attr, &rule, NULL)) return false;
        item->nout = rule.nout;
        memcpy(item->type, rule.result, sizeof item->type);
    }
    const FuzzItem *loss = &net->items.at[net->loss / MAX_OUT];
    return loss->kind == FUZZ_OP && net->loss % MAX_OUT < loss->nout && fuzz_type(net, net->loss)->shape.ndim == 0;
}

void fuzz_prune(FuzzNet *net, Arena *arena) {
    int n = net->items.n, *number = arena_alloc(arena, (size_t)n * sizeof *number);
    bool *used = arena_alloc(arena, (size_t)n * sizeof *used);
    used[net->loss / MAX_OUT] = true;
    if (net->unused >= 0) used[net->unused / MAX_OUT] = true;
    for (int i = n - 1; i >= 0; i--)
        for (int k = 0; used[i] && k < net->items.at[i].nin; k++)
            used[net->items.at[i].in[k] / MAX_OUT] = true;
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (!used[i]) continue;
        FuzzItem item = net->items.at[i];
        for (int k = 0; k < item.nin; k++)
            item.in[k] = number[item.in[k] / MAX_OUT] * MAX_OUT + item.in[k] % MAX_OUT;
        number[i] = left;
        net->items.at[left++] = item;
    }
    net->loss = number[net->loss / MAX_OUT] * MAX_OUT + net->loss % MAX_OUT;
    if (net->unused >= 0) net->unused = number[net->unused / MAX_OUT] * MAX_OUT;
    if (net->kept >= 0) net->kept = used[net->kept / MAX_OUT] ? number[net->kept / MAX_OUT] * MAX_OUT : -1;
    net->items.n = left;
}

/* ---------------------------------------------------------------- text */

static void put_name(Text *text, const FuzzNet *net, int value) {
    static const char letter[] = {[FUZZ_INPUT] = 'x', [FUZZ_PARAM] = 'w', [FUZZ_CONST] = 'c', [FUZZ_OP] = 'v'};
    const FuzzItem *item = &net->items.at[value / MAX_OUT];
    if (item->kind == FUZZ_NUMBER)
        text_printf(text, "%g", item->number);
    else
        text_printf(text, "%c%d", letter[item->kind], value / MAX_OUT);
    if (item->nout > 1) text_printf(text, "_%d", value % MAX_OUT);
}

static void put_tuple(Text *text, const HintTuple *tuple, bool named) {
    text_printf(text, "(");
    for (int d = 0; d < tuple->ndim; d++) {
        const HintDim *dim = &tuple->dim[d];
        text_printf(text, "%s", d ? ", " : "");
        for (int a = 0; named && a < dim->naxes; a++)
            text_printf(text, "%s%s", a ? "." : "", dim->axis[a]);
        if (named && dim->naxes == 0) text_printf(text, "-");
        if (!named) text_printf(text, "%" PRId64, dim->split);
    }
    text_printf(text, ")");
}

static void put_tuples(Text *text, const Hint *hint) {
    text_printf(text, "(");
    for (int i = 0; i < hint->nin; i++) {
        text_printf(text, "%s", i ? ", " : "");
        put_tuple(text, &hint->in[i], hint->named);
    }
    text_printf(text, ")");
}

static void put_shard(Text *text, const Hint *hint) {
    if (!hint) return;
    text_printf(text, " shard ");
    if (hint->at > 0)
        text_printf(text, "at(%d)", hint->at - 1);
    else
        put_tuples(text, hint);
    if (hint->nout == 0) return;
    text_printf(text, " -> ");
    put_tuple(text, &hint->out, hint->named);
}

static void put_attr(Text *text, const AttrSpec *spec, const Attr *attr) {
    text_printf(text, ", %s = ", spec->name);
    switch (spec->kind) {
    case ATTR_BOOL:
        text_printf(text, attr->i ? "true" : "false");
        break;
    case ATTR_INT:
        text_printf(text, "%" PRId64, attr->i);
        break;
    case ATTR_FLOAT:
        text_printf(text, "%g", attr->f);
        break;
    case ATTR_INTS:
        for (int k = 0; k < attr->n; k++)
            text_printf(text, "%s%" PRId64, k ? ", " : "[", attr->ints[k]);
        text_printf(text, attr->n ? "]" : "[]");
        break;
    case ATTR_TEXT:
        text_printf(text, "%s", attr->text);
        break;
    case ATTR_NONE:
        break;
    }
}

static const char *infix_sign(OpCode op) {
    static const char *const sign[NOPS] = {[OP_add] = "+", [OP_sub] = "-", [OP_mul] = "*", [OP_div] = "/"};
    return sign[op];
}

static void put_statement(Text *text, const FuzzNet *net, int number) {
    const FuzzItem *item = &net->items.at[number];
    text_printf(text, "    ");
    for (int o = 0; o < item->nout; o++) {
        text_printf(text, "%s", o ? ", " : "");
        put_name(text, net, number * MAX_OUT + o);
    }
    text_printf(text, " = ");
    if (item->infix && infix_sign(item->op)) {
        put_name(text, net, item->in[0]);
        text_printf(text, " %s ", infix_sign(item->op));
        put_name(text, net, item->in[1]);
    } else if (item->op == OP_matmul && !item->hint && fuzz_type(net, item->in[0])->shape.ndim == 2 &&
               fuzz_type(net, item->in[1])->shape.ndim == 2 && !item->attr[0].given && !item->attr[1].given && number % 2) {
        text_printf(text, "einsum(\"ij,jk->ik\", ");
        put_name(text, net, item->in[0]);
        text_printf(text, ", ");
        put_name(text, net, item->in[1]);
        text_printf(text, ")");
    } else {
        const bool dropped = item->dropped && !item->hint;
        if (dropped) {
            text_printf(text, "where(random(");
            put_name(text, net, item->in[0]);
            text_printf(text, ") < 0.75, ");
        }
        text_printf(text, "%s(", op_table[item->op].name);
        for (int k = 0; k < item->nin; k++) {
            text_printf(text, "%s", k ? ", " : "");
            put_name(text, net, item->in[k]);
        }
        for (int a = 0; a < MAX_ATTRS && op_table[item->op].attrs[a].name; a++)
            if (item->attr[a].given) put_attr(text, &op_table[item->op].attrs[a], &item->attr[a]);
        text_printf(text, dropped ? ") * 1.25, 0.0)" : ")");
    }
    put_shard(text, item->hint);
    text_printf(text, "%s", item->recompute ? " recompute" : "");
    if (item->stage > 0) text_printf(text, " stage %d", item->stage - 1);
    text_printf(text, ";\n");
}

static void put_declaration(Text *text, const FuzzNet *net, int number) {
    static const char *const keyword[] = {[FUZZ_INPUT] = "input", [FUZZ_PARAM] = "param", [FUZZ_CONST] = "const", [FUZZ_OP] = ""};
    const FuzzItem *item = &net->items.at[number];
    text_printf(text, "    %s ", keyword[item->kind]);
    put_name(text, net, number * MAX_OUT);
    text_printf(text, " : ");
    type_print(text, &item->type[0]);
    if (item->init) text_printf(text, " = %s", item->init);
    put_shard(text, item->hint);
    text_printf(text, ";\n");
}

/* What one parameter has its learning rate, or weight decay, multiplied by. */
static void put_factor(Text *text, const FuzzNet *net, const char *what, double factor) {
    if (net->scaled < 0 || net->scaled >= net->items.n || net->items.at[net->scaled].kind != FUZZ_PARAM || factor == 1) return;
    text_printf(text, "    %s %g for ", what, factor);
    put_name(text, net, net->scaled * MAX_OUT);
    text_printf(text, ";\n");
}

static void put_schedule(Text *text, const Schedule *schedule) {
    text_printf(text, "    schedule = %s(warmup = %" PRId64, schedule_name[schedule->kind], schedule->warmup);
    switch (schedule->kind) {
    case SCHEDULE_POLYNOMIAL:
        text_printf(text, ", power = %g", schedule->power); /* fall through */
    case SCHEDULE_LINEAR:
    case SCHEDULE_COSINE:
        text_printf(text, ", end = %g", schedule->end);
        break;
    case SCHEDULE_STEP:
        text_printf(text, ", every = %" PRId64 ", gamma = %g, unit = %s", schedule->every, schedule->gamma,
                    schedule_unit_name[schedule->unit]);
        break;
    case SCHEDULE_MULTISTEP:
        text_printf(text, ", milestones = [%" PRId64 "], gamma = %g, unit = %s", schedule->milestone[0], schedule->gamma,
                    schedule_unit_name[schedule->unit]);
        break;
    default:
        break;
    }
    text_printf(text, ");\n");
}

static void put_optimizer(Text *text, const FuzzNet *net) {
    static const char *const name[NOPTIMIZERS] = {[OPTIMIZER_SGD] = "sgd",
                                                  [OPTIMIZER_MOMENTUM] = "momentum",
                                                  [OPTIMIZER_ADAM] = "adam",
                                                  [OPTIMIZER_ADAMW] = "adamw",
                                                  [OPTIMIZER_LION] = "lion",
                                                  [OPTIMIZER_LAMB] = "lamb",
                                                  [OPTIMIZER_LAZY_ADAM] = "lazy_adam",
                                                  [OPTIMIZER_ADAFACTOR] = "adafactor"};
    text_printf(text, "    optimizer = %s(lr = %g", name[net->optimizer], net->lr);
    if (net->optimizer == OPTIMIZER_MOMENTUM) text_printf(text, ", momentum = %g", net->momentum);
    if (net->optimizer == OPTIMIZER_MOMENTUM && net->nesterov) text_printf(text, ", nesterov = true");
    if (net->optimizer == OPTIMIZER_ADAM || net->optimizer == OPTIMIZER_ADAMW || net->optimizer == OPTIMIZER_LAMB ||
        net->optimizer == OPTIMIZER_LAZY_ADAM)
        text_printf(text, ", beta1 = %g, beta2 = %g, eps = %g", net->beta1, net->beta2, net->eps);
    if (net->optimizer == OPTIMIZER_ADAFACTOR) text_printf(text, ", eps1 = %g", net->eps);
    if (net->optimizer == OPTIMIZER_LION) text_printf(text, ", beta1 = %g, beta2 = %g", net->beta1, net->beta2);
    if (net->weight_decay > 0 || net->optimizer == OPTIMIZER_ADAMW || net->optimizer == OPTIMIZER_LAMB)
        text_printf(text, ", weight_decay = %g", net->weight_decay);
    text_printf(text, ");\n");
    if (net->schedule.kind != SCHEDULE_CONSTANT || net->schedule.warmup > 0) put_schedule(text, &net->schedule);
    if (net->clip > 0) text_printf(text, "    clip = norm(%g);\n", net->clip);
    if (net->accumulate > 1) text_printf(text, "    accumulate = %d;\n", net->accumulate);
    if (net->ema > 0) text_printf(text, "    ema = %g;\n", net->ema);
    put_factor(text, net, "lr", net->lr_factor);
    put_factor(text, net, "decay", net->decay_factor);
}

static void put_blocks(Text *text, const FuzzNet *net) {
    static const char *const dataset[] = {
        [DATASET_AUTO] = "auto", [DATASET_DATA_PARALLEL] = "data_parallel", [DATASET_FULL_BATCH] = "full_batch", [DATASET_EXPLICIT] = ""};
    static const char *const data[NDATA_KINDS] = {[DATA_NUMPY_RAND] = "numpy_rand", [DATA_NORMAL] = "normal", [DATA_UNIFORM] = "uniform"};
    text_printf(text, "train {\n    data = %s(seed = %" PRId64, data[net->data], net->data_seed);
    if (net->rows > 0) text_printf(text, ", rows = %" PRId64, net->rows);
    text_printf(text, ");\n");
    put_optimizer(text, net);
    text_printf(text, "    steps = %d;\n    seed = %" PRId64 ";\n}\n\nparallel {\n    mode = %s;\n", net->steps, net->init_seed,
                mode_name[net->mode]);
    if (net->search != NULL && net->mode == MODE_AUTO) text_printf(text, "    search = %s;\n", net->search);
    if (net->stages > 1) text_printf(text, "    stages = %d;\n", net->stages);
    if (net->chunks > 1) text_printf(text, "    chunks = %d;\n", net->chunks);
    if (net->naxes > 0) {
        text_printf(text, "    mesh (");
        for (int a = 0; a < net->naxes; a++)
            text_printf(text, "%s%s = %d", a ? ", " : "", net->axis[a].name, (int)net->axis[a].size);
        text_printf(text, ");\n");
    }
    if (net->mode == MODE_DATA_PARALLEL) {
        text_printf(text, "    gradients = %s;\n", net->gradients_mean ? "mean" : "sum");
    } else {
        text_printf(text, "    dataset = %s", dataset[net->dataset]);
        if (net->dataset == DATASET_EXPLICIT) put_tuples(text, net->dataset_hint);
        text_printf(text, ";\n");
    }
    if (net->bucket >= 0) text_printf(text, "    bucket = %" PRId64 ";\n", net->bucket);
    if (net->shard_states != SHARD_OPTIMIZER) text_printf(text, "    shard_states = %s;\n", shard_states_name[net->shard_states]);
    if (net->shard_small && net->shard_states != SHARD_NONE) text_printf(text, "    shard_from = 0;\n");
    if (net->regather == REGATHER_ALL) text_printf(text, "    regather = all;\n");
    if (net->memory_percent > 0) text_printf(text, "    # checked with memory for %d %% of what this plan needs\n", net->memory_percent);
    text_printf(text, "}\n");
}

static void put_regathers(Text *text, const FuzzNet *net) {
    bool any = false;
    for (int i = 0; i < net->items.n; i++) {
        if (!net->items.at[i].regather) continue;
        text_printf(text, any ? "" : "\nhints {\n");
        any = true;
        text_printf(text, "    ");
        put_name(text, net, i * MAX_OUT);
        text_printf(text, " = regather;\n");
    }
    text_printf(text, any ? "}\n" : "");
}

void fuzz_flags(Text *text, const FuzzNet *net) {
    static const char *const policy[] = {[REDISTRIBUTE_AUTO] = "",
                                         [REDISTRIBUTE_BOUND] = " --redistribution=bound",
                                         [REDISTRIBUTE_CANONICAL] = " --redistribution=canonical"};
    text_printf(text, "--ranks %d -O%d%s", fuzz_ranks(net), net->optimize, net->optimize == 2 ? policy[net->redistribution] : "");
    if (net->machine) text_printf(text, " --machine %s", net->machine);
    if (mode_hides(net->mode)) text_printf(text, " --replicas %d", net->replicas);
}

void fuzz_reference_flags(Text *text, const FuzzNet *net) {
    if (mode_hides(net->mode))
        text_printf(text, "--replicas %d", net->replicas);
    else
        text_printf(text, "--mode stand_alone");
}

void fuzz_print(Text *text, const FuzzNet *net) {
    text_printf(text, "# pcc fuzz-net --seed %" PRIu64 "\n# pcc net.dsl ", net->seed);
    fuzz_flags(text, net);
    text_printf(text, "\n# pcc net.dsl -o one.plan ");
    fuzz_reference_flags(text, net);
    text_printf(text, "\n# prun --ranks %d --verify=one.plan net.plan\n", fuzz_ranks(net));
    text_printf(text, "net fuzz {\n");
    for (int i = 0; i < net->items.n; i++)
        if (net->items.at[i].kind != FUZZ_OP && net->items.at[i].kind != FUZZ_NUMBER) put_declaration(text, net, i);
    const bool kept = net->kept >= 0 && net->stages == 1;
    if (kept) text_printf(text, "    state kept : %s = zeros;\n", dtype_name[fuzz_type(net, net->loss)->dtype]);
    text_printf(text, "\n");
    for (int i = 0; i < net->items.n; i++)
        if (net->items.at[i].kind == FUZZ_OP) put_statement(text, net, i);
    if (kept) {
        text_printf(text, "    kept <- 0.5 * kept + 0.5 * mean(");
        put_name(text, net, net->kept);
        text_printf(text, ");\n");
    }
    text_printf(text, "\n    loss ");
    if (net->mode == MODE_MANUAL) text_printf(text, "all_reduce(");
    put_name(text, net, net->loss);
    if (kept) text_printf(text, " + kept");
    text_printf(text, net->mode == MODE_MANUAL ? ", mean);\n}\n\n" : ";\n}\n\n");
    put_blocks(text, net);
    put_regathers(text, net);
}
