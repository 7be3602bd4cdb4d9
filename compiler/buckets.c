/* buckets: gradients are reduced together, 25 MiB (`bucket`) at a time, the first 1 MiB so that communication begins early: DDP's way and values (Li
 * et al. 2020). A bucket takes them in the order in which they become ready and closes when it has the size, so none waits for
 * more than its bucket; it is of one kind and element type. Each gradient keeps its own buffers: a bucket saves messages and meetings of the
 * ranks, no copy is made, and every sum is added in the same order as without.
 *
 * A bucket is under way until the end of the backward pass, unless more than two buckets' size would be: then the oldest is waited for first.
 * That bounds the memory that gradients take. */
#include <stdlib.h>
#include <string.h>

#include "compiler/buckets.h"

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
        bool updates = (node->update > 0 && node->op != OP_write) || node->op == OP_clip || node->op == OP_sum_squares;
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

/* Distributes the members, sorted by key, over new buckets. */
static void fill(Build *b, Buckets *buckets, const Member *members, int n, int64_t first_limit) {
    const Graph *g = &b->spmd.graph;
    int open[NCOMMS][NDTYPES];
    memset(open, -1, sizeof open);
    int64_t limit = first_limit;
    for (int m = 0; m < n; m++) {
        const Node *node = &g->nodes.at[members[m].node];
        int source = node->in[0], target = node->out[0];
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
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || of[id] != users) continue;
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

void buckets_of_updates(Build *b, Buckets *buckets, const int *key) {
    int n;
    Member *members = members_of(b, key, true, BY_WRITE, &n);
    fill(b, buckets, members, n, b->spmd.graph.settings.bucket_bytes);
}
