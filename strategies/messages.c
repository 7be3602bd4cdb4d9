/* Counts the messages of the busiest rank in an exchange without enumerating them. A piece goes from or to each combination of certain digit values (ir/box.c says which), so the
 * number of pieces is a product over the dimensions, and over the digits that divide none. In a dimension, the parts that meet rank 0's part are the first ones. Where they are
 * only some of the parts of a digit's value, the digits after it are looked at. */
#include "strategies/pair.h"

/* Ranks, and those of them that are in rank 0's node. */
typedef struct Count {
    int64_t near, all;
} Count;

static Count times(Count a, Count b) {
    return (Count){a.near * b.near, a.all * b.all};
}
static Count plus(Count a, Count b) {
    return (Count){a.near + b.near, a.all + b.all};
}
static Count minus(Count a, Count b) {
    return (Count){a.near - b.near, a.all - b.all};
}
static const Count itself = {1, 1};

/* Parts of the other side; agreeing: those that, like rank 0, have 0 in all digits that both sides use. */
typedef struct Met {
    Count any, agreeing;
} Met;

static Met met_times(Met a, Met b) {
    return (Met){times(a.any, b.any), times(a.agreeing, b.agreeing)};
}

/* Which parts of one side count: those with the value 0 in all forbidden atoms. */
typedef struct Filter {
    const Machine *machine;
    const Pair *pair;
    bool forbidden[MAX_ATOMS], shared[MAX_ATOMS];
} Filter;

/* A digit of a dimension, with the digits after it. */
typedef struct Level {
    Digit digit;
    int64_t near;  /* its values in rank 0's node: the first ones */
    int64_t parts; /* into which it and the digits after it divide */
    Met met;       /* of these parts, if all are met */
} Level;

typedef struct Levels {
    const Filter *filter;
    int64_t end; /* of rank 0's range */
    int nlevels;
    Level level[MAX_DIGITS + 1]; /* the last: no digit is left */
} Levels;

static bool is_zero_in(const Filter *f, const bool *set, Digit digit, int64_t value) {
    for (int i = 0; i < f->pair->natoms; i++)
        if (set[i] && digit_within(f->pair->atom[i], digit) && digit_of(f->pair->atom[i], (int)(value * digit.stride)) != 0) return false;
    return true;
}

/* The values of one digit that count. */
static Met values_met(const Filter *f, Digit digit, int64_t near) {
    Met met = {{0, digit.size}, {0, digit.size}};
    for (int i = 0; i < f->pair->natoms; i++) {
        if (!digit_within(f->pair->atom[i], digit)) continue;
        if (f->forbidden[i]) met.any.all /= f->pair->atom[i].size;
        if (f->forbidden[i] || f->shared[i]) met.agreeing.all /= f->pair->atom[i].size;
    }
    for (int64_t v = 0; v < near; v++) {
        if (!is_zero_in(f, f->forbidden, digit, v)) continue;
        met.any.near++;
        met.agreeing.near += is_zero_in(f, f->shared, digit, v);
    }
    return met;
}

/* The digits from level l on divide the `size` cells from `begin` on into parts; counts those that begin before w->end. */
static Met parts_met(const Levels *w, int l, int64_t begin, int64_t size) {
    const Level *level = &w->level[l];
    if (begin >= w->end || size == 0) return (Met){0};
    if (level->parts <= size && (l == w->nlevels || begin + size - size / level->parts < w->end)) return level->met;
    if (l == w->nlevels) return level->met;
    Met sum = {0};
    const int64_t each = size / level->digit.size, longer = size % level->digit.size;
    for (int64_t v = 0; v < level->digit.size && begin < w->end; v++) {
        const int64_t part = each + (v < longer);
        if (is_zero_in(w->filter, w->filter->forbidden, level->digit, v)) {
            Met met = parts_met(w, l + 1, begin, part);
            if (v >= level->near) met.any.near = met.agreeing.near = 0;
            if (!is_zero_in(w->filter, w->filter->shared, level->digit, v)) met.agreeing = (Count){0};
            sum = (Met){plus(sum.any, met.any), plus(sum.agreeing, met.agreeing)};
        }
        begin += part;
    }
    return sum;
}

/* Parts of a layout that meet rank 0's part of another one, over all dimensions. */
static Met all_met(const Filter *f, const Layout *layout, const Layout *other) {
    Met met = {itself, itself};
    Box own;
    layout_box(other, f->pair->shape, 0, &own);
    for (int d = 0; d < f->pair->shape->ndim; d++) {
        Levels w = {.filter = f, .end = own.end[d], .nlevels = layout_count(layout, d)};
        if (w.nlevels == 0) continue;
        w.level[w.nlevels].parts = 1;
        w.level[w.nlevels].met = (Met){itself, itself};
        for (int l = w.nlevels - 1; l >= 0; l--) {
            const Digit digit = layout_list(layout, d)[l];
            const int64_t near = values_in_node(f->machine, digit, f->pair->nranks);
            w.level[l] = (Level){digit, near, digit.size * w.level[l + 1].parts, met_times(values_met(f, digit, near), w.level[l + 1].met)};
        }
        met = met_times(met, parts_met(&w, 0, 0, f->pair->shape->dim[d]));
    }
    return met;
}

/* Counts of the ranks that differ from rank 0 only in certain digits. */
typedef struct Groups {
    Count terms;       /* in the digits summed */
    Count others;      /* in digits that the target does not use */
    Count summed_free; /* in digits summed that the target does not use */
    Count senders;     /* in digits of the source, or summed, that the target does not use */
} Groups;

static void groups_find(const Machine *machine, const Pair *pair, Groups *groups) {
    Digit chain[MAX_DIGITS];
    const int n = digits_chain(pair->atom, pair->natoms, NULL, 0, pair->nranks, chain);
    *groups = (Groups){itself, itself, itself, itself};
    for (int i = 0; i < n; i++) {
        bool source = false, target = false, summed = false;
        for (int k = 0; k < pair->natoms; k++) {
            if (!digit_within(chain[i], pair->atom[k])) continue;
            source = source || pair->in_from[k];
            target = target || pair->in_to[k];
            summed = summed || pair->is_reduced[k];
        }
        const Count ranks = {values_in_node(machine, chain[i], pair->nranks), chain[i].size};
        if (summed) groups->terms = times(groups->terms, ranks);
        if (target) continue;
        groups->others = times(groups->others, ranks);
        if (summed) groups->summed_free = times(groups->summed_free, ranks);
        if (source || summed) groups->senders = times(groups->senders, ranks);
    }
}

/* Whether some place of a dimension, or of the partial digits kept, has another digit in the source than in the target: then some rank
 * needs only what other ranks hold; and whether those may be in another node. */
typedef enum Moved { MOVED_NOT, MOVED_NEAR, MOVED_FAR } Moved;

static Moved moved_of(const Machine *machine, const Pair *pair) {
    Moved moved = MOVED_NOT;
    for (int d = 0; d <= pair->shape->ndim; d++)
        for (int i = 0; i < pair->list[0][d].n && i < pair->list[1][d].n; i++) {
            const int from = pair->list[0][d].at[i];
            if (from == pair->list[1][d].at[i]) continue;
            if (values_in_node(machine, pair->atom[from], pair->nranks) < pair->atom[from].size) return MOVED_FAR;
            moved = MOVED_NEAR;
        }
    return moved;
}

/* Messages to the rank that receives the most, from `holders` (the ranks that hold what rank 0 needs, rank 0 among them) and from `others`.
 * Where digits move, that rank holds nothing of what it needs; where digits of nodes move, neither does its node. */
static Count from_others(Moved moved, Count holders, Count others) {
    switch (moved) {
    case MOVED_NOT:
        return plus(minus(holders, itself), others);
    case MOVED_NEAR:
        return plus(holders, others);
    case MOVED_FAR:
        break;
    }
    return (Count){0, holders.all + others.all};
}

static Links most(Count a, Count b) {
    const int64_t far_a = a.all - a.near, far_b = b.all - b.near;
    return (Links){a.near > b.near ? a.near : b.near, far_a > far_b ? far_a : far_b};
}

/* If some needers hold a term of a piece, each of these owns a share of it; else each needer does. Owners receive the terms of their share
 * in round 0, add them up and send the sum to the other needers in round 1. Rank 0 holds a term of one piece that it needs. It is the first
 * owner of that piece and of those that no needer holds, so in round 1 it receives no more messages than it sends. */
static Links messages_of_sums(const Machine *machine, const Pair *pair, const Filter *source, Moved moved) {
    Filter target = {.machine = machine, .pair = pair};
    Groups g;
    for (int i = 0; i < pair->natoms; i++) {
        target.forbidden[i] = !pair->in_from[i] && !pair->is_reduced[i];
        target.shared[i] = pair->in_from[i];
    }
    groups_find(machine, pair, &g);
    const Met pieces = all_met(source, pair->from, pair->to), boxes = all_met(&target, pair->to, pair->from);
    const Count unheld = minus(pieces.any, pieces.agreeing), owned = {1 + unheld.all, 1 + unheld.all};
    const Count received = from_others(moved, g.terms, times(unheld, g.terms)),
                sent = plus(minus(times(boxes.agreeing, g.summed_free), itself), times(minus(boxes.any, boxes.agreeing), g.senders));
    const Count shares = times(owned, minus(g.others, itself));
    const Links terms = most(received, sent);
    return (Links){terms.near + shares.near, terms.far + shares.all - shares.near};
}

bool messages_count(const Machine *machine, const Pair *pair, Links *links) {
    if (!pair->refined) return false;
    Filter source = {.machine = machine, .pair = pair};
    for (int i = 0; i < pair->natoms; i++)
        source.shared[i] = pair->in_to[i];
    const Moved moved = moved_of(machine, pair);
    if (pair->terms > 1) {
        *links = messages_of_sums(machine, pair, &source, moved);
        return true;
    }
    const Count from = from_others(moved, all_met(&source, pair->from, pair->to).any, (Count){0});
    *links = (Links){from.near, from.all - from.near};
    return true;
}
