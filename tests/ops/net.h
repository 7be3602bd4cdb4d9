/* A net compiled from text in memory and executed under comm/local: what tests of the runtime run. */
#pragma once
#include "compiler/compiler.h"
#include "runtime/executor.h"

typedef struct Net {
    Arena arena;
    Diags diags;
    const char *text; /* of the plan */
    Plan plan;        /* read back from it, as prun does */
    Comm *comm;
    Device device;
    Executor *executor;
    Error error;
} Net;

/* replicas 0: as many as ranks. optimize: 0 to 2. False: net->error says why, diagnostics included; close it all the same. */
bool net_compile(Net *net, const char *text, int nranks, int replicas, int optimize);
bool net_load(Net *net);                                                           /* the executor, states with their initial values */
bool net_open(Net *net, const char *text, int nranks, int replicas, int optimize); /* both */
void net_close(Net *net);
int net_state(const Net *net, const char *name); /* its id, -1: none */
double *net_values(Net *net, const char *name);  /* of a state, whole; in the arena, NULL: failed */
double net_loss(Net *net);                       /* of the first driven rank after a step */
