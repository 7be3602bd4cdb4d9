/* Decides which parts of the proof are run, and writes the certificate that states exactly these. What is run depends only on the plan and the options, never on a clock: the same
 * plan gets the same certificate, byte for byte. */
#include "proof/field.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t field_seed = 0x70726f6f66; /* elements are drawn from it: any seed will do; a fixed one repeats each run */
/* A multiplication with its share of loops, loads and comparisons, in seconds: measured once, of the nets in samples/ on one core of a server of
 * 2020. It turns work into the time that is compared with the budget. */
static const double multiplication_s = 2e-9;
static const double most_bytes = 8.0 * (1 << 30);
enum { GRADIENTS_WORK = 2, SIMPLIFIED_WORK = 1 }; /* work of field_gradients and field_same, in evaluations of the graph */
enum { MAX_PARTS = 16 };                          /* programs of a plan */
enum { TENSORS_A_VALUE = 2 };                     /* tensors held at a time: the elements and a tangent, or the elements in two graphs */

static bool numeric_fails(Error *error, const char *why) {
    return error_set(error, EXIT_INTERNAL, "over the integers modulo 2^61 - 1: %s", why);
}

/* The plan as each of its programs sees it, with the program's graph. */
typedef struct Parts {
    const Plan *plan;
    int n;
    Plan at[MAX_PARTS];
} Parts;

static bool trains(const Plan *part) {
    return part->programs.at[0].kind == PROGRAM_TRAIN;
}

static bool check_patterns(const Parts *parts, Pool *pool, Proof *proof, Error *error) {
    char why[900];
    for (int p = 0; p < parts->n; p++) {
        Patterns patterns;
        if (!pattern_plan(&parts->at[p], field_seed, pool, &patterns, why, sizeof why)) return numeric_fails(error, why);
        proof->operator_patterns += patterns.operators;
        proof->communication_patterns += patterns.communications;
        if (proof->patterns_left_out == 0) memcpy(proof->left_why, patterns.left_why, sizeof proof->left_why);
        proof->patterns_left_out += patterns.left_out;
        int gradients = 0;
        if (!trains(&parts->at[p])) continue;
        if (!field_operator_gradients(&parts->at[p].graph, field_seed, &gradients, why, sizeof why)) return numeric_fails(error, why);
        proof->gradient_patterns += gradients;
    }
    return true;
}

/* Subtracts an estimate from the remaining budget; false: it exceeds the budget or the memory. */
static bool affordable(const ProofOptions *options, double *left, double estimate, double bytes) {
    if (bytes > most_bytes || (!options->full && estimate > *left)) return false;
    *left -= estimate;
    return true;
}

static double graph_bytes(const Graph *graph) {
    double bytes = 0;
    for (int v = 0; v < graph->values.n; v++)
        bytes += TENSORS_A_VALUE * (double)sizeof(Fe) * (double)shape_elements(&graph->values.at[v].type.shape);
    return bytes;
}

static double plan_bytes(const Parts *parts) {
    double bytes = 0;
    for (int p = 0; p < parts->n; p++) {
        double own = numeric_bytes(&parts->at[p], &parts->at[p].programs.at[0]);
        if (own > bytes) bytes = own;
    }
    return bytes;
}

/* The graph with parameters in place of their averages: an evaluation of averages was lowered with parameters. False: it reads a parameter
 * that has an average. */
static bool without_averages(const Graph *graph, Arena *arena, Graph *plain) {
    *plain = *graph;
    plain->nodes.at = arena_alloc(arena, sizeof *plain->nodes.at * (size_t)(graph->nodes.n + 1));
    for (int i = 0; i < graph->nodes.n; i++) {
        Node *node = &plain->nodes.at[i];
        *node = graph->nodes.at[i];
        if (node->op != OP_read) continue;
        if (state_average(graph, node->state) >= 0) return false;
        node->state = graph->states.at[node->state].parameter;
    }
    return true;
}

static bool same_as_lowered(const Graph *lowered, const Graph *graph, char *why, size_t n) {
    Arena arena;
    Graph plain;
    arena_init(&arena);
    bool ok = true;
    if (lowered->settings.averages && !(ok = without_averages(graph, &arena, &plain)))
        snprintf(why, n, "it reads a parameter, and not its average");
    ok = ok && field_same(lowered, lowered->settings.averages ? &plain : graph, field_seed, why, n);
    arena_finish(&arena);
    return ok;
}

/* Compares the graph of each program with the graph that it was made from. */
static bool check_simplified(const Parts *parts, const ProofOptions *options, Error *error) {
    char why[900];
    for (int p = 0; p < parts->n; p++) {
        if (!same_as_lowered(options->lowered[p], &parts->at[p].graph, why, sizeof why))
            return error_set(
                error, EXIT_INTERNAL,
                "simplification (passes simplify, prune and expand) changed what the net computes, over the integers modulo 2^61 - 1: %s",
                why);
    }
    return true;
}

static bool check_whole(const Parts *parts, const ProofOptions *options, Proof *proof, Error *error) {
    char why[900];
    const Plan *plan = parts->plan;
    double left = options->budget_s;
    for (int p = 0; p < parts->n; p++) {
        const Plan *part = &parts->at[p];
        const double graph_s = multiplication_s * field_graph_work(&part->graph);
        proof->whole_plan_s += multiplication_s * numeric_work(part, &part->programs.at[0]);
        proof->gradients_s += trains(part) ? GRADIENTS_WORK * graph_s : 0;
        proof->simplified_s += SIMPLIFIED_WORK * graph_s;
    }
    if (affordable(options, &left, proof->whole_plan_s, plan_bytes(parts))) {
        for (int p = 0; p < parts->n; p++)
            if (!numeric_program(&parts->at[p], &parts->at[p].programs.at[0], field_seed, why, sizeof why))
                return numeric_fails(error, why);
        proof->whole_plan = true;
    }
    if (affordable(options, &left, proof->gradients_s, graph_bytes(&plan->graph))) {
        for (int p = 0; p < parts->n; p++)
            if (trains(&parts->at[p]) && !field_gradients(&parts->at[p].graph, field_seed, &proof->gradients, why, sizeof why))
                return error_set(error, EXIT_INTERNAL, "pass autodiff, over the integers modulo 2^61 - 1: %s", why);
        proof->gradients_run = true;
    }
    if (options->lowered && affordable(options, &left, proof->simplified_s, graph_bytes(&plan->graph))) {
        if (!check_simplified(parts, options, error)) return false;
        proof->simplified = true;
    }
    return true;
}

/* ---------------------------------------------------------------- the certificate */

static void certify_compositional(Text *text, const Proof *proof, int nranks) {
    text_printf(
        text,
        "compositional: %lld steps (%lld kernels, %lld communications, %lld distinct), %lld values; boxes, senders and owners compared on %lld of %d ranks",
        (long long)proof->steps, (long long)proof->kernels, (long long)proof->communications, (long long)proof->distinct_communications,
        (long long)proof->instances, (long long)proof->ranks_checked, nranks);
    if (proof->roles > proof->programs) text_printf(text, ", %lld roles, of which none waits for ever", (long long)proof->roles);
    if (proof->copies > 0) text_printf(text, ", %lld cop%s", (long long)proof->copies, proof->copies == 1 ? "y of a node" : "ies of nodes");
}

/* Lists what was not run at full size because the budget, or the memory, is too small. */
static void leave_out(Text *list, const char *what, double estimate_s, double bytes) {
    text_printf(list, list->n ? ", %s" : "; left out: %s", what);
    text_printf(list, " (about %.3g s", estimate_s);
    if (bytes > most_bytes) text_printf(list, ", and %.3g GiB of at most %.3g", bytes / (1 << 30), most_bytes / (1 << 30));
    text_printf(list, ")");
}

static void certify_numeric(Text *text, const Parts *parts, const ProofOptions *options, const Proof *proof) {
    const Plan *plan = parts->plan;
    const char *const s[] = {"s", ""};
    text_printf(text, "; numeric, modulo 2^61 - 1: %d operator and %d communication pattern%s, gradients of %d operator%s",
                proof->operator_patterns, proof->communication_patterns, s[proof->communication_patterns == 1], proof->gradient_patterns,
                s[proof->gradient_patterns == 1]);
    Text left = {0};
    if (proof->whole_plan)
        text_printf(text, ", whole plan (%d rank%s)", plan->graph.nranks, s[plan->graph.nranks == 1]);
    else
        leave_out(&left, "whole plan", proof->whole_plan_s, plan_bytes(parts));
    if (proof->gradients_run)
        text_printf(text, ", gradients of the graph (%d parameter%s)", proof->gradients, s[proof->gradients == 1]);
    else
        leave_out(&left, "gradients of the graph", proof->gradients_s, graph_bytes(&plan->graph));
    if (proof->simplified)
        text_printf(text, ", graph as lowered");
    else if (options->lowered)
        leave_out(&left, "graph as lowered", proof->simplified_s, graph_bytes(&plan->graph));
    if (proof->patterns_left_out)
        text_printf(text, "; %d pattern%s neither made small nor run (%s)", proof->patterns_left_out, s[proof->patterns_left_out == 1],
                    proof->left_why);
    if (left.n) text_printf(text, "%s", left.at);
    if (left.n && !options->full) text_printf(text, "; the budget is %.3g s, --prove=full lifts it", options->budget_s);
    text_finish(&left);
}

static bool parts_check(const Parts *parts, const ProofOptions *options, Proof *proof, Error *error) {
    double now = now_seconds();
    if (parts->n == 0) return error_set(error, EXIT_INTERNAL, "the plan has no program");
    proof->programs = parts->n;
    for (int p = 0; p < parts->n; p++)
        if (!compositional_check(&parts->at[p], options->pool, proof, error)) return false;
    proof->compositional_s = now_seconds() - now;
    if (!options->compositional) {
        now = now_seconds();
        if (!check_patterns(parts, options->pool, proof, error)) return false;
        proof->patterns_s = now_seconds() - now;
        now = now_seconds();
        if (!check_whole(parts, options, proof, error)) return false;
        proof->whole_s = now_seconds() - now;
    }
    Text text = {0};
    certify_compositional(&text, proof, parts->plan->graph.nranks);
    if (options->compositional)
        text_printf(&text, "; not run: numeric");
    else
        certify_numeric(&text, parts, options, proof);
    snprintf(proof->certificate, sizeof proof->certificate, "%s", text.at);
    text_finish(&text);
    return true;
}

bool proof_check(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error) {
    static const ProofOptions usual = {.budget_s = PROOF_BUDGET_S};
    if (!options) options = &usual;
    memset(proof, 0, sizeof *proof);
    double begin = now_seconds();
    if (plan->programs.n > MAX_PARTS)
        return error_set(error, EXIT_INTERNAL, "%d programs: at most %d can be shown", plan->programs.n, (int)MAX_PARTS);
    Parts *parts = malloc(sizeof *parts);
    if (!parts) return error_set(error, EXIT_ENVIRONMENT, "out of memory in the proof");
    parts->plan = plan;
    parts->n = plan->programs.n;
    for (int p = 0; p < parts->n; p++)
        parts->at[p] = plan_part(plan, p);
    bool ok = parts_check(parts, options, proof, error);
    free(parts);
    proof->seconds = now_seconds() - begin;
    return ok;
}
