/* What one rank receives in a request, compiled once into walks over memory; every communicator executes the same list, so the order of
 * terms, and with it every bit of a sum, does not depend on how data moves. */
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include <string.h>

typedef struct Builder {
    Pulls *pulls;
    Arena *arena;
    int transfer, ntransfer_pulls; /* pulls of the transfer under way begin here */
    bool ungrouped;                /* terms came in an order in which grouping would change the order of a sum */
    bool (*packed)(void *context, int from);
    void *context;
    int *peer_of; /* [round][rank] -> peer or -1 */
    int nranks;
} Builder;

static int peer_find(Builder *b, int rank, int round) {
    int *known = &b->peer_of[round * b->nranks + rank];
    if (*known < 0) {
        *known = b->pulls->peers.n;
        vec_push(b->arena, &b->pulls->peers, (PullPeer){.rank = rank, .round = round});
    }
    return *known;
}

static bool same_part(const Piece *a, const Piece *b) {
    if (a->first != b->first || a->count != b->count || a->round != b->round) return false;
    for (int d = 0; d < a->box.ndim; d++)
        if (a->box.begin[d] != b->box.begin[d] || a->box.end[d] != b->box.end[d]) return false;
    return true;
}

/* The pull whose next term this piece is, if there is one. */
static Pull *pull_find(Builder *b, const Piece *piece) {
    if (piece->term == 0 || b->ungrouped) return NULL;
    for (int i = b->pulls->pulls.n - 1; i >= b->ntransfer_pulls; i--) {
        Pull *pull = &b->pulls->pulls.at[i];
        if (!same_part(&pull->piece, piece)) continue;
        if (pull->nsources == piece->term && !pull->add) return pull;
        break;
    }
    b->ungrouped = true;
    return NULL;
}

static bool piece_add(void *context, const Piece *piece) {
    Builder *b = context;
    Pulls *pulls = b->pulls;
    if (piece->count == 0) return true;
    Pull *pull = pull_find(b, piece);
    if (!pull) {
        vec_push(b->arena, &pulls->pulls, (Pull){.transfer = b->transfer, .round = piece->round, .piece = *piece, .add = piece->term > 0});
        pull = &pulls->pulls.at[pulls->pulls.n - 1];
    }
    if ((pull->nsources & (pull->nsources - 1)) == 0) { /* the array is full at powers of two */
        PullSource *more = arena_alloc(b->arena, sizeof *more * (size_t)(pull->nsources ? 2 * pull->nsources : 1));
        if (pull->nsources) memcpy(more, pull->source, sizeof *more * (size_t)pull->nsources);
        pull->source = more;
    }
    PullSource *source = &pull->source[pull->nsources++];
    *source = (PullSource){.from = piece->from, .peer = -1};
    if (piece->from != pulls->rank) {
        source->peer = peer_find(b, piece->from, piece->round);
        PullPeer *peer = &pulls->peers.at[source->peer];
        source->message_bytes = peer->bytes;
        peer->bytes += piece->count * dtype_bytes[pulls->transfer[b->transfer].dtype];
    }
    if (piece->round + 1 > pulls->nrounds) pulls->nrounds = piece->round + 1;
    return true;
}

/* The kind of partial sum that the transfer completes; at most one at a time. */
static bool reduction_find(const Transfer *transfer, Reduction *reduction, Error *error) {
    Digit summed[MAX_DIGITS];
    *reduction = REDUCE_SUM;
    if (layout_summed(transfer->from, transfer->to, summed, reduction) >= 0) return true;
    return error_set(error, EXIT_INTERNAL,
                     "%s of %s: its target is partial where its source is not, or it completes partial values of several kinds at once",
                     comm_name[transfer->kind], transfer->name ? transfer->name : "?");
}

static void pull_compile(Builder *b, Pull *pull) {
    const Transfer *transfer = &b->pulls->transfer[pull->transfer];
    const Layout *layout = pull->round == 0 ? transfer->from : transfer->to;
    size_t n = (size_t)pull->nsources + 1;
    Box *boxes = arena_alloc(b->arena, n * sizeof *boxes);
    const Box **list = arena_alloc(b->arena, n * sizeof *list);
    PieceView *views = arena_alloc(b->arena, n * sizeof *views);
    layout_box(transfer->to, &transfer->shape, b->pulls->rank, &boxes[0]);
    list[0] = &boxes[0];
    for (int s = 0; s < pull->nsources; s++) {
        int from = pull->source[s].from;
        bool message = from != b->pulls->rank && b->packed && b->packed(b->context, from);
        if (!message) layout_box(layout, &transfer->shape, from, &boxes[s + 1]);
        list[s + 1] = message ? NULL : &boxes[s + 1];
    }
    walk_init(&pull->walk, &pull->piece, list, (int)n, views);
    pull->target = views[0];
    pull->source_view = views + 1;
}

bool pulls_init(Pulls *pulls, Arena *arena, const Transfer *transfers, int n, int nranks, int rank, bool (*packed)(void *context, int from),
                void *context, Error *error) {
    *pulls = (Pulls){.rank = rank, .nrounds = 1, .ntransfers = n, .transfer = transfers};
    pulls->reduction = arena_alloc(arena, sizeof *pulls->reduction * (size_t)(n + 1));
    pulls->source_bytes = arena_alloc(arena, sizeof *pulls->source_bytes * (size_t)(n + 1));
    pulls->target_bytes = arena_alloc(arena, sizeof *pulls->target_bytes * (size_t)(n + 1));
    Builder b = {.pulls = pulls, .arena = arena, .packed = packed, .context = context, .nranks = nranks};
    b.peer_of = arena_alloc(arena, 2 * (size_t)nranks * sizeof *b.peer_of);
    for (int i = 0; i < 2 * nranks; i++)
        b.peer_of[i] = -1;
    for (int i = 0; i < n; i++) {
        const Transfer *t = &transfers[i];
        Box box;
        if (!reduction_find(t, &pulls->reduction[i], error)) return false;
        layout_box(t->from, &t->shape, rank, &box);
        pulls->source_bytes[i] = box_elements(&box) * dtype_bytes[t->dtype];
        layout_box(t->to, &t->shape, rank, &box);
        pulls->target_bytes[i] = box_elements(&box) * dtype_bytes[t->dtype];
        b.transfer = i;
        b.ntransfer_pulls = pulls->pulls.n;
        b.ungrouped = false;
        pieces_received(t->from, t->to, &t->shape, nranks, rank, piece_add, &b);
        for (int p = 0; p < pulls->peers.n; p++)
            pulls->peers.at[p].bytes = align_bytes(pulls->peers.at[p].bytes, 8);
    }
    for (int i = 0; i < pulls->pulls.n; i++)
        pull_compile(&b, &pulls->pulls.at[i]);
    return true;
}

void pulls_execute(Pulls *pulls, int round, PullBaseFn *base, void *context, void *const *target) {
    enum { MANY = 16 }; /* sources taken in one pass; further passes add to the target */
    for (int i = 0; i < pulls->pulls.n; i++) {
        Pull *pull = &pulls->pulls.at[i];
        if (pull->round != round) continue;
        DType dtype = pulls->transfer[pull->transfer].dtype;
        void *to = target[pull->transfer];
        for (int s = 0; s < pull->nsources; s += MANY) {
            const void *from[MANY];
            int n = pull->nsources - s < MANY ? pull->nsources - s : MANY;
            for (int k = 0; k < n; k++) {
                PullSource *source = &pull->source[s + k];
                from[k] = base(context, pull->transfer, source, round);
                if (source->peer >= 0) pulls->peers.at[source->peer].moved_bytes += pull->walk.count * dtype_bytes[dtype];
            }
            bool add = pull->add || s > 0;
            if (n == 1 && !add)
                walk_copy(&pull->walk, &pull->target, to, &pull->source_view[0], from[0], dtype_bytes[dtype]);
            else
                walk_reduce(&pull->walk, &pull->target, to, pull->source_view + s, from, n, dtype, pulls->reduction[pull->transfer], add);
        }
    }
}

Transfer *transfers_copy(Arena *arena, const Transfer *transfers, int n, int nranks) {
    Transfer *copy = arena_alloc(arena, sizeof *copy * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        Layout *layouts = arena_alloc(arena, 2 * sizeof *layouts);
        layouts[0] = *transfers[i].from;
        layouts[1] = *transfers[i].to;
        comm_layouts(transfers[i].kind, nranks, &layouts[0], &layouts[1]);
        copy[i] = transfers[i];
        copy[i].from = &layouts[0];
        copy[i].to = &layouts[1];
        const char *name = transfers[i].name ? transfers[i].name : "?";
        copy[i].name = arena_copy(arena, name, strlen(name));
    }
    return copy;
}

bool request_may_start(bool started, int rank, Error *error) {
    return !started ||
           error_of_rank(error, rank, EXIT_INTERNAL, "rank %d starts a communication a second time before it has waited for it", rank);
}

bool request_may_wait(bool started, int rank, Error *error) {
    return started || error_of_rank(error, rank, EXIT_INTERNAL, "rank %d waits for a communication that it has not started", rank);
}
