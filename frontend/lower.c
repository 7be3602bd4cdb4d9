/* The net: its numbers, declarations and statements, in the order of the text. Before: a syntax tree without syntax errors. After: the
 * forward graph, verified by graph_verify; every name defined once; loss a single number. Linear in the size of the text. */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- the head: net q(batch = 16) */

static Number define_number(const Overrides *flags, int i) {
    if (flags->define_real && !isnan(flags->define_real[i])) return (Number){.real = true, .f = flags->define_real[i]};
    return (Number){.i = flags->define_value[i], .f = (double)flags->define_value[i]};
}

/* The value that -D gives a number: the last one counts. */
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
    bool defined = define_find(lower->overrides, entry->name, &number);
    if (!defined && !entry->value) {
        diag_error(lower->diags, lower_span(lower, entry->name_loc), "%s has no value", entry->name);
        diag_hint(lower->diags, "give it one here (%s = 16), or with -D %s=16", entry->name, entry->name);
        *symbol = failed;
        return false;
    }
    bool known = defined || number_eval(lower, entry->value, &number);
    symbol = names_find(&lower->names, entry->name); /* the table may have grown */
    if (!known) {
        *symbol = failed;
        return false;
    }
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
    if (!statement->type) {
        diag_error(lower->diags, span, "%s needs a type", name);
        diag_hint(lower->diags, "%s : f32[16, 32]", name);
        return false;
    }
    if (statement->kind == STATEMENT_INPUT && statement->value) {
        diag_error(lower->diags, lower_span(lower, statement->value->loc), "an input has no initial value");
        diag_hint(lower->diags, "data comes from the train block; param and const have values");
        return false;
    }
    if (statement->kind != STATEMENT_INPUT && !statement->value) {
        bool is_param = statement->kind == STATEMENT_PARAM;
        diag_error(lower->diags, span, is_param ? "%s has no initial value" : "%s has no value", name);
        diag_hint(lower->diags,
                  is_param ? "param %s : ... = normal(0.01); or uniform(a, b), zeros, ones, a literal, file(\"w.npy\")"
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

static bool declared_hint(Lower *lower, const Statement *statement, const char *what, const Hint **hint) {
    *hint = NULL;
    if (!statement->shard || !shard_counts(lower, statement->shard->loc)) return true;
    return (*hint = hint_eval(lower, statement->shard, 1, what)) != NULL;
}

static bool input_lower(Lower *lower, const Statement *statement, Symbol *symbol) {
    Input input = {.name = statement->name, .span = symbol->span};
    if (!type_eval(lower, statement->type, statement->name, &input.type)) return false;
    if (!declared_hint(lower, statement, "input", &input.hint)) return false;
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

static bool param_lower(Lower *lower, const Statement *statement, Symbol *symbol) {
    State state = {.name = statement->name, .trainable = true, .span = symbol->span};
    if (!type_eval(lower, statement->type, statement->name, &state.type)) return false;
    if (state.type.dtype == I32) {
        diag_error(lower->diags, lower_span(lower, statement->type->dtype_loc), "a param is trained, and i32 has no gradient");
        diag_hint(lower->diags, "f32 or f64; a fixed tensor of integers is a const");
        return false;
    }
    if (!init_eval(lower, statement->value, &state.type, &state.init)) return false;
    if (!declared_hint(lower, statement, "param", &state.hint)) return false;
    int read = graph_read_state(lower->graph, graph_add_state(lower->graph, state), 0, NULL, symbol->span);
    const char *name = lower->hidden ? arena_printf(lower->arena, "%s.replicas", statement->name) : NULL;
    symbol->value = replicate(lower, read, name, symbol->span);
    symbol->kind = SYMBOL_PARAM;
    return true;
}

static bool const_lower(Lower *lower, const Statement *statement, Symbol *symbol) {
    TensorType type;
    const double *data;
    double splat;
    if (!type_eval(lower, statement->type, statement->name, &type) || !constant_eval(lower, statement->value, &type, &data, &splat))
        return false;
    int constant = graph_constant(lower->graph, type, data, splat, statement->name, symbol->span);
    const char *name = lower->hidden ? arena_printf(lower->arena, "%s.replicas", statement->name) : NULL;
    symbol->value = replicate(lower, constant, name, symbol->span);
    symbol->kind = SYMBOL_CONST;
    return true;
}

static bool loss_lower(Lower *lower, const Statement *statement) {
    Graph *graph = lower->graph;
    Span span = lower_span(lower, statement->value->loc);
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
    const TensorType *type = &graph->values.at[symbol.value].type;
    if (type->shape.ndim != (type->hidden ? 1 : 0)) {
        diag_error(lower->diags, span, "the loss must be a single number, and this is %s", type_text(lower, type));
        diag_hint(lower->diags, "mean(...) or sum(...) of it is one; so is mse(y, label)");
        return false;
    }
    if (type->dtype == I32) {
        diag_error(lower->diags, span, "the loss must be f32 or f64, and this is i32");
        return false;
    }
    graph->loss = symbol.value;
    return true;
}

/* q, k, v = split(...): defines every name, and says what each is. */
static bool results_statement(Lower *lower, const Statement *statement) {
    const char *names[MAX_OUT] = {statement->name};
    Symbol symbols[MAX_OUT] = {{0}}, *place;
    int n = 0;
    bool ok = names_define(lower, statement->name, statement->name_loc, &place);
    if (ok) symbols[0] = *place;
    n++;
    for (const Target *target = statement->targets; target && ok; target = target->next) {
        if (n == MAX_OUT) {
            diag_error(lower->diags, lower_span(lower, target->loc), "an operator has at most %d results", (int)MAX_OUT);
            ok = false;
        } else if ((ok = names_define(lower, target->name, target->loc, &place))) {
            symbols[n] = *place;
            names[n++] = target->name;
        }
    }
    bool lowered = ok && results_lower(lower, statement->value, names, n, statement->shard, symbols);
    for (int i = 0; i < n; i++) {
        if (!symbols[i].name) continue; /* defined elsewhere */
        if (!lowered) symbols[i].kind = SYMBOL_FAILED;
        *names_find(&lower->names, names[i]) = symbols[i];
    }
    return lowered;
}

static bool statement_lower(Lower *lower, const Statement *statement) {
    if (!room_for_node(lower, statement->name_loc)) return false;
    if (statement->kind == STATEMENT_LOSS) return loss_lower(lower, statement);
    if (statement->targets) return results_statement(lower, statement);
    Symbol *place;
    if (!names_define(lower, statement->name, statement->name_loc, &place)) return false;
    Symbol symbol = *place; /* the table may grow meanwhile: place is looked up again */
    bool ok = statement->kind == STATEMENT_ASSIGN || declared_well(lower, statement);
    switch (statement->kind) {
    case STATEMENT_INPUT:
        ok = ok && input_lower(lower, statement, &symbol);
        break;
    case STATEMENT_PARAM:
        ok = ok && param_lower(lower, statement, &symbol);
        break;
    case STATEMENT_CONST:
        ok = ok && const_lower(lower, statement, &symbol);
        break;
    case STATEMENT_ASSIGN:
        ok = expr_lower(lower, statement->value, statement->name, statement->shard, &symbol);
        break;
    case STATEMENT_LOSS:
        break;
    }
    if (!ok) symbol.kind = SYMBOL_FAILED;
    *names_find(&lower->names, statement->name) = symbol;
    return ok;
}

/* A name that is defined below. */
static void name_ahead(Lower *lower, const char *name, Loc loc) {
    if (!names_find(&lower->names, name)) names_insert(&lower->names, lower->arena, name)->span = lower_span(lower, loc);
}

static bool net_lower(Lower *lower, const Block *net) {
    bool ok = true;
    for (const Statement *statement = net->statements; statement; statement = statement->next) {
        if (statement->name) name_ahead(lower, statement->name, statement->name_loc);
        for (const Target *target = statement->targets; target; target = target->next)
            name_ahead(lower, target->name, target->loc);
    }
    for (const Statement *statement = net->statements; statement; statement = statement->next) {
        ok &= statement_lower(lower, statement);
        if (lower->full || lower->diags->nerrors >= DIAG_MAX_ERRORS) return false;
    }
    if (lower->loss_span.line) return ok;
    diag_error(lower->diags, lower_span(lower, net->name_loc), "net %s has no loss", net->name);
    diag_hint(lower->diags, "say what is to become small: loss mse(y, label);");
    return false;
}

/* ---------------------------------------------------------------- the file */

/* One net, one train block, at most one parallel block: blocks[kind], NULL where there is none. */
static bool blocks_find(Lower *lower, const Parse *parse, const Block **blocks) {
    static const char *const names[NBLOCKS] = {"net", "train", "parallel"};
    bool ok = true;
    for (const Block *block = parse->blocks; block; block = block->next) {
        if (!blocks[block->kind]) {
            blocks[block->kind] = block;
            continue;
        }
        diag_error(lower->diags, lower_span(lower, block->loc), "a second %s block", names[block->kind]);
        diag_note(lower->diags, lower_span(lower, blocks[block->kind]->loc), "the first one is here");
        ok = false;
    }
    Span whole = {.file = lower->file, .line = 1, .column = 1, .length = 1};
    if (!blocks[BLOCK_NET]) {
        diag_error(lower->diags, whole, "there is no net");
        diag_hint(lower->diags, "net NAME(batch = 16) { input ...; param ...; y = ...; loss mse(y, label); }");
        return false;
    }
    if (!blocks[BLOCK_TRAIN]) {
        diag_error(lower->diags, lower_span(lower, blocks[BLOCK_NET]->name_loc),
                   "there is no train block: neither data nor an optimizer for net %s", blocks[BLOCK_NET]->name);
        diag_hint(lower->diags, "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 10; }");
        ok = false;
    }
    return ok;
}

static bool file_lower(Lower *lower, const Parse *parse) {
    const Block *blocks[NBLOCKS] = {0};
    bool ok = blocks_find(lower, parse, blocks);
    const Block *net = blocks[BLOCK_NET];
    if (!net) return false;
    lower->graph->name = net->name;
    ok &= check_defines(lower, net);
    for (const Entry *entry = net->entries; entry; entry = entry->next)
        name_ahead(lower, entry->name, entry->name_loc);
    for (const Entry *entry = net->entries; entry; entry = entry->next)
        ok &= head_entry_lower(lower, entry);
    /* Its mode decides what the net's types are: after an error in it nothing that is said of them can be relied on. */
    if (!parallel_lower(lower, blocks[BLOCK_PARALLEL])) return false;
    ok &= net_lower(lower, net);
    /* The blocks speak of inputs: where those are wrong, what is said about them would be too. */
    if (!ok || !dataset_lower(lower) || !train_lower(lower, blocks[BLOCK_TRAIN])) return false;
    if (lower->graph->nranks == 1) lower->graph->settings.mesh.n = 0; /* its names are checked, there are no digits that they stand for */
    return true;
}

bool frontend_compile(const char *name, const char *text, size_t n, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags) {
    graph_init(graph, arena);
    graph->file = name;
    graph->nranks = overrides->nranks > 0 ? overrides->nranks : 1;
    const char *slash = strrchr(name, '/');
    Parse parse;
    Lower lower = {.graph = graph, .arena = arena, .diags = diags, .overrides = overrides, .text = text};
    lower.directory = slash ? arena_copy(arena, name, (size_t)(slash - name) + 1) : "";
    lower.file = diags_add_file(diags, name, text, n);
    int nerrors = diags->nerrors;
    return parse_run(&parse, arena, diags, lower.file, false) && file_lower(&lower, &parse) && diags->nerrors == nerrors;
}
