#include "runtime/cuda/nccl_groups.h"

#include <string.h>

/* ---------------------------------------------------------------- groups */

bool group_key_equal(const GroupKey *a, const GroupKey *b) {
    if (a->n != b->n || !order_equal(a->order, b->order)) return false;
    for (int i = 0; i < a->n; i++)
        if (a->digit[i].size != b->digit[i].size || a->digit[i].stride != b->digit[i].stride) return false;
    return true;
}

int group_key_size(const GroupKey *key) {
    int size = 1;
    for (int i = 0; i < key->n; i++)
        size *= key->digit[i].size;
    return size;
}

int group_key_number(const GroupKey *key, int rank, int *leader) {
    int number = 0, position = order_position(key->order, rank), first = position;
    for (int i = 0; i < key->n; i++) {
        number = number * key->digit[i].size + digit_of(key->digit[i], position);
        first -= digit_of(key->digit[i], position) * key->digit[i].stride;
    }
    *leader = order_rank(key->order, first);
    return number;
}

bool group_key_is_world(const GroupKey *key, int nranks) {
    if (group_key_size(key) != nranks) return false;
    for (int r = 0; r < nranks; r++) {
        int leader;
        if (group_key_number(key, r, &leader) != r) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- which call */

enum { NOWHERE = -1 };

/* The list of a refined layout that has a digit. */
static int list_of(const Layout *layout, Digit digit) {
    for (int list = 0; list < layout->ndim + NREDUCTIONS; list++)
        if (layout_has(layout, list, digit)) return list;
    return NOWHERE;
}

/* The digits of `of` that are in another list, or none, of `other`, in the order of the lists; only those of lists [first, last). */
static int digits_moved(const Layout *of, const Layout *other, int first, int last, Digit *digits) {
    int n = 0;
    for (int list = first; list < last; list++)
        for (int i = 0; i < layout_count(of, list); i++) {
            Digit digit = layout_list(of, list)[i];
            if (list_of(other, digit) != list) digits[n++] = digit;
        }
    return n;
}

/* Where a part of a box begins in the box's memory; -1: it is not contiguous there. */
static int64_t box_place(const Box *whole, const Box *part) {
    int64_t place = 0, stride = 1;
    bool runs = true; /* the part is all of the dimensions after this one */
    for (int d = whole->ndim - 1; d >= 0; d--) {
        int64_t size = part->end[d] - part->begin[d];
        if (part->begin[d] < whole->begin[d] || part->end[d] > whole->end[d]) return -1;
        if (!runs && size != 1) return -1;
        if (size != whole->end[d] - whole->begin[d]) runs = false;
        place += (part->begin[d] - whole->begin[d]) * stride;
        stride *= whole->end[d] - whole->begin[d];
    }
    return place;
}

static bool box_same(const Box *a, const Box *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->begin[d] != b->begin[d] || a->end[d] != b->end[d]) return false;
    return true;
}

/* Whether the boxes of a rank are what the call needs. whole: the box that all members share; part: each member's own part of it. */
static bool rank_fits(const GroupCall *call, const Transfer *t, int rank) {
    const Layout *alike = call->kind == GROUP_ALL_GATHER ? t->to : t->from, *other = call->kind == GROUP_ALL_GATHER ? t->from : t->to;
    Box whole, part, leaders;
    int leader, number = group_key_number(&call->group, rank, &leader);
    layout_box(alike, &t->shape, rank, &whole);
    layout_box(alike, &t->shape, leader, &leaders);
    layout_box(other, &t->shape, rank, &part);
    int64_t n = box_elements(&whole), count = box_elements(&part);
    if (n == 0 || box_elements(&leaders) == 0) return n == 0 && count == 0 && box_elements(&leaders) == 0;
    if (!box_same(&whole, &leaders)) return false;
    if (call->kind == GROUP_ALL_REDUCE) return box_same(&whole, &part);
    return count > 0 && count * call->nmembers == n && box_place(&whole, &part) == number * count;
}

/* Whether ranks of other groups hold the same data as this group's. */
static bool held_elsewhere(const Layout *from, int nranks) {
    int64_t different = 1;
    for (int list = 0; list < from->ndim + NREDUCTIONS; list++)
        different *= layout_split(from, list);
    return different < nranks;
}

static bool order_left(const Transfer *t, const GroupCall *call, int nranks, bool ordered) {
    if (!dtype_is_float(t->dtype)) return true;
    if (call->reduction != REDUCE_SUM) return false;
    if (dtype_is_half(t->dtype) && !t->rounds)
        return call->nmembers <= 2; /* the library rounds after each term; our kernels add up as f32 */
    return call->nmembers <= 2 || (!ordered && !held_elsewhere(t->from, nranks));
}

void group_call_find(const Transfer *transfer, int nranks, bool ordered, GroupCall *call) {
    static const GroupCallKind kinds[NCOMMS] = {
        [COMM_ALL_REDUCE] = GROUP_ALL_REDUCE, [COMM_ALL_GATHER] = GROUP_ALL_GATHER, [COMM_REDUCE_SCATTER] = GROUP_REDUCE_SCATTER};
    *call = (GroupCall){.kind = transfer->anywhere ? GROUP_NONE : kinds[transfer->kind]};
    Layout from = *transfer->from, to = *transfer->to;
    Digit summed[MAX_DIGITS], moved[MAX_DIGITS], there[MAX_DIGITS];
    int ndim = from.ndim, lists = ndim + NREDUCTIONS, nsummed = layout_summed(&from, &to, summed, &call->reduction);
    bool fits =
        call->kind != GROUP_NONE && nsummed >= 0 && layout_orders_agree(&from, &to, &call->group.order) && layout_refine(&from, &to);
    if (fits && call->kind == GROUP_ALL_GATHER) {
        /* Digits that split, and no longer do; nothing else changes. */
        call->group.n = digits_moved(&from, &to, 0, lists, call->group.digit);
        fits = nsummed == 0 && digits_moved(&to, &from, 0, lists, there) == 0;
        for (int i = 0; i < call->group.n; i++)
            fits = fits && list_of(&to, call->group.digit[i]) == NOWHERE;
    } else if (fits) {
        /* Digits over which it was partial; they now split (reduce_scatter), or nothing else changes. */
        int nmoved = digits_moved(&from, &to, 0, lists, moved), nthere = digits_moved(&to, &from, 0, lists, there);
        int64_t terms = 1, members = 1;
        for (int i = 0; i < nsummed; i++)
            terms *= summed[i].size;
        for (int i = 0; i < nmoved; i++) {
            fits = fits && list_of(&from, moved[i]) >= ndim;
            members *= moved[i].size;
        }
        for (int i = 0; i < nthere; i++)
            fits = fits && list_of(&from, there[i]) >= ndim;
        fits = fits && terms == members;
        if (call->kind == GROUP_ALL_REDUCE) {
            fits = fits && nthere == 0;
            memcpy(call->group.digit, moved, sizeof moved);
        } else {
            fits = fits && nthere == nmoved && digits_moved(&to, &from, 0, ndim, there) == nmoved;
            memcpy(call->group.digit, there, sizeof there);
        }
        call->group.n = nmoved;
    }
    call->nmembers = fits ? group_key_size(&call->group) : 0;
    fits = fits && call->nmembers > 1;
    if (fits && call->kind != GROUP_ALL_GATHER) fits = order_left(transfer, call, nranks, ordered);
    for (int r = 0; fits && r < nranks; r++)
        fits = rank_fits(call, transfer, r);
    if (!fits) *call = (GroupCall){.kind = GROUP_NONE};
}

int64_t group_call_count(const GroupCall *call, const Transfer *transfer, int rank) {
    Box box;
    layout_box(call->kind == GROUP_REDUCE_SCATTER ? transfer->to : transfer->from, &transfer->shape, rank, &box);
    return box_elements(&box);
}

/* ---------------------------------------------------------------- messages */

typedef struct Sending {
    WirePlan *plan;
    Arena *arena;
    int transfer; /* number */
    bool counts_only;
    int nranks;
    bool *seen; /* [round][rank] */
    Box source_box, target_box;
} Sending;

static bool always(void *context, int from) {
    (void)context, (void)from;
    return true;
}

static WireMessage *message_find(Sending *sending, int rank, int round) {
    WirePlan *plan = sending->plan;
    for (int i = plan->out.n - 1; i >= 0; i--)
        if (plan->out.at[i].rank == rank && plan->out.at[i].round == round) return &plan->out.at[i];
    vec_push(sending->arena, &plan->out, (WireMessage){.rank = rank, .round = round});
    return &plan->out.at[plan->out.n - 1];
}

static bool piece_sent(void *context, const Piece *piece) {
    Sending *sending = context;
    WirePlan *plan = sending->plan;
    int64_t bytes = piece->count * dtype_bytes[plan->transfer[sending->transfer].dtype];
    if (piece->count == 0) return true;
    bool *seen = &sending->seen[piece->round * sending->nranks + piece->to];
    plan->each.sent_bytes += bytes;
    plan->each.messages += !*seen;
    *seen = true;
    if (sending->counts_only) return true;
    WireMessage *message = message_find(sending, piece->to, piece->round);
    /* Each transfer's part begins at a multiple of 8, as the receiver expects. */
    if (message->parts.n > 0 && message->parts.at[message->parts.n - 1].transfer != sending->transfer)
        message->bytes = align_bytes(message->bytes, 8);
    SentPart part = {.transfer = sending->transfer, .message_bytes = message->bytes};
    PieceView views[2];
    walk_init(&part.walk, piece, (const Box *[]){piece->round == 0 ? &sending->source_box : &sending->target_box, NULL}, 2, views);
    part.from = views[0];
    part.packed = views[1];
    vec_push(sending->arena, &message->parts, part);
    message->bytes += bytes;
    return true;
}

static bool piece_received(void *context, const Piece *piece) {
    Sending *sending = context;
    WirePlan *plan = sending->plan;
    if (piece->from != plan->rank) plan->each.received_bytes += piece->count * dtype_bytes[plan->transfer[sending->transfer].dtype];
    return true;
}

/* Makes the messages to send, and the counts of all transfers. */
static void sends_init(WirePlan *plan, Arena *arena, int nranks) {
    Sending sending = {.plan = plan, .arena = arena, .nranks = nranks, .seen = arena_alloc(arena, 2 * (size_t)nranks)};
    for (int i = 0; i < plan->n; i++) {
        const Transfer *t = &plan->transfer[i];
        layout_box(t->from, &t->shape, plan->rank, &sending.source_box);
        layout_box(t->to, &t->shape, plan->rank, &sending.target_box);
        sending.transfer = i;
        sending.counts_only = plan->call[i].kind != GROUP_NONE;
        pieces_sent(t->from, t->to, &t->shape, nranks, plan->rank, piece_sent, &sending);
        pieces_received(t->from, t->to, &t->shape, nranks, plan->rank, piece_received, &sending);
    }
    for (int i = 0; i < plan->out.n; i++) {
        WireMessage *message = &plan->out.at[i];
        const SentPart *first = &message->parts.at[0];
        message->direct = message->parts.n == 1 && first->walk.nouter == 0 && !plan->transfer[first->transfer].anywhere;
        message->transfer = first->transfer;
        message->at = (first->from.start + first->walk.skip) * dtype_bytes[plan->transfer[first->transfer].dtype];
    }
}

static void receives_init(WirePlan *plan, Arena *arena, int nranks) {
    const Pulls *pulls = &plan->pulls;
    plan->in_of = arena_alloc(arena, 2 * (size_t)nranks * sizeof *plan->in_of);
    int *nsources = arena_alloc(arena, ((size_t)pulls->peers.n + 1) * sizeof *nsources);
    const Pull **only = arena_alloc(arena, ((size_t)pulls->peers.n + 1) * sizeof *only);
    for (int i = 0; i < pulls->peers.n; i++) {
        const PullPeer *peer = &pulls->peers.at[i];
        plan->in_of[peer->round * nranks + peer->rank] = i;
        vec_push(arena, &plan->in, (WireMessage){.rank = peer->rank, .round = peer->round});
    }
    for (int i = 0; i < pulls->pulls.n; i++) {
        const Pull *pull = &pulls->pulls.at[i];
        for (int s = 0; s < pull->nsources; s++) {
            const PullSource *source = &pull->source[s];
            if (source->peer < 0) continue;
            int64_t end = source->message_bytes + pull->walk.count * dtype_bytes[pulls->transfer[pull->transfer].dtype];
            if (end > plan->in.at[source->peer].bytes) plan->in.at[source->peer].bytes = end;
            nsources[source->peer]++;
            only[source->peer] = pull;
        }
    }
    for (int i = 0; i < plan->in.n; i++) {
        const Pull *pull = only[i];
        WireMessage *message = &plan->in.at[i];
        if (nsources[i] != 1 || pull->nsources != 1 || pull->add || pull->walk.nouter > 0 || pulls->transfer[pull->transfer].anywhere)
            continue;
        message->direct = true;
        message->transfer = plan->number[pull->transfer];
        message->at = (pull->target.start + pull->walk.skip) * dtype_bytes[pulls->transfer[pull->transfer].dtype];
    }
}

/* Assigns places in the staging memory. */
static void staging_divide(WirePlan *plan) {
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < (side ? plan->in.n : plan->out.n); i++) {
            WireMessage *message = side ? &plan->in.at[i] : &plan->out.at[i];
            if (message->direct) continue;
            message->at = plan->staging_bytes;
            plan->staging_bytes += align_bytes(message->bytes, 256);
        }
}

bool wire_plan_init(WirePlan *plan, Arena *arena, const Transfer *transfers, int n, int nranks, int rank, bool ordered, Error *error) {
    *plan = (WirePlan){.rank = rank, .n = n};
    plan->transfer = transfers_copy(arena, transfers, n, nranks);
    plan->call = arena_alloc(arena, ((size_t)n + 1) * sizeof *plan->call);
    plan->number = arena_alloc(arena, ((size_t)n + 1) * sizeof *plan->number);
    Transfer *rest = arena_alloc(arena, ((size_t)n + 1) * sizeof *rest);
    int nrest = 0;
    for (int i = 0; i < n; i++) {
        group_call_find(&transfers[i], nranks, ordered, &plan->call[i]);
        if (plan->call[i].kind != GROUP_NONE) continue;
        plan->number[nrest] = i;
        rest[nrest++] = plan->transfer[i];
    }
    if (!pulls_init(&plan->pulls, arena, rest, nrest, nranks, rank, always, NULL, error)) return false;
    receives_init(plan, arena, nranks);
    sends_init(plan, arena, nranks);
    staging_divide(plan);
    return true;
}

bool wire_pull_done(const WirePlan *plan, const Pull *pull, int nranks) {
    return pull->nsources == 1 && pull->source[0].peer >= 0 && plan->in.at[plan->in_of[pull->round * nranks + pull->source[0].from]].direct;
}

bool wire_source_staged(const WirePlan *plan, const Pull *pull, const PullSource *source, int nranks, int64_t *bytes) {
    *bytes = 0;
    if (source->peer < 0) return false;
    *bytes = plan->in.at[plan->in_of[pull->round * nranks + source->from]].at + source->message_bytes;
    return true;
}
