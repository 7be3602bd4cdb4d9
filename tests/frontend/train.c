#include "compile.h"

static void compile_settings(Compiled *c, const char *settings) {
    char text[1024];
    snprintf(text, sizeof text, HEAD TAIL "train {\n%s\n}\n", settings);
    compile(c, text, 8);
}

#define DATA "data = numpy_rand(seed = 1);"
#define OPTIMIZER "optimizer = sgd(lr = 0.1);"

Test(train, settings_are_read) {
    Compiled c;
    compile_settings(&c, "data = numpy_rand(seed = batch, rows = 2); optimizer = momentum(momentum = 0.5, lr = 1 / 4.0); epochs = 3; steps "
                         "= 7; log_every = 50; log_from = 0; seed = 9;");
    expect_accepted(&c);
    const Settings *settings = &c.graph.settings;
    cr_assert_eq(settings->data, DATA_NUMPY_RAND);
    cr_assert_eq(settings->data_seed, 16);
    cr_assert_eq(settings->data_rows, 2);
    cr_assert_eq(settings->optimizer, OPTIMIZER_MOMENTUM);
    cr_assert_float_eq(settings->lr, 0.25, 0);
    cr_assert_float_eq(settings->momentum, 0.5, 0);
    cr_assert_eq(settings->epochs, 3);
    cr_assert_eq(settings->steps, 7);
    cr_assert_eq(settings->log_every, 50);
    cr_assert(settings->log_from_zero);
    cr_assert_eq(settings->seed, 9);
    compiled_finish(&c);
}

Test(train, defaults_are_one_step_of_one_epoch_every_loss_printed) {
    Compiled c;
    compile_settings(&c, DATA "optimizer = sgd(0.1);");
    expect_accepted(&c);
    cr_assert_eq(c.graph.settings.epochs, 1);
    cr_assert_eq(c.graph.settings.steps, 1);
    cr_assert_eq(c.graph.settings.log_every, 0);
    cr_assert(!c.graph.settings.log_from_zero);
    cr_assert_eq(c.graph.settings.data_rows, 0);
    cr_assert_eq(c.graph.settings.optimizer, OPTIMIZER_SGD);
    cr_assert_float_eq(c.graph.settings.lr, 0.1, 0);
    compiled_finish(&c);
}

Test(train, no_steps_are_no_epochs) {
    static const char *const none[] = {"steps = 0;", "epochs = 0;", "epochs = 3; steps = 0;"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        Compiled c;
        char text[256];
        snprintf(text, sizeof text, "data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); on_nan = go; %s", none[i]);
        compile_settings(&c, text);
        cr_assert_eq(c.graph.settings.epochs, 0, "%s", none[i]);
        cr_assert_eq(c.graph.settings.on_nan, ON_NAN_GO);
        compiled_finish(&c);
    }
}

Test(train, a_checkpoint_is_every_epoch_or_every_so_many_steps) {
    static const struct {
        const char *settings;
        int64_t steps;
        bool epochs;
    } cases[] = {{"checkpoint every epoch;", 0, true},
                 {"checkpoint every 100 steps;", 100, false},
                 {"checkpoint every 1 step;", 1, false},
                 {"checkpoint every 2 * 50;", 100, false},
                 {"checkpoint every 100 per_rank;", 100, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, "%s%s%s", DATA, OPTIMIZER, cases[i].settings);
        compile_settings(&c, text);
        expect_accepted(&c);
        cr_assert_eq(c.graph.settings.checkpoint_steps, cases[i].steps);
        cr_assert_eq(c.graph.settings.checkpoint_epochs, cases[i].epochs);
        compiled_finish(&c);
    }
}

/* What is said beside the files is of those that do not say it themselves. */
Test(train, arguments_of_all_files) {
    static const struct {
        const char *data;
        int64_t first[2], rows;
    } cases[] = {{"npy(x = \"x.npy\", t = \"t.npy\", first = 5, rows = 3)", {5, 5}, 3},
                 {"npy(first = 5, rows = 3, x = npy(\"x.npy\", first = 1), t = \"t.npy\")", {1, 5}, 3},
                 {"files(x = npy(\"x.npy\"), t = csv(\"t.csv\", 7), first = 5, rows = 3)", {5, 7}, 3},
                 {"csv(\"d.csv\", first = 5, rows = 3)", {5, 5}, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, "data = %s; %s", cases[i].data, OPTIMIZER);
        compile_settings(&c, text);
        expect_accepted(&c);
        for (int k = 0; k < 2; k++) {
            cr_expect_eq(c.graph.inputs.at[k].file.first, cases[i].first[k], "%s", cases[i].data);
            cr_expect_eq(c.graph.inputs.at[k].file.rows, cases[i].rows, "%s", cases[i].data);
        }
        compiled_finish(&c);
    }
}

Test(train, mistakes_are_diagnosed_where_they_are) {
    static const struct {
        const char *settings;
        int line, column;
        const char *error;
    } cases[] = {{OPTIMIZER, 8, 1, "where the data comes from"},
                 {DATA, 8, 1, "train has no optimizer"},
                 {"data = numpy_rand();" OPTIMIZER, 9, 8, "numpy_rand needs seed"},
                 {"data = numpy_rand(seed = -1);" OPTIMIZER, 9, 26, "seed is 0 to 4294967295"},
                 {"data = numpy_rand(seed = 1, rows = 17);" OPTIMIZER, 9, 36, "17 rows are more than input x has: 16"},
                 {"data = numpy_rand;" OPTIMIZER, 9, 8, "numpy_rand needs seed"},
                 {"data = npy(x = \"x.npy\");" OPTIMIZER, 9, 8, "npy does not give input t"},
                 {"data = npy(x = \"x.npy\", t = 3);" OPTIMIZER, 9, 29, "the path of a file is a text"},
                 {"data = idx(x = \"x\", y = \"t\");" OPTIMIZER, 9, 21, "the net has no input 'y'"},
                 {"data = idx(x = \"x\", x = \"t\");" OPTIMIZER, 9, 21, "input x is given twice"},
                 {"data = files(x = \"x\", t = npy(\"t\"));" OPTIMIZER, 9, 18, "needs the format of each"},
                 {"data = files(x = tsv(\"x\"), t = npy(\"t\"));" OPTIMIZER, 9, 18, "not tsv(..)"},
                 {"data = raw(x = raw(\"x\", type = f8), t = \"t\");" OPTIMIZER, 9, 32, "f8"},
                 {"data = normal();" OPTIMIZER, 9, 8, "normal needs seed"},
                 {DATA OPTIMIZER "last = pad;", 9, 55, "last is for files of rows"},
                 {DATA OPTIMIZER "order = shuffle(seed = 1);", 9, 55, "order is for files of rows"},
                 {DATA OPTIMIZER "order = 3;", 9, 63, "the order of rows is file or shuffle"},
                 {"data = random(1);" OPTIMIZER, 9, 8, "unknown data source"},
                 {"data = 3;" OPTIMIZER, 9, 8, "this is no data source"},
                 {"data = per_rank(x = [1], t = [1]);" OPTIMIZER, 9, 8, "per_rank is for modes data_parallel and manual"},
                 {DATA "optimizer = sgd(lr = -1);", 9, 50, "lr is at least 0"},
                 {DATA "optimizer = sgd();", 9, 41, "sgd needs lr"},
                 {DATA "optimizer = sgd(lr = 1, lr = 2);", 9, 53, "lr is given twice"},
                 {DATA "optimizer = momentum(lr = 1, momentum = 2);", 9, 69, "momentum is 0 to 1"},
                 {DATA OPTIMIZER "checkpoint every 5 epochs;", 9, 66, "does not say when there is a checkpoint"},
                 {DATA OPTIMIZER "checkpoint every end;", 9, 66, "does not say when there is a checkpoint"},
                 {DATA OPTIMIZER "epochs = 5 steps;", 9, 66, "expected an infix operator or ';', found 'steps'"},
                 {DATA OPTIMIZER "epochs = 5 keep = 3;", 9, 66, "found 'keep'"},
                 {DATA OPTIMIZER "epochs = 5\n  keep = 3;", 9, 64, "expected ';' after '5'"},
                 {DATA OPTIMIZER "steps = -1;", 9, 63, "steps is 0 to"},
                 {DATA OPTIMIZER "seed = -1;", 9, 62, "seed is at least 0"},
                 {DATA OPTIMIZER "mode = auto;", 9, 55, "mode belongs into the parallel block"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        compile_settings(&c, cases[i].settings);
        expect_error(&c, cases[i].line, cases[i].column, cases[i].error);
        compiled_finish(&c);
    }
}

#define DDP(data)                                                                                                                          \
    "net q {\n input x : f32[2, 1];\n input y : f32;\n param w : f32[1] = ones;\n loss mean(x * w) - y;\n}\nparallel { mode = "            \
    "data_parallel; }\ntrain {\n" data "\n" OPTIMIZER "}\n"

Test(train, per_rank_gives_every_replica_of_every_input_its_literal) {
    Compiled c;
    compile(&c, DDP("data = per_rank(y = [5, 6, 7], x = [[[1], [2]], [[3], [4]], [[-1], [0.5]]]);"), 3);
    expect_accepted(&c);
    const double want_x[] = {1, 2, 3, 4, -1, 0.5}, want_y[] = {5, 6, 7};
    for (int i = 0; i < 6; i++)
        cr_assert_float_eq(c.graph.inputs.at[0].per_rank[i], want_x[i], 0);
    for (int i = 0; i < 3; i++)
        cr_assert_float_eq(c.graph.inputs.at[1].per_rank[i], want_y[i], 0);
    cr_assert_eq(c.graph.settings.data, DATA_PER_RANK);
    compiled_finish(&c);
}

Test(train, per_rank_is_checked) {
    static const struct {
        const char *text;
        int column;
        const char *error;
    } cases[] = {{DDP("data = per_rank(x = [[[1], [2]]], y = [1, 2]);"), 21, "a list of 2 literals, one a replica; there is 1"},
                 {DDP("data = per_rank(x = 3, y = [1, 2]);"), 21, "a list of 2 literals"},
                 {DDP("data = per_rank(x = [[[1], [2]], [[1], [2, 3]]], y = [1, 2]);"), 40, "2 elements, but dimension 1 of f32[2, 1]"},
                 {DDP("data = per_rank(y = [1, 2]);"), 8, "per_rank does not give input x"},
                 {DDP("data = per_rank(z = [1, 2]);"), 17, "the net has no input 'z'"},
                 {DDP("data = per_rank(y = [1, 2], y = [1, 2]);"), 29, "input y is given twice"},
                 {DDP("data = per_rank([1, 2]);"), 17, "takes the inputs by name"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        compile(&c, cases[i].text, 2);
        expect_error(&c, 9, cases[i].column, cases[i].error);
        compiled_finish(&c);
    }
}

Test(train, files_belong_to_inputs_and_lie_beside_the_source) {
    Compiled c;
    compile_settings(
        &c, "data = files(x = idx(\"d/x.gz\"), t = raw(\"/t.bin\", type = u8)); order = shuffle(seed = 9); last = short;" OPTIMIZER);
    const Settings *settings = &c.graph.settings;
    cr_assert_eq(settings->data, DATA_FILES);
    cr_assert(settings->shuffle && settings->shuffle_seed == 9 && settings->last == LAST_SHORT);
    cr_assert_eq(settings->steps, 0, "as many as there are");
    cr_assert_eq(c.graph.inputs.n, 2);
    cr_assert_eq(c.graph.inputs.at[0].file.format, FILE_IDX);
    cr_assert_str_eq(c.graph.inputs.at[1].file.path, "/t.bin");
    cr_assert_str_eq(c.graph.inputs.at[1].file.stored, "u8");
    compiled_finish(&c);
    compile_settings(&c, "data = csv(\"d.csv\"); steps = 3;" OPTIMIZER);
    cr_assert_eq(c.graph.settings.steps, 3);
    int64_t columns = 1;
    for (int d = 1; d < c.graph.inputs.at[0].type.shape.ndim; d++)
        columns *= c.graph.inputs.at[0].type.shape.dim[d];
    cr_assert_eq(c.graph.inputs.at[1].file.column, columns);
    compiled_finish(&c);
}

Test(train, columns_of_csv_have_names_ends_and_separators) {
    Compiled c;
    compile_settings(
        &c,
        "data = csv(x = csv(\"d.csv\", column = \"price\", separator = \"\\t\"), t = csv(\"d.csv\", column = -1, separator = \";\"));" OPTIMIZER);
    expect_accepted(&c);
    const DataFile *x = &c.graph.inputs.at[0].file, *label = &c.graph.inputs.at[1].file;
    cr_assert_str_eq(x->heading, "price");
    cr_assert(x->column == 0 && x->separator == '\t');
    cr_assert(!label->heading && label->column == -1 && label->separator == ';');
    compiled_finish(&c);
    compile_settings(&c,
                     "data = csv(\"d.csv\", column = \"price\", rows = 5, separator = \"|\");" OPTIMIZER); /* in turn, from that one on */
    expect_accepted(&c);
    x = &c.graph.inputs.at[0].file, label = &c.graph.inputs.at[1].file;
    cr_assert(x->column == 0 && label->column > 0 && x->rows == 5 && label->separator == '|');
    cr_assert_str_eq(label->heading, "price");
    compiled_finish(&c);
    static const char *const wrong[] = {"separator = \"e\"", "separator = \"5\"", "separator = \"ab\"",
                                        "separator = 9",     "column = \"\"",     "column = -1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[256];
        snprintf(text, sizeof text, "data = csv(\"d.csv\", %s);" OPTIMIZER, wrong[i]);
        compile_settings(&c, text);
        cr_assert_gt(c.diags.nerrors, 0, "%s", wrong[i]);
        compiled_finish(&c);
    }
}

Test(train, fields_of_csv_may_be_missing_names_or_texts) {
    static const struct {
        const char *text, *words; /* words: of the error, NULL: none */
    } cases[] = {{"missing = drop", NULL},
                 {"missing = -0.5", NULL},
                 {"classes = [\"no\", \"yes\"]", NULL},
                 {"classes = found", NULL},
                 {"classes = fond", "classes are the labels' names in a list"},
                 {"tokens = wordpiece(\"v.txt\"), give = mask", NULL},
                 {"missing = most", "unknown missing 'most'"},
                 {"missing = mean", NULL},
                 {"scale = 2", NULL},
                 {"standardize = true", NULL},
                 {"one_hot = true", NULL},
                 {"one_hot = true, scale = 2", "what is one_hot is 0 or 1"},
                 {"one_hot = 3", "one_hot is one of"},
                 {"tokens = bytes, scale = 2", "tokens are none"},
                 {"tokens = bytes, give = mask", NULL},
                 {"tokens = characters(\"ab\")", NULL},
                 {"tokens = characters(\"\")", "an alphabet is a text"},
                 {"classes = []", "classes are the labels' names in a list"},
                 {"classes = [\"no\", 1]", "classes are the labels' names in a list"},
                 {"classes = [\"no\", \"yes\", \"no\"]", "the class \"no\" stands in the list twice"},
                 {"classes = [\"\"]", "classes are the labels' names in a list"},
                 {"tokens = letters(\"v.txt\")", "tokens are made by wordpiece"},
                 {"tokens = wordpiece(3)", "a vocabulary is the path of a text"},
                 {"tokens = wordpiece(\"v.txt\", lowercase = 2)", "lowercase is one of"},
                 {"tokens = wordpiece(\"v.txt\"), classes = [\"no\"]", "not both"},
                 {"tokens = wordpiece(\"v.txt\"), give = words", "unknown give 'words'"},
                 {"tokens = wordpiece(\"v.txt\"), missing = 1", "a number stands for no text"},
                 {"give = mask", "give is for a column of texts"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[256];
        snprintf(text, sizeof text, "data = csv(x = csv(\"d.csv\"), t = csv(\"d.csv\", %s));" OPTIMIZER, cases[i].text);
        compile_settings(&c, text);
        const char *message = c.diags.items.n > 0 ? c.diags.items.at[0].text : "";
        cr_expect(cases[i].words ? strstr(message, cases[i].words) != NULL : c.diags.nerrors == 0, "%s: %s", cases[i].text, message);
        compiled_finish(&c);
    }
    Compiled c;
    compile_settings(
        &c,
        "data = csv(x = csv(\"d.csv\", missing = 2), t = csv(\"d.csv\", missing = drop, tokens = wordpiece(\"v.txt\", lowercase = true), give = types));" OPTIMIZER);
    const DataFile *x = &c.graph.inputs.at[0].file, *text = &c.graph.inputs.at[1].file;
    cr_assert(x->missing == MISSING_FILL && x->fill == 2 && x->tokens == TOKENS_NONE);
    cr_assert(text->missing == MISSING_DROP && text->tokens == TOKENS_TYPES && text->lowercase);
    cr_assert(strstr(text->vocabulary, "v.txt"));
    compiled_finish(&c);
}

/* Integers are drawn where it is known of what they are an index. */
Test(train, random_inputs_are_real_numbers_indices_or_truth_values) {
    static const char text[] = "net n() { input ids : %s[4]; param table : f32[8, 2] = normal(1); loss sum(embedding(table, %s)); }\n"
                               "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }\n";
    static const struct {
        const char *dtype, *index;
        bool accepted;
    } cases[] = {{"i32", "ids", true},
                 {"i64", "reshape(ids, shape = [2, 2])", true},
                 {"i32", "ids + 1", true},
                 {"i32", "ids * ids", false},
                 {"bool", "cast(ids, to = i32)", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char source[512];
        snprintf(source, sizeof source, text, cases[i].dtype, cases[i].index);
        compile(&c, source, 2);
        if (cases[i].accepted)
            expect_accepted(&c);
        else
            expect_error(&c, 2, 16, "normal draws real numbers and indices, and input ids is i32");
        compiled_finish(&c);
    }
}
