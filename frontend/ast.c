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

Shard *shard_new(Parse *parse, Loc loc, Expr *in, Expr *out) {
    Shard *shard = arena_alloc(parse->arena, sizeof *shard);
    *shard = (Shard){.loc = loc, .in = in, .out = out};
    return shard;
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
