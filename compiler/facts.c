/* What a program of a plan does, and the least that it could: sums over its steps, each distinct conversion counted once. */
#include "compiler/facts.h"

#include "ir/workspace.h"

/* What one conversion moves, in elements; counted once, however many steps do it. */
typedef struct Counted {
    CommKind kind;
    const Layout *from, *to; /* interned */
    Shape shape;
    bool stepped, bounded; /* what has been counted */
    Traffic sent, received, bound;
    struct Counted *next;
} Counted;

static Counted *counted_of(Facts *facts, CommKind kind, const Layout *from, const Layout *to, const Shape *shape, Arena *arena) {
    for (Counted *at = facts->counted; at != NULL; at = at->next)
        if (at->kind == kind && at->from == from && at->to == to && shape_equal(&at->shape, shape)) return at;
    Counted *made = arena_alloc(arena, sizeof *made);
    *made = (Counted){.kind = kind, .from = from, .to = to, .shape = *shape, .next = facts->counted};
    return facts->counted = made;
}

static const TensorType *type_of(const Facts *facts, int instance) {
    return &facts->graph->values.at[facts->role->instances.at[instance].value].type;
}

static Traffic in_bytes(Traffic elements, const TensorType *type) {
    const int64_t bytes = dtype_bytes[type->dtype];
    return (Traffic){elements.total * bytes, elements.max * bytes};
}

static Traffic traffic_sum(Traffic a, Traffic b) {
    return (Traffic){a.total + b.total, a.max + b.max};
}

/* Bytes of the largest box of any rank of the role. */
static int64_t largest_bytes(const Facts *facts, const TensorType *type, const Layout *layout) {
    if (layout == NULL || !layout_has_ranks(layout, facts->role->first_rank, facts->role->last_rank))
        return 0; /* NULL: of a plan without a program */
    return layout_max_bytes(layout, type);
}

static bool in_role(const Facts *facts, const Layout *layout) {
    return layout_has_ranks(layout, facts->role->first_rank, facts->role->last_rank);
}

/* ---------------------------------------------------------------- what is moved */

static void count_communication(Facts *facts, int number, Arena *arena) {
    const Step *step = &facts->role->steps.at[number];
    const Instance *from = &facts->role->instances.at[step->in[0]], *to = &facts->role->instances.at[step->out[0]];
    const TensorType *type = type_of(facts, step->in[0]);
    Counted *counted = counted_of(facts, step->comm, from->layout, to->layout, &type->shape, arena);
    if (!counted->stepped)
        traffic_step(step->comm, from->layout, to->layout, &type->shape, facts->graph->nranks, &counted->received, &counted->sent);
    counted->stepped = true;
    Communication made = {.kind = step->comm,
                          .step = number,
                          .value = from->value,
                          .from = step->in[0],
                          .to = step->out[0],
                          .bucket = step->bucket,
                          .sent = in_bytes(counted->sent, type),
                          .received = in_bytes(counted->received, type)};
    if (!in_role(facts, from->layout) && !layout_is_partial(from->layout))
        made.sent = (Traffic){0}; /* sums are passed on by those that add them up */
    if (!in_role(facts, to->layout)) made.received = (Traffic){0};
    KindFacts *kind = &facts->kind[made.kind];
    vec_push(arena, &facts->communications, made);
    kind->count++;
    kind->sent += made.sent.max;
    kind->received += made.received.max;
    facts->all.count += made.kind != COMM_STRIDED_SLICE;
    facts->sent = traffic_sum(facts->sent, made.sent);
    facts->received = traffic_sum(facts->received, made.received);
    facts->all.sent = facts->sent.max;
    facts->all.received = facts->received.max;
}

/* ---------------------------------------------------------------- what is held */

/* Bytes of the states of the rank of the role that has most: some may lie on one rank alone. */
static int64_t most_states(const Facts *facts, Arena *arena) {
    const Graph *graph = facts->graph;
    const int first = facts->role->first_rank, n = facts->role->last_rank - first + 1;
    int64_t *own = arena_alloc(arena, sizeof *own * (size_t)(n + 1)), all = 0, most = 0;
    for (int s = 0; s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        const bool one = state->layout != NULL && state->layout->pin.digit.size == graph->nranks;
        if (!one)
            all += largest_bytes(facts, &state->type, state->layout);
        else if (in_role(facts, state->layout))
            own[state->layout->pin.value - first] += layout_max_bytes(state->layout, &state->type);
    }
    for (int r = 0; r < n; r++)
        if (own[r] > most) most = own[r];
    return all + most;
}

static void count_memory(Facts *facts, const Machine *machine, Arena *arena) {
    const Graph *graph = facts->graph;
    facts->states = most_states(facts, arena);
    facts->states_whole = graph_states_bytes(graph);
    for (int s = 0; s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        const int64_t elements = shape_elements(&state->type.shape);
        facts->nparameters += state->trainable;
        facts->parameters += state->trainable ? elements : 0;
    }
    for (int i = 0; i < graph->inputs.n; i++) {
        const int copies = data_rows_change(graph->settings.data) && graph->inputs.at[i].kind == INPUT_DATA
                               ? 2
                               : 1; /* the next batch is loaded while a step runs */
        facts->inputs += copies * largest_bytes(facts, &graph->inputs.at[i].type, graph->inputs.at[i].layout);
    }
    for (int i = 0; i < facts->role->instances.n; i++) {
        const Instance *instance = &facts->role->instances.at[i];
        const bool own =
            instance->place == PLACE_CONSTANT && graph_producer(graph, instance->value)->op == OP_constant; /* not a view of one */
        if (own) facts->constants += largest_bytes(facts, type_of(facts, i), instance->layout);
    }
    facts->inner = inner_room(graph, facts->role, NULL);
    if (machine != NULL && machine->cuda) facts->workspace = role_workspace(graph, facts->role);
    facts->rank_bytes = facts->role->arena_bytes + facts->inner + facts->states + facts->inputs + facts->constants + facts->workspace;
}

static void count_place(Facts *facts, int instance) {
    const Instance *at = &facts->role->instances.at[instance];
    facts->ninner += at->place == PLACE_INNER;
    facts->views += at->place == PLACE_VIEW;
    if (at->place == PLACE_VIEW) facts->view_bytes += largest_bytes(facts, type_of(facts, instance), at->layout);
}

void facts_init(Facts *facts, const Graph *graph, const Program *program, int role, const Machine *machine, Arena *arena) {
    *facts = (Facts){.graph = graph, .program = program, .role = &program->roles.at[role]};
    for (int i = 0; i < facts->role->instances.n; i++)
        count_place(facts, i);
    for (int s = 0; s < facts->role->steps.n; s++) {
        if (facts->role->steps.at[s].fused > 0) facts->fused_kernels++, facts->fused_steps = facts->role->steps.at[s].fused;
        const StepKind kind = facts->role->steps.at[s].kind;
        if (kind == STEP_START || kind == STEP_LOCAL) count_communication(facts, s, arena);
    }
    count_memory(facts, machine, arena);
}

void facts_flops(Facts *facts, const Strategy *const *strategy, Arena *arena) {
    bool *computed = arena_alloc(arena, (size_t)facts->graph->nodes.n + 1); /* by the role */
    for (int s = 0; s < facts->role->steps.n; s++)
        if (facts->role->steps.at[s].kind == STEP_KERNEL) computed[facts->role->steps.at[s].node] = true;
    for (int n = 0; n < facts->graph->nodes.n; n++) {
        const Node *node = &facts->graph->nodes.at[n];
        double part[MAX_FACTORS];
        if (op_table[node->op].flops == 0) continue;
        facts->flops += rule_flops(node->op, node->rule);
        part_sizes(node->rule, strategy[n], part);
        if (computed[n]) facts->rank_flops += op_flops(node->op, node->rule, part);
    }
}

/* ---------------------------------------------------------------- lower bounds */

static Traffic bound_of(Facts *facts, CommKind kind, const Layout *source, int to, Arena *arena) {
    const TensorType *type = type_of(facts, to);
    const Layout *target = facts->role->instances.at[to].layout;
    Counted *counted = counted_of(facts, kind, source, target, &type->shape, arena);
    if (!counted->bounded) traffic_bound(source, target, &type->shape, facts->graph->nranks, &counted->bound);
    counted->bounded = true;
    return in_bytes(counted->bound, type);
}

/* The instance where the role's conversions to this one begin: this one itself, or one that maybe another role made. */
static int root_of(const Facts *facts, int instance) {
    while (facts->source[instance] >= 0)
        instance = facts->source[instance];
    return instance;
}

/* made: per value the layout in which it is made, NULL: the one that the role's conversions begin with. used: an instance that is used, by an operator or as a report. */
static void raise(Facts *facts, Traffic *least, const Layout *const *made, int used, Arena *arena) {
    const Instance *instances = facts->role->instances.at;
    const int value = instances[used].value;
    const Layout *source = made != NULL ? made[value] : instances[root_of(facts, used)].layout;
    if (source == instances[used].layout) return;
    const Traffic bound = bound_of(facts, COMM_EXCHANGE, source, used, arena); /* the least of any kind */
    if (bound.total > least[value].total) least[value].total = bound.total;
    if (bound.max > least[value].max) least[value].max = bound.max;
}

/* Raises it by everything that the role uses. */
static void raise_uses(Facts *facts, Traffic *least, const Layout *const *made, Arena *arena) {
    const Role *role = facts->role;
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        for (int i = 0; (step->kind == STEP_KERNEL || step->kind == STEP_WRITE) && i < step->nin; i++)
            raise(facts, least, made, step->in[i], arena);
    }
    if (facts->program->loss >= 0) raise(facts, least, made, facts->program->loss, arena);
    for (int r = 0; r < facts->program->reports.n; r++)
        raise(facts, least, made, facts->program->reports.at[r], arena);
}

static Traffic least_sum(const Facts *facts, const Traffic *least) {
    Traffic sum = {0};
    for (int v = 0; v < facts->graph->values.n; v++)
        sum = traffic_sum(sum, least[v]);
    return sum;
}

void facts_bounds(Facts *facts, Arena *arena) {
    const Role *role = facts->role;
    if (facts->least != NULL) return;
    Traffic *least = arena_alloc(arena, sizeof *least * (size_t)(facts->graph->values.n + 1));
    int *source = arena_alloc(arena, sizeof *source * (size_t)(role->instances.n + 1));
    for (int i = 0; i < role->instances.n; i++)
        source[i] = -1;
    for (int c = 0; c < facts->communications.n; c++) {
        Communication *made = &facts->communications.at[c];
        source[made->to] = made->from;
        if (role->instances.at[made->to].place == PLACE_ELSEWHERE) continue; /* what another role receives */
        made->bound = bound_of(facts, made->kind, role->instances.at[made->from].layout, made->to, arena);
        facts->kind[made->kind].bound += made->bound.max;
        facts->all.bound += made->bound.max;
    }
    facts->source = source;
    raise_uses(facts, least, NULL, arena);
    facts->bound = least_sum(facts, least);
    facts->least = least;
}

/* ---------------------------------------------------------------- all roles */

/* Lists communications as the first role that receives has them, with what the senders send. */
static void find_moves(Totals *totals, const Facts *roles, int nroles, Arena *arena) {
    const size_t nrequests = (size_t)program_requests(roles->program) + 1;
    Traffic *sent = arena_alloc(arena, sizeof *sent * nrequests);
    bool *found = arena_alloc(arena, nrequests);
    for (int r = 0; r < nroles; r++)
        for (int i = 0; i < roles[r].communications.n; i++) {
            const Communication *made = &roles[r].communications.at[i];
            const int request = roles[r].role->steps.at[made->step].request;
            if (request >= 0 && made->sent.total > sent[request].total) sent[request] = made->sent;
        }
    for (int r = 0; r < nroles; r++)
        for (int i = 0; i < roles[r].communications.n; i++) {
            Move move = {.facts = &roles[r], .made = roles[r].communications.at[i]};
            const Role *role = roles[r].role;
            const int request = role->steps.at[move.made.step].request; /* -1: a slice of a rank's own */
            if (request >= 0 && (found[request] || role->instances.at[move.made.to].place == PLACE_ELSEWHERE)) continue;
            if (request >= 0) found[request] = true, move.made.sent = sent[request];
            vec_push(arena, &totals->moves, move);
        }
}

/* Per value: in which layout its role makes it. */
static const Layout *const *layouts_made(const Facts *roles, int nroles, Arena *arena) {
    const Layout **made = arena_alloc(arena, sizeof *made * (size_t)(roles->graph->values.n + 1));
    for (int r = 0; r < nroles; r++)
        for (int i = 0; i < roles[r].role->instances.n; i++) {
            const Instance *at = &roles[r].role->instances.at[i];
            if (roles[r].source[i] < 0 && at->place != PLACE_ELSEWHERE) made[at->value] = at->layout;
        }
    return made;
}

void facts_totals(Totals *totals, Facts *roles, int nroles, Arena *arena) {
    *totals = (Totals){.sender = roles, .receiver = roles};
    for (int r = 0; r < nroles; r++) {
        facts_bounds(&roles[r], arena);
        if (roles[r].all.sent > totals->sender->all.sent) totals->sender = &roles[r];
        if (roles[r].all.received > totals->receiver->all.received) totals->receiver = &roles[r];
        if (roles[r].rank_flops > totals->rank_flops) totals->rank_flops = roles[r].rank_flops;
    }
    const Facts *sender = totals->sender, *receiver = totals->receiver;
    for (int k = 0; k < NCOMMS; k++)
        totals->kind[k] =
            (KindFacts){.sent = sender->kind[k].sent, .received = receiver->kind[k].received, .bound = receiver->kind[k].bound};
    totals->all = (KindFacts){.sent = sender->all.sent, .received = receiver->all.received, .bound = receiver->all.bound};
    find_moves(totals, roles, nroles, arena);
    for (int i = 0; i < totals->moves.n; i++) {
        const Communication *made = &totals->moves.at[i].made;
        totals->kind[made->kind].count++;
        totals->all.count += made->kind != COMM_STRIDED_SLICE;
        totals->sent.total += made->sent.total;
        totals->received.total += made->received.total;
    }
    const Layout *const *made = layouts_made(roles, nroles, arena);
    Traffic *least = arena_alloc(arena, sizeof *least * (size_t)(roles->graph->values.n + 1));
    for (int r = 0; r < nroles; r++)
        raise_uses(&roles[r], least, made, arena);
    totals->least = least;
    totals->bound = (Traffic){least_sum(roles, least).total, receiver->bound.max};
    totals->sent.max = sender->all.sent;
    totals->received.max = receiver->all.received;
}
