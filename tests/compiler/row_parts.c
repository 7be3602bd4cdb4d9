/* Batches in parts: which nets they leave what they are. */
#include "compile.h"

#define HEAD                                                                                                                               \
    "net n(batch = 16, dim = 8) { input x : f32[batch, dim]; input label : f32[batch, dim];\n"                                             \
    "  param w : f32[dim, dim] = normal(0.3); param v : f32[dim, dim] = normal(0.3);\n"
#define DATA(micro) "train { data = normal(seed = 1); optimizer = adamw(lr = 0.01); steps = 2; micro_batches = " micro "; }\n"

/* NULL: it compiles; else what is said of it. */
static void expect_parts(const char *net, const char *error) {
    Compiled x;
    compiled_init(&x, 4, 2);
    const bool done = compiled_run(&x, net);
    const char *said = x.diags.nerrors > 0 ? compiled_said(&x) : "";
    cr_expect_eq(done, error == NULL, "%s\n%s", net, said);
    if (error != NULL)
        cr_expect(strstr(said, error) != NULL, "%s\n%s", net, said);
    else
        cr_expect_eq(x.c.plan.graph.settings.accumulate, 4);
    compiled_finish(&x);
}

#define NET(h, loss) HEAD "  h = " h "; y = matmul(h, v); loss " loss "; }\n" DATA("4")
#define H "tanh(matmul(x, w))"

Test(row_parts, means_over_rows_are_taken_in_parts) {
    expect_parts(NET(H, "mse(y, label)"), NULL);
    expect_parts(NET(H, "mse(y, label) + sum(square(v)) * 0.01"), NULL);
    expect_parts(NET(H, "sum(square(h)) / batch"), NULL);
    expect_parts(NET(H, "mse(y, label) - sum(square(h)) * (0.1 / batch)"), NULL);
    expect_parts(NET("tanh(matmul(x[:, 0:4], w[0:4]) * x[:, 7:])", "mse(y, label)"), NULL);
    expect_parts(NET("tanh(matmul(slice(x, [0, 0], [batch, 4]), w[:4]))", "mse(y, label)"), NULL);
    expect_parts(NET("reshape(tanh(reshape(x, shape = [batch, 2, dim / 2])), shape = [batch, dim])", "mean(square(y - label))"), NULL);
}

Test(row_parts, a_loss_that_is_no_mean_over_rows_is_refused) {
    expect_parts(NET(H, "sum(square(h))"), "no mean over rows");
    expect_parts(NET(H, "mse(y, label) + sum(square(h))"), "no mean over rows");
    expect_parts(NET(H, "mse(y, label) * mean(h)"), "no mean over rows");
    expect_parts(NET("softmax(matmul(x, w), axis = 0)", "mse(y, label)"), "no mean over rows");
    expect_parts(NET("tanh(x - mean(x, axes = 0))", "mse(y, label)"), "no mean over rows");
}

Test(row_parts, a_net_that_depends_on_the_number_of_rows_is_refused) {
    expect_parts(NET("tanh(matmul(x, w)) * batch", "mse(y, label)"), "sizes or numbers depend on the rows");
    expect_parts(NET(H, "mse(y, label) + sum(square(v)) * batch"), "sizes or numbers depend on the rows");
    expect_parts(HEAD "  param u : f32[batch, dim] = normal(0.3); loss mse(matmul(x, w) + u, label); }\n" DATA("4"),
                 "sizes or numbers depend");
    expect_parts(HEAD "  state m : f32[dim] = zeros; m <- 0.5 * m + mean(x, axes = 0); loss mse(matmul(x, w), label); }\n" DATA("4"),
                 "what a step writes");
}

Test(row_parts, rows_that_are_cut_off_are_refused) {
    expect_parts(NET("tanh(matmul(x, w)) * x[0:1]", "mse(y, label)"), "no mean over rows");
    expect_parts(NET(H, "mse(y[0:4], label[0:4])"), "sizes or numbers depend on the rows");
    expect_parts(NET(H, "mse(y, label) + sum(square(v[batch / 4 - 1:batch / 4]))"), "sizes or numbers depend on the rows");
}

Test(row_parts, mistakes_are_named) {
    expect_parts(HEAD "  loss mse(matmul(x, w), label); }\n" DATA("3"), "a batch of 16 is not 3 equal parts");
    expect_parts(HEAD "  loss mse(matmul(x, w), label); }\n" DATA("3"), "micro_batches = 2; or 4; or a batch of 18\n");
    expect_parts(HEAD "  loss mse(matmul(x, w), label); }\n" DATA("17"), "micro_batches = 16; or a batch of 17\n");
    expect_parts("net n() { input x : f32[16, 8]; param w : f32[8, 8] = ones; loss mean(square(matmul(x, w))); }\n" DATA("4"),
                 "there is no batch to divide");
    expect_parts(HEAD "  loss mse(matmul(x, w), label); }\n"
                      "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; micro_batches = 4; }\n",
                 "data that is drawn for a whole batch");
    expect_parts(HEAD "  loss mse(matmul(x, w), label); }\n"
                      "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; micro_batches = 4; accumulate = 100; }\n",
                 "more than 256");
}
