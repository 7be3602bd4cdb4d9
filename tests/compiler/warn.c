#include "compile.h"

/* What is said of a net on this many ranks, in the arena. */
static const char *said(Compiled *x, const char *net, int nranks, unsigned silenced, bool errors) {
    compiled_init(x, nranks, 2);
    x->options.silenced = silenced;
    x->options.warnings_are_errors = errors;
    compiled_run(x, net);
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    diags_print(&x->diags, file);
    size_t n = (size_t)ftell(file);
    rewind(file);
    char *text = arena_alloc(&x->arena, n + 1);
    cr_assert_eq(fread(text, 1, n, file), n);
    fclose(file);
    return text;
}

/* The net is warned of, so; not when that is silenced; and rejected with -Werror. */
static void expect_warning(const char *net, int nranks, Warning warning, const char *text) {
    Compiled x;
    char flag[64];
    const char *all = said(&x, net, nranks, 0, false);
    snprintf(flag, sizeof flag, "[-W%s]", warning_name[warning]);
    cr_expect(x.done, "%s", all);
    cr_expect(strstr(all, text) != NULL, "no '%s' in\n%s", text, all);
    cr_expect(strstr(all, flag) != NULL, "no '%s' in\n%s", flag, all);
    compiled_finish(&x);
    all = said(&x, net, nranks, 1u << warning, false);
    cr_expect(x.done && strstr(all, flag) == NULL, "not silenced:\n%s", all);
    cr_expect(strstr(all, text) == NULL, "not silenced:\n%s", all);
    compiled_finish(&x);
    all = said(&x, net, nranks, 0, true);
    snprintf(flag, sizeof flag, "[-Werror=%s]", warning_name[warning]);
    cr_expect(!x.done && x.c.error.code == EXIT_REJECTED, "accepted:\n%s", all);
    cr_expect(strstr(all, flag) != NULL, "no '%s' in\n%s", flag, all);
    cr_expect_neq(access(x.output, F_OK), 0, "a plan was written");
    compiled_finish(&x);
}

static void expect_silence(const char *net, int nranks) {
    Compiled x;
    const char *all = said(&x, net, nranks, 0, true);
    cr_expect(x.done && x.diags.nwarnings == 0, "%s", all);
    compiled_finish(&x);
}

#define AUTO "parallel { mode = auto; }\n"
#define INPUTS "input x : f32[16, 8]; input label : f32[16, 8];"

Test(warn, conflicting_hints_name_both_places_and_the_bytes) {
    /* a [16, 8] is made with 4 rows and needed with 4 columns: each of 4 ranks has 32 numbers and needs 32, of which it has 8 */
    const char *net = "net n() { " INPUTS " param w : f32[8, 8] = ones;\n"
                      "a = relu(x) shard ((4, 1));\n"
                      "b = tanh(a) shard ((1, 4));\n"
                      "loss mse(matmul(b, w), label); }\n" TRAIN AUTO;
    expect_warning(
        net, 4, WARN_CONFLICT,
        "the hints of a and b do not fit together: a is made as [4@1 -] and needed as [- 4@1] by b; the conversion lets 384 bytes be received a step");
    expect_warning(net, 4, WARN_CONFLICT, "test.dsl:2:13: note: the hint of a\n");
}

Test(warn, two_operators_of_one_pattern_that_do_not_fit_are_both_named) {
    const char *net =
        "net n() { " INPUTS " param w : f32[8, 8] = ones;\n"
        "    r1 = matmul(x, w);\n    r2 = matmul(r1, w);\n    loss mse(r2, label); }\nhints { r* = ((1, 1), (1, 4)); }\n" TRAIN AUTO;
    const char *found = "hints of r1 and r2 do not fit together: ";
    expect_warning(net, 4, WARN_CONFLICT, found);
    expect_warning(net, 4, WARN_CONFLICT, "test.dsl:2:10: note: r1, which the same pattern names\n");
}

Test(warn, hints_of_patterns_that_meet_in_every_iteration_are_one_conflict) {
    static const char net[] =
        "net q(n = 8) { input x : f32[n, n]; h = x; for i in 0..3 { a = tanh(h); b = tanh(a); h = b; } loss mean(h); }\n"
        "hints { a.* = ((4, 1)); b.* = ((1, 4)); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }";
    Compiled x;
    const char *all = said(&x, net, 4, 0, false), *first = strstr(all, "do not fit");
    cr_assert(first != NULL, "%s", all);
    cr_expect(
        strstr(
            all,
            "a.0 is made as [4@1 -] and needed as [- 4@1] by b.0; the conversion lets 192 bytes be received a step, with those at 4 more places 960") !=
            NULL,
        "%s", all);
    cr_expect(strstr(first + 1, "do not fit") == NULL, "%s", all);
    compiled_finish(&x);
}

Test(warn, hints_that_agree_on_what_they_take_are_no_conflict) {
    /* n follows q's hint and is split further; q gathers it for itself, k takes what q has gathered */
    Compiled x;
    const char *all = said(&x,
                           "net n() { " INPUTS " param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
                           "n = tanh(x);\n"
                           "q = matmul(n, a) shard ((2, 1), (1, 4));\n"
                           "k = matmul(n, b) shard ((2, 1), (1, 4));\n"
                           "loss mse(q * k, label); }\n" TRAIN AUTO,
                           8, 0, false);
    cr_expect(x.done && strstr(all, "conflict") == NULL, "%s", all);
    compiled_finish(&x);
}

Test(warn, hints_between_which_operators_are_split_further_are_no_conflict) {
    /* Megatron's two layers: behind d the sum is scattered, because tanh is computed in parts then; u gathers it, as it would add it up otherwise */
    Compiled x;
    const char *all = said(&x,
                           "net n(b = 64, n = 32) { input x : f32[b, n]; input label : f32[b, n]; h = x;\n"
                           "for i in 0..2 { param up : f32[n, 4 * n] = ones; param down : f32[4 * n, n] = ones;\n"
                           "u = matmul(tanh(h), up); d = matmul(relu(u), down); h = h + d; }\n"
                           "loss mse(h, label); }\nhints { u.* = ((2, 1), (1, 4)); d.* = ((2, 4), (4, 1)); }\n" TRAIN AUTO,
                           8, 0, false);
    cr_expect(x.done && strstr(all, "conflict") == NULL, "%s", all);
    compiled_finish(&x);
}

Test(warn, uneven_splits_say_the_imbalance_of_the_busiest_rank) {
    /* 6 rows on 4 ranks: 2 2 1 1, and 1.5 on average */
    expect_warning(
        "net n() { input x : f32[6, 8]; param w : f32[8, 8] = ones; y = matmul(x, w) shard ((4, 1), (1, 1)); loss sum(y); }\n" TRAIN AUTO,
        4, WARN_UNEVEN, "matmul: 4 does not divide 6: the largest part is 2, the smallest 1 (the busiest rank has 33 % over the average)");
    /* without a hint, once for all operators of this batch */
    const char *net = "net n() { input x : f32[6, 8]; param w : f32[8, 8] = ones; loss sum(tanh(relu(matmul(x, w)))); }\n" TRAIN AUTO;
    expect_warning(net, 4, WARN_UNEVEN, "4 does not divide 6");
    Compiled x;
    said(&x, net, 4, 0, false);
    cr_expect_eq(x.diags.nwarnings, 1);
    compiled_finish(&x);
    /* of a parameter or an input */
    expect_warning(
        "net n() { input x : f32[8, 10]; param w : f32[10, 8] = ones shard (4, 1); y = matmul(x, w) shard ((4, 1), (1, 1)); loss sum(y); }\n" TRAIN
            AUTO,
        4, WARN_UNEVEN, "w: 4 does not divide 10: the largest part is 3, the smallest 2 (the busiest rank has 20 % over the average)");
    /* 1 row in 1000 more is not worth a word */
    expect_silence("net n() { input x : f32[4001, 8]; param w : f32[8, 8] = ones; loss sum(matmul(x, w)); }\n" TRAIN AUTO, 4);
}

/* 4 ranks, and no size that they divide. */
Test(warn, an_uneven_split_that_a_search_chose_is_not_named) {
    Compiled x;
    compiled_init(&x, 4, 2);
    x.options.overrides.search = "dynamic_programming";
    x.options.warnings_are_errors = true;
    cr_assert(compiled_run(
        &x, "net n() { input x : f32[51, 51, 51, 51]; param w : f32[51, 51] = normal(0.1); loss mean(square(matmul(x, w))); }\n" TRAIN));
    const Graph *g = &x.b->front.chosen;
    bool uneven = false;
    for (int n = 0; n < g->nforward; n++)
        for (int f = 0; !node_is_leaf(&g->nodes.at[n]) && f < g->nodes.at[n].rule->nfactors; f++)
            uneven = uneven || g->nodes.at[n].rule->factor[f].size % strategy_split(g->nodes.at[n].strategy, f) != 0;
    cr_expect(uneven, "nothing is split unevenly");
    compiled_finish(&x);
}

Test(warn, a_parameter_that_the_loss_does_not_depend_on) {
    expect_warning("net n() { " INPUTS
                   " param w : f32[8, 8] = ones;\n param unused : f32[8] = ones;\n loss mse(matmul(x, w), label); }\n" TRAIN AUTO,
                   1, WARN_NO_GRADIENT, "test.dsl:2:8: warning: parameter unused gets no gradient: the loss does not depend on it");
}

Test(warn, a_hint_on_what_the_loss_does_not_depend_on) {
    expect_warning("net n() { " INPUTS
                   " param w : f32[8, 8] = ones;\n side = tanh(x) shard ((4, 1));\n loss mse(matmul(x, w), label); }\n" TRAIN AUTO,
                   4, WARN_NO_EFFECT, "test.dsl:2:17: warning: this strategy has no effect: the loss does not depend on side");
}

/* h is whole for both passes; v's parts are gathered for the forward pass, and by the hint once more for the backward pass. Nor is that said of an eval, which has none. */
Test(warn, what_is_to_be_gathered_again_and_is_not_gathered) {
#define GATHERED(parallel)                                                                                                                 \
    "net n() { " INPUTS " param u : f32[8, 8] = ones; param v : f32[8, 8] = ones; h = tanh(matmul(x, u)); loss mse(matmul(h, v), label);"  \
    " }\n" TRAIN "parallel { shard_from = 0; regather = none; " parallel " }\nhints { h = regather; }\nhints { v = regather; }\n"          \
    "eval { data = normal(seed = 2); every = 2; steps = 1; }\n"
    expect_warning(
        GATHERED("shard_states = parameters;"), 4, WARN_NO_EFFECT,
        "test.dsl:4:9: warning: regather has no effect: nothing of h is gathered for the forward pass and for the backward pass");
    Compiled x;
    cr_expect_null(strstr(said(&x, GATHERED("shard_states = parameters;"), 4, 0, false), "nothing of v"));
    cr_expect_eq(x.diags.nwarnings, 1);
    compiled_finish(&x);
    cr_expect_not_null(strstr(said(&x, GATHERED(""), 4, 0, false), "nothing of v"));
    compiled_finish(&x);
    expect_silence(GATHERED(""), 1);
    /* two hints of one thing; equal operators, of which one is hinted; what the loss does not depend on */
    const char *both = said(&x, GATHERED("shard_states = parameters;") "hints { v = regather; }\n", 4, 0, false);
    cr_expect_null(strstr(both, "nothing of v"), "%s", both);
    compiled_finish(&x);
    const char *equal =
        "net n() { " INPUTS " param u : f32[8, 8] = ones; param v : f32[8, 8] = ones; a = relu(matmul(x, u)); b = relu(matmul(x, u));\n"
        "  h = matmul(a, v) shard ((1, 4), (4, 1)); k = matmul(b, v) shard ((1, 1), (1, 4)); dead = tanh(x);\n"
        "  loss mse(h + k, label); }\n" TRAIN "parallel { mode = semi_auto; shard_from = 0; }\nhints { a = regather; dead = regather; }\n";
    const char *all = said(&x, equal, 4, 1u << WARN_CONFLICT, false);
    cr_expect_null(strstr(all, "nothing of a is"), "%s", all);
    cr_expect_not_null(strstr(all, "nothing of dead is"), "%s", all);
    compiled_finish(&x);
}

Test(warn, a_dataset_strategy_of_an_input_that_has_its_own) {
    expect_warning("net n() { input x : f32[16, 8] shard (4, 1); input label : f32[16, 8]; param w : f32[8, 8] = ones;\n"
                   " loss mse(matmul(x, w), label); }\n" TRAIN "parallel { mode = auto; dataset = ((1, 4), (4, 1)); }\n",
                   4, WARN_NO_EFFECT, "this dataset strategy has no effect: x has its own");
}

Test(warn, hints_in_a_mode_that_has_no_use_for_them) {
    expect_warning(
        "net n() { input x : f32[2, 8]; param w : f32[8, 8] = ones; y = matmul(x, w) shard ((2, 1), (1, 1)); loss mean(y); }\n" TRAIN
        "parallel { mode = data_parallel; }\n",
        2, WARN_NO_EFFECT, "shard has no effect in mode data_parallel");
}

Test(warn, on_one_rank_hints_are_no_mistake) {
    expect_silence(
        "net n() { " INPUTS
        " param w : f32[8, 8] = ones; side = tanh(x) shard ((1, 1)); y = matmul(x, w) shard ((1, 1), (1, 1)); loss mse(y, label); }\n" TRAIN
            AUTO,
        1);
}

Test(warn, replicated_work_names_its_operators_and_what_would_split_them) {
    const char *net = "net n() { " INPUTS " param w : f32[8, 8] = ones;\n"
                      "y = matmul(x, w) shard ((1, 1), (1, 1));\n"
                      "loss mse(y, label); }\n" TRAIN AUTO;
    expect_warning(net, 4, WARN_REPLICATED, "test.dsl:2:5: warning: ");
    expect_warning(net, 4, WARN_REPLICATED, "of the step's FLOPs are done by several ranks alike; most by matmul y and its gradient: ");
    expect_warning(net, 4, WARN_REPLICATED, "it is split over 1 of 4 ranks; shard ((4, 1), (1, 1)) would split it further");
    /* the mean of 512 numbers beside a product of 2^18 is not worth a word */
    Compiled x;
    const char *all = said(&x,
                           "net n() { input x : f32[1, 512]; param w : f32[512, 512] = ones; loss mean(matmul(x, w)); }\n" TRAIN
                           "parallel { mode = semi_auto; }\n",
                           4, 0, false);
    cr_expect(strstr(all, "alike") != NULL && strstr(all, ": 0 %") == NULL, "%s", all);
    compiled_finish(&x);
}

/* What clips a gradient, or adds gradients up, has no strategy that anyone could write. */
Test(warn, no_strategy_is_proposed_for_what_takes_none) {
    static const struct {
        const char *net, *note;
        int nranks;
    } nets[] = {
        {"net n() { input x : f32[2, 4]; param w : f32[4, 6] = ones; y = matmul(x, w) shard ((1, 1), (1, 6)); loss mean(y * y); }\n"
         "train { data = normal(seed = 1); optimizer = sgd(lr = 1); clip = norm(1.0); }\nparallel { mode = auto; dataset = full_batch; }\n",
         "note: clip clipped_w: ", 12},
        {"net n() { input x : f32[8, 400]; param w : f32[400, 40] = ones; h = matmul(x, w) shard ((1, 1), (1, 1)); g = relu(h);\n"
         "loss mean(relu(matmul(g, w, transpose_b = true)) * 2); }\n" TRAIN "parallel { mode = semi_auto; dataset = full_batch; }\n",
         "note: the sum of the gradients of w: 1 %\n", 8},
    };
    for (int i = 0; i < 2; i++) {
        Compiled x;
        const char *all = said(&x, nets[i].net, nets[i].nranks, 0, false), *note = strstr(all, nets[i].note);
        cr_expect(note && strstr(all, "would split it further") && !strstr(note, "would split it further"), "%s", all);
        compiled_finish(&x);
    }
}

Test(warn, an_operator_shared_by_half_of_the_ranks_counts_half) {
    /* 64 * 64 * 64 products, forward and for w, are 98 % of the FLOPs; the rest are the sum's and the update's */
    expect_warning(
        "net n() { input x : f32[64, 64]; param w : f32[64, 64] = ones; y = matmul(x, w) shard ((2, 1), (1, 1)); loss sum(y); }\n" TRAIN
            AUTO,
        4, WARN_REPLICATED, "49 % of the step's FLOPs are done by several ranks alike");
}

Test(warn, less_than_a_tenth_is_not_worth_a_word) {
    expect_silence("net n() { input x : f32[64, 64]; input label : f32[64, 64]; param w : f32[64, 64] = ones;\n"
                   "y = matmul(x, w) shard ((4, 1), (1, 1)); loss mse(y, label); }\n" TRAIN AUTO,
                   4);
}

/* By the operator that the user wrote, not by those that stand for it. */
Test(warn, split_rows_are_named_by_their_operator) {
    expect_warning(
        "net n() { input x : f32[10, 8]; param w : f32[10, 8] = normal(1); y = softmax(x, axis = 0); loss sum(y * w); }\n" TRAIN AUTO, 4,
        WARN_UNEVEN, "softmax: 4 does not divide 10");
    expect_warning("net n() { param x : f32[8, 12] = normal(1); y = softmax(x) shard ((1, 2)); loss sum(y * y); }\n" TRAIN AUTO, 4,
                   WARN_REPLICATED, "alike; most by softmax y and its gradient: ");
}

/* Three layers that are added up, each scaled, widened and brought back. */
#define PARAMS(i) "param g" i " : f32[32] = ones; param u" i " : f32[32, 128] = ones; param d" i " : f32[128, 32] = ones;\n"
#define LAYER(i, x, hint)                                                                                                                  \
    "n" i " = " x " * g" i "; h" i " = matmul(n" i ", u" i ")" hint "; r" i " = " x " + matmul(relu(h" i "), d" i ");\n"
#define LAYERS(hint)                                                                                                                       \
    "net n() { input x : f32[8, 64, 32];\n" PARAMS("0") PARAMS("1") PARAMS("2") LAYER("0", "x", hint) LAYER("1", "r0", "")                 \
        LAYER("2", "r1", "") "loss mean(square(r2)); }\n" TRAIN AUTO

static int64_t sent(const char *net, int nranks) {
    Compiled x;
    compiled(&x, net, nranks, 2);
    int64_t bytes = x.c.plan.programs.at[0].sent_bytes;
    compiled_finish(&x);
    return bytes;
}

Test(warn, hints_that_cost_more_than_none_are_named_with_both_figures) {
    const char *net = "net n() { input x : f32[4096, 64]; param a : f32[64, 64] = ones; param b : f32[64, 64] = ones;\n"
                      "p = relu(matmul(x, a));\n"
                      "q = matmul(p, b) shard ((1, 8), (8, 1));\n"
                      "loss mean(square(q)); }\n" TRAIN AUTO;
    expect_warning(net, 8, WARN_COSTLY,
                   "test.dsl:3:18: warning: with the strategy of q a rank receives about 1.8 MiB a step, without it about 56.0 KiB");
    net = "net n() { input x : f32[4096, 64]; param a : f32[64, 64] = ones; param b : f32[64, 64] = ones;\n"
          "p = matmul(x, a) shard ((8, 1), (1, 1));\n"
          "q = matmul(p, b) shard ((1, 8), (8, 1)) -> (8, 1);\n"
          "loss mean(square(q)); }\n" TRAIN AUTO;
    expect_warning(net, 8, WARN_COSTLY, "test.dsl:3:18: warning: with the strategies a rank receives about ");
    expect_warning(net, 8, WARN_COSTLY, " a step, without any of them about 56.0 KiB; that of q costs most: without it 56.0 KiB");
}

/* Two products of 2^32 FLOPs and their gradients, of 2^35 FLOPs together, on ranks of 10^11 FLOP/s: 258 / 8 ms where all share them. */
#define SLOW(hint, more)                                                                                                                   \
    "net n() { input x : f32[4096, 1024]; param a : f32[1024, 1024] = ones; param b : f32[1024, 1024] = ones;\n"                           \
    "p = relu(matmul(x, a));\n"                                                                                                            \
    "q = matmul(p, b) shard (" hint ");\n"                                                                                                 \
    "loss mean(square(q)); }\n" TRAIN "parallel { mode = auto; " more "}\n"

/* What is warned of under a search, without the warning of work that is repeated; in the arena. */
static const char *costly_on(Compiled *x, const Machine *machine, const char *search, const char *net) {
    compiled_init(x, 8, 2);
    x->options.machine = machine;
    x->options.overrides.search = search;
    x->options.silenced = 1u << WARN_REPLICATED;
    cr_assert(compiled_run(x, net));
    return x->diags.items.n > 0 ? x->diags.items.at[0].text : "";
}
static const char *costly_under(Compiled *x, const char *search, const char *net) {
    return costly_on(x, NULL, search, net);
}

Test(warn, hints_with_which_a_step_takes_longer_than_with_none_are_named) {
    static const char *const searches[] = {"sharding_propagation", "auto", "dynamic_programming", "recursive_programming"};
    for (int i = 0; i < 4; i++) {
        Compiled x;
        double with = 0, without = 0;
        const char *text = costly_under(&x, searches[i], SLOW("(2, 1), (1, 1)", ""));
        cr_expect_eq(sscanf(text, "with the strategy of q a step is predicted to take %lf ms, without it %lf ms", &with, &without), 2,
                     "%s: %s", searches[i], text);
        cr_expect(without > 40 && with > 1.5 * without, "%s: %s", searches[i], text);
        cr_expect_eq(x.diags.nwarnings, 1);
        compiled_finish(&x);
        text = costly_under(&x, searches[i], SLOW("(8, 1), (1, 1)", ""));
        cr_expect_str_empty(text, "%s: %s", searches[i], text);
        compiled_finish(&x);
    }
    expect_warning(SLOW("(2, 1), (1, 1)", ""), 8, WARN_COSTLY, "with the strategy of q a step is predicted to take ");
}

/* Gradients of 4 MiB are summed where rows are split; activations of 64 KiB are sent where they are not. On links that are fast beside the kernels no step takes 1.5 times as long. */
#define SENT(hint)                                                                                                                         \
    "net n() { input x : f32[16, 1024]; param a : f32[1024, 1024] = ones; param b : f32[1024, 1024] = ones;\n"                             \
    "p = relu(matmul(x, a)); q = matmul(p, b) shard (" hint ");\n"                                                                         \
    "loss mean(square(q)); }\n" TRAIN AUTO
Test(warn, hints_with_which_ranks_send_more_in_no_less_time_are_named) {
    for (int i = 0; i < 2; i++) {
        Compiled x;
        const char *text = costly_on(&x, &machine_gpu8, i ? "recursive_programming" : "auto", SENT("(8, 1), (1, 1)"));
        cr_expect(strstr(text, "with the strategy of q a rank sends ") == text && strstr(text, " MiB, without it ") != NULL, "%s", text);
        compiled_finish(&x);
        cr_expect_str_empty(costly_on(&x, &machine_gpu8, i ? "recursive_programming" : "auto", SENT("(1, 8), (8, 1)")));
        compiled_finish(&x);
    }
}

/* The gradient of b, 16 MiB, is summed where b is whole everywhere, and b brought to all ranks where it lies on one; activations of 4 MiB are sent otherwise. */
#define STORED(hints, b)                                                                                                                   \
    "net n() { input x : f32[512, 784]; param a : f32[784, 2048] = ones; param b : f32[2048, 2048] = ones" b ";\n"                         \
    "p = relu(matmul(x, a)); q = matmul(p, b);\n"                                                                                          \
    "loss mean(square(q)); }\n" hints TRAIN AUTO
Test(warn, layouts_of_parameters_that_cost_more_than_none_are_named) {
    static const char *const searches[] = {"auto", "dynamic_programming", "recursive_programming"},
                             *const nets[] = {STORED("", " shard (1, 1)"), STORED("hints { b = (1, 1); }\n", ""),
                                              STORED("hints { b = at(1); }\n", "")},
                             *const shard[] = {"b=(1, 1)"};
    Compiled x;
    for (int i = 0; i < 9; i++) {
        const char *text = costly_on(&x, &machine_gpu8, searches[i % 3], nets[i / 3]);
        cr_expect(strstr(text, "with the layout of b a ") == text && strstr(text, ", without it ") != NULL, "%s, %s: %s", searches[i % 3],
                  nets[i / 3], text);
        cr_expect_eq(x.diags.nwarnings, 1);
        compiled_finish(&x);
    }
    compiled_init(&x, 8, 2);
    x.options.machine = &machine_gpu8;
    x.options.overrides.search = "auto";
    x.options.overrides.nshards = 1;
    x.options.overrides.shard = shard;
    cr_assert(compiled_run(&x, STORED("", "")));
    cr_assert_eq(x.diags.nwarnings, 1);
    cr_expect(strstr(x.diags.items.at[0].text, "with the layout of b a rank sends ") == x.diags.items.at[0].text);
    compiled_finish(&x);
    cr_expect_str_empty(costly_on(&x, &machine_gpu8, "auto", STORED("", " shard (8, 1)")));
    compiled_finish(&x);
}

/* An input of 16 MiB whose columns are delivered, where rows would do. */
#define DELIVERED(hints, x)                                                                                                                \
    "net n() { input x : f32[65536, 64]" x "; param a : f32[64, 64] = ones; param b : f32[64, 64] = ones;\n"                               \
    "q = matmul(tanh(matmul(x, a)), b); loss mean(square(q)); }\n" hints TRAIN AUTO
Test(warn, layouts_of_inputs_that_cost_more_than_none_are_named) {
    static const char *const searches[] = {"auto", "sharding_propagation", "dynamic_programming"};
    Compiled x;
    for (int i = 0; i < 3; i++) {
        const char *text = costly_on(&x, &machine_gpu8, searches[i], DELIVERED("", " shard (1, 8)"));
        cr_expect(strstr(text, "with the layout of x a rank sends ") == text && strstr(text, " MiB, without it ") != NULL, "%s: %s",
                  searches[i], text);
        compiled_finish(&x);
        text = costly_on(&x, &machine_gpu8, searches[i], DELIVERED("", " shard (8, 1)"));
        cr_expect_str_empty(text, "%s: %s", searches[i], text);
        compiled_finish(&x);
    }
    const char *text = costly_on(&x, &machine_gpu8, "auto", DELIVERED("hints { x = (1, 8); b = (1, 1); }\n", ""));
    cr_expect(strstr(text, "with the layouts a rank sends ") == text && strstr(text, "; that of x costs most: ") != NULL, "%s", text);
    compiled_finish(&x);
    text = costly_on(&x, &machine_gpu8, "auto", DELIVERED("hints { x = (1, 8); q.matmul = ((8, 1), (1, 1)); }\n", ""));
    cr_expect(strstr(text, "with the strategies and layouts a rank sends ") == text, "%s", text);
    compiled_finish(&x);
}

/* As SLOW, with data that can be taken in parts. */
#define PIPED(hint, data)                                                                                                                  \
    "net n(batch = 4096) { input x : f32[batch, 1024]; param a : f32[1024, 1024] = ones; param b : f32[1024, 1024] = ones;\n"              \
    "p = relu(matmul(x, a));\n"                                                                                                            \
    "q = matmul(p, b) shard (" hint ");\n"                                                                                                 \
    "loss mean(square(q)); }\n"                                                                                                            \
    "train { data = " data "(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; } parallel { mode = auto; stages = auto; }\n"

/* Whether the strategies of the pipeline that is taken are searched again, or those that were found while pipelines were compared. */
Test(warn, hints_that_cost_time_are_named_in_a_pipeline_that_is_found) {
    static const char *const searches[] = {"sharding_propagation", "auto", "recursive_programming"};
    int again = 0;
    for (int i = 0; i < 6; i++) {
        Compiled x;
        double with = 0, without = 0;
        const char *text =
            costly_under(&x, searches[i / 2], i % 2 ? PIPED("(2, 1), (1, 1)", "normal") : PIPED("(2, 1), (1, 1)", "numpy_rand"));
        cr_expect_eq(sscanf(text, "with the strategy of q a step is predicted to take %lf ms, without it %lf ms", &with, &without), 2,
                     "%s: %s", searches[i / 2], text);
        cr_expect(with > 1.5 * without, "%s: %s", searches[i / 2], text);
        cr_expect_eq(x.diags.nwarnings, 1);
        again += x.c.stages->taken.decision == NULL;
        compiled_finish(&x);
        text = costly_under(&x, searches[i / 2], i % 2 ? PIPED("(8, 1), (1, 1)", "normal") : PIPED("(8, 1), (1, 1)", "numpy_rand"));
        cr_expect_str_empty(text, "%s: %s", searches[i / 2], text);
        compiled_finish(&x);
    }
    cr_expect(again > 0 && again < 6, "%d", again);
}

/* Without the hint a step is faster, and a rank holds whole parameters, which do not fit. */
#define LARGE(memory)                                                                                                                      \
    "net n() { input x : f32[1024, 1024]; param a : f32[1024, 4096] = ones; param b : f32[4096, 1024] = ones;\n"                           \
    "q = matmul(relu(matmul(x, a)), b) shard ((1, 2), (2, 1)); loss mean(square(q)); }\n" TRAIN                                            \
    "parallel { mode = auto; shard_states = none; recompute = none; regather = none; " memory "}\n"
Test(warn, a_hint_without_which_the_plan_would_not_fit_is_not_named) {
    Compiled x;
    cr_expect(strstr(costly_under(&x, "sharding_propagation", LARGE("")), "is predicted to take ") != NULL);
    compiled_finish(&x);
    cr_expect_str_empty(costly_under(&x, "sharding_propagation", LARGE("memory = 50 MiB;")));
    compiled_finish(&x);
}

Test(warn, a_hint_that_costs_no_more_is_not_named) {
    expect_silence("net n() { input x : f32[4096, 64]; param a : f32[64, 64] = ones;\n"
                   "q = matmul(x, a) shard ((8, 1), (1, 1)); loss mean(square(q)); }\n" TRAIN AUTO,
                   8);
}

/* Ties in what follows from one hint do not lose the batch: without that it was 888 KiB. */
Test(warn, one_hint_costs_about_what_it_asks_for) {
    cr_expect_eq(sent(LAYERS(""), 8) >> 10, 168);
    cr_expect_eq(sent(LAYERS(" shard ((2, 1, 1), (1, 4))"), 8) >> 10, 216);
}
