/* What is run, what the certificate says of it, and what is counted again of a plan's header. */
#include <string.h>

#include "tests/proof/plans.h"

static const PlanCase quickstart = {"samples/quickstart.dsl", 8, 2, ""}, mlp = {"samples/mlp.dsl", 8, 2, ""},
                      ddp = {"samples/oneflow_ddp.dsl", 2, 2, ""};

static Proof proved(const PlanCase *which, ProofOptions options) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Proof proof;
    Error error = {0};
    plan_load(which, &arena, &plan);
    cr_assert(proof_check(&plan, &options, &proof, &error), "%s", error.text);
    arena_finish(&arena);
    return proof;
}

Test(prove, a_small_plan_is_run_whole) {
    Proof proof = proved(&quickstart, (ProofOptions){.budget_s = PROOF_BUDGET_S});
    cr_assert(proof.whole_plan && proof.gradients_run && proof.gradients == 2);
    cr_assert(strstr(proof.certificate, "compositional: "));
    cr_assert(strstr(proof.certificate, "; numeric, modulo 2^61 - 1: "));
    cr_assert(strstr(proof.certificate, ", whole plan (8 ranks), gradients of the graph (2 parameters)"), "%s", proof.certificate);
    cr_assert_null(strstr(proof.certificate, "left out"));
}

Test(prove, what_the_budget_leaves_out_is_named) {
    Proof proof = proved(&quickstart, (ProofOptions){0});
    cr_assert(!proof.whole_plan && !proof.gradients_run && proof.operator_patterns > 5 && proof.communication_patterns > 3 &&
              proof.gradient_patterns > 2);
    cr_assert(strstr(proof.certificate, "; left out: whole plan (about "), "%s", proof.certificate);
    cr_assert(strstr(proof.certificate, "gradients of the graph (about "));
    cr_assert(strstr(proof.certificate, "the budget is 0 s, --prove=full lifts it"));
    Proof large = proved(&mlp, (ProofOptions){.budget_s = PROOF_BUDGET_S});
    cr_assert(!large.whole_plan && large.whole_plan_s > 1, "%g", large.whole_plan_s);
}

Test(prove, full_lifts_the_budget) {
    Proof proof = proved(&quickstart, (ProofOptions){.full = true});
    cr_assert(proof.whole_plan && proof.gradients_run);
}

Test(prove, compositional_says_that_nothing_was_run) {
    Proof proof = proved(&quickstart, (ProofOptions){.compositional = true, .full = true});
    cr_assert(strstr(proof.certificate, "; not run: numeric"));
    cr_assert(proof.operator_patterns == 0 && !proof.whole_plan);
}

Test(prove, one_plan_gets_one_certificate) {
    Proof a = proved(&mlp, (ProofOptions){.budget_s = PROOF_BUDGET_S}), b = proved(&mlp, (ProofOptions){.budget_s = PROOF_BUDGET_S});
    cr_assert_str_eq(a.certificate, b.certificate);
}

/* ---------------------------------------------------------------- a second program */

static const PlanCase evaluation = {"samples/evaluation.dsl", 4, 2, ""};

static bool refused(const Plan *plan, const char *why) {
    Proof proof;
    Error error = {0};
    bool ok = proof_check(plan, &(ProofOptions){.budget_s = PROOF_BUDGET_S}, &proof, &error);
    cr_expect(!ok && strstr(error.text, why), "%s: %s", why, ok ? "proved" : error.text);
    return !ok;
}

Test(prove, both_programs_are_shown) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Proof both, one;
    Error error = {0};
    plan_load(&evaluation, &arena, &plan);
    cr_assert(proof_check(&plan, NULL, &both, &error), "%s", error.text);
    Plan train = plan_part(&plan, 0);
    cr_assert(proof_check(&train, NULL, &one, &error), "%s", error.text);
    cr_assert_gt(both.steps, one.steps);
    cr_assert_gt(both.operator_patterns, one.operator_patterns);
    cr_assert(both.whole_plan && both.gradients == one.gradients);
    arena_finish(&arena);
}

/* The plan as loaded, its eval's graph a copy that can be changed. */
static Program *load_eval(Arena *arena, Plan *plan) {
    plan_load(&evaluation, arena, plan);
    return &plan->programs.at[plan_find(plan, "eval")];
}

Test(prove, an_eval_that_reports_something_else_is_refused) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Program *eval = load_eval(&arena, &plan);
    int rows = eval->reports.at[0], loss = eval->loss;
    eval->reports.at[0] = loss;
    refused(&plan, "reports loss.sum as rows");
    eval->reports.at[0] = rows;
    eval->loss = rows;
    refused(&plan, "reports rows as the loss");
    eval->loss = loss;
    eval->reports.n--;
    refused(&plan, "reports 1 values where the graph says 2");
    arena_finish(&arena);
}

Test(prove, an_eval_that_reports_a_sum_still_owed_is_refused) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Program *eval = load_eval(&arena, &plan);
    const Role *role = &eval->roles.at[0];
    for (int r = -1; r < 1; r++) {
        int *reported = r < 0 ? &eval->loss : &eval->reports.at[r], right = *reported, partial = -1;
        for (int i = 0; i < role->instances.n; i++)
            if (role->instances.at[i].value == role->instances.at[right].value && layout_is_partial(role->instances.at[i].layout))
                partial = i;
        cr_assert_geq(partial, 0);
        *reported = partial;
        refused(&plan, "is partial where it is reported");
        *reported = right;
    }
    arena_finish(&arena);
}

Test(prove, an_eval_that_writes_a_state_is_refused) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Program *eval = load_eval(&arena, &plan);
    for (int n = 0; n < eval->graph->nodes.n; n++) {
        Node *node = &eval->graph->nodes.at[n];
        if (node->op != OP_read) continue;
        node->version = 1;
        refused(&plan, "it evaluates, and reads a new version of state");
        node->version = 0;
    }
    graph_write_state(eval->graph, 0, eval->graph->nodes.at[0].out[0], (Span){0});
    refused(&plan, "it evaluates, and writes state w");
    arena_finish(&arena);
}

Test(prove, every_step_of_an_eval_is_needed) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    Program *eval = load_eval(&arena, &plan);
    Role *role = &eval->roles.at[0];
    Step *steps = role->steps.at;
    int n = role->steps.n;
    for (int drop = 0; drop < n; drop++) {
        Step *fewer = arena_alloc(&arena, sizeof *fewer * (size_t)n);
        for (int s = 0, k = 0; s < n; s++)
            if (s != drop) fewer[k++] = steps[s];
        role->steps.at = fewer;
        role->steps.n = n - 1;
        refused(&plan, "program eval");
    }
    arena_finish(&arena);
}

/* ---------------------------------------------------------------- header */

static bool header(const Plan *plan, char *text, size_t n) {
    Text facts = {0};
    Error error = {0};
    bool ok = proof_header(plan, &facts, &error);
    snprintf(text, n, "%s", ok ? facts.at : error.text);
    text_finish(&facts);
    return ok;
}

Test(prove, what_is_sent_is_counted_again) {
    const PlanCase cases[] = {quickstart,
                              mlp,
                              ddp,
                              {"samples/quickstart.dsl", 8, 0, ""},
                              {"samples/elementwise.dsl", 6, 2, "semi_auto"},
                              {"samples/reductions.dsl", 5, 2, "semi_auto"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena arena;
        arena_init(&arena);
        Plan plan;
        char text[1100];
        plan_load(&cases[i], &arena, &plan);
        cr_assert(header(&plan, text, sizeof text), "%s: %s", cases[i].file, text);
        cr_assert(strstr(text, "bytes a step, as it says") && strstr(text, "hash: not checked"), "%s", text);
        plan.programs.at[0].sent_bytes++;
        cr_assert_not(header(&plan, text, sizeof text));
        cr_assert(strstr(text, "it says sent="), "%s", text);
        arena_finish(&arena);
    }
}

Test(prove, replicas_are_those_of_the_graph) {
    Arena arena;
    arena_init(&arena);
    Plan plan;
    char text[1100];
    plan_load(&ddp, &arena, &plan);
    cr_assert(header(&plan, text, sizeof text), "%s", text);
    plan.graph.replicas = 3;
    cr_assert_not(header(&plan, text, sizeof text));
    cr_assert(strstr(text, "it says replicas 3"), "%s", text);
    arena_finish(&arena);
    arena_init(&arena);
    plan_load(&quickstart, &arena, &plan);
    plan.graph.replicas = 8;
    cr_assert_not(header(&plan, text, sizeof text), "no tensor of this graph has replicas");
    arena_finish(&arena);
}
