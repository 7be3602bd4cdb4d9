/* What a conversion moves, and the least that must move (docs/redistribution.md), as counts over pairs of layouts. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/pair.h"

/* Size of part `position` of `cells` divided among `n`, first ones one larger. */
static int64_t share(int64_t cells, int64_t n, int64_t position) {
    return cells / n + (position < cells % n);
}

/* With halos parts overlap, so each rank is counted by itself: all that it needs and, without sums, does not hold. */
static Traffic bound_of_halos(const Pair *pair) {
    Traffic bound = {0};
    for (int rank = 0; rank < pair->nranks; rank++) {
        Box held, needed, both;
        layout_box(pair->from, pair->shape, rank, &held);
        layout_box(pair->to, pair->shape, rank, &needed);
        const int64_t missing =
            box_elements(&needed) - (pair->terms == 1 && box_intersect(&held, &needed, &both) ? box_elements(&both) : 0);
        bound.total += missing;
        bound.max = max64(bound.max, missing);
    }
    return bound;
}

/* The total that any algorithm must receive. */
static int64_t bound_total(const Pair *pair) {
    if (layout_has_halo(pair->from) || layout_has_halo(pair->to)) return bound_of_halos(pair).total;
    if (pair->terms == 1) return pair->cells * pair->needers - pair_overlap_total(pair);
    return pair->cells * (pair->terms + pair->needers - 1) - pair_overlap_pieces(pair);
}

/* ---- exchange without partial sums */

static bool link_is_fixed(const Pair *pair, int from_atom, int to_atom) {
    (void)from_atom;
    return !pair->in_from[to_atom];
}

/* Cells that a rank which sends any sends to the ranks that differ from it only in source digits (itself included). */
static int64_t sendable_aligned(const Pair *pair) {
    int64_t cells = pair_part(pair);
    bool free_atom[MAX_ATOMS];
    memcpy(free_atom, pair->in_from, sizeof free_atom);
    for (int d = 0; d <= pair->shape->ndim; d++)
        for (int i = 0; i < pair->list[0][d].n && i < pair->list[1][d].n; i++)
            free_atom[pair->list[1][d].at[i]] = false;
    for (int i = 0; i < pair->natoms; i++)
        if (free_atom[i]) cells *= pair->atom[i].size;
    return cells;
}

static void exchange_plain(const Pair *pair, Traffic *received, Traffic *sent) {
    if (!pair->aligned) {
        UnevenCounts counts;
        uneven_count(pair, &counts);
        received->total = sent->total = pair->cells * pair->needers - counts.overlap;
        received->max = counts.received;
        sent->max = counts.sent;
        return;
    }
    *received = *sent = (Traffic){.total = bound_total(pair)};
    if (received->total == 0) return;
    int64_t part = pair_part(pair), solutions = pair_solutions(pair, NULL), atoms = 1;
    for (int i = 0; i < pair->natoms; i++)
        atoms *= pair->atom[i].size;
    received->max = solutions < atoms ? pair->needed : pair->needed - part;
    sent->max = sendable_aligned(pair) - (pair_solutions(pair, link_is_fixed) == solutions ? part : 0);
}

/* ---- exchange with partial sums: owners add up, the other needers gather */

/* A pair of aligned atoms that must have equal values for a common part to exist, and of what kind they are. */
typedef struct Link {
    Digit from, to;
    bool from_in_target, to_in_source, to_reduced;
} Link;

/* The links of a pair, and which atoms they join; an atom aligned with itself is no link. */
static int links_of(const Pair *pair, Link *links, bool *linked) {
    int n = 0;
    for (int d = 0; d <= pair->shape->ndim; d++)
        for (int i = 0; i < pair->list[0][d].n && i < pair->list[1][d].n; i++) {
            int f = pair->list[0][d].at[i], t = pair->list[1][d].at[i];
            if (f == t) continue;
            linked[f] = linked[t] = true;
            links[n++] = (Link){.from = pair->atom[f],
                                .to = pair->atom[t],
                                .from_in_target = pair->in_to[f],
                                .to_in_source = pair->in_from[t],
                                .to_reduced = pair->is_reduced[t]};
        }
    return n;
}

/* Products of the sizes of atoms whose values can be chosen, for reduce_aligned. */
typedef struct Choices {
    int64_t terms; /* reduced atoms that the target does not use where the source divides too */
    int64_t parts; /* source atoms beyond the target's radices that the target does not use: compatible parts of a target box */
    int64_t
        receivers;  /* source atoms that the target does not use where the source divides too: ranks that need the same of a source box */
    int64_t unused; /* source atoms that the target does not use at all */
} Choices;

static Choices choices_of(const Pair *pair) {
    bool meets[MAX_ATOMS] = {false};
    Choices choices = {1, 1, 1, 1};
    for (int d = 0; d <= pair->shape->ndim; d++) {
        const AtomList *f = &pair->list[0][d], *t = &pair->list[1][d];
        for (int i = 0; i < t->n && i < f->n; i++)
            meets[t->at[i]] = true;
        for (int i = t->n; i < f->n; i++)
            if (!pair->in_to[f->at[i]]) choices.parts *= pair->atom[f->at[i]].size;
    }
    for (int i = 0; i < pair->natoms; i++) {
        if (pair->is_reduced[i] && !meets[i]) choices.terms *= pair->atom[i].size;
        if (pair->in_from[i] && !meets[i]) choices.receivers *= pair->atom[i].size;
        if (pair->in_from[i] && !pair->in_to[i]) choices.unused *= pair->atom[i].size;
    }
    return choices;
}

/* The worst ranks of an exchange whose common parts all have one size, which their owners divide evenly. A part is compatible when some
 * needer holds a term of it: then `owners` needers own it, else all `needers` do. What a rank receives and sends depends only on which
 * links its own digits satisfy. */
static void reduce_aligned(const Pair *pair, Traffic *received, Traffic *sent) {
    Link links[MAX_ATOMS];
    bool linked[MAX_ATOMS] = {false};
    int nlinks = links_of(pair, links, linked);
    Choices choices = choices_of(pair);
    int64_t part = pair_part(pair);
    for (AtomCounter c = atoms_first(pair, linked); !c.done; atoms_next(&c)) {
        bool own = true;        /* it holds part of what it needs */
        bool compatible = true; /* some parts of its target box are compatible */
        bool to_owners = true;  /* ranks that differ from it only in reduced digits need part of what it holds */
        bool to_any = true;     /* ranks that differ from it only in source and reduced digits do */
        for (int i = 0; i < nlinks; i++) {
            if (digit_of(links[i].from, c.rank) == digit_of(links[i].to, c.rank)) continue;
            own = false;
            if (links[i].from_in_target) compatible = false;
            if (!links[i].to_reduced) to_owners = false;
            if (!links[i].to_reduced && !links[i].to_in_source) to_any = false;
        }
        int64_t own_share = own ? part / pair->owners : 0;
        int64_t foreign = pair->needed - (compatible ? part * choices.parts : 0); /* cells of its box that no needer holds a term of */
        received->max = max64(received->max, pair->needed + (pair->terms - 2) * own_share + (pair->terms - 1) * (foreign / pair->needers));
        int64_t terms_sent = to_owners ? part / pair->owners * choices.terms : 0;
        int64_t reach = to_any ? part * choices.receivers * choices.terms : 0,
                reach_compatible = to_owners ? part * choices.unused * choices.terms : 0;
        sent->max = max64(sent->max, (pair->needers - 1) * (own_share + foreign / pair->needers) + terms_sent - own_share +
                                         (reach - reach_compatible) / pair->needers);
    }
}

static void exchange_partial(const Pair *pair, Traffic *received, Traffic *sent) {
    *received = *sent = (Traffic){0};
    if (!pair->refined) {
        pieces_count(pair->from, pair->to, pair->shape, pair->nranks, received, sent);
        return;
    }
    if (pair->aligned && pair_part(pair) % (pair_in_place(pair) ? pair->owners : pair->needers) == 0)
        reduce_aligned(pair, received, sent);
    else
        classes_max(pair, &received->max, &sent->max);
    received->total = sent->total = bound_total(pair);
}

static void exchange_traffic(const Pair *pair, Traffic *received, Traffic *sent) {
    if (pair->terms > 1) {
        exchange_partial(pair, received, sent);
    } else if (pair->refined) {
        exchange_plain(pair, received, sent);
    } else if (halo_counts(pair)) {
        Links ignored;
        halo_count(&machine_cpu, pair, received, sent, &ignored);
    } else {
        pieces_count(pair->from, pair->to, pair->shape, pair->nranks, received, sent);
    }
}

/* ---- the library's collectives, in each group of ranks along the reduced digits */

static void all_reduce_traffic(const Pair *pair, Traffic *received, Traffic *sent) {
    int64_t t = pair->terms;
    int64_t groups = pair->nranks / t, from_ranks = pair->kept;
    for (int d = 0; d < pair->shape->ndim; d++)
        from_ranks *= layout_split(pair->from, d);
    int64_t copies = groups / from_ranks; /* groups that add up the same cells */
    received->total = 2 * (t - 1) * pair->cells * copies;
    received->max = t == 1 ? 0 : pair->needed + (t - 2) * share(pair->needed, t, 0);
    *sent = *received;
}

static void reduce_scatter_traffic(const Pair *pair, Traffic *received, Traffic *sent) {
    int64_t t = pair->terms;
    received->total = sent->total = (t - 1) * pair->cells * pair->needers;
    received->max = (t - 1) * pair->needed;
    /* The rank of the largest source box with the smallest share. */
    int rank = 0;
    for (int list = pair->shape->ndim; list < pair->shape->ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(pair->from, list); i++) {
            Digit digit = layout_list(pair->from, list)[i];
            if (!layout_has(pair->to, list, digit)) rank += (digit.size - 1) * digit.stride;
        }
    Box held, needed;
    layout_box(pair->from, pair->shape, rank, &held);
    layout_box(pair->to, pair->shape, rank, &needed);
    sent->max = box_elements(&held) - box_elements(&needed);
}

void traffic_step(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *received, Traffic *sent) {
    *received = *sent = (Traffic){0};
    if (kind == COMM_STRIDED_SLICE) return;
    Layout a, b;
    if (pins_leave(from, to, &nranks, &a, &b)) {
        traffic_step(kind, &a, &b, shape, nranks, received, sent);
        return;
    }
    if (pinned(from, to)) {
        pieces_count(from, to, shape, nranks, received, sent);
        return;
    }
    Pair pair;
    bool legal = pair_init(&pair, from, to, shape, nranks, NULL);
    assert(legal);
    if (!legal) return;
    switch (kind) {
    case COMM_ALL_REDUCE:
        all_reduce_traffic(&pair, received, sent);
        break;
    case COMM_REDUCE_SCATTER:
        reduce_scatter_traffic(&pair, received, sent);
        break;
    case COMM_ALL_GATHER:
    case COMM_ALL_TO_ALL:
    case COMM_EXCHANGE:
        exchange_traffic(&pair, received, sent);
        break;
    case COMM_STRIDED_SLICE:
    case NCOMMS:
        break;
    }
}

int64_t traffic_exchange(const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    Layout a, b;
    Traffic received, sent;
    if (pins_leave(from, to, &nranks, &a, &b)) return traffic_exchange(&a, &b, shape, nranks);
    if (pinned(from, to)) return pieces_count(from, to, shape, nranks, &received, &sent), received.total;
    Pair pair;
    bool legal = pair_init(&pair, from, to, shape, nranks, NULL);
    assert(legal && pair.terms == 1);
    return legal ? bound_total(&pair) : 0;
}

void traffic_bound(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *bound) {
    Pair pair;
    Layout a, b;
    Traffic sent;
    *bound = (Traffic){0};
    if (pins_leave(from, to, &nranks, &a, &b)) {
        traffic_bound(&a, &b, shape, nranks, bound);
        return;
    }
    if (pinned(from, to)) { /* an exchange is at the bound */
        pieces_count(from, to, shape, nranks, bound, &sent);
        return;
    }
    bool legal = pair_init(&pair, from, to, shape, nranks, NULL);
    assert(legal);
    if (!legal) return;
    if (layout_has_halo(from) || layout_has_halo(to)) {
        *bound = bound_of_halos(&pair);
    } else if (pair.terms == 1 && !pair.refined) { /* an exchange receives exactly this, but counting it would need its pieces */
        *bound = (Traffic){.total = bound_total(&pair), .max = pair_missing_max(&pair)};
    } else if (pair.terms == 1) {
        exchange_plain(&pair, bound, &sent);
    } else {
        bound->total = bound_total(&pair);
        bound->max = max64(pair.needed, (bound->total + nranks - 1) / nranks);
    }
}
