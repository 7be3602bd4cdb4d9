/* names: the table of names of a scope and their definitions; messages about unknown and repeated names. */
#include "frontend/lower.h"

#include <string.h>
#include <xxhash.h>

static uint64_t hash_of(const char *name) {
    return XXH3_64bits(name, strlen(name));
}

Symbol *names_find(const Names *names, const char *name) {
    map_each(&names->map, hash_of(name), i) if (strcmp(names->symbols.at[i].name, name) == 0) return &names->symbols.at[i];
    return NULL;
}

Symbol *names_insert(Names *names, Arena *arena, const char *name) {
    map_add(arena, &names->map, hash_of(name), names->symbols.n);
    vec_push(arena, &names->symbols, ((Symbol){.name = name, .kind = SYMBOL_AHEAD, .value = -1}));
    return &names->symbols.at[names->symbols.n - 1];
}

void note_defined(Lower *lower, const Symbol *symbol) {
    switch (symbol->kind) {
    case SYMBOL_AHEAD:
    case SYMBOL_PASSED:
    case SYMBOL_GONE:
    case SYMBOL_OPEN:
    case SYMBOL_FAILED:
        diag_note(lower->diags, symbol->span, "%s is defined here", symbol->name);
        break;
    case SYMBOL_NUMBER:
        diag_note(lower->diags, symbol->span, "%s is the number %s", symbol->name, number_text(lower->arena, symbol->number));
        break;
    case SYMBOL_INPUT:
    case SYMBOL_PARAM:
    case SYMBOL_CONST:
    case SYMBOL_STATE:
    case SYMBOL_VALUE: {
        const TensorType *type = &lower->graph->values.at[symbol->value].type;
        diag_note(lower->diags, symbol->span, "%s is %s %s here", symbol->name, symbol->kind == SYMBOL_VALUE ? "defined as" : "declared",
                  type_text(lower, type));
        break;
    }
    }
}

bool names_define(Lower *lower, const char *name, Loc loc, Symbol **symbol) {
    static const char *const reserved[] = {"true", "false", "True", "False", "None"};
    Symbol *found = names_find(&lower->names, name);
    if (!found) found = names_insert(&lower->names, lower->arena, name);
    *symbol = found;
    if (found->kind >= SYMBOL_OPEN) {
        diag_error(lower->diags, lower_span(lower, loc), "%s is defined twice", name);
        diag_note(lower->diags, found->span, "the first definition is here");
        diag_hint(lower->diags, "each name stands for one thing: give this one another name");
        return false;
    }
    found->kind = SYMBOL_OPEN;
    found->span = lower_span(lower, loc);
    found->block = lower->block;
    if (lower->block) vec_push(lower->arena, &lower->locals, name);
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (!strcmp(name, reserved[i])) {
            found->kind = SYMBOL_FAILED;
            diag_error(lower->diags, found->span, "%s is a value of the language and cannot be a name", name);
            return false;
        }
    return true;
}

bool names_assign(Lower *lower, const char *name, Loc loc, Symbol **symbol) {
    Symbol *found = names_find(&lower->names, name);
    bool carried = found && (found->kind == SYMBOL_VALUE || found->kind == SYMBOL_NUMBER || found->kind == SYMBOL_INPUT ||
                             found->kind == SYMBOL_FAILED);
    if (!carried || found->block >= lower->block) return names_define(lower, name, loc, symbol);
    *symbol = found;
    return true;
}

const Symbol *names_look(const Lower *lower, const char *name) {
    const Symbol *symbol = names_find(&lower->names, name), *global = NULL;
    if (!symbol || symbol->kind == SYMBOL_AHEAD || symbol->kind == SYMBOL_PASSED) global = names_find(&lower->globals, name);
    return global ? global : symbol;
}

/* While a cell is lowered: the same name in the net, which the cell does not see; or NULL. */
static const Symbol *look_outside(const Lower *lower, const char *name) {
    const Frame *frame = lower->frame;
    while (frame && frame->outer)
        frame = frame->outer;
    const Symbol *symbol = frame ? names_find(&frame->names, name) : NULL;
    return symbol && symbol->kind > SYMBOL_FAILED ? symbol : NULL;
}

/* Reports an unknown name, with what may have been meant. Returns NULL. */
static const Symbol *unknown_name(Lower *lower, const char *name, Span span) {
    Strings known = {0};
    for (int global = 0; global < 2; global++) {
        const Names *names = global ? &lower->globals : &lower->names;
        for (int i = 0; i < names->symbols.n; i++)
            if (names->symbols.at[i].kind >= SYMBOL_FAILED) vec_push(lower->arena, &known, names->symbols.at[i].name);
    }
    const Symbol *outside = look_outside(lower, name);
    const char *nearest = outside ? NULL : name_nearest(name, known.at, known.n);
    diag_error(lower->diags, span, "unknown name '%s'", name);
    if (outside) {
        diag_hint(lower->diags, "a cell sees nothing of the net but its arguments: make %s one of them", name);
        note_defined(lower, outside);
    } else if (!strcmp(name, "None") || !strcmp(name, "null") || !strcmp(name, "nil")) {
        diag_hint(lower->diags, "there is no value for nothing: leave it out");
    } else if (nearest) {
        diag_hint(lower->diags, "did you mean %s?", nearest);
        note_defined(lower, names_look(lower, nearest));
    } else {
        diag_hint(lower->diags, "a tensor is declared with input, param or const, or computed: %s = ...;", name);
    }
    return NULL;
}

const Symbol *names_use(Lower *lower, const char *name, Loc loc) {
    const Symbol *symbol = names_look(lower, name);
    Span span = lower_span(lower, loc);
    if (symbol && symbol->kind == SYMBOL_FAILED) return NULL;
    if (symbol && symbol->kind == SYMBOL_GONE) {
        diag_error(lower->diags, span, "%s is known only in the loop that defines it", name);
        diag_note(lower->diags, symbol->span, "%s is defined here", name);
        diag_hint(lower->diags, "give %s a value above the loop; what the loop assigns to it then stays", name);
        return NULL;
    }
    if (symbol && symbol->kind == SYMBOL_PASSED) {
        diag_error(lower->diags, span, "%s is defined only in a branch that is not taken", name);
        diag_note(lower->diags, symbol->span, "%s is defined here", name);
        diag_hint(lower->diags, "the other branches of the if must define it too");
        return NULL;
    }
    if (symbol && symbol->kind > SYMBOL_FAILED) return symbol;
    if (symbol && symbol->kind == SYMBOL_OPEN) {
        diag_error(lower->diags, span, "%s is used in its own definition", name);
        diag_note(lower->diags, symbol->span, "%s is defined here", name);
        diag_hint(lower->diags,
                  lower->loops ? "give %s a value above the loop, and the loop carries it on"
                               : "a name stands for one thing: give the new one another name",
                  name);
        return NULL;
    }
    if (symbol) {
        diag_error(lower->diags, span, "%s is used before its definition", name);
        diag_note(lower->diags, symbol->span, "%s is defined here", name);
        return NULL;
    }
    int op = op_find(name);
    if (op >= 0 && op_table[op].op_class == OP_CLASS_USER) {
        diag_error(lower->diags, span, "%s is an operator; it needs operands: %s(%s)", name, name, op_table[op].ins);
        return NULL;
    }
    if (cell_find(lower, name)) {
        diag_error(lower->diags, span, "%s is a cell; it is called: %s(...)", name, name);
        return NULL;
    }
    return unknown_name(lower, name, span);
}

int choice(Lower *lower, const char *what, const Expr *value, const char *const *names, int n) {
    const char *list = names[0];
    for (int i = 1; i < n; i++)
        list = arena_printf(lower->arena, "%s, %s", list, names[i]);
    const char *text = word_of(lower, value), *word = text ? foreign_word(what, text) : NULL;
    if (!word) {
        diag_error(lower->diags, lower_span(lower, value->loc), "%s is one of: %s", what, list);
        return -1;
    }
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], word)) return i;
    const char *known = foreign_hint(lower->arena, what, word), *nearest = name_nearest(word, names, n);
    diag_error(lower->diags, lower_span(lower, value->loc), "unknown %s '%s'", what,
               value->kind == EXPR_PATH ? value->last->text : value->text);
    if (known)
        diag_hint(lower->diags, "%s", known);
    else if (nearest)
        diag_hint(lower->diags, "did you mean %s? There are: %s", nearest, list);
    else
        diag_hint(lower->diags, "there are: %s", list);
    return -1;
}
