/* read: a plan's sections and graphs from their text. Each line is checked as it is read; ids, types and layouts are then in range (docs/plan.md). */
#include "ir/lookup.h"
#include "ir/metric.h"
#include "ir/rules.h"
#include "ir/text.h"

#include <math.h>

#include <string.h>

/* Epochs and steps of a training: their product fits. */
#define MAX_COUNT ((int64_t)1000000000)

/* ---------------------------------------------------------------- pieces of lines */

bool read_ids(Reading *reading, const char *what, const char *prefix, int limit, int max, int *at, int *n) {
    Scan *scan = &reading->scan;
    *n = 0;
    if (!scan_char(scan, '(')) return false;
    if (scan_is_char(scan, ')')) return true;
    do {
        if (*n == max) return scan_fail(scan, "more than %d %ss", max, what);
        if (*prefix && !scan_char(scan, *prefix)) return false;
        if (!scan_int(scan, what, 0, limit - 1, &at[*n])) return false;
        ++*n;
    } while (scan_is_char(scan, ','));
    return scan_char(scan, ')');
}

/* "(1, 2.5)": exactly n numbers, or "(side 4096)". Memory grows with the numbers read, not with the count that the type claims. */
static bool read_doubles(Reading *reading, const char *what, int64_t n, const double **data) {
    Scan *scan = &reading->scan;
    VEC(double) list = {0};
    double value;
    if (!scan_char(scan, '(')) return false;
    if (scan_is_keyword(scan, "side")) return side_literal(reading, what, n, data) && scan_char(scan, ')');
    do {
        if (!scan_double(scan, "a number", &value)) return false;
        if (list.n == n) return scan_fail(scan, "%s has more than the %lld numbers of its type", what, (long long)n);
        vec_push(scan->arena, &list, value);
    } while (scan_is_char(scan, ','));
    if (list.n != n) return scan_fail(scan, "%s has %d numbers, its type %lld", what, list.n, (long long)n);
    *data = list.at;
    return scan_char(scan, ')');
}

bool read_layout_number(Reading *reading, int ndim, const Layout **layout) {
    int number;
    if (!scan_int(&reading->scan, "the number of a layout", 0, reading->layouts.n - 1, &number)) return false;
    *layout = reading->layouts.at[number];
    if ((*layout)->ndim == ndim) return true;
    return scan_fail(&reading->scan, "layout %d has %d dimensions, the tensor has %d", number, (*layout)->ndim, ndim);
}

static bool read_layout(Reading *reading, int ndim, const Layout **layout) {
    *layout = NULL;
    return !scan_is_key(&reading->scan, "layout") || read_layout_number(reading, ndim, layout);
}

/* Reads the number of an entry, which must count up from 0. */
static bool read_number(Reading *reading, const char *what, int expected) {
    int number;
    if (!scan_int(&reading->scan, what, 0, INT32_MAX, &number)) return false;
    return number == expected || scan_fail(&reading->scan, "%s is %d where %d is next", what, number, expected);
}

static bool check_hidden(Reading *reading, const TensorType *type) {
    int replicas = reading->graph->replicas;
    if (!type->hidden || (replicas > 0 && type->shape.dim[0] == replicas)) return true;
    return scan_fail(&reading->scan, "the hidden dimension is %lld, the number of replicas %d", (long long)type->shape.dim[0], replicas);
}

/* ---------------------------------------------------------------- header, settings */

/* import 1 "nn.dsl": the file that @1/9:5 means. */
static bool read_imports(Reading *reading) {
    enum { MAX_SOURCES = 1 << 16 };
    Graph *graph = reading->graph;
    while (scan_is_keyword(&reading->scan, "import")) {
        int file;
        const char *name;
        if (!scan_int(&reading->scan, "the number of a file", graph->files.n > 0 ? graph->files.n : 1, MAX_SOURCES, &file) ||
            !scan_word(&reading->scan, &name) || !scan_end(&reading->scan))
            return false;
        while (graph->files.n < file)
            vec_push(graph->arena, &graph->files, NULL);
        vec_push(graph->arena, &graph->files, name);
    }
    return true;
}

bool read_head(Reading *reading) {
    Scan *scan = &reading->scan;
    Graph *graph = reading->graph;
    return scan_keyword(scan, "net") && scan_word(scan, &graph->name) && scan_end(scan) && scan_keyword(scan, "file") &&
           scan_word(scan, &graph->file) && scan_end(scan) && read_imports(reading) && scan_keyword(scan, "ranks") &&
           scan_int(scan, "the number of ranks", 1, MAX_RANKS, &graph->nranks) && scan_end(scan) && scan_keyword(scan, "replicas") &&
           scan_int(scan, "the number of replicas", 0, MAX_RANKS, &graph->replicas) && scan_end(scan);
}

static bool read_parallel(Reading *reading) {
    Scan *scan = &reading->scan;
    Settings *settings = &reading->graph->settings;
    int mode, dataset, gradients;
    bool ok = scan_keyword(scan, "parallel") && scan_key(scan, "mode") && scan_choice(scan, "mode", mode_name, NMODES, &mode) &&
              scan_key(scan, "search") && scan_word(scan, &settings->search) && scan_key(scan, "dataset") &&
              scan_choice(scan, "dataset", dataset_name, DATASET_EXPLICIT + 1, &dataset) && scan_key(scan, "gradients") &&
              scan_choice(scan, "gradients", (const char *const[]){"sum", "mean"}, 2, &gradients);
    if (!ok) return false;
    settings->mode = (Mode)mode;
    settings->dataset = (Dataset)dataset;
    settings->gradients_mean = gradients == 1;
    settings->strict_divide = scan_is_keyword(scan, "strict_divide");
    settings->bucket_bytes = BUCKET_BYTES;
    if (scan_is_key(scan, "bucket") && !scan_integer(scan, "a size in bytes", 0, INT64_MAX, &settings->bucket_bytes)) return false;
    return scan_end(scan);
}

static bool read_log(Scan *scan, Settings *settings) {
    settings->log_from_zero = scan_is_keyword(scan, "log_from_zero");
    return !scan_is_key(scan, "log") || (scan_word(scan, &settings->log) && scan_key(scan, "log_rank") &&
                                         scan_integer(scan, "log_rank", -1, INT32_MAX, &settings->log_rank));
}

static bool read_watch(Scan *scan, const char *key, Watch *watch) {
    int metric;
    if (!scan_is_key(scan, key)) return true;
    if (!scan_choice(scan, key, reported_name, 1 + NMETRICS, &metric)) return false;
    watch->metric = reported_name[metric];
    return true;
}

static bool read_watches(Scan *scan, Settings *settings) {
    Watch *stop = &settings->watch[WATCH_STOP];
    if (!read_watch(scan, "best", &settings->watch[WATCH_BEST])) return false;
    settings->restore_best = settings->watch[WATCH_BEST].metric && scan_is_keyword(scan, "restore_best");
    return read_watch(scan, "early_stop", stop) &&
           (!stop->metric || (scan_key(scan, "patience") && scan_integer(scan, "patience", 1, MAX_COUNT, &stop->patience) &&
                              scan_key(scan, "delta") && scan_double(scan, "delta", &stop->delta)));
}

static bool read_checkpoints(Scan *scan, Settings *settings) {
    int on_nan = ON_NAN_STOP;
    settings->checkpoint_epochs = scan_is_keyword(scan, "checkpoint_epochs");
    bool ok =
        (!scan_is_key(scan, "checkpoint_steps") || scan_integer(scan, "checkpoint_steps", 1, MAX_COUNT, &settings->checkpoint_steps)) &&
        (!scan_is_key(scan, "keep") || scan_integer(scan, "keep", 1, MAX_COUNT, &settings->keep));
    settings->checkpoint_per_rank = ok && scan_is_keyword(scan, "per_rank");
    ok =
        ok && read_watches(scan, settings) && (!scan_is_key(scan, "on_nan") || scan_choice(scan, "on_nan", on_nan_name, NON_NANS, &on_nan));
    settings->on_nan = (OnNan)on_nan;
    return ok;
}

static bool read_number_key(Scan *scan, const char *key, double *number) {
    return scan_key(scan, key) && scan_double(scan, key, number);
}

static bool read_precision(Scan *scan, Settings *settings) {
    static const char *const names[] = {"bf16", "f16"};
    int precision;
    if (!scan_is_key(scan, "precision")) return true;
    if (!scan_choice(scan, "precision", names, 2, &precision)) return false;
    settings->precision = precision == 0 ? BF16 : F16;
    return true;
}

static bool read_average(Scan *scan, Settings *settings) {
    settings->ema = scan_is_key(scan, "ema");
    return !settings->ema || scan_double(scan, "ema", &settings->ema_decay);
}

static bool read_schedule(Scan *scan, Schedule *schedule) {
    int kind, unit;
    if (!scan_choice(scan, "schedule", schedule_name, NSCHEDULES, &kind) || !scan_key(scan, "warmup") ||
        !scan_integer(scan, "warmup", 0, MAX_COUNT, &schedule->warmup) || !read_number_key(scan, "end", &schedule->end))
        return false;
    schedule->kind = (ScheduleKind)kind;
    if (kind == SCHEDULE_POLYNOMIAL) return read_number_key(scan, "power", &schedule->power);
    if (kind != SCHEDULE_STEP && kind != SCHEDULE_MULTISTEP) return true;
    if (!read_number_key(scan, "gamma", &schedule->gamma) || !scan_key(scan, "unit") ||
        !scan_choice(scan, "unit", schedule_unit_name, NSCHEDULE_UNITS, &unit))
        return false;
    schedule->unit = (ScheduleUnit)unit;
    if (kind == SCHEDULE_STEP) return scan_key(scan, "every") && scan_integer(scan, "every", 1, MAX_COUNT, &schedule->every);
    for (int64_t least = 1; scan_is_key(scan, "milestone"); least++) {
        if (schedule->nmilestones == MAX_MILESTONES) return scan_fail(scan, "more than %d milestones", MAX_MILESTONES);
        if (!scan_integer(scan, "milestone", least, MAX_COUNT, &least)) return false;
        schedule->milestone[schedule->nmilestones++] = least;
    }
    return schedule->nmilestones > 0 || scan_unexpected(scan, "milestone=");
}

static bool read_optimizer(Scan *scan, Settings *settings) {
    if ((settings->optimizer == OPTIMIZER_ADAM || settings->optimizer == OPTIMIZER_ADAMW || settings->optimizer == OPTIMIZER_LAMB ||
         settings->optimizer == OPTIMIZER_LAZY_ADAM) &&
        (!read_number_key(scan, "beta1", &settings->beta1) || !read_number_key(scan, "beta2", &settings->beta2) ||
         !read_number_key(scan, "eps", &settings->eps)))
        return false;
    if (settings->optimizer == OPTIMIZER_LION &&
        (!read_number_key(scan, "beta1", &settings->beta1) || !read_number_key(scan, "beta2", &settings->beta2)))
        return false;
    if (settings->optimizer == OPTIMIZER_ADAFACTOR &&
        (!read_number_key(scan, "beta2_decay", &settings->beta2_decay) || !read_number_key(scan, "eps1", &settings->eps) ||
         !read_number_key(scan, "eps2", &settings->eps2) || !read_number_key(scan, "d", &settings->d)))
        return false;
    settings->nesterov = scan_is_keyword(scan, "nesterov");
    if (scan_is_key(scan, "weight_decay") && !scan_double(scan, "weight_decay", &settings->weight_decay)) return false;
    if (scan_is_key(scan, "schedule") && !read_schedule(scan, &settings->schedule)) return false;
    return (!scan_is_key(scan, "clip") || scan_double(scan, "clip", &settings->clip)) &&
           (!scan_is_key(scan, "accumulate") || scan_integer(scan, "accumulate", 2, MAX_COUNT, &settings->accumulate)) &&
           read_average(scan, settings) && read_precision(scan, settings);
}

/* scaled decay "**.bias" by=0 */
static bool read_scales(Reading *reading) {
    Scan *scan = &reading->scan;
    Settings *settings = &reading->graph->settings;
    while (scan_is_keyword(scan, "scaled")) {
        Scale scale = {0};
        int kind;
        if (!scan_choice(scan, "a number of the optimizer", scale_name, NSCALES, &kind) || !scan_word(scan, &scale.path) ||
            !read_number_key(scan, "by", &scale.factor) || !scan_end(scan))
            return false;
        scale.kind = (ScaleKind)kind;
        vec_push(reading->graph->arena, &settings->scales, scale);
    }
    return true;
}

static bool read_train(Reading *reading) {
    Scan *scan = &reading->scan;
    Settings *settings = &reading->graph->settings;
    int optimizer;
    bool ok = scan_keyword(scan, "train") && scan_key(scan, "epochs") && scan_integer(scan, "epochs", 0, MAX_COUNT, &settings->epochs) &&
              scan_key(scan, "steps") && scan_integer(scan, "steps", 0, MAX_COUNT, &settings->steps) && scan_key(scan, "log_every") &&
              scan_integer(scan, "log_every", 0, INT64_MAX, &settings->log_every) && read_log(scan, settings) &&
              read_checkpoints(scan, settings) && scan_key(scan, "seed") && scan_unsigned(scan, "seed", 10, &settings->seed) &&
              scan_key(scan, "optimizer") && scan_choice(scan, "optimizer", optimizer_name, NOPTIMIZERS, &optimizer) &&
              scan_key(scan, "lr") && scan_double(scan, "lr", &settings->lr) && scan_key(scan, "momentum") &&
              scan_double(scan, "momentum", &settings->momentum);
    if (!ok) return false;
    settings->optimizer = (OptimizerKind)optimizer;
    return read_optimizer(scan, settings) && scan_end(scan) && read_scales(reading);
}

static bool read_dims(Reading *reading) {
    Scan *scan = &reading->scan;
    Graph *graph = reading->graph;
    while (scan_is_keyword(scan, "dim")) {
        Dim dim;
        if (!scan_word(scan, &dim.name) || !scan_integer(scan, "a size", INT64_MIN, INT64_MAX, &dim.size) || !scan_end(scan)) return false;
        vec_push(graph->arena, &graph->dims, dim);
    }
    while (scan_is_keyword(scan, "mesh")) {
        Axis axis;
        if (!scan_word(scan, &axis.name) || !scan_digit(scan, 0, &axis.digit) || !scan_end(scan)) return false;
        axis.size = axis.digit.size;
        vec_push(graph->arena, &graph->settings.mesh, axis);
    }
    return true;
}

static bool read_layouts(Reading *reading) {
    Scan *scan = &reading->scan;
    while (scan_is_keyword(scan, "layout")) {
        Layout layout;
        bool hidden;
        const char *why;
        if (!read_number(reading, "the number of a layout", reading->layouts.n)) return false;
        if (!layout_read(&scan->at, &layout, &hidden) || hidden) return scan_fail(scan, "this is no layout such as [2@4 -] +sum(4@1)");
        if (!layout_valid(&layout, reading->graph->nranks, &why)) return scan_fail(scan, "the layout is not valid: %s", why);
        if (!scan_end(scan)) return false;
        vec_push(scan->arena, &reading->layouts, graph_layout_exact(reading->graph, &layout));
    }
    return true;
}

/* ---------------------------------------------------------------- states, inputs */

static bool read_init(Reading *reading, const State *state, Init *init) {
    Scan *scan = &reading->scan;
    int kind;
    const double *pair;
    if (!scan_choice(scan, "initial value", init_name, INIT_FILE + 1, &kind)) return false;
    init->kind = (InitKind)kind;
    switch (init->kind) {
    case INIT_ZEROS:
    case INIT_ONES:
        return true;
    case INIT_NORMAL:
        return scan_char(scan, '(') && scan_double(scan, "the deviation", &init->a) && scan_char(scan, ')');
    case INIT_UNIFORM:
        if (!read_doubles(reading, "uniform", 2, &pair)) return false;
        init->a = pair[0];
        init->b = pair[1];
        return true;
    case INIT_LITERAL:
        return read_doubles(reading, "the literal", shape_elements(&state->type.shape), &init->data);
    case INIT_FILE:
        return scan_char(scan, '(') && scan_word(scan, &init->file) && scan_char(scan, ')');
    }
    return false;
}

static bool read_states(Reading *reading) {
    Scan *scan = &reading->scan;
    Graph *graph = reading->graph;
    while (scan_is_keyword(scan, "state")) {
        State state = {0};
        int id = graph->states.n;
        bool ok = read_number(reading, "the number of a state", id) && scan_word(scan, &state.name) && scan_type(scan, &state.type) &&
                  scan_key(scan, "init") && read_init(reading, &state, &state.init) &&
                  read_layout(reading, state.type.shape.ndim, &state.layout) && scan_index(scan, state.type.dtype, &state.index);
        if (!ok) return false;
        if (state.type.hidden) return scan_fail(scan, "state %d has a hidden dimension", id);
        state.trainable = scan_is_keyword(scan, "trainable");
        state.written = scan_is_keyword(scan, "written");
        state.cache = scan_is_keyword(scan, "cache");
        /* A slot's parameter may come after it: checked below. */
        state.parameter = id;
        if (scan_is_key(scan, "parameter") && !scan_int(scan, "a state", 0, INT32_MAX, &state.parameter)) return false;
        if (!scan_span(scan, &state.span) || !scan_end(scan)) return false;
        int parameter = state.parameter;
        graph_add_state(graph, state);
        graph->states.at[id].parameter = parameter;
    }
    for (int i = 0; i < graph->states.n; i++)
        if (graph->states.at[i].parameter >= graph->states.n)
            return scan_fail(scan, "state %d belongs to state %d, which does not exist", i, graph->states.at[i].parameter);
    return true;
}

/* "micro=1 of=0": batch 1 of a step; its source is that of input 0. */
static bool read_micro(Reading *reading, Input *input) {
    Scan *scan = &reading->scan;
    if (!scan_is_key(scan, "micro")) return true;
    if (reading->graph->settings.accumulate < 2) return scan_fail(scan, "a second batch of a step, and no accumulate");
    if (!scan_int(scan, "the number of a batch", 1, (int)reading->graph->settings.accumulate - 1, &input->micro) || !scan_key(scan, "of") ||
        !scan_int(scan, "an input", 0, reading->graph->inputs.n - 1, &input->of))
        return false;
    const Input *of = &reading->graph->inputs.at[input->of];
    if (of->micro > 0 || of->kind != input->kind || !type_equal(&of->type, &input->type))
        return scan_fail(scan, "input %d holds other things", input->of);
    input->file = of->file;
    input->per_rank = of->per_rank;
    input->index = of->index;
    input->row_dim = of->row_dim;
    return true;
}

/* "rows=0": the dimension of random numbers that holds the rows of the batch, each as one run. */
static bool read_rows(Reading *reading, Input *input) {
    Scan *scan = &reading->scan;
    int dim = -1;
    if (input->kind != INPUT_RANDOM || !scan_is_key(scan, "rows")) return true;
    if (!scan_int(scan, "a dimension of rows", input->type.hidden, input->type.shape.ndim - 1, &dim)) return false;
    const int64_t batch = graph_batch_rows(reading->graph); /* the inputs with data come before it */
    if (batch == 0 || input->type.shape.dim[dim] % batch != 0)
        return scan_fail(scan, "dimension %d has other rows than a batch, which has %lld", dim, (long long)batch);
    input->row_dim = dim + 1;
    return true;
}

static bool read_inputs(Reading *reading) {
    Scan *scan = &reading->scan;
    Graph *graph = reading->graph;
    Settings *settings = &graph->settings;
    while (scan_is_keyword(scan, "input")) {
        Input input = {0};
        bool ok =
            read_number(reading, "the number of an input", graph->inputs.n) && scan_word(scan, &input.name) &&
            scan_type(scan, &input.type) && read_layout(reading, input.type.shape.ndim, &input.layout) && scan_source(scan, &input) &&
            read_rows(reading, &input) && read_micro(reading, &input) &&
            (!scan_is_key(scan, "per_rank") || read_doubles(reading, "per_rank", shape_elements(&input.type.shape), &input.per_rank)) &&
            check_hidden(reading, &input.type) && scan_span(scan, &input.span) && scan_end(scan);
        if (!ok) return false;
        const bool generates = input_is_text(input.kind);
        if (generates && (!(DTYPES_INDEX >> input.type.dtype & 1) || (input.layout && !layout_is_whole(input.layout))))
            return scan_fail(scan, "input %d is of a text that is generated, and not integers on every rank", graph->inputs.n);
        if (!generates && !input_is_taken(input.kind) && (input.type.shape.ndim > 0 || !dtype_is_float(input.type.dtype)))
            return scan_fail(scan, "input %d is of the optimizer, and not one real number", graph->inputs.n);
        graph_add_input(graph, input);
    }
    int data;
    if (!scan_keyword(scan, "data") || !scan_choice(scan, "source of data", data_name, NDATA_KINDS, &data)) return false;
    settings->data = (DataKind)data;
    if (settings->data == DATA_NUMPY_RAND || settings->data == DATA_NORMAL || settings->data == DATA_UNIFORM)
        if (!scan_key(scan, "seed") || !scan_integer(scan, "seed", INT64_MIN, INT64_MAX, &settings->data_seed)) return false;
    if (settings->data == DATA_NUMPY_RAND && (!scan_key(scan, "rows") || !scan_integer(scan, "rows", 0, INT64_MAX, &settings->data_rows)))
        return false;
    if (settings->data == DATA_FILES) {
        int last, uneven = UNEVEN_JOIN;
        settings->shuffle = scan_is_key(scan, "shuffle");
        if (settings->shuffle && !scan_integer(scan, "seed", 0, INT64_MAX, &settings->shuffle_seed)) return false;
        if (!scan_key(scan, "last") || !scan_choice(scan, "treatment of the last rows", last_name, NLASTS, &last)) return false;
        if (scan_is_key(scan, "uneven") && !scan_choice(scan, "treatment of uneven rows", uneven_name, NUNEVENS, &uneven)) return false;
        settings->last = (Last)last;
        settings->uneven = (Uneven)uneven;
        if (scan_is_key(scan, "split") && !scan_split(scan, &settings->split)) return false;
    }
    for (int i = 0; settings->data == DATA_FILES && i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (input_is_of_batch(input->kind) && input->type.shape.ndim <= (input->type.hidden ? 1 : 0))
            return scan_fail(scan, "input %d has no rows", i);
    }
    for (int i = 0; settings->data == DATA_PER_RANK && i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == INPUT_DATA && !graph->inputs.at[i].per_rank)
            return scan_fail(scan, "input %d has no per_rank data", i);
    return scan_end(scan);
}

/* ---------------------------------------------------------------- graph */

/* A node line as read, before its rule is inferred. */
typedef struct NodeText {
    OpCode op;
    int id, state, version, comm;
    int nin, nout, in[MAX_IN];
    struct {
        const char *name;
        TensorType type;
        const Layout *layout;
    } out[MAX_OUT];
    Attr attr[MAX_ATTRS];
    const double *data;
} NodeText;

static bool read_attr(Reading *reading, AttrKind kind, Attr *attr) {
    Scan *scan = &reading->scan;
    attr->given = true;
    switch (kind) {
    case ATTR_NONE:
        return false;
    case ATTR_BOOL:
        return scan_integer(scan, "0 or 1", 0, 1, &attr->i);
    case ATTR_INT:
        return scan_integer(scan, "an integer", INT64_MIN, INT64_MAX, &attr->i);
    case ATTR_FLOAT:
        return scan_double(scan, "a number", &attr->f);
    case ATTR_INTS:
        if (!scan_char(scan, '[')) return false;
        if (scan_is_char(scan, ']')) return true;
        do {
            if (attr->n == MAX_NDIM) return scan_fail(scan, "more than %d integers", MAX_NDIM);
            if (!scan_integer(scan, "an integer", INT64_MIN, INT64_MAX, &attr->ints[attr->n])) return false;
            attr->n++;
        } while (scan_is_char(scan, ','));
        return scan_char(scan, ']');
    case ATTR_TEXT:
        return scan_word(scan, &attr->text);
    }
    return false;
}

static bool read_attrs(Reading *reading, NodeText *node) {
    Scan *scan = &reading->scan;
    for (int a = 0; a < MAX_ATTRS; a++)
        if (op_table[node->op].attrs[a].kind == ATTR_TEXT) node->attr[a].text = "";
    if (!scan_is_char(scan, '{')) return true;
    do {
        char name[32];
        if (!scan_name(scan, name, sizeof name)) return false;
        int a = op_attr(node->op, name);
        if (a < 0) return scan_fail(scan, "%s has no attribute '%s'", op_table[node->op].name, name);
        if (node->attr[a].given) return scan_fail(scan, "the attribute '%s' is there a second time", name);
        if (!scan_char(scan, ':') || !read_attr(reading, op_table[node->op].attrs[a].kind, &node->attr[a])) return false;
    } while (scan_is_char(scan, ','));
    return scan_char(scan, '}');
}

static bool read_results(Reading *reading, NodeText *node) {
    Scan *scan = &reading->scan;
    node->nout = 0;
    if (!scan_is_arrow(scan)) return true;
    do {
        int o = node->nout++;
        if (o == MAX_OUT) return scan_fail(scan, "more than %d results", MAX_OUT);
        bool ok = scan_char(scan, '%') && read_number(reading, "the number of a value", reading->graph->values.n + o) &&
                  scan_word(scan, &node->out[o].name) && scan_type(scan, &node->out[o].type) &&
                  read_layout(reading, node->out[o].type.shape.ndim, &node->out[o].layout) && check_hidden(reading, &node->out[o].type);
        if (!ok) return false;
    } while (scan_is_char(scan, ','));
    return true;
}

/* Reads a node line up to the attributes and data. */
static bool read_node_text(Reading *reading, NodeText *node) {
    Scan *scan = &reading->scan;
    const Graph *graph = reading->graph;
    char name[32];
    *node = (NodeText){.id = graph->nodes.n, .state = -1};
    if (!read_number(reading, "the number of a node", node->id) || !scan_name(scan, name, sizeof name)) return false;
    int op = op_find(name);
    if (op < 0) return scan_fail(scan, "unknown operator '%s'", name);
    node->op = (OpCode)op;
    if (op == OP_input && (!scan_key(scan, "input") || !scan_int(scan, "an input", 0, graph->inputs.n - 1, &node->state))) return false;
    if ((op == OP_read || op == OP_write) && (!scan_key(scan, "state") || !scan_int(scan, "a state", 0, graph->states.n - 1, &node->state)))
        return false;
    if (op == OP_read && (!scan_key(scan, "version") || !scan_int(scan, "a version", 0, 1, &node->version))) return false;
    if (op == OP_convert && (!scan_key(scan, "kind") || !scan_choice(scan, "communication", comm_name, NCOMMS, &node->comm))) return false;
    if (op_nin(node->op) > 0 && !read_ids(reading, "operand", "%", graph->values.n, MAX_IN, node->in, &node->nin)) return false;
    if (!op_takes(node->op, node->nin)) return scan_fail(scan, "%s has %d operands, not %d", name, op_nin(node->op), node->nin);
    if (!read_results(reading, node)) return false;
    if (!op_gives(node->op, node->nout)) return scan_fail(scan, "%s has %d results, not %d", name, op_nout(node->op), node->nout);
    if (!read_attrs(reading, node)) return false;
    if (op == OP_constant && scan_is_key(scan, "data"))
        return read_doubles(reading, "the constant", shape_elements(&node->out[0].type.shape), &node->data);
    return true;
}

/* Fails with the rule's text; its %0, %1 are replaced by the names of the operands. */
static bool fail_rule(Reading *reading, const NodeText *node, const RuleError *error) {
    Text text = {0};
    for (const char *at = error->text; *at; at++) {
        if (*at == '%' && at[1] >= '0' && at[1] < '0' + node->nin)
            text_printf(&text, "%.60s", reading->graph->values.at[node->in[*++at - '0']].name);
        else
            text_append(&text, at, 1);
    }
    scan_fail(&reading->scan, "node %d %s: %s", node->id, op_table[node->op].name, text.n ? text.at : "its operands do not fit");
    text_finish(&text);
    return false;
}

static bool fail_type(Reading *reading, const NodeText *node, int result, const TensorType *expected) {
    Text text = {0};
    put_type(&text, expected);
    scan_fail(&reading->scan, "node %d %s: its result %d is %s", node->id, op_table[node->op].name, result, text.at);
    text_finish(&text);
    return false;
}

static bool build_node(Reading *reading, const NodeText *text) {
    Graph *graph = reading->graph;
    Span nowhere = {0};
    if (text->op == OP_input) {
        if (!type_equal(&text->out[0].type, &graph->inputs.at[text->state].type))
            return fail_type(reading, text, 0, &graph->inputs.at[text->state].type);
        graph_input(graph, text->state);
    } else if (text->op == OP_read) {
        if (!type_equal(&text->out[0].type, &graph->states.at[text->state].type))
            return fail_type(reading, text, 0, &graph->states.at[text->state].type);
        graph_read_state(graph, text->state, text->version, text->out[0].name, nowhere);
    } else if (text->op == OP_constant) {
        graph_constant(graph, text->out[0].type, text->data, 0, text->out[0].name, nowhere);
    } else {
        RuleError error = {0};
        const char *name = text->nout ? text->out[0].name : NULL;
        if (graph_add(graph, text->op, text->in, text->nin, text->attr, name, nowhere, &error) < 0) return fail_rule(reading, text, &error);
    }
    Node *node = &graph->nodes.at[text->id];
    if (node->nout != text->nout)
        return scan_fail(&reading->scan, "node %d %s has %d results, not %d", text->id, op_table[text->op].name, node->nout, text->nout);
    if (text->op == OP_constant) node->attr = signature_of(graph, text->op, &text->out[0].type, 1, text->attr, NULL)->attr;
    node->state = text->state;
    node->comm = (CommKind)text->comm;
    for (int o = 0; o < text->nout; o++) {
        Value *value = &graph->values.at[node->out[o]];
        if (!type_equal(&value->type, &text->out[o].type)) return fail_type(reading, text, o, &value->type);
        value->name = text->out[o].name;
        value->layout = text->out[o].layout;
    }
    node->name = text->nout ? text->out[0].name : "";
    if (text->op == OP_write && !type_equal(&graph->values.at[text->in[0]].type, &graph->states.at[text->state].type))
        return scan_fail(&reading->scan, "node %d write: its operand has another type than state %d", text->id, text->state);
    return true;
}

/* "user(2@4, 4@1, -)"; the digits of all factors make a valid layout together. */
static bool read_strategy(Reading *reading, Node *node) {
    Scan *scan = &reading->scan;
    int from, nranks = reading->graph->nranks;
    if (!scan_choice(scan, "strategy", strategy_from_name, STRATEGY_WHOLE + 1, &from)) return false;
    node->from = (StrategyFrom)from;
    if (!scan_is_char(scan, '(')) return true;
    Strategy *strategy = arena_alloc(reading->graph->arena, sizeof *strategy);
    Layout all;
    layout_init(&all, 1);
    for (bool more = !scan_is_char(scan, ')'); more;) {
        int f = strategy->nfactors++;
        if (f == node->rule->nfactors) return scan_fail(scan, "the strategy is longer than the %d factors", f);
        Digit digit;
        if (!scan_is_char(scan, '-')) do {
                if (!scan_digit(scan, nranks, &digit)) return false;
                if (!strategy_append(strategy, f, digit) || !layout_append(&all, 0, digit))
                    return scan_fail(scan, "the strategy has too many digits");
            } while (scan_is_char(scan, '.'));
        more = scan_is_char(scan, ',');
        if (!more && !scan_char(scan, ')')) return false;
    }
    const char *why;
    if (strategy->nfactors != node->rule->nfactors)
        return scan_fail(scan, "the strategy has %d factors, the operator %d", strategy->nfactors, node->rule->nfactors);
    if (!layout_valid(&all, nranks, &why)) return scan_fail(scan, "the strategy is not valid: %s", why);
    node->strategy = strategy;
    return true;
}

static bool read_origin(Reading *reading, Node *node, int id) {
    Scan *scan = &reading->scan;
    if (!scan_int(scan, "the origin", 0, id - 1, &node->origin) || !scan_key(scan, "factors") || !scan_char(scan, '(')) return false;
    int theirs = reading->graph->nodes.at[node->origin].rule->nfactors;
    for (int f = 0; f < node->rule->nfactors; f++) {
        int factor = -1;
        if (f && !scan_char(scan, ',')) return false;
        if (!scan_is_char(scan, '-') && !scan_int(scan, "a factor of the origin", 0, theirs - 1, &factor)) return false;
        node->origin_factor[f] = (int8_t)factor;
    }
    return scan_char(scan, ')');
}

static bool read_node(Reading *reading) {
    Scan *scan = &reading->scan;
    NodeText text;
    if (!read_node_text(reading, &text) || !build_node(reading, &text)) return false;
    Node *node = &reading->graph->nodes.at[text.id];
    if (scan_is_key(scan, "strategy") && !read_strategy(reading, node)) return false;
    if (scan_is_key(scan, "origin") && !read_origin(reading, node, text.id)) return false;
    if (scan_is_key(scan, "copy") && !scan_int(scan, "the node that is computed again", 1, text.id - 1, &node->copy_of)) return false;
    if (scan_is_key(scan, "name") && !scan_word(scan, &node->name)) return false;
    return scan_span(scan, &node->span) && scan_end(scan);
}

static bool read_nodes(Reading *reading) {
    Scan *scan = &reading->scan;
    Graph *graph = reading->graph;
    int loss = -1, nforward;
    if (!scan_keyword(scan, "graph") || !scan_key(scan, "loss")) return false;
    bool none = scan_is_keyword(scan, "none");
    if (!none && (!scan_char(scan, '%') || !scan_int(scan, "the loss", 0, INT32_MAX, &loss))) return false;
    if (!scan_key(scan, "forward") || !scan_int(scan, "the number of forward nodes", 0, INT32_MAX, &nforward) || !scan_end(scan))
        return false;
    const int lines = scan_lines(scan);
    vec_reserve(graph->arena, &graph->nodes, lines);
    vec_reserve(graph->arena, &graph->values, lines);
    while (scan_is_keyword(scan, "node"))
        if (!read_node(reading)) return false;
    while (scan_is_keyword(scan, "report")) {
        Report report = {0};
        if (!scan_word(scan, &report.name) || !scan_char(scan, '%') || !scan_int(scan, "a value", 0, graph->values.n - 1, &report.value))
            return false;
        report.whole = scan_is_keyword(scan, "whole");
        if (!scan_end(scan)) return false;
        vec_push(graph->arena, &graph->reports, report);
    }
    if (loss >= graph->values.n) return scan_fail(scan, "the loss %%%d is no value of the graph", loss);
    if (nforward > graph->nodes.n) return scan_fail(scan, "%d forward nodes of %d nodes", nforward, graph->nodes.n);
    graph->loss = loss;
    graph->nforward = nforward;
    return true;
}

bool read_sections(Reading *reading) {
    return read_parallel(reading) && read_train(reading) && read_dims(reading) && read_layouts(reading) && read_states(reading) &&
           read_inputs(reading) && read_nodes(reading);
}

bool read_eval(Reading *reading) {
    Scan *scan = &reading->scan;
    Settings *settings = &reading->graph->settings;
    int when;
    if (!scan_key(scan, "every") || !scan_choice(scan, "time of an evaluation", eval_name, NEVALS, &when)) return false;
    settings->eval = (EvalWhen)when;
    if (when == EVAL_STEPS && !scan_integer(scan, "a number of steps", 1, MAX_COUNT, &settings->eval_steps)) return false;
    settings->epochs = 1;
    settings->accumulate = 0;
    settings->shuffle = false;
    settings->split = (RowSplit){0};
    return scan_key(scan, "steps") && scan_integer(scan, "steps", 0, MAX_COUNT, &settings->steps) && scan_end(scan) &&
           read_inputs(reading) && read_nodes(reading);
}

bool read_over(Reading *reading) {
    return scan_end(&reading->scan) && read_inputs(reading) && read_nodes(reading);
}

bool read_generate(Reading *reading) {
    Scan *scan = &reading->scan;
    Graph *graph = reading->graph;
    Settings *settings = &graph->settings;
    const State *shared = graph->states.at;
    const int nstates = graph->states.n;
    memset(&graph->states, 0, sizeof graph->states); /* the graph's caches come after the plan's states */
    for (int s = 0; s < nstates; s++)
        vec_push(graph->arena, &graph->states, shared[s]);
    settings->data = DATA_NONE;
    settings->epochs = settings->steps = 1;
    settings->accumulate = 0;
    settings->shuffle = false;
    settings->end = -1;
    if (!scan_key(scan, "temperature") || !scan_double(scan, "a temperature", &settings->temperature) || !scan_key(scan, "top_k") ||
        !scan_integer(scan, "a number of tokens", 0, INT32_MAX, &settings->top_k) || !scan_key(scan, "seed") ||
        !scan_integer(scan, "a seed", 0, INT64_MAX, &settings->draw_seed) ||
        (scan_is_key(scan, "end") && !scan_integer(scan, "a token", 0, INT32_MAX, &settings->end)) ||
        (scan_is_key(scan, "alphabet") && !scan_word(scan, &settings->alphabet)) || !scan_end(scan) || !read_states(reading))
        return false;
    if (!(settings->temperature >= 0)) return scan_fail(scan, "the temperature is below 0");
    for (int s = 0; s < graph->states.n; s++)
        if (graph->states.at[s].cache != (s >= nstates))
            return scan_fail(scan, "state %d '%.60s' is %s cache", s, graph->states.at[s].name, s >= nstates ? "no" : "a");
    return read_inputs(reading) && read_nodes(reading);
}

bool graph_read(Graph *graph, Arena *arena, const char *name, const char *text, size_t n, Error *error) {
    graph_init(graph, arena);
    if (n > INT32_MAX) return error_set(error, EXIT_REJECTED, "%s: too large for a graph: %zu bytes", name, n);
    const char *copy = arena_copy(arena, text, n);
    Reading reading = {.scan = {arena, name, copy, copy + n, 1, error}, .graph = graph};
    Scan *scan = &reading.scan;
    int format;
    if (!scan_is_keyword(scan, "pcc-graph"))
        return error_set(error, EXIT_REJECTED, "%s: not a graph: its first line is not 'pcc-graph %d'", name, PLAN_FORMAT);
    if (!scan_int(scan, "the format", 0, INT32_MAX, &format)) return false;
    if (format != PLAN_FORMAT) return scan_fail(scan, "this is format %d of graphs; format %d is read here", format, PLAN_FORMAT);
    if (!scan_end(scan) || !read_head(&reading) || !read_sections(&reading)) return false;
    return scan->at == scan->end || scan_unexpected(scan, "a node or the end of the text");
}
