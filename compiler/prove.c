/* prove: the plan is proved before anything is written.
 *
 * Before: emit. After: the plan as it is read back from its bytes is proved against its own graph, and the certificate is in the bytes. Fails, with
 * nothing written, when the text does not read back, or the proof cannot be given (exit 70). */
#include "compiler/compiler.h"

bool pass_prove(Compilation *c) {
    const double begin = now_seconds();
    Plan read;
    Error error;
    const PlanFiles files = {.text = c->text.at, .n = c->text.n, .side = c->side.at, .nside = c->side.n};
    if (!plan_read_files(&read, c->arena, c->options->output, &files, 0, &error))
        return error_set(&c->error, EXIT_INTERNAL, "the plan does not read back: %s", error.text);
    c->plan.checksum = read.checksum;
    if (!c->options->prove) return true;
    ProofOptions proof = c->options->proof;
    const Graph **lowered = arena_alloc(c->arena, (size_t)c->programs.n * sizeof *lowered);
    for (int p = 0; p < c->programs.n; p++)
        lowered[p] = &c->programs.at[p]->front.lowered;
    proof.lowered = lowered;
    proof.pool = c->options->pool;
    if (!proof_check(&read, &proof, &c->proof, &error))
        return error_set(&c->error, EXIT_INTERNAL, "the plan could not be proved, and is not written: %s", error.text);
    c->plan.certificate = c->proof.certificate;
    plan_certify(&c->text, c->plan.certificate);
    c->proof.seconds = now_seconds() - begin;
    return true;
}
