#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include "compile.h"
#include "compiler/commands.h"

enum { OUTPUT_BYTES = 1 << 15 };

/* The plan of a net, in a file of its own. */
static void make(char path[64], const char *name, const char *net, int nranks, int optimize) {
    Compiled x;
    compiled_init(&x, nranks, optimize);
    snprintf(path, 64, "/tmp/pcc-diff-%ld-%s.plan", (long)getpid(), name);
    x.options.output = path;
    cr_assert(compiled_run(&x, net), "%s", x.c.error.text);
    compiled_finish(&x);
}

static int run(const char *a, const char *b, const char *flag, char out[OUTPUT_BYTES]) {
    char words[4][128];
    char *argv[] = {words[0], words[1], words[2], words[3]};
    snprintf(words[0], sizeof words[0], "--diff");
    snprintf(words[1], sizeof words[1], "%s", a);
    snprintf(words[2], sizeof words[2], "%s", b);
    snprintf(words[3], sizeof words[3], "%s", flag ? flag : "");
    cr_redirect_stdout();
    cr_redirect_stderr();
    int code = diff_command(flag ? 4 : 3, argv);
    fflush(stdout);
    fflush(stderr);
    size_t n = fread(out, 1, OUTPUT_BYTES / 2, cr_get_redirected_stdout());
    n += fread(out + n, 1, OUTPUT_BYTES / 2 - 1, cr_get_redirected_stderr());
    out[n] = '\0';
    return code;
}

Test(diff, a_plan_is_the_same_as_itself) {
    char a[64], b[64], out[OUTPUT_BYTES];
    make(a, "a", quickstart, 8, 2);
    make(b, "b", quickstart, 8, 2);
    cr_expect_eq(run(a, b, NULL, out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "do the same") != NULL, "%s", out);
    unlink(a), unlink(b);
}

Test(diff, levels_differ_in_communication_and_memory_not_in_strategies) {
    char a[64], b[64], out[OUTPUT_BYTES];
    make(a, "a", quickstart, 8, 0);
    make(b, "b", quickstart, 8, 2);
    cr_expect_eq(run(a, b, NULL, out), EXIT_REJECTED, "%s", out);
    cr_expect(strstr(out, "the nets differ") == NULL, "%s", out);
    cr_expect(strstr(out, "strategies:") == NULL, "%s", out);
    cr_expect(strstr(out, "    - all_reduce (2, 1) [2@4 -] +sum(4@1) -> (2, 1) [2@4 -], 6.0 KiB; strided_slice") != NULL, "%s", out);
    cr_expect(strstr(out, "    + reduce_scatter (2, 1) [2@4 -] +sum(4@1) -> (2, 4) [2@4 4@1], 3.0 KiB") != NULL, "%s", out);
    cr_expect(strstr(out, "states of a rank             1.5 KiB\n") != NULL, "%s", out);
    unlink(a), unlink(b);
}

Test(diff, fused_steps_are_said_with_their_members_and_what_has_no_memory) {
    char a[64], b[64], out[OUTPUT_BYTES];
    make(a, "a", quickstart, 8, 1);
    make(b, "b", quickstart, 8, 2);
    cr_expect_eq(run(a, b, NULL, out), EXIT_REJECTED, "%s", out);
    cr_expect(
        strstr(
            out,
            "\n  mean_grad loss.square.grad\n    + with mul loss.diff.grad, add d_loss.diff; without memory: loss.square.grad, loss.diff.grad\n") !=
            NULL,
        "%s", out);
    cr_expect(strstr(out, "inner values of a rank       0 B -> ") != NULL, "%s", out);
    unlink(a), unlink(b);
}

/* What one stage sends another is one communication, and a rank holds what its stage does. */
Test(diff, roles_are_counted_once) {
    static const char net[] =
        "net n(batch = 64) { input x : f32[batch, 64]; param w1 : f32[64, 128] = normal(0.1); param w2 : f32[128, 16] = normal(0.1);\n"
        "  h = tanh(matmul(x, w1)); y = tanh(matmul(h, w2)); loss mean(y * y); }\n"
        "train { data = normal(seed = 1); steps = 2; optimizer = sgd(lr = 0.01); micro_batches = 2; }\n"
        "parallel { stages = 2; %s }\nhints { h = stage 0; y.matmul = stage 1; }\n";
    char a[64], b[64], out[OUTPUT_BYTES], text[1024];
    snprintf(text, sizeof text, net, "");
    make(a, "a", text, 2, 2);
    snprintf(text, sizeof text, net, "pipeline_scheduler = gpipe;");
    make(b, "b", text, 2, 2);
    cr_expect_eq(run(a, b, NULL, out), EXIT_REJECTED, "%s", out);
    cr_expect(strstr(out, "communications               5\n") != NULL, "two activations, two gradients, the loss: %s", out);
    cr_expect(strstr(out, "states of a rank             32.0 KiB\n") != NULL, "%s", out);
    unlink(a), unlink(b);
}

Test(diff, json_has_both_sides_of_every_change) {
    char a[64], b[64], out[OUTPUT_BYTES], other[2048];
    /* the same net under another strategy */
    const char *hint = strstr(quickstart, "((2, 4), (4, 1))");
    snprintf(other, sizeof other, "%.*s((4, 2), (2, 1))%s", (int)(hint - quickstart), quickstart, hint + strlen("((2, 4), (4, 1))"));
    make(a, "a", quickstart, 8, 2);
    make(b, "b", other, 8, 2);
    cr_expect_eq(run(a, b, "--json", out), EXIT_REJECTED);
    cJSON *json = cJSON_Parse(out);
    cr_assert_not_null(json, "%s", out);
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItem(json, "same")));
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(json, "same_net")));
    const cJSON *first = cJSON_GetObjectItem(json, "strategies")->child;
    cr_expect_str_eq(cJSON_GetObjectItem(first, "name")->valuestring, "matmul h");
    cr_expect(strncmp(cJSON_GetObjectItem(first, "a")->valuestring, "(2, 4) [2@4 4@1], (4, 1)", 24) == 0, "%s", out);
    cr_expect(strncmp(cJSON_GetObjectItem(first, "b")->valuestring, "(4, 2) [4@2 2@1], (2, 1)", 24) == 0, "%s", out);
    const cJSON *states = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "totals"), "states");
    cr_expect_eq(cJSON_GetObjectItem(states, "a")->valueint, 1536);
    cr_expect_gt(cJSON_GetObjectItem(states, "b")->valueint, 1536);
    cJSON_Delete(json);
    unlink(a), unlink(b);
}

Test(diff, nets_that_differ_are_said_so_first) {
    char a[64], b[64], out[OUTPUT_BYTES];
    make(a, "a", quickstart, 8, 2);
    make(b, "b", nets[1], 8, 2);
    cr_expect_eq(run(a, b, NULL, out), EXIT_REJECTED);
    const char *first = strchr(strchr(out, '\n') + 1, '\n') + 1; /* after --- and +++ */
    cr_expect_eq(strncmp(first, "the nets differ: quickstart (", 29), 0, "%s", out);
    unlink(a), unlink(b);
}

Test(diff, operators_that_one_net_alone_has_are_told) {
    char a[64], b[64], out[OUTPUT_BYTES];
    make(a, "a", quickstart, 8, 2);
    make(b, "b", nets[1], 8, 2);
    cr_expect_eq(run(a, b, "--json", out), EXIT_REJECTED);
    cr_expect(strstr(out, "\"a\": null") != NULL && strstr(out, "\"b\": null") != NULL, "%s", out);
    unlink(a), unlink(b);
}

Test(diff, what_cannot_be_read_is_an_error_of_its_own) {
    char a[64], out[OUTPUT_BYTES];
    make(a, "a", quickstart, 8, 2);
    cr_expect_eq(run(a, "/tmp/pcc-diff-there-is-none.plan", NULL, out), EXIT_ENVIRONMENT);
    cr_expect(strstr(out, "there-is-none.plan") != NULL, "%s", out);
    cr_expect_eq(run(a, a, "--jsno", out), EXIT_USAGE);
    unlink(a);
}
