/* Recounts what a plan says about itself beside its steps. */
#include "proof/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 1 << 22 };

/* What each rank sends in one communication, counted from the pieces of all receivers. */
typedef struct Sent {
    int64_t *elements; /* per rank */
    int64_t pieces;    /* seen so far, in all communications */
} Sent;

static bool count_piece(void *context, const Piece *piece) {
    Sent *sent = context;
    if (piece->from != piece->to) sent->elements[piece->from] += piece->count;
    return ++sent->pieces <= MOST_PIECES;
}

/* One communication that was counted. */
typedef struct Counted {
    CommKind kind;
    const Layout *from, *to;
    Shape shape;
    int64_t most; /* elements that the busiest rank sends */
} Counted;
typedef struct CountedList {
    Counted *at;
    int n, cap;
} CountedList;

/* Elements that the busiest rank sends; -1: too many pieces, or no memory. */
static int64_t busiest(const Plan *plan, const Role *role, const Step *step, Sent *sent, CountedList *list) {
    const Instance *from = &role->instances.at[step->in[0]], *to = &role->instances.at[step->out[0]];
    const Shape *shape = &plan->graph.values.at[from->value].type.shape;
    for (int i = 0; i < list->n; i++) {
        const Counted *c = &list->at[i];
        if (c->kind == step->comm && c->from == from->layout && c->to == to->layout && shape_equal(&c->shape, shape)) return c->most;
    }
    const int nranks = plan->graph.nranks;
    Layout run_from = *from->layout, run_to = *to->layout;
    comm_layouts(step->comm, nranks, &run_from, &run_to);
    memset(sent->elements, 0, (size_t)nranks * sizeof *sent->elements);
    int64_t most = 0;
    for (int rank = 0; rank < nranks; rank++)
        if (!pieces_received(&run_from, &run_to, shape, nranks, rank, count_piece, sent)) return -1;
    for (int rank = 0; rank < nranks; rank++)
        if (sent->elements[rank] > most) most = sent->elements[rank];
    if (list->n == list->cap) {
        int cap = list->cap ? 2 * list->cap : 32;
        Counted *at = realloc(list->at, (size_t)cap * sizeof *at);
        if (!at) return -1;
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = (Counted){.kind = step->comm, .from = from->layout, .to = to->layout, .shape = *shape, .most = most};
    return most;
}

/* Bytes that the busiest ranks of a role send in a step; -1: too many pieces, or no memory. A role that only receives sends nothing, unless
 * it adds up sums, which it passes on. */
static int64_t role_sent(const Plan *plan, const Role *role, Sent *sent, CountedList *list) {
    int64_t bytes = 0;
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind != STEP_START) continue;
        const Instance *from = &role->instances.at[step->in[0]];
        if (from->place == PLACE_ELSEWHERE && !layout_is_partial(from->layout)) continue;
        const int64_t most = busiest(plan, role, step, sent, list);
        if (most < 0) return -1;
        bytes += most * dtype_bytes[plan->graph.values.at[from->value].type.dtype];
    }
    return bytes;
}

/* Checks `sent`; with several roles, the plan gives that of the role that sends the most. */
static bool sent_check(const Plan *plan, const Program *program, Text *text, Error *error) {
    Sent sent = {.elements = malloc((size_t)plan->graph.nranks * sizeof *sent.elements)};
    CountedList list = {0};
    const int nroles = program->roles.n;
    int64_t bytes = 0;
    bool counted = sent.elements != NULL;
    for (int r = 0; counted && r < nroles; r++) {
        const int64_t own = role_sent(plan, &program->roles.at[r], &sent, &list);
        counted = own >= 0;
        bytes = own > bytes ? own : bytes;
    }
    free(sent.elements);
    free(list.at);
    if (!counted)
        text_printf(text, "  sent: not counted again, on %d ranks the pieces are too many\n", plan->graph.nranks);
    else if (bytes != program->sent_bytes)
        return error_set(error, EXIT_REJECTED, "program %s: it says sent=%" PRId64 ", its communications send %" PRId64 " bytes",
                         program->name, program->sent_bytes, bytes);
    else
        text_printf(text, "  sent: program %s sends %" PRId64 " bytes a step%s, as it says\n", program->name, bytes,
                    nroles > 1 ? " in the role that sends most" : "");
    return true;
}

static bool replicas_check(const Plan *plan, Error *error) {
    const Graph *graph = &plan->graph;
    if (!mode_hides(graph->settings.mode) && graph->replicas != 0)
        return error_set(error, EXIT_REJECTED, "it says replicas %d, which there are in modes data_parallel and manual alone",
                         graph->replicas);
    for (int v = 0; v < graph->values.n; v++) {
        const Value *value = &graph->values.at[v];
        if (value->type.hidden && value->type.shape.dim[0] != graph->replicas)
            return error_set(error, EXIT_REJECTED, "it says replicas %d, %s has %" PRId64, graph->replicas, value->name,
                             value->type.shape.dim[0]);
    }
    return true;
}

bool proof_header(const Plan *plan, Text *text, Error *error) {
    if (!replicas_check(plan, error)) return false;
    for (int p = 0; p < plan->programs.n; p++) {
        const Plan part = plan_part(plan, p);
        if (!replicas_check(&part, error)) return false;
    }
    text_printf(text, "  replicas: %d, as the graph has them\n", plan->graph.replicas);
    if (!settings_check(plan, error)) return false;
    text_printf(text, "  settings: optimizer, clipping, batches, gradients, buckets, data, mesh and evaluation are those of the graphs\n");
    for (int p = 0; p < plan->programs.n; p++) {
        const Plan part = plan_part(plan, p);
        if (!sent_check(&part, &part.programs.at[0], text, error)) return false;
    }
    text_printf(text, "  hash: not checked, it is of the net before simplification, which the plan does not hold\n");
    return true;
}
