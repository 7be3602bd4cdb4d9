/* Two layouts of one tensor over common digits: see pair.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/pair.h"

static int atom_find(Pair *pair, Digit digit) {
    for (int i = 0; i < pair->natoms; i++)
        if (digit_equal(pair->atom[i], digit)) return i;
    if (pair->natoms == MAX_ATOMS) return -1;
    pair->atom[pair->natoms] = digit;
    return pair->natoms++;
}

static bool list_push(AtomList *list, int atom) {
    if (atom < 0 || list->n == MAX_ATOMS) return false;
    list->at[list->n++] = (int8_t)atom;
    return true;
}

static int64_t list_size(const Pair *pair, const AtomList *list) {
    int64_t size = 1;
    for (int i = 0; i < list->n; i++)
        size *= pair->atom[list->at[i]].size;
    return size;
}

/* Cuts an atom into a major part of size `major` and the rest, in every list. */
static bool atom_cut(Pair *pair, int atom, int32_t major) {
    if (pair->natoms == MAX_ATOMS) return false;
    Digit whole = pair->atom[atom];
    int rest = pair->natoms++;
    pair->atom[rest] = (Digit){.size = whole.size / major, .stride = whole.stride};
    pair->atom[atom] = (Digit){.size = major, .stride = whole.stride * (whole.size / major)};
    AtomList *lists[2 * (MAX_NDIM + 1) + 1];
    int nlists = 0;
    for (int side = 0; side < 2; side++)
        for (int d = 0; d <= pair->shape->ndim; d++)
            lists[nlists++] = &pair->list[side][d];
    lists[nlists++] = &pair->reduced;
    for (int i = 0; i < nlists; i++) {
        for (int k = 0; k < lists[i]->n; k++) {
            if (lists[i]->at[k] != atom) continue;
            if (lists[i]->n == MAX_ATOMS) return false;
            memmove(lists[i]->at + k + 2, lists[i]->at + k + 1, (size_t)(lists[i]->n - k - 1) * sizeof lists[i]->at[0]);
            lists[i]->at[k + 1] = (int8_t)rest;
            lists[i]->n++;
            break;
        }
    }
    return true;
}

/* Cuts atoms until both sides of each dimension have the same radices as far as both go. False: they have no common refinement. */
static bool pair_align(Pair *pair) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int d = 0; d <= pair->shape->ndim; d++) {
            for (int i = 0; i < pair->list[0][d].n && i < pair->list[1][d].n; i++) {
                int f = pair->list[0][d].at[i], t = pair->list[1][d].at[i];
                int32_t fs = pair->atom[f].size, ts = pair->atom[t].size;
                if (fs == ts) continue;
                if (fs > ts ? fs % ts != 0 || !atom_cut(pair, f, ts) : ts % fs != 0 || !atom_cut(pair, t, fs)) return false;
                changed = true;
            }
        }
    }
    return true;
}

static void pair_members(Pair *pair) {
    memset(pair->in_from, 0, sizeof pair->in_from);
    memset(pair->in_to, 0, sizeof pair->in_to);
    memset(pair->is_reduced, 0, sizeof pair->is_reduced);
    for (int d = 0; d <= pair->shape->ndim; d++) {
        for (int i = 0; i < pair->list[0][d].n; i++)
            pair->in_from[pair->list[0][d].at[i]] = true;
        for (int i = 0; i < pair->list[1][d].n; i++)
            pair->in_to[pair->list[1][d].at[i]] = true;
    }
    for (int i = 0; i < pair->reduced.n; i++)
        pair->is_reduced[pair->reduced.at[i]] = true;
}

/* The atoms of two layouts whose digits have been refined. False: too many. */
static bool pair_fill(Pair *pair, const Layout *from, const Layout *to) {
    int ndim = from->ndim;
    for (int side = 0; side < 2; side++) {
        const Layout *layout = side == 0 ? from : to;
        for (int d = 0; d < ndim; d++)
            for (int i = 0; i < layout_count(layout, d); i++)
                if (!list_push(&pair->list[side][d], atom_find(pair, layout_list(layout, d)[i]))) return false;
    }
    for (int list = ndim; list < ndim + NREDUCTIONS; list++) {
        for (int i = 0; i < layout_count(from, list); i++) {
            Digit digit = layout_list(from, list)[i];
            int atom = atom_find(pair, digit);
            bool kept = layout_has(to, list, digit);
            if (!list_push(kept ? &pair->list[0][ndim] : &pair->reduced, atom)) return false;
            if (kept && !list_push(&pair->list[1][ndim], atom)) return false;
        }
    }
    return true;
}

/* Why layout_summed has no answer. */
static const char *layout_why(const Layout *from, const Layout *to) {
    int kinds = 0;
    for (int list = from->ndim; list < from->ndim + NREDUCTIONS; list++)
        kinds += layout_count(from, list) > 0 && layout_count(to, list) == 0;
    if (kinds > 1) return "values of two reductions cannot be completed at once: complete one of them first";
    return "the target is partial over ranks over which the source is not: a sum cannot be taken apart again";
}

bool pair_init(Pair *pair, const Layout *from, const Layout *to, const Shape *shape, int nranks, const char **why) {
    memset(pair, 0, sizeof *pair);
    pair->from = from, pair->to = to, pair->shape = shape, pair->nranks = nranks;
    const Order *order;
    pair->mixed = !layout_orders_agree(from, to, &order);
    if (!pair->mixed && (from->order || to->order)) {
        pair->natural[0] = *from, pair->natural[1] = *to;
        pair->natural[0].order = pair->natural[1].order = NULL;
        pair->from = from = &pair->natural[0], pair->to = to = &pair->natural[1];
    }
    Layout a = *from, b = *to;
    pair->refined = !pair->mixed && !layout_has_halo(from) && !layout_has_halo(to) && layout_refine(&a, &b);
    Digit summed[MAX_DIGITS];
    Reduction kind;
    int nsummed = layout_summed(from, to, summed, &kind);
    if (nsummed < 0) {
        if (why) *why = layout_why(from, to);
        return false;
    }
    if (pair->refined) pair->refined = pair_fill(pair, &a, &b);
    pair->terms = 1, pair->kept = 1;
    for (int i = 0; i < nsummed; i++)
        pair->terms *= summed[i].size;
    for (int list = shape->ndim; list < shape->ndim + NREDUCTIONS; list++)
        pair->kept *= layout_split(to, list);
    pair->cells = shape_elements(shape) * pair->kept;
    int64_t target_ranks = pair->kept;
    pair->even = true;
    pair->needed = layout_max_elements(to, shape);
    for (int d = 0; d < shape->ndim; d++) {
        target_ranks *= layout_split(to, d);
        if (shape->dim[d] % layout_split(from, d) != 0 || shape->dim[d] % layout_split(to, d) != 0) pair->even = false;
    }
    pair->needers = nranks / target_ranks;
    if (!pair->refined) return true;
    if (pair->even) {
        Pair uncut = *pair;
        pair->aligned = pair_align(pair);
        if (!pair->aligned) *pair = uncut;
    }
    pair_members(pair);
    pair->owners = nranks;
    for (int i = 0; i < pair->natoms; i++)
        if (pair->in_from[i] || pair->in_to[i]) pair->owners /= pair->atom[i].size;
    return true;
}

static int class_of(int *parent, int atom) {
    while (parent[atom] != atom)
        atom = parent[atom] = parent[parent[atom]];
    return atom;
}

int64_t pair_solutions(const Pair *pair, bool (*use)(const Pair *pair, int from_atom, int to_atom)) {
    assert(pair->aligned);
    int parent[MAX_ATOMS];
    int64_t solutions = 1;
    for (int i = 0; i < pair->natoms; i++) {
        parent[i] = i;
        solutions *= pair->atom[i].size;
    }
    for (int d = 0; d <= pair->shape->ndim; d++) {
        for (int i = 0; i < pair->list[0][d].n && i < pair->list[1][d].n; i++) {
            int f = pair->list[0][d].at[i], t = pair->list[1][d].at[i];
            if (f == t || (use && !use(pair, f, t))) continue;
            int a = class_of(parent, f), b = class_of(parent, t);
            if (a == b) continue;
            parent[a] = b;
            solutions /= pair->atom[f].size;
        }
    }
    return solutions;
}

int64_t pair_part(const Pair *pair) {
    assert(pair->aligned);
    int64_t part = 1;
    for (int d = 0; d < pair->shape->ndim; d++) {
        int64_t f = list_size(pair, &pair->list[0][d]), t = list_size(pair, &pair->list[1][d]);
        part *= pair->shape->dim[d] / (f > t ? f : t);
    }
    return part;
}

bool pair_in_place(const Pair *pair) {
    for (int d = 0; d <= pair->shape->ndim; d++) {
        /* Uneven splits: only equal digits as written divide equally. */
        int same = 0;
        if (d == pair->shape->ndim || pair->even) {
            while (same < pair->list[0][d].n && same < pair->list[1][d].n && pair->list[0][d].at[same] == pair->list[1][d].at[same])
                same++;
        } else {
            int64_t size = 1, common = 1;
            for (int i = 0; i < layout_count(pair->from, d) && i < layout_count(pair->to, d); i++) {
                Digit f = layout_list(pair->from, d)[i], t = layout_list(pair->to, d)[i];
                if (!digit_equal(f, t)) break;
                common *= f.size;
            }
            while (size < common)
                size *= pair->atom[pair->list[0][d].at[same++]].size;
        }
        for (int i = same; i < pair->list[0][d].n; i++)
            if (pair->in_to[pair->list[0][d].at[i]]) return false;
    }
    return true;
}

AtomCounter atoms_first(const Pair *pair, const bool *set) {
    AtomCounter counter = {0};
    for (int i = 0; i < pair->natoms; i++)
        if (set[i]) counter.atom[counter.n++] = pair->atom[i];
    return counter;
}

void atoms_next(AtomCounter *counter) {
    for (int i = counter->n - 1; i >= 0; i--) {
        counter->rank += counter->atom[i].stride;
        if (++counter->value[i] < counter->atom[i].size) return;
        counter->rank -= counter->atom[i].size * counter->atom[i].stride;
        counter->value[i] = 0;
    }
    counter->done = true;
}

/* Whether rank holds a term that it keeps. With one device order it always does. */
static bool same_terms(const Pair *pair, int rank) {
    int held = order_position(pair->from->order, rank), kept = order_position(pair->to->order, rank);
    for (int list = pair->shape->ndim; list < pair->shape->ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(pair->to, list); i++)
            if (digit_of(layout_list(pair->to, list)[i], held) != digit_of(layout_list(pair->to, list)[i], kept)) return false;
    return true;
}

static int64_t overlap_of(const Pair *pair, int rank) {
    if (pair->mixed && !same_terms(pair, rank)) return 0;
    Box held, needed;
    layout_box(pair->from, pair->shape, rank, &held);
    layout_box(pair->to, pair->shape, rank, &needed);
    int64_t cells = 1;
    for (int d = 0; d < pair->shape->ndim; d++) {
        int64_t begin = held.begin[d] > needed.begin[d] ? held.begin[d] : needed.begin[d];
        int64_t end = held.end[d] < needed.end[d] ? held.end[d] : needed.end[d];
        if (end <= begin) return 0;
        cells *= end - begin;
    }
    return cells;
}

int64_t pair_missing_max(const Pair *pair) {
    int64_t most = 0;
    for (int rank = 0; rank < pair->nranks; rank++) {
        Box needed;
        layout_box(pair->to, pair->shape, rank, &needed);
        int64_t missing = box_elements(&needed) - overlap_of(pair, rank);
        if (missing > most) most = missing;
    }
    return most;
}

int64_t pair_overlap_total(const Pair *pair) {
    int64_t total = 0;
    if (!pair->refined) {
        for (int rank = 0; rank < pair->nranks; rank++)
            total += overlap_of(pair, rank);
        return total;
    }
    int64_t atoms = 1;
    if (pair->aligned) {
        for (int i = 0; i < pair->natoms; i++)
            atoms *= pair->atom[i].size;
        return pair_part(pair) * pair_solutions(pair, NULL) * (pair->nranks / atoms);
    }
    UnevenCounts counts;
    uneven_count(pair, &counts);
    return counts.overlap;
}

/* The piece that a rank both needs and holds a term of, by the digits of its target and its source part. */
typedef struct Overlap {
    int target, source;
    int64_t cells;
} Overlap;

static int overlap_compare(const void *a, const void *b) {
    const Overlap *x = a, *y = b;
    return x->target != y->target ? (x->target < y->target ? -1 : 1) : (x->source > y->source) - (x->source < y->source);
}

/* A position's number with all digits but the first n of a layout set to 0. */
static int part_of(const Layout *layout, int n, int position) {
    int part = 0;
    for (int i = 0; i < n; i++)
        part += digit_of(layout->digit[i], position) * layout->digit[i].stride;
    return part;
}

int64_t pair_overlap_pieces(const Pair *pair) {
    if (pair->refined) return pair_overlap_total(pair) / pair->owners; /* `owners` needers hold each piece */
    const int ndim = pair->shape->ndim, nsource = pair->from->start[ndim], ntarget = pair->to->start[ndim + NREDUCTIONS];
    Overlap *overlap = malloc((size_t)pair->nranks * sizeof *overlap);
    if (!overlap) abort();
    int n = 0;
    for (int rank = 0; rank < pair->nranks; rank++) {
        const int64_t cells = overlap_of(pair, rank);
        if (cells > 0)
            overlap[n++] = (Overlap){part_of(pair->to, ntarget, order_position(pair->to->order, rank)),
                                     part_of(pair->from, nsource, order_position(pair->from->order, rank)), cells};
    }
    qsort(overlap, (size_t)n, sizeof *overlap, overlap_compare);
    int64_t total = 0;
    for (int i = 0; i < n; i++)
        if (i == 0 || overlap_compare(&overlap[i - 1], &overlap[i]) != 0) total += overlap[i].cells;
    free(overlap);
    return total;
}
