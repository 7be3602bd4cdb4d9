/* copy: a graph made anew from another, node by node. Passes that rewrite graphs share it. */
#pragma once
#include "ir/graph.h"

typedef struct GraphCopy {
    Graph *to; /* being built, of graph_derive */
    Graph from;
    int *node;        /* per node of from: the one of `to` that stands for it, -1: none yet */
    int *value;       /* per value of from: likewise */
    bool values_kept; /* to has the values of from under the same numbers: nodes alone are made */
} GraphCopy;

/* An empty graph, in the same arena, of the net that `from` is of: its names, ranks and settings. States, dims and the rest are the caller's to give. */
void graph_over(Graph *graph, const Graph *from);
/* Empties *graph, which becomes the copy of what it was; that stays, as copy->from. nnodes, nvalues: room. */
void copy_begin(GraphCopy *copy, Graph *graph, int nnodes, int nvalues);
/* The same, but *graph keeps its values and their numbers. */
void copy_begin_nodes(GraphCopy *copy, Graph *graph, int nnodes, int nvalues);
/* For copies that are added to *graph itself: nodes and values stand for themselves until copy_node puts others in their place. */
void copy_begin_again(GraphCopy *copy, Graph *graph);
/* Adds a node that stands for node `id` of from, with results of the same names and types: `node` is that one, maybe with other attributes, whose operands are values of
 * `to` already. Its origin becomes what stands for its origin. Returns its number. */
int copy_node(GraphCopy *copy, int id, Node node);
/* Adds the nodes of a template in place of node `id` of from. Each of its results, but those that are operands of the node, has the name of what it replaces; what
 * gives the first stands for the node. `node` is that one, its operands values of `to`, its origin a node of `to`. */
void copy_expand(GraphCopy *copy, int id, const Node *node, ExpandFn *expand);
Node copy_operands(const GraphCopy *copy, int id);   /* node `id` of from, with the operands that stand for its operands */
void copy_stands(GraphCopy *copy, int id, int node); /* node of `to` stands for node `id` of from, each result for its own */
/* After all nodes up to and including `id` have been copied: the forward part ends where that of from did. */
void copy_forward(GraphCopy *copy, int id);
void copy_reports(GraphCopy *copy); /* the loss and what else is reported, once all nodes are there */
