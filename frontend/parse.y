/* The grammar. It is wide on purpose: what a user may well write by mistake parses, and gets its message where its meaning is known.
 * After a syntax error it goes on at the next ';' or '}', so that one run shows several. Canonical LR names exactly the tokens that could
 * stand at an error, as LAC would, and takes a third of its time. */
%code requires {
#include "frontend/ast.h"
#define YYLTYPE Loc
#define YYMAXDEPTH 4000
typedef void *yyscan_t;
}

%define api.pure full
%define api.location.type {Loc}
%define parse.error custom
%define lr.type canonical-lr
%define lr.default-reduction consistent
%locations
%lex-param {yyscan_t scanner}
%parse-param {yyscan_t scanner} {Parse *parse}
%initial-action { @$ = (Loc){0, 0, 1, 1}; }

%union {
    int64_t integer;
    double real;
    const char *text;
    Expr *expr;
    Shard *shard;
    TypeExpr *type;
    Statement *statement;
    StatementList statements;
    TargetList targets;
    PatternList patterns;
    Entry *entry;
    EntryList entries;
    StatementKind kind;
    Marks marks;
}

%token START_FILE START_VALUE START_HINT
%token NET "'net'" INPUT "'input'" PARAM "'param'" CONST "'const'" STATE "'state'" LOSS "'loss'" SHARD "'shard'" RECOMPUTE "'recompute'" STAGE "'stage'" TRAIN "'train'" PARALLEL "'parallel'" EVAL "'eval'" GENERATE "'generate'"
%token CELL "'cell'" IMPORT "'import'" HINTS "'hints'" LET "'let'" FOR "'for'" IN "'in'" IF "'if'" ELSE "'else'" RETURN "'return'" REQUIRE "'require'"
%token AND "'and'" OR "'or'" NOT "'not'" EQUAL "'=='" UNEQUAL "'!='" AT_MOST "'<='" AT_LEAST "'>='" DOTS "'..'" POWER "'**'" ELLIPSIS "'...'"
%token <text> NAME "a name" STRING "a text" PATH_PATTERN "a path"
%token <integer> INTEGER "a number"
%token <real> REAL "a real number"
%token ARROW "'->'" WRITE "'<-'"

%type <expr> expr number word words metric metrics paths unary power postfix primary subscripts subscript range bound results items item operand arguments argument argument_list init tuple list
%type <shard> shard clause strategy
%type <patterns> patterns
%type <type> type
%type <statement> statement if
%type <statements> statements else
%type <targets> targets
%type <entry> entry head_entry
%type <entries> entries head head_list
%type <kind> declarer
%type <text> compare
%type <marks> marks

%precedence BEFORE_BLOCK /* where a ';' is missing, the next block is not passed over */
%precedence ';'
%left OR
%left AND
%precedence NOT
%nonassoc EQUAL UNEQUAL AT_MOST AT_LEAST '<' '>'
%left '+' '-'
%left '*' '/' '%' '@'

%code {
int yylex(YYSTYPE *value, YYLTYPE *loc, yyscan_t scanner);
static void yyerror(YYLTYPE *loc, yyscan_t scanner, Parse *parse, const char *message);
#define YYLLOC_DEFAULT(current, rhs, n) \
    ((current) = (n) ? loc_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)) \
                     : (Loc){YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).line, YYRHSLOC(rhs, 0).column})
#define STOP_IF_STOPPED do { if (parse->stopped) YYABORT; } while (0)
}

%%

start
    : START_FILE blocks
    | START_VALUE expr { parse->value = $2; }
    | START_HINT PATH_PATTERN '=' strategy end { parse->hint = pattern_append(parse, (PatternList){0}, $2, @2, $4).first; }
    ;

end
    : %empty
    | ';'
    ;

blocks
    : %empty
    | blocks block { STOP_IF_STOPPED; }
    | blocks ';'
    ;

block
    : NET NAME head '{' statements '}' { block_add(parse, BLOCK_NET, @1, $2, @2, $3, $5); }
    | NET NAME head '{' statements error '}' { block_add(parse, BLOCK_NET, @1, $2, @2, $3, $5); yyerrok; }
    | TRAIN '{' entries '}' { block_add(parse, BLOCK_TRAIN, @1, NULL, @1, $3, (StatementList){0}); }
    | TRAIN '{' entries error '}' { block_add(parse, BLOCK_TRAIN, @1, NULL, @1, $3, (StatementList){0}); yyerrok; }
    | PARALLEL '{' entries '}' { block_add(parse, BLOCK_PARALLEL, @1, NULL, @1, $3, (StatementList){0}); }
    | PARALLEL '{' entries error '}' { block_add(parse, BLOCK_PARALLEL, @1, NULL, @1, $3, (StatementList){0}); yyerrok; }
    | EVAL '{' entries '}' { block_add(parse, BLOCK_EVAL, @1, NULL, @1, $3, (StatementList){0}); }
    | EVAL '{' entries error '}' { block_add(parse, BLOCK_EVAL, @1, NULL, @1, $3, (StatementList){0}); yyerrok; }
    | GENERATE '{' entries '}' { block_add(parse, BLOCK_GENERATE, @1, NULL, @1, $3, (StatementList){0}); }
    | GENERATE '{' entries error '}' { block_add(parse, BLOCK_GENERATE, @1, NULL, @1, $3, (StatementList){0}); yyerrok; }
    | CELL NAME head '{' statements '}' { block_add(parse, BLOCK_CELL, @1, $2, @2, $3, $5); }
    | CELL NAME head '{' statements error '}' { block_add(parse, BLOCK_CELL, @1, $2, @2, $3, $5); yyerrok; }
    | HINTS '{' patterns '}' { block_add(parse, BLOCK_HINTS, @1, NULL, @1, (EntryList){0}, (StatementList){0})->patterns = $3.first; }
    | HINTS NAME '{' patterns '}' { block_add(parse, BLOCK_HINTS, @1, hints_word(parse, $2, @2), @2, (EntryList){0}, (StatementList){0})->patterns = $4.first; }
    | HINTS '{' patterns error '}' { yyerrok; }
    | HINTS NAME '{' patterns error '}' { yyerrok; }
    | LET NAME '=' expr ';' {
        block_add(parse, BLOCK_LET, @1, $2, @2, entry_append((EntryList){0}, entry_new(parse, $2, @2, $4)), (StatementList){0});
    }
    | LET error ';' { yyerrok; }
    | LET error %prec BEFORE_BLOCK { yyerrok; }
    | IMPORT STRING ';' { block_add(parse, BLOCK_IMPORT, @1, $2, @2, (EntryList){0}, (StatementList){0}); }
    | IMPORT error ';' { yyerrok; }
    | IMPORT error %prec BEFORE_BLOCK { yyerrok; }
    | error '}' { yyerrok; }
    ;

patterns
    : %empty { $$ = (PatternList){0}; }
    | patterns PATH_PATTERN '=' strategy ';' { STOP_IF_STOPPED; $$ = pattern_append(parse, $1, $2, @2, $4); }
    | patterns PATH_PATTERN arguments ';' { STOP_IF_STOPPED; $3->loc = @3; $$ = pattern_mesh(parse, $1, $2, @2, $3); }
    | patterns ';'
    | patterns error ';' { STOP_IF_STOPPED; yyerrok; $$ = $1; }
    ;

strategy
    : primary { $$ = shard_of_pattern(parse, @$, $1); }
    | primary ARROW primary { $$ = shard_new(parse, @$, $1, $3); }
    | RECOMPUTE { $$ = shard_new(parse, @$, NULL, NULL); $$->recompute = true; }
    | STAGE expr { $$ = shard_new(parse, @$, NULL, NULL); $$->stage = $2; }
    ;

head
    : %empty { $$ = (EntryList){0}; }
    | '(' ')' { $$ = (EntryList){0}; }
    | '(' head_list ')' { $$ = $2; }
    | '(' head_list ',' ')' { $$ = $2; }
    ;

head_list
    : head_entry { $$ = entry_append((EntryList){0}, $1); }
    | head_list ',' head_entry { $$ = entry_append($1, $3); }
    ;

head_entry
    : NAME '=' expr { $$ = entry_new(parse, $1, @1, $3); }
    | NAME { $$ = entry_new(parse, $1, @1, NULL); }
    ;

entries
    : %empty { $$ = (EntryList){0}; }
    | entries entry { STOP_IF_STOPPED; $$ = entry_append($1, $2); }
    | entries ';'
    | entries error ';' { STOP_IF_STOPPED; yyerrok; $$ = $1; }
    ;

entry
    : NAME '=' expr ';' { $$ = entry_new(parse, $1, @1, $3); }
    | RECOMPUTE '=' expr ';' { $$ = entry_new(parse, "recompute", @1, $3); }
    | NAME '=' expr NAME ';' { $$ = entry_new(parse, $1, @1, expr_counted(parse, $1, $3, expr_text(parse, EXPR_NAME, @4, $4))); }
    | NAME '=' LOSS ';' { $$ = entry_new(parse, $1, @1, expr_text(parse, EXPR_NAME, @3, "loss")); }
    | NAME '=' metrics ';' { $$ = entry_new(parse, $1, @1, $3); }
    | NAME arguments ';' {
        Expr *call = $2;
        call->text = $1;
        call->loc = loc_join(@1, @2);
        $$ = entry_new(parse, $1, @1, call);
    }
    | NAME STRING ';' { $$ = entry_new(parse, $1, @1, expr_text(parse, EXPR_STRING, @2, $2)); }
    | NAME STRING NAME NAME ';' {
        Expr *call = expr_add(parse, expr_text(parse, EXPR_CALL, loc_join(@2, @4), $3), expr_text(parse, EXPR_STRING, @2, $2));
        $$ = entry_new(parse, $1, @1, expr_add(parse, call, expr_text(parse, EXPR_NAME, @4, $4)));
    }
    | NAME STRING NAME NAME expr ';' {
        Expr *call = expr_add(parse, expr_text(parse, EXPR_CALL, loc_join(@2, @5), $3), expr_text(parse, EXPR_STRING, @2, $2));
        $$ = entry_new(parse, $1, @1, expr_add(parse, expr_add(parse, call, expr_text(parse, EXPR_NAME, @4, $4)), $5));
    }
    | NAME NAME compare expr ';' { $$ = entry_new(parse, $1, @1, expr_compared(parse, $1, expr_text(parse, EXPR_NAME, @2, $2), $3, $4, NULL)); }
    | NAME NAME compare expr NAME ';' {
        $$ = entry_new(parse, $1, @1,
                       expr_compared(parse, $1, expr_text(parse, EXPR_NAME, @2, $2), $3, $4, expr_text(parse, EXPR_NAME, @5, $5)));
    }
    | NAME NAME ';' { $$ = entry_new(parse, $1, @1, expr_forbidden(parse, $1, expr_text(parse, EXPR_NAME, @2, $2), @3)); }
    | NAME NAME NAME PATH_PATTERN ';' {
        Expr *call = expr_add(parse, expr_text(parse, EXPR_CALL, loc_join(@2, @4), $3), expr_text(parse, EXPR_NAME, @2, $2));
        $$ = entry_new(parse, $1, @1, expr_add(parse, call, expr_text(parse, EXPR_STRING, @4, $4)));
    }
    | NAME NAME paths ';' { $$ = entry_new(parse, $1, @1, expr_paths(parse, $1, $2, @2, NULL, $3)); }
    | NAME number FOR paths ';' { $$ = entry_new(parse, $1, @1, expr_paths(parse, $1, "for", @3, $2, $4)); }
    | NAME NAME expr ';' { $$ = entry_new(parse, $1, @1, expr_add(parse, expr_text(parse, EXPR_CALL, loc_join(@2, @3), $2), $3)); }
    | NAME NAME expr words ';' { $$ = entry_new(parse, $1, @1, expr_sentence(parse, $2, loc_join(@2, @4), $3, $4)); }
    | NAME LOSS expr words ';' { $$ = entry_new(parse, $1, @1, expr_sentence(parse, "loss", loc_join(@2, @4), $3, $4)); }
    ;

words
    : word { $$ = expr_add(parse, expr_new(parse, EXPR_LIST, @1), $1); }
    | words word { $$ = expr_add(parse, $1, $2); }
    ;

word
    : NAME { $$ = expr_text(parse, EXPR_NAME, @1, $1); }
    | LOSS { $$ = expr_text(parse, EXPR_NAME, @1, "loss"); }
    | NAME '(' NAME ')' { $$ = expr_add(parse, expr_text(parse, EXPR_CALL, loc_join(@1, @4), $1), expr_text(parse, EXPR_NAME, @3, $3)); }
    | number
    ;

number
    : INTEGER { $$ = expr_new(parse, EXPR_INT, @1); $$->integer = $1; }
    | REAL { $$ = expr_new(parse, EXPR_FLOAT, @1); $$->real = $1; }
    ;

paths
    : PATH_PATTERN { $$ = expr_add(parse, expr_new(parse, EXPR_LIST, @1), expr_text(parse, EXPR_STRING, @1, $1)); }
    | paths ',' PATH_PATTERN { $$ = expr_add(parse, $1, expr_text(parse, EXPR_STRING, @3, $3)); }
    ;

compare
    : '<' { $$ = "<"; }
    | AT_MOST { $$ = "<="; }
    | '>' { $$ = ">"; }
    | AT_LEAST { $$ = ">="; }
    ;

metrics
    : metric ',' metric { $$ = expr_add(parse, expr_add(parse, expr_new(parse, EXPR_LIST, @1), $1), $3); }
    | metrics ',' metric { $$ = expr_add(parse, $1, $3); }
    ;

metric
    : expr
    | LOSS { $$ = expr_text(parse, EXPR_NAME, @1, "loss"); }
    ;

statements
    : %empty { $$ = (StatementList){0}; }
    | statements statement { STOP_IF_STOPPED; $$ = statement_append($1, $2); }
    | statements ';'
    | statements error ';' { STOP_IF_STOPPED; yyerrok; $$ = $1; }
    | statements error '{' statements '}' { STOP_IF_STOPPED; yyerrok; $$ = $1; }
    ;

statement
    : declarer NAME type init shard ';' {
        $$ = statement_new(parse, $1, $2, @2);
        $$->type = $3;
        $$->value = $4;
        $$->shard = $5;
    }
    | NAME '=' expr shard marks ';' {
        $$ = statement_new(parse, STATEMENT_ASSIGN, $1, @1);
        $$->value = $3;
        $$->shard = $4;
        $$->marks = $5;
    }
    | NAME targets '=' expr shard marks ';' {
        $$ = statement_new(parse, STATEMENT_ASSIGN, $1, @1);
        $$->targets = $2.first;
        $$->value = $4;
        $$->shard = $5;
        $$->marks = $6;
    }
    | NAME WRITE '-' expr shard ';' {
        $$ = statement_new(parse, STATEMENT_WRITE, $1, @1);
        $$->value = $4;
        $$->shard = $5;
    }
    | LOSS expr shard ';' {
        $$ = statement_new(parse, STATEMENT_LOSS, NULL, @1);
        $$->value = $2;
        $$->shard = $3;
    }
    | LET NAME '=' expr ';' {
        $$ = statement_new(parse, STATEMENT_LET, $2, @2);
        $$->value = $4;
    }
    | RETURN results shard marks ';' {
        $$ = statement_new(parse, STATEMENT_RETURN, NULL, @1);
        $$->value = $2;
        $$->shard = $3;
        $$->marks = $4;
    }
    | REQUIRE expr STRING ';' {
        $$ = statement_new(parse, STATEMENT_REQUIRE, $3, @1);
        $$->value = $2;
    }
    | FOR NAME IN expr DOTS expr '{' statements '}' {
        $$ = statement_new(parse, STATEMENT_FOR, $2, @2);
        $$->value = $4;
        $$->limit = $6;
        $$->body = $8.first;
    }
    | FOR NAME IN expr DOTS expr '{' statements error '}' { $$ = statement_new(parse, STATEMENT_FOR, $2, @2); yyerrok; }
    | FOR error '{' statements '}' { $$ = statement_new(parse, STATEMENT_IF, NULL, @1); yyerrok; }
    | FOR error ';' { STOP_IF_STOPPED; $$ = statement_new(parse, STATEMENT_IF, NULL, @1); yyerrok; }
    | if
    ;

if
    : IF error '{' statements '}' else { $$ = statement_new(parse, STATEMENT_IF, NULL, @1); yyerrok; }
    | IF error ';' { STOP_IF_STOPPED; $$ = statement_new(parse, STATEMENT_IF, NULL, @1); yyerrok; }
    | IF expr '{' statements '}' else {
        $$ = statement_new(parse, STATEMENT_IF, NULL, @1);
        $$->value = $2;
        $$->body = $4.first;
        $$->otherwise = $6.first;
    }
    | IF expr '{' statements error '}' else { $$ = statement_new(parse, STATEMENT_IF, NULL, @1); yyerrok; }
    ;

else
    : %empty { $$ = (StatementList){0}; }
    | ELSE '{' statements '}' { $$ = $3; }
    | ELSE '{' statements error '}' { $$ = $3; yyerrok; }
    | ELSE if { $$ = statement_append((StatementList){0}, $2); }
    ;

targets
    : ',' NAME { $$ = target_append(parse, (TargetList){0}, $2, @2); }
    | targets ',' NAME { $$ = target_append(parse, $1, $3, @3); }
    ;

declarer
    : INPUT { $$ = STATEMENT_INPUT; }
    | PARAM { $$ = STATEMENT_PARAM; }
    | CONST { $$ = STATEMENT_CONST; }
    | STATE { $$ = STATEMENT_STATE; }
    ;

type
    : %empty { $$ = NULL; }
    | ':' NAME { $$ = type_new(parse, @2, $2, @2, NULL); }
    | ':' NAME list { $$ = type_new(parse, loc_join(@2, @3), $2, @2, $3); }
    | ':' NAME tuple { $$ = type_new(parse, loc_join(@2, @3), $2, @2, $3); }
    ;

init
    : %empty { $$ = NULL; }
    | '=' expr { $$ = $2; }
    ;

shard
    : %empty { $$ = NULL; }
    | clause
    | SHARD '{' patterns '}' { $$ = shard_block(parse, @$, $3); }
    ;

marks
    : %empty { $$ = (Marks){0}; }
    | RECOMPUTE { $$ = (Marks){.recompute = true}; }
    | STAGE expr { $$ = (Marks){.stage = $2}; }
    | RECOMPUTE STAGE expr { $$ = (Marks){.recompute = true, .stage = $3}; }
    | STAGE expr RECOMPUTE { $$ = (Marks){.recompute = true, .stage = $2}; }
    ;

clause
    : SHARD { $$ = shard_new(parse, @$, NULL, NULL); }
    | SHARD primary { $$ = shard_new(parse, @$, $2, NULL); }
    | SHARD primary ARROW primary { $$ = shard_new(parse, @$, $2, $4); }
    ;

expr
    : unary
    | expr '+' expr { $$ = expr_binary(parse, '+', $1, $3); STOP_IF_STOPPED; }
    | expr '-' expr { $$ = expr_binary(parse, '-', $1, $3); STOP_IF_STOPPED; }
    | expr '*' expr { $$ = expr_binary(parse, '*', $1, $3); STOP_IF_STOPPED; }
    | expr '/' expr { $$ = expr_binary(parse, '/', $1, $3); STOP_IF_STOPPED; }
    | expr '@' expr { $$ = expr_binary(parse, '@', $1, $3); STOP_IF_STOPPED; }
    | expr '%' expr { $$ = expr_binary(parse, '%', $1, $3); STOP_IF_STOPPED; }
    | expr '<' expr { $$ = expr_binary(parse, '<', $1, $3); STOP_IF_STOPPED; }
    | expr '>' expr { $$ = expr_binary(parse, '>', $1, $3); STOP_IF_STOPPED; }
    | expr EQUAL expr { $$ = expr_binary(parse, '=', $1, $3); STOP_IF_STOPPED; }
    | expr UNEQUAL expr { $$ = expr_binary(parse, '!', $1, $3); STOP_IF_STOPPED; }
    | expr AT_MOST expr { $$ = expr_binary(parse, 'l', $1, $3); STOP_IF_STOPPED; }
    | expr AT_LEAST expr { $$ = expr_binary(parse, 'g', $1, $3); STOP_IF_STOPPED; }
    | expr AND expr { $$ = expr_binary(parse, '&', $1, $3); STOP_IF_STOPPED; }
    | expr OR expr { $$ = expr_binary(parse, '|', $1, $3); STOP_IF_STOPPED; }
    | NOT expr { $$ = expr_unary(parse, EXPR_NOT, @$, $2); STOP_IF_STOPPED; }
    ;

unary
    : power
    | '-' unary { $$ = expr_unary(parse, EXPR_NEG, @$, $2); STOP_IF_STOPPED; }
    | '+' unary { $$ = $2; }
    ;

power
    : postfix
    | postfix POWER unary { $$ = expr_binary(parse, '^', $1, $3); STOP_IF_STOPPED; }
    ;

postfix
    : primary
    | postfix '.' NAME { $$ = expr_member(parse, @$, $1, expr_text(parse, EXPR_NAME, @3, $3)); STOP_IF_STOPPED; }
    | postfix '.' NAME arguments { $$ = expr_method(parse, @$, $1, $3, $4); STOP_IF_STOPPED; }
    | postfix '.' SHARD arguments { $$ = expr_sharded(parse, @$, $1, shard_method(parse, loc_join(@3, @4), $4)); STOP_IF_STOPPED; }
    | postfix '[' subscripts ']' { $$ = expr_index(parse, @$, $1, $3); STOP_IF_STOPPED; }
    | postfix '[' subscripts ',' ']' { $$ = expr_index(parse, @$, $1, $3); STOP_IF_STOPPED; }
    ;

subscripts
    : subscript { $$ = expr_add(parse, expr_new(parse, EXPR_LIST, @1), $1); }
    | subscripts ',' subscript { $$ = expr_add(parse, $1, $3); }
    ;

subscript
    : expr
    | range
    | ELLIPSIS { $$ = expr_text(parse, EXPR_NAME, @1, "..."); }
    ;

range
    : bound ':' bound { $$ = expr_add(parse, expr_add(parse, expr_new(parse, EXPR_RANGE, @$), $1), $3); }
    | range ':' bound { $$ = expr_add(parse, $1, $3); }
    ;

bound
    : %empty { $$ = expr_new(parse, EXPR_DASH, @$); }
    | expr
    ;

primary
    : number { $$ = $1; STOP_IF_STOPPED; }
    | STRING { $$ = expr_text(parse, EXPR_STRING, @1, $1); STOP_IF_STOPPED; }
    | NAME { $$ = expr_text(parse, EXPR_NAME, @1, $1); STOP_IF_STOPPED; }
    | NAME arguments { $$ = $2; $$->text = $1; $$->loc = @$; STOP_IF_STOPPED; }
    | tuple
    | list
    ;

tuple
    : '(' ')' { $$ = expr_new(parse, EXPR_TUPLE, @$); }
    | '(' items ')' { $$ = $2; $$->kind = EXPR_TUPLE; $$->loc = @$; }
    | '(' items ',' ')' { $$ = $2; $$->kind = EXPR_TUPLE; $$->loc = @$; $$->comma = true; }
    ;

list
    : '[' ']' { $$ = expr_new(parse, EXPR_LIST, @$); }
    | '[' items ']' { $$ = $2; $$->loc = @$; }
    | '[' items ',' ']' { $$ = $2; $$->loc = @$; }
    ;

results
    : expr { $$ = expr_add(parse, expr_new(parse, EXPR_LIST, @1), $1); }
    | results ',' expr { $$ = expr_add(parse, $1, $3); }
    ;

items
    : item { $$ = expr_add(parse, expr_new(parse, EXPR_LIST, @1), $1); }
    | items ',' item { $$ = expr_add(parse, $1, $3); }
    ;

item
    : operand
    | '-' { $$ = expr_new(parse, EXPR_DASH, @1); }
    ;

arguments
    : '(' ')' { $$ = expr_text(parse, EXPR_CALL, @$, ""); }
    | '(' argument_list ')' { $$ = $2; }
    | '(' argument_list ',' ')' { $$ = $2; }
    ;

argument_list
    : argument { $$ = expr_add(parse, expr_text(parse, EXPR_CALL, @1, ""), $1); }
    | argument_list ',' argument { $$ = expr_add(parse, $1, $3); }
    ;

argument
    : operand
    | NAME '=' operand { $$ = expr_add(parse, expr_text(parse, EXPR_KEYWORD, @$, $1), $3); }
    ;

operand
    : expr
    | expr clause { $$ = expr_sharded(parse, @$, $1, $2); }
    | expr SHARD '{' patterns '}' { $$ = $1; syntax_block_inside(parse, loc_join(@2, @5)); }
    ;

%%

static int yyreport_syntax_error(const yypcontext_t *context, yyscan_t scanner, Parse *parse) {
    (void)scanner;
    enum { MAX_EXPECTED = 64 };
    yysymbol_kind_t kinds[MAX_EXPECTED];
    const char *expected[MAX_EXPECTED];
    int n = yypcontext_expected_tokens(context, kinds, MAX_EXPECTED);
    if (n < 0) return n;
    for (int i = 0; i < n; i++) expected[i] = yysymbol_name(kinds[i]);
    syntax_error(parse, *yypcontext_location(context), yysymbol_name(yypcontext_token(context)), expected, n);
    return 0;
}

/* Only called when the parser's stack is exhausted: syntax errors go to yyreport_syntax_error. */
static void yyerror(YYLTYPE *loc, yyscan_t scanner, Parse *parse, const char *message) {
    (void)scanner;
    (void)message;
    syntax_too_deep(parse, *loc);
}
