#include "frontend/ast.h"

#include <criterion/criterion.h>
#include <string.h>

static Arena arena;
static Diags diags;

static void start(void) {
    arena_init(&arena);
    diags_init(&diags, &arena);
}

static void stop(void) {
    arena_finish(&arena);
}

static bool parse(const char *text, Parse *parsed) {
    int file = diags_add_file(&diags, "net.dsl", text, strlen(text));
    return parse_run(parsed, &arena, &diags, file, true);
}

/* An expression with all its brackets. */
static void print(Text *text, const Expr *expr) {
    static const char *const open[] = {
        [EXPR_LIST] = "[", [EXPR_TUPLE] = "<", [EXPR_CALL] = "(", [EXPR_PATH] = "{", [EXPR_INDEX] = "@[", [EXPR_RANGE] = "|"};
    static const char *const close[] = {
        [EXPR_LIST] = "]", [EXPR_TUPLE] = ">", [EXPR_CALL] = ")", [EXPR_PATH] = "}", [EXPR_INDEX] = "]", [EXPR_RANGE] = "|"};
    switch ((ExprKind)expr->kind) {
    case EXPR_INT:
        text_printf(text, "%lld", (long long)expr->integer);
        break;
    case EXPR_FLOAT:
        text_printf(text, "%g", expr->real);
        break;
    case EXPR_STRING:
        text_printf(text, "\"%s\"", expr->text);
        break;
    case EXPR_NAME:
        text_printf(text, "%s", expr->text);
        break;
    case EXPR_DASH:
        text_printf(text, "-");
        break;
    case EXPR_KEYWORD:
        text_printf(text, "%s=", expr->text);
        print(text, expr->items);
        break;
    case EXPR_NEG:
        text_printf(text, "-(");
        print(text, expr->items);
        text_printf(text, ")");
        break;
    case EXPR_NOT:
        text_printf(text, "!(");
        print(text, expr->items);
        text_printf(text, ")");
        break;
    case EXPR_BINARY:
        text_printf(text, "(");
        print(text, expr->items);
        text_printf(text, "%c", expr->op);
        print(text, expr->last);
        text_printf(text, ")");
        break;
    case EXPR_SHARD:
        print(text, expr->items);
        text_printf(text, "/");
        if (expr->shard->in) print(text, expr->shard->in);
        if (expr->shard->out) text_printf(text, ">");
        if (expr->shard->out) print(text, expr->shard->out);
        break;
    case EXPR_LIST:
    case EXPR_TUPLE:
    case EXPR_CALL:
    case EXPR_PATH:
    case EXPR_INDEX:
    case EXPR_RANGE:
        text_printf(text, "%s%s", expr->kind == EXPR_CALL ? expr->text : "", open[expr->kind]);
        for (const Expr *item = expr->items; item; item = item->next) {
            if (item != expr->items) text_printf(text, " ");
            print(text, item);
        }
        text_printf(text, "%s%s", expr->comma ? "," : "", close[expr->kind]);
        break;
    }
}

static void expect_tree(const char *source, const char *want) {
    Parse parsed;
    Text text = {0};
    cr_assert(parse(source, &parsed), "%s", source);
    print(&text, parsed.value);
    cr_assert_str_eq(text.at, want);
    text_finish(&text);
}

TestSuite(ast, .init = start, .fini = stop);

Test(ast, infix_operators_bind_as_in_c_and_to_the_left) {
    expect_tree("a - b - c * d / 2 % 3", "((a-b)-(((c*d)/2)%3))");
    expect_tree("-a * -b + +c", "((-(a)*-(b))+c)");
    expect_tree("- - a", "-(-(a))");
}

Test(ast, calls_take_positions_names_and_a_last_comma) {
    expect_tree("f(x, [1, 2,], k = g(), )", "f(x [1 2] k=g())");
}

Test(ast, tuples_know_whether_a_comma_ends_them) {
    expect_tree("((2, 4), (4,), (1))", "<<2 4> <4,> <1>>");
    expect_tree("()", "<>");
}

Test(ast, axes_are_joined_by_dots_and_a_lone_minus_is_a_dimension) {
    expect_tree("((dp.tp.pp, -), (- , -1))", "<<{dp tp pp} -> <- -(1)>>");
}

Test(ast, powers_bind_before_signs_and_to_the_right_products_of_matrices_as_products) {
    expect_tree("-a ** 2", "-((a^2))");
    expect_tree("a ** -b ** c * d", "((a^-((b^c)))*d)");
    expect_tree("a + b @ c * d", "(a+((b@c)*d))");
}

Test(ast, what_stands_behind_a_value_belongs_to_it) {
    expect_tree("x.relu().sum(1, k = 2)", "sum(relu(x) 1 k=2)");
    expect_tree("x.shape[0] * w.T.n", "(@[{x shape} 0]*{w T n})");
    expect_tree("f(x)[0].T", "{@[f(x) 0] T}");
}

Test(ast, subscripts_are_numbers_ranges_and_dots) {
    expect_tree("x[0, 1:, :2, :, 3:4:5, ..., None]", "@[x 0 |1 -| |- 2| |- -| |3 4 5| ... None]");
}

Test(ast, a_strategy_in_brackets_is_of_the_operator_before_it) {
    expect_tree("f(x shard (2, 4), k = y shard)", "f(x/<2 4> k=y/)");
    expect_tree("(a @ b shard ((2), (4)) -> (8)) + c", "(<(a@b)/<<2> <4>>><8>>+c)");
    expect_tree("(a @ b).shard((2), (4))", "<(a@b)>/<<2> <4>>");
    expect_tree("a.shard(((2), (4)), ((8),)).f()", "f(a/<<2> <4>>><<8>,>)");
    expect_tree("a.shard(in_strategy = ((2),), out_strategy = (8))", "a/<<2>,>><8>");
}

Test(ast, numbers_are_decimal_integers_and_reals) {
    expect_tree("[0, 9223372036854775807, .5, 1., 1.5e-3, 2E3]", "[0 9223372036854775807 0.5 1 0.0015 2000]");
}

Test(ast, locations_say_where_an_expression_is_and_how_long) {
    Parse parsed;
    cr_assert(parse("\n  f(x,\n   yy + 1)", &parsed));
    const Expr *call = parsed.value, *sum = call->last;
    cr_assert_eq(call->loc.line, 2);
    cr_assert_eq(call->loc.column, 3);
    cr_assert_eq(call->loc.end - call->loc.begin, 15);
    cr_assert_eq(sum->loc.line, 3);
    cr_assert_eq(sum->loc.column, 4);
    cr_assert_eq(span_of(parsed.file, sum->loc).length, 6);
}

Test(ast, depth_is_that_of_the_deepest_part) {
    Parse parsed;
    cr_assert(parse("a + b * -c", &parsed));
    cr_assert_eq(parsed.value->depth, 3);
}

Test(ast, blocks_keep_the_order_of_the_text) {
    const char *text = "train { steps = 1; data = d(); } net q(n = 1, m = n) { input x : f32[n]; loss x; } parallel { mesh (dp = 2); }";
    Parse parsed;
    int file = diags_add_file(&diags, "net.dsl", text, strlen(text));
    cr_assert(parse_run(&parsed, &arena, &diags, file, false));
    const Block *train = parsed.blocks, *net = train->next, *parallel = net->next;
    cr_assert_eq(train->kind, BLOCK_TRAIN);
    cr_assert_str_eq(train->entries->next->name, "data");
    cr_assert_eq(net->kind, BLOCK_NET);
    cr_assert_str_eq(net->entries->next->name, "m");
    cr_assert_eq(net->statements->kind, STATEMENT_INPUT);
    cr_assert_eq(net->statements->next->kind, STATEMENT_LOSS);
    cr_assert_str_eq(parallel->entries->name, "mesh");
    cr_assert_eq(parallel->entries->value->kind, EXPR_CALL);
}
