/* The generate block: which input of the net is text, and which value predicts the next token. Before: the net is lowered with the block's numbers, one row per batch where it
 * gives no other. After: lower->generation has both; the graph's settings say how tokens are drawn. compiler/decode.c then builds the program. */
#include "frontend/lower.h"

#include <string.h>

enum { USUAL_CHUNK = 64 }; /* few enough for a machine's memory, and enough for fast products over the places */

static bool name_of_value(Lower *lower, const Expr *value, const char *what, const char *hint, const Expr **name) {
    *name = value;
    if (value->kind == EXPR_NAME) return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "%s takes a name of the net", what);
    diag_hint(lower->diags, "%s", hint);
    return false;
}

static bool generate_text(Lower *lower, const Expr *value) {
    return name_of_value(lower, value, "text", "text = tokens; where the net has `input tokens : i32[batch, places];`", &lower->text_name);
}

static bool generate_logits(Lower *lower, const Expr *value) {
    return name_of_value(lower, value, "logits", "logits = logits; the value that the loss compares with the next token",
                         &lower->logits_name);
}

static bool generate_batch(Lower *lower, const Expr *value) {
    (void)lower, (void)value;
    return true; /* eval_numbers has read it */
}

static bool generate_temperature(Lower *lower, const Expr *value) {
    return real_eval(lower, value, "temperature", 0, 1e6, &lower->graph->settings.temperature);
}

static bool generate_top_k(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "top_k", 0, INT32_MAX, &lower->graph->settings.top_k);
}

static bool generate_seed(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "seed", 0, INT64_MAX, &lower->graph->settings.draw_seed);
}

static bool generate_end(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "end", 0, INT32_MAX, &lower->graph->settings.end);
}

/* chunk = 64: places of a prompt that are read at once. */
static bool generate_chunk(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "chunk", 1, INT32_MAX, &lower->generation.chunk);
}

/* alphabet = bytes; or "abc": the characters of token 0, 1, .. */
static bool generate_alphabet(Lower *lower, const Expr *value) {
    const bool bytes = value->kind == EXPR_NAME && strcmp(value->text, "bytes") == 0;
    if (bytes || (value->kind == EXPR_STRING && value->text[0] != '\0')) {
        lower->graph->settings.alphabet = bytes ? "" : value->text;
        return true;
    }
    diag_error(lower->diags, lower_span(lower, value->loc), "this is no alphabet");
    diag_hint(lower->diags, "alphabet = bytes; or the characters of token 0, 1, 2 in quotes: alphabet = \" abc\";");
    return false;
}

enum { TEXT, LOGITS, BATCH, TEMPERATURE, TOP_K, SEED, END, ALPHABET, CHUNK, NGENERATE };
const Setting generate_settings[] = {[TEXT] = {"text", generate_text},    [LOGITS] = {"logits", generate_logits},
                                     [BATCH] = {"batch", generate_batch}, [TEMPERATURE] = {"temperature", generate_temperature},
                                     [TOP_K] = {"top_k", generate_top_k}, [SEED] = {"seed", generate_seed},
                                     [END] = {"end", generate_end},       [ALPHABET] = {"alphabet", generate_alphabet},
                                     [CHUNK] = {"chunk", generate_chunk}};
const int ngenerate_settings = NGENERATE;

/* The tensor that a name stands for; NULL after a diagnostic. */
static const Symbol *tensor_of(Lower *lower, const Expr *name, const char *what) {
    const Symbol *symbol = names_use(lower, name->text, name->loc);
    if (symbol && symbol->kind != SYMBOL_NUMBER) return symbol;
    if (symbol) diag_error(lower->diags, lower_span(lower, name->loc), "%s takes the name of a value of the net", what);
    return NULL;
}

/* Checks that the input is i32[1, places], or i32[places]. */
static bool text_found(Lower *lower) {
    const Symbol *symbol = tensor_of(lower, lower->text_name, "text");
    if (!symbol) return false;
    const Node *node = graph_producer(lower->graph, symbol->value);
    const TensorType *type = &lower->graph->values.at[symbol->value].type;
    const Span span = lower_span(lower, lower->text_name->loc);
    const int last = type->shape.ndim - 1;
    const bool is_input = node->op == OP_input && lower->graph->inputs.at[node->state].kind == INPUT_DATA;
    if (!is_input || (type->dtype != I32 && type->dtype != I64) || last < 0 || type->shape.dim[last] < 2) {
        diag_error(lower->diags, span, "%s is no text: an input of two places or more, whose elements are the numbers of tokens",
                   symbol->name);
        diag_note(lower->diags, symbol->span, "it is %s", type_text(lower, type));
        return false;
    }
    if (shape_elements(&type->shape) != type->shape.dim[last]) {
        diag_error(lower->diags, span, "one text is generated at a time, and %s is %s", symbol->name, type_text(lower, type));
        diag_hint(lower->diags,
                  "batch = 1; where the net's head names the rows of a batch: net %s(batch = 16, ..), input %s : i32[batch, places];",
                  lower->net->name, symbol->name);
        return false;
    }
    lower->generation.text = node->state;
    return true;
}

bool generate_lower(Lower *lower, const Block *block) {
    Settings *settings = &lower->graph->settings;
    bool given[NGENERATE] = {false};
    settings->has_generate = true;
    settings->data = DATA_NONE;
    settings->epochs = settings->steps = 1;
    settings->temperature = 1;
    settings->end = -1;
    lower->generation.chunk = USUAL_CHUNK;
    if (!numbers_used(lower)) return false;
    const Block own = settings_of(lower, block);
    if (!settings_lower(lower, &own, "generate", generate_settings, NGENERATE, train_settings, ntrain_settings, "train", given))
        return false;
    for (int i = TEXT; i <= LOGITS; i++) {
        if (given[i]) continue;
        diag_error(lower->diags, lower_span(lower, block->loc), "generate does not say %s",
                   i == TEXT ? "which input is text" : "which value says what comes next");
        diag_hint(lower->diags, "generate { text = tokens; logits = logits; }");
        return false;
    }
    if (!text_found(lower)) return false;
    const Symbol *logits = tensor_of(lower, lower->logits_name, "logits");
    if (!logits) return false;
    lower->generation.logits = logits->value;
    lower->generation.logits_span = lower_span(lower, lower->logits_name->loc);
    lower->generation.span = lower_span(lower, block->loc);
    return true;
}
