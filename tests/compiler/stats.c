#include "compile.h"

static bool has(Compiled *x, const char *what) {
    Text text = {0};
    stats_print(&text, &x->c);
    stats_summary(&text, &x->c);
    bool found = strstr(text.at, what) != NULL;
    if (!found) fprintf(stderr, "%s", text.at);
    text_finish(&text);
    return found;
}

Test(stats, counts_parameters_and_memory_by_hand) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    /* 32*16 + 16*16 weights, as many slots, 4 bytes each; a quarter of each tensor on a rank */
    cr_expect(has(&x, "768 in 2 tensors; with the optimizer's slots 6.0 KiB, on a rank 1.5 KiB"));
    compiled_finish(&x);
}

Test(stats, the_plan_says_what_the_busiest_rank_sends) {
    Compiled x;
    compiled(&x,
             "net n() { input x : f32[8, 4]; param w : f32[4, 4] = ones; h = matmul(x, w) shard ((4, 1), (1, 1)); loss sum(h); }\n" TRAIN
             "parallel { mode = auto; }\n",
             4, 2);
    /* the gradient of w, 16 numbers, is summed over 4 ranks, the loss too: at the bound a rank receives and sends 2 * 3/4 of it, the loss
     * at most 3 */
    int64_t sent = stats_sent_bytes(&x.c);
    cr_expect_eq(x.c.plan.programs.at[0].sent_bytes, sent);
    cr_expect_geq(sent, 4 * (2 * 12 + 1));
    cr_expect_leq(sent, 4 * (2 * 12 + 6));
    compiled_finish(&x);
}

Test(stats, one_rank_sends_nothing) {
    Compiled x;
    compiled_init(&x, 1, 2);
    x.options.overrides.mode = "stand_alone";
    cr_assert(compiled_run(&x, quickstart));
    cr_expect(has(&x, "1 rank, 19 steps, 0 communications, 0 B/rank/step sent, proved in"));
    compiled_finish(&x);
}
