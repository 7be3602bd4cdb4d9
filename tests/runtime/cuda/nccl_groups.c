/* What one rank asks of NCCL, played on ordinary memory: messages are copied, the library's calls done by definition, over every pair of
 * layouts of several meshes. tests/runtime/cases.c knows what each cell must be, and how many bytes must move. */
#include "runtime/cuda/nccl_groups.h"
#include "runtime/element.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/cases.h"

/* ---------------------------------------------------------------- a communicator that plays all ranks */

typedef struct PlayRank {
    WirePlan plan;
    const void **source;
    void **target;
    char *staging;
} PlayRank;

struct CommRequest {
    CommRequest *next;
    Arena arena;
    PlayRank *rank;
    int n, nstarted, nwaited;
};

typedef struct Play {
    Comm comm;
    CommRequest *requests;
    CommCounters counters[64];
    bool ordered;
    int64_t calls[4], messages, direct; /* of each kind; messages received, and how many of these went past staging */
} Play;

static CommRequest *play_prepare(Comm *comm, const Transfer *transfers, int n, Error *error) {
    Play *play = (Play *)comm;
    CommRequest *request = calloc(1, sizeof *request);
    arena_init(&request->arena);
    request->rank = arena_alloc(&request->arena, sizeof *request->rank * (size_t)comm->nranks);
    request->n = n;
    request->next = play->requests;
    play->requests = request;
    for (int r = 0; r < comm->nranks; r++) {
        PlayRank *rank = &request->rank[r];
        if (!wire_plan_init(&rank->plan, &request->arena, transfers, n, comm->nranks, r, play->ordered, error)) return NULL;
        rank->source = arena_alloc(&request->arena, sizeof *rank->source * (size_t)n);
        rank->target = arena_alloc(&request->arena, sizeof *rank->target * (size_t)n);
        rank->staging = arena_alloc(&request->arena, (size_t)rank->plan.staging_bytes + 1);
        for (int i = 0; i < n; i++) { /* all ranks say the same */
            cr_assert_eq(rank->plan.call[i].kind, request->rank[0].plan.call[i].kind);
            cr_assert(group_key_equal(&rank->plan.call[i].group, &request->rank[0].plan.call[i].group));
        }
    }
    return request;
}

static bool play_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    (void)comm, (void)error;
    memcpy(request->rank[driven].source, source, sizeof *source * (size_t)request->n);
    memcpy(request->rank[driven].target, target, sizeof *target * (size_t)request->n);
    request->nstarted++;
    return true;
}

static void pack(PlayRank *rank, const WireMessage *message) {
    for (int i = 0; i < message->parts.n; i++) {
        const SentPart *part = &message->parts.at[i];
        const void *from = message->round == 0 ? rank->source[part->transfer] : rank->target[part->transfer];
        walk_copy(&part->walk, &part->packed, rank->staging + message->at + part->message_bytes, &part->from, from,
                  dtype_bytes[rank->plan.transfer[part->transfer].dtype]);
    }
}

/* A message from rank r arrives. */
static void deliver(Play *play, CommRequest *request, int r, const WireMessage *out) {
    PlayRank *from = &request->rank[r], *to = &request->rank[out->rank];
    const char *data = from->staging + out->at;
    if (out->direct) data = (const char *)(out->round == 0 ? from->source[out->transfer] : from->target[out->transfer]) + out->at;
    for (int i = 0; i < to->plan.in.n; i++) {
        const WireMessage *in = &to->plan.in.at[i];
        if (in->rank != r || in->round != out->round) continue;
        cr_assert_eq(in->bytes, out->bytes, "rank %d sends %lld bytes to %d, which expects %lld", r, (long long)out->bytes, out->rank,
                     (long long)in->bytes);
        memcpy(in->direct ? (char *)to->target[in->transfer] + in->at : to->staging + in->at, data, (size_t)in->bytes);
        play->messages++;
        play->direct += in->direct;
        return;
    }
    cr_assert_fail("rank %d does not expect the message of rank %d", out->rank, r);
}

static void combine(DType dtype, Reduction reduction, void *to, const void *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double a = element_at(to, dtype, i), b = element_at(from, dtype, i);
        element_put(to, dtype, i, reduction == REDUCE_SUM ? a + b : reduction == REDUCE_MAX ? (a > b ? a : b) : (a < b ? a : b));
    }
}

/* The call as the library defines it, for rank r; terms in the opposite order of its members, as nothing is promised about it. */
static void call_play(CommRequest *request, int nranks, int r, int i) {
    PlayRank *rank = &request->rank[r];
    const GroupCall *call = &rank->plan.call[i];
    const Transfer *t = &rank->plan.transfer[i];
    int64_t count = group_call_count(call, t, r), bytes = count * dtype_bytes[t->dtype];
    int leader, number = group_key_number(&call->group, r, &leader);
    bool first = true;
    for (int other = nranks - 1; other >= 0; other--) {
        int others, member = group_key_number(&call->group, other, &others);
        if (others != leader) continue;
        const char *source = request->rank[other].source[i];
        char *target = rank->target[i];
        cr_assert_eq(group_call_count(call, t, other), count, "members of a group count differently");
        if (call->kind == GROUP_ALL_GATHER) {
            memcpy(target + member * bytes, source, (size_t)bytes);
            continue;
        }
        if (call->kind == GROUP_REDUCE_SCATTER) source += number * bytes;
        if (first)
            memcpy(target, source, (size_t)bytes);
        else
            combine(t->dtype, call->reduction, target, source, count);
        first = false;
    }
}

static const void *term_base(void *context, int transfer, const PullSource *source, int round) {
    PlayRank *rank = context;
    int number = rank->plan.number[transfer];
    if (source->peer < 0) return round == 0 ? rank->source[number] : rank->target[number];
    /* The views of messages begin with the message. */
    return rank->staging + rank->plan.in.at[source->peer].at + source->message_bytes;
}

static void play_all(Play *play, CommRequest *request) {
    int nranks = play->comm.nranks;
    for (int r = 0; r < nranks; r++)
        memset(request->rank[r].staging, 0x77, (size_t)request->rank[r].plan.staging_bytes);
    for (int round = 0; round < 2; round++) {
        for (int r = 0; r < nranks; r++)
            for (int m = 0; m < request->rank[r].plan.out.n; m++) {
                const WireMessage *out = &request->rank[r].plan.out.at[m];
                if (out->round == round && !out->direct) pack(&request->rank[r], out);
            }
        for (int r = 0; r < nranks; r++)
            for (int m = 0; m < request->rank[r].plan.out.n; m++)
                if (request->rank[r].plan.out.at[m].round == round) deliver(play, request, r, &request->rank[r].plan.out.at[m]);
        for (int r = 0; round == 0 && r < nranks; r++)
            for (int i = 0; i < request->n; i++) {
                play->calls[request->rank[r].plan.call[i].kind]++;
                if (request->rank[r].plan.call[i].kind != GROUP_NONE) call_play(request, nranks, r, i);
            }
        for (int r = 0; r < nranks; r++) {
            PlayRank *rank = &request->rank[r];
            Pulls pulls = rank->plan.pulls;
            pulls.pulls.n = 0;
            void **target = calloc((size_t)request->n + 1, sizeof *target);
            for (int k = 0; k < pulls.ntransfers; k++)
                target[k] = rank->target[rank->plan.number[k]];
            for (int i = 0; i < rank->plan.pulls.pulls.n; i++) { /* one by one, but those that receiving has done */
                Pulls one = rank->plan.pulls;
                one.pulls.at = &rank->plan.pulls.pulls.at[i];
                one.pulls.n = 1;
                if (!wire_pull_done(&rank->plan, one.pulls.at, nranks)) pulls_execute(&one, round, term_base, rank, target);
            }
            free(target);
        }
    }
}

static CommStatus play_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    Play *play = (Play *)comm;
    (void)driven, (void)error;
    if (request->nstarted < comm->nranks) return COMM_PENDING;
    if (request->nwaited++ == 0) {
        play_all(play, request);
        for (int r = 0; r < comm->nranks; r++) {
            const CommCounters *each = &request->rank[r].plan.each;
            play->counters[r].sent_bytes += each->sent_bytes;
            play->counters[r].received_bytes += each->received_bytes;
        }
    }
    if (request->nwaited == comm->nranks) request->nstarted = request->nwaited = 0;
    return COMM_COMPLETE;
}

static bool play_barrier(Comm *comm, Error *error) {
    (void)comm, (void)error;
    return true;
}

static bool play_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    (void)comm, (void)error;
    words[0] = word;
    return true;
}

static void *play_alloc(Comm *comm, int64_t bytes, Error *error) {
    (void)comm, (void)error;
    return malloc((size_t)bytes + 1);
}

static void play_free(Comm *comm, void *data) {
    (void)comm;
    free(data);
}

static const CommTable play_table = {
    .name = "play",
    .prepare = play_prepare,
    .start = play_start,
    .wait = play_wait,
    .barrier = play_barrier,
    .all_gather_words = play_words,
    .alloc = play_alloc,
    .free = play_free,
};

static void play_open(Play *play, int nranks, bool ordered) {
    *play = (Play){.comm = {.table = &play_table, .nranks = nranks, .nprocesses = 1, .ndriven = nranks, .counters = play->counters},
                   .ordered = ordered};
}

static void play_close(Play *play) {
    while (play->requests) {
        CommRequest *request = play->requests;
        play->requests = request->next;
        arena_finish(&request->arena);
        free(request);
    }
}

/* ---------------------------------------------------------------- sweeps */

typedef struct Sweep {
    Play *play;
    int64_t number;
} Sweep;

/* As an exchange, and as each kind that has a call of its own where its pieces are the same: a plan names a kind only where it is exactly
 * that pattern. */
static void run_one(void *context, const Case *c) {
    Sweep *sweep = context;
    const Case one = case_numbered(c, sweep->number++);
    Error error = {0};
    cr_assert(cases_run(&sweep->play->comm, &one, 1, 1, true, &error), "%s", error.text);
    play_close(sweep->play);
}

static void sweep(Play *play, int nranks, const int32_t *from, const int32_t *to, Shape shape) {
    play_open(play, nranks, false);
    Sweep s = {.play = play};
    cases_all(nranks, from, to, &shape, run_one, &s);
}

Test(nccl_groups, messages_bring_about_every_pair_of_layouts) {
    Play play;
    sweep(&play, 2, MESH(2), MESH(2), SHAPE(4, 6));
    sweep(&play, 2, MESH(2), MESH(2), SHAPE(5, 3));
    sweep(&play, 4, MESH(2, 2), MESH(2, 2), SHAPE(5, 7));
    cr_assert(play.messages > 0 && play.direct > 0 && play.direct < play.messages);
    sweep(&play, 4, MESH(2, 2), MESH(2, 2), SHAPE(1, 3));
    sweep(&play, 6, MESH(2, 3), MESH(3, 2), SHAPE(7, 5));
    sweep(&play, 8, MESH(2, 4), MESH(2, 4), SHAPE(8, 8));
    sweep(&play, 8, MESH(8), MESH(2, 2, 2), SHAPE(11));
}

/* Parts of several tensors in one message, of types that differ in size. */
Test(nccl_groups, messages_hold_parts_of_several_tensors) {
    static const int64_t sizes[][2] = {{8, 8}, {7, 9}, {1, 2}, {3, 100}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        Play play;
        Error error = {0};
        Case all[NCOMMS];
        play_open(&play, 8, true);
        for (int kind = 0; kind < NCOMMS; kind++)
            all[kind] = kind_case((CommKind)kind, 8, SHAPE(sizes[s][0], sizes[s][1]), (DType)(kind % BOOL));
        cr_assert(cases_run(&play.comm, all, NCOMMS, 2, true, &error), "%s", error.text);
        play_close(&play);
    }
}

static Case kind_of(int nranks, CommKind kind, Shape shape, DType dtype, int natoms, const Digit *atoms, const int *from, const int *to) {
    Case c = {.nranks = nranks, .shape = shape, .dtype = dtype, .kind = kind, .name = comm_name[kind]};
    c.from.natoms = c.to.natoms = natoms;
    for (int i = 0; i < natoms; i++) {
        c.from.atom[i] = c.to.atom[i] = atoms[i];
        c.from.role[i] = from[i];
        c.to.role[i] = to[i];
    }
    return c;
}

/* Number in the whole tensor of element k of a box. */
static int64_t cell_at(const Box *box, const Shape *shape, int64_t k) {
    int64_t cell = 0, index[MAX_NDIM];
    for (int d = shape->ndim - 1; d >= 0; d--) {
        index[d] = box->begin[d] + k % (box->end[d] - box->begin[d]);
        k /= box->end[d] - box->begin[d];
    }
    for (int d = 0; d < shape->ndim; d++)
        cell = cell * shape->dim[d] + index[d];
    return cell;
}

/* One use of one transfer, every cell looked at. Not through cases_run, whose bound of bytes is that of an exchange. */
static void case_play(Play *play, const Case *c) {
    int nranks = c->nranks;
    Error error = {0};
    Layout layouts[2];
    Box box;
    side_layout(c, &c->from, &layouts[0]);
    side_layout(c, &c->to, &layouts[1]);
    Transfer t = {.kind = c->kind, .dtype = c->dtype, .shape = c->shape, .from = &layouts[0], .to = &layouts[1], .name = "x"};
    CommRequest *request = play_prepare(&play->comm, &t, 1, &error);
    cr_assert(request != NULL, "%s", error.text);
    void **memory = calloc(2 * (size_t)nranks, sizeof *memory);
    for (int r = 0; r < nranks; r++) {
        for (int side = 1; side >= 0; side--) {
            layout_box(&layouts[side], &c->shape, r, &box);
            memory[2 * r + side] = calloc((size_t)box_elements(&box) + 1, 8);
        }
        for (int64_t k = 0, n = box_elements(&box); k < n; k++)
            element_put(memory[2 * r], c->dtype, k, case_source(c, r, cell_at(&box, &c->shape, k), 0));
        play_start(&play->comm, request, r, (const void *const *)&memory[2 * r], &memory[2 * r + 1], &error);
    }
    for (int r = 0; r < nranks; r++)
        cr_assert_eq(play_wait(&play->comm, request, r, &error), COMM_COMPLETE);
    Text text = {0};
    case_print(&text, c);
    for (int r = 0; r < nranks; r++) {
        layout_box(&layouts[1], &c->shape, r, &box);
        for (int64_t k = 0, n = box_elements(&box); k < n; k++) {
            int64_t cell = cell_at(&box, &c->shape, k);
            cr_assert_eq(element_at(memory[2 * r + 1], c->dtype, k), case_target(c, r, cell, 0), "%s: rank %d, cell %lld", text.at, r,
                         (long long)cell);
        }
    }
    text_finish(&text);
    for (int i = 0; i < 2 * nranks; i++)
        free(memory[i]);
    free(memory);
    play_close(play);
}

/* The roles of each digit that number `code` spells, before and after; false where they do not change as the kind says. */
static bool roles_decode(CommKind kind, int code, int ndim, int natoms, int *from, int *to) {
    int changed = 0;
    for (int i = 0; i < natoms; i++) {
        int *sides[] = {&from[i], &to[i]};
        for (int side = 0; side < 2; side++) {
            *sides[side] = code % (ndim + 2) - 1;
            if (*sides[side] == ndim) *sides[side] = ROLE_PARTIAL;
            code /= ndim + 2;
        }
        if (from[i] == to[i]) continue;
        bool split = from[i] >= 0 && from[i] < ndim, splits = to[i] >= 0 && to[i] < ndim;
        bool legal = kind == COMM_ALL_REDUCE       ? from[i] == ROLE_PARTIAL && to[i] == ROLE_WHOLE
                     : kind == COMM_REDUCE_SCATTER ? from[i] == ROLE_PARTIAL && splits
                                                   : split && to[i] == ROLE_WHOLE;
        if (!legal) return false;
        changed++;
    }
    return changed > 0;
}

/* Every assignment of roles to the digits of a mesh under which the digits change as the kind says, in every type. */
static int64_t kinds(Play *play, int nranks, const Digit *atoms, int natoms, CommKind kind, Shape shape, bool ordered) {
    int codes = 1;
    int64_t ran = 0;
    play_open(play, nranks, ordered);
    for (int i = 0; i < 2 * natoms; i++)
        codes *= shape.ndim + 2;
    for (int code = 0; code < codes; code++) {
        int from[MAX_ATOMS], to[MAX_ATOMS];
        if (!roles_decode(kind, code, shape.ndim, natoms, from, to)) continue;
        for (int dtype = 0; dtype < BOOL; dtype++, ran++) {
            Case c = kind_of(nranks, kind, shape, (DType)dtype, natoms, atoms, from, to);
            c.reduction = (Reduction)(ran % NREDUCTIONS);
            case_play(play, &c);
        }
    }
    return ran;
}

Test(nccl_groups, calls_bring_about_what_their_kinds_say) {
    static const struct {
        int nranks, natoms;
        Digit atoms[3];
    } meshes[] = {
        {2, 1, {{2, 1}}}, {4, 2, {{2, 2}, {2, 1}}}, {6, 2, {{2, 3}, {3, 1}}}, {8, 2, {{2, 4}, {4, 1}}}, {8, 3, {{2, 4}, {2, 2}, {2, 1}}}};
    static const Shape shapes[] = {{1, {16}}, {2, {8, 8}}, {2, {1, 24}}, {2, {5, 3}}, {2, {12, 2}}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            if (meshes[m].natoms == 3 && s > 1) continue;
            static const CommKind all[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER};
            for (int k = 0; k < 3; k++) {
                Play play;
                int64_t ran = kinds(&play, meshes[m].nranks, meshes[m].atoms, meshes[m].natoms, all[k], shapes[s], k == 0 && s == 2);
                cr_assert(ran > 0);
                if (s == 0)
                    cr_assert_gt(play.calls[k == 0   ? GROUP_ALL_REDUCE
                                            : k == 1 ? GROUP_REDUCE_SCATTER
                                                     : GROUP_ALL_GATHER],
                                 0, "mesh %zu, kind %d", m, k);
            }
        }
}

/* ---------------------------------------------------------------- choices */

static GroupCallKind chosen(const Case *c, bool ordered, GroupCall *call) {
    Layout from, to;
    GroupCall unused;
    side_layout(c, &c->from, &from);
    side_layout(c, &c->to, &to);
    Transfer t = {.kind = c->kind, .dtype = c->dtype, .shape = c->shape, .from = &from, .to = &to, .name = "x"};
    group_call_find(&t, c->nranks, ordered, call ? call : &unused);
    return (call ? call : &unused)->kind;
}

static Case two_digits(CommKind kind, DType dtype, Shape shape, int from0, int from1, int to0, int to1) {
    Case c = {.nranks = 8, .shape = shape, .dtype = dtype, .kind = kind, .name = "x"};
    c.from = (Side){.natoms = 2, .atom = {{2, 4}, {4, 1}}, .role = {from0, from1}};
    c.to = (Side){.natoms = 2, .atom = {{2, 4}, {4, 1}}, .role = {to0, to1}};
    return c;
}

/* The library rounds to 16 bits whenever it adds a term: that is for gradients that are compressed, of which the user said so. */
Test(nccl_groups, of_sums_in_16_bits_those_of_compressed_gradients_are_the_librarys) {
    const Case c = two_digits(COMM_ALL_REDUCE, BF16, SHAPE(8, 8), ROLE_PARTIAL, ROLE_PARTIAL, ROLE_WHOLE, ROLE_WHOLE);
    Layout from, to;
    GroupCall call;
    side_layout(&c, &c.from, &from);
    side_layout(&c, &c.to, &to);
    Transfer t = {.kind = c.kind, .dtype = c.dtype, .shape = c.shape, .from = &from, .to = &to, .name = "x"};
    group_call_find(&t, c.nranks, false, &call);
    cr_expect_eq(call.kind, GROUP_NONE);
    t.rounds = true;
    group_call_find(&t, c.nranks, false, &call);
    cr_expect_eq(call.kind, GROUP_ALL_REDUCE);
    cr_expect_eq(call.nmembers, 8);
    group_call_find(&t, c.nranks, true, &call);
    cr_expect_eq(call.kind, GROUP_NONE, "in the order of ranks");
}

Test(nccl_groups, a_gradient_of_a_divided_weight_is_an_all_reduce_of_its_group) {
    GroupCall call;
    Case c = two_digits(COMM_ALL_REDUCE, F32, SHAPE(8, 8), 0, ROLE_PARTIAL, 0, ROLE_WHOLE);
    cr_assert_eq(chosen(&c, false, &call), GROUP_ALL_REDUCE);
    cr_assert_eq(call.nmembers, 4);
    int leader;
    cr_assert_eq(group_key_number(&call.group, 6, &leader), 2);
    cr_assert_eq(leader, 4);
    cr_assert_not(group_key_is_world(&call.group, 8));
    c.dtype = F64, c.shape = SHAPE(9, 5); /* sizes need not divide */
    cr_assert_eq(chosen(&c, false, NULL), GROUP_ALL_REDUCE);
}

Test(nccl_groups, replicas_in_other_groups_have_the_order_of_terms_fixed) {
    Case c = two_digits(COMM_ALL_REDUCE, F32, SHAPE(8, 8), ROLE_WHOLE, ROLE_PARTIAL, ROLE_WHOLE, ROLE_WHOLE);
    cr_assert_eq(chosen(&c, false, NULL), GROUP_NONE);
    c.dtype = I32;
    cr_assert_eq(chosen(&c, false, NULL), GROUP_ALL_REDUCE, "integers have no order");
    c = two_digits(COMM_ALL_REDUCE, F32, SHAPE(8, 8), ROLE_PARTIAL, ROLE_WHOLE, ROLE_WHOLE, ROLE_WHOLE);
    cr_assert_eq(chosen(&c, false, NULL), GROUP_ALL_REDUCE, "two terms have none either");
}

Test(nccl_groups, deterministic_sums_have_the_order_of_terms_fixed) {
    Case c = two_digits(COMM_ALL_REDUCE, F32, SHAPE(8, 8), 0, ROLE_PARTIAL, 0, ROLE_WHOLE);
    cr_assert_eq(chosen(&c, true, NULL), GROUP_NONE);
    c.dtype = I64;
    cr_assert_eq(chosen(&c, true, NULL), GROUP_ALL_REDUCE);
}

Test(nccl_groups, maxima_of_fractions_keep_their_nan) {
    Case c = two_digits(COMM_ALL_REDUCE, F32, SHAPE(8, 8), 0, ROLE_PARTIAL, 0, ROLE_WHOLE);
    c.reduction = REDUCE_MAX;
    cr_assert_eq(chosen(&c, false, NULL), GROUP_NONE);
    c.dtype = I32;
    cr_assert_eq(chosen(&c, false, NULL), GROUP_ALL_REDUCE);
}

Test(nccl_groups, boxes_that_are_uneven_or_not_in_one_run_go_by_messages) {
    Case c = two_digits(COMM_ALL_GATHER, F32, SHAPE(8, 8), 0, 1, 0, ROLE_WHOLE); /* columns */
    cr_assert_eq(chosen(&c, false, NULL), GROUP_NONE);
    c = two_digits(COMM_ALL_GATHER, F32, SHAPE(8, 8), 0, 0, 0, ROLE_WHOLE); /* rows */
    cr_assert_eq(chosen(&c, false, NULL), GROUP_ALL_GATHER);
    c.shape = SHAPE(9, 8);
    cr_assert_eq(chosen(&c, false, NULL), GROUP_NONE);
    c = two_digits(COMM_REDUCE_SCATTER, F32, SHAPE(8, 8), 0, ROLE_PARTIAL, 0, 0);
    cr_assert_eq(chosen(&c, false, NULL), GROUP_REDUCE_SCATTER);
    c.shape = SHAPE(6, 8);
    cr_assert_eq(chosen(&c, false, NULL), GROUP_NONE);
    c = two_digits(COMM_REDUCE_SCATTER, F32, SHAPE(2, 8), 0, ROLE_PARTIAL, 0, 1); /* a row each: its columns are runs */
    cr_assert_eq(chosen(&c, false, NULL), GROUP_REDUCE_SCATTER);
}

/* A digit that divides now, and one that was owed, are not the same because they have one size. */
Test(nccl_groups, a_sum_is_scattered_along_the_digits_that_were_owed) {
    Case c = {.nranks = 4, .shape = SHAPE(8), .dtype = I32, .kind = COMM_REDUCE_SCATTER, .name = "x"};
    c.from = (Side){.natoms = 2, .atom = {{2, 2}, {2, 1}}, .role = {ROLE_PARTIAL, ROLE_WHOLE}};
    c.to = (Side){.natoms = 2, .atom = {{2, 2}, {2, 1}}, .role = {ROLE_WHOLE, 0}};
    cr_assert_eq(chosen(&c, false, NULL), GROUP_NONE);
}

Test(nccl_groups, the_order_of_digits_is_the_order_of_members) {
    GroupCall call;
    int leader;
    Case c = {.nranks = 4, .shape = SHAPE(8), .dtype = F32, .kind = COMM_ALL_GATHER, .name = "x"};
    c.from = c.to = (Side){.natoms = 2, .atom = {{2, 2}, {2, 1}}, .role = {0, 0}, .reversed = true};
    c.to.role[0] = c.to.role[1] = ROLE_WHOLE;
    cr_assert_eq(chosen(&c, false, &call), GROUP_ALL_GATHER);
    static const int expected[] = {0, 2, 1, 3};
    for (int r = 0; r < 4; r++)
        cr_assert_eq(group_key_number(&call.group, r, &leader), expected[r]);
    cr_assert_not(group_key_is_world(&call.group, 4));
    c.from.reversed = false;
    cr_assert_eq(chosen(&c, false, &call), GROUP_ALL_GATHER);
    cr_assert(group_key_is_world(&call.group, 4));
}
