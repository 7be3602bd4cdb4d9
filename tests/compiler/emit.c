#include "compile.h"
#include "ir/file.h"

static int count_lines(const Text *text) {
    int lines = 0;
    for (size_t i = 0; i < text->n; i++)
        lines += text->at[i] == '\n';
    return lines;
}

Test(emit, the_same_net_gives_the_same_bytes) {
    Compiled x, y;
    compiled(&x, quickstart, 8, 2);
    compiled(&y, quickstart, 8, 2);
    cr_expect_str_eq(x.c.text.at, y.c.text.at);
    compiled_finish(&x);
    compiled_finish(&y);
}

Test(emit, the_file_holds_the_bytes_that_were_proved) {
    Compiled x;
    Error error;
    char *text;
    size_t n;
    compiled(&x, quickstart, 8, 2);
    cr_assert(file_read(&x.arena, x.output, 1 << 20, &text, &n, &error), "%s", error.text);
    cr_expect_eq(n, x.c.text.n);
    cr_expect_str_eq(text, x.c.text.at);
    cr_expect(strstr(text, "\ncertificate \"") != NULL);
    Plan plan;
    Proof proof;
    cr_assert(plan_read(&plan, &x.arena, x.output, text, n, 0, &error), "%s", error.text);
    cr_expect(proof_check(&plan, NULL, &proof, &error), "%s", error.text);
    compiled_finish(&x);
}

Test(emit, without_proof_there_is_no_certificate) {
    Compiled x;
    compiled_init(&x, 8, 2);
    x.options.prove = false;
    cr_assert(compiled_run(&x, quickstart));
    cr_expect(strstr(x.c.text.at, "certificate") == NULL);
    compiled_finish(&x);
}

Test(emit, a_plan_that_is_not_proved_is_not_written) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    unlink(x.output);
    Role *role = &x.c.plan.programs.at[0].roles.at[0];
    for (int s = 0; s + 1 < role->steps.n; s++) /* one communication is not waited for before its result is used */
        if (role->steps.at[s].kind == STEP_WAIT) {
            Step wait = role->steps.at[s];
            role->steps.at[s] = role->steps.at[s + 1];
            role->steps.at[s + 1] = wait;
            break;
        }
    text_finish(&x.c.text);
    x.c.text = (Text){0};
    x.c.plan.certificate = NULL;
    plan_print(&x.c.text, &x.c.plan);
    cr_expect(!pass_prove(&x.c));
    cr_expect_eq(x.c.error.code, EXIT_INTERNAL);
    cr_expect_neq(access(x.output, F_OK), 0);
    compiled_finish(&x);
}

Test(emit, the_size_does_not_grow_with_the_number_of_ranks) {
    const char *net =
        "net n(batch = 8192) { input x : f32[batch, 64]; input label : f32[batch, 64]; param w : f32[64, 64] = normal(0.1);\n"
        "param v : f32[64, 64] = normal(0.1); loss mse(matmul(relu(matmul(x, w)), v), label); }\n" TRAIN "parallel { mode = auto; }\n";
    int ranks[] = {8, 64, 4096}, lines[3];
    for (int i = 0; i < 3; i++) {
        Compiled x;
        compiled(&x, net, ranks[i], 2);
        lines[i] = count_lines(&x.c.text);
        compiled_finish(&x);
    }
    cr_expect_eq(lines[0], lines[1]);
    cr_expect_eq(lines[0], lines[2]);
}

Test(emit, the_hash_is_of_the_net_not_of_how_it_is_compiled) {
    Compiled x, y, z;
    compiled(&x, quickstart, 8, 2);
    compiled(&y, quickstart, 8, 0);
    compiled_init(&z, 1, 2);
    z.options.overrides.mode = "stand_alone";
    cr_assert(compiled_run(&z, quickstart));
    cr_expect_eq(x.c.net_hash, y.c.net_hash);
    cr_expect_eq(x.c.net_hash, z.c.net_hash);
    compiled_finish(&x);
    compiled_finish(&y);
    compiled_finish(&z);
}
