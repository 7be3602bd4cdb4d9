#include "compile.h"

static void compile_train(Compiled *c, const char *settings) {
    char text[1024];
    snprintf(text, sizeof text, HEAD TAIL "train {\ndata = numpy_rand(seed = 1); %s\n}\n", settings);
    compile(c, text, 8);
}

static Settings settings_of(Compiled *c, const char *settings) {
    compile_train(c, settings);
    expect_accepted(c);
    Settings found = c->graph.settings;
    compiled_finish(c);
    return found;
}

Test(optimizer, adam_has_pytorchs_defaults) {
    Compiled c;
    Settings s = settings_of(&c, "optimizer = adam();"), alone = settings_of(&c, "optimizer = adam;");
    cr_expect(alone.optimizer == s.optimizer && alone.lr == s.lr && alone.beta1 == s.beta1, "brackets around nothing may be left out");
    cr_assert_eq(s.optimizer, OPTIMIZER_ADAM);
    cr_assert_float_eq(s.lr, 1e-3, 0);
    cr_assert_float_eq(s.beta1, 0.9, 0);
    cr_assert_float_eq(s.beta2, 0.999, 0);
    cr_assert_float_eq(s.eps, 1e-8, 0);
    cr_assert_float_eq(s.weight_decay, 0, 0);
    s = settings_of(&c, "optimizer = adamw(0.5, beta2 = 0.25);");
    cr_assert_eq(s.optimizer, OPTIMIZER_ADAMW);
    cr_assert_float_eq(s.lr, 0.5, 0);
    cr_assert_float_eq(s.beta2, 0.25, 0);
    cr_assert_float_eq(s.weight_decay, 0.01, 0);
}

Test(optimizer, every_optimizer_takes_weight_decay) {
    static const char *const optimizers[] = {"sgd(lr = 1, weight_decay = 0.125)", "momentum(lr = 1, momentum = 0, weight_decay = 0.125)",
                                             "adam(weight_decay = 0.125)", "adamw(weight_decay = 0.125)"};
    for (int i = 0; i < 4; i++) {
        Compiled c;
        char text[128];
        snprintf(text, sizeof text, "optimizer = %s;", optimizers[i]);
        cr_assert_float_eq(settings_of(&c, text).weight_decay, 0.125, 0);
    }
}

Test(optimizer, schedules_with_and_without_brackets) {
    Compiled c;
    Settings s = settings_of(&c, "optimizer = sgd(lr = 1);");
    cr_assert_eq(s.schedule.kind, SCHEDULE_CONSTANT);
    cr_assert_eq(s.schedule.warmup, 0);
    cr_assert_eq(settings_of(&c, "optimizer = sgd(lr = 1); schedule = linear;").schedule.kind, SCHEDULE_LINEAR);
    s = settings_of(&c, "optimizer = sgd(lr = 1); schedule = cosine(warmup = 10 * 10, end = 0.1);");
    cr_assert_eq(s.schedule.kind, SCHEDULE_COSINE);
    cr_assert_eq(s.schedule.warmup, 100);
    cr_assert_float_eq(s.schedule.end, 0.1, 0);
    s = settings_of(&c, "optimizer = sgd(lr = 1); schedule = StepLR(step_size = 30);");
    cr_assert(s.schedule.kind == SCHEDULE_STEP && s.schedule.every == 30 && s.schedule.gamma == 0.1 && s.schedule.unit == PER_EPOCH);
    s = settings_of(&c, "optimizer = sgd(lr = 1); schedule = multistep([3, 4 * 2], 0.5, warmup = 7, unit = steps);");
    cr_assert(s.schedule.kind == SCHEDULE_MULTISTEP && s.schedule.nmilestones == 2 && s.schedule.milestone[0] == 3 &&
              s.schedule.milestone[1] == 8);
    cr_assert(s.schedule.gamma == 0.5 && s.schedule.warmup == 7 && s.schedule.unit == PER_STEP);
    s = settings_of(&c, "optimizer = sgd(lr = 1); schedule = polynomial(power = 2, end = 0.5);");
    cr_assert(s.schedule.kind == SCHEDULE_POLYNOMIAL && s.schedule.power == 2 && s.schedule.end == 0.5 && s.schedule.warmup == 0);
    cr_assert_float_eq(settings_of(&c, "optimizer = sgd(lr = 1); schedule = polynomial;").schedule.power, 1, 0);
    s = settings_of(&c, "optimizer = sgd(lr = 1); schedule = inverse_sqrt(num_warmup_steps = 9);");
    cr_assert(s.schedule.kind == SCHEDULE_INVERSE_SQRT && s.schedule.warmup == 9);
    s = settings_of(&c, "optimizer = sgd(lr = 1); schedule = constant(warmup = 3);");
    cr_assert_eq(s.schedule.kind, SCHEDULE_CONSTANT);
    cr_assert_eq(s.schedule.warmup, 3);
}

Test(optimizer, clip_is_a_norm) {
    Compiled c;
    cr_assert_float_eq(settings_of(&c, "optimizer = sgd(lr = 1); clip = norm(1.5);").clip, 1.5, 0);
    cr_assert_float_eq(settings_of(&c, "optimizer = sgd(lr = 1);").clip, 0, 0);
}

Test(optimizer, accumulate_counts_batches) {
    Compiled c;
    cr_assert_eq(settings_of(&c, "optimizer = sgd(lr = 1); accumulate = 4;").accumulate, 4);
}

Test(optimizer, mistakes_are_diagnosed_where_they_are) {
    static const struct {
        const char *settings;
        int column;
        const char *error;
    } cases[] = {{"optimizer = adam(beta1 = 1);", 55, "beta1 is less than 1"},
                 {"optimizer = adam(beta1 = -0.5);", 55, "beta1 is 0 to 1"},
                 {"optimizer = adam(eps = -1);", 53, "eps is at least 0"},
                 {"optimizer = adam(gamma = 1);", 47, "gamma"},
                 {"optimizer = sgd(lr = 1, weight_decay = -0.5);", 69, "weight_decay is at least 0"},
                 {"optimizer = adagrad(lr = 1);", 42, "unknown optimizer 'adagrad'"},
                 {"optimizer = sgd(lr = 1); schedule = 3;", 66, "this is no schedule"},
                 {"optimizer = sgd(lr = 1); schedule = cosin;", 66, "cosin"},
                 {"optimizer = sgd(lr = 1); schedule = constant(end = 0.5);", 75, "end"},
                 {"optimizer = sgd(lr = 1); schedule = linear(warmup = -1);", 82, "warmup is"},
                 {"optimizer = sgd(lr = 1); schedule = linear(end = 2);", 79, "end is 0 to 1"},
                 {"optimizer = sgd(lr = 1); schedule = step;", 66, "step needs every"},
                 {"optimizer = sgd(lr = 1); schedule = step(every = 0);", 79, "every is"},
                 {"optimizer = sgd(lr = 1); schedule = step(every = 1, gamma = 2);", 90, "gamma is 0 to 1"},
                 {"optimizer = sgd(lr = 1); schedule = multistep([]);", 76, "there is no milestone"},
                 {"optimizer = sgd(lr = 1); schedule = multistep([3, 3]);", 80, "milestones ascend"},
                 {"optimizer = sgd(lr = 1); schedule = multistep([3], unit = hours);", 88, "unknown unit of a schedule 'hours'"},
                 {"optimizer = sgd(lr = 1); clip = 1.0;", 62, "this is no way to clip gradients"},
                 {"optimizer = sgd(lr = 1); accumulate = 0;", 68, "accumulate is 1 to 256"},
                 {"optimizer = sgd(lr = 1); clip = norm(0);", 62, "leaves no gradient"},
                 {"optimizer = sgd(lr = 1); clip = norm();", 62, "norm needs most"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        compile_train(&c, cases[i].settings);
        expect_error(&c, 9, cases[i].column, cases[i].error);
        compiled_finish(&c);
    }
}
