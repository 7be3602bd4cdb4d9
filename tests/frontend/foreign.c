#include "compile.h"

/* That two statements, ours and as it is written elsewhere, make the same graph. */
static void expect_same(const char *ours, const char *theirs) {
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        Compiled c;
        char text[1024];
        snprintf(text, sizeof text, NET("    h = %s;"), i ? theirs : ours);
        compile(&c, text, 8);
        expect_accepted(&c);
        hash[i] = graph_hash(&c.graph);
        compiled_finish(&c);
    }
    cr_expect_eq(hash[0], hash[1], "%s is not %s", theirs, ours);
}

/* The error of a statement, and its hint. */
static void expect_hint(const char *statement, const char *message, const char *hint) {
    static const char *const folders[] = {PCC_SAMPLES};
    Compiled c;
    Overrides flags = {.nranks = 8, .nfolders = 1, .folder = folders};
    char text[1024];
    snprintf(text, sizeof text, NET("    %s"), statement);
    compile_with(&c, text, strlen(text), &flags);
    cr_assert_not(c.accepted, "%s", statement);
    cr_expect(strstr(c.diags.items.at[0].text, message), "%s: %s", statement, c.diags.items.at[0].text);
    int at = 1;
    while (at < c.diags.items.n && c.diags.items.at[at].kind == DIAG_NOTE)
        at++;
    cr_assert(at < c.diags.items.n && c.diags.items.at[at].kind == DIAG_HINT, "%s has no hint", statement);
    cr_expect(strstr(c.diags.items.at[at].text, hint), "%s: %s", statement, c.diags.items.at[at].text);
    compiled_finish(&c);
}

Test(foreign, attributes_have_the_names_of_other_frameworks) {
    expect_same("sum(x, axes = 1, keep_dims = true)", "sum(x, dim = 1, keepdim = True)");
    expect_same("sum(x, axes = 1, keep_dims = true)", "x.sum(axis = 1, keepdims = true)");
    expect_same("sum(x, axes = [0, 1])", "sum(x, axis = (0, 1))");
    expect_same("softmax(x, axis = 1)", "softmax(x, dim = 1)");
    expect_same("softmax(x, axis = 1)", "softmax(x, axes = [1])");
    expect_same("transpose(x, perm = [1, 0])", "transpose(x, axes = [1, 0])");
    expect_same("cast(x, to = f64)", "cast(x, dtype = float64)");
    expect_same("concat(x, x, axis = 1)", "concat([x, x], dim = 1)");
}

Test(foreign, attributes_may_stand_without_their_names_where_they_mean_one_thing) {
    expect_same("mean(x, axes = 1)", "mean(x, 1)");
    expect_same("sum(x, axes = 1, keep_dims = true)", "sum(x, 1, true)");
    expect_same("sum(x, axes = [0, 1])", "sum(x, (0, 1))");
    expect_same("reshape(x, shape = [8, -1])", "reshape(x, 8, -1)");
    expect_same("reshape(x, shape = [8, -1])", "x.reshape((8, -1))");
    expect_same("softmax(x, axis = -1)", "x.softmax(-1)");
    expect_same("transpose(x, perm = [1, 0])", "transpose(x, (1, 0))");
    expect_same("concat(x, x, axis = 1)", "concat([x, x], 1)");
    expect_same("cast(x, to = f64)", "x.cast(f64)");
    expect_same("clamp(x, low = 0, high = 6)", "x.clamp(0, 6)");
    expect_same("clamp(x, high = 6)", "clamp(x, max = 6)");
    expect_hint("h = x.max(1);", "max: is 1 a number to compare with, or an axis?", "max(x, axes = 1)");
    expect_hint("h = x.transpose(0, 1);", "transpose takes 1 operand", "perm = [1, 0]"); /* PyTorch exchanges the two, NumPy permutes all */
    expect_hint("p, q = split(x, 2);", "split takes 1 operand", "parts = 2");            /* how many, or how large */
    expect_hint("h = matmul(x, w, true);", "matmul takes 2 operands", "transpose_a = true");
    expect_hint("h = sum(x, dim = 1, keepdim);", "sum takes 1 operand", "keep_dims = true");
    expect_hint("h = sum(x, 0, 1);", "sum takes 1 operand", "several axes are a list, sum(x, axes = [0, 1])");
    expect_hint("h = max(x, 0, 1);", "max takes 1 operand", "several axes are a list, max(x, axes = [0, 1])");
}

Test(foreign, methods_and_operators_are_calls) {
    expect_same("relu(matmul(x, w))", "matmul(x, w).relu()");
    expect_same("matmul(x, w)", "x @ w");
    expect_same("greater(x, 0)", "x > 0");
    expect_same("where(less_equal(x, x), x, 0)", "where(x <= x, x, 0)");
}

Test(foreign, names_of_other_frameworks_are_shown_as_they_are_written_here) {
    expect_hint("h = torch.matmul(x, w);", "there are no modules here", "write matmul(x, w)");
    expect_hint("h = torch.nn.functional.relu(x);", "there are no modules here", "write relu(x)");
    expect_hint("h = ops.ReduceMean(x, 1);", "there are no modules here", "mean(x, axes = 1)");
    expect_hint("h = nn.Linear(x, 8);", "there are no modules here", "import \"nn.dsl\"; at the top of the file brings in linear(x, 8)");
    expect_hint("h = linear(x, 8);", "unknown operator 'linear'", "import \"nn.dsl\"; at the top of the file brings in linear(x, 8)");
    expect_hint("h = x.transformer_block(2);", "unknown operator 'transformer_block'", "import \"nn.dsl\";");
    expect_hint("h = nn.Linear(32, 8)(x);", "found '('", "a call takes its operands at once");
    expect_hint("h = ReLU(x);", "unknown operator 'ReLU'", "write relu(x)");
    expect_hint("h = LogSoftmax(x);", "unknown operator 'LogSoftmax'", "write log_softmax(x)");
    expect_hint("h = cat([x, x], 1);", "unknown operator 'cat'", "concat(a, b, axis = 0)");
    expect_hint("h = x.view(4, -1);", "unknown operator 'view'", "reshape(x, shape = [4, -1])");
    expect_hint("h = expand_dims(x, 1);", "unknown operator 'expand_dims'", "x[:, None]");
    expect_hint("h = self.relu(x);", "there is no self", "write relu(x)");
    expect_hint("h = tan(x);", "unknown operator 'tan'", "sin(x) / cos(x)");
    expect_hint("h = Sign(x);", "unknown operator 'Sign'", "write sign(x)");
    expect_hint("h = leaky_relu(x);", "unknown operator 'leaky_relu'", "import \"nn.dsl\"; at the top of the file brings in leaky_relu(x)");
    expect_hint("h = argmin(x);", "unknown operator 'argmin'", "argmax(-x)");
    expect_hint("h = x.softmin();", "unknown operator 'softmin'", "softmax(-x)");
    expect_hint("h = torch.nn.GLU(x);", "there are no modules here", "a * sigmoid(b), where a, b = split(");
    expect_hint("h = x.t();", "unknown operator 't'", "x.T, or transpose(x)");
    expect_hint("h = gelu(x, approximate = \"tanh\");", "no argument 'approximate'", "tanh = true");
    expect_hint("h = sigmod(x);", "unknown operator 'sigmod'", "did you mean sigmoid?");
    expect_hint("h = None;", "unknown name 'None'", "leave it out");
    expect_hint("param u : f32[8, 8] = randn(1);", "unknown initial value 'randn'", "normal(0.01)");
    expect_hint("param u : f32(8, batch) = zeros;", "sizes stand in square brackets", "u : f32[8, batch]");
    expect_hint("h = matmul(x, w, in_strategy = ((2, 4), (4, 1)));", "matmul has no argument", "h = matmul(x, w) shard");
}

/* That the statement compiles. */
static void expect_compiles(const char *statement) {
    Compiled c;
    char text[1024];
    snprintf(text, sizeof text, NET("    %s"), statement);
    compile(&c, text, 8);
    expect_accepted(&c);
    compiled_finish(&c);
}

Test(foreign, operators_that_there_are_not_are_shown_as_they_compile) {
    static const struct {
        const char *name, *hint;
    } cases[] = {{"sinh", "(exp(x) - exp(-x)) / 2"},
                 {"cosh", "(exp(x) + exp(-x)) / 2"},
                 {"exp2", "exp(0.6931471805599453 * x)"},
                 {"log2", "log(x) * 1.4426950408889634"},
                 {"log10", "log(x) * 0.4342944819032518"},
                 {"trunc", "cast(cast(x, to = i32), to = f32)"},
                 {"logsigmoid", "-softplus(-x)"},
                 {"LogSigmoid", "-softplus(-x)"},
                 {"logit", "log(x) - log(1 - x)"},
                 {"softmin", "softmax(-x)"},
                 {"softsign", "x / (1 + abs(x))"},
                 {"mish", "x * tanh(softplus(x))"},
                 {"selu", "1.0507009873554805 * where(x > 0.0, x, 1.6732632423543772 * (exp(minimum(x, 0.0)) - 1))"},
                 {"hardsigmoid", "clamp(x / 6 + 0.5, low = 0, high = 1)"},
                 {"argmin", "argmax(-x)"},
                 {"ceil", "-floor(-x)"},
                 {"round", "floor(x + 0.5)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "h = %s(x);", cases[i].name);
        expect_hint(text, "unknown operator", cases[i].hint);
        snprintf(text, sizeof text, "h = %s;", cases[i].hint);
        expect_compiles(text);
    }
    expect_compiles(
        "a = x > 0.0; b = x < 1.0; h = where(where(a, b, a), x, 0.0); g = where(where(a, a, b), x, 0.0); f = where(a == 0, x, 0.0);");
    expect_compiles("a, b = split(x, parts = 2, axis = -1); h = a * sigmoid(b); g = silu(a) * b;");
    expect_compiles("d = matmul(x, w) - t; h = mean(where(abs(d) < 1.0, 0.5 * square(d), abs(d) - 0.5));");
}

Test(foreign, conditions_that_are_tensors_and_operands_the_other_way_round) {
    expect_hint("h = where(x > 0 and x < 1, x, 0);", "a number is needed here", "a and b is where(a, b, a)");
    expect_hint("h = where(not x, x, 0);", "a number is needed here", "not a is a == 0");
    expect_hint("h = where((x > 0) & (x < 1), x, 0);", "'&' is not part of the language", "where(a, b, a) is a and b");
    expect_hint("i = cast(x, to = i32); h = embedding(i, w);", "embedding: i is i32, embedding takes f32, f64, f16 or bf16",
                "the other way round: embedding(table, index)");
    expect_hint("i = argmax(x); h = cross_entropy(i, x);", "cross_entropy: i is i32", "the other way round: cross_entropy(logits, label)");
    expect_hint("i = cast(x, to = i32); h = embedding(i, i);", "embedding: i is i32", "cast(i, to = f32)");
}

Test(foreign, statements_of_other_languages_are_shown_as_they_are_written_here) {
    expect_hint("def f(x) { return x; }", "expected '='", "cell block(x)");
    expect_hint("while 1 { h = x; }", "expected '='", "for i in 0..12 { ... }");
    expect_hint("var u = 3;", "expected '='", "let n = 3;");
    expect_hint("print(x);", "expected '='", "prun --print");
    expect_hint("for i in range(12) { h = x; }", "expected '..'", "for i in 0..12 { ... }");
    expect_hint("for (i = 0; i < 3; i++) { h = x; }", "expected a name", "for i in 0..12 { ... }");
    expect_hint("if batch > 3: h = x;", "expected '{'", "braces");
    expect_hint("h = x if batch > 3 else w;", "found 'if'", "where(x > 0, a, b)");
    expect_hint("h == relu(x);", "expected '='", "'=' gives a name its value: h = ...;");
    expect_hint("h += x;", "'+='", "x = x + y;");
    expect_hint("h = relu x;", "found 'x'", "a call has brackets: relu(x)");
    expect_hint("x.y = relu(x);", "found '.'", "has no '.'");
    expect_hint("h = x // 2;", "comments start with '#'", "a division is written with one '/'");
    expect_hint("# include <math.h>\n h = x;", "this includes nothing", "import \"nn.dsl\";");
    expect_hint("param u f32[8] = zeros;", "found 'f32'", "a type follows the name: param u : f32[8, 4]");
    expect_hint("input a, b : f32[8];", "found ','", "each name has a declaration of its own");
    expect_hint("h = file('w.npy');", "texts stand in double quotes", "\"w.npy\"");
    expect_hint("h = matmul(x, w) shard ((2, 4), (4, 1)) + 1;", "found '+'", "(matmul(x, w) shard ((2, 4), (4, 1))) + b");
}

/* One setting more in the blocks. */
static void expect_setting(const char *train, const char *parallel, const char *message, const char *hint) {
    Compiled c;
    char text[1024];
    snprintf(text, sizeof text, "%strain { data = numpy_rand(seed = 1); %s }\nparallel { %s }\n", HEAD TAIL, train, parallel);
    compile(&c, text, 8);
    if (!message) expect_accepted(&c);
    if (message) {
        cr_assert_not(c.accepted, "%s %s", train, parallel);
        cr_expect(strstr(c.diags.items.at[0].text, message), "%s %s: %s", train, parallel, c.diags.items.at[0].text);
        cr_assert(c.diags.items.n > 1 && c.diags.items.at[1].kind == DIAG_HINT, "%s %s has no hint", train, parallel);
        cr_expect(strstr(c.diags.items.at[1].text, hint), "%s %s: %s", train, parallel, c.diags.items.at[1].text);
    }
    compiled_finish(&c);
}

Test(foreign, optimizers_are_read_as_pytorch_and_mindspore_write_them) {
    static const struct {
        const char *text;
        OptimizerKind kind;
        double momentum;
    } cases[] = {{"SGD(learning_rate = 0.5)", OPTIMIZER_SGD, 0},
                 {"sgd(0.5, momentum = 0.9)", OPTIMIZER_MOMENTUM, 0.9},
                 {"sgd(0.5, 0.9)", OPTIMIZER_MOMENTUM, 0.9},
                 {"SGD(lr = 0.5, momentum = 0)", OPTIMIZER_SGD, 0},
                 {"Momentum(learning_rate = 0.5, momentum = 0.9)", OPTIMIZER_MOMENTUM, 0.9},
                 {"Adam(learning_rate = 0.5)", OPTIMIZER_ADAM, 0},
                 {"AdamW(0.5)", OPTIMIZER_ADAMW, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[1024];
        snprintf(text, sizeof text, "%strain { data = numpy_rand(seed = 1); optimizer = %s; }\n", HEAD TAIL, cases[i].text);
        compile(&c, text, 8);
        expect_accepted(&c);
        const Settings *settings = &c.graph.settings;
        cr_expect(settings->optimizer == cases[i].kind && settings->lr == 0.5 && settings->momentum == cases[i].momentum, "%s",
                  cases[i].text);
        compiled_finish(&c);
    }
    expect_setting("optimizer = torch.optim.SGD(lr = 0.1);", "", "sgd stands without a module", "sgd(lr = 0.1)");
    expect_setting("optimizer = adam(betas = (0.9, 0.99));", "", "no argument 'betas'", "beta1 = 0.9, beta2 = 0.999");
    expect_setting("optimizer = sgd(lr: 0.1);", "", "found ':'", "lr = ...");
    expect_setting("optimizer = sgd(lr = 0.1); lr = 0.1;", "", "this does not say for which parameters", "it belongs to the optimizer");
    expect_setting("optimizer = sgd(lr = 0.1); batch_size = 8;", "", "no setting 'batch_size'", "net q(batch = 16)");
}

Test(foreign, modes_are_mindspores) {
    static const char *const texts[] = {"auto_parallel",     "AUTO_PARALLEL",      "ParallelMode.AUTO_PARALLEL",
                                        "\"auto_parallel\"", "semi_auto_parallel", "data_parallel",
                                        "hybrid_parallel"};
    static const Mode modes[] = {MODE_AUTO, MODE_AUTO, MODE_AUTO, MODE_AUTO, MODE_SEMI_AUTO, MODE_DATA_PARALLEL, MODE_MANUAL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Compiled c;
        char text[1024];
        snprintf(text, sizeof text,
                 "%sparallel { parallel_mode = %s; search_mode = sharding_propagation; dataset_strategy = full_batch; }\n", HEAD TAIL TRAIN,
                 texts[i]);
        compile(&c, text, 8);
        expect_accepted(&c);
        cr_expect_eq(c.graph.settings.mode, modes[i], "%s", texts[i]);
        compiled_finish(&c);
    }
    static const char sgd[] = "optimizer = sgd(lr = 0.1);";
    expect_setting(sgd, "mode = ddp;", "unknown mode 'ddp'", "write data_parallel");
    expect_setting(sgd, "mode = fsdp;", "unknown mode 'fsdp'", "there are: stand_alone, data_parallel, semi_auto, auto");
    expect_setting(sgd, "mode = beta_paralle;", "unknown mode 'beta_paralle'",
                   "there are: stand_alone"); /* three letters from data_parallel: not near */
    expect_setting(sgd, "mode = data_paralel;", "unknown mode 'data_paralel'", "did you mean data_parallel?");
    expect_setting(sgd, "search = hybrid_parallel;", "unknown search 'hybrid_parallel'", "it is a mode: mode = manual;");
    expect_setting(sgd, "search = ParallelMode.SEMI_AUTO_PARALLEL;", "unknown search 'SEMI_AUTO_PARALLEL'",
                   "it is a mode: mode = semi_auto;");
    expect_setting(sgd, "search_mode = auto_parallel;", "unknown search 'auto_parallel'", "it is a mode: mode = auto;");
    expect_setting(sgd, "mode = dynamic_programming;", "unknown mode 'dynamic_programming'",
                   "it is a search: search = dynamic_programming;");
    expect_setting(sgd, "device_num = 8;", "no setting 'device_num'", "--ranks 8");
    expect_setting(sgd, "mode auto;", "found ';'", "a setting is written mode = auto;");
    expect_setting(sgd, "mode = auto, search = sharding_propagation;", "found '='", "each setting ends in ';'");
    expect_setting(sgd, "mesh (2, 4);", "an axis has a name and a size", "mesh (dp = 2, tp = 4);");
}
