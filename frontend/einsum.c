/* einsum("bthd,bshd->bhts", q, k): sums of products, named by letters. Lowered to existing operators: a sum removes the letters that only one operand has; then two tensors
 * at a time are joined, in the order that needs the fewest multiplications, by a batched matrix product (a reshape merges neighbouring dimensions) or, where no letter is
 * contracted or none is left, by an elementwise product. Strategies, gradients and hints are those of these operators. */
#include "frontend/lower.h"

#include <string.h>

enum { LETTERS = 52, MAX_TERMS = 8, MAX_DIMS = MAX_NDIM - 1 };

/* A tensor whose dimensions are letters. Its last operator is added only when it is used, as the very last one gets the name of the result. */
typedef struct Term {
    int8_t letter[MAX_DIMS];
    int n;
    Operand operand; /* !pending */
    bool pending;
    OpCode op;
    Operand in[2];
    int nin;
    Attr attr[MAX_ATTRS];
} Term;

typedef struct Einsum {
    Lower *lower;
    const Expr *call, *text;
    int nterms;
    Term term[MAX_TERMS];
    int64_t size[LETTERS]; /* 0: not seen yet */
    int seen_at[LETTERS];  /* the place in the text where it appears first */
    int seen_in[LETTERS];  /* the operand in which it appears first */
    int8_t out[MAX_DIMS];  /* letters of the result */
    int nout;
} Einsum;

/* ---------------------------------------------------------------- the text */

static int letter_of(char c) {
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

static char letter_text(int letter) {
    return (char)(letter < 26 ? 'a' + letter : 'A' + letter - 26);
}

/* n characters of the text from `at` on. */
static Span span_at(const Einsum *e, int at, int n) {
    const Loc text = e->text->loc;
    const int begin = text.begin + 1 + at;
    return lower_span(e->lower, (Loc){begin, begin + n, text.line, text.column + 1 + at});
}

static bool fail(const Einsum *e, Span span, const char *what, const char *hint) {
    diag_error(e->lower->diags, span, "einsum: %s", what);
    if (hint) diag_hint(e->lower->diags, "%s", hint);
    return false;
}

static bool has(const int8_t *letters, int n, int letter) {
    for (int i = 0; i < n; i++)
        if (letters[i] == letter) return true;
    return false;
}

/* Reads the letters from *at on, up to the first other character, with their places. */
static bool read_letters(const Einsum *e, int *at, int8_t *letters, int *places, int *n) {
    static const char *const example = "a letter a dimension, operands separated by commas: einsum(\"bthd,bshd->bhts\", q, k)";
    const char *text = e->text->text;
    for (*n = 0; text[*at] && text[*at] != ',' && strncmp(text + *at, "->", 2) != 0; ++*at) {
        const int letter = letter_of(text[*at]);
        if (text[*at] == ' ') continue;
        if (strncmp(text + *at, "...", 3) == 0)
            return fail(e, span_at(e, *at, 3), "'...' stands for no dimensions here", "every dimension has a letter");
        if (letter < 0) return fail(e, span_at(e, *at, 1), "this is no letter", example);
        if (has(letters, *n, letter))
            return fail(e, span_at(e, *at, 1), "a letter stands twice in one tensor, as for a diagonal",
                        "the diagonal of x is sum(x * eye, axes = [1]) with a const eye of ones on it");
        if (*n == MAX_DIMS) return fail(e, span_at(e, *at, 1), "a tensor has at most 8 dimensions", NULL);
        places[*n] = *at;
        letters[(*n)++] = (int8_t)letter;
    }
    return true;
}

static const TensorType *type_of(const Einsum *e, const Operand *operand) {
    return &e->lower->graph->values.at[operand->value].type;
}

/* Checks the letters of operand k against its dimensions, and notes the sizes. */
static bool take_sizes(Einsum *e, int k, const int *places, int begin, int end) {
    Term *term = &e->term[k];
    const TensorType *type = type_of(e, &term->operand);
    Diags *diags = e->lower->diags;
    if (type->shape.ndim - type->hidden != term->n) {
        diag_error(diags, span_at(e, begin, end > begin ? end - begin : 1), "einsum: %d letter%s for operand %d, which has %d dimension%s",
                   term->n, term->n == 1 ? "" : "s", k + 1, type->shape.ndim - type->hidden,
                   type->shape.ndim - type->hidden == 1 ? "" : "s");
        diag_note(diags, lower_span(e->lower, term->operand.expr->loc), "operand %d is this", k + 1);
        return false;
    }
    for (int d = 0; d < term->n; d++) {
        const int letter = term->letter[d];
        const int64_t size = type->shape.dim[type->hidden + d];
        if (e->size[letter] == 0) {
            e->size[letter] = size;
            e->seen_at[letter] = places[d];
            e->seen_in[letter] = k;
        }
        if (e->size[letter] == size) continue;
        diag_error(diags, span_at(e, places[d], 1), "einsum: %c is %lld in operand %d, and %lld in operand %d", letter_text(letter),
                   (long long)size, k + 1, (long long)e->size[letter], e->seen_in[letter] + 1);
        diag_note(diags, span_at(e, e->seen_at[letter], 1), "it is %lld here", (long long)e->size[letter]);
        return false;
    }
    return true;
}

/* Without "->" the result has the letters that appear once, in alphabetical order: numpy's rule. */
static void imply_result(Einsum *e) {
    static const int8_t capitals_first = 26;
    for (int i = 0; i < LETTERS && e->nout < MAX_DIMS; i++) {
        const int letter = (i + capitals_first) % LETTERS;
        int times = 0;
        for (int k = 0; k < e->nterms; k++)
            times += has(e->term[k].letter, e->term[k].n, letter);
        if (times == 1) e->out[e->nout++] = (int8_t)letter;
    }
}

static bool read_result(Einsum *e, int at) {
    int places[MAX_DIMS];
    if (!read_letters(e, &at, e->out, places, &e->nout)) return false;
    if (e->text->text[at]) return fail(e, span_at(e, at, 1), "the result ends the text", NULL);
    for (int d = 0; d < e->nout; d++)
        if (e->size[e->out[d]] == 0) return fail(e, span_at(e, places[d], 1), "no operand has this letter of the result", NULL);
    return true;
}

static bool read_text(Einsum *e) {
    const char *text = e->text->text;
    int at = 0, k = 0;
    for (;; k++) {
        int places[MAX_DIMS];
        const int begin = at;
        if (k == e->nterms) {
            diag_error(e->lower->diags, span_at(e, at, 1), "einsum: the text names more than the %d operand%s of the call", k,
                       k == 1 ? "" : "s");
            return false;
        }
        if (!read_letters(e, &at, e->term[k].letter, places, &e->term[k].n) || !take_sizes(e, k, places, begin, at)) return false;
        if (text[at] != ',') break;
        at++;
    }
    if (k + 1 < e->nterms) {
        diag_error(e->lower->diags, lower_span(e->lower, e->term[k + 1].operand.expr->loc),
                   "einsum: the text names %d operand%s, this is one more", k + 1, k == 0 ? "" : "s");
        return false;
    }
    if (text[at]) return read_result(e, at + 2);
    imply_result(e);
    return true;
}

static bool read_operands(Einsum *e) {
    static const char *const example = "einsum(\"bthd,bshd->bhts\", q, k)";
    const Lower *lower = e->lower;
    bool ok = true;
    e->text = e->call->items ? unbracket(e->call->items) : NULL;
    if (!e->text || e->text->kind != EXPR_STRING || !e->call->items->next)
        return fail(e, lower_span(lower, e->call->loc), "it takes a text that names the dimensions of its operands, and these", example);
    for (const Expr *item = e->call->items->next; item; item = item->next) {
        const Span span = lower_span(lower, item->loc);
        if (item->kind == EXPR_KEYWORD) return fail(e, span, "it has no arguments with names", example);
        if (e->nterms == MAX_TERMS) return fail(e, span, "it takes at most 8 operands", NULL);
        Operand *operand = &e->term[e->nterms++].operand;
        ok &= operand_lower(e->lower, item, operand);
        operand->expr = item;
        if (ok && operand->value < 0) return fail(e, span, "a number has no dimensions", NULL);
    }
    return ok && read_text(e);
}

/* ---------------------------------------------------------------- terms */

static bool term_emit(const Einsum *e, Term *term, const Outcome *outcome) {
    if (!term->pending) return true;
    term->pending = false;
    return operator_lower(e->lower, term->op, e->call, term->in, term->nin, term->attr, NULL, outcome, &term->operand);
}

/* Prepares one more operator on a term; the caller adds its attributes. */
static bool term_apply(const Einsum *e, Term *term, OpCode op) {
    if (!term_emit(e, term, &(Outcome){0})) return false;
    term->pending = true;
    term->op = op;
    term->in[0] = term->operand;
    term->nin = 1;
    memset(term->attr, 0, sizeof term->attr);
    return true;
}

static bool term_is(const Term *term, const int8_t *letters, int n) {
    return term->n == n && memcmp(term->letter, letters, (size_t)n) == 0;
}

/* Puts its dimensions into the order of `letters`, a permutation of its own. */
static bool term_order(const Einsum *e, Term *term, const int8_t *letters) {
    if (term_is(term, letters, term->n)) return true;
    if (!term_apply(e, term, OP_transpose)) return false;
    Attr *perm = &term->attr[op_attr(OP_transpose, "perm")];
    *perm = (Attr){.given = true, .n = term->n};
    for (int d = 0; d < term->n; d++)
        for (int from = 0; from < term->n; from++)
            if (term->letter[from] == letters[d]) perm->ints[d] = from;
    memcpy(term->letter, letters, (size_t)term->n);
    return true;
}

static bool term_reshape(const Einsum *e, Term *term, const int64_t *dim, int n) {
    if (!term_apply(e, term, OP_reshape)) return false;
    Attr *shape = &term->attr[op_attr(OP_reshape, "shape")];
    *shape = (Attr){.given = true, .n = n};
    memcpy(shape->ints, dim, sizeof *dim * (size_t)n);
    return true;
}

/* Sums over all letters but those kept. */
static bool term_sum(const Einsum *e, Term *term, uint64_t kept) {
    Attr axes = {.given = true};
    int n = 0;
    int8_t left[MAX_DIMS];
    for (int d = 0; d < term->n; d++) {
        if (kept >> term->letter[d] & 1)
            left[n++] = term->letter[d];
        else
            axes.ints[axes.n++] = d;
    }
    if (axes.n == 0) return true;
    if (!term_apply(e, term, OP_sum)) return false;
    term->attr[op_attr(OP_sum, "axes")] = axes;
    memcpy(term->letter, left, (size_t)n);
    term->n = n;
    return true;
}

static uint64_t letters_of(const int8_t *letters, int n) {
    uint64_t all = 0;
    for (int i = 0; i < n; i++)
        all |= (uint64_t)1 << letters[i];
    return all;
}

/* Appends the letters of a set: first in the order of the result, then in that of a term. Returns their number. */
static int append(const Einsum *e, uint64_t set, const Term *like, int8_t *letters) {
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        const int8_t *from = pass == 0 ? e->out : like->letter;
        for (int i = 0; i < (pass == 0 ? e->nout : like->n); i++)
            if (set >> from[i] & 1 && !has(letters, n, from[i])) letters[n++] = from[i];
    }
    return n;
}

/* ---------------------------------------------------------------- two terms become one */

static bool join(const Einsum *e, Term *a, Term *b, OpCode op, Term *joined) {
    const Outcome inner = {0};
    if (!term_emit(e, a, &inner) || !term_emit(e, b, &inner)) return false;
    *joined = (Term){.pending = true, .op = op, .in = {a->operand, b->operand}, .nin = 2};
    return true;
}

/* Elementwise product over all letters of both, in the result's order; letters that a term lacks are broadcast. */
static bool multiply(const Einsum *e, Term *a, Term *b, Term *joined) {
    int8_t all[MAX_DIMS];
    Term both = *a;
    const uint64_t own[2] = {letters_of(a->letter, a->n), letters_of(b->letter, b->n)};
    for (int d = 0; d < b->n; d++) {
        if (own[0] >> b->letter[d] & 1) continue;
        if (both.n == MAX_DIMS)
            return fail(e, lower_span(e->lower, e->call->loc), "a product of operands has more than 8 dimensions", NULL);
        both.letter[both.n++] = b->letter[d];
    }
    const int n = append(e, own[0] | own[1], &both, all);
    for (int side = 0; side < 2; side++) {
        Term *term = side == 0 ? a : b;
        int8_t mine[MAX_DIMS];
        int64_t dim[MAX_DIMS];
        int count = 0, first = -1;
        for (int d = 0; d < n; d++) {
            const bool is_mine = own[side] >> all[d] & 1;
            dim[d] = is_mine ? e->size[all[d]] : 1;
            if (is_mine) mine[count++] = all[d];
            if (is_mine && first < 0) first = d;
        }
        if (!term_order(e, term, mine)) return false;
        if (count > 0 && count < n - first && !term_reshape(e, term, dim + first, n - first)) return false;
    }
    if (!join(e, a, b, OP_mul, joined)) return false;
    memcpy(joined->letter, all, (size_t)n);
    joined->n = n;
    return true;
}

/* Letters of a matrix product. */
typedef struct Product {
    int8_t batch[MAX_DIMS], rows[MAX_DIMS], columns[MAX_DIMS], inner[MAX_DIMS];
    int nbatch, nrows, ncolumns, ninner;
} Product;

static int64_t size_of(const Einsum *e, const int8_t *letters, int n) {
    int64_t size = 1;
    for (int i = 0; i < n; i++)
        size *= e->size[letters[i]]; /* cannot overflow: the tensor exists */
    return size;
}

/* A factor as [batch.., first, second], or [batch.., second, first] where that keeps its last dimension in place. *turned: which. */
static bool as_matrices(const Einsum *e, Term *term, const Product *p, const int8_t *first, int nfirst, const int8_t *second, int nsecond,
                        int64_t *turned) {
    int8_t order[2][MAX_DIMS];
    for (int k = 0; k < 2; k++) {
        memcpy(order[k], p->batch, (size_t)p->nbatch);
        memcpy(order[k] + p->nbatch + (k ? nsecond : 0), first, (size_t)nfirst);
        memcpy(order[k] + p->nbatch + (k ? 0 : nfirst), second, (size_t)nsecond);
    }
    const int last = term->n - 1;
    *turned = !term_is(term, order[0], term->n) && term->n > 0 && term->letter[last] == order[1][last] && order[0][last] != order[1][last];
    if (!term_order(e, term, order[*turned])) return false;
    if (nfirst == 1 && nsecond == 1) return true;
    int64_t dim[MAX_DIMS + 2];
    for (int d = 0; d < p->nbatch; d++)
        dim[d] = e->size[p->batch[d]];
    dim[p->nbatch + *turned] = size_of(e, first, nfirst);
    dim[p->nbatch + 1 - *turned] = size_of(e, second, nsecond);
    return term_reshape(e, term, dim, p->nbatch + 2);
}

static bool matrix_product(const Einsum *e, Term *a, Term *b, const Product *p, Term *joined) {
    int64_t turned[2];
    if (p->nbatch + 2 > MAX_DIMS)
        return fail(e, lower_span(e->lower, e->call->loc), "a product of operands has more than 8 dimensions", NULL);
    if (!as_matrices(e, a, p, p->rows, p->nrows, p->inner, p->ninner, &turned[0]) ||
        !as_matrices(e, b, p, p->inner, p->ninner, p->columns, p->ncolumns, &turned[1]) || !join(e, a, b, OP_matmul, joined))
        return false;
    joined->attr[op_attr(OP_matmul, "transpose_a")] = (Attr){.given = turned[0] != 0, .i = turned[0]};
    joined->attr[op_attr(OP_matmul, "transpose_b")] = (Attr){.given = turned[1] != 0, .i = turned[1]};
    int64_t dim[3 * MAX_DIMS];
    const struct {
        const int8_t *letters;
        int n;
    } parts[] = {{p->batch, p->nbatch}, {p->rows, p->nrows}, {p->columns, p->ncolumns}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < parts[k].n; i++) {
            if (joined->n == MAX_DIMS)
                return fail(e, lower_span(e->lower, e->call->loc), "a product of operands has more than 8 dimensions", NULL);
            dim[joined->n] = e->size[parts[k].letters[i]];
            joined->letter[joined->n++] = parts[k].letters[i];
        }
    return (p->nrows == 1 && p->ncolumns == 1) || term_reshape(e, joined, dim, joined->n);
}

/* The place of a set's first letter in the result; after all of them where it has none. */
static int place_in_result(const Einsum *e, uint64_t set) {
    for (int d = 0; d < e->nout; d++)
        if (set >> e->out[d] & 1) return d;
    return e->nout;
}

/* Joins a and b into one term, which keeps the letters `kept`. */
static bool contract(const Einsum *e, Term *a, Term *b, uint64_t kept, Term *joined) {
    const uint64_t of_a = letters_of(a->letter, a->n), of_b = letters_of(b->letter, b->n), shared = of_a & of_b;
    if ((shared & ~kept) == 0 || (of_a == shared && of_b == shared)) return multiply(e, a, b, joined) && term_sum(e, joined, kept);
    const int place = place_in_result(e, of_a & ~shared);
    if (place < e->nout && place_in_result(e, of_b & ~shared) < place) return contract(e, b, a, kept, joined);
    Product p;
    p.nbatch = append(e, shared & kept, a, p.batch);
    p.nrows = append(e, of_a & ~shared, a, p.rows);
    p.ncolumns = append(e, of_b & ~shared, b, p.columns);
    p.ninner = append(e, shared & ~kept, a, p.inner);
    return matrix_product(e, a, b, &p, joined);
}

/* ---------------------------------------------------------------- the order */

typedef struct Pairing {
    uint64_t letters[1 << MAX_TERMS]; /* those that a set of operands keeps, because the rest or the result has them */
    double cost[1 << MAX_TERMS];      /* multiplications */
    int part[1 << MAX_TERMS];         /* one of the two sets that make it */
} Pairing;

static double points(const Einsum *e, uint64_t letters) {
    double n = 1;
    for (int i = 0; i < LETTERS; i++)
        if (letters >> i & 1) n *= (double)e->size[i];
    return n;
}

static void find_order(const Einsum *e, Pairing *order) {
    const int all = (1 << e->nterms) - 1;
    for (int set = 1; set <= all; set++) {
        uint64_t own = 0, rest = letters_of(e->out, e->nout);
        for (int k = 0; k < e->nterms; k++)
            *(set >> k & 1 ? &own : &rest) |= letters_of(e->term[k].letter, e->term[k].n);
        order->letters[set] = own & rest;
        order->cost[set] = 0;
        order->part[set] = 0;
        const int low = set & -set;
        for (int part = (set - 1) & set; part > 0; part = (part - 1) & set) {
            if (!(part & low)) continue;
            const double cost = order->cost[part] + order->cost[set ^ part] + points(e, order->letters[part] | order->letters[set ^ part]);
            if (order->part[set] != 0 && cost >= order->cost[set]) continue;
            order->cost[set] = cost;
            order->part[set] = part;
        }
    }
}

static bool contract_set(Einsum *e, const Pairing *order, int set, Term *term) {
    Term a, b;
    if (order->part[set] == 0) {
        for (int k = 0; k < e->nterms; k++)
            if (set == 1 << k) *term = e->term[k];
        return term_sum(e, term, order->letters[set]);
    }
    return contract_set(e, order, order->part[set], &a) && contract_set(e, order, set ^ order->part[set], &b) &&
           contract(e, &a, &b, order->letters[set], term);
}

bool einsum_lower(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out) {
    Einsum e = {.lower = lower, .call = call};
    Term result;
    if (!read_operands(&e)) return false;
    Pairing *order = arena_alloc(lower->arena, sizeof *order);
    find_order(&e, order);
    if (!contract_set(&e, order, (1 << e.nterms) - 1, &result) || !term_order(&e, &result, e.out) || !term_emit(&e, &result, outcome))
        return false;
    *out = result.operand;
    out->expr = call;
    return true;
}
