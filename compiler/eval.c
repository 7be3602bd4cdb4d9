/* eval: the program that evaluates what was trained, over the same states.
 *
 * It goes through the same passes as train, after it. Before pass `follow`: train has its strategies and layouts. After: the states lie as train has them. An operator that train has too gets its strategy from there, where that fits the
 * other batch; the strategies of the others follow from these. So hints apply to both programs, and one that fits only one of the two is not an error: a split that the
 * batch of the eval is too short for is left out, and search or the batch split fills it in.
 *
 * Only train is warned about: what there is to say of a strategy was said there. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "compiler/facts.h"

static int find_state(const Graph *graph, const char *name) {
    for (int i = 0; i < graph->states.n; i++)
        if (strcmp(graph->states.at[i].name, name) == 0) return i;
    return -1;
}

bool take_states(const Build *train, Graph *graph, const char *where, const char *hint) {
    const Graph *theirs = &train->front.graph;
    int *number = arena_alloc(graph->arena, ((size_t)graph->states.n + 1) * sizeof *number);
    bool ok = true;
    for (int i = 0; i < graph->states.n; i++) {
        const State *own = &graph->states.at[i];
        number[i] = i < theirs->states.n && strcmp(theirs->states.at[i].name, own->name) == 0 ? i : find_state(theirs, own->name);
        if (number[i] >= 0 && type_equal(&theirs->states.at[number[i]].type, &own->type)) continue;
        Text text = {0};
        type_print(&text, &own->type);
        if (number[i] >= 0) {
            text_printf(&text, " in %s, and in training ", where);
            type_print(&text, &theirs->states.at[number[i]].type);
            diag_error(train->diags, own->span, "%s is %s", own->name, text.at);
        } else {
            diag_error(train->diags, own->span, "%s, %s, is a parameter of %s, and training has none of that name", own->name, text.at,
                       where);
        }
        diag_hint(train->diags, "%s", hint);
        text_finish(&text);
        ok = false;
    }
    for (int n = 0; ok && n < graph->nodes.n; n++)
        if (graph->nodes.at[n].op == OP_read) graph->nodes.at[n].state = number[graph->nodes.at[n].state];
    graph->states.n = 0;
    graph->states.cap = 0;
    for (int i = 0; ok && i < theirs->states.n; i++)
        vec_push(graph->arena, &graph->states, theirs->states.at[i]);
    return ok;
}

void follower_init(Build *e, const char *name, ProgramKind kind, const Build *train, const Graph *graph) {
    Diags *diags = arena_alloc(train->arena, sizeof *diags); /* warnings are of train alone */
    diags_init(diags, train->arena);
    for (int f = 0; f < train->diags->files.n; f++)
        vec_push(train->arena, &diags->files, train->diags->files.at[f]);
    build_init(e, name, train->arena, train->options, diags);
    e->kind = kind;
    e->follows = train;
    e->dump_directory = arena_printf(train->arena, "%s/%s", train->dump_directory ? train->dump_directory : "", name);
    e->front.graph = *graph;
    if (kind == PROGRAM_TRAIN) return;
    e->front.graph.settings.optimizer = OPTIMIZER_NONE;
    e->front.graph.settings.accumulate = 0;
}

static bool change_is_given(const RowChange *change) {
    return change->one_hot || change->standardize || change->scale != 0 || change->nmeans > 0;
}

/* Has the data of an eval's own files changed as train's data are, and their labels named as train's, unless the files say otherwise; means are those of the rows of training. */
static bool take_changes(const Build *train, Graph *graph) {
    const Graph *theirs = &train->front.graph;
    for (int i = 0; i < graph->inputs.n; i++) {
        Input *own = &graph->inputs.at[i];
        const DataFile *file = NULL;
        for (int k = 0; k < theirs->inputs.n; k++)
            if (theirs->inputs.at[k].file.format != FILE_NONE && strcmp(theirs->inputs.at[k].name, own->name) == 0)
                file = &theirs->inputs.at[k].file;
        if (own->file.format == FILE_NONE) continue;
        if (own->file.format == FILE_CSV && own->file.find_classes && !(file && file->find_classes)) {
            diag_error(train->diags, own->span,
                       "the classes of input %s of the eval are those that training finds, and train's data does not say classes = found",
                       own->name);
            return false;
        }
        const bool standardizes = own->file.change.standardize, means = own->file.missing == MISSING_MEAN;
        if ((standardizes && !(file && file->change.standardize)) || (means && !(file && file->missing == MISSING_MEAN))) {
            diag_error(train->diags, own->span, "input %s of the eval has means of the rows of training, and train's data does not say %s",
                       own->name, standardizes ? "standardize = true" : "missing = mean");
            return false;
        }
        if (file && own->file.tokens == TOKENS_NONE && !change_is_given(&own->file.change)) own->file.change = file->change;
        if (file && own->file.missing == MISSING_ERROR && file->missing == MISSING_MEAN && own->file.format == FILE_CSV)
            own->file.missing = MISSING_MEAN;
        const bool named = own->file.find_classes || (own->file.classes && own->file.classes[0]);
        if (file && file->format == own->file.format && own->file.tokens == TOKENS_NONE && !named) {
            own->file.classes = file->classes;
            own->file.find_classes = file->find_classes;
        }
    }
    return true;
}

static const char eval_hint[] = "the numbers of the eval block say how a batch is evaluated; its parameters are those of training";

bool eval_create(Build *e, const Build *train, Graph *graph, const LossRows *rows) {
    if (!take_states(train, graph, "the eval", eval_hint) || !take_changes(train, graph)) return false;
    follower_init(e, "eval", PROGRAM_EVAL, train, graph);
    e->front.rows = *rows;
    return true;
}

/* Makes tokens characters where training reads the text as bytes. */
static void take_alphabet(Build *g, const Build *train) {
    const Input *token = &g->front.graph.inputs.at[0];
    const Graph *trained = &train->front.graph;
    for (int i = 0; g->front.graph.settings.alphabet == NULL && i < trained->inputs.n; i++) {
        const Input *input = &trained->inputs.at[i];
        if (strcmp(input->name, token->name) == 0 && input->file.format == FILE_RAW && input->file.stored != NULL &&
            strcmp(input->file.stored, "u8") == 0)
            g->front.graph.settings.alphabet = "";
    }
}

bool generate_create(Build *g, const Build *train, Graph *graph, const Generation *generation) {
    if (!take_states(train, graph, "the eval", eval_hint)) return false;
    Graph one = *graph;
    if (!graph_decode(&one, generation, 1, train->diags)) return false;
    follower_init(g, "generate", PROGRAM_GENERATE, train, &one);
    g->front.rows.prediction = -1;
    take_alphabet(g, train);
    return true;
}

bool prompt_create(Build *p, const Build *generate, const Graph *graph, const Generation *generation, bool *none) {
    const Build *train = generate->follows;
    const Shape *text = &graph->inputs.at[generation->text].type.shape;
    const int64_t places = text->dim[text->ndim - 1], count = generation->chunk < places ? generation->chunk : places;
    Graph several = *graph;
    *none = count == 1;
    if (*none) return true;
    if (!graph_decode(&several, generation, count, train->diags)) return false;
    *none = several.states.n == graph->states.n; /* nothing is kept */
    follower_init(p, "prompt", PROGRAM_PROMPT, train, &several);
    p->follows = generate;
    p->front.rows.prediction = -1;
    return true;
}

/* For qsort: nodes by name. */
static int by_name(const void *a, const void *b) {
    return strcmp((*(const Node *const *)a)->name, (*(const Node *const *)b)->name);
}

static const Node *find_node(const Node *const *sorted, int n, const char *name) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(sorted[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && strcmp(sorted[low]->name, name) == 0 ? sorted[low] : NULL;
}

static bool split_fits(const Factor *factor, const Factor *theirs, int64_t split, bool strict) {
    if (split == 1) return true;
    bool even = theirs->size % split == 0 || strict || factor->divides; /* what train divides evenly stays even */
    return !factor->whole && split <= factor->size && (!even || factor->size % split == 0);
}

/* Gives a node the strategy of train's node; if one factor does not fit, none is taken, since half a strategy is another. */
static bool follow(Graph *g, Node *node, const Node *theirs) {
    if (theirs == NULL || theirs->op != node->op || theirs->strategy == NULL || theirs->rule->nfactors != node->rule->nfactors)
        return false;
    for (int f = 0; f < node->rule->nfactors; f++)
        if (!split_fits(&node->rule->factor[f], &theirs->rule->factor[f], strategy_split(theirs->strategy, f), g->settings.strict_divide))
            return false;
    node->strategy = theirs->strategy;
    node->from = theirs->from;
    return true;
}

/* How many states come before the caches. */
static int first_cache(const Graph *g) {
    int first = 0;
    while (first < g->states.n && !g->states.at[first].cache)
        first++;
    return first;
}

/* Gives the graph the states of train, its optimizer's too, as train has them; after them the program's own caches, with new numbers: those of generate if it follows that. */
static void follow_states(Graph *g, const Graph *train) {
    const State *own = g->states.at;
    const int nown = g->states.n, first = first_cache(g), moved = first_cache(train) - first;
    assert(moved >= 0);
    memset(&g->states, 0, sizeof g->states);
    for (int s = 0; s < train->states.n; s++) {
        State state = train->states.at[s];
        state.hint = NULL;
        Layout layout = *state.layout; /* on the ranks of a stage, as all here until pass stages */
        layout.pin = (Pin){0};
        state.layout = graph_layout(g, &layout, &state.type.shape);
        vec_push(g->arena, &g->states, state);
    }
    assert(g->states.n == first + moved || g->states.n == nown + moved);
    for (int s = g->states.n - moved; s < nown; s++) {
        State state = own[s];
        state.parameter += moved;
        vec_push(g->arena, &g->states, state);
    }
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if ((node->op == OP_read || node->op == OP_write) && node->state >= first) node->state += moved;
        const int average = g->settings.averages && node->op == OP_read ? state_average(g, node->state) : -1;
        if (average >= 0) node->state = average;
    }
}

/* Whether the slots that a training program made are those of train, in the same order. */
static bool same_slots(const Graph *g, const Graph *train) {
    bool same = g->states.n == train->states.n;
    for (int s = 0; same && s < g->states.n; s++)
        same = strcmp(g->states.at[s].name, train->states.at[s].name) == 0 && type_equal(&g->states.at[s].type, &train->states.at[s].type);
    return same;
}

bool pass_follow(Build *b) {
    if (b->follows == NULL) return true;
    const Graph *train = &b->follows->sharded.graph, *chosen = &b->follows->front.chosen;
    Graph *g = &b->front.graph;
    bool *followed = b->front.followed = arena_alloc(b->arena, (size_t)(g->nodes.n + 1) * sizeof *followed);
    int n = 0;
    const Node **sorted = arena_alloc(g->arena, sizeof *sorted * (size_t)(chosen->nforward + 1));
    for (int id = 0; id < chosen->nforward; id++)
        if (op_table[chosen->nodes.at[id].op].op_class != OP_CLASS_LEAF) sorted[n++] = &chosen->nodes.at[id];
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int id = 0; id < g->nodes.n; id++) {
        Node *node = &g->nodes.at[id];
        node->hint = NULL;
        if (node_is_leaf(node)) continue;
        const Node *theirs = id < g->nforward || b->kind != PROGRAM_TRAIN ? find_node(sorted, n, node->name) : NULL;
        followed[id] = follow(g, node, theirs);
        if (theirs != NULL) node->stage = theirs->stage;
        if (b->shorter && theirs != NULL)
            node->recompute = theirs->recompute; /* measures for memory that were taken for the longest texts */
    }
    for (int i = 0; i < g->inputs.n; i++)
        g->inputs.at[i].hint = NULL;
    g->settings.found.n = 0;
    if (g->settings.dataset == DATASET_EXPLICIT) g->settings.dataset = DATASET_AUTO;
    if (b->kind == PROGRAM_TRAIN) { /* as measures for memory have left them */
        g->settings.shard_states = train->settings.shard_states;
        g->settings.shard_bytes = train->settings.shard_bytes;
        g->settings.bucket_bytes = train->settings.bucket_bytes;
        g->settings.regather = train->settings.regather;
        g->settings.regather_share = train->settings.regather_share;
    }
    if (b->kind == PROGRAM_TRAIN && !same_slots(g, train))
        return error_set(&b->error, EXIT_INTERNAL, "its optimizer has other states than that of train");
    follow_states(g, train);
    return true;
}

/* ---------------------------------------------------------------- what it needs beside train */

bool counts_memory(const Build *b) {
    const Settings *settings = &b->front.graph.settings;
    bool asserts = false;
    for (int k = 0; k < settings->asserts.n; k++)
        asserts = asserts || settings->asserts.at[k].what == ASSERT_MEMORY;
    return asserts || budget_limit(b) > 0;
}

/* A copy of the eval as it is now, in an arena, to be tried. */
static Build *fork_eval(const Build *eval, Arena *arena) {
    Build *e = arena_alloc(arena, sizeof *e);
    build_init_tried(e, eval->name, arena, eval->options);
    e->kind = eval->kind;
    e->front.rows = eval->front.rows;
    graph_fork(&e->front.graph, &eval->front.graph, arena);
    return e;
}

bool eval_count(Build *train, const Build *eval) {
    train->eval = fork_eval(eval, train->arena);
    return build_run(train->eval, NULL, pass_follow);
}

/* About the most bytes that the arena of a graph can need. */
static int64_t whole_bytes(const Graph *g) {
    int64_t bytes = 0;
    for (int v = 0; v < g->values.n; v++)
        bytes += type_bytes(&g->values.at[v].type);
    return 2 * bytes; /* in another layout too */
}

static int64_t larger(int64_t bytes, int64_t than) {
    return bytes > than ? bytes - than : 0;
}

int64_t eval_bytes(const Build *train) {
    const Facts *trains = train->facts;
    int64_t bytes = UNLIMITED; /* of an eval that does not compile: no limit is enough */
    Arena arena;
    if (train->eval == NULL) return 0;
    if (trains->rank_bytes + whole_bytes(&train->eval->front.graph) <= budget_limit(train)) return 0; /* it fits whatever it is */
    arena_init(&arena);
    Build *e = fork_eval(train->eval, &arena);
    e->follows = train;
    if (build_run(e, pass_follow, NULL)) {
        build_emit(e);
        bytes = e->facts->inputs + e->facts->constants + larger(e->facts->role->arena_bytes, trains->role->arena_bytes) +
                larger(e->facts->workspace, trains->workspace);
    }
    arena_finish(&arena);
    return bytes;
}
