/* buckets: gradients are reduced together, 25 MiB (`bucket`) at a time, the first 1 MiB so that communication begins early: DDP's way and values (Li
 * et al. 2020). A bucket takes them in the order in which they become ready and closes when it has the size, so none waits for
 * more than its bucket; it is of one kind and element type. Each gradient keeps its own buffers: a bucket saves messages and meetings of the
 * ranks, no copy is made, and every sum is added in the same order as without.
 *
 * A bucket is in flight until the end of the backward pass, unless more than two buckets' size would be: then the oldest is waited for first.
 * That bounds the memory that gradients take. Where ranks are on several nodes, a reported sum, most likely the loss,
 * joins the last bucket: alone it would keep gradients waiting for as many messages as they take themselves.
 *
 * Conversions of values are joined too where many small ones are needed at about the same time (the rows looked up in 26 tables, say) and that is faster by the machine's figures; and so
 * is what one stage of a pipeline sends, in one of its tasks, for one task of another stage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/buckets.h"
#include "compiler/prefetch.h"
#include "compiler/sharded.h"

#define FIRST_BUCKET_BYTES ((int64_t)1 << 20)

typedef struct Member {
    int key, node;
} Member;

enum { BY_UPDATE = 1, BY_WRITE = 2, BY_OTHER = 4 };

/* Per node which kinds of users its result has, through converts too. */
static char *users_of_converts(const Build *b) {
    const Graph *g = &b->spmd.graph;
    char *users = arena_alloc(b->arena, (size_t)g->nodes.n + 1);
    for (int k = 0; k < graph_nreports(g); k++)
        users[g->values.at[graph_report(g, k)].node] = BY_OTHER;
    for (int n = g->nodes.n - 1; n >= 0; n--) {
        const Node *node = &g->nodes.at[n];
        int by = node->op == OP_convert ? users[n] : node->op == OP_write ? BY_WRITE : gradient_is_whole(g, node) ? BY_UPDATE : BY_OTHER;
        for (int i = 0; i < node->nin; i++) /* the norm that clips gradients is computed from them: it never shares their bucket */
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

/* The stage whose ranks hold a value; -1: all. */
static int pin_of(const Graph *g, int value) {
    return pin_stage(g, &g->values.at[value].layout->pin);
}

/* Per node the length of the longest chain of members before it, each waiting for the one before. */
static int *depths_of(Build *b, const Member *members, int n) {
    const Graph *g = &b->spmd.graph;
    int *depth = arena_alloc(b->arena, sizeof *depth * ((size_t)g->nodes.n + 1));
    bool *member = arena_alloc(b->arena, (size_t)g->nodes.n + 1);
    for (int m = 0; m < n; m++)
        member[members[m].node] = true;
    for (int id = 0; id < g->nodes.n; id++)
        for (int i = 0; i < g->nodes.at[id].nin; i++) {
            const int from = g->values.at[g->nodes.at[id].in[i]].node;
            if (depth[id] < depth[from] + member[from]) depth[id] = depth[from] + member[from];
        }
    return depth;
}

/* Distributes the members of a stage (-1: of none), sorted by key, over new buckets, each of members of one depth, so that none waits for its own bucket. */
static void fill_stage(Build *b, Buckets *buckets, const Member *members, int n, const int *depth, int64_t first_limit, int stage) {
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
        if (*at >= 0 && depth[members[m].node] != depth[buckets->at.at[*at].members.at[0]]) *at = -1;
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
    const int *depth = depths_of(b, members, n);
    for (int stage = -1; stage < settings_stages(&b->spmd.graph.settings); stage++)
        fill_stage(b, buckets, members, n, depth, first_limit, stage);
}

static int bucket_compare(const void *a, const void *b) {
    const Bucket *const *x = a, *const *y = b;
    return (*x)->ready != (*y)->ready ? ((*x)->ready < (*y)->ready ? -1 : 1) : (*x)->members.at[0] - (*y)->members.at[0];
}

/* Sets when each bucket must end: at `end`, or earlier where too much would be in flight. */
static void limit_flight(Build *b, Buckets *buckets, int end) {
    int64_t size = b->spmd.graph.settings.bucket_bytes > 0 ? b->spmd.graph.settings.bucket_bytes : BUCKET_BYTES, most, flight = 0;
    if (!mul_checked(size, 4, &most)) most = INT64_MAX; /* of two buckets: sources and targets */
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

/* The communications that only `users` take: of updates' results, or of partial sums that other kernels make. */
static Member *members_of(Build *b, const int *key, bool updates, int users, int *n) {
    const Graph *g = &b->spmd.graph;
    const char *of = users_of_converts(b);
    Member *members = arena_alloc(b->arena, sizeof *members * (size_t)(g->nodes.n + 1));
    *n = 0;
    for (int id = 0; id < g->nodes.n; id++) {
        const Node *node = &g->nodes.at[id];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || of[id] != users ||
            !pin_equal(&g->values.at[node->in[0]].layout->pin, &g->values.at[node->out[0]].layout->pin)) /* from stage to stage: alone */
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

/* The time of a conversion alone. */
static MoveSeconds seconds_of(const Build *b, const Node *convert) {
    const Graph *g = &b->spmd.graph;
    const Value *from = &g->values.at[convert->in[0]], *to = &g->values.at[convert->out[0]];
    const int64_t out = b->spmd.box_bytes[convert->in[0]], in = b->spmd.box_bytes[convert->out[0]];
    return step_seconds(options_machine(b->options), convert->comm, from->layout, to->layout, &from->type.shape, in > out ? in - out : out,
                        g->nranks);
}

/* By how much longer a bucket takes with one more conversion. */
static double seconds_more(const Build *b, const Bucket *bucket, MoveSeconds one) {
    double most = 0;
    for (int m = 0; m < bucket->members.n; m++)
        most = fmax(most, seconds_of(b, &b->spmd.graph.nodes.at[bucket->members.at[m]]).messages_s);
    return fmax(0, one.messages_s - most) + one.bytes_s;
}

/* Whether a reported sum may join the bucket and takes no more time there. */
static bool takes_report(const Build *b, const Bucket *bucket, const Node *sum, const int *key) {
    const Graph *g = &b->spmd.graph;
    const int source = sum->in[0], stage = pin_of(g, source);
    const MoveSeconds alone = seconds_of(b, sum);
    return bucket->kind == sum->comm && bucket->dtype == g->values.at[source].type.dtype &&
           bucket->ready >= key[g->values.at[source].node] && stage == pin_of(g, sum->out[0]) &&
           stage == pin_of(g, g->nodes.at[bucket->members.at[0]].in[0]) &&
           seconds_more(b, bucket, alone) <= (1 - options_machine(b->options)->overlap) * move_seconds(alone);
}

/* Joins each sum that only a report takes to the last bucket that it prolongs by no more than the part of the sum that, alone, would not overlap. */
static void join_reports(Build *b, Buckets *buckets, const int *key) {
    const Graph *g = &b->spmd.graph;
    const int *uses = graph_uses(g, b->arena);
    if (g->nranks <= options_machine(b->options)->ranks_per_node) return; /* within a node that is a few microseconds */
    for (int k = 0; k < graph_nreports(g); k++) {
        const int id = g->values.at[graph_report(g, k)].node;
        const Node *node = &g->nodes.at[id];
        if (node->op != OP_convert || uses[node->out[0]] > 1 || graph_producer(g, node->in[0])->op == OP_convert) continue;
        Bucket *last = NULL;
        for (int i = 0; i < buckets->at.n; i++) {
            Bucket *bucket = &buckets->at.at[i];
            if (takes_report(b, bucket, node, key) && (last == NULL || bucket->ready >= last->ready)) last = bucket;
        }
        if (last == NULL) continue;
        buckets->of[id] = (int)(last - buckets->at.at);
        vec_push(b->arena, &last->members, id);
    }
}

void buckets_of_gradients(Build *b, Buckets *buckets, const int *key, int end) {
    int n;
    int64_t size = b->spmd.graph.settings.bucket_bytes;
    Member *members = members_of(b, key, false, BY_UPDATE, &n);
    fill(b, buckets, members, n, size < FIRST_BUCKET_BYTES ? size : FIRST_BUCKET_BYTES);
    if (size > 0) join_reports(b, buckets, key);
    limit_flight(b, buckets, end);
}

/* ---------------------------------------------------------------- conversions of values */

enum { FEW = 4, NEAR = 64 }; /* conversions that are worth a bucket; kernels between its users, at most */

typedef struct Joined {
    int node, source, user; /* the convert; positions of the kernel that makes its source, and of its first user */
    double ready_s, use_s;  /* when its source is made and its result is used, without any waits */
    double seconds, end_s;  /* that it takes; when the part of it that overlaps with kernels ends, if it is alone */
} Joined;

/* Where the conversions are looked for. */
typedef struct Values {
    Build *b;
    Buckets *buckets;
    int n;
    const int *order, *position; /* of n kernels */
    const int *task;             /* of a pipeline; NULL: there are no stages */
    double **begin_s;            /* [stage + 1][position]: time of the stage's kernels before it; stage -1: of all */
    Joined *joined;              /* room for those of a bucket */
    bool *taken;                 /* per node: joined, or found to be faster apart */
} Values;

static int by_user(const void *a, const void *b) {
    const Joined *x = a, *y = b;
    return x->user != y->user ? x->user - y->user : x->source != y->source ? x->source - y->source : x->node - y->node;
}

/* In a pipeline the stage whose ranks hold a value; -1: all, or there are no stages. */
static int stage_of(const Graph *g, int value) {
    return settings_stages(&g->settings) > 1 ? pin_of(g, value) : -1;
}

/* Whether a value is a state's, or a view or conversion of one: such is not waited for late (roles.c). */
static bool is_of_state(const Graph *g, int value) {
    const Node *root = graph_producer(g, value);
    while (op_table[root->op].view || root->op == OP_convert)
        root = graph_producer(g, root->in[0]);
    return root->op == OP_read;
}

/* Whether it goes from the ranks of one stage to those of another. */
static bool is_send(const Graph *g, const Node *convert) {
    const int from = stage_of(g, convert->in[0]), to = stage_of(g, convert->out[0]);
    return from >= 0 && to >= 0 && from != to && !layout_is_partial(g->values.at[convert->in[0]].layout) && !is_of_state(g, convert->in[0]);
}

/* Conversions of kernels' results that are in no bucket, in the order of use. */
static Joined *conversions_of_values(const Values *v, int *n) {
    const Graph *g = &v->b->spmd.graph;
    Joined *all = arena_alloc(v->b->arena, sizeof *all * (size_t)(g->nodes.n + 1));
    *n = 0;
    for (int id = 0; id < g->nodes.n; id++) {
        const Node *node = &g->nodes.at[id];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || v->buckets->of[id] >= 0 || v->position[id] < 0) continue;
        const int source = g->values.at[node->in[0]].node;
        if (stage_of(g, node->in[0]) != stage_of(g, node->out[0]) && !is_send(g, node)) continue;
        if (g->nodes.at[source].op != OP_convert && !node_is_leaf(&g->nodes.at[source]))
            all[(*n)++] = (Joined){.node = id, .source = v->position[source], .user = v->position[id]};
    }
    qsort(all, (size_t)*n, sizeof *all, by_user);
    return all;
}

static int by_source(const void *a, const void *b) {
    const Joined *x = a, *y = b;
    return x->source != y->source ? x->source - y->source : by_user(a, b);
}

/* Sets the times of n conversions, in the order of use. For sends between stages: as if the receiver were waiting when the first source is made. */
static void joined_times(const Values *v, Joined *joined, int n) {
    const Graph *g = &v->b->spmd.graph;
    const Node *node = &g->nodes.at[joined[0].node];
    const double *made = v->begin_s[stage_of(g, node->in[0]) + 1], *used = v->begin_s[stage_of(g, node->out[0]) + 1];
    const double first = made[joined[0].source + 1], shift = made == used ? 0 : first - used[joined[0].user];
    for (int m = 0; m < n; m++) {
        joined[m].ready_s = made[joined[m].source + 1];
        joined[m].use_s = used[joined[m].user] + shift;
    }
}

/* Whether kernels wait less if n conversions, in the order of use, are one, which starts with the last source and is needed by the first user. Counted as in the timeline. */
static bool is_faster(const Values *v, int n) {
    const Build *b = v->b;
    const Graph *g = &b->spmd.graph;
    const Machine *machine = options_machine(b->options);
    Joined *joined = v->joined;
    double apart = 0, link = 0, together = 0, most = 0;
    joined_times(v, joined, n);
    const double use_s = joined[0].use_s;
    qsort(joined, (size_t)n, sizeof *joined, by_source);
    for (int m = 0; m < n; m++) {
        const Node *node = &g->nodes.at[joined[m].node];
        const MoveSeconds its = seconds_of(b, node);
        joined[m].seconds = move_seconds(its);
        joined[m].end_s = link = fmax(link, joined[m].ready_s) + machine->overlap * joined[m].seconds;
        most = fmax(most, its.messages_s);
        together += its.bytes_s;
    }
    together += most;
    const double end = joined[n - 1].ready_s + machine->overlap * together;
    qsort(joined, (size_t)n, sizeof *joined, by_user);
    for (int m = 0; m < n; m++)
        apart += fmax(0, joined[m].end_s - joined[m].use_s - apart) + (1 - machine->overlap) * joined[m].seconds;
    return fmax(0, end - use_s) + (1 - machine->overlap) * together < apart;
}

/* The task of the kernel at a position; after the last, where results are reported: -1. */
static int task_at(const Values *v, int position) {
    return position < v->n ? v->task[v->order[position]] : -1;
}

/* Whether they are of one kind, between the same stages, in the same tasks. */
static bool are_alike(const Values *v, const Joined *a, const Joined *b) {
    const Graph *g = &v->b->spmd.graph;
    const Node *x = &g->nodes.at[a->node], *y = &g->nodes.at[b->node];
    if (x->comm != y->comm || g->values.at[x->in[0]].type.dtype != g->values.at[y->in[0]].type.dtype) return false;
    if (stage_of(g, x->in[0]) != stage_of(g, y->in[0]) || stage_of(g, x->out[0]) != stage_of(g, y->out[0])) return false;
    return v->task == NULL || (task_at(v, a->source) == task_at(v, b->source) && task_at(v, a->user) == task_at(v, b->user));
}

/* Collects in *bucket, in the order of use, the first of n conversions and those after it that may join it and are not taken. */
static void gather_bucket(const Values *v, const Joined *all, int n, Bucket *bucket) {
    const Build *b = v->b;
    const Graph *g = &b->spmd.graph;
    const Node *first = &g->nodes.at[all[0].node];
    *bucket = (Bucket){.kind = first->comm, .dtype = g->values.at[first->in[0]].type.dtype};
    for (int k = 0; k < n && bucket->tensor_bytes < g->settings.bucket_bytes && all[k].user - all[0].user < NEAR; k++) {
        const Node *node = &g->nodes.at[all[k].node];
        const int64_t from = b->spmd.box_bytes[node->in[0]], to = b->spmd.box_bytes[node->out[0]];
        if (v->taken[all[k].node] || all[k].source >= all[0].user || !are_alike(v, &all[0], &all[k])) continue;
        v->joined[bucket->members.n] = all[k];
        vec_push(b->arena, &bucket->members, all[k].node);
        bucket->tensor_bytes += from > to ? from : to;
    }
}

/* When kernels begin, those of each stage by themselves. */
static double **stages_begin(const Build *b, const int *order, int n) {
    const Graph *g = &b->spmd.graph;
    const int nstages = settings_stages(&g->settings) > 1 ? settings_stages(&g->settings) : 0;
    double **begin_s = arena_alloc(b->arena, sizeof *begin_s * (size_t)(nstages + 1));
    begin_s[0] = kernels_begin(b, order, n);
    for (int s = 0; s < nstages; s++) {
        begin_s[s + 1] = arena_alloc(b->arena, sizeof **begin_s * ((size_t)n + 1));
        for (int p = 0; p < n; p++) {
            const Node *node = &g->nodes.at[order[p]];
            const bool own = node->nout > 0 && stage_of(g, node->out[0]) == s;
            begin_s[s + 1][p + 1] = begin_s[s + 1][p] + (own ? begin_s[0][p + 1] - begin_s[0][p] : 0);
        }
    }
    return begin_s;
}

void buckets_of_values(Build *b, Buckets *buckets, const int *order, int n, const int *position, const int *task) {
    const Graph *g = &b->spmd.graph;
    Values v = {.b = b, .buckets = buckets, .n = n, .order = order, .position = position, .task = task};
    int nall;
    const Joined *all = conversions_of_values(&v, &nall);
    if (g->settings.bucket_bytes == 0 || nall < (task != NULL ? 2 : FEW)) return;
    v.begin_s = stages_begin(b, order, n);
    v.joined = arena_alloc(b->arena, sizeof *v.joined * (size_t)nall);
    v.taken = arena_alloc(b->arena, (size_t)g->nodes.n + 1);
    for (int first = 0; first < nall; first++) {
        Bucket bucket;
        if (v.taken[all[first].node]) continue;
        gather_bucket(&v, all + first, nall - first, &bucket);
        if (bucket.members.n < (is_send(g, &g->nodes.at[all[first].node]) ? 2 : FEW)) continue;
        const bool faster = is_faster(&v, bucket.members.n);
        for (int m = 0; m < bucket.members.n; m++) {
            v.taken[bucket.members.at[m]] = true;
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
