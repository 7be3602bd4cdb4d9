/* copy: builds a graph from another, node by node. Passes that rewrite graphs share it. */
#pragma once
#include "ir/graph.h"

typedef struct GraphCopy {
    Graph *to; /* the graph under construction, from graph_derive */
    Graph from;
    int *node;        /* per node of from: the node of `to` that stands for it, -1: none yet */
    int *value;       /* per value of from: likewise */
    bool values_kept; /* `to` has the values of from under the same numbers: only nodes are added */
} GraphCopy;

/* An empty graph for the same net as `from`, in the same arena, with its names, ranks and settings. The caller gives it states, dims and the rest. */
void graph_over(Graph *graph, const Graph *from);
/* Empties *graph, to be filled with a copy of what it was; the original stays as copy->from. nnodes, nvalues: room. */
void copy_begin(GraphCopy *copy, Graph *graph, int nnodes, int nvalues);
/* The same, but *graph keeps its values and their numbers. */
void copy_begin_nodes(GraphCopy *copy, Graph *graph, int nnodes, int nvalues);
/* For copies that are added to *graph itself: nodes and values stand for themselves until copy_node puts others in their place. */
void copy_begin_again(GraphCopy *copy, Graph *graph);
/* Adds a node that stands for node `id` of from, with results of the same names and types. `node` is node `id`, maybe with other attributes; its operands are values of
 * `to` already. Its origin becomes the node that stands for its origin. Returns its number. */
int copy_node(GraphCopy *copy, int id, Node node);
/* Adds the nodes of a template in place of node `id` of from. Each result that is no operand of the node gets the name of the result that it replaces; the producer of
 * the first one stands for the node. `node` is node `id`, with operands and origin of `to`. */
void copy_expand(GraphCopy *copy, int id, const Node *node, ExpandFn *expand);
Node copy_operands(const GraphCopy *copy, int id);   /* node `id` of from, with the operands that stand for its operands */
void copy_stands(GraphCopy *copy, int id, int node); /* `node` of `to` now stands for node `id` of from, and its results for the results */
/* To be called after all nodes up to and including `id` were copied: ends the forward part of `to` where that of from ends. */
void copy_forward(GraphCopy *copy, int id);
void copy_reports(GraphCopy *copy); /* copies the loss and the other reports, once all nodes are there */
