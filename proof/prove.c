/* Which parts of the proof are run, and the certificate that says exactly that. What is run depends on the plan and the options alone, never on a clock:
 * the same plan gets the same certificate, byte for byte. */
#include "proof/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void certify_compositional(Text *text, const Proof *proof, int nranks) {
    text_printf(text, "compositional: %lld steps (%lld kernels, %lld communications, %lld distinct), %lld values; boxes, senders and owners compared on %lld of %d ranks",
                (long long)proof->steps, (long long)proof->kernels, (long long)proof->communications, (long long)proof->distinct_communications,
                (long long)proof->instances, (long long)proof->ranks_checked, nranks);
}

bool proof_check(const Plan *plan, const ProofOptions *options, Proof *proof, Error *error) {
    static const ProofOptions usual = {.budget_s = PROOF_BUDGET_S};
    if (!options) options = &usual;
    double begin = seconds_now();
    memset(proof, 0, sizeof *proof);
    if (!compositional_check(plan, proof, error)) return false;
    proof->compositional_s = seconds_now() - begin;
    Text text = {0};
    certify_compositional(&text, proof, plan->graph.nranks);
    text_printf(&text, "; not run: numeric");
    snprintf(proof->certificate, sizeof proof->certificate, "%s", text.at);
    text_finish(&text);
    proof->seconds = seconds_now() - begin;
    return true;
}
