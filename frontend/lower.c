/* The net: its numbers, declarations and statements, in the order of the text. Before: a syntax tree without syntax errors. After: the
 * forward graph, verified by graph_verify; every name defined once; loss a single number. Linear in the size of the text. */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- the head: net q(batch = 16) */

/* The name of the net's number that is the number of rows in a batch, NULL: there is none. */
static const char *rows_number(const Block *net) {
    for (const Statement *statement = net->statements; statement; statement = statement->next) {
        if (statement->kind != STATEMENT_INPUT || !statement->type || !statement->type->dims) continue;
        const Expr *rows = statement->type->dims->items;
        return rows && rows->kind == EXPR_NAME ? rows->text : NULL;
    }
    return NULL;
}

static Number define_number(const Overrides *flags, int i) {
    if (flags->define_real && !isnan(flags->define_real[i])) return (Number){.real = true, .f = flags->define_real[i]};
    return (Number){.i = flags->define_value[i], .f = (double)flags->define_value[i]};
}

/* The value that -D gives a number: the last -D holds. */
static bool define_find(const Overrides *flags, const char *name, Number *number) {
    for (int i = flags->ndefines - 1; i >= 0; i--)
        if (!strcmp(flags->define_name[i], name)) {
            *number = define_number(flags, i);
            return true;
        }
    return false;
}

static bool head_entry_lower(Lower *lower, const Entry *entry) {
    Symbol *symbol;
    Number number = {0};
    if (!names_define(lower, entry->name, entry->name_loc, &symbol)) return false;
    Symbol failed = *symbol;
    failed.kind = SYMBOL_FAILED;
    const bool shorter = lower->overrides->length_number && strcmp(entry->name, lower->overrides->length_number) == 0;
    if (shorter) number = (Number){.i = lower->overrides->length, .f = (double)lower->overrides->length};
    Number hidden; /* the eval block's value overrides a -D; looked up even where a length overrides it, to count as used */
    const bool own = eval_number(lower, entry->name, shorter ? &hidden : &number);
    const bool defined = shorter || own || define_find(lower->overrides, entry->name, &number);
    if (!defined && !entry->value) {
        diag_error(lower->diags, lower_span(lower, entry->name_loc), "%s has no value", entry->name);
        diag_hint(lower->diags, "give it one here (%s = 16), or with -D %s=16", entry->name, entry->name);
        *symbol = failed;
        return false;
    }
    const bool rows = lower->batch && strcmp(entry->name, lower->batch) == 0;
    bool known = (defined || number_eval(lower, entry->value, &number)) && (!rows || micro_divide(lower, entry, &number));
    symbol = names_find(&lower->names, entry->name); /* the table may have grown */
    if (!known) {
        *symbol = failed;
        return false;
    }
    if (rows) number.power = 1;
    symbol->kind = SYMBOL_NUMBER;
    symbol->number = number;
    if (!number.real && number.i > 0) vec_push(lower->arena, &lower->graph->dims, (Dim){.name = entry->name, .size = number.i});
    return true;
}

static bool check_defines(Lower *lower, const Block *net) {
    const Overrides *flags = lower->overrides;
    VEC(const char *) names = {0};
    for (const Entry *entry = net->entries; entry; entry = entry->next)
        vec_push(lower->arena, &names, entry->name);
    bool ok = true;
    for (int i = 0; i < flags->ndefines; i++) {
        const char *name = flags->define_name[i];
        bool found = false;
        for (int j = 0; j < names.n && !found; j++)
            found = !strcmp(names.at[j], name);
        if (found) continue;
        const char *text = arena_printf(lower->arena, "%s=%s", name, number_text(lower->arena, define_number(flags, i)));
        int file = diags_add_file(lower->diags, "-D", text, strlen(text));
        diag_error(lower->diags, (Span){.file = file, .line = 1, .column = 1, .length = (int)strlen(name)}, "net %s has no number '%s'",
                   net->name, name);
        const char *nearest = name_nearest(name, names.at, names.n);
        if (nearest) diag_hint(lower->diags, "did you mean %s?", nearest);
        diag_note(lower->diags, lower_span(lower, net->name_loc), "-D sets the numbers in the head of the net, net %s(batch = 16, ...)",
                  net->name);
        ok = false;
    }
    return ok;
}

/* ---------------------------------------------------------------- statements */

static bool declared_well(Lower *lower, const Statement *statement) {
    Span span = lower_span(lower, statement->name_loc);
    const char *name = statement->name;
    if (!statement->type && !(statement->kind == STATEMENT_CONST && is_file_call(statement->value))) {
        diag_error(lower->diags, span, "%s needs a type", name);
        if (statement->kind == STATEMENT_CONST && statement->value && is_number(lower, statement->value))
            diag_hint(lower->diags, "a number is named by let %s = 3; a tensor that is fixed by const %s : f32[2] = [1, 2];", name, name);
        else
            diag_hint(lower->diags,
                      statement->kind == STATEMENT_INPUT   ? "input %s : f32[16, 32];"
                      : statement->kind == STATEMENT_PARAM ? "param %s : f32[32, 16] = normal(0.01);"
                      : statement->kind == STATEMENT_STATE ? "state %s : f32[16] = zeros;"
                                                           : "const %s : f32[2] = [1, 2];",
                      name);
        return false;
    }
    if (statement->kind == STATEMENT_INPUT && statement->value) {
        diag_error(lower->diags, lower_span(lower, statement->value->loc), "an input has no initial value");
        diag_hint(lower->diags, "data comes from the train block; param and const have values");
        return false;
    }
    if (statement->kind != STATEMENT_INPUT && !statement->value) {
        bool is_param = statement->kind != STATEMENT_CONST;
        diag_error(lower->diags, span, is_param ? "%s has no initial value" : "%s has no value", name);
        diag_hint(lower->diags,
                  statement->kind == STATEMENT_STATE ? "state %s : ... = zeros; or ones, a literal"
                  : is_param ? "param %s : ... = normal(0.01); or uniform(a, b), zeros, ones, a literal, file(\"w.npy\")"
                             : "const %s : f32[2] = [1, 2];",
                  name);
        return false;
    }
    if (statement->kind == STATEMENT_CONST && statement->shard) {
        diag_error(lower->diags, lower_span(lower, statement->shard->loc),
                   "a constant is not sharded: each rank takes the part that it needs");
        return false;
    }
    return true;
}

static bool declared_hint(Lower *lower, const Statement *statement, const char *path, PathKind kind, const Hint **hint) {
    const char **name = arena_alloc(lower->arena, sizeof *name), *what = arena_printf(lower->arena, "%s %s", path_kind_name[kind], path);
    *name = path;
    const Hintable thing = {.name = name,
                            .nnames = 1,
                            .kind = kind,
                            .what = "",
                            .span = lower_span(lower, statement->name_loc),
                            .id = kind == PATH_PARAM ? lower->graph->states.n : lower->graph->inputs.n};
    *hint = NULL;
    Given own = {.shard = statement->shard, .file = lower->file, .names = lower->names};
    const Given *given;
    if (statement->shard && statement->shard->block) {
        diag_error(lower->diags, lower_span(lower, statement->shard->loc), "hints in braces are for the operators in a cell");
        return false;
    }
    if (!hint_choose(lower, thing, statement->shard ? &own : NULL, &given)) return false;
    if (!given || !shard_counts(lower, span_of(given->file, given->shard->loc))) return true;
    return (*hint = hint_given(lower, given, 1, what)) != NULL;
}

static bool input_lower(Lower *lower, const Statement *statement, Symbol *symbol) {
    if (lower->frame || lower->loops) {
        diag_error(lower->diags, symbol->span, "an input stands in the net, not in a %s", lower->loops ? "loop" : "cell");
        return false;
    }
    Input input = {.name = statement->name, .span = symbol->span};
    if (!type_eval(lower, statement->type, statement->name, &input.type)) return false;
    if (!declared_hint(lower, statement, statement->name, PATH_INPUT, &input.hint)) return false;
    if (lower->hidden) {
        Shape *shape = &input.type.shape;
        memmove(shape->dim + 1, shape->dim, sizeof *shape->dim * (size_t)shape->ndim++);
        shape->dim[0] = lower->graph->replicas;
        input.type.hidden = true;
    }
    symbol->value = graph_input(lower->graph, graph_add_input(lower->graph, input));
    symbol->kind = SYMBOL_INPUT;
    return true;
}

/* Initial values are functions of the path: each parameter needs its own path. */
static bool path_taken(Lower *lower, const char *path, Span span) {
    Symbol *taken = names_find(&lower->paths, path);
    if (taken && taken->kind == SYMBOL_PARAM) {
        diag_error(lower->diags, span, "a second parameter with the path %s", path);
        diag_note(lower->diags, taken->span, "the first one is here");
        diag_hint(lower->diags, "calls in one place need different names for their results");
        return true;
    }
    if (!taken) taken = names_insert(&lower->paths, lower->arena, path);
    taken->kind = SYMBOL_PARAM;
    taken->span = span;
    return false;
}

static bool ranks_fit(Lower *lower, const Statement *statement, const TensorType *type) {
    if (!lower->manual || type->shape.ndim < MAX_NDIM - 1) return true;
    diag_error(lower->diags, lower_span(lower, statement->name_loc), "in mode manual a %s has at most %d dimensions",
               statement->kind == STATEMENT_STATE ? "state" : "param", MAX_NDIM - 2);
    return false;
}

/* Initial values of a param; in mode manual for all ranks, with a literal evaluated for each. */
static bool init_ranks(Lower *lower, const Expr *value, const TensorType *type, Init *init) {
    if (!lower->manual) return init_eval(lower, value, type, init);
    const int n = mentions_rank(lower, value) ? lower->graph->replicas : 1;
    const size_t elements = (size_t)shape_elements(&type->shape);
    double *data = NULL;
    bool ok = true;
    for (int r = 0; ok && r < n; r++) {
        rank_set(lower, r);
        ok = init_eval(lower, value, type, init);
        if (ok && n > 1 && init->kind != INIT_LITERAL) {
            diag_error(lower->diags, lower_span(lower, value->loc), "a number that differs from rank to rank is an element of a literal");
            diag_hint(lower->diags, "[rank, 2 * rank]; random initial values differ between ranks by themselves");
            ok = false;
        }
        if (!ok || init->kind != INIT_LITERAL) break;
        if (!data) data = arena_alloc(lower->arena, sizeof *data * elements * (size_t)lower->graph->replicas);
        for (int copy = r; copy < (n == 1 ? lower->graph->replicas : r + 1); copy++)
            memcpy(data + (size_t)copy * elements, init->data, sizeof *data * elements);
    }
    rank_set(lower, -1);
    if (data) init->data = data;
    return ok;
}

/* Lowers a param, or a state, which the net itself writes. */
static bool param_lower(Lower *lower, const Statement *statement, const char *path, Symbol *symbol) {
    const bool written = statement->kind == STATEMENT_STATE;
    State state = {.name = path, .trainable = !written, .written = written, .parameter = -1, .span = symbol->span};
    if (!type_eval(lower, statement->type, statement->name, &state.type)) return false;
    if (state.type.dtype != F32 && state.type.dtype != F64) {
        diag_error(lower->diags, lower_span(lower, statement->type->dtype_loc),
                   written                           ? "a state has real numbers, not %s"
                   : dtype_is_half(state.type.dtype) ? "a param is trained, and steps of training are often too small for %s"
                                                     : "a param is trained, and %s has no gradient",
                   dtype_name[state.type.dtype]);
        if (dtype_is_half(state.type.dtype))
            diag_hint(lower->diags, "f32 or f64; cast(%s, to = %s) where it is used", statement->name, dtype_name[state.type.dtype]);
        else
            diag_hint(lower->diags, "f32 or f64; a fixed tensor of integers is a const");
        return false;
    }
    if (!ranks_fit(lower, statement, &state.type) || !init_ranks(lower, statement->value, &state.type, &state.init)) return false;
    if (written && state.init.kind == INIT_FILE) {
        diag_error(lower->diags, lower_span(lower, statement->value->loc), "a state begins with numbers of the net, not of a file");
        diag_hint(lower->diags, "zeros, ones or a literal; prun --load takes it from a file of weights");
        return false;
    }
    if (!declared_hint(lower, statement, path, PATH_PARAM, &state.hint) || path_taken(lower, path, symbol->span)) return false;
    state.type = rank_type(lower, state.type);
    int read = graph_read_state(lower->graph, graph_add_state(lower->graph, state), 0, NULL, symbol->span);
    lower->graph->nodes.at[lower->graph->values.at[read].node].regather = known_last(lower)->regather;
    const char *name = lower->hidden ? arena_printf(lower->arena, "%s.replicas", path) : NULL;
    symbol->value = lower->manual ? rank_own(lower, read, name, symbol->span) : graph_replicate(lower->graph, read, name, symbol->span);
    symbol->kind = written ? SYMBOL_STATE : SYMBOL_PARAM;
    return true;
}

/* The state whose value a name stands for. */
static int state_of(const Graph *graph, int value) {
    const Node *node = graph_producer(graph, value);
    while (node->op == OP_replicate || node->op == OP_expose)
        node = graph_producer(graph, node->in[0]);
    return node->state;
}

static bool not_written(Lower *lower, const Statement *statement, const Symbol *symbol) {
    diag_error(lower->diags, lower_span(lower, statement->name_loc), "%s is no state: <- writes nothing else", statement->name);
    note_defined(lower, symbol);
    diag_hint(lower->diags, symbol->kind == SYMBOL_PARAM ? "the optimizer of the train block writes params" : "state %s : f32[16] = zeros;",
              statement->name);
    return false;
}

static bool written_twice(Lower *lower, int state, Span span) {
    const Graph *graph = lower->graph;
    for (int i = 0; i < graph->reports.n; i++) {
        if (!graph->reports.at[i].writes || graph->reports.at[i].state != state) continue;
        diag_error(lower->diags, span, "state %s is written twice", graph->states.at[state].name);
        diag_note(lower->diags, graph->reports.at[i].span, "the first time is here");
        return true;
    }
    return false;
}

/* mean <- value; the write happens at the end of the step. An eval writes nothing, so it is left out there. Replicas write the mean of their values. */
static bool write_lower(Lower *lower, const Statement *statement) {
    Graph *graph = lower->graph;
    const Span span = lower_span(lower, statement->name_loc);
    const Symbol *found = names_use(lower, statement->name, statement->name_loc);
    if (!found || found->kind == SYMBOL_FAILED) return false;
    if (found->kind != SYMBOL_STATE) return not_written(lower, statement, found);
    const int state = state_of(graph, found->value);
    if (written_twice(lower, state, span)) return false;
    if (lower->eval) return true;
    const TensorType *type = &graph->states.at[state].type;
    TensorType own = *type; /* as the net declares it */
    own.hidden = lower->manual;
    const char *name = arena_printf(lower->arena, "%s.new", graph->states.at[state].name);
    Symbol symbol = {0};
    if (!expr_lower(lower, statement->value, name, statement->shard, &symbol)) return false;
    if (symbol.kind != SYMBOL_NUMBER && message_misused(lower, statement->value, symbol.value)) return false;
    int value = symbol.kind == SYMBOL_NUMBER ? graph_constant(graph, *type, NULL, symbol.number.f, name, span) : symbol.value;
    const TensorType given = graph->values.at[value].type;
    if (graph->values.at[value].type.hidden) {
        const Attr mean[MAX_ATTRS] = {{.given = true, .i = 1}};
        value = lower->manual ? graph_emit(graph, OP_expose, &value, 1, NULL, name, span)
                              : graph_emit(graph, OP_replica_sum, &value, 1, mean, name, span);
    }
    type = &graph->states.at[state].type;
    if (!type_equal(&graph->values.at[value].type, type)) {
        diag_error(lower->diags, lower_span(lower, statement->value->loc), "state %s is %s, and this is %s", statement->name,
                   type_text(lower, &own), type_text(lower, &given));
        diag_note(lower->diags, graph->states.at[state].span, "%s is declared here", statement->name);
        return false;
    }
    vec_push(graph->arena, &graph->reports,
             ((Report){.name = graph->states.at[state].name, .value = value, .writes = true, .state = state, .span = span}));
    return true;
}

/* const c = file("c.npy"): a state that is never written. Its type is the file's, unless it is declared. */
static bool const_file_lower(Lower *lower, const Statement *statement, const char *path, Symbol *symbol) {
    State state = {.name = path, .parameter = -1, .span = symbol->span};
    if (statement->type && !type_eval(lower, statement->type, statement->name, &state.type)) return false;
    if (!init_eval(lower, statement->value, &state.type, &state.init)) return false;
    if (!statement->type && !file_type(lower, statement->value, statement->name, state.init.file, &state.type)) return false;
    if (path_taken(lower, path, symbol->span)) return false;
    int read = graph_read_state(lower->graph, graph_add_state(lower->graph, state), 0, NULL, symbol->span);
    symbol->value =
        graph_replicate(lower->graph, read, lower->hidden ? arena_printf(lower->arena, "%s.replicas", path) : NULL, symbol->span);
    symbol->kind = SYMBOL_CONST;
    return true;
}

static bool const_lower(Lower *lower, const Statement *statement, const char *path, Symbol *symbol) {
    TensorType type;
    const double *data;
    double splat;
    if (is_file_call(statement->value)) return const_file_lower(lower, statement, path, symbol);
    if (!type_eval(lower, statement->type, statement->name, &type)) return false;
    const bool own = mentions_rank(lower, statement->value); /* a constant of each rank */
    Init init = {0};
    if (own ? !ranks_fit(lower, statement, &type) || !init_ranks(lower, statement->value, &type, &init)
            : !constant_eval(lower, statement->value, &type, &data, &splat))
        return false;
    if (own) data = init.data;
    const char *name = lower->hidden ? arena_printf(lower->arena, "%s.replicas", path) : NULL;
    if (own) type = rank_type(lower, type);
    int constant = graph_constant(lower->graph, type, data, splat, path, symbol->span);
    symbol->value = own ? rank_own(lower, constant, name, symbol->span) : graph_replicate(lower->graph, constant, name, symbol->span);
    symbol->kind = SYMBOL_CONST;
    return true;
}

static bool loss_lower(Lower *lower, const Statement *statement) {
    Graph *graph = lower->graph;
    Span span = lower_span(lower, statement->value->loc);
    if (lower->frame) {
        diag_error(lower->diags, lower_span(lower, statement->name_loc), "a loss stands in the net, not in a cell");
        diag_hint(lower->diags, "return it, and write loss name_of_the_cell(...); in the net");
        return false;
    }
    if (lower->loss_span.line) {
        diag_error(lower->diags, lower_span(lower, statement->name_loc), "the net has a second loss");
        diag_note(lower->diags, lower->loss_span, "the first one is here");
        diag_hint(lower->diags, "add them: loss a + b;");
        return false;
    }
    lower->loss_span = lower_span(lower, statement->name_loc);
    Symbol symbol = {0};
    if (!expr_lower(lower, statement->value, "loss", statement->shard, &symbol)) return false;
    if (symbol.kind == SYMBOL_NUMBER) {
        diag_error(lower->diags, span, "the loss is a number that depends on nothing");
        return false;
    }
    if (message_misused(lower, statement->value, symbol.value)) return false;
    const TensorType *type = &graph->values.at[symbol.value].type;
    if (type->shape.ndim != (type->hidden ? 1 : 0)) {
        diag_error(lower->diags, span, "the loss must be a single number, and this is %s", type_text(lower, type));
        diag_hint(lower->diags, "mean(...) or sum(...) of it is one; so is mse(y, label)");
        return false;
    }
    if (type->dtype != F32 && type->dtype != F64) {
        diag_error(lower->diags, span, "the loss must be f32 or f64, and this is %s", dtype_name[type->dtype]);
        return false;
    }
    graph->loss = symbol.value;
    return true;
}

/* y = ...; q, k, v = split(...): names every result and defines it. In a block, a name from outside may get a new value. */
static bool assign_lower(Lower *lower, const Statement *statement) {
    const char *names[MAX_OUT] = {0}, *paths[MAX_OUT] = {0};
    Symbol symbols[MAX_OUT] = {{0}}, *place;
    const Target first = {.name = statement->name, .loc = statement->name_loc, .next = statement->targets};
    int n = 0;
    bool ok = true;
    for (const Target *target = &first; target && ok; target = target->next) {
        if (n == MAX_OUT) {
            diag_error(lower->diags, lower_span(lower, target->loc), "an operator has at most %d results", (int)MAX_OUT);
            ok = false;
        } else if ((ok = names_assign(lower, target->name, target->loc, &place))) {
            symbols[n] = *place;
            names[n] = target->name;
            ok = (paths[n++] = path_of(lower, target->name, target->loc)) != NULL;
        }
    }
    for (int i = 1; i < n && ok; i++)
        for (int k = 0; k < i && ok; k++)
            if (!strcmp(names[i], names[k])) {
                diag_error(lower->diags, lower_span(lower, statement->targets->loc), "two results have the name %s", names[i]);
                ok = false;
            }
    bool lowered = ok && results_lower(lower, statement->value, paths, n, statement->shard, &statement->marks, symbols);
    for (int i = 0; i < n; i++) {
        if (!symbols[i].name) continue; /* defined elsewhere */
        if (!lowered) symbols[i].kind = SYMBOL_FAILED;
        if (lowered && symbols[i].block < lower->block) symbols[i].span = lower_span(lower, statement->name_loc);
        *names_find(&lower->names, names[i]) = symbols[i]; /* the table may have grown */
    }
    return lowered;
}

static bool declaration_lower(Lower *lower, const Statement *statement) {
    Symbol *place;
    if (!names_define(lower, statement->name, statement->name_loc, &place)) return false;
    Symbol symbol = *place; /* the table may grow meanwhile: place is looked up again */
    const char *path = path_of(lower, statement->name, statement->name_loc);
    lower->path = path;
    bool ok = path && declared_well(lower, statement);
    if (ok && statement->kind == STATEMENT_INPUT) ok = input_lower(lower, statement, &symbol);
    if (ok && (statement->kind == STATEMENT_PARAM || statement->kind == STATEMENT_STATE)) ok = param_lower(lower, statement, path, &symbol);
    if (ok && statement->kind == STATEMENT_CONST) ok = const_lower(lower, statement, path, &symbol);
    if (!ok) symbol.kind = SYMBOL_FAILED;
    *names_find(&lower->names, statement->name) = symbol;
    return ok;
}

bool statement_lower(Lower *lower, const Statement *statement) {
    if (!room_for_node(lower, statement->name_loc)) return false;
    switch (statement->kind) {
    case STATEMENT_INPUT:
    case STATEMENT_PARAM:
    case STATEMENT_CONST:
    case STATEMENT_STATE:
        return declaration_lower(lower, statement);
    case STATEMENT_WRITE:
        return write_lower(lower, statement);
    case STATEMENT_ASSIGN:
        return assign_lower(lower, statement);
    case STATEMENT_LOSS:
        return loss_lower(lower, statement);
    case STATEMENT_LET:
        lower->path = statement->name;
        return let_lower(lower, statement->name, statement->name_loc, statement->value);
    case STATEMENT_FOR:
        return for_lower(lower, statement);
    case STATEMENT_IF:
        return if_lower(lower, statement);
    case STATEMENT_RETURN:
        return return_lower(lower, statement);
    case STATEMENT_REQUIRE:
        return require_lower(lower, statement);
    }
    return false;
}

/* The loss statement among the statements, NULL: there is none. */
static const Statement *find_loss(const Statement *first) {
    const Statement *loss = NULL;
    for (const Statement *statement = first; statement && !loss; statement = statement->next) {
        if (statement->kind == STATEMENT_LOSS) return statement;
        loss = find_loss(statement->body);
        if (!loss) loss = find_loss(statement->otherwise);
    }
    return loss;
}

/* Moves inputs that the net does not declare behind those that it declares. */
static void order_inputs(Graph *graph) {
    int n = 0, *place = arena_alloc(graph->arena, sizeof *place * (size_t)(graph->inputs.n + 1));
    Input *old = arena_alloc(graph->arena, sizeof *old * (size_t)(graph->inputs.n + 1));
    for (int i = 0; i < graph->inputs.n; i++)
        old[i] = graph->inputs.at[i];
    for (int random = 0; random < 2; random++)
        for (int i = 0; i < graph->inputs.n; i++)
            if ((old[i].kind == INPUT_RANDOM) == random) graph->inputs.at[place[i] = n++] = old[i];
    for (int k = 0; k < graph->nodes.n; k++)
        if (graph->nodes.at[k].op == OP_input) graph->nodes.at[k].state = place[graph->nodes.at[k].state];
}

static bool net_lower(Lower *lower, const Block *net) {
    ranks_define(lower);
    names_ahead(lower, net->statements);
    bool ok = statements_lower(lower, net->statements) && sends_received(lower);
    order_inputs(lower->graph);
    if (lower->full || lower->diags->nerrors >= DIAG_MAX_ERRORS) return false;
    if (lower->loss_span.line) return ok;
    const Statement *loss = find_loss(net->statements);
    if (loss && !ok) return false; /* it may be in a block whose head is wrong */
    diag_error(lower->diags, lower_span(lower, net->name_loc), "net %s has no loss", net->name);
    if (loss)
        diag_note(lower->diags, lower_span(lower, loss->name_loc), "this one is in a branch that is not taken, or a loop of no iterations");
    else
        diag_hint(lower->diags, "say what is to become small: loss mse(y, label);");
    return false;
}

/* ---------------------------------------------------------------- the file */

SourcePlace lower_enter(Lower *lower, int file, const char *directory) {
    SourcePlace place = {lower->file, lower->text, lower->directory};
    lower->file = file;
    lower->text = lower->diags->files.at[file].text;
    lower->directory = directory;
    return place;
}

void lower_leave(Lower *lower, SourcePlace place) {
    lower->file = place.file;
    lower->text = place.text;
    lower->directory = place.directory;
}

/* Finds the net, the train block and at most one parallel block: blocks[kind], NULL where there is none. */
static bool blocks_find(Lower *lower, const Block *first, const Block **blocks) {
    static const char *const names[NBLOCKS] = {"net", "train", "parallel", "eval", "generate"};
    bool ok = true;
    for (const Block *block = first; block; block = block->next) {
        if (block->kind >= NBLOCKS) continue;
        if (!blocks[block->kind]) {
            blocks[block->kind] = block;
            continue;
        }
        diag_error(lower->diags, span_of(block->file, block->loc), "a second %s block", names[block->kind]);
        diag_note(lower->diags, span_of(blocks[block->kind]->file, blocks[block->kind]->loc), "the first one is here");
        ok = false;
    }
    Span whole = {.file = lower->file, .line = 1, .column = 1, .length = 1};
    if (!blocks[BLOCK_NET]) {
        diag_error(lower->diags, whole, "there is no net");
        diag_hint(lower->diags, "net NAME(batch = 16) { input ...; param ...; y = ...; loss mse(y, label); }");
        return false;
    }
    if (!blocks[BLOCK_TRAIN]) {
        diag_error(lower->diags, span_of(blocks[BLOCK_NET]->file, blocks[BLOCK_NET]->name_loc),
                   "there is no train block: neither data nor an optimizer for net %s", blocks[BLOCK_NET]->name);
        diag_hint(lower->diags, "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 10; }");
        ok = false;
    }
    return ok;
}

/* Defines the numbers at the top of files: they are known everywhere. */
static bool globals_lower(Lower *lower, const Block *first) {
    bool ok = true;
    for (const Block *block = first; block; block = block->next)
        if (block->kind == BLOCK_LET && !names_find(&lower->names, block->name))
            names_insert(&lower->names, lower->arena, block->name)->span = span_of(block->file, block->name_loc);
    for (const Block *block = first; block; block = block->next) {
        if (block->kind != BLOCK_LET) continue;
        SourcePlace place = lower_enter(lower, block->file, block->directory);
        ok &= let_lower(lower, block->name, block->name_loc, block->entries->value);
        lower_leave(lower, place);
    }
    if (!names_find(&lower->names, "training")) {
        const double training = lower->eval ? 0 : 1;
        Symbol *symbol = names_insert(&lower->names, lower->arena, "training");
        symbol->kind = SYMBOL_NUMBER;
        symbol->number = (Number){.i = (int64_t)training, .f = training};
    }
    lower->globals = lower->names;
    lower->names = (Names){0};
    return ok;
}

static bool head_lower(Lower *lower, const Block *net) {
    bool ok = check_defines(lower, net);
    for (const Entry *entry = net->entries; entry; entry = entry->next)
        name_ahead(lower, entry->name, entry->name_loc);
    for (const Entry *entry = net->entries; entry; entry = entry->next)
        ok &= head_entry_lower(lower, entry);
    return ok;
}

/* Lowers a block in the scope of its own file. */
static bool block_lower(Lower *lower, const Block *block, bool (*lower_it)(Lower *lower, const Block *block)) {
    if (!block) return lower_it(lower, NULL);
    SourcePlace place = lower_enter(lower, block->file, block->directory);
    bool ok = lower_it(lower, block);
    lower_leave(lower, place);
    return ok;
}

static bool file_lower(Lower *lower, const Block *first) {
    const Block *blocks[NBLOCKS] = {0};
    bool ok = blocks_find(lower, first, blocks);
    const Block *net = blocks[BLOCK_NET];
    if (!net) return false;
    lower->graph->name = net->name;
    ok &= cells_define(lower, first);
    ok &= globals_lower(lower, first);
    lower->net = net;
    lower->blocks = first;
    lower->train = blocks[BLOCK_TRAIN];
    lower->batch = rows_number(net);
    if (lower->eval) ok &= block_lower(lower, blocks[lower->of], eval_numbers);
    ok &= lower->eval || !blocks[BLOCK_TRAIN] || block_lower(lower, blocks[BLOCK_TRAIN], micro_find);
    ok &= block_lower(lower, net, head_lower);
    /* Its mode decides the net's types: after an error in it, further messages about them would be unreliable. */
    if (!block_lower(lower, blocks[BLOCK_PARALLEL], parallel_lower)) return false;
    ok &= hints_read(lower, first);
    bool lowered = block_lower(lower, net, net_lower);
    ok &= lowered;
    if (lowered && !lower->eval && lower->overrides->paths) paths_list(lower, lower->overrides->paths);
    if (lower->eval && !lowered)
        diag_note(lower->diags, span_of(blocks[lower->of]->file, blocks[lower->of]->loc), "so it is with the numbers of the %s block",
                  lower->of == BLOCK_EVAL ? "eval" : "generate");
    /* The blocks refer to inputs: where those are wrong, messages about them would be wrong too. */
    if (!ok || !indices_check(lower) || !hints_matched(lower) || !forbids_matched(lower) || !dataset_lower(lower) || !blocks[BLOCK_TRAIN])
        return false;
    lower->graph->settings.has_generate = blocks[BLOCK_GENERATE] != NULL;
    if (lower->eval ? !block_lower(lower, blocks[lower->of], lower->of == BLOCK_EVAL ? eval_lower : generate_lower)
                    : !block_lower(lower, blocks[BLOCK_TRAIN], train_lower) || !block_lower(lower, blocks[BLOCK_EVAL], eval_note) ||
                          !watches_complete(lower, blocks[BLOCK_EVAL]))
        return false;
    if (lower->graph->nranks == 1 || lower->manual)
        lower->graph->settings.mesh.n = lower->graph->settings.hint_axes.n =
            0; /* its names were checked; here no digits stand behind them */
    return true;
}

static bool lower(const Source *source, const Overrides *overrides, BlockKind of, Generation *generation, Graph *graph, Arena *arena,
                  Diags *diags) {
    graph_init(graph, arena);
    graph->file = source->name;
    graph->nranks = overrides->nranks > 0 ? overrides->nranks : 1;
    for (int i = 0; i < source->files.n; i++)
        vec_push(arena, &graph->files, source->files.at[i]);
    Lower lower = {.graph = graph,
                   .arena = arena,
                   .diags = diags,
                   .overrides = overrides,
                   .text = source->text,
                   .file = source->file,
                   .directory = "",
                   .prefix = "",
                   .suffix = "",
                   .path = "",
                   .rows.prediction = -1,
                   .micro = 1,
                   .of = of,
                   .eval = of != BLOCK_TRAIN};
    int nerrors = diags->nerrors;
    const bool done = file_lower(&lower, source->blocks) && diags->nerrors == nerrors;
    if (done && overrides->rows) *overrides->rows = lower.rows;
    if (done && generation) *generation = lower.generation;
    return done;
}

bool frontend_train(const Source *source, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags) {
    return lower(source, overrides, BLOCK_TRAIN, NULL, graph, arena, diags);
}

bool frontend_eval(const Source *source, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags) {
    return lower(source, overrides, BLOCK_EVAL, NULL, graph, arena, diags);
}

bool frontend_generate(const Source *source, const Overrides *overrides, Generation *generation, Graph *graph, Arena *arena, Diags *diags) {
    return lower(source, overrides, BLOCK_GENERATE, generation, graph, arena, diags);
}

bool frontend_compile(const char *name, const char *text, size_t n, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags) {
    Source source;
    return frontend_read(&source, name, text, n, overrides, arena, diags) && frontend_train(&source, overrides, graph, arena, diags);
}
