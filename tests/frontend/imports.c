#include "ir/file.h"
#include "tests/frontend/compile.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAIN "net q(batch = 4) {\n input x : f32[batch, 8];\n y = f(x);\n loss mean(y);\n}\n" TRAIN

static char folder[] = "/tmp/imports-XXXXXX";

static void enter(void) {
    cr_assert(mkdtemp(folder) && chdir(folder) == 0 && mkdir("lib", 0700) == 0 && mkdir("other", 0700) == 0);
}

static void leave(void) {
    cr_assert_eq(chdir("/"), 0);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

static void put(const char *path, const char *text) {
    Error error;
    cr_assert(file_write(path, text, strlen(text), &error), "%s", error.text);
}

static void compile_file(Compiled *c, const char *path, const Overrides *flags) {
    Error error;
    char *text;
    size_t n;
    arena_init(&c->arena);
    diags_init(&c->diags, &c->arena);
    cr_assert(file_read(&c->arena, path, 1 << 20, &text, &n, &error), "%s", error.text);
    c->accepted = frontend_compile(path, text, n, flags, &c->graph, &c->arena, &c->diags);
}

TestSuite(imports, .init = enter, .fini = leave);

Test(imports, are_relative_to_the_file_that_imports) {
    Compiled c;
    put("main.dsl", "import \"lib/a.dsl\";\n" MAIN);
    put("lib/a.dsl", "import \"b.dsl\";\ncell f(x) { return g(x); }\n");
    put("lib/b.dsl", "cell g(x) { param w : f32[8] = file(\"w.npy\"); return x * w; }\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    expect_accepted(&c);
    cr_expect_str_eq(c.graph.states.at[0].init.file, "lib/w.npy");
    cr_expect_str_eq(graph_file(&c.graph, c.graph.states.at[0].span), "lib/b.dsl");
    cr_expect_str_eq(graph_file(&c.graph, c.graph.inputs.at[0].span), "main.dsl");
    compiled_finish(&c);
}

/* A library puts what it makes beside x behind the operator's name; in the cell itself, and in no other, the name is the operator's. */
Test(imports, a_cell_with_the_name_of_an_operator_stands_before_it) {
    Compiled c;
    put("main.dsl",
        "import \"lib/a.dsl\";\nnet q(batch = 4) {\n input x : f32[batch, 8];\n y = rms_norm(x);\n z = twice(y);\n loss mean(z);\n}\n" TRAIN);
    put("lib/a.dsl",
        "cell rms_norm(x) { param w : f32[8] = ones; return rms_norm(x, w, eps = 0.5); }\ncell twice(x) { return rms_norm(rms_norm(x)); }\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "y")->op, OP_rms_norm);
    cr_expect_eq(c.graph.states.n, 3);
    compiled_finish(&c);
}

Test(imports, are_looked_for_in_the_folders_in_their_order) {
    Compiled c;
    put("main.dsl", "import \"a.dsl\";\n" MAIN);
    put("lib/a.dsl", "cell f(x) { return relu(x); }\n");
    put("other/a.dsl", "cell f(x) { return exp(x); }\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2, .nfolders = 3, .folder = (const char *const[]){"none", "other", "lib"}});
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "y")->op, OP_exp);
    compiled_finish(&c);
}

Test(imports, are_read_once) {
    Compiled c;
    put("main.dsl", "import \"lib/a.dsl\";\nimport \"lib/../lib/a.dsl\";\nimport \"lib/b.dsl\";\n" MAIN);
    put("lib/a.dsl", "cell f(x) { return relu(x) * k; }\n");
    put("lib/b.dsl", "import \"a.dsl\";\nlet k = 2;\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    expect_accepted(&c);
    cr_expect_eq(c.diags.files.n, 3);
    compiled_finish(&c);
}

Test(imports, of_each_other_are_an_error_that_shows_the_chain) {
    Compiled c;
    put("main.dsl", "import \"lib/a.dsl\";\n" MAIN);
    put("lib/a.dsl", "import \"../main.dsl\";\ncell f(x) { return x; }\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    expect_error(&c, 1, 8, "files import each other: main.dsl imports lib/a.dsl imports main.dsl");
    cr_expect_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(imports, that_are_no_files_are_errors) {
    static const char *const names[] = {"lib", "/dev/zero", "none.dsl", ""};
    for (int i = 0; i < 4; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, "import \"%s\";\n%s", names[i], MAIN);
        put("main.dsl", text);
        compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
        cr_expect_not(c.accepted, "%s", names[i]);
        compiled_finish(&c);
    }
}

/* 2^20 imports in a text of 20 files, if each were read anew. */
Test(imports, of_imports_do_not_explode) {
    Compiled c;
    put("main.dsl", "import \"lib/0.dsl\";\n" MAIN);
    for (int i = 0; i < 20; i++) {
        char path[64], text[256];
        snprintf(path, sizeof path, "lib/%d.dsl", i);
        snprintf(text, sizeof text, "import \"%d.dsl\";\nimport \"%d.dsl\";\ncell c%d(x) { return x; }\n", i + 1, i + 1, i);
        put(path, text);
    }
    put("lib/20.dsl", "cell f(x) { return relu(x); }\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    expect_accepted(&c);
    compiled_finish(&c);
}

Test(imports, a_file_of_hints_holds_what_the_net_does_not) {
    Compiled c;
    put("main.dsl", "import \"lib/a.dsl\";\n" MAIN);
    put("lib/a.dsl", "cell f(x) { return relu(x); }\n");
    put("hints.dsl", "hints { y = (dp, -); }\nparallel { mesh (dp = 2); }\n");
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2, .nhint_files = 1, .hint_file = (const char *const[]){"hints.dsl"}});
    expect_accepted(&c);
    cr_expect(node_named(&c.graph, "y")->hint);
    compiled_finish(&c);
}

/* One error, not one for each of them. */
Test(imports, beyond_a_thousand_files_are_one_error) {
    enum { FILES = 1200 };
    Compiled c;
    Text main = {0};
    for (int i = 0; i < FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "lib/%d.dsl", i);
        put(path, "");
        text_printf(&main, "import \"%s\";\n", path);
    }
    text_printf(&main, "%s", "import \"none.dsl\";\n" MAIN);
    put("main.dsl", main.at);
    text_finish(&main);
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    expect_error(&c, 1001, 8, "more than 1000 files are imported");
    cr_expect_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(imports, in_a_deep_chain_are_one_error) {
    Compiled c;
    put("main.dsl", "import \"lib/0.dsl\";\nimport \"lib/0.dsl\";\nimport \"lib/30.dsl\";\n" MAIN);
    for (int i = 0; i < 100; i++) {
        char path[64], text[128];
        snprintf(path, sizeof path, "lib/%d.dsl", i);
        snprintf(text, sizeof text, "import \"%d.dsl\";\nimport \"%d.dsl\";\n", i + 1, i + 2);
        put(path, text);
    }
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2});
    cr_expect_eq(c.diags.nerrors, 1);
    cr_expect(strstr(c.diags.items.at[0].text, "imports nest more than 64 deep"), "%s", c.diags.items.at[0].text);
    compiled_finish(&c);
}

Test(imports, of_a_pipe_do_not_wait_for_who_writes_it) {
    Compiled c;
    cr_assert_eq(mkfifo("lib/p.dsl", 0600), 0);
    put("main.dsl", "import \"lib/p.dsl\";\n" MAIN);
    alarm(10);
    compile_file(&c, "main.dsl", &(Overrides){.nranks = 2, .nhint_files = 1, .hint_file = (const char *const[]){"lib/p.dsl"}});
    expect_error(&c, 1, 8, "'lib/p.dsl' is a pipe; an import names an ordinary file");
    cr_expect(strstr(c.diags.items.at[1].text, "--hints: cannot read lib/p.dsl: it is a pipe"), "%s", c.diags.items.at[1].text);
    alarm(0);
    compiled_finish(&c);
}
