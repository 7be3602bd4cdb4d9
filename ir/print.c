/* print: the text of a graph and of a plan's sections, and the hash of a net (docs/plan.md). */
#include "ir/lookup.h"
#include "ir/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const init_name[] = {"zeros", "ones", "normal", "uniform", "literal", "file"};
const char *const dataset_name[] = {"auto", "data_parallel", "full_batch", "explicit"};
const char *const data_name[] = {"none", "numpy_rand", "per_rank", "files", "normal", "uniform"};
const char *const file_element_name[] = {"u8", "i8", "i16", "i32", "i64", "f32", "f64", "f16", "bf16"};
const char *const missing_name[] = {"error", "drop", "mean", "fill"}, *const token_part_name[] = {"none", "ids", "mask", "types"};
const char *const tokenizer_name[] = {"wordpiece", "bytes", "characters"};
const char *const file_format_name[] = {"none", "npy", "idx", "csv", "raw", "cifar10", "pictures", "normal", "uniform"};
const char *const input_kind_name[] = {"data", "row_weight", "rate", "update", "random", "token", "place"};
const char *const shard_states_name[] = {"none", "optimizer", "gradients", "parameters"};
const char *const regather_name[] = {"none", "parameters", "all"};
const char *const last_name[] = {"drop", "pad", "short"};
const char *const uneven_name[] = {"join", "pad", "drop"};
const char *const eval_name[] = {"never", "epoch", "steps", "end"};
const char *const on_nan_name[] = {"stop", "go"};
const char *const schedule_name[] = {"constant", "linear", "cosine", "polynomial", "inverse_sqrt", "step", "multistep"};
const char *const schedule_unit_name[] = {"epochs", "steps"};
const char *const scale_name[] = {"lr", "decay"};
const char *const optimizer_name[] = {"none", "sgd", "momentum", "adam", "adamw", "lion", "lamb", "lazy_adam", "adafactor"};

/* ---------------------------------------------------------------- tokens */

void put(Text *text, const char *word) {
    text_append(text, word, strlen(word));
}

void put_int(Text *text, int64_t value) {
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0) *--at = '-';
    text_append(text, at, (size_t)(digits + sizeof digits - at));
}

void put_double(Text *text, double value) {
    if (isnan(value)) {
        put(text, "nan");
        return;
    }
    if (fabs(value) < 1e15 && value == (double)(int64_t)value && !(value == 0 && signbit(value))) {
        put_int(text, (int64_t)value);
        return;
    }
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    put(text, digits);
}

void put_quoted(Text *text, const char *word) {
    put(text, "\"");
    for (const char *at = word ? word : ""; *at;) {
        const char *plain = at;
        while ((unsigned char)*at >= ' ' && *at != '"' && *at != '\\' && *at != 0x7f)
            at++;
        text_append(text, plain, (size_t)(at - plain));
        if (*at == '"' || *at == '\\')
            text_append(text, (char[]){'\\', *at}, 2);
        else if (*at)
            text_printf(text, "\\x%02x", (unsigned char)*at);
        if (*at) at++;
    }
    put(text, "\"");
}

void put_word(Text *text, const char *word) {
    const char *bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    size_t n = word ? strspn(word, bare) : 0;
    if (n == 0 || word[n] != '\0')
        put_quoted(text, word);
    else
        text_append(text, word, n);
}

/* As type_print, without printf: there is one on every line. */
void put_type(Text *text, const TensorType *type) {
    put(text, dtype_name[type->dtype]);
    put(text, "[");
    for (int i = 0; i < type->shape.ndim; i++) {
        if (i) put(text, type->hidden && i == 1 ? " " : ", ");
        put_int(text, type->shape.dim[i]);
        if (type->hidden && i == 0) put(text, " |");
    }
    put(text, "]");
}

void put_ints(Text *text, const int *at, int n) {
    put(text, "(");
    for (int i = 0; i < n; i++) {
        if (i) put(text, ", ");
        put_int(text, at[i]);
    }
    put(text, ")");
}

static void put_key(Text *text, const char *key, int64_t value) {
    put(text, " ");
    put(text, key);
    put(text, "=");
    put_int(text, value);
}

static void put_doubles(Text *text, const double *at, int64_t n) {
    char last[48];
    size_t length = 0; /* of the last number, with the comma before it: masks and tables have runs of equal numbers */
    put(text, "(");
    for (int64_t i = 0; i < n; i++) {
        if (i > 1 && memcmp(&at[i], &at[i - 1], sizeof *at) == 0) {
            text_append(text, last, length);
            continue;
        }
        const size_t begin = text->n;
        if (i) put(text, ", ");
        put_double(text, at[i]);
        length = text->n - begin;
        memcpy(last, text->at + begin, length);
    }
    put(text, ")");
}

/* Puts a literal into the text, or for a long one its place in the side file. */
static void put_literal(Printing *printing, const double *at, int64_t n) {
    if (printing->side_at < 0 || !side_takes(n)) {
        put_doubles(printing->text, at, n);
        return;
    }
    text_printf(printing->text, "(side %lld)", (long long)printing->side_at);
    printing->side_at += n * (int64_t)sizeof *at;
}

static void put_digits(Text *text, const Digit *at, int n) {
    if (n == 0) put(text, "-");
    for (int i = 0; i < n; i++) {
        if (i) put(text, ".");
        put_int(text, at[i].size);
        put(text, "@");
        put_int(text, at[i].stride);
    }
}

void attr_print(Text *text, OpCode op, const Node *node) {
    int n = 0;
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++) {
        const Attr *attr = &node->attr[a];
        if (!attr->given) continue;
        put(text, n++ ? ", " : "{");
        put(text, op_table[op].attrs[a].name);
        put(text, ": ");
        switch (op_table[op].attrs[a].kind) {
        case ATTR_NONE:
            break;
        case ATTR_BOOL:
        case ATTR_INT:
            put_int(text, attr->i);
            break;
        case ATTR_FLOAT:
            put_double(text, attr->f);
            break;
        case ATTR_INTS:
            put(text, "[");
            for (int i = 0; i < attr->n; i++) {
                if (i) put(text, ", ");
                put_int(text, attr->ints[i]);
            }
            put(text, "]");
            break;
        case ATTR_TEXT:
            put_quoted(text, attr->text);
            break;
        }
    }
    if (n) put(text, "}");
}

/* ---------------------------------------------------------------- numbers of values and layouts */

void printing_init(Printing *printing, Text *text, const Graph *graph) {
    *printing = (Printing){.text = text, .side_at = -1};
    arena_init(&printing->arena);
    printing_turn(printing, graph);
}

void printing_turn(Printing *printing, const Graph *graph) {
    printing->graph = graph;
    /* Passes may leave values without a node, or out of order; the text numbers them densely, in order of definition. */
    printing->value = arena_alloc(&printing->arena, sizeof *printing->value * ((size_t)graph->values.n + 1));
    for (int v = 0; v < graph->values.n; v++)
        printing->value[v] = -1;
    int next = 0;
    for (int i = 0; i < graph->nodes.n; i++)
        for (int o = 0; o < graph->nodes.at[i].nout; o++)
            printing->value[graph->nodes.at[i].out[o]] = next++;
}

void printing_finish(Printing *printing) {
    arena_finish(&printing->arena);
}

int printing_layout(Printing *printing, const Layout *layout) {
    LayoutNumbers *numbers = &printing->layouts;
    const uint64_t hash = layout_hash(layout);
    map_each(&numbers->map, hash, i) if (numbers->at.at[i] == layout || layout_equal(numbers->at.at[i], layout)) return i;
    map_add(&printing->arena, &numbers->map, hash, numbers->at.n);
    vec_push(&printing->arena, &numbers->at, layout);
    return numbers->at.n - 1;
}

static void put_layout(Printing *printing, const Layout *layout) {
    if (layout && !printing->net) put_key(printing->text, "layout", printing_layout(printing, layout));
}

void put_value(const Printing *printing, int value) {
    put(printing->text, "%");
    if (value < 0 || value >= printing->graph->values.n || printing->value[value] < 0)
        put(printing->text, "?"); /* in a graph that does not verify: it is shown, but cannot be read back */
    else
        put_int(printing->text, printing->value[value]);
}

static void put_span(const Printing *printing, Span span) {
    if (printing->net || span.line <= 0 || !graph_file(printing->graph, span)) return;
    put(printing->text, " @");
    if (span.file > 0) {
        put_int(printing->text, span.file);
        put(printing->text, "/");
    }
    put_int(printing->text, span.line);
    put(printing->text, ":");
    put_int(printing->text, span.column);
}

/* ---------------------------------------------------------------- sections */

void print_head(Printing *printing) {
    Text *text = printing->text;
    const Graph *graph = printing->graph;
    put(text, "net ");
    put_word(text, graph->name);
    put(text, "\nfile ");
    put_quoted(text, graph->file);
    for (int i = 1; i < graph->files.n; i++) {
        if (!graph->files.at[i]) continue;
        text_printf(text, "\nimport %d ", i);
        put_quoted(text, graph->files.at[i]);
    }
    text_printf(text, "\nranks %d\nreplicas %d\n", graph->nranks, graph->replicas);
}

static void put_number(Text *text, const char *key, double number) {
    text_printf(text, " %s=", key);
    put_double(text, number);
}

static void print_schedule(Text *text, const Schedule *schedule) {
    text_printf(text, " schedule=%s", schedule_name[schedule->kind]);
    put_key(text, "warmup", schedule->warmup);
    put_number(text, "end", schedule->end);
    if (schedule->kind == SCHEDULE_POLYNOMIAL) put_number(text, "power", schedule->power);
    if (schedule->kind != SCHEDULE_STEP && schedule->kind != SCHEDULE_MULTISTEP) return;
    put_number(text, "gamma", schedule->gamma);
    text_printf(text, " unit=%s", schedule_unit_name[schedule->unit]);
    if (schedule->kind == SCHEDULE_STEP) put_key(text, "every", schedule->every);
    for (int i = 0; i < schedule->nmilestones; i++)
        put_key(text, "milestone", schedule->milestone[i]);
}

/* Prints the settings that only some optimizers have. */
static void print_optimizer(Text *text, const Settings *settings) {
    if (settings->optimizer == OPTIMIZER_ADAM || settings->optimizer == OPTIMIZER_ADAMW || settings->optimizer == OPTIMIZER_LAMB ||
        settings->optimizer == OPTIMIZER_LAZY_ADAM) {
        put_number(text, "beta1", settings->beta1);
        put_number(text, "beta2", settings->beta2);
        put_number(text, "eps", settings->eps);
    }
    if (settings->optimizer == OPTIMIZER_LION) {
        put_number(text, "beta1", settings->beta1);
        put_number(text, "beta2", settings->beta2);
    }
    if (settings->optimizer == OPTIMIZER_ADAFACTOR) {
        put_number(text, "beta2_decay", settings->beta2_decay);
        put_number(text, "eps1", settings->eps);
        put_number(text, "eps2", settings->eps2);
        put_number(text, "d", settings->d);
    }
    if (settings->nesterov) put(text, " nesterov");
    if (settings->weight_decay != 0) put_number(text, "weight_decay", settings->weight_decay);
    if (settings->schedule.kind != SCHEDULE_CONSTANT || settings->schedule.warmup > 0) print_schedule(text, &settings->schedule);
    if (settings->clip > 0) put_number(text, "clip", settings->clip);
    if (settings->accumulate > 1) put_key(text, "accumulate", settings->accumulate);
    if (settings->ema) put_number(text, "ema", settings->ema_decay);
    if (settings->precision != F32) text_printf(text, " precision=%s", dtype_name[settings->precision]);
}

static void print_watches(Text *text, const Settings *settings) {
    const Watch *best = &settings->watch[WATCH_BEST], *stop = &settings->watch[WATCH_STOP];
    if (best->metric) text_printf(text, " best=%s%s", best->metric, settings->restore_best ? " restore_best" : "");
    if (!stop->metric) return;
    text_printf(text, " early_stop=%s", stop->metric);
    put_key(text, "patience", stop->patience);
    put(text, " delta=");
    put_double(text, stop->delta);
}

static void print_settings(const Printing *printing) {
    Text *text = printing->text;
    const Settings *settings = &printing->graph->settings;
    if (!printing->net) {
        text_printf(text, "parallel mode=%s search=", mode_name[settings->mode]);
        put_word(text, settings->search);
        text_printf(text, " dataset=%s gradients=%s%s", dataset_name[settings->dataset], settings->gradients_mean ? "mean" : "sum",
                    settings->strict_divide ? " strict_divide" : "");
        if (settings->bucket_bytes != BUCKET_BYTES) put_key(text, "bucket", settings->bucket_bytes);
        put(text, "\n");
    }
    put(text, "train");
    put_key(text, "epochs", settings->epochs);
    put_key(text, "steps", settings->steps);
    if (!printing->net) {
        put_key(text, "log_every", settings->log_every);
        if (settings->log_from_zero) put(text, " log_from_zero");
        if (settings->log && settings->log[0]) {
            put(text, " log=");
            put_quoted(text, settings->log);
            put_key(text, "log_rank", settings->log_rank);
        }
        if (settings->checkpoint_epochs) put(text, " checkpoint_epochs");
        if (settings->checkpoint_steps > 0) put_key(text, "checkpoint_steps", settings->checkpoint_steps);
        if (settings->keep > 0) put_key(text, "keep", settings->keep);
        if (settings->checkpoint_per_rank) put(text, " per_rank");
        print_watches(text, settings);
        if (settings->on_nan != ON_NAN_STOP) text_printf(text, " on_nan=%s", on_nan_name[settings->on_nan]);
    }
    text_printf(text, " seed=%llu optimizer=%s lr=", (unsigned long long)settings->seed, optimizer_name[settings->optimizer]);
    put_double(text, settings->lr);
    put(text, " momentum=");
    put_double(text, settings->momentum);
    print_optimizer(text, settings);
    put(text, "\n");
    for (int i = 0; i < settings->scales.n; i++) {
        const Scale *scale = &settings->scales.at[i];
        text_printf(text, "scaled %s ", scale_name[scale->kind]);
        put_quoted(text, scale->path);
        put(text, " by=");
        put_double(text, scale->factor);
        put(text, "\n");
    }
}

static void print_dims(const Printing *printing) {
    Text *text = printing->text;
    for (int i = 0; i < printing->graph->dims.n; i++) {
        put(text, "dim ");
        put_word(text, printing->graph->dims.at[i].name);
        put(text, " ");
        put_int(text, printing->graph->dims.at[i].size);
        put(text, "\n");
    }
    for (int i = 0; i < printing->graph->settings.mesh.n; i++) {
        const Axis *axis = &printing->graph->settings.mesh.at[i];
        put(text, "mesh ");
        put_word(text, axis->name);
        text_printf(text, " %d@%d\n", (int)axis->digit.size, (int)axis->digit.stride);
    }
}

static void print_init(Printing *printing, const Init *init, const TensorType *type) {
    Text *text = printing->text;
    put(text, " init=");
    put(text, init_name[init->kind]);
    switch (init->kind) {
    case INIT_ZEROS:
    case INIT_ONES:
        break;
    case INIT_NORMAL:
        put_doubles(text, &init->a, 1);
        break;
    case INIT_UNIFORM:
        put_doubles(text, (double[]){init->a, init->b}, 2);
        break;
    case INIT_LITERAL:
        put_literal(printing, init->data, shape_elements(&type->shape));
        break;
    case INIT_FILE:
        put(text, "(");
        put_quoted(text, init->file);
        put(text, ")");
        break;
    }
}

/* Left out of the hash: it follows from the nodes. */
static void put_index(Printing *printing, IndexRange index) {
    if (range_known(index) && !printing->net)
        text_printf(printing->text, " index=(%lld, %lld)", (long long)index.begin, (long long)index.end);
}

/* caches: only the caches, which a program of its own has; else all states of the plan, which has no caches. */
static void print_states(Printing *printing, bool caches) {
    Text *text = printing->text;
    for (int i = 0; i < printing->graph->states.n; i++) {
        const State *state = &printing->graph->states.at[i];
        if (caches && !state->cache) continue;
        text_printf(text, "state %d ", i);
        put_word(text, state->name);
        put(text, " ");
        put_type(text, &state->type);
        print_init(printing, &state->init, &state->type);
        put_layout(printing, state->layout);
        put_index(printing, state->index);
        if (state->trainable) put(text, " trainable");
        if (state->written) put(text, " written");
        if (state->cache) put(text, " cache");
        if (state->parameter != i) put_key(text, "parameter", state->parameter);
        put_span(printing, state->span);
        put(text, "\n");
    }
}

static void print_change(Text *text, const RowChange *change) {
    if (change->one_hot) put(text, " one_hot");
    if (change->standardize) put(text, " standardize");
    if (change->scale != 0) {
        put(text, " scale=");
        put_double(text, change->scale);
    }
    for (int i = 0; i < change->nmeans; i++) {
        put(text, " mean=");
        put_double(text, change->mean[i]);
        put(text, " deviation=");
        put_double(text, change->deviation[i]);
    }
}

static void print_picture(Text *text, const PictureChange *picture) {
    if (picture->label) put(text, " label");
    for (int i = 0; i < 2; i++)
        if (picture->resize[i] > 0) put_key(text, "resize", picture->resize[i]);
    if (picture->pad > 0) put_key(text, "pad", picture->pad);
    for (int i = 0; i < 2; i++)
        if (picture->crop[i] > 0) put_key(text, "crop", picture->crop[i]);
    if (picture->flip) put(text, " flip");
    if (picture->random) put(text, " random");
}

static void print_file(Text *text, const DataFile *file) {
    text_printf(text, " file=%s", file_format_name[file->format]);
    if (file_is_drawn(file->format)) {
        put_key(text, "seed", file->seed);
        return;
    }
    put(text, " ");
    put_quoted(text, file->path);
    if (file->first > 0) put_key(text, "first", file->first);
    if (file->rows > 0) put_key(text, "rows", file->rows);
    put_key(text, "column", file->column);
    if (file->heading && file->heading[0]) {
        put(text, " heading=");
        put_quoted(text, file->heading);
    }
    if (file->separator) put_key(text, "separator", file->separator);
    if (file->missing != MISSING_ERROR) text_printf(text, " missing=%s", missing_name[file->missing]);
    if (file->missing == MISSING_FILL) {
        put(text, " fill=");
        put_double(text, file->fill);
    }
    if (file->classes && file->classes[0]) {
        put(text, " classes=");
        put_quoted(text, file->classes);
    }
    if (file->find_classes) put(text, " find_classes");
    if (file->tokens != TOKENS_NONE) {
        text_printf(text, " tokens=%s", token_part_name[file->tokens]);
        if (file->tokenizer != TOKENIZER_WORDPIECE) text_printf(text, " tokenizer=%s", tokenizer_name[file->tokenizer]);
        if (file->tokenizer != TOKENIZER_BYTES) {
            put(text, " vocabulary=");
            put_quoted(text, file->vocabulary);
        }
        if (file->tokenizer == TOKENIZER_WORDPIECE) put_key(text, "lowercase", file->lowercase);
    }
    print_change(text, &file->change);
    if (file_has_pictures(file->format)) print_picture(text, &file->picture);
    if (file->format == FILE_RAW && file->offset >= 0) put_key(text, "offset", file->offset);
    if (file->stored && file->stored[0]) text_printf(text, " stored=%s", file->stored);
}

static void print_split(Text *text, const RowSplit *split) {
    if (split->nshares == 0) return;
    put(text, split->test ? " split=test" : " split=shares");
    for (int i = 0; i < split->nshares; i++) {
        put(text, " share=");
        put_double(text, split->share[i]);
    }
    put_key(text, "seed", split->seed);
    put_key(text, "part", split->part);
}

static void print_inputs(Printing *printing) {
    Text *text = printing->text;
    const Settings *settings = &printing->graph->settings;
    for (int i = 0; i < printing->graph->inputs.n; i++) {
        const Input *input = &printing->graph->inputs.at[i];
        text_printf(text, "input %d ", i);
        put_word(text, input->name);
        put(text, " ");
        put_type(text, &input->type);
        put_layout(printing, input->layout);
        if (input->kind != INPUT_DATA) text_printf(text, " kind=%s", input_kind_name[input->kind]);
        if (input->row_dim > 0 && input->micro == 0) put_key(text, "rows", input->row_dim - 1);
        if (input->micro == 0) put_index(printing, input->index);
        if (input->file.format != FILE_NONE && input->micro == 0) print_file(text, &input->file);
        if (input->micro > 0) {
            put_key(text, "micro", input->micro);
            put_key(text, "of", input->of);
        } else if (input->per_rank) {
            put(text, " per_rank=");
            put_literal(printing, input->per_rank, shape_elements(&input->type.shape));
        }
        put_span(printing, input->span);
        put(text, "\n");
    }
    text_printf(text, "data %s", data_name[settings->data]);
    if (settings->data == DATA_NUMPY_RAND || settings->data == DATA_NORMAL || settings->data == DATA_UNIFORM)
        put_key(text, "seed", settings->data_seed);
    if (settings->data == DATA_NUMPY_RAND) put_key(text, "rows", settings->data_rows);
    if (settings->data == DATA_FILES) {
        if (settings->shuffle) put_key(text, "shuffle", settings->shuffle_seed);
        text_printf(text, " last=%s", last_name[settings->last]);
        if (settings->uneven != UNEVEN_JOIN) text_printf(text, " uneven=%s", uneven_name[settings->uneven]);
        print_split(text, &settings->split);
    }
    put(text, "\n");
}

static void print_strategy(Text *text, const Node *node) {
    if (node->from == STRATEGY_NONE && !node->strategy) return;
    put(text, " strategy=");
    put(text, strategy_from_name[node->from]);
    if (!node->strategy) return;
    put(text, "(");
    for (int f = 0; f < node->strategy->nfactors; f++) {
        if (f) put(text, ", ");
        put_digits(text, strategy_digits(node->strategy, f), strategy_count(node->strategy, f));
    }
    put(text, ")");
}

static void print_origin(Text *text, const Node *node, int id) {
    if (node->origin == id) return;
    put_key(text, "origin", node->origin);
    put(text, " factors=(");
    for (int f = 0; f < node->rule->nfactors; f++) {
        if (f) put(text, ", ");
        if (node->origin_factor[f] < 0)
            put(text, "-");
        else
            put_int(text, node->origin_factor[f]);
    }
    put(text, ")");
}

/* Whether the node has the name that its first result gives it. */
static bool is_named_by_result(const Graph *graph, const Node *node) {
    const char *own = node->name ? node->name : "";
    const char *result = node->nout && graph->values.at[node->out[0]].name ? graph->values.at[node->out[0]].name : "";
    return own == result || strcmp(own, result) == 0;
}

static void print_node(Printing *printing, int id) {
    Text *text = printing->text;
    const Graph *graph = printing->graph;
    const Node *node = &graph->nodes.at[id];
    put(text, "  node ");
    put_int(text, id);
    put(text, " ");
    put(text, op_table[node->op].name);
    if (node->state >= 0) put_key(text, node->op == OP_input ? "input" : "state", node->state);
    if (node->op == OP_read) put_key(text, "version", node->version);
    if (node->op == OP_convert) {
        put(text, " kind=");
        put(text, comm_name[node->comm]);
    }
    put(text, node->nin ? " (" : "");
    for (int i = 0; i < node->nin; i++) {
        if (i) put(text, ", ");
        put_value(printing, node->in[i]);
    }
    put(text, node->nin ? ")" : "");
    for (int o = 0; o < node->nout; o++) {
        const Value *value = &graph->values.at[node->out[o]];
        put(text, o ? ", " : " -> ");
        put_value(printing, node->out[o]);
        put(text, " ");
        put_word(text, value->name);
        put(text, " ");
        put_type(text, &value->type);
        put_layout(printing, value->layout);
    }
    size_t before = text->n;
    put(text, " ");
    attr_print(text, node->op, node);
    if (text->n == before + 1) text->at[--text->n] = '\0';
    if (node->op == OP_constant && node->data) {
        put(text, " data=");
        put_literal(printing, node->data, shape_elements(&graph->values.at[node->out[0]].type.shape));
    }
    if (!printing->net) {
        print_strategy(text, node);
        print_origin(text, node, id);
        if (node->copy_of > 0) put_key(text, "copy", node->copy_of);
    }
    if (!is_named_by_result(graph, node)) {
        put(text, " name=");
        put_word(text, node->name);
    }
    put_span(printing, node->span);
    put(text, "\n");
}

static void print_nodes(Printing *printing) {
    Text *text = printing->text;
    const Graph *graph = printing->graph;
    put(text, "graph loss=");
    if (graph->loss < 0)
        put(text, "none");
    else
        put_value(printing, graph->loss);
    if (!printing->net) put_key(text, "forward", graph->nforward);
    put(text, "\n");
    for (int i = 0; i < graph->nodes.n; i++)
        print_node(printing, i);
    for (int i = 0; i < graph->reports.n; i++) {
        put(text, "  report ");
        put_word(text, graph->reports.at[i].name);
        put(text, " ");
        put_value(printing, graph->reports.at[i].value);
        put(text, graph->reports.at[i].whole ? " whole\n" : "\n");
    }
}

void printing_layouts(Printing *printing) {
    const Graph *graph = printing->graph;
    for (int i = 0; i < graph->states.n; i++)
        if (graph->states.at[i].layout) printing_layout(printing, graph->states.at[i].layout);
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].layout) printing_layout(printing, graph->inputs.at[i].layout);
    for (int i = 0; i < graph->nodes.n; i++)
        for (int o = 0; o < graph->nodes.at[i].nout; o++) {
            const Layout *layout = graph->values.at[graph->nodes.at[i].out[o]].layout;
            if (layout) printing_layout(printing, layout);
        }
}

static void print_layouts(Printing *printing) {
    for (int i = 0; i < printing->layouts.at.n; i++) {
        text_printf(printing->text, "layout %d ", i);
        layout_print(printing->text, printing->layouts.at.at[i], false);
        put(printing->text, "\n");
    }
}

void print_sections(Printing *printing) {
    print_settings(printing);
    if (!printing->net) {
        print_dims(printing);
        print_layouts(printing);
    }
    print_states(printing, false);
    print_inputs(printing);
    print_nodes(printing);
}

void print_eval(Printing *printing) {
    const Settings *settings = &printing->graph->settings;
    text_printf(printing->text, "eval every=%s", eval_name[settings->eval]);
    if (settings->eval == EVAL_STEPS) text_printf(printing->text, " %lld", (long long)settings->eval_steps);
    put_key(printing->text, "steps", settings->steps);
    put(printing->text, "\n");
    print_inputs(printing);
    print_nodes(printing);
}

/* Prints a program that uses the settings and states of the program before it. */
static void print_over(Printing *printing, const char *keyword) {
    text_printf(printing->text, "%s\n", keyword);
    print_inputs(printing);
    print_nodes(printing);
}

void print_shorter(Printing *printing) {
    print_over(printing, "shorter");
}

void print_prompt(Printing *printing) {
    print_over(printing, "prompt");
}

void print_generate(Printing *printing) {
    const Settings *settings = &printing->graph->settings;
    put(printing->text, "generate");
    put_number(printing->text, "temperature", settings->temperature);
    put_key(printing->text, "top_k", settings->top_k);
    put_key(printing->text, "seed", settings->draw_seed);
    if (settings->end >= 0) put_key(printing->text, "end", settings->end);
    if (settings->alphabet) {
        put(printing->text, " alphabet=");
        put_quoted(printing->text, settings->alphabet);
    }
    put(printing->text, "\n");
    print_states(printing, true);
    print_inputs(printing);
    print_nodes(printing);
}

void graph_print(Text *text, const Graph *graph) {
    Printing printing;
    printing_init(&printing, text, graph);
    text_printf(text, "pcc-graph %d\n", PLAN_FORMAT);
    print_head(&printing);
    printing_layouts(&printing);
    print_sections(&printing);
    printing_finish(&printing);
}

uint64_t graph_hash(const Graph *graph) {
    Text text = {0};
    Printing printing;
    printing_init(&printing, &text, graph);
    printing.net = true;
    text_printf(&text, "replicas %d\n", graph->replicas);
    print_sections(&printing);
    uint64_t hash = XXH64(text.at, text.n, 0);
    printing_finish(&printing);
    text_finish(&text);
    return hash;
}
