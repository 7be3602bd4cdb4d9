/* rule: the table of operators; rules from letters; the parts common to all rules: types, the hidden dimension, factors, errors. */
#include "ir/rules.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

const Op op_table[NOPS] = {
#define OP(name, ...) [OP_##name] = {#name, __VA_ARGS__},
#include "ir/ops.def"
#undef OP
};

int op_find(const char *name) {
    for (int op = 0; op < NOPS; op++)
        if (strcmp(op_table[op].name, name) == 0) return op;
    return -1;
}

static int op_nattrs(OpCode op) {
    int n = 0;
    while (n < MAX_ATTRS && op_table[op].attrs[n].name)
        n++;
    return n;
}

int op_attr(OpCode op, const char *name) {
    for (int i = 0; i < op_nattrs(op); i++)
        if (strcmp(op_table[op].attrs[i].name, name) == 0) return i;
    return -1;
}

/* Entries of a list such as "a, b". */
static int list_count(const char *list) {
    int n = *list != '\0';
    for (; *list; list++)
        n += *list == ',';
    return n;
}

int op_nin(OpCode op) {
    return list_count(op_table[op].ins);
}

int op_nout(OpCode op) {
    return op_table[op].outs ? list_count(op_table[op].outs) : 1;
}

bool op_takes(OpCode op, int nin) {
    int named = op_nin(op);
    return nin == named || (op_table[op].optional && nin == named - 1) || (op_table[op].variadic && nin > named && nin <= MAX_IN);
}

int op_named(OpCode op, int nout) {
    return nout - op_table[op].kept;
}

bool op_gives(OpCode op, int nout) {
    return nout == op_nout(op) || (op_table[op].divided && nout >= 1 && nout <= MAX_OUT);
}

/* The name after this one in a row's list of operands. */
static const char *next_name(const char *at) {
    at = strchr(at, ',');
    return at == NULL ? NULL : at + 1 + (at[1] == ' ');
}

int op_in(OpCode op, const char *name) {
    const size_t n = strlen(name);
    const char *at = op_table[op].ins;
    for (int i = 0; at != NULL; i++, at = next_name(at))
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0')) return i;
    return -1;
}

void op_in_name(OpCode op, int operand, char *name, size_t n) {
    const char *at = op_table[op].ins;
    if (operand >= op_nin(op)) operand = op_nin(op) - 1;
    for (; operand > 0; operand--) {
        at = next_name(at);
        assert(at);
    }
    snprintf(name, n, "%.*s", (int)strcspn(at, ","), at);
}

bool rule_reject(RuleError *error, int operand, int attr, const char *format, ...) {
    if (!error) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->operand = operand;
    error->attr = attr;
    error->hint[0] = '\0';
    return false;
}

void rule_hint(RuleError *error, const char *format, ...) {
    if (!error) return;
    va_list args;
    va_start(args, format);
    vsnprintf(error->hint, sizeof error->hint, format, args);
    va_end(args);
}

const char *shape_text(const Shape *shape, char text[SHAPE_TEXT_BYTES]) {
    size_t n = 0;
    text[n++] = '[';
    for (int d = 0; d < shape->ndim; d++)
        n += (size_t)snprintf(text + n, SHAPE_TEXT_BYTES - n, "%s%" PRId64, d ? ", " : "", shape->dim[d]);
    text[n++] = ']';
    text[n] = '\0';
    return text;
}

void rule_need_halo(Rule *rule, int operand, int ndim, int dim, Halo halo) {
    assert(rule->nneeds < MAX_NEEDS);
    rule->need[rule->nneeds++] = (Need){(int8_t)operand, (int8_t)(dim - (ndim - HALO_DIMS)), halo};
}

int rule_add_factor(Rule *rule, int64_t size) {
    assert(rule->nfactors < MAX_FACTORS);
    rule->factor[rule->nfactors] = (Factor){.size = size};
    return rule->nfactors++;
}

void rule_expands(Rule *rule, int factor, int reductions) {
    rule->factor[factor].expands = true;
    rule->factor[factor].reductions = (int8_t)reductions;
}

int looked_up(Rule *rule, int factor) {
    rule->factor[factor].looked_up = true;
    return factor;
}

static void rule_init(Rule *rule) {
    memset(rule, 0, sizeof *rule);
    memset(rule->in, -1, sizeof rule->in);
    memset(rule->out, -1, sizeof rule->out);
}

void rule_of_leaf(const TensorType *type, Rule *rule) {
    rule_init(rule);
    rule->nout = 1;
    rule->result[0] = *type;
    for (int d = 0; d < type->shape.ndim; d++)
        rule->out[0][d] = (int8_t)rule_add_factor(rule, type->shape.dim[d]);
}

bool rule_leaf(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)in, (void)nin, (void)attr, (void)rule;
    return rule_reject(error, -1, -1, "a leaf's type is not inferred");
}

/* ---------------------------------------------------------------- letters */

/* One operand or result of letters: `before` letters, then perhaps "...", then the rest. */
typedef struct Term {
    int n, before;
    bool ellipsis;
    char letter[MAX_NDIM];
} Term;

/* Reads one term at *at up to ',' '-' or the end; notes the letters marked '!' in whole. */
static Term term_read(const char **at, bool whole[26]) {
    Term term = {0};
    const char *p = *at;
    for (; *p && *p != ',' && *p != '-'; p++) {
        if (*p == ' ') continue;
        if (*p == '.') {
            assert(p[1] == '.' && p[2] == '.' && !term.ellipsis);
            term.ellipsis = true;
            term.before = term.n;
            p += 2;
            continue;
        }
        if (*p == '!') whole[*++p - 'a'] = true;
        assert(*p >= 'a' && *p <= 'z' && term.n < MAX_NDIM);
        term.letter[term.n++] = *p;
    }
    if (!term.ellipsis) term.before = term.n;
    *at = *p == ',' ? p + 1 : *p == '-' ? p + 2 : p;
    return term;
}

/* The operand whose "..." does not fit that of operand i. With broadcast: an earlier one with a conflicting size. Else: the first operand,
 * or, where i is the first and has too few dimensions, the first with all ndim. */
static int differing_operand(const Term *term, const TensorType *in, int nin, bool broadcast, int ndim, int i) {
    const int n = in[i].shape.ndim - term[i].n;
    const int64_t *own = in[i].shape.dim + term[i].before;
    int other = -1;
    for (int j = 0; j < nin; j++) {
        const int m = in[j].shape.ndim - term[j].n;
        const int64_t *theirs = in[j].shape.dim + term[j].before;
        if (j == i || !term[j].ellipsis) continue;
        if (!broadcast && other < 0 && (j < i || m == ndim)) other = j;
        for (int d = 1; broadcast && j < i && d <= m && d <= n; d++)
            if (theirs[m - d] != own[n - d] && theirs[m - d] != 1 && own[n - d] != 1) other = j;
    }
    return other;
}

/* Finds the sizes of the dimensions that "..." stands for, aligned at the right. */
static bool ellipsis_sizes(const Term *term, const TensorType *in, int nin, bool broadcast, int ndim, int64_t *size, RuleError *error) {
    for (int e = 0; e < ndim; e++)
        size[e] = 1;
    int reference = -1;
    for (int i = 0; i < nin; i++) {
        if (!term[i].ellipsis) continue;
        int n = in[i].shape.ndim - term[i].n;
        bool fits = broadcast || n == ndim;
        for (int d = 0; d < n && fits; d++) {
            int64_t own = in[i].shape.dim[term[i].before + d], *common = &size[ndim - n + d];
            if (reference < 0 || (broadcast && *common == 1)) *common = own;
            fits = own == *common || (broadcast && own == 1);
        }
        if (!fits) {
            int other = differing_operand(term, in, nin, broadcast, ndim, i);
            const Shape *a = &in[other].shape, *b = &in[i].shape;
            char a_text[SHAPE_TEXT_BYTES], b_text[SHAPE_TEXT_BYTES];
            rule_reject(error, i, -1, "%s: %%%d is %s, %%%d is %s", broadcast ? "sizes do not broadcast" : "shapes differ", other,
                        shape_text(a, a_text), i, shape_text(b, b_text));
            /* The usual mistake is a vector meant for the leading dimension. */
            const Shape *low = a->ndim < b->ndim ? a : b, *high = low == a ? b : a;
            Shape fixed = {high->ndim, {0}};
            bool leads = broadcast && low->ndim > 0 && low->ndim < high->ndim;
            for (int d = 0; d < high->ndim; d++) {
                fixed.dim[d] = d < low->ndim ? low->dim[d] : 1;
                leads = leads && (d >= low->ndim || low->dim[d] == high->dim[d]);
            }
            if (leads) rule_hint(error, "sizes align at the right: reshape %s to %s", shape_text(low, a_text), shape_text(&fixed, b_text));
            return false;
        }
        if (reference < 0) reference = i;
    }
    return true;
}

/* The rule of a row with letters. broadcast: "..." lets size 1, or no dimension, stand for any size. */
static bool rule_letters(const char *letters, bool broadcast, const TensorType *in, int nin, int named, int nout, Rule *rule,
                         RuleError *error) {
    Term term[MAX_IN + MAX_OUT];
    bool whole[26] = {false};
    for (int i = 0; i < nin; i++)
        term[i] = term_read(&letters, whole);
    for (int i = nin; i < named; i++)
        term_read(&letters, whole); /* skips the term of an operand that was left out */
    for (int o = 0; o < nout; o++)
        term[nin + o] = term_read(&letters, whole);
    int ellipsis = 0;
    for (int i = 0; i < nin; i++) {
        int ndim = in[i].shape.ndim;
        if (ndim < term[i].n || (ndim > term[i].n && !term[i].ellipsis))
            return rule_reject(error, i, -1, "%%%d has %d dimension%s, needs %s%d", i, ndim, ndim == 1 ? "" : "s",
                               term[i].ellipsis ? "at least " : "", term[i].n);
        if (term[i].ellipsis && ndim - term[i].n > ellipsis) ellipsis = ndim - term[i].n;
    }
    int64_t size[MAX_NDIM];
    if (!ellipsis_sizes(term, in, nin, broadcast, ellipsis, size, error)) return false;

    int8_t of_letter[26];
    memset(of_letter, -1, sizeof of_letter);
    int first = -1; /* factor of the leading dimension of "..." */
    for (int i = 0; i < nin; i++) {
        const Shape *shape = &in[i].shape;
        int skipped = shape->ndim - term[i].n; /* dimensions of this operand's "..." */
        for (int k = 0, d = 0; k <= term[i].n; k++) {
            if (k == term[i].before && term[i].ellipsis) {
                for (int e = 0; first < 0 && e < ellipsis; e++)
                    rule_add_factor(rule, size[e]);
                if (first < 0) first = rule->nfactors - ellipsis;
                for (int e = ellipsis - skipped; e < ellipsis; e++, d++)
                    rule->in[i][d] = (int8_t)(shape->dim[d] == size[e] ? first + e : -1);
            }
            if (k == term[i].n) break;
            int8_t *f = &of_letter[term[i].letter[k] - 'a'];
            if (*f < 0) {
                *f = (int8_t)rule_add_factor(rule, shape->dim[d]);
                rule->factor[*f].whole = whole[term[i].letter[k] - 'a'];
            }
            if (rule->factor[*f].size != shape->dim[d])
                return rule_reject(error, i, -1, "%%%d has size %" PRId64 " in dimension %d, needs %" PRId64, i, shape->dim[d], d,
                                   rule->factor[*f].size);
            rule->in[i][d++] = *f;
        }
    }
    for (int o = 0; o < nout; o++) {
        const Term *t = &term[nin + o];
        TensorType *result = &rule->result[o];
        result->dtype = in[0].dtype;
        for (int k = 0; k <= t->n; k++) {
            for (int e = 0; k == t->before && t->ellipsis && e < ellipsis; e++)
                rule->out[o][result->shape.ndim++] = (int8_t)(first + e);
            if (k < t->n) rule->out[o][result->shape.ndim++] = of_letter[t->letter[k] - 'a'];
        }
        for (int d = 0; d < result->shape.ndim; d++)
            result->shape.dim[d] = rule->factor[rule->out[o][d]].size;
    }
    return true;
}

/* ---------------------------------------------------------------- rule_infer */

/* "f32, f64, f16 or bf16" */
static const char *dtypes_text(unsigned dtypes, char text[64]) {
    size_t n = 0;
    text[0] = '\0';
    for (int t = 0; t < NDTYPES; t++) {
        if (!(dtypes & 1u << t)) continue;
        const char *between = n == 0 ? "" : dtypes >> t == 1 ? " or " : ", ";
        n += (size_t)snprintf(text + n, 64 - n, "%s%s", between, dtype_name[t]);
    }
    return text;
}

char op_type(OpCode op, bool result, int k) {
    const char *at = op_table[op].types;
    if (!at) return 't';
    if (result) at = strchr(at, '>') + 1;
    for (;; at++)
        if (*at != ' ' && *at != ',' && k-- == 0) return *at;
}

/* The element types that a letter of Op.types stands for. */
static unsigned types_of_letter(const Op *row, char letter) {
    return letter == 'i' ? DTYPES_INDEX : letter == 'b' ? 1u << BOOL : letter == 'w' ? row->dtypes & DTYPES_STATE : row->dtypes;
}

unsigned op_dtypes(OpCode op, int operand) {
    return types_of_letter(&op_table[op], op_type(op, false, operand));
}

/* Reports that operands a and b must have one type; the hint is to cast the integers, or else the second operand. */
static bool types_differ(const TensorType *in, int a, int b, RuleError *error) {
    int other = dtype_is_float(in[b].dtype) && !dtype_is_float(in[a].dtype) ? a : b;
    rule_reject(error, b, -1, "operand types differ: %%%d is %s, %%%d is %s", a, dtype_name[in[a].dtype], b, dtype_name[in[b].dtype]);
    rule_hint(error, "cast(%%%d, to = %s) makes them one", other, dtype_name[in[other == a ? b : a].dtype]);
    return false;
}

/* Whether operands are swapped, as in PyTorch's embedding(index, table): integers at operand `at`, where reals belong, and reals as the index. */
static bool turned_round(OpCode op, const TensorType *in, int nin, int at) {
    for (int i = 0; i < nin; i++)
        if (op_type(op, false, i) == 'i' && dtype_is_float(in[i].dtype)) return !dtype_is_float(in[at].dtype) && in[at].dtype != BOOL;
    return false;
}

static bool types_fit(OpCode op, const TensorType *in, int nin, RuleError *error) {
    const Op *row = &op_table[op];
    int first = -1; /* the first of the operands that must agree in type */
    for (int i = 0; i < nin; i++) {
        char letter = op_type(op, false, i);
        if (letter == 't' && first >= 0 && in[i].dtype != in[first].dtype) return types_differ(in, first, i, error);
        if (letter == 't' && first < 0) first = i;
        if (letter == 'w' && in[i].dtype != dtype_widened(in[first].dtype)) return types_differ(in, first, i, error);
    }
    for (int i = 0; i < nin; i++) {
        unsigned accepted = op_dtypes(op, i);
        char text[64], name[64];
        if (accepted & 1u << in[i].dtype) continue;
        op_in_name(op, i, name, sizeof name);
        char letter = op_type(op, false, i);
        if (letter == 't')
            rule_reject(error, i, -1, "%%%d is %s, %s takes %s", i, dtype_name[in[i].dtype], row->name, dtypes_text(accepted, text));
        else
            rule_reject(error, i, -1, "%%%d is %s, %s of %s must be %s", i, dtype_name[in[i].dtype], name, row->name,
                        dtypes_text(accepted, text));
        if (letter == 't' && turned_round(op, in, nin, i))
            rule_hint(error, "the operands stand the other way round: %s(%s)", row->name, row->ins);
        else
            rule_hint(error, "cast(%%%d, to = %s)", i, letter == 'i' ? "i32" : letter == 'b' ? "bool" : "f32");
        return false;
    }
    return true;
}

bool op_only_moves(OpCode op) {
    static const OpCode movers[] = {OP_reshape,   OP_transpose, OP_slice,         OP_concat, OP_split,
                                    OP_replicate, OP_expose,    OP_stop_gradient, OP_convert};
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        if (movers[i] == op) return true;
    return false;
}

bool op_updates_rows(OpCode op) {
    return op_table[op].op_class == OP_CLASS_UPDATE && op_in(op, "index") >= 0;
}

int op_rows(OpCode op) {
    if (!op_table[op].in_place || op_in(op, "index") < 0) return -1;
    return op_updates_rows(op) ? op_in(op, "g") : op_in(op, "rows");
}

bool op_looks_up(OpCode op) {
    return op == OP_embedding || op == OP_pick || op == OP_gather;
}

bool op_elementwise(OpCode op) {
    const char *letters = op_table[op].letters, *arrow = letters ? strstr(letters, "->") : NULL;
    const bool none = letters && !letters[strspn(letters, "., ->")]; /* "...n->..." works along rows, and is not elementwise */
    return (op_table[op].in_place && !op_table[op].by_rows) || (none && strncmp(arrow + 2, "...", 3) == 0);
}

/* Sets the element types of the results where the row has letters for them; rules set that of operand 0. */
static bool result_types(OpCode op, const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    for (int o = 0; o < rule->nout; o++) {
        char letter = op_type(op, true, o);
        DType *dtype = &rule->result[o].dtype;
        for (int i = nin - 1; i >= 0; i--)
            if (op_type(op, false, i) == letter) *dtype = in[i].dtype;
        if (letter == 'b') *dtype = BOOL;
        if (letter == 'n') *dtype = I32;
        if (letter == 'w') *dtype = dtype_widened(in[0].dtype);
        if (letter != 'a') continue;
        int to = op_attr(op, "to");
        const char *name = attr[to].given && attr[to].text ? attr[to].text : "f32";
        char text[64];
        if (!dtype_parse(name, dtype)) return rule_reject(error, -1, to, "to is %s, not %.100s", dtypes_text(DTYPES_ANY, text), name);
    }
    return true;
}

static bool operands_fit(OpCode op, const TensorType *in, int nin, const Attr *attr, RuleError *error) {
    const Op *row = &op_table[op];
    int want = op_nin(op);
    if (!op_takes(op, nin) && row->variadic) return rule_reject(error, -1, -1, "takes %d to %d operands, given %d", want, MAX_IN, nin);
    if (!op_takes(op, nin))
        return rule_reject(error, -1, -1, "takes %d operand%s (%s), given %d", want, want == 1 ? "" : "s", row->ins, nin);
    if (!types_fit(op, in, nin, error)) return false;
    for (int a = 0; a < op_nattrs(op); a++)
        if (row->attrs[a].required && !attr[a].given) return rule_reject(error, -1, a, "%s is missing", row->attrs[a].name);
    return true;
}

/* Makes the hidden dimension of `replicas` factor 0 of everything. */
static void rule_hide(Rule *rule, int64_t replicas, int nin, int nout) {
    assert(rule->nfactors < MAX_FACTORS);
    memmove(rule->factor + 1, rule->factor, sizeof *rule->factor * (size_t)rule->nfactors++);
    rule->factor[0] = (Factor){.size = replicas};
    for (int i = 0; i < nin + nout; i++) {
        int8_t *map = i < nin ? rule->in[i] : rule->out[i - nin];
        for (int d = MAX_NDIM - 1; d > 0; d--)
            map[d] = (int8_t)(map[d - 1] < 0 ? -1 : map[d - 1] + 1);
        map[0] = 0;
    }
    for (int o = 0; o < nout; o++) {
        Shape *shape = &rule->result[o].shape;
        assert(shape->ndim < MAX_NDIM);
        memmove(shape->dim + 1, shape->dim, sizeof *shape->dim * (size_t)shape->ndim++);
        shape->dim[0] = replicas;
        rule->result[o].hidden = true;
    }
}

bool rule_infer(OpCode op, const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    static const Attr none[MAX_ATTRS];
    const Op *row = &op_table[op];
    if (!attr) attr = none;
    rule_init(rule);
    rule->nout = op_nout(op);
    if (!operands_fit(op, in, nin, attr, error)) return false;

    bool hidden = nin > 0 && in[0].hidden && !row->boundary;
    TensorType slice[MAX_IN];
    for (int i = 0; hidden && i < nin; i++) {
        if (!in[i].hidden || in[i].shape.dim[0] != in[0].shape.dim[0])
            return rule_reject(error, i, -1, "%%%d does not have the replicas of %%0", i);
        slice[i] = (TensorType){.dtype = in[i].dtype, .shape.ndim = in[i].shape.ndim - 1};
        memcpy(slice[i].shape.dim, in[i].shape.dim + 1, sizeof *in[i].shape.dim * (size_t)slice[i].shape.ndim);
    }
    for (int i = 1; !hidden && i < nin; i++)
        if (in[i].hidden) return rule_reject(error, i, -1, "%%%d has replicas, %%0 has not", i);

    /* An update must not change its state's shape, and a gradient has its forward's: few operators that no user writes broadcast. */
    const TensorType *types = hidden ? slice : in;
    if (row->letters ? !rule_letters(row->letters, row->op_class == OP_CLASS_USER || row->broadcasts, types, nin, op_nin(op), rule->nout,
                                     rule, error)
                     : !row->rule(types, nin, attr, rule, error))
        return false;
    if (row->types && !result_types(op, types, nin, attr, rule, error)) return false;
    if (hidden) rule_hide(rule, in[0].shape.dim[0], nin, rule->nout);
    for (int o = 0; o < rule->nout; o++) {
        int64_t elements;
        if (!shape_count(&rule->result[o].shape, &elements) || elements > MAX_ELEMENTS) {
            char text[SHAPE_TEXT_BYTES];
            return rule_reject(error, -1, -1, "the result %s would have more than 2^48 elements", shape_text(&rule->result[o].shape, text));
        }
    }
    return true;
}

bool rule_out_has(const Rule *rule, int result, int factor) {
    for (int d = 0; d < rule->result[result].shape.ndim; d++)
        if (rule->out[result][d] == factor) return true;
    return false;
}

bool rule_sums(const Rule *rule, int factor) {
    for (int o = 0; o < rule->nout; o++)
        if (!rule_out_has(rule, o, factor)) return true;
    return false;
}

const Halo *rule_halo(const Rule *rule, int operand, int ndim, int dim) {
    for (const Need *need = rule->need; need < rule->need + rule->nneeds; need++)
        if (need->operand == operand && need->at == dim - (ndim - HALO_DIMS)) return &need->halo;
    return NULL;
}

bool factor_splits(const Factor *factor, int64_t split) {
    return split <= factor->size && (!factor->divides || factor->size % split == 0);
}

bool rule_in_has(const Rule *rule, int operand, int ndim, int factor) {
    for (int d = 0; d < ndim; d++)
        if (rule->in[operand][d] == factor) return true;
    return false;
}

/* The number of points that are computed. */
static double points_of(const Rule *rule, const double *size) {
    double points = rule->halved ? 0.5 : 1;
    for (int f = 0; f < rule->nfactors; f++)
        if (!rule->factor[f].looked_up) points *= size[f];
    return points;
}

double op_flops(OpCode op, const Rule *rule, const double *size) {
    const double depth = rule->depth > 0 ? (double)rule->depth : 1;
    return points_of(rule, size) * ((double)op_table[op].flops * depth + op_table[op].vector_flops);
}

double op_vector_flops(OpCode op, const Rule *rule, const double *size) {
    return op_table[op].product ? points_of(rule, size) * op_table[op].vector_flops : op_flops(op, rule, size);
}

double op_effort(OpCode op, const Rule *rule, const double *size) {
    return op_table[op].effort > 0 ? points_of(rule, size) * op_table[op].effort : op_vector_flops(op, rule, size);
}

double rule_flops(OpCode op, const Rule *rule) {
    double size[MAX_FACTORS];
    for (int f = 0; f < rule->nfactors; f++)
        size[f] = (double)rule->factor[f].size;
    return op_flops(op, rule, size);
}

bool rule_equal(const Rule *a, const Rule *b, const TensorType *in, int nin, int nout) {
    if (a == b) return true;
    if (a->nfactors != b->nfactors || a->nout != b->nout || a->index_range != b->index_range || a->depth != b->depth ||
        a->halved != b->halved || a->inside != b->inside || a->blocked != b->blocked || a->again != b->again || a->nneeds != b->nneeds)
        return false;
    for (int f = 0; f < a->nfactors; f++)
        if (a->factor[f].size != b->factor[f].size || a->factor[f].whole != b->factor[f].whole ||
            a->factor[f].divides != b->factor[f].divides || a->factor[f].looked_up != b->factor[f].looked_up ||
            a->factor[f].expands != b->factor[f].expands || a->factor[f].reductions != b->factor[f].reductions)
            return false;
    for (int i = 0; i < nin; i++)
        if (memcmp(a->in[i], b->in[i], (size_t)in[i].shape.ndim) != 0) return false;
    for (int i = 0; i < a->nneeds; i++)
        if (a->need[i].operand != b->need[i].operand || a->need[i].at != b->need[i].at || !halo_equal(&a->need[i].halo, &b->need[i].halo))
            return false;
    for (int o = 0; o < nout; o++)
        if (!type_equal(&a->result[o], &b->result[o]) || memcmp(a->out[o], b->out[o], (size_t)a->result[o].shape.ndim) != 0) return false;
    return true;
}
