#include "search/choices.h"

#include <math.h>
#include <string.h>

void choices_init(Choices *choices, const Reads *reads, const Machine *machine, const Mesh *mesh, int64_t batches, double behind,
                  Moves *moves, Arena *arena) {
    const Graph *graph = reads->graph;
    if (machine == NULL) machine = &machine_cpu;
    const double unseen = batches > 0 ? (double)batches / (double)graph->settings.accumulate : 1;
    *choices =
        (Choices){.arena = arena, .reads = reads, .graph = graph, .machine = machine, .mesh = *mesh, .behind = behind, .unseen = unseen};
    const int64_t all = graph_trainable_bytes(graph), bucket = graph->settings.bucket_bytes;
    choices->bucket_bytes = (double)(all < bucket ? all : bucket);
    choices->kernels = reads->kernels;
    choices->kernels.machine = machine;
    choices->moves = moves != NULL ? moves : moves_create(arena, machine, graph->nranks);
}

/* ---- which strategies there are: every axis goes to one factor or to none, the axes of a factor in any order */

typedef struct Enumeration {
    const Choices *choices;
    const Rule *rule;
    const Strategy *base;
    bool any_order;
    int naxes[MAX_FACTORS];
    int8_t axis[MAX_FACTORS][MAX_AXES];
    VEC(Strategy) found;
} Enumeration;

static bool factor_takes(const Enumeration *all, int f, int axis) {
    const Factor *factor = &all->rule->factor[f];
    int64_t split = all->choices->mesh.axis[axis].size * strategy_split(all->base, f);
    for (int i = 0; i < all->naxes[f]; i++)
        split *= all->choices->mesh.axis[all->axis[f][i]].size;
    if (factor->whole || split > factor->size) return false;
    return factor->size % split == 0 || !(factor->divides || all->choices->graph->settings.strict_divide);
}

static void enumerate(Enumeration *all, int axis) {
    const Choices *choices = all->choices;
    if (axis == choices->mesh.naxes) {
        Strategy strategy = {.nfactors = all->rule->nfactors};
        for (int f = 0; f < all->rule->nfactors; f++) {
            if (all->base != NULL) strategy_follow(&strategy, f, all->base, f);
            for (int i = 0; i < all->naxes[f]; i++)
                strategy_append(&strategy, f, choices->mesh.axis[all->axis[f][i]]);
        }
        vec_push(choices->arena, &all->found, strategy);
        return;
    }
    for (int f = 0; f < all->rule->nfactors; f++) {
        if (!factor_takes(all, f, axis)) continue;
        int8_t *axes = all->axis[f];
        const int n = all->naxes[f]++;
        for (int at = n; at >= (all->any_order ? 0 : n); at--) {
            memmove(axes + at + 1, axes + at, (size_t)(n - at));
            axes[at] = (int8_t)axis;
            enumerate(all, axis + 1);
            memmove(axes + at, axes + at + 1, (size_t)(n - at));
        }
        all->naxes[f]--;
    }
    enumerate(all, axis + 1);
}

/* Whether two strategies are equal without this axis. */
static bool equal_without(const Strategy *a, const Strategy *b, Digit axis) {
    for (int f = 0; f < a->nfactors; f++) {
        const Digit *in[] = {strategy_digits(a, f), strategy_digits(b, f)};
        const int n[] = {strategy_count(a, f), strategy_count(b, f)};
        int at[] = {0, 0};
        for (;;) {
            for (int s = 0; s < 2; s++)
                while (at[s] < n[s] && in[s][at[s]].size == axis.size && in[s][at[s]].stride == axis.stride)
                    at[s]++;
            if (at[0] == n[0] || at[1] == n[1]) break;
            if (memcmp(&in[0][at[0]++], &in[1][at[1]++], sizeof(Digit)) != 0) return false;
        }
        if (at[0] < n[0] || at[1] < n[1]) return false;
    }
    return true;
}

static void keep_near(Enumeration *all, const Strategy *near) {
    const Mesh *mesh = &all->choices->mesh;
    int kept = 0;
    for (int k = 0; k < all->found.n; k++)
        for (int a = 0; a < mesh->naxes; a++)
            if (equal_without(&all->found.at[k], near, mesh->axis[a])) {
                all->found.at[kept++] = all->found.at[k];
                break;
            }
    all->found.n = kept;
}

static void add_once(Enumeration *all, const Strategy *strategy) {
    for (int k = 0; k < all->found.n; k++)
        if (memcmp(all->found.at[k].start, strategy->start, sizeof strategy->start) == 0 &&
            memcmp(all->found.at[k].digit, strategy->digit, strategy->start[strategy->nfactors] * sizeof *strategy->digit) == 0)
            return;
    vec_push(all->choices->arena, &all->found, *strategy);
}

/* ---- what they cost */

static int number(const Choices *choices, const TensorType *type, const Layout *layout) {
    return moves_layout(choices->moves, type, layout);
}

int rows_number(const Choices *choices, const Node *lookup, int stored) {
    const TensorType *rows = &lookup->rule->result[0];
    Layout needed;
    rows_of_table(moves_at(choices->moves, stored), rows->shape.ndim, &needed);
    return number(choices, rows, &needed);
}

static void fill_columns(const Choices *choices, const NodeClass *class, const Strategy *strategy, Columns *columns) {
    const Node *node = class->node;
    memset(columns, 0, sizeof *columns);
    for (int i = 0; i < node->nin; i++) {
        const TensorType *type = &choices->graph->values.at[node->in[i]].type;
        const int ndim = type->shape.ndim;
        Layout layout;
        strategy_in_layout(node, strategy, i, ndim, &layout);
        columns->need[i] = number(choices, type, &layout);
        layout_without_halos(&layout, &layout);
        for (int f = 0; f < node->rule->nfactors; f++)
            for (int k = 0; k < strategy_count(strategy, f) && !rule_in_has(node->rule, i, ndim, f); k++)
                layout_append(&layout, ndim + REDUCE_SUM, strategy_digits(strategy, f)[k]);
        columns->gradient[i] = class->kind->active[i] ? number(choices, type, &layout) : -1;
    }
    for (int o = 0; o < node->nout; o++) {
        const TensorType *type = &node->rule->result[o];
        Layout layout;
        strategy_out_layout(node, strategy, o, type->shape.ndim, &layout);
        columns->made[o] = number(choices, type, &layout);
        layout_complete(&layout, &layout);
        columns->home[o] = number(choices, type, &layout);
    }
}

/* The seconds of reductions over rows that a strategy splits: so many numbers a row, each summed over the parts of the row. */
static double row_seconds(const Choices *choices, const Node *node, const Strategy *strategy) {
    double seconds = 0;
    for (int f = 0; f < node->rule->nfactors; f++) {
        const int reductions = node->rule->factor[f].reductions;
        if (reductions == 0 || strategy_count(strategy, f) == 0 || node->nin == 0) continue;
        TensorType rows = choices->graph->values.at[node->in[0]].type;
        Strategy others = {.nfactors = strategy->nfactors};
        Layout whole;
        for (int g = 0; g < strategy->nfactors; g++)
            if (g != f) strategy_follow(&others, g, strategy, g);
        for (int d = 0; d < rows.shape.ndim; d++)
            if (node->rule->in[0][d] == f) rows.shape.dim[d] = 1;
        strategy_in_layout(node, &others, 0, rows.shape.ndim, &whole);
        Layout partial = whole;
        for (int i = 0; i < strategy_count(strategy, f); i++)
            layout_append(&partial, rows.shape.ndim + REDUCE_SUM, strategy_digits(strategy, f)[i]);
        seconds += reductions * moves_seconds(choices->moves, number(choices, &rows, &partial), number(choices, &rows, &whole), INFINITY);
    }
    return seconds;
}

static double exchange_seconds(const Choices *choices, const TensorType *type, const Layout *left, const Layout *needed) {
    return moves_seconds(choices->moves, number(choices, type, left), number(choices, type, needed), INFINITY);
}

/* The exchanges of halos that operand 0 is cut by, and those that the gradients of operands ask for. */
static double halo_seconds(const Choices *choices, const NodeClass *class, const Strategy *strategy) {
    const Node *node = class->node;
    Layout left, needed;
    double seconds = 0;
    for (int i = 0; i < node->nin && node->nout > 0; i++) {
        const TensorType *type = &choices->graph->values.at[node->in[i]].type;
        if (class->kind->active[i] && strategy_gradient_halos(node, strategy, i, &type->shape, &left, &needed))
            seconds += exchange_seconds(choices, &node->rule->result[0], &left, &needed);
        for (int o = 0; i == 0 && o < node->nout; o++)
            for (int gradient = 0; gradient <= class->kind->active[0]; gradient++)
                if (strategy_result_halos(node, strategy, o, &type->shape, gradient, &left, &needed))
                    seconds += exchange_seconds(choices, gradient ? &node->rule->result[o] : type, &left, &needed);
    }
    return seconds;
}

/* Into how many parts the update of a parameter is divided beyond its storage. */
static int64_t update_parts(const Choices *choices, int stored, int partial) {
    const Layout *layout = moves_at(choices->moves, partial);
    if (moves_bytes(choices->moves, stored) * layout_split(moves_at(choices->moves, stored), 0) < choices->graph->settings.shard_bytes)
        return 1;
    return layout_split(layout, layout->ndim + REDUCE_SUM);
}

/* How often an update reads or writes as many bytes as the parameter has, and how many slots there are. */
static int update_passes(OptimizerKind kind, int *nslots) {
    *nslots = kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW || kind == OPTIMIZER_LAMB || kind == OPTIMIZER_LAZY_ADAM
                  ? 2
                  : kind == OPTIMIZER_MOMENTUM || kind == OPTIMIZER_LION;
    return 3 + 2 * *nslots + (kind == OPTIMIZER_LAMB ? 4 : 0); /* lamb: its direction, written and read, and two norms */
}

double parameter_seconds(const Choices *choices, int stored, int partial) {
    int nslots;
    const int passes = update_passes(choices->graph->settings.optimizer, &nslots);
    const double bytes = (double)moves_bytes(choices->moves, stored) / (double)update_parts(choices, stored, partial);
    const MoveSeconds move = moves_both(choices->moves, partial, stored, INFINITY);
    const double exposed = 1 - choices->machine->overlap * choices->behind;
    const double bucket = choices->bucket_bytes, whole = (double)moves_bytes(choices->moves, stored);
    const double share = whole < bucket ? whole / bucket : 1; /* of a bucket's messages */
    return exposed * (move.bytes_s + share * move.messages_s) + passes * bytes / choices->machine->memory_bytes_per_s;
}

/* The seconds of updating a table by the rows of an embedding's gradient: their indices are gathered, and so many rows read and written. */
static double rows_seconds(const Choices *choices, const NodeClass *class, const Columns *columns) {
    const TensorType *index = &choices->graph->values.at[class->node->in[1]].type;
    int nslots;
    Layout whole;
    layout_init(&whole, index->shape.ndim);
    const int passes = update_passes(choices->graph->settings.optimizer, &nslots);
    const double exposed = 1 - choices->machine->overlap * choices->behind;
    return exposed * moves_seconds(choices->moves, columns->need[1], number(choices, index, &whole), INFINITY) +
           passes * (double)moves_bytes(choices->moves, rows_number(choices, class->node, columns->need[0])) /
               choices->machine->memory_bytes_per_s;
}

int64_t parameter_bytes(const Choices *choices, int stored, int partial) {
    int nslots;
    update_passes(choices->graph->settings.optimizer, &nslots);
    const int64_t bytes = moves_bytes(choices->moves, stored);
    return bytes + nslots * bytes / update_parts(choices, stored, partial);
}

static void fill_costs(const Choices *choices, const NodeClass *class, int at, double *seconds, int64_t *bytes) {
    const Strategy *strategy = &class->strategy[at];
    const Columns *columns = &class->columns[at];
    const OperatorKind *key = class->kind;
    double cost = choices->unseen * kernels_seconds(&choices->kernels, (int)(class->node - choices->graph->nodes.at), strategy) +
                  row_seconds(choices, class->node, strategy) + halo_seconds(choices, class, strategy);
    int64_t held = 0;
    for (int i = 0; i < class->node->nin; i++) {
        const int need = columns->need[i], gradient = columns->gradient[i];
        const bool by_rows = i == 0 && key->by_rows && gradient >= 0;
        if (by_rows) cost += rows_seconds(choices, class, columns);
        if (by_rows && key->trained[i]) {
            const int stored = key->kind[i] == OPERAND_OWN ? need : class->given[i];
            cost += moves_seconds(choices->moves, stored, need, INFINITY) +
                    moves_seconds(choices->moves, columns->home[0], rows_number(choices, class->node, stored), INFINITY);
            held += parameter_bytes(choices, stored, stored);
        } else if (key->kind[i] == OPERAND_OWN && key->trained[i] && gradient >= 0) {
            const int stored = moves_parts(choices->moves, need);
            cost += parameter_seconds(choices, stored, gradient) + moves_seconds(choices->moves, stored, need, INFINITY);
            held += parameter_bytes(choices, stored, gradient);
        } else if (key->kind[i] == OPERAND_GIVEN) {
            cost += moves_seconds(choices->moves, class->given[i], need, INFINITY);
            if (!key->trained[i]) continue;
            if (gradient >= 0)
                cost += moves_seconds(choices->moves, gradient, class->given[i], INFINITY) +
                        parameter_seconds(choices, class->given[i], class->given[i]);
            held += parameter_bytes(choices, class->given[i], class->given[i]);
        }
    }
    for (int o = 0; o < class->node->nout; o++) {
        const TensorType *type = &class->node->rule->result[o];
        Layout whole;
        layout_init(&whole, type->shape.ndim);
        if (key->reported[o]) cost += moves_seconds(choices->moves, columns->made[o], number(choices, type, &whole), INFINITY);
        if (key->kept[o]) held += moves_bytes(choices->moves, columns->home[o]);
    }
    *seconds = cost;
    *bytes = held;
}

enum { MANY_CHOICES = 200 };

static void class_make(Choices *choices, NodeClass *class) {
    Enumeration all = {.choices = choices, .rule = class->node->rule, .base = class->key.base, .any_order = true};
    if (class->key.fixed != NULL) {
        vec_push(choices->arena, &all.found, *class->key.fixed);
    } else {
        enumerate(&all, 0);
        if (class->key.near != NULL) keep_near(&all, class->key.near);
        if (all.found.n > MANY_CHOICES) {
            all = (Enumeration){.choices = choices, .rule = class->node->rule, .base = class->key.base};
            enumerate(&all, 0);
        }
    }
    if (class->key.also != NULL) add_once(&all, class->key.also);
    class->n = all.found.n;
    class->strategy = all.found.at;
    Columns *columns = arena_alloc(choices->arena, (size_t) class->n * sizeof *columns);
    double *seconds = arena_alloc(choices->arena, (size_t) class->n * sizeof *seconds);
    int64_t *bytes = arena_alloc(choices->arena, (size_t) class->n * sizeof *bytes);
    class->columns = columns, class->seconds = seconds, class->bytes = bytes;
    for (int c = 0; c < class->n; c++) {
        fill_columns(choices, class, &class->strategy[c], &columns[c]);
        fill_costs(choices, class, c, &seconds[c], &bytes[c]);
    }
}

const NodeClass *choices_of(Choices *choices, const ClassKey *key) {
    const uint64_t hash = hash_bytes(key, sizeof *key);
    map_each(&choices->map, hash, at) if (memcmp(&choices->classes.at[at]->key, key, sizeof *key) == 0) return choices->classes.at[at];
    NodeClass *class = arena_alloc(choices->arena, sizeof *class);
    class->key = *key;
    class->kind = choices->reads->kinds.at[key->kind];
    class->node = choices->reads->first.at[key->kind];
    for (int i = 0; i < class->node->nin; i++)
        if (class->kind->kind[i] == OPERAND_GIVEN)
            class->given[i] = number(choices, &choices->graph->values.at[class->node->in[i]].type, class->kind->given[i]);
    class_make(choices, class);
    vec_push(choices->arena, &choices->classes, class);
    map_add(choices->arena, &choices->map, hash, choices->classes.n - 1);
    return class;
}

double class_least(const NodeClass *class) {
    double least = INFINITY;
    for (int c = 0; c < class->n; c++)
        if (class->seconds[c] < least) least = class->seconds[c];
    return least;
}

static void class_drop(const Choices *choices, NodeClass *class, double most) {
    int n = 0;
    for (int c = 0; c < class->n; c++)
        n += class->seconds[c] <= most;
    if (n == class->n) return;
    Strategy *strategy = arena_alloc(choices->arena, (size_t)n * sizeof *strategy);
    Columns *columns = arena_alloc(choices->arena, (size_t)n * sizeof *columns);
    double *seconds = arena_alloc(choices->arena, (size_t)n * sizeof *seconds);
    int64_t *bytes = arena_alloc(choices->arena, (size_t)n * sizeof *bytes);
    n = 0;
    for (int c = 0; c < class->n; c++) {
        if (class->seconds[c] > most) continue;
        strategy[n] = class->strategy[c], columns[n] = class->columns[c], seconds[n] = class->seconds[c], bytes[n++] = class->bytes[c];
    }
    class->n = n;
    class->strategy = strategy, class->columns = columns, class->seconds = seconds, class->bytes = bytes;
}

void choices_drop(Choices *choices, double seconds) {
    for (int k = 0; k < choices->classes.n; k++)
        class_drop(choices, choices->classes.at[k], class_least(choices->classes.at[k]) + seconds);
}
