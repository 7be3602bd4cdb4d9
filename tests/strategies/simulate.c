#include "tests/strategies/simulate.h"

#include <string.h>

static int digit_value(Digit digit, int position) {
    return position / digit.stride % digit.size;
}

int simulate_position(const Layout *layout, int rank) {
    if (!layout->order) return rank;
    int position = 0;
    while (layout->order->rank[position] != rank)
        position++;
    return position;
}

/* ---- who holds what */

/* Divides `n` indices among the values of the digits, one after the other; whether index i ends up with those of position. */
static bool dim_holds(const Digit *digits, int ndigits, int64_t n, int position, int64_t i) {
    for (int k = 0; k < ndigits; k++) {
        /* Deal out the part sizes: one index more for each of the first n % size. */
        int64_t begin = 0;
        int value = 0;
        for (;; value++) {
            int64_t size = n / digits[k].size;
            if (value < n % digits[k].size) size++;
            if (i < begin + size) {
                i -= begin;
                n = size;
                break;
            }
            begin += size;
        }
        if (value != digit_value(digits[k], position)) return false;
    }
    return true;
}

bool simulate_holds(const Layout *layout, const Shape *shape, int rank, int cell) {
    int position = simulate_position(layout, rank);
    for (int d = shape->ndim - 1; d >= 0; d--) {
        if (!dim_holds(layout_list(layout, d), layout_count(layout, d), shape->dim[d], position, cell % shape->dim[d])) return false;
        cell = (int)(cell / shape->dim[d]);
    }
    return true;
}

/* The number of the term that rank holds: its partial digits. */
static int term_of(const Layout *layout, int rank) {
    int term = 0, position = simulate_position(layout, rank);
    for (int list = layout->ndim; list < layout->ndim + NREDUCTIONS; list++)
        for (int k = 0; k < layout_count(layout, list); k++) {
            Digit digit = layout_list(layout, list)[k];
            term = term * digit.size + digit_value(digit, position);
        }
    return term;
}

uint32_t simulate_wanted(const Layout *from, const Layout *to, int nranks, int rank) {
    if (layout_count(from, from->ndim) + layout_count(from, from->ndim + 1) + layout_count(from, from->ndim + 2) == 0) return 1;
    uint32_t wanted = 0;
    int position = simulate_position(to, rank);
    for (int other = 0; other < nranks; other++) {
        int source = simulate_position(from, other);
        bool same = true; /* in the digits that stay partial: those terms belong together */
        for (int list = to->ndim; list < to->ndim + NREDUCTIONS && same; list++)
            for (int k = 0; k < layout_count(to, list) && same; k++)
                same = digit_value(layout_list(to, list)[k], source) == digit_value(layout_list(to, list)[k], position);
        if (same) wanted |= 1u << term_of(from, other);
    }
    return wanted;
}

/* The same for all ranks and cells. */
typedef struct Holdings {
    bool at[SIMULATE_RANKS][SIMULATE_CELLS];
} Holdings;

static void holdings_fill(Holdings *holdings, const Layout *layout, const Shape *shape, int nranks, int ncells) {
    for (int rank = 0; rank < nranks; rank++)
        for (int cell = 0; cell < ncells; cell++)
            holdings->at[rank][cell] = simulate_holds(layout, shape, rank, cell);
}

void simulate_begin(World *world, const Layout *from, const Shape *shape, int nranks) {
    memset(world->terms, 0, sizeof world->terms);
    world->shape = shape, world->nranks = nranks, world->ncells = 1;
    for (int d = 0; d < shape->ndim; d++)
        world->ncells *= (int)shape->dim[d];
    for (int rank = 0; rank < nranks; rank++)
        for (int cell = 0; cell < world->ncells; cell++)
            if (simulate_holds(from, shape, rank, cell)) world->terms[rank][cell] = 1u << term_of(from, rank);
}

/* ---- steps */

/* What arrives at each rank, beside what it had. */
typedef struct Delivery {
    World *world;
    World next;
    Ranges *counts;
    const Layout *from;
    Holdings needs; /* under the step's target */
    const char *why;
} Delivery;

/* Rank `to` adds the cell's terms that `from` has to its own. */
static void deliver(Delivery *d, const World *source, int from, int to, int cell) {
    uint32_t terms = source->terms[from][cell];
    if (!terms) d->why = "a rank sends a cell that it does not have";
    if (d->next.terms[to][cell] & terms) d->why = "a rank adds a term twice, or gets a cell twice";
    d->next.terms[to][cell] |= terms;
    if (from == to) return;
    d->counts->received[to]++;
    d->counts->sent[from]++;
}

typedef struct PieceContext {
    Delivery *delivery;
    World summed; /* after round 0: the owners' shares */
    bool started;
} PieceContext;

static bool on_piece(void *context, const Piece *piece) {
    PieceContext *c = context;
    Delivery *d = c->delivery;
    const Shape *shape = d->world->shape;
    int64_t n = 1;
    for (int k = 0; k < shape->ndim; k++)
        n *= piece->box.end[k] - piece->box.begin[k];
    if (piece->first < 0 || piece->count < 1 || piece->first + piece->count > n) d->why = "a piece exceeds its box";
    for (int64_t i = piece->first; i < piece->first + piece->count && !d->why; i++) {
        int64_t rest = i, cell = 0, scale = 1;
        for (int k = shape->ndim - 1; k >= 0; k--) {
            int64_t width = piece->box.end[k] - piece->box.begin[k];
            cell += (piece->box.begin[k] + rest % width) * scale;
            scale *= shape->dim[k];
            rest /= width;
        }
        deliver(d, piece->round == 0 ? d->world : &c->summed, piece->from, piece->to, (int)cell);
    }
    return !d->why;
}

/* Only the pieces of one round. */
typedef struct RoundContext {
    PieceContext *pieces;
    int round;
} RoundContext;

static bool on_piece_of_round(void *context, const Piece *piece) {
    RoundContext *c = context;
    return piece->round == c->round ? on_piece(c->pieces, piece) : true;
}

static void step_exchange(Delivery *d, const Layout *to) {
    PieceContext pieces = {.delivery = d};
    for (int round = 0; round < 2 && !d->why; round++) {
        for (int rank = 0; rank < d->world->nranks && !d->why; rank++)
            pieces_received(d->from, to, d->world->shape, d->world->nranks, rank, on_piece_of_round, &(RoundContext){&pieces, round});
        if (round == 0) memcpy(&pieces.summed, &d->next, sizeof pieces.summed);
    }
}

/* The ranks that differ from rank only in the partial digits that the step removes, in the order of their positions. */
static int group_of(const Layout *from, const Layout *to, int nranks, int rank, int *members) {
    int n = 0, position = simulate_position(from, rank);
    for (int other = 0; other < nranks; other++) {
        /* Two positions are together when taking the removed digits away leaves the same number. */
        int mine = position, its = other;
        for (int list = from->ndim; list < from->ndim + NREDUCTIONS; list++)
            for (int k = 0; k < layout_count(from, list); k++) {
                Digit digit = layout_list(from, list)[k];
                mine -= digit_value(digit, position) * digit.stride;
                its -= digit_value(digit, other) * digit.stride;
            }
        bool same = mine == its;
        for (int list = to->ndim; list < to->ndim + NREDUCTIONS && same; list++)
            for (int k = 0; k < layout_count(to, list) && same; k++)
                same = digit_value(layout_list(to, list)[k], position) == digit_value(layout_list(to, list)[k], other);
        if (same) members[n++] = from->order ? from->order->rank[other] : other;
    }
    return n;
}

/* In each group: every member adds up its share of the cells, then gathers the other shares. */
static void step_all_reduce(Delivery *d, const Layout *to) {
    World summed = d->next;
    for (int pass = 0; pass < 2; pass++) {
        for (int rank = 0; rank < d->world->nranks; rank++) {
            int members[SIMULATE_RANKS], n = group_of(d->from, to, d->world->nranks, rank, members), held = 0, seen = 0;
            for (int cell = 0; cell < d->world->ncells; cell++)
                held += d->world->terms[rank][cell] != 0;
            for (int cell = 0; cell < d->world->ncells; cell++) {
                if (!d->world->terms[rank][cell]) continue;
                int owner = 0;
                for (int end = 0; owner < n; owner++) {
                    end += held / n + (owner < held % n);
                    if (seen < end) break;
                }
                seen++;
                if (pass == 1)
                    deliver(d, &summed, members[owner], rank, cell);
                else if (members[owner] == rank)
                    for (int k = 0; k < n; k++)
                        deliver(d, d->world, members[k], rank, cell);
            }
        }
        if (pass == 0) {
            summed = d->next;
            memset(d->next.terms, 0, sizeof d->next.terms);
        }
    }
}

static void step_reduce_scatter(Delivery *d, const Layout *to) {
    for (int rank = 0; rank < d->world->nranks; rank++) {
        int members[SIMULATE_RANKS], n = group_of(d->from, to, d->world->nranks, rank, members);
        for (int cell = 0; cell < d->world->ncells; cell++)
            for (int k = 0; k < n && d->needs.at[rank][cell]; k++)
                deliver(d, d->world, members[k], rank, cell);
    }
}

static void step_slice(Delivery *d) {
    for (int rank = 0; rank < d->world->nranks; rank++)
        for (int cell = 0; cell < d->world->ncells; cell++)
            if (d->needs.at[rank][cell]) deliver(d, d->world, rank, rank, cell);
}

bool simulate_step(World *world, const Layout *origin, const Layout *from, const ConversionStep *step, Ranges *counts, const char **why) {
    Delivery d = {.world = world, .counts = counts, .from = from};
    d.next.shape = world->shape, d.next.nranks = world->nranks, d.next.ncells = world->ncells;
    holdings_fill(&d.needs, &step->to, world->shape, world->nranks, world->ncells);
    switch (step->kind) {
    case COMM_ALL_REDUCE:
        step_all_reduce(&d, &step->to);
        break;
    case COMM_REDUCE_SCATTER:
        step_reduce_scatter(&d, &step->to);
        break;
    case COMM_ALL_GATHER:
    case COMM_ALL_TO_ALL:
    case COMM_EXCHANGE:
        step_exchange(&d, &step->to);
        break;
    case COMM_STRIDED_SLICE:
        step_slice(&d);
        break;
    case NCOMMS:
        break;
    }
    for (int rank = 0; rank < world->nranks && !d.why; rank++) {
        uint32_t wanted = simulate_wanted(origin, &step->to, world->nranks, rank);
        for (int cell = 0; cell < world->ncells && !d.why; cell++) {
            bool holds = d.needs.at[rank][cell];
            if (d.next.terms[rank][cell] != (holds ? wanted : 0))
                d.why = holds ? "a rank lacks terms of a cell" : "a rank gets a cell that it does not need";
        }
    }
    *why = d.why;
    *world = d.next;
    return !d.why;
}

/* ---- the bound */

void simulate_bound(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *bound) {
    static World has; /* large; only here */
    static Holdings needs;
    simulate_begin(&has, from, shape, nranks);
    holdings_fill(&needs, to, shape, nranks, has.ncells);
    uint32_t wanted_by[SIMULATE_RANKS];
    for (int rank = 0; rank < nranks; rank++)
        wanted_by[rank] = simulate_wanted(from, to, nranks, rank);
    int64_t missing[SIMULATE_RANKS] = {0}, most = 0;
    bool partial = false;
    *bound = (Traffic){0};
    for (int cell = 0; cell < has.ncells; cell++) {
        bool done[SIMULATE_RANKS] = {false};
        for (int rank = 0; rank < nranks; rank++) {
            if (done[rank] || !needs.at[rank][cell]) continue;
            /* All that need the same sum of the same terms. */
            uint32_t wanted = wanted_by[rank];
            int terms = 0, needers = 0;
            bool any_holds = false;
            for (int bit = 0; bit < 32; bit++)
                terms += wanted >> bit & 1;
            for (int other = 0; other < nranks; other++) {
                if (!needs.at[other][cell] || wanted_by[other] != wanted) continue;
                bool holds = has.terms[other][cell] & wanted; /* not of another sum: of two device orders */
                done[other] = true;
                needers++;
                if (holds) any_holds = true;
                if (terms > 1 || !holds) missing[other]++;
                if (terms == 1) bound->total += !holds;
            }
            if (terms == 1) continue;
            partial = true;
            bound->total += any_holds ? (terms - 1) + (needers - 1) : terms + needers - 1;
        }
    }
    for (int rank = 0; rank < nranks; rank++)
        if (missing[rank] > most) most = missing[rank];
    int64_t fair = (bound->total + nranks - 1) / nranks;
    bound->max = partial && fair > most ? fair : most;
}

/* ---- all layouts */

typedef struct Enumeration {
    int nranks, ndim, room, n;
    bool partial;
    Digit digit[8];
    int ndigits;
    Layout *layouts;
} Enumeration;

static void add_layout(Enumeration *e, const Layout *layout) {
    for (int i = 0; i < e->n; i++)
        if (layout_equal(&e->layouts[i], layout)) return;
    if (e->n < e->room) e->layouts[e->n] = *layout;
    e->n++;
}

/* Every way to append the digits not yet used, in any order, to the lists from `list` on. */
static void fill_lists(Enumeration *e, const Layout *layout, int list, unsigned used) {
    if (list == e->ndim + (e->partial ? 1 : 0)) {
        add_layout(e, layout);
        return;
    }
    fill_lists(e, layout, list + 1, used);
    for (int i = 0; i < e->ndigits; i++) {
        if (used >> i & 1) continue;
        Layout longer = *layout;
        layout_append(&longer, list, e->digit[i]);
        fill_lists(e, &longer, list, used | 1u << i);
    }
}

/* Every mesh: ordered factorisations of the ranks. */
static void fill_meshes(Enumeration *e, int rest) {
    if (rest == 1) {
        Layout whole;
        layout_init(&whole, e->ndim);
        fill_lists(e, &whole, 0, 0);
        return;
    }
    for (int size = 2; size <= rest; size++) {
        if (rest % size != 0) continue;
        e->digit[e->ndigits++] = (Digit){.size = size, .stride = rest / size};
        fill_meshes(e, rest / size);
        e->ndigits--;
    }
}

int simulate_layouts(int nranks, int ndim, bool partial, Layout *layouts, int room) {
    Enumeration e = {.nranks = nranks, .ndim = ndim, .partial = partial, .layouts = layouts, .room = room};
    fill_meshes(&e, nranks);
    return e.n;
}
