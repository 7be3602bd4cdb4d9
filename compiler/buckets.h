/* buckets: which communications of gradients run as one (-O2). */
#pragma once
#include "compiler/compiler.h"

/* Communications that are started and waited for together. */
typedef struct Bucket {
    VEC(int) members; /* convert nodes, in the order in which their sources become ready */
    CommKind kind;
    DType dtype;
    int64_t tensor_bytes,
        flight_bytes; /* of a rank: what is joined, by the larger side (a gather's result); what is kept while it is in flight */
    int ready, due;   /* key of the kernel that makes the last source; key at which it must end */
    int turn;         /* among the gradients' buckets, by ready: 0 is the first, and its updates come first */
    int number;       /* in the plan, from 1 in the order of the starts; 0: not started, or alone by the user's wish */
} Bucket;
typedef struct Buckets {
    VEC(Bucket) at;
    int *of; /* per node of spmd: its bucket, -1: none */
} Buckets;

void buckets_init(Build *b, Buckets *buckets);
/* Joins the reductions of gradients: sums of kernels' results that only updates take; for ranks on several nodes reported sums too, where that takes no longer. key: per node of spmd its place in the order of kernels;
 * end: after the last one. Sets ready and due. */
void buckets_of_gradients(Build *b, Buckets *buckets, const int *key, int end);
/* Joins conversions of values whose sources are all made before the first result is used, where that is faster: their latencies count once, but none overlaps with the kernels between the sources.
 * order[0 .. n): the kernels; position: of each in it, of a convert that of its first user, below 0 without one; task: per node, in a pipeline (tasks.h), else NULL. */
void buckets_of_values(Build *b, Buckets *buckets, const int *order, int n, const int *position, const int *task);
/* Joins the gathers of states that were updated in parts: key of the updates is known now. */
void buckets_of_updates(Build *b, Buckets *buckets, const int *key);
