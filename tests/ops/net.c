#include "tests/ops/net.h"

#include <string.h>

#include "tests/ops/device.h"

bool net_compile(Net *net, const char *text, int nranks, int replicas, int optimize) {
    memset(net, 0, sizeof *net);
    arena_init(&net->arena);
    diags_init(&net->diags, &net->arena);
    plan_init(&net->plan, &net->arena);
    Options options = {.input = "net.dsl",
                       .output = "net.plan",
                       .optimize = optimize,
                       .prove = true,
                       .no_plan = true,
                       .redistribution = REDISTRIBUTE_AUTO,
                       .overrides = {.nranks = nranks, .replicas = replicas, .search = "sharding_propagation"}};
    Compilation c;
    bool ok = compile(&c, &net->arena, &options, &net->diags, text, strlen(text));
    if (ok) {
        net->text = arena_copy(&net->arena, c.text.at, c.text.n);
        ok = plan_read(&net->plan, &net->arena, "net.plan", net->text, c.text.n, 0, &net->error);
    } else if (!c.error.reported) {
        net->error = c.error;
    } else {
        const char *first = "no diagnostics";
        for (int i = net->diags.items.n - 1; i >= 0; i--)
            if (net->diags.items.at[i].kind == DIAG_ERROR) first = net->diags.items.at[i].text;
        error_set(&net->error, EXIT_REJECTED, "%s", first);
    }
    compilation_finish(&c);
    return ok;
}

bool net_load(Net *net) {
    net->comm = comm_local_create(net->plan.graph.nranks, &net->error);
    if (!net->comm) return false;
    if (!test_device(&net->device, &net->comm, &net->error)) return false;
    net->executor = executor_create(&net->plan, "train", &net->device, net->comm, ".", 1, &net->error);
    return net->executor != NULL;
}

bool net_open(Net *net, const char *text, int nranks, int replicas, int optimize) {
    return net_compile(net, text, nranks, replicas, optimize) && net_load(net);
}

void net_close(Net *net) {
    executor_destroy(net->executor);
    if (net->comm) net->comm->table->destroy(net->comm);
    device_close(&net->device);
    arena_finish(&net->arena);
}

int net_state(const Net *net, const char *name) {
    for (int i = 0; i < net->plan.graph.states.n; i++)
        if (strcmp(net->plan.graph.states.at[i].name, name) == 0) return i;
    return -1;
}

double *net_values(Net *net, const char *name) {
    double *whole;
    int state = net_state(net, name);
    return state >= 0 && executor_gather_state(net->executor, state, &net->arena, &whole, &net->error) ? whole : NULL;
}

double net_loss(Net *net) {
    const double *losses;
    return executor_losses(net->executor, 0, &losses) > 0 ? losses[0] : 0;
}
