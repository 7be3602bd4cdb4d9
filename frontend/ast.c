/* ast: nodes and lists of the syntax tree, as the parser builds them. */
#include "frontend/ast.h"

#include <string.h>

/* A span stays on its first line: diagnostics underline one line. */
Span span_of(int file, Loc loc) {
    return (Span){.file = file, .line = loc.line, .column = loc.column, .length = loc.end > loc.begin ? loc.end - loc.begin : 1};
}

Loc loc_join(Loc first, Loc last) {
    first.end = last.end > first.begin ? last.end : first.end;
    return first;
}

Expr *expr_new(Parse *parse, ExprKind kind, Loc loc) {
    if (++parse->nexprs > MAX_EXPRS && !parse->stopped) {
        diag_error(parse->diags, span_of(parse->file, loc), "the file has more than %d numbers, names and operators", (int)MAX_EXPRS);
        diag_hint(parse->diags, "large tensors belong in .npy files: param w : f32[...] = file(\"w.npy\");");
        parse->stopped = true;
    }
    Expr *expr = arena_alloc(parse->arena, sizeof *expr);
    expr->kind = (uint8_t)kind;
    expr->loc = loc;
    return expr;
}

Expr *expr_text(Parse *parse, ExprKind kind, Loc loc, const char *text) {
    Expr *expr = expr_new(parse, kind, loc);
    expr->text = text;
    return expr;
}

Expr *expr_add(Parse *parse, Expr *parent, Expr *item) {
    *(parent->items ? &parent->last->next : &parent->items) = item;
    parent->last = item;
    parent->nitems++;
    parent->loc = loc_join(parent->loc, item->loc);
    if (item->depth >= parent->depth) parent->depth = (uint16_t)(item->depth + 1);
    if (parent->depth > MAX_EXPR_DEPTH) syntax_too_deep(parse, parent->loc);
    return parent;
}

Expr *expr_binary(Parse *parse, char op, Expr *left, Expr *right) {
    Expr *expr = expr_new(parse, EXPR_BINARY, loc_join(left->loc, right->loc));
    expr->op = op;
    return expr_add(parse, expr_add(parse, expr, left), right);
}

Expr *expr_unary(Parse *parse, ExprKind kind, Loc loc, Expr *operand) {
    return expr_add(parse, expr_new(parse, kind, loc), operand);
}

Expr *expr_member(Parse *parse, Loc loc, Expr *base, Expr *name) {
    Expr *path = base->kind == EXPR_PATH ? base : expr_add(parse, expr_new(parse, EXPR_PATH, loc), base);
    expr_add(parse, path, name)->loc = loc;
    return path;
}

/* A method call, whose first argument comes before its name. */
Expr *expr_method(Parse *parse, Loc loc, Expr *base, const char *name, Expr *call) {
    Expr *method = expr_add(parse, expr_text(parse, EXPR_CALL, loc, name), base);
    method->method = true;
    for (Expr *item = call->items, *next; item; item = next) {
        next = item->next;
        item->next = NULL;
        expr_add(parse, method, item);
    }
    method->loc = loc;
    return method;
}

Expr *expr_index(Parse *parse, Loc loc, Expr *base, Expr *subscripts) {
    Expr *index = expr_add(parse, expr_new(parse, EXPR_INDEX, loc), base);
    for (Expr *item = subscripts->items, *next; item; item = next) {
        next = item->next;
        item->next = NULL;
        expr_add(parse, index, item);
    }
    index->loc = loc;
    return index;
}

Expr *expr_sharded(Parse *parse, Loc loc, Expr *operand, const Shard *shard) {
    Expr *sharded = expr_new(parse, EXPR_SHARD, loc);
    sharded->shard = shard;
    expr_add(parse, sharded, operand)->loc = loc;
    return sharded;
}

Shard *shard_new(Parse *parse, Loc loc, Expr *in, Expr *out) {
    Shard *shard = arena_alloc(parse->arena, sizeof *shard);
    *shard = (Shard){.loc = loc, .in = in, .out = out};
    return shard;
}

Shard *shard_of_pattern(Parse *parse, Loc loc, Expr *value) {
    const bool regather = value->kind == EXPR_NAME && !strcmp(value->text, "regather");
    Shard *shard = shard_new(parse, loc, regather ? NULL : value, NULL);
    shard->regather = regather;
    return shard;
}

bool shard_is_mark(const Shard *shard) {
    return shard->recompute || shard->regather || shard->stage;
}

/* A tuple of tuples. */
static bool is_strategy(const Expr *expr) {
    return expr->kind == EXPR_TUPLE && expr->items && expr->items->kind == EXPR_TUPLE;
}

Shard *shard_method(Parse *parse, Loc loc, Expr *call) {
    Expr *in = NULL, *out = NULL, *rest = expr_new(parse, EXPR_TUPLE, call->loc);
    for (Expr *item = call->items, *next; item; item = next) {
        next = item->next;
        item->next = NULL;
        if (item->kind == EXPR_KEYWORD && !strcmp(item->text, "in_strategy"))
            in = item->items;
        else if (item->kind == EXPR_KEYWORD && !strcmp(item->text, "out_strategy"))
            out = item->items;
        else
            expr_add(parse, rest, item);
    }
    rest->loc = call->loc;
    bool both = !in && !out && rest->nitems == 2 && is_strategy(rest->items) && is_strategy(rest->last); /* (in_strategy, out_strategy) */
    if (both) {
        out = rest->last;
        in = rest->items;
        in->next = NULL;
    }
    return shard_new(parse, loc, in ? in : call->nitems > 0 ? rest : NULL, out);
}

Shard *shard_block(Parse *parse, Loc loc, PatternList patterns) {
    Shard *shard = arena_alloc(parse->arena, sizeof *shard);
    *shard = (Shard){.loc = loc, .block = true, .patterns = patterns.first};
    return shard;
}

PatternList pattern_append(Parse *parse, PatternList list, const char *path, Loc loc, Shard *shard) {
    Pattern *pattern = arena_alloc(parse->arena, sizeof *pattern);
    *pattern = (Pattern){.path = path, .loc = loc, .shard = shard};
    *(list.first ? &list.last->next : &list.first) = pattern;
    list.last = pattern;
    return list;
}

TypeExpr *type_new(Parse *parse, Loc loc, const char *dtype, Loc dtype_loc, Expr *dims) {
    TypeExpr *type = arena_alloc(parse->arena, sizeof *type);
    *type = (TypeExpr){.loc = loc, .dtype = dtype, .dtype_loc = dtype_loc, .dims = dims};
    return type;
}

TargetList target_append(Parse *parse, TargetList list, const char *name, Loc loc) {
    Target *target = arena_alloc(parse->arena, sizeof *target);
    *target = (Target){.name = name, .loc = loc};
    if (list.last)
        list.last->next = target;
    else
        list.first = target;
    list.last = target;
    return list;
}

Statement *statement_new(Parse *parse, StatementKind kind, const char *name, Loc name_loc) {
    Statement *statement = arena_alloc(parse->arena, sizeof *statement);
    *statement = (Statement){.kind = kind, .name = name, .name_loc = name_loc};
    return statement;
}

StatementList statement_append(StatementList list, Statement *statement) {
    *(list.first ? &list.last->next : &list.first) = statement;
    list.last = statement;
    return list;
}

Entry *entry_new(Parse *parse, const char *name, Loc name_loc, Expr *value) {
    Entry *entry = arena_alloc(parse->arena, sizeof *entry);
    *entry = (Entry){.name = name, .name_loc = name_loc, .value = value};
    return entry;
}

EntryList entry_append(EntryList list, Entry *entry) {
    *(list.first ? &list.last->next : &list.first) = entry;
    list.last = entry;
    return list;
}

Block *block_add(Parse *parse, BlockKind kind, Loc loc, const char *name, Loc name_loc, EntryList entries, StatementList statements) {
    Block *block = arena_alloc(parse->arena, sizeof *block);
    *block = (Block){.kind = kind,
                     .loc = loc,
                     .name = name,
                     .name_loc = name_loc,
                     .entries = entries.first,
                     .statements = statements.first,
                     .file = parse->file,
                     .directory = ""};
    *(parse->blocks ? &parse->last_block->next : &parse->blocks) = block;
    return parse->last_block = block;
}
