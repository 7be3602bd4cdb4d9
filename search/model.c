#include "search/model.h"

#include <math.h>
#include <string.h>

/* An edge's table, found again by what it is made of. */
typedef struct TableKey {
    const void *from, *to;
    int column, operand, kind;
} TableKey;
typedef struct TableSlot {
    TableKey key;
    double most;            /* its entries are exact below that; -1: it is not filled */
    const CostTable *table; /* NULL: all entries are 0 */
} TableSlot;

/* What a row, or column, of a table stands for: the numbers of the layouts that forth_and_back converts between. */
typedef struct Ends {
    int to, back;
} Ends;

/* A table that is to be filled. */
typedef struct Filling {
    int slot, n, width, nrows, ncolumns;
    Ends *rows, *columns;
    int *row, *column; /* for each of nrows, which of the n it is; for each of ncolumns, which of the width */
} Filling;

typedef struct BuiltEdge {
    int from, to, slot;
} BuiltEdge;

typedef struct Numbers {
    const double *at;
    size_t n;
} Numbers;

struct ModelShared {
    Arena *arena;
    const Reads *reads;
    Choices choices;
    const Strategy *whole[MAX_FACTORS + 1];
    VEC(const Hub *) hubs;
    VEC(TableSlot) slots;
    VEC(const CostTable *) tables;
    VEC(Numbers) lists;
    Known *known;
    Map hub_map, slot_map, table_map, list_map;
};

typedef struct Builder {
    Model *model;
    ModelShared *shared;
    const ModelInput *input;
    Arena *arena;
    int *variable_of; /* per node */
    const NodeClass **class_of;
    VEC(Filling) fillings;
    VEC(BuiltEdge) edges;
    double most; /* seconds of a conversion: a solution with one that takes more is not wanted */
} Builder;

/* ---- equal things once */

static const double *list_once(ModelShared *m, const double *at, int n) {
    const size_t bytes = (size_t)n * sizeof *at;
    const uint64_t hash = hash_bytes(at, bytes);
    map_each(&m->list_map, hash, k) if (m->lists.at[k].n == (size_t)n && memcmp(m->lists.at[k].at, at, bytes) == 0) return m->lists.at[k]
        .at;
    vec_push(m->arena, &m->lists, ((Numbers){at, (size_t)n}));
    map_add(m->arena, &m->list_map, hash, m->lists.n - 1);
    return at;
}

static const CostTable *table_once(ModelShared *m, double *at, int nrows, int ncolumns) {
    const size_t bytes = (size_t)nrows * (size_t)ncolumns * sizeof *at;
    const uint64_t hash = hash_bytes(at, bytes);
    map_each(&m->table_map, hash, k) {
        const CostTable *there = m->tables.at[k];
        if (there->nrows == nrows && there->ncolumns == ncolumns && memcmp(there->at, at, bytes) == 0) {
            arena_release(m->arena, at);
            return there;
        }
    }
    CostTable *table = arena_alloc(m->arena, sizeof *table);
    *table = (CostTable){nrows, ncolumns, at};
    vec_push(m->arena, &m->tables, table);
    map_add(m->arena, &m->table_map, hash, m->tables.n - 1);
    return table;
}

/* ---- operators */

static int add_variable(Builder *b, Chooser chooser, int n, const double *seconds, const int64_t *bytes) {
    vec_push(b->arena, &b->model->problem.variables, ((Variable){.nchoices = n, .cost = seconds, .bytes = bytes, .begin = 0, .end = 1}));
    vec_push(b->arena, &b->model->choosers, chooser);
    return b->model->problem.variables.n - 1;
}

static const Strategy *whole_strategy(ModelShared *m, int nfactors) {
    if (m->whole[nfactors] == NULL) {
        Strategy *whole = arena_alloc(m->arena, sizeof *whole);
        whole->nfactors = nfactors;
        m->whole[nfactors] = whole;
    }
    return m->whole[nfactors];
}

static const NodeClass *class_of(Builder *b, int id) {
    ModelShared *m = b->shared;
    const ModelInput *input = b->input;
    const Node *node = &m->reads->graph->nodes.at[id];
    ClassKey key = {.kind = m->reads->kind_of[id]};
    if (node->strategy != NULL && node->from == STRATEGY_USER)
        key.fixed = node->strategy;
    else if (input->fixed != NULL && input->fixed[id] != NULL)
        key.fixed = input->fixed[id];
    else if (!m->reads->varies[node->out[0]])
        key.fixed = whole_strategy(m, node->rule->nfactors); /* from constants: every rank computes all of it, and so has any part */
    else if (input->base != NULL)
        key.base = input->base[id];
    else if (input->near)
        key.near = node->strategy;
    if (key.fixed == NULL && input->also != NULL) key.also = input->also[id];
    return choices_of(&m->choices, &key);
}

/* Adds a variable for each operator. Drops choices with which a step takes too long even if all other operators take their least, if no
 * other models have these choices, which they may need. False: a step always takes too long. */
static bool add_nodes(Builder *b) {
    ModelShared *m = b->shared;
    const ModelInput *input = b->input;
    const double most = input->most > 0 ? input->most : INFINITY, beyond = input->beyond > 0 ? input->beyond : INFINITY;
    double least = 0;
    for (int n = 0; n < m->reads->nnodes; n++)
        if (m->reads->kind_of[n] >= 0) least += class_least(b->class_of[n] = class_of(b, n));
    if (least >= beyond) return false;
    b->most = input->shared != NULL && input->beyond == 0 ? most : fmax(0, most - least);
    if (input->shared == NULL) choices_drop(&m->choices, beyond - least);
    for (int n = 0; n < m->reads->nnodes; n++) {
        if (m->reads->kind_of[n] < 0) continue;
        const NodeClass *class = b->class_of[n];
        b->variable_of[n] = add_variable(b, (Chooser){.node = n, .class = class, .state = -1, .input = -1}, class->n,
                                         list_once(m, class->seconds, class->n), class->bytes);
    }
    return true;
}

/* ---- values that several operators use */

typedef struct Wanted {
    VEC(int) had;             /* layouts, each once */
    VEC(const Layout *) sums; /* digits to be partial over, each list once; the first is empty */
    Map map;
} Wanted;

static void want(Builder *b, Wanted *wanted, int layout) {
    const uint64_t hash = hash_mix(0, (uint64_t)layout);
    map_each(&wanted->map, hash, k) if (wanted->had.at[k] == layout) return;
    vec_push(b->arena, &wanted->had, layout);
    map_add(b->arena, &wanted->map, hash, wanted->had.n - 1);
}

static void want_sums(Builder *b, Wanted *wanted, const Layout *layout) {
    const int list = layout->ndim + REDUCE_SUM, n = layout_count(layout, list);
    for (int k = 0; k < wanted->sums.n; k++) {
        const Layout *there = wanted->sums.at[k];
        if (layout_count(there, list) == n && memcmp(layout_list(there, list), layout_list(layout, list), (size_t)n * sizeof(Digit)) == 0)
            return;
    }
    vec_push(b->arena, &wanted->sums, layout);
}

/* The hub of what is wanted, with its choices in the arena of the model. */
static Hub hub_wanted(Builder *b, const Read *read, const Wanted *wanted) {
    Moves *moves = b->shared->choices.moves;
    VEC(int) had = {0}, partial = {0};
    for (int k = 0; k < wanted->had.n; k++)
        for (int s = 0; s < wanted->sums.n; s++) {
            Layout layout = *moves_at(moves, wanted->had.at[k]);
            const Layout *sums = wanted->sums.at[s];
            const int list = layout.ndim + REDUCE_SUM;
            const char *why;
            for (int i = 0; i < layout_count(sums, list); i++)
                layout_append(&layout, list, layout_list(sums, list)[i]);
            if (s > 0 && !layout_valid(&layout, b->shared->reads->graph->nranks, &why)) continue;
            vec_push(b->arena, &had, wanted->had.at[k]);
            vec_push(b->arena, &partial, s > 0 ? moves_layout(moves, &read->type, &layout) : wanted->had.at[k]);
        }
    return (Hub){.type = read->type,
                 .active = read->active,
                 .updated = read->state >= 0 && read->active,
                 .by_rows = read->state >= 0 && b->shared->reads->by_rows[read->state],
                 .n = had.n,
                 .had = had.at,
                 .partial = partial.at};
}

static const int *kept_numbers(ModelShared *m, const int *at, int n) {
    int *kept = arena_alloc(m->arena, (size_t)n * sizeof *kept);
    memcpy(kept, at, (size_t)n * sizeof *kept);
    return kept;
}

static const Hub *hub_make(ModelShared *m, const Hub *wanted) {
    Hub *hub = arena_alloc(m->arena, sizeof *hub);
    double *seconds = arena_alloc(m->arena, (size_t)wanted->n * sizeof *seconds);
    int64_t *bytes = arena_alloc(m->arena, (size_t)wanted->n * sizeof *bytes);
    *hub = *wanted;
    hub->had = kept_numbers(m, wanted->had, wanted->n);
    hub->partial = kept_numbers(m, wanted->partial, wanted->n);
    for (int k = 0; k < hub->n && hub->updated; k++) {
        seconds[k] = hub->by_rows ? 0 : parameter_seconds(&m->choices, hub->had[k], hub->partial[k]);
        bytes[k] = parameter_bytes(&m->choices, hub->had[k], hub->partial[k]);
    }
    hub->seconds = list_once(m, seconds, hub->n);
    hub->bytes = bytes;
    return hub;
}

static const Hub *hub_once(ModelShared *m, const Hub *wanted) {
    const size_t bytes = (size_t)wanted->n * sizeof *wanted->had;
    const uint64_t hash = hash_bytes(wanted->had, bytes) ^ hash_bytes(wanted->partial, bytes);
    map_each(&m->hub_map, hash, k) {
        const Hub *there = m->hubs.at[k];
        if (there->active == wanted->active && there->updated == wanted->updated && there->by_rows == wanted->by_rows &&
            there->n == wanted->n && memcmp(there->had, wanted->had, bytes) == 0 && memcmp(there->partial, wanted->partial, bytes) == 0)
            return there;
    }
    vec_push(m->arena, &m->hubs, hub_make(m, wanted));
    map_add(m->arena, &m->hub_map, hash, m->hubs.n - 1);
    return m->hubs.at[m->hubs.n - 1];
}

/* The hub of a read; one for all reads whose producers and users are alike. */
static const Hub *hub_of(Builder *b, const Read *read) {
    Wanted wanted = {0};
    Layout none;
    layout_init(&none, read->type.shape.ndim);
    Moves *moves = b->shared->choices.moves;
    vec_push(b->arena, &wanted.sums, &none);
    if (read->given != NULL) {
        want(b, &wanted, moves_layout(moves, &read->type, read->given));
    } else if (read->producer >= 0) {
        const NodeClass *class = b->model->choosers.at[b->variable_of[read->producer]].class;
        for (int c = 0; c < class->n; c++)
            want(b, &wanted, class->columns[c].home[read->result]);
    }
    for (int k = 0; k < read->nreaders; k++) {
        const Reader reader = b->shared->reads->readers.at[read->first_reader + k];
        const NodeClass *class = b->model->choosers.at[b->variable_of[reader.node]].class;
        for (int c = 0; c < class->n; c++) {
            if (read->given == NULL) want(b, &wanted, moves_parts(moves, class->columns[c].need[reader.operand]));
            if (read->active && class->columns[c].gradient[reader.operand] >= 0 && !class->kind->by_rows)
                want_sums(b, &wanted, moves_at(moves, class->columns[c].gradient[reader.operand]));
        }
    }
    const Hub hub = hub_wanted(b, read, &wanted);
    return hub_once(b->shared, &hub);
}

/* ---- edges */

enum { PRODUCER_USER, PRODUCER_HUB, HUB_USER };

static Ends ends_of(const Builder *b, const TableKey *key, bool row, int k) {
    if (key->kind == HUB_USER && row) {
        const Hub *hub = key->from;
        const Node *user = ((const NodeClass *)key->to)->node;
        return (Ends){hub->had[k], hub->by_rows ? rows_number(&b->shared->choices, user, hub->had[k]) : hub->partial[k]};
    }
    if (key->kind == HUB_USER && ((const Hub *)key->from)->by_rows)
        return (Ends){((const NodeClass *)key->to)->columns[k].need[key->operand], ((const NodeClass *)key->to)->columns[k].home[0]};
    if (key->kind == PRODUCER_HUB && !row)
        return (Ends){((const Hub *)key->to)->had[k], ((const Hub *)key->to)->active ? ((const Hub *)key->to)->partial[k] : -1};
    if (row)
        return (Ends){((const NodeClass *)key->from)->columns[k].made[key->column],
                      ((const NodeClass *)key->from)->columns[k].home[key->column]};
    return (Ends){((const NodeClass *)key->to)->columns[k].need[key->operand],
                  ((const NodeClass *)key->to)->columns[k].gradient[key->operand]};
}

/* Fills in the distinct ends of n rows, or columns, and which of them each has. Returns their number. */
static int distinct(Builder *b, const TableKey *key, bool row, int n, Ends *ends, int *which) {
    int count = 0;
    Map map = {0};
    for (int k = 0; k < n; k++) {
        const Ends one = ends_of(b, key, row, k);
        const uint64_t hash = hash_bytes(&one, sizeof one);
        which[k] = -1;
        map_each(&map, hash, at) if (ends[at].to == one.to && ends[at].back == one.back) which[k] = at;
        if (which[k] >= 0) continue;
        which[k] = count;
        ends[count] = one;
        map_add(b->arena, &map, hash, count++);
    }
    return count;
}

/* The seconds of an entry: forward, and back for the gradient. */
static double forth_and_back(const Builder *b, Ends row, Ends column) {
    Moves *moves = b->shared->choices.moves;
    const double forth = moves_seconds(moves, row.to, column.to, b->most);
    return column.back < 0 ? forth : forth + moves_seconds(moves, column.back, row.back, b->most);
}
static void want_both(const Builder *b, Ends row, Ends column) {
    Moves *moves = b->shared->choices.moves;
    moves_want(moves, row.to, column.to);
    if (column.back >= 0) moves_want(moves, column.back, row.back);
}

static void begin_filling(Builder *b, int slot, int nrows, int ncolumns) {
    const TableKey *key = &b->shared->slots.at[slot].key;
    Filling f = {.slot = slot, .nrows = nrows, .ncolumns = ncolumns};
    f.rows = arena_alloc(b->arena, (size_t)nrows * sizeof *f.rows), f.columns = arena_alloc(b->arena, (size_t)ncolumns * sizeof *f.columns);
    f.row = arena_alloc(b->arena, (size_t)nrows * sizeof *f.row), f.column = arena_alloc(b->arena, (size_t)ncolumns * sizeof *f.column);
    f.n = distinct(b, key, true, nrows, f.rows, f.row), f.width = distinct(b, key, false, ncolumns, f.columns, f.column);
    for (int i = 0; i < f.n; i++)
        for (int j = 0; j < f.width; j++)
            want_both(b, f.rows[i], f.columns[j]);
    vec_push(b->arena, &b->fillings, f);
}

static void fill(Builder *b, const Filling *f) {
    ModelShared *m = b->shared;
    TableSlot *slot = &m->slots.at[f->slot];
    double *of = arena_alloc(b->arena, (size_t)f->n * (size_t)f->width * sizeof *of);
    bool free = true, exact = true;
    for (int i = 0; i < f->n; i++)
        for (int j = 0; j < f->width; j++) {
            const double seconds = of[i * f->width + j] = forth_and_back(b, f->rows[i], f->columns[j]);
            free = free && seconds == 0;
            exact = exact && (seconds < b->most || isinf(seconds));
        }
    slot->most = exact ? INFINITY : b->most;
    slot->table = NULL;
    if (free) return;
    double *at = arena_alloc(m->arena, (size_t)f->nrows * (size_t)f->ncolumns * sizeof *at);
    for (int i = 0; i < f->nrows; i++)
        for (int j = 0; j < f->ncolumns; j++)
            at[i * f->ncolumns + j] = of[f->row[i] * f->width + f->column[j]];
    slot->table = table_once(m, at, f->nrows, f->ncolumns);
}

/* The place of the table with this key, which is filled later where it is not exact enough. */
static int slot_of(Builder *b, const TableKey *key, int nrows, int ncolumns) {
    const uint64_t hash = hash_bytes(key, sizeof *key);
    ModelShared *m = b->shared;
    int slot = -1;
    map_each(&m->slot_map, hash, k) if (memcmp(&m->slots.at[k].key, key, sizeof *key) == 0) slot = k;
    if (slot < 0) {
        slot = m->slots.n;
        vec_push(m->arena, &m->slots, ((TableSlot){.key = *key, .most = -1}));
        map_add(m->arena, &m->slot_map, hash, slot);
    }
    if (m->slots.at[slot].most < b->most) {
        m->slots.at[slot].most = b->most;
        begin_filling(b, slot, nrows, ncolumns);
    }
    return slot;
}

static void add_edge(Builder *b, int from, int to, int column, int operand, int kind) {
    const Chooser *x = &b->model->choosers.at[from], *y = &b->model->choosers.at[to];
    TableKey key;
    memset(&key, 0, sizeof key); /* its padding too */
    key.from = x->class != NULL ? (const void *)x->class : x->hub;
    key.to = y->class != NULL ? (const void *)y->class : y->hub;
    key.column = column, key.operand = operand, key.kind = kind;
    const Problem *problem = &b->model->problem;
    const int slot = slot_of(b, &key, problem->variables.at[from].nchoices, problem->variables.at[to].nchoices);
    vec_push(b->arena, &b->edges, ((BuiltEdge){from, to, slot}));
}

/* Plans the conversions of all edges together, and then adds the edges that cost something. */
static void finish_edges(Builder *b) {
    const ModelShared *m = b->shared;
    moves_plan(m->choices.moves, b->most);
    for (int k = 0; k < b->fillings.n; k++)
        fill(b, &b->fillings.at[k]);
    for (int e = 0; e < b->edges.n; e++) {
        const BuiltEdge *edge = &b->edges.at[e];
        const CostTable *table = m->slots.at[edge->slot].table;
        if (table != NULL) vec_push(b->arena, &b->model->problem.edges, ((Edge){edge->from, edge->to, table}));
    }
}

static void add_read(Builder *b, const Read *read) {
    if (read->free || read->nreaders == 0 || (read->nreaders == 1 && read->producer < 0)) return;
    const Reader *readers = b->shared->reads->readers.at + read->first_reader;
    const int producer = read->producer < 0 ? -1 : b->variable_of[read->producer];
    if (read->nreaders == 1 && read->given == NULL) {
        add_edge(b, producer, b->variable_of[readers[0].node], read->result, readers[0].operand, PRODUCER_USER);
        return;
    }
    const Hub *hub = hub_of(b, read);
    const int variable =
        add_variable(b, (Chooser){.node = -1, .hub = hub, .state = read->state, .input = read->input}, hub->n, hub->seconds, hub->bytes);
    if (producer >= 0) add_edge(b, producer, variable, read->result, 0, PRODUCER_HUB);
    for (int k = 0; k < read->nreaders; k++)
        add_edge(b, variable, b->variable_of[readers[k].node], 0, readers[k].operand, HUB_USER);
}

/* ---- all of it */

ModelShared *model_share(const ModelInput *input, Arena *arena) {
    ModelShared *m = arena_alloc(arena, sizeof *m);
    m->arena = arena;
    m->reads = input->reads != NULL ? input->reads : reads_find(input->graph, input->out_layout, arena);
    choices_init(&m->choices, m->reads, input->machine, &input->mesh, input->batches, input->behind, input->moves, arena);
    m->known = known_create(arena);
    return m;
}

bool model_init(Model *model, const ModelInput *input, Arena *arena) {
    ModelShared *shared = input->shared != NULL ? input->shared : model_share(input, arena);
    *model = (Model){.moves = shared->choices.moves, .graph = input->graph};
    Builder b = {.model = model, .shared = shared, .input = input, .arena = arena};
    b.variable_of = arena_alloc(arena, ((size_t)shared->reads->nnodes + 1) * sizeof *b.variable_of);
    b.class_of = arena_alloc(arena, ((size_t)shared->reads->nnodes + 1) * sizeof *b.class_of);
    if (!add_nodes(&b)) return false;
    for (int s = 0; s < shared->reads->all.n; s++)
        add_read(&b, &shared->reads->all.at[s]);
    finish_edges(&b);
    model->problem.known = shared->known;
    model->problem.most = input->beyond;
    return true;
}

void model_read(const Model *model, const int *choice, Arena *arena, Chosen *chosen) {
    const Graph *graph = model->graph;
    chosen->strategy = arena_alloc(arena, ((size_t)graph->nodes.n + 1) * sizeof *chosen->strategy);
    chosen->state = arena_alloc(arena, ((size_t)graph->states.n + 1) * sizeof *chosen->state);
    chosen->input = arena_alloc(arena, ((size_t)graph->inputs.n + 1) * sizeof *chosen->input);
    for (int v = 0; v < model->choosers.n; v++) {
        const Chooser *chooser = &model->choosers.at[v];
        if (chooser->node >= 0) chosen->strategy[chooser->node] = &chooser->class->strategy[choice[v]];
        if (chooser->hub == NULL) continue;
        const Layout *had = moves_at(model->moves, chooser->hub->had[choice[v]]);
        if (chooser->state >= 0) chosen->state[chooser->state] = had;
        if (chooser->input >= 0) chosen->input[chooser->input] = had;
    }
}
