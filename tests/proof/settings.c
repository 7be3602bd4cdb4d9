/* What a plan says twice: every place in which the two can come to differ, changed in the plan's text, is refused. */
#include <string.h>

#include "tests/proof/plans.h"

static const char everything[] =
    "net n(batch = 16) {\n"
    "    input x     : f32[batch, 8];\n"
    "    input label : i32[batch];\n"
    "    param w     : f32[8, 6] = normal(0.1);\n"
    "    param b     : f32[6] = zeros;\n"
    "    logits = matmul(x, w) + b;\n"
    "    loss cross_entropy(logits, label);\n"
    "}\n"
    "train { data = npy(x = \"x.npy\", label = \"l.npy\"); optimizer = adam(lr = 0.25, weight_decay = 0.5);\n"
    "        schedule = linear(warmup = 2, end = 0.125); clip = norm(3); accumulate = 3; steps = 3; log \"{loss}\" on rank 1; }\n"
    "eval { data = normal(seed = 1); steps = 7; metrics = loss, accuracy; every = 2 steps; }\n"
    "parallel { mesh (dp = 2, tp = 2); }\n";

static const char plain[] = "net n(batch = 16) {\n"
                            "    input x : f32[batch, 8];\n"
                            "    param w : f32[8, 6] = normal(0.1);\n"
                            "    param b : f32[6] = zeros;\n"
                            "    loss mean(square(matmul(x, w) + b));\n"
                            "}\n"
                            "train { data = per_rank(x = [PER_RANK]); optimizer = momentum(lr = 0.4, momentum = 0.5); }\n"
                            "parallel { mode = data_parallel; }\n";

static const char files[] = "net n(batch = 4) { input x : f32[batch, 2]; param w : f32[2] = ones; loss mean(x * w); }\n"
                            "train { data = npy(x = \"x.npy\"); optimizer = sgd(lr = 1); } eval { data = npy(x = \"y.npy\"); }\n";

/* The second literal of per_rank is as long as the first: [[1, 1, ..], ..]. */
static const char *plain_net(Arena *arena) {
    Text all = {0}, one = {0};
    for (int r = 0; r < 16; r++)
        text_printf(&one, "%s[1, 1, 1, 1, 1, 1, 1, 1]", r ? ", " : "");
    const char *at = strstr(plain, "PER_RANK");
    text_printf(&all, "%.*s[%s], [%s]%s", (int)(at - plain), plain, one.at, one.at, at + strlen("PER_RANK"));
    const char *text = arena_copy(arena, all.at, all.n);
    text_finish(&one);
    text_finish(&all);
    return text;
}

/* A plan's text with one place of it changed; NULL: it is not there. nth: which one, from 0. */
static const char *changed(Arena *arena, const char *text, const char *from, const char *to, int nth) {
    const char *at = strstr(text, from);
    for (; at && nth > 0; nth--)
        at = strstr(at + 1, from);
    return at ? arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) : NULL;
}

typedef struct Mutant {
    const char *from, *to, *words;
    int nth;
} Mutant;

static void judge(const char *net, int nranks, const Mutant *mutants, size_t n) {
    Arena arena;
    arena_init(&arena);
    Plan plan, mutant;
    plan_of(net, nranks, &arena, &plan);
    Text right = {0}, facts = {0};
    Error error = {0};
    plan_print(&right, &plan);
    cr_assert(proof_header(&plan, &facts, &error), "%s", error.text);
    text_finish(&facts);
    for (size_t m = 0; m < n; m++) {
        const char *text = changed(&arena, right.at, mutants[m].from, mutants[m].to, mutants[m].nth);
        cr_assert(text, "no '%s' in %s", mutants[m].from, right.at);
        cr_assert(plan_read(&mutant, &arena, "plan", text, strlen(text), PLAN_IGNORE_CHECKSUM, &error), "'%s': %s", mutants[m].to,
                  error.text);
        bool ok = proof_header(&mutant, &facts, &error);
        text_finish(&facts);
        cr_expect_not(ok, "'%s' for '%s' is taken", mutants[m].to, mutants[m].from);
        if (!ok) cr_expect(strstr(error.text, mutants[m].words), "'%s': %s", mutants[m].to, error.text);
        if (!ok) cr_expect_eq(error.code, EXIT_REJECTED);
    }
    text_finish(&right);
    arena_finish(&arena);
}

#define JUDGE(net, nranks, ...)                                                                                                            \
    judge((net), (nranks), (const Mutant[]){__VA_ARGS__}, sizeof((const Mutant[]){__VA_ARGS__}) / sizeof(Mutant))

Test(settings, of_the_optimizer_are_those_of_every_update) {
    JUDGE(everything, 4, {" lr=0.25", " lr=0.5", "the header says lr=0.5, new_w has 0.25", 0},
          {"lr: 0.25", "lr: 0.125", "lr=0.25, new_b has 0.125", 1}, {"beta1=0.9 ", "beta1=0.8 ", "beta1=", 0},
          {"beta2: 0.999", "beta2: 0.99", "beta2=", 0}, {"eps=1e-08", "eps=1e-07", "eps=", 0},
          {"weight_decay=0.5", "weight_decay=0.25", "weight_decay=", 0}, {", weight_decay: 0.5}", "}", "weight_decay=0.5, new_b has 0", 1},
          {"optimizer=adam", "optimizer=adamw", "the header says optimizer=adamw, new_w is made by adam", 0});
}

static const char scaled[] =
    "net n(batch = 4) { input x : f32[batch, 2]; param w : f32[2] = ones; param b : f32[2] = ones; loss mean(x * w + b); }\n"
    "train { data = normal(seed = 1); optimizer = sgd(lr = 1, momentum = 0.5, weight_decay = 0.5, nesterov = true); decay except b; lr 0.5 for w; }\n";

Test(settings, numbers_are_scaled_by_parameter) {
    JUDGE(scaled, 2, {"scaled decay \"b\" by=0\n", "", "weight_decay=0.5, new_b has 0", 0},
          {"\"w\" by=0.5", "\"w\" by=0.25", "lr=0.25, new_w has 0.5", 0}, {"scaled lr \"w\"", "scaled lr \"*\"", "lr=0.5, new_b has 1", 0},
          {"scaled lr", "scaled decay", "lr=1, new_w has 0.5", 0},
          {" nesterov weight_decay=", " weight_decay=", "no nesterov, new_w looks ahead", 0});
}

static const char norms[] =
    "net n(batch = 4) { input x : f32[batch, 2]; param w : f32[2] = ones; param b : f32[2] = ones; loss mean(x * w + b); }\n"
    "train { data = normal(seed = 1); optimizer = lamb(lr = 0.25, weight_decay = 0.5); schedule = linear(warmup = 2); decay except b; }\n";

Test(settings, of_lamb_are_those_of_both_its_steps) {
    JUDGE(norms, 2, {" lr=0.25", " lr=0.5", "the header says lr=0.5, new_w has 0.25", 0},
          {"weight_decay: 0.5", "weight_decay: 0.25", "weight_decay=0.5, step_w has 0.25", 0},
          {"optimizer=lamb", "optimizer=adamw", "the header says optimizer=adamw, step_w is made by lamb_step", 0},
          {"sum_squares (%1)", "sum_squares (%2)", "takes other norms than those of its parameter and direction", 0});
}

static const char factored[] =
    "net n(batch = 4) { input x : f32[batch, 2]; param w : f32[2, 3] = ones; param b : f32[3] = ones; loss mean(matmul(x, w) + b); }\n"
    "train { data = normal(seed = 1); optimizer = adafactor(lr = 0.25, weight_decay = 0.5); decay except b; ema = 0.75; }\n";

Test(settings, of_adafactor_and_averages_are_those_of_their_slots) {
    JUDGE(factored, 2, {" lr=0.25", " lr=0.5", "the header says lr=0.5, new_w has 0.25", 0}, {" eps2=0.001", " eps2=0.002", "eps2=", 0},
          {" d=1", " d=2", "the header says d=2", 0}, {" beta2_decay=-0.8", " beta2_decay=-0.5", "whose update does not take it", 0},
          {" ema=0.75", " ema=0.5", "whose update does not take it", 0}, {" ema=0.75", "", "whose update does not take it", 0},
          {"{value: 1.5}", "{value: 2.5}", "whose update does not take it", 0});
}

Test(settings, of_the_schedule_and_the_count_are_what_updates_take) {
    JUDGE(everything, 4, {" schedule=linear warmup=2 end=0.125", "", "has no schedule, new_w takes a rate", 0},
          {" kind=rate", " kind=update", "takes no input of kind=rate", 0},
          {" kind=update", " kind=rate", "takes no input of kind=update", 0});
}

Test(settings, of_clipping_are_those_of_every_gradient) {
    JUDGE(everything, 4, {" clip=3", " clip=2", "the header says clip=2, clipped_w has norm 3", 0},
          {"{norm: 3}", "{norm: 4}", "clip=3, clipped_b has norm 4", 1}, {" clip=3", "", "clip=0", 0});
}

Test(settings, of_a_norm_that_is_reported_are_those_of_every_gradient) {
    static const char net[] = "net n { param w : f32[8] = ones; param b : f32[8] = ones; loss mean(square(w) + sin(b)); }\n"
                              "train { optimizer = sgd(lr = 0.5); metrics = grad_norm; }\n";
    JUDGE(net, 2, {"report grad_norm", "report norm", "a training reports norm", 0}, {" whole\n", "\n", "grad_norm is not whole", 0},
          {"add (%11, %12)", "add (%11, %11)", "grad_norm is another norm than that of all 2 gradients", 0},
          {"sqrt (%13)", "sqrt (%12)", "grad_norm is another norm than that of all 2 gradients", 0},
          {"report grad_norm %14 whole", "report grad_norm %13 whole", "grad_norm is another norm than that of all 2 gradients", 0});
    static const char both[] = "net n { param w : f32[8] = ones; loss mean(sin(w)); }\n"
                               "train { optimizer = sgd(lr = 0.5); metrics = penalty, grad_norm; }\n";
    JUDGE(both, 2, {"report penalty", "report penality", "a training reports penality", 0},
          {"report penalty", "report grad_norm", "a training reports grad_norm", 0});
    static const char replicas[] =
        "net n { input x : f32[4, 8]; param w : f32[8] = ones; param b : f32[8] = ones; loss mean(x * w + b); }\n"
        "train { data = normal(seed = 1); optimizer = sgd(lr = 0.5); metrics = noise_scale; }\n"
        "parallel { mode = data_parallel; }\n";
    JUDGE(replicas, 2, {"report replica_norm2", "report norm2", "a training reports norm2", 0},
          {"replica_sum (%21)", "replica_sum (%20)", "replica_norm2 is of other squares than those of the replicas' 2 gradients", 0});
}

Test(settings, of_buckets_are_a_limit) {
    JUDGE(everything, 4,
          {"gradients=mean", "gradients=mean bucket=24", "the header says bucket=24, bucket 1 has 24 bytes before its last gradient", 0});
}

Test(settings, of_several_batches_are_their_inputs_and_the_mean) {
    JUDGE(everything, 4, {" accumulate=3", " accumulate=4", "the header says accumulate=4, of input x there are 3", 0},
          {"{value: 0.3333333333333333}", "{value: 0.25}", "is not the mean", 0});
}

Test(settings, of_states_are_those_of_their_updates) {
    JUDGE(everything, 4, {"init=zeros layout=0 parameter=0", "init=zeros layout=0 parameter=1", "which says parameter=1", 0},
          {" trainable", "", "updates state w, which is not trainable", 0},
          {"w.v f32[8, 6] init=zeros", "w.v f32[8, 6] init=ones", "does not begin at zero", 0});
}

Test(settings, the_forward_part_ends_behind_the_loss) {
    Arena arena;
    arena_init(&arena);
    JUDGE(plain_net(&arena), 2, {"forward=9", "forward=8", "it says forward=8, node", 0},
          {"forward=9", "forward=12", "is of the gradients or an update", 0});
    arena_finish(&arena);
}

Test(settings, of_replicas_are_those_of_the_nodes) {
    Arena arena;
    arena_init(&arena);
    const char *net = plain_net(&arena);
    JUDGE(net, 2, {"gradients=mean", "gradients=sum", "the header says gradients=sum", 0},
          {" momentum=0.5", " momentum=0.25", "momentum=0.25", 0}, {"mean: 1}", "mean: 0}", "adds up", 0},
          {"data per_rank", "data numpy_rand seed=1 rows=0", "has per_rank data", 0},
          {"parallel mode=data_parallel", "parallel mode=semi_auto", "it says replicas 2", 0});
    arena_finish(&arena);
}

Test(settings, of_the_header_do_not_contradict_each_other) {
    JUDGE(everything, 4, {"parallel mode=auto", "parallel mode=semi_auto", "its options say mode=auto, the header mode=semi_auto", 0},
          {"options \"mode=auto search=sharding_propagation", "options \"mode=auto search=other", "search=other", 0},
          {"mesh dp 2@2", "mesh dp 2@1", "mesh axis dp is 2@1", 0}, {"mesh dp 2@2", "mesh dp 4@2", "the mesh has 8 ranks", 0},
          {"log_rank=1", "log_rank=4", "the losses of rank 4", 0});
}

Test(settings, of_an_evaluation_are_its_data_and_reports) {
    JUDGE(everything, 4, {"every=steps 2 steps=7", "every=steps 2 steps=0", "its data has no end", 0},
          {"report accuracy", "report acuracy", "reports rows, metrics and a prediction, not acuracy", 0},
          {"report accuracy", "report rows", "the report rows is there a second time", 0},
          {"report accuracy", "report f1", "the report f1 has 0 dimensions", 0},
          {"report rows", "report prediction", "the report prediction is", 0}, {"\nprogram eval", "\nprogram test", "its name is eval", 0},
          {"\nprogram train", "\nprogram first", "its name is train", 0});
    JUDGE(files, 2, {"eval every=epoch steps=0", "eval every=epoch steps=3", "its data is files", 0},
          {"data files last=pad", "data normal seed=1", "input x names a file", 0});
}
