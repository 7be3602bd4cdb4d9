/* diff: what two plans do differently: layouts of every operator's tensors, of states and inputs, communication, fused steps, memory, steps. Both are read
 * as prun reads them; nothing but the plans is needed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/commands.h"
#include "compiler/facts.h"
#include "compiler/name.h"
#include "report/json.h"

enum { MAX_PLAN_BYTES = 1 << 30 };

/* What a plan does about one thing. */
typedef struct Row {
    const char *key, *text;
    int order; /* among those of the plan */
} Row;
typedef VEC(Row) Rows;

typedef enum { ROWS_STRATEGIES, ROWS_LAYOUTS, ROWS_COMMUNICATIONS, ROWS_FUSED, NROWS } RowKind;
static const char *const rows_name[NROWS] = {"strategies", "layouts", "communications", "fused"};

typedef enum {
    TOTAL_COMMUNICATIONS,
    TOTAL_RECEIVED,
    TOTAL_SENT,
    TOTAL_ARENA,
    TOTAL_INNER,
    TOTAL_STATES,
    TOTAL_INPUTS,
    TOTAL_STEPS,
    NTOTALS
} TotalId;
/* received: bytes of all ranks; sent: of the busiest rank; the others: bytes of a rank, or counts. */
static const struct {
    const char *key, *shown;
    bool bytes;
} total_spec[NTOTALS] = {
    [TOTAL_COMMUNICATIONS] = {"communications", "communications", false},
    [TOTAL_RECEIVED] = {"received", "received a step, all ranks", true},
    [TOTAL_SENT] = {"sent", "sent a step, busiest rank", true},
    [TOTAL_ARENA] = {"arena", "arena of a rank", true},
    [TOTAL_INNER] = {"inner", "inner values of a rank", true},
    [TOTAL_STATES] = {"states", "states of a rank", true},
    [TOTAL_INPUTS] = {"inputs", "inputs of a rank", true},
    [TOTAL_STEPS] = {"steps", "steps", false},
};

typedef struct Side {
    const char *path;
    PlanFiles files;
    Plan plan;
    const Graph *graph; /* of the program that is surveyed */
    const char *prefix; /* of its keys: "", or "eval: " */
    Rows rows[NROWS];
    int64_t total[NTOTALS];
} Side;

/* ---------------------------------------------------------------- one plan */

static const char *layout_at(Arena *arena, const Side *side, const Role *role, int instance) {
    const Instance *at = &role->instances.at[instance];
    return layout_named(arena, side->graph, at->layout, side->graph->values.at[at->value].type.hidden);
}

static void add_row(Arena *arena, Side *side, RowKind kind, const char *key, const char *text) {
    Row row = {.key = side->prefix[0] ? arena_printf(arena, "%s%s", side->prefix, key) : key, .text = text, .order = side->rows[kind].n};
    vec_push(arena, &side->rows[kind], row);
}

static const char *list_text(Arena *arena, const Side *side, const Role *role, const int *instance, int n) {
    Text text = {0};
    for (int i = 0; i < n; i++)
        text_printf(&text, "%s%s", i ? ", " : "", layout_at(arena, side, role, instance[i]));
    const char *copy = text.n > 0 ? arena_copy(arena, text.at, text.n) : "";
    text_finish(&text);
    return copy;
}

static const char *kernel_name(Arena *arena, const Side *side, const Step *step) {
    const Node *node = &side->graph->nodes.at[step->node];
    const char *op = op_table[step->op].name;
    return strcmp(op, node->name) == 0 ? op : arena_printf(arena, "%s %s", op, node->name);
}

static void add_kernel(Arena *arena, Side *side, const Role *role, const Step *step) {
    const char *in = list_text(arena, side, role, step->in, step->nin), *out = list_text(arena, side, role, step->out, step->nout);
    add_row(arena, side, ROWS_STRATEGIES, kernel_name(arena, side, step), arena_printf(arena, "%s => %s", in, out));
}

/* Adds a fused step of n members: the operators after its first one, and those whose results lie in no memory. */
static void add_fused(Arena *arena, Side *side, const Role *role, const Step *member, int n) {
    Text text = {0};
    int ninner = 0;
    for (int i = 1; i < n; i++)
        text_printf(&text, "%s%s", i == 1 ? "with " : ", ", kernel_name(arena, side, &member[i]));
    for (int i = 0; i < n; i++)
        if (role->instances.at[member[i].out[0]].place == PLACE_INNER)
            text_printf(&text, "%s%s", ninner++ == 0 ? "; without memory: " : ", ", side->graph->nodes.at[member[i].node].name);
    add_row(arena, side, ROWS_FUSED, kernel_name(arena, side, member), arena_copy(arena, text.at, text.n));
    text_finish(&text);
}

/* conversions: per value of the graph, what is done to it so far, NULL: nothing. */
static void add_communication(Arena *arena, const Side *side, const Role *role, const Communication *made, const char **conversions) {
    const char *before = conversions[made->value];
    const int64_t bytes = made->received.total;
    conversions[made->value] =
        arena_printf(arena, "%s%s%s %s -> %s%s%s", before != NULL ? before : "", before != NULL ? "; " : "", comm_name[made->kind],
                     layout_at(arena, side, role, made->from), layout_at(arena, side, role, made->to), bytes > 0 ? ", " : "",
                     bytes > 0 ? bytes_named(arena, bytes) : "");
}

/* What several roles do together, or all need. */
typedef struct Shared {
    bool *said;     /* per request */
    int64_t inputs; /* of the rank that holds most */
} Shared;

/* Whether a communication is to be counted: where the role receives, and no role before it did. */
static bool is_first(const Role *role, const Communication *made, Shared *shared) {
    const Step *step = &role->steps.at[made->step];
    if (step->kind != STEP_START) return true;
    if (shared->said[step->request] || role->instances.at[made->to].place == PLACE_ELSEWHERE) return false;
    return shared->said[step->request] = true;
}

static void survey_role(Arena *arena, Side *side, const Program *program, int number, Shared *shared) {
    const Graph *g = side->graph;
    const Role *role = &program->roles.at[number];
    const char **conversions = arena_alloc(arena, sizeof *conversions * (size_t)(g->values.n + 1));
    Facts facts;
    facts_init(&facts, g, program, number, NULL, arena);
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_KERNEL) add_kernel(arena, side, role, &role->steps.at[s]);
    for (int s = 0, n; s < role->steps.n; s += n)
        if ((n = fused_length(role, s)) > 1) add_fused(arena, side, role, &role->steps.at[s], n);
    int64_t received = 0;
    for (int i = 0; i < facts.communications.n; i++) {
        if (!is_first(role, &facts.communications.at[i], shared)) continue;
        add_communication(arena, side, role, &facts.communications.at[i], conversions);
        received += facts.communications.at[i].received.total;
    }
    for (int v = 0; v < g->values.n; v++)
        if (conversions[v] != NULL) add_row(arena, side, ROWS_COMMUNICATIONS, g->values.at[v].name, conversions[v]);
    if (role->arena_bytes > side->total[TOTAL_ARENA]) side->total[TOTAL_ARENA] = role->arena_bytes;
    if (facts.inner > side->total[TOTAL_INNER]) side->total[TOTAL_INNER] = facts.inner;
    if (facts.states > side->total[TOTAL_STATES]) side->total[TOTAL_STATES] = facts.states;
    if (facts.inputs > shared->inputs) shared->inputs = facts.inputs;
    if (g != &side->plan.graph) return; /* the others are of a step of training */
    side->total[TOTAL_RECEIVED] += received;
    side->total[TOTAL_STEPS] += role->steps.n;
}

static void survey_inputs(Arena *arena, Side *side) {
    const Graph *g = side->graph;
    for (int i = 0; i < g->inputs.n; i++) {
        const Input *input = &g->inputs.at[i];
        if (input->layout == NULL) continue;
        add_row(arena, side, ROWS_LAYOUTS, arena_printf(arena, "input %s", input->name),
                layout_named(arena, g, input->layout, input->type.hidden));
    }
}

static void survey(Arena *arena, Side *side) {
    const Graph *g = side->graph = &side->plan.graph;
    side->prefix = "";
    for (int s = 0; s < g->states.n; s++) {
        const State *state = &g->states.at[s];
        if (state->layout == NULL) continue; /* of a plan without a program */
        add_row(arena, side, ROWS_LAYOUTS, arena_printf(arena, "state %s", state->name), layout_named(arena, g, state->layout, false));
    }
    survey_inputs(arena, side);
    for (int p = 0; p < side->plan.programs.n; p++) {
        const Program *program = &side->plan.programs.at[p];
        side->graph = program->graph != NULL ? program->graph : g;
        side->prefix = program->graph != NULL ? arena_printf(arena, "%s: ", program->name) : "";
        if (program->graph != NULL) survey_inputs(arena, side);
        if (program->graph == NULL) side->total[TOTAL_SENT] += program->sent_bytes;
        if (program->graph == NULL) side->total[TOTAL_COMMUNICATIONS] += program_requests(program);
        Shared shared = {.said = arena_alloc(arena, (size_t)program_requests(program) + 1)};
        for (int r = 0; r < program->roles.n; r++)
            survey_role(arena, side, program, r, &shared);
        side->total[TOTAL_INPUTS] += shared.inputs;
    }
}

/* ---------------------------------------------------------------- two plans */

/* One difference; text[i] NULL: plan i has no such thing. */
typedef struct Change {
    const char *key, *text[2];
} Change;
typedef VEC(Change) Changes;

static int by_key(const void *a, const void *b) {
    const Row *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

static Row *sorted(Arena *arena, const Rows *rows) {
    Row *copy = arena_alloc(arena, sizeof *copy * (size_t)(rows->n + 1));
    if (rows->n > 0) memcpy(copy, rows->at, sizeof *copy * (size_t)rows->n);
    qsort(copy, (size_t)rows->n, sizeof *copy, by_key);
    return copy;
}

/* Which row of b each row of a is compared with, in the plans' order: equal keys in turn (a value can be made twice); -1: none. */
static void pair_up(Arena *arena, const Rows *a, const Rows *b, int *of_a, int *of_b) {
    const Row *x = sorted(arena, a), *y = sorted(arena, b);
    for (int i = 0; i < a->n; i++)
        of_a[i] = -1;
    for (int i = 0; i < b->n; i++)
        of_b[i] = -1;
    for (int i = 0, k = 0; i < a->n && k < b->n;) {
        int order = strcmp(x[i].key, y[k].key);
        if (order == 0) {
            of_a[x[i].order] = y[k].order;
            of_b[y[k].order] = x[i].order;
        }
        i += order <= 0;
        k += order >= 0;
    }
}

static Changes compare(Arena *arena, const Rows *a, const Rows *b) {
    Changes changes = {0};
    int *of_a = arena_alloc(arena, sizeof *of_a * (size_t)(a->n + 1)), *of_b = arena_alloc(arena, sizeof *of_b * (size_t)(b->n + 1));
    pair_up(arena, a, b, of_a, of_b);
    for (int i = 0; i < a->n; i++) {
        const char *other = of_a[i] >= 0 ? b->at[of_a[i]].text : NULL;
        if (other == NULL || strcmp(a->at[i].text, other) != 0) vec_push(arena, &changes, (Change){a->at[i].key, {a->at[i].text, other}});
    }
    for (int i = 0; i < b->n; i++)
        if (of_b[i] < 0) vec_push(arena, &changes, (Change){b->at[i].key, {NULL, b->at[i].text}});
    return changes;
}

typedef struct Difference {
    const Side *side[2];
    bool nets, ranks, options;
    Changes changes[NROWS];
    bool any;
} Difference;

static void find_difference(Arena *arena, const Side *a, const Side *b, Difference *difference) {
    *difference = (Difference){.side = {a, b},
                               .nets = a->plan.net_hash != b->plan.net_hash,
                               .ranks = a->plan.graph.nranks != b->plan.graph.nranks || a->plan.graph.replicas != b->plan.graph.replicas,
                               .options = strcmp(a->plan.options, b->plan.options) != 0};
    difference->any = difference->nets || difference->ranks || difference->options;
    for (int k = 0; k < NROWS; k++) {
        difference->changes[k] = compare(arena, &a->rows[k], &b->rows[k]);
        difference->any = difference->any || difference->changes[k].n > 0;
    }
    for (int t = 0; t < NTOTALS; t++)
        difference->any = difference->any || a->total[t] != b->total[t];
}

/* ---------------------------------------------------------------- as text, as JSON */

static const char *total_text(Arena *arena, TotalId id, int64_t value) {
    return total_spec[id].bytes ? bytes_named(arena, value) : arena_printf(arena, "%" PRId64, value);
}

static void print_text(Text *text, Arena *arena, const Difference *difference) {
    const Side *a = difference->side[0], *b = difference->side[1];
    if (!difference->any) {
        text_printf(text, "%s and %s do the same\n", a->path, b->path);
        return;
    }
    text_printf(text, "--- %s\n+++ %s\n", a->path, b->path);
    if (difference->nets)
        text_printf(text, "the nets differ: %s (%016" PRIx64 ") and %s (%016" PRIx64 ")\n", a->plan.graph.name, a->plan.net_hash,
                    b->plan.graph.name, b->plan.net_hash);
    if (difference->ranks)
        text_printf(text, "ranks %d -> %d, replicas %d -> %d\n", a->plan.graph.nranks, b->plan.graph.nranks, a->plan.graph.replicas,
                    b->plan.graph.replicas);
    if (difference->options) text_printf(text, "options\n  - %s\n  + %s\n", a->plan.options, b->plan.options);
    for (int k = 0; k < NROWS; k++) {
        const Changes *changes = &difference->changes[k];
        if (changes->n > 0) text_printf(text, "%s: %d\n", rows_name[k], changes->n);
        for (int i = 0; i < changes->n; i++) {
            text_printf(text, "  %s\n", changes->at[i].key);
            for (int s = 0; s < 2; s++)
                if (changes->at[i].text[s] != NULL) text_printf(text, "    %c %s\n", s == 0 ? '-' : '+', changes->at[i].text[s]);
        }
    }
    for (int t = 0; t < NTOTALS; t++)
        text_printf(text, a->total[t] == b->total[t] ? "%-28s %s\n" : "%-28s %s -> %s\n", total_spec[t].shown,
                    total_text(arena, (TotalId)t, a->total[t]), total_text(arena, (TotalId)t, b->total[t]));
}

static void print_json(Text *text, Arena *arena, const Difference *difference) {
    const Side *a = difference->side[0], *b = difference->side[1];
    Json json = {.text = text};
    json_object(&json, NULL);
    json_bool(&json, "same", !difference->any);
    json_bool(&json, "same_net", !difference->nets);
    for (int s = 0; s < 2; s++) {
        const Plan *plan = &difference->side[s]->plan;
        json_row(&json, s == 0 ? "a" : "b");
        json_text(&json, "file", difference->side[s]->path);
        json_text(&json, "net", plan->graph.name);
        json_text(&json, "hash", arena_printf(arena, "%016" PRIx64, plan->net_hash));
        json_int(&json, "ranks", plan->graph.nranks);
        json_int(&json, "replicas", plan->graph.replicas);
        json_text(&json, "options", plan->options);
        json_end(&json);
    }
    for (int k = 0; k < NROWS; k++) {
        json_array(&json, rows_name[k]);
        for (int i = 0; i < difference->changes[k].n; i++) {
            const Change *change = &difference->changes[k].at[i];
            json_row(&json, NULL);
            json_text(&json, "name", change->key);
            json_text(&json, "a", change->text[0]);
            json_text(&json, "b", change->text[1]);
            json_end(&json);
        }
        json_end(&json);
    }
    json_object(&json, "totals");
    for (int t = 0; t < NTOTALS; t++) {
        json_row(&json, total_spec[t].key);
        json_int(&json, "a", a->total[t]);
        json_int(&json, "b", b->total[t]);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
}

/* ---------------------------------------------------------------- the command */

typedef struct DiffOptions {
    const char *path[2];
    bool as_json;
    const char *report, *machine; /* NULL: none; the default */
} DiffOptions;

static void help(FILE *out) {
    fputs("usage: pcc --diff [--json] [--report FILE] A.plan B.plan\n"
          "Says what two plans do differently: layouts, communication, fused steps, memory, steps.\n"
          "  --json          as one JSON object\n"
          "  --report FILE   an HTML page of both beside each other; --machine as pcc takes it: where steps are predicted\n"
          "Of an option that is given again the last one counts.\n"
          "Exit codes: 0 the same, 1 different, 2 usage, 3 a plan cannot be read.\n",
          out);
}

static int fail(const Error *error) {
    if (!error->reported) fprintf(stderr, "pcc --diff: %s\n", error->text);
    return error->code;
}

static bool open_side(Arena *arena, Side *side, Error *error) {
    if (!plan_files_read(&side->files, arena, side->path, MAX_PLAN_BYTES, error) ||
        !plan_read_files(&side->plan, arena, side->path, &side->files, 0, error)) {
        error->code = EXIT_ENVIRONMENT;
        return false;
    }
    survey(arena, side);
    return true;
}

static bool find_machine(const char *name, Machine *machine, Arena *arena, Error *error) {
    Diags diags;
    diags_init(&diags, arena);
    *machine = machine_cpu;
    const bool found = name == NULL || machine_find(name, arena, &diags, machine, error);
    diags_print(&diags, stderr);
    return found;
}

static int diff(const DiffOptions *options, Arena *arena) {
    Side side[2] = {{.path = options->path[0]}, {.path = options->path[1]}};
    const Plan *const plans[2] = {&side[0].plan, &side[1].plan};
    Difference difference;
    Machine machine;
    Error error = {0};
    for (int s = 0; s < 2; s++)
        if (!open_side(arena, &side[s], &error)) return fail(&error);
    if (options->report != NULL && (!find_machine(options->machine, &machine, arena, &error) ||
                                    !diff_report(options->report, options->path, plans, &machine, arena, &error)))
        return fail(&error);
    find_difference(arena, &side[0], &side[1], &difference);
    Text text = {0};
    (options->as_json ? print_json : print_text)(&text, arena, &difference);
    fwrite(text.at, 1, text.n, stdout);
    text_finish(&text);
    return difference.any ? EXIT_REJECTED : EXIT_DONE;
}

static int usage(const char *format, const char *word) {
    fprintf(stderr, format, word);
    help(stderr);
    return EXIT_USAGE;
}

/* The value of an option that takes one: after '=', or the next word. NULL: it is another option, or there is no value. */
static const char *value_of(const char *option, int argc, char **argv, int *i) {
    const size_t n = strlen(option);
    if (strncmp(argv[*i], option, n) != 0) return NULL;
    if (argv[*i][n] == '=' && argv[*i][n + 1] != '\0') return argv[*i] + n + 1;
    return argv[*i][n] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

int diff_command(int argc, char **argv) {
    DiffOptions options = {0};
    int npaths = 0;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--json") == 0) {
            options.as_json = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            help(stdout);
            return EXIT_DONE;
        } else if ((value = value_of("--report", argc, argv, &i)) != NULL) {
            options.report = value;
        } else if ((value = value_of("--machine", argc, argv, &i)) != NULL) {
            options.machine = value;
        } else if (strcmp(argv[i], "--report") == 0 || strcmp(argv[i], "--machine") == 0) {
            return usage("pcc --diff: %s takes an argument\n", argv[i]);
        } else if (argv[i][0] == '-') {
            return usage("pcc --diff: unknown option '%s'\n", argv[i]);
        } else if (npaths == 2) {
            return usage("pcc --diff: two plans at a time, not '%s' too\n", argv[i]);
        } else {
            options.path[npaths++] = argv[i];
        }
    }
    if (options.machine != NULL && options.report == NULL) return usage("%s", "pcc --diff: --machine is of a report: add --report FILE\n");
    if (npaths < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    Arena arena;
    arena_init(&arena);
    int code = diff(&options, &arena);
    arena_finish(&arena);
    return code;
}
