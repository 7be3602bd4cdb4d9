#include "tests/ir/random.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static Layout parsed(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden));
    return layout;
}

/* ---------------------------------------------------------------- boxes */

Test(box, intersections_and_elements) {
    Box a = {.ndim = 2, .begin = {0, 2}, .end = {4, 6}}, b = {.ndim = 2, .begin = {3, 0}, .end = {9, 3}},
        c = {.ndim = 2, .begin = {4, 2}, .end = {5, 6}}, r;
    cr_assert(box_intersect(&a, &b, &r));
    cr_assert(r.begin[0] == 3 && r.end[0] == 4 && r.begin[1] == 2 && r.end[1] == 3);
    cr_assert_eq(box_elements(&r), 1);
    cr_assert_not(box_intersect(&a, &c, &r));
    cr_assert_eq(box_elements(&r), 0);
    cr_assert_eq(box_elements(&(Box){.ndim = 0}), 1);
}

static void check_parts(const char *text, int64_t size, int nranks, const int64_t *sizes) {
    Layout l = parsed(text);
    Shape shape = {1, {size}};
    int64_t begin = 0;
    for (int rank = 0; rank < nranks; rank++) {
        Box box;
        Shape local;
        layout_box(&l, &shape, rank, &box);
        layout_local_shape(&l, &shape, rank, &local);
        cr_assert_eq(box.begin[0], begin);
        cr_assert_eq(box.end[0] - begin, sizes[rank], "%s of %lld, rank %d", text, (long long)size, rank);
        cr_assert_eq(local.dim[0], sizes[rank]);
        begin = box.end[0];
    }
    cr_assert_eq(begin, size);
    cr_assert_eq(layout_max_elements(&l, &shape), sizes[0]);
}

Test(box, dimensions_are_divided_one_digit_after_the_other) {
    check_parts("[4@1]", 8, 4, (const int64_t[]){2, 2, 2, 2});
    check_parts("[4@1]", 6, 4, (const int64_t[]){2, 2, 1, 1});
    check_parts("[2@2.2@1]", 6, 4, (const int64_t[]){2, 1, 2, 1});
    check_parts("[4@1]", 2, 4, (const int64_t[]){1, 1, 0, 0});
    check_parts("[2@2.2@1]", 2, 4, (const int64_t[]){1, 0, 1, 0});
    check_parts("[3@1]", 0, 3, (const int64_t[]){0, 0, 0});
}

/* Which part of a dimension a cell is in, told from the cell: does not use boxes. */
static bool holds(const Layout *l, const Shape *shape, int rank, const int64_t *cell) {
    int at = 0; /* the position of rank */
    while (l->order ? l->order->rank[at] != rank : at != rank)
        at++;
    for (int i = 0; i < shape->ndim; i++) {
        int64_t c = cell[i], n = shape->dim[i];
        for (int k = 0; k < layout_count(l, i); k++) {
            Digit d = layout_list(l, i)[k];
            int64_t q = n / d.size, r = n % d.size, edge = r * (q + 1);
            int64_t part = c < edge ? c / (q + 1) : r + (c - edge) / q;
            if (part != digit_of(d, at)) return false;
            c -= c < edge ? part * (q + 1) : edge + (part - r) * q;
            n = q + (part < r);
        }
    }
    return true;
}

Test(box, groups_are_in_the_order_of_the_mixed_radix) {
    const Digit digits[] = {{2, 1}, {3, 4}}; /* major first, so stride 1 counts more */
    int members[6], position;
    cr_assert_eq(group_members(digits, 2, 11, members, &position), 6);
    const int expected[] = {2, 6, 10, 3, 7, 11};
    for (int i = 0; i < 6; i++)
        cr_assert_eq(members[i], expected[i]);
    cr_assert_eq(position, 5);
    cr_assert_eq(group_leader(digits, 2, 11), 2);
    cr_assert_eq(group_members(NULL, 0, 7, members, &position), 1);
    cr_assert(members[0] == 7 && position == 0);
}

Test(box, groups_partition_the_ranks) {
    uint64_t seed = 3;
    for (int trial = 0; trial < 300; trial++) {
        int nranks = 2 + random_below(&seed, 23), seen[25] = {0}, members[25], position;
        Digit digits[MAX_DIGITS];
        int n = random_mesh(&seed, nranks, digits);
        n = random_below(&seed, n + 1);
        for (int rank = 0; rank < nranks; rank++) {
            int count = group_members(digits, n, rank, members, &position);
            cr_assert_eq(members[position], rank);
            cr_assert_eq(members[0], group_leader(digits, n, rank));
            for (int i = 0; i < count; i++)
                seen[members[i]]++;
            if (rank == nranks - 1)
                for (int i = 0; i < nranks; i++)
                    cr_assert_eq(seen[i], count);
        }
    }
}

/* ---------------------------------------------------------------- redistribution, cell by cell */

enum { RANKS = 24, CELLS = 8 * 8 * 8 };

typedef struct Trial {
    Layout from, to;
    Shape shape;
    int nranks;
    uint64_t seed; /* to print */
    int ncells;
    int64_t cell[CELLS][MAX_NDIM];
    Digit summed[MAX_DIGITS];
    int nsummed, nterms;
    uint64_t sum[RANKS][CELLS]; /* what has arrived at a rank */
    int next[RANKS][CELLS];     /* terms that have */
    bool done[RANKS][CELLS];    /* the completed value has */
    int64_t received[RANKS];    /* elements, copies not counted */
    VEC(Piece) pieces;
    Arena arena;
    Arena orders;
} Trial;

/* Digits are of positions: looked up by searching the list of ranks. */
static int position_in(const Layout *layout, int rank) {
    int at = 0;
    while (layout->order ? layout->order->rank[at] != rank : at != rank)
        at++;
    return at;
}

static void complain(const Trial *t, const char *what, const Piece *piece) {
    Text text = {0};
    text_printf(&text, "%s: seed %llu, %d ranks, shape ", what, (unsigned long long)t->seed, t->nranks);
    shape_print(&text, &t->shape);
    text_printf(&text, ", ");
    layout_print(&text, &t->from, false);
    text_printf(&text, " -> ");
    layout_print(&text, &t->to, false);
    if (piece) text_printf(&text, "; piece from %d to %d round %d term %d", piece->from, piece->to, piece->round, piece->term);
    cr_assert_fail("%s", text.at);
}

static uint64_t mixed(uint64_t x) {
    return random_next(&x);
}

static int spelled(const Digit *digits, int n, int rank) {
    int index = 0;
    for (int i = 0; i < n; i++)
        index = index * digits[i].size + digit_of(digits[i], rank);
    return index;
}

/* A number that tells the values of the partial digits of `to` at a position, the terms that stay apart. */
static uint64_t kept_at(const Trial *t, int position) {
    return (uint64_t)spelled(t->to.digit + t->to.start[t->to.ndim],
                             layout_count(&t->to, t->to.ndim) + layout_count(&t->to, t->to.ndim + 1) + layout_count(&t->to, t->to.ndim + 2),
                             position);
}
/* Those that a rank needs, and of which one it has a term. */
static uint64_t kept(const Trial *t, int rank) {
    return kept_at(t, position_in(&t->to, rank));
}
static uint64_t kept_of_source(const Trial *t, int rank) {
    return kept_at(t, position_in(&t->from, rank));
}

/* The value of a cell in the source buffer of a rank: replicas have equal ones. */
static uint64_t term_value(int cell, int term, uint64_t owed) {
    return mixed((uint64_t)cell * 1000003 + (uint64_t)term * 1009 + owed * 7919);
}

static int cell_at(const Trial *t, const Box *box, int64_t index) {
    int64_t offset[MAX_NDIM] = {0};
    for (int i = t->shape.ndim - 1; i >= 0; i--) {
        int64_t extent = box->end[i] - box->begin[i];
        offset[i] = index % extent;
        index /= extent;
    }
    int cell = 0;
    for (int i = 0; i < t->shape.ndim; i++)
        cell = cell * (int)t->shape.dim[i] + (int)(box->begin[i] + offset[i]);
    return cell;
}

static bool collect(void *context, const Piece *piece) {
    Trial *t = context;
    vec_push(&t->arena, &t->pieces, *piece);
    return true;
}

static void play(Trial *t, const Piece *p) {
    if (p->count < 1 || p->first < 0 || p->first + p->count > box_elements(&p->box)) complain(t, "a share outside its box", p);
    if (p->from < 0 || p->from >= t->nranks || p->to < 0 || p->to >= t->nranks) complain(t, "no such rank", p);
    if (p->from != p->to) t->received[p->to] += p->count;
    for (int64_t i = p->first; i < p->first + p->count; i++) {
        int cell = cell_at(t, &p->box, i);
        if (!holds(&t->to, &t->shape, p->to, t->cell[cell])) complain(t, "a cell that is not wanted", p);
        if (t->done[p->to][cell]) complain(t, "a cell twice", p);
        if (p->round == 0) {
            if (!holds(&t->from, &t->shape, p->from, t->cell[cell])) complain(t, "a cell from a rank that has it not", p);
            if (spelled(t->summed, t->nsummed, position_in(&t->from, p->from)) != p->term)
                complain(t, "a term from a rank that holds another", p);
            if (t->next[p->to][cell]++ != p->term) complain(t, "terms not ascending", p);
            t->sum[p->to][cell] += term_value(cell, p->term, kept_of_source(t, p->from));
            t->done[p->to][cell] = p->term == t->nterms - 1;
        } else {
            if (p->from == p->to || t->next[p->from][cell] != t->nterms) complain(t, "a sum from a rank that has not added it", p);
            t->sum[p->to][cell] = t->sum[p->from][cell];
            t->done[p->to][cell] = true;
        }
    }
}

/* The lower bound of docs/redistribution.md, counted from who holds and who needs each cell. */
static void check_bound(const Trial *t) {
    int64_t bound = 0, total = 0;
    for (int rank = 0; rank < t->nranks; rank++)
        total += t->received[rank];
    for (int cell = 0; cell < t->ncells; cell++) {
        bool counted[RANKS] = {false};
        for (int rank = 0; rank < t->nranks; rank++) {
            if (counted[rank] || !holds(&t->to, &t->shape, rank, t->cell[cell])) continue;
            int needers = 0, hold = 0;
            for (int other = 0; other < t->nranks; other++) {
                if (kept(t, other) != kept(t, rank) || !holds(&t->to, &t->shape, other, t->cell[cell])) continue;
                counted[other] = true;
                needers++;
                hold += kept_of_source(t, other) == kept(t, rank) && holds(&t->from, &t->shape, other, t->cell[cell]);
            }
            if (t->nterms == 1)
                bound += needers - hold;
            else
                bound += t->nterms + needers - (hold ? 2 : 1);
        }
    }
    if (total != bound) {
        fprintf(stderr, "received %lld, bound %lld\n", (long long)total, (long long)bound);
        complain(t, "not at the bound", NULL);
    }
    if (t->nterms > 1) return;
    /* Nothing to add up: every rank for itself is at its bound. */
    for (int rank = 0; rank < t->nranks; rank++) {
        int64_t lacks = 0;
        for (int cell = 0; cell < t->ncells; cell++)
            lacks += holds(&t->to, &t->shape, rank, t->cell[cell]) &&
                     (kept_of_source(t, rank) != kept(t, rank) || !holds(&t->from, &t->shape, rank, t->cell[cell]));
        if (t->received[rank] != lacks) complain(t, "a rank not at its bound", NULL);
    }
}

static int piece_order(const Piece *a, const Piece *b) {
    if (a->from != b->from) return a->from - b->from;
    if (a->to != b->to) return a->to - b->to;
    return a->round - b->round;
}

/* Merge sort: keeps the order of what compares equal, which is what sender and receiver must agree on. */
static void sort_pieces(Piece *at, int n, Piece *spare) {
    if (n < 2) return;
    int half = n / 2;
    sort_pieces(at, half, spare);
    sort_pieces(at + half, n - half, spare);
    int i = 0, j = half, k = 0;
    while (k < n)
        spare[k++] = j == n || (i < half && piece_order(&at[i], &at[j]) <= 0) ? at[i++] : at[j++];
    memcpy(at, spare, (size_t)n * sizeof *at);
}

static bool same_piece(const Piece *a, const Piece *b) {
    if (piece_order(a, b) != 0 || a->term != b->term || a->first != b->first || a->count != b->count || a->box.ndim != b->box.ndim)
        return false;
    for (int i = 0; i < a->box.ndim; i++)
        if (a->box.begin[i] != b->box.begin[i] || a->box.end[i] != b->box.end[i]) return false;
    return true;
}

/* What all send, in the order in which each sends it to each, is what all receive. */
static void check_sent(Trial *t) {
    int n = 0;
    for (int i = 0; i < t->pieces.n; i++)
        if (t->pieces.at[i].from != t->pieces.at[i].to) t->pieces.at[n++] = t->pieces.at[i];
    Piece *received = t->pieces.at, *spare = arena_alloc(&t->arena, (size_t)(n + 1) * 2 * sizeof *spare);
    t->pieces.at = NULL;
    t->pieces.n = t->pieces.cap = 0;
    for (int rank = 0; rank < t->nranks; rank++) {
        int before = t->pieces.n;
        cr_assert(pieces_sent(&t->from, &t->to, &t->shape, t->nranks, rank, collect, t));
        for (int i = before; i < t->pieces.n; i++)
            if (t->pieces.at[i].from != rank || t->pieces.at[i].to == rank)
                complain(t, "a piece that is not the sender's", &t->pieces.at[i]);
    }
    if (t->pieces.n != n) complain(t, "sent and received differ in number", NULL);
    sort_pieces(received, n, spare);
    sort_pieces(t->pieces.at, n, spare);
    for (int i = 0; i < n; i++)
        if (!same_piece(&received[i], &t->pieces.at[i])) complain(t, "sent and received differ", &received[i]);
}

static void simulate(Trial *t) {
    Reduction kind;
    t->nsummed = layout_summed(&t->from, &t->to, t->summed, &kind);
    cr_assert_geq(t->nsummed, 0);
    t->nterms = 1;
    for (int i = 0; i < t->nsummed; i++)
        t->nterms *= t->summed[i].size;
    t->ncells = (int)shape_elements(&t->shape);
    cr_assert_leq(t->ncells, CELLS);
    for (int cell = 0; cell < t->ncells; cell++)
        for (int i = t->shape.ndim - 1, rest = cell; i >= 0; rest /= (int)t->shape.dim[i], i--)
            t->cell[cell][i] = rest % t->shape.dim[i];
    memset(t->received, 0, sizeof t->received);
    for (int rank = 0; rank < t->nranks; rank++) {
        memset(t->sum[rank], 0, (size_t)t->ncells * sizeof t->sum[rank][0]);
        memset(t->next[rank], 0, (size_t)t->ncells * sizeof t->next[rank][0]);
        memset(t->done[rank], 0, (size_t)t->ncells * sizeof t->done[rank][0]);
    }
    arena_init(&t->arena);
    t->pieces.at = NULL;
    t->pieces.n = t->pieces.cap = 0;
    for (int rank = 0; rank < t->nranks; rank++) {
        int before = t->pieces.n;
        cr_assert(pieces_received(&t->from, &t->to, &t->shape, t->nranks, rank, collect, t));
        for (int i = before; i < t->pieces.n; i++) {
            if (t->pieces.at[i].to != rank) complain(t, "a piece for another rank", &t->pieces.at[i]);
            if (i > before && t->pieces.at[i].round < t->pieces.at[i - 1].round) complain(t, "round 1 before round 0", &t->pieces.at[i]);
        }
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < t->pieces.n; i++)
            if (t->pieces.at[i].round == round) play(t, &t->pieces.at[i]);
    for (int rank = 0; rank < t->nranks; rank++)
        for (int cell = 0; cell < t->ncells; cell++) {
            if (!holds(&t->to, &t->shape, rank, t->cell[cell])) continue;
            uint64_t expected = 0;
            for (int term = 0; term < t->nterms; term++)
                expected += term_value(cell, term, kept(t, rank));
            if (!t->done[rank][cell] || t->sum[rank][cell] != expected) complain(t, "a cell is missing or wrong", NULL);
        }
    check_bound(t);
    check_sent(t);
    arena_finish(&t->arena);
}

/* A random pair of layouts; partial: `from` owes a reduction, and `to` may keep some of it. */
static void random_trial(Trial *t, uint64_t *seed, bool partial) {
    const int ranks[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
    t->seed = *seed;
    t->nranks = ranks[random_below(seed, 9)];
    int ndim = random_below(seed, 4);
    t->shape.ndim = ndim;
    for (int i = 0; i < ndim; i++)
        t->shape.dim[i] = random_below(seed, 20) ? 1 + random_below(seed, ndim == 3 ? 6 : 8) : 0;
    Digit digits[MAX_DIGITS], owed[MAX_DIGITS], kept_digits[MAX_DIGITS];
    int n = random_mesh(seed, t->nranks, digits), nowed = 0, nkept = 0;
    layout_init(&t->from, ndim);
    layout_init(&t->to, ndim);
    Reduction kind = (Reduction)random_below(seed, NREDUCTIONS);
    for (int i = 0; partial && i < n;) {
        if (random_below(seed, 2)) {
            owed[nowed++] = digits[i];
            digits[i] = digits[--n];
        } else {
            i++;
        }
    }
    random_assign(seed, digits, n, &t->from, ndim);
    for (int i = 0; i < nowed; i++)
        layout_append(&t->from, ndim + (int)kind, owed[i]);
    bool keep = random_below(seed, 3) == 0;
    for (int i = 0; i < nowed; i++) {
        /* Of a composite digit also its major half alone may be kept. */
        Digit d = owed[i];
        if (!keep || random_below(seed, 2)) continue;
        if (d.size % 2 == 0 && d.size > 2 && random_below(seed, 2)) d = (Digit){d.size / 2, d.stride * 2};
        kept_digits[nkept++] = d;
        layout_append(&t->to, ndim + (int)kind, d);
    }
    n = random_mesh(seed, t->nranks, digits);
    int usable = 0;
    for (int i = 0; i < n; i++) {
        bool fits = true;
        for (int k = 0; k < nkept; k++)
            fits = fits && digits_compatible(digits[i], kept_digits[k]);
        if (fits) digits[usable++] = digits[i];
    }
    random_assign(seed, digits, usable, &t->to, ndim);
    if (!layout_valid(&t->from, t->nranks, NULL) || !layout_valid(&t->to, t->nranks, NULL)) complain(t, "the trial itself is wrong", NULL);
}

static const Order *random_order(Trial *t, uint64_t *seed, const char *name) {
    int rank[RANKS];
    for (int i = 0; i < t->nranks; i++)
        rank[i] = i;
    for (int i = t->nranks - 1; i > 0; i--) {
        int j = random_below(seed, i + 1), swap = rank[i];
        rank[i] = rank[j];
        rank[j] = swap;
    }
    return order_make(&t->orders, name, rank, t->nranks);
}

typedef enum { NATURAL, ONE_ORDER, TWO_ORDERS } Orders;

static void simulate_many(uint64_t seed, int trials, bool partial, Orders orders) {
    Trial *t = calloc(1, sizeof *t);
    for (int i = 0; i < trials; i++) {
        random_trial(t, &seed, partial);
        arena_init(&t->orders);
        if (orders != NATURAL) t->from.order = t->to.order = random_order(t, &seed, "order1");
        if (orders == TWO_ORDERS) t->to.order = random_order(t, &seed, "order2");
        simulate(t);
        arena_finish(&t->orders);
    }
    free(t);
}

Test(pieces, without_sums_every_cell_arrives_once_at_the_bound) {
    simulate_many(1, 3000, false, NATURAL);
}

Test(pieces, sums_are_complete_equal_and_at_the_bound) {
    simulate_many(2, 3000, true, NATURAL);
}

Test(pieces, of_one_device_order_are_at_the_bound) {
    simulate_many(3, 1000, false, ONE_ORDER);
    simulate_many(4, 1000, true, ONE_ORDER);
}

Test(pieces, between_two_device_orders_are_at_the_bound) {
    simulate_many(5, 2000, false, TWO_ORDERS);
    simulate_many(6, 2000, true, TWO_ORDERS);
}

Test(pieces, of_one_device_order_are_those_of_the_natural_one_relabelled) {
    Layout from = parsed("[2@4 -] +sum(4@1)"), to = parsed("[4@2 -]"), from_ordered = from, to_ordered = to;
    Shape shape = {2, {7, 3}};
    const int rank[8] = {3, 1, 7, 5, 0, 2, 6, 4};
    Trial *t = calloc(1, sizeof *t);
    arena_init(&t->arena);
    from_ordered.order = to_ordered.order = order_make(&t->arena, "order1", rank, 8);
    for (int position = 0; position < 8; position++) {
        t->pieces.n = 0;
        cr_assert(pieces_received(&from, &to, &shape, 8, position, collect, t));
        int n = t->pieces.n;
        cr_assert(pieces_received(&from_ordered, &to_ordered, &shape, 8, rank[position], collect, t));
        cr_assert_eq(t->pieces.n, 2 * n);
        for (int i = 0; i < n; i++) {
            Piece natural = t->pieces.at[i];
            natural.from = rank[natural.from];
            natural.to = rank[natural.to];
            cr_assert(same_piece(&natural, &t->pieces.at[n + i]));
        }
    }
    arena_finish(&t->arena);
    free(t);
}

static void simulate_one(const char *from, const char *to, Shape shape, int nranks) {
    Trial *t = calloc(1, sizeof *t);
    t->from = parsed(from);
    t->to = parsed(to);
    t->shape = shape;
    t->nranks = nranks;
    simulate(t);
    free(t);
}

Test(pieces, named_cases_are_at_the_bound) {
    simulate_one("[- -] +sum(4@1)", "[- -]", (Shape){2, {8, 8}}, 8);       /* AllReduce beside replicas */
    simulate_one("[- -] +sum(4@2)", "[4@2 -]", (Shape){2, {8, 8}}, 8);     /* ReduceScatter */
    simulate_one("[2@6 3@2]", "[3@2 2@6]", (Shape){2, {7, 5}}, 12);        /* 2x3x2 */
    simulate_one("[2@3 -] +sum(3@1)", "[3@2 2@1]", (Shape){2, {5, 7}}, 6); /* 2x3 against 3x2 */
    simulate_one("[2@3 -] +max(3@1)", "[2@1 -]", (Shape){2, {2, 7}}, 6);
    simulate_one("[] +sum(6@1)", "[]", (Shape){0, {0}}, 6);                         /* one element, many owners */
    simulate_one("[8@1] +sum(3@8)", "[2@12]", (Shape){1, {3}}, 24);                 /* empty boxes */
    simulate_one("[2@1] +sum(4@2)", "[2@1] +sum(2@4)", (Shape){1, {8}}, 8);         /* partly owed still */
    simulate_one("[-] +sum(2@2) +max(2@1)", "[2@2] +max(2@1)", (Shape){1, {5}}, 4); /* another reduction stays owed */
    simulate_one("[2@1] +sum(2@2)", "[-] +sum(2@2)", (Shape){1, {5}}, 4);           /* an exchange of partial values */
}

typedef struct Count {
    int pieces, stop;
    int64_t elements;
} Count;

static bool count(void *context, const Piece *piece) {
    Count *c = context;
    c->pieces++;
    if (piece->from != piece->to) c->elements += piece->count;
    return c->pieces != c->stop;
}

Test(pieces, enumeration_stops_when_told) {
    Layout from = parsed("[4@1]"), to = parsed("[-]"), sum = parsed("[-] +sum(4@1)");
    Shape shape = {1, {8}};
    Count c = {.stop = 2};
    cr_assert_not(pieces_received(&from, &to, &shape, 4, 1, count, &c));
    cr_assert_eq(c.pieces, 2);
    c = (Count){.stop = 5};
    cr_assert_not(pieces_received(&sum, &to, &shape, 4, 1, count, &c));
    cr_assert_eq(c.pieces, 5);
    c = (Count){.stop = 1};
    cr_assert_not(pieces_sent(&sum, &to, &shape, 4, 1, count, &c));
    cr_assert_eq(c.pieces, 1);
}

Test(pieces, what_nobody_needs_to_move_does_not) {
    Layout whole = parsed("[- -]"), split = parsed("[4@2 2@1]");
    Shape shape = {2, {8, 8}};
    for (int rank = 0; rank < 8; rank++) {
        Count c = {0};
        cr_assert(pieces_received(&whole, &split, &shape, 8, rank, count, &c));
        cr_assert_eq(c.pieces, 1, "one local copy");
        cr_assert_eq(c.elements, 0);
        cr_assert(pieces_sent(&whole, &split, &shape, 8, rank, count, &c));
        cr_assert_eq(c.pieces, 1);
    }
}

Test(pieces, one_rank_of_4096_finds_its_pieces) {
    Shape shape = {2, {4096, 4096}};
    const struct {
        const char *from, *to;
        int64_t received;
    } cases[] = {
        {"[4096@1 -]", "[- 4096@1]", 4096 - 1},
        {"[- -] +sum(4096@1)", "[- -]", 2 * 4095 * 4096},
        {"[2048@1 -] +sum(2@2048)", "[- -]", 4096 * 4096 / 4096 + 4096 * 4096 - 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Layout from = parsed(cases[i].from), to = parsed(cases[i].to);
        Count received = {0}, sent = {0};
        cr_assert(pieces_received(&from, &to, &shape, 4096, 1234, count, &received));
        cr_assert(pieces_sent(&from, &to, &shape, 4096, 1234, count, &sent));
        cr_assert_eq(received.elements, cases[i].received, "%s: %lld", cases[i].from, (long long)received.elements);
        cr_assert_eq(sent.elements, received.elements);
    }
}

Test(box, runs_are_the_neighbouring_elements_of_a_box_in_order) {
    const Shape shape = {.ndim = 3, .dim = {4, 3, 2}};
    const struct {
        Box box;
        int64_t length, n, first[4];
    } cases[] = {{{.ndim = 3, .begin = {0, 0, 0}, .end = {4, 3, 2}}, 24, 1, {0}},
                 {{.ndim = 3, .begin = {1, 1, 0}, .end = {3, 3, 2}}, 4, 2, {8, 14}},
                 {{.ndim = 3, .begin = {2, 0, 1}, .end = {3, 3, 2}}, 1, 3, {13, 15, 17}},
                 {{.ndim = 3, .begin = {2, 1, 1}, .end = {2, 3, 2}}, 0, 0, {0}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        BoxRuns runs = box_runs(&shape, &cases[k].box);
        int64_t first, n = 0;
        for (; box_next_run(&runs, &first); n++) {
            cr_assert_eq(first, cases[k].first[n], "case %zu run %d", k, (int)n);
            cr_assert_eq(runs.length, cases[k].length);
        }
        cr_assert_eq(n, cases[k].n, "case %zu", k);
    }
    const Shape scalar = {.ndim = 0};
    const Box one = {.ndim = 0};
    BoxRuns runs = box_runs(&scalar, &one);
    int64_t first = 7;
    cr_assert(box_next_run(&runs, &first) && first == 0 && runs.length == 1);
    cr_assert_not(box_next_run(&runs, &first));
}

/* Marks what windows see, from the first to the last, or which of them see, one at a time. */
static void mark(const Halo *halo, int64_t size, int64_t begin, int64_t end, bool *marked) {
    enum { MOST = 64 };
    int64_t first = MOST * MOST, last = -1;
    for (int64_t o = 0; o < MOST; o++) {
        const int64_t low = o * halo->stride - halo->low, high = o * halo->stride + halo->high;
        const bool meets = halo->kind == HALO_SEES ? o >= begin && o < end : low < end && high >= begin && begin < end;
        if (!meets) continue;
        if (halo->kind == HALO_SEEN && o < size) marked[o] = true;
        if (low < first) first = low;
        if (high > last) last = high;
    }
    for (int64_t i = first < 0 ? 0 : first; halo->kind != HALO_SEEN && i <= last && i < size; i++)
        marked[i] = true;
}

Test(box, halos_are_what_windows_see_and_are_seen_by) {
    uint64_t seed = 20261123;
    int some = 0, longest_inside = 0;
    for (int round = 0; round < 20000; round++) {
        const int64_t taps = 1 + random_below(&seed, 6), size = 1 + random_below(&seed, 20), low = random_below(&seed, 7) - 2;
        Halo halo = {(HaloKind)(1 + random_below(&seed, 3)), 1 + random_below(&seed, 20), 1 + random_below(&seed, 4), low, taps - 1 - low};
        if (halo.high < -halo.low) continue;
        bool marked[64] = {false};
        int64_t begin = random_below(&seed, (int)halo.of + 1), end = begin + random_below(&seed, (int)(halo.of - begin) + 1);
        const int64_t from = begin, to = end;
        mark(&halo, size, begin, end, marked);
        halo_range(&halo, size, &begin, &end);
        int64_t first = 0, behind = 0;
        for (int64_t i = 63; i >= 0; i--)
            if (marked[i]) first = i;
        for (int64_t i = 0; i < 64; i++)
            if (marked[i]) behind = i + 1;
        cr_assert(begin == first && end == behind, "%s(%d,%d,%d,%d) of [%d, %d) in %d: [%d, %d), not [%d, %d)", halo_name[halo.kind],
                  (int)halo.of, (int)halo.stride, (int)halo.low, (int)halo.high, (int)from, (int)to, (int)size, (int)begin, (int)end,
                  (int)first, (int)behind);
        some += begin < end;
        Layout layout;
        const Shape shape = {2, {size, 1}};
        layout_init(&layout, 2);
        layout_append(&layout, 0, (Digit){4, 1});
        layout.halo[HALO_DIMS - 2] = halo;
        int64_t most = 0;
        for (int rank = 0; rank < 4; rank++) {
            Shape local;
            layout_local_shape(&layout, &shape, rank, &local);
            if (local.dim[0] > most) longest_inside += rank > 0 && most > 0, most = local.dim[0];
        }
        cr_assert_eq(layout_max_elements(&layout, &shape), most);
    }
    cr_assert_gt(some, 5000);
    cr_assert_gt(longest_inside, 100);
}

static bool count_piece(void *context, const Piece *piece) {
    if (piece->from != piece->to) *(int64_t *)context += piece->count;
    return true;
}

/* A rank receives what it lacks of its part and its halos, also where these reach beyond its neighbour, and nothing else. */
Test(box, an_exchange_of_halos_moves_what_ranks_lack) {
    Layout from, to;
    const Shape shape = {3, {2, 10, 3}};
    layout_init(&from, 3);
    layout_append(&from, 1, (Digit){4, 1}); /* 3 3 2 2 */
    to = from;
    to.halo[HALO_DIMS - 2] = (Halo){HALO_SEES, 10, 1, 4, 2};
    static const int64_t lacks[] = {2, 5, 6, 4};
    for (int rank = 0; rank < 4; rank++) {
        int64_t received = 0;
        pieces_received(&from, &to, &shape, 4, rank, count_piece, &received);
        cr_assert_eq(received, 2 * 3 * lacks[rank], "rank %d receives %d", rank, (int)received);
    }
    int64_t sent = 0;
    for (int rank = 0; rank < 4; rank++)
        pieces_sent(&from, &to, &shape, 4, rank, count_piece, &sent);
    cr_assert_eq(sent, 2 * 3 * (2 + 5 + 6 + 4));
}

/* ---------------------------------------------------------------- pins */

static Layout of_text(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden), "%s", text);
    return layout;
}

Test(box, ranks_of_other_values_hold_nothing) {
    const Layout pinned = of_text("[2@1 -] only(2@4=1)"), number = of_text("[] only(4@2=2)");
    const Shape shape = {2, {4, 3}}, scalar = {0};
    for (int rank = 0; rank < 8; rank++) {
        Box box;
        layout_box(&pinned, &shape, rank, &box);
        cr_expect_eq(box_elements(&box), rank < 4 ? 0 : 6);
        if (rank >= 4) cr_expect_eq(box.begin[0], rank % 2 * 2);
        cr_expect_eq(layout_holds_first(&pinned, 8, rank), rank == 4 || rank == 5);
        layout_box(&number, &scalar, rank, &box);
        cr_expect_eq(box_elements(&box), rank / 2 == 2);
    }
    cr_expect_eq(layout_max_elements(&pinned, &shape), 6);
    cr_expect_eq(layout_first_rank(&pinned), 4);
}

enum { PINNED_RANKS = 8, PINNED_CELLS = 24 };
/* Values of a tensor on all ranks; of a sum its terms. */
typedef struct Pinned {
    const Layout *from, *to;
    const Shape *shape;
    double source[PINNED_RANKS][PINNED_CELLS], target[PINNED_RANKS][PINNED_CELLS];
    int round;
    int64_t sent[PINNED_RANKS];
} Pinned;

static int64_t cell_of(const Shape *shape, const Box *box, int64_t at) {
    int64_t cell = 0, place = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        const int64_t size = box->end[d] - box->begin[d];
        cell += place * (box->begin[d] + at % size);
        at /= size;
        place *= shape->dim[d];
    }
    return cell;
}

static bool holds_cell(const Layout *layout, const Shape *shape, int rank, int64_t cell) {
    Box box;
    layout_box(layout, shape, rank, &box);
    for (int64_t i = 0; i < box_elements(&box); i++)
        if (cell_of(shape, &box, i) == cell) return true;
    return false;
}

static bool pinned_piece(void *context, const Piece *piece) {
    Pinned *p = context;
    if (piece->round != p->round) return true;
    for (int64_t i = piece->first; i < piece->first + piece->count; i++) {
        const int64_t cell = cell_of(p->shape, &piece->box, i);
        cr_assert(holds_cell(p->round ? p->to : p->from, p->shape, piece->from, cell), "rank %d has no cell %d", piece->from, (int)cell);
        p->target[piece->to][cell] =
            (piece->round || piece->term == 0 ? 0 : p->target[piece->to][cell]) + (p->round ? p->target : p->source)[piece->from][cell];
    }
    return true;
}

static bool pinned_sent(void *context, const Piece *piece) {
    Pinned *p = context;
    p->sent[piece->from] += piece->count;
    return true;
}

static bool pinned_moved(void *context, const Piece *piece) {
    if (piece->from != piece->to) ((Pinned *)context)->sent[piece->from] -= piece->count;
    return true;
}

/* Whatever the pins: every rank of the target gets its part of what the ranks of the source hold, and senders send just that. */
Test(pieces, between_pins_every_cell_arrives) {
    static const char *const froms[] = {"[- -]",
                                        "[2@1 -] only(2@4=0)",
                                        "[2@1 2@2] only(2@4=1)",
                                        "[- -] +sum(2@1) only(2@4=0)",
                                        "[- 2@2] +sum(2@1) only(2@4=1)",
                                        "[4@1 -] only(2@4=0)",
                                        "[8@1 -]",
                                        "[2@4 -] +sum(4@1)",
                                        "[- -] +sum(2@4)",
                                        "[- -] only(8@1=5)",
                                        "[2@2 -] only(2@1=1)"};
    static const char *const tos[] = {
        "[- -]",   "[2@1 -] only(2@4=0)", "[- 2@1] only(2@4=1)", "[4@1 -] only(2@4=1)", "[2@2.2@1 -] only(2@4=0)", "[- -] only(2@4=1)",
        "[8@1 -]", "[- -] only(8@1=3)",   "[- 4@2] only(2@1=0)"};
    const Shape shape = {2, {6, 4}};
    for (size_t f = 0; f < sizeof froms / sizeof *froms; f++)
        for (size_t t = 0; t < sizeof tos / sizeof *tos; t++) {
            const Layout from = of_text(froms[f]), to = of_text(tos[t]);
            Pinned p = {.from = &from, .to = &to, .shape = &shape};
            int terms = 1;
            for (int i = from.start[2]; i < from.start[2 + NREDUCTIONS]; i++)
                terms *= from.digit[i].size;
            for (int rank = 0; rank < PINNED_RANKS; rank++)
                for (int cell = 0; cell < PINNED_CELLS; cell++) {
                    int term = 0;
                    for (int i = from.start[2]; i < from.start[2 + NREDUCTIONS]; i++)
                        term = term * from.digit[i].size + digit_of(from.digit[i], rank);
                    p.source[rank][cell] = terms == 1 ? 1 + cell : term == 0 ? 1 + cell - (terms - 1) * 100 : 100;
                }
            for (p.round = 0; p.round < 2; p.round++)
                for (int rank = 0; rank < PINNED_RANKS; rank++)
                    pieces_received(&from, &to, &shape, PINNED_RANKS, rank, pinned_piece, &p);
            for (int rank = 0; rank < PINNED_RANKS; rank++)
                for (int cell = 0; cell < PINNED_CELLS; cell++)
                    cr_expect_eq(p.target[rank][cell], holds_cell(&to, &shape, rank, cell) ? 1 + cell : 0,
                                 "%s to %s: cell %d of rank %d is %g", froms[f], tos[t], cell, rank, p.target[rank][cell]);
            for (int rank = 0; rank < PINNED_RANKS; rank++)
                pieces_sent(&from, &to, &shape, PINNED_RANKS, rank, pinned_sent, &p);
            for (int rank = 0; rank < PINNED_RANKS; rank++)
                pieces_received(&from, &to, &shape, PINNED_RANKS, rank, pinned_moved, &p);
            for (int rank = 0; rank < PINNED_RANKS; rank++)
                cr_expect_eq(p.sent[rank], 0, "%s to %s: rank %d sends %d too many", froms[f], tos[t], rank, (int)p.sent[rank]);
        }
}
