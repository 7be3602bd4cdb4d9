/* The eval block: the net once more, forward only, on its own data. Before: the block's numbers, with which the net is lowered, are read (eval_numbers).
 * After: the graph's settings are those of the block, and lower->rows says what is reported. */
#include "frontend/lower.h"

#include <string.h>

/* ---------------------------------------------------------------- numbers of the head */

static bool setting_is(const Lower *lower, const char *name);

static bool number_push(Lower *lower, const char *name, Loc loc, const Expr *value) {
    const bool rows = strcmp(name, "batch") == 0;
    Number number = {0};
    for (int i = 0; i < lower->eval_numbers.n; i++)
        if (strcmp(lower->eval_numbers.at[i].name, name) == 0) {
            diag_error(lower->diags, lower_span(lower, loc), "%s is set twice", name);
            diag_note(lower->diags, lower->eval_numbers.at[i].span, "the first time is here");
            return false;
        }
    if (rows ? !integer_eval(lower, value, name, 1, INT64_MAX, &number.i) : !number_eval(lower, value, &number)) return false;
    if (rows) number.f = (double)number.i;
    vec_push(lower->arena, &lower->eval_numbers, (EvalNumber){.name = name, .number = number, .span = lower_span(lower, value->loc)});
    return true;
}

/* batch (rows = 100, length = 64); */
static bool numbers_push(Lower *lower, const Expr *list) {
    for (const Expr *item = list->items; item; item = item->next) {
        if (item->kind == EXPR_KEYWORD) {
            if (!number_push(lower, item->text, item->loc, item->items)) return false;
            continue;
        }
        diag_error(lower->diags, lower_span(lower, item->loc), "batch takes the net's numbers by name");
        diag_hint(lower->diags, "batch = 100; where the number is called batch, else batch (rows = 100);");
        return false;
    }
    return true;
}

static bool number_of_net(const Lower *lower, const char *name) {
    for (const Entry *entry = lower->net->entries; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0) return true;
    return false;
}

/* A generate block has batches of one row, unless it says otherwise. */
static void one_row(Lower *lower, const Block *block) {
    static const Number one = {.i = 1, .f = 1};
    const char *rows = lower->batch;
    for (int i = 0; rows && i < lower->eval_numbers.n; i++)
        if (strcmp(lower->eval_numbers.at[i].name, rows) == 0) return;
    const EvalNumber number = {.name = rows, .number = one, .span = lower_span(lower, block->loc)};
    if (rows) vec_push(lower->arena, &lower->eval_numbers, number);
}

/* batch = 100; dropout = 0; settings of the block are not among these numbers. */
bool eval_numbers(Lower *lower, const Block *block) {
    for (const Entry *entry = block->entries; entry; entry = entry->next) {
        const Expr *value = entry->value;
        const bool batch = strcmp(entry->name, "batch") == 0, list = batch && value->kind == EXPR_CALL && strcmp(value->text, "batch") == 0;
        if (list ? !numbers_push(lower, value)
                 : (batch || (!setting_is(lower, entry->name) && number_of_net(lower, entry->name))) &&
                       !number_push(lower, entry->name, entry->name_loc, value))
            return false;
    }
    if (lower->of == BLOCK_GENERATE) one_row(lower, block);
    return true;
}

bool eval_number(Lower *lower, const char *name, Number *number) {
    for (int i = 0; i < lower->eval_numbers.n; i++) {
        EvalNumber *own = &lower->eval_numbers.at[i];
        if (strcmp(own->name, name) != 0) continue;
        own->used = true;
        *number = own->number;
        return true;
    }
    return false;
}

bool numbers_used(Lower *lower) {
    bool ok = true;
    for (int i = 0; i < lower->eval_numbers.n; i++) {
        const EvalNumber *own = &lower->eval_numbers.at[i];
        if (own->used) continue;
        diag_error(lower->diags, own->span, "net %s has no number '%s'", lower->graph->name, own->name);
        diag_hint(lower->diags, "the numbers that may be others in the eval are those of the net's head: net %s(%s = 16, ..)",
                  lower->net->name, own->name);
        ok = false;
    }
    return ok;
}

/* ---------------------------------------------------------------- settings */

/* every = epoch; | end | never | 100 steps; | 100; */
static bool eval_every(Lower *lower, const Expr *value) {
    Settings *settings = &lower->graph->settings;
    const Expr *what = value->kind == EXPR_CALL && strcmp(value->text, "every") == 0 && value->items ? value->items : value;
    bool steps;
    for (int when = 0; value->kind == EXPR_NAME && when < NEVALS; when++)
        if (when != EVAL_STEPS && strcmp(eval_name[when], value->text) == 0) {
            settings->eval = (EvalWhen)when;
            return true;
        }
    if (!steps_eval(lower, what, &steps, &settings->eval_steps)) return false;
    if (steps) {
        settings->eval = EVAL_STEPS;
        return true;
    }
    const Span span = lower_span(lower, value->loc);
    diag_error(lower->diags, span, value->kind == EXPR_NAME ? "an eval is not every %s" : "this does not say when there is an eval",
               value->text);
    diag_hint(lower->diags, "every = epoch; or end, never (for prun --eval), or a number of steps: every = 100 steps;");
    return false;
}

static bool eval_steps(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "steps", 1, INT32_MAX, &lower->graph->settings.steps);
}

static bool eval_batch(Lower *lower, const Expr *value) {
    (void)lower, (void)value;
    return true; /* eval_numbers has read it */
}

/* loss, accuracy, .., f1, f1(macro) */
static bool eval_metric(Lower *lower, const Expr *value) {
    const bool macro =
        value->kind == EXPR_CALL && value->nitems == 1 && value->items->kind == EXPR_NAME && !strcmp(value->items->text, "macro");
    Expr name = *value;
    if (macro) {
        name.kind = EXPR_NAME;
        name.text = arena_printf(lower->arena, "%s_macro", value->text);
    }
    const int chosen = choice(lower, "metric", &name, reported_name, 1 + NMETRICS);
    if (chosen > 0) lower->rows.metric[chosen - 1] = lower_span(lower, value->loc);
    return chosen >= 0;
}

/* metrics = loss, accuracy; */
static bool eval_metrics(Lower *lower, const Expr *value) {
    if (value->kind != EXPR_LIST && value->kind != EXPR_TUPLE) return eval_metric(lower, value);
    for (const Expr *item = value->items; item; item = item->next)
        if (!eval_metric(lower, item)) return false;
    return true;
}

static bool eval_predict(Lower *lower, const Expr *value) {
    if (value->kind != EXPR_NAME && value->kind != EXPR_PATH) {
        diag_error(lower->diags, lower_span(lower, value->loc), "predict takes the name of a value of the net");
        return false;
    }
    lower->predict = value;
    return true;
}

/* The value of a setting of the train block, NULL: it is not given. */
static const Expr *of_train(const Lower *lower, const char *name) {
    for (const Entry *entry = lower->train ? lower->train->entries : NULL; entry; entry = entry->next)
        if (!strcmp(entry->name, name)) return entry->value;
    return NULL;
}

/* parameters = ema; */
static bool eval_parameters(Lower *lower, const Expr *value) {
    static const char *const names[] = {"trained", "ema"};
    const int which = choice(lower, "parameters", value, names, 2);
    lower->graph->settings.averages = which == 1;
    if (which != 1 || of_train(lower, "ema")) return which >= 0;
    diag_error(lower->diags, lower_span(lower, value->loc), "train keeps no averages of its parameters");
    diag_hint(lower->diags, "train { ema = 0.999; ... }");
    return false;
}

enum { EVERY, BATCH, DATA, ROWS, STEPS, METRICS, PREDICT, PARAMETERS, NEVAL };
const Setting eval_settings[] = {[EVERY] = {"every", eval_every},       [BATCH] = {"batch", eval_batch},
                                 [DATA] = {"data", eval_data},          [ROWS] = {"rows", eval_split},
                                 [STEPS] = {"steps", eval_steps},       [METRICS] = {"metrics", eval_metrics},
                                 [PREDICT] = {"predict", eval_predict}, [PARAMETERS] = {"parameters", eval_parameters}};
const int neval_settings = NEVAL;

bool eval_note(Lower *lower, const Block *block) {
    Settings *settings = &lower->graph->settings;
    if (!block) return true;
    settings->has_eval = true;
    settings->eval = EVAL_EPOCH;
    for (const Entry *entry = block->entries; entry; entry = entry->next)
        if (strcmp(entry->name, "every") == 0 && !eval_every(lower, entry->value)) return false;
    return true;
}

/* Whether a name is one of the block's settings. */
static bool setting_is(const Lower *lower, const char *name) {
    const bool generates = lower->of == BLOCK_GENERATE;
    for (int i = 0; i < (generates ? ngenerate_settings : neval_settings); i++)
        if (strcmp((generates ? generate_settings : eval_settings)[i].name, name) == 0) return true;
    return false;
}

/* ---------------------------------------------------------------- the block */

Block settings_of(Lower *lower, const Block *block) {
    Block settings = *block;
    Entry **next = &settings.entries;
    *next = NULL;
    for (const Entry *entry = block->entries; entry; entry = entry->next) {
        if (!setting_is(lower, entry->name) && number_of_net(lower, entry->name)) continue;
        *next = arena_alloc(lower->arena, sizeof **next);
        **next = *entry;
        next = &(*next)->next;
        *next = NULL;
    }
    return settings;
}

static bool predict_lower(Lower *lower) {
    if (!lower->predict) return true;
    const Symbol *symbol = lower->predict->kind == EXPR_NAME ? names_use(lower, lower->predict->text, lower->predict->loc) : NULL;
    if (lower->predict->kind == EXPR_NAME && !symbol) return false;
    if (!symbol || symbol->kind == SYMBOL_NUMBER) {
        diag_error(lower->diags, lower_span(lower, lower->predict->loc), "predict takes the name of a value of the net");
        return false;
    }
    lower->rows.prediction = symbol->value;
    if (value_has_rows(lower->graph, symbol->value)) return true;
    diag_error(lower->diags, lower_span(lower, lower->predict->loc), "%s has no rows of the batch: it is %s", lower->predict->text,
               type_text(lower, &lower->graph->values.at[symbol->value].type));
    return false;
}

/* An eval without data uses train's files: of the rows that train splits, the part that it does not train on. */
static bool data_of_train(Lower *lower, const Block *block, bool rows_given) {
    const Expr *data = of_train(lower, "data"), *rows = of_train(lower, "rows");
    if (data && (rows || rows_given)) return eval_data(lower, data) && (rows_given || eval_split(lower, rows));
    diag_error(lower->diags, lower_span(lower, block->loc), "eval does not say where its data comes from");
    diag_hint(lower->diags, "data = npy(x = \"x.npy\", ...); or train splits its rows: rows = split(0.9, 0.1, seed = 42);");
    return false;
}

bool eval_lower(Lower *lower, const Block *block) {
    Graph *graph = lower->graph;
    Settings *settings = &graph->settings;
    bool given[NEVAL] = {false};
    settings->has_eval = true;
    settings->eval = EVAL_EPOCH;
    settings->epochs = 1;
    settings->last = LAST_PAD;
    if (!numbers_used(lower)) return false;
    const Block own = settings_of(lower, block);
    if (!settings_lower(lower, &own, "eval", eval_settings, NEVAL, train_settings, ntrain_settings, "train", given)) return false;
    if (!given[DATA] && graph_declared(graph) > 0 && !data_of_train(lower, block, given[ROWS])) return false;
    if (settings->data != DATA_FILES && !given[STEPS]) {
        diag_error(lower->diags, lower_span(lower, block->loc), "eval does not say how many batches there are");
        diag_hint(lower->diags, "steps = 10; files of rows are read to their end");
        return false;
    }
    if (settings->data == DATA_FILES && given[STEPS]) {
        diag_error(lower->diags, lower_span(lower, block->loc), "steps is for data without an end: an eval counts every row of a file");
        return false;
    }
    if (settings->data != DATA_FILES) settings->last = LAST_DROP; /* every batch is full */
    lower->rows.use = LOSS_REPORTED;
    lower->rows.span = lower_span(lower, block->loc);
    for (const Entry *entry = block->entries; entry; entry = entry->next) {
        if (strcmp(entry->name, "data") != 0) continue;
        lower->rows.data = lower_span(lower, entry->value->loc);
        lower->rows.data_name = entry->value->text;
    }
    return predict_lower(lower);
}
