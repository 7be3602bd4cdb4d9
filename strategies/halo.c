/* Counts what an exchange into halos without sums moves. Parts with halos overlap, so they cannot be counted as a product over digits. But what one rank lacks is a product over
 * the dimensions, of the parts of the source that its range meets. These parts are tabulated once for all ranks. */
#include "strategies/pair.h"

/* A part of the source in one dimension. */
typedef struct Part {
    int number; /* of the rank that has the digits of this part and zeros elsewhere */
    int64_t begin, end;
} Part;

typedef struct Source {
    int nparts[MAX_NDIM];
    Part *part[MAX_NDIM]; /* ascending */
} Source;

/* The parts of the source that a rank's range meets. */
typedef struct Pieces {
    int n[MAX_NDIM];
    int *number[MAX_NDIM];
    int64_t *length[MAX_NDIM];
} Pieces;

static void source_init(Source *source, Pieces *pieces, const Pair *pair, Arena *arena) {
    for (int d = 0; d < pair->shape->ndim; d++) {
        const int n = (int)layout_split(pair->from, d);
        int *number = arena_alloc(arena, sizeof *number * (size_t)n), position;
        source->nparts[d] = group_members(layout_list(pair->from, d), layout_count(pair->from, d), 0, number, &position);
        source->part[d] = arena_alloc(arena, sizeof **source->part * (size_t)n);
        pieces->number[d] = arena_alloc(arena, sizeof **pieces->number * (size_t)n);
        pieces->length[d] = arena_alloc(arena, sizeof **pieces->length * (size_t)n);
        for (int p = 0; p < n; p++) {
            Box box;
            layout_box(pair->from, pair->shape, number[p], &box);
            source->part[d][p] = (Part){number[p], box.begin[d], box.end[d]};
        }
    }
}

/* False: the rank needs nothing. */
static bool pieces_find(Pieces *pieces, const Source *source, const Box *needed) {
    for (int d = 0; d < needed->ndim; d++) {
        pieces->n[d] = 0;
        for (int p = 0; p < source->nparts[d]; p++) {
            const Part *part = &source->part[d][p];
            const int64_t begin = max64(part->begin, needed->begin[d]), end = part->end < needed->end[d] ? part->end : needed->end[d];
            if (begin >= end) continue;
            pieces->number[d][pieces->n[d]] = part->number;
            pieces->length[d][pieces->n[d]++] = end - begin;
        }
        if (pieces->n[d] == 0) return false;
    }
    return true;
}

typedef struct Counting {
    const Pieces *pieces;
    int ndim, rank, ranks_per_node;
    int64_t *sent; /* per rank */
    int64_t received;
    Links links;
} Counting;

/* Counts the pieces of dimensions from d on; those before give `sender` to the sender's number, `elements` to the size. */
static void count_pieces(Counting *c, int d, int sender, int64_t elements) {
    if (d < c->ndim) {
        for (int i = 0; i < c->pieces->n[d]; i++)
            count_pieces(c, d + 1, sender + c->pieces->number[d][i], elements * c->pieces->length[d][i]);
    } else if (sender != c->rank) {
        c->received += elements;
        c->sent[sender] += elements;
        *(sender / c->ranks_per_node == c->rank / c->ranks_per_node ? &c->links.near : &c->links.far) += 1;
    }
}

/* Counts what n ranks receive, those numbered i * (nranks - 1) / (n - 1). sends: what each rank sends to these. */
static void count_ranks(const Machine *machine, const Pair *pair, int n, int64_t *sends, Arena *arena, Traffic *received, Links *links) {
    Source source;
    Pieces pieces;
    double latency = 0;
    source_init(&source, &pieces, pair, arena);
    *received = (Traffic){0};
    *links = (Links){0};
    for (int i = 0; i < n; i++) {
        const int rank = (int)((int64_t)i * (pair->nranks - 1) / (n > 1 ? n - 1 : 1));
        Counting its = {
            .pieces = &pieces, .ndim = pair->shape->ndim, .rank = rank, .ranks_per_node = machine->ranks_per_node, .sent = sends};
        Box needed;
        layout_box(pair->to, pair->shape, rank, &needed);
        if (!pieces_find(&pieces, &source, &needed)) continue;
        count_pieces(&its, 0, group_leader(pair->from->digit, pair->from->start[pair->from->ndim], rank), 1);
        received->total += its.received;
        received->max = max64(received->max, its.received);
        if (links_latency(machine, its.links) > latency) {
            latency = links_latency(machine, its.links);
            *links = its.links;
        }
    }
}

void halo_count(const Machine *machine, const Pair *pair, Traffic *received, Traffic *sent, Links *links) {
    Arena arena;
    arena_init(&arena);
    int64_t *sends = arena_alloc(&arena, sizeof *sends * (size_t)pair->nranks);
    count_ranks(machine, pair, pair->nranks, sends, &arena, received, links);
    *sent = (Traffic){.total = received->total};
    for (int rank = 0; rank < pair->nranks; rank++)
        sent->max = max64(sent->max, sends[rank]);
    arena_finish(&arena);
}

void halo_sample(const Machine *machine, const Pair *pair, int ranks, Traffic *received, Links *links) {
    Arena arena;
    arena_init(&arena);
    count_ranks(machine, pair, ranks, arena_alloc(&arena, sizeof(int64_t) * (size_t)pair->nranks), &arena, received, links);
    received->total = received->total * pair->nranks / ranks;
    arena_finish(&arena);
}
