/* A failing net made small. Each move makes a smaller net; the first that still fails in the same manner is kept, until none does. Moves
 * that take much away stand first. A move may make a net that pcc rejects: that is another manner. */
#include "tests/run/nets.h"

#include <string.h>

enum { CANDIDATE_SECONDS = 20 };

typedef struct Shrink {
    FuzzNet *net;
    Arena *arena;
    NetFault fault;
    const char *directory;
    NetReport *report; /* of the smallest so far */
    double until;
    int tried;
} Shrink;

/* A net that may be changed without changing *net. */
static FuzzNet copy_net(const FuzzNet *net, Arena *arena) {
    FuzzNet copy = *net;
    copy.items.at = arena_alloc(arena, (size_t)net->items.n * sizeof *copy.items.at);
    copy.items.cap = net->items.n;
    memcpy(copy.items.at, net->items.at, (size_t)net->items.n * sizeof *copy.items.at);
    return copy;
}

/* Keeps the candidate if it fails in the same manner. */
static bool keep(Shrink *shrink, FuzzNet *candidate) {
    NetReport report;
    if (now_seconds() > shrink->until || !fuzz_infer(candidate)) return false;
    fuzz_prune(candidate, shrink->arena);
    shrink->tried++;
    net_check_apart(candidate, 1 << candidate->optimize, shrink->fault, shrink->directory, CANDIDATE_SECONDS, &report);
    if (report.outcome != shrink->report->outcome) return false;
    *shrink->report = report;
    *shrink->net = *candidate;
    return true;
}

/* ---------------------------------------------------------------- options and blocks */

/* Number `move` of the moves that set one thing to what is simplest; false: there are no more. */
static bool simpler_setting(FuzzNet *net, int move, bool *changes) {
    const FuzzNet before = *net;
    bool recomputes = false, staged = false, regathers = false;
    switch (move) {
    case 0:
        net->dataset = DATASET_AUTO;
        net->dataset_hint = NULL;
        break;
    case 1:
        if (net->dataset != DATASET_AUTO) net->dataset = DATASET_FULL_BATCH, net->dataset_hint = NULL;
        break;
    case 2:
        net->steps = 1;
        break;
    case 3:
        net->rows = 0;
        break;
    case 4:
        net->data = DATA_NUMPY_RAND;
        break;
    case 5:
        net->shard_states = SHARD_OPTIMIZER;
        net->regather = REGATHER_NONE;
        net->stages = net->chunks = 1;
        break;
    case 18:
        for (int i = 0; i < net->items.n; i++)
            staged |= net->items.at[i].stage > 0, net->items.at[i].stage = 0;
        break;
    case 6:
        net->redistribution = REDISTRIBUTE_AUTO;
        break;
    case 7:
        if (net->mode == MODE_AUTO) net->mode = MODE_SEMI_AUTO;
        break;
    case 8:
        if (mode_hides(net->mode)) net->replicas = net->nranks;
        break;
    case 9:
        net->gradients_mean = true;
        break;
    case 10:
        net->optimize = 0;
        break;
    case 11:
        net->bucket = -1;
        break;
    case 12:
        net->machine = NULL;
        break;
    case 13:
        net->unused = net->kept = -1;
        break;
    case 14:
        net->search = "sharding_propagation";
        break;
    case 15:
        net->shard_small = false;
        break;
    case 16:
        for (int i = 0; i < net->items.n; i++)
            recomputes |= net->items.at[i].recompute, net->items.at[i].recompute = false;
        break;
    case 17:
        net->memory_percent = 0;
        break;
    case 19:
        for (int i = 0; i < net->items.n; i++)
            regathers |= net->items.at[i].regather, net->items.at[i].regather = false;
        break;
    default:
        return false;
    }
    *changes = net->dataset != before.dataset || net->steps != before.steps || net->rows != before.rows || net->data != before.data ||
               net->shard_states != before.shard_states || net->shard_small != before.shard_small || net->regather != before.regather ||
               net->redistribution != before.redistribution || net->mode != before.mode || net->replicas != before.replicas ||
               (net->gradients_mean != before.gradients_mean && net->mode == MODE_DATA_PARALLEL) || net->optimize != before.optimize ||
               net->bucket != before.bucket || net->machine != before.machine || net->unused != before.unused || net->kept != before.kept ||
               net->search != before.search || net->memory_percent != before.memory_percent || recomputes || staged || regathers ||
               net->stages != before.stages;
    return true;
}

static bool shrink_settings(Shrink *shrink) {
    bool changes, any = false;
    for (int move = 0;; move++) {
        FuzzNet candidate = copy_net(shrink->net, shrink->arena);
        if (!simpler_setting(&candidate, move, &changes)) return any;
        any |= changes && keep(shrink, &candidate);
    }
}

/* Each alone, as the net may fail for one of them. */
static bool shrink_optimizer(Shrink *shrink) {
    bool any = false;
    for (int move = 0; move < 7; move++) {
        FuzzNet candidate = copy_net(shrink->net, shrink->arena);
        bool changes = false;
        switch (move) {
        case 0:
            changes = candidate.optimizer != OPTIMIZER_SGD;
            candidate.optimizer = OPTIMIZER_SGD;
            break;
        case 1:
            changes = candidate.schedule.kind != SCHEDULE_CONSTANT || candidate.schedule.warmup > 0;
            candidate.schedule = (Schedule){.kind = SCHEDULE_CONSTANT};
            break;
        case 2:
            changes = candidate.clip > 0;
            candidate.clip = 0;
            break;
        case 3:
            changes = candidate.weight_decay > 0;
            candidate.weight_decay = 0;
            break;
        case 4:
            changes = candidate.accumulate > 1;
            candidate.accumulate = 1;
            break;
        case 5:
            changes = candidate.ema > 0;
            candidate.ema = 0;
            break;
        case 6:
            changes = candidate.scaled >= 0;
            candidate.scaled = -1;
            break;
        }
        any |= changes && keep(shrink, &candidate);
    }
    return any;
}

static void change_hint(HintTuple *tuple, int nranks, const char *without) {
    for (int d = 0; d < tuple->ndim; d++) {
        HintDim *dim = &tuple->dim[d];
        if (dim->split > 0) dim->split = gcd64(dim->split, nranks);
        int left = 0;
        for (int a = 0; a < dim->naxes; a++)
            if (!without || strcmp(dim->axis[a], without) != 0) dim->axis[left++] = dim->axis[a];
        dim->naxes = left;
    }
}

/* All hints with counts that divide nranks, and without one axis. */
static const Hint *changed_hint(const Hint *hint, int nranks, const char *without, Arena *arena) {
    if (!hint) return NULL;
    Hint *changed = arena_alloc(arena, sizeof *changed);
    *changed = *hint;
    changed->at = hint->at > nranks ? nranks : hint->at;
    for (int i = 0; i < changed->nin; i++)
        change_hint(&changed->in[i], nranks, without);
    if (changed->nout > 0) change_hint(&changed->out, nranks, without);
    return changed;
}

static bool fewer_ranks(Shrink *shrink, int nranks, int axis) {
    FuzzNet candidate = copy_net(shrink->net, shrink->arena);
    const char *without = axis >= 0 ? candidate.axis[axis].name : NULL;
    for (int i = 0; i < candidate.items.n; i++)
        candidate.items.at[i].hint = changed_hint(candidate.items.at[i].hint, nranks, without, shrink->arena);
    candidate.dataset_hint = changed_hint(candidate.dataset_hint, nranks, without, shrink->arena);
    candidate.nranks = nranks;
    if (mode_hides(candidate.mode)) candidate.replicas -= shrink->net->nranks - nranks;
    for (int a = axis; axis >= 0 && a + 1 < candidate.naxes; a++)
        candidate.axis[a] = candidate.axis[a + 1];
    candidate.naxes -= axis >= 0;
    return keep(shrink, &candidate);
}

static bool shrink_ranks(Shrink *shrink) {
    bool any = false;
    for (int a = shrink->net->naxes - 1; a >= 0; a--)
        if (a < shrink->net->naxes)
            any |= fewer_ranks(shrink, shrink->net->nranks / shrink->net->axis[a].size, a) || fewer_ranks(shrink, shrink->net->nranks, a);
    for (int nranks = 2; nranks < shrink->net->nranks; nranks++)
        if (fewer_ranks(shrink, nranks, -1)) return true;
    return any;
}

/* ---------------------------------------------------------------- statements, hints, sizes */

static bool shrink_hints(Shrink *shrink) {
    bool any = false;
    FuzzNet candidate = copy_net(shrink->net, shrink->arena);
    int nhints = 0;
    for (int i = 0; i < candidate.items.n; i++) {
        nhints += candidate.items.at[i].hint != NULL;
        candidate.items.at[i].hint = NULL;
    }
    if (nhints > 1 && keep(shrink, &candidate)) return true;
    for (int i = 0; i < shrink->net->items.n; i++) {
        const Hint *hint = shrink->net->items.at[i].hint;
        if (!hint) continue;
        candidate = copy_net(shrink->net, shrink->arena);
        candidate.items.at[i].hint = NULL;
        bool kept = keep(shrink, &candidate);
        if (!kept && hint->nout > 0) {
            Hint *shorter = arena_alloc(shrink->arena, sizeof *shorter);
            *shorter = *hint;
            shorter->nout = 0;
            candidate = copy_net(shrink->net, shrink->arena);
            candidate.items.at[i].hint = shorter;
            kept = keep(shrink, &candidate);
        }
        any |= kept;
    }
    return any;
}

/* Every use of a value becomes one of another: of its type, or of one that its users take as well. */
static bool replace(Shrink *shrink, int value, int other) {
    FuzzNet candidate = copy_net(shrink->net, shrink->arena);
    for (int i = 0; i < candidate.items.n; i++)
        for (int k = 0; k < candidate.items.at[i].nin; k++)
            if (candidate.items.at[i].in[k] == value) candidate.items.at[i].in[k] = other;
    if (candidate.loss == value) candidate.loss = other;
    return keep(shrink, &candidate);
}

/* Statement i gives way to one of its operands, to a leaf of its type, or to the sum of its first operand. */
static bool drop_statement(Shrink *shrink, int i) {
    const FuzzItem item = shrink->net->items.at[i];
    for (int o = 0; o < item.nout; o++)
        for (int k = 0; k < item.nin; k++)
            if (replace(shrink, i * MAX_OUT + o, item.in[k])) return true;
    for (int kind = FUZZ_INPUT; item.nout == 1 && kind <= FUZZ_CONST; kind++) {
        static const char *const init[] = {[FUZZ_INPUT] = NULL, [FUZZ_PARAM] = "normal(0.3)", [FUZZ_CONST] = "zeros"};
        if (dtype_is_float(item.type[0].dtype) == (kind == FUZZ_CONST)) continue; /* integers are not trained, nor drawn by numpy_rand */
        FuzzNet candidate = copy_net(shrink->net, shrink->arena);
        candidate.items.at[i] = (FuzzItem){.kind = (FuzzKind)kind, .nout = 1, .type[0] = item.type[0], .init = init[kind]};
        if (keep(shrink, &candidate)) return true;
    }
    if (item.nout != 1 || item.type[0].shape.ndim > 0 || item.type[0].dtype != fuzz_type(shrink->net, item.in[0])->dtype ||
        (item.op == OP_sum && !item.attr[0].given))
        return false;
    FuzzNet candidate = copy_net(shrink->net, shrink->arena);
    candidate.items.at[i] = (FuzzItem){.kind = FUZZ_OP, .op = OP_sum, .nin = 1, .in = {item.in[0]}, .nout = 1, .type[0] = item.type[0]};
    return keep(shrink, &candidate);
}

static bool shrink_statements(Shrink *shrink) {
    bool any = false;
    for (int i = shrink->net->items.n - 1; i >= 0; i--)
        if (i < shrink->net->items.n && shrink->net->items.at[i].kind == FUZZ_OP) any |= drop_statement(shrink, i);
    return any;
}

/* Every dimension of one size gets another; attributes that may mean sizes too. */
static bool resize(Shrink *shrink, int64_t from, int64_t to) {
    FuzzNet candidate = copy_net(shrink->net, shrink->arena);
    for (int i = 0; i < candidate.items.n; i++) {
        FuzzItem *item = &candidate.items.at[i];
        bool changes = false;
        for (int d = 0; item->kind != FUZZ_OP && d < item->type[0].shape.ndim; d++) {
            changes |= item->type[0].shape.dim[d] == from;
            if (item->type[0].shape.dim[d] == from) item->type[0].shape.dim[d] = to;
        }
        if (item->kind == FUZZ_CONST && changes) item->init = dtype_is_float(item->type[0].dtype) ? "ones" : "zeros";
        for (int a = 0; item->kind == FUZZ_OP && a < MAX_ATTRS && op_table[item->op].attrs[a].name; a++) {
            const char *name = op_table[item->op].attrs[a].name;
            bool is_size = strcmp(name, "axes") != 0 && strcmp(name, "perm") != 0;
            for (int k = 0; is_size && k < item->attr[a].n; k++)
                if (item->attr[a].ints[k] == from) item->attr[a].ints[k] = to;
            if (strcmp(name, "depth") == 0 && item->attr[a].i == from) item->attr[a].i = to;
        }
    }
    return keep(shrink, &candidate);
}

static bool shrink_sizes(Shrink *shrink) {
    bool any = false;
    for (int i = 0; i < shrink->net->items.n; i++)
        for (int d = 0;
             i < shrink->net->items.n && shrink->net->items.at[i].kind != FUZZ_OP && d < shrink->net->items.at[i].type[0].shape.ndim; d++) {
            int64_t size = shrink->net->items.at[i].type[0].shape.dim[d], smaller[] = {1, 2, 3, size / 2, size - 1};
            for (size_t k = 0; k < sizeof smaller / sizeof *smaller; k++)
                if (smaller[k] > 0 && smaller[k] < size && resize(shrink, size, smaller[k])) {
                    any = true;
                    break;
                }
        }
    return any;
}

int net_shrink(FuzzNet *net, Arena *arena, NetFault fault, const char *directory, int seconds, NetReport *report) {
    static bool (*const moves[])(Shrink *) = {shrink_optimizer, shrink_statements, shrink_hints,
                                              shrink_ranks,     shrink_sizes,      shrink_settings};
    Shrink shrink = {
        .net = net, .arena = arena, .fault = fault, .directory = directory, .report = report, .until = now_seconds() + seconds};
    for (bool any = true; any;) {
        any = false;
        for (size_t m = 0; m < sizeof moves / sizeof *moves; m++)
            any |= moves[m](&shrink);
    }
    return shrink.tried;
}
