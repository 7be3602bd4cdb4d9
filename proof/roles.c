/* The roles of a program together. steps.c proves by each role itself what its ranks hold. This file proves that a communication is started by all roles whose ranks take part,
 * that it is the same in all of them, and that roles never wait for each other in a circle.
 *
 * What a wait needs from other ranks, with any communicator (docs/proof.md): a receiver needs its sender to have started; a sender needs its receiver to have reached its own wait,
 * as until then the sender's tensor is read in place. Where sums are completed, every rank needs all others to have reached their waits, as ranks then pass on what they have added
 * up. */
#include "proof/internal.h"

#include <stdlib.h>
#include <string.h>

/* Where each role has a request: [role][request], -1: it does not. */
typedef struct Calls {
    const Plan *plan;
    const Program *program;
    Error *error;
    int nroles, nrequests;
    int *start, *wait;
    int *next; /* per role, its next step */
} Calls;

static const Role *role_of(const Calls *c, int role) {
    return &c->program->roles.at[role];
}
static int start_of(const Calls *c, int role, int request) {
    return c->start[role * c->nrequests + request];
}
static const Step *step_of(const Calls *c, int role, int request) {
    return &role_of(c, role)->steps.at[start_of(c, role, request)];
}
static const Layout *layout_of(const Calls *c, int role, int instance) {
    return role_of(c, role)->instances.at[instance].layout;
}

static bool reject(const Calls *c, int role, int step, const char *text) {
    const Role *at = role_of(c, role);
    const StepLabel label = step_label(&c->plan->graph, at, &at->steps.at[step]);
    return error_set(c->error, EXIT_INTERNAL, "program %s, role %d-%d, step %d: %s of %s: %s", c->program->name, at->first_rank,
                     at->last_rank, step, label.what, label.of, text);
}

static bool role_has(const Role *role, const Layout *layout) {
    for (int rank = role->first_rank; rank <= role->last_rank; rank++)
        if (own_has_rank(layout, rank)) return true;
    return false;
}

static void find_calls(const Calls *c) {
    for (int i = 0; i < c->nroles * c->nrequests; i++)
        c->start[i] = c->wait[i] = -1;
    for (int r = 0; r < c->nroles; r++)
        for (int s = 0; s < role_of(c, r)->steps.n; s++) {
            const Step *step = &role_of(c, r)->steps.at[s];
            if (step->kind == STEP_START) c->start[r * c->nrequests + step->request] = s;
            if (step->kind == STEP_WAIT) c->wait[r * c->nrequests + step->request] = s;
        }
}

/* The request that is started next in the same bucket; -1: none. */
static int joined(const Calls *c, int role, int request) {
    const Role *at = role_of(c, role);
    const int next = start_of(c, role, request) + 1;
    const Step *step = &at->steps.at[next - 1];
    const bool together =
        step->bucket > 0 && next < at->steps.n && at->steps.at[next].kind == STEP_START && at->steps.at[next].bucket == step->bucket;
    return together ? at->steps.at[next].request : -1;
}

/* Checks that a request is the same communication in all roles that have it, and that ranks of other roles hold neither its source nor its
 * target. */
static bool same_request(const Calls *c, int request) {
    int first = 0;
    while (first < c->nroles && start_of(c, first, request) < 0)
        first++;
    if (first == c->nroles) return true; /* a number that no role uses */
    const Step *one = step_of(c, first, request);
    const Layout *from = layout_of(c, first, one->in[0]), *to = layout_of(c, first, one->out[0]);
    for (int r = 0; r < c->nroles; r++) {
        if (start_of(c, r, request) < 0) {
            if (role_has(role_of(c, r), from) || role_has(role_of(c, r), to))
                return reject(c, first, start_of(c, first, request), "ranks of another role take part, which does not start it");
            continue;
        }
        const Step *other = step_of(c, r, request);
        if (other->comm != one->comm ||
            role_of(c, r)->instances.at[other->in[0]].value != role_of(c, first)->instances.at[one->in[0]].value ||
            !layout_equal(layout_of(c, r, other->in[0]), from) || !layout_equal(layout_of(c, r, other->out[0]), to))
            return reject(c, r, start_of(c, r, request), "it is another communication in another role");
        if (joined(c, r, request) != joined(c, first, request))
            return reject(c, r, start_of(c, r, request), "it runs as one with other communications than in another role");
    }
    return true;
}

/* Whether a role that is at its wait may go on. */
static bool may_pass(const Calls *c, int role, int request) {
    const Step *own = step_of(c, role, request);
    const Layout *from = layout_of(c, role, own->in[0]), *to = layout_of(c, role, own->out[0]);
    const bool sums = layout_is_partial(from), sends = role_has(role_of(c, role), from);
    for (int r = 0; r < c->nroles; r++) {
        if (r == role || start_of(c, r, request) < 0) continue;
        if (c->next[r] <= start_of(c, r, request)) return false;
        const bool comes = sums || (sends && role_has(role_of(c, r), to));
        if (comes && c->next[r] < c->wait[r * c->nrequests + request]) return false;
    }
    return true;
}

/* Runs each role as far as it can go, until all are at their ends. A start waits for nothing. */
static bool all_end(Calls *c) {
    bool any = true;
    for (int r = 0; r < c->nroles; r++)
        c->next[r] = 0;
    while (any) {
        any = false;
        for (int r = 0; r < c->nroles; r++)
            for (; c->next[r] < role_of(c, r)->steps.n; c->next[r]++, any = true) {
                const Step *step = &role_of(c, r)->steps.at[c->next[r]];
                if (step->kind == STEP_WAIT && !may_pass(c, r, step->request)) break;
            }
    }
    for (int r = 0; r < c->nroles; r++)
        if (c->next[r] < role_of(c, r)->steps.n) return reject(c, r, c->next[r], "it waits for ever: roles wait for each other");
    return true;
}

bool roles_check(const Plan *plan, const Program *program, Error *error) {
    Calls c = {.plan = plan, .program = program, .error = error, .nroles = program->roles.n, .nrequests = program_requests(program)};
    int end = 0;
    for (int r = 0; r < c.nroles; end = role_of(&c, r++)->last_rank + 1)
        if (role_of(&c, r)->first_rank != end || role_of(&c, r)->last_rank < end) break;
    if (end != plan->graph.nranks)
        return error_set(error, EXIT_INTERNAL, "program %s: its roles do not have every rank once", program->name);
    if (c.nroles == 1)
        return true; /* all ranks issue the same communications in the same order, and the earliest unfinished one can always finish */
    const size_t calls = (size_t)c.nroles * (size_t)c.nrequests;
    c.start = malloc((2 * calls + (size_t)c.nroles + 1) * sizeof *c.start);
    if (!c.start) return error_set(error, EXIT_ENVIRONMENT, "out of memory in the proof");
    c.wait = c.start + calls;
    c.next = c.wait + calls;
    find_calls(&c);
    bool ok = true;
    for (int request = 0; ok && request < c.nrequests; request++)
        ok = same_request(&c, request);
    ok = ok && all_end(&c);
    free(c.start);
    return ok;
}
