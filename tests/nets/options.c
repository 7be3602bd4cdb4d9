/* What a random net's blocks say, and the options to compile it with. */
#include "tests/nets/make.h"
#include "ir/lookup.h"

/* A mesh of the ranks, or of part of them. */
static void draw_axes(Make *make) {
    static const char *const names[FUZZ_MAX_AXES] = {"a", "b", "c", "d"};
    int rest = make->net->nranks;
    while (rest > 1 && make->net->naxes < FUZZ_MAX_AXES && chance(make, 80)) {
        int64_t size = draw_divisor(make, rest);
        if (size == 1) continue;
        make->net->axis[make->net->naxes] = (Axis){.name = names[make->net->naxes], .size = (int32_t)size};
        make->net->naxes++;
        rest /= (int)size;
    }
}

/* eps is large: without it an update is g / |g|, and so the rounding of an element whose gradient cancels. */
static void draw_optimizer(Make *make) {
    static const OptimizerKind kinds[] = {OPTIMIZER_SGD,      OPTIMIZER_SGD,  OPTIMIZER_MOMENTUM,
                                          OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM, OPTIMIZER_ADAMW};
    static const double shares[] = {0, 0.5, 0.9}, epsilons[] = {0.01, 0.125, 1}, norms[] = {0.01, 0.5, 1, 16};
    FuzzNet *net = make->net;
    net->optimizer = kinds[below(make, 6)];
    net->lr = 0.01;
    net->momentum = shares[below(make, 3)];
    net->beta1 = shares[below(make, 3)];
    net->beta2 = shares[below(make, 3)];
    net->eps = epsilons[below(make, 3)];
    net->weight_decay = chance(make, 30) ? (1 + below(make, 4)) / 8.0 : 0;
    net->clip = chance(make, 25) ? norms[below(make, 4)] : 0;
    net->accumulate = chance(make, 12) ? 2 + below(make, 2) : 1;
    if (!chance(make, 40)) return;
    net->schedule.kind = (ScheduleKind)below(make, SCHEDULE_POLYNOMIAL);
    net->schedule.warmup = below(make, 2);
    if (net->schedule.kind != SCHEDULE_CONSTANT) net->schedule.end = below(make, 3) / 4.0;
}

/* From numbers of its own: what a seed has drawn else stays what it is. Lion's steps are small: the sign of what cancels is that of its rounding. */
static void draw_rarer_optimizer(FuzzNet *net) {
    uint64_t random = net->seed + 1;
    net->nesterov = net->optimizer == OPTIMIZER_MOMENTUM && net->momentum > 0 && fuzz_chance(&random, 50);
    if (net->optimizer == OPTIMIZER_ADAMW && fuzz_chance(&random, 30)) net->optimizer = OPTIMIZER_LAMB;
    if (net->optimizer == OPTIMIZER_ADAM && net->mode != MODE_DATA_PARALLEL && fuzz_chance(&random, 40)) {
        net->optimizer = OPTIMIZER_LAZY_ADAM; /* it neither decays nor clips */
        net->weight_decay = net->clip = 0;
    }
    if (net->optimizer == OPTIMIZER_MOMENTUM && fuzz_chance(&random, 15)) {
        net->optimizer = OPTIMIZER_ADAFACTOR;
        net->eps = 0.125;
    }
    if (fuzz_chance(&random, 10)) {
        net->optimizer = OPTIMIZER_LION;
        net->lr = 1e-10;
    }
    if (net->schedule.kind != SCHEDULE_COSINE || fuzz_chance(&random, 30)) return;
    const int64_t warmup = net->schedule.warmup;
    const double end = net->schedule.end;
    net->schedule =
        (Schedule){.kind = (ScheduleKind)(SCHEDULE_POLYNOMIAL + (int)(random % (NSCHEDULES - SCHEDULE_POLYNOMIAL))), .warmup = warmup};
    Schedule *schedule = &net->schedule;
    if (schedule->kind == SCHEDULE_POLYNOMIAL) schedule->end = end, schedule->power = 2;
    if (schedule->kind != SCHEDULE_STEP && schedule->kind != SCHEDULE_MULTISTEP) return;
    schedule->gamma = 0.5;
    schedule->unit = fuzz_chance(&random, 50) ? PER_STEP : PER_EPOCH;
    if (schedule->kind == SCHEDULE_STEP)
        schedule->every = 1;
    else
        schedule->milestone[schedule->nmilestones++] = 1;
}

/* From numbers of its own: with other settings of memory a seed is the same net. */
static void draw_memory(Make *make, bool whole) {
    static const ShardStates levels[] = {SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS, SHARD_PARAMETERS};
    FuzzNet *net = make->net;
    uint64_t random = net->seed;
    net->shard_states = whole ? SHARD_NONE : levels[fuzz_below(&random, 4)];
    net->shard_small = fuzz_chance(&random, 70);
    net->regather = fuzz_chance(&random, 40) ? REGATHER_ALL : net->shard_states == SHARD_PARAMETERS ? REGATHER_PARAMETERS : REGATHER_NONE;
    net->memory_percent = fuzz_chance(&random, 35) ? 40 + fuzz_below(&random, 60) : 0;
}

void draw_options(Make *make) {
    static const Mode modes[] = {MODE_AUTO, MODE_AUTO, MODE_AUTO, MODE_SEMI_AUTO, MODE_SEMI_AUTO, MODE_DATA_PARALLEL};
    static const int levels[] = {0, 1, 2, 2, 2}, more[] = {0, 0, 1, 5};
    static const int ranks[] = {2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12, 12, 12}; /* those with many divisors more often */
    static const RedistributePolicy policies[] = {REDISTRIBUTE_AUTO, REDISTRIBUTE_AUTO, REDISTRIBUTE_BOUND, REDISTRIBUTE_CANONICAL};
    static const DataKind sources[] = {DATA_NUMPY_RAND, DATA_NUMPY_RAND, DATA_NORMAL, DATA_UNIFORM};
    static const int64_t buckets[] = {-1, -1, 0, 64, 1024}; /* bytes */
    FuzzNet *net = make->net;
    net->nranks = ranks[below(make, 16)];
    net->mode = modes[below(make, 6)];
    net->optimize = levels[below(make, 5)];
    net->redistribution = policies[below(make, 4)];
    draw_memory(make, chance(make, 20));
    net->steps = 2;
    draw_optimizer(make);
    draw_rarer_optimizer(net);
    net->bucket = buckets[below(make, 5)];
    net->machine = chance(make, 20) ? machine_gpu8.name : NULL;
    net->data = sources[below(make, 4)];
    net->data_seed = below(make, 1000);
    net->init_seed = below(make, 1000);
    if (net->mode == MODE_DATA_PARALLEL) {
        net->replicas = net->nranks + (chance(make, 20) ? net->nranks : more[below(make, 4)]);
        net->gradients_mean = chance(make, 50);
    } else if (chance(make, 40)) {
        draw_axes(make);
    }
}

/* Whether it is its operand k, negated, or plus, minus or times a number. */
static bool is_computed(const FuzzNet *net, const FuzzItem *user, int k) {
    if (user->op == OP_neg) return true;
    if (user->op != OP_add && user->op != OP_sub && user->op != OP_mul) return false;
    const FuzzItem *other = &net->items.at[user->in[1 - k] / MAX_OUT];
    return other->kind == FUZZ_NUMBER && (user->op != OP_mul || other->number != 0);
}

/* Whether elements of an item reach an operand that is an index, moved or computed with numbers. */
static bool is_index(Make *make, int item) {
    const FuzzNet *net = make->net;
    bool *reached = arena_alloc(make->arena, (size_t)net->items.n * sizeof *reached);
    reached[item] = true;
    for (int i = item + 1; i < net->items.n; i++) {
        const FuzzItem *user = &net->items.at[i];
        for (int k = 0; user->kind == FUZZ_OP && k < user->nin; k++) {
            if (!reached[user->in[k] / MAX_OUT]) continue;
            if (op_type(user->op, false, k) == 'i') return true;
            reached[i] = reached[i] || op_only_moves(user->op) || is_computed(net, user, k);
        }
    }
    return false;
}

/* Integers that are an index of nothing, as where its user has been pruned, are drawn by no data source: constants instead. */
static void fix_integers(Make *make) {
    for (int i = 0; i < make->net->items.n; i++) {
        FuzzItem *item = &make->net->items.at[i];
        if (item->kind != FUZZ_INPUT || dtype_is_float(item->type[0].dtype) || item->type[0].dtype == BOOL || is_index(make, i)) continue;
        item->kind = FUZZ_CONST;
        item->hint = NULL;
        draw_elements(make, item, 0);
    }
}

/* Whether an item is an operator of a stage: one that the loss does not depend on is of none. */
static bool is_staged(const FuzzNet *net, int item) {
    return net->items.at[item].kind == FUZZ_OP && (net->unused < 0 || net->unused / MAX_OUT != item);
}
static int staged_operators(const FuzzNet *net) {
    int n = 0;
    for (int i = 0; i < net->items.n; i++)
        n += is_staged(net, i);
    return n;
}

/* From numbers of its own, as above. A net with fewer operators than stages is refused. */
static void draw_stages(FuzzNet *net) {
    uint64_t random = net->seed + 2;
    const int operators = staged_operators(net);
    net->stages = net->chunks = 1;
    if (mode_hides(net->mode) || net->nranks > 6 || operators < 6 || !fuzz_chance(&random, 30)) return;
    net->stages = 2 + fuzz_below(&random, 2);
    if (operators < 3 * net->stages || !fuzz_chance(&random, 40)) return;
    net->chunks = 2; /* of as many batches as there are stages, or twice as many */
    net->accumulate = net->stages * (1 + fuzz_below(&random, 2));
}

/* From numbers of its own, as above: hints that say of some operators, or of all, of which stage they are. An operator is of no stage before those of its operands, but the text may have it before one of an
 * earlier stage; no part of the net is without. */
static void draw_stage_hints(FuzzNet *net, Arena *arena) {
    uint64_t random = net->seed + 3;
    const int parts = net->stages * net->chunks, percent = fuzz_chance(&random, 40) ? 0 : fuzz_chance(&random, 25) ? 100 : 30;
    int *least = arena_alloc(arena, sizeof *least * (size_t)(net->items.n + 1)), number = 0;
    const int operators = staged_operators(net);
    for (int i = 0; i < net->items.n && net->stages > 1; i++) {
        FuzzItem *item = &net->items.at[i];
        if (!is_staged(net, i)) continue;
        const int even = number++ * parts / operators; /* the stage that it has where all are equal */
        for (int k = 0; k < item->nin; k++)
            if (least[item->in[k] / MAX_OUT] > least[i]) least[i] = least[item->in[k] / MAX_OUT];
        if (!fuzz_chance(&random, percent)) continue;
        const int rest = parts - 1 - (operators - number); /* stages that those behind it are too few for */
        const int early = fuzz_chance(&random, 30) ? rest : even;
        least[i] = early > least[i] ? early : least[i];
        item->stage = least[i] + 1;
    }
}

/* Likewise: parameters on one rank of a stage. Tables that are looked up more often than others. */
static void draw_places(FuzzNet *net, Arena *arena) {
    uint64_t random = net->seed + 4;
    bool *table = arena_alloc(arena, (size_t)net->items.n + 1);
    if (mode_hides(net->mode) || net->nranks == 1 || !fuzz_chance(&random, 30)) return;
    for (int i = 0; i < net->items.n; i++)
        if (net->items.at[i].op == OP_embedding || net->items.at[i].op == OP_gather) table[net->items.at[i].in[0] / MAX_OUT] = true;
    for (int i = 0; i < net->items.n; i++) {
        FuzzItem *item = &net->items.at[i];
        if (item->kind != FUZZ_PARAM || !fuzz_chance(&random, table[i] ? 80 : 25)) continue;
        Hint *hint = arena_alloc(arena, sizeof *hint);
        hint->at = 1 + fuzz_below(&random, net->nranks);
        item->hint = hint;
    }
}

/* Likewise: averages of parameters, and one that has numbers of its own. */
static void draw_parameters(FuzzNet *net) {
    static const double factors[] = {0, 0.25, 1, 2};
    uint64_t random = net->seed + 5;
    net->ema = fuzz_chance(&random, 20) ? 0.5 : 0;
    net->scaled = -1;
    if (!fuzz_chance(&random, 30)) return;
    net->lr_factor = factors[fuzz_below(&random, 4)];
    net->decay_factor = net->weight_decay > 0 ? factors[fuzz_below(&random, 4)] : 1;
    for (int i = 0; i < net->items.n; i++)
        if (net->items.at[i].kind == FUZZ_PARAM && (net->scaled < 0 || fuzz_chance(&random, 40))) net->scaled = i;
}

void draw_dataset(Make *make) {
    static const Dataset datasets[] = {DATASET_AUTO, DATASET_DATA_PARALLEL, DATASET_FULL_BATCH};
    FuzzNet *net = make->net;
    TensorType inputs[8];
    int n = 0;
    fix_integers(make);
    draw_stages(net);
    draw_stage_hints(net, make->arena);
    draw_places(net, make->arena);
    draw_parameters(net);
    bool rows = net->data == DATA_NUMPY_RAND && chance(make, 40), fit = true;
    for (int i = 0; i < net->items.n; i++) {
        if (net->items.at[i].kind != FUZZ_INPUT) continue;
        const TensorType *type = &net->items.at[i].type[0];
        rows = rows && type->shape.ndim > 0 && type->shape.dim[0] > 1;
        if (n < 8) inputs[n] = *type;
        fit = ++n <= 8;
    }
    net->rows = rows ? 1 + below(make, 2) : 0;
    net->dataset = datasets[below(make, 3)];
    if (net->mode == MODE_DATA_PARALLEL || n == 0 || !fit || !chance(make, 15)) return;
    net->dataset = DATASET_EXPLICIT;
    net->dataset_hint = fuzz_layouts(net, inputs, n, make->arena, make->random);
}
