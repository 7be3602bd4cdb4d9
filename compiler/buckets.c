/* buckets: gradients are reduced together, 25 MiB (`bucket`) at a time, the first 1 MiB so that communication begins early: DDP's way and values (Li
 * et al. 2020). A bucket takes them in the order in which they become ready and closes when it has the size, so none waits for
 * more than its bucket; it is of one kind and element type. Each gradient keeps its own buffers: a bucket saves messages and meetings of the
 * ranks, no copy is made, and every sum is added in the same order as without.
 *
 * A bucket is under way until the end of the backward pass, unless more than two buckets' size would be: then the oldest is waited for first.
 * That bounds the memory that gradients take.
 *
 * Conversions of values are joined too where many small ones are needed at about one time, of the rows that are looked up in 26 tables, say, as long as that is faster by the machine's figures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/buckets.h"
#include "compiler/prefetch.h"

#define FIRST_BUCKET_BYTES ((int64_t)1 << 20)

typedef struct Member {
    int key, node;
} Member;

enum { BY_UPDATE = 1, BY_WRITE = 2, BY_OTHER = 4 };

/* Per node which users a convert's result has, through further converts too. */
static char *users_of_converts(const Build *b) {
    const Graph *g = &b->spmd.graph;
    char *users = arena_alloc(b->arena, (size_t)g->nodes.n + 1);
    for (int k = 0; k < graph_nreports(g); k++)
        users[g->values.at[graph_report(g, k)].node] = BY_OTHER;
    for (int n = g->nodes.n - 1; n >= 0; n--) {
        const Node *node = &g->nodes.at[n];
        bool updates =
            (node->update > 0 && node->op != OP_write) || node->op == OP_clip || node->op == OP_sum_squares || gradient_changes(g, node);
        int by = node->op == OP_convert ? users[n] : node->op == OP_write ? BY_WRITE : updates ? BY_UPDATE : BY_OTHER;
        for (int i = 0; i < node->nin; i++) /* the norm by which gradients are clipped is made of them: it never shares their bucket */
            users[g->values.at[node->in[i]].node] |= (char)(node->op == OP_clip && i > 0 ? BY_OTHER : by);
    }
    return users;
}

static int member_compare(const void *a, const void *b) {
    const Member *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

void buckets_init(Build *b, Buckets *buckets) {
    memset(buckets, 0, sizeof *buckets);
    buckets->of = arena_alloc(b->arena, sizeof *buckets->of * (size_t)(b->spmd.graph.nodes.n + 1));
    memset(buckets->of, -1, sizeof *buckets->of * (size_t)(b->spmd.graph.nodes.n + 1));
}

/* The ranks that hold a value are those of this stage; -1: all. */
static int pin_of(const Graph *g, int value) {
    const Layout *layout = g->values.at[value].layout;
    return layout_is_pinned(layout) ? layout->pin.value : -1;
}

/* Distributes the members of a stage (-1: of none), sorted by key, over new buckets. */
static void fill_stage(Build *b, Buckets *buckets, const Member *members, int n, int64_t first_limit, int stage) {
    const Graph *g = &b->spmd.graph;
    int open[NCOMMS][NDTYPES];
    memset(open, -1, sizeof open);
    int64_t limit = first_limit;
    for (int m = 0; m < n; m++) {
        const Node *node = &g->nodes.at[members[m].node];
        int source = node->in[0], target = node->out[0];
        if (pin_of(g, source) != stage) continue;
        DType dtype = g->values.at[source].type.dtype;
        int *at = &open[node->comm][dtype];
        if (*at < 0) {
            *at = buckets->at.n;
            vec_push(b->arena, &buckets->at, (Bucket){.kind = node->comm, .dtype = dtype});
        }
        Bucket *bucket = &buckets->at.at[*at];
        vec_push(b->arena, &bucket->members, members[m].node);
        buckets->of[members[m].node] = *at;
        bucket->ready = members[m].key;
        bucket->tensor_bytes +=
            b->spmd.box_bytes[source] > b->spmd.box_bytes[target] ? b->spmd.box_bytes[source] : b->spmd.box_bytes[target];
        bucket->flight_bytes += b->spmd.box_bytes[source] + b->spmd.box_bytes[target];
        if (bucket->tensor_bytes < limit) continue;
        *at = -1;
        limit = b->spmd.graph.settings.bucket_bytes;
    }
}

static void fill(Build *b, Buckets *buckets, const Member *members, int n, int64_t first_limit) {
    for (int stage = -1; stage < settings_stages(&b->spmd.graph.settings); stage++)
        fill_stage(b, buckets, members, n, first_limit, stage);
}

static int bucket_compare(const void *a, const void *b) {
    const Bucket *const *x = a, *const *y = b;
    return (*x)->ready != (*y)->ready ? ((*x)->ready < (*y)->ready ? -1 : 1) : (*x)->members.at[0] - (*y)->members.at[0];
}

/* When each bucket must be over: at the end, or when too much is under way. */
static void limit_flight(Build *b, Buckets *buckets, int end) {
    int64_t size = b->spmd.graph.settings.bucket_bytes > 0 ? b->spmd.graph.settings.bucket_bytes : BUCKET_BYTES, most, flight = 0;
    if (!mul_checked(size, 4, &most)) most = INT64_MAX; /* sources and targets of two */
    Bucket **order = arena_alloc(b->arena, sizeof *order * (size_t)(buckets->at.n + 1));
    for (int k = 0; k < buckets->at.n; k++)
        order[k] = &buckets->at.at[k];
    qsort(order, (size_t)buckets->at.n, sizeof *order, bucket_compare);
    for (int k = 0, oldest = 0; k < buckets->at.n; k++) {
        order[k]->due = end;
        order[k]->turn = k;
        flight += order[k]->flight_bytes;
        for (; flight > most && oldest < k; oldest++) {
            order[oldest]->due = order[k]->ready;
            flight -= order[oldest]->flight_bytes;
        }
    }
}

/* The communications whose source `root_class` makes and that only `users` take. */
static Member *members_of(Build *b, const int *key, bool updates, int users, int *n) {
    const Graph *g = &b->spmd.graph;
    const char *of = users_of_converts(b);
    Member *members = arena_alloc(b->arena, sizeof *members * (size_t)(g->nodes.n + 1));
    *n = 0;
    for (int id = 0; id < g->nodes.n; id++) {
        const Node *node = &g->nodes.at[id];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || of[id] != users ||
            pin_of(g, node->in[0]) != pin_of(g, node->out[0])) /* from stage to stage: alone */
            continue;
        int root = g->values.at[node->in[0]].node;
        OpClass made = op_table[g->nodes.at[root].op].op_class;
        bool fits = updates ? g->nodes.at[root].update > 0
                            : g->nodes.at[root].update == 0 && (made == OP_CLASS_USER || made == OP_CLASS_INTERNAL) &&
                                  layout_is_partial(g->values.at[node->in[0]].layout);
        if (fits) members[(*n)++] = (Member){key[root], id};
    }
    qsort(members, (size_t)*n, sizeof *members, member_compare);
    return members;
}

void buckets_of_gradients(Build *b, Buckets *buckets, const int *key, int end) {
    int n;
    int64_t size = b->spmd.graph.settings.bucket_bytes;
    Member *members = members_of(b, key, false, BY_UPDATE, &n);
    fill(b, buckets, members, n, size < FIRST_BUCKET_BYTES ? size : FIRST_BUCKET_BYTES);
    limit_flight(b, buckets, end);
}

/* ---------------------------------------------------------------- conversions of values */

enum { FEW = 4, NEAR = 64 }; /* so many are worth a bucket; kernels between its users */

typedef struct Joined {
    int node, source, user; /* the convert; positions of the kernel that makes its source, and of its first user */
    double seconds, end;    /* that it takes; when what of it runs beside kernels is over, if it is alone */
} Joined;

static int by_user(const void *a, const void *b) {
    const Joined *x = a, *y = b;
    return x->user != y->user ? x->user - y->user : x->source != y->source ? x->source - y->source : x->node - y->node;
}

/* Conversions of what kernels make that are in no bucket, as they are used. */
static Joined *conversions_of_values(Build *b, const Buckets *buckets, const int *position, int *n) {
    const Graph *g = &b->spmd.graph;
    Joined *all = arena_alloc(b->arena, sizeof *all * (size_t)(g->nodes.n + 1));
    *n = 0;
    for (int id = 0; id < g->nodes.n; id++) {
        const Node *node = &g->nodes.at[id];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || buckets->of[id] >= 0 || position[id] < 0) continue;
        const int source = g->values.at[node->in[0]].node;
        if (g->nodes.at[source].op != OP_convert && !node_is_leaf(&g->nodes.at[source]))
            all[(*n)++] = (Joined){.node = id, .source = position[source], .user = position[id]};
    }
    qsort(all, (size_t)*n, sizeof *all, by_user);
    return all;
}

static int by_source(const void *a, const void *b) {
    const Joined *x = a, *y = b;
    return x->source != y->source ? x->source - y->source : by_user(a, b);
}

/* Whether less is waited for where n conversions, as they are used, are one: it starts with the last source, and is needed with the first user. As the timeline counts it. */
static bool is_faster(const Build *b, Joined *joined, int n, const double *begin) {
    const Graph *g = &b->spmd.graph;
    const Machine *machine = b->options->machine != NULL ? b->options->machine : &machine_cpu;
    const int first_user = joined[0].user;
    double apart = 0, link = 0, together = 0, most = 0;
    qsort(joined, (size_t)n, sizeof *joined, by_source);
    for (int m = 0; m < n; m++) {
        const Node *node = &g->nodes.at[joined[m].node];
        const Value *from = &g->values.at[node->in[0]], *to = &g->values.at[node->out[0]];
        const int64_t out = b->spmd.box_bytes[node->in[0]], in = b->spmd.box_bytes[node->out[0]];
        const MoveSeconds its =
            step_seconds(machine, node->comm, from->layout, to->layout, &from->type.shape, in > out ? in - out : out, g->nranks);
        joined[m].seconds = move_seconds(its);
        joined[m].end = link = fmax(link, begin[joined[m].source + 1]) + machine->overlap * joined[m].seconds;
        most = fmax(most, its.messages_s);
        together += its.bytes_s;
    }
    together += most;
    const double end = begin[joined[n - 1].source + 1] + machine->overlap * together, use = begin[first_user];
    qsort(joined, (size_t)n, sizeof *joined, by_user);
    for (int m = 0; m < n; m++)
        apart += fmax(0, joined[m].end - begin[joined[m].user] - apart) + (1 - machine->overlap) * joined[m].seconds;
    return fmax(0, end - use) + (1 - machine->overlap) * together < apart;
}

/* The conversions from the first of n on that may be one with it, and are in no other: *bucket, and as they are used. */
static void gather_bucket(const Build *b, const Joined *all, int n, const bool *taken, Bucket *bucket, Joined *joined) {
    const Graph *g = &b->spmd.graph;
    const Node *first = &g->nodes.at[all[0].node];
    *bucket = (Bucket){.kind = first->comm, .dtype = g->values.at[first->in[0]].type.dtype};
    for (int k = 0; k < n && bucket->tensor_bytes < g->settings.bucket_bytes && all[k].user - all[0].user < NEAR; k++) {
        const Node *node = &g->nodes.at[all[k].node];
        const int64_t from = b->spmd.box_bytes[node->in[0]], to = b->spmd.box_bytes[node->out[0]];
        if (taken[all[k].node] || node->comm != bucket->kind || g->values.at[node->in[0]].type.dtype != bucket->dtype ||
            all[k].source >= all[0].user)
            continue;
        joined[bucket->members.n] = all[k];
        vec_push(b->arena, &bucket->members, all[k].node);
        bucket->tensor_bytes += from > to ? from : to;
    }
}

void buckets_of_values(Build *b, Buckets *buckets, const int *order, int n, const int *position) {
    int nall;
    const Joined *all = conversions_of_values(b, buckets, position, &nall);
    if (b->spmd.graph.settings.bucket_bytes == 0 || nall < FEW || b->spmd.graph.settings.stages > 1) return;
    const double *begin = kernels_begin(b, order, n);
    Joined *joined = arena_alloc(b->arena, sizeof *joined * (size_t)nall);
    bool *taken = arena_alloc(b->arena, (size_t)b->spmd.graph.nodes.n + 1); /* joined, or found to be faster apart */
    for (int first = 0; first < nall; first++) {
        Bucket bucket;
        if (taken[all[first].node]) continue;
        gather_bucket(b, all + first, nall - first, taken, &bucket, joined);
        if (bucket.members.n < FEW) continue;
        const bool faster = is_faster(b, joined, bucket.members.n, begin);
        for (int m = 0; m < bucket.members.n; m++) {
            taken[bucket.members.at[m]] = true;
            if (faster) buckets->of[bucket.members.at[m]] = buckets->at.n;
        }
        if (faster) vec_push(b->arena, &buckets->at, bucket);
    }
}

/* ---------------------------------------------------------------- gathers of states */

void buckets_of_updates(Build *b, Buckets *buckets, const int *key) {
    int n;
    Member *members = members_of(b, key, true, BY_WRITE, &n);
    fill(b, buckets, members, n, b->spmd.graph.settings.bucket_bytes);
}
