/* plan: the programs of a plan, written and read; the envelope of format, certificate and checksum (docs/plan.md). */
#include "ir/copy.h"
#include "ir/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const program_kind_name[] = {"train", "eval", "generate", "prompt"};
const char *const place_name[] = {"arena", "state", "input", "constant", "inner", "view", "elsewhere"};
const char *const step_name[] = {"kernel", "local", "start", "wait", "write"};

enum { INNER_ALIGNMENT = 64 };

void plan_init(Plan *plan, Arena *arena) {
    *plan = (Plan){.format = PLAN_FORMAT};
    graph_init(&plan->graph, arena);
}

int plan_find(const Plan *plan, const char *program) {
    for (int p = 0; p < plan->programs.n; p++)
        if (strcmp(plan->programs.at[p].name, program) == 0) return p;
    return -1;
}

int plan_shorter(const Plan *plan, int program) {
    int n = 0;
    while (program + n + 1 < plan->programs.n && plan->programs.at[program + n + 1].shorter)
        n++;
    return n;
}

Plan plan_part(const Plan *plan, int program) {
    Plan part = *plan;
    if (plan->programs.at[program].graph) part.graph = *plan->programs.at[program].graph;
    part.programs.at = plan->programs.at + program;
    part.programs.n = part.programs.cap = 1;
    return part;
}

bool instance_is_view(const Graph *graph, const Instance *instance) {
    bool old = instance->place == PLACE_INPUT || (instance->place == PLACE_STATE && instance->version == 0);
    return old && op_table[graph_producer(graph, instance->value)->op].view;
}

int fused_length(const Role *role, int at) {
    const int fused = role->steps.at[at].fused;
    int n = 1;
    while (fused > 0 && at + n < role->steps.n && role->steps.at[at + n].fused == fused)
        n++;
    return n;
}

int64_t instance_bytes(const Graph *graph, const Instance *instance) {
    return layout_max_bytes(instance->layout, &graph->values.at[instance->value].type);
}

int program_steps(const Program *program) {
    int n = 0;
    for (int r = 0; r < program->roles.n; r++)
        n += program->roles.at[r].steps.n;
    return n;
}

int program_requests(const Program *program) {
    int n = 0;
    for (int r = 0; r < program->roles.n; r++)
        for (int s = 0; s < program->roles.at[r].steps.n; s++) {
            const Step *step = &program->roles.at[r].steps.at[s];
            if ((step->kind == STEP_START || step->kind == STEP_WAIT) && step->request >= n) n = step->request + 1;
        }
    return n;
}

void view_makers(const Role *role, int *maker) {
    for (int i = 0; i < role->instances.n; i++)
        maker[i] = -1;
    for (int s = 0; s < role->steps.n; s++)
        for (int o = 0; o < role->steps.at[s].nout; o++)
            if (role->instances.at[role->steps.at[s].out[o]].place == PLACE_VIEW) maker[role->steps.at[s].out[o]] = s;
}

/* Inserts a step into an ascending list of n, if it is not there; returns the new length, -1: too many. */
static int insert_step(int *steps, int n, int step) {
    int at = n;
    while (at > 0 && steps[at - 1] >= step)
        at--;
    if (at < n && steps[at] == step) return n;
    if (n == MAX_VIEWS) return -1;
    memmove(steps + at + 1, steps + at, (size_t)(n - at) * sizeof *steps);
    steps[at] = step;
    return n + 1;
}

int step_views(const Role *role, const int *maker, int at, int *steps) {
    int n = 0;
    for (int s = at, end = at + fused_length(role, at); s < end; s++)
        for (int i = 0; i < role->steps.at[s].nin; i++)
            for (int v = role->steps.at[s].in[i]; maker[v] >= 0; v = (int)role->instances.at[v].at)
                if ((n = insert_step(steps, n, maker[v])) < 0) return -1;
    return n;
}

int64_t results_room(const Graph *graph, const Role *role, const Step *step, int64_t used, int64_t *at) {
    for (int o = 0; o < step->nout; o++) {
        const Instance *instance = &role->instances.at[step->out[o]];
        if (instance->place != PLACE_INNER && instance->place != PLACE_VIEW) continue;
        if (at) at[step->out[o]] = used;
        used += (instance_bytes(graph, instance) + INNER_ALIGNMENT - 1) / INNER_ALIGNMENT * INNER_ALIGNMENT;
        if (used > MAX_TENSOR_BYTES) used = MAX_TENSOR_BYTES; /* more than any memory has */
    }
    return used;
}

int64_t inner_room(const Graph *graph, const Role *role, int64_t *at) {
    int64_t most = 0;
    int *maker = malloc(((size_t)role->instances.n + 1) * sizeof *maker), views[MAX_VIEWS];
    if (!maker) return MAX_TENSOR_BYTES;
    view_makers(role, maker);
    for (int s = 0, n; s < role->steps.n; s += n) {
        int64_t used = 0;
        n = fused_length(role, s);
        for (int k = s; k < s + n && role->steps.at[s].fused > 0; k++)
            used = results_room(graph, role, &role->steps.at[k], used, at);
        for (int k = 0, nviews = step_views(role, maker, s, views); k < nviews; k++)
            used = results_room(graph, role, &role->steps.at[views[k]], used, NULL);
        most = used > most ? used : most;
    }
    free(maker);
    return most;
}

/* ---------------------------------------------------------------- print */

static void print_instance(Printing *printing, int id, const Instance *instance) {
    Text *text = printing->text;
    put(text, "    value ");
    put_int(text, id);
    put(text, " ");
    put_value(printing, instance->value);
    put(text, " layout=");
    put_int(text, printing_layout(printing, instance->layout));
    put(text, " ");
    put(text, place_name[instance->place]);
    if (instance->place != PLACE_INNER && instance->place != PLACE_ELSEWHERE) {
        put(text, " ");
        put_int(text, instance->at);
    }
    if (instance->place == PLACE_STATE) {
        put(text, " version ");
        put_int(text, instance->version);
    }
    put(text, "\n");
}

static void print_step(Text *text, const Step *step) {
    put(text, "    ");
    put(text, step_name[step->kind]);
    put(text, " ");
    switch (step->kind) {
    case STEP_KERNEL:
        put(text, op_table[step->op].name);
        break;
    case STEP_LOCAL:
        put(text, comm_name[step->comm]);
        break;
    case STEP_START:
    case STEP_WAIT:
        put(text, comm_name[step->comm]);
        put(text, " ");
        put_int(text, step->request);
        break;
    case STEP_WRITE:
        put_int(text, step->state);
        break;
    }
    put(text, " ");
    put_ints(text, step->in, step->nin);
    if (step->nout) {
        put(text, " -> ");
        put_ints(text, step->out, step->nout);
    }
    if (step->kind == STEP_KERNEL || step->kind == STEP_WRITE) {
        put(text, " nodes=");
        put_ints(text, &step->node, 1);
    }
    if (step->stream) {
        put(text, " stream=");
        put_int(text, step->stream);
    }
    if ((step->kind == STEP_START || step->kind == STEP_WAIT) && step->bucket > 0) {
        put(text, " bucket=");
        put_int(text, step->bucket);
    }
    if (step->kind == STEP_KERNEL && step->fused > 0) {
        put(text, " fused=");
        put_int(text, step->fused);
    }
    put(text, "\n");
}

static void print_program(Printing *printing, const Program *program) {
    Text *text = printing->text;
    put(text, "program ");
    put_word(text, program->name);
    put(text, " loss=");
    if (program->loss < 0)
        put(text, "none");
    else
        put_int(text, program->loss);
    if (program->reports.n) {
        put(text, " reports=");
        put_ints(text, program->reports.at, program->reports.n);
    }
    text_printf(text, " sent=%" PRId64 "\n", program->sent_bytes);
    for (int r = 0; r < program->roles.n; r++) {
        const Role *role = &program->roles.at[r];
        text_printf(text, "  role %d-%d arena=%" PRId64 "\n", role->first_rank, role->last_rank, role->arena_bytes);
        for (int i = 0; i < role->instances.n; i++)
            print_instance(printing, i, &role->instances.at[i]);
        for (int i = 0; i < role->steps.n; i++)
            print_step(text, &role->steps.at[i]);
    }
}

enum { CHECKSUM_LINE_BYTES = 9 + 16 + 1 }; /* "checksum ", 16 digits, end of line */
static void print_checksum(Text *text, uint64_t checksum) {
    text_printf(text, "checksum %016" PRIx64 "\n", checksum);
}

static void print_end(Text *text, uint64_t checksum, const char *certificate) {
    if (certificate) {
        put(text, "certificate ");
        put_quoted(text, certificate);
        text_printf(text, " of=%016" PRIx64 "\n", checksum);
    }
    print_checksum(text, checksum);
}

void plan_print(Text *text, const Plan *plan) {
    plan_print_files(text, NULL, NULL, plan);
}

/* Numbers the layouts of a program's own inputs and caches. */
static void printing_storages(Printing *printing, const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].layout) printing_layout(printing, graph->inputs.at[i].layout);
    for (int i = 0; i < graph->states.n; i++)
        if (graph->states.at[i].cache) printing_layout(printing, graph->states.at[i].layout);
}

void plan_print_files(Text *text, Text *side, const char *side_file, const Plan *plan) {
    size_t begin = text->n;
    Printing printing;
    printing_init(&printing, text, &plan->graph);
    text_printf(text, "pcc-plan %d\n", plan->format);
    print_head(&printing);
    put(text, "options ");
    put_quoted(text, plan->options);
    text_printf(text, "\nhash %016" PRIx64 "\n", plan->net_hash);
    side_print(&printing, plan, side, side_file);
    printing_layouts(&printing);
    for (int p = 0; p < plan->programs.n; p++)
        if (plan->programs.at[p].graph) printing_storages(&printing, plan->programs.at[p].graph);
    for (int p = 0; p < plan->programs.n; p++)
        for (int r = 0; r < plan->programs.at[p].roles.n; r++) {
            const Role *role = &plan->programs.at[p].roles.at[r];
            for (int i = 0; i < role->instances.n; i++)
                printing_layout(&printing, role->instances.at[i].layout);
        }
    print_sections(&printing);
    for (int p = 0; p < plan->programs.n; p++) {
        const Graph *graph = plan->programs.at[p].graph ? plan->programs.at[p].graph : &plan->graph;
        if (graph != printing.graph) {
            printing_turn(&printing, graph);
            (plan->programs.at[p].shorter                    ? print_shorter
             : plan->programs.at[p].kind == PROGRAM_GENERATE ? print_generate
             : plan->programs.at[p].kind == PROGRAM_PROMPT   ? print_prompt
                                                             : print_eval)(&printing);
        }
        print_program(&printing, &plan->programs.at[p]);
    }
    printing_finish(&printing);
    print_end(text, XXH64(text->at + begin, text->n - begin, 0), plan->certificate);
}

void plan_certify(Text *text, const char *certificate) {
    text->n -= CHECKSUM_LINE_BYTES;
    print_end(text, XXH64(text->at, text->n, 0), certificate);
}

/* ---------------------------------------------------------------- read: programs */

static bool same_tensor(const TensorType *a, const TensorType *b) {
    return a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
}

/* An instance in the storage of a state or input must have its size, and its type unless it is a view. */
static bool check_storage(Reading *reading, const Instance *instance, const char *what, const TensorType *type, const Layout *storage) {
    const TensorType *own = &reading->graph->values.at[instance->value].type;
    bool fits = instance_is_view(reading->graph, instance) ? own->dtype == type->dtype : same_tensor(own, type);
    if (!fits) return scan_fail(&reading->scan, "value %%%d has another type than %s %d", instance->value, what, (int)instance->at);
    if (layout_max_elements(instance->layout, &own->shape) == layout_max_elements(storage, &type->shape)) return true;
    return scan_fail(&reading->scan, "value %%%d in this layout has another size than the storage of %s %d", instance->value, what,
                     (int)instance->at);
}

static bool read_place(Reading *reading, const Role *role, Instance *instance) {
    Scan *scan = &reading->scan;
    const Graph *graph = reading->graph;
    int place;
    if (!scan_choice(scan, "place", place_name, NPLACES, &place)) return false;
    instance->place = (Place)place;
    switch (instance->place) {
    case PLACE_ARENA: {
        int64_t bytes = instance_bytes(graph, instance);
        if (!scan_integer(scan, "the offset", 0, MAX_TENSOR_BYTES, &instance->at)) return false;
        if (instance->at % ARENA_ALIGNMENT)
            return scan_fail(scan, "the offset %" PRId64 " is no multiple of %d", instance->at, ARENA_ALIGNMENT);
        if (bytes <= role->arena_bytes - instance->at) return true;
        return scan_fail(scan, "%" PRId64 " bytes at offset %" PRId64 " reach beyond the arena of %" PRId64, bytes, instance->at,
                         role->arena_bytes);
    }
    case PLACE_STATE:
        if (!scan_integer(scan, "a state", 0, graph->states.n - 1, &instance->at) || !scan_keyword(scan, "version") ||
            !scan_int(scan, "a version", 0, 1, &instance->version))
            return false;
        return check_storage(reading, instance, "state", &graph->states.at[instance->at].type, graph->states.at[instance->at].layout);
    case PLACE_INPUT:
        if (!scan_integer(scan, "an input", 0, graph->inputs.n - 1, &instance->at)) return false;
        return check_storage(reading, instance, "input", &graph->inputs.at[instance->at].type, graph->inputs.at[instance->at].layout);
    case PLACE_INNER:
        return true;
    case PLACE_ELSEWHERE:
        return !layout_has_ranks(instance->layout, role->first_rank, role->last_rank) ||
               scan_fail(scan, "value %%%d is elsewhere in a role whose ranks hold some of it", instance->value);
    case PLACE_VIEW: /* of an earlier value, so that no view can be of itself */
        return scan_integer(scan, "a value before it", 0, role->instances.n - 1, &instance->at);
    case PLACE_CONSTANT:
        if (!scan_integer(scan, "a node", 0, graph->nodes.n - 1, &instance->at)) return false;
        if (graph->nodes.at[instance->at].op != OP_constant) return scan_fail(scan, "node %d is no constant", (int)instance->at);
        if (graph->nodes.at[instance->at].out[0] == instance->value) return true;
        return scan_fail(scan, "value %%%d is not the result of node %d", instance->value, (int)instance->at);
    }
    return false;
}

static bool read_instances(Reading *reading, Role *role) {
    Scan *scan = &reading->scan;
    const Graph *graph = reading->graph;
    vec_reserve(scan->arena, &role->instances, scan_lines(scan));
    while (scan_is_keyword(scan, "value")) {
        Instance instance = {0};
        int id;
        if (!scan_int(scan, "the number of a value", role->instances.n, role->instances.n, &id) || !scan_char(scan, '%') ||
            !scan_int(scan, "a value of the graph", 0, graph->values.n - 1, &instance.value) || !scan_key(scan, "layout") ||
            !read_layout_number(reading, graph->values.at[instance.value].type.shape.ndim, &instance.layout) ||
            !read_place(reading, role, &instance) || !scan_end(scan))
            return false;
        vec_push(scan->arena, &role->instances, instance);
    }
    return true;
}

static const TensorType *instance_type(const Reading *reading, const Role *role, int instance) {
    return &reading->graph->values.at[role->instances.at[instance].value].type;
}

static bool check_kernel(Reading *reading, const Role *role, const Step *step) {
    Scan *scan = &reading->scan;
    const Graph *graph = reading->graph;
    const Op *op = &op_table[step->op];
    const Node *node = &graph->nodes.at[step->node];
    if (step->op == OP_write || op->op_class == OP_CLASS_LEAF || op->op_class == OP_CLASS_COMM || op->expand)
        return scan_fail(scan, "%s is no kernel", op->name);
    if (step->nin != node->nin || step->nout != node->nout)
        return scan_fail(scan, "%s has %d operands and %d results, not %d and %d", op->name, node->nin, node->nout, step->nin, step->nout);
    if (node->op != step->op) return scan_fail(scan, "node %d is %s, not %s", step->node, op_table[node->op].name, op->name);
    for (int i = 0; i < step->nin; i++)
        if (!type_equal(instance_type(reading, role, step->in[i]), &graph->values.at[node->in[i]].type))
            return scan_fail(scan, "operand %d has another type than operand %d of node %d", step->in[i], i, step->node);
    for (int o = 0; o < step->nout; o++)
        if (!type_equal(instance_type(reading, role, step->out[o]), &graph->values.at[node->out[o]].type))
            return scan_fail(scan, "result %d has another type than result %d of node %d", step->out[o], o, step->node);
    return true;
}

/* Checks what prun needs in order to touch only valid memory; the proof checks the rest. */
static bool check_step(Reading *reading, const Role *role, const Step *step) {
    Scan *scan = &reading->scan;
    const State *state;
    for (int i = 0; i < step->nin + step->nout && step->kind != STEP_START && step->kind != STEP_WAIT; i++) {
        const int id = i < step->nin ? step->in[i] : step->out[i - step->nin];
        if (role->instances.at[id].place == PLACE_ELSEWHERE)
            return scan_fail(scan, "a %s of value %d, which is elsewhere", step_name[step->kind], id);
    }
    switch (step->kind) {
    case STEP_KERNEL:
        return check_kernel(reading, role, step);
    case STEP_LOCAL:
    case STEP_START:
    case STEP_WAIT:
        if (step->nin != 1 || step->nout != 1) return scan_fail(scan, "%s has one operand and one result", step_name[step->kind]);
        if (type_equal(instance_type(reading, role, step->in[0]), instance_type(reading, role, step->out[0]))) return true;
        return scan_fail(scan, "values %d and %d differ in type", step->in[0], step->out[0]);
    case STEP_WRITE:
        if (step->nin != 1 || step->nout != 0) return scan_fail(scan, "write has one operand and no result");
        state = &reading->graph->states.at[step->state];
        if (!same_tensor(instance_type(reading, role, step->in[0]), &state->type))
            return scan_fail(scan, "value %d has another type than state %d", step->in[0], step->state);
        if (layout_max_elements(role->instances.at[step->in[0]].layout, &state->type.shape) ==
            layout_max_elements(state->layout, &state->type.shape))
            return true;
        return scan_fail(scan, "value %d has another size than the storage of state %d", step->in[0], step->state);
    }
    return false;
}

static bool read_node(Reading *reading, StepKind kind, int *node) {
    int n = 0;
    if (!scan_is_key(&reading->scan, "nodes")) return scan_fail(&reading->scan, "a %s without nodes=(..)", step_name[kind]);
    return read_ids(reading, "node", "", reading->graph->nodes.n, 1, node, &n) &&
           (n == 1 || scan_fail(&reading->scan, "a %s of no node", step_name[kind]));
}

/* A kernel continues the fused step before it with the same number, or begins a new one with the next number. */
static bool read_fused(Reading *reading, const Role *role, int *fused) {
    const int before = role->steps.n ? role->steps.at[role->steps.n - 1].fused : 0;
    int last = before, members = 0;
    for (int s = role->steps.n - 1; s >= 0 && last == 0; s--)
        last = role->steps.at[s].fused;
    if (!scan_int(&reading->scan, "a fused step", before ? before : last + 1, last + 1, fused)) return false;
    while (*fused == before && members < role->steps.n && role->steps.at[role->steps.n - 1 - members].fused == before)
        members++;
    return members < MAX_FUSED || scan_fail(&reading->scan, "more than %d kernels in fused step %d", MAX_FUSED, before);
}

/* An inner value is made once, and read by later members of the fused step that makes it. made: per instance the fused step that made it. */
static bool check_inner(Reading *reading, const Role *role, const Step *step, int *made) {
    for (int i = 0; i < step->nin; i++)
        if (role->instances.at[step->in[i]].place == PLACE_INNER && (step->fused == 0 || made[step->in[i]] != step->fused))
            return scan_fail(&reading->scan, "the inner value %d is read outside of the fused step that makes it", step->in[i]);
    for (int o = 0; o < step->nout; o++) {
        if (role->instances.at[step->out[o]].place != PLACE_INNER) continue;
        if (step->fused == 0) return scan_fail(&reading->scan, "the inner value %d is made by no fused step", step->out[o]);
        if (made[step->out[o]]) return scan_fail(&reading->scan, "the inner value %d is made twice", step->out[o]);
        made[step->out[o]] = step->fused;
    }
    return true;
}

/* Views are made once, by kernels that place their one operand's elements, and read by kernels after that. made: as above. */
static bool check_views(Reading *reading, const Role *role, const Step *step, int *made) {
    Scan *scan = &reading->scan;
    int nviews = 0;
    for (int i = 0; i < step->nin; i++) {
        if (role->instances.at[step->in[i]].place != PLACE_VIEW) continue;
        if (step->kind != STEP_KERNEL || op_table[step->op].boundary)
            return scan_fail(scan, "the view %d is read by a %s: only kernels read views, and not those of the hidden dimension",
                             step->in[i], step->kind == STEP_KERNEL ? op_table[step->op].name : step_name[step->kind]);
        if (!made[step->in[i]]) return scan_fail(scan, "the view %d is read before it is made", step->in[i]);
    }
    for (int o = 0; o < step->nout; o++) {
        const Instance *result = &role->instances.at[step->out[o]];
        if (result->place != PLACE_VIEW) continue;
        if (step->kind != STEP_KERNEL || !op_table[step->op].places || step->fused > 0)
            return scan_fail(scan, "the view %d is made by a %s%s: only operators alone that place elements have views", step->out[o],
                             step->kind == STEP_KERNEL ? op_table[step->op].name : step_name[step->kind],
                             step->fused > 0 ? " in a fused step" : "");
        if (result->at != step->in[0])
            return scan_fail(scan, "value %d is a view of value %d, but made of value %d", step->out[o], (int)result->at, step->in[0]);
        if (made[step->out[o]]) return scan_fail(scan, "the view %d is made twice", step->out[o]);
        made[step->out[o]] = 1;
        nviews++;
    }
    return nviews == 0 || nviews == step->nout ||
           scan_fail(scan, "%s has %d results, of which only %d are views", op_table[step->op].name, step->nout, nviews);
}

static bool read_step(Reading *reading, Role *role, StepKind kind, int *made) {
    Scan *scan = &reading->scan;
    const Graph *graph = reading->graph;
    Step step = {.kind = kind};
    char name[32];
    int op, comm = 0;
    switch (kind) {
    case STEP_KERNEL:
        if (!scan_name(scan, name, sizeof name)) return false;
        op = op_find(name);
        if (op < 0) return scan_fail(scan, "unknown operator '%s'", name);
        step.op = (OpCode)op;
        break;
    case STEP_LOCAL:
        if (!scan_choice(scan, "communication", comm_name, NCOMMS, &comm)) return false;
        break;
    case STEP_START:
    case STEP_WAIT:
        if (!scan_choice(scan, "communication", comm_name, NCOMMS, &comm) || !scan_int(scan, "a request", 0, INT32_MAX, &step.request))
            return false;
        break;
    case STEP_WRITE:
        if (!scan_int(scan, "a state", 0, graph->states.n - 1, &step.state)) return false;
        break;
    }
    step.comm = (CommKind)comm;
    if (!read_ids(reading, "value", "", role->instances.n, MAX_IN, step.in, &step.nin)) return false;
    if (scan_is_arrow(scan) && !read_ids(reading, "value", "", role->instances.n, MAX_OUT, step.out, &step.nout)) return false;
    if ((kind == STEP_KERNEL || kind == STEP_WRITE) && !read_node(reading, kind, &step.node)) return false;
    if (scan_is_key(scan, "stream") && !scan_int(scan, "a stream", 0, 1, &step.stream)) return false;
    if ((kind == STEP_START || kind == STEP_WAIT) && scan_is_key(scan, "bucket") && !scan_int(scan, "a bucket", 1, INT32_MAX, &step.bucket))
        return false;
    if (kind == STEP_KERNEL && scan_is_key(scan, "fused") && !read_fused(reading, role, &step.fused)) return false;
    if (!check_step(reading, role, &step) || !check_inner(reading, role, &step, made) || !check_views(reading, role, &step, made) ||
        !scan_end(scan))
        return false;
    vec_push(scan->arena, &role->steps, step);
    return true;
}

static bool read_steps(Reading *reading, Role *role) {
    vec_reserve(reading->scan.arena, &role->steps, scan_lines(&reading->scan));
    int *made = arena_alloc(reading->scan.arena, sizeof *made * (size_t)(role->instances.n + 1));
    for (bool more = true; more;) {
        more = false;
        for (int kind = 0; kind < NSTEPS; kind++)
            if (scan_is_keyword(&reading->scan, step_name[kind])) {
                if (!read_step(reading, role, (StepKind)kind, made)) return false;
                more = true;
                break;
            }
    }
    int views[MAX_VIEWS];
    view_makers(role, made);
    for (int s = 0; s < role->steps.n; s += fused_length(role, s))
        if (step_views(role, made, s, views) < 0)
            return scan_fail(&reading->scan, "step %d reads views of more than %d steps", s, MAX_VIEWS);
    return true;
}

/* Roles are in the order of their ranks and cover all of them, so each rank has exactly one. */
static bool read_role(Reading *reading, Program *program, int first, int *next) {
    Scan *scan = &reading->scan;
    Role role = {.first_rank = first};
    int nranks = reading->graph->nranks;
    if (first == nranks) return scan_fail(scan, "a role after all %d ranks have one", nranks);
    bool ok = scan_int(scan, "the first rank", first, first, &role.first_rank) && scan_char(scan, '-') &&
              scan_int(scan, "the last rank", first, nranks - 1, &role.last_rank) && scan_key(scan, "arena") &&
              scan_integer(scan, "the size of the arena", 0, MAX_TENSOR_BYTES, &role.arena_bytes) && scan_end(scan) &&
              read_instances(reading, &role) && read_steps(reading, &role);
    if (!ok) return false;
    if (program->loss >= role.instances.n) return scan_fail(scan, "the loss %d is no value of the role that ends here", program->loss);
    for (int i = 0; i < program->reports.n; i++)
        if (program->reports.at[i] >= role.instances.n)
            return scan_fail(scan, "the report %d is no value of the role that ends here", program->reports.at[i]);
    for (int k = -1; k < program->reports.n; k++) {
        const int id = k < 0 ? program->loss : program->reports.at[k];
        const Place place = id >= 0 ? role.instances.at[id].place : PLACE_ARENA;
        if (place == PLACE_INNER || place == PLACE_VIEW)
            return scan_fail(scan, "the %s %d is reported", place == PLACE_INNER ? "inner value" : "view", id);
    }
    if (inner_room(reading->graph, &role, NULL) >= MAX_TENSOR_BYTES)
        return scan_fail(scan, "a step of this role has inner values, or reads views, of more than %lld bytes",
                         (long long)MAX_TENSOR_BYTES);
    *next = role.last_rank + 1;
    vec_push(scan->arena, &program->roles, role);
    return true;
}

/* One value for each of the graph's reports. */
static bool read_reports(Reading *reading, Program *program) {
    Scan *scan = &reading->scan;
    int n = reading->graph->reports.n, count;
    if (n == 0) return true;
    int *at = arena_alloc(scan->arena, sizeof *at * (size_t)n);
    if (!scan_key(scan, "reports") || !read_ids(reading, "value", "", INT32_MAX, n, at, &count)) return false;
    if (count != n) return scan_fail(scan, "%d reports where the graph has %d", count, n);
    program->reports.at = at;
    program->reports.n = program->reports.cap = n;
    return true;
}

static bool read_program(Reading *reading, ProgramKind kind, bool shorter, Plan *plan) {
    Scan *scan = &reading->scan;
    Program program = {.kind = kind, .shorter = shorter, .loss = -1, .graph = reading->graph == &plan->graph ? NULL : reading->graph};
    if (plan->programs.n == MAX_PROGRAMS) return scan_fail(scan, "more than %d programs", MAX_PROGRAMS);
    if (!scan_word(scan, &program.name) || !scan_key(scan, "loss")) return false;
    for (int p = 0; p < plan->programs.n; p++)
        if (strcmp(plan->programs.at[p].name, program.name) == 0)
            return scan_fail(scan, "program '%.40s' is there a second time", program.name);
    if (!scan_is_keyword(scan, "none") && !scan_int(scan, "the loss", 0, INT32_MAX, &program.loss)) return false;
    if (!read_reports(reading, &program)) return false;
    if (!scan_key(scan, "sent") || !scan_integer(scan, "the bytes sent", 0, INT64_MAX, &program.sent_bytes) || !scan_end(scan))
        return false;
    int next = 0;
    while (scan_is_keyword(scan, "role"))
        if (!read_role(reading, &program, next, &next)) return false;
    const int nsteps = program_steps(&program);
    if (program_requests(&program) > nsteps)
        return scan_fail(scan, "request %d in a program of %d steps", program_requests(&program) - 1, nsteps);
    if (next != plan->graph.nranks) return scan_fail(scan, "the roles of program '%.40s' end before rank %d", program.name, next);
    vec_push(scan->arena, &plan->programs, program);
    return true;
}

/* prun allocates every state and input, used or not: each needs a layout. plan: the plan's own graph, not one over its states. */
static bool check_storages(Reading *reading, bool plan) {
    const Graph *graph = reading->graph;
    for (int i = 0; i < graph->states.n; i++)
        if (!graph->states.at[i].layout) return scan_fail(&reading->scan, "state %d '%.60s' has no layout", i, graph->states.at[i].name);
    for (int i = 0; plan && i < graph->states.n; i++)
        if (graph->states.at[i].cache)
            return scan_fail(&reading->scan, "state %d '%.60s' is a cache, of no program that generates", i, graph->states.at[i].name);
    for (int i = 0; i < graph->inputs.n; i++)
        if (!graph->inputs.at[i].layout) return scan_fail(&reading->scan, "input %d '%.60s' has no layout", i, graph->inputs.at[i].name);
    return true;
}

/* Reads a program with a graph of its own, over another's states; `read` reads what follows the keyword, up to and including the graph. */
static bool read_own_program(Reading *reading, Plan *plan, const Graph *over, ProgramKind kind, bool shorter,
                             bool (*read)(Reading *reading)) {
    reading->graph = arena_alloc(plan->graph.arena, sizeof *reading->graph);
    graph_over(reading->graph, &plan->graph);
    reading->graph->settings = over->settings;
    reading->graph->states = over->states;
    return read(reading) && check_storages(reading, false) && scan_keyword(&reading->scan, "program") &&
           read_program(reading, kind, shorter, plan);
}

/* Reads the programs for shorter texts, which follow the program for the longest. */
static bool read_shorter_programs(Reading *reading, Plan *plan) {
    const Graph *longest = reading->graph;
    const ProgramKind kind = plan->programs.at[plan->programs.n - 1].kind;
    while (scan_is_keyword(&reading->scan, "shorter"))
        if (!read_own_program(reading, plan, longest, kind, true, read_over)) return false;
    return true;
}

/* ---------------------------------------------------------------- read: the envelope */

/* Where the parts of a plan's text are. */
typedef struct Envelope {
    size_t body;        /* bytes that the checksum covers */
    size_t certificate; /* where its line begins; body when there is none */
    size_t checksum;    /* where its line begins; n when there is none */
} Envelope;

static bool begins(const char *text, size_t n, const char *word) {
    return n >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* The start of the line that ends at text[n - 1]. */
static size_t line_start(const char *text, size_t n) {
    while (n > 0 && text[n - 1] != '\n')
        n--;
    return n;
}

/* Checks the format in the first line; else the message says what the file is instead. */
static bool check_first_line(const char *name, const char *text, size_t n, Error *error) {
    const char *magic = "pcc-plan ";
    size_t at = strlen(magic);
    if (n == 0) return error_set(error, EXIT_REJECTED, "%s: not a plan: it is empty", name);
    if (begins(text, n, "pcc-graph "))
        return error_set(error, EXIT_REJECTED, "%s: not a plan: it is the dump of a graph; prun reads what pcc writes to -o", name);
    if (!begins(text, n, magic))
        return error_set(error, EXIT_REJECTED, "%s: not a plan: its first line is not 'pcc-plan %d'; a net is compiled by pcc first", name,
                         PLAN_FORMAT);
    long format = 0;
    size_t digits = 0;
    for (; at < n && text[at] >= '0' && text[at] <= '9' && digits < 6; at++, digits++)
        format = format * 10 + (text[at] - '0');
    if (digits == 0 || at == n || text[at] != '\n')
        return error_set(error, EXIT_REJECTED, "%s:1: not a plan: its first line is not 'pcc-plan %d'", name, PLAN_FORMAT);
    if (format == PLAN_FORMAT) return true;
    return error_set(error, EXIT_REJECTED, "%s:1: this plan has format %ld; format %d is read here: compile the net again with this pcc",
                     name, format, PLAN_FORMAT);
}

static bool read_envelope(const char *name, const char *text, size_t n, Envelope *envelope, Error *error) {
    if (n > INT32_MAX) return error_set(error, EXIT_REJECTED, "%s: too large for a plan: %zu bytes", name, n);
    if (!check_first_line(name, text, n, error)) return false;
    envelope->checksum = n ? line_start(text, n - 1) : 0;
    if (text[n - 1] != '\n' || n - envelope->checksum != CHECKSUM_LINE_BYTES ||
        !begins(text + envelope->checksum, n - envelope->checksum, "checksum "))
        return error_set(error, EXIT_REJECTED, "%s: truncated: no checksum line at its end; compile the net again or copy the plan again",
                         name);
    envelope->certificate = line_start(text, envelope->checksum - 1);
    if (!begins(text + envelope->certificate, n - envelope->certificate, "certificate ")) envelope->certificate = envelope->checksum;
    envelope->body = envelope->certificate;
    return true;
}

static bool check_checksum(const Scan *start, const char *text, const Envelope *envelope, int flags, uint64_t *checksum, Error *error) {
    Scan scan = *start;
    uint64_t stored;
    const uint64_t actual = *checksum = XXH64(text, envelope->body, 0);
    scan.at = start->at + envelope->checksum;
    for (size_t i = 0; i < envelope->checksum; i++)
        scan.line += text[i] == '\n';
    if (!scan_keyword(&scan, "checksum") || !scan_unsigned(&scan, "a checksum", 16, &stored) || !scan_end(&scan)) return false;
    if (stored == actual || flags & PLAN_IGNORE_CHECKSUM) return true;
    return error_set(error, EXIT_REJECTED,
                     "%s: checksum differs: the plan says %016" PRIx64 ", its bytes give %016" PRIx64
                     ": it was damaged or edited; after an edit by hand run `pcc check --update`",
                     start->name, stored, actual);
}

/* The certificate names the text that it proves: after an edit that renewed only the checksum, nothing was proved about these bytes. */
static bool read_certificate(Reading *reading, const Envelope *envelope, const char *text, int flags, Plan *plan) {
    Scan *scan = &reading->scan;
    uint64_t of, actual = XXH64(text, envelope->body, 0);
    if (!scan_word(scan, &plan->certificate)) return false;
    plan->certificate_bound = scan_is_key(scan, "of");
    if (plan->certificate_bound && !scan_unsigned(scan, "a checksum", 16, &of)) return false;
    if (plan->certificate_bound && of != actual && !(flags & PLAN_IGNORE_CHECKSUM))
        return scan_fail(scan,
                         "the certificate is of a text with checksum %016" PRIx64 ", this one has %016" PRIx64
                         ": it was edited after it was proved; `pcc check --update` drops the certificate and proves the plan again",
                         of, actual);
    return scan_end(scan);
}

bool plan_read(Plan *plan, Arena *arena, const char *name, const char *text, size_t n, int flags, Error *error) {
    return plan_read_files(plan, arena, name, &(PlanFiles){.text = text, .n = n}, flags, error);
}

bool plan_read_files(Plan *plan, Arena *arena, const char *name, const PlanFiles *files, int flags, Error *error) {
    const char *text = files->text;
    size_t n = files->n;
    plan_init(plan, arena);
    Envelope envelope = {0};
    if (!read_envelope(name, text, n, &envelope, error)) return false;
    const char *copy = arena_copy(arena, text, n);
    Reading reading = {.scan = {arena, name, copy, copy + n, 1, error}, .graph = &plan->graph};
    Scan *scan = &reading.scan;
    if (!check_checksum(scan, text, &envelope, flags, &plan->checksum, error)) return false;
    scan->end = copy + envelope.checksum;
    bool ok = scan_keyword(scan, "pcc-plan") && scan_int(scan, "the format", PLAN_FORMAT, PLAN_FORMAT, &plan->format) && scan_end(scan) &&
              read_head(&reading) && scan_keyword(scan, "options") && scan_word(scan, &plan->options) && scan_end(scan) &&
              scan_keyword(scan, "hash") && scan_unsigned(scan, "the hash of the net", 16, &plan->net_hash) && scan_end(scan) &&
              side_read(&reading, files, flags) && read_sections(&reading);
    if (!ok) return false;
    plan->side_file = reading.side.file;
    bool checked = false;
    while (scan_is_keyword(scan, "program")) {
        if (!checked && !check_storages(&reading, true)) return false;
        checked = true;
        if (!read_program(&reading, PROGRAM_TRAIN, false, plan)) return false;
    }
    if (checked && !read_shorter_programs(&reading, plan)) return false;
    static const struct {
        const char *keyword;
        ProgramKind kind;
        bool (*read)(Reading *reading);
    } others[] = {{"eval", PROGRAM_EVAL, read_eval}, {"generate", PROGRAM_GENERATE, read_generate}};
    for (int i = 0; i < 2; i++) {
        if (!scan_is_keyword(scan, others[i].keyword)) continue;
        if (!checked) return scan_fail(scan, "%s before any program", others[i].keyword);
        if (!read_own_program(&reading, plan, &plan->graph, others[i].kind, false, others[i].read)) return false;
        if (!read_shorter_programs(&reading, plan)) return false;
    }
    const bool generates = checked && plan->programs.at[plan->programs.n - 1].kind == PROGRAM_GENERATE;
    if (generates && scan_is_keyword(scan, "prompt") && !read_own_program(&reading, plan, reading.graph, PROGRAM_PROMPT, false, read_over))
        return false;
    if (!side_end(&reading)) return false;
    if (scan_is_keyword(scan, "certificate") && !read_certificate(&reading, &envelope, text, flags, plan)) return false;
    return scan->at == scan->end || scan_unexpected(scan, "a program, a role, a value, a step, or the certificate");
}

bool plan_renew(Text *renewed, const char *name, const char *text, size_t n, Error *error) {
    if (n > INT32_MAX) return error_set(error, EXIT_REJECTED, "%s: too large for a plan: %zu bytes", name, n);
    if (!check_first_line(name, text, n, error)) return false;
    /* An editor may have added blank lines, or removed the last line's end. */
    for (;;) {
        size_t end = n;
        while (end > 0 && text[end - 1] == '\n')
            end--;
        size_t last = line_start(text, end);
        n = end < n ? end + 1 : end;
        if (!begins(text + last, end - last, "checksum ") && !begins(text + last, end - last, "certificate ")) break;
        n = last;
    }
    size_t begin = renewed->n;
    text_append(renewed, text, n);
    if (renewed->at[renewed->n - 1] != '\n') put(renewed, "\n");
    print_checksum(renewed, XXH64(renewed->at + begin, renewed->n - begin, 0));
    return true;
}
