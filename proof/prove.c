/* Which parts of the proof are run, and the certificate that says exactly that. What is run depends on the plan and the options alone, never on a clock:
 * the same plan gets the same certificate, byte for byte. */
#include "proof/field.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t field_seed = 0x70726f6f66; /* what the elements are drawn from: any will do, and one gives the same run each time */
/* A multiplication with its share of loops, loads and comparisons, in seconds: measured once, of the nets in samples/ on one core of a server of
 * 2020. It turns work into the time that is compared with the budget. */
static const double multiplication_s = 2e-9;
static const double most_bytes = 8.0 * (1 << 30);
enum { GRADIENTS_WORK = 2, SIMPLIFIED_WORK = 1 }; /* evaluations of the graph that field_gradients and field_same are worth */
enum { TENSORS_A_VALUE = 2 };                       /* that they hold at a time: its elements and a tangent, or those of two graphs */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool numeric_fails(Error *error, const char *why) {
    return error_set(error, EXIT_INTERNAL, "over the integers modulo 2^61 - 1: %s", why);
}

static bool check_patterns(const Plan *plan, Proof *proof, Error *error) {
    char why[900];
    Patterns patterns;
    if (!pattern_plan(plan, field_seed, &patterns, why, sizeof why)) return numeric_fails(error, why);
    proof->operator_patterns = patterns.operators;
    proof->communication_patterns = patterns.communications;
    proof->patterns_left_out = patterns.left_out;
    memcpy(proof->left_why, patterns.left_why, sizeof proof->left_why);
    return field_operator_gradients(&plan->graph, field_seed, &proof->gradient_patterns, why, sizeof why) || numeric_fails(error, why);
}

/* Takes an estimate from what is left of the budget. */
static bool affordable(const ProofOptions *options, double *left, double estimate, double bytes) {
    if (bytes > most_bytes || (!options->full && estimate > *left)) return false;
    *left -= estimate;
    return true;
}

static double graph_bytes(const Graph *graph) {
    double bytes = 0;
    for (int v = 0; v < graph->values.n; v++) bytes += TENSORS_A_VALUE * (double)sizeof(Fe) * (double)shape_elements(&graph->values.at[v].type.shape);
    return bytes;
}

static double plan_bytes(const Plan *plan) {
    double bytes = 0;
    for (int p = 0; p < plan->programs.n; p++) {
        double own = numeric_bytes(plan, &plan->programs.at[p]);
        if (own > bytes) bytes = own;
    }
    return bytes;
}

static bool check_whole(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error) {
    char why[900];
    double left = options->budget_s, graph_s = multiplication_s * field_graph_work(&plan->graph);
    for (int p = 0; p < plan->programs.n; p++) proof->whole_plan_s += multiplication_s * numeric_work(plan, &plan->programs.at[p]);
    proof->gradients_s = GRADIENTS_WORK * graph_s;
    proof->simplified_s = SIMPLIFIED_WORK * graph_s;
    if (affordable(options, &left, proof->whole_plan_s, plan_bytes(plan))) {
        for (int p = 0; p < plan->programs.n; p++)
            if (!numeric_program(plan, &plan->programs.at[p], field_seed, why, sizeof why)) return numeric_fails(error, why);
        proof->whole_plan = true;
    }
    if (affordable(options, &left, proof->gradients_s, graph_bytes(&plan->graph))) {
        if (!field_gradients(&plan->graph, field_seed, &proof->gradients, why, sizeof why))
            return error_set(error, EXIT_INTERNAL, "pass autodiff, over the integers modulo 2^61 - 1: %s", why);
        proof->gradients_run = true;
    }
    if (options->lowered && affordable(options, &left, proof->simplified_s, graph_bytes(&plan->graph))) {
        if (!field_same(options->lowered, &plan->graph, field_seed, why, sizeof why))
            return error_set(error, EXIT_INTERNAL, "simplification (passes simplify and prune) changed what the net computes, over the integers modulo 2^61 - 1: %s", why);
        proof->simplified = true;
    }
    return true;
}

/* ---------------------------------------------------------------- the certificate */

static void certify_compositional(Text *text, const Proof *proof, int nranks) {
    text_printf(text, "compositional: %lld steps (%lld kernels, %lld communications, %lld distinct), %lld values; boxes, senders and owners compared on %lld of %d ranks",
                (long long)proof->steps, (long long)proof->kernels, (long long)proof->communications, (long long)proof->distinct_communications,
                (long long)proof->instances, (long long)proof->ranks_checked, nranks);
}

/* What was not run at full size: the budget is too small, or the memory. */
static void leave_out(Text *list, const char *what, double estimate_s, double bytes) {
    text_printf(list, list->n ? ", %s" : "; left out: %s", what);
    text_printf(list, " (about %.3g s", estimate_s);
    if (bytes > most_bytes) text_printf(list, ", and %.3g GiB of at most %.3g", bytes / (1 << 30), most_bytes / (1 << 30));
    text_printf(list, ")");
}

static void certify_numeric(Text *text, const Plan *plan, const ProofOptions *options, const Proof *proof) {
    const char *const s[] = {"s", ""};
    text_printf(text, "; numeric, modulo 2^61 - 1: %d operator and %d communication pattern%s, gradients of %d operator%s", proof->operator_patterns,
                proof->communication_patterns, s[proof->communication_patterns == 1], proof->gradient_patterns, s[proof->gradient_patterns == 1]);
    Text left = {0};
    if (proof->whole_plan) text_printf(text, ", whole plan (%d rank%s)", plan->graph.nranks, s[plan->graph.nranks == 1]);
    else leave_out(&left, "whole plan", proof->whole_plan_s, plan_bytes(plan));
    if (proof->gradients_run) text_printf(text, ", gradients of the graph (%d parameter%s)", proof->gradients, s[proof->gradients == 1]);
    else leave_out(&left, "gradients of the graph", proof->gradients_s, graph_bytes(&plan->graph));
    if (proof->simplified) text_printf(text, ", graph as lowered");
    else if (options->lowered) leave_out(&left, "graph as lowered", proof->simplified_s, graph_bytes(&plan->graph));
    if (proof->patterns_left_out)
        text_printf(text, "; %d pattern%s neither made small nor run (%s)", proof->patterns_left_out, s[proof->patterns_left_out == 1], proof->left_why);
    if (left.n) text_printf(text, "%s", left.at);
    if (left.n && !options->full) text_printf(text, "; the budget is %.3g s, --prove=full lifts it", options->budget_s);
    text_finish(&left);
}

bool proof_check(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error) {
    static const ProofOptions usual = {.budget_s = PROOF_BUDGET_S};
    if (!options) options = &usual;
    memset(proof, 0, sizeof *proof);
    double begin = seconds_now(), now = begin;
    if (!compositional_check(plan, proof, error)) return false;
    proof->compositional_s = seconds_now() - now;
    if (!options->compositional) {
        now = seconds_now();
        if (!check_patterns(plan, proof, error)) return false;
        proof->patterns_s = seconds_now() - now;
        now = seconds_now();
        if (!check_whole(plan, options, proof, error)) return false;
        proof->whole_s = seconds_now() - now;
    }
    Text text = {0};
    certify_compositional(&text, proof, plan->graph.nranks);
    if (options->compositional) text_printf(&text, "; not run: numeric");
    else certify_numeric(&text, plan, options, proof);
    snprintf(proof->certificate, sizeof proof->certificate, "%s", text.at);
    text_finish(&text);
    proof->seconds = seconds_now() - begin;
    return true;
}
