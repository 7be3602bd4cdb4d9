/* explain_index: of a whole program, which nodes take what, and where each is computed: found once, for explanations of many values. */
#pragma once
#include "compiler/build.h"
#include "compiler/facts.h"
#include "compiler/held.h"
#include "compiler/timeline.h"
#include "ir/map.h"

/* Numbers in lists by a key: each_in (&lists, key, number). */
typedef struct Lists {
    int *first, *last; /* per key; -1: none */
    int *next;         /* per number */
} Lists;
#define each_in(lists, key, number) for (int number = (lists)->first[key]; number >= 0; number = (lists)->next[number])

/* What a role of the program does. */
typedef struct RoleIndex {
    Facts *facts;
    Timeline *timeline;
    Held held;
    bool *is_held; /* per value: it is in the arena when that is fullest */
    int *taken_as; /* per instance of the plan the value of spmd that it is */
    Lists moves;   /* communications of a value */
    Lists buckets; /* communications of a bucket */
    int *event;    /* per step: of the timeline, -1: it takes no time */
    int *step;     /* per node: the kernel that computes it, -1 */
} RoleIndex;

typedef struct ExplainIndex {
    Arena *arena;
    RoleIndex *role;     /* of all roles */
    int nroles, fullest; /* the one whose ranks need the most memory */
    Map values;          /* of the sharded graph, by name */
    Map states, inputs;  /* likewise */
    Map paths;           /* of front.paths */
    struct {
        int *first, *user;
    } users;        /* per value of spmd: the nodes that take it are user[first[v]] .. user[first[v + 1] - 1], in order, each once */
    Lists stands;   /* nodes that stand for one of front.chosen */
    Lists reads[2]; /* nodes that read a state; an input */
    int *update;    /* per state: the node that updates it, -1 */
    int *taker[2];  /* per state, per input: the first node that takes it, -1 */
    int *depth;     /* per node of front.chosen: steps from its hint */
    int *head;      /* per node of it: the node on its way from the hint, at most HEAD_DEPTH steps from there */
} ExplainIndex;
enum { HEAD_DEPTH = 3 };
/* The index of a compiled program; in its arena, made once: b->explained. */
const ExplainIndex *explain_index(Build *b);
/* By name, as the maps have them; -1: there is none. */
int index_value(const ExplainIndex *index, const Graph *g, const char *name);
int index_state(const ExplainIndex *index, const Graph *g, const char *name);
int index_path(const ExplainIndex *index, const Build *b, const char *path); /* of b->front.paths */
int index_input(const ExplainIndex *index, const Graph *g, const char *name);
