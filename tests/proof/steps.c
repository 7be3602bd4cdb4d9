/* The proof refuses wrong plans: every plan here is compiled, proved, then changed in memory in one way at a time, and must be refused. */
#include "compiler/compiler.h"
#include "ir/file.h"
#include "tests/proof/leaves.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    char file[64];
    int nranks, optimize;
    char mode[24];
} Case;
static const Case cases[] = {
    {"samples/quickstart.dsl", 8, 2, ""},  {"samples/quickstart.dsl", 8, 0, ""}, {"samples/elementwise.dsl", 6, 2, "semi_auto"},
    {"samples/mesh.dsl", 8, 2, ""},        {"samples/output.dsl", 8, 2, ""},     {"samples/oneflow_ddp.dsl", 2, 2, ""},
    {"samples/elementwise.dsl", 4, 2, ""}, {"samples/reductions.dsl", 4, 0, ""},
};
enum { NCASES = sizeof cases / sizeof *cases };

/* Reads the plan that pcc writes for a net; its text, in the arena. */
static const char *load_net(const Case *which, const char *text, size_t n, Arena *arena, Plan *plan) {
    Error error = {0};
    Diags diags;
    diags_init(&diags, arena);
    diags_add_file(&diags, which->file, text, n);
    Options options = {.input = which->file, .output = "/dev/null", .optimize = which->optimize, .prove = true};
    options.overrides.nranks = which->nranks;
    options.overrides.search = "sharding_propagation";
    options.overrides.mode = *which->mode ? which->mode : NULL;
    Compilation c;
    bool ok = compile(&c, arena, &options, &diags, text, n);
    if (!ok) diags_print(&diags, stderr);
    cr_assert(ok, "%s: %s", which->file, c.error.text);
    const char *written = arena_copy(arena, c.text.at, c.text.n);
    compilation_finish(&c);
    cr_assert(plan_read(plan, arena, "plan", written, strlen(written), 0, &error), "%s", error.text);
    return written;
}

static void load(const Case *which, Arena *arena, Plan *plan) {
    Error error = {0};
    char *text;
    size_t n;
    cr_assert(file_read(arena, which->file, 1 << 20, &text, &n, &error), "%s (run from the source folder)", error.text);
    load_net(which, text, n, arena, plan);
}

static Role *role_of(Plan *plan) {
    return &plan->programs.at[0].roles.at[0];
}

static int tried, refused;
static char last[1024]; /* why the last one was refused */

static bool proved(const Plan *plan) {
    Proof proof;
    Error error = {0};
    bool ok = proof_check(plan, &(ProofOptions){0}, &proof, &error);
    snprintf(last, sizeof last, "%s", error.text);
    return ok;
}

/* The changed plan must be refused. */
static void refuse(const Case *which, const Plan *plan, const char *what, int at) {
    tried++;
    bool ok = proved(plan);
    refused += !ok;
    cr_expect_not(ok, "%s on %d ranks, -O%d: proved although %s %d", which->file, which->nranks, which->optimize, what, at);
}

/* Runs change on every case; a change puts back what it changed. */
static void on_all(void (*change)(const Case *, Plan *), int least) {
    tried = refused = 0;
    for (int i = 0; i < NCASES; i++) {
        Arena arena;
        arena_init(&arena);
        Plan plan;
        load(&cases[i], &arena, &plan);
        cr_assert(proved(&plan), "%s: %s", cases[i].file, last);
        change(&cases[i], &plan);
        cr_assert(proved(&plan), "%s: the change was not undone: %s", cases[i].file, last);
        arena_finish(&arena);
    }
    printf("%d of %d wrong plans refused\n", refused, tried);
    cr_assert_geq(tried, least, "only %d plans tried", tried);
}

static void remove_step(Role *role, int at, Step *saved) {
    *saved = role->steps.at[at];
    memmove(role->steps.at + at, role->steps.at + at + 1, (size_t)(--role->steps.n - at) * sizeof *saved);
}
static void insert_step(Role *role, int at, Step step) { /* after a removal: there is room */
    memmove(role->steps.at + at + 1, role->steps.at + at, (size_t)(role->steps.n++ - at) * sizeof step);
    role->steps.at[at] = step;
}

static void each_step_dropped(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        Step step;
        remove_step(role, i, &step);
        refuse(which, plan, "a step was dropped:", i);
        insert_step(role, i, step);
    }
}
Test(proof_check, a_plan_without_one_of_its_steps_is_refused) {
    on_all(each_step_dropped, 200);
}

/* The communication is gone, and its source is used in place of its target. */
static void each_communication_skipped(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    Step *copy = malloc((size_t)role->steps.n * sizeof *copy);
    int n = role->steps.n;
    memcpy(copy, role->steps.at, (size_t)n * sizeof *copy);
    for (int i = 0; i < n; i++) {
        if (copy[i].kind != STEP_START && copy[i].kind != STEP_LOCAL) continue;
        role->steps.n = 0;
        for (int k = 0; k < n; k++) {
            Step step = copy[k];
            if (k == i || (step.kind == STEP_WAIT && copy[i].kind == STEP_START && step.request == copy[i].request)) continue;
            for (int j = 0; j < step.nin; j++)
                if (step.in[j] == copy[i].out[0]) step.in[j] = copy[i].in[0];
            role->steps.at[role->steps.n++] = step;
        }
        int loss = plan->programs.at[0].loss;
        if (loss == copy[i].out[0]) plan->programs.at[0].loss = copy[i].in[0];
        refuse(which, plan, "a communication was skipped: step", i);
        plan->programs.at[0].loss = loss;
    }
    memcpy(role->steps.at, copy, (size_t)n * sizeof *copy);
    role->steps.n = n;
    free(copy);
}
Test(proof_check, a_plan_without_one_of_its_communications_is_refused) {
    on_all(each_communication_skipped, 40);
}

static void each_step_doubled(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    Step *room = malloc((size_t)(role->steps.n + 1) * sizeof *room), *own = role->steps.at;
    int n = role->steps.n;
    role->steps.at = room;
    for (int i = 0; i < n; i++) {
        memcpy(room, own, (size_t)n * sizeof *room);
        role->steps.n = n;
        insert_step(role, i, own[i]);
        refuse(which, plan, "a step is there twice:", i);
    }
    role->steps.at = own;
    role->steps.n = n;
    free(room);
}
Test(proof_check, a_plan_with_a_step_twice_is_refused) {
    on_all(each_step_doubled, 200);
}

/* Of many ranks: what is shown, and what is refused and why. */
Test(proof_check, threads_show_and_refuse_what_one_does, .timeout = 120) {
    static const Case many = {"samples/transformer.dsl", 1024, 2, ""};
    enum { MOST = 8 };
    Arena arena;
    Plan plan;
    Error error;
    int nrefused = 0;
    arena_init(&arena);
    Pool *pool = pool_create(3, &error);
    const ProofOptions options[] = {{0}, {.pool = pool}};
    cr_assert_not_null(pool);
    load(&many, &arena, &plan);
    Role *role = role_of(&plan);
    for (int i = -1; i < role->steps.n && nrefused < MOST; i++) { /* as it is, then with one communication of another kind */
        Step *step = i < 0 ? NULL : &role->steps.at[i];
        if (step != NULL && step->kind != STEP_START) continue;
        const CommKind kind = step != NULL ? step->comm : COMM_EXCHANGE;
        if (step != NULL) step->comm = kind == COMM_ALL_GATHER ? COMM_ALL_REDUCE : COMM_ALL_GATHER;
        Proof proof[2];
        Error errors[2] = {{0}, {0}};
        bool ok[2];
        for (int k = 0; k < 2; k++)
            ok[k] = proof_check(&plan, &options[k], &proof[k], &errors[k]);
        cr_expect_eq(ok[0], ok[1]);
        cr_expect_eq(ok[0], step == NULL, "step %d: %s", i, errors[0].text);
        cr_expect_str_eq(errors[0].text, errors[1].text);
        if (ok[0] && ok[1]) cr_expect_str_eq(proof[0].certificate, proof[1].certificate);
        nrefused += !ok[0];
        if (step != NULL) step->comm = kind;
    }
    cr_expect_geq(nrefused, 3, "%d", nrefused);
    pool_destroy(pool);
    arena_finish(&arena);
}

static bool feeds(const Step *a, const Step *b) {
    if (a->kind == STEP_START && b->kind == STEP_WAIT) return a->request == b->request;
    for (int i = 0; a->kind != STEP_START && i < a->nout; i++)
        for (int j = 0; b->kind != STEP_WAIT && j < b->nin; j++)
            if (a->out[i] == b->in[j]) return true;
    return false;
}
/* Two neighbours of which the second needs the first change places: a wait after its user, a kernel before its operand. */
static void each_dependence_reversed(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i + 1 < role->steps.n; i++) {
        Step *a = &role->steps.at[i], *b = a + 1, swap = *a;
        if (!feeds(a, b)) continue;
        *a = *b;
        *b = swap;
        refuse(which, plan, "two dependent steps changed places:", i);
        *b = *a;
        *a = swap;
    }
}
Test(proof_check, a_value_read_before_it_is_there_is_refused) {
    on_all(each_dependence_reversed, 100);
}

static void each_layout_changed(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->instances.n; i++) {
        Instance *instance = &role->instances.at[i];
        const Layout *own = instance->layout;
        const Shape *shape = &plan->graph.values.at[instance->value].type.shape;
        for (int k = 0; k < plan->graph.layouts->n; k++) {
            const Layout *other = plan->graph.layouts->at[k];
            if (other->ndim != own->ndim || layout_same(own, other, shape, plan->graph.nranks)) continue;
            instance->layout = other;
            refuse(which, plan, "another layout is claimed for value", i);
        }
        instance->layout = own;
    }
}
Test(proof_check, a_value_in_another_layout_is_refused) {
    on_all(each_layout_changed, 500);
}

static void each_storage_layout_changed(const Case *which, Plan *plan) {
    for (int i = 0; i < plan->graph.states.n; i++) {
        State *state = &plan->graph.states.at[i];
        const Layout *own = state->layout;
        for (int k = 0; k < plan->graph.layouts->n; k++) {
            const Layout *other = plan->graph.layouts->at[k];
            if (other->ndim != own->ndim || layout_same(own, other, &state->type.shape, plan->graph.nranks)) continue;
            state->layout = other;
            refuse(which, plan, "another storage layout is claimed for state", i);
        }
        state->layout = own;
    }
    for (int i = 0; i < plan->graph.inputs.n; i++) {
        Input *input = &plan->graph.inputs.at[i];
        const Layout *own = input->layout;
        for (int k = 0; k < plan->graph.layouts->n; k++) {
            const Layout *other = plan->graph.layouts->at[k];
            if (other->ndim != own->ndim || layout_same(own, other, &input->type.shape, plan->graph.nranks)) continue;
            input->layout = other;
            refuse(which, plan, "another layout is claimed for input", i);
        }
        input->layout = own;
    }
}
Test(proof_check, a_state_or_input_in_another_layout_is_refused) {
    on_all(each_storage_layout_changed, 20);
}

static void each_operand_changed(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        Step *step = &role->steps.at[i];
        for (int k = 0; k < step->nin; k++) {
            int own = step->in[k];
            if (step->kind == STEP_WAIT) continue; /* it says again what its start says */
            for (int other = 0; other < role->instances.n; other++) {
                if (role->instances.at[other].value == role->instances.at[own].value) continue;
                step->in[k] = other;
                refuse(which, plan, "an operand was exchanged in step", i);
            }
            step->in[k] = own;
        }
    }
}
Test(proof_check, a_step_on_another_operand_is_refused) {
    on_all(each_operand_changed, 1000);
}

static void each_node_changed(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        Step *step = &role->steps.at[i];
        if (step->kind != STEP_KERNEL && step->kind != STEP_WRITE) continue;
        int own = step->node;
        OpCode op = step->op;
        for (int other = 0; other < plan->graph.nodes.n; other++) {
            if (other == own) continue;
            step->node = other;
            refuse(which, plan, "another graph node is claimed for step", i);
        }
        step->node = own;
        for (int other = 0; step->kind == STEP_KERNEL && other < NOPS; other++) {
            if (other == (int)op) continue;
            step->op = (OpCode)other;
            refuse(which, plan, "another kernel runs in step", i);
        }
        step->op = op;
    }
}
Test(proof_check, a_step_that_computes_something_else_is_refused) {
    on_all(each_node_changed, 1000);
}

/* An operand is laid over another one of the same kernel: both are alive there. */
static void each_overlap(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        const Step *step = &role->steps.at[i];
        if (step->kind != STEP_KERNEL) continue;
        for (int k = 0; k < step->nin; k++) {
            Instance *a = &role->instances.at[step->in[k]], *b = &role->instances.at[step->in[0]];
            if (step->in[k] == step->in[0] || a->place != PLACE_ARENA || b->place != PLACE_ARENA) continue;
            int64_t own = a->at;
            a->at = b->at;
            refuse(which, plan, "two operands overlap in step", i);
            a->at = own;
        }
        /* Only elementwise results, and reshapes, may lie where an operand lies. */
        const Op *op = &op_table[step->op];
        Instance *result = &role->instances.at[step->out[0]];
        if (!op->rule || op->in_place || op->flat || result->place != PLACE_ARENA) continue;
        for (int k = 0; k < step->nin; k++) {
            const Instance *operand = &role->instances.at[step->in[k]];
            int64_t own = result->at;
            if (operand->place != PLACE_ARENA) continue;
            result->at = operand->at;
            refuse(which, plan, "the result overlaps an operand in step", i);
            result->at = own;
        }
    }
    for (int i = 0; i < role->instances.n; i++) {
        Instance *instance = &role->instances.at[i];
        if (instance->place != PLACE_ARENA) continue;
        int64_t own = instance->at;
        instance->at = role->arena_bytes;
        refuse(which, plan, "it lies outside the arena: value", i);
        instance->at = own;
    }
}
Test(proof_check, values_that_overlap_are_refused) {
    on_all(each_overlap, 100);
}

static void each_state_confused(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->instances.n; i++) {
        Instance *instance = &role->instances.at[i];
        if (instance->place != PLACE_STATE) continue;
        instance->version = !instance->version;
        refuse(which, plan, "another version of its state is claimed for value", i);
        instance->version = !instance->version;
        int64_t own = instance->at;
        for (int s = 0; s < plan->graph.states.n; s++) {
            if (s == own || !type_equal(&plan->graph.states.at[s].type, &plan->graph.states.at[own].type)) continue;
            instance->at = s;
            refuse(which, plan, "another state is claimed for value", i);
        }
        instance->at = own;
    }
    int loss = plan->programs.at[0].loss;
    for (int i = 0; i < role->instances.n; i++) {
        if (role->instances.at[i].value == role->instances.at[loss].value &&
            layout_equal(role->instances.at[i].layout, role->instances.at[loss].layout))
            continue;
        plan->programs.at[0].loss = i;
        refuse(which, plan, "the loss is read from value", i);
    }
    plan->programs.at[0].loss = loss;
}
Test(proof_check, states_and_losses_confused_are_refused) {
    on_all(each_state_confused, 200);
}

/* The value's node, where it is flat, of that input or of that state's old version: it may be a view. */
static bool may_be_view(const Graph *graph, int value, Place place, int at) {
    const Node *node = &graph->nodes.at[graph->values.at[value].node];
    if (node->op != OP_reshape && node->op != OP_replicate && node->op != OP_expose) return false;
    const Node *leaf = &graph->nodes.at[graph->values.at[node->in[0]].node];
    return leaf->op == (place == PLACE_INPUT ? OP_input : OP_read) && leaf->state == at;
}

static void each_result_in_a_leaf(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    Graph *graph = &plan->graph;
    for (int i = 0; i < role->instances.n; i++) {
        Instance *instance = &role->instances.at[i], own = *instance;
        if (own.place == PLACE_INPUT || own.place == PLACE_CONSTANT || (own.place == PLACE_STATE && !instance_is_view(graph, instance)))
            continue;
        for (int k = 0; k < graph->states.n + graph->inputs.n; k++) {
            if (!in_leaf(graph, k, &own, instance) || may_be_view(graph, own.value, instance->place, (int)instance->at)) continue;
            refuse(which, plan, "it lies in an input or an old state: value", i);
        }
        *instance = own;
    }
}
Test(proof_check, results_in_inputs_and_old_states_are_refused) {
    on_all(each_result_in_a_leaf, 100);
}

/* What an operator of one operand makes of an input lies there where it is flat, else it overwrites it. */
Test(proof_check, only_flat_operators_have_views) {
    static const struct {
        const char *op;
        bool flat;
    } ops[] = {
        {"reshape(x, shape = [2, 8])", true}, {"relu(x)", false}, {"transpose(x, perm = [1, 0])", false}, {"softmax(x, axis = 1)", false}};
    for (int i = 0; i < 4; i++) {
        char net[300];
        snprintf(
            net, sizeof net,
            "net n() { input x : f32[4, 4]; y = %s; loss sum(y * y); }\ntrain { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n",
            ops[i].op);
        Arena arena;
        arena_init(&arena);
        Plan plan;
        load_net(&(Case){"n.dsl", 1, 0, ""}, net, strlen(net), &arena, &plan);
        Role *role = role_of(&plan);
        const Step *step = &role->steps.at[0];
        cr_assert(step->kind == STEP_KERNEL && role->instances.at[step->in[0]].place == PLACE_INPUT && proved(&plan));
        role->instances.at[step->out[0]].place = PLACE_INPUT;
        role->instances.at[step->out[0]].at = 0;
        cr_expect_eq(proved(&plan), ops[i].flat, "%s: %s", ops[i].op, last);
        arena_finish(&arena);
    }
}

/* text with every `from` replaced. */
static void replace_all(Text *out, const char *text, const char *from, const char *to) {
    for (const char *at; (at = strstr(text, from)); text = at + strlen(from)) {
        text_append(out, text, (size_t)(at - text));
        text_append(out, to, strlen(to));
    }
    text_append(out, text, strlen(text));
}

/* Two slices over four ranks: two ranks have none, and no view of what is stored whole. At -O0 there are no views. */
Test(proof_check, views_by_more_ranks_than_slices_are_refused) {
    static const char net[] =
        "net n() { input x : f32[4, 8]; param w : f32[8, 8] = ones; loss mean(square(matmul(x, w))); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\nparallel { mode = data_parallel; }\n";
    static const char *const words[][2] = {{"replicas 4\n", "replicas 2\n"}, {"[4 |", "[2 |"}, {"replicas: 4", "replicas: 2"}};
    for (int optimize = 0; optimize <= 2; optimize++) {
        Arena arena;
        arena_init(&arena);
        Plan plan;
        Error error;
        Text text[3] = {{0}}, renewed = {0};
        const char *written = load_net(&(Case){"n.dsl", 4, optimize, ""}, net, strlen(net), &arena, &plan);
        for (int i = 0; i < 3; i++)
            replace_all(&text[i], i == 0 ? written : text[i - 1].at, words[i][0], words[i][1]);
        cr_assert(plan_renew(&renewed, "plan", text[2].at, text[2].n, &error), "%s", error.text);
        cr_assert(plan_read(&plan, &arena, "plan", renewed.at, renewed.n, 0, &error), "%s", error.text);
        cr_expect_eq(proved(&plan), optimize == 0, "-O%d: %s", optimize, last);
        for (int i = 0; i < 3; i++)
            text_finish(&text[i]);
        text_finish(&renewed);
        arena_finish(&arena);
    }
}

/* A collective under another's name, where the layouts are not that one's pattern. */
static void each_kind_changed(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        Step *step = &role->steps.at[i];
        if (step->kind != STEP_START && step->kind != STEP_LOCAL) continue;
        static const CommKind others[NCOMMS] = {
            [COMM_ALL_REDUCE] = COMM_ALL_GATHER, [COMM_REDUCE_SCATTER] = COMM_ALL_TO_ALL, [COMM_ALL_GATHER] = COMM_REDUCE_SCATTER,
            [COMM_ALL_TO_ALL] = COMM_ALL_REDUCE, [COMM_EXCHANGE] = COMM_STRIDED_SLICE,    [COMM_STRIDED_SLICE] = COMM_ALL_GATHER,
        };
        CommKind own = step->comm;
        step->comm = others[own];
        refuse(which, plan, "another collective is claimed for step", i);
        step->comm = own;
    }
}
Test(proof_check, a_collective_under_another_name_is_refused) {
    on_all(each_kind_changed, 40);
}

Test(proof_check, requests_must_be_waited_for_once) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    load(&cases[0], &arena, &plan);
    Role *role = role_of(&plan);
    for (int i = 0; i < role->steps.n; i++) {
        if (role->steps.at[i].kind != STEP_WAIT) continue;
        role->steps.at[i].request++;
        cr_expect_not(proved(&plan), "a wait for another request, step %d", i);
        role->steps.at[i].request--;
    }
    role->last_rank--;
    cr_expect_not(proved(&plan), "a rank without a role");
    role->last_rank++;
    cr_assert(proved(&plan));
    arena_finish(&arena);
}

/* Inputs and constants are read where they are: from another one's place they are other values. */
static void each_leaf_confused(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->instances.n; i++) {
        Instance *instance = &role->instances.at[i], own = *instance;
        if (own.place == PLACE_INPUT)
            for (int other = 0; other < plan->graph.inputs.n; other++) {
                if (other == own.at) continue;
                instance->at = other;
                refuse(which, plan, "another input is claimed for value", i);
            }
        if (own.place == PLACE_CONSTANT)
            for (int other = 0; other < plan->graph.nodes.n; other++) {
                if (other == own.at) continue;
                instance->at = other;
                refuse(which, plan, "another constant is claimed for value", i);
            }
        *instance = own;
        for (int k = 0; k < plan->graph.inputs.n && own.place == PLACE_ARENA; k++) {
            const Layout *layout = plan->graph.inputs.at[k].layout;
            if (!layout_equal(own.layout, layout)) continue;
            instance->place = PLACE_INPUT;
            instance->at = k;
            refuse(which, plan, "what is computed is claimed to be an input: value", i);
            *instance = own;
        }
    }
}
Test(proof_check, an_input_or_constant_confused_is_refused) {
    on_all(each_leaf_confused, 50);
}

/* What is computed while a communication is under way lies over its source. */
static void each_source_overwritten(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        const Step *start = &role->steps.at[i];
        if (start->kind != STEP_START || role->instances.at[start->in[0]].place != PLACE_ARENA) continue;
        for (int k = i + 1; k < role->steps.n; k++) {
            const Step *step = &role->steps.at[k];
            if (step->kind == STEP_WAIT && step->request == start->request) break;
            for (int o = 0; step->kind != STEP_WAIT && o < step->nout; o++) {
                Instance *instance = &role->instances.at[step->out[o]];
                if (instance->place != PLACE_ARENA) continue;
                int64_t own = instance->at, arena = role->arena_bytes;
                instance->at = role->instances.at[start->in[0]].at;
                role->arena_bytes *= 2; /* room for it there */
                refuse(which, plan, "a source is overwritten before the wait, by step", k);
                instance->at = own;
                role->arena_bytes = arena;
            }
        }
    }
}
Test(proof_check, a_source_that_is_overwritten_before_the_wait_is_refused) {
    on_all(each_source_overwritten, 20);
}

/* A second communication like one of the plan's, into memory of its own, whose result no one takes. */
static void each_wait_forgotten(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    Step *room = malloc((size_t)(role->steps.n + 1) * sizeof *room), *own = role->steps.at;
    Instance *values = malloc((size_t)(role->instances.n + 1) * sizeof *values), *own_values = role->instances.at;
    int n = role->steps.n;
    int64_t arena = role->arena_bytes;
    memcpy(room, own, (size_t)n * sizeof *room);
    memcpy(values, own_values, (size_t)role->instances.n * sizeof *values);
    role->steps.at = room;
    role->instances.at = values;
    for (int i = 0; i < n; i++) {
        if (own[i].kind != STEP_START || values[own[i].in[0]].place != PLACE_ARENA) continue;
        insert_step(role, i, own[i]);
        const Instance *target = &values[own[i].out[0]];
        values[role->instances.n] = *target;
        values[role->instances.n].at = arena;
        values[role->instances.n].place = PLACE_ARENA;
        role->arena_bytes = arena + ((int64_t)1 << 30);
        room[i].out[0] = role->instances.n++;
        room[i].request = n; /* no one's */
        refuse(which, plan, "no one waits for step", i);
        role->instances.n--;
        role->steps.n = n;
        role->arena_bytes = arena;
        memcpy(room, own, (size_t)n * sizeof *room);
    }
    role->steps.at = own;
    role->instances.at = own_values;
    free(room);
    free(values);
}
Test(proof_check, a_communication_without_a_wait_is_refused) {
    on_all(each_wait_forgotten, 20);
}

/* A wait says again what it waits for; it must be what was started. */
static void each_wait_of_another(const Case *which, Plan *plan) {
    Role *role = role_of(plan);
    for (int i = 0; i < role->steps.n; i++) {
        Step *step = &role->steps.at[i], saved = *step;
        if (step->kind != STEP_WAIT) continue;
        step->comm = (CommKind)((step->comm + 1) % NCOMMS);
        refuse(which, plan, "another kind is waited for in step", i);
        *step = saved;
        step->out[0] = step->in[0];
        refuse(which, plan, "another result is waited for in step", i);
        *step = saved;
    }
}

Test(proof_check, a_wait_for_another_communication_is_refused) {
    on_all(each_wait_of_another, 20);
}

/* w is updated in its storage; the forward kernels but replicas of parameters, which read it and on which no other step waits, are done after that. */
static void expect_late_reads_refused(const char *net, int nranks, int nkernels) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    load_net(&(Case){"n.dsl", nranks, 1, ""}, net, strlen(net), &arena, &plan); /* -O2 fuses what is moved here */
    Role *role = role_of(&plan);
    int moved = 0, n = role->steps.n;
    bool in_place = false;
    for (int i = 0; i < role->instances.n; i++)
        in_place |= role->instances.at[i].place == PLACE_STATE && role->instances.at[i].version == 1;
    cr_assert(in_place, "the update has memory of its own: this test shows nothing");
    for (int i = 0; i < n - moved;) {
        Step step = role->steps.at[i];
        if (step.kind != STEP_KERNEL || step.node >= plan.graph.nforward || step.op == OP_replicate) {
            i++;
            continue;
        }
        remove_step(role, i, &step);
        insert_step(role, n - 1, step);
        Instance *result = &role->instances.at[step.out[0]];
        result->at = role->arena_bytes; /* memory that nothing else has */
        role->arena_bytes += 64;
        moved++;
    }
    cr_assert_eq(moved, nkernels);
    cr_assert_not(proved(&plan));
    cr_assert(strstr(last, "the old version of state w is read after it was overwritten"), "%s", last);
    arena_finish(&arena);
}
#define LATE_NET "net n() { param w : f32[8] = ones; loss sum(w * w); }\ntrain { optimizer = sgd(lr = 0.1); steps = 1; }\n"
Test(proof_check, an_old_state_read_after_its_update_is_refused) {
    expect_late_reads_refused(LATE_NET, 1, 2);
}
Test(proof_check, a_view_of_an_old_state_read_after_its_update_is_refused) {
    expect_late_reads_refused(LATE_NET "parallel { mode = data_parallel; }\n", 2, 2);
}
